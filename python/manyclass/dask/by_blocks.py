"""Training by rows and classes on a cluster: in a round each block of classes visits each worker once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from distributed import get_worker
from sklearn.base import clone

from manyclass.choosing.plans import Planned
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import with_state
from manyclass.dask import stored_blocks
from manyclass.dask.blocks import finished_block, lost_log_sums, turn
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Common, Loaded, completed, draft_of
from manyclass.dask.predictions import BlocksModel
from manyclass.dask.rounds import Training, same
from manyclass.dask.shards import PassReport, Stretch
from manyclass.dask.workers import LostWorkerError, Workers
from manyclass.parts import Part
from manyclass.solvers import Exact, Implicit
from manyclass.training.plan import PointsPlan
from manyclass.training.state import State
from manyclass.weights.scaling import FeatureScaling
from manyclass.weights.weights import Weights


def solver_on_blocks(loaded: Loaded) -> Part | None:
    """Return what solver="auto" stands for on blocks; None for a solver that was chosen."""
    if not loaded.planner.parameters.is_auto("solver"):
        return None
    facts = loaded.facts[loaded.largest]
    return Exact() if takes_exact_steps(loaded.n_classes, facts.stored / facts.n_rows) else Implicit()


@dataclass
class BlocksState:
    """Where training stands between two rounds.

    Attributes
    ----------
    buffers : list of future of ndarray
        W: the block of the same number, which tasks change in place. Only tasks on its own worker may be given it: the
        scheduler takes a copy on another for as good.
    stored : list of list of future of StoredBlock
        Of each block two copies on disks, that of its own worker and that of the next; none before the first round, and
        with one worker.
    log_sums : list of future of ndarray or None
        What the rows of each shard keep.
    """

    buffers: list[Any]
    stored: list[list[Any]]
    log_sums: list[Any]


class BlocksTraining(Training):
    """Rounds of a training by rows and classes: in each, each block visits each worker once."""

    def __init__(self, workers: Workers, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        self.workers, self.loaded, self.plan, self.n_merges = workers, loaded, replace(plan, verbose=0), n_merges
        [self.n_pieces] = workers.gather([workers.submit(0, stored_blocks.n_pieces, loaded.whole[0])])
        self.state = self._at_zero()

    def _at_zero(self) -> BlocksState:
        n = len(self.loaded.shards)
        buffers = [
            self.workers.submit(number, stored_blocks.buffer_at_zero, self.loaded.whole[0], number)
            for number in range(n)
        ]
        return BlocksState(buffers, [], [None] * n)

    def _round(self, stretch: Stretch) -> list[PassReport]:
        workers, was, whole = self.workers, self.state, self.loaded.whole[0]
        log_sums, n = list(was.log_sums), len(was.buffers)
        reports: list[list[Any]] = []
        before: list[list[Any]] = [[] for _ in range(n)]
        for inner in range(n):
            reports.append([])
            for worker, shard in enumerate(self.loaded.shards):
                arguments = (
                    self.plan,
                    whole,
                    shard,
                    was.buffers[worker],
                    (worker + inner) % n,
                    log_sums[worker],
                    stretch,
                )
                turned = workers.submit(worker, turn, *arguments, *before[worker])
                log_sums[worker] = workers.submit(worker, attrgetter("log_sums"), turned)
                reports[-1].append(workers.submit(worker, attrgetter("report"), turned))
                before[worker] = [reports[-1][-1]]
            if n > 1:
                before = self._move_on(inner, before)
        stored = self._store(before)
        workers.wait([*log_sums, *(future for futures in (*reports, *before, *stored) for future in futures)])
        gathered = workers.gather([future for futures in reports for future in futures])
        self.state = BlocksState(was.buffers, stored, log_sums)
        return [_sum_of(gathered[worker::n], n) for worker in range(n)]

    def _move_on(self, inner: int, before: list[list[Any]]) -> list[list[Any]]:
        """Let each worker take the block of the next one, piece by piece; return what comes before each next turn.

        A worker gives a copy of a piece, puts that of the other in its place, and gives the next when its own has
        arrived: so it has two pieces at most beside its block.
        """
        n = len(before)
        for piece in range(self.n_pieces):
            pieces = [self._give(worker, (worker + inner) % n, piece, *before[worker]) for worker in range(n)]
            arrivals = [
                self._take(worker, (worker + inner + 1) % n, piece, pieces[(worker + 1) % n], pieces[worker])
                for worker in range(n)
            ]
            let_go(pieces)
            before = [[arrivals[worker], arrivals[worker - 1]] for worker in range(n)]
        return before

    def _give(self, worker: int, number: int, piece: int, *after: Any) -> Any:
        """Let a worker copy a piece of its block."""
        arguments = (self.loaded.whole[0], self.state.buffers[worker], number, piece)
        return self.workers.submit(worker, stored_blocks.give_piece, *arguments, *after)

    def _take(self, worker: int, number: int, piece: int, values: Any, *after: Any) -> Any:
        """Let a worker put a piece of a block in its buffer."""
        arguments = (self.loaded.whole[0], self.state.buffers[worker], number, piece, values)
        return self.workers.submit(worker, stored_blocks.take_piece, *arguments, *after)

    def _store(self, before: list[list[Any]]) -> list[list[Any]]:
        """Copy blocks to disks after a round; return the copies."""
        workers, whole, n = self.workers, self.loaded.whole[0], len(before)
        if n == 1:
            return []
        stored = [[workers.submit(worker + on, create_file, *before[worker]) for on in (0, 1)] for worker in range(n)]
        for worker, copies in enumerate(stored):
            ready, written = before[worker], copies
            for piece in range(self.n_pieces):
                values = self._give(worker, worker, piece, *ready)
                ready = written = [
                    workers.submit(
                        worker + on, stored_blocks.StoredBlock.write, file, whole, worker, piece, values, written[on]
                    )
                    for on, file in enumerate(copies)
                ]
                let_go([values])
            copies[:] = [workers.submit(worker + on, same, file, written[on]) for on, file in enumerate(copies)]
        return stored

    def _recover(self, lost: frozenset[str]) -> None:
        """Give the shards of lost workers to others: W is that of the last round, and rows are read again."""
        workers, was = self.workers, self.state
        moved = workers.replace(lost)
        self.loaded.restore(moved, lost)
        whole = self.loaded.whole[0]
        self.state = self._at_zero()
        if not was.stored:  # it was in the first round
            if any(future is not None for future in was.log_sums):
                raise LostWorkerError(lost)  # the only worker: training begins again
            return
        put: list[list[Any]] = []  # what comes after a block is back
        for worker, copies in enumerate(was.stored):
            on = next((on for on, future in enumerate(copies) if workers.holders(future, lost)), None)
            if on is None:
                raise LostWorkerError(lost)
            after: list[Any] = []
            for piece in range(self.n_pieces):
                read = workers.submit(
                    worker + on, stored_blocks.StoredBlock.read, copies[on], whole, worker, piece, *after
                )
                after = [self._take(worker, worker, piece, read, *after)]
            put.append(after)
            self.state.buffers[worker] = workers.submit(worker, same, self.state.buffers[worker], *after)
        self.state.log_sums = [
            workers.submit(worker, lost_log_sums, whole, self.loaded.shards[worker]) if worker in moved else future
            for worker, future in enumerate(was.log_sums)
        ]
        self.state.stored = self._store(put)
        workers.wait(
            [future for copies in self.state.stored for future in copies]
        )  # before the next round moves what they copy

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> BlocksModel:
        loaded, workers, n = self.loaded, self.workers, len(self.state.buffers)
        arguments = (owner, draft_of(loaded, planned, curve), loaded.common[0], loaded.scaling[0])
        estimators = workers.everywhere(model_without_weights, *arguments)
        blocks = [
            workers.submit(worker, finished_block, self.plan, loaded.whole[0], buffer, worker, loaded.scaling[0])
            for worker, buffer in enumerate(self.state.buffers)
        ]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        copies = (
            [workers.submit(worker + 1, same, block) for worker, block in enumerate(blocks)]
            if 1 == self.n_pieces < n
            else []
        )
        pairs = tuple((block, *copies[worker : worker + 1]) for worker, block in enumerate(blocks))
        return BlocksModel(workers.client, tuple(estimators), pairs)


def let_go(futures: Sequence[Any]) -> None:
    """Let workers forget results that all tasks have had; Python may keep futures in cycles for long."""
    for future in futures:
        future.release()


def model_without_weights(
    owner: LabelClassifier, draft: State, common: Common, scaling: FeatureScaling | None
) -> LabelClassifier:
    """Return the fitted estimator without W, which has taken up the scaling of features."""
    none = Weights.zeros(0, 0, by_feature=common.whole.sparse)
    model: LabelClassifier = with_state(clone(owner), completed(draft, common, scaling, none))
    return model


def create_file(*_after: Any) -> stored_blocks.StoredBlock:
    """Make a file in the folder of this worker."""
    return stored_blocks.StoredBlock(get_worker().local_directory)


def _sum_of(reports: Sequence[PassReport], n: int) -> PassReport:
    """Return the report of a worker on all blocks, which has visited its rows once."""
    added = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("class_updates", "loss", "bytes_in", "bytes_out")
    }
    visits = sum(report.n_visits for report in reports) // n
    return PassReport(n_visits=visits, diverged=any(part.diverged for part in reports), **added)
