"""SoftmaxClassifier: multinomial logistic regression for very many classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_flag, check_number, n_threads_from
from manyclass.estimators import auto
from manyclass.estimators.base import Points, positions_of
from manyclass.estimators.certificate import duality_gap
from manyclass.estimators.files import saved
from manyclass.estimators.labels import LabelClassifier
from manyclass.estimators.parameters import decode_parameters, encode_parameters
from manyclass.estimators.plans import Chosen, check_loop_numbers, part_of
from manyclass.estimators.settle import (
    BATCH_SOLVERS,
    Settled,
    linear_model,
    settle_batches,
    settle_full_batch,
    settle_points,
    takes_full_passes,
)
from manyclass.model.mapped import MappedWeights
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Data, Doubles, Floats, Ids, LinearWeights, Matrix
from manyclass.models import MODELS, ModelName
from manyclass.parts import Part
from manyclass.samplers import MOST_HEAD, SAMPLERS, SamplerName
from manyclass.solvers import SOLVERS, SolverName
from manyclass.training.batches import fit_batches
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.passes import Callback
from manyclass.training.plan import BatchesPlan, FullBatchPlan, PointsPlan, Watch
from manyclass.training.points import fit_points
from manyclass.training.scaled import scaled_for_training
from manyclass.training.start import Start
from manyclass.training.validation import Validation, fork, held_out

TABLES = ("alpha_path_", "learning_rate_table_")  # log-losses by what was tried


@saved
class SoftmaxClassifier(LabelClassifier):
    r"""Softmax (multinomial logistic) regression by stochastic gradients whose cost is independent of K.

    Minimises the mean log-loss

    .. math:: \frac1N \sum_i \log\Bigl(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})}\Bigr)

    over W (n_classes x n_features) and intercepts. With a number :math:`u_i` per point this is the minimum over u of
    :math:`\frac1N\sum_i [u_i + e^{-u_i}(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})] - 1`, a sum over points
    *and* classes, so that a few sampled classes give an unbiased gradient (Fagan & Iyengar 2018, eq. 5-6).

    With an indicator matrix y, or with embeddings, the loss is the cross-entropy of several labels,
    :math:`\sum_{k \in P} [\log \sum_j e^{z_j} - z_k]` (Yen et al. 2018, eq. 2). It is trained by minibatches; where
    classes are drawn, the logarithm of a sampled sum is, which is biased.

    Parameters
    ----------
    solver : str or object of manyclass.solvers, default="auto"
        How a step is made; a string stands for the object with its defaults. "auto" is "lbfgs" where that is predicted
        to take at most 5 seconds and nothing is set that only steps have (learning_rate, max_iter, sampler,
        n_negatives, early_stopping, coef_init); "exact" where a visit of a point is predicted to take at most 8
        microseconds with all classes (hundreds of them, as a rule), else "implicit", with embeddings or several labels
        "adagrad". Unbiased are "implicit", "minibatch_implicit", "umax", "sgd",
        "bregman" and "scent", and, as their gain vanishes, "augment_reduce" and "scgd"; "exact" and "lbfgs" see all
        classes. `help(manyclass.solvers.Implicit)` and so on tell the parameters of each.
    sampler : str or object of manyclass.samplers, default="auto"
        Which wrong classes a step sees: "frequency_block" (groups of 16 neighbours in the order of the classes'
        frequencies: 16 classes for the memory traffic of one), "block", "uniform", "all", "frequency", "head_tail" or
        "search". "auto" is "frequency_block"; in training by minibatches, which has no "head_tail", it is "all" up to
        8,192 classes, else "frequency".
    n_negatives : int or "auto", default="auto"
        Classes per step (rounded up to a multiple of 16 with "frequency_block"); more than there are mean all of them.
        "auto" is 64, and 1,024 in training by minibatches; with solver="auto" it balances what a class costs with the
        noise of having few: 64 to 512.
    model : {"auto", "linear", "embedding"} or object of manyclass.models, default="auto"
        "embedding": scores are W phi(x) + b, phi(x) being the sum of the embeddings of the row's features. "auto" is
        "linear", but "embedding" where X is sparse, W would take more than 256 MB and it would have more than 30
        numbers for each one stored in X, if nothing is set that embeddings do not use. With solver="auto" a linear
        model is trained on scaled features: see `help(manyclass.models.Linear)`.
    dim : int or "auto", default="auto"
        Length of the embeddings; "auto" is 192.
    alpha : float or "auto", default="auto"
        Ridge per point: the objective is the mean log-loss + alpha/2 ||W||^2, W being that of the scaled features where
        they are; intercepts are not penalised. "auto" is 0; with solver="auto" one that was tried (`alpha_path_`), if
        no max_seconds is given. Where "lbfgs" was chosen: the best of 1000, 100, ..., 0.01, over n_samples, by 5-fold
        cross-validation, if it is better than 1 / n_samples by more than the standard error; untried it is that. Else,
        in units of the mean of \|x_i\|^2, the best of 0, 3e-6, 1e-5, 3e-5 and 1e-4 on a tenth of the points, where that
        is predicted to take at most 20 seconds and 1,000 points are there; untried it is 0.01 / n_samples.
    learning_rate : float, "auto" or "grid", default="auto"
        Step size on the gradient of the *mean* loss, > 0; it does not depend on n_samples. "auto" is c divided by the
        mean of \|x_i\|^2 (plus 1 with an intercept), c being 1, but 0.1 for "umax" and "softplus", 0.01 for "sgd", 4 /
        n_classes for "ove", batch_size for "minibatch_implicit" and 6 for the "implicit" that solver="auto" chooses;
        for "adagrad", 1 over the root of that mean. "grid": the best of 0.001, 0.01, ..., 1000 on a tenth of the
        points, as `manyclass.tune_learning_rate` finds it.
    max_iter : int or "auto", default="auto"
        Passes over the data; iterations of "lbfgs", which ends before. "auto" is 20; 10,000 for "lbfgs"; 12 for the
        "implicit" that solver="auto" chooses; 10 in training by minibatches, and 4 where embeddings were chosen.
    early_stopping : bool, default=False
        Hold points out of training, evaluate the exact log-loss on them after each pass, of the mean where iterates are
        averaged, stop when it has not fallen for `n_iter_no_change` of them, and return the model of the best. Takes
        the memory of W once more; for linear models of one label a row.
    validation_fraction : float, default=0.1
        Share of the points that is held out, in ]0, 1[. One point of each class always stays for training.
    n_iter_no_change : int, default=5
        See early_stopping.
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: a progress bar with the running loss, class updates per second and the time left.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Distinct labels, sorted; of an indicator matrix, its columns' numbers.
    coef_ : ndarray of shape (n_classes, n_features or dim), float32
        Weights; a view, not a copy.
    intercept_ : ndarray of shape (n_classes,), float32
        Intercepts; zeros without fit_intercept.
    embedding_ : ndarray of shape (n_features, dim), float32
        With embeddings.
    loss_curve_ : ndarray of shape (n_iter_,), float64
        Mean over each pass of log(1 + sum over the selected classes of alpha e^d), in nats, alpha being the inverse
        inclusion probability: the log-loss while training if all classes are selected, else an estimate from below
        (by Jensen's inequality). `evaluate` gives the exact value. For "lbfgs": its objective, ridge included.
    n_iter_ : int
        Passes (iterations) completed.
    resolved_params_ : dict
        What was used for each parameter that was left open: `SoftmaxClassifier(**model.resolved_params_)`, with what
        was set, trains the same model.
    alpha_path_ : dict
        Log-loss on held-out points by alpha, where alpha was chosen so; else empty.
    learning_rate_table_ : dict
        Held-out log-loss on the subset by learning rate, with learning_rate="grid"; else empty.
    validation_curve_ : ndarray
        With early_stopping: exact log-loss on the points held out after each pass, in nats; else empty.
    best_iter_ : int
        The pass, from 1, whose model was kept: n_iter_ without early_stopping.
    multilabel_ : bool
        Whether y was an indicator matrix.
    n_labels_ : int
        Mean number of labels of the rows that have some, rounded: how many `predict` gives then.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has some.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import SoftmaxClassifier, solvers
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> y = np.array(["ant", "bee", "cow"] * 20)
    >>> SoftmaxClassifier(random_state=0).fit(X, y).predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    >>> SoftmaxClassifier(solver=solvers.UMax(delta=2.0), random_state=0).fit(X, y).n_iter_
    20
    """

    resolved_params_: dict[str, Any]
    alpha_path_: dict[float, float]
    learning_rate_table_: dict[float, float]
    validation_curve_: Doubles
    best_iter_: int

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
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
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
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Data,
        y: Any,
        *,
        candidates: ArrayLike | None = None,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        callback: Callback | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; made float32. Sparse data train feature-major weights, dense data class-major ones.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, at least two distinct ones; or 0 and 1, dense or sparse, for several labels a
            row. Rows without a label are left out then.
        candidates : array-like of shape (n_samples, n_candidates), default=None
            Labels that make the certain head of each point, for sampler="head_tail"; the true label among them does
            no harm. By default heads are searched for between passes.
        coef_init : array-like of shape (n_classes, n_features), default=None
            Weights to start from, by `classes_`; 0 where nothing is given. Of linear models of one label, trained point
            by point; u starts at its exact value then, for one exact evaluation of all points.
        intercept_init : array-like of shape (n_classes,), default=None
            Intercepts to start from.
        callback : callable, default=None
            Called after each pass with a `TrainingState`; training stops when it returns True.
        max_seconds : float, default=None
            Training stops after this time, counted without callbacks, even within a pass (checked about every 0.2
            seconds); where it does depends on the clock. `n_iter_` and `loss_curve_` count whole passes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of its range or without effect, non-finite or wrongly shaped data, or fewer than two
            classes. The model stays as it was.

        Warns
        -----
        ConvergenceWarning
            If training diverged or was interrupted, the model being the one reached before; or if "lbfgs" ended with a
            gradient larger than `tol`.
        """
        chosen = self.check_parameters()
        watch = Watch.of(callback, max_seconds)
        points = self._points(X, y)
        start = Start.of(
            coef_init, intercept_init, len(points.classes), points.x.shape[1], fit_intercept=self.fit_intercept
        )
        if self._trains_by_batches(chosen, points):
            _refuse(start, "with several labels or embeddings")
            if candidates is not None:
                raise ValueError(
                    "candidates are given; they are for sampler='head_tail' with a linear model of one label"
                )
            return self._fit_batches(chosen, points, watch)
        return self._fit_one_label(chosen, points, watch, candidates, start)

    def check_parameters(self) -> Chosen:
        """Check all parameters as far as that is possible without data, and return the parts that they name.

        Returns
        -------
        Chosen

        Raises
        ------
        ValueError or TypeError
            For a parameter out of its range.
        """
        check_flag("early_stopping", self.early_stopping)
        check_number("validation_fraction", self.validation_fraction, low=0, open_low=True, high=0.99)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        check_loop_numbers(self.get_params(deep=False))
        return Chosen(
            part_of("solver", self.solver, SOLVERS, "manyclass.solvers"),
            part_of("sampler", self.sampler, SAMPLERS, "manyclass.samplers"),
            part_of("model", self.model, MODELS, "manyclass.models"),
        )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        solver = self.solver if isinstance(self.solver, str) else getattr(self.solver, "name", "")
        tags.classifier_tags.multi_label = solver in ("auto", *BATCH_SOLVERS)
        return tags

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """See `LinearClassifier`: what was chosen, and how.

        JSON has neither numbers as keys nor infinite ones: tables become lists of pairs, a trial that diverged null.

        Returns
        -------
        description : dict
            As JSON has it.
        arrays : dict of str to ndarray
            Of the shape of the weights.
        """
        description, arrays = super()._beside_weights()
        found: dict[str, Any] = {
            "resolved_params_": encode_parameters(self.resolved_params_),
            "validation_curve_": self.validation_curve_.tolist(),
            "best_iter_": int(self.best_iter_),
        }
        for name in TABLES:
            found[name] = [[key, loss if np.isfinite(loss) else None] for key, loss in getattr(self, name).items()]
        return {**description, "automatic": found}, arrays

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """See `LinearClassifier`."""
        super()._take_beside_weights(description, arrays)
        found = description.get("automatic", {})
        self.resolved_params_ = decode_parameters(found.get("resolved_params_", {}))
        self.validation_curve_ = np.array(found.get("validation_curve_", []), dtype=np.float64)
        self.best_iter_ = int(found.get("best_iter_", self.n_iter_))
        for name in TABLES:
            setattr(self, name, {key: np.inf if loss is None else loss for key, loss in found.get(name, [])})

    # Which of the trainings

    def _trains_by_batches(self, chosen: Chosen, points: Points) -> bool:
        """Whether there are several labels, embeddings or a search: then several points make a step together."""
        named = [part.name for part in (chosen.solver, chosen.sampler, chosen.model) if part is not None]
        if points.several or "embedding" in named or "search" in named or "adagrad" in named:
            return True
        return self._chooses_embeddings(chosen, points)

    def _chooses_embeddings(self, chosen: Chosen, points: Points) -> bool:
        """Whether embeddings are what "auto" stands for, nothing being set that they do not use."""
        open_ = chosen == Chosen(None, None, None) and not self.early_stopping and self.alpha == "auto"
        return open_ and self.learning_rate != "grid" and auto.embeds(auto.Shape.of(points.x, len(points.classes)))

    def _fit_batches(self, chosen: Chosen, points: Points, watch: Watch) -> Self:
        embeds = self._chooses_embeddings(chosen, points)
        settled = settle_batches(self, chosen, points.x, len(points.classes), embeds=embeds)
        assert isinstance(settled.plan, BatchesPlan)
        weights, curve = fit_batches(settled.plan, points.x, points.labels, len(points.classes), watch)
        return self._assign(points, weights, curve, settled, None)

    def _fit_one_label(
        self, chosen: Chosen, points: Points, watch: Watch, candidates: ArrayLike | None, start: Start | None
    ) -> Self:
        """A linear model of one label a row."""
        labels, n_classes = points.labels.ids, len(points.classes)
        heads = self._candidates(candidates, chosen.sampler, points)
        scaling = self._scaling(chosen, points.x)
        x, watch, start = scaled_for_training(scaling, points.x, watch, start)
        timed, stepwise = bool(np.isfinite(watch.max_seconds)), heads is not None or start is not None
        if takes_full_passes(self, chosen, auto.Shape.of(x, n_classes), stepwise=stepwise):
            settled = settle_full_batch(self, chosen, x, labels, n_classes, timed=timed)
        else:
            settled = settle_points(self, chosen, x, labels, n_classes, candidates=heads is not None, timed=timed)
        if self.early_stopping:
            held = held_out(labels, self.validation_fraction, fork(self.random_state))
            out, rows = np.flatnonzero(held), np.flatnonzero(~held)
            validation = Validation(x[out], labels[out], self.n_iter_no_change, settled.plan.n_threads)
            x, labels = x[rows], labels[rows]
            heads = None if heads is None else heads[rows]
            watch = replace(watch, validation=validation)
        if isinstance(settled.plan, FullBatchPlan):
            _refuse(start, "with solver='lbfgs', whose optimum does not depend on it")
            weights, curve = fit_full_batch(settled.plan, x, labels, n_classes, watch)
        else:
            assert isinstance(settled.plan, PointsPlan)
            weights, curve = fit_points(settled.plan, x, labels, n_classes, watch, heads, start)
        if scaling is not None:
            scaling.fold(weights)
        return self._assign(points, weights, curve, settled, watch.validation)

    def _scaling(self, chosen: Chosen, x: Matrix) -> FeatureScaling | None:
        """How features are scaled for training a linear model."""
        if linear_model(chosen).get_params()["scaling"] == "none":
            return None
        return FeatureScaling.of(x, centre=bool(self.fit_intercept))

    def _candidates(self, candidates: ArrayLike | None, sampler: Part | None, points: Points) -> Ids | None:
        if candidates is None:
            return None
        if sampler is None or sampler.name != "head_tail":
            raise ValueError(f"candidates need sampler='head_tail'; it is {self.sampler!r}")
        candidates = np.asarray(candidates)
        n_samples = points.x.shape[0]
        if candidates.ndim != 2 or len(candidates) != n_samples or not 1 <= candidates.shape[1] <= MOST_HEAD:
            raise ValueError(
                f"candidates have shape {candidates.shape}; it must be ({n_samples}, h) with h from 1 to {MOST_HEAD}"
            )
        return positions_of(candidates, points.classes, "candidates")

    def _assign(
        self,
        points: Points,
        weights: LinearWeights | MappedWeights,
        curve: list[float],
        settled: Settled,
        validation: Validation | None,
    ) -> Self:
        """Take over all that was fitted, at once."""
        self._take(
            points,
            weights,
            curve,
            validation_curve_=np.array(validation.curve if validation else []),
            best_iter_=validation.best_iter if validation else len(curve),
            resolved_params_=settled.params,
            alpha_path_=settled.alpha_path,
            learning_rate_table_=settled.rates,
        )
        return self

    def certificate(self, X: ArrayLike, y: ArrayLike) -> dict[str, float]:
        """Bound how far the model is from the optimum of the mean log-loss + alpha/2 ||W||^2 on these data.

        Takes one exact pass over all points and classes in double precision for the loss, two for the bound, and up to
        eight to balance the intercepts, none with an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The training data, as a rule.
        y : array-like of shape (n_samples,)
            Their labels, all among `classes_`.

        Returns
        -------
        dict
            "primal": the objective of this model; "dual": a lower bound of the smallest objective that any W (and
            intercepts, where they are learned) has on X and y; "gap": primal - dual >= 0. In nats per point. With
            alpha=0 the dual is 0. Where the model scales features, W is that of features scaled as X says.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        check_is_fitted(self, "_weights")
        if isinstance(self._weights, MappedWeights):
            raise ValueError("the model was fitted with several labels, embeddings or a search; it has no certificate")
        x, weights = self._validated(X), self._weights
        labels = self._labels_of(y, x)
        if getattr(self.resolved_params_.get("model", self.model), "scaling", "none") == "standard":
            scaling = FeatureScaling.of(x, centre=bool(self.fit_intercept))
            x, weights = scaling.apply(x), scaling.unfold(weights)
        return duality_gap(
            weights,
            x,
            labels,
            alpha=self.resolved_params_.get("alpha", self.alpha),
            fit_intercept=self.fit_intercept,
            n_threads=n_threads_from(self.n_jobs),
        )


def _refuse(start: Start | None, where: str) -> None:
    if start is not None:
        raise ValueError(f"coef_init or intercept_init is given, which has no effect {where}; leave them None")
