"""Passes over the data: `drive` makes them in slices, shows progress, and stops on Ctrl-C, divergence or the clock."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.training.interrupts import time_limit
from manyclass.training.progress import Position, Progress, progress_bar
from manyclass.weights.tensor_file import Arrays, Resumable, Saved

SLICE_SECONDS = 0.2  # how long the core runs before Python can show progress or see Ctrl-C
# A slice ends behind a batch when its time is up; work on one batch is broken off, and the batch lost, only after this.
GRACE = 0.1


class PassState(Protocol):
    """What `drive` keeps up to date for a callback: passes made, seconds of training, mean loss of the last pass."""

    n_iter: int
    seconds: float
    loss: float


S = TypeVar("S", bound=PassState)
T = TypeVar("T")


class Stage(Protocol):
    """What keeps checkpoints of one training, such as `manyclass.training.checkpoint.Stage`."""

    def begin(self, training: Resumable) -> Position:
        """Give a training what a file has, if there is one, and return where it is."""
        ...

    def is_due(self, n_passes: int | None = None) -> bool:
        """Whether to write now, after this number of whole passes; None: within one."""
        ...

    def write_or_warn(self, training: Resumable, at: Position) -> bool:
        """Write a file; where that fails, warn, and return False."""
        ...


class Passes(Resumable, Protocol):
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
        What went wrong in the last slice, if training must end for it; in the end how training diverged, if it did.
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
    warns: bool = True,
) -> tuple[list[float], bool]:
    """Make up to `max_iter` passes, or train for `max_seconds`.

    The core ends a slice behind a whole batch, so that where it ends, which depends on the clock, changes nothing. With
    `verbose` progress is shown, behind `heading`. Training begins at the checkpoint of a `stage`, and writes to it.
    Without `warns` a divergence stands in `passes.fault` alone, for the caller to tell.

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
    made = _Drive(passes, state, stage, max_seconds)
    at = made.at
    bar = progress_bar(max_iter * passes.length, unit=passes.unit, shown=verbose, heading=heading)
    bar.update(len(at.curve) * passes.length)
    try:
        while not at.ended and len(at.curve) < max_iter:
            n_pass = len(at.curve)
            if not made.make_pass(bar, f"pass {n_pass + 1}/{max_iter}"):
                break
            found = made.timed(partial(passes.finish, n_pass), made.end - state.seconds)
            if found is None:
                break
            state.loss, done = found
            state.n_iter += 1
            at.curve.append(state.loss)
            at.first, made.is_written = 0, False
            at.ended = bool(callback is not None and callback(state)) or done
            made.write_where_due(len(at.curve))
            if state.seconds >= made.end:
                break
    except KeyboardInterrupt:
        warn_user("training was interrupted; the model is the one reached so far")
        return at.curve, False
    finally:
        bar.close()
    passes.fault = passes.fault or (passes.verdict(at.curve[-1]) if at.curve else None)
    if passes.fault is None:
        made.write()
    elif warns:
        warn_user(f"training diverged: {passes.fault}. {passes.advice}")
    return at.curve, len(at.curve) == max_iter and not at.ended


class _Drive:
    """A training that is driven: its passes and their state, its place, its checkpoints, and when its time ends."""

    def __init__(self, passes: Passes, state: PassState, stage: Stage | None, max_seconds: float) -> None:
        self.passes, self.state, self._stage = passes, state, stage
        self.at = Position() if stage is None else stage.begin(self)
        self.is_written = self.at != Position()
        self.end = max_seconds + state.seconds

    def timed(self, work: Callable[[], T], seconds: float) -> T | None:
        """Let the core work; return None where its time is up within the work.

        It is not known then how far training is, so that the checkpoint before is the last one.
        """
        begin = time.perf_counter()
        try:
            with time_limit(seconds):
                return work()
        except _core.TimeIsUpError:
            self.is_written = True
            return None
        finally:
            self.state.seconds += time.perf_counter() - begin

    def make_pass(self, bar: Progress, heading: str) -> bool:
        """Make a pass from where training is, in slices of about SLICE_SECONDS; return whether it came to its end."""
        passes, state, n_pass, first = self.passes, self.state, len(self.at.curve), self.at.first
        while first < passes.n_visits:
            left = max(0.0, self.end - state.seconds)
            done = self.timed(partial(passes.run, n_pass, first, min(SLICE_SECONDS, left)), left + GRACE)
            if done is None or passes.fault is not None:  # a batch that is not made to its end moves nothing
                return False
            made, moved = done
            first += made
            bar.set_postfix_str(f"{heading}, {passes.describe(first)}", refresh=False)
            bar.update(moved)
            if first < passes.n_visits:  # after a whole pass there is more to do before a checkpoint
                self.at.first, self.is_written = first, False
                self.write_where_due()
            if state.seconds >= self.end:
                break
        return first == passes.n_visits

    def write_where_due(self, n_passes: int | None = None) -> None:
        """Write a checkpoint where one is due, after a number of whole passes or within one."""
        if self._stage is not None and self._stage.is_due(n_passes):
            self.write()

    def write(self) -> None:
        """Write a checkpoint, unless the last one is of this place."""
        if self._stage is not None and not self.is_written:
            self.is_written = self._stage.write_or_warn(self, self.at)

    # As `Resumable`: what the passes have, and the state of any passes

    def arrays(self) -> Arrays:
        """Return the arrays of the passes."""
        return self.passes.arrays()

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of the passes and of the state."""
        state = {"n_iter": self.state.n_iter, "seconds": self.state.seconds, "loss": self.state.loss}
        return {"passes": self.passes.numbers(), "state": state}

    def restore(self, saved: Saved) -> None:
        """Take over arrays and numbers."""
        for name, value in saved.numbers["state"].items():
            setattr(self.state, name, value)
        self.passes.restore(replace(saved, numbers=saved.numbers["passes"]))


def warn_user(what: str) -> None:
    """Warn of a training that did not converge, at the line outside of this package that asked for it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "manyclass":
        level, frame = level + 1, frame.f_back
    warnings.warn(what, ConvergenceWarning, stacklevel=level)
