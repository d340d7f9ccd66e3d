"""sample_weight in partial_fit, for every solver that steps by points: weight 0 is no row, weight 2 the row twice."""

import copy

import numpy as np
import pytest
from test_epoch import small_problem

from manyclass import AugmentReduceClassifier, SoftmaxClassifier, solvers
from manyclass.registry import names

UTILITY = ("normal", "logistic", "gumbel")
DRAWS_ALWAYS = ("minibatch_implicit",)  # whose weighted batches test_sample_weight.py holds to their twin


def made(kind, *, draws=False, **more):
    """An estimator that visits rows as they come."""
    step = {"learning_rate": 1e-5, "max_iter": 2, "random_state": 0, **more}
    if kind in UTILITY:
        own = {} if draws else {"sampler": "all"}
        return AugmentReduceClassifier(noise=kind, solver=solvers.Implicit(shuffle=False), **own, **step)
    own = {} if kind == "exact" else {"sampler": "uniform", "n_negatives": 5} if draws else {"sampler": "all"}
    solver = solvers.SOLVERS[kind]
    return SoftmaxClassifier(solver=solver(shuffle=False), **own, **step)


KINDS = (*names("solver"), *UTILITY)


@pytest.mark.parametrize("fits", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_weight_0_is_left_out(kind, fits, seed):
    X, y = small_problem(seed)
    r = (np.random.default_rng(seed).random(len(y)) < 0.5).astype(float)
    draws = kind != "exact"
    one = made(kind, draws=draws, learning_rate=0.05)
    one = one.fit(X, y) if fits else one
    other = copy.deepcopy(one)
    one.partial_fit(X, y, classes=np.arange(21), sample_weight=r, half_life=50)
    other.partial_fit(X[r > 0], y[r > 0], classes=np.arange(21), half_life=50)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.class_count_, other.class_count_)


@pytest.mark.parametrize("fits", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in DRAWS_ALWAYS])
def test_weight_2_is_the_row_twice(kind, fits, seed):
    """All classes in each step: nothing is drawn, so that this holds to the second order of the step size."""
    X, y = small_problem(seed)
    X = np.round(X, 2)
    model = made(kind)
    if fits:
        model.fit(X, y).set_params(learning_rate=1e-5)
    else:
        model.partial_fit(X, y, classes=np.arange(21))
    rows = np.arange(12)
    moved = []
    for some, r in ((rows, np.full(12, 2.0)), (np.tile(rows, 2), None), (rows, None)):
        other = copy.deepcopy(model).partial_fit(X[some], y[some], sample_weight=r, learning_rate=1e-3)
        moved.append(np.column_stack([other.coef_ - model.coef_, other.intercept_ - model.intercept_]))
    size = np.abs(moved[1]).max()
    assert size > 1e-5
    np.testing.assert_allclose(moved[0], moved[1], rtol=0, atol=0.02 * size)
    assert np.abs(moved[0] - moved[2]).max() > 0.3 * size
