r"""Paired comparisons: the Bradley-Terry model, whose likelihood one-vs-each is for data of one class a point.

In the model of Bradley and Terry k beats l with probability :math:`\sigma(f_k - f_l)`. With n_kl wins of k over l the
log-likelihood is :math:`\sum_{k \ne l} n_{kl} \log\sigma(f_k - f_l)`. One-vs-each counts a point of class k as one win
of k over every other class (Titsias, NIPS 2016, section 2.1 and eq. 9): N_k points of class k are n_kl = N_k wins over
each l, and the best scores are then log N_k, those of the softmax. The two part where only some pairs have met:
Bradley-Terry needs no more than that wins lead from every class to every other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.bounds.arrays import Array, Bound, real_array
from manyclass.checks import check_number
from manyclass.weights.arrays import Ids

Wins = ArrayLike | sp.sparray | sp.spmatrix


def bradley_terry(f: ArrayLike, wins: Wins) -> Bound:
    r"""The log-likelihood of paired comparisons.

    .. math:: \sum_{k \ne l} n_{kl} \log \sigma(f_k - f_l)

    Concave in f. For ``wins[k] = N_k`` it is the one-vs-each bound of N_k points of each class k, summed over points.

    Parameters
    ----------
    f : array_like of shape (K,)
        Scores, K >= 2.
    wins : array_like or sparse matrix of shape (K, K)
        n_kl >= 0, wins of k over l. The diagonal counts for nothing.

    Returns
    -------
    value : ndarray of shape (), float64
        In nats.
    gradient : ndarray of shape (K,), float64

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.
    """
    n_classes, pairs = _pairs_of(wins)
    scores = real_array("f", f)
    if scores.shape != (n_classes,):
        raise ValueError(f"f has shape {scores.shape}, wins is of {n_classes} classes")
    value, gradient = _core.paired_log_likelihood(*pairs, np.ascontiguousarray(scores))
    return Bound(np.asarray(value), gradient)


def bradley_terry_scores(wins: Wins, *, tol: float = 1e-10) -> Array:
    r"""Fit scores to paired comparisons: the maximum of `bradley_terry`, by Newton's method.

    It exists, and is unique but for a constant, where wins lead from every class to every other. (Else some group of
    classes never beats the rest, and the likelihood rises for as long as its scores are lowered together.) It is known
    in closed form for two classes, :math:`f_0 - f_1 = \log(n_{01} / n_{10})`, for pairs that make a tree, where that
    holds for each, and for ``wins[k] = N_k``, :math:`f_k = \log N_k` (Titsias, NIPS 2016, Proposition 2).

    Parameters
    ----------
    wins : array_like or sparse matrix of shape (K, K)
        n_kl >= 0, wins of k over l, not necessarily whole numbers. The diagonal counts for nothing.
    tol : float, default=1e-10
        Ends when no score would move by more than this, > 0; the error is then about its square, or rounding. Each step
        solves a linear system with an entry for each pair that has met, by conjugate gradients.

    Returns
    -------
    ndarray of shape (K,), float64
        Scores whose mean is 0; k beats l with probability ``expit(f[k] - f[l])``.

    Raises
    ------
    ValueError
        If an argument is out of range, or some classes never beat any of the others, so that no maximum exists.
    """
    check_number("tol", tol, low=0, open_low=True)
    n_classes, pairs = _pairs_of(wins)
    scores, n_groups, n_with_first = _core.paired_scores(*pairs, n_classes, tol)
    if n_groups > 1:
        raise ValueError(
            f"wins has {n_groups} groups of classes without wins both ways between them, class 0 in one of "
            f"{n_with_first} of the {n_classes} classes; scores need wins that lead from every class to every other"
        )
    return scores


def _pairs_of(wins: Wins) -> tuple[int, tuple[Ids, Ids, Array]]:
    """Return the number of classes, and winners, losers and wins of the pairs that count."""
    matrix: Any = wins if sp.issparse(wins) else real_array("wins", np.asarray(wins))
    n: Any = sp.coo_array(matrix)
    if n.ndim != 2 or n.shape[0] != n.shape[1] or n.shape[0] < 2:
        raise ValueError(f"wins has shape {n.shape}; it must be square, of 2 classes or more")
    n.sum_duplicates()
    winner, loser = n.coords
    values = real_array("wins", n.data)
    if (values < 0).any():
        raise ValueError(f"wins contains {values.min():g}; wins must be at least 0")
    counts = (winner != loser) & (values > 0)
    return int(n.shape[0]), (winner[counts].astype(np.int32), loser[counts].astype(np.int32), values[counts])
