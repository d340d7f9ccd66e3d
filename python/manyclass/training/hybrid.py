"""Training of weights on pairs and of embeddings beside them, one after the other, and of the scales that join them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from manyclass.training.batches import fit_batches, start_over_phi
from manyclass.training.blend import LEAST_FACTOR, best_factor, best_scales, rows_held_out
from manyclass.training.pairs import fit_pairs, start_pairs
from manyclass.training.plan import HybridPlan, Labels
from manyclass.training.repeats import best_repeats
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.training.watch import Watch
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights


def fit_hybrid(
    plan: HybridPlan,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    watch: Watch,
    sample_weight: Doubles | None = None,
    own: Ids | None = None,
) -> tuple[Weights, list[float], Squares]:
    """Train on points that have labels; return the weights with the mean loss of each pass of those on pairs.

    `own` are the features that are the classes themselves (repeats.py), -1 where there is none; None: of no class.
    Where the training of the weights on pairs ends before its last pass, by Ctrl-C, a callback or the clock, that of
    the embeddings is left out, and they add 0.
    """
    held = rows_held_out(len(labels), plan.postings.seed)
    out, rows = np.flatnonzero(held), np.flatnonzero(~held)
    of_kept, r = labels.of(rows), None if sample_weight is None else sample_weight[rows]
    kept = x[rows] if len(out) else x
    begin = time.perf_counter()
    told = replace(watch, heading="pairs")
    pairs, curve, of_pairs = fit_pairs(plan.postings, kept, of_kept, n_classes, told, r)
    left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
    passes = plan.embeddings.max_iter if len(curve) == plan.postings.max_iter else 0
    of_embeddings = replace(plan.embeddings, max_iter=passes)
    told = replace(watch, heading="embeddings", max_seconds=left)
    mapped, _, of_mapped = fit_batches(of_embeddings, kept, of_kept, n_classes, told, r)
    weights, squares = pairs.beside(mapped), of_pairs.beside(of_mapped)
    if len(out) and passes:
        held_r = None if sample_weight is None else sample_weight[out]
        joined = join(weights, x[out], labels.of(out), plan.postings.n_threads, held_r, own=own)
        squares = squares.of_more_pairs(pairs, joined)
        weights = joined
    return weights, curve, squares


def begin_hybrid(
    plan: HybridPlan, x: sp.csr_array, labels: Labels, n_classes: int, sample_weight: Doubles | None
) -> tuple[Weights, Squares]:
    """What a training begins with; `sample_weight` is of mean 1."""
    pairs = start_pairs(plan.postings, x, labels, n_classes, sample_weight)
    rows = start_over_phi(plan.embeddings, n_classes, x.shape[1])
    squares = Squares.of_pairs(pairs, plan.postings.fit_intercept, plan.postings.offset)
    return pairs.beside(rows), squares.beside(Squares.of_rows(rows, plan.embeddings.adagrad))


def go_on_hybrid(
    plan: HybridPlan,
    x: sp.csr_array,
    labels: Labels,
    sample_weight: Doubles | None,
    seen: Seen,
    squares: Squares,
    parts: tuple[bool, bool] = (True, True),
    watch: Watch = Watch(),  # noqa: B008 - frozen
) -> list[float]:
    """Train `parts` on, and return the mean loss of each pass of the first one.

    Each is trained alone, as it was before: its scores must be on their own scale, for a loss of one part would undo
    the scale that it has in the sum. Weights and squares are moved in place. Where training ends early, by Ctrl-C, that
    of embeddings is left out.
    """
    weights = seen.weights
    curve: list[float] = []
    data, begin = (x, labels, weights.n_classes), time.perf_counter()
    if parts[0]:
        told, own = replace(watch, heading="pairs"), seen.with_weights(weights.pairs_alone)
        _, curve, _ = fit_pairs(plan.postings, *data, told, sample_weight, own, squares)
        if len(curve) < plan.max_iter:
            return curve
    if parts[1]:
        left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
        told, of_mapped = replace(watch, heading="embeddings", max_seconds=left), seen.with_weights(weights.rows_alone)
        _, losses, _ = fit_batches(plan.embeddings, *data, told, sample_weight, of_mapped, squares)
        curve = curve if parts[0] else losses
    return curve


def join(
    weights: Weights,
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
    *,
    least: float = 0.0,
    own: Ids | None = None,
) -> Weights:
    """Multiply the weights of both parts by the scales that are best on rows that they were not trained on.

    Returned are these weights or, where classes have features of their `own` whose common weight (repeats.py) makes
    them better, others that have those pairs, too. Scales that rank several labels leave a factor of the sum open: the
    temperature that makes its softmax the most probable. No scale is below `least`: 0 loses a part for good.
    """
    held = (x, labels, n_threads, sample_weight)
    scales = best_scales(weights.pairs_alone, weights.rows_alone, *held)
    found = None
    weights.multiply_parts((max(least, scales[0]), max(least, scales[1])))
    if own is not None:
        found = best_repeats(weights, own, *held)
    if found is not None:
        factor, pairs = found
        weights.multiply_scores(factor)
        # Pairs are on the scale of the others, from which training goes on.
        weights = weights.plus_pairs(pairs)
        weights.scales[0] = max(LEAST_FACTOR, weights.scales[0])
    if len(labels.ids) > len(labels):
        weights.multiply_scores(best_factor(weights, *held))
    return weights
