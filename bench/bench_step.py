"""What does a step cost: sixteen negatives by block against one drawn singly, ridge and averaging against neither?

Microseconds per step (one visited point), one thread, median and minimum of 7 passes over the same data in turn. Data:
yso-en's first 100,000 training rows with all its classes (selection), eurlex57k (ridge, averaging). The solver is the
implicit one. Needs MANYCLASS_DATA:

    python -m pytest bench/bench_step.py -s
"""

import numpy as np
import pytest
from conftest import machine

from manyclass import SoftmaxClassifier


def step_times(X, y, variants, rounds=7):
    """Microseconds per step of each variant, interleaved pass by pass; the first, warm-up, pass is dropped."""
    common = {"random_state": 0, "learning_rate": 1.0, "schedule": "constant", "max_iter": 1 + rounds}
    runs = {}
    for name, parameters in variants.items():
        seconds = []
        SoftmaxClassifier(**common, **parameters).fit(X, y, callback=lambda s, seen=seconds: seen.append(s.seconds))
        runs[name] = np.diff(seconds) / X.shape[0] * 1e6
    print(f"\n{machine()}")
    for name, times in runs.items():
        print(f"  {name}: median {np.median(times):.2f} us, min {times.min():.2f} us per step")
    return {name: float(np.min(times)) for name, times in runs.items()}


def test_sixteen_by_block_against_one_drawn_singly(dataset):
    data = dataset("yso-en", n_jobs=2)
    times = step_times(
        data.X_train[:100_000],
        data.y_train[:100_000],
        {
            "1 drawn singly": {"selection": "uniform", "n_negatives": 1},
            "block of 16": {"selection": "block", "n_negatives": 16},
            "16 drawn singly": {"selection": "uniform", "n_negatives": 16},
            "block of 64": {"selection": "block", "n_negatives": 64},
        },
    )
    print(f"  block of 16 / 1 drawn singly: {times['block of 16'] / times['1 drawn singly']:.2f} (minima)")


@pytest.mark.parametrize("name", ["eurlex57k", "yelp-next"])
def test_ridge_and_averaging(dataset, name):
    data = dataset(name, n_jobs=2)
    times = step_times(
        data.X_train,
        data.y_train,
        {
            "neither": {},
            "ridge": {"alpha": 1e-6},
            "averaging": {"averaging": "polyak"},
            "both": {"alpha": 1e-6, "averaging": "polyak"},
        },
    )
    for variant in ("ridge", "averaging", "both"):
        print(f"  {variant} / neither: {times[variant] / times['neither']:.2f} (minima)")
