"""Word vectors that were read or made elsewhere: the file formats of word2vec, and gensim's objects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.weights.arrays import NO_FLOATS
from manyclass.weights.codes import Codes
from manyclass.weights.tensor_file import check_regular
from manyclass.words.queries import KeyedVectors, WordVectorQueries
from manyclass.words.small import CodedTable, compressed, load_words, save_words

MOST_HEADER = 1000  # characters of the first line, two numbers


class WordVectors(WordVectorQueries):
    """Word vectors that were read or made elsewhere.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : array-like of shape (n_words, dim)
        Their vectors; kept as float32.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Row of each word, in the order of rows.
    vectors_ : ndarray of shape (n_words, dim), float32
        The vectors; of compressed ones a table whose rows are float32, and which `numpy.asarray` makes an array.

    Examples
    --------
    >>> from manyclass import WordVectors
    >>> vectors = WordVectors(["ant", "bee", "cow"], [[1, 0], [1, 0.1], [0, 1]])
    >>> vectors.most_similar("ant", topn=1)[0][0]
    'bee'
    >>> "cow" in vectors, len(vectors), vectors[["cow", "ant"]].shape
    (True, 3, (2, 2))
    """

    def __init__(self, words: Sequence[str], vectors: ArrayLike) -> None:
        self.vectors_ = np.asarray(vectors, dtype=np.float32)
        self.vocabulary_ = {word: row for row, word in enumerate(words)}
        if self.vectors_.ndim != 2 or len(self.vectors_) != len(words):
            raise ValueError(f"vectors have shape {self.vectors_.shape}; it must be ({len(words)}, dim)")
        if len(self.vocabulary_) != len(words):
            raise ValueError(f"{len(words) - len(self.vocabulary_)} words occur twice; they must be distinct")

    @classmethod
    def load_word2vec(cls, path: str | os.PathLike[str], *, binary: bool | None = None) -> WordVectors:
        """Read word2vec's text or binary format.

        Parameters
        ----------
        path : path
            The file.
        binary : bool, optional
            Which of the two it is; None: binary if its name ends in ``.bin``.

        Returns
        -------
        WordVectors
            Words in the order of the file.

        Raises
        ------
        ValueError
            If the file is not of that format, ends early, is a pipe or a device, or holds a number that is not finite;
            the message names the file.
        """
        name = os.fspath(path)
        if binary is None:
            binary = name.endswith(".bin")
        check_regular(name)
        with open(path, "rb") as file:
            header = file.readline(MOST_HEADER).split()
            if len(header) != 2 or not all(field.isdigit() for field in header):
                raise ValueError(f"{name} begins with {header!r}; it must be the numbers of words and dimensions")
            n_words, dim = (int(field) for field in header)
            body = file.read()
        try:
            words, vectors = (_from_binary if binary else _from_text)(body, n_words, dim, name)
            made = cls(words, vectors)
        except ValueError as error:
            raise error if str(error).startswith(name) else ValueError(f"{name}: {error}") from error
        if not np.isfinite(vectors).all():
            word = words[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
            raise ValueError(f"{name}: the vector of {word!r} has a number that is not finite")
        return made

    def compress(
        self,
        dtype: Literal["auto", "float32", "float16", "int8"] = "auto",
        *,
        prune: float = 0.0,
        max_bytes: int | str | None = None,
    ) -> WordVectors:
        """Return vectors in fewer bits, and perhaps of fewer words; see `help(manyclass.words.small)`.

        Parameters
        ----------
        dtype : {"auto", "float32", "float16", "int8"}, default="auto"
            "auto" is "float16", or with `max_bytes` the first of float16, int8 and int8 of the first words that fits.
        prune : float in [0, 1[, default=0.0
            Share of the words to drop, the last ones: the rarest where they are sorted by frequency.
        max_bytes : int, or str such as "10MB" or "1GiB", default=None
            Most bytes of the file that `save` then writes.

        Raises
        ------
        ValueError
            If an argument cannot be, not one word fits, or a number is too large for float16.
        """
        if isinstance(self.vectors_, CodedTable):
            raise ValueError("these vectors are compressed; compress those that they were made of")
        return WordVectors._of_codes(*compressed(self.index_to_key, self.vectors_, dtype, prune, max_bytes))

    @classmethod
    def _of_codes(cls, words: Sequence[str], codes: Codes) -> WordVectors:
        made = cls(words, np.zeros((len(words), 0), dtype=np.float32))
        plain = codes.values.dtype == np.float32
        made.vectors_ = codes.values if plain else CodedTable(codes)  # type: ignore[assignment]
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `WordVectors.load` that keeps the type of the numbers, all or nothing.

        Parameters
        ----------
        path : path
            The file.
        """
        table: Any = self.vectors_
        codes = table.codes if isinstance(table, CodedTable) else Codes(np.ascontiguousarray(table), NO_FLOATS)
        save_words(path, self.index_to_key, codes)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> WordVectors:
        """Read what `save` has written.

        Parameters
        ----------
        path : path
            The file.
        mmap : bool, default=False
            Map the vectors instead of reading them.

        Returns
        -------
        WordVectors
            The same words and numbers.

        Raises
        ------
        ValueError
            If the file is of another kind, damaged, or of a newer format; the message names it.
        """
        return cls._of_codes(*load_words(path, mmap))

    @classmethod
    def from_keyed_vectors(cls, keyed: KeyedVectors) -> WordVectors:
        """Take over gensim's KeyedVectors.

        Parameters
        ----------
        keyed : gensim.models.KeyedVectors
            The vectors.

        Returns
        -------
        WordVectors
            The same words in the same order.
        """
        return cls(list(keyed.index_to_key), keyed.vectors)


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
