"""SoftmaxClassifier: multinomial logistic regression for very many classes, and the ways of fitting it."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from manyclass import _core
from manyclass.checks import as_csr, core_data, csr_parts, n_threads_from
from manyclass.choosing.costs import Report
from manyclass.choosing.plans import BATCH_SOLVERS
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import lists_of, of_state
from manyclass.fitting.fit import SharedOptions, with_shared_options
from manyclass.fitting.planners import SoftmaxPlanner
from manyclass.fitting.points import times_class_weight
from manyclass.fitting.streams import Parts
from manyclass.labels import labels_by_row, positions_of, sorted_classes
from manyclass.parts import Part, hinting, storing
from manyclass.protocols import ClassText
from manyclass.training.plan import Labels
from manyclass.training.state import ClassWeight, counting, normalized, one_a_label, raw_weights, taken
from manyclass.weights.arrays import NO_DOUBLES, Data, Doubles, Ids, Matrix
from manyclass.weights.weights import FeatureScaling, Weights

# Linear models of one label a row


class SoftmaxClassifier(LabelClassifier):
    r"""Softmax (multinomial logistic) regression by stochastic gradients whose cost is independent of K.

    Minimises the mean log-loss :math:`\frac1N \sum_i \log(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})`, rows
    weighted by `sample_weight`, and a ridge on W, over W and intercepts; `manyclass.solvers` tells how (Fagan &
    Iyengar 2018), `manyclass.choosing.recipes` what "auto" is: of several labels P, `manyclass.models.Hybrid`.
    In minibatches it is the cross-entropy :math:`\sum_{k \in P} [\log \sum_j e^{z_j} - z_k]` (Yen et al. 2018, eq. 2).

    Parameters
    ----------
    solver : str or object of manyclass.solvers, default="auto"
        How a step is made; "auto": "adagrad" of sparse rows and several labels; "lbfgs", "exact" or "implicit" else.
    sampler : str or object of manyclass.samplers, default="auto"
        Which wrong classes a step sees; "auto": "frequency_block"; in minibatches "all" or "frequency".
    n_negatives : int or "auto", default="auto"
        Classes per step, "frequency_block" rounds up to sixteens; above n_classes, every class. "auto": 64 to 1,024.
    model : {"auto", "linear", "embedding", "pairs", "hybrid"} or object of manyclass.models, default="auto"
        Scores are W phi(x) + b, phi(x) being x or a sum of embeddings, or both, added; see `manyclass.models`.
    dim : int or "auto", default="auto"
        Length of the embeddings; "auto" is 64 to 384, of each run.
    alpha : float or "auto", default="auto"
        L2 penalty alpha/2 ||W||^2 on the weights of scaled features; "auto": by held-out rows of full passes, weak or
        0 else. With embeddings, those of a hybrid included, it is on them and on the rows of classes.
    learning_rate : float, "auto" or "grid", default="auto"
        Step size on the gradient of the *mean* loss, > 0; "grid": the best power of ten on a tenth of the points.
    max_iter : int or "auto", default="auto"
        Passes over the data, "auto": 2 to 20; iterations of "lbfgs", which ends before "auto" is over.
    early_stopping : bool, default=False
        Stop when the held-out log-loss stops falling, and keep the best pass; in a hybrid, each of the two by its own.
    validation_fraction : float, default=0.1
        Share of the points that is held out, in ]0, 1[. One point of each class always stays for training.
    n_iter_no_change : int, default=5
        Passes without a lower held-out loss after which early_stopping stops.
    class_weight : dict, "balanced" or None, default=None
        Class weights, multiplied into sample weights; "balanced": n_samples / (n_classes * rows of the class).
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: the plan, with the predicted seconds and bytes, then a progress bar.
    calibration : {"temperature"} or None, default=None
        Divide scores by the best temperature for held-out rows; see `manyclass.blending.calibration`.
    n_models : int or "auto", default="auto"
        Train this many models with different seeds and average their scores, in one model. Of a hybrid it is the number
        of runs of embeddings, of which the first one alone is made where its share is small; "auto" is at most 3 of
        these, and 1 of others.
    warm_start : bool, default=False
        `fit` starts from the weights and the choices of the last fit; see `manyclass.fitting.fit`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), sorted labels, or numbers of columns
    class_count_ : ndarray of shape (n_classes,), float64, rows of each class so far
    coef_ : ndarray of shape (n_classes, n_features or dim), float32, a view of the weights
    intercept_ : ndarray of shape (n_classes,), float32
    embedding_ : ndarray of shape (n_features, dim), float32, a view
    loss_curve_ : ndarray of shape (n_iter,), float64, training log-loss in nats; of sampled classes a lower bound
    n_iter_ : int, number of passes
    best_iter_ : int, the pass, from 1, that was kept
    n_features_in_ : int, number of features
    feature_names_in_ : ndarray of shape (n_features,), names of features, where X has them
    resolved_params_ : dict, what parameters left open became
    auto_report_ : list of dict, the trials that chose them
    alpha_path_ : dict of float to float, held-out log-losses by alpha
    learning_rate_table_ : dict of float to float, held-out log-losses by step size
    validation_curve_ : ndarray of held-out log-losses by pass
    multilabel_ : bool, whether y was an indicator matrix
    n_labels_ : int, mean number of labels a row
    threshold_ : float or None, the probability whose micro-F1 was best
    calibration_ : `Calibration` or None

    Examples
    --------
    >>> from manyclass import SoftmaxClassifier, solvers
    >>> X, y = [[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 20, ["ant", "bee", "cow"] * 20
    >>> SoftmaxClassifier(solver=solvers.UMax(delta=2.0), random_state=0).fit(X, y).predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    """

    _planner = SoftmaxPlanner

    alpha_path_: dict[float, float] = of_state("fit_report.alpha_path", "Held-out log-losses by ridge, where tried.")
    learning_rate_table_: dict[float, float] = of_state("fit_report.rates", "Held-out log-losses by step size.")

    @property
    def auto_report_(self) -> Report:
        """A line for each trial by which a parameter was chosen; printed, a table with the recipe that applied."""
        report = self._fitted.fit_report
        return Report(report.report, report.rules)

    @storing
    def __init__(
        self,
        *,
        solver: str | Part = "auto",
        sampler: str | Part = "auto",
        n_negatives: int | Literal["auto"] = "auto",
        model: str | Part = "auto",
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
        """Store the parameters."""

    @hinting
    @with_shared_options
    def fit(
        self,
        X: Data | Parts,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        class_text: ClassText | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
        candidates: ArrayLike | None = None,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        **shared: Unpack[SharedOptions],
    ) -> Self:
        """Fit the model and return it. If this raises ValueError, the model is as before; divergence is a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), made float32, or raw
            Texts become rows by `vectorizer`, by default a `TextVectorizer()` of `manyclass.datasets`; lists of items
            by its `SequenceEncoder()`, and without y the items that came next are the labels. The model keeps it.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, two or more, text by its composed form (NFC); or 0 and 1, dense or sparse. Rows
            without a label are left out.
        sample_weight : array-like of shape (n_samples,), weights of rows, of which only ratios count, default=None
        class_text : mapping of label to text, of classes with rows or without, default=None; beside rows (labels, rows)
            Each adds its row to the weights of its class; `manyclass.blending.class_texts` says how much.
        eval_set : (X, y), rows on which early_stopping measures the loss, not on a validation_fraction, default=None
        candidates : array-like (n_samples, n_candidates), labels that steps of "head_tail" see; None: the best ones
        coef_init : array-like of the shape of coef_, first weights of a linear model of one label a row, default=None
            "closed_form": those of `manyclass.training.train`, with their own intercepts.
        intercept_init : array-like of shape (n_classes,), first intercepts, default=None

        Returns
        -------
        SoftmaxClassifier
            The estimator itself.
        """
        options = dict(
            shared,
            class_text=class_text,
            eval_set=eval_set,
            candidates=candidates,
            coef_init=coef_init,
            intercept_init=intercept_init,
        )
        return self._fit((X, y, sample_weight), options)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        solver = self.solver if isinstance(self.solver, str) else getattr(self.solver, "name", "")
        # Proximal steps of several labels carry u.
        carries_v = solver == "implicit" and getattr(self.solver, "formulation", "auto") == "raman"
        tags.classifier_tags.multi_label = solver in ("auto", "lbfgs", *BATCH_SOLVERS) and not carries_v
        return tags

    def certificate(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Return the objective of the fit, "primal", a proven lower bound of its optimum, "dual", and their "gap".

        Sums are in double precision, of features as training sees them: with scaling="standard" rounded to float32
        anew, which moves the optimum by some 1e-8 of itself.

        Parameters
        ----------
        X : the rows of the fit, which are passed over three to eleven times
        y : their labels; of several a row the objective is that of solver="lbfgs", of weights on pairs as their softmax
            over these
        sample_weight : their weights
        """
        state, x = self._asked(X)
        model, chosen = state.weights, state.fit_report.params
        model.refuse_compressed("certificate")
        if model.kind == "hybrid" or model.embeddings.size:
            raise ValueError("the model has embeddings, whose objective is not convex; it has no certificate")
        weights = raw_weights(sample_weight, x.shape[0])
        if state.several:
            lists = lists_of(state, y, x.shape[0])
            row_labels = Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32))
        else:
            classes, places = sorted_classes(labels_by_row(y, x.shape[0]), state.classes)
            weights = times_class_weight(weights, self.class_weight, places, classes)
            row_labels = Labels.single(places.astype(np.int32))
        rows = counting(np.diff(row_labels.indptr) * (1.0 if weights is None else weights))
        row_labels = row_labels if rows is None else row_labels.of(rows)
        if not state.several:  # of weight 0 there are rows of other classes
            row_labels = Labels.single(positions_of(classes[row_labels.ids], state.classes, "y"))
        x, weights = x if rows is None else x[rows], normalized(taken(weights, rows))
        if getattr(chosen.get("model", self.model), "scaling", "none") == "standard":
            scaling = FeatureScaling.of(x, centre=bool(self.fit_intercept), weights=weights)
            x, model = scaling.apply(x), scaling.unfold(model.copy())
        x, labels, weights, n_labels = (
            one_a_label(x, row_labels, weights) if state.several else (x, row_labels.ids, weights, 1.0)
        )
        alpha = chosen.get("alpha", self.alpha)
        alpha = (0.0 if alpha == "auto" else alpha) / n_labels  # left open, minibatches and pairs have none
        bounds = duality_gap(model, x, labels, weights, alpha, bool(self.fit_intercept), n_threads_from(self.n_jobs))
        return {name: n_labels * value for name, value in bounds.items()}


