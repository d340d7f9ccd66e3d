"""What a Dask cluster with a worker for each shard makes, in one process: bit for bit the same."""

import itertools
from dataclasses import replace

import numpy as np
from planned import points_of_arrays

from manyclass.choosing.costs import Facts
from manyclass.choosing.recipes import Choice
from manyclass.dask.blocks import buffer_at_zero, finished_block, joined_blocks, turn
from manyclass.dask.passes import Curvature, Stretch
from manyclass.dask.trainings import passes_of
from manyclass.fitting.trials import plan_points
from manyclass.parts import Parameters


def plan_of(local, X, labels, n_classes):
    """The plan of an estimator of one machine, point by point, for rows that are not scaled."""
    choice = Choice(Parameters.of(local), local.check_parameters(), Facts.of(X, n_classes), by_steps=True)
    return plan_points(choice, points_of_arrays(X, labels, n_classes)).plan


def simulate(plan, whole, shards, n_merges=1, held=(), n_iter_no_change=0):
    """Train by rows; return W and the loss of each pass.

    Rows that are `held` out, by shard, end training after `n_iter_no_change` passes that were no better.
    """
    passes, n = passes_of(plan, whole), len(shards)
    parts = [passes.first_part(part) for part in range(n)]
    bends, of_parts, carried, total = [None] * n, [None] * n, [None] * n, None
    if n > 1:
        coupling = Curvature.couplings([shard.size() for shard in shards], fit_intercept=plan.fit_intercept)
        bends = [passes.curvature(shard, coupling) for shard in shards]
        of_parts = [bends[0].total([b.part(whole, at) for b in bends]) for at in range(n)]
    curve, validation, n_averaged, best = [], [], 0, None
    for n_pass in range(plan.max_iter):
        reports = []
        for number in range(n_merges):
            stretch = Stretch(n_pass, number, n_merges)
            given = zip(shards, bends, carried, strict=True)
            passed = [passes.make_pass(shard, own, parts, v, stretch) for shard, own, v in given]
            carried = [made.carried for made in passed]
            parts = [
                passes.merge(part, of_parts[at], [made.changes[at] for made in passed], stretch)
                for at, part in enumerate(parts)
            ]
            reports += [made.report for made in passed]
        curve.append(sum(report.loss for report in reports) / sum(report.n_visits for report in reports))
        if reports[-1].averaged:
            before = total or [None] * n
            total = [passes.added(one, part) for one, part in zip(before, parts, strict=True)]
            n_averaged += 1
        if n_iter_no_change:
            now = total or parts, n_averaged
            sums = np.sum([passes.held_out_loss(replace(own, held_out=own), *now) for own in held], axis=0)
            validation.append(sums[0] / sums[1])
            if np.argmin(validation) == n_pass:
                best = now
            elif n_pass - np.argmin(validation) >= n_iter_no_change:
                break
    return passes.finished(*(best or (total or parts, n_averaged))), curve


def simulate_blocks(plan, whole, shards, n_merges=1):
    """Train by rows and classes; return W and the loss of each pass."""
    n = len(shards)
    buffers = [buffer_at_zero(whole, at) for at in range(n)]
    sums = [None] * n
    curve = []
    for n_pass in range(plan.max_iter):
        loss = 0.0
        for round_, inner in itertools.product(range(n_merges), range(n)):
            stretch = Stretch(n_pass, round_, n_merges)
            for at, shard in enumerate(shards):
                number = (at + inner) % n
                made = turn(plan, whole, shard, buffers[number], number, sums[at], stretch)
                sums[at], loss = made.log_sums, loss + made.report.loss
        curve.append(loss / whole.n_rows)
    blocks = [finished_block(plan, whole, buffer, at) for at, buffer in enumerate(buffers)]
    return joined_blocks(blocks, sparse=whole.sparse), curve
