"""Heads by search: between passes, the wrong classes of largest score of each point are found in the present weights.

The certain head of the head + tail estimator may be anything that depends on the past only (select/head_tail.hpp), so
what a search at the end of a pass finds keeps the next pass's gradients unbiased; a class that it misses is left to the
tail, at the price of variance.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manyclass.search.class_index import TUNE_ROWS, class_rows, queries
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.arrays import Floats, Ids, Matrix
from manyclass.weights.weights import Weights

# A recall of 0.95 takes four times as many probes (bench/decisions.md), and a class that is missed adds no bias.
HEAD_RECALL = 0.8


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

    def __init__(self, x: Matrix, labels: Ids, heads: Ids, has_intercept: bool, seed: int, n_threads: int) -> None:
        self._x = x
        self._labels = labels
        self._heads = heads
        self._has_intercept = has_intercept
        self._n_threads = n_threads
        self._seed = seed % 2**32
        self._index: SphericalClusterIndex | None = None

    def refresh(self, weights: Weights, scale: Floats) -> None:
        """Search in the present weights, whose rows are to be multiplied by `scale` where it has an element for each.

        Sparse points score all classes: an index reads rows of n_features floats for each class that it scans, a point
        the few of its own features for all of them.
        """
        if isinstance(self._x, sp.csr_array):
            weights.top_wrong(self._x, self._labels, self._heads, self._n_threads, scale)
            return
        rows = class_rows(weights, self._has_intercept, scale)
        if self._index is None:
            self._index = SphericalClusterIndex(n_jobs=self._n_threads, random_state=self._seed).fit(rows)
        else:
            self._index.update(np.arange(len(rows)), rows)
        index = self._index
        if index.n_clusters_ > 1:
            some = np.random.default_rng(self._seed).permutation(len(self._labels))[:TUNE_ROWS]
            own = sp.csr_array(
                (np.ones(len(some)), self._labels[some], np.arange(len(some) + 1)), shape=(len(some), len(rows))
            )
            Q = queries(self._x[some], index.n_features_in_)
            index.tune(Q, k=self._heads.shape[1], recall=HEAD_RECALL, exclude=own)
        index.fill_heads(self._x, self._labels, self._heads)
