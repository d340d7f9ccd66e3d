"""Does a head found by search make the sampled gradients better by more than the search costs?

Nats of training and test log-loss after about the same processor time of training (one thread, searches counted,
evaluation not), each selection at the better of the learning rates, given as multiples of 1 / mean (|x|^2 + 1), which
fall to a tenth in that time. The solver is the implicit one; a head is found before each pass but the first, or
before every third or tenth. The seconds are of the fit at the better rate.

    python -m pytest bench/bench_search_head.py
"""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import dense_planted
from sklearn.preprocessing import normalize

from manyclass import SoftmaxClassifier, samplers, solvers

SELECTIONS = {
    "64 by frequency_block": {"sampler": "frequency_block", "n_negatives": 64},
    "block of 64": {"sampler": "block", "n_negatives": 64},
    "head of 16, block of 16": {"sampler": samplers.HeadTail(refresh=1), "n_negatives": 16},
    "head of 16, block of 64, every 3 passes": {"sampler": samplers.HeadTail(refresh=3), "n_negatives": 64},
    "head of 16, block of 64, every 10 passes": {"sampler": samplers.HeadTail(refresh=10), "n_negatives": 64},
}
FEW_SECONDS = 0.2  # of small data
PLANTED = {"20,000 classes": (20_000, 64, 100_000, 0.12, 8), "50,000 classes": (50_000, 64, 150_000, 0.2, 10)}
SMALL_PLANTED = (500, 16, 2000, 0.2)


def passes_in(seconds, data, parameters):
    """How many passes and the searches among them fit, from a trial: (passes, seconds a pass, seconds a search)."""
    ticks = []
    head = isinstance(parameters["sampler"], samplers.HeadTail)
    refresh = parameters["sampler"].refresh if head else None
    trial = SoftmaxClassifier(max_iter=4, random_state=0, solver="implicit", **parameters)
    if head:
        trial.set_params(sampler=samplers.HeadTail(refresh=2))
    trial.fit(data.X_train, data.y_train, callback=lambda _: ticks.append(time.process_time()))
    searched, plain = np.diff(ticks)[:2]  # the second pass ends with a search, the third does not
    search = max(0.0, searched - plain) if head else 0.0
    passes = 2
    while (passes + 1) * plain + passes // (refresh or passes + 1) * search <= seconds:
        passes += 1
    return passes, plain, search


def race(timed, data, seconds, parameters, rates=(6.0, 20.0)):
    """Time the fit at the better rate, and tell its losses."""
    squares = data.X_train.multiply(data.X_train) if hasattr(data.X_train, "multiply") else np.square(data.X_train)
    mean_sq = float(squares.sum() / len(data.y_train)) + 1
    passes, plain, search = passes_in(seconds, data, parameters)
    solver = solvers.Implicit(decay=0.1 ** (1 / passes))
    some = np.random.default_rng(0).permutation(len(data.y_train))[:5_000]

    def fit(c):
        model = SoftmaxClassifier(
            max_iter=passes, solver=solver, learning_rate=c / mean_sq, random_state=0, **parameters
        )
        return model.fit(data.X_train, data.y_train)

    def training_loss(model):
        return model.evaluate(data.X_train[some], data.y_train[some])["log_loss"]

    c = min(rates, key=lambda c: training_loss(fit(c)))
    model = timed(lambda: fit(c), clock="processor")
    test = model.evaluate(data.X_test, data.y_test)["log_loss"]
    timed.tell(train=training_loss(model), test=test, passes=passes, pass_s=plain, search_s=search, c=c)


@pytest.mark.parametrize("what", SELECTIONS)
def test_eurlex57k(timed, dataset, small, what):
    race(timed, dataset("eurlex57k"), FEW_SECONDS if small else 6, SELECTIONS[what])


@pytest.mark.parametrize("what", SELECTIONS)
def test_omniglot(timed, data_folder, small, what):
    images = np.load(data_folder / "omniglot" / "omniglot28.npz")
    data = SimpleNamespace(X_train=None)
    for part in ("train", "test"):
        setattr(data, f"X_{part}", normalize(images[f"x_{part}"].astype(np.float32)))
        setattr(data, f"y_{part}", images[f"y_{part}"])
    n_negatives = min(SELECTIONS[what]["n_negatives"], len(np.unique(data.y_train)) - 17)  # beside a head of 16
    race(timed, data, FEW_SECONDS if small else 8, SELECTIONS[what] | {"n_negatives": n_negatives})


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("name", PLANTED)
def test_planted(timed, small, name, what):
    n_classes, n_features, n_train, noise, seconds = (*SMALL_PLANTED, FEW_SECONDS) if small else PLANTED[name]
    data = dense_planted(n_classes, n_features, n_train, 5_000, noise=noise)
    z = data.X_test[:1000].astype(np.float64) @ data.W_true.T + data.b_true
    z -= z.max(axis=1, keepdims=True)
    losses = np.log(np.exp(z).sum(axis=1)) - z[np.arange(1000), data.y_test[:1000]]
    top = -np.sort(-np.exp(z), axis=1)
    timed.tell(truth=losses.mean(), mass_of_16=(top[:, :16].sum(axis=1) / top.sum(axis=1)).mean())
    race(timed, data, seconds, SELECTIONS[what], (2.0, 8.0))
