"""Tables with a line of column names, by pandas: numeric features or columns of text, and a column of labels."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from manyclass.cli.forms import Records, label_columns, split_labels
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


def read_table(source: Source, delimiter: str, columns: Columns) -> Records:
    """Read a table.

    Raises
    ------
    ImportError
        Without pandas.
    ValueError
        If a column is missing, or a cell is no number, with the file and the line.
    """
    pandas = _pandas()
    raw = source.read().rstrip(b"\r\n") + b"\n"
    options: dict[str, Any] = {"sep": delimiter, "encoding": "utf-8-sig", "keep_default_na": False}
    names = _read(pandas, source, raw, nrows=0, **options).columns.tolist()
    label = columns.label if columns.label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
    if columns.need_label and label is None:
        raise ValueError(
            f"{source.name}: no column is named {LABEL_COLUMN!r}; name it by --label-column, one of {_listed(names)}"
        )
    needed = [*columns.text] if columns.text else [*(columns.features or [])]
    labelled = label is not None and (columns.need_label or label in names)
    for name in [*needed, *([label] if labelled else [])]:
        if name not in names:
            raise ValueError(f"{source.name}: there is no column {name!r}; it has {_listed(names)}")
    numeric = needed or [name for name in names if name != label]
    if not numeric:
        raise ValueError(f"{source.name}: there is no column but {label!r}; features or a --text-column are needed")
    # All columns are read, because pandas counts the cells of a line only then.
    types: dict[str, Any] = dict.fromkeys(names, str)
    if not columns.text:
        types |= dict.fromkeys(numeric, np.float64)
    try:
        # A blank line is a row of empty cells, so that lines can be counted; cells that a line lacks are empty, too.
        frame = _read(pandas, source, raw, dtype=types, skip_blank_lines=False, **options)
    except (ValueError, OverflowError) as error:
        if str(error).startswith(source.name):
            raise
        _tell_where(pandas, source, raw, options, numeric, columns, error)
    if not columns.text and not (np.abs(frame[numeric].to_numpy()) <= LARGEST).all():
        _tell_where(pandas, source, raw, options, numeric, columns, None)
    cells = frame[label].tolist() if labelled else [""] * len(frame)
    found = [split_labels(str(cell), columns.separator) for cell in cells]
    Y, labels = label_columns(found, source.name, range(2, len(found) + 2))
    if columns.text:
        parts = zip(*(frame[name].astype(str).tolist() for name in columns.text), strict=True)
        return Records([" ".join(cells) for cells in parts], Y, labels)
    return Records(frame[numeric].astype(np.float32), Y, labels)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install 'manyclass[tables]'") from error
    return pandas


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} others" if len(names) > 20 else "")


def _read(pandas: Any, source: Source, raw: bytes, **options: Any) -> Any:
    """pandas' reader, with the name of the file and the line in its messages."""
    try:
        return pandas.read_csv(io.BytesIO(raw), **options)
    except pandas.errors.EmptyDataError as error:
        raise ValueError(f"{source.name}: it is empty; the first line must name the columns") from error
    except pandas.errors.ParserError as error:
        wrong = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if wrong:
            message = f"{source.name}:{wrong[2]}: there are {wrong[3]} cells; the columns are {wrong[1]}"
            raise ValueError(message) from error
        raise ValueError(f"{source.name}: {error}") from error
    except UnicodeDecodeError as error:
        source.text()  # which says where
        raise ValueError(f"{source.name}: {error}") from error


def _tell_where(
    pandas: Any,
    source: Source,
    raw: bytes,
    options: dict[str, Any],
    numeric: Sequence[str],
    columns: Columns,
    error: BaseException | None,
) -> NoReturn:
    """Read the table again as text, and raise for the first cell that is no number."""
    frame = _read(pandas, source, raw, dtype=str, skip_blank_lines=False, **options)
    numbers = [frame.columns.get_loc(name) for name in ([] if columns.text else numeric)]
    cells = frame.to_numpy(dtype=object)
    line = 2  # behind the names of the columns
    for row in range(len(cells)):
        for at in numbers:
            if not _is_number(cells[row, at]):
                raise ValueError(
                    f"{source.name}:{line}: {cells[row, at]!r} in column {frame.columns[at]!r} is not a finite number "
                    "(name columns of text by --text-column)"
                )
        line += 1 + sum(str(cell).count("\n") for cell in cells[row])
    raise ValueError(f"{source.name}: {error}")


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) <= LARGEST
    except ValueError:
        return False
