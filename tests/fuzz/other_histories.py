"""Histories of indexes and of word vectors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz.histories import History, fail, failing
from sklearn.base import clone

from manyclass import DecomposedIndex, SkipGram, SphericalClusterIndex

D = 6  # columns of rows


class IndexHistory(History):
    """An index over rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made = self.one((SphericalClusterIndex, DecomposedIndex))
        given = {"n_blocks": int(self.rng.integers(1, 4))} if self.made is DecomposedIndex else {}
        self.index = self.made(n_clusters=self.one(("auto", 3)), random_state=0, **given)
        self.W = self.draw(int(self.rng.integers(5, 60)))
        self.fitted = False

    def __str__(self) -> str:
        return self.made.__name__

    def draw(self, n: int) -> Any:
        """Rows; of extreme sizes now and then."""
        size = 10.0 ** self.rng.uniform(-3, 15) if self.rng.random() < 0.2 else 1.0
        return (self.rng.normal(size=(n, D)) * size).astype(np.float32)

    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""
        return {self.fits: 1, self.moves: 2, self.is_saved: 1, self.is_pickled: 1, self.asks: 3, self.is_wrong: 1}

    def fits(self) -> None:
        """Fit to new rows."""
        self.W = self.draw(int(self.rng.integers(5, 60)))
        self.index.fit(self.W)
        self.fitted = True

    def moves(self) -> None:
        """Give some rows other values."""
        if not self.fitted:
            return
        ids = self.rng.permutation(len(self.W))[: int(self.rng.integers(1, len(self.W)))]
        rows = self.draw(len(ids))
        self.index.update(ids, rows)
        self.W = self.W.copy()
        self.W[ids] = rows

    def best(self, index: Any, Q: Any) -> tuple[Any, Any]:
        """The best rows, all clusters being searched."""
        return index.query(Q, min(3, len(self.W)), n_probe=index.n_clusters_)

    def asks(self) -> None:
        """Ask for the best rows: scores are those of the rows; nothing changes."""
        if not self.fitted:
            return
        Q = self.draw(4)
        scores, ids = self.best(self.index, Q)
        again = self.best(self.index, Q)
        np.testing.assert_array_equal(ids, again[1])
        exact = Q.astype(float) @ self.W.T.astype(float)
        allowed = 1e-5 * (np.abs(Q).astype(float) @ np.abs(self.W.T).astype(float)).max()
        np.testing.assert_allclose(scores, np.take_along_axis(exact, ids, axis=1), rtol=1e-4, atol=allowed)
        if self.made is SphericalClusterIndex:  # all clusters: the best of all
            np.testing.assert_allclose(
                scores, -np.sort(-exact, axis=1)[:, : scores.shape[1]], rtol=1e-4, atol=allowed, err_msg="best"
            )

    def is_saved(self) -> None:
        """Save and load."""
        path = self.folder / "index"
        if self.refused(lambda: self.index.save(path), on=self.index, must=not self.fitted):
            return
        self.goes_on_as(self.made.load(path))

    def is_pickled(self) -> None:
        """Pickle or copy."""
        other = pickle.loads(pickle.dumps(self.index)) if self.rng.random() < 0.5 else copy.deepcopy(self.index)
        if self.fitted:
            self.goes_on_as(other)

    def goes_on_as(self, other: Any) -> None:
        """Assert that another index answers as this one, before and after an update; it takes its place."""
        Q = self.draw(3)
        for one, two in zip(self.best(other, Q), self.best(self.index, Q), strict=True):
            np.testing.assert_array_equal(one, two)
        ids, rows = np.arange(len(self.W) // 2), self.draw(len(self.W) // 2)
        self.index.update(ids, rows)
        other.update(ids, rows)
        self.W = self.W.copy()
        self.W[ids] = rows
        for one, two in zip(self.best(other, Q), self.best(self.index, Q), strict=True):
            np.testing.assert_array_equal(one, two)
        self.index = other

    def is_wrong(self) -> None:
        """Fit, update and ask with what is no data: answers stay as they were."""
        Q = self.draw(3)
        before = self.best(self.index, Q) if self.fitted else None
        calls: list[Callable[[], Any]] = [
            lambda: self.index.fit(np.full((5, D), np.nan, np.float32)),
            lambda: self.index.fit(np.zeros((0, D), np.float32)),
            lambda: self.index.update([len(self.W)], self.draw(1)),
            lambda: self.index.update([0], np.zeros((1, D + 1), np.float32)),
            lambda: self.index.update([0, 0], self.draw(2)),
            lambda: self.index.update([0], np.full((1, D), np.inf, np.float32)),
            lambda: self.index.query(np.full((1, D), np.nan, np.float32), 1),
            lambda: self.index.query(Q, 0),
            lambda: self.index.query(Q, 10**30),
            lambda: self.index.query(Q[:, :-1], 1),
            lambda: clone(self.index).set_params(n_clusters=0).fit(self.W),
            lambda: clone(self.index).set_params(n_clusters=10**30).fit(self.W),
            lambda: clone(self.index).set_params(random_state=-1).fit(self.W),
        ]
        call = self.one(calls)
        assert self.error_of(call) is not None, f"call {calls.index(call)} was not refused"
        if before is not None:
            for one, two in zip(self.best(self.index, Q), before, strict=True):
                np.testing.assert_array_equal(one, two)

    def check(self) -> None:
        """Nothing beside what steps look at."""


class WordsHistory(History):
    """Word vectors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        objective = self.one(("softmax", "nce", "negative_sampling", "hierarchical", "ove"))
        self.model = SkipGram(4, min_count=1, sample=0, max_iter=2, objective=objective, random_state=1)
        self.fitted = False

    def __str__(self) -> str:
        return f"SkipGram of {self.model.objective}"

    def text(self, n_words: int = 12) -> list[list[str]]:
        """Sentences."""
        lines = self.rng.integers(0, n_words, size=(20, 7))
        return [[f"w{i}" for i in line] for line in lines]

    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""
        ways = {self.fits: 1, self.goes_on: 2, self.fails: 1, self.is_set_wrong: 1, self.is_copied: 1, self.answers: 2}
        return {way: float(n) for way, n in ways.items()}

    def fits(self) -> None:
        """Fit; the step size may be far too large."""
        rate = self.one(("auto", "auto", 0.05, 1.0, 1e6, 1e38))
        self.model.set_params(learning_rate=rate)
        text = self.text()
        twin = clone(self.model)
        if not self.refused(lambda: self.model.fit(text), on=self.model):
            self.fitted = True
            np.testing.assert_array_equal(twin.fit(text).vectors_, self.model.vectors_)

    def goes_on(self) -> None:
        """Train on with words that may be new."""
        text = self.text(15)
        twin = copy.deepcopy(self.model)
        if not self.refused(lambda: self.model.partial_fit(text), on=self.model):
            self.fitted = True
            np.testing.assert_array_equal(twin.partial_fit(text).vectors_, self.model.vectors_)

    def fails(self) -> None:
        """A callback or the text fails, or there is no word."""
        calls: list[Callable[[], Any]] = [
            lambda: self.model.fit(self.text(), callback=fail),
            lambda: self.model.fit([]),
            lambda: self.model.fit(failing(self.text())),
            lambda: self.model.partial_fit(failing(self.text())),
            lambda: self.model.partial_fit(self.text(), n_passes=0),
            lambda: self.model.partial_fit(self.text(), learning_rate=-1),
        ]
        self.refused(self.one(calls), on=self.model, must=True)

    def is_set_wrong(self) -> None:
        """Set a parameter to what is none."""
        wrong = {"dim": 10**30, "window": 0, "min_count": -1, "max_iter": 10**400, "sample": -1, "n_jobs": 0}
        wrong |= {"learning_rate": np.nan, "objective": "none", "random_state": -1}
        name, value = self.one([*wrong.items()])
        self.note(name)
        before = getattr(self.model, name)
        self.model.set_params(**{name: value})
        self.refused(lambda: self.model.fit(self.text()), on=self.model, must=True)
        self.model.set_params(**{name: before})

    def is_copied(self) -> None:
        """Pickle or copy; the other one learns on as this one."""
        other = pickle.loads(pickle.dumps(self.model)) if self.rng.random() < 0.5 else copy.deepcopy(self.model)
        if not self.fitted:
            return
        text = self.text()
        if not self.refused(lambda: self.model.partial_fit(text), on=self.model):
            np.testing.assert_array_equal(other.partial_fit(text).vectors_, self.model.vectors_)
        self.model = other

    def answers(self) -> None:
        """Neighbours are other words, and cosines."""
        if not self.fitted:
            return
        word = self.one([*self.model.vocabulary_])
        found = self.model.most_similar(word, topn=3)
        assert all(abs(cosine) <= 1 + 1e-5 and other != word for other, cosine in found)
        assert np.isfinite(self.model.transform(self.text()[:2])).all()

    def check(self) -> None:
        """Vectors are finite."""
        if self.fitted:
            assert np.isfinite(self.model.vectors_).all()
            assert np.isfinite(self.model.context_vectors_).all()
            assert len(self.model.vocabulary_) == len(self.model.vectors_)
