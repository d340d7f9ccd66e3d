"""What a model has learnt before the points of a training that goes on from it."""

from __future__ import annotations

from dataclasses import dataclass

from manyclass.weights.arrays import Doubles
from manyclass.weights.weights import Weights


@dataclass(frozen=True)
class Seen:
    """A model, and how much it has seen.

    Attributes
    ----------
    weights : Weights
        Of all classes, in the order of the labels, those of new classes included. Training moves them in place.
    counts : ndarray of shape (n_classes,), float64
        Points of each class, those of the training to come included: what draws by frequency go by.
    n_points : int
        Points before it. Draws are named by a point's number among all, so that none are made twice.
    predicts_u : bool
        Whether u of the double sum begins near its value at the weights. Otherwise it begins as in a first training,
        which is as good where steps are large; and parts of a stream then give what the whole does.
    carried : Carried or None
        What points carried when they were visited last, instead of a prediction; empty arrays in their first training.
        Training leaves in it what they carry in the end. None: nobody asks.
    """

    weights: Weights
    counts: Doubles
    n_points: int
    predicts_u: bool = False
    carried: Carried | None = None

    def with_weights(self, weights: Weights) -> Seen:
        """The same of other weights, such as those of a part."""
        return Seen(weights, self.counts, self.n_points, self.predicts_u)


@dataclass
class Carried:
    """What points of a linear model carry from pass to pass beside the weights: u of the double sum, or q.

    Attributes
    ----------
    u : ndarray of shape (n_samples,), float64
    local_scale : ndarray of shape (n_samples,), float64, or (0,)
        Of augment and reduce.
    """

    u: Doubles
    local_scale: Doubles
