"""Rows of files of any form: in parts, shuffled in windows, read while the part before is trained on; or whole."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_choice, check_flag, check_number, n_threads_from, seed_from
from manyclass.datasets.binary_csr import open_csr, read_csr
from manyclass.datasets.csr import is_sparse, joined_rows, ones_at, rows_of
from manyclass.datasets.inputs import (
    DELIMITERS,
    FORMS,
    LINES,
    TABLES,
    Input,
    Layout,
    PathLike,
    RowSource,
    files_of,
    guess_form,
)
from manyclass.datasets.label_words import Vocabulary, label_columns, open_texts
from manyclass.datasets.preprocessing import first_label
from manyclass.datasets.tables import ROWS, Present, TableFile, open_tables
from manyclass.datasets.text import TextVectorizer
from manyclass.datasets.xmc import CACHE_SUFFIX, open_svmlight, open_xmc, read_cached, read_svmlight, read_xmc
from manyclass.labels import (
    as_labels,
    check_targets,
    column_numbers,
    composed,
    find_positions,
    join_labels,
    sorted_classes,
    written,
)

Part = tuple[Any, ...]  # X, y, and what else has as many rows

THREAD = "manyclass stream"  # name of what reads ahead
OPTIONS = {  # that a form has; others have none of them
    "xmc": ("n_features", "n_labels", "header", "zero_based", "n_jobs"),
    "svmlight": ("n_features", "zero_based", "n_jobs"),
    "csr": ("n_features", "n_labels"),
    **dict.fromkeys(DELIMITERS, ("delimiter", "decimal")),
    "text": ("delimiter",),
}


class Stream:
    """Rows of files, or of arrays, in parts (X, y), for `fit` and `partial_fit` of all classifiers.

    A stream can be gone through again and again: each `iter()` is a new pass, shuffled anew. A thread reads the next
    window while the parts of the one before are trained on, so that memory holds some three windows of `window` *
    `rows` rows, whatever the size of the files.

    Parameters
    ----------
    source : str, path-like, sequence of these, or array-like
        A file; several; a folder, whose files are taken in the order of their names; a pattern such as
        ``day-*.txt.gz``; or X itself, {array, sparse matrix, DataFrame} of shape (n_samples, n_features).
    y : str or array-like, optional
        With tables, the name of the column of labels, by default "label"; with arrays, the labels or an indicator
        matrix. Other files have their labels in them.
    format : {"auto", "xmc", "svmlight", "csr", "csv", "tsv", "parquet", "text", "fasttext"}, default="auto"
        "xmc" is text as `load_xmc` reads it, "svmlight" likewise with words as labels; "csr" is what `save_csr`, or
        `load_xmc` with a cache, has written; "csv", "tsv" and "parquet" are tables of numeric features whose first line
        names the columns. "text" has on each line a text, a tab and its labels, "fasttext" a text in which words such
        as `__label__tea` are labels: X of a part is texts, and `fit` learns the words of all of them first. Files may
        be compressed. "auto" goes by the suffix: .csv, .tsv or .tab, .parquet or .pq, .safetensors, .svm, .svmlight or
        .libsvm; of others by the first line, and is "xmc" where that tells nothing.
    labels : {"all", "first"}, default="all"
        Which labels of a row count, where it may have several. With "all" y is an indicator matrix as `load_xmc` gives
        it; with "first" it is an array of numbers, and rows without a label are left out, as are those of a table in
        which the cell of the label is empty, and those of texts and of "svmlight". Of these two y has names, or Y
        columns for `label_names`.
    rows : int, optional
        The rows of a part; the last part may have fewer. None: 65,536, or with max_memory as many as there is room for.
    window : int, default=1
        The number of parts that are read, and shuffled, together.
    shuffle : bool, default=True
        Whether rows are shuffled within a window. Files that are sorted by label need windows of many labels.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling, whose order is another one in each pass.
    n_features : int, optional
        The number of columns of X for "xmc", "svmlight" and "csr"; by default that of the first file or, where none has
        a header, of all rows, which are read once for this.
    n_labels : int, optional
        The number of columns of Y for "xmc" and "csr", likewise. With labels="first" it may stay unknown.
    header : bool or "auto", default="auto"
        As in `load_xmc`, for "xmc" only.
    zero_based : bool, optional
        Whether the first feature has number 0 in "xmc" and "svmlight". None: yes in "xmc"; in "svmlight" if there is a
        feature 0.
    n_jobs : int or None, default=None
        Threads that read "xmc" and "svmlight".
    delimiter : str, optional
        What stands between the cells of "csv" and "tsv", and between the labels of "text"; None: a comma, in "tsv" a
        tab.
    decimal : {".", ","}, default="."
        What stands before the fraction of a number there.

    Attributes
    ----------
    n_features : int or None
        None of texts, as long as no vectorizer makes rows of them.
    n_labels : int or None
        The number of columns of Y; None where labels become known as they come.
    label_names : ndarray of shape (n_labels,), or None
        All labels of texts and of "svmlight", sorted; None of other forms.
    n_rows : int or None
        The number of rows of a pass, with those that have no label; None where it is not known before they are read.
    format : str
        The form of the files, or "arrays".
    zero_based : bool
        Whether the first feature of "xmc" or "svmlight" has number 0.
    rows : int
        The rows of a part.
    window : int
        The number of parts of a window.
    rows_given : bool
        Whether `rows` was set.

    Raises
    ------
    ValueError
        At once, if no file is there, an option is out of range or without effect, or nothing tells the numbers of
        columns; while reading, if a file is malformed, with the file and the place in it.
    OSError
        If a file cannot be read.
    ImportError
        If a table needs pandas or pyarrow, which the extra "tables" has.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyclass.datasets import Stream
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "toy.txt"
    ...     _ = path.write_text("3 4 3\\n2,0 0:1 3:0.5\\n1 1:2\\n0 2:1\\n")
    ...     stream = Stream(path, rows=2)
    ...     print([X.shape for X, Y in stream], [X.shape for X, Y in stream])
    [(2, 4), (1, 4)] [(2, 4), (1, 4)]
    """

    def __init__(
        self,
        source: PathLike | Sequence[PathLike] | Any,
        y: Any = None,
        *,
        format: Literal["auto", "xmc", "svmlight", "csr", "csv", "tsv", "parquet", "text", "fasttext"] = "auto",
        labels: Literal["all", "first"] = "all",
        rows: int | None = None,
        window: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        n_features: int | None = None,
        n_labels: int | None = None,
        header: bool | Literal["auto"] = "auto",
        zero_based: bool | None = None,
        n_jobs: int | None = None,
        delimiter: str | None = None,
        decimal: Literal[".", ","] = ".",
    ) -> None:
        check_choice("format", format, ("auto", *FORMS))
        check_choice("labels", labels, ("all", "first"))
        check_flag("shuffle", shuffle)
        self._set_sizes(ROWS if rows is None else rows, window)
        self.rows_given = rows is not None
        if not shuffle and random_state is not None:
            raise ValueError(f"random_state is {random_state!r}, which has no effect with shuffle=False; leave it None")
        options: dict[str, Any] = {"n_features": n_features, "n_labels": n_labels, "n_jobs": n_jobs}
        options |= {"header": header, "zero_based": zero_based, "delimiter": delimiter, "decimal": decimal}
        self.format, self._source = _open(source, y, format, options, all_labels=labels == "all")
        if self._source.n_labels is None and self.format not in ("xmc", "svmlight", *LINES):
            _refuse("one label a row", "labels", labels, "all")
        self.n_features, self.n_labels = self._source.n_features, self._source.n_labels
        self.n_rows, self.label_names = self._source.n_rows, self._source.label_names
        self.zero_based = self._source.zero_based
        has_indicator = labels == "first" and self.format in ("xmc", "csr", "arrays")
        self._functions: tuple[Callable[[Any, Any], tuple[Any, Any]], ...] = (_first_labels,) * has_indicator
        self._seed = seed_from(random_state) if shuffle else None
        self._n_pass = 0

    def _set_sizes(self, rows: int, window: int) -> None:
        for name, value in (("rows", rows), ("window", window)):
            check_number(name, value, low=1, integer=True)
        self.rows, self.window = int(rows), int(window)

    def with_rows(self, rows: int, window: int = 1) -> Self:
        """Return the same stream in parts of another size.

        Parameters
        ----------
        rows : int
            As of the class.
        window : int, default=1
            As of the class.

        Returns
        -------
        Stream
        """
        other = copy.copy(self)
        other._set_sizes(rows, window)
        other.rows_given = True
        return other

    def map(self, function: Callable[[Any, Any], tuple[Any, Any]]) -> Self:
        """Return the stream of what a function makes of its rows: it may scale or drop some, or rename labels.

        Parameters
        ----------
        function : callable
            It takes X and y of some rows and returns both, X with as many columns. It runs in the thread that reads.

        Returns
        -------
        Stream
        """
        other = copy.copy(self)
        other._functions = (*self._functions, function)
        return other

    def encoded(self, encoder: TextVectorizer) -> Self:
        """Return the stream of the rows that a vectorizer makes of a stream of texts.

        Parameters
        ----------
        encoder : TextVectorizer
            One that is not fitted learns the words of all rows first.

        Returns
        -------
        Stream
        """
        if not hasattr(encoder, "idf_"):
            encoder.fit_parts(X for X, _ in self.read())
        other = self.map(lambda X, y: (encoder.transform(X), y))
        other.n_features = int(encoder.n_columns_)
        return other

    def __iter__(self) -> Iterator[Part]:
        """The parts of the next pass."""
        n_pass, self._n_pass = self._n_pass, self._n_pass + 1
        return self.read(n_pass)

    def read(self, n_pass: int = 0) -> Iterator[Part]:
        """Return the parts of a pass by its number, so that it can be had again.

        Parameters
        ----------
        n_pass : int, default=0
            From 0; without shuffling all are the same.

        Returns
        -------
        iterator of (X, y)
        """
        with closing(cast(Any, self.read_numbered(n_pass))) as parts:
            for X, y, _ in parts:
                yield X, y

    def read_numbered(self, n_pass: int = 0) -> Iterator[tuple[Any, ...]]:
        """Return the parts of a pass with the numbers of their rows, which are the same in all passes.

        Parameters
        ----------
        n_pass : int, default=0
            As of `read`.

        Returns
        -------
        iterator of (X, y, numbers)
            numbers : ndarray of shape (n,), int64, from 0 in the order of the files.
        """
        return _parts(_ahead(self._windows(n_pass)), self.rows)

    def _windows(self, n_pass: int) -> Iterator[Part]:
        rng = None if self._seed is None else np.random.default_rng([self._seed, n_pass])
        size, first = self.rows * self.window, 0
        for window in _of_size(self._blocks(size), size):
            numbers = np.arange(first, first + window[0].shape[0])
            first += len(numbers)
            yield (*window, numbers) if rng is None else _take((*window, numbers), rng.permutation(len(numbers)))

    def _blocks(self, size: int) -> Iterator[Part]:
        for X, y in self._source.blocks(size):
            for function in self._functions:
                X, y = function(X, y)
            yield X, y

    def __repr__(self) -> str:
        """What it is, in a line."""
        n_rows = "unknown" if self.n_rows is None else self.n_rows
        sizes = f"n_rows={n_rows}, n_features={self.n_features}, rows={self.rows}, window={self.window}"
        return f"Stream(format={self.format!r}, {sizes})"


def _refuse_unused(form: str, named_form: str, options: dict[str, Any], y: Any) -> None:
    """Raise ValueError or TypeError for an option that the form has no use for."""
    where = f"format={form!r}"
    if form == "arrays":
        _refuse("arrays", "format", named_form, "auto")
        where = "arrays"
    for name, value in options.items():
        if name not in OPTIONS.get(form, ()):
            _refuse(where, name, value, getattr(Layout, name, None))
    if form not in ("arrays", *TABLES):
        _refuse(where, "y", y, None)
    if form in TABLES and not isinstance(y, str | None):
        raise TypeError(f"y is a {type(y).__name__}; of a table it must be the name of the column of labels")


def _refuse(where: str, name: str, value: Any, default: Any) -> None:
    """Raise ValueError for a value that is not the default of an option without effect."""
    if value is not default and value != default:
        raise ValueError(f"{name} is {value!r}, which has no effect with {where}; leave it {default!r}")


def _open(source: Any, y: Any, named_form: str, options: dict[str, Any], *, all_labels: bool) -> tuple[str, RowSource]:
    """Return the form of files, or "arrays", and what reads their rows, by the arguments of `Stream`."""
    if hasattr(source, "shape"):
        _refuse_unused("arrays", named_form, options, y)
        return "arrays", _open_arrays(source, y)
    inputs = [Input(os.fspath(file)) for file in files_of(source)]
    form = guess_form(inputs, "xmc") if named_form == "auto" else named_form
    _refuse_unused(form, named_form, options, y)
    separator, label = (options["delimiter"], None) if form == "text" else (None, y)
    n_threads = n_threads_from(options.pop("n_jobs"))
    layout = Layout(**options, n_threads=n_threads, separator=separator, label=label)
    if form == "xmc":
        return form, open_xmc(inputs, layout, any_labels=not all_labels)
    if form == "csr":
        return form, open_csr(inputs, layout)
    return form, _labelled_rows(inputs, form, layout, all_labels=all_labels and form not in TABLES)


def open_files(inputs: Sequence[Input], form: str, layout: Layout) -> RowSource:
    """Return what reads inputs of a form whose labels are words.

    Raises
    ------
    ValueError
        If they are malformed, with the file and the line, or a column of a table is missing.
    """
    if form in TABLES:
        return open_tables(inputs, form, layout)
    return open_svmlight(inputs, layout) if form == "svmlight" else open_texts(inputs, form, layout.separator or ",")


def _labelled_rows(inputs: Sequence[Input], form: str, layout: Layout, *, all_labels: bool) -> RowSource:
    """Return what reads rows with all their labels, which are words, or the first one, without rows that have none."""
    files, names = open_files(inputs, form, layout), None
    all_blocks = (labels for _, labels in files.blocks(ROWS))
    labels_of: Callable[[Any], tuple[Any, Any]] = tuple  # which rows have a label, and these labels
    if form in DELIMITERS:
        # A label that is no integer tells the type of all.
        dtype = np.int64 if all(_core.all_integers(block.labels) for block in all_blocks) else None
        labels_of = partial(_typed_labels, dtype=dtype)
    elif form not in TABLES:
        vocabulary = Vocabulary(row if all_labels else row[:1] for words in all_blocks for row in words)
        names, labels_of = vocabulary.labels, partial(vocabulary.labels_of, several=all_labels)
        if not len(names):
            raise ValueError(f"{inputs[0].name}: no row has a label")

    def blocks(size: int) -> Iterator[Part]:
        for X, labels in files.blocks(size):
            has_label, y = labels_of(labels)
            rows = np.flatnonzero(has_label)
            if len(rows):
                X = np.array(X, dtype=object) if isinstance(X, list) else X
                yield X if len(rows) == X.shape[0] else rows_of(X, rows), y

    n_labels = len(names) if names is not None and all_labels else None
    return replace(files, blocks=blocks, label_names=names, n_labels=n_labels)


def _typed_labels(labels: Present, dtype: type | None) -> tuple[Any, Any]:
    return labels.is_labelled, as_labels(labels.labels) if dtype is None else np.array(labels.labels, dtype)


def _open_arrays(X: Any, y: Any) -> RowSource:
    """Return what gives the rows of arrays in their order, after the checks that need no look at the rows."""
    if y is None:
        raise ValueError("y is None; with arrays it must be the labels of the rows of X")
    if len(X.shape) != 2:
        raise ValueError(f"X has shape {tuple(X.shape)}; it must be (n_samples, n_features)")
    if isinstance(y, np.ma.MaskedArray):  # whose mask would be lost
        check_targets(y)
    y = sp.csr_array(y) if is_sparse(y) else as_labels(y)
    if y.shape[0] != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, y has {y.shape[0]}")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 and not is_sparse(y) else y
    rows = (sp.csr_array(X) if is_sparse(X) else X, sp.csr_array(y) if y.ndim == 2 else y)
    n, d = map(int, X.shape)

    def blocks(size: int) -> Iterator[Part]:
        return (_take(rows, slice(first, first + size)) for first in range(0, n, size))

    return RowSource(blocks, d, y.shape[1] if y.ndim == 2 else None, n)


# Windows and parts


def _take(part: Part, rows: slice | NDArray[Any]) -> Part:
    """Some rows of a matrix, a table or an array, with their labels."""
    return tuple(rows_of(column, rows) for column in part)


def _joined(parts: list[Part]) -> Part:
    """One part of several, which are forgotten."""
    columns = list(zip(*parts, strict=True))
    parts.clear()
    return tuple(joined_rows(list(column)) for column in columns)


def _first_labels(X: Any, Y: sp.csr_array) -> Part:
    y = first_label(Y)
    labelled = np.flatnonzero(y >= 0)
    return (X, y) if len(labelled) == len(y) else _take((X, y), labelled)


def _of_size(blocks: Iterator[Part], size: int) -> Iterator[Part]:
    """The rows of all blocks, `size` at once, but for the last."""
    pieces: list[Part] = []
    n_rows = 0
    for block in blocks:
        first, n = 0, block[0].shape[0]
        while n_rows + n - first >= size:
            last = first + size - n_rows
            pieces.append(block if last - first == n else _take(block, slice(first, last)))
            first, n_rows = last, 0
            yield _joined(pieces)
        if first < n:
            pieces.append(_take(block, slice(first, n)) if first else block)
            n_rows += n - first
    if n_rows:
        yield _joined(pieces)


def _parts(windows: Iterator[Part], rows: int) -> Iterator[Part]:
    with closing(cast(Any, windows)):
        for window in windows:
            n = window[0].shape[0]
            yield from (
                (window,) if n <= rows else (_take(window, slice(first, first + rows)) for first in range(0, n, rows))
            )


def _ahead(windows: Iterator[Part]) -> Iterator[Part]:
    """What `windows` gives, the next one being made by a thread of its own, which ends with the iterator.

    The thread begins the next one when the one before is taken: more would be held than one that is used and one that
    is made.
    """
    with closing(cast(Any, windows)), ThreadPoolExecutor(1, THREAD) as thread:
        next_window = thread.submit(next, windows, None)
        while (window := next_window.result()) is not None:
            next_window = thread.submit(next, windows, None)
            yield window


# All rows of an input at once


@dataclass(frozen=True)
class Records:
    """Rows as an input has them.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_features), DataFrame of such a shape, or list of n_rows str
        Features, or texts.
    Y : csr_array of shape (n_rows, n_labels)
        Ones where a row has a label; the order in which a row stores them is that of the input.
    labels : ndarray of shape (n_labels,)
        The label of each column, sorted: numbers or str.
    one_based : bool
        Whether the first feature of a text has number 1.
    name : str
        What messages call the rows.
    form : str
        The form that they had.
    dropped : dict
        Number of rows "without_label" and "without_feature" (and with a label), where these have been dropped, and of
        "next_items" that are new, or come after none that is known.
    notes : tuple of str
        What a user should know of the reading.
    groups : ndarray of shape (n_rows,), or None
        The group of each row.
    seen : csr_array of shape (n_rows, n_items), or None
        The items of the history of each row, where they are to be left out, in columns as those of Y.
    """

    X: Any
    Y: sp.csr_array
    labels: NDArray[Any]
    one_based: bool = False
    name: str = ""
    form: str = ""
    dropped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None
    seen: sp.csr_array | None = None


def read_records(form: str, source: Input, layout: Layout, *, cache: bool = False) -> Records:
    """Read all rows of an input.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    source : Input
    layout : Layout
    cache : bool, default=False
        Whether "xmc" is kept as a binary file beside the input; see `load_xmc`.

    Raises
    ------
    ValueError
        If they are malformed, with the file and the line.
    """
    if form in ("xmc", "csr"):
        if form == "csr":
            X, Y = read_csr(source, layout.n_features)
        else:
            X, Y = read_cached(source, layout, source.path + CACHE_SUFFIX) if cache else read_xmc(source, layout)
        one_based = form == "xmc" and layout.zero_based is False
        return Records(X, Y, column_numbers(Y.shape[1]), one_based, source.name, form)
    blocks: Any
    if form == "svmlight":
        blocks, zero_based = read_svmlight(source, layout)
    else:
        blocks, zero_based = list(open_files([source], form, layout).blocks(ROWS)), True
    rows = joined_rows([X for X, _ in blocks])
    Y, names, notes = _columns([labels for _, labels in blocks])
    groups = None
    if layout.groups is not None:
        groups = as_labels(*TableFile(source, form, layout).cells([layout.groups]))
    return Records(rows, Y, names, not zero_based, source.name, form, notes=notes, groups=groups)


def _columns(blocks: Sequence[Any]) -> tuple[sp.csr_array, NDArray[Any], tuple[str, ...]]:
    """Return the labels of blocks of rows as a matrix, the label of each of its columns, and what there is to note."""
    if not (blocks and isinstance(blocks[-1], Present) and isinstance(blocks[-1].labels, np.ndarray)):
        words = (block.words() if isinstance(block, Present) else block for block in blocks)
        Y, names, n_twice = label_columns([row for block in words for row in block])
        return Y, names, (f"labels that stand twice in a row count once: {n_twice} left out",) if n_twice else ()
    names, columns = sorted_classes(join_labels([block.labels for block in blocks]))
    return ones_at(columns, np.concatenate([block.is_labelled for block in blocks]), len(names)), names, ()


# Labels of rows, Y, and the label of each of its columns


def first_labels(Y: sp.csr_array) -> sp.csr_array:
    """Return the first label of each row that has one, as a matrix without the other rows."""
    y = first_label(Y)
    return ones_at(y[y >= 0], np.ones(np.count_nonzero(y >= 0)), Y.shape[1])


def places_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes of a model, -1 where it is none of them.

    Numbers are compared as numbers; a number with a name by what is written for it.
    """
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return find_positions(labels, classes, "the data").astype(np.int64)
    places = {composed(label): place for place, label in enumerate(written(classes))}
    return np.array([places.get(composed(label), -1) for label in written(labels)], dtype=np.int64)


def known_labels(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> sp.csr_array:
    """Return the labels of the rows that a model knows, (n_rows, n_classes), ones by the places of its classes.

    They stand in the order of the rows; estimators want them sorted.
    """
    places = places_among(classes, labels)[Y.indices]
    is_known = places >= 0
    n_before = np.concatenate([[0], np.cumsum(is_known)])[Y.indptr]
    return ones_at(places[is_known], np.diff(n_before), len(classes))


def as_classes(classes: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of the kind that a model's have: a number or a date is the name that is written for it.

    Raises
    ------
    ValueError
        If the model's labels are numbers or dates and the data's are other names.
    """
    if classes is None or (classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf"):
        return labels
    names, places = written(labels), places_among(classes, labels)
    if np.all(places >= 0):
        return np.asarray(classes[places])
    if classes.dtype.kind in "OU":
        return as_labels(names)
    with contextlib.suppress(ValueError, OverflowError):
        converted = np.array(names, dtype=object).astype(classes.dtype)  # whatever the longest name takes
        if written(converted) == names:
            return converted
    kind = "dates" if classes.dtype.kind in "mM" else "numbers"
    raise ValueError(f"labels are names, such as {names[0]!r}; the model's are {kind}, such as {written(classes)[0]}")
