"""Data of choices: who chooses, among which alternatives, with which features of choosers, alternatives and pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.labels import as_labels, find_positions
from manyclass.weights.arrays import Doubles, Ids

PairFunction = Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]
MOST_TOGETHER = 1 << 22  # features of pairs that a function makes at once: 32 MB


@dataclass(frozen=True)
class ChoiceLists:
    """What rows list: the alternatives that each may choose from, or those of which there is more to say.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
    alternatives : ndarray of shape (n_listed,), int32, increasing within a row
    features : ndarray of shape (n_listed, n_pair_features), float64
    offsets : ndarray of shape (n_listed,), float64; -infinity takes an alternative out
    only : bool, whether what is not listed cannot be chosen
    """

    indptr: NDArray[np.int64]
    alternatives: Ids
    features: Doubles
    offsets: Doubles
    only: bool

    def rows(self, begin: int, end: int) -> ChoiceLists:
        """Return the lists of some rows."""
        a, b = self.indptr[begin], self.indptr[end]
        of = (self.indptr[begin : end + 1] - a, self.alternatives[a:b], self.features[a:b], self.offsets[a:b])
        return ChoiceLists(*of, self.only)

    def take(self, rows: NDArray[np.int64]) -> ChoiceLists:
        """Return the lists of rows in any order."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], sizes)
        return ChoiceLists(indptr, self.alternatives[at], self.features[at], self.offsets[at], self.only)

    def for_core(self) -> dict[str, Any]:
        """Return the lists as `_core.choice_sums` takes them."""
        return {
            "indptr": np.ascontiguousarray(self.indptr, dtype=np.int64),
            "alternatives": np.ascontiguousarray(self.alternatives),
            "pair_features": np.ascontiguousarray(self.features),
            "offsets": np.ascontiguousarray(self.offsets),
            "listed_only": self.only,
        }


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
    function : callable or None, what gives the features of pairs where they are not listed
    offsets : ndarray of shape (n_alternatives,), float64, added to utilities
    chosen : ndarray of shape (n_rows,), int32, positions of what was chosen; None where it is not known
    persons : ndarray of shape (n_rows,), int64, who chose, by number; None where each row is of another person
    sample_weight : ndarray of shape (n_rows,), float64, or None
    chooser_names, alternative_names, pair_names : tuple of str
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

    def take(self, rows: ArrayLike) -> ChoiceSets:
        """Return some rows.

        Parameters
        ----------
        rows : array-like of int or bool
            Their positions, or a mask of all.
        """
        at = np.arange(self.n_rows)[np.asarray(rows)]
        return replace(
            self,
            X=self.X[at],
            lists=self.lists.take(at),
            chosen=None if self.chosen is None else self.chosen[at],
            persons=None if self.persons is None else self.persons[at],
            sample_weight=None if self.sample_weight is None else self.sample_weight[at],
            origin=self._numbers[at],
        )

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
        gone = np.unique(positions_among(np.atleast_1d(np.asarray(removed)), self.alternatives, "removed"))
        if self.lists.only:
            keep = ~np.isin(self.lists.alternatives, gone)
            rows = np.repeat(np.arange(self.n_rows), np.diff(self.lists.indptr))[keep]
            of = self.lists
            lists = lists_of(self.n_rows, rows, of.alternatives[keep], of.features[keep], of.offsets[keep], only=True)
            if not np.all(np.diff(lists.indptr)):
                raise ValueError("a row is left without an alternative")
            return replace(self, lists=lists, chosen=None)
        offsets = self.offsets.copy()
        offsets[gone] = -np.inf
        return replace(self, offsets=offsets, chosen=None)

    def changed(self, **features: Any) -> ChoiceSets:
        """Return the same choosers with other features, given by name.

        Parameters
        ----------
        **features : callable or array
            The new values of a feature of choosers, alternatives or listed pairs, or what makes them of the old ones.

        Returns
        -------
        ChoiceSets

        Raises
        ------
        ValueError
            If a name is none of a feature, or pairs have a function.
        """
        X, values = self.X.copy(), self.lists.features.copy()
        Z: Any = None if self.Z is None else self.Z.copy()
        for name, new in features.items():
            tables: tuple[tuple[tuple[str, ...], Any], ...]
            tables = ((self.chooser_names, X), (self.alternative_names, Z), (self.pair_names, values))
            for names, table in tables:
                if name in names and not (table is values and self.function is not None):
                    j = names.index(name)
                    old = table[:, [j]].toarray()[:, 0] if isinstance(table, sp.csr_array) else table[:, j]
                    made = np.asarray(new(old) if callable(new) else new, dtype=np.float64)
                    if isinstance(table, sp.csr_array):
                        Z = sp.csr_array(sp.hstack([table[:, :j], sp.csr_array(made[:, None]), table[:, j + 1 :]]))
                    else:
                        table[:, j] = made
                    break
            else:
                known = ", ".join(map(repr, (*self.chooser_names, *self.alternative_names, *self.pair_names)))
                raise ValueError(f"{name!r} is no feature that can be changed; there are {known}")
        return replace(self, X=X, Z=Z, lists=replace(self.lists, features=values))

    def blocks(self, most: int = MOST_TOGETHER) -> list[tuple[int, int]]:
        """Return ranges of rows.

        Parameters
        ----------
        most : int
            Numbers that a function of pairs may give for a range.
        """
        if self.function is None:
            return [(0, self.n_rows)]
        width = max(1, self.n_pairs * len(self.pair_names) // max(self.n_rows, 1))
        step = max(1, most // width)
        return [(begin, min(begin + step, self.n_rows)) for begin in range(0, self.n_rows, step)]

    def listed(self, begin: int, end: int) -> ChoiceLists:
        """Return the lists of some rows, with the features of pairs that a function gives.

        Parameters
        ----------
        begin, end : int
            The first row and the one after the last.
        """
        lists = self.lists.rows(begin, end)
        if self.function is None:
            return lists
        if not lists.only:
            n, k = end - begin, self.n_alternatives
            offsets = np.zeros((n, k))
            rows = np.repeat(np.arange(n), np.diff(lists.indptr))
            offsets[rows, lists.alternatives] = lists.offsets
            ids = np.tile(np.arange(k, dtype=np.int32), n)
            lists = ChoiceLists(np.arange(n + 1) * k, ids, lists.features[:0], offsets.ravel(), True)
        rows = np.repeat(np.arange(begin, end), np.diff(lists.indptr))
        return replace(lists, features=self._of_pairs(rows, lists.alternatives))

    def _of_pairs(self, rows: NDArray[np.int64], alternatives: Ids) -> Doubles:
        assert self.function is not None
        found = np.asarray(self.function(self._numbers[rows], alternatives.astype(np.int64)), dtype=np.float64)
        shape = (len(rows), len(self.pair_names))
        if found.shape != shape:
            raise ValueError(f"the function of pairs gave an array of shape {found.shape}; it must be {shape}")
        return found

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int64), np.diff(self.lists.indptr))
        return rows * self.n_alternatives + self.lists.alternatives

    @cached_property
    def shares(self) -> Doubles:
        """Return the share of rows that chose each alternative, (n_alternatives,)."""
        return np.bincount(self.known_choices, minlength=self.n_alternatives) / self.n_rows

    def draw(
        self, rows: NDArray[np.int64], n_draws: int, *, share: float, seed: int, epoch: int, n_threads: int
    ) -> ChoiceLists:
        """Draw alternatives for rows; see cpp/manyclass/choice/draws.hpp.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        n_draws : int
        share : float, of draws that repeat the choice of a row drawn by chance
        seed, epoch : int, which name the draws with the numbers of the rows
        n_threads : int

        Returns
        -------
        ChoiceLists
            The chosen alternative first, then those drawn; offsets have the logarithm of their weights in them.
        """
        chosen, lists = self.known_choices, self.lists
        how: dict[str, Any] = {}
        if lists.only:
            how = {"begins": lists.indptr[rows], "ends": lists.indptr[rows + 1], "alternatives": lists.alternatives}
        elif share > 0:
            how = {"past": chosen, "shares": self.shares, "share": share}
        indptr, ids, weights, places = _core.draw_choice_sets(
            rows=rows.astype(np.int32),
            chosen=chosen[rows],
            n_alternatives=self.n_alternatives,
            n_draws=n_draws,
            seed=seed,
            epoch=epoch,
            n_threads=n_threads,
            **how,
        )
        of_row = np.repeat(rows, np.diff(indptr))
        features = np.zeros((len(ids), len(self.pair_names)))
        if not lists.only and len(lists.alternatives):
            wanted = of_row * self.n_alternatives + ids
            places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            there = self._keys[places] == wanted
            weights[there] += lists.offsets[places[there]]
            if self.function is None:
                features[there] = lists.features[places[there]]
        elif lists.only:
            weights = weights + lists.offsets[places]
            features = lists.features[places] if self.function is None else features
        if self.function is not None:
            features = self._of_pairs(of_row, ids)
        return ChoiceLists(indptr, ids, features, weights, True)

    def to_long(self) -> dict[str, NDArray[Any]]:
        """Return a column for each name, with a row for each pair of a chooser and an alternative that it may choose.

        `pandas.DataFrame(sets.to_long())` is the table; `from_long` reads it. Columns are "chooser", "alternative",
        "offset" where there is one, "chosen", "person" and "weight" where they are known, and the features by name.
        """
        rows_of, ids, features, offsets = [], [], [], []
        for begin, end in self.blocks():
            found = self.listed(begin, end)
            if not found.only:
                found = _filled(found, self.n_alternatives)
            kept = np.isfinite(found.offsets + self.offsets[found.alternatives])
            rows_of.append(np.repeat(np.arange(begin, end), np.diff(found.indptr))[kept])
            ids.append(found.alternatives[kept])
            features.append(found.features[kept])
            offsets.append((found.offsets + self.offsets[found.alternatives])[kept])
        rows, at, values = np.concatenate(rows_of), np.concatenate(ids), np.concatenate(features)
        offset = np.concatenate(offsets)
        table: dict[str, NDArray[Any]] = {"chooser": rows, "alternative": self.alternatives[at]}
        if self.chosen is not None:
            table["chosen"] = self.chosen[rows] == at
        if self.persons is not None:
            table["person"] = self.persons[rows]
        if self.sample_weight is not None:
            table["weight"] = self.sample_weight[rows]
        if offset.any():
            table["offset"] = offset
        table |= {name: self.X[rows, j] for j, name in enumerate(self.chooser_names)}
        Z = self.Z.toarray() if isinstance(self.Z, sp.csr_array) else self.Z
        table |= {name: Z[at, j] for j, name in enumerate(self.alternative_names)}
        return table | {name: values[:, j] for j, name in enumerate(self.pair_names)}


