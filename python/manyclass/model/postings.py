"""Weights on the (feature, class) pairs that occur together in training, alone and beside embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.model.mapped import MappedWeights
from manyclass.model.maps import check_maps, refuses_damage
from manyclass.model.weights import Doubles, Floats, Ids, Matrix

NOTHING = np.zeros((0, 0), dtype=np.float32)
TILE_FLOATS = 1 << 22  # scores in hand at once: 16 MB


class CoreWeights:
    """What the core makes of arrays and checks: 16 ms for 5 million pairs, so that it is kept while they are the same.

    Copies and pickles have nothing of it, and make it again.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], _core.PostingWeights] | None = None

    def of(self, postings: SparseWeights, rows: Floats) -> _core.PostingWeights:
        """Return it for these arrays; may be asked by several threads at once."""
        own = (postings.indptr, postings.classes, postings.values, postings.intercept, rows)
        kept = self._kept
        if kept is None or any(one is not other for one, other in zip(kept[0], own, strict=True)):
            made = _core.PostingWeights(indptr=own[0], classes=own[1], values=own[2], intercept=own[3], rows=own[4])
            kept = self._kept = (own, made)
        return kept[1]

    def __reduce__(self) -> tuple[type[CoreWeights], tuple[()]]:
        return CoreWeights, ()


