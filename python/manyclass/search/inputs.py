"""Rows and queries of an index: checks on what a caller passes, and those that a model's weights and points become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import canonical_csr, checked_ids, csr_parts, id_lists
from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import NO_FLOATS, Floats, Matrix

Rows = ArrayLike | sp.sparray | sp.spmatrix
Exclude = Sequence[ArrayLike] | sp.sparray | sp.spmatrix | None
Labels = ArrayLike | Sequence[ArrayLike] | sp.sparray | sp.spmatrix
Excluded = tuple[NDArray[np.int64], NDArray[np.int32]]  # indptr and sorted ids; both empty: nothing for anyone

MOST_COLUMNS = 1 << 22  # sums of D products of bytes must be 32-bit integers
_NOTHING: Excluded = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))


def _as_float32(name: str, x: Any) -> NDArray[np.float32]:
    """A dense array of real numbers as float32; C-contiguous, so that read-only memory is read where it is."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):  # the core refuses what overflows
        return np.ascontiguousarray(array, dtype=np.float32)


def checked_rows(name: str, W: Rows, n_features: int | None = None) -> NDArray[np.float32]:
    """Return W as a dense float32 matrix of at least one row and column.

    Raises
    ------
    TypeError
        If W does not hold real numbers.
    ValueError
        If it is no such matrix.
    """
    given: Any = W
    dense = _as_float32(name, given.toarray() if is_sparse(given) else given)
    if dense.ndim != 2:
        raise ValueError(f"{name} has {dense.ndim} dimensions; it must have 2")
    if n_features is not None and dense.shape[1] != n_features:
        raise ValueError(f"{name} has {dense.shape[1]} columns; the index has {n_features}")
    if n_features is None and (dense.shape[0] < 1 or not 1 <= dense.shape[1] <= MOST_COLUMNS):
        raise ValueError(f"{name} has shape {dense.shape}; it must have 1 row or more and 1 to {MOST_COLUMNS} columns")
    return dense


def queries_of(Q: Rows, n_features: int) -> tuple[Any, int, bool]:
    """Return queries as the core takes them, their number, and whether there was one, as a vector.

    Raises
    ------
    TypeError
        If Q does not hold real numbers.
    ValueError
        If Q does not have one or two dimensions or the columns of the index.
    """
    given: Any = Q
    if type(given) is np.ndarray and given.dtype == np.float32 and given.shape == (n_features,):
        return np.ascontiguousarray(given).reshape(1, -1), 1, True  # a single query waits for each microsecond
    if is_sparse(given):
        single = given.ndim == 1  # what a row of a csr_array is
        given = given.reshape(1, -1) if single else given
        if given.ndim != 2 or given.shape[1] != n_features:
            raise ValueError(f"Q has shape {given.shape}; it must have {n_features} columns, as the index")
        return csr_parts(canonical_csr(sp.csr_array(given))), given.shape[0], single
    dense = _as_float32("Q", given)
    single = dense.ndim == 1
    if single:
        dense = dense.reshape(1, -1)
    if dense.ndim != 2:
        raise ValueError(f"Q has {dense.ndim} dimensions; it must have 1 (a query) or 2")
    if dense.shape[1] != n_features:
        raise ValueError(f"Q has {dense.shape[1]} columns; the index has {n_features}")
    return dense, dense.shape[0], single


def dense_queries(Q: Rows, n_features: int) -> NDArray[np.float32]:
    """Return queries as a dense (n, n_features) matrix; raises as `queries_of` does."""
    queries, n, _ = queries_of(Q, n_features)
    return densified(queries, n, n_features)


def densified(queries: Any, n: int, n_features: int) -> NDArray[np.float32]:
    """Return queries as `queries_of` gives them as a dense matrix."""
    if not isinstance(queries, tuple):
        return np.asarray(queries)
    indptr, indices, data = queries
    return np.asarray(sp.csr_array((data, indices, indptr), shape=(n, n_features)).toarray())


def _lists(name: str, given: Any, n: int, n_rows: int) -> Excluded:
    return id_lists(name, given, (n, n_rows), rows="queries", whose=": queries by rows")


def exclusions(exclude: Exclude, n: int, single: bool, n_rows: int) -> Excluded:
    """Return the ids that each query does not want, sorted and distinct.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If there is not a list for each query, or an id is out of range.
    """
    if exclude is None:
        return _NOTHING
    given: Any = exclude
    if is_sparse(given) and given.ndim == 1:
        given = given.reshape(1, -1)
    if single and not is_sparse(given) and np.ndim(given[0] if len(given) else 0) == 0:
        given = [given]
    return _lists("exclude", given, n, n_rows)


def labels_of(Y: Labels, n: int, n_rows: int) -> Excluded:
    """Return the labels of each of n points, sorted and distinct: one for each, lists, or a sparse indicator matrix.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If there are not labels for each point, or one is out of range.
    """
    given: Any = Y
    if not is_sparse(given) and all(np.ndim(some) == 0 for some in given):
        one = checked_ids("Y", given, n_rows)
        if len(one) != n:
            raise ValueError(f"Y has {len(one)} labels; there are {n} queries")
        return np.arange(n + 1, dtype=np.int64), one
    if is_sparse(given) and given.shape == (n, n_rows):
        given = sp.csr_array(given, copy=True)
        given.eliminate_zeros()
    return _lists("Y", given, n, n_rows)


# Of a model's weights


def class_rows(coef: Floats, intercept: Floats | None, scale: Floats | None = None) -> Floats:
    """Return a dense row of weights, times `scale`, and of the intercept, if any, for each class, less their mean.

    The mean of all rows adds the same to each score of a point: neither ranks nor probabilities change, and shorter
    rows cluster better."""
    factors, bias = (NO_FLOATS if given is None else given for given in (scale, intercept))
    return _core.centred_class_rows(coef, factors, bias)


def queries(x: Matrix, n_columns: int) -> Matrix:
    """Return points as queries for rows of `class_rows`: with a feature of ones where these have an intercept."""
    if x.shape[1] == n_columns:
        return x
    ones = np.ones((x.shape[0], 1), dtype=np.float32)
    if isinstance(x, sp.csr_array):
        return sp.csr_array(sp.hstack([x, sp.csr_array(ones)], format="csr"))
    return np.concatenate([x, ones], axis=1)
