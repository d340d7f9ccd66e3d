"""What a model has learnt before the points of a training that goes on from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from manyclass.training.squares import Squares
from manyclass.weights.arrays import NO_DOUBLES, Doubles
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
    goes_on : bool
        Whether the weights know other points already. Then u of the double sum begins at its exact value or at what the
        visit's own draw makes of it, since these points may never be visited again (train/points/first_u.hpp).
        Otherwise it begins as in a first training, whose later passes mend it.
    squares : Squares or None
        What steps by curvature go by: the features and the curvatures of earlier points. Training adds to the
        curvatures in place. None: steps follow the schedule.
    features : ndarray of shape (n_features + 1,) or (0,), float64
        What the points of the training to come add to the features of `squares` in each pass.
    carried : Carried or None
        What points carried when they were visited last, and go on with; empty arrays in their first training.
        Training leaves in it what they carry in the end. None: nobody asks.
    """

    weights: Weights
    counts: Doubles
    n_points: int
    goes_on: bool = False
    squares: Squares | None = None
    features: Doubles = field(default_factory=lambda: NO_DOUBLES)
    carried: Carried | None = None

    def with_weights(self, weights: Weights) -> Seen:
        """The same of other weights, such as those of a part."""
        return Seen(weights, self.counts, self.n_points, self.goes_on)


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
