"""SoftmaxClassifier: multinomial logistic regression for very many classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from manyclass import _core
from manyclass._certificate import duality_gap
from manyclass._checks import canonical_csr, check_choice, check_number, csr_parts, n_threads_from, seed_from
from manyclass._full_batch import fit_full_batch
from manyclass._training import Callback, Schedule, TrainingState, run_passes, summarize
from manyclass._weights import LinearWeights, Matrix

# Points that see the same weights in deterministic mode: so few, against the number of classes, that two of them
# rarely move the same row of W, and at most as many as keep two cores busy between barriers.
CLASSES_PER_BATCHED_POINT = 64
MOST_BATCHED_POINTS = 64
MOST_BATCHED_POINTS_ALL_CLASSES = 16  # where each point's scores take K floats

# learning_rate="auto", times the mean of |x|^2. Explicit steps carry the weight K/m of a sampled class, hence less.
AUTO_RATE = {"implicit": 1.0, "exact": 1.0, "umax": 0.1, "sgd": 0.01}


class SoftmaxClassifier(ClassifierMixin, BaseEstimator):
    r"""Softmax (multinomial logistic) regression by unbiased stochastic gradients whose cost is independent of K.

    Minimises the mean log-loss

    .. math:: \frac1N \sum_i \log\Bigl(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})}\Bigr)

    over W (n_classes x n_features) and intercepts. With a number :math:`u_i` per point this is the minimum over u of
    :math:`\frac1N\sum_i [u_i + e^{-u_i}(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})] - 1`, a sum over points
    *and* classes, so that a few sampled classes give an unbiased gradient (Fagan & Iyengar 2018, eq. 5-6).

    Parameters
    ----------
    solver : {"implicit", "umax", "sgd", "exact", "lbfgs"}, default="implicit"
        How a step is made. "implicit": the proximal point of the sampled objective, stable for any step size
        (Fagan & Iyengar 2018, section 3.2, for any number of negatives). "umax": SGD in which a u_i that is certainly
        too small is raised first (their Algorithm 1). "sgd": plain SGD on (u, W). "exact": SGD on the softmax itself,
        with all classes in every step. "lbfgs": full-batch L-BFGS in double precision over the exact gradient, to the
        optimum; of the parameters below it uses only `loss`, `alpha`, `tol`, `max_iter`, `fit_intercept`, `n_jobs` and
        `verbose`. It keeps about 30 float64 copies of W.
    loss : {"softmax", "ove", "bouchard"}, default="softmax"
        What is minimised. "softmax": the mean log-loss. "ove", "bouchard": the upper bounds of it by Titsias (NIPS
        2016, eq. 15) and Bouchard (with the best parameter for each point); only for "lbfgs".
    formulation : {"proposed", "raman"}, default="proposed"
        What is carried between visits of a point: u_i, or u_i + x_i.w_{y_i} (eq. 8). Not used by "exact".
    selection : {"block", "uniform", "all"}, default="block"
        Which wrong classes a step sees: a block of neighbours in a random order of the classes (as many classes for
        the memory traffic of one), distinct uniform draws, or all. "exact" always uses all.
    n_negatives : int, default=64
        Classes per step; more than there are means all. Not used by "exact" and with selection="all".
    learning_rate : float or "auto", default="auto"
        Step size on the gradient of the *mean* loss, > 0; it does not depend on n_samples. "auto" is c divided by the
        mean of \|x_i\|^2 (plus 1 with an intercept), c being 1 for "implicit" and "exact", 0.1 for "umax" and 0.01
        for "sgd", whose steps grow with n_classes / n_negatives.
    u_learning_rate : float or None, default=None
        Step size of u_i, > 0. None: that of W, as in the paper, or c where learning_rate is "auto": u_i is on the
        scale of nats, whatever the scale of X. Not used by "exact".
    schedule : {"exponential", "inverse", "constant"}, default="exponential"
        Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or constant.
    decay : float, default=0.9
        Factor of the exponential schedule, in (0, 1].
    max_iter : int, default=20
        Passes over the data; iterations for "lbfgs", which needs hundreds.
    tol : float, default=1e-6
        "lbfgs" stops when no entry of the gradient of its objective is larger in absolute value. Not used by others.
    u_init : {"log_n_classes", "zero"}, default="log_n_classes"
        Start of every u_i: log K, exact at W = 0, or 0, as in the authors' code. Not used by "exact".
    shuffle : bool, default=True
        Visit the points in a new random order in each pass, or in the order of X.
    delta : float, default=1.0
        Slack of U-max in nats, >= 0: u_i is raised when it is more than this below its bound. Only for "umax".
    alpha : float, default=0.0
        Ridge per point: alpha/2 ||W||^2 is added to the mean loss; the intercepts are not penalised. Above 0 only for
        "lbfgs".
    max_norm : float or None, default=None
        If given, each w_k is projected on the ball of this radius and u_i on the interval that follows from it
        (Fagan & Iyengar 2018, Lemma 2). Needs formulation="proposed" and runs on one thread.
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    root : {"newton", "bisection"}, default="newton"
        How the implicit step's equation is solved: safeguarded Newton, or the paper's bisection. Only for
        "implicit".
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    parallel : {"deterministic", "hogwild"}, default="deterministic"
        With "deterministic" the result is the same for any n_jobs: batches of points (at most one per 64 classes, and
        so few that they rarely share a label) see the same weights. Below 1,024 classes the batch is one point and
        training runs on one thread. "hogwild": threads race on W; results vary from run to run.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: a progress bar with the running loss, class updates per second and the time left.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Distinct labels, sorted.
    coef_ : ndarray of shape (n_classes, n_features), float32
        Weights; a view, not a copy.
    intercept_ : ndarray of shape (n_classes,), float32
        Intercepts; zeros without fit_intercept.
    loss_curve_ : ndarray of shape (n_iter_,), float64
        Mean over each pass of log(1 + sum over the selected classes of alpha e^d), in nats, alpha being the inverse
        inclusion probability: the log-loss while training if all classes are selected, else an estimate from below
        (by Jensen's inequality). `evaluate` gives the exact value. For "lbfgs": its objective, ridge included, after
        each iteration.
    n_iter_ : int
        Passes (iterations) completed.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has some.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import SoftmaxClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> y = np.array(["ant", "bee", "cow"] * 20)
    >>> SoftmaxClassifier(random_state=0).fit(X, y).predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    """

    def __init__(
        self,
        *,
        solver: str = "implicit",
        loss: str = "softmax",
        formulation: str = "proposed",
        selection: str = "block",
        n_negatives: int = 64,
        learning_rate: float | str = "auto",
        u_learning_rate: float | None = None,
        schedule: str = "exponential",
        decay: float = 0.9,
        max_iter: int = 20,
        tol: float = 1e-6,
        u_init: str = "log_n_classes",
        shuffle: bool = True,
        delta: float = 1.0,
        alpha: float = 0.0,
        max_norm: float | None = None,
        fit_intercept: bool = True,
        root: str = "newton",
        n_jobs: int | None = None,
        parallel: str = "deterministic",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.solver = solver
        self.loss = loss
        self.formulation = formulation
        self.selection = selection
        self.n_negatives = n_negatives
        self.learning_rate = learning_rate
        self.u_learning_rate = u_learning_rate
        self.schedule = schedule
        self.decay = decay
        self.max_iter = max_iter
        self.tol = tol
        self.u_init = u_init
        self.shuffle = shuffle
        self.delta = delta
        self.alpha = alpha
        self.max_norm = max_norm
        self.fit_intercept = fit_intercept
        self.root = root
        self.n_jobs = n_jobs
        self.parallel = parallel
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, *, callback: Callback | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; made float32. Sparse data train feature-major weights, dense data class-major ones.
        y : array-like of shape (n_samples,)
            Labels of any sortable type, at least two distinct ones.
        callback : callable, default=None
            Called after each pass with a `TrainingState`; training stops when it returns True.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of its range, non-finite or wrongly shaped data, or fewer than two classes.

        Warns
        -----
        ConvergenceWarning
            If training diverged or was interrupted, the model being the one reached before; or if "lbfgs" ended with a
            gradient larger than `tol`.
        """
        self._check_parameters()
        n_threads = n_threads_from(self.n_jobs)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32, order="C")
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes[0]!r}; at least two classes are needed")
        x: Matrix = canonical_csr(X) if sp.issparse(X) else np.asarray(X)
        if self.solver == "lbfgs":
            self.classes_ = classes
            self._weights, self.loss_curve_, self.n_iter_ = fit_full_batch(
                x,
                labels.astype(np.int32),
                len(classes),
                loss=self.loss,
                alpha=self.alpha,
                fit_intercept=self.fit_intercept,
                max_iter=self.max_iter,
                tol=self.tol,
                n_threads=n_threads,
                verbose=self.verbose,
                callback=callback,
            )
        else:
            self._train(x, classes, labels.astype(np.int32), n_threads, callback)
        return self

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, (*_core.solver_names(), "lbfgs"))
        check_choice("loss", self.loss, _core.full_batch_loss_names())
        if self.loss != "softmax" and self.solver != "lbfgs":
            raise ValueError(f"loss is {self.loss!r} and solver {self.solver!r}; such a loss needs solver='lbfgs'")
        check_choice("formulation", self.formulation, _core.formulation_names())
        check_choice("selection", self.selection, _core.selection_names())
        check_choice("schedule", self.schedule, _core.schedule_names())
        check_choice("root", self.root, _core.root_finder_names())
        check_choice("u_init", self.u_init, ("log_n_classes", "zero"))
        check_choice("parallel", self.parallel, ("deterministic", "hogwild"))
        check_number("n_negatives", self.n_negatives, low=1, integer=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        if isinstance(self.learning_rate, str):
            check_choice("learning_rate", self.learning_rate, ("auto",))
        else:
            check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        if self.u_learning_rate is not None:
            check_number("u_learning_rate", self.u_learning_rate, low=0, open_low=True)
        check_number("decay", self.decay, low=0, open_low=True, high=1)
        check_number("delta", self.delta, low=0)
        check_number("tol", self.tol, low=0)
        check_number("alpha", self.alpha, low=0)
        if self.alpha != 0 and self.solver != "lbfgs":
            raise ValueError(f"alpha is {self.alpha!r}; a ridge is not supported yet, only alpha=0")
        if self.max_norm is not None:
            check_number("max_norm", self.max_norm, low=0, open_low=True)
            if self.formulation != "proposed" or self.parallel != "deterministic":
                raise ValueError(
                    f"max_norm needs formulation='proposed' and parallel='deterministic'; they are "
                    f"{self.formulation!r} and {self.parallel!r}"
                )

    def _train(
        self,
        x: Matrix,
        classes: NDArray[Any],
        labels: NDArray[np.int32],
        n_threads: int,
        callback: Callback | None,
    ) -> None:
        sparse = isinstance(x, sp.csr_array)
        n_samples, n_features = x.shape
        n_classes = len(classes)
        seed = seed_from(self.random_state)

        # Training sees the classes in a random order, so that a block of neighbours is a uniform draw.
        order = _core.class_order(n_classes, seed)
        position = np.empty_like(order)
        position[order] = np.arange(n_classes, dtype=np.int32)

        weights = LinearWeights.zeros(n_classes, n_features, sparse=sparse)
        x_sq = _row_norms_sq(x)
        empty = np.zeros(0, dtype=np.float32)
        projects = self.max_norm is not None
        scale = np.ones(n_classes, dtype=np.float32) if projects else empty
        state = _core.State(
            labels=position[labels],
            x_sq=x_sq,
            u=np.full(n_samples, np.log(n_classes) if self.u_init == "log_n_classes" else 0.0),
            weights=weights.matrix,
            intercept=weights.intercept if self.fit_intercept else empty,
            scale=scale,
            norm_sq=np.zeros(n_classes if projects else 0),
            n_classes=n_classes,
        )
        batch = 1 if projects else self._batch_size(labels, n_classes)
        plan = _core.Plan(
            solver=self.solver,
            formulation=self.formulation,
            selection=self.selection,
            root=self.root,
            n_negatives=min(self.n_negatives, n_classes),
            delta=self.delta,
            seed=seed,
            n_threads=n_threads,
            batch=batch,
            hogwild=self.parallel == "hogwild" and n_threads > 1,
            shuffle=bool(self.shuffle),
            u_max=_largest_u(self.max_norm, float(x_sq.max(initial=0)), n_classes),
            max_norm=np.inf if self.max_norm is None else self.max_norm,
            isa="auto",
        )
        if isinstance(x, sp.csr_array):
            trainer = _core.Trainer.sparse(plan, *csr_parts(x), n_features, state)
        else:
            trainer = _core.Trainer.dense(plan, x, state)
        progress = TrainingState(0, 0.0, np.nan, 0, weights, position, n_threads)
        curve = run_passes(
            trainer,
            self._schedule(x_sq),
            n_samples=n_samples,
            n_classes=n_classes,
            batch=batch,
            max_iter=self.max_iter,
            verbose=self.verbose,
            state=progress,
            callback=callback,
        )
        if projects:
            if sparse:
                weights.matrix[:, :n_classes] *= scale
            else:
                weights.matrix *= scale[:, np.newaxis]
        weights.reorder(position, n_threads)
        self.classes_ = classes
        self.loss_curve_ = np.array(curve)
        self.n_iter_ = len(curve)
        self._weights = weights

    def _schedule(self, x_sq: NDArray[np.float32]) -> Schedule:
        if isinstance(self.learning_rate, str):
            u_rate = AUTO_RATE[self.solver]
            rate = u_rate / max(float(x_sq.mean()) + bool(self.fit_intercept), float(np.finfo(np.float32).tiny))
        else:
            rate = u_rate = float(self.learning_rate)
        return Schedule(self.schedule, rate, self.u_learning_rate or u_rate, self.decay)

    def _batch_size(self, labels: NDArray[np.int32], n_classes: int) -> int:
        if n_classes < 16 * CLASSES_PER_BATCHED_POINT:
            return 1
        every_class = self.solver == "exact" or self.selection == "all"
        most = MOST_BATCHED_POINTS_ALL_CLASSES if every_class else MOST_BATCHED_POINTS
        by_label = len(labels) // int(np.bincount(labels).max())  # the most frequent label once a batch
        return max(1, min(most, n_classes // CLASSES_PER_BATCHED_POINT, by_label))

    @property
    def coef_(self) -> NDArray[np.float32]:
        """Weights, (n_classes, n_features), float32; a view."""
        check_is_fitted(self, "_weights")
        return self._weights.coef

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """Intercepts, (n_classes,), float32."""
        check_is_fitted(self, "_weights")
        return self._weights.intercept

    def _validated(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self, "_weights")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=False)
        return canonical_csr(X) if sp.issparse(X) else np.asarray(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores x.w_k + b_k.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float32; for two classes, as scikit-learn has it, of shape
        (n_samples,): the score of the second less that of the first.
        """
        scores = self._weights_of(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _weights_of(self, X: ArrayLike) -> NDArray[np.float32]:
        x = self._validated(X)
        return self._weights.scores(x, n_threads_from(self.n_jobs))

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log-probabilities of all classes, in nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Takes 8 n_samples n_classes bytes; see `predict_top_k` for the best classes only.
        """
        scores = self._weights_of(X).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of all classes; rows sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
        """
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label of each point; of equals, the first in `classes_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), with the dtype of `classes_`
        """
        x = self._validated(X)
        best, _ = self._weights.top_k(x, 1, n_threads_from(self.n_jobs))
        labels: NDArray[Any] = self.classes_[best[:, 0]]
        return labels

    def predict_top_k(self, X: ArrayLike, k: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k most probable labels with their exact log-probabilities, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int
            In [1, n_classes].

        Returns
        -------
        labels : ndarray of shape (n_samples, k), with the dtype of `classes_`
        log_probabilities : ndarray of shape (n_samples, k), float32
            In nats, under the softmax over all classes.

        Raises
        ------
        ValueError
            If k is out of range.
        """
        x = self._validated(X)
        check_number("k", k, low=1, high=len(self.classes_), integer=True)
        best, log_probabilities = self._weights.top_k(x, int(k), n_threads_from(self.n_jobs))
        return self.classes_[best], log_probabilities

    def evaluate(self, X: ArrayLike, y: ArrayLike) -> dict[str, float]:
        """Evaluate exactly, over all classes, without an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels, all among `classes_`.

        Returns
        -------
        dict
            "log_loss": mean negative log-probability of the true label, in nats; "error": share of points whose label
            is not the predicted one; "top5_error": not among the five most probable ones.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        x = self._validated(X)
        return summarize(*self._weights.log_losses(x, self._labels_of(y, x), n_threads_from(self.n_jobs)))

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
            alpha=0 the dual is 0.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        x = self._validated(X)
        return duality_gap(
            self._weights,
            x,
            self._labels_of(y, x),
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
            n_threads=n_threads_from(self.n_jobs),
        )

    def _labels_of(self, y: ArrayLike, x: Matrix) -> NDArray[np.int32]:
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != x.shape[0]:
            raise ValueError(f"X has {x.shape[0]} rows, y has shape {y.shape}; it must be ({x.shape[0]},)")
        at = np.searchsorted(self.classes_, y)
        found = self.classes_[np.minimum(at, len(self.classes_) - 1)] == y
        if not np.all(found):
            unseen = np.unique(y[~found])
            raise ValueError(
                f"y has {len(unseen)} labels unseen in fit, among them {unseen[0]!r}; drop those points "
                "(manyclass.datasets.drop_unseen_classes) or fit on data that has them"
            )
        return at.astype(np.int32)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _row_norms_sq(x: Matrix) -> NDArray[np.float32]:
    if isinstance(x, sp.csr_array):
        squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), shape=x.shape)
        return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()
    return np.asarray(np.einsum("ij,ij->i", x, x, dtype=np.float32))


def _largest_u(max_norm: float | None, largest_x_sq: float, n_classes: int) -> float:
    """B_u = log(1 + (K - 1) e^(2 B_x B_w)) of Fagan & Iyengar 2018, Lemma 2."""
    if max_norm is None:
        return float(np.inf)
    return float(np.logaddexp(0.0, np.log(n_classes - 1) + 2 * np.sqrt(largest_x_sq) * max_norm))
