"""Rows as files have them, in each form: features, texts or histories of users, and labels with their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.cli.messages import note
from manyclass.cli.sources import Source
from manyclass.datasets import SequenceEncoder, load_csr, load_xmc
from manyclass.datasets.tables import LABEL_COLUMN, Cells, Marks, label_in, library
from manyclass.datasets.text_files import texts_and_labels
from manyclass.datasets.xmc import Header, Layout, parse_xmc
from manyclass.labels import as_labels

ROWS = 65_536  # of a table that are parsed at once
TEXTS = "if each line is a text, a tab and its labels, give --text"


@dataclass(frozen=True)
class Records:
    """Rows as a file has them.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_features), DataFrame of such a shape, or list of n_rows str
        Features, or texts.
    Y : csr_array of shape (n_rows, n_labels)
        Ones where a row has a label; the order in which a row stores them is that of the file.
    labels : ndarray of shape (n_labels,)
        The label of each column, sorted: numbers or str.
    one_based : bool
        Whether the first feature of a text has number 1.
    name, form : str
        What messages call the data, and the form that they had.
    dropped : dict
        Number of rows "without_label" and "without_feature" (and with a label), where these have been dropped.
    """

    X: Any
    Y: sp.csr_array
    labels: NDArray[Any]
    one_based: bool = False
    name: str = ""
    form: str = ""
    dropped: dict[str, int] = field(default_factory=dict)


def read_xmc(
    source: Source, header: Header, one_based: bool, n_features: int | None, n_jobs: int | None, cache: bool
) -> Records:
    """Read rows `l1,l2,... j:v j:v ...`, or what `save_csr` has written of them; see `load_xmc`."""
    if source.content is None:
        zero_based = not one_based
        X, Y = load_xmc(
            source.path, header=header, zero_based=zero_based, n_features=n_features, n_jobs=n_jobs, cache=cache
        )
    else:
        if cache:
            raise ValueError(f"--cache needs a file; {source.name} is none")
        raw = np.frombuffer(source.read(), np.uint8)
        X, Y = parse_xmc(raw, source.name, Layout(header, not one_based, n_features, None, n_threads_from(n_jobs)))
    return Records(X, Y, np.arange(Y.shape[1]), one_based)


def read_binary(source: Source, n_features: int | None) -> Records:
    """Read what `manyclass.datasets.save_csr` has written."""
    if source.content is not None:
        raise ValueError(f"{source.name}: a binary file is mapped, which a pipe cannot be; give its name")
    X, Y = load_csr(source.path)
    if n_features is not None:
        largest = int(X.indices.max(initial=-1))
        if largest >= n_features:
            raise ValueError(f"{source.name}: feature {largest} is outside [0, {n_features})")
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    Y = sp.csr_array(np.zeros((X.shape[0], 0), np.float32)) if Y is None else Y
    return Records(X, Y, np.arange(Y.shape[1]))


def read_svmlight(source: Source, one_based: bool | None, n_features: int | None, n_jobs: int | None) -> Records:
    """Read rows `label j:v j:v ...` whose labels are any words, numbers with a sign or a point among them.

    The core reads the features. It sees a 0 in the place of each label, so that lines and columns of its messages are
    those of the file. `one_based` None: there is a feature 0 or there is none.
    """
    raw = np.frombuffer(source.read().removeprefix(b"\xef\xbb\xbf"), np.uint8).copy()
    Y, labels = label_columns(_core.take_svmlight_labels(raw, source.name))
    n_columns = None if n_features is None else n_features + (one_based is not False)
    X, _ = parse_xmc(raw, source.name, Layout(False, True, n_columns, None, n_threads_from(n_jobs)))
    lowest = int(X.indices.min(initial=np.iinfo(np.int32).max))
    one_based = lowest > 0 if one_based is None else one_based
    if one_based and lowest == 0:
        raise ValueError(f"{source.name}: it has the feature 0; the first one of svmlight's form has number 1")
    width = X.shape[1] - one_based if n_features is None else n_features
    X = sp.csr_array((X.data, X.indices - one_based, X.indptr), shape=(X.shape[0], max(0, width)))
    return Records(X, Y, labels, one_based)


def read_text(source: Source, separator: str | None) -> Records:
    """Read a text a line, and behind a tab, if there is one, its labels."""
    texts, found = texts_and_labels(source.lines(), "text", separator, source.name)
    Y, labels = label_columns(found)
    return Records(texts, Y, labels)


def read_fasttext(source: Source) -> Records:
    """Read a text a line, its labels being words that begin with `__label__`; ASCII's blanks stand between words."""
    texts, found = texts_and_labels(source.lines(), "fasttext", None, source.name)
    Y, labels = label_columns(found)
    return Records(texts, Y, labels)


