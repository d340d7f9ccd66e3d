"""Data of choices from long tables and from wide ones."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import did_you_mean
from manyclass.choice.arrays import Unavailable, choice_sets, distinct_labels, leave_out_unavailable
from manyclass.choice.columns import CellError, columns_by_name, has_numbers, read_flags, read_numbers, stack_columns
from manyclass.choice.sets import ChoiceSets, SourceTable, positions_among
from manyclass.choice.utilities import evaluate_utilities
from manyclass.datasets.tables import library
from manyclass.labels import as_labels, check_targets, sorted_classes
from manyclass.weights.arrays import Doubles

Columns = Mapping[str, ArrayLike]
USUAL = ("person", "weight", "offset")  # columns that are used where a table has them
# Names of columns of numbers that are hardly features: weights, and the numbers of rows.
WEIGHTS = r"(.*[_. ])?(wt|wgt|weights?|exp_?fac(tor)?|expansion[_. ]?factor)\d*"
TASKS = "; where tasks recur for each person, chooser names several columns, such as chooser=['person', 'task']"
ROW_NUMBERS = r"|index|unnamed: \d+|row[_. ]?(names?|ids?|numbers?)"


def from_long(
    table: Columns,
    *,
    chooser: str | Sequence[str] = "chooser",
    alternative: str = "alternative",
    chosen: str | None = "chosen",
    counts: str | None = None,
    available: str | None = None,
    features: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    alternatives: ArrayLike | None = None,
    person: str | None = "auto",
    weight: str | None = "auto",
    offset: str | None = "auto",
    formula: Any = None,
    unavailable_choices: Unavailable = "raise",
) -> ChoiceSets:
    """Return the choices of a long table, which has a row for each pair of a chooser and an alternative.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    chooser : str or sequence of str
        The column with numbers or names of choosers; several where tasks recur, such as ["person", "task"].
    alternative : str
        The column with numbers or names of alternatives.
    chosen : str or None
        The column that tells whether a row was chosen, by 0 and 1, false and true, or no and yes; None: nothing does.
    counts : str, optional
        The column of how many with the chooser's features chose a row, instead of `chosen`; see `choice_sets`.
    available : str, optional
        The column that tells likewise whether a row may be chosen; without, each may.
    features : sequence of str or mapping, optional
        Columns with features, all others that have numbers being taken where none are named. What is the same in all
        rows of every chooser becomes a feature of choosers, and of every alternative one of alternatives; a mapping of
        "choosers", "alternatives" and "pairs" to columns says which are which, as it must for a table to predict.
    alternatives : array-like, optional
        Labels of all alternatives, of which the table may lack some.
    person : str or None
        The column of who chose; "auto" is "person" where the table has it, None no column.
    weight : str or None
        The column of weights of choosers; "auto" is "weight" where the table has it, None no column.
    offset : str or None
        The column that is added to utilities; "auto" is "offset" where the table has it, None no column.
    formula : str, optional
        Features by a formula of the package formulaic, such as "log(distance) + cost:income"; `features` may then tell
        their kinds.
    unavailable_choices : {"raise", "drop", "keep"}
        What becomes of choosers whose choice is not available; see `choice_sets`.

    Returns
    -------
    ChoiceSets

    Raises
    ------
    ValueError
        If a column is missing, a cell is not what its column holds, a chooser has chosen none or several alternatives
        or lists one twice, weights or persons differ within a chooser, or no features are named and columns of numbers
        look like weights.
    """
    columns, has_no_weight = columns_by_name(table), weight is None
    person, weight, offset = (
        (usual if usual in columns else None) if name == "auto" else name
        for name, usual in zip((person, weight, offset), USUAL, strict=True)
    )
    roles: dict[str, Sequence[str | None]] = {"chooser": (chooser,) if isinstance(chooser, str) else tuple(chooser)}
    roles |= {"alternative": (alternative,), "chosen": (None if counts else chosen,), "counts": (counts,)}
    roles |= {"available": (available,), "person": (person,), "weight": (weight,), "offset": (offset,)}
    _check_columns(columns, "from_long", roles)
    pairs, spec = LongPairs.of(columns, roles["chooser"], alternative, alternatives, available), None
    if formula is not None:
        feature_columns, spec = _by_formula(formula, columns, features)
    else:
        uses = {*USUAL, *itertools.chain(*roles.values())}
        feature_columns = {name: columns[name] for name in _feature_names(columns, features, uses, has_no_weight)}
    kinds = features if isinstance(features, Mapping) else None
    sets = pairs.sets(feature_columns, kinds, offset, {**pairs.of_choosers(person, weight), **pairs.choices(roles)})
    if spec is not None:
        keys: dict[str, Any] = {"chooser": chooser, "alternative": alternative, "alternatives": pairs.labels}
        keys |= {"available": available, "offset": offset, "person": None, "weight": None, "chosen": None}
        make = partial(from_long, **keys, formula=spec, features=_names_by_kind(sets))
        sets = replace(sets, source=SourceTable(columns, make, alternative))
    return leave_out_unavailable(sets, unavailable_choices, lambda row: f"chooser {pairs.who(int(pairs.first[row]))!r}")


@dataclass(frozen=True)
class LongPairs:
    """The rows of a long table, by chooser and alternative.

    Attributes
    ----------
    columns : mapping of str to columns
    names : sequence of str
        The columns of choosers.
    rows : ndarray of shape (n_pairs,), int64
        The number of each one's chooser.
    first : ndarray of shape (n_choosers,), int64
        The first row of each chooser.
    labels : ndarray of shape (n_alternatives,)
    ids : ndarray of shape (n_pairs,), int64
        Positions of alternatives.
    mask : ndarray of shape (n_pairs,), bool
        Which may be chosen.
    """

    columns: Mapping[str, Any]
    names: Sequence[str]
    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    labels: NDArray[Any]
    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]

    @classmethod
    def of(
        cls, columns: Mapping[str, Any], names: Any, alternative: str, alternatives: Any, available: str | None
    ) -> LongPairs:
        """Number the choosers and the alternatives of a table."""
        rows, first = number_choosers(columns, names)
        listed = _label_column(columns, alternative)
        labels = sorted_classes(listed, name=alternative)[0] if alternatives is None else distinct_labels(alternatives)
        mask = np.ones(len(rows), bool) if available is None else read_flags(available, columns[available])
        return cls(columns, names, rows, first, labels, positions_among(listed, labels, alternative), mask)

    def who(self, row: int) -> Any:
        """Return the label of a row's chooser."""
        return name_chooser(self.columns, self.names, row)

    def of_choosers(self, person: str | None, weight: str | None) -> dict[str, Any]:
        """Return persons and weights, in which the rows of a chooser must agree; raises CellError."""
        cells: dict[str, Any] = {}
        if person is not None:
            cells["persons"] = person, _label_column(self.columns, person)
        if weight is not None:
            cells["sample_weight"] = weight, read_numbers(weight, self.columns[weight])
        for name, column in cells.values():
            wrong = np.flatnonzero(column != column[self.first][self.rows])
            if len(wrong):
                row = int(wrong[0])
                pair = column[[row, self.first[self.rows[row]]]].tolist()
                rule = f", and {pair[1]!r} in another row of the same chooser, {self.who(row)!r}{TASKS}"
                raise CellError(name, pair[0], (row,), rule)
        return {role: column[self.first] for role, (_, column) in cells.items()}

    def choices(self, roles: Mapping[str, Sequence[str | None]]) -> dict[str, Any]:
        """Return what choosers have marked, or counts; raises ValueError where it is not one alternative."""
        (chosen,), (counts,) = roles["chosen"], roles["counts"]
        shape = len(self.first), len(self.labels)
        if counts is not None:
            numbers = read_numbers(counts, self.columns[counts])
            return {"counts": sp.csr_array((numbers, (self.rows, self.ids)), shape=shape)}
        if chosen is None:
            return {}
        marks = read_flags(chosen, self.columns[chosen])
        n_marks = np.bincount(self.rows[marks], minlength=shape[0])
        if np.any(n_marks != 1):
            wrong = int(np.argmax(n_marks != 1))
            hint = TASKS if n_marks[wrong] > 1 else ""
            who = self.who(int(self.first[wrong]))
            raise ValueError(f"chooser {who!r} has chosen {n_marks[wrong]} alternatives; it must be one{hint}")
        choice = np.empty(shape[0], dtype=np.int64)
        choice[self.rows[marks]] = self.ids[marks]
        return {"chosen": self.labels[choice]}

    def sets(
        self, features: Mapping[str, Any], kinds: Mapping[str, Sequence[str]] | None, offset: str | None, how: Any
    ) -> ChoiceSets:
        """Return the data with features, of which cells count where a pair may be chosen."""
        order = np.flatnonzero(self.mask)
        order = order[np.lexsort((self.ids[order], self.rows[order]))]
        read = {name: read_numbers(name, column, where=self.mask)[order] for name, column in features.items()}
        if offset is not None:
            how = {**how, "offset": read_numbers(offset, self.columns[offset], where=self.mask)[order]}
        sizes = len(self.first), len(self.labels)
        how |= _features_of_pairs(read, kinds, self.rows[order], self.ids[order], sizes)
        return choice_sets(alternatives=self.labels, unavailable_choices="keep", **how)


