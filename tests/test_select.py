"""Selections of wrong classes: the code's draws are the twin's, and the twin's estimate without bias."""

from math import comb

import numpy as np
import pytest
from reference.rng import Rng, every_outcome
from reference.selections import SELECTIONS
from scipy.stats import chi2

from manyclass import _core

# (n_classes, n_negatives): one class at a time, a short last block, m = K - 1, m >= K, powers of two
SIZES = [(2, 1), (5, 1), (7, 3), (8, 4), (7, 6), (6, 6), (6, 50), (40, 16)]
FALSE_ALARM = 1e-7  # of each chi-square test; 100 seeds and a handful of tests stay below 1e-4


def test_every_selection_has_a_twin():
    assert set(SELECTIONS) == set(_core.selection_names())


@pytest.mark.parametrize("selection", _core.selection_names())
@pytest.mark.parametrize(("n_classes", "m"), SIZES)
def test_draws_equal_the_twin(selection, n_classes, m, seed):
    some = np.random.default_rng(seed)
    for _ in range(50):
        label, epoch, item = (int(some.integers(0, high)) for high in (n_classes, 100, 10**9))
        classes, alpha = _core._draw(selection, n_classes, m, label, seed, epoch, item)
        expected, weights = SELECTIONS[selection](Rng(seed, epoch, item), n_classes, min(m, n_classes), label)
        assert classes == expected.tolist()
        np.testing.assert_allclose(alpha, weights, rtol=2**-24)  # one rounding to float


@pytest.mark.parametrize("selection", _core.selection_names())
@pytest.mark.parametrize(("n_classes", "m"), SIZES[:-1])
def test_each_wrong_class_counts_once_on_average_and_the_label_never(selection, n_classes, m):
    for label in range(n_classes):
        counted = np.zeros(n_classes)
        outcomes = every_outcome(
            lambda rng, label=label: SELECTIONS[selection](rng, n_classes, min(m, n_classes), label)
        )
        for probability, (classes, alpha) in outcomes:
            assert len(set(classes.tolist())) == len(classes)
            counted[classes] += probability * alpha
        # A sum of doubles below 1, each addition off by half an ulp of 1.
        np.testing.assert_allclose(counted, np.arange(n_classes) != label, rtol=0, atol=len(outcomes) * 2**-53)


@pytest.mark.parametrize(("n_classes", "m"), [(5, 1), (7, 3), (6, 5)])
def test_uniform_makes_every_subset_equally_likely(n_classes, m):
    probabilities: dict[tuple[int, ...], float] = {}
    for probability, (classes, _) in every_outcome(lambda rng: SELECTIONS["uniform"](rng, n_classes, m, 2)):
        subset = tuple(classes.tolist())
        probabilities[subset] = probabilities.get(subset, 0.0) + probability
    assert len(probabilities) == comb(n_classes - 1, m)
    np.testing.assert_allclose(list(probabilities.values()), 1 / comb(n_classes - 1, m), rtol=1e-12)


@pytest.mark.parametrize(("selection", "n_outcomes"), [("block", 4), ("uniform", 35)])
def test_the_draws_of_many_points_are_spread_evenly(selection, n_outcomes, seed):
    n, n_classes, m = 7000, 8, 2 if selection == "block" else 3
    drawn = [tuple(_core._draw(selection, n_classes, m, 7, seed, 0, item)[0]) for item in range(n)]
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == n_outcomes
    expected = n / n_outcomes
    assert np.sum((counts - expected) ** 2) / expected < chi2.isf(FALSE_ALARM, n_outcomes - 1)


def test_draws_of_neighbouring_points_and_passes_are_independent(seed):
    first, second = (
        np.array([_core._draw("block", 8, 2, 7, seed, epoch, i)[0][0] // 2 for i in range(8000)]) for epoch in (0, 1)
    )
    for before, after in ((first[:-1], first[1:]), (first, second)):
        counts = np.bincount(4 * before + after, minlength=16)
        expected = len(before) / 16
        assert np.sum((counts - expected) ** 2) / expected < chi2.isf(FALSE_ALARM, 15)


def test_an_unknown_selection_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="selection is 'blocks'; it must be one of 'block', 'uniform', 'all'"):
        _core._draw("blocks", 4, 1, 0, 0, 0, 0)
