"""Classifiers whose rows and whose W are on the workers of a Dask cluster, and what they refuse before any work."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import dask
import dask.array
import numpy as np
import scipy.sparse as sp
from distributed import Client, default_client
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_choice, check_number
from manyclass.classifiers.base import LabelClassifier, planner_of
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.dask.loading import Loaded, Origin, aligned, homes, parts_of
from manyclass.dask.predictions import ClusterModel, means_of
from manyclass.dask.trainings import MOST_LOSSES, BlocksTraining, Round, RowsTraining, Training, solver_on_blocks
from manyclass.dask.workers import LostWorkerError, Workers
from manyclass.fitting.fit import check_can_go_on, checked_call, known_classes
from manyclass.fitting.planner import Planner
from manyclass.parts import storing
from manyclass.training.core_training import Watch
from manyclass.training.plan import BatchesPlan

CLUSTER_DEFAULTS = {"division": "auto", "n_merges": 1, "client": None}  # parameters beside those of one machine


def with_client(local: Any) -> Callable[..., None]:
    """Return a constructor with the parameters of `local`, then `division`, `n_merges` and `client`."""
    signature, keyword = inspect.signature(local.__init__), inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, keyword, default=value) for name, value in CLUSTER_DEFAULTS.items()]
    constructor: Any = lambda self, **parameters: None  # noqa: E731
    constructor.__qualname__ = f"Dask{local.__name__}"
    constructor.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])
    return storing(constructor)  # type: ignore[no-any-return]


class DaskClassifier(ClassifierMixin, BaseEstimator):
    """What classifiers on Dask share; `_local` is the estimator that they are on one machine."""

    _local: ClassVar[type[LabelClassifier]]
    _model: Any
    division: Literal["auto", "rows", "rows and classes"]
    n_merges: int
    client: Client | None

    # The state without W answers as that of one machine does.
    _fitted = LabelClassifier._fitted
    classes_ = LabelClassifier.classes_
    class_count_ = LabelClassifier.class_count_
    multilabel_ = LabelClassifier.multilabel_
    resolved_params_ = LabelClassifier.resolved_params_
    n_features_in_ = LabelClassifier.n_features_in_
    feature_names_in_ = LabelClassifier.feature_names_in_
    loss_curve_ = LabelClassifier.loss_curve_
    n_iter_ = LabelClassifier.n_iter_
    __sklearn_is_fitted__ = LabelClassifier.__sklearn_is_fitted__

    @property
    def client_(self) -> Client:
        """The client: the one that was given, else `distributed.default_client()`."""
        return default_client() if self.client is None else self.client

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no client, and has the model in its own memory."""
        state = dict(super().__getstate__())
        state["client"] = None
        if "_model" in state:
            state["_model"] = ClusterModel(None, (self.to_local(),))
        return state

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy with the same client, which cannot be copied."""
        parameters = self.get_params(deep=False)
        copies = {name: clone(parameters[name], safe=False) for name in parameters if name != "client"}
        return type(self)(**copies, client=self.client)

    def _owner(self) -> LabelClassifier:
        """The estimator of one machine with the same parameters."""
        parameters = self.get_params(deep=False)
        return self._local(**{name: parameters[name] for name in parameters if name not in CLUSTER_DEFAULTS})

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        labels: Literal["first", "all"] = "first",
        callback: Callable[[Round], bool | None] | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fit and return self; if it raises, the model is unchanged.

        Parameters
        ----------
        X : dask array of dense or CSR chunks, dask DataFrame, list of delayed parts, or list of files
            Rows, divided along the first axis; files are read by workers, in the XMC repository's form.
        y : dask array or Series, or list of delayed parts, divided as X is, default=None
            A label a row, or indicator matrices, dense or CSR; None where X is files.
        sample_weight : dask array or Series, or list of delayed parts, divided as X is, default=None
            Weights multiply losses and count by their ratios; a row of weight 0 is left out.
        groups : dask array or Series, or list of delayed parts, divided as X is, default=None
            The group of each row, by any labels; early stopping holds whole groups out, on whatever workers they are.
        labels : {"first", "all"}, default="first"
            Which labels of a row of files count.
        callback : callable, default=None
            Called after each pass with a `Round`; True stops training.
        max_seconds : float, default=None
            No pass begins after this many seconds.

        Raises
        ------
        ValueError, TypeError
            For data or parameters that are not allowed, as on one machine.
        RuntimeError
            If workers, the scheduler or the client are lost and training cannot go on; it is raised within 30 seconds.
        """
        seconds = Watch.of(None, max_seconds).seconds_left
        return self._train(X, aligned(X, y, sample_weight, labels, groups), callback, seconds, Origin())

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
        """Train on with new rows, by rows, and return self; if it raises, the model is unchanged.

        W stays on the workers.

        Parameters
        ----------
        X : as in fit
        y : as in fit, new labels becoming classes
        labels : as in fit
        classes : labels that are to come, or None
        sample_weight : as in fit, but the weights themselves, not only their ratios
        n_passes : int, passes over these rows
        learning_rate : float, step size instead of the schedule's, or None
        """
        call, planner = checked_call(n_passes, learning_rate, None, None), planner_of(self._owner())
        planner.check()
        check_can_go_on(planner)
        if hasattr(self, "_model") and self._model.blocks:
            raise ValueError("the model was trained with division='rows and classes'; partial_fit needs one by rows")
        state = getattr(self, "_state", None)
        origin = Origin(call, state, known_classes(state, classes))
        return self._train(X, aligned(X, y, sample_weight, labels), None, np.inf, origin)

    def _train(self, X: Any, parts: list[list[Any]], callback: Any, seconds: float, origin: Origin) -> Self:
        """Train; begin again where workers were lost with all that was known."""
        planner = planner_of(self._owner())
        check_supported(planner)
        check_choice("division", self.division, DIVISIONS)
        check_number("n_merges", self.n_merges, low=1, integer=True)
        client, lost, advice = self.client_, "", ""
        for _ in range(MOST_LOSSES):
            workers = Workers(client)
            try:
                home = homes(client, X, parts, sorted(workers.some_live()))
                workers.places = sorted(set(home), key=home.index)
                numbers = [[n for n, address in enumerate(home) if address == place] for place in workers.places]
                self._fit(Loaded(workers, planner, parts, numbers, origin), callback, seconds)
            except LostWorkerError as fault:  # with all that was known: once more, on those that are left
                lost, advice = str(fault), workers.short_memory()
            else:
                return self
            gc.collect()  # futures of tasks that wait for a lost worker, which would wait for ever
        raise RuntimeError(f"training lost workers again and again, the last time {lost}; {advice}")

    def _fit(self, loaded: Loaded, callback: Any, max_seconds: float) -> None:
        by_blocks = divides_classes(self.division, loaded)
        planned = loaded.plan(solver_on_blocks(loaded) if by_blocks else None)
        plan: Any = planned.plan
        check_planned(plan)
        training: Training
        if by_blocks:
            training = BlocksTraining(loaded, plan, self.n_merges)
        else:
            before = None if loaded.state is None else self._model.there()[0]
            training = RowsTraining(loaded, plan, self.n_merges, before)
        curve, progress = training.fit(callback, max_seconds)
        model, state = training.model(self._owner(), planned, curve)
        self._state, self._model, self.division_ = state, model, "rows and classes" if by_blocks else "rows"
        self.work_, self.shards_ = progress.workers, loaded.numbers

    def _fitted_model(self) -> Any:
        """Return what answers questions; raise NotFittedError where there is no model."""
        check_is_fitted(self)
        return self._model

    def to_local(self) -> Any:
        """Return the fitted estimator of one machine; this brings W to the client."""
        return self._fitted_model().bring()

    def predict(self, X: Any, *, k: int | None = None, threshold: float | None = None) -> Any:
        """Return the most probable label of each row: a dask array, computed on workers when asked for.

        Parameters
        ----------
        X : as in fit
        k : int or None
            As on one machine, of a model of several labels, whose answer is an indicator matrix.
        threshold : float or None
            As k.
        """
        n_classes = self._fitted.n_classes
        if not self.multilabel_:
            if k is not None or threshold is not None:
                raise ValueError("k or threshold is given; they are for several labels a row: leave them None")
            return self._ask(X, "predict", self.classes_.dtype)
        if k is not None:
            check_number("k", k, low=1, high=n_classes, integer=True)
        arguments = {"k": k, "threshold": threshold}
        return self._ask(X, "predict", np.int64, n_classes, sparse=self._fitted.sparse_labels, **arguments)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, a dask array of shape (n_samples, n_classes), float64, computed when asked for."""
        return self._ask(X, "predict_proba", np.float64, self._fitted.n_classes)

    def predict_top_k(self, X: Any, k: int) -> tuple[Any, Any]:
        """Return the k most probable labels of each row and their log-probabilities, best first: dask arrays.

        Parameters
        ----------
        X : as in fit
        k : int in [1, n_classes]
        """
        classes = self._fitted.classes
        check_number("k", k, low=1, high=len(classes), integer=True)
        labels = self._ask(X, "top_labels", classes.dtype, int(k), k=int(k))
        return labels, self._ask(X, "top_log_probabilities", np.float32, int(k), k=int(k))

    def _ask(self, X: Any, question: str, dtype: Any, *more: int, sparse: bool = False, **arguments: Any) -> Any:
        """Return the answers of the model for each part of X as one array, with `more` columns."""
        model = self._fitted_model()
        empty: Any = np.zeros((0, *more), dtype=dtype)
        empty = sp.csr_array(empty) if sparse else empty
        parts = parts_of(X, "X")
        lengths = X.chunks[0] if isinstance(X, dask.array.Array) else [np.nan] * len(parts)
        answers = zip(model.ask(question, parts, empty, arguments), lengths, strict=True)
        arrays = [dask.array.from_delayed(answer, (n, *more), meta=empty) for answer, n in answers]
        return dask.array.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)

    def evaluate(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, labels: Literal["first", "all"] = "first"
    ) -> dict[str, float]:
        """Return exact means over all rows, as on one machine: sums are made on the workers and added up.

        Parameters
        ----------
        X : as in fit
        y : as in fit
        sample_weight : as in fit
        labels : as in fit
        """
        return self._means(aligned(X, y, sample_weight, labels), score=False)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is predicted; of several labels, with exactly the right ones."""
        parts = aligned(X, y, sample_weight, "all" if y is None and self.multilabel_ else "first")
        means = self._means(parts, score=self.multilabel_)
        return means["score"] if self.multilabel_ else 1.0 - means["error"]

    def _means(self, parts: list[list[Any]], *, score: bool) -> dict[str, float]:
        sums = self.client_.compute(self._fitted_model().sums(parts, score=score))
        return means_of(Workers(self.client_).gather(sums))


