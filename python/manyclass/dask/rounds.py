"""Rounds of a training on a cluster, each of which is made again where workers are lost in it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from manyclass.choosing.costs import Planned
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import state_of
from manyclass.dask.loading import Loaded
from manyclass.dask.shards import PassReport, Stretch, Whole
from manyclass.dask.workers import LostWorkerError
from manyclass.fitting.planner import report_of
from manyclass.training.passes import place_in_words, warn_of_clock, warn_user
from manyclass.training.state import Features, FitReport, History, State
from manyclass.weights.weights import Weights

Done = TypeVar("Done")

MOST_LOSSES = 3  # of workers in one fit, as the scheduler lets a task kill three


@dataclass
class Round:
    """The training so far, as a callback is told of it, and counters of the work.

    Attributes
    ----------
    n_iter : int
        Whole passes.
    loss : float
        Running mean loss of the last pass, in nats.
    seconds : float
        Since training began.
    workers : list of dict
        For each worker "n_visits", "class_updates", "bytes_in" and "bytes_out" in all passes so far.
    """

    n_iter: int = 0
    loss: float = np.nan
    seconds: float = 0.0
    workers: list[dict[str, int]] = field(default_factory=list)

    def count(self, reports: list[PassReport]) -> None:
        """Add the reports of a round."""
        names = ("n_visits", "class_updates", "bytes_in", "bytes_out")
        before = self.workers or [dict.fromkeys(names, 0)] * len(reports)
        self.workers = [
            {name: counts[name] + getattr(report, name) for name in names}
            for counts, report in zip(before, reports, strict=True)
        ]


class Training(ABC):
    """What trainings by either division share: the loop over rounds, and what happens where workers are lost.

    Parameters
    ----------
    loaded : Loaded
    plan : PointsPlan or BatchesPlan
    n_merges : int
        Rounds of a pass.
    """

    def __init__(self, loaded: Loaded, plan: Any, n_merges: int) -> None:
        self.loaded, self.workers, self.n_merges = loaded, loaded.workers, n_merges
        self.plan, self.n_lost = replace(plan, verbose=0), 0

    def fit(self, callback: Callable[[Round], bool | None] | None, max_seconds: float) -> tuple[list[float], Round]:
        """Make passes until the plan, the callback or the clock ends them; return the loss of each, and counters."""
        curve: list[float] = []
        progress, begin = Round(), time.monotonic()
        for n_pass in range(self.plan.max_iter):
            reports: list[PassReport] = []
            for number in range(self.n_merges):
                stretch = Stretch(n_pass, number, self.n_merges)
                reports_of_round = self._until_done(partial(self._round, stretch))
                progress.count(reports_of_round)
                reports += reports_of_round
            if any(report.diverged for report in reports):
                warn_user(f"training diverged in pass {n_pass + 1}: a step was too large. Lower learning_rate")
                break
            curve.append(sum(report.loss for report in reports) / max(1, sum(report.n_visits for report in reports)))
            ends = self._until_done(self._validate)
            progress.n_iter, progress.loss, progress.seconds = n_pass + 1, curve[-1], time.monotonic() - begin
            if ends or (callback is not None and callback(progress)):
                break
            if progress.seconds >= max_seconds and n_pass + 1 < self.plan.max_iter:
                warn_of_clock(place_in_words(progress.seconds, n_pass + 1, self.plan.max_iter))
                break
        return curve, progress

    def _validate(self) -> bool:
        """Evaluate rows that are held out, if there are any; return whether training is to end."""
        return False

    def model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> tuple[Any, State]:
        """Return the model, which stays on the workers, and its state without W."""

        def make_model() -> tuple[Any, State]:
            model = self._model(owner, planned, curve)
            self.workers.wait(model.futures)
            fitted = model.futures[0]
            [state] = self.workers.gather([self.workers.submit_where_it_is(fitted, without_weights, fitted)])
            return model, state

        return self._until_done(make_model)

    def _until_done(self, make: Callable[[], Done]) -> Done:
        """Call a function; where workers are lost in it, call it again without them, unless more were than may be."""
        while True:
            try:
                return make()
            except LostWorkerError as fault:
                self.n_lost += 1
                if self.n_lost > MOST_LOSSES:
                    lost = f"training lost workers {self.n_lost} times, the last time {fault}"
                    raise RuntimeError(f"{lost}; {self.workers.short_memory()}") from fault
                moved = self.workers.replace(fault.places)
                self.loaded.restore(moved, fault.places)
                self._recover(moved, fault.places)

    @abstractmethod
    def _round(self, stretch: Stretch) -> list[PassReport]:
        """Make a round; where workers are lost in it, training still stands where it began."""

    @abstractmethod
    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> Any:
        """Return the model that workers make, of `manyclass.dask.predictions`."""

    @abstractmethod
    def _recover(self, moved: list[int], lost: frozenset[str]) -> None:
        """Go on where training stood, the shards of lost workers having moved to others, who have read their rows."""


def without_weights(model: LabelClassifier) -> State:
    """Return the state of a fitted estimator without W."""
    state = state_of(model)
    none = replace(state.weights, matrix=state.weights.matrix[:0].copy(), bias=state.weights.bias[:0].copy())
    return replace(state, weights=none, squares=None)


# The state after a training


def draft_of(loaded: Loaded, planned: Planned, curve: list[float], **stopping: Any) -> dict[str, Any]:
    """Return what the client knows of the state after a training: all but what is as large as the classes."""
    before, facts, n = loaded.state, loaded.facts[0], sum(facts.n_rows for facts in loaded.facts)
    curve = [*([] if before is None else before.curve), *curve]
    report = report_of(planned, FitReport(**stopping)) if before is None else before.fit_report
    return {
        "features": Features(facts.n_features, None if facts.names is None else np.array(facts.names, dtype=object)),
        "history": History.of_fit(n) if loaded.call is None else loaded.history.gone_on(n, None, 0.0),
        "curve": np.array(curve),
        "several": loaded.several,
        "sparse_labels": facts.sparse_labels,
        "fit_report": replace(report, best_iter=stopping.get("best_iter") or len(curve)),
    }


def completed(draft: dict[str, Any], whole: Whole, weights: Weights, **more: Any) -> State:
    """Return the state with what workers know."""
    history = draft["history"]
    n_labels = history.n_labels or float(whole.n_seen.sum()) / history.n_points
    fields = draft | more | {"history": replace(history, scaling=whole.scaling, n_labels=n_labels)}
    return State(classes=whole.classes, counts=whole.n_seen, weights=weights, **fields)
