"""Training by rows on a cluster: a pass on each worker, then a merge of each part of W on one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from manyclass.dask import intake
from manyclass.dask.answers import model_of
from manyclass.dask.crew import Crew
from manyclass.dask.loading import Loaded
from manyclass.dask.merging import Curvature
from manyclass.dask.rounds import Training, same
from manyclass.dask.rows import Leg, Report, added, make_pass, merge, part_at_zero
from manyclass.estimators.settle import Settled
from manyclass.training.plan import PointsPlan


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


class RowsTraining(Training):
    """Rounds of a training by rows."""

    def __init__(self, crew: Crew, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        self.crew, self.loaded, self.plan, self.n_merges = crew, loaded, replace(plan, verbose=0), n_merges
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

    def _measure(self, shards: Iterable[int]) -> None:
        for at in shards:
            given = (self.loaded.shards[at], self.loaded.whole[0], self.coupling)
            self.bends[at] = self.crew.submit(at, Curvature.of, *given)

    def _sum_up(self, shards: Iterable[int]) -> None:
        for at in shards:
            some = [
                self.crew.submit(other, Curvature.part, own, self.loaded.whole[0], at)
                for other, own in enumerate(self.bends)
            ]
            self.of_parts[at] = self.crew.submit(at, Curvature.total, some)

    def _after_pass(self, reports: list[Report]) -> None:
        if reports[-len(self.bends)].averaged:
            self._average()

    def _model(self, owner: Any, settled: Settled, curve: list[float]) -> list[Any]:
        now, loaded = self.standing, self.loaded
        parts = now.parts if now.total is None else now.total
        names, all_know = loaded.told[0].names, (loaded.classes[0], loaded.scaling[0])
        given = (owner, loaded.whole[0], parts, now.n_averaged, all_know[0], names, settled, all_know[1], curve)
        made = self.crew.submit(loaded.largest, model_of, *given)
        return [made] if self.alone else [made, self.crew.submit(loaded.largest + 1, same, made)]

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
        parts = self._left(was.parts, was.copies, lost)
        carried = [None if at in moved else one for at, one in enumerate(was.carried)]
        if not self.alone:
            self._measure(moved)
            self._sum_up(range(len(parts)))
        whole_total = was.total is not None and all(crew.holders(one, lost) for one in was.total)
        total, n_averaged = (was.total, was.n_averaged) if whole_total else (None, 0)
        self.standing = Standing(parts, self._copies(parts), carried, total, n_averaged)


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
