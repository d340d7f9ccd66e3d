"""Safetensors files: written without a copy of the arrays, read whole or mapped, replaced at once or not at all.

The container is 8 bytes with the length of a JSON header, the header, the arrays one after the other. It is written
here, not by the library, because the library copies every array to bytes before its version 0.8, and because a header
padded to a whole cache line lets the arrays of a mapped file start at cache lines. It is read by the library, which
checks the header and the length of the file.

Files of models, of indexes, of word vectors and of checkpoints share the checks on arrays and numbers that stand behind
it here, and lists of strings as arrays. `Saved` is what a checkpoint's file has for a training.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from manyclass.checks import outer_level
from manyclass.version import __version__
from manyclass.weights.arrays import Map, aligned_zeros, is_finite

PathLike = str | os.PathLike[str]
Arrays = Mapping[str, NDArray[Any]]  # by their names in a file

_KINDS = {"int": ("I", (8, 16, 32, 64)), "uint": ("U", (8, 16, 32, 64)), "float": ("F", (16, 32, 64))}
_CODES = {f"{kind}{bits}": f"{code}{bits}" for kind, (code, sizes) in _KINDS.items() for bits in sizes}
_CODES["bool"] = "BOOL"
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _CODES.items()}
_LINE_BYTES = 64  # a cache line
YOUNG = 3600.0  # seconds since a writer that lives wrote last, at most


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` once the block has ended well; else `path` stays as it is.

    The file is written beside `path` under another name, flushed to the disk and then renamed; then its folder is
    flushed, so that a power cut after the block leaves the new file. Files of other names to which killed writers wrote
    more than an hour ago are removed. Who may read the old file may read the new one, from its first byte on. A device
    or a pipe, such as /dev/stdout, is written to, because it holds nothing to replace.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            yield stream
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    os.stat(folder)  # a folder that is missing is named by itself, and not by the name of a temporary file in it
    _remove_left(folder, name)
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o666
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, temporary)  # what the mask of the process took away
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    flush_folder(folder)


def flush_folder(folder: PathLike) -> None:
    """Flush the names of a folder's files to the disk, where the system flushes folders."""
    with contextlib.suppress(OSError):  # Windows opens no folder, and some file systems flush none
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _remove_left(folder: str, name: str) -> None:
    """Remove what `replacing` wrote for a file of this name in processes that are gone: nothing is written to it."""
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    with contextlib.suppress(OSError):
        for path in (os.path.join(folder, other) for other in filter(pattern.fullmatch, os.listdir(folder))):
            if time.time() - os.stat(path).st_mtime > YOUNG:
                os.unlink(path)


def write_tensors(path: PathLike, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write C-contiguous arrays of booleans, integers or floats; the first one starts at a cache line."""
    text = _header(tensors, metadata)
    with replacing(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in tensors.values():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            file.write(little.reshape(-1).view(np.uint8).data)


def make_metadata(form: str, version: int, default: Callable[[Any], Any] | None = None, **parts: Any) -> dict[str, str]:
    """Return the metadata of a file: its format, who writes it, and its parts as JSON has them."""
    texts = {name: json.dumps(part, default=default) for name, part in parts.items()}
    return {"format": form, "format_version": str(version), "package_version": __version__, **texts}


def tensor_file_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> int:
    """Return how long the file is that `write_tensors` writes."""
    return 8 + len(_header(tensors, metadata)) + sum(array.nbytes for array in tensors.values())


def _header(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, array in tensors.items():
        code, end = _CODES[array.dtype.name], offset + array.nbytes
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    return text + b" " * (-(8 + len(text)) % _LINE_BYTES)


@dataclass(frozen=True)
class TensorFile:
    """A safetensors file whose header has been checked against its length.

    Attributes
    ----------
    path : str
    metadata : dict of str to str
    entries : dict of str to (dtype, shape, first byte)
    used : set of str
        Arrays that were read or mapped.
    """

    path: str
    metadata: dict[str, str]
    entries: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]
    used: set[str] = field(default_factory=set)

    def map(self, name: str) -> NDArray[Any]:
        """Return an array as a read-only memory map."""
        dtype, shape, start = self.entries[name]
        self.used.add(name)
        if 0 in shape:
            return np.empty(shape, dtype)  # an empty map does not exist
        array = Map(self.path, dtype, "r", start, shape)
        array.path, array.name = self.path, name
        return np.asarray(array)

    def read(self, name: str, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return an array, read into `out` (C-contiguous, of the same dtype and shape) if given."""
        dtype, shape, start = self.entries[name]
        self.used.add(name)
        array = np.empty(shape, dtype) if out is None else out
        buffer = array.reshape(-1).view(np.uint8)
        with open(self.path, "rb") as file:
            file.seek(start)
            if file.readinto(buffer.data) != len(buffer):
                raise ValueError(f"{self.path} is truncated: it ends inside array {name!r}")
        return array.astype(dtype.newbyteorder("="), copy=False)

    def array(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int, ...],
        *,
        mmap: bool = False,
        aligned: bool = False,
        low: Any = None,
    ) -> NDArray[Any]:
        """Return an array, read or mapped, after a check of its type and shape and, if it is read, of its numbers.

        Parameters
        ----------
        name : str
        dtype : dtype
        shape : tuple of int
        mmap : bool, default=False
            Whether it is mapped; then its numbers are not looked at, as that would read them.
        aligned : bool, default=False
            Whether it is read to where a cache line begins.
        low : 0 or None
            The least of its numbers.
        """
        checked(self, name, dtype, shape)
        if mmap:
            return self.map(name)
        array = self.read(name, out=aligned_zeros(*shape) if aligned else None)
        return finite(self, name, array) if low is None else non_negative(self, name, array)


