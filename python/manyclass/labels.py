"""Labels in the types that callers use, and the one place that compares labels and refuses missing ones.

Labels of one kind are compared by what they are, whatever holds them: 2**60 + 1 as int64 is the label that it is as
uint64, as Int64 of pandas, or as int, and no other one, since integers never pass through floats. Dates are the same in
all units that have them exactly. Text of any length is the same in NumPy's arrays of fixed width and in objects; where
it is long, or ends with a NUL, which such arrays drop, it is held as objects. Texts that differ in Unicode's form
alone, an e with an accent and an e before an accent, are one label: where a fit has both, all its labels become
composed (NFC), and a warning says so. All else that can be sorted and compared by Python stays as it is.
"""

from __future__ import annotations

import datetime
import math
import numbers
import unicodedata
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from manyclass.checks import canonical_csr, outer_level, shown
from manyclass.figures import FIGURES
from manyclass.memory import check_there_is_memory
from manyclass.weights.arrays import Ids

Unseen = Literal["drop", "error", "wrong"]
BINARIZER = (
    "fit takes an indicator matrix of several labels a row: from sklearn.preprocessing import MultiLabelBinarizer; "
    "Y = MultiLabelBinarizer(sparse_output=True).fit_transform(y)"
)
_MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")  # pandas has two types of its own
WIDEST = 64  # letters of text in arrays of fixed width, which take 4 bytes a letter for each label


ONE_LABEL = "this takes one label a row; SoftmaxClassifier and MarginClassifier take several: their "


def check_targets(y: Any, *, several: bool = True, name: str = "y") -> None:
    """Raise ValueError for a y that NumPy would misread or refuse without a word on the remedy.

    Parameters
    ----------
    y : object
        What a caller gave; None and sparse matrices are left to the checks that follow.
    several : bool, default=True
        Whether several labels a row are taken, for the message.
    name : str, default="y"
        What messages call it.

    Raises
    ------
    ValueError
        If y is a list of lists of labels, a label is None or NaN, or labels are of types that have no common order.
    """
    if y is None or sp.issparse(y):
        return
    if isinstance(y, list | tuple):
        _check_items(y, several, name)
        return
    array = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if array.dtype == object:
        _check_items(array.tolist(), several, name)
    elif array.ndim == 1:
        is_missing = np.ma.getmaskarray(array) | np.asarray(array != array)  # NaN and NaT
        for row in np.flatnonzero(is_missing)[:1].tolist():
            raise ValueError(_missing(row, array[row], name))


def checked_labels(y: Any, name: str = "y") -> NDArray[Any]:
    """Return labels, one a row, in their own type, as `as_labels` does, after `check_targets`."""
    check_targets(y, several=False, name=name)
    return as_labels(y)


def _check_items(items: Sequence[Any], several: bool, name: str) -> None:
    """See `check_targets`; the types are looked at first, which takes 30 ns a label, and the labels if they say so."""
    kinds = set(map(type, items))
    if any(_is_container(kind) for kind in kinds):
        _check_lists(items, several, name)
        return
    if any(kind.__name__ in _MISSING or not issubclass(kind, str | bytes | int) for kind in kinds):
        for row, label in enumerate(items):
            if type(label).__name__ in _MISSING or bool(label != label):
                raise ValueError(_missing(row, label, name))
    first_rows = {kind: next(row for row, label in enumerate(items) if type(label) is kind) for kind in kinds}
    groups = {_kind_of(items[row]): row for row in first_rows.values()}
    if len(groups) > 1:
        pair = " and ".join(f"{name}[{row}] is {items[row]!r}, {_one_of(k)}" for k, row in sorted(groups.items())[:2])
        raise ValueError(
            f"{pair}; labels must be of one kind, as they are sorted: {name} = [str(label) for label in {name}] makes "
            "them text"
        )


def _is_container(kind: type) -> bool:
    # NumPy's scalars are of other classes than its arrays.
    return issubclass(kind, list | tuple | set | frozenset | np.ndarray | sp.sparray | sp.spmatrix)


