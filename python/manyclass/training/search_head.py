"""Heads by search: between passes, the wrong classes of largest score of each point are found in the present weights.

The certain head of the head + tail estimator may be anything that depends on the past only (select/head_tail.hpp), so
what a search at the end of a pass finds keeps the next pass's gradients unbiased; a class that it misses is left to the
tail, at the price of variance.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.model.weights import LinearWeights, Matrix
from manyclass.search.class_index import BLOCK_ROWS, TUNE_ROWS, class_rows, queries
from manyclass.search.spherical import SphericalClusterIndex

HEAD_RECALL = 0.8  # 0.95 takes four times as many probes (bench/README.md), and a class that is missed loses no bias


class HeadSearch:
    """Fills `heads` with the positions of the best wrong classes of each point.

    Parameters
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,), int32
        As positions, like all classes here.
    heads : ndarray of shape (n_samples, n_head), int32
        Written to by `refresh`; n_head is below the number of classes.
    has_intercept : bool
    seed : int
    n_threads : int
    """

    def __init__(
        self,
        x: Matrix,
        labels: NDArray[np.int32],
        heads: NDArray[np.int32],
        has_intercept: bool,
        seed: int,
        n_threads: int,
    ) -> None:
        self._x = x
        self._labels = labels
        self._heads = heads
        self._has_intercept = has_intercept
        self._n_threads = n_threads
        self._seed = seed % 2**32
        self._index: SphericalClusterIndex | None = None

    def refresh(self, weights: LinearWeights, scale: NDArray[np.float32]) -> None:
        """Search in the present weights, whose rows are to be multiplied by `scale` where it has an element for each.

        Sparse points score all classes: an index reads rows of n_features floats for each class that it scans, a point
        the few of its own features for all of them.
        """
        if isinstance(self._x, sp.csr_array):
            self._score_all(weights, scale)
            return
        rows = class_rows(weights, self._has_intercept, scale)
        if self._index is None:
            self._index = SphericalClusterIndex(n_jobs=self._n_threads, random_state=self._seed).fit(rows)
        else:
            self._index.update(np.arange(len(rows)), rows)
        if self._index.n_clusters_ > 1:
            some = np.random.default_rng(self._seed).permutation(len(self._labels))[:TUNE_ROWS]
            Q, exclude = self._queries(some, len(rows))
            self._index.tune(Q, k=self._heads.shape[1], recall=HEAD_RECALL, exclude=exclude)
        for first in range(0, len(self._labels), BLOCK_ROWS):
            block = np.arange(first, min(first + BLOCK_ROWS, len(self._labels)))
            Q, exclude = self._queries(block, len(rows))
            self._heads[block] = self._index.query(Q, self._heads.shape[1], exclude=exclude)[1]

    def _queries(self, points: NDArray[np.int64], n_classes: int) -> tuple[Matrix, sp.csr_array]:
        """Return points as queries, and their labels as what they do not want."""
        n = len(points)
        own = (np.ones(n), self._labels[points], np.arange(n + 1))
        width = self._x.shape[1] + self._has_intercept
        return queries(self._x[points], width), sp.csr_array(own, shape=(n, n_classes))

    def _score_all(self, weights: LinearWeights, scale: NDArray[np.float32]) -> None:
        n_head = self._heads.shape[1]
        best, _ = weights.top_k(self._x, n_head + 1, self._n_threads, scale=scale)
        own = best == self._labels[:, np.newaxis]
        own[~own.any(axis=1), n_head] = True  # the last one, where the label is not among them
        self._heads[:] = best[~own].reshape(-1, n_head)
