"""Word vectors that were read or made elsewhere, also in fewer bits, and files of them.

``vectors.compress(dtype="auto", *, prune=0.0, max_bytes=None)`` returns `WordVectors` that answer the same questions
from float16, or from int8 with a float32 scale a word; `prune` is the share of the words that is dropped, the last
ones, which are the rarest of vectors that are sorted by frequency, as files of word vectors and those of `SkipGram` are
(``WordVectors.from_keyed_vectors(model)`` takes over the latter). `max_bytes` is the most that the file of `save` may
take: float16, then int8, then int8 with as many of the first words as fit. ``vectors[word]`` is float32; cosines are
computed from the codes.

``save(path)`` and ``WordVectors.load(path, mmap=False)`` keep types and bytes: a safetensors file with the words as
text ("words.text", "words.offsets") and the rows ("rows", with "rows.scales" for int8).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.weights.arrays import DTYPES, NO_FLOATS, Codes, Dtype, Floats
from manyclass.weights.compression import check_compression
from manyclass.weights.tensor_file import (
    TensorFile,
    checked,
    decode_text,
    encode_text,
    finite,
    open_format,
    reading,
    warn_of_unread,
    write_tensors,
)
from manyclass.words.files import read_word2vec
from manyclass.words.queries import CodedTable, WordVectorQueries

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

FORMAT = "manyclass word vectors"
FORMAT_VERSION = 1
HEADER_BYTES = 1024  # the header of a file takes less


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
        self._words = list(words)
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
        try:
            return cls(*read_word2vec(name, binary=name.endswith(".bin") if binary is None else binary))
        except ValueError as error:
            raise error if str(error).startswith(name) else ValueError(f"{name}: {error}") from error

    @classmethod
    def load_word2vec_format(cls, fname: str | os.PathLike[str], *, binary: bool = False) -> WordVectors:
        """Return what `load_word2vec` does, under gensim's name.

        Parameters
        ----------
        fname : path
            The file.
        binary : bool, default=False
            Which of word2vec's two formats it has.
        """
        return cls.load_word2vec(fname, binary=binary)

    def compress(
        self,
        dtype: Literal["auto", "float32", "float16", "int8"] = "auto",
        *,
        prune: float = 0.0,
        max_bytes: int | str | None = None,
    ) -> WordVectors:
        """Return vectors in fewer bits, and perhaps of fewer words; see `help(manyclass.words.vectors)`.

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
        words, vectors = self.index_to_key, self.vectors_
        most = check_compression(dtype, prune, max_bytes)
        n = max(1, len(words) - int(prune * len(words)))
        stored_dtype: Dtype = "float16" if dtype == "auto" else dtype
        if most is not None:
            fit = _most_words(words, vectors, stored_dtype, most)
            if dtype == "auto" and fit < n:
                stored_dtype, fit = "int8", _most_words(words, vectors, "int8", most)
            if fit < 1:
                raise ValueError(
                    f"max_bytes is {most}; not even one word fits as {stored_dtype} beside the header of the file"
                )
            n = min(n, fit)
        return WordVectors._from_codes(words[:n], Codes.of(vectors[:n], stored_dtype))

    @classmethod
    def _from_codes(cls, words: Sequence[str], codes: Codes) -> WordVectors:
        word_vectors = cls(words, np.zeros((len(words), 0), dtype=np.float32))
        plain = codes.values.dtype == np.float32
        coded: Any = codes.values if plain else CodedTable(codes.values, codes.scales)
        word_vectors.vectors_ = coded
        return word_vectors

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `WordVectors.load` that keeps the type of the numbers, all or nothing.

        Parameters
        ----------
        path : path
            The file.
        """
        table: Any = self.vectors_
        codes = table if isinstance(table, CodedTable) else Codes(np.ascontiguousarray(table), NO_FLOATS)
        tensors: dict[str, NDArray[Any]] = {"rows": codes.values}
        if len(codes.scales):
            tensors["rows.scales"] = codes.scales
        tensors |= {f"words.{part}": array for part, array in encode_text(self.index_to_key).items()}
        tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize))  # each is aligned
        write_tensors(path, tensors, {"format": FORMAT, "format_version": str(FORMAT_VERSION)})

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
        file = open_format(path, FORMAT, FORMAT_VERSION, "a file of word vectors")
        with reading(file):
            words, codes = _read(file, mmap)
        warn_of_unread(file)
        return cls._from_codes(words, codes)

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


def _most_words(words: Sequence[str], vectors: Floats, dtype: Dtype, max_bytes: int) -> int:
    """How many of the first words a file of at most `max_bytes` can hold."""
    lengths = np.array([len(word.encode("utf-8", "surrogatepass")) for word in words], dtype=np.int64)
    row_bytes = vectors.shape[1] * np.dtype(dtype).itemsize + 4 * (dtype == "int8") + 8  # 8: where a word begins
    return int(np.searchsorted(np.cumsum(lengths + row_bytes) + 8 + HEADER_BYTES, max_bytes, side="right"))


def _read(file: TensorFile, mmap: bool) -> tuple[list[str], Codes]:
    if "rows" not in file.entries:
        raise ValueError("it has no array 'rows'")
    dtype, shape, _ = file.entries["rows"]
    if dtype.name not in DTYPES or len(shape) != 2:
        raise ValueError(f"'rows' is {dtype.name} of shape {shape}")
    scales = NO_FLOATS
    if dtype.name == "int8":
        scales = finite(file, "rows.scales", file.read(checked(file, "rows.scales", np.float32, shape[:1])))
    words = decode_text(file, "words", shape[0]).tolist()
    if len(set(words)) != len(words):
        raise ValueError("words occur twice")
    rows = file.map("rows") if mmap else finite(file, "rows", file.read("rows"))
    return words, Codes(rows, scales)
