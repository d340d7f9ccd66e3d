"""What does a step cost: sixteen negatives by block against one drawn singly, ridge and averaging against neither?

Processor seconds of a pass, one thread, 7 passes over the same data after 7 to warm up, and microseconds per step (one
visited point), median and least. Data: the first 100,000 training rows of yso-en with all its classes, eurlex57k,
yelp-next. The solver is the implicit one.

    python -m pytest bench/bench_step.py
"""

import time

import numpy as np
import pytest
from conftest import digits

from manyclass import SoftmaxClassifier, solvers

ROUNDS = 7
SELECTIONS = {
    "1 drawn singly": {"sampler": "uniform", "n_negatives": 1},
    "block of 16": {"sampler": "block", "n_negatives": 16},
    "frequency_block of 16": {"sampler": "frequency_block", "n_negatives": 16},
    "16 drawn singly": {"sampler": "uniform", "n_negatives": 16},
    "block of 64": {"sampler": "block", "n_negatives": 64},
    "frequency_block of 64": {"sampler": "frequency_block", "n_negatives": 64},
}
# Means are what counts: an average is not added to in every pass.
EXTRAS = {
    "neither": {},
    "ridge": {"alpha": 1e-6},
    "averaging": {"solver": solvers.Implicit(schedule="constant", averaging="polyak")},
    "both": {"alpha": 1e-6, "solver": solvers.Implicit(schedule="constant", averaging="polyak")},
}


def step_times(timed, X, y, parameters):
    """Microseconds per step in each of the last passes; as many before warm up."""
    given = {"solver": solvers.Implicit(schedule="constant"), "learning_rate": 1.0, "random_state": 0} | parameters
    ticks = []
    model = SoftmaxClassifier(max_iter=2 * ROUNDS, **given)
    model.fit(X, y, callback=lambda _: ticks.append(time.process_time()))
    seconds = np.diff(ticks)[-ROUNDS:]
    timed.taken(seconds, clock="processor")
    us = 1e6 * seconds / X.shape[0]
    return {"us": digits(np.median(us)), "us_min": digits(us.min()), "us_mean": digits(us.mean())}


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("name", ["yso-en", "eurlex57k"])
def test_selections(timed, dataset, name, what):
    data = dataset(name, n_jobs=2)
    us = step_times(timed, data.X_train[:100_000], data.y_train[:100_000], SELECTIONS[what])
    called = "yso-en, 100,000 rows" if name == "yso-en" else name
    timed.row("step", selection=what, data=called, us=us["us"], us_min=us["us_min"])


@pytest.mark.parametrize("what", EXTRAS)
@pytest.mark.parametrize("name", ["eurlex57k", "yelp-next"])
def test_ridge_and_averaging(timed, dataset, name, what):
    data = dataset(name, n_jobs=2)
    timed.tell(**step_times(timed, data.X_train, data.y_train, EXTRAS[what]))
