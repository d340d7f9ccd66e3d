"""Files of all commands: options, forms, names of labels, rows that are dropped, streams of parts, and output."""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number, n_threads_from
from manyclass.cli.messages import note, waiting
from manyclass.cli.options import flag
from manyclass.compressed import STDIN
from manyclass.datasets import SequenceEncoder, TextVectorizer, l2_normalize
from manyclass.datasets.csr import is_sparse, ones_at, rows_of
from manyclass.datasets.inputs import BLANKS, FORMS, TABLES, Input, Layout, guess_form, is_safetensors
from manyclass.datasets.logs import Histories, next_items, read_log
from manyclass.datasets.stream import OPTIONS, Records, Stream, first_labels, read_records
from manyclass.datasets.tables import TableFile
from manyclass.datasets.xmc import header_of
from manyclass.labels import as_labels, sorted_classes, written
from manyclass.training.state import taken
from manyclass.weights.tensor_file import open_tensors, replacing

FormName = Literal["xmc", "svmlight", "csv", "tsv", "parquet", "text", "fasttext", "csr", "binary"]
DELIMITED, NUMBERED = ("csv", "tsv"), ("xmc", "svmlight")
# Options that only some forms use: which do, and which do with --stream.
USED_BY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "label_column": (TABLES, TABLES),
    "text_column": (TABLES, ()),
    **dict.fromkeys(("delimiter", "decimal"), (DELIMITED, DELIMITED)),
    **dict.fromkeys(("sequences", "session_gap", "last", "since"), (DELIMITED, ())),
    "label_separator": ((*TABLES, "text"), ("text",)),
    "label_names": (FORMS, (*NUMBERED, "csr", *TABLES)),
    "one_based": (NUMBERED, NUMBERED),
    "n_features": ((*NUMBERED, "csr"), (*NUMBERED, "csr")),
    "cache": (("xmc",), ()),
}
# What makes rows of raw data, by the types of these, and what these are called.
Vectorizer = TextVectorizer | SequenceEncoder
RAW: dict[type, type[Vectorizer]] = {list: TextVectorizer, Histories: SequenceEncoder}
UNITS: dict[type, str] = {TextVectorizer: "texts", SequenceEncoder: "histories"}
# What a model file keeps of the reading of its data.
NOTES = (
    *("one_based", "normalize", "label_column", "text_column", "label_separator", "delimiter", "decimal"),
    *("sequences", "session_gap"),
)


