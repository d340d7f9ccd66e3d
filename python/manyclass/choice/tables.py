"""Data of choices from arrays, from long tables and from wide ones."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.choice.sets import (
    MOST_TOGETHER,
    ChoiceSets,
    PairFunction,
    positions_among,
)
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


def _names(name: str, given: Sequence[str] | None, values: Any, n: int, letter: str) -> tuple[str, ...]:
    found = tuple(map(str, given)) if given is not None else tuple(map(str, getattr(values, "columns", ())))
    found = found or tuple(f"{letter}{j}" for j in range(n))
    if len(found) != n or len(set(found)) < n:
        raise ValueError(f"{name} is {found!r}; it must have {n} different names")
    return found


def _lists_of(available: Any, n: int, k: int) -> tuple[NDArray[np.int64], Ids]:
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
    chooser_names, alternative_names, pair_names : sequences of str, optional
        Names of the features.
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
    own = {} if pairs is None or callable(pairs) else dict(pairs)
    by_pair = [shape for v in (*own.values(), unavailable, offset) if len(shape := _shape(v)) == 2]
    by_row = [len(np.asarray(v)) for v in (X, chosen, persons, sample_weight) if v is not None]
    of_z = [] if Z is None else [Z.shape[0]]
    known = [*of_z, *(shape[1] for shape in by_pair)] if alternatives is None else [len(np.asarray(alternatives))]
    by_alternative = np.ndim(offset) == 1 and not isinstance(available, tuple)
    if _is_ranges(available, known):
        available = _core.lists_of_ranges(np.ascontiguousarray(available, dtype=np.int64))
        by_row.append(len(available[0]) - 1)
    elif len(_shape(available)) == 2:
        by_pair.append(_shape(available))
    n = _one_size("rows", n_rows, *by_row, *(shape[0] for shape in by_pair))
    if alternatives is None:
        alternatives = np.arange(_one_size("alternatives", *of_z, *(shape[1] for shape in by_pair)))
    labels = as_labels(alternatives)
    k = len(labels)
    if k < 1 or len(np.unique(labels)) < k:
        raise ValueError("alternatives must be distinct, and there must be some")
    x = _finite("X", np.zeros((n, 0)) if X is None else X, (n, None))
    if is_sparse(Z):
        z: Any = sp.csr_array(Z, dtype=np.float64)
        _finite("Z", z.data, (None,))
    else:
        z = None if Z is None else _finite("Z", Z, (k, None))
    if z is not None and z.shape[0] != k:
        raise ValueError(f"Z has {z.shape[0]} rows; it must have one for each of {k} alternatives")
    function = pairs if callable(pairs) else None
    if function is not None and not pair_names:
        raise ValueError("pairs is a function; give the names of its features by pair_names")
    own_names = tuple(pair_names or own)
    fixed = np.zeros(k)
    if by_alternative and np.shape(offset) == (k,):
        fixed, offset = _finite("offset", offset, (k,)), None
    lists = _listed(own, available, unavailable, offset, n, k)
    if function is not None:
        lists = lists.with_features(np.zeros((len(lists.alternatives), len(own_names))))
    positions = None
    if chosen is not None:
        positions = positions_among(chosen, labels, "chosen").astype(np.int32)
    who = None if persons is None else np.unique(as_labels(persons), return_inverse=True)[1].astype(np.int64)
    weight = None if sample_weight is None else _finite("sample_weight", sample_weight, (n,))
    if weight is not None and (weight.min(initial=0) < 0 or not weight.any()):
        raise ValueError("sample_weight has numbers below 0, or only zeros")
    sets = ChoiceSets(
        labels,
        x,
        z,
        lists,
        function,
        fixed,
        positions,
        who,
        weight,
        _names("chooser_names", chooser_names, X, x.shape[1], "x"),
        _names("alternative_names", alternative_names, Z, 0 if z is None else z.shape[1], "z"),
        own_names,
    )
    names = (*sets.chooser_names, *sets.alternative_names, *sets.pair_names)
    if len(set(names)) < len(names):
        raise ValueError(f"features have names that occur twice: {', '.join(names)}")
    return sets


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array; () of what is none."""
    return () if values is None or callable(values) or isinstance(values, tuple) else np.shape(values)


