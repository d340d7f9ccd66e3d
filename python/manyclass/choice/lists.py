"""Lists of alternatives by row: those that each row may choose from, or those of which there is more to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import Doubles, Ids


@dataclass(frozen=True)
class ChoiceLists:
    """Lists of rows, one after the other.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64, where each begins
    alternatives : ndarray of shape (n_listed,), int32, increasing within a row but where they were drawn
    features : ndarray of shape (n_listed, n_pair_features), float64
    offsets : ndarray of shape (n_listed,), float64, of which -infinity takes an alternative out
    only : bool
        Whether what a row does not list cannot be chosen.
    log_weights : ndarray of shape (n_listed,), float64
        Logarithms of how many each drawn alternative stands for; of size 0 where none were drawn.
    """

    indptr: NDArray[np.int64]
    alternatives: Ids
    features: Doubles
    offsets: Doubles
    only: bool
    log_weights: Doubles = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def take(self, rows: NDArray[np.int64]) -> ChoiceLists:
        """Return the lists of rows in any order."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], sizes)
        log_weights = self.log_weights[entries] if len(self.log_weights) else self.log_weights
        by_entry = self.alternatives[entries], self.features[entries], self.offsets[entries]
        return ChoiceLists(indptr, *by_entry, self.only, log_weights)

    def filled(self, n_alternatives: int) -> ChoiceLists:
        """Return lists of all alternatives, with zeros for those not listed; lists of all that may be chosen stay."""
        if self.only:
            return self
        n, k = len(self.indptr) - 1, n_alternatives
        features, offsets = np.zeros((n * k, self.features.shape[1])), np.zeros(n * k)
        entries = self.rows * k + self.alternatives
        features[entries], offsets[entries] = self.features, self.offsets
        return ChoiceLists(np.arange(n + 1) * k, np.tile(np.arange(k, dtype=np.int32), n), features, offsets, only=True)

    def with_features(self, features: Doubles) -> ChoiceLists:
        """Return the same lists with other features of the pairs, (n_listed, n_pair_features)."""
        return replace(self, features=np.ascontiguousarray(features))


def make_lists(
    n_rows: int,
    n_alternatives: int,
    features: Mapping[str, Any],
    *,
    available: tuple[NDArray[np.int64], Ids] | None = None,
    offset: Any = None,
    unavailable: Any = None,
) -> ChoiceLists:
    """Return lists of what is available, or of the pairs that have a feature or an offset or are not available.

    Parameters
    ----------
    n_rows : int
    n_alternatives : int
    features : mapping of str to what has a number for each pair
        An (n_rows, n_alternatives) array or sparse matrix, or an array in the order of `available`.
    available : tuple of indptr and alternatives, optional
        What each row may choose from, in any order.
    offset : numbers of pairs, optional
    unavailable : sparse matrix, optional
        Of pairs that cannot be chosen; without `available` only.

    Raises
    ------
    ValueError
        If lists or numbers do not fit the rows and alternatives, a row has an empty list of what is available or lists
        an alternative twice, or a number is not finite.
    """
    values = {**features, "offset": offset, "unavailable": unavailable}
    sparse = {name: _entries(name, v, (n_rows, n_alternatives)) for name, v in values.items() if is_sparse(v)}
    if available is None:
        pairs = np.unique(np.concatenate([np.zeros(0, np.int64), *(places for places, _ in sparse.values())]))
        order = np.arange(len(pairs))
    else:
        pairs, order = _available_pairs(*available, n_rows, n_alternatives)
    columns = {
        name: _numbers(name, v, sparse.get(name), pairs, order, (n_rows, n_alternatives))
        for name, v in values.items()
        if v is not None
    }
    offsets = columns.pop("offset", np.zeros(len(pairs)))
    if unavailable is not None:
        offsets[columns.pop("unavailable") != 0] = -np.inf
    table = np.stack([*columns.values()], axis=1) if columns else np.zeros((len(pairs), 0))
    indptr = np.searchsorted(pairs, np.arange(n_rows + 1) * n_alternatives)
    return ChoiceLists(indptr, (pairs % n_alternatives).astype(np.int32), table, offsets, available is not None)


def _available_pairs(indptr: NDArray[np.int64], ids: Ids, n: int, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sorted numbers row * k + alternative of the pairs that lists have, and where these have them."""
    sizes = np.diff(indptr)
    if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != len(ids) or sizes.min(initial=0) < 0:
        raise ValueError(f"available has an indptr that does not begin n_rows = {n} lists")
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= k:
        raise ValueError(f"available has positions outside [0, {k})")
    if not sizes.all():
        raise ValueError(f"row {np.argmin(sizes)} has no alternative to choose from")
    pairs = np.repeat(np.arange(n) * k, sizes) + ids
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    if not np.diff(pairs).all():
        raise ValueError("a row lists an alternative twice")
    return pairs, order


def _entries(name: str, matrix: Any, shape: tuple[int, int]) -> tuple[NDArray[np.int64], Doubles]:
    """Sorted numbers row * k + alternative of the entries of a sparse matrix, and their values."""
    if matrix.shape != shape:
        raise ValueError(f"{name} has shape {matrix.shape}; it must be {shape}")
    csr = sp.csr_array(matrix, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    return np.repeat(np.arange(shape[0]) * shape[1], np.diff(csr.indptr)) + csr.indices, csr.data


def _numbers(
    name: str, values: Any, sparse: Any, pairs: NDArray[np.int64], order: NDArray[Any], shape: tuple[int, int]
) -> Doubles:
    """A number for each of the pairs."""
    if sparse is not None:
        column = np.zeros(len(pairs))
        places = np.searchsorted(pairs, sparse[0])
        listed = np.append(pairs, -1)[places] == sparse[0]
        column[places[listed]] = sparse[1][listed]
    else:
        table = np.asarray(values, dtype=np.float64)
        if table.shape not in (shape, (len(pairs),)):
            wanted = f"{shape}, or {(len(pairs),)} as available lists them"
            raise ValueError(f"{name} has shape {table.shape}; it must be {wanted}")
        column = table.reshape(-1)[pairs] if table.shape == shape else table[order]
    if not np.isfinite(column).all():
        raise ValueError(f"{name} has numbers that are not finite")
    return np.asarray(column)


def lists_of_ranges(ranges: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ids]:
    """Return where lists begin and their alternatives, from a first one to before a last one, two numbers a row."""
    sizes = np.maximum(ranges[:, 1] - ranges[:, 0], 0)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr, (np.arange(indptr[-1]) + np.repeat(ranges[:, 0] - indptr[:-1], sizes)).astype(np.int32)
