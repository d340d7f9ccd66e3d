"""Data of choices: who chooses, among which alternatives, with which features of choosers, alternatives and pairs."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_choice, did_you_mean, outer_level
from manyclass.choice.columns import CellError, Owners, check_cells, read_flags, read_numbers
from manyclass.datasets.csr import is_sparse
from manyclass.labels import as_labels, checked_labels, find_positions, group_ids, sorted_classes
from manyclass.weights.arrays import Doubles, Ids

Unavailable = Literal["raise", "drop", "keep"]
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
        names = ("alternatives", "features", "offsets", "log_weights")
        by_entry = {name: of_all[entries] for name in names if len(of_all := getattr(self, name))}
        return replace(self, indptr=indptr, **by_entry)

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
    table : mapping of names to columns
    make : callable, which makes a table like it the data of all its rows
    alternative : str or None
        The column of alternatives; None: the table has a row for each chooser.
    whole : bool
        Whether the formula is the whole utility, with its constants.
    """

    table: Mapping[str, Any]
    make: Callable[[Any], ChoiceSets]
    alternative: str | None = None
    whole: bool = False


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
    origin : ndarray of shape (n_rows,), int64
        Numbers by which the function and the source know the rows.
    chooser_names : tuple of str
    alternative_names : tuple of str
    pair_names : tuple of str
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
    origin: NDArray[np.int64]
    chooser_names: tuple[str, ...]
    alternative_names: tuple[str, ...]
    pair_names: tuple[str, ...]
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

    @cached_property
    def owners(self) -> Owners:
        """Return whose choices the rows are: of persons, or each of one by itself."""
        who = np.arange(self.n_rows) if self.persons is None else self.persons
        numbers, first, rows = np.unique(who, return_index=True, return_inverse=True)
        return Owners(rows, first, numbers.tolist())

    def take(self, rows: ArrayLike, lists: ChoiceLists | None = None) -> ChoiceSets:
        """Return some rows.

        Parameters
        ----------
        rows : array-like of int or bool
            Their positions, or a mask of all.
        lists : ChoiceLists, optional
            The alternatives that these rows may choose from, with their features; None: those of the sets.
        """
        positions = np.arange(self.n_rows)[np.asarray(rows)]
        names = ("X", "chosen", "persons", "sample_weight", "origin")
        by_row = {name: of_all[positions] for name in names if (of_all := getattr(self, name)) is not None}
        return replace(self, lists=self.lists.take(positions) if lists is None else lists, **by_row)

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
        offsets = self.offsets.copy()
        offsets[positions_among(removed, self.alternatives, "removed", by_row=False)] = -np.inf
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
            sets.check_changeable(name)
            if sets.source is not None:
                column = np.asarray(sets.source.table[name])
                values = np.asarray(new(column) if callable(new) else new)
                if values.shape != column.shape:
                    raise ValueError(f"{name} has shape {values.shape}; it must be that of the table, {column.shape}")
                source = replace(sets.source, table={**sets.source.table, name: values})
                rebuilt = source.make(source.table).take(self.origin)
                sets = replace(sets, X=rebuilt.X, Z=rebuilt.Z, lists=rebuilt.lists, source=source)
            elif name in self.chooser_names:
                sets = replace(sets, X=_with_column(sets.X, self.chooser_names.index(name), new))
            elif name in self.alternative_names:
                sets = replace(sets, Z=_with_column(sets.Z, self.alternative_names.index(name), new))
            else:
                values = _with_column(sets.lists.features, self.pair_names.index(name), new)
                sets = replace(sets, lists=replace(sets.lists, features=values))
        return sets

    def check_changeable(self, name: str) -> None:
        """Raise ValueError unless a name is one of what `changed` takes.

        Parameters
        ----------
        name : str
        """
        kind, names = "feature that can be changed", (*self.chooser_names, *self.alternative_names)
        names += self.pair_names if self.function is None else ()
        if self.source is not None:
            kind, names = "column of the table that features follow", tuple(self.source.table)
        if name not in names:
            known = f"there are {', '.join(map(repr, names))}{did_you_mean(name, names)}"
            raise ValueError(f"{name!r} is no {kind}; {known}")

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
        lists = self.lists
        Z: Any = np.zeros(0) if self.Z is None else self.Z
        arguments: dict[str, Any] = {"n_rows": self.n_rows, "constants": self.offsets, "listed_only": lists.only}
        arguments |= {"indptr": lists.indptr, "alternatives": lists.alternatives, "offsets": lists.offsets}
        arguments |= {"log_weights": lists.log_weights, "pair_features": np.ascontiguousarray(lists.features)}
        if is_sparse(Z):
            arguments |= {"Z_indptr": Z.indptr.astype(np.int64), "Z_indices": Z.indices.astype(np.int32)}
            Z = Z.data
        arguments |= {"X": np.ascontiguousarray(self.X), "Z": np.ascontiguousarray(Z, dtype=np.float64)}
        by_row = {"chosen": self.chosen, "weights": self.sample_weight}
        return arguments | {name: array for name, array in by_row.items() if array is not None}

    def _with_features(self, lists: ChoiceLists, rows: NDArray[np.int64]) -> ChoiceLists:
        """Lists with what the function of pairs gives, the row of each entry being one of these data."""
        assert self.function is not None
        features = self.function(self.origin[rows], lists.alternatives.astype(np.int64))
        shape = len(rows), len(self.pair_names)
        return replace(lists, features=read_numbers("the function of pairs", features, shape))

    @cached_property
    def _shares(self) -> Doubles:
        """The share of rows that chose each alternative, (n_alternatives,)."""
        return np.bincount(self.known_choices, minlength=self.n_alternatives) / self.n_rows

    def draw(self, rows: NDArray[np.int64], n_draws: int, *, share: float, **seeds: Any) -> ChoiceSets:
        """Return rows with alternatives drawn for them; see cpp/manyclass/choice/draws.hpp.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        n_draws : int
        share : float, of draws that repeat the choice of a row drawn by chance
        **seeds : int
            "seed", "epoch", which names the draws with the seed and the numbers of the rows, and "n_threads".

        Returns
        -------
        ChoiceSets
            Lists have the chosen alternative first, then those drawn, with the logarithms of their weights.
        """
        about: dict[str, Any] = {"indptr": self.lists.indptr, "alternatives": self.lists.alternatives, "rows": rows}
        about |= {"chosen": self.known_choices, "shares": self._shares, "share": share, "n_draws": n_draws, **seeds}
        drawn = _core.draw_choice_sets(listed_only=self.lists.only, **about)
        indptr, alternatives, log_weights, entries = drawn
        listed = np.flatnonzero(entries >= 0)
        features, offsets = np.zeros((len(entries), self.lists.features.shape[1])), np.zeros(len(entries))
        features[listed], offsets[listed] = self.lists.features[entries[listed]], self.lists.offsets[entries[listed]]
        lists = ChoiceLists(indptr, alternatives, features, offsets, only=True, log_weights=log_weights)
        if self.function is not None:
            lists = self._with_features(lists, rows[lists.rows])
        return replace(self.take(rows, lists), function=None, source=None)

    @property
    def set_sizes(self) -> NDArray[np.int64]:
        """How many alternatives are available to each row, (n_rows,)."""
        is_open, only = np.isfinite(self.offsets), self.lists.only
        # What is listed adds itself where it alone may be chosen, and takes itself away where it is closed elsewhere.
        counts = is_open[self.lists.alternatives] * (np.isfinite(self.lists.offsets) - float(not only))
        sizes = np.bincount(self.lists.rows, weights=counts, minlength=self.n_rows)
        return (sizes + (0 if only else is_open.sum())).astype(np.int64)

    def leave_out_unavailable(
        self, unavailable_choices: Unavailable = "drop", name_row: Callable[[int], str] = "row {}".format
    ) -> ChoiceSets:
        """Return the rows whose choice is available; others are counted, and refused or left out.

        Parameters
        ----------
        unavailable_choices : {"raise", "drop", "keep"}
        name_row : callable
            What makes the name of a row of its number.

        Raises
        ------
        ValueError
            If there are others and they are refused, or none is left.
        """
        check_choice("unavailable_choices", unavailable_choices, get_args(Unavailable))
        if self.chosen is None or unavailable_choices == "keep":
            return self
        lists, signs = self.lists, np.where(np.isfinite(self.lists.offsets), 1, -1)
        matrix = sp.csr_array((signs, lists.alternatives, lists.indptr), shape=(self.n_rows, self.n_alternatives))
        # What is not listed, 0, is available where lists only tell more.
        is_available = matrix[np.arange(self.n_rows), self.chosen] >= lists.only
        wrong = np.flatnonzero(~is_available)
        if not len(wrong):
            return self
        pairs = zip(self.origin[wrong[:3]].tolist(), self.labels[wrong[:3]].tolist(), strict=True)
        few = ", ".join(f"{name_row(row)} has chosen {label!r}" for row, label in pairs)
        message = f"{len(wrong)} of {self.n_rows} rows have chosen an alternative that is not available: {few}"
        if unavailable_choices == "raise" or len(wrong) == self.n_rows:
            raise ValueError(f"{message}; unavailable_choices='drop' leaves such rows out")
        warnings.warn(f"{message}; they are left out", stacklevel=outer_level())
        return self.take(is_available)

    def with_source(self, table: Mapping[str, Any], read: Any, spec: Any, **keys: Any) -> ChoiceSets:
        """Return the data with the table that formulas made features of, which a function reads anew.

        Parameters
        ----------
        table : mapping of names to columns
        read : callable
        spec : formulaic.ModelSpec or None
            What formulaic knows of the formula; None: the table has whole utilities.
        **keys : object
            What else the function takes.
        """
        make = partial(read, **keys, formula=spec, features=None if spec is None else names_by_kind(self))
        return replace(self, source=SourceTable(table, make, keys.get("alternative"), whole=spec is None))

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
        table: dict[str, Any] = {"chooser": rows, "alternative": self.alternatives[ids]}
        if self.chosen is not None:
            table["chosen"] = self.chosen[rows] == ids
        by_row = {"person": self.persons, "weight": self.sample_weight}
        table |= {name: of_rows[rows] for name, of_rows in by_row.items() if of_rows is not None}
        table |= {"offset": offset} if offset.any() else {}
        Z: Any = self.Z.toarray() if is_sparse(self.Z) else self.Z
        table |= {name: self.X[rows, j] for j, name in enumerate(self.chooser_names)}
        table |= {name: Z[ids, j] for j, name in enumerate(self.alternative_names)}
        return table | {name: lists.features[available, j] for j, name in enumerate(self.pair_names)}


