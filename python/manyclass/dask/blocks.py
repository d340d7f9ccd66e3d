r"""Training by rows and classes: steps of a shard on the weights of some classes, the log-normaliser staying with rows.

In the doubly separable form of the log-loss (Raman et al., KDD 2019),

.. math:: \sum_i \Big[ v_i - z_{i y_i} + e^{-v_i} \sum_k e^{z_{ik}} - 1 \Big],

which is least, and the log-loss, at :math:`v_i = \log \sum_k e^{z_{ik}}`, the term of a row and a class needs that
row, its v, and the weights of that class. So a worker with some rows and a block of classes steps on the terms of
both, while others do so with other blocks; then the blocks move on. Of v a row keeps the part of each block, the
log-sum of its scores when it last met the block: v is then never below a log-sum of current scores, and no probability
above 1.

Nothing here knows of Dask: see `simulate_blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from manyclass.dask.rows import Report
from manyclass.dask.shards import Shard, Whole
from manyclass.model.weights import Doubles, Floats, Ids, LinearWeights, Matrix
from manyclass.training.plan import PointsPlan

# Rows that make a step together: enough for products of matrices to be quick, few enough for a class to be met once or
# twice in them where there are hundreds.
ROWS_A_STEP = 64
# Most of p (1 - p), which a row reaches on the way of its label's p to 1, wherever that began.
OWN_LABEL = 0.25


@dataclass(frozen=True)
class Block:
    """Weights of neighbouring classes.

    Attributes
    ----------
    first : int
        Number of the first class.
    matrix : ndarray of shape (n_features, n_classes_of_block), float32
    intercept : ndarray of shape (n_classes_of_block,), float32
    """

    first: int
    matrix: Floats
    intercept: Floats

    @property
    def nbytes(self) -> int:
        """What it takes to move it."""
        return self.matrix.nbytes + self.intercept.nbytes

    def scores(self, x: Matrix) -> Floats:
        """Scores of rows, (n_rows, n_classes_of_block)."""
        found: Floats = x @ self.matrix
        found += self.intercept
        return found


def cuts_of(whole: Whole) -> list[int]:
    """First classes of blocks, one for each shard, and the number of classes."""
    return [whole.n_classes * at // whole.n_shards for at in range(whole.n_shards + 1)]


def block_at_zero(whole: Whole, number: int) -> Block:
    """A block of W = 0."""
    first, last = cuts_of(whole)[number : number + 2]
    matrix = np.zeros((whole.n_features, last - first), dtype=np.float32)
    return Block(first, matrix, np.zeros(last - first, dtype=np.float32))


@dataclass(frozen=True)
class Turned:
    """What steps of a shard on a block have made: the block, log-sums of the shard's rows by block, and a report."""

    block: Block
    log_sums: Doubles
    report: Report


def turn(
    plan: PointsPlan, whole: Whole, shard: Shard, number: int, block: Block, log_sums: Doubles | None, n_pass: int
) -> Turned:
    """Step through the rows of a shard on block `number`; nothing that is given is changed.

    A step goes by the sum of the gradients of some rows, and for each class by learning_rate over 1 plus that times the
    sum of p (|x|^2 + 1) over them, and a quarter of |x|^2 + 1 for rows of the class. This bounds the curvature of the
    loss in the weights of the class, so that no step goes past the optimum of a parabola.

    Parameters
    ----------
    plan, whole, shard : what to do, what all shards know, and the rows
    number, block : int and Block
    log_sums : ndarray of shape (n_rows, n_blocks), float64; None: those of W = 0
    n_pass : int
    """
    matrix, intercept = block.matrix.copy(), block.intercept.copy()
    moved = Block(block.first, matrix, intercept)
    sums = log_sums_at_zero(whole, shard) if log_sums is None else log_sums.copy()
    eta, loss = plan.schedule.at(n_pass)[0], 0.0
    labels = shard.labels - block.first
    own = (labels >= 0) & (labels < len(intercept))
    for rows in _steps(plan, shard, n_pass):
        x, r = shard.x[rows], None if shard.weights is None else shard.weights[rows]
        z = moved.scores(x)
        sums[rows, number] = logsumexp(z.astype(np.float64), axis=1)
        v = logsumexp(sums[rows], axis=1)
        p = np.exp(z - v[:, np.newaxis]).astype(np.float32)
        at = np.flatnonzero(own[rows])
        of_label = z[at, labels[rows][at]]
        loss += float(np.sum((v[at] - of_label) * (1 if r is None else r[at])))
        lengths = _lengths(x) + plan.fit_intercept
        lengths = lengths if r is None else lengths * r
        bound = lengths @ p + np.bincount(labels[rows][at], lengths[at] * OWN_LABEL, minlength=len(intercept))
        p[at, labels[rows][at]] -= 1
        if r is not None:
            p *= r[:, np.newaxis].astype(np.float32)
        step = (eta / (1 + eta * bound)).astype(np.float32)
        _descend(moved, x, p, step, plan, len(rows))
    n = len(shard)
    report = Report(
        n_visits=n,
        class_updates=n * len(intercept),
        loss=loss,
        diverged=not bool(np.isfinite(intercept).all() and np.isfinite(loss)),
        averaged=False,
        bytes_in=0 if whole.n_shards == 1 else block.nbytes,
        bytes_out=0 if whole.n_shards == 1 else block.nbytes,
    )
    return Turned(moved, sums, report)


