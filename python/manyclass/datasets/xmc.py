"""Text files of sparse rows, with numbered labels (the XMC repository's form) or words (svmlight's); their folders."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.compressed import LONGEST_LINE, SUFFIXES, is_compressed
from manyclass.datasets.binary_csr import read_matrices, write_matrices
from manyclass.datasets.csr import joined_rows
from manyclass.datasets.inputs import MOST_COLUMNS, Header, Input, Layout, RowSource, check_columns
from manyclass.datasets.label_words import Words
from manyclass.datasets.preprocessing import (
    drop_empty_rows,
    drop_unseen_classes,
    first_label,
    l2_normalize,
    scale_by_max,
    truncate_features,
)
from manyclass.weights.arrays import csr_from_core

Matrices = tuple[sparse.csr_array, sparse.csr_array]
WordRows = tuple[sparse.csr_array, Words]

CACHE_SUFFIX = ".csr.safetensors"
BLOCK = 1 << 23  # bytes of text that are parsed at once: 8 MB, some hundredths of a second
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_VARIABLE = "MANYCLASS_DATA"
_ENDINGS = ("", *SUFFIXES)


def load_xmc(
    path: str | os.PathLike[str],
    *,
    header: bool | Literal["auto"] = "auto",
    zero_based: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_jobs: int | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Read a text file in the form of the XMC repository.

    Its lines are ``l1,l2,... j:v j:v ...``, after an optional first line ``N D L``.

    A line is a row: its labels, separated by commas, then its features, separated by blanks. Both may be
    missing; a line that begins with a blank or with a feature has no labels. Rows are sorted by feature;
    a feature or a label that occurs twice in a row is refused, and so is svmlight's ``qid:``. Text behind
    ``#`` is a comment, and a line with nothing else is skipped. A blank line is a row without labels and features, but
    for those behind the last row that a header promises; a million of them, one after the other, are refused.

    Values become the nearest float32, explicit zeros included. Plain files are mapped and parsed in place.
    Compressed files (gzip, xz, bzip2 and Zstandard, as their first bytes tell) are parsed as they are decompressed.

    Parameters
    ----------
    path : str or path-like
        The file.
    header : bool or 'auto', default='auto'
        Whether the first line is ``N D L``: the numbers of rows, features and labels. With 'auto' it is if it
        holds three integers; no row looks like that.
    zero_based : bool, default=True
        Whether the first feature has number 0 in the file, or 1. Labels are always taken as they are.
    n_features : int, optional
        Columns of X, in place of the header's D. Without either they are the largest number found + 1.
    n_labels : int, optional
        Columns of Y, in place of the header's L, likewise.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 is all processors that this process may use. The result
        does not depend on it.
    cache : str, path-like or bool, optional
        A file to keep the result in (see `save_csr`), or True for one beside `path`, named
        ``<path>.csr.safetensors``. It is mapped instead of parsing if it was made from a file of this name,
        size and time of modification with the same options; else it is replaced.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features), float32
        Features, with sorted indices.
    Y : csr_array of shape (n_samples, n_labels), float32
        Ones. The indices of a row keep the order of the file, so that the first one is the first label
        (`first_label`); SciPy's in-place methods that sort indices would lose it.

    Raises
    ------
    ValueError
        If the file is malformed, with file, line and column of the first bad line; if it has more or fewer
        rows than its header promises; if a compressed file is damaged, or is none although its name says so; if
        an option is out of range; or if the file at `cache` is not such a cache.
    OSError
        If a file cannot be read or written.
    ImportError
        If the file is compressed by Zstandard and pyarrow, of the extra "tables", is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyclass.datasets import load_xmc
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "toy.txt"
    ...     _ = path.write_text("2 4 3\\n2,0 0:1 3:0.5\\n 1:2\\n")
    ...     X, Y = load_xmc(path)
    >>> X.shape, Y.shape, Y.indices.tolist()
    ((2, 4), (2, 3), [2, 0])
    """
    if header not in (True, False, "auto"):
        raise ValueError(f"header is {header!r}; it must be one of True, False, 'auto'")
    check_columns(n_features=n_features, n_labels=n_labels)
    layout = Layout(header, zero_based, n_features, n_labels, n_threads_from(n_jobs))
    source = Input(os.fspath(path))
    if cache is None or cache is False:
        return read_xmc(source, layout)
    return read_cached(source, layout, source.path + CACHE_SUFFIX if cache is True else cache)


