"""The weight matrix of a linear model in either storage, and the questions put to the core about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.model.maps import refuses_damage

LINE = 16  # floats in a cache line: rows of feature-major weights are padded to whole lines
LARGEST_SCORE = 2.0**126  # beyond it scores count as that, so that differences of two are finite (evaluate/tiles.hpp)

Ids = NDArray[np.int32]  # of classes or features
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Matrix = sp.csr_array | Floats
Data = ArrayLike | sp.sparray | sp.spmatrix  # what an estimator takes as X


def aligned_zeros(n_rows: int, n_columns: int) -> Floats:
    """Zeros that start at a cache line; pages are not touched before they are used."""
    flat = np.zeros(n_rows * n_columns + LINE, dtype=np.float32)
    start = -(flat.ctypes.data // 4) % LINE
    return flat[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


def row_norms_sq(x: Matrix) -> Floats:
    """Return the squared Euclidean norm of each row."""
    with np.errstate(over="ignore"):  # an infinite norm stops training with a warning that says what to do
        if isinstance(x, sp.csr_array):
            squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), shape=x.shape)
            return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()
        norms: Floats = np.einsum("ij,ij->i", x, x, dtype=np.float32)
        return norms


@dataclass
class LinearWeights:
    """W and the intercept.

    Attributes
    ----------
    matrix : ndarray of float32
        Feature-major, (n_features, n_classes rounded up to 16), where `sparse`; else class-major,
        (n_classes, n_features). Never written to by a question; a read-only memory map will do.
    intercept : ndarray of shape (n_classes,), float32
        Zeros if the model has none.
    sparse : bool
        Which storage it is.
    """

    matrix: Floats
    intercept: Floats
    sparse: bool

    @classmethod
    def zeros(cls, n_classes: int, n_features: int, *, sparse: bool) -> LinearWeights:
        """All-zero weights for data of the given kind."""
        padded = -(-n_classes // LINE) * LINE
        shape = (n_features, padded) if sparse else (n_classes, n_features)
        return cls(aligned_zeros(*shape), np.zeros(n_classes, dtype=np.float32), sparse)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.intercept)

    @property
    def layout(self) -> str:
        """How the weights are stored, in words."""
        return "feature-major (for sparse data)" if self.sparse else "class-major (for dense data)"

    @property
    def nbytes(self) -> int:
        """Bytes that W takes."""
        return self.matrix.nbytes

    @property
    def coef(self) -> Floats:
        """W as a (n_classes, n_features) view."""
        return self.matrix[:, : self.n_classes].T if self.sparse else self.matrix

    def multiply_rows(self, factors: Floats) -> None:
        """Multiply the weights of class k by factors[k], in place; intercepts stay."""
        if self.sparse:
            self.matrix[:, : self.n_classes] *= factors
        else:
            self.matrix *= factors[:, np.newaxis]

    def scaled(self, factor: float) -> tuple[LinearWeights, Floats | None]:
        """Return what gives all scores times a factor, without a copy of W: weights, and the scale of their rows."""
        if factor == 1:
            return self, None
        intercept = self.intercept * np.float32(factor)
        return replace(self, intercept=intercept), np.full(self.n_classes, factor, dtype=np.float32)

    def multiply_scores(self, factor: float) -> None:
        """Multiply all scores by a number, in place."""
        self.matrix *= np.float32(factor)
        self.intercept *= np.float32(factor)

    def add_to_mean(self, other: LinearWeights, n: int) -> LinearWeights:
        """Return the model whose scores are the mean of those of n models with mean `self` and of `other`: `self`."""
        for mean, new in ((self.matrix, other.matrix), (self.intercept, other.intercept)):
            mean += new / np.float32(n + 1) - mean / np.float32(n + 1)  # a difference of the two may overflow
        return self

    def grown(self, n_classes: int, position: NDArray[np.intp]) -> LinearWeights:
        """Return a copy with more classes, those of before in places `position`, which increase; 0 for new ones."""
        more = LinearWeights.zeros(n_classes, self.coef.shape[1], sparse=self.sparse)
        if n_classes == self.n_classes:
            more.matrix[:] = self.matrix
        elif self.sparse:
            more.matrix[:, position] = self.matrix[:, : self.n_classes]
        else:
            more.matrix[position] = self.matrix
        more.intercept[position] = self.intercept
        return more

    def widened(self, n_features: int) -> LinearWeights:
        """Return a copy with weights of 0 for more features, which come after those of now."""
        more = LinearWeights.zeros(self.n_classes, n_features, sparse=self.sparse)
        more.coef[:, : self.coef.shape[1]] = self.coef
        more.intercept[:] = self.intercept
        return more

    def reorder(self, source: Ids, n_threads: int) -> None:
        """Put class source[k] in place k, in place."""
        if self.sparse:
            _core.reorder_columns(self.matrix, source, n_threads)
        else:
            _core.reorder_rows(self.matrix, source)
        self.intercept[:] = self.intercept[source]

    def _blocks(self, X: Matrix) -> list[tuple[Any, int]]:
        """Return X as the core takes it, in pieces where it must be made dense."""
        if self.sparse:
            csr = X if isinstance(X, sp.csr_array) else sp.csr_array(X)
            return [(csr_parts(csr), csr.shape[1])]
        if not isinstance(X, sp.csr_array):
            return [(np.ascontiguousarray(X), X.shape[1])]
        step = max(1, (1 << 24) // max(1, X.shape[1]))  # 64 MB at a time
        return [(np.ascontiguousarray(X[i : i + step].toarray()), X.shape[1]) for i in range(0, X.shape[0], step)]

    def _core_weights(self, scale: Floats | None = None) -> _core.Weights:
        return _core.Weights(
            matrix=self.matrix,
            intercept=self.intercept,
            scale=np.zeros(0, dtype=np.float32) if scale is None else scale,
            n_classes=self.n_classes,
        )

    @refuses_damage
    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class (0: predicted), rows times `scale`."""
        losses, ranks, start = [], [], 0
        weights = self._core_weights(scale)
        for x, n_features in self._blocks(X):
            n = len(x[0]) - 1 if isinstance(x, tuple) else len(x)
            some = np.ascontiguousarray(labels[start : start + n])
            loss, rank = _core.log_losses(x, n_features, weights, some, n_threads)
            losses.append(loss)
            ranks.append(rank)
            start += n
        if noise != "gumbel":  # classes rank as under the softmax; probabilities need all scores of a point
            at = labels[:, np.newaxis]
            losses = [-log_probabilities_at(self, noise, X, at, n_threads, scale).ravel()]
        return np.concatenate(losses), np.concatenate(ranks)

    @refuses_damage
    def top_k(
        self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel", scale: Floats | None = None
    ) -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first; rows times `scale`."""
        parts = [_core.top_k(x, d, self._core_weights(), k, n_threads) for x, d in self._blocks(X)]
        classes, log_p = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        if noise != "gumbel":
            with np.errstate(over="ignore"):  # to -inf
                log_p = log_probabilities_at(self, noise, X, classes, n_threads).astype(np.float32)
        return classes, log_p

    @refuses_damage
    def top_wrong(self, X: Matrix, labels: Ids, classes: Ids, n_threads: int, scale: Floats | None = None) -> None:
        """Write the wrong classes of largest score to `classes`, (n_samples, m), best first; rows times `scale`."""
        weights, start = self._core_weights(scale), 0
        for x, n_features in self._blocks(X):
            end = start + (len(x[0]) - 1 if isinstance(x, tuple) else len(x))
            _core.top_wrong(x, n_features, weights, labels[start:end], classes[start:end], n_threads)
            start = end

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        step = max(1, (1 << 22) // self.n_classes)
        for first in range(0, X.shape[0], step):
            yield first, self.scores(X[first : first + step], n_threads, scale)

    def label_scores(self, X: Matrix, labels: Ids) -> Doubles:
        """Return the score of one class of each point."""
        if isinstance(X, sp.csr_array):
            coef, n_stored = self.coef, np.diff(X.indptr)
            products = np.multiply(X.data, coef[np.repeat(labels, n_stored), X.indices], dtype=np.float64)
            rows = np.repeat(np.arange(X.shape[0]), n_stored)
            scores = np.asarray(np.bincount(rows, products, minlength=X.shape[0]), dtype=np.float64)
        else:
            scores = np.einsum("ij,ij->i", X, self.coef[labels], dtype=np.float64)
        return scores + self.intercept[labels].astype(np.float64)

    @refuses_damage
    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        weights = self._core_weights()
        return np.concatenate([_core.log_normalizers(x, d, weights, n_threads) for x, d in self._blocks(X)])

    @refuses_damage
    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes), rows times `scale`."""
        weights = self._core_weights(scale)
        return np.concatenate([_core.scores(x, d, weights, n_threads) for x, d in self._blocks(X)])


