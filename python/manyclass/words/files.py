"""Files of words: vectors in the two formats of word2vec, pairs of words with human scores, and analogies."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manyclass.compressed import split_words
from manyclass.weights.tensor_file import PathLike, check_regular, replacing

MOST_HEADER = 1000  # characters of the first line, two numbers


def write_word2vec(path: PathLike, words: Sequence[str], vectors: NDArray[np.float32], *, binary: bool) -> None:
    """Write words with their vectors; a ValueError, and no file, for a word that the formats cannot keep."""
    for word in words:
        if split_words(word) != [word]:
            raise ValueError(f"the word {word!r} holds a blank or is empty; the word2vec formats cannot keep it")
    with replacing(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            if binary:
                file.write(word.encode() + b" " + vector.tobytes() + b"\n")
            else:
                file.write(f"{word} {' '.join(map(str, vector))}\n".encode())


def read_word2vec(name: str, *, binary: bool) -> tuple[list[str], NDArray[np.float32]]:
    """Read words with their vectors.

    Raises
    ------
    ValueError
        If the file is not of that format, ends early, is a pipe or a device, or holds a number that is not finite.
    """
    check_regular(name)
    with open(name, "rb") as file:
        header = file.readline(MOST_HEADER).split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise ValueError(f"{name} begins with {header!r}; it must be the numbers of words and dimensions")
        n_words, dim = (int(field) for field in header)
        body = file.read()
    words, vectors = (_from_binary if binary else _from_text)(body, n_words, dim, name)
    if not np.isfinite(vectors).all():
        word = words[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
        raise ValueError(f"{name}: the vector of {word!r} has a number that is not finite")
    return words, vectors


def _check_room(n_bytes: int, body: bytes, name: str) -> None:
    """Let a file ask for no more memory than it fills."""
    if n_bytes > len(body):
        raise ValueError(f"{name} ends early: its first line promises {n_bytes} bytes, and {len(body)} follow")


def _from_text(body: bytes, n_words: int, dim: int, name: str) -> tuple[list[str], NDArray[np.float32]]:
    lines = body.rstrip(b"\n").split(b"\n") if body else []
    if len(lines) < n_words:
        raise ValueError(f"{name} has {len(lines)} words; its first line promises {n_words}")
    _check_room(n_words * dim * 2, body, name)  # a number has a space before it
    words, vectors = [], np.empty((n_words, dim), dtype=np.float32)
    for i, line in enumerate(lines[:n_words]):
        word, *numbers = line.rstrip().decode().split(" ")
        if len(numbers) != dim:
            raise ValueError(f"{name}, line {i + 2}: {len(numbers)} numbers; its first line promises {dim}")
        words.append(word)
        vectors[i] = numbers
    return words, vectors


def _from_binary(body: bytes, n_words: int, dim: int, name: str) -> tuple[list[str], NDArray[np.float32]]:
    _check_room(n_words * dim * 4, body, name)
    words, vectors = [], np.empty((n_words, dim), dtype=np.float32)
    at = 0
    for i in range(n_words):
        end = body.find(b" ", at)
        if end < 0 or end + 1 + 4 * dim > len(body):
            raise ValueError(f"{name} ends in word {i + 1}; its first line promises {n_words} words")
        words.append(body[at:end].lstrip(b"\n").decode())  # word2vec ends rows with a newline, others do not
        vectors[i] = np.frombuffer(body, dtype="<f4", count=dim, offset=end + 1)
        at = end + 1 + 4 * dim
    return words, vectors


Pairs = Sequence[tuple[str, str, float]]


def load_word_pairs(path: str | os.PathLike[str]) -> list[tuple[str, str, float]]:
    """Read word pairs with human scores: WordSim-353, SimLex-999, MEN, Rare Words.

    Parameters
    ----------
    path : str or path-like
        Lines of two words and a number, separated by tabs or blanks; further columns are ignored, and so are lines that
        begin with ``#``.

    Returns
    -------
    list of (str, str, float)
        The pairs.

    Raises
    ------
    ValueError
        If a line is none of these; it names the line.
    """
    pairs = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = split_words(line)
            if not fields or line.startswith("#"):
                continue
            try:
                pairs.append((fields[0], fields[1], float(fields[2])))
            except (IndexError, ValueError):
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: {line.strip()!r} is not two words and a number"
                ) from None
    return pairs


def load_analogies(path: str | os.PathLike[str]) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read analogies "a is to b as c is to d" in the form of word2vec's questions-words.txt.

    Parameters
    ----------
    path : str or path-like
        Lines of four words; a line ``: name`` begins a section.

    Returns
    -------
    dict of str to list of (a, b, c, d)
        The questions of each section, in lower case.

    Raises
    ------
    ValueError
        If a line is neither; it names the line.
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    questions = sections.setdefault("", [])
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(":"):
                questions = sections.setdefault(line[1:].strip(), [])
            elif words := split_words(line.lower()):
                if len(words) != 4:
                    raise ValueError(f"{os.fspath(path)}, line {number}: {line.strip()!r} is not four words")
                questions.append((words[0], words[1], words[2], words[3]))
    return {name: found for name, found in sections.items() if found}
