"""The zero line: full-batch L-BFGS in double precision over the exact gradient, to the optimum."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import core_data
from manyclass.training.core_training import TrainingState, Watch
from manyclass.training.passes import (
    UNUSED_SCALE,
    place_in_words,
    progress_bar,
    time_limit,
    warn_interrupted,
    warn_of_clock,
    warn_user,
)
from manyclass.training.plan import FullBatchPlan
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.tensor_file import Arrays, Position, Saved
from manyclass.weights.weights import Weights


class _Iterations:
    """The core's iterations, and what is after each: the curve, points held out, the callback, the limit of seconds."""

    def __init__(
        self, plan: FullBatchPlan, core: _core.FullBatch, weights: Weights, watch: Watch, n_labels: float
    ) -> None:
        self.plan, self.core, self.weights, self.watch, self.n_labels = plan, core, weights, watch, n_labels
        self.position = np.arange(weights.n_classes, dtype=np.int32)
        self.state = TrainingState(0, 0.0, np.nan, 0, weights, UNUSED_SCALE, self.position, plan.n_threads)
        self.curve: list[float] = []
        self.ended = False
        self.bar = progress_bar(plan.max_iter, unit="iteration", shown=bool(plan.verbose), heading=watch.heading)
        self.stage = watch.stage(plan)

    def write_weights(self) -> None:
        """Round the iterate into the weights."""
        self.core.write(self.weights.matrix, self.weights.intercept)

    def after(self) -> bool:
        """Look at an iterate; return whether training is to end."""
        watch, state = self.watch, self.state
        self.curve.append(self.n_labels * self.core.value)
        self.bar.set_postfix_str(f"objective {self.curve[-1]:.6f}", refresh=False)
        self.bar.update()
        if watch.callback is not None or watch.validation is not None:
            self.write_weights()
        if watch.validation is not None:
            self.ended = watch.validation.after_pass(self.weights, UNUSED_SCALE, self.position)
        if watch.callback is not None:
            state.n_iter, state.loss = len(self.curve), self.curve[-1]
            state.class_updates += self.weights.n_classes
            self.ended = bool(watch.callback(state)) or self.ended
        if self.stage is not None and self.stage.is_due(len(self.curve)):
            self.write()
        return self.ended

    def arrays(self) -> Arrays:
        """Return the iterate, and the best model so far; what L-BFGS remembers of its steps is left to it."""
        best = {} if self.watch.validation is None else self.watch.validation.arrays()
        return {"theta": self.core.theta, **best}

    def numbers(self) -> dict[str, Any]:
        """Return the curve, and what validation has found."""
        validation = self.watch.validation
        seconds, updates = self.state.seconds, self.state.class_updates
        return {"validation": validation and validation.numbers(), "seconds": seconds, "class_updates": updates}

    def restore(self, saved: Saved) -> None:
        """Take over the arrays and the numbers of a checkpoint."""
        if self.watch.validation is not None:
            self.watch.validation.resume(saved, saved.numbers["validation"], self.weights)
        saved.fill(self.arrays())
        self.state.seconds, self.state.class_updates = saved.numbers["seconds"], saved.numbers["class_updates"]

    def write(self) -> None:
        """Write a checkpoint; where that fails, warn."""
        if self.stage is not None:
            self.stage.write_or_warn(self, Position(self.curve, ended=self.ended))

    def run(self) -> None:
        """Iterate until the gradient is small, or something ends it."""
        if self.stage is not None:
            position = self.stage.begin(self)
            self.curve, self.ended = position.curve, position.ended
        end, stopped = self.watch.max_seconds + self.state.seconds, False
        if self.ended or len(self.curve) >= self.plan.max_iter:
            return
        is_late = False
        try:
            while not stopped and len(self.curve) < self.plan.max_iter and self._moves(end - self.state.seconds):
                stopped = self.after()
                is_late = not stopped and len(self.curve) < self.plan.max_iter and self.state.seconds >= end
                stopped = stopped or is_late
        except _core.TimeIsUpError:  # within a search along a line, of which nothing is kept
            stopped = is_late = True
        self.ended = self.ended or not stopped
        self.write()
        if is_late:
            warn_of_clock(self.place_in_words())
        largest = self.n_labels * self.core.largest_slope
        if largest > self.plan.tol and not stopped:
            self._warn(largest)

    def place_in_words(self) -> str:
        """Return where training is, for a warning."""
        return place_in_words(self.state.seconds, len(self.curve), self.plan.max_iter, "iteration")

    def _moves(self, seconds: float) -> bool:
        """Make an iteration; return False where the gradient is small, or nothing lowers the objective."""
        begin = time.perf_counter()
        with time_limit(seconds):
            moved = self.core.iterate(self.plan.tol / self.n_labels)
        self.state.seconds += time.perf_counter() - begin
        return moved

    def _warn(self, largest: float) -> None:
        """Warn that the gradient is still large."""
        message = f"the largest entry of the gradient is {largest:.3g}, more than tol={self.plan.tol:g}"
        warn_user(
            f"L-BFGS made max_iter={self.plan.max_iter} iterations; {message}. Raise max_iter, or set "
            "model=models.Linear(scaling='standard')"
            if len(self.curve) >= self.plan.max_iter
            else f"L-BFGS can lower the objective no further in double precision; {message}"
        )


