"""Feature hashing: columns of X, any number of them, onto as many rows of weights as memory has room for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import as_csr, check_number, csr_parts
from manyclass.weights.arrays import Matrix


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
