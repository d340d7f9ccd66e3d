"""Training by rows: a pass of a shard over its own rows, and the merge of the changes that the shards have made of W.

Nothing here knows of Dask, so that `manyclass.dask.simulation` makes in one process, bit for bit, what a cluster makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyclass import _core
from manyclass.dask.merging import Curvature, settle, weigh
from manyclass.dask.shards import Shard, Whole
from manyclass.registry import parts as parts_of
from manyclass.training.plan import PointsPlan
from manyclass.training.points import PointsTraining
from manyclass.training.seen import Seen
from manyclass.training.start import PREDICTED_BY
from manyclass.training.watch import Watch
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights


def nothing() -> Floats:
    """An empty array."""
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True)
class Part:
    """Some rows of the stored matrix of W, and in part 0 what goes with all of them.

    Attributes
    ----------
    matrix : ndarray of shape (n_rows_of_part, width), float32
    intercept : ndarray of shape (n_classes,), float32; empty in other parts
    scale : ndarray of shape (n_classes,), float32
        What rows of W are to be multiplied by; empty: nothing. Only where there is one shard, whose W stays as its loop
        leaves it.
    squares : ndarray of shape (n_rows_of_part,), float32
        Adagrad's sums; empty where the solver is another.
    """

    matrix: Floats
    intercept: Floats = field(default_factory=nothing)
    scale: Floats = field(default_factory=nothing)
    squares: Floats = field(default_factory=nothing)

    @property
    def nbytes(self) -> int:
        """What it takes to move it."""
        return self.matrix.nbytes + self.intercept.nbytes + self.scale.nbytes + self.squares.nbytes


def part_at_zero(plan: PointsPlan, whole: Whole, part: int) -> Part:
    """A part of W = 0."""
    rows = whole.rows_of(part)
    width = Weights.zeros(whole.n_classes, 1 if whole.sparse else whole.n_features, by_feature=whole.sparse)
    matrix = np.zeros((rows.stop - rows.start, width.matrix.shape[1]), dtype=np.float32)
    return Part(matrix, np.zeros(whole.n_classes, dtype=np.float32)) if part == 0 else Part(matrix)


def joined(whole: Whole, parts: Sequence[Part]) -> tuple[Weights, Floats]:
    """W of its parts, a copy, and the factors of its classes."""
    weights = Weights.zeros(whole.n_classes, whole.n_features, by_feature=whole.sparse)
    for number, part in enumerate(parts):
        weights.matrix[whole.rows_of(number)] = part.matrix
    weights.intercept[:] = parts[0].intercept
    return weights, parts[0].scale


def split(whole: Whole, weights: Weights) -> list[Part]:
    """Parts of W."""
    matrices = [weights.matrix[whole.rows_of(part)] for part in range(whole.n_shards)]
    return [Part(matrices[0], weights.intercept), *map(Part, matrices[1:])]


# What a shard does


class _Pass(PointsTraining):
    """A pass over the rows of a shard, from what its points carried at the end of the one before.

    `u` None: from near its value at a W that has learnt.
    """

    def __init__(self, u: Doubles | None, *given: Any, **named: Any) -> None:
        self.u = u
        super().__init__(*given, **named)

    def _go_on(self, seen: Seen, x: Matrix, labels: Ids) -> dict[str, Doubles]:
        return super()._go_on(seen, x, labels) if self.u is None else {"u": self.u}


@dataclass(frozen=True)
class Report:
    """What a pass tells of itself; sums over the visits of a shard.

    Attributes
    ----------
    n_visits, class_updates : int
        Points visited, and rows of W moved.
    loss : float
        Of the running losses.
    diverged : bool
        Whether a step was too large.
    averaged : bool
        Whether the iterate after this pass is in the average, if there is one.
    bytes_in, bytes_out : int
        Of W that came from other workers, and of changes that go to them.
    """

    n_visits: int
    class_updates: int
    loss: float
    diverged: bool
    averaged: bool
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Carried:
    """What the points of a shard carry from pass to pass, and what it belongs to.

    Attributes
    ----------
    u : ndarray of shape (n_rows,), float64
        u of the double sum, or v in Raman's form.
    label_scores : ndarray of shape (n_rows,), float64
        Scores of the labels, and
    normalizer : float
        the mean log-normaliser of a few rows, by the W that the shard had when it wrote u; NaN: u need not follow.
    """

    u: Doubles
    label_scores: Doubles
    normalizer: float

    def follow(self, plan: PointsPlan, shard: Shard, weights: Weights) -> Doubles:
        """Return u as it would be by a W to which other shards have added.

        Without this u lags behind, and a step, which goes by e^(score - u), is too large. The log-normalisers of all
        rows are taken to have changed by their mean, as where `partial_fit` begins.
        """
        if np.isnan(self.normalizer):
            return self.u.copy()
        u = self.u + (few_normalizers(plan, shard, weights) - self.normalizer)
        if plan.formulation != "raman":
            u = np.maximum(u - (weights.label_scores(shard.x, shard.labels) - self.label_scores), 0.0)
        return u


def few_normalizers(plan: PointsPlan, shard: Shard, weights: Weights) -> float:
    """The mean log-normaliser of rows that stand for all."""
    rows = np.linspace(0, len(shard) - 1, min(len(shard), PREDICTED_BY)).astype(np.intp)
    return float(weights.log_normalizers(shard.x[rows], plan.n_threads).mean())


@dataclass(frozen=True)
class Passed:
    """What a pass has made: for each part the rows that moved and their changes, what points carry, and a report.

    With one shard the one part is W itself.
    """

    changes: list[tuple[Ids, Part]]
    carried: Carried
    report: Report


@dataclass(frozen=True)
class Leg:
    """Which visits a pass makes: those of pass `n_pass`, or of them the part `number` of `of` between two merges."""

    n_pass: int
    number: int = 0
    of: int = 1

    def visits(self, n: int, batch: int) -> tuple[int, int]:
        """First and last of n visits, in whole batches."""
        first, last = (min(n, -(-(n * at // self.of) // batch) * batch) for at in (self.number, self.number + 1))
        return first, last


def make_pass(
    plan: PointsPlan,
    whole: Whole,
    shard: Shard,
    bends: Curvature | None,
    parts: Sequence[Part],
    carried: Carried | None,
    leg: Leg,
) -> Passed:
    """Train on the rows of a shard from a W that all shards have.

    Nothing that is given is changed, so that a pass that was lost can be made again.

    Parameters
    ----------
    plan, whole, shard : what to do, what all shards know, and the rows
    bends : Curvature or None, of these rows; None with one shard
    parts : sequence of Part, W
    carried : Carried or None, by the points from the pass before; None: this is the first, or it was lost
    leg : Leg
    """
    weights, scale = joined(whole, parts)
    u = _at_first(plan, whole, shard, leg) if carried is None else carried.follow(plan, shard, weights)
    seen = Seen(weights, whole.counts, shard.first, predicts_u=True)
    given = (shard.x, shard.labels, whole.n_classes, None, Watch())
    training = _Pass(u, plan, *given, weights=shard.weights, seen=seen)
    if len(scale):
        training.memory.scale[training.position] = scale
    first, last = leg.visits(len(shard), training.batch)
    eta, eta_u = plan.schedule.at(leg.n_pass)
    progress = training.run(epoch=leg.n_pass, eta=eta, eta_u=eta_u, first=first, last=last, loss=0.0)
    scale = training.memory.scale[training.position] if len(training.memory.scale) else nothing()
    weights.reorder(training.position, plan.n_threads)
    if whole.n_shards == 1:
        made = Carried(training.carried.u, np.zeros(0), np.nan)
        changes = [(np.arange(len(weights.matrix), dtype=np.int32), Part(weights.matrix, weights.intercept, scale))]
    else:
        if len(scale):
            weights.multiply_classes(scale)
        made = _carries(plan, shard, training.carried.u, weights)
        changes = _changes(plan, whole, shard, bends, parts, weights, eta * (last - first) / len(shard))
    own = shard.number
    report = Report(
        n_visits=last - first,
        class_updates=progress.class_updates,
        loss=progress.loss,
        diverged=progress.diverged_at >= 0,
        averaged=leg.number == leg.of - 1 and leg.n_pass + 1 in training.memory.averaged,
        bytes_in=sum(part.nbytes for at, part in enumerate(parts) if at != own),
        bytes_out=sum(rows.nbytes + part.nbytes for at, (rows, part) in enumerate(changes) if at != own),
    )
    return Passed(changes, made, report)


def _at_first(plan: PointsPlan, whole: Whole, shard: Shard, leg: Leg) -> Doubles | None:
    """What points carry where nothing is known of it: as in the beginning, or None, near where W has it."""
    if leg.n_pass or leg.number or whole.goes_on:
        return None
    return np.full(len(shard), np.log(whole.n_classes) if plan.u_init == "log_n_classes" else 0.0)


def _carries(plan: PointsPlan, shard: Shard, u: Doubles, weights: Weights) -> Carried:
    """What points carry, with what is needed to follow the changes of others; exact steps carry nothing."""
    if "u" not in parts_of("solver")[plan.solver].flags:
        return Carried(u, np.zeros(0), np.nan)
    scores = np.zeros(0) if plan.formulation == "raman" else weights.label_scores(shard.x, shard.labels)
    return Carried(u, scores, few_normalizers(plan, shard, weights))


def _changes(
    plan: PointsPlan,
    whole: Whole,
    shard: Shard,
    bends: Curvature | None,
    parts: Sequence[Part],
    weights: Weights,
    eta: float,
) -> list[tuple[Ids, Part]]:
    """What a pass has changed, weighted for the merge; rows of the stored matrix that it left alone are not moved."""
    assert bends is not None
    for number, part in enumerate(parts):
        weights.matrix[whole.rows_of(number)] -= part.matrix
    weights.bias[...] -= parts[0].intercept
    weigh(weights.matrix, weights.intercept, bends, eta, plan.alpha)
    changes = []
    for part in split(whole, weights):
        rows = np.flatnonzero(part.matrix.any(axis=1)).astype(np.int32)
        changes.append((rows, part if len(rows) == len(part.matrix) else replace(part, matrix=part.matrix[rows])))
    return changes


# What is made of all


def curvature_of(plan: PointsPlan, shard: Shard, whole: Whole, coupling: tuple[float, float]) -> Curvature:
    """Curvatures of a shard's rows."""
    return Curvature.of(shard, whole, coupling)


