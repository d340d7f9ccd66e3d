"""MarginClassifier: the max-margin loss of one or several labels, with search for the classes that matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from manyclass.checks import check_choice, check_flag, check_number, n_threads_from
from manyclass.estimators.auto import EMBEDDED_DIM
from manyclass.estimators.base import Points, Unseen
from manyclass.estimators.checkpointed import with_checkpoints
from manyclass.estimators.continued import Before, GoneOn, Steps, partial_fit, told_after, with_resolved
from manyclass.estimators.continued_batches import go_on_batches
from manyclass.estimators.ensemble import check_composed, fit_composed, is_composed, taken_over
from manyclass.estimators.exclusion import Exclude, labels_at
from manyclass.estimators.files import saved
from manyclass.estimators.fit_stream import fit_stream
from manyclass.estimators.labels import LabelClassifier
from manyclass.estimators.plans import Chosen, Open, batch_source, batches_plan, check_loop_numbers
from manyclass.estimators.settle import Settled, opened_batches
from manyclass.estimators.streams import Parts, is_stream, refuse_without_stream
from manyclass.estimators.warm import fit_warm, goes_on_warm
from manyclass.estimators.weighting import ClassWeight, check_class_weight
from manyclass.model.tensor_file import PathLike
from manyclass.model.weights import Data, Doubles, Floats, Ids, Matrix
from manyclass.models import MODELS
from manyclass.parts import Given, Part, resolve_part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.batches import fit_batches
from manyclass.training.checkpoint import EVERY, Checkpoints
from manyclass.training.passes import Callback
from manyclass.training.plan import BatchesPlan, Watch

LOSSES = ("margin", "triplet")
MARGIN_MODELS = {name: MODELS[name] for name in ("linear", "embedding")}
MARGIN_SOLVERS = {name: SOLVERS[name] for name in ("adagrad", "sgd", "implicit")}
MARGIN_SAMPLERS = {name: sampler for name, sampler in SAMPLERS.items() if name != "head_tail"}


def _gives_probabilities(model: MarginClassifier) -> bool:
    if model.calibration is None if not hasattr(model, "_weights") else model.calibration_ is None:
        raise AttributeError("MarginClassifier has no probabilities without calibration; set calibration='temperature'")
    return True


@saved
class MarginClassifier(LabelClassifier):
    r"""Linear or one-hidden-layer classifier by the smoothed max-margin loss (Yen et al., ICML 2018).

    Minimises the mean over points of

    .. math:: L_\mu(z, P) = \max_{\alpha \in C} \langle z + 1_N, \alpha\rangle - \frac\mu2 |\alpha|^2,
        \qquad z = W \phi(x) + b,

    P being a point's labels, N the other classes and C the bi-simplex (eq. 10-11; see `manyclass.losses`), by
    minibatches. With :math:`\mu = 0` it is :math:`[\max_{j \in N, k \in P} 1 + z_j - z_k]_+`. :math:`\phi(x)` is x or,
    with model="embedding", the sum of its embeddings. Only classes near the margin have gradients: a search finds them.

    Parameters
    ----------
    loss : {"margin", "triplet"}, default="margin"
        "triplet" sums :math:`[1 + z_j - z_k]_+` over all pairs instead (eq. 7).
    smoothing : float, default=1.0
        :math:`\mu \ge 0`, of the margin. Yen et al. take 1 for one label, 5 for several.
    solver : {"adagrad", "sgd", "implicit"} or object of manyclass.solvers, default="adagrad"
        "adagrad": each row of W and embedding has its own step size, learning_rate over the root of the sum of squared
        gradients, times decay ** pass. "sgd": plain minibatches. "implicit": the proximal step, in closed form: that of
        the margin smoothed by :math:`\mu + \eta|\phi(x)|^2`; for loss="margin" without embeddings. Of their parameters,
        schedule, decay, batch_size (None: 32, n_classes / 16 up to 512 classes), share_classes and shuffle are used.
    sampler : str or object of manyclass.samplers, default="all"
        Which wrong classes a step sees: "all", drawn ones ("uniform", "frequency", ...), or the best by "search".
    n_negatives : int or "auto", default="auto"
        Classes that are drawn; "auto" is 256.
    model : {"linear", "embedding"} or object of manyclass.models, default="linear"
        See `SoftmaxClassifier`.
    dim : int or "auto", default="auto"
        Length of the embeddings; "auto": 192.
    learning_rate : float or "auto", default="auto"
        > 0, half for embeddings. "auto": 1 / root mean square of rows' lengths ("adagrad") or 1 / mean square.
    max_iter : int, default=10
        Passes over the data.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; see `SoftmaxClassifier`.
    fit_intercept : bool, default=True
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the embeddings, the visiting order, the draws and the index.
    verbose : int, default=0
        Above 0: a progress bar.
    calibration : {"temperature"} or None, default=None
        Make probabilities of scores by a temperature found on held-out rows (a tenth); see `SoftmaxClassifier`.
    n_models : int, default=1
        Mean of the scores of so many runs that differ by their seed; see `SoftmaxClassifier`.
    warm_start : bool, default=False
        `fit` begins at the weights of the last fit; see `help(manyclass.estimators.warm)`.

    Attributes
    ----------
    classes_, class_count_ : ndarrays of shape (n_classes,), sorted labels or columns' numbers, and rows of each so far
    multilabel_, n_labels_, threshold_ : bool, int, float: indicator y, mean labels a row, score of as many, or None
    coef_, intercept_, embedding_ : float32, (n_classes, n_features or dim), (n_classes,) and (n_features, dim); views
    loss_curve_ : ndarray of shape (n_iter,), float64, mean loss over each pass, of the classes that its steps saw
    resolved_params_ : dict, what parameters left open became
    calibration_, n_iter_, n_features_in_, feature_names_in_ : Calibration or None, int, int, names of features

    Notes
    -----
    Scores are no log-probabilities, and there is no `predict_proba`, unless calibration="temperature" makes both.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import MarginClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> MarginClassifier(random_state=0).fit(X, [5, 6, 7] * 20).predict(X[:3]).tolist()
    [5, 6, 7]
    """

    _trains_log_odds = False

    partial_fit = partial_fit

    def __init__(
        self,
        *,
        loss: Literal["margin", "triplet"] = "margin",
        smoothing: float = 1.0,
        solver: Literal["adagrad", "sgd", "implicit"] | Part = "adagrad",
        sampler: Literal["all", "uniform", "frequency", "block", "frequency_block", "search"] | Part = "all",
        n_negatives: int | Literal["auto"] = "auto",
        model: Literal["linear", "embedding"] | Part = "linear",
        dim: int | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        max_iter: int = 10,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        calibration: Literal["temperature"] | None = None,
        n_models: int = 1,
        warm_start: bool = False,
    ) -> None:
        self.loss = loss
        self.smoothing = smoothing
        self.solver = solver
        self.sampler = sampler
        self.n_negatives = n_negatives
        self.model = model
        self.dim = dim
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.calibration = calibration
        self.n_models = n_models
        self.warm_start = warm_start

    def fit(
        self,
        X: Data | Parts,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        max_memory: int | str | None = None,
        callback: Callback | None = None,
        max_seconds: float | None = None,
        checkpoint: PathLike | None = None,
        every: str | int = EVERY,
        resume: bool = False,
    ) -> Self:
        """Return it fitted; a ValueError leaves it as it was. A ConvergenceWarning tells of divergence, or Ctrl-C.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), made float32
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, two or more; or 0 and 1, dense or sparse. Rows without a label are left out.
        sample_weight : array-like of shape (n_samples,), weights of losses by their ratios; 0: left out, default=None
        callback, max_seconds : callable, after each pass, of a `TrainingState`; True stops. Most seconds of training.
        checkpoint, every, resume : folder, "10min" or passes, bool; see `help(manyclass.training.checkpoint)`
        classes, max_memory : labels to come and most memory, of a stream as X: `help(manyclass.estimators.fit_stream)`
        """
        if is_stream(X, y):
            own: dict[str, Any] = {"sample_weight": sample_weight, "callback": callback, "checkpoint": checkpoint}
            streamed: Self = fit_stream(self, X, classes=classes, max_memory=max_memory, max_seconds=max_seconds, **own)
            return streamed
        refuse_without_stream(classes=classes, max_memory=max_memory)
        chosen = self.check_parameters()
        watch = Watch.of(callback, max_seconds, Checkpoints.of(checkpoint, every, resume))
        points = self._points(X, y, sample_weight)
        fitted: Self = with_checkpoints(self, watch, points)
        if is_composed(self):
            fit_composed(fitted, points, watch, lambda member, *on: member._fit_points(chosen, *on))
        else:
            fitted._fit_points(chosen, points, watch)
        return self if fitted is self else taken_over(self, fitted)

    def _fit_points(self, chosen: Chosen, points: Points, watch: Watch) -> Self:
        if goes_on_warm(self):
            found = fit_warm(self, points, watch)
            self._take(points, found.weights, found.curve, _squares=found.more["_squares"])
            return self
        n_classes = len(points.classes)
        settled = self._settle(chosen, points.x, n_classes)
        assert isinstance(settled.plan, BatchesPlan)
        weights, curve, squares = fit_batches(settled.plan, points.x, points.labels, n_classes, watch, points.weights)
        self._take(points, weights, curve, _squares=squares, **self._told(settled))
        return self

    def _go_on(self, points: Points, before: Before, steps: Steps) -> GoneOn:
        own = self if before.weights is None else with_resolved(self)
        settled = own._settle(own.check_parameters(), points.x, len(points.classes))
        assert isinstance(settled.plan, BatchesPlan)
        found = go_on_batches(settled.plan, points, before, steps)
        return replace(found, more=found.more | told_after(self, before, settled))

    def _told(self, settled: Settled) -> dict[str, Any]:
        """What is told of how a plan came to be."""
        return {"resolved_params_": settled.params}

    def check_parameters(self) -> Chosen:
        """Return the parts, all parameters checked without data; raises ValueError or TypeError."""
        check_choice("loss", self.loss, LOSSES)
        check_flag("warm_start", self.warm_start)
        check_composed(self)
        check_class_weight(self.class_weight)
        check_number("smoothing", self.smoothing, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_loop_numbers(self.get_params(deep=False))
        return Chosen(
            resolve_part("solver", self.solver, MARGIN_SOLVERS, "manyclass.solvers"),
            resolve_part("sampler", self.sampler, MARGIN_SAMPLERS, "manyclass.samplers"),
            resolve_part("model", self.model, MARGIN_MODELS, "manyclass.models"),
        )

    def _settle(self, chosen: Chosen, x: Matrix, n_classes: int) -> Settled:
        """The plan, and what parameters left open became in it."""
        given = Given(self)
        for name in ("solver", "sampler", "model", "loss", "class_weight", "warm_start"):
            given.take(name)
        smoothing = float(given.take("smoothing")) if self.loss == "margin" else 0.0
        assert chosen.solver is not None
        assert chosen.model is not None
        embeds = chosen.model.name == "embedding"
        if chosen.solver.name == "implicit" and (self.loss != "margin" or embeds):
            raise ValueError(
                f"solver='implicit' needs loss='margin' and no embeddings; they are {self.loss!r} and {self.model!r}"
            )
        plan = batches_plan(
            given,
            chosen,
            x,
            n_classes,
            loss=self.loss,
            smoothing=smoothing,
            open_=Open(n_negatives=256, max_iter=10, decay=0.9),
            dim=int(given.take("dim", EMBEDDED_DIM)) if embeds else None,
            relu=embeds and chosen.model.get_params()["activation"] == "relu",
            source=batch_source(chosen.sampler, n_classes, sampled=False, draws=SAMPLERS["uniform"]()),
        )
        given.refuse_rest("here")
        return Settled(plan, opened_batches(self, plan, chosen.solver))

    def predict_top_k(  # type: ignore[override]
        self, X: Data, k: int, *, exclude: Exclude = None
    ) -> tuple[NDArray[Any], Floats]:
        """Return the k labels of highest score with their scores, best first.

        Parameters
        ----------
        X, k : {array-like, sparse matrix} of shape (n_samples, n_features); int in [1, n_classes]
        exclude : matrix of shape (n_samples, n_classes), or list of n_samples lists of labels, default=None
            What a row is not to get: see `SoftmaxClassifier.predict_top_k`.

        Returns
        -------
        labels : ndarray of shape (n_samples, k), with the dtype of `classes_`
        scores : ndarray of shape (n_samples, k), float32; -inf where exclude leaves fewer than k labels
        """
        x = self._validated(X)
        check_number("k", k, low=1, high=len(self.classes_), integer=True)

        def best(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
            found, log_probabilities = self._top_k(some, width)
            if self.calibration_ is not None:
                return found, self._stated(log_probabilities).astype(np.float32), np.zeros(len(found))
            shift = self._weights.log_normalizers(some, n_threads_from(self.n_jobs))
            return found, (log_probabilities + shift[:, np.newaxis]).astype(np.float32), shift

        positions, scores, _ = self._best(x, int(k), exclude, best)
        return labels_at(self.classes_, positions), scores

    def evaluate(
        self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop"
    ) -> dict[str, float]:
        """Return exact means over rows, "error" and "top5_error", and "n_unseen", the rows left out; of an indicator
        matrix "error", "precision_at_1", "precision_at_3" and "precision_at_5", over the rows that have labels.

        Parameters
        ----------
        X, y, sample_weight : data, their labels and weights, as in fit
        unseen : {"drop", "error"}, default="drop"
            Rows whose label was not seen in fit are left out, or refused by a ValueError.
        """
        found = super().evaluate(X, y, sample_weight, unseen=unseen)
        if self.calibration_ is None:
            found.pop("log_loss", None)
        return found

    # Scores of a margin are no log-probabilities: without calibration there is neither of these.

    predict_proba = available_if(_gives_probabilities)(LabelClassifier.predict_proba)
    predict_log_proba = available_if(_gives_probabilities)(LabelClassifier.predict_log_proba)
