"""What every classifier shares: its planner, one fitted state, and trainings that replace it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from manyclass.checks import check_flag, check_number, checked_random, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.choice import is_open
from manyclass.choosing.facts import Facts
from manyclass.choosing.trials import LossOfFit, Planned, TriedRates
from manyclass.classifiers.answers import Answers
from manyclass.classifiers.compress import compress
from manyclass.classifiers.data import (
    Caller,
    ClassText,
    Encoder,
    Known,
    encoded,
    encoded_with_classes,
    evaluated_rows,
    going_on,
    points_of,
)
from manyclass.classifiers.ensemble import FRACTION, check_composed, fit_runs, parameters_of_fit
from manyclass.classifiers.files import check_labels_can_be_saved
from manyclass.classifiers.fit_stream import fit_stream
from manyclass.classifiers.memory import bytes_from
from manyclass.classifiers.partial_fit import (
    check_can_go_on,
    check_columns,
    check_features,
    check_same_kind,
    check_warm,
    checked_call,
    known_classes,
)
from manyclass.classifiers.several_labels import LEAST_ROWS, LabelAnswers, best_threshold
from manyclass.classifiers.stream_fits import gone_on_without, is_time_to_fit, kept, split_to_compare
from manyclass.classifiers.streams import (
    FOR_ARRAYS,
    FOR_STREAMS,
    Part,
    Parts,
    encoded_stream,
    is_part,
    refuse,
    train_once,
    within_memory,
)
from manyclass.datasets.stream import Stream
from manyclass.labels import columns_of_classes, find_positions
from manyclass.parts import Parameters
from manyclass.training.blend import mean_log_loss
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.core_training import Callback, Watch
from manyclass.training.growth import NewFeatures, widened
from manyclass.training.incremental import Call
from manyclass.training.plan import AnyPlan, HybridPlan, Labels, PairsPlan, PointsPlan
from manyclass.training.start import ClosedForm, Start
from manyclass.training.state import Points, Starts, State
from manyclass.training.train import First, train
from manyclass.training.validation import fork, held_out
from manyclass.training.weighting import ClassWeight, check_class_weight, taken
from manyclass.weights.arrays import Data, Doubles, Matrix
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.scaling import FeatureScaling
from manyclass.weights.tensor_file import PathLike

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
    several : bool
        Whether rows may have several labels.
    trains_log_odds : bool
        Whether e^z is a probability but for its normaliser.
    """

    parameters: Parameters
    caller: Caller
    tries: Asked = Asked()

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
        if state is None and call.of_fit is not None:
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
            after = after.told_by(found.planned.told)
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
        return self.labelled(after.told_by(found.planned.told), points)

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
    return First(held=held, n_iter_no_change=patience)


def facts_of(points: Points) -> Facts:
    """Return what choices depend on, of the points of a training."""
    found = Facts.of(points.x, points.n_classes, points.labels, several=points.several)
    names = points.column_labels
    columns = None if names is None else columns_of_classes(points.classes, names, len(names))
    return replace(found, n_texts=points.n_texts, of_columns=columns is not None and bool((columns >= 0).all()))


def resolved(parameters: Parameters, state: State) -> Parameters:
    """Return the parameters, those left open being what a fit has made of them; what is set since then counts."""
    found, told = state.told.params, {}
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


Hashing = FeatureHash | None


# What looks on while `fit` makes its passes, as it was given: callback, max_seconds, checkpoint, every and resume.
Looks = tuple[Callback | None, float | None, PathLike | None, str | int, bool]


def is_stream(X: Any, y: Any) -> bool:
    """Whether X holds its labels, in parts; raises ValueError for a `Stream` beside a y."""
    if isinstance(X, Stream) and y is not None:
        raise ValueError("y is given beside a Stream, whose parts have their labels; leave it None")
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, str | bytes | Mapping):
        return False
    if isinstance(X, Sequence):
        return len(X) > 0 and isinstance(X[0], tuple) and is_part(X[0])
    return isinstance(X, Iterable)