@dataclass
class Reading:
    """Reading of the data.

    forms of data (plain or compressed; guessed from the name and the first line, or named by --format):
      xmc       the extreme classification repository's: lines `l1,l2,... j:v j:v ...`, optional first line `N D L`
      svmlight  lines `label j:v j:v ...`, the first feature having number 1
      csv, tsv  a table whose first line names the columns: numeric features, or text (--text-column), and labels; or
                a log of events (--sequences), whose labels are the items that came next
      text      on each line a text, a tab and its labels: `text<TAB>label,label` (--text is short for it)
      fasttext  on each line a text, in which words like `__label__name` are its labels
      csr       what manyclass.datasets.save_csr writes (binary is the same)
      parquet   a table as csv is
    a blank line of xmc or svmlight is a row without labels and features, and a comment is none
    options that you leave out are those with which the model was fitted

    Attributes
    ----------
    format : {"auto", "xmc", ...}
        form of the data, see above
    text : bool
        short for --format text
    label_names : FILE
        names of the labels 0, 1, ..., one a line, instead of their numbers
    label_column : NAME
        column of a table that has the label; default: label
    text_column : NAME
        column of a table that has text; given several times, the columns are joined
    label_separator : SEP
        separator of the labels of a row; default: a comma, but in a table none unless all labels are taken
    delimiter : CHAR
        separator of the cells of a table; default: a comma in csv, a tab in tsv
    decimal : {".", ","}
        decimal mark of numbers in a table; default: a point
    sequences : USER,ITEM[,TIME]
        columns of a table that is a log of events: the user, the item, and the time (a number or a date; without it,
        events stand in the order of the file)
    session_gap : T
        with --sequences: a pause of this length ends a session, in seconds, or in the unit of times that are numbers
    last : N
        with --sequences: fit leaves out the last N events of each user; evaluate and learn take these alone
    since : TIME
        with --sequences: fit leaves out the events from TIME on; evaluate and learn take these alone
    header : {"auto", "yes", "no"}
        whether the first line of xmc is `N D L`; auto: if it holds three integers
    one_based : bool
        the first feature of xmc or svmlight has number 1; default: not in xmc, in svmlight if there is no 0
    normalize : bool
        divide each row by its Euclidean norm, and do so wherever the model is used
    cache : bool
        keep a binary copy of an xmc file as DATA.csr.safetensors, and read that the next time
    form : str or None
        The form of the model's training data.
    noted : set of str
        The options that are not the user's but the model's.
    """

    _: KW_ONLY
    format: Literal["auto", FormName] = "auto"
    text: bool = False
    label_names: str | None = None
    label_column: str | None = None
    text_column: list[str] | None = None
    label_separator: str | None = None
    delimiter: str | None = None
    decimal: Literal[".", ","] | None = None
    sequences: str | None = None
    session_gap: float | None = None
    last: int | None = None
    since: str | None = None
    header: Literal["auto", "yes", "no"] = "auto"
    one_based: bool | None = None
    normalize: bool | None = None
    cache: bool = False
    form: str | None = field(default=None, init=False)
    noted: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Set the form that --text stands for."""
        if self.text:
            self.format = "text"
        elif self.format == "binary":
            self.format = "csr"  # as Python calls it

    def take(self, notes: Mapping[str, Any]) -> None:
        """Fill what was not given with how the training data of a model were read."""
        self.form = None if notes.get("form") == "binary" else notes.get("form")  # which its first bytes tell
        self.noted = {name for name in NOTES if getattr(self, name) is None}
        for name in self.noted:
            setattr(self, name, notes.get(name))

    def notes(self, form: str, *, one_based: bool) -> dict[str, Any]:
        """Return how the training data were read, for the model file."""
        named = {name: value for name in NOTES[2:] if (value := getattr(self, name)) is not None}
        return {"form": form, "one_based": one_based, "normalize": bool(self.normalize), **named}

    def set_options(self, *names: str) -> list[str]:
        """Return those of these options that the user has set."""
        return [name for name in names if getattr(self, name) and name not in self.noted]

    def form_of(self, inputs: Sequence[Input]) -> str:
        """Return the form of inputs; raises ValueError where nothing tells it."""
        otherwise = None if self.set_options("label_column", "text_column") else self.form
        return guess_form(inputs, otherwise) if self.format == "auto" else self.format

    def layout(self, form: str, expected: Expected) -> Layout:
        """Return how files of a form are read."""
        zero_based = None if self.one_based is None else not self.one_based
        return Layout(
            header="auto" if self.header == "auto" else self.header == "yes",
            zero_based=form == "xmc" if zero_based is None and form != "svmlight" else zero_based,
            n_features=None if form == "csr" and expected.exact else expected.n_features,
            n_threads=n_threads_from(expected.n_jobs),
            label=self.label_column,
            need_label=expected.need_label,
            text=tuple(self.text_column or ()),
            groups=expected.groups,
            features=() if expected.feature_names is None else tuple(expected.feature_names.tolist()),
            separator=self.label_separator or ("," if expected.several and form in TABLES else None),
            delimiter=self.delimiter,
            decimal=self.decimal or ".",
        )

    def check_options(self, name: str, form: str, expected: Expected, *, streamed: bool = False) -> None:
        """Raise ValueError for an option that a form, of which the data called `name` are, has no use for."""
        values = vars(self) | {"n_features": None if expected.exact else expected.n_features}
        for option, uses in USED_BY.items():
            if values[option] and option not in self.noted and form not in uses[streamed]:
                users = ", ".join(uses[streamed]) or "data that are read at once, without --stream"
                raise ValueError(f"{flag(option)} is for {users}; {name} is read as {form}")
        for option in ("session_gap", "last", "since") if self.sequences is None else ():
            if getattr(self, option) is not None:
                raise ValueError(f"{flag(option)} is for logs; name their columns by --sequences")


@dataclass(frozen=True)
class Expected:
    """What a model, or a command, wants of data.

    Attributes
    ----------
    n_features : int or None
        None: as many as there are.
    exact : bool
        Whether a file may not say another number of features.
    feature_names : ndarray or None
        Columns of a table.
    vectorizer : TextVectorizer, SequenceEncoder or None
        What makes rows of texts or histories.
    learns : bool
        Whether new items of histories get columns.
    excludes : bool
        Whether what histories have is to be left out.
    groups : str or None
        The column of a table that has the group of each row.
    several : bool
        Whether all labels of a row count.
    need_label : bool
        Whether data without labels are an error.
    n_jobs : int or None
        Threads that read.
    """

    n_features: int | None = None
    exact: bool = False
    feature_names: NDArray[Any] | None = None
    vectorizer: Vectorizer | None = None
    several: bool = False
    need_label: bool = False
    n_jobs: int | None = None
    learns: bool = False
    excludes: bool = False
    groups: str | None = None


def read(reading: Reading, path: str, expected: Expected) -> Records:
    """Read data, with names for their labels where a file of names is given.

    Raises
    ------
    ValueError
        If they are malformed, with file and line; or not what the model was fitted on.
    """
    if expected.n_features is not None:
        check_number("n_features", expected.n_features, low=1, integer=True)
    with waiting(f"reading {'stdin' if path == STDIN else path}"):
        source = Input.of(path)
        form = reading.form_of([source])
        reading.check_options(source.name, form, expected)
        records = tell(_read(reading, source, form, expected))
    if reading.label_names:
        names, places = sorted_classes(LabelNames(reading.label_names).of(records.labels, records.name))
        Y = ones_at(places[records.Y.indices], np.diff(records.Y.indptr), len(names))
        records = replace(records, Y=Y, labels=names)
    if expected.exact:
        _check_kind(records, expected)
    return records


def _read(reading: Reading, source: Input, form: str, expected: Expected) -> Records:
    """Read data of a form."""
    layout, is_log = reading.layout(form, expected), reading.sequences is not None and form in DELIMITED
    if expected.groups is not None and (is_log or form not in TABLES):
        shown = f"{source.name} is {'a log, whose users are groups' if is_log else f'read as {form}'}"
        raise ValueError(f"--groups is for {', '.join(TABLES)}; {shown}")
    if is_log:
        names = [name.strip(BLANKS) for name in (reading.sequences or "").split(",")]
        how: dict[str, Any] = {"gap": reading.session_gap, "last": reading.last, "since": reading.since}
        return read_log(TableFile(source, form, layout), names, **how)
    if form == "xmc" and expected.exact and header_of(source, layout.header):
        layout = replace(layout, n_features=None)  # which the header tells
    return read_records(form, source, layout, cache=reading.cache)


def _check_kind(records: Records, expected: Expected) -> None:
    """Raise ValueError for data of another kind than those that the model was fitted on."""
    X, is_raw = records.X, isinstance(records.X, list)
    if isinstance(expected.vectorizer, RAW[type(X)]) if is_raw else X.shape[1] == expected.n_features:
        return
    units = UNITS[RAW[type(X)]] if is_raw else f"rows of {X.shape[1]} features"
    wanted = UNITS.get(type(expected.vectorizer), f"rows of {expected.n_features} features")
    raise ValueError(f"{records.name}, read as {records.form}, has {units}; the model was fitted on {wanted}")


def tell(records: Records) -> Records:
    """Say on stderr what a user should know of the reading; return the records without it."""
    for text in records.notes:
        note(text)
    return replace(records, notes=())


class LabelNames:
    """The names of labels that are numbers, from a file that has one a line.

    Parameters
    ----------
    path : str
    distinct : bool, default=True
        Whether two labels may not have one name.
    """

    def __init__(self, path: str, *, distinct: bool = True) -> None:
        self._path, self._names = path, as_labels([line.strip(BLANKS) for line in Input.of(path).lines()])
        names, counts = np.unique(self._names, return_counts=True)
        if distinct and len(names) < len(self._names):
            name = names[np.argmax(counts)]
            raise ValueError(f"{path}: the name {str(name)!r} stands in several lines; names must be distinct")

    def of(self, labels: NDArray[Any], name: str) -> NDArray[Any]:
        """Return the name of each label of the data that messages call `name`.

        Raises
        ------
        ValueError
            If a label is no number, or has no line.
        """
        if labels.dtype.kind not in "iu":
            shown = written(labels)[0]
            raise ValueError(f"{name} has labels with names, such as {shown!r}; --label-names is for numbers")
        outside = labels[(labels < 0) | (labels >= len(self._names))]
        if len(outside):
            raise ValueError(f"{self._path} has {len(self._names)} names; {name} has the label {outside[0]}")
        names: NDArray[Any] = self._names[labels]
        return names


def features(reading: Reading, X: Any, vectorizer: Vectorizer | None) -> Any:
    """Return the features of rows, of texts and histories through the vectorizer, normalized where that is asked."""
    if isinstance(X, list):
        assert vectorizer is not None
        with waiting(f"turning {len(X)} {UNITS[type(vectorizer)]} into rows"):
            X = vectorizer.transform(X)
        if n_empty := int((~rows_with_features(X)).sum()):
            known = {TextVectorizer: "term", SequenceEncoder: "item"}[type(vectorizer)]
            note(f"{n_empty} of {X.shape[0]} {UNITS[type(vectorizer)]} have no {known} that the model knows")
    if not reading.normalize:
        return X
    if not hasattr(X, "columns"):
        return l2_normalize(X)
    lengths = np.linalg.norm(X.to_numpy(np.float64), axis=1)
    return X.div(np.where(lengths > 0, lengths, 1), axis=0).astype(np.float32)


def read_pairs(path: str, name: str, value: str) -> dict[str, str]:
    """Read lines of a name, a tab and its value.

    Raises
    ------
    ValueError
        If a line is no such pair, or a name has two values.
    """
    pairs: dict[str, str] = {}
    for number, line in enumerate(Input.of(path).lines(), start=1):
        parts = [part.strip(BLANKS) for part in line.split("\t")]
        if parts == [""]:
            continue
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{path}:{number}: {line!r:.60} is not a {name}, a tab, and its {value}")
        if pairs.setdefault(*parts) != parts[1]:
            raise ValueError(f"{path}:{number}: {parts[0]!r} has a second {value}, {parts[1]!r}")
    if not pairs:
        raise ValueError(f"{path} has no line")
    return pairs


def labelled_rows(reading: Reading, path: str, expected: Expected, which: str | None = None) -> Records:
    """Read labelled rows; see `labelled`. `which` None: all labels where several are expected, else the first."""
    records = read(reading, path, expected)
    if isinstance(records.X, Histories) and isinstance(expected.vectorizer, SequenceEncoder):
        how = {"learns": expected.learns, "excludes": expected.excludes}
        records = tell(next_items(records, expected.vectorizer, **how))
    X = features(reading, records.X, expected.vectorizer)
    return labelled(records, X, which or ("all" if expected.several else "first"))


def labelled(records: Records, X: Any, which: str) -> Records:
    """Keep the rows that have a label and a feature; notes say what was dropped or has further labels.

    Parameters
    ----------
    records : Records
    X : csr_array or DataFrame
        Their features.
    which : {"first", "all"}
        Which labels of a row count.

    Raises
    ------
    ValueError
        If no row is left.
    """
    Y, groups = records.Y, records.groups
    n_labels, has_feature = np.diff(Y.indptr), rows_with_features(X)
    has_label, several = n_labels > 0, int(np.sum(n_labels > 1))
    if several and which == "first":
        note(f"{records.name}: {several} rows have several labels; the first one counts")
    dropped = {"without_label": int(np.sum(~has_label)), "without_feature": int(np.sum(has_label & ~has_feature))}
    for lack, count in dropped.items():
        if count:
            note(f"{records.name}: dropped {count} rows {lack.replace('_', ' ')}")
    rows = np.flatnonzero(has_label & has_feature)
    if len(rows) == 0:
        raise ValueError(f"{records.name}: no row has a label and a feature")
    if any(dropped.values()):
        X, Y, groups = rows_of(X, rows), Y[rows], taken(groups, rows)
    Y = first_labels(Y) if which == "first" else Y
    return replace(records, X=X, Y=Y, dropped=records.dropped | dropped, groups=groups)


def rows_with_features(X: Any) -> NDArray[np.bool_]:
    """Return which rows have a feature that is not 0, all of a table."""
    return np.ones(len(X), dtype=bool) if hasattr(X, "columns") else np.asarray(X.count_nonzero(axis=1) > 0)


def file_format(path: str) -> str | None:
    """Return what a safetensors file says that it is, a model, an index or words; None of other files."""
    return open_tensors(path).metadata.get("format") if is_safetensors(path) else None


# Streams


def open_stream(reading: Reading, path: str, form: str, expected: Expected, seed: int) -> tuple[Stream, dict[str, Any]]:
    """Open files; return the stream of their rows that have a feature, and what a model file keeps of their reading.

    Parameters
    ----------
    reading : Reading
    path : str
        A file, a folder or a pattern.
    form : str
    expected : Expected
        What the stream must be; its vectorizer learns the terms of texts.
    seed : int
        Of the order of rows.

    Raises
    ------
    ValueError
        For options that a stream has no use for, and as `Stream` does.
    """
    reading.check_options(path, form, expected, streamed=True)
    if expected.several and (form in TABLES or reading.label_names):
        raise ValueError("with --stream, tables have one label a row, and --label-names is for one; not all are learnt")
    layout, labels = reading.layout(form, expected), "all" if expected.several or form in TABLES else "first"
    values = {**vars(layout), "n_features": expected.n_features, "n_jobs": expected.n_jobs}
    if form == "text":
        values["delimiter"] = layout.separator
    options = {name: values[name] for name in OPTIONS.get(form, ())}
    how: Any = {"format": form, "labels": labels, "random_state": seed, **options}
    stream = Stream(path, layout.label if form in TABLES else None, **how)
    notes = reading.notes(form, one_based=not stream.zero_based)
    if isinstance(expected.vectorizer, TextVectorizer):
        with waiting("counting the words of all texts"):
            stream = stream.encoded(expected.vectorizer)
    label_names = LabelNames(reading.label_names) if reading.label_names else None

    def prepare(X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.flatnonzero(rows_with_features(X))
        if len(rows) < X.shape[0]:
            X, y = rows_of(X, rows), y[rows]
        if label_names is not None:
            y = label_names.of(y, path)
        return features(reading, X, None), y

    return stream.map(prepare), notes


def labels_in(stream: Stream) -> NDArray[Any]:
    """Read a stream once, and return the labels of its rows; those of a matrix are what its columns stand for."""
    labels: NDArray[Any] = np.zeros(0)
    with waiting("counting the labels"):
        for _, y in stream:
            if is_sparse(y):
                y = np.unique(y.indices) if stream.label_names is None else stream.label_names[np.unique(y.indices)]
            labels = sorted_classes(y, labels if len(labels) else None)[0]
    return labels


# Output


@contextlib.contextmanager
def text_output(path: str | None) -> Iterator[Any]:
    """Give stdout, or a file that appears under its name once it is complete."""
    with contextlib.nullcontext() if path is None else replacing(path) as file:
        yield codecs.getwriter("utf-8")(file) if file else sys.stdout
