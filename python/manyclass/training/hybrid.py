"""Training of weights on pairs, of rows over phi, and of both beside each other, one after the other.

Rows that are left out of training tell the scales that join the two terms of a sum, or the one scale that makes
probabilities of scores that margins have trained.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import MARGIN, Scales, ScoredRows
from manyclass.checks import as_csr, csr_parts
from manyclass.labels import columns_of_classes
from manyclass.training.core_training import Callback, Shared, Trained, TrainingState, Watch
from manyclass.training.incremental import Before, Call, passes_of_call, set_new_rows
from manyclass.training.minibatches import fit_batches, grow_rows, start_at_rows
from manyclass.training.pairs import fit_pairs, grow_pairs, start_pairs
from manyclass.training.passes import warn_user
from manyclass.training.plan import BatchesPlan, GroupIds, HybridPlan, Labels, PairsPlan
from manyclass.training.squares import EarlierModel, Squares
from manyclass.training.state import Points, Starts
from manyclass.training.weighting import normalized, shares_of_labels, taken
from manyclass.weights.arrays import UNMIXED, Doubles, Floats, Ids, Matrix, Mixture
from manyclass.weights.weights import Weights

FEWEST_TO_WARN = 100  # rows held out, by which a model is told to be no better than the shares of the classes
NO_FORMS = np.zeros((0, 0), dtype=np.float32)
NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts

Term = PairsPlan | BatchesPlan
Plan = Term | HybridPlan


@dataclass(frozen=True)
class _Terms:
    """The plans of the terms of a sum: of weights on pairs, of rows over phi, or of both in this order."""

    plans: tuple[Term, ...]

    @classmethod
    def of(cls, plan: Plan) -> _Terms:
        return cls((plan.pairs, plan.embeddings) if isinstance(plan, HybridPlan) else (plan,))

    @property
    def both(self) -> bool:
        """Whether the scores are a sum."""
        return len(self.plans) > 1

    def held_out(self, n_rows: int, groups: GroupIds | None) -> NDArray[np.bool_]:
        """Return which rows are left out of training; none where there is no scale to find."""
        most = self.most_held_out
        return blend.rows_held_out(n_rows, self.seed, most, groups) if most else np.zeros(n_rows, bool)

    @property
    def by_margins(self) -> bool:
        """Whether all are trained by margins."""
        return all(plan.loss == MARGIN for plan in self.plans)

    @property
    def seed(self) -> int:
        """Return the seed of both plans."""
        return self.plans[0].seed

    @property
    def most_held_out(self) -> int:
        """Return how many rows tell the scales at most: for two numbers, for one, or for none."""
        if self.both:
            return blend.MOST_HELD_OUT
        return blend.MOST_HELD_OUT_FOR_ONE if _finds_scale(self.plans[0]) else 0

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


@dataclass(frozen=True)
class _Split:
    """Rows left out of a training, which tell scales, and what is trained on.

    Attributes
    ----------
    trained : ndarray of int
        Rows that are trained on.
    held_out : ndarray of int
        Rows that are not.
    known : ndarray of int
        The rows held out that have classes of other rows only.
    telling : ndarray of int
        As many of these as tell a few numbers.
    x : csr_array or ndarray
        The rows that are trained on.
    labels : Labels
        Their labels.
    weights : ndarray or None
        Their weights.
    scored : ScoredRows
        The rows that tell.
    """

    trained: NDArray[np.intp]
    held_out: NDArray[np.intp]
    known: NDArray[np.intp]
    telling: NDArray[np.intp]
    x: Matrix
    labels: Labels
    weights: Doubles | None
    scored: ScoredRows

    def shares(self, n_classes: int) -> Doubles:
        """Return the shares of the classes among rows that are trained on."""
        return shares_of_labels(self.labels, n_classes, self.weights)


def fit_terms(plan: Plan, points: Points, watch: Watch) -> Trained:
    """Train on points that have labels, but for those that tell the scales; the curve is that of pairs, if any.

    1. Rows that tell the scales of scores are held out.
    2. Weights on pairs are trained, then rows over phi beside them; or one of them alone.
    3. Counts of rows give closed forms of weights on pairs.
    4. Each term, closed forms and, where classes are rare, the logarithms of their shares get the factors that are best
       on the rows held out.
    5. Counts and repeats are mixed in, in probability, where the rows held out are more probable by it.
    6. The rows held out are counted, too.

    Where the training of pairs ends before its last pass, by Ctrl-C, a callback or the clock, that of the rows beside
    them is left out, they add 0, and steps 3 to 6 are not made.
    """
    terms = _Terms.of(plan)
    split = _hold_out(plan, terms, points, watch)  # 1
    ranked = split.scored if terms.by_margins and len(split.held_out) else None
    arguments = (split.x, split.labels, points.n_classes, split.weights, watch)
    trained, complete = _train(terms, *arguments, ranked=ranked)  # 2
    if not len(split.held_out) or not (complete if terms.both else trained.curve):
        return trained
    if isinstance(plan, HybridPlan):
        return _join_terms(plan, terms, points, split, trained, watch)
    trained.weights.multiply_scores(blend.best_factor(trained.weights, split.scored))  # 4
    _warn_if_no_better_than_shares(trained.weights, split)
    return trained


def _hold_out(plan: Plan, terms: _Terms, points: Points, watch: Watch) -> _Split:
    """Step 1 of `fit_terms`; runs of one mean hold the same rows out, and texts of classes are always trained on."""
    labels = points.labels
    drawn = terms.held_out(len(labels) - points.n_texts, points.groups)
    drawn = np.append(drawn, np.zeros(points.n_texts, dtype=bool))
    by_prefixes = not points.several and points.groups is None
    class_features = features_of_classes(plan, points) if isinstance(plan, HybridPlan) and by_prefixes else None
    next_features = None if class_features is None else class_features[labels.ids]
    is_out = (watch.shared or Shared()).rows(lambda: blend.with_their_sequences(points.x, next_features, drawn))
    out, rows = np.flatnonzero(is_out), np.flatnonzero(~is_out)
    known = _of_known_classes(out, labels, rows) if len(out) else out
    telling = blend.some_that_tell(known)
    return _Split(
        rows,
        out,
        known,
        telling,
        x=points.x[rows] if len(out) else points.x,
        labels=labels.of(rows),
        weights=taken(points.weights, rows),
        scored=ScoredRows(points.x, labels, plan.n_threads, points.weights).some(telling),
    )


def _join_terms(
    plan: HybridPlan, terms: _Terms, points: Points, split: _Split, trained: Trained, watch: Watch
) -> Trained:
    """Steps 3 to 6 of `fit_terms`."""
    weights, squares, by_margins = trained.weights, trained.squares, terms.by_margins
    # Where most classes have more rows, rows held out may gain by the shares and others lose.
    are_rare = plan.pairs.fit_intercept and 2 * len(split.known) < len(split.held_out) and not by_margins
    by_counts = plan.counts and isinstance(points.x, sp.csr_array) and not by_margins
    if are_rare and by_counts and plan.pairs.prune == 0:
        weights = _with_all_pairs(weights, points)
        squares = squares.of_more_pairs(trained.weights, weights)
    forms = _closed_forms(weights, split.x, split.labels, split.weights, are_rare) if by_counts else NO_FORMS  # 3
    shares = split.shares(points.n_classes) if are_rare else None
    factors = blend.join(weights, split.scored, forms, shares, by_margins=by_margins)  # 4
    joined = _mixed(plan, weights, points, points.some(split.trained), points.some(split.telling))  # 5
    if points.several and joined.mixture.is_on and blend.ranks_worse(joined, weights, split.scored):
        joined = blend.in_order_of(weights, joined, split.scored)
    joined = _counted(joined, points.some(split.held_out), joined.mixture)  # 6
    _warn_if_no_better_than_shares(joined, split)
    if by_counts and factors.any():
        more = _closed_forms(joined, points.x, points.labels, points.weights, are_rare) - forms
        added = factors.astype(np.float32) @ more
        joined.values[:] += added
        if watch.shared is not None:
            watch.shared.added_by_held_out.append(added)
    return Trained(joined, trained.curve, trained.rate, squares)


def _warn_if_no_better_than_shares(weights: Weights, split: _Split) -> None:
    """Warn of a model that is no better on rows held out than the shares of the classes, which no training takes."""
    labels, sample_weight = split.scored.labels, split.scored.weights
    if len(labels) < FEWEST_TO_WARN:
        return
    by_shares = blend.log_loss_of_shares(split.shares(weights.n_classes), labels, sample_weight)
    loss = blend.mean_log_loss(weights, split.scored)
    if loss < by_shares:
        return
    warn_user(
        f"the model has learnt no more than how frequent the classes are: on {len(labels)} rows left out of training "
        f"its log-loss is {loss:.4g} nats, that of the classes' shares {by_shares:.4g}. Rows may be too few for their "
        "classes, or features may say nothing of them; model='linear' with a ridge (alpha) shrinks to these shares"
    )


def _of_known_classes(out: NDArray[np.intp], labels: Labels, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return which rows held out have labels of other rows only; all of them, where that leaves too few.

    A class of few rows often loses all of them. What its row says of the scales is that no class should be sure; but
    of the rows that are to be predicted, all have classes that the model has learnt.
    """
    known = out[labels.of(out).known_from(labels.of(rows))]
    return known if len(known) >= blend.FEWEST_ROWS else out


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
    weights = replace(weights, mixture=mixture) if before.counted else _counted(weights, points, mixture)
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
    weights, squares = _beside([_started(plan_of_term, first) for plan_of_term in terms.plans])
    if isinstance(first_plan, BatchesPlan):
        set_new_rows(weights, points.classes, before.position, call.new_classes)
    curve = _train_on(terms, first, points, weights, squares, before, watch)
    if not terms.most_held_out:
        return Trained(weights, curve, squares=squares)
    squares, scales = _learn_scales(terms, weights, squares, rest, before, plan.n_threads)
    weights.multiply_parts(scales)
    if rest is None:
        return Trained(weights, curve, squares=squares)
    weights = _mixed(plan, weights, points, first, rest, least=True)
    there = np.arange(points.n_classes)
    after = replace(
        before, weights=weights, position=there, squares=squares, n_visits=before.n_visits + len(first.labels)
    )
    weights, squares, scales = _grown(terms, rest, after, call)
    mixture = after.weights.mixture if after.weights is not None else UNMIXED
    more = _train_on(terms, rest, points, weights, squares, after, watch, scales)
    weights.multiply_parts(scales)
    weights = _counted(weights, rest, mixture)
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
        pairs = start_pairs(plan, as_csr(points.x), points.labels, points.n_classes, normalized(points.weights))
        return pairs, Squares.of_pairs(pairs, plan.fit_intercept, plan.offset)
    rows = start_at_rows(plan, points.x, points.n_classes, points.weights)
    return rows, Squares.of_rows(rows, plan.adagrad)


