"""Rounds of a training on a cluster: made one by one, each again where workers are lost in it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyclass.choosing.trials import Planned
from manyclass.dask.loading import Loaded
from manyclass.dask.rows import Leg, Report
from manyclass.dask.workers import Crew, LostWorkerError
from manyclass.training.passes import warn_user

MOST_LOSSES = 3  # of workers in one fit, as the scheduler lets a task kill three


@dataclass
class Round:
    """What a client tells of the training so far, to a callback and as counters.

    Attributes
    ----------
    n_iter : int
        Whole passes.
    loss : float
        Running mean loss of the last pass, in nats.
    seconds : float
        Since training began.
    workers : list of dict
        Of each worker: "n_visits", "class_updates", "bytes_in" and "bytes_out", in all passes so far.
    """

    n_iter: int = 0
    loss: float = np.nan
    seconds: float = 0.0
    workers: list[dict[str, int]] = field(default_factory=list)

    def count(self, reports: list[Report]) -> None:
        """Add the reports of a round."""
        names = ("n_visits", "class_updates", "bytes_in", "bytes_out")
        if not self.workers:
            self.workers = [dict.fromkeys(names, 0) for _ in reports]
        for counts, report in zip(self.workers, reports, strict=True):
            for name in names:
                counts[name] += getattr(report, name)


class Training(ABC):
    """What trainings by either division share: the loop over rounds, and what happens where workers are lost.

    Attributes
    ----------
    crew, loaded, plan : Crew, Loaded, and PointsPlan or BatchesPlan
    n_merges : int
        Rounds of a pass.
    """

    crew: Crew
    loaded: Loaded
    plan: Any
    n_merges: int = 1
    n_lost: int = 0

    def fit(self, callback: Callable[[Round], bool | None] | None, max_seconds: float) -> tuple[list[float], Round]:
        """Make all passes, or as many as the callback and the clock let it; return the loss of each, and counters."""
        curve: list[float] = []
        told, begin = Round(), time.monotonic()
        for n_pass in range(self.plan.max_iter):
            reports: list[Report] = []
            for number in range(self.n_merges):
                made = self._made(Leg(n_pass, number, self.n_merges))
                told.count(made)
                reports += made
            if any(report.diverged for report in reports):
                warn_user(f"training diverged in pass {n_pass + 1}: a step was too large. Lower learning_rate")
                break
            curve.append(sum(report.loss for report in reports) / max(1, sum(report.n_visits for report in reports)))
            self._after_pass(reports)
            ends = self._ends()
            told.n_iter, told.loss, told.seconds = n_pass + 1, curve[-1], time.monotonic() - begin
            if ends or (callback is not None and callback(told)) or told.seconds >= max_seconds:
                break
        return curve, told

    def _ends(self) -> bool:
        """Validate, again where workers are lost in it; whether training is to end."""
        while True:
            try:
                return self._validate()
            except LostWorkerError as fault:
                self._lose(fault)

    def _validate(self) -> bool:
        """Look at rows that are held out, if there are some; whether training is to end."""
        return False

    def model(self, owner: Any, settled: Planned, curve: list[float]) -> list[Any]:
        """Return futures of what predicts: see `_model`."""
        while True:
            try:
                made = self._model(owner, settled, curve)
                self.crew.wait(made)
            except LostWorkerError as fault:
                self._lose(fault)
            else:
                return made

    def _made(self, leg: Leg) -> list[Report]:
        """Make a round; again, with other workers, where some are lost in it."""
        while True:
            try:
                return self._round(leg)
            except LostWorkerError as fault:
                self._lose(fault)

    def _lose(self, fault: LostWorkerError) -> None:
        """Go on without workers, unless too many were lost."""
        self.n_lost += 1
        if self.n_lost > MOST_LOSSES:
            raise RuntimeError(
                f"training lost workers {self.n_lost} times, the last time {fault}; {self.crew.short_memory()}"
            ) from fault
        self._recover(fault.places)

    @property
    def alone(self) -> bool:
        """Whether there is one worker."""
        return len(self.loaded.shards) == 1

    def _copies(self, pieces: list[Any]) -> list[Any]:
        """The pieces of W on the next worker each; none with one worker."""
        return [] if self.alone else [self.crew.submit(at + 1, same, piece) for at, piece in enumerate(pieces)]

    def _left(self, pieces: list[Any], copies: list[Any], lost: frozenset[str]) -> list[Any]:
        """The pieces of W after a loss, from either of the two workers that had each."""
        left = []
        for at, piece in enumerate(pieces):
            held = [one for one in (piece, *copies[at : at + 1]) if self.crew.holders(one, lost)]
            if not held:
                raise LostWorkerError(lost)  # training begins again
            left.append(self.crew.submit(at, same, held[0]))
        return left

    @abstractmethod
    def _round(self, leg: Leg) -> list[Report]:
        """Make a round, and only then stand where it ends."""

    def _after_pass(self, reports: list[Report]) -> None:  # noqa: B027 - nothing, as a rule
        """Do what comes between passes."""

    @abstractmethod
    def _model(self, owner: Any, settled: Planned, curve: list[float]) -> list[Any]:
        """Futures of the model."""

    @abstractmethod
    def _recover(self, lost: frozenset[str]) -> None:
        """Put what lost workers had on others."""


def same(part: Any) -> Any:
    """What it is given: a copy on another worker."""
    return part