def holds_lists(items: Sequence[Any]) -> bool:
    """Whether there are lists or sets of labels, which are neither rows of a matrix of numbers nor have one each."""
    if not any(_is_container(kind) for kind in set(map(type, items))):
        return False
    try:
        array = np.asarray(items)
    except ValueError:  # lists of different lengths
        return True
    return array.ndim < 2 or (array.ndim == 2 and not (array.dtype.kind in "biufc" or array.shape[1] == 1))


def _check_lists(items: Sequence[Any], several: bool, name: str) -> None:
    """Raise ValueError unless lists are the rows of a matrix of numbers, or hold one label each."""
    if not holds_lists(items):
        return
    row = next(row for row, item in enumerate(items) if _is_container(type(item)))
    remedy = BINARIZER if several else ONE_LABEL + BINARIZER
    raise ValueError(f"{name}[{row}] is {items[row]!r:.60}, a {type(items[row]).__name__} of labels; {remedy}")


def _missing(row: int, label: Any, name: str) -> str:
    return (
        f"{name}[{row}] is {label}: row {row} has no label. Input {name} contains NaN or None: leave such rows out, "
        f"keep = ~pandas.isna({name}), or give them a label"
    )


# Types of labels


def as_labels(values: Any) -> NDArray[Any]:
    """Return labels as an array of their own type.

    Integers become int64 or, where these are too large, uint64, else they stay objects; dates and times without a time
    zone become datetime64, time spans timedelta64. Arrays of NumPy, and columns of pandas that are one, stay as they
    are, but for NumPy's strings of any width, which become what a list of text does.

    Parameters
    ----------
    values : array-like
        Labels in any number of dimensions, some of them missing or not.

    Returns
    -------
    ndarray of the same shape
    """
    is_list = isinstance(values, list | tuple)
    array: NDArray[Any] = np.asarray(values, dtype=object) if is_list else np.asarray(values)
    if array.dtype.kind not in "OT":
        return array
    labels = _convert_objects(array.astype(object, copy=False))
    is_array_of_text = labels.dtype == object and (is_list or array.dtype.kind == "T")
    return _narrow(labels) if is_array_of_text else labels


def _convert_objects(labels: NDArray[Any]) -> NDArray[Any]:
    """Objects as an array of the type that holds all of them exactly; those of text and of other types as they are."""
    items: list[Any] = labels.ravel().tolist()
    kinds = set(map(type, items))
    array: Any = None
    if kinds <= {str} or not kinds:
        return labels
    if all(issubclass(kind, str) for kind in kinds):
        array = _objects([str.__str__(item) for item in items])
    elif all(issubclass(kind, bool | np.bool_) for kind in kinds):
        array = np.array(items, dtype=np.bool_)
    elif all(issubclass(kind, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64) for kind in kinds):
        array = _times(items)  # before integers, because timedelta64 is one of them
    elif all(issubclass(kind, numbers.Integral | np.bool_) for kind in kinds):
        array = _integers([int(item) for item in items])
    elif all(issubclass(kind, numbers.Real | np.bool_) for kind in kinds):
        array = _reals(items)
    return labels if array is None else array.reshape(labels.shape)


