"""Where training ends: at the maximum of the likelihood, which L-BFGS in float64 finds on a problem of this size."""

import numpy as np
import pytest
from reference.flat import softmax
from reference.problems import maximum_likelihood, planted

from manyclass import SoftmaxClassifier
from manyclass.registry import names

N_CLASSES = 50


@pytest.fixture(scope="module")
def best_of_seed():
    """Seed -> (X, y, smallest log-loss); labels are drawn from a softmax, hence overlap and have a maximum."""
    known = {}

    def of(seed):
        if seed not in known:
            X, y = planted(np.random.default_rng(seed), 4000, 6, N_CLASSES, scale=4)
            known[seed] = X, y, maximum_likelihood(X, y, N_CLASSES)
        return known[seed]

    return of


# Passes and rates that reach the optimum: large enough to get there, and small enough at the end (0.95^120 = 0.002 of
# the first) for the noise of single points to be averaged away. Plain SGD runs away at half the rate of U-max and
# gets part of the way in this time: the methods exist for a reason.
@pytest.mark.parametrize(
    ("solver", "formulation", "selection", "learning_rate", "u_learning_rate", "gap_per_log_k"),
    [
        ("implicit", "proposed", "block", 2.0, 1.0, 0.01),
        ("implicit", "proposed", "uniform", 2.0, 1.0, 0.01),
        ("implicit", "raman", "block", 2.0, 1.0, 0.01),
        ("implicit", "proposed", "all", 2.0, 1.0, 0.01),
        ("exact", "proposed", "all", 2.0, "auto", 0.01),
        ("umax", "proposed", "block", 0.2, 1.0, 0.01),
        ("umax", "raman", "uniform", 0.2, 1.0, 0.01),
        ("sgd", "proposed", "block", 0.02, "auto", 0.25),
    ],
)
def test_training_reaches_the_maximum_of_the_likelihood(
    solver, formulation, selection, learning_rate, u_learning_rate, gap_per_log_k, best_of_seed, seed
):
    X, y, best = best_of_seed(seed)
    assert best < 0.5 * np.log(N_CLASSES)  # W = 0 has a gap of more than half log K
    model = softmax(
        solver=solver,
        formulation=formulation,
        selection=selection,
        n_negatives=16,
        learning_rate=learning_rate,
        u_learning_rate=u_learning_rate,
        decay=0.95,
        max_iter=120,
        random_state=seed,
    ).fit(X, y)
    gap = model.evaluate(X, y)["log_loss"] - best
    assert gap > -1e-5  # float weights cannot beat the optimum by more than rounding
    assert gap < gap_per_log_k * np.log(N_CLASSES)


@pytest.mark.parametrize("solver", names("solver", without="batch"))
def test_the_running_loss_falls(solver, best_of_seed, seed):
    X, y, _ = best_of_seed(seed)
    # Where no draw is the label, importance weights sum to one on wrong classes, however improbable these are: with few
    # draws the scores run away.
    n_negatives = N_CLASSES if solver == "is" else 16
    model = softmax(solver=solver, n_negatives=n_negatives, max_iter=15, random_state=seed).fit(X, y)
    curve = model.loss_curve_
    assert len(curve) == model.n_iter_ == 15
    assert curve[-1] < curve[4] < curve[0] < np.log(N_CLASSES)


def test_one_negative_of_one_class_is_enough_given_time(best_of_seed, seed):
    X, y, best = best_of_seed(seed)
    options = {"learning_rate": 0.5, "u_learning_rate": 0.5, "decay": 0.97, "max_iter": 250}
    model = softmax(solver="implicit", n_negatives=1, random_state=seed, **options).fit(X, y)
    assert model.evaluate(X, y)["log_loss"] - best < 0.03 * np.log(N_CLASSES)


def test_more_classes_seen_per_step_give_a_smaller_loss_at_equal_passes(best_of_seed, seed):
    X, y, best = best_of_seed(seed)
    gaps = [
        SoftmaxClassifier(solver="implicit", sampler="block", n_negatives=m, max_iter=10, random_state=seed)
        .fit(X, y)
        .evaluate(X, y)["log_loss"]
        - best
        for m in (1, 8, 50)
    ]
    assert gaps[2] < gaps[1] < gaps[0]
