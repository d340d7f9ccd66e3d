"""States of models by hand, for tests that need certain weights and no training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyclass.training.state import Features, State


def state_of(weights: Any, classes: Any = None) -> State:
    """The state of a model that has nothing but weights; its classes are numbers where none are named."""
    names = np.arange(weights.n_classes) if classes is None else np.asarray(classes)
    return State(names, np.zeros(len(names)), Features(weights.coef.shape[1], None), weights)


def with_weights(model: Any, weights: Any) -> Any:
    """A fitted model, other weights being put in the place of its own, with as many classes as they have."""
    state = replace(model._fitted, weights=weights)
    if len(state.classes) != weights.n_classes:
        state = replace(state, classes=np.arange(weights.n_classes), counts=np.zeros(weights.n_classes))
    return model._taken(state)


def renamed(model: Any, classes: Any) -> Any:
    """A fitted model, its classes being called otherwise, in their order."""
    return model._taken(replace(model._fitted, classes=np.asarray(classes)))
