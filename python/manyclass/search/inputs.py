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
    matrix: Any = W
    dense = _as_float32(name, matrix.toarray() if is_sparse(matrix) else matrix)
    if dense.ndim != 2:
        raise ValueError(f"{name} has {dense.ndim} dimensions; it must have 2")
    if n_features is not None and dense.shape[1] != n_features:
        raise ValueError(f"{name} has {dense.shape[1]} columns; the index has {n_features}")
    if n_features is None and (dense.shape[0] < 1 or not 1 <= dense.shape[1] <= MOST_COLUMNS):
        raise ValueError(f"{name} has shape {dense.shape}; it must have 1 row or more and 1 to {MOST_COLUMNS} columns")
    return dense


def queries_of(Q: Rows, n_features: int, *, dense: bool = False) -> tuple[Any, int, bool]:
    """Return queries as the core takes them, or `dense` ones, their number, and whether there was one, as a vector.

    Raises
    ------
    TypeError
        If Q does not hold real numbers.
    ValueError
        If Q does not have one or two dimensions or the columns of the index.
    """
    matrix: Any = Q
    if type(matrix) is np.ndarray and matrix.dtype == np.float32 and matrix.shape == (n_features,):
        return np.ascontiguousarray(matrix).reshape(1, -1), 1, True  # a single query waits for each microsecond
    if is_sparse(matrix):
        single = matrix.ndim == 1  # what a row of a csr_array is
        matrix = matrix.reshape(1, -1) if single else matrix
        if matrix.ndim != 2 or matrix.shape[1] != n_features:
            raise ValueError(f"Q has shape {matrix.shape}; it must have {n_features} columns, as the index")
        csr = canonical_csr(sp.csr_array(matrix))
        return csr.toarray() if dense else csr_parts(csr), matrix.shape[0], single
    matrix = _as_float32("Q", matrix)
    single = matrix.ndim == 1
    if single:
        matrix = matrix.reshape(1, -1)
    if matrix.ndim != 2:
        raise ValueError(f"Q has {matrix.ndim} dimensions; it must have 1 (a query) or 2")
    if matrix.shape[1] != n_features:
        raise ValueError(f"Q has {matrix.shape[1]} columns; the index has {n_features}")
    return matrix, matrix.shape[0], single


def _lists(name: str, lists: Any, n: int, n_rows: int) -> Excluded:
    return id_lists(name, lists, (n, n_rows), rows="queries", whose=": queries by rows")


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
    lists: Any = exclude
    if is_sparse(lists) and lists.ndim == 1:
        lists = lists.reshape(1, -1)
    if single and not is_sparse(lists) and np.ndim(lists[0] if len(lists) else 0) == 0:
        lists = [lists]
    return _lists("exclude", lists, n, n_rows)


def labels_of(Y: Labels, n: int, n_rows: int) -> Excluded:
    """Return the labels of each of n points, sorted and distinct: one for each, lists, or a sparse indicator matrix.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If there are not labels for each point, or one is out of range.
    """
    labels: Any = Y
    if not is_sparse(labels) and all(np.ndim(label) == 0 for label in labels):
        ids = checked_ids("Y", labels, n_rows)
        if len(ids) != n:
            raise ValueError(f"Y has {len(ids)} labels; there are {n} queries")
        return np.arange(n + 1, dtype=np.int64), ids
    if is_sparse(labels) and labels.shape == (n, n_rows):
        labels = sp.csr_array(labels, copy=True)
        labels.eliminate_zeros()
    return _lists("Y", labels, n, n_rows)


# Of a model's weights


def class_rows(coef: Floats, intercept: Floats | None, scale: Floats | None = None) -> Floats:
    """Return a dense row of weights, times `scale`, and of the intercept, if any, for each class, less their mean.

    The mean of all rows adds the same to each score of a point: neither ranks nor probabilities change, and shorter
    rows cluster better."""
    # Intercepts may be a column of the weights.
    factors, bias = (NO_FLOATS if array is None else np.ascontiguousarray(array) for array in (scale, intercept))
    return _core.centred_class_rows(coef, factors, bias)


def queries(x: Matrix, n_columns: int) -> Matrix:
    """Return points as queries for rows of `class_rows`: with a feature of ones where these have an intercept."""
    if x.shape[1] == n_columns:
        return x
    ones = np.ones((x.shape[0], 1), dtype=np.float32)
    if isinstance(x, sp.csr_array):
        return sp.csr_array(sp.hstack([x, sp.csr_array(ones)], format="csr"))
    return np.concatenate([x, ones], axis=1)
