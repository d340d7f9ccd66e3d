"""Twin of exact/local_family.cpp: the best q of each point and its bound, all points together."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from manyclass import _core
from reference.augment_reduce import LAWS

Floats = NDArray[np.float64]
# Log-densities of the standard members up to a constant, and between which numbers they are.
MEMBERS = {
    "normal": (lambda v: -0.5 * v * v, -20.0, 20.0),
    "logistic": (lambda v: log_expit(v) + log_expit(-v), -200.0, 200.0),
    "gumbel": (lambda v: -v - np.exp(-v), -6.0, 200.0),
}


@cache
def gauss_rule(family: str, n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the n-point Gauss rule: Stieltjes' recurrence, and its Jacobi matrix by LAPACK."""
    log_density, low, high = MEMBERS[family]
    v = np.linspace(low, high, 10001)
    w = np.exp(log_density(v))
    w /= w.sum()
    diagonal, squares = np.zeros(n), np.zeros(n)
    before, here = np.zeros_like(v), np.ones_like(v)
    for k in range(n):
        squares[k] = w @ here**2
        diagonal[k] = w @ (here**2 * v) / squares[k]
        before, here = here, (v - diagonal[k]) * here - (squares[k] / squares[k - 1] if k else 0.0) * before
    off = np.sqrt(squares[1:] / squares[:-1])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return nodes, vectors[0] ** 2


def best_member(
    noise: str,
    d: Floats,
    counts: Floats,
    nodes: Floats,
    weights: Floats,
    *,
    start: tuple[float, float] = (0.0, 1.0),
    n_iter: int = 200,
) -> tuple[Floats, Floats]:
    """Return (mu, s) of the best q of each point, with the arguments of manyclass's.

    Half of a natural-gradient step for s, all of it for mu, until nothing moves by 1e-9.
    """
    law = LAWS[noise]
    centre = float(weights @ nodes)
    variance = float(weights @ nodes**2) - centre**2
    mu, s = (np.full(len(d), value) for value in start)
    for _ in range(n_iter):
        e = mu[:, np.newaxis] + s[:, np.newaxis] * nodes
        g = law.slope(e)
        for j in range(len(nodes)):
            g[:, j] += np.einsum("ik,ik->i", counts, law.hazard(e[:, j : j + 1] - d))
        slope = g @ weights
        target = -(g @ (weights * (nodes - centre))) / s
        new_s = 1 / np.sqrt(0.5 / s**2 + 0.5 * target)
        move = law.move(1.0, slope, new_s**2 * variance)
        new_mu = mu + (s - new_s) * centre + move
        done = max(np.abs(new_mu - mu).max(initial=0), np.abs(new_s - s).max(initial=0)) < 1e-9
        mu, s = new_mu, new_s
        if done:
            break
    return mu, s


def best_bounds(
    noise: str, scores: NDArray[np.float32], labels: NDArray[np.int32], family: _core.LocalFamily
) -> Floats:
    """Return the largest bound of each point's log-probability, all classes in it, in nats.

    The best q by the family's own rule; its bound, which is one for every q, by a rule of 41 nodes.
    """
    z = scores.astype(np.float64)
    rows = np.arange(len(z))
    d = z - z[rows, labels][:, np.newaxis]
    counts = np.ones_like(d)
    counts[rows, labels] = 0
    mu, s = best_member(noise, d, counts, family.nodes, family.weights, start=(family.mu, family.s))
    nodes, weights = gauss_rule(family.name, 41)
    bounds = np.log(s) + family.entropy
    for v, weight in zip(nodes, weights, strict=True):
        e = (mu + s * v)[:, np.newaxis]
        bounds += weight * (
            LAWS[noise].log_density(e).ravel() + np.einsum("ik,ik->i", counts, LAWS[noise].log_cdf(e - d))
        )
    return bounds
