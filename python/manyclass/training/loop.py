"""The loop over points: a trainer of the core, driven pass by pass as a plan says."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

from manyclass import _core
from manyclass.training.checkpoint import Arrays, Resumable, Saved
from manyclass.training.passes import TrainingState, drive
from manyclass.training.plan import Plan, Schedule
from manyclass.training.probe import Probe
from manyclass.training.watch import Watch


class Training(Resumable, Protocol):
    """What makes visits.

    Attributes
    ----------
    batch : int
        Points that see the same weights.
    """

    batch: int

    def run(
        self, *, epoch: int, eta: float, eta_u: float, first: int, last: int, loss: float, seconds: float
    ) -> _core.Progress:
        """Make the visits [first, last) of a pass, or as many of them as `seconds` suffice for."""
        ...

    def after_pass(self, n_iter: int) -> bool:
        """Do what comes between passes; return whether training is done."""
        ...


def run_passes(
    training: Training,
    plan: Plan,
    watch: Watch,
    state: TrainingState,
    n_samples: int,
    *,
    most: float,
    probe: Probe | None = None,
) -> list[float]:
    """Drive a trainer of the core over points.

    A running loss above `most` shows divergence, and so does the exact loss that `probe` looks at.

    Returns the running loss of each whole pass.

    Warns
    -----
    ConvergenceWarning
        If training diverged or was interrupted; the weights are those reached before.
    """
    passes = _PointPasses(training, plan.schedule, state, n_samples, n_samples, most, probe)
    curve, _ = drive(
        passes,
        state,
        watch.callback,
        max_iter=plan.max_iter,
        verbose=bool(plan.verbose),
        max_seconds=watch.max_seconds,
        heading=watch.heading,
        stage=watch.stage(plan),
    )
    return curve


@dataclass
class _PointPasses:
    """Passes over points with labels."""

    training: Training
    schedule: Schedule
    state: TrainingState
    n_visits: int
    length: int
    most: float
    probe: Probe | None
    loss: float = 0.0
    unit: str = "pt"
    fault: str | None = None
    advice: str = (
        "Lower learning_rate, scale the rows of X to unit length, or use solver='implicit', which bears larger steps"
    )

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        eta, eta_u = self.schedule.at(n_pass, -(-self.n_visits // self.training.batch))
        loss = self.loss if first > 0 else 0.0
        progress = self.training.run(
            epoch=n_pass, eta=eta, eta_u=eta_u, first=first, last=self.n_visits, loss=loss, seconds=seconds
        )
        self.loss = progress.loss
        self.state.class_updates += progress.class_updates
        if progress.diverged_at >= 0:
            self.fault = f"the step at point {progress.diverged_at} in pass {n_pass + 1} was too large"
        return progress.visits, progress.visits

    def describe(self, last: int) -> str:
        speed = self.state.class_updates / self.state.seconds
        return f"loss {self.loss / last:.4f}, {speed:.3g} class updates/s"

    def finish(self, n_pass: int) -> tuple[float, bool]:
        done = self.training.after_pass(n_pass + 1)
        if self.probe is not None and n_pass + 1 in self.probe.after:
            done = self.probe.look(self.state, n_pass + 1) or done
        mean = self.loss / self.n_visits
        if not math.isfinite(mean):
            self.fault = f"the mean loss of pass {n_pass + 1} is {mean}"
        return mean, done or self.fault is not None

    def verdict(self, last_loss: float) -> str | None:
        if not last_loss <= self.most:
            return f"the loss of the last pass, {last_loss:.4g}, is above that of W = 0"
        if self.probe is None:
            return None
        if self.state.n_iter not in self.probe.looks:
            self.probe.look(self.state, self.state.n_iter)
        return self.probe.verdict()

    def arrays(self) -> Arrays:
        return self.training.arrays()

    def numbers(self) -> dict[str, Any]:
        looks = [] if self.probe is None else [[n, *found] for n, found in self.probe.looks.items()]
        of_state = self.state.class_updates
        return {"training": self.training.numbers(), "loss": self.loss, "class_updates": of_state, "looks": looks}

    def restore(self, saved: Saved) -> None:
        numbers = saved.numbers
        self.training.restore(replace(saved, numbers=numbers["training"]))
        self.loss, self.state.class_updates = numbers["loss"], numbers["class_updates"]
        if self.probe is not None:
            self.probe.looks.update({n: (float(mean), float(error)) for n, mean, error in numbers["looks"]})
