"""The local variational family of augment and reduce: its standard members, rules for expectations, its best members.

The latent variable is the noise e of the label's utility, q(e) its approximate posterior given the label: e = mu + s v
with v standard normal, logistic or Gumbel. log p~(e) = log phi(e) + sum over wrong classes of log Phi(e - d_k), with
d_k = z_k - z_y (Ruiz et al. 2018, eq. 6-7); for noise "normal" and "logistic" it is concave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import log_expit

from manyclass import _core
from manyclass.weights.arrays import Doubles, Floats, Ids

HALF_LOG_2_PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class Base:
    """A standard member of a family.

    Attributes
    ----------
    log_density : callable
    entropy : float
    low, high : float
        Beyond them even its 62nd moment has nothing left.
    n_nodes : int
        Of the rule for expectations: they leave errors of at most 1 % of the gradient in the scores, but where a point
        is all but certain.
    """

    log_density: Callable[[Doubles], Doubles]
    entropy: float
    low: float
    high: float
    n_nodes: int


BASES = {
    "normal": Base(lambda v: -0.5 * v * v - HALF_LOG_2_PI, float(HALF_LOG_2_PI + 0.5), -20.0, 20.0, 3),
    "logistic": Base(lambda v: log_expit(v) + log_expit(-v), 2.0, -200.0, 200.0, 5),
    "gumbel": Base(lambda v: -v - np.exp(-v), float(1 + np.euler_gamma), -6.0, 200.0, 4),
}

# The family with the tightest bound, where that is not the noise's own. Gaps in nats at equal scores of 2, 10 and 1,000
# classes, normal noise: .002, .013, .045 with normal q; logistic noise: .024, .002, .000 with Gumbel q and .014, .083,
# .143 with the paper's logistic q.
TIGHTEST = {"logistic": "gumbel"}


@cache
def grid(family: str, n: int) -> tuple[Doubles, Doubles]:
    """Nodes and weights of the trapezoidal rule for the standard member, exponentially accurate."""
    base = BASES[family]
    v = np.linspace(base.low, base.high, n)
    w = np.exp(base.log_density(v))
    return v, w / w.sum()


@cache
def gauss_rule(family: str, n: int) -> tuple[Doubles, Doubles]:
    """Nodes and weights of the n-point Gauss rule, exact for polynomials of degree 2 n - 1 in v.

    The recurrence of the orthogonal polynomials by Stieltjes' procedure on a fine grid, nodes and weights as
    eigenvalues and first components of eigenvectors of its Jacobi matrix (Golub & Welsch 1969).
    """
    v, w = grid(family, 10001)
    diagonal, off = np.zeros(n), np.zeros(n)
    before, here = np.zeros_like(v), np.ones_like(v)
    for k in range(n):
        squares = w * here**2  # products by BLAS, which shares them among its threads, would be rounded by their number
        size = float(squares.sum())
        diagonal[k] = (squares * v).sum() / size
        off[k] = size  # |p_k|^2; quotients below
        before, here = here, (v - diagonal[k]) * here - (off[k] / off[k - 1] if k else 0.0) * before
    nodes, vectors = np.linalg.eigh(
        np.diag(diagonal) + np.diag(np.sqrt(off[1:] / off[:-1]), 1) + np.diag(np.sqrt(off[1:] / off[:-1]), -1)
    )
    return nodes, vectors[0] ** 2


def best_member(
    noise: str,
    d: Doubles,
    counts: Doubles,
    nodes: Doubles,
    weights: Doubles,
    *,
    start: tuple[float, float] = (0.0, 1.0),
    n_threads: int = 1,
) -> tuple[Doubles, Doubles]:
    """Return (mu, s) of the best q of each point, by the rule's expectations.

    Parameters
    ----------
    d : ndarray of shape (n_samples, m)
        z_k - z_y of the wrong classes.
    counts : ndarray of shape (n_samples, m)
        How often each counts; 0 for the label.
    nodes, weights : ndarrays of shape (n_nodes,)
        Of the standard member of q.
    start : (float, float)
        The first mu and s.
    n_threads : int
        Results do not depend on it.
    """
    mu, s = start
    return _core.best_local(
        noise=noise, d=d, counts=counts, nodes=nodes, weights=weights, mu=mu, s=s, n_threads=n_threads
    )


@dataclass(frozen=True)
class LocalFamily:
    """What the core needs of q.

    Attributes
    ----------
    name : str
    nodes, weights : ndarray of shape (n_nodes,)
        The rule for expectations.
    largest_scale : float
        s of the best q for the noise alone, without classes.
    mu, s : float
        The best q where all classes have the same score: the start of every point.
    """

    name: str
    nodes: Doubles
    weights: Doubles
    largest_scale: float
    mu: float
    s: float

    @classmethod
    def of(cls, noise: str, name: str, n_nodes: int, n_classes: int) -> LocalFamily:
        """Make the rule and find its best members."""
        nodes, weights = gauss_rule(name, n_nodes)
        none = np.zeros((1, 1))
        _, widest = best_member(noise, none, none, nodes, weights)
        mu, s = best_member(noise, none, none + n_classes - 1, nodes, weights)
        return cls(name, nodes, weights, float(widest[0]), float(mu[0]), float(s[0]))

    @property
    def entropy(self) -> float:
        """Of the standard member, in nats."""
        return BASES[self.name].entropy

    @property
    def core(self) -> _core.LocalFamily:
        """The family as the core's steps take it."""
        return _core.LocalFamily(
            name=self.name,
            nodes=self.nodes,
            weights=self.weights,
            entropy=self.entropy,
            largest_scale=self.largest_scale,
        )


def best_bounds(noise: str, scores: Floats, labels: Ids, family: LocalFamily, n_threads: int) -> Doubles:
    """Return the largest bound of each point's log-probability, all classes in it, in nats.

    The best q by the family's own rule; its bound, which is one for every q, by a rule of 41 nodes.
    """
    nodes, weights = gauss_rule(family.name, 41)
    return family.entropy + _core.best_local_bounds(
        noise=noise,
        scores=scores,
        labels=labels,
        nodes=family.nodes,
        weights=family.weights,
        fine_nodes=nodes,
        fine_weights=weights,
        mu=family.mu,
        s=family.s,
        n_threads=n_threads,
    )
