"""The state of a model, which a training gives, and the data that it takes: points, and what it goes on from.

A fit begins a state and trains it, `partial_fit` trains the one that is there, a model file is one written to disk, and
growth, forgetting, calibration and means of several runs are functions from states to states. An estimator holds one
state; whatever fails leaves it with the one before. All of it is frozen.

Points are checked rows with their labels and weights; checks of `sample_weight`, and what `class_weight` makes of it,
come first. A training goes on from weights and from sums that step sizes go by. Adagrad's are sums of squared
gradients. Steps by curvature have a model's online Laplace approximation, see train/curvature.hpp of the core: sums of
squared features and sums of p (1 - p), p being the probabilities of a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import as_csr, check_number, core_data
from manyclass.labels import find_positions
from manyclass.training.plan import GroupIds, Labels, ScoredRows, join_groups
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids, Matrix
from manyclass.weights.hashing import FeatureHash, UsedColumns
from manyclass.weights.weights import FeatureScaling, Weights

# A weight of less than this share of the largest one counts as 0: its logarithm and its product with a step size are
# then far from the smallest double, and its part of the objective is far below a rounding of it.
LEAST_SHARE = 1e-100
# A larger weight is refused. Training takes sums over rows and passes of weights times squares of features, which are
# up to 1e77, and these stay far within double precision.
MOST_WEIGHT = 1e100

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


def checked_weights(sample_weight: ArrayLike | None, n_samples: int) -> Doubles | None:
    """Return weights of points as float64, the largest being 1; None where none are given.

    Parameters
    ----------
    sample_weight : float, array-like of shape (n_samples,) or None
        A number is the weight of each point.
    n_samples : int

    Returns
    -------
    ndarray of shape (n_samples,), float64, or None

    Raises
    ------
    ValueError
        If they are no numbers in [0, 1e100], are none but 0, or have another shape.
    """
    raw = raw_weights(sample_weight, n_samples)
    return None if raw is None else raw / raw.max()


def raw_weights(sample_weight: ArrayLike | None, n_samples: int) -> Doubles | None:
    """Return the weights as `checked_weights` does, but as they were given."""
    if sample_weight is None:
        return None
    raw = np.asarray(sample_weight)
    try:
        weights = None if raw.dtype.kind in "USMmcV" else np.array(raw, dtype=np.float64)
    except (TypeError, ValueError):
        weights = None
    if weights is None:
        raise ValueError(f"sample_weight has dtype {raw.dtype}; it must hold real numbers")
    if weights.ndim == 0:
        weights = np.full(n_samples, weights)
    if weights.shape != (n_samples,):
        raise ValueError(f"X has {n_samples} rows, sample_weight has shape {weights.shape}; it must be ({n_samples},)")
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= MOST_WEIGHT)))
    for i in wrong[:1]:
        raise ValueError(f"sample_weight[{i}] is {weights[i]}; weights must be finite, at least 0, at most 1e100")
    if n_samples and not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one weight must be above 0")
    return weights


def counting(weights: Doubles | None) -> NDArray[np.int64] | None:
    """Return the points with a weight above 0, in order; None where that is all of them."""
    if weights is None:
        return None
    counts = weights > LEAST_SHARE * weights.max(initial=0)
    return None if counts.all() else np.flatnonzero(counts)


def weights_left(weights: Doubles | None, rows: NDArray[Any], which_do: str) -> Doubles | None:
    """Return the weights of some rows, those that `what`; raises ValueError where all of these are 0."""
    weights_of_rows = None if weights is None else weights[rows]
    if weights_of_rows is not None and not weights_of_rows.any():
        raise ValueError(f"sample_weight is zero for every row that {which_do}; at least one weight must be above 0")
    return weights_of_rows


Numbers = TypeVar("Numbers", bound=NDArray[Any])


def taken(numbers: Numbers | None, rows: NDArray[np.int64] | None) -> Numbers | None:
    """Return the weights, or other numbers, of some points; `rows` None: of all."""
    return numbers if numbers is None or rows is None else cast(Numbers, numbers[rows])


def mean_of(weights: Doubles | None) -> float:
    """Return the mean of weights, 1 where there are none; their sum may overflow."""
    if weights is None or not weights.any():
        return 1.0
    return float(weights.max()) * float((weights / weights.max()).mean())


def normalized(weights: Doubles | None) -> Doubles | None:
    """Return the weights with mean 1; None where all are equal, which is as if there were none."""
    if weights is None or len(weights) == 0 or weights.min() == weights.max():
        return None
    scaled: Doubles = weights / weights.max()
    scaled /= scaled.mean()
    return scaled


def one_a_label(x: Matrix, labels: Labels, weights: Doubles | None) -> tuple[Matrix, Ids, Doubles | None, float]:
    """Return rows of several labels as rows of one: each stands there once for each of its labels.

    The sum over a row's labels P of log sum_j e^{z_j} - z_k (Yen et al. 2018, eq. 2) is then a sum over rows of one
    label, so that what is known of these, L-BFGS and the duality gap, holds for several labels as it stands.

    Parameters
    ----------
    x : csr_array or ndarray
    labels : Labels
    weights : ndarray of shape (n_samples,), float64, or None
        With mean 1.

    Returns
    -------
    x : csr_array or ndarray
        Rows of one label.
    labels : ndarray of int
        Their labels.
    weights : ndarray or None
        Their weights, with mean 1.
    n_labels : float
        The mean number of labels of a row, by weight: a mean over the rows before is that many times one over these.
    """
    rows = labels.rows
    repeated = taken(weights, rows)
    total = float(len(rows)) if repeated is None else float(repeated.sum())
    return x[rows], labels.ids, normalized(repeated), total / len(labels)


def shares_of_classes(labels: Labels, n_classes: int, weights: Doubles | None) -> Doubles:
    """Return the share that each class has of rows that have these labels and weights, above 0 and below 1."""
    label_weights = NO_DOUBLES if weights is None else np.repeat(weights, np.diff(labels.indptr))
    return _core.class_shares(labels.ids, n_classes, len(labels), label_weights)


def finite_floats(name: str, array_like: ArrayLike, shape: tuple[int, ...], as_what: str = "") -> Floats:
    """Return numbers in float32; raise ValueError for another shape, or where they are not finite."""
    with np.errstate(over="ignore"):
        array = np.asarray(array_like, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}{as_what}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has entries that are not finite in float32")
    return array


@dataclass(frozen=True)
class Features:
    """How many features a fit saw, and their names where X has some."""

    n: int
    names: NDArray[Any] | None

    @classmethod
    def of(cls, checked: Any) -> Features:
        """Return what scikit-learn's check has noted on an estimator."""
        return cls(int(checked.n_features_in_), getattr(checked, "feature_names_in_", None))

    def wider(self, other: Features) -> Features:
        """Return those that are more, of features that are hashed by their places; a ValueError for other names."""
        if self.names is not None and other.names is not None:
            n = min(self.n, other.n)
            for j in np.flatnonzero(self.names[:n] != other.names[:n])[:1]:
                names = f"feature {j} is {other.names[j]!r}; the model has {self.names[j]!r} there"
                raise ValueError(f"{names}, and hashes features by their places: new ones must come last")
        return other if other.n > self.n else self


