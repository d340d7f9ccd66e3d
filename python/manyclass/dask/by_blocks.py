"""Training by rows and classes on a cluster: in a round each block of classes visits each worker once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from distributed import get_worker
from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import with_state
from manyclass.dask import blocks
from manyclass.dask.blocks import finished_block, lost_log_sums, turn
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Loaded
from manyclass.dask.predictions import BlocksModel
from manyclass.dask.rounds import Training, completed, draft_of
from manyclass.dask.shards import PassReport, Stretch, Whole
from manyclass.dask.workers import LostWorkerError, same
from manyclass.parts import Part
from manyclass.solvers import Exact, Implicit
from manyclass.training.plan import PointsPlan
from manyclass.weights.arrays import Floats
from manyclass.weights.weights import Weights


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
                turned = workers.submit(i, turn, *arguments, *before[i])
                log_sums[i], report = (workers.submit(i, itemgetter(part), turned) for part in (0, 1))
                before[i] = [report]
                reports.append(report)
            if n > 1:
                before = self._move_on(inner, before)
        stored = self._store(before)
        workers.wait([*log_sums, *reports, *chain.from_iterable(before), *_leaves(stored)])
        gathered = workers.gather(reports)
        self.stored, self.log_sums = stored, log_sums
        return [_sum_reports(gathered[i::n]) for i in range(n)]

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
        return self.workers.submit(i, function, self.loaded.whole[0], self.buffers[i], number, piece, *arguments)

    def _store(self, before: list[list[Any]]) -> list[list[list[Any]]]:
        """Copy blocks to disks after a round, one piece after the other; return the copies."""
        stored: list[list[list[Any]]] = [[] for _ in before if len(before) > 1]
        for i, pieces in enumerate(stored):
            for piece in range(self.n_pieces):
                values = self._on_buffer(i, blocks.give_piece, i, piece, *(pieces[-1] if pieces else before[i]))
                pieces.append([self.workers.submit(i + j, store_piece, values) for j in (0, 1)])
                release([values])
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
                restored[i] = [self._on_buffer(i, blocks.take_piece, i, piece, values)]
            self.buffers[i] = workers.submit(i, same, self.buffers[i], *restored[i])
        if self.stored:
            for i in moved:
                self.log_sums[i] = workers.submit(i, lost_log_sums, whole, self.loaded.shards[i])
            self.stored = self._store(restored)
            workers.wait(_leaves(self.stored))  # before the next round moves what they copy

    def _model(self, owner: LabelClassifier, planned: Planned, curve: list[float]) -> BlocksModel:
        workers, buffers, whole = self.workers, self.buffers, self.loaded.whole[0]
        estimators = workers.everywhere(model_without_weights, owner, draft_of(self.loaded, planned, curve), whole)
        futures = [workers.submit(i, finished_block, self.plan, whole, buffer, i) for i, buffer in enumerate(buffers)]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        twice = 1 == self.n_pieces < len(buffers)
        block_copies = zip(futures, workers.copies(futures), strict=True) if twice else zip(futures)
        return BlocksModel(workers.client, tuple(estimators), tuple(block_copies))


def _leaves(stored: list[list[list[Any]]]) -> list[Any]:
    return [copy for pieces in stored for copies in pieces for copy in copies]


def release(futures: Sequence[Any]) -> None:
    """Let workers forget results that all tasks have had; Python may keep futures in cycles for long."""
    for future in futures:
        future.release()


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
