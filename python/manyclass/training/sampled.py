"""Training by sampled classes: from an estimator's parameters to the core's plan, and back to weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import csr_parts, seed_from
from manyclass.model.weights import LinearWeights, Matrix, aligned_zeros
from manyclass.training.local_family import LocalFamily
from manyclass.training.passes import Callback, Schedule, TrainingState, run_passes
from manyclass.training.search_head import HeadSearch
from manyclass.training.validation import Validation

# Points that see the same weights in deterministic mode: so few, against the number of classes, that two of them
# rarely move the same row of W, and at most as many as keep two cores busy between barriers.
CLASSES_PER_BATCHED_POINT = 64
MOST_BATCHED_POINTS = 64
# With all classes every pair of points shares rows of W, and a step takes long enough for a barrier after a few.
MOST_BATCHED_POINTS_ALL_CLASSES = 4

MINIBATCH_IMPLICIT = "minibatch_implicit"  # the one solver whose step is that of a batch
MINIBATCH_POINTS = 10

# Iterates are averaged after so many passes that it takes at most a tenth of the time of the steps. What a visit, a
# weight moved in it and a weight summed cost was measured on two threads (bench_step.py); only the ratios matter.
MOST_FOR_AVERAGING = 0.1
SECONDS_PER_VISIT = 1e-6
SECONDS_PER_MOVED = 4e-10
SECONDS_PER_SUMMED = 4e-10

EMPTY = np.zeros(0, dtype=np.float32)


@dataclass
class Memory:
    """What training keeps beside the weights; empty arrays for what is switched off.

    Attributes
    ----------
    scale, norm_sq : ndarray of shape (n_classes,)
        Factor of every row (ridge, projection) and its squared norm (projection).
    total, intercept_total : ndarrays
        Sums of the iterates that are averaged, and
    n_averaged : int
        how many there are; they are those after the passes `averaged`.
    squares, intercept_squares : ndarrays
        Running squares of the gradients (schedule="adaptive").
    """

    scale: NDArray[np.float32]
    norm_sq: NDArray[np.float64]
    total: NDArray[np.float32]
    intercept_total: NDArray[np.float32]
    averaged: range
    squares: NDArray[np.float32]
    intercept_squares: NDArray[np.float32]
    n_averaged: int = 0

    @classmethod
    def of(cls, estimator: Any, weights: LinearWeights, *, pass_seconds: float) -> Memory:
        """Make what the parameters ask for."""
        n_classes = weights.n_classes
        projects = estimator.max_norm is not None
        averages = estimator.averaging != "none"
        adaptive = estimator.schedule == "adaptive"
        start = estimator.max_iter // 2 if estimator.averaging == "suffix" else 0
        between = max(1, math.ceil(SECONDS_PER_SUMMED * weights.matrix.size / (MOST_FOR_AVERAGING * pass_seconds)))
        n_intercepts = n_classes if estimator.fit_intercept else 0

        def like_weights(wanted: bool) -> NDArray[np.float32]:
            return aligned_zeros(*weights.matrix.shape) if wanted else EMPTY.reshape(0, 0)

        return cls(
            scale=np.ones(n_classes, dtype=np.float32) if projects or estimator.alpha > 0 else EMPTY,
            norm_sq=np.zeros(n_classes if projects else 0),
            total=like_weights(averages),
            intercept_total=np.zeros(n_classes if averages else 0, dtype=np.float32),
            averaged=range(estimator.max_iter, start if averages else estimator.max_iter, -between),
            squares=like_weights(adaptive),
            intercept_squares=np.zeros(n_intercepts if adaptive else 0, dtype=np.float32),
        )

    def after_pass(self, weights: LinearWeights, n_iter: int, n_threads: int) -> None:
        """Add the iterate to the average, if it is to be in it."""
        if n_iter in self.averaged:
            _core.accumulate(self.total, weights.matrix, self.scale, weights.sparse, n_threads)
            self.intercept_total += weights.intercept
            self.n_averaged += 1

    def model(self, weights: LinearWeights) -> tuple[LinearWeights, NDArray[np.float32]]:
        """Return what `finish` would leave, as a matrix and the factors of its rows, without copying W."""
        if not self.n_averaged:
            return weights, self.scale
        share = np.float32(1 / self.n_averaged)
        mean = LinearWeights(self.total, self.intercept_total * share, weights.sparse)
        return mean, np.full(weights.n_classes, share)

    def finish(self, weights: LinearWeights) -> None:
        """Leave in `weights` the model itself: factors multiplied in, or the average."""
        if self.n_averaged:
            np.multiply(self.total, np.float32(1 / self.n_averaged), out=weights.matrix)
            np.multiply(self.intercept_total, np.float32(1 / self.n_averaged), out=weights.intercept)
        elif len(self.scale):
            weights.multiply_rows(self.scale)


def row_norms_sq(x: Matrix) -> NDArray[np.float32]:
    """Return the squared Euclidean norm of each row."""
    with np.errstate(over="ignore"):  # an infinite norm stops training with a warning that says what to do
        if isinstance(x, sp.csr_array):
            squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), shape=x.shape)
            return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()
        norms: NDArray[np.float32] = np.einsum("ij,ij->i", x, x, dtype=np.float32)
        return norms


def largest_u(max_norm: float | None, largest_x_sq: float, n_classes: int) -> float:
    """B_u = log(1 + (K - 1) e^(2 B_x B_w)) of Fagan & Iyengar 2018, Lemma 2; infinite without a norm."""
    if max_norm is None:
        return float(np.inf)
    return float(np.logaddexp(0.0, np.log(n_classes - 1) + 2 * np.sqrt(largest_x_sq) * max_norm))


def batch_size_of(estimator: Any, labels: NDArray[np.int32], n_classes: int) -> int:
    """Points that see the same weights."""
    if estimator.batch_size is not None:
        return int(min(estimator.batch_size, len(labels)))
    if estimator.solver == MINIBATCH_IMPLICIT:
        return min(MINIBATCH_POINTS, len(labels))
    if estimator.max_norm is not None or n_classes < 16 * CLASSES_PER_BATCHED_POINT:
        return 1
    every_class = estimator.solver == "exact" or estimator.selection == "all"
    most = MOST_BATCHED_POINTS_ALL_CLASSES if every_class else MOST_BATCHED_POINTS
    by_label = len(labels) // int(np.bincount(labels).max())  # the most frequent label once a batch
    return max(1, min(most, n_classes // CLASSES_PER_BATCHED_POINT, by_label))


def _first_u(estimator: Any, n_classes: int) -> float:
    return float(np.log(n_classes)) if estimator.u_init == "log_n_classes" else 0.0


def fit_sampled(
    estimator: Any,
    x: Matrix,
    labels: NDArray[np.int32],
    n_classes: int,
    *,
    schedule: Schedule,
    x_sq: NDArray[np.float32],
    n_threads: int,
    candidates: NDArray[np.int32] | None,
    callback: Callback | None,
    max_seconds: float,
    local: LocalFamily | None = None,
    validation: Validation | None = None,
) -> tuple[LinearWeights, list[float]]:
    """Train weights for labels in [0, n_classes) and return them with the running loss of each pass.

    With a `validation` they are those of the pass that did best on it. Augment and reduce where the estimator has a
    `noise`, with the local family `local` unless that is "gumbel".
    """
    sparse = isinstance(x, sp.csr_array)
    n_samples, n_features = x.shape
    seed = seed_from(estimator.random_state)

    # Training sees the classes in a random order, so that a block of neighbours is a uniform draw, or in that of
    # their frequency, so that a line of neighbours has much the same.
    order = _core.class_order(n_classes, seed)
    if estimator.selection == "frequency_block" and estimator.solver != MINIBATCH_IMPLICIT:
        order = order[np.argsort(-np.bincount(labels, minlength=n_classes)[order], kind="stable")]
    position = np.empty_like(order)
    position[order] = np.arange(n_classes, dtype=np.int32)

    weights = LinearWeights.zeros(n_classes, n_features, sparse=sparse)
    n_stored = x.nnz if isinstance(x, sp.csr_array) else x.size
    drawn = n_classes if estimator.selection == "all" else min(estimator.n_negatives, n_classes)
    pass_seconds = n_samples * SECONDS_PER_VISIT + n_stored * (drawn + 1) * SECONDS_PER_MOVED
    memory = Memory.of(estimator, weights, pass_seconds=pass_seconds)
    search: HeadSearch | None = None
    if estimator.selection != "head_tail":
        heads = np.zeros((0, 0), dtype=np.int32)
    elif candidates is None:  # none in the first pass, which warms up by its tails alone
        heads = np.full((n_samples, min(estimator.n_head, n_classes - 1)), -1, dtype=np.int32)
        search = HeadSearch(x, position[labels], heads, bool(estimator.fit_intercept), seed, n_threads)
    else:
        heads = np.ascontiguousarray(position[candidates])
    state = _core.State(
        labels=position[labels],
        x_sq=x_sq,
        u=np.full(n_samples, _first_u(estimator, n_classes) if local is None else local.mu),
        weights=weights.matrix,
        intercept=weights.intercept if estimator.fit_intercept else EMPTY,
        scale=memory.scale,
        norm_sq=memory.norm_sq,
        squares=memory.squares,
        intercept_squares=memory.intercept_squares,
        heads=heads,
        n_classes=n_classes,
        local_scale=np.zeros(0) if local is None else np.full(n_samples, local.s),
    )
    batch = batch_size_of(estimator, labels, n_classes)
    plan = _core.Plan(
        solver=estimator.solver,
        formulation=estimator.formulation,
        selection=estimator.selection,
        root=estimator.root,
        n_negatives=min(estimator.n_negatives, n_classes),
        delta=estimator.delta,
        u_gain=estimator.u_gain,
        power=estimator.frequency_power,
        seed=seed,
        n_threads=n_threads,
        batch=batch,
        mean_of_batch=estimator.batch_size is not None,
        share_classes=bool(estimator.share_classes),
        hogwild=estimator.parallel == "hogwild" and n_threads > 1,
        shuffle=bool(estimator.shuffle),
        ridge=estimator.alpha,
        u_max=largest_u(estimator.max_norm, float(x_sq.max(initial=0)), n_classes),
        max_norm=np.inf if estimator.max_norm is None else estimator.max_norm,
        isa="auto",
    )
    if hasattr(estimator, "noise"):
        plan.augment_reduce(
            noise=estimator.noise,
            local_step=estimator.local_step,
            local_floor=1.0 if estimator.selection == "all" else min(1.0, estimator.n_negatives / (n_classes - 1)),
            family="gumbel" if local is None else local.name,
            nodes=EMPTY.astype(np.float64) if local is None else local.nodes,
            weights=EMPTY.astype(np.float64) if local is None else local.weights,
            entropy=0.0 if local is None else local.entropy,
            largest_scale=1.0 if local is None else local.largest_scale,
        )
    if isinstance(x, sp.csr_array):
        trainer = _core.Trainer.sparse(plan, *csr_parts(x), n_features, state)
    else:
        trainer = _core.Trainer.dense(plan, x, state)

    def after_pass(n_iter: int) -> bool:
        memory.after_pass(weights, n_iter, n_threads)
        if validation is not None and validation.after_pass(*memory.model(weights), position):
            return True
        if search is not None and n_iter % estimator.refresh == 0 and n_iter < estimator.max_iter:
            search.refresh(weights, memory.scale)
        return False

    noise = getattr(estimator, "noise", "gumbel")
    progress = TrainingState(0, 0.0, np.nan, 0, weights, memory.scale, position, n_threads, noise)
    curve = run_passes(
        trainer,
        schedule,
        n_samples=n_samples,
        n_classes=n_classes,
        batch=batch,
        max_iter=estimator.max_iter,
        verbose=estimator.verbose,
        state=progress,
        after_pass=after_pass,
        callback=callback,
        max_seconds=max_seconds,
    )
    if validation is None or not validation.restore(weights):
        memory.finish(weights)
    weights.reorder(position, n_threads)
    return weights, curve
