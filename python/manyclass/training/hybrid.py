"""Streams of weights on pairs, of rows over phi, and of both beside each other: how calls go on, and what is mixed in.

Rows of a call that it has not yet been trained on tell the scales that join the two terms of a sum, or the one scale
that makes probabilities of scores that margins have trained.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import MARGIN, Scales
from manyclass.checks import as_csr
from manyclass.figures import FIGURES
from manyclass.training.core_training import Trained, Watch
from manyclass.training.data import Points
from manyclass.training.incremental import Before, Call, passes_of_call, set_new_rows
from manyclass.training.minibatches import fit_batches, grow_rows, start_at_rows
from manyclass.training.mixtures import beside, counted, features_of_classes, mixed
from manyclass.training.pairs import begin_on_pairs, fit_pairs, grow_pairs
from manyclass.training.plan import BatchesPlan, HybridPlan, Labels, PairsPlan
from manyclass.training.squares import EarlierModel, Squares
from manyclass.training.state import Starts
from manyclass.weights.arrays import UNMIXED, Doubles, Mixture
from manyclass.weights.weights import Weights

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts

Term = PairsPlan | BatchesPlan
Plan = Term | HybridPlan


@dataclass(frozen=True)
class _Terms:
    """The plans of the terms of a sum: of weights on pairs, of rows over phi, or of both in this order."""

    plans: tuple[Term, ...]

    @classmethod
    def of(cls, plan: Plan) -> _Terms:
        if not isinstance(plan, HybridPlan):
            return cls((plan,))
        assert plan.pairs is not None
        return cls((plan.pairs, plan.embeddings[0]))

    @property
    def both(self) -> bool:
        """Whether the scores are a sum."""
        return len(self.plans) > 1

    @property
    def seed(self) -> int:
        """Return the seed of both plans."""
        return self.plans[0].seed

    @property
    def most_held_out(self) -> int:
        """Return how many rows tell the scales at most: for two numbers, for one, or for none."""
        if self.both:
            return FIGURES.MOST_HELD_OUT
        return FIGURES.MOST_HELD_OUT_FOR_ONE if _finds_scale(self.plans[0]) else 0

    def of_call(self, points: Points, before: Before, call: Call) -> _Terms:
        """Return the plans of a call; a step size that is given is that of the pairs where there are both."""
        calls, on_pairs = (call, replace(call, learning_rate=None)), isinstance(self.plans[0], PairsPlan)
        plans = [
            replace(plan, **passes_of_call(plan, before.history, call_of_plan, len(points.labels), from_top=on_pairs))
            for plan, call_of_plan in zip(self.plans, calls, strict=False)
        ]
        rows = plans[-1]
        if self.both and before.history.n_fit == 0 and isinstance(rows, BatchesPlan):
            plans[-1] = replace(rows, finds_scale=True)
        return _Terms(tuple(plans))


def _finds_scale(plan: Term) -> bool:
    """Whether rows that a term was not trained on tell the scale that makes probabilities of its scores."""
    return plan.finds_scale if isinstance(plan, BatchesPlan) else plan.loss == MARGIN


def _alone(plan: Term, weights: Weights) -> Weights:
    """Return the weights of a term."""
    return weights.pairs_alone if isinstance(plan, PairsPlan) else weights.rows_alone


def go_on_terms(plan: Plan, points: Points, before: Before, call: Call, watch: Watch) -> Trained:
    """Train on, or begin a stream.

    Each term is trained alone, as it was before: its scores must be on their own scale, for a loss of one part would
    undo the scale that it has in the sum. The scales are those of a fit or, of a stream without one, found by the rows
    of each call before it is trained on them.
    """
    terms = _Terms.of(plan).of_call(points, before, call)
    if before.weights is None:
        return _begin_stream(plan, terms, points, before, call, watch)
    weights, squares, scales = _grown(terms, points, before, call)
    mixture = before.weights.mixture
    if terms.most_held_out and before.history.n_fit == 0:
        known = _known_rows(points, before)
        squares, scales = _learn_scales(terms, weights, squares, known, before, plan.n_threads)
        mixture = _learn_mixture(terms, weights, scales, mixture, known, before, plan.n_threads)
    curve = _train_on(terms, points, points, weights, squares, before, watch, scales)
    weights.multiply_parts(scales)
    weights = replace(weights, mixture=mixture) if before.counted else counted(weights, points, mixture)
    if len(weights.own) and isinstance(plan, HybridPlan):
        class_features = features_of_classes(plan, points)
        if class_features is not None:
            weights = replace(weights, own=blend.own_classes(class_features, weights.n_features))
    return Trained(weights, curve, squares=squares)


def _begin_stream(plan: Plan, terms: _Terms, points: Points, before: Before, call: Call, watch: Watch) -> Trained:
    """The first call trains on some rows, finds the scales by the others, and trains on these, too."""
    first_plan = terms.plans[0]
    if isinstance(first_plan, PairsPlan) and first_plan.prune > 0:
        raise ValueError(
            f"prune is {first_plan.prune!r}; a stream has no end at which to prune: begin with fit, or set it to 0"
        )
    tell = blend.rows_that_tell(len(points.labels), terms.seed, terms.most_held_out, points.groups)
    first, rest = (points.some(np.flatnonzero(which)) for which in (~tell, tell)) if tell.any() else (points, None)
    weights, squares = beside([_started(plan_of_term, first) for plan_of_term in terms.plans])
    if isinstance(first_plan, BatchesPlan):
        set_new_rows(weights, points.classes, before.position, call.new_classes)
    curve = _train_on(terms, first, points, weights, squares, before, watch)
    if not terms.most_held_out:
        return Trained(weights, curve, squares=squares)
    squares, scales = _learn_scales(terms, weights, squares, rest, before, plan.n_threads)
    weights.multiply_parts(scales)
    if rest is None:
        return Trained(weights, curve, squares=squares)
    weights = mixed(plan, weights, points, first, rest, least=True)
    there = np.arange(points.n_classes)
    after = replace(
        before, weights=weights, position=there, squares=squares, n_visits=before.n_visits + len(first.labels)
    )
    weights, squares, scales = _grown(terms, rest, after, call)
    mixture = after.weights.mixture if after.weights is not None else UNMIXED
    more = _train_on(terms, rest, points, weights, squares, after, watch, scales)
    weights.multiply_parts(scales)
    weights = counted(weights, rest, mixture)
    share = len(rest.labels) / len(points.labels)
    curve = [(1 - share) * a + share * b for a, b in zip(curve, more, strict=False)]
    return Trained(weights, curve, squares=squares)


def _known_rows(points: Points, before: Before) -> Points:
    """Return the points whose labels the model has: others tell nothing of the scale of its scores."""
    if len(before.position) == points.n_classes:
        return points
    return points.some(np.flatnonzero(points.labels.known_from(Labels.single(before.position.astype(np.int32)))))


def _started(plan: Term, points: Points) -> tuple[Weights, Squares]:
    """Return what a term of a stream begins with."""
    if isinstance(plan, PairsPlan):
        pairs = begin_on_pairs(plan, points.as_of_fit)
        assert pairs.squares is not None
        return pairs.weights, pairs.squares
    rows = start_at_rows(plan, points)
    return rows, Squares.of_rows(rows, plan.adagrad)


def _train_on(
    terms: _Terms,
    trained_points: Points,
    points: Points,
    weights: Weights,
    squares: Squares,
    before: Before,
    watch: Watch,
    scales: tuple[float, float] = (1.0, 1.0),
) -> list[float]:
    """Move weights and squares in place; a term whose scale is 0 has no scores to go on from, and stays out."""
    earlier = EarlierModel(weights, before.counts_with(points), before.n_visits, before.goes_on, squares)
    in_use = _Terms(tuple(plan for plan in terms.plans if scales[isinstance(plan, BatchesPlan)] != 0))
    if not in_use.plans:
        return []
    return _train(in_use, trained_points, watch, earlier)


def _train(terms: _Terms, points: Points, watch: Watch, earlier: EarlierModel) -> list[float]:
    """Train each term on from an earlier model, in place; return the curve of the first one."""
    begin, curves = time.perf_counter(), list[list[float]]()
    points = replace(points, x=as_csr(points.x)) if terms.both else points
    for plan in terms.plans:
        seconds_left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
        own_watch = replace(watch, max_seconds=seconds_left) if terms.both else watch
        own_model = earlier.with_weights(_alone(plan, earlier.weights))
        fit: Any = fit_batches if isinstance(plan, BatchesPlan) else fit_pairs
        curves.append(fit(plan, points, own_watch, own_model).curve)
        if len(curves[-1]) < plan.max_iter:
            break
    return curves[0]


# The scales


def _learn_scales(
    terms: _Terms, weights: Weights, squares: Squares, points: Points | None, before: Before, n_threads: int
) -> tuple[Squares, tuple[float, float]]:
    """Return the scales for points not yet trained on, each term being on its own scale, and keep what they go by."""
    known = Scales(squares.scales, squares.precisions) if len(squares.scales) else Scales.unknown(terms.both)
    if points is not None and len(points.labels):
        points = points.spread(terms.most_held_out)
        known = known.faded(before.history.n_counting, len(points.labels))
        known = known.learnt(weights, points.scored(n_threads))
    return replace(squares, scales=known.means, precisions=known.precisions), known.of_parts


def _to_own_scale(weights: Weights) -> tuple[float, float]:
    """Take out, in place, what scores were multiplied by since they were trained; return it."""
    scales = (float(weights.scales[0]), float(weights.scales[1]))
    factors = (1 / scales[0] if scales[0] != 0 else 1.0, 1 / scales[1] if scales[1] != 0 else 1.0)
    weights.multiply_parts(factors)
    weights.scales[:] = 1
    return scales


# The mixture


def _learn_mixture(
    terms: _Terms,
    weights: Weights,
    scales: tuple[float, float],
    mixture: Mixture,
    points: Points,
    before: Before,
    n_threads: int,
) -> Mixture:
    """Return the mixture after points not yet trained on: means of the shares before and of the best ones for them."""
    if not (len(weights.counts) or len(weights.own)) or not len(points.labels):
        return mixture
    points = points.spread(terms.most_held_out)
    weights.multiply_parts(scales)
    mixtures = blend.label_mixtures(weights, weights.own, points.scored(n_threads))
    _to_own_scale(weights)
    n = len(points.labels)
    share_of_new = n / (n + min(FIGURES.MOST_REMEMBERED, FIGURES.REMEMBERED * before.history.n_counting))
    numbers_kept: dict[str, Any] = {
        name: getattr(mixture, name) for name in ("shrinkage", "counts_own", "power", "rate")
    }
    numbers, _, _ = mixtures.best_shares(has_own=len(weights.own) > 0, **numbers_kept)
    share, repeats = numbers["share"], numbers["repeats"]
    if len(weights.counts):
        share = max(FIGURES.LEAST_OF_STREAM, mixture.share + share_of_new * (share - mixture.share))
    return replace(mixture, share=share, repeats=mixture.repeats + share_of_new * (repeats - mixture.repeats))


# What grows


def _grown(terms: _Terms, points: Points, before: Before, call: Call) -> tuple[Weights, Squares, tuple[float, float]]:
    """Return a copy of the weights, each term on the scale that it was trained on, their squares, and these scales."""
    assert before.weights is not None
    counts = before.counts_with(points)
    grown_terms = []
    for plan in terms.plans:
        if isinstance(plan, PairsPlan):
            grown = grow_pairs(plan, before.weights.pairs_alone, before.squares, before.position, points)
        elif terms.both:
            grown = grow_rows(plan, before.weights.rows_alone, before.squares, before.position, points.n_classes)
        else:
            grown = rows_of_call(plan, before, points.classes, counts, call.new_classes)
        grown_terms.append((grown[0].writable(), grown[1]))
    weights, squares = beside(grown_terms)
    has_scale = terms.both or isinstance(terms.plans[0], BatchesPlan) or _finds_scale(terms.plans[0])
    scales = _to_own_scale(weights) if has_scale else (1.0, 1.0)
    if isinstance(terms.plans[0], PairsPlan):
        for plan, (alone, _) in zip(terms.plans, grown_terms, strict=True):
            _set_new_intercepts(plan, alone, before, counts)
    return weights, squares, scales


def rows_of_call(
    plan: BatchesPlan, before: Before, classes: NDArray[Any], counts: Doubles, starts: Starts | None = None
) -> tuple[Weights, Squares]:
    """Return what a call begins at where there were rows over phi: a copy, with new classes, and its squares."""
    assert before.weights is not None
    weights, squares = grow_rows(plan, before.weights, before.squares, before.position, len(classes))
    _set_new_intercepts(plan, weights, before, counts)
    set_new_rows(weights, classes, before.position, starts)
    return weights, squares


def _set_new_intercepts(plan: Term, weights: Weights, before: Before, counts: Doubles) -> None:
    if plan.fit_intercept and plan.loss not in NO_LOG_ODDS:
        intercept = np.ascontiguousarray(weights.intercept)  # beside embeddings it is a column
        _core.set_new_intercepts(before.position, before.counts, counts, intercept)
        weights.intercept[:] = intercept
