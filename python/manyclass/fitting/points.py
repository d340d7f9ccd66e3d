"""The data of a caller, checked and in the types of the core, as points of a training or as rows to predict."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from manyclass import _core
from manyclass.checks import canonical_csr, is_number, is_texts, shown, unconverted_rows, validated_data
from manyclass.datasets.csr import known_ones
from manyclass.datasets.text import TextVectorizer
from manyclass.figures import FIGURES
from manyclass.labels import (
    LabelMatrix,
    Unseen,
    as_labels,
    check_classes,
    check_kind,
    check_targets,
    column_numbers,
    find_positions,
    group_ids,
    holds_lists,
    indicator_lists,
    is_indicator,
    join_labels,
    labels_by_row,
    labels_of_columns,
    labels_to_fit,
    positions_of,
    sorted_classes,
    unseen_error,
)
from manyclass.protocols import ClassText, Encoder, TrainingRows
from manyclass.training.passes import warn_user
from manyclass.training.plan import Labels, can_hold_out_groups
from manyclass.training.state import (
    MOST_WEIGHT,
    ClassWeight,
    Features,
    Points,
    State,
    counting,
    mean_of,
    normalized,
    raw_weights,
    taken,
)
from manyclass.weights.arrays import NO_DOUBLES, Data, Doubles, Matrix
from manyclass.weights.hashing import FeatureHash, UsedColumns
from manyclass.weights.weights import FeatureScaling


class _Noted(BaseEstimator):
    """What scikit-learn's check notes the features of X on, or compares them with."""

    tags: Tags

    def __sklearn_tags__(self) -> Tags:
        return self.tags


@dataclass(frozen=True)
class Caller:
    """Who asks for a check of data: the name of an estimator's class, for messages, and its tags."""

    name: str
    tags: Tags

    def noted(self, features: Features | None = None) -> Any:
        """Return what scikit-learn's check takes for the estimator, with features that are known before."""
        estimator = type(self.name, (_Noted,), {})()
        estimator.tags = self.tags
        if features is not None:
            estimator.n_features_in_ = features.n
            if features.names is not None:
                estimator.feature_names_in_ = features.names
        return estimator


# Raw inputs


def as_numbers(X: Any, encoder: Encoder | None) -> Any:
    """Return X, or the rows that an encoder makes of it where X is raw.

    Raises
    ------
    ValueError
        If X is texts, and there is no encoder that takes them.
    """
    if encoder is not None and encoder.takes(X):
        return encoder.transform(X)
    if not is_texts(X):
        return X
    examples = [X] if isinstance(X, str) else list(X)[:2]
    if encoder is not None and not encoder.takes([""]):
        raise ValueError(
            f"X is {examples!r:.40}, a list of str; it must be a list of histories, which are lists of items"
        )
    raise ValueError(f"X is texts, such as {examples[0]!r:.40}; the model was not fitted on texts")


def encoded(data: TrainingRows, encoder: Any, before: Encoder | None) -> tuple[TrainingRows, Encoder | None]:
    """Return what a fit is to see of its data, and the fitted encoder that makes rows of raw inputs, or None.

    Parameters
    ----------
    data : tuple
        What `fit` was given: X, y, sample_weight and groups. X may be rows that a fitted `SequenceEncoder` has made.
    encoder : Encoder or None
        How raw inputs are to become rows; None: texts by `TextVectorizer()`.
    before : Encoder or None
        The fitted encoder of the model that a warm start goes on with, which is taken.

    Raises
    ------
    ValueError
        If there is an encoder, and X is nothing that it takes.
    """
    X = data[0]
    if encoder is None:
        if before is not None and before.takes(X):
            return encoded_again(data, before)
        if not is_texts(X):
            return data, None
        encoder = TextVectorizer()
    if isinstance(encoder, type) or not hasattr(encoder, "takes"):
        raise TypeError(f"vectorizer is {encoder!r:.60}; it must be an object: TextVectorizer() or SequenceEncoder()")
    if not encoder.takes(X):
        columns = getattr(encoder, "column_labels", None)  # of a fitted one that knows them
        if columns is not None and not isinstance(X, list) and np.shape(X)[1:] == (len(columns),):
            return data, encoder
        kind = "str" if isinstance(encoder, TextVectorizer) else "lists of items"
        raise ValueError(f"X is a {type(X).__name__}; vectorizer is {encoder!r}, for which it must be a list of {kind}")
    fitted_encoder = clone(encoder)
    return fitted_encoder.training_rows(*data, first=True), fitted_encoder


