"""Labels that files have as words: the label of each column, the matrix or the array of rows, and files of texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.compressed import LABEL
from manyclass.datasets.csr import indicator, ones_at
from manyclass.datasets.inputs import BLANKS, Input, RowSource
from manyclass.labels import as_labels, composed, sorted_classes

Words = list[list[str]]  # the labels of each row
TEXTS = 16_384  # that are held at once, before rows of numbers are made of them
FEW_TEXTS = 20  # by which nothing is said of the order of texts and labels


def label_columns(words: Words) -> tuple[sp.csr_array, NDArray[Any], int]:
    """Return labels of rows as a matrix, and the label of each of its columns, sorted; integers where all are.

    Parameters
    ----------
    words : sequence of sequences of str

    Returns
    -------
    Y : csr_array of shape (n_rows, n_labels), float32
        Ones, in the order of each row.
    labels : ndarray of shape (n_labels,)
    n_twice : int
        Labels that stand twice in a row, and count once.
    """
    distinct, indptr, indices, n_twice = _columns(words)
    return ones_at(indices, np.diff(indptr), len(distinct)), as_labels(distinct), n_twice


def _columns(words: Words) -> Any:
    """The core's columns of labels; those in two forms of Unicode are composed before, with a warning."""
    columns = _core.label_columns(words)
    if len(sorted_classes(as_labels(columns[0]), name="the data")[0]) < len(columns[0]):
        return _core.label_columns([[*map(composed, row)] for row in words])
    return columns


def labels_of_words(cells: Sequence[str]) -> NDArray[Any]:
    """Return the label that the word of each cell is, without blanks around it: integers where all are."""
    words = [cell.strip(BLANKS) for cell in cells]
    return Vocabulary([words]).find(words)


class Vocabulary:
    """All labels of rows that are read more than once.

    Parameters
    ----------
    words : iterable of sequences of str
        The labels of each row.

    Attributes
    ----------
    labels : ndarray of shape (n_labels,)
        Sorted: integers where all are, else str.
    """

    def __init__(self, words: Iterable[Sequence[str]]) -> None:
        distinct = {word for row in words for word in row}
        self.labels = as_labels(_columns([[*distinct]])[0])
        places = {str(label): place for place, label in enumerate(self.labels.tolist())}
        self._places = {word: places[word if word in places else composed(word)] for word in distinct}

    def labels_of(self, words: Words, *, several: bool) -> tuple[list[bool], Any]:
        """Return which rows have a label, and of these the first one or, `several`, a matrix of ones at all, sorted."""
        labelled = [row for row in words if row]
        if several:
            places = [sorted({self._places[word] for word in row}) for row in labelled]
            return [*map(bool, words)], indicator(places, len(self.labels))
        return [*map(bool, words)], self.find(row[0] for row in labelled)

    def find(self, words: Iterable[str]) -> NDArray[Any]:
        """Return the label that each word is."""
        return self.labels[np.array([self._places[word] for word in words], dtype=np.intp)]


def open_texts(inputs: Sequence[Input], form: str, separator: str) -> RowSource:
    """Return what reads inputs with a text and its labels on each line.

    Parameters
    ----------
    inputs : sequence of Input
    form : {"text", "fasttext"}
        A line of "text" has its labels behind its last tab; in one of "fasttext" they are the words that begin with
        `__label__`, ASCII's blanks being between words.
    separator : str
        Between the labels of a line of "text".
    """

    def blocks(size: int) -> Iterator[tuple[list[str], Words]]:
        yield [], []
        for source in inputs:
            lines = source.lines()
            while block := list(itertools.islice(lines, min(size, TEXTS))):
                yield _core.marked_texts(block, LABEL) if form == "fasttext" else _tabbed(block, separator, source.name)

    return RowSource(blocks, None)


def _tabbed(lines: list[str], separator: str, name: str) -> tuple[list[str], Words]:
    """Return the texts and the labels of lines.

    Raises
    ------
    ValueError
        If labels and texts have changed places: what stands as labels is another one in each row and longer than what
        stands as texts, of which there are half as many or fewer. Nothing could be learnt of such rows.
    """
    texts, words, swapped = _core.tabbed_texts(lines, separator, FEW_TEXTS)
    if swapped:
        n_rows, n_texts, n_labels = swapped
        raise ValueError(
            f"{name}: {n_rows} rows have {n_texts} texts and {n_labels} labels, which have more words; a line is "
            "`text<TAB>label`, and it seems that labels stand before the texts"
        )
    return texts, words
