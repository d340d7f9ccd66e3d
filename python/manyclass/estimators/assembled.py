"""A fitted estimator of weights that were trained elsewhere: by workers of a cluster."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyclass.estimators.base import Points
from manyclass.estimators.continued import Before, more_of_softmax, told_after
from manyclass.estimators.fitting import asks_for_batches
from manyclass.estimators.history import Features, History
from manyclass.estimators.margin import MarginClassifier
from manyclass.estimators.settle import Settled, settle_batches
from manyclass.model.kinds import Weights
from manyclass.model.mapped import MappedWeights
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Doubles, LinearWeights, Matrix
from manyclass.training.plan import Labels
from manyclass.training.squares import Squares


@dataclass(frozen=True)
class Trained:
    """What was found elsewhere.

    Attributes
    ----------
    weights : LinearWeights or MappedWeights
        Of features as training saw them; they are folded in place.
    classes : ndarray of shape (n_classes,)
    counts : ndarray of shape (n_classes,), float64
        Rows of each, those of earlier calls included.
    names : ndarray of shape (n_features,) or None
    curve : list of float
        Losses of the passes of this training.
    settled : Settled
    scaling : FeatureScaling or None
    n_points : int
        Rows of this training; 0: one for each label.
    squares : Squares or None
        Adagrad's sums.
    validation_curve : list of float
    best_iter : int
        Of early stopping; 0: the last pass.
    """

    weights: Weights
    classes: NDArray[Any]
    counts: Doubles
    names: NDArray[Any] | None
    curve: list[float]
    settled: Settled
    scaling: FeatureScaling | None = None
    n_points: int = 0
    squares: Squares | None = None
    validation_curve: list[float] = field(default_factory=list)
    best_iter: int = 0


@dataclass(frozen=True)
class Some:
    """Some of the rows of a training, by which a model of several labels finds its threshold.

    Attributes
    ----------
    x, labels, weights : rows, their labels, and weights or None
    sparse_labels : bool
        Whether the indicator matrix was sparse.
    """

    x: Matrix
    labels: Labels
    weights: Doubles | None
    sparse_labels: bool


def by_batches(owner: Any, *, several: bool) -> bool:
    """Whether an estimator, of linear models, trains by minibatches."""
    return isinstance(owner, MarginClassifier) or asks_for_batches(owner.check_parameters(), several)


def settle_batches_of(owner: Any, x: Matrix, n_classes: int) -> Settled:
    """The plan of minibatches of an estimator, of a linear model."""
    chosen = owner.check_parameters()
    if isinstance(owner, MarginClassifier):
        return owner._settle(chosen, x, n_classes)
    return settle_batches(owner, chosen, x, n_classes, embeds=False)


def assembled(
    owner: Any, trained: Trained, some: Some | None = None, base: Any = None, before: Before | None = None
) -> Any:
    """Return an estimator with the parameters of `owner`, fitted with what was trained elsewhere.

    `some` are rows where they may have several labels; `base` is the model, its weights left out, that a call of
    partial_fit went on from, None if there was none, and `before` what it was for this call, None of a fit.
    """
    model: Any = clone(owner) if base is None else copy.copy(base)
    weights, settled = trained.weights, trained.settled
    n = trained.n_points or int(trained.counts.sum())
    n_labels = float(trained.counts.sum()) / n
    if trained.scaling is not None:
        assert isinstance(weights, LinearWeights)
        trained.scaling.fold(weights)
    n_features = weights.n_hidden if isinstance(weights, MappedWeights) else weights.coef.shape[1]
    none, one = np.zeros((1, n_features), dtype=np.float32), Labels.single(np.zeros(1, dtype=np.int32))
    points = Points(none, one, trained.classes, Features(n_features, trained.names))
    if some is not None:
        points = replace(
            points,
            x=some.x,
            labels=some.labels,
            several=True,
            sparse_labels=some.sparse_labels,
            weights=some.weights,
        )
    curve, n_passes = trained.curve, len(trained.curve)
    history = History.of_fit(n, trained.scaling, n_labels)
    if before is not None:
        curve = [*getattr(model, "loss_curve_", []), *curve]
        history = before.history.gone_on(n, trained.scaling, n_labels)
    more: dict[str, Any] = model._told(settled) if before is None else told_after(model, before, settled)
    if not isinstance(owner, MarginClassifier):
        if before is None:
            more["validation_curve_"] = np.array(trained.validation_curve)
            more["best_iter_"] = trained.best_iter or n_passes
        else:
            more = more_of_softmax(model, before, settled, n_passes)
    own = {"class_count_": trained.counts, "_history": history, "_squares": trained.squares}
    model._take(points, weights, curve, **own, **more)
    return model


# What a call of partial_fit elsewhere goes on from


def without_weights(model: Any, owner: Any) -> Any:
    """A copy of a model without W, with the parameters of an estimator."""
    made, weights = copy.copy(model), model._weights
    made.set_params(**owner.get_params(deep=False))
    if isinstance(weights, MappedWeights):
        made._weights = replace(weights, rows=weights.rows[:0].copy())
    else:
        none = weights.matrix[:0].copy()
        made._weights = LinearWeights(none, weights.intercept[:0].copy(), weights.sparse)
    made._squares = None
    return made


def before_of(model: Any, classes: NDArray[Any]) -> Before:
    """What a model is for a call with these classes."""
    position = np.searchsorted(classes, model.classes_)
    counts = np.zeros(len(classes))
    counts[position] = model.class_count_
    return Before(model._weights, position, counts, model._history, model._squares, model._history.n_points)


def history_of(model: Any) -> History:
    """How much a model has seen."""
    found: History = model._history
    return found


def weights_of(model: Any) -> Any:
    """The weights of a fitted model."""
    return model._weights
