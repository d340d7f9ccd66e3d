"""CSR matrices in one binary file, a safetensors file, that is mapped, not read."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyclass.checks import check_number
from manyclass.datasets.csr import require_csr
from manyclass.datasets.inputs import Input, Layout, RowSource, check_columns
from manyclass.weights.arrays import csr_from_core
from manyclass.weights.tensor_file import TensorFile, check_regular, open_tensors, write_tensors

_FORMAT = "manyclass csr 1"
_PARTS = ("data", "indices", "indptr")
DTYPES = ("float32", "float64", "int8", "int32", "int64", "bool")  # of values

Shapes = dict[str, tuple[int, int]]  # of "X" and, where there are labels, "Y"


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
    write_matrices(path, X, Y, {})


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
    return read_matrices(path)[:2]


def write_matrices(
    path: str | os.PathLike[str], X: sparse.csr_array, Y: sparse.csr_array | None, metadata: Mapping[str, str]
) -> None:
    """Do what `save_csr` does, with more metadata."""
    matrices = {"X": X} if Y is None else {"X": X, "Y": Y}
    for name, matrix in matrices.items():
        require_csr(name, matrix)
        if matrix.data.dtype.name not in DTYPES:
            raise ValueError(f"{name} has dtype {matrix.data.dtype}; it must be one of {', '.join(DTYPES)}")
    if Y is not None and X.shape[0] != Y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, Y has {Y.shape[0]}")
    tensors = {
        f"{name}.{part}": np.ascontiguousarray(getattr(matrix, part))
        for name, matrix in matrices.items()
        for part in reversed(_PARTS)
    }
    shapes = {name: [int(size) for size in matrix.shape] for name, matrix in matrices.items()}
    write_tensors(path, tensors, {"format": _FORMAT, "shapes": json.dumps(shapes), **metadata})


def read_matrices(path: str | os.PathLike[str]) -> tuple[sparse.csr_array, sparse.csr_array | None, dict[str, str]]:
    """Return what `load_csr` does, and the metadata of the file."""
    file, shapes = _opened(path)
    matrices: dict[str, sparse.csr_array] = {}
    with _corrupt(file):
        for key, shape in shapes.items():
            # One map per array: SciPy copies views that are a small part of their base.
            data, indices, indptr = (file.map(f"{key}.{part}") for part in _PARTS)
            _check_offsets(file, key, indptr)
            matrices[key] = sparse.csr_array((data, indices, indptr), shape=shape)
            matrices[key].check_format(full_check=True)
    return matrices["X"], matrices.get("Y"), file.metadata


def _opened(path: str | os.PathLike[str], *, need_labels: bool = False) -> tuple[TensorFile, Shapes]:
    """Read a header; raises ValueError for that of another kind of file, or one that does not fit its shapes."""
    check_regular(path)
    try:
        file = open_tensors(path)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: not a binary CSR file, or one that is truncated: {error}") from error
    if (form := file.metadata.get("format")) != _FORMAT:
        raise ValueError(f"{file.path}: not a binary CSR file: its format is {form!r}, it must be {_FORMAT!r}")
    with _corrupt(file):
        shapes = {key: (rows, columns) for key, (rows, columns) in json.loads(file.metadata["shapes"]).items()}
        if shapes.keys() not in ({"X"}, {"X", "Y"}) or len({rows for rows, _ in shapes.values()}) > 1:
            raise ValueError(f"its shapes are {shapes}")
        for key, shape in shapes.items():
            _check_arrays(file, key, shape)
    if need_labels and "Y" not in shapes:
        raise ValueError(f"{file.path}: it has no labels; a stream needs files of save_csr with X and Y")
    return file, shapes


def _check_arrays(file: TensorFile, key: str, shape: tuple[Any, Any]) -> None:
    """Raise ValueError for arrays of a matrix whose types or lengths do not fit its shape."""
    for size in shape:
        check_number(f"the shape of {key}", size, low=0, high=np.iinfo(np.int64).max, integer=True)
    dtypes, sizes, _ = zip(*(file.entries[f"{key}.{part}"] for part in _PARTS), strict=True)
    if dtypes[0].name not in DTYPES or not {dtype.name for dtype in dtypes[1:]} <= {"int32", "int64"}:
        raise ValueError(f"the values, indices and offsets of {key} have the dtypes {', '.join(map(str, dtypes))}")
    if sizes[2] != (shape[0] + 1,) or sizes[0] != sizes[1]:
        raise ValueError(f"{key} has {shape[0]} rows, and arrays of the shapes {sizes}")


def _check_offsets(file: TensorFile, key: str, offsets: NDArray[Any]) -> None:
    """Raise ValueError for offsets that decrease or lead out of the arrays; SciPy looks at no more than the last.

    Those of some rows may begin anywhere.
    """
    n_entries = file.entries[f"{key}.indices"][1][0]
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]) or offsets[-1] > n_entries:
        raise ValueError(f"the offsets of {key} decrease or are out of range")


@contextlib.contextmanager
def _corrupt(file: TensorFile) -> Iterator[None]:
    """Make what a wrong file leads to a ValueError with its name."""
    try:
        yield
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file.path}: the matrices of this binary CSR file are corrupt: {error}") from error


def read_csr(source: Input, n_features: int | None) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Map the matrices of an input; where it has no labels, Y has no columns.

    Raises
    ------
    ValueError
        If it is a pipe, is not written by `save_csr`, or has a feature beyond `n_features`.
    """
    if source.content is not None:
        raise ValueError(f"{source.name}: a binary file is mapped, which a pipe cannot be; give its name")
    X, Y = load_csr(source.path)
    if n_features is not None:
        largest = int(X.indices.max(initial=-1))
        if largest >= n_features:
            raise ValueError(f"{source.name}: feature {largest} is outside [0, {n_features})")
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    return X, sparse.csr_array(np.zeros((X.shape[0], 0), np.float32)) if Y is None else Y


def open_csr(inputs: Sequence[Input], layout: Layout) -> RowSource:
    """Return what reads files of `save_csr`, some rows at a time, after a look at their headers.

    They are read and not mapped: pages of a map that were touched count as memory of the process.

    Raises
    ------
    ValueError
        If a file has no labels, or is none of `save_csr`; while it is read, for an index that is out of range.
    """
    shapes = [_opened(source.path, need_labels=True)[1] for source in inputs]
    d, k = (shapes[0][key][1] if n is None else n for key, n in (("X", layout.n_features), ("Y", layout.n_labels)))
    check_columns(**{f"{inputs[0].name}: n_features": d, f"{inputs[0].name}: n_labels": k})

    def blocks(size: int) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
        for source in inputs:
            file, file_shapes = _opened(source.path, need_labels=True)
            n = file_shapes["X"][0]
            for first in range(0, n, size):
                last = min(n, first + size)
                yield _rows(file, "X", first, last, d), _rows(file, "Y", first, last, k)

    return RowSource(blocks, d, k, sum(file_shapes["X"][0] for file_shapes in shapes))


def _rows(file: TensorFile, key: str, first: int, last: int, width: int) -> sparse.csr_array:
    """Read rows of a matrix."""

    def entries(part: str, begin: int, count: int) -> NDArray[Any]:
        dtype, _, start = file.entries[f"{key}.{part}"]
        values = np.fromfile(file.path, dtype, count, offset=start + begin * dtype.itemsize)
        if len(values) < count:
            raise ValueError(f"it ends inside {key}.{part}")
        return values.astype(np.float32, copy=False) if part == "data" else values

    with _corrupt(file):
        indptr = entries("indptr", first, last - first + 1)
        _check_offsets(file, key, indptr)
        begin, count = int(indptr[0]), int(indptr[-1] - indptr[0])
        indices, data = entries("indices", begin, count), entries("data", begin, count)
        if count and not 0 <= indices.min() <= indices.max() < width:
            raise ValueError(f"rows {first} to {last - 1} of {key} have an index outside [0, {width})")
        return csr_from_core(data, indices.astype(np.int32, copy=False), indptr - indptr[0], (last - first, width))
