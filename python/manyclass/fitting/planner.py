"""What every fit shares: choices by parameters and data, and trainings that replace a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from manyclass import _core
from manyclass.checks import check_flag, check_number, checked_random, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.facts import Facts
from manyclass.choosing.figures import FIGURES, Figures
from manyclass.choosing.plans import Planned
from manyclass.choosing.questions import is_open
from manyclass.fitting.partial_fit import (
    check_can_go_on,
    check_columns,
    check_features,
    check_same_kind,
    check_warm,
    known_classes,
)
from manyclass.fitting.points import Caller, Encoder, Known, encoded, going_on, points_of
from manyclass.fitting.runs import FRACTION, check_composed, fit_runs
from manyclass.fitting.stream_fits import gone_on_without, is_time_to_fit, kept, split_to_compare
from manyclass.fitting.trials import LossOfFit, TriedRates
from manyclass.labels import columns_of_classes, find_positions
from manyclass.parts import Parameters
from manyclass.training.blend import mean_log_loss
from manyclass.training.calibration import Calibration
from manyclass.training.core_training import Watch
from manyclass.training.incremental import Call, NewFeatures, widened
from manyclass.training.passes import fork, held_out
from manyclass.training.plan import AnyPlan, HybridPlan, Labels, PairsPlan, PointsPlan
from manyclass.training.start import ClosedForm, Start
from manyclass.training.state import Points, State
from manyclass.training.train import First, train
from manyclass.training.weighting import check_class_weight, taken
from manyclass.weights.arrays import Matrix
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import FeatureScaling

# Passes over the rows of a call, of weights on pairs: of 1, 2, 4 and 8, 2 had the least log-loss on bibtex and
# esco-titles by 1, 10 and 100 calls of a stream, and .01 more than 1 on 20news by 100 calls, but less by 1 and 10.
# After a fit of seven tenths of the rows, the others in 1, 10 and 60 calls, 2 end below 1 on three sets of four, and
# .01 above it on bibtex (bench/figures/streams.md).
PASSES_OF_PAIRS = 2


@dataclass(frozen=True)
class PlannedCall:
    """What a call trains with: a plan, and the points as it sees them, scaled where there is a scaling."""

    planned: Planned
    points: Points
    scaling: FeatureScaling | None = None


@dataclass(frozen=True)
class Asked:
    """What a `fit` was given beside its data, and how its trials fit again.

    Attributes
    ----------
    candidates : array-like of shape (n_samples, n_candidates), or None
        Labels for heads, of a SoftmaxClassifier.
    start : Start, "closed_form" or None
        First weights, of a linear model of one label a row.
    tried_rates, loss_of_fit : callable or None
        Fits of their own, for learning_rate="grid" and for the choice of a model.
    evaluated : pair of matrix and Labels, or None
        The rows that early stopping looks at.
    """

    candidates: ArrayLike | None = None
    start: Start | ClosedForm | None = None
    tried_rates: TriedRates | None = None
    loss_of_fit: LossOfFit | None = None
    evaluated: tuple[Matrix, Labels] | None = None


@dataclass(frozen=True)
class Planner(ABC):
    """The choices of a class of estimators, by parameters and data; it holds no model.

    Attributes
    ----------
    parameters : Parameters
    caller : Caller
        For checks of data.
    tries : Asked
        What fits of a stream are given: how trials fit again.
    figures : Figures
        The numbers behind what was left open.
    several : bool
        Whether rows may have several labels.
    trains_log_odds : bool
        Whether e^z is a probability but for its normaliser.
    """

    parameters: Parameters
    caller: Caller
    tries: Asked = Asked()
    figures: Figures = FIGURES

    several: ClassVar[bool] = False
    trains_log_odds: ClassVar[bool] = True

    @abstractmethod
    def check(self) -> Any:
        """Return the parts, all parameters checked without data; raises ValueError or TypeError."""

    def check_shared(self) -> None:
        """Check the parameters that all classes have; raises ValueError or TypeError."""
        own = self.parameters
        for name in ("warm_start", "fit_intercept"):
            check_flag(name, own[name])
        check_composed(own)
        check_class_weight(own["class_weight"])
        if "early_stopping" in own:
            check_flag("early_stopping", own["early_stopping"])
            fraction = own.get("validation_fraction", FRACTION)
            check_number("validation_fraction", fraction, low=0, open_low=True, high=0.99)
            check_number("n_iter_no_change", own["n_iter_no_change"], low=1, integer=True)
        _check_loop_numbers(own)

    @abstractmethod
    def run(self, points: Points, watch: Watch, given: Asked, state: State | None) -> State:
        """Make one run of a fit, whose seed, number of models and calibration are those of the parameters.

        Parameters
        ----------
        points, watch : Points and Watch
        given : Asked
        state : State or None
            What it begins at.
        """

    @abstractmethod
    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """Return what a call trains with."""

    def passes_of_call(self, plan: AnyPlan, *, after_fit: bool) -> int:
        """Return how many passes over its rows a call makes, in a stream that began without `fit` or after one."""
        return PASSES_OF_PAIRS if isinstance(plan, PairsPlan | HybridPlan) else 1

    def changed(self, **values: Any) -> Planner:
        """Return it with other parameters."""
        return replace(self, parameters=self.parameters.changed(**values))

    def go_on(
        self,
        state: State | None,
        data: tuple[Any, Any, ArrayLike | None],
        call: Call,
        *,
        classes: ArrayLike | None = None,
        new_features: NewFeatures = "error",
        hashing: FeatureHash | None = None,
        vectorizer: Encoder | None = None,
    ) -> State:
        """Return the state after a call of `partial_fit`, or on a part of a stream that `fit` goes through.

        Parameters
        ----------
        state : State or None
            What it goes on from.
        data : tuple
            X, y and sample_weight.
        call : Call
        classes, new_features : what `partial_fit` was given
        hashing : FeatureHash or None
            Of the features of a stream that begins.
        vectorizer : Encoder or None
            What makes rows of the texts of a stream that `fit` begins; None: `TextVectorizer()`. Its terms are those of
            the first part.
        """
        own = self.parameters
        self.check()
        if state is not None:
            state.weights.refuse_compressed("partial_fit")
        check_can_go_on(own)
        if state is None and call.fit_pass is not None:
            (X, y, sample_weight), encoder = encoded(data, vectorizer, None)
        else:
            (X, y, sample_weight), encoder = going_on(data, None if state is None else state.encoder)
        if state is not None:
            if self.several:
                check_same_kind(state, y)
            grows = encoder is not None and encoder is not state.encoder
            state = widened(state, X, "grow" if grows else new_features, self.caller.name)
        known = Known(known_classes(state, classes), state, hashing)
        points = points_of(
            self.caller, X, y, sample_weight, own["class_weight"], several=self.several, known=known, encoder=encoder
        )
        check_columns(points, classes)
        found = self.plan_call(state, points, call)
        if state is None:
            costs.check_memory(Facts.sized(found.points.x, points.n_classes), found.planned.plan)
        calls = kept(state, points, found.planned.plan, call) if self.keeps_rows(call) else ()
        if is_time_to_fit(calls):
            every = Points.joined(calls)
            calls = (every,)
            if state is None or state.history.n_fit > 0 or self._fits_better(every, call):
                return replace(self._fitted(every), encoder=encoder, calls=calls)
        if state is not None and state.calls and not calls and state.history.n_fit > 0:
            dense = isinstance(found.planned.plan, PointsPlan) and isinstance(points.x, np.ndarray)
            if dense and call.is_open and self.keeps_rows(call):
                # Steps by curvature go on from those of all rows, and lead farther there than the schedule of a fit.
                state = replace(self._stepped(Points.joined(state.calls), call), encoder=encoder)
                found = self.plan_call(state, points, call)
            else:
                state = gone_on_without(state, found.planned.plan)
        if call.open_passes:
            begun = state is not None and state.history.n_fit > 0
            passes = self.passes_of_call(found.planned.plan, after_fit=begun)
            call = replace(call, n_passes=1 if calls and begun else passes)  # of rows that will be fitted to soon
        after = train(state, found.points, found.planned.plan, call=call, scaling=found.scaling)
        if state is None:
            after = after.reported_by(found.planned.fit_report)
        return replace(self.labelled(after, points, state), encoder=encoder, calls=calls)

    def keeps_rows(self, call: Call) -> bool:
        """Return whether the rows of a stream that began without `fit` may be kept, for fits to them."""
        return call.may_fall(self.parameters)

    def _fits_better(self, points: Points, call: Call) -> bool:
        """Whether a fit to rows of a stream predicts later ones better than the stream does."""
        learnt, told = split_to_compare(points)
        if not len(told.labels):
            return False
        return self.loss(self._fitted(learnt), told) < self.loss(self._stepped(learnt, call), told)

    def _stepped(self, points: Points, call: Call) -> State:
        """Return the stream of points, without a fit."""
        found = self.plan_call(None, points, call)
        call = replace(call, n_passes=self.passes_of_call(found.planned.plan, after_fit=False))
        after = train(None, found.points, found.planned.plan, call=call, scaling=found.scaling)
        return self.labelled(after.reported_by(found.planned.fit_report), points)

    def loss(self, state: State, points: Points) -> float:
        """Return the mean loss of points by which states are compared: the log-loss, in nats."""
        r = taken(points.weights, np.arange(len(points.labels)))
        return mean_log_loss(state.weights, points.x, points.labels, n_threads_from(self.parameters["n_jobs"]), r)

    def _fitted(self, points: Points) -> State:
        """Return a fit to points."""
        own = self.parameters.changed(verbose=0)

        def run(parameters: Parameters, some: Points, watch: Watch) -> State:
            return replace(self, parameters=parameters).run(some, watch, self.tries, None)

        return self.labelled(*fit_runs(own, points.as_of_fit, Watch(may_retry=True), run))

    def go_on_warm(self, state: State, points: Points, watch: Watch) -> State:
        """Make a fit that begins at a model which is not linear of one label a row; raises as `check_warm` does."""
        check_warm(state, points, self.parameters)
        if self.parameters.get("early_stopping", False):
            raise ValueError(
                "early_stopping is True; a fit that begins at a model which is not linear, or has several labels, "
                "holds no rows out: set it or warm_start to False"
            )
        call = Call(whole=True)
        found = self.plan_call(state, points, call)
        return train(state, found.points, found.planned.plan, watch, call=call, scaling=found.scaling)

    def labelled(self, state: State, points: Points, before: State | None = None) -> State:
        """Return a state with the number of labels that it predicts, and their threshold.

        Parameters
        ----------
        state : State
        points : Points
            The points that the state was trained on.
        before : State or None
            What a call went on from.
        """
        if not self.several:
            return state
        goes_on = before is not None or state.history.n_fit == 0
        if goes_on:  # the counts are of all calls
            n_labels = float(state.counts.sum()) / state.history.n_counting
        else:
            n_labels = float(np.average(np.diff(points.labels.indptr), weights=points.weights))
        state = replace(state, n_labels=max(1, round(n_labels)), threshold=None)
        if before is not None and len(points.labels) < LEAST_ROWS:  # too few rows to find another
            return replace(state, threshold=before.threshold)
        if not points.several:
            return state
        n_threads = n_threads_from(self.parameters["n_jobs"])
        return replace(state, threshold=best_threshold(state, points, n_threads, log_odds=self.trains_log_odds))


def _check_loop_numbers(parameters: Parameters) -> None:
    """Check the numbers among the parameters of an estimator with a training loop."""
    numbers = {"n_negatives": 1, "max_iter": 1}
    for name, low in numbers.items():
        parameters.check_open(name, low=low, integer=True)
    parameters.check_open("learning_rate", "grid", low=0, open_low=True)
    if "alpha" in parameters:
        parameters.check_open("alpha", low=0)
    if "dim" in parameters:
        parameters.check_open("dim", low=1, high=1 << 20, integer=True)
    n_threads_from(parameters["n_jobs"])
    checked_random(parameters["random_state"])
    if not isinstance(parameters["verbose"], bool | np.bool_):
        check_number("verbose", parameters["verbose"])


def first_of(parameters: Parameters, points: Points, asked: Asked) -> First:
    """Return what early stopping looks at: rows of its own, or a share of the points, drawn here."""
    patience = parameters["n_iter_no_change"]
    if asked.evaluated is not None:
        return First(evaluated=asked.evaluated, n_iter_no_change=patience)
    if not parameters["early_stopping"]:
        return First()
    random = fork(parameters["random_state"])
    held = held_out(points.labels, parameters.get("validation_fraction", FRACTION), random)
    held[len(held) - points.n_texts :] = False
    return First(held_out=held, n_iter_no_change=patience)


def facts_of(points: Points, figures: Figures) -> Facts:
    """Return what choices depend on, of the points of a training."""
    found = Facts.of(points.x, points.n_classes, points.labels, several=points.several, figures=figures)
    names = points.column_labels
    columns = None if names is None else columns_of_classes(points.classes, names, len(names))
    return replace(found, n_texts=points.n_texts, of_columns=columns is not None and bool((columns >= 0).all()))


def resolved(parameters: Parameters, state: State) -> Parameters:
    """Return the parameters, those left open being what a fit has made of them; what is set since then counts."""
    found, told = state.fit_report.params, {}
    if (n_models := found.get("n_models", 1)) > 1:  # their mean is one model, with the columns of all
        found = {**found, "n_models": 1, "dim": n_models * found.get("dim", parameters["dim"])}
        parameters = parameters.changed(dim="auto")
    for name, value in found.items():
        given = parameters[name]
        if is_open(given) or given == getattr(value, "name", ""):
            told[name] = value
        elif getattr(given, "name", None) == getattr(value, "name", ""):  # a part of its own numbers, some left open
            own, set_by_hand = value.get_params(), given.get_params()
            told[name] = clone(given).set_params(**{key: own[key] for key in own if is_open(set_by_hand[key])})
    return parameters.changed(**told)


def warm_start_of(state: State, points: Points) -> Start:
    """Return the weights of a linear model of one label a row for the classes of a fit; a ValueError for others."""
    if points.several or not state.weights.is_linear:
        raise ValueError("warm_start is True and y has several labels a row; the last fit had one: set it to False")
    check_features(state, points)
    return Start.from_model(state.weights, find_positions(points.classes, state.classes, "y"))


# A threshold is found on at most MOST_ROWS rows, and on fewer where there are many classes: rows times classes stay
# below ROWS_CELLS, which takes a part of the time of a pass.
MOST_ROWS, LEAST_ROWS, ROWS_CELLS = 2048, 32, 1 << 24


def best_threshold(state: State, points: Points, n_threads: int, *, log_odds: bool) -> float | None:
    """Return the threshold by which some rows get their number of labels in all; None if `n_labels` each are better.

    With `log_odds` e^z is a probability but for its normaliser.
    """
    weights, n_labels, calibration = state.weights, state.n_labels, state.calibration
    n_classes = weights.n_classes
    n_some = min(len(points.labels), MOST_ROWS, max(LEAST_ROWS, ROWS_CELLS // n_classes))
    rows = np.linspace(0, len(points.labels) - 1, n_some).astype(np.intp)
    x, labels = points.x[rows], points.labels.of(rows)
    best, log_p = weights.top_k(x, min(n_classes, 8 * n_labels + 8), n_threads)
    values = log_p.astype(np.float64)
    probable = log_odds or calibration is not None
    if not probable:
        values += weights.log_normalizers(x, n_threads)[:, np.newaxis]
    r = np.ones(n_some) if points.weights is None else points.weights[rows]
    limit = _core.best_threshold(labels.indptr, labels.ids, best, values, r, n_labels)
    if limit is None:
        return None
    return _stated(limit, calibration) if probable else limit


def _stated(limit: float, calibration: Calibration | None) -> float:
    return float(np.exp(limit if calibration is None else calibration.log_probabilities(limit)))
