"""A fit with checkpoints: which estimator makes it, and what it is known by; see `manyclass.training.checkpoint`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyclass.estimators.base import Points
from manyclass.training.plan import Watch


def with_checkpoints(model: Any, watch: Watch, points: Points, **more: ArrayLike | None) -> Any:
    """Return the estimator that makes a fit: the model, or a copy of it that has the seed of the checkpoints.

    Parameters
    ----------
    model : estimator
    watch : Watch
        With or without checkpoints, which are told what the fit is made of.
    points : Points
    **more : array-like or None
        What else `fit` was given.
    """
    if watch.checkpoints is None:
        return model
    data = {
        "X": points.x,
        "y": np.concatenate([points.labels.indptr, points.labels.ids]),
        "classes": points.classes,
        "sample_weight": points.weights,
        "limit of seconds": bool(np.isfinite(watch.max_seconds)),  # with one, "auto" tries less
        **{name: None if given is None else np.asarray(given) for name, given in more.items()},
    }
    return watch.checkpoints.seeded(model, data)
