"""Which selection of classes learns most in equal time: a block, or draws by frequency? (Heads: bench_search_head.py.)

Nats of training and test log-loss after the same processor time of training (one thread; evaluation not counted), each
selection at the better of two learning rates, which fall to a tenth in that time. The solver is the implicit one.
Needs MANYCLASS_DATA:

    python -m pytest bench/bench_selection.py -s
"""

import time

import numpy as np
import pytest
from conftest import machine

from manyclass import SoftmaxClassifier, solvers

SELECTIONS = {
    "block of 16": {"sampler": "block", "n_negatives": 16},
    "block of 64": {"sampler": "block", "n_negatives": 64},
    "64 by frequency, singly": {"sampler": "frequency", "n_negatives": 64},
    "64 by frequency_block": {"sampler": "frequency_block", "n_negatives": 64},
    "128 by frequency_block": {"sampler": "frequency_block", "n_negatives": 128},
}
RATES = (3.0, 10.0)


def losses_after(seconds, data, parameters):
    """(training log-loss, test log-loss, passes) after so much processor time."""
    ticks = []
    common = {"random_state": 0, **parameters}
    trial = SoftmaxClassifier(max_iter=3, solver="implicit", **common)
    trial.fit(data.X_train, data.y_train, callback=lambda _: ticks.append(time.process_time()))
    passes = max(1, round(seconds / min(np.diff(ticks))))
    solver = solvers.Implicit(decay=0.1 ** (1 / passes))
    model = SoftmaxClassifier(max_iter=passes, solver=solver, **common).fit(data.X_train, data.y_train)
    some = np.random.default_rng(0).permutation(data.X_train.shape[0])[:50_000]
    train = model.evaluate(data.X_train[some], data.y_train[some])["log_loss"]
    return train, model.evaluate(data.X_test, data.y_test)["log_loss"], passes


@pytest.mark.parametrize(("name", "seconds"), [("delicious", 0.5), ("eurlex57k", 4), ("yso-en", 8)])
def test_selections_in_equal_time(dataset, name, seconds):
    data = dataset(name)
    print(f"\n{name}, {seconds} s; {machine()}")
    for what, parameters in SELECTIONS.items():
        ends = {rate: losses_after(seconds, data, parameters | {"learning_rate": rate}) for rate in RATES}
        rate = min(ends, key=lambda rate: ends[rate][0])
        train, test, passes = ends[rate]
        print(f"  {what:24} {train:.3f} / {test:.3f}  ({passes} passes, learning rate {rate:g})", flush=True)
