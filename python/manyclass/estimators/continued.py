"""Training that goes on: `partial_fit` with new rows, and new classes, of a model that is there or begins with them.

Rows of a call are visited once, or n_passes times, by the steps that `fit` would make, those of "implicit" where `fit`
makes passes over all rows ("lbfgs"). What a call begins at:

- Weights of new classes are 0, or what `new_classes` says, their intercepts as if the old ones, less the logarithms of
  their counts, went for them; features may come, too, by `new_features`: see `help(manyclass.estimators.growing)`.
- Parameters that were left open are what the first training made of them, as `resolved_params_` has it.
- The step size is that of the schedule of `fit`, wound back by the share that new rows have: to its beginning where
  there are as many as the model has seen, and hardly at all for a few; the passes of the call go through what then is
  left of it. A stream that began without `fit` keeps the first step size.
- u of the double sum: the mean log-normaliser of a few of the rows, less the score of the row's own label. It is as
  good as the exact value there, where log K loses 0.05 nats a call. In a stream without `fit` it is log K, as in `fit`.

`half_life` makes old rows fade, for data that drift: see `help(manyclass.estimators.forgetting)`.
Instead of arrays, X may be a stream of parts: see `help(manyclass.estimators.streams)`.

Draws are named by a row's number among all that the model has seen. So a stream in parts gives bit for bit what it
gives at once, and what one pass of `fit` gives, where nothing depends on the rows to come: with all classes named, a
step size by number, shuffle=False, and a sampler that does not count frequencies; parts end where batches do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from manyclass.checks import check_number
from manyclass.estimators.base import Points
from manyclass.estimators.compress import check_not_compressed
from manyclass.estimators.ensemble import is_composed
from manyclass.estimators.forgetting import faded, impurity, kept_awake, left_of_old_rows, step_that_remembers
from manyclass.estimators.growing import NewFeatures, Starts, check_starts, set_new_rows, widened
from manyclass.estimators.history import History
from manyclass.estimators.labels import is_indicator
from manyclass.estimators.plans import Chosen
from manyclass.estimators.settle import Settled, is_open, linear_model, settle_points
from manyclass.estimators.streams import Parts, is_stream, refuse_with_stream, refuse_without_stream, train_on_stream
from manyclass.estimators.targets import check_targets, sorted_classes
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Data, Doubles, Floats, LinearWeights, Matrix
from manyclass.solvers import SOLVERS
from manyclass.training.passes import Schedule
from manyclass.training.plan import Plan, PointsPlan, Watch
from manyclass.training.points import fit_points
from manyclass.training.seen import Carried, Seen
from manyclass.training.squares import Squares


class Kept:
    """What the rows of a stream carry from pass to pass, by their numbers, in single precision: see `Carried`.

    Parameters
    ----------
    n_rows : int
        Of the stream; 0: unknown.
    of_utility : bool
        Whether there is a `local_scale`, too.
    """

    def __init__(self, n_rows: int, *, of_utility: bool) -> None:
        self.arrays = [np.full(n_rows, np.nan, dtype=np.float32) for _ in range(1 + of_utility)]

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows; NaN stands for those that were not visited."""
        for at, array in enumerate(self.arrays):
            if n_rows > len(array):  # by a half more, so that all parts together copy each row a few times
                more = np.full(max(n_rows - len(array), len(array) // 2), np.nan, dtype=np.float32)
                self.arrays[at] = np.concatenate([array, more])


MOST_KEPT = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class KeptRows:
    """Those of a part, whose rows have these numbers."""

    kept: Kept
    numbers: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64] | None) -> Carried:
        """Return what these of the rows of the part carry; empty arrays where one is visited for the first time."""
        numbers = self.numbers if rows is None else self.numbers[rows]
        self.kept.grow(int(numbers.max(initial=-1)) + 1)
        found = [array[numbers].astype(np.float64) for array in self.kept.arrays]
        if np.isnan(found[0]).any():
            return Carried(np.zeros(0), np.zeros(0))
        return Carried(found[0], found[1] if len(found) > 1 else np.zeros(0))

    def put(self, rows: NDArray[np.int64] | None, carried: Carried) -> None:
        """Keep what they carry after a visit."""
        numbers = self.numbers if rows is None else self.numbers[rows]
        for array, values in zip(self.kept.arrays, (carried.u, carried.local_scale), strict=False):
            array[numbers] = np.clip(values, -MOST_KEPT, MOST_KEPT)


