"""Twin of train/points/gaussian_posterior.cpp in float64, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from reference.augment_reduce import LAWS, draw
from reference.rng import VISIT_ORDER, Rng, shuffled
from reference.selections import Choice, uniform

Floats = NDArray[np.float64]


@dataclass
class Terms:
    """Slopes and curvatures of -bound in the scores of wrong classes, alpha included, (b, m), and -bound, (b,)."""

    slopes: Floats
    curvatures: Floats
    losses: Floats


def gumbel_terms(d: Floats, alpha: Floats, u: Floats, gain: float) -> tuple[Terms, Floats]:
    """Terms of the softmax and the new u, e^u moved by `gain` of the way to 1 + sum alpha e^d."""
    terms = np.log(np.where(alpha > 0, alpha, 1.0)) + np.where(alpha > 0, d, -np.inf)
    log_a = np.logaddexp.reduce(np.column_stack([np.zeros(len(d)), terms]), axis=1)
    new = log_a if gain >= 1 else np.logaddexp(np.log1p(-gain) + u, np.log(gain) + log_a)
    slopes = np.exp(terms - new[:, np.newaxis])
    return Terms(slopes, slopes, new + np.exp(log_a - new) - 1), new


def utility_terms(
    noise: str, family: _core.LocalFamily, d: Floats, alpha: Floats, mu: Floats, s: Floats, gain: float
) -> tuple[Terms, Floats, Floats]:
    """Terms at the new q = (mu, s) of each point, and that q."""
    law, nodes, weights = LAWS[noise], family.nodes, family.weights
    centre = weights @ nodes
    variance = weights @ nodes**2 - centre**2
    slope, narrowing = np.zeros(len(d)), np.zeros(len(d))
    for v, w in zip(nodes, weights, strict=True):
        e = mu + s * v
        g = w * (law.slope(e) + np.einsum("ik,ik->i", alpha, law.hazard(e[:, np.newaxis] - d)))
        slope += g
        narrowing -= g * (v - centre)
    precision = (1 - gain) / s**2 + gain * np.maximum(narrowing, 0) / s
    new = np.minimum(precision**-0.5, family.largest_scale)
    mu, s = mu + (s - new) * centre + law.move(gain, slope, new**2 * variance), new
    h, c, losses = np.zeros_like(d), np.zeros_like(d), -np.log(s) - family.entropy
    for v, w in zip(nodes, weights, strict=True):
        e = mu + s * v
        t = e[:, np.newaxis] - d
        hazard = law.hazard(t)
        h += w * hazard
        c += w * law.curvature(t, hazard)
        losses -= w * (law.log_density(e) + np.einsum("ik,ik->i", alpha, law.log_cdf(t)))
    return Terms(alpha * h, alpha * c, losses), mu, s


@dataclass
class Posterior:
    """Means, variances and what is collected, (D, K); the points are dense."""

    x: Floats
    labels: NDArray[np.int64]
    n_classes: int
    noise: str
    family: _core.LocalFamily | None
    n_negatives: int
    alpha: float
    batch: int
    seed: int
    fit_intercept: bool = True
    sparse: bool = True
    weights: Floats | float = 1.0  # of the points, (n,), their mean 1
    mean_weight: float = 1.0  # observations that a point counts as, in the mean

    def __post_init__(self) -> None:
        n, shape = len(self.labels), (self.x.shape[1], self.n_classes)
        self.W, self.V, self.T, self.precisions = (np.zeros(shape) for _ in range(4))
        self.b = np.zeros(self.n_classes)
        self.local = np.full(n, np.log(self.n_classes) if self.family is None else self.family.mu)
        self.scales = np.ones(n) if self.family is None else np.full(n, self.family.s)
        self.m = min(self.n_negatives, self.n_classes)
        share = np.minimum((self.x != 0).mean(axis=0), 1 - 1e-9) if self.sparse else np.full(shape[0], 1 - 1e-9)
        self.rarity = 1 / (1 - (1 - share) ** self.batch)

    def noises(self, t: int, points: list[int]) -> Floats:
        """Standard normal numbers for the drawn classes of each point, and for its label."""
        rngs = [Rng(self.seed, t, 2**32 + i) for i in points]
        return np.array([[draw("normal", rng) for _ in range(self.m + 1)] for rng in rngs])

    def terms(self, t: int, points: list[int], d: Floats, var: Floats, var_y: Floats, alpha: Floats) -> Terms:
        """Terms of a batch at visit t, the local states moved."""
        floor = self.m / self.n_classes
        if self.family is None:
            mean = d + 0.5 * (var + var_y[:, np.newaxis])
            terms, self.local[points] = gumbel_terms(mean, alpha, self.local[points], max(floor, (1 + t) ** -0.9))
            return terms
        zeta = self.noises(t, points)
        drawn = d + np.sqrt(var) * zeta[:, :-1] - (np.sqrt(var_y) * zeta[:, -1])[:, np.newaxis]
        gain = max(floor if t else 0.0, (2 + t) ** -0.9)
        terms, self.local[points], self.scales[points] = utility_terms(
            self.noise, self.family, drawn, alpha, self.local[points], self.scales[points], gain
        )
        return terms

    def step(self, points: list[int], t: int, eta: float) -> float:
        """The steps of a batch; the sum of its losses."""
        y, x = self.labels[points], self.x[points]
        drawn = uniform(Rng(self.seed, t, points[0]), Choice(self.n_classes, self.m, with_label=True), 0).classes
        alpha = np.where(drawn == y[:, np.newaxis], 0.0, self.n_classes / self.m)
        z_y = np.einsum("ij,ji->i", x, self.W[:, y]) + self.b[y]
        d = x @ self.W[:, drawn] + self.b[drawn] - z_y[:, np.newaxis]
        var_y = np.einsum("ij,ji->i", x**2, self.V[:, y])
        terms = self.terms(t, points, d, x**2 @ self.V[:, drawn], var_y, alpha)

        r = np.broadcast_to(self.weights, len(self.labels))[points]  # a point is there r times
        terms = Terms(r[:, np.newaxis] * terms.slopes, r[:, np.newaxis] * terms.curvatures, r * terms.losses)
        x_sq = (x**2).sum(axis=1) + self.fit_intercept
        curvatures = x_sq @ terms.curvatures + (x_sq * terms.curvatures.sum(axis=1))[:, np.newaxis]
        p = eta * terms.slopes / (1 + eta * curvatures)
        touched = (x != 0).any(axis=0) if self.sparse else np.ones(x.shape[1], dtype=bool)
        pull = eta * self.alpha * len(y) * self.n_classes / self.m * self.rarity
        for k, column in zip(drawn, p.T, strict=True):
            self.W[:, k] = np.where(touched, (self.W[:, k] - x.T @ column) / (1 + pull), self.W[:, k])
            self.b[k] -= column.sum() * self.fit_intercept
        self.T[:, drawn] += (x**2).T @ terms.curvatures
        for i, k in enumerate(y):
            self.W[:, k] += x[i] * p[i].sum()
            self.b[k] += p[i].sum() * self.fit_intercept
            self.T[:, k] += x[i] ** 2 * terms.curvatures[i].sum()
        return float(terms.losses.sum())

    def make_pass(self, t: int, eta: float) -> float:
        """One pass; the mean of -bound with the divergence from the prior."""
        n = len(self.labels)
        order = shuffled(n, Rng(self.seed, t, VISIT_ORDER))
        loss = sum(self.step(order[a : a + self.batch], t, eta) for a in range(0, n, self.batch))
        gain = (1 + t) ** -0.9
        self.precisions = (1 - gain) * self.precisions + gain * self.mean_weight * self.T
        self.T[:] = 0
        observations = self.mean_weight * n
        prior = observations * self.alpha
        self.V = 1 / (prior + self.precisions)
        divergence = 0.5 * np.sum(prior * (self.W**2 + self.V) - 1 - np.log(prior * self.V))
        return float(self.mean_weight * loss + divergence) / observations
