"""manyclass.bounds of the softmax: each is below log p, exact where it should be, and its gradient is its gradient."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from manyclass import bounds

EPS = np.finfo(np.float64).eps


def exact(f, k):
    """log p(y = k) by SciPy's log-sum-exp."""
    f, k = np.asarray(f, dtype=np.float64), np.asarray(k)
    lead = np.broadcast_shapes(f.shape[:-1], k.shape)
    f = np.broadcast_to(f, (*lead, f.shape[-1]))
    own = np.take_along_axis(f, np.broadcast_to(k, lead)[..., None], axis=-1)[..., 0]
    return own - logsumexp(f, axis=-1)


def thirds(f):
    """The classes in three blocks by their number modulo 3; those that are empty for a small K too."""
    return [np.arange(j, np.atleast_1d(f).shape[-1], 3) for j in range(3)]


# Every bound of the softmax as a function of scores and class: with the best parameters, and with fixed ones.
BEST = {
    "log_softmax": bounds.log_softmax,
    "one_vs_each": bounds.one_vs_each,
    "mixed_bound": lambda f, k: bounds.mixed_bound(f, k, [0, 1]),
    "block_bound": lambda f, k: bounds.block_bound(f, k, thirds(f)),
    "bouchard": bounds.bouchard,
    "log_concavity": bounds.log_concavity,
}
FIXED = {
    "bouchard at 0.3": lambda f, k: bounds.bouchard(f, k, 0.3),
    "log_concavity at 1.2": lambda f, k: bounds.log_concavity(f, k, 1.2),
    "augment_reduce": lambda f, k: bounds.augment_reduce(f, k, 1.2, 0.8),
}
ALL = BEST | FIXED


def random_scores(rng, scale, n=50):
    """Scores and a class of n points for each of several K."""
    for K in (2, 3, 4, 17):
        yield rng.normal(scale=scale, size=(n, K)), rng.integers(K, size=n)


def finite_difference(value, at):
    """Central differences of a function R^n -> R. Step 1e-5: errors h^2 f''' / 6 and EPS f / h, both 2e-11 f."""
    steps = 1e-5 * np.eye(at.size)
    return np.array([(value(at + s) - value(at - s)) / 2e-5 for s in steps])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4, 1e300])
@pytest.mark.parametrize("bound", ALL.values(), ids=ALL)
def test_no_bound_exceeds_the_exact_log_probability(bound, scale, seed):
    for f, k in random_scores(np.random.default_rng(seed), scale):
        value, gradient, *_ = bound(f, k)
        # SciPy's log p is off by an ulp or two of the largest score, a sum of K terms of one sign by K ulp of itself.
        slack = 4 * EPS * np.abs(f).max() + 2 * f.shape[-1] * EPS * np.abs(exact(f, k))
        assert (value <= exact(f, k) + slack).all()
        assert not np.isnan(gradient).any()


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4, 1e300])
@pytest.mark.parametrize("bound", BEST.values(), ids=BEST)
def test_bounds_without_fixed_parameters_are_finite_for_any_scores(bound, scale, seed):
    for f, k in random_scores(np.random.default_rng(seed), scale):
        value, gradient, *_ = bound(f, k)
        assert np.isfinite(value).all()
        assert (np.abs(gradient) <= f.shape[-1]).all()


@pytest.mark.parametrize("bound", ALL.values(), ids=ALL)
def test_gradients_are_the_slopes_by_finite_differences(bound, seed):
    for f, k in random_scores(np.random.default_rng(seed), 1.5, n=5):
        for f_i, k_i in zip(f, k, strict=True):
            value, gradient, *_ = bound(f_i, k_i)
            slopes = finite_difference(lambda g, k_i=k_i: bound(g, k_i).value, f_i)
            # f''' is of the size of f for sums of exponentials
            np.testing.assert_allclose(gradient, slopes, atol=1e-9 * (1 + abs(value)))


@pytest.mark.parametrize("bound", [bounds.bouchard, bounds.log_concavity], ids=lambda b: b.__name__)
def test_parameter_gradients_are_the_slopes_by_finite_differences(bound, seed):
    for f, k in random_scores(np.random.default_rng(seed), 1.5, n=5):
        for f_i, k_i, at in zip(f, k, np.linspace(-1, 3, 5), strict=True):
            value, _, slope = bound(f_i, k_i, at)
            (want,) = finite_difference(lambda p, f=f_i, k=k_i: bound(f, k, p[0]).value, np.array([at]))
            np.testing.assert_allclose(slope, want, atol=1e-9 * (1 + abs(value)))