def merge(
    plan: PointsPlan,
    part: Part,
    bends: Curvature | None,
    changes: Sequence[tuple[Ids, Part]],
    leg: Leg,
) -> Part:
    """A part of W after the changes of all shards, in their order; `bends` are those of all rows."""
    if bends is None:
        return changes[0][1]
    total = np.zeros_like(part.matrix)
    intercept = np.zeros_like(part.intercept)
    for rows, change in changes:
        total[rows] += change.matrix
        intercept += change.intercept
    settle(total, intercept, bends, plan.schedule.at(leg.n_pass)[0] / leg.of, plan.alpha)
    total += part.matrix
    intercept += part.intercept
    return Part(total, intercept)


def added(total: Part | None, part: Part, sparse: bool) -> Part:
    """The sum of the iterates that are averaged, with one more."""
    if total is None:
        total = Part(np.zeros_like(part.matrix), np.zeros_like(part.intercept))
    matrix = total.matrix.copy()
    _core.accumulate(matrix, part.matrix, part.scale, sparse, 1)
    return Part(matrix, total.intercept + part.intercept)


def finished(plan: PointsPlan, whole: Whole, parts: Sequence[Part], n_averaged: int) -> Weights:
    """The model: W with its factors multiplied in, or the average of which `parts` is the sum."""
    weights, scale = joined(whole, parts)
    if n_averaged:
        share = np.float32(1 / n_averaged)
        weights.matrix[...] *= share
        weights.bias[...] *= share
    elif len(scale):
        weights.multiply_classes(scale)
    return weights


def held_out_loss(plan: Any, whole: Whole, held: Shard, parts: Sequence[Part], n_averaged: int) -> tuple[float, float]:
    """The sum of weighted log-losses, in nats, of rows that are held out, and of their weights."""
    losses, _ = finished(plan, whole, parts, n_averaged).log_losses(held.x, held.labels, plan.n_threads)
    if held.weights is None:
        return float(losses.sum()), float(len(losses))
    return float(held.weights @ losses), float(held.weights.sum())
