"""The best classes of each row without those that a caller excludes, or among those that a caller names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import shown
from manyclass.datasets.csr import known_ones
from manyclass.labels import as_labels, check_kind, columns_of_classes, find_positions, join_labels
from manyclass.weights.arrays import Best, Doubles, Floats, Ids, Matrix

Among = ArrayLike | Sequence[ArrayLike] | sp.sparray | sp.spmatrix | None
Exclude = Among | Literal["seen"]

MISSING = {"i": -1, "f": np.nan, "U": "", "m": "NaT", "M": "NaT"}  # by kinds of labels; else objects have None
BLOCK_CELLS = 1 << 20  # classes found at a time: 20 MB with what is made of them


def label_pattern(labels: Any, n_rows: int, classes: NDArray[Any], name: str) -> sp.csr_array:
    """Return which classes each row is not to get ("exclude"), or may get ("among", which may have one row for all).

    Parameters
    ----------
    labels : matrix of shape (n_rows, n_classes), sequence of n_rows arrays of labels, or labels of "among"
        Of a matrix the entries that are not 0. Labels that are no classes are left out. One list of labels is for all
        rows, as a sparse matrix of one row is; as "exclude" it would be taken for one label of each row.
    n_rows : int
    classes : ndarray of shape (n_classes,)
    name : {"exclude", "among"}

    Returns
    -------
    csr_array of shape (n_rows or 1, n_classes)
        Its columns are sorted and distinct in each row.

    Raises
    ------
    ValueError
        If it has another shape or number of rows, labels of another kind than the classes, or is dense with
        values other than 0 and 1.
    """
    labels = labels.to_numpy() if hasattr(labels, "iloc") else labels  # rows of pandas have names of their own
    shape = (n_rows, len(classes))
    if sp.issparse(labels) or (isinstance(labels, np.ndarray) and labels.shape == shape):
        pattern: Any = labels
        pattern = pattern.reshape(1, -1) if pattern.ndim == 1 else pattern
        if pattern.shape not in (shape, (1, len(classes))):
            raise ValueError(f"{name} has shape {pattern.shape}; it must be {shape}: rows of X by classes")
        if not sp.issparse(pattern) and not np.isin(pattern, (0, 1)).all():
            cell = shown(pattern[~np.isin(pattern, (0, 1))][0])
            raise ValueError(
                f"{name} has shape {shape}, that of an indicator matrix, and holds {cell}; it must hold 0 and 1, or "
                "be a list of arrays of labels"
            )
        matrix = sp.csr_array(pattern, copy=True)
    else:
        lists = _lists_of(labels, n_rows, classes, name)
        positions = find_positions(join_labels(lists), classes, name)
        matrix = known_ones(positions, [*map(len, lists)], len(classes))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _lists_of(labels: Any, n_rows: int, classes: NDArray[Any], name: str) -> list[NDArray[Any]]:
    """Return the labels of each row, or one list for all; raises as `label_pattern` does."""
    if not hasattr(labels, "__len__") or isinstance(labels, str | bytes):
        other = "'seen'" if name == "exclude" else "a list of labels"
        raise TypeError(f"{name} is {labels!r}; it must be {other}, a list of labels for each row, or a 0/1 matrix")
    lists = list(map(as_labels, labels))
    if name == "among" and lists and not any(array.ndim for array in lists):
        lists = [as_labels(list(labels))]
    elif len(lists) != n_rows:
        raise ValueError(f"{name} has {len(lists)} lists of labels; X has {n_rows} rows")
    for row, array in enumerate(lists):
        if array.ndim != 1:
            raise ValueError(
                f"{name}[{row}] is {array.tolist()!r}; it must be a list of labels, one list for each row of X, or "
                f"{name} a matrix of shape {(n_rows, len(classes))}"
            )
        check_kind(array, classes, f"{name}[{row}]")
    return lists


def pattern_rows(pattern: sp.csr_array | None, rows: slice) -> Any:
    """Return some rows of a pattern; the whole where its one row, or None, is for all."""
    return pattern if pattern is None or pattern.shape[0] == 1 else pattern[rows]


def seen_in(x: Matrix, classes: NDArray[Any], names: NDArray[Any] | None, n_features: int) -> sp.csr_array:
    """Return which classes rows have as columns that are not 0, (n_rows, n_classes).

    Raises
    ------
    ValueError
        If labels are no numbers or names of columns.
    """
    hashed = x.shape[1] != n_features
    columns = None if hashed else columns_of_classes(classes, names, n_features)
    if columns is None or not (columns >= 0).any():
        raise ValueError(
            "exclude is 'seen', which needs classes that are columns of X, by their numbers or names; "
            + ("the model has hashed its columns" if hashed else f"none is, such as {shown(classes[0])}")
            + ": give lists of labels"
        )
    place = np.full(n_features, -1)
    place[columns[columns >= 0]] = np.flatnonzero(columns >= 0)
    rows, columns_of_rows = x.nonzero()
    there = place[columns_of_rows] >= 0
    ones = np.ones(np.count_nonzero(there))
    return sp.csr_array((ones, (rows[there], place[columns_of_rows[there]])), shape=(x.shape[0], len(classes)))


def best_but(
    x: Matrix, k: int, pattern: sp.csr_array, best: Best, *, in_place: bool = False
) -> tuple[Ids, Floats, Doubles]:
    """Return the k best classes of each row that are not excluded: what `best` gives for k, and as many as excluded.

    Rows are taken together by how many they exclude, so that a row with many does not make the others' lists long;
    lists of `BLOCK_CELLS` classes are in memory at a time.

    Parameters
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features)
    k : int
    pattern : csr_array
        See `label_pattern`.
    best : callable
    in_place : bool, default=False
        Whether what `best` finds for a row depends on its place in x: then all rows are asked for at once.

    Returns
    -------
    positions : ndarray of shape (n_rows, k), int32
        -1 where fewer than k classes are left.
    values : ndarray of shape (n_rows, k), float32
        -inf there.
    std : ndarray of shape (n_rows,), float64
    """
    n_rows, n_classes = x.shape[0], pattern.shape[1]
    indptr, wrong = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32)
    widths = np.minimum(n_classes, k + np.diff(indptr))
    ids, values = np.full((n_rows, k), -1, dtype=np.int32), np.full((n_rows, k), -np.inf, dtype=np.float32)
    std = np.zeros(n_rows)
    rows_left = np.arange(n_rows) if in_place else np.argsort(widths, kind="stable")
    while len(rows_left):  # from the rows that exclude most on, at most twice as many as the others of their block
        most = int(widths[rows_left].max())
        n = n_rows if in_place else min(max(1, BLOCK_CELLS // most), int(np.sum(2 * widths[rows_left] >= most)))
        rows, rows_left = rows_left[-n:], rows_left[:-n]
        ranked, scores, std[rows] = best(x[rows], most)
        ids[rows], values[rows] = _core.best_but(
            rows=rows.astype(np.int32), classes=ranked, values=scores, indptr=indptr, excluded=wrong, k=k
        )
    return ids, values, std


def best_among(
    x: Matrix,
    k: int,
    among: sp.csr_array,
    wrong: sp.csr_array | None,
    values_of: Callable[[Matrix], Any],
    *,
    in_place: bool = False,
) -> tuple[Ids, Floats]:
    """Return the k best of the classes that each row may get, as `best_but` does; all classes are scored.

    Parameters
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features)
    k : int
    among : csr_array of shape (n_rows or 1, n_classes)
        See `label_pattern`.
    wrong : csr_array of shape (n_rows, n_classes), or None
        Candidates that are left out of the answer of a row.
    values_of : callable
        Returns the values of all classes for some rows.
    in_place : bool, default=False
        As in `best_but`.
    """
    n_rows, n_classes = x.shape[0], among.shape[1]
    step, parts = n_rows if in_place else max(1, BLOCK_CELLS // n_classes), []
    for first in range(0, max(1, n_rows), max(1, step)):
        rows = slice(first, first + step)
        allowed = pattern_rows(among, rows).toarray() != 0
        if wrong is not None:
            allowed = allowed & (wrong[rows].toarray() == 0)
        values = values_of(x[rows]).astype(np.float64, copy=False)
        allowed = np.broadcast_to(allowed, values.shape)
        ids, best = _core.best_classes(np.where(allowed, values, -np.inf), k)
        missing = ~np.take_along_axis(allowed, ids, axis=1)
        parts.append((np.where(missing, np.int32(-1), ids), np.where(missing, np.float32(-np.inf), best)))
    ids_by_part, values_by_part = zip(*parts, strict=True)
    return np.concatenate(ids_by_part), np.concatenate(values_by_part)


def labels_at(classes: NDArray[Any], positions: Ids) -> NDArray[Any]:
    """Return the labels of positions; where there is none (-1), what stands for a missing label.

    That is -1 among integers, NaN among floats, the empty string, NaT among dates and time spans; unsigned integers,
    booleans and objects become objects with None.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    positions : ndarray of any shape, int32

    Returns
    -------
    ndarray of the shape of `positions`
    """
    labels: NDArray[Any] = classes[positions]
    missing, kind = positions < 0, classes.dtype.kind
    if missing.any():
        labels = labels if kind in MISSING else labels.astype(object)
        labels[missing] = MISSING.get(kind)
    return labels
