"""The scales of features: training sees (x - shift) / scale, and its W is folded back so that the model takes x."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.weights.arrays import Doubles, Matrix, row_norms_sq
from manyclass.weights.weights import Weights

# The score of a feature whose mean is so many times its spread is rounded by a tenth of its share in float32. One that
# varies less counts as if it varied so much, and the ridge keeps its weight small; a weighted mean of constants is so
# near to them that they need this.
MOST_MEANS = 1e6
# Weights of features with a smaller scale might overflow in float32; they stay 0, since nothing is left of the feature.
SMALLEST = 1e-32
# Scales of sparse features that differ by less are left as they are: the values of rare and frequent words do, by 15 on
# eurlex57k, and that is information; dividing by them costs 0.07 nats there and 0.03 on delicious.
MOST_SPREAD = 100.0
# Root mean square of the lengths of sparse rows that is left as it is: shorter ones learn more slowly than intercepts
# (3.52 nats on bibtex for lengths of 1/4), and between these there is no clear best (2.58 to 2.64).
LENGTHS = (1.0, 8.0)
MOST = float(np.finfo(np.float32).max)
BLOCK = 1 << 20  # numbers in double precision at once


@dataclass(frozen=True)
class FeatureScaling:
    """What is taken off features, and what they are divided by.

    Attributes
    ----------
    shift : ndarray of shape (n_features,), float64
        0 for features that keep their zeros, and of models without intercepts, which could not take it up.
    scale : ndarray of shape (n_features,), float64
        More than 0; infinite for features that are too small for float32.
    """

    shift: Doubles
    scale: Doubles

    @classmethod
    def of(cls, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Measure the data: mean and standard deviation, of features of mostly zeros the root mean square of the rest.

        All sparse features count as such. Where these differ by a factor of at most 100, all are divided instead by the
        power of two, which rounds nothing, that brings the root mean square of the rows' lengths to 1 to 8. All means
        are weighted.
        """
        r = None if weights is None else weights / weights.mean()
        if isinstance(x, sp.csr_array):
            scale = _sparse_scale(x, None if r is None else np.repeat(r, np.diff(x.indptr)))
            return cls._usable(np.zeros(len(scale)), scale)

        def sums(of: Callable[[Doubles], Any], shift: Doubles) -> Doubles:
            """Sums over rows of something of their features less a shift: not by BLAS, whose sums depend on threads."""
            total = np.zeros(x.shape[1])
            for first, block in _blocks(x, shift):
                some = of(block)
                total += (some if r is None else r[first : first + len(some), np.newaxis] * some).sum(axis=0)
            return total

        n, zeros = x.shape[0], np.zeros(x.shape[1])
        others = sums(lambda block: block != 0, zeros)
        full = others > n / 2
        shift = np.where(full & centre, sums(lambda block: block, zeros) / n, zeros)
        scale = np.sqrt(sums(np.square, shift) / np.where(full, n, np.where(others > 0, others, 1.0)))
        return cls._usable(shift, np.maximum(scale, np.abs(shift) / MOST_MEANS))

    @classmethod
    def of_first_part(cls, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Measure the first rows of a stream, of which a few heavy ones and features that are not there tell nothing.

        As `of`, but sparse features differ where nine tenths of those that are there do, features that are not have
        the median scale, and the median of the rows' lengths counts.
        """
        if not isinstance(x, sp.csr_array):
            return cls.of(x, centre=centre, weights=weights)
        squares = np.bincount(x.indices, np.square(x.data, dtype=np.float64), minlength=x.shape[1])
        scale = np.sqrt(squares / np.maximum(np.bincount(x.indices, x.data != 0, minlength=x.shape[1]), 1))
        there = scale >= SMALLEST
        low, middle, high = np.quantile(scale[there], (0.05, 0.5, 0.95)) if there.any() else (1.0, 1.0, 1.0)
        if high <= MOST_SPREAD * low:
            length = max(float(np.sqrt(np.median(row_norms_sq(x)))), SMALLEST)
            return cls._usable(np.zeros(len(scale)), np.full(len(scale), _power_of_two(length)))
        return cls._usable(np.zeros(len(scale)), np.where(there, scale, middle))

    @classmethod
    def _usable(cls, shift: Doubles, scale: Doubles) -> FeatureScaling:
        scale[scale == 0] = 1.0
        scale[scale < SMALLEST] = np.inf
        return cls(shift, scale)

    def widened(self, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Return that of data with more features: of sparse ones the scale that all share, else as `of` measures them.

        Nothing changes for the features of now.
        """
        n = len(self.scale)
        if n == x.shape[1]:
            return self
        if isinstance(x, sp.csr_array) and np.all(self.scale == self.scale[0]):
            n_more = x.shape[1] - n
            more = FeatureScaling(np.zeros(n_more), np.full(n_more, self.scale[0]))
        else:
            more = FeatureScaling.of(x[:, n:], centre=centre, weights=weights)
        return FeatureScaling(np.append(self.shift, more.shift), np.append(self.scale, more.scale))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return not self.shift.any() and bool(np.all(self.scale == 1))

    def apply(self, x: Matrix) -> Matrix:
        """Return the features that training sees, in float32: a copy, of the values only where x is sparse."""
        if self.is_identity:
            return x
        if isinstance(x, sp.csr_array):
            values = np.clip(x.data / self.scale[x.indices], -MOST, MOST).astype(np.float32)
            return sp.csr_array((values, x.indices, x.indptr), shape=x.shape)
        scaled = np.empty(x.shape, dtype=np.float32)
        for first, block in _blocks(x, self.shift):  # rows of next to no weight may be far beyond the scale
            np.clip(block / self.scale, -MOST, MOST, out=scaled[first : first + len(block)], casting="same_kind")
        return scaled

    def fold(self, weights: Weights) -> None:
        """Turn weights of scaled features into those of x that give the same scores, in place."""
        if self.is_identity:
            return
        coef = weights.coef
        with np.errstate(over="ignore"):  # of tiny features: the largest weights of single precision are the nearest
            np.divide(coef, self.scale, out=coef, casting="same_kind")
        np.clip(coef, -MOST, MOST, out=coef)
        if self.shift.any():
            shifted = weights.intercept - np.einsum("kj,j->k", coef, self.shift, dtype=np.float64)
            weights.intercept[:] = np.clip(shifted, -MOST, MOST)

    def unfold(self, weights: Weights) -> Weights:
        """Return the weights of scaled features that `fold` makes these of: a copy."""
        copied = Weights.linear(weights.matrix.copy(), weights.intercept.copy(), by_feature=weights.sparse)
        self.unfold_in_place(copied)
        return copied

    def unfold_in_place(self, weights: Weights) -> None:
        """Turn weights of x into those of scaled features, in place, without another array of their size."""
        if self.is_identity:
            return
        seen = np.where(np.isfinite(self.scale), self.scale, 0.0)
        if self.shift.any():
            shifted = weights.intercept + np.einsum("kj,j->k", weights.coef, self.shift, dtype=np.float64)
            weights.intercept[:] = np.clip(shifted, -MOST, MOST)
        factors = seen[:, np.newaxis] if weights.sparse else seen
        with np.errstate(over="ignore"):
            np.multiply(weights.matrix, factors, out=weights.matrix, casting="same_kind")
        np.clip(weights.matrix, -MOST, MOST, out=weights.matrix)


def _blocks(x: Matrix, shift: Doubles) -> Iterator[tuple[int, Doubles]]:
    """Rows less the shift in double precision, some at a time, with the number of the first."""
    step = max(1, BLOCK // max(1, x.shape[1]))
    for first in range(0, x.shape[0], step):
        yield first, x[first : first + step] - shift


def _sparse_scale(x: sp.csr_array, weights: Doubles | None = None) -> Doubles:
    """`weights` are those of the stored values, by their rows."""
    values = x.data.astype(np.float64)
    squares = np.bincount(x.indices, np.square(values) * (1 if weights is None else weights), minlength=x.shape[1])
    seen_values = (values != 0) if weights is None else weights * (values != 0)
    counts = np.bincount(x.indices, seen_values, minlength=x.shape[1])
    scale: Doubles = np.sqrt(squares / np.where(counts > 0, counts, 1))
    seen = scale[scale >= SMALLEST]
    if len(seen) and seen.max() > MOST_SPREAD * seen.min():
        return scale
    return np.full(len(scale), _power_of_two(max(float(np.sqrt(squares.sum() / max(1, x.shape[0]))), SMALLEST)))


def _power_of_two(length: float) -> float:
    """Return the power of two that rows of this length are divided by, to have one of 1 to 8."""
    return float(2.0 ** np.round(np.log2(length / np.clip(length, *LENGTHS))))