@dataclass(frozen=True)
class Points:
    """The checked data of a training.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features), float32
    labels : Labels
        Positions among `classes`.
    classes : ndarray of shape (n_classes,)
    features : Features
    several : bool
        Whether y was an indicator matrix.
    sparse_labels : bool
        Whether it was a sparse one.
    weights : ndarray of shape (n_samples,), float64, or None
        The weights of the points, positive with mean 1, or as they are in a part of a stream; None where all are equal.
    rows : ndarray of int or None
        Which rows of X the points are; None: all.
    mean_weight : float
        What the weights were divided by.
    n_given : int
        Rows of X.
    hashing : FeatureHash, UsedColumns or None
        What x was hashed by, or which columns of X it has.
    column_labels : ndarray of shape (n_features,) or None
        Labels or names of classes that columns may be.
    n_texts : int
        How many points, the last ones, are texts of classes, which tell no scales.
    groups : ndarray of shape (n_samples,), int64, or None
        The number of each point's group: points of one group are held out together.
    """

    x: Matrix
    labels: Labels
    classes: NDArray[Any]
    features: Features
    several: bool = False
    sparse_labels: bool = False
    weights: Doubles | None = None
    rows: NDArray[np.int64] | None = None
    mean_weight: float = 1.0
    n_given: int = 0
    hashing: FeatureHash | UsedColumns | None = None
    column_labels: NDArray[Any] | None = None
    n_texts: int = 0
    groups: GroupIds | None = None

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def feature_squares(self) -> Doubles:
        """Sums of the features' squares, and the number of points, see `Squares.features`: (n_features + 1,)."""
        weights = NO_DOUBLES if self.weights is None else self.weights
        return _core.squares_of_features(core_data(self.x), self.x.shape[1], weights)

    @property
    def n_bytes(self) -> int:
        """Bytes of the values of x, and of the places of sparse ones."""
        if isinstance(self.x, np.ndarray):
            return self.x.nbytes
        return int(self.x.data.nbytes + self.x.indices.nbytes + self.x.indptr.nbytes)

    def some(self, rows: NDArray[np.int64]) -> Points:
        """Return some of the points, with increasing numbers where some are texts of classes."""
        n_texts = int(np.sum(rows >= len(self.labels) - self.n_texts)) if self.n_texts else 0
        beside: dict[str, Any] = {"weights": normalized(taken(self.weights, rows)), "groups": taken(self.groups, rows)}
        beside["rows"] = rows if self.rows is None else self.rows[rows]
        return replace(self, x=self.x[rows], labels=self.labels.of(rows), n_texts=n_texts, **beside)

    def spread(self, most: int) -> Points:
        """Return points up to a number of them, from the first to the last: files may be sorted."""
        n = len(self.labels)
        return self.some(np.linspace(0, n - 1, min(n, most)).astype(np.int64))

    @classmethod
    def joined(cls, parts: tuple[Points, ...]) -> Points:
        """Return the points of several calls, the last of which knows all classes and features."""
        last = parts[-1]
        n_features, classes = last.x.shape[1], last.classes
        ids = [find_positions(part.classes, classes, "y")[part.labels.ids] for part in parts]
        n_labels = np.concatenate([np.diff(part.labels.indptr) for part in parts])
        weights = [np.ones(len(part.labels)) if part.weights is None else part.weights for part in parts]
        has_weights = any(part.weights is not None for part in parts)
        labels = Labels(np.append(0, np.cumsum(n_labels)), np.concatenate(ids).astype(np.int32))
        beside: dict[str, Any] = {"groups": join_groups([part.groups for part in parts]), "rows": None}
        beside |= {"weights": np.concatenate(weights) if has_weights else None, "n_given": len(n_labels)}
        return replace(last, x=_stacked([part.x for part in parts], n_features), labels=labels, **beside)

    def scored(self, n_threads: int) -> ScoredRows:
        """Return them as rows whose scores tell something."""
        return ScoredRows(self.x, self.labels, n_threads, self.weights)

    @classmethod
    def numbered(cls, x: Matrix, labels: Labels, n_classes: int, weights: Doubles | None = None) -> Points:
        """Return points of classes that are numbers."""
        return cls(x, labels, np.arange(n_classes), Features(x.shape[1], None), weights=weights)

    @property
    def as_of_fit(self) -> Points:
        """Return them with weights of mean 1."""
        return replace(self, weights=normalized(self.weights), mean_weight=mean_of(self.weights))


