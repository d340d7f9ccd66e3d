"""Tables: CSV and TSV by the core, and Parquet by pyarrow; numeric features, and a column of labels."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_choice
from manyclass.compressed import LONGEST_LINE, MOST_BLANK_LINES
from manyclass.datasets.inputs import DELIMITERS, Input, Layout
from manyclass.datasets.numerals import BLANKS, parse_numbers
from manyclass.labels import as_labels, written

LABEL_COLUMN = "label"  # where no other is named
TEXTS = "if each line is a text, a tab and its labels, its format is text"
PIECE_BYTES = 1 << 20  # of text read at a time
ROWS = 65_536  # that are parsed at once


def label_in(cell: str) -> str:
    """Return the label that a cell holds; empty where the row has none."""
    return cell.strip(BLANKS)


@dataclass(frozen=True)
class Marks:
    """What stands between the cells of a table, and in its numbers before their fraction.

    Raises
    ------
    ValueError
        If they are none of the characters that can be told from the cells.
    """

    delimiter: str = ","
    decimal: str = "."

    def __post_init__(self) -> None:
        check_choice("decimal", self.decimal, (".", ","))
        if len(self.delimiter) != 1 or self.delimiter.isalnum() or self.delimiter in '"\n\r.+-_' + self.decimal:
            raise ValueError(
                f"delimiter is {self.delimiter!r}; it must be one character, which is no letter, digit, quote, sign or "
                f"end of a line, and not the decimal {self.decimal!r}"
            )

    @classmethod
    def of(cls, form: str, layout: Layout) -> Marks:
        """Return the marks of a layout, or those of the form."""
        return cls(DELIMITERS.get(form, ",") if layout.delimiter is None else layout.delimiter, layout.decimal)


class Cells:
    """The cells of CSV or TSV, some rows at once; each row must have a cell for each column.

    Parameters
    ----------
    file : file of bytes
    name : str
        What messages call it.
    marks : Marks

    Attributes
    ----------
    columns : list of str
        Their names, as pandas makes them of the first line: a name that occurs again gets a number.
    header : list of str
        The cells of the first line.

    Raises
    ------
    ValueError
        If the file is empty, not UTF-8, or its first line has one cell that other marks would divide.
    ImportError
        Without pandas.
    """

    def __init__(self, file: IO[bytes], name: str, marks: Marks) -> None:
        pandas = library("pandas")
        self._file, self._name = file, name
        self._reader = _core.CsvReader(name, marks.delimiter, marks.decimal, LONGEST_LINE, MOST_BLANK_LINES)
        first, self.header = io.StringIO(), self._next(self._reader.header)
        csv.writer(first).writerow(self.header)
        self.columns: list[str] = pandas.read_csv(io.StringIO(first.getvalue()), nrows=0).columns.tolist()
        if len(self.columns) == 1 and (mark := re.search("[;\t|]", self.columns[0])):
            raise ValueError(f"{name}: the first line is one cell, {self.columns[0]!r}; set delimiter to {mark[0]!r}")

    def _next(self, ask: Callable[[], Any]) -> Any:
        """What the core says once it has enough text."""
        while (answer := ask()) is None:
            self._reader.add(self._file.read(PIECE_BYTES))
        return answer

    def blocks(self, numeric: Sequence[str], size: int) -> Iterator[tuple[NDArray[np.float32], dict[str, list[str]]]]:
        """Yield at most `size` rows at once: numbers of shape (n, len(numeric)), and the cells of all other columns.

        Raises
        ------
        ValueError
            If a row has more or fewer cells than the table has columns, or a cell is not a finite number, with the file
            and the line.
        """
        numbers = [self.columns.index(name) for name in numeric]
        others = [column for column in range(len(self.columns)) if column not in numbers]
        while True:
            X, texts = self._next(lambda: self._reader.take(numbers, others, size, True, self._name, self.columns))
            if not len(X):
                return
            yield X, {self.columns[column]: cells for column, cells in zip(others, texts, strict=True)}


def read_columns(source: Input, form: str, marks: Marks, labels: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Read all columns of a table: float64 where cells are numbers or blank, else objects; of Parquet as they are.

    Parameters
    ----------
    source : Input
    form : {"csv", "tsv", "parquet"}
    marks : Marks
    labels : collection of str
        Columns that stay text, so that "01" and "1" are two.

    Raises
    ------
    ValueError
        If the table is malformed, with the file and the line, or two of its columns have one name.
    ImportError
        Without pandas, or pyarrow for Parquet.
    """
    if form == "parquet":
        table = _parquet(source).read()
        _check_names(source.name, table.column_names)
        # Without nulls, which would make other numbers of integers.
        return {
            name: np.array([*column.to_pylist(), None], dtype=object)[:-1]
            if column.null_count
            else column.to_pandas().to_numpy()
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    with source.opened() as raw:
        cells = Cells(raw, source.name, marks)
        _check_names(source.name, cells.header)
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in cells.columns}
        for _, block in cells.blocks([], ROWS):
            for name, column in block.items():
                parsed = None if name in labels else parse_numbers(column, marks.decimal)
                parts[name].append(np.array(column, dtype=object) if parsed is None else parsed)
    kinds = {name: {part.dtype for part in arrays} for name, arrays in parts.items()}
    mixed = [name for name, dtypes in kinds.items() if len(dtypes) > 1]
    if mixed:  # a later block has shown that these are text
        return read_columns(source, form, marks, {*labels, *mixed})
    return {name: np.concatenate(arrays) if arrays else np.zeros(0, object) for name, arrays in parts.items()}


