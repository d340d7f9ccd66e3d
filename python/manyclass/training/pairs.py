"""Training of weights on the pairs of a feature and a class that occur together: exact losses by single rows.

Counts and repeats stand beside a sum of scores, mixed in probability where rows held out say so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import MARGIN
from manyclass.checks import as_csr, csr_parts
from manyclass.figures import FIGURES
from manyclass.labels import columns_of_classes
from manyclass.training.core_training import CoreTraining, Signs, Trained, Watch, loss_at_zero, trained
from manyclass.training.data import EarlierModel, Points, Squares, normalized, shares_of_classes
from manyclass.training.plan import AnyPlan, BatchesPlan, HybridPlan, PairsPlan, ScoredRows
from manyclass.weights.arrays import Ids, Mixture
from manyclass.weights.tensor_file import Arrays
from manyclass.weights.weights import Weights


def fit_pairs(plan: PairsPlan, points: Points, watch: Watch, earlier: EarlierModel | None = None) -> Trained:
    """Train on points that have labels; return the weights with the mean loss of each pass, and Adagrad's sums.

    1. The pairs of a feature and a class that points have get weights of 0, intercepts the logarithms of shares.
    2. A pass visits each point: the exact loss over all classes that its features have pairs with, and Adagrad's steps
       of the weights of these pairs.
    3. The smallest weights are dropped.

    The weights of the points, of mean 1, multiply their losses. Instead of 1 and 3, training goes on from an `earlier`
    model, whose support has the pairs of these points, and whose squares are moved in place. Of a training that
    diverges see `trained`.
    """
    points = replace(points, x=as_csr(points.x))
    signs = Signs(loss_at_zero(plan.loss, points))
    training, rate = trained(lambda by: _PairsTraining(by, points, earlier), plan, watch, signs)  # 1, 2
    weights, sums = training.weights, training.squares
    if plan.prune > 0 and earlier is None:  # 3
        is_left = weights.without_smallest(plan.prune)
        weights, sums = weights.some_pairs(is_left), replace(sums, values=sums.values[is_left])
    return Trained(weights, training.curve, rate, sums, complete=training.complete)


def begin_on_pairs(plan: PairsPlan, points: Points) -> tuple[Weights, Squares]:
    """Return what a training begins with: weights of 0 on the pairs of these points, intercepts by frequency; squares.

    Scores that are trained by a margin are no log-odds, and begin at 0.
    """
    weights = Weights.on_pairs(*support_of(plan, points), None, np.zeros(points.n_classes, np.float32))
    if plan.fit_intercept and plan.loss != MARGIN:
        shares = shares_of_classes(points.labels, points.n_classes, points.weights)
        weights.bias[:] = (logit(shares) if plan.loss == "logistic" else np.log(shares)).astype(np.float32)
    return weights, Squares.of_pairs(weights, plan.fit_intercept, plan.offset)


def support_of(plan: PairsPlan, points: Points) -> tuple[NDArray[np.int64], Ids]:
    """Return the pairs of a feature and a class that as many of these points have as the plan says."""
    x, labels = as_csr(points.x), points.labels
    rows = (csr_parts(x), x.shape[1], labels.indptr, labels.ids, points.n_classes)
    return _core.support(*rows, plan.min_count, plan.few_classes)


def grow_pairs(
    plan: PairsPlan, weights: Weights, squares: Squares | None, position: NDArray[np.intp], points: Points
) -> tuple[Weights, Squares]:
    """Return a copy of weights and of their squares, with new classes, those of now in `position`, and new pairs."""
    n_classes = points.n_classes
    union = weights.new_pairs(n_classes, position, *support_of(plan, points))
    grown = weights.grown(n_classes, position, union)
    if squares is not None and squares.offset:
        return grown, squares.grown(n_classes, position, union)
    return grown, Squares.of_pairs(grown, plan.fit_intercept, plan.offset)


class _PairsTraining(CoreTraining):
    """The core's trainer."""

    def __init__(self, plan: PairsPlan, points: Points, earlier: EarlierModel | None) -> None:
        began = (earlier.weights, earlier.squares) if earlier is not None else begin_on_pairs(plan, points)
        (weights, squares), labels = began, points.labels
        super().__init__(plan, points, weights, goes_on=earlier is not None)
        by_classes = max(1, min(FIGURES.PAIRS_BATCH_POINTS, weights.n_classes // FIGURES.PAIRS_CLASSES_A_POINT))
        self.batch = min(plan.batch_size or by_classes, len(labels))
        assert squares is not None
        self.squares = squares
        settings = plan.shared_with("pairs_trainer") | {
            "x": csr_parts(as_csr(points.x)),
            "n_features": points.x.shape[1],
            "labels_indptr": labels.indptr,
            "labels": labels.ids,
            "indptr": weights.indptr,
            "classes": weights.classes,
            "values": weights.values,
            "squares": squares.values,
            "intercept": weights.bias,
            "intercept_squares": squares.intercept,
            "offset": squares.offset,
            "intercept_offset": FIGURES.PAIRS_OFFSET,
            "sample_weight": points.weights,
            "first_point": 0 if earlier is None else earlier.n_points,
            "batch": self.batch,
            "ridge": plan.alpha,
            "hogwild": plan.hogwild and plan.n_threads > 1,
        }
        self.core = _core.pairs_trainer(**settings, isa="auto")

    def moved(self) -> Arrays:
        """Return weights and their squares."""
        weights, squares = self.weights, self.squares
        return {
            "values": weights.values,
            "intercept": weights.bias,
            "squares": squares.values,
            "intercept_squares": squares.intercept,
        }


# What stands beside a sum of scores, or beside weights on pairs


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