def check_regular(path: PathLike) -> None:
    """Raise ValueError where a path is a pipe, a device or a socket, which a reader might wait for without end."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(f"{os.fspath(path)} is a pipe, a device or a socket; it must be a file")


def open_tensors(path: PathLike) -> TensorFile:
    """Read the header of a safetensors file.

    Raises
    ------
    ValueError
        If the file is not a safetensors file, is truncated, is a pipe or a device, or holds a type of number that NumPy
        lacks.
    OSError
        If it cannot be read.
    """
    name = os.fspath(path)
    check_regular(name)
    with open(name, "rb") as file:
        try:
            with safe_open(name, framework="numpy") as checked:
                metadata = dict(checked.metadata() or {})
        except SafetensorError as error:
            raise ValueError(f"{name} is not a safetensors file, or it is truncated") from error
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    entries = {}
    for key, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name}: array {key!r} has type {entry['dtype']}, which NumPy lacks")
        entries[key] = (_DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
    return TensorFile(name, metadata, entries)


MOST_TOLD = 1000  # characters of a message, which may hold what is wrong in full


def check_version(file: TensorFile, newest: int, oldest: int = 1) -> int:
    """Return the version of a file's format.

    A version of the package may add arrays and descriptions that an older one leaves unread with a warning (see
    `warn_of_unread`). What an older one would read wrongly gets a new version of the format, which it refuses.

    Raises
    ------
    ValueError
        If there is none, or one that this package does not know yet, or knows no more.
    """
    version, by = file.metadata.get("format_version", ""), file.metadata.get("package_version", "an unknown version")
    if re.fullmatch("[1-9][0-9]{0,8}", version) is None:
        raise ValueError(f"{file.path} is damaged: its format_version is {version[:20]!r}")
    if not oldest <= int(version) <= newest:
        raise ValueError(
            f"{file.path} has format version {version}, written by manyclass {by[:20]}; this manyclass reads versions "
            f"{oldest} to {newest}{': fit the model again and save it' if int(version) < oldest else ''}"
        )
    return int(version)


def open_format(path: PathLike, form: str, newest: int, description: str, oldest: int = 1) -> TensorFile:
    """Open a file of one format, `description` in messages; raises as `open_tensors` and `check_version`, too."""
    file = open_tensors(path)
    if file.metadata.get("format") != form:
        name = file.metadata.get("format")
        raise ValueError(f"{file.path} is not {description} of manyclass: its format is {name!r}")
    check_version(file, newest, oldest)
    return file


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
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as error:  # of Decimal
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
    """Return an array of a file after a check that its numbers are finite and none is below 0.

    Sums of squares may be infinite: their weights do not move any more.
    """
    if "squares" not in name or np.isnan(array).any():
        finite(file, name, array)
    if array.size and array.min() < 0:
        raise ValueError(f"{file.path} is damaged: {name!r} has numbers below 0")
    return array


@dataclass
class Saved:
    """The arrays of a file, and numbers that stand beside them.

    Attributes
    ----------
    file : TensorFile
    numbers : dict
        As JSON has it.
    """

    file: TensorFile
    numbers: dict[str, Any]

    def fill(self, arrays: Arrays) -> None:
        """Read into arrays of the same names; raises ValueError where they are not of the type and shape here."""
        for name, array in arrays.items():
            if array.size == 0:
                continue
            self.file.read(checked(self.file, name, array.dtype, array.shape), out=array)
            if "squares" in name or name == "norm_sq":
                non_negative(self.file, name, array)
            elif array.dtype.kind == "f":
                finite(self.file, name, array)

    def array(self, name: str) -> NDArray[Any]:
        """Return one of them, empty ones too."""
        return self.file.read(name) if name in self.file.entries else np.zeros(0, dtype=np.float32)


@dataclass
class Position:
    """Where a training is: the losses of whole passes, the first visit to make, and whether it has come to its end."""

    curve: list[float] = field(default_factory=list)
    first: int = 0
    ended: bool = False


def encode_text(name: str, strings: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Return strings as arrays of a file: bytes one after the other, and where each begins."""
    # Python's strings may hold lone surrogates, which strict UTF-8 refuses.
    encoded = [str(string).encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(string) for string in encoded], out=offsets[1:])
    return {f"{name}.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.offsets": offsets}


def read_offsets(file: TensorFile, name: str, n: int) -> NDArray[np.int64]:
    """Return where each of n lists of a file begins, and where the last one ends."""
    offsets = file.read(checked(file, name, np.int64, (n + 1,)))
    if offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        raise ValueError(f"{file.path} is damaged: the offsets {name!r} do not start at 0 or decrease")
    return offsets


def decode_text(file: TensorFile, name: str, n: int) -> NDArray[Any]:
    """Return the n strings of this name in a file, as objects."""
    offsets = read_offsets(file, f"{name}.offsets", n)
    text = file.read(checked(file, f"{name}.text", np.uint8, (int(offsets[-1]),))).tobytes()
    strings = np.empty(n, dtype=object)
    strings[:] = [text[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(offsets.tolist())]
    return strings
