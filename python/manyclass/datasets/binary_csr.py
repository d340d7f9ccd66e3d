"""CSR matrices in one binary file that is mapped, not read.

The file is a safetensors file, whose library checks its header and its length. Arrays are mapped here, because the
library would copy them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy import sparse

from manyclass.checks import check_number
from manyclass.datasets.csr import csr_from_core, require_csr
from manyclass.weights.tensor_file import check_regular, write_tensors

_FORMAT = "manyclass csr 1"
_DTYPES = {"F32": "<f4", "F64": "<f8", "I8": "<i1", "I32": "<i4", "I64": "<i8", "BOOL": "?"}


def save_csr(path: str | os.PathLike[str], X: sparse.csr_array, Y: sparse.csr_array | None = None) -> None:
    """Write one or two CSR matrices to a binary file.

    The file is written under another name and then moved to its place, so that a reader sees the old file or
    the new one.

    Parameters
    ----------
    path : str or path-like
        The file; replaced if it exists.
    X : SciPy CSR of shape (n_samples, n_features)
        Data of dtype float32, float64, int8, int32, int64 or bool. The order of the entries in a row is kept.
    Y : SciPy CSR of shape (n_samples, n_labels), optional
        Labels, likewise.

    Raises
    ------
    TypeError
        If a matrix is not CSR.
    ValueError
        If a dtype is not among those above, or X and Y differ in their numbers of rows.
    OSError
        If the file cannot be written; an older file of this name stays as it was.
    """
    _save(path, X, Y, {})


def load_csr(path: str | os.PathLike[str]) -> tuple[sparse.csr_array, sparse.csr_array | None]:
    """Map the matrices of a file written by `save_csr`.

    Nothing is copied: the arrays of the matrices are read-only maps of the file. The indices are read once to
    check that they are in range, because SciPy trusts them. While the matrices are in use the file must not be cut:
    the system ends a process that reads behind its end. (`save_csr` puts a new file in its place and does no harm.)

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
    Y : csr_array of shape (n_samples, n_labels), or None
        None if the file holds no labels.

    Raises
    ------
    ValueError
        If the file is truncated, corrupt, or not written by `save_csr`.
    OSError
        If the file cannot be read.
    """
    return _load(path)[:2]


def _save(
    path: str | os.PathLike[str], X: sparse.csr_array, Y: sparse.csr_array | None, metadata: Mapping[str, str]
) -> None:
    tensors: dict[str, NDArray[np.generic]] = {}
    shapes: dict[str, tuple[int, int]] = {}
    for name, matrix in (("X", X), ("Y", Y)):
        if matrix is None:
            continue
        require_csr(name, matrix)
        dtypes = [np.dtype(d).name for d in _DTYPES.values()]
        if matrix.data.dtype.name not in dtypes:
            raise ValueError(f"{name} has dtype {matrix.data.dtype}; it must be one of {', '.join(dtypes)}")
        for part in ("indptr", "indices", "data"):
            tensors[f"{name}.{part}"] = np.ascontiguousarray(getattr(matrix, part))
        shapes[name] = (int(matrix.shape[0]), int(matrix.shape[1]))
    if Y is not None and shapes["X"][0] != shapes["Y"][0]:
        raise ValueError(f"X has {shapes['X'][0]} rows, Y has {shapes['Y'][0]}")

    write_tensors(path, tensors, {"format": _FORMAT, "shapes": json.dumps(shapes), **metadata})


@dataclass(frozen=True)
class _Layout:
    """Where the arrays of a file stand, checked against its shapes.

    Attributes
    ----------
    name : str
        The file.
    metadata : dict of str to str
    shapes : dict of str to (int, int)
        Of "X" and, where there are labels, "Y".
    arrays : dict of str to (dtype, int, int)
        By "X.indptr" and so on: type, length and first byte.
    """

    name: str
    metadata: dict[str, str]
    shapes: dict[str, tuple[int, int]]
    arrays: dict[str, tuple[np.dtype[Any], int, int]]

    @classmethod
    def of(cls, name: str) -> _Layout:
        """Read a header; raises ValueError for that of another kind of file, or one that does not fit its shapes."""
        metadata, header, start = _header(name)
        with _corrupt(name):
            shapes = {key: _shape(key, shape) for key, shape in json.loads(metadata["shapes"]).items()}
            if shapes.keys() not in ({"X"}, {"X", "Y"}) or len({rows for rows, _ in shapes.values()}) > 1:
                raise ValueError(f"its shapes are {shapes}")
            arrays = {}
            for key, (rows, _) in shapes.items():
                parts = {f"{key}.{part}": header[f"{key}.{part}"] for part in ("data", "indices", "indptr")}
                for part, entry in parts.items():
                    dtype, (size,) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"]
                    arrays[part] = dtype, size, start + entry["data_offsets"][0]
                    if not part.endswith("data") and dtype not in (np.int32, np.int64):
                        raise ValueError(f"{part} has dtype {dtype}")
                n_data, n_indices, n_offsets = (arrays[part][1] for part in parts)
                if n_offsets != rows + 1 or n_data != n_indices:
                    raise ValueError(
                        f"{key} has {rows} rows, {n_offsets} offsets, {n_indices} indices, {n_data} values"
                    )
        return cls(name, metadata, shapes, arrays)

    def check_offsets(self, key: str, offsets: NDArray[Any]) -> None:
        """Raise ValueError for offsets that decrease or lead out of the arrays; SciPy looks at no more than the last.

        Those of some rows may begin anywhere.
        """
        if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]) or offsets[-1] > self.arrays[f"{key}.indices"][1]:
            raise ValueError(f"the offsets of {key} decrease or are out of range")


@contextlib.contextmanager
def _corrupt(name: str) -> Iterator[None]:
    """Make what a wrong file leads to a ValueError with its name."""
    try:
        yield
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name}: the matrices of this binary CSR file are corrupt: {error}") from error


def _shape(key: str, shape: Any) -> tuple[int, int]:
    """The numbers of rows and columns that a file tells."""
    rows, columns = shape
    for value in (rows, columns):
        check_number(f"the shape of {key}", value, low=0, high=np.iinfo(np.int64).max, integer=True)
    return rows, columns


def _load(path: str | os.PathLike[str]) -> tuple[sparse.csr_array, sparse.csr_array | None, dict[str, str]]:
    layout = _Layout.of(os.fspath(path))

    def mapped(array: str) -> NDArray[np.generic]:
        dtype, size, offset = layout.arrays[array]
        if size == 0:
            return np.empty(0, dtype)  # an empty map does not exist
        # One map per array: SciPy copies views that are a small part of their base.
        return np.asarray(np.memmap(layout.name, dtype, "r", offset, (size,)))

    matrices: dict[str, sparse.csr_array] = {}
    with _corrupt(layout.name):
        for key, shape in layout.shapes.items():
            data, indices, indptr = (mapped(f"{key}.{part}") for part in ("data", "indices", "indptr"))
            layout.check_offsets(key, indptr)
            matrices[key] = sparse.csr_array((data, indices, indptr), shape=shape)
            matrices[key].check_format(full_check=True)
    return matrices["X"], matrices.get("Y"), layout.metadata


def _header(name: str) -> tuple[dict[str, str], dict[str, Any], int]:
    """What a file says of itself, of its arrays, and where their bytes begin."""
    check_regular(name)
    try:
        with safe_open(name, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{name}: not a binary CSR file, or one that is truncated: {error}") from error
    if metadata.get("format") != _FORMAT:
        raise ValueError(
            f"{name}: not a binary CSR file: its format is {metadata.get('format')!r}, it must be {_FORMAT!r}"
        )
    with open(name, "rb") as raw:
        header_size = int.from_bytes(raw.read(8), "little")
        return metadata, json.loads(raw.read(header_size)), 8 + header_size


@dataclass(frozen=True)
class CsrFiles:
    """Files of `save_csr` whose rows are read some at a time.

    They are read and not mapped: pages of a map that were touched count as memory of the process.

    Attributes
    ----------
    files : sequence of Path
    n_features, n_labels : int
    n_rows : int
    """

    files: Sequence[Path]
    n_features: int
    n_labels: int
    n_rows: int

    @classmethod
    def of(cls, files: Sequence[Path], n_features: int | None, n_labels: int | None) -> CsrFiles:
        """Find the numbers of columns; raises ValueError where a file has no labels or is none of `save_csr`."""
        shapes = [_layout_with_labels(file).shapes for file in files]
        (_, d), (_, k) = shapes[0]["X"], shapes[0]["Y"]
        columns = d if n_features is None else n_features, k if n_labels is None else n_labels
        for name, value in zip(("n_features", "n_labels"), columns, strict=True):
            try:
                check_number(name, value, low=0, high=2**31 - 1, integer=True)
            except ValueError as error:
                raise ValueError(f"{files[0]}: {error}") from error
        return cls(files, int(columns[0]), int(columns[1]), sum(int(found["X"][0]) for found in shapes))

    def blocks(self, size: int) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
        """Yield the rows of all files, at most `size` at once; raises ValueError for an index out of range."""
        for file in self.files:
            layout = _layout_with_labels(file)
            n = layout.shapes["X"][0]
            for first in range(0, n, size):
                last = min(n, first + size)
                X, Y = (
                    _rows(layout, key, first, last, width)
                    for key, width in (("X", self.n_features), ("Y", self.n_labels))
                )
                yield X, Y


def _layout_with_labels(file: Path) -> _Layout:
    layout = _Layout.of(os.fspath(file))
    if "Y" not in layout.shapes:
        raise ValueError(f"{file}: it has no labels; a stream needs files of save_csr with X and Y")
    return layout


def _rows(layout: _Layout, key: str, first: int, last: int, width: int) -> sparse.csr_array:
    def some(part: str, begin: int, count: int) -> NDArray[Any]:
        dtype, _, start = layout.arrays[f"{key}.{part}"]
        found = np.fromfile(layout.name, dtype, count, offset=start + begin * dtype.itemsize)
        if len(found) < count:
            raise ValueError(f"it ends inside {key}.{part}")
        return found.astype(np.float32, copy=False) if part == "data" else found

    with _corrupt(layout.name):
        indptr = some("indptr", first, last - first + 1)
        layout.check_offsets(key, indptr)
        begin, count = int(indptr[0]), int(indptr[-1] - indptr[0])
        indices, data = some("indices", begin, count), some("data", begin, count)
        if count and not 0 <= indices.min() <= indices.max() < width:
            raise ValueError(f"rows {first} to {last - 1} of {key} have an index outside [0, {width})")
        return csr_from_core(data, indices.astype(np.int32, copy=False), indptr - indptr[0], (last - first, width))
