"""Passes over the data: `drive` makes them in slices, shows progress, and stops on Ctrl-C, divergence or the clock."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.checks import canonical_csr
from manyclass.model.kinds import Trained
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Doubles, Floats, Ids, Matrix
from manyclass.training.progress import Progress, progress_bar

SLICE_SECONDS = 0.2  # how long the core runs before Python can show progress or see Ctrl-C


class PassState(Protocol):
    """What `drive` keeps up to date for a callback: passes made, seconds of training, mean loss of the last pass."""

    n_iter: int
    seconds: float
    loss: float


S = TypeVar("S", bound=PassState)


class Passes(Protocol):
    """One kind of training, which `drive` makes pass by pass and slice by slice.

    Attributes
    ----------
    n_visits : int
        Visits of a pass; a slice is a range of them.
    length, unit : int, str
        Length of a pass on the progress bar, and what the bar counts.
    advice : str
        What a user can do against divergence.
    fault : str or None
        What went wrong in the last slice, if training must end for it.
    """

    n_visits: int
    length: int
    unit: str
    advice: str
    fault: str | None

    def run(self, n_pass: int, first: int, last: int) -> int:
        """Make the visits [first, last) of a pass; return how far the progress bar moves."""
        ...

    def describe(self, last: int) -> str:
        """Return what the progress bar says after the visits [0, last) of a pass."""
        ...

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a whole pass; return its mean loss, and whether training is done."""
        ...

    def verdict(self, last_loss: float) -> str | None:
        """Return how the loss of the last pass, or anything before, shows divergence; None if nothing does."""
        ...


