"""Files with a text and its labels on each line: what a line says, and their rows in parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.compressed import LABEL, opened, split_words, text_lines
from manyclass.datasets.tables import all_integers, label_in
from manyclass.labels import as_labels

ROWS = 16_384  # texts that are held at once, before rows of numbers are made of them
FEW_TEXTS = 20  # by which nothing is said of the order of texts and labels

Labelled = tuple[str, list[str]]  # a text and its labels, each of them once


def split_labels(cell: str, separator: str | None) -> list[str]:
    """Return the labels in a cell; None: the cell is one label."""
    parts = [cell] if separator is None else cell.split(separator)
    return [label for part in parts if (label := label_in(part))]


def of_text(line: str, separator: str) -> Labelled:
    """Return what stands before the last tab of a line, and the labels behind it."""
    before, tab, after = line.rpartition("\t")
    return (before, split_labels(after, separator)) if tab else (after, [])


def of_fasttext(line: str, separator: str = "") -> Labelled:
    """Return the words of a line, and its labels, which are words that begin with `__label__`."""
    words = split_words(line)
    labels = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
    return " ".join(word for word in words if not word.startswith(LABEL)), labels


LINES: dict[str, Callable[[str, str], Labelled]] = {"text": of_text, "fasttext": of_fasttext}


def check_order(texts: Sequence[str], found: Sequence[Sequence[str]], name: str) -> None:
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


@dataclass(frozen=True)
class TextFiles:
    """Files of a form, whose rows without a label are left out.

    Attributes
    ----------
    files : sequence of Path
    form : {"text", "fasttext"}
    separator : str
        Between the labels of a line of "text".
    all_labels : bool
        Whether all labels of a row count, or the first one alone.
    labels : ndarray of shape (n_labels,)
        All of them, sorted: integers where all are, else str.
    """

    files: Sequence[Path]
    form: str
    separator: str
    all_labels: bool
    labels: NDArray[Any]

    n_features = n_rows = None  # a vectorizer makes the ones, and nothing has counted the others

    @classmethod
    def of(cls, files: Sequence[Path], form: str, separator: str | None, *, all_labels: bool) -> TextFiles:
        """Read the labels of all rows.

        Raises
        ------
        ValueError
            If a file is not UTF-8, no row has a label, or labels stand before the texts.
        """
        given = cls(files, form, separator or ",", all_labels, np.zeros(0))
        found = set[str]()
        for at, rows in enumerate(given._read(ROWS)):
            if at == 0:
                check_order([text for text, _ in rows], [labels for _, labels in rows], str(files[0]))
            found.update(itertools.chain.from_iterable(labels if all_labels else labels[:1] for _, labels in rows))
        if not found:
            raise ValueError(f"{files[0]}: no row has a label")
        distinct: list[Any] = sorted(map(int, found)) if all_integers(found) else sorted(found)
        return cls(files, form, given.separator, all_labels, as_labels(distinct))

    @property
    def n_labels(self) -> int | None:
        """Columns of Y; None where y has names."""
        return len(self.labels) if self.all_labels else None

    def blocks(self, size: int) -> Iterator[tuple[NDArray[Any], Any]]:
        """Yield at most `size` rows at once: texts, and y or Y."""
        column = {str(label): at for at, label in enumerate(self.labels.tolist())}
        for rows in self._read(min(size, ROWS)):
            texts = np.array([text for text, _ in rows], dtype=object)
            if not self.all_labels:
                yield texts, self.labels[[column[labels[0]] for _, labels in rows]]
                continue
            own = [sorted(column[label] for label in dict.fromkeys(labels)) for _, labels in rows]
            indices = np.array([*itertools.chain.from_iterable(own)], dtype=np.int32)
            indptr = np.cumsum([0, *map(len, own)])
            shape = len(rows), len(self.labels)
            yield texts, sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=shape)

    def _read(self, size: int) -> Iterator[list[Labelled]]:
        """Yield the rows that have a label, at most `size` at once."""
        for file in self.files:
            with opened(file) as raw:
                lines = (line.removesuffix("\n").removesuffix("\r") for line in text_lines(raw, str(file)))
                read = (LINES[self.form](line, self.separator) for line in lines)
                labelled = (row for row in read if row[1])
                while rows := list(itertools.islice(labelled, size)):
                    yield rows
