"""The ELBO of augment and reduce, against closed forms, SciPy's adaptive quadrature and the bounds it becomes."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, expit, gammaln
from scipy.stats import gumbel_r, logistic, norm

from manyclass import bounds

EPS = np.finfo(np.float64).eps
NOISES = {"gumbel": gumbel_r, "normal": norm, "logistic": logistic}


def integral(g, *, at, width):
    """The integral of g over the real line: adaptive, in pieces that each see one side of the peak."""
    ends = at + width * np.array([-700, -50, -9, -3, 0, 3, 9, 50, 700])
    pieces = itertools.pairwise(ends)
    return sum(quad(g, a, b, epsabs=1e-14, epsrel=1e-13, limit=200)[0] for a, b in pieces)


def log_probability(f, k, noise):
    """log p(y = k) of Ruiz et al., ICML 2018, eq. (5)."""
    d = NOISES[noise]
    margins = f[k] - np.delete(f, k)
    # q at width 1: the noise itself and all posteriors lie within a few units of 0 to max(-margins)
    return np.log(
        integral(lambda e: d.pdf(e) * np.exp(d.logcdf(e + margins).sum()), at=max(0, -margins.min()), width=1)
    )


def elbo(f, k, mu, scale, noise):
    """Eq. (7) by adaptive quadrature."""
    d = NOISES[noise]
    margins = f[k] - np.delete(f, k)

    def integrand(e):
        q = d.pdf(e, mu, scale)
        return 0.0 if q == 0 else q * (d.logpdf(e) + d.logcdf(e + margins).sum() - d.logpdf(e, mu, scale))

    return integral(integrand, at=mu, width=scale)


def random_points(rng, n, scales=(0.05, 3.0)):
    """Scores of 2 to 6 classes, a class, and mu and scale of q."""
    for _ in range(n):
        K = int(rng.integers(2, 7))
        yield rng.normal(scale=2, size=K), int(rng.integers(K)), rng.normal(), np.exp(rng.uniform(*np.log(scales)))


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1.0, 1.4616, 7.0, 9.5, 300.0, 1e4])
def test_a_gumbel_q_of_any_scale_has_the_gamma_function_of_its_closed_form(scale, seed):
    f = np.random.default_rng(seed).normal(size=5)
    mu = gammaln(1 + scale)  # then E A is A
    found = bounds.augment_reduce(f, 2, mu, scale)
    A = np.exp(f - f[2]).sum()
    value = 1 - mu + np.euler_gamma * (1 - scale) + np.log(scale) - A
    size = max(1, abs(mu), scale, A)
    assert found.value == pytest.approx(value, rel=0, abs=50 * EPS * size)
    slopes = [A - 1, 1 / scale - np.euler_gamma - A * digamma(1 + scale)]
    np.testing.assert_allclose(found.parameter_gradient, slopes, rtol=100 * EPS, atol=100 * EPS * size * A)


# The steps of the rule change at powers of 2, and are widest for the scale just below.
@pytest.mark.parametrize(
    ("noise", "scale"),
    [("gumbel", s) for s in (1e-3, 0.4, 1.99)]
    + [(noise, s) for noise in ("normal", "logistic") for s in (1e-3, 0.4, 1.0, 1.99, 7.99, 31.0)],
)
def test_value_is_the_integral_of_equation_7(noise, scale, seed):
    for f, k, mu, _ in random_points(np.random.default_rng(seed), 3):
        # Sums of O(200) terms of one size, which err by less than 1e-13 of themselves; quad asks for 1e-13 of each of
        # its pieces, and the pieces cancel to some extent.
        np.testing.assert_allclose(
            bounds.augment_reduce(f, k, mu, scale, noise).value, elbo(f, k, mu, scale, noise), rtol=2e-12, atol=2e-12
        )


@pytest.mark.parametrize("noise", NOISES)
def test_value_is_below_the_log_probability(noise, seed):
    for f, k, mu, scale in random_points(np.random.default_rng(seed), 10):
        assert bounds.augment_reduce(f, k, mu, scale, noise).value < log_probability(f, k, noise)


@pytest.mark.parametrize("noise", NOISES)
def test_the_bound_of_equal_utilities_stays_below_1_over_n_classes(noise):
    mu, scale = np.meshgrid(np.linspace(0, 4, 17), np.linspace(0.3, 1, 8))
    for K in (2, 5, 50):
        np.testing.assert_allclose(log_probability(np.zeros(K), 0, noise), -np.log(K), rtol=1e-10)  # the test's own
        assert (bounds.augment_reduce(np.zeros(K), 0, mu, scale, noise).value <= -np.log(K)).all()


TWO_CLASSES = {
    "gumbel": expit,
    "normal": lambda d: norm.cdf(d / np.sqrt(2)),
    "logistic": lambda d: np.exp(d) * (np.exp(d) - 1 - d) / np.expm1(d) ** 2,
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("d", [-4.0, -0.7, 0.9, 5.0])
def test_the_bound_of_two_classes_stays_below_their_closed_form(noise, d):
    f, want = np.array([d, 0.0]), np.log(TWO_CLASSES[noise](d))
    np.testing.assert_allclose(log_probability(f, 0, noise), want, rtol=1e-9)  # the test's own, which may be 7e-3
    mu, scale = np.meshgrid(np.linspace(-2, 5, 57), np.linspace(0.2, 1.2, 11))
    values = bounds.augment_reduce(f, 0, mu, scale, noise).value
    assert values.shape == mu.shape
    assert (values <= want).all()
    if noise == "gumbel":  # the grid has scale 1 and, within 1/16, mu = log A
        assert values.max() >= want - (np.expm1(1 / 16) - 1 / 16)


@pytest.mark.parametrize("noise", NOISES)
def test_gradients_are_the_slopes_by_finite_differences(noise, seed):
    h = 1e-5  # central differences: errors h^2 f''' / 6 and EPS f / h, both 2e-11 f
    for f, k, mu, scale in random_points(np.random.default_rng(seed), 8, scales=(0.3, 3.0)):
        value, gradient, parameter_gradient = bounds.augment_reduce(f, k, mu, scale, noise)

        def moved(step, f=f, k=k, mu=mu, scale=scale):
            return bounds.augment_reduce(f + step[2:], k, mu + step[0], scale + step[1], noise).value

        steps = h * np.eye(2 + len(f))
        slopes = [(moved(s) - moved(-s)) / (2 * h) for s in steps]
        # f''' in scale is up to 1 / scale^3 = 40 and more
        np.testing.assert_allclose(np.r_[parameter_gradient, gradient], slopes, atol=1e-8 * (1 + abs(value)))


def test_gumbel_at_scale_1_is_the_log_concavity_bound(seed):
    rng = np.random.default_rng(seed)
    f, k, u = rng.normal(scale=3, size=(40, 7)), rng.integers(7, size=40), rng.normal(size=40)
    elbo, concave = bounds.augment_reduce(f, k, u, 1), bounds.log_concavity(f, k, u)
    np.testing.assert_allclose(elbo.value, concave.value, rtol=1e-13)
    np.testing.assert_allclose(elbo.gradient, concave.gradient, rtol=1e-13)
    np.testing.assert_allclose(elbo.parameter_gradient[:, 0], concave.parameter_gradient, rtol=1e-11, atol=1e-13)
    # eta = e^u: 1 - log eta - A / eta
    eta, A = np.exp(u), np.exp(f).sum(axis=1) / np.exp(np.take_along_axis(f, k[:, None], axis=1)[:, 0])
    np.testing.assert_allclose(elbo.value, 1 - np.log(eta) - A / eta, rtol=1e-12)


def test_gumbel_at_the_posterior_is_exact(seed):
    rng = np.random.default_rng(seed)
    f, k = rng.normal(scale=3, size=(40, 7)), rng.integers(7, size=40)
    log_p, p_gradient = bounds.log_softmax(f, k)
    value, gradient, parameter_gradient = bounds.augment_reduce(f, k, -log_p, 1)
    # An error of an ulp in mu moves the value by its square.
    np.testing.assert_allclose(value, log_p, rtol=8 * EPS, atol=8 * EPS)
    np.testing.assert_allclose(gradient, p_gradient, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(parameter_gradient, 0, atol=1e-13)


def test_logistic_with_q_at_zero_is_one_vs_each_and_constants(seed):
    # Ruiz et al., ICML 2018, eq. (10) and the text around it: log phi(0) = 2 log 1/2 and the entropy are the constants.
    rng = np.random.default_rng(seed)
    f, k, scale = rng.normal(size=(20, 6)), rng.integers(6, size=20), 1e-6
    got, want = bounds.augment_reduce(f, k, 0, scale, "logistic"), bounds.one_vs_each(f, k)
    constants = 2 * np.log(0.5) + np.log(scale) + 2
    # The spread of q moves a sum of 6 functions with |f''| <= 1/4 by at most 6 / 8 scale^2 pi^2 / 3.
    np.testing.assert_allclose(got.value - constants, want.value, atol=1e-11)
    np.testing.assert_allclose(got.gradient, want.gradient, atol=1e-11)


@pytest.mark.parametrize("noise", ["normal", "logistic"])
@pytest.mark.parametrize("spread", [1e4, 1e100, 1e200])
def test_huge_scores_give_no_nan(noise, spread, seed):
    f = np.random.default_rng(seed).normal(scale=spread, size=(20, 5))
    value, gradient, parameter_gradient = bounds.augment_reduce(f, 2, 0.3, 0.8, noise)
    assert not np.isnan(value).any()
    assert (value <= 0).all()
    assert np.isfinite(gradient).all()
    assert np.isfinite(parameter_gradient).all()


def test_probit_of_far_tails_is_its_leading_term():
    # log Phi(-x) = -x^2/2 - log(x sqrt(2 pi)) + O(1/x^2): its mean over N(0, s^2) at x = 1e4 + s u.
    x, s = 1e4, 0.5
    got = bounds.augment_reduce([0.0, x], 0, 0.0, s, "normal")
    log_phi = -(x * x + s * s) / 2 - np.log(x * np.sqrt(2 * np.pi))
    rest = 0.5 * (1 - s * s) + np.log(s)
    np.testing.assert_allclose(got.value, log_phi + rest, rtol=1e-15 * 40)  # 47 terms; the rest is 1e-8 of 5e7
    np.testing.assert_allclose(got.gradient, [x, -x], rtol=3e-8)  # x + 1/x


def test_points_do_not_depend_on_the_scales_beside_them(seed):
    rng = np.random.default_rng(seed)
    f, scale = rng.normal(size=(4, 5)), np.array([0.01, 0.9, 3.0, 20.0])
    for noise in NOISES:
        together = bounds.augment_reduce(f, 1, 0.2, scale, noise)
        for i in range(4):
            for a, b in zip(together, bounds.augment_reduce(f[i], 1, 0.2, scale[i], noise), strict=True):
                np.testing.assert_allclose(a[i], b, rtol=1e-13)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"noise": "cauchy"}, "noise is 'cauchy'; it must be one of 'gumbel', 'normal', 'logistic'"),
        ({"scale": 0.0}, "scale is 0.0; it must be more than 0"),
        ({"scale": [1, -2.0]}, "scale is -2.0; it must be more than 0"),
        ({"scale": 1001, "noise": "normal"}, "at most 1000"),
        ({"scale": np.nan}, "scale contains nan"),
        ({"mu": np.inf}, "mu contains inf"),
        ({"mu": [[1.0], [2.0]], "f": np.zeros((3, 4)), "scale": [1.0, 2.0]}, r"\(2, 1\) of mu"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        bounds.augment_reduce(**{"f": [1.0, 2.0], "k": 0, "mu": 0.0, "scale": 1.0} | kwargs)
