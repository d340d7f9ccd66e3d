"""What solvers minimise, over all classes and not by samples, and its smallest value as a general optimiser finds it.

A loss takes the scores z (n x K) of points and their labels, and gives each point's loss and its slope in each score.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from reference.augment_reduce import LAWS
from reference.local_family import best_bounds, best_member, gauss_rule

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Loss = Callable[[Floats, Labels], tuple[Floats, Floats]]


def one_hot(z: Floats, y: Labels) -> Floats:
    """1 at the labels."""
    return np.eye(z.shape[1])[y]


def log1pexp(t: Floats) -> Floats:
    """log(1 + e^t)."""
    return np.logaddexp(0, t)


def log_loss(z: Floats, y: Labels) -> tuple[Floats, Floats]:
    """-log softmax."""
    normalizer = logsumexp(z, axis=1)
    return normalizer - z[np.arange(len(z)), y], np.exp(z - normalizer[:, np.newaxis]) - one_hot(z, y)


def one_vs_each(z: Floats, y: Labels) -> tuple[Floats, Floats]:
    """Sum over wrong classes of log(1 + e^(z_k - z_y))."""
    label = one_hot(z, y)
    d = z - z[np.arange(len(z)), y][:, np.newaxis]
    slopes = (1 - label) * expit(d)
    return ((1 - label) * log1pexp(d)).sum(axis=1), slopes - label * slopes.sum(axis=1, keepdims=True)


def softened(rho: float) -> Loss:
    """The double sum with e^t replaced by log(1 + rho e^t) / rho, at the best u of each point, less its value there.

    With a = z_y + u - log rho it is a - z_y + log rho + sum over all k of log(1 + e^(z_k - a)) / rho, whose slope in a
    is 0 where the sigmoids sum to rho. With rho = 1 it is Bouchard's bound.
    """

    def loss(z: Floats, y: Labels) -> tuple[Floats, Floats]:
        low, high = z.min(axis=1) - 60, z.max(axis=1) + np.log(z.shape[1] / rho)
        for _ in range(80):  # halves 2^80 times what is at most 2^10 wide
            a = (low + high) / 2
            above = expit(z - a[:, np.newaxis]).sum(axis=1) < rho
            low, high = np.where(above, low, a), np.where(above, a, high)
        t = z - a[:, np.newaxis]
        values = a - z[np.arange(len(z)), y] + np.log(rho) + log1pexp(t).sum(axis=1) / rho
        return values, expit(t) / rho - one_hot(z, y)

    return loss


def told_from_noise(draws: Floats, shift: Floats, *, of_label: bool) -> Loss:
    """-log sigma(t_y) and, draws_k times, -log sigma(-t_k), t = z + shift, of the label too or of wrong classes only.

    With m draws by q, draws = m q and shift = -log(m q), it is noise-contrastive estimation.
    """

    def loss(z: Floats, y: Labels) -> tuple[Floats, Floats]:
        label = one_hot(z, y)
        counts = draws * (np.ones_like(z) if of_label else 1 - label)
        t = z + shift
        values = log1pexp(-t[np.arange(len(z)), y]) + (counts * log1pexp(t)).sum(axis=1)
        return values, counts * expit(t) - label * expit(-t)

    return loss


def utility_bound(noise: str, family: object) -> Loss:
    """Minus the largest bound of the log-probability (Ruiz et al. 2018, eq. 7) over the members of a family."""

    def loss(z: Floats, y: Labels) -> tuple[Floats, Floats]:
        label = one_hot(z, y)
        d = z - z[np.arange(len(z)), y][:, np.newaxis]
        nodes, weights = gauss_rule(family.name, len(family.nodes))
        mu, s = best_member(noise, d, 1 - label, nodes, weights, start=(family.mu, family.s))
        slopes = np.zeros_like(z)
        for v, weight in zip(nodes, weights, strict=True):  # q is the best, so that it need not be moved
            slopes += weight * (1 - label) * LAWS[noise].hazard((mu + s * v)[:, np.newaxis] - d)
        return -best_bounds(noise, z, y, family), slopes - label * slopes.sum(axis=1, keepdims=True)

    return loss


class Objective:
    """The mean loss over points as a function of W and intercepts, the ridge of W added to it."""

    def __init__(self, loss: Loss, X: NDArray[np.float32], y: Labels, n_classes: int, alpha: float = 0.0) -> None:
        self.loss, self.y, self.alpha, self.n_classes = loss, y, alpha, n_classes
        self.x = np.column_stack([X.astype(np.float64), np.ones(len(X))])

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """Value and gradient at the rows (w_k, b_k), one after the other."""
        W = flat.reshape(self.n_classes, -1)
        losses, slopes = self.loss(self.x @ W.T, self.y)
        pays = self.alpha * np.append(np.ones(W.shape[1] - 1), 0)
        return float(losses.mean() + (pays * W**2).sum() / 2), (slopes.T @ self.x / len(self.y) + pays * W).ravel()

    def at(self, coef: NDArray[np.float32], intercept: NDArray[np.float32]) -> float:
        """The value at the weights of a model."""
        return self(np.column_stack([coef, intercept]).astype(np.float64).ravel())[0]

    @property
    def at_zero(self) -> float:
        """The value where nothing is learned."""
        return self(np.zeros(self.n_classes * self.x.shape[1]))[0]

    def minimum(self, coef: NDArray[np.float32] | None = None, intercept: NDArray[np.float32] | None = None) -> float:
        """The smallest value, by L-BFGS from zero or, what is sooner done, from the weights of a model."""
        start = np.zeros((self.n_classes, self.x.shape[1]))
        if coef is not None:
            start[:, :-1], start[:, -1] = coef, intercept
        options = {"maxiter": 5000, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-8}
        return float(minimize(self, start.ravel(), jac=True, method="L-BFGS-B", options=options).fun)
