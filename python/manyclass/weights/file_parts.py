"""What files of models and of word vectors share: checks on arrays and numbers, and lists of strings as arrays."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import outer_level
from manyclass.version import __version__
from manyclass.weights.memory_maps import is_finite
from manyclass.weights.tensor_file import TensorFile

MOST_TOLD = 1000  # characters of a message, which may hold what is wrong in full


def check_version(file: TensorFile, newest: int) -> int:
    """Return the version of a file's format.

    A version of the package may add arrays and descriptions that an older one leaves unread with a warning (see
    `warn_of_unread`). What an older one would read wrongly gets a new version of the format, which it refuses.

    Raises
    ------
    ValueError
        If there is none, or one that this package does not know yet.
    """
    version = file.metadata.get("format_version", "")
    if re.fullmatch("[1-9][0-9]{0,8}", version) is None:
        raise ValueError(f"{file.path} is damaged: its format_version is {version[:20]!r}")
    if int(version) > newest:
        by = file.metadata.get("package_version")
        written = f", written by manyclass {by[:20]}" if by else ""
        raise ValueError(
            f"{file.path} has format version {version}{written}; this manyclass reads versions up to {newest}"
        )
    return int(version)


def warn_of_unread(file: TensorFile, more: Iterable[str] = ()) -> None:
    """Warn of arrays that nothing has read, and of `more` that this version does not know."""
    unknown = sorted([*(file.entries.keys() - file.used), *more])
    if unknown:
        by = file.metadata.get("package_version", "another version")
        warnings.warn(
            f"{file.path} has {', '.join(map(repr, unknown[:5]))}, which this manyclass ({__version__}) does not know "
            f"and leaves unread; it was written by manyclass {by[:20]}",
            UserWarning,
            stacklevel=outer_level(),
        )


@contextlib.contextmanager
def reading(file: TensorFile) -> Iterator[None]:
    """Make what a damaged file leads to a ValueError that begins with its name."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, IndexError) as error:
        if type(error) is ValueError and str(error).startswith(file.path):
            raise
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(f"{file.path} is damaged: {kind}{str(error)[:MOST_TOLD]}") from error


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


def non_negative(file: TensorFile, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a file after a check that its numbers are finite and none is below 0."""
    if array.size and finite(file, name, array).min() < 0:
        raise ValueError(f"{file.path} is damaged: {name!r} has numbers below 0")
    return array


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