def read_table(
    source: Source,
    marks: Marks,
    *,
    label: str | None = None,
    text: Sequence[str] = (),
    features: Sequence[str] = (),
    separator: str | None = None,
    need_label: bool = False,
) -> Records:
    """Read a table with a line of column names.

    Parameters
    ----------
    source, marks : Source and Marks
    label : str or None
        The column of labels; None: the one named "label", if there is one.
    text : sequence of str
        Columns of text, which then are all that is used; empty: numeric features.
    features : sequence of str
        The features of a model; empty: all columns but the label's.
    separator : str or None
        Between the labels in a cell; None: a cell is a label.
    need_label : bool
        Whether a table without labels is an error.

    Raises
    ------
    ImportError
        Without pandas.
    ValueError
        If a column is missing, or a cell is no number, with the file and the line.
    """
    try:
        pandas = library("pandas")
    except ImportError as error:
        raise ImportError(f"{error}; {TEXTS}" if marks.delimiter == "\t" else str(error)) from error
    with source.opened() as file:
        cells = Cells(file, source.name, marks)
        label, numeric = _chosen(source.name, cells.columns, label, text or features, need_label)
        try:
            blocks = list(cells.blocks([] if text else numeric, ROWS))
        except ValueError as error:
            if str(error).endswith("is not a finite number"):
                raise ValueError(f"{error} (name columns of text by --text-column)") from error
            raise
    texts = {name: [cell for _, some in blocks for cell in some[name]] for name in {*text, label or ""} if name}
    n_rows = sum(len(X) for X, _ in blocks)
    Y, labels = label_columns(_core.split_labels(texts[label] if label else [""] * n_rows, separator or ""))
    if text:
        return Records([" ".join(part) for part in zip(*(texts[name] for name in text), strict=True)], Y, labels)
    X = np.concatenate([np.empty((0, len(numeric)), np.float32), *(X for X, _ in blocks)])
    return Records(pandas.DataFrame(X, columns=numeric), Y, labels)


def _chosen(
    name: str, names: Sequence[str], label: str | None, needed: Sequence[str], need_label: bool
) -> tuple[str | None, list[str]]:
    """Return the column of labels, if there is one to read, and those of features; raises as `read_table` does."""
    label = label if label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
    if need_label and label is None:
        told = f"{name}: no column is named {LABEL_COLUMN!r}; name it by --label-column, one of {_listed(names)}"
        raise ValueError(f"{told}; {TEXTS}" if len(names) == 2 else told)
    labelled = label is not None and (need_label or label in names)
    for wanted in [*needed, *([label] if labelled else [])]:
        if wanted not in names:
            raise ValueError(f"{name}: there is no column {wanted!r}; it has {_listed(names)}")
    numeric = [*needed] or [one for one in names if one != label]
    if not numeric:
        raise ValueError(f"{name}: there is no column but {label!r}; features or a --text-column are needed")
    return (label if labelled else None), numeric


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} others" if len(names) > 20 else "")


def label_columns(found: Sequence[Sequence[str]]) -> tuple[sp.csr_array, NDArray[Any]]:
    """Return labels of rows as a matrix, and the label of each of its columns, sorted; integers where all are.

    Parameters
    ----------
    found : sequence of sequences of str
        The labels of each row; one that is there again counts once, as a note says.
    """
    distinct, indptr, indices, n_twice = _core.label_columns(found)
    if n_twice:
        note(f"labels that stand twice in a row count once: {n_twice} left out")
    Y = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(found), len(distinct)))
    return Y, as_labels(distinct)


# Logs: a row of a table is an event, with its user, item and time


class Histories(list[NDArray[Any]]):
    """The items of each user, or of each session, the earliest first.

    Attributes
    ----------
    users : ndarray of shape (n_histories,)
    n_before : ndarray of shape (n_histories,), int64, or None
        Items of each before those that --last or --since speaks of; None where neither is given.
    """

    users: NDArray[Any]
    n_before: NDArray[np.int64] | None

    def __init__(
        self, items: Iterable[NDArray[Any]], users: NDArray[Any], n_before: NDArray[np.int64] | None = None
    ) -> None:
        super().__init__(items)
        self.users, self.n_before = users, n_before

    def before(self) -> Histories:
        """Return what a fit may see of them."""
        if self.n_before is None:
            return self
        return Histories((one[:n] for one, n in zip(self, self.n_before, strict=True)), self.users)

    def of_users(self) -> Histories:
        """Return the last history of each user."""
        last = np.append(self.users[1:] != self.users[:-1], [True][: len(self)])
        return Histories((self[at] for at in np.flatnonzero(last)), self.users[last])


