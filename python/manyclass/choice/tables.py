"""Data of choices from long tables and from wide ones."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_choice, did_you_mean
from manyclass.choice.columns import Owners, columns_by_name, has_numbers, listed_names, read_flags, read_numbers
from manyclass.choice.sets import ChoiceSets, Unavailable, choice_sets, distinct_labels, positions_among
from manyclass.choice.utilities import evaluate_utilities
from manyclass.datasets.tables import library
from manyclass.labels import checked_labels, sorted_classes
from manyclass.weights.arrays import Doubles

Columns = Mapping[str, ArrayLike]
USUAL = ("person", "weight", "offset")  # columns that are used where a table has them
# Names of columns of numbers that are hardly features: weights, and the numbers of rows.
ODD = r".*(wt|wgt|weights?|exp_?fac(tor)?|expansion[_. ]?factor)\d*"
ODD += r"||index|unnamed: \d+|row[_. ]?(names?|ids?|numbers?)|(.*[_. ])?(id|idx|obs)"
TASKS = "; where tasks recur for each person, chooser names several columns, such as chooser=['person', 'task']"


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
    person, weight, offset = _usual_columns(columns, person, weight, offset)
    roles = [("chooser", chooser), ("alternative", alternative), ("chosen", None if counts else chosen)]
    roles += [("counts", counts), ("available", available), ("person", person), ("weight", weight), ("offset", offset)]
    uses = _check_columns(columns, "from_long", roles)
    choosers, listed = find_choosers(columns, chooser), checked_labels(columns[alternative], alternative)
    labels = sorted_classes(listed, name=alternative)[0] if alternatives is None else distinct_labels(alternatives)
    ids, shape = positions_among(listed, labels, alternative), (len(choosers.labels), len(labels))
    mask = np.ones(len(ids), bool) if available is None else read_flags(available, columns[available])
    feature_columns, spec = _feature_columns(columns, features, formula, uses, has_no_weight)
    how: dict[str, Any] = {"persons": person and choosers.cells(person, _labels_in(columns, person))}
    how["sample_weight"] = weight and choosers.cells(weight, _numbers_in(columns, weight))
    if counts is not None:
        how["counts"] = sp.csr_array((_numbers_in(columns, counts), (choosers.rows, ids)), shape=shape)
    elif chosen is not None:
        how["chosen"] = labels[_marked_ids(choosers, ids, read_flags(chosen, columns[chosen]))]
    pairs = np.flatnonzero(mask)
    pairs = pairs[np.argsort(choosers.rows[pairs], kind="stable")]
    numbers = {name: read_numbers(name, column, where=mask)[pairs] for name, column in feature_columns.items()}
    how["offset"] = None if offset is None else _numbers_in(columns, offset, mask)[pairs]
    how |= _features_of_pairs(numbers, features, (choosers.rows[pairs], ids[pairs]), shape)
    sets = choice_sets(alternatives=labels, unavailable_choices="keep", **how)
    if spec is not None:
        keys: dict[str, Any] = {"chooser": chooser, "alternative": alternative, "alternatives": labels}
        keys |= dict.fromkeys(("person", "weight", "chosen")) | {"available": available, "offset": offset}
        sets = sets.with_source(columns, from_long, spec, **keys)
    return sets.leave_out_unavailable(unavailable_choices, lambda row: f"chooser {choosers.labels[row]!r}")


def find_choosers(columns: Mapping[str, Any], names: str | Sequence[str]) -> Owners:
    """Return who chooses in each row of a long table, whom a column names, or several together.

    Parameters
    ----------
    columns : mapping of str to columns
    names : str or sequence of str
    """
    cells = [_labels_in(columns, name) for name in listed_names(names)]
    rows: Any = 0
    for column in cells:
        labels, positions = sorted_classes(column, name="chooser")
        _, first, rows = np.unique(rows * len(labels) + positions, return_index=True, return_inverse=True)
    choosers = [column[first].tolist() for column in cells]
    return Owners(rows, first, choosers[0] if len(cells) == 1 else [*zip(*choosers, strict=True)], "chooser")


def _marked_ids(choosers: Owners, ids: NDArray[np.int64], marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """What is marked of each chooser; raises ValueError where it is not one."""
    n_marks = np.bincount(choosers.rows[marks], minlength=len(choosers.first))
    for wrong in np.flatnonzero(n_marks != 1)[:1]:
        who = f"chooser {choosers.labels[wrong]!r} has chosen {n_marks[wrong]} alternatives"
        raise ValueError(f"{who}; it must be one{TASKS}")
    return ids[marks][np.argsort(choosers.rows[marks])]


def _usual_columns(columns: Mapping[str, Any], *names: str | None) -> Iterator[str | None]:
    """The columns of persons, weights and offsets, where "auto" is the usual one if there is one."""
    for name, usual in zip(names, USUAL, strict=False):
        known = usual if usual in columns else None
        yield known if name == "auto" else name


def _check_columns(columns: Mapping[str, Any], reader: str, roles: Sequence[tuple[str, Any]]) -> set[str]:
    """Raise ValueError for a column that is missing, which says what the reader looks for; return all it uses."""
    role_of: dict[str, str] = {}
    for role, names in roles:
        role_of |= dict.fromkeys(names.values() if isinstance(names, Mapping) else listed_names(names), role)
    for name in role_of:
        if name not in columns:
            wanted = ", ".join(f"{wanted!r} ({role})" for wanted, role in role_of.items())
            about = f"{reader} looks for {wanted}; it has {', '.join(map(repr, columns))}"
            raise ValueError(f"the table has no column {name!r}{did_you_mean(name, columns)}; {about}")
    return {*role_of}


def _labels_in(columns: Mapping[str, Any], name: str | None) -> Any:
    """The labels of a column; of none, None."""
    return None if name is None else checked_labels(columns[name], name)


def _numbers_in(columns: Mapping[str, Any], name: str | None, where: NDArray[np.bool_] | None = None) -> Any:
    """The numbers of a column; of none, None."""
    return None if name is None else read_numbers(name, columns[name], where=where)


def _feature_columns(
    columns: Mapping[str, Any], features: Any, formula: Any, uses: Collection[str], has_no_weight: bool
) -> tuple[dict[str, Any], Any]:
    """The columns with features, all that have numbers and no other use where none are named; see `_by_formula`."""
    if formula is not None:
        return _by_formula(formula, columns, features)
    if features is not None:
        return _named_columns(columns, features), None
    names = [name for name in columns if name not in (*USUAL, *uses) and has_numbers(columns[name])]
    odd = [name for name in names if re.fullmatch(ODD, name, re.IGNORECASE)]
    plain = {name: columns[name] for name in names if name not in odd}
    if odd and not has_no_weight:
        about = f"name the features, such as features={[*plain]}, and the weights, such as weight={odd[0]!r}"
        raise ValueError(f"columns {', '.join(map(repr, odd))} look like weights or numbers of rows; {about}")
    return plain, None


def _named_columns(columns: Mapping[str, Any], features: Any) -> dict[str, Any]:
    """The columns that are named, by kind or not."""
    names = listed_names(features)
    if isinstance(features, Mapping):
        for kind in features:
            check_choice("a kind of features", kind, ("choosers", "alternatives", "pairs"))
        names = [*itertools.chain(*map(listed_names, features.values()))]
    _check_columns(columns, "the model", [("features", names)])
    return {name: columns[name] for name in names}


def _features_of_pairs(numbers: Columns, features: Any, pairs: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Arguments of `choice_sets`: what is available, and features of choosers, of alternatives and of pairs."""
    rows, ids = pairs
    owners = {"choosers": (rows, shape[0]), "alternatives": (ids, shape[1]), "pairs": (np.arange(len(ids)), len(ids))}
    by_kind: dict[str, dict[str, Doubles]] = {kind: {} for kind in owners}
    for name, column in numbers.items():
        for kind, (positions, size) in owners.items():
            values = np.zeros(size)
            values[positions] = column
            is_allowed = not isinstance(features, Mapping) or name in listed_names(features.get(kind))
            if is_allowed and np.array_equal(values[positions], column):
                by_kind[kind][name] = values
                break
        else:
            raise ValueError(f"{name!r} is not the same in all rows of a chooser, or of an alternative")
    of_choosers, of_alternatives, of_pairs = by_kind.values()
    X = np.reshape([*of_choosers.values()], (len(of_choosers), shape[0])).T
    Z = np.stack([*of_alternatives.values()], axis=1) if of_alternatives else None
    names = {"chooser_names": [*of_choosers], "alternative_names": [*of_alternatives]}
    available = np.append(0, np.cumsum(np.bincount(rows, minlength=shape[0]))), ids
    return {"X": X, "Z": Z, "pairs": of_pairs or None, "available": available, **names}


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
    made = {str(name): np.asarray(matrix[name]) for name in matrix.columns if name != "Intercept"}
    spec = matrix.model_spec
    if isinstance(features, Mapping) and isinstance(formula, str) and spec.transform_state:
        names = ", ".join(spec.transform_state)
        raise ValueError(f"formula has {names}, which depends on all of a table; make such columns before")
    return made if features is None else _named_columns(made, features), spec


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
        number wherever it stands. Columns may have ``+ - * / **``, comparisons, &, |, log, exp, sqrt, abs, max, min and
        where.
    available : mapping of alternatives to columns, optional
        Columns that tell whether an alternative is available, by 0 and 1, false and true, or no and yes; one that is
        left out always is.
    choosers : sequence of str
        Columns with features of choosers.
    person : str, optional
        The column of who chose; "auto" is "person" where the table has it.
    weight : str, optional
        The column of weights; "auto" is "weight" where the table has it.
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
    labels, columns = _alternatives_of(alternatives, utilities, pairs, choosers, formula), columns_by_name(table)
    choosers = listed_names(choosers)
    _check_mappings({"pairs": pairs, "available": available, "counts": counts, "utilities": utilities})
    _check_mappings(pairs or {})
    person, weight = _usual_columns(columns, person, weight)
    roles: list[tuple[str, Any]] = [("chosen", chosen), ("choosers", choosers), ("person", person), ("weight", weight)]
    _check_columns(columns, "from_wide", [*roles, *(pairs or {}).items(), ("counts", counts), ("available", available)])
    mask = np.ones((len(columns[next(iter(columns))]), len(labels)), dtype=bool)
    for position, column in _positions_of("available", available or {}, labels):
        mask[:, position] = read_flags(column, columns[column])
    how: dict[str, Any] = {"persons": _labels_in(columns, person), "sample_weight": _numbers_in(columns, weight)}
    how |= {"available": None if available is None else mask, "pairs": None}
    if chosen is not None:
        how["chosen"] = labels[positions_among(_labels_in(columns, chosen), labels, chosen)]
    if counts is not None:
        how["counts"] = _numbers_of("counts", counts, columns, labels, np.ones_like(mask))
    if pairs:
        how["pairs"] = {name: _numbers_of(name, names, columns, labels, mask) for name, names in pairs.items()}
    spec = None
    if utilities is not None:
        how["pairs"], how["offset"] = evaluate_utilities(utilities, labels.tolist(), columns, mask)
    elif formula is not None:
        numbers, spec = _formula_of_wide(formula, columns, how["pairs"] or {}, labels, mask, features)
        how |= _features_of_pairs(numbers, features, np.nonzero(mask), mask.shape)
    else:
        how["X"] = np.reshape([_numbers_in(columns, name) for name in choosers], (len(choosers), len(mask))).T
        how["chooser_names"] = choosers
    sets = choice_sets(alternatives=labels, unavailable_choices=unavailable_choices, **how)
    keys = {"alternatives": labels, "available": available, "utilities": utilities, "pairs": pairs}
    return sets if spec is utilities is None else sets.with_source(columns, from_wide, spec, **keys)