def _objects(items: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _integers(items: list[int]) -> NDArray[Any]:
    for dtype in (np.int64, np.uint64):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        if low <= min(items) and max(items) <= high:
            return np.array(items, dtype=dtype)
    return _objects(items)


def _reals(items: list[Any]) -> NDArray[Any] | None:
    """Integers and floats together as float64, where that changes none of them; NaN is one."""
    try:
        array = np.array(items, dtype=np.float64)
    except (OverflowError, TypeError):
        return None
    is_exact = all(x == y or y != y for x, y in zip(array.tolist(), items, strict=True))
    return array if is_exact else None


def _times(items: list[Any]) -> NDArray[Any] | None:
    """Dates, times or time spans in the coarsest unit that they share; None where one has a time zone, or they mix."""
    if any(getattr(item, "tzinfo", None) is not None for item in items):
        return None
    plain = [item.to_numpy() if hasattr(item, "to_numpy") else item for item in items]  # of pandas: nanoseconds
    kind = "m8" if all(isinstance(item, datetime.timedelta | np.timedelta64) for item in plain) else "M8"
    try:
        array = np.array(plain, dtype=kind)
        parts = [np.asarray(item, dtype=kind) for item in plain]
        is_exact = all(np.isnat(a) or a.astype(b.dtype) == b for a, b in zip(array, parts, strict=True))
    except (TypeError, ValueError, OverflowError):
        return None
    return array if is_exact else None


def _narrow(labels: NDArray[Any]) -> NDArray[Any]:
    """Text as an array of fixed width where that is narrow and keeps it; objects where not; all else as it is."""
    if labels.dtype.kind == "U":
        return labels.astype(object) if labels.dtype.itemsize > 4 * WIDEST else labels
    items = labels.ravel().tolist()
    if not items or set(map(type, items)) != {str} or max(map(len, items)) > WIDEST:
        return labels
    return labels if any(item.endswith("\0") for item in items) else labels.astype(str)


# Sets of labels


def check_classes(n: int, most_bytes: float = math.inf) -> None:
    """Refuse a number of classes whose labels and counts alone take more than max_memory, or than there is."""
    n_bytes = FIGURES.BYTES_OF_CLASS * n
    if n_bytes > most_bytes:
        raise ValueError(f"max_memory is {most_bytes / 1e6:.3g} MB; {n:,} classes take {n_bytes / 1e6:.3g} MB at least")
    if n_bytes > FIGURES.FITS_ANYWHERE:
        check_there_is_memory(n_bytes, f"{n:,} classes", "Leave out columns without a label", FIGURES.MOST_MEMORY)


def column_numbers(n: int) -> NDArray[np.intp]:
    """Return the numbers of columns, which are the labels of those without names; refuse more than memory holds."""
    check_classes(n)
    return np.arange(n)


def sorted_classes(
    y: NDArray[Any], known: NDArray[Any] | None = None, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, those that are known included, sorted, and the position of each label among them.

    The classes have the type of those that are known, if that holds all, else one that does.

    Raises
    ------
    ValueError
        If labels cannot be compared with each other, or are of another kind than those that are known.
    """
    labels = as_labels(y)
    classes, positions = _distinct(labels, name)
    forms = list(map(composed, classes.tolist())) if _has_forms(classes) else []
    if len(set(forms)) < len(forms):
        n_twice = len(forms) - len(set(forms))
        message = f"{name} has {n_twice} labels in two forms of Unicode; each is one class, composed (NFC)"
        warnings.warn(message, UserWarning, stacklevel=outer_level())
        classes, places = _distinct(_narrow(_objects(forms)), name)
        positions = places[positions]
    if known is None or not len(known):
        return classes, positions
    place = find_positions(classes, known, name)
    if np.all(place >= 0):
        return known, place[positions].astype(np.intp)
    all_classes, _ = _distinct(_together(known, classes[place < 0]), name)
    return all_classes, find_positions(classes, all_classes, name)[positions].astype(np.intp)


def composed(label: Any) -> Any:
    """Return text in Unicode's composed form (NFC); all else as it is."""
    return unicodedata.normalize("NFC", label) if isinstance(label, str) and not label.isascii() else label


def _has_forms(labels: NDArray[Any]) -> bool:
    """Whether labels are text that may have several forms."""
    return _kind(labels) == "text" and not all(isinstance(a, str) and a.isascii() for a in labels.ravel().tolist())


def _distinct(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels, sorted, and the position of each label among them."""
    try:
        if labels.dtype != object:
            classes, positions = np.unique(labels, return_inverse=True)
            return _narrow(classes), positions
        items = labels.tolist()
        distinct = sorted(set(items))
        place = {label: position for position, label in enumerate(distinct)}
        return _objects(distinct), np.array([place[label] for label in items], dtype=np.intp)
    except TypeError as error:  # which cannot be hashed, or not be sorted
        raise ValueError(f"the labels of {name} cannot be sorted: {error}; make them text or numbers") from error


def _together(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Two arrays of labels one after the other, in a type that holds both."""
    if known.dtype.kind == new.dtype.kind != "O":
        joint = np.concatenate([known, new])
        halves = zip(np.split(joint, [len(known)]), (known, new), strict=True)
        if all(np.array_equal(half.astype(part.dtype), part) for half, part in halves):
            return joint
    if known.dtype.kind in "iu" and new.dtype.kind == "f" and np.all(np.isfinite(new) & (new == np.floor(new))):
        new = _integers([int(label) for label in new])
    joint = _convert_objects(_objects([*_items(known), *_items(new)]))
    return joint if known.dtype == object else _narrow(joint)


def _items(labels: NDArray[Any]) -> list[Any]:
    """Labels as objects of Python, or of NumPy where Python has none for them."""
    is_time = labels.dtype.kind in "mM"
    return list(labels.ravel()) if is_time else labels.ravel().tolist()


_KINDS = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "S": "bytes"}
_KINDS |= {"M": "dates", "m": "time spans"}


def _one_of(kind: str) -> str:
    """Return a kind in the singular, as "a number"."""
    return kind if kind in ("text", "bytes") else f"a {kind.removesuffix('s')}"


def _kind_of(label: Any) -> str:
    """What kind a label is of; labels of one kind can be sorted."""
    if isinstance(label, numbers.Number | np.bool_) and not isinstance(label, np.timedelta64):
        return "numbers"
    return _KINDS.get(np.asarray(label).dtype.kind, type(label).__name__)


def _kind(labels: NDArray[Any]) -> str:
    """What kind of labels an array holds; by the first one there is where they are objects, nothing without one."""
    if labels.dtype != object:
        return _KINDS.get(labels.dtype.kind, "")
    return next((_kind_of(label) for label in labels.ravel() if type(label).__name__ not in _MISSING), "")


def check_kind(labels: NDArray[Any], classes: NDArray[Any], name: str) -> None:
    """Raise ValueError for text beside numbers, say; nothing is said of an empty array."""
    if not labels.size or not classes.size:
        return
    kind, known = _kind(labels), _kind(classes)
    if kind and known and kind != known:
        raise ValueError(
            f"{name} holds {kind}, such as {labels.ravel().tolist()[0]!r}; the classes are {known}, such as "
            f"{classes.tolist()[0]!r}"
        )


def find_positions(labels: NDArray[Any], classes: NDArray[Any], name: str) -> Ids:
    """Return the position of each label among the sorted classes, -1 where it has none.

    Parameters
    ----------
    labels : ndarray of any shape
    classes : ndarray of shape (n_classes,)
        Distinct and sorted.
    name : str
        The labels, for the message.

    Returns
    -------
    ndarray of the shape of `labels`, int32

    Raises
    ------
    ValueError
        If the labels are of another kind than the classes: text for numbers, say.
    """
    wanted = as_labels(labels)
    if wanted.size == 0 or not len(classes):
        return np.full(wanted.shape, -1, dtype=np.int32)
    check_kind(wanted, classes, name)
    dtype, kinds = wanted.dtype, {wanted.dtype.kind, classes.dtype.kind}
    if kinds == {"O"} or (len(kinds) > 1 and not kinds <= set("biu")):
        return _by_form(wanted, classes, _by_hash(wanted, classes))
    with np.errstate(over="ignore"):  # of floats, which then are not what they were
        cast = wanted.astype(classes.dtype, copy=False)
    is_exact = cast.astype(dtype, copy=False) == wanted  # longer text, say, is cut
    if len(kinds) > 1:
        is_exact &= (cast < 0) == (wanted < 0)
    positions = np.minimum(np.searchsorted(classes, cast), len(classes) - 1)
    return _by_form(wanted, classes, np.where((classes[positions] == cast) & is_exact, positions, -1).astype(np.int32))


def _by_form(labels: NDArray[Any], classes: NDArray[Any], positions: Ids) -> Ids:
    """Positions of labels, of those that have none by their composed form."""
    rest = positions < 0
    if rest.any() and _has_forms(classes):
        place = {composed(label): position for position, label in enumerate(classes.tolist())}
        positions[rest] = [place.get(composed(label), -1) for label in labels[rest].tolist()]
    return positions


def _by_hash(labels: NDArray[Any], classes: NDArray[Any]) -> Ids:
    """Positions by Python's comparison of objects, which is exact between integers and floats."""
    known, wanted = _items(classes), _items(labels)
    try:
        place = {label: position for position, label in enumerate(known)}
        positions = [place.get(label, -1) for label in wanted]
    except TypeError:  # which cannot be hashed
        positions = [next((i for i, known_label in enumerate(known) if known_label == label), -1) for label in wanted]
    return np.array(positions, dtype=np.int32).reshape(labels.shape)


def written(labels: NDArray[Any]) -> list[str]:
    """Return what is written for each label."""
    return labels.astype(str).tolist() if labels.dtype.kind in "mM" else list(map(str, labels.tolist()))


def readable(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels, an array of any shape, as JSON has them: numbers and text, all else as what is written for it."""
    if labels.dtype.kind in "mM":
        return labels.astype(str)
    if labels.dtype != object or all(isinstance(label, str | int | None) for label in labels.ravel()):
        return labels
    return _objects([str(label) for label in labels.ravel()]).reshape(labels.shape)


def columns_of_classes(classes: NDArray[Any], names: NDArray[Any] | None, n_features: int) -> Ids | None:
    """Return the column that each class is, by its name or, of integers, its number, else -1; None where none can be.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    names : ndarray of shape (n_features,) or None
        Of columns.
    n_features : int
    """
    if names is not None:
        places = {str(name): place for place, name in enumerate(names)}
        return np.array([places.get(str(label), -1) for label in classes], dtype=np.int32)
    if classes.dtype.kind not in "iu":
        return None
    return np.where((classes >= 0) & (classes < n_features), classes, -1).astype(np.int32)


def join_labels(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return all labels of several arrays in one; those of different types keep their identity."""
    filled = [array for array in arrays if array.size] or [np.zeros(0, dtype=object)]
    if len({array.dtype for array in filled}) == 1:
        return np.concatenate(filled)
    return _convert_objects(_objects([item for array in filled for item in _items(array)]))


def unseen_error(labels: NDArray[Any], positions: Ids, name: str) -> ValueError:
    """The error that says which labels have no position."""
    unseen, _ = _distinct(labels[positions < 0], name)
    if len(labels) == 1:
        return ValueError(f"{name} is {shown(unseen[0])}, which fit has not seen")
    return ValueError(
        f"{name} has {len(unseen)} labels unseen in fit, among them {shown(unseen[0])}; drop those points "
        "(manyclass.datasets.drop_unseen_classes) or fit on data that has them"
    )


def positions_of(labels: NDArray[Any], classes: NDArray[Any], name: str) -> Ids:
    """Return the positions that `find_positions` finds; raise ValueError for labels that have none."""
    positions = find_positions(labels, classes, name)
    if np.any(positions < 0):
        raise unseen_error(labels, positions, name)
    return positions


def labels_by_row(y: Any, n_rows: int) -> NDArray[Any]:
    """Return a label for each row, of an array or of one column, as `fit` takes both; raises ValueError for others."""
    labels = checked_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows, y has shape {labels.shape}; it must be ({n_rows},)")
    return labels


def group_ids(groups: Any, n_rows: int, name: str = "groups") -> NDArray[np.int64]:
    """Return the number of each row's group, of labels of any kind; raises ValueError where a row has none."""
    labels = checked_labels(groups, name)
    if labels.shape != (n_rows,):
        raise ValueError(f"{name} has shape {labels.shape}, and X has {n_rows} rows; it must be ({n_rows},)")
    return sorted_classes(labels, name=name)[1].astype(np.int64)


def labels_to_fit(y: Any, n_rows: int) -> NDArray[Any]:
    """Return what `labels_by_row` does, after scikit-learn's checks of labels of classes; numbers must be whole.

    Raises
    ------
    ValueError
        If labels are none for each row, bytes, or numbers that are infinite or have a fraction.
    """
    if isinstance(y, sp.sparray | sp.spmatrix):
        matrix: Any = y
        raise ValueError(f"y is a {type(y).__name__} of shape {matrix.shape}; {ONE_LABEL}{BINARIZER}")
    array = as_labels(y)
    labels = labels_by_row(array, n_rows)
    if array.ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its column is taken",
            DataConversionWarning,
            stacklevel=outer_level(),
        )
    if labels.dtype == object and any(map(_is_container, map(type, labels.tolist()))):
        raise ValueError(f"y[0] is {labels[0]!r:.60}; {ONE_LABEL}{BINARIZER}")
    kind = _kind(labels)
    if kind == "bytes":
        raise ValueError(f"y holds bytes, such as {labels[0]!r}; decode them: y = [label.decode() for label in y]")
    if labels.dtype.kind == "c":
        raise ValueError("Unknown label type: complex; labels must be whole numbers, text or dates")
    if kind == "numbers" and labels.dtype.kind in "fO":
        is_float = labels.dtype.kind == "f"
        floats = labels if is_float else np.array([label for label in labels if isinstance(label, float)])
        if np.isinf(floats).any():
            raise ValueError("Input y contains infinity or a value too large for float64")
        for fraction in floats[floats != np.floor(floats)][:1]:
            raise ValueError(
                f"Unknown label type: continuous. y holds {fraction}; maybe this is a regression target. "
                "Labels that are numbers must be whole: y = [str(label) for label in y] makes any numbers labels"
            )
    return labels


def seen_positions(y: Any, n_rows: int, classes: NDArray[Any], unseen: Unseen) -> tuple[Ids, NDArray[np.intp]]:
    """Return the positions of the labels that are classes, and their rows; raises ValueError where there are none.

    Others are left out or, with unseen="error", refused by a ValueError.
    """
    labels = labels_by_row(y, n_rows)
    positions = find_positions(labels, classes, "y")
    seen_rows = np.flatnonzero(positions >= 0)
    if len(seen_rows) < len(labels) and unseen == "error":
        raise unseen_error(labels, positions, "y")
    if len(seen_rows) == 0:
        raise ValueError("no row has a label that the model has seen")
    return positions[seen_rows], seen_rows


# Indicator matrices


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix of labels rather than a label for each point."""
    if sp.issparse(y):
        return True
    shape = np.asarray(y).shape
    return len(shape) == 2 and shape[1] != 1


class LabelMatrix(sp.csr_array):
    """An indicator matrix whose columns have names, sorted, as a data frame may have them."""

    columns: NDArray[Any]

    @classmethod
    def named(cls, matrix: Any, columns: NDArray[Any]) -> LabelMatrix:
        """Return a matrix with names of its columns."""
        labels = cls(matrix)
        labels.columns = columns
        return labels


def labels_of_columns(n_columns: int, known: NDArray[Any] | None) -> NDArray[Any]:
    """The classes that the columns of an indicator matrix stand for: their numbers, or classes that are known."""
    numbers = np.arange(n_columns)
    if known is None:
        return numbers
    if len(known) > n_columns:
        raise ValueError(f"y has {n_columns} columns; it must have a column for each of {len(known)} classes")
    if len(known) == n_columns:
        return known
    if known.dtype.kind not in "iu" or not np.array_equal(known, numbers[: len(known)]):
        raise ValueError(
            f"y has {n_columns} columns, and {len(known)} classes are known by other names than their numbers"
        )
    return numbers


def indicator_lists(y: Any, n_samples: int) -> sp.csr_array:
    """Return an indicator matrix as CSR with sorted, distinct columns and nothing but ones.

    Raises
    ------
    ValueError
        If it has another number of rows, or values other than 0 and 1.
    """
    cells: Any = y if sp.issparse(y) else np.asarray(y)
    if cells.dtype.kind not in "biufc":
        raise ValueError(f"y has shape {cells.shape} and dtype {cells.dtype}; {BINARIZER}")
    matrix = canonical_csr(sp.csr_array(cells))
    if matrix.ndim != 2 or matrix.shape[0] != n_samples:
        raise ValueError(f"X has {n_samples} rows, y has shape {matrix.shape}; it must have as many rows")
    for position in np.flatnonzero(~np.isin(matrix.data, (0, 1)))[:1]:
        row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
        holds = f"holds {matrix.data[position]:g}; a matrix of labels holds 0 and 1, which row {row} does not"
        raise ValueError(f"y has shape {matrix.shape} and {holds}, one label a row is a 1d array; {BINARIZER}")
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix
