r"""Training by rows, by minibatches: margins, several labels a row, Adagrad. See `manyclass.dask.rows` for the others.

W is class-major with the intercepts as a column. How changes add up is as in `manyclass.dask.merging`, but for two
things:

- With Adagrad each row of W has a step size of its own, :math:`\eta / \sqrt{S}`. Its sums of squares S are added up,
  and a change counts as if it had been made by steps of the sum of all: what one machine's Adagrad would have done.
- A margin moves weights of classes that a row does not have as much as those of its own, until it is kept. Of these the
  curvature that is known before training, of features and classes that occur together, says nothing. So a weight
  that a pass moved counts as if it had gone FLOOR of the way by itself. The change of a weight that n shards moved
  is then at most 1.6 times their mean, that of one that a single shard moved its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.dask.merging import SMALLEST, Curvature
from manyclass.dask.rows import Carried, Leg, Part, Passed, Report
from manyclass.dask.shards import Shard, Whole
from manyclass.training.batches import BatchesTraining, start_over_phi
from manyclass.training.plan import BatchesPlan
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.training.start import PREDICTED_BY
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import Weights

# Of a margin, the way of a pass along a weight that it moved, as the a of 1 - e^-a. On bibtex, of 0.3, 1 and 3 the one
# that is good with 4 and 16 shards: less is nearer to a sum, which runs away, more to a mean, which is slow
# (bench/decisions.md). Log-losses have none: a mean of theirs is far too slow.
FLOOR = {"margin": 1.0, "triplet": 1.0}
CELLS = 1 << 20  # numbers in double precision at once


def part_at_zero(plan: BatchesPlan, whole: Whole, part: int) -> Part:
    """A part of W before the first step."""
    return split(whole, *_at_zero(plan, whole))[part]


def _at_zero(plan: BatchesPlan, whole: Whole) -> tuple[Weights, Squares]:
    weights = start_over_phi(plan, whole.n_classes, whole.n_features)
    return weights, Squares.of_rows(weights, plan.adagrad)


def joined(plan: BatchesPlan, whole: Whole, parts: Sequence[Part]) -> tuple[Weights, Squares]:
    """W of its parts and Adagrad's sums, copies."""
    weights, squares = _at_zero(plan, whole)
    for number, part in enumerate(parts):
        rows = whole.rows_of(number)
        weights.matrix[rows] = part.matrix
        if len(squares.classes):
            squares.classes[rows] = part.squares
    return weights, squares


def split(whole: Whole, weights: Weights, squares: Squares) -> list[Part]:
    """Parts of W with their squares, views."""
    cuts = [whole.rows_of(part) for part in range(whole.n_shards)]
    return [Part(weights.matrix[rows], squares=squares.classes[rows]) for rows in cuts]


# What a shard does


class _Pass(BatchesTraining):
    """A pass over the rows of a shard, from what its points carried before; `local` None: nothing is known of it."""

    def __init__(self, local: Doubles | None, *given: Any, **named: Any) -> None:
        self._before = local
        super().__init__(*given, **named)

    def _begin_local(self, *, predicted: bool) -> Doubles:
        return super()._begin_local(predicted=predicted) if self._before is None else self._before

    @property
    def local(self) -> Doubles:
        """What points carry now; empty where steps have no such numbers."""
        return self._local


