"""What does a step cost: sixteen negatives by block against one drawn singly, ridge and averaging against neither?

Microseconds of processor time per step (one visited point), one thread, median and minimum of 7 passes over the same
data, after 7 to warm up. Data: the first 100,000 training rows of yso-en with all its classes, eurlex57k, yelp-next.
The solver is the implicit one. Needs MANYCLASS_DATA:

    python -m pytest bench/bench_step.py -s
"""

import time

import numpy as np
import pytest
from conftest import machine

from manyclass import SoftmaxClassifier, solvers


def step_times(X, y, variants, rounds=7):
    """Microseconds per step of each variant in each of the last `rounds` passes; as many before warm up."""
    common = {"random_state": 0, "learning_rate": 1.0, "max_iter": 2 * rounds}
    common["solver"] = solvers.Implicit(schedule="constant")
    runs = {}
    for name, parameters in variants.items():
        seconds = []
        SoftmaxClassifier(**common | parameters).fit(
            X, y, callback=lambda _, seen=seconds: seen.append(time.process_time())
        )
        runs[name] = np.diff(seconds) / X.shape[0] * 1e6
    print(f"\n{machine()}")
    for name, times in runs.items():
        print(f"  {name}: median {np.median(times):.2f} us, min {times.min():.2f} us per step")
    return runs


@pytest.mark.parametrize("name", ["yso-en", "eurlex57k"])
def test_sixteen_by_block_against_one_drawn_singly(dataset, name):
    data = dataset(name, n_jobs=2)
    times = step_times(
        data.X_train[:100_000],
        data.y_train[:100_000],
        {
            "1 drawn singly": {"sampler": "uniform", "n_negatives": 1},
            "block of 16": {"sampler": "block", "n_negatives": 16},
            "frequency_block of 16": {"sampler": "frequency_block", "n_negatives": 16},
            "16 drawn singly": {"sampler": "uniform", "n_negatives": 16},
            "block of 64": {"sampler": "block", "n_negatives": 64},
            "frequency_block of 64": {"sampler": "frequency_block", "n_negatives": 64},
        },
    )
    for name in ("block of 16", "frequency_block of 16"):
        print(f"  {name} / 1 drawn singly: {times[name].min() / times['1 drawn singly'].min():.2f} (minima)")


@pytest.mark.parametrize("name", ["eurlex57k", "yelp-next"])
def test_ridge_and_averaging(dataset, name):
    data = dataset(name, n_jobs=2)
    times = step_times(
        data.X_train,
        data.y_train,
        {
            "neither": {},
            "ridge": {"alpha": 1e-6},
            "averaging": {"solver": solvers.Implicit(schedule="constant", averaging="polyak")},
            "both": {"alpha": 1e-6, "solver": solvers.Implicit(schedule="constant", averaging="polyak")},
        },
    )
    # An average is not added to in every pass, so that the mean is what counts.
    for variant in ("ridge", "averaging", "both"):
        print(f"  {variant} / neither: {times[variant].mean() / times['neither'].mean():.2f} (means)")