def _check_columns(columns: Mapping[str, Any], reader: str, needed: Mapping[str, Sequence[str | None]]) -> None:
    """Raise ValueError for a column that is missing, which says what the reader looks for and what there is."""
    roles = {name: role for role, names in needed.items() for name in names if name is not None}
    for name in roles:
        if name not in columns:
            wanted = ", ".join(f"{wanted!r} ({role})" for wanted, role in roles.items())
            raise ValueError(
                f"the table has no column {name!r}{did_you_mean(name, columns)}; {reader} looks for {wanted}; it has "
                f"{', '.join(map(repr, columns))}"
            )


def _label_column(columns: Mapping[str, Any], name: str) -> NDArray[Any]:
    check_targets(columns[name], several=False, name=name)
    return as_labels(columns[name])


def number_choosers(columns: Mapping[str, Any], names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row's chooser, whom columns name together, and the first row of each chooser."""
    rows = np.zeros(len(columns[names[0]]), dtype=np.int64)
    for name in names:
        labels, positions = sorted_classes(_label_column(columns, name), name=name)
        rows = np.unique(rows * len(labels) + positions, return_inverse=True)[1]
    return rows, np.unique(rows, return_index=True)[1]


def name_chooser(columns: Mapping[str, Any], names: Sequence[str], row: int) -> Any:
    """Return the label of a row's chooser, or the labels of several columns."""
    labels = [as_labels(columns[name])[row : row + 1].tolist()[0] for name in names]
    return labels[0] if len(labels) == 1 else tuple(labels)


def _feature_names(
    columns: Mapping[str, Any], features: Any, uses: set[str | None], has_no_weight: bool
) -> Sequence[str]:
    """The columns with features: all that have numbers and no other use where none are named."""
    if features is not None:
        names = [*itertools.chain(*features.values())] if isinstance(features, Mapping) else [*features]
        _check_columns(columns, "the model", {"features": names})
        return names
    names = [name for name in columns if name not in uses and has_numbers(columns[name])]
    odd = [name for name in names if re.fullmatch(f"{WEIGHTS}|{ROW_NUMBERS}", name, re.IGNORECASE)]
    if odd and has_no_weight:
        return [name for name in names if name not in odd]
    if odd:
        raise ValueError(
            f"columns {', '.join(map(repr, odd))} look like weights or numbers of rows, and no features are named; "
            f"name the features, such as features={[name for name in names if name not in odd]}, and the weights, such "
            f"as weight={odd[0]!r}"
        )
    return names


def _features_of_pairs(
    columns: Mapping[str, Doubles],
    kinds: Mapping[str, Sequence[str]] | None,
    rows: NDArray[np.int64],
    ids: NDArray[np.int64],
    sizes: tuple[int, int],
) -> dict[str, Any]:
    """Arguments of `choice_sets`: what is available, and features of choosers, of alternatives and of pairs."""
    features: dict[str, dict[str, Doubles]] = {"choosers": {}, "alternatives": {}, "pairs": {}}
    for name, column in columns.items():
        for kind, owners, size in zip(features, (rows, ids), sizes, strict=False):
            if kinds is not None and name not in kinds.get(kind, ()):
                continue
            values = np.zeros(size)
            values[owners] = column
            if np.array_equal(values[owners], column):
                features[kind][name] = values
                break
        else:
            features["pairs"][name] = column
            if kinds is not None and name not in kinds.get("pairs", ()):
                raise ValueError(f"{name!r} is not the same in all rows of a chooser, or of an alternative")
    return {
        "X": stack_columns([*features["choosers"].values()], sizes[0]),
        "Z": stack_columns([*features["alternatives"].values()], sizes[1]) if features["alternatives"] else None,
        "pairs": features["pairs"] or None,
        "available": (np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=sizes[0]))]), ids),
        "chooser_names": [*features["choosers"]],
        "alternative_names": [*features["alternatives"]],
    }


