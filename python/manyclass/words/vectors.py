"""Word vectors under gensim's names: what can be asked of them, also in fewer bits, and files of them.

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

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import pearsonr, spearmanr
from sklearn.exceptions import NotFittedError

from manyclass import _core
from manyclass.checks import check_number
from manyclass.weights.arrays import DTYPES, NO_FLOATS, Codes, Doubles, Dtype, Floats
from manyclass.weights.compression import check_compression
from manyclass.weights.tensor_file import decode_text, encode_text, open_format, reading, warn_of_unread, write_tensors
from manyclass.words.files import Pairs, load_analogies, load_word_pairs, read_word2vec, write_word2vec

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

FORMAT = "manyclass word vectors"
FORMAT_VERSION = 1
HEADER_BYTES = 1024  # the header of a file takes less
N_ANSWERS = 10  # neighbours by default, as in gensim

Key = str | NDArray[np.floating]  # a word, or a vector of one's own
Keys = Key | Iterable[Key | tuple[Key, float]]
Answers = list[tuple[str, float]]


class CodedTable(Codes):
    """Rows in fewer bits that are indexed and measured as an array of float32 is."""

    dtype = np.dtype(np.float32)
    ndim = 2

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_words, dim)."""
        return self.values.shape

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        """Float32 rows, a copy; of a slice a table that shares the codes."""
        if isinstance(rows, slice):
            return CodedTable(self.values[rows], self.scales[rows])
        values = self.values[rows].astype(np.float32)
        with np.errstate(over="ignore"):  # of a training that diverged
            return values if not len(self.scales) else values * self.scales[rows][..., np.newaxis]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows as float32, for what needs an array."""
        return self.plain().astype(dtype or np.float32, copy=False)


def in_core(table: Floats | CodedTable) -> tuple[NDArray[Any], Floats]:
    """Return a table as the core takes it: its numbers, and scales of rows or none."""
    if isinstance(table, CodedTable):
        return np.ascontiguousarray(table.of_core()), np.ascontiguousarray(table.scales)
    return np.ascontiguousarray(table), NO_FLOATS


class WordVectorQueries:
    """What can be asked of anything with words in the order of its rows.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Row of each word.
    vectors_ : ndarray of shape (n_words, dim)
    """

    vocabulary_: dict[str, int]
    vectors_: Floats
    _words: list[str]

    @property
    def key_to_index(self) -> dict[str, int]:
        """Row of each word."""
        return self._fitted().vocabulary_

    @property
    def index_to_key(self) -> list[str]:
        """Word of each row."""
        return self._fitted()._words

    @property
    def vectors(self) -> Floats:
        """The vectors, a row for each word."""
        return self._fitted().vectors_

    @property
    def vector_size(self) -> int:
        """Dimensions of the vectors."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        """Number of words."""
        return len(self.key_to_index)

    def __contains__(self, word: object) -> bool:
        """Whether the vocabulary has a word."""
        return word in self.key_to_index

    def __iter__(self) -> Iterator[str]:
        """Words in the order of rows."""
        return iter(self.key_to_index)

    def __getitem__(self, words: str | Sequence[str]) -> Floats:
        """Give a copy of a word's vector of shape (dim,), or of several words' vectors of shape (n, dim)."""
        if isinstance(words, str) or not isinstance(words, Iterable):
            return self.get_vector(words)
        rows = np.array([self.get_index(word) for word in words], dtype=np.intp)
        return self.vectors[rows]

    def get_index(self, word: str, default: int | None = None) -> int:
        """Row of a word; of an unknown one the default or, without one, a KeyError."""
        if not isinstance(word, str):
            raise TypeError(f"a word is {word!r}; it must be a str. The word of a row is index_to_key[row]")
        row = self.key_to_index.get(word, default)
        if row is None:
            raise KeyError(f"{word!r} is not in the vocabulary of {len(self)} words")
        return row

    def get_vector(self, word: str, norm: bool = False) -> Floats:
        """Give a copy of a word's vector of shape (dim,), with `norm` divided by its norm; zeros stay zeros."""
        vector: Floats = self.vectors[self.get_index(word)].copy()
        return _unit(vector).astype(np.float32) if norm else vector

    def get_mean_vector(
        self,
        keys: Sequence[Key],
        weights: ArrayLike | None = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> Floats:
        """Weighted mean of words' vectors, or of one's own, divided by the sum of the weights' absolute values.

        Words' vectors are divided by their norms first with `pre_normalize`, the mean by its own with `post_normalize`.
        Unknown words are left out, or a KeyError without `ignore_missing`; the mean is 0 if none is known.
        """
        if len(keys) == 0:
            raise ValueError("keys is empty; a mean needs at least one word")
        factors = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
        if factors.shape != (len(keys),):
            raise ValueError(f"weights has shape {factors.shape}; it must be ({len(keys)},), a number for each key")
        known = [isinstance(key, np.ndarray) or not ignore_missing or key in self for key in keys]
        mean = np.zeros(self.vector_size)
        for key, factor in compress(zip(keys, factors, strict=True), known):
            mean += factor * self._vector_of(key, unit=pre_normalize)
        mean /= float(np.abs(factors[known]).sum()) or 1.0
        return (_unit(mean) if post_normalize else mean).astype(np.float32)

    def _vector_of(self, key: Key, *, unit: bool) -> Doubles:
        """Return the vector of a word, or one that is given, in double precision."""
        if isinstance(key, np.ndarray):
            if key.shape != (self.vector_size,):
                raise ValueError(f"a vector has shape {key.shape}; it must be ({self.vector_size},)")
            return key.astype(np.float64)
        vector = self.vectors[self.get_index(key)].astype(np.float64)
        return _unit(vector) if unit else vector

    def _fitted(self) -> Self:
        if "vectors_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} has no vectors yet; call fit first")
        return self

    def most_similar(
        self,
        positive: Keys | None = None,
        negative: Keys | None = None,
        topn: int | None = N_ANSWERS,
        *,
        restrict_vocab: int | None = None,
    ) -> Any:
        """Find the words nearest to a word, or to a sum of words, by the cosine.

        Parameters
        ----------
        positive : str, ndarray of shape (dim,), or list of these
            Words whose unit vectors are added, or vectors of one's own; a pair (word, weight) has a weight in place of
            1. Words are not among the answers.
        negative : str, ndarray of shape (dim,), or list of these
            The same, taken away.
        topn : int or None, default=10
            How many answers, nearest first; None: the cosines of all words, float32 of shape (n_words,).
        restrict_vocab : int or None, default=None
            Among how many first words (of a model trained here, the most frequent ones).
        """
        if topn is not None:
            check_number("topn", topn, low=0, integer=True)
        if restrict_vocab is not None:
            check_number("restrict_vocab", restrict_vocab, low=1, integer=True)
        terms = _weighted("positive", positive, 1.0) + _weighted("negative", negative, -1.0)
        if not terms:
            raise ValueError("positive and negative are empty; one of them must hold a word or a vector")
        query = np.sum([weight * self._vector_of(key, unit=True) for key, weight in terms], axis=0)
        cosines = self._cosines(query, restrict_vocab)
        if topn is None:
            return cosines
        rows = {self.vocabulary_[key] for key, _ in terms if isinstance(key, str)}
        left_out = np.array([row for row in rows if row < len(cosines)], dtype=np.int64)
        return [(self._words[i], float(cosines[i])) for i in _core.nearest_words(cosines, topn, left_out)]

    def similar_by_word(self, word: str, topn: int = N_ANSWERS, restrict_vocab: int | None = None) -> Answers:
        """Find the words nearest to a word; see `most_similar`."""
        return self.most_similar([word], topn=topn, restrict_vocab=restrict_vocab)  # type: ignore[no-any-return]

    def similar_by_vector(
        self, vector: NDArray[np.floating], topn: int = N_ANSWERS, restrict_vocab: int | None = None
    ) -> Answers:
        """Find the words nearest to a vector of shape (dim,); see `most_similar`."""
        vectors = [np.asarray(vector)]
        return self.most_similar(vectors, topn=topn, restrict_vocab=restrict_vocab)  # type: ignore[no-any-return]

    def analogy(self, a: str, b: str, c: str, topn: int = 1) -> Answers:
        """Answer "a is to b as c is to ...": the words nearest to b - a + c, with cosines, nearest first."""
        return self.most_similar([b, c], [a], topn)  # type: ignore[no-any-return]

    def similarity(self, w1: str, w2: str) -> float:
        """Cosine of two words, in [-1, 1]; 0 if a vector is zero."""
        return _cosine(self._vector_of(w1, unit=False), self._vector_of(w2, unit=False))

    def distance(self, w1: str, w2: str) -> float:
        """One minus the cosine of two words."""
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word: Key, other_words: Sequence[str] = ()) -> Floats:
        """One minus the cosine of a word or vector with each of others; without others with all words, itself too."""
        cosines = self._cosines(self._vector_of(word, unit=True))
        rows = [self.get_index(other) for other in other_words]
        return 1 - (cosines[rows] if rows else cosines)

    def n_similarity(self, ws1: Sequence[str], ws2: Sequence[str]) -> float:
        """Cosine of the mean vectors of two lists of words, unknown ones left out as in gensim; 0 if none is known."""
        means = [self.get_mean_vector(words, pre_normalize=False).astype(np.float64) for words in (ws1, ws2)]
        return _cosine(*means)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """Find the word farthest from the mean of all unit vectors; an unknown one, unlike in gensim, is a KeyError."""
        if isinstance(words, str):
            raise TypeError(f"words is {words!r}; it must be a list of words, such as {words.split()!r}")
        mean = self.get_mean_vector(words, ignore_missing=False).astype(np.float64)
        return min(words, key=lambda word: _cosine(self._vector_of(word, unit=False), mean))

    def closer_than(self, key1: str, key2: str) -> list[str]:
        """Words closer to `key1` than `key2` is, in the order of rows; `key1` is not among them."""
        near = self.distances(key1)
        rows = np.flatnonzero(near < near[self.get_index(key2)])
        return [self._words[i] for i in rows if i != self.get_index(key1)]

    def rank(self, key1: str, key2: str) -> int:
        """Place of `key2` among the neighbours of `key1`; the nearest is 1."""
        return len(self.closer_than(key1, key2)) + 1

    def score_similarity(self, pairs: str | os.PathLike[str] | Pairs) -> dict[str, float]:
        """Find "spearman", the correlation of cosines with human scores, of a file or what `load_word_pairs` gives.

        It is of "n_pairs" of known words, NaN for fewer than two; "n_missing" is how many pairs are left out.
        """
        pairs = load_word_pairs(pairs) if isinstance(pairs, str | os.PathLike) else pairs
        rated = [(self.similarity(a, b), score) for a, b, score in pairs if a in self and b in self]
        spearman = float(spearmanr(*np.array(rated).T).statistic) if len(rated) > 1 else np.nan
        return {"spearman": spearman, "n_pairs": len(rated), "n_missing": len(pairs) - len(rated)}

    def evaluate_word_pairs(
        self, pairs: str | os.PathLike[str], *, restrict_vocab: int = 300_000, case_insensitive: bool = True
    ) -> tuple[tuple[float, float], tuple[float, float], float]:
        """Compare cosines with human scores as gensim does: Pearson's and Spearman's correlations, each with its
        p-value, and the percentage of pairs with a word that is not among the first `restrict_vocab`.
        """
        first = self.index_to_key[:restrict_vocab]
        written = str.upper if case_insensitive else str
        known = {written(word): word for word in reversed(first)}  # of several the most frequent one
        scored = [(known.get(written(a)), known.get(written(b)), score) for a, b, score in load_word_pairs(pairs)]
        rated = [(self.similarity(a, b), score) for a, b, score in scored if a is not None and b is not None]
        if len(rated) < 2:
            raise ValueError(f"{os.fspath(pairs)} has {len(rated)} pairs of known words; two are needed")
        tests = (test(*np.array(rated).T) for test in (pearsonr, spearmanr))
        pearson, spearman = ((float(test.statistic), float(test.pvalue)) for test in tests)
        return pearson, spearman, 100 * (1 - len(rated) / len(scored))

    def score_analogies(self, path: str | os.PathLike[str]) -> dict[str, float]:
        """Find "accuracy", of answers that are no word of the question, to "n_questions" of `load_analogies`.

        Questions with unknown words are left out; without any other the accuracy is NaN.
        """
        questions = [q for section in load_analogies(path).values() for q in section if all(w in self for w in q)]
        rows, unit = [[self.vocabulary_[w] for w in q] for q in questions], self.get_normed_vectors()
        right = 0
        for i in range(0, len(rows), 256):
            a, b, c, d = np.array(rows[i : i + 256]).T
            scores = (unit[b] - unit[a] + unit[c]) @ unit.T
            for used in (a, b, c):
                scores[np.arange(len(scores)), used] = -np.inf
            right += int(np.sum(scores.argmax(axis=1) == d))
        return {"accuracy": right / len(rows) if rows else np.nan, "n_questions": len(rows)}

    def save_word2vec(self, path: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Write word2vec's text or binary format, all or nothing, with the same floats; no word may hold a blank."""
        write_word2vec(path, self.index_to_key, np.ascontiguousarray(self.vectors_, dtype="<f4"), binary=binary)

    def save_word2vec_format(self, fname: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Do what `save_word2vec` does, under gensim's name."""
        self.save_word2vec(fname, binary=binary)

    def to_keyed_vectors(self) -> KeyedVectors:
        """Return a copy as gensim's KeyedVectors, of a trained model with each word's "count"; needs gensim."""
        models = importlib.import_module("gensim.models")
        keyed: KeyedVectors = models.KeyedVectors(self.vectors_.shape[1])
        keyed.add_vectors(self.index_to_key, np.ascontiguousarray(self.vectors))
        if (counts := vars(self).get("counts_")) is not None:  # of a trained model
            keyed.allocate_vecattrs(["count"], [counts.dtype.type])
            keyed.expandos["count"][:] = counts
        return keyed

    def get_normed_vectors(self) -> Floats:
        """Every vector divided by its Euclidean norm, of shape (n_words, dim); zeros stay zeros."""
        norms = _core.row_norms(*in_core(self.vectors))
        return np.divide(self.vectors, norms[:, np.newaxis], dtype=np.float32)

    def _cosines(self, query: Doubles, n_first: int | None = None) -> Floats:
        """Cosine of the first words, or of all, with a vector; 0 where one of the two is zero."""
        return _core.cosines(*in_core(self.vectors[:n_first]), query)


def _unit(vector: Doubles | Floats) -> Doubles:
    """Divide by the norm; zeros stay."""
    values = vector.astype(np.float64)
    return np.asarray(values / (np.linalg.norm(values) or 1.0))


def _weighted(name: str, keys: Keys | None, weight: float) -> list[tuple[Key, float]]:
    """Return words and vectors, each with its weight."""
    if keys is None:
        return []
    if isinstance(keys, str | int) or (isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "fiu"):
        keys = [keys]
    terms = [item if isinstance(item, tuple) and len(item) == 2 else (item, weight) for item in keys]
    for key, factor in terms:
        if not isinstance(key, str | np.ndarray):
            raise TypeError(f"{name} holds {key!r}; it must hold words, vectors or pairs (word, weight)")
        check_number(f"the weight of {key!r}", factor)
    return [(key, float(factor)) for key, factor in terms]


def _cosine(x: Doubles, y: Doubles) -> float:
    norm = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / norm) if norm > 0 else 0.0


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
        """Return vectors in fewer bits, and perhaps of fewer words; see `manyclass.words.vectors`.

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
        fit = _most_words(words, vectors, stored_dtype, most)
        if dtype == "auto" and fit < n:
            stored_dtype, fit = "int8", _most_words(words, vectors, "int8", most)
        if fit < 1:
            raise ValueError(f"max_bytes is {most}; not even one word fits as {stored_dtype} beside the file's header")
        n = min(n, fit)
        return WordVectors._from_codes(words[:n], Codes.of(vectors[:n], stored_dtype))

    @classmethod
    def _from_codes(cls, words: Sequence[str], codes: Codes) -> WordVectors:
        word_vectors, table = cls(words, np.zeros((len(words), 0), dtype=np.float32)), codes.values
        word_vectors.vectors_ = table if table.dtype == np.float32 else cast(Any, CodedTable(table, codes.scales))
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
        tensors = {"rows": codes.values} | ({"rows.scales": codes.scales} if len(codes.scales) else {})
        tensors |= encode_text("words", self.index_to_key)
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
            dtype, shape, _ = file.entries.get("rows", (np.dtype(bool), (), 0))
            if dtype.name not in DTYPES or len(shape) != 2:
                raise ValueError(f"'rows' is {dtype.name} of shape {shape}")
            scales = file.array("rows.scales", np.float32, shape[:1]) if dtype.name == "int8" else NO_FLOATS
            words = decode_text(file, "words", shape[0]).tolist()
            if len(set(words)) != len(words):
                raise ValueError("words occur twice")
            codes = Codes(file.array("rows", dtype, shape, mmap=mmap), scales)
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


def _most_words(words: Sequence[str], vectors: Floats, dtype: Dtype, max_bytes: float) -> int:
    """How many of the first words a file of at most `max_bytes` can hold."""
    lengths = np.array([len(word.encode("utf-8", "surrogatepass")) for word in words], dtype=np.int64)
    row_bytes = vectors.shape[1] * np.dtype(dtype).itemsize + 4 * (dtype == "int8") + 8  # 8: where a word begins
    return int(np.searchsorted(np.cumsum(lengths + row_bytes) + 8 + HEADER_BYTES, max_bytes, side="right"))