class DaskSoftmaxClassifier(DaskClassifier):
    """`SoftmaxClassifier` on a Dask cluster: linear models of one or several labels a row. See `manyclass.dask`.

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
    work_ : list of dict, for each worker "n_visits", "class_updates", "bytes_in" and "bytes_out" in the fit
    shards_ : list of list of int, the parts of X that each worker trained on
    division_ : str, what division="auto" became
    client_ : distributed.Client
    others : as of `SoftmaxClassifier`
    """

    _local = SoftmaxClassifier
    validation_curve_ = SoftmaxClassifier.validation_curve_
    best_iter_ = SoftmaxClassifier.best_iter_
    __init__ = with_client(SoftmaxClassifier)


class DaskMarginClassifier(DaskClassifier):
    """`MarginClassifier` on a Dask cluster, by rows: linear models. See `manyclass.dask`.

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
    others : as of `DaskSoftmaxClassifier` and `MarginClassifier`
    """

    _local = MarginClassifier
    __init__ = with_client(MarginClassifier)


# What a fit refuses


# Of each, what needs all rows in one place, searches, rows held out or step sizes that workers cannot share.
NOT_THERE = {
    "model": ("embedding", "pairs", "hybrid"),
    "sampler": ("head_tail", "search"),
    "solver": ("lbfgs",),
    "reduction": ("margin",),
    "schedule": ("adaptive",),
}
NEEDED: dict[str, tuple[Any, ...]] = {"calibration": (None,), "n_models": (1, "auto"), "warm_start": (False,)}


