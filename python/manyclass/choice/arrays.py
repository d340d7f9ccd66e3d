"""Data of choices from arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_choice, outer_level
from manyclass.choice.columns import check_cells, read_flags, read_numbers, stack_columns
from manyclass.choice.sets import MOST_TOGETHER, ChoiceLists, ChoiceSets, PairFunction, join_ranges, positions_among
from manyclass.datasets.csr import is_sparse
from manyclass.labels import as_labels, check_targets, group_ids, sorted_classes
from manyclass.weights.arrays import Doubles

Unavailable = Literal["raise", "drop", "keep"]


def _names(name: str, user_names: Sequence[str] | None, values: Any, n: int, letter: str) -> tuple[str, ...]:
    columns = getattr(values, "columns", ()) if user_names is None else user_names
    feature_names = tuple(map(str, columns)) or tuple(f"{letter}{j}" for j in range(n))
    if len(feature_names) != n or len(set(feature_names)) < n:
        raise ValueError(f"{name} is {feature_names!r}; it must have {n} different names")
    return feature_names


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
    arrays = {"alternatives": alternatives, "X": X, "Z": Z, "persons": persons, "sample_weight": sample_weight}
    _check_arguments(chosen, counts, pairs, pair_names, available, **arrays)
    function, features = (pairs, {}) if callable(pairs) else (None, dict(pairs or {}))
    by_row, by_pair = (X, chosen, persons, sample_weight), (*features.values(), unavailable, offset, counts)
    has_listed = isinstance(available, tuple)
    labels, available, n = _sizes(alternatives, Z, available, n_rows, by_row, by_pair)
    k, pair_names = len(labels), tuple(pair_names or features)
    fixed = np.zeros(k)
    if np.shape(offset) == (k,) and not has_listed:
        fixed, offset = read_numbers("offset", offset, (k,)), None
    lists = _make_lists(features, available, unavailable, offset, n, k)
    x = read_numbers("X", np.zeros((n, 0)) if X is None else X, (n, None))
    z = None if Z is None else read_numbers("Z", Z, (k, None))
    names_of_choosers = _names("chooser_names", chooser_names, X, x.shape[1], "x")
    names_of_alternatives = _names("alternative_names", alternative_names, Z, 0 if z is None else z.shape[1], "z")
    names = (*names_of_choosers, *names_of_alternatives, *pair_names)
    if len(set(names)) < len(names):
        raise ValueError(f"features have names that occur twice: {', '.join(names)}")
    check_targets(chosen, several=False, name="chosen")
    places = None if chosen is None else positions_among(chosen, labels, "chosen").astype(np.int32)
    weights = None if sample_weight is None else read_numbers("sample_weight", sample_weight, (n,))
    if weights is not None and (weights.min(initial=0) < 0 or not weights.any()):
        raise ValueError("sample_weight has numbers below 0, or only zeros")
    people = None if persons is None else group_ids(persons, n, "persons")
    by_kind = (names_of_choosers, names_of_alternatives, pair_names)
    sets = ChoiceSets(labels, x, z, lists, function, fixed, places, people, weights, *by_kind)
    return leave_out_unavailable(_with_counts(sets, counts), unavailable_choices)


def _check_arguments(chosen: Any, counts: Any, pairs: Any, pair_names: Any, available: Any, **arrays: Any) -> None:
    """Raise ValueError for arguments that cannot be together, or are none of their kind."""
    if chosen is not None and counts is not None:
        raise ValueError("chosen and counts are both given; give one")
    if callable(pairs) and not pair_names:
        raise ValueError("pairs is a function; give the names of its features by pair_names")
    if pairs is not None and not callable(pairs) and not isinstance(pairs, Mapping):
        raise ValueError(f"pairs is a {type(pairs).__name__}; it must be a mapping of names to arrays, or a function")
    if isinstance(available, tuple) and [np.ndim(part) for part in available] != [1, 1]:
        raise ValueError(f"available is {available!r:.80}; a tuple must be lists (indptr, alternatives), two 1d arrays")
    for name, values in {"chosen": chosen, **arrays}.items():
        if values is not None and not np.ndim(values):
            raise ValueError(f"{name} is {values!r:.80}; it must be an array")


def _with_counts(sets: ChoiceSets, counts: Any) -> ChoiceSets:
    """A row for each alternative that choosers of a row took, weighted by their number."""
    if counts is None:
        return sets
    matrix = sp.csr_array(read_numbers("counts", counts, (sets.n_rows, sets.n_alternatives)))
    check_cells("counts", matrix, matrix.data >= 0, "; it must be at least 0")
    matrix.eliminate_zeros()
    if not matrix.nnz:
        raise ValueError("counts has only zeros")
    rows, ids = matrix.tocoo().coords
    return replace(sets.take(rows), chosen=ids.astype(np.int32), sample_weight=sets.weights[rows] * matrix.data)


def leave_out_unavailable(
    sets: ChoiceSets, unavailable_choices: Unavailable, name_row: Callable[[int], str] = "row {}".format
) -> ChoiceSets:
    """The rows whose choice is available; others are counted, and refused or left out."""
    check_choice("unavailable_choices", unavailable_choices, get_args(Unavailable))
    if sets.chosen is None or unavailable_choices == "keep":
        return sets
    lists, is_available = sets.lists, np.full(sets.n_rows, not sets.lists.only)
    listed = np.flatnonzero(sets.chosen[lists.rows] == lists.alternatives)
    is_available[lists.rows[listed]] = np.isfinite(lists.offsets[listed])
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
    shapes = [shape for array in by_pair if len(shape := np.shape(array)) == 2]
    labels = None if alternatives is None else distinct_labels(alternatives)
    counts = [] if Z is None else [np.shape(Z)[0]]
    counts = [*counts, *(shape[1] for shape in shapes)] if labels is None else [len(labels)]
    if _is_ranges(available, counts):
        available = _lists_of_ranges(available, _one_size("alternatives", counts))
    elif not isinstance(available, tuple) and np.ndim(available) == 2:
        shapes.append(np.shape(available))
        counts += [np.shape(available)[1]] * (labels is None)
    row_counts = [len(available[0]) - 1] if isinstance(available, tuple) else []
    row_counts += [np.shape(array)[0] for array in by_row if array is not None]
    row_counts += [] if n_rows is None else [n_rows]
    n = _one_size("rows", [*row_counts, *(shape[0] for shape in shapes)])
    if n < 1:
        raise ValueError("the data have no rows")
    return np.arange(_one_size("alternatives", counts)) if labels is None else labels, available, n


def _is_ranges(available: Any, sizes: Sequence[int]) -> bool:
    """Whether `available` has a first and a last position for each row, and not a mask of two alternatives."""
    if is_sparse(available) or isinstance(available, tuple) or np.shape(available)[1:] != (2,):
        return False
    mask = np.asarray(available)
    return bool(mask.dtype.kind in "iu" and (mask.max(initial=0) > 1 or any(k != 2 for k in sizes)))


def _lists_of_ranges(available: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ranges = np.asarray(available, dtype=np.int64)
    is_right = (ranges >= 0) & (ranges <= k) & (ranges[:, :1] < ranges[:, 1:])
    rule = f"; cells of masks are 0 or 1, and a range has a first position and a last + 1 in [0, {k}]"
    check_cells("available", np.asarray(available), is_right, rule)
    return join_ranges(ranges[:, 0], ranges[:, 1] - ranges[:, 0])


def distinct_labels(alternatives: Any) -> NDArray[Any]:
    """Return the labels of alternatives; raises ValueError where there are none, or two are one."""
    check_targets(alternatives, several=False, name="alternatives")
    labels = as_labels(alternatives)
    if labels.ndim != 1 or not len(labels) or len(sorted_classes(labels, name="alternatives")[0]) < len(labels):
        raise ValueError("alternatives must be distinct, and there must be some")
    return labels


def _one_size(unit: str, candidates: Sequence[int]) -> int:
    sizes = {*candidates}
    if len(sizes) != 1:
        raise ValueError(f"the number of {unit} is {sorted(sizes) if sizes else 'not told'}; it must be one number")
    return sizes.pop()


def _list_available(available: Any, n: int, k: int) -> Any:
    """What each row may choose, as a matrix, sorted; its numbers tell where `available` lists a pair."""
    if isinstance(available, tuple):
        indptr, ids = map(np.asarray, available)
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
    if not np.diff(indptr).all():
        raise ValueError(f"row {np.argmin(np.diff(indptr))} has no alternative to choose from")
    listed = sp.csr_array((np.arange(len(ids)), ids, indptr), shape=(n, k))
    listed.sort_indices()
    if not listed.has_canonical_format:
        raise ValueError("a row lists an alternative twice")
    return listed


def _make_lists(
    features: Mapping[str, Any], available: Any, unavailable: Any, offset: Any, n: int, k: int
) -> ChoiceLists:
    """Lists of what is available, or of what there is more to say."""
    if available is not None and unavailable is not None:
        raise ValueError("available and unavailable are both given; give one")
    closed = sp.csr_array((n, k), dtype=bool) if unavailable is None else read_flags("unavailable", unavailable)
    arrays = [("offset", sp.csr_array((n, k)) if offset is None else offset), ("unavailable", sp.csr_array(closed))]
    arrays = [
        (name, read_numbers(name, values, (n, k)) if is_sparse(values) else values)
        for name, values in (*features.items(), *arrays)
    ]
    only = available is not None or not all(is_sparse(values) for _, values in arrays)
    if only:
        listed = _list_available(~arrays[-1][1].astype(bool).toarray() if available is None else available, n, k)
    else:
        patterns = [sp.csr_array((np.ones(m.nnz), m.indices, m.indptr), shape=m.shape) for _, m in arrays]
        listed = sum(patterns[1:], patterns[0])
        listed.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(listed.indptr))
    *columns, offsets, closed = (_numbers(name, values, listed, rows) for name, values in arrays)
    indptr, ids = listed.indptr.astype(np.int64), listed.indices.astype(np.int32)
    return ChoiceLists(indptr, ids, stack_columns(columns, len(ids)), np.where(closed, -np.inf, offsets), only)


def _numbers(name: str, values: Any, listed: Any, rows: NDArray[np.int64]) -> Doubles:
    """A number for each pair that is listed; cells of a table that are not may be missing."""
    if is_sparse(values):
        return np.asarray(values[rows, listed.indices] if values.nnz else np.zeros(len(rows)))
    if np.shape(values) == listed.shape:
        mask = np.zeros(listed.shape, dtype=bool)
        mask[rows, listed.indices] = True
        return np.asarray(read_numbers(name, values, where=mask)[mask])
    if np.shape(values) != rows.shape:
        wanted = f"{listed.shape}, or {rows.shape} as available lists them"
        raise ValueError(f"{name} has shape {np.shape(values)}; it must be {wanted}")
    return np.asarray(read_numbers(name, values)[listed.data])
