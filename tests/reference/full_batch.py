"""Slow twin of the full-batch losses, in float64 over an N x K array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def point_losses(loss: str, z: Floats, y: Ints) -> Floats:
    """Loss of each row of scores."""
    rows = np.arange(len(y))
    label = z[rows, y]
    if loss == "softmax":
        return logsumexp(z, axis=1) - label
    if loss == "ove":
        return np.logaddexp(0, z - label[:, np.newaxis]).sum(axis=1) - np.log(2)
    a = bouchard_roots(z)
    return a + np.logaddexp(0, z - a[:, np.newaxis]).sum(axis=1) - label


def bouchard_roots(z: Floats) -> Floats:
    """Root a of sum_k sigmoid(z_k - a) = 1, row by row, by halving brackets until doubles end it."""
    low, high = z.min(axis=1) - 1, z.max(axis=1) + np.log(z.shape[1]) + 1
    for _ in range(80):
        a = (low + high) / 2
        below = expit(z - a[:, np.newaxis]).sum(axis=1) > 1
        low, high = np.where(below, a, low), np.where(below, high, a)
    return (low + high) / 2


def objective(
    loss: str, X: Floats, y: Ints, W: Floats, b: Floats, alpha: float, sample_weight: Floats | None = None
) -> float:
    """Weighted mean loss + alpha/2 ||W||^2."""
    losses = point_losses(loss, X @ W.T + b, y)
    return float(np.average(losses, weights=sample_weight) + alpha / 2 * np.sum(W * W))


def softmax_optimum(
    X: Floats, y: Ints, n_classes: int, alpha: float, *, intercept: bool
) -> tuple[float, Floats, Floats]:
    """Smallest objective of the softmax with the W and b that have it, by Newton's method with conjugate gradients."""
    x = np.column_stack([X, np.ones(len(X))]) if intercept else X
    ridge = np.full(x.shape[1], alpha)
    if intercept:
        ridge[-1] = 0
    Y = np.eye(n_classes)[y]

    def probabilities(V: Floats) -> Floats:
        z = x @ V.T
        return np.exp(z - logsumexp(z, axis=1, keepdims=True))

    def f(v: Floats) -> float:
        V = v.reshape(n_classes, -1)
        z = x @ V.T
        return float(np.mean(logsumexp(z, axis=1) - np.sum(z * Y, axis=1)) + np.sum(ridge * V * V) / 2)

    def gradient(v: Floats) -> Floats:
        V = v.reshape(n_classes, -1)
        return ((probabilities(V) - Y).T @ x / len(y) + ridge * V).ravel()

    def hessian_times(v: Floats, d: Floats) -> Floats:
        p, D = probabilities(v.reshape(n_classes, -1)), d.reshape(n_classes, -1)
        t = p * (x @ D.T)
        return ((t - p * t.sum(axis=1, keepdims=True)).T @ x / len(y) + ridge * D).ravel()

    start = np.zeros(n_classes * x.shape[1])
    found = minimize(f, start, jac=gradient, hessp=hessian_times, method="Newton-CG", options={"xtol": 1e-12})
    V = found.x.reshape(n_classes, -1)
    return f(found.x), V[:, : X.shape[1]], V[:, -1] if intercept else np.zeros(n_classes)
