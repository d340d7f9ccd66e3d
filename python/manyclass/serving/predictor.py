"""A model that answers queries of several threads at once."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.checks import check_number
from manyclass.datasets import l2_normalize
from manyclass.estimators.index import build_index
from manyclass.serving.limits import Limits
from manyclass.serving.requests import Asked, Query, answer


class Predictor:
    """A loaded model, and what may be asked of it.

    Predictions of a fitted model write to nothing that threads share, but for the index of `approximate`, which is
    built and tuned here, before the first request: later searches read it.

    Parameters
    ----------
    model : fitted classifier
        Its `n_jobs` is the number of threads of each request.
    limits : Limits
    k : int
        Labels of a row where a request does not say; all of them where the model has fewer.
    normalize : bool, default=False
        Whether rows are divided by their Euclidean norm, as they were in the fit.
    """

    def __init__(self, model: Any, limits: Limits, k: int, *, normalize: bool = False) -> None:
        check_number("k", k, low=1, high=limits.max_k, integer=True)
        self._model = copy.copy(model)
        vars(self._model).pop("feature_names_in_", None)  # rows of requests have no names to compare with them
        self._vectorizer: Any = getattr(model, "vectorizer_", None)
        self._normalize = normalize
        self._recall = 0.0
        self.has_probabilities = hasattr(model, "predict_proba")
        n_classes = len(model.classes_)
        self.asked = Asked(
            int(model.n_features_in_),
            model.classes_,
            self._vectorizer is not None,
            min(k, n_classes),
            min(limits.max_k, n_classes),
            limits.max_rows,
        )
        self._warm_up()

    def _warm_up(self) -> None:
        """Compute once what a model makes at its first prediction, before threads ask for it."""
        empty = np.zeros((1, self.asked.n_features), dtype=np.float32)
        self.predict(Query([""] if self.asked.texts else sp.csr_array(empty), 1, None, False))

    def build_index(self, X: Any, recall: float) -> None:
        """Build the index of approximate answers, and tune it by rows that are like those to come.

        Raises
        ------
        ValueError
            If there is no use for one, or there are too few rows.
        """
        build_index(self._model, X, self.asked.k, recall)
        self._recall = recall
        self.asked = replace(self.asked, approximate=True)

    def predict(self, query: Query) -> bytes:
        """Return the answer to a query as JSON."""
        k, how = query.k, {}
        if query.approximate:
            k, how = self.asked.k, {"approximate": True, "recall": self._recall}
        labels, scores = self._model.predict_top_k(self._features(query.X), k, **how, exclude=query.exclude)
        labels, scores = labels[:, : query.k], scores[:, : query.k]
        return answer(labels, scores, probabilities=self.has_probabilities)

    def _features(self, X: Any) -> Any:
        if isinstance(X, list):
            X = self._vectorizer.transform(X)
        if not self._normalize:
            return X
        if isinstance(X, sp.csr_array):
            return l2_normalize(X)
        lengths = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
        return (X / np.where(lengths > 0, lengths, 1)).astype(np.float32)
