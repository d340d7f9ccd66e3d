"""What classifiers share that are trained on points with one or several labels, over features or embeddings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED

from manyclass import metrics
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.classifiers.base import LinearClassifier, Unseen
from manyclass.classifiers.data import indicator_lists
from manyclass.classifiers.targets import check_targets
from manyclass.model.coded import CodedWeights
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import mapped_part
from manyclass.model.weights import Data, Doubles, Floats, Ids, Matrix
from manyclass.training.calibration import label_log_losses
from manyclass.training.weighting import checked_weights, weights_left


class LabelClassifier(LinearClassifier):
    """A linear classifier that also takes an indicator matrix of labels, and may have embeddings or a search.

    A subclass has `fit` and a class of planners.
    """

    __metadata_request__predict: ClassVar = {"k": UNUSED, "threshold": UNUSED}  # the same for all rows

    @property
    def multilabel_(self) -> bool:
        """Whether y was an indicator matrix."""
        return self._fitted.several

    @property
    def n_labels_(self) -> int:
        """The mean number of labels a row, rounded."""
        return self._fitted.n_labels

    @property
    def threshold_(self) -> float | None:
        """The probability, or score, that maximised micro-F1 on held-out rows as a threshold.

        None: `n_labels_` labels are predicted.
        """
        return self._fitted.threshold

    @property
    def resolved_params_(self) -> dict[str, Any]:
        """What parameters that were left open became."""
        return dict(self._fitted.told.params)

    @property
    def _scores_are_log_odds(self) -> bool:
        return self._planner.trains_log_odds or self.calibration_ is not None

    def _stated(self, log_p: Any) -> Any:
        state = self._fitted
        if not state.several or state.calibration is None:
            return log_p
        return state.calibration.log_probabilities(log_p)

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
        if not self.multilabel_:
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
        return found if self._fitted.sparse_labels else found.toarray()

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
        if not self.multilabel_:
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
        if not self.multilabel_:
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
        return {"log_loss": self._log_loss(x, lists, weights), **found} if self._planner.trains_log_odds else found

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

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _precisions(lists: sp.csr_array, best: Ids, ks: list[int], weights: Doubles | None) -> Doubles:
    """P@k over weighted rows, for each k."""
    if weights is None:
        return np.atleast_1d(metrics.precision_at_k(lists, best, k=tuple(ks)))
    n, n_classes = lists.shape
    true = np.repeat(np.arange(n, dtype=np.int64), np.diff(lists.indptr)) * n_classes + lists.indices
    right = np.isin(np.arange(n, dtype=np.int64)[:, np.newaxis] * n_classes + best, true)
    return np.array([np.average(right[:, :k].mean(axis=1), weights=weights) for k in ks])


def indicator_of(best: Ids, n_classes: int) -> sp.csr_array:
    """Return the indicator matrix, (n_samples, n_classes), int64, of as many classes for each point."""
    indptr = np.arange(len(best) + 1) * best.shape[1]
    ones = np.ones(best.size, dtype=np.int64)
    return sp.csr_array((ones, np.sort(best, axis=1).ravel(), indptr), shape=(len(best), n_classes))


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
    mapped = mapped_part(model._weights)
    if mapped is not None:
        return mapped.coef
    coef: Any = model.coef_
    if sp.issparse(coef):
        raise ValueError("a sparse model has no vectors of classes; fit it with model='embedding' or 'hybrid'")
    return np.asarray(coef)
