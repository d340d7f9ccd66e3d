"""The one way from a state to the next: `train` makes what a plan says, on some points.

Without a call the points are all that there is, and training begins, at weights of 0 or at those of `First`. With a
call it goes on from the state, or begins a stream where there is none.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.training.core_training import CoreTraining, Trained, Watch, fit_full_batch
from manyclass.training.incremental import (
    Before,
    Call,
    Terms,
    ends_of_stretches,
    falling,
    kept_awake,
    mean_curvatures,
    passes_of_call,
    set_new_rows,
    shrink,
    step_that_remembers,
)
from manyclass.training.members import fit_members
from manyclass.training.passes import Validation, warn_user
from manyclass.training.plan import (
    MINIBATCH_IMPLICIT,
    AnyPlan,
    FullBatchPlan,
    HybridPlan,
    Labels,
    PointsPlan,
    ScoredRows,
)
from manyclass.training.points import fit_points, fit_posterior
from manyclass.training.start import CLOSED_FORM, ClosedForm, First, begin_at_closed_form
from manyclass.training.state import EarlierModel, FitReport, Points, Squares, Starts, State, one_a_label, taken
from manyclass.weights.arrays import NO_DOUBLES, Doubles
from manyclass.weights.weights import FeatureScaling, Weights

SMALLEST_RATE = 1e-300  # what is left of the step size of a stream whose weights shrink and shrink


def train(
    state: State | None,
    points: Points,
    plan: AnyPlan,
    watch: Watch = Watch(),  # noqa: B008 - frozen
    *,
    call: Call | None = None,
    first: First = First(),  # noqa: B008 - frozen
    scaling: FeatureScaling | None = None,
) -> State:
    """Return the state after the passes of a plan; the one before is left as it is.

    Parameters
    ----------
    state : State or None
        The model that a call goes on from; None: there is none.
    points : Points
        Their features are as training sees them: where there is a scaling, scaled.
    plan : PointsPlan, BatchesPlan, PairsPlan, HybridPlan or FullBatchPlan
    watch : Watch
    call : Call or None
        None: a training that begins, with all points.
    first : First
        What a training that begins is given.
    scaling : FeatureScaling or None
        The scaling that the points went through; weights are of features as they were before.

    Warns
    -----
    ConvergenceWarning
        If training diverged or was interrupted; the state is the one reached before.

    Raises
    ------
    ValueError
        If a training that begins leaves weights that are no numbers.
    """
    if call is None:
        trained_state = _begin(points, plan, watch, first, scaling)
    else:
        trained_state = _go_on(state, points, plan, watch, call, scaling)
    if trained_state.weights.is_finite():
        return trained_state
    fault = f"training diverged: its weights are no numbers. {CoreTraining.advice}"
    if state is None or call is None:
        raise ValueError(f"{fault}. Nothing was fitted")
    warn_user(f"{fault}. The model is the one before these rows")
    return state


def _go_on(
    state: State | None, points: Points, plan: AnyPlan, watch: Watch, call: Call, scaling: FeatureScaling | None
) -> State:
    """Train on from a state or, where there is none, begin a stream."""
    before = Before.of(state, points.classes, len(points.labels), call)
    if isinstance(plan, PointsPlan):
        trained = _linear_goes_on(plan, points, before, call, scaling)
    else:
        assert not isinstance(plan, FullBatchPlan)
        terms = Terms(plan, points, before, call, watch)
        trained = terms.begin() if before.weights is None else terms.go_on()
    report = FitReport() if state is None else state.fit_report
    if trained.rate is not None and (state is None or "learning_rate" in report.params):
        report = replace(report, params={**report.params, "learning_rate": trained.rate})
    curve = np.array(trained.curve) if state is None or call.whole else np.concatenate([state.curve, trained.curve])
    report = replace(report, best_iter=len(curve))
    after = State.of_fit(points, trained.weights, trained.curve, report, squares=trained.squares)
    if call.whole:
        return after
    n_rows = 0 if before.counted else len(points.labels)
    history = before.history.gone_on(n_rows, scaling, points.labels.mean)
    after = replace(after, counts=before.counts_after(points), history=history, curve=curve)
    return after if state is None else replace(after, n_labels=state.n_labels, threshold=state.threshold)


# Trainings that begin


def _begin(points: Points, plan: AnyPlan, watch: Watch, first: First, scaling: FeatureScaling | None) -> State:
    if isinstance(plan, PointsPlan) and plan.posterior:
        trained, variances = fit_posterior(plan, points, watch)
        return _first_state(points, trained, None, variances=variances)
    if isinstance(plan, PointsPlan | FullBatchPlan):
        return _begin_linear(points, plan, watch, first, scaling)
    trained_points, validation = _hold_out(points, first, plan.n_threads)
    trained = fit_members(plan, trained_points, replace(watch, validation=validation))
    state = _first_state(points, trained, validation, squares=trained.squares)
    return state.with_report(makes_runs=isinstance(plan, HybridPlan))


def _hold_out(points: Points, first: First, n_threads: int) -> tuple[Points, Validation | None]:
    """Return the points to train on, and the rows that early stopping looks at."""
    if first.evaluated is not None:
        return points, Validation(first.n_iter_no_change, ScoredRows(*first.evaluated, n_threads))
    if first.held_out is None:
        return points, None
    out, trained_points = (points.some(np.flatnonzero(rows)) for rows in (first.held_out, ~first.held_out))
    return trained_points, Validation(first.n_iter_no_change, out.scored(n_threads))


def _first_state(points: Points, trained: Trained, validation: Validation | None, **fields: Any) -> State:
    """Return the state after a training that began, which reports a step size taken instead of its plan's."""
    rate_taken = {} if trained.rate is None else {"learning_rate": trained.rate}
    report = FitReport(rate_taken, report=[dict(line) for line in trained.members], best_iter=len(trained.curve))
    if validation is not None:
        report = replace(report, validation_curve=np.array(validation.curve), best_iter=validation.best_iter)
    return State.of_fit(points, trained.weights, trained.curve, report, **fields)


