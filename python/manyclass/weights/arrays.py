"""Arrays: their types, memory that begins at cache lines or is mapped from a file, and those of a model's weights.

A number of a mapped array that is not finite is found where it reaches a score.

Weights are of any kind and in any storage. The score of class k is w_k.phi(x) + sum_j x_j s_jk + b_k. W are rows of
features, or of classes; phi is x, or a sum of embeddings of its features; s_jk are weights on pairs of a feature and a
class. Each term may be left out. Numbers are float32 as they were trained, or float16, or int8 with a scale for each
row, and may be mapped from a file.

Beside weights on pairs there may be counts of the rows that have both, mixed in probability: with softmax_k of the
scores, p_k = (1 - l m) softmax_k + l q_k, where q_k = sum_j a_j C_jk / (C_j + s), a_j = |x_j| / sum_j |x_j| and
m = sum_k q_k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core

LINE = 16  # floats in a cache line: rows of feature-major weights are padded to whole lines
BLOCK_NUMBERS = 1 << 22  # of scores, of phi or of weights in hand at once: 16 MB

Ids = NDArray[np.int32]  # of classes or features
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Matrix = sp.csr_array | Floats
Data = ArrayLike | sp.sparray | sp.spmatrix  # what an estimator takes as X
# Rows and a number of classes to the positions, values and standard errors of the best ones.
Best = Callable[[Matrix, int], tuple[Ids, Floats, Doubles]]

NO_FLOATS = np.zeros(0, dtype=np.float32)
NO_DOUBLES = np.zeros(0)


def padded(n: int) -> int:
    """Return n rounded up to whole cache lines of floats."""
    return -(-n // LINE) * LINE


def aligned_zeros(n_rows: int, n_columns: int) -> Floats:
    """Zeros that start at a cache line; pages are not touched before they are used."""
    try:
        flat = np.zeros(n_rows * n_columns + LINE, dtype=np.float32)
    except MemoryError as error:
        raise MemoryError(
            f"weights of {n_rows} by {n_columns} take {4 * n_rows * n_columns / 1e9:.1f} GB, more than there is; "
            "model='embedding' or 'pairs' takes less, and a manyclass.datasets.Stream fitted with max_memory hashes "
            "features"
        ) from error
    start = -(flat.ctypes.data // 4) % LINE
    return flat[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


def map_of(array: Any) -> np.memmap[Any, Any] | None:
    """Return the memory map of a file that an array is, or is a view of."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return array if isinstance(array, np.memmap) else None


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return rows of floats as they are where they start at a cache line or are mapped, else such a copy."""
    starts = array.ctypes.data % (4 * LINE) == 0
    if starts or array.dtype != np.float32 or array.ndim != 2 or map_of(array) is not None:
        return array
    copy = aligned_zeros(*array.shape)
    copy[:] = array
    return copy


class Map(np.memmap[Any, Any]):
    """A read-only memory map of an array of a file.

    Attributes
    ----------
    path : str
        The file, as it was named.
    name : str
        The array.
    is_checked : bool
        Whether all numbers were found to be finite.
    """

    path: str
    name: str
    is_checked = False


def is_finite(array: NDArray[Any]) -> bool:
    """Whether all numbers are, without a second array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def check_maps(weights: object) -> None:
    """Raise ValueError, with the name of the file, where an array that weights have mapped is not finite.

    It reads them, so it is for weights of which a score was not finite: those, or huge ones that overflowed.
    """
    for value in vars(weights).values():
        if isinstance(file := map_of(value), Map) and not file.is_checked:
            if file.dtype.kind == "f" and not is_finite(np.asarray(file)):
                raise ValueError(
                    f"{file.path} is damaged: {file.name!r} has numbers that are not finite; with mmap=False, `load` "
                    "checks them"
                )
            file.is_checked = True


# The weights of a model

Dtype = Literal["float32", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "int8")