def _check_names(name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if columns.count(column) > 1:
            raise ValueError(f"{name}: two columns are named {column!r}; rename one of them")


def line_of(source: Input, marks: Marks, row: int) -> int:
    """Return the line of CSV at which a row begins."""
    with source.opened() as raw:
        text = io.TextIOWrapper(raw, "utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=marks.delimiter)
        n_rows, line = -1, 1  # the first one is the header
        for cells in reader:
            if cells and n_rows == row:
                return line
            n_rows, line = n_rows + bool(cells), reader.line_num + 1
    return line


class Present(NamedTuple):
    """The labels of a block: which rows have one, and the labels of these, words of CSV or values of Parquet."""

    is_labelled: NDArray[np.bool_]
    labels: Any

    @classmethod
    def from_cells(cls, cells: Sequence[str]) -> Present:
        """Return the labels that the cells of a column hold."""
        words = [label_in(cell) for cell in cells]
        return cls(np.array([word != "" for word in words], dtype=bool), [word for word in words if word])

    def words(self) -> list[list[str]]:
        """Return the labels of each row."""
        labels = iter(self.labels)
        return [[next(labels)] if has_label else [] for has_label in self.is_labelled.tolist()]


@dataclass(frozen=True)
class Tables:
    """Inputs with the same columns.

    Attributes
    ----------
    inputs : sequence of Input
    form : {"csv", "tsv", "parquet"}
    label : str or None
        The column of labels; None: there is none, and rows have no label.
    features : sequence of str
        Columns of numbers, or those that are joined to texts.
    is_text : bool
    separator : str
        Between the labels in a cell; empty: a cell is a label.
    marks : Marks
    n_rows : int or None
        None of CSV, which must be read to be counted.
    """

    inputs: Sequence[Input]
    form: str
    label: str | None
    features: Sequence[str]
    is_text: bool
    separator: str
    marks: Marks
    n_rows: int | None

    n_labels = None  # they become known as they come

    @classmethod
    def of(cls, inputs: Sequence[Input], form: str, layout: Layout) -> Tables:
        """Read the names of the columns.

        Raises
        ------
        ValueError
            If a column is missing, or inputs differ in their columns.
        ImportError
            Without pandas, or pyarrow for Parquet.
        """
        library("pandas")
        marks = Marks.of(form, layout)
        names = [columns_of(source, form, marks) for source in inputs]
        label, features = _columns_to_read(inputs[0].name, names[0], layout)
        for source, other_names in zip(inputs, names, strict=True):
            if sorted(other_names) != sorted(names[0]):
                lone = sorted(set(other_names) ^ set(names[0]))[0]
                raise ValueError(
                    f"{source.name} and {inputs[0].name} differ in their columns: {lone!r} is in one of them only"
                )
        n_rows = None
        if form == "parquet":
            n_rows = sum(_parquet(source).metadata.num_rows for source in inputs)
        return cls(inputs, form, label, features, bool(layout.text), layout.separator or "", marks, n_rows)

    @property
    def n_features(self) -> int | None:
        """Columns of numbers; None of texts."""
        return None if self.is_text else len(self.features)

    def blocks(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield at most `size` rows at once: a DataFrame of float32 or a list of texts, and the labels of each row.

        Labels are words where a separator divides cells, else `Present`.
        """
        read = self._rows_of_parquet if self.form == "parquet" else self._rows
        for source in self.inputs:
            yield from read(source, size)

    def _frame(self, X: NDArray[np.float32]) -> Any:
        return library("pandas").DataFrame(X, columns=self.features)

    def _rows(self, source: Input, size: int) -> Iterator[tuple[Any, Any]]:
        yield [] if self.is_text else self._frame(np.empty((0, len(self.features)), np.float32)), Present.from_cells([])
        with source.opened() as raw:
            for X, cells in Cells(raw, source.name, self.marks).blocks([] if self.is_text else self.features, size):
                labels = [""] * len(X) if self.label is None else cells[self.label]
                words = _core.split_labels(labels, self.separator) if self.separator else Present.from_cells(labels)
                if self.is_text:
                    yield [" ".join(row) for row in zip(*(cells[name] for name in self.features), strict=True)], words
                else:
                    yield self._frame(X), words

    def _rows_of_parquet(self, source: Input, size: int) -> Iterator[tuple[Any, Present]]:
        columns, n = [*self.features, *([] if self.label is None else [self.label])], 0
        for batch in _parquet(source).iter_batches(size, columns=columns):
            frame = batch.select(self.features).to_pandas()
            try:
                X = [" ".join(map(str, row)) for row in frame.to_numpy()] if self.is_text else frame.astype(np.float32)
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"{source.name}, from row {n} on: {error}") from error
            n += len(X)
            if self.label is None:
                yield X, Present(np.zeros(len(X), dtype=bool), np.zeros(0, dtype=object))
            else:
                yield X, _present(batch.column(self.label))


def _present(column: Any) -> Present:
    """Return the labels of a column of Arrow; a null, NaN or a blank text is none."""
    is_labelled = column.is_valid().to_numpy(zero_copy_only=False).copy()
    values = column.drop_null().to_pandas()  # nulls would make other numbers of integers
    there = np.array([not isinstance(label, str) or label_in(label) != "" for label in values], dtype=bool)
    there &= values.notna().to_numpy()
    is_labelled[is_labelled] = there
    labels = as_labels(values[there])
    return Present(is_labelled, as_labels(written(labels)) if labels.dtype == object else labels)


def _parquet(source: Input) -> Any:
    """Open a file of Parquet."""
    raw = source.path if source.content is None else io.BytesIO(source.content)
    return library("pyarrow.parquet").ParquetFile(raw)


def _columns_to_read(name: str, names: Sequence[str], layout: Layout) -> tuple[str | None, list[str]]:
    """Return the column of labels, if there is one to read, and those of features; raises as `Tables.of` does."""
    label = layout.label if layout.label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
    if layout.need_label and label is None:
        message = f"{name}: no column is named {LABEL_COLUMN!r}; name it by y, one of {_listed(names)}"
        raise ValueError(f"{message}; {TEXTS}" if len(names) == 2 else message)
    if label not in names and not layout.need_label:
        label = None
    wanted = layout.text or layout.features
    for column in [*wanted, *([label] if label is not None else [])]:
        if column not in names:
            raise ValueError(f"{name}: there is no column {column!r}; it has {_listed(names)}")
    features = [*wanted] or [column for column in names if column not in (label, layout.groups)]
    if not features:
        raise ValueError(f"{name}: there is no column but {label!r}; features are needed")
    return label, features


def columns_of(source: Input, form: str, marks: Marks) -> list[str]:
    """Return the names of an input's columns."""
    if form == "parquet":
        return list(_parquet(source).schema_arrow.names)
    with source.opened() as raw:
        return Cells(raw, source.name, marks).columns


def cells_of(source: Input, form: str, marks: Marks, names: Sequence[str]) -> list[list[str]]:
    """Return the cells of some columns, as labels are read; raises ValueError where a column is missing."""
    columns = columns_of(source, form, marks)
    for name in names:
        if name not in columns:
            raise ValueError(f"{source.name}: there is no column {name!r}; it has {', '.join(columns)}")
    if form == "parquet":
        table = _parquet(source).read(list(names))
        return [["" if cell is None else label_in(str(cell)) for cell in table[name].to_pylist()] for name in names]
    with source.opened() as raw:
        blocks = [block for _, block in Cells(raw, source.name, marks).blocks([], ROWS)]
    return [[label_in(cell) for block in blocks for cell in block[name]] for name in names]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} others" if len(names) > 20 else "")


def library(name: str) -> Any:
    """Import a library that tables need.

    Raises
    ------
    ImportError
        With how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"tables need {name}: pip install 'manyclass[tables]'") from error
