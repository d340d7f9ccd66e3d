r"""A bound on how far a model is from the optimum: the duality gap of the ridge-penalised softmax.

The primal is, with z_i = W x_i + b,

    F(W, b) = 1/N sum_i [log sum_k e^{z_ik} - z_{i,y_i}] + alpha/2 ||W||^2.

For any P whose rows p_i are probabilities, log sum_k e^{z_ik} >= p_i.z_i + H(p_i), H being the entropy in nats (the
conjugate of log-sum-exp; equality at the softmax). With the 0-1 matrix Y of the labels, therefore,

    F(W, b) >= 1/N sum_i H(p_i) - <W, G> - 1/N b.(Y - P)'1 + alpha/2 ||W||^2,    G = (Y - P)'X / N,

and the smallest value of the right side over W is taken at W = G / alpha:

    D(P) = 1/N sum_i H(p_i) - ||G||_F^2 / (2 alpha).

Over b it is minus infinity unless (Y - P)'1 = 0: where intercepts are learned, the columns of P must sum to the
classes' counts n_k. For such P, or any P where there are no intercepts, D(P) <= min F <= F(W, b).

P is made of the model in three steps, each of which keeps D(P) a bound:

1. b_k += log(n_k / s_k), s being the totals of the softmax, a few times. Each round is one step of iterative
   proportional fitting; where it ends, b is best for this W.
2. The surplus still left in some columns is moved to those that lack it (evaluate/balanced_softmax.hpp): now the totals
   are right to rounding, whatever W was.
3. P and Y both have these totals, so P_t = (1 - t) P + t Y does for 0 <= t <= 1. It has G_t = (1 - t) G, and H needs
   only H(p_i) and the label's probability, so the best t costs no pass. D(Y) = 0 makes the bound at least 0.

With weights r_i of the points, of mean 1, every term of a sum over i is multiplied by r_i, N being their sum, and n_k
is the weight of class k; nothing else changes.

At balanced intercepts P is the softmax and F - D = ||grad_W F||^2 / (2 alpha): the gap is of second order.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.training.core_plan import NO_WEIGHTS
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

Csr = tuple[NDArray[np.int64], Ids, Floats]
# Rounds of step 1, one pass each, and the share of all probability in the wrong class that ends them: moving it in
# step 2 then costs some 1e-5 nats.
MOST_ROUNDS = 8
SMALL_SURPLUS = 1e-6


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
    x, labels : data; labels in [0, model.n_classes)
    weights : ndarray of shape (n_samples,), float64, or None
        Of the points, with mean 1.
    alpha : float
        Strength of the L2 penalty alpha/2 ||W||^2, >= 0. Without it D(P) is finite only if G = 0; P = Y is such a
        point, and the dual returned is D(Y) = 0, which says no more than that the loss is not negative.
    fit_intercept : bool
        Whether the intercepts are free; if not, they are those of the model.

    Returns
    -------
    dict
        "primal" >= optimum >= "dual", and "gap", their difference.
    """
    data, matrix = _matched(model, x)
    n, n_classes = x.shape[0], model.n_classes
    intercept = model.intercept.astype(np.float64)
    question = {"x": data, "n_features": x.shape[1], "matrix": matrix, "n_classes": n_classes, "labels": labels}
    question["sample_weight"] = NO_WEIGHTS if weights is None else weights

    normalizers, losses, totals = _core.softmax_totals(**question, intercept=intercept, n_threads=n_threads)
    squares = float(np.einsum("kj,kj->", model.coef, model.coef, dtype=np.float64))
    primal = float(np.average(losses, weights=weights)) + alpha / 2 * squares
    if alpha == 0:
        return {"primal": primal, "dual": 0.0, "gap": primal}

    keep, fill = np.ones(n_classes), np.zeros(n_classes)
    if fit_intercept:
        wanted = np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)
        for _ in range(MOST_ROUNDS):
            if np.maximum(totals - wanted, 0).sum() <= SMALL_SURPLUS * n:
                break
            both = (wanted > 0) & (totals > 0)
            intercept[both] += np.log(wanted[both] / totals[both])
            normalizers, _, totals = _core.softmax_totals(**question, intercept=intercept, n_threads=n_threads)
        keep, fill = balance(wanted, totals)

    entropies, label_probabilities, residual = _core.balanced_softmax(
        **question, intercept=intercept, normalizers=normalizers, keep=keep, fill=fill, n_threads=n_threads
    )
    dual = _best_towards_labels(entropies, label_probabilities, weights, residual / (2 * alpha * n**2))
    return {"primal": primal, "dual": dual, "gap": primal - dual}


def balance(wanted: Doubles, totals: Doubles) -> tuple[Doubles, Doubles]:
    """Return keep and fill, (n_classes,) each, of evaluate/balanced_softmax.hpp; both arguments have the same sum."""
    keep = np.ones(len(totals))
    np.divide(wanted, totals, out=keep, where=totals > wanted)
    lack = np.maximum(wanted - totals, 0)
    return keep, lack / max(float(lack.sum()), np.finfo(np.float64).tiny)


def _matched(model: Weights, x: Matrix) -> tuple[Csr | Floats, Floats]:
    """Return the data as the core takes it and W in the storage for it, a copy where the model has the other one."""
    if isinstance(x, sp.csr_array):
        return csr_parts(x), model.matrix if model.sparse else np.ascontiguousarray(model.coef.T)
    return np.ascontiguousarray(x), np.ascontiguousarray(model.coef)


def _best_towards_labels(
    entropies: Doubles, label_probabilities: Doubles, weights: Doubles | None, penalty: float
) -> float:
    """Return max over t in [0, 1] of D((1 - t) P + t Y), `penalty` being ||G||^2 / (2 alpha).

    D is concave in t: entropy is concave, and minus a square is.
    """
    rest = entropies + xlogy(label_probabilities, label_probabilities)  # of the wrong classes

    def dual(t: float) -> float:
        s = 1 - t
        moved = s * label_probabilities + t
        entropy = s * rest - xlogy(s, s) * (1 - label_probabilities) - xlogy(moved, moved)
        return float(np.average(entropy, weights=weights)) - s * s * penalty

    best = minimize_scalar(lambda t: -dual(t), bounds=(0, 1), method="bounded", options={"xatol": 1e-8})
    return max(dual(0.0), dual(float(best.x)), 0.0)