def _begin_linear(
    points: Points, plan: PointsPlan | FullBatchPlan, watch: Watch, first: First, scaling: FeatureScaling | None
) -> State:
    """A linear model of one label a row, maybe stopped early; or by L-BFGS one of several."""
    trained_points, validation = _hold_out(points, first, plan.n_threads)
    callback, heads, n_labels = watch.callback, first.heads, 1.0
    if points.several:
        labels = trained_points.labels
        x, ids, r, n_labels = one_a_label(trained_points.x, labels, trained_points.weights)
        groups = taken(trained_points.groups, labels.rows)
        trained_points = replace(trained_points, x=x, labels=Labels.single(ids), weights=r, groups=groups)
    if scaling is not None and callback is not None:  # who has features as they were before the scaling
        watch = replace(watch, callback=lambda state: callback(state.of_features(scaling)))
    if heads is not None and first.held_out is not None:
        heads = heads[~first.held_out]
    watch = replace(watch, validation=validation)
    start = _first_weights(plan, first.start, scaling, trained_points)
    if isinstance(plan, FullBatchPlan):
        trained = fit_full_batch(plan, trained_points, watch, start, n_labels)
    else:
        trained = fit_points(plan, trained_points, watch, heads, start)
    if scaling is not None:
        scaling.fold(trained.weights)
    squares = Squares(features=points.feature_squares)
    return _first_state(points, trained, validation, scaling=scaling, squares=squares)


def _first_weights(
    plan: PointsPlan | FullBatchPlan, start: Weights | ClosedForm | None, scaling: FeatureScaling | None, points: Points
) -> Weights | None:
    """Return the first weights, of scaled features: those of a user, or in closed form; None: 0."""
    if isinstance(start, Weights):
        return start if scaling is None else scaling.unfold(start.copy())
    by_discriminant = isinstance(plan, PointsPlan) and plan.discriminant and not isinstance(points.x, sp.csr_array)
    if start != CLOSED_FORM and not by_discriminant:
        return None
    seed = plan.seed if isinstance(plan, PointsPlan) else 0
    in_closed_form = begin_at_closed_form(points, seed, plan.n_threads)
    if start == CLOSED_FORM and in_closed_form is None:
        raise ValueError(f"coef_init is {CLOSED_FORM!r}, which needs 20 rows and a class of two that differ")
    return in_closed_form


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
        scaling.unfold(weights)
    if plan.fit_intercept and before.weights is not None:
        _core.set_new_intercepts(before.position, before.counts, counts, weights.intercept)
    return weights


def _each_by_curvature(plan: PointsPlan) -> bool:
    """Whether each weight has a step size of its own, by curvature."""
    return plan.by_curvature and plan.solver != MINIBATCH_IMPLICIT and plan.max_norm is None