def _alternatives_of(alternatives: Any, utilities: Any, pairs: Any, choosers: Any, formula: Any) -> NDArray[Any]:
    """Return the labels of a wide table; raise ValueError unless there is one way to its features."""
    if (utilities and (pairs or choosers or formula)) or (formula and choosers):
        raise ValueError("utilities are whole, and formula stands for choosers; give one of them")
    if alternatives is None and utilities is None:
        raise ValueError("alternatives or utilities must tell which alternatives there are")
    return distinct_labels([*utilities] if alternatives is None else alternatives)


def _check_mappings(mappings: Mapping[str, Any]) -> None:
    for name in [name for name, value in mappings.items() if not isinstance(value, Mapping | None)][:1]:
        raise ValueError(f"{name} is a {type(mappings[name]).__name__}; it must be a mapping, or None")


def _positions_of(name: str, names: Mapping[Any, str], labels: NDArray[Any]) -> Iterator[tuple[int, str]]:
    """The positions of alternatives and their columns; raises ValueError where a key is no alternative."""
    return zip(positions_among([*names], labels, name, by_row=False).tolist(), names.values(), strict=True)


def _numbers_of(
    name: str, names: Mapping[Any, str], columns: Mapping[str, Any], labels: NDArray[Any], mask: NDArray[np.bool_]
) -> Doubles:
    """Numbers of shape (n_rows, n_alternatives), 0 where no column is named or the mask is false."""
    numbers = np.zeros(mask.shape)
    for position, column in _positions_of(name, names, labels):
        numbers[:, position] = read_numbers(column, columns[column], where=mask[:, position])
    return numbers


def _formula_of_wide(
    formula: Any, columns: Columns, of_pairs: Columns, labels: NDArray[Any], mask: NDArray[np.bool_], features: Any
) -> tuple[dict[str, Doubles], Any]:
    """What a formula makes of pairs' numbers and of columns, where the mask is true, and what formulaic knows of it."""
    table: dict[str, Any] = {"alternative": np.tile(labels, len(mask))}
    table |= {name: np.ravel(numbers) for name, numbers in of_pairs.items()}
    for name in columns.keys() - table.keys():
        table[name] = np.repeat(np.asarray(columns[name]), len(labels))
    made, spec = _by_formula(formula, table, features)
    cells = {name: column.reshape(mask.shape) for name, column in made.items()}
    return {name: read_numbers(name, column, where=mask)[mask] for name, column in cells.items()}, spec
