"""Training on a cluster: rounds, by rows or by rows and classes, each made again where workers are lost in it.

By rows a round is a pass on each worker, then a merge of each part of W on one of them. By rows and classes each block
of classes visits each worker once in a round.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, TypeVar

import numpy as np
from distributed import Future, get_worker
from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.classifiers.base import LabelClassifier, planner_of
from manyclass.classifiers.predictions import state_of, with_state
from manyclass.dask import blocks
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Loaded
from manyclass.dask.passes import BatchPasses, Curvature, PassReport, Shard, ShardPasses, Stretch, WeightPart, Whole
from manyclass.dask.predictions import ClusterModel
from manyclass.dask.workers import LostWorkerError, same
from manyclass.fitting.planner import report_of
from manyclass.parts import Part
from manyclass.solvers import Exact, Implicit
from manyclass.training.incremental import Before, Call, rows_of_call, weights_of_call
from manyclass.training.passes import Validation, place_in_words, warn_of_clock, warn_user
from manyclass.training.plan import BatchesPlan, PointsPlan
from manyclass.training.state import Features, FitReport, History, Points, Squares, State
from manyclass.weights.arrays import NO_FLOATS, Floats
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
        pairs = zip(before, reports, strict=True)
        self.workers = [{name: counts[name] + getattr(report, name) for name in names} for counts, report in pairs]


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
            self.workers.wait([*model.model, *chain.from_iterable(model.blocks)])
            state = self.workers.submit(self.loaded.largest, without_weights, model.model[0])
            [state] = self.workers.gather([state])
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


# By rows: tasks


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


# By rows: rounds


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

    def __init__(self, loaded: Loaded, plan: Any, n_merges: int, model: Future | LabelClassifier | None = None) -> None:
        super().__init__(loaded, plan, n_merges)
        rows_on_workers: Any = None
        self.validation = Validation(loaded.planner.parameters["n_iter_no_change"], rows_on_workers)
        self.best: RowsState | None = None  # where training stood after the best pass of early stopping
        n = len(loaded.shards)
        self.alone = n == 1
        self.passes = self._share_passes()
        self.curvatures: list[Any] = [None] * n
        self.curvatures_of_parts: list[Any] = [None] * n
        if not self.alone:
            sizes = self.workers.gather(self.workers.each(Shard.size, loaded.shards))
            self.coupling = Curvature.couplings(sizes, fit_intercept=plan.fit_intercept)
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
        """Bring the parts of a model to the workers that merge them."""
        workers = self.workers
        workers.watched = workers.holders(model) if isinstance(model, Future) else set()
        all_parts = workers.submit(0, parts_to_go_on, model, self.passes[0], self.loaded.whole[0])
        parts = workers.each(same, [workers.submit(0, itemgetter(i), all_parts) for i in range(len(self.curvatures))])
        workers.wait(parts)
        workers.watched = set()
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
        changes = [workers.each(methodcaller("change", i), passed) for i in range(len(passed))]
        merges = zip(was.parts, self.curvatures_of_parts, changes, strict=True)
        parts = [self._task(i, "merge", *merge, stretch) for i, merge in enumerate(merges)]
        carried, reports = (workers.each(attrgetter(name), passed) for name in ("carried", "report"))
        copies = workers.copies(parts)
        workers.wait([*parts, *copies, *carried, *reports])
        gathered: list[PassReport] = workers.gather(reports)
        total, n_averaged = was.total, was.n_averaged
        if gathered[-1].averaged and not any(report.diverged for report in gathered):
            sums = zip(total or [None] * len(parts), parts, strict=True)
            total = [self._task(i, "added", *terms) for i, terms in enumerate(sums)]
            n_averaged += 1
        self.state = RowsState(parts, copies, carried, total, n_averaged)
        return gathered

    def _validate(self) -> bool:
        shards, now = self.loaded.shards, self.state
        places = np.flatnonzero(self.loaded.n_held_out).tolist()
        if not places:
            return False
        sums = [self._task(i, "held_out_loss", shards[i], now.model, now.n_averaged) for i in places]
        loss, weight = np.sum(self.workers.gather(sums), axis=0)
        ends = self.validation.keep_if_best(float(loss / weight), {})
        if self.validation.best_iter == len(self.validation.curve):
            self.best = now
        return ends

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> ClusterModel:
        now, loaded, validation = self.best or self.state, self.loaded, self.validation
        stopping = {"validation_curve": np.array(validation.curve), "best_iter": validation.best_iter}
        draft, i = draft_of(loaded, planned, curve, **stopping), loaded.largest
        known = (owner, draft, loaded.whole[0], loaded.state, self.passes[0])
        model = self.workers.submit(i, model_of, *known, now.model, now.n_averaged, loaded.shards[i])
        copies = () if self.alone else (self.workers.submit(i + 1, same, model),)
        return ClusterModel(self.workers.client, (model, *copies))

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
            self.best, self.validation.best_iter = None, 0

    def _is_there(self, futures: list[Any], lost: frozenset[str]) -> bool:
        return all(self.workers.holders(future, lost) for future in futures)


# By rows and classes


def solver_on_blocks(loaded: Loaded) -> Part | None:
    """Return what solver="auto" stands for on blocks; None for a solver that was chosen."""
    if not loaded.planner.parameters.is_auto("solver"):
        return None
    facts = loaded.facts[loaded.largest]
    return Exact() if takes_exact_steps(loaded.n_classes, facts.stored / facts.n_rows) else Implicit()


class BlocksTraining(Training):
    """Rounds of a training by rows and classes: in each, each block visits each worker once.

    Attributes
    ----------
    buffers : list of future of ndarray
        W: the block of the same number, which tasks change in place. Only tasks on its own worker may be given it: the
        scheduler takes a copy on another for as good.
    stored : list of list of list of future of StoredPiece
        Of each block its pieces, of each of these two copies on disks, that of its own worker and that of the next;
        none before the first round, and with one worker.
    log_sums : list of future of ndarray or None
        What the rows of each shard keep.
    """

    def __init__(self, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        super().__init__(loaded, plan, n_merges)
        workers = loaded.workers
        [self.n_pieces] = workers.gather([workers.submit(0, blocks.n_pieces, loaded.whole[0])])
        self.stored: list[list[list[Any]]] = []
        self.log_sums: list[Any] = [None] * len(loaded.shards)
        self._begin()

    def _begin(self) -> None:
        """Let each worker have a block of W = 0."""
        whole, n = self.loaded.whole[0], len(self.loaded.shards)
        self.buffers = [self.workers.submit(i, blocks.buffer_at_zero, whole, i) for i in range(n)]

    def _round(self, stretch: Stretch) -> list[PassReport]:
        workers, whole = self.workers, self.loaded.whole[0]
        log_sums, n = list(self.log_sums), len(self.buffers)
        reports: list[Any] = []
        before: list[list[Any]] = [[] for _ in range(n)]
        for inner in range(n):
            for i, shard in enumerate(self.loaded.shards):
                arguments = (self.plan, whole, shard, self.buffers[i], (i + inner) % n, log_sums[i], stretch)
                turned = workers.submit(i, blocks.turn, *arguments, *before[i])
                log_sums[i], report = (workers.submit(i, itemgetter(part), turned) for part in (0, 1))
                before[i] = [report]
                reports.append(report)
            if n > 1:
                before = self._move_on(before)
        stored = self._store(before)
        workers.wait([*log_sums, *reports, *chain.from_iterable(before), *_leaves(stored)])
        gathered = workers.gather(reports)
        self.stored, self.log_sums = stored, log_sums
        return [_sum_reports(gathered[i::n]) for i in range(n)]

    def _move_on(self, before: list[list[Any]]) -> list[list[Any]]:
        """Let each worker take the block of the next one, piece by piece; return what comes before each next turn.

        A worker gives a copy of a piece, puts that of the other in its place, and gives the next when its own has
        arrived: so it has two pieces at most beside its block.
        """
        n, give, take = len(before), blocks.give_piece, blocks.take_piece
        for piece in range(self.n_pieces):
            given_away = [self._on_buffer(i, give, piece, *before[i]) for i in range(n)]
            arrivals = [self._on_buffer(i, take, piece, given_away[(i + 1) % n], given_away[i]) for i in range(n)]
            for future in given_away:  # all tasks have had them; Python may keep futures in cycles for long
                future.release()
            before = [[arrivals[i], arrivals[i - 1]] for i in range(n)]
        return before

    def _on_buffer(self, i: int, function: Any, piece: int, *arguments: Any) -> Any:
        """Let the i-th worker call a function with its buffer and a piece of the block there."""
        return self.workers.submit(i, function, self.loaded.whole[0], self.buffers[i], piece, *arguments)

    def _store(self, before: list[list[Any]]) -> list[list[list[Any]]]:
        """Copy blocks to disks after a round, one piece after the other; return the copies."""
        stored: list[list[list[Any]]] = [[] for _ in before if len(before) > 1]
        for i, pieces in enumerate(stored):
            for piece in range(self.n_pieces):
                values = self._on_buffer(i, blocks.give_piece, piece, *(pieces[-1] if pieces else before[i]))
                pieces.append([self.workers.submit(i + j, store_piece, values) for j in (0, 1)])
                values.release()
        return stored

    def _recover(self, moved: list[int], lost: frozenset[str]) -> None:
        """See `Training`: W is that of the last round, each block from one of two disks."""
        workers, whole, read = self.workers, self.loaded.whole[0], blocks.StoredPiece.read
        if not self.stored and any(self.log_sums):
            raise LostWorkerError(lost)  # the only worker: training begins again
        self._begin()  # which is all, if it was in the first round
        restored: list[list[Any]] = [[] for _ in self.stored]
        for i, pieces in enumerate(self.stored):
            for piece, copies in enumerate(pieces):
                file = workers.survivors(copies, lost)[0]
                values = workers.submit(i + copies.index(file), read, file, *restored[i])
                restored[i] = [self._on_buffer(i, blocks.take_piece, piece, values)]
            self.buffers[i] = workers.submit(i, same, self.buffers[i], *restored[i])
        if self.stored:
            for i in moved:
                self.log_sums[i] = workers.submit(i, blocks.lost_log_sums, whole, self.loaded.shards[i])
            self.stored = self._store(restored)
            workers.wait(_leaves(self.stored))  # before the next round moves what they copy

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> ClusterModel:
        workers, buffers, whole = self.workers, self.buffers, self.loaded.whole[0]
        estimators = workers.everywhere(model_without_weights, owner, draft_of(self.loaded, planned, curve), whole)
        finish = blocks.finished_block
        futures = [workers.submit(i, finish, self.plan, whole, buffer, i) for i, buffer in enumerate(buffers)]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        twice = 1 == self.n_pieces < len(buffers)
        block_copies = zip(futures, workers.copies(futures), strict=True) if twice else zip(futures)
        return ClusterModel(workers.client, tuple(estimators), tuple(block_copies))


def _leaves(stored: list[list[list[Any]]]) -> list[Any]:
    return [copy for pieces in stored for copies in pieces for copy in copies]


def model_without_weights(owner: LabelClassifier, draft: dict[str, Any], whole: Whole) -> LabelClassifier:
    """Return the fitted estimator without W, which has taken up the scaling of features."""
    none = Weights.zeros(0, 0, by_feature=whole.sparse)
    model: LabelClassifier = with_state(clone(owner), completed(draft, whole, none))
    return model


def store_piece(values: Floats) -> blocks.StoredPiece:
    """Copy a piece of a block to the disk of this worker."""
    return blocks.StoredPiece(values, get_worker().local_directory)


def _sum_reports(reports: Sequence[PassReport]) -> PassReport:
    """Return the report of a worker on all blocks, which has visited its rows once."""
    sums: Any = map(sum, zip(*reports, strict=True))
    total = PassReport(*sums)
    return total._replace(n_visits=total.n_visits // len(reports))
