r"""Lower bounds of log p(y = k) from the K scores of a point: one-vs-each, its hierarchy, Bouchard and others.

Every function takes scores ``f`` of shape (..., K) and classes ``k`` whose shape broadcasts with ``f.shape[:-1]``, and
returns the bound with its gradient in float64. They are meant for studying and checking bounds: each costs O(K) per
point or more. The estimators train at a cost that does not grow with K.

============================== ===================================================== =============================
function                       bounds log p of                                       variational parameters
============================== ===================================================== =============================
`log_softmax`                  softmax, exactly                                      none
`one_vs_each`                  softmax                                               none
`mixed_bound`, `block_bound`   softmax                                               none
`bouchard`                     softmax                                               a, or the best one
`log_concavity`                softmax                                               u, or the best one
`augment_reduce`               softmax, multinomial probit and multinomial logistic  mu and scale of q
============================== ===================================================== =============================

`merge` and `hierarchy` walk from one-vs-each to the exact softmax. `weight_distance` and `predictive_scores` tell how
near a model trained by a bound comes to the exact one. `double_sum_constants` is no bound of a probability: it has the
constants of Fagan & Iyengar's convergence theorems. `sampled_one_vs_each` estimates the sum of the bound
from a few drawn classes, `one_vs_each_proposal` says which to draw, and `sampled_one_vs_each_variance` what that saves.
`bradley_terry_scores` fits scores to paired comparisons, whose likelihood, `bradley_terry`, one-vs-each is a case of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_choice, check_number, public_names
from manyclass.weights.arrays import Ids

Array = NDArray[np.float64]
Classes = NDArray[np.intp]
T = TypeVar("T", bound=np.generic)


class Bound(NamedTuple):
    """A bound and its gradient.

    Attributes
    ----------
    value : ndarray of shape (...), float64
        The bound of log p(y = k), in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores.
    """

    value: Array
    gradient: Array


class VariationalBound(NamedTuple):
    """A bound with variational parameters, and its gradients.

    Attributes
    ----------
    value : ndarray of shape (...), float64
        The bound of log p(y = k), in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores, at fixed variational parameters. Where the parameters are the best
        ones for the scores, this is also the gradient of the bound maximised over them (the envelope theorem).
    parameter_gradient : ndarray of shape (...) for one parameter, (..., 2) for two, float64
        Its derivatives with respect to the variational parameters.
    """

    value: Array
    gradient: Array
    parameter_gradient: Array


class _ScoredPoints(NamedTuple):
    """Scores and classes of points that were checked, as the core takes them.

    Attributes
    ----------
    f : ndarray of shape (n_points, K), float64
    labels : ndarray of shape (n_points,), int32
    shape : tuple of int
        The leading shape of what the caller gets.
    """

    f: Array
    labels: Ids
    shape: tuple[int, ...]

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.f.shape[1])

    def bound(self, value: Array, gradient: Array) -> Bound:
        """Return what the core says of the points, in their shape."""
        return Bound(value.reshape(self.shape)[()], gradient.reshape(*self.shape, self.n_classes))

    def spread(self, name: str, array: NDArray[T], width: int) -> NDArray[T]:
        """Return a row of an array for each point; ValueError unless its leading shape fits theirs."""
        try:
            return np.ascontiguousarray(np.broadcast_to(array, (*self.shape, width)))
        except ValueError:
            raise ValueError(f"{name} has shape {array.shape}; it must fit {(*self.shape, width)}") from None


def _real_array(name: str, value: ArrayLike) -> Array:
    """Return `value` as float64; ValueError unless it holds real and finite numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}; it must hold real numbers")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains {array[~np.isfinite(array)][0]}; it must be finite")
    return array


def _class_array(name: str, value: ArrayLike, n_classes: int) -> Classes:
    """Return `value` as class numbers; ValueError unless it holds integers in [0, n_classes), or nothing."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":  # NumPy takes an empty list for one of floats
        raise ValueError(f"{name} has dtype {array.dtype}; it must hold integers")
    outside = (array < 0) | (array >= n_classes)
    if outside.any():
        raise ValueError(f"{name} contains {array[outside][0]}; classes are in [0, {n_classes})")
    return array.astype(np.intp, copy=False)


def _checked(f: ArrayLike, k: ArrayLike, **parameters: ArrayLike) -> tuple[_ScoredPoints, list[Array]]:
    """Return points, and a value of each parameter for each; ValueError for what no bound takes."""
    F = _real_array("f", f)
    if F.ndim == 0 or F.shape[-1] < 2:
        raise ValueError(f"f has shape {F.shape}; its last axis must hold the scores of at least 2 classes")
    with np.errstate(over="ignore"):
        spread = np.ptp(F, axis=-1)
    if not np.isfinite(spread).all():
        raise ValueError(f"f spans [{F.min():g}, {F.max():g}]; the differences of a point's scores must be finite")
    labels = _class_array("k", k, F.shape[-1])
    arrays = {name: _real_array(name, value) for name, value in parameters.items()}
    shapes = {"f without its last axis": F.shape[:-1], "k": labels.shape} | {n: p.shape for n, p in arrays.items()}
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{shape} of {name}" for name, shape in shapes.items())
        raise ValueError(f"the shapes {listed} differ; they must broadcast to one") from None
    rows = np.ascontiguousarray(np.broadcast_to(F, (*shape, F.shape[-1]))).reshape(-1, F.shape[-1])
    labels_of_rows, *values = (np.broadcast_to(array, shape).ravel() for array in (labels, *arrays.values()))
    return _ScoredPoints(rows, labels_of_rows.astype(np.int32), shape), values


# Lower bounds that compare k with blocks of the other classes: one-vs-each, its hierarchy, and the exact softmax.
#
# A product over blocks B of P(k | k or B) bounds p(k), since 1 + a + b <= (1 + a)(1 + b) for a, b >= 0
# (Titsias, NIPS 2016, Proposition 1). Merging two blocks replaces the right side by the left: the bound tightens.

Blocks = Sequence[ArrayLike]


def log_softmax(f: ArrayLike, k: ArrayLike) -> Bound:
    r"""The exact log-probability of the softmax.

    .. math:: \log p(k) = -\log\Bigl(1 + \sum_{m \ne k} e^{f_m - f_k}\Bigr)

    Titsias, NIPS 2016, eq. (2)-(3).

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.

    Returns
    -------
    value : ndarray of shape (...), float64
        log p(k) in nats, with its leading digits also where p(k) rounds to 1.
    gradient : ndarray of shape (..., K), float64
        1[m = k] - p(m).

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite, k is not a class, or the shapes do not fit.
    """
    points, _ = _checked(f, k)
    return _compare_blocks(points, np.zeros(points.n_classes, dtype=np.int32))


def one_vs_each(f: ArrayLike, k: ArrayLike) -> Bound:
    r"""The one-vs-each bound, which compares k with each other class alone.

    .. math:: \log p(k) \ge \sum_{m \ne k} \log \sigma(f_k - f_m)

    Titsias, NIPS 2016, eq. (4). Equality for K = 2. Concave in f.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats.
    gradient : ndarray of shape (..., K), float64
        :math:`-\sigma(f_m - f_k)` at m, and minus their sum at k.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite, k is not a class, or the shapes do not fit.
    """
    points, _ = _checked(f, k)
    return _compare_blocks(points, np.arange(points.n_classes, dtype=np.int32))


def mixed_bound(f: ArrayLike, k: ArrayLike, block: ArrayLike) -> Bound:
    r"""The bound that compares one block of classes jointly with k, and each class outside it alone.

    .. math:: \log p(k) \ge -\log\Bigl(1 + \sum_{m \in C} e^{f_m - f_k}\Bigr)
              + \sum_{m \notin C,\, m \ne k} \log \sigma(f_k - f_m)

    Titsias, NIPS 2016, eq. (6), right side: exact for C = all classes, one-vs-each where C adds one class or none.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    block : array_like of int, shape (c,) or (..., c)
        The classes C, one set for all points or a set per point (such as the c best of a search). k itself and
        repetitions in it count for nothing.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite, k or block holds no classes, or the shapes do not fit.
    """
    points, _ = _checked(f, k)
    C = np.atleast_1d(_class_array("block", block, points.n_classes))
    C = points.spread("block", C, C.shape[-1])
    blocks = np.tile(np.arange(points.n_classes, dtype=np.int32), (*points.shape, 1))
    # The block has the number of one of its classes; k, which counts for nothing in it, has one of its own.
    np.put_along_axis(blocks, C, C[..., :1].astype(np.int32), axis=-1)
    return _compare_blocks(points, blocks)


def block_bound(f: ArrayLike, k: ArrayLike, blocks: Blocks) -> Bound:
    r"""The bound that compares each block of classes jointly with k, between one-vs-each and the exact softmax.

    .. math:: \log p(k) \ge -\sum_j \log\Bigl(1 + \sum_{m \in B_j,\, m \ne k} e^{f_m - f_k}\Bigr)

    Titsias, NIPS 2016, Proposition 1 and eq. (6), left side, for any number of blocks. One block is exact, blocks of
    one class are one-vs-each, and merging blocks never loosens the bound.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    blocks : sequence of array_like of int
        Disjoint blocks that hold every class but k. k itself may stand in any block or in none, and is left out; so
        one partition of all K classes serves every k.

    Returns
    -------
    value : ndarray of shape (...), float64
        The bound in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores.

    Raises
    ------
    ValueError
        If f has fewer than 2 classes or is not finite, k is not a class, the shapes do not fit, or the blocks repeat
        a class or leave one out.
    """
    points, _ = _checked(f, k)
    return _compare_partition(points, blocks)


def merge(blocks: Blocks, i: int, j: int) -> list[Classes]:
    """Join the j-th block to the i-th, which gives the next tighter bound of `block_bound`.

    Parameters
    ----------
    blocks : sequence of array_like of int
        Blocks of classes.
    i : int
        Position in `blocks` of the block that grows.
    j : int
        Position of the block that joins it, another one.

    Returns
    -------
    list of ndarray of int
        One block fewer; the joined one stands where the i-th stood.

    Raises
    ------
    ValueError
        If i and j are not two different positions.
    """
    if i == j or not (0 <= i < len(blocks) and 0 <= j < len(blocks)):
        raise ValueError(f"i is {i} and j is {j}; they must be different and in [0, {len(blocks)})")
    merged = [np.asarray(block, dtype=np.intp) for block in blocks]
    merged[i] = np.concatenate([merged[i], merged[j]])
    del merged[j]
    return merged


def hierarchy(f: ArrayLike, k: ArrayLike, blocks: Blocks | None = None) -> Iterator[tuple[list[Classes], Bound]]:
    r"""Yield bounds that tighten from `blocks` to the exact softmax, by merging neighbouring blocks in pairs.

    Every level has half the blocks of the one before, so one-vs-each becomes exact in :math:`\lceil\log_2 K\rceil`
    levels. Values never decrease, but for rounding.

    Parameters
    ----------
    f : array_like of shape (..., K)
        Scores, K >= 2.
    k : int or array_like of int
        Classes; the shape broadcasts with ``f.shape[:-1]``.
    blocks : sequence of array_like of int, default=None
        The first partition, as in `block_bound`. None: every class is a block, which is one-vs-each.

    Yields
    ------
    blocks : list of ndarray of int
        The partition of this level.
    bound : Bound
        Its value and gradient.

    Raises
    ------
    ValueError
        As `block_bound`.
    """
    points, _ = _checked(f, k)
    level = [np.asarray(block) for block in (np.arange(points.n_classes)[:, None] if blocks is None else blocks)]
    while True:
        yield level, _compare_partition(points, level)
        if len(level) <= 1:
            return
        level = [np.concatenate(level[i : i + 2]) for i in range(0, len(level), 2)]


def _compare_partition(points: _ScoredPoints, blocks: Blocks) -> Bound:
    """Return the bound that compares each block of a partition jointly with k, which may stand in any or in none."""
    n = points.n_classes
    lists = [_class_array(f"block {j}", block, n).ravel() for j, block in enumerate(blocks)]
    classes = np.concatenate([[], *lists]).astype(np.int32)
    sizes = np.array([*map(len, lists)], dtype=np.int64)
    return _compare_blocks(points, _core.block_numbers(classes, sizes, points.labels, n))


def _compare_blocks(points: _ScoredPoints, blocks: Ids) -> Bound:
    """Return the bound that compares each block jointly with k; see the core's evaluate/softmax_bounds.hpp."""
    return points.bound(*_core.block_bounds(points.f, points.labels, blocks.ravel()))