def fit_full_batch(
    plan: FullBatchPlan,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    watch: Watch,
    start: Weights | None = None,
    sample_weight: Doubles | None = None,
    n_labels: float = 1,
) -> tuple[Weights, list[float]]:
    """Minimise the mean loss + alpha/2 ||W||^2 by L-BFGS; the intercepts are not penalised.

    1. W begins at 0 or at a start.
    2. An iteration takes a direction from the last steps and gradients (Nocedal & Wright, Numerical Optimization, 2006,
       Algorithm 7.4), and goes along it as far as a line search says.
    3. After an iteration points held out are looked at.
    4. The model is the last iterate or the best one, rounded to float32.

    Parameters
    ----------
    plan : FullBatchPlan
    x : csr_array or ndarray
    labels : ndarray of int
        In [0, n_classes).
    n_classes : int
    watch : Watch
        Points held out say when to stop, and which iterate is returned.
    start : Weights, optional
        Where to begin; W = 0 by default.
    sample_weight : ndarray of shape (n_samples,), float64, or None
        Weights of the points, with mean 1.
    n_labels : float
        Mean number of labels of a row where x has each row once for each of its labels (`weighting.one_a_label`): the
        loss is then the sum over the labels of a row, and its mean over rows that many times the one over x.

    Returns
    -------
    weights : Weights
        The last or best iterate, rounded to float32.
    loss_curve : list of float
        The objective after each iteration.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still larger than `tol` at the end: after `max_iter` iterations, when an interrupt came or
        the seconds were over, or where rounding lets the objective fall no further.
    """
    weights = Weights.zeros(n_classes, x.shape[1], by_feature=isinstance(x, sp.csr_array))
    core = _core.FullBatch(
        x=core_data(x if weights.sparse else np.ascontiguousarray(x)),
        n_features=x.shape[1],
        labels=labels,
        n_classes=n_classes,
        sample_weight=sample_weight,
        loss=plan.loss,
        alpha=plan.alpha / n_labels,
        fit_intercept=plan.fit_intercept,
        n_threads=plan.n_threads,
    )
    if start is not None:  # 1
        core.read(start.matrix, start.intercept)
    iterations = _Iterations(plan, core, weights, watch, n_labels)
    try:
        iterations.run()  # 2, 3
    except KeyboardInterrupt:
        warn_interrupted(iterations.place_in_words())
    finally:
        iterations.bar.close()
    if watch.validation is None or not watch.validation.restore(weights):  # 4
        iterations.write_weights()
    return weights, iterations.curve
