"""Rows as files have them, in each form but tables: features or texts, and labels with their names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import n_threads_from
from manyclass.cli.messages import note
from manyclass.cli.sources import LABEL, Source
from manyclass.compressed import split_words
from manyclass.datasets import load_csr, load_xmc
from manyclass.datasets.tables import all_integers, label_in
from manyclass.datasets.xmc import Header, Layout, parse_xmc
from manyclass.labels import as_labels

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
FEW_TEXTS = 20  # by which nothing is said of the order of texts and labels


@dataclass(frozen=True)
class Records:
    """Rows as a file has them.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_features), DataFrame of such a shape, or list of n_rows str
        Features, or texts.
    Y : csr_array of shape (n_rows, n_labels)
        Ones where a row has a label; the order in which a row stores them is that of the file.
    labels : ndarray of shape (n_labels,)
        The label of each column, sorted: numbers or str.
    one_based : bool
        Whether the first feature of a text has number 1.
    name, form : str
        What messages call the data, and the form that they had.
    """

    X: Any
    Y: sp.csr_array
    labels: NDArray[Any]
    one_based: bool = False
    name: str = ""
    form: str = ""

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.Y.shape[0])


def read_xmc(
    source: Source, header: Header, one_based: bool, n_features: int | None, n_jobs: int | None, cache: bool
) -> Records:
    """Read rows `l1,l2,... j:v j:v ...`, or what `save_csr` has written of them; see `load_xmc`."""
    if source.content is None:
        zero_based = not one_based
        X, Y = load_xmc(
            source.path, header=header, zero_based=zero_based, n_features=n_features, n_jobs=n_jobs, cache=cache
        )
    else:
        if cache:
            raise ValueError(f"--cache needs a file; {source.name} is none")
        raw = np.frombuffer(source.read(), np.uint8)
        X, Y = parse_xmc(raw, source.name, Layout(header, not one_based, n_features, None, n_threads_from(n_jobs)))
    return Records(X, Y, np.arange(Y.shape[1]), one_based)


def read_binary(source: Source, n_features: int | None) -> Records:
    """Read what `manyclass.datasets.save_csr` has written."""
    if source.content is not None:
        raise ValueError(f"{source.name}: a binary file is mapped, which a pipe cannot be; give its name")
    X, Y = load_csr(source.path)
    if n_features is not None:
        largest = int(X.indices.max(initial=-1))
        if largest >= n_features:
            raise ValueError(f"{source.name}: feature {largest} is outside [0, {n_features})")
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    Y = sp.csr_array(np.zeros((X.shape[0], 0), np.float32)) if Y is None else Y
    return Records(X, Y, np.arange(Y.shape[1]))


def read_svmlight(source: Source, one_based: bool | None, n_features: int | None, n_jobs: int | None) -> Records:
    """Read rows `label j:v j:v ...` whose labels are any words, numbers with a sign or a point among them.

    The core reads the features. It sees a 0 in the place of each label, so that lines and columns of its messages are
    those of the file. `one_based` None: there is a feature 0 or there is none.
    """
    found: list[list[str]] = []
    lines = source.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for at, line in enumerate(lines):
        data = line.partition(b"#")[0]
        if not data.strip():
            continue
        field = data.split(maxsplit=1)[0]
        labelled = not data[:1].isspace() and b":" not in field
        words = _decoded(field, source.name, at + 1).split(",") if labelled else []
        found.append([_number_of_svmlight(word) for word in words if word])
        if labelled:
            lines[at] = b"0" + b" " * (len(field) - 1) + line[len(field) :]
    Y, labels = label_columns(found)
    raw = np.frombuffer(b"\n".join(lines), np.uint8)
    n_columns = None if n_features is None else n_features + (one_based is not False)
    X, _ = parse_xmc(raw, source.name, Layout(False, True, n_columns, None, n_threads_from(n_jobs)))
    lowest = int(X.indices.min(initial=np.iinfo(np.int32).max))
    one_based = lowest > 0 if one_based is None else one_based
    if one_based and lowest == 0:
        raise ValueError(f"{source.name}: it has the feature 0; the first one of svmlight's form has number 1")
    width = X.shape[1] - one_based if n_features is None else n_features
    X = sp.csr_array((X.data, X.indices - one_based, X.indptr), shape=(X.shape[0], max(0, width)))
    return Records(X, Y, labels, one_based)


def _decoded(field: bytes, name: str, line: int) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}:{line}: the label {field!r} is not UTF-8 text") from error


def _number_of_svmlight(word: str) -> str:
    """Write +1 and 1.0 as 1."""
    if _NUMBER.fullmatch(word) is None:
        return word
    value = float(word)
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else word


def read_text(source: Source, separator: str | None) -> Records:
    """Read a text a line, and behind a tab, if there is one, its labels."""
    texts: list[str] = []
    found: list[Sequence[str]] = []
    for line in source.lines():
        before, tab, after = line.rpartition("\t")
        texts.append(before if tab else after)
        found.append(split_labels(after, separator or ",") if tab else ())
    _check_order(texts, found, source.name)
    Y, labels = label_columns(found)
    return Records(texts, Y, labels)


def _check_order(texts: Sequence[str], found: Sequence[Sequence[str]], name: str) -> None:
    """Raise ValueError where labels and texts have changed places.

    That is where what stands as labels is another one in each row and longer than what stands as texts, of which there
    are half as many or fewer: nothing could be learnt of such rows.
    """
    labelled = [(text, " ".join(own)) for text, own in zip(texts, found, strict=True) if own]
    n_texts, n_labels = (len({pair[at] for pair in labelled}) for at in (0, 1))
    longer = sum(label.count(" ") - text.count(" ") for text, label in labelled) > 0
    if len(labelled) >= FEW_TEXTS and n_labels > 0.9 * len(labelled) and n_texts <= n_labels / 2 and longer:
        raise ValueError(
            f"{name}: {len(labelled)} rows have {n_texts} texts and {n_labels} labels, which have more words; a line "
            "is `text<TAB>label`, and it seems that labels stand before the texts"
        )


def read_fasttext(source: Source) -> Records:
    """Read a text a line, its labels being words that begin with `__label__`; ASCII's blanks stand between words."""
    texts, found = [], []
    for line in source.lines():
        words = split_words(line)
        found.append([word.removeprefix(LABEL) for word in words if word.startswith(LABEL)])
        texts.append(" ".join(word for word in words if not word.startswith(LABEL)))
    Y, labels = label_columns(found)
    return Records(texts, Y, labels)


