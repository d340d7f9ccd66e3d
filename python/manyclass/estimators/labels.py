"""What classifiers share that are trained on points with one or several labels, over features or embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from manyclass import metrics
from manyclass.checks import canonical_csr, n_threads_from
from manyclass.estimators.base import Features, LinearClassifier, Points, as_matrix
from manyclass.model.mapped import MappedWeights
from manyclass.model.weights import Data, Floats, Matrix
from manyclass.training.plan import Labels


class LabelClassifier(LinearClassifier):
    """A linear classifier that also takes an indicator matrix of labels, and may have embeddings or a search.

    A subclass has `fit`, which gives what it found to `_take`.
    """

    multilabel_: bool
    n_labels_: int
    _scores_are_log_odds = True  # that e^z is a probability but for its normaliser

    def _points(self, X: Any, y: Any) -> Points:
        """Check the data of a fit; of an indicator matrix, the points that have labels."""
        if not is_indicator(y):
            return super()._points(X, y)
        shadow = clone(self)
        X = validate_data(shadow, X, accept_sparse="csr", dtype=np.float32, order="C")
        lists = indicator_lists(y, X.shape[0])
        if lists.shape[1] < 2:
            raise ValueError(f"y has {lists.shape[1]} columns; at least two classes are needed")
        labelled = np.flatnonzero(np.diff(lists.indptr))
        if len(labelled) == 0:
            raise ValueError("y has no label in any row")
        x, classes = as_matrix(X), np.arange(lists.shape[1])
        if len(labelled) < X.shape[0]:
            x, lists = x[labelled], lists[labelled]
        labels = Labels(lists.indptr.astype(np.int64), lists.indices.astype(np.int32))
        return Points(x, labels, classes, Features.of(shadow), several=True, sparse_labels=sp.issparse(y))

    def _take(self, points: Points, weights: Any, curve: list[float], **more: Any) -> None:
        super()._take(
            points,
            weights,
            curve,
            multilabel_=points.several,
            n_labels_=max(1, round(len(points.labels.ids) / len(points.labels))),
            _sparse_labels=points.sparse_labels,
            **more,
        )

    def _mapped(self, x: Matrix) -> Matrix:
        return self._weights.transform(x) if isinstance(self._weights, MappedWeights) else x

    @property
    def embedding_(self) -> Floats:
        """Embeddings of the features, (n_features, dim), float32; a view.

        Raises
        ------
        AttributeError
            If the model was fitted without embeddings.
        """
        weights = self._embedded()
        return weights.embeddings[:, : weights.n_hidden]

    def embed(self, X: Data) -> Floats:
        """Return the points as the hidden layer has them, of which scores are linear.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, dim), float32

        Raises
        ------
        AttributeError
            If the model was fitted without embeddings.
        """
        x = self._validated(X)
        return self._embedded().transform(x)

    def _embedded(self) -> MappedWeights:
        check_is_fitted(self, "_weights")
        if not isinstance(self._weights, MappedWeights) or not len(self._weights.embeddings):
            raise AttributeError("the model has no embeddings; fit it with model='embedding'")
        return self._weights

    def predict(self, X: Data) -> Any:
        """Return the most probable label of each point; of equals, the first in `classes_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), with the dtype of `classes_`; of a model that was fitted on an indicator matrix,
        an indicator matrix of the `n_labels_` best classes of each point, sparse (CSR) if that one was.
        """
        if not getattr(self, "multilabel_", False):
            return super().predict(X)
        x = self._validated(X)
        best, _ = self._top_k(x, min(self.n_labels_, len(self.classes_)))
        indptr = np.arange(len(best) + 1) * best.shape[1]
        found = sp.csr_array(
            (np.ones(best.size, dtype=np.int64), np.sort(best, axis=1).ravel(), indptr),
            shape=(len(best), len(self.classes_)),
        )
        return found if self._sparse_labels else found.toarray()

    def evaluate(self, X: Data, y: Any) -> dict[str, float]:
        """Evaluate exactly, over all classes, without an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            True labels.

        Returns
        -------
        dict
            As `SoftmaxClassifier.evaluate`; with an indicator matrix, over the rows that have labels, "log_loss": the
            mean over rows of the mean over their labels of minus the log-probability, in nats; "error": share of rows
            whose most probable class is no label; "precision_at_1", "precision_at_3" and "precision_at_5".

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        if not getattr(self, "multilabel_", False):
            return super().evaluate(X, y)
        x = self._validated(X)
        lists = indicator_lists(y, x.shape[0])
        if lists.shape[1] != len(self.classes_):
            raise ValueError(f"y has {lists.shape[1]} columns; the model has {len(self.classes_)} classes")
        ks = [k for k in (1, 3, 5) if k <= len(self.classes_)]
        best, _ = self._top_k(x, ks[-1])
        labelled = np.diff(lists.indptr) > 0
        lists = lists[labelled]
        precisions = np.atleast_1d(metrics.precision_at_k(lists, best[labelled], k=tuple(ks)))
        log_loss = {"log_loss": self._log_loss(x[labelled], lists)} if self._scores_are_log_odds else {}
        named = {f"precision_at_{k}": float(p) for k, p in zip(ks, precisions, strict=True)}
        return {**log_loss, "error": 1 - named["precision_at_1"], **named}

    def _log_loss(self, x: Matrix, lists: sp.csr_array) -> float:
        """Mean over points of the mean over their labels of -log p, in nats."""
        n_threads, total = n_threads_from(self.n_jobs), 0.0
        normalizers = self._weights.log_normalizers(x, n_threads)
        for first, scores in self._weights.score_tiles(x, n_threads):
            own = lists[first : first + len(scores)]
            n_labels = np.diff(own.indptr)
            rows = np.repeat(np.arange(len(scores)), n_labels)
            of_labels = normalizers[first + rows] - scores[rows, own.indices]
            total += float(np.sum(of_labels / n_labels[rows]))
        return float(total / max(1, x.shape[0]))

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """See `LinearClassifier`: what a model of several labels, or of a feature map, has."""
        description, arrays = super()._beside_weights()
        found: dict[str, Any] = {
            name: int(getattr(self, name)) for name in ("multilabel_", "n_labels_", "_sparse_labels")
        }
        weights = self._weights
        if isinstance(weights, MappedWeights):
            found["map"] = {name: int(getattr(weights, name)) for name in ("n_hidden", "intercept_column", "relu")}
        return {**description, "labels": found}, arrays

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """See `LinearClassifier`."""
        super()._take_beside_weights(description, arrays)
        found = description.get("labels", {})
        self.multilabel_ = bool(found.get("multilabel_", False))
        self.n_labels_ = int(found.get("n_labels_", 1))
        self._sparse_labels = bool(found.get("_sparse_labels", False))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix of labels rather than a label for each point."""
    if sp.issparse(y):
        return True
    shape = np.asarray(y).shape
    return len(shape) == 2 and shape[1] != 1


def indicator_lists(y: Any, n_samples: int) -> sp.csr_array:
    """Return an indicator matrix as CSR with sorted, distinct columns and nothing but ones.

    Raises
    ------
    ValueError
        If it has another number of rows, or values other than 0 and 1.
    """
    given: Any = y if sp.issparse(y) else np.asarray(y)
    matrix = sp.csr_array(given)
    if matrix.ndim != 2 or matrix.shape[0] != n_samples:
        raise ValueError(f"X has {n_samples} rows, y has shape {matrix.shape}; it must have as many rows")
    if not np.isin(matrix.data, (0, 1)).all():
        value = matrix.data[~np.isin(matrix.data, (0, 1))][0]
        raise ValueError(
            f"y has shape {matrix.shape} and holds {value:g}; a matrix of labels holds 0 and 1, one label for each "
            "point is a 1d array"
        )
    matrix = canonical_csr(matrix)
    if not np.isin(matrix.data, (0, 1)).all():
        raise ValueError("y holds an entry more than once; an indicator matrix of labels holds each once")
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix
