"""Classifiers whose rows, and whose W, are on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import dask
import dask.array
import numpy as np
import scipy.sparse as sp
from distributed import Client, default_client
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from manyclass.checks import check_choice, check_number
from manyclass.classifiers.base import planner_of
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.partial_fit import check_can_go_on
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.targets import check_targets, sorted_classes
from manyclass.dask import predictions
from manyclass.dask.by_blocks import BlocksTraining, solver_on_blocks
from manyclass.dask.by_rows import RowsTraining
from manyclass.dask.collections import aligned, homes, parts_of
from manyclass.dask.loading import Loaded
from manyclass.dask.partial_fit import Origin, without_weights
from manyclass.dask.refusals import DIVISIONS, check_memory, check_settled, check_supported, divides_classes
from manyclass.dask.rounds import MOST_LOSSES, Round
from manyclass.dask.workers import Crew, LostWorkerError
from manyclass.training.calls import Call


def with_client(local: type) -> Callable[..., None]:
    """Return a constructor with the parameters of `local`, then `division`, `n_merges` and `client`."""
    own = inspect.signature(local)
    more = [("division", "auto"), ("n_merges", 1), ("client", None)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [*own.parameters.values(), *(inspect.Parameter(name, keyword, default=value) for name, value in more)]
    signature = own.replace(parameters=parameters)

    def construct(self: Any, **given: Any) -> None:
        bound = signature.bind(**given)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    of_self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    made: Any = construct  # what scikit-learn reads names of parameters from
    made.__signature__ = signature.replace(parameters=[of_self, *parameters])
    return made  # type: ignore[no-any-return]


class DaskClassifier(ClassifierMixin, BaseEstimator):
    """What classifiers on Dask share; `_local` is the estimator that they are on one machine."""

    _local: ClassVar[type]
    division: Literal["auto", "rows", "rows and classes"]
    n_merges: int
    client: Client | None

    classes_: NDArray[Any]
    multilabel_: bool

    @property
    def client_(self) -> Client:
        """The client: the one that was given, else `distributed.default_client()`."""
        return default_client() if self.client is None else self.client

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no client, and the model in its own memory."""
        state = dict(super().__getstate__())
        state["client"] = None
        if "_model" in state:
            state["_model"] = predictions.LocalModel(self.to_local())
        return state

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy with the same client, which cannot be copied."""
        own = self.get_params(deep=False)
        return type(self)(**{name: own[name] if name == "client" else clone(own[name], safe=False) for name in own})

    def _owner(self) -> Any:
        """The estimator of one machine with the same parameters."""
        own = self.get_params(deep=False)
        for name in ("division", "n_merges", "client"):
            del own[name]
        return self._local(**own)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        labels: Literal["first", "all"] = "first",
        callback: Callable[[Round], bool | None] | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fit and return self; if it raises, the model is unchanged.

        Parameters
        ----------
        X : dask array of dense or CSR chunks, dask DataFrame, list of delayed parts, or list of files
            Rows, divided along the first axis; files are read by workers, in the XMC repository's form.
        y, sample_weight : dask array or Series, or list of delayed parts, divided as X is, default=None
            A label a row, or indicator matrices, dense or CSR; None where X is files. Weights of losses by their
            ratios, 0: the row is left out.
        labels : {"first", "all"}, default="first"
            Which labels of a row of files count.
        callback : callable, default=None
            Called after each pass with a `Round`; True stops training.
        max_seconds : float, default=None
            No pass begins after so many seconds.

        Raises
        ------
        ValueError, TypeError
            For data or parameters that cannot be, in words as on one machine.
        RuntimeError
            If workers, the scheduler or the client are lost and training cannot go on, within 30 seconds.
        """
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, low=0)
        seconds = np.inf if max_seconds is None else float(max_seconds)
        parts = aligned(X, y, sample_weight, labels)
        return self._train(X, parts, Origin, callback, seconds)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: Any = None,
        *,
        n_passes: int = 1,
        learning_rate: float | None = None,
        labels: Literal["first", "all"] = "first",
    ) -> Self:
        """Train on with new rows, by rows; if it raises, the model is unchanged. W stays on the workers.

        Parameters
        ----------
        X, y, labels : as in fit, new labels becoming classes
        classes : labels that are to come, or None
        sample_weight : as in fit, but the weights themselves, not only their ratios
        n_passes, learning_rate : int, passes over these rows; float, step size instead of the schedule's, or None
        """
        check_number("n_passes", n_passes, low=1, integer=True)
        if learning_rate is not None:
            check_number("learning_rate", learning_rate, low=0, open_low=True)
        owner, call = self._owner(), Call(int(n_passes), learning_rate)
        owner.check_parameters()
        check_can_go_on(planner_of(owner).parameters)
        parts = aligned(X, y, sample_weight, labels)
        return self._train(X, parts, lambda: self._origin(call, classes), None, np.inf)

    def _origin(self, call: Call, classes: ArrayLike | None) -> Origin:
        """What a call begins with."""
        model, own = self.__dict__.get("_model"), self.__dict__.get("classes_")
        known = own if own is not None else None
        if classes is not None:
            check_targets(classes, several=False)
            known = sorted_classes(np.asarray(classes).ravel(), own, "classes")[0]
        if model is None:
            return Origin(call, known)
        if isinstance(model, predictions.BlocksModel):
            raise ValueError("the model was trained with division='rows and classes'; partial_fit needs one by rows")
        there = model.held()
        if isinstance(model, predictions.LocalModel):
            return Origin(call, known, there, without_weights(there))
        crew = Crew(self.client_, [])
        crew.places = sorted(crew.some_live())
        [facts] = crew.gather([crew.submit_where_it_is(there, without_weights, there)])
        return Origin(call, known, there, facts)

    def _train(
        self, X: Any, parts: list[list[Any]], origin: Callable[[], Origin], callback: Any, seconds: float
    ) -> Self:
        """Train, again where workers were lost with all that was known."""
        owner = self._owner()
        check_supported(owner)
        check_choice("division", self.division, DIVISIONS)
        check_number("n_merges", self.n_merges, low=1, integer=True)
        client, lost, advice = self.client_, "", ""
        for _ in range(MOST_LOSSES):
            crew = Crew(client, [])
            try:
                self._fit(crew, owner, X, parts, origin(), callback, seconds)
            except LostWorkerError as fault:  # with all that was known: once more, on those that are left
                lost, advice = str(fault), crew.short_memory()
            else:
                return self
            crew.abandon()
        raise RuntimeError(f"training lost workers again and again, the last time {lost}; {advice}")

    def _fit(
        self,
        crew: Crew,
        owner: Any,
        X: Any,
        parts: list[list[Any]],
        origin: Origin,
        callback: Any,
        max_seconds: float,
    ) -> None:
        client = crew.client
        home = homes(client, X, parts, sorted(crew.some_live()))
        used = sorted(set(home), key=home.index)
        crew.places = list(used)
        numbers = [[at for at, own in enumerate(home) if own == place] for place in used]
        loaded = Loaded(crew, owner, parts, numbers, origin)
        by_blocks = divides_classes(self.division, owner, loaded)
        if not by_blocks:
            check_memory(loaded)
        [settled] = crew.gather([loaded.settle(solver_on_blocks(owner, loaded) if by_blocks else None)])
        check_settled(settled.plan)
        training = (
            BlocksTraining(crew, loaded, settled.plan, self.n_merges)
            if by_blocks
            else RowsTraining(crew, loaded, settled.plan, self.n_merges)
        )
        curve, told = training.fit(callback, max_seconds)
        futures = training.model(owner, settled, curve)
        model: Any = predictions.RemoteModel(client, tuple(futures))
        if by_blocks:
            model = predictions.BlocksModel.of(client, futures, len(loaded.shards))
        before = [] if origin.facts is None else origin.facts.curve.tolist()
        self._take(model, crew, loaded, [*before, *curve], told)
        if isinstance(training, RowsTraining) and hasattr(owner, "early_stopping") and origin.call is None:
            self.validation_curve_ = np.array(training.watch.curve)
            self.best_iter_ = training.watch.best_iter or len(curve)

    def _take(self, model: Any, crew: Crew, loaded: Loaded, curve: list[float], told: Round) -> None:
        [classes] = crew.gather([loaded.classes[0]])
        self.classes_, self.multilabel_, self._sparse_labels = classes, loaded.several, loaded.sparse_labels
        self.n_features_in_ = loaded.told[0].n_features
        names = loaded.told[0].names
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.loss_curve_ = np.array(curve)
        self.n_iter_ = len(curve)
        self.work_ = told.workers
        self.division_ = "rows and classes" if isinstance(model, predictions.BlocksModel) else "rows"
        self.shards_ = loaded.numbers
        self._model = model

    def _fitted(self) -> Any:
        if "_model" not in self.__dict__:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def to_local(self) -> Any:
        """Return the fitted estimator of one machine; this brings W to the client."""
        return self._fitted().bring()

    def predict(self, X: Any, *, k: int | None = None, threshold: float | None = None) -> Any:
        """Return the most probable label of each row: a dask array, computed on workers when asked for.

        Parameters
        ----------
        X : as in fit
        k, threshold : int or None, float or None
            Of a model of several labels, whose answer is an indicator matrix: as on one machine.
        """
        classes = self._classes()
        if not self.multilabel_:
            if k is not None or threshold is not None:
                raise ValueError(
                    "k or threshold is given; they are for models of several labels a row: leave them None"
                )
            return self._of_parts(X, "predict", classes.dtype, ())
        if k is not None:
            check_number("k", k, low=1, high=len(classes), integer=True)
        given = (("k", k), ("threshold", threshold))
        return self._of_parts(X, "predict", np.dtype(np.int64), (len(classes),), *given, sparse=self._sparse_labels)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, a dask array of shape (n_samples, n_classes), float64, computed when asked for."""
        return self._of_parts(X, "predict_proba", np.dtype(np.float64), (len(self._classes()),))

    def predict_top_k(self, X: Any, k: int) -> tuple[Any, Any]:
        """Return the k most probable labels of each row and their log-probabilities, best first: dask arrays.

        Parameters
        ----------
        X : as in fit
        k : int in [1, n_classes]
        """
        check_number("k", k, low=1, high=len(self._classes()), integer=True)
        labels = self._of_parts(X, "top_labels", self._classes().dtype, (int(k),), int(k))
        return labels, self._of_parts(X, "top_log_probabilities", np.dtype(np.float32), (int(k),), int(k))

    def _classes(self) -> NDArray[Any]:
        self._fitted()
        classes: NDArray[Any] = self.classes_
        return classes

    def _of_parts(self, X: Any, what: str, dtype: Any, more: tuple[int, ...], *given: Any, sparse: bool = False) -> Any:
        model = self._fitted()
        lengths = X.chunks[0] if isinstance(X, dask.array.Array) else None
        found = []
        for at, part in enumerate(parts_of(X, "X")):
            made = model.ask(what, part, *given)
            n = np.nan if lengths is None else lengths[at]
            meta = sp.csr_array((0, 0), dtype=dtype) if sparse else np.zeros((0,) * (1 + len(more)), dtype=dtype)
            found.append(dask.array.from_delayed(made, (n, *more), meta=meta))
        return dask.array.concatenate(found, axis=0, allow_unknown_chunksizes=True)

    def evaluate(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, labels: Literal["first", "all"] = "first"
    ) -> dict[str, float]:
        """Return exact means over all rows, as on one machine: sums are made on the workers and added up.

        Parameters
        ----------
        X, y, sample_weight, labels : as in fit
        """
        model = self._fitted()
        sums = [model.sums(part) for part in aligned(X, y, sample_weight, labels)]
        client = self.client_
        crew = Crew(client, [])
        return predictions.means_of(crew.gather(client.compute(sums)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is predicted; of several labels, with exactly the right ones."""
        model = self._fitted()
        if self.multilabel_:
            client = self.client_
            sums = [model.score_sums(part) for part in aligned(X, y, sample_weight, "all" if y is None else "first")]
            found = Crew(client, []).gather(client.compute(sums))
            return float(sum(right for right, _ in found) / sum(total for _, total in found))
        return 1.0 - self.evaluate(X, y, sample_weight)["error"]


