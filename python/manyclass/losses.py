r"""Losses of points with one or several labels, and their gradients, from arrays of scores.

P are the labels of a point, N the other classes and z its scores, of which high ones are good. The margin losses and
the triplet loss are those of Yen et al. (ICML 2018), eq. 3 and 7, with their signs turned: a wrong class costs when its
score is above a label's less 1. Where there is no wrong class they are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_number, id_lists, public_names, real_array

Positives = ArrayLike | Sequence[ArrayLike] | sp.sparray | sp.spmatrix
Losses = tuple[NDArray[np.float64], NDArray[np.float32]]
_Rows = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32]]

# M = A'A in single precision is symmetric and without negative eigenvalues to a few ulp of its largest entry, times
# the root of the length of the sums.
METRIC_TOLERANCE = 1e-5


def cross_entropy(scores: ArrayLike, positives: Positives) -> Losses:
    r"""Cross-entropy, :math:`\sum_{k \in P} [\log \sum_j e^{z_j} - z_k]`.

    Its gradient is :math:`|P| \, \mathrm{softmax}(z) - 1_P`.

    Parameters
    ----------
    scores : array-like of shape (n, K), or (K,) for one point
        Finite; computed with as float32.
    positives : sparse matrix of shape (n, K), or sequence of n sequences of ids
        Labels of each point, one or more: the entries of the matrix that are stored, or a list for each row. For one
        point a list of ids will do.

    Returns
    -------
    values : ndarray of shape (n,), float64
        In nats. Of shape (1,) for one point.
    gradients : ndarray of the shape of scores, float32

    Raises
    ------
    TypeError
        If the scores are not real numbers or the ids not integers.
    ValueError
        If a score is not finite, the shapes do not fit, a point has no labels, or an id is out of range or given twice.
    """
    return _losses(scores, positives, loss="cross_entropy")


def max_margin(scores: ArrayLike, positives: Positives) -> Losses:
    r"""Max-margin loss, :math:`[\max_{j \in N, k \in P} 1 + z_j - z_k]_+`.

    Its gradient is, where the loss is not 0, +1 at the highest wrong class and -1 at the lowest label, the first of
    equals: one of its subgradients.

    Parameters
    ----------
    scores : array-like, as of `cross_entropy`
    positives : labels, as of `cross_entropy`

    Returns
    -------
    values : ndarray of shape (n,), float64, without unit
    gradients : ndarray of the shape of scores, float32

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`.
    """
    return _losses(scores, positives, loss="margin", smoothing=0.0)


def smoothed_margin(scores: ArrayLike, positives: Positives, smoothing: float = 1.0) -> Losses:
    r"""Max-margin loss with a gradient that is 1/smoothing-Lipschitz, and as sparse.

    .. math:: L_\mu(z) = \max_{\alpha \in C} \langle z + 1_N, \alpha \rangle - \frac{\mu}{2} \|\alpha\|^2,
        \qquad \nabla L_\mu(z) = \mathrm{proj}_C\left(\frac{z + 1_N}{\mu}\right)

    with the bi-simplex C of `project_bisimplex` (Yen et al., ICML 2018, eq. 10 and 11). It is below `max_margin` by at
    most :math:`\mu`.

    Parameters
    ----------
    scores : array-like, as of `cross_entropy`
    positives : labels, as of `cross_entropy`
    smoothing : float, default=1.0
        :math:`\mu \ge 0`. 0 is `max_margin`.

    Returns
    -------
    values : ndarray of shape (n,), float64, without unit
    gradients : ndarray of the shape of scores, float32
        That of a row adds up to 0.

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`, or if the smoothing is out of range.
    """
    check_number("smoothing", smoothing, low=0)
    return _losses(scores, positives, loss="margin", smoothing=float(smoothing))


def implicit_margin(
    scores: ArrayLike, positives: Positives, x_sq: ArrayLike, eta: float = 1.0, smoothing: float = 1.0
) -> Losses:
    r"""Implicit (proximal) step of the smoothed margin of a linear model, :math:`z = W x`, in closed form.

    .. math:: \min_W L_\mu(W x) + \frac{1}{2 \eta} \|W - \tilde W\|^2, \qquad W = \tilde W - \eta \, \alpha x^\top,
        \quad \alpha = \nabla L_{\mu + \eta \|x\|^2}(\tilde W x)

    The step is a gradient at the old scores, of a loss that is smoother by :math:`\eta \|x\|^2`. With `smoothing` = 0
    it is a passive-aggressive step.

    Parameters
    ----------
    scores : array-like, as of `cross_entropy`
        Those before the step.
    positives : labels, as of `cross_entropy`
    x_sq : float or array-like of shape (n,)
        :math:`\|x\|^2 \ge 0` of each row, each of which is a step of its own from :math:`\tilde W`.
    eta : float, default=1.0
        Step size, > 0.
    smoothing : float, default=1.0
        :math:`\mu \ge 0`.

    Returns
    -------
    values : ndarray of shape (n,), float64
        The minimum above.
    alpha : ndarray of the shape of scores, float32
        Row k of W moves by :math:`-\eta \alpha_k x`.

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`, or if x_sq, eta or the smoothing is out of range.
    """
    check_number("smoothing", smoothing, low=0)
    check_number("eta", eta, low=0, open_low=True)
    (z, indptr, ids), shape = _checked(scores, positives)
    squares = np.asarray(x_sq, dtype=np.float64)
    if squares.shape not in ((), (len(z),)):
        raise ValueError(f"x_sq has shape {squares.shape}; it must be a number or have shape ({len(z)},)")
    if not np.all(np.isfinite(squares) & (squares >= 0)):
        raise ValueError("x_sq holds a value that is no squared length; it must be finite and at least 0")
    row_squares = np.array(np.broadcast_to(squares, (len(z),)))
    values, alpha = _core.implicit_margins(z, indptr, ids, smoothing=float(smoothing), eta=float(eta), x_sq=row_squares)
    return values, alpha.reshape(shape)


def triplet(scores: ArrayLike, positives: Positives) -> Losses:
    r"""Triplet loss, :math:`\sum_{k \in P, j \in N} [1 + z_j - z_k]_+`, in O(K log |P|).

    Its gradient is how many labels a wrong class comes within 1 of, and minus how many wrong classes come within 1 of a
    label.

    Parameters
    ----------
    scores : array-like, as of `cross_entropy`
    positives : labels, as of `cross_entropy`

    Returns
    -------
    values : ndarray of shape (n,), float64, without unit
    gradients : ndarray of the shape of scores, float32

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`.
    """
    return _losses(scores, positives, loss="triplet")


def nca(distances: ArrayLike, positives: Positives) -> Losses:
    r"""Loss of neighbourhood component analysis, :math:`\sum_{k \in P} [d_k + \log \sum_j e^{-d_j}]`.

    It is the `cross_entropy` of the scores -d (Yen et al., ICML 2018, eq. 6).

    Parameters
    ----------
    distances : array-like of shape (n, K), or (K,) for one point
        From each point to those of the classes; finite.
    positives : labels, as of `cross_entropy`

    Returns
    -------
    values : ndarray of shape (n,), float64
        In nats.
    gradients : ndarray of the shape of distances, float32
        With respect to the distances.

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`.
    """
    (d, indptr, ids), shape = _checked(distances, positives, "distances")
    values, gradients = _core.losses(-d, indptr, ids, loss="cross_entropy")
    return values, -gradients.reshape(shape)


def project_bisimplex(z: ArrayLike, positives: Positives) -> NDArray[np.float32]:
    r"""Projection onto the bi-simplex of the labels of each row.

    .. math:: C = \{\alpha: \alpha_N \ge 0,\ \alpha_P \le 0,\ \sum_{k \in N} \alpha_k = -\sum_{k \in P} \alpha_k \le 1\}

    Parameters
    ----------
    z : array-like of shape (n, K), or (K,) for one point
        Finite; computed with as float32.
    positives : the coordinates P of each row, as labels of `cross_entropy`

    Returns
    -------
    ndarray of the shape of z, float32

    Raises
    ------
    TypeError, ValueError
        As `cross_entropy`.
    """
    (rows, indptr, ids), shape = _checked(z, positives, "z")
    return _core.bisimplex_projections(rows, indptr, ids).reshape(shape)


def mahalanobis_rows(points: ArrayLike, M: ArrayLike, *, drop_constant: bool = False) -> NDArray[np.floating[Any]]:
    r"""Rows w_y of a linear scorer of squared Mahalanobis distances, :math:`w_y \cdot q_x = -(x - y)^\top M (x - y)`.

    :math:`w_y = (-y^\top M y,\ 2 M y,\ -1)` and :math:`q_x = (1,\ x,\ x^\top M x)`: the row of largest inner product
    with a query is its nearest neighbour, so that a `SphericalClusterIndex` of the rows finds neighbours. The sum
    cancels: in single precision a score is off by about 1e-7 of its largest term, which is smallest for points around
    the origin.

    Parameters
    ----------
    points : array-like of shape (K, d)
        Points y of the classes, finite.
    M : array-like of shape (d, d)
        Symmetric positive semi-definite.
    drop_constant : bool, default=False
        Leave out the last column, which is the same for all y: scores are then :math:`x^\top M x` more, and have the
        same order. Rows and queries must agree.

    Returns
    -------
    ndarray of shape (K, d + 2), or (K, d + 1) without the constant
        float32 if the points are, else float64.

    Raises
    ------
    TypeError
        If the points or M are not real numbers.
    ValueError
        If their shapes do not fit, a value is not finite, or M is no metric.
    """
    y, metric, dtype = _metric_arguments(points, M)
    linear = y @ metric
    columns = [-np.sum(linear * y, axis=1), 2 * linear]
    if not drop_constant:
        columns.append(np.full(len(y), -1.0))
    return np.column_stack(columns).astype(dtype)


def mahalanobis_queries(points: ArrayLike, M: ArrayLike, *, drop_constant: bool = False) -> NDArray[np.floating[Any]]:
    r"""Queries q_x of `mahalanobis_rows`: :math:`q_x = (1,\ x,\ x^\top M x)`.

    Parameters
    ----------
    points : array-like of shape (n, d)
        Points x, finite.
    M : array-like of shape (d, d), as of `mahalanobis_rows`
    drop_constant : bool, as of `mahalanobis_rows`

    Returns
    -------
    ndarray of shape (n, d + 2), or (n, d + 1) without the constant
        ``mahalanobis_queries(X, M) @ mahalanobis_rows(Y, M).T`` are the negative squared distances.

    Raises
    ------
    TypeError, ValueError
        As `mahalanobis_rows`.
    """
    x, metric, dtype = _metric_arguments(points, M)
    columns = [np.ones(len(x)), x]
    if not drop_constant:
        columns.append(np.sum((x @ metric) * x, axis=1))
    return np.column_stack(columns).astype(dtype)


def _losses(scores: ArrayLike, positives: Positives, *, loss: str, smoothing: float = 0.0) -> Losses:
    (z, indptr, ids), shape = _checked(scores, positives)
    values, gradients = _core.losses(z, indptr, ids, loss=loss, smoothing=smoothing)
    return values, gradients.reshape(shape)


def _checked(scores: ArrayLike, positives: Positives, name: str = "scores") -> tuple[_Rows, tuple[int, ...]]:
    """Return scores and labels as the core takes them, and the shape that the caller gave."""
    z = real_array(name, scores, np.float32)
    if z.ndim not in (1, 2) or z.shape[-1] == 0:
        raise ValueError(f"{name} has shape {z.shape}; it must have shape (K,) or (n, K), K >= 1")
    rows = z.reshape(-1, z.shape[-1])
    return (rows, *_labels(positives, *rows.shape, z.ndim == 1)), z.shape


def _labels(positives: Positives, n: int, n_classes: int, single: bool) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (indptr, sorted ids) of the labels of each row."""
    labels: Any = positives
    if not sp.issparse(labels) and single and np.ndim(labels[0] if len(labels) else 0) == 0:
        labels = [labels]
    names, once = {"rows": "rows of scores", "whose": ", as the scores"}, "a label counts once"
    indptr, ids = id_lists("positives", labels, (n, n_classes), **names, once=once)
    without = np.flatnonzero(np.diff(indptr) == 0)
    if len(without):
        raise ValueError(f"row {without[0]} has no positives; each row needs one or more")
    return indptr, ids


def _metric_arguments(points: ArrayLike, M: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    numbers, metric = real_array("points", points, np.float64), real_array("M", M, np.float64)
    if numbers.ndim != 2:
        raise ValueError(f"points has {numbers.ndim} dimensions; it must have 2")
    d = numbers.shape[1]
    if metric.shape != (d, d):
        raise ValueError(f"M has shape {metric.shape}; it must be {(d, d)}, for points of {d} columns")
    most = METRIC_TOLERANCE * np.abs(metric).max(initial=0.0)
    if np.abs(metric - metric.T).max(initial=0.0) > most:
        raise ValueError("M is not symmetric; the distance (x - y)'M(x - y) needs a symmetric M")
    metric = (metric + metric.T) / 2
    lowest = np.linalg.eigvalsh(metric).min(initial=0.0)
    if lowest < -most * d:
        raise ValueError(f"M has the eigenvalue {lowest:g}; it must be positive semi-definite")
    return numbers, metric, np.float32 if np.asarray(points).dtype == np.float32 else np.float64


__all__ = public_names(vars())
