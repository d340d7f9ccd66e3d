"""Training by rows and classes on a cluster: in a pass each block of classes visits each worker once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from manyclass.dask.answers import block_of, told_of
from manyclass.dask.blocks import block_at_zero, block_log_sums, side_by_side, turn
from manyclass.dask.by_rows import report_of
from manyclass.dask.crew import Crew
from manyclass.dask.loading import Loaded
from manyclass.dask.rounds import Training, same
from manyclass.dask.rows import Leg, Report
from manyclass.estimators.settle import Settled
from manyclass.training.plan import PointsPlan


@dataclass
class Standing:
    """Where training stands between two passes.

    Attributes
    ----------
    blocks, copies : list of future of Block
        W, and the same on the next worker; no copies with one worker.
    log_sums : list of future of ndarray or None
        What the rows of each shard keep.
    """

    blocks: list[Any]
    copies: list[Any]
    log_sums: list[Any]


class BlocksTraining(Training):
    """Rounds of a training by rows and classes: a round is a pass."""

    def __init__(self, crew: Crew, loaded: Loaded, plan: PointsPlan) -> None:
        self.crew, self.loaded, self.plan = crew, loaded, replace(plan, verbose=0)
        n = len(loaded.shards)
        blocks = [crew.submit(at, block_at_zero, loaded.whole[0], at) for at in range(n)]
        self.standing = Standing(blocks, self._copies(blocks), [None] * n)

    def _round(self, leg: Leg) -> list[Report]:
        crew, was, whole = self.crew, self.standing, self.loaded.whole[0]
        blocks, log_sums, n = list(was.blocks), list(was.log_sums), len(was.blocks)
        reports: list[list[Any]] = []
        for inner in range(n):
            reports.append([])
            for at, shard in enumerate(self.loaded.shards):
                number = (at + inner) % n
                given = (self.plan, whole, shard, number, blocks[number], log_sums[at], leg.n_pass)
                made = crew.submit(at, turn, *given)
                blocks[number], log_sums[at] = crew.submit(at, turned_block, made), crew.submit(at, turned_sums, made)
                reports[-1].append(crew.submit(at, report_of, made))
        # Each block ends where the shard of its number is the next to have it.
        blocks = [crew.submit(at, same, block) for at, block in enumerate(blocks)]
        copies = self._copies(blocks)
        crew.wait([*blocks, *copies, *log_sums, *(one for some in reports for one in some)])
        told = crew.gather([one for some in reports for one in some])
        self.standing = Standing(blocks, copies, log_sums)
        return [_sum_of(told[at::n], n) for at in range(n)]

    def _recover(self, lost: frozenset[str]) -> None:
        crew, was = self.crew, self.standing
        moved = crew.replace(lost)
        self.loaded.restore(moved, lost)
        blocks = self._left(was.blocks, was.copies, lost)
        log_sums = list(was.log_sums)
        for at in moved:
            columns = [crew.submit(at, block_log_sums, self.loaded.shards[at], block) for block in blocks]
            log_sums[at] = crew.submit(at, side_by_side, columns)
        self.standing = Standing(blocks, self._copies(blocks), log_sums)

    def _model(self, owner: Any, settled: Settled, curve: list[float]) -> list[Any]:
        loaded, blocks = self.loaded, [*self.standing.blocks, *self.standing.copies]
        all_know = (loaded.classes[0], loaded.whole[0], loaded.scaling[0], loaded.told[0].names, settled, curve)
        told = self.crew.everywhere(told_of, owner, *all_know)
        n = len(self.standing.blocks)
        folded = [self.crew.submit(at % n + at // n, block_of, one, loaded.scaling[0]) for at, one in enumerate(blocks)]
        return [*told, *folded]


def turned_block(turned: Any) -> Any:
    """The block after the steps of a shard."""
    return turned.block


def turned_sums(turned: Any) -> Any:
    """What rows keep after the steps of a shard."""
    return turned.log_sums


def _sum_of(reports: list[Report], n: int) -> Report:
    """The report of a worker on all blocks: it has visited its rows once."""
    added = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("class_updates", "loss", "bytes_in", "bytes_out")
    }
    visits = sum(report.n_visits for report in reports) // n
    return Report(n_visits=visits, diverged=any(one.diverged for one in reports), averaged=False, **added)
