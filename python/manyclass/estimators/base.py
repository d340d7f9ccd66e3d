"""What every linear categorical classifier shares: checks of X and y, predictions, evaluation, saving."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from manyclass.brief import brief_requests, get_named, get_routing
from manyclass.checks import (
    check_choice,
    check_number,
    n_threads_from,
    outer_level,
    seed_from,
    set_named,
    validated_data,
)
from manyclass.estimators.calibration import Calibration
from manyclass.estimators.compress import compress
from manyclass.estimators.exclusion import Best, Exclude, best_but, excluded, labels_at
from manyclass.estimators.few_rows import best_of_copy, copied
from manyclass.estimators.files import save_model
from manyclass.estimators.hashed import as_matrix, as_rows, hashed, some_rows, validated
from manyclass.estimators.history import Features, History
from manyclass.estimators.targets import (
    check_targets,
    find_positions,
    positions_of,
    sorted_classes,
    unseen_error,
)
from manyclass.estimators.weighting import (
    ClassWeight,
    checked_weights,
    counting,
    mean_of,
    normalized,
    raw_weights,
    some_of,
    taken,
    times_class_weight,
    weights_left,
)
from manyclass.model.coded import stored
from manyclass.model.hashing import FeatureHash
from manyclass.model.kinds import Weights
from manyclass.model.weights import Data, Doubles, Floats, Ids, Matrix
from manyclass.search import class_index
from manyclass.training.passes import summarize
from manyclass.training.plan import Labels
from manyclass.training.squares import Squares, read_squares, saved_squares

Unseen = Literal["drop", "error"]


@dataclass(frozen=True)
class Points:
    """The checked data of a fit.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features), float32
    labels : Labels
        Positions among `classes`.
    classes : ndarray of shape (n_classes,)
    features : Features
    several : bool
        Whether y was an indicator matrix, and
    sparse_labels : bool
        a sparse one.
    weights : ndarray of shape (n_samples,), float64, or None
        Of the points, positive with mean 1, or as they are in a part of a stream; None where all are equal.
    rows : ndarray of int or None
        Which rows of X the points are; None: all.
    mean_weight : float
        What the weights were divided by.
    n_given : int
        Rows of X.
    hashing : FeatureHash or None
        What x was hashed by.
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

    def some(self, rows: NDArray[np.int64]) -> Points:
        """Return some of the points."""
        lists = sp.csr_array((np.ones(len(self.labels.ids)), self.labels.ids, self.labels.indptr))[rows]
        return replace(
            self,
            x=self.x[rows],
            labels=Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32)),
            weights=some_of(self.weights, rows),
            rows=rows if self.rows is None else self.rows[rows],
        )


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """A fitted W with its classes: all that does not depend on how W was found, under the softmax.

    A subclass has `fit`, which gives what it found to `_take`.
    """

    __metadata_request__score: ClassVar = {"unseen": UNUSED}  # the same for all rows

    class_weight: ClassWeight
    n_jobs: int | None
    random_state: Any
    classes_: NDArray[Any]
    loss_curve_: Doubles
    n_iter_: int
    calibration_: Calibration | None
    class_count_: Doubles
    _history: History
    _squares: Squares | None
    _weights: Weights
    _hashing: FeatureHash | None = None  # of the features, where W would not fit into memory

    compress = compress
    set_params = set_named
    get_params = get_named
    get_metadata_routing = get_routing

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Say of each method that scikit-learn makes here what it does in a line."""
        super().__init_subclass__(**kwargs)
        brief_requests(cls)

    def _points(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, known: NDArray[Any] | None = None
    ) -> Points:
        """Check the data of a fit, and leave the estimator as it is; raises ValueError for what `fit` documents.

        Rows of weight 0 are left out as if they had not been given, with the labels that no other row has. With classes
        that are `known` before, the data are a part of a stream: weights stay as they are.
        """
        check_targets(y, several=False)
        shadow, reset = self._checked_on(known)
        X, y = validated_data(shadow, X, y, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        with warnings.catch_warnings():  # scikit-learn takes many classes for a regression
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
            check_classification_targets(y)
        n_given: int = np.shape(X)[0]
        weights = raw_weights(sample_weight, n_given)
        rows = counting(weights)
        y, weights = (y if rows is None else y[rows]), taken(weights, rows)
        classes, labels = sorted_classes(y, known)
        weights = times_class_weight(weights, self.class_weight, labels, classes)
        left = counting(weights)
        if left is not None:  # a class of weight 0 has no rows left
            rows, weights = left if rows is None else rows[left], taken(weights, left)
            classes, labels = sorted_classes(classes[labels[left]], known)
        if len(classes) < 2:
            where = "" if rows is None else " in rows whose weight is above 0"
            raise ValueError(f"y has one class, {classes[0]!r}{where}; at least two classes are needed")
        x, features, hashing = hashed(self, as_matrix(X), shadow, known)
        return Points(
            x if rows is None else x[rows],
            Labels.single(labels.astype(np.int32)),
            classes,
            features,
            weights=normalized(weights) if known is None else weights,
            rows=rows,
            mean_weight=mean_of(weights),
            n_given=n_given,
            hashing=hashing,
        )

    def _checked_on(self, known: NDArray[Any] | None) -> tuple[Any, bool]:
        """What scikit-learn's check notes the number of features and their names on, or compares them with."""
        fitted = known is not None and hasattr(self, "_weights") and self._hashing is None
        return (self, False) if fitted else (clone(self), True)

    def _take(self, points: Points, weights: Weights, curve: list[float], **more: Any) -> None:
        """Take over all that a fit has found, at once: one that fails leaves the model as it was."""
        state = {
            "classes_": points.classes,
            "n_features_in_": points.features.n,
            "feature_names_in_": points.features.names,
            "loss_curve_": np.array(curve),
            "n_iter_": len(curve),
            "_weights": weights,
            "calibration_": None,
            "class_count_": np.bincount(points.labels.ids, minlength=len(points.classes)).astype(np.float64),
            "_history": History.of_fit(len(points.labels), n_labels=points.labels.mean),
            "_squares": None,
            "_hashing": points.hashing,
            **more,
        }
        self.__dict__.update(state)
        if points.features.names is None:
            del self.__dict__["feature_names_in_"]

    @property
    def coef_(self) -> Any:
        """Weights, (n_classes, n_features), float32; a view, of a sparse model a `scipy.sparse.csc_array`."""
        check_is_fitted(self, "_weights")
        return self._weights.coef

    @property
    def intercept_(self) -> Floats:
        """Intercepts, (n_classes,), float32."""
        check_is_fitted(self, "_weights")
        return self._weights.intercept

    def _validated(self, X: Data) -> Matrix:
        check_is_fitted(self, "_weights")
        return validated(self, as_rows(X))

    def decision_function(self, X: Data) -> Floats:
        """Return the scores x.w_k + b_k, (n_samples, n_classes), float32; of two classes the difference, a 1d array."""
        x = self._validated(X)
        scores = self._weights.scores(x, n_threads_from(self.n_jobs))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    # What depends on the distribution of a label given its scores; a subclass replaces it. Classes rank by their scores
    # under every independent, identically distributed noise.

    def _log_probabilities(self, x: Matrix) -> Doubles:
        """Log-probabilities of all classes."""
        z = self._weights.scores(x, n_threads_from(self.n_jobs)).astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        return z

    def _log_losses(self, x: Matrix, labels: Ids, factor: float = 1.0) -> tuple[Doubles, Ids]:
        """Log-loss of each point, and the rank of its label (0: predicted), of scores times a factor."""
        weights, scale = self._weights.scaled(factor)
        return weights.log_losses(x, labels, n_threads_from(self.n_jobs), scale)

    def _top_k(self, x: Matrix, k: int) -> tuple[Ids, Floats]:
        """Positions and log-probabilities of the k best classes of each point, best first."""
        return self._weights.top_k(x, k, n_threads_from(self.n_jobs))

    def _stated(self, log_p: Any) -> Any:
        """What is told of log-probabilities of the softmax."""
        return log_p

    def predict_log_proba(self, X: Data) -> Doubles:
        """Return the log-probabilities of all classes, (n_samples, n_classes), float64, in nats."""
        stated: Doubles = self._stated(self._log_probabilities(self._validated(X)))
        return stated

    def predict_proba(self, X: Data) -> Doubles:
        """Return probabilities, (n_samples, n_classes), float64; rows sum to one, but of several calibrated labels."""
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: Data) -> NDArray[Any]:
        """Return the most probable label of each point; of equals, the first in `classes_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), with the dtype of `classes_`
        """
        x = self._validated(X)
        best, _ = self._top_k(x, 1)
        labels: NDArray[Any] = self.classes_[best[:, 0]]
        return labels

    @overload
    def predict_top_k(
        self,
        X: Data,
        k: int,
        *,
        exclude: Exclude = ...,
        approximate: bool = ...,
        recall: float = ...,
        return_std: Literal[False] = ...,
    ) -> tuple[NDArray[Any], Floats]: ...

    @overload
    def predict_top_k(
        self,
        X: Data,
        k: int,
        *,
        exclude: Exclude = ...,
        approximate: bool = ...,
        recall: float = ...,
        return_std: Literal[True],
    ) -> tuple[NDArray[Any], Floats, Doubles]: ...

    def predict_top_k(
        self,
        X: Data,
        k: int,
        *,
        exclude: Exclude = None,
        approximate: bool = False,
        recall: float = 0.95,
        return_std: bool = False,
    ) -> tuple[NDArray[Any], Floats] | tuple[NDArray[Any], Floats, Doubles]:
        """Return the k most probable labels of each row, and their log-probabilities, best first.

        Parameters
        ----------
        X, k : {array-like, sparse matrix} of shape (n_samples, n_features), and int in [1, n_classes]
        exclude : lists of labels that rows are not to get, or matrix (n_samples, n_classes), 0 but for these, or None
        approximate, recall, return_std : bool, float in ]0, 1], bool, default=False, 0.95, False
            Search an index for this share of the best where that is faster; `help(manyclass.search.class_index)`.

        Returns
        -------
        labels : ndarray of shape (n_samples, k); missing where exclude leaves fewer: -1, NaN, "", NaT or else None
        log_probabilities, std : float32 like labels, nats, -inf if missing; float64, by rows, how far these may err
        """
        x = self._validated(X)
        check_number("k", k, low=1, high=len(self.classes_), integer=True)
        check_number("recall", recall, low=0, open_low=True, high=1)
        if approximate and self._not_softmax():
            raise ValueError(f"approximate=True needs the probabilities of a softmax; {self._not_softmax()}")
        if approximate and copied(self, x, int(k), float(recall)):

            def best(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
                return best_of_copy(self, some, width)
        elif approximate and self._searches(x, int(k), float(recall)):
            index, n_threads = self._class_index(), n_threads_from(self.n_jobs)

            def best(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
                return index.top_k(self._mapped(some), width, float(recall), n_threads)
        else:

            def best(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
                return *self._top_k(some, width), np.zeros(some.shape[0])

        positions, found, std = self._best(x, int(k), exclude, best)
        labels, log_probabilities = labels_at(self.classes_, positions), self._stated(found).astype(np.float32)
        return (labels, log_probabilities, std) if return_std else (labels, log_probabilities)

    def _best(self, x: Matrix, k: int, exclude: Exclude, best: Best) -> tuple[Ids, Floats, Doubles]:
        """The k best classes of each row, without those that it is not to get."""
        if exclude is None:
            return best(x, k)
        pattern = excluded(exclude, x.shape[0], self.classes_)
        return best_but(x, k, pattern, len(self.classes_), best, in_place=self._draws_by_place())

    def _searches(self, x: Matrix, k: int, recall: float) -> bool:
        """Whether an index is predicted to be faster than scoring all classes; warns of why not."""
        if len(self.classes_) <= class_index.EXACT_CLASSES:
            return False
        made = self._kept_index[1] if self._has_index() else None
        slower = class_index.slower(self._weights, x, made.probes(k, recall) if made else None, recall)
        if slower:
            warnings.warn(f"approximate=True is not followed: {slower}", UserWarning, stacklevel=outer_level())
        return not slower

    def _mapped(self, x: Matrix) -> Matrix:
        """The features that W is multiplied with."""
        return x

    def _not_softmax(self) -> str:
        """Why probabilities are not those of a softmax of the scores, or nothing."""
        return ""

    def _has_index(self) -> bool:
        """Whether there is an index over the weights of the last fit."""
        return getattr(self, "_kept_index", (None,))[0] is self._weights

    def _draws_by_place(self) -> bool:
        """Whether predictions are made of draws that depend on a row's place in X."""
        return False

    def _class_index(self) -> class_index.ClassIndex:
        """Return the index over the weights of the last fit, made at its first use."""
        if not self._has_index():
            n_threads = n_threads_from(self.n_jobs)
            index = class_index.ClassIndex(self._weights, seed_from(self.random_state), n_threads)
            self._kept_index = (self._weights, index)
        return self._kept_index[1]

    def __getstate__(self) -> dict[str, Any]:
        # For copies and joblib: all but the index and the 8-bit copy, which can be made again.
        return {
            name: value for name, value in super().__getstate__().items() if name not in ("_kept_index", "_kept_copy")
        }

    def evaluate(
        self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop"
    ) -> dict[str, float]:
        """Return the exact mean "log_loss" in nats, "error", "top5_error" and "n_unseen", without an (N, K) array.

        Means are weighted by `sample_weight`. Points whose label was not seen in fit are left out and counted, or with
        unseen="error" refused by a ValueError, as is a y of another length than X.
        """
        x = self._validated(X)
        weights = checked_weights(sample_weight, x.shape[0])
        positions, seen = self._seen(y, x, unseen)
        weights = weights_left(weights, seen, "has a label seen in fit")
        found = summarize(*self._log_losses(some_rows(x, seen), positions), weights)
        return {**found, "n_unseen": x.shape[0] - len(seen)}

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop") -> float:
        """Return the accuracy of `predict`, weighted by `sample_weight`; `unseen` as in `evaluate`, with a warning."""
        x = self._validated(X)
        weights = checked_weights(sample_weight, x.shape[0])
        positions, seen = self._seen(y, x, unseen)
        if len(seen) < x.shape[0]:
            warnings.warn(
                f"{x.shape[0] - len(seen)} of {x.shape[0]} points have labels unseen in fit and are left out of the "
                "score; unseen='error' refuses them",
                UserWarning,
                stacklevel=outer_level(),
            )
        weights = weights_left(weights, seen, "has a label seen in fit")
        return float(np.average(self._top_k(some_rows(x, seen), 1)[0][:, 0] == positions, weights=weights))

    def _seen(self, y: Any, x: Matrix, unseen: Unseen) -> tuple[Ids, NDArray[np.intp]]:
        """Positions of the labels seen in fit, and their rows; raises ValueError as `evaluate` does."""
        check_choice("unseen", unseen, ("drop", "error"))
        labels = self._labels_given(y, x)
        positions = find_positions(labels, self.classes_, "y")
        seen = np.flatnonzero(positions >= 0)
        if len(seen) < len(labels) and unseen == "error":
            raise unseen_error(labels, positions, "y")
        if len(seen) == 0:
            raise ValueError("no row has a label that the model has seen")
        return positions[seen], seen

    def _labels_given(self, y: Any, x: Matrix) -> NDArray[Any]:
        check_targets(y, several=False)
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != x.shape[0]:
            raise ValueError(f"X has {x.shape[0]} rows, y has shape {y.shape}; it must be ({x.shape[0]},)")
        labels: NDArray[Any] = y
        return labels

    def _labels_of(self, y: ArrayLike, x: Matrix) -> Ids:
        return positions_of(self._labels_given(y, x), self.classes_, "y")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model for `manyclass.load`, all or nothing; a TypeError for labels that are objects but strings."""
        save_model(self, path)

    def storage(self) -> dict[str, Any]:
        """Return the layout of the "weights", "weight_bytes", "weight_dtype"; "hashed_features" where it hashes."""
        check_is_fitted(self, "_weights")
        found = stored(self._weights)
        return found if self._hashing is None else {**found, "hashed_features": self._hashing.n_rows}

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file holds of the fit beside weights, classes and the loss curve.

        Returns
        -------
        description : dict
            As JSON has it.
        arrays : dict of str to ndarray
            By their names in a file.
        """
        history, arrays = self._history.encoded()
        hashing = {} if self._hashing is None else {"hashing": self._hashing.encoded()}
        description: dict[str, Any] = {"history": history, **hashing}
        if self.calibration_ is not None:
            description["calibration"] = self.calibration_.encoded()
        squares = saved_squares(self._squares, of_pairs=self._history.has_gone_on)
        return description, {"class_count": self.class_count_, **arrays, **squares}

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `_beside_weights` has given; older files lack some of it.

        Parameters
        ----------
        description, arrays : mappings
        """
        self.calibration_ = Calibration.decoded(description.get("calibration"))
        n_rows = self.n_features_in_ if self._hashing is None else self._hashing.n_rows
        self._history = History.decoded(description.get("history", {}), arrays, n_rows)
        self.class_count_ = arrays.get("class_count", np.zeros(len(self.classes_)))
        self._squares = read_squares(arrays)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