@pytest.mark.parametrize("bound", [bounds.log_softmax, bounds.log_concavity], ids=lambda b: b.__name__)
def test_the_exact_ones_are_exact(bound, seed):
    for f, k in random_scores(np.random.default_rng(seed), 5.0):
        value, gradient, *_ = bound(f, k)
        np.testing.assert_allclose(value, exact(f, k), rtol=4 * EPS, atol=64 * EPS)  # scores below 32
        p = np.exp(f - logsumexp(f, axis=-1, keepdims=True))
        np.testing.assert_allclose(gradient, np.eye(f.shape[-1])[k] - p, atol=64 * EPS)


def test_log_softmax_keeps_its_digits_where_p_is_nearly_1():
    np.testing.assert_allclose(bounds.log_softmax([0.0, -100.0, -101.0], 0).value, -np.exp(-100) * (1 + np.exp(-1)))


def test_one_vs_each_is_exact_for_two_classes(seed):
    f = np.random.default_rng(seed).normal(scale=20, size=(100, 2))
    for got, want in zip(bounds.one_vs_each(f, 1), bounds.log_softmax(f, 1), strict=True):
        np.testing.assert_allclose(got, want, rtol=8 * EPS)


def test_block_bound_is_the_product_of_conditional_probabilities(seed):
    # Titsias, NIPS 2016, Proposition 1, with the probabilities of a random finite space.
    rng = np.random.default_rng(seed)
    for K in (2, 5, 30):
        p = rng.dirichlet(np.ones(K))
        k = int(rng.integers(K))
        cuts = np.sort(rng.integers(K + 1, size=3))
        blocks = np.split(rng.permutation(K), cuts)
        product = np.prod([p[k] / (p[k] + p[b[b != k]].sum()) for b in blocks])
        np.testing.assert_allclose(bounds.block_bound(np.log(p), k, blocks).value, np.log(product), rtol=1e-13)


def test_one_block_is_exact_and_single_classes_are_one_vs_each(seed):
    for f, k in random_scores(np.random.default_rng(seed), 3.0):
        K = f.shape[-1]
        for blocks, same in [([range(K)], bounds.log_softmax), ([[m] for m in range(K)], bounds.one_vs_each)]:
            for got, want in zip(bounds.block_bound(f, k, blocks), same(f, k), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)  # sums of 17 terms in another order


def test_merging_any_two_blocks_never_loosens_the_bound(seed):
    rng = np.random.default_rng(seed)
    for scale in (0.1, 3.0, 1e3):
        f, k = rng.normal(scale=scale, size=(20, 12)), rng.integers(12, size=20)
        blocks = [[m] for m in rng.permutation(12)]
        value = bounds.block_bound(f, k, blocks).value
        while len(blocks) > 1:
            blocks = bounds.merge(blocks, *rng.permutation(len(blocks))[:2])
            tighter = bounds.block_bound(f, k, blocks).value
            # 12 roundings of sums of one sign, and e^odds with odds off by an ulp of the scores; values are negative.
            assert (tighter >= value * (1 + (12 + 4 * np.abs(f).max()) * EPS)).all()
            value = tighter
        np.testing.assert_allclose(value, bounds.log_softmax(f, k).value, rtol=1e-13)


def test_hierarchy_tightens_from_one_vs_each_to_exact_in_log2_steps(seed):
    rng = np.random.default_rng(seed)
    f, k = rng.normal(size=(6, 11)), rng.integers(11, size=6)
    levels = list(bounds.hierarchy(f, k))
    assert [len(blocks) for blocks, _ in levels] == [11, 6, 3, 2, 1]
    values = np.array([bound.value for _, bound in levels])
    assert (np.diff(values, axis=0) >= -1e-14).all()
    np.testing.assert_allclose(values[0], bounds.one_vs_each(f, k).value, rtol=1e-13)
    np.testing.assert_allclose(values[-1], exact(f, k), rtol=1e-13)
    shorter = list(bounds.hierarchy(f, 0, [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10]]))
    assert [[list(b) for b in blocks] for blocks, _ in shorter[1:]] == [
        [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10]],
        [[*range(1, 11)]],
    ]


