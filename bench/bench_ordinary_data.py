"""Is SoftmaxClassifier(), with nothing set, as good as logistic regression on small data in any units?

Accuracy and log-loss in nats, 5-fold, of scikit-learn's iris, wine, breast cancer and digits, as they are and with
columns multiplied by 1e-3 to 1e3, beside scikit-learn's LogisticRegression() on features scaled by StandardScaler;
three seeds of the folds and of random_state, one for a stranger. Then generated sets. Seconds of the processor are of
the five fits for each seed and their predictions. What came of it is in decisions.md:

    python -m pytest bench/bench_ordinary_data.py
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manyclass import SoftmaxClassifier

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # what is measured is what the tests hold
from reference.ordinary_data import SCALINGS, SETS, cross_validated, of_logistic_regression, of_softmax

SEEDS = range(3)
# Rows, features, informative ones, classes and how far these lie apart.
GENERATED = [
    (60, 4, 3, 2, 1.0),
    (100, 5, 3, 2, 1.0),
    (120, 6, 3, 3, 1.0),
    (200, 20, 5, 2, 0.5),
    (200, 50, 10, 3, 1.0),
    (100, 200, 20, 2, 1.0),
    (300, 300, 30, 5, 1.0),
    (300, 10, 5, 3, 0.3),
    (500, 20, 10, 10, 1.5),
    (800, 100, 20, 10, 1.0),
    (2000, 30, 15, 5, 1.0),
    (5000, 20, 10, 20, 2.0),
]


CASES = {f"{case[0]} rows of {case[1]}, {case[3]} classes": case for case in GENERATED}
WHAT = ("logistic regression", *(f"columns {scaling}" for scaling in SCALINGS))


def held_out(timed, measure, small):
    """Time each seed; tell accuracy and nats."""
    seeds, pairs = iter(SEEDS), []
    timed(lambda: pairs.append(measure(next(seeds))), rounds=1 if small else len(SEEDS), clock="processor")
    timed.tell(accuracy=[accuracy for accuracy, _ in pairs], nats=[nats for _, nats in pairs])


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", SETS)
def test_ordinary_data(timed, small, name, what):
    if what == "logistic regression":
        held_out(timed, lambda seed: of_logistic_regression(name, seed), small)
    else:
        held_out(timed, lambda seed: of_softmax(name, what.removeprefix("columns "), seed), small)


@pytest.mark.parametrize("what", ["logistic regression", "SoftmaxClassifier()"])
@pytest.mark.parametrize("name", CASES)
def test_generated_data(timed, small, name, what):
    n, d, informative, k, apart = CASES[name]
    if small and n > 500:
        pytest.skip("takes longer than a stranger's minute")
    X, y = make_classification(
        n, d, n_informative=informative, n_redundant=0, n_classes=k, n_clusters_per_class=1, class_sep=apart,
        flip_y=0.05, random_state=n + d,
    )  # fmt: skip
    X = X * np.exp(np.random.default_rng(0).uniform(-7, 7, d))

    def make(seed):
        if what == "SoftmaxClassifier()":
            return SoftmaxClassifier(random_state=seed)
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

    held_out(timed, lambda seed: cross_validated(lambda: make(seed), X, y, seed), small)