# Lower bounds with variational parameters: Bouchard's, log-concavity, and the ELBO of augment and reduce (A&R).


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
    points, (locations,) = _checked(f, k, a=bouchard_location(f) if a is None else a)
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
    points, _ = _checked(f, 0)
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
    points, (tangents,) = _checked(f, k, u=0.0 if u is None else u)
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
    points, (location, width) = _checked(f, k, mu=mu, scale=scale)
    limit = np.inf if noise == "gumbel" else MAX_SCALE
    wrong = (width <= 0) | (width > limit)
    if wrong.any():
        raise ValueError(f"scale is {width[wrong][0]}; it must be more than 0 and at most {limit:g}")
    *bound, parameters = _core.utility_bounds(noise=noise, f=points.f, labels=points.labels, mu=location, s=width)
    return VariationalBound(*points.bound(*bound), parameters.reshape(*points.shape, 2))


# One-vs-each from a few drawn classes: the estimator, its variance, and a proposal that makes it small.
#
# Titsias (NIPS 2016, section 3) draws the classes m of the sum over m != k uniformly, and leaves a better proposal to
# future work. With p(m) any proposal and r draws with replacement, the weights 1 / (r p(m)) make the sum and its
# gradient unbiased. The gradient's summands have length sqrt(2) sigma(f_m - f_k), so that of all proposals the one in
# proportion to sigma(f_m - f_k) has the least total variance (Cauchy and Schwarz). It depends on the scores; those of
# some time ago, or cheap ones, leave the estimator unbiased and cost variance only.


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
    points, _ = _checked(f, k)
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
    classes = _class_array("drawn", np.atleast_1d(drawn), points.n_classes)
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


