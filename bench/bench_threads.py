"""How do passes scale with threads, and what does the loss say after the same passes?

Wall seconds a pass of each solver and mode, from one thread to as many as there are cores, and the exact log-loss of
5,000 training rows at the end; the first pass, which touches memory, is left out. `over_one_thread` is the fastest pass
of one thread over the fastest with so many. Data: eurlex57k, and drawn sparse rows whose W takes 1.6 GB.

    python -m pytest bench/bench_threads.py
"""

import os
import time
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, solvers

PASSES = 5
CASES = {
    "implicit, hogwild": ("points", lambda: solvers.Implicit(parallel="hogwild")),
    "implicit, deterministic": ("points", lambda: solvers.Implicit(parallel="deterministic")),
    "umax, hogwild": ("points", lambda: solvers.UMax(parallel="hogwild")),
    "exact, deterministic": ("exact", lambda: solvers.Exact(parallel="deterministic")),
    "embeddings, adagrad": ("embedding", lambda: solvers.Adagrad()),
}
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
THREADS = {f"{n} threads" if n > 1 else "1 thread": n for n in (1, 2, 4, 8, 16) if n <= CORES}
FASTEST = {}  # of one thread, by data and case


@cache
def drawn(n=200_000, n_features=20_000, n_classes=20_000, row=40, seed=0):
    """Rows of `row` features and labels, both with frequencies that fall as 1 / rank."""
    rng = np.random.default_rng(seed)
    features = (n_features ** rng.random((n, row)) - 1).astype(np.int32)
    features.sort(axis=1)
    keep = np.diff(features, axis=1, prepend=-1) > 0
    indptr = np.concatenate([[0], keep.sum(axis=1).cumsum()])
    X = sp.csr_array((np.ones(indptr[-1], dtype=np.float32), features[keep], indptr), shape=(n, n_features))
    X.data /= np.sqrt(np.repeat(np.diff(indptr), np.diff(indptr))).astype(np.float32)
    return X, (n_classes ** rng.random(n) - 1).astype(np.int64)


@pytest.mark.parametrize("what", THREADS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["drawn", "eurlex57k"])
def test_passes_by_threads(timed, request, small, name, case, what):
    (kind, solver), n_jobs = CASES[case], THREADS[what]
    if name == "drawn":
        X, y = drawn(3_000, 1_000, 500) if small else drawn()
    else:
        data = request.getfixturevalue("dataset")(name, scale=None)
        X, y = data.X_train, data.y_train
    if kind == "exact" and X.shape[0] > 100_000:
        pytest.skip("a pass over 20,000 classes takes minutes")
    given = {"max_iter": PASSES, "n_jobs": n_jobs, "random_state": 0, "alpha": 0.0}
    if kind == "points":
        given |= {"n_negatives": 64}
    if kind == "embedding":
        given |= {"model": "embedding", "dim": 128} | ({"n_negatives": 1024} if X.shape[0] > 100_000 else {})
    at = [time.perf_counter()]
    model = SoftmaxClassifier(solver=solver(), **given)
    model.fit(X, y, callback=lambda _: at.append(time.perf_counter()))
    seconds = np.diff(at)[1:]
    timed.taken(seconds)
    one = FASTEST.setdefault((name, case), seconds.min()) if n_jobs == 1 else FASTEST.get((name, case))
    timed.tell(threads=n_jobs, log_loss=model.evaluate(X[:5000], y[:5000])["log_loss"])
    if one:
        timed.tell(over_one_thread=one / seconds.min())
