"""warm_start: a fit that begins at the weights of the last one.

A linear model of one label a row begins at weights and intercepts by labels; classes that y lacks are dropped. Others,
with several labels, embeddings, weights on pairs, or of the max-margin loss, go on as `partial_fit` does, with the
schedule and the passes of a fit: new labels become classes, Adagrad's sums go on, and y must have all classes that
there are. Where parameters were left open, what the last fit chose holds; nothing is tried again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyclass.estimators.base import Points
from manyclass.estimators.compress import check_not_compressed
from manyclass.estimators.continued import Before, GoneOn, Steps, is_fitted
from manyclass.estimators.targets import find_positions
from manyclass.model.weights import LinearWeights
from manyclass.training.plan import Watch
from manyclass.training.start import Start


def goes_on_warm(model: Any) -> bool:
    """Whether a `fit` begins at the weights of the last one."""
    if not model.warm_start or not is_fitted(model):
        return False
    check_not_compressed(model._weights, "fit with warm_start=True")
    return True


def begins_by_points(model: Any, points: Points) -> bool:
    """Whether it is a linear model of one label a row that does, which has a `Start`."""
    return isinstance(model._weights, LinearWeights) and not points.several


def warm_start_of(model: Any, points: Points) -> Start:
    """Return the weights of a linear model of one label a row for the classes of a fit.

    Raises
    ------
    ValueError
        If the model has another number of features, or weights that a `Start` cannot be of.
    """
    weights = model._weights
    if not begins_by_points(model, points):
        raise ValueError("warm_start is True and y has several labels a row; the last fit had one: set it to False")
    _check_features(model, points)
    return Start.from_model(weights, find_positions(points.classes, model.classes_, "y"))


def fit_warm(model: Any, points: Points, watch: Watch) -> GoneOn:
    """Make a fit that begins at what a model holds that is not linear of one label a row.

    Raises
    ------
    ValueError
        If the data are not of the kind of the last fit, or lack one of its classes.
    """
    _check_features(model, points)
    if points.several != model.multilabel_:
        told = ("one label a row", "several labels a row")
        raise ValueError(
            f"warm_start is True and y has {told[points.several]}; the last fit had {told[model.multilabel_]}: set it "
            "to False"
        )
    gone = np.setdiff1d(model.classes_, points.classes)
    if len(gone):
        raise ValueError(
            f"warm_start is True and y lacks {gone.tolist()[0]!r}, a class of the last fit; this model keeps its "
            "classes: use partial_fit, or set warm_start to False"
        )
    part = model.model
    if getattr(part, "prune", 0) > 0:
        raise ValueError(f"prune is {part.prune!r}; a fit that begins warm drops no weights: set warm_start to False")
    n_classes = len(points.classes)
    position = np.searchsorted(points.classes, model.classes_)
    before = Before(model._weights, position, np.zeros(n_classes), model._history, model._squares)
    found: GoneOn = model._go_on(points, before, Steps(fit=watch))
    return replace(found, more={**found.more, "best_iter_": len(found.curve)})


def _check_features(model: Any, points: Points) -> None:
    if model.n_features_in_ != points.x.shape[1]:
        raise ValueError(
            f"warm_start is True and X has {points.x.shape[1]} features; the last fit had {model.n_features_in_}"
        )