def read_cached(source: Input, layout: Layout, cache: str | os.PathLike[str]) -> Matrices:
    """Return what a cache has of a file, or read the file and write the cache; see `load_xmc`."""
    if source.content is not None:
        raise ValueError(f"--cache needs a file; {source.name} is none")
    path, status = Path(source.path), os.stat(source.path)
    options = [layout.header, layout.zero_based, layout.n_features, layout.n_labels]
    facts = {"file": path.name, "size": status.st_size, "mtime_ns": status.st_mtime_ns, "options": options}
    stamp = json.dumps(facts)
    if os.path.exists(cache):
        X, Y, metadata = read_matrices(cache)
        if metadata.get("source") == stamp and Y is not None:
            return X, Y
    X, Y = read_xmc(source, layout)
    write_matrices(cache, X, Y, {"source": stamp})
    return X, Y


def read_xmc(source: Input, layout: Layout) -> Matrices:
    """Return X and Y of an input as `load_xmc` does, which says what it raises.

    A plain file is parsed through a map of it, a pipe's bytes as they are, and others in blocks, so that their whole
    text is never in memory.
    """
    path = Path(source.path)
    if source.content is not None:
        text = np.frombuffer(source.read(), np.uint8)
    elif stat.S_ISREG(path.stat().st_mode) and not is_compressed(path):
        # An empty map does not exist.
        text = np.asarray(np.memmap(path, np.uint8, "r")) if path.stat().st_size else np.empty(0, np.uint8)
    else:  # a pipe cannot be mapped
        reader = block_reader(source, layout)
        blocks = list(_blocks(source, reader))
        widths = reader.n_features, reader.n_labels
        X, Y = (joined_rows([block[i] for block in blocks], width) for i, width in enumerate(widths))
        X.has_canonical_format = True
        return X, Y
    n_mark = len(BYTE_ORDER_MARK) if text[:3].tobytes() == BYTE_ORDER_MARK else 0
    sizes = layout.zero_based is not False, layout.n_features, layout.n_labels, layout.n_threads
    return matrices_from(_core.read_xmc(text[n_mark:], source.name, _core_header(layout.header), *sizes))


def _core_header(header: Header) -> bool | None:
    """Return whether there is a header, as the core takes it."""
    return None if header == "auto" else header


def matrices_from(arrays: tuple[Any, ...]) -> Matrices:
    """Return X and Y over the arrays that the core has parsed."""
    width, n_classes, x_indptr, x_indices, x_data, y_indptr, y_indices = arrays
    n_samples = len(x_indptr) - 1
    X = csr_from_core(x_data, x_indices, x_indptr, (n_samples, width))
    X.has_canonical_format = True
    ones = np.ones(len(y_indices), np.float32)
    return X, csr_from_core(ones, y_indices, y_indptr, (n_samples, n_classes))


def header_of(source: Input, header: Header) -> tuple[int, int, int] | None:
    """Return N, D and L of the first line, None where it is no header."""
    with source.opened() as file:
        line = file.readline(LONGEST_LINE).removeprefix(BYTE_ORDER_MARK)
        return _core.xmc_header(line, source.name, _core_header(header))


def block_reader(source: Input, layout: Layout) -> _core.XmcBlocks:
    """Return what parses the text of an input block by block; columns that nothing tells are `MOST_COLUMNS`."""
    sizes = layout.zero_based is not False, layout.n_features, layout.n_labels
    return _core.XmcBlocks(source.name, _core_header(layout.header), *sizes, LONGEST_LINE, layout.n_threads)


