"""What stands beside a sum of scores: counts and repeats, mixed in probability where rows held out say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyclass.blending import blend
from manyclass.checks import as_csr
from manyclass.figures import FIGURES
from manyclass.labels import columns_of_classes
from manyclass.training.data import Points, normalized
from manyclass.training.plan import AnyPlan, BatchesPlan, HybridPlan, PairsPlan, ScoredRows
from manyclass.training.squares import Squares
from manyclass.weights.arrays import Ids, Mixture
from manyclass.weights.weights import Weights


def most_held_out(plan: PairsPlan | BatchesPlan | HybridPlan) -> int:
    """Return how many rows tell the scales at most: for several numbers, for one, or for none."""
    if isinstance(plan, HybridPlan) and plan.pairs is not None:
        return FIGURES.MOST_HELD_OUT
    return FIGURES.MOST_HELD_OUT_FOR_ONE if isinstance(plan, HybridPlan) or plan.finds_scale else 0


def beside(terms: list[tuple[Weights, Squares]]) -> tuple[Weights, Squares]:
    """Return one term, or both as a sum."""
    if len(terms) == 1:
        return terms[0]
    (pairs, pair_squares), (rows, row_squares) = terms
    return pairs.beside(rows), pair_squares.beside(row_squares)


def counted(weights: Weights, points: Points, mixture: Mixture) -> Weights:
    """Return weights that have counts, if any, with those of more points, and this mixture."""
    if len(weights.counts):
        x, labels = as_csr(points.x), points.labels
        weights = weights.counted(x, labels.indptr, labels.ids, normalized(points.weights))
    return replace(weights, mixture=mixture)


def mixed(
    plan: AnyPlan, weights: Weights, points: Points, trained_points: Points, telling: Points, *, least: bool = False
) -> Weights:
    """Return weights with counts and repeats mixed in, if points that they were not trained on say so.

    With `least` a small share of counts is the least: a stream's later rows may say more.
    """
    if not isinstance(plan, HybridPlan):
        return weights
    with_counts = weights
    if plan.counts:
        nothing = replace(weights, counts=np.zeros(len(weights.classes), np.float32))
        with_counts = counted(nothing, trained_points, Mixture(shrinkage=FIGURES.SHRINKAGE, counts_own=True))
    class_features = features_of_classes(plan, points)
    best = blend.best_mixture(
        with_counts, class_features, ScoredRows(telling.x, telling.labels, plan.n_threads, telling.weights)
    )
    if best is None:
        best = with_counts if least else weights
    if least and plan.counts:
        best = replace(best, mixture=replace(best.mixture, share=max(FIGURES.LEAST_OF_STREAM, best.mixture.share)))
    return best


def features_of_classes(plan: HybridPlan, points: Points) -> Ids | None:
    """The feature that is each class itself, -1 where there is none: of its name, or of its number; None: of no class.

    Places of hashed features say nothing.
    """
    if not plan.repeats or points.hashing is not None:
        return None
    return columns_of_classes(points.classes, points.column_labels, points.x.shape[1])
