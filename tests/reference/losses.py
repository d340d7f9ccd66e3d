"""Slow twin of the losses of several labels: one point, float64, by formulas, pairs and halving."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Floats = NDArray[np.float64]
Loss = tuple[float, Floats]


def split(z: Floats, positives: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels and wrong classes."""
    P = np.sort(np.asarray(positives, dtype=np.int64))
    return P, np.setdiff1d(np.arange(len(z)), P)


def cross_entropy(z: Floats, positives: Sequence[int]) -> Loss:
    """sum_P [log sum e^z - z_k] and |P| softmax - 1_P."""
    P, _ = split(z, positives)
    gradient = len(P) * softmax(z)
    gradient[P] -= 1
    return float(np.sum(logsumexp(z) - z[P])), gradient


def pick_all_normalized(z: Floats, positives: Sequence[int]) -> Loss:
    """The mean over P of [log sum e^z - z_k]."""
    value, gradient = cross_entropy(z, positives)
    return value / len(positives), gradient / len(positives)


def decoupled(z: Floats, positives: Sequence[int]) -> Loss:
    """Each label in a softmax with the wrong classes alone, one after the other."""
    P, N = split(z, positives)
    value, gradient = 0.0, np.zeros_like(z)
    for label in P:
        beside = np.append(label, N)
        value += float(logsumexp(z[beside]) - z[label])
        gradient[beside] += softmax(z[beside])
        gradient[label] -= 1
    return value, gradient


def logistic(z: Floats, positives: Sequence[int]) -> Loss:
    """-log of the probability of each class's own answer."""
    y = np.zeros_like(z)
    y[np.asarray(positives, dtype=np.int64)] = 1
    return float(np.sum(np.logaddexp(0, np.where(y == 1, -z, z)))), expit(z) - y


def max_margin(z: Floats, positives: Sequence[int]) -> Loss:
    """[max 1 + z_j - z_k]_+ over all pairs, and +1, -1 at the first pair that has it."""
    P, N = split(z, positives)
    gradient = np.zeros_like(z)
    if len(N) == 0:
        return 0.0, gradient
    value = float(np.max(1 + z[N][np.newaxis, :] - z[P][:, np.newaxis]))
    if value <= 0:
        return 0.0, gradient
    gradient[N[np.argmax(z[N])]], gradient[P[np.argmin(z[P])]] = 1, -1
    return value, gradient


def triplet(z: Floats, positives: Sequence[int]) -> Loss:
    """Sum over all pairs, one by one."""
    P, N = split(z, positives)
    value, gradient = 0.0, np.zeros_like(z)
    for k in P:
        for j in N:
            slack = 1 + z[j] - z[k]
            if slack > 0:
                value += slack
                gradient[j] += 1
                gradient[k] -= 1
    return value, gradient


def root_of_falling(f: Callable[[float], float], low: float, high: float) -> float:
    """Where f, falling, crosses 0, by halving until doubles end it."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return middle
        low, high = (middle, high) if f(middle) > 0 else (low, middle)


def threshold(a: Floats, mass: float) -> float:
    """The t with sum [a - t]_+ = mass: the largest that any number of the largest ones would give alone."""
    largest = np.sort(a)[::-1]
    return float(np.max((np.cumsum(largest) - mass) / np.arange(1, len(a) + 1)))


def project_bisimplex(z: Floats, positives: Sequence[int]) -> Floats:
    """Nearest point of the bi-simplex: two simplices of mass s, s halved until their thresholds add up to 0."""
    P, N = split(z, positives)
    alpha = np.zeros_like(z)
    if len(N) == 0:
        return alpha
    a, b = z[N], -z[P]

    def price(s: float) -> float:
        return threshold(a, s) + threshold(b, s)

    if a.max() + b.max() <= 0:
        return alpha
    s = 1.0 if price(1.0) >= 0 else root_of_falling(price, 0.0, 1.0)
    alpha[N] = np.maximum(a - threshold(a, s), 0)
    alpha[P] = -np.maximum(b - threshold(b, s), 0)
    return alpha


def smoothed_margin(z: Floats, positives: Sequence[int], smoothing: float) -> Loss:
    """<z + 1_N, alpha> - mu/2 |alpha|^2 at its maximum over the bi-simplex."""
    P, _ = split(z, positives)
    with_margin = z + 1
    with_margin[P] -= 1
    alpha = project_bisimplex(with_margin / smoothing, positives)
    return float(with_margin @ alpha - smoothing / 2 * alpha @ alpha), alpha
