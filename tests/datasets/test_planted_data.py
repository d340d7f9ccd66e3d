"""Planted data come from the stated softmax, and its log-loss is what it is said to be."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import chi2

from manyclass.datasets import make_planted


def test_rows_are_unit_rows_of_equal_values():
    data = make_planted(3000, 20, 9, nnz=3, n_test=500, random_state=0)
    assert (data.X.shape, data.X_test.shape, data.W_true.shape) == ((3000, 9), (500, 9), (20, 9))
    assert (data.y.shape, data.y_test.shape, data.y.dtype) == ((3000,), (500,), np.int64)
    assert (np.diff(data.X.indptr) == 3).all()
    assert data.X.has_canonical_format
    assert data.X.indices.dtype == np.int32
    assert (data.X.data == np.float32(3**-0.5)).all()
    assert len(np.unique(data.X.toarray(), axis=0)) == 84  # all subsets of three


def test_the_pool_has_as_many_patterns_as_asked():
    data = make_planted(3000, 5, 50, nnz=2, n_patterns=40, random_state=0)
    assert len(np.unique(data.X.toarray(), axis=0)) == 40


def test_stated_losses_are_those_of_the_true_weights():
    data = make_planted(4000, 30, 6, random_state=3)
    for X, y, stated in ((data.X, data.y, data.log_loss), (data.X_test, data.y_test, data.test_log_loss)):
        log_p = log_softmax(X @ data.W_true.T, axis=1)
        assert stated == pytest.approx(-log_p[np.arange(len(y)), y].mean(), rel=1e-12)  # float64 sums
    pool = np.unique(data.X.toarray(), axis=0)
    log_p = log_softmax(pool @ data.W_true.T, axis=1)
    entropy = -(np.exp(log_p) * log_p).sum(axis=1).mean()
    assert len(pool) == 15
    assert data.bayes_log_loss == pytest.approx(entropy, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_true_weights_reach_the_bayes_loss_on_a_sample(seed):
    data = make_planted(100_000, 200, 8, random_state=seed)
    log_p = log_softmax(data.X @ data.W_true.T, axis=1)[np.arange(100_000), data.y]
    standard_error = log_p.std() / np.sqrt(100_000)
    assert abs(data.log_loss - data.bayes_log_loss) < 5 * standard_error  # false alarm: 6e-7
    assert abs(data.test_log_loss - data.bayes_log_loss) < 5 * standard_error * 10**0.5


@pytest.mark.parametrize("seed", range(5))
def test_classes_are_drawn_from_the_softmax(seed):
    data = make_planted(50_000, 12, 4, scale=2.0, random_state=seed)
    pool, row = np.unique(data.X.toarray(), axis=0, return_inverse=True)
    observed = np.zeros((len(pool), 12))
    np.add.at(observed, (row, data.y), 1)
    expected = observed.sum(axis=1, keepdims=True) * np.exp(log_softmax(pool @ data.W_true.T, axis=1))
    common = expected >= 5  # where the chi-square approximation holds
    observed, expected = observed[common], expected[common]
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, common.sum()) > 1e-6


def test_class_frequencies_fall_as_a_power_of_the_rank():
    data = make_planted(200_000, 100, 5, scale=0.0, zipf=1.0, random_state=0)
    counts = np.sort(np.bincount(data.y, minlength=100))[::-1]
    expected = 200_000 / np.arange(1, 101) / (1 / np.arange(1, 101)).sum()
    # Six standard deviations of a Poisson count; sorting moves neighbours by less.
    assert (abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_the_fitted_optimum_lies_one_statistical_gap_below_the_true_weights():
    data = make_planted(20_000, 6, 4, random_state=1)
    X, onehot = data.X.toarray().astype(np.float64), np.eye(6)[data.y]

    def loss(w):
        log_p = log_softmax(X @ w.reshape(6, 4).T, axis=1)
        gradient = (np.exp(log_p) - onehot).T @ X / len(X)
        return -(log_p * onehot).sum() / len(X), gradient.ravel()

    fit = minimize(loss, np.zeros(24), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    # 2 N (difference) is a chi-square of 20 degrees of freedom.
    statistic = 2 * 20_000 * (data.log_loss - fit.fun)
    assert data.statistical_gap == 20 / 40_000
    assert chi2.ppf(1e-6, 20) < statistic < chi2.isf(1e-6, 20)


def test_the_seed_decides_all():
    a, b, c = (make_planted(500, 10, 5, random_state=s) for s in (0, 0, 1))
    assert (a.X != b.X).nnz == 0
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.W_true, b.W_true)
    assert (a.W_true != c.W_true).all()


@pytest.mark.parametrize(
    ("argument", "least"),
    [("n_samples", 1), ("n_classes", 2), ("nnz", 1), ("n_test", 1), ("n_patterns", 1), ("scale", 0), ("zipf", 0)],
)
def test_numbers_out_of_range_are_refused(argument, least):
    with pytest.raises(ValueError, match=f"{argument} is {least - 1}; it must be (finite, )?at least {least}"):
        make_planted(**{"n_samples": 10, "n_classes": 5, "n_features": 3, argument: least - 1})
    with pytest.raises(ValueError, match="n_features is 1; it must be at least 2"):
        make_planted(10, 5, 1, nnz=2)
