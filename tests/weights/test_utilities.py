"""Choice probabilities of random utility models: closed forms, simulation, other integrators, a model's rows."""

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from reference.augment_reduce import LAWS, simulated
from scipy.integrate import quad
from scipy.special import log_softmax, ndtr, softmax

from manyclass import _core
from manyclass.registry import names
from manyclass.special import log_ndtr, sampled_utility_log_probabilities, utility_probabilities
from manyclass.weights.weights import Weights

NOISES = names("noise")
INTEGRATED = [noise for noise in names("noise") if noise != "gumbel"]
ISAS = ["baseline", "avx2", "avx512"]
ISAS = ISAS[: ISAS.index(_core.best_isa()) + 1]

# What the quadrature promises; its own tolerance is a tenth of it.
ATOL = 1e-8
# Beyond some of them, 2^14 and 2^32, there are closed forms.
GAPS = np.array([0, 1e-9, 1e-3, 0.3, 1, 3, 10, 30, 100, 600, 1e4, 16383, 16385, 1e6, 4.2e9, 4.4e9, 1e16, 1e38, 1e150])


def log_logistic_behind(d):
    """log P of the class that is behind by d >= 0 among two with logistic noise: (e^-d)(e^-d - 1 + d)/(e^-d - 1)^2."""
    if d < 1e-2:
        # By expansion: 1/2 - d/6 + d^3/180 - ...; the term left out is below d^5 / 5040.
        return np.log(0.5 - d / 6 + d**3 / 180)
    return -d + np.log(np.expm1(-d) + d) - 2 * np.log(-np.expm1(-d))


