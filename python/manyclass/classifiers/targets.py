"""Checks of the y that a caller gives, and positions of labels among classes: each error names the row and a remedy."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_choice
from manyclass.weights.arrays import Ids

Unseen = Literal["drop", "error"]
BINARIZER = (
    "fit takes an indicator matrix of several labels a row: from sklearn.preprocessing import MultiLabelBinarizer; "
    "Y = MultiLabelBinarizer(sparse_output=True).fit_transform(y)"
)
_MISSING = ("NoneType", "NAType", "NaTType")  # pandas has two types of its own


ONE_LABEL = "this takes one label a row; SoftmaxClassifier and MarginClassifier take several: their "


def check_targets(y: Any, *, several: bool = True) -> None:
    """Raise ValueError for a y that NumPy would misread or refuse without a word on the remedy.

    Parameters
    ----------
    y : object
        What a caller gave; None and sparse matrices are left to the checks that follow.
    several : bool, default=True
        Whether several labels a row are taken, for the message.

    Raises
    ------
    ValueError
        If y is a list of lists of labels, a label is None or NaN, or labels are of types that have no common order.
    """
    if y is None or sp.issparse(y):
        return
    if isinstance(y, list | tuple):
        _check_items(y, several)
        return
    array = np.asarray(y)
    if array.dtype == object:
        _check_items(array.tolist(), several)
    elif array.dtype.kind in "fmM" and array.ndim == 1:
        missing = np.flatnonzero(np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array))
        if len(missing):
            raise ValueError(_missing(int(missing[0]), array[missing[0]]))


def _check_items(items: Sequence[Any], several: bool) -> None:
    """See `check_targets`; the types are looked at first, which takes 30 ns a label, and the labels if they say so."""
    kinds = set(map(type, items))
    if any(_is_container(kind) for kind in kinds):
        _check_lists(items, several)
        return
    if any(kind.__name__ in _MISSING or issubclass(kind, float | np.floating) for kind in kinds):
        for row, label in enumerate(items):
            if type(label).__name__ in _MISSING or (isinstance(label, float | np.floating) and np.isnan(label)):
                raise ValueError(_missing(row, label))
    groups: dict[str, int] = {}
    for kind in kinds:
        groups.setdefault(_group(kind), next(row for row, label in enumerate(items) if type(label) is kind))
    if len(groups) > 1:
        told = " and ".join(f"y[{row}] is {items[row]!r}, {group}" for group, row in sorted(groups.items())[:2])
        raise ValueError(
            f"{told}; labels must be of one kind, as they are sorted: y = [str(label) for label in y] makes them text"
        )


def _is_container(kind: type) -> bool:
    # NumPy's scalars are of other classes than its arrays.
    return issubclass(kind, list | tuple | set | frozenset | np.ndarray)


def _check_lists(items: Sequence[Any], several: bool) -> None:
    """Raise ValueError unless lists are the rows of a matrix of numbers, or hold one label each."""
    row = next(row for row, item in enumerate(items) if _is_container(type(item)))
    try:
        array = np.asarray(items)
    except ValueError:  # lists of different lengths
        array = np.empty(0, dtype=object)
    if array.ndim == 2 and (array.dtype.kind in "biufc" or array.shape[1] == 1):
        return
    if array.ndim > 2:
        return
    remedy = BINARIZER if several else ONE_LABEL + BINARIZER
    raise ValueError(f"y[{row}] is {_shortened(items[row])}, a {type(items[row]).__name__} of labels; {remedy}")


def _shortened(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 60 else text[:57] + "..."


def _group(kind: type) -> str:
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, bytes):
        return "bytes"
    if issubclass(kind, numbers.Number | np.bool_ | np.number):
        return "a number"
    return f"a {kind.__name__}"


def _missing(row: int, label: Any) -> str:
    return (
        f"y[{row}] is {label}: row {row} has no label. Input y contains NaN or None; leave such rows out: "
        "keep = ~pandas.isna(y); fit(X[keep], y[keep])"
    )


def sorted_classes(
    y: NDArray[Any], known: NDArray[Any] | None = None, what: str = "y"
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, those that are known included, sorted, and the position of each label among them.

    Raises
    ------
    ValueError
        If labels cannot be compared with each other, or are of another kind than those that are known.
    """
    try:
        classes, labels = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"the labels of {what} cannot be sorted: {error}; make them text or numbers") from error
    if known is None:
        return classes, labels
    _check_kind(classes, known, what)
    both = np.union1d(known, classes)
    return both, np.searchsorted(both, classes)[labels]


