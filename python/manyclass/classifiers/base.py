"""What every classifier shares: its planner, one fitted state, and trainings that replace it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from manyclass.classifiers.compress import compress
from manyclass.classifiers.files import check_labels_can_be_saved
from manyclass.classifiers.predictions import Answers
from manyclass.classifiers.several_labels import LabelAnswers
from manyclass.datasets.stream import Stream
from manyclass.fitting.fit_stream import fit_stream
from manyclass.fitting.memory import bytes_from
from manyclass.fitting.partial_fit import check_can_go_on, checked_call
from manyclass.fitting.planner import Asked, Planner
from manyclass.fitting.points import ClassText, Encoder, encoded, encoded_with_classes, evaluated_rows, points_of
from manyclass.fitting.runs import fit_runs, parameters_of_fit
from manyclass.fitting.streams import (
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
from manyclass.parts import Parameters
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.core_training import Callback, Watch
from manyclass.training.incremental import Call, NewFeatures
from manyclass.training.plan import Labels
from manyclass.training.state import Points, Starts, State
from manyclass.training.weighting import ClassWeight
from manyclass.weights.arrays import Data, Doubles, Matrix
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.tensor_file import PathLike

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
        """Go on training with new rows, and return the model: `help(manyclass.fitting.partial_fit)` has more.

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
        return self._fitted.fit_report.validation_curve

    @property
    def best_iter_(self) -> int:
        """The number of the pass, from 1, whose weights were kept."""
        return self._fitted.fit_report.best_iter

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
