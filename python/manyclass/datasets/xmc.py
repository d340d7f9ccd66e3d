"""Text files of sparse data with several labels a row, in the XMC repository's form or svmlight's."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.compressed import LONGEST_LINE, is_compressed, opened
from manyclass.datasets.binary_csr import read_matrices, write_matrices
from manyclass.datasets.csr import csr_from_core

Header = bool | Literal["auto"]
Rows = tuple[sparse.csr_array, sparse.csr_array]

CACHE_SUFFIX = ".csr.safetensors"
MOST_COLUMNS = 2**31 - 1  # what an index of 32 bits can tell apart
BLOCK = 1 << 23  # bytes of text that are parsed at once: 8 MB, some hundredths of a second


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
    ``#`` is a comment, and a line with nothing else is skipped. A blank line is an empty row in a file with a
    header, and is skipped in one without, as in svmlight files.

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
    n_features, n_labels : int, optional
        Columns of X and of Y, in place of the header's D and L. Without either they are the largest number
        found + 1.
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
    for what, columns in (("n_features", n_features), ("n_labels", n_labels)):
        if columns is not None and not 0 <= columns <= MOST_COLUMNS:
            raise ValueError(f"{what} is {columns}; it must be in [0, {MOST_COLUMNS}]")
    layout = Layout(header, zero_based, n_features, n_labels, n_threads_from(n_jobs))
    source = Path(path)
    if cache is None or cache is False:
        return _read(source, layout)

    kept = Path(os.fspath(path) + CACHE_SUFFIX) if cache is True else Path(cache)
    status = source.stat()
    stamp = json.dumps(
        {
            "file": source.name,
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "options": [header, zero_based, n_features, n_labels],
        }
    )
    if kept.exists():
        X, Y, metadata = read_matrices(kept)
        if metadata.get("source") == stamp and Y is not None:
            return X, Y
    X, Y = _read(source, layout)
    write_matrices(kept, X, Y, {"source": stamp})
    return X, Y


@dataclass(frozen=True)
class Layout:
    """How a text is read: the parameters of `load_xmc`, with a number of threads. None of columns: not known yet."""

    header: Header
    zero_based: bool
    n_features: int | None
    n_labels: int | None
    n_threads: int


def _read(path: Path, layout: Layout) -> Rows:
    """Parse a file: a plain one through a map of it, others in blocks, so that their whole text is never in memory."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or is_compressed(path):  # a pipe cannot be mapped
        reader = _reader(path, layout)
        parts = list(_blocks(path, reader))
        widths = reader.n_features, reader.n_labels
        X, Y = (_stacked([part[i] for part in parts], width) for i, width in enumerate(widths))
        X.has_canonical_format = True
        return X, Y
    # An empty map does not exist.
    text = np.asarray(np.memmap(path, np.uint8, "r")) if status.st_size else np.empty(0, np.uint8)
    return parse_xmc(text, str(path), layout)


def _stacked(parts: list[sparse.csr_array], width: int) -> sparse.csr_array:
    """One matrix of the rows of several, of which none has a larger index than the width allows."""
    if not parts:
        return sparse.csr_array(np.empty((0, width), np.float32))
    whole = parts[0] if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts, format="csr"))
    return sparse.csr_array((whole.data, whole.indices, whole.indptr), shape=(whole.shape[0], width))


def parse_xmc(text: NDArray[np.uint8], name: str, layout: Layout) -> Rows:
    """Read what `load_xmc` reads from memory.

    Parameters
    ----------
    text : ndarray of uint8
        The bytes of the text.
    name : str
        What messages call it.
    layout : Layout

    Returns
    -------
    X, Y : csr_array
        As `load_xmc` gives them.

    Raises
    ------
    ValueError
        As `load_xmc` does for a malformed text.
    """
    sizes = layout.zero_based, layout.n_features, layout.n_labels, layout.n_threads
    return _matrices(_core.read_xmc(text, name, _header(layout.header), *sizes))


def _header(header: Header) -> bool | None:
    """Whether there is a header, as the core takes it."""
    return None if header == "auto" else header


def _matrices(found: tuple[Any, ...]) -> Rows:
    width, n_classes, x_indptr, x_indices, x_data, y_indptr, y_indices = found
    n_samples = len(x_indptr) - 1
    X = csr_from_core(x_data, x_indices, x_indptr, (n_samples, width))
    X.has_canonical_format = True
    ones = np.ones(len(y_indices), np.float32)
    return X, csr_from_core(ones, y_indices, y_indptr, (n_samples, n_classes))


@dataclass(frozen=True)
class XmcFiles:
    """Text files with the same columns, whose rows are read a block of text at a time.

    Attributes
    ----------
    files : sequence of Path
    layout : Layout
    n_features : int
    n_labels : int or None
        None where any label may come.
    n_rows : int or None
        None where a file has no header.
    """

    files: Sequence[Path]
    layout: Layout
    n_features: int
    n_labels: int | None
    n_rows: int | None

    @classmethod
    def of(cls, files: Sequence[Path], layout: Layout, *, any_labels: bool = False) -> XmcFiles:
        """Find the numbers of columns; raises ValueError where nothing tells them.

        With `any_labels` that of the labels may stay unknown.
        """
        headers = [_first_header(file, layout.header) for file in files]
        sizes = {"n_features": layout.n_features, "n_labels": layout.n_labels}
        for (name, given), told in zip(sizes.items(), (headers[0] or (0, None, None))[1:], strict=True):
            size = told if given is None else given
            if size is None and not (any_labels and name == "n_labels"):
                raise ValueError(
                    f"{files[0]} has no header `N D L`; a stream must know its columns before it begins: set {name}"
                )
            if size is not None:
                check_number(name, size, low=0, high=MOST_COLUMNS, integer=True)
            sizes[name] = size
        d, k = sizes.values()
        n_rows = sum(found[0] for found in headers if found) if all(headers) else None
        return cls(files, Layout(layout.header, layout.zero_based, d, k, layout.n_threads), d or 0, k, n_rows)

    def blocks(self, size: int) -> Iterator[Rows]:
        """Yield the rows of all files, as many at once as a block of text has; `size` is for other sources."""
        for file in self.files:
            yield from _blocks(file, _reader(file, self.layout))


def _first_header(path: Path, header: Header) -> tuple[int, int, int] | None:
    with opened(path) as file:
        return _core.xmc_header(file.readline(LONGEST_LINE), str(path), _header(header))


def _reader(path: Path, layout: Layout) -> _core.XmcBlocks:
    sizes = layout.zero_based, layout.n_features, layout.n_labels
    return _core.XmcBlocks(str(path), _header(layout.header), *sizes, LONGEST_LINE, layout.n_threads)


def _blocks(path: Path, reader: _core.XmcBlocks) -> Iterator[Rows]:
    """The rows of a file, as many at once as a block of text has; columns that nothing tells are `MOST_COLUMNS`."""
    with opened(path) as file:
        block = None
        while block != b"":
            block = file.read(BLOCK)
            X, Y = _matrices(reader.add(block))
            if X.shape[0]:
                yield X, Y
