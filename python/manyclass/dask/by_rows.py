"""Training by rows on a cluster: rounds of a pass on each worker, a merge of each part of W on one of them, reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import dask
import numpy as np

from manyclass.dask import intake
from manyclass.dask.answers import model_of
from manyclass.dask.crew import Crew, LostWorkerError
from manyclass.dask.intake import Told
from manyclass.dask.merging import Curvature
from manyclass.dask.rows import Leg, Part, Report, added, make_pass, merge, part_at_zero
from manyclass.estimators.settle import Settled
from manyclass.training.passes import warn_user
from manyclass.training.plan import PointsPlan

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


class Loaded:
    """The rows of a fit on their workers, and what all workers know; all but numbers as futures.

    Attributes
    ----------
    shards : list of future of Shard
    told : list of Told
    classes, whole, counts, scaling : list of futures
        The same on two workers, where there are two.
    """

    def __init__(self, crew: Crew, owner: Any, parts: list[list[Any]], numbers: list[list[int]]) -> None:
        self.crew, self.owner, self.parts, self.numbers = crew, owner, parts, numbers
        rows = [self._rows(at) for at in range(len(numbers))]
        told = crew.gather([crew.submit(at, intake.tell, own) for at, own in enumerate(rows)])
        kept = [at for at, one in enumerate(told) if one is not None]
        if not kept:
            raise ValueError("X has no rows whose weight is above 0; at least two are needed")
        crew.places = [crew.places[at] for at in kept]
        self.numbers = [numbers[at] for at in kept]
        rows, self.told = [rows[at] for at in kept], [told[at] for at in kept]
        _check_alike(self.told)
        n = len(rows)
        labels = [crew.submit(at, intake.classes_of, own) for at, own in enumerate(rows)]
        self.classes = crew.everywhere(intake.all_classes, labels)
        counts = [crew.submit(at, intake.counts_of, own, self.classes[0]) for at, own in enumerate(rows)]
        self.counts = crew.everywhere(intake.sum_counts, counts)
        first = self.told[0]
        self.whole = crew.everywhere(intake.whole_of, self.counts[0], n, first.n_features, first.sparse)
        self.factors = crew.everywhere(intake.class_weights, owner, self.counts[0], self.classes[0])
        largest = int(np.argmax([one.n_rows for one in self.told]))
        of_largest = crew.submit(largest, intake.weigh_rows, rows[largest], self.factors[0], self.classes[0])
        self.scaling = crew.everywhere(intake.scaling_of, owner, rows[largest], of_largest)
        self.shards = [self._shard(at, own) for at, own in enumerate(rows)]
        self.largest = largest
        crew.wait([*self.shards, *self.classes, *self.whole, *self.scaling])

    def _rows(self, at: int) -> Any:
        own = [dask.delayed(intake.pack, pure=False)(*self.parts[number]) for number in self.numbers[at]]
        place = self.crew.places[at]
        # The source's own tasks may be known to the scheduler, with a worker that is lost: they can move.
        packed = self.crew.client.compute(own, workers=[place], allow_other_workers=True)
        return self.crew.submit(at, intake.stack, self.owner, packed)

    def _shard(self, at: int, rows: Any) -> Any:
        weights = self.crew.submit(at, intake.weigh_rows, rows, self.factors[0], self.classes[0])
        first = sum(one.n_rows for one in self.told[:at])
        return self.crew.submit(at, intake.shard_of, rows, self.classes[0], weights, self.scaling[0], at, first)

    def settle(self) -> Any:
        """Return the future of what "auto" stands for."""
        n_classes, n = self.crew.submit(self.largest, len, self.classes[0]), sum(one.n_rows for one in self.told)
        return self.crew.submit(self.largest, intake.settle_on, self.owner, self.shards[self.largest], n_classes, n)

    def restore(self, moved: list[int], lost: frozenset[str]) -> None:
        """Make the shards of lost workers again; raises LostWorkerError where what all know is lost with them."""
        for name in ("classes", "whole", "counts", "factors", "scaling"):
            kept = [future for future in getattr(self, name) if self.crew.holders(future, lost)]
            if not kept:
                raise LostWorkerError(lost)
            setattr(self, name, kept)
        for at in moved:
            self.shards[at] = self._shard(at, self._rows(at))


def _check_alike(told: list[Told]) -> None:
    first = told[0]
    for one in told[1:]:
        for name, what in (("n_features", "columns"), ("sparse", "as being sparse"), ("names", "as names of columns")):
            if getattr(one, name) != getattr(first, name):
                raise ValueError(
                    f"parts of X differ: one has {getattr(first, name)!r} {what}, another {getattr(one, name)!r}"
                )
        if one.weighted != first.weighted:
            raise ValueError("some parts have weights and others have none")


@dataclass
class Standing:
    """Where training stands between two rounds.

    Attributes
    ----------
    parts, copies : list of future of Part
        W after the last merge, and the same on the next worker; no copies with one worker.
    carried : list of future of Carried or None
    total : list of future of Part or None
        Sum of the iterates in the average, and
    n_averaged : int
        how many these are.
    """

    parts: list[Any]
    copies: list[Any]
    carried: list[Any]
    total: list[Any] | None = None
    n_averaged: int = 0


class RowsTraining:
    """Rounds of a training by rows."""

    def __init__(self, crew: Crew, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        self.crew, self.loaded, self.plan, self.n_merges = crew, loaded, replace(plan, verbose=0), n_merges
        self.alone = len(loaded.shards) == 1
        self.bends: list[Any] = [None] * len(loaded.shards)
        self.of_parts: list[Any] = [None] * len(loaded.shards)
        if not self.alone:
            sizes = crew.gather([crew.submit(at, intake.size_of, own) for at, own in enumerate(loaded.shards)])
            self.coupling = intake.couplings(sizes, fit_intercept=plan.fit_intercept)
            self._measure(range(len(loaded.shards)))
            self._sum_up(range(len(loaded.shards)))
        whole = loaded.whole[0]
        parts = [crew.submit(at, part_at_zero, whole, at) for at in range(len(loaded.shards))]
        self.standing = Standing(parts, self._copies(parts), [None] * len(parts))
        self.n_lost = 0

    def _measure(self, shards: Any) -> None:
        for at in shards:
            given = (self.loaded.shards[at], self.loaded.whole[0], self.coupling)
            self.bends[at] = self.crew.submit(at, Curvature.of, *given)

    def _sum_up(self, shards: Any) -> None:
        for at in shards:
            some = [
                self.crew.submit(other, Curvature.part, own, self.loaded.whole[0], at)
                for other, own in enumerate(self.bends)
            ]
            self.of_parts[at] = self.crew.submit(at, Curvature.total, some)

    def _copies(self, parts: list[Any]) -> list[Any]:
        return [] if self.alone else [self.crew.submit(at + 1, same, part) for at, part in enumerate(parts)]

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
            if reports[-len(self.bends)].averaged:
                self._average()
            told.n_iter, told.loss, told.seconds = n_pass + 1, curve[-1], time.monotonic() - begin
            if (callback is not None and callback(told)) or told.seconds >= max_seconds:
                break
        return curve, told

    def model(self, owner: Any, settled: Settled, curve: list[float]) -> list[Any]:
        """Return the fitted estimator of one machine as futures, the same on two workers where there are two."""
        while True:
            try:
                made = self._model(owner, settled, curve)
                copies = [] if self.alone else [self.crew.submit(self.loaded.largest + 1, same, made)]
                self.crew.wait([made, *copies])
            except LostWorkerError as fault:
                self._lose(fault)
            else:
                return [made, *copies]

    def _model(self, owner: Any, settled: Settled, curve: list[float]) -> Any:
        now, loaded = self.standing, self.loaded
        parts = now.parts if now.total is None else now.total
        names, all_know = loaded.told[0].names, (loaded.classes[0], loaded.scaling[0])
        given = (owner, loaded.whole[0], parts, now.n_averaged, all_know[0], names, settled, all_know[1], curve)
        return self.crew.submit(loaded.largest, model_of, *given)

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
                f"training lost workers {self.n_lost} times, the last time {fault}; where memory is short, use more "
                "workers, or division='rows and classes', which holds a part of W on each"
            ) from fault
        self._recover(fault.places)

    def _round(self, leg: Leg) -> list[Report]:
        crew, was, whole = self.crew, self.standing, self.loaded.whole[0]
        passed = [
            crew.submit(at, make_pass, self.plan, whole, shard, self.bends[at], was.parts, was.carried[at], leg)
            for at, shard in enumerate(self.loaded.shards)
        ]
        parts = []
        for at, part in enumerate(was.parts):
            changes = [crew.submit(other, change_of, one, at) for other, one in enumerate(passed)]
            parts.append(crew.submit(at, merge, self.plan, part, self.of_parts[at], changes, leg))
        carried = [crew.submit(at, carried_of, one) for at, one in enumerate(passed)]
        reports = [crew.submit(at, report_of, one) for at, one in enumerate(passed)]
        copies = self._copies(parts)
        crew.wait([*parts, *copies, *carried, *reports])
        told: list[Report] = crew.gather(reports)
        self.standing = replace(was, parts=parts, copies=copies, carried=carried)
        return told

    def _average(self) -> None:
        was, sparse = self.standing, self.loaded.told[0].sparse
        before = was.total or [None] * len(was.parts)
        total = [
            self.crew.submit(at, added, one, part, sparse)
            for at, (one, part) in enumerate(zip(before, was.parts, strict=True))
        ]
        self.standing = replace(was, total=total, n_averaged=was.n_averaged + 1)

    def _recover(self, lost: frozenset[str]) -> None:
        """Put what lost workers had on others: W as of the last merge, rows from where they came."""
        crew, was = self.crew, self.standing
        moved = crew.replace(lost)
        self.loaded.restore(moved, lost)
        parts = []
        for at, part in enumerate(was.parts):
            held = [one for one in (part, *was.copies[at : at + 1]) if crew.holders(one, lost)]
            if not held:
                raise LostWorkerError(lost)  # both workers that had it: training begins again
            parts.append(crew.submit(at, same, held[0]))
        carried = [None if at in moved else one for at, one in enumerate(was.carried)]
        if not self.alone:
            self._measure(moved)
            self._sum_up(range(len(parts)))
        whole_total = was.total is not None and all(crew.holders(one, lost) for one in was.total)
        total, n_averaged = (was.total, was.n_averaged) if whole_total else (None, 0)
        self.standing = Standing(parts, self._copies(parts), carried, total, n_averaged)


def same(part: Any) -> Any:
    """What it is given: a copy on another worker."""
    return part


def change_of(passed: Any, part: int) -> Any:
    """What a pass changed in a part."""
    return passed.changes[part]


def carried_of(passed: Any) -> Any:
    """What the points carry after a pass."""
    return passed.carried


def report_of(passed: Any) -> Report:
    """What a pass tells."""
    report: Report = passed.report
    return report