def _squares_of_call(plan: PointsPlan, weights: Weights, points: Points, features: Doubles, before: Before) -> Squares:
    """What steps by curvature go by when a call begins, taken from its own rows where the model does not know it.

    There are no curvatures where training does not take those of its points.
    """
    squares = before.squares
    if squares is None or not len(squares.features):
        squares = Squares(features=features * (before.history.n_counting / max(1.0, float(features[-1]))))
    squares = squares.grown(points.n_classes, before.position)
    if not _each_by_curvature(plan):
        return replace(squares, curvatures=NO_DOUBLES)
    if not len(squares.curvatures):
        n_rows = float(squares.features[-1])
        zeros = np.zeros(points.n_classes)
        curvatures = n_rows * mean_curvatures(weights, points.x, plan.n_threads) if n_rows > 0 else zeros
        squares = replace(squares, curvatures=curvatures)
    return squares


def _linear_goes_on(
    plan: PointsPlan, points: Points, before: Before, call: Call, scaling: FeatureScaling | None
) -> Trained:
    """Train on a call's rows at once or, where weights may shrink, on some stretches of them one after the other."""
    n_rows, n_classes, ends = len(points.labels), points.n_classes, list[int]()
    if _each_by_curvature(plan) and plan.utility is None and call.n_passes == 1:
        ends = ends_of_stretches(n_rows, n_classes, before.history.n_counting)
    if not ends:
        return _points_go_on(plan, points, before, call, scaling)
    order = np.arange(n_rows)
    if plan.shuffle:  # rows may be sorted
        np.random.default_rng(plan.seed).shuffle(order)
    stretches, losses = [points.some(rows) for rows in np.split(order, ends)], list[float]()
    trained = _points_go_on(plan, stretches[0], before, call, scaling)
    for last, stretch in pairwise(stretches):
        if not trained.curve:
            break
        losses += trained.curve
        before = before.after(last, trained.weights, trained.squares)
        assert trained.rate is not None
        plan = replace(plan, schedule=replace(plan.schedule, learning_rate=trained.rate))
        trained = _points_go_on(plan, stretch, before, call, scaling)
    losses += trained.curve
    if len(losses) < len(stretches):  # Ctrl-C has ended it
        return trained
    loss = float(np.average(losses, weights=[len(stretch.labels) for stretch in stretches]))
    return Trained(trained.weights, [loss], trained.rate, trained.squares)


def _points_go_on(
    plan: PointsPlan, points: Points, before: Before, call: Call, scaling: FeatureScaling | None
) -> Trained:
    n_classes = points.n_classes
    counts = before.counts_with(points)
    is_sparse = isinstance(points.x, sp.csr_array)
    weights = before.weights or Weights.zeros(n_classes, points.x.shape[1], by_feature=is_sparse)
    weights = weights_of_call(plan, weights, points.classes, before, counts, scaling, call.new_classes)
    local_state = None if call.kept_rows is None else call.kept_rows.of(points.rows)
    features = points.feature_squares
    squares = _squares_of_call(plan, weights, points, features, before)
    by_weight = _each_by_curvature(plan)
    rate: float | None = None
    if plan.by_curvature and plan.utility is None:
        squares, factor = shrink(weights, points, plan, before, squares)
        rate = max(plan.schedule.learning_rate * factor**2, SMALLEST_RATE)
        plan = replace(plan, schedule=replace(plan.schedule, learning_rate=rate))
    earlier = EarlierModel(
        weights, counts, before.n_visits, before.goes_on, squares if by_weight else None, features, local_state
    )
    passes = passes_of_call(plan, before.history, call, len(points.labels))
    half_life = None if plan.by_curvature or call.learning_rate is not None else call.half_life
    if half_life is not None and before.weights is not None:
        g = float(mean_curvatures(weights, points.x, plan.n_threads).sum())
        least = step_that_remembers(half_life * call.n_passes, n_classes, g)
        passes["schedule"] = kept_awake(passes["schedule"], min(least, plan.schedule.at(0)[0]), call.n_passes)
    plan = replace(plan, averaging="none", **passes)
    if plan.by_curvature and not by_weight:
        plan = replace(plan, schedule=falling(plan, n_classes, squares.features, features))
    trained = fit_points(plan, points, Watch(), earlier=earlier)
    if scaling is not None:
        scaling.fold(trained.weights)
    if call.kept_rows is not None and local_state is not None:
        call.kept_rows.put(points.rows, local_state)
    if not before.counted:
        squares = replace(squares, features=squares.features + plan.max_iter * features)
    return Trained(trained.weights, trained.curve, rate, squares)
