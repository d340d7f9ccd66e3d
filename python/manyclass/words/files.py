"""Files of words: vectors in the two formats of word2vec, pairs of words with human scores, and analogies."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.compressed import shown_path, split_words
from manyclass.weights.tensor_file import PathLike, check_regular, replacing

MOST_HEADER = 1000  # characters of the first line, two numbers
MOST_PROMISED = 2**62  # of words or dimensions: larger numbers are refused as this one is


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
            line = b" ".join(header).decode(errors="replace")
            raise ValueError(f"{name} begins with {line!r:.80}; it must be the numbers of words and dimensions")
        n_words, dim = (min(int(field), MOST_PROMISED) for field in header)
        body = file.read()
    words, vectors = _core.word_rows(body, n_words, dim, shown_path(name), binary)
    return [word.decode() for word in words], vectors


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
                place = f"{os.fspath(path)}, line {number}"
                raise ValueError(f"{place}: {line.strip()!r} is not two words and a number") from None
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
    return {name: questions_of_section for name, questions_of_section in sections.items() if questions_of_section}
