"""What a worker has: its rows, facts on the rows of all workers, parts of W, and reports of its passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.training.plan import Labels
from manyclass.training.state import Points
from manyclass.weights.arrays import NO_FLOATS, Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import FeatureScaling


@dataclass(frozen=True)
class Shard:
    """The rows of one worker.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features), float32
        Scaled, where features are.
    labels : ndarray of shape (n_rows,), int32
        Places among the classes of all shards; with several labels a row, the labels of one row after another's.
    weights : ndarray of shape (n_rows,), float64, or None
        Of the rows, with mean 1 over all shards.
    number : int
    first : int
        Rows of the shards before it: draws are named by a row's number among all.
    indptr : ndarray of shape (n_rows + 1,), int64, or None
        Where the labels of each row begin; None: each row has one.
    held_out : Shard or None
        Rows of the worker that validate.
    """

    x: Matrix
    labels: Ids
    weights: Doubles | None
    number: int
    first: int
    indptr: NDArray[np.int64] | None = None
    held_out: Shard | None = None

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def classes(self, n_classes: int) -> sp.csr_array:
        """Return the labels as a matrix, (n_rows, n_classes), that has the weight of the row for each of them."""
        lists, r = self.lists, np.ones(len(self)) if self.weights is None else self.weights
        values = np.repeat(r, np.diff(lists.indptr))
        return sp.csr_array((values, lists.ids, lists.indptr), shape=(len(self), n_classes))

    def points(self, n_classes: int) -> Points:
        """Return the rows as points of a training."""
        return Points.numbered(self.x, self.lists, n_classes, self.weights)

    @property
    def lists(self) -> Labels:
        """The labels of each row, as lists."""
        return Labels.single(self.labels) if self.indptr is None else Labels(self.indptr, self.labels)


@dataclass(frozen=True)
class Whole:
    """What each worker knows of the rows of all workers.

    Attributes
    ----------
    counts : ndarray of shape (n_classes,), float64
        Rows of each class, by which classes are drawn.
    n_shards : int
    n_features : int
    n_rows : int
        Rows to train on.
    sparse : bool
        Whether W is feature-major, as sparse X has it where training is point by point.
    goes_on : bool
        Whether points may have been visited before these: what points carry then begins as `EarlierModel` says.
    classes : ndarray of labels
    n_seen : ndarray of shape (n_classes,), float64
        Rows of each class, those of calls before and those that are held out included.
    factors : ndarray of shape (n_classes,), float64, or None
        What the weights of rows are multiplied by, by their class, and
    mean : float
        what they are divided by.
    scaling : FeatureScaling or None
        What features are scaled by.
    """

    counts: Doubles
    n_shards: int
    n_features: int
    n_rows: int
    sparse: bool
    goes_on: bool = False
    classes: Any = None
    n_seen: Any = None
    factors: Doubles | None = None
    mean: float = 1.0
    scaling: FeatureScaling | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.counts)

    def rows_of(self, part: int) -> slice:
        """Return the rows of the stored matrix that are part number `part`; there is one part for each shard."""
        n = self.n_features if self.sparse else self.n_classes
        return slice(n * part // self.n_shards, n * (part + 1) // self.n_shards)


class WeightPart(NamedTuple):
    """Some rows of the stored matrix of W, and in part 0 what goes with all of them.

    Attributes
    ----------
    matrix : ndarray of shape (n_rows_of_part, width), float32
    intercept : ndarray of shape (n_classes,), float32
        Empty in parts other than 0, and where the matrix has the intercepts as a column.
    scale : ndarray of shape (n_classes,), float32
        What rows of W are to be multiplied by; empty: nothing. Only where there is one shard, whose W stays as its loop
        leaves it.
    squares : ndarray of shape (n_rows_of_part,), float32
        Adagrad's sums; empty where the solver is another.
    """

    matrix: Floats
    intercept: Floats = NO_FLOATS
    scale: Floats = NO_FLOATS
    squares: Floats = NO_FLOATS

    @property
    def nbytes(self) -> int:
        """How many bytes it takes to move it."""
        return sum(array.nbytes for array in self)


@dataclass(frozen=True)
class Stretch:
    """Visits between two merges: stretch `number` of the `n_stretches` of pass `n_pass`."""

    n_pass: int
    number: int = 0
    n_stretches: int = 1

    def visits(self, n: int, batch: int) -> tuple[int, int]:
        """Return the first and the last of n visits, in whole batches."""
        first, last = (min(n, -(-(n * i // self.n_stretches) // batch) * batch) for i in (self.number, self.number + 1))
        return first, last


class PassReport(NamedTuple):
    """What a pass reports: sums over the visits of a shard.

    Attributes
    ----------
    n_visits : int
        Points visited.
    class_updates : int
        Rows of W moved.
    loss : float
        Sum of the running losses.
    diverged : bool
        Whether a step was too large.
    averaged : bool
        Whether the iterate after this pass is in the average, if there is one.
    bytes_in : int
        Bytes of W that came from other workers.
    bytes_out : int
        Bytes of changes that go to them.
    """

    n_visits: int
    class_updates: int
    loss: float
    diverged: bool
    averaged: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
