r"""Training by rows and classes: steps of a shard on the weights of some classes, the log-normaliser staying with rows.

In the doubly separable form of the log-loss (Raman et al., KDD 2019),

.. math:: \sum_i \Big[ v_i - z_{i y_i} + e^{-v_i} \sum_k e^{z_{ik}} - 1 \Big],

which is least, and the log-loss, at :math:`v_i = \log \sum_k e^{z_{ik}}`, the term of a row and a class needs that
row, its v, and the weights of that class. So a worker with some rows and a block of classes steps on the terms of
both, while others do so with other blocks; then the blocks move on, and when each worker has had each block, a round
is over. A pass is `n_merges` rounds, each with a part of each worker's rows. Of v a row keeps the part of each block,
:math:`v_i = \log \sum_b e^{l_{ib}}`.

Exact steps (`solver="exact"`) see all classes of a block: the part is the log-sum of its scores when the row last met
it. v is then never below a log-sum of current scores, and no probability above 1.

Sampled steps (`solver="implicit"`) are those of the core's loop. A visit of row i to block b draws some of its classes,
S with weights :math:`\alpha`, and takes the proximal step in v and W of

.. math:: v - [y_i \in b] z_{i y_i} + e^{-v} \Big( \sum_{c \ne b} e^{l_{ic}}
          + [y_i \in b] e^{z_{i y_i}} + \sum_{k \in S} \alpha_k e^{z_{ik}} \Big),

which is that of `solvers.Implicit(formulation="raman")` where b has all classes. What moves v is this block's estimate
alone, so the part of the block is what is left of the new v: :math:`e^{l_{ib}} = e^v - \sum_{c \ne b} e^{l_{ic}}`.
For small steps the part falls by :math:`\eta_u (1 - A / e^{l_{ib}})`, A being the sampled sum of the block: the rule
for u of the local solver, in each block by itself. An estimate as it is drawn would be unbiased for A, but not for
1 / A, and as noisy as a draw; the proximal step averages it. A visit draws the same share of `n_negatives` in each
block. The gradient that is drawn is unbiased given v; so is the ridge, since a class shrinks by as much more as it is
seldom met.

Rows whose parts of v were lost with a worker only look at the blocks in the pass that is made again, which leaves them
with new ones. Their loss is not known in that pass.

A block lies in a buffer on its worker, which the next block overwrites piece by piece: each worker gives a copy of a
piece of its block, takes the same piece of the next one into its place, and goes on to the next piece. So it never
holds more of W than one block and two pieces.

Nothing here knows of Dask.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from manyclass import _core
from manyclass.checks import core_data, row_norms_sq
from manyclass.dask.passes import PassReport, Shard, Stretch, Whole
from manyclass.training.plan import PointsPlan, core_plan
from manyclass.training.points import batch_size_of, class_order, core_state
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids, Matrix, aligned_zeros, padded
from manyclass.weights.weights import Weights

# A piece takes up to PIECE_BYTES bytes or, where a block would have more than MOST_PIECES pieces, a share of it: each
# is two tasks of the scheduler. With many workers it has the more to do for all, hence fewer pieces, FEWEST_OF_LARGE.
PIECE_BYTES = 64 << 20
MOST_PIECES, FEWEST_OF_LARGE, PIECES_OF_ALL = 16, 4, 64
# Rows that make an exact step together: enough for products of matrices to be quick, few enough for a class to be met
# once or twice in them where there are hundreds.
ROWS_A_STEP = 64
# Classes of a block from which rows whose parts of v are lost estimate new ones. Half of them are the most frequent
# ones, which have most of the mass, the others are drawn. These are several times what a visit draws, and one product
# serves many rows.
LOOKED_AT = 256


# Where blocks lie on workers


@dataclass(frozen=True)
class Block:
    """Weights of neighbouring classes.

    Attributes
    ----------
    first : int
        Number of the first class.
    weights : Weights
        Of the classes, in the order of the labels; sampled steps have them in an order of their own meanwhile.
    scale : ndarray of shape (n_classes_of_block,), float32
        Factors of the rows of W, which steps with a ridge have instead of smaller weights. Scores are those without.
    """

    first: int
    weights: Weights
    scale: Floats

    def __len__(self) -> int:
        return len(self.scale)

    def __sizeof__(self) -> int:
        """Return how many bytes it takes to move it, which the scheduler asks for."""
        return self.weights.nbytes + self.weights.intercept.nbytes + self.scale.nbytes


def cuts_of(whole: Whole) -> list[int]:
    """Return the first class of each block, of which there is one for each shard, and the number of classes."""
    return [whole.n_classes * number // whole.n_shards for number in range(whole.n_shards + 1)]


def size_of(whole: Whole, number: int) -> int:
    """Return how many numbers a block has: weights, intercepts and factors."""
    first, last = cuts_of(whole)[number : number + 2]
    width = padded(last - first) if whole.sparse else last - first
    return whole.n_features * width + 2 * (last - first)


def room_of(whole: Whole) -> int:
    """Return how many numbers the largest block has."""
    return max(size_of(whole, number) for number in range(whole.n_shards))


def pieces_of(n_bytes: float, n_shards: int) -> int:
    """Return in how many pieces a block of `n_bytes` is moved."""
    most = min(MOST_PIECES, max(FEWEST_OF_LARGE, PIECES_OF_ALL // n_shards))
    return int(min(most, max(1, -(-n_bytes // PIECE_BYTES))))


def n_pieces(whole: Whole) -> int:
    """Return how many pieces each block is moved in; all are cut in the same places, so that pieces change places."""
    return pieces_of(4 * room_of(whole), whole.n_shards)


def bounds_of(whole: Whole, piece: int) -> slice:
    """Return where a piece of a block lies in the buffer."""
    room, n = room_of(whole), n_pieces(whole)
    return slice(room * piece // n, room * (piece + 1) // n)


# Buffers


def buffer_at_zero(whole: Whole, number: int) -> Floats:
    """Return a buffer that any block fits into, and that holds one of W = 0."""
    buffer: Floats = aligned_zeros(1, room_of(whole))[0]
    block_in(whole, buffer, number).scale[:] = 1
    return buffer


def block_in(whole: Whole, buffer: Floats, number: int) -> Block:
    """Return views of the block that lies in a buffer, so that steps on it move what lies there."""
    first, last = cuts_of(whole)[number : number + 2]
    n, size = last - first, size_of(whole, number)
    matrix = buffer[: size - 2 * n].reshape((whole.n_features, -1) if whole.sparse else (n, whole.n_features))
    weights = Weights.linear(matrix, buffer[size - 2 * n : size - n], by_feature=whole.sparse)
    return Block(first, weights, buffer[size - n : size])


def give_piece(whole: Whole, buffer: Floats, piece: int, *_after: Any) -> Floats:
    """Copy a piece of the block that lies in a buffer, after other tasks."""
    values: Floats = buffer[bounds_of(whole, piece)].copy()
    return values


def take_piece(whole: Whole, buffer: Floats, piece: int, values: Floats, *_after: Any) -> None:
    """Put a piece of a block into a buffer, after other tasks."""
    buffer[bounds_of(whole, piece)] = values


# Copies on disks


class StoredPiece:
    """A piece of a block on the disk of the worker that makes this, in a file that is removed with it."""

    def __init__(self, values: Floats, folder: str | None = None) -> None:
        self.file = tempfile.TemporaryFile(dir=folder, prefix="manyclass-block-")  # noqa: SIM115 - it stays open
        weakref.finalize(self, self.file.close)
        self.file.write(values.tobytes())

    def read(self, *_after: Any) -> Floats:
        """Read the piece, after other tasks."""
        self.file.seek(0)
        return np.frombuffer(self.file.read(), dtype=np.float32)


# Steps


class Turned(NamedTuple):
    """What steps of a shard on a block have made beside the block, which they move in place.

    `log_sums` are those of the shard's rows, (n_rows, n_blocks)."""

    log_sums: Doubles
    report: PassReport


