"""Training by rows, point by point: linear models of one label a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.dask.merging import Curvature, settle, weigh
from manyclass.dask.passes import Ended, Passes
from manyclass.dask.shards import Part, Shard, nothing
from manyclass.registry import parts as parts_of
from manyclass.training.core_training import Watch
from manyclass.training.plan import PointsPlan
from manyclass.training.points import PointsTraining
from manyclass.training.seen import Carried, Seen
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import Weights


class PointPasses(Passes):
    """Passes and merges of a plan of single points."""

    plan: PointsPlan

    def joined(self, parts: Sequence[Part]) -> tuple[Weights, Floats]:
        """See `Passes`; what goes with W are factors of its classes."""
        whole = self.whole
        weights = Weights.zeros(whole.n_classes, whole.n_features, by_feature=whole.sparse)
        for number, part in enumerate(parts):
            weights.matrix[whole.rows_of(number)] = part.matrix
        if not parts:
            return weights, nothing()
        weights.bias[:] = parts[0].intercept
        return weights, parts[0].scale

    def split(self, weights: Weights, beside: Floats) -> list[Part]:
        """See `Passes`."""
        matrices = [weights.matrix[self.whole.rows_of(part)] for part in range(self.whole.n_shards)]
        return [Part(matrices[0], weights.bias, beside), *map(Part, matrices[1:])]

    def training(self, shard: Shard, seen: Seen, beside: Floats, u: Doubles | None) -> PointsTraining:
        """See `Passes`."""
        if u is not None:
            seen = replace(seen, carried=Carried(u, np.zeros(0)))
        given = (shard.x, shard.labels, self.whole.n_classes, None, Watch())
        training = PointsTraining(self.plan, *given, sample_weight=shard.weights, seen=seen)
        if len(beside):
            training.memory.scale[training.position] = beside
        return training

    def ended(self, training: PointsTraining, weights: Weights) -> Ended:
        """See `Passes`; factors of classes are multiplied in, but where there is one shard."""
        memory, position = training.memory, training.position
        scale = memory.scale[position] if len(memory.scale) else nothing()
        weights.reorder(position, self.plan.n_threads)
        if self.whole.n_shards > 1 and len(scale):
            weights.multiply_classes(scale)
            scale = nothing()
        return Ended(scale, training.carried.u, memory.averaged)

    @property
    def carries(self) -> tuple[bool, bool]:
        """See `Passes`."""
        return "u" in parts_of("solver")[self.plan.solver].flags, self.plan.formulation != "raman"

    def label_scores(self, shard: Shard, weights: Weights) -> Doubles:
        """See `Passes`."""
        return weights.label_scores(shard.x, shard.labels)

    def curvature(self, shard: Shard, coupling: tuple[float, float]) -> Curvature:
        """See `Passes`."""
        y, squares = shard.classes(self.whole.n_classes), shard.squares
        pairs: Any = sp.csr_array(squares.T @ y) if isinstance(squares, sp.csr_array) else y.T @ squares
        counts = np.bincount(shard.labels, y.data, minlength=self.whole.n_classes).astype(np.float64)
        return Curvature(pairs, counts, len(shard), coupling)

    def changes(
        self, curvature: Curvature, parts: Sequence[Part], weights: Weights, beside: Floats, eta: float
    ) -> list[tuple[Ids, Part]]:
        """See `Passes`; W is made its own change."""
        for number, part in enumerate(parts):
            weights.matrix[self.whole.rows_of(number)] -= part.matrix
        weights.bias[...] -= parts[0].intercept
        weigh(weights.matrix, weights.bias, curvature, eta, self.plan.alpha)
        changes = []
        for part in self.split(weights, beside):
            rows = np.flatnonzero(part.matrix.any(axis=1)).astype(np.int32)
            changes.append((rows, part if len(rows) == len(part.matrix) else replace(part, matrix=part.matrix[rows])))
        return changes

    def merged(self, part: Part, curvature: Curvature, changes: Sequence[tuple[Ids, Part]], eta: float) -> Part:
        """See `Passes`."""
        total, intercept = np.zeros_like(part.matrix), np.zeros_like(part.intercept)
        for rows, change in changes:
            total[rows] += change.matrix
            intercept += change.intercept
        settle(total, intercept, curvature, eta, self.plan.alpha)
        total += part.matrix
        intercept += part.intercept
        return Part(total, intercept)

    def finished(self, parts: Sequence[Part], n_averaged: int = 0) -> Weights:
        """See `Passes`."""
        weights, scale = self.joined(parts)
        if n_averaged:
            weights.multiply_scores(1 / n_averaged)
        elif len(scale):
            weights.multiply_classes(scale)
        return weights


def added(total: Part | None, part: Part, sparse: bool) -> Part:
    """Return the sum of the iterates that are averaged, with one more."""
    before = Part(np.zeros_like(part.matrix), np.zeros_like(part.intercept)) if total is None else total
    matrix = before.matrix.copy()
    _core.accumulate(matrix, part.matrix, part.scale, sparse, 1)
    return Part(matrix, before.intercept + part.intercept)