def make_pass(
    plan: BatchesPlan,
    whole: Whole,
    shard: Shard,
    bends: Curvature | None,
    parts: Sequence[Part],
    carried: Carried | None,
    leg: Leg,
) -> Passed:
    """Train on the rows of a shard from a W that all shards have: see `manyclass.dask.rows.make_pass`."""
    weights, squares = joined(plan, whole, parts)
    local = None if carried is None else follow(carried, plan, shard, weights)
    predicts = bool(leg.n_pass or leg.number or whole.goes_on)
    seen = Seen(weights, whole.counts, shard.first, predicts_u=predicts)
    training = _Pass(local, plan, shard.x, shard.lists, weights, shard.weights, squares=squares, seen=seen)
    first, last = leg.visits(len(shard), training.batch)
    eta, eta_u = plan.schedule.at(leg.n_pass)
    progress = training.run(epoch=leg.n_pass, eta=eta, eta_u=eta_u, first=first, last=last, loss=0.0)
    if whole.n_shards == 1:
        made = Carried(training.local, np.zeros(0), np.nan)
        changes = [(np.arange(whole.n_classes, dtype=np.int32), split(whole, weights, squares)[0])]
    else:
        made = _carries(plan, shard, training.local, weights)
        assert bends is not None
        changes = _changes(plan, whole, bends, parts, weights, squares, eta * (last - first) / len(shard))
    own = shard.number
    report = Report(
        n_visits=last - first,
        class_updates=progress.class_updates,
        loss=progress.loss,
        diverged=progress.diverged_at >= 0,
        averaged=False,
        bytes_in=sum(part.nbytes for at, part in enumerate(parts) if at != own),
        bytes_out=sum(rows.nbytes + part.nbytes for at, (rows, part) in enumerate(changes) if at != own),
    )
    return Passed(changes, made, report)


def follow(carried: Carried, plan: BatchesPlan, shard: Shard, weights: Weights) -> Doubles:
    """Return what points carry as it would be by a W to which other shards have added: see `Carried.follow`."""
    if np.isnan(carried.normalizer):
        return carried.u.copy()
    u = carried.u + (_few_normalizers(plan, shard, weights) - carried.normalizer)
    if len(carried.label_scores):
        u -= _label_scores(shard, weights) - carried.label_scores
        u = np.maximum(u, np.log(np.diff(shard.lists.indptr)))  # a label's own term is in the sum
    return u


def _carries(plan: BatchesPlan, shard: Shard, local: Doubles, weights: Weights) -> Carried:
    """What points carry, with what is needed to follow the changes of others; margins carry nothing."""
    chosen = plan.double_sum
    if chosen is None:
        return Carried(local, np.zeros(0), np.nan)
    of_labels = chosen.formulation != "raman" and chosen.reduction != "decoupled"
    scores = _label_scores(shard, weights) if of_labels else np.zeros(0)
    return Carried(local, scores, _few_normalizers(plan, shard, weights))


def _few_normalizers(plan: BatchesPlan, shard: Shard, weights: Weights) -> float:
    """The mean log-normaliser of rows that stand for all."""
    rows = np.linspace(0, len(shard) - 1, min(len(shard), PREDICTED_BY)).astype(np.intp)
    return float(weights.log_normalizers(shard.x[rows], plan.n_threads).mean())


def _label_scores(shard: Shard, weights: Weights) -> Doubles:
    """The mean score of each row's labels."""
    lists = shard.lists
    n_labels = np.diff(lists.indptr)
    shares = np.repeat(1 / n_labels, n_labels).astype(np.float32)
    own = sp.csr_array((shares, lists.ids, lists.indptr), shape=(len(shard), weights.n_classes))
    found = [np.einsum("ij,ij->i", phi, own[at] @ weights.matrix) for at, _, phi in weights.blocks(shard.x)]
    return np.concatenate(found).astype(np.float64)


# How changes add up


def curvature_of(plan: BatchesPlan, shard: Shard, whole: Whole, coupling: tuple[float, float]) -> Curvature:
    """Curvatures of a shard's rows, in the form of W: intercepts are its column after the features."""
    lists, n = shard.lists, len(shard)
    r = np.ones(n) if shard.weights is None else shard.weights
    y = sp.csr_array((np.repeat(r, np.diff(lists.indptr)), lists.ids, lists.indptr), shape=(n, whole.n_classes))
    squares = sp.csr_array(shard.x)
    squares = sp.csr_array((np.square(squares.data), squares.indices, squares.indptr), shape=squares.shape)
    columns = [squares]
    if plan.fit_intercept:
        columns.append(sp.csr_array(np.full((n, 1), coupling[1] / coupling[0], dtype=np.float32)))
    pairs = sp.csr_array(y.T @ sp.hstack(columns, format="csr"))
    return Curvature(pairs, np.zeros(0), n, coupling)


