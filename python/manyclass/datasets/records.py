"""All rows of an input, in any form: features, texts or histories of users, and labels with their names."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.datasets.binary_csr import read_csr
from manyclass.datasets.csr import joined_rows, ones_at
from manyclass.datasets.inputs import Input, Layout
from manyclass.datasets.label_words import label_columns
from manyclass.datasets.preprocessing import first_label
from manyclass.datasets.stream import open_files
from manyclass.datasets.tables import ROWS, Present, TableFile
from manyclass.datasets.xmc import CACHE_SUFFIX, read_cached, read_svmlight, read_xmc
from manyclass.labels import as_labels, find_positions, join_labels, sorted_classes, written


@dataclass(frozen=True)
class Records:
    """Rows as an input has them.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_features), DataFrame of such a shape, or list of n_rows str
        Features, or texts.
    Y : csr_array of shape (n_rows, n_labels)
        Ones where a row has a label; the order in which a row stores them is that of the input.
    labels : ndarray of shape (n_labels,)
        The label of each column, sorted: numbers or str.
    one_based : bool
        Whether the first feature of a text has number 1.
    name : str
        What messages call the rows.
    form : str
        The form that they had.
    dropped : dict
        Number of rows "without_label" and "without_feature" (and with a label), where these have been dropped.
    notes : tuple of str
        What a user should know of the reading.
    groups : ndarray of shape (n_rows,), or None
        The group of each row.
    """

    X: Any
    Y: sp.csr_array
    labels: NDArray[Any]
    one_based: bool = False
    name: str = ""
    form: str = ""
    dropped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None


def read_records(form: str, source: Input, layout: Layout, *, cache: bool = False) -> Records:
    """Read all rows of an input.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    source : Input
    layout : Layout
    cache : bool, default=False
        Whether "xmc" is kept as a binary file beside the input; see `load_xmc`.

    Raises
    ------
    ValueError
        If they are malformed, with the file and the line.
    """
    if form in ("xmc", "csr"):
        if form == "csr":
            X, Y = read_csr(source, layout.n_features)
        else:
            X, Y = read_cached(source, layout, source.path + CACHE_SUFFIX) if cache else read_xmc(source, layout)
        one_based = form == "xmc" and layout.zero_based is False
        return Records(X, Y, np.arange(Y.shape[1]), one_based, source.name, form)
    blocks: Any
    if form == "svmlight":
        blocks, zero_based = read_svmlight(source, layout)
    else:
        blocks, zero_based = list(open_files([source], form, layout).blocks(ROWS)), True
    rows = joined_rows([X for X, _ in blocks])
    Y, names, notes = _columns([labels for _, labels in blocks])
    groups = None
    if layout.groups is not None:
        groups = as_labels(*TableFile(source, form, layout).cells([layout.groups]))
    return Records(rows, Y, names, not zero_based, source.name, form, notes=notes, groups=groups)


def _columns(blocks: Sequence[Any]) -> tuple[sp.csr_array, NDArray[Any], tuple[str, ...]]:
    """Return the labels of blocks of rows as a matrix, the label of each of its columns, and what there is to note."""
    if not (blocks and isinstance(blocks[-1], Present) and isinstance(blocks[-1].labels, np.ndarray)):
        words = (block.words() if isinstance(block, Present) else block for block in blocks)
        Y, names, n_twice = label_columns([row for block in words for row in block])
        return Y, names, (f"labels that stand twice in a row count once: {n_twice} left out",) if n_twice else ()
    names, columns = sorted_classes(join_labels([block.labels for block in blocks]))
    return ones_at(columns, np.concatenate([block.is_labelled for block in blocks]), len(names)), names, ()


# Labels of rows, Y, and the label of each of its columns


def first_labels(Y: sp.csr_array) -> sp.csr_array:
    """Return the first label of each row that has one, as a matrix without the other rows."""
    y = first_label(Y)
    return ones_at(y[y >= 0], np.ones(np.count_nonzero(y >= 0)), Y.shape[1])


def places_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes of a model, -1 where it is none of them.

    Numbers are compared as numbers; a number with a name by what is written for it.
    """
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return find_positions(labels, classes, "the data").astype(np.int64)
    places = {label: place for place, label in enumerate(written(classes))}
    return np.array([places.get(label, -1) for label in written(labels)], dtype=np.int64)


def known_labels(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> sp.csr_array:
    """Return the labels of the rows that a model knows, (n_rows, n_classes), ones by the places of its classes.

    They stand in the order of the rows; estimators want them sorted.
    """
    places = places_among(classes, labels)[Y.indices]
    is_known = places >= 0
    n_before = np.concatenate([[0], np.cumsum(is_known)])[Y.indptr]
    return ones_at(places[is_known], np.diff(n_before), len(classes))


def as_classes(classes: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of the kind that a model's have: a number or a date is the name that is written for it.

    Raises
    ------
    ValueError
        If the model's labels are numbers or dates and the data's are other names.
    """
    if classes is None or (classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf"):
        return labels
    names, places = written(labels), places_among(classes, labels)
    if np.all(places >= 0):
        return np.asarray(classes[places])
    if classes.dtype.kind in "OU":
        return as_labels(names)
    with contextlib.suppress(ValueError, OverflowError):
        converted = np.array(names).astype(classes.dtype)
        if written(converted) == names:
            return converted
    kind = "dates" if classes.dtype.kind in "mM" else "numbers"
    raise ValueError(f"labels are names, such as {names[0]!r}; the model's are {kind}, such as {written(classes)[0]}")
