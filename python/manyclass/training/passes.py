"""Passes over the data: drives a trainer of the core, shows progress, stops on Ctrl-C or divergence."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from manyclass import _core
from manyclass.model.mapped import MappedWeights
from manyclass.model.weights import LinearWeights, Matrix

SLICE_SECONDS = 0.2  # how long the core runs before Python can show progress or see Ctrl-C


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
    _weights: LinearWeights | MappedWeights = field(repr=False)
    _scale: NDArray[np.float32] = field(repr=False)
    _position: NDArray[np.int32] = field(repr=False)
    _n_threads: int = field(repr=False)
    _noise: str = field(repr=False, default="gumbel")

    def evaluate(self, X: Matrix, labels: NDArray[np.int32]) -> dict[str, float]:
        """Return the exact log-loss (nats), error and top-5 error on points with labels in [0, n_classes).

        It is the current iterate that is evaluated, also where iterates are averaged.
        """
        at = self._position[labels]
        return summarize(*self._weights.log_losses(X, at, self._n_threads, self._scale, self._noise))

    def scores(self, X: Matrix) -> NDArray[np.float32]:
        """Return the scores of the current iterate, (n_samples, n_classes), in the order of `classes_`."""
        return self._weights.scores(X, self._n_threads, self._scale)[:, self._position]

    def squared_norm(self) -> float:
        """Return ||W||^2 of the current iterate, without intercepts."""
        W = self._weights.coef
        squares = np.einsum("kj,kj->k", W, W, dtype=np.float64)
        scale = self._scale.astype(np.float64)
        return float(squares @ np.square(scale) if len(scale) else squares.sum())


Callback = Callable[[TrainingState], bool | None]


class Trainer(Protocol):
    """What makes visits: a trainer of the core, or what changes it between passes."""

    def run(self, *, epoch: int, eta: float, eta_u: float, first: int, last: int, loss: float) -> _core.Progress:
        """Make the visits [first, last) of a pass."""
        ...


def summarize(losses: NDArray[np.float64], ranks: NDArray[np.int32]) -> dict[str, float]:
    """Mean log-loss in nats, error and top-5 error."""
    return {
        "log_loss": float(np.mean(losses)),
        "error": float(np.mean(ranks > 0)),
        "top5_error": float(np.mean(ranks >= 5)),
    }


@dataclass
class Schedule:
    """Step sizes by pass."""

    name: str
    learning_rate: float
    u_learning_rate: float
    decay: float

    def at(self, epoch: int) -> tuple[float, float]:
        """Return the step sizes of W and of u in pass `epoch`."""
        factor = _core.step_size(self.name, 1.0, self.decay, epoch)
        return self.learning_rate * factor, self.u_learning_rate * factor


def run_passes(
    trainer: Trainer,
    schedule: Schedule,
    *,
    n_samples: int,
    n_classes: int,
    batch: int,
    max_iter: int,
    verbose: int,
    state: TrainingState,
    after_pass: Callable[[int], bool],
    callback: Callback | None,
    max_seconds: float = np.inf,
    loss_at_zero: float | None = None,
) -> list[float]:
    """Make up to `max_iter` passes, or train for `max_seconds`; `after_pass` belongs to the training and may end it.

    `loss_at_zero` is that of W = 0, log K unless given.

    Returns the running loss of each whole pass.

    Warns
    -----
    ConvergenceWarning
        If training diverged or was interrupted; the weights are those reached before.
    """
    curve: list[float] = []
    # Slices are whole batches, so that where a slice ends, which depends on the clock, changes nothing.
    visits = max(1, 1024 // batch) * batch
    bar = tqdm(total=max_iter * n_samples, disable=not verbose, unit="pt", unit_scale=True, smoothing=0.05)
    try:
        for epoch in range(max_iter):
            eta, eta_u = schedule.at(epoch)
            loss, first = 0.0, 0
            while first < n_samples:
                last = min(first + visits, n_samples)
                begin = time.perf_counter()
                progress = trainer.run(epoch=epoch, eta=eta, eta_u=eta_u, first=first, last=last, loss=loss)
                seconds = time.perf_counter() - begin
                state.seconds += seconds
                state.class_updates += progress.class_updates
                loss = progress.loss
                if progress.diverged_at >= 0:
                    _warn_diverged(f"the step at point {progress.diverged_at} in pass {epoch + 1} was too large")
                    return curve
                bar.update(last - first)
                bar.set_postfix_str(
                    f"pass {epoch + 1}/{max_iter}, loss {loss / last:.4f}, "
                    f"{state.class_updates / state.seconds:.3g} class updates/s",
                    refresh=False,
                )
                first = last
                if state.seconds >= max_seconds:
                    break
                if seconds < SLICE_SECONDS / 2:
                    visits *= 2
                elif seconds > SLICE_SECONDS * 2 and visits > batch:
                    visits = max(1, visits // batch // 2) * batch
            if first < n_samples:
                break
            begin = time.perf_counter()
            done = after_pass(epoch + 1)
            state.seconds += time.perf_counter() - begin
            state.n_iter, state.loss = epoch + 1, loss / n_samples
            curve.append(state.loss)
            if (callback is not None and callback(state)) or done or state.seconds >= max_seconds:
                break
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
        return curve
    finally:
        bar.close()
    # A model that ends well above W = 0 is worse than none.
    if curve and not curve[-1] <= 2 * (np.log(n_classes) if loss_at_zero is None else loss_at_zero):
        _warn_diverged(f"the loss of the last pass, {curve[-1]:.4g}, is above that of W = 0")
    return curve


def warn_user(what: str) -> None:
    """Warn of a training that did not converge, at the line outside of this package that asked for it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "manyclass":
        level, frame = level + 1, frame.f_back
    warnings.warn(what, ConvergenceWarning, stacklevel=level)


def _warn_diverged(what: str) -> None:
    warn_user(
        f"training diverged: {what}. Lower learning_rate, scale the rows of X to unit length, or use "
        "solver='implicit', which bears larger steps"
    )
