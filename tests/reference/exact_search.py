"""Search that scores all rows, which the indexes are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyclass.search.clustered import Exclude, Rows, checked_rows, exclusions, queries_of


def exact_search(
    W: Rows, Q: Rows, k: int = 10, *, exclude: Exclude = None, block_rows: int = 256
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find the k rows of largest inner product by BLAS and brute force: what the index is compared with.

    Parameters
    ----------
    W : array-like or sparse matrix of shape (K, n_features)
    Q, k, exclude
        As of `SphericalClusterIndex.query`.
    block_rows : int, default=256
        Queries scored at a time: block_rows x K numbers are in memory.

    Returns
    -------
    scores : ndarray of shape (n, k) or (k,), float32
        As BLAS sums them, in single precision; else as of `SphericalClusterIndex.query`.
    ids : ndarray of shape (n, k) or (k,), int64
    """
    rows = checked_rows("W", W)
    _, n, single = queries_of(Q, rows.shape[1])
    dense = queries_of(Q, rows.shape[1], dense=True)[0]
    indptr, ids = exclusions(exclude, n, single, len(rows))
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    best = np.full((n, k), -1, dtype=np.int64)
    for start in range(0, n, block_rows):
        z = dense[start : start + block_rows] @ rows.T
        for i in range(len(z)):
            if len(indptr):
                z[i, ids[indptr[start + i] : indptr[start + i + 1]]] = -np.inf
            candidates = np.flatnonzero((z[i] >= np.partition(z[i], -k)[-k]) & (z[i] > -np.inf))
            order = candidates[np.argsort(-z[i, candidates], kind="stable")][:k]
            scores[start + i, : len(order)] = z[i, order]
            best[start + i, : len(order)] = order
    return (scores[0], best[0]) if single else (scores, best)
