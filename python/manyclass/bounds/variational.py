"""Lower bounds with variational parameters: Bouchard's, log-concavity, and the ELBO of augment and reduce (A&R)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.bounds.arrays import Array, VariationalBound, checked
from manyclass.checks import check_choice


def bouchard(f: ArrayLike, k: ArrayLike, a: ArrayLike | None = None) -> VariationalBound:
    r"""Bouchard's lower bound of the log-softmax.

    .. math:: \log p(k) \ge f_k - a - \sum_m \log(1 + e^{f_m - a})

    for every a, the sum over all m, k included. Titsias, NIPS 2016, eq. (11)-(12). At a = f_k it is `one_vs_each`
    less log 2; for K = 2 the best a is the mean of the two scores (Proposition 3).

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    a : float or array_like, default=None
        Variational parameter; the shape broadcasts with k. None: the best one, `bouchard_location`.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats.
    gradient : ndarray of shape (..., K), float64
        :math:`1[m = k] - \sigma(f_m - a)`.
    parameter_gradient : ndarray of shape (...), float64
        :math:`\sum_m \sigma(f_m - a) - 1`; 0 but for rounding at the best a.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes, f or a is not finite, k is not a class, or the shapes do not fit.
    """
    points, (locations,) = checked(f, k, a=bouchard_location(f) if a is None else a)
    *bound, slope = _core.bouchard_bounds(points.f, points.labels, locations)
    return VariationalBound(*points.bound(*bound), slope.reshape(points.shape)[()])


def bouchard_location(f: ArrayLike) -> Array:
    r"""The a that makes `bouchard` tightest for all k: the only root of :math:`\sum_m \sigma(f_m - a) = 1`.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.

    Returns
    -------
    ndarray of shape (...), float64
        a, to within a few units in the last place of the larger of 1 and the two best scores.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite.
    """
    points, _ = checked(f, 0)
    return _core.bouchard_locations(points.f).reshape(points.shape)[()]


def log_concavity(f: ArrayLike, k: ArrayLike, u: ArrayLike | None = None) -> VariationalBound:
    r"""The bound of the double sum: the tangent of -log at e^u.

    .. math:: \log p(k) = -\log A \ge 1 - u - e^{-u} A, \qquad A = 1 + \sum_{m \ne k} e^{f_m - f_k}

    for every u, with equality at u = log A. Fagan & Iyengar 2018, eq. (4). With :math:`\eta = e^u` it is the ELBO of
    Ruiz et al., ICML 2018, eq. (8). The gap is :math:`e^D - 1 - D` with D = log A - u.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    u : float or array_like, default=None
        Variational parameter; the shape broadcasts with k. None: the best one, log A.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats; -inf where it is below the range of float64, as it is for D above 709.
    gradient : ndarray of shape (..., K), float64
        :math:`-e^{f_m - f_k - u}` at m, and minus their sum at k; infinite where it is above the range of float64.
    parameter_gradient : ndarray of shape (...), float64
        :math:`e^{-u} A - 1`.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes, f or u is not finite, k is not a class, or the shapes do not fit.
    """
    points, (tangents,) = checked(f, k, u=0.0 if u is None else u)
    # Where u is empty it is log A.
    slopes = _core.tangent_slopes(points.f, points.labels, np.zeros(0) if u is None else tangents)
    log_A, gradient = points.bound(*slopes)
    best = log_A if u is None else tangents.reshape(points.shape)
    with np.errstate(over="ignore"):
        excess = np.expm1(log_A - best)
    return VariationalBound(-best - excess, gradient, excess)


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
    points, (location, width) = checked(f, k, mu=mu, scale=scale)
    limit = np.inf if noise == "gumbel" else MAX_SCALE
    wrong = (width <= 0) | (width > limit)
    if wrong.any():
        raise ValueError(f"scale is {width[wrong][0]}; it must be more than 0 and at most {limit:g}")
    *bound, parameters = _core.utility_bounds(noise=noise, f=points.f, labels=points.labels, mu=location, s=width)
    return VariationalBound(*points.bound(*bound), parameters.reshape(*points.shape, 2))
