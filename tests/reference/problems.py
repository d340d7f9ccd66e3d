"""Small data with known properties."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

Floats = NDArray[np.float64]


def planted(
    rng: np.random.Generator, n: int, n_features: int, n_classes: int, *, scale: float = 1.0, density: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points of about unit length with labels drawn from a softmax, each class at least once (n >= n_classes)."""
    X = rng.normal(size=(n, n_features)) / np.sqrt(n_features * density)
    X = (X * (rng.random(X.shape) < density)).astype(np.float32)
    W = scale * rng.normal(size=(n_classes, n_features))
    y = np.argmax(X @ W.T + rng.gumbel(size=(n, n_classes)), axis=1)
    y[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    return X, y


def near_vertices(seed: int, n: int, n_features: int, n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points near the vertex of their class, as many of each class as of another, or one more."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    vertices = rng.normal(size=(n_classes, n_features)) / np.sqrt(n_features)
    return (vertices[y] + 0.1 * rng.normal(size=(n, n_features))).astype(np.float32), y


def as_storage(X: NDArray[np.float32], storage: str) -> NDArray[np.float32] | sp.csr_array:
    """X as "dense" or "sparse" data."""
    return sp.csr_array(X) if storage == "sparse" else X


def log_loss(X: Floats, y: NDArray[np.int64], W: Floats, b: Floats) -> float:
    """Mean exact log-loss in nats, float64."""
    z = X.astype(np.float64) @ W.astype(np.float64).T + b
    return float(np.mean(logsumexp(z, axis=1) - z[np.arange(len(y)), y]))


def maximum_likelihood(X: Floats, y: NDArray[np.int64], n_classes: int) -> float:
    """Smallest mean log-loss over W and intercepts, by L-BFGS in float64. The data must not be separable."""
    x = np.column_stack([X.astype(np.float64), np.ones(len(X))])
    rows = np.arange(len(y))

    def f(flat: Floats) -> tuple[float, Floats]:
        W = flat.reshape(n_classes, -1)
        z = x @ W.T
        normalizer = logsumexp(z, axis=1)
        p = np.exp(z - normalizer[:, np.newaxis])
        p[rows, y] -= 1
        return float(np.mean(normalizer - z[rows, y])), (p.T @ x / len(y)).ravel()

    found = minimize(f, np.zeros(n_classes * x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return float(found.fun)
