"""One weight, common to all classes, for the feature that is the class itself.

Where rows are histories and labels are the next items, feature and label k are the same item, and a history says of its
own items, whichever they are, that they come again more often than others or not at all. A history holds any one item
too rarely for its own weight to learn that; the items' common weight is one number, found on rows left out of training.
"""

from __future__ import annotations

import numpy as np

from manyclass.training.blend import best_addition
from manyclass.training.plan import HybridPlan, Labels
from manyclass.training.state import Points
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

# Nats by which it must better all rows held out together. Twice the gain of a number without use has the chi-squared
# distribution of one degree of freedom, which is above 10 in two of a thousand data sets.
LEAST_GAIN = 5.0


def features_of_classes(plan: HybridPlan, points: Points) -> Ids | None:
    """The feature that is each class itself, -1 where there is none: of its name, or of its number; None: of no class.

    Places of hashed features say nothing.
    """
    classes, n_features = points.classes, points.x.shape[1]
    if not plan.repeats or points.hashing is not None:
        return None
    names = points.features.names
    if names is not None:
        places = {str(name): place for place, name in enumerate(names)}
        return np.array([places.get(str(label), -1) for label in classes], dtype=np.int32)
    if classes.dtype.kind not in "iu":
        return None
    return np.where((classes >= 0) & (classes < n_features), classes, -1).astype(np.int32)


def own_features(own: Ids, n_features: int) -> Weights:
    """Weights of 1 on the pairs of a class and the feature that is the class itself.

    Parameters
    ----------
    own : ndarray of shape (n_classes,), int32
        The feature of each class, -1 where it has none; distinct otherwise.
    n_features : int
    """
    having = np.flatnonzero(own >= 0)
    classes: Ids = having[np.argsort(own[having])].astype(np.int32)
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(own[classes], minlength=n_features), out=indptr[1:])
    return Weights.on_pairs(indptr, classes, np.ones(len(classes), np.float32), np.zeros(len(own), np.float32))


def best_repeats(
    model: Weights, own: Ids, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None
) -> tuple[float, Weights] | None:
    """Return a factor of the scores of a model, and what is added to them then; None where that is no better.

    The common weight and the factor have the least decoupled loss on rows that the model was not trained on.
    """
    pairs = own_features(own, x.shape[1])
    if not len(pairs.classes):
        return None
    factor, weight, gain = best_addition(model, pairs, x, labels, n_threads, sample_weight)
    if not gain > LEAST_GAIN:
        return None
    pairs.multiply_scores(weight)
    return factor, pairs
