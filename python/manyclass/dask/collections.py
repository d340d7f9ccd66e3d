"""Parts of what a user gives as data, for workers to read: dask arrays, data frames, delayed parts and files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import dask
import dask.array
import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future, futures_of

from manyclass.checks import check_choice
from manyclass.datasets import first_label, load_xmc

KINDS = (
    "a dask array, a dask DataFrame or Series, a list of delayed parts or of futures, or (X alone) a list of files in "
    "the XMC repository's form"
)

KNOWN = "compute_chunk_sizes() of an array makes its chunks known, and they are then divided anew"

Columns = tuple[Any, Any, Any, Any]  # x, y, weights or None, and labels of groups or None


def n_rows(x: Any) -> int:
    """Return the rows of a part of whatever kind."""
    return int(np.shape(x)[0])


def pack(*columns: Any) -> Columns:
    """Return a part as (x, y, weights or None, groups or None); a part of files is x and y already."""
    if isinstance(columns[0], tuple):
        columns = (*columns[0], *columns[1:])
    x, y, weights, groups = (*columns, None, None, None)[:4]
    return x, y, weights, groups


def parts_of(data: Any, name: str, labels: str = "first") -> list[Any]:
    """Return the parts of a collection, each a Delayed or a future of rows.

    Raises
    ------
    TypeError
        If it is no collection; data in the memory of one process are for the estimators of one machine.
    ValueError
        If an array is divided by columns, too, and into chunks of unknown width.
    """
    if isinstance(data, dask.array.Array):
        if all(len(chunks) == 1 for chunks in data.chunks[1:]):
            return list(data.to_delayed().ravel())
        if np.isnan(np.concatenate(data.chunks[1:])).any():
            raise ValueError(f"{name} is divided by columns into chunks of unknown width; {KNOWN}")
        return list(data.rechunk(dict.fromkeys(range(1, data.ndim), -1)).to_delayed().ravel())
    if hasattr(data, "to_delayed") and hasattr(data, "npartitions"):  # of dask.dataframe, which need not be there
        return list(data.to_delayed())
    if isinstance(data, list | tuple) and data:
        if all(isinstance(part, Delayed | Future) for part in data):
            return list(data)
        if name == "X" and are_files(data):
            return [dask.delayed(read_file, pure=True)(os.fspath(part), labels) for part in data]
    raise TypeError(f"{name} is a {type(data).__name__}; it must be {KINDS}")


def read_file(path: str, labels: str) -> tuple[Any, Any]:
    """Read rows with their first labels, or all of them, from a file; rows without a label are left out."""
    X, Y = load_xmc(path)
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    return X[labelled], Y[labelled] if labels == "all" else first_label(Y[labelled])


def are_files(X: Any) -> bool:
    """Return whether X is a list of files, which have the labels in them."""
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(part, str | os.PathLike) for part in X)


def aligned(X: Any, y: Any, sample_weight: Any, labels: str = "first", groups: Any = None) -> list[list[Any]]:
    """Return, for each part, its rows of X, of y (unless X is a list of files), of the weights and of the groups.

    Raises
    ------
    ValueError
        If X, y, the weights and the groups have different numbers of parts.
    TypeError
        As `parts_of`.
    """
    check_choice("labels", labels, ("first", "all"))
    files = are_files(X)
    if labels == "all" and not files:
        raise ValueError("labels is 'all', which is for files; of several labels a row, give an indicator matrix as y")
    if files and y is not None:
        raise ValueError("y is given; a list of files as X has the labels with it: leave y None")
    if not files and y is None:
        raise ValueError("y is None; it must be given, unless X is a list of files")
    columns = [parts_of(X, "X", labels)]
    beside = {"sample_weight": sample_weight, "groups": groups}
    for name, other in (beside if files else {"y": y, **beside}).items():
        if other is None:
            columns.append([None] * len(columns[0]))
            continue
        columns.append(parts_of(_divided_as(X, other), name))
        if len(columns[-1]) != len(columns[0]):
            raise ValueError(
                f"X has {len(columns[0])} parts, {name} has {len(columns[-1])}; they must be divided alike"
                + (f": {KNOWN}" if any(map(_has_unknown_chunks, (X, other))) else "")
            )
    return [list(part) for part in zip(*columns, strict=True)]


def _divided_as(X: Any, other: Any) -> Any:
    """Divide another array as X is, where both have as many rows; chunks of unknown length stay as they are."""
    if not isinstance(X, dask.array.Array) or not isinstance(other, dask.array.Array):
        return other
    rows, other_rows = X.chunks[0], other.chunks[0]
    as_many = sum(rows) == sum(other_rows)  # a sum of NaN equals nothing
    return other.rechunk({0: rows}) if as_many and rows != other_rows else other


def _has_unknown_chunks(data: Any) -> bool:
    return isinstance(data, dask.array.Array) and bool(np.isnan(data.chunks[0]).any())


def homes(client: Client, X: Any, parts: Sequence[list[Any]], places: Sequence[str]) -> list[str]:
    """Return a worker for each part: the one that holds its rows, else the workers in turn, neighbours together.

    Where the parts go depends on nothing else, so that a fit of the same parts by as many workers is the same again.
    """
    there = client.who_has([part[0] for part in parts if isinstance(part[0], Future)] or futures_of(X))
    home = {str(key): sorted(set(holders) & set(places)) for key, holders in there.items()}
    in_turn = (places[number * len(places) // len(parts)] for number in range(len(parts)))
    return [next(iter(home.get(str(part[0].key), [])), place) for part, place in zip(parts, in_turn, strict=True)]
