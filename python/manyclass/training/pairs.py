"""Training of weights on the pairs of a feature and a class that occur together: exact losses by single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.training.checkpoint import Arrays, Saved
from manyclass.training.core_plan import NO_WEIGHTS
from manyclass.training.loop import run_passes
from manyclass.training.passes import TrainingState
from manyclass.training.plan import Labels, PostingsPlan
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.training.watch import Watch
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix, as_csr
from manyclass.weights.weights import Weights

# Points that see the same weights, so that threads can share the work; and fewer where there are few classes, because
# the steps of points that move the same weight are added.
BATCH_POINTS = 8
CLASSES_PER_BATCHED_POINT = 64
# What is added to Adagrad's sums of squares, for rows of length 1: of .01, .1 and 1 the best on bibtex; 1 gains half a
# point of P@1 on delicious. It keeps the first step of a weight, which would be the whole rate, near its gradient.
OFFSET = 0.1
# Gradients below this are rounded to 0 or to it, at random and without bias: it leaves 800 of 27,754 on the first rows
# of yso-en. Where a line of 16 has none, its weights are not written.
ROUNDING = 0.003
FEWEST = 0.5  # rows that a class without any counts as having


def fit_pairs(
    plan: PostingsPlan,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    watch: Watch,
    sample_weight: Doubles | None = None,
    seen: Seen | None = None,
    squares: Squares | None = None,
) -> tuple[Weights, list[float], Squares]:
    """Train on points that have labels; return the weights with the mean loss of each pass, and Adagrad's sums.

    `sample_weight`, of mean 1, multiplies the losses. Training goes on from what was `seen`, whose support has the
    pairs of these points, and from `squares`, which are moved in place; None: sums of 0. Then no weight is dropped.
    """
    csr = as_csr(x)
    weights = start_pairs(plan, csr, labels, n_classes, sample_weight) if seen is None else seen.weights
    squares = Squares.of_pairs(weights, plan.fit_intercept, plan.offset) if squares is None else squares
    training = _PairsTraining(plan, csr, labels, weights, squares, sample_weight, 0 if seen is None else seen.n_points)
    n_labels = float(np.average(np.diff(labels.indptr), weights=sample_weight))
    at_zero = {"logistic": n_classes * np.log(2), "pick_all_normalized": np.log(n_classes)}
    # A model that goes on may meet classes that it holds improbable.
    most = np.inf if seen is not None else 2 * at_zero.get(plan.loss, n_labels * np.log(n_classes))
    position = np.arange(n_classes, dtype=np.int32)
    state = TrainingState(0, 0.0, np.nan, 0, weights, np.zeros(0, np.float32), position, plan.n_threads)
    curve = run_passes(training, plan, watch, state, len(labels), most=most)
    if plan.prune > 0 and seen is None:
        kept = weights.without_smallest(plan.prune)
        weights, squares = weights.some_pairs(kept), squares.some_pairs(kept)
    return weights, curve, squares


def start_pairs(
    plan: PostingsPlan, x: sp.csr_array, labels: Labels, n_classes: int, sample_weight: Doubles | None
) -> Weights:
    """What a training begins with: weights of 0 on the pairs of these points, intercepts by classes' frequencies."""
    weights = Weights.on_pairs(*support_of(plan, x, labels, n_classes), None, np.zeros(n_classes, np.float32))
    if plan.fit_intercept:
        weights.bias[:] = _log_frequency(labels, n_classes, sample_weight, odds=plan.loss == "logistic")
    return weights


def support_of(plan: PostingsPlan, x: sp.csr_array, labels: Labels, n_classes: int) -> tuple[NDArray[np.int64], Ids]:
    """The pairs of a feature and a class that as many of these points have as the plan says."""
    return _core.support(csr_parts(x), x.shape[1], labels.indptr, labels.ids, n_classes, plan.min_count)


def _log_frequency(labels: Labels, n_classes: int, sample_weight: Doubles | None, *, odds: bool) -> Floats:
    """The log of each class's share of the rows, or its log-odds."""
    n_rows, of_labels = len(labels), None
    if sample_weight is not None:
        of_labels = np.repeat(sample_weight, np.diff(labels.indptr))
    counts = np.bincount(labels.ids, weights=of_labels, minlength=n_classes)
    share = np.clip(counts, FEWEST, n_rows - FEWEST) / n_rows
    return (logit(share) if odds else np.log(share)).astype(np.float32)


class _PairsTraining:
    """The core's trainer."""

    def __init__(
        self,
        plan: PostingsPlan,
        x: sp.csr_array,
        labels: Labels,
        weights: Weights,
        squares: Squares,
        sample_weight: Doubles | None,
        first_point: int,
    ) -> None:
        by_classes = max(1, min(BATCH_POINTS, weights.n_classes // CLASSES_PER_BATCHED_POINT))
        self.batch = min(plan.batch_size or by_classes, len(labels))
        self._weights, self._squares = weights, squares
        self._trainer = _core.postings_trainer(
            x=csr_parts(x),
            n_features=x.shape[1],
            labels_indptr=labels.indptr,
            labels=labels.ids,
            indptr=weights.indptr,
            classes=weights.classes,
            values=weights.values,
            squares=squares.values,
            intercept=weights.bias,
            intercept_squares=squares.intercept,
            offset=squares.offset,
            intercept_offset=OFFSET,
            sample_weight=NO_WEIGHTS if sample_weight is None else sample_weight,
            loss=plan.loss,
            rounding=plan.rounding,
            seed=plan.seed,
            first_point=first_point,
            n_threads=plan.n_threads,
            batch=self.batch,
            hogwild=plan.hogwild and plan.n_threads > 1,
            shuffle=plan.shuffle,
            isa="auto",
        )

    def run(self, **stretch: Any) -> _core.Progress:
        """Make some visits of a pass."""
        return self._trainer.run(**stretch)

    def after_pass(self, n_iter: int) -> bool:
        """Nothing comes between passes."""
        return False

    def arrays(self) -> Arrays:
        """Weights and their squares."""
        weights, squares = self._weights, self._squares
        return {
            "values": weights.values,
            "intercept": weights.bias,
            "squares": squares.values,
            "intercept_squares": squares.intercept,
        }

    def numbers(self) -> dict[str, Any]:
        """None."""
        return {}

    def restore(self, saved: Saved) -> None:
        """Take the arrays over."""
        saved.fill(self.arrays())
