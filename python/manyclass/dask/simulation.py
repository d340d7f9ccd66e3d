"""Training by rows in one process: bit for bit what a cluster makes."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from manyclass.dask import batches, rows
from manyclass.dask.rows import Carried, Leg, Part, Report
from manyclass.dask.shards import Shard, Whole
from manyclass.training.plan import BatchesPlan, PointsPlan


def way_of(plan: PointsPlan | BatchesPlan) -> ModuleType:
    """The module that makes passes and merges of a plan: both have the same functions."""
    return batches if isinstance(plan, BatchesPlan) else rows


def simulate(
    plan: PointsPlan | BatchesPlan,
    whole: Whole,
    shards: Sequence[Shard],
    coupling: tuple[float, float],
    n_merges: int = 1,
    held: Sequence[Shard | None] = (),
    n_iter_no_change: int = 0,
) -> tuple[Any, list[float]]:
    """Train as a cluster with a worker for each shard does, and return W and the loss of each pass.

    Rows that are `held` out, by shard, end training after `n_iter_no_change` passes that were no better.
    """
    way = way_of(plan)
    parts: list[Part] = [way.part_at_zero(plan, whole, part) for part in range(whole.n_shards)]
    bends: list[Any] = [None] * len(shards)
    of_parts: list[Any] = [None] * len(shards)
    if len(shards) > 1:
        bends = [way.curvature_of(plan, shard, whole, coupling) for shard in shards]
        of_parts = [bends[0].total([b.part(whole, at) for b in bends]) for at in range(len(parts))]
    carried: list[Carried | None] = [None] * len(shards)
    total: list[Part] | None = None
    curve: list[float] = []
    n_averaged, best, watch = 0, None, Best(n_iter_no_change)
    for n_pass in range(plan.max_iter):
        reports: list[Report] = []
        for number in range(n_merges):
            leg = Leg(n_pass, number, n_merges)
            passed = [
                way.make_pass(plan, whole, shard, own, parts, v, leg)
                for shard, own, v in zip(shards, bends, carried, strict=True)
            ]
            carried = [made.carried for made in passed]
            parts = [
                way.merge(plan, part, of_parts[at], [made.changes[at] for made in passed], leg)
                for at, part in enumerate(parts)
            ]
            reports += [made.report for made in passed]
        curve.append(sum(report.loss for report in reports) / sum(report.n_visits for report in reports))
        if reports[-len(shards)].averaged:
            before: list[Any] = total or [None] * len(parts)
            total = [rows.added(one, part, whole.sparse) for one, part in zip(before, parts, strict=True)]
            n_averaged += 1
        if n_iter_no_change:
            now = total or parts, n_averaged
            sums = [rows.held_out_loss(plan, whole, own, *now) for own in held if own is not None]
            if watch.is_better(sums):
                best = now
            if watch.is_over:
                break
    return way.finished(plan, whole, *(best or (total or parts, n_averaged))), curve


class Best:
    """The losses of rows held out, after each pass, and which was least.

    Attributes
    ----------
    curve : list of float
        In nats.
    best_iter : int
        The pass of the least, from 1; 0: none.
    """

    def __init__(self, n_iter_no_change: int) -> None:
        self.n_iter_no_change = n_iter_no_change
        self.curve: list[float] = []
        self.best_iter = 0
        self.least = np.inf

    def is_better(self, sums: Sequence[tuple[float, float]]) -> bool:
        """Add a loss, of the sums of weighted losses and of weights that workers give; whether it is the least."""
        self.curve.append(sum(loss for loss, _ in sums) / sum(weight for _, weight in sums))
        better = self.curve[-1] < self.least
        if better:
            self.best_iter, self.least = len(self.curve), self.curve[-1]
        return better

    def forget(self) -> None:
        """The model of the best pass is lost: the next one is the best."""
        self.least = np.inf

    @property
    def is_over(self) -> bool:
        """Whether training is to end."""
        return len(self.curve) - self.best_iter >= self.n_iter_no_change