def _names_by_kind(sets: ChoiceSets) -> dict[str, tuple[str, ...]]:
    return {"choosers": sets.chooser_names, "alternatives": sets.alternative_names, "pairs": sets.pair_names}


def _by_formula(formula: Any, columns: Columns, features: Any) -> tuple[dict[str, Any], Any]:
    """The columns that a formula makes, exactly these where a mapping names features, and what formulaic knows of it.

    That, instead of a text, has the means and levels of another table.
    """
    try:
        formulaic = importlib.import_module("formulaic")
    except ImportError as error:
        raise ImportError("formula needs formulaic: pip install 'manyclass[formula]'") from error
    if features is not None and not isinstance(features, Mapping):
        raise ValueError("features and formula are both given; give one")
    frame = library("pandas").DataFrame({name: np.asarray(column) for name, column in columns.items()})
    try:
        with np.errstate(all="ignore"):
            matrix = formulaic.model_matrix(formula, frame, context={}, na_action="ignore")
    except formulaic.errors.FormulaicError as error:
        raise ValueError(f"formula is {formula!r}: {error}; the table has {', '.join(map(repr, columns))}") from error
    columns_of_formula = {str(name): np.asarray(matrix[name]) for name in matrix.columns if name != "Intercept"}
    spec = matrix.model_spec
    if features is None:
        return columns_of_formula, spec
    if isinstance(formula, str) and spec.transform_state:
        names = ", ".join(spec.transform_state)
        raise ValueError(f"formula has {names}, which depends on all of a table; make such columns before")
    names_of_features = [*itertools.chain(*features.values())]
    lacking = [name for name in names_of_features if name not in columns_of_formula]
    if lacking:
        raise ValueError(f"formula is {formula!r}, which makes no column {lacking[0]!r} of this table")
    return {name: columns_of_formula[name] for name in names_of_features}, spec


