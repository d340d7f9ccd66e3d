"""Streams of weights on pairs, of rows over phi, and of both beside each other: how calls go on, and what is mixed in.

Rows of a call that it has not yet been trained on tell the scales that join the two terms of a sum, or the one scale
that makes probabilities of scores that margins have trained.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import Scales
from manyclass.checks import as_csr
from manyclass.figures import FIGURES
from manyclass.training.core_training import Trained, Watch
from manyclass.training.data import EarlierModel, Points, Squares
from manyclass.training.incremental import Before, Call, passes_of_call, set_new_rows
from manyclass.training.minibatches import fit_batches, grow_rows, start_at_rows
from manyclass.training.pairs import (
    begin_on_pairs,
    beside,
    counted,
    features_of_classes,
    fit_pairs,
    grow_pairs,
    mixed,
    most_held_out,
)
from manyclass.training.plan import BatchesPlan, HybridPlan, Labels, PairsPlan
from manyclass.training.state import Starts
from manyclass.weights.arrays import Doubles, Mixture
from manyclass.weights.weights import Weights

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts

Term = PairsPlan | BatchesPlan
Plan = Term | HybridPlan
Pair = tuple[float, float]


class Terms:
    """A call that trains the terms of a sum: weights on pairs, rows over phi, or both in this order.

    Each term is trained alone, as it was before: its scores must be on their own scale, for a loss of one part would
    undo the scale that it has in the sum. The scales are those of a fit or, of a stream without one, found by the rows
    of each call before it is trained on them.
    """

    def __init__(self, plan: Plan, points: Points, before: Before, call: Call, watch: Watch) -> None:
        self.plan, self.points, self.before, self.call, self.watch = plan, points, before, call, watch
        self.is_sum, self.most_held_out = isinstance(plan, HybridPlan), most_held_out(plan)
        terms: list[Any] = [plan.pairs, plan.embeddings[0]] if isinstance(plan, HybridPlan) else [plan]
        self.on_pairs = isinstance(terms[0], PairsPlan)
        # A step size that is given is that of the pairs where there are both.
        for n, (term, call_of_term) in enumerate(zip(terms, (call, replace(call, learning_rate=None)), strict=False)):
            n_rows = len(points.labels)
            passes = passes_of_call(term, before.history, call_of_term, n_rows, from_top=self.on_pairs)
            terms[n] = replace(term, **passes)
        if self.is_sum and before.history.n_fit == 0:
            terms[-1] = replace(terms[-1], finds_scale=True)
        self.plans: list[Term] = terms

    def go_on(self) -> Trained:
        """Train on a model."""
        plan, points, before = self.plan, self.points, self.before
        assert before.weights is not None
        weights, squares, scales = self._grown(points, before)
        mixture = before.weights.mixture
        if self.most_held_out and before.history.n_fit == 0:
            known = _known_rows(points, before)
            squares, scales = self._learn_scales(weights, squares, known)
            mixture = self._learn_mixture(weights, scales, mixture, known)
        curve = self._train(points, weights, squares, before, scales)
        weights.multiply_parts(scales)
        weights = replace(weights, mixture=mixture) if before.counted else counted(weights, points, mixture)
        if len(weights.own) and isinstance(plan, HybridPlan):
            class_features = features_of_classes(plan, points)
            if class_features is not None:
                weights = replace(weights, own=blend.own_classes(class_features, weights.n_features))
        return Trained(weights, curve, squares=squares)

    def begin(self) -> Trained:
        """Begin a stream: its first call trains on some rows, finds the scales by the others, and trains on these."""
        points, before, first_plan = self.points, self.before, self.plans[0]
        if isinstance(first_plan, PairsPlan) and first_plan.prune > 0:
            raise ValueError(
                f"prune is {first_plan.prune!r}; a stream has no end at which to prune: begin with fit, or set it to 0"
            )
        tell = blend.rows_that_tell(len(points.labels), first_plan.seed, self.most_held_out, points.groups)
        first, rest = (points.some(np.flatnonzero(which)) for which in (~tell, tell)) if tell.any() else (points, None)
        weights, squares = beside([_started(plan, first) for plan in self.plans])
        if not self.on_pairs:
            set_new_rows(weights, points.classes, before.position, self.call.new_classes)
        curve = self._train(first, weights, squares, before)
        if not self.most_held_out:
            return Trained(weights, curve, squares=squares)
        squares, scales = self._learn_scales(weights, squares, rest)
        weights.multiply_parts(scales)
        if rest is None:
            return Trained(weights, curve, squares=squares)
        weights = mixed(self.plan, weights, points, first, rest, least=True)
        mixture, n_visits = weights.mixture, before.n_visits + len(first.labels)
        there = np.arange(points.n_classes)
        after = replace(before, weights=weights, position=there, squares=squares, n_visits=n_visits)
        weights, squares, scales = self._grown(rest, after)
        more = self._train(rest, weights, squares, after, scales)
        weights.multiply_parts(scales)
        weights = counted(weights, rest, mixture)
        share = len(rest.labels) / len(points.labels)
        curve = [(1 - share) * a + share * b for a, b in zip(curve, more, strict=False)]
        return Trained(weights, curve, squares=squares)

    def _train(
        self, points: Points, weights: Weights, squares: Squares, before: Before, scales: Pair = (1.0, 1.0)
    ) -> list[float]:
        """Move weights and squares in place; return the curve of the first term.

        A term whose scale is 0 has no scores to go on from, and stays out.
        """
        begin, curves, counts = time.perf_counter(), list[list[float]](), before.counts_with(self.points)
        plans = [plan for plan in self.plans if scales[isinstance(plan, BatchesPlan)] != 0]
        if len(plans) > 1:
            points = replace(points, x=as_csr(points.x))
        for plan in plans:
            on_pairs = isinstance(plan, PairsPlan)
            alone = weights.pairs_alone if on_pairs else weights.rows_alone
            fit: Any = fit_pairs if on_pairs else fit_batches
            earlier = EarlierModel(alone, counts, before.n_visits, before.goes_on, squares)
            seconds_left = max(0.0, self.watch.max_seconds - (time.perf_counter() - begin))
            curves.append(fit(plan, points, replace(self.watch, max_seconds=seconds_left), earlier).curve)
            if len(curves[-1]) < plan.max_iter:
                break
        return curves[0] if curves else []

    def _learn_scales(self, weights: Weights, squares: Squares, points: Points | None) -> tuple[Squares, Pair]:
        """Return the scales for points not yet trained on, each term on its own scale, and keep what they go by."""
        known = Scales(squares.scales, squares.precisions) if len(squares.scales) else Scales.unknown(self.is_sum)
        if points is not None and len(points.labels):
            points = points.spread(self.most_held_out)
            known = known.faded(self.before.history.n_counting, len(points.labels))
            known = known.learnt(weights, points.scored(self.plan.n_threads))
        return replace(squares, scales=known.means, precisions=known.precisions), known.of_parts

    def _learn_mixture(self, weights: Weights, scales: Pair, mixture: Mixture, points: Points) -> Mixture:
        """Return the mixture after points not trained on: means of the shares before and of the best ones for them."""
        if not (len(weights.counts) or len(weights.own)) or not len(points.labels):
            return mixture
        points = points.spread(self.most_held_out)
        weights.multiply_parts(scales)
        mixtures = blend.label_mixtures(weights, weights.own, points.scored(self.plan.n_threads))
        _to_own_scale(weights)
        n = len(points.labels)
        share_of_new = n / (n + min(FIGURES.MOST_REMEMBERED, FIGURES.REMEMBERED * self.before.history.n_counting))
        kept: dict[str, Any] = {name: getattr(mixture, name) for name in ("shrinkage", "counts_own", "power", "rate")}
        numbers, _, _ = mixtures.best_shares(has_own=len(weights.own) > 0, **kept)
        share, repeats = numbers["share"], numbers["repeats"]
        if len(weights.counts):
            share = max(FIGURES.LEAST_OF_STREAM, mixture.share + share_of_new * (share - mixture.share))
        return replace(mixture, share=share, repeats=mixture.repeats + share_of_new * (repeats - mixture.repeats))

    def _grown(self, points: Points, before: Before) -> tuple[Weights, Squares, Pair]:
        """Return a copy of the weights, each term on the scale that it was trained on, its squares, and the scales."""
        assert before.weights is not None
        model, squares, position, counts = before.weights, before.squares, before.position, before.counts_with(points)
        terms = []
        for plan in self.plans:
            if isinstance(plan, PairsPlan):
                grown = grow_pairs(plan, model.pairs_alone, squares, position, points)
            elif self.is_sum:
                grown = grow_rows(plan, model.rows_alone, squares, position, points.n_classes)
            else:
                grown = rows_of_call(plan, before, points.classes, counts, self.call.new_classes)
            terms.append((grown[0].writable(), grown[1]))
        weights, squares = beside(terms)
        has_scale = isinstance(self.plans[-1], BatchesPlan) or self.plans[0].finds_scale
        scales = _to_own_scale(weights) if has_scale else (1.0, 1.0)
        if self.on_pairs:
            for plan, (alone, _) in zip(self.plans, terms, strict=True):
                _set_new_intercepts(plan, alone, before, counts)
        return weights, squares, scales


def _known_rows(points: Points, before: Before) -> Points:
    """Return the points whose labels the model has: others tell nothing of the scale of its scores."""
    if len(before.position) == points.n_classes:
        return points
    return points.some(np.flatnonzero(points.labels.known_from(Labels.single(before.position.astype(np.int32)))))


def _started(plan: Term, points: Points) -> tuple[Weights, Squares]:
    """Return what a term of a stream begins with."""
    if isinstance(plan, PairsPlan):
        return begin_on_pairs(plan, points.as_of_fit)
    rows = start_at_rows(plan, points)
    return rows, Squares.of_rows(rows, plan.adagrad)


def _to_own_scale(weights: Weights) -> Pair:
    """Take out, in place, what scores were multiplied by since they were trained; return it."""
    first, second = map(float, weights.scales[:2])
    weights.multiply_parts((1 / (first or 1.0), 1 / (second or 1.0)))
    weights.scales[:] = 1
    return first, second


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