@dataclass(frozen=True)
class Steps:
    """What a call asks for beside the data: passes, a step size (None: as the schedule goes on), the rows after which
    an old one counts half (None: never), what new classes begin at, and what becomes of new features.

    `fit` is of no call but of a fit that begins at the weights that are there, makes all its passes, and is watched so.

    In a `fit` from a stream the rows are a part of its pass `of_fit`, from 0, which has the step size of this pass; in
    later passes than the first they were counted before, and `n_visits` rows were visited; `kept` has what they carry
    from pass to pass.
    """

    n_passes: int = 1
    learning_rate: float | None = None
    half_life: float | None = None
    new_classes: Starts | None = None
    new_features: NewFeatures = "error"
    fit: Watch | None = None
    of_fit: int | None = None
    n_visits: int = 0
    kept: KeptRows | None = None

    @property
    def watch(self) -> Watch:
        """What looks on."""
        return Watch() if self.fit is None else self.fit

    @property
    def counted(self) -> bool:
        """Whether the rows were seen, and counted, in an earlier pass."""
        return self.of_fit is not None and self.of_fit > 0


@dataclass(frozen=True)
class Before:
    """What there is before a call.

    Attributes
    ----------
    weights : Weights or None
        Of the model's own classes; None: there is no model.
    position : ndarray of shape (n_classes_before,)
        Where these classes stand among all of the call.
    counts : ndarray of shape (n_classes,)
        Rows of each class, faded where there is a half-life.
    history : History
    squares : Squares or None
        Adagrad's sums, of the model's own classes.
    n_visits : int
        Visits of rows so far, by which draws are named.
    counted : bool
        Whether `counts` has the rows of the call already.
    """

    weights: Any
    position: NDArray[np.intp]
    counts: Doubles
    history: History
    squares: Squares | None = None
    n_visits: int = 0
    counted: bool = False

    @classmethod
    def of(cls, model: Any, points: Points, steps: Steps) -> Before:
        """What `model` is for a call with these points, the rows that it has seen having faded."""
        n_classes = len(points.classes)
        if not is_fitted(model):
            return cls(None, np.zeros(0, dtype=np.intp), np.zeros(n_classes), History())
        position = np.searchsorted(points.classes, model.classes_)
        counts = np.zeros(n_classes)
        left = left_of_old_rows(len(points.labels), steps.half_life)
        counts[position] = left * model.class_count_
        squares = model._squares if steps.half_life is None else faded(model._squares, left)
        history = model._history.faded(left)
        n_visits = steps.n_visits if steps.counted else history.n_points
        return cls(model._weights, position, counts, history, squares, n_visits, steps.counted)

    def counts_after(self, points: Points) -> Doubles:
        """Rows of each class, those of a call's points included."""
        if self.counted:
            return self.counts
        counts: Doubles = self.counts + np.bincount(points.labels.ids, minlength=len(self.counts))
        return counts

    def counts_with(self, points: Points) -> Doubles:
        """The same, but 1 for a class that only `classes` names: such a class is drawn like one with a row."""
        return np.maximum(self.counts_after(points), 1.0)

    def share_new(self, n_points: int) -> float:
        """New rows over those seen before, at most 1."""
        return min(1.0, n_points / max(1.0, self.history.n_counting))


@dataclass(frozen=True)
class GoneOn:
    """What a call has found: weights, the loss of each pass, the scaling of features, and what else the model takes."""

    weights: Any
    curve: list[float]
    scaling: FeatureScaling | None
    more: dict[str, Any]


