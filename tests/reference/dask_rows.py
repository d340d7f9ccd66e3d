"""Rows, and ways to put them on workers, that tests of `manyclass.dask` share."""

from contextlib import contextmanager

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster

from manyclass import solvers
from manyclass.dask.passes import Shard

N, N_FEATURES, N_CLASSES, CHUNK = 400, 10, 24, 100


# What workers of most tests are: threads of this process, which are begun in no time; in the long suite processes.
KINDS_OF_WORKERS = ["threads", pytest.param("processes", marks=pytest.mark.long)]
# A worker looks at the memory of its process, and waits where that is above its share.
OF_THE_WHOLE_PROCESS = {f"distributed.worker.memory.{at}": False for at in ("target", "spill", "pause")}


@contextmanager
def some_workers(kind="processes", n_workers=2, memory_limit=None):
    """A client of processes of one thread, or of as many threads."""
    with (
        dask.config.set(OF_THE_WHOLE_PROCESS if kind == "threads" else {}),
        LocalCluster(
            n_workers=n_workers,
            processes=kind == "processes",
            threads_per_worker=1,
            dashboard_address=":0",
            memory_limit=memory_limit,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def made_rows():
    """Sparse rows; a label each, which is a number; and of each the two classes of largest noisy score."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(N, N_FEATURES)) * (rng.random((N, N_FEATURES)) < 0.6)).astype(np.float32)
    noisy = X @ (2 * rng.normal(size=(N_FEATURES, N_CLASSES))) + rng.gumbel(size=(N, N_CLASSES))
    best = np.argsort(-noisy, axis=1)[:, :2]
    Y = np.zeros((N, N_CLASSES), dtype=np.int64)
    np.put_along_axis(Y, best, 1, axis=1)
    Y[::9] = 0  # rows without a label
    return X, best[:, 0], Y


def on_one(client, *columns):
    """Parts that are all on one worker, so that it is the only one that trains."""
    place = min(client.scheduler_info()["workers"])
    cuts = range(0, len(columns[0]) if not sp.issparse(columns[0]) else columns[0].shape[0], CHUNK)
    # Not by hashes: of the same rows given twice the scheduler may forget the second with the first.
    return [[client.scatter(one[at : at + CHUNK], workers=[place], hash=False) for at in cuts] for one in columns]


def parts(*columns):
    """Delayed parts, which go to the workers in turn."""
    return [[dask.delayed(one[at : at + CHUNK]) for at in range(0, one.shape[0], CHUNK)] for one in columns]


def by_points(**more):
    """Parameters of a linear model that is trained point by point, nothing being left open that is tried."""
    solver = solvers.Implicit(decay=0.8, averaging="none")
    return {"solver": solver, "learning_rate": 0.5, "alpha": 1e-3, "n_negatives": 8, "random_state": 0, **more}


def equal(one, other):
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(one.intercept_, other.intercept_)


def halves(X, ids, indptr=None, held=()):
    """Two shards, of the first rows and the others."""
    n = X.shape[0]
    kept = np.setdiff1d(np.arange(n), held)
    shards = []
    for number, some in enumerate((kept[kept < n // 2], kept[kept >= n // 2])):
        lists = sp.csr_array((np.ones(len(ids)), ids, np.arange(n + 1) if indptr is None else indptr))[some]
        own = None if indptr is None else lists.indptr.astype(np.int64)
        first = 0 if number == 0 else len(shards[0])
        shards.append(Shard(X[some], lists.indices.astype(np.int32), None, number, first, own))
    return shards
