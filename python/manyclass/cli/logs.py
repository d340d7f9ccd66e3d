"""Logs of events, one a row with its user, item and time: the histories of users, and the items that came next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.cli.messages import note
from manyclass.cli.records import Records, label_columns
from manyclass.cli.sources import Source
from manyclass.cli.tables import ROWS
from manyclass.datasets import SequenceEncoder
from manyclass.datasets.tables import Cells, Marks, label_in, library


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
