"""The zero line: full-batch L-BFGS in double precision over the exact gradient, to the optimum."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import core_data
from manyclass.training.core_training import CoreTraining, Signs, Trained, Watch
from manyclass.training.data import Points
from manyclass.training.passes import warn_user
from manyclass.training.plan import FullBatchPlan, ScoredRows
from manyclass.weights.tensor_file import Arrays
from manyclass.weights.weights import Weights


class _Iterations(CoreTraining):
    """The core's iterations, each of which is a pass of one visit, and what is after each."""

    unit = "iteration"
    plan: FullBatchPlan

    def __init__(self, plan: FullBatchPlan, points: Points, start: Weights | None, n_labels: float) -> None:
        x = points.x
        weights = Weights.zeros(points.n_classes, x.shape[1], by_feature=isinstance(x, sp.csr_array))
        super().__init__(plan, points, weights, goes_on=False)
        self.n_labels, self.n_visits, self.length, self.can_move = n_labels, 1, 1, True
        self.core = _core.FullBatch(
            x=core_data(x if weights.sparse else np.ascontiguousarray(x)),
            n_features=x.shape[1],
            labels=points.labels.ids,
            n_classes=points.n_classes,
            sample_weight=points.weights,
            loss=plan.loss,
            alpha=plan.alpha / n_labels,
            fit_intercept=plan.fit_intercept,
            n_threads=plan.n_threads,
        )
        if start is not None:
            self.core.read(start.matrix, start.intercept)

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make an iteration; none where the gradient is small, or nothing lowers the objective."""
        self.can_move = self.core.iterate(self.plan.tol / self.n_labels)
        self.loss = self.n_labels * self.core.value
        self.state.class_updates += self.can_move * self.weights.n_classes
        return int(self.can_move), int(self.can_move)

    def describe(self, last: int) -> str:
        """Return the objective, for the progress bar."""
        return f"objective {self.loss:.6f}"

    def after_pass(self, n_iter: int) -> None:
        """Round the iterate into the weights."""
        self.core.write(self.weights.matrix, self.weights.intercept)

    def held_out_loss(self, rows: ScoredRows) -> float:
        """Return the mean log-loss of points held out, in nats."""
        losses, _ = self.weights.log_losses(rows.x, rows.labels.ids, rows.n_threads)
        return float(np.average(losses, weights=rows.weights))

    def model_arrays(self) -> Arrays:
        """Return the rounded iterate."""
        return {"": self.weights.matrix, "intercept": self.weights.intercept}

    def moved(self) -> Arrays:
        """Return the iterate; what L-BFGS remembers of its steps is left to it."""
        return {"theta": self.core.theta}


def fit_full_batch(
    plan: FullBatchPlan, points: Points, watch: Watch, start: Weights | None = None, n_labels: float = 1
) -> Trained:
    """Minimise the mean loss + alpha/2 ||W||^2 by L-BFGS; the intercepts are not penalised.

    1. W begins at 0 or at a start.
    2. An iteration takes a direction from the last steps and gradients (Nocedal & Wright, Numerical Optimization, 2006,
       Algorithm 7.4), and goes along it as far as a line search says.
    3. After an iteration points held out say when to stop, and which iterate is returned.
    4. The model is the last iterate or the best one, rounded to float32; its curve has the objective after each.

    Parameters
    ----------
    plan : FullBatchPlan
    points : Points
    watch : Watch
    start : Weights, optional
        Where to begin; W = 0 by default.
    n_labels : float
        Mean number of labels of a row where there is a point for each label of a row (`data.one_a_label`): the
        loss is then the sum over the labels of a row, and its mean over rows that many times the one over points.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still larger than `tol` at the end: after `max_iter` iterations, when an interrupt came or
        the seconds were over, or where rounding lets the objective fall no further.
    """
    training = _Iterations(plan, points, start, n_labels)  # 1
    training.train(watch, Signs(np.inf, bounded=False))  # 2, 3
    largest = n_labels * training.core.largest_slope
    if largest > plan.tol and (training.complete or not training.can_move):
        message = f"the largest entry of the gradient is {largest:.3g}, more than tol={plan.tol:g}"
        warn_user(
            f"L-BFGS made max_iter={plan.max_iter} iterations; {message}. Raise max_iter, or set "
            "model=models.Linear(scaling='standard')"
            if training.can_move
            else f"L-BFGS can lower the objective no further in double precision; {message}"
        )
    if training.validation is None or not training.validation.best_iter:  # 4
        training.after_pass(0)
    return Trained(training.weights, training.curve)
