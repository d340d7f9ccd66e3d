r"""How near a model trained by a bound comes to the exact one: the numbers of Titsias (NIPS 2016), section 4.2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.bounds.arrays import checked, real_array


class PredictiveScores(NamedTuple):
    """Scores of predictions.

    Attributes
    ----------
    error : float
        Share of points whose class of highest score is not theirs.
    nlpd : float
        Mean negative log-probability of the classes under the softmax, in nats.
    """

    error: float
    nlpd: float


def weight_distance(exact: ArrayLike, approximate: ArrayLike) -> float:
    r"""Return the normalised absolute norm :math:`\sum |w - w^*| / \sum |w|` (Titsias, NIPS 2016, eq. 17).

    Parameters
    ----------
    exact : array-like
        Parameters w of the exact training, of any shape, not all 0. Intercepts count as the others do: give them as a
        further column.
    approximate : array-like of the same shape
        Parameters :math:`w^*` of the approximate one.

    Returns
    -------
    float
        0 for equal parameters, 1 for :math:`w^* = 0`.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or all of `exact` is 0.
    """
    w, w_star = real_array("exact", exact), real_array("approximate", approximate)
    if w.shape != w_star.shape:
        raise ValueError(f"approximate has shape {w_star.shape}; it must be that of exact, {w.shape}")
    size = float(np.abs(w).sum())
    if size == 0:
        raise ValueError("exact is 0 everywhere; the norm is relative to its size, which must be more than 0")
    return float(np.abs(w - w_star).sum()) / size


def predictive_scores(f: ArrayLike, k: ArrayLike) -> PredictiveScores:
    """Return error and negative log predictive density of a softmax (Titsias, NIPS 2016, eq. 18).

    Parameters
    ----------
    f : array-like of shape (..., K)
        Scores of test points, K >= 2; log-probabilities will do.
    k : array-like of int
        Their classes; its shape broadcasts with ``f.shape[:-1]``.

    Returns
    -------
    PredictiveScores
        Means over all points.

    Raises
    ------
    ValueError
        If there are no points, the shapes do not fit, a score is not finite, or a class is not in [0, K).
    """
    points, _ = checked(f, k)
    if not points.labels.size:
        raise ValueError(f"f has shape {np.shape(f)}; there must be at least one point")
    return PredictiveScores(*_core.predictive_scores(points.f, points.labels))
