"""Checks of labels and predictions, which turn them into arrays that the loops can trust."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_number, checked_ids
from manyclass.labels import as_labels, find_positions, join_labels, sorted_classes

MOST_LABELS = 2**31 - 1  # positions are int32
LIKE_KINDS = {"u": "i", "U": "O"}  # kinds of NumPy's types whose labels are compared


class LabelRows(NamedTuple):
    """The labels of rows; those of row i are ids[indptr[i]:indptr[i + 1]], ascending, distinct, in [0, n_labels)."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    n_labels: int | None  # None: lists do not say it

    @property
    def n_rows(self) -> int:
        """Return the number of rows, at least 1."""
        return len(self.indptr) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Return the number of labels of each row."""
        return np.diff(self.indptr)


def places(k: Any) -> NDArray[np.int64]:
    """Return k, a number or several, as an array of places >= 1."""
    if np.ndim(k) > 1 or np.size(k) == 0:
        raise ValueError(f"k is {k!r}; it must be a number of places, or a sequence of one or more")
    for place in [k] if np.ndim(k) == 0 else k:
        check_number("k", place, low=1, high=MOST_LABELS, integer=True)
    return np.atleast_1d(np.asarray(k, dtype=np.int64))


def numbered(truth: Any, predicted: Any) -> tuple[Any, Any]:
    """Return labels of rows and predictions as numbers where they are no positions but labels that `fit` takes.

    Parameters
    ----------
    truth : array-like of labels of shape (n,), or list of lists of labels
    predicted : array-like of labels of shape (n, m)
        As `predict_top_k` returns them. None, NaN, NaT, what a mask hides and, where no row has such a label, "" and -1
        are none, and become -1.
    """
    if sp.issparse(predicted) or sp.issparse(truth):
        return truth, predicted
    names, is_array = np.asarray(predicted), isinstance(truth, np.ndarray)
    single = is_array or not any(isinstance(row, set | frozenset) or np.ndim(row) for row in truth)
    lists = [] if single else [list(row) for row in truth]
    right = as_labels(truth if single else list(chain.from_iterable(lists)))
    missing = np.ma.getmaskarray(predicted) | (names != names) | (names == None)  # noqa: E711
    for word in {"", -1}.difference(right.ravel().tolist()):  # where a class is called so, it is one
        missing |= names == word
    present = as_labels(names[~missing])
    if names.ndim != 2 or right.ndim != 1 or not _are_names(present, right):
        return truth, np.ma.filled(predicted, -1) if isinstance(predicted, np.ma.MaskedArray) else predicted
    labels = sorted_classes(join_labels([right, present]), name="predicted")[0]
    numbers = np.full(names.shape, -1, dtype=np.int64)
    numbers[~missing] = find_positions(present, labels, "predicted")
    positions = find_positions(right, labels, "the truth")
    ends = np.cumsum([0, *map(len, lists)]).tolist()
    rows = positions if is_array else positions.tolist()
    return (rows if single else [rows[begin:end] for begin, end in pairwise(ends)]), numbers


def _are_names(present: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether labels that are predicted and right ones are of one kind, and not all positions as the core has them."""
    kind, kind_there = (LIKE_KINDS.get(labels.dtype.kind, labels.dtype.kind) for labels in (present, right))
    if kind == kind_there == "i":
        return any(labels.size and not 0 <= labels.min() <= labels.max() < MOST_LABELS for labels in (present, right))
    return kind == kind_there if right.size else kind not in "ifb"


def label_rows(name: str, Y: Any) -> LabelRows:
    """Return the labels of a CSR indicator, or of a list with the labels of each row."""
    if isinstance(Y, sp.csr_array | sp.csr_matrix):
        Z = _canonical(name, Y)
        if Z.data.dtype.kind == "f" and np.isnan(Z.data).any():
            raise ValueError(f"{name} holds NaN; a non-zero entry is a label")
        if Z.data.dtype.kind in "if" and Z.data.min(initial=0) < 0:
            raise ValueError(f"{name} holds {Z.data.min():g}; an entry above 0 is a label, and none may be below")
        if not Z.data.all():
            Z = Z.copy()
            Z.eliminate_zeros()
        return LabelRows(Z.indptr.astype(np.int64), Z.indices.astype(np.int32), Z.shape[1])
    if not isinstance(Y, list | tuple):
        raise TypeError(
            f"{name} is a {type(Y).__name__}; it must be a SciPy CSR matrix or array with a non-zero entry per label, "
            "or a list with the labels of each row"
        )
    if not Y:
        raise ValueError(f"{name} has no row; it must have one")
    for i, row in enumerate(Y):
        if not isinstance(row, list | tuple | set | frozenset | np.ndarray) or (
            isinstance(row, np.ndarray) and row.ndim != 1
        ):
            raise TypeError(f"{name}[{i}] is no list; it must be a list of labels")
    indptr = np.cumsum([0, *map(len, Y)], dtype=np.int64)
    ids = checked_ids(name, list(chain.from_iterable(Y)), MOST_LABELS)
    twice, row = _core.sort_rows(indptr, ids)
    if twice >= 0:
        raise ValueError(f"{name}[{row}] has the label {twice} twice")
    return LabelRows(indptr, ids, None)


