"""Which selection of classes learns most in equal time: a block, or draws by frequency? (Heads: bench_search_head.py.)

Nats of training and test log-loss after the same processor time of training (one thread; evaluation not counted), each
selection at the better of two learning rates, which fall to a tenth in that time. The solver is the implicit one. The
seconds are of the fit at the better rate.

    python -m pytest bench/bench_selection.py
"""

import time

import numpy as np
import pytest

from manyclass import SoftmaxClassifier, solvers

SELECTIONS = {
    "block of 16": {"sampler": "block", "n_negatives": 16},
    "block of 64": {"sampler": "block", "n_negatives": 64},
    "64 by frequency, singly": {"sampler": "frequency", "n_negatives": 64},
    "64 by frequency_block": {"sampler": "frequency_block", "n_negatives": 64},
    "128 by frequency_block": {"sampler": "frequency_block", "n_negatives": 128},
}
RATES = (3.0, 10.0)
SECONDS = {"delicious": 0.5, "eurlex57k": 4, "yso-en": 8}
FEW_SECONDS = 0.2  # of generated data


def fits(seconds, data, parameters):
    """A function from a learning rate to a fit of so much processor time, and the number of passes that this is."""
    ticks = []
    common = {"random_state": 0, **parameters}
    trial = SoftmaxClassifier(max_iter=3, solver="implicit", **common)
    trial.fit(data.X_train, data.y_train, callback=lambda _: ticks.append(time.process_time()))
    passes = max(1, round(seconds / min(np.diff(ticks))))
    given = common | {"solver": solvers.Implicit(decay=0.1 ** (1 / passes)), "max_iter": passes}
    return lambda rate: SoftmaxClassifier(learning_rate=rate, **given).fit(data.X_train, data.y_train), passes


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("name", SECONDS)
def test_selections_in_equal_time(timed, dataset, small, name, what):
    data, parameters, seconds = dataset(name), SELECTIONS[what], FEW_SECONDS if small else SECONDS[name]
    parameters = parameters | {"n_negatives": min(parameters["n_negatives"], data.n_classes - 1)}
    some = np.random.default_rng(0).permutation(data.X_train.shape[0])[:50_000]
    fit, passes = fits(seconds, data, parameters)

    def training_loss(rate):
        return fit(rate).evaluate(data.X_train[some], data.y_train[some])["log_loss"]

    rate = min(RATES, key=training_loss)
    model = timed(lambda: fit(rate), clock="processor")
    train, test = (
        model.evaluate(X, y)["log_loss"]
        for X, y in ((data.X_train[some], data.y_train[some]), (data.X_test, data.y_test))
    )
    figures = {"train": round(train, 3), "test": round(test, 3), "passes": passes, "rate": rate}
    timed.row("selection", selection=what, data=f"{name}, {seconds:g} s", **figures)