def _blocks(source: Input, reader: _core.XmcBlocks) -> Iterator[Matrices]:
    """Yield the rows of an input, as many at once as a block of text has."""
    with source.opened() as file:
        mark, text = BYTE_ORDER_MARK, None
        while text != b"":
            piece = file.read(BLOCK)
            text, mark = piece.removeprefix(mark), b""
            X, Y = matrices_from(reader.add(text))
            if X.shape[0]:
                yield X, Y


def open_xmc(inputs: Sequence[Input], layout: Layout, *, any_labels: bool = False) -> RowSource:
    """Return what reads inputs with the same columns, whose rows are read a block of text at a time.

    Their numbers, where neither the layout nor the first header tells them, are found by reading all rows; with
    `any_labels` that of labels may stay unknown.
    """
    headers = [header_of(source, layout.header) for source in inputs]
    _, d, k = headers[0] or (0, None, None)
    d = d if layout.n_features is None else layout.n_features
    k = k if layout.n_labels is None else layout.n_labels
    check_columns(n_features=d, n_labels=k)
    layout = replace(layout, n_features=d, n_labels=k)
    if d is None or (k is None and not any_labels):
        d, n_labels = _count_columns(inputs, layout)
        k = k if any_labels else n_labels
        layout = replace(layout, n_features=d, n_labels=k)

    def blocks(size: int) -> Iterator[Matrices]:
        for source in inputs:
            yield from _blocks(source, block_reader(source, layout))

    n_rows = sum(header[0] for header in headers if header) if all(headers) else None
    return RowSource(blocks, d, k, n_rows, layout.zero_based is not False)


def _count_columns(inputs: Sequence[Input], layout: Layout) -> tuple[int, int]:
    """Return the numbers of columns of X and of Y over all rows, which are read for this."""
    readers = [block_reader(source, layout) for source in inputs]
    for source, reader in zip(inputs, readers, strict=True):
        for _ in _blocks(source, reader):
            pass
    return max(reader.n_features for reader in readers), max(reader.n_labels for reader in readers)


# The form of svmlight. The core reads the features; it sees a 0 in the place of each label, so that lines and columns
# of its messages are those of the file.


def open_svmlight(inputs: Sequence[Input], layout: Layout) -> RowSource:
    """Return what reads inputs with the same columns; all rows are read first unless the layout tells these."""
    layout = _svmlight_layout(inputs[0].name, layout, lambda: _numbered(inputs, layout))

    def blocks(size: int) -> Iterator[WordRows]:
        for X, words in _numbered(inputs, layout):
            yield _shifted(X, layout, inputs[0].name), words

    return RowSource(blocks, layout.n_features, zero_based=bool(layout.zero_based))


def read_svmlight(source: Input, layout: Layout) -> tuple[list[WordRows], bool]:
    """Read all rows of an input once; return blocks of them, and whether the first feature has number 0."""
    numbered = list(_numbered([source], layout))
    layout = _svmlight_layout(source.name, layout, lambda: numbered)
    return [(_shifted(X, layout, source.name), words) for X, words in numbered], bool(layout.zero_based)


def _svmlight_layout(name: str, layout: Layout, read_rows: Callable[[], Iterable[WordRows]]) -> Layout:
    """Return the layout with the number of features and where they begin, of all rows unless it tells both."""
    if layout.n_features is not None and layout.zero_based is not None:
        return layout
    ends = [(int(X.indices.min(initial=MOST_COLUMNS)), int(X.indices.max(initial=-1))) for X, _ in read_rows()]
    if not ends:
        raise ValueError(f"{name}: the file has no rows")
    lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
    zero_based = lowest == 0 if layout.zero_based is None else layout.zero_based
    n_features = max(0, highest + zero_based) if layout.n_features is None else layout.n_features
    if highest + zero_based > n_features:
        raise ValueError(f"{name}: feature {highest} is outside [{1 - zero_based}, {highest})")
    return replace(layout, zero_based=zero_based, n_features=n_features)