def _stacked(parts: list[Matrix], n_features: int) -> Matrix:
    """Return rows below each other, features that some do not have being 0; sparse ones if some are sparse."""
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts):
        return np.concatenate([np.pad(part, ((0, 0), (0, n_features - part.shape[1]))) for part in dense])
    wide = [as_csr(part) for part in parts]
    wide = [sp.csr_array((x.data, x.indices, x.indptr), shape=(x.shape[0], n_features)) for x in wide]
    return wide[0] if len(wide) == 1 else as_csr(sp.vstack(wide, format="csr"))


# What a training goes on from beside weights

# What is kept in double precision.
DOUBLES = frozenset({"offset", "features", "curvatures", "shrinking", "scales", "precisions"})
ADAGRAD = ("embeddings", "classes", "values", "intercept")  # its sums
SUMS = (*ADAGRAD, "features", "curvatures", "shrinking", "precisions")


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

    # By which the weights of a linear model may be multiplied: see `shrink`.
    factors: ClassVar[Doubles] = np.geomspace(0.1, 1.0, 21)[:-1]

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
        values = self.values.copy() if union is None else union.spread(self.values)
        fields: dict[str, Any] = {"embeddings": self.embeddings.copy(), "values": values}
        for name in ("classes", "intercept", "curvatures"):
            if len(squares := getattr(self, name)):
                fields[name] = np.zeros(n_classes, dtype=squares.dtype)
                fields[name][position] = squares
        return replace(self, **fields)

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
        shapes |= {"shrinking": (2 + 2 * len(Squares.factors),)}
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