def encoded_with_classes(
    data: TrainingRows, encoder: Encoder | None, class_text: ClassText
) -> tuple[TrainingRows, Encoder | None, int]:
    """Return what `encoded` does, the texts of classes being the last rows, and how many these are.

    Where X is rows, class_text is a pair of labels and rows.

    Raises
    ------
    ValueError or TypeError
        If class_text is neither, or not of the kind of X.
    """
    X, y, sample_weight, groups = data
    check_targets(y)
    if isinstance(class_text, Mapping):
        for label, text in class_text.items():
            if not isinstance(text, str):
                raise TypeError(f"class_text[{label!r}] is a {type(text).__name__}; it must be a str")
        if not is_texts(X):
            raise ValueError(f"class_text has texts, and X is a {type(X).__name__}; it must be labels and rows")
        labels: Any = [*class_text]
        (X, *_), fitted_encoder = encoded(([*X, *class_text.values()], None, None, None), encoder, None)
    elif not isinstance(class_text, tuple) or len(class_text) != 2 or is_texts(X):
        kind = "a mapping of labels to texts" if is_texts(X) else "a pair of labels and rows, as X is no list of str"
        raise TypeError(f"class_text is a {type(class_text).__name__}; it must be {kind}")
    else:
        rows: Any
        labels, rows = class_text
        check_targets(labels, several=False, name="class_text")
        (X, y, sample_weight, groups), fitted_encoder = encoded(data, encoder, None)
        if np.shape(rows) != (np.shape(labels)[0], np.shape(X)[1]):
            shapes = f"{np.shape(labels)[0]} labels and rows of shape {np.shape(rows)}"
            raise ValueError(f"class_text has {shapes}; X has {np.shape(X)[1]} columns")
        X = sp.csr_array(sp.vstack([sp.csr_array(X), sp.csr_array(rows)]))
    n_texts = X.shape[0] - np.shape(y)[0]
    if len(labels) != n_texts:
        raise ValueError(f"X has {X.shape[0] - len(labels)} rows, y has shape {np.shape(y)}; they must be as many")
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        sample_weight = np.append(weights, np.full(n_texts, weights.mean()))
    return (X, _with_labels(y, labels), sample_weight, groups), fitted_encoder, n_texts


def _with_labels(y: Any, labels: Any) -> Any:
    """Return y with the labels of texts of classes behind it: as a column, or as rows of its matrix."""
    if not is_indicator(y):
        check_kind(as_labels(labels), as_labels(y), "class_text")
        return join_labels([as_labels(y), as_labels(labels)])
    columns = as_labels(y.columns) if hasattr(y, "columns") else column_numbers(np.shape(y)[1])
    order = np.argsort(columns)
    positions = find_positions(as_labels(labels), columns[order], "class_text")
    for unknown_label in as_labels(labels)[positions < 0][:1].tolist():
        raise ValueError(f"class_text has {unknown_label!r}, which is no column of y; add a column of zeros")
    ones = (np.ones(len(positions), np.int8), (np.arange(len(positions)), order[positions]))
    more: Any = sp.csr_array(ones, shape=(len(positions), len(columns)))
    if sp.issparse(y):
        parts: list[Any] = [y, more]
        return (
            LabelMatrix.named(sp.vstack(parts), columns)
            if isinstance(y, LabelMatrix)
            else sp.csr_array(sp.vstack(parts))
        )
    joined = np.vstack([y, more.toarray()])
    return type(y)(joined, columns=y.columns) if hasattr(y, "columns") else joined


def encoded_again(data: TrainingRows, encoder: Encoder | None) -> tuple[TrainingRows, Encoder | None]:
    """Return what a training that goes on sees of its data, and the encoder, which may have columns more."""
    if encoder is None or not encoder.takes(data[0]):
        return (as_numbers(data[0], encoder), *data[1:]), encoder
    wider = copy(encoder)
    return wider.training_rows(*data, first=False), wider


