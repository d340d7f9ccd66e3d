"""Peers that learn a stream of rows, behind one interface: bench_partial_fit.py and bench_drift.py go through it.

- scikit-learn: SGDClassifier(loss="log_loss"), a binary model a class, whose probabilities are divided by their sum.
- river: SoftmaxRegression, row by row, with a feature that is always 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier


class Peer:
    """What both have of a model: the classes that have come so far, whose probabilities sum to 1."""

    def __init__(self, inner: Any, n_classes: int) -> None:
        self.inner, self.n_classes, self.classes_ = inner, n_classes, np.zeros(0, dtype=int)

    def partial_fit(self, X: Any, y: Any) -> Peer:
        """Learn rows."""
        self.learn(X, y)
        self.classes_ = np.union1d(self.classes_, y)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the classes that have come."""
        p = self.all_probabilities(X)[:, self.classes_] + np.finfo(float).tiny
        return p / p.sum(axis=1, keepdims=True)


class OneVsRest(Peer):
    """scikit-learn's, to which all classes are named ahead."""

    def learn(self, X: Any, y: Any) -> None:
        """Learn rows."""
        self.inner.partial_fit(X, y, classes=np.arange(self.n_classes))

    def all_probabilities(self, X: Any) -> Any:
        """Return probabilities of all classes."""
        return self.inner.predict_proba(X)


class RowByRow(Peer):
    """river's."""

    def learn(self, X: Any, y: Any) -> None:
        """Learn rows."""
        for x, label in zip(features(X), y.tolist(), strict=True):
            self.inner.learn_one(x, label)

    def all_probabilities(self, X: Any) -> Any:
        """Return probabilities of all classes."""
        found = np.zeros((X.shape[0], self.n_classes))
        for row, x in enumerate(features(X)):
            p = self.inner.predict_proba_one(x)
            found[row, list(p)] = list(p.values())
        return found


def features(X: Any) -> Iterator[dict[int, float]]:
    """The values of each row that are not 0, by their feature; feature 0 is the intercept's."""
    X = sp.csr_array(X)
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield {0: 1.0} | dict(zip((X.indices[a:b] + 1).tolist(), X.data[a:b].tolist(), strict=True))


def one_vs_rest(n_classes: int, **given: Any) -> Peer:
    """scikit-learn's model."""
    return OneVsRest(SGDClassifier(loss="log_loss", random_state=0, **given), n_classes)


def river_softmax(n_classes: int, rate: float, power: float = 0.0) -> Peer:
    """river's model, whose step size is rate / (row + 1)^power."""
    from river import linear_model, optim

    steps = optim.SGD(optim.schedulers.InverseScaling(rate, power))
    return RowByRow(linear_model.SoftmaxRegression(optimizer=steps), n_classes)