def _numbered(inputs: Sequence[Input], layout: Layout) -> Iterator[WordRows]:
    """Yield the rows of all inputs, a feature having the column of its number."""
    n_columns = None if layout.n_features is None else layout.n_features + (layout.zero_based is not True)
    layout = replace(layout, header=False, zero_based=True, n_features=n_columns, n_labels=None)
    for source in inputs:
        reader, n_lines = block_reader(source, layout), 0
        for text in _whole_lines(source):
            letters = np.frombuffer(bytearray(text), np.uint8)
            words = _take_labels(letters, source.name, n_lines)
            X, _ = matrices_from(reader.add(letters.tobytes()))
            n_lines += text.count(b"\n")
            if words:
                yield X, words


def _whole_lines(source: Input) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines."""
    with source.opened(bounded=True) as file:
        mark, rest, n_lines = BYTE_ORDER_MARK, b"", 0
        while piece := file.read(BLOCK):
            text, mark = (rest + piece).removeprefix(mark), b""
            end = text.rfind(b"\n") + 1
            n_lines += text.count(b"\n")
            if len(text) - end > LONGEST_LINE:
                raise ValueError(f"{source.name}: a line behind line {n_lines} is longer than {LONGEST_LINE} bytes")
            if end:
                yield text[:end]
            rest = text[end:]
        if rest:
            yield rest + b"\n"


def _take_labels(letters: Any, name: str, n_lines: int) -> Words:
    """Return the labels of a block of text behind `n_lines` lines, and write 0 in their places."""
    try:
        return _core.take_svmlight_labels(letters, name)
    except ValueError as error:
        line, _, message = str(error).removeprefix(f"{name}:").partition(":")
        raise ValueError(f"{name}:{int(line) + n_lines}:{message}") from error


def _shifted(X: sparse.csr_array, layout: Layout, name: str) -> sparse.csr_array:
    """Return rows whose first feature has column 0."""
    if not layout.zero_based and X.indices.min(initial=1) == 0:
        raise ValueError(f"{name}: it has the feature 0; the first one of svmlight's form has number 1")
    shape = X.shape[0], layout.n_features or 0
    return sparse.csr_array((X.data, X.indices - (not layout.zero_based), X.indptr), shape=shape)


# Folders, as the papers use them: one label a row


@dataclass(frozen=True)
class Multiclass:
    """Training and test data with one class a row.

    Attributes
    ----------
    X_train : csr_array of shape (n_train, n_features), float32
    y_train : ndarray of shape (n_train,), int64
        Classes, by their numbers in the file; not every number need occur.
    X_test : csr_array of shape (n_test, n_features), float32
    y_test : ndarray of shape (n_test,), int64
        Classes, all of which occur in `y_train`.
    """

    X_train: sparse.csr_array
    y_train: NDArray[np.int64]
    X_test: sparse.csr_array
    y_test: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """The number of classes that occur in `y_train`."""
        return len(np.unique(self.y_train))


def load_multiclass(
    directory_or_name: str | os.PathLike[str],
    *,
    scale: Literal["l2", "max"] | None = "l2",
    n_features: int | None = None,
    n_train: int | None = None,
    n_jobs: int | None = None,
    cache: bool = False,
) -> Multiclass:
    """Read ``train.txt`` and ``test.txt`` (or with the suffix .xz, .gz, .bz2 or .zst) as multiclass data.

    The files may have a name before it, as the extreme classification repository's ``eurlex_train.txt``.

    A row's class is its first label. Then, in this order: features beyond `n_features` are cut off, training
    rows beyond `n_train`, rows without a label or without a non-zero feature are dropped, values are scaled,
    and test rows whose class has no training row are dropped.

    Parameters
    ----------
    directory_or_name : str or path-like
        A folder, if it is path-like or holds a path separator; else the name of a folder in the one that the
        environment variable MANYCLASS_DATA names.
    scale : 'l2', 'max' or None, default='l2'
        Rows divided by their norm (Fagan & Iyengar), features divided by their largest training value
        (Ruiz et al.), or nothing.
    n_features : int, optional
        Use at most that many features (10,000 in Fagan & Iyengar).
    n_train : int, optional
        Use at most that many training rows of the file (100,000 in Fagan & Iyengar).
    n_jobs : int, optional
        As in `load_xmc`.
    cache : bool, default=False
        As in `load_xmc`.

    Returns
    -------
    data : Multiclass

    Raises
    ------
    ValueError
        If the variable is not set, the name is not among its folders, an option is not among its choices, or
        a file is malformed.
    FileNotFoundError
        If the folder has no train.txt or test.txt.
    """
    if scale not in ("l2", "max", None):
        raise ValueError(f"scale is {scale!r}; it must be one of 'l2', 'max', None")
    if n_train is not None:
        check_number("n_train", n_train, low=1, integer=True)
    folder = _folder(directory_or_name)

    def read(split: str, n_rows: int | None) -> tuple[Any, ...]:
        path = split_file(folder, split)
        X, Y = load_xmc(path, n_jobs=n_jobs, cache=cache)
        y = first_label(Y)
        if n_features is not None:
            X = truncate_features(X, n_features)
        if n_rows is not None:
            X, y = X[:n_rows], y[:n_rows]
        labelled = np.flatnonzero(y >= 0)
        return drop_empty_rows(X[labelled], y[labelled])

    X_train, y_train = read("train", n_train)
    X_test, y_test = read("test", None)
    if X_train.shape[1] != X_test.shape[1]:
        raise ValueError(f"{folder}: train.txt has {X_train.shape[1]} features, test.txt has {X_test.shape[1]}")
    if scale == "l2":
        X_train, X_test = l2_normalize(X_train), l2_normalize(X_test)
    elif scale == "max":
        X_train, X_test = scale_by_max(X_train, X_test)
    X_test, y_test = drop_unseen_classes(y_train, X_test, y_test)
    return Multiclass(X_train, y_train, X_test, y_test)


def _folder(directory_or_name: str | os.PathLike[str]) -> Path:
    name = os.fspath(directory_or_name)
    if not isinstance(directory_or_name, str) or os.path.dirname(name):
        return Path(name)
    root = os.environ.get(_VARIABLE)
    files = (path for ending in _ENDINGS for path in Path(root).glob(f"*/train.txt{ending}")) if root else ()
    names = sorted({file.parent.name for file in files})
    if root is None or name not in names:
        raise ValueError(
            f"{name!r} must be a data set in the folder that the environment variable {_VARIABLE} names, which is "
            f"{root!r}, one of {', '.join(map(repr, names)) or 'none'}; a folder elsewhere has a separator in its name"
        )
    return Path(root) / name


def split_file(folder: Path, split: str) -> Path:
    """Return the file "train.txt" or "test.txt" of a folder, or the one of another name before it, as in "a_train.txt".

    Raises FileNotFoundError if there is none, ValueError if several have names before it.
    """
    plain, named = (
        [path for ending in _ENDINGS for path in sorted(folder.glob(f"{pattern}.txt{ending}"))]
        for pattern in (split, f"*_{split}")
    )
    if len(named) > 1 and not plain:
        raise ValueError(f"{folder} holds {', '.join(p.name for p in named)}; it must hold one *_{split}.txt")
    if plain or named:
        return [*plain, *named][0]
    raise FileNotFoundError(f"{folder} holds none of " + ", ".join(f"{split}.txt{e}" for e in _ENDINGS))
