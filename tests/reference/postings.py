"""Slow twin of train/postings.cpp: float64, dense, class by class, with the draws that the core makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reference import losses
from reference.rng import VISIT_ORDER, Rng, shuffled

Floats = NDArray[np.float64]
FIRST_LOCAL_ITEM = 1 << 32
LOSSES = {
    "pick_all": losses.cross_entropy,
    "pick_all_normalized": losses.pick_all_normalized,
    "decoupled": losses.decoupled,
    "logistic": losses.logistic,
}


def support(X: Floats, labels: Sequence[Sequence[int]], n_classes: int, min_count: int = 1) -> NDArray[np.bool_]:
    """Which pairs of a feature and a class so many rows have, (D, K)."""
    counts = np.zeros((X.shape[1], n_classes), dtype=int)
    for x, P in zip(X, labels, strict=True):
        for j in np.flatnonzero(x):
            for k in P:
                counts[j, k] += 1
    return counts >= min_count


def rounded(g: Floats, step: float, rng: Rng) -> Floats:
    """Small gradients made 0 or `step`, with the probability that keeps the mean."""
    first = rng.next() >> 32
    found = g.copy()
    for k in range(len(g)):
        u = ((first + k * 0x9E3779B9) % 2**32 >> 8) * 2.0**-24
        if abs(g[k]) < step:
            found[k] = np.copysign(step, g[k]) if abs(g[k]) > u * step else 0.0
    return found


@dataclass
class PostingsTwin:
    """The model and its training; `labels` holds a sorted list for each point."""

    X: Floats
    labels: Sequence[Sequence[int]]
    n_classes: int
    seed: int
    reduction: str = "decoupled"
    rate: float = 3.0
    intercept_rate: float = 0.15
    decay: float = 0.4
    offset: float = 0.1
    intercept_offset: float = 0.1
    rounding: float = 0.003
    min_count: int = 1
    batch: int = 1
    max_iter: int = 2
    shuffle: bool = True
    fit_intercept: bool = True
    sample_weight: Floats | None = None
    S: Floats = field(init=False)  # (D, K)
    b: Floats = field(init=False)
    curve: list[float] = field(init=False, default_factory=list)

    def train(self) -> PostingsTwin:
        """All passes: gradients of a batch at the same weights, then its moves one after the other."""
        n, K = len(self.X), self.n_classes
        r = np.ones(n) if self.sample_weight is None else self.sample_weight / np.mean(self.sample_weight)
        allowed = support(self.X, self.labels, K, self.min_count)
        self.S, squares = np.zeros(allowed.shape), np.zeros(allowed.shape)
        share = np.clip([sum(r[i] for i in range(n) if k in self.labels[i]) for k in range(K)], 0.5, n - 0.5) / n
        self.b = np.log(share / (1 - share)) if self.reduction == "logistic" else np.log(share)
        if not self.fit_intercept:
            self.b = np.zeros(K)
        of_b = np.zeros(K)
        for t in range(self.max_iter):
            order = shuffled(n, Rng(self.seed, t, VISIT_ORDER)) if self.shuffle else list(range(n))
            total = 0.0
            for first in range(0, n, self.batch):
                moves = []
                for i in order[first : first + self.batch]:
                    loss, g = LOSSES[self.reduction](self.X[i] @ self.S + self.b, self.labels[i])
                    total += r[i] * loss
                    moves.append((i, rounded(r[i] * g, self.rounding, Rng(self.seed, t, FIRST_LOCAL_ITEM + i))))
                for i, g in moves:
                    G = np.outer(self.X[i], g) * allowed
                    squares += G**2
                    self.S -= self.rate * self.decay**t * G / np.sqrt(squares + self.offset)
                    if self.fit_intercept:
                        of_b += g**2
                        self.b -= self.intercept_rate * self.decay**t * g / np.sqrt(of_b + self.intercept_offset)
            self.curve.append(total / n)
        return self
