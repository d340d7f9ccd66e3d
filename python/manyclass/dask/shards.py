"""The rows of a worker, and what it knows of those of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyclass.training.plan import Labels
from manyclass.weights.arrays import Doubles, Ids, Matrix


@dataclass(frozen=True)
class Shard:
    """The rows of one worker.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features), float32
        Scaled, where features are.
    labels : ndarray of shape (n_rows,), int32
        Places among the classes of all shards; of several labels a row, those of all rows, one row after another.
    weights : ndarray of shape (n_rows,), float64, or None
        Of the rows, with mean 1 over all shards.
    number, first : int
        The shard's among all, and rows of those before it: draws are named by a row's number among all.
    indptr : ndarray of shape (n_rows + 1,), int64, or None
        Where the labels of each row begin; None: each has one.
    """

    x: Matrix
    labels: Ids
    weights: Doubles | None
    number: int
    first: int
    indptr: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def lists(self) -> Labels:
        """The labels of each row, where they may be several."""
        return Labels.single(self.labels) if self.indptr is None else Labels(self.indptr, self.labels)


@dataclass(frozen=True)
class Whole:
    """What each worker knows of all rows.

    Attributes
    ----------
    counts : ndarray of shape (n_classes,), float64
        Rows of each class.
    n_shards, n_features, n_rows : int
    sparse : bool
        Whether W is feature-major, as sparse X has it where training is point by point.
    goes_on : bool
        Whether W comes from an earlier training, so that what points carry begins near its value there.
    """

    counts: Doubles
    n_shards: int
    n_features: int
    n_rows: int
    sparse: bool
    goes_on: bool = False

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.counts)

    def rows_of(self, part: int) -> slice:
        """The rows of the stored matrix that are its part of this number; there is one part for each shard."""
        n = self.n_features if self.sparse else self.n_classes
        return slice(n * part // self.n_shards, n * (part + 1) // self.n_shards)
