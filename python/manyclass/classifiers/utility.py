"""AugmentReduceClassifier: multinomial probit, logistic and softmax regression for very many classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.checks import n_threads_from
from manyclass.classifiers.base import LinearClassifier
from manyclass.fitting.fit import SharedOptions, with_shared_options
from manyclass.fitting.planners import UtilityPlanner, family_of, predictive, utility_losses
from manyclass.fitting.streams import Parts
from manyclass.labels import labels_by_row, positions_of
from manyclass.parts import Parameters, Part, hinting, storing
from manyclass.training.state import ClassWeight, State
from manyclass.weights.arrays import Data, Doubles, Floats, Ids, Matrix


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
    solver : {"implicit", "sgd"} or object of manyclass.solvers, default="implicit"
        How W moves: by a proximal step at the new q, linearised and solved in closed form (exactly for the softmax),
        which bears large step sizes; or along the gradient, as in the paper. Of their parameters, schedule, decay,
        averaging, batch_size, share_classes, shuffle and parallel are used; "adaptive" is the paper's schedule, for
        "sgd" without ridge and averaging.
    local_step : {"natural", "monte_carlo"} or object of manyclass.solvers, default="natural"
        How q moves at a visit. "natural": along the natural gradient with expectations by quadrature; for Gumbel noise
        q is known but for one number, which moves likewise. "monte_carlo": the paper's Algorithm 2, a gradient step on
        the location and the scale log(1 + e^gamma) from one draw of q, the gradient of W from another; not for
        noise="gumbel". `manyclass.solvers.Natural` and `MonteCarlo` have the gains and the families of q.
    sampler : str or object of manyclass.samplers, default="auto"
        Which wrong classes a step sees; see `SoftmaxClassifier`. "auto" is "frequency_block", and distinct uniform
        classes with a posterior.
    n_negatives : int or "auto", default="auto"
        Classes per step; "auto" is 64.
    posterior : {"point", "gaussian"} or `manyclass.solvers.Gaussian`, default="point"
        What is kept of W: the maximum of the bound (with the ridge), or a Gaussian posterior with diagonal covariance
        under the prior of precision n_samples alpha; needs alpha > 0. It is trained on one thread: batches of
        `batch_size` points (None: 16) share n_negatives distinct uniform classes, or all. Predictions then average
        probabilities over draws of the scores, `coef_` holds the means and `elbo_curve_` has the divergence from the
        prior in it. Takes the memory of W three times more. `solvers.Gaussian(bound="one_vs_each")` is Bayesian
        one-vs-each (Titsias 2016).
    alpha : float, default=0.0
        L2 penalty: the objective is the mean of -bound + alpha/2 ||W||^2, which is a Gaussian prior of precision
        n_samples alpha; intercepts are not penalised. A step shrinks the rows that it touches.
    learning_rate : float or "auto", default="auto"
        Step size on the gradient of the *mean* bound, > 0; it does not depend on n_samples. "auto" is c divided by the
        mean of \|x_i\|^2 (plus 1 with an intercept), c being 1, but 0.01 for "sgd" with normal noise, whose gradients
        grow with the scores; with schedule="adaptive" it is 0.02.
    max_iter : int, default=20
        Passes over the data.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; see `SoftmaxClassifier`.
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: a progress bar.
    calibration : {"temperature"} or None, default=None
        Divide utilities by a temperature found on held-out rows (a tenth); see `SoftmaxClassifier`.
    n_models : int, default=1
        Train this many models with different seeds and average their utilities; see `SoftmaxClassifier`.
    warm_start : bool, default=False
        `fit` starts from the weights of the last fit, and q from its first value.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), distinct labels, sorted
    class_count_ : ndarray of shape (n_classes,), float64, rows of each class so far
    coef_ : ndarray of shape (n_classes, n_features), float32, a view of the weights
    intercept_ : ndarray of shape (n_classes,), float32
    coef_var_ : ndarray of shape (n_classes, n_features), float32, posterior variances, with posterior="gaussian"
    elbo_curve_ : ndarray of shape (n_iter,), float64
        Mean bound of each pass in nats per point, from the selected classes, which q has just moved towards: optimistic
        unless all are selected. `elbo` gives the exact value.
    loss_curve_ : ndarray of shape (n_iter,), float64, minus `elbo_curve_`
    n_iter_ : int, passes completed
    n_features_in_ : int, number of features
    feature_names_in_ : ndarray of shape (n_features,), names of features, where X has them

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

    _planner = UtilityPlanner

    @storing
    def __init__(
        self,
        *,
        noise: str = "normal",
        solver: Literal["implicit", "sgd"] | Part = "implicit",
        local_step: str | Part = "natural",
        sampler: str | Part = "auto",
        n_negatives: int | Literal["auto"] = "auto",
        posterior: str | Part = "point",
        alpha: float = 0.0,
        learning_rate: float | Literal["auto"] = "auto",
        max_iter: int = 20,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        calibration: Literal["temperature"] | None = None,
        n_models: int = 1,
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
            Sparse data train feature-major weights, dense data class-major ones.
        y : array-like of shape (n_samples,)
            Labels of any sortable type, two or more, text by its composed form (NFC).
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of losses, >= 0, by their ratios: a row of weight 2 counts as two, one of weight 0 is left out. With
            posterior="gaussian" their sum is the number of observations, which says how wide the posterior is.
        coef_init : array-like of shape (n_classes, n_features), default=None
            First weights, in the order of `classes_`; None: 0. Not with posterior="gaussian".
        intercept_init : array-like of shape (n_classes,), default=None
            First intercepts, likewise.

        Returns
        -------
        self
        """
        return self._fit((X, y, sample_weight), dict(shared, coef_init=coef_init, intercept_init=intercept_init))

    @property
    def elbo_curve_(self) -> Doubles:
        """Mean bound of each pass, of shape (``n_iter_``,), in nats per point."""
        return -self.loss_curve_

    def elbo(self, X: Data, y: ArrayLike) -> float:
        """Return the bound itself: its mean over points, in nats, with the best q of each and all classes.

        Never above the mean log-probability, -`evaluate(X, y)["log_loss"]`, but by rounding; equal to it for Gumbel
        noise, whose q is exact. Takes O(n_classes) time a point, some hundred times that of scoring them. Raises
        ValueError as evaluate(X, y, unseen="error") does, and with posterior="gaussian".

        Parameters
        ----------
        X : rows, as in fit
        y : their labels, as in fit

        Returns
        -------
        float
        """
        if self._fitted.variances is not None:
            raise ValueError("elbo is of point estimates; with posterior='gaussian' see elbo_curve_")
        if self.noise == "gumbel":
            return -self.evaluate(X, y, unseen="error")["log_loss"]
        state, x = self._asked(X)
        labels = positions_of(labels_by_row(y, x.shape[0]), state.classes, "y")
        family, total = family_of(Parameters.of(self), len(state.classes)), 0.0
        n_threads = n_threads_from(self.n_jobs)
        for first, scores in state.weights.score_tiles(x, n_threads):
            labels_of_tile = labels[first : first + len(scores)]
            total += float(family.best_bounds(self.noise, scores, labels_of_tile, n_threads).sum())
        return total / max(1, len(labels))

    @property
    def coef_var_(self) -> Floats:
        """Posterior variances of the weights, (n_classes, n_features), float32; a view. With posterior="gaussian"."""
        state = self._fitted
        if state.variances is None:
            raise AttributeError(f"coef_var_ needs posterior='gaussian'; it is {self.posterior!r}")
        variances: Floats = state.by_column(replace(state.weights, matrix=state.variances).coef)
        return variances

    def _log_probabilities(self, state: State, x: Matrix) -> Doubles:
        if state.variances is not None:
            return np.concatenate([log_p for _, log_p in predictive(Parameters.of(self), state, x)])
        if self.noise == "gumbel":
            return super()._log_probabilities(state, x)
        return state.weights.log_probabilities(x, self.noise, n_threads_from(self.n_jobs))

    def _log_losses(self, state: State, x: Matrix, labels: Ids, factor: float = 1.0) -> tuple[Doubles, Ids]:
        return utility_losses(Parameters.of(self), state, x, labels, factor)

    def _top_k(self, state: State, x: Matrix, k: int) -> tuple[Ids, Floats]:
        if state.variances is None:
            return state.weights.top_k(x, k, n_threads_from(self.n_jobs), self.noise)
        classes, log_probabilities = zip(
            *(_core.best_classes(log_p, k) for _, log_p in predictive(Parameters.of(self), state, x)), strict=True
        )
        return np.concatenate(classes), np.concatenate(log_probabilities)  # -inf is for a label too few

    def _not_softmax(self, state: State) -> str:
        if state.variances is not None:
            return "posterior is 'gaussian', whose predictions average over draws of all scores"
        return "" if self.noise == "gumbel" else f"noise is {self.noise!r}, whose probabilities need all scores"