def test_the_two_sides_of_equation_6_are_in_order(seed):
    rng = np.random.default_rng(seed)
    f, C, rest = rng.normal(size=(20, 9)), [1, 4, 6], [0, 2, 5, 7, 8]
    two = bounds.block_bound(f, 3, [C, rest])
    mixed = bounds.mixed_bound(f, 3, C)
    assert (exact(f, 3) > two.value).all()
    assert (two.value > mixed.value).all()
    assert (mixed.value > bounds.one_vs_each(f, 3).value).all()
    for got, want in zip(mixed, bounds.block_bound(f, 3, [C, *([m] for m in rest)]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_mixed_bound_takes_a_set_per_point_and_ignores_k_and_repetitions(seed):
    rng = np.random.default_rng(seed)
    f, k = rng.normal(size=(5, 9)), rng.integers(9, size=5)
    best = np.argsort(-f)[:, :4]
    got = bounds.mixed_bound(f, k, best)
    for i in range(5):
        bare = [m for m in best[i] if m != k[i]]
        for a, b in zip(bounds.mixed_bound(f[i], k[i], [*bare, bare[0]]), got, strict=True):
            np.testing.assert_allclose(a, b[i], rtol=1e-13)
    for none in ([], [k[0]]):
        np.testing.assert_allclose(
            bounds.mixed_bound(f[0], k[0], none).value, bounds.one_vs_each(f[0], k[0]).value, rtol=1e-14
        )


def test_bouchard_at_f_k_is_half_of_one_vs_each(seed):
    for f, k in random_scores(np.random.default_rng(seed), 4.0):
        own = np.take_along_axis(f, k[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(
            bounds.bouchard(f, k, own).value, bounds.one_vs_each(f, k).value - np.log(2), rtol=1e-13
        )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_bouchards_best_a_is_the_root(scale, seed):
    for f, _ in random_scores(np.random.default_rng(seed), scale):
        a = bounds.bouchard_location(f)
        # The derivative of the sum is at most K / 4, that of a alone is at most 4 ulp of the scores.
        error = 4 * EPS * max(1, np.abs(f).max())
        np.testing.assert_allclose(expit(f - a[:, None]).sum(axis=1), 1, atol=f.shape[-1] * (error + EPS))


def test_bouchards_best_a_is_found_where_the_sum_is_flat():
    # sum sigma(f_m - a) is 1 to the last bit for a in (-9900, 9900); the best a still is in the middle.
    np.testing.assert_allclose(bounds.bouchard_location([1e4, -1e4]), 0, atol=4 * EPS * 1e4)
    # Here sigma(f_2 - a) + sigma(f_3 - a) = sigma(a - f_1) makes 2 e^{-1e4 - a} = e^{a - 1e4}.
    np.testing.assert_allclose(bounds.bouchard_location([1e4, -1e4, -1e4]), np.log(2) / 2, atol=4 * EPS * 1e4)
    np.testing.assert_allclose(bounds.bouchard_location([1e308, -7e307]), 1.5e307)


def test_bouchards_best_a_of_equal_scores_has_its_closed_form():
    for K in (2, 3, 1000, 10**6):
        np.testing.assert_allclose(bounds.bouchard_location(np.full(K, 7.0)), 7 + np.log(K - 1), rtol=4 * EPS)


def test_no_other_a_gives_bouchard_a_better_bound(seed):
    for f, k in random_scores(np.random.default_rng(seed), 3.0):
        best, a = bounds.bouchard(f, k), bounds.bouchard_location(f)
        for move in (-3, -1e-3, 1e-3, 3):
            assert (bounds.bouchard(f, k, a + move).value < best.value).all()


def test_log_concavity_is_loose_by_e_to_the_d_less_1_less_d(seed):
    for f, k in random_scores(np.random.default_rng(seed), 2.0):
        log_A = -exact(f, k)
        for u in (0.0, 1.0, 5.0):
            D = log_A - u
            got = bounds.log_concavity(f, k, u)
            np.testing.assert_allclose(-log_A - got.value, np.exp(D) - 1 - D, rtol=1e-11, atol=1e-14)