def from_wide(
    table: Columns,
    *,
    alternatives: ArrayLike | None = None,
    chosen: str | None = None,
    counts: Mapping[Any, str] | None = None,
    pairs: Mapping[str, Mapping[Any, str]] | None = None,
    utilities: Mapping[Any, str] | None = None,
    available: Mapping[Any, str] | None = None,
    choosers: Sequence[str] = (),
    person: str | None = None,
    weight: str | None = None,
    formula: Any = None,
    features: Mapping[str, Sequence[str]] | None = None,
    unavailable_choices: Unavailable = "raise",
) -> ChoiceSets:
    """Return the choices of a wide table, which has a row for each chooser.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    alternatives : sequence of labels, optional
        Labels of the alternatives; the keys of `utilities` where these are given.
    chosen : str, optional
        The column of what was chosen.
    counts : mapping of alternatives to columns, optional
        Columns of how many with the features of a row chose an alternative, instead of `chosen`; see `choice_sets`.
    pairs : mapping of str to mappings of alternatives to columns, optional
        Where each feature of a pair stands; it is 0 for alternatives that are left out.
    utilities : mapping of alternatives to str, optional
        Instead of `pairs` and `choosers` the whole utility of each alternative, such as
        ``{"train": "asc_train + b_cost*cost_train/100", "car": "b_cost*cost_car/100 + b_rich*log(income)"}``. Names
        that are no columns are coefficients, in which it is linear; each of them names a feature of pairs, and is one
        number wherever it stands. Columns may have + - * / **, comparisons, &, |, log, exp, sqrt, abs, max, min and
        where.
    available : mapping of alternatives to columns, optional
        Columns that tell whether an alternative is available, by 0 and 1, false and true, or no and yes; one that is
        left out always is.
    choosers : sequence of str
        Columns with features of choosers.
    person : str, optional
        The column of who chose.
    weight : str, optional
        The column of weights.
    formula : str, optional
        Features by a formula of the package formulaic, such as "log(time) + cost:income", of `pairs`, of columns and of
        "alternative", the label; instead of `choosers`.
    features : mapping, optional
        With a formula: the kinds of its features, as `from_long` takes them, which a table to predict needs.
    unavailable_choices : {"raise", "drop", "keep"}
        What becomes of rows whose choice is not available; see `choice_sets`.

    Returns
    -------
    ChoiceSets

    Raises
    ------
    ValueError
        If a column is missing, a key is no alternative, or as `choice_sets` does.
    """
    _check_ways(alternatives, utilities, pairs, choosers, formula)
    columns, labels = (
        columns_by_name(table),
        distinct_labels([*(utilities or {})] if alternatives is None else alternatives),
    )
    by_alternative = {**(pairs or {}), "counts": counts or {}, "available": available or {}}
    roles: dict[str, Sequence[str | None]] = {"chosen": (chosen,), "choosers": choosers, "person": (person,)}
    roles |= {"weight": (weight,), **{name: [*mapping.values()] for name, mapping in by_alternative.items()}}
    _check_columns(columns, "from_wide", roles)
    mask = _read_by_alternative("available", available, columns, labels)
    how: dict[str, Any] = {"available": mask, "counts": _read_by_alternative("counts", counts, columns, labels)}
    numbers = {
        name: _read_by_alternative(name, mapping, columns, labels, mask) for name, mapping in (pairs or {}).items()
    }
    more, spec = _features_of_wide(columns, labels, numbers, mask, choosers, utilities, formula, features)
    how |= more
    if chosen is not None:
        how["chosen"] = labels[positions_among(_label_column(columns, chosen), labels, chosen)]
    how["persons"] = None if person is None else _label_column(columns, person)
    how["sample_weight"] = None if weight is None else read_numbers(weight, columns[weight])
    sets = choice_sets(alternatives=labels, unavailable_choices=unavailable_choices, **how)
    if spec is None and utilities is None:
        return sets
    source: dict[str, Any] = {"alternatives": labels, "available": available, "utilities": utilities, "pairs": pairs}
    source |= {"formula": spec, "features": None if spec is None else _names_by_kind(sets)}
    return replace(sets, source=SourceTable(columns, partial(from_wide, **source), whole=utilities is not None))


