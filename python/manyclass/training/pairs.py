"""Training of weights on the pairs of a feature and a class that occur together: exact losses by single rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from manyclass import _core
from manyclass.blending.blend import MARGIN
from manyclass.checks import as_csr, csr_parts
from manyclass.figures import FIGURES
from manyclass.training.core_training import LabelTraining, Signs, Trained, Watch, loss_at_zero, trained
from manyclass.training.plan import Labels, PairsPlan
from manyclass.training.squares import EarlierModel, Squares
from manyclass.training.weighting import shares_of_classes
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.tensor_file import Arrays
from manyclass.weights.weights import Weights


def fit_pairs(
    plan: PairsPlan,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    watch: Watch,
    sample_weight: Doubles | None = None,
    earlier: EarlierModel | None = None,
    squares: Squares | None = None,
) -> Trained:
    """Train on points that have labels; return the weights with the mean loss of each pass, and Adagrad's sums.

    1. The pairs of a feature and a class that points have get weights of 0, intercepts the logarithms of shares.
    2. A pass visits each point: the exact loss over all classes that its features have pairs with, and Adagrad's steps
       of the weights of these pairs.
    3. The smallest weights are dropped.

    `sample_weight`, of mean 1, multiplies the losses. Instead of 1 and 3, training goes on from an `earlier` model,
    whose support has the pairs of these points, and from `squares`, which are moved in place. Of a training that
    diverges see `trained`.
    """
    csr = as_csr(x)

    def begin(by: PairsPlan) -> _PairsTraining:
        weights = start_pairs(by, csr, labels, n_classes, sample_weight) if earlier is None else earlier.weights  # 1
        sums = Squares.of_pairs(weights, by.fit_intercept, by.offset) if squares is None else squares
        return _PairsTraining(by, csr, labels, weights, sums, sample_weight, earlier)

    signs = Signs(loss_at_zero(plan.loss, labels, n_classes, sample_weight))
    training, rate = trained(begin, plan, watch, signs)  # 2
    weights, sums = training.weights, training.squares
    if plan.prune > 0 and earlier is None:  # 3
        is_left = weights.without_smallest(plan.prune)
        weights, sums = weights.some_pairs(is_left), sums.some_pairs(is_left)
    return Trained(weights, training.curve, rate, sums, complete=training.complete)


def start_pairs(
    plan: PairsPlan, x: sp.csr_array, labels: Labels, n_classes: int, sample_weight: Doubles | None
) -> Weights:
    """Return what a training begins with: weights of 0 on the pairs of these points, intercepts by frequency.

    Scores that are trained by a margin are no log-odds, and begin at 0.
    """
    weights = Weights.on_pairs(*support_of(plan, x, labels, n_classes), None, np.zeros(n_classes, np.float32))
    if plan.fit_intercept and plan.loss != MARGIN:
        weights.bias[:] = _log_frequency(labels, n_classes, sample_weight, odds=plan.loss == "logistic")
    return weights


def support_of(plan: PairsPlan, x: sp.csr_array, labels: Labels, n_classes: int) -> tuple[NDArray[np.int64], Ids]:
    """Return the pairs of a feature and a class that as many of these points have as the plan says."""
    rows = (csr_parts(x), x.shape[1], labels.indptr, labels.ids, n_classes)
    return _core.support(*rows, plan.min_count, plan.few_classes)


def grow_pairs(
    plan: PairsPlan,
    weights: Weights,
    squares: Squares | None,
    position: NDArray[np.intp],
    x: sp.csr_array,
    labels: Labels,
    n_classes: int,
) -> tuple[Weights, Squares]:
    """Return a copy of weights and of their squares, with new classes, those of now in `position`, and pairs of x."""
    union = weights.new_pairs(n_classes, position, *support_of(plan, x, labels, n_classes))
    grown = weights.grown(n_classes, position, union)
    if squares is not None and squares.offset:
        return grown, squares.grown(n_classes, position, union)
    return grown, Squares.of_pairs(grown, plan.fit_intercept, plan.offset)


def _log_frequency(labels: Labels, n_classes: int, sample_weight: Doubles | None, *, odds: bool) -> Floats:
    """Return the log of each class's share of the rows, or its log-odds."""
    label_weights = None if sample_weight is None else np.repeat(sample_weight, np.diff(labels.indptr))
    share = shares_of_classes(labels.ids, n_classes, len(labels), label_weights)
    return (logit(share) if odds else np.log(share)).astype(np.float32)


class _PairsTraining(LabelTraining):
    """The core's trainer."""

    def __init__(
        self,
        plan: PairsPlan,
        x: sp.csr_array,
        labels: Labels,
        weights: Weights,
        squares: Squares,
        sample_weight: Doubles | None,
        earlier: EarlierModel | None,
    ) -> None:
        super().__init__(plan, x, labels, weights, sample_weight, goes_on=earlier is not None)
        by_classes = max(1, min(FIGURES.PAIRS_BATCH_POINTS, weights.n_classes // FIGURES.PAIRS_CLASSES_A_POINT))
        self.batch = min(plan.batch_size or by_classes, len(labels))
        self.squares = squares
        settings = plan.shared_with("pairs_trainer") | {
            "x": csr_parts(x),
            "n_features": x.shape[1],
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
            "sample_weight": sample_weight,
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