LARGEST_HALF = 65504.0


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
    def of(cls, numbers: Floats, dtype: Dtype, indptr: NDArray[np.int64] | None = None) -> Codes:
        """Encode a matrix, or the numbers of rows one after the other, each in int8 or rounded to the nearest there is.

        Raises
        ------
        ValueError
            If a number is not finite, or too large for float16.
        """
        if dtype == "int8":
            ends = np.arange(len(numbers) + 1) * numbers.shape[1] if indptr is None else indptr
            values, scales = _core.byte_codes(np.ascontiguousarray(numbers), ends)
            return cls(values.reshape(numbers.shape), scales)
        largest = float(np.maximum(numbers.max(initial=0), -numbers.min(initial=0)))
        if not np.isfinite(largest):
            raise ValueError(
                f"a weight is {largest}; only finite weights can be compressed: fit again, with smaller steps"
            )
        if dtype == "float16" and largest > LARGEST_HALF:
            raise ValueError(
                f"a weight is {largest:g} in magnitude; float16 ends at {LARGEST_HALF:g}: use dtype='int8', or scale X"
            )
        return cls(numbers.astype(dtype), NO_FLOATS)

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.values.nbytes + self.scales.nbytes

    def of_core(self) -> NDArray[Any]:
        """The values as the core takes them: halves by their bits."""
        return self.values.view(np.uint16) if self.values.dtype == np.float16 else self.values

    def plain(self, indptr: NDArray[np.int64] | None = None) -> Floats:
        """Return them as float32: of a matrix, or of rows one after the other."""
        numbers = self.values.astype(np.float32)
        if len(self.scales):
            numbers *= self.scales[:, np.newaxis] if indptr is None else np.repeat(self.scales, np.diff(indptr))
        return numbers


Kind = Literal["feature_major", "class_major", "phi", "pairs", "hybrid"]
LAYOUTS: Mapping[Kind, str] = {
    "feature_major": "feature-major (for sparse data)",
    "class_major": "class-major (for dense data)",
    "phi": "class-major (for dense data)",
    "pairs": "pairs (the classes of each feature)",
    "hybrid": "pairs (the classes of each feature), and class-major beside embeddings",
}
NOTHING = np.zeros((0, 0), dtype=np.float32)
NO_IDS = np.zeros((0, 0), dtype=np.int32)
NO_OWN = np.zeros(0, dtype=np.int32)
NO_OFFSETS = np.zeros(0, dtype=np.int64)


NO_ROWS: dict[str, Any] = {"matrix": NOTHING, "embeddings": NOTHING, "centre": NO_FLOATS, "n_hidden": 0}
NO_ROWS |= {"intercept_column": False, "relu": False}


@dataclass(frozen=True)
class Mixture:
    """The numbers of a mixture in probability; `evaluate/count_mixture.hpp` of the core has the formula.

    Attributes
    ----------
    share : float
        l, in [0, 1), of counts.
    shrinkage : float
        s, above 0 where l is.
    counts_own : bool
        Whether counts speak of the classes, too, that a row has as features.
    repeats : float
        rho, in [0, 1), the share of repeats of such classes, which are none where it is 0.
    power : float
        gamma, at least 0, the power of their values.
    rate : float
        mu, in [0, 1], where classes repeat at rates of their own: how often features that are classes came next. 0: all
        repeat alike.
    kept : int
        Classes that stay the first ones, in the order of the scores without a mixture.
    both : bool
        Whether C_jk counts, too, the rows that have k as a feature and j as a label: what came before and after.
    """

    share: float = 0.0
    shrinkage: float = 0.0
    counts_own: bool = False
    repeats: float = 0.0
    power: float = 0.0
    rate: float = 0.0
    kept: int = 0
    both: bool = False

    @property
    def in_core(self) -> dict[str, Any]:
        """The numbers that scores are made with."""
        numbers = dict(vars(self))
        del numbers["both"]
        return numbers

    @property
    def is_on(self) -> bool:
        """Whether anything is mixed in."""
        return self.share > 0 or self.repeats > 0

    def mean(self, other: Mixture, ours: float, theirs: float) -> Mixture:
        """Return the mixture of a weighted mean; what is no number is that of the one with more repeats."""
        # The shrinkage is in the unit of the counts, of which a run without any has none.
        names = ("share", "shrinkage", "repeats")
        means: dict[str, Any] = {n: float(ours * getattr(self, n) + theirs * getattr(other, n)) for n in names}
        n_kept = max(self.kept, other.kept)
        return replace(self if self.repeats >= other.repeats else other, kept=n_kept, **means)