_KINDS = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "S": "bytes"}
_KINDS |= {"M": "dates", "m": "time spans"}


def _kind(labels: NDArray[Any]) -> str:
    """What kind of labels an array holds; by its first one where they are objects, nothing where that is unknown."""
    if labels.dtype == object:
        first = next(iter(labels.ravel()), None)
        return _KINDS.get(np.asarray(first).dtype.kind, "")
    return _KINDS.get(labels.dtype.kind, "")


def _check_kind(labels: NDArray[Any], classes: NDArray[Any], what: str) -> None:
    """Raise ValueError for text beside numbers, say; nothing is said of an empty array."""
    if not labels.size or not classes.size:
        return
    asked, known = _kind(labels), _kind(classes)
    if asked and known and asked != known:
        raise ValueError(
            f"{what} holds {asked}, such as {labels.ravel().tolist()[0]!r}; the classes are {known}, such as "
            f"{classes.tolist()[0]!r}"
        )


def find_positions(labels: NDArray[Any], classes: NDArray[Any], what: str) -> Ids:
    """Return the position of each label among the sorted classes, -1 where it has none.

    Parameters
    ----------
    labels : ndarray of any shape
    classes : ndarray of shape (n_classes,)
        Distinct and sorted.
    what : str
        What the labels are, for the message.

    Returns
    -------
    ndarray of the shape of `labels`, int32

    Raises
    ------
    ValueError
        If the labels are of another kind than the classes: text for numbers, say.
    """
    if labels.size == 0:
        return np.zeros(labels.shape, dtype=np.int32)
    _check_kind(labels, classes, what)
    at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[at] == labels, at, -1).astype(np.int32)


def unseen_error(labels: NDArray[Any], positions: Ids, what: str) -> ValueError:
    """The error that says which labels have no position."""
    unseen = np.unique(labels[positions < 0])
    return ValueError(
        f"{what} has {len(unseen)} labels unseen in fit, among them {unseen[0]!r}; drop those points "
        "(manyclass.datasets.drop_unseen_classes) or fit on data that has them"
    )


def positions_of(labels: NDArray[Any], classes: NDArray[Any], what: str) -> Ids:
    """Return the positions that `find_positions` finds; raise ValueError for labels that have none."""
    positions = find_positions(labels, classes, what)
    if np.any(positions < 0):
        raise unseen_error(labels, positions, what)
    return positions


def labels_given(y: Any, n_rows: int) -> NDArray[Any]:
    """Return a label for each row, of an array or of one column, as `fit` takes both; raises ValueError for others."""
    check_targets(y, several=False)
    labels: NDArray[Any] = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows, y has shape {labels.shape}; it must be ({n_rows},)")
    return labels


def seen_positions(y: Any, n_rows: int, classes: NDArray[Any], unseen: Unseen) -> tuple[Ids, NDArray[np.intp]]:
    """Return the positions of the labels that are classes, and their rows; raises ValueError where there are none.

    Others are left out or, with unseen="error", refused by a ValueError.
    """
    check_choice("unseen", unseen, ("drop", "error"))
    labels = labels_given(y, n_rows)
    positions = find_positions(labels, classes, "y")
    seen = np.flatnonzero(positions >= 0)
    if len(seen) < len(labels) and unseen == "error":
        raise unseen_error(labels, positions, "y")
    if len(seen) == 0:
        raise ValueError("no row has a label that the model has seen")
    return positions[seen], seen
