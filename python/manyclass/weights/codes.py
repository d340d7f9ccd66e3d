"""Numbers in fewer bits: half precision, or bytes with a scale a row.

A number is a float32, a float16, or s c with an integer c in [-127, 127] and a float32 scale s of its row: of weights,
of the feature where they stand by feature or on pairs, of the class where they stand by class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.weights.arrays import BLOCK_NUMBERS, NO_FLOATS, Floats

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
    def of_rows(cls, matrix: Floats, dtype: Dtype) -> Codes:
        """Encode a matrix, some rows at a time; raises ValueError as `encoded` does."""
        if dtype == "int8":
            values, scales = _core.byte_codes(
                np.ascontiguousarray(matrix), np.arange(len(matrix) + 1) * matrix.shape[1]
            )
            return cls(values.reshape(matrix.shape), scales)
        values = np.empty(matrix.shape, dtype=dtype)
        step = max(1, BLOCK_NUMBERS // max(1, matrix.shape[1]))
        for first in range(0, len(matrix), step):
            values[first : first + step] = encoded(matrix[first : first + step], dtype)
        return cls(values, NO_FLOATS)

    @classmethod
    def of_lists(cls, numbers: Floats, indptr: NDArray[np.int64], dtype: Dtype) -> Codes:
        """Encode the numbers of rows that stand one after the other."""
        if dtype == "int8":
            return cls(*_core.byte_codes(numbers, indptr))
        return cls(encoded(numbers, dtype), NO_FLOATS)

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


def encoded(numbers: Floats, dtype: Dtype) -> NDArray[Any]:
    """Return numbers in float32 or float16, each rounded to the nearest there is.

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
    return numbers.astype(dtype)
