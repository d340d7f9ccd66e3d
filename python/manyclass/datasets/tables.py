"""Tables: CSV and TSV by the core, and Parquet by pyarrow; numeric features, and a column of labels."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_choice
from manyclass.compressed import LONGEST_LINE, MOST_BLANK_LINES, opened
from manyclass.labels import as_labels, written

LABEL_COLUMN = "label"  # where no other is named
DELIMITERS = {"csv": ",", "tsv": "\t"}
BLANKS = " \t\n\r\v\f"  # ASCII's: a no-break space, say, is a part of a label
LOOKED_AT = 1000  # labels at once, to tell whether all are integers
PIECE_BYTES = 1 << 20  # of text read at a time


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
        first = io.StringIO()
        csv.writer(first).writerow(self._next(self._reader.header))
        self.columns: list[str] = pandas.read_csv(io.StringIO(first.getvalue()), nrows=0).columns.tolist()
        if len(self.columns) == 1 and (other := re.search("[;\t|]", self.columns[0])):
            raise ValueError(f"{name}: the first line is one cell, {self.columns[0]!r}; set delimiter to {other[0]!r}")

    def _next(self, ask: Callable[[], Any]) -> Any:
        """What the core says once it has enough text."""
        while (found := ask()) is None:
            self._reader.add(self._file.read(PIECE_BYTES))
        return found

    def _rows(
        self, numbers: Sequence[int], cells: Sequence[int], size: int, *, all_counted: bool
    ) -> Iterator[tuple[NDArray[np.float32], list[list[str]]]]:
        while True:
            X, texts = self._next(
                lambda: self._reader.take(numbers, cells, size, all_counted, self._name, self.columns)
            )
            if not len(X):
                return
            yield X, texts

    def blocks(self, numeric: Sequence[str], size: int) -> Iterator[tuple[NDArray[np.float32], dict[str, list[str]]]]:
        """Yield at most `size` rows at once: numbers of shape (n, len(numeric)), and the cells of all other columns.

        Raises
        ------
        ValueError
            If a row has more or fewer cells than the table has columns, or a cell is not a finite number, with the file
            and the line.
        """
        numbers = [self.columns.index(name) for name in numeric]
        others = [at for at in range(len(self.columns)) if at not in numbers]
        for X, texts in self._rows(numbers, others, size, all_counted=True):
            yield X, {self.columns[at]: cells for at, cells in zip(others, texts, strict=True)}

    def column(self, name: str, size: int) -> Iterator[list[str]]:
        """Yield the cells of a column, at most `size` at once; no other column is looked at."""
        for _, texts in self._rows([], [self.columns.index(name)], size, all_counted=False):
            yield texts[0]


@dataclass(frozen=True)
class Tables:
    """Files with the same columns.

    Attributes
    ----------
    files : sequence of Path
    form : {"csv", "tsv", "parquet"}
    label : str
        The column of labels; all others are features.
    features : list of str
    marks : Marks or None
        None of Parquet.
    integers : bool
        Whether the labels of CSV are integers, which all of them must be; else they are text. Parquet says it itself.
    n_rows : int or None
        None of CSV, which must be read to be counted.
    """

    files: Sequence[Path]
    form: str
    label: str
    features: list[str]
    marks: Marks | None
    integers: bool
    n_rows: int | None

    n_labels = None  # they become known as they come

    @classmethod
    def of(cls, files: Sequence[Path], form: str, label: str, marks: Marks | None = None) -> Tables:
        """Read the names of the columns; raises ValueError where the label's is missing or files differ.

        Where the first labels are integers, those of all rows are looked at.
        """
        marks = None if form == "parquet" else marks or Marks(DELIMITERS[form])
        names = [_columns(file, marks) for file in files]
        for file, found in zip(files, names, strict=True):
            if label not in found:
                shown = ", ".join(map(repr, found[:20]))
                raise ValueError(f"{file}: there is no column {label!r} of labels; set y to one of {shown}")
            if sorted(found) != sorted(names[0]):
                other = sorted(set(found) ^ set(names[0]))[0]
                raise ValueError(f"{file} and {files[0]} differ in their columns: {other!r} is in one of them only")
        features = [name for name in names[0] if name != label]
        if not features:
            raise ValueError(f"{files[0]}: there is no column but {label!r}; features are needed")
        if form == "parquet":
            n_rows = sum(library("pyarrow.parquet").ParquetFile(file).metadata.num_rows for file in files)
            return cls(files, form, label, features, None, False, n_rows)
        assert marks is not None
        cells = itertools.chain.from_iterable(_column(file, marks, label) for file in files)
        integers = all(_core.all_integers([*filter(None, map(label_in, some))]) for some in cells)
        return cls(files, form, label, features, marks, integers, None)

    @property
    def n_features(self) -> int:
        """Columns but that of labels."""
        return len(self.features)

    def blocks(self, size: int) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield at most `size` rows at once, features as a DataFrame of float32 with names."""
        read = self._rows_of_parquet if self.form == "parquet" else self._rows_of_text
        for file in self.files:
            yield from read(file, size)

    def _rows_of_text(self, file: Path, size: int) -> Iterator[tuple[Any, NDArray[Any]]]:
        pandas = library("pandas")
        assert self.marks is not None
        with opened(file) as raw:
            for X, texts in Cells(raw, str(file), self.marks).blocks(self.features, size):
                labels = [label_in(cell) for cell in texts[self.label]]
                if "" in labels:
                    X, labels = X[[label != "" for label in labels]], [label for label in labels if label]
                if labels:
                    y = np.array(labels, dtype=np.int64) if self.integers else as_labels(labels)
                    yield pandas.DataFrame(X, columns=self.features), y

    def _rows_of_parquet(self, file: Path, size: int) -> Iterator[tuple[Any, NDArray[Any]]]:
        columns, n = [*self.features, self.label], 0
        for batch in library("pyarrow.parquet").ParquetFile(file).iter_batches(size, columns=columns):
            frame = batch.to_pandas()
            try:
                X, labels = frame[self.features].astype(np.float32), frame[self.label]
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"{file}, from row {n} on: {error}") from error
            n += len(X)
            there = np.array([not isinstance(label, str) or label_in(label) != "" for label in labels]) & labels.notna()
            if not there.all():
                X, labels = X[there], labels[there]
            if len(labels):
                y = as_labels(labels)
                yield X, as_labels(written(y)) if y.dtype == object else y


def _column(file: Path, marks: Marks, name: str) -> Iterator[list[str]]:
    with opened(file) as raw:
        yield from Cells(raw, str(file), marks).column(name, LOOKED_AT)


def _columns(file: Path, marks: Marks | None) -> list[str]:
    if marks is None:
        return list(library("pyarrow.parquet").ParquetFile(file).schema_arrow.names)
    with opened(file) as raw:
        return Cells(raw, str(file), marks).columns


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