def _canonical(name: str, Y: Any) -> Any:
    """Return a CSR matrix with ascending, distinct columns in each row; the caller's is left as it is."""
    if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] > MOST_LABELS:
        raise ValueError(f"{name} has shape {Y.shape}; it must have a row, and at most {MOST_LABELS} columns")
    if Y.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {Y.dtype}; it must be of booleans or real numbers")
    Y.check_format(full_check=True)
    if Y.has_canonical_format:
        return Y
    Z = Y.copy()
    Z.sum_duplicates()
    return Z


def single_labels(name: str, y: Any, predicted: Any) -> LabelRows:
    """Return rows of one label each; scores say how many labels there are."""
    n_labels = predicted.shape[1] if isinstance(predicted, sp.csr_array | sp.csr_matrix) else None
    ids = checked_ids(name, y, MOST_LABELS if n_labels is None else n_labels)
    if not len(ids):
        raise ValueError(f"{name} has no row; it must have one")
    return LabelRows(np.arange(len(ids) + 1, dtype=np.int64), ids, n_labels)


def truth_rows(name: str, truth: Any, predicted: Any) -> LabelRows:
    """Return the labels of rows, which have one each, an array of them, or several."""
    lists = isinstance(truth, list | tuple) and len(truth) and not np.isscalar(truth[0])
    return label_rows(name, truth) if lists or hasattr(truth, "tocsr") else single_labels(name, truth, predicted)


def best_predictions(predicted: Any, truth: LabelRows, k: int, n_labels: int | None = None) -> NDArray[np.int32]:
    """Return the first k labels (n, at most k) predicted for each row of `truth`, -1 where there is none.

    n_labels is the number of labels where `truth` does not say it.
    """
    n_labels = truth.n_labels if truth.n_labels is not None else n_labels
    is_csr = isinstance(predicted, sp.csr_array | sp.csr_matrix)
    first = _best_of_csr(predicted, k, n_labels) if is_csr else ranked_labels(predicted, k, n_labels)
    if len(first) != truth.n_rows:
        raise ValueError(f"predicted has {len(first)} rows, there are labels of {truth.n_rows}")
    label, row = _core.twice_predicted(first)
    if label >= 0:
        raise ValueError(f"predicted has the label {label} twice in row {row}; each counts once")
    return first


def _best_of_csr(scores: Any, k: int, n_labels: int | None) -> NDArray[np.int32]:
    if n_labels is not None and scores.shape[1] != n_labels:
        raise ValueError(f"predicted has {scores.shape[1]} columns, there are {n_labels} labels")
    S = _canonical("predicted", scores)
    values = S.data.astype(np.float64)
    if np.isnan(values).any():
        raise ValueError("predicted holds NaN; scores must be numbers")
    k = min(k, S.shape[1])  # the places behind are empty
    best, _ = _core.best_of_rows(S.indptr.astype(np.int64), S.indices.astype(np.int32), values, k)
    return best


def ranked_labels(predicted: Any, k: int, n_labels: int | None) -> NDArray[np.int32]:
    """Return the first k labels of rows of positions, -1 being none."""
    if sp.issparse(predicted):
        raise TypeError(f"predicted is a {type(predicted).__name__}; scores must be a SciPy CSR matrix or array")
    labels, high = np.asarray(predicted), MOST_LABELS if n_labels is None else n_labels
    if labels.dtype.kind not in "iu":
        raise TypeError(f"predicted has dtype {labels.dtype}; it must be of label positions, or CSR of scores")
    if labels.ndim != 2 or labels.shape[1] < k:
        raise ValueError(f"predicted has shape {labels.shape}; it must have two axes, and {k} columns for k = {k}")
    for row, column in np.argwhere((labels < -1) | (labels >= high))[:1].tolist():
        where = f"predicted is {labels[row, column]} at {row, column}"
        raise ValueError(f"{where}; it must be in [-1, {high}) (-1: none)")
    return np.ascontiguousarray(labels[:, :k], dtype=np.int32)


def checked_shares(
    name: str, numbers: ArrayLike, shape: tuple[int, ...], *, high: float = 1, open_low: bool = False
) -> NDArray[np.float64]:
    """Return numbers that must be in [0, high], or above 0, as float64."""
    array = np.asarray(numbers)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {array.dtype}; it must be of real numbers")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
    p: NDArray[np.float64] = array.astype(np.float64)
    is_bad = ~((p > 0 if open_low else p >= 0) & (p <= high) & np.isfinite(p))
    for position in np.argwhere(is_bad)[:1].tolist():
        rule = "at least 0 and finite" if high > 1 else "in ]0, 1]" if open_low else "in [0, 1]"
        raise ValueError(f"{name}[{', '.join(map(str, position))}] is {p[tuple(position)]}; it must be {rule}")
    return p
