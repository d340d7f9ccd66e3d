"""Weights of points: checks of `sample_weight`, what `class_weight` makes of it, and the points that are left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import is_number, shown
from manyclass.labels import as_labels, find_positions, join_labels
from manyclass.training.plan import Labels
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Ids, Matrix

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


Numbers = TypeVar("Numbers", bound=NDArray[Any])


def taken(numbers: Numbers | None, rows: NDArray[np.int64] | None) -> Numbers | None:
    """Return the weights, or other numbers, of some points; `rows` None: of all."""
    return numbers if numbers is None or rows is None else cast(Numbers, numbers[rows])


def weights_left(weights: Doubles | None, rows: NDArray[Any], which_do: str) -> Doubles | None:
    """Return the weights of some rows, those that `what`; raises ValueError where all of these are 0."""
    weights_of_rows = None if weights is None else weights[rows]
    if weights_of_rows is not None and not weights_of_rows.any():
        raise ValueError(f"sample_weight is zero for every row that {which_do}; at least one weight must be above 0")
    return weights_of_rows


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


def some_of(weights: Doubles | None, rows: NDArray[np.int64]) -> Doubles | None:
    """Return the weights of some points, with mean 1 among themselves."""
    return normalized(taken(weights, rows))


def shares_of_classes(labels: Ids, n_classes: int, n_rows: int, weights: Doubles | None) -> Doubles:
    """Return the share of the rows that each class has, above 0 and below 1; `weights`, if any, are of the labels."""
    return _core.class_shares(labels, n_classes, n_rows, NO_DOUBLES if weights is None else weights)


def shares_of_labels(labels: Labels, n_classes: int, r: Doubles | None) -> Doubles:
    """Return the classes' shares of rows that have these labels, and weights `r`."""
    row_weights = normalized(r)
    label_weights = None if row_weights is None else np.repeat(row_weights, np.diff(labels.indptr))
    return shares_of_classes(labels.ids, n_classes, len(labels), label_weights)
