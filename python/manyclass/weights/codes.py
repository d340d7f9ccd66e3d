"""Numbers in fewer bits: half precision, or bytes with a scale a row.

A number is a float32, a float16, or s c with an integer c in [-127, 127] and a float32 scale s of its row: of weights,
of the feature where they stand by feature or on pairs, of the class where they stand by class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.weights.arrays import BLOCK_NUMBERS, NO_FLOATS, Floats

Dtype = Literal["float32", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "int8")

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
