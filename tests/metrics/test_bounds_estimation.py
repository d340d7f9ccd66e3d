"""What maximising a bound estimates when each class has one free score: frequencies, or something over-confident."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from test_bounds import BEST, EPS, exact

from manyclass import bounds

# Non-parametric estimation: one score per class, N_k points of class k.
COUNTS = np.array([50, 1, 17, 3, 88, 41])


def summed(bound, f, counts):
    """The sum over points of a bound, and its gradient."""
    value, gradient, *_ = bound(f, np.arange(len(f)))
    return counts @ value, counts @ gradient


@pytest.mark.parametrize("name", ["log_softmax", "one_vs_each"])
@pytest.mark.parametrize("c", [0.0, -7.5])
def test_log_counts_are_stationary_for_the_exact_and_the_one_vs_each_likelihood(name, c):
    _, gradient = summed(BEST[name], np.log(COUNTS) + c, COUNTS)
    np.testing.assert_allclose(gradient, 0, atol=1e-13 * COUNTS.sum())  # sums of up to 5 * 200 terms below 1


def test_other_bounds_are_not_stationary_at_log_counts():
    for name in ("bouchard", "block_bound"):
        _, gradient = summed(BEST[name], np.log(COUNTS), COUNTS)
        assert np.abs(gradient).max() > 0.1


def test_every_pair_is_separately_stationary_at_log_counts():
    for k, m in itertools.combinations(range(len(COUNTS)), 2):
        pair = COUNTS[[k, m]]
        _, gradient = summed(bounds.one_vs_each, np.log(pair), pair)
        np.testing.assert_allclose(gradient, 0, atol=1e-14 * pair.sum())


def test_a_class_without_points_is_best_at_minus_infinity():
    counts = np.append(COUNTS, 0)
    slopes = []
    for f_last in (-1.0, -10.0, -1e4):
        _, gradient = summed(bounds.one_vs_each, np.append(np.log(COUNTS), f_last), counts)
        slopes.append(gradient[-1])
    assert slopes[0] < slopes[1] < slopes[2] <= 0
    np.testing.assert_allclose(gradient, 0, atol=1e-13 * COUNTS.sum())


def test_bouchard_is_over_confident_for_two_classes():
    counts = np.array([30, 70])
    f = 2 * np.log(counts) + 0.4
    np.testing.assert_allclose(bounds.bouchard_location(f), f.mean(), rtol=4 * EPS)
    value, gradient = summed(bounds.bouchard, f, counts)
    np.testing.assert_allclose(gradient, 0, atol=1e-14 * counts.sum())
    for move in ([0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]):
        assert summed(bounds.bouchard, f + move, counts)[0] < value
    assert np.exp(exact(f, 1)) > 0.84  # 70^2 / (30^2 + 70^2), not 0.7


def test_one_vs_each_estimates_frequencies_and_bouchard_overstates_them(seed):
    # Titsias, NIPS 2016, Figure 1a: 200 points of 10 values. Every value is seen at least once.
    rng = np.random.default_rng(seed)
    counts = 1 + rng.multinomial(190, rng.dirichlet(np.full(10, 2.0)))
    best = {}
    for name in ("one_vs_each", "bouchard"):
        found = minimize(
            lambda f, name=name: [-part / 200 for part in summed(BEST[name], f, counts)],
            np.zeros(10),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-7},
        )
        best[name] = np.exp(exact(found.x, np.arange(10)))
    # The Hessian is the Laplacian of a complete graph with weights N_k N_m / (N_k + N_m) / 200 >= 1 / 400: curvatures
    # are at least 10 / 400, so a gradient of 10 parts of 1e-7 leaves f within 1.3e-5 and log p within twice that.
    np.testing.assert_allclose(best["one_vs_each"], counts / 200, rtol=3e-5)
    assert best["bouchard"][counts.argmax()] > counts.max() / 200 * (1 + 1e-3)
    assert best["bouchard"][counts.argmin()] < counts.min() / 200 * (1 - 1e-3)