class LinearClassifier(Answers):
    """A classifier that trains: every training gives a new state, which takes the place of the one before at once.

    One that fails leaves the model as it was. A subclass has its parameters, a class of planners, and `fit`.
    """

    class_weight: ClassWeight
    verbose: Any
    warm_start: bool
    _planner: ClassVar[type[Planner]]

    compress = compress

    # Training

    def check_parameters(self) -> Any:
        """Return the parts, all parameters checked without data; raises ValueError or TypeError."""
        return self._plans().check()

    def _plans(self) -> Planner:
        return self._planner(Parameters.of(self), self._caller())

    def _fit(
        self,
        data: tuple[Any, Any, ArrayLike | None],
        given: Callable[[Points, Any], Asked],
        looks: Looks,
        named: Mapping[str, ArrayLike | None] = MappingProxyType({}),
        *,
        classes: ArrayLike | None,
        max_memory: int | str | None,
        vectorizer: Encoder | None,
        class_text: ClassText | None = None,
    ) -> Self:
        """Fit to X, y and sample_weight.

        `given` makes of the points and their encoder what a run is given beside them, of arguments that are `named`.
        """
        before, (X, y, sample_weight) = self._warm_state(), data
        callback, max_seconds, checkpoint, every, resume = looks
        planner = self._plans()
        planner.check()
        if is_stream(X, y):
            refuse(FOR_ARRAYS, sample_weight=sample_weight, **named, callback=callback, checkpoint=checkpoint)
            refuse("for texts at once, and not for a stream", class_text=class_text)
            check_can_go_on(planner.parameters)

            X, encoder = encoded_stream(X, vectorizer)
            vectorizer = None if encoder is not None else vectorizer
            classes = classes if classes is not None or encoder is None else X.label_names

            def go_on(own: Parameters, before: State | None, part: Part, call: Call, hashing: Hashing) -> State:
                changed = replace(planner, parameters=own)
                return changed.go_on(before, part, call, classes=classes, hashing=hashing, vectorizer=vectorizer)

            with self._turn():
                seconds = Watch.of(None, max_seconds).max_seconds
                state = fit_stream(planner.parameters, go_on, X, classes, max_memory, seconds)
                return self._taken(state if encoder is None else replace(state, encoder=encoder))
        refuse(FOR_STREAMS, classes=classes)
        most = np.inf if max_memory is None else bytes_from(max_memory)
        n_texts = 0
        if class_text is not None:
            if before is not None or checkpoint is not None:
                name = "warm_start is True" if before is not None else "checkpoint is given"
                raise ValueError(f"{name}, which cannot be with class_text; leave out one of them")
            (X, y, sample_weight), encoder, n_texts = encoded_with_classes(data, vectorizer, class_text)
        else:
            (X, y, sample_weight), encoder = encoded(data, vectorizer, None if before is None else before.encoder)
        watch = Watch.of(callback, max_seconds, Checkpoints.of(checkpoint, every, resume), most)
        points = points_of(
            planner.caller, X, y, sample_weight, self.class_weight, several=planner.several, encoder=encoder
        )
        if n_texts:  # but for those of classes whose weight is 0
            kept = np.arange(points.n_given) if points.rows is None else points.rows
            points = replace(points, n_texts=int(np.sum(kept >= points.n_given - n_texts)))
        if checkpoint is not None:  # who keeps half a training will want to save the whole
            check_labels_can_be_saved(points.classes)
        with self._turn():
            before, beside = self._warm_state(), given(points, encoder)
            parameters = parameters_of_fit(planner.parameters, watch, points, **named)

            def run(own: Parameters, some: Points, watch: Watch) -> State:
                return replace(planner, parameters=own).run(some, watch, beside, before)

            noise = parameters.get("noise", "gumbel")
            state, trained = fit_runs(parameters, points, watch, run, noise=noise, warm=before is not None)
            return self._taken(replace(planner.labelled(state, trained), encoder=encoder))

    def _warm_state(self) -> State | None:
        """What a fit with warm_start begins at, where there is a model."""
        if not self.warm_start or not self.__sklearn_is_fitted__():
            return None
        self._weights.refuse_compressed("fit with warm_start=True")
        return self._fitted

    def partial_fit(
        self,
        X: Data | Parts,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        n_passes: int | Literal["auto"] = "auto",
        learning_rate: float | None = None,
        half_life: float | None = None,
        new_classes: Starts | None = None,
        new_features: NewFeatures = "error",
        n_kept: int | Literal["auto"] = "auto",
        max_memory: int | str | None = None,
    ) -> Self:
        """Go on training with new rows, and return the model: `help(manyclass.classifiers.partial_fit)` has more.

        Parameters
        ----------
        X, y, classes, max_memory : as in fit; new labels become classes, and classes names those still to come
        sample_weight : array-like of shape (n_samples,), default=None; a row of weight 2 counts as two rows
        n_passes, learning_rate : int, passes over these rows; float, a step size in place of the schedule's. "auto" is
            one pass; two of weights on pairs, and in a stream that began without `fit` eight of MarginClassifier
        half_life, new_classes, new_features : float, newer rows until one counts half; dict, first weights; "grow"
        n_kept : int, rows of a stream that may be kept, so that it is fitted to them anew as they become more; 0: none,
            "auto": up to 100,000 rows and 128 MB, none with max_memory
        """
        kept: int | Literal["auto"] = 0 if max_memory is not None and n_kept == "auto" else n_kept
        call = checked_call(n_passes, learning_rate, half_life, new_classes, kept)
        planner = self._plans()

        def step(part: Part, _: Any = None, planner: Planner = planner, hashing: Hashing = None) -> State:
            with self._turn():
                before: State | None = self.__dict__.get("_state")
                after = planner.go_on(before, part, call, classes=classes, new_features=new_features, hashing=hashing)
                self._taken(replace(after, sets=()))  # whose coverage was that of the model before
            return after

        if not is_stream(X, y):
            refuse(FOR_STREAMS, max_memory=max_memory)
            step((X, y, sample_weight))
            return self
        refuse(FOR_ARRAYS, sample_weight=sample_weight)
        planner.check()
        state: State | None = self.__dict__.get("_state")
        if isinstance(X, Stream) and X.n_features is None and state is not None and state.encoder is not None:
            X = X.encoded(state.encoder)
        bounded = within_memory(planner.parameters, state, X, classes, max_memory)
        quiet = partial(step, planner=planner.changed(verbose=0), hashing=bounded.hashing)  # no bar for each part
        train_once(bounded, quiet, shown=planner.parameters["verbose"] > 0)
        return self


class LabelClassifier(LabelAnswers, LinearClassifier):
    """A classifier that also takes an indicator matrix of labels, may have embeddings or a search, and stop early."""

    early_stopping: bool

    @property
    def validation_curve_(self) -> Doubles:
        """The loss of held-out rows after each pass with early_stopping: log-loss in nats, or the margin loss."""
        return self._fitted.told.validation_curve

    @property
    def best_iter_(self) -> int:
        """The number of the pass, from 1, whose weights were kept."""
        return self._fitted.told.best_iter

    def _check_eval_set(self, eval_set: Any, checkpoint: PathLike | None) -> None:
        """Raise ValueError for rows of `fit(eval_set=...)` that can have no effect."""
        if eval_set is not None and not self.early_stopping:
            raise ValueError("eval_set is given, whose rows say when to stop; set early_stopping=True")
        if eval_set is not None and checkpoint is not None:
            raise ValueError("eval_set and checkpoint are given; at most one of them can be")

    def _rows_to_stop_by(self, points: Points, encoder: Any, eval_set: Any) -> tuple[Matrix, Labels] | None:
        """Return the rows of `fit(eval_set=...)`, checked."""
        return None if eval_set is None else evaluated_rows(self._caller(), points, encoder, eval_set)


def planner_of(model: LinearClassifier) -> Planner:
    """Return what makes plans by the estimator's parameters."""
    return model._plans()