def _beside(terms: list[tuple[Weights, Squares]]) -> tuple[Weights, Squares]:
    """Return one term, or both as a sum."""
    if len(terms) == 1:
        return terms[0]
    (pairs, pair_squares), (rows, row_squares) = terms
    return pairs.beside(rows), pair_squares.beside(row_squares)


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
    earlier = EarlierModel(weights, before.counts_with(points), before.n_visits, before.goes_on)
    in_use = _Terms(tuple(plan for plan in terms.plans if scales[isinstance(plan, BatchesPlan)] != 0))
    if not in_use.plans:
        return []
    x = as_csr(trained_points.x) if terms.both else trained_points.x
    return _train(in_use, x, trained_points.labels, points.n_classes, trained_points.weights, watch, earlier, squares)[
        0
    ].curve


def _train(
    terms: _Terms,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    r: Doubles | None,
    watch: Watch,
    earlier: EarlierModel | None = None,
    squares: Squares | None = None,
    ranked: ScoredRows | None = None,
) -> tuple[Trained, bool]:
    """Train each term, and say whether the first one made all of its passes; else those of the second one are none.

    After its first pass the second one ends where it ranks rows held out, if they are given, worse beside the first.
    """
    begin, complete, parts, shared = time.perf_counter(), True, list[Trained](), watch.shared or Shared()
    for plan, heading in zip(terms.plans, ("pairs", "embeddings"), strict=False):
        own_watch = _watch_of_term(watch, heading, begin, parts, ranked) if terms.both else watch
        own_model = earlier and earlier.with_weights(_alone(plan, earlier.weights))
        arguments = (x, labels, n_classes, own_watch, r, own_model, squares)
        if isinstance(plan, BatchesPlan):
            parts.append(fit_batches(plan if complete else replace(plan, max_iter=0), *arguments))
        else:
            parts.append(fit_pairs(plan, *arguments) if shared.pairs is None else shared.pairs.copied())
        if len(parts) == 1:
            validation = own_watch.label_validation
            complete = len(parts[0].curve) == plan.max_iter or (validation is not None and validation.is_over)
            shared.pairs = parts[0].copied() if terms.both and complete and watch.shared is not None else None
    weights, sums = _beside([(part.weights, part.squares) for part in parts])
    return Trained(weights, parts[0].curve, parts[0].rate, sums), complete


