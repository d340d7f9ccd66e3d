"""What a pass on a cluster takes: seconds, bytes and memory, by sizes, from costs of a step, a task and a byte.

    steps: visits of a worker times what a visit takes        moved: bytes of a worker over the speed of its network
    tasks: what the scheduler takes for each, all workers together

By rows a worker gets W and gives its changes, once a merge; a merge takes some tasks for each pair of workers, since
each worker merges a part of W. By rows and classes a worker gets and gives one block of W after another, all of W once
a pass. Its rows visit each block. A sampled step draws the block's share of the draws, at least a line of 16 classes;
the time of an exact step is proportional to the number of classes. More workers make sampled visits cheaper until each
draws one line. From there on a worker makes as many visits, its rows times the number of blocks, with any number of
workers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyclass.choosing.costs import Facts, visit_cost
from manyclass.dask.blocks import pieces_of
from manyclass.figures import FIGURES

# What the scheduler needs for a task, measured by bench/bench_scale.py on a machine that did nothing else.
SECONDS_A_TASK = 1.4e-3
# Numbers of tasks. A round by rows has some for each pair of workers and for each worker. By rows and classes each step
# of a worker on a block has some, and so has each piece of a block that then moves on: one gives it and one takes it.
TASKS_OF_PAIR, TASKS_OF_WORKER, TASKS_OF_STEP, TASKS_OF_PIECE = 1, 5, 3, 2
# What one core needs in NumPy and SciPy for a product of a value of X with a weight, forward or back, and for a
# probability, where the products are in cache; bench/bench_scale.py measures them, too.
SECONDS_A_PRODUCT, SECONDS_A_PROBABILITY = 2.5e-9, 1.5e-8
COPIES_BY_ROWS = 4  # of W, on each worker


@dataclass(frozen=True)
class Job:
    """A training.

    Attributes
    ----------
    n_rows : int
    n_features : int
    n_classes : int
    stored : float
        Values of X that are not 0, a row.
    n_merges : int
        Merges in a pass, or rounds of the blocks.
    touched : float
        Share of the weights that a worker's pass moves, in ]0, 1]; the others are not moved.
    """

    n_rows: int
    n_features: int
    n_classes: int
    stored: float
    n_merges: int = 1
    touched: float = 1.0

    @property
    def bytes_of_w(self) -> float:
        """Size of W."""
        return 4.0 * self.n_features * self.n_classes


@dataclass(frozen=True)
class Pass:
    """What a pass takes.

    Attributes
    ----------
    steps : float
        Seconds of computing.
    moved : float
        Seconds of moving.
    tasks : float
        Seconds of the scheduler.
    bytes_moved : float
        Bytes in and out of each worker.
    memory : float
        Bytes that W takes on each worker, its rows not counted.
    """

    steps: float
    moved: float
    tasks: float
    bytes_moved: float
    memory: float

    @property
    def seconds(self) -> float:
        """Of all, one after the other."""
        return self.steps + self.moved + self.tasks


def sampled_visit(job: Job, n_blocks: int) -> float:
    """Predict the seconds of one thread that sampled steps take for a row, on all blocks."""
    classes = max(2, math.ceil(job.n_classes / n_blocks))
    shape = Facts(job.n_rows, job.n_features, classes, job.stored, sparse=True)
    return 1e-6 * n_blocks * visit_cost(shape, math.ceil(FIGURES.NEGATIVES_SAMPLED / n_blocks))


def exact_visit(n_classes: int, stored: float) -> float:
    """Predict the seconds of one thread that exact steps take for a row, on all blocks."""
    return n_classes * (SECONDS_A_PRODUCT * stored * 2 + SECONDS_A_PROBABILITY)


def takes_exact_steps(n_classes: int, stored: float) -> bool:
    """Whether solver="auto" takes exact steps on blocks: where a row takes no longer than one may on one machine."""
    return 1e6 * exact_visit(n_classes, stored) <= FIGURES.MOST_EXACT


def by_rows(job: Job, n_workers: int, gigabits: float, n_threads: int) -> Pass:
    """Predict a pass by rows."""
    moved = job.n_merges * job.bytes_of_w * (n_workers - 1) / n_workers * (1 + job.touched)
    tasks = job.n_merges * (TASKS_OF_PAIR * n_workers**2 + TASKS_OF_WORKER * n_workers) * (n_workers > 1)
    steps = job.n_rows / n_workers * sampled_visit(job, 1) / n_threads
    return Pass(steps, 8e-9 * moved / gigabits, tasks * SECONDS_A_TASK, moved, COPIES_BY_ROWS * job.bytes_of_w)


def by_rows_and_classes(job: Job, n_workers: int, gigabits: float, n_threads: int) -> Pass:
    """Predict a pass by rows and classes, of the steps that solver="auto" takes; exact ones use one thread."""
    exact = takes_exact_steps(job.n_classes, job.stored)
    visit = exact_visit(job.n_classes, job.stored) if exact else sampled_visit(job, n_workers) / n_threads
    block = job.bytes_of_w / n_workers
    pieces, shares = pieces_of(block, n_workers), n_workers > 1
    # A round keeps two copies of each block on disks: three tasks a piece.
    tasks = job.n_merges * n_workers * (n_workers * (TASKS_OF_STEP + TASKS_OF_PIECE * pieces) + 3 * pieces) * shares
    moved, memory = 2 * job.n_merges * job.bytes_of_w * shares, block * (1 + 2 / pieces * shares)
    steps = job.n_rows / n_workers * visit
    return Pass(steps, 8e-9 * moved / gigabits, tasks * SECONDS_A_TASK, moved, memory)


DIVISIONS = {"rows": by_rows, "rows and classes": by_rows_and_classes}
WORKERS = (8, 16, 32, 64, 128, 256, 512, 1024)
SPEEDS = (10.0, 100.0)  # Gbit/s


def stops_at(job: Job, division: str, gigabits: float, n_threads: int) -> int:
    """Return the number of workers, of those tried, from which twice as many save less than a quarter of the time."""
    seconds = [DIVISIONS[division](job, n, gigabits, n_threads).seconds for n in WORKERS]
    stops = (n for n, now, then in zip(WORKERS, seconds, seconds[1:], strict=False) if then > 0.75 * now)
    return next(stops, WORKERS[-1])
