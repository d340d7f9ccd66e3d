"""What files of models and of word vectors share: checks on arrays and numbers, and lists of strings as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.model.tensor_file import TensorFile


def count(file: TensorFile, info: Mapping[str, Any], name: str, least: int) -> int:
    """Return a number of the description after a check that it is an integer of at least `least`."""
    value = info[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{file.path} is damaged: {name} is {value!r}; it must be an integer of at least {least}")
    return value


def checked(file: TensorFile, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
    """Return the name of an array after a check that it is there, of this dtype and shape."""
    if name not in file.entries:
        raise ValueError(f"{file.path} is damaged: it has no array {name!r}")
    found_dtype, found_shape, _ = file.entries[name]
    if found_dtype != np.dtype(dtype) or found_shape != shape:
        raise ValueError(
            f"{file.path} is damaged: {name!r} is {found_dtype.name} of shape {found_shape}; it must be "
            f"{np.dtype(dtype).name} of shape {shape}"
        )
    return name


def finite(file: TensorFile, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a file after a check of its numbers: of mapped ones there is none, as it would read them."""
    if not is_finite(array):
        raise ValueError(f"{file.path} is damaged: {name!r} has numbers that are not finite")
    return array


def is_finite(array: NDArray[Any]) -> bool:
    """Whether all numbers are, without a second array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def encode_text(strings: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Return strings as bytes one after the other, and where each begins."""
    # Python's strings may hold lone surrogates, which strict UTF-8 refuses.
    encoded = [str(string).encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(string) for string in encoded], out=offsets[1:])
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "offsets": offsets}


def decode_text(file: TensorFile, name: str, n: int) -> NDArray[Any]:
    """Return the n strings of this name in a file, as objects."""
    offsets = file.read(checked(file, f"{name}.offsets", np.int64, (n + 1,)))
    if offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        raise ValueError(f"{file.path} is damaged: the offsets of {name!r} do not start at 0 or decrease")
    text = file.read(checked(file, f"{name}.text", np.uint8, (int(offsets[-1]),))).tobytes()
    ends = offsets.tolist()
    strings = np.empty(n, dtype=object)
    strings[:] = [text[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(ends)]
    return strings
