"""What a training takes: points, which are checked rows with their labels and weights.

Checks of `sample_weight`, and what `class_weight` makes of it, come first. All of it is frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import as_csr, core_data, is_number, shown
from manyclass.labels import as_labels, find_positions, join_labels
from manyclass.training.plan import GroupIds, Labels, ScoredRows, join_groups
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Floats, Ids, Matrix
from manyclass.weights.hashing import FeatureHash

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
    if raw.dtype.kind in "USMmcV":
        raise ValueError(f"sample_weight has dtype {raw.dtype}; it must hold real numbers")
    try:
        weights = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"sample_weight has dtype {raw.dtype}; it must hold real numbers") from fault
    if weights.ndim == 0:
        weights = np.full(n_samples, weights)
    if weights.shape != (n_samples,):
        raise ValueError(
            f"X has {n_samples} rows, sample_weight has shape {weights.shape}; it must be a number or have shape "
            f"({n_samples},)"
        )
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= MOST_WEIGHT)))
    if len(wrong):
        raise ValueError(
            f"sample_weight[{wrong[0]}] is {weights[wrong[0]]}; weights must be finite, at least 0 and at most "
            f"{MOST_WEIGHT:g}"
        )
    if n_samples and not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one weight must be above 0")
    return weights


def check_class_weight(class_weight: ClassWeight) -> None:
    """Check the parameter as far as that is possible without data.

    Raises
    ------
    ValueError
        If it is neither None, "balanced" nor a dict of numbers in [0, 1e100].
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight is {class_weight!r}; it must be None, 'balanced' or a dict of a weight for each label"
        )
    for label, weight in class_weight.items():
        if not is_number(weight) or not 0 <= weight <= MOST_WEIGHT or isinstance(weight, bool):
            raise ValueError(
                f"class_weight[{label!r}] is {shown(weight)}; it must be a finite number of at least 0 and at most "
                f"{MOST_WEIGHT:g}"
            )


def times_class_weight(
    weights: Doubles | None, class_weight: ClassWeight, labels: NDArray[Any], classes: NDArray[Any]
) -> Doubles | None:
    """Multiply weights of points by those of their classes.

    Parameters
    ----------
    weights : ndarray of shape (n_samples,), float64, or None
    class_weight : dict, "balanced" or None
        "balanced": n_samples / (n_classes * count) for a class of `count` rows, counted by their weights, as in
        scikit-learn. Classes that a dict does not name have weight 1.
    labels : ndarray of shape (n_samples,)
        Positions in `classes`.
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    ndarray of shape (n_samples,), float64, or None

    Raises
    ------
    ValueError
        If a dict names labels that y does not have while others have no weight, which is a slip, the weights of all
        points become 0, or one is then above 1e100.
    """
    if class_weight is None:
        return weights
    most = MOST_WEIGHT
    if isinstance(class_weight, Mapping):
        class_weights = _class_weights(class_weight, classes)
    else:
        most *= max(1, len(labels))  # the classes' weights all become the same
        r = NO_DOUBLES if weights is None else weights
        class_weights = _core.balanced_weights(labels.astype(np.int32, copy=False), len(classes), r)
    product: Doubles = class_weights[labels] if weights is None else weights * class_weights[labels]
    wrong = np.flatnonzero(product > most)
    if len(wrong):
        raise ValueError(
            f"class_weight times sample_weight is {product[wrong[0]]} in row {wrong[0]}; it must be at most {most:g}"
        )
    if not product.any():
        raise ValueError("class_weight and sample_weight leave all rows with weight zero; at least one must be above 0")
    return product


def _class_weights(class_weight: Mapping[Any, float], classes: NDArray[Any]) -> Doubles:
    labels, named = classes.tolist(), join_labels([as_labels([label]) for label in class_weight])
    try:
        position = find_positions(named, classes, "class_weight")
    except ValueError:  # text for numbers, say
        position = np.full(len(named), -1, dtype=np.int32)
    weights, known = np.ones(len(labels)), position >= 0
    weights[position[known]] = np.array([*class_weight.values()], dtype=np.float64)[known]
    if not known.all() and len(np.unique(position[known])) < len(labels):
        unknown = sorted(repr(label) for label, is_known in zip(class_weight, known, strict=True) if not is_known)
        raise ValueError(
            f"class_weight has a weight for {', '.join(unknown[:5])}, which y does not have, while other labels have "
            f"none; labels of y are {', '.join(map(repr, labels[:5]))}{', ...' if len(labels) > 5 else ''}"
        )
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
    most = 0.0 if weights is None else float(weights.max(initial=0))
    return 1.0 if weights is None or most == 0 else most * float((weights / most).mean())


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
            differ = np.flatnonzero(self.names[:n] != other.names[:n])
            if len(differ):
                j = differ[0]
                raise ValueError(
                    f"feature {j} is {other.names[j]!r}; the model has {self.names[j]!r} there, and its features "
                    "are hashed by their places: new ones must come behind the others"
                )
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
    hashing : FeatureHash or None
        What x was hashed by.
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
    hashing: FeatureHash | None = None
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
        return replace(
            self,
            x=self.x[rows],
            labels=self.labels.of(rows),
            weights=normalized(taken(self.weights, rows)),
            rows=rows if self.rows is None else self.rows[rows],
            n_texts=int(np.sum(rows >= len(self.labels) - self.n_texts)) if self.n_texts else 0,
            groups=taken(self.groups, rows),
        )

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
        return replace(
            last,
            x=_stacked([part.x for part in parts], n_features),
            labels=Labels(np.append(0, np.cumsum(n_labels)), np.concatenate(ids).astype(np.int32)),
            weights=np.concatenate(weights) if has_weights else None,
            rows=None,
            n_given=len(n_labels),
            groups=join_groups([part.groups for part in parts]),
        )

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
