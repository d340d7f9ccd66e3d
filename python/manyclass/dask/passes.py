r"""What a worker has, and a pass over its own rows, by rows: from a W that all have to the changes that it makes of it.

`ShardPasses` are those of single points, of linear models of one label a row; `BatchPasses` those of minibatches:
margins, several labels a row, Adagrad. They do not know of Dask.

How changes of W that several shards have made from one W add up:

A pass of shard p moves a weight by :math:`\Delta_p`. To add these up is right where a pass moves the weight a short
way, as one pass after another would; where each pass alone moves it all the way to where its rows want it, the sum
goes many times too far, and the right thing is a mean. Between these, take the loss as a parabola in the weight, of
curvature :math:`h_p` on the rows of a shard. A pass of steps :math:`\eta` then takes the weight to :math:`w + (w_p^* -
w)(1 - e^{-a_p})`, with :math:`a_p = \eta h_p`, and the passes of all shards, mixed, to :math:`w + \sum_p (a_p /
A)(w_p^* - w)(1 - e^{-A})` with :math:`A = \sum_p a_p`. Hence

.. math:: \Delta = \frac{1 - e^{-A}}{A} \sum_p \frac{a_p}{1 - e^{-a_p}} \Delta_p .

This is the sum for small steps, the mean for large ones, and the change itself where one shard alone has rows that the
weight depends on. The curvature of the log-loss in w_kj is the sum of :math:`x_{ij}^2 p_{ik} (1 - p_{ik})` over rows,
at most that of :math:`x_{ij}^2 p_{ik}`, which near the optimum is about the sum of :math:`x_{ij}^2` over the rows of
class k, since there the two agree for x_ij in place of its square. It is known before training, and is 0 but for pairs
of a feature and a class that occur together. A ridge adds :math:`\alpha` a row.

Weights do not move one by one: the features of a row push a score together. Along a direction in which m of them do,
the curvature is up to m times that of each weight, and a sum that is right for single weights goes too far along it.
So curvatures are multiplied by the smallest number for which, whatever they are, the merge goes at most FURTHEST times
as far as the optimum: `coupling_of` of the core's weights/shard_merges.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.registry import parts as parts_of
from manyclass.training.minibatches import BatchesTraining, by_features, start_over_phi
from manyclass.training.plan import BatchesPlan, Labels, carry_of
from manyclass.training.points import PointsTraining
from manyclass.training.state import EarlierModel, LocalState, Points, Squares
from manyclass.weights.arrays import BLOCK_NUMBERS, NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import FeatureScaling, Weights

# Twice as far as the optimum of a parabola is as far from it as before.
FURTHEST = 3.0
SMALLEST = 1e-9  # of a, where 1 stands for a / (1 - e^-a)
# Points whose log-normalisers tell how far merges have moved those of all: the standard error of the mean is a tenth of
# a nat or less wherever log-normalisers differ by less than a nat, as they did on all sets that were tried.
STAND_FOR_ALL = 128
# Of a margin, the way of a pass along a weight that it moved, as the a of 1 - e^-a. On bibtex, of 0.3, 1 and 3 the one
# that is good with 4 and 16 shards: less is nearer to a sum, which runs away, more to a mean, which is slow
# (bench/decisions.md). Log-losses have none: a mean of theirs is far too slow.
FLOOR = {"margin": 1.0, "triplet": 1.0}


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

    def size(self) -> tuple[int, int, float]:
        """Return the rows, the values that are not 0, and the sum of their squares."""
        values = self.x.data if isinstance(self.x, sp.csr_array) else self.x.ravel()
        return len(self), int(np.count_nonzero(values)), float(np.einsum("i,i->", values, values, dtype=np.float64))

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


Parts = Sequence[WeightPart]
Change = tuple[Ids, WeightPart]  # of a part the rows that moved, and by how much


class Curvature(NamedTuple):
    """Curvatures of the loss of some rows, a row's part of the loss counting as 1.

    Attributes
    ----------
    pairs : csr_array of the shape of the stored matrix (or of a part of it), or ndarray
        Sum of x_ij^2 over the rows of class k, by feature j and class k; what padded classes have is nothing.
    counts : ndarray of shape (n_classes,), float64
        Rows of each class, for intercepts; empty in parts other than 0.
    n_rows : int
        For the ridge.
    coupling : tuple of two floats
        What the curvatures of weights are multiplied by, and those of intercepts.
    """

    pairs: Any
    counts: Doubles
    n_rows: int
    coupling: tuple[float, float]

    def part(self, whole: Whole, part: int) -> Curvature:
        """Return the curvatures of a part of the stored matrix."""
        counts = self.counts if part == 0 else NO_DOUBLES
        return Curvature(self.pairs[whole.rows_of(part)], counts, self.n_rows, self.coupling)

    @classmethod
    def total(cls, curvatures: Sequence[Curvature]) -> Curvature:
        """Add up the curvatures of shards, in their order."""
        pairs, counts, n_rows, couplings_of_shards = zip(*curvatures, strict=True)
        return cls(reduce(add, pairs), reduce(add, counts), sum(n_rows), couplings_of_shards[0])

    @staticmethod
    def couplings(sizes: Sequence[tuple[int, int, float]], *, fit_intercept: bool) -> tuple[float, float]:
        """Return what curvatures of weights are multiplied by for a merge, and those of intercepts.

        A row's squared length, intercept included, over the square of one of its values is how many weights push
        together.
        """
        rows, stored, square = (sum(column) for column in zip(*sizes, strict=True))
        length = square / rows + fit_intercept
        together = length * stored / max(square, 1e-30), length
        weights, intercepts = (_core.coupling_of(len(sizes), n_together, FURTHEST) for n_together in together)
        return weights, intercepts


def multiply_by_ways(
    matrix: Floats,
    intercept: Floats,
    curvature: Curvature,
    eta: float,
    alpha: float,
    *,
    inverse: bool = False,
    rates: Doubles | None = None,
    moved_least: float = 0.0,
    n_moved: Floats = NO_FLOATS,
) -> None:
    """Multiply a change by a / (1 - e^-a), in place, the curvatures being those of the shard that made it.

    The inverse is for a sum of such changes, the curvatures being those of all rows; `rates` are the step sizes of rows
    where they differ, and moved weights count at least so much: see the core's weights/shard_merges.hpp.
    """
    pairs, indptr, indices = curvature.pairs, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if isinstance(pairs, sp.csr_array):
        indptr, indices, pairs = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), pairs.data
    curvatures, least = np.ascontiguousarray(pairs, dtype=np.float64), max(SMALLEST, eta * alpha * curvature.n_rows)
    options: dict[str, Any] = {"rates": np.full(len(matrix), eta) if rates is None else rates, "inverse": inverse}
    options |= {"coupling": curvature.coupling[0], "least": least, "moved_least": moved_least, "n_moved": n_moved}
    _core.multiply_by_ways(matrix, indptr=indptr, indices=indices, curvatures=curvatures, **options)
    if len(intercept):
        of_classes = Curvature(curvature.counts, NO_DOUBLES, curvature.n_rows, (curvature.coupling[1], 1.0))
        multiply_by_ways(intercept, NO_FLOATS, of_classes, eta, 0.0, inverse=inverse)


# Passes


class CarriedNumbers(NamedTuple):
    """What the points of a shard carry from pass to pass, and the W that it belongs to.

    Attributes
    ----------
    u : ndarray of shape (n_rows,), float64
        u of the double sum, or v in Raman's form; empty where steps have no such numbers.
    label_scores : ndarray of shape (n_rows,), float64
        The mean score of each row's labels by the W that the shard had when it wrote u; empty where u is without it.
    normalizer : float
        The mean log-normaliser of a few rows by that W; NaN: u need not follow.
    """

    u: Doubles
    label_scores: Doubles
    normalizer: float


class Passed(NamedTuple):
    """What a pass has made: for each part the rows that moved and their changes, what points carry, and a report.

    With one shard the one part is W itself.
    """

    changes: Sequence[Change]
    carried: CarriedNumbers
    report: PassReport

    def change(self, part: int) -> Change:
        """Return what the pass has changed in a part of W."""
        return self.changes[part]


@dataclass(frozen=True)
class ShardPasses:
    """Passes of a plan over the rows of shards, point by point, and merges of what they change.

    Attributes
    ----------
    plan : PointsPlan; of `BatchPasses` BatchesPlan
    whole : Whole
    """

    plan: Any
    whole: Whole

    def joined(self, parts: Parts) -> tuple[Weights, Floats]:
        """Return W of its parts, a copy, and what goes with it: factors of its classes. Without parts W = 0."""
        whole = self.whole
        weights = Weights.zeros(whole.n_classes, whole.n_features, by_feature=whole.sparse)
        for number, part in enumerate(parts):
            weights.matrix[whole.rows_of(number)] = part.matrix
        if not parts:
            return weights, NO_FLOATS
        weights.bias[:] = parts[0].intercept
        return weights, parts[0].scale

    def split(self, weights: Weights, beside: Floats) -> list[WeightPart]:
        """Return the parts of W and of what goes with it: views."""
        matrices = [weights.matrix[self.whole.rows_of(part)] for part in range(self.whole.n_shards)]
        return [WeightPart(matrices[0], weights.bias, beside), *map(WeightPart, matrices[1:])]

    def training(self, shard: Shard, earlier: EarlierModel, beside: Floats) -> Any:
        """Return the trainer of a pass."""
        training = PointsTraining(self.plan, shard.points(self.whole.n_classes), earlier=earlier)
        if len(beside):
            training.memory.scale[training.position] = beside
        return training

    def ended(self, training: Any, weights: Weights) -> tuple[Floats, Doubles, range]:
        """Leave W in the order of the labels, and return what the training has made beside it, in that order, too.

        That are factors of the classes, which are multiplied in but where there is one shard, or Adagrad's sums of
        squares; what points carry; and the passes after which iterates are in the average.
        """
        memory, position = training.memory, training.position
        scale = memory.scale[position] if len(memory.scale) else NO_FLOATS
        weights.reorder(position, self.plan.n_threads)
        if self.whole.n_shards > 1 and len(scale):
            weights.multiply_classes(scale)
            scale = NO_FLOATS
        return scale, training.local_state.u, memory.averaged

    @property
    def carries(self) -> tuple[bool, float]:
        """Whether points carry a number that follows W, and how much of the scores of their labels it is less."""
        return "u" in parts_of("solver")[self.plan.solver].flags, 1 - carry_of(self.plan.formulation)

    def label_scores(self, shard: Shard, weights: Weights) -> Doubles:
        """Return the mean score of each row's labels."""
        return weights.label_scores(shard.x, shard.labels)

    def curvature(self, shard: Shard, coupling: tuple[float, float]) -> Curvature:
        """Measure the rows of a shard."""
        y, squares = shard.classes(self.whole.n_classes), shard.x**2
        pairs: Any = sp.csr_array(squares.T @ y) if isinstance(squares, sp.csr_array) else y.T @ squares
        counts = np.bincount(shard.labels, y.data, minlength=self.whole.n_classes).astype(np.float64)
        return Curvature(pairs, counts, len(shard), coupling)

    @property
    def floor(self) -> float:
        """How far a pass counts to have moved a weight at least, if it did."""
        return FLOOR.get(self.plan.loss, 0.0) if isinstance(self.plan, BatchesPlan) else 0.0

    def changes(self, curvature: Curvature, parts: Parts, weights: Weights, beside: Floats, eta: float) -> list[Change]:
        """Return what a pass has changed, weighted for the merge; rows that it left alone are not among it.

        W is made its own change.
        """
        changes = []
        for number, (part, after) in enumerate(zip(parts, self.split(weights, beside), strict=True)):
            change, intercept, more = after.matrix, after.intercept - part.intercept, after.squares - part.squares
            change -= part.matrix
            rates = _rates(eta, after.squares, len(change))
            steps: dict[str, Any] = {"rates": rates, "moved_least": self.floor}
            multiply_by_ways(change, intercept, curvature.part(self.whole, number), eta, self.plan.alpha, **steps)
            rows = np.flatnonzero(change.any(axis=1)).astype(np.int32)
            moved = change if len(rows) == len(change) else change[rows]
            changes.append((rows, WeightPart(moved, intercept, squares=more[rows] if len(more) else more)))
        return changes

    def merge(
        self, part: WeightPart, curvature: Curvature | None, changes: Sequence[Change], stretch: Stretch
    ) -> WeightPart:
        """Return a part of W after the changes of all shards, in their order; with one shard it is the change.

        `curvature` are those of all rows.
        """
        if curvature is None:
            return changes[0][1]
        eta = self.plan.schedule.at(stretch.n_pass)[0] / stretch.n_stretches
        squares, intercept = part.squares.copy(), np.zeros_like(part.intercept)
        for rows, change in changes:
            intercept += change.intercept
            if len(squares):
                squares[rows] += change.squares
        rates = _rates(eta, squares, len(part.matrix))
        total, n_moved = np.zeros_like(part.matrix), np.zeros_like(part.matrix if self.floor else part.matrix[:0])
        for rows, change in changes:
            shard_squares = part.squares[rows] + change.squares if len(squares) else squares
            shares = (rates[rows] / _rates(eta, shard_squares, len(rows))).astype(np.float32)
            _core.add_changes(rows, change.matrix, shares, total, n_moved)
        steps: dict[str, Any] = {"rates": rates, "moved_least": self.floor, "n_moved": n_moved}
        multiply_by_ways(total, intercept, curvature, eta, self.plan.alpha, inverse=True, **steps)
        total += part.matrix
        intercept += part.intercept
        return WeightPart(total, intercept, squares=squares)

    def finished(self, parts: Parts, n_averaged: int = 0) -> Weights:
        """Return the weights of the model: W or, of so many iterates whose sum is `parts`, their mean."""
        weights, scale = self.joined(parts)
        if n_averaged:
            weights.multiply_scores(1 / n_averaged)
        elif len(scale):
            weights.multiply_classes(scale)
        return weights

    def added(self, total: WeightPart | None, part: WeightPart) -> WeightPart:
        """Return the sum of the iterates that are averaged, with one more."""
        before = WeightPart(np.zeros_like(part.matrix), np.zeros_like(part.intercept)) if total is None else total
        matrix = before.matrix.copy()
        _core.accumulate(matrix, part.matrix, part.scale, self.whole.sparse, 1)
        return WeightPart(matrix, before.intercept + part.intercept)

    def first_part(self, number: int) -> WeightPart:
        """Return a part of W = 0."""
        return self.split(*self.joined([]))[number]

    def make_pass(
        self, shard: Shard, curvature: Curvature | None, parts: Parts, carried: CarriedNumbers | None, stretch: Stretch
    ) -> Passed:
        """Train on the rows of a shard from a W that all shards have.

        Nothing that is given is changed, so that a pass that was lost can be made again.

        Parameters
        ----------
        shard : Shard
            The rows.
        curvature : Curvature or None
            Of these rows; None with one shard.
        parts : sequence of WeightPart
            W.
        carried : CarriedNumbers or None
            By the points from the pass before; None: this is the first, or it was lost.
        stretch : Stretch
            Which visits of the rows.
        """
        whole, n = self.whole, len(shard)
        weights, beside = self.joined(parts)
        local_state = None if carried is None else LocalState(self.follow(carried, shard, weights), NO_DOUBLES)
        begins = stretch.n_pass == stretch.number == 0 and not whole.goes_on
        earlier = EarlierModel(weights, whole.counts, shard.first, goes_on=not begins, local_state=local_state)
        training = self.training(shard, earlier, beside)
        first, last = stretch.visits(n, training.batch)
        eta, eta_u = self.plan.schedule.at(stretch.n_pass)
        progress = training.visit(epoch=stretch.n_pass, eta=eta, eta_u=eta_u, first=first, last=last, loss=0.0)
        after, u, averaged = self.ended(training, weights)
        carried_on = self.carried(shard, u, weights)
        if curvature is None:
            [part] = self.split(weights, after)
            changes: Sequence[Change] = [(np.arange(len(part.matrix), dtype=np.int32), part)]
        else:
            changes = self.changes(curvature, parts, weights, after, eta * (last - first) / n)
        other_shards = [number for number in range(whole.n_shards) if number != shard.number]
        bytes_in = sum(parts[number].nbytes for number in other_shards)
        bytes_out = sum(changes[number][0].nbytes + changes[number][1].nbytes for number in other_shards)
        is_averaged = stretch.number == stretch.n_stretches - 1 and stretch.n_pass + 1 in averaged
        work = last - first, progress.class_updates, progress.loss, progress.diverged_at >= 0
        return Passed(changes, carried_on, PassReport(*work, is_averaged, bytes_in, bytes_out))

    def follow(self, carried: CarriedNumbers, shard: Shard, weights: Weights) -> Doubles:
        """Return u as it would be by a W to which other shards have added.

        Without this u lags behind, and a step, which goes by e^(score - u), is too large. The log-normalisers of all
        rows are taken to have changed by their mean, as where `partial_fit` begins.
        """
        if np.isnan(carried.normalizer):
            return carried.u.copy()
        u = carried.u + (self._few_normalizers(shard, weights) - carried.normalizer)
        if len(carried.label_scores):
            share = self.carries[1]
            u -= share * (self.label_scores(shard, weights) - carried.label_scores)
            if share == 1:
                u = np.maximum(u, np.log(np.diff(shard.lists.indptr)))  # a label's own term is in the sum
        return u

    def carried(self, shard: Shard, u: Doubles, weights: Weights) -> CarriedNumbers:
        """Return what points carry, with what is needed to follow the changes of others, where there are some."""
        follows, label_share = self.carries
        if not follows or self.whole.n_shards == 1:
            return CarriedNumbers(u, NO_DOUBLES, np.nan)
        scores = self.label_scores(shard, weights) if label_share else NO_DOUBLES
        return CarriedNumbers(u, scores, self._few_normalizers(shard, weights))

    def _few_normalizers(self, shard: Shard, weights: Weights) -> float:
        """The mean log-normaliser of rows that stand for all."""
        rows = np.linspace(0, len(shard) - 1, min(len(shard), STAND_FOR_ALL)).astype(np.intp)
        return float(weights.log_normalizers(shard.x[rows], self.plan.n_threads).mean())

    def held_out_loss(self, shard: Shard, parts: Parts, n_averaged: int) -> tuple[float, float]:
        """Return the sum of weighted log-losses, in nats, of rows that are held out, and of their weights."""
        rows = shard.held_out
        assert rows is not None
        losses, _ = self.finished(parts, n_averaged).log_losses(rows.x, rows.labels, self.plan.n_threads)
        weights = np.ones(len(losses)) if rows.weights is None else rows.weights
        return float(weights @ losses), float(weights.sum())


