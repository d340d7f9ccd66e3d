"""The zero line: full-batch L-BFGS in double precision over the exact gradient, to the optimum."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import OptimizeResult, minimize
from threadpoolctl import threadpool_limits

from manyclass import _core
from manyclass.checks import core_data
from manyclass.training.checkpoint import Arrays, Position, Saved
from manyclass.training.core_training import TrainingState, Watch
from manyclass.training.interrupts import time_limit
from manyclass.training.passes import warn_user
from manyclass.training.plan import FullBatchPlan
from manyclass.training.progress import progress_bar
from manyclass.training.validation import UNUSED_SCALE
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

# Pairs of steps and gradient changes that L-BFGS keeps; each takes 16 K (D + 1) bytes. Twenty pairs reach the optimum
# of Bibtex in 235 iterations, ten in 264: not worth twice the memory.
HISTORY = 10

# Numbers of double precision, one for each point and class, that a pass over the scores leaves for the one that adds up
# the gradient, which then need not make them again: 128 MB at most.
ROOM = 1 << 24
# Where there is no room for all points, some pass at a time, and the whole gradient is added to for each such lot. That
# costs about what this many non-zeros of each feature do.
NONZEROS_A_FEATURE = 256


def kept_points(x: Matrix, n_classes: int) -> int:
    """How many points are to pass at a time, their scores made once; 0: all, and scores are made twice."""
    n, n_features = x.shape
    points = int(min(n, ROOM // n_classes))
    nonzeros = (x.nnz if isinstance(x, sp.csr_array) else x.size) / n
    return points if points == n or points * nonzeros >= NONZEROS_A_FEATURE * n_features else 0


class _Objective:
    """Weighted mean loss + alpha/2 ||W||^2 of one vector: W in the layout of the data, then the intercepts."""

    def __init__(
        self, plan: FullBatchPlan, x: Matrix, labels: Ids, n_classes: int, sample_weight: Doubles | None = None
    ) -> None:
        self.sparse = isinstance(x, sp.csr_array)
        self.n_classes, self.n_features = n_classes, x.shape[1]
        self.shape = (self.n_features, n_classes) if self.sparse else (n_classes, self.n_features)
        self.size = n_classes * (self.n_features + plan.fit_intercept)
        self._data = core_data(x if self.sparse else np.ascontiguousarray(x))
        self._labels = labels
        self._sample_weight = sample_weight
        self._room = np.empty(kept_points(x, n_classes) * n_classes)  # made once: fresh memory is slow
        self._loss = plan.loss
        self._alpha = plan.alpha
        self._n_threads = plan.n_threads

    def parts(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return W and the intercepts (none: an empty array) as views of `theta`."""
        n = self.n_classes * self.n_features
        return theta[:n].reshape(self.shape), theta[n:]

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient."""
        W, b = self.parts(theta)
        gradient = np.empty_like(theta)
        W_gradient, b_gradient = self.parts(gradient)
        mean = _core.loss_and_gradient(
            loss=self._loss,
            x=self._data,
            n_features=self.n_features,
            matrix=W,
            intercept=b,
            n_classes=self.n_classes,
            labels=self._labels,
            sample_weight=self._sample_weight,
            room=self._room,
            gradient=W_gradient,
            intercept_gradient=b_gradient,
            n_threads=self._n_threads,
        )
        if self._alpha > 0:
            mean += self._alpha / 2 * float(np.vdot(W, W))
            W_gradient += self._alpha * W
        return mean, gradient

    def read(self, weights: Weights) -> Doubles:
        """Return `weights` as one vector."""
        theta = np.empty(self.size)
        W, b = self.parts(theta)
        W[...] = weights.matrix[:, : self.n_classes] if self.sparse else weights.matrix
        b[...] = weights.intercept[: len(b)]
        return theta

    def write(self, theta: Doubles, weights: Weights) -> None:
        """Round `theta` into `weights`."""
        W, b = self.parts(theta)
        (weights.matrix[:, : self.n_classes] if self.sparse else weights.matrix)[...] = W
        if len(b):
            weights.intercept[...] = b


class _Iterations:
    """What happens after each iteration: the curve, points held out, the user's callback, the limit of seconds."""

    def __init__(self, plan: FullBatchPlan, objective: _Objective, weights: Weights, watch: Watch) -> None:
        self.plan, self.objective, self.weights, self.watch = plan, objective, weights, watch
        self.position = np.arange(weights.n_classes, dtype=np.int32)
        self.state = TrainingState(0, 0.0, np.nan, 0, weights, UNUSED_SCALE, self.position, plan.n_threads)
        self.theta = np.zeros(objective.size)
        self.curve: list[float] = []
        self.stopped = False
        self.most_seconds = watch.max_seconds
        self.begin = time.perf_counter()
        self.bar = progress_bar(plan.max_iter, unit="iteration", shown=bool(plan.verbose), heading=watch.heading)
        self.ended = False
        self.stage = watch.stage(plan)

    def begin_at_checkpoint(self) -> None:
        """Go to where the checkpoint is, if there is one."""
        if self.stage is not None:
            at = self.stage.begin(self)
            self.curve, self.ended = at.curve, at.ended
            self.most_seconds += self.state.seconds

    def after(self, intermediate_result: OptimizeResult) -> None:
        """Look at an iterate; raises StopIteration where training is to end."""
        watch, state = self.watch, self.state
        _core.limit_seconds(np.inf)
        state.seconds += time.perf_counter() - self.begin
        self.theta[:] = intermediate_result.x
        self.curve.append(float(intermediate_result.fun))
        self.bar.set_postfix_str(f"objective {self.curve[-1]:.6f}", refresh=False)
        self.bar.update()
        if watch.callback is not None or watch.validation is not None:
            self.objective.write(self.theta, self.weights)
        if watch.validation is not None:
            self.stopped = watch.validation.after_pass(self.weights, UNUSED_SCALE, self.position)
        if watch.callback is not None:
            state.n_iter, state.loss = len(self.curve), self.curve[-1]
            state.class_updates += self.weights.n_classes
            self.stopped = bool(watch.callback(state)) or self.stopped
        self.stopped = self.ended = self.stopped or self.ended
        self.stopped = self.stopped or state.seconds >= self.most_seconds
        if self.stage is not None and self.stage.is_due(len(self.curve)):
            self.write()
        self.begin = time.perf_counter()
        if self.stopped:
            raise StopIteration
        _core.limit_seconds(self.most_seconds - state.seconds)

    def arrays(self) -> Arrays:
        """Return the iterate, and the best model so far; what L-BFGS remembers of its steps is left to it."""
        of_validation = {} if self.watch.validation is None else self.watch.validation.arrays()
        return {"theta": self.theta, **of_validation}

    def numbers(self) -> dict[str, Any]:
        """Return the curve, and what validation has found."""
        validation = self.watch.validation
        seconds, updates = self.state.seconds, self.state.class_updates
        return {"validation": validation and validation.numbers(), "seconds": seconds, "class_updates": updates}

    def restore(self, saved: Saved) -> None:
        """Take over the arrays and the numbers of a checkpoint."""
        if self.watch.validation is not None:
            self.watch.validation.restore_from(saved, saved.numbers["validation"], self.weights)
        saved.fill(self.arrays())
        self.state.seconds, self.state.class_updates = saved.numbers["seconds"], saved.numbers["class_updates"]

    def write(self) -> None:
        """Write a checkpoint; where that fails, warn."""
        if self.stage is not None:
            self.stage.write_or_warn(self, Position(self.curve, ended=self.ended))

    def run(self) -> None:
        """Iterate until the gradient is small, or something ends it."""
        left = self.plan.max_iter - len(self.curve)
        if self.ended or left <= 0:
            return
        # ftol=0: only the gradient says when to stop. A line search makes at most maxls evaluations, so maxfun never
        # binds.
        options = {
            "maxiter": left,
            "maxfun": 21 * left + 1,
            "maxcor": HISTORY,
            "ftol": 0.0,
            "gtol": self.plan.tol,
            "maxls": 20,
        }
        start = self.theta.copy()
        # BLAS would take a second thread for products of two vectors of the size of W, which gains nothing on an idle
        # machine and doubles the time beside other work, since its threads wait for each other in a loop.
        try:
            with threadpool_limits(1, user_api="blas"), time_limit(self.most_seconds - self.state.seconds):
                found = minimize(
                    self.objective, start, jac=True, method="L-BFGS-B", callback=self.after, options=options
                )  # type: ignore[call-overload]
        except _core.TimeIsUpError:  # within a search along a line, of which nothing is kept
            self.write()
            return
        self.theta[:] = found.x
        largest = float(np.abs(found.jac).max(initial=0))
        self.ended = self.ended or not self.stopped
        self.write()
        if largest > self.plan.tol and not self.stopped:
            self.warn(largest)

    def warn(self, largest: float) -> None:
        """Warn that the gradient is still large."""
        what = f"the largest entry of the gradient is {largest:.3g}, more than tol={self.plan.tol:g}"
        warn_user(
            f"L-BFGS made max_iter={self.plan.max_iter} iterations; {what}. Raise max_iter, or set "
            "model=models.Linear(scaling='standard')"
            if len(self.curve) >= self.plan.max_iter
            else f"L-BFGS can lower the objective no further in double precision; {what}"
        )


