"""SoftmaxClassifier() on small data in any units: as good as logistic regression, unmoved by useless columns."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from reference.ordinary_data import SCALINGS, SETS, of_logistic_regression, of_softmax
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier, models

# What no one would notice: one point in a hundred, and two hundredths of a nat.
LESS_ACCURATE, MORE_NATS = 0.01, 0.02


def check(name, scaling, seed):
    accuracy, nats = of_softmax(name, scaling, seed)
    other_accuracy, other_nats = of_logistic_regression(name, seed)
    assert accuracy >= other_accuracy - LESS_ACCURATE
    assert nats <= other_nats + MORE_NATS


@pytest.mark.parametrize(("name", "scaling"), [*((name, "as they are") for name in SETS), ("wine", "spread 0")])
def test_the_default_is_as_good_as_logistic_regression_on_scaled_features(name, scaling):
    check(name, scaling, 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", SETS)
def test_the_default_is_as_good_as_logistic_regression_in_any_units(name, scaling, seed):
    check(name, scaling, seed)


def test_full_passes_chosen_by_hand_run_to_their_tolerance():
    X, y = SETS["iris"](return_X_y=True)
    model = SoftmaxClassifier(solver="lbfgs", alpha=1e-2).fit(X, y)
    assert 20 < model.n_iter_ < model.resolved_params_["max_iter"]


def test_full_passes_that_end_before_their_tolerance_say_what_to_do():
    X, y = SETS["wine"](return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=re.escape("or set model=models.Linear(scaling='standard')")):
        SoftmaxClassifier(solver="lbfgs", alpha=1e-4).fit(X, y)
    scaled = SoftmaxClassifier(solver="lbfgs", alpha=1e-4, model=models.Linear(scaling="standard")).fit(X, y)
    assert scaled.n_iter_ < 1000


def planted(seed, n=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    return X, (X[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1)


@pytest.mark.parametrize("max_iter", ["auto", 20], ids=["full_passes", "steps"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_columns_that_say_nothing_change_nothing(storage, max_iter, seed):
    X, y = planted(seed)
    n = len(X)
    columns = [np.zeros(n), np.full(n, 1e-42) * (X[:, 0] > 0)]
    if storage is np.asarray:  # sparse data are not centred, so that a constant column is one more intercept there
        columns += [np.full(n, 0.1), np.full(n, -3e30), np.full(n, 1e-40)]
    more = np.column_stack([X, *columns]).astype(np.float32)
    parameters = {"random_state": 0, "max_iter": max_iter, "alpha": 1e-3, "fit_intercept": True}
    plain = SoftmaxClassifier(**parameters).fit(storage(X), y)
    model = SoftmaxClassifier(**parameters).fit(storage(more), y)
    # Step sizes follow the number of features that vary; sums over more of them are rounded otherwise.
    np.testing.assert_allclose(model.predict_proba(storage(more)), plain.predict_proba(storage(X)), atol=1e-4)
    assert np.abs(model.coef_[:, 5:]).max() < 1e-6


@pytest.mark.parametrize("max_iter", ["auto", 20], ids=["full_passes", "steps"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_columns_at_the_ends_of_float32_are_learned_as_all_are(storage, max_iter, seed):
    X, y = planted(seed)
    factors = np.array([1e30, 1e-30, 1.0, 1e36, 1e-3])
    parameters = {"random_state": 0, "max_iter": max_iter, "alpha": 1e-3}
    # Sparse features that differ less are left as they are.
    plain = SoftmaxClassifier(**parameters).fit(storage(X * np.array([1e3, 1.0, 1.0, 1.0, 1.0])), y)
    model = SoftmaxClassifier(**parameters).fit(storage(X * factors), y)
    assert np.isfinite(model.coef_).all()
    assert model.coef_.any(axis=0).all()
    expected = plain.predict_proba(storage(X * np.array([1e3, 1.0, 1.0, 1.0, 1.0])))
    # The columns are rounded to float32 in other units, and L-BFGS stops at a gradient of 1e-6.
    np.testing.assert_allclose(model.predict_proba(storage(X * factors)), expected, atol=1e-4)


def test_a_column_that_hardly_varies_beside_its_mean_is_learned_as_well_as_float32_has_it(seed):
    X, y = planted(seed)
    days = np.random.default_rng(seed).integers(0, 3, len(X))
    y = np.where(X[:, 4] > 0, days, y)
    dates = 1.6e9 + 1024 * days  # the spacing of float32 is 128 there
    more = np.column_stack([X, dates])
    plain = SoftmaxClassifier(random_state=0, alpha=1e-3).fit(X, y)
    model = SoftmaxClassifier(random_state=0, alpha=1e-3).fit(more, y)
    assert model.loss_curve_[-1] < plain.loss_curve_[-1] - 0.01
    # Scores are rounded by a tenth of the weight of such a column at most; the curve has the ridge, too.
    assert model.evaluate(more, y)["log_loss"] < model.loss_curve_[-1] + 1e-2


def test_constant_columns_say_nothing_to_weighted_rows_either(seed):
    X, y = planted(seed)
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(X))
    more = np.column_stack([X, np.full(len(X), 0.1), np.full(len(X), -3e30)]).astype(np.float32)
    plain = SoftmaxClassifier(random_state=0, alpha=1e-3).fit(X, y, sample_weight=weights)
    model = SoftmaxClassifier(random_state=0, alpha=1e-3).fit(more, y, sample_weight=weights)
    # L-BFGS stops at a gradient of 1e-6.
    np.testing.assert_allclose(model.predict_proba(more), plain.predict_proba(X), atol=1e-4)


def test_units_of_mixed_tables_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    towns = np.eye(12)[rng.integers(0, 12, 400)]
    numbers = rng.normal(size=(400, 3)) * [1, 20, 3e5] + [0, 2000, 1e6]
    X = np.column_stack([towns, numbers]).astype(np.float32)
    y = (towns[:, :3] * 3 + rng.gumbel(size=(400, 3)) + (numbers[:, [1]] - 2000) / 20 * [-1, 0, 1]).argmax(axis=1)
    rescaled = X * np.where(np.arange(15) < 12, 100, 1e-3)
    fits = [SoftmaxClassifier(random_state=0).fit(x, y).evaluate(x, y)["log_loss"] for x in (X, rescaled)]
    assert fits[0] == pytest.approx(fits[1], abs=1e-3)  # a mean of 2,000 is rounded in float32
    assert fits[0] < 0.9
