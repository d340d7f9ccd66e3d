"""Columns of X, any number of them, onto rows of weights: by a hash, or those columns alone that rows use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import as_csr, check_number, csr_parts
from manyclass.weights.arrays import Ids, Matrix


@dataclass(frozen=True)
class FeatureHash:
    """The map of Weinberger et al. (ICML 2009), as scikit-learn's `FeatureHasher` makes it.

    Column j is added to column |h(j)| mod `n_rows`, with the sign of h(j), h being MurmurHash3. Signs make the inner
    product of two hashed rows that of the rows themselves in expectation: features that meet add noise and no bias.

    Attributes
    ----------
    n_rows : int
        Columns of what `apply` returns.
    seed : int
        The seed of the hash.
    """

    n_rows: int
    seed: int = 0

    def apply(self, x: Matrix) -> sp.csr_array:
        """Return the rows of x, of whatever width, with `n_rows` columns, in float32; sorted, without duplicates."""
        indptr, columns, values = _core.hash_features(csr_parts(as_csr(x)), x.shape[1], self.n_rows, self.seed)
        return sp.csr_array((values, columns, indptr), shape=(x.shape[0], self.n_rows))

    @classmethod
    def decoded(cls, numbers: Mapping[str, Any]) -> FeatureHash:
        """Return what a file holds as its fields; raises ValueError or TypeError for what is none."""
        check_number("n_rows", numbers["n_rows"], low=1, high=2**31 - 1, integer=True)
        check_number("seed", numbers["seed"], low=0, high=2**32 - 1, integer=True)
        return cls(int(numbers["n_rows"]), int(numbers["seed"]))


@dataclass(frozen=True)
class UsedColumns:
    """The columns that the rows of a training have, where X is so wide that a number for each column would cost more.

    Other columns have no weights: scores, `coef_` and all else are as if these were 0.

    Attributes
    ----------
    ids : ndarray of shape (n_rows,), int32
        Distinct columns, each of a row of weights; ascending, but for those that later calls have brought.
    """

    ids: Ids

    @classmethod
    def of(cls, x: sp.csr_array) -> Self:
        """Return the columns of rows, one at least."""
        return cls(np.unique(x.indices).astype(np.int32) if x.nnz else np.zeros(1, np.int32))

    @property
    def n_rows(self) -> int:
        """Columns of what `apply` returns."""
        return len(self.ids)

    def grown(self, x: Matrix) -> Self:
        """Return these, and behind them the others that rows have."""
        new = np.setdiff1d(as_csr(x).indices, self.ids)
        return replace(self, ids=np.append(self.ids, new).astype(np.int32)) if len(new) else self

    def apply(self, x: Matrix) -> sp.csr_array:
        """Return the rows of x with these columns alone, in canonical form."""
        x = as_csr(x)
        order = np.argsort(self.ids)
        places = order[np.minimum(np.searchsorted(self.ids, x.indices, sorter=order), self.n_rows - 1)].astype(np.int32)
        is_known = self.ids[places] == x.indices
        indptr = np.concatenate(([0], np.cumsum(is_known)))[x.indptr]
        rows = sp.csr_array((x.data[is_known], places[is_known], indptr), shape=(x.shape[0], self.n_rows))
        rows.sort_indices()
        return rows

    def spread(self, array: Any, n_features: int, axis: int = 1) -> Any:
        """Return what `array` has along these columns for all columns, 0 for others: a copy, sparse where it is."""
        shape = tuple(n_features if place == axis else n for place, n in enumerate(array.shape))
        if not isinstance(array, np.ndarray):
            coo_array: Any = sp.coo_array
            cells = array.tocoo()
            return coo_array((cells.data, (cells.row, self.ids[cells.col])), shape=shape).asformat(array.format)
        full = np.zeros(shape, dtype=array.dtype)
        np.moveaxis(full, axis, 0)[self.ids] = np.moveaxis(array, axis, 0)
        return full
