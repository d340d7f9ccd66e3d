"""Data of choices from arrays, from long tables and from wide ones."""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_choice, did_you_mean, outer_level
from manyclass.choice.columns import CellError, check_cells, columns_of, has_numbers, read_flags, read_numbers
from manyclass.choice.lists import ChoiceLists, lists_of_ranges, make_lists
from manyclass.choice.sets import MOST_TOGETHER, ChoiceSets, PairFunction, Source, positions_among
from manyclass.choice.utilities import evaluate_utilities
from manyclass.datasets.csr import is_sparse
from manyclass.datasets.tables import library
from manyclass.labels import as_labels, check_targets, group_ids, sorted_classes
from manyclass.weights.arrays import Doubles, Ids

Columns = Mapping[str, ArrayLike]
Unavailable = Literal["raise", "drop", "keep"]
USUAL = ("person", "weight", "offset")  # columns that are used where a table has them
# Names of columns of numbers that are hardly features: weights, and the numbers of rows.
WEIGHTS = r"(.*[_. ])?(wt|wgt|weights?|exp_?fac(tor)?|expansion[_. ]?factor)\d*"
TASKS = "; where tasks recur for each person, chooser names several columns, such as chooser=['person', 'task']"
ROW_NUMBERS = r"|index|unnamed: \d+|row[_. ]?(names?|ids?|numbers?)"


def _names(name: str, user_names: Sequence[str] | None, values: Any, n: int, letter: str) -> tuple[str, ...]:
    columns = getattr(values, "columns", ()) if user_names is None else user_names
    feature_names = tuple(map(str, columns)) or tuple(f"{letter}{j}" for j in range(n))
    if len(feature_names) != n or len(set(feature_names)) < n:
        raise ValueError(f"{name} is {feature_names!r}; it must have {n} different names")
    return feature_names