# The state

Starts = Mapping[Any, ArrayLike]  # the weights at which new classes begin, by label


def set_new_rows(weights: Weights, classes: NDArray[Any], position: NDArray[np.intp], starts: Starts | None) -> None:
    """Write what classes begin at that are not in `position`.

    Raises
    ------
    ValueError
        If a vector has another shape than rows of weights, or is not finite in float32.
    """
    if starts is None:
        return
    coef: Floats = weights.coef
    new = np.setdiff1d(np.arange(len(classes)), position)
    for k, label in zip(new, classes[new].tolist(), strict=True):
        if label in starts:
            shape = (coef.shape[1],)
            coef[k] = finite_floats(f"new_classes[{label!r}]", starts[label], shape, ", as a row of coef_")


@dataclass(frozen=True)
class History:
    """How much a model has seen.

    Attributes
    ----------
    n_points : int
        Rows that it was trained on, each counted once a call.
    n_counting : float
        What they count now that old ones have faded; without half_life, as many.
    n_fit : int
        The rows of its last `fit`; 0 of a stream that began without one.
    scaling : FeatureScaling or None
        The scaling of the features which training sees, where it scales them.
    n_labels : float
        Labels a row in the first training, by which a hybrid has the loss of its embeddings; 0: unknown.
    """

    n_points: int = 0
    n_fit: int = 0
    n_counting: float = 0.0
    scaling: FeatureScaling | None = None
    n_labels: float = 0.0

    def encoded(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a file holds of it: what JSON has, and arrays; a scale that all features share is a number."""
        numbers = ("n_points", "n_fit", "n_counting", "n_labels")
        described: dict[str, Any] = {name: getattr(self, name) for name in numbers}
        if self.scaling is None:
            return described, {}
        shift, scale = self.scaling.shift, self.scaling.scale
        if not shift.any() and np.all(scale == scale[0]) and np.isfinite(scale[0]):
            return {**described, "scale": float(scale[0])}, {}
        return described, {"scaling.shift": shift, "scaling.scale": scale}

    @classmethod
    def decoded(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int) -> History:
        """Return what `encoded` was; of a file without it, which is an older one, that nothing was seen."""
        n_points = described.get("n_points", 0)
        numbers = {"n_points": n_points, "n_fit": 0, "n_counting": n_points, "n_labels": 0.0}
        numbers |= {name: described[name] for name in numbers if name in described}
        for name, value in numbers.items():
            check_number(name, value, low=0, integer=name in ("n_points", "n_fit"))
        numbers |= {name: float(numbers[name]) for name in ("n_counting", "n_labels")}
        scaling = None
        if "scale" in described:
            check_number("scale", described["scale"], low=0, open_low=True)
            shared = (np.broadcast_to(np.float64(value), n_features) for value in (0.0, described["scale"]))
            scaling = FeatureScaling(*shared)
        elif "scaling.scale" in arrays:
            scaling = FeatureScaling(arrays["scaling.shift"], arrays["scaling.scale"])
        return cls(**numbers, scaling=scaling)

    @classmethod
    def of_fit(cls, n_points: int, scaling: FeatureScaling | None = None, n_labels: float = 0.0) -> History:
        """Return the history of a model after a fit to this number of rows."""
        return cls(n_points, n_points, float(n_points), scaling, n_labels)

    def gone_on(self, n_points: int, scaling: FeatureScaling | None, n_labels: float) -> History:
        """Return the history after a call with more rows; the number of labels is kept from the first training."""
        rows: dict[str, Any] = {"n_points": self.n_points + n_points, "n_counting": self.n_counting + n_points}
        return replace(self, **rows, scaling=scaling, n_labels=self.n_labels or n_labels)


@dataclass(frozen=True)
class FitReport:
    """How a model came to be, beside what it is.

    Attributes
    ----------
    params : mapping of str to object
        What parameters that were left open became.
    rules : mapping of str to str
        The recipe, and what each open parameter became, in words.
    report : list of dict
        A line for each trial.
    alpha_path : mapping of float to float
        Held-out log-losses by ridge.
    rates : mapping of float to float
        Held-out log-losses by learning rate.
    validation_curve : ndarray of shape (n_passes,), float64
        The log-losses on held-out points after each pass, of early stopping.
    best_iter : int
        The pass, from 1, whose weights were kept.
    makes_runs : bool
        Whether the plan made the runs that n_models asks for.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    report: list[dict[str, Any]] = field(default_factory=list)
    alpha_path: Mapping[float, float] = field(default_factory=dict)
    rates: Mapping[float, float] = field(default_factory=dict)
    validation_curve: Doubles = field(default_factory=lambda: np.zeros(0))
    best_iter: int = 0
    makes_runs: bool = False


@dataclass(frozen=True)
class SetRule:
    """Which labels are in the set of a row; see `manyclass.classifiers.label_sets`.

    Attributes
    ----------
    coverage : float
        How probable the right label is in the set.
    penalty : float
        What the score of a label has for each rank beyond the free one.
    free_rank : int
        The last rank without a penalty.
    threshold : float
        The largest score in a set.
    limits : ndarray of shape (n_classes,), float64, or None
        The least log-probability of each class in a set, where that decides and nothing else.
    """

    coverage: float
    penalty: float
    free_rank: int
    threshold: float
    limits: Doubles | None = None

    def __post_init__(self) -> None:
        """Check what a file may have."""
        check_number("coverage", self.coverage, low=0, open_low=True, high=1)
        check_number("penalty", self.penalty, low=0)
        check_number("free_rank", self.free_rank, low=1, integer=True)
        if not self.threshold >= 0:
            raise ValueError(f"threshold is {self.threshold!r}; it must be at least 0")


@dataclass(frozen=True)
class Calibration:
    """How the probabilities of a model were calibrated.

    Attributes
    ----------
    temperature : float
        T, what scores are divided by.
    offset : float
        c, of several labels; else 0.
    n_rows : int
        Held-out rows that it was found on.
    uncalibrated_log_loss : float
        The mean log-loss of these rows, in nats, with T = 1; of several labels the sum over a row's.
    log_loss : float
        That with T.
    """

    temperature: float
    offset: float
    n_rows: int
    uncalibrated_log_loss: float
    log_loss: float

    def log_odds(self, log_p: Any) -> Any:
        """Return log P / (1 - P) of labels that a softmax gives these log-probabilities; float64."""
        return np.asarray(log_p, dtype=np.float64) / self.temperature + self.offset

    def log_probabilities(self, log_p: Any) -> Any:
        """Return log P of the same labels, float64."""
        return -np.logaddexp(0.0, -self.log_odds(log_p))

    def uncalibrated(self, log_p: Any) -> Any:
        """Return the log-probabilities of the softmax of labels with these log P: `log_probabilities` undone."""
        log_p = np.asarray(log_p, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.minimum((log_p - np.log(-np.expm1(log_p)) - self.offset) * self.temperature, 0)

    def limit(self, p: float) -> float:
        """Return the log-probability of the softmax above which P is above `p`, in [0, 1]; infinite at its ends."""
        with np.errstate(divide="ignore"):
            return float((np.log(p) - np.log1p(-p) - self.offset) * self.temperature)

    @classmethod
    def decoded(cls, numbers: Mapping[str, Any] | None) -> Calibration | None:
        """Return the calibration of these numbers, its fields; None for None.

        Raises
        ------
        ValueError
            If the numbers are not those of a calibration: beyond the ends of the search.
        """
        if numbers is None:
            return None
        decoded = cls(**numbers)
        most = _core.most_temperature * (1 + 1e-9)  # the search goes by logarithms
        check_number("calibration's temperature", decoded.temperature, low=1 / most, high=most)
        check_number("calibration's offset", decoded.offset, low=-_core.most_offset, high=_core.most_offset)
        check_number("calibration's n_rows", decoded.n_rows, low=0, integer=True)
        for name in ("uncalibrated_log_loss", "log_loss"):
            check_number(f"calibration's {name}", getattr(decoded, name))  # a rounding below 0, at best
        return decoded


@dataclass(frozen=True)
class State:
    """A model, with all that a training needs to go on from it.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Distinct labels, sorted.
    counts : ndarray of shape (n_classes,), float64
        Rows of each so far, faded where there is a half-life.
    features : Features
    weights : Weights
    history : History
        Rows seen, and the scaling of features that training sees.
    curve : ndarray of shape (n_passes,), float64
        The loss of each pass.
    squares : Squares or None
        Adagrad's sums.
    variances : ndarray or None
        The variances of a Gaussian posterior, stored as its means are.
    hashing : FeatureHash, UsedColumns or None
        The hash of the features, where W would not fit into memory, or the columns that have weights; None: all have.
    calibration : Calibration or None
    several : bool
        Whether rows have several labels.
    sparse_labels : bool
        Whether their indicator matrix was sparse.
    n_labels : int
        The rounded mean number of labels a row.
    threshold : float or None
        The probability, or score, above which labels are predicted; None: `n_labels` are.
    fit_report : FitReport
        What the fit chose and tried.
    encoder : object or None
        What makes rows of raw inputs, such as texts, where the model was fitted on those.
    sets : tuple of SetRule
        Of each coverage that was asked for, which labels are in the set of a row.
    calls : tuple of Points
        The rows of a stream so far, by call, where the model is fitted to them anew as they become more.
    """

    classes: NDArray[Any]
    counts: Doubles
    features: Features
    weights: Weights
    history: History = field(default_factory=History)
    curve: Doubles = field(default_factory=lambda: np.zeros(0))
    squares: Squares | None = None
    variances: Floats | None = None
    hashing: FeatureHash | UsedColumns | None = None
    calibration: Calibration | None = None
    several: bool = False
    sparse_labels: bool = False
    n_labels: int = 1
    threshold: float | None = None
    fit_report: FitReport = field(default_factory=FitReport)
    encoder: Any = None
    sets: tuple[SetRule, ...] = ()
    calls: tuple[Points, ...] = ()

    @property
    def column_labels(self) -> NDArray[Any] | None:
        """Labels or names of classes that columns may be, (n_features,), where columns have any."""
        return self.features.names if self.encoder is None else self.encoder.column_labels

    @classmethod
    def of_fit(
        cls,
        points: Points,
        weights: Weights,
        curve: list[float],
        fit_report: FitReport,
        *,
        scaling: FeatureScaling | None = None,
        **fields: Any,
    ) -> State:
        """Return what a fit to these points has found; `fields` are others of the state, such as `squares`."""
        shared = ("classes", "features", "hashing", "several", "sparse_labels")
        fields |= {name: getattr(points, name) for name in shared}
        counts = np.bincount(points.labels.ids, minlength=points.n_classes).astype(np.float64)
        history = History.of_fit(len(points.labels), scaling, points.labels.mean)
        fields |= {"curve": np.array(curve), "fit_report": fit_report}
        return cls(weights=weights, counts=counts, history=history, **fields)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    def by_column(self, array: Any, axis: int = 1) -> Any:
        """Return an array that has a place for each row of weights along an axis with one for each column of X."""
        columns = self.hashing
        return columns.spread(array, self.features.n, axis) if isinstance(columns, UsedColumns) else array

    def widened(self, n: int) -> State:
        """Return it with n features that have weights, those that are new 0."""
        squares = None if self.squares is None else self.squares.widened(self.weights.n_features, n)
        return replace(self, weights=self.weights.widened(n), squares=squares)

    def with_report(self, **fields: Any) -> State:
        """Return it with other fields of its report."""
        return replace(self, fit_report=replace(self.fit_report, **fields))
