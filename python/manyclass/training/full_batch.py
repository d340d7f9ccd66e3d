"""The zero line: full-batch L-BFGS in double precision over the exact gradient, to the optimum."""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from tqdm.auto import tqdm

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.model.weights import LinearWeights, Matrix
from manyclass.training.passes import Callback, TrainingState, warn_user
from manyclass.training.validation import UNUSED_SCALE, Validation

Floats = NDArray[np.float64]

# Pairs of steps and gradient changes that L-BFGS keeps; each takes 16 K (D + 1) bytes. Twenty pairs reach the optimum
# of Bibtex in 235 iterations, ten in 264: not worth twice the memory.
HISTORY = 10


class _Objective:
    """Mean loss + alpha/2 ||W||^2 as a function of one vector: W in the layout of the data, then the intercepts."""

    def __init__(
        self,
        x: Matrix,
        labels: NDArray[np.int32],
        n_classes: int,
        *,
        loss: str,
        alpha: float,
        fit_intercept: bool,
        n_threads: int,
    ) -> None:
        self.sparse = isinstance(x, sp.csr_array)
        self.n_classes, self.n_features = n_classes, x.shape[1]
        self.shape = (self.n_features, n_classes) if self.sparse else (n_classes, self.n_features)
        self.size = n_classes * (self.n_features + fit_intercept)
        self._data = csr_parts(x) if isinstance(x, sp.csr_array) else np.ascontiguousarray(x)
        self._labels = labels
        self._loss = loss
        self._alpha = alpha
        self._n_threads = n_threads

    def parts(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return W and the intercepts (none: an empty array) as views of `theta`."""
        n = self.n_classes * self.n_features
        return theta[:n].reshape(self.shape), theta[n:]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
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
            gradient=W_gradient,
            intercept_gradient=b_gradient,
            n_threads=self._n_threads,
        )
        if self._alpha > 0:
            mean += self._alpha / 2 * float(np.vdot(W, W))
            W_gradient += self._alpha * W
        return mean, gradient

    def write(self, theta: Floats, weights: LinearWeights) -> None:
        """Round `theta` into `weights`."""
        W, b = self.parts(theta)
        (weights.matrix[:, : self.n_classes] if self.sparse else weights.matrix)[...] = W
        if len(b):
            weights.intercept[...] = b


def fit_full_batch(
    x: Matrix,
    labels: NDArray[np.int32],
    n_classes: int,
    *,
    loss: str,
    alpha: float,
    fit_intercept: bool,
    max_iter: int,
    tol: float,
    n_threads: int,
    verbose: int,
    callback: Callback | None,
    max_seconds: float = np.inf,
    validation: Validation | None = None,
) -> tuple[LinearWeights, Floats, int]:
    """Minimise the mean loss + alpha/2 ||W||^2 from W = 0; the intercepts are not penalised.

    Parameters
    ----------
    x, labels, n_classes : data; labels in [0, n_classes)
    loss : {"softmax", "ove", "bouchard"}
        A name of the registry's full-batch losses.
    alpha : float
        Ridge per point, >= 0.
    max_iter : int
        Most iterations, each of one or a few passes over the data.
    tol : float
        Stop when no entry of the gradient is larger, in absolute value.
    validation : Validation, optional
        Stop when it says so, and return the iterate that did best on it.

    Returns
    -------
    weights : LinearWeights
        The last or best iterate, rounded to float32.
    loss_curve : ndarray of shape (n_iter,), float64
        The objective after each iteration.
    n_iter : int
        Iterations made.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still larger than `tol` at the end: after `max_iter` iterations, when an interrupt came, or
        where rounding lets the objective fall no further.
    """
    objective = _Objective(
        x, labels, n_classes, loss=loss, alpha=alpha, fit_intercept=fit_intercept, n_threads=n_threads
    )
    weights = LinearWeights.zeros(n_classes, x.shape[1], sparse=objective.sparse)
    position = np.arange(n_classes, dtype=np.int32)
    state = TrainingState(0, 0.0, np.nan, 0, weights, UNUSED_SCALE, position, n_threads)
    theta = np.zeros(objective.size)
    curve: list[float] = []
    stopped = False
    begin = time.perf_counter()
    bar = tqdm(total=max_iter, disable=not verbose, unit="it")

    def after_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal stopped, begin
        state.seconds += time.perf_counter() - begin
        theta[:] = intermediate_result.x
        curve.append(float(intermediate_result.fun))
        bar.update()
        bar.set_postfix_str(f"objective {curve[-1]:.6f}", refresh=False)
        if callback is not None or validation is not None:
            objective.write(theta, weights)
        if validation is not None:
            stopped = validation.after_pass(weights, UNUSED_SCALE, position)
        if callback is not None:
            state.n_iter, state.loss = len(curve), curve[-1]
            state.class_updates += n_classes
            stopped = bool(callback(state)) or stopped
        stopped = stopped or state.seconds >= max_seconds
        begin = time.perf_counter()
        if stopped:
            raise StopIteration

    largest = np.inf
    try:
        # ftol=0: only the gradient says when to stop. A line search makes at most maxls evaluations, so maxfun never
        # binds.
        found = minimize(
            objective,
            theta.copy(),
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={
                "maxiter": max_iter,
                "maxfun": 21 * max_iter + 1,
                "maxcor": HISTORY,
                "ftol": 0.0,
                "gtol": tol,
                "maxls": 20,
            },
        )
        theta[:] = found.x
        largest = float(np.abs(found.jac).max(initial=0))
        if largest > tol and not stopped:
            warn_user(
                f"L-BFGS made max_iter={max_iter} iterations; the largest entry of the gradient is {largest:.3g}, "
                f"more than tol={tol:g}. Raise max_iter, or scale the features"
                if len(curve) >= max_iter
                else f"L-BFGS can lower the objective no further in double precision; the largest entry of the "
                f"gradient is {largest:.3g}, more than tol={tol:g}"
            )
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
    finally:
        bar.close()
    if validation is None or not validation.restore(weights):
        objective.write(theta, weights)
    return weights, np.array(curve), len(curve)
