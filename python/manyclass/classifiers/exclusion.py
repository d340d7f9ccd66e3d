"""The best classes of each row without those that a caller excludes, such as what a user has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import join_lists, shown
from manyclass.labels import as_labels, check_kind, columns_of_classes, find_positions, join_labels
from manyclass.weights.arrays import Best, Doubles, Floats, Ids, Matrix

Exclude = Sequence[ArrayLike] | NDArray[Any] | sp.sparray | sp.spmatrix | Literal["seen"] | None
Pattern = tuple[NDArray[np.int64], Ids]  # row pointers, and the sorted positions of each row

MISSING = {"i": -1, "f": np.nan, "U": "", "m": "NaT", "M": "NaT"}  # by kinds of labels; else objects have None
BLOCK_CELLS = 1 << 20  # classes found at a time: 20 MB with what is made of them


def excluded(exclude: Any, n_rows: int, classes: NDArray[Any]) -> Pattern:
    """Return which classes each row is not to get.

    Parameters
    ----------
    exclude : matrix of shape (n_rows, n_classes), or sequence of n_rows arrays of labels
        Of a matrix the entries that are not 0. Labels that are no classes are never returned, and left out here.
    n_rows : int
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    indptr : ndarray of shape (n_rows + 1,), int64
    positions : ndarray, int32
        Sorted and distinct in each row.

    Raises
    ------
    ValueError
        If it has another shape or number of rows, labels of another kind than the classes, or is dense with
        values other than 0 and 1.
    """
    exclude = exclude.to_numpy() if hasattr(exclude, "iloc") else exclude  # rows of pandas have names of their own
    if sp.issparse(exclude) or (isinstance(exclude, np.ndarray) and exclude.shape == (n_rows, len(classes))):
        shape, pattern = (n_rows, len(classes)), cast(Any, exclude)
        pattern = pattern.reshape(1, -1) if pattern.ndim == 1 else pattern
        if pattern.shape != shape:
            raise ValueError(f"exclude has shape {pattern.shape}; it must be {shape}: rows of X by classes")
        if not sp.issparse(pattern) and not np.isin(pattern, (0, 1)).all():
            cell = shown(pattern[~np.isin(pattern, (0, 1))][0])
            raise ValueError(
                f"exclude has shape {shape}, that of an indicator matrix, and holds {cell}; it must hold 0 and 1, or "
                "be a list of arrays of labels"
            )
        matrix = sp.csr_array(pattern, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return np.asarray(matrix.indptr, dtype=np.int64), np.asarray(matrix.indices, dtype=np.int32)
    if not hasattr(exclude, "__len__"):
        raise TypeError(f"exclude is {exclude!r}; it must be 'seen', a list of labels for each row, or a 0/1 matrix")
    if len(exclude) != n_rows:
        raise ValueError(f"exclude has {len(exclude)} lists of labels; X has {n_rows} rows")
    lists = list(map(as_labels, exclude))
    for row, labels in enumerate(lists):
        if labels.ndim != 1:
            raise ValueError(
                f"exclude[{row}] is {labels.tolist()!r}; it must be a list of labels, one list for each row of X, or "
                f"exclude a matrix of shape {(n_rows, len(classes))}"
            )
        check_kind(labels, classes, f"exclude[{row}]")
    positions_by_row = np.split(
        find_positions(join_labels(lists), classes, "exclude"), np.cumsum([*map(len, lists)])[:-1]
    )
    return join_lists([np.unique(positions[positions >= 0]) for positions in positions_by_row])


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
    x: Matrix, k: int, pattern: Pattern, n_classes: int, best: Best, *, in_place: bool = False
) -> tuple[Ids, Floats, Doubles]:
    """Return the k best classes of each row that are not excluded: what `best` gives for k, and as many as excluded.

    Rows are taken together by how many they exclude, so that a row with many does not make the others' lists long;
    lists of `BLOCK_CELLS` classes are in memory at a time.

    Parameters
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features)
    k : int
    pattern : tuple
        See `excluded`.
    n_classes : int
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
    indptr, wrong = pattern
    n_rows, widths = len(indptr) - 1, np.minimum(n_classes, k + np.diff(indptr))
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
