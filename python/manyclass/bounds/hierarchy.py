"""Lower bounds that compare k with blocks of the other classes: one-vs-each, its hierarchy, and the exact softmax.

A product over blocks B of P(k | k or B) bounds p(k), since 1 + a + b <= (1 + a)(1 + b) for a, b >= 0
(Titsias, NIPS 2016, Proposition 1). Merging two blocks replaces the right side by the left: the bound tightens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit

from manyclass.bounds.arrays import Array, Bound, Classes, checked, class_array, log_odds, scores_gradient, split

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
    F, labels, _ = checked(f, k)
    own, others = split(F, labels)
    odds = log_odds(own, others)
    # p(m) = P(not k) P(m | not k), with both factors in (0, 1): nothing overflows.
    slopes = expit(odds)[..., None] * np.exp(others - own - odds[..., None])
    return Bound(log_expit(-odds), scores_gradient(slopes, labels))


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
    F, labels, _ = checked(f, k)
    own, others = split(F, labels)
    margins = own - others
    return Bound(log_expit(margins).sum(axis=-1), scores_gradient(expit(-margins), labels))


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
    F, labels, _ = checked(f, k)
    C = np.atleast_1d(_class_list("block", block, F.shape[-1]))
    try:
        C = np.broadcast_to(C, (*labels.shape, C.shape[-1]))
    except ValueError:
        raise ValueError(f"block has shape {C.shape}; without its last axis it must fit {labels.shape}") from None
    own, others = split(F, labels)
    inside = np.zeros(F.shape, dtype=bool)
    np.put_along_axis(inside, C, True, axis=-1)
    margins = own - np.where(inside, -np.inf, others)
    # -inf for the class k leaves the block with a member of weight 0, so that the sum below is never empty.
    joint, joint_slopes = _compare(own, np.where(inside, others, -np.inf), np.zeros(1, dtype=np.intp))
    return Bound(joint + log_expit(margins).sum(axis=-1), scores_gradient(expit(-margins) + joint_slopes, labels))


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
    F, labels, _ = checked(f, k)
    order, starts = _layout(blocks, labels, F.shape[-1])
    own, others = split(F, labels)
    value, sorted_slopes = _compare(own, others[..., order], starts)
    slopes = np.zeros(F.shape)  # 0 stays at a k that stands in no block
    slopes[..., order] = sorted_slopes
    return Bound(value, scores_gradient(slopes, labels))


def merge(blocks: Blocks, i: int, j: int) -> list[Classes]:
    """Join the j-th block to the i-th, which gives the next tighter bound of `block_bound`.

    Parameters
    ----------
    blocks : sequence of array_like of int
        Blocks of classes.
    i, j : int
        Two different positions in `blocks`.

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
    F, labels, _ = checked(f, k)
    level = [np.asarray(block) for block in (np.arange(F.shape[-1])[:, None] if blocks is None else blocks)]
    while True:
        yield level, block_bound(F, labels, level)
        if len(level) <= 1:
            return
        level = [np.concatenate(level[i : i + 2]) for i in range(0, len(level), 2)]


def _class_list(name: str, value: ArrayLike, n_classes: int) -> Classes:
    """Return `value` as class numbers. An empty list, which NumPy takes for floats, is a list of no classes."""
    array = np.asarray(value)
    return class_array(name, array.astype(np.intp) if array.size == 0 else array, n_classes)


def _layout(blocks: Blocks, k: Classes, n_classes: int) -> tuple[Classes, Classes]:
    """Return the classes in the order of the blocks, and where each block that is not empty starts."""
    lists = [_class_list(f"block {j}", block, n_classes).ravel() for j, block in enumerate(blocks)]
    order = np.concatenate([np.empty(0, dtype=np.intp), *lists])
    counts = np.bincount(order, minlength=n_classes)
    if (counts > 1).any():
        raise ValueError(f"class {counts.argmax()} stands {counts.max()} times in blocks; once is the rule")
    for m in np.flatnonzero(counts == 0)[:2]:  # of two missing classes one is not k
        if (k != m).any():
            raise ValueError(f"class {m} stands in no block; every class but k must stand in one")
    sizes = np.array([block.size for block in lists if block.size], dtype=np.intp)
    return order, np.cumsum(sizes) - sizes


def _compare(own: Array, members: Array, starts: Classes) -> tuple[Array, Array]:
    """Return the sum over blocks of log P(k | k or block), and its derivatives with respect to f_k - f_m.

    Members lie block after block, each block from its start; a member at -inf counts for nothing.
    """
    sizes = np.diff(starts, append=members.shape[-1])
    top = np.maximum.reduceat(members, starts, axis=-1)
    top[np.isneginf(top)] = 0  # a block of k alone: its weights below are e^(-inf - 0) = 0, not e^(-inf + inf)
    weights = np.exp(members - np.repeat(top, sizes, axis=-1))
    total = np.add.reduceat(weights, starts, axis=-1)
    with np.errstate(divide="ignore"):
        odds = top - own + np.log(total)
    # P(m | k or block) = P(block | k or block) e^{f_m} / sum over the block; total >= 1 unless it is 0.
    share = expit(odds) / np.maximum(total, 1)
    return log_expit(-odds).sum(axis=-1), weights * np.repeat(share, sizes, axis=-1)
