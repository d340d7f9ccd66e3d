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
from manyclass.training.checkpoint import Arrays, Position, Saved, Stage
from manyclass.training.interrupts import time_limit
from manyclass.training.progress import Progress, progress_bar
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.scaling import FeatureScaling
from manyclass.weights.weights import Weights

SLICE_SECONDS = 0.2  # how long the core runs before Python can show progress or see Ctrl-C
# A slice ends behind a batch when its time is up; work on one batch is broken off, and the batch lost, only after this.
GRACE = 0.1


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
        Visits of a pass; a slice is some of them.
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

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make the visits of a pass from `first` on, as many as `seconds` suffice for, and one at least.

        Returns how many that were, and how far the progress bar moves.
        """
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

    def arrays(self) -> Arrays:
        """Return the arrays that training moves, for a checkpoint."""
        ...

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that it moves, as JSON has them."""
        ...

    def restore(self, saved: Saved) -> None:
        """Take over both from a checkpoint."""
        ...


def drive(
    passes: Passes,
    state: S,
    callback: Callable[[S], bool | None] | None,
    *,
    max_iter: int,
    verbose: bool,
    max_seconds: float = np.inf,
    heading: str = "",
    stage: Stage | None = None,
) -> tuple[list[float], bool]:
    """Make up to `max_iter` passes, or train for `max_seconds`.

    The core ends a slice behind a whole batch, so that where it ends, which depends on the clock, changes nothing. With
    `verbose` progress is shown, behind `heading`. Training begins at the checkpoint of a `stage`, and writes to it.

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
    record = Record(passes, state, stage)
    at = record.begin()
    bar = progress_bar(max_iter * passes.length, unit=passes.unit, shown=verbose, heading=heading)
    bar.update(record.n_done())
    slices = _Slices(bar, max_seconds + state.seconds)
    try:
        while not at.ended and len(at.curve) < max_iter:
            slices.heading = f"pass {len(at.curve) + 1}/{max_iter}"
            if not slices.make_pass(record):
                break
            begin = time.perf_counter()
            try:
                with time_limit(slices.max_seconds - state.seconds):
                    state.loss, done = passes.finish(len(at.curve))
            except _core.TimeIsUpError:
                record.lose()
                break
            finally:
                state.seconds += time.perf_counter() - begin
            state.n_iter += 1
            record.count_pass(state.loss)
            record.after_pass(ended=bool(callback is not None and callback(state)) or done)
            if state.seconds >= slices.max_seconds:
                break
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
        return at.curve, False
    finally:
        bar.close()
    fault = passes.fault or (passes.verdict(at.curve[-1]) if at.curve else None)
    if fault is not None:
        warn_user(f"training diverged: {fault}. {passes.advice}")
    else:
        record.write()
    return at.curve, len(at.curve) == max_iter and not at.ended


class Record:
    """Where a training is, and its checkpoints."""

    def __init__(self, passes: Passes, state: PassState, stage: Stage | None) -> None:
        self.passes, self.state, self.at = passes, state, Position()
        self._stage = stage
        self._is_written = False

    def begin(self) -> Position:
        """Go to where the checkpoint is."""
        if self._stage is not None:
            self.at = self._stage.begin(self)
            self._is_written = self.at != Position()
        return self.at

    def n_done(self) -> int:
        """How far the progress bar is, but for a part of a pass."""
        return len(self.at.curve) * self.passes.length

    def after_slice(self, last: int) -> None:
        """Note that the visits before `last` are made."""
        self.at.first = last
        self._is_written = False
        if self._stage is not None and self._stage.is_due():
            self.write()

    def count_pass(self, loss: float) -> None:
        """Note that a whole pass is made."""
        self.at.curve.append(loss)
        self.at.first, self._is_written = 0, False

    def after_pass(self, *, ended: bool) -> None:
        """Note whether it was the last one."""
        self.at.ended = ended
        if self._stage is not None and self._stage.is_due(len(self.at.curve)):
            self.write()

    def lose(self) -> None:
        """Note that it is not known how far training is: the checkpoint before is the last one."""
        self._is_written = True

    def write(self) -> None:
        """Write a checkpoint, if anything was done since the last one; where that fails, warn, and leave that one."""
        if self._stage is None or self._is_written:
            return
        self._is_written = self._stage.write_or_warn(self, self.at)

    # As `Resumable`: what the passes have, and the state of any passes.

    def arrays(self) -> Arrays:
        """Those of the passes."""
        return self.passes.arrays()

    def numbers(self) -> dict[str, Any]:
        """Those of the passes, and of the state."""
        state = {"n_iter": self.state.n_iter, "seconds": self.state.seconds, "loss": self.state.loss}
        return {"passes": self.passes.numbers(), "state": state}

    def restore(self, saved: Saved) -> None:
        """Take over both."""
        for name, value in saved.numbers["state"].items():
            setattr(self.state, name, value)
        self.passes.restore(replace(saved, numbers=saved.numbers["passes"]))


@dataclass
class _Slices:
    """Slices of passes that take about SLICE_SECONDS each."""

    bar: Progress
    max_seconds: float
    heading: str = ""

    def make_pass(self, record: Record) -> bool:
        """Whether the pass was made to its end, from where the record is."""
        passes, state, n_pass, first = record.passes, record.state, len(record.at.curve), record.at.first
        while first < passes.n_visits:
            begin = time.perf_counter()
            left = max(0.0, self.max_seconds - state.seconds)
            try:
                with time_limit(left + GRACE):
                    made, moved = passes.run(n_pass, first, min(SLICE_SECONDS, left))
            except _core.TimeIsUpError:  # within a batch, which then moves nothing
                record.lose()
                return False
            finally:
                state.seconds += time.perf_counter() - begin
            if passes.fault is not None:
                return False
            first += made
            self.bar.set_postfix_str(f"{self.heading}, {passes.describe(first)}", refresh=False)
            self.bar.update(moved)
            if first < passes.n_visits:  # after a whole pass there is more to do before a checkpoint
                record.after_slice(first)
            if state.seconds >= self.max_seconds:
                break
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
    _weights: Weights = field(repr=False)
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
        W: Any = self._weights.coef
        if isinstance(W, sp.csc_array):
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
