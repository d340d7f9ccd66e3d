"""The exact loss of a fixed sample of training points: what shows a divergence that the running loss hides.

The running loss is that of the selected classes. With few of them the logarithm of a sampled sum lies below the loss
itself (Jensen), most where a model is sure of wrong classes: it may fall while training diverges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyclass import _core
from manyclass.training.passes import TrainingState
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Doubles, Matrix

# Looks take at most this share of the multiplications of the training itself, or so many scores of a class, which take
# a few hundredths of a second; but for one at the end.
SHARE = 0.02
FREE = 1_000_000
FEWEST, MOST = 16, 256  # points
# A look at probabilities of random utilities is an integral over the noise at this many nodes or more.
COST_OF_NOISE = 100
# In units of the loss of W = 0 and beyond twice the standard error: a loss so high or a rise by so much is no noise of
# steps that learn. (Where labels are random, steps of the default size end at up to 1.09.)
TOO_HIGH, TOO_MUCH = 1.1, 0.25


def standard_error(values: Doubles, weights: Doubles | None) -> float:
    """Of the weighted mean, a ratio of two means."""
    if weights is None:
        return float(np.std(values) / np.sqrt(len(values)))
    away = values - np.average(values, weights=weights)
    return float(np.sqrt(np.sum(np.square(weights * away))) / weights.sum())


@dataclass
class Probe:
    """Looks at the exact loss of some points.

    Attributes
    ----------
    x, labels : the points
    at_zero : float
        Loss of W = 0, in nats.
    after : frozenset of int
        Passes after which to look, beside the last one.
    weights : ndarray of shape (n_points,) or None
        Of the points.
    looks : dict of int to (float, float)
        The mean loss and its standard error, by pass; 0: before the first.
    """

    x: Matrix
    labels: Labels
    at_zero: float
    after: frozenset[int]
    weights: Doubles | None = None
    looks: dict[int, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        x: Matrix,
        labels: Labels,
        n_classes: int,
        *,
        at_zero: float,
        n_drawn: int,
        max_iter: int,
        noise: bool,
        weights: Doubles | None = None,
    ) -> Probe:
        """Choose points and passes; `n_drawn` classes make a step, `noise` is that of random utilities."""
        n_points = len(labels)
        passes = [2**k for k in range(max_iter.bit_length()) if 2**k < max_iter]
        cost = n_classes * (COST_OF_NOISE if noise else 1)
        affordable = int(max(SHARE * n_points * (min(n_drawn, n_classes) + 1) * max_iter, FREE) / cost)
        if affordable < FEWEST * (len(passes) + 1):
            passes = []
        size = min(n_points, MOST, max(FEWEST, affordable // (len(passes) + 1)))
        rows = np.sort(np.random.default_rng(0).choice(n_points, size, replace=False))
        some = None if weights is None else weights[rows]
        return cls(x[rows], labels.of(rows), at_zero, frozenset(passes), some)

    def look(self, state: TrainingState, n_iter: int) -> bool:
        """Note the loss of the iterate after so many passes; return whether training is to stop, since it is no number.

        A high one is no reason: large steps may begin above W = 0 and come down as they fall.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            found = self._losses(state)
            mean = float(np.average(found, weights=self.weights))
            error = standard_error(found, self.weights)
        self.looks[n_iter] = (mean, error)
        return not np.isfinite(mean)

    def verdict(self) -> str | None:
        """How the looks show divergence; None if they do not."""
        if not self.looks:
            return None
        where = f"of {len(self.labels)} training points"
        best = min(self.looks, key=lambda n_iter: self.looks[n_iter][0])
        last = max(self.looks)
        (low, _), (high, error) = self.looks[best], self.looks[last]
        before, _ = self.looks.get(0, (0.0, 0.0))  # of a model that goes on, to which new classes are improbable
        if not high - 2 * error <= TOO_HIGH * max(self.at_zero, before):
            return f"the exact loss {where} after pass {last}, {high:.4g}, is above that of W = 0"
        if high - 2 * error <= low + TOO_MUCH * self.at_zero:
            return None
        return f"the exact loss {where} rose from {low:.4g} after pass {best} to {high:.4g} after pass {last}"

    def _losses(self, state: TrainingState) -> Doubles:
        if len(self.labels.ids) == len(self.labels):
            return state.log_losses(self.x, self.labels.ids)
        scores = np.ascontiguousarray(state.scores(self.x))
        if not np.all(np.isfinite(scores)):
            return np.full(len(self.labels), np.inf)
        return _core.losses(scores, self.labels.indptr, self.labels.ids, loss="cross_entropy")[0]
