"""Is SoftmaxClassifier(), with nothing set, as good as logistic regression on small data in any units?

Accuracy and log-loss in nats, 5-fold, of scikit-learn's iris, wine, breast cancer and digits, as they are and with
columns multiplied by 1e-3 to 1e3, beside scikit-learn's LogisticRegression() on features scaled by StandardScaler;
three seeds of the folds and of random_state. Then generated sets. The tables of notes/ordinary_data.md are:

    python -m pytest bench/bench_ordinary_data.py -s
"""

import sys
import time
from pathlib import Path

import numpy as np
from conftest import machine
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


def cells(pairs):
    return " | ".join(f"{accuracy:.4f} / {nats:.4f}" for accuracy, nats in pairs)


def test_ordinary_data():
    print(f"\n{machine()}\n| data | | seed 0 | seed 1 | seed 2 |\n|---|---|---|---|---|")
    for name in SETS:
        print(f"| {name} | logistic regression | {cells(of_logistic_regression(name, seed) for seed in SEEDS)} |")
        for scaling in SCALINGS:
            begin = time.process_time()
            found = [of_softmax(name, scaling, seed) for seed in SEEDS]
            seconds = (time.process_time() - begin) / 15
            print(f"| | columns {scaling}, {seconds:.2f} s a fit | {cells(found)} |", flush=True)


def test_generated_data():
    print(f"\n{machine()}\n| rows, features, classes | | seed 0 | seed 1 | seed 2 |\n|---|---|---|---|---|")
    for n, d, informative, k, apart in GENERATED:
        X, y = make_classification(
            n, d, n_informative=informative, n_redundant=0, n_classes=k, n_clusters_per_class=1, class_sep=apart,
            flip_y=0.05, random_state=n + d,
        )  # fmt: skip
        X = X * np.exp(np.random.default_rng(0).uniform(-7, 7, d))
        theirs = [
            cross_validated(lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), X, y, seed)
            for seed in SEEDS
        ]
        ours = [cross_validated(lambda s=seed: SoftmaxClassifier(random_state=s), X, y, seed) for seed in SEEDS]
        print(f"| {n}, {d}, {k} | logistic regression | {cells(theirs)} |")
        print(f"| | SoftmaxClassifier() | {cells(ours)} |", flush=True)
