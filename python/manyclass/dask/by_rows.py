"""Training by rows on a cluster: a pass on each worker, then a merge of each part of W on one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from distributed import Future
from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.classifiers.base import LabelClassifier, planner_of
from manyclass.classifiers.predictions import state_of, with_state
from manyclass.dask.loading import Loaded
from manyclass.dask.passes import BatchPasses, Change, Curvature, Passed, ShardPasses, added, couplings, size_of
from manyclass.dask.predictions import WholeModel
from manyclass.dask.rounds import Training, completed, draft_of
from manyclass.dask.shards import PassReport, Shard, Stretch, WeightPart, Whole
from manyclass.dask.workers import same
from manyclass.training.incremental import Before, Call, rows_of_call
from manyclass.training.plan import BatchesPlan, PointsPlan
from manyclass.training.state import Points, Squares, State
from manyclass.training.train import weights_of_call
from manyclass.weights.arrays import NO_FLOATS

# Tasks


def passes_of(plan: PointsPlan | BatchesPlan, whole: Whole) -> ShardPasses:
    """Return the passes and merges of a plan."""
    return (BatchPasses if isinstance(plan, BatchesPlan) else ShardPasses)(plan, whole)


def parts_to_go_on(model: LabelClassifier, passes: ShardPasses, whole: Whole) -> list[WeightPart]:
    """Return the parts of the W at which a call begins, made where the model is."""
    classes, counts = whole.classes, whole.counts
    before = Before.of(state_of(model), classes, 0, Call())
    if isinstance(passes.plan, BatchesPlan):
        rows, squares = rows_of_call(passes.plan, before, classes, counts)
        return passes.split(rows.over_classes(), squares.classes)
    weights = weights_of_call(passes.plan, state_of(model).weights, classes, before, counts, whole.scaling)
    return passes.split(weights, NO_FLOATS)


def change_of(passed: Passed, part: int) -> Change:
    """Return what a pass has changed in a part of W."""
    return passed.changes[part]


def model_of(
    owner: LabelClassifier,
    draft: dict[str, Any],
    whole: Whole,
    before: State | None,
    passes: ShardPasses,
    parts: Sequence[WeightPart],
    n_averaged: int,
    shard: Shard,
) -> LabelClassifier:
    """Return the fitted estimator of one machine; `before` is what a call went on from, `shard` some of the rows."""
    weights, squares = passes.finished(parts, n_averaged), None
    if isinstance(passes.plan, BatchesPlan):
        squares = Squares(classes=np.concatenate([part.squares for part in parts]))
    if whole.scaling is not None:
        whole.scaling.fold(weights)
    state = completed(draft, whole, weights, squares=squares)
    if state.several:
        points = Points(shard.x, shard.lists, state.classes, state.features, several=True, weights=shard.weights)
        state = planner_of(owner).labelled(state, points, before)
    model: LabelClassifier = with_state(clone(owner), state)
    return model


# Rounds


@dataclass
class RowsState:
    """Where training stands between two rounds.

    Attributes
    ----------
    parts : list of future of WeightPart
        W after the last merge.
    copies : list of future of WeightPart
        The same on the next worker; none with one worker.
    carried : list of future of CarriedNumbers or None
    total : list of future of WeightPart or None
        Sum of the iterates in the average.
    n_averaged : int
        How many these are.
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
    """Rounds of a training by rows; `model` is the one that a call goes on from, or a future of it."""

    def __init__(
        self,
        loaded: Loaded,
        plan: PointsPlan | BatchesPlan,
        n_merges: int,
        model: Future | LabelClassifier | None = None,
    ) -> None:
        super().__init__(loaded, plan, n_merges)
        # Of early stopping: losses of rows held out, the pass of the least, from 1 (0: none), and where training stood.
        self.validation_curve: list[float] = []
        self.best_iter, self.least = 0, np.inf
        self.best: RowsState | None = None
        n = len(loaded.shards)
        self.alone = n == 1
        self.passes = self._share_passes()
        self.curvatures: list[Any] = [None] * n
        self.curvatures_of_parts: list[Any] = [None] * n
        if not self.alone:
            sizes = self.workers.gather(self.workers.each(size_of, loaded.shards))
            self.coupling = couplings(sizes, fit_intercept=plan.fit_intercept)
            self._measure(range(n))
        parts = [self._task(i, "first_part", i) for i in range(n)] if model is None else self._parts_of(model)
        self.state = RowsState(parts, self.workers.copies(parts), [None] * n)

    def _share_passes(self) -> list[Any]:
        """Give workers the object whose methods are their tasks."""
        return self.workers.everywhere(passes_of, self.plan, self.loaded.whole[0])

    def _task(self, i: int, method: str, *arguments: Any) -> Any:
        """Let the worker of a shard call a method of the passes."""
        kind = BatchPasses if isinstance(self.plan, BatchesPlan) else ShardPasses
        return self.workers.submit(i, getattr(kind, method), self.passes[0], *arguments)

    def _parts_of(self, model: Future | LabelClassifier) -> list[Any]:
        """Bring the parts of a model from where it is to the workers that merge them."""
        workers = self.workers
        all_parts = workers.submit_where_it_is(model, parts_to_go_on, model, self.passes[0], self.loaded.whole[0])
        there = [workers.submit_where_it_is(model, itemgetter(i), all_parts) for i in range(len(self.curvatures))]
        parts = workers.each(same, there)
        workers.wait(parts)
        return parts

    def _measure(self, shards: Iterable[int]) -> None:
        """Measure curvatures of shards, and add up those of all by parts of W."""
        workers, whole = self.workers, self.loaded.whole[0]
        for i in shards:
            self.curvatures[i] = self._task(i, "curvature", self.loaded.shards[i], self.coupling)
        for i in range(len(self.curvatures)):
            curvatures = workers.each(Curvature.part, self.curvatures, whole, i)
            self.curvatures_of_parts[i] = workers.submit(i, Curvature.total, curvatures)

    def _round(self, stretch: Stretch) -> list[PassReport]:
        workers, was = self.workers, self.state
        passed = [
            self._task(i, "make_pass", shard, self.curvatures[i], was.parts, was.carried[i], stretch)
            for i, shard in enumerate(self.loaded.shards)
        ]
        parts = [
            self._task(i, "merge", part, self.curvatures_of_parts[i], workers.each(change_of, passed, i), stretch)
            for i, part in enumerate(was.parts)
        ]
        carried, reports = (workers.each(attrgetter(name), passed) for name in ("carried", "report"))
        copies = workers.copies(parts)
        workers.wait([*parts, *copies, *carried, *reports])
        gathered: list[PassReport] = workers.gather(reports)
        total, n_averaged = was.total, was.n_averaged
        if gathered[-1].averaged and not any(report.diverged for report in gathered):
            sums, sparse = zip(total or [None] * len(parts), parts, strict=True), self.loaded.facts[0].sparse
            total = [workers.submit(i, added, *terms, sparse) for i, terms in enumerate(sums)]
            n_averaged += 1
        self.state = RowsState(parts, copies, carried, total, n_averaged)
        return gathered

    def _validate(self) -> bool:
        loaded, now = self.loaded, self.state
        if not any(loaded.n_held_out):
            return False
        sums = [
            self._task(i, "held_out_loss", shard, now.model, now.n_averaged)
            for i, shard in enumerate(loaded.shards)
            if loaded.n_held_out[i]
        ]
        loss, weight = np.sum(self.workers.gather(sums), axis=0)
        self.validation_curve.append(float(loss / weight))
        n_iter = len(self.validation_curve)
        if self.validation_curve[-1] < self.least:
            self.best, self.best_iter, self.least = now, n_iter, self.validation_curve[-1]
        return bool(n_iter - self.best_iter >= loaded.planner.parameters["n_iter_no_change"])

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> WholeModel:
        now, loaded = self.best or self.state, self.loaded
        stopping = {"validation_curve": np.array(self.validation_curve), "best_iter": self.best_iter}
        draft, i = draft_of(loaded, planned, curve, **stopping), loaded.largest
        known = (owner, draft, loaded.whole[0], loaded.state, self.passes[0])
        model = self.workers.submit(i, model_of, *known, now.model, now.n_averaged, loaded.shards[i])
        copies = () if self.alone else (self.workers.submit(i + 1, same, model),)
        return WholeModel(self.workers.client, (model, *copies))

    def _recover(self, moved: list[int], lost: frozenset[str]) -> None:
        """See `Training`: W is that of the last merge; averages and the best W so far begin again if parts are lost."""
        was, workers = self.state, self.workers
        self.passes = self._share_passes()
        pairs = ((part, *was.copies[i : i + 1]) for i, part in enumerate(was.parts))
        parts = workers.each(same, [workers.survivors(futures, lost)[0] for futures in pairs])
        if not self.alone:
            self._measure(moved)
        carried = [None if i in moved else future for i, future in enumerate(was.carried)]
        self.state = RowsState(parts, workers.copies(parts), carried)
        if was.total is not None and self._is_there(was.total, lost):
            self.state = replace(self.state, total=was.total, n_averaged=was.n_averaged)
        if self.best is not None and not self._is_there(self.best.model, lost):
            self.best, self.least = None, np.inf

    def _is_there(self, futures: list[Any], lost: frozenset[str]) -> bool:
        return all(self.workers.holders(future, lost) for future in futures)
