"""Arrays that are mapped from a file, not read: a number that is not finite is found where it reaches a score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
