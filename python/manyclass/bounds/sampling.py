r"""One-vs-each from a few drawn classes: the estimator, its variance, and a proposal that makes it small.

Titsias (NIPS 2016, section 3) draws the classes m of the sum over m != k uniformly, and leaves a better proposal to
future work. With p(m) any proposal and r draws with replacement, the weights 1 / (r p(m)) make the sum and its gradient
unbiased. The gradient's summands have length :math:`\sqrt2 \sigma(f_m - f_k)`, so that of all proposals the one in
proportion to :math:`\sigma(f_m - f_k)` has the least total variance (Cauchy and Schwarz). It depends on the scores;
those of some time ago, or cheap ones, leave the estimator unbiased and cost variance only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.bounds.arrays import Array, Bound, ScoredPoints, checked, class_array, real_array
from manyclass.checks import check_number


class SamplingVariance(NamedTuple):
    """Variance of a sampled bound over its draws.

    Attributes
    ----------
    value : ndarray of shape (...), float64
        Variance of the bound.
    gradient : ndarray of shape (...), float64
        Sum of the variances of its K derivatives with respect to the scores. For linear scores W x the sum of those
        with respect to W is |x|^2 times as much.
    """

    value: Array
    gradient: Array


def one_vs_each_proposal(f: ArrayLike, k: ArrayLike, *, uniform: float = 0.0) -> Array:
    r"""The proposal that gives the sampled one-vs-each gradient the least variance, from exact or approximate scores.

    .. math:: p(m) = (1 - c) \frac{\sigma(f_m - f_k)}{\sum_{l \ne k} \sigma(f_l - f_k)} + \frac{c}{K - 1}

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2: those of an earlier step, or of a search, or the ones to be estimated.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    uniform : float, default=0.0
        c in [0, 1], the share of a uniform proposal: with scores that are not exact it bounds every weight by
        (K - 1) / (c r).

    Returns
    -------
    ndarray of shape (..., K), float64
        Probabilities; 0 at k.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite, k is not a class, the shapes do not fit, or `uniform` is out of
        range.
    """
    check_number("uniform", uniform, low=0, high=1)
    points, _ = checked(f, k)
    proposal = _core.one_vs_each_proposal(points.f, points.labels, float(uniform))
    return proposal.reshape(*points.shape, points.n_classes)


def sampled_one_vs_each(f: ArrayLike, k: ArrayLike, drawn: ArrayLike, proposal: ArrayLike) -> Bound:
    r"""An unbiased estimate of the one-vs-each bound from r classes that were drawn with replacement.

    .. math:: \sum_{j=1}^r \frac{1}{r\, p(m_j)} \log \sigma(f_k - f_{m_j}), \qquad m_j \sim p

    Its mean over draws is `one_vs_each`, that of its gradient the gradient of it. Titsias, NIPS 2016, section 3 (p
    uniform there).

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    drawn : array_like of int, shape (..., r)
        The classes m_j, r >= 1.
    proposal : array_like of shape (..., K)
        p: positive at all classes but k, and 0 there.

    Returns
    -------
    value : ndarray of shape (...), float64
        The estimate in nats.
    gradient : ndarray of shape (..., K), float64
        :math:`-\sigma(f_m - f_k) c_m / (r\, p(m))` at a class drawn c_m times, and minus their sum at k.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.
    """
    points, p = _with_proposal(f, k, proposal)
    classes = class_array("drawn", np.atleast_1d(drawn), points.n_classes)
    classes = points.spread("drawn", classes, classes.shape[-1]).reshape(len(points.labels), -1)
    if not classes.shape[1] or (classes == points.labels[:, np.newaxis]).any():
        raise ValueError(f"drawn has shape {np.shape(drawn)}; it must hold 1 class or more a point, and none of them k")
    return points.bound(*_core.sampled_one_vs_each(points.f, points.labels, classes.ravel().astype(np.int32), p))


def sampled_one_vs_each_variance(f: ArrayLike, k: ArrayLike, proposal: ArrayLike, n_draws: int = 1) -> SamplingVariance:
    r"""Variance of `sampled_one_vs_each` over its draws, in closed form.

    With :math:`a_m = \log\sigma(f_k - f_m)` and :math:`s_m = \sigma(f_m - f_k)`, sums over m != k,

    .. math:: \frac1r \Bigl[\sum_m \frac{a_m^2}{p(m)} - \Bigl(\sum_m a_m\Bigr)^2\Bigr], \qquad
        \frac1r \Bigl[2 \sum_m \frac{s_m^2}{p(m)} - \sum_m s_m^2 - \Bigl(\sum_m s_m\Bigr)^2\Bigr].

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    proposal : array_like of shape (..., K)
        p: positive at all classes but k, and 0 there.
    n_draws : int, default=1
        r.

    Returns
    -------
    SamplingVariance

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.
    """
    check_number("n_draws", n_draws, low=1, integer=True)
    points, p = _with_proposal(f, k, proposal)
    variances = _core.one_vs_each_variances(points.f, points.labels, p)
    return SamplingVariance(*(variance.reshape(points.shape)[()] / n_draws for variance in variances))


def _with_proposal(f: ArrayLike, k: ArrayLike, proposal: ArrayLike) -> tuple[ScoredPoints, Array]:
    points, _ = checked(f, k)
    return points, points.spread("proposal", real_array("proposal", proposal), points.n_classes).ravel()
