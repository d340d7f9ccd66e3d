"""The one way from a state to the next: `train` makes what a plan says, on some points.

Without a call the points are all that there is, and training begins, at weights of 0 or at those of `First`. With a
call it goes on from the state, or begins a stream where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.training.batches import fit_batches, start_over_phi
from manyclass.training.blend import MOST_HELD_OUT, MOST_HELD_OUT_FOR_ONE, best_factor, rows_held_out
from manyclass.training.calls import Before, Call, passes_of_call, set_new_intercepts
from manyclass.training.forgetting import impurity, kept_awake, step_that_remembers
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.growth import Starts, set_new_rows
from manyclass.training.hybrid import begin_hybrid, fit_hybrid, go_on_hybrid, join
from manyclass.training.margins import fit_margins
from manyclass.training.pairs import fit_pairs, start_pairs, support_of
from manyclass.training.passes import TrainingState
from manyclass.training.plan import AnyPlan, BatchesPlan, FullBatchPlan, HybridPlan, PointsPlan, PostingsPlan
from manyclass.training.points import fit_points
from manyclass.training.posterior import fit_posterior
from manyclass.training.repeats import features_of_classes
from manyclass.training.seen import Seen
from manyclass.training.squares import Squares
from manyclass.training.start import Start
from manyclass.training.state import Points, State, Told
from manyclass.training.validation import Validation
from manyclass.training.watch import Watch
from manyclass.training.weighting import normalized, some_of
from manyclass.weights.arrays import Doubles, Ids, as_csr
from manyclass.weights.scaling import FeatureScaling
from manyclass.weights.weights import Weights

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts
# Rows that tell the scales of a hybrid: of those that the first call holds out, and of a later call, before it is
# trained on. A first call of 60 rows of bibtex, which holds out 3, gave scales of 0 and a model that never learned.
FEWEST_HELD_OUT, FEWEST_TO_JOIN = 20, 100
LEAST_SCALE = 1e-3  # of a stream: what has no use now may have one later


@dataclass(frozen=True)
class First:
    """What a training that begins is given beside points and plan.

    Attributes
    ----------
    start : Start or None
        First weights, of features as they are before scaling; None: 0.
    heads : ndarray of shape (n_points, n_head), int32, or None
        Certain classes of each point, for the sampler "head_tail".
    held : ndarray of shape (n_points,), bool, or None
        Points that early stopping holds out, and
    n_iter_no_change : int
        its patience.
    """

    start: Start | None = None
    heads: Ids | None = None
    held: NDArray[np.bool_] | None = None
    n_iter_no_change: int = 1


def train(
    state: State | None,
    points: Points,
    plan: AnyPlan,
    watch: Watch = Watch(),  # noqa: B008 - frozen
    *,
    call: Call | None = None,
    first: First = First(),
    scaling: FeatureScaling | None = None,
) -> State:
    """Return the state after the passes of a plan; the one before is left as it is.

    Parameters
    ----------
    state : State or None
        The model that a call goes on from; None: there is none.
    points : Points
        Their features are as training sees them: where there is a scaling, scaled.
    plan : PointsPlan, BatchesPlan, PostingsPlan, HybridPlan or FullBatchPlan
    watch : Watch
    call : Call or None
        None: a training that begins, with all points.
    first : First
        Of such a one.
    scaling : FeatureScaling or None
        By which the points were scaled; weights are of features as they were before.

    Warns
    -----
    ConvergenceWarning
        If training diverged or was interrupted; the state is the one reached before.
    """
    if call is None:
        return _begin(points, plan, watch, first, scaling)
    before = Before.of(state, points.classes, len(points.labels), call)
    if isinstance(plan, PointsPlan):
        found = _points_go_on(plan, points, before, call, scaling)
    elif isinstance(plan, BatchesPlan):
        go_on = _margins_go_on if plan.finds_scale else _batches_go_on
        found = go_on(plan, points, before, call, watch)
    elif isinstance(plan, PostingsPlan):
        found = _postings_go_on(plan, points, before, call, watch)
    else:
        assert isinstance(plan, HybridPlan)
        found = _hybrid_goes_on(plan, points, before, call, watch)
    return _gone_on(state, before, points, found, call)


@dataclass
class _Found:
    """What the passes of a call have found."""

    weights: Weights
    curve: list[float]
    squares: Squares | None = None
    scaling: FeatureScaling | None = None


def _gone_on(state: State | None, before: Before, points: Points, found: _Found, call: Call) -> State:
    """The state after a call."""
    told = Told() if state is None else state.told
    if call.whole:
        own = State.of_fit(points, found.weights, found.curve, squares=found.squares)
        return replace(own, told=replace(told, best_iter=len(found.curve)))
    curve = np.array(found.curve) if state is None else np.concatenate([state.curve, found.curve])
    return State(
        classes=points.classes,
        counts=before.counts_after(points),
        features=points.features,
        weights=found.weights,
        history=before.history.gone_on(0 if before.counted else len(points.labels), found.scaling, points.labels.mean),
        curve=curve,
        squares=found.squares,
        hashing=points.hashing,
        several=points.several,
        sparse_labels=points.sparse_labels,
        n_labels=1 if state is None else state.n_labels,
        threshold=None if state is None else state.threshold,
        told=replace(told, best_iter=len(curve)),
    )


# Trainings that begin


def _begin(points: Points, plan: AnyPlan, watch: Watch, first: First, scaling: FeatureScaling | None) -> State:
    data = (points.x, points.labels, points.n_classes, watch, points.weights)
    if isinstance(plan, PointsPlan) and plan.posterior:
        means, variances, curve = fit_posterior(
            plan,
            points.x,
            points.labels.ids,
            points.n_classes,
            points.weights,
            mean_weight=points.mean_weight,
        )
        return State.of_fit(points, means, curve, variances=variances)
    if isinstance(plan, PointsPlan | FullBatchPlan):
        return _begin_linear(points, plan, watch, first, scaling)
    if isinstance(plan, BatchesPlan):
        mapped, curve, squares = (fit_margins if plan.finds_scale else fit_batches)(plan, *data)
        return State.of_fit(points, mapped, curve, squares=squares)
    if isinstance(plan, PostingsPlan):
        postings, curve, of_postings = fit_pairs(plan, *data)
        return State.of_fit(points, postings, curve, squares=of_postings)
    both, curve, of_both = fit_hybrid(plan, *data, features_of_classes(plan, points))
    return State.of_fit(points, both, curve, squares=of_both)


def _begin_linear(
    points: Points, plan: PointsPlan | FullBatchPlan, watch: Watch, first: First, scaling: FeatureScaling | None
) -> State:
    """A linear model of one label a row, maybe stopped early."""
    x, labels, r, heads, start = points.x, points.labels.ids, points.weights, first.heads, first.start
    if scaling is not None:
        watch = _told_of_features(watch, scaling)
        if start is not None:
            unfolded = scaling.unfold(Weights.linear(start.coef, start.intercept, by_feature=False))
            start = Start(unfolded.coef, unfolded.intercept)
    if first.held is not None:
        out, rows = np.flatnonzero(first.held), np.flatnonzero(~first.held)
        validation = Validation(x[out], labels[out], first.n_iter_no_change, plan.n_threads, some_of(r, out))
        x, labels, r = x[rows], labels[rows], some_of(r, rows)
        heads = None if heads is None else heads[rows]
        watch = replace(watch, validation=validation)
    if isinstance(plan, FullBatchPlan):
        at = None if start is None else start.weights(sparse=isinstance(x, sp.csr_array))
        weights, curve = fit_full_batch(plan, x, labels, points.n_classes, watch, at, r)
    else:
        weights, curve = fit_points(plan, x, labels, points.n_classes, watch, heads, start, r)
    if scaling is not None:
        scaling.fold(weights)
    found = watch.validation
    told = Told(best_iter=len(curve))
    if found is not None:
        told = Told(validation_curve=np.array(found.curve), best_iter=found.best_iter)
    return State.of_fit(points, weights, curve, scaling=scaling, told=told)


def _told_of_features(watch: Watch, scaling: FeatureScaling) -> Watch:
    """The same, its callback having features as they were before the scaling."""
    callback = watch.callback
    if callback is None:
        return watch

    def of_features(state: TrainingState) -> bool | None:
        return callback(state.of_features(scaling))

    return replace(watch, callback=of_features)


# Linear models of one label a row that go on


def weights_of_call(
    plan: PointsPlan,
    weights: Weights,
    classes: NDArray[Any],
    before: Before,
    counts: Doubles,
    scaling: FeatureScaling | None,
    starts: Starts | None = None,
) -> Weights:
    """What a call begins at: a copy of weights, where there was a model, with new classes, of scaled features."""
    if before.weights is not None:
        weights = weights.grown(len(classes), before.position)
    set_new_rows(weights, classes, before.position, starts)
    if scaling is not None:
        scaling.unfold_in_place(weights)
    if plan.fit_intercept and before.weights is not None:
        set_new_intercepts(weights.intercept, before, counts)
    return weights


def _points_go_on(
    plan: PointsPlan, points: Points, before: Before, call: Call, scaling: FeatureScaling | None
) -> _Found:
    n_classes = points.n_classes
    counts = before.counts_with(points)
    weights = before.weights
    if weights is None:
        weights = Weights.zeros(n_classes, points.x.shape[1], by_feature=isinstance(points.x, sp.csr_array))
    weights = weights_of_call(plan, weights, points.classes, before, counts, scaling, call.new_classes)
    carried = None if call.kept is None else call.kept.of(points.rows)
    seen = Seen(weights, counts, before.n_visits, before.history.n_fit > 0, carried)
    passes = passes_of_call(plan, before.history, call, len(points.labels))
    if call.half_life is not None and call.learning_rate is None and before.weights is not None:
        g = impurity(weights, points.x, plan.n_threads)
        least = step_that_remembers(call.half_life * call.n_passes, n_classes, g)
        passes["schedule"] = kept_awake(passes["schedule"], min(least, plan.schedule.at(0)[0]), call.n_passes)
    plan = replace(plan, averaging="none", **passes)
    weights, curve = fit_points(
        plan, points.x, points.labels.ids, n_classes, Watch(), weights=points.weights, seen=seen
    )
    if scaling is not None:
        scaling.fold(weights)
    if call.kept is not None and carried is not None:
        call.kept.put(points.rows, carried)
    return _Found(weights, curve, scaling=scaling)


# By minibatches that go on


def _seen(weights: Weights, points: Points, before: Before) -> Seen:
    return Seen(weights, before.counts_with(points), before.n_visits, before.history.n_fit > 0)


def _with_passes(plan: Any, points: Points, before: Before, call: Call) -> Any:
    return replace(plan, **passes_of_call(plan, before.history, call, len(points.labels)))


def _batches_go_on(plan: BatchesPlan, points: Points, before: Before, call: Call, watch: Watch) -> _Found:
    if before.weights is None:
        weights = start_over_phi(plan, points.n_classes, points.x.shape[1])
        squares = Squares.of_rows(weights, plan.adagrad)
        set_new_rows(weights, points.classes, before.position, call.new_classes)
    else:
        counts = before.counts_with(points)
        weights, squares = mapped_of_call(plan, before, points.classes, counts, call.new_classes)
    scale = float(weights.scales[1])
    weights.multiply_scores(1 / scale)
    weights, curve, squares = fit_batches(
        _with_passes(plan, points, before, call),
        points.x,
        points.labels,
        points.n_classes,
        watch,
        points.weights,
        _seen(weights, points, before),
        squares,
    )
    weights.multiply_scores(scale)
    return _Found(weights, curve, squares)


def _margins_go_on(plan: BatchesPlan, points: Points, before: Before, call: Call, watch: Watch) -> _Found:
    """The same with the scale that makes probabilities of scores. It is that of the fit or, in a stream without one,
    found anew: by rows held out of the first call, then by rows that a call has not trained on.
    """
    n_rows = len(points.labels)
    if before.weights is None:
        held = rows_held_out(n_rows, plan.seed, MOST_HELD_OUT_FOR_ONE)
        out = np.flatnonzero(held if np.count_nonzero(held) >= FEWEST_HELD_OUT else np.zeros(n_rows, dtype=bool))
        found = _batches_go_on(plan, points.some(np.delete(np.arange(n_rows), out)), before, call, watch)
        some = points.some(out)
    else:
        found = _batches_go_on(plan, points, before, call, watch)
        tells = before.history.n_fit == 0 and n_rows >= FEWEST_TO_JOIN
        n_told = min(n_rows, MOST_HELD_OUT_FOR_ONE) if tells else 0
        some = points.some(np.linspace(0, n_rows - 1, n_told).astype(np.int64))
    if len(some.labels):
        told = found.weights if before.weights is None else before.weights.grown(points.n_classes, before.position)
        factor = best_factor(told, some.x, some.labels, plan.n_threads, some.weights)
        found.weights.multiply_scores(factor)
    return found


def mapped_of_call(
    plan: BatchesPlan, before: Before, classes: NDArray[Any], counts: Doubles, starts: Starts | None = None
) -> tuple[Weights, Squares]:
    """What a call begins at where there was a model: a copy, with new classes."""
    assert before.weights is not None
    weights, squares = _grown_mapped(plan, before.weights, before.squares, len(classes), before)
    _set_new_intercepts(plan, weights, before, counts)
    set_new_rows(weights, classes, before.position, starts)
    return weights, squares


def _grown_mapped(
    plan: BatchesPlan, weights: Weights, squares: Squares | None, n_classes: int, before: Before
) -> tuple[Weights, Squares]:
    """A copy of weights over a feature map and of their squares, with rows of new classes."""
    _check_shape(plan, weights)
    grown = weights.grown(n_classes, before.position)
    # Of a model that was made without Adagrad, or an older file, there are none.
    made = Squares.of_rows(grown, plan.adagrad)
    kept = made if squares is None else squares.grown(n_classes, before.position)
    return grown, kept if len(kept.classes) == len(made.classes) else made


def _check_shape(plan: BatchesPlan, weights: Weights) -> None:
    """Refuse parameters that are not those of the model."""
    dim = weights.n_hidden if weights.embeddings.size else None
    for name, asked, there in (
        ("dim", plan.dim, dim),
        ("activation", "relu" if plan.relu else "identity", "relu" if weights.relu else "identity"),
        ("fit_intercept", plan.fit_intercept, weights.intercept_column),
    ):
        if asked != there:
            raise ValueError(f"{name} is {asked!r}; the model that partial_fit goes on with has {there!r}")


# On pairs that go on


def _postings_go_on(plan: PostingsPlan, points: Points, before: Before, call: Call, watch: Watch) -> _Found:
    if before.weights is None:
        _refuse_pruning(plan)
        r = normalized(points.weights)
        weights = start_pairs(plan, as_csr(points.x), points.labels, points.n_classes, r)
        squares = Squares.of_pairs(weights, plan.fit_intercept, plan.offset)
    else:
        weights, squares = _grown_postings(plan, before.weights, before.squares, points, before)
        _set_new_intercepts(plan, weights, before, before.counts_with(points))
    plan = _with_passes(plan, points, before, call)
    data = (as_csr(points.x), points.labels, points.n_classes)
    seen = _seen(weights, points, before)
    weights, curve, squares = fit_pairs(plan, *data, watch, points.weights, seen, squares)
    return _Found(weights, curve, squares)


def _refuse_pruning(plan: PostingsPlan) -> None:
    if plan.prune > 0:
        raise ValueError(
            f"prune is {plan.prune!r}; a stream has no end at which to prune: begin with fit, or set it to 0"
        )


def _grown_postings(
    plan: PostingsPlan, weights: Weights, squares: Squares | None, points: Points, before: Before
) -> tuple[Weights, Squares]:
    """A copy of weights on pairs and of their squares, with new classes, and pairs of the new points."""
    n_classes = points.n_classes
    new = weights.new_pairs(n_classes, before.position, *support_of(plan, as_csr(points.x), points.labels, n_classes))
    grown = weights.grown(n_classes, before.position, new)
    if squares is not None and squares.offset:
        return grown, squares.grown(n_classes, before.position, new)
    return grown, Squares.of_pairs(grown, plan.fit_intercept, plan.offset)


# Both that go on


def _hybrid_goes_on(plan: HybridPlan, points: Points, before: Before, call: Call, watch: Watch) -> _Found:
    # A step size that is given is that of the weights on pairs, as learning_rate is.
    passes = HybridPlan(
        _with_passes(plan.postings, points, before, call),
        _with_passes(plan.embeddings, points, before, replace(call, learning_rate=None)),
        plan.repeats,
    )
    if before.weights is None:
        return _begin_stream_of_hybrid(passes, points, before)
    scales = (float(before.weights.scales[0]), float(before.weights.scales[1]))
    weights, squares = _grown_hybrid(plan, points, before)
    if before.history.n_fit == 0 and len(points.labels) >= FEWEST_TO_JOIN:
        scales = _scales_of_stream(weights, points, plan.n_threads)
    seen = _seen(weights, points, before)
    # A part whose scale is 0 has no scores to go on from, and stays out.
    parts = (scales[0] != 0, scales[1] != 0)
    curve = go_on_hybrid(passes, as_csr(points.x), points.labels, points.weights, seen, squares, parts, watch)
    weights.multiply_parts(scales)
    return _Found(weights, curve, squares)


def _begin_stream_of_hybrid(plan: HybridPlan, points: Points, before: Before) -> _Found:
    """The first call holds rows out for the scales, as a fit does, where they are enough."""
    _refuse_pruning(plan.postings)
    held = rows_held_out(len(points.labels), plan.postings.seed)
    joins = np.count_nonzero(held) >= FEWEST_HELD_OUT
    out, kept = np.flatnonzero(held), points.some(np.flatnonzero(~held)) if joins else points
    x = as_csr(kept.x)
    weights, squares = begin_hybrid(plan, x, kept.labels, points.n_classes, normalized(kept.weights))
    curve = go_on_hybrid(plan, x, kept.labels, kept.weights, _seen(weights, points, before), squares)
    if joins:
        r = some_of(points.weights, out)
        some, own = points.some(out), features_of_classes(plan, points)
        joined = join(weights, some.x, some.labels, plan.n_threads, r, least=LEAST_SCALE, own=own)
        squares = squares.of_more_pairs(weights, joined)
        weights = joined
    return _Found(weights, curve, squares)


def _scales_of_stream(weights: Weights, points: Points, n_threads: int) -> tuple[float, float]:
    """The best scales for rows that are not yet trained on, of parts that are on their own scales, and stay so."""
    n_rows = len(points.labels)
    rows = np.linspace(0, n_rows - 1, min(n_rows, MOST_HELD_OUT)).astype(np.int64)
    some = points.some(rows)
    join(weights, some.x, some.labels, n_threads, some.weights, least=LEAST_SCALE)
    scales = (float(weights.scales[0]), float(weights.scales[1]))
    weights.multiply_parts((1 / scales[0], 1 / scales[1]))
    weights.scales[:] = 1
    return scales


def _grown_hybrid(plan: HybridPlan, points: Points, before: Before) -> tuple[Weights, Squares]:
    """A copy of both parts, each on the scale that it was trained on, and of their squares."""
    there, squares = before.weights, before.squares
    assert there is not None
    pairs, of_pairs = _grown_postings(plan.postings, there.pairs_alone, squares, points, before)
    rows, of_rows = _grown_mapped(plan.embeddings, there.rows_alone, squares, points.n_classes, before)
    grown = pairs.beside(rows)
    grown.multiply_parts((_inverse(there.scales[0]), _inverse(there.scales[1])))
    grown.scales[:] = 1
    counts = before.counts_with(points)
    _set_new_intercepts(plan.postings, pairs, before, counts)
    _set_new_intercepts(plan.embeddings, rows, before, counts)
    return grown, of_pairs.beside(of_rows)


def _inverse(scale: float) -> float:
    return 1 / scale if scale != 0 else 1.0


def _set_new_intercepts(plan: BatchesPlan | PostingsPlan, weights: Weights, before: Before, counts: Doubles) -> None:
    if plan.fit_intercept and plan.loss not in NO_LOG_ODDS:
        set_new_intercepts(weights.intercept, before, counts)