def _watch_of_term(watch: Watch, heading: str, begin: float, parts: list[Trained], ranked: ScoredRows | None) -> Watch:
    """Return what looks on while one of two terms is trained, after the `parts` before: in what time is left."""
    validation, callback = watch.label_validation, watch.callback
    if validation is not None:
        validation = validation.anew(is_scaled=True) if parts else validation
        validation.is_scaled = True
    if parts and ranked is not None:
        callback = _unless_it_spoils(parts[0].weights, ranked, callback)
    seconds_left = max(0.0, watch.max_seconds - (time.perf_counter() - begin))
    return replace(watch, heading=heading, max_seconds=seconds_left, label_validation=validation, callback=callback)


def _unless_it_spoils(first: Weights, rows: ScoredRows, callback: Callback | None) -> Callback:
    """Return a callback that does what another one does, and ends training after a pass that spoils ranks."""

    def after_pass(state: TrainingState) -> bool:
        ends = callback is not None and bool(callback(state))
        return ends or (state.n_iter == 1 and blend.spoils_ranks(first, state.weights, rows))

    return after_pass


# The scales


def _closed_forms(weights: Weights, x: Matrix, labels: Labels, r: Doubles | None, are_rare: bool) -> Floats:
    """Return the closed forms of weights on pairs that may be added: counts that saturate where classes are rare."""
    forms = weights.closed_forms(as_csr(x), labels.indptr, labels.ids, r)
    return forms if are_rare else forms[:1]