# Rows to predict


def checked_rows(noted: Any, X: Any, *, reset: bool) -> Matrix:
    """Return X as scikit-learn's check has it, in the types of the core."""
    rows = validated_data(noted, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
    return canonical_csr(rows) if isinstance(rows, sp.csr_matrix | sp.csr_array) else np.asarray(rows)


def as_rows(X: Data) -> Any:
    """X, or of a sparse row, which is what `X[0]` is of a `csr_array`, the matrix of one row.

    A dense vector is left to scikit-learn's check, which asks whether it is a row or a column.
    """
    rows: Any = X
    return sp.csr_array(rows.reshape(1, -1)) if bool(sp.issparse(rows)) and rows.ndim == 1 else rows


def some_rows(x: Matrix, rows: NDArray[np.intp]) -> Matrix:
    """Sorted rows of x; x itself, which may be large, where they are all of them."""
    return x if len(rows) == x.shape[0] else x[rows]


def rows_of(caller: Caller, state: State, X: Data) -> Matrix:
    """Check rows for predictions by a state, and hash their features where its own are."""
    raw_rows = as_rows(as_numbers(X, state.encoder))
    features, hashing = state.features, state.hashing
    if hashing is None and features.names is None:  # else a warning of names may be due
        rows = unconverted_rows(raw_rows, features.n)
        if rows is not None:
            return rows
    is_hashed = isinstance(hashing, FeatureHash)
    noted = caller.noted(None if is_hashed else features)
    x = checked_rows(noted, raw_rows, reset=is_hashed)
    if is_hashed:
        features.wider(Features.of(noted))  # which compares names
    return x if hashing is None else hashing.apply(x)


# Weights by class


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
            rule = "it must be a finite number of at least 0, at most 1e100"
            raise ValueError(f"class_weight[{label!r}] is {shown(weight)}; {rule}")


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
        If a dict names text where labels are numbers, say, the weights of all points become 0, or one is then above
        1e100.
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
    for i in wrong[:1]:
        raise ValueError(f"class_weight times sample_weight is {product[i]} in row {i}; it must be at most {most:g}")
    if not product.any():
        raise ValueError("class_weight and sample_weight leave all rows with weight zero; at least one must be above 0")
    return product


def _class_weights(class_weight: Mapping[Any, float], classes: NDArray[Any]) -> Doubles:
    named = join_labels([as_labels([label]) for label in class_weight])
    position = find_positions(named, classes, "class_weight")
    weights, known = np.ones(len(classes)), position >= 0
    weights[position[known]] = np.array([*class_weight.values()], dtype=np.float64)[known]
    if not known.all() and len(np.unique(position[known])) < len(classes):  # a slip, a fold, or a part of a stream
        unknown = ", ".join(map(shown, named[~known][:5]))
        reason = f"which y does not have, while other labels have none, such as {shown(classes[0])}"
        warn_user(f"class_weight has a weight for {unknown}, {reason}", UserWarning)
    return weights


# Points of a training


@dataclass(frozen=True)
class Known:
    """What is known before a part of a stream: its rows have to fit this.

    Attributes
    ----------
    classes : ndarray of labels, or None
        Labels that are classes whether y has them or not.
    state : State or None
        The model that goes on.
    hashing : FeatureHash or None
        How the features of a stream that begins are hashed.
    has_others : bool
        Whether other parts, which are elsewhere, may have the classes and the labels that this one lacks.
    """

    classes: NDArray[Any] | None
    state: State | None = None
    hashing: FeatureHash | None = None
    has_others: bool = False


def points_of(
    caller: Caller,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    class_weight: ClassWeight,
    *,
    several: bool,
    known: Known | None = None,
    encoder: Encoder | None = None,
    state: State | None = None,
    all_columns: bool = True,
    most_bytes: float = np.inf,
) -> Points:
    """Check the data of a training.

    Rows of weight 0 are left out as if they had not been given, with the labels that no other row has, and so are rows
    of an indicator matrix without a label. With what is `known` before, the data are a part of a stream: weights stay
    as they are.

    Parameters
    ----------
    caller : Caller
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of labels
    sample_weight : array-like of shape (n_samples,), or None
    class_weight : dict, "balanced" or None
    several : bool
        Whether y may be an indicator matrix.
    known : Known or None
    encoder : Encoder or None
        What has made X.
    state : State or None
        The model that a warm start begins at.
    all_columns : bool, default=True
        Whether each column of X has weights, or only those that rows use where these are few and have no names.
    most_bytes : float, default=inf
        What max_memory allows the columns of y.

    Raises
    ------
    ValueError
        For what `fit` documents.
    """
    check_targets(y, several=several)
    indicator = several and is_indicator(y)
    if indicator:
        check_classes(np.shape(y)[1], most_bytes)
    there = None if known is None else known.classes
    has_names = indicator and hasattr(y, "columns")
    if has_names:
        y, names = by_name(y, there)
    if y is None:
        cure = "histories take vectorizer=SequenceEncoder()"
        raise ValueError(f"{caller.name} requires y to be passed, but the target y is None; {cure}")
    x, features, hashing = _rows_to_train(caller, X, known, state, all_columns)
    n_given: int = x.shape[0]
    y = y if indicator else labels_to_fit(y, n_given)
    weights = raw_weights(sample_weight, n_given)
    labelled, is_part = _several_labels if indicator else _one_label, known is not None and known.has_others
    labels, classes, rows, weights = labelled(y, n_given, weights, class_weight, there, is_part)
    if has_names and there is None:
        classes = names
    return Points(
        x if rows is None else x[rows],
        labels,
        classes,
        features,
        several=indicator,
        sparse_labels=indicator and sp.issparse(y),
        weights=normalized(weights) if known is None else weights,
        rows=rows,
        mean_weight=mean_of(weights),
        n_given=n_given,
        hashing=hashing,
        column_labels=features.names if encoder is None else encoder.column_labels,
    )


def grouped(points: Points, groups: Any, n_rows: int, *, by_user: bool) -> Points:
    """Return points with the numbers of their groups; those behind n_rows, texts of classes, have one each.

    Parameters
    ----------
    points : Points
    groups : array-like of shape (n_rows,), or None
        Labels of any kind.
    n_rows : int
    by_user : bool
        Whether groups are the users of histories, which nobody has given. They are left out if of no use, or long:
        a visit of a shop is over when rows are predicted, what a customer ever took goes on, and its rows tell more.

    Raises
    ------
    ValueError
        If there is not a group for each row, one is missing, or none can be held out.
    """
    if groups is None:
        return points
    ids = group_ids(groups, n_rows)
    with_texts = np.append(ids, n_rows + np.arange(points.n_given - n_rows))
    counting_rows = np.arange(n_rows) if points.rows is None else points.rows[points.rows < n_rows]
    ids_of_rows, labels_of_rows = ids[counting_rows], points.labels.of(np.arange(len(counting_rows)))
    can_hold_out = can_hold_out_groups(labels_of_rows, ids_of_rows)
    if can_hold_out and not (by_user and len(ids_of_rows) >= FIGURES.ROWS_OF_LONG * len(np.unique(ids_of_rows))):
        return replace(points, groups=taken(with_texts, points.rows))
    if by_user:
        return points
    fault = "no two groups that have a class in common"
    if len(set(ids_of_rows)) == 1:
        fault = f"one group, {shown(as_labels(groups)[counting_rows[0]])}"
    raise ValueError(f"groups has {fault}; whole groups are held out: give others, or leave it None")


def _rows_to_train(
    caller: Caller, X: Any, known: Known | None, warm: State | None, all_columns: bool
) -> tuple[Matrix, Features, FeatureHash | UsedColumns | None]:
    """Check rows, and hash their features where those of the model, or of a stream that begins, are.

    Without `all_columns` rows of many have the columns that they use, those of the model first.
    """
    state = None if known is None else known.state
    source = known if state is None else state
    hashing = None if source is None or isinstance(source.hashing, UsedColumns) else source.hashing
    before = None if state is None or hashing is not None else state.features
    noted = caller.noted(before)
    x, features = checked_rows(noted, X, reset=before is None), Features.of(noted)
    if hashing is not None:
        return hashing.apply(x), features if state is None else state.features.wider(features), hashing
    model, columns, (least, times) = state or warm, None, FIGURES.USED_COLUMNS
    if model is not None:
        columns = model.hashing
    elif isinstance(x, sp.csr_array) and x.shape[1] >= max(least, times * x.nnz) and features.names is None:
        columns = None if all_columns else UsedColumns.of(x)
    if not isinstance(columns, UsedColumns):
        return x, features, None
    columns = columns.grown(x)
    return columns.apply(x), features, columns


# Labels of the rows that count, the classes, these rows, if they are not all, and their weights.
_Labelled = tuple[Labels, NDArray[Any], NDArray[np.int64] | None, Doubles | None]


def _one_label(
    y: Any, n_given: int, weights: Doubles | None, class_weight: ClassWeight, known: NDArray[Any] | None, is_part: bool
) -> _Labelled:
    rows = counting(weights)
    y, weights = (y if rows is None else y[rows]), taken(weights, rows)
    classes, labels = sorted_classes(y, known)
    weights = times_class_weight(weights, class_weight, labels, classes)
    counting_rows = counting(weights)
    if counting_rows is not None:  # a class of weight 0 has no rows left
        rows, weights = counting_rows if rows is None else rows[counting_rows], taken(weights, counting_rows)
        classes, labels = sorted_classes(classes[labels[counting_rows]], known)
    if len(classes) < 2 and not is_part:
        where = "" if rows is None else " in rows whose weight is above 0"
        raise ValueError(f"y has one class, {shown(classes[0])}{where}; at least two classes are needed")
    return Labels.single(labels.astype(np.int32)), classes, rows, weights


def _several_labels(
    y: Any, n_given: int, weights: Doubles | None, class_weight: ClassWeight, known: NDArray[Any] | None, is_part: bool
) -> _Labelled:
    if class_weight is not None:
        raise ValueError(f"class_weight is {class_weight!r}, which is for one label a row; leave it None")
    lists = indicator_lists(y, n_given)
    if lists.shape[1] < 2:
        raise ValueError(f"y has {lists.shape[1]} columns; at least two classes are needed")
    has_labels = np.diff(lists.indptr) > 0
    rows = counting(has_labels.astype(np.float64) if weights is None else has_labels * weights)
    if not has_labels.any() and not is_part:
        raise ValueError("y has no label in any row")
    if rows is not None and len(rows) == 0 and not is_part:
        raise ValueError("y has no label in any row whose weight is above 0")
    lists = lists if rows is None else lists[rows]
    labels = Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32))
    return labels, labels_of_columns(lists.shape[1], known), rows, taken(weights, rows)


