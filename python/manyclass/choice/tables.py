"""Data of choices from arrays, from long tables and from wide ones."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.choice.sets import MOST_TOGETHER, ChoiceSets, PairFunction, Source, positions_among
from manyclass.choice.utilities import evaluate_utilities
from manyclass.datasets.csr import is_sparse
from manyclass.labels import as_labels
from manyclass.weights.arrays import Doubles, Ids

Columns = Mapping[str, ArrayLike]


def _finite(name: str, values: ArrayLike, shape: tuple[int | None, ...]) -> Doubles:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != len(shape) or any(w is not None and w != s for w, s in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("any" if w is None else str(w) for w in shape)
        raise ValueError(f"{name} has shape {array.shape}; it must be ({wanted})")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has numbers that are not finite")
    return array


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
    else:
        if callable(available):
            step = max(1, MOST_TOGETHER // k)
            parts = [np.asarray(available(np.arange(b, min(b + step, n))), dtype=bool) for b in range(0, n, step)]
            available = np.concatenate([part.reshape(-1, k) for part in parts])
        if np.shape(available) != (n, k):
            raise ValueError(f"available has shape {np.shape(available)}; it must be {(n, k)}")
        mask = sp.csr_array(available, dtype=bool)
        indptr, ids = mask.indptr, mask.indices
    return indptr.astype(np.int64), ids.astype(np.int32)


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
    persons: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    chooser_names: Sequence[str] | None = None,
    alternative_names: Sequence[str] | None = None,
    pair_names: Sequence[str] | None = None,
    n_rows: int | None = None,
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
        What each row may choose: a mask, dense or sparse, of shape (n_rows, n_alternatives); ranges of positions, an
        integer array of shape (n_rows, 2) of first and last + 1; lists (indptr, alternatives) by position; or a
        function of an array of row numbers that returns their mask.
    unavailable : sparse matrix of shape (n_rows, n_alternatives), optional
        What a row may not choose, where that is little; instead of `available`.
    offset : array-like of shape (n_alternatives,), (n_rows, n_alternatives) or (n_listed,), optional
        Added to utilities, with a coefficient of 1.
    chosen : array-like of shape (n_rows,), optional
        Labels of what was chosen.
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

    Returns
    -------
    ChoiceSets

    Raises
    ------
    ValueError
        If sizes do not fit each other, numbers are not finite, or a chosen alternative is not available.
    """
    features = {} if pairs is None or callable(pairs) else dict(pairs)
    function = pairs if callable(pairs) else None
    offset_is_fixed = np.ndim(offset) == 1 and not isinstance(available, tuple)
    by_row, by_pair = (X, chosen, persons, sample_weight), (*features.values(), unavailable, offset)
    labels, available, n = _sizes(alternatives, Z, available, n_rows, by_row, by_pair)
    k = len(labels)
    x, z = _finite("X", np.zeros((n, 0)) if X is None else X, (n, None)), _alternative_features(Z, k)
    if function is not None and not pair_names:
        raise ValueError("pairs is a function; give the names of its features by pair_names")
    fixed, pair_names = np.zeros(k), tuple(pair_names or features)
    if offset_is_fixed and np.shape(offset) == (k,):
        fixed, offset = _finite("offset", offset, (k,)), None
    lists = _make_lists(features, available, unavailable, offset, n, k)
    if function is not None:
        lists = lists.with_features(np.zeros((len(lists.alternatives), len(pair_names))))
    sets = ChoiceSets(
        labels,
        x,
        z,
        lists,
        function,
        fixed,
        None if chosen is None else positions_among(chosen, labels, "chosen").astype(np.int32),
        None if persons is None else np.unique(as_labels(persons), return_inverse=True)[1].astype(np.int64),
        _row_weights(sample_weight, n),
        _names("chooser_names", chooser_names, X, x.shape[1], "x"),
        _names("alternative_names", alternative_names, Z, 0 if z is None else z.shape[1], "z"),
        pair_names,
    )
    names = (*sets.chooser_names, *sets.alternative_names, *sets.pair_names)
    if len(set(names)) < len(names):
        raise ValueError(f"features have names that occur twice: {', '.join(names)}")
    return sets


