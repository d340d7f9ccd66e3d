"""Tables: CSV and TSV, whose cells NumPy parses, and Parquet by pyarrow; numeric features, and a column of labels."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice
from manyclass.compressed import MOST_BLANK_LINES, opened, text_lines
from manyclass.labels import as_labels, written

LABEL_COLUMN = "label"  # where no other is named
DELIMITERS = {"csv": ",", "tsv": "\t"}
BLANKS = " \t\n\r\v\f"  # ASCII's: a no-break space, say, is a part of a label
LOOKED_AT = 1000  # labels at once, to tell whether all are integers
LARGEST = float(np.finfo(np.float32).max)
_BLANK = ("\n", "\r\n", "\r")
_CLOSES = re.compile(r'[^"]*(?:""[^"]*)*"(?!")')  # the rest of a cell in quotes, in which two of them are one
_INTEGER = re.compile("0|-?[1-9][0-9]{0,17}")  # integers that are written in one way, and fit into 64 bits


def all_integers(labels: Iterable[str]) -> bool:
    """Tell whether labels are integers, each written as Python writes it: 02139, +1 and ids of 19 digits are text."""
    return all(_INTEGER.fullmatch(label) for label in labels)


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
        pandas, delimiter = library("pandas"), marks.delimiter
        self._name, self._delimiter, self._decimal = name, delimiter, marks.decimal
        self._taken: list[str] = []  # lines since the last block
        self._n_before = 0  # lines before these
        self._quoted = False  # whether they end within a cell in quotes
        self._n_quoted = 0  # lines of that cell so far
        self._opens = re.compile(f'(?:^|{re.escape(delimiter)})"')
        self._lines = self._read(file)
        self.columns: list[str] = []
        if next(csv.reader(self._lines, delimiter=delimiter), None) is None:
            raise ValueError(f"{name}: it is empty; the first line must name the columns")
        header = pandas.read_csv(io.StringIO("".join(self._taken)), sep=delimiter, nrows=0)
        self.columns = header.columns.tolist()
        if len(self.columns) == 1 and (other := re.search("[;\t|]", self.columns[0])):
            raise ValueError(f"{name}: the first line is one cell, {self.columns[0]!r}; set delimiter to {other[0]!r}")
        self._forget()

    def _read(self, file: IO[bytes]) -> Iterator[str]:
        """The lines; blank ones may stand before the first and behind the last row, and in quotes."""
        blank = 0
        for line in _with_any_end(text_lines(file, self._name), self._name):
            here = self._n_before + len(self._taken) + 1
            if line in _BLANK and not self._quoted:
                blank = blank or (here if self.columns else 0)
                self._n_before += 1
                continue
            if blank:
                raise ValueError(f"{self._name}:{blank}: the line is blank; it must have a cell for each column")
            if self._quoted or '"' in line:
                self._follow_quotes(line)
            self._n_quoted = self._n_quoted + 1 if self._quoted else 0
            if self._n_quoted > MOST_BLANK_LINES:
                first = here - self._n_quoted + 1
                raise ValueError(f"{self._name}:{first}: a cell in quotes has more than {MOST_BLANK_LINES} lines")
            self._taken.append(line)
            yield line

    def _follow_quotes(self, line: str) -> None:
        """Note whether a line ends within a cell in quotes; a quote that begins no cell is a letter."""
        found = (_CLOSES.match if self._quoted else self._opens.search)(line)
        while found:
            self._quoted = not self._quoted
            found = (_CLOSES.match if self._quoted else self._opens.search)(line, found.end())

    def blocks(self, numeric: Sequence[str], size: int) -> Iterator[tuple[NDArray[np.float32], dict[str, list[str]]]]:
        """Yield at most `size` rows at once: numbers of shape (n, len(numeric)), and the cells of all other columns.

        Raises
        ------
        ValueError
            If a row has more or fewer cells than the table has columns, or a cell is not a finite number, with the file
            and the line.
        """
        fields, has_point = {name: f"c{at}" for at, name in enumerate(self.columns)}, self._decimal == "."
        kinds = dict.fromkeys(self.columns, object) | dict.fromkeys(numeric if has_point else (), np.float64)
        types = np.dtype([(fields[name], kind) for name, kind in kinds.items()])
        for table in self._parsed(size, numeric, dtype=types):
            X = np.empty((len(table), len(numeric)), np.float64)
            for at, name in enumerate(numeric):
                cells = table[fields[name]]
                X[:, at] = cells if has_point else [self._number(cell) for cell in cells]
            if not (np.abs(X) <= LARGEST).all():
                self._check(numeric)
                raise ValueError(f"{self._name}, behind line {self._n_before}: a number is not finite")
            self._forget()
            yield X.astype(np.float32), {name: table[fields[name]].tolist() for name in fields if name not in numeric}

    def _number(self, cell: str) -> float:
        """What a cell is as a number, NaN where it is none; 1.234,5 is none, as nothing tells what its point means."""
        number = cell if self._decimal == "." else cell.replace(".", "_").replace(self._decimal, ".")
        try:
            return float(number) if number.isascii() and "_" not in number else np.nan
        except ValueError:
            return np.nan

    def column(self, name: str, size: int) -> Iterator[list[str]]:
        """Yield the cells of a column, at most `size` at once; no other column is looked at."""
        for table in self._parsed(size, (), dtype=object, usecols=self.columns.index(name)):
            self._forget()
            yield table.tolist()

    def _parsed(self, size: int, numeric: Sequence[str], **options: Any) -> Iterator[NDArray[Any]]:
        """NumPy's arrays of at most `size` rows, of which `_taken` has the lines."""
        while (first := next(self._lines, None)) is not None:
            lines = itertools.chain([first], self._lines)
            options |= {"comments": None, "delimiter": self._delimiter, "quotechar": '"', "ndmin": 1}
            try:
                table = np.loadtxt(lines, max_rows=size, **options)
            except ValueError as error:
                if not str(error).startswith(self._name):
                    self._check(numeric)
                    raise ValueError(f"{self._name}, behind line {self._n_before}: {error}") from error
                raise
            if self._quoted:
                raise ValueError(f"{self._name}: a cell in quotes behind line {self._n_before} does not end")
            yield table

    def _forget(self) -> None:
        self._n_before += len(self._taken)
        self._taken.clear()

    def _check(self, numeric: Sequence[str]) -> None:
        """Raise ValueError for the first of the lines since the last block in which something is wrong."""
        line = self._n_before + 1
        reader = csv.reader(self._taken, delimiter=self._delimiter)
        with contextlib.suppress(csv.Error):  # it refuses cells of more than 131,072 characters
            for row in reader:
                where = f"{self._name}:{line}"
                if len(row) != len(self.columns):
                    raise ValueError(f"{where}: there are {len(row)} cells; the columns are {len(self.columns)}")
                for name in numeric:
                    cell = row[self.columns.index(name)]
                    if not abs(self._number(cell)) <= LARGEST:
                        raise ValueError(f"{where}: {cell!r} in column {name!r} is not a finite number")
                line = self._n_before + reader.line_num + 1


def _with_any_end(lines: Iterable[str], name: str) -> Iterator[str]:
    """The same lines, which may end with a carriage return alone, too."""
    for line in lines:
        if "\r" in line.removesuffix("\n").removesuffix("\r"):
            ended = (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", line))
            blank = 0
            for one in ended:
                blank = blank + 1 if one in _BLANK else 0
                if blank > MOST_BLANK_LINES:
                    raise ValueError(f"{name}: more than {MOST_BLANK_LINES} lines one after the other are blank")
                yield one
        else:
            yield line


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
        integers = all(all_integers(filter(None, map(label_in, some))) for some in cells)
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