class Scoring(Protocol):
    """Weights that score all classes, some points at a time."""

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """As `LinearWeights.score_tiles`."""


def below_the_best(scores: Floats) -> Doubles:
    """Scores of each point less the largest one, which changes no probability, and what is 2**20 below it as that.

    Beside a huge score the noise, over which probabilities are integrals, would be rounded away.
    """
    psi: Doubles = scores.astype(np.float64)
    psi -= psi.max(axis=1, keepdims=True)
    return np.maximum(psi, -(2.0**20), out=psi)


def log_probabilities_at(
    weights: Scoring, noise: str, X: Matrix, classes: Ids, n_threads: int, scale: Floats | None = None
) -> Doubles:
    """Log-probabilities of some classes of each point, with noise other than Gumbel."""
    parts = [
        _core.utility_probabilities_at(
            noise=noise,
            psi=below_the_best(scores),
            classes=np.ascontiguousarray(classes[first : first + len(scores)]),
            log=True,
            n_threads=n_threads,
        )
        for first, scores in weights.score_tiles(X, n_threads, scale)
    ]
    return np.concatenate(parts)


def times(scores: Floats, factor: float, n_terms: int = 1) -> Floats:
    """Scores times a factor, held so that differences of sums of `n_terms` are finite."""
    most = LARGEST_SCORE / n_terms
    with np.errstate(over="ignore"):
        product: Floats = np.clip(scores * np.float32(factor), -most, most)
    return product