def _with_proposal(f: ArrayLike, k: ArrayLike, proposal: ArrayLike) -> tuple[_ScoredPoints, Array]:
    points, _ = _checked(f, k)
    return points, points.spread("proposal", _real_array("proposal", proposal), points.n_classes).ravel()


# How near a model trained by a bound comes to the exact one: the numbers of Titsias (NIPS 2016), section 4.2.


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
    w, w_star = _real_array("exact", exact), _real_array("approximate", approximate)
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
    points, _ = _checked(f, k)
    if not points.labels.size:
        raise ValueError(f"f has shape {np.shape(f)}; there must be at least one point")
    return PredictiveScores(*_core.predictive_scores(points.f, points.labels))


# Paired comparisons: the Bradley-Terry model, whose likelihood one-vs-each is for data of one class a point.
#
# In the model of Bradley and Terry k beats l with probability sigma(f_k - f_l). With n_kl wins of k over l the
# log-likelihood is the sum over k != l of n_kl log sigma(f_k - f_l). One-vs-each counts a point of class k as one win
# of k over every other class (Titsias, NIPS 2016, section 2.1 and eq. 9): N_k points of class k are n_kl = N_k wins
# over each l, and the best scores are then log N_k, those of the softmax. The two part where only some pairs have met:
# Bradley-Terry needs no more than that wins lead from every class to every other.

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
    scores = _real_array("f", f)
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
        groups = f"{n_groups} groups of classes without wins both ways, class 0 in one of {n_with_first} of {n_classes}"
        raise ValueError(f"wins has {groups}; wins must lead from every class to every other")
    return scores


def _pairs_of(wins: Wins) -> tuple[int, tuple[Ids, Ids, Array]]:
    """Return the number of classes, and winners, losers and wins of the pairs that count."""
    matrix: Any = wins if sp.issparse(wins) else _real_array("wins", np.asarray(wins))
    n: Any = sp.coo_array(matrix)
    if n.ndim != 2 or n.shape[0] != n.shape[1] or n.shape[0] < 2:
        raise ValueError(f"wins has shape {n.shape}; it must be square, of 2 classes or more")
    n.sum_duplicates()
    winner, loser = n.coords
    values = _real_array("wins", n.data)
    if (values < 0).any():
        raise ValueError(f"wins contains {values.min():g}; wins must be at least 0")
    counts = (winner != loser) & (values > 0)
    return int(n.shape[0]), (winner[counts].astype(np.int32), loser[counts].astype(np.int32), values[counts])


