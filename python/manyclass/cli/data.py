"""Reading data for the commands: options, texts to rows, names of labels, rows dropped and told."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.cli.forms import (
    Records,
    Sparse,
    lines_of,
    read_binary,
    read_fasttext,
    read_svmlight,
    read_text,
    read_xmc,
)
from manyclass.cli.messages import note, waiting
from manyclass.cli.sources import FORMS, HEAD, STDIN, Source, header_width
from manyclass.cli.tables import Columns, read_table
from manyclass.datasets import TextVectorizer, first_label, l2_normalize

DATA = "the data, in one of the forms listed by --help; - is stdin"
EXPLAINED = """forms of data (plain or compressed; guessed from the name and the first line, or named by --format):
  xmc       the extreme classification repository's: lines `l1,l2,... j:v j:v ...`, optional first line `N D L`
  svmlight  lines `label j:v j:v ...`, the first feature having number 1
  csv, tsv  a table whose first line names the columns: numeric features, or text (--text-column), and labels
  text      a text a line, with its labels behind a tab: `text<TAB>label,label` (--text is short for it)
  fasttext  a text a line, labels being words like `__label__name`
  binary    what manyclass.datasets.save_csr writes"""


def add_data_options(parser: argparse.ArgumentParser, *, of_model: bool) -> None:
    """Add the options that say how data are read; with `of_model`, a model file tells their defaults."""
    group = parser.add_argument_group("reading of the data", EXPLAINED)
    told = "; default: as in the fit of the model" if of_model else ""
    group.add_argument("--format", choices=("auto", *FORMS), default="auto", help="form of the data, see above")
    group.add_argument("--text", dest="format", action="store_const", const="text", help="short for --format text")
    group.add_argument(
        "--label-names", metavar="FILE", help="names of the labels 0, 1, ..., one a line, instead of their numbers"
    )
    group.add_argument(
        "--label-column", metavar="NAME", help="column of a table that has the label; default: label" + told
    )
    group.add_argument(
        "--text-column",
        metavar="NAME",
        action="append",
        help="column of a table that is text; may be given several times, to read them as one text" + told,
    )
    group.add_argument(
        "--label-separator",
        metavar="SEP",
        help="what stands between the labels of a text, or in a cell of a table; default: a comma, but none in a table "
        "of which the first label is taken" + told,
    )
    group.add_argument(
        "--header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether the first line of xmc is `N D L`; auto: if it holds three integers",
    )
    group.add_argument(
        "--one-based",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the first feature of xmc or svmlight has number 1; default: not in xmc, in svmlight if there is no 0"
        + told,
    )
    group.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        default=None if of_model else False,
        help="divide each row by its Euclidean norm" + (told or "; kept with the model, for evaluate and predict"),
    )
    if not of_model:
        group.add_argument(
            "--n-features",
            type=int,
            help="number of features D, instead of the header's or the largest one found; a larger one is an error",
        )
    group.add_argument(
        "--cache",
        action="store_true",
        help="keep xmc in binary beside it, as DATA.csr.safetensors, and map that the next time",
    )


TABLES = ("csv", "tsv")
NUMBERED = ("xmc", "svmlight", "binary")
# Options that only some forms use.
USED_BY = {
    "label_column": TABLES,
    "text_column": TABLES,
    "label_separator": (*TABLES, "text"),
    "one_based": ("xmc", "svmlight"),
    "n_features": NUMBERED,
    "cache": ("xmc",),
}
NOTES = ("form", "one_based", "normalize", "label_column", "text_column", "label_separator")


def notes_of(args: argparse.Namespace, data: Data) -> dict[str, Any]:
    """How the training data were read, for the model file."""
    read = {"form": data.form, "one_based": data.records.one_based, "normalize": args.normalize}
    named = {name: getattr(args, name) for name in NOTES if name not in read}
    return {**read, **{name: value for name, value in named.items() if value is not None}}


def apply_notes(args: argparse.Namespace, notes: Mapping[str, Any]) -> None:
    """Fill the reading options that were not given with those of the fit."""
    args.form = notes.get("form")
    args.filled = {name for name in NOTES[1:] if getattr(args, name) is None}
    for name in args.filled:
        setattr(args, name, notes.get(name))


@dataclass(frozen=True)
class Data:
    """What was read: the rows, what messages call them, and the form that they had."""

    records: Records
    name: str
    form: str


@dataclass(frozen=True)
class Expected:
    """What a model wants of its data: features (`exact`: no other number), their names, texts, several labels."""

    n_features: int | None = None
    exact: bool = False
    feature_names: NDArray[Any] | None = None
    vectorizer: TextVectorizer | None = None
    several: bool = False
    need_label: bool = False

    @classmethod
    def by(cls, model: Any, *, need_label: bool) -> Expected:
        """What this model wants."""
        return cls(
            model.n_features_in_,
            True,
            getattr(model, "feature_names_in_", None),
            getattr(model, "vectorizer_", None),
            bool(getattr(model, "multilabel_", False)),
            need_label,
        )


def read(args: argparse.Namespace, path: str, expected: Expected) -> Data:
    """Read data, with names for their labels where a file of names is given.

    Raises
    ------
    ValueError
        If they are malformed, with file and line; or not what the model was fitted on.
    """
    if expected.n_features is not None:
        check_number("n_features", expected.n_features, low=1, integer=True)
    with waiting(f"reading {'stdin' if path == STDIN else path}"):
        source = Source.of(path)
        form = source.form(getattr(args, "form", None)) if args.format == "auto" else args.format
        records = _read(args, source, form, expected)
    if args.label_names:
        records = named(records, args.label_names, source.name)
    data = Data(records, source.name, form)
    _check_kind(data, expected)
    return data


def _read(args: argparse.Namespace, source: Source, form: str, expected: Expected) -> Records:
    """Read a form."""
    for name, forms in USED_BY.items():
        if getattr(args, name, None) and form not in forms and name not in getattr(args, "filled", ()):
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} is for {', '.join(forms)}; {source.name} is read as {form}")
    header: bool | Literal["auto"] = "auto" if args.header == "auto" else args.header == "yes"
    how = Sparse(header, args.one_based, expected.n_features, getattr(args, "n_jobs", None), args.cache)
    if expected.exact and form == "binary":
        how = replace(how, n_features=None)
    if expected.exact and form == "xmc" and header is not False:
        _check_width(source.name, header_width(source.read(HEAD)), expected)
    if form in TABLES:
        several = expected.several or getattr(args, "labels", "") == "all"
        names = expected.feature_names
        columns = Columns(
            label=args.label_column,
            text=args.text_column or [],
            features=None if names is None else names.tolist(),
            separator=args.label_separator or ("," if several else None),
            need_label=expected.need_label,
        )
        return read_table(source, "," if form == "csv" else "\t", columns)
    if form == "text":
        return read_text(source, args.label_separator)
    if form == "fasttext":
        return read_fasttext(source)
    return {"xmc": read_xmc, "svmlight": read_svmlight, "binary": read_binary}[form](source, how)


def _check_kind(data: Data, expected: Expected) -> None:
    """Raise unless the data are what the model was fitted on."""
    if not expected.exact:
        return
    if not isinstance(data.records.X, list):
        _check_width(data.name, data.records.X.shape[1], expected)
    elif expected.vectorizer is None:
        raise ValueError(
            f"{data.name} is read as {data.form}, texts; the model has no text vectorizer: it was fitted on rows of "
            f"{expected.n_features} features"
        )


def _check_width(name: str, width: int | None, expected: Expected) -> None:
    if width is not None and width != expected.n_features:
        raise ValueError(f"{name} has {width} features; the model was fitted on {expected.n_features}")


def named(records: Records, path: str, name: str) -> Records:
    """Give labels that are numbers the names in the lines of a file.

    Raises
    ------
    ValueError
        If a label has no line, is no number, or two labels have one name.
    """
    names = [line.strip() for line in lines_of(Source.of(path))]
    labels = records.labels
    used = np.unique(records.Y.indices)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{name} has labels with names, such as {labels[0]!r}; --label-names is for numbers")
    for label in labels[used]:
        if not 0 <= label < len(names):
            raise ValueError(f"{path} has {len(names)} names; {name} has the label {label}")
    own = [names[label] for label in labels[used]]
    if len(set(own)) < len(own):
        twice = next(word for word in own if own.count(word) > 1)
        raise ValueError(f"{path}: the name {twice!r} stands in several lines; names must be distinct")
    order = sorted(range(len(own)), key=own.__getitem__)
    column = np.full(len(labels), -1, dtype=np.int32)
    column[used[order]] = np.arange(len(own))
    Y = records.Y
    shape = (Y.shape[0], len(own))
    Y = sp.csr_array((Y.data, column[Y.indices], Y.indptr), shape=shape)
    return replace(records, Y=Y, labels=np.array([own[at] for at in order], dtype=object))


def features(args: argparse.Namespace, X: Any, vectorizer: TextVectorizer | None) -> Any:
    """Return the features of rows, of texts through the vectorizer, normalized where that is asked for."""
    if isinstance(X, list):
        assert vectorizer is not None
        with waiting(f"turning {len(X)} texts into rows"):
            X = vectorizer.transform(X)
    if not args.normalize:
        return X
    if not hasattr(X, "columns"):
        return l2_normalize(X)
    lengths = np.linalg.norm(X.to_numpy(np.float64), axis=1)
    return X.div(np.where(lengths > 0, lengths, 1), axis=0).astype(np.float32)


def rows_of(X: Any, rows: Any) -> Any:
    """Some rows of a matrix or a table, or some texts."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


