"""Files with a text and its labels on each line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from manyclass import _core
from manyclass.compressed import LABEL
from manyclass.datasets.inputs import Input
from manyclass.datasets.label_words import Words

ROWS = 16_384  # texts that are held at once, before rows of numbers are made of them
FEW_TEXTS = 20  # by which nothing is said of the order of texts and labels


@dataclass(frozen=True)
class TextFiles:
    """Inputs of a form.

    Attributes
    ----------
    inputs : sequence of Input
    form : {"text", "fasttext"}
        A line of "text" has its labels behind its last tab; in one of "fasttext" they are the words that begin with
        `__label__`, ASCII's blanks being between words.
    separator : str
        Between the labels of a line of "text".
    """

    inputs: Sequence[Input]
    form: str
    separator: str

    n_features = n_labels = n_rows = None  # a vectorizer makes the first, and nothing has counted the others

    def blocks(self, size: int) -> Iterator[tuple[list[str], Words]]:
        """Yield the texts and the labels of at most `size` lines at once.

        Raises
        ------
        ValueError
            If an input is not UTF-8, or labels and texts have changed places: what stands as labels is another one in
            each row and longer than what stands as texts, of which there are half as many or fewer. Nothing could be
            learnt of such rows.
        """
        yield [], []
        for source in self.inputs:
            lines = source.lines()
            while block := list(itertools.islice(lines, min(size, ROWS))):
                yield self._texts(block, source.name)

    def _texts(self, lines: list[str], name: str) -> tuple[list[str], Words]:
        if self.form == "fasttext":
            return _core.marked_texts(lines, LABEL)
        texts, words, swapped = _core.tabbed_texts(lines, self.separator, FEW_TEXTS)
        if swapped:
            n_rows, n_texts, n_labels = swapped
            raise ValueError(
                f"{name}: {n_rows} rows have {n_texts} texts and {n_labels} labels, which have more words; a line is "
                "`text<TAB>label`, and it seems that labels stand before the texts"
            )
        return texts, words