def drive(
    passes: Passes,
    state: S,
    callback: Callable[[S], bool | None] | None,
    *,
    max_iter: int,
    verbose: bool,
    max_seconds: float = np.inf,
    first_slice: int = 1024,
    batch: int = 1,
    heading: str = "",
) -> tuple[list[float], bool]:
    """Make up to `max_iter` passes, or train for `max_seconds`.

    Slices are whole batches, so that where a slice ends, which depends on the clock, changes nothing. With `verbose`
    progress is shown, behind `heading`.

    Returns
    -------
    curve : list of float
        The mean loss of each whole pass.
    complete : bool
        Whether nothing ended training before its last pass.

    Warns
    -----
    ConvergenceWarning
        If training diverged or was interrupted; the model is the one reached before.
    """
    curve: list[float] = []
    complete = False
    bar = progress_bar(max_iter * passes.length, unit=passes.unit, shown=verbose, heading=heading)
    slices = _Slices(bar, max(1, first_slice // batch) * batch, batch, max_seconds)
    try:
        for n_pass in range(max_iter):
            slices.heading = f"pass {n_pass + 1}/{max_iter}"
            if not slices.make_pass(passes, state, n_pass):
                break
            begin = time.perf_counter()
            state.loss, done = passes.finish(n_pass)
            state.seconds += time.perf_counter() - begin
            state.n_iter += 1
            curve.append(state.loss)
            if (callback is not None and callback(state)) or done or state.seconds >= max_seconds:
                break
        else:
            complete = True
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
        return curve, False
    finally:
        bar.close()
    fault = passes.fault or (passes.verdict(curve[-1]) if curve else None)
    if fault is not None:
        warn_user(f"training diverged: {fault}. {passes.advice}")
    return curve, complete


@dataclass
class _Slices:
    """Slices of passes that take about SLICE_SECONDS each."""

    bar: Progress
    size: int
    batch: int
    max_seconds: float
    heading: str = ""

    def make_pass(self, passes: Passes, state: PassState, n_pass: int) -> bool:
        """Whether the pass was made to its end."""
        first = 0
        while first < passes.n_visits:
            last = min(first + self.size, passes.n_visits)
            begin = time.perf_counter()
            moved = passes.run(n_pass, first, last)
            seconds = time.perf_counter() - begin
            state.seconds += seconds
            if passes.fault is not None:
                return False
            self.bar.set_postfix_str(f"{self.heading}, {passes.describe(last)}", refresh=False)
            self.bar.update(moved)
            first = last
            if state.seconds >= self.max_seconds:
                break
            if seconds < SLICE_SECONDS / 2:
                self.size *= 2
            elif seconds > SLICE_SECONDS * 2 and self.size > self.batch:
                self.size = max(1, self.size // self.batch // 2) * self.batch
        return first == passes.n_visits


def warn_user(what: str) -> None:
    """Warn of a training that did not converge, at the line outside of this package that asked for it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "manyclass":
        level, frame = level + 1, frame.f_back
    warnings.warn(what, ConvergenceWarning, stacklevel=level)


@dataclass
class TrainingState:
    """What a callback of `fit` sees after each pass over the data.

    Attributes
    ----------
    n_iter : int
        Passes made.
    seconds : float
        Time spent in training so far, callbacks excluded.
    loss : float
        Running estimate of the mean loss of the last pass, in nats (see `loss_curve_`).
    class_updates : int
        Rows of W moved so far.
    """

    n_iter: int
    seconds: float
    loss: float
    class_updates: int
    _weights: Trained = field(repr=False)
    _scale: Floats = field(repr=False)
    _position: Ids = field(repr=False)
    _n_threads: int = field(repr=False)
    _noise: str = field(repr=False, default="gumbel")
    _scaling: FeatureScaling | None = field(repr=False, default=None)

    def of_features(self, scaling: FeatureScaling) -> TrainingState:
        """Return the state for who has features as they were before the scaling that training sees."""
        return replace(self, _scaling=scaling)

    def evaluate(self, X: Matrix, labels: Ids) -> dict[str, float]:
        """Return the exact log-loss (nats), error and top-5 error on points with labels in [0, n_classes).

        It is the current iterate that is evaluated, also where iterates are averaged.
        """
        at = self._position[labels]
        return summarize(*self._weights.log_losses(self._as_data(X), at, self._n_threads, self._scale, self._noise))

    def log_losses(self, X: Matrix, labels: Ids) -> Doubles:
        """Return the exact log-loss of each point, (n_samples,), in nats; see `evaluate`."""
        at = self._position[labels]
        losses, _ = self._weights.log_losses(self._as_data(X), at, self._n_threads, self._scale, self._noise)
        return losses

    def scores(self, X: Matrix) -> Floats:
        """Return the scores of the current iterate, (n_samples, n_classes), in the order of `classes_`."""
        return self._weights.scores(self._as_data(X), self._n_threads, self._scale)[:, self._position]

    def squared_norm(self) -> float:
        """Return ||W||^2 of the current iterate, without intercepts."""
        W = self._weights.coef
        if sp.issparse(W):
            return float(np.sum(np.square(W.data, dtype=np.float64)))
        if self._scaling is not None:
            W = (W / self._scaling.scale).astype(np.float32)
        squares = np.einsum("kj,kj->k", W, W, dtype=np.float64)
        scale = self._scale.astype(np.float64)
        return float(squares @ np.square(scale) if len(scale) else squares.sum())

    def _as_data(self, X: Any) -> Matrix:
        """What a user gives, as the core takes it."""
        sparse: bool = sp.issparse(X)
        x: Matrix = canonical_csr(X) if sparse else np.ascontiguousarray(X, dtype=np.float32)
        return x if self._scaling is None else self._scaling.apply(x)


Callback = Callable[[TrainingState], bool | None]


def summarize(losses: Doubles, ranks: Ids, weights: Doubles | None = None) -> dict[str, float]:
    """Mean log-loss in nats, error and top-5 error, of weighted points where weights are given."""
    if weights is not None:  # a loss may be infinite, and does not count with weight 0
        counts = weights > 0
        losses, ranks, weights = losses[counts], ranks[counts], weights[counts]
    return {
        "log_loss": float(np.average(losses, weights=weights)),
        "error": float(np.average(ranks > 0, weights=weights)),
        "top5_error": float(np.average(ranks >= 5, weights=weights)),
    }


@dataclass
class Schedule:
    """Step sizes by pass.

    Attributes
    ----------
    name : str
    learning_rate, u_learning_rate : float
        Of W and of u, at first.
    decay : float
        Factor of each pass or,
    decay_every : int or None
        where it is given (with "adaptive"), of each time that so many batches were made.
    """

    name: str
    learning_rate: float
    u_learning_rate: float
    decay: float
    decay_every: int | None = None

    def at(self, epoch: int, n_batches: int = 1) -> tuple[float, float]:
        """Return the step sizes of W and of u at the beginning of pass `epoch`, each pass being `n_batches`."""
        falls = epoch if self.decay_every is None else epoch * n_batches // self.decay_every
        factor = _core.step_size(self.name, 1.0, self.decay, falls)
        return self.learning_rate * factor, self.u_learning_rate * factor
