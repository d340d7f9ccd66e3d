"""The ELBO of augment and reduce (A&R) for Gumbel, normal and logistic noise, without sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln

from manyclass import _core
from manyclass.bounds.arrays import Array, Classes, VariationalBound, checked, log_odds, scores_gradient, split
from manyclass.checks import check_choice

MAX_SCALE = 1000.0  # the number of quadrature nodes grows with the scale; posteriors have scales of about 1


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
    check_choice("noise", noise, ("gumbel", "normal", "logistic"))
    F, labels, (location, width) = checked(f, k, mu=mu, scale=scale)
    limit = np.inf if noise == "gumbel" else MAX_SCALE
    wrong = (width <= 0) | (width > limit)
    if wrong.any():
        raise ValueError(f"scale is {width[wrong][0]}; it must be more than 0 and at most {limit:g}")
    if noise == "gumbel":
        return _gumbel(F, labels, location, width)
    value, gradient, parameters = _core.utility_bounds(
        noise=noise,
        f=np.ascontiguousarray(F).reshape(-1, F.shape[-1]),
        labels=labels.ravel().astype(np.int32),
        mu=np.ascontiguousarray(location).ravel(),
        s=np.ascontiguousarray(width).ravel(),
    )
    lead = labels.shape
    return VariationalBound(value.reshape(lead)[()], gradient.reshape(F.shape), parameters.reshape(*lead, 2))


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
