"""A table of rows in fewer bits that is indexed and multiplied as an array is; and the norms of the rows of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.weights.arrays import BLOCK_NUMBERS, NO_FLOATS, Floats
from manyclass.weights.storage import Codes
from manyclass.weights.weights import core_rows


@dataclass
class CodedTable:
    """Rows in fewer bits that are indexed, multiplied and measured as an array of float32 is.

    Attributes
    ----------
    codes : Codes of shape (n_words, dim)
    """

    codes: Codes

    dtype = np.dtype(np.float32)
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """(n_words, dim)."""
        n_words, dim = self.codes.values.shape
        return n_words, dim

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.codes.nbytes

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.codes.values)

    def __getitem__(self, rows: Any) -> Any:
        """Float32 rows, a copy; of a slice a table that shares the codes."""
        scales = self.codes.scales
        if isinstance(rows, slice):
            return CodedTable(Codes(self.codes.values[rows], scales[rows]))
        found = self.codes.values[rows].astype(np.float32)
        with np.errstate(over="ignore"):  # of a training that diverged
            return found if not len(scales) else found * scales[rows][..., np.newaxis]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows as float32, for what needs an array."""
        plain = self.codes.plain()
        return plain if dtype is None else plain.astype(dtype)

    def __matmul__(self, query: Floats) -> Floats:
        """Products of all rows with a vector, by the core, from the codes."""
        own = core_rows(Codes(np.ascontiguousarray(self.codes.values), np.ascontiguousarray(self.codes.scales)))
        phi = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        products: Floats = own.scores(None, phi, NO_FLOATS, 1)[0]
        return products


def row_norms(table: Floats | CodedTable) -> Floats:
    """Euclidean norms of rows, some rows at a time; 1 where a row is zero."""
    step = max(1, BLOCK_NUMBERS // max(1, table.shape[1]))
    parts = [np.linalg.norm(np.asarray(table[i : i + step], np.float64), axis=1) for i in range(0, len(table), step)]
    norms: Floats = np.minimum(np.concatenate([NO_FLOATS, *parts]), np.finfo(np.float32).max).astype(np.float32)
    norms[norms == 0] = 1
    return norms
