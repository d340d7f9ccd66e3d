"""Data of choices: who chooses, among which alternatives, with which features of choosers, alternatives and pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import did_you_mean
from manyclass.choice.columns import CellError, read_numbers
from manyclass.datasets.csr import is_sparse
from manyclass.labels import as_labels, find_positions
from manyclass.weights.arrays import Doubles, Ids

PairFunction = Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]
MOST_TOGETHER = 1 << 22  # features of pairs that a function makes at once: 32 MB


def join_ranges(first: NDArray[Any], sizes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where ranges of numbers begin, one after the other, and the numbers: `sizes` from each `first` one on."""
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr, np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], sizes)


@dataclass(frozen=True)
class ChoiceLists:
    """Lists of rows, one after the other.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64, where each begins
    alternatives : ndarray of shape (n_listed,), int32, increasing within a row but where they were drawn
    features : ndarray of shape (n_listed, n_pair_features), float64
    offsets : ndarray of shape (n_listed,), float64, of which -infinity takes an alternative out
    only : bool
        Whether what a row does not list cannot be chosen.
    log_weights : ndarray of shape (n_listed,), float64
        Logarithms of how many each drawn alternative stands for; of size 0 where none were drawn.
    """

    indptr: NDArray[np.int64]
    alternatives: Ids
    features: Doubles
    offsets: Doubles
    only: bool
    log_weights: Doubles = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def take(self, rows: NDArray[np.int64]) -> ChoiceLists:
        """Return the lists of rows in any order."""
        indptr, entries = join_ranges(self.indptr[rows], np.diff(self.indptr)[rows])
        log_weights = self.log_weights[entries] if len(self.log_weights) else self.log_weights
        by_entry = self.alternatives[entries], self.features[entries], self.offsets[entries]
        return ChoiceLists(indptr, *by_entry, self.only, log_weights)

    def filled(self, n_alternatives: int) -> ChoiceLists:
        """Return lists of all alternatives, with zeros for those not listed; lists of all that may be chosen stay."""
        if self.only:
            return self
        n, k = len(self.indptr) - 1, n_alternatives
        features, offsets = np.zeros((n * k, self.features.shape[1])), np.zeros(n * k)
        entries = self.rows * k + self.alternatives
        features[entries], offsets[entries] = self.features, self.offsets
        return ChoiceLists(np.arange(n + 1) * k, np.tile(np.arange(k, dtype=np.int32), n), features, offsets, only=True)


@dataclass(frozen=True)
class SourceTable:
    """The table that features were made of by a formula, so that what changes a column changes what follows from it.

    Attributes
    ----------
    table : DataFrame or mapping of names to columns
    make : callable, which makes a table like it the data of all its rows
    alternative : str or None
        The column of alternatives; None: the table has a row for each chooser.
    whole : bool
        Whether the formula is the whole utility, with its constants.
    """

    table: Any
    make: Callable[[Any], ChoiceSets]
    alternative: str | None = None
    whole: bool = False

    def changed(self, name: str, new: Any) -> SourceTable:
        """Return the source with another column: an array, or what a function makes of the old one."""
        column = np.asarray(self.table[name])
        values = np.asarray(new(column) if callable(new) else new)
        if values.shape != column.shape:
            raise ValueError(f"{name} has shape {values.shape}; it must be that of the table, {column.shape}")
        table = self.table
        changed = {**table, name: values} if isinstance(table, Mapping) else table.assign(**{name: values})
        return replace(self, table=changed)


