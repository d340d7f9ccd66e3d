"""Weights of a model over a feature map: linear scores of (phi(x), 1), phi the features or a sum of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.model.maps import check_maps
from manyclass.model.weights import LINE, Doubles, Floats, Ids, LinearWeights, Matrix, aligned_zeros

BLOCK_FLOATS = 1 << 22  # of phi in hand at once: 16 MB

LARGEST = float(np.finfo(np.float32).max)


@dataclass
class MappedWeights:
    """W, the embeddings, and the questions put to them; for a model they take the place of `LinearWeights`.

    Attributes
    ----------
    rows : ndarray of shape (n_classes, width), float32
        (w_k, b_k), padded with zeros to whole cache lines.
    embeddings : ndarray of shape (n_features, width) or (0, 0), float32
        e_j, padded with zeros; none: phi(x) = x.
    n_hidden : int
        Length of phi: `embedding_dim` or n_features.
    intercept_column : bool
        Whether phi is followed by a 1.
    relu : bool
        Whether phi(x) = max(sum_j x_j e_j, 0).
    scale : float
        What the scores have been multiplied by since they were trained: training goes on without it.
    """

    rows: Floats
    embeddings: Floats
    n_hidden: int
    intercept_column: bool
    relu: bool
    scale: float = 1.0

    sparse = False
    layout = "class-major (for dense data)"

    @classmethod
    def start(
        cls,
        n_classes: int,
        n_features: int,
        *,
        embedding_dim: int | None,
        intercept: bool,
        relu: bool,
        rng: np.random.Generator,
    ) -> MappedWeights:
        """W = 0 and, where there are embeddings, normal ones of expected length 1."""
        n_hidden = n_features if embedding_dim is None else embedding_dim
        width = -(-(n_hidden + intercept) // LINE) * LINE
        embeddings = np.zeros((0, 0), dtype=np.float32)
        if embedding_dim is not None:
            embeddings = aligned_zeros(n_features, width)
            embeddings[:, :n_hidden] = rng.standard_normal((n_features, n_hidden), dtype=np.float32)
            embeddings *= np.float32(1 / np.sqrt(n_hidden))
        return cls(aligned_zeros(n_classes, width), embeddings, n_hidden, intercept, relu)

    def grown(self, n_classes: int, position: NDArray[np.intp]) -> MappedWeights:
        """Return a copy with more classes, those of before in places `position`; 0 for new ones."""
        rows, embeddings = aligned_zeros(n_classes, self.rows.shape[1]), self.embeddings
        rows[position] = self.rows
        if embeddings.size:
            embeddings = aligned_zeros(*embeddings.shape)
            embeddings[:] = self.embeddings
        return MappedWeights(rows, embeddings, self.n_hidden, self.intercept_column, self.relu, self.scale)

    def widened(self, n_features: int) -> MappedWeights:
        """Return a copy for more features, after those of now; their embeddings or weights are 0: no score changes."""
        if self.embeddings.size:
            embeddings = aligned_zeros(n_features, self.rows.shape[1])
            embeddings[: len(self.embeddings)] = self.embeddings
            return replace(self, embeddings=embeddings)
        width = -(-(n_features + self.intercept_column) // LINE) * LINE
        rows = aligned_zeros(self.n_classes, width)
        rows[:, : self.n_hidden] = self.coef
        if self.intercept_column:
            rows[:, n_features] = self.intercept
        return replace(self, rows=rows, n_hidden=n_features)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes that W and the embeddings take."""
        return self.rows.nbytes + self.embeddings.nbytes

    @property
    def matrix(self) -> Floats:
        """The rows as they are stored."""
        return self.rows

    @property
    def coef(self) -> Floats:
        """W as a (n_classes, n_hidden) view."""
        return self.rows[:, : self.n_hidden]

    @property
    def intercept(self) -> Floats:
        """b, (n_classes,); a view where it is learned, else zeros."""
        if self.intercept_column:
            return self.rows[:, self.n_hidden]
        return np.zeros(self.n_classes, dtype=np.float32)

    @property
    def columns(self) -> Floats:
        """The rows without their padding: what an index holds, as a view."""
        return self.rows[:, : self.n_hidden + self.intercept_column]

    def mapped_columns(self, X: Matrix) -> Floats:
        """(phi, 1) without padding: queries to that index."""
        return self.padded(X)[:, : self.n_hidden + self.intercept_column]

    def transform(self, X: Matrix) -> Floats:
        """Return phi, (n_samples, n_hidden), float32."""
        return self.padded(X)[:, : self.n_hidden]

    def padded(self, X: Matrix) -> Floats:
        """(phi, 1) padded as the rows are; a sum of huge features beyond single precision is the largest there."""
        phi = np.zeros((X.shape[0], self.rows.shape[1]), dtype=np.float32)
        if self.embeddings.size:
            with np.errstate(over="ignore", invalid="ignore"):
                phi[:] = X @ self.embeddings
            if not np.isfinite(phi).all():
                check_maps(self)
                np.nan_to_num(phi, copy=False, posinf=LARGEST, neginf=-LARGEST)
            if self.relu:
                np.maximum(phi, 0, out=phi)
        else:
            phi[:, : self.n_hidden] = X.toarray() if isinstance(X, sp.csr_array) else X
        if self.intercept_column:
            phi[:, self.n_hidden] = 1
        return phi

    def scaled(self, factor: float) -> tuple[MappedWeights, Floats | None]:
        """Return what gives all scores times a factor: weights, and the scale of their rows, intercepts among them."""
        return self, None if factor == 1 else np.full(self.n_classes, factor, dtype=np.float32)

    def multiply_scores(self, factor: float) -> None:
        """Multiply all scores by a number, in place."""
        self.rows *= np.float32(factor)
        self.scale *= factor

    def add_to_mean(self, other: MappedWeights, n: int) -> MappedWeights:
        """Return the model whose scores are the mean of those of n models with mean `self` and of `other`.

        Without embeddings it is `self`. With them phi is that of both, one behind the other, and as long as both; it
        has the root of each weight of the mean, so that a step of training that goes on moves scores as one of either.
        """
        ours, theirs = np.float32(n / (n + 1)), np.float32(1 / (n + 1))
        scale = (n * self.scale + other.scale) / (n + 1)
        if not self.embeddings.size:
            self.scale = scale
            self.rows *= ours
            self.rows += theirs * other.rows
            return self
        n_hidden, h = self.n_hidden + other.n_hidden, self.n_hidden
        width = -(-(n_hidden + self.intercept_column) // LINE) * LINE
        rows, embeddings = aligned_zeros(self.n_classes, width), aligned_zeros(len(self.embeddings), width)
        of_ours, of_theirs = np.sqrt(ours), np.sqrt(theirs)
        rows[:, :h], rows[:, h:n_hidden] = of_ours * self.coef, of_theirs * other.coef
        if self.intercept_column:
            rows[:, n_hidden] = ours * self.intercept + theirs * other.intercept
        embeddings[:, :h] = of_ours * self.embeddings[:, :h]
        embeddings[:, h:n_hidden] = of_theirs * other.embeddings[:, : other.n_hidden]
        return MappedWeights(rows, embeddings, n_hidden, self.intercept_column, self.relu, scale)

    def _linear(self) -> LinearWeights:
        return LinearWeights(self.rows, np.zeros(self.n_classes, dtype=np.float32), sparse=False)

    def blocks(self, X: Matrix) -> Iterator[tuple[slice, Floats]]:
        """(phi, 1) padded as the rows are, some points at a time."""
        step = max(1, BLOCK_FLOATS // self.rows.shape[1])
        for i in range(0, X.shape[0], step):
            yield slice(i, i + step), self.padded(X[i : i + step])

    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes), rows times `scale`."""
        linear = self._linear()
        return np.concatenate([linear.scores(phi, n_threads, scale) for _, phi in self.blocks(X)])

    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class, as `LinearWeights.log_losses` does."""
        linear = self._linear()
        parts = [linear.log_losses(phi, labels[at], n_threads, scale, noise) for at, phi in self.blocks(X)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def top_k(self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel") -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first."""
        linear = self._linear()
        parts = [linear.top_k(phi, k, n_threads, noise) for _, phi in self.blocks(X)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        linear = self._linear()
        for at, phi in self.blocks(X):
            for first, scores in linear.score_tiles(phi, n_threads, scale):
                yield at.start + first, scores

    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        linear = self._linear()
        return np.concatenate([linear.log_normalizers(phi, n_threads) for _, phi in self.blocks(X)])
