"""What a step, a product, a probability and a task of the scheduler cost: the constants of `manyclass.dask.costs`.

Seconds of a turn of a shard on all classes with 500 and 4,000 of them, from which nanoseconds a row and class come; of
sampled visits to blocks of 1,000 and 8,000 classes, a quarter and a sixteenth of all, beside what is predicted for a
row and a block; of 1,000 tasks that do nothing; and of a fit, with the bytes that its workers moved in a pass beside
what is predicted. Two workers of one thread. And titles of yso-en on four workers, W divided by rows and classes.

    python -m pytest bench/bench_scale.py
"""

import itertools
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.blocks import buffer_at_zero, log_sums_at_zero, turn
from manyclass.dask.costs import Job, by_rows, by_rows_and_classes, sampled_visit
from manyclass.dask.passes import Shard, Stretch, Whole
from manyclass.figures import FIGURES
from manyclass.training.plan import PointsPlan, Schedule

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
    shard, buffer = Shard(x, y, None, 0, 0), buffer_at_zero(whole, 0)
    timed(lambda: turn(plan_with("exact", "all", what), whole, shard, buffer, 0, None, Stretch(0)), rounds=3)
    timed.tell(ns_a_row_and_class=1e9 * timed.seconds.min() / (N * what), stored_values_a_row=STORED)


BLOCKS = {"1000 classes, a quarter": (1000, 4), "8000 classes, a sixteenth": (8000, 16)}


@pytest.mark.parametrize("what", BLOCKS)
def test_a_sampled_turn_of_a_shard_on_a_block(timed, what):
    n_block, n_blocks = BLOCKS[what]
    n, n_classes = 20 * N, n_block * n_blocks
    x, y = rows(n, n_classes)
    whole = Whole(np.bincount(y, minlength=n_classes) + 1.0, n_blocks, D, n + n_classes, True)
    shard, buffer = Shard(x, y, None, 0, 0), buffer_at_zero(whole, 0)
    plan, sums = plan_with("implicit", "frequency_block", FIGURES.NEGATIVES_SAMPLED), log_sums_at_zero(whole, shard)
    timed(lambda: turn(plan, whole, shard, buffer, 0, sums, Stretch(0)), rounds=5, warmup=1)
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


# Settings at which a single machine's loss on test rows is least of those tried (bench/decisions.md); and rounds of
# the blocks in a pass.
OF_TITLES = {"learning_rate": 5.0, "n_negatives": 64, "max_iter": 4, "model": "linear", "random_state": 0}
ROUNDS_OF_BLOCKS = 4
N_TESTED = 10_000


def memory(*names):
    """Bytes of this process, by names of /proc/self/status."""
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [1024 * int(told[name].split()[0]) for name in names]


def test_titles_on_four_workers(timed, dataset):
    """yso-en by rows and classes, each worker a process: W's share of memory, and loss beside one machine's."""
    data, n_workers = dataset("yso-en"), 4
    tested = np.sort(np.random.default_rng(0).permutation(data.X_test.shape[0])[:N_TESTED])
    held = data.X_test[tested], np.asarray(data.y_test)[tested]
    solver = solvers.Implicit(formulation="raman", averaging="none")
    n = data.X_train.shape[0]
    order = np.random.default_rng(1).permutation(n)  # the file has titles in some order
    X_train, y_train = data.X_train[order], np.asarray(data.y_train)[order]
    one = SoftmaxClassifier(solver=solver, n_jobs=2, **OF_TITLES).fit(X_train, y_train).evaluate(*held)
    plain = SoftmaxClassifier(solver=solvers.Implicit(averaging="none"), n_jobs=2, **OF_TITLES)
    plain = plain.fit(X_train, y_train).evaluate(*held)
    cuts = [n * at // n_workers for at in range(n_workers + 1)]
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit=None
        ) as cluster,
        distributed.Client(cluster) as of_four,
    ):
        places = sorted(of_four.scheduler_info()["workers"])
        own = [slice(first, last) for first, last in itertools.pairwise(cuts)]
        X = [of_four.scatter(X_train[at], workers=[to]) for at, to in zip(own, places, strict=True)]
        y = [of_four.scatter(y_train[at], workers=[to]) for at, to in zip(own, places, strict=True)]
        before = of_four.run(memory, "VmRSS")
        model = DaskSoftmaxClassifier(
            solver=solver, division="rows and classes", n_merges=ROUNDS_OF_BLOCKS, client=of_four, **OF_TITLES
        )
        timed(lambda: model.fit(X, y))
        peaks = of_four.run(memory, "VmHWM")
        found = model.evaluate([of_four.scatter(held[0])], [of_four.scatter(held[1])])
    shares = [(peaks[place][0] - before[place][0]) / 1e9 for place in places]
    timed.tell(
        threads=n_workers, gb_of_w_a_worker=max(shares), gb_of_w=4 * len(model.classes_) * data.X_train.shape[1] / 1e9
    )
    timed.tell(test=found["log_loss"], test_of_one=one["log_loss"], test_of_default_form=plain["log_loss"])
