"""Vectors that have names: of words, from word2vec's files, or of a model's classes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.classifiers.saving import load
from manyclass.classifiers.several_labels import class_vectors
from manyclass.cli.sources import is_safetensors
from manyclass.weights.tensor_file import open_tensors
from manyclass.words.vectors import FORMAT, WordVectors

# Rows at a time, so that lengths of the rows of a large W take no second one.
BLOCK = 4096
BINARY_HEAD = 1 << 16  # bytes by which word2vec's two forms are told apart


@dataclass(frozen=True)
class NamedVectors:
    """Vectors with names.

    Attributes
    ----------
    names : sequence of str
        Distinct.
    vectors : ndarray of shape (n, dim), float32
    what : str
        What the names are of, in words: "word" or "class".
    path : str
    """

    names: Sequence[str]
    vectors: NDArray[np.float32]
    what: str
    path: str

    def row(self, name: str) -> int:
        """Return the row of a name.

        Raises
        ------
        ValueError
            If there is none, with names that look like it.
        """
        try:
            return self.names.index(name)
        except ValueError:
            near = difflib.get_close_matches(name, self.names[:100_000], n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"{self.path} has no {self.what} {name!r} among its {len(self.names)}{hint}") from None

    def nearest(self, row: int, k: int) -> list[tuple[str, float]]:
        """Return the k names, this one left out, whose vectors have the largest cosine with that of a row."""
        query = np.asarray(self.vectors[row], dtype=np.float64)
        cosines = np.zeros(len(self.names))
        for first in range(0, len(cosines), BLOCK):
            block = np.asarray(self.vectors[first : first + BLOCK], dtype=np.float64)
            lengths = np.linalg.norm(block, axis=1) * np.linalg.norm(query)
            cosines[first : first + BLOCK] = block @ query / np.where(lengths > 0, lengths, 1)
        cosines[row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - 1)]
        return [(self.names[at], float(cosines[at])) for at in best]


def named_vectors(path: str) -> NamedVectors:
    """Read word vectors, or the vectors of a model's classes.

    Raises
    ------
    ValueError
        If the file is neither, or its model has no such vectors.
    OSError
        If it cannot be read.
    """
    if is_safetensors(path) and not is_small(path):
        model = load(path, mmap=True)
        try:
            return NamedVectors(model.classes_.astype(str).tolist(), class_vectors(model), "class", path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    words = word_vectors(path)
    return NamedVectors(list(words.vocabulary_), words.vectors_, "word", path)


def word_vectors(path: str) -> WordVectors:
    """Read word2vec's text or binary form, or what `WordVectors.save` wrote, whichever it is.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if is_safetensors(path) and is_small(path):
        return WordVectors.load(path, mmap=True)
    return WordVectors.load_word2vec(path, binary=is_binary_word2vec(path))


def is_small(path: str) -> bool:
    """Whether a safetensors file has word vectors, as `WordVectors.save` writes them."""
    return open_tensors(path).metadata.get("format") == FORMAT


def is_word2vec(path: str) -> bool:
    """Whether the first line is that of word vectors: how many there are, and how long."""
    with open(path, "rb") as file:
        first = file.readline(64)
    fields = first.split()
    return first.endswith(b"\n") and len(fields) == 2 and all(field.isdigit() for field in fields)


def is_binary_word2vec(path: str) -> bool:
    """Whether the numbers behind the first word are those of a machine, and not written out."""
    with open(path, "rb") as file:
        fields = file.readline(64).split()
        dim = int(fields[1]) if len(fields) == 2 and fields[1].isdigit() else 0
        numbers = file.read(BINARY_HEAD).partition(b"\n")[0].split()[1:]
    try:
        return not (len(numbers) == dim and [float(number) for number in numbers])
    except ValueError:
        return True


def as_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as lines with tabs."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)
