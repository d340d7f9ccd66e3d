"""How much sooner does the implicit solver reach the training log-loss of one full pass of exact softmax SGD?

Data: yso-en, first labels (26,091 classes), no intercept, 2 threads, one run. Time is time in training (seconds); exact
evaluations between passes are not counted, and memory is touched before the clock by a fit that is thrown away. Needs
MANYCLASS_DATA, 12 GB and about 10 minutes:

    python -m pytest bench/bench_time_to_loss.py -s
"""

import resource

import numpy as np
from conftest import machine

from manyclass import SoftmaxClassifier

COMMON = {"fit_intercept": False, "n_jobs": 2, "random_state": 0}
# Exact steps one by one on each thread: the batches of parallel="deterministic" end at a higher loss.
EXACT = {"solver": "exact", "learning_rate": 3.0, "max_iter": 1, "parallel": "hogwild"}
IMPLICIT = {"solver": "implicit", "n_negatives": 64, "learning_rate": 3.0, "decay": 0.8, "max_iter": 12}


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_implicit_against_one_exact_pass(dataset):
    data = dataset("yso-en", n_jobs=2)
    labels = np.searchsorted(np.unique(data.y_train), data.y_train).astype(np.int32)
    print(f"\n{machine()}")

    def trained(stop_at, **parameters):
        rows = []

        def note(state):
            rows.append((state.n_iter, state.seconds, state.evaluate(data.X_train, labels)["log_loss"]))
            print("  pass {}: {:.2f} s, training log-loss {:.3f} nats".format(*rows[-1]), flush=True)
            return rows[-1][2] <= stop_at

        print(parameters)
        SoftmaxClassifier(**COMMON, **parameters).fit(data.X_train, data.y_train, callback=note)
        return rows[-1]

    before = peak_bytes()
    model = SoftmaxClassifier(**COMMON, n_negatives=64, max_iter=1).fit(data.X_train, data.y_train)
    weights = model.coef_.base.nbytes
    print(f"memory: {peak_bytes() / 1e9:.2f} GB at most, {before / 1e9:.2f} GB before fit, W {weights / 1e9:.2f} GB")
    del model
    _, exact_seconds, exact_loss = trained(-np.inf, **EXACT)
    passes, seconds, loss = trained(exact_loss, **IMPLICIT)
    assert loss <= exact_loss
    print(
        f"implicit: {passes} passes, {seconds:.2f} s; exact: {exact_seconds:.1f} s; ratio {exact_seconds / seconds:.1f}"
    )
    print(machine())
