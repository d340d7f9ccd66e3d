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
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from manyclass.model.weights import LINE

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
_LINE_BYTES = 4 * LINE


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` once the block has ended well; else `path` stays as it is.

    The file is written beside `path` under another name, flushed to the disk and then renamed.
    """
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
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
    """

    path: str
    metadata: dict[str, str]
    entries: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]

    def map(self, name: str) -> NDArray[Any]:
        """Return an array as a read-only memory map."""
        dtype, shape, start = self.entries[name]
        if 0 in shape:
            return np.empty(shape, dtype)  # an empty map does not exist
        return np.asarray(np.memmap(self.path, dtype, "r", start, shape))

    def read(self, name: str, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return an array, read into `out` (C-contiguous, of the same dtype and shape) if given."""
        dtype, shape, start = self.entries[name]
        array = np.empty(shape, dtype) if out is None else out
        buffer = array.reshape(-1).view(np.uint8)
        with open(self.path, "rb") as file:
            file.seek(start)
            if file.readinto(buffer.data) != len(buffer):
                raise ValueError(f"{self.path} is truncated: it ends inside array {name!r}")
        return array.astype(dtype.newbyteorder("="), copy=False)


def open_tensors(path: PathLike) -> TensorFile:
    """Read the header of a safetensors file.

    Raises
    ------
    ValueError
        If the file is not a safetensors file, is truncated, or holds a type of number that NumPy lacks.
    OSError
        If it cannot be read.
    """
    name = os.fspath(path)
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