def _is_ranges(available: Any, sizes: Sequence[int]) -> bool:
    """Whether `available` has a first and a last position for each row, and not a mask of two alternatives."""
    if is_sparse(available) or _shape(available)[1:] != (2,):
        return False
    mask = np.asarray(available)
    return bool(mask.dtype.kind in "iu" and (mask.max(initial=0) > 1 or any(k != 2 for k in sizes)))


def _one_size(what: str, *given: int | None) -> int:
    sizes = {size for size in given if size is not None}
    if len(sizes) != 1:
        raise ValueError(f"the number of {what} is {sorted(sizes) if sizes else 'not told'}; it must be one number")
    return sizes.pop()


def _listed(own: Mapping[str, Any], available: Any, unavailable: Any, offset: Any, n: int, k: int) -> _core.ChoiceLists:
    """Lists of what is available, or of what there is more to say."""
    if available is not None and unavailable is not None:
        raise ValueError("available and unavailable are both given; give one")
    closed = None if unavailable is None else sp.csr_array(unavailable, dtype=bool)
    if available is None and any(v is not None and not is_sparse(v) for v in (*own.values(), offset)):
        available, closed = (np.ones((n, k), dtype=bool) if closed is None else ~closed.toarray()), None
    return _core.ChoiceLists(
        n_rows=n,
        n_alternatives=k,
        lists=None if available is None else _lists_of(available, n, k),
        features={name: _values(name, values, (n, k)) for name, values in own.items()},
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
    formula: str | None = None,
) -> ChoiceSets:
    """Return the choices of a long table, which has a row for each pair of a chooser and an available alternative.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    chooser, alternative, chosen : str
        Columns: numbers or names of choosers and alternatives, and what is true (or not 0) where a row was chosen;
        None: it is not known.
    features : sequence of str or mapping, optional
        Columns with features, all others that have numbers being taken where none are named. What is the same in all
        rows of every chooser becomes a feature of choosers, and of every alternative one of alternatives; a mapping of
        "choosers", "alternatives" and "pairs" to columns says which are which, as it must for a table to predict.
    alternatives : array-like, optional
        Labels of all alternatives, of which the table may lack some.
    person, weight, offset : str, optional
        Columns; "person", "weight" and "offset" are taken where the table has them.
    formula : str, optional
        Features by a formula of the package formulaic, such as "log(distance) + cost:income", instead of `features`.

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
        given or (usual if usual in names else None)
        for given, usual in ((person, "person"), (weight, "weight"), (offset, "offset"))
    )
    choosers, rows = np.unique(as_labels(table[chooser]), return_inverse=True)
    if alternatives is None:
        labels, ids = np.unique(as_labels(table[alternative]), return_inverse=True)
    else:
        labels = as_labels(alternatives)
        ids = positions_among(np.asarray(table[alternative]), labels, alternative)
    n, k = len(choosers), len(labels)
    first_of_row = np.unique(rows, return_index=True)[1]
    known = {chooser, alternative, chosen, person, weight, offset}
    if formula is not None:
        columns = _by_formula(formula, table)
    else:
        taken = [*itertools.chain(*features.values())] if isinstance(features, Mapping) else features
        if taken is None:
            taken = [name for name in names if name not in known and np.asarray(table[name]).dtype.kind in "biuf"]
        columns = {name: np.asarray(table[name], dtype=np.float64) for name in taken}
    told = features if isinstance(features, Mapping) else None
    parts = _by_kind(columns, told, (rows, ids), (n, k))
    choice = None
    if chosen is not None:
        mark = np.asarray(table[chosen]).astype(bool)
        marks = np.bincount(rows[mark], minlength=n)
        if np.any(marks != 1):
            wrong = int(np.argmax(marks != 1))
            who = choosers[wrong : wrong + 1].tolist()[0]
            raise ValueError(f"chooser {who!r} has chosen {marks[wrong]} alternatives; it must be one")
        choice = np.empty(n, dtype=np.int64)
        choice[rows[mark]] = ids[mark]
    order = np.lexsort((ids, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    by_row: dict[str, Any] = {
        name: np.asarray(table[column])[first_of_row]
        for name, column in (("persons", person), ("sample_weight", weight))
        if column is not None
    }
    return choice_sets(
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


def _by_kind(
    columns: Mapping[str, Doubles],
    told: Mapping[str, Sequence[str]] | None,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    sizes: tuple[int, int],
) -> dict[str, dict[str, Doubles]]:
    """Features of choosers, of alternatives and of pairs, of which the first two have a value for each of them."""
    found: dict[str, dict[str, Doubles]] = {"choosers": {}, "alternatives": {}, "pairs": {}}
    for name, column in columns.items():
        _finite(name, column, (len(places[0]),))
        for kind, at, size in zip(found, places, sizes, strict=False):
            values = _core.numbers_of_groups(column, at, size) if told is None or name in told.get(kind, ()) else None
            if values is not None:
                found[kind][name] = values
                break
        else:
            found["pairs"][name] = column
            if told is not None and name not in told.get("pairs", ()):
                raise ValueError(f"{name!r} is not the same in all rows of a chooser, or of an alternative")
    return found


def _table(columns: Mapping[str, Doubles], n: int) -> Doubles:
    return np.stack([*columns.values()], axis=1) if columns else np.zeros((n, 0))


def _by_formula(formula: str, table: Columns) -> dict[str, Doubles]:
    try:
        formulaic = importlib.import_module("formulaic")
    except ImportError as error:
        raise ImportError("formula needs formulaic: pip install formulaic") from error
    made = formulaic.model_matrix(formula, table)
    return {str(name): np.asarray(made[name], dtype=np.float64) for name in made.columns if name != "Intercept"}


def from_wide(
    table: Columns,
    *,
    alternatives: Sequence[Any],
    chosen: str | None = None,
    pairs: Mapping[str, Mapping[Any, str]] | None = None,
    available: Mapping[Any, str] | None = None,
    choosers: Sequence[str] = (),
    person: str | None = None,
    weight: str | None = None,
) -> ChoiceSets:
    """Return the choices of a wide table, which has a row for each chooser.

    Parameters
    ----------
    table : DataFrame or mapping of names to columns
    alternatives : sequence of labels
    chosen : str, optional
        The column of what was chosen.
    pairs : mapping of str to mappings of alternatives to columns, optional
        Where each feature of a pair stands; it is 0 for alternatives that are left out.
    available : mapping of alternatives to columns, optional
        Columns that are true (or not 0) where an alternative is available; one that is left out always is.
    choosers : sequence of str
        Columns with features of choosers.
    person, weight : str, optional
        Columns.

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
    features = {
        name: np.stack(
            [np.asarray(table[at[a]], dtype=np.float64) if a in at else np.zeros(n) for a in alternatives], 1
        )
        for name, at in (pairs or {}).items()
    }
    mask = None
    if available is not None:
        there = [
            np.asarray(table[available[a]]).astype(bool) if a in available else np.ones(n, bool) for a in alternatives
        ]
        mask = np.stack(there, axis=1)
    return choice_sets(
        alternatives=alternatives,
        X=_table({name: np.asarray(table[name], dtype=np.float64) for name in choosers}, n),
        pairs=features or None,
        available=mask,
        chosen=None if chosen is None else np.asarray(table[chosen]),
        persons=None if person is None else np.asarray(table[person]),
        sample_weight=None if weight is None else np.asarray(table[weight]),
        chooser_names=[*choosers],
    )
