"""Questions with which word vectors are scored: pairs of words with human scores, and analogies."""

from __future__ import annotations

import os
from collections.abc import Sequence

from manyclass.compressed import split_words

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
