"""What classifiers answer that are trained on points with one or several labels, over features or embeddings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNUSED

from manyclass import _core
from manyclass.blending.calibration import label_log_losses
from manyclass.checks import check_choice, check_number, csr_parts, n_threads_from
from manyclass.classifiers.predictions import Answers
from manyclass.fitting.points import by_name, indicator_lists
from manyclass.labels import Unseen, check_targets
from manyclass.training.state import State
from manyclass.training.weighting import checked_weights, weights_left
from manyclass.weights.arrays import Data, Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights


class LabelAnswers(Answers):
    """The answers of a model whose rows may have several labels."""

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
        return dict(self._fitted.fit_report.params)

    @property
    def embedding_(self) -> Floats:
        """Embeddings of the features, (n_features, dim), float32, a view; AttributeError without them."""
        return _embedded(self._weights).embedding

    def embed(self, X: Data) -> Floats:
        """Return the hidden layer of rows, their summed embeddings, (n_samples, dim), float32, where there is one."""
        state, x = self._asked(X)
        return _embedded(state.weights).transform(x)

    def predict(self, X: Data, *, k: int | None = None, threshold: float | None = None) -> Any:
        """Return the most probable label of each row, (n_samples,). A model of several labels returns an indicator
        matrix: the k best labels; or those whose probability (score, of a model without) is above `threshold`; or, with
        neither, the best label and those above `threshold_`, or `n_labels_` labels where that is None."""
        state, x = self._asked(X)
        if state.several:
            return self._indicator(state, x, k, threshold)
        for name, value in (("k", k), ("threshold", threshold)):
            if value is not None:
                raise ValueError(
                    f"{name} is {value!r}; predict gives one label, as the model was fitted on one a row: "
                    "predict_top_k(X, k) gives the k best ones"
                )
        return self._best_labels(state, x)

    def _indicator(self, state: State, x: Matrix, k: int | None = None, threshold: float | None = None) -> Any:
        """The labels of each row as an indicator matrix, sparse or dense as that of the fit was."""
        if k is not None and threshold is not None:
            raise ValueError(f"k is {k!r} and threshold is {threshold!r}; at most one of them can be given")
        n_classes = len(state.classes)
        if k is not None:
            check_number("k", k, low=1, high=n_classes, integer=True)
        elif threshold is not None:
            low, high = (0.0, 1.0) if self._scores_are_log_odds(state) else (-np.inf, np.inf)
            check_number("threshold", threshold, low=low, high=high)
        limit = state.threshold if threshold is None else threshold
        if k is not None or limit is None:
            k = min(state.n_labels, n_classes) if k is None else int(k)
            indicator = indicator_of(self._best_classes(state, x, k), n_classes)
        else:
            indicator = self._above(state, x, float(limit), with_best=threshold is None)
        return indicator if state.sparse_labels else indicator.toarray()

    def _above(self, state: State, x: Matrix, threshold: float, *, with_best: bool) -> sp.csr_array:
        """The classes of larger probability or score than the threshold and, where asked for, the best one."""
        by_softmax, n_classes = self._scores_are_log_odds(state), state.weights.n_classes
        limit, parts = _log_limit(state, threshold) if by_softmax else threshold, []
        for _, scores in state.weights.score_tiles(x, n_threads_from(self.n_jobs)):
            indptr, ids = _core.labels_above(scores, limit, by_softmax, with_best)
            parts.append(sp.csr_array((np.ones(len(ids), np.int64), ids, indptr), shape=(len(scores), n_classes)))
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop") -> float:
        """Return the accuracy of `predict`; of several labels, the share of rows with exactly the right ones."""
        state, x = self._asked(X)
        if not state.several:
            return self._accuracy(state, x, y, sample_weight, unseen)
        check_choice("unseen", unseen, ("drop", "error"))
        wrong = abs(sp.csr_array(self._indicator(state, x)) - lists_of(state, y, x.shape[0])).sum(axis=1)
        return float(np.average(wrong == 0, weights=checked_weights(sample_weight, x.shape[0])))

    def evaluate(
        self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop"
    ) -> dict[str, float]:
        """Return "log_loss" in nats, "error" and "top5_error", exact means over rows; and "n_unseen", how many rows
        have a label that fit has not seen, which are left out or, with unseen="error", refused. For an indicator
        matrix: the log-loss of a row's labels, "label_log_loss" of all labels as yes or no, "precision_at_1", 3, 5."""
        check_choice("unseen", unseen, ("drop", "error"))
        state, x = self._asked(X)
        log_odds = self._scores_are_log_odds(state)
        if not state.several:
            means = self._evaluated(state, x, y, sample_weight, unseen)
            return means if log_odds else {name: value for name, value in means.items() if name != "log_loss"}
        weights = checked_weights(sample_weight, x.shape[0])
        lists = lists_of(state, y, x.shape[0])
        ks = [k for k in (1, 3, 5) if k <= len(state.classes)]
        best, _ = self._top_k(state, x, ks[-1])
        labelled = np.diff(lists.indptr) > 0
        lists = lists[labelled]
        weights = weights_left(weights, labelled, "has labels")
        precisions = _precisions(lists, best[labelled], ks, weights)
        losses = self._label_losses(state, x[labelled], lists, weights) if log_odds else {}
        named = {f"precision_at_{k}": float(p) for k, p in zip(ks, precisions, strict=True)}
        return {**losses, "error": 1 - named["precision_at_1"], **named}

    def _label_losses(self, state: State, x: Matrix, lists: sp.csr_array, weights: Doubles | None) -> dict[str, float]:
        """The log-losses of several labels."""
        losses_by_row = label_log_losses(state.weights, x, lists, state.calibration, n_threads_from(self.n_jobs))
        label_loss, row_loss = (float(np.average(losses, weights=weights)) for losses in losses_by_row)
        return {**({"log_loss": row_loss} if self._planner.trains_log_odds else {}), "label_log_loss": label_loss}


