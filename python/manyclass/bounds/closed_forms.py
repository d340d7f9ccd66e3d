r"""Optima of models with biases only, from the class counts: exact values for a run to be compared with.

The scores f_k do not depend on the data point, so the likelihood of N points depends on the counts N_k alone. All
values are log-likelihoods, or lower bounds of them, summed over the points, in nats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from manyclass import _core

__all__ = ["bouchard_scores", "maximum_likelihood_scores", "maximum_log_likelihood", "maximum_one_vs_each"]

Floats = NDArray[np.float64]


def maximum_likelihood_scores(counts: ArrayLike) -> Floats:
    r"""Return f_k = log N_k, which maximises the likelihood of the softmax, and its one-vs-each bound too.

    Any constant may be added. For the bound (Titsias, NIPS 2016, Prop. 2): in
    :math:`\sum_{k<m} [N_k \log\sigma(f_k - f_m) + N_m \log\sigma(f_m - f_k)]` each term is largest where
    :math:`\sigma(f_k - f_m) = N_k / (N_k + N_m)`, and f_k = log N_k does so for all pairs at once.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Points of each class, >= 0, at least one > 0. A class without points has score -inf.

    Returns
    -------
    ndarray of shape (n_classes,), float64

    Raises
    ------
    ValueError
        If the counts are not as said.
    """
    n = _checked(counts)
    with np.errstate(divide="ignore"):
        return np.log(n)


def maximum_log_likelihood(counts: ArrayLike) -> float:
    r"""Return :math:`\sum_k N_k \log(N_k / N)`, the largest log-likelihood.

    It is also the largest ELBO of augment and reduce for the softmax, whose bound of a point,
    :math:`1 - \log\eta - A / \eta` with :math:`A = \sum_m e^{f_m - f_k}`, is :math:`-\log A` at its best
    :math:`\eta = A` (Ruiz et al., ICML 2018, eq. 8).

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Points of each class, >= 0, at least one > 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the counts are not as said.
    """
    n = _checked(counts)
    return float(xlogy(n, n / n.sum()).sum())


def maximum_one_vs_each(counts: ArrayLike) -> float:
    r"""Return the largest one-vs-each bound, :math:`\sum_k N_k \sum_{m \ne k} \log\frac{N_k}{N_k + N_m}`.

    It is taken at `maximum_likelihood_scores`. A class without points adds nothing: there :math:`f_m \to -\infty`.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Points of each class, >= 0, at least one > 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the counts are not as said.
    """
    return _core.maximum_one_vs_each(_checked(counts))


def bouchard_scores(counts: ArrayLike) -> Floats:
    r"""Return f_k = 2 log N_k, which maximises Bouchard's bound for two classes.

    The best a is :math:`(f_1 + f_2) / 2`. With :math:`f_1 - f_2 = 2\delta` the bound of all points is
    :math:`(N_1 - N_2)\delta - N[\log(1 + e^\delta) + \log(1 + e^{-\delta})]`, largest where
    :math:`\sigma(\delta) = N_1 / N`: the log-odds of the fitted model are twice those of the data (Titsias, NIPS 2016,
    Prop. 3).

    Parameters
    ----------
    counts : array-like of shape (2,)
        Points of each class, > 0.

    Returns
    -------
    ndarray of shape (2,), float64

    Raises
    ------
    ValueError
        If there are not two classes, or one has no points.
    """
    n = _checked(counts)
    if len(n) != 2 or not n.all():
        raise ValueError(f"counts is {n.tolist()}; it must have two values, both > 0")
    return 2 * np.log(n)


def _checked(counts: ArrayLike) -> Floats:
    n = np.asarray(counts, dtype=np.float64)
    if n.ndim != 1 or not np.all(np.isfinite(n)) or np.any(n < 0) or not np.any(n > 0):
        raise ValueError(f"counts has shape {n.shape}; it must have one finite value >= 0 a class, and one > 0")
    return n
