"""Approximate answers for a few rows of a fitted model, by an 8-bit copy of its weights that is made at first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass.checks import n_threads_from
from manyclass.model.weights import Doubles, Floats, Ids, Matrix
from manyclass.search import class_index
from manyclass.search.byte_copy import ByteCopy, copies


def copied(model: Any, x: Matrix, k: int, recall: float) -> bool:
    """Whether so few rows are answered by a copy of W, and not by an index that was tuned for what is asked."""
    if len(model.classes_) <= class_index.EXACT_CLASSES or not copies(model._weights, x.shape[0]):
        return False
    return not (model._has_index() and recall < 1 and model._kept_index[1].probes(k, recall))


def best_of_copy(model: Any, x: Matrix, k: int) -> tuple[Ids, Floats, Doubles]:
    """Return positions and log-probabilities of the k best classes, and the standard errors of the latter."""
    if getattr(model, "_kept_copy", (None,))[0] is not model._weights:
        model._kept_copy = (model._weights, ByteCopy(model._weights, n_threads_from(model.n_jobs)))
    found: tuple[Ids, Floats, Doubles] | None = model._kept_copy[1].top_k(x, k)
    return (*model._top_k(x, k), np.zeros(x.shape[0])) if found is None else found