def _embedded(weights: Weights) -> Weights:
    if not weights.embeddings.size:
        raise AttributeError("the model has no embeddings; fit it with model='embedding'")
    return weights


def _log_limit(state: State, threshold: float) -> float:
    """The log-probability of the softmax above which the probability that is told is above the threshold."""
    if state.calibration is not None:
        return state.calibration.limit(threshold)
    return float(np.log(threshold)) if threshold > 0 else -np.inf


def lists_of(state: State, y: Any, n_samples: int) -> sp.csr_array:
    """The labels of points, an indicator matrix of as many columns as there are classes."""
    check_targets(y)
    if hasattr(y, "columns"):
        y, _ = by_name(y, state.classes)
    lists = indicator_lists(y, n_samples)
    if lists.shape[1] != len(state.classes):
        raise ValueError(f"y has {lists.shape[1]} columns; the model has {len(state.classes)} classes")
    return lists


def _precisions(lists: sp.csr_array, best: Ids, ks: list[int], weights: Doubles | None) -> Doubles:
    """P@k over weighted rows, for each k."""
    indptr, ids, _ = csr_parts(lists)
    right = _core.label_hits(indptr, ids, np.ascontiguousarray(best))
    return np.array([np.average(right[:, :k].mean(axis=1), weights=weights) for k in ks])


def indicator_of(best: Ids, n_classes: int) -> sp.csr_array:
    """Return the indicator matrix, (n_samples, n_classes), int64, of as many classes for each point."""
    indptr = np.arange(len(best) + 1) * best.shape[1]
    ones = np.ones(best.size, dtype=np.int64)
    return sp.csr_array((ones, np.sort(best, axis=1).ravel(), indptr), shape=(len(best), n_classes))


def class_vectors(model: Answers) -> Floats:
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
        If the model has weights on pairs: its classes have few weights each, and no vectors to compare.
    """
    weights = model._weights
    if weights.kind == "pairs":
        raise ValueError("a model of pairs has no vectors of classes; fit it with model='embedding' or 'hybrid'")
    return np.asarray(weights.class_rows if weights.has_phi else weights.coef)
