"""What solver="auto" chooses: does its model of costs hold, how well do its models predict, and is its rate a good one?

Costs: processor microseconds of a visit, one thread, the fastest of some passes, beside what `estimators.auto` says.
Quality: test log-loss in nats and accuracy after a fit with all parameters at their defaults, three seeds, beside the
best package with probabilities, and processor seconds of the fit (trials of the ridge included, evaluation not). Rates:
nats of test log-loss by which the automatic learning rate ends above the best of a grid. Needs MANYCLASS_DATA:

    python -m pytest bench/bench_auto.py -s
"""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import machine

from manyclass import SoftmaxClassifier, tune_learning_rate
from manyclass.estimators.auto import EMBEDDED, EMBEDDED_DIM, Shape, embedded_cost, embeds, visit_cost
from manyclass.papers.data import load

# Rows are enough for a second or two a pass.
SHAPES = {
    "bibtex": None,
    "delicious": None,
    "eurlex57k": 20_000,
    "omniglot": None,
    "mnist": 20_000,
    "yelp-next": 60_000,
    "yso-en": None,
}
DRAWN = (16, 64, 256, 1024, None)  # None: the exact step
MOST_SECONDS = 15  # predicted, of a pass

# Test log-loss, accuracy and processor seconds: scikit-learn's lbfgs with its best C, and napkinXC.
PACKAGES = {
    "bibtex": (2.65, 0.391, 23),
    "delicious": (3.66, 0.202, 28),
    "eurlex57k": (1.86, 0.608, 17),
    "yso-en": (5.46, 0.232, 85),
}
SEEDS = 3


def seconds_of_a_pass(X, y, **parameters):
    """The fastest of four passes after the first."""
    ticks = []
    model = SoftmaxClassifier(max_iter=5, random_state=0, **parameters)
    model.fit(X, y, callback=lambda _: ticks.append(time.process_time()))
    return min(np.diff(ticks))


def test_predicted_and_measured_costs(data_folder):
    print(f"\nmicroseconds a visit, predicted / measured; {machine()}")
    for name, rows in SHAPES.items():
        if not (data_folder / name).exists():
            continue
        data = load(name, scale="l2", max_rows=rows)
        X, y, n_classes = data.X_train, data.y_train, data.shape[0]
        shape = Shape.of(X, n_classes)
        cells = []
        for drawn in DRAWN:
            predicted = visit_cost(shape, drawn)
            if (drawn or 0) > n_classes or 1e-6 * predicted * shape.n_samples > MOST_SECONDS:
                cells.append("-")
                continue
            solver = {"solver": "exact"} if drawn is None else {"solver": "implicit", "n_negatives": drawn}
            measured = 1e6 * seconds_of_a_pass(X, y, **solver) / shape.n_samples
            cells.append(f"{predicted:.2f} / {measured:.2f}")
        if embeds(shape):
            predicted = embedded_cost(EMBEDDED.n_negatives, EMBEDDED_DIM)
            measured = 1e6 * seconds_of_a_pass(X, y) / shape.n_samples
            cells.append(f"embedded: {predicted:.1f} / {measured:.1f}")
        kind = "sparse" if sp.issparse(X) else "dense"
        print(f"| {name}, K = {n_classes}, {shape.row:.1f} {kind} | " + " | ".join(cells) + " |", flush=True)


@pytest.mark.parametrize("name", PACKAGES)
def test_quality_of_the_defaults(dataset, name):
    data = dataset(name)
    print(f"\n{name}, best package: {PACKAGES[name]}; {machine()}")
    for seed in range(SEEDS):
        begin = time.process_time()
        model = SoftmaxClassifier(random_state=seed).fit(data.X_train, data.y_train)
        seconds = time.process_time() - begin
        found = model.evaluate(data.X_test, data.y_test)
        print(
            f"  {found['log_loss']:.3f} {1 - found['error']:.4f} {seconds:6.1f} s {model.resolved_params_}", flush=True
        )


@pytest.mark.parametrize("name", ["bibtex", "delicious", "eurlex57k"])
def test_the_automatic_rate_against_the_best_of_a_grid(dataset, name):
    data = dataset(name)
    print(f"\n{name}; {machine()}")
    model = SoftmaxClassifier(random_state=0).fit(data.X_train, data.y_train)
    resolved = model.resolved_params_
    rate = resolved["learning_rate"]
    by_factor = {}
    for factor in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        trial = SoftmaxClassifier(random_state=0, **resolved | {"learning_rate": factor * rate})
        by_factor[factor] = trial.fit(data.X_train, data.y_train).evaluate(data.X_test, data.y_test)["log_loss"]
    best = min(by_factor, key=by_factor.get)
    print("  test log-loss by factor on the automatic rate: ", {f: round(v, 3) for f, v in by_factor.items()})
    print(f"  {by_factor[1] - by_factor[best]:.3f} nats above the best, {best:g} times the rate", flush=True)
    fixed = {key: value for key, value in resolved.items() if key != "learning_rate"}
    found = tune_learning_rate(SoftmaxClassifier(random_state=0, **fixed), data.X_train, data.y_train)
    tuned = SoftmaxClassifier(random_state=0, learning_rate=found.best, **fixed).fit(data.X_train, data.y_train)
    test = tuned.evaluate(data.X_test, data.y_test)["log_loss"]
    print(f"  tune_learning_rate: {found.best / rate:.2g} times the rate, {test - by_factor[1]:+.3f} nats", flush=True)