def is_sparse(values: Any) -> bool:
    """Whether this is a sparse matrix of SciPy."""
    return bool(sp.issparse(values))


def positions_among(labels: ArrayLike, alternatives: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Return where labels stand among distinct alternatives in any order; raises ValueError where one is none."""
    order = np.argsort(alternatives, kind="stable")
    asked = as_labels(labels)
    found = find_positions(asked, alternatives[order], what)
    if found.min(initial=0) < 0:
        raise ValueError(f"{what} has {asked[found < 0][:1].tolist()[0]!r}, which is none of the alternatives")
    return order[found]


def lists_of(
    n_rows: int, rows: NDArray[np.int64], ids: Ids, features: Doubles, offsets: Doubles, *, only: bool
) -> ChoiceLists:
    """Return lists of entries in any order; raises ValueError where an alternative is there twice."""
    order = np.lexsort((ids, rows))
    rows, ids = rows[order], ids[order]
    if np.any((rows[1:] == rows[:-1]) & (ids[1:] == ids[:-1])):
        raise ValueError("a row lists an alternative twice")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
    return ChoiceLists(indptr, ids.astype(np.int32), features[order], offsets[order], only)


def _filled(lists: ChoiceLists, n_alternatives: int) -> ChoiceLists:
    """Lists of all alternatives, those that were not listed having zeros."""
    n, k, r = len(lists.indptr) - 1, n_alternatives, lists.features.shape[1]
    at = np.repeat(np.arange(n) * k, np.diff(lists.indptr)) + lists.alternatives
    features, offsets = np.zeros((n * k, r)), np.zeros(n * k)
    features[at], offsets[at] = lists.features, lists.offsets
    return ChoiceLists(np.arange(n + 1) * k, np.tile(np.arange(k, dtype=np.int32), n), features, offsets, True)