# Points as a training of linear models of one label a row sees them


def as_stored(x: Matrix, *, sparse: bool) -> Matrix:
    """The rows as the weights' storage needs them: sparse data train feature-major weights, dense data others."""
    if isinstance(x, sp.csr_array):
        return x if sparse else np.ascontiguousarray(x.toarray())
    return sp.csr_array(x) if sparse else x


def scaled_for_call(
    state: State | None, points: Points, *, scales: bool, centre: bool
) -> tuple[Points, FeatureScaling | None]:
    """Return the points as training sees them, scaled as those of the model or, of a first call, by its own rows."""
    x = points.x if state is None else as_stored(points.x, sparse=state.weights.sparse)
    scaling = None if state is None else state.history.scaling
    if scaling is not None:
        scaling = scaling.widened(x, centre=centre, weights=points.weights)
    elif scales:  # a stream begins, or a model of an older file goes on
        scaling = FeatureScaling.of(x, centre=centre, weights=points.weights, first_rows=True)
    return replace(points, x=x if scaling is None else scaling.apply(x)), scaling


def evaluated_rows(caller: Caller, points: Points, encoder: Any, eval_set: Any) -> tuple[Matrix, Labels]:
    """Check rows that early stopping looks at, and return them as training sees them.

    Raises
    ------
    ValueError
        If they do not fit the points, or have a label that none of these has.
    """
    if isinstance(eval_set, list) and len(eval_set) == 1:
        (eval_set,) = eval_set
    is_pair = isinstance(eval_set, tuple | list) and len(eval_set) == 2
    if not is_pair or (isinstance(eval_set[1], tuple) and np.ndim(eval_set[1][0]) == 2):
        raise ValueError(f"eval_set is a {type(eval_set).__name__}; it must be a pair (X, y), one set of rows")
    X, y = eval_set[0], tagged(eval_set[1], points.classes) if points.several else eval_set[1]
    x = checked_rows(caller.noted(points.features), as_rows(as_numbers(X, encoder)), reset=False)
    x = x if points.hashing is None else points.hashing.apply(x)
    x = as_stored(x, sparse=isinstance(points.x, sp.csr_array))
    if not points.several:
        labels = labels_by_row(y, x.shape[0])
        positions = find_positions(labels, points.classes, "y of eval_set")
        rows = np.flatnonzero(positions >= 0)
        if not len(rows):
            raise unseen_error(labels, positions, "y of eval_set")
        if n_unseen := len(labels) - len(rows):
            warn_user(f"{n_unseen} rows of eval_set have labels unseen in fit, and do not count", UserWarning)
        return some_rows(x, rows), Labels.single(positions[rows])
    lists = indicator_lists(by_name(y, points.classes)[0] if hasattr(y, "columns") else y, x.shape[0])
    if lists.shape[1] != points.n_classes:
        raise ValueError(f"y of eval_set has {lists.shape[1]} columns; that of the fit has {points.n_classes}")
    rows = np.flatnonzero(np.diff(lists.indptr) > 0)
    if not len(rows):
        raise ValueError("y of eval_set has no label in any row")
    return some_rows(x, rows), Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32)).of(rows)


