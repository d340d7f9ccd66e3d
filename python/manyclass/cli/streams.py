"""Data of several files, larger than memory, as a stream of parts: --stream of the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.cli.data import (
    BINARY,
    HISTORY_OPTIONS,
    USED_BY,
    Expected,
    LabelNames,
    Reading,
    features,
    rows_with_features,
)
from manyclass.cli.messages import note, waiting
from manyclass.datasets import TextVectorizer
from manyclass.datasets.csr import is_sparse, rows_of
from manyclass.datasets.inputs import LINES, TABLES, Input, files_of
from manyclass.datasets.records import as_classes
from manyclass.datasets.stream import Stream
from manyclass.labels import sorted_classes


@dataclass(kw_only=True)
class Streaming:
    """Data larger than memory.

    Attributes
    ----------
    stream : bool
        read DATA in parts while training: a file, a folder or a pattern such as 'day-*.txt.gz', of any form below, but
        no log; texts become rows anew in each pass, and files that do not tell their columns are read once before
    """

    stream: bool = False


class PreparedRows:
    """Rows of a stream as a command wants them, and how many were dropped: a function of blocks.

    Parameters
    ----------
    reading : Reading
        Of which --normalize and --label-names are used.
    classes : ndarray or None
        Of a model whose labels are to be of one kind with these.
    name : str
        What messages call the data.
    """

    def __init__(self, reading: Reading, classes: NDArray[Any] | None, name: str) -> None:
        self._reading, self._classes, self._name = reading, classes, name
        self._names = LabelNames(reading) if reading.label_names else None
        self.n_without_feature = 0

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Drop rows without a feature, normalize, give labels their names."""
        has_feature = rows_with_features(X)
        if not has_feature.all():
            rows = np.flatnonzero(has_feature)
            self.n_without_feature += len(has_feature) - len(rows)
            X, y = rows_of(X, rows), y[rows]
        X = features(self._reading, X, None)
        if sp.issparse(y):
            return X, y
        return X, as_classes(self._classes, y if self._names is None else self._names.of(y, self._name))

    def tell(self) -> None:
        """Say on stderr how many rows were dropped, over all passes."""
        if self.n_without_feature:
            note(f"dropped {self.n_without_feature} rows without feature, over all passes")


def open_stream(
    reading: Reading, source: str | Sequence[str], expected: Expected, *, classes: NDArray[Any] | None, seed: int = 0
) -> tuple[Stream, PreparedRows, dict[str, Any]]:
    """Open files; return their stream, what prepares its rows, and what a model file keeps of their reading.

    Parameters
    ----------
    reading : Reading
    source : str or sequence of str
        Files, folders or patterns.
    expected : Expected
        What the stream must be; a vectorizer that is not fitted learns the terms of texts.
    classes : ndarray or None
        See `PreparedRows`.
    seed : int, default=0
        Of the order of rows.

    Raises
    ------
    ValueError
        For options that a stream has no use for, and as `Stream` does.
    """
    form, name = streamed_form(reading, source)
    _check_streamed(reading, form, several=expected.several)
    if (form in LINES) != isinstance(expected.vectorizer, TextVectorizer):
        wanted = f"texts, and {name} is read as {BINARY.get(form, form)}"
        wanted = wanted if expected.vectorizer else f"rows, and {name} is texts"
        raise ValueError(f"the model was fitted on {wanted}")
    stream = Stream(source, format=cast(Any, form), random_state=seed, **_stream_options(reading, form, expected))
    rows = PreparedRows(reading, classes, name)
    notes = reading.notes(form, one_based=not stream.zero_based)
    if isinstance(expected.vectorizer, TextVectorizer):
        with waiting("counting the words of all texts"):
            stream = stream.encoded(expected.vectorizer)
    return stream.map(rows), rows, notes


def streamed_form(reading: Reading, source: str | Sequence[str]) -> tuple[str, str]:
    """Return the form of the files of a stream, and the name of the first one."""
    files = [Input(str(file)) for file in files_of(source)]
    return reading.form_of(files), files[0].name


def _check_streamed(reading: Reading, form: str, *, several: bool) -> None:
    """Raise ValueError for an option that a stream has no use for."""
    unused = {"text_column", "cache", "sequences", *HISTORY_OPTIONS}
    unused |= {option for option, forms in USED_BY.items() if BINARY.get(form, form) not in forms}
    unused |= {"label_separator"} if form in TABLES else set()
    unused |= {"label_names"} if several or form in LINES else set()
    for option in reading.set_options(*sorted(unused - {"n_features"})):
        where = " and all labels" if several else ""
        raise ValueError(f"--{option.replace('_', '-')} has no effect with --stream{where}; leave it out")
    if several and form in TABLES:
        raise ValueError(f"all labels of a row are asked for; with --stream, {form} has one a row")


def _stream_options(reading: Reading, form: str, expected: Expected) -> dict[str, Any]:
    """Return what `Stream` takes for a form."""
    layout = reading.layout(form, expected)
    labels = {"labels": "all" if expected.several else "first"}
    if form in TABLES:
        marks = {name: value for name in ("delimiter", "decimal") if (value := getattr(reading, name)) is not None}
        return {"y": layout.label, **marks}
    if form in LINES:
        return labels if form == "fasttext" else {**labels, "delimiter": layout.separator}
    options = {**labels, "n_features": expected.n_features}
    if form != "csr":
        options |= {"zero_based": layout.zero_based, "n_jobs": expected.n_jobs}
    return options if form != "xmc" else {**options, "header": layout.header}


def labels_in(stream: Stream, rows: PreparedRows) -> NDArray[Any]:
    """Read a stream once, and return the labels of its rows; those of a matrix are what its columns stand for."""
    labels: NDArray[Any] = np.zeros(0)
    with waiting("counting the labels"):
        for _, y in stream:
            if is_sparse(y):
                names = np.arange(y.shape[1]) if stream.label_names is None else stream.label_names
                y = names[np.unique(y.indices)]
            labels = sorted_classes(y, labels if len(labels) else None)[0]
    rows.n_without_feature = 0  # what is told is of the passes of training
    return labels
