"""Closed forms of models with biases only, against optimisers and the published figures."""

import numpy as np
import pytest
from reference.full_batch import point_losses
from scipy.optimize import minimize

from manyclass.bounds.closed_forms import (
    bouchard_scores,
    maximum_likelihood_scores,
    maximum_log_likelihood,
    maximum_one_vs_each,
)


def value(loss, scores, counts):
    """Log-likelihood, or its bound, of all points: each class's N_k points have the same scores."""
    z = np.tile(scores, (len(counts), 1))
    return -float(counts @ point_losses(loss, z, np.arange(len(counts))))


def maximise(loss, counts):
    return minimize(lambda f: -value(loss, f, counts) / counts.sum(), np.zeros(len(counts)), options={"gtol": 1e-8})


def some_counts(seed, n_classes=7):
    return np.random.default_rng(seed).integers(1, 40, size=n_classes).astype(float)


# Finite differences leave BFGS a gradient of about 1e-8: f is off by 1e-7, and the value by less than its square.
OFF_OF_BFGS = 1e-4


@pytest.mark.parametrize(
    ("loss", "maximum"), [("softmax", maximum_log_likelihood), ("ove", maximum_one_vs_each)], ids=["softmax", "ove"]
)
def test_softmax_and_its_one_vs_each_bound_are_both_largest_at_the_log_counts(loss, maximum, seed):
    counts = some_counts(seed)
    found = maximise(loss, counts)
    scores = maximum_likelihood_scores(counts)
    np.testing.assert_allclose(found.x - found.x.mean(), scores - scores.mean(), rtol=0, atol=OFF_OF_BFGS)
    assert maximum(counts) == pytest.approx(value(loss, scores, counts), rel=1e-12)
    assert maximum(counts) >= -found.fun * counts.sum() * (1 + 1e-12)


def test_every_pair_of_the_one_vs_each_bound_is_stationary_at_the_log_counts(seed):
    counts = some_counts(seed)
    f = maximum_likelihood_scores(counts)
    sigma = 1 / (1 + np.exp(f[np.newaxis, :] - f[:, np.newaxis]))  # sigma(f_k - f_m)
    slopes = counts[:, np.newaxis] * (1 - sigma) - counts[np.newaxis, :] * sigma
    assert np.abs(slopes).max() <= 1e-13 * counts.max()


def test_bouchards_bound_of_two_classes_is_largest_at_twice_the_log_counts(seed):
    counts = some_counts(seed, 2)
    found = maximise("bouchard", counts)
    scores = bouchard_scores(counts)
    assert found.x[0] - found.x[1] == pytest.approx(scores[0] - scores[1], abs=OFF_OF_BFGS)


def test_a_class_without_points_changes_no_value_and_has_score_minus_infinity():
    assert maximum_log_likelihood([3, 0, 5]) == maximum_log_likelihood([3, 5])
    assert maximum_one_vs_each([3, 0, 5]) == maximum_one_vs_each([3, 5])
    assert maximum_likelihood_scores([3, 0, 5])[1] == -np.inf


def test_two_classes_make_the_one_vs_each_bound_exact():
    assert maximum_one_vs_each([3, 8]) == pytest.approx(maximum_log_likelihood([3, 8]), rel=1e-14)


def test_published_bounds_of_the_synthetic_set_of_augment_and_reduce(seed):
    # Ruiz et al., ICML 2018, 4.1: 10^4 classes, p proportional to the squares of uniform numbers, 3 10^5 points; the
    # ELBOs that 5 10^5 steps of stochastic training reached were -2.62e6 and -1.40e9. Another draw of the set moves the
    # exact optima by a few parts in a thousand.
    rng = np.random.default_rng(seed)
    p = rng.random(10_000) ** 2
    counts = rng.multinomial(300_000, p / p.sum())
    seen = np.count_nonzero(counts)
    assert seen == pytest.approx(9_035, rel=0.01)
    assert maximum_log_likelihood(counts) == pytest.approx(-2.629e6, rel=0.01)
    assert maximum_one_vs_each(counts) == pytest.approx(-1.413e9, rel=0.01)


@pytest.mark.parametrize("counts", [[], [0, 0], [1, -1], [1, np.nan], [[1, 2]]], ids=str)
def test_counts_that_are_none_are_refused(counts):
    for f in (maximum_likelihood_scores, maximum_log_likelihood, maximum_one_vs_each, bouchard_scores):
        with pytest.raises(ValueError, match="counts has shape"):
            f(counts)


@pytest.mark.parametrize("counts", [[1, 2, 3], [0, 2]], ids=str)
def test_bouchards_closed_form_is_for_two_classes_with_points(counts):
    with pytest.raises(ValueError, match="it must have two values, both > 0"):
        bouchard_scores(counts)
