"""SoftmaxClassifier: multinomial logistic regression for very many classes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_flag, check_number, n_threads_from
from manyclass.estimators.base import Points
from manyclass.estimators.certificate import duality_gap
from manyclass.estimators.checkpointed import with_checkpoints
from manyclass.estimators.compress import check_not_compressed
from manyclass.estimators.continued import Before, GoneOn, Steps, partial_fit, with_resolved
from manyclass.estimators.continued_batches import go_on
from manyclass.estimators.ensemble import add_runs, check_composed, fit_composed, is_composed, taken_over
from manyclass.estimators.files import saved
from manyclass.estimators.fit_stream import fit_stream
from manyclass.estimators.fitting import fit_softmax, refuse_candidates
from manyclass.estimators.history import History
from manyclass.estimators.labels import LabelClassifier
from manyclass.estimators.plans import Chosen, check_loop_numbers, part_of
from manyclass.estimators.settle import BATCH_SOLVERS, Settled
from manyclass.estimators.streams import Parts, is_stream, refuse_without_stream
from manyclass.estimators.trials import Report
from manyclass.estimators.warm import begins_by_points, fit_warm, goes_on_warm, warm_start_of
from manyclass.estimators.weighting import (
    ClassWeight,
    check_class_weight,
    counting,
    normalized,
    raw_weights,
    taken,
    times_class_weight,
)
from manyclass.model.scaling import FeatureScaling
from manyclass.model.tensor_file import PathLike
from manyclass.model.weights import Data, Doubles, LinearWeights
from manyclass.models import MODELS, ModelName
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS, SamplerName
from manyclass.solvers import SOLVERS, SolverName
from manyclass.training.checkpoint import EVERY, Checkpoints
from manyclass.training.passes import Callback
from manyclass.training.plan import Watch
from manyclass.training.start import Start

TABLES = ("alpha_path_", "learning_rate_table_")  # log-losses by what was tried


@saved
class SoftmaxClassifier(LabelClassifier):
    r"""Softmax (multinomial logistic) regression by stochastic gradients whose cost is independent of K.

    Minimises the mean log-loss :math:`\frac1N \sum_i \log(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})`, rows
    weighted by `sample_weight`, and a ridge on W, over W and intercepts; `help(manyclass.solvers)` tells how (Fagan &
    Iyengar 2018), `help(manyclass.estimators.auto)` what "auto" is: of several labels P, `manyclass.models.Hybrid`.
    In minibatches it is the cross-entropy :math:`\sum_{k \in P} [\log \sum_j e^{z_j} - z_k]` (Yen et al. 2018, eq. 2).

    Parameters
    ----------
    solver : str or object of manyclass.solvers, default="auto"
        How a step is made; "auto": "lbfgs" for few data, else "exact" or "implicit"; several labels: "adagrad".
    sampler : str or object of manyclass.samplers, default="auto"
        Which wrong classes a step sees; "auto": "frequency_block"; in minibatches "all" or "frequency".
    n_negatives : int or "auto", default="auto"
        Classes per step, in whole sixteens with "frequency_block"; more than there are mean all. "auto": 64 to 1,024.
    model : {"auto", "linear", "embedding", "sparse", "hybrid"} or object of manyclass.models, default="auto"
        Scores are W phi(x) + b, phi(x) being x or a sum of embeddings, or both, added; see `help(manyclass.models)`.
    dim : int or "auto", default="auto"
        Length of the embeddings; "auto" is 192, of each run.
    alpha : float or "auto", default="auto"
        Ridge per point, alpha/2 ||W||^2, W being of scaled features; "auto" with solver="auto": found on held-out rows.
    learning_rate : float, "auto" or "grid", default="auto"
        Step size on the gradient of the *mean* loss, > 0; "grid": the best power of ten on a tenth of the points.
    max_iter : int or "auto", default="auto"
        Passes over the data, "auto": 2 to 20; iterations of "lbfgs", which ends before "auto" is over.
    early_stopping : bool, default=False
        Stop when the log-loss of points held out falls no more; return the best. For linear models of one label a row.
    validation_fraction : float, default=0.1
        Share of the points that is held out, in ]0, 1[. One point of each class always stays for training.
    n_iter_no_change : int, default=5
        Passes without a lower held-out loss after which early_stopping stops.
    class_weight : dict, "balanced" or None, default=None
        What weights of rows are multiplied by; "balanced": n_samples / (n_classes * number of the class's rows).
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: a progress bar with the running loss, class updates per second and the time left.
    calibration : {"temperature"} or None, default=None
        Divide scores by the best temperature for held-out rows; see `help(manyclass.estimators.calibration)`.
    n_models : int or "auto", default="auto"
        Mean of the scores of so many runs that differ by their seed, kept as one model; "auto": at most 3.
    warm_start : bool, default=False
        `fit` begins at the weights of the last fit, with what it chose; see `help(manyclass.estimators.warm)`.

    Attributes
    ----------
    classes_, class_count_ : ndarrays of shape (n_classes,), sorted labels or columns' numbers, and rows of each so far
    coef_, intercept_, embedding_ : float32, (n_classes, n_features or dim), (n_classes,) and (n_features, dim); views
    loss_curve_ : ndarray of shape (n_iter,), float64, log-loss in training, in nats, of drawn classes from below
    n_iter_, best_iter_, n_features_in_, feature_names_in_ : int, passes, the one (from 1) that was kept; names if X has
    resolved_params_, auto_report_ : dict, what parameters left open became; list of dict, what was tried for it
    alpha_path_, learning_rate_table_, validation_curve_ : held-out log-losses, dicts by value, an ndarray by pass
    multilabel_, n_labels_, threshold_, calibration_ : bool, int, float or None, `Calibration` or None
        Whether y was an indicator matrix; its mean number of labels a row; the probability of the best micro-F1.

    Examples
    --------
    >>> from manyclass import SoftmaxClassifier, solvers
    >>> X, y = [[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 20, ["ant", "bee", "cow"] * 20
    >>> SoftmaxClassifier(solver=solvers.UMax(delta=2.0), random_state=0).fit(X, y).predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    """

    partial_fit = partial_fit

    alpha_path_: dict[float, float]
    learning_rate_table_: dict[float, float]
    auto_report_: Report
    validation_curve_: Doubles
    best_iter_: int
    _auto_runs = 1  # what n_models="auto" stands for, as the last run has found

    def __init__(
        self,
        *,
        solver: SolverName | Part = "auto",
        sampler: SamplerName | Part = "auto",
        n_negatives: int | Literal["auto"] = "auto",
        model: ModelName | Part = "auto",
        dim: int | Literal["auto"] = "auto",
        alpha: float | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto", "grid"] = "auto",
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        calibration: Literal["temperature"] | None = None,
        n_models: int | Literal["auto"] = "auto",
        warm_start: bool = False,
    ) -> None:
        self.solver = solver
        self.sampler = sampler
        self.n_negatives = n_negatives
        self.model = model
        self.dim = dim
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
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
        candidates: ArrayLike | None = None,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
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
        candidates : array-like of shape (n_samples, n_candidates), labels for heads of "head_tail"; None: searched for
        coef_init, intercept_init : array-like of their shapes, start of a linear model of one label a row
        callback, max_seconds : callable, after each pass, of a `TrainingState`; True stops. Most seconds of training.
        checkpoint, every, resume : folder, "10min" or passes, bool; see `help(manyclass.training.checkpoint)`
        classes, max_memory : labels to come and most memory, of a stream as X: `help(manyclass.estimators.fit_stream)`
        """
        if is_stream(X, y):
            own: dict[str, Any] = {"candidates": candidates, "coef_init": coef_init, "intercept_init": intercept_init}
            own |= {"sample_weight": sample_weight, "callback": callback, "checkpoint": checkpoint}
            streamed: Self = fit_stream(self, X, classes=classes, max_memory=max_memory, max_seconds=max_seconds, **own)
            return streamed
        refuse_without_stream(classes=classes, max_memory=max_memory)
        chosen = self.check_parameters()
        watch = Watch.of(callback, max_seconds, Checkpoints.of(checkpoint, every, resume))
        points = self._points(X, y, sample_weight)
        start = Start.of(
            coef_init, intercept_init, len(points.classes), points.x.shape[1], fit_intercept=self.fit_intercept
        )
        given = {"candidates": candidates, "coef_init": coef_init, "intercept_init": intercept_init}
        fitted: Self = with_checkpoints(self, watch, points, **given)

        def run(member: Any, *on: Any) -> Any:
            return member._fit_points(member.check_parameters(), *on, candidates, start)

        if is_composed(self):
            fit_composed(fitted, points, watch, run)
        else:
            warm, fitted = goes_on_warm(self), copy.copy(fitted)  # so that a run that fails leaves the old model
            fitted._fit_points(chosen, points, watch, candidates, start)
            if not warm:
                add_runs(fitted, points, watch, run)
        return self if fitted is self else taken_over(self, fitted)

    def _fit_points(
        self, chosen: Chosen, points: Points, watch: Watch, candidates: ArrayLike | None, start: Start | None
    ) -> Self:
        """Make one run and take over all that it has found, at once."""
        owner, before = self, {}
        if start is None and goes_on_warm(self) and not begins_by_points(self, points):
            refuse_candidates(candidates)
            return self._fit_warm(points, watch)
        if start is None and goes_on_warm(self):
            owner, before = with_resolved(self), self.resolved_params_
            chosen, start = owner.check_parameters(), warm_start_of(self, points)
        found = fit_softmax(owner, chosen, points, watch, candidates, start)
        settled, validation = found.settled, found.validation
        self._take(
            points,
            found.weights,
            found.curve,
            validation_curve_=np.array(validation.curve if validation else []),
            best_iter_=validation.best_iter if validation else len(found.curve),
            **self._told(replace(settled, params={**before, **settled.params})),
            _history=History.of_fit(len(points.labels), found.scaling, points.labels.mean),
            _squares=found.squares,
            _auto_runs=found.n_runs,
        )
        return self

    def _told(self, settled: Settled) -> dict[str, Any]:
        """What is told of how a plan came to be."""
        return {
            "resolved_params_": settled.params,
            "alpha_path_": settled.alpha_path,
            "learning_rate_table_": settled.rates,
            "auto_report_": settled.trials.report,
        }

    def _fit_warm(self, points: Points, watch: Watch) -> Self:
        """Make a run that begins at weights which have no `Start`."""
        found, n = fit_warm(self, points, watch), len(points.labels)
        self._take(
            points, found.weights, found.curve, **found.more, _history=History.of_fit(n, n_labels=points.labels.mean)
        )
        return self

    def _go_on(self, points: Points, before: Before, steps: Steps) -> GoneOn:
        return go_on(self, points, before, steps)

    def check_parameters(self) -> Chosen:
        """Return the parts, all parameters checked without data; raises ValueError or TypeError."""
        check_flag("early_stopping", self.early_stopping)
        check_flag("warm_start", self.warm_start)
        check_composed(self)
        check_number("validation_fraction", self.validation_fraction, low=0, open_low=True, high=0.99)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        check_class_weight(self.class_weight)
        check_loop_numbers(self.get_params(deep=False))
        return Chosen(
            part_of("solver", self.solver, SOLVERS, "manyclass.solvers"),
            part_of("sampler", self.sampler, SAMPLERS, "manyclass.samplers"),
            part_of("model", self.model, MODELS, "manyclass.models"),
        )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        solver = self.solver if isinstance(self.solver, str) else getattr(self.solver, "name", "")
        # Proximal steps of several labels carry u.
        carries_v = solver == "implicit" and getattr(self.solver, "formulation", "auto") == "raman"
        tags.classifier_tags.multi_label = solver in ("auto", *BATCH_SOLVERS) and not carries_v
        return tags

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `LabelClassifier`: how what was chosen was found.

        JSON has neither numbers as keys nor infinite ones: tables become lists of pairs, a trial that diverged null.

        Returns
        -------
        description : dict
            As JSON has it.
        arrays : dict of str to ndarray
            By their names in a file.
        """
        description, arrays = super()._beside_weights()
        found: dict[str, Any] = {
            "validation_curve_": self.validation_curve_.tolist(),
            "best_iter_": int(self.best_iter_),
        }
        for name in TABLES:
            found[name] = [[key, loss if np.isfinite(loss) else None] for key, loss in getattr(self, name).items()]
        found["auto_report_"] = self.auto_report_.encoded()
        return {**description, "automatic": {**description["automatic"], **found}}, arrays

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `LinearClassifier`."""
        super()._take_beside_weights(description, arrays)
        found = description.get("automatic", {})
        self.validation_curve_ = np.array(found.get("validation_curve_", []), dtype=np.float64)
        self.best_iter_ = int(found.get("best_iter_", self.n_iter_))
        for name in TABLES:
            setattr(self, name, {key: np.inf if loss is None else loss for key, loss in found.get(name, [])})
        self.auto_report_ = Report.decoded(found.get("auto_report_", []))

    def certificate(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Return "primal" (mean log-loss + alpha/2 ||W||^2, W of scaled features), "dual", below its least, and "gap".

        Parameters
        ----------
        X, y, sample_weight : the training data, as a rule, of one label a row; passed over three to eleven times
        """
        check_is_fitted(self, "_weights")
        check_not_compressed(self._weights, "certificate")
        if not isinstance(self._weights, LinearWeights):
            raise ValueError(
                "the model was fitted with several labels, embeddings, a search or on pairs; it has no certificate"
            )
        x, model = self._validated(X), self._weights
        labels = self._labels_of(y, x)
        weights = times_class_weight(raw_weights(sample_weight, x.shape[0]), self.class_weight, labels, self.classes_)
        rows = counting(weights)
        if rows is not None:
            x, labels, weights = x[rows], labels[rows], taken(weights, rows)
        weights = normalized(weights)
        if getattr(self.resolved_params_.get("model", self.model), "scaling", "none") == "standard":
            scaling = FeatureScaling.of(x, centre=bool(self.fit_intercept), weights=weights)
            x, model = scaling.apply(x), scaling.unfold(model)
        return duality_gap(
            model,
            x,
            labels,
            weights=weights,
            alpha=self.resolved_params_.get("alpha", self.alpha),
            fit_intercept=self.fit_intercept,
            n_threads=n_threads_from(self.n_jobs),
        )
