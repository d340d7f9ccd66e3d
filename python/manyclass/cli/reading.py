"""How the data of all commands are read: options, forms, names of labels, texts, rows that are dropped, and streams."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.cli.messages import note, waiting
from manyclass.cli.records import (
    Histories,
    Records,
    next_items,
    read_binary,
    read_fasttext,
    read_log,
    read_svmlight,
    read_table,
    read_text,
    read_xmc,
)
from manyclass.cli.sources import HEAD, STDIN, Form, Source, form_of_name, header_width
from manyclass.datasets import SequenceEncoder, TextVectorizer, first_label, l2_normalize
from manyclass.datasets.csr import rows_of
from manyclass.datasets.stream import Stream, files_of, form_of_files
from manyclass.datasets.tables import BLANKS, DELIMITERS, Marks
from manyclass.datasets.text_files import LINES
from manyclass.datasets.xmc import Header
from manyclass.labels import as_labels, find_positions, sorted_classes, written

TABLES = tuple(DELIMITERS)
# Options that only some forms use.
USED_BY = {
    **dict.fromkeys(("label_column", "text_column", "delimiter", "decimal"), TABLES),
    **dict.fromkeys(("sequences", "session_gap", "last", "since"), TABLES),
    "label_separator": (*TABLES, "text"),
    "one_based": ("xmc", "svmlight"),
    "n_features": ("xmc", "svmlight", "binary"),
    "cache": ("xmc",),
}
OF_HISTORIES = ("session_gap", "last", "since")
# What a model file keeps of the reading of its data.
NOTES = (
    *("form", "one_based", "normalize", "label_column", "text_column", "label_separator", "delimiter", "decimal"),
    *("sequences", "session_gap"),
)
# Forms that can be read in parts, and their names in `Stream`.
STREAMED = {"xmc": "xmc", "svmlight": "xmc", "csv": "csv", "tsv": "tsv", "binary": "csr"}
STREAMED |= {form: form for form in LINES}
MARKS = ("delimiter", "decimal")  # options of tables
OF_STREAM = {"xmc": "xmc", "csr": "binary", "csv": "csv", "tsv": "tsv", "parquet": "csv"} | {
    form: form for form in LINES
}


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
      binary    what manyclass.datasets.save_csr writes
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
    format: Literal["auto", Form] = "auto"
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

    def take(self, notes: Mapping[str, Any]) -> None:
        """Fill what was not given with how the training data of a model were read."""
        self.form = notes.get("form")
        self.noted = {name for name in NOTES[1:] if getattr(self, name) is None}
        for name in self.noted:
            setattr(self, name, notes.get(name))

    def notes(self, form: str, *, one_based: bool) -> dict[str, Any]:
        """Return how the training data were read, for the model file."""
        named = {name: value for name in NOTES[3:] if (value := getattr(self, name)) is not None}
        return {"form": form, "one_based": one_based, "normalize": bool(self.normalize), **named}

    def given(self, *names: str) -> list[str]:
        """Return those of these options that the user has set."""
        return [name for name in names if getattr(self, name) and name not in self.noted]

    def names(self) -> list[str]:
        """Return the lines of the file of names, none without a file."""
        return [] if self.label_names is None else [line.strip(BLANKS) for line in Source.of(self.label_names).lines()]


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
    vectorizer: TextVectorizer | SequenceEncoder | None = None
    several: bool = False
    need_label: bool = False
    n_jobs: int | None = None
    learns: bool = False


def read(reading: Reading, path: str, expected: Expected) -> Records:
    """Read data, with names for their labels where a file of names is given.

    Raises
    ------
    ValueError
        If they are malformed, with file and line; or not what the model was fitted on.
    """
    if expected.n_features is not None:
        check_number("n_features", expected.n_features, low=1, integer=True)
    for name in OF_HISTORIES if reading.sequences is None else ():
        if getattr(reading, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for logs; name their columns by --sequences")
    with waiting(f"reading {'stdin' if path == STDIN else path}"):
        source = Source.of(path)
        otherwise = None if reading.given("label_column", "text_column") else reading.form
        form = source.form(otherwise) if reading.format == "auto" else reading.format
        given = reading.given(*(name for name in USED_BY if name != "n_features"))
        for name in [*given, *(["n_features"] if expected.n_features and not expected.exact else [])]:
            if form not in USED_BY[name]:
                option = "--" + name.replace("_", "-")
                raise ValueError(f"{option} is for {', '.join(USED_BY[name])}; {source.name} is read as {form}")
        records = replace(_read(reading, source, form, expected), name=source.name, form=form)
    if reading.label_names:
        records = named(records, reading)
    if expected.exact and isinstance(records.X, list):
        wanted = SequenceEncoder if isinstance(records.X, Histories) else TextVectorizer
        if not isinstance(expected.vectorizer, wanted):
            kinds = {TextVectorizer: "texts", SequenceEncoder: "histories"}
            rows = f"rows of {expected.n_features} features"
            told = rows if expected.vectorizer is None else kinds[type(expected.vectorizer)]
            read_as = f"{form}, a log" if wanted is SequenceEncoder else form
            raise ValueError(f"{source.name} is read as {read_as}; the model was fitted on {told}")
    if expected.exact and not isinstance(records.X, list):
        _check_width(source.name, records.X.shape[1], expected)
    return records


def _read(reading: Reading, source: Source, form: str, expected: Expected) -> Records:
    """Read data of a form."""
    if form in TABLES and reading.sequences is not None:
        of_log = [name.strip(BLANKS) for name in reading.sequences.split(",")]
        marks = Marks(reading.delimiter or DELIMITERS[form], reading.decimal or ".")
        found = read_log(source, marks, of_log, reading.session_gap, reading.last, reading.since)
        return Records(found, sp.csr_array(np.zeros((len(found), 0), np.float32)), np.zeros(0, dtype=object))
    if form in TABLES:
        names = expected.feature_names
        delimiter = DELIMITERS[form] if reading.delimiter is None else reading.delimiter
        return read_table(
            source,
            Marks(delimiter, reading.decimal or "."),
            label=reading.label_column,
            text=reading.text_column or (),
            features=() if names is None else names.tolist(),
            separator=reading.label_separator or ("," if expected.several else None),
            need_label=expected.need_label,
        )
    if form == "text":
        return read_text(source, reading.label_separator)
    if form == "fasttext":
        return read_fasttext(source)
    if form == "binary":
        return read_binary(source, None if expected.exact else expected.n_features)
    if form == "svmlight":
        return read_svmlight(source, reading.one_based, expected.n_features, expected.n_jobs)
    header: Header = "auto" if reading.header == "auto" else reading.header == "yes"
    if expected.exact and header is not False:
        _check_width(source.name, header_width(source.read(HEAD)), expected)
    one_based = bool(reading.one_based)
    return read_xmc(source, header, one_based, expected.n_features, expected.n_jobs, reading.cache)


def _check_width(name: str, width: int | None, expected: Expected) -> None:
    if width is not None and width != expected.n_features:
        raise ValueError(f"{name} has {width} features; the model was fitted on {expected.n_features}")


def named(records: Records, reading: Reading) -> Records:
    """Give labels that are numbers their names.

    Raises
    ------
    ValueError
        If a label has no line, is no number, or two labels have one name.
    """
    names, path, labels, Y = reading.names(), reading.label_names, records.labels, records.Y
    used = np.unique(Y.indices)
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"{records.name} has labels with names, such as {written(labels)[0]!r}; --label-names is for numbers"
        )
    for label in labels[used]:
        if not 0 <= label < len(names):
            raise ValueError(f"{path} has {len(names)} names; {records.name} has the label {label}")
    own = as_labels([names[label] for label in labels[used]])
    distinct, first = sorted_classes(own)
    if len(distinct) < len(own):
        twice = distinct[np.argmax(np.bincount(first))]
        raise ValueError(f"{path}: the name {str(twice)!r} stands in several lines; names must be distinct")
    column = np.full(len(labels), -1, dtype=np.int32)
    column[used] = first
    Y = sp.csr_array((Y.data, column[Y.indices], Y.indptr), shape=(Y.shape[0], len(own)))
    return replace(records, Y=Y, labels=distinct)


def features(reading: Reading, X: Any, vectorizer: TextVectorizer | SequenceEncoder | None) -> Any:
    """Return the features of rows, of texts and histories through the vectorizer, normalized where that is asked."""
    if isinstance(X, list):
        assert vectorizer is not None
        with waiting(
            f"turning {len(X)} {'texts' if isinstance(vectorizer, TextVectorizer) else 'histories'} into rows"
        ):
            X = vectorizer.transform(X)
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
    found: dict[str, str] = {}
    for number, line in enumerate(Source.of(path).lines(), start=1):
        if not line.strip(BLANKS):
            continue
        one, _, other = (part.strip(BLANKS) for part in line.partition("\t"))
        if not (one and other) or "\t" in other:
            raise ValueError(f"{path}:{number}: {line!r:.60} is not a {name}, a tab, and its {value}")
        if found.setdefault(one, other) != other:
            raise ValueError(f"{path}:{number}: {one!r} has a second {value}, {other!r}")
    if not found:
        raise ValueError(f"{path} has no line")
    return found


def labelled_rows(reading: Reading, path: str, expected: Expected, which: str | None = None) -> Records:
    """Read labelled rows; see `labelled`. `which` None: all labels where several are expected, else the first."""
    data = read(reading, path, expected)
    if isinstance(data.X, Histories) and isinstance(expected.vectorizer, SequenceEncoder):
        data = next_items(data, expected.vectorizer, learns=expected.learns)
    X = features(reading, data.X, expected.vectorizer)
    return labelled(data, X, which or ("all" if expected.several else "first"))


def labelled(data: Records, X: Any, which: str) -> Records:
    """Keep the rows that have a label and a feature; notes say what was dropped or has further labels.

    Parameters
    ----------
    data : Records
    X : csr_array or DataFrame
        Their features.
    which : {"first", "all", "one"}
        Which labels of a row count; "one": several are an error.

    Raises
    ------
    ValueError
        If a row has several labels and may not, or no row is left.
    """
    Y = data.Y
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
        Y = of_first_labels(Y)
    return replace(data, X=X, Y=Y, dropped=dropped)


def of_first_labels(Y: sp.csr_array) -> sp.csr_array:
    """Return the first label of each row that has one, as a matrix without the other rows."""
    y = first_label(Y)
    y = y[y >= 0]
    return sp.csr_array((np.ones(len(y), np.float32), y, np.arange(len(y) + 1)), shape=(len(y), Y.shape[1]))


def among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes of a model, -1 where it is none of them.

    Numbers are compared as numbers; a number with a name by what is written for it.
    """
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return find_positions(labels, classes, "the data").astype(np.int64)
    position = {label: at for at, label in enumerate(written(classes))}
    return np.array([position.get(label, -1) for label in written(labels)], dtype=np.int64)


