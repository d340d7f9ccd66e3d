"""Random words named by (seed, epoch, item), and the order of classes made from them."""

import numpy as np
import pytest
from reference import rng as twin
from scipy.stats import chi2
from testing_core import pieces

from manyclass import _core

FALSE_ALARM = 1e-7  # of each chi-square test here; 100 seeds and a handful of tests stay below 1e-4


def test_words_equal_the_twin_in_pythons_integers(seed):
    some = np.random.default_rng(seed)
    for _ in range(50):
        key = [int(some.integers(0, 2**63)), int(some.integers(0, 1000)), int(some.integers(0, 2**63)) * 2 + 1]
        words = twin.Rng(*key)
        assert pieces.random_words(*key, 5) == [words.next() for _ in range(5)]
    assert pieces.random_words(2**64 - 1, 2**64 - 1, 2**64 - 1, 1) == [twin.Rng(*[2**64 - 1] * 3).next()]


def test_mix64_is_the_published_splitmix64():
    # The known first outputs of a SplitMix64 that is seeded with 1234567.
    state, words = 1234567, []
    for _ in range(3):
        state = (state + twin.GAMMA) & twin.MASK
        words.append(twin.mix64(state))
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_below_equals_the_twin_also_where_it_rejects(seed):
    some = np.random.default_rng(seed)
    # Just above 2^31 nearly half of all words are rejected.
    bounds = [int(n) for n in some.integers(1, 2**32, size=200)] + [1, 2, 2**31 + 1, 2**32 - 1] * 20
    words = twin.Rng(seed, 3, 5)
    assert pieces.random_below(seed, 3, 5, bounds) == [words.below(n) for n in bounds]


def test_below_is_uniform(seed):
    n, draws = 12, 60_000
    counts = np.bincount(pieces.random_below(seed, 0, 1, [n] * draws), minlength=n)
    assert np.sum((counts - draws / n) ** 2) / (draws / n) < chi2.isf(FALSE_ALARM, n - 1)


def test_first_words_of_neighbouring_items_are_independent(seed):
    # One stream for all points, or streams that are shifts of each other, fill few of the 64 cells or none.
    n = 20_000
    first = np.array([pieces.random_words(seed, 0, item, 2) for item in range(n)], dtype=np.uint64)
    for before, after in ((first[:-1, 0], first[1:, 0]), (first[:-1, 1], first[1:, 0])):
        cells = (before >> np.uint64(61)) * np.uint64(8) + (after >> np.uint64(61))
        counts = np.bincount(cells.astype(np.int64), minlength=64)
        assert np.sum((counts - (n - 1) / 64) ** 2) / ((n - 1) / 64) < chi2.isf(FALSE_ALARM, 63)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 17, 1000])
def test_class_order_equals_the_twin_and_is_a_permutation(n_classes, seed):
    order = _core.class_order(n_classes, seed)
    assert order.tolist() == twin.class_order(n_classes, seed)
    assert sorted(order.tolist()) == list(range(n_classes))


def test_class_orders_are_equally_likely(seed):
    orders = [tuple(_core.class_order(4, 10_000 * seed + s).tolist()) for s in range(9600)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert np.sum((counts - 400) ** 2) / 400 < chi2.isf(FALSE_ALARM, 23)
