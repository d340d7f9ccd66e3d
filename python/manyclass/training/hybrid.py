"""Training of weights on pairs and of embeddings beside them, one after the other, and of the scales that join them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.model.postings import HybridWeights
from manyclass.model.weights import Doubles, Ids, Matrix
from manyclass.training.batches import fit_batches, start_mapped
from manyclass.training.blend import LEAST_FACTOR, best_factor, best_scales, rows_held_out
from manyclass.training.plan import HybridPlan, Labels, Watch
from manyclass.training.postings import fit_postings, start_postings
from manyclass.training.repeats import best_repeats
from manyclass.training.seen import Seen
from manyclass.training.squares import HybridSquares, MappedSquares, PostingSquares


def fit_hybrid(
    plan: HybridPlan,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    watch: Watch,
    sample_weight: Doubles | None = None,
    own: Ids | None = None,
) -> tuple[HybridWeights, list[float], HybridSquares]:
    """Train on points that have labels; return the weights with the mean loss of each pass of those on pairs.

    `own` are the features that are the classes themselves (repeats.py), -1 where there is none; None: of no class.
    Where the training of the weights on pairs ends before its last pass, by Ctrl-C, a callback or the clock, that of
    the embeddings is left out, and they add 0.
    """
    held = rows_held_out(len(labels), plan.postings.seed)
    out, rows = np.flatnonzero(held), np.flatnonzero(~held)
    of_kept, r = some_points(labels, rows), None if sample_weight is None else sample_weight[rows]
    kept = x[rows] if len(out) else x
    begin = time.perf_counter()
    told = replace(watch, heading="pairs")
    postings, curve, of_postings = fit_postings(plan.postings, kept, of_kept, n_classes, told, r)
    left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
    passes = plan.embeddings.max_iter if len(curve) == plan.postings.max_iter else 0
    of_embeddings = replace(plan.embeddings, max_iter=passes)
    told = replace(watch, heading="embeddings", max_seconds=left)
    mapped, _, of_mapped = fit_batches(of_embeddings, kept, of_kept, n_classes, told, r)
    weights, squares = HybridWeights(postings, mapped), HybridSquares(of_postings, of_mapped)
    if len(out) and passes:
        held_r = None if sample_weight is None else sample_weight[out]
        joined = join(weights, x[out], some_points(labels, out), plan.postings.n_threads, held_r, own=own)
        squares = squares.of_more_pairs(postings, joined.postings)
        weights = joined
    return weights, curve, squares


def begin_hybrid(
    plan: HybridPlan, x: sp.csr_array, labels: Labels, n_classes: int, sample_weight: Doubles | None
) -> tuple[HybridWeights, HybridSquares]:
    """What a training begins with; `sample_weight` is of mean 1."""
    postings = start_postings(plan.postings, x, labels, n_classes, sample_weight)
    mapped = start_mapped(plan.embeddings, n_classes, x.shape[1])
    squares = PostingSquares.zeros(postings, plan.postings.fit_intercept, plan.postings.offset)
    return HybridWeights(postings, mapped), HybridSquares(squares, MappedSquares.zeros(mapped, plan.embeddings.adagrad))


def go_on_hybrid(
    plan: HybridPlan,
    x: sp.csr_array,
    labels: Labels,
    sample_weight: Doubles | None,
    seen: Seen[HybridWeights],
    squares: HybridSquares,
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
        told, own = replace(watch, heading="pairs"), seen.with_weights(weights.postings)
        _, curve, _ = fit_postings(plan.postings, *data, told, sample_weight, own, squares.postings)
        if len(curve) < plan.max_iter:
            return curve
    if parts[1]:
        left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
        told, of_mapped = replace(watch, heading="embeddings", max_seconds=left), seen.with_weights(weights.mapped)
        _, losses, _ = fit_batches(plan.embeddings, *data, told, sample_weight, of_mapped, squares.mapped)
        curve = curve if parts[0] else losses
    return curve


def join(
    weights: HybridWeights,
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
    *,
    least: float = 0.0,
    own: Ids | None = None,
) -> HybridWeights:
    """Multiply the weights of both parts by the scales that are best on rows that they were not trained on.

    Returned are these weights or, where classes have features of their `own` whose common weight (repeats.py) makes
    them better, others that have those pairs, too. Scales that rank several labels leave a factor of the sum open: the
    temperature that makes its softmax the most probable. No scale is below `least`: 0 loses a part for good.
    """
    held = (x, labels, n_threads, sample_weight)
    scales = best_scales(weights.postings, weights.mapped, *held)
    found = None
    weights.multiply_parts((max(least, scales[0]), max(least, scales[1])))
    if own is not None:
        found = best_repeats(weights, own, *held)
    if found is not None:
        factor, pairs = found
        weights.multiply_scores(factor)
        # Pairs are on the scale of the others, from which training goes on.
        scales = max(LEAST_FACTOR, weights.scales[0]), weights.scales[1]
        weights = replace(weights, postings=weights.postings.plus(pairs), scales=scales)
    if len(labels.ids) > len(labels):
        weights.multiply_scores(best_factor(weights, *held))
    return weights


def some_points(labels: Labels, points: NDArray[np.int64]) -> Labels:
    """The labels of some points."""
    ones = np.ones(len(labels.ids), dtype=np.int8)
    some = sp.csr_array((ones, labels.ids, labels.indptr))[points]
    return Labels(some.indptr.astype(np.int64), some.indices.astype(np.int32))
