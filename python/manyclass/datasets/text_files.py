"""Files with a text and its labels on each line: what their lines say, and their rows in parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.compressed import LABEL, opened, text_lines
from manyclass.labels import as_labels

LINES = ("text", "fasttext")  # the forms
ROWS = 16_384  # texts that are held at once, before rows of numbers are made of them
FEW_TEXTS = 20  # by which nothing is said of the order of texts and labels


def texts_and_labels(
    lines: Sequence[str], form: str, separator: str | None, name: str
) -> tuple[list[str], list[list[str]]]:
    """Return the text of each line, and its labels.

    A line of "text" has them behind its last tab, with a separator between two, a comma if it is None; in one of
    "fasttext" they are the words that begin with `__label__`, ASCII's blanks being between words.

    Raises
    ------
    ValueError
        If labels and texts have changed places: what stands as labels is another one in each row and longer than what
        stands as texts, of which there are half as many or fewer. Nothing could be learnt of such rows.
    """
    if form == "fasttext":
        return _core.marked_texts(lines, LABEL)
    texts, found, swapped = _core.tabbed_texts(lines, separator or ",", FEW_TEXTS)
    if swapped:
        n_rows, n_texts, n_labels = swapped
        raise ValueError(
            f"{name}: {n_rows} rows have {n_texts} texts and {n_labels} labels, which have more words; a line is "
            "`text<TAB>label`, and it seems that labels stand before the texts"
        )
    return texts, found


@dataclass(frozen=True)
class TextFiles:
    """Files of a form, whose rows without a label are left out.

    Attributes
    ----------
    files : sequence of Path
    form : {"text", "fasttext"}
    separator : str or None
        Between the labels of a line of "text".
    all_labels : bool
        Whether all labels of a row count, or the first one alone.
    labels : ndarray of shape (n_labels,)
        All of them, sorted: integers where all are, else str.
    """

    files: Sequence[Path]
    form: str
    separator: str | None
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
        given = cls(files, form, separator, all_labels, np.zeros(0))
        found = {label for _, own in given._read(ROWS) for labels in own for label in labels}
        if not found:
            raise ValueError(f"{files[0]}: no row has a label")
        distinct, _, _, _ = _core.label_columns([[*found]])
        return cls(files, form, separator, all_labels, as_labels(distinct))

    @property
    def n_labels(self) -> int | None:
        """Columns of Y; None where y has names."""
        return len(self.labels) if self.all_labels else None

    def blocks(self, size: int) -> Iterator[tuple[NDArray[Any], Any]]:
        """Yield at most `size` rows at once: texts, and y or Y."""
        column = {str(label): at for at, label in enumerate(self.labels.tolist())}
        for texts, own in self._read(min(size, ROWS)):
            X = np.array(texts, dtype=object)
            if not self.all_labels:
                yield X, self.labels[[column[label] for (label,) in own]]
                continue
            at = [sorted(column[label] for label in dict.fromkeys(labels)) for labels in own]
            indices = np.array([*itertools.chain.from_iterable(at)], dtype=np.int32)
            indptr = np.cumsum([0, *map(len, at)])
            shape = len(own), len(self.labels)
            yield X, sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=shape)

    def _read(self, size: int) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Yield texts that have a label, and the labels that count, of at most `size` lines at once."""
        for file in self.files:
            with opened(file) as raw:
                lines = (line.removesuffix("\n").removesuffix("\r") for line in text_lines(raw, str(file)))
                while block := list(itertools.islice(lines, size)):
                    texts, found = texts_and_labels(block, self.form, self.separator, str(file))
                    counted = found if self.all_labels else [labels[:1] for labels in found]
                    kept = [(text, labels) for text, labels in zip(texts, counted, strict=True) if labels]
                    if kept:
                        yield [text for text, _ in kept], [labels for _, labels in kept]
