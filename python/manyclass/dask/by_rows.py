"""Training by rows on a cluster: a pass on each worker, then a merge of each part of W on one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from manyclass.choosing.trials import Planned
from manyclass.dask import checking
from manyclass.dask.loading import Loaded
from manyclass.dask.merging import Curvature
from manyclass.dask.partial_fit import Origin, parts_to_go_on, pick
from manyclass.dask.predictions import Found, model_of
from manyclass.dask.rounds import Training, same
from manyclass.dask.rows import Leg, Report, added, held_out_loss
from manyclass.dask.simulation import Best, way_of
from manyclass.dask.workers import Crew
from manyclass.training.plan import BatchesPlan, PointsPlan


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

    @property
    def model(self) -> list[Any]:
        """What predicts: the sum of the iterates in the average, or W."""
        return self.parts if self.total is None else self.total


class RowsTraining(Training):
    """Rounds of a training by rows."""

    def __init__(self, crew: Crew, loaded: Loaded, plan: PointsPlan | BatchesPlan, n_merges: int) -> None:
        self.crew, self.loaded, self.plan, self.n_merges = crew, loaded, replace(plan, verbose=0), n_merges
        self.way = way_of(plan)
        n_iter_no_change = getattr(loaded.owner, "n_iter_no_change", 0) if any(loaded.n_held) else 0
        self.watch = Best(n_iter_no_change)
        self.best: Standing | None = None
        self.bends: list[Any] = [None] * len(loaded.shards)
        self.of_parts: list[Any] = [None] * len(loaded.shards)
        if not self.alone:
            sizes = crew.gather([crew.submit(at, checking.size_of, own) for at, own in enumerate(loaded.shards)])
            self.coupling = checking.couplings(sizes, fit_intercept=plan.fit_intercept)
            self._measure(range(len(loaded.shards)))
            self._sum_up(range(len(loaded.shards)))
        parts = self._first_parts(loaded.origin)
        self.standing = Standing(parts, self._copies(parts), [None] * len(parts))

    def _first_parts(self, origin: Origin) -> list[Any]:
        crew, whole, n = self.crew, self.loaded.whole[0], len(self.loaded.shards)
        if origin.model is None:
            return [crew.submit(at, self.way.part_at_zero, self.plan, whole, at) for at in range(n)]
        given = (origin.model, self.plan, whole, self.loaded.classes[0], self.loaded.scaling[0])
        all_parts = crew.submit_where_it_is(origin.model, parts_to_go_on, *given)
        picked = [crew.submit_where_it_is(origin.model, pick, all_parts, at) for at in range(n)]
        parts = [crew.submit(at, same, part) for at, part in enumerate(picked)]
        crew.wait(parts)
        return parts

    def _measure(self, shards: Iterable[int]) -> None:
        for at in shards:
            given = (self.plan, self.loaded.shards[at], self.loaded.whole[0], self.coupling)
            self.bends[at] = self.crew.submit(at, self.way.curvature_of, *given)

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

    def _validate(self) -> bool:
        loaded, crew, now = self.loaded, self.crew, self.standing
        if not self.watch.n_iter_no_change:
            return False
        given = (loaded.whole[0],), (now.model, now.n_averaged)
        sums = [
            crew.submit(at, held_out_loss, self.plan, *given[0], held, *given[1])
            for at, held in enumerate(loaded.held)
            if held is not None
        ]
        if self.watch.is_better(crew.gather(sums)):
            self.best = now
        return self.watch.is_over

    def _model(self, owner: Any, settled: Planned, curve: list[float]) -> list[Any]:
        now, loaded, origin = self.best or self.standing, self.loaded, self.loaded.origin
        found = Found(
            curve=curve,
            n_averaged=now.n_averaged,
            settled=replace(settled, plan=self.plan),
            n_rows=sum(loaded.n_rows) + sum(loaded.n_held),
            names=loaded.told[0].names,
            validation_curve=self.watch.curve,
            best_iter=self.watch.best_iter,
            sparse_labels=loaded.sparse_labels if loaded.several else None,
        )
        all_know = (loaded.whole[0], loaded.classes[0], loaded.counts[0], loaded.scaling[0])
        given = (owner, origin.call is not None, origin.facts, found, now.model, all_know)
        made = self.crew.submit(loaded.largest, model_of, *given, loaded.shards[loaded.largest])
        return [made] if self.alone else [made, self.crew.submit(loaded.largest + 1, same, made)]

    def _round(self, leg: Leg) -> list[Report]:
        crew, was, whole = self.crew, self.standing, self.loaded.whole[0]
        passed = [
            crew.submit(
                at, self.way.make_pass, self.plan, whole, shard, self.bends[at], was.parts, was.carried[at], leg
            )
            for at, shard in enumerate(self.loaded.shards)
        ]
        parts = []
        for at, part in enumerate(was.parts):
            changes = [crew.submit(other, change_of, one, at) for other, one in enumerate(passed)]
            parts.append(crew.submit(at, self.way.merge, self.plan, part, self.of_parts[at], changes, leg))
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
        self._recover_best(lost)
        carried = [None if at in moved else one for at, one in enumerate(was.carried)]
        if not self.alone:
            self._measure(moved)
            self._sum_up(range(len(parts)))
        whole_total = was.total is not None and all(crew.holders(one, lost) for one in was.total)
        total, n_averaged = (was.total, was.n_averaged) if whole_total else (None, 0)
        self.standing = Standing(parts, self._copies(parts), carried, total, n_averaged)

    def _recover_best(self, lost: frozenset[str]) -> None:
        """Keep the best W so far, from where it is left; where it is not, the next pass is the best."""
        best, crew = self.best, self.crew
        if best is None:
            return
        left = []
        for at, piece in enumerate(best.model):
            both = (piece, *(best.copies[at : at + 1] if best.total is None else ()))
            left.append([one for one in both if crew.holders(one, lost)])
        if not all(left):
            self.best = None
            self.watch.forget()
            return
        parts = [crew.submit(at, same, held[0]) for at, held in enumerate(left)]
        total = None if best.total is None else parts
        self.best = replace(best, parts=parts, copies=self._copies(parts), total=total)


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
