"""Twin of a last layer: its losses from their definitions, in double precision, and slopes by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draw = tuple[Sequence[int], Sequence[float]]  # classes and their weights


def scores(X: Floats, W: Floats, b: Floats) -> Floats:
    """z, of shape (n, K)."""
    return X.astype(np.float64) @ W.T.astype(np.float64) + (b if len(b) else 0)


def log_loss(X: Floats, y: NDArray[np.int64], W: Floats, b: Floats) -> float:
    """The mean of -log p(y)."""
    z = scores(X, W, b)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(p[np.arange(len(y)), y])))


def sampled_sums(X: Floats, y: NDArray[np.int64], W: Floats, b: Floats, draws: Sequence[Draw]) -> Floats:
    """A_i = 1 + sum over the drawn classes of alpha e^(z_k - z_y)."""
    z = scores(X, W, b)
    return np.array(
        [
            1 + sum(alpha * np.exp(z[i, k] - z[i, y[i]]) for k, alpha in zip(*draws[i], strict=True))
            for i in range(len(y))
        ]
    )


def every_class(y: int, n_classes: int) -> Draw:
    """All wrong classes."""
    wrong = [k for k in range(n_classes) if k != y]
    return wrong, [1.0] * len(wrong)


def double_sum(u: Floats, sums: Floats) -> float:
    """The mean of u + e^-u A - 1."""
    return float(np.mean(u + np.exp(-u) * sums - 1))


def slopes(value: Callable[[Floats], float], at: Floats, h: float = 1e-5) -> Floats:
    """Central differences of a function of an array, in its shape: errors of h^2 and of rounding / h."""
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        away = np.zeros(at.shape)
        away[place] = h
        found[place] = (value(at + away) - value(at - away)) / (2 * h)
    return found
