"""How do passes scale with threads, and what does the loss say after the same passes?

Wall seconds a pass of each solver and mode, from one thread to as many as there are cores, and the exact log-loss of
5,000 training rows at the end; the first pass, which touches memory, is left out. `over_one_thread` is the fastest pass
of one thread over the fastest with so many. Data: eurlex57k, and drawn sparse rows whose W takes 1.6 GB.

    python -m pytest bench/bench_threads.py
"""

import os
import time
import warnings
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import digits
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier, solvers

PASSES = 5
BOTH = ("deterministic", "hogwild")
SAMPLED = (
    "Implicit", "SGD", "UMax", "Bregman", "SCENT", "SCGD", "EMA", "AugmentReduce", "CSS", "IS", "NCE",
    "NegativeSampling", "OVE", "Bouchard", "Softplus",
)  # fmt: skip
# What a case trains, and its solver; steps by points draw 64 classes each.
CASES = {
    f"{name}, {way}": ("points", partial(getattr(solvers, name), parallel=way)) for name in SAMPLED for way in BOTH
}
CASES |= {f"Exact, {way}": ("exact", partial(solvers.Exact, parallel=way)) for way in BOTH}
CASES |= {
    "LBFGS": ("exact", solvers.LBFGS),
    "MinibatchImplicit": ("points", solvers.MinibatchImplicit),
    "embeddings, Adagrad, 1,024 drawn": ("embedding", solvers.Adagrad),
    "embeddings, Adagrad, all classes": ("embedding", solvers.Adagrad),
    "pairs, Adagrad": ("pairs", solvers.Adagrad),
}
ON_DRAWN = ("Implicit, deterministic", "Implicit, hogwild", "UMax, hogwild", "embeddings, Adagrad, 1,024 drawn")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
THREADS = {f"{n} threads" if n > 1 else "1 thread": n for n in (1, 2, 4, 8, 16) if n <= CORES}
DATA = {"drawn": "generated, W of 1.6 GB", "eurlex57k": "eurlex57k"}
MODELS = {
    "points": {"model": "linear", "n_negatives": 64, "alpha": 0.0},
    "exact": {"model": "linear", "alpha": 0.0},
    "embedding": {"model": "embedding", "dim": 128},
    "pairs": {"model": "pairs"},
}
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
@pytest.mark.parametrize("name", DATA)
def test_passes_by_threads(timed, request, small, name, case, what):
    (kind, solver), n_jobs = CASES[case], THREADS[what]
    if name == "drawn":
        if case not in ON_DRAWN:
            pytest.skip("on eurlex57k alone")
        X, y = drawn(3_000, 1_000, 500) if small else drawn()
    else:
        data = request.getfixturevalue("dataset")(name, scale="l2")
        X, y = data.X_train, data.y_train
    given = {"max_iter": PASSES, "n_jobs": n_jobs, "random_state": 0} | MODELS[kind]
    if case.endswith("1,024 drawn"):
        given |= {"sampler": "frequency", "n_negatives": 16 if small else 1024}
    at = [time.perf_counter()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few passes do not converge
        model = SoftmaxClassifier(solver=solver(), **given)
        model.fit(X, y, callback=lambda _: at.append(time.perf_counter()))
    seconds = np.diff(at)[1:]
    timed.taken(seconds)
    one = FASTEST.setdefault((name, case), seconds.min()) if n_jobs == 1 else FASTEST.get((name, case))
    loss = model.evaluate(X[:5000], y[:5000])["log_loss"]
    timed.tell(threads=n_jobs, log_loss=loss)
    if one:
        timed.tell(over_one_thread=one / seconds.min())
    if n_jobs <= 2:
        figures = {f"s_{n_jobs}": digits(seconds.min()), f"loss_{n_jobs}": round(loss, 3)}
        figures |= {"times": round(one / seconds.min(), 2)} if one and n_jobs == 2 else {}
        timed.row("threads", data=DATA[name], case=case, **figures)
