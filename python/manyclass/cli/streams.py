"""`--stream`: data of several files, larger than memory, as a stream of parts for `fit` and `learn`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.cli.data import NOTES, features, rows_of
from manyclass.cli.forms import lines_of
from manyclass.cli.messages import note
from manyclass.cli.sources import BY_SUFFIX, Source
from manyclass.compressed import without_suffix
from manyclass.datasets.stream import Stream, files_of, form_of_files

FORMS = {
    "xmc": "xmc",
    "svmlight": "xmc",
    "csv": "csv",
    "tsv": "tsv",
    "binary": "csr",
    "auto": "auto",
}  # names here, and those of `Stream`
OF_STREAM = {"xmc": "xmc", "csr": "binary", "csv": "csv", "tsv": "tsv", "parquet": "csv"}


def add_stream_options(parser: argparse.ArgumentParser, *, bounded: bool) -> None:
    """Add the options; with `bounded`, that of the memory."""
    group = parser.add_argument_group("data larger than memory")
    group.add_argument(
        "--stream",
        action="store_true",
        help="read DATA in parts while training: a file, a folder or a pattern such as 'day-*.txt.gz', of the forms "
        "xmc, svmlight (labels 0, 1, ...), csv, tsv and binary, or of Parquet",
    )
    if bounded:
        group.add_argument(
            "--max-memory",
            metavar="SIZE",
            help="of --stream: what training may take, such as 2GiB; features are hashed where W would not fit",
        )


class Rows:
    """Rows of a stream as a command wants them, and how many were dropped: a function of blocks.

    Parameters
    ----------
    args : argparse.Namespace
        Of which --normalize is used.
    names : ndarray of str or None
        Of the labels 0, 1, ...
    classes : ndarray or None
        Of a model whose labels are to be of one kind with these.
    """

    def __init__(self, args: argparse.Namespace, names: NDArray[Any] | None, classes: NDArray[Any] | None) -> None:
        self._args, self._names, self._classes = args, names, classes
        self.without_feature = 0

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Drop rows without a feature, normalize, give labels their names."""
        if not hasattr(X, "iloc"):
            filled = np.flatnonzero(X.count_nonzero(axis=1) > 0)
            if len(filled) < X.shape[0]:
                self.without_feature += X.shape[0] - len(filled)
                X, y = rows_of(X, filled), y[filled]
        X = features(self._args, X, None)
        if sp.issparse(y):
            return X, y
        return X, as_classes(self._classes, self._named(y))

    def _named(self, y: NDArray[Any]) -> NDArray[Any]:
        if self._names is None:
            return y
        if len(y) and y.max() >= len(self._names):
            raise ValueError(f"{self._args.label_names} has {len(self._names)} names; the data have label {y.max()}")
        named: NDArray[Any] = self._names[y]
        return named

    def tell(self) -> None:
        """Say on stderr what was dropped, in all passes together."""
        if self.without_feature:
            note(f"dropped {self.without_feature} rows without feature, each time that they came")


def as_classes(classes: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of the kind that a model's have: a number is the name that is written for it.

    Raises
    ------
    ValueError
        If the model's labels are numbers and the data's are names.
    """
    if classes is None:
        return labels
    if classes.dtype.kind in "biuf":
        if labels.dtype.kind in "OU":
            raise ValueError(f"labels are names, such as {labels[0]!r}; the model's are numbers, such as {classes[0]}")
        return labels
    return labels.astype(str)


def stream_of(
    args: argparse.Namespace,
    *,
    several: bool,
    n_features: int | None = None,
    classes: NDArray[Any] | None = None,
) -> tuple[Stream, Rows]:
    """Open DATA; return its stream and what prepares its rows.

    Parameters
    ----------
    args : argparse.Namespace
    several : bool
        Whether all labels of a row count.
    n_features : int, optional
        Of rows with numbered features.
    classes : ndarray, optional
        See `Rows`.

    Raises
    ------
    ValueError
        For options that a stream has no use for, and as `Stream` does.
    """
    if args.format not in FORMS:
        raise ValueError(f"--format is {args.format}; with --stream it must be one of {', '.join(FORMS)}")
    given = {name: getattr(args, name, None) for name in ("text_column", "label_separator", "cache")}
    given["label_names"] = args.label_names if several else None
    for name, value in given.items():
        if value and name not in getattr(args, "filled", ()):
            option = "--" + name.replace("_", "-")
            raise ValueError(
                f"{option} has no effect with --stream{' and all labels' if several else ''}; leave it out"
            )
    names = np.array([line.strip() for line in lines_of(Source.of(args.label_names))]) if args.label_names else None
    files = files_of(args.data)
    args.svmlight = _is_svmlight(args, files)
    if args.svmlight and args.one_based is None:
        args.one_based = True
    form = form_of_files(files) if args.format == "auto" else FORMS[args.format]
    own = getattr(args, "random_state", None)
    options: dict[str, Any] = {"format": form, "random_state": own if isinstance(own, int) else 0}
    if form == "xmc":
        header = "auto" if args.header == "auto" and not args.svmlight else args.header == "yes"
        options |= {"header": header, "zero_based": not args.one_based, "n_jobs": args.n_jobs}
    if form in ("xmc", "csr"):
        options |= {"n_features": n_features, "labels": "all" if several else "first"}
    elif several:
        raise ValueError(f"all labels of a row are asked for; with --stream, {form} has one a row")
    else:
        options |= {"y": args.label_column}
    rows = Rows(args, names, classes)
    return Stream(args.data, **options).map(rows), rows


def _is_svmlight(args: argparse.Namespace, files: Sequence[Path]) -> bool:
    """Whether the first feature has number 1; the labels must be integers, of which the stream's reader knows."""
    if args.format != "auto":
        return bool(args.format == "svmlight")
    suffixes = (without_suffix(file).suffix.lower() for file in files)
    return getattr(args, "form", None) == "svmlight" or all(BY_SUFFIX.get(one) == "svmlight" for one in suffixes)


def labels_in(stream: Stream) -> NDArray[Any]:
    """Return all labels of a stream, which is read once for it."""
    found = [np.unique(y) for _, y in stream]
    return np.unique(np.concatenate(found)) if found else np.zeros(0)


def notes_of_stream(args: argparse.Namespace, stream: Stream) -> dict[str, Any]:
    """Return how the training data were read, for the model file; see `notes_of`."""
    form = "svmlight" if args.svmlight else OF_STREAM[stream.format]
    read = {"form": form, "one_based": bool(args.one_based), "normalize": args.normalize}
    named = {name: getattr(args, name) for name in NOTES if name not in read}
    return {**read, **{name: value for name, value in named.items() if value is not None}}