def log_sums_at_zero(whole: Whole, shard: Shard) -> Doubles:
    """Log-sums of the scores of each block where W = 0."""
    return np.tile(np.log(np.maximum(np.diff(cuts_of(whole)), 1e-300)), (len(shard), 1))


def block_log_sums(shard: Shard, block: Block) -> Doubles:
    """Log-sums of the scores of a block, for rows that lost theirs."""
    found = [logsumexp(block.scores(shard.x[rows]).astype(np.float64), axis=1) for rows in _pieces(len(shard))]
    return np.concatenate(found)


def side_by_side(columns: Sequence[Doubles]) -> Doubles:
    """Log-sums by block."""
    return np.column_stack(columns)


def _pieces(n: int) -> Iterator[slice]:
    for first in range(0, n, ROWS_A_STEP):
        yield slice(first, min(n, first + ROWS_A_STEP))


def _steps(plan: PointsPlan, shard: Shard, n_pass: int) -> Iterator[Any]:
    """Rows of each step of a pass: drawn anew in each, alike for all blocks."""
    n = len(shard)
    key = np.random.SeedSequence([plan.seed & (2**63 - 1), n_pass, shard.number])
    order = np.random.default_rng(key).permutation(n) if plan.shuffle else np.arange(n)
    for piece in _pieces(n):
        yield np.sort(order[piece])


def _lengths(x: Matrix) -> Doubles:
    if isinstance(x, sp.csr_array):
        return np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel()
    lengths: Doubles = np.einsum("ij,ij->i", x, x, dtype=np.float64)
    return lengths


def _descend(block: Block, x: Matrix, g: Floats, step: Floats, plan: PointsPlan, n: int) -> None:
    """Move the weights of the features that the rows have, and shrink all by the ridge of n rows."""
    if plan.alpha > 0:
        block.matrix[:] *= 1 / (1 + np.float32(n * plan.alpha) * step)
    if isinstance(x, sp.csr_array):
        features, places = np.unique(x.indices, return_inverse=True)
        some = sp.csr_array((x.data, places, x.indptr), shape=(x.shape[0], len(features)))
        block.matrix[features] -= (some.T @ g) * step
    else:
        block.matrix[:] -= (x.T @ g) * step
    if plan.fit_intercept:
        block.intercept[:] -= g.sum(axis=0) * step


def joined_blocks(blocks: Sequence[Block], *, sparse: bool) -> LinearWeights:
    """W of its blocks."""
    n_classes = sum(len(block.intercept) for block in blocks)
    weights = LinearWeights.zeros(n_classes, len(blocks[0].matrix), sparse=sparse)
    for block in blocks:
        own = slice(block.first, block.first + len(block.intercept))
        weights.coef[own] = block.matrix.T
        weights.intercept[own] = block.intercept
    return weights


def simulate_blocks(plan: PointsPlan, whole: Whole, shards: Sequence[Shard]) -> tuple[LinearWeights, list[float]]:
    """Train as a cluster with a worker for each shard does, in one process, and return W and the loss of each pass."""
    n = len(shards)
    blocks = [block_at_zero(whole, at) for at in range(n)]
    sums: list[Doubles | None] = [None] * n
    curve = []
    for n_pass in range(plan.max_iter):
        loss = 0.0
        for inner in range(n):
            for at, shard in enumerate(shards):
                number = (at + inner) % n
                made = turn(plan, whole, shard, number, blocks[number], sums[at], n_pass)
                blocks[number], sums[at], loss = made.block, made.log_sums, loss + made.report.loss
        curve.append(loss / whole.n_rows)
    return joined_blocks(blocks, sparse=whole.sparse), curve


# Answers of a block


@dataclass(frozen=True)
class Seen:
    """What a block says of rows.

    Attributes
    ----------
    log_sums : ndarray of shape (n_rows,), float64
    best, scores : ndarrays of shape (n_rows, k)
        Its classes of largest scores, numbered among all, and these, best first.
    of_labels : ndarray of shape (n_rows,), float64
        Scores of the rows' labels, -inf where the block has it not.
    """

    log_sums: Doubles
    best: Ids
    scores: Floats
    of_labels: Doubles


def look(block: Block, x: Matrix, k: int, labels: Ids | None = None) -> Seen:
    """What a block says of some rows."""
    k = min(k, len(block.intercept))
    made = []
    for rows in _pieces(x.shape[0]):
        z = block.scores(x[rows])
        best = np.argsort(-z, axis=1, kind="stable")[:, :k]
        of_labels = np.full(len(z), -np.inf)
        if labels is not None:
            at = labels[rows] - block.first
            own = np.flatnonzero((at >= 0) & (at < len(block.intercept)))
            of_labels[own] = z[own, at[own]]
        made.append((logsumexp(z.astype(np.float64), axis=1), best, np.take_along_axis(z, best, axis=1), of_labels))
    log_sums, best, scores, of_labels = (np.concatenate(one) for one in zip(*made, strict=True))
    return Seen(log_sums, (best + block.first).astype(np.int32), scores, of_labels)


def best_of(some: Sequence[Seen], k: int) -> tuple[Ids, Doubles, Doubles]:
    """The k best of all classes and their log-probabilities, best first, and the log-losses of labels."""
    normalizers = logsumexp([one.log_sums for one in some], axis=0)
    best = np.concatenate([one.best for one in some], axis=1)
    scores = np.concatenate([one.scores for one in some], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    log_p = np.take_along_axis(scores, order, axis=1) - normalizers[:, np.newaxis]
    losses = normalizers - np.max([one.of_labels for one in some], axis=0)
    return np.take_along_axis(best, order, axis=1), log_p, losses
