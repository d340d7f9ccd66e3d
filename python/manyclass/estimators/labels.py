"""What classifiers share that are trained on points with one or several labels, over features or embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from manyclass import metrics
from manyclass.checks import canonical_csr, check_choice, check_number, n_threads_from, validated_data
from manyclass.estimators.base import LinearClassifier, Points, Unseen
from manyclass.estimators.calibration import Calibration, label_log_losses
from manyclass.estimators.hashed import as_matrix, hashed
from manyclass.estimators.parameters import decode_parameters, encode_parameters
from manyclass.estimators.targets import BINARIZER, check_targets
from manyclass.estimators.weighting import (
    checked_weights,
    counting,
    normalized,
    raw_weights,
    taken,
    weights_left,
)
from manyclass.model.coded import CodedWeights
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, mapped_part
from manyclass.model.weights import Data, Doubles, Floats, Ids, Matrix
from manyclass.training.plan import Labels

# Rows that `threshold_` is found on: so many, fewer where there are many classes, which takes a part of a pass.
MOST_ROWS, LEAST_ROWS, ROWS_CELLS = 2048, 32, 1 << 24


class LabelClassifier(LinearClassifier):
    """A linear classifier that also takes an indicator matrix of labels, and may have embeddings or a search.

    A subclass has `fit`, which gives what it found to `_take`.
    """

    __metadata_request__predict: ClassVar = {"k": UNUSED, "threshold": UNUSED}  # the same for all rows

    multilabel_: bool
    n_labels_: int
    threshold_: float | None
    resolved_params_: dict[str, Any]

    _trains_log_odds: ClassVar[bool] = True  # that e^z is a probability but for its normaliser

    @property
    def _scores_are_log_odds(self) -> bool:
        return self._trains_log_odds or self.calibration_ is not None

    def _stated(self, log_p: Any) -> Any:
        several = getattr(self, "multilabel_", False) and self.calibration_ is not None
        return self.calibration_.log_probabilities(log_p) if several else log_p  # type: ignore[union-attr]

    def _points(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, known: NDArray[Any] | None = None
    ) -> Points:
        """Check the data of a fit; of an indicator matrix, the points that have labels and a weight above 0."""
        check_targets(y)
        if not is_indicator(y):
            return super()._points(X, y, sample_weight, known)
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight is {self.class_weight!r}, which is for one label a row; with an indicator matrix y "
                "leave it None and give fit a sample_weight"
            )
        shadow, reset = self._checked_on(known)
        X = validated_data(shadow, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        lists = indicator_lists(y, X.shape[0])
        if lists.shape[1] < 2:
            raise ValueError(f"y has {lists.shape[1]} columns; at least two classes are needed")
        weights, has_labels = raw_weights(sample_weight, X.shape[0]), np.diff(lists.indptr) > 0
        rows = counting(has_labels.astype(np.float64) if weights is None else has_labels * weights)
        if not has_labels.any():
            raise ValueError("y has no label in any row")
        if rows is not None and len(rows) == 0:
            raise ValueError("y has no label in any row whose weight is above 0")
        x, features, hashing = hashed(self, as_matrix(X), shadow, known)
        classes = labels_of_columns(lists.shape[1], known)
        if rows is not None:
            x, lists, weights = x[rows], lists[rows], taken(weights, rows)
        labels = Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32))
        return Points(
            x,
            labels,
            classes,
            features,
            several=True,
            sparse_labels=sp.issparse(y),
            weights=normalized(weights) if known is None else weights,
            rows=rows,
            hashing=hashing,
        )

    def _take(self, points: Points, weights: Any, curve: list[float], **more: Any) -> None:
        n_labels = max(1, round(float(np.average(np.diff(points.labels.indptr), weights=points.weights))))
        goes_on, threshold = "class_count_" in more, None
        if goes_on:  # the counts are of all calls
            n_labels = max(1, round(float(more["class_count_"].sum()) / more["_history"].n_counting))
        if goes_on and hasattr(self, "_weights") and len(points.labels) < LEAST_ROWS:  # too few rows to find another
            threshold = self.threshold_
        elif points.several:
            threshold = self._best_threshold(points, weights, n_labels, more.get("calibration_"))
        super()._take(
            points,
            weights,
            curve,
            multilabel_=points.several,
            n_labels_=n_labels,
            threshold_=threshold,
            _sparse_labels=points.sparse_labels,
            **more,
        )

    def _best_threshold(
        self, points: Points, weights: Any, n_labels: int, calibration: Calibration | None
    ) -> float | None:
        """The threshold that gives some of the rows as many labels as they have; None if `n_labels` each fit better."""
        n_threads, n_classes = n_threads_from(self.n_jobs), weights.n_classes
        n_some = min(len(points.labels), MOST_ROWS, max(LEAST_ROWS, ROWS_CELLS // n_classes))
        rows = np.linspace(0, len(points.labels) - 1, n_some).astype(np.intp)
        x, (indptr, ids) = points.x[rows], (points.labels.indptr, points.labels.ids)
        true = {(at, k) for at, row in enumerate(rows) for k in ids[indptr[row] : indptr[row + 1]].tolist()}
        best, values = weights.top_k(x, min(n_classes, 8 * n_labels + 8), n_threads)
        probable = self._trains_log_odds or calibration is not None
        if not probable:
            values = values + weights.log_normalizers(x, n_threads)[:, np.newaxis]
        right = np.array([[(at, k) in true for k in row] for at, row in enumerate(best.tolist())])
        r = np.ones((n_some, 1)) if points.weights is None else points.weights[rows, np.newaxis]
        n_true = float(np.diff(indptr)[rows] @ r[:, 0])  # all counts are of weighted rows
        order = np.argsort(-values, axis=None, kind="stable")
        ordered = values.ravel()[order]
        last = int(np.searchsorted(np.cumsum(np.broadcast_to(r, values.shape).ravel()[order]), n_true))
        if last + 1 >= ordered.size or not np.isfinite(ordered).all():
            return None
        limit = (float(ordered[last]) + float(ordered[last + 1])) / 2
        above = values > limit
        above[:, 0] = True
        # F = 2 |right and found| / (|found| + |true|), over all rows together.
        of_threshold = (r * (right & above)).sum() / ((r * above).sum() + n_true)
        of_count = (r * right[:, :n_labels]).sum() / (n_labels * r.sum() + n_true)
        if of_threshold <= of_count:
            return None
        if not probable:
            return limit
        return float(np.exp(limit if calibration is None else calibration.log_probabilities(limit)))

    def _mapped(self, x: Matrix) -> Matrix:
        mapped = mapped_part(self._weights)
        return x if mapped is None else mapped.transform(x)

    @property
    def embedding_(self) -> Floats:
        """Embeddings of the features, (n_features, dim), float32, a view; AttributeError without them."""
        weights = self._embedded()
        if isinstance(weights, CodedWeights):
            return weights.embedded
        return weights.embeddings[:, : weights.n_hidden]

    def embed(self, X: Data) -> Floats:
        """Return what the embeddings make of the points, (n_samples, dim), float32; AttributeError without them."""
        x = self._validated(X)
        return self._embedded().transform(x)

    def _embedded(self) -> MappedWeights | CodedWeights:
        check_is_fitted(self, "_weights")
        if isinstance(self._weights, CodedWeights) and self._weights.embeddings is not None:
            return self._weights
        mapped = mapped_part(self._weights)
        if mapped is None or not len(mapped.embeddings):
            raise AttributeError("the model has no embeddings; fit it with model='embedding'")
        return mapped

    def predict(self, X: Data, *, k: int | None = None, threshold: float | None = None) -> Any:
        """Return the most probable label of each row, (n_samples,), or of several an indicator matrix, as in fit: the k
        best ones, or those whose probability, which sums to one over classes (or score, where there is none), is above
        `threshold`. With neither: the best one and those above `threshold_`; `n_labels_` ones where that is None."""
        check_is_fitted(self, "_weights")
        if not getattr(self, "multilabel_", False):
            for name, value in (("k", k), ("threshold", threshold)):
                if value is not None:
                    raise ValueError(
                        f"{name} is {value!r}; predict gives one label, as the model was fitted on one a row: "
                        "predict_top_k(X, k) gives the k best ones"
                    )
            return super().predict(X)
        if k is not None and threshold is not None:
            raise ValueError(f"k is {k!r} and threshold is {threshold!r}; at most one of them can be given")
        x = self._validated(X)
        if k is not None:
            check_number("k", k, low=1, high=len(self.classes_), integer=True)
        elif threshold is not None:
            low, high = (0.0, 1.0) if self._scores_are_log_odds else (-np.inf, np.inf)
            check_number("threshold", threshold, low=low, high=high)
        limit = self.threshold_ if threshold is None else threshold
        if k is not None or limit is None:
            k = min(self.n_labels_, len(self.classes_)) if k is None else int(k)
            found = indicator_of(self._top_k(x, k)[0], len(self.classes_))
        else:
            found = self._above(x, float(limit), with_best=threshold is None)
        return found if self._sparse_labels else found.toarray()

    def _above(self, x: Matrix, threshold: float, *, with_best: bool) -> sp.csr_array:
        """The classes of larger probability or score than the threshold and, where asked for, the best one."""
        n_threads = n_threads_from(self.n_jobs)
        limits = np.full(x.shape[0], threshold)
        if self._scores_are_log_odds:
            limits = self._weights.log_normalizers(x, n_threads) + self._log_limit(threshold)
        parts = []
        for first, scores in self._weights.score_tiles(x, n_threads):
            above = scores > limits[first : first + len(scores), np.newaxis]
            if with_best:
                above[np.arange(len(scores)), scores.argmax(axis=1)] = True
            parts.append(sp.csr_array(above, dtype=np.int64))
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def _log_limit(self, threshold: float) -> float:
        """The log-probability of the softmax above which the stated probability is above the threshold."""
        if self.calibration_ is not None:
            return self.calibration_.limit(threshold)
        return float(np.log(threshold)) if threshold > 0 else -np.inf

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop") -> float:
        """Return the accuracy of `predict`; of several labels, the share of rows with exactly the right ones."""
        check_is_fitted(self, "_weights")
        if not getattr(self, "multilabel_", False):
            return super().score(X, y, sample_weight, unseen=unseen)
        check_choice("unseen", unseen, ("drop", "error"))
        found = sp.csr_array(self.predict(X))
        wrong = abs(found - self._lists_of(y, found.shape[0])).sum(axis=1)
        return float(np.average(wrong == 0, weights=checked_weights(sample_weight, found.shape[0])))

    def _lists_of(self, y: Any, n_samples: int) -> sp.csr_array:
        """The labels of points, an indicator matrix of as many columns as there are classes."""
        check_targets(y)
        lists = indicator_lists(y, n_samples)
        if lists.shape[1] != len(self.classes_):
            raise ValueError(f"y has {lists.shape[1]} columns; the model has {len(self.classes_)} classes")
        return lists

    def evaluate(
        self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop"
    ) -> dict[str, float]:
        """Return exact weighted means, "log_loss" (nats), "error", "top5_error"; and "n_unseen", rows whose label was
        not seen in fit, left out or, with unseen="error", refused. Of an indicator matrix, over rows with labels: their
        mean log-loss, "label_log_loss" of all classes (P by `calibration` or else p), and "precision_at_1", 3 and 5."""
        check_choice("unseen", unseen, ("drop", "error"))
        if not getattr(self, "multilabel_", False):
            return super().evaluate(X, y, sample_weight, unseen=unseen)
        x = self._validated(X)
        weights = checked_weights(sample_weight, x.shape[0])
        lists = self._lists_of(y, x.shape[0])
        ks = [k for k in (1, 3, 5) if k <= len(self.classes_)]
        best, _ = self._top_k(x, ks[-1])
        labelled = np.diff(lists.indptr) > 0
        lists = lists[labelled]
        weights = weights_left(weights, labelled, "has labels")
        precisions = _precisions(lists, best[labelled], ks, weights)
        losses = self._label_losses(x[labelled], lists, weights) if self._scores_are_log_odds else {}
        named = {f"precision_at_{k}": float(p) for k, p in zip(ks, precisions, strict=True)}
        return {**losses, "error": 1 - named["precision_at_1"], **named}

    def _label_losses(self, x: Matrix, lists: sp.csr_array, weights: Doubles | None) -> dict[str, float]:
        """The log-losses of several labels."""
        of_rows = label_log_losses(self._weights, x, lists, self.calibration_, n_threads_from(self.n_jobs))
        found = {"label_log_loss": float(np.average(of_rows, weights=weights))}
        return {"log_loss": self._log_loss(x, lists, weights), **found} if self._trains_log_odds else found

    def _log_loss(self, x: Matrix, lists: sp.csr_array, weights: Doubles | None) -> float:
        """Weighted mean over points of the mean over their labels of -log p, in nats."""
        n_threads, total = n_threads_from(self.n_jobs), 0.0
        normalizers = self._weights.log_normalizers(x, n_threads)
        for first, scores in self._weights.score_tiles(x, n_threads):
            own = lists[first : first + len(scores)]
            n_labels = np.diff(own.indptr)
            rows = np.repeat(np.arange(len(scores)), n_labels)
            of_labels = normalizers[first + rows] - scores[rows, own.indices]
            of_labels /= n_labels[rows]
            total += float(np.sum(of_labels if weights is None else of_labels * weights[first + rows]))
        return float(total / (max(1, x.shape[0]) if weights is None else weights.sum()))

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `LinearClassifier`: what a model of several labels, or of a feature map, has, and what was chosen."""
        description, arrays = super()._beside_weights()
        found: dict[str, Any] = {
            name: int(getattr(self, name)) for name in ("multilabel_", "n_labels_", "_sparse_labels")
        }
        found["threshold_"] = self.threshold_
        mapped = mapped_part(self._weights)
        if mapped is not None:
            found["map"] = {name: int(getattr(mapped, name)) for name in ("n_hidden", "intercept_column", "relu")}
        if isinstance(self._weights, HybridWeights):
            found["scales"] = list(map(float, self._weights.scales))
        elif mapped is not None:
            found["scale"] = float(mapped.scale)
        automatic = {"resolved_params_": encode_parameters(self.resolved_params_)}
        return {**description, "labels": found, "automatic": automatic}, arrays

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `LinearClassifier`."""
        super()._take_beside_weights(description, arrays)
        found = description.get("labels", {})
        self.multilabel_ = bool(found.get("multilabel_", False))
        self.n_labels_ = int(found.get("n_labels_", 1))
        threshold = found.get("threshold_")
        self.threshold_ = None if threshold is None else float(threshold)
        self._sparse_labels = bool(found.get("_sparse_labels", False))
        self.resolved_params_ = decode_parameters(description.get("automatic", {}).get("resolved_params_", {}))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def labels_of_columns(n_columns: int, known: NDArray[Any] | None) -> NDArray[Any]:
    """The classes that the columns of an indicator matrix stand for: their numbers, or classes that are known."""
    numbers = np.arange(n_columns)
    if known is None:
        return numbers
    if len(known) > n_columns:
        raise ValueError(f"y has {n_columns} columns; it must have a column for each of {len(known)} classes")
    if len(known) == n_columns:
        return known
    if known.dtype.kind not in "iu" or not np.array_equal(known, numbers[: len(known)]):
        raise ValueError(
            f"y has {n_columns} columns, and {len(known)} classes are known by other names than their numbers; name "
            "the labels of all columns by classes="
        )
    return numbers


def _precisions(lists: sp.csr_array, best: Ids, ks: list[int], weights: Doubles | None) -> Doubles:
    """P@k over weighted rows, for each k."""
    if weights is None:
        return np.atleast_1d(metrics.precision_at_k(lists, best, k=tuple(ks)))
    n, n_classes = lists.shape
    true = np.repeat(np.arange(n, dtype=np.int64), np.diff(lists.indptr)) * n_classes + lists.indices
    right = np.isin(np.arange(n, dtype=np.int64)[:, np.newaxis] * n_classes + best, true)
    return np.array([np.average(right[:, :k].mean(axis=1), weights=weights) for k in ks])


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix of labels rather than a label for each point."""
    if sp.issparse(y):
        return True
    shape = np.asarray(y).shape
    return len(shape) == 2 and shape[1] != 1


