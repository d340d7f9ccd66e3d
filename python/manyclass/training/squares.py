"""What a training goes on from beside weights: sums that step sizes go by, and what each point carries.

Adagrad's are sums of squared gradients. Steps by curvature have a model's online Laplace approximation, see
train/curvature.hpp of the core: sums of squared features and sums of p (1 - p), p being the probabilities of a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats
from manyclass.weights.weights import Weights

# What is kept in double precision.
DOUBLES = frozenset({"offset", "features", "curvatures", "shrinking", "scales", "precisions"})
ADAGRAD = ("embeddings", "classes", "values", "intercept")  # its sums
SUMS = (*ADAGRAD, "features", "curvatures", "shrinking", "precisions")
FACTORS = np.geomspace(0.1, 1.0, 21)[:-1]  # by which the weights of a linear model may be multiplied: see `shrink`


@dataclass(frozen=True)
class Squares:
    """One number for each row over phi, embeddings and classes, and one for each pair; empty where there are none.

    Attributes
    ----------
    embeddings : ndarray of shape (n_features,) or (0,), float32
    classes : ndarray of shape (n_classes,) or (0,), float32
    values : ndarray of shape (n_pairs,) or (0,), float32
    intercept : ndarray of shape (n_classes,) or (0,), float32
        The sums of the intercepts beside pairs.
    offset : float
        What is added to the sums of pairs, by the length of the first rows; 0 where there are none.
    features : ndarray of shape (n_features + 1,) or (0,), float64
        Of a linear model that is trained point by point: sums of the features' squares, and the number of rows.
    curvatures : ndarray of shape (n_classes,) or (0,), float64
        Sums of p (1 - p); none after a `fit`, which does not take them.
    shrinking : ndarray of shape (2 + 2 n_factors,) or (0,), float64
        What rows have told of the size of the weights of a linear model, since it was looked at last: their number, as
        a share of those after which it is, and that of those that told it; by factor how much it made their log-losses
        smaller, summed, and the sum of squares of that.
    scales : ndarray of shape (n,) or (0,), float64
        The scales of the terms of a stream, as its rows tell: see `Scales` in blend.py.
    precisions : ndarray of shape (n,) or (0,), float64
        How well these are known.
    """

    embeddings: Floats = field(default_factory=lambda: NO_FLOATS)
    classes: Floats = field(default_factory=lambda: NO_FLOATS)
    values: Floats = field(default_factory=lambda: NO_FLOATS)
    intercept: Floats = field(default_factory=lambda: NO_FLOATS)
    offset: float = 0.0
    features: Doubles = field(default_factory=lambda: NO_DOUBLES)
    curvatures: Doubles = field(default_factory=lambda: NO_DOUBLES)
    shrinking: Doubles = field(default_factory=lambda: NO_DOUBLES)
    scales: Doubles = field(default_factory=lambda: NO_DOUBLES)
    precisions: Doubles = field(default_factory=lambda: NO_DOUBLES)

    @classmethod
    def of_rows(cls, weights: Weights, adagrad: bool) -> Squares:
        """Return those of rows over phi before the first step; none where the solver is not Adagrad."""
        n_embeddings, n_classes = (len(weights.embeddings), weights.n_classes) if adagrad else (0, 0)
        return cls(np.zeros(n_embeddings, dtype=np.float32), np.zeros(n_classes, dtype=np.float32))

    @classmethod
    def of_pairs(cls, weights: Weights, fit_intercept: bool, offset: float) -> Squares:
        """Return those of pairs, and of their intercepts where these are learned, before the first step."""
        n_intercepts = weights.n_classes if fit_intercept else 0
        values = np.zeros(len(weights.values), dtype=np.float32)
        return cls(values=values, intercept=np.zeros(n_intercepts, dtype=np.float32), offset=offset)

    def beside(self, rows: Squares) -> Squares:
        """Return these, of pairs, and those of rows."""
        return replace(self, embeddings=rows.embeddings, classes=rows.classes)

    def grown(self, n_classes: int, position: NDArray[np.intp], union: _core.PairUnion | None = None) -> Squares:
        """Return a copy with more classes, those of before in `position`, on a union of pairs; what is new is 0."""

        def grown(squares: NDArray[Any]) -> NDArray[Any]:
            more = np.zeros(n_classes if len(squares) else 0, dtype=squares.dtype)
            if len(squares):
                more[position] = squares
            return more

        class_sums: dict[str, Any] = {
            name: grown(getattr(self, name)) for name in ("classes", "intercept", "curvatures")
        }
        values = self.values.copy() if union is None else union.spread(self.values)
        return replace(self, embeddings=self.embeddings.copy(), values=values, **class_sums)

    def of_more_pairs(self, weights: Weights, wider: Weights) -> Squares:
        """Return those of weights that have the pairs of others beside one's own; 0 for these."""
        n_classes, position = weights.n_classes, np.arange(weights.n_classes)
        return self.grown(n_classes, position, weights.new_pairs(n_classes, position, wider.indptr, wider.classes))

    def widened(self, n_before: int, n_features: int) -> Squares:
        """Return those of more features, 0 for new ones, which have no pairs yet."""
        embeddings, features = self.embeddings, self.features
        if len(embeddings):  # of a hidden layer the last one is that of its bias
            embeddings = np.insert(embeddings, n_before, np.zeros(n_features - n_before))
        if len(features):  # the last one is the number of rows
            features = np.insert(features, len(features) - 1, np.zeros(n_features + 1 - len(features)))
        return replace(self, embeddings=embeddings, features=features)

    def times(self, factor: float, names: Iterable[str] = SUMS) -> Squares:
        """Return a copy with these sums, by default all, times a factor."""
        return replace(self, **{name: getattr(self, name) * float(factor) for name in names})

    def of_one_pass(self, n_passes: int) -> Squares:
        """Return a copy with Adagrad's sums as each of some passes has added to them."""
        return self.times(1 / n_passes, ADAGRAD)

    def saved(self) -> dict[str, NDArray[Any]]:
        """Return what a file holds, so that a model that is read learns on as the one that was written."""
        arrays = {in_file: np.atleast_1d(getattr(self, name)) for name, in_file in IN_FILE.items()}
        if not self.offset:
            del arrays["squares.offset"]
        return {in_file: array for in_file, array in arrays.items() if len(array)}


