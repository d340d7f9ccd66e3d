"""Arrays of numbers: their types, memory that begins at cache lines or is mapped from a file.

A number of a mapped array that is not finite is found where it reaches a score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

LINE = 16  # floats in a cache line: rows of feature-major weights are padded to whole lines
BLOCK_NUMBERS = 1 << 22  # of scores, of phi or of weights in hand at once: 16 MB

Ids = NDArray[np.int32]  # of classes or features
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Matrix = sp.csr_array | Floats
Data = ArrayLike | sp.sparray | sp.spmatrix  # what an estimator takes as X

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
            "model='embedding' or 'sparse' takes less, and a manyclass.datasets.Stream fitted with max_memory hashes "
            "features"
        ) from error
    start = -(flat.ctypes.data // 4) % LINE
    return flat[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


def as_csr(X: Matrix) -> sp.csr_array:
    """Data by its stored values; of a dense array those that are not 0."""
    return X if isinstance(X, sp.csr_array) else sp.csr_array(X)


def row_norms_sq(x: Matrix) -> Floats:
    """Return the squared Euclidean norm of each row."""
    with np.errstate(over="ignore"):  # an infinite norm stops training with a warning that says what to do
        if isinstance(x, sp.csr_array):
            squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), shape=x.shape)
            return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()
        norms: Floats = np.einsum("ij,ij->i", x, x, dtype=np.float32)
        return norms


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


def mapped(path: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], start: int) -> NDArray[Any]:
    """Return an array of a file as a plain one, whose base is the map."""
    found = Map(path, dtype, "r", start, shape)
    found.path, found.name = path, name
    return np.asarray(found)


def is_finite(array: NDArray[Any]) -> bool:
    """Whether all numbers are, without a second array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def check_maps(weights: object) -> None:
    """Raise ValueError, with the name of the file, where an array that weights have mapped is not finite.

    It reads them, so it is for weights of which a score was not finite: those, or huge ones that overflowed.
    """
    for value in vars(weights).values():
        if (found := _map_of(value)) is not None and not found.is_checked:
            if found.dtype.kind == "f" and not is_finite(np.asarray(found)):
                raise ValueError(
                    f"{found.path} is damaged: {found.name!r} has numbers that are not finite; with mmap=False, `load` "
                    "checks them"
                )
            found.is_checked = True


def _map_of(array: Any) -> Map | None:
    """The map that an array is a view of."""
    while isinstance(array, np.ndarray) and not isinstance(array, Map):
        array = array.base
    return array if isinstance(array, Map) else None