@dataclass(frozen=True)
class Labelled:
    """Rows that have a label and a feature, and what was dropped.

    Attributes
    ----------
    X : csr_array or DataFrame of shape (n_rows, n_features)
    Y : csr_array of shape (n_rows, n_labels)
        Ones, for all labels of a row, or for its first.
    labels : ndarray of shape (n_labels,)
        The label of each column, sorted.
    dropped : dict
        Number of rows "without_label" and "without_feature" (and with a label).
    """

    X: Any
    Y: sp.csr_array
    labels: NDArray[Any]
    dropped: dict[str, int]

    @property
    def y(self) -> NDArray[Any]:
        """The first label of each row."""
        y: NDArray[Any] = self.labels[first_label(self.Y)]
        return y


def labelled(data: Data, X: Any, which: str) -> Labelled:
    """Keep the rows that have a label and a feature; tell on stderr what was dropped or has further labels.

    Parameters
    ----------
    data : Data
    X : csr_array or DataFrame
        Their features.
    which : {"first", "all", "one"}
        Which labels of a row count; "one": several are an error.

    Raises
    ------
    ValueError
        If a row has several labels and may not, or no row is left.
    """
    Y = data.records.Y
    several = int(np.sum(np.diff(Y.indptr) > 1))
    if several and which == "one":
        raise ValueError(f"{data.name}: {several} rows have several labels; choose --labels first or --labels all")
    if several and which == "first":
        note(f"{data.name}: {several} rows have several labels; the first one counts")
    has_label = np.diff(Y.indptr) > 0
    filled = np.ones(len(X), dtype=bool) if hasattr(X, "columns") else X.count_nonzero(axis=1) > 0
    dropped = {"without_label": int(np.sum(~has_label)), "without_feature": int(np.sum(has_label & ~filled))}
    for what, count in dropped.items():
        if count:
            note(f"{data.name}: dropped {count} rows {what.replace('_', ' ')}")
    if any(dropped.values()):
        rows = np.flatnonzero(has_label & filled)
        X, Y = rows_of(X, rows), Y[rows]
    if X.shape[0] == 0:
        raise ValueError(f"{data.name}: no row has a label and a feature")
    if which != "all" and several:
        y = first_label(Y)
        Y = sp.csr_array((np.ones(len(y), np.float32), y, np.arange(len(y) + 1)), shape=Y.shape)
    return Labelled(X, Y, data.records.labels, dropped)


def among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the sorted classes of a model, -1 where it is none of them.

    Numbers are compared as numbers; a number with a name by what is written for it.
    """
    if len(labels) == 0 or len(classes) == 0:
        return np.full(len(labels), -1, dtype=np.int64)
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        order, known, wanted = np.arange(len(classes)), classes, labels
    else:
        known, wanted = classes.astype(str), labels.astype(str)
        order = np.argsort(known, kind="stable")
        known = known[order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, order[at], -1)


def known_labels(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> sp.csr_array:
    """Return the labels of the rows that a model knows, (n_rows, n_classes), ones by the places of its classes."""
    position = among(classes, labels)[Y.indices]
    known = position >= 0
    counts = np.concatenate([[0], np.cumsum(known)])[Y.indptr]
    ones = np.ones(int(known.sum()), dtype=np.float32)
    return sp.csr_array((ones, position[known].astype(np.int32), counts), shape=(Y.shape[0], len(classes)))