# Minibatches


class BatchPasses(ShardPasses):
    r"""ShardPasses of a plan of minibatches, and merges of what they change.

    Between passes W is class-major with the intercepts as a column. How changes add up is as at the
    top of this file, but for two things:

    - With Adagrad each row of W has a step size of its own, :math:`\eta / \sqrt{S}`. Its sums of squares S are added
      up, and a change counts as if it had been made by steps of the sum of all: what one machine's Adagrad would have
      done.
    - A margin moves weights of classes that a row does not have as much as those of its own, until it is kept. Of these
      the curvature that is known before training, of features and classes that occur together, says nothing. So a
      weight that a pass moved counts as if it had gone FLOOR of the way by itself. The change of a weight that n shards
      moved is then at most 1.6 times their mean, that of one that a single shard moved its own.
    """

    plan: BatchesPlan

    def joined(self, parts: Parts) -> tuple[Weights, Floats]:
        """See `ShardPasses`; what goes with W are Adagrad's sums."""
        weights = start_over_phi(self.plan, self.whole.n_classes, self.whole.n_features, sparse=False)
        squares = Squares.of_rows(weights, self.plan.adagrad).classes
        for number, part in enumerate(parts):
            rows = self.whole.rows_of(number)
            weights.matrix[rows] = part.matrix
            squares[rows] = part.squares
        return weights, squares

    def split(self, weights: Weights, beside: Floats) -> list[WeightPart]:
        """See `ShardPasses`."""
        cuts = [self.whole.rows_of(part) for part in range(self.whole.n_shards)]
        return [WeightPart(weights.matrix[rows], squares=beside[rows]) for rows in cuts]

    def training(self, shard: Shard, earlier: EarlierModel, beside: Floats) -> Any:
        """See `ShardPasses`."""
        earlier = replace(earlier, squares=Squares(classes=beside))
        if by_features(self.plan, sparse=isinstance(shard.x, sp.csr_array)):
            earlier = replace(earlier, weights=earlier.weights.over_features())
        return BatchesTraining(self.plan, shard.points(self.whole.n_classes), earlier)

    def ended(self, training: Any, weights: Weights) -> tuple[Floats, Doubles, range]:
        """See `ShardPasses`; minibatches do not average."""
        arrays = training.arrays()
        if training.weights is not weights:
            weights.matrix[:] = training.weights.over_classes().matrix[:, : weights.matrix.shape[1]]
        return arrays["class_squares"], arrays["local"], range(0)

    @property
    def carries(self) -> tuple[bool, float]:
        """See `ShardPasses`; margins carry nothing."""
        chosen = self.plan.double_sum
        if chosen is None:
            return False, 0.0
        return True, 0.0 if chosen.reduction == "decoupled" else 1 - carry_of(chosen.formulation)

    def label_scores(self, shard: Shard, weights: Weights) -> Doubles:
        """See `ShardPasses`."""
        lists = shard.lists
        n_labels = np.diff(lists.indptr)
        values = np.repeat(1 / n_labels, n_labels).astype(np.float32)
        shares = sp.csr_array((values, lists.ids, lists.indptr), shape=(len(shard), weights.n_classes))
        step = max(1, BLOCK_NUMBERS // max(1, weights.matrix.shape[1]))
        blocks = (slice(first, first + step) for first in range(0, len(shard), step))
        scores = [np.einsum("ij,ij->i", weights.phi(shard.x[rows]), shares[rows] @ weights.matrix) for rows in blocks]
        return np.concatenate(scores).astype(np.float64)

    def curvature(self, shard: Shard, coupling: tuple[float, float]) -> Curvature:
        """See `ShardPasses`; it has the form of W, whose column after the features has the intercepts."""
        n, columns = len(shard), [sp.csr_array(shard.x**2)]
        if self.plan.fit_intercept:
            columns.append(sp.csr_array(np.full((n, 1), coupling[1] / coupling[0], dtype=np.float32)))
        pairs = sp.csr_array(shard.classes(self.whole.n_classes).T @ sp.hstack(columns, format="csr"))
        return Curvature(pairs, NO_DOUBLES, n, coupling)

    def finished(self, parts: Parts, n_averaged: int = 0) -> Weights:
        """See `ShardPasses`."""
        return self.joined(parts)[0]


def _rates(eta: float, squares: Floats, n_rows: int) -> Doubles:
    """The step size of each row of W, by Adagrad's sums where there are some."""
    if not len(squares):
        return np.full(n_rows, eta)
    rates: Doubles = eta / np.sqrt(np.maximum(squares.astype(np.float64), np.finfo(np.float32).tiny))
    return rates
