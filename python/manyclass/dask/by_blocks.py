"""Training by rows and classes on a cluster: in a round each block of classes visits each worker once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

from distributed import get_worker
from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import with_state
from manyclass.dask import blocks
from manyclass.dask.blocks import finished_block, lost_log_sums, turn
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Common, Loaded
from manyclass.dask.predictions import BlocksModel
from manyclass.dask.rounds import Draft, Training, completed, draft_of
from manyclass.dask.shards import PassReport, Stretch
from manyclass.dask.workers import LostWorkerError, same
from manyclass.parts import Part
from manyclass.solvers import Exact, Implicit
from manyclass.training.plan import PointsPlan
from manyclass.weights.weights import FeatureScaling, Weights


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

    def __init__(self, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        super().__init__(loaded, plan, n_merges)
        workers = loaded.workers
        [self.n_pieces] = workers.gather([workers.submit(0, blocks.n_pieces, loaded.whole[0])])
        self.state = self._at_zero()

    def _at_zero(self) -> BlocksState:
        workers, whole, n = self.workers, self.loaded.whole[0], len(self.loaded.shards)
        buffers = [workers.submit(i, blocks.buffer_at_zero, whole, i) for i in range(n)]
        return BlocksState(buffers, [], [None] * n)

    def _round(self, stretch: Stretch) -> list[PassReport]:
        workers, was, whole = self.workers, self.state, self.loaded.whole[0]
        log_sums, n = list(was.log_sums), len(was.buffers)
        reports: list[Any] = []
        before: list[list[Any]] = [[] for _ in range(n)]
        for inner in range(n):
            for i, shard in enumerate(self.loaded.shards):
                arguments = (self.plan, whole, shard, was.buffers[i], (i + inner) % n, log_sums[i], stretch)
                turned = workers.submit(i, turn, *arguments, *before[i])
                log_sums[i] = workers.submit(i, attrgetter("log_sums"), turned)
                before[i] = [workers.submit(i, attrgetter("report"), turned)]
                reports += before[i]
            if n > 1:
                before = self._move_on(inner, before)
        stored = self._store(before)
        workers.wait([*log_sums, *reports, *chain.from_iterable((*before, *stored))])
        gathered = workers.gather(reports)
        self.state = BlocksState(was.buffers, stored, log_sums)
        return [_sum_reports(gathered[i::n], n) for i in range(n)]

    def _move_on(self, inner: int, before: list[list[Any]]) -> list[list[Any]]:
        """Let each worker take the block of the next one, piece by piece; return what comes before each next turn.

        A worker gives a copy of a piece, puts that of the other in its place, and gives the next when its own has
        arrived: so it has two pieces at most beside its block.
        """
        n, give, take = len(before), blocks.give_piece, blocks.take_piece
        for piece in range(self.n_pieces):
            given_away = [self._on_buffer(i, give, (i + inner) % n, piece, *before[i]) for i in range(n)]
            swaps = [(given_away[(i + 1) % n], given_away[i]) for i in range(n)]
            arrivals = [self._on_buffer(i, take, (i + inner + 1) % n, piece, *swap) for i, swap in enumerate(swaps)]
            release(given_away)
            before = [[arrivals[i], arrivals[i - 1]] for i in range(n)]
        return before

    def _on_buffer(self, i: int, function: Any, number: int, piece: int, *arguments: Any) -> Any:
        """Let the i-th worker call a function with its buffer and the bounds of a piece of block `number`."""
        where = (self.loaded.whole[0], self.state.buffers[i], number, piece)
        return self.workers.submit(i, function, *where, *arguments)

    def _store(self, before: list[list[Any]]) -> list[list[Any]]:
        """Copy blocks to disks after a round; return the copies."""
        workers, whole, write = self.workers, self.loaded.whole[0], blocks.StoredBlock.write
        if len(before) == 1:
            return []
        stored = [[workers.submit(i + j, create_file, *ready) for j in (0, 1)] for i, ready in enumerate(before)]
        for i, files in enumerate(stored):
            ready, written = before[i], files
            for piece in range(self.n_pieces):
                values = self._on_buffer(i, blocks.give_piece, i, piece, *ready)
                ready = written = [
                    workers.submit(i + j, write, file, whole, i, piece, values, written[j])
                    for j, file in enumerate(files)
                ]
                release([values])
            files[:] = [workers.submit(i + j, same, file, written[j]) for j, file in enumerate(files)]
        return stored

    def _recover(self, moved: list[int], lost: frozenset[str]) -> None:
        """See `Training`: W is that of the last round."""
        workers, was = self.workers, self.state
        whole, log_sums = self.loaded.whole[0], list(was.log_sums)
        self.state = self._at_zero()
        if not was.stored:  # it was in the first round
            if log_sums != [None] * len(log_sums):
                raise LostWorkerError(lost)  # the only worker: training begins again
            return
        restored = [self._restore(i, files, lost) for i, files in enumerate(was.stored)]
        for i in moved:
            log_sums[i] = workers.submit(i, lost_log_sums, whole, self.loaded.shards[i])
        self.state.log_sums, self.state.stored = log_sums, self._store(restored)
        workers.wait([*chain.from_iterable(self.state.stored)])  # before the next round moves what they copy

    def _restore(self, i: int, files: list[Any], lost: frozenset[str]) -> list[Any]:
        """Let the i-th worker read its block from one of two disks; return what comes after it is back."""
        workers, read = self.workers, blocks.StoredBlock.read
        file = workers.survivors(files, lost)[0]
        j = files.index(file)
        after: list[Any] = []
        for piece in range(self.n_pieces):
            values = workers.submit(i + j, read, file, self.loaded.whole[0], i, piece, *after)
            after = [self._on_buffer(i, blocks.take_piece, i, piece, values, *after)]
        self.state.buffers[i] = workers.submit(i, same, self.state.buffers[i], *after)
        return after

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> BlocksModel:
        loaded, workers, buffers = self.loaded, self.workers, self.state.buffers
        arguments = (owner, draft_of(loaded, planned, curve), loaded.common[0], loaded.scaling[0])
        estimators = workers.everywhere(model_without_weights, *arguments)
        futures = [
            workers.submit(i, finished_block, self.plan, loaded.whole[0], buffer, i, loaded.scaling[0])
            for i, buffer in enumerate(buffers)
        ]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        twice = 1 == self.n_pieces < len(buffers)
        block_copies = zip(futures, workers.copies(futures), strict=True) if twice else zip(futures)
        return BlocksModel(workers.client, tuple(estimators), tuple(block_copies))


def release(futures: Sequence[Any]) -> None:
    """Let workers forget results that all tasks have had; Python may keep futures in cycles for long."""
    for future in futures:
        future.release()


def model_without_weights(
    owner: LabelClassifier, draft: Draft, common: Common, scaling: FeatureScaling | None
) -> LabelClassifier:
    """Return the fitted estimator without W, which has taken up the scaling of features."""
    none = Weights.zeros(0, 0, by_feature=common.whole.sparse)
    model: LabelClassifier = with_state(clone(owner), completed(draft, common, scaling, none))
    return model


def create_file(*_after: Any) -> blocks.StoredBlock:
    """Make a file in the folder of this worker."""
    return blocks.StoredBlock(get_worker().local_directory)


def _sum_reports(reports: Sequence[PassReport], n: int) -> PassReport:
    """Return the report of a worker on all blocks, which has visited its rows once."""
    summed = ("class_updates", "loss", "bytes_in", "bytes_out")
    sums = {name: sum(getattr(report, name) for report in reports) for name in summed}
    visits = sum(report.n_visits for report in reports) // n
    return PassReport(n_visits=visits, diverged=any(part.diverged for part in reports), **sums)