IN_FILE = {sums.name: f"squares.{sums.name}" for sums in fields(Squares)} | {"shrinking": "squares.told"}


def shapes_of_squares(weights: Weights) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return dtypes and shapes of what a file may hold of the squares of a model."""
    shapes = {"classes": (weights.n_classes,), "embeddings": (len(weights.embeddings),)}
    if weights.has_phi or weights.by_minibatches:
        shapes |= dict.fromkeys(("scales", "precisions"), (3 if weights.has_pairs else 1,))
    if weights.is_linear:
        shapes |= {"features": (weights.n_features + 1,), "curvatures": (weights.n_classes,)}
        shapes |= {"shrinking": (2 + 2 * len(FACTORS),)}
    if weights.has_pairs:
        shapes |= {"values": weights.values.shape, "intercept": (weights.n_classes,), "offset": (1,)}
    return {IN_FILE[name]: (np.float64 if name in DOUBLES else np.float32, shape) for name, shape in shapes.items()}


def read_squares(arrays: Mapping[str, NDArray[Any]]) -> Squares | None:
    """Return what `Squares.saved` gave, where it is there."""
    sums: dict[str, Any] = {name: arrays[in_file] for name, in_file in IN_FILE.items() if in_file in arrays}
    if not sums.keys() & {"classes", "offset", "features"}:
        return None
    return Squares(**{**sums, "offset": float(sums["offset"][0])} if "offset" in sums else sums)


@dataclass(frozen=True)
class EarlierModel:
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
        Adagrad's sums, or what steps by curvature go by, the features and the curvatures of earlier points. Training
        adds to the sums and to the curvatures in place. None: Adagrad's begin at 0, other steps follow the schedule.
    features : ndarray of shape (n_features + 1,) or (0,), float64
        What the points of the training to come add to the features of `squares` in each pass.
    local_state : LocalState or None
        What points carried when they were visited last, and go on with; empty arrays in their first training.
        Training leaves in it what they carry in the end. None: nobody asks.
    """

    weights: Weights
    counts: Doubles
    n_points: int
    goes_on: bool = False
    squares: Squares | None = None
    features: Doubles = field(default_factory=lambda: NO_DOUBLES)
    local_state: LocalState | None = None


@dataclass
class LocalState:
    """What points of a linear model carry from pass to pass beside the weights: u of the double sum, or q.

    Attributes
    ----------
    u : ndarray of shape (n_samples,), float64
    local_scale : ndarray of shape (n_samples,), float64, or (0,)
        Of augment and reduce.
    """

    u: Doubles
    local_scale: Doubles
