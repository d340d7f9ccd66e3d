"""Vectors that have names: of words, from the files of word2vec and of `WordVectors.save`, or of a model's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyclass.checks import did_you_mean
from manyclass.classifiers.predictions import class_vectors
from manyclass.classifiers.saving import load_classifier
from manyclass.cli.data import file_format
from manyclass.datasets.inputs import is_safetensors
from manyclass.words.vectors import FORMAT, WordVectors

BINARY_HEAD = 1 << 16  # bytes by which word2vec's two forms are told apart
N_SEARCHED = 100_000  # names among which one like a name that is not there is looked for


def holds_words(path: str) -> bool:
    """Whether a file looks like one of word vectors."""
    return file_format(path) == FORMAT or is_word2vec(path)


def named_vectors(path: str) -> WordVectors:
    """Read word vectors, or the vectors of a model's classes by the names of the classes.

    Raises
    ------
    ValueError
        If the file is neither, or its model has no such vectors.
    OSError
        If it cannot be read.
    """
    if not is_safetensors(path) or holds_words(path):
        return word_vectors(path)
    model = load_classifier(path, mmap=True)
    try:
        return WordVectors(model.classes_.astype(str).tolist(), class_vectors(model))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def word_vectors(path: str) -> WordVectors:
    """Read word2vec's text or binary form, or what `WordVectors.save` wrote, whichever it is.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if is_safetensors(path):
        return WordVectors.load(path, mmap=True)
    return WordVectors.load_word2vec(path, binary=is_binary_word2vec(path))


def check_known(vectors: WordVectors, names: Sequence[str], path: str) -> None:
    """Raise ValueError for a name that has no vector, with one that looks like it."""
    unit = "word" if holds_words(path) else "class"
    for name in names:
        if name not in vectors:
            hint = did_you_mean(name, vectors.index_to_key[:N_SEARCHED])
            raise ValueError(f"{path} has no {unit} {name!r} among its {len(vectors)}{hint}")


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
    """Return rows as lines with tabs."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)
