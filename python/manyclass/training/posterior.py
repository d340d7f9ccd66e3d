"""A Gaussian posterior over the weights of augment and reduce, with diagonal covariance, and its predictions.

The prior is N(0, 1 / (N alpha)) for every weight, q(w) = N(m, v), and what is maximised is the mean over points of
E_q(w)[bound], less KL(q(w) || prior) / N (Ruiz et al. 2018, end of section 3.1). Under q(w) the scores of a point are
independent normal numbers, z_k ~ N(x.m_k + b_k, sum_j x_j^2 v_kj), so that a draw of the scores stands for a draw of
the weights. The gradient in m is that at the draw. Integrating E f(z) by parts, its slope in the variance of z is
E f''(z) / 2, hence at the best v

    1 / v_kj = N alpha + sum_i E[curvature of -bound_i in z_k] x_ij^2,

a sum that each pass collects from the points and classes that it visits. For the softmax the expectation is known:
e^{d_k} is replaced by its mean, e^{d_k + (var z_k + var z_y) / 2}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.model.weights import LinearWeights, Matrix, aligned_zeros
from manyclass.training.local_family import NOISES, LocalFamily
from manyclass.training.plan import PointsPlan

Floats = NDArray[np.float64]

BATCH = 16  # points that see the same weights and classes


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
    noise: str, family: LocalFamily, d: Floats, alpha: Floats, mu: Floats, s: Floats, gain: float
) -> tuple[Terms, Floats, Floats]:
    """Terms at the new q = (mu, s) of each point, and that q: as NaturalBound in objective/augment_reduce.hpp."""
    law, nodes, weights = NOISES[noise], family.nodes, family.weights
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
    move = gain * new**2 * variance * slope if noise == "normal" else np.log1p(gain * slope)
    mu, s = mu + (s - new) * centre + move, new
    h, c, losses = np.zeros_like(d), np.zeros_like(d), -np.log(s) - family.entropy
    for v, w in zip(nodes, weights, strict=True):
        e = mu + s * v
        t = e[:, np.newaxis] - d
        hazard = law.hazard(t)
        h += w * hazard
        c += w * (np.clip(hazard * (hazard + t), 0, 1) if noise == "normal" else hazard * (1 - hazard))
        losses -= w * (law.log_density(e) + np.einsum("ik,ik->i", alpha, law.log_cdf(t)))
    return Terms(alpha * h, alpha * c, losses), mu, s


class GaussianTraining:
    """Passes over the data. A batch touches the weights of its points' features, for the drawn classes and its labels.

    The variances of a pass are those of the precisions that the passes before have collected, and 0 in the first.
    """

    def __init__(self, plan: PointsPlan, x: Matrix, labels: NDArray[np.int32], n_classes: int) -> None:
        assert plan.utility is not None
        family = plan.utility.family
        self.x, self.labels, self.n_classes, self.family = x, labels, n_classes, family
        self.noise, self.alpha, self.fit_intercept = plan.utility.noise, plan.alpha, plan.fit_intercept
        self.m = n_classes if plan.sampler == "all" else min(plan.n_negatives, n_classes)
        self.batch = min(plan.batch_size or BATCH, len(labels))
        self.rng = np.random.default_rng(plan.seed)
        self.means = LinearWeights.zeros(n_classes, x.shape[1], sparse=sp.issparse(x))
        self.variances = aligned_zeros(*self.means.matrix.shape)
        self.collected = aligned_zeros(*self.means.matrix.shape)
        self.precisions = aligned_zeros(*self.means.matrix.shape)  # but for the prior's
        self.local = np.full(len(labels), np.log(n_classes) if family is None else family.mu)
        self.scales = np.ones(len(labels)) if family is None else np.full(len(labels), family.s)
        counts = (
            np.bincount(x.indices, minlength=x.shape[1]) if isinstance(x, sp.csr_array) else np.full(1, len(labels))
        )
        # 1 / P(a batch holds the feature): what a touched weight pays of the ridge, beside that of its class.
        self.rarity = 1 / -np.expm1(self.batch * np.log1p(-np.minimum(counts / len(labels), 1 - 1e-9)))

    def _by_feature(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        return matrix if self.means.sparse else matrix.T

    def _rows(self, points: NDArray[np.int64]) -> tuple[Any, Floats]:
        """The features that some points have, and these points by them."""
        if not isinstance(self.x, sp.csr_array):
            return np.arange(self.x.shape[1]), self.x[points].astype(np.float64)
        some = self.x[points]
        features = np.unique(some.indices)
        return features, some[:, features].toarray().astype(np.float64)

    def step(self, points: NDArray[np.int64], visit: int, eta: float) -> float:
        """Make the steps of a batch at its `visit`-th visit, 0, 1, ...; return the sum of the losses."""
        y = self.labels[points]
        features, x = self._rows(points)
        drawn = np.sort(self.rng.choice(self.n_classes, self.m, replace=False))
        alpha = np.where(drawn == y[:, np.newaxis], 0.0, self.n_classes / self.m)
        W, V = self._by_feature(self.means.matrix), self._by_feature(self.variances)
        b = self.means.intercept

        of_drawn, of_labels = np.ix_(features, drawn), np.ix_(features, y)
        z = x @ W[of_drawn] + b[drawn]
        z_y = np.einsum("ij,ji->i", x, W[of_labels]) + b[y]
        var, var_y = x**2 @ V[of_drawn], np.einsum("ij,ji->i", x**2, V[of_labels])
        floor = 1.0 if self.m == self.n_classes else self.m / self.n_classes
        if self.family is None:
            d = z - z_y[:, np.newaxis] + 0.5 * (var + var_y[:, np.newaxis])
            terms, self.local[points] = gumbel_terms(d, alpha, self.local[points], max(floor, (1 + visit) ** -0.9))
        else:
            z += np.sqrt(var) * self.rng.standard_normal(z.shape)
            z_y += np.sqrt(var_y) * self.rng.standard_normal(len(y))
            gain = max(floor if visit else 0.0, (2 + visit) ** -0.9)
            terms, self.local[points], self.scales[points] = utility_terms(
                self.noise, self.family, z - z_y[:, np.newaxis], alpha, self.local[points], self.scales[points], gain
            )

        # Each step divided by one and what all curvatures of its classes could add to it: no batch overshoots.
        x_sq = (x**2).sum(axis=1) + self.fit_intercept
        of_class, of_label = x_sq @ terms.curvatures, x_sq * terms.curvatures.sum(axis=1)
        p = eta * terms.slopes / (1 + eta * (of_class + of_label[:, np.newaxis]))
        distinct, place = np.unique(y, return_inverse=True)
        share = np.zeros((len(y), len(distinct)))
        share[np.arange(len(y)), place] = p.sum(axis=1)
        of_distinct = np.ix_(features, distinct)
        pull = eta * self.alpha * len(y) * self.n_classes / self.m
        rarity = self.rarity[features] if len(self.rarity) > 1 else np.full(len(features), self.rarity[0])
        W[of_drawn] = (W[of_drawn] - x.T @ p) / (1 + pull * rarity[:, np.newaxis])
        W[of_distinct] += x.T @ share
        if self.fit_intercept:
            b[drawn] -= p.sum(axis=0)
            b[distinct] += share.sum(axis=0)

        T = self._by_feature(self.collected)
        T[of_drawn] += (x**2).T @ terms.curvatures
        share[np.arange(len(y)), place] = terms.curvatures.sum(axis=1)
        T[of_distinct] += (x**2).T @ share
        return float(terms.losses.sum())

    def make_pass(self, t: int, eta: float) -> float:
        """Visit every point; return the mean of -bound, with the divergence from the prior."""
        order = self.rng.permutation(len(self.labels))
        loss = sum(self.step(order[i : i + self.batch], t, eta) for i in range(0, len(order), self.batch))
        gain = (1 + t) ** -0.9
        self.precisions *= np.float32(1 - gain)
        self.precisions += np.float32(gain) * self.collected
        self.collected[:] = 0
        prior = len(self.labels) * self.alpha
        np.divide(1, np.float32(prior) + self.precisions, out=self.variances)
        m, v = (self._by_feature(a)[:, : self.n_classes] for a in (self.means.matrix, self.variances))
        divergence = 0.5 * float(np.sum(prior * (np.square(m) + v) - 1 - np.log(prior * v), dtype=np.float64))
        return (loss + divergence) / len(self.labels)


def fit_posterior(
    plan: PointsPlan, x: Matrix, labels: NDArray[np.int32], n_classes: int
) -> tuple[LinearWeights, NDArray[np.float32], list[float]]:
    """Return the means, the variances (stored as the means are) and the loss of each pass."""
    training = GaussianTraining(plan, x, labels, n_classes)
    curve = [training.make_pass(t, plan.schedule.at(t)[0]) for t in range(plan.max_iter)]
    return training.means, training.variances, curve


def predictive_tiles(
    noise: str,
    means: LinearWeights,
    variances: NDArray[np.float32],
    x: Matrix,
    *,
    n_draws: int,
    seed: int,
    n_threads: int,
) -> Iterator[tuple[int, Floats]]:
    """Probabilities of all classes, some points at a time, as means over draws of the scores."""
    spread = LinearWeights(variances, np.zeros_like(means.intercept), means.sparse)
    squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), x.shape) if sp.issparse(x) else np.square(x)
    rng = np.random.default_rng(seed)
    for (first, scores), (_, var) in zip(
        means.score_tiles(x, n_threads), spread.score_tiles(squares, n_threads), strict=True
    ):
        z, deviations = scores.astype(np.float64), np.sqrt(var.astype(np.float64))
        total = np.zeros_like(z)
        for _ in range(n_draws):
            psi = z + deviations * rng.standard_normal(z.shape)
            total += _core.utility_probabilities(noise=noise, psi=psi, log=False, n_threads=n_threads)
        yield first, total / n_draws
