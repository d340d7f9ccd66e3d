"""Tables with a line of column names, by pandas: numeric features or columns of text, and a column of labels."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyclass.cli.records import Records, label_columns, split_labels
from manyclass.cli.sources import Source

LABEL_COLUMN = "label"  # where no other is named
LARGEST = float(np.finfo(np.float32).max)


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

    def found_in(self, names: Sequence[str], source: str) -> tuple[list[str], str | None]:
        """Return the columns of features or text, and that of labels; raises ValueError where one is missing."""
        label = self.label if self.label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
        if self.need_label and label is None:
            raise ValueError(
                f"{source}: no column is named {LABEL_COLUMN!r}; name it by --label-column, one of {_listed(names)}"
            )
        used = [*self.text] or [*(self.features or [])]
        if not self.need_label and label not in names:
            label = None
        for name in [*used, *([] if label is None else [label])]:
            if name not in names:
                raise ValueError(f"{source}: there is no column {name!r}; it has {_listed(names)}")
        used = used or [name for name in names if name != label]
        if not used:
            raise ValueError(f"{source}: there is no column but {label!r}; features or a --text-column are needed")
        return used, label


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} others" if len(names) > 20 else "")


def read_table(source: Source, delimiter: str, columns: Columns) -> Records:
    """Read a table.

    Raises
    ------
    ImportError
        Without pandas.
    ValueError
        If a column is missing, or a cell is no number, with the file and the line.
    """
    raw = source.read().rstrip(b"\r\n") + b"\n"
    if not raw.strip():
        raise ValueError(f"{source.name}: it is empty; the first line must name the columns")
    names = _read(source, raw, delimiter, nrows=0).columns.tolist()
    used, label = columns.found_in(names, source.name)
    numeric = [] if columns.text else used
    # All columns are read, because pandas counts the cells of a line only then.
    types: dict[str, Any] = dict.fromkeys(names, str) | dict.fromkeys(numeric, np.float64)
    try:
        frame = _read(source, raw, delimiter, dtype=types)
    except (ValueError, OverflowError) as error:
        if str(error).startswith(source.name):
            raise
        _refuse_cell(_read(source, raw, delimiter, dtype=str), numeric, source.name)
        raise ValueError(f"{source.name}: {error}") from error
    if not (np.abs(frame[numeric].to_numpy()) <= LARGEST).all():
        _refuse_cell(_read(source, raw, delimiter, dtype=str), numeric, source.name)
    cells = [""] * len(frame) if label is None else frame[label].tolist()
    found = [split_labels(str(cell), columns.separator) for cell in cells]
    Y, labels = label_columns(found, source.name, range(2, len(found) + 2))
    if columns.text:
        parts = zip(*(frame[name].astype(str).tolist() for name in used), strict=True)
        return Records([" ".join(cells) for cells in parts], Y, labels)
    return Records(frame[used].astype(np.float32), Y, labels)


def _read(source: Source, raw: bytes, delimiter: str, **options: Any) -> Any:
    """Read by pandas; its messages get the name of the file and the line."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install 'manyclass[tables]'") from error
    # A blank line is a row of empty cells, so that lines can be counted; cells that a line lacks are empty, too.
    options |= {"sep": delimiter, "encoding": "utf-8-sig", "keep_default_na": False, "skip_blank_lines": False}
    try:
        frame = pandas.read_csv(io.BytesIO(raw), **options)
    except pandas.errors.ParserError as error:
        wrong = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        told = f"{wrong[2]}: there are {wrong[3]} cells; the columns are {wrong[1]}" if wrong else f" {error}"
        raise ValueError(f"{source.name}:{told}") from error
    except UnicodeDecodeError:
        source.text()  # raises an error that says where
        raise
    if not isinstance(frame.index, pandas.RangeIndex):  # pandas takes first cells that have no name for names of rows
        n = frame.shape[1]
        raise ValueError(f"{source.name}:2: there are {n + frame.index.nlevels} cells; the columns are {n}")
    return frame


def _refuse_cell(frame: Any, numeric: Sequence[str], source: str) -> None:
    """Raise for the first cell of a table of texts that is no number."""
    numbers = [frame.columns.get_loc(name) for name in numeric]
    line = 2  # behind the names of the columns
    for cells in frame.to_numpy(dtype=object):
        for at in numbers:
            if not _is_number(cells[at]):
                raise ValueError(
                    f"{source}:{line}: {cells[at]!r} in column {frame.columns[at]!r} is not a finite number "
                    "(name columns of text by --text-column)"
                )
        line += 1 + sum(str(cell).count("\n") for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) <= LARGEST
    except ValueError:
        return False