# Indicator matrices


def tagged(y: Any, classes: NDArray[Any] | None = None, *, unseen: Unseen = "drop") -> Any:
    """Return lists of labels, or a pair of a matrix and names of its columns, as a `LabelMatrix`; other y as they are.

    Parameters
    ----------
    y : object
    classes : ndarray of shape (n_classes,), or None
        What the columns are to be; None: the labels that there are.
    unseen : {"drop", "error"}
        What becomes of labels that are no classes.
    """
    if isinstance(y, tuple) and len(y) == 2 and len(np.shape(y[0])) == 2 and len(np.shape(y[1])) == 1:
        names, cells = as_labels(y[1]), indicator_lists(y[0], np.shape(y[0])[0])
        if cells.shape[1] != len(names):
            raise ValueError(f"y has {cells.shape[1]} columns, and there are {len(names)} names of them")
        counts, labels = np.diff(cells.indptr), names[cells.indices]
    else:
        rows = y.tolist() if hasattr(y, "dtype") and y.dtype == object and np.ndim(y) == 1 else y
        if not isinstance(rows, list | tuple) or not holds_lists(rows):
            return y
        lists = [as_labels(list(labels)) for labels in rows]
        names = labels = join_labels(lists)
        counts = np.array([*map(len, lists)])
    known = sorted_classes(names, name="y")[0] if classes is None else classes
    positions = (positions_of if unseen == "error" else find_positions)(labels, known, "y")
    return LabelMatrix.named(known_ones(positions, counts, len(known)), known)


