"""Training that goes on by minibatches and on pairs: several labels, embeddings, searches, margins.

What `manyclass.estimators.continued` says holds here, and beside it:

- Adagrad's sums go on; those of a new class, or a new pair of a feature and a class, begin at 0.
- A file of a fit holds the sums of rows and embeddings, which are few, but not those of pairs, which would make it half
  as long again: they begin at 0 in the first call after it is read. A file of a model that has gone on holds all.
- A pair of the new rows gets a weight if `min_count` of these rows have it; weights that were pruned come back so.
- A search makes its index from the weights that are there, anew in each call; only a first call warms up.
- The parts of a hybrid go on apart, by the losses and on the scales that each was trained with: in the sum, a loss of
  one part alone would undo its scale. The scales of the sum stay those of the fit, found on rows held out. In a stream
  without they are found anew on the rows of each call before it is trained on (bench/notes/partial_fit.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.estimators.base import Points
from manyclass.estimators.continued import (
    Before,
    GoneOn,
    Steps,
    go_on_softmax,
    more_of_softmax,
    passes_of_call,
    set_new_intercepts,
    with_resolved,
)
from manyclass.estimators.fitting import asks_for_batches, with_model_of_several
from manyclass.estimators.growing import Starts, refuse_starts, set_new_rows
from manyclass.estimators.plans import Chosen
from manyclass.estimators.postings import features_of_classes, settle_hybrid, settle_sparse
from manyclass.estimators.settle import Settled, settle_batches
from manyclass.estimators.weighting import normalized, some_of
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, SparseWeights, as_csr
from manyclass.model.weights import Doubles
from manyclass.models import MODELS
from manyclass.training.batches import fit_batches, start_mapped
from manyclass.training.blend import MOST_HELD_OUT, MOST_HELD_OUT_FOR_ONE, best_factor, rows_held_out
from manyclass.training.hybrid import begin_hybrid, go_on_hybrid, join
from manyclass.training.plan import BatchesPlan, HybridPlan, PostingsPlan
from manyclass.training.postings import fit_postings, start_postings, support_of
from manyclass.training.seen import Seen
from manyclass.training.squares import HybridSquares, MappedSquares, PostingSquares

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts
# Rows that tell the scales of a hybrid: of those that the first call holds out, and of a later call, before it is
# trained on. A first call of 60 rows of bibtex, which holds out 3, gave scales of 0 and a model that never learned.
FEWEST_HELD_OUT, FEWEST_TO_JOIN = 20, 100
LEAST_SCALE = 1e-3  # of a stream: what has no use now may have one later


def go_on(owner: Any, points: Points, before: Before, steps: Steps) -> GoneOn:
    """Make the passes of a call of a SoftmaxClassifier, whatever its model."""
    own = owner if before.weights is None else with_resolved(owner)
    chosen = own.check_parameters()
    kind = _kind(owner, with_model_of_several(owner, chosen, points), points, before)
    if kind == "linear":
        return go_on_softmax(owner, points, before, steps)
    if kind != "batches":
        refuse_starts(steps.new_classes, kind)
    settled = _settle(own, with_model_of_several(own, chosen, points), points, before, kind)
    plan = settled.plan
    if isinstance(plan, HybridPlan):
        found = _go_on_hybrid(plan, points, before, steps)
    elif isinstance(plan, PostingsPlan):
        found = _go_on_postings(plan, points, before, steps)
    else:
        assert isinstance(plan, BatchesPlan)
        train = _go_on_margins if plan.loss == "margin" else go_on_batches
        found = train(plan, points, before, steps)
    return replace(found, more=found.more | more_of_softmax(owner, before, settled, len(found.curve)))


def _kind(owner: Any, chosen: Chosen, points: Points, before: Before) -> str:
    """Which training goes on, or of a first call, which one parameters and labels ask for."""
    named = "" if chosen.model is None else chosen.model.name
    asked = (
        named if named in ("sparse", "hybrid") else "batches" if asks_for_batches(chosen, points.several) else "linear"
    )
    if before.weights is None:
        return asked
    kinds = {HybridWeights: "hybrid", SparseWeights: "sparse", MappedWeights: "batches"}
    there = kinds.get(type(before.weights), "linear")
    if asked != there and owner.model != "auto":
        raise ValueError(
            f"model is {owner.model!r}, solver {owner.solver!r} and sampler {owner.sampler!r}; partial_fit goes on with"
            " the model that is there, which was trained otherwise: leave them as they were"
        )
    return there


def _settle(own: Any, chosen: Chosen, points: Points, before: Before, kind: str) -> Settled:
    """The plan, nothing being tried."""
    if kind == "batches":
        embeds = before.weights is not None and bool(before.weights.embeddings.size)
        return settle_batches(own, chosen, points.x, len(points.classes), embeds=embeds)
    if chosen.model is None:  # an older file does not say what it was
        chosen = replace(chosen, model=MODELS[kind]())
    if kind == "sparse":
        return settle_sparse(own, chosen, points, timed=True)
    return settle_hybrid(own, chosen, points, timed=True, n_labels=before.history.n_labels or None)


def _seen(weights: Any, points: Points, before: Before) -> Seen[Any]:
    return Seen(weights, before.counts_with(points), before.n_visits, before.history.n_fit > 0)


def _with_passes(plan: Any, points: Points, before: Before, steps: Steps) -> Any:
    return replace(plan, **passes_of_call(plan, before, steps, len(points.labels)))


# By minibatches


def go_on_batches(plan: BatchesPlan, points: Points, before: Before, steps: Steps) -> GoneOn:
    """Make the passes of a call by minibatches."""
    n_classes = len(points.classes)
    if before.weights is None:
        weights = start_mapped(plan, n_classes, points.x.shape[1])
        squares = MappedSquares.zeros(weights, plan.adagrad)
        set_new_rows(weights, points.classes, before.position, steps.new_classes)
    else:
        counts = before.counts_with(points)
        weights, squares = mapped_of_call(plan, before, points.classes, counts, steps.new_classes)
    scale = weights.scale
    weights.multiply_scores(1 / scale)
    weights, curve, squares = fit_batches(
        _with_passes(plan, points, before, steps),
        points.x,
        points.labels,
        n_classes,
        steps.watch,
        points.weights,
        _seen(weights, points, before),
        squares,
    )
    weights.multiply_scores(scale)
    return GoneOn(weights, curve, None, {"_squares": squares})


def _go_on_margins(plan: BatchesPlan, points: Points, before: Before, steps: Steps) -> GoneOn:
    """The same with the scale that makes probabilities of scores. It is that of the fit or, in a stream without one,
    found anew: by rows held out of the first call, then by rows that a call has not trained on.
    """
    n_rows = len(points.labels)
    if before.weights is None:
        held = rows_held_out(n_rows, plan.seed, MOST_HELD_OUT_FOR_ONE)
        out = np.flatnonzero(held if np.count_nonzero(held) >= FEWEST_HELD_OUT else np.zeros(n_rows, dtype=bool))
        found = go_on_batches(plan, points.some(np.delete(np.arange(n_rows), out)), before, steps)
        some = points.some(out)
    else:
        found = go_on_batches(plan, points, before, steps)
        tells = before.history.n_fit == 0 and n_rows >= FEWEST_TO_JOIN
        n_told = min(n_rows, MOST_HELD_OUT_FOR_ONE) if tells else 0
        some = points.some(np.linspace(0, n_rows - 1, n_told).astype(np.int64))
    if len(some.labels):
        told = found.weights if before.weights is None else before.weights.grown(len(points.classes), before.position)
        factor = best_factor(told, some.x, some.labels, plan.n_threads, some.weights)
        found.weights.multiply_scores(factor)
    return found


def mapped_of_call(
    plan: BatchesPlan, before: Before, classes: NDArray[Any], counts: Doubles, starts: Starts | None = None
) -> tuple[MappedWeights, MappedSquares]:
    """What a call begins at where there was a model: a copy, with new classes."""
    weights, squares = _grown_mapped(plan, before.weights, before.squares, classes, before)
    _set_new_intercepts(plan, weights, before, counts)
    set_new_rows(weights, classes, before.position, starts)
    return weights, squares


def _grown_mapped(
    plan: BatchesPlan, weights: MappedWeights, squares: Any, classes: NDArray[Any], before: Before
) -> tuple[MappedWeights, MappedSquares]:
    """A copy of weights over a feature map and of their squares, with rows of new classes."""
    _check_shape(plan, weights)
    n_classes = len(classes)
    grown = weights.grown(n_classes, before.position)
    # Of a model that was made without Adagrad, or an older file, there are none.
    made = MappedSquares.zeros(grown, plan.adagrad)
    kept = squares.grown(n_classes, before.position) if isinstance(squares, MappedSquares) else made
    return grown, kept if len(kept.classes) == len(made.classes) else made


def _check_shape(plan: BatchesPlan, weights: MappedWeights) -> None:
    """Refuse parameters that are not those of the model."""
    dim = weights.n_hidden if weights.embeddings.size else None
    for name, asked, there in (
        ("dim", plan.dim, dim),
        ("activation", "relu" if plan.relu else "identity", "relu" if weights.relu else "identity"),
        ("fit_intercept", plan.fit_intercept, weights.intercept_column),
    ):
        if asked != there:
            raise ValueError(f"{name} is {asked!r}; the model that partial_fit goes on with has {there!r}")


# On pairs


def _go_on_postings(plan: PostingsPlan, points: Points, before: Before, steps: Steps) -> GoneOn:
    if before.weights is None:
        _refuse_pruning(plan)
        r = normalized(points.weights)
        weights = start_postings(plan, as_csr(points.x), points.labels, len(points.classes), r)
        squares = PostingSquares.zeros(weights, plan.fit_intercept, plan.offset)
    else:
        weights, squares = _grown_postings(plan, before.weights, before.squares, points, before)
        _set_new_intercepts(plan, weights, before, before.counts_with(points))
    plan = _with_passes(plan, points, before, steps)
    data = (as_csr(points.x), points.labels, len(points.classes))
    seen = _seen(weights, points, before)
    weights, curve, squares = fit_postings(plan, *data, steps.watch, points.weights, seen, squares)
    return GoneOn(weights, curve, None, {"_squares": squares})


def _refuse_pruning(plan: PostingsPlan) -> None:
    if plan.prune > 0:
        raise ValueError(
            f"prune is {plan.prune!r}; a stream has no end at which to prune: begin with fit, or set it to 0"
        )


def _grown_postings(
    plan: PostingsPlan, weights: SparseWeights, squares: Any, points: Points, before: Before
) -> tuple[SparseWeights, PostingSquares]:
    """A copy of weights on pairs and of their squares, with new classes, and pairs of the new points."""
    n_classes = len(points.classes)
    support = support_of(plan, as_csr(points.x), points.labels, n_classes)
    grown, places = weights.grown(n_classes, before.position, *support)
    if isinstance(squares, PostingSquares):
        return grown, squares.grown(places, n_classes, before.position)
    return grown, PostingSquares.zeros(grown, plan.fit_intercept, plan.offset)


# Both


def _go_on_hybrid(plan: HybridPlan, points: Points, before: Before, steps: Steps) -> GoneOn:
    # A step size that is given is that of the weights on pairs, as learning_rate is.
    passes = HybridPlan(
        _with_passes(plan.postings, points, before, steps),
        _with_passes(plan.embeddings, points, before, replace(steps, learning_rate=None)),
        plan.repeats,
    )
    if before.weights is None:
        return _begin_hybrid(passes, points, before)
    scales = before.weights.scales
    weights, squares = _grown_hybrid(plan, points, before)
    if before.history.n_fit == 0 and len(points.labels) >= FEWEST_TO_JOIN:
        scales = _scales_of_stream(weights, points, plan.n_threads)
    seen = _seen(weights, points, before)
    # A part whose scale is 0 has no scores to go on from, and stays out.
    parts = (scales[0] != 0, scales[1] != 0)
    curve = go_on_hybrid(passes, as_csr(points.x), points.labels, points.weights, seen, squares, parts, steps.watch)
    weights.multiply_parts(scales)
    return GoneOn(weights, curve, None, {"_squares": squares})


def _begin_hybrid(plan: HybridPlan, points: Points, before: Before) -> GoneOn:
    """The first call holds rows out for the scales, as a fit does, where they are enough."""
    _refuse_pruning(plan.postings)
    held = rows_held_out(len(points.labels), plan.postings.seed)
    joins = np.count_nonzero(held) >= FEWEST_HELD_OUT
    out, kept = np.flatnonzero(held), points.some(np.flatnonzero(~held)) if joins else points
    x = as_csr(kept.x)
    weights, squares = begin_hybrid(plan, x, kept.labels, len(points.classes), normalized(kept.weights))
    curve = go_on_hybrid(plan, x, kept.labels, kept.weights, _seen(weights, points, before), squares)
    if joins:
        r = some_of(points.weights, out)
        some, own = points.some(out), features_of_classes(plan, points)
        joined = join(weights, some.x, some.labels, plan.n_threads, r, least=LEAST_SCALE, own=own)
        squares = squares.of_more_pairs(weights.postings, joined.postings)
        weights = joined
    return GoneOn(weights, curve, None, {"_squares": squares})


def _scales_of_stream(weights: HybridWeights, points: Points, n_threads: int) -> tuple[float, float]:
    """The best scales for rows that are not yet trained on, of parts that are on their own scales, and stay so."""
    n_rows = len(points.labels)
    rows = np.linspace(0, n_rows - 1, min(n_rows, MOST_HELD_OUT)).astype(np.int64)
    some = points.some(rows)
    join(weights, some.x, some.labels, n_threads, some.weights, least=LEAST_SCALE)
    scales = weights.scales
    weights.multiply_parts((1 / scales[0], 1 / scales[1]))
    return scales


def _grown_hybrid(plan: HybridPlan, points: Points, before: Before) -> tuple[HybridWeights, HybridSquares]:
    """A copy of both parts, each on the scale that it was trained on, and of their squares."""
    there, found = before.weights, before.squares
    own = (found.postings, found.mapped) if isinstance(found, HybridSquares) else (None, found)  # read from a file
    postings, of_postings = _grown_postings(plan.postings, there.postings, own[0], points, before)
    mapped, of_mapped = _grown_mapped(plan.embeddings, there.mapped, own[1], points.classes, before)
    grown = HybridWeights(postings, mapped)
    grown.multiply_parts((_inverse(there.scales[0]), _inverse(there.scales[1])))
    counts = before.counts_with(points)
    _set_new_intercepts(plan.postings, postings, before, counts)
    _set_new_intercepts(plan.embeddings, mapped, before, counts)
    return HybridWeights(postings, mapped), HybridSquares(of_postings, of_mapped)


def _inverse(scale: float) -> float:
    return 1 / scale if scale != 0 else 1.0


def _set_new_intercepts(
    plan: BatchesPlan | PostingsPlan, weights: MappedWeights | SparseWeights, before: Before, counts: Doubles
) -> None:
    if plan.fit_intercept and plan.loss not in NO_LOG_ODDS:
        set_new_intercepts(weights.intercept, before, counts)