def fit_full_batch(
    plan: FullBatchPlan,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    watch: Watch,
    start: Weights | None = None,
    sample_weight: Doubles | None = None,
) -> tuple[Weights, list[float]]:
    """Minimise the mean loss + alpha/2 ||W||^2; the intercepts are not penalised.

    Parameters
    ----------
    plan : FullBatchPlan
    x, labels, n_classes : data; labels in [0, n_classes)
    watch : Watch
        Points held out say when to stop, and which iterate is returned.
    start : Weights, optional
        Where to begin; W = 0 by default.
    sample_weight : ndarray of shape (n_samples,), float64, or None
        Weights of the points, with mean 1.

    Returns
    -------
    weights : Weights
        The last or best iterate, rounded to float32.
    loss_curve : list of float
        The objective after each iteration.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still larger than `tol` at the end: after `max_iter` iterations, when an interrupt came, or
        where rounding lets the objective fall no further.
    """
    objective = _Objective(plan, x, labels, n_classes, sample_weight)
    weights = Weights.zeros(n_classes, x.shape[1], by_feature=objective.sparse)
    iterations = _Iterations(plan, objective, weights, watch)
    if start is not None:
        iterations.theta[:] = objective.read(start)
    iterations.begin_at_checkpoint()
    try:
        iterations.run()
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
    finally:
        iterations.bar.close()
    if watch.validation is None or not watch.validation.restore(weights):
        objective.write(iterations.theta, weights)
    return weights, iterations.curve