# Constants of the double sum: where its optimum lies, and what the convergence theorems ask of step sizes.
#
# The objective, over W and a number u_i for each point, is
#
#     F(u, W) = 1/N sum_i [u_i + e^(-u_i) A_i(W)] + alpha/2 |W|^2,
#     A_i(W) = 1 + sum_{k != y_i} e^(x_i (w_k - w_{y_i})),
#
# without intercepts. The papers' objective is the sum, N F, with the ridge mu = N alpha.


@dataclass(frozen=True)
class DoubleSumConstants:
    """What `double_sum_constants` returns.

    Attributes
    ----------
    weight_norm : float
        B_W, at least the Frobenius norm of the optimal W, hence the norm of each of its rows.
    log_normalizer : float
        B_u, at least every u* = log A_i, in nats, where no row of W is longer than B_W.
    gradient_norm : float
        B_f, at least the norm of the stochastic gradient with one sampled class, where 0 <= u <= B_u and no row is
        longer than B_W; infinite beyond the range of floats.
    strong_convexity : float
        At most the smallest eigenvalue of the Hessian of F there.
    n_samples : int
    """

    weight_norm: float
    log_normalizer: float
    gradient_norm: float
    strong_convexity: float
    n_samples: int

    def learning_rate(self, delta: float = 1.0) -> float:
        """Return the largest step size on F at which U-max is proved to converge, delta^2 / (4 N B_f^2).

        Parameters
        ----------
        delta : float, default=1.0
            U-max's, more than 0.

        Returns
        -------
        float
            0 where B_f is beyond the range of floats.

        Notes
        -----
        A bump of U-max lowers F by at least delta^2 / (2 N) and a step of this size raises it by no more (Fagan &
        Iyengar 2018, Theorem 1 and Lemma 5). The proof has gaps, and the step is far smaller than what works.
        """
        check_number("delta", delta, low=0, open_low=True)
        return float(delta**2 / (4 * self.n_samples * self.gradient_norm**2))


def largest_log_normalizer(max_norm: float, largest_x: float, n_classes: int) -> float:
    """Return B_u = log(1 + (K - 1) e^(2 B_x B_w)), the most that log A_i can be, in nats.

    Parameters
    ----------
    max_norm : float
        B_w, at least the norm of every row of W.
    largest_x : float
        B_x, at least the norm of every x.
    n_classes : int

    Returns
    -------
    float

    References
    ----------
    Fagan & Iyengar 2018, Lemma 2.
    """
    return _core.largest_log_normalizer(max_norm, largest_x, n_classes)


def double_sum_constants(
    counts: ArrayLike, largest_x: float, *, alpha: float, max_norm: float | None = None
) -> DoubleSumConstants:
    r"""Return the constants that Fagan & Iyengar's theorems speak of, for a model without intercepts.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Points of each class, >= 0, at least two classes and one point.
    largest_x : float
        B_x, the largest norm of a point.
    alpha : float
        Ridge, more than 0.
    max_norm : float, optional
        A radius on which rows are projected; None: B_W = sqrt(2 log(K) / alpha), which holds the optimum since
        F(u*, W*) is at most its value at W = 0, log(K) + 1.

    Returns
    -------
    DoubleSumConstants

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Fagan & Iyengar 2018, Lemmas 1 to 4, for the mean loss. B_f^2 adds up du and the two rows of W that a visit moves,
    by its largest values: |du| <= max(1, e^{B_u} - 1), and each row by e^{B_u} B_x + alpha max_k b_k B_W, where
    b_k = 1 / P(row k is touched).

    Examples
    --------
    >>> from manyclass.bounds import double_sum_constants
    >>> found = double_sum_constants([40, 30, 30], 1.0, alpha=0.1)
    >>> round(found.weight_norm, 2)
    4.69
    """
    check_number("largest_x", largest_x, low=0)
    check_number("alpha", alpha, low=0, open_low=True)
    if max_norm is not None:
        check_number("max_norm", max_norm, low=0, open_low=True)
    n = np.ascontiguousarray(counts, dtype=np.float64)
    constants = _core.double_sum_constants(n, largest_x, alpha, max_norm)
    return DoubleSumConstants(*constants, n_samples=int(n.sum()))


__all__ = public_names(vars())