def names_by_kind(named: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of the features of "choosers", "alternatives" and "pairs" that data, or a form, have.

    Parameters
    ----------
    named : ChoiceSets or ChoiceForm
    """
    return {"choosers": named.chooser_names, "alternatives": named.alternative_names, "pairs": named.pair_names}


def _with_column(table: Any, j: int, new: Any) -> Any:
    """A matrix with another column j: an array, or what a function makes of the old one."""
    matrix = table.tolil() if is_sparse(table) else table.copy()
    old = matrix[:, [j]].toarray()[:, 0] if is_sparse(table) else table[:, j]
    matrix[:, [j]] = read_numbers("the new column", new(old) if callable(new) else new, old.shape)[:, None]
    return sp.csr_array(matrix) if is_sparse(table) else matrix


def positions_among(labels: Any, alternatives: NDArray[Any], name: str, *, by_row: bool = True) -> NDArray[np.int64]:
    """Return where labels stand among distinct alternatives in any order; raises ValueError where one is none."""
    order = np.argsort(alternatives, kind="stable")
    wanted = np.atleast_1d(as_labels(labels))
    positions = find_positions(wanted, alternatives[order], name)
    if positions.min(initial=0) < 0:
        row = int(np.argmax(positions < 0))
        label, known = wanted[row : row + 1].tolist()[0], [*map(repr, alternatives[:10].tolist())]
        rule = f", which is none of the alternatives {', '.join([*known, '...'][: len(alternatives)])}"
        raise CellError(name, label, (row,) * by_row, rule)
    return order[positions]


def _names(name: str, user_names: Sequence[str] | None, values: Any, matrix: Any, letter: str) -> tuple[str, ...]:
    n = 0 if matrix is None else matrix.shape[1]
    columns = getattr(values, "columns", ()) if user_names is None else user_names
    feature_names = tuple(map(str, columns)) or tuple(f"{letter}{j}" for j in range(n))
    if len(feature_names) != n:
        raise ValueError(f"{name} is {feature_names!r}; it must have {n} names")
    return feature_names


def _check_arguments(chosen: Any, counts: Any, pairs: Any, pair_names: Any, available: Any) -> None:
    """Raise ValueError for arguments that cannot be together, or are none of their kind."""
    if chosen is not None and counts is not None:
        raise ValueError("chosen and counts are both given; give one")
    if not (pair_names if callable(pairs) else pairs is None or isinstance(pairs, Mapping)):
        kind = type(pairs).__name__
        raise ValueError(f"pairs is a {kind}; it must be a mapping of names to arrays, or a function with pair_names")
    if isinstance(available, tuple) and [*map(np.ndim, available)] != [1, 1]:
        raise ValueError(f"available is {available!r:.80}; a tuple must be lists (indptr, alternatives), two 1d arrays")


def choice_sets(
    *,
    alternatives: ArrayLike | None = None,
    X: Any = None,
    Z: Any = None,
    pairs: Mapping[str, Any] | PairFunction | None = None,
    available: Any = None,
    unavailable: Any = None,
    offset: Any = None,
    chosen: ArrayLike | None = None,
    counts: Any = None,
    persons: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    chooser_names: Sequence[str] | None = None,
    alternative_names: Sequence[str] | None = None,
    pair_names: Sequence[str] | None = None,
    n_rows: int | None = None,
    unavailable_choices: Unavailable = "raise",
) -> ChoiceSets:
    """Return data of choices, made of arrays.

    Parameters
    ----------
    alternatives : array-like of shape (n_alternatives,), optional
        Distinct labels of all alternatives; without, they are 0, 1, ... as Z or the pairs have rows or columns for
        them.
    X : array-like of shape (n_rows, n_chooser_features), optional
        Features of choosers.
    Z : array-like or sparse matrix of shape (n_alternatives, n_alternative_features), optional
        Features of alternatives.
    pairs : mapping of str to arrays, or callable, optional
        Features of pairs by name: dense or sparse of shape (n_rows, n_alternatives), what is not stored being 0; or of
        shape (n_listed,), in the order of `available` given as (indptr, alternatives). Or a function of two int64
        arrays, numbers of rows and positions of alternatives, that returns (n, n_pair_features); `pair_names` then
        names them.
    available : optional
        What each row may choose: a mask, dense or sparse, of shape (n_rows, n_alternatives), in which a cell is 0 or 1,
        false or true, no or yes; ranges of positions, an integer array of shape (n_rows, 2) of first and last + 1;
        lists (indptr, alternatives) by position; or a function of an array of row numbers that returns their mask.
    unavailable : sparse matrix of shape (n_rows, n_alternatives), optional
        What a row may not choose, where that is little; instead of `available`.
    offset : array-like of shape (n_alternatives,), (n_rows, n_alternatives) or (n_listed,), optional
        Added to utilities, with a coefficient of 1.
    chosen : array-like of shape (n_rows,), optional
        Labels of what was chosen.
    counts : array-like or sparse matrix of shape (n_rows, n_alternatives), optional
        How many choosers with the features of a row chose each alternative, instead of `chosen`: a row becomes one for
        each alternative that was chosen, whose weight is the count.
    persons : array-like of shape (n_rows,), optional
        Who chose: rows of one person are repeated choices.
    sample_weight : array-like of shape (n_rows,), optional
    chooser_names : sequence of str, optional
        Names of the features of choosers.
    alternative_names : sequence of str, optional
        Names of the features of alternatives.
    pair_names : sequence of str, optional
        Names of the features of pairs.
    n_rows : int, optional
        Needed where nothing else tells it.
    unavailable_choices : {"raise", "drop", "keep"}
        What becomes of rows whose choice is not available; a warning counts those that are left out, and those that
        are kept are refused by `fit`.

    Returns
    -------
    ChoiceSets

    Raises
    ------
    ValueError
        If sizes do not fit each other, numbers are not finite or beyond 1e60, or a chosen alternative is not available.
        Numbers below 1e-60 in size are 0.
    """
    _check_arguments(chosen, counts, pairs, pair_names, available)
    function, features = (pairs, {}) if callable(pairs) else (None, dict(pairs or {}))
    by_row, by_pair = (X, chosen, persons, sample_weight), (*features.values(), unavailable, offset, counts)
    labels, n = _sizes(alternatives, n_rows, Z, available, by_row, by_pair)
    k, fixed = len(labels), np.zeros(len(labels))
    if np.shape(offset) == (k,) and not isinstance(available, tuple):
        fixed, offset = read_numbers("offset", offset, (k,)), None
    lists = _make_lists(features, available, unavailable, offset, n, k)
    x = read_numbers("X", np.zeros((n, 0)) if X is None else X, (n, None))
    z = None if Z is None else read_numbers("Z", Z, (k, None))
    of_choosers = _names("chooser_names", chooser_names, X, x, "x")
    by_kind = (of_choosers, _names("alternative_names", alternative_names, Z, z, "z"), tuple(pair_names or features))
    names = [*itertools.chain(*by_kind)]
    if len(set(names)) < len(names):
        raise ValueError(f"features have names that occur twice: {', '.join(names)}")
    places = None
    if chosen is not None:
        places = read_numbers("chosen", positions_among(checked_labels(chosen, "chosen"), labels, "chosen"), (n,))
        places = places.astype(np.int32)
    weights = None if sample_weight is None else read_numbers("sample_weight", sample_weight, (n,))
    if weights is not None and (weights.min(initial=0) < 0 or not weights.any()):
        raise ValueError("sample_weight has numbers below 0, or only zeros")
    people = None if persons is None else group_ids(persons, n, "persons")
    sets = ChoiceSets(labels, x, z, lists, function, fixed, places, people, weights, np.arange(n), *by_kind)
    sets = sets if counts is None else _with_counts(sets, counts)
    return sets.leave_out_unavailable(unavailable_choices)


def _with_counts(sets: ChoiceSets, counts: Any) -> ChoiceSets:
    """A row for each alternative that choosers of a row took, weighted by their number."""
    matrix = sp.csr_array(read_numbers("counts", counts, (sets.n_rows, sets.n_alternatives)))
    check_cells("counts", matrix, matrix.data >= 0, "; it must be at least 0")
    matrix.eliminate_zeros()
    rows, ids = matrix.tocoo().coords
    if not len(rows):
        raise ValueError("counts has only zeros")
    return replace(sets.take(rows), chosen=ids.astype(np.int32), sample_weight=sets.weights[rows] * matrix.data)


def distinct_labels(alternatives: Any) -> NDArray[Any]:
    """Return the labels of alternatives; raises ValueError where there are none, or two are one."""
    labels = checked_labels(alternatives, "alternatives")
    if labels.ndim != 1 or not len(labels) or len(sorted_classes(labels, name="alternatives")[0]) < len(labels):
        raise ValueError("alternatives must be distinct, and there must be some")
    return labels


def _sizes(
    alternatives: Any, n_rows: int | None, Z: Any, available: Any, by_row: Sequence[Any], by_pair: Sequence[Any]
) -> tuple[NDArray[Any], int]:
    """Labels of the alternatives and the number of rows, of the first array that tells; others are checked by these."""
    begins, mask = (available[0][1:], None) if isinstance(available, tuple) else (None, available)
    tables = [array for array in (*by_pair, mask) if np.ndim(array) == 2]
    row_counts = [] if n_rows is None else [n_rows]
    row_counts += [size for array in (*by_row, begins, *tables) for size in np.shape(array)[:1]]
    counts = [*np.shape(Z)[:1], *(np.shape(table)[1] for table in tables)]
    if not row_counts or row_counts[0] < 1 or (alternatives is None and not counts):
        raise ValueError("the data have no rows, or nothing tells how many rows and alternatives there are")
    return np.arange(counts[0]) if alternatives is None else distinct_labels(alternatives), row_counts[0]


def _list_available(available: Any, n: int, k: int) -> Any:
    """What each row may choose, as a matrix, sorted; its numbers tell where `available` lists a pair."""
    available = available(np.arange(n)) if callable(available) else available
    if not is_sparse(available) and not isinstance(available, tuple) and np.shape(available)[1:] == (2,):
        ranges = np.asarray(available)
        if ranges.dtype.kind in "iu" and (k != 2 or ranges.max(initial=0) > 1):  # else it is a mask
            is_right = (ranges >= 0) & (ranges <= k) & (ranges[:, :1] < ranges[:, 1:])
            rule = f"; cells of masks are 0 or 1, and a range has a first position and a last + 1 in [0, {k}]"
            check_cells("available", ranges, is_right, rule)
            first, end = ranges.astype(np.int64).T
            available = join_ranges(first, end - first)
    if isinstance(available, tuple):
        indptr, ids = map(np.asarray, available)
        for name, values, most in (("the indptr of available", indptr, len(ids)), ("available", ids, k - 1)):
            is_right = (values >= 0) & (values <= most) & (values == np.floor(values))
            check_cells(name, values, is_right, f"; it must be an integer in [0, {most}]")
        indptr, ids = indptr.astype(np.int64), ids.astype(np.int64)
        if len(indptr) != n + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] != len(ids):
            raise ValueError(f"available has an indptr that does not begin n_rows = {n} lists")
    else:
        if np.shape(available) != (n, k):
            raise ValueError(f"available has shape {np.shape(available)}; it must be {(n, k)}")
        mask = sp.csr_array(read_flags("available", available))
        mask.eliminate_zeros()
        indptr, ids = mask.indptr, mask.indices
    if not np.diff(indptr).all():
        raise ValueError(f"row {np.argmin(np.diff(indptr))} has no alternative to choose from")
    listed = sp.csr_array((np.arange(len(ids)), ids, indptr), shape=(n, k))
    listed.sort_indices()
    if not listed.has_canonical_format:
        raise ValueError("a row lists an alternative twice")
    return listed


def _make_lists(features: dict[str, Any], available: Any, unavailable: Any, offset: Any, n: int, k: int) -> ChoiceLists:
    """Lists of what is available, or of what there is more to say."""
    if available is not None and unavailable is not None:
        raise ValueError("available and unavailable are both given; give one")
    closed = sp.csr_array((n, k) if unavailable is None else read_flags("unavailable", unavailable))
    arrays = [*features.items(), ("offset", sp.csr_array((n, k)) if offset is None else offset)]
    arrays.append(("unavailable", closed))
    only = available is not None or not all(is_sparse(values) for _, values in arrays)
    if only:
        listed: Any = _list_available(~closed.astype(bool).toarray() if available is None else available, n, k)
    else:
        arrays = [(name, read_numbers(name, values, (n, k))) for name, values in arrays]
        listed = sum(sp.csr_array((np.ones(m.nnz), m.indices, m.indptr), shape=m.shape) for _, m in arrays)
        listed.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(listed.indptr))
    *columns, offsets, is_closed = (_numbers(name, values, listed, rows) for name, values in arrays)
    indptr, ids = listed.indptr.astype(np.int64), listed.indices.astype(np.int32)
    return ChoiceLists(
        indptr, ids, np.reshape(columns, (len(columns), len(ids))).T, np.where(is_closed, -np.inf, offsets), only
    )


def _numbers(name: str, values: Any, listed: Any, rows: NDArray[np.int64]) -> Doubles:
    """A number for each pair that is listed; cells of a table that are not may be missing."""
    if is_sparse(values):
        matrix = read_numbers(name, values, listed.shape)
        return np.asarray(matrix[rows, listed.indices] if matrix.nnz else np.zeros(len(rows)))
    if np.shape(values) == listed.shape:
        mask = np.zeros(listed.shape, dtype=bool)
        mask[rows, listed.indices] = True
        return np.asarray(read_numbers(name, values, where=mask)[mask])
    return np.asarray(read_numbers(name, values, rows.shape)[listed.data])
