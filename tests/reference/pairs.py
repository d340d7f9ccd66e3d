"""Slow twin of train/pairs/pairs.cpp and unmet_classes.hpp: float64, dense, class by class, with the core's draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from reference import losses
from reference.ridge_turns import turns
from reference.rng import VISIT_ORDER, Rng, shuffled

Floats = NDArray[np.float64]
SMOOTHING = 5.0  # of margins
FIRST_LOCAL_ITEM = 1 << 32
LOSSES = {
    "cross_entropy": losses.cross_entropy,
    "pick_all": losses.cross_entropy,
    "pick_all_normalized": losses.pick_all_normalized,
    "decoupled": losses.decoupled,
    "logistic": losses.logistic,
    "margin": lambda z, P: losses.smoothed_margin(z, P, SMOOTHING),
}


def support(
    X: Floats, labels: Sequence[Sequence[int]], n_classes: int, min_count: int = 1, few_classes: int = 0
) -> NDArray[np.bool_]:
    """Which pairs of a feature and a class `min_count` rows have, or any row, of features with few classes, (D, K)."""
    counts = np.zeros((X.shape[1], n_classes), dtype=int)
    for x, P in zip(X, labels, strict=True):
        for j in np.flatnonzero(x):
            for k in P:
                counts[j, k] += 1
    few = (counts > 0).sum(axis=1, keepdims=True) <= few_classes
    return counts >= np.where(few, 1, min_count)


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
class Intercepts:
    """Intercepts that move late where a row does not meet their class; see train/pairs/unmet_classes.hpp.

    One moves when its class is met, when `e` times what `A` grew by since its last move may exceed MOST_DUE, and at the
    end of a span of visits.
    """

    b: Floats
    offset: float
    logistic: bool
    gradient_a_visit: float
    span: int
    A: float = 0.0

    MOST_DUE = 1 / 32

    def __post_init__(self) -> None:
        self.squares, self.moved_at = np.zeros_like(self.b), np.zeros_like(self.b)
        self.begin_span()

    def begin_span(self) -> None:
        """List the classes by the power of two of their share; nothing is due."""
        self.A, self.c = 0.0, 0.0 if self.logistic else float(np.ceil(self.b.max()))
        self.moved_at[:] = 0
        self.e = self.share(self.b)
        most = self.gradient_a_visit * self.span / (1 if self.logistic else self.e.sum())
        self.levels: dict[int, list[int]] = {}
        for k in np.flatnonzero(self.e >= self.MOST_DUE / (2 * most)):
            self.levels.setdefault(max(0, -int(np.floor(np.log2(self.e[k] * 1.37)))), []).append(int(k))
        self.listed_at = dict.fromkeys(self.levels, 0.0)

    def share(self, b: Floats) -> Floats:
        """What the gradient of an intercept is in proportion to where its class is not met."""
        return np.asarray(expit(b) if self.logistic else np.exp(b - self.c))

    def move(self, k: int, g: float, rate: float) -> None:
        """Move by what is due and by g."""
        g += self.e[k] * (self.A - self.moved_at[k])
        self.moved_at[k] = self.A
        self.squares[k] += g**2
        self.b[k] -= rate * g / np.sqrt(self.squares[k] + self.offset)
        self.e[k] = self.share(self.b[k])

    def move_due(self, rate: float) -> None:
        """Move the classes of the levels whose time has come."""
        for level, classes in self.levels.items():
            if (self.A - self.listed_at[level]) * 2.0**-level >= self.MOST_DUE:
                for k in classes:
                    self.move(k, 0.0, rate)
                self.listed_at[level] = self.A

    def end_span(self, rate: float) -> None:
        """Move all classes, and begin the next span."""
        for k in range(len(self.b)):
            self.move(k, 0.0, rate)
        self.begin_span()


@dataclass
class PairsTwin:
    """The model and its training; `labels` holds a sorted list for each point.

    The gradient of a visit is that of the loss over all classes, of a margin over those that the row meets. Of it the
    part of an intercept that `Intercepts` has for all classes alike is taken away, and the rest of what the row meets
    is rounded.
    """

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
    alpha: float = 0.0
    S: Floats = field(init=False)  # (D, K)
    b: Floats = field(init=False)
    curve: list[float] = field(init=False, default_factory=list)

    def train(self) -> PairsTwin:
        """All passes: gradients of a batch at the same weights, then its moves one after the other."""
        n, K = len(self.X), self.n_classes
        r = np.ones(n) if self.sample_weight is None else self.sample_weight / np.mean(self.sample_weight)
        allowed = support(self.X, self.labels, K, self.min_count)
        self.S, squares = np.zeros(allowed.shape), np.zeros(allowed.shape)
        share = np.clip([sum(r[i] for i in range(n) if k in self.labels[i]) for k in range(K)], 0.5, n - 0.5) / n
        self.b = np.log(share / (1 - share)) if self.reduction == "logistic" else np.log(share)
        if not self.fit_intercept or self.reduction == "margin":
            self.b = np.zeros(K)
        at_a_time = self.batch if self.batch > 1 else 16
        span = -(-min(max(K // 256, 64), 4096) // at_a_time) * at_a_time
        sums_labels = self.reduction in ("pick_all", "decoupled")
        of_labels = float(np.mean([len(P) for P in self.labels])) if sums_labels else 1.0
        logistic = self.reduction == "logistic"
        bias = Intercepts(self.b, self.intercept_offset, logistic, of_labels, span)
        for t in range(self.max_iter):
            order = shuffled(n, Rng(self.seed, t, VISIT_ORDER)) if self.shuffle else list(range(n))
            total, rate = 0.0, self.intercept_rate * self.decay**t if self.fit_intercept else 0.0
            for first in range(0, n, self.batch):
                moves = []
                for i in order[first : first + self.batch]:
                    met = self.met(i, allowed)
                    z = self.X[i] @ self.S + self.b
                    if self.reduction == "margin" and met is not None:
                        z[~met] = -1e6
                    loss, g = LOSSES[self.reduction](z, self.labels[i])
                    total += r[i] * loss
                    a = 1.0 if logistic else 0.0
                    if met is None:
                        a = 0.0
                    elif not logistic and not met.all():
                        k = np.flatnonzero(~met)[0]
                        a = float(g[k] / bias.e[k])
                    key = (self.seed, t, FIRST_LOCAL_ITEM + i)
                    beside = rounded(r[i] * (g - a * bias.e), self.rounding, Rng(*key))
                    moves.append((i, rounded(r[i] * g, self.rounding, Rng(*key)), r[i] * a, beside, met))
                for i, g, a, beside, met in moves:
                    G = np.outer(self.X[i], g) * allowed
                    squares += G**2
                    self.S -= self.rate * self.decay**t * G / np.sqrt(squares + self.offset)
                    bias.A += a
                    for k in np.flatnonzero(beside if met is None else beside * met):
                        bias.move(k, beside[k], rate)
                bias.move_due(rate)
                if self.alpha:
                    self.shrink(
                        allowed, squares, self.decay**t * self.rate, range(t * n + first, t * n + first + len(moves))
                    )
                if (first + len(moves)) % span == 0:
                    bias.end_span(rate)
            bias.end_span(rate)
            self.curve.append(total / n)
        return self

    def shrink(self, allowed: NDArray[np.bool_], squares: Floats, rate: float, visits: range) -> None:
        """The ridge of the weights whose turn it is, in the order of the support."""
        places, counts = np.argwhere(allowed), allowed.sum(axis=1)
        met = np.mean([counts[x != 0].sum() for x in self.X])
        for rows, period in turns(len(places), met, len(self.X), visits):
            at = tuple(places[list(rows)].T)
            self.S[at] /= 1 + rate / np.sqrt(squares[at] + self.offset) * self.alpha * period

    def met(self, i: int, allowed: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Which classes a row meets; None: its features have as many weights as there are classes."""
        of_features = allowed[self.X[i] != 0]
        met = of_features.any(axis=0)
        met[list(self.labels[i])] = True
        return None if of_features.sum() >= self.n_classes else met
