"""The local variational family of augment and reduce: its rule for expectations, and its best members.

The latent variable is the noise e of the label's utility, q(e) its approximate posterior given the label: e = mu + s v
with v standard normal, logistic or Gumbel. log p~(e) = log phi(e) + sum over wrong classes of log Phi(e - d_k), with
d_k = z_k - z_y (Ruiz et al. 2018, eq. 6-7); for noise "normal" and "logistic" it is concave.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyclass import _core
from manyclass.weights.arrays import Doubles, Floats, Ids

# The family with the tightest bound, where that is not the noise's own. Gaps in nats at equal scores of 2, 10 and 1,000
# classes, normal noise: .002, .013, .045 with normal q; logistic noise: .024, .002, .000 with Gumbel q and .014, .083,
# .143 with the paper's logistic q.
TIGHTEST = {"logistic": "gumbel"}


@dataclass(frozen=True)
class LocalFamily:
    """What the core needs of q.

    Attributes
    ----------
    name : str
    nodes, weights : ndarray of shape (n_nodes,)
        The rule for expectations.
    entropy : float
        The entropy of the standard member, in nats.
    largest_scale : float
        s of the best q for the noise alone, without classes.
    mu, s : float
        The best q where all classes have the same score: the start of every point.
    """

    name: str
    nodes: Doubles
    weights: Doubles
    entropy: float
    largest_scale: float
    mu: float
    s: float

    @classmethod
    def of(cls, noise: str, name: str, n_nodes: int, n_classes: int) -> LocalFamily:
        """Make the rule, with n_nodes = 0 of as many nodes as the family needs, and find the best members."""
        return cls(name, *_core.local_family(noise=noise, family=name, n_nodes=n_nodes, n_classes=n_classes))

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

    def best_bounds(self, noise: str, scores: Floats, labels: Ids, n_threads: int) -> Doubles:
        """Return the largest bound of each point's log-probability, all classes in it, in nats.

        The best q by the family's own rule; its bound, which is one for every q, by a rule of 41 nodes.
        """
        return _core.best_local_bounds(
            noise=noise,
            family=self.name,
            scores=scores,
            labels=labels,
            nodes=self.nodes,
            weights=self.weights,
            mu=self.mu,
            s=self.s,
            n_threads=n_threads,
        )
