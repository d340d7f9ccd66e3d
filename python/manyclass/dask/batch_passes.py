r"""Training by rows, by minibatches: margins, several labels a row, Adagrad.

Between passes W is class-major with the intercepts as a column. How changes add up is as in `manyclass.dask.merging`,
but for two things:

- With Adagrad each row of W has a step size of its own, :math:`\eta / \sqrt{S}`. Its sums of squares S are added up,
  and a change counts as if it had been made by steps of the sum of all: what one machine's Adagrad would have done.
- A margin moves weights of classes that a row does not have as much as those of its own, until it is kept. Of these the
  curvature that is known before training, of features and classes that occur together, says nothing. So a weight
  that a pass moved counts as if it had gone FLOOR of the way by itself. The change of a weight that n shards moved
  is then at most 1.6 times their mean, that of one that a single shard moved its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.dask.merging import SMALLEST, Curvature
from manyclass.dask.passes import Ended, Passes
from manyclass.dask.shards import Part, Shard
from manyclass.training.batches import BatchesTraining, by_features, start_over_phi
from manyclass.training.plan import BatchesPlan
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import Weights

# Of a margin, the way of a pass along a weight that it moved, as the a of 1 - e^-a. On bibtex, of 0.3, 1 and 3 the one
# that is good with 4 and 16 shards: less is nearer to a sum, which runs away, more to a mean, which is slow
# (bench/decisions.md). Log-losses have none: a mean of theirs is far too slow.
FLOOR = {"margin": 1.0, "triplet": 1.0}
CELLS = 1 << 20  # numbers in double precision at once


class _Training(BatchesTraining):
    """A trainer whose points carry `u`; None: what they begin with."""

    def __init__(self, u: Doubles | None, *given: Any, **named: Any) -> None:
        self._u = u
        super().__init__(*given, **named)

    def _begin_local(self, *, goes_on: bool) -> Doubles:
        return super()._begin_local(goes_on=goes_on) if self._u is None else self._u


class BatchPasses(Passes):
    """Passes and merges of a plan of minibatches."""

    plan: BatchesPlan

    def joined(self, parts: Sequence[Part]) -> tuple[Weights, Floats]:
        """See `Passes`; what goes with W are Adagrad's sums."""
        weights = start_over_phi(self.plan, self.whole.n_classes, self.whole.n_features, sparse=False)
        squares = Squares.of_rows(weights, self.plan.adagrad).classes
        for number, part in enumerate(parts):
            rows = self.whole.rows_of(number)
            weights.matrix[rows] = part.matrix
            squares[rows] = part.squares
        return weights, squares

    def split(self, weights: Weights, beside: Floats) -> list[Part]:
        """See `Passes`."""
        cuts = [self.whole.rows_of(part) for part in range(self.whole.n_shards)]
        return [Part(weights.matrix[rows], squares=beside[rows]) for rows in cuts]

    def training(self, shard: Shard, seen: Seen, beside: Floats, u: Doubles | None) -> BatchesTraining:
        """See `Passes`."""
        squares = Squares(classes=beside)
        if by_features(self.plan, sparse=isinstance(shard.x, sp.csr_array)):
            seen = replace(seen, weights=seen.weights.over_features())
        given = (shard.x, shard.lists, seen.weights, shard.weights)
        return _Training(u, self.plan, *given, squares=squares, seen=seen)

    def ended(self, training: BatchesTraining, weights: Weights) -> Ended:
        """See `Passes`."""
        arrays = training.arrays()
        if training.weights is not weights:
            weights.matrix[:] = training.weights.over_classes().matrix[:, : weights.matrix.shape[1]]
        return Ended(arrays["class_squares"], arrays["local"])

    @property
    def carries(self) -> tuple[bool, bool]:
        """See `Passes`; margins carry nothing."""
        chosen = self.plan.double_sum
        if chosen is None:
            return False, False
        return True, chosen.formulation != "raman" and chosen.reduction != "decoupled"

    def label_scores(self, shard: Shard, weights: Weights) -> Doubles:
        """See `Passes`."""
        lists = shard.lists
        n_labels = np.diff(lists.indptr)
        shares = np.repeat(1 / n_labels, n_labels).astype(np.float32)
        own = sp.csr_array((shares, lists.ids, lists.indptr), shape=(len(shard), weights.n_classes))
        found = [np.einsum("ij,ij->i", phi, own[at] @ weights.matrix) for at, _, phi in weights.blocks(shard.x)]
        return np.concatenate(found).astype(np.float64)

    def curvature(self, shard: Shard, coupling: tuple[float, float]) -> Curvature:
        """See `Passes`; it has the form of W, whose column after the features has the intercepts."""
        n, columns = len(shard), [sp.csr_array(shard.squares)]
        if self.plan.fit_intercept:
            columns.append(sp.csr_array(np.full((n, 1), coupling[1] / coupling[0], dtype=np.float32)))
        pairs = sp.csr_array(shard.classes(self.whole.n_classes).T @ sp.hstack(columns, format="csr"))
        return Curvature(pairs, np.zeros(0), n, coupling)

    def changes(
        self, curvature: Curvature, parts: Sequence[Part], weights: Weights, beside: Floats, eta: float
    ) -> list[tuple[Ids, Part]]:
        """See `Passes`."""
        changes, floor = [], FLOOR.get(self.plan.loss, 0.0)
        for number, (part, after) in enumerate(zip(parts, self.split(weights, beside), strict=True)):
            change, own = after.matrix - part.matrix, curvature.part(self.whole, number)
            rates = _rates(self.plan, eta, after.squares, len(change))
            for some in _some_rows(change):
                a = floor * (change[some] != 0) + SMALLEST
                _add_ways(a, own, some, rates[some])
                change[some] *= a / -np.expm1(-a)
            rows = np.flatnonzero(change.any(axis=1)).astype(np.int32)
            more = after.squares - part.squares
            changes.append((rows, Part(change[rows], squares=more[rows] if len(more) else more)))
        return changes

    def merged(self, part: Part, curvature: Curvature, changes: Sequence[tuple[Ids, Part]], eta: float) -> Part:
        """See `Passes`."""
        plan, floor = self.plan, FLOOR.get(self.plan.loss, 0.0)
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
            _add_ways(a, curvature, some, rates[some])
            total[some] *= -np.expm1(-a) / a
        total += part.matrix
        return Part(total, squares=squares)

    def finished(self, parts: Sequence[Part], n_averaged: int = 0) -> Weights:
        """See `Passes`; minibatches do not average."""
        return self.joined(parts)[0]


# How changes add up


def _rates(plan: BatchesPlan, eta: float, squares: Floats, n_rows: int) -> Doubles:
    """The step size of each row of W."""
    if not plan.adagrad:
        return np.full(n_rows, eta)
    rates: Doubles = eta / np.sqrt(np.maximum(squares.astype(np.float64), np.finfo(np.float32).tiny))
    return rates


def _add_ways(a: Doubles, curvature: Curvature, rows: slice, rates: Doubles) -> None:
    """Add to a how far the curvatures of some rows of W, and these step sizes, make a pass go."""
    pairs = curvature.pairs[rows]
    at = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    a[at, pairs.indices] += curvature.coupling[0] * rates[at] * pairs.data


def _some_rows(matrix: Floats) -> Iterator[slice]:
    """Rows of a matrix, some at a time."""
    step = max(1, CELLS // matrix.shape[1])
    return (slice(first, first + step) for first in range(0, len(matrix), step))
