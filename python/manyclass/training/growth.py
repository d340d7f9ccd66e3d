"""What `partial_fit` begins new features and new classes at.

new_features="grow" takes an X with more columns than the model has seen: those of before first, in their order, then
new ones. Their weights and embeddings begin at 0, so that growth itself changes no prediction; weights on pairs come
with the rows that have them. Where training scales features, new ones get the scale that all sparse ones share, or are
measured on the rows of the call. Names are those of the wider X, which must begin with the names that there are.

new_classes maps labels to vectors at which the weights of a class begin that is new in the call, others beginning at 0:
as long as X has features or, with embeddings, as `dim`, such as `model.embed(...)` of a text that describes the class.
Labels that are not new in a call are left out, so that one mapping serves all calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice
from manyclass.training.start import finite_floats
from manyclass.training.state import Features, Starts, State
from manyclass.weights.arrays import Floats
from manyclass.weights.weights import Weights

NewFeatures = Literal["error", "grow"]


def widened(state: State, X: Any, new_features: str, kind: str) -> State:
    """Return the state of a model that takes X where it has more features; `kind` is the name of its class.

    Raises
    ------
    ValueError
        If X has more features and they are not to grow, or names that are not those of before and others.
    """
    check_choice("new_features", new_features, ("error", "grow"))
    shape, n_before = np.shape(X), state.features.n
    if state.hashing is not None or len(shape) != 2 or shape[1] <= n_before:
        return state
    n = shape[1]
    if new_features == "error":
        raise ValueError(
            f"X has {n} features, but {kind} is expecting {n_before} features as input; partial_fit with "
            "new_features='grow' takes more, after those of before"
        )
    names, before = _names(X), state.features.names
    if before is not None and names is not None and not np.array_equal(names[:n_before], before):
        at = int(np.flatnonzero(names[:n_before] != before)[0])
        raise ValueError(
            f"feature {at} of X is {names[at]!r}, and {before[at]!r} in the model; with new_features='grow' the "
            "features of before come first, in their order"
        )
    return replace(
        state,
        weights=state.weights.widened(n),
        squares=None if state.squares is None else state.squares.widened(n),
        features=Features(n, None if before is None else names),  # names of some would say nothing of the others
    )


def _names(X: Any) -> NDArray[Any] | None:
    """Names of columns, where all are text."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(columns, dtype=object)


def set_new_rows(weights: Weights, classes: NDArray[Any], position: NDArray[np.intp], starts: Starts | None) -> None:
    """Write what classes begin at that are not in `position`.

    Raises
    ------
    ValueError
        If a vector has another shape than rows of weights, or is not finite in float32.
    """
    if starts is None:
        return
    coef: Floats = weights.coef
    new = np.setdiff1d(np.arange(len(classes)), position)
    for k, label in zip(new, classes[new].tolist(), strict=True):
        if label in starts:
            shape = (coef.shape[1],)
            coef[k] = finite_floats(f"new_classes[{label!r}]", starts[label], shape, ", as a row of coef_")


def check_starts(starts: Any) -> None:
    """Raise TypeError unless new_classes is a mapping or None."""
    if starts is not None and not isinstance(starts, Mapping):
        raise TypeError(f"new_classes is a {type(starts).__name__}; it must be a mapping of labels to vectors, or None")


def refuse_starts(starts: Starts | None, kind: str) -> None:
    """Raise ValueError for new_classes where a class has no one row of weights."""
    if starts is not None:
        raise ValueError(
            f"new_classes is given; the classes of a model that is {kind!r} have no row of weights: leave it None"
        )