@pytest.mark.parametrize("isa", ISAS)
def test_two_classes_with_normal_noise_have_the_closed_form(isa):
    psi = np.stack([GAPS, np.zeros_like(GAPS)], axis=1) - 7
    options = {"noise": "normal", "psi": psi, "n_threads": 1, "isa": isa}
    signed = np.stack([GAPS, -GAPS], axis=1) / np.sqrt(2)
    np.testing.assert_allclose(_core.utility_probabilities(log=False, **options), ndtr(signed), atol=ATOL, rtol=0)
    logs = _core.utility_probabilities(log=True, **options)
    near = GAPS < 100
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(logs[near], log_ndtr(signed[near]), atol=ATOL, rtol=0)
        # The relative error that is promised for far logarithms.
        np.testing.assert_allclose(logs[~near], log_ndtr(signed[~near]), atol=ATOL, rtol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_two_classes_with_logistic_noise_have_the_closed_form(isa):
    psi = np.stack([-GAPS, np.zeros_like(GAPS)], axis=1)
    options = {"noise": "logistic", "psi": psi, "n_threads": 1, "isa": isa}
    want = np.array([log_logistic_behind(d) for d in GAPS])
    p = _core.utility_probabilities(log=False, **options)
    np.testing.assert_allclose(p[:, 0], np.exp(want), atol=ATOL, rtol=0)
    np.testing.assert_allclose(p[:, 1], -np.expm1(want), atol=ATOL, rtol=0)
    logs = _core.utility_probabilities(log=True, **options)
    np.testing.assert_allclose(logs[:, 0], want, atol=ATOL, rtol=1e-6)
    near = GAPS < 1000
    np.testing.assert_allclose(logs[near, 0], want[near], atol=ATOL, rtol=0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n_classes", [1, 2, 3, 10, 100, 1000, 30_000, 1_000_000])
def test_equal_utilities_are_equally_probable(noise, n_classes):
    psi = np.full(n_classes, 3.5)
    p = utility_probabilities(psi, noise)
    np.testing.assert_allclose(p, 1 / n_classes, atol=ATOL / n_classes, rtol=0)
    assert abs(p.sum() - 1) <= ATOL
    some = [0, n_classes // 2, n_classes - 1]
    log_p = utility_probabilities(psi, noise, classes=some, log=True)
    np.testing.assert_allclose(log_p, -np.log(n_classes), atol=ATOL, rtol=0)


def test_gumbel_noise_is_the_softmax(seed):
    psi = np.random.default_rng(seed).normal(scale=30, size=(4, 5, 200))
    # A few ulp of sums of 200 terms.
    np.testing.assert_allclose(utility_probabilities(psi, "gumbel"), softmax(psi, axis=-1), rtol=1e-12)
    logs = utility_probabilities(psi, "gumbel", log=True, classes=[3, 5])
    np.testing.assert_allclose(logs, log_softmax(psi, axis=-1)[..., [3, 5]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n_classes", [5, 50, 1000])
def test_frequencies_of_simulated_choices_agree(noise, n_classes, seed):
    rng = np.random.default_rng(seed)
    psi = rng.normal(size=n_classes)
    n, counts = 40_000, np.zeros(n_classes)
    for _ in range(8):
        choices = (psi + simulated(noise, rng, (n // 8, n_classes))).argmax(axis=1)
        counts += np.bincount(choices, minlength=n_classes)
    p = utility_probabilities(psi, noise)
    # Pearson's statistic of the classes that expect 5 choices or more, the rest as one: its mean is the number of
    # cells and its variance about twice that; 6 standard deviations are passed once in 10^6 at most, by chance.
    often = n * p >= 5
    expected = np.append(n * p[often], n * p[~often].sum())
    observed = np.append(counts[often], counts[~often].sum())
    cells = expected > 1
    statistic = ((observed - expected)[cells] ** 2 / expected[cells]).sum()
    assert statistic <= cells.sum() + 6 * np.sqrt(2 * cells.sum()) + 6


@pytest.mark.parametrize("noise", INTEGRATED)
@pytest.mark.parametrize("scale", [0.1, 1, 5, 20])
def test_scipys_integrator_agrees(noise, scale, seed):
    psi = np.random.default_rng(seed).normal(scale=scale, size=7)
    log_cdf = LAWS[noise].log_cdf

    def density(x):
        return np.exp(LAWS[noise].log_density(x))

    def integrand(t, k):
        return density(t - psi[k]) * np.exp(log_cdf(t - np.delete(psi, k)).sum())

    ends = psi.min() - 40, psi.max() + 40
    with np.errstate(under="ignore"):
        want = [
            quad(integrand, *ends, args=(k,), points=np.sort(psi), epsabs=1e-11, epsrel=0, limit=500)[0]
            for k in range(7)
        ]
        np.testing.assert_allclose(utility_probabilities(psi, noise), want, atol=ATOL, rtol=0)


@pytest.mark.parametrize("noise", ["normal", "logistic"])  # written out for mpmath below
def test_logarithms_agree_with_forty_digits(noise, seed):
    rng = np.random.default_rng(seed)
    psi = np.sort(rng.normal(scale=8, size=4))
    log_p = utility_probabilities(psi, noise, log=True)
    with mp.workdps(40):
        if noise == "normal":
            density, cdf = mp.npdf, mp.ncdf
        else:
            density = lambda x: mp.exp(-abs(x)) / (1 + mp.exp(-abs(x))) ** 2  # noqa: E731
            cdf = lambda x: 1 / (1 + mp.exp(-x))  # noqa: E731
        places = [mp.mpf(float(v)) for v in psi]
        for k, place in enumerate(places):
            # mpmath stops by absolute errors, so the integral is brought near 1.
            def integrand(t, k=k, place=place):
                rest = mp.fprod(cdf(t - c) for j, c in enumerate(places) if j != k)
                return density(t - place) * rest * mp.exp(-float(log_p[k]))

            ends = [*np.arange(np.floor(psi[0]) - 12, psi[-1] + 12, 3), psi[-1] + 60]
            ratio = mp.quad(integrand, [mp.mpf(float(e)) for e in ends])
            assert abs(float(mp.log(ratio))) <= ATOL


@pytest.mark.parametrize("noise", INTEGRATED)
@pytest.mark.parametrize("n_classes", [3, 60, 900, 5000])
@pytest.mark.parametrize("scale", [0.01, 1, 4, 30])
def test_all_ways_to_ask_agree(noise, n_classes, scale, seed):
    """Above some hundred classes, all come from bins, and a few from the integrals themselves."""
    rng = np.random.default_rng(seed)
    psi = rng.normal(scale=scale, size=n_classes)
    p = utility_probabilities(psi, noise)
    assert abs(p.sum() - 1) <= ATOL
    assert p.min() >= 0
    # Sorted by utility, the probabilities are sorted too, to their accuracy.
    assert np.diff(p[np.argsort(psi)]).min() >= -ATOL
    chosen = np.concatenate([np.argsort(psi)[-2:], rng.integers(n_classes, size=3)])
    np.testing.assert_allclose(utility_probabilities(psi, noise, classes=chosen), p[chosen], atol=ATOL, rtol=0)
    some = utility_probabilities(psi, noise, classes=chosen, log=True)
    np.testing.assert_allclose(np.exp(some), p[chosen], atol=ATOL, rtol=0)
    if scale <= 4:
        log_p = utility_probabilities(psi, noise, log=True)
        np.testing.assert_allclose(log_p[chosen], some, atol=ATOL, rtol=1e-9)
        assert abs(np.logaddexp.reduce(log_p)) <= ATOL


@pytest.mark.parametrize("noise", INTEGRATED)
@pytest.mark.parametrize("scale", [1e3, 3e3, 1e4, 1e5, 1e8, 1e11, 1e16, 1e30, 1e38])
@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_logarithms_of_utilities_that_are_far_apart(noise, scale, n_classes, seed):
    """They are those of the nearest noise by which the class wins: of |e| added up, or e^2 / 2, over what must move."""
    n_rows = 20 if n_classes < 40 else 3  # each has as many integrals as there are classes
    psi = np.random.default_rng(seed).normal(size=(n_rows, n_classes)) * scale
    log_p = utility_probabilities(psi, noise, log=True)
    each = (np.full((n_rows, 1), k) for k in range(n_classes))
    alone = [utility_probabilities(psi, noise, classes=k, log=True)[:, 0] for k in each]
    # A spacing that misses the edges of a plateau of logistic noise is good to 1e-6 of the logarithm.
    np.testing.assert_allclose(np.transpose(alone), log_p, rtol=1e-6, atol=ATOL)
    for row, found in zip(psi, log_p, strict=True):
        top = np.sort(row)[-2:]
        for c, log_p_c in zip(row, found, strict=True):
            if noise == "logistic":  # it rises to the largest, or the largest falls
                least = top[1] - c
                log_terms = 2 * np.log(2 + least) + np.log(n_classes)  # the plateau's width, and ties
            else:  # all that are above a level t fall to it, and the class rises
                above = np.sort(row)[::-1]
                t = (np.cumsum(above) + c) / np.arange(2, n_classes + 2)
                least = min(((u - c) ** 2 + np.sum(np.maximum(row - u, 0) ** 2)) / 2 for u in np.append(t, c))
                least = 0 if c == top[1] else least
                log_terms = n_classes * np.log(2 + top[1] - row.min())
            assert log_p_c == pytest.approx(-least, rel=1e-9, abs=log_terms + ATOL)


@pytest.mark.parametrize("noise", INTEGRATED)
def test_bins_agree_with_the_sum_over_all_classes(noise, seed):
    # 600 classes within 3 fill 6 or 7 bins of 12 nodes; the reference sums over the classes themselves.
    psi = np.random.default_rng(seed).uniform(0, 3, size=600)
    p = utility_probabilities(psi, noise)
    alone = [utility_probabilities(psi, noise, classes=[k])[0] for k in range(0, 600, 100)]
    np.testing.assert_allclose(p[::100], alone, atol=ATOL / 600, rtol=0)
    t = np.linspace(-10, 90, 50_001)  # a spacing of 0.002, far below the scale of the density
    log_cdf = LAWS[noise].log_cdf
    total = np.zeros_like(t)
    for v in psi:
        total += log_cdf(t - v)
    for k in (0, 300):
        x = t - psi[k]
        log_f = LAWS[noise].log_density(x)
        with np.errstate(under="ignore"):
            want = np.exp(total - log_cdf(x) + log_f).sum() * (t[1] - t[0])
        np.testing.assert_allclose(p[k], want, atol=ATOL / 600, rtol=0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "psi", [[0, 1e300], [-1.7e308, 1.7e308], [1e300, 1e300, -1e300], [0, -1e5, -1e10, 3], [1e16, 1e16 + 2]]
)
def test_no_finite_utilities_give_a_nan(noise, psi):
    p = utility_probabilities(psi, noise)
    assert abs(p.sum() - 1) <= ATOL
    log_p = utility_probabilities(psi, noise, log=True)
    assert not np.isnan(log_p).any()
    np.testing.assert_allclose(np.exp(log_p), p, atol=ATOL)


@pytest.mark.parametrize("noise", NOISES)
def test_rows_do_not_depend_on_threads_or_on_each_other(noise, seed):
    psi = np.random.default_rng(seed).normal(scale=3, size=(4, 5, 40))
    p = utility_probabilities(psi, noise)
    np.testing.assert_array_equal(p, utility_probabilities(psi, noise, n_jobs=2))
    np.testing.assert_array_equal(p[2, 3], utility_probabilities(psi[2, 3], noise))
    labels = np.random.default_rng(seed).integers(40, size=(4, 5, 1))
    of_labels = utility_probabilities(psi, noise, classes=labels)
    np.testing.assert_allclose(of_labels, np.take_along_axis(p, labels, axis=-1), atol=ATOL)
    assert utility_probabilities(psi[:0], noise).shape == (0, 5, 40)


@pytest.mark.parametrize("noise", NOISES)
def test_memory_layout_and_dtype_do_not_matter(noise):
    psi = np.round(np.linspace(-2, 3, 24).reshape(4, 6), 1).astype(np.float32)
    want = utility_probabilities(psi.astype(np.float64), noise)
    read_only = psi.copy()
    read_only.flags.writeable = False
    for given in [psi, read_only, psi.astype(">f8"), np.asfortranarray(psi), psi.tolist()]:
        np.testing.assert_allclose(utility_probabilities(given, noise), want, atol=1e-6)
    wide = np.repeat(psi, 2, axis=1)
    np.testing.assert_array_equal(utility_probabilities(wide[:, ::2], noise), want)
    np.testing.assert_array_equal(utility_probabilities([[3, 1, 2]], noise).shape, (1, 3))


@pytest.mark.parametrize(
    ("psi", "noise", "options", "error", "message"),
    [
        ([0.0, np.nan], "normal", {}, ValueError, r"psi\[1\] is nan; it must be finite"),
        ([[0.0, 1], [np.inf, 0]], "normal", {}, ValueError, r"psi\[1, 0\] is inf"),
        ([0.0, 1], "probit", {}, ValueError, "noise is 'probit'; it must be one of 'gumbel', 'normal', 'logistic'"),
        (3.0, "normal", {}, ValueError, r"psi has shape \(\); its last axis"),
        (np.zeros((3, 0)), "normal", {}, ValueError, r"psi has shape \(3, 0\); its last axis"),
        ([1j, 0], "normal", {}, TypeError, "psi has dtype complex128; it must hold real numbers"),
        (["a", "b"], "normal", {}, TypeError, "it must hold real numbers"),
        ([0.0, 1], "normal", {"classes": [2]}, ValueError, r"classes holds 2; ids are in \[0, 2\)"),
        ([0.0, 1], "normal", {"classes": [0.5]}, TypeError, "classes has dtype float64; it must hold integers"),
        ([0.0, 1], "normal", {"classes": 1}, ValueError, "classes is a single number"),
        ([0.0, 1], "normal", {"n_jobs": 0}, ValueError, "n_jobs is 0"),
    ],
)
def test_bad_input_is_refused_with_its_reason(psi, noise, options, error, message):
    with pytest.raises(error, match=message):
        utility_probabilities(psi, noise, **options)


@pytest.mark.parametrize("noise", NOISES)
def test_importance_sampler_agrees_within_its_error(noise, seed):
    rng = np.random.default_rng(seed)
    psi = np.tile(rng.normal(size=5), (400, 1))
    estimates = sampled_utility_log_probabilities(psi, np.zeros(400, dtype=int), noise, random_state=seed)
    p = np.exp(estimates)
    want = utility_probabilities(psi[0], noise)[0]
    # 5 standard errors of the mean of 400 estimates, as found from them.
    assert abs(p.mean() - want) <= 5 * p.std() / 20
    assert 0 < p.std() < 0.5 * want


def test_importance_sampler_is_seeded_and_clipped():
    psi = np.array([[0.0, 1.0], [0.0, 80.0]])
    draw = {"labels": [1, 0], "noise": "normal", "random_state": 3}
    got = sampled_utility_log_probabilities(psi, **draw)
    np.testing.assert_array_equal(got, sampled_utility_log_probabilities(psi, n_jobs=2, **draw))
    assert (got != sampled_utility_log_probabilities(psi, **draw | {"random_state": 4})).all()
    assert got[1] < -26
    np.testing.assert_array_equal(sampled_utility_log_probabilities(psi, clip=-26, **draw), [got[0], -26])
    with pytest.raises(ValueError, match=r"labels have shape \(1,\)"):
        sampled_utility_log_probabilities(psi, [0], "normal")
    with pytest.raises(ValueError, match="n_samples is 0"):
        sampled_utility_log_probabilities(psi, [0, 1], "normal", n_samples=0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("dense", [False, True])
def test_a_models_rows_have_the_probabilities_of_their_scores(noise, dense, seed):
    rng = np.random.default_rng(seed)
    n, d, n_classes = 37, 6, 50
    x = sp.random_array((n, d), density=0.5, format="csr", dtype=np.float32, rng=rng)
    w = rng.normal(size=(n_classes, d)).astype(np.float32)
    intercept = rng.normal(size=n_classes).astype(np.float32)
    matrix = w
    if not dense:
        matrix = np.zeros((d, 64), dtype=np.float32)
        matrix[:, :n_classes] = w.T
    data, weights = x.toarray() if dense else x, Weights.linear(matrix, intercept, by_feature=not dense)
    p = utility_probabilities(weights.scores(data, 1), noise)
    np.testing.assert_allclose(np.exp(weights.log_probabilities(data, noise, 2)), p, atol=ATOL)

    labels = rng.integers(n_classes, size=n).astype(np.int32)
    losses, ranks = weights.log_losses(data, labels, 2, noise=noise)
    np.testing.assert_allclose(np.exp(-losses), p[np.arange(n), labels], atol=ATOL)
    np.testing.assert_array_equal(ranks, weights.log_losses(data, labels, 1)[1])

    classes, log_p = weights.top_k(data, 5, 2, noise)
    np.testing.assert_array_equal(classes, weights.top_k(data, 5, 1)[0])
    # The logarithms are returned as float32.
    np.testing.assert_allclose(np.exp(log_p), np.take_along_axis(p, classes, axis=1), rtol=1e-5)