def turn(
    plan: PointsPlan,
    whole: Whole,
    shard: Shard,
    buffer: Floats,
    number: int,
    log_sums: Doubles | None,
    stretch: Stretch,
    *_after: Any,
) -> Turned:
    """Step through the rows of a shard on block `number`, in place; nothing else that is given is changed.

    Parameters
    ----------
    plan : PointsPlan
    whole : Whole
    shard : Shard
    buffer : ndarray
        Where the block lies.
    number : int
        The block's.
    log_sums : ndarray of shape (n_rows, n_blocks), float64, or None
        None: those of W = 0. NaN: they were lost; then no weight is moved, and the rows get new ones.
    stretch : Stretch
        Which of the rows.
    *_after : any
        Results of other tasks, which only have to come before this one.
    """
    block = block_in(whole, buffer, number)
    sums = log_sums_at_zero(whole, shard) if log_sums is None else log_sums.copy()
    if np.isnan(sums).any():
        sums[:, number] = _looked_at(plan, whole, shard, block, number, stretch)
        work = (0, 0, 0.0, False)
    else:
        steps = _exact_steps if plan.solver == "exact" else _sampled_steps
        work = steps(plan, whole, shard, block, number, sums, stretch)
    moved = 0 if whole.n_shards == 1 else 4 * size_of(whole, number)
    return Turned(sums, PassReport(*work, bytes_in=moved, bytes_out=moved))