def read_log(
    source: Source, marks: Marks, columns: Sequence[str], gap: float | None, last: int | None, since: str | None
) -> Histories:
    """Read a table of events.

    Parameters
    ----------
    source, marks : Source and Marks
    columns : sequence of str
        Names of the columns of users, items and, if there are three, times: numbers or dates.
    gap : float or None
        Seconds, or the unit of times that are numbers, without an event that end a session.
    last, since : int, str or None
        Which events are told apart from those before: the last ones of each history, or those from a time on.

    Raises
    ------
    ValueError
        If a column is missing, a time is neither a number nor a date, or an option needs times.
    """
    if last is not None:
        check_number("last", last, low=1, integer=True)
    if len(columns) not in (2, 3) or not all(columns):
        raise ValueError(f"--sequences is {','.join(columns)!r}; it must name two or three columns: USER,ITEM,TIME")
    for option, value in (("session-gap", gap), ("since", since)):
        if value is not None and len(columns) < 3:
            raise ValueError(f"--{option} needs times; give --sequences a third column")
    if last is not None and since is not None:
        raise ValueError("--last and --since are two ways to tell events apart; leave out one")
    with source.opened() as file:
        cells = Cells(file, source.name, marks)
        for wanted in columns:
            if wanted not in cells.columns:
                raise ValueError(f"{source.name}: there is no column {wanted!r}; it has {', '.join(cells.columns)}")
        blocks = [some for _, some in cells.blocks([], ROWS)]
    users, items, *times = ([label_in(cell) for some in blocks for cell in some[name]] for name in columns)
    rows = [bool(user and item) for user, item in zip(users, items, strict=True)]
    if not all(rows):
        note(f"{source.name}: dropped {len(rows) - sum(rows)} events without user or item")
    who, what = (_labels([one for one, there in zip(some, rows, strict=True) if there]) for some in (users, items))
    when = _times(times[0], source.name)[np.array(rows, dtype=bool)] if times else None
    found, names = SequenceEncoder.sequences_of(who, what, when, gap=gap)
    n_before = None
    if last is not None:
        n_before = np.array([max(0, len(one) - last) for one in found], dtype=np.int64)
    if since is not None and when is not None:
        # Times by their places, which are in the order of the sequences.
        ordered, _ = SequenceEncoder.sequences_of(who, np.arange(len(who)), when, gap=gap)
        begin = _times([since], "--since")[0]
        if (when.dtype.kind == "M") != (begin.dtype.kind == "M"):
            raise ValueError(f"--since is {since!r}; the times of {source.name} are such as {times[0][0]!r}")
        n_before = np.array([int((when[one] < begin).sum()) for one in ordered], dtype=np.int64)
    return Histories(found, names, n_before)


def _labels(cells: Sequence[str]) -> NDArray[Any]:
    """Labels as other forms of data have them: integers where all are."""
    Y, labels = label_columns([[cell] for cell in cells])
    return labels[Y.indices] if len(cells) else labels


def _times(cells: Sequence[str], name: str) -> NDArray[Any]:
    """Numbers or, where one is none, dates."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    try:
        dates = library("pandas").to_datetime(list(cells), utc=True, format="ISO8601")
    except ValueError as error:
        told = f"{name}: a time is neither a number nor a date like 2026-01-31 or 2026-01-31T12:00:00"
        raise ValueError(f"{told}: {error}") from error
    return np.asarray(dates.tz_localize(None).to_numpy())


def next_items(data: Records, encoder: SequenceEncoder, *, learns: bool = False) -> Records:
    """Return the rows of histories with the items that came next as labels: of those told apart, where some are.

    Parameters
    ----------
    data : Records
        Whose X are histories.
    encoder : SequenceEncoder
    learns : bool
        Whether items that it does not know get columns.
    """
    histories: Histories = data.X
    if learns:
        encoder.partial_fit(histories)
    first = 1 if histories.n_before is None else np.maximum(histories.n_before, 1)
    rows = encoder.next_items(histories, n_first=first)
    n_items = int(sum(map(len, histories)) - np.minimum(first, list(map(len, histories))).sum())
    if n_items > len(rows.y):
        note(f"{data.name}: left out {n_items - len(rows.y)} next items that are new, or come after none that is known")
    n = len(rows.y)
    ones = (np.ones(n, np.float32), rows.y.astype(np.int32), np.arange(n + 1))
    return replace(data, X=rows.X, Y=sp.csr_array(ones, shape=(n, len(encoder.items_))), labels=encoder.items_)
