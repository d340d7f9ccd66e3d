"""Training by rows and classes on a cluster: in a round each block of classes visits each worker once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from distributed import get_worker
from sklearn.base import clone

from manyclass.choosing.trials import Planned
from manyclass.classifiers.answers import with_state
from manyclass.classifiers.base import LabelClassifier
from manyclass.dask import stored_blocks
from manyclass.dask.blocks import finished_block, lost_log_sums, turn
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Common, Loaded, completed, draft_of
from manyclass.dask.predictions import BlocksModel
from manyclass.dask.rounds import Training, same
from manyclass.dask.shards import Report, Stretch
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
class Standing:
    """Where training stands between two rounds.

    Attributes
    ----------
    buffers : list of future of ndarray
        W: the block of the same number, which tasks change in place. Only tasks on its own worker may be given it: the
        scheduler takes a copy on another for as good.
    kept : list of list of future of Kept
        Of each block two copies on disks, that of its own worker and that of the next; none before the first round, and
        with one worker.
    log_sums : list of future of ndarray or None
        What the rows of each shard keep.
    """

    buffers: list[Any]
    kept: list[list[Any]]
    log_sums: list[Any]


class BlocksTraining(Training):
    """Rounds of a training by rows and classes: in each, each block visits each worker once."""

    def __init__(self, workers: Workers, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        self.workers, self.loaded, self.plan, self.n_merges = workers, loaded, replace(plan, verbose=0), n_merges
        [self.n_pieces] = workers.gather([workers.submit(0, stored_blocks.n_pieces, loaded.whole[0])])
        self.standing = self._at_zero()

    def _at_zero(self) -> Standing:
        n = len(self.loaded.shards)
        made = [self.workers.submit(at, stored_blocks.buffer_at_zero, self.loaded.whole[0], at) for at in range(n)]
        return Standing(made, [], [None] * n)

    def _round(self, stretch: Stretch) -> list[Report]:
        workers, was, whole = self.workers, self.standing, self.loaded.whole[0]
        log_sums, n = list(was.log_sums), len(was.buffers)
        reports: list[list[Any]] = []
        before: list[list[Any]] = [[] for _ in range(n)]
        for inner in range(n):
            reports.append([])
            for at, shard in enumerate(self.loaded.shards):
                given = (self.plan, whole, shard, was.buffers[at], (at + inner) % n, log_sums[at], stretch)
                made = workers.submit(at, turn, *given, *before[at])
                log_sums[at] = workers.submit(at, attrgetter("log_sums"), made)
                reports[-1].append(workers.submit(at, attrgetter("report"), made))
                before[at] = [reports[-1][-1]]
            if n > 1:
                before = self._move_on(inner, before)
        kept = self._keep(before)
        workers.wait([*log_sums, *(one for some in (*reports, *before, *kept) for one in some)])
        told = workers.gather([one for some in reports for one in some])
        self.standing = Standing(was.buffers, kept, log_sums)
        return [_sum_of(told[at::n], n) for at in range(n)]

    def _move_on(self, inner: int, before: list[list[Any]]) -> list[list[Any]]:
        """Let each worker take the block of the next one, piece by piece; return what comes before each next turn.

        A worker gives a copy of a piece, puts that of the other in its place, and gives the next when its own has
        arrived: so it has two pieces at most beside its block.
        """
        n = len(before)
        for piece in range(self.n_pieces):
            given = [self._give(at, (at + inner) % n, piece, *before[at]) for at in range(n)]
            taken = [self._take(at, (at + inner + 1) % n, piece, given[(at + 1) % n], given[at]) for at in range(n)]
            let_go(given)
            before = [[taken[at], taken[at - 1]] for at in range(n)]
        return before

    def _give(self, at: int, number: int, piece: int, *after: Any) -> Any:
        """Let a worker copy a piece of its block."""
        given = (self.loaded.whole[0], self.standing.buffers[at], number, piece)
        return self.workers.submit(at, stored_blocks.give_piece, *given, *after)

    def _take(self, at: int, number: int, piece: int, values: Any, *after: Any) -> Any:
        """Let a worker put a piece of a block in its buffer."""
        given = (self.loaded.whole[0], self.standing.buffers[at], number, piece, values)
        return self.workers.submit(at, stored_blocks.take_piece, *given, *after)

    def _keep(self, before: list[list[Any]]) -> list[list[Any]]:
        """Copy blocks to disks after a round; return the copies."""
        workers, whole, n = self.workers, self.loaded.whole[0], len(before)
        if n == 1:
            return []
        kept = [[workers.submit(at + on, kept_on_disk, *before[at]) for on in (0, 1)] for at in range(n)]
        for at, both in enumerate(kept):
            ready, written = before[at], both
            for piece in range(self.n_pieces):
                given = self._give(at, at, piece, *ready)
                ready = written = [
                    workers.submit(at + on, stored_blocks.Kept.write, one, whole, at, piece, given, written[on])
                    for on, one in enumerate(both)
                ]
                let_go([given])
            both[:] = [workers.submit(at + on, same, one, written[on]) for on, one in enumerate(both)]
        return kept

    def _recover(self, lost: frozenset[str]) -> None:
        """Give the shards of lost workers to others: W is that of the last round, and rows are read again."""
        workers, was = self.workers, self.standing
        moved = workers.replace(lost)
        self.loaded.restore(moved, lost)
        whole = self.loaded.whole[0]
        self.standing = self._at_zero()
        if not was.kept:  # it was in the first round
            if any(one is not None for one in was.log_sums):
                raise LostWorkerError(lost)  # the only worker: training begins again
            return
        put: list[list[Any]] = []  # what comes after a block is back
        for at, both in enumerate(was.kept):
            on = next((on for on, one in enumerate(both) if workers.holders(one, lost)), None)
            if on is None:
                raise LostWorkerError(lost)
            after: list[Any] = []
            for piece in range(self.n_pieces):
                read = workers.submit(at + on, stored_blocks.Kept.read, both[on], whole, at, piece, *after)
                after = [self._take(at, at, piece, read, *after)]
            put.append(after)
            self.standing.buffers[at] = workers.submit(at, same, self.standing.buffers[at], *after)
        self.standing.log_sums = [
            workers.submit(at, lost_log_sums, whole, self.loaded.shards[at]) if at in moved else one
            for at, one in enumerate(was.log_sums)
        ]
        self.standing.kept = self._keep(put)
        workers.wait([one for both in self.standing.kept for one in both])  # before the next round moves what they copy

    def _model(self, owner: LabelClassifier, settled: Planned, curve: list[float]) -> BlocksModel:
        loaded, workers, n = self.loaded, self.workers, len(self.standing.buffers)
        given = (owner, draft_of(loaded, settled, curve), loaded.common[0], loaded.scaling[0])
        told = workers.everywhere(model_without_weights, *given)
        blocks = [
            workers.submit(at, finished_block, self.plan, loaded.whole[0], buffer, at, loaded.scaling[0])
            for at, buffer in enumerate(self.standing.buffers)
        ]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        copies = [workers.submit(at + 1, same, one) for at, one in enumerate(blocks)] if 1 == self.n_pieces < n else []
        both = tuple((one, *copies[at : at + 1]) for at, one in enumerate(blocks))
        return BlocksModel(workers.client, tuple(told), both)


def let_go(futures: Sequence[Any]) -> None:
    """Let workers forget results that all tasks have had; Python may keep futures in cycles for long."""
    for one in futures:
        one.release()


def model_without_weights(
    owner: LabelClassifier, draft: State, common: Common, scaling: FeatureScaling | None
) -> LabelClassifier:
    """Return the fitted estimator without W, which has taken up the scaling of features."""
    none = Weights.zeros(0, 0, by_feature=common.whole.sparse)
    found: LabelClassifier = with_state(clone(owner), completed(draft, common, scaling, none))
    return found


def kept_on_disk(*_after: Any) -> stored_blocks.Kept:
    """Make a file in the folder of this worker."""
    return stored_blocks.Kept(get_worker().local_directory)


def _sum_of(reports: Sequence[Report], n: int) -> Report:
    """Return the report of a worker on all blocks, which has visited its rows once."""
    added = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("class_updates", "loss", "bytes_in", "bytes_out")
    }
    visits = sum(report.n_visits for report in reports) // n
    return Report(n_visits=visits, diverged=any(one.diverged for one in reports), **added)
