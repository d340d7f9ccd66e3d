"""What the functions of this package share about SciPy's CSR matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def csr_from_core(
    data: NDArray[Any], indices: NDArray[np.int32], indptr: NDArray[np.int64], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return a SciPy matrix over the arrays; only indptr is copied.

    SciPy wants one type for both index arrays, and widens the indices if indptr is wider.
    """
    small = len(indices) <= np.iinfo(np.int32).max
    return sparse.csr_array((data, indices, indptr.astype(np.int32) if small else indptr), shape=shape)


def require_csr(name: str, X: object) -> None:
    """Raise TypeError unless X is a SciPy CSR matrix or array."""
    if not isinstance(X, sparse.csr_array | sparse.csr_matrix):
        raise TypeError(f"{name} is a {type(X).__name__}; it must be a SciPy CSR matrix or array")


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a matrix, an array, a table or a list, by a slice or their numbers."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def is_sparse(X: Any) -> bool:
    """Tell whether X is one of SciPy's sparse matrices or arrays; unlike `issparse`, it narrows no type."""
    return bool(sparse.issparse(X))