def check_allowed(name: str, value: Any, allowed: tuple[Any, ...] | None = None, where: str = "on a cluster") -> None:
    """Raise ValueError for a value that is not allowed; None: that is one of NOT_THERE."""
    if allowed is not None and value not in allowed:
        raise ValueError(f"{name} is {value!r}; {where} it must be {' or '.join(map(repr, allowed))}")
    if allowed is None and value in NOT_THERE[name]:
        raise ValueError(f"{name} is {value!r}; {where} it must not be {' or '.join(map(repr, NOT_THERE[name]))}")


def check_supported(planner: Planner) -> None:
    """Raise ValueError for parameters that need all rows in one place, or models that are not linear ones."""
    chosen = planner.check()
    for name, allowed in NEEDED.items():
        check_allowed(name, planner.parameters[name], allowed)
    for name in ("model", "sampler", "solver"):
        check_allowed(name, getattr(getattr(chosen, name), "name", None))
    check_allowed("reduction", getattr(chosen.solver, "reduction", "auto"))


DIVISIONS = ("auto", "rows", "rows and classes")
# Solvers by rows and classes: they draw classes of a block, or see them all; and what their parameters may be.
SEPARABLE = ("auto", "implicit", "exact")
BLOCK_PARAMETERS = {"averaging": ("auto", "none"), "formulation": ("auto", "raman"), "u_init": ("log_n_classes",)}
# W whole takes up to four times its size on a worker: as merged, as trained, its change, and the merge of a part; half
# of the memory is left to the rows.
COPIES_OF_W, SHARE = 4, 0.5
FEWEST_COPIES_OF_W = 2  # as merged, and as trained: without these there is no pass