# Sampled steps


def plan_on_block(plan: PointsPlan, whole: Whole, number: int) -> PointsPlan:
    """Return the plan of sampled steps on a block. Its number enters the seed; block 0 has that of one machine."""
    mixed = np.random.SeedSequence([plan.seed & (2**63 - 1), number]).generate_state(1, np.uint64)
    seed = int(mixed[0]) if number else plan.seed
    drawn = -(-plan.n_negatives // whole.n_shards)
    return replace(plan, formulation="raman", averaging="none", seed=seed, n_negatives=drawn)


def order_in_block(plan: PointsPlan, whole: Whole, number: int) -> Ids:
    """Return the order in which sampled steps store the classes of a block."""
    first, last = cuts_of(whole)[number : number + 2]
    return class_order(plan_on_block(plan, whole, number), whole.counts[first:last], last - first)


def place_in_block(plan: PointsPlan, whole: Whole, number: int) -> Ids | None:
    """Return the place of each class of a block; None: classes are in the order of the labels, as for exact steps."""
    if plan.solver == "exact":
        return None
    order = order_in_block(plan, whole, number)
    position = np.empty_like(order)
    position[order] = np.arange(len(order), dtype=order.dtype)
    return position


def _sampled_steps(
    plan: PointsPlan, whole: Whole, shard: Shard, block: Block, number: int, sums: Doubles, stretch: Stretch
) -> tuple[int, int, float, bool]:
    """Visit each row of the stretch in the core's loop: see the module's docstring."""
    block_plan, order = plan_on_block(plan, whole, number), order_in_block(plan, whole, number)
    labels = _labels_in(block, shard.labels, place_in_block(plan, whole, number))
    counts = whole.counts[block.first : block.first + len(block)][order]
    v, elsewhere = _core.block_normalizers(sums, number)
    of_rows = {"u": v, "sample_weight": NO_DOUBLES if shard.weights is None else shard.weights}
    of_classes = {"counts": counts, "scale": block.scale if block_plan.alpha > 0 else NO_FLOATS}
    others = elsewhere if whole.n_shards > 1 else NO_DOUBLES
    beside: dict[str, Any] = {"others": others, "n_elsewhere": float(whole.n_rows - counts.sum())}
    state = core_state(block_plan, block.weights, labels, row_norms_sq(shard.x), **of_rows, **of_classes, **beside)
    batch = batch_size_of(block_plan, shard.labels, len(block))
    steps = core_plan(block_plan, len(block), batch=batch, first_point=shard.first)
    trainer = _core.Trainer.points(steps, core_data(shard.x), shard.x.shape[1], state)
    eta, eta_u = plan.schedule.at(stretch.n_pass)
    first, last = stretch.visits(len(shard), batch)
    before = v.copy()
    progress = trainer.run(epoch=stretch.n_pass, eta=eta, eta_u=eta_u, first=first, last=last, loss=0.0)
    _core.take_normalizers(before, v, elsewhere, number, sums)
    return last - first, progress.class_updates, progress.loss, progress.diverged_at >= 0


# Exact steps


def _exact_steps(
    plan: PointsPlan, whole: Whole, shard: Shard, block: Block, number: int, sums: Doubles, stretch: Stretch
) -> tuple[int, int, float, bool]:
    """Make steps in the core, each for several rows together: see exact/block_steps.hpp.

    The rows of each step are drawn anew in each pass, and alike for all blocks.
    """
    n = len(shard)
    key = np.random.SeedSequence([plan.seed & (2**63 - 1), stretch.n_pass, shard.number])
    order = np.random.default_rng(key).permutation(n) if plan.shuffle else np.arange(n)
    order = order[slice(*stretch.visits(n, ROWS_A_STEP))]
    labels, eta = shard.labels - np.int32(block.first), plan.schedule.at(stretch.n_pass)[0]
    rows = {"labels": labels, "sample_weight": shard.weights, "order": order.astype(np.int32), "log_sums": sums}
    steps = {"together": ROWS_A_STEP, "eta": eta, "alpha": plan.alpha, "fit_intercept": plan.fit_intercept}
    loss, finite = _core.exact_block_steps(**_in_core(shard, block) | rows | steps, number=number)
    return len(order), len(order) * len(block), loss, not finite


def _labels_in(block: Block, labels: Ids, place: Ids | None) -> Ids:
    """Return the places of labels in a block, whose classes may have their own order; -1: it has not the label."""
    places = np.where((labels >= block.first) & (labels < block.first + len(block)), labels - block.first, -1)
    return np.where(places < 0, -1, places if place is None else place[places]).astype(np.int32)


def _in_core(shard: Shard, block: Block) -> dict[str, Any]:
    return {"x": core_data(shard.x), "matrix": block.weights.matrix, "intercept": block.weights.intercept}


def log_sums_at_zero(whole: Whole, shard: Shard) -> Doubles:
    """Return the log-sums of the scores of each block where W = 0."""
    return np.tile(np.log(np.maximum(np.diff(cuts_of(whole)), 1e-300)), (len(shard), 1))


def lost_log_sums(whole: Whole, shard: Shard) -> Doubles:
    """Return NaN for rows whose log-sums were lost."""
    return np.full((len(shard), whole.n_shards), np.nan)


def _looked_at(plan: PointsPlan, whole: Whole, shard: Shard, block: Block, number: int, stretch: Stretch) -> Doubles:
    """Estimate the log-sums of the scores of a block from some of its classes and each row's own label."""
    n, position = len(block), place_in_block(plan, whole, number)
    place = np.arange(n, dtype=np.int32) if position is None else position
    by_count = place[np.argsort(-whole.counts[block.first : block.first + n], kind="stable")]
    n_head = min(n, LOOKED_AT // 2)
    key = np.random.SeedSequence([plan.seed & (2**63 - 1), stretch.n_pass, stretch.number, number, shard.number])
    tail = np.random.default_rng(key).choice(by_count[n_head:], min(n, LOOKED_AT) - n_head, replace=False)
    classes = np.append(by_count[:n_head], tail)
    log_weights = np.repeat([0.0, np.log(max(1, n - n_head) / max(1, len(tail)))], [n_head, len(tail)])
    labels, drawn = _labels_in(block, shard.labels, place), {"classes": classes, "log_weights": log_weights}
    return _core.estimated_log_sums(**_in_core(shard, block) | drawn, labels=labels, scale=block.scale)


# All blocks


def finished_block(plan: PointsPlan, whole: Whole, buffer: Floats, number: int) -> Block:
    """Turn the block in a buffer into that of a model, in place: this is the last use of the buffer."""
    block, position = block_in(whole, buffer, number), place_in_block(plan, whole, number)
    if not np.all(block.scale == 1):
        block.weights.multiply_classes(block.scale)
        block.scale[:] = 1
    if position is not None:
        block.weights.reorder(position, 1)
    if whole.scaling is not None:
        whole.scaling.fold(block.weights)
    return block


def joined_blocks(blocks: Sequence[Block], *, sparse: bool) -> Weights:
    """Put blocks together to W."""
    n_features = blocks[0].weights.coef.shape[1]
    weights = Weights.zeros(sum(map(len, blocks)), n_features, by_feature=sparse)
    for block in blocks:
        classes = slice(block.first, block.first + len(block))
        weights.coef[classes] = block.weights.coef
        weights.intercept[classes] = block.weights.intercept
    return weights


# Questions to a block


class BlockScores(NamedTuple):
    """What the classes of a block give for rows.

    Attributes
    ----------
    log_sums : ndarray of shape (n_rows,), float64
    best : ndarray of shape (n_rows, k), int32
    scores : ndarray of shape (n_rows, k), float64
        Its classes of largest scores, numbered among all, and these, best first.
    label_scores : ndarray of shape (n_rows,), float64
        Scores of the rows' labels, -inf where the block has it not.
    """

    log_sums: Doubles
    best: Ids
    scores: Doubles
    label_scores: Doubles


def look(block: Block, x: Matrix, k: int, labels: Ids | None = None) -> BlockScores:
    """Return the log-sums, the k best classes and the scores of labels of some rows, among the classes of a block."""
    log_sums, label_scores = block.weights.log_normalizers(x, 1), np.full(x.shape[0], -np.inf)
    best, log_p = block.weights.top_k(x, min(k, len(block)), 1)
    if labels is not None:
        places = _labels_in(block, labels, None)
        rows = np.flatnonzero(places >= 0)
        label_scores[rows] = block.weights.label_scores(x[rows], places[rows])
    return BlockScores(log_sums, best + np.int32(block.first), log_p + log_sums[:, np.newaxis], label_scores)


def best_of(blocks: Sequence[BlockScores], k: int) -> tuple[Ids, Doubles, Doubles]:
    """Return the k best of all classes and their log-probabilities, best first, and the log-losses of labels."""
    log_sums, best, scores, label_scores = zip(*blocks, strict=True)
    ids, values = np.concatenate(best, axis=1), np.concatenate(scores, axis=1)
    return _core.best_over_blocks(ids, values, np.stack(log_sums), np.stack(label_scores), min(k, ids.shape[1]))