def indicator_of(best: Ids, n_classes: int) -> sp.csr_array:
    """Return the indicator matrix, (n_samples, n_classes), int64, of as many classes for each point."""
    indptr = np.arange(len(best) + 1) * best.shape[1]
    ones = np.ones(best.size, dtype=np.int64)
    return sp.csr_array((ones, np.sort(best, axis=1).ravel(), indptr), shape=(len(best), n_classes))


def indicator_lists(y: Any, n_samples: int) -> sp.csr_array:
    """Return an indicator matrix as CSR with sorted, distinct columns and nothing but ones.

    Raises
    ------
    ValueError
        If it has another number of rows, or values other than 0 and 1.
    """
    given: Any = y if sp.issparse(y) else np.asarray(y)
    if given.dtype.kind not in "biufc":
        raise ValueError(f"y has shape {given.shape} and dtype {given.dtype}; {BINARIZER}")
    matrix = sp.csr_array(given)
    if matrix.ndim != 2 or matrix.shape[0] != n_samples:
        raise ValueError(f"X has {n_samples} rows, y has shape {matrix.shape}; it must have as many rows")
    if not np.isin(matrix.data, (0, 1)).all():
        at = int(np.flatnonzero(~np.isin(matrix.data, (0, 1)))[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise ValueError(
            f"y has shape {matrix.shape} and holds {matrix.data[at]:g}; a matrix of labels holds 0 and 1, which row "
            f"{row} does not, and one label for each point is a 1d array; {BINARIZER}"
        )
    matrix = canonical_csr(matrix)
    if not np.isin(matrix.data, (0, 1)).all():
        raise ValueError("y holds an entry more than once; an indicator matrix of labels holds each once")
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def class_vectors(model: LinearClassifier) -> Floats:
    """The vectors that stand for the classes of a fitted model: those beside its embeddings, else the rows of W.

    Parameters
    ----------
    model : fitted classifier

    Returns
    -------
    ndarray of shape (n_classes, dim or n_features), float32

    Raises
    ------
    ValueError
        If the model is sparse: its classes have few weights each, and no vectors to compare.
    """
    check_is_fitted(model, "_weights")
    mapped = mapped_part(model._weights)
    if mapped is not None:
        return mapped.coef
    coef: Any = model.coef_
    if sp.issparse(coef):
        raise ValueError("a sparse model has no vectors of classes; fit it with model='embedding' or 'hybrid'")
    return np.asarray(coef)