def split_labels(cell: str, separator: str | None) -> list[str]:
    """Return the labels in a cell."""
    parts = [cell] if separator is None else cell.split(separator)
    return [label for part in parts if (label := label_in(part))]


def label_columns(found: Sequence[Sequence[str]]) -> tuple[sp.csr_array, NDArray[Any]]:
    """Return labels of rows as a matrix, and the label of each of its columns, sorted; integers where all are.

    Parameters
    ----------
    found : sequence of sequences of str
        The labels of each row; one that is there again counts once, as a note says.
    """
    n_given = sum(map(len, found))
    found = [own if len(own) < 2 else [*dict.fromkeys(own)] for own in found]
    flat: Any = list(itertools.chain.from_iterable(found))
    if n_given > len(flat):
        note(f"labels that stand twice in a row count once: {n_given - len(flat)} left out")
    numbers = bool(flat) and all_integers(flat)
    distinct = sorted(set(map(int, flat)) if numbers else set(flat))
    column = {str(label): at for at, label in enumerate(distinct)}
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in found], dtype=np.int64)])
    indices = np.array([column[label] for label in flat], dtype=np.int32)
    Y = sp.csr_array((np.ones(len(flat), np.float32), indices, indptr), shape=(len(found), len(distinct)))
    return Y, as_labels(distinct)