def _list_available(available: Any, n: int, k: int) -> tuple[NDArray[np.int64], Ids]:
    """Where each row begins among what is available, and the alternatives there."""
    if isinstance(available, tuple):
        indptr, ids = (np.asarray(part) for part in available)
        _check_integers("the indptr of available", indptr, len(ids))
        _check_integers("available", ids, k - 1)
        if len(indptr) != n + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] != len(ids):
            raise ValueError(f"available has an indptr that does not begin n_rows = {n} lists")
    else:
        if callable(available):
            step = max(1, MOST_TOGETHER // k)
            parts = [np.asarray(available(np.arange(b, min(b + step, n)))) for b in range(0, n, step)]
            available = np.concatenate([part.reshape(-1, k) for part in parts])
        if np.shape(available) != (n, k):
            raise ValueError(f"available has shape {np.shape(available)}; it must be {(n, k)}")
        mask = sp.csr_array(read_flags("available", available))
        mask.eliminate_zeros()
        indptr, ids = mask.indptr, mask.indices
    return indptr.astype(np.int64), ids.astype(np.int32)


def _check_integers(name: str, values: NDArray[Any], most: int) -> None:
    """Raise ValueError unless numbers are integers in [0, most]."""
    if values.size and values.dtype.kind not in "iu":
        raise ValueError(f"{name} has {values.dtype} such as {values.ravel()[0]}; it must have integers")
    check_cells(name, values, (values >= 0) & (values <= most), f"; it must be in [0, {most}]")


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
    """
    check_choice("unavailable_choices", unavailable_choices, get_args(Unavailable))
    if chosen is not None and counts is not None:
        raise ValueError("chosen and counts are both given; give one")
    features = {} if pairs is None or callable(pairs) else dict(pairs)
    function = pairs if callable(pairs) else None
    offset_is_fixed = np.ndim(offset) == 1 and not isinstance(available, tuple)
    by_row, by_pair = (X, chosen, persons, sample_weight), (*features.values(), unavailable, offset, counts)
    labels, available, n = _sizes(alternatives, Z, available, n_rows, by_row, by_pair)
    k = len(labels)
    if function is not None and not pair_names:
        raise ValueError("pairs is a function; give the names of its features by pair_names")
    fixed, pair_names = np.zeros(k), tuple(pair_names or features)
    if offset_is_fixed and np.shape(offset) == (k,):
        fixed, offset = read_numbers("offset", offset, (k,)), None
    lists = _make_lists(features, available, unavailable, offset, n, k)
    if function is not None:
        lists = lists.with_features(np.zeros((len(lists.alternatives), len(pair_names))))
    x = read_numbers("X", np.zeros((n, 0)) if X is None else X, (n, None))
    z = None if Z is None else read_numbers("Z", Z, (k, None))
    sets = ChoiceSets(
        labels,
        x,
        z,
        lists,
        function,
        fixed,
        None if chosen is None else _chosen_positions(chosen, labels),
        None if persons is None else group_ids(persons, n, "persons"),
        _row_weights(sample_weight, n),
        _names("chooser_names", chooser_names, X, x.shape[1], "x"),
        _names("alternative_names", alternative_names, Z, 0 if z is None else z.shape[1], "z"),
        pair_names,
    )
    names = (*sets.chooser_names, *sets.alternative_names, *sets.pair_names)
    if len(set(names)) < len(names):
        raise ValueError(f"features have names that occur twice: {', '.join(names)}")
    return _leave_out(sets if counts is None else _with_counts(sets, counts), unavailable_choices)


def _chosen_positions(chosen: ArrayLike, labels: NDArray[Any]) -> Ids:
    check_targets(chosen, several=False, name="chosen")
    return positions_among(chosen, labels, "chosen").astype(np.int32)


def _with_counts(sets: ChoiceSets, counts: Any) -> ChoiceSets:
    """A row for each alternative that choosers of a row took, weighted by their number."""
    matrix = sp.csr_array(read_numbers("counts", counts, (sets.n_rows, sets.n_alternatives)))
    check_cells("counts", matrix, matrix.data >= 0, "; it must be at least 0")
    matrix.eliminate_zeros()
    if not matrix.nnz:
        raise ValueError("counts has only zeros")
    rows = np.repeat(np.arange(sets.n_rows), np.diff(matrix.indptr))
    weights = sets.weights[rows] * matrix.data
    return replace(sets.take(rows), chosen=matrix.indices.astype(np.int32), sample_weight=weights)


def _leave_out(
    sets: ChoiceSets, unavailable_choices: Unavailable, name_row: Callable[[int], str] = "row {}".format
) -> ChoiceSets:
    """The rows whose choice is available; others are counted, and refused or left out."""
    if sets.chosen is None or unavailable_choices == "keep":
        return sets
    lists, is_available = sets.lists, np.full(sets.n_rows, not sets.lists.only)
    listed = np.flatnonzero(np.repeat(sets.chosen, np.diff(lists.indptr)) == lists.alternatives)
    is_available[np.searchsorted(lists.indptr, listed, side="right") - 1] = np.isfinite(lists.offsets[listed])
    wrong = np.flatnonzero(~is_available)
    if not len(wrong):
        return sets
    rows = (wrong[:3] if sets.origin is None else sets.origin[wrong[:3]]).tolist()
    labels = sets.labels[wrong[:3]].tolist()
    few = [f"{name_row(row)} has chosen {label!r}" for row, label in zip(rows, labels, strict=True)]
    message = f"{len(wrong)} of {sets.n_rows} rows have chosen an alternative that is not available: {', '.join(few)}"
    if unavailable_choices == "raise" or len(wrong) == sets.n_rows:
        raise ValueError(f"{message}; unavailable_choices='drop' leaves such rows out")
    warnings.warn(f"{message}; they are left out", stacklevel=outer_level())
    return sets.take(is_available)


def _sizes(
    alternatives: Any, Z: Any, available: Any, n_rows: int | None, by_row: Sequence[Any], by_pair: Sequence[Any]
) -> tuple[NDArray[Any], Any, int]:
    """Labels of the alternatives, what is available, of which ranges become lists, and the number of rows."""
    shapes = [shape for array in by_pair if len(shape := _shape(array)) == 2]
    row_counts = [len(available[0]) - 1] if isinstance(available, tuple) else []
    row_counts += [len(array) for array in map(np.asarray, by_row) if array.ndim]
    z_counts = [] if Z is None else [np.shape(Z)[0]]
    counts = [*z_counts, *(shape[1] for shape in shapes)] if alternatives is None else [len(as_labels(alternatives))]
    has_ranges = _is_ranges(available, counts)
    if has_ranges:
        row_counts.append(len(available))
    elif len(_shape(available)) == 2:
        shapes.append(_shape(available))
    n = _one_size("rows", n_rows, *row_counts, *(shape[0] for shape in shapes))
    if n < 1:
        raise ValueError("the data have no rows")
    if alternatives is None:
        alternatives = np.arange(_one_size("alternatives", *z_counts, *(shape[1] for shape in shapes)))
    labels = _distinct_labels(alternatives)
    if has_ranges:
        ranges = np.ascontiguousarray(available, dtype=np.int64)
        is_right = (ranges >= 0) & (ranges <= len(labels)) & (ranges[:, :1] < ranges[:, 1:])
        rule = f"; cells of masks are 0 or 1, and a range has a first position and a last + 1 in [0, {len(labels)}]"
        check_cells("available", np.asarray(available), is_right, rule)
        available = lists_of_ranges(ranges)
    return labels, available, n


def _distinct_labels(alternatives: Any) -> NDArray[Any]:
    check_targets(alternatives, several=False, name="alternatives")
    labels = as_labels(alternatives)
    if labels.ndim != 1 or not len(labels) or len(sorted_classes(labels, name="alternatives")[0]) < len(labels):
        raise ValueError("alternatives must be distinct, and there must be some")
    return labels


def _row_weights(sample_weight: ArrayLike | None, n: int) -> Doubles | None:
    weights = None if sample_weight is None else read_numbers("sample_weight", sample_weight, (n,))
    if weights is not None and (weights.min(initial=0) < 0 or not weights.any()):
        raise ValueError("sample_weight has numbers below 0, or only zeros")
    return weights


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array; () of what is none."""
    return () if values is None or callable(values) or isinstance(values, tuple) else np.shape(values)


def _is_ranges(available: Any, sizes: Sequence[int]) -> bool:
    """Whether `available` has a first and a last position for each row, and not a mask of two alternatives."""
    if is_sparse(available) or _shape(available)[1:] != (2,):
        return False
    mask = np.asarray(available)
    return bool(mask.dtype.kind in "iu" and (mask.max(initial=0) > 1 or any(k != 2 for k in sizes)))


def _one_size(unit: str, *candidates: int | None) -> int:
    sizes = {size for size in candidates if size is not None}
    if len(sizes) != 1:
        raise ValueError(f"the number of {unit} is {sorted(sizes) if sizes else 'not told'}; it must be one number")
    return sizes.pop()


def _make_lists(
    features: Mapping[str, Any], available: Any, unavailable: Any, offset: Any, n: int, k: int
) -> ChoiceLists:
    """Lists of what is available, or of what there is more to say."""
    if available is not None and unavailable is not None:
        raise ValueError("available and unavailable are both given; give one")
    closed = None if unavailable is None else sp.csr_array(read_flags("unavailable", unavailable))
    if available is None and any(v is not None and not is_sparse(v) for v in (*features.values(), offset)):
        available, closed = (np.ones((n, k), dtype=bool) if closed is None else ~closed.toarray()), None
    lists, mask = None if available is None else _list_available(available, n, k), None
    if lists is not None and any(not is_sparse(v) and np.shape(v) == (n, k) for v in (*features.values(), offset)):
        mask = np.zeros((n, k), dtype=bool)  # cells of what is not available may be missing
        mask[np.repeat(np.arange(n), np.diff(lists[0])), lists[1]] = True
    numbers = {name: _values(name, values, mask) for name, values in features.items()}
    offset = None if offset is None else _values("offset", offset, mask)
    return make_lists(n, k, numbers, available=lists, offset=offset, unavailable=closed)


def _values(name: str, values: Any, mask: NDArray[np.bool_] | None) -> Any:
    """Numbers of pairs; those of a table that are not available are 0."""
    is_table = mask is not None and not is_sparse(values) and np.shape(values) == mask.shape
    return read_numbers(name, values, where=mask if is_table else None)


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
    columns, has_no_weight = columns_of(table), weight is None
    choosers = (chooser,) if isinstance(chooser, str) else tuple(chooser)
    person, weight, offset = (
        (usual if usual in columns else None) if name == "auto" else name
        for name, usual in zip((person, weight, offset), USUAL, strict=True)
    )
    chosen = None if counts is not None else chosen
    kinds = features if isinstance(features, Mapping) else None
    columns_needed = {"chooser": choosers, "alternative": (alternative,), "chosen": (chosen,), "counts": (counts,)}
    columns_needed |= {"available": (available,), "person": (person,), "weight": (weight,), "offset": (offset,)}
    _check_columns(columns, "from_long", columns_needed)
    rows, first = number_choosers(columns, choosers)
    listed = _label_column(columns, alternative)
    labels = sorted_classes(listed, name=alternative)[0] if alternatives is None else _distinct_labels(alternatives)
    ids = positions_among(listed, labels, alternative)
    n, k = len(first), len(labels)
    mask = np.ones(len(rows), bool) if available is None else read_flags(available, columns[available])
    if formula is not None:
        feature_columns, spec = _by_formula(formula, columns, features)
    else:
        uses = {*USUAL, *itertools.chain(*columns_needed.values())}
        feature_columns = {name: columns[name] for name in _feature_names(columns, features, uses, has_no_weight)}
    order = np.flatnonzero(mask)[np.lexsort((ids[mask], rows[mask]))]
    features_read = {name: read_numbers(name, column, where=mask)[order] for name, column in feature_columns.items()}
    by_chooser: dict[str, Any] = {}
    for role, name in (("persons", person), ("sample_weight", weight)):
        if name is not None:
            cells = _label_column(columns, name) if role == "persons" else read_numbers(name, columns[name])
            by_chooser[role] = _of_choosers(name, cells, columns, choosers, rows, first)
    if counts is not None:
        numbers = read_numbers(counts, columns[counts])
        by_chooser["counts"] = sp.csr_array((numbers, (rows, ids)), shape=(n, k))
    elif chosen is not None:
        marks = read_flags(chosen, columns[chosen])
        by_chooser["chosen"] = labels[_choices(marks, rows, ids, columns, choosers, first)]
    sets = choice_sets(
        alternatives=labels,
        offset=None if offset is None else read_numbers(offset, columns[offset], where=mask)[order],
        unavailable_choices="keep",
        **_features_of_pairs(features_read, kinds, rows[order], ids[order], (n, k)),
        **by_chooser,
    )
    if formula is not None:
        keys: dict[str, Any] = {"chooser": chooser, "alternative": alternative, "alternatives": labels}
        keys |= {"available": available, "offset": offset, "person": None, "weight": None, "chosen": None}
        make = partial(from_long, **keys, formula=spec, features=_names_by_kind(sets))
        sets = replace(sets, source=Source(columns, make, alternative))
    check_choice("unavailable_choices", unavailable_choices, get_args(Unavailable))
    return _leave_out(
        sets, unavailable_choices, lambda i: f"chooser {name_chooser(columns, choosers, int(first[i]))!r}"
    )


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


def _of_choosers(
    name: str,
    cells: NDArray[Any],
    columns: Mapping[str, Any],
    choosers: Sequence[str],
    rows: NDArray[np.int64],
    first: NDArray[np.int64],
) -> NDArray[Any]:
    """The cell of each chooser, whose rows must agree."""
    of_choosers: NDArray[Any] = cells[first]
    wrong = np.flatnonzero(cells != of_choosers[rows])
    if len(wrong):
        row, other = int(wrong[0]), int(first[rows[wrong[0]]])
        who = name_chooser(columns, choosers, row)
        rule = f", and {cells[other : other + 1].tolist()[0]!r} in another row of the same chooser, {who!r}{TASKS}"
        raise CellError(name, cells[row : row + 1].tolist()[0], (row,), rule)
    return of_choosers


def _choices(
    marks: NDArray[np.bool_], rows: Any, ids: Any, columns: Mapping[str, Any], choosers: Sequence[str], first: Any
) -> NDArray[np.int64]:
    """The alternative that each chooser has marked."""
    n_marks = np.bincount(rows[marks], minlength=len(first))
    if np.any(n_marks != 1):
        wrong = int(np.argmax(n_marks != 1))
        who = name_chooser(columns, choosers, int(first[wrong]))
        hint = TASKS if n_marks[wrong] > 1 else ""
        raise ValueError(f"chooser {who!r} has chosen {n_marks[wrong]} alternatives; it must be one{hint}")
    choice = np.empty(len(first), dtype=np.int64)
    choice[rows[marks]] = ids[marks]
    return choice


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
        "X": _stack(features["choosers"], sizes[0]),
        "Z": _stack(features["alternatives"], sizes[1]) if features["alternatives"] else None,
        "pairs": features["pairs"] or None,
        "available": (np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=sizes[0]))]), ids),
        "chooser_names": [*features["choosers"]],
        "alternative_names": [*features["alternatives"]],
    }


