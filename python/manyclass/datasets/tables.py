"""Tables in parts: CSV by pandas, Parquet by pyarrow; numeric features, and a column of labels."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

LABEL_COLUMN = "label"  # where no other is named
DELIMITERS = {"csv": ",", "tsv": "\t"}


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
    kind : dtype
        Of the labels, as the first rows have them.
    n_rows : int or None
        None of CSV, which must be read to be counted.
    """

    files: Sequence[Path]
    form: str
    label: str
    features: list[str]
    kind: Any
    n_rows: int | None

    @classmethod
    def of(cls, files: Sequence[Path], form: str, label: str) -> Tables:
        """Read the names of the columns; raises ValueError where the label's is missing or files differ."""
        names = [_columns(file, form) for file in files]
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
        n_rows = sum(_parquet().ParquetFile(file).metadata.num_rows for file in files) if form == "parquet" else None
        return cls(files, form, label, features, _kind_of_labels(files[0], form, label), n_rows)

    @property
    def n_features(self) -> int:
        """Columns but that of labels."""
        return len(self.features)

    def blocks(self, size: int) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield at most `size` rows at once, features as a DataFrame of float32 with names."""
        for file in self.files:
            n = 0
            frames = self._frames(file, size)
            while True:
                try:
                    frame = next(frames, None)
                    if frame is None:
                        break
                    X, y = frame[self.features].astype(np.float32), self._labels(frame[self.label])
                except (ValueError, TypeError, OverflowError) as error:
                    raise ValueError(f"{file}, from row {n} on: {error}") from error
                yield X.reset_index(drop=True), y
                n += len(X)

    def _labels(self, column: Any) -> NDArray[Any]:
        """A column of labels, none of which may be missing; text as NumPy has it."""
        missing = np.flatnonzero(column.isna())
        if len(missing):
            raise ValueError(f"row {missing[0]} of these has no label")
        y: NDArray[Any] = column.to_numpy()
        return y.astype(str) if self.kind is str or y.dtype == object else y

    def _frames(self, file: Path, size: int) -> Iterator[Any]:
        if self.form == "parquet":
            batches = _parquet().ParquetFile(file).iter_batches(size, columns=[*self.features, self.label])
            yield from (batch.to_pandas() for batch in batches)
            return
        # A column's type is that of the first rows: pandas would choose one for each part.
        types: dict[str, Any] = {**dict.fromkeys(self.features, np.float32), self.label: self.kind}
        options: dict[str, Any] = {"sep": DELIMITERS[self.form], "dtype": types, "chunksize": size}
        with _pandas().read_csv(file, **options) as reader:
            yield from reader


def _kind_of_labels(file: Path, form: str, label: str) -> Any:
    """The type of labels: int64 where the first ones are integers, else text, but whatever Parquet says."""
    if form == "parquet":
        return None
    first = _pandas().read_csv(file, sep=DELIMITERS[form], usecols=[label], nrows=1000)[label]
    return np.int64 if first.dtype.kind in "iu" else str


def _columns(file: Path, form: str) -> list[str]:
    if form == "parquet":
        return list(_parquet().ParquetFile(file).schema_arrow.names)
    pandas = _pandas()
    try:
        return cast(list[str], pandas.read_csv(file, sep=DELIMITERS[form], nrows=0).columns.tolist())
    except pandas.errors.EmptyDataError as error:
        raise ValueError(f"{file}: it is empty; the first line must name the columns") from error


def _pandas() -> Any:
    return _library("pandas")


def _parquet() -> Any:
    _pandas()
    return _library("pyarrow.parquet")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"tables need {name}: pip install 'manyclass[tables]'") from error
