"""`--stream`: data of several files, larger than memory, as a stream of parts for `fit` and `learn`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.cli.messages import note
from manyclass.cli.reading import OF_HISTORIES, Reading, as_classes, features, rows_of
from manyclass.cli.sources import form_of_name
from manyclass.datasets.stream import Stream, files_of, form_of_files
from manyclass.labels import as_labels, sorted_classes

# Forms here, and their names in `Stream`.
FORMS = {"xmc": "xmc", "svmlight": "xmc", "csv": "csv", "tsv": "tsv", "binary": "csr", "auto": "auto"}
MARKS = ("delimiter", "decimal")  # options of tables
OF_STREAM = {"xmc": "xmc", "csr": "binary", "csv": "csv", "tsv": "tsv", "parquet": "csv"}


@dataclass(kw_only=True)
class Streaming:
    """Data larger than memory.

    Attributes
    ----------
    stream : bool
        read DATA in parts while training: a file, a folder or a pattern such as 'day-*.txt.gz', of the forms xmc,
        svmlight (labels 0, 1, ...), csv, tsv and binary, or of Parquet
    """

    stream: bool = False


class Rows:
    """Rows of a stream as a command wants them, and how many were dropped: a function of blocks.

    Parameters
    ----------
    reading : Reading
        Of which --normalize and --label-names are used.
    classes : ndarray or None
        Of a model whose labels are to be of one kind with these.
    """

    def __init__(self, reading: Reading, classes: NDArray[Any] | None) -> None:
        self._reading, self._classes = reading, classes
        self._names = as_labels(reading.names())
        self.without_feature = 0

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Drop rows without a feature, normalize, give labels their names."""
        if not hasattr(X, "iloc"):
            filled = np.flatnonzero(X.count_nonzero(axis=1) > 0)
            self.without_feature += X.shape[0] - len(filled)
            if len(filled) < X.shape[0]:
                X, y = rows_of(X, filled), y[filled]
        X = features(self._reading, X, None)
        return X, y if sp.issparse(y) else as_classes(self._classes, self._named(y))

    def _named(self, y: NDArray[Any]) -> NDArray[Any]:
        if not self._reading.label_names:
            return y
        if len(y) and y.max() >= len(self._names):
            told = f"{self._reading.label_names} has {len(self._names)} names"
            raise ValueError(f"{told}; the data have label {y.max()}")
        named: NDArray[Any] = self._names[y]
        return named

    def tell(self) -> None:
        """Say on stderr how many rows were dropped, over all passes."""
        if self.without_feature:
            note(f"dropped {self.without_feature} rows without feature, over all passes")


def stream_of(
    reading: Reading,
    source: str | Sequence[str],
    *,
    several: bool,
    n_features: int | None = None,
    classes: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> tuple[Stream, Rows, dict[str, Any]]:
    """Open files; return their stream, what prepares its rows, and what a model file keeps of their reading.

    Parameters
    ----------
    reading : Reading
    source : str or sequence of str
        Files, folders or patterns.
    several : bool
        Whether all labels of a row count.
    n_features : int, optional
        Of rows with numbered features.
    classes : ndarray, optional
        See `Rows`.
    n_jobs : int, optional
        Threads that read.
    random_state : int, optional
        Seed of the order of rows.

    Raises
    ------
    ValueError
        For options that a stream has no use for, and as `Stream` does.
    """
    if reading.format not in FORMS:
        raise ValueError(f"--format is {reading.format}; with --stream it must be one of {', '.join(FORMS)}")
    unused = (
        "text_column",
        "label_separator",
        "cache",
        "sequences",
        *OF_HISTORIES,
        *(["label_names"] if several else []),
    )
    for name in reading.given(*unused):
        where = " and all labels" if several else ""
        raise ValueError(f"--{name.replace('_', '-')} has no effect with --stream{where}; leave it out")
    files = files_of(source)
    is_svmlight = reading.format == "svmlight"
    if reading.format == "auto":
        is_svmlight = reading.form == "svmlight" or all(form_of_name(file) == "svmlight" for file in files)
    one_based = is_svmlight if reading.one_based is None else reading.one_based
    form = form_of_files(files) if reading.format == "auto" else FORMS[reading.format]
    options: dict[str, Any] = {"format": form, "random_state": random_state or 0}
    if form == "xmc":
        header = "auto" if reading.header == "auto" and not is_svmlight else reading.header == "yes"
        options |= {"header": header, "zero_based": not one_based, "n_jobs": n_jobs}
    if form in ("xmc", "csr"):
        options |= {"n_features": n_features, "labels": "all" if several else "first"}
    elif several:
        raise ValueError(f"all labels of a row are asked for; with --stream, {form} has one a row")
    else:
        options |= {"y": reading.label_column}
        options |= {name: value for name in MARKS if (value := getattr(reading, name)) is not None}
    rows = Rows(reading, classes)
    notes = reading.notes("svmlight" if is_svmlight else OF_STREAM[form], one_based=one_based)
    return Stream(source, **options).map(rows), rows, notes


def labels_in(stream: Stream) -> NDArray[Any]:
    """Read a stream once, and return all its labels."""
    found: NDArray[Any] | None = None
    for _, y in stream:
        found = sorted_classes(y, found)[0]
    return np.zeros(0) if found is None else found
