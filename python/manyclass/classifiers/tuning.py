"""The step size found by trying a grid of them on a part of the points, and how a grid is walked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from manyclass.checks import canonical_csr, check_choice, check_number
from manyclass.choosing.facts import Lengths
from manyclass.choosing.plans import scales_features
from manyclass.datasets import first_label
from manyclass.fitting.points import indicator_lists, is_indicator
from manyclass.fitting.trials import VALIDATION, LearningRates, quietly, search_grid
from manyclass.labels import check_targets, labels_by_row, sorted_classes
from manyclass.parts import part_name
from manyclass.protocols import Estimator, Resolved
from manyclass.training.passes import fork, held_out
from manyclass.training.weighting import raw_weights
from manyclass.weights.arrays import Data, Matrix
from manyclass.weights.weights import FeatureScaling


def tune_learning_rate(
    estimator: Estimator,
    X: Data,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fraction: float = 0.1,
    min_points: int = 10_000,
    criterion: str = "validation",
    random_state: Any = 0,
) -> LearningRates:
    """Try step sizes on a part of the points, as Fagan & Iyengar (2018, section 4.1) do.

    Each of 10^k / s, k = -3, ..., 3, trains the estimator on the same points for its max_iter passes; s is the mean of
    |x|^2 over them, of scaled features where the estimator scales them, plus 1 with an intercept, so that the grid does
    not depend on the scale of X. The best one has the
    smallest exact log-loss or, of a MarginClassifier, the fewest points whose best class is not their label. A best one
    at an end of the grid is not believed: the grid goes on there.

    Parameters
    ----------
    estimator : SoftmaxClassifier, MarginClassifier or AugmentReduceClassifier
        All its other parameters are used as they are, but early_stopping and verbose, which are off. Left unchanged.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for training and for the criterion. The estimator's class_weight is for training alone.
    fraction : float, default=0.1
        Share of the points, in ]0, 1].
    min_points : int, default=10000
        But at least so many of them, or all: what is best for a tenth of 5,000 points is too large for the whole.
    criterion : {"validation", "training"}, default="validation"
        Which log-loss: on a tenth of these points, held out; or on those that were trained on, as in the paper. Points
        that can be separated have a training log-loss that falls with the rate for ever.
    random_state : int, RandomState instance or None, default=0
        Which points.

    Returns
    -------
    LearningRates

    Raises
    ------
    ValueError
        If every rate diverged, the estimator's solver has no step size (lbfgs), or for what `fit` refuses.

    Warns
    -----
    ConvergenceWarning
        If the best rate is 10^6 / s or 10^-6 / s, beyond which none is tried.
    """
    check_choice("criterion", criterion, ("validation", "training"))
    check_number("fraction", fraction, low=0, open_low=True, high=1)
    check_number("min_points", min_points, low=0, integer=True)
    own = estimator.get_params(deep=False)
    if part_name(own.get("solver", "")) == "lbfgs":
        raise ValueError("solver is 'lbfgs', which has no learning rate; there is nothing to tune")
    x: Matrix = canonical_csr(X) if sp.issparse(X) else np.asarray(X, dtype=np.float32)
    check_targets(y)
    several, n = is_indicator(y), x.shape[0]
    labels: Any = indicator_lists(y, n) if several else labels_by_row(y, n)
    weights = raw_weights(sample_weight, n)
    if weights is not None and not weights.all():
        given = np.flatnonzero(weights)
        x, labels, weights, n = x[given], labels[given], weights[given], len(given)
    size = min(n, max(int(min_points), round(fraction * n), 2))
    rows = np.sort(fork(random_state).permutation(n)[:size])
    x, labels = x[rows], labels[rows]
    r = None if weights is None else weights[rows]
    judged = np.ones(size, dtype=bool)
    if criterion == "validation":
        # Of a point with several labels the first one stands for it.
        of_points = first_label(labels) if several else labels
        judged = held_out(sorted_classes(of_points)[1].astype(np.int32), VALIDATION, fork(random_state))
    trained = ~judged if criterion == "validation" else judged
    fit_intercept = bool(own.get("fit_intercept", False))
    seen = x
    if not several and "model" in own and scales_features(own["solver"], own["model"]):
        seen = FeatureScaling.of(x, centre=fit_intercept, weights=r).apply(x)
    scale = Lengths.of(seen).mean_square + fit_intercept

    def loss(exponent: int) -> float:
        model = clone(estimator).set_params(learning_rate=10.0**exponent / scale, verbose=0)
        off = {"early_stopping": False, "validation_fraction": 0.1, "n_iter_no_change": 5}
        model.set_params(**{name: value for name, value in off.items() if name in own})
        of_trained, of_judged = ({} if r is None else {"sample_weight": r[some]} for some in (trained, judged))
        # A callback looks on, so that a step size that diverges is not made smaller.
        quietly(lambda: model.fit(x[trained], labels[trained], callback=lambda _: False, **of_trained))
        told = model.resolved_params_ if isinstance(model, Resolved) else {}
        if model.n_iter_ < told.get("max_iter", model.max_iter):
            return math.inf
        evaluation = model.evaluate(x[judged], labels[judged], **of_judged)
        found = evaluation["log_loss" if "log_loss" in evaluation else "error"]
        return found if math.isfinite(found) else math.inf

    return search_grid(loss, scale)
