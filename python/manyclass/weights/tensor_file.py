"""Safetensors files: written without a copy of the arrays, read whole or mapped, replaced at once or not at all.

The container is 8 bytes with the length of a JSON header, the header, the arrays one after the other. It is written
here, not by the library, because the library copies every array to bytes before its version 0.8, and because a header
padded to a whole cache line lets the arrays of a mapped file start at cache lines. It is read by the library, which
checks the header and the length of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from manyclass.weights.memory_maps import mapped

try:
    import fcntl
except ImportError:  # not of Unix
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
    "float64": "F64",
}
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _CODES.items()}
_LINE_BYTES = 64  # a cache line
YOUNG = 60.0  # seconds


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` once the block has ended well; else `path` stays as it is.

    The file is written beside `path` under another name, flushed to the disk and then renamed; then its folder is
    flushed, so that a power cut after the block leaves the new file. Files of other names that writers left which were
    killed are removed.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _remove_left(folder, name)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
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


def _lock(file: IO[bytes]) -> bool:
    """Take the lock that a file has while its writer lives; False where another has it, or the system has none."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_left(folder: str, name: str) -> None:
    """Remove what `replacing` wrote for a file of this name in processes that are gone: no one holds its lock.

    Young files are left, since a writer takes its lock only after it has made the file.
    """
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    with contextlib.suppress(OSError):
        for found in filter(pattern.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, found)
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if time.time() - os.fstat(file.fileno()).st_mtime > YOUNG and _lock(file):
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
        return mapped(self.path, name, dtype, shape, start)

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
            raise ValueError(f"{name} is not a safetensors file, or it is truncated: {error}") from error
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    entries = {}
    for key, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name}: array {key!r} has type {entry['dtype']}, which NumPy lacks")
        entries[key] = (_DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
    return TensorFile(name, metadata, entries)
