"""How do passes scale with threads, and what does the loss say after the same passes?

Wall seconds a pass (minimum of the last passes) of each solver and mode, from one thread to as many as there are cores,
over those of one thread, and the exact log-loss of 5,000 training rows at the end. Data: eurlex57k where MANYCLASS_DATA
has it, and generated sparse rows whose W takes 1.6 GB. A plain program, so that it runs where there is no pytest:

    python bench/bench_threads.py [--threads 1 2 4 8 16] [--generated-only]
"""

import argparse
import json
import os
import platform
import time

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, solvers
from manyclass.papers.data import load

PASSES = 5
CASES = {
    "implicit, hogwild": ("points", lambda: solvers.Implicit(parallel="hogwild")),
    "implicit, deterministic": ("points", lambda: solvers.Implicit(parallel="deterministic")),
    "umax, hogwild": ("points", lambda: solvers.UMax(parallel="hogwild")),
    "exact, deterministic": ("exact", lambda: solvers.Exact(parallel="deterministic")),
    "embeddings, adagrad": ("embedding", lambda: solvers.Adagrad()),
}


def generated(n=200_000, n_features=20_000, n_classes=20_000, row=40, seed=0):
    """Rows of `row` features and labels, both with frequencies that fall as 1 / rank."""
    rng = np.random.default_rng(seed)
    features = (n_features ** rng.random((n, row)) - 1).astype(np.int32)
    features.sort(axis=1)
    keep = np.diff(features, axis=1, prepend=-1) > 0
    indptr = np.concatenate([[0], keep.sum(axis=1).cumsum()])
    X = sp.csr_array((np.ones(indptr[-1], dtype=np.float32), features[keep], indptr), shape=(n, n_features))
    X.data /= np.sqrt(np.repeat(np.diff(indptr), np.diff(indptr))).astype(np.float32)
    return X, (n_classes ** rng.random(n) - 1).astype(np.int64)


def seconds_a_pass(kind, solver, X, y, n_jobs):
    """The fastest of the passes after the first, which touches memory, and the loss at the end."""
    parameters = {"max_iter": PASSES, "n_jobs": n_jobs, "random_state": 0, "alpha": 0.0}
    if kind == "points":
        parameters |= {"n_negatives": 64}
    if kind == "embedding":
        parameters |= {"model": "embedding", "dim": 128, "n_negatives": 1024}
    at = [time.perf_counter()]
    model = SoftmaxClassifier(solver=solver, **parameters)
    model.fit(X, y, callback=lambda _: at.append(time.perf_counter()))
    return float(np.diff(at)[1:].min()), model.evaluate(X[:5000], y[:5000])["log_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, nargs="+", default=[n for n in (1, 2, 4, 8, 16) if n <= cores])
    parser.add_argument("--generated-only", action="store_true")
    options = parser.parse_args()
    sets = {"generated, W of 1.6 GB": generated()}
    data = None if options.generated_only else load("eurlex57k", scale=None, max_rows=None, n_jobs=cores)
    if data is not None:
        sets["eurlex57k"] = data.X_train, data.y_train
    print(json.dumps({"machine": platform.processor() or platform.machine(), "cores": cores, "load": os.getloadavg()}))
    for name, (X, y) in sets.items():
        for case, (kind, solver) in CASES.items():
            if kind == "exact" and X.shape[0] > 100_000:
                continue  # a pass over 20,000 classes takes minutes
            for n_jobs in options.threads:
                seconds, loss = seconds_a_pass(kind, solver(), X, y, n_jobs)
                record = {"data": name, "case": case, "threads": n_jobs, "seconds": seconds, "log_loss": loss}
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
