"""Training of weights on pairs, of rows over phi, and of both beside each other, one after the other.

Rows that are left out of training tell the scales that join the two terms of a sum, or the one scale that makes
probabilities of scores that margins have trained.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.training.batches import fit_batches, start_over_phi
from manyclass.training.blend import (
    LEAST_FACTOR,
    MOST_HELD_OUT,
    MOST_HELD_OUT_FOR_ONE,
    best_factor,
    best_repeats,
    best_scales,
    rows_held_out,
)
from manyclass.training.calls import Before, Call, passes_of_call, set_new_intercepts
from manyclass.training.core_training import Trained, Watch
from manyclass.training.growth import set_new_rows
from manyclass.training.pairs import fit_pairs, start_pairs, support_of
from manyclass.training.plan import BatchesPlan, HybridPlan, Labels, PairsPlan
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.training.state import Points, Starts
from manyclass.training.weighting import normalized, taken
from manyclass.weights.arrays import Doubles, Ids, Matrix, as_csr
from manyclass.weights.weights import Weights

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts
# Rows that tell the scales of a stream: of those that the first call holds out, and of a later call, before it is
# trained on. A first call of 60 rows of bibtex, which holds out 3, gave scales of 0 and a model that never learned.
FEWEST_HELD_OUT, FEWEST_TO_JOIN = 20, 100
LEAST_SCALE = 1e-3  # of a stream: what has no use now may have one later

Plan = BatchesPlan | PairsPlan | HybridPlan


@dataclass(frozen=True)
class _Terms:
    """The plans of both terms; one may be missing."""

    pairs: PairsPlan | None
    rows: BatchesPlan | None

    @classmethod
    def of(cls, plan: Plan) -> _Terms:
        if isinstance(plan, HybridPlan):
            return cls(plan.pairs, plan.embeddings)
        return cls(None, plan) if isinstance(plan, BatchesPlan) else cls(plan, None)

    @property
    def both(self) -> bool:
        """Whether the scores are a sum."""
        return self.pairs is not None and self.rows is not None

    def held_out(self, n_rows: int) -> NDArray[np.bool_]:
        """Return which rows are left out of training; none where there is no scale to find."""
        plan = self.pairs or self.rows
        assert plan is not None
        return rows_held_out(n_rows, plan.seed, self.most_held_out) if self.most_held_out else np.zeros(n_rows, bool)

    @property
    def most_held_out(self) -> int:
        """Return how many rows tell the scales at most: for two numbers, for one, or for none."""
        if self.both:
            return MOST_HELD_OUT
        return MOST_HELD_OUT_FOR_ONE if self.rows is not None and self.rows.finds_scale else 0

    def of_call(self, points: Points, before: Before, call: Call) -> _Terms:
        """Return the plans of a call; a step size that is given is that of the pairs where there are both."""
        n_rows, of_rows = len(points.labels), replace(call, learning_rate=None) if self.both else call
        return _Terms(
            self.pairs and replace(self.pairs, **passes_of_call(self.pairs, before.history, call, n_rows)),
            self.rows and replace(self.rows, **passes_of_call(self.rows, before.history, of_rows, n_rows)),
        )


def fit_terms(plan: Plan, points: Points, watch: Watch) -> Trained:
    """Train on points that have labels, but for those that tell the scales; the curve is that of pairs, if any.

    Where the training of pairs ends before its last pass, by Ctrl-C, a callback or the clock, that of the rows beside
    them is left out, and they add 0.
    """
    terms, x, labels = _Terms.of(plan), points.x, points.labels
    held = terms.held_out(len(labels))
    out, rows = np.flatnonzero(held), np.flatnonzero(~held)
    kept = x[rows] if len(out) else x
    r = taken(points.weights, rows)
    found, complete = _train(terms, kept, labels.of(rows), points.n_classes, r, watch)
    weights, curve, rate, squares = found
    if len(out) and (complete if terms.both else curve):
        own = features_of_classes(plan, points) if isinstance(plan, HybridPlan) else None
        some = (x[out], labels.of(out), plan.n_threads, taken(points.weights, out))
        weights, squares = _joined(terms, weights, squares, *some, own=own)
    return Trained(weights, curve, rate, squares)


def go_on_terms(plan: Plan, points: Points, before: Before, call: Call, watch: Watch) -> Trained:
    """Train on, or begin a stream.

    Each term is trained alone, as it was before: its scores must be on their own scale, for a loss of one part would
    undo the scale that it has in the sum. The scales are those of a fit or, of a stream without one, found by rows held
    out of the first call, then by rows that a call has not trained on.
    """
    terms = _Terms.of(plan).of_call(points, before, call)
    if before.weights is None:
        return _begin_stream(plan, terms, points, before, call, watch)
    n_rows = len(points.labels)
    weights, squares, scales = _grown(terms, points, before, call)
    some = None
    if terms.most_held_out and before.history.n_fit == 0 and n_rows >= FEWEST_TO_JOIN:
        some = points.some(np.linspace(0, n_rows - 1, min(n_rows, terms.most_held_out)).astype(np.int64))
    if some is not None and terms.both:
        scales = _scales_of_stream(weights, some, plan.n_threads)
    curve = _train_on(terms, points, points, weights, squares, before, watch, scales)
    weights.multiply_parts(scales)
    if some is not None and not terms.both:
        told = before.weights.grown(points.n_classes, before.position)
        weights.multiply_scores(best_factor(told, some.x, some.labels, plan.n_threads, some.weights))
    return Trained(weights, curve, squares=squares)


def _begin_stream(plan: Plan, terms: _Terms, points: Points, before: Before, call: Call, watch: Watch) -> Trained:
    """The first call holds rows out for the scales, as a fit does, where they are enough."""
    if terms.pairs is not None and terms.pairs.prune > 0:
        raise ValueError(
            f"prune is {terms.pairs.prune!r}; a stream has no end at which to prune: begin with fit, or set it to 0"
        )
    held = terms.held_out(len(points.labels))
    joins = np.count_nonzero(held) >= FEWEST_HELD_OUT
    kept = points.some(np.flatnonzero(~held)) if joins else points
    weights, squares = _start(terms, kept)
    if not terms.both and terms.rows is not None:
        set_new_rows(weights, points.classes, before.position, call.new_classes)
    curve = _train_on(terms, kept, points, weights, squares, before, watch)
    if joins:
        some = points.some(np.flatnonzero(held))
        own = features_of_classes(plan, points) if isinstance(plan, HybridPlan) else None
        of_some = (some.x, some.labels, plan.n_threads, some.weights)
        weights, squares = _joined(terms, weights, squares, *of_some, least=LEAST_SCALE, own=own)
    return Trained(weights, curve, squares=squares)


def _start(terms: _Terms, points: Points) -> tuple[Weights, Squares]:
    """Return what a stream begins with."""
    found: list[tuple[Weights, Squares]] = []
    if terms.pairs is not None:
        r = normalized(points.weights)
        pairs = start_pairs(terms.pairs, as_csr(points.x), points.labels, points.n_classes, r)
        found.append((pairs, Squares.of_pairs(pairs, terms.pairs.fit_intercept, terms.pairs.offset)))
    if terms.rows is not None:
        rows = start_over_phi(terms.rows, points.n_classes, points.x.shape[1])
        found.append((rows, Squares.of_rows(rows, terms.rows.adagrad)))
    return _beside(found)


def _beside(found: list[tuple[Weights, Squares]]) -> tuple[Weights, Squares]:
    """Return one term, or both as a sum."""
    if len(found) == 1:
        return found[0]
    (pairs, of_pairs), (rows, of_rows) = found
    return pairs.beside(rows), of_pairs.beside(of_rows)


def _train_on(
    terms: _Terms,
    kept: Points,
    points: Points,
    weights: Weights,
    squares: Squares,
    before: Before,
    watch: Watch,
    scales: tuple[float, float] = (1.0, 1.0),
) -> list[float]:
    """Move weights and squares in place; a term whose scale is 0 has no scores to go on from, and stays out."""
    seen = Seen(weights, before.counts_with(points), before.n_visits, before.goes_on)
    in_use = _Terms(terms.pairs if scales[0] != 0 else None, terms.rows if scales[1] != 0 else None)
    if in_use.pairs is None and in_use.rows is None:
        return []
    x = as_csr(kept.x) if terms.both else kept.x
    return _train(in_use, x, kept.labels, points.n_classes, kept.weights, watch, seen, squares)[0].curve


def _train(
    terms: _Terms,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    r: Doubles | None,
    watch: Watch,
    seen: Seen | None = None,
    squares: Squares | None = None,
) -> tuple[Trained, bool]:
    """Train each term, and say whether the first one made all of its passes; else those of the second one are none."""
    begin, complete, found = time.perf_counter(), True, list[Trained]()
    if terms.pairs is not None:
        told = replace(watch, heading="pairs") if terms.both else watch
        own = seen and seen.with_weights(seen.weights.pairs_alone)
        found.append(fit_pairs(terms.pairs, x, labels, n_classes, told, r, own, squares))
        complete = len(found[0].curve) == terms.pairs.max_iter
    if terms.rows is not None:
        told = watch
        if terms.both:
            left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
            told = replace(watch, heading="embeddings", max_seconds=left)
        plan, own = terms.rows, seen and seen.with_weights(seen.weights.rows_alone)
        if not complete:
            plan = replace(plan, max_iter=0)
        found.append(fit_batches(plan, x, labels, n_classes, told, r, own, squares))
    weights, sums = _beside([(one.weights, one.squares) for one in found])
    return Trained(weights, found[0].curve, found[0].rate, sums), complete


# The scales


def _joined(
    terms: _Terms,
    weights: Weights,
    squares: Squares,
    x: Matrix,
    labels: Labels,
    n_threads: int,
    r: Doubles | None,
    *,
    least: float = 0.0,
    own: Ids | None = None,
) -> tuple[Weights, Squares]:
    """Return the weights on the scales that are best for rows that they were not trained on, and their squares."""
    if terms.both:
        joined = join(weights, x, labels, n_threads, r, least=least, own=own)
        return joined, squares.of_more_pairs(weights, joined)
    weights.multiply_scores(best_factor(weights, x, labels, n_threads, r))
    return weights, squares


def join(
    weights: Weights,
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
    *,
    least: float = 0.0,
    own: Ids | None = None,
) -> Weights:
    """Multiply the weights of both parts by the scales that are best on rows that they were not trained on.

    Returned are these weights or, where classes have features of their `own` whose common weight (`best_repeats`) makes
    them better, others that have those pairs, too. Scales that rank several labels leave a factor of the sum open: the
    temperature that makes its softmax the most probable. No scale is below `least`: 0 loses a part for good.
    """
    held = (x, labels, n_threads, sample_weight)
    scales = best_scales(weights.pairs_alone, weights.rows_alone, *held)
    weights.multiply_parts((max(least, scales[0]), max(least, scales[1])))
    found = None if own is None else best_repeats(weights, own, *held)
    if found is not None:
        factor, pairs = found
        weights.multiply_scores(factor)
        # Pairs are on the scale of the others, from which training goes on.
        weights = weights.plus_pairs(pairs)
        weights.scales[0] = max(LEAST_FACTOR, weights.scales[0])
    if len(labels.ids) > len(labels):
        weights.multiply_scores(best_factor(weights, *held))
    return weights


def _scales_of_stream(weights: Weights, some: Points, n_threads: int) -> tuple[float, float]:
    """Return the best scales for rows not yet trained on, of parts that are on their own scales, and stay so."""
    join(weights, some.x, some.labels, n_threads, some.weights, least=LEAST_SCALE)
    return _to_own_scale(weights)


def _to_own_scale(weights: Weights) -> tuple[float, float]:
    """Take out, in place, what scores were multiplied by since they were trained; return it."""
    scales = (float(weights.scales[0]), float(weights.scales[1]))
    own = (1 / scales[0] if scales[0] != 0 else 1.0, 1 / scales[1] if scales[1] != 0 else 1.0)
    weights.multiply_parts(own)
    weights.scales[:] = 1
    return scales


# What grows


def _grown(terms: _Terms, points: Points, before: Before, call: Call) -> tuple[Weights, Squares, tuple[float, float]]:
    """Return a copy of the weights, each term on the scale that it was trained on, their squares, and these scales."""
    assert before.weights is not None
    there, found = before.weights, []
    counts = before.counts_with(points)
    if terms.pairs is not None:
        found.append(_grown_pairs(terms.pairs, there.pairs_alone, points, before))
    elif terms.rows is not None:
        found.append(rows_of_call(terms.rows, before, points.classes, counts, call.new_classes))
    if terms.both and terms.rows is not None:
        found.append(_grown_rows(terms.rows, there.rows_alone, points.n_classes, before))
    weights, squares = _beside(found)
    scales = _to_own_scale(weights) if terms.rows is not None else (1.0, 1.0)
    if terms.pairs is not None:
        for plan, (own, _) in zip((terms.pairs, terms.rows), found, strict=False):
            _set_new_intercepts(plan, own, before, counts)
    return weights, squares, scales


def rows_of_call(
    plan: BatchesPlan, before: Before, classes: NDArray[Any], counts: Doubles, starts: Starts | None = None
) -> tuple[Weights, Squares]:
    """Return what a call begins at where there were rows over phi: a copy, with new classes, and its squares."""
    assert before.weights is not None
    weights, squares = _grown_rows(plan, before.weights, len(classes), before)
    _set_new_intercepts(plan, weights, before, counts)
    set_new_rows(weights, classes, before.position, starts)
    return weights, squares


def _grown_rows(plan: BatchesPlan, weights: Weights, n_classes: int, before: Before) -> tuple[Weights, Squares]:
    """Return a copy of rows over phi and of their squares, with new classes; refuse another shape of the model."""
    dim = weights.n_hidden if weights.embeddings.size else None
    for name, asked, there in (
        ("dim", plan.dim, dim),
        ("activation", "relu" if plan.relu else "identity", "relu" if weights.relu else "identity"),
        ("fit_intercept", plan.fit_intercept, weights.intercept_column),
    ):
        if asked != there:
            raise ValueError(f"{name} is {asked!r}; the model that partial_fit goes on with has {there!r}")
    grown, squares = weights.grown(n_classes, before.position), before.squares
    # Of a model that was made without Adagrad, or an older file, there are none.
    made = Squares.of_rows(grown, plan.adagrad)
    kept = made if squares is None else squares.grown(n_classes, before.position)
    return grown, kept if len(kept.classes) == len(made.classes) else made


def _grown_pairs(plan: PairsPlan, weights: Weights, points: Points, before: Before) -> tuple[Weights, Squares]:
    """Return a copy of weights on pairs and of their squares, with new classes, and pairs of the new points."""
    n_classes, squares = points.n_classes, before.squares
    new = weights.new_pairs(n_classes, before.position, *support_of(plan, as_csr(points.x), points.labels, n_classes))
    grown = weights.grown(n_classes, before.position, new)
    if squares is not None and squares.offset:
        return grown, squares.grown(n_classes, before.position, new)
    return grown, Squares.of_pairs(grown, plan.fit_intercept, plan.offset)


def _set_new_intercepts(
    plan: BatchesPlan | PairsPlan | None, weights: Weights, before: Before, counts: Doubles
) -> None:
    if plan is not None and plan.fit_intercept and plan.loss not in NO_LOG_ODDS:
        set_new_intercepts(weights.intercept, before, counts)


def features_of_classes(plan: HybridPlan, points: Points) -> Ids | None:
    """The feature that is each class itself, -1 where there is none: of its name, or of its number; None: of no class.

    Places of hashed features say nothing.
    """
    classes, n_features = points.classes, points.x.shape[1]
    if not plan.repeats or points.hashing is not None:
        return None
    names = points.features.names
    if names is not None:
        places = {str(name): place for place, name in enumerate(names)}
        return np.array([places.get(str(label), -1) for label in classes], dtype=np.int32)
    if classes.dtype.kind not in "iu":
        return None
    return np.where((classes >= 0) & (classes < n_features), classes, -1).astype(np.int32)