def _with_all_pairs(weights: Weights, points: Points) -> Weights:
    """Return a copy that has all pairs of points, of one row as well, those that it has not got with a weight of 0.

    Without those of frequent features counts lose two points of accuracy on codes of diagnoses (bench/decisions.md).
    """
    labels, everywhere = points.labels, np.arange(points.n_classes)
    x = (csr_parts(as_csr(points.x)), points.x.shape[1])
    pairs = _core.support(*x, labels.indptr, labels.ids, points.n_classes, 1)
    return weights.grown(points.n_classes, everywhere, weights.new_pairs(points.n_classes, everywhere, *pairs))


def _learn_scales(
    terms: _Terms, weights: Weights, squares: Squares, points: Points | None, before: Before, n_threads: int
) -> tuple[Squares, tuple[float, float]]:
    """Return the scales for points not yet trained on, each term being on its own scale, and keep what they go by."""
    known = Scales(squares.scales, squares.precisions) if len(squares.scales) else Scales.unknown(terms.both)
    if points is not None and len(points.labels):
        points = points.spread(terms.most_held_out)
        known = known.faded(before.history.n_counting, len(points.labels))
        known = known.learnt(weights, _scored(points, n_threads))
    return replace(squares, scales=known.means, precisions=known.precisions), known.of_parts