def by_name(y: Any, classes: NDArray[Any] | None) -> tuple[Any, NDArray[Any]]:
    """Return a data frame of labels with its columns in the order of classes, and their names in that order.

    Parameters
    ----------
    y : DataFrame of shape (n_samples, n_classes)
    classes : ndarray or None
        The classes of the model. None: the names of the columns become the classes, sorted; a warning says so where
        the columns are in another order.

    Raises
    ------
    ValueError
        If the model's classes have names, and the columns have others.
    """
    names, order = sorted_classes(as_labels(y.columns), name="y.columns")
    in_order = y if sp.issparse(y) else y.iloc[:, np.argsort(order)]
    if classes is None:
        if not np.array_equal(order, np.arange(len(order))):
            order_in_words = f"the first one is {shown(names[0])} instead of {shown(y.columns[0])}"
            warn_user(f"the columns of y are sorted by their names, as classes are: {order_in_words}", UserWarning)
        return in_order, names
    if len(names) == len(classes) and np.array_equal(names, classes):
        return in_order, names
    if classes.dtype.kind in "OU" and names.dtype.kind in "OU":
        other = [name for name in names.tolist() if name not in set(classes.tolist())] or names.tolist()
        raise ValueError(f"y has a column {shown(other[0])}; the columns must be the model's {len(classes)} classes")
    return y, names
