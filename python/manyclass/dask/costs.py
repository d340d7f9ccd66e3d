"""What a pass on a cluster takes: seconds, bytes and memory, by sizes, from costs of a step, a task and a byte.

    steps: visits of a worker times what a visit takes        moved: bytes of a worker over the speed of its network
    tasks: what the scheduler takes for each, all workers together

By rows a worker gets W and gives its changes, once a merge, and a merge is some tasks for each pair of workers: each
merges a part of W. By rows and classes it gets and gives a block of W for each worker, W once a pass, and makes exact
steps, whose time goes by all classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyclass.estimators.auto import NEGATIVES_SAMPLED, Shape, visit_cost

BYTES = 4  # of a weight
# Of the scheduler for a task, which dask's documentation puts at a millisecond; bench/bench_scale.py measures it.
SECONDS_A_TASK = 1e-3
# Tasks of a round by rows, for each pair of workers and for each worker; of an inner step by rows and classes.
TASKS_OF_PAIR, TASKS_OF_WORKER, TASKS_OF_STEP = 1, 5, 4
# Of NumPy and SciPy for a product of a value of X with a weight, forward and back, and for a probability: what one core
# does where the products are in cache. bench/bench_scale.py measures them, too.
SECONDS_A_PRODUCT, SECONDS_A_PROBABILITY = 2.5e-9, 1.5e-8
COPIES_BY_ROWS, COPIES_BY_BLOCKS = 4, 4  # of W on a worker; of a block: as it came, as it goes, copy, next


@dataclass(frozen=True)
class Job:
    """A training.

    Attributes
    ----------
    n_rows, n_features, n_classes : int
    stored : float
        Values of X that are not 0, a row.
    n_merges : int
        Merges in a pass by rows.
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
        return float(BYTES) * self.n_features * self.n_classes


@dataclass(frozen=True)
class Pass:
    """What a pass takes.

    Attributes
    ----------
    steps, moved, tasks : float
        Seconds of computing, of moving and of the scheduler.
    bytes_moved, memory : float
        Of each worker: bytes in and out, and bytes that W takes, its rows not counted.
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


def by_rows(job: Job, n_workers: int, gigabits: float, n_threads: int) -> Pass:
    """Predict a pass by rows."""
    shape = Shape(job.n_rows, job.n_features, job.n_classes, job.stored, sparse=True)
    visits = job.n_rows / n_workers
    others = (n_workers - 1) / n_workers
    moved = job.n_merges * job.bytes_of_w * others * (1 + job.touched)
    tasks = 0 if n_workers == 1 else job.n_merges * (TASKS_OF_PAIR * n_workers**2 + TASKS_OF_WORKER * n_workers)
    steps = 1e-6 * visits * visit_cost(shape, NEGATIVES_SAMPLED) / n_threads
    memory = job.bytes_of_w * COPIES_BY_ROWS
    return Pass(steps, 8e-9 * moved / gigabits, tasks * SECONDS_A_TASK, moved, memory)


def by_rows_and_classes(job: Job, n_workers: int, gigabits: float, n_threads: int) -> Pass:
    """Predict a pass by rows and classes; its steps use one thread but for several at a time, one for each task."""
    visits = job.n_rows / n_workers
    moved = 2 * job.bytes_of_w * (n_workers > 1)
    steps = visits * job.n_classes * (SECONDS_A_PRODUCT * job.stored * 2 + SECONDS_A_PROBABILITY)
    tasks = TASKS_OF_STEP * n_workers**2 * SECONDS_A_TASK
    memory = COPIES_BY_BLOCKS * job.bytes_of_w / n_workers
    return Pass(steps, 8e-9 * moved / gigabits, tasks, moved, memory)


DIVISIONS = {"rows": by_rows, "rows and classes": by_rows_and_classes}
WORKERS = (8, 16, 32, 64, 128, 256, 512, 1024)
SPEEDS = (10.0, 100.0)  # Gbit/s


def stops_at(job: Job, division: str, gigabits: float, n_threads: int) -> int:
    """Return the number of workers, of those tried, from which twice as many save less than a quarter of the time."""
    cost = DIVISIONS[division]
    for n in WORKERS[:-1]:
        if cost(job, 2 * n, gigabits, n_threads).seconds > 0.75 * cost(job, n, gigabits, n_threads).seconds:
            return n
    return WORKERS[-1]
