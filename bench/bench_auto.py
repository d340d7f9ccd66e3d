"""What solver="auto" chooses: does its model of costs hold, and is its rate a good one? How well it predicts is in
bench_quality.py.

Costs: processor microseconds of a visit, one thread, the fastest of some passes, beside what `choosing.costs` says.
Rates: nats of test log-loss by which the automatic learning rate ends above the best of a grid; seconds are of its fit.

    python -m pytest bench/bench_auto.py
"""

import time

import numpy as np
import pytest
from conftest import digits

from manyclass import SoftmaxClassifier, tune_learning_rate
from manyclass.choosing.costs import Facts, embedded_cost, embeds, visit_cost
from manyclass.figures import FIGURES
from manyclass.papers.data import load_problem

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
DRAWN = (16, 64, 256, 1024)
MOST_SECONDS = 15  # predicted, of a pass


def predicted_cost(shape, what):
    """Microseconds of a visit, as `auto` expects; None where the data are too large for it or have too few classes."""
    if what == "embedded":
        return embedded_cost(FIGURES.NEGATIVES_BATCHES, FIGURES.EMBEDDED_DIM) if embeds(shape) else None
    drawn = None if what == "exact" else what
    predicted = visit_cost(shape, drawn)
    too_long = 1e-6 * predicted * shape.n_samples > MOST_SECONDS
    return None if (drawn or 0) > shape.n_classes or too_long else predicted


@pytest.mark.parametrize("what", [*DRAWN, "exact", "embedded"])
@pytest.mark.parametrize("name", SHAPES)
def test_predicted_and_measured_costs(timed, data_folder, name, what):
    if not (data_folder / name).exists():
        pytest.skip(f"{name} is not in the folder")
    data = load_problem(name, scale="l2", max_rows=SHAPES[name])
    X, y = data.X_train, data.y_train
    shape = Facts.of(X, data.shape[0])
    predicted = predicted_cost(shape, what)
    if predicted is None:
        pytest.skip("not for data of this shape")
    solver = {"solver": "exact"} if what == "exact" else {"solver": "implicit", "n_negatives": what}
    ticks = []
    model = SoftmaxClassifier(max_iter=5, random_state=0, **({} if what == "embedded" else solver))
    model.fit(X, y, callback=lambda _: ticks.append(time.process_time()))
    timed.taken(np.diff(ticks), clock="processor")
    timed.tell(predicted_us=digits(predicted), us=digits(1e6 * min(np.diff(ticks)) / shape.n_samples))


@pytest.mark.parametrize("name", ["bibtex", "delicious", "eurlex57k"])
def test_the_automatic_rate_against_the_best_of_a_grid(timed, dataset, name):
    data = dataset(name)
    model = timed(lambda: SoftmaxClassifier(random_state=0).fit(data.X_train, data.y_train), clock="processor")
    resolved = model.resolved_params_
    rate, fixed = resolved.get("learning_rate"), {k: v for k, v in resolved.items() if k != "learning_rate"}

    def loss(learning_rate):
        one = SoftmaxClassifier(random_state=0, learning_rate=learning_rate, **fixed)
        return one.fit(data.X_train, data.y_train).evaluate(data.X_test, data.y_test)["log_loss"]

    if rate is None:
        pytest.skip("the solver that was chosen has no learning rate")
    by_factor = {factor: loss(factor * rate) for factor in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)}
    best = min(by_factor, key=by_factor.get)
    found = tune_learning_rate(SoftmaxClassifier(random_state=0, **fixed), data.X_train, data.y_train)
    timed.tell(by_factor={f"{f:g}": v for f, v in by_factor.items()}, above_the_best=by_factor[1] - by_factor[best])
    timed.tell(tuned=found.best / rate, tuned_less_automatic=loss(found.best) - by_factor[1])
