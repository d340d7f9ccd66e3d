"""Passes over the data: `drive` makes them in slices, shows progress, and stops on Ctrl-C, divergence or the clock."""

from __future__ import annotations

import copy
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from tqdm.auto import tqdm

from manyclass import _core
from manyclass.checks import check_choice, check_number, outer_level
from manyclass.training.plan import ScoredRows
from manyclass.weights.tensor_file import Arrays, Position, Saved

DELAY = 1.0  # seconds of silence; what is done by then needs no progress
LONGEST = 30.0  # seconds between lines; they start a second apart and double


class Progress:
    """Progress as lines of a log, without carriage returns; the bars of tqdm, which may stand for it, have its methods.

    Attributes
    ----------
    total : int
        How many there are to do.
    """

    def __init__(self, total: int, unit: str, heading: str, done: int, *, shown: bool) -> None:
        self.total, self._unit, self._heading = total, unit, heading
        self._first, self._done, self._told, self._words = done, done, -1, ""
        self._begin, self._wait = time.monotonic(), DELAY
        self._next = self._begin + DELAY if shown else math.inf

    def update(self, n: int = 1) -> None:
        """Tell that n more are done; print a line where the time for one has come."""
        self._done += n
        if time.monotonic() >= self._next:
            self._print()
            self._wait = min(2 * self._wait, LONGEST)
            self._next = time.monotonic() + self._wait

    def set_postfix_str(self, s: str, refresh: bool = False) -> None:
        """Say something behind the numbers, from the next line on."""
        self._words = s

    def close(self) -> None:
        """Print the last line, if there was time for any."""
        if self._next < math.inf and time.monotonic() - self._begin >= DELAY and self._told != self._done:
            self._print()

    def _print(self) -> None:
        self._told = self._done
        share = f"{100 * self._done / self.total:.0f} %" if self.total else ""
        seconds = time.monotonic() - self._begin
        speed = f"{(self._done - self._first) / seconds:.3g} {self._unit}/s" if seconds > 0 else ""
        done = f"{self._done} of {self.total} {self._unit}" if self.total else f"{self._done} {self._unit}"
        line = ", ".join(filter(None, (done, share, f"{seconds:.0f} s", speed, self._words)))
        print(f"{self._heading}{': ' if self._heading else ''}{line}", file=sys.stderr, flush=True)


def progress_bar(total: int, *, unit: str, shown: bool = True, heading: str = "", done: int = 0) -> Progress:
    """Return a bar on stderr that appears after a second.

    Parameters
    ----------
    total : int
        How many there are to do.
    unit : str
        What they are.
    shown : bool, default=True
        False: nothing at all. True: tqdm's bar on a terminal or in a notebook, else lines.
    heading : str
        What stands before.
    done : int
        How many are done already.

    Returns
    -------
    Progress
    """
    shown = shown and sys.stderr is not None  # a process without a terminal may have none
    # A program may have put anything in its place.
    if not shown or not (getattr(sys.stderr, "isatty", bool)() or "ipykernel" in sys.modules):
        return Progress(total, unit, heading, done, shown=shown)
    options: dict[str, Any] = {"total": total, "initial": done, "delay": DELAY, "unit": unit, "desc": heading or None}
    bar: Progress = tqdm(**options, unit_scale=True, smoothing=0.05)
    return bar


def place_in_words(seconds: float, n: int, n_all: int) -> str:
    """Return where a training has stopped, for a warning."""
    return f"stopped after {seconds:.3g} s in pass {n} of {n_all}"


# Where Ctrl-C has ended trainings whose models are kept; None: it ends the call.
_INTERRUPTIONS: ContextVar[list[str] | None] = ContextVar("_INTERRUPTIONS", default=None)


@contextmanager
def keeping(keep: Literal["best"] | None) -> Iterator[list[str] | None]:
    """Let Ctrl-C end what is trained within with the model reached so far, if that is to be kept ("best").

    Yields the list of the places where it did.
    """
    check_choice("keep", keep or "best", ("best",), "None")
    before = _INTERRUPTIONS.get()
    places = None if keep is None else list[str]() if before is None else before
    token = _INTERRUPTIONS.set(places)
    try:
        yield places
    finally:
        _INTERRUPTIONS.reset(token)


def was_interrupted() -> bool:
    """Whether Ctrl-C has ended a training whose model is kept."""
    return bool(_INTERRUPTIONS.get())


def warn_interrupted(place: str) -> None:
    """Warn that Ctrl-C has ended a training at a place; where what was reached is not kept, let it end the call."""
    if (places := _INTERRUPTIONS.get()) is None:
        raise KeyboardInterrupt
    if not places:
        warn_user(f"training was interrupted; the model is the one reached so far: it {place}")
    places.append(place)


