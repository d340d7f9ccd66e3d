"""Lower bounds that compare k with blocks of the other classes: one-vs-each, its hierarchy, and the exact softmax.

A product over blocks B of P(k | k or B) bounds p(k), since 1 + a + b <= (1 + a)(1 + b) for a, b >= 0
(Titsias, NIPS 2016, Proposition 1). Merging two blocks replaces the right side by the left: the bound tightens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.bounds.arrays import Bound, Classes, ScoredPoints, checked, class_array
from manyclass.weights.arrays import Ids

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
    points, _ = checked(f, k)
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
    points, _ = checked(f, k)
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
    points, _ = checked(f, k)
    C = np.atleast_1d(class_array("block", block, points.n_classes))
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
    points, _ = checked(f, k)
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
    points, _ = checked(f, k)
    level = [np.asarray(block) for block in (np.arange(points.n_classes)[:, None] if blocks is None else blocks)]
    while True:
        yield level, _compare_partition(points, level)
        if len(level) <= 1:
            return
        level = [np.concatenate(level[i : i + 2]) for i in range(0, len(level), 2)]


def _compare_partition(points: ScoredPoints, blocks: Blocks) -> Bound:
    """Return the bound that compares each block of a partition jointly with k, which may stand in any or in none."""
    n = points.n_classes
    lists = [class_array(f"block {j}", block, n).ravel() for j, block in enumerate(blocks)]
    classes = np.concatenate([np.empty(0, dtype=np.intp), *lists]).astype(np.int32)
    sizes = np.array([block.size for block in lists], dtype=np.int64)
    return _compare_blocks(points, _core.block_numbers(classes, sizes, points.labels, n))


def _compare_blocks(points: ScoredPoints, blocks: Ids) -> Bound:
    """Return the bound that compares each block jointly with k; see the core's evaluate/softmax_bounds.hpp."""
    return points.bound(*_core.block_bounds(points.f, points.labels, blocks.ravel()))
