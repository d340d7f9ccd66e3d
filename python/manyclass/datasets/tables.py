"""Tables: CSV and TSV by the core, and Parquet by pyarrow; numeric features, and a column of labels."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_choice
from manyclass.compressed import LONGEST_LINE, MOST_BLANK_LINES
from manyclass.datasets.inputs import BLANKS, DELIMITERS, Input, Layout, RowSource, parse_numbers
from manyclass.labels import as_labels, written

LABEL_COLUMN = "label"  # where no other is named
PIECE_BYTES = 1 << 20  # of text read at a time
ROWS = 65_536  # that are parsed at once


def label_in(cell: str) -> str:
    """Return the label that a cell holds; empty where the row has none."""
    return cell.strip(BLANKS)


class Present(NamedTuple):
    """The labels of a block: which rows have one, and the labels of these, words of CSV or values of Parquet."""

    is_labelled: NDArray[np.bool_]
    labels: Any

    def words(self) -> list[list[str]]:
        """Return the labels of each row."""
        labels = iter(self.labels)
        return [[next(labels)] if has_label else [] for has_label in self.is_labelled.tolist()]


class Cells:
    """The cells of CSV or TSV, some rows at once; each row must have a cell for each column.

    Parameters
    ----------
    file : file of bytes
    table : TableFile
        Whose text it is.

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

    def __init__(self, file: IO[bytes], table: TableFile) -> None:
        self._file, self._name = file, table.source.name
        marks = table.delimiter, table.layout.decimal
        self._reader = _core.CsvReader(self._name, *marks, LONGEST_LINE, MOST_BLANK_LINES)
        first, self.header = io.StringIO(), self._next(self._reader.header)
        csv.writer(first).writerow(self.header)
        first.seek(0)
        self.columns: list[str] = library("pandas").read_csv(first, nrows=0).columns.tolist()
        if len(self.columns) == 1 and (mark := re.search("[;\t|]", self.columns[0])):
            cell = f"{self._name}: the first line is one cell, {self.columns[0]!r}"
            raise ValueError(f"{cell}; set delimiter to {mark[0]!r}")

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


