"""Logs of events: tables whose rows have a user, an item and a time, as the histories of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.datasets.csr import ones_at
from manyclass.datasets.label_words import labels_of_words
from manyclass.datasets.sequences import SequenceEncoder, read_times
from manyclass.datasets.stream import Records
from manyclass.datasets.tables import TableFile


class Histories(list[NDArray[Any]]):
    """The items of each user, or of each session, the earliest first.

    Attributes
    ----------
    users : ndarray of shape (n_histories,)
    n_before : ndarray of shape (n_histories,), int64, or None
        Items of each before those that are told apart; None where none are.
    """

    def __init__(
        self, items: Iterable[NDArray[Any]], users: NDArray[Any], n_before: NDArray[np.int64] | None = None
    ) -> None:
        super().__init__(items)
        self.users, self.n_before = users, n_before

    def before(self) -> Histories:
        """Return what a fit may see of them."""
        if self.n_before is None:
            return self
        return Histories((items[:n] for items, n in zip(self, self.n_before, strict=True)), self.users)

    def of_users(self) -> Histories:
        """Return the last history of each user."""
        is_last = np.append(self.users[1:] != self.users[:-1], [True][: len(self)])
        return Histories((self[place] for place in np.flatnonzero(is_last)), self.users[is_last])


def read_log(
    table: TableFile,
    names: Sequence[str],
    *,
    gap: float | None = None,
    last: int | None = None,
    since: str | None = None,
) -> Records:
    """Read a table of events; X of the records are its histories, which have no labels yet.

    Parameters
    ----------
    table : TableFile
    names : sequence of str
        The columns of users, items and, if there are three, times: numbers or dates.
    gap : float or None
        Seconds, or the unit of times that are numbers, without an event that end a session.
    last : int or None
        The last events of each history are told apart.
    since : str or None
        The events from this time on are told apart.

    Raises
    ------
    ValueError
        If there are not two or three columns, one is missing, an option needs times, or a time is neither a number nor
        a date.
    """
    _check_options(names, gap, last, since)
    cells, name = table.cells(names), table.source.name
    has_both = np.array([bool(user and item) for user, item in zip(cells[0], cells[1], strict=True)], dtype=bool)
    n_dropped = int((~has_both).sum())
    notes: tuple[str, ...] = (f"{name}: dropped {n_dropped} events without user or item",) if n_dropped else ()
    users, items = (
        labels_of_words([cell for cell, has in zip(column, has_both, strict=True) if has]) for column in cells[:2]
    )
    times = read_times(cells[2], f"{name}, times")[has_both] if len(cells) > 2 else None
    if times is not None and len(times):
        notes += tuple(f"{name}: {note}" for note in _ties(users, times, items))
    sequences, owners = SequenceEncoder.sequences_of(users, items, times, gap=gap)
    n_before = None
    if last is not None:
        n_before = np.maximum(0, np.array([*map(len, sequences)], dtype=np.int64) - last)
    if since is not None and times is not None:
        begin = read_times([since], "--since")[0]
        if (times.dtype.kind == "M") != (begin.dtype.kind == "M"):
            raise ValueError(f"--since is {since!r}; the times of {name} are such as {cells[2][0]!r}")
        # Times by their places, which are in the order of the sequences.
        ordered, _ = SequenceEncoder.sequences_of(users, np.arange(len(users)), times, gap=gap)
        n_before = np.array([int((times[places] < begin).sum()) for places in ordered], dtype=np.int64)
    Y = ones_at([], np.zeros(len(sequences)), 0)
    histories = Histories(sequences, owners, n_before)
    return Records(histories, Y, np.zeros(0, dtype=object), name=name, form=table.form, notes=notes)


def _ties(users: NDArray[Any], times: NDArray[Any], items: NDArray[Any]) -> Iterator[str]:
    """Tell how many events have the time of an earlier one of their user, and how many of these are the same event."""
    ids = np.zeros(len(users), dtype=np.int64)
    for columns, words in (
        ((users, times), "have the time of another one of their user, and stay in the order of the log"),
        ((items,), "stand in the log again, with user, time and item, and each counts"),
    ):
        for column in columns:
            distinct, codes = np.unique(column, return_inverse=True)
            ids = np.unique(ids * len(distinct) + codes, return_inverse=True)[1]
        if n_again := len(ids) - int(ids.max()) - 1:
            yield f"{n_again} events {words}"


def _check_options(names: Sequence[str], gap: float | None, last: int | None, since: str | None) -> None:
    if last is not None:
        check_number("last", last, low=1, integer=True)
    if len(names) not in (2, 3) or not all(names):
        raise ValueError(f"--sequences is {','.join(names)!r}; it must name two or three columns: USER,ITEM,TIME")
    for option, value in (("session-gap", gap), ("since", since)):
        if value is not None and len(names) < 3:
            raise ValueError(f"--{option} needs times; give --sequences a third column")
    if last is not None and since is not None:
        raise ValueError("--last and --since are two ways to tell events apart; leave out one")


def next_items(records: Records, encoder: SequenceEncoder, *, learns: bool = False, excludes: bool = False) -> Records:
    """Return the rows of histories with the items that came next as labels: of those told apart, where some are.

    Parameters
    ----------
    records : Records
        Whose X are histories.
    encoder : SequenceEncoder
    learns : bool
        Whether items that it does not know get columns.
    excludes : bool
        Whether the records have what each history has, however long it is.
    """
    histories: Histories = records.X
    if learns:
        encoder.partial_fit(histories)
    first = 1 if histories.n_before is None else np.maximum(histories.n_before, 1)
    rows = encoder.next_items(histories, n_first=first)
    lengths = list(map(len, histories))
    n, n_items = len(rows.y), int(sum(lengths) - np.minimum(first, lengths).sum())
    notes = records.notes
    dropped = {"next_items": n_items - n} if n_items > n else {}
    if dropped:
        message = f"left out {n_items - n} next items that are new, or come after none that is known"
        notes += (f"{records.name}: {message}",)
    Y = ones_at(rows.y, np.ones(n), len(encoder.items_))
    whole = copy(encoder)
    whole.n_last_, whole.decay_ = np.iinfo(np.int32).max, 0.0
    seen = whole.next_items(histories, n_first=first).X if excludes else None
    return replace(records, X=rows.X, Y=Y, labels=encoder.items_, notes=notes, seen=seen, dropped=dropped)