def known_labels(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> sp.csr_array:
    """Return the labels of the rows that a model knows, (n_rows, n_classes), ones by the places of its classes."""
    position = among(classes, labels)[Y.indices]
    known = position >= 0
    counts = np.concatenate([[0], np.cumsum(known)])[Y.indptr]
    ones = np.ones(int(known.sum()), dtype=np.float32)
    return sp.csr_array((ones, position[known].astype(np.int32), counts), shape=(Y.shape[0], len(classes)))


def indicator(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> sp.csr_array:
    """Return what `known_labels` does, sorted within rows, as estimators want it."""
    known = known_labels(classes, labels, Y)
    known.sort_indices()
    return known


def as_classes(classes: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of the kind that a model's have: a number or a date is the name that is written for it.

    Raises
    ------
    ValueError
        If the model's labels are numbers or dates and the data's are other names.
    """
    if classes is None or (classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf"):
        return labels
    names, known = written(labels), among(classes, labels)
    if np.all(known >= 0):
        return np.asarray(classes[known])
    if classes.dtype.kind in "OU":
        return as_labels(names)
    with contextlib.suppress(ValueError, OverflowError):
        found = np.array(names).astype(classes.dtype)
        if written(found) == names:
            return found
    kind = "dates" if classes.dtype.kind in "mM" else "numbers"
    raise ValueError(f"labels are names, such as {names[0]!r}; the model's are {kind}, such as {written(classes)[0]}")


# --stream: data of several files, larger than memory, as a stream of parts


@dataclass(kw_only=True)
class Streaming:
    """Data larger than memory.

    Attributes
    ----------
    stream : bool
        read DATA in parts while training: a file, a folder or a pattern such as 'day-*.txt.gz', of the forms xmc,
        svmlight (labels 0, 1, ...), csv, tsv, text, fasttext and binary, or of Parquet; texts become rows anew in each
        pass
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
    vectorizer: TextVectorizer | SequenceEncoder | None = None,
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
    vectorizer : TextVectorizer, optional
        What makes rows of texts; one that is not fitted learns their terms.

    Raises
    ------
    ValueError
        For options that a stream has no use for, and as `Stream` does.
    """
    is_text = streamed_form(reading, files_of(source)) in LINES
    unused = (
        "text_column",
        *(["delimiter", "decimal", "label_column", "one_based", "label_names"] if is_text else []),
        *([] if is_text else ["label_separator"]),
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
    form = streamed_form(reading, files)
    if (form in LINES) != isinstance(vectorizer, TextVectorizer):
        asked = (
            f"texts, and {files[0]} is read as {OF_STREAM[form]}" if vectorizer else f"rows, and {files[0]} is texts"
        )
        raise ValueError(f"the model was fitted on {asked}")
    options: dict[str, Any] = {"format": form, "random_state": random_state or 0}
    if form == "xmc":
        header = "auto" if reading.header == "auto" and not is_svmlight else reading.header == "yes"
        options |= {"header": header, "zero_based": not one_based, "n_jobs": n_jobs}
    if form in ("xmc", "csr"):
        options |= {"n_features": n_features, "labels": "all" if several else "first"}
    elif form in LINES:
        options |= {"labels": "all" if several else "first"}
        options |= {} if form == "fasttext" else {"delimiter": reading.label_separator}
    elif several:
        raise ValueError(f"all labels of a row are asked for; with --stream, {form} has one a row")
    else:
        options |= {"y": reading.label_column}
        options |= {name: value for name in MARKS if (value := getattr(reading, name)) is not None}
    rows = Rows(reading, classes)
    notes = reading.notes("svmlight" if is_svmlight else OF_STREAM[form], one_based=one_based)
    stream = Stream(source, **options)
    if isinstance(vectorizer, TextVectorizer):
        if not hasattr(vectorizer, "idf_"):
            with waiting("counting the words of all texts"):
                vectorizer.fit_parts(texts for texts, _ in stream.read())
        stream = stream.encoded(vectorizer)
    return stream.map(rows), rows, notes


def streamed_form(reading: Reading, files: Sequence[Path]) -> str:
    """Return the form that `Stream` is to read files in: by their suffix, and texts by their first line, too."""
    if reading.format != "auto":
        return STREAMED[reading.format]
    form = form_of_files(files)
    if form not in ("xmc", "tsv"):
        return form
    otherwise = reading.form if reading.form in LINES else None
    found = Source.of(str(files[0])).form(otherwise)
    return found if found in LINES else form


def labels_in(stream: Stream) -> NDArray[Any]:
    """Read a stream once, and return all its labels."""
    found: NDArray[Any] | None = None
    for _, y in stream:
        found = sorted_classes(y, found)[0]
    return np.zeros(0) if found is None else found
