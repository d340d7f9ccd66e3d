"""Training of scores by margins, and of the one scale that makes probabilities of them."""

from __future__ import annotations

import numpy as np

from manyclass.training.batches import fit_batches
from manyclass.training.blend import MOST_HELD_OUT_FOR_ONE, best_factor, rows_held_out
from manyclass.training.plan import BatchesPlan, Labels
from manyclass.training.squares import Squares
from manyclass.training.watch import Watch
from manyclass.weights.arrays import Doubles, Matrix
from manyclass.weights.weights import Weights


def fit_margins(
    plan: BatchesPlan, x: Matrix, labels: Labels, n_classes: int, watch: Watch, sample_weight: Doubles | None = None
) -> tuple[Weights, list[float], Squares]:
    """Train on points that have labels, but for a few, whose log-loss then tells the scale of all scores."""
    held = rows_held_out(len(labels), plan.seed, MOST_HELD_OUT_FOR_ONE)
    out, rows = np.flatnonzero(held), np.flatnonzero(~held)
    r = None if sample_weight is None else sample_weight[rows]
    kept = x[rows] if len(out) else x
    weights, curve, squares = fit_batches(plan, kept, labels.of(rows), n_classes, watch, r)
    if len(out) and curve:
        held_r = None if sample_weight is None else sample_weight[out]
        weights.multiply_scores(best_factor(weights, x[out], labels.of(out), plan.n_threads, held_r))
    return weights, curve, squares