@dataclass
class SparseWeights:
    """The weights and the intercept, and the questions put to them; for a model they take the place of `LinearWeights`.

    Attributes
    ----------
    indptr : ndarray of shape (n_features + 1,), int64
        The weights of feature j are `values[indptr[j]:indptr[j + 1]]`,
    classes : ndarray of shape (n_pairs,), int32
        for these classes, sorted and distinct;
    values : ndarray of shape (n_pairs,), float32
        never written to by a question; read-only memory maps will do.
    intercept : ndarray of shape (n_classes,), float32
        Zeros if the model has none.
    """

    indptr: NDArray[np.int64]
    classes: Ids
    values: Floats
    intercept: Floats
    _core_made: CoreWeights = field(default_factory=CoreWeights, init=False, repr=False, compare=False)

    sparse = True
    layout = "postings (the classes of each feature)"

    @classmethod
    def zeros(cls, indptr: NDArray[np.int64], classes: Ids, n_classes: int) -> SparseWeights:
        """All-zero weights on a support."""
        return cls(indptr, classes, np.zeros(len(classes), np.float32), np.zeros(n_classes, np.float32))

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.intercept)

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take."""
        return self.indptr.nbytes + self.classes.nbytes + self.values.nbytes + self.intercept.nbytes

    @property
    def coef(self) -> sp.csc_array:
        """W as a sparse (n_classes, n_features) matrix that shares the memory of the weights."""
        return sp.csc_array((self.values, self.classes, self.indptr), shape=(self.n_classes, self.n_features))

    def check(self) -> None:
        """Raise ValueError where the classes of a feature are not sorted, distinct and in range."""
        self._core_weights()

    def grown(
        self, n_classes: int, position: NDArray[np.intp], indptr: NDArray[np.int64], classes: Ids
    ) -> tuple[SparseWeights, NDArray[np.intp]]:
        """Return a copy with more classes and pairs, and before which of the pairs of now the new ones come.

        Parameters
        ----------
        n_classes : int
        position : ndarray of shape (n_classes_now,)
            Where the classes of now stand among all; it increases.
        indptr, classes : ndarrays
            A support of all classes, which may have pairs that are there.

        Returns
        -------
        weights : SparseWeights
            On both supports, 0 for new pairs and in new intercepts.
        places : ndarray of int
            For `numpy.insert`.
        """
        own_classes = position[self.classes].astype(np.int32)
        own, more = _numbered(self.indptr, own_classes, n_classes), _numbered(indptr, classes, n_classes)
        places = np.searchsorted(own, more)
        new = np.append(own, -1)[places] != more
        places, n_new = places[new], np.append(0, np.cumsum(new))
        intercept = np.zeros(n_classes, dtype=np.float32)
        intercept[position] = self.intercept
        weights = SparseWeights(
            self.indptr + n_new[indptr],
            np.insert(own_classes, places, classes[new]),
            np.insert(self.values, places, 0),
            intercept,
        )
        return weights, places

    def widened(self, n_features: int) -> SparseWeights:
        """Return the same weights among more features, after those of now, which have none yet."""
        more = np.full(n_features - self.n_features, self.indptr[-1])
        return replace(self, indptr=np.append(self.indptr, more))

    def largest(self, share: float) -> NDArray[np.bool_]:
        """Return which weights are left without this share of them, the smallest in absolute value."""
        n_less = int(share * len(self.values))
        kept = np.ones(len(self.values), dtype=bool)
        if n_less > 0:
            kept[np.argpartition(np.abs(self.values), n_less - 1)[:n_less]] = False
        return kept

    def some(self, kept: NDArray[np.bool_]) -> SparseWeights:
        """Return the weights of some of the pairs."""
        before = np.concatenate(([0], np.cumsum(kept)))
        indptr: NDArray[np.int64] = before[self.indptr].astype(np.int64)
        return SparseWeights(indptr, self.classes[kept], self.values[kept], self.intercept)

    def multiply_scores(self, factor: float) -> None:
        """Multiply all scores by a number, in place."""
        self.values *= np.float32(factor)
        self.intercept *= np.float32(factor)

    def scaled(self, factor: float) -> tuple[SparseWeights, None]:
        """Return the weights of all scores times a number: a copy, unless it is 1."""
        if factor == 1:
            return self, None
        check_maps(self)  # what is copied is no map any more
        made = SparseWeights(self.indptr, self.classes, self.values.copy(), self.intercept.copy())
        made.multiply_scores(factor)
        return made, None

    def add_to_mean(self, other: SparseWeights, n: int) -> SparseWeights:
        """Return the model whose scores are the mean of those of n models with mean `self` and of `other`.

        Its support is that of both: each run leaves out the pairs of rows that it holds out, or prunes others.
        """
        ours, theirs = np.float32(n / (n + 1)), np.float32(1 / (n + 1))
        mean, at = self._on_both(other)
        mean.multiply_scores(float(ours))
        mean.values[at] += theirs * other.values
        mean.intercept[:] += theirs * other.intercept
        return mean

    def plus(self, other: SparseWeights) -> SparseWeights:
        """Return the weights whose scores are the sums of both."""
        made, at = self._on_both(other)
        made.values[at] += other.values
        made.intercept[:] += other.intercept
        return made

    def _on_both(self, other: SparseWeights) -> tuple[SparseWeights, NDArray[np.intp]]:
        """A copy on the support of both, and where the pairs of the other one are in it."""
        made, _ = self.grown(self.n_classes, np.arange(self.n_classes), other.indptr, other.classes)
        numbers, theirs = (_numbered(one.indptr, one.classes, one.n_classes) for one in (made, other))
        return made, np.searchsorted(numbers, theirs)

    def _core_weights(self) -> _core.PostingWeights:
        return self._core_made.of(self, NOTHING)

    @refuses_damage
    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes); `scale`, which rows of other weights have, is left out."""
        return self._core_weights().scores(csr_parts(as_csr(X)), NOTHING, n_threads)

    @refuses_damage
    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class, as `LinearWeights.log_losses` does."""
        own = np.ascontiguousarray(labels)
        return self._core_weights().log_losses(csr_parts(as_csr(X)), NOTHING, own, n_threads)

    @refuses_damage
    def top_k(self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel") -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first."""
        return self._core_weights().top_k(csr_parts(as_csr(X)), NOTHING, k, n_threads)

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        x, step = as_csr(X), max(1, TILE_FLOATS // self.n_classes)
        for first in range(0, x.shape[0], step):
            yield first, self.scores(x[first : first + step], n_threads)

    @refuses_damage
    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        return self._core_weights().log_normalizers(csr_parts(as_csr(X)), NOTHING, n_threads)


@dataclass
class HybridWeights:
    """Weights on pairs beside embeddings: the scores of both are added.

    Attributes
    ----------
    postings : SparseWeights
    mapped : MappedWeights
        With embeddings; its rows are on the scale of the sum.
    scales : (float, float)
        What the scores of both parts, each trained alone, have been multiplied by.
    """

    postings: SparseWeights
    mapped: MappedWeights
    scales: tuple[float, float] = (1.0, 1.0)
    _core_made: CoreWeights = field(default_factory=CoreWeights, init=False, repr=False, compare=False)

    sparse = True
    layout = "postings (the classes of each feature), and class-major beside embeddings"

    @property
    def n_classes(self) -> int:
        """K."""
        return self.postings.n_classes

    @property
    def nbytes(self) -> int:
        """Bytes that the weights and the embeddings take."""
        return self.postings.nbytes + self.mapped.nbytes

    @property
    def coef(self) -> Floats:
        """Not there: two matrices make the scores."""
        raise AttributeError("a hybrid model has no one matrix of weights; `embedding_` has its embeddings")

    @property
    def intercept(self) -> Floats:
        """b, (n_classes,), of both parts."""
        return self.postings.intercept + self.mapped.intercept

    def scaled(self, factor: float) -> tuple[HybridWeights, None]:
        """Return the weights of all scores times a number: a copy, unless it is 1."""
        if factor == 1:
            return self, None
        check_maps(self.mapped)  # rows are copied, which are no map any more
        rows = self.mapped.rows * np.float32(factor)
        scales = self.scales[0] * factor, self.scales[1] * factor
        return HybridWeights(self.postings.scaled(factor)[0], replace(self.mapped, rows=rows), scales), None

    def multiply_scores(self, factor: float) -> None:
        """Multiply all scores by a number, in place."""
        self.multiply_parts((factor, factor))

    def multiply_parts(self, factors: tuple[float, float]) -> None:
        """Multiply the scores of each part by a number, in place."""
        self.postings.multiply_scores(factors[0])
        self.mapped.multiply_scores(factors[1])
        self.scales = self.scales[0] * factors[0], self.scales[1] * factors[1]

    def add_to_mean(self, other: HybridWeights, n: int) -> HybridWeights:
        """Return the model whose scores are the mean of those of n models with mean `self` and of `other`."""
        scales = [(n * ours + theirs) / (n + 1) for ours, theirs in zip(self.scales, other.scales, strict=True)]
        return HybridWeights(
            self.postings.add_to_mean(other.postings, n),
            self.mapped.add_to_mean(other.mapped, n),
            (scales[0], scales[1]),
        )

    def widened(self, n_features: int) -> HybridWeights:
        """Return a copy for more features, after those of now, of which nothing is known yet."""
        return HybridWeights(self.postings.widened(n_features), self.mapped.widened(n_features), self.scales)

    def _blocks(self, X: Matrix) -> Iterator[tuple[_core.PostingWeights, Any, Floats, slice]]:
        """The core's weights, and rows of X as it takes them with what the embeddings make of them."""
        x = as_csr(X)
        weights = self._core_made.of(self.postings, self.mapped.rows)
        for at, phi in self.mapped.blocks(x):
            yield weights, csr_parts(x[at]), phi, at

    @refuses_damage
    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes); `scale`, which rows of other weights have, is left out."""
        return np.concatenate([weights.scores(x, phi, n_threads) for weights, x, phi, _ in self._blocks(X)])

    @refuses_damage
    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class, as `LinearWeights.log_losses` does."""
        parts = [
            weights.log_losses(x, phi, np.ascontiguousarray(labels[at]), n_threads)
            for weights, x, phi, at in self._blocks(X)
        ]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    @refuses_damage
    def top_k(self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel") -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first."""
        parts = [weights.top_k(x, phi, k, n_threads) for weights, x, phi, _ in self._blocks(X)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        step = max(1, TILE_FLOATS // self.n_classes)
        for first in range(0, X.shape[0], step):
            yield first, self.scores(X[first : first + step], n_threads)

    @refuses_damage
    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        return np.concatenate([weights.log_normalizers(x, phi, n_threads) for weights, x, phi, _ in self._blocks(X)])


def as_csr(X: Matrix) -> sp.csr_array:
    """Data by its stored values; of a dense array those that are not 0."""
    return X if isinstance(X, sp.csr_array) else sp.csr_array(X)


def mapped_part(weights: Any) -> MappedWeights | None:
    """The weights over a feature map that weights are or have."""
    if isinstance(weights, HybridWeights):
        return weights.mapped
    return weights if isinstance(weights, MappedWeights) else None


def postings_part(weights: Any) -> SparseWeights | None:
    """The weights on pairs that weights are or have."""
    if isinstance(weights, HybridWeights):
        return weights.postings
    return weights if isinstance(weights, SparseWeights) else None


def _numbered(indptr: NDArray[np.int64], classes: Ids, n_classes: int) -> NDArray[np.int64]:
    """The pairs of a support as numbers that increase."""
    return np.repeat(np.arange(len(indptr) - 1) * n_classes, np.diff(indptr)) + classes