def warn_of_clock(place: str, verdict: str | None = None) -> None:
    """Warn that `max_seconds` has ended a training at a place; `verdict` says how bad the model may be there."""
    steps = "" if verdict is None else f": {verdict}, for its steps are still large"
    advice = "Raise max_seconds, or lower max_iter to the passes that there is time for"
    warn_user(f"training {place}, when max_seconds was over{steps}; the model is the one reached so far. {advice}")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let work of the core that takes longer raise `_core.TimeIsUpError`.

    Parameters
    ----------
    seconds : float
        The seconds that the work within may take.
    """
    _core.limit_seconds(seconds)
    try:
        yield
    finally:
        _core.limit_seconds(np.inf)


SLICE_SECONDS = 0.1  # how long the core runs before Python can show progress or see Ctrl-C
# A slice ends behind a batch when its time is up; work on one batch is broken off, and the batch lost, only after this.
GRACE = 0.1


T = TypeVar("T")


def drive(
    passes: Any,
    state: Any,
    callback: Callable[..., bool | None] | None,
    *,
    max_iter: int,
    verbose: bool,
    max_seconds: float = np.inf,
    heading: str = "",
    stage: Any = None,
    warns: bool = True,
) -> tuple[list[float], bool]:
    """Make up to `max_iter` passes, or train for `max_seconds`.

    The core ends a slice behind a whole batch, so that where it ends, which depends on the clock, changes nothing. With
    `verbose` progress is shown, behind `heading`. Training begins at the checkpoint of a `stage`, and writes to it.
    Without `warns` a divergence stands in `passes.fault` alone, for the caller to tell.

    Parameters
    ----------
    passes : object
        One kind of training. It has `n_visits` of a pass, of which a slice makes some; `length` and `unit`, of a pass
        on the progress bar; `advice`, what a user can do against divergence; and `fault`, what went wrong in the last
        slice, if training must end for it; in the end how training diverged, if it did. It has methods, too:

        - `run(n_pass, first, seconds)` makes the visits of a pass from `first` on, as many as `seconds` suffice for,
          and one at least. It returns how many, 0 where training is at its end, and how far the progress bar moves.
        - `describe(last)` says what the bar has after the visits [0, last) of a pass.
        - `finish(n_pass)` ends a whole pass; it returns its mean loss, and whether training is done.
        - `verdict(last_loss)` returns how the loss of the last pass, or anything before, shows divergence, or None.
        - where there are checkpoints: `arrays()`, which it moves, as they are in memory; `numbers()`, what else it
          moves, as JSON has it; and `restore(saved)`, which takes over both.
    state : object
        Kept up to date for the callback: `n_iter` passes made, `seconds` of training, the mean `loss` of the last pass.
    callback : callable or None
    stage : Stage or None
        See `manyclass.training.checkpoint`.

    Returns
    -------
    curve : list of float
        The mean loss of each whole pass.
    complete : bool
        Whether nothing ended training before its last pass.

    Warns
    -----
    ConvergenceWarning
        If training diverged, did not end within its seconds or, within `keeping`, was interrupted; the model is the one
        reached before.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C, but within `keeping`.
    """
    training = _Drive(passes, state, stage, max_seconds)
    position = training.at
    bar = progress_bar(max_iter * passes.length, unit=passes.unit, shown=verbose, heading=heading)
    bar.update(len(position.curve) * passes.length)
    try:
        while not position.ended and len(position.curve) < max_iter:
            n_pass = len(position.curve)
            if not training.make_pass(bar, f"pass {n_pass + 1}/{max_iter}"):
                break
            ended_pass = training.timed(partial(passes.finish, n_pass), training.end - state.seconds)
            if ended_pass is None:
                break
            state.loss, done = ended_pass
            state.n_iter += 1
            position.curve.append(state.loss)
            position.first, training.is_written = 0, False
            position.ended = bool(callback is not None and callback(state)) or done
            training.write_where_due(len(position.curve))
            if state.seconds >= training.end:
                break
    except KeyboardInterrupt:
        warn_interrupted(training.place_in_words(heading, max_iter))
        return position.curve, False
    finally:
        bar.close()
    training.tell_end(heading, max_iter, warns=warns)
    return position.curve, len(position.curve) == max_iter and not position.ended


class _Drive:
    """A training that is driven: its passes and their state, its place, its checkpoints, and when its time ends."""

    def __init__(self, passes: Any, state: Any, stage: Any, max_seconds: float) -> None:
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
            seconds_left = max(0.0, self.end - state.seconds)
            visits = partial(passes.run, n_pass, first, min(SLICE_SECONDS, seconds_left))
            done = self.timed(visits, seconds_left + GRACE)
            if done is None or passes.fault is not None:  # a batch that is not made to its end moves nothing
                return False
            n_visited, n_shown = done
            if n_visited == 0:
                self.at.ended = True
                return False
            first += n_visited
            bar.set_postfix_str(f"{heading}, {passes.describe(first)}", refresh=False)
            bar.update(n_shown)
            if first < passes.n_visits:  # after a whole pass there is more to do before a checkpoint
                self.at.first, self.is_written = first, False
                self.write_where_due()
            if state.seconds >= self.end:
                break
        return bool(first == passes.n_visits)

    def tell_end(self, heading: str, max_iter: int, *, warns: bool) -> None:
        """Write the last checkpoint, and tell of a divergence, or where the clock has ended the passes before."""
        passes, curve = self.passes, self.at.curve
        verdict = None if passes.fault or not curve else passes.verdict(curve[-1])
        if passes.fault is None and not self.at.ended and len(curve) < max_iter:
            warn_of_clock(self.place_in_words(heading, max_iter), verdict)
        else:
            passes.fault = passes.fault or verdict
        if passes.fault is None:
            self.write()
        elif warns:
            warn_user(f"training diverged: {passes.fault}. {passes.advice}")

    def place_in_words(self, heading: str, max_iter: int) -> str:
        """Return where training is, for a warning."""
        n_pass = len(self.at.curve) + (self.at.first > 0 or not self.at.curve)
        of_what = f" ({heading.rstrip(', ')})" if heading else ""
        return place_in_words(self.state.seconds, n_pass, max_iter) + of_what

    def write_where_due(self, n_passes: int | None = None) -> None:
        """Write a checkpoint where one is due, after a number of whole passes or within one."""
        if self._stage is not None and self._stage.is_due(n_passes):
            self.write()

    def write(self) -> None:
        """Write a checkpoint, unless the last one is of this place."""
        if self._stage is not None and not self.is_written:
            self.is_written = self._stage.write_or_warn(self, self.at)

    # For checkpoints: what the passes have, and the state of any passes

    def arrays(self) -> Any:
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


def warn_user(message: str, kind: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the line outside of this package that asked for it, by default of a training that did not converge."""
    warnings.warn(message, kind, stacklevel=outer_level())