@dataclass(frozen=True)
class TableFile:
    """A table that an input holds.

    Attributes
    ----------
    source : Input
    form : {"csv", "tsv", "parquet"}
    layout : Layout
        What stands between its cells, and in its numbers before their fraction.

    Raises
    ------
    ValueError
        If these are none of the characters that can be told from the cells.
    """

    source: Input
    form: str
    layout: Layout

    def __post_init__(self) -> None:
        decimal = self.layout.decimal
        check_choice("decimal", decimal, (".", ","))
        if len(self.delimiter) != 1 or self.delimiter.isalnum() or self.delimiter in '"\n\r.+-_' + decimal:
            raise ValueError(
                f"delimiter is {self.delimiter!r}; it must be one character, which is no letter, digit, quote, sign or "
                f"end of a line, and not the decimal {decimal!r}"
            )

    @property
    def delimiter(self) -> str:
        """The delimiter of the layout, or that of the form."""
        return DELIMITERS.get(self.form, ",") if self.layout.delimiter is None else self.layout.delimiter

    def parquet(self) -> Any:
        """Open a file of Parquet."""
        content = self.source.content
        raw = self.source.path if content is None else io.BytesIO(content)
        return library("pyarrow.parquet").ParquetFile(raw)

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        if self.form == "parquet":
            return list(self.parquet().schema_arrow.names)
        with self.source.opened() as file:
            return Cells(file, self).columns

    def cells(self, names: Sequence[str]) -> list[list[str]]:
        """Return the cells of some columns, as labels are read; raises ValueError where a column is missing."""
        _check_columns(self.source.name, self.columns(), names)
        if self.form == "parquet":
            table = self.parquet().read(list(names))
            return [["" if cell is None else label_in(str(cell)) for cell in table[name].to_pylist()] for name in names]
        with self.source.opened() as file:
            blocks = [block for _, block in Cells(file, self).blocks([], ROWS)]
        return [[label_in(cell) for block in blocks for cell in block[name]] for name in names]

    def read(self, labels: Collection[str] = ()) -> dict[str, NDArray[Any]]:
        """Read all columns: float64 where cells are numbers or blank, else objects; of Parquet as they are.

        Parameters
        ----------
        labels : collection of str
            Columns that stay text, so that "01" and "1" are two.

        Raises
        ------
        ValueError
            If the table is malformed, with the file and the line, or two of its columns have one name.
        ImportError
            Without pandas, or pyarrow for Parquet.
        """
        if self.form == "parquet":
            table = self.parquet().read()
            self._check_names(table.column_names)
            # Without nulls, which would make other numbers of integers.
            return {
                name: np.array([*column.to_pylist(), None], dtype=object)[:-1]
                if column.null_count
                else column.to_pandas().to_numpy()
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        with self.source.opened() as file:
            cells = Cells(file, self)
            self._check_names(cells.header)
            parts: dict[str, list[NDArray[Any]]] = {name: [] for name in cells.columns}
            for _, block in cells.blocks([], ROWS):
                for name, column in block.items():
                    parsed = None if name in labels else parse_numbers(column, self.layout.decimal)
                    parts[name].append(np.array(column, dtype=object) if parsed is None else parsed)
        mixed = [name for name, arrays in parts.items() if len({part.dtype for part in arrays}) > 1]
        if mixed:  # a later block has shown that these are text
            return self.read({*labels, *mixed})
        return {name: np.concatenate(arrays) if arrays else np.zeros(0, object) for name, arrays in parts.items()}

    def _check_names(self, names: Sequence[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.source.name}: two columns are named {name!r}; rename one of them")

    def line_of(self, row: int) -> int:
        """Return the line of CSV at which a row begins."""
        with self.source.opened() as raw:
            reader = csv.reader(io.TextIOWrapper(raw, "utf-8-sig", newline=""), delimiter=self.delimiter)
            n_rows, line = -1, 1  # the first one is the header
            for cells in reader:
                if cells and n_rows == row:
                    break
                n_rows, line = n_rows + bool(cells), reader.line_num + 1
        return line

    def blocks(self, label: str | None, features: Sequence[str], size: int) -> Iterator[tuple[Any, Any]]:
        """Yield at most `size` rows at once: a DataFrame of float32 or a list of texts, and the labels of each row.

        Labels are words where a separator divides cells, else `Present`.
        """
        frame_of = library("pandas").DataFrame
        if not self.layout.text:  # of a table without rows, too, there are columns
            yield frame_of(np.empty((0, len(features)), np.float32), columns=features), _present_in_cells([])
        with self.source.opened() as file:
            for X, cells in Cells(file, self).blocks([] if self.layout.text else features, size):
                words = [""] * len(X) if label is None else cells[label]
                separator = self.layout.separator
                labels = _core.split_labels(words, separator) if separator else _present_in_cells(words)
                if self.layout.text:
                    yield [" ".join(row) for row in zip(*(cells[name] for name in features), strict=True)], labels
                else:
                    yield frame_of(X, columns=features), labels

    def blocks_of_parquet(self, label: str | None, features: Sequence[str], size: int) -> Iterator[tuple[Any, Any]]:
        """Yield rows as `blocks` does, with `Present` labels where there are any."""
        columns, n = [*features, *([] if label is None else [label])], 0
        for batch in self.parquet().iter_batches(size, columns=columns):
            frame = batch.select(features).to_pandas()
            try:
                X = [" ".join(map(str, row)) for row in frame.to_numpy()] if self.layout.text else frame.astype("f4")
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"{self.source.name}, from row {n} on: {error}") from error
            n += len(X)
            yield X, [[]] * len(X) if label is None else _present(batch.column(label), f"{self.source.name}: {label}")


def _present_in_cells(cells: Sequence[str]) -> Present:
    """Return the labels that cells hold, in one list: as lists of their own they would take three times as long."""
    words = [label_in(cell) for cell in cells]
    return Present(np.array([*map(bool, words)], dtype=bool), [*filter(None, words)])


def _present(column: Any, name: str) -> Present:
    """Return the labels of a column of Arrow; a null, NaN or a blank text is none."""
    if re.search("binary|list|struct|map|union", kind := str(column.type)):
        raise ValueError(f"{name} is of the type {kind}; labels are text, numbers or dates, one a row")
    is_labelled = column.is_valid().to_numpy(zero_copy_only=False).copy()
    values = column.drop_null().to_pandas()  # nulls would make other numbers of integers
    there = np.array([not isinstance(label, str) or label_in(label) != "" for label in values], dtype=bool)
    there &= values.notna().to_numpy()
    is_labelled[is_labelled] = there
    labels = as_labels(values[there])
    return Present(is_labelled, as_labels(written(labels)) if labels.dtype == object else labels)


def open_tables(inputs: Sequence[Input], form: str, layout: Layout) -> RowSource:
    """Return what reads inputs with the same columns; CSV must be read for its rows to be counted.

    Raises
    ------
    ValueError
        If a column is missing, or inputs differ in their columns.
    ImportError
        Without pandas, or pyarrow for Parquet.
    """
    library("pandas")
    tables = [TableFile(source, form, layout) for source in inputs]
    names = [table.columns() for table in tables]
    label, features = _columns_to_read(inputs[0].name, names[0], layout)
    for source, other_names in zip(inputs, names, strict=True):
        for lone in sorted(set(other_names) ^ set(names[0]))[:1]:
            where = f"{source.name} and {inputs[0].name} differ in their columns"
            raise ValueError(f"{where}: {lone!r} is in one of them only")
    read, n_rows = TableFile.blocks, None
    if form == "parquet":
        read, n_rows = TableFile.blocks_of_parquet, sum(table.parquet().metadata.num_rows for table in tables)

    def blocks(size: int) -> Iterator[tuple[Any, Any]]:
        return itertools.chain.from_iterable(read(table, label, features, size) for table in tables)

    return RowSource(blocks, None if layout.text else len(features), n_rows=n_rows)


def _columns_to_read(name: str, names: Sequence[str], layout: Layout) -> tuple[str | None, list[str]]:
    """Return the column of labels, if there is one to read, and those of features; raises as `open_tables` does."""
    label = layout.label if layout.label is not None else LABEL_COLUMN if LABEL_COLUMN in names else None
    if layout.need_label and label is None:
        raise ValueError(f"{name}: no column is named {LABEL_COLUMN!r}; name it by y, one of {_listed(names)}")
    if label not in names and not layout.need_label:
        label = None
    wanted = layout.text or layout.features
    _check_columns(name, names, [*wanted, *filter(None, (label, layout.groups))])
    features = [*wanted] or [column for column in names if column not in (label, layout.groups)]
    if not features:
        raise ValueError(f"{name}: there is no column but {label!r}; features are needed")
    return label, features


def _check_columns(name: str, columns: Sequence[str], wanted: Iterable[str]) -> None:
    for column in wanted:
        if column not in columns:
            raise ValueError(f"{name}: there is no column {column!r}; it has {_listed(columns)}")


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