def _sizes(
    alternatives: Any, Z: Any, available: Any, n_rows: int | None, by_row: Sequence[Any], by_pair: Sequence[Any]
) -> tuple[NDArray[Any], Any, int]:
    """Labels of the alternatives, what is available, of which ranges become lists, and the number of rows."""
    shapes = [shape for array in by_pair if len(shape := _shape(array)) == 2]
    row_counts = [len(np.asarray(array)) for array in by_row if array is not None]
    z_counts = [] if Z is None else [Z.shape[0]]
    counts = [*z_counts, *(shape[1] for shape in shapes)] if alternatives is None else [len(np.asarray(alternatives))]
    if _is_ranges(available, counts):
        available = _core.lists_of_ranges(np.ascontiguousarray(available, dtype=np.int64))
        row_counts.append(len(available[0]) - 1)
    elif len(_shape(available)) == 2:
        shapes.append(_shape(available))
    n = _one_size("rows", n_rows, *row_counts, *(shape[0] for shape in shapes))
    if alternatives is None:
        alternatives = np.arange(_one_size("alternatives", *z_counts, *(shape[1] for shape in shapes)))
    labels = as_labels(alternatives)
    if len(labels) < 1 or len(np.unique(labels)) < len(labels):
        raise ValueError("alternatives must be distinct, and there must be some")
    return labels, available, n


def _alternative_features(Z: Any, k: int) -> Any:
    if is_sparse(Z):
        Z = sp.csr_array(Z, dtype=np.float64)
        _finite("Z", Z.data, (None,))
    elif Z is not None:
        Z = _finite("Z", Z, (k, None))
    if Z is not None and Z.shape[0] != k:
        raise ValueError(f"Z has {Z.shape[0]} rows; it must have one for each of {k} alternatives")
    return Z


def _row_weights(sample_weight: ArrayLike | None, n: int) -> Doubles | None:
    weights = None if sample_weight is None else _finite("sample_weight", sample_weight, (n,))
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
) -> _core.ChoiceLists:
    """Lists of what is available, or of what there is more to say."""
    if available is not None and unavailable is not None:
        raise ValueError("available and unavailable are both given; give one")
    closed = None if unavailable is None else sp.csr_array(unavailable, dtype=bool)
    if available is None and any(v is not None and not is_sparse(v) for v in (*features.values(), offset)):
        available, closed = (np.ones((n, k), dtype=bool) if closed is None else ~closed.toarray()), None
    return _core.ChoiceLists(
        n_rows=n,
        n_alternatives=k,
        lists=None if available is None else _list_available(available, n, k),
        features={name: _values(name, values, (n, k)) for name, values in features.items()},
        offset=None if offset is None else _values("offset", offset, (n, k)),
        unavailable=None if closed is None else _values("unavailable", closed, (n, k)),
    )


def _values(name: str, values: Any, shape: tuple[int, int]) -> Any:
    """Numbers of pairs as the core takes them."""
    if not is_sparse(values):
        return np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; it must be {shape}")
    matrix = sp.csr_array(values, dtype=np.float64)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