def _rates(plan: BatchesPlan, eta: float, squares: Floats, n_rows: int) -> Doubles:
    """The step size of each row of W."""
    if not plan.adagrad:
        return np.full(n_rows, eta)
    rates: Doubles = eta / np.sqrt(np.maximum(squares.astype(np.float64), np.finfo(np.float32).tiny))
    return rates


def _add_ways(a: Doubles, bends: Curvature, rows: slice, rates: Doubles) -> None:
    """Add to a how far the curvatures of some rows of W, and these step sizes, make a pass go."""
    pairs = bends.pairs[rows]
    at = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    a[at, pairs.indices] += bends.coupling[0] * rates[at] * pairs.data


def _some_rows(matrix: Floats) -> Iterator[slice]:
    """Rows of a matrix, some at a time."""
    step = max(1, CELLS // matrix.shape[1])
    return (slice(first, first + step) for first in range(0, len(matrix), step))


def _changes(
    plan: BatchesPlan,
    whole: Whole,
    bends: Curvature,
    parts: Sequence[Part],
    weights: Weights,
    squares: Squares,
    eta: float,
) -> list[tuple[Ids, Part]]:
    """What a pass has changed, weighted for the merge by a / (1 - e^-a); rows that it left alone are not moved."""
    changes, floor = [], FLOOR.get(plan.loss, 0.0)
    for number, (part, after) in enumerate(zip(parts, split(whole, weights, squares), strict=True)):
        change, own = after.matrix - part.matrix, bends.part(whole, number)
        rates = _rates(plan, eta, after.squares, len(change))
        for some in _some_rows(change):
            a = floor * (change[some] != 0) + SMALLEST
            _add_ways(a, own, some, rates[some])
            change[some] *= a / -np.expm1(-a)
        rows = np.flatnonzero(change.any(axis=1)).astype(np.int32)
        more = after.squares - part.squares
        changes.append((rows, Part(change[rows], squares=more[rows] if len(more) else more)))
    return changes


def merge(
    plan: BatchesPlan,
    part: Part,
    bends: Curvature | None,
    changes: Sequence[tuple[Ids, Part]],
    leg: Leg,
) -> Part:
    """A part of W after the changes of all shards, in their order; `bends` are those of all rows."""
    if bends is None:
        return changes[0][1]
    eta, floor = plan.schedule.at(leg.n_pass)[0] / leg.of, FLOOR.get(plan.loss, 0.0)
    squares = part.squares.copy()
    for rows, change in changes:
        if len(squares):
            squares[rows] += change.squares
    rates = _rates(plan, eta, squares, len(part.matrix))
    total, n_moved = np.zeros_like(part.matrix), np.zeros_like(part.matrix if floor else part.matrix[:0])
    for rows, change in changes:
        own = part.squares[rows] + change.squares if len(squares) else squares
        shares = (rates[rows] / _rates(plan, eta, own, len(rows))).astype(np.float32)[:, np.newaxis]
        total[rows] += shares * change.matrix
        if floor:
            n_moved[rows] += shares * (change.matrix != 0)
    for some in _some_rows(total):
        a = floor * n_moved[some].astype(np.float64) if floor else np.zeros(total[some].shape)
        a += SMALLEST
        _add_ways(a, bends, some, rates[some])
        total[some] *= -np.expm1(-a) / a
    total += part.matrix
    return Part(total, squares=squares)


def finished(plan: BatchesPlan, whole: Whole, parts: Sequence[Part], n_averaged: int) -> Weights:
    """The model; minibatches do not average."""
    return joined(plan, whole, parts)[0]
