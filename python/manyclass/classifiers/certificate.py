"""A bound on how far a model is from the optimum: the duality gap of the ridge-penalised softmax.

The primal is the mean log-loss + alpha/2 ||W||^2. The dual is a bound of its optimum from below, by probabilities that
are made of the model; exact/duality_gap.cpp has the derivation. At balanced intercepts these are the softmax, and
primal - dual = ||grad_W primal||^2 / (2 alpha): the gap is of second order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import as_csr, csr_parts
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Ids, Matrix
from manyclass.weights.weights import Weights


def duality_gap(
    model: Weights,
    x: Matrix,
    labels: Ids,
    *,
    weights: Doubles | None = None,
    alpha: float,
    fit_intercept: bool,
    n_threads: int,
) -> dict[str, float]:
    """Return the primal, the dual and their gap, in nats per point.

    Parameters
    ----------
    model : Weights
        Of a linear model, or on pairs of a feature and a class: then the optimum is that of weights on these pairs.
    x : {csr_array, ndarray} of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,), int32, in [0, model.n_classes)
    weights : ndarray of shape (n_samples,), float64, or None
        Of the points, with mean 1.
    alpha : float
        Strength of the L2 penalty alpha/2 ||W||^2, >= 0. Without it D(P) is finite only if G = 0; P = Y is such a
        point, and the dual returned is D(Y) = 0, which says no more than that the loss is not negative.
    fit_intercept : bool
        Whether the intercepts are free; if not, they are those of the model.
    n_threads : int

    Returns
    -------
    dict
        "primal" >= optimum >= "dual", and "gap", their difference.
    """
    numbers: dict[str, Any] = {
        "n_features": x.shape[1],
        "intercept": model.intercept.astype(np.float64),
        "labels": labels,
        "sample_weight": NO_DOUBLES if weights is None else weights,
        "alpha": alpha,
        "fit_intercept": fit_intercept,
        "n_threads": n_threads,
    }
    if model.kind == "pairs":
        pairs: dict[str, Any] = {"indptr": model.indptr, "classes": model.classes, "values": model.values}
        numbers["squares"] = float(np.einsum("p,p->", model.values, model.values, dtype=np.float64))
        primal, dual = _core.duality_gap_on_pairs(x=csr_parts(as_csr(x)), **pairs, **numbers)
    else:
        data: Any
        if isinstance(x, sp.csr_array):  # W is in the storage for the data, a copy where the model has the other one
            data, matrix = csr_parts(x), model.matrix if model.sparse else np.ascontiguousarray(model.coef.T)
        else:
            data, matrix = np.ascontiguousarray(x), np.ascontiguousarray(model.coef)
        numbers["squares"] = float(np.einsum("kj,kj->", model.coef, model.coef, dtype=np.float64))
        primal, dual = _core.duality_gap(x=data, matrix=matrix, n_classes=model.n_classes, **numbers)
    return {"primal": primal, "dual": dual, "gap": primal - dual}
