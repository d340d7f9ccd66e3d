"""What a step, a product, a probability and a task of the scheduler cost: the constants of `manyclass.dask.costs`.

Seconds of a turn of a shard on all classes with 500 and 4,000 of them, from which nanoseconds a row and class come; of
sampled visits to blocks of 1,000 and 8,000 classes, a quarter and a sixteenth of all, beside what is predicted for a
row and a block; of 1,000 tasks that do nothing; and of a fit, with the bytes that its workers moved in a pass beside
what is predicted. Two workers of one thread.

    python -m pytest bench/bench_scale.py
"""

import dask.array as da
import distributed
import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.blocks import log_sums_at_zero, turn
from manyclass.dask.costs import Job, by_rows, by_rows_and_classes, sampled_visit
from manyclass.dask.seats import seat_at_zero
from manyclass.dask.shards import Shard, Whole
from manyclass.estimators.auto import NEGATIVES_SAMPLED
from manyclass.training.passes import Schedule
from manyclass.training.plan import PointsPlan

N, D, STORED = 2000, 5000, 20


def rows(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    at = np.repeat(np.arange(n), STORED)
    x = sp.csr_array((np.ones(len(at)), (at, rng.integers(0, D, len(at)))), shape=(n, D), dtype=np.float32)
    x.sum_duplicates()
    x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int64)
    return x, rng.integers(0, n_classes, n).astype(np.int32)


def plan_with(solver, sampler, n_negatives):
    fields = {"batch_size": None, "shuffle": True, "share_classes": None, "fit_intercept": True, "verbose": 0}
    schedule = Schedule("exponential", 0.1, 0.1, 0.9)
    return PointsPlan(
        schedule=schedule, max_iter=1, seed=0, n_threads=1, solver=solver, averaging="none", sampler=sampler,
        n_negatives=n_negatives, alpha=0.0, **fields,
    )  # fmt: skip


@pytest.mark.parametrize("what", [500, 4000], ids=lambda k: f"{k} classes")
def test_a_turn_of_a_shard_on_all_classes(timed, what):
    x, y = rows(N, what)
    whole = Whole(np.bincount(y, minlength=what).astype(float), 1, D, N, True)
    shard, seat = Shard(x, y, None, 0, 0), seat_at_zero(whole, 0)
    timed(lambda: turn(plan_with("exact", "all", what), whole, shard, seat, 0, None, 0), rounds=3)
    timed.tell(ns_a_row_and_class=1e9 * timed.seconds.min() / (N * what), stored_values_a_row=STORED)


BLOCKS = {"1000 classes, a quarter": (1000, 4), "8000 classes, a sixteenth": (8000, 16)}


@pytest.mark.parametrize("what", BLOCKS)
def test_a_sampled_turn_of_a_shard_on_a_block(timed, what):
    n_block, n_blocks = BLOCKS[what]
    n, n_classes = 20 * N, n_block * n_blocks
    x, y = rows(n, n_classes)
    whole = Whole(np.bincount(y, minlength=n_classes) + 1.0, n_blocks, D, n + n_classes, True)
    shard, seat = Shard(x, y, None, 0, 0), seat_at_zero(whole, 0)
    plan, sums = plan_with("implicit", "frequency_block", NEGATIVES_SAMPLED), log_sums_at_zero(whole, shard)
    timed(lambda: turn(plan, whole, shard, seat, 0, sums, 0), rounds=5, warmup=1)
    predicted = 1e6 * sampled_visit(Job(n, D, n_classes, STORED), n_blocks) / n_blocks
    timed.tell(us_a_visit=1e6 * timed.seconds.min() / n, us_predicted=predicted, stored_values_a_row=STORED)


def nothing(*_):
    return None


@pytest.fixture(scope="module")
def client():
    """Of two workers in processes of their own."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one


def test_tasks_that_do_nothing(timed, client):
    timed(lambda: distributed.wait(client.map(nothing, range(1000), pure=False)), rounds=2, warmup=1)
    timed.tell(ms_a_task=timed.seconds.min(), threads=2)


DIVISIONS = {"rows": (solvers.Implicit, by_rows), "rows and classes": (solvers.Implicit, by_rows_and_classes)}


@pytest.mark.parametrize("what", DIVISIONS)
def test_bytes_moved_in_a_fit(timed, client, what):
    solver, cost = DIVISIONS[what]
    x, y = rows(N, 1000)
    X = da.from_array(x.toarray(), chunks=(N // 4, -1)).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0)))
    given = {"learning_rate": 0.1, "max_iter": 2, "random_state": 0, "division": what, "client": client}
    model = DaskSoftmaxClassifier(solver=solver(), **given)
    timed(lambda: model.fit(X, da.from_array(y, chunks=N // 4)))
    counted = [(work["bytes_in"] + work["bytes_out"]) / 2 for work in model.work_]
    predicted = cost(Job(N, D, len(model.classes_), STORED), len(counted), 10, 1).bytes_moved
    timed.tell(threads=2, megabytes=np.mean(counted) / 1e6, megabytes_predicted=predicted / 1e6)
