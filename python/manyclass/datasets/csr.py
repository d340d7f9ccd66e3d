"""What the functions of this package share about SciPy's CSR matrices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from manyclass.weights.arrays import csr_from_core


def indicator(labels: Sequence[Collection[int]], n_labels: int) -> sparse.csr_array:
    """Return rows of ones at each row's labels."""
    return ones_at([label for row in labels for label in row], [*map(len, labels)], n_labels)


def ones_at(columns: ArrayLike, counts: ArrayLike, n_columns: int) -> sparse.csr_array:
    """Return rows of ones, as many in each as `counts` says, at columns that stand one after the other."""
    indices, indptr = np.asarray(columns, np.int32), np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return csr_from_core(np.ones(len(indices), np.float32), indices, indptr, (len(indptr) - 1, n_columns))


def known_ones(columns: Any, counts: Any, n_columns: int) -> sparse.csr_array:
    """Return what `ones_at` does, each column once in a row, without those of -1."""
    rows, is_known = np.repeat(np.arange(np.size(counts)), counts), columns >= 0
    ones = (np.ones(np.count_nonzero(is_known)), (rows[is_known], columns[is_known]))
    matrix = sparse.csr_array(ones, shape=(np.size(counts), n_columns))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


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


def joined_rows(parts: list[Any], width: int | None = None) -> Any:
    """Return one matrix, table, array or list of the rows of several.

    Parameters
    ----------
    parts : list of csr_arrays, of DataFrames, of arrays or of lists
    width : int, optional
        Columns of a matrix, of which no part has a larger index.
    """
    if not parts:
        return sparse.csr_array(np.empty((0, width or 0), np.float32))
    whole = parts[0] if len(parts) == 1 else _concatenated(parts)
    if width is None:
        return whole
    return sparse.csr_array((whole.data, whole.indices, whole.indptr), shape=(whole.shape[0], width))


def _concatenated(parts: list[Any]) -> Any:
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    if hasattr(parts[0], "iloc"):
        import pandas

        return pandas.concat(parts, ignore_index=True)
    if is_sparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)
