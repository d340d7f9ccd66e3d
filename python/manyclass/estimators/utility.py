"""AugmentReduceClassifier: multinomial probit, logistic and softmax regression for very many classes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.estimators.base import LinearClassifier
from manyclass.model.weights import Data, LinearWeights, Matrix
from manyclass.training.local_family import LocalFamily, best_bounds
from manyclass.training.passes import Callback, Schedule
from manyclass.training.posterior import fit_posterior, predictive_tiles
from manyclass.training.sampled import fit_sampled, row_norms_sq

ADAPTIVE_RATE = 0.02  # Ruiz et al. 2018, section 4
# Of the three families the one with the tightest bound. Gaps in nats at equal scores of 2, 10 and 1,000 classes, normal
# noise: .002, .013, .045 with normal q; logistic noise: .024, .002, .000 with Gumbel q and .014, .083, .143 with the
# paper's logistic q.
AUTO_FAMILY = {"normal": "normal", "logistic": "gumbel"}
PAPERS_FAMILY = {"normal": "normal", "logistic": "logistic"}
# Of the gradient in the scores they leave errors of at most 1%, but where a point is all but certain.
AUTO_NODES = {"normal": 3, "logistic": 5, "gumbel": 4}
MOST_NODES = 31
# Parameters of the training loop that this estimator does not have.
FIXED = {
    "formulation": "proposed",
    "root": "newton",
    "delta": 1.0,
    "u_gain": 1.0,
    "u_init": "log_n_classes",
    "max_norm": None,
    "refresh": 10,
}


class AugmentReduceClassifier(LinearClassifier):
    r"""Multinomial probit, logistic and softmax regression by augment and reduce (Ruiz et al. 2018).

    The label is the class of the largest utility, :math:`y = \arg\max_k x \cdot w_k + b_k + \epsilon_k`, the noise
    :math:`\epsilon_k` being independent with density :math:`\phi` and distribution function :math:`\Phi`. With
    :math:`d_k = x \cdot (w_k - w_y) + b_k - b_y`, training maximises the mean over points of the bound

    .. math:: \log p(y) \ge E_q\Bigl[\log\phi(\epsilon) + \sum_{k \ne y} \log\Phi(\epsilon - d_k)\Bigr] + H(q)

    over W and a distribution q for each point. The sum over classes stands outside of any logarithm, so that a few
    sampled classes give an unbiased gradient, and a step costs the same for any number of classes. Predictions and
    `evaluate` use the probabilities of the model themselves, by quadrature, and not the bound.

    Parameters
    ----------
    noise : {"normal", "logistic", "gumbel"}, default="normal"
        Multinomial probit, multinomial logistic in the sense of the paper, or the softmax (for which
        `SoftmaxClassifier` has more solvers).
    solver : {"implicit", "sgd"}, default="implicit"
        How W moves: by a proximal step at the new q, linearised and solved in closed form (exactly for the softmax),
        which bears large step sizes; or along the gradient, as in the paper.
    local_step : {"natural", "monte_carlo"}, default="natural"
        How q moves at a visit. "natural": along the natural gradient with expectations by quadrature, by a share
        (1 + t)^-0.9 at the t-th visit, though at least the share of the classes that a step sees (all of the way if it
        sees all). For Gumbel noise q is known but for one number, which moves likewise. "monte_carlo": the paper's
        Algorithm 2, a gradient step of size 0.01 (1 + t)^-0.9 on the location and the scale log(1 + e^gamma) from one
        draw of q, the gradient of W from another; not for noise="gumbel".
    local_family : {"auto", "normal", "logistic", "gumbel"}, default="auto"
        The family of q, with a location and a scale. "auto" is the noise's own with local_step="monte_carlo", as in the
        paper; else "normal" for normal and "gumbel" for logistic noise, whose bounds are tighter. Not used with
        noise="gumbel".
    n_nodes : int or "auto", default="auto"
        Nodes of the Gauss rule for expectations under q, from 2 to 31; "auto" is 3 for the normal family, 4 for the
        Gumbel and 5 for the logistic one. Not used with noise="gumbel" nor, but for moments, with
        local_step="monte_carlo".
    selection : {"block", "uniform", "all", "frequency", "frequency_block", "head_tail"}, default="frequency_block"
        Which wrong classes a step sees; see `SoftmaxClassifier`.
    n_negatives : int, default=64
        Classes per step (of the block, with "head_tail"; rounded up to a multiple of 16 with "frequency_block"); more
        than there are means all of them, or as many draws. Not used with selection="all".
    frequency_power : float, default=0.75
        For the selections by frequency.
    n_head : int, default=16
        For selection="head_tail": how many of its highest-scored wrong classes are found for each point after every
        tenth pass; at most 64. See `SoftmaxClassifier`.
    batch_size : int or None, default=None
        Points whose steps are made at the same weights and averaged. None: steps are made one by one or, from 1,024
        classes on, in small batches whose steps are *added*, so that threads can share the work (see `parallel`).
    share_classes : bool, default=False
        Let the points of a batch see the same drawn classes.
    learning_rate : float or "auto", default="auto"
        Step size on the gradient of the *mean* bound, > 0; it does not depend on n_samples. "auto" is c divided by the
        mean of \|x_i\|^2 (plus 1 with an intercept), c being 1, but 0.01 for solver="sgd" with normal noise, whose
        gradients grow with the scores; with schedule="adaptive" it is 0.02.
    schedule : {"exponential", "inverse", "constant", "adaptive"}, default="exponential"
        See `SoftmaxClassifier`; "adaptive" is the paper's, for solver="sgd" without ridge and averaging.
    decay : float, default=0.9
        Factor of the exponential and the adaptive schedule, in (0, 1].
    max_iter : int, default=20
        Passes over the data.
    shuffle : bool, default=True
        Visit the points in a new random order in each pass, or in the order of X.
    alpha : float, default=0.0
        Ridge per point: the objective is the mean of -bound + alpha/2 ||W||^2, a Gaussian prior of precision
        n_samples alpha; intercepts are not penalised. A step shrinks the rows that it touches.
    averaging : {"none", "polyak", "suffix"}, default="none"
        Return the last iterate, or a mean of those after each pass: see `SoftmaxClassifier`.
    posterior : {"point", "gaussian"}, default="point"
        What is kept of W: the maximum of the bound (with the ridge), or a Gaussian posterior with diagonal covariance
        under the prior of precision n_samples alpha; needs alpha > 0. Its loop is NumPy's and runs on one thread:
        batches of `batch_size` points (None: 16) share n_negatives distinct uniform classes, with every `selection`
        but "all"; `solver`, `share_classes`, `shuffle` and `verbose` are not used. Predictions then average
        probabilities over draws of the scores, `coef_` holds the means and `elbo_curve_` has the divergence from the
        prior in it. Takes the memory of W three times more.
    n_draws : int, default=32
        Draws for predictions with posterior="gaussian", the same at every call.
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    parallel : {"deterministic", "hogwild"}, default="deterministic"
        See `SoftmaxClassifier`.
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
    coef_var_ : ndarray of shape (n_classes, n_features), float32
        Posterior variances, with posterior="gaussian".
    intercept_ : ndarray of shape (n_classes,), float32
        Intercepts; zeros without fit_intercept.
    elbo_curve_ : ndarray of shape (n_iter_,), float64
        Mean over each pass of the bound in nats per point, at the weights of the visit and q after its local step, from
        the selected classes (which q has just moved towards: an optimistic estimate unless all are selected). `elbo`
        gives the exact value.
    loss_curve_ : ndarray of shape (n_iter_,), float64
        -elbo_curve_.
    n_iter_ : int
        Passes completed.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has some.

    Notes
    -----
    Memory beside the weights: 16 bytes per point for q. The utilities of a probit model with unit variances are
    identified up to a constant per point.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import AugmentReduceClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> y = np.array(["ant", "bee", "cow"] * 20)
    >>> model = AugmentReduceClassifier(noise="normal", random_state=0).fit(X, y)
    >>> model.predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    >>> bool(model.elbo(X, y) <= -model.evaluate(X, y)["log_loss"])
    True
    """

    _variances: NDArray[np.float32] | None

    _weights: LinearWeights

    def __init__(
        self,
        *,
        noise: str = "normal",
        solver: str = "implicit",
        local_step: str = "natural",
        local_family: str = "auto",
        n_nodes: int | str = "auto",
        selection: str = "frequency_block",
        n_negatives: int = 64,
        frequency_power: float = 0.75,
        n_head: int = 16,
        batch_size: int | None = None,
        share_classes: bool = False,
        learning_rate: float | str = "auto",
        schedule: str = "exponential",
        decay: float = 0.9,
        max_iter: int = 20,
        shuffle: bool = True,
        alpha: float = 0.0,
        averaging: str = "none",
        posterior: str = "point",
        n_draws: int = 32,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        parallel: str = "deterministic",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.noise = noise
        self.solver = solver
        self.local_step = local_step
        self.local_family = local_family
        self.n_nodes = n_nodes
        self.selection = selection
        self.n_negatives = n_negatives
        self.frequency_power = frequency_power
        self.n_head = n_head
        self.batch_size = batch_size
        self.share_classes = share_classes
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay = decay
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.alpha = alpha
        self.averaging = averaging
        self.posterior = posterior
        self.n_draws = n_draws
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.parallel = parallel
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Data,
        y: ArrayLike,
        *,
        callback: Callback | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; made float32. Sparse data train feature-major weights, dense data class-major ones.
        y : array-like of shape (n_samples,)
            Labels of any sortable type, at least two distinct ones.
        callback : callable, default=None
            Called after each pass with a `TrainingState`; training stops when it returns True.
        max_seconds : float, default=None
            Training stops after this time, counted without callbacks, even within a pass.

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
            If training diverged or was interrupted, the model being the one reached before.
        """
        self._check_parameters()
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, low=0)
        n_threads = n_threads_from(self.n_jobs)
        x, labels, classes = self._training_data(X, y)
        self.classes_ = classes
        x_sq = row_norms_sq(x)
        family = None if self.noise == "gumbel" else self._family(len(classes))
        if self.posterior == "gaussian":
            if callback is not None or max_seconds is not None:
                raise ValueError("posterior='gaussian' knows no callback and no max_seconds; they must be None")
            self._weights, self._variances, curve = fit_posterior(
                self, x, labels, len(classes), schedule=self._schedule(x_sq), family=family
            )
            self.loss_curve_, self.n_iter_ = np.array(curve), len(curve)
            return self
        self._variances = None
        self._weights, curve = fit_sampled(
            SimpleNamespace(**FIXED, **self.get_params(deep=False)),
            x,
            labels,
            len(classes),
            schedule=self._schedule(x_sq),
            x_sq=x_sq,
            n_threads=n_threads,
            candidates=None,
            callback=callback,
            max_seconds=np.inf if max_seconds is None else max_seconds,
            local=family,
        )
        self.loss_curve_ = np.array(curve)
        self.n_iter_ = len(curve)
        return self

    @property
    def elbo_curve_(self) -> NDArray[np.float64]:
        """Mean bound of each pass, (n_iter_,), in nats per point."""
        return -self.loss_curve_

    def elbo(self, X: Data, y: ArrayLike) -> float:
        """Return the bound itself: its mean over points, in nats, with the best q of each and all classes.

        Never above the mean log-probability, -`evaluate(X, y)["log_loss"]`, but by rounding; equal to it for Gumbel
        noise, whose q is exact.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels, all among `classes_`.

        Returns
        -------
        float
            Takes O(n_classes) time a point, some hundred times that of scoring them, and memory for a few points.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit, or with posterior="gaussian".
        """
        if self.posterior == "gaussian":
            raise ValueError("elbo is of point estimates; with posterior='gaussian' see elbo_curve_")
        if self.noise == "gumbel":
            return -self.evaluate(X, y)["log_loss"]
        x = self._validated(X)
        labels, family = self._labels_of(y, x), self._family(len(self.classes_))
        total = 0.0
        n_threads = n_threads_from(self.n_jobs)
        for first, scores in self._weights.score_tiles(x, n_threads):
            some = labels[first : first + len(scores)]
            total += float(best_bounds(self.noise, scores, some, family, n_threads).sum())
        return total / max(1, len(labels))

    @property
    def coef_var_(self) -> NDArray[np.float32]:
        """Posterior variances of the weights, (n_classes, n_features), float32; a view. With posterior="gaussian"."""
        check_is_fitted(self, "_weights")
        if self._variances is None:
            raise AttributeError(f"coef_var_ needs posterior='gaussian'; it is {self.posterior!r}")
        return LinearWeights(self._variances, self._weights.intercept, self._weights.sparse).coef

    def _predictive(self, x: Matrix) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Posterior-mean probabilities of all classes, some points at a time; the same draws at every call."""
        assert self._variances is not None
        return predictive_tiles(
            self.noise,
            self._weights,
            self._variances,
            x,
            n_draws=self.n_draws,
            seed=0,
            n_threads=n_threads_from(self.n_jobs),
        )

    def _log_probabilities(self, x: Matrix) -> NDArray[np.float64]:
        if self._variances is not None:
            p = np.concatenate([p for _, p in self._predictive(x)])
            with np.errstate(divide="ignore"):
                np.log(p, out=p)
            return p
        if self.noise == "gumbel":
            return super()._log_probabilities(x)
        n_threads = n_threads_from(self.n_jobs)
        psi = self._weights.scores(x, n_threads).astype(np.float64)
        log_p: NDArray[np.float64] = _core.utility_probabilities(
            noise=self.noise, psi=psi, log=True, n_threads=n_threads
        )
        return log_p

    def _log_losses(self, x: Matrix, labels: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        if self._variances is None:
            return self._weights.log_losses(x, labels, n_threads_from(self.n_jobs), noise=self.noise)
        losses, ranks = [], []
        for first, p in self._predictive(x):
            own = np.take_along_axis(p, labels[first : first + len(p), np.newaxis], axis=1)
            losses.append(-np.log(np.maximum(own[:, 0], np.finfo(np.float64).tiny)))
            ranks.append((p > own).sum(axis=1))
        return np.concatenate(losses), np.concatenate(ranks).astype(np.int32)

    def _top_k(self, x: Matrix, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if self._variances is None:
            return self._weights.top_k(x, k, n_threads_from(self.n_jobs), self.noise)
        classes, log_p = [], []
        for _, p in self._predictive(x):
            best = np.argsort(-p, axis=1, kind="stable")[:, :k]
            classes.append(best.astype(np.int32))
            log_p.append(np.log(np.take_along_axis(p, best, axis=1)).astype(np.float32))
        return np.concatenate(classes), np.concatenate(log_p)

    def _not_softmax(self) -> str:
        if self._variances is not None:
            return "posterior is 'gaussian', whose predictions average over draws of all scores"
        return "" if self.noise == "gumbel" else f"noise is {self.noise!r}, whose probabilities need all scores"

    def _check_parameters(self) -> None:
        check_choice("noise", self.noise, _core.noise_names())
        check_choice("solver", self.solver, ("implicit", "sgd"))
        check_choice("local_step", self.local_step, _core.local_step_names())
        if self.noise == "gumbel" and self.local_step != "natural":
            raise ValueError(f"local_step is {self.local_step!r}; with noise='gumbel' it must be 'natural'")
        check_choice("local_family", self.local_family, ("auto", *_core.local_family_names()))
        if isinstance(self.n_nodes, str):
            check_choice("n_nodes", self.n_nodes, ("auto",))
        else:
            check_number("n_nodes", self.n_nodes, low=2, high=MOST_NODES, integer=True)
        check_choice("posterior", self.posterior, ("point", "gaussian"))
        check_number("n_draws", self.n_draws, low=1, integer=True)
        self._check_sampling()
        if self.posterior == "gaussian" and (
            not self.alpha > 0
            or self.selection in ("frequency", "head_tail")
            or self.local_step != "natural"
            or self.schedule == "adaptive"
            or self.averaging != "none"
            or self.parallel != "deterministic"
        ):
            raise ValueError(
                "posterior='gaussian' needs alpha > 0, selection 'frequency_block', 'block', 'uniform' or 'all', "
                "local_step='natural', "
                "averaging='none', parallel='deterministic' and a schedule other than 'adaptive'; they are "
                f"{self.alpha!r}, {self.selection!r}, {self.local_step!r}, {self.averaging!r}, {self.parallel!r} and "
                f"{self.schedule!r}"
            )
        if self.schedule == "adaptive" and (self.solver != "sgd" or self.alpha > 0 or self.averaging != "none"):
            raise ValueError(
                "schedule='adaptive' needs solver='sgd', alpha=0 and averaging='none'; they are "
                f"{self.solver!r}, {self.alpha!r} and {self.averaging!r}"
            )

    def _family(self, n_classes: int) -> LocalFamily:
        """Return the family of q; there is none to choose for Gumbel noise."""
        families = AUTO_FAMILY if self.local_step == "natural" else PAPERS_FAMILY
        name = families[self.noise] if self.local_family == "auto" else self.local_family
        n_nodes = AUTO_NODES[name] if isinstance(self.n_nodes, str) else int(self.n_nodes)
        return LocalFamily.of(self.noise, name, n_nodes, n_classes)

    def _schedule(self, x_sq: NDArray[np.float32]) -> Schedule:
        if not isinstance(self.learning_rate, str):
            rate = float(self.learning_rate)
        elif self.schedule == "adaptive":
            rate = ADAPTIVE_RATE
        else:
            relative = 0.01 if self.solver == "sgd" and self.noise == "normal" else 1.0
            mean_sq = float(x_sq.mean()) + bool(self.fit_intercept)
            rate = relative / max(mean_sq, float(np.finfo(np.float32).tiny))
        return Schedule(self.schedule, rate, rate, self.decay)
