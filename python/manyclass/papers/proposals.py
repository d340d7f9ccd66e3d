"""One-vs-each by SGD with a proposal that depends on the state (Titsias, NIPS 2016, section 3, left to future work).

Each step draws one wrong class for each point of a minibatch from p(m) = .9 s_m / sum s + .1 / (K - 1), where
s_m = sigma(f_m - f_y) are the scores of now, and weights its gradient by 1 / p(m). The gradient stays unbiased, and of
all proposals the one in proportion to s has the least variance (`manyclass.bounds.one_vs_each_proposal`). It needs all
K scores of a point, so that a step costs as much as one on the exact bound: this says what a proposal can save of the
noise, and is no way to train. Both proposals take the same steps, at the same points and rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.bounds import one_vs_each_proposal, sampled_one_vs_each, sampled_one_vs_each_variance
from manyclass.weights.arrays import Matrix

PROPOSALS = {"uniform draws": 1.0, "draws by scores": 0.1}  # the uniform share of each
LAST_STEP = 0.01  # of the first: the step size falls to it by a constant factor

Doubles = NDArray[np.float64]


@dataclass
class LinearScores:
    """A linear model of K classes: W of shape (K, D), and the intercepts."""

    W: Doubles
    b: Doubles

    def scores(self, x: Matrix) -> Doubles:
        """The scores of some rows."""
        return np.asarray(x @ self.W.T + self.b)


def trained_by_proposal(
    x: Matrix,
    labels: NDArray[np.intp],
    *,
    uniform: float,
    rate: float,
    alpha: float,
    n_iterations: int,
    batch: int,
    seed: int,
    note: Callable[[int, LinearScores, dict[str, float]], None],
    checkpoints: NDArray[np.int64],
) -> LinearScores:
    """Minimise the mean of minus the bound plus alpha / 2 ||W||^2 from zero weights.

    Parameters
    ----------
    x : array or sparse array of shape (n, D)
    labels : ndarray of shape (n,), in [0, K)
    uniform : float
        The uniform share of the proposal.
    rate : float
        The first step size, on the gradient of the mean.
    alpha : float
    n_iterations : int
    batch : int
        Points of a step.
    seed : int
    note : callable
        Called with the number of steps made, the weights, and the variance of one point's gradient in the scores by
        each of `PROPOSALS`, the mean over the minibatch just seen; at the `checkpoints`.
    checkpoints : ndarray of int
        Numbers of steps.
    """
    rng = np.random.default_rng(seed)
    n_classes = int(labels.max()) + 1
    weights = LinearScores(np.zeros((n_classes, x.shape[1])), np.zeros(n_classes))
    wanted = set(checkpoints.tolist())
    for step in range(1, n_iterations + 1):
        rows = rng.choice(len(labels), min(batch, len(labels)), replace=False)
        batch_rows, y = x[rows], labels[rows]
        f = weights.scores(batch_rows)
        p = one_vs_each_proposal(f, y, uniform=uniform)
        gradient = sampled_one_vs_each(f, y, drawn_from(p, rng)[:, np.newaxis], p).gradient
        eta = rate * LAST_STEP ** ((step - 1) / max(1, n_iterations - 1))
        weights.W *= 1 - eta * alpha
        up = batch_rows.T @ gradient  # (D, K), dense
        weights.W += eta / len(rows) * np.asarray(up).T
        weights.b += eta / len(rows) * gradient.sum(axis=0)
        if step in wanted:
            proposals = {name: one_vs_each_proposal(f, y, uniform=share) for name, share in PROPOSALS.items()}
            variances = {name: sampled_one_vs_each_variance(f, y, p).gradient for name, p in proposals.items()}
            note(step, weights, {name: float(variance.mean()) for name, variance in variances.items()})
    return weights


def drawn_from(p: Doubles, rng: np.random.Generator) -> NDArray[np.intp]:
    """One class of each row of probabilities, by inversion; a class with p = 0 is never drawn."""
    ends = np.cumsum(p, axis=1)
    u = (1 - rng.random(len(p))) * ends[:, -1]  # in ]0, the sum], so that a first class with p = 0 is passed over
    return np.asarray(np.argmax(ends >= u[:, np.newaxis], axis=1))


def mean_square(x: Matrix) -> float:
    """The mean of |x_i|^2."""
    squares = x.multiply(x).sum() if sp.issparse(x) else np.square(x).sum()
    return float(squares) / int(x.shape[0])