def partial_fit(
    model: Any,
    X: Data | Parts,
    y: Any = None,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    n_passes: int = 1,
    learning_rate: float | None = None,
    half_life: float | None = None,
    new_classes: Starts | None = None,
    new_features: NewFeatures = "error",
    max_memory: int | str | None = None,
) -> Any:
    """Train on with new rows; a ValueError leaves it as it was. See `help(manyclass.estimators.continued)`.

    Parameters
    ----------
    X, y, classes, max_memory : as in fit, new labels becoming classes; classes are labels that are to come, or None
    sample_weight : array-like of shape (n_samples,), weights of rows, not only their ratios, default=None
    n_passes, learning_rate : int, passes over these rows; float, step size instead of that of the schedule, or None
    half_life, new_classes, new_features : float, rows after which one counts half; dict, first weights by label; "grow"
    """
    check_number("n_passes", n_passes, low=1, integer=True)
    for name, value in (("learning_rate", learning_rate), ("half_life", half_life)):
        if value is not None:
            check_number(name, value, low=0, open_low=True)
    check_starts(new_classes)
    steps = Steps(int(n_passes), learning_rate, half_life, new_classes, new_features)

    def train(X: Any, y: Any, sample_weight: Any = None, named: Any = None) -> None:
        go_on_with(model, X, y, sample_weight, named, steps)

    if is_stream(X, y):
        refuse_with_stream(sample_weight=sample_weight)
        return train_on_stream(model, X, classes, max_memory, train)
    refuse_without_stream(max_memory=max_memory)
    train(X, y, sample_weight, classes)
    return model


def go_on_with(
    model: Any, X: Any, y: Any, sample_weight: ArrayLike | None, classes: ArrayLike | None, steps: Steps
) -> None:
    """Make the passes of a call, and let the model take what they have found, at once."""
    model.check_parameters()
    check_can_go_on(model)
    _check_same_kind(model, y)
    own = widened(model, X, steps.new_features)
    points = own._points(X, y, sample_weight, _known(model, classes))
    _check_columns(points, classes)
    before = Before.of(own, points, steps)
    found: GoneOn = own._go_on(points, before, steps)
    curve = [*getattr(model, "loss_curve_", []), *found.curve]
    n_new = 0 if before.counted else len(points.labels)
    history = before.history.gone_on(n_new, found.scaling, points.labels.mean)
    counts = before.counts_after(points)
    model._take(points, found.weights, curve, class_count_=counts, _history=history, **found.more)


def is_fitted(model: Any) -> bool:
    """Whether there is a model to go on with."""
    return hasattr(model, "_weights")


def check_can_go_on(model: Any) -> None:
    """Refuse compressed weights, and parameters that need all rows at once."""
    check_not_compressed(getattr(model, "_weights", None), "partial_fit")
    if is_composed(model):
        name = "calibration" if model.n_models in (1, "auto") else "n_models"
        value = getattr(model, name)
        raise ValueError(
            f"{name} is {value!r}; partial_fit trains one model and holds no rows out: leave it "
            f"{1 if name == 'n_models' else None!r}"
        )
    if getattr(model, "early_stopping", False):
        raise ValueError("early_stopping is True; partial_fit holds no rows out: set it to False")
    if isinstance(model.class_weight, str):
        raise ValueError(
            f"class_weight is {model.class_weight!r}, which counts all rows; with partial_fit it must be None or a dict"
        )


def _known(model: Any, classes: ArrayLike | None) -> NDArray[Any]:
    """The classes of a call that y need not have."""
    none = np.zeros(0, dtype=np.int64)
    own = model.classes_ if is_fitted(model) else none
    if classes is None:
        return np.asarray(own)
    check_targets(classes, several=False)
    named = np.asarray(classes)
    if named.ndim != 1 or not len(named):
        raise ValueError(f"classes has shape {np.shape(classes)}; it must be a list of one or more labels")
    return sorted_classes(named, own if len(own) else None, "classes")[0]


def _check_same_kind(model: Any, y: Any) -> None:
    """Refuse several labels a row for a model of one, and the reverse."""
    if not hasattr(model, "multilabel_"):
        return
    check_targets(y)
    several = is_indicator(y)
    if model.multilabel_ != several:
        told = ("one label a row", "an indicator matrix of labels")
        raise ValueError(f"y has {told[several]}; the model was trained with {told[model.multilabel_]}")


def _check_columns(points: Points, classes: ArrayLike | None) -> None:
    """Refuse names of an indicator matrix's columns that are not sorted."""
    if points.several and classes is not None and not np.array_equal(np.asarray(classes), points.classes):
        raise ValueError(
            "classes are not sorted or not distinct; with an indicator matrix y they are the labels of its columns, "
            "in the order of classes_"
        )


