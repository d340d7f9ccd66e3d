"""Training by rows and classes on a cluster: in a round each block of classes visits each worker once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from distributed import get_worker

from manyclass.choosing.trials import Planned
from manyclass.dask import checking, stored_blocks
from manyclass.dask.blocks import lost_log_sums, place_in_block, turn
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.loading import Loaded
from manyclass.dask.predictions import told_of
from manyclass.dask.rounds import Training, same
from manyclass.dask.rows import Leg, Report
from manyclass.dask.workers import Crew, LostWorkerError
from manyclass.solvers import Exact, Implicit
from manyclass.training.plan import PointsPlan


def solver_on_blocks(owner: Any, loaded: Loaded) -> Any:
    """Return what solver="auto" stands for on blocks; None for a solver that was chosen."""
    if owner.solver != "auto":
        return None
    crew = loaded.crew
    [n_classes] = crew.gather([crew.submit(0, len, loaded.classes[0])])
    [(n_rows, stored, _)] = crew.gather([crew.submit(loaded.largest, checking.size_of, loaded.shards[loaded.largest])])
    return Exact() if takes_exact_steps(n_classes, stored / n_rows) else Implicit()


@dataclass
class Standing:
    """Where training stands between two rounds.

    Attributes
    ----------
    seats : list of future of ndarray
        W: the block of the same number, which tasks change in place. Only tasks on its own worker may be given it: the
        scheduler takes a copy on another for as good.
    kept : list of list of future of Kept
        Of each block two copies on disks, that of its own worker and that of the next; none before the first round, and
        with one worker.
    log_sums : list of future of ndarray or None
        What the rows of each shard keep.
    """

    seats: list[Any]
    kept: list[list[Any]]
    log_sums: list[Any]


class BlocksTraining(Training):
    """Rounds of a training by rows and classes: in each, each block visits each worker once."""

    def __init__(self, crew: Crew, loaded: Loaded, plan: PointsPlan, n_merges: int) -> None:
        self.crew, self.loaded, self.plan, self.n_merges = crew, loaded, replace(plan, verbose=0), n_merges
        [self.n_pieces] = crew.gather([crew.submit(0, stored_blocks.n_pieces, loaded.whole[0])])
        self.standing = self._at_zero()

    def _at_zero(self) -> Standing:
        n = len(self.loaded.shards)
        made = [self.crew.submit(at, stored_blocks.seat_at_zero, self.loaded.whole[0], at) for at in range(n)]
        return Standing(made, [], [None] * n)

    def _round(self, leg: Leg) -> list[Report]:
        crew, was, whole = self.crew, self.standing, self.loaded.whole[0]
        log_sums, n = list(was.log_sums), len(was.seats)
        reports: list[list[Any]] = []
        before: list[list[Any]] = [[] for _ in range(n)]
        for inner in range(n):
            reports.append([])
            for at, shard in enumerate(self.loaded.shards):
                given = (self.plan, whole, shard, was.seats[at], (at + inner) % n, log_sums[at], leg)
                made = crew.submit(at, turn, *given, *before[at])
                log_sums[at] = crew.submit(at, turned_sums, made)
                reports[-1].append(crew.submit(at, turned_report, made))
                before[at] = [reports[-1][-1]]
            if n > 1:
                before = self._move_on(inner, before)
        kept = self._keep(before)
        crew.wait([*log_sums, *(one for some in (*reports, *before, *kept) for one in some)])
        told = crew.gather([one for some in reports for one in some])
        self.standing = Standing(was.seats, kept, log_sums)
        return [_sum_of(told[at::n], n) for at in range(n)]

    def _move_on(self, inner: int, before: list[list[Any]]) -> list[list[Any]]:
        """Let each worker take the block of the next one, piece by piece; return what comes before each next turn.

        A worker gives a copy of a piece, puts that of the other in its place, and gives the next when its own has
        arrived: so it has two pieces at most beside its block.
        """
        crew, whole, held, n = self.crew, self.loaded.whole[0], self.standing.seats, len(before)
        for piece in range(self.n_pieces):
            given = [
                crew.submit(at, stored_blocks.give_piece, whole, held[at], (at + inner) % n, piece, *before[at])
                for at in range(n)
            ]
            taken = []
            for at in range(n):
                number, after = (at + inner + 1) % n, (at + 1) % n
                taken.append(
                    crew.submit(at, stored_blocks.take_piece, whole, held[at], number, piece, given[after], given[at])
                )
            let_go(given)
            before = [[taken[at], taken[at - 1]] for at in range(n)]
        return before

    def _keep(self, before: list[list[Any]]) -> list[list[Any]]:
        """Copy blocks to disks after a round; return the copies."""
        crew, whole, n = self.crew, self.loaded.whole[0], len(before)
        if n == 1:
            return []
        kept = [[crew.submit(at + on, kept_on_disk, *before[at]) for on in (0, 1)] for at in range(n)]
        for at, both in enumerate(kept):
            ready, written = before[at], both
            for piece in range(self.n_pieces):
                given = crew.submit(at, stored_blocks.give_piece, whole, self.standing.seats[at], at, piece, *ready)
                ready = written = [
                    crew.submit(at + on, write_piece, whole, one, at, piece, given, written[on])
                    for on, one in enumerate(both)
                ]
                let_go([given])
            both[:] = [crew.submit(at + on, same_after, one, written[on]) for on, one in enumerate(both)]
        return kept

    def _recover(self, lost: frozenset[str]) -> None:
        """Put what lost workers had on others: W as of the last round, rows from where they came."""
        crew, was = self.crew, self.standing
        moved = crew.replace(lost)
        self.loaded.restore(moved, lost)
        whole = self.loaded.whole[0]
        self.standing = self._at_zero()
        if not was.kept:  # it was in the first round
            if any(one is not None for one in was.log_sums):
                raise LostWorkerError(lost)  # the only worker: training begins again
            return
        put: list[list[Any]] = []  # what comes after a block is back
        for at, both in enumerate(was.kept):
            on = next((on for on, one in enumerate(both) if crew.holders(one, lost)), None)
            if on is None:
                raise LostWorkerError(lost)
            after: list[Any] = []
            for piece in range(self.n_pieces):
                read = crew.submit(at + on, read_piece, whole, both[on], at, piece, *after)
                after = [
                    crew.submit(at, stored_blocks.take_piece, whole, self.standing.seats[at], at, piece, read, *after)
                ]
            put.append(after)
            self.standing.seats[at] = crew.submit(at, same_after, self.standing.seats[at], *after)
        self.standing.log_sums = [
            crew.submit(at, lost_log_sums, whole, self.loaded.shards[at]) if at in moved else one
            for at, one in enumerate(was.log_sums)
        ]
        self.standing.kept = self._keep(put)
        crew.wait([one for both in self.standing.kept for one in both])  # before the next round moves what they copy

    def _model(self, owner: Any, settled: Planned, curve: list[float]) -> list[Any]:
        loaded, crew, n = self.loaded, self.crew, len(self.standing.seats)
        all_know = (loaded.classes[0], loaded.whole[0], loaded.scaling[0], loaded.told[0].names, settled, curve)
        told = crew.everywhere(told_of, owner, *all_know)
        blocks = [
            crew.submit(at, finished, self.plan, loaded.whole[0], seat, at, loaded.scaling[0])
            for at, seat in enumerate(self.standing.seats)
        ]
        # A model of one piece a block is on two workers each; of a larger one there is no room for another.
        copies = [crew.submit(at + 1, same, one) for at, one in enumerate(blocks)] if 1 == self.n_pieces < n else []
        return [*told, *blocks, *copies]


def let_go(futures: Sequence[Any]) -> None:
    """Let workers forget what all tasks have had that were submitted; Python may keep futures in cycles for long."""
    for one in futures:
        one.release()


def turned_sums(turned: Any) -> Any:
    """What rows keep after the steps of a shard."""
    return turned.log_sums


def turned_report(turned: Any) -> Report:
    """What the steps of a shard tell."""
    report: Report = turned.report
    return report


def kept_on_disk(*_after: Any) -> stored_blocks.Kept:
    """A file in the folder of this worker."""
    return stored_blocks.Kept(get_worker().local_directory)


def write_piece(whole: Any, kept: stored_blocks.Kept, number: int, piece: int, values: Any, *_after: Any) -> None:
    """Write a piece of a block to a copy."""
    kept.write(stored_blocks.bounds_of(whole, number, piece).start, values)


def read_piece(whole: Any, kept: stored_blocks.Kept, number: int, piece: int, *_after: Any) -> Any:
    """A piece of a block from a copy."""
    return kept.read(stored_blocks.bounds_of(whole, number, piece))


def same_after(one: Any, *_after: Any) -> Any:
    """What it is given, after other tasks."""
    return one


def finished(plan: PointsPlan, whole: Any, seat: Any, number: int, scaling: Any) -> stored_blocks.Block:
    """The block as a model has it."""
    return stored_blocks.finished_block(whole, seat, number, place_in_block(plan, whole, number), scaling)


def _sum_of(reports: Sequence[Report], n: int) -> Report:
    """The report of a worker on all blocks: it has visited its rows once."""
    added = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("class_updates", "loss", "bytes_in", "bytes_out")
    }
    visits = sum(report.n_visits for report in reports) // n
    return Report(n_visits=visits, diverged=any(one.diverged for one in reports), averaged=False, **added)