def divides_classes(division: str, loaded: Loaded) -> bool:
    """Whether workers have blocks of classes: by choice, or where all of W on each leaves too little memory.

    It needs exact steps or sampled implicit ones, so "auto" does not choose it where another solver was.

    Raises
    ------
    ValueError
        For what blocks of classes have not, and what a visit to a part of the classes cannot be.
    RuntimeError
        If W cannot be on a worker as it was merged and as it is trained: before the worker is killed.
    """
    solver, workers = loaded.planner.parameters["solver"], loaded.workers
    name, w = getattr(solver, "name", solver), 4.0 * loaded.n_classes * loaded.facts[0].n_features
    needs_rows = loaded.by_batches or any(loaded.n_held_out) or loaded.call is not None
    if division == "rows and classes":
        where = f"with {division=}"
        check_allowed("solver", name, SEPARABLE, where)
        if needs_rows:
            needs = "several labels, margins, 'adagrad', early_stopping and partial_fit need division='rows'"
            raise ValueError(f"division is {division!r}; {needs}")
        parameters = {} if isinstance(solver, str) else solver.get_params()
        for parameter, allowed in BLOCK_PARAMETERS.items():
            check_allowed(parameter, parameters.get(parameter, allowed[0]), allowed, where)
        return True
    may_divide = division == "auto" and not needs_rows and name in SEPARABLE and len(workers.places) > 1
    if may_divide and w * COPIES_OF_W > SHARE * workers.memory:
        return True
    if FEWEST_COPIES_OF_W * w > workers.memory:
        n_bytes = f"W takes {w / 1e6:,.0f} MB, and a worker needs {FEWEST_COPIES_OF_W} times that by rows"
        raise RuntimeError(f"{n_bytes}; {workers.short_memory()}")
    return False


def check_planned(plan: Any) -> None:
    """Raise ValueError for what goes from visit to visit of a worker, and is not merged."""
    schedule = plan.schedule
    check_allowed("decay_every", schedule.decay_every if schedule.name == "inverse" else None, (None,))
    if isinstance(plan, BatchesPlan):
        check_allowed("alpha", plan.alpha, (0.0,))  # which each worker would pay
        return
    check_allowed("schedule", schedule.name)
    check_allowed("max_norm", plan.max_norm, (None,))
