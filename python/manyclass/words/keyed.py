"""Word vectors as a table with a word for each row, under gensim's names: `model["king"]`, `"king" in model`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from manyclass.weights.arrays import Doubles, Floats

N_CLOSE = 3  # words that the error for an unknown one names
N_SEARCHED = 50_000  # words among which they are looked for: a fraction of a second

Key = str | NDArray[np.floating]  # a word, or a vector of one's own


class UnknownWordError(KeyError):
    """A word that is not in the vocabulary.

    Close words are looked for when the message is asked for, so that code which catches the error word by word is fast.
    """

    def __init__(self, word: str, vocabulary: dict[str, int]) -> None:
        super().__init__(word)
        self.word = word
        self._vocabulary = vocabulary

    def __str__(self) -> str:
        close = close_words(self.word, self._vocabulary)
        hint = f"; did you mean {', '.join(map(repr, close))}?" if close else ""
        return f"{self.word!r} is not in the vocabulary of {len(self._vocabulary)} words{hint}"

    def __reduce__(self) -> tuple[type[KeyError], tuple[str]]:
        """A plain KeyError with the same text, because a vocabulary is too large to travel between processes."""
        return KeyError, (str(self),)


def close_words(word: str, vocabulary: Iterable[str]) -> list[str]:
    """Return up to three words that are nearly spelt alike, those that differ in case only first."""
    folded = word.casefold()
    near = [other for other in islice(vocabulary, N_SEARCHED) if abs(len(other) - len(word)) <= 2]
    same = [other for other in near if other.casefold() == folded]
    close = difflib.get_close_matches(folded, near, n=N_CLOSE, cutoff=0.75)
    return list(dict.fromkeys([*same, *close]))[:N_CLOSE]


class KeyedTable:
    """The rows of `vectors_` (n_words, dim) by their words, which `vocabulary_` maps to rows, in the order of rows."""

    vocabulary_: dict[str, int]
    vectors_: Floats
    _listed: tuple[dict[str, int], list[str]] | None = None  # a vocabulary and its words, made when first asked for

    @property
    def key_to_index(self) -> dict[str, int]:
        """Row of each word."""
        self._require_vectors()
        return self.vocabulary_

    @property
    def index_to_key(self) -> list[str]:
        """Word of each row."""
        vocabulary = self.key_to_index
        if self._listed is None or self._listed[0] is not vocabulary:
            self._listed = vocabulary, list(vocabulary)
        return self._listed[1]

    @property
    def vectors(self) -> Floats:
        """The vectors, a row for each word."""
        self._require_vectors()
        return self.vectors_

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
        if isinstance(words, str):
            return self.get_vector(words)
        if not isinstance(words, Iterable):
            self.get_index(words)  # refuses what is no word
        rows = np.array([self.get_index(word) for word in words], dtype=np.intp)
        return self.vectors[rows]

    def get_index(self, word: str, default: int | None = None) -> int:
        """Row of a word; of an unknown one the default or, without one, a KeyError that names close words."""
        if not isinstance(word, str):
            raise TypeError(
                f"a word is {word!r}; it must be a str. A row is vectors_[row], and its word index_to_key[row]"
            )
        row = self.key_to_index.get(word, default)
        if row is None:
            raise UnknownWordError(word, self.vocabulary_)
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
        for key, factor, wanted in zip(keys, factors, known, strict=True):
            if wanted:
                mean += factor * self._vector_of(key, unit=pre_normalize)
        total = float(np.abs(factors[known]).sum())
        mean /= total or 1.0
        return (_unit(mean) if post_normalize else mean).astype(np.float32)

    def _vector_of(self, key: Key, *, unit: bool) -> Doubles:
        """Return the vector of a word, or one that is given, in double precision."""
        if isinstance(key, np.ndarray):
            if key.shape != (self.vector_size,):
                raise ValueError(f"a vector has shape {key.shape}; it must be ({self.vector_size},)")
            return key.astype(np.float64)
        vector = self.vectors[self.get_index(key)].astype(np.float64)
        return _unit(vector) if unit else vector

    def _require_vectors(self) -> None:
        if "vectors_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} has no vectors yet; call fit first")


def _unit(vector: Doubles | Floats) -> Doubles:
    """Divide by the norm; zeros stay."""
    values = vector.astype(np.float64)
    unit: Doubles = values / (np.linalg.norm(values) or 1.0)
    return unit