def fork(random_state: Any) -> np.random.RandomState:
    """A generator for drawing points that leaves `random_state` as it is, so that training draws what it would."""
    generator: np.random.RandomState = check_random_state(copy.deepcopy(random_state))
    return generator


@dataclass
class Validation:
    """What early stopping knows: the points held out, their losses so far, and the best arrays.

    Attributes
    ----------
    n_iter_no_change : int
        Training stops after this many passes in a row without a new best one.
    rows : ScoredRows
        The points held out.
    is_scaled : bool
        Whether scores are multiplied by the best factor before a look, because what joins them will find one.
    curve : list of float
        The loss of the points held out after each pass.
    best_iter : int
        The pass, from 1, whose model is kept; 0 before there is one.
    """

    n_iter_no_change: int
    rows: ScoredRows
    is_scaled: bool = False
    curve: list[float] = field(default_factory=list)
    best_iter: int = 0
    _best: dict[str, NDArray[Any]] = field(default_factory=dict)

    def keep_if_best(self, loss: float, arrays: Arrays) -> bool:
        """Note the loss after a pass, keep copies of arrays if it is the least so far; return whether to stop."""
        self.curve.append(loss)
        if loss < (self.curve[self.best_iter - 1] if self.best_iter else math.inf):
            self.best_iter = len(self.curve)
            for name, array in arrays.items():
                if name in self._best and self._best[name].shape == array.shape:  # in place: they are as large as W
                    self._best[name][...] = array
                else:
                    self._best[name] = array.copy()
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether training is to stop."""
        return len(self.curve) - self.best_iter >= self.n_iter_no_change

    def take_best(self) -> Arrays:
        """Return the arrays of the best pass, none if no pass has been evaluated, and keep them no longer."""
        best, self._best = self._best, {}
        return best

    def arrays(self) -> Arrays:
        """Return the arrays of the best pass, for a checkpoint."""
        return {f"best_{name}".rstrip("_"): array for name, array in self._best.items()}

    def numbers(self) -> dict[str, Any]:
        """Return the curve, and which pass was best, for a checkpoint."""
        return {"curve": self.curve, "best_iter": self.best_iter}

    def restore(self, saved: Saved, like: Arrays) -> None:
        """Take over a checkpoint, whose best arrays are shaped like these."""
        self.curve, self.best_iter = list(map(float, saved.numbers["curve"])), saved.numbers["best_iter"]
        check_number("best_iter", self.best_iter, low=0, high=len(self.curve), integer=True)
        if self.best_iter:
            self._best = {name: np.empty_like(array) for name, array in like.items()}
            saved.fill(self.arrays())


def quietly(train: Callable[[], T]) -> T:
    """Train without telling that it diverged; Ctrl-C ends the search."""
    with warnings.catch_warnings(), keeping(None):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train()
