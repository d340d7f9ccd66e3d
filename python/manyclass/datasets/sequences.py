"""Histories of items to rows, in which the last ones weigh the most, next items to labels, and times that sort."""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.blending import blend
from manyclass.checks import Setting, check_number, shown
from manyclass.figures import FIGURES
from manyclass.labels import as_labels, checked_labels, find_positions, join_labels, sorted_classes, written
from manyclass.parts import storing
from manyclass.protocols import TrainingRows
from manyclass.training.core_training import Watch
from manyclass.training.minibatches import fit_batches
from manyclass.training.plan import BatchesPlan, DoubleSum, Labels, Schedule, ScoredRows
from manyclass.training.state import Points
from manyclass.weights.arrays import csr_from_core

Ids = NDArray[np.int32]
Decay = float | Literal["auto"]
Length = int | Literal["auto"]

NUMERALS = frozenset("+-.0123456789Ee")  # of numbers; Python would also take 1_0, and the digits of all scripts
SECONDS = {"D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RULE = "times must be finite numbers, or dates such as 2026-01-31 or 2026-01-31T12:00:00+01:00, none of them missing"


class NextItems(NamedTuple):
    """Rows of histories, and what came next.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_items), float32
        Each beginning of a sequence.
    y : ndarray of shape (n_rows,), int64
        The column of the item that came next; `SequenceEncoder.items_[y]` are the items.
    sequence : ndarray of shape (n_rows,), int64
        The number of the sequence that a row is of.
    """

    X: sp.csr_array
    y: NDArray[np.int64]
    sequence: NDArray[np.int64]


class SequenceEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Histories of items to rows of recency weights, with a column for each item.

    The value of an item is :math:`\sum_s (1 + s)^{-\mathrm{decay}}` over the steps s back from the end of the history
    at which it stands, 0 being the last one, and rows have unit length then. Labels are columns, so that
    `models.Hybrid` knows which class is which column, and learns from it whether items come again, and
    `predict_top_k(exclude="seen")` leaves out what a row has.

    `SoftmaxClassifier(model="hybrid").fit(sequences, vectorizer=SequenceEncoder())` keeps the encoder: its classes are
    items, it takes histories, and `partial_fit(sequences)` learns items that are new. By hand, `next_items` gives rows
    and labels; features of users stand beside the items by `sp.hstack([rows.X, users[rows.sequence]])`, those of items,
    a row for each of `items_`, by `sp.hstack([rows.X, rows.X @ features])`; and a log that is larger than memory is
    read some users at a time, first by `partial_fit`, then by `next_items`.

    Parameters
    ----------
    n_last : int or "auto", default="auto"
        Items at the end of a history that count. "auto" takes one of 20, 60, 200 and 600 as it takes a decay; a longer
        one that gains .01 nats, where a twentieth of the rows has more items and all take no more than 1 GB.
    decay : float or "auto", default="auto"
        At least 0; 0 counts all of them alike. "auto" takes the one of 0, 1/2, 1, 3/2 and 2 with which embeddings of
        32 columns, trained on up to 100,000 rows, on fewer in up to five passes, have the least log-loss for the last
        items of up to 2,000 sequences, which they are not trained on: from 20 items and 1 on, a step at a time as long
        as it falls. Of fewer than 50 sequences of three items it takes 20 and 1.
    min_count : int, default=1
        Rarer items in the sequences of the fit get no column, and are left out of histories.

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        The item of each column, with the type that items have: sorted, and behind them those of `partial_fit`.
    n_last_ : int
        Items at the end of a history that count.
    decay_ : float
        The decay of rows.

    Examples
    --------
    >>> from manyclass.datasets import SequenceEncoder
    >>> visits = [["tea", "cup", "tea"], ["cup", "pot"]]
    >>> encoder = SequenceEncoder().fit(visits)
    >>> encoder.items_.tolist()
    ['cup', 'pot', 'tea']
    >>> encoder.transform([["tea", "cup"]]).toarray().tolist()
    [[0.8944271802902222, 0.0, 0.4472135901451111]]
    >>> rows = encoder.next_items(visits)
    >>> encoder.items_[rows.y].tolist(), rows.sequence.tolist()
    (['cup', 'tea', 'pot'], [0, 0, 1])
    """

    items_: NDArray[Any]
    n_last_: int
    decay_: float

    @storing
    def __init__(self, *, n_last: Length = "auto", decay: Decay = "auto", min_count: int = 1) -> None:
        """Store the parameters."""

    def check_parameters(self) -> None:
        """Raise TypeError or ValueError for parameters that `fit` would refuse."""
        Setting("n_last", "auto", "", "integer", choices=("auto",), low=1).check(self.n_last)
        Setting("decay", "auto", "", "number", choices=("auto",), low=0).check(self.decay)
        check_number("min_count", self.min_count, low=1, integer=True)

    def fit(self, sequences: Iterable[ArrayLike], y: object = None) -> Self:
        """Give each item a column.

        Parameters
        ----------
        sequences : iterable of lists of items, the earliest first
            Items are numbers, strings, or other labels that compare.
        y : None
            Not used.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no item, one is missing or of another kind than the others, or all are rarer than `min_count`.
        """
        self.check_parameters()
        items, starts = _flat(sequences)
        if not len(items):
            raise ValueError("the sequences have no items; each must be a list of items, the earliest first")
        distinct_items, positions = sorted_classes(items, name="the sequences")
        is_frequent = np.bincount(positions, minlength=len(distinct_items)) >= self.min_count
        if not is_frequent.any():
            raise ValueError(f"no item comes {self.min_count} times in the sequences; choose a smaller min_count")
        self.items_ = distinct_items[is_frequent]
        known = _core.known_items(self._columns(items), starts)
        self.n_last_, self.decay_ = _memory(*known, len(self.items_), self.n_last, self.decay)
        return self

    def partial_fit(self, sequences: Iterable[ArrayLike], y: object = None) -> Self:
        """Give new items that come `min_count` times in these sequences a column behind the others.

        Sequences without a new item change nothing. Errors are those of `fit`.

        Parameters
        ----------
        sequences : iterable of lists of items, the earliest first
        y : None
            Not used.

        Returns
        -------
        self
        """
        if not hasattr(self, "items_"):
            return self.fit(sequences)
        items, _ = _flat(sequences)
        codes = self._columns(items)
        if (codes < 0).any():
            new_items, positions = sorted_classes(items[codes < 0], name="the sequences")
            new_items = new_items[np.bincount(positions, minlength=len(new_items)) >= self.min_count]
            self.items_ = join_labels([self.items_, new_items])
        return self

    def transform(self, sequences: Iterable[ArrayLike]) -> sp.csr_array:
        """Return the row of each history.

        Parameters
        ----------
        sequences : iterable of lists of items, the earliest first
            Items without a column are left out.

        Returns
        -------
        csr_array of shape (n_sequences, n_items), float32
        """
        items, starts = _flat(sequences)
        codes, starts = _core.known_items(self._columns(items), starts)
        return self._rows(codes, starts[:-1], starts[1:])

    def next_items(self, sequences: Iterable[ArrayLike], *, n_first: ArrayLike = 1) -> NextItems:
        """Return each beginning of the sequences as a row, with the item that came next.

        Parameters
        ----------
        sequences : iterable of lists of items, the earliest first
            Items without a column are left out.
        n_first : int or array-like of shape (n_sequences,), default=1
            Items at the beginning of a sequence, or of each, that are only history: the labels are those after them,
            the first item that has a column left out.

        Returns
        -------
        NextItems
            A row for each label: X of shape (n_rows, n_items), y and the number of the sequence.
        """
        items, starts = _flat(sequences)
        first = np.asarray(n_first)
        if first.ndim == 0:
            check_number("n_first", n_first, low=1, integer=True)
        elif first.shape != (len(starts) - 1,) or first.dtype.kind not in "iu" or (first < 1).any():
            raise ValueError(f"n_first must be integers of at least 1, one for each of {len(starts) - 1} sequences")
        first_of_each = np.ascontiguousarray(np.broadcast_to(first, len(starts) - 1), dtype=np.int64)
        codes, begins, ends, labels, sequence = _core.next_items(self._columns(items), starts, first_of_each)
        return NextItems(self._rows(codes, begins, ends), labels, sequence)

    keeps_terms = True  # columns have names

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the item of each column as text.

        Parameters
        ----------
        input_features : object
            Not used; scikit-learn's pipelines give it.

        Returns
        -------
        ndarray of shape (n_items,), of str
        """
        check_is_fitted(self)
        return np.array(written(self.items_), dtype=object)

    @property
    def column_labels(self) -> NDArray[Any]:
        """The label that each column is."""
        return self.items_

    def takes(self, X: Any) -> bool:
        """Whether X is a list of sequences, and no matrix.

        Parameters
        ----------
        X : object

        Returns
        -------
        bool
        """
        if isinstance(X, list | tuple):
            return len(X) > 0 and not isinstance(X[0], str | bytes) and np.ndim(X[0]) == 1
        return np.ndim(X) == 1 and len(X) > 0 and np.ndim(next(iter(X))) == 1  # of objects

    def training_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, first: bool) -> TrainingRows:
        """Return what training sees of sequences: rows, labels, weights, groups; without y, labels are the next items.

        Of the first ones, columns are learnt, else new items of `y=None` get columns behind the others. The weight of
        a sequence is that of each of its rows then, and so is its group: where none are given, its user, or itself.

        Parameters
        ----------
        X : list of lists of items
        y : array-like or None
        sample_weight : array-like or None
        groups : array-like or None
        first : bool
            Whether a fit begins, and no training goes on.
        """
        if first:
            self.fit(X)
        if y is not None:
            return self.transform(X), y, sample_weight, groups
        if not first:
            self.partial_fit(X)
        rows = self.next_items(X)
        if not len(rows.y):
            raise ValueError(f"none of {len(X)} sequences has an item that comes after another; there are no labels")
        groups = getattr(X, "users", np.arange(len(X))) if groups is None else groups
        beside = {"sample_weight": sample_weight, "groups": groups}
        for name, of_sequences in beside.items():
            array = None if of_sequences is None else as_labels(of_sequences)
            if array is not None and array.shape != (len(X),):
                raise ValueError(f"{name} has shape {array.shape}; it must have one for each of {len(X)} sequences")
            beside[name] = None if array is None else array[rows.sequence]
        return rows.X, self.items_[rows.y], beside["sample_weight"], beside["groups"]

    @classmethod
    def restored(cls, parameters: dict[str, Any], items: NDArray[Any], n_last: int, decay: float) -> Self:
        """Return the encoder that has these parameters and columns.

        Parameters
        ----------
        parameters : dict
            As `get_params` gives them.
        items : ndarray of shape (n_items,)
            The item of each column.
        n_last : int
            `n_last_`.
        decay : float
            `decay_`.
        """
        encoder = cls(**parameters)
        encoder.check_parameters()
        encoder.items_, encoder.n_last_, encoder.decay_ = items, n_last, decay
        return encoder

    def _columns(self, items: NDArray[Any]) -> Ids:
        """The column of each item, or -1."""
        check_is_fitted(self)
        self.check_parameters()
        known, order = sorted_classes(self.items_, name="items_")
        places = find_positions(items, known, "a sequence")
        return np.where(places >= 0, np.argsort(order)[places], -1).astype(np.int32)

    def _rows(self, codes: Ids, begin: NDArray[np.int64], end: NDArray[np.int64]) -> sp.csr_array:
        """Rows of recency weights of the last items of codes[begin:end], of unit length."""
        indptr, indices, data = _core.recency_rows(codes, begin, end, self.n_last_, self.decay_)
        return csr_from_core(data, indices, indptr, (len(begin), len(self.items_)))

    @staticmethod
    def sequences_of(
        users: ArrayLike, items: ArrayLike, times: ArrayLike | None = None, *, gap: float | None = None
    ) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        """Return the sequences of a log, and whose they are: `sequences_of(log["user"], log["item"], log["time"])`.

        Parameters
        ----------
        users : array-like of shape (n,)
            A column of a log, of any type of labels.
        items : array-like of shape (n,)
            Another one.
        times : array-like of shape (n,) or None, default=None
            Numbers, dates with or without zones, spans, or ISO text, by which a user's items are ordered; those of
            equal times, or without times, stay in the order of the log.
        gap : float or None, default=None
            A sequence ends where so much time passes without an item: in the unit of times, or in seconds of dates.

        Returns
        -------
        sequences : list of ndarrays
            The items of each user, or of each of a user's sessions.
        users : ndarray of shape (n_sequences,)
            Whose they are, sorted.

        Raises
        ------
        ValueError
            If a user, an item or a time is missing, or columns have different lengths.
        """
        log_users, log_items = checked_labels(users, "users"), checked_labels(items, "items")
        log_times = np.arange(len(log_items)) if times is None else read_times(times)
        if not len(log_users) == len(log_items) == len(log_times):
            sizes = f"{len(log_users)} users, {len(log_items)} items and {len(log_times)} times"
            raise ValueError(f"the log has {sizes}; each row has one")
        if gap is not None:
            check_number("gap", gap, low=0, open_low=True)
            if times is None:
                raise ValueError("gap is a span of times; give times, too")
        names, user = sorted_classes(log_users, name="users")
        moments, seconds = as_numbers(log_times)
        if not len(log_items):
            return [], names
        order = np.lexsort((moments, user))
        user, moments = user[order], moments[order]
        begins = user[1:] != user[:-1]
        if gap is not None:
            begins |= np.diff(moments.astype(np.float64)) * seconds > gap
        starts = np.flatnonzero(begins) + 1
        return np.split(log_items[order], starts), names[user[np.concatenate([[0], starts])]]


def _flat(sequences: Iterable[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All items of sequences one after the other, and where each sequence starts and the last one ends."""
    if isinstance(sequences, str | bytes) or not isinstance(sequences, Iterable):
        raise TypeError(f"the sequences are a {type(sequences).__name__}; they must be lists of items")
    rows = list(sequences)
    # Lists of integers, or of text alone, need no look at each list.
    items: Any = [item for row in rows for item in row] if set(map(type, rows)) == {list} else []
    if set(map(type, items)) not in ({int}, {str}):
        for number, row in enumerate(rows):
            if isinstance(row, str | bytes) or np.ndim(row) != 1:
                raise ValueError(f"sequence {number} is {row!r}; it must be a list of items, the earliest first")
        items = join_labels([checked_labels(row, f"sequences[{number}]") for number, row in enumerate(rows)])
    return as_labels(items), np.cumsum([0, *map(len, rows)], dtype=np.int64)


# How much of a history counts


class _MemoryTrial:
    """Small embeddings trained on rows with one memory or another, which rows that end sequences compare.

    Parameters
    ----------
    codes : ndarray of int32
        The columns of all items.
    starts : ndarray of int64, of shape (n_sequences + 1,)
        Where each sequence starts, and the last one ends.
    n_items : int
    """

    def __init__(self, codes: Ids, starts: NDArray[np.int64], n_items: int) -> None:
        codes, begins, ends, labels, sequence = _core.next_items(codes, starts, np.ones(len(starts) - 1, np.int64))
        sampled = sequence % (1 + len(labels) // FIGURES.MEMORY_ROWS) == 0  # all rows of some sequences
        self._histories, self._n_items = (codes, begins[sampled], ends[sampled]), n_items
        self._labels, sequence = labels[sampled], sequence[sampled]
        goes_on = sequence[1:] == sequence[:-1]
        lasts = np.flatnonzero(np.append(~goes_on, True) & np.insert(goes_on, 0, False)) if len(sequence) else sequence
        self.n_telling = min(FIGURES.MEMORY_TELLING, len(lasts) // 2)
        self._telling = lasts[np.linspace(0, len(lasts) - 1, self.n_telling).astype(np.int64)]
        self._lengths, self._n_all = (ends - begins)[sampled], len(labels)

    def is_worth(self, n_last: int, next_shorter: int) -> bool:
        """Whether enough rows have more items than the next shorter memory keeps, and all rows may be kept."""
        n_entries = np.minimum(self._lengths, n_last).mean() * self._n_all
        is_longer = self._lengths > next_shorter
        return bool(is_longer.mean() >= FIGURES.MEMORY_LONGER and n_entries <= FIGURES.MEMORY_ENTRIES)

    def loss(self, n_last: int, decay: float) -> float:
        """Return the mean log-loss of the rows that tell, in nats, of scores times their best factor."""
        indptr, indices, data = _core.recency_rows(*self._histories, n_last, decay)
        x = csr_from_core(data, indices, indptr, (len(self._labels), self._n_items))
        rows = np.delete(np.arange(len(self._labels)), self._telling)
        points = Points.numbered(x[rows], Labels.single(self._labels[rows]), self._n_items)
        trained = fit_batches(self._plan(), points, Watch())
        if not trained.complete:  # by Ctrl-C, and there is no model yet
            raise KeyboardInterrupt
        telling = ScoredRows(x[self._telling], Labels.single(self._labels[self._telling]))
        telling = blend.fewer_rows(telling, self._n_items, 3)
        return blend.best_factor_of(trained.weights.scores(telling.x, 1), telling, blend.MEAN_LOG_LOSS)[1]

    def _plan(self) -> BatchesPlan:
        """The plan of embeddings as a fit has them, but of few columns and draws, and passes as of MEMORY_ROWS rows."""
        passes, decay = FIGURES.EMBEDDED_PASSES
        n_passes = min(passes, max(1, FIGURES.MEMORY_ROWS // len(self._labels)))
        return BatchesPlan(
            schedule=Schedule("exponential", 1.0, 1.5, decay, None),
            max_iter=n_passes,
            batch_size=None,
            shuffle=True,
            share_classes=None,
            fit_intercept=True,
            seed=0,
            n_threads=1,
            verbose=0,
            loss="cross_entropy",
            source="sampled",
            sampler="frequency",
            options={"power": 0.75},
            n_negatives=min(FIGURES.NEGATIVES_NEXT, self._n_items),
            log_q=True,
            double_sum=DoubleSum("scent", {}, "pick_all", "proposed", "log_n_classes", 0.5),
            budget=1,
            dim=FIGURES.MEMORY_DIM,
        )


def _memory(codes: Ids, starts: NDArray[np.int64], n_items: int, n_last: Length, decay: Decay) -> tuple[int, float]:
    """Return how many items count, and their decay: what is set, and of what is open where a walk downhill ends."""
    lengths = list(FIGURES.MEMORY_LENGTHS) if n_last == "auto" else [int(n_last)]
    decays = list(FIGURES.MEMORY_DECAYS) if decay == "auto" else [float(decay)]
    length, rate = 0, decays.index(FIGURES.MEMORY_DECAY) if decay == "auto" else 0
    if len(lengths) == len(decays) == 1:
        return lengths[0], decays[0]
    trial = _MemoryTrial(codes, starts, n_items)
    if trial.n_telling < FIGURES.MEMORY_FEWEST:
        return lengths[length], decays[rate]
    lengths = [
        n for n, shorter in zip(lengths, [0, *lengths], strict=False) if not shorter or trial.is_worth(n, shorter)
    ]
    loss = functools.cache(lambda i, j: trial.loss(lengths[i], decays[j]))
    steps = [(0, -1, 0.0), (0, 1, 0.0), (1, 0, FIGURES.MEMORY_GAIN)]
    while True:
        for longer, steeper, least_gain in steps:
            i, j = length + longer, rate + steeper
            if i < len(lengths) and 0 <= j < len(decays) and loss(i, j) < loss(length, rate) - least_gain:
                length, rate = i, j
                break
        else:
            return lengths[length], decays[rate]


# Times of events: numbers, dates with and without zones, spans and ISO text, as integers or floats that sort


def read_times(times: ArrayLike, name: str = "times") -> NDArray[Any]:
    """Return times as an array of integers, floats, datetime64 or timedelta64; dates with a zone are those of UTC.

    Parameters
    ----------
    times : array-like of shape (n,)
        Numbers, dates or spans of Python, NumPy, pandas, polars or Arrow, or text: numbers, or dates as ISO 8601 has
        them, which are in UTC where they name no zone.
    name : str
        What messages call them.

    Raises
    ------
    ValueError
        If a time is missing, not finite, or neither a number nor a date.
    """
    array = as_labels(times)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be (n,)")
    if isinstance(times, np.ma.MaskedArray) and times.mask.any():
        raise ValueError(f"{name}[{np.argmax(times.mask)}] is masked; {RULE}")
    if array.dtype.kind in "UO":
        array = _read_objects(array.tolist(), name)
    is_bad = ~np.isfinite(array) if array.dtype.kind in "iufmM" else np.ones(array.shape, dtype=bool)
    if is_bad.any():
        place = int(np.argmax(is_bad))
        raise ValueError(f"{name}[{place}] is {shown(array[place])}; {RULE}")
    return array


def _read_objects(cells: list[Any], name: str) -> NDArray[Any]:
    """Times that are text, or dates with zones."""
    if all(isinstance(cell, str) for cell in cells):
        texts = [cell.strip() for cell in cells]
        if set("".join(texts)) <= NUMERALS:
            for dtype in (np.int64, np.float64):  # nanoseconds since 1970 are no floats
                with contextlib.suppress(ValueError, OverflowError):
                    return np.array(texts, dtype=dtype)
    dates = np.empty(len(cells), dtype="M8[us]")
    for row, cell in enumerate(cells):
        try:
            date = datetime.datetime.fromisoformat(cell.strip()) if isinstance(cell, str) else cell
            zone = date.tzinfo
            dates[row] = date if zone is None else date.astimezone(datetime.UTC).replace(tzinfo=None)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{name}[{row}] is {cell!r}; {RULE}") from error
    return dates


def as_numbers(times: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Return numbers that sort as times do, and the seconds that 1 of them is; 1 of times that are numbers.

    Parameters
    ----------
    times : ndarray of shape (n,)
        As `read_times` returns them.
    """
    if times.dtype.kind not in "mM":
        return times, 1.0
    unit, step = np.datetime_data(times.dtype)
    if unit not in SECONDS:  # years, months and weeks, or what is finer than any clock
        unit, step = ("D", 1) if unit in "YMW" else ("ns", 1)
        times = times.astype(f"{times.dtype.kind}8[{unit}]")
    return times.astype(np.int64), step * SECONDS[unit]