@dataclass(frozen=True)
class ChoiceSets:
    """Rows of choosers, the alternatives that each may choose from, and their features.

    `choice_sets` makes them from arrays, `from_long` and `from_wide` from tables.

    Attributes
    ----------
    alternatives : ndarray of shape (n_alternatives,), labels
    X : ndarray of shape (n_rows, n_chooser_features), float64; features of choosers
    Z : ndarray or csr_array of shape (n_alternatives, n_alternative_features), float64, or None
    lists : ChoiceLists
        The alternatives that each row may choose from, where ``only`` is true, or else those of which there is more to
        say.
    function : callable or None, what gives the features of pairs where they are not listed
    offsets : ndarray of shape (n_alternatives,), float64, added to utilities
    chosen : ndarray of shape (n_rows,), int32, positions of what was chosen; None where it is not known
    persons : ndarray of shape (n_rows,), int64, who chose, by number; None where each row is of another person
    sample_weight : ndarray of shape (n_rows,), float64, or None
    chooser_names : tuple of str
    alternative_names : tuple of str
    pair_names : tuple of str
    origin : ndarray of shape (n_rows,), int64
        Numbers by which the function and the source know the rows; None: their positions.
    source : SourceTable or None, the table that a formula made features of
    """

    alternatives: NDArray[Any]
    X: Doubles
    Z: Any
    lists: ChoiceLists
    function: PairFunction | None
    offsets: Doubles
    chosen: Ids | None
    persons: NDArray[np.int64] | None
    sample_weight: Doubles | None
    chooser_names: tuple[str, ...]
    alternative_names: tuple[str, ...]
    pair_names: tuple[str, ...]
    origin: NDArray[np.int64] | None = None
    source: SourceTable | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.X)

    @property
    def n_alternatives(self) -> int:
        """How many alternatives there are in all."""
        return len(self.alternatives)

    @property
    def n_pairs(self) -> int:
        """How many pairs of a row and an alternative that it may choose there are."""
        return len(self.lists.alternatives) if self.lists.only else self.n_rows * self.n_alternatives

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of what was chosen; raises ValueError where it is not known."""
        return self.alternatives[self.known_choices]

    @property
    def known_choices(self) -> Ids:
        """Positions of what was chosen; raises ValueError where it is not known."""
        if self.chosen is None:
            raise ValueError("the data do not tell what was chosen; give `chosen`")
        return self.chosen

    @property
    def weights(self) -> Doubles:
        """Weights of the rows, 1 where none are given."""
        return np.ones(self.n_rows) if self.sample_weight is None else self.sample_weight

    def take(self, rows: ArrayLike) -> ChoiceSets:
        """Return some rows.

        Parameters
        ----------
        rows : array-like of int or bool
            Their positions, or a mask of all.
        """
        positions = np.arange(self.n_rows)[np.asarray(rows)]
        return self._rows(positions, self.lists.take(positions))

    def _rows(self, positions: NDArray[np.int64], lists: ChoiceLists) -> ChoiceSets:
        names = ("chosen", "persons", "sample_weight")
        by_row = {name: array[positions] for name in names if (array := getattr(self, name)) is not None}
        return replace(self, X=self.X[positions], lists=lists, origin=self._numbers[positions], **by_row)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Numbers of the rows, by which a function of pairs knows them."""
        return np.arange(self.n_rows) if self.origin is None else self.origin

    def without(self, removed: ArrayLike) -> ChoiceSets:
        """Return the same choosers where some alternatives, given by labels, cannot be chosen.

        What was chosen is forgotten.

        Parameters
        ----------
        removed : array-like of labels

        Raises
        ------
        ValueError
            If one is no alternative, or a row is left without any.
        """
        labels = removed if isinstance(removed, list | tuple) else np.atleast_1d(np.asarray(removed))
        gone = positions_among(labels, self.alternatives, "removed", by_row=False)
        offsets = self.offsets.copy()
        offsets[gone] = -np.inf
        available = np.isfinite(offsets)[self.lists.alternatives]
        if self.lists.only and not np.logical_or.reduceat(available, self.lists.indptr[:-1]).all():
            raise ValueError("a row is left without an alternative")
        return replace(self, offsets=offsets, chosen=None)

    def changed(self, **features: Any) -> ChoiceSets:
        """Return the same choosers with other features, given by name.

        Parameters
        ----------
        **features : callable or array
            The new values of a feature of choosers, alternatives or listed pairs, or what makes them of the old ones;
            where features follow a formula, those of a column of its table, from which all of them are made anew.

        Returns
        -------
        ChoiceSets

        Raises
        ------
        ValueError
            If a name is none of a feature, or pairs have a function.
        """
        sets = self
        for name, new in features.items():
            if sets.source is not None and name in sets.source.table:
                source = sets.source.changed(name, new)
                rebuilt = source.make(source.table).take(self._numbers)
                sets = replace(sets, X=rebuilt.X, Z=rebuilt.Z, lists=rebuilt.lists, source=source)
            elif name in self.chooser_names:
                sets = replace(sets, X=_with_column(sets.X, self.chooser_names.index(name), new))
            elif name in self.alternative_names:
                sets = replace(sets, Z=_with_column(sets.Z, self.alternative_names.index(name), new))
            elif name in self.pair_names and self.function is None:
                values = _with_column(sets.lists.features, self.pair_names.index(name), new)
                sets = replace(sets, lists=replace(sets.lists, features=values))
            else:
                known = ", ".join(map(repr, (*self.chooser_names, *self.alternative_names, *self.pair_names)))
                raise ValueError(f"{name!r} is no feature that can be changed; there are {known}")
        return sets

    def parts(self, most: int = MOST_TOGETHER) -> Iterator[ChoiceSets]:
        """Yield the data by ranges of rows, with what a function of pairs gives in their lists; without one, at once.

        Parameters
        ----------
        most : int
            Numbers that a function of pairs may give for a range.

        Returns
        -------
        iterator of ChoiceSets
        """
        if self.function is None:
            yield self
            return
        width = max(1, self.n_pairs * len(self.pair_names) // max(self.n_rows, 1))
        step = max(1, most // width)
        for begin in range(0, self.n_rows, step):
            part = self.take(np.arange(begin, min(begin + step, self.n_rows)))
            lists = part.lists.filled(self.n_alternatives)
            yield replace(part, lists=part._with_features(lists, lists.rows), function=None)

    def core_arguments(self) -> dict[str, Any]:
        """Return the data as `_core.ChoiceProblem` takes them; those with a function of pairs have `parts` for it."""
        arguments: dict[str, Any] = {
            "n_rows": self.n_rows,
            "X": np.ascontiguousarray(self.X),
            "Z": np.zeros(0) if self.Z is None else self.Z,
            "constants": self.offsets,
            "indptr": self.lists.indptr,
            "alternatives": self.lists.alternatives,
            "pair_features": np.ascontiguousarray(self.lists.features),
            "offsets": self.lists.offsets,
            "listed_only": self.lists.only,
            "log_weights": self.lists.log_weights,
        }
        if is_sparse(self.Z):
            Z = sp.csr_array(self.Z)
            arguments |= {"Z": Z.data, "Z_indptr": Z.indptr.astype(np.int64), "Z_indices": Z.indices.astype(np.int32)}
        arguments["Z"] = np.ascontiguousarray(arguments["Z"], dtype=np.float64)
        by_row = {"chosen": self.chosen, "weights": self.sample_weight}
        return arguments | {name: array for name, array in by_row.items() if array is not None}

    def _with_features(self, lists: ChoiceLists, rows: NDArray[np.int64]) -> ChoiceLists:
        """Lists with what the function of pairs gives, the row of each entry being one of these data."""
        assert self.function is not None
        features = self.function(self._numbers[rows], lists.alternatives.astype(np.int64))
        shape = len(rows), len(self.pair_names)
        return replace(lists, features=read_numbers("the function of pairs", features, shape))

    @cached_property
    def _shares(self) -> Doubles:
        """The share of rows that chose each alternative, (n_alternatives,)."""
        return np.bincount(self.known_choices, minlength=self.n_alternatives) / self.n_rows

    def draw(
        self, rows: NDArray[np.int64], n_draws: int, *, share: float, seed: int, epoch: int, n_threads: int
    ) -> ChoiceSets:
        """Return rows with alternatives drawn for them; see cpp/manyclass/choice/draws.hpp.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        n_draws : int
        share : float, of draws that repeat the choice of a row drawn by chance
        seed : int
        epoch : int, which names the draws with the seed and the numbers of the rows
        n_threads : int

        Returns
        -------
        ChoiceSets
            Lists have the chosen alternative first, then those drawn, with the logarithms of their weights.
        """
        indptr, alternatives, log_weights, entries = _core.draw_choice_sets(
            indptr=self.lists.indptr,
            alternatives=self.lists.alternatives,
            listed_only=self.lists.only,
            rows=rows,
            chosen=self.known_choices,
            shares=self._shares,
            share=share,
            n_draws=n_draws,
            seed=seed,
            epoch=epoch,
            n_threads=n_threads,
        )
        listed = np.flatnonzero(entries >= 0)
        features, offsets = np.zeros((len(entries), self.lists.features.shape[1])), np.zeros(len(entries))
        features[listed], offsets[listed] = self.lists.features[entries[listed]], self.lists.offsets[entries[listed]]
        lists = ChoiceLists(indptr, alternatives, features, offsets, only=True, log_weights=log_weights)
        if self.function is not None:
            lists = self._with_features(lists, rows[lists.rows])
        return replace(self._rows(rows, lists), function=None, source=None)

    @property
    def set_sizes(self) -> NDArray[np.int64]:
        """How many alternatives are available to each row, (n_rows,)."""
        listed = np.isfinite(self.offsets)[self.lists.alternatives]
        available = listed & np.isfinite(self.lists.offsets)
        counted = available if self.lists.only else listed & ~available
        sizes = np.bincount(self.lists.rows[counted], minlength=self.n_rows)
        return sizes if self.lists.only else np.isfinite(self.offsets).sum() - sizes

    def to_long(self) -> dict[str, NDArray[Any]]:
        """Return a column for each name, with a row for each pair of a chooser and an alternative that it may choose.

        `pandas.DataFrame(sets.to_long())` is the table; `from_long` reads it. Columns are "chooser", "alternative",
        "offset" where there is one, "chosen", "person" and "weight" where they are known, and the features by name.
        """
        part = next(self.parts(sys.maxsize))
        lists = part.lists.filled(self.n_alternatives)
        offset = lists.offsets + self.offsets[lists.alternatives]
        available = np.isfinite(offset)
        rows, ids, offset = lists.rows[available], lists.alternatives[available], offset[available]
        Z: Any = self.Z.toarray() if is_sparse(self.Z) else self.Z
        table = {
            "chooser": rows,
            "alternative": self.alternatives[ids],
            "chosen": None if self.chosen is None else self.chosen[rows] == ids,
            "person": None if self.persons is None else self.persons[rows],
            "weight": None if self.sample_weight is None else self.sample_weight[rows],
            "offset": offset if offset.any() else None,
            **{name: self.X[rows, j] for j, name in enumerate(self.chooser_names)},
            **{name: Z[ids, j] for j, name in enumerate(self.alternative_names)},
            **{name: lists.features[available, j] for j, name in enumerate(self.pair_names)},
        }
        return {name: column for name, column in table.items() if column is not None}


def _with_column(table: Any, j: int, new: Any) -> Any:
    """A matrix with another column j: an array, or what a function makes of the old one."""
    old = table[:, [j]].toarray()[:, 0] if is_sparse(table) else table[:, j]
    column = read_numbers("the new column", new(old) if callable(new) else new)
    if is_sparse(table):
        return sp.csr_array(sp.hstack([table[:, :j], sp.csr_array(column[:, None]), table[:, j + 1 :]]))
    out = table.copy()
    out[:, j] = column
    return out


def positions_among(
    labels: ArrayLike, alternatives: NDArray[Any], name: str, *, by_row: bool = True
) -> NDArray[np.int64]:
    """Return where labels stand among distinct alternatives in any order; raises ValueError where one is none."""
    order = np.argsort(alternatives, kind="stable")
    wanted = as_labels(labels)
    positions = find_positions(wanted, alternatives[order], name)
    if positions.min(initial=0) < 0:
        row = int(np.argmax(positions < 0))
        label, known = wanted[row : row + 1].tolist()[0], alternatives[:10].tolist()
        rule = f", which is none of the alternatives {', '.join(map(repr, known))}{', ...' * (len(alternatives) > 10)}"
        hint = did_you_mean(label, [text for text in known if isinstance(text, str)])
        raise CellError(name, label, (row,) * by_row, rule + hint)
    return order[positions]
