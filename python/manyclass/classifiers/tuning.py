"""The step size found by trying a grid of them on a part of the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manyclass.checks import canonical_csr, check_choice, check_number
from manyclass.choosing.costs import LearningRates
from manyclass.classifiers.base import LinearClassifier, planner_of
from manyclass.fitting.trials import try_grid
from manyclass.labels import check_targets, group_ids, indicator_lists, is_indicator, labels_by_row
from manyclass.parts import part_name
from manyclass.training.state import raw_weights
from manyclass.weights.arrays import Data, Matrix


def tune_learning_rate(
    estimator: LinearClassifier,
    X: Data,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    fraction: float = 0.1,
    min_points: int = 10_000,
    criterion: str = "validation",
    random_state: Any = 0,
) -> LearningRates:
    """Try step sizes on a part of the points, as Fagan & Iyengar (2018, section 4.1) do.

    Each of 10^k / s, k = -3, ..., 3, trains the estimator on the same points for its max_iter passes; s is the mean of
    |x|^2 over them, of scaled features where the estimator scales them, plus 1 with an intercept. The best one has the
    smallest exact log-loss or, of a MarginClassifier, the fewest points whose best class is not their label. Where it
    is at an end of the grid, the grid goes on there.

    Parameters
    ----------
    estimator : SoftmaxClassifier, MarginClassifier or AugmentReduceClassifier
        All its other parameters are used as they are, but early_stopping and verbose, which are off. Left unchanged.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for training and for the criterion. The estimator's class_weight is for training alone.
    groups : array-like of shape (n_samples,), default=None
        The group of each row, as in `fit`: whole groups are held out.
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
    planner = planner_of(estimator)
    if part_name(planner.parameters["solver"]) == "lbfgs":
        raise ValueError("solver is 'lbfgs', which has no learning rate; there is nothing to tune")
    x: Matrix = canonical_csr(X) if sp.issparse(X) else np.asarray(X, dtype=np.float32)
    check_targets(y)
    n = x.shape[0]
    labels = indicator_lists(y, n) if is_indicator(y) else labels_by_row(y, n)
    return try_grid(
        planner,
        x,
        labels,
        raw_weights(sample_weight, n),
        fraction=fraction,
        min_points=min_points,
        criterion=criterion,
        random_state=random_state,
        groups=None if groups is None else group_ids(groups, n),
    )
