"""Tables with a line of column names: numeric features or columns of text, and a column of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyclass.cli.records import Records, label_columns, split_labels
from manyclass.cli.sources import Source
from manyclass.datasets.tables import LABEL_COLUMN, Cells, Marks, library

ROWS = 65_536  # that are parsed at once


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    Attributes
    ----------
    label : str or None
        None: the one named "label", if there is one.
    text : sequence of str
        Columns of text, which then are all that is used; empty: numeric features.
    features : sequence of str or None
        The features of a model; None: all columns but the label's.
    separator : str or None
        Between the labels in a cell; None: a cell is a label.
    need_label : bool
        Whether a table without labels is an error.
    """

    label: str | None
    text: Sequence[str]
    features: Sequence[str] | None
    separator: str | None
    need_label: bool


def read_table(source: Source, marks: Marks, columns: Columns) -> Records:
    """Read a table.

    Raises
    ------
    ImportError
        Without pandas.
    ValueError
        If a column is missing, or a cell is no number, with the file and the line.
    """
    pandas = library("pandas")
    with source.opened() as file:
        cells = Cells(file, source.name, marks)
        label, numeric = _chosen(source.name, cells.columns, columns)
        try:
            blocks = list(cells.blocks([] if columns.text else numeric, ROWS))
        except ValueError as error:
            if str(error).endswith("is not a finite number"):
                raise ValueError(f"{error} (name columns of text by --text-column)") from error
            raise
    texts = {name: [cell for _, some in blocks for cell in some[name]] for name in {*columns.text, label or ""} if name}
    n_rows = sum(len(X) for X, _ in blocks)
    cells_of_labels = [""] * n_rows if label is None else texts[label]
    found = [split_labels(cell, columns.separator) for cell in cells_of_labels]
    Y, labels = label_columns(found)
    if columns.text:
        parts = zip(*(texts[name] for name in columns.text), strict=True)
        return Records([" ".join(part) for part in parts], Y, labels)
    X = np.concatenate([np.empty((0, len(numeric)), np.float32), *(X for X, _ in blocks)])
    return Records(pandas.DataFrame(X, columns=numeric), Y, labels)


def _chosen(name: str, names: Sequence[str], columns: Columns) -> tuple[str | None, list[str]]:
    """Return the column of labels, if there is one to read, and those of features; raises as `read_table` does."""
    label = columns.label if columns.label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
    if columns.need_label and label is None:
        raise ValueError(
            f"{name}: no column is named {LABEL_COLUMN!r}; name it by --label-column, one of {_listed(names)}"
        )
    needed = [*columns.text] if columns.text else [*(columns.features or [])]
    labelled = label is not None and (columns.need_label or label in names)
    for wanted in [*needed, *([label] if labelled else [])]:
        if wanted not in names:
            raise ValueError(f"{name}: there is no column {wanted!r}; it has {_listed(names)}")
    numeric = needed or [one for one in names if one != label]
    if not numeric:
        raise ValueError(f"{name}: there is no column but {label!r}; features or a --text-column are needed")
    return (label if labelled else None), numeric


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} others" if len(names) > 20 else "")
