"""What every classifier shares: its planner, one fitted state, and trainings that replace it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED

from manyclass.classifiers.compress import compress
from manyclass.classifiers.predictions import Answers, caller_of, of_state
from manyclass.datasets.stream import Stream
from manyclass.fitting.fit import FOR_ARRAYS, FOR_STREAMS, NewFeatures, checked_call, fit, go_on, is_stream, refuse
from manyclass.fitting.planner import Planner
from manyclass.fitting.points import tagged
from manyclass.fitting.streams import Parts, Rows, train_once, within_memory
from manyclass.parts import Parameters
from manyclass.training.passes import keeping
from manyclass.training.state import ClassWeight, Starts, State
from manyclass.weights.arrays import Data, Doubles, Floats
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import Weights


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
        return self._planner(Parameters.of(self), caller_of(self))

    def _fit(self, data: tuple[Any, Any, ArrayLike | None], options: Mapping[str, Any]) -> Self:
        """Fit to X, y and sample_weight."""
        X, y, sample_weight = data
        data = X, tagged(y) if self._planner.several else y, sample_weight
        with self._turn(), keeping(options.get("keep")):
            before = self._fitted if self.warm_start and self.__sklearn_is_fitted__() else None
            if before is not None:
                before.weights.refuse_compressed("fit with warm_start=True")
            return self._taken(fit(self._plans(), before, data, options))

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
        keep: Literal["best"] | None = None,
    ) -> Self:
        """Go on training with new rows, and return the model: `manyclass.fitting.fit` has more.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or raw, as in fit
        y : array-like of labels, as in fit; new ones become classes
        classes : array-like, labels still to come, default=None
        sample_weight : array-like of shape (n_samples,), default=None; a row of weight 2 counts as two rows
        n_passes : int, passes over these rows; "auto": one, two of weights on pairs, and in a stream that began without
            `fit` eight of MarginClassifier
        learning_rate : float, a step size in place of the schedule's, default=None
        half_life : float, newer rows until one counts half, default=None: never
        new_classes : dict, first weights of new classes, default=None
        new_features : {"error", "grow"}, whether X may have new features, default="error"
        n_kept : int, rows of a stream that may be kept, so that it is fitted to them anew as they become more; 0: none,
            "auto": up to 100,000 rows and 128 MB, none with max_memory
        max_memory : int or str, as in fit, default=None
        keep : {"best"} or None, default=None
            What Ctrl-C leaves. None: it raises KeyboardInterrupt, and the model is as before. "best": of a stream the
            model keeps the whole parts so far, and a warning says so; of arrays it is as before. No row is counted
            that was not learned.
        """
        most_kept: int | Literal["auto"] = 0 if max_memory is not None and n_kept == "auto" else n_kept
        call = checked_call(n_passes, learning_rate, half_life, new_classes, most_kept)
        planner = self._plans()

        def step(part: Rows, _: Any = None, planner: Planner = planner, hashing: FeatureHash | None = None) -> State:
            with self._turn():
                before: State | None = self.__dict__.get("_state")
                known = None if before is None or not before.several else before.classes
                rows, y, weights = part
                part = rows, tagged(y, known, unseen="error") if planner.several else y, weights
                after = go_on(planner, before, part, call, classes, new_features, hashing)
                self._taken(replace(after, sets=()))  # whose coverage was that of the model before
            return after

        state: State | None = self.__dict__.get("_state")
        if not is_stream(X, y):
            refuse(FOR_STREAMS, max_memory=max_memory)
            with keeping(keep), keeping(None):  # of one part nothing is kept
                step((X, y, sample_weight))
            return self
        refuse(FOR_ARRAYS, sample_weight=sample_weight)
        planner.check()
        if isinstance(X, Stream) and X.n_features is None and state is not None and state.encoder is not None:
            X = X.encoded(state.encoder)
        bounded = within_memory(planner.parameters, state, X, classes, max_memory)
        quiet = partial(step, planner=planner.changed(verbose=0), hashing=bounded.hashing)  # no bar for each part
        try:
            with keeping(keep):
                train_once(bounded, quiet, shown=planner.parameters["verbose"] > 0)
        except KeyboardInterrupt:
            self.__dict__.pop("_state", None)
            self.__dict__ |= {} if state is None else {"_state": state}
            raise
        return self


class LabelClassifier(LinearClassifier):
    """A classifier that also takes an indicator matrix of labels, may have embeddings or a search, and stop early."""

    __metadata_request__predict: ClassVar = {"k": UNUSED, "threshold": UNUSED}  # the same for all rows
    early_stopping: bool

    resolved_params_: dict[str, Any] = of_state("fit_report.params", "What parameters that were left open became.")
    multilabel_: bool = of_state("several", "Whether y was an indicator matrix.")
    n_labels_: int = of_state("n_labels", "The mean number of labels a row, rounded.")
    threshold_: float | None = of_state("threshold", "The limit with the best micro-F1 on held-out rows, or None.")
    validation_curve_: Doubles = of_state("fit_report.validation_curve", "The loss of held-out rows after each pass.")
    best_iter_: int = of_state("fit_report.best_iter", "The number of the pass, from 1, whose weights were kept.")

    @property
    def embedding_(self) -> Floats:
        """Embeddings of the features, (n_features, dim), float32, a view; AttributeError without them."""
        embedding: Floats = self._fitted.by_column(_embedded(self._weights).embedding, axis=0)
        return embedding

    def embed(self, X: Data) -> Floats:
        """Return the hidden layer of rows, their summed embeddings, (n_samples, dim), float32, where there is one."""
        state, x = self._asked(X)
        return _embedded(state.weights).transform(x)

    def predict(self, X: Data, *, k: int | None = None, threshold: float | None = None) -> Any:
        """Return the most probable label of each row, (n_samples,). A model of several labels returns an indicator
        matrix: the k best labels; or those whose probability (score, of a model without) is above `threshold`; or, with
        neither, the best label and those above `threshold_`, or `n_labels_` labels where that is None."""
        state, x = self._asked(X)
        if state.several:
            return self._indicator(state, x, k, threshold)
        for name, value in (("k", k), ("threshold", threshold)):
            if value is not None:
                raise ValueError(
                    f"{name} is {value!r}; predict gives one label, as the model was fitted on one a row: "
                    "predict_top_k(X, k) gives the k best ones"
                )
        return state.classes[self._best_classes(state, x, 1)[:, 0]]

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _embedded(weights: Weights) -> Weights:
    if not weights.embeddings.size:
        raise AttributeError("the model has no embeddings; fit it with model='embedding'")
    return weights


def planner_of(model: LinearClassifier) -> Planner:
    """Return what makes plans by the estimator's parameters."""
    return model._plans()