def _stack(columns: Mapping[str, Doubles], n: int) -> Doubles:
    return np.stack([*columns.values()], axis=1) if columns else np.zeros((n, 0))


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
    made = {str(name): np.asarray(matrix[name]) for name in matrix.columns if name != "Intercept"}
    spec = matrix.model_spec
    if features is None:
        return made, spec
    if isinstance(formula, str) and spec.transform_state:
        names = ", ".join(spec.transform_state)
        raise ValueError(f"formula has {names}, which depends on all of a table; make such columns before")
    names_of_features = [*itertools.chain(*features.values())]
    lacking = [name for name in names_of_features if name not in made]
    if lacking:
        raise ValueError(f"formula is {formula!r}, which makes no column {lacking[0]!r} of this table")
    return {name: made[name] for name in names_of_features}, spec


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
        Those of `utilities` where there are any.
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
    if alternatives is None and utilities is None:
        raise ValueError("alternatives or utilities must tell which alternatives there are")
    columns, labels = (
        columns_of(table),
        _distinct_labels([*(utilities or {})] if alternatives is None else alternatives),
    )
    by_alternative = {**(pairs or {}), "counts": counts or {}, "available": available or {}}
    needed: dict[str, Sequence[str | None]] = {"chosen": (chosen,), "choosers": choosers, "person": (person,)}
    needed |= {"weight": (weight,), **{name: [*mapping.values()] for name, mapping in by_alternative.items()}}
    _check_columns(columns, "from_wide", needed)
    n, k = len(columns[next(iter(columns))]), len(labels)
    mask = np.ones((n, k), dtype=bool)
    for position, name in _by_position("available", available or {}, labels):
        mask[:, position] = read_flags(name, columns[name])
    numbers = {feature: np.zeros((n, k)) for feature in (*(pairs or {}), *(["counts"] if counts else []))}
    for feature, of_alternatives in numbers.items():
        for position, name in _by_position(feature, by_alternative[feature], labels):
            where = None if feature == "counts" else mask[:, position]
            of_alternatives[:, position] = read_numbers(name, columns[name], where=where)
    if utilities is not None and (pairs or choosers or formula):
        raise ValueError("utilities are whole; pairs, choosers and formula cannot stand beside them")
    if formula is not None and choosers:
        raise ValueError("choosers and formula are both given; give one")
    spec = source = None
    if formula is not None:
        table_of_pairs: dict[str, Any] = {name: numbers[name].ravel() for name in pairs or {}}
        text = str(getattr(formula, "formula", formula))
        repeated = [name for name in columns if name in text and name not in table_of_pairs]
        table_of_pairs |= {name: np.repeat(np.asarray(columns[name]), k) for name in repeated}
        made, spec = _by_formula(formula, {"alternative": np.tile(labels, n), **table_of_pairs}, features)
        read = {name: read_numbers(name, column.reshape(n, k), where=mask)[mask] for name, column in made.items()}
        rows, ids = map(np.ascontiguousarray, np.nonzero(mask))
        arguments = _features_of_pairs(read, features, rows, ids, (n, k))
    else:
        feature_columns = {name: read_numbers(name, columns[name]) for name in choosers}
        arguments = {"X": _stack(feature_columns, n), "chooser_names": [*choosers]}
        arguments |= {
            "available": None if available is None else mask,
            "pairs": {name: numbers[name] for name in pairs or {}} or None,
        }
    if utilities is not None:
        features_of_pairs, offset = evaluate_utilities(utilities, labels.tolist(), columns, arguments["available"])
        arguments |= {"pairs": features_of_pairs, "offset": offset}
    sets = choice_sets(
        alternatives=labels,
        chosen=None if chosen is None else labels[positions_among(_label_column(columns, chosen), labels, chosen)],
        counts=numbers.get("counts"),
        persons=None if person is None else _label_column(columns, person),
        sample_weight=None if weight is None else read_numbers(weight, columns[weight]),
        unavailable_choices=unavailable_choices,
        **arguments,
    )
    if utilities is not None:
        make = partial(from_wide, alternatives=labels, utilities=utilities, available=available)
        source = Source(columns, make, whole=True)
    elif spec is not None:
        how: dict[str, Any] = {"pairs": pairs, "available": available, "formula": spec}
        source = Source(columns, partial(from_wide, alternatives=labels, features=_names_by_kind(sets), **how))
    return replace(sets, source=source)


def _by_position(name: str, columns: Mapping[Any, str], labels: NDArray[Any]) -> list[tuple[int, str]]:
    """The columns of alternatives by the position of these; raises ValueError for a key that is none."""
    positions = positions_among([*columns], labels, name, by_row=False)
    return [*zip(positions.tolist(), columns.values(), strict=True)]