class DaskSoftmaxClassifier(DaskClassifier):
    """`SoftmaxClassifier` on a Dask cluster: linear models of one or several labels a row. See `help(manyclass.dask)`.

    Parameters
    ----------
    division : {"auto", "rows", "rows and classes"}, default="auto"
        What each worker has of W: all of it, or the weights of some classes at a time; "auto": by sizes.
    n_merges : int, default=1
        Merges of what the workers have learnt, in a pass; by rows and classes, how often each block visits each worker.
    client : distributed.Client or None, default=None
        None: `distributed.default_client()`. A clone has the same one, a pickle none.
    others : as of `SoftmaxClassifier`

    Attributes
    ----------
    classes_, multilabel_, n_features_in_, feature_names_in_, loss_curve_, n_iter_ : as of `SoftmaxClassifier`
    validation_curve_, best_iter_ : as of `SoftmaxClassifier`, of a fit
    work_ : list of dict, for each worker "n_visits", "class_updates", "bytes_in" and "bytes_out" in the fit
    shards_ : list of list of int, the parts of X that each worker trained on
    division_ : str, what division="auto" became
    client_ : distributed.Client
    """

    _local = SoftmaxClassifier
    __init__ = with_client(SoftmaxClassifier)


class DaskMarginClassifier(DaskClassifier):
    """`MarginClassifier` on a Dask cluster, by rows: linear models. See `help(manyclass.dask)`.

    Parameters
    ----------
    division : {"auto", "rows"}, default="auto"
        Both are by rows: each worker has all of W.
    n_merges : int, default=1
        Merges of what the workers have learnt, in a pass.
    client : distributed.Client or None, default=None
        None: `distributed.default_client()`. A clone has the same one, a pickle none.
    others : as of `MarginClassifier`

    Attributes
    ----------
    classes_, multilabel_, n_features_in_, feature_names_in_, loss_curve_, n_iter_ : as of `MarginClassifier`
    work_, shards_, division_, client_ : as of `DaskSoftmaxClassifier`
    """

    _local = MarginClassifier
    __init__ = with_client(MarginClassifier)
