"""Choice probabilities of random utility models, y = argmax_k psi_k + eps_k, from arrays of mean utilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_choice, check_number, checked_ids, n_threads_from, real_array, seed_from
from manyclass.registry import names


def _rows(psi: ArrayLike) -> NDArray[np.float64]:
    """Return psi as contiguous float64, with at least one axis and one class, all finite."""
    rows = real_array("psi", psi, np.float64)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(f"psi has shape {rows.shape}; its last axis must hold the utilities of at least one class")
    return rows


def utility_probabilities(
    psi: ArrayLike, noise: str, *, classes: ArrayLike | None = None, log: bool = False, n_jobs: int | None = None
) -> NDArray[np.float64]:
    r"""The probability that each class has the largest utility, under independent noise of one kind.

    With utilities :math:`\psi_k + \varepsilon_k`, density f and distribution function F of the noise,

    .. math:: p_k = \int f(t - \psi_k) \prod_{k' \ne k} F(t - \psi_{k'}) \, dt,

    which is the softmax for Gumbel noise, the multinomial probit for normal and the multinomial logistic model for
    logistic noise.

    Parameters
    ----------
    psi : array_like of shape (..., K)
        Mean utilities, finite real numbers, K >= 1. Computed in float64.
    noise : {'gumbel', 'normal', 'logistic'}
        The standard distribution of that name, with location 0 and scale 1.
    classes : array_like of int, optional
        The classes that are asked for, each in [0, K): an array that broadcasts to psi's leading axes with a last axis
        of m classes. All K of each row still enter the product. None is all classes.
    log : bool, default=False
        Whether logarithms are returned. They are accurate where the probabilities are below 1e-300 too; integrands
        of classes that far behind need nodes of their own, so this takes the longer the wider psi is spread.
    n_jobs : int, optional
        Threads, over rows: None is 1, -1 all cores.

    Returns
    -------
    ndarray of shape (..., K) or (..., m), float64
        Probabilities to 1e-8 absolute, whose sum over K is 1 to 1e-8, or logarithms to 1e-8. A logarithm below -1e4
        has a relative error of 1e-6, and is -inf where the number is below the range of float64.

    Raises
    ------
    TypeError
        If psi is not of real numbers or classes are not integers.
    ValueError
        If psi is not finite or has no class, a class is outside [0, K), or noise is none of the three.

    See Also
    --------
    sampled_utility_log_probabilities : The importance sampler of Ruiz et al.

    Notes
    -----
    One trapezoidal rule over the value t of the maximum serves all classes, so that a node costs O(K); its spacing is
    halved until two rules agree. From some hundred classes on, sums over classes are taken over Chebyshev nodes in
    bins of width 1/2 instead, at a cost that no longer grows with K.

    References
    ----------
    F. Ruiz, M. Titsias, A. Dieng, D. Blei, "Augment and reduce", ICML 2018, eq. (5).

    Examples
    --------
    >>> from manyclass.special import utility_probabilities
    >>> utility_probabilities([0.0, 1.0], "normal").round(4)
    array([0.2398, 0.7602])
    """
    check_choice("noise", noise, names("noise"))
    rows = _rows(psi)
    how: dict[str, Any] = {"log": bool(log), "n_threads": n_threads_from(n_jobs)}
    leading, n_classes = rows.shape[:-1], rows.shape[-1]
    flat = rows.reshape(-1, n_classes)
    if classes is None:
        return _core.utility_probabilities(noise=noise, psi=flat, **how).reshape(rows.shape)
    chosen: NDArray[np.int32] = checked_ids("classes", np.ravel(classes), n_classes).reshape(np.shape(classes))
    if chosen.ndim == 0:
        raise ValueError("classes is a single number; it must be an array whose last axis holds the classes")
    wanted = np.broadcast_to(chosen, (*leading, chosen.shape[-1]))
    how["classes"] = np.ascontiguousarray(wanted.reshape(len(flat), chosen.shape[-1]))
    return _core.utility_probabilities_at(noise=noise, psi=flat, **how).reshape(wanted.shape)


def sampled_utility_log_probabilities(
    psi: ArrayLike,
    labels: ArrayLike,
    noise: str,
    *,
    n_samples: int = 1000,
    clip: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    r"""The logarithm of the importance-sampled probability of one class per row, as Ruiz et al. report it.

    .. math:: \hat p_k = \frac{1}{S} \sum_s \frac{f(\varepsilon_s)}{q(\varepsilon_s)}
        \prod_{k' \ne k} F(\varepsilon_s + \psi_k - \psi_{k'}), \quad \varepsilon_s \sim q = N(5, 5^2).

    The estimate of the probability is unbiased, its logarithm is too low on average. Use it to compare with published
    numbers; `utility_probabilities` is exact.

    Parameters
    ----------
    psi : array_like of shape (..., K)
        Mean utilities, finite.
    labels : array_like of int, of shape (...)
        The class k of each row, in [0, K).
    noise : {'gumbel', 'normal', 'logistic'}
        As for `utility_probabilities`.
    n_samples : int, default=1000
        Draws S per row, independent between rows.
    clip : float, optional
        Smallest value that is returned; the authors' programs use -26. None does not clip, and gives -inf where all
        weights underflow.
    random_state : int, RandomState instance or None, default=None
        Seeds the draws; they do not depend on n_jobs.
    n_jobs : int, optional
        Threads, over rows: None is 1, -1 all cores.

    Returns
    -------
    ndarray of shape (...), float64
        The logarithms of the estimates.

    Raises
    ------
    TypeError
        If psi is not of real numbers or labels are not integers.
    ValueError
        If psi is not finite, a label is outside [0, K), the shapes differ, or an option is outside its range.

    See Also
    --------
    utility_probabilities : The integral by quadrature.

    References
    ----------
    F. Ruiz, M. Titsias, A. Dieng, D. Blei, "Augment and reduce", ICML 2018, section 4.2.
    """
    check_choice("noise", noise, names("noise"))
    check_number("n_samples", n_samples, low=1, high=np.iinfo(np.int32).max, integer=True)
    if clip is not None:
        check_number("clip", clip)
    rows = _rows(psi)
    y = checked_ids("labels", np.ravel(labels), rows.shape[-1]).reshape(np.shape(labels))
    if y.shape != rows.shape[:-1]:
        raise ValueError(f"labels have shape {y.shape}; psi of shape {rows.shape} asks for {rows.shape[:-1]}")
    run: dict[str, Any] = {"n_samples": int(n_samples), "seed": seed_from(random_state)}
    run["n_threads"] = n_threads_from(n_jobs)
    flat = rows.reshape(-1, rows.shape[-1])
    out = _core.sampled_utility_log_probabilities(noise=noise, psi=flat, labels=y.reshape(-1), **run)
    return np.maximum(out, -np.inf if clip is None else clip).reshape(y.shape)