def _check_ways(alternatives: Any, utilities: Any, pairs: Any, choosers: Any, formula: Any) -> None:
    """Raise ValueError unless there is one way to features."""
    if alternatives is None and utilities is None:
        raise ValueError("alternatives or utilities must tell which alternatives there are")
    if utilities is not None and (pairs or choosers or formula):
        raise ValueError("utilities are whole; pairs, choosers and formula cannot stand beside them")
    if formula is not None and choosers:
        raise ValueError("choosers and formula are both given; give one")


def _read_by_alternative(
    name: str,
    names: Mapping[Any, str] | None,
    columns: Mapping[str, Any],
    labels: NDArray[Any],
    mask: NDArray[np.bool_] | None = None,
) -> Any:
    """Numbers, or flags of what is available, of shape (n_rows, n_alternatives); None where no columns are named.

    Raises
    ------
    ValueError
        If a key is no alternative, or a cell that counts is not what it must be.
    """
    if names is None:
        return None
    is_mask = name == "available"
    cells = np.full((len(columns[next(iter(columns))]), len(labels)), float(is_mask), bool if is_mask else np.float64)
    for position, column in zip(positions_among([*names], labels, name, by_row=False), names.values(), strict=True):
        if is_mask:
            cells[:, position] = read_flags(column, columns[column])
        else:
            where = None if mask is None else mask[:, position]
            cells[:, position] = read_numbers(column, columns[column], where=where)
    return cells


def _features_of_wide(
    columns: Mapping[str, Any],
    labels: NDArray[Any],
    numbers: Mapping[str, Doubles],
    mask: NDArray[np.bool_] | None,
    choosers: Sequence[str],
    utilities: Mapping[Any, str] | None,
    formula: Any,
    kinds: Mapping[str, Sequence[str]] | None,
) -> tuple[dict[str, Any], Any]:
    """Arguments of `choice_sets`, and what formulaic knows of a formula of pairs' numbers and of columns."""
    shape = len(columns[next(iter(columns))]), len(labels)
    if utilities is not None:
        features, offset = evaluate_utilities(utilities, labels.tolist(), columns, mask)
        return {"pairs": features, "offset": offset}, None
    if formula is None:
        table = {name: read_numbers(name, columns[name]) for name in choosers}
        return {
            "X": stack_columns([*table.values()], shape[0]),
            "chooser_names": [*choosers],
            "pairs": dict(numbers) or None,
        }, None
    mask = np.ones(shape, dtype=bool) if mask is None else mask
    table = {"alternative": np.tile(labels, shape[0])}
    table |= {name: column.ravel() for name, column in numbers.items()}
    text = str(getattr(formula, "formula", formula))
    repeated = [name for name in columns if name in text and name not in table]
    table |= {name: np.repeat(np.asarray(columns[name]), shape[1]) for name in repeated}
    columns_of_formula, spec = _by_formula(formula, table, kinds)
    read = {
        name: read_numbers(name, column.reshape(shape), where=mask)[mask] for name, column in columns_of_formula.items()
    }
    rows, ids = map(np.ascontiguousarray, np.nonzero(mask))
    return _features_of_pairs(read, kinds, rows, ids, shape), spec
