"""Labels that files have as words: the label of each column, and the matrix or the array of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.datasets.numerals import BLANKS
from manyclass.labels import as_labels

Words = list[list[str]]  # the labels of each row


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
    distinct, indptr, indices, n_twice = _core.label_columns(words)
    Y = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(words), len(distinct)))
    return Y, as_labels(distinct), n_twice


def labels_of_words(cells: Sequence[str]) -> NDArray[Any]:
    """Return the label that the word of each cell is, without blanks around it: integers where all are."""
    words = {cell: cell.strip(BLANKS) for cell in dict.fromkeys(cells)}
    distinct = [*dict.fromkeys(words.values())]
    Y, labels, _ = label_columns([distinct])
    positions = dict(zip(distinct, Y.indices.tolist(), strict=True))
    places = {cell: positions[word] for cell, word in words.items()}
    return labels[[places[cell] for cell in cells]] if len(cells) else labels


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
        distinct, _, _, _ = _core.label_columns([[*{word for row in words for word in row}]])
        self.labels = as_labels(distinct)
        self._places = {str(label): place for place, label in enumerate(self.labels.tolist())}

    def first(self, words: Words) -> NDArray[Any]:
        """Return the first label of each row, which must have one."""
        return self.labels[[self._places[row[0]] for row in words]]

    def indicator(self, words: Words) -> sp.csr_array:
        """Return a matrix of ones at the labels of each row, sorted."""
        places = [sorted(self._places[word] for word in dict.fromkeys(row)) for row in words]
        indices = np.array([*itertools.chain.from_iterable(places)], dtype=np.int32)
        indptr = np.cumsum([0, *map(len, places)])
        ones = np.ones(len(indices), np.float32)
        return sp.csr_array((ones, indices, indptr), shape=(len(places), len(self.labels)))
