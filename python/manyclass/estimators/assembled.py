"""A fitted estimator of weights that were trained elsewhere: by workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyclass.estimators.base import Points
from manyclass.estimators.history import Features, History
from manyclass.estimators.settle import Settled
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Doubles, LinearWeights
from manyclass.training.plan import Labels

Estimator = TypeVar("Estimator")


@dataclass(frozen=True)
class Trained:
    """What was found elsewhere.

    Attributes
    ----------
    weights : LinearWeights
        Of features as training saw them; they are folded in place.
    classes : ndarray of shape (n_classes,)
    counts : ndarray of shape (n_classes,), float64
        Rows of each.
    names : ndarray of shape (n_features,) or None
    curve : list of float
    settled : Settled
    scaling : FeatureScaling or None
    n_points : int
        Rows seen before this training, and in it.
    """

    weights: LinearWeights
    classes: NDArray[Any]
    counts: Doubles
    names: NDArray[Any] | None
    curve: list[float]
    settled: Settled
    scaling: FeatureScaling | None = None
    n_points: int = field(default=0)


def assembled(owner: Estimator, trained: Trained) -> Estimator:
    """Return an estimator with the parameters of `owner`, fitted with what was trained elsewhere."""
    model: Any = clone(owner)
    weights, n = trained.weights, int(trained.counts.sum())
    if trained.scaling is not None:
        trained.scaling.fold(weights)
    x = np.zeros((1, weights.coef.shape[1]), dtype=np.float32)
    points = Points(x, Labels.single(np.zeros(1, dtype=np.int32)), trained.classes, Features(x.shape[1], trained.names))
    settled = trained.settled
    model._take(
        points,
        weights,
        trained.curve,
        class_count_=trained.counts,
        validation_curve_=np.zeros(0),
        best_iter_=len(trained.curve),
        resolved_params_=settled.params,
        alpha_path_=settled.alpha_path,
        learning_rate_table_=settled.rates,
        auto_report_=settled.trials.report,
        _history=replace(History.of_fit(n, trained.scaling, 1.0), n_points=trained.n_points or n),
    )
    fitted: Estimator = model
    return fitted
