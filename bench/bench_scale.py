"""What a step, a product, a probability and a task of the scheduler cost: the constants of `manyclass.dask.costs`.

Prints microseconds of a sampled visit beside what is predicted, nanoseconds of a product and of a probability in the
steps on blocks, milliseconds of a task with workers that do nothing, and bytes moved in a fit beside what is predicted.
Run it as `python bench/bench_scale.py [--workers 2]`, with the load of the machine in mind, which it prints.
"""

import argparse
import os
import time

import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait

from manyclass import solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.blocks import block_at_zero, turn
from manyclass.dask.costs import Job, by_rows, by_rows_and_classes
from manyclass.dask.shards import Shard, Whole
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


def turn_seconds(n_classes):
    """Least of three turns of a shard on all classes."""
    x, y = rows(N, n_classes)
    fields = {"batch_size": None, "shuffle": True, "share_classes": None, "fit_intercept": True, "verbose": 0}
    schedule = Schedule("exponential", 0.1, 0.1, 0.9)
    plan = PointsPlan(
        schedule=schedule, max_iter=1, seed=0, n_threads=1, solver="exact", averaging="none", sampler="all",
        n_negatives=n_classes, alpha=0.0, **fields,
    )  # fmt: skip
    whole = Whole(np.bincount(y, minlength=n_classes).astype(float), 1, D, N, True)
    shard, block, took = Shard(x, y, None, 0, 0), block_at_zero(whole, 0), []
    for _ in range(3):
        begin = time.perf_counter()
        turn(plan, whole, shard, 0, block, None, 0)
        took.append(time.perf_counter() - begin)
    return min(took)


def nothing(*_):
    return None


def task_seconds(client, n=1000):
    begin = time.perf_counter()
    wait(client.map(nothing, range(n), pure=False))
    return (time.perf_counter() - begin) / n


def fit_bytes(client, division, solver):
    """Bytes in and out of a worker in a pass: counted, and predicted."""
    n_classes = 1000
    x, y = rows(N, n_classes)
    X = da.from_array(x.toarray(), chunks=(N // 4, -1)).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0)))
    model = DaskSoftmaxClassifier(
        solver=solver, learning_rate=0.1, max_iter=2, random_state=0, division=division, client=client
    ).fit(X, da.from_array(y, chunks=N // 4))
    counted = [(work["bytes_in"] + work["bytes_out"]) / 2 for work in model.work_]
    cost = {"rows": by_rows, "rows and classes": by_rows_and_classes}[division]
    return np.mean(counted), cost(Job(N, D, len(model.classes_), STORED), len(counted), 10, 1).bytes_moved


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    n_workers = parser.parse_args().workers
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    small, large = turn_seconds(500), turn_seconds(4000)
    each = (large - small) / (N * 3500)
    print(f"a row and a class on a block: {1e9 * each:.0f} ns with {STORED} values a row")
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        task_seconds(client)
        print(f"a task: {1e3 * task_seconds(client):.2f} ms")
        for division, solver in (("rows", solvers.Implicit()), ("rows and classes", solvers.Exact())):
            counted, predicted = fit_bytes(client, division, solver)
            print(f"{division}: {counted / 1e6:.2f} MB a worker and pass, predicted {predicted / 1e6:.2f}")


if __name__ == "__main__":
    main()
