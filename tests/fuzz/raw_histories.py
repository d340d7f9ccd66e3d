"""Histories of classifiers of texts and of lists of items, whose rows the model makes itself."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz.classifier_histories import state_of
from fuzz.histories import History, assert_alike, failing, inside

import manyclass
from manyclass import MarginClassifier, SoftmaxClassifier
from manyclass.datasets import SequenceEncoder, TextVectorizer

WORDS = ("ant", "bee", "cow", "caf\u00e9", "cafe\u0301", "C", "5", "\u65e5\u672c", "x" * 300)
WORDS += ("\u0928\u092e\u0938\u094d\u0924\u0947",)
WRONG = (None, 3, ["a", 1], float("nan"), b"ant", [["a"]], "\ud800")
MODELS = (SoftmaxClassifier(max_iter=2), SoftmaxClassifier(model="pairs", max_iter=2), MarginClassifier(max_iter=2))
VECTORIZERS = (
    TextVectorizer(),
    TextVectorizer(max_n=2),
    TextVectorizer(analyzer="char_wb", max_n=3),
    TextVectorizer(n_hash=64),
    TextVectorizer(min_df=2),
)


class RawHistory(History):
    """A classifier of texts or of histories."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = copy.deepcopy(self.one(MODELS)).set_params(random_state=int(self.rng.integers(99)))
        self.texts = self.rng.random() < 0.6
        self.vectorizer = copy.deepcopy(self.one(VECTORIZERS) if self.texts else SequenceEncoder())

    def __str__(self) -> str:
        return f"{type(self.model).__name__} of {self.vectorizer}"

    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""
        return {self.fits: 2, self.goes_on: 3, self.is_saved: 2, self.is_pickled: 1, self.answers: 4, self.is_wrong: 3}

    @property
    def fitted(self) -> bool:
        """Whether there is a model."""
        return bool(self.model.__sklearn_is_fitted__())

    def rows(self, n: int) -> list[Any]:
        """Texts, some of them empty or without a word, or lists of items, some of them short."""
        if not self.texts:
            return [[int(item) for item in self.rng.integers(0, 9, self.rng.integers(0, 6))] for _ in range(n)]
        return [" ".join(self.one(WORDS) for _ in range(int(self.rng.integers(0, 5)))) for _ in range(n)]

    def labels(self, n: int) -> Any:
        """Labels, some in two forms of Unicode; None of histories, whose items they are."""
        return [self.one(("a", "b", "caf\u00e9", "cafe\u0301")) for _ in range(n)] if self.texts else None

    def data(self) -> tuple[Any, Any]:
        """Rows and labels."""
        n = int(self.rng.integers(12, 40))
        return self.rows(n), self.labels(n)

    def fits(self) -> None:
        """Fit, now and then twice, which gives the same model."""
        X, y = self.data()
        twin = copy.deepcopy(self.model)
        if self.refused(lambda: self.model.fit(X, y, vectorizer=self.vectorizer), on=self.model):
            return
        if self.rng.random() < 0.3:
            assert_alike(state_of(twin.fit(X, y, vectorizer=self.vectorizer)), state_of(self.model))

    def goes_on(self) -> None:
        """Train on, by one call or by parts, which may fail."""
        X, y = self.data()
        if self.rng.random() < 0.3 and y is not None:
            parts = [(X[:6], y[:6]), (X[6:], y[6:])]
            self.error_of(lambda: self.model.partial_fit(failing(parts) if self.rng.random() < 0.5 else parts))
        else:
            self.refused(lambda: self.model.partial_fit(X, y), on=self.model)

    def is_saved(self) -> None:
        """Save and load; what was loaded answers as the model, and learns on as it does."""
        path = self.folder / "model"
        if self.refused(lambda: self.model.save(path), on=self.model, must=not self.fitted):
            return
        loaded, X = manyclass.load(path), self.rows(5)
        np.testing.assert_array_equal(loaded.decision_function(X), self.model.decision_function(X))
        if self.rng.random() < 0.5:
            self.model = loaded

    def is_pickled(self) -> None:
        """Pickle it; the other one is the model from then on."""
        other = pickle.loads(pickle.dumps(self.model))
        assert_alike(inside(other), inside(self.model))
        self.model = other

    def answers(self) -> None:
        """Ask; answers are numbers, and the model stays as it is."""
        if not self.fitted:
            return
        before, X = copy.deepcopy(state_of(self.model)), self.rows(int(self.rng.integers(1, 6)))
        labels, scores = self.model.predict_top_k(X, 2)
        assert np.isin(labels, self.model.classes_).all()
        assert np.isfinite(scores).all()
        if hasattr(self.model, "predict_proba"):
            np.testing.assert_allclose(self.model.predict_proba(X).sum(axis=1), 1, atol=1e-6)
        if self.texts:
            assert 0 <= self.model.score(X, self.labels(len(X))) <= 1
        self.model.predict_top_k(X, 1, exclude=[[self.one(("cafe\u0301", "a"))] if self.texts else [3]] * len(X))
        assert_alike(state_of(self.model), before)

    def is_wrong(self) -> None:
        """Train on or ask with rows that are none, or labels that are missing."""
        X, y = self.data()
        X = list(X)
        X[int(self.rng.integers(len(X)))] = self.one(WRONG)
        call = self.one((self.model.fit, self.model.partial_fit))
        how = {"vectorizer": self.vectorizer} if call == self.model.fit else {}
        self.refused(lambda: call(X, y, **how), on=self.model)
        if self.fitted:
            self.refused(lambda: self.model.predict(X), on=self.model)
        if y is not None:
            self.refused(lambda: call(self.rows(len(y)), [None, *y[1:]], **how), on=self.model, must=True)

    def check(self) -> None:
        """Counts are numbers."""
        if self.fitted:
            assert np.isfinite(self.model.class_count_).all()
