"""Weights in fewer bits, whatever the model: half precision, or bytes with a scale a row, as the core reads them.

A weight is a float32, a float16, or s c with an integer c in [-127, 127] and a float32 scale s of its row: of the
feature where weights stand by feature or on pairs, of the class where they stand by class. Scores are made of these
numbers as they are; nothing here has a float32 copy of them but `CodedWeights.coef`, which is asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.model.maps import refuses_damage
from manyclass.model.weights import LINE, Doubles, Floats, Ids, Matrix, log_probabilities_at

Dtype = Literal["float32", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "int8")
Kind = Literal["feature_major", "class_major", "mapped", "postings", "hybrid"]

NO_FLOATS = np.zeros(0, dtype=np.float32)
NO_PHI = np.zeros((0, 0), dtype=np.float32)
BLOCK_NUMBERS = 1 << 22  # of scores, of phi or of weights in hand at once
LARGEST_CODE = 127
LARGEST_HALF = 65504.0
# Scales below the normal floats lose bits, and so would the codes: weights of rows so small become 0.
SMALLEST_SCALE = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Codes:
    """Numbers in fewer bits.

    Attributes
    ----------
    values : ndarray of float32, float16 or int8
        Rows, or the numbers of all rows one after the other.
    scales : ndarray of shape (n_rows,) or (0,), float32
        What those of a row are multiplied by; empty: nothing.
    """

    values: NDArray[Any]
    scales: Floats

    @classmethod
    def of_rows(cls, matrix: Floats, dtype: Dtype) -> Codes:
        """Encode a matrix, some rows at a time; raises ValueError as `encoded` does."""
        values = np.empty(matrix.shape, dtype=dtype)
        scales = np.zeros(len(matrix) if dtype == "int8" else 0, dtype=np.float32)
        step = max(1, BLOCK_NUMBERS // max(1, matrix.shape[1]))
        for first in range(0, len(matrix), step):
            some = slice(first, first + step)
            block = matrix[some]
            if dtype == "int8":
                scales[some] = scales_of(np.abs(block).max(axis=1, initial=0))
                values[some] = encoded(block, dtype, scales[some, np.newaxis])
            else:
                values[some] = encoded(block, dtype)
        return cls(values, scales)

    @classmethod
    def of_lists(cls, numbers: Floats, indptr: NDArray[np.int64], dtype: Dtype) -> Codes:
        """Encode the numbers of rows that stand one after the other."""
        if dtype != "int8":
            return cls(encoded(numbers, dtype), NO_FLOATS)
        largest = np.zeros(len(indptr) - 1, dtype=np.float32)
        some = np.flatnonzero(np.diff(indptr))  # reduceat takes no empty ones
        if len(some):
            largest[some] = np.maximum.reduceat(np.abs(numbers), indptr[some])
        scales = scales_of(largest)
        return cls(encoded(numbers, dtype, np.repeat(scales, np.diff(indptr))), scales)

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.values.nbytes + self.scales.nbytes

    def times(self, factor: float, n_rows: int) -> Codes:
        """Return numbers that are so many times as large, by other scales."""
        scales = self.scales if len(self.scales) else np.ones(n_rows, dtype=np.float32)
        return replace(self, scales=scales * np.float32(factor))

    def of_core(self) -> NDArray[Any]:
        """The values as the core takes them: halves by their bits."""
        return self.values.view(np.uint16) if self.values.dtype == np.float16 else self.values

    def plain(self, indptr: NDArray[np.int64] | None = None) -> Floats:
        """Return them as float32: of a matrix, or of rows one after the other."""
        numbers = self.values.astype(np.float32)
        if len(self.scales):
            numbers *= self.scales[:, np.newaxis] if indptr is None else np.repeat(self.scales, np.diff(indptr))
        return numbers


def scales_of(largest: Floats) -> Floats:
    """Return the scales of rows whose largest magnitudes are these."""
    scales = (largest / np.float32(LARGEST_CODE)).astype(np.float32)
    scales[scales < SMALLEST_SCALE] = 0
    return scales


def encoded(numbers: Floats, dtype: Dtype, scales: Floats | None = None) -> NDArray[Any]:
    """Return numbers in a dtype, each rounded to the nearest there is; int8 of multiples of `scales`.

    Raises
    ------
    ValueError
        If a number is not finite, or too large for float16.
    """
    largest = float(np.abs(numbers).max(initial=0))
    if not np.isfinite(largest):
        raise ValueError(f"a weight is {largest}; only finite weights can be compressed: fit again, with smaller steps")
    if dtype == "float16" and largest > LARGEST_HALF:
        raise ValueError(
            f"a weight is {largest:g} in magnitude; float16 ends at {LARGEST_HALF:g}: use dtype='int8', or scale X"
        )
    if dtype != "int8":
        return numbers.astype(dtype)
    assert scales is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.rint(numbers / scales)
    codes[np.broadcast_to(scales == 0, codes.shape)] = 0
    found: NDArray[Any] = np.clip(codes, -LARGEST_CODE, LARGEST_CODE).astype(np.int8)
    return found


class CoreMade:
    """What the core makes of arrays and checks, kept while the weights are; copies and pickles make it again."""

    def __init__(self) -> None:
        self.weights: _core.CodedWeights | None = None
        self.embeddings: _core.CodedWeights | None = None

    def __reduce__(self) -> tuple[type[CoreMade], tuple[()]]:
        return CoreMade, ()


@dataclass
class CodedWeights:
    """The weights of a model in fewer bits; for predictions they take the place of any other kind.

    Attributes
    ----------
    kind : str
        "feature_major": `rows` are those of features, each with a weight for every class, padded to whole sixteens.
        "class_major": those of classes over x. "mapped": those of classes over phi(x), which is x or a sum of
        `embeddings`. "postings": `values` on pairs. "hybrid": the sum of the scores of both.
    intercept : ndarray of shape (n_classes,), float32
    n_features : int
    rows : Codes or None
    embeddings : Codes of shape (n_kept, n_hidden rounded up to 16), or None
    features : ndarray of shape (n_kept,), int32, or None
        Which features have embeddings, sorted; None: all.
    indptr, classes, values : arrays as in `SparseWeights`, and Codes; or None
        Classes are uint16 where there are at most 65,536 of them.
    relu : bool
        Whether phi(x) = max(sum_j x_j e_j, 0).
    """

    kind: Kind
    intercept: Floats
    n_features: int
    rows: Codes | None = None
    embeddings: Codes | None = None
    features: Ids | None = None
    indptr: NDArray[np.int64] | None = None
    classes: NDArray[Any] | None = None
    values: Codes | None = None
    relu: bool = False
    _core_made: CoreMade = field(default_factory=CoreMade, init=False, repr=False, compare=False)

    intercept_column = True  # in a file: whether there is one is seen from the intercepts

    @property
    def sparse(self) -> bool:
        """Whether rows of X are read by their stored values."""
        return self.kind in ("feature_major", "postings", "hybrid")

    @property
    def dtype(self) -> str:
        """The type of the weights."""
        codes = self.rows if self.values is None else self.values
        assert codes is not None
        return codes.values.dtype.name

    @property
    def layout(self) -> str:
        """How the weights are stored, in words."""
        scales = {"int8": ", int8 with a scale a row", "float16": ", float16"}.get(self.dtype, "")
        told = {
            "feature_major": "feature-major (for sparse data)",
            "class_major": "class-major (for dense data)",
            "mapped": "class-major (for dense data)",
            "postings": "postings (the classes of each feature)",
            "hybrid": "postings (the classes of each feature), and class-major beside embeddings",
        }[self.kind]
        dropped = "" if self.features is None else f", {len(self.features)} of {self.n_features} features"
        return told + scales + dropped

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.intercept)

    @property
    def n_hidden(self) -> int:
        """Length of phi."""
        assert self.rows is not None
        return int(self.rows.values.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes that all of it takes."""
        arrays = (self.intercept, self.rows, self.embeddings, self.features, self.indptr, self.classes, self.values)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def coef(self) -> Any:
        """W as float32, (n_classes, n_hidden or n_features), sparse if it is on pairs: a copy, made at each call."""
        if self.kind == "hybrid":
            raise AttributeError("a hybrid model has no one matrix of weights; `embedding_` has its embeddings")
        if self.kind == "postings":
            assert self.values is not None
            assert self.indptr is not None
            assert self.classes is not None
            shape = (self.n_classes, self.n_features)
            return sp.csc_array((self.values.plain(self.indptr), self.classes.astype(np.int32), self.indptr), shape)
        assert self.rows is not None
        plain = self.rows.plain()
        return plain[:, : self.n_classes].T if self.kind == "feature_major" else plain

    @property
    def embedded(self) -> Floats:
        """The embeddings as float32, (n_features, n_hidden), 0 for features without: a copy."""
        assert self.embeddings is not None
        found = np.zeros((self.n_features, self.n_hidden), dtype=np.float32)
        found[slice(None) if self.features is None else self.features] = self.embeddings.plain()[:, : self.n_hidden]
        return found

    def check(self) -> None:
        """Raise ValueError where arrays do not fit each other."""
        self._weights()
        if self.embeddings is not None:
            self._embeddings()

    def scaled(self, factor: float) -> tuple[CodedWeights, None]:
        """Return the weights of all scores times a number."""
        if factor == 1:
            return self, None
        rows = self.rows and self.rows.times(factor, len(self.rows.values))
        values = self.values and self.values.times(factor, self.n_features)
        return replace(self, rows=rows, values=values, intercept=self.intercept * np.float32(factor)), None

    @refuses_damage
    def transform(self, X: Matrix, n_threads: int = 1) -> Floats:
        """Return phi, (n_samples, n_hidden), float32."""
        if self.embeddings is None:
            return np.ascontiguousarray(X.toarray() if isinstance(X, sp.csr_array) else X)
        x = X if isinstance(X, sp.csr_array) else sp.csr_array(X)
        if self.features is not None:
            x = some_columns(x, self.features)
        phi = self._embeddings().scores(csr_parts(x), NO_PHI, n_threads)
        return np.maximum(phi, 0, out=phi) if self.relu else phi

    def _embeddings(self) -> _core.CodedWeights:
        """The embeddings as the core's weights of `n_hidden` classes."""
        made, codes = self._core_made, self.embeddings
        assert codes is not None
        if made.embeddings is None:
            bias = np.zeros(self.n_hidden, dtype=np.float32)
            made.embeddings = _of_core(codes, by_feature=True, intercept=bias, n_features=len(codes.values))
        return made.embeddings

    def _weights(self) -> _core.CodedWeights:
        made = self._core_made
        if made.weights is None:
            made.weights = _of_core(
                self.rows,
                by_feature=self.kind == "feature_major",
                intercept=self.intercept,
                n_features=self.n_features,
                indptr=self.indptr,
                ids=self.classes,
                values=self.values,
            )
        return made.weights

    def _blocks(self, X: Matrix, n_threads: int) -> Iterator[tuple[slice, Any, Floats]]:
        """Rows of X as the core takes them, with phi where there is one."""
        x: Any = sp.csr_array(X) if self.sparse and not isinstance(X, sp.csr_array) else X
        if self.kind in ("feature_major", "postings"):
            yield slice(0, X.shape[0]), csr_parts(x), NO_PHI
            return
        step = max(1, BLOCK_NUMBERS // self.n_hidden)
        for first in range(0, X.shape[0], step):
            some = slice(first, min(first + step, X.shape[0]))
            phi = self.transform(x[some], n_threads)
            yield some, csr_parts(x[some]) if self.kind == "hybrid" else None, phi

    @refuses_damage
    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes); `scale`, which rows of other weights have, is left out."""
        own = self._weights()
        return np.concatenate([own.scores(x, phi, n_threads) for _, x, phi in self._blocks(X, n_threads)])

    @refuses_damage
    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class, as `LinearWeights.log_losses` does."""
        own, labels = self._weights(), np.ascontiguousarray(labels)
        parts = [own.log_losses(x, phi, labels[at], n_threads) for at, x, phi in self._blocks(X, n_threads)]
        losses, ranks = (np.concatenate(part) for part in zip(*parts, strict=True))
        if noise != "gumbel":
            losses = -log_probabilities_at(self, noise, X, labels[:, np.newaxis], n_threads).ravel()
        return losses, ranks

    @refuses_damage
    def top_k(self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel") -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first."""
        own = self._weights()
        parts = [own.top_k(x, phi, k, n_threads) for _, x, phi in self._blocks(X, n_threads)]
        classes, log_p = (np.concatenate(part) for part in zip(*parts, strict=True))
        if noise != "gumbel":
            log_p = log_probabilities_at(self, noise, X, classes, n_threads).astype(np.float32)
        return classes, log_p

    def score_tiles(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        step = max(1, BLOCK_NUMBERS // self.n_classes)
        for first in range(0, X.shape[0], step):
            yield first, self.scores(X[first : first + step], n_threads)

    @refuses_damage
    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        own = self._weights()
        return np.concatenate([own.log_normalizers(x, phi, n_threads) for _, x, phi in self._blocks(X, n_threads)])


def _of_core(
    rows: Codes | None,
    *,
    by_feature: bool,
    intercept: Floats,
    n_features: int,
    indptr: NDArray[np.int64] | None = None,
    ids: NDArray[Any] | None = None,
    values: Codes | None = None,
) -> _core.CodedWeights:
    return _core.CodedWeights(
        rows=NO_FLOATS if rows is None else rows.of_core(),
        row_scales=NO_FLOATS if rows is None else rows.scales,
        feature_major=by_feature,
        indptr=np.zeros(0, dtype=np.int64) if indptr is None else indptr,
        ids=np.zeros(0, dtype=np.int32) if ids is None else ids,
        values=NO_FLOATS if values is None else values.of_core(),
        value_scales=NO_FLOATS if values is None else values.scales,
        intercept=intercept,
        n_features=n_features,
    )


def stored(weights: Any) -> dict[str, Any]:
    """Return the layout of a model's weights, what they take in memory, and the type of their numbers."""
    dtype = weights.dtype if isinstance(weights, CodedWeights) else "float32"
    return {"weights": weights.layout, "weight_bytes": weights.nbytes, "weight_dtype": dtype}


def core_rows(codes: Codes) -> _core.CodedWeights:
    """Return rows as the core's weights over dense data, without intercepts: their products are scores."""
    n_rows, width = codes.values.shape
    return _of_core(codes, by_feature=False, intercept=np.zeros(n_rows, dtype=np.float32), n_features=width)


def padded(n: int) -> int:
    """Return n rounded up to whole sixteens."""
    return -(-n // LINE) * LINE


def some_columns(x: sp.csr_array, columns: Ids) -> sp.csr_array:
    """Return sorted columns of a matrix; as scipy does, without a table of all of them for a single row."""
    places = np.searchsorted(columns, x.indices)
    there = columns[np.minimum(places, len(columns) - 1)] == x.indices
    before = np.concatenate(([0], np.cumsum(there)))
    return sp.csr_array((x.data[there], places[there], before[x.indptr]), shape=(x.shape[0], len(columns)))
