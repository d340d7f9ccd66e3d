"""Reading a corpus: running text in a file, or lists of words, to word numbers and a vocabulary in one pass."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.compressed import opened

PIECE_BYTES = 1 << 22  # of text read at a time
SENTENCES = 4096  # of lists of words, taken at a time
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
    reader, is_file = _core.TextReader(), isinstance(source, str | os.PathLike)
    with tempfile.TemporaryFile() as file:
        ends = []
        for tokens, some_ends in _number_file(reader, source) if is_file else _number_lists(reader, source):
            file.write(tokens.tobytes())
            ends.append(some_ends)
        words, totals, row, n_found = reader.vocabulary(min_count, dict(known or {}))
        if len(words) < 2:
            share = f"{n_found} of {reader.n_words} distinct words"
            raise ValueError(f"{share} occur at least min_count={min_count} times; it must be two or more")
        names = [_decoded(word, "strict" if is_file else "surrogatepass") for word in words]
        if not (row >= 0).any():
            raise ValueError(f"the text has no word that is known, nor one that occurs min_count={min_count} times")
        file.flush()
        all_ends = np.concatenate(ends)
        sentences = _core.renumber(np.memmap(file, dtype=np.int32, mode="r+"), row, all_ends, LONGEST_SENTENCE)
        tokens = np.memmap(file, dtype=np.int32, mode="r", shape=(int(sentences[-1]),))
    return Corpus(tokens, sentences, names, totals)


def _decoded(word: bytes, errors: str) -> str:
    try:
        return word.decode(errors=errors)
    except UnicodeDecodeError:
        raise ValueError(f"the word {word!r} is not UTF-8; text must be") from None


Numbered = Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]  # numbers of words, and ends of sentences


def _number_file(reader: _core.TextReader, path: Any) -> Numbered:
    with opened(path) as file:
        piece = file.read(PIECE_BYTES)
        yield reader.add(piece.removeprefix(codecs.BOM_UTF8), last=not piece)
        while piece:
            piece = file.read(PIECE_BYTES)
            yield reader.add(piece, last=not piece)


def _number_lists(reader: _core.TextReader, documents: Any) -> Numbered:
    sentences, is_over = iter(documents), False
    while not is_over:
        tokens, ends, is_over = reader.add_lists(sentences, SENTENCES)
        yield tokens, ends