UNMIXED = Mixture()
NO_PAIRS: dict[str, Any] = {"indptr": NO_OFFSETS, "classes": NO_IDS, "values": NO_FLOATS, "mixture": UNMIXED}
NO_PAIRS |= {"counts": NO_FLOATS, "totals": NO_FLOATS, "own": NO_OWN}


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredWeights:
    """The arrays, whose numbers training moves in place.

    Attributes
    ----------
    kind : str
        "feature_major": rows of features, with a weight for every class. "class_major": rows of classes over x. "phi":
        rows of classes over phi(x). "pairs": weights on pairs. "hybrid": the sum of the last two.
    bias : ndarray of shape (n_classes,), float32
        Intercepts, but those in a column of the rows; zeros if the model has none.
    n_features : int
    matrix : ndarray
        Rows: (n_features, n_classes rounded up to 16), or (n_classes, n_features), or over phi, as they were trained,
        (n_classes, width): w_k, then its intercept if there is an `intercept_column`, then zeros up to a whole line.
        Compressed ones are (n_classes, n_hidden). Never written to by a question; a read-only memory map will do.
    embeddings : ndarray of shape (n_features, width), (n_features + 1, width) or (0, 0)
        e_j, padded with zeros; none: phi(x) = x. Compressed: (n_kept, n_hidden rounded up to 16).
    centre : ndarray of shape (n_features + 1,) or (0,), float32
        m, which a hidden layer of dense rows takes from (x, 0): the last embedding is its bias, times -m_D. None: 0.
    features : ndarray of shape (n_kept,), int32, or None
        Which features have embeddings, sorted; None: all.
    indptr : ndarray of shape (n_features + 1,)
        Weights of feature j on pairs stand in `[indptr[j], indptr[j + 1])`.
    classes : ndarray of shape (n_pairs,)
        Their classes, those of a feature sorted.
    values : ndarray of shape (n_pairs,)
        The weights.
    n_hidden : int
        Length of phi.
    intercept_column : bool
        Whether phi is followed by a 1.
    relu : bool
        Whether phi(x) = max(sum_j (x_j - m_j) e_j, 0).
    by_minibatches : bool
        Whether feature-major rows were trained by minibatches, as those over phi are, and training goes on so.
    scales : ndarray of shape (2,), float64
        What the scores of pairs and of rows have been multiplied by since they were trained: training goes on without.
    counts : ndarray of shape (n_pairs,) or (0,), float32
        C_jk: the rows with feature j and class k, of each pair; none: no counts are mixed in.
    totals : ndarray of shape (n_features,) or (0,), float32
        C_j: the labels of all rows with feature j.
    own : ndarray of shape (n_features,) or (0,), int32
        The class that each feature is, or -1; none: no feature is a class.
    mixture : Mixture
        How the softmax, counts and repeats of own classes are mixed.
    codes : mapping of str to ndarrays, or None
        Of compressed weights, which are for predictions only, the scales of the rows of int8 arrays, by their names.
    """

    kind: Kind
    bias: Floats
    n_features: int
    matrix: NDArray[Any] = field(default_factory=lambda: NOTHING)
    embeddings: NDArray[Any] = field(default_factory=lambda: NOTHING)
    centre: Floats = field(default_factory=lambda: NO_FLOATS)
    features: Ids | None = None
    indptr: NDArray[np.int64] = field(default_factory=lambda: NO_OFFSETS)
    classes: NDArray[Any] = field(default_factory=lambda: NO_IDS)
    values: NDArray[Any] = field(default_factory=lambda: NO_FLOATS)
    n_hidden: int = 0
    intercept_column: bool = False
    relu: bool = False
    by_minibatches: bool = False
    scales: Doubles = field(default_factory=lambda: np.ones(2))
    counts: Floats = field(default_factory=lambda: NO_FLOATS)
    totals: Floats = field(default_factory=lambda: NO_FLOATS)
    own: Ids = field(default_factory=lambda: NO_OWN)
    mixture: Mixture = field(default_factory=lambda: UNMIXED)
    codes: Mapping[str, Floats] | None = None

    # Of each kind

    @classmethod
    def linear(cls, matrix: Floats, intercept: Floats, *, by_feature: bool) -> Self:
        """Return those of a linear model over x, with rows of features (for sparse data) or of classes."""
        kind: Kind = "feature_major" if by_feature else "class_major"
        n_features = matrix.shape[0 if by_feature else 1]
        return cls(kind=kind, bias=intercept, n_features=n_features, matrix=matrix, n_hidden=n_features)

    @classmethod
    def zeros(cls, n_classes: int, n_features: int, *, by_feature: bool) -> Self:
        """Return those of a linear model that are all 0."""
        shape = (n_features, padded(n_classes)) if by_feature else (n_classes, n_features)
        return cls.linear(aligned_zeros(*shape), np.zeros(n_classes, np.float32), by_feature=by_feature)

    @classmethod
    def start_over_phi(
        cls,
        n_classes: int,
        n_features: int,
        *,
        embedding_dim: int | None,
        intercept: bool,
        relu: bool,
        rng: np.random.Generator | None = None,
        by_feature: bool = False,
        centre: Floats = NO_FLOATS,
    ) -> Self:
        """Return W = 0, as rows of features or of classes, the latter over normal embeddings of expected length 1."""
        if by_feature:
            return replace(cls.zeros(n_classes, n_features, by_feature=True), by_minibatches=True)
        n_hidden = n_features if embedding_dim is None else embedding_dim
        width, n_rows = padded(n_hidden + intercept), len(centre) or n_features
        embeddings = aligned_zeros(n_rows, width) if embedding_dim is not None and rng is not None else NOTHING
        if embeddings.size and rng is not None:
            for rows_of_block in np.array_split(embeddings[:, :n_hidden], 1 + embeddings.size // BLOCK_NUMBERS):
                rows_of_block[:] = rng.standard_normal(rows_of_block.shape, dtype=np.float32)
            embeddings *= np.float32(1 / np.sqrt(n_hidden))
        rows = cls.linear(aligned_zeros(n_classes, width), np.zeros(n_classes, np.float32), by_feature=False)
        more: dict[str, Any] = {"n_features": n_features, "embeddings": embeddings, "centre": centre}
        return replace(rows, kind="phi", **more, n_hidden=n_hidden, intercept_column=intercept, relu=relu)

    @classmethod
    def on_pairs(
        cls, indptr: NDArray[np.int64], classes: NDArray[Any], values: NDArray[Any] | None, intercept: Floats
    ) -> Self:
        """Return those on a support; None: 0."""
        if values is None:
            values = np.zeros(len(classes), np.float32)
        return cls(
            kind="pairs", bias=intercept, n_features=len(indptr) - 1, indptr=indptr, classes=classes, values=values
        )

    def beside(self, rows: Self) -> Self:
        """Return these, on pairs, and rows over phi, each on the scale of the sum of both."""
        fields = {name: getattr(rows, name) for name in NO_ROWS}
        return replace(self, kind="hybrid", scales=np.array([self.scales[0], rows.scales[1]]), **fields)

    @property
    def pairs_alone(self) -> Self:
        """The weights on pairs, with their intercepts, and nothing mixed in; they share memory with these."""
        return replace(self, kind="pairs", mixture=replace(self.mixture, share=0.0, repeats=0.0), **NO_ROWS)

    @property
    def rows_alone(self) -> Self:
        """The rows over phi, with their intercepts; they share memory with these."""
        if self.by_minibatches:
            return self
        scales = np.array([1.0, self.scales[1]])
        return replace(self, kind="phi", bias=np.zeros(self.n_classes, np.float32), scales=scales, **NO_PAIRS)

    # What they are

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.bias)

    @property
    def is_linear(self) -> bool:
        """Whether they are those of a linear model over x, trained point by point or to the optimum."""
        linear = self.kind in ("feature_major", "class_major") and not self.by_minibatches
        return linear and self.codes is None

    @property
    def by_feature(self) -> bool:
        """Whether rows are those of features."""
        return self.kind == "feature_major"

    @property
    def sparse(self) -> bool:
        """Whether points are read by their stored values."""
        return self.by_feature or self.has_pairs or self.mixture.is_on

    @property
    def has_pairs(self) -> bool:
        """Whether there are weights on pairs."""
        return self.kind in ("pairs", "hybrid")

    @property
    def has_phi(self) -> bool:
        """Whether there are rows of classes over a feature map."""
        return self.kind in ("phi", "hybrid")

    @property
    def dtype(self) -> str:
        """The type of the numbers."""
        return (self.values if self.has_pairs else self.matrix).dtype.name

    @property
    def layout(self) -> str:
        """How they are stored, in words."""
        scaled = {"int8": ", int8 with a scale a row", "float16": ", float16"}.get(self.dtype, "")
        dropped = "" if self.features is None else f", {len(self.features)} of {self.n_features} features"
        return LAYOUTS[self.kind] + scaled + dropped

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        arrays = [array for name, array in vars(self).items() if isinstance(array, np.ndarray) and name != "scales"]
        return sum(array.nbytes for array in (*arrays, *(self.codes or {}).values()))

    def is_finite(self) -> bool:
        """Whether all numbers are."""
        return all(map(is_finite, (self.matrix, self.embeddings, self.values, self.bias)))

    @property
    def intercept(self) -> Floats:
        """b, (n_classes,): a view, but of both parts of a sum."""
        if not self.intercept_column:
            return self.bias
        column: Floats = self.matrix[:, self.n_hidden]
        return column if self.kind == "phi" else self.bias + column

    @property
    def coef(self) -> Any:
        """W, (n_classes, n_hidden), float32, of pairs a csc_array: a view, but of compressed weights.

        Raises
        ------
        AttributeError
            If the scores are a sum of two terms.
        """
        if self.kind == "hybrid":
            raise AttributeError("a hybrid model has no one matrix of weights; `embedding_` has its embeddings")
        if self.kind == "pairs":
            values = self.values if self.codes is None else self._coded("values").plain(self.indptr)
            ids = self.classes.astype(np.int32, copy=False)
            return sp.csc_array((values, ids, self.indptr), shape=(self.n_classes, self.n_features))
        matrix = self.matrix if self.codes is None else self._coded("matrix").plain()
        return matrix[:, : self.n_classes].T if self.by_feature else matrix[:, : self.n_hidden]

    @property
    def class_rows(self) -> Floats:
        """The rows over phi without their intercepts, (n_classes, n_hidden), float32."""
        return self.rows_alone.coef if self.codes is None else self._coded("matrix").plain()

    @property
    def embedding(self) -> Floats:
        """The embeddings, (n_features, n_hidden), float32, 0 for features without; a view, but of compressed ones."""
        if self.codes is None:
            return self.embeddings[: self.n_features, : self.n_hidden]
        table = np.zeros((len(self.centre) or self.n_features, self.n_hidden), dtype=np.float32)
        rows = slice(None) if self.features is None else self.features
        table[rows] = self._coded("embeddings").plain()[:, : self.n_hidden]
        return table[: self.n_features]

    @property
    def columns(self) -> Floats:
        """The rows over phi with their intercepts and without padding: what an index holds, as a view."""
        return self.matrix[:, : self.n_hidden + self.intercept_column]

    def refuse_compressed(self, action: str) -> None:
        """Raise ValueError where these are the weights of a compressed model."""
        if self.codes is not None:
            raise ValueError(
                f"{action} needs the weights that were trained; this model was compressed, to {self.dtype}, and is for "
                f"predictions: keep the original, call {action} on it"
                f"{' with other arguments' if action == 'compress' else ' and compress that again'}"
            )

    def _coded(self, name: str) -> Codes:
        return Codes(getattr(self, name), (self.codes or {}).get(name, NO_FLOATS))


def csr_from_core(
    data: NDArray[Any], indices: NDArray[np.int32], indptr: NDArray[np.int64], shape: tuple[int, int]
) -> sp.csr_array:
    """Return a SciPy matrix over the arrays; only indptr is copied.

    SciPy wants one type for both index arrays, and widens the indices if indptr is wider.
    """
    small = len(indices) <= np.iinfo(np.int32).max
    return sp.csr_array((data, indices, indptr.astype(np.int32) if small else indptr), shape=shape)
