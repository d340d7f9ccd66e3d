"""Reading a corpus: running text in a file, or lists of words, to word numbers and a vocabulary in one pass."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.compressed import opened

PIECE_BYTES = 1 << 22  # of text read at a time
LONGEST_SENTENCE = 10_000  # words; a longer line is cut, so that threads can share a text of one line

NO_PAIRS = (
    "the corpus has no pair of words within a window: every sentence has one word left; "
    "sample=0 keeps the frequent words, which are nearly all of a small text, min_count=1 the rare ones"
)

Documents = Iterable[Iterable[str]]


@dataclass
class Corpus:
    """A text as numbers of the words of its vocabulary.

    Attributes
    ----------
    tokens : ndarray of int32
        The words that are in the vocabulary, in order; mapped from a temporary file that has no name.
    sentences : ndarray of int64
        Sentence s is tokens[sentences[s]:sentences[s + 1]].
    words : list of str
        The vocabulary, most frequent first; equally frequent ones in alphabetical order.
    counts : ndarray of int64
        How often each occurs, here and in texts before it.
    """

    tokens: NDArray[np.int32]
    sentences: NDArray[np.int64]
    words: list[str]
    counts: NDArray[np.int64]


def read_corpus(
    source: str | os.PathLike[str] | Documents, min_count: int, known: Mapping[str, int] | None = None
) -> Corpus:
    """Read a corpus; words seen fewer than `min_count` times are left out, but for those `known` with their counts.

    Known words stay in the vocabulary, and their counts are added up. In one pass, words are numbered as they first
    appear, and renumbered when their counts are known. Memory holds the words and the ends of sentences; the text
    itself passes through a temporary file.

    Raises
    ------
    ValueError
        If fewer than two words are frequent enough, a word is not UTF-8, or a compressed file is not complete.
    TypeError
        If `source` holds something else than lists of words.
    """
    with tempfile.TemporaryFile() as file:
        if isinstance(source, str | os.PathLike):
            ends, words, counts = _number_file(source, file)
        else:
            ends, words, counts = _number_lists(source, file)
        names, totals, row = _vocabulary(words, counts, min_count, known or {})
        if not (row >= 0).any():
            raise ValueError(f"the text has no word that is known, nor one that occurs min_count={min_count} times")
        file.flush()
        sentences = _core.renumber(np.memmap(file, dtype=np.int32, mode="r+"), row, ends, LONGEST_SENTENCE)
        tokens = np.memmap(file, dtype=np.int32, mode="r", shape=(int(sentences[-1]),))
    return Corpus(tokens, sentences, names, totals)


def _vocabulary(
    words: Sequence[bytes | str], counts: NDArray[np.int64], min_count: int, known: Mapping[str, int]
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32]]:
    """The vocabulary, its counts, and the row in it of each word of a text, -1 where it has none."""
    found: dict[str, int] = {}  # the names of words that stay, with their numbers in the text
    for i, n in enumerate(counts.tolist()):
        if n >= min_count or known:
            name = _decoded(words[i])
            if n >= min_count or name in known:
                found[name] = i
    if len(found.keys() | known.keys()) < 2:
        raise ValueError(
            f"{len(found)} of {len(counts)} distinct words occur at least min_count={min_count} times; it must be two "
            "or more"
        )
    totals = {**known, **{name: known.get(name, 0) + int(counts[i]) for name, i in found.items()}}
    names = sorted(totals, key=lambda name: (-totals[name], name))
    row = np.full(len(counts), -1, dtype=np.int32)
    for place, name in enumerate(names):
        if name in found:
            row[found[name]] = place
    return names, np.array([totals[name] for name in names], dtype=np.int64), row


def _decoded(word: bytes | str) -> str:
    if isinstance(word, str):
        return word
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the word {word!r} is not UTF-8; text must be") from None


Numbered = tuple[NDArray[np.int64], Sequence[bytes | str], NDArray[np.int64]]  # ends of sentences, words, counts


def _number_file(path: str | os.PathLike[str], out: IO[bytes]) -> Numbered:
    reader = _core.TextReader()
    ends = []
    for piece in _pieces(path):
        tokens, piece_ends = reader.add(piece, last=not piece)
        out.write(tokens.tobytes())
        ends.append(piece_ends)
    return np.concatenate(ends), reader.words(), reader.counts()


def _pieces(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The text of a file, and then an empty piece."""
    with opened(path) as file:
        piece = file.read(PIECE_BYTES)
        yield piece.removeprefix(codecs.BOM_UTF8)
        while piece:
            piece = file.read(PIECE_BYTES)
            yield piece


def _number_lists(documents: Documents, out: IO[bytes]) -> Numbered:
    index: dict[str, int] = {}
    counts: Counter[int] = Counter()
    lengths: list[int] = []
    for sentence in documents:
        if isinstance(sentence, str | bytes):
            raise TypeError(f"a sentence is {sentence!r}; it must be a list of words, such as {sentence.split()!r}")
        words = list(sentence)
        for word in words:
            if not isinstance(word, str):
                raise TypeError(f"a word is {word!r}; it must be a str")
        numbers = [index.setdefault(word, len(index)) for word in words]
        if numbers:
            counts.update(numbers)
            out.write(np.array(numbers, dtype=np.int32).tobytes())
            lengths.append(len(numbers))
    found = np.array([counts[number] for number in range(len(index))], dtype=np.int64)
    return np.cumsum(lengths, dtype=np.int64), list(index), found