def _scored(points: Points, n_threads: int) -> ScoredRows:
    return ScoredRows(points.x, points.labels, n_threads, points.weights)


def _to_own_scale(weights: Weights) -> tuple[float, float]:
    """Take out, in place, what scores were multiplied by since they were trained; return it."""
    scales = (float(weights.scales[0]), float(weights.scales[1]))
    factors = (1 / scales[0] if scales[0] != 0 else 1.0, 1 / scales[1] if scales[1] != 0 else 1.0)
    weights.multiply_parts(factors)
    weights.scales[:] = 1
    return scales


# The mixture


def _counted(weights: Weights, points: Points, mixture: Mixture) -> Weights:
    """Return weights that have counts, if any, with those of more points, and this mixture."""
    if len(weights.counts):
        x, labels = as_csr(points.x), points.labels
        weights = weights.counted(x, labels.indptr, labels.ids, normalized(points.weights))
    return replace(weights, mixture=mixture)


def _mixed(
    plan: Plan, weights: Weights, points: Points, trained_points: Points, telling: Points, *, least: bool = False
) -> Weights:
    """Return weights with counts and repeats mixed in, if points that they were not trained on say so.

    With `least` a small share of counts is the least: a stream's later rows may say more.
    """
    if not isinstance(plan, HybridPlan):
        return weights
    counted = weights
    if plan.counts:
        nothing = replace(weights, counts=np.zeros(len(weights.classes), np.float32))
        counted = _counted(nothing, trained_points, Mixture(shrinkage=blend.SHRINKAGE, counts_own=True))
    class_features = features_of_classes(plan, points)
    mixed = blend.best_mixture(counted, class_features, _scored(telling, plan.n_threads))
    if mixed is None:
        mixed = counted if least else weights
    if least and plan.counts:
        mixed = replace(mixed, mixture=replace(mixed.mixture, share=max(blend.LEAST_OF_STREAM, mixed.mixture.share)))
    return mixed


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
    mixtures = blend.label_mixtures(weights, weights.own, _scored(points, n_threads))
    _to_own_scale(weights)
    n = len(points.labels)
    share_of_new = n / (n + min(blend.MOST_REMEMBERED, blend.REMEMBERED * before.history.n_counting))
    numbers_kept: dict[str, Any] = {
        name: getattr(mixture, name) for name in ("shrinkage", "counts_own", "power", "rate")
    }
    numbers, _, _ = mixtures.best_shares(has_own=len(weights.own) > 0, **numbers_kept)
    share, repeats = numbers["share"], numbers["repeats"]
    if len(weights.counts):
        share = max(blend.LEAST_OF_STREAM, mixture.share + share_of_new * (share - mixture.share))
    return replace(mixture, share=share, repeats=mixture.repeats + share_of_new * (repeats - mixture.repeats))


# What grows


def _grown(terms: _Terms, points: Points, before: Before, call: Call) -> tuple[Weights, Squares, tuple[float, float]]:
    """Return a copy of the weights, each term on the scale that it was trained on, their squares, and these scales."""
    assert before.weights is not None
    counts = before.counts_with(points)
    grown_terms = []
    for plan in terms.plans:
        if isinstance(plan, PairsPlan):
            data = (as_csr(points.x), points.labels, points.n_classes)
            grown = grow_pairs(plan, before.weights.pairs_alone, before.squares, before.position, *data)
        elif terms.both:
            grown = grow_rows(plan, before.weights.rows_alone, before.squares, before.position, points.n_classes)
        else:
            grown = rows_of_call(plan, before, points.classes, counts, call.new_classes)
        grown_terms.append((grown[0].writable(), grown[1]))
    weights, squares = _beside(grown_terms)
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


def features_of_classes(plan: HybridPlan, points: Points) -> Ids | None:
    """The feature that is each class itself, -1 where there is none: of its name, or of its number; None: of no class.

    Places of hashed features say nothing.
    """
    if not plan.repeats or points.hashing is not None:
        return None
    return columns_of_classes(points.classes, points.column_labels, points.x.shape[1])
