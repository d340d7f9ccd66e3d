"""Training of weights on pairs and of embeddings beside them, one after the other, and of the scales that join them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, SparseWeights
from manyclass.model.weights import Doubles, Matrix
from manyclass.training.batches import fit_batches
from manyclass.training.blend import best_factor, best_scales, rows_held_out
from manyclass.training.plan import HybridPlan, Labels, Watch
from manyclass.training.postings import fit_postings


def fit_hybrid(
    plan: HybridPlan, x: Matrix, labels: Labels, n_classes: int, watch: Watch, sample_weight: Doubles | None = None
) -> tuple[HybridWeights, list[float]]:
    """Train on points that have labels and return the weights with the mean loss of each pass of those on pairs.

    Where the training of the weights on pairs ends before its last pass, by Ctrl-C, a callback or the clock, that of
    the embeddings is left out, and they add 0.
    """
    held = rows_held_out(len(labels), plan.postings.seed)
    out, rows = np.flatnonzero(held), np.flatnonzero(~held)
    own, r = some_points(labels, rows), None if sample_weight is None else sample_weight[rows]
    kept = x[rows] if len(out) else x
    begin = time.perf_counter()
    postings, curve = fit_postings(plan.postings, kept, own, n_classes, replace(watch, heading="pairs"), r)
    left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
    passes = plan.embeddings.max_iter if len(curve) == plan.postings.max_iter else 0
    of_embeddings = replace(plan.embeddings, max_iter=passes)
    told = replace(watch, heading="embeddings", max_seconds=left)
    mapped, _ = fit_batches(of_embeddings, kept, own, n_classes, told, r)
    if len(out) and passes:
        held_r = None if sample_weight is None else sample_weight[out]
        join(postings, mapped, x[out], some_points(labels, out), plan.postings.n_threads, held_r)
    return HybridWeights(postings, mapped), curve


def join(
    postings: SparseWeights,
    mapped: MappedWeights,
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
) -> None:
    """Multiply the weights of both by the scales that are best on rows that they were not trained on.

    Scales that rank several labels leave a factor of the sum open: the temperature that makes its softmax the most
    probable.
    """
    held = (x, labels, n_threads, sample_weight)
    scales = best_scales(postings, mapped, *held)
    for array, scale in ((postings.values, scales[0]), (postings.intercept, scales[0]), (mapped.rows, scales[1])):
        array *= np.float32(scale)
    if len(labels.ids) > len(labels):
        both = HybridWeights(postings, mapped)
        both.multiply_scores(best_factor(both, *held))


def some_points(labels: Labels, points: NDArray[np.int64]) -> Labels:
    """The labels of some points."""
    ones = np.ones(len(labels.ids), dtype=np.int8)
    some = sp.csr_array((ones, labels.ids, labels.indptr))[points]
    return Labels(some.indptr.astype(np.int64), some.indices.astype(np.int32))