def from_long(
    table: Columns,
    *,
    chooser: str = "chooser",
    alternative: str = "alternative",
    chosen: str | None = "chosen",
    features: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    alternatives: ArrayLike | None = None,
    person: str | None = None,
    weight: str | None = None,
    offset: str | None = None,
    formula: Any = None,
) -> ChoiceSets:
    """Return the choices of a long table, which has a row for each pair of a chooser and an available alternative.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    chooser : str
        The column with numbers or names of choosers.
    alternative : str
        The column with numbers or names of alternatives.
    chosen : str or None
        The column that is true (or not 0) where a row was chosen; None: it is not known.
    features : sequence of str or mapping, optional
        Columns with features, all others that have numbers being taken where none are named. What is the same in all
        rows of every chooser becomes a feature of choosers, and of every alternative one of alternatives; a mapping of
        "choosers", "alternatives" and "pairs" to columns says which are which, as it must for a table to predict.
    alternatives : array-like, optional
        Labels of all alternatives, of which the table may lack some.
    person : str, optional
        The column of who chose; "person" where the table has it.
    weight : str, optional
        The column of weights of choosers; "weight" where the table has it.
    offset : str, optional
        The column that is added to utilities; "offset" where the table has it.
    formula : str, optional
        Features by a formula of the package formulaic, such as "log(distance) + cost:income"; `features` may then tell
        their kinds.

    Returns
    -------
    ChoiceSets

    Raises
    ------
    KeyError
        If a column is missing.
    ValueError
        If a chooser has chosen none or several alternatives, lists one twice, or a number is not finite.
    """
    names = [str(name) for name in table]
    person, weight, offset = (
        name or (usual if usual in names else None)
        for name, usual in ((person, "person"), (weight, "weight"), (offset, "offset"))
    )
    choosers, first_of_row, rows = np.unique(as_labels(table[chooser]), return_index=True, return_inverse=True)
    if alternatives is None:
        labels, ids = np.unique(as_labels(table[alternative]), return_inverse=True)
    else:
        labels = as_labels(alternatives)
        ids = positions_among(np.asarray(table[alternative]), labels, alternative)
    n, k = len(choosers), len(labels)
    spec = None
    if formula is not None:
        columns, spec = _by_formula(formula, table)
    else:
        columns = _feature_columns(table, features, {chooser, alternative, chosen, person, weight, offset})
    parts = _by_kind(columns, features if isinstance(features, Mapping) else None, (rows, ids), (n, k))
    choice = None if chosen is None else _choices(np.asarray(table[chosen]).astype(bool), rows, ids, choosers)
    order = np.lexsort((ids, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    by_row: dict[str, Any] = {
        name: np.asarray(table[column])[first_of_row]
        for name, column in (("persons", person), ("sample_weight", weight))
        if column is not None
    }
    sets = choice_sets(
        alternatives=labels,
        X=_table(parts["choosers"], n),
        Z=_table(parts["alternatives"], k) if parts["alternatives"] else None,
        pairs={name: column[order] for name, column in parts["pairs"].items()} or None,
        available=(indptr, ids[order]),
        offset=None if offset is None else np.asarray(table[offset], dtype=np.float64)[order],
        chosen=None if choice is None else labels[choice],
        chooser_names=[*parts["choosers"]],
        alternative_names=[*parts["alternatives"]],
        **by_row,
    )
    if spec is None:
        return sets
    kinds = {kind: [*names_of_kind] for kind, names_of_kind in parts.items()}
    keys: dict[str, Any] = {"chooser": chooser, "alternative": alternative, "alternatives": labels, "offset": offset}
    make = partial(from_long, **keys, chosen=None, formula=spec, features=kinds)
    return replace(sets, source=Source(table, make, alternative))


def _feature_columns(table: Columns, features: Any, known: set[str | None]) -> dict[str, Doubles]:
    """The columns with features: all that have numbers and no other use where none are named."""
    if isinstance(features, Mapping):
        features = itertools.chain(*features.values())
    if features is None:
        names = (str(name) for name in table)
        features = [name for name in names if name not in known and np.asarray(table[name]).dtype.kind in "biuf"]
    return {name: np.asarray(table[name], dtype=np.float64) for name in features}


def _choices(
    marks: NDArray[np.bool_], rows: NDArray[np.int64], ids: NDArray[np.int64], choosers: NDArray[Any]
) -> NDArray[np.int64]:
    """The alternative that each chooser has marked."""
    counts = np.bincount(rows[marks], minlength=len(choosers))
    if np.any(counts != 1):
        wrong = int(np.argmax(counts != 1))
        who = choosers[wrong : wrong + 1].tolist()[0]
        raise ValueError(f"chooser {who!r} has chosen {counts[wrong]} alternatives; it must be one")
    choice = np.empty(len(choosers), dtype=np.int64)
    choice[rows[marks]] = ids[marks]
    return choice


def _by_kind(
    columns: Mapping[str, Doubles],
    kinds: Mapping[str, Sequence[str]] | None,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    sizes: tuple[int, int],
) -> dict[str, dict[str, Doubles]]:
    """Features of choosers, of alternatives and of pairs, of which the first two have a value for each of them."""
    features: dict[str, dict[str, Doubles]] = {"choosers": {}, "alternatives": {}, "pairs": {}}
    for name, column in columns.items():
        _finite(name, column, (len(places[0]),))
        for kind, owners, size in zip(features, places, sizes, strict=False):
            if kinds is not None and name not in kinds.get(kind, ()):
                continue
            values = _core.numbers_of_groups(column, owners, size)
            if values is not None:
                features[kind][name] = values
                break
        else:
            features["pairs"][name] = column
            if kinds is not None and name not in kinds.get("pairs", ()):
                raise ValueError(f"{name!r} is not the same in all rows of a chooser, or of an alternative")
    return features


def _table(columns: Mapping[str, Doubles], n: int) -> Doubles:
    return np.stack([*columns.values()], axis=1) if columns else np.zeros((n, 0))


def _by_formula(formula: Any, table: Columns) -> tuple[dict[str, Doubles], Any]:
    """Features by a formula, or by what formulaic has made of it, which is given back and knows means and levels."""
    try:
        formulaic = importlib.import_module("formulaic")
    except ImportError as error:
        raise ImportError("formula needs formulaic: pip install formulaic") from error
    matrix = formulaic.model_matrix(formula, table)
    names = [name for name in matrix.columns if name != "Intercept"]
    return {str(name): np.asarray(matrix[name], dtype=np.float64) for name in names}, matrix.model_spec


def from_wide(
    table: Columns,
    *,
    alternatives: Sequence[Any] | None = None,
    chosen: str | None = None,
    pairs: Mapping[str, Mapping[Any, str]] | None = None,
    utilities: Mapping[Any, str] | None = None,
    available: Mapping[Any, str] | None = None,
    choosers: Sequence[str] = (),
    person: str | None = None,
    weight: str | None = None,
) -> ChoiceSets:
    """Return the choices of a wide table, which has a row for each chooser.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    alternatives : sequence of labels, optional
        Those of `utilities` where there are any.
    chosen : str, optional
        The column of what was chosen.
    pairs : mapping of str to mappings of alternatives to columns, optional
        Where each feature of a pair stands; it is 0 for alternatives that are left out.
    utilities : mapping of alternatives to str, optional
        Instead of `pairs` and `choosers` the whole utility of each alternative, such as
        ``{"train": "asc_train + b_cost*cost_train/100", "car": "b_cost*cost_car/100 + b_rich*log(income)"}``. Names
        that are no columns are coefficients, in which it is linear; each names a feature of pairs, and is one number
        wherever it stands. Columns may have + - * / **, comparisons, &, |, log, exp, sqrt, abs, max, min and where.
    available : mapping of alternatives to columns, optional
        Columns that are true (or not 0) where an alternative is available; one that is left out always is.
    choosers : sequence of str
        Columns with features of choosers.
    person : str, optional
        The column of who chose.
    weight : str, optional
        The column of weights.

    Returns
    -------
    ChoiceSets

    Raises
    ------
    KeyError
        If a column is missing.
    ValueError
        As `choice_sets` does.
    """
    n = len(np.asarray(table[next(iter(table))]))
    if alternatives is None:
        if utilities is None:
            raise ValueError("alternatives or utilities must tell which alternatives there are")
        alternatives = [*utilities]
    mask = None
    if available is not None:
        there = [
            np.asarray(table[available[a]]).astype(bool) if a in available else np.ones(n, bool) for a in alternatives
        ]
        mask = np.stack(there, axis=1)
    offset = source = None
    if utilities is not None:
        if pairs or choosers:
            raise ValueError("utilities are whole; pairs and choosers cannot stand beside them")
        features, offset = evaluate_utilities(utilities, alternatives, table, mask)
        make = partial(from_wide, alternatives=alternatives, utilities=utilities, available=available)
        source = Source(table, make, whole=True)
    else:
        features = {
            name: np.stack(
                [np.asarray(table[cols[a]], dtype=np.float64) if a in cols else np.zeros(n) for a in alternatives], 1
            )
            for name, cols in (pairs or {}).items()
        }
    sets = choice_sets(
        alternatives=alternatives,
        X=_table({name: np.asarray(table[name], dtype=np.float64) for name in choosers}, n),
        pairs=features or None,
        available=mask,
        offset=offset,
        chosen=None if chosen is None else np.asarray(table[chosen]),
        persons=None if person is None else np.asarray(table[person]),
        sample_weight=None if weight is None else np.asarray(table[weight]),
        chooser_names=[*choosers],
    )
    return replace(sets, source=source)