# The certificate


def duality_gap(
    model: Weights, x: Matrix, labels: Ids, weights: Doubles | None, alpha: float, fit_intercept: bool, n_threads: int
) -> dict[str, float]:
    """Return the primal, the dual and their gap, in nats per point: a bound on how far a model is from the optimum.

    The primal is the mean log-loss + alpha/2 ||W||^2. The dual is a bound of its optimum from below, by probabilities
    that are made of the model; exact/duality_gap.cpp has the derivation. At balanced intercepts these are the softmax,
    and primal - dual = ||grad_W primal||^2 / (2 alpha): the gap is of second order.

    Parameters
    ----------
    model : Weights
        Of a linear model, or on pairs of a feature and a class: then the optimum is that of weights on these pairs.
    x : {csr_array, ndarray} of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,), int32, in [0, model.n_classes)
    weights : ndarray of shape (n_samples,), float64, or None
        Of the points, with mean 1.
    alpha : float
        Strength of the L2 penalty alpha/2 ||W||^2, >= 0. Without it D(P) is finite only if G = 0; P = Y is such a
        point, and the dual returned is D(Y) = 0, which says no more than that the loss is not negative.
    fit_intercept : bool
        Whether the intercepts are free; if not, they are those of the model.
    n_threads : int

    Returns
    -------
    dict
        "primal" >= optimum >= "dual", and "gap", their difference.
    """
    numbers: dict[str, Any] = {
        "n_features": x.shape[1],
        "intercept": model.intercept.astype(np.float64),
        "labels": labels,
        "sample_weight": NO_DOUBLES if weights is None else weights,
        "alpha": alpha,
        "fit_intercept": fit_intercept,
        "n_threads": n_threads,
    }
    if model.kind == "pairs":
        numbers |= {"indptr": model.indptr, "classes": model.classes, "values": model.values}
        numbers["squares"] = float(np.einsum("p,p->", model.values, model.values, dtype=np.float64))
        primal, dual = _core.duality_gap_on_pairs(x=csr_parts(as_csr(x)), **numbers)
    else:
        data = core_data(x if isinstance(x, sp.csr_array) else np.ascontiguousarray(x))
        coef = model.coef.T if isinstance(x, sp.csr_array) else model.coef  # in the storage for the data
        matrix = model.matrix if isinstance(x, sp.csr_array) and model.sparse else np.ascontiguousarray(coef)
        numbers["squares"] = float(np.einsum("kj,kj->", model.coef, model.coef, dtype=np.float64))
        primal, dual = _core.duality_gap(x=data, matrix=matrix, n_classes=model.n_classes, **numbers)
    return {"primal": primal, "dual": dual, "gap": primal - dual}