# Linear models of one label a row


def as_stored(weights: LinearWeights | None, x: Matrix) -> Matrix:
    """The rows as the weights' storage needs them: sparse data train feature-major weights, dense data others."""
    if weights is None or weights.sparse == isinstance(x, sp.csr_array):
        return x
    return sp.csr_array(x) if weights.sparse else np.ascontiguousarray(x.toarray())  # type: ignore[union-attr]


def weights_of_call(
    plan: PointsPlan,
    weights: LinearWeights,
    classes: NDArray[Any],
    before: Before,
    counts: Doubles,
    scaling: FeatureScaling | None,
    starts: Starts | None = None,
) -> LinearWeights:
    """What a call begins at: a copy of weights, where there was a model, with new classes, of scaled features."""
    if before.weights is not None:
        weights = weights.grown(len(classes), before.position)
    set_new_rows(weights, classes, before.position, starts)
    if scaling is not None:
        scaling.unfold_in_place(weights)
    if plan.fit_intercept and before.weights is not None:
        set_new_intercepts(weights.intercept, before, counts)
    return weights


def go_on_by_points(
    plan: PointsPlan, points: Points, before: Before, steps: Steps, scaling: FeatureScaling | None
) -> GoneOn:
    """Make the passes of a call over points whose features are scaled already."""
    n_classes = len(points.classes)
    counts = before.counts_with(points)
    weights = before.weights
    if weights is None:
        weights = LinearWeights.zeros(n_classes, points.x.shape[1], sparse=isinstance(points.x, sp.csr_array))
    weights = weights_of_call(plan, weights, points.classes, before, counts, scaling, steps.new_classes)
    carried = None if steps.kept is None else steps.kept.of(points.rows)
    seen = Seen(weights, counts, before.n_visits, before.history.n_fit > 0, carried)
    passes = passes_of_call(plan, before, steps, len(points.labels))
    if steps.half_life is not None and steps.learning_rate is None and before.weights is not None:
        g = impurity(weights, points.x, plan.n_threads)
        least = step_that_remembers(steps.half_life * steps.n_passes, n_classes, g)
        passes["schedule"] = kept_awake(passes["schedule"], min(least, plan.schedule.at(0)[0]), steps.n_passes)
    plan = replace(plan, averaging="none", **passes)
    weights, curve = fit_points(
        plan, points.x, points.labels.ids, n_classes, Watch(), weights=points.weights, seen=seen
    )
    if scaling is not None:
        scaling.fold(weights)
    if steps.kept is not None and carried is not None:
        steps.kept.put(points.rows, carried)
    return GoneOn(weights, curve, scaling, {})


def passes_of_call(plan: Plan, before: Before, steps: Steps, n_points: int) -> dict[str, Any]:
    """The fields of a plan that say how many passes a call makes, and with what step sizes; of a fit none."""
    if steps.fit is not None:
        return {}
    schedule = plan.schedule
    if schedule.name == "adaptive":
        raise ValueError(
            "schedule is 'adaptive', whose steps are on the sum over all rows, which a stream does not know; with "
            "partial_fit choose another"
        )
    if steps.of_fit is not None:
        rate, u_rate = schedule.at(steps.of_fit)
        return {"max_iter": 1, "schedule": Schedule("exponential", rate, u_rate, 1.0)}
    first, last = schedule.at(0), schedule.at(plan.max_iter)
    if before.history.n_fit == 0:
        last = first
    else:
        first = schedule.at(round(plan.max_iter * (1 - before.share_new(n_points))))
    if steps.learning_rate is not None:
        of_u = first[1] / first[0] if first[0] > 0 else 1.0
        first = last = (steps.learning_rate, of_u * steps.learning_rate)
    falls = min(1.0, last[0] / first[0]) if first[0] > 0 else 1.0  # huge features have steps of size 0
    middle = falls ** (0.5 / steps.n_passes)  # of the part that falls to the first pass
    schedule = Schedule("exponential", first[0] * middle, first[1] * middle, falls ** (1 / steps.n_passes))
    return {"max_iter": steps.n_passes, "schedule": schedule}


