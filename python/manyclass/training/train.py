"""The one way from a state to the next: `train` makes what a plan says, on some points.

Without a call the points are all that there is, and training begins, at weights of 0 or at those of `First`. With a
call it goes on from the state, or begins a stream where there is none.

Training may start from other weights than 0, those of a user or in closed form.

The closed form of dense rows is the discriminant, of sparse ones naive Bayes: log p(feature | class) / p(feature) on
the pairs that occur together, p being shares of the sums of values, and 0 elsewhere. The discriminant is the
probabilistic one (Ioffe 2006; Prince & Elder 2007): rows of a class are normal around its mean with one covariance S,
and means are normal around the mean of all rows with another, T. In a basis in which S is the unit matrix and T is
diagonal with variances t, a class with n rows of mean m has its true mean at f m, f = t / (t + 1/n), and a new row
varies around that by 1 + f/n, of which the mean over classes is taken, so that log-densities are linear but for what
all classes share. Directions in which means do not differ have no weights, and a class of a single row has those that
one row is worth. Where all classes have many rows it is Fisher's discriminant. Two numbers that rows held out tell
multiply the weights and the logarithms of the classes' shares, the intercepts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.blending.blend import CELLS, best_scales
from manyclass.figures import FIGURES
from manyclass.training.core_training import ADVICE, CLOSED_FORM, ClosedForm, First, Trained, Watch, fit_full_batch
from manyclass.training.incremental import Before, Call, Terms, go_on_by_points
from manyclass.training.members import fit_members
from manyclass.training.passes import Validation, warn_user
from manyclass.training.plan import AnyPlan, FullBatchPlan, HybridPlan, Labels, PointsPlan, ScoredRows, held_out
from manyclass.training.points import fit_points, fit_posterior
from manyclass.training.state import FitReport, Points, Squares, State, finite_floats, one_a_label, shares_of_classes
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import FeatureScaling, Weights, naive_bayes

# The square of more, times 32 features, is beyond single precision.
LARGEST = 2.0**60


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
    fault = f"training diverged: its weights are no numbers. {ADVICE}"
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
        trained = go_on_by_points(plan, points, before, call, scaling)
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
        groups = None if trained_points.groups is None else trained_points.groups[labels.rows]
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


# First weights


def asked_start(
    coef: ArrayLike | None,
    intercept: ArrayLike | None,
    shape: tuple[int, int],
    *,
    fit_intercept: bool,
    has_closed_form: bool = False,
) -> Weights | ClosedForm:
    """Check what `fit` was given, of which one may be None, which is 0; a closed form has intercepts of its own.

    Raises
    ------
    ValueError
        For another shape, numbers that are not finite in float32, or intercepts of a model without.
    """
    if not (has_closed_form and isinstance(coef, str) and coef == CLOSED_FORM):
        if intercept is not None and not fit_intercept:
            raise ValueError("intercept_init is given, which has no effect with fit_intercept=False; leave it None")
        arrays = _checked("coef_init", coef, shape), _checked("intercept_init", intercept, shape[:1])
        return Weights.linear(*arrays, by_feature=False)
    if intercept is not None:
        raise ValueError(f"coef_init is {coef!r} and intercept_init is given; leave it None, or give arrays of both")
    if not fit_intercept:
        raise ValueError(f"coef_init is {coef!r}, which has intercepts; fit_intercept must be True, or give an array")
    return CLOSED_FORM


def _checked(name: str, array_like: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    if array_like is None:
        return np.zeros(shape, dtype=np.float32)
    if isinstance(array_like, str):
        raise ValueError(f"{name} is {array_like!r}; it must be an array of shape {shape}")
    array = finite_floats(name, array_like, shape)
    if (most := np.abs(array).max(initial=0)) > LARGEST:
        raise ValueError(f"{name} has an entry of {most:.4g} in absolute value; the largest is {LARGEST:.4g}")
    return array


def begin_at_closed_form(points: Points, seed: int, n_threads: int) -> Weights | None:
    """Return the weights and intercepts, on the scales that are best for rows left out; None where that is nothing."""
    random = np.random.RandomState(seed % 2**32)
    n_rows, n_classes = len(points.labels), points.n_classes
    share = FIGURES.SHARE_OF_SPARSE if isinstance(points.x, sp.csr_array) else FIGURES.SHARE_HELD_OUT
    n_held = min(FIGURES.MOST_HELD_OUT, int(share * n_rows), max(1, CELLS // n_classes))
    if n_held == 0 or np.bincount(points.labels.ids).max() < 2:
        return None
    is_out = held_out(points.labels, n_held / n_rows, random, points.groups)
    out, rest = (points.some(np.flatnonzero(rows)) for rows in (is_out, ~is_out))
    without_held_out = _closed_form(rest, random)
    if without_held_out is None:
        return None
    # Shares of the rows that are left: those of all rows would tell of which classes some were left out.
    no_pairs = np.zeros(points.x.shape[1] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    prior = Weights.on_pairs(*no_pairs, _log_shares(rest))
    scale, scale_of_prior = best_scales(without_held_out, prior, out.scored(n_threads))
    del without_held_out  # as large as W
    whole = _closed_form(points, random)
    if whole is None:
        return None
    numbers = whole.values if whole.has_pairs else whole.matrix
    numbers *= np.float32(scale)
    whole.intercept[:] = np.float32(scale) * whole.intercept + np.float32(scale_of_prior) * _log_shares(points)
    usable = np.isfinite(whole.intercept).all() and np.abs(numbers).max(initial=0) <= LARGEST
    return whole if usable else None


def _log_shares(points: Points) -> Floats:
    shares = shares_of_classes(points.labels, points.n_classes, points.weights)
    log_shares: Floats = np.log(shares).astype(np.float32)
    return log_shares


def _closed_form(points: Points, random: np.random.RandomState) -> Weights | None:
    """Weights and intercepts without the prior."""
    r = np.ones(len(points.labels)) if points.weights is None else points.weights
    if isinstance(points.x, sp.csr_array):
        return _naive_bayes(points.x, points.labels.ids, points.n_classes, r)
    return _discriminant(points.x, points.labels.ids, points.n_classes, r, random)


def _naive_bayes(x: sp.csr_array, labels: Ids, n_classes: int, r: Doubles) -> Weights | None:
    """Weights on the pairs that occur together; None where nothing does.

    Raises
    ------
    ValueError
        For values below 0, which are no sums of what occurred.
    """
    if x.data.min(initial=0) < 0:
        raise ValueError(f"coef_init is 'closed_form', whose sparse rows must be at least 0; one is {x.data.min()}")
    indicator = sp.csr_array((r, labels, np.arange(len(labels) + 1)), shape=(len(labels), n_classes))
    sums = sp.csr_array(indicator.T @ x.astype(np.float64))
    sums.eliminate_zeros()
    if sums.nnz == 0:
        return None
    class_sums, feature_sums = np.repeat(sums.sum(axis=1), np.diff(sums.indptr)), sums.sum(axis=0)
    log_ratios = naive_bayes(sums.data, feature_sums[sums.indices], class_sums, feature_sums.sum())
    sums.data = log_ratios.astype(np.float32)
    pairs = sp.csc_array(sums)
    pairs.sort_indices()
    stored = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), pairs.data
    return Weights.on_pairs(*stored, np.zeros(n_classes, dtype=np.float32))


def _discriminant(x: Floats, labels: Ids, n_classes: int, r: Doubles, random: np.random.RandomState) -> Weights | None:
    """Weights and intercepts as the densities have them, without the prior; None where classes do not differ."""
    counts, centre, means = _core.class_means(x, labels, n_classes, r)
    rows = np.flatnonzero(counts[labels] > r)  # a single row says nothing of the spread within its class
    if len(rows) <= 1:
        return None
    if len(rows) > FIGURES.COVARIANCE_ROWS:
        rows = np.sort(random.choice(rows, FIGURES.COVARIANCE_ROWS, replace=False))
    within = _core.within_classes(x, labels, r, rows, counts, centre, means)
    unit = float(np.sqrt(np.mean(np.square(within))))
    if not 0 < unit < np.inf:
        return None
    within /= unit
    means /= np.float32(unit)
    has_rows = counts > 0
    if x.shape[1] > FIGURES.COVARIANCE_FEATURES:
        basis, variances = None, np.array([np.mean(np.square(means[has_rows], dtype=np.float64))])
    else:
        # In this basis deviations have the unit covariance, then their axes are turned into those of the means.
        basis = np.linalg.cholesky(np.linalg.inv(_covariance(within)))
        classes = np.flatnonzero(has_rows)
        if len(classes) > FIGURES.COVARIANCE_ROWS:
            classes = np.sort(random.choice(classes, FIGURES.COVARIANCE_ROWS, replace=False))
        variances, turn = np.linalg.eigh(_covariance(means[classes] @ basis))
        basis = basis @ turn
        means = means @ basis.astype(np.float32)
    shrunk = _core.shrink_means(counts, variances, np.ascontiguousarray(means))
    if shrunk is None:
        return None
    coef, offset = shrunk
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what is found
        coef = (coef if basis is None else coef @ basis.T.astype(np.float32)) / np.float32(unit)
        intercept = offset - np.einsum("kj,j->k", coef, centre, dtype=np.float64)
        return Weights.linear(coef, intercept.astype(np.float32), by_feature=False)


def _covariance(deviations: NDArray[Any]) -> NDArray[np.float64]:
    """The covariance of deviations from 0, shrunk to a multiple of the unit matrix as Ledoit & Wolf (2004)."""
    from sklearn.covariance import ledoit_wolf  # late: a tenth of what it takes to import all else

    covariance, _ = ledoit_wolf(deviations, assume_centered=True)
    # No direction varies less than float32 can tell from none.
    covariance[np.diag_indices_from(covariance)] += FIGURES.LEAST_VARIANCE * np.trace(covariance) / len(covariance)
    return np.asarray(covariance, dtype=np.float64)
