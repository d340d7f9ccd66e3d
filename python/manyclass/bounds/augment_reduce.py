"""The ELBO of augment and reduce (A&R) for Gumbel, normal and logistic noise, without sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, erfcx, expit, gammaln, log_expit, log_ndtr

from manyclass.bounds.arrays import Array, Classes, VariationalBound, checked, log_odds, scores_gradient, split
from manyclass.checks import check_choice

MAX_SCALE = 1000.0  # the number of quadrature nodes grows with the scale; posteriors have scales of about 1


@dataclass(frozen=True)
class _Noise:
    """A noise distribution phi with distribution function Phi, and the quadrature over it.

    The mean of g(mu + scale u) over u ~ phi is the sum of h phi(u_j) g(mu + scale u_j) at u_j = j h, abs(u_j) <= reach.
    By Poisson's summation the error of this trapezoidal rule is the Fourier transform of phi g at multiples of
    2 pi / h. Moving the path of that integral up or down by c, as far as phi g is analytic, shows it to be of order
    e^{-2 pi c / h}. In u, log Phi(mu + scale u + d) has its nearest singularity at 1 / scale times the distance of
    that of log Phi, so h falls with the scale.
    """

    log_density: Callable[[Array], Array]
    log_density_slope: Callable[[Array], Array]
    log_cdf: Callable[[Array], Array]
    log_cdf_slope: Callable[[Array], Array]
    entropy: float
    reach: float
    step: float

    def nodes(self, level: int) -> tuple[Array, Array]:
        """Return nodes and weights for scales up to 2^level."""
        h = self.step / 2**level
        n = int(np.ceil(self.reach / h))
        u = h * np.arange(-n, n + 1, dtype=np.float64)
        return u, h * np.exp(self.log_density(u))


def _normal_log_density(x: Array) -> Array:
    log_density: Array = -0.5 * (x * x + np.log(2 * np.pi))
    return log_density


def _normal_log_cdf_slope(x: Array) -> Array:
    # phi / Phi = sqrt(2 / pi) / erfcx(-x / sqrt 2): no ratio of two numbers that underflow.
    ratio: Array = np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2))
    return ratio


_NOISES = {
    # The zeros of Phi nearest to the real line are at 1.92 +- 2.82 i: e^{-2 pi 2.82 / 0.4} = 6e-20. phi(9) = 1e-18.
    "normal": _Noise(
        log_density=_normal_log_density,
        log_density_slope=np.negative,
        log_cdf=log_ndtr,
        log_cdf_slope=_normal_log_cdf_slope,
        entropy=0.5 * (1 + np.log(2 * np.pi)),
        reach=9.0,
        step=0.4,
    ),
    # sigma and the density have poles at +- pi i: e^{-2 pi pi / 0.45} = 9e-20. phi(44) = 8e-20.
    "logistic": _Noise(
        log_density=lambda x: log_expit(x) + log_expit(-x),
        log_density_slope=lambda x: -np.tanh(x / 2),
        log_cdf=log_expit,
        log_cdf_slope=lambda x: expit(-x),
        entropy=2.0,
        reach=44.0,
        step=0.45,
    ),
}


def augment_reduce(
    f: ArrayLike, k: ArrayLike, mu: ArrayLike, scale: ArrayLike, noise: str = "gumbel"
) -> VariationalBound:
    r"""The evidence lower bound (ELBO) of augment and reduce.

    .. math:: \log p(k) \ge E_q\Bigl[\log \phi(\varepsilon) + \sum_{m \ne k} \log \Phi(\varepsilon + f_k - f_m)
              - \log q(\varepsilon)\Bigr]

    Ruiz et al., ICML 2018, eq. (7). phi is the density of the noise of every class's utility, Phi its distribution
    function, and q the same distribution moved and stretched: :math:`\varepsilon = \mu + \text{scale}\; u` with u
    from phi (section 3).

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores (mean utilities), K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    mu : float or array_like
        Location of q; the shape broadcasts with k.
    scale : float or array_like
        Scale of q, > 0; the shape broadcasts with k. At most 1000 for normal and logistic noise.
    noise : {'gumbel', 'normal', 'logistic'}, default='gumbel'
        What p is: the softmax, the multinomial probit or the multinomial logistic model. 'gumbel' has a closed form,

        .. math:: 1 - \mu + \gamma (1 - s) + \log s - e^{-\mu} \Gamma(1 + s) A

        with s = scale, A of `log_concavity` and Euler's gamma; it is that bound (eq. (8)) at s = 1 and u = mu, and
        exact at mu = log A. The others are integrated by the trapezoidal rule at 47 and 197 nodes for scales up to 1,
        and twice as many each time the scale doubles.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats; -inf where it is below the range of float64.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores.
    parameter_gradient : ndarray of shape (..., 2), float64
        Its derivatives with respect to mu and scale.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes, f, mu or scale is not finite, scale is not in the range above, k is not a
        class, noise is none of the three, or the shapes do not fit.
    """
    check_choice("noise", noise, ("gumbel", *_NOISES))
    F, labels, (location, width) = checked(f, k, mu=mu, scale=scale)
    limit = np.inf if noise == "gumbel" else MAX_SCALE
    wrong = (width <= 0) | (width > limit)
    if wrong.any():
        raise ValueError(f"scale is {width[wrong][0]}; it must be more than 0 and at most {limit:g}")
    if noise == "gumbel":
        return _gumbel(F, labels, location, width)
    lead = labels.shape
    value, gradient, parameters = np.empty(lead), np.empty(F.shape), np.empty((*lead, 2))
    # Points whose scales lie in the same ]2^(l-1), 2^l] share their nodes.
    levels = np.ceil(np.log2(np.maximum(width, 1))).astype(int)
    for level in np.unique(levels):
        at = levels == level
        value[at], gradient[at], parameters[at] = _integrate(
            _NOISES[noise], int(level), F[at], labels[at], location[at], width[at]
        )
    return VariationalBound(value[()], gradient, parameters)


def _gumbel(f: Array, k: Classes, mu: Array, s: Array) -> VariationalBound:
    # E eps = mu + gamma s, E e^-eps = e^-mu Gamma(1 + s), entropy = log s + gamma + 1.
    own, others = split(f, k)
    rate = gammaln(1 + s) - mu
    with np.errstate(over="ignore"):
        expected = np.exp(np.logaddexp(0, log_odds(own, others)) + rate)
        slopes = np.exp(others - own + rate[..., None])
        value = 1 - mu + np.euler_gamma * (1 - s) + np.log(s) - expected
        parameters = np.stack([expected - 1, 1 / s - np.euler_gamma - expected * digamma(1 + s)], axis=-1)
    return VariationalBound(value, scores_gradient(slopes, k), parameters)


def _integrate(noise: _Noise, level: int, f: Array, k: Classes, mu: Array, s: Array) -> VariationalBound:
    """Return the ELBO of n points, shapes (n, K) and (n,). One node is taken at a time, so memory stays O(n K)."""
    own, others = split(f, k)
    margins = own - others  # +inf at k, where log Phi and its slope are 0
    value = noise.entropy + np.log(s)
    slopes = np.zeros(f.shape)
    parameters = np.stack([np.zeros_like(s), 1 / s], axis=-1)
    for u, weight in zip(*noise.nodes(level), strict=True):
        eps = mu + s * u
        value += weight * (noise.log_density(eps) + noise.log_cdf(eps[:, None] + margins).sum(axis=-1))
        slope = noise.log_cdf_slope(eps[:, None] + margins)
        slopes += weight * slope
        along = weight * (noise.log_density_slope(eps) + slope.sum(axis=-1))
        parameters += np.stack([along, u * along], axis=-1)
    return VariationalBound(value, scores_gradient(slopes, k), parameters)
