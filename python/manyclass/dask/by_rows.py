"""Training by rows on a cluster: a pass on each worker, then a merge of each part of W on one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from distributed import Future
from sklearn.base import clone

from manyclass.choosing.trials import Planned
from manyclass.classifiers.answers import state_of, with_state
from manyclass.classifiers.base import LabelClassifier, planner_of
from manyclass.dask.loading import Common, Loaded, completed, draft_of
from manyclass.dask.merging import Curvature, couplings, size_of
from manyclass.dask.passes import BatchPasses, Passed, Passes, added
from manyclass.dask.predictions import WholeModel
from manyclass.dask.rounds import Training, same
from manyclass.dask.shards import Part, Report, Shard, Stretch, Whole, nothing
from manyclass.dask.workers import LostWorkerError, Workers
from manyclass.training.incremental import Before, Call
from manyclass.training.plan import BatchesPlan, PointsPlan
from manyclass.training.squares import Squares
from manyclass.training.state import Points, State
from manyclass.training.terms import rows_of_call
from manyclass.training.train import weights_of_call
from manyclass.weights.arrays import Ids
from manyclass.weights.scaling import FeatureScaling

# Tasks


def passes_of(plan: PointsPlan | BatchesPlan, whole: Whole) -> Passes:
    """Return the passes and merges of a plan."""
    return (BatchPasses if isinstance(plan, BatchesPlan) else Passes)(plan, whole)


def parts_to_go_on(
    model: LabelClassifier, passes: Passes, common: Common, scaling: FeatureScaling | None
) -> list[Part]:
    """Return the parts of the W at which a call begins, made where the model is."""
    classes, counts = common.classes, common.whole.counts
    before = Before.of(state_of(model), classes, 0, Call())
    if isinstance(passes.plan, BatchesPlan):
        rows, squares = rows_of_call(passes.plan, before, classes, counts)
        return passes.split(rows.over_classes(), squares.classes)
    weights = weights_of_call(passes.plan, state_of(model).weights, classes, before, counts, scaling)
    return passes.split(weights, nothing())


def change_of(passed: Passed, part: int) -> tuple[Ids, Part]:
    """Return what a pass has changed in a part of W."""
    return passed.changes[part]


def model_of(
    owner: LabelClassifier,
    draft: State,
    common: Common,
    scaling: FeatureScaling | None,
    before: State | None,
    passes: Passes,
    parts: Sequence[Part],
    n_averaged: int,
    shard: Shard,
) -> LabelClassifier:
    """Return the fitted estimator of one machine; `before` is what a call went on from, `shard` some of the rows."""
    weights, squares = passes.finished(parts, n_averaged), None
    if isinstance(passes.plan, BatchesPlan):
        squares = Squares(classes=np.concatenate([part.squares for part in parts]))
    if scaling is not None:
        scaling.fold(weights)
    state = completed(draft, common, scaling, weights, squares=squares)
    if state.several:
        points = Points(shard.x, shard.lists, state.classes, state.features, several=True, weights=shard.weights)
        state = planner_of(owner).labelled(state, points, before)
    found: LabelClassifier = with_state(clone(owner), state)
    return found


# Rounds


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
        """The parts that predict: the sums of the iterates in the average, or W."""
        return self.parts if self.total is None else self.total


class RowsTraining(Training):
    """Rounds of a training by rows."""

    def __init__(self, workers: Workers, loaded: Loaded, plan: PointsPlan | BatchesPlan, n_merges: int) -> None:
        self.workers, self.loaded, self.plan, self.n_merges = workers, loaded, replace(plan, verbose=0), n_merges
        # Of early stopping: losses of rows held out, the pass of the least, from 1 (0: none), and where training stood.
        self.validation_curve: list[float] = []
        self.best_iter, self.least = 0, np.inf
        self.best: Standing | None = None
        n = len(loaded.shards)
        self.passes = self._share_passes()
        self.curvatures: list[Any] = [None] * n
        self.curvatures_of_parts: list[Any] = [None] * n
        if not self.alone:
            sizes = workers.gather(workers.each(size_of, loaded.shards))
            self.coupling = couplings(sizes, fit_intercept=plan.fit_intercept)
            self._measure(range(n))
        parts = self._first_parts(loaded.origin.model)
        self.standing = Standing(parts, self._copies(parts), [None] * n)

    @property
    def alone(self) -> bool:
        """Whether one worker trains."""
        return len(self.loaded.shards) == 1

    def _share_passes(self) -> list[Any]:
        """Give workers the object whose methods are their tasks."""
        return self.workers.everywhere(passes_of, self.plan, self.loaded.whole[0])

    def _task(self, at: int, method: str, *given: Any) -> Any:
        """Let the worker of a shard call a method of the passes."""
        kind = BatchPasses if isinstance(self.plan, BatchesPlan) else Passes
        return self.workers.submit(at, getattr(kind, method), self.passes[0], *given)

    def _first_parts(self, model: Future | LabelClassifier | None) -> list[Any]:
        workers, loaded, n = self.workers, self.loaded, len(self.loaded.shards)
        if model is None:
            return [self._task(at, "first_part", at) for at in range(n)]
        given = (model, self.passes[0], loaded.common[0], loaded.scaling[0])
        all_parts = workers.submit_where_it_is(model, parts_to_go_on, *given)
        picked = [workers.submit_where_it_is(model, itemgetter(at), all_parts) for at in range(n)]
        parts = workers.each(same, picked)
        workers.wait(parts)
        return parts

    def _copies(self, pieces: list[Any]) -> list[Any]:
        """Copy each part of W to the next worker; with one worker there is none."""
        return [] if self.alone else [self.workers.submit(at + 1, same, piece) for at, piece in enumerate(pieces)]

    def _measure(self, shards: Iterable[int]) -> None:
        """Measure curvatures of shards, and add up those of all by parts of W."""
        workers, whole = self.workers, self.loaded.whole[0]
        for at in shards:
            self.curvatures[at] = self._task(at, "curvature", self.loaded.shards[at], self.coupling)
        for at in range(len(self.curvatures)):
            some = workers.each(Curvature.part, self.curvatures, whole, at)
            self.curvatures_of_parts[at] = workers.submit(at, Curvature.total, some)

    def _round(self, stretch: Stretch) -> list[Report]:
        workers, was = self.workers, self.standing
        passed = [
            self._task(at, "make_pass", shard, self.curvatures[at], was.parts, was.carried[at], stretch)
            for at, shard in enumerate(self.loaded.shards)
        ]
        parts = []
        for at, part in enumerate(was.parts):
            changes = workers.each(change_of, passed, at)
            parts.append(self._task(at, "merge", part, self.curvatures_of_parts[at], changes, stretch))
        carried, reports = (workers.each(attrgetter(what), passed) for what in ("carried", "report"))
        copies = self._copies(parts)
        workers.wait([*parts, *copies, *carried, *reports])
        told: list[Report] = workers.gather(reports)
        self.standing = replace(was, parts=parts, copies=copies, carried=carried)
        return told

    def _after_pass(self, reports: list[Report]) -> None:
        """Add W to the average, where it is to be in it."""
        if not reports[-1].averaged:
            return
        was, sparse = self.standing, self.loaded.facts[0].sparse
        before = was.total or [None] * len(was.parts)
        both = enumerate(zip(before, was.parts, strict=True))
        total = [self.workers.submit(at, added, one, part, sparse) for at, (one, part) in both]
        self.standing = replace(was, total=total, n_averaged=was.n_averaged + 1)

    def _validate(self) -> bool:
        loaded, now = self.loaded, self.standing
        if not any(loaded.n_held):
            return False
        sums = [
            self._task(at, "held_out_loss", held, now.model, now.n_averaged)
            for at, held in enumerate(loaded.held)
            if held is not None
        ]
        loss, weight = np.sum(self.workers.gather(sums), axis=0)
        self.validation_curve.append(float(loss / weight))
        n_iter = len(self.validation_curve)
        if self.validation_curve[-1] < self.least:
            self.best, self.best_iter, self.least = now, n_iter, self.validation_curve[-1]
        return bool(n_iter - self.best_iter >= loaded.planner.parameters["n_iter_no_change"])

    def _model(self, owner: LabelClassifier, settled: Planned, curve: list[float]) -> WholeModel:
        now, loaded = self.best or self.standing, self.loaded
        told = {"validation_curve": np.array(self.validation_curve), "best_iter": self.best_iter}
        draft, before = draft_of(loaded, settled, curve, **told), loaded.origin.state
        given = (owner, draft, loaded.common[0], loaded.scaling[0], before, self.passes[0], now.model, now.n_averaged)
        made = self.workers.submit(loaded.largest, model_of, *given, loaded.shards[loaded.largest])
        copies = () if self.alone else (self.workers.submit(loaded.largest + 1, same, made),)
        return WholeModel(self.workers.client, (made, *copies))

    def _recover(self, lost: frozenset[str]) -> None:
        """Give the shards of lost workers to others: W is that of the last merge, and rows are read again."""
        workers, was = self.workers, self.standing
        moved = workers.replace(lost)
        self.loaded.restore(moved, lost)
        self.passes = self._share_passes()
        parts = self._left(was.parts, was.copies, lost)
        if parts is None:
            raise LostWorkerError(lost)  # training begins again
        if self.best is not None:
            self._recover_best(self.best, lost)
        if not self.alone:
            self._measure(moved)
        carried = [None if at in moved else one for at, one in enumerate(was.carried)]
        whole_total = was.total is not None and all(workers.holders(one, lost) for one in was.total)
        total, n_averaged = (was.total, was.n_averaged) if whole_total else (None, 0)
        self.standing = Standing(parts, self._copies(parts), carried, total, n_averaged)

    def _recover_best(self, best: Standing, lost: frozenset[str]) -> None:
        """Keep the best W so far, from where it is left; where it is not, the next pass is the best."""
        parts = self._left(best.model, best.copies if best.total is None else [], lost)
        if parts is None:
            self.best, self.least = None, np.inf
            return
        total = None if best.total is None else parts
        self.best = replace(best, parts=parts, copies=self._copies(parts), total=total)

    def _left(self, pieces: list[Any], copies: list[Any], lost: frozenset[str]) -> list[Any] | None:
        """Return the parts of W after a loss, each from one of the two workers that had it; None where one is lost."""
        both = [(piece, *copies[at : at + 1]) for at, piece in enumerate(pieces)]
        left = [[one for one in held if self.workers.holders(one, lost)] for held in both]
        return [self.workers.submit(at, same, held[0]) for at, held in enumerate(left)] if all(left) else None
