"""What the papers do to their data before training; every function returns new matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from manyclass import _core
from manyclass.checks import check_number
from manyclass.datasets.csr import require_csr
from manyclass.labels import as_labels, find_positions, sorted_classes


def first_label(Y: sparse.csr_array) -> NDArray[np.int64]:
    """Return the first label of each row, in the order in which the row stores them.

    Parameters
    ----------
    Y : SciPy CSR of shape (n_samples, n_labels)
        Labels as non-zero entries; explicit zeros are no labels.

    Returns
    -------
    y : ndarray of shape (n_samples,), int64
        Columns of Y; -1 where the row has no label.

    Raises
    ------
    TypeError
        If Y is not CSR: other formats have no order of their own.
    """
    require_csr("Y", Y)
    if not Y.data.all():
        Y = Y.copy()
        Y.eliminate_zeros()
    y = np.full(Y.shape[0], -1, np.int64)
    labelled = np.diff(Y.indptr) > 0
    y[labelled] = Y.indices[Y.indptr[:-1][labelled]]
    return y


def drop_empty_rows(X: sparse.csr_array, *others: Any) -> tuple[Any, ...]:
    """Drop the rows that have no non-zero feature.

    Parameters
    ----------
    X : SciPy CSR of shape (n_samples, n_features)
    *others : ndarray or SciPy CSR, each with n_samples rows
        Lose the same rows.

    Returns
    -------
    tuple
        What is left of the arguments, in their order.

    Raises
    ------
    TypeError
        If X is not CSR.
    ValueError
        If one of the others has another number of rows.
    """
    require_csr("X", X)
    for i, other in enumerate(others):
        _require_rows(f"others[{i}]", other, X.shape[0])
    non_zeros_before = np.concatenate([[0], np.cumsum(X.data != 0)])
    filled_rows = np.flatnonzero(np.diff(non_zeros_before[X.indptr]))
    return (X[filled_rows], *(other[filled_rows] for other in others))


def truncate_features(X: sparse.csr_array, n_features: int) -> sparse.csr_array:
    """Keep the first features. A matrix that has no more is copied.

    Parameters
    ----------
    X : SciPy CSR of shape (n_samples, n_columns)
    n_features : int
        Largest number of columns of the result, at least 1.

    Returns
    -------
    X : SciPy CSR of shape (n_samples, min(n_columns, n_features))

    Raises
    ------
    TypeError
        If X is not CSR.
    ValueError
        If n_features < 1.
    """
    require_csr("X", X)
    check_number("n_features", n_features, low=1, integer=True)
    return X[:, :n_features].copy()


def l2_normalize(X: sparse.csr_array) -> sparse.csr_array:
    """Divide rows by their Euclidean norm; rows of zeros stay.

    Norms are computed in float64: squares of float32 neither overflow nor underflow there.

    Parameters
    ----------
    X : SciPy CSR of shape (n_samples, n_features), float32 or float64

    Returns
    -------
    X : SciPy CSR of the same shape and dtype

    Raises
    ------
    TypeError
        If X is not CSR.
    ValueError
        If X is not of floats, or holds NaN or infinity.
    """
    _require_finite_floats("X", X)
    return _with_data(X, _core.unit_rows(np.ascontiguousarray(X.data), np.ascontiguousarray(X.indptr)))


def scale_by_max(X_train: sparse.csr_array, *X_others: sparse.csr_array) -> tuple[sparse.csr_array, ...]:
    """Divide every feature by its largest absolute value in the training data.

    Features that are zero throughout the training data are left as they are.

    Parameters
    ----------
    X_train : SciPy CSR of shape (n_samples, n_features), float32 or float64
    *X_others : SciPy CSR, each with n_features columns
        Divided by the same numbers; their values may exceed 1.

    Returns
    -------
    tuple of SciPy CSR
        The arguments, divided, in their order, shapes and dtypes.

    Raises
    ------
    TypeError
        If a matrix is not CSR.
    ValueError
        If a matrix is not of floats, holds NaN or infinity, or has another number of columns.
    """
    _require_finite_floats("X_train", X_train)
    for i, other in enumerate(X_others):
        _require_finite_floats(f"X_others[{i}]", other)
        if other.shape[1] != X_train.shape[1]:
            raise ValueError(f"X_train has {X_train.shape[1]} columns, X_others[{i}] has {other.shape[1]}")
    columns = np.ascontiguousarray(X_train.indices)
    largest = _core.largest_of_columns(np.ascontiguousarray(X_train.data), columns, X_train.shape[1])
    return tuple(_with_data(X, X.data / largest[X.indices]) for X in (X_train, *X_others))


def drop_unseen_classes(
    y_train: ArrayLike, X_test: sparse.csr_array, y_test: ArrayLike
) -> tuple[sparse.csr_array, NDArray[Any]]:
    """Drop the test rows whose class has no training row.

    Parameters
    ----------
    y_train : array-like of shape (n_train,)
        Classes.
    X_test : SciPy CSR of shape (n_test, n_features)
    y_test : array-like of shape (n_test,)
        Classes.

    Returns
    -------
    X_test : SciPy CSR of shape (n_kept, n_features)
    y_test : ndarray of shape (n_kept,)

    Raises
    ------
    TypeError
        If X_test is not CSR.
    ValueError
        If X_test and y_test differ in their numbers of rows.
    """
    require_csr("X_test", X_test)
    labels = as_labels(y_test)
    _require_rows("y_test", labels, X_test.shape[0], "X_test")
    is_known = find_positions(labels, sorted_classes(as_labels(y_train), name="y_train")[0], "y_test") >= 0
    return X_test[np.flatnonzero(is_known)], labels[is_known]


def _with_data(X: sparse.csr_array, data: NDArray[Any]) -> sparse.csr_array:
    """Return a copy of X with other values, in X's dtype and class."""
    parts = (data.astype(X.dtype, copy=False), X.indices.copy(), X.indptr.copy())
    return type(X)(parts, shape=X.shape)


def _require_finite_floats(name: str, X: sparse.csr_array) -> None:
    require_csr(name, X)
    if X.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} has dtype {X.dtype}; it must be float32 or float64")
    if not np.isfinite(X.data).all():
        raise ValueError(f"{name} holds NaN or infinity; its values must be finite")


def _require_rows(name: str, array: Any, n_rows: int, of: str = "X") -> None:
    if array.shape[0] != n_rows:
        raise ValueError(f"{of} has {n_rows} rows, {name} has {array.shape[0]}")
