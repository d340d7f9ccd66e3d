"""Solvers that are said to be unbiased reach the certified optimum from a few sampled classes; biased ones do not.

The step sizes fall slowly to a small end and the last half of the passes is averaged, so that what is left is bias: of
every solver the same settings, but for the multiples of the rate that its step bears.
"""

import os

import numpy as np
import pytest
from reference.problems import planted

from manyclass import SoftmaxClassifier, solvers
from manyclass.datasets import load_multiclass
from manyclass.registry import parts

UNBIASED = [name for name, facts in parts("solver").items() if not facts.biased]
# Biased ones whose bias is far above the tolerance here: log-sums of 5 of 50 classes, and bounds of the log-loss.
SHOWN_BIASED = ["css", "bouchard", "nce"]
NATS = 0.01


def objective(model, X, y, alpha):
    """The ridged mean log-loss, exactly."""
    return model.evaluate(X, y)["log_loss"] + alpha / 2 * float(np.sum(model.coef_.astype(float) ** 2))


def gap(solver, X, y, alpha, best, **parameters):
    """How far a fit ends above the optimum, in nats."""
    flags = parts("solver")[solver.name].flags
    if "all_classes" in flags:
        parameters.pop("n_negatives")
    model = SoftmaxClassifier(solver=solver, alpha=alpha, random_state=0, **parameters).fit(X, y)
    found = objective(model, X, y, alpha)
    assert found > best - 1e-5
    return found - best


@pytest.fixture(scope="module")
def fifty_classes():
    """3,000 points of 50 classes, with the ridged optimum."""
    X, y = planted(np.random.default_rng(3), 3000, 10, 50, scale=4)
    alpha = 1e-3
    model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), alpha=alpha, max_iter=2000, n_jobs=1).fit(X, y)
    certificate = model.certificate(X, y)
    assert certificate["gap"] < 1e-6
    return X, y, alpha, certificate["primal"]


@pytest.mark.parametrize("name", [*UNBIASED, *SHOWN_BIASED])
def test_on_planted_data_from_five_of_fifty_classes(name, fifty_classes):
    X, y, alpha, best = fifty_classes
    # The noise of five classes of fifty is more than the automatic step of u, which is for many, averages out.
    own = {"u_learning_rate": 3.0} if name == "implicit" else {}
    solver = solvers.SOLVERS[name](decay=0.98, averaging="suffix", **own)
    rate = 2.0 if name == "minibatch_implicit" else 0.2  # the mean of ten points' steps, or one
    found = gap(solver, X, y, alpha, best, learning_rate=rate, n_negatives=5, max_iter=150)
    assert (found < NATS) == (name in UNBIASED)


@pytest.fixture(scope="module")
def bibtex():
    """First labels of bibtex, with the ridged optimum."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    data = load_multiclass("bibtex", n_jobs=1)
    alpha = 1e-3
    model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-4), alpha=alpha, max_iter=2000, n_jobs=1)
    model.fit(data.X_train, data.y_train)
    certificate = model.certificate(data.X_train, data.y_train)
    assert certificate["gap"] < 1e-3
    return data.X_train, data.y_train, alpha, certificate["primal"]


# Rate, its factor a pass, passes. Plain SGD bears a fifth of the others' step before it diverges; one implicit step for
# ten points, their mean, bears ten times as much.
BY_HAND = {"sgd": (0.1, 0.99, 160), "umax": (1.0, 0.9, 40), "minibatch_implicit": (20.0, 0.93, 60)}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n != "implicit")) for n in UNBIASED])
def test_on_bibtex_with_ridge(name, bibtex):
    X, y, alpha, best = bibtex
    rate, decay, passes = BY_HAND.get(name, (0.5, 0.9, 40))
    solver = solvers.SOLVERS[name](decay=decay, averaging="suffix")
    assert gap(solver, X, y, alpha, best, learning_rate=rate, n_negatives=64, max_iter=passes) < NATS
