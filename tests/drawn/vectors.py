"""A random case of word vectors or of an index: it is refused by name, or its answers are numbers and the best ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drawn import data
from drawn.checks import Found, finite, forgo, observed
from drawn.parameters import number, parameters, positive
from manyclass import DecomposedIndex, SkipGram, WordVectors

COUNTED = 0.1  # share of the texts whose pairs are counted, which takes longer than all else
ALLOWED = 1e-5  # of a score beside the sum of its absolute products: 100 roundings of single precision


@dataclass
class WordsCase:
    """A text and a SkipGram."""

    parameters: dict[str, Any]
    text: list[list[str]]
    rng: np.random.Generator
    found: Found = field(default_factory=Found)

    @classmethod
    def draw(cls, rng: np.random.Generator, made: type) -> WordsCase:
        """Draw parameters and a text, of which words are seldom left out."""
        drawn = parameters(rng, made)
        if rng.random() < 0.8:
            drawn = {"dim": int(rng.integers(1, 20)), "min_count": 1, "sample": 0.0, **drawn}
        return cls(drawn, data.text(rng), rng)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"SkipGram({given}) on {len(self.text)} sentences of {len(self.text[0])} words"

    def run(self, folder: Path) -> Found:
        """Fit, ask, save, and train on."""
        model = SkipGram(**self.parameters)
        while not observed(self.found, "fit", lambda: model.fit(self.text)):
            if not forgo(self.found, self.parameters):
                return self.found
            model.set_params(**SkipGram().get_params() | self.parameters)
        self.check(model, "after fit")
        observed(self.found, "answers", lambda: self.answers(model, folder), refuses=False)
        if self.rng.random() < 0.2:
            rate = None if self.rng.random() < 0.5 else positive(self.rng)
            more = data.text(self.rng)
            observed(self.found, "partial_fit", lambda: model.partial_fit(more, learning_rate=rate))
            self.check(model, f"after partial_fit(learning_rate={rate!r})")
        return self.found

    def check(self, model: SkipGram, when: str) -> None:
        """Vectors are finite, and so is the loss but where training diverged."""
        finite(self.found, f"{when}: vectors_", model.vectors_)
        finite(self.found, f"{when}: context_vectors_", model.context_vectors_)
        if not self.found.warned:
            curve = np.array(model.loss_curve_)  # NaN of a pass of which sub-sampling has left no pair
            finite(self.found, f"{when}: loss_curve_", curve[~np.isnan(curve)] if model.sample > 0 else curve)
            if self.rng.random() < COUNTED:
                observed(self.found, f"objective_value {when}", lambda: self.objective(model, when))

    def objective(self, model: SkipGram, when: str) -> None:
        """A number of nats."""
        value = model.objective_value()
        if not value >= 0:
            self.found.fault(f"{when}: objective_value is {value}")

    def answers(self, model: SkipGram, folder: Path) -> None:
        """Similarities are in [-1, 1], and a file has the same vectors."""
        word = next(iter(model.vocabulary_))
        near = np.array([cosine for _, cosine in model.most_similar(word, topn=3)])
        if not (np.abs(near) <= 1 + 1e-5).all():
            self.found.fault(f"most_similar gives {near}")
        finite(self.found, "transform", model.transform(self.text[:2]))
        if self.rng.random() < 0.2:
            model.save_word2vec(folder / "vectors", binary=True)
            other = WordVectors.load_word2vec(folder / "vectors", binary=True)
            if not np.array_equal(other.vectors_, model.vectors_):
                self.found.fault("vectors that were saved and loaded differ")


@dataclass
class IndexCase:
    """Rows, queries and an index."""

    made: type
    parameters: dict[str, Any]
    rows: np.ndarray
    queries: np.ndarray
    rng: np.random.Generator
    defaults: dict[str, Any]
    found: Found = field(default_factory=Found)

    @classmethod
    def draw(cls, rng: np.random.Generator, made: type) -> IndexCase:
        """Draw parameters, rows and queries."""
        n, d = data.sizes(rng)
        if rng.random() < 0.02:
            n, d = int(rng.integers(4000, 6000)), min(d, 6)
        defaults = {"n_blocks": int(rng.integers(1, min(d, 8) + 1))} if made is DecomposedIndex else {}
        drawn = {**defaults, **parameters(rng, made, most=4)}
        return cls(made, drawn, data.values(rng, (n, d)), data.values(rng, (5, d)), rng, defaults)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.made.__name__}({given}) on W {self.rows.dtype} {self.rows.shape}"

    def run(self, folder: Path) -> Found:
        """Fit, ask, replace rows, ask again, save."""
        index = self.made()

        def fit() -> None:
            index.set_params(**self.made().get_params() | self.defaults | self.parameters).fit(self.rows)

        while not observed(self.found, "fit", fit):
            if not forgo(self.found, self.parameters):
                return self.found
        self.ask(index, "after fit")
        n, d = self.rows.shape
        ids = self.rng.choice(n, int(self.rng.integers(1, n + 1)), replace=False)
        new = data.values(self.rng, (len(ids), d))
        if observed(self.found, "update", lambda: index.update(ids, new)):
            self.ask(index, "after update")
        self.losses(index)
        if self.rng.random() < 0.3:
            observed(self.found, "save and load", lambda: self.saved(index, folder), refuses=False)
        return self.found

    def ask(self, index: Any, when: str) -> None:
        """The scores are those of the rows named, best first, no row twice."""
        k = int(self.rng.integers(1, len(self.rows) + 1))
        n_probe = int(self.rng.integers(1, index.n_clusters_ + 1)) if self.rng.random() < 0.5 else None
        answer: list[Any] = []
        finite(self.found, f"{when}: cluster_centers_", index.cluster_centers_)
        if not observed(
            self.found, f"query {when}", lambda: answer.extend(index.query(self.queries, k, n_probe=n_probe))
        ):
            return
        scores, ids = answer
        rows, queries = (np.asarray(a, dtype=np.float64) for a in (index.rows_, self.queries.astype(np.float32)))
        # Beside rows that are codes a query is two bytes a column, too, of which the second is 1/127 of the first.
        allowed = 2e-3 if getattr(index, "row_bits", 32) == 0 else ALLOWED
        if hasattr(index, "query_above"):
            observed(self.found, f"query_above {when}", lambda: index.query_above(self.queries, number(self.rng)))
        for q, z, found in zip(queries, scores, ids, strict=True):
            there = found >= 0
            if len(set(found[there])) != there.sum() or (z[~there] > -np.inf).any():
                self.found.fault(f"{when}: query gives {found}")
            exact, most = rows[found[there]] @ q, np.abs(rows[found[there]]) @ np.abs(q)
            if not (np.abs(z[there] - exact) <= allowed * most + 1e-37).all():
                self.found.fault(f"{when}: scores {z[there][:3]}, where products are {exact[:3]}")
            if (np.diff(z[there]) > 0).any():
                self.found.fault(f"{when}: scores {z[:5]} are not best first")

    def losses(self, index: Any) -> None:
        """Losses are numbers of at least 0."""
        y = self.rng.integers(0, len(self.rows), len(self.queries))
        given: dict[str, Any] = {"smoothing": number(self.rng, 0.0)} if self.rng.random() < 0.5 else {}
        loss = str(self.rng.choice(["margin", "cross_entropy"]))

        def look() -> None:
            losses, gradients = index.loss_and_gradient(self.queries, y, loss, **(given if loss == "margin" else {}))
            if not (np.asarray(losses) >= 0).all() or not np.isfinite(gradients.data).all():
                self.found.fault(f"loss_and_gradient of {loss} with {given} gives {losses}, {gradients.data[:3]}")

        observed(self.found, "loss_and_gradient", look)

    def saved(self, index: Any, folder: Path) -> None:
        """A file holds the same index."""
        index.save(folder / "index")
        other = self.made.load(folder / "index")
        if not np.array_equal(other.rows_, index.rows_):
            self.found.fault("an index that was saved and loaded has other rows")
