"""Text files of svmlight's form: rows `label j:v j:v ...` whose labels are any words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.compressed import LONGEST_LINE
from manyclass.datasets.inputs import Input, Layout
from manyclass.datasets.label_words import Words
from manyclass.datasets.xmc import BLOCK, BYTE_ORDER_MARK, block_reader, matrices_from

MOST = int(np.iinfo(np.int32).max)


@dataclass(frozen=True)
class SvmlightFiles:
    """Inputs with the same columns, whose rows are read a block of text at a time.

    The core reads the features. It sees a 0 in the place of each label, so that lines and columns of its messages are
    those of the file.

    Attributes
    ----------
    inputs : sequence of Input
    layout : Layout
        With the number of features, and whether the first one has number 0.
    """

    inputs: Sequence[Input]
    layout: Layout

    form = "svmlight"
    n_labels = n_rows = None  # neither is known before all rows are read

    @classmethod
    def of(
        cls, inputs: Sequence[Input], layout: Layout, numbered: Iterable[tuple[sp.csr_array, Words]] | None = None
    ) -> SvmlightFiles:
        """Find the number of features and where they begin by all rows, unless the layout tells both.

        `numbered` are these rows where they have been read already.
        """
        if layout.n_features is not None and layout.zero_based is not None:
            return cls(inputs, layout)
        numbered = cls(inputs, layout)._numbered() if numbered is None else numbered
        ends = [(int(X.indices.min(initial=MOST)), int(X.indices.max(initial=-1))) for X, _ in numbered]
        if not ends:
            raise ValueError(f"{inputs[0].name}: the file has no rows")
        lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
        zero_based = lowest == 0 if layout.zero_based is None else layout.zero_based
        n_features = max(0, highest + zero_based) if layout.n_features is None else layout.n_features
        if highest + zero_based > n_features:
            raise ValueError(f"{inputs[0].name}: feature {highest} is outside [{1 - zero_based}, {highest})")
        return cls(inputs, replace(layout, zero_based=zero_based, n_features=n_features))

    @classmethod
    def read(cls, source: Input, layout: Layout) -> tuple[SvmlightFiles, list[tuple[sp.csr_array, Words]]]:
        """Read all rows of an input once; return the input with its layout, and blocks of its rows."""
        numbered = list(cls([source], layout)._numbered())
        files = cls.of([source], layout, numbered)
        return files, [(_shifted(X, files.layout, source.name), words) for X, words in numbered]

    @property
    def n_features(self) -> int:
        """The number of features."""
        assert self.layout.n_features is not None
        return self.layout.n_features

    def blocks(self, size: int) -> Iterator[tuple[sp.csr_array, Words]]:
        """Yield the rows of all inputs, as many at once as a block of text has; `size` is for other forms."""
        for X, words in self._numbered():
            yield _shifted(X, self.layout, self.inputs[0].name), words

    def _numbered(self) -> Iterator[tuple[sp.csr_array, Words]]:
        """Yield the rows of all inputs, a feature having the column of its number."""
        n_features = self.layout.n_features
        n_columns = None if n_features is None else n_features + (self.layout.zero_based is not True)
        layout = replace(self.layout, header=False, zero_based=True, n_features=n_columns, n_labels=None)
        for source in self.inputs:
            reader, n_lines = block_reader(source, layout), 0
            for text in _whole_lines(source):
                letters = np.frombuffer(bytearray(text), np.uint8)
                words = _take_labels(letters, source.name, n_lines)
                X, _ = matrices_from(reader.add(letters.tobytes()))
                n_lines += text.count(b"\n")
                if words:
                    yield X, words


def _whole_lines(source: Input) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines."""
    with source.bounded() as file:
        mark, rest, n_lines = BYTE_ORDER_MARK, b"", 0
        while piece := file.read(BLOCK):
            text, mark = (rest + piece).removeprefix(mark), b""
            end = text.rfind(b"\n") + 1
            n_lines += text.count(b"\n")
            if len(text) - end > LONGEST_LINE:
                raise ValueError(f"{source.name}: a line behind line {n_lines} is longer than {LONGEST_LINE} bytes")
            if end:
                yield text[:end]
            rest = text[end:]
        if rest:
            yield rest + b"\n"


def _take_labels(letters: Any, name: str, n_lines: int) -> Words:
    """Return the labels of a block of text behind `n_lines` lines, and write 0 in their places."""
    try:
        return _core.take_svmlight_labels(letters, name)
    except ValueError as error:
        line, _, message = str(error).removeprefix(f"{name}:").partition(":")
        raise ValueError(f"{name}:{int(line) + n_lines}:{message}") from error


def _shifted(X: sp.csr_array, layout: Layout, name: str) -> sp.csr_array:
    """Return rows whose first feature has column 0."""
    if not layout.zero_based and X.indices.min(initial=1) == 0:
        raise ValueError(f"{name}: it has the feature 0; the first one of svmlight's form has number 1")
    shape = X.shape[0], layout.n_features or 0
    return sp.csr_array((X.data, X.indices - (not layout.zero_based), X.indptr), shape=shape)