def set_new_intercepts(intercept: Floats, before: Before, counts: Doubles) -> None:
    """Begin new classes at the mean of the old intercepts less the logarithms of counts, plus those of their own.

    `counts`, above 0, are those of all rows.
    """
    old = np.zeros(len(counts), dtype=bool)
    old[before.position] = True
    counted = old & (before.counts > 0)
    if not counted.any():
        return
    level = float(np.mean(intercept[counted] - np.log(before.counts[counted])))
    intercept[~old] = (level + np.log(counts[~old])).astype(np.float32)


def with_resolved(model: Any) -> Any:
    """An estimator whose open parameters are what the model's fit has made of them; what is set since then counts."""
    own, resolved = model.get_params(deep=False), getattr(model, "resolved_params_", {})
    told: dict[str, Any] = {}
    if (n_models := resolved.get("n_models", 1)) > 1:  # their mean is one model, with the columns of all
        resolved = {**resolved, "n_models": 1, "dim": n_models * resolved.get("dim", own["dim"])}
        own["dim"] = "auto"
    for name, value in resolved.items():
        given = own[name]
        if is_open(given) or given == getattr(value, "name", ""):
            told[name] = value
        elif getattr(given, "name", None) == getattr(value, "name", ""):  # a part of its own numbers, some left open
            found, set_by_hand = value.get_params(), given.get_params()
            told[name] = clone(given).set_params(**{key: found[key] for key in found if is_open(set_by_hand[key])})
    return clone(model).set_params(**told)


def go_on_softmax(owner: Any, points: Points, before: Before, steps: Steps) -> GoneOn:
    """Make the passes of a call of a SoftmaxClassifier whose model is linear, of one label a row."""
    own = with_resolved(owner) if before.weights is not None else owner
    chosen = own.check_parameters()
    model, begins_fit = linear_model(chosen), before.weights is None and steps.of_fit is not None
    chosen = replace(chosen, model=model)
    chosen = chosen if begins_fit else stepwise(chosen)
    open_alpha = own.alpha == "auto"
    if open_alpha:  # what a part would want is more than all rows do
        own = clone(own).set_params(alpha=0.0)
    x, scaling = as_stored(before.weights, points.x), before.history.scaling
    scales = model.get_params()["scaling"] == "standard"
    centre = bool(owner.fit_intercept)
    if scaling is not None:
        scaling = scaling.widened(x, centre=centre, weights=points.weights)
    elif scales:  # a stream begins, or a model of an older file goes on
        scaling = FeatureScaling.of(x, centre=centre, weights=points.weights)
    x = x if scaling is None else scaling.apply(x)
    settled = settle_points(
        own, chosen, x, points.labels.ids, len(points.classes), candidates=False, timed=not begins_fit
    )
    if open_alpha:
        settled = replace(settled, params={**settled.params, "alpha": 0.0})
    assert isinstance(settled.plan, PointsPlan)
    found = go_on_by_points(settled.plan, replace(points, x=x), before, steps, scaling)
    return replace(found, more=more_of_softmax(owner, before, settled, len(found.curve)))


def told_after(owner: Any, before: Before, settled: Settled) -> dict[str, Any]:
    """What an estimator tells of what it trains with: as it was, or of a first call, what was settled."""
    told: dict[str, Any] = owner._told(settled)
    return told if before.weights is None else {name: getattr(owner, name) for name in told}


def more_of_softmax(owner: Any, before: Before, settled: Settled, n_passes: int) -> dict[str, Any]:
    """What a SoftmaxClassifier tells of a call beside the weights."""
    return {
        "best_iter_": len(getattr(owner, "loss_curve_", [])) + n_passes,
        "validation_curve_": np.zeros(0) if before.weights is None else owner.validation_curve_,
        **told_after(owner, before, settled),
    }


def stepwise(chosen: Chosen) -> Chosen:
    """The parts, with a solver that steps by rows where "auto" has none, or one of full passes."""
    full = chosen.solver is None or chosen.solver.name == "lbfgs"
    return replace(chosen, solver=SOLVERS["implicit"]()) if full else chosen
