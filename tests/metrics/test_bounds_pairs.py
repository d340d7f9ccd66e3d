"""Paired comparisons: the Bradley-Terry likelihood, its maximum, and one-vs-each as a case of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from manyclass import bounds
from manyclass.bounds.closed_forms import maximum_likelihood_scores, maximum_one_vs_each

EPS = np.finfo(np.float64).eps
COUNTS = np.array([50, 1, 17, 3, 88, 41])


def some_wins(rng, K, share=1.0):
    """Wins that lead from every class to every other: a ring both ways, and some share of all pairs."""
    wins = rng.integers(0, 9, size=(K, K)) * (rng.uniform(size=(K, K)) < share)
    for k in range(K):
        wins[k, (k + 1) % K] += 1
        wins[(k + 1) % K, k] += 1
    return wins.astype(float)


def by_definition(f, wins):
    """The log-likelihood, pair by pair."""
    K = len(wins)
    return sum(wins[k, m] * np.log(expit(f[k] - f[m])) for k in range(K) for m in range(K) if k != m)


def test_value_is_the_definitions_and_gradient_its_slope(seed):
    rng = np.random.default_rng(seed)
    wins, f = some_wins(rng, 5), rng.normal(size=5)
    value, gradient = bounds.bradley_terry(f, wins)
    assert value == pytest.approx(by_definition(f, wins), rel=100 * EPS)
    h = 1e-5
    slopes = [(by_definition(f + h * e, wins) - by_definition(f - h * e, wins)) / (2 * h) for e in np.eye(5)]
    # EPS / h and h^2 / 6, times some 100 wins.
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-7)


def test_one_vs_each_is_the_likelihood_of_points_that_beat_every_other_class(seed):
    f = np.random.default_rng(seed).normal(size=len(COUNTS))
    value, gradient = bounds.one_vs_each(f, np.arange(len(COUNTS)))
    wins = np.repeat(COUNTS[:, np.newaxis], len(COUNTS), axis=1)
    pairs = bounds.bradley_terry(f, wins)
    assert pairs.value == pytest.approx(COUNTS @ value, rel=50 * EPS)
    np.testing.assert_allclose(pairs.gradient, COUNTS @ gradient, rtol=0, atol=50 * EPS * COUNTS.sum())


def test_with_every_pair_compared_for_each_point_the_scores_are_log_counts():
    wins = np.repeat(COUNTS[:, np.newaxis], len(COUNTS), axis=1)
    f = bounds.bradley_terry_scores(wins)
    best = maximum_likelihood_scores(COUNTS)
    np.testing.assert_allclose(f, best - best.mean(), rtol=0, atol=1e-9)
    assert bounds.bradley_terry(f, wins).value == pytest.approx(maximum_one_vs_each(COUNTS), rel=1e-12)


def test_two_classes_differ_by_the_log_odds():
    f = bounds.bradley_terry_scores([[0, 30], [70, 0]])
    np.testing.assert_allclose(f[1] - f[0], np.log(7 / 3), rtol=1e-12)


def test_in_a_tree_of_pairs_each_pair_has_its_own_log_odds(seed):
    rng = np.random.default_rng(seed)
    K = 9
    wins = np.zeros((K, K))
    for k in range(1, K):
        parent = rng.integers(k)
        wins[k, parent], wins[parent, k] = rng.integers(1, 1000, size=2)
    f = bounds.bradley_terry_scores(wins)
    a, b = np.nonzero(np.triu(wins))
    np.testing.assert_allclose(f[a] - f[b], np.log(wins[a, b] / wins[b, a]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_scipy_finds_no_better_scores(kind, share, seed):
    wins = some_wins(np.random.default_rng(seed), 12, share)
    f = bounds.bradley_terry_scores(kind(wins))
    assert abs(f.mean()) < 1e-14
    np.testing.assert_allclose(bounds.bradley_terry(f, wins).gradient, 0, atol=1e-10)
    found = minimize(
        lambda g: tuple(-part for part in bounds.bradley_terry(g, wins)), np.zeros(12), jac=True, method="BFGS",
        options={"gtol": 1e-7},
    ).x  # fmt: skip
    # Its gradient is below 1e-7, the curvature of a ring of 12 classes above 0.01.
    np.testing.assert_allclose(f, found - found.mean(), rtol=0, atol=1e-4)
    assert bounds.bradley_terry(f, wins).value >= bounds.bradley_terry(found, wins).value * (1 + 1e-14)


@pytest.mark.parametrize("odds", [1e3, 1e8, 1e15])
def test_classes_far_apart_are_fitted_too(odds):
    chain = np.diag(np.full(3, odds), -1) + np.diag(np.ones(3), 1)
    f = bounds.bradley_terry_scores(chain)
    np.testing.assert_allclose(np.diff(f), np.log(odds), rtol=1e-7)


def test_planted_skills_are_found_from_comparisons(seed):
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=30)
    a, b = np.triu_indices(30, 1)
    n = 400
    won = rng.binomial(n, expit(skill[a] - skill[b]))
    wins = np.zeros((30, 30))
    wins[a, b], wins[b, a] = won, n - won
    f = bounds.bradley_terry_scores(wins)
    # Fisher information of a class: 29 pairs, 400 times p q of at least 0.05 or so; five standard errors.
    assert np.abs(f - (skill - skill.mean())).max() < 5 / np.sqrt(29 * n * 0.05)


@pytest.mark.parametrize("share", [0.05, 0.15, 0.4])
def test_groups_of_wins_are_strong_components(share, seed):
    rng = np.random.default_rng(seed)
    wins = sp.csr_array(rng.random((30, 30)) < share, dtype=float)
    wins.setdiag(0)
    wins.eliminate_zeros()
    n_groups, group = connected_components(wins, directed=True, connection="strong")
    if n_groups == 1:
        assert np.isfinite(bounds.bradley_terry_scores(wins)).all()
    else:
        told = rf"wins has {n_groups} groups of classes.* class 0 in one of {(group == group[0]).sum()} of 30"
        with pytest.raises(ValueError, match=told):
            bounds.bradley_terry_scores(wins)


def test_many_classes_of_few_pairs_have_the_odds_of_each(seed):
    n, rng = 2000, np.random.default_rng(seed)
    up, down = rng.integers(1, 50, size=(2, n - 1)).astype(float)
    f = bounds.bradley_terry_scores(sp.diags_array([up, down], offsets=[1, -1], shape=(n, n)))
    np.testing.assert_allclose(-np.diff(f), np.log(up / down), rtol=0, atol=1e-9)


def test_scores_that_do_not_exist_are_refused():
    beaten = np.array([[0, 2, 3], [1, 0, 4], [0, 0, 0]])  # class 2 never wins
    with pytest.raises(ValueError, match="wins has 2 groups of classes"):
        bounds.bradley_terry_scores(beaten)
    with pytest.raises(ValueError, match="wins has 3 groups"):
        bounds.bradley_terry_scores(np.eye(3))  # the diagonal counts for nothing
    for wins, message in (
        (np.ones((2, 3)), r"wins has shape \(2, 3\)"),
        (np.ones((1, 1)), r"wins has shape \(1, 1\)"),
        (-np.ones((2, 2)), "wins contains -1"),
        ([[0, np.nan], [1, 0]], "wins contains nan"),
    ):
        with pytest.raises(ValueError, match=message):
            bounds.bradley_terry_scores(wins)
    with pytest.raises(ValueError, match=r"f has shape \(3,\), wins is of 2 classes"):
        bounds.bradley_terry(np.zeros(3), np.ones((2, 2)))
    with pytest.raises(ValueError, match="tol is 0"):
        bounds.bradley_terry_scores(np.ones((2, 2)), tol=0)
