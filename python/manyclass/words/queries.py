"""What can be asked of word vectors: neighbours, analogies, similarity scores; and files of them for other programs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from manyclass.words.questions import Pairs, load_analogies, load_word_pairs


class KeyedVectors(Protocol):
    """What is used of gensim's class of this name."""

    index_to_key: Sequence[str]
    vectors: NDArray[np.float32]

    def add_vectors(self, keys: Sequence[str], weights: NDArray[np.float32]) -> None:
        """Add words with their vectors."""
        ...


class WordVectorQueries:
    """What can be asked of anything with `vocabulary_` (word to row) and `vectors_` (n_words, dim)."""

    vocabulary_: dict[str, int]
    vectors_: NDArray[np.float32]

    def most_similar(
        self, positive: str | Iterable[str], negative: str | Iterable[str] = (), k: int = 10
    ) -> list[tuple[str, float]]:
        """Find the words nearest to a word, or to a sum of words, by the cosine.

        Parameters
        ----------
        positive, negative : str or list of str
            Words whose unit vectors are added and taken away. They are not among the answers.
        k : int, default=10
            How many answers.

        Returns
        -------
        list of (str, float)
            Words and cosines, nearest first.

        Raises
        ------
        KeyError
            If a word is not in the vocabulary.
        """
        plus = [positive] if isinstance(positive, str) else list(positive)
        minus = [negative] if isinstance(negative, str) else list(negative)
        rows = [self._row(word) for word in plus + minus]
        unit = self._unit_vectors()
        query = np.array([1.0] * len(plus) + [-1.0] * len(minus), dtype=np.float32) @ unit[rows]
        cosines = unit @ (query / (np.linalg.norm(query) or 1.0))
        cosines[rows] = -np.inf
        k = min(k, len(cosines) - len(set(rows)))
        top = np.argpartition(-cosines, min(k, len(cosines) - 1))[:k]
        top = top[np.lexsort((top, -cosines[top]))]
        words = self._words()
        return [(words[i], float(cosines[i])) for i in top]

    def analogy(self, a: str, b: str, c: str, k: int = 1) -> list[tuple[str, float]]:
        """Answer "a is to b as c is to ...": the words nearest to b - a + c.

        Parameters
        ----------
        a, b, c : str
            Words of the vocabulary.
        k : int, default=1
            How many answers.

        Returns
        -------
        list of (str, float)
            Words and cosines, nearest first.
        """
        return self.most_similar([b, c], [a], k)

    def similarity(self, a: str, b: str) -> float:
        """Cosine of two words.

        Parameters
        ----------
        a, b : str
            Words of the vocabulary.

        Returns
        -------
        float
            In [-1, 1]; 0 if a vector is zero.
        """
        x, y = (self.vectors_[self._row(word)].astype(np.float64) for word in (a, b))
        norm = np.linalg.norm(x) * np.linalg.norm(y)
        return float(x @ y / norm) if norm > 0 else 0.0

    def score_similarity(self, pairs: str | os.PathLike[str] | Pairs) -> dict[str, float]:
        """Spearman's correlation of cosines with human scores.

        Parameters
        ----------
        pairs : path or list of (str, str, float)
            A file for `load_word_pairs`, or what it gives.

        Returns
        -------
        dict
            "spearman": the correlation, NaN with fewer than two pairs; "n_pairs": how many had both words in the
            vocabulary (the others are left out); "n_missing": how many had not.
        """
        found = load_word_pairs(pairs) if isinstance(pairs, str | os.PathLike) else list(pairs)
        known = [p for p in found if p[0] in self.vocabulary_ and p[1] in self.vocabulary_]
        spearman = np.nan
        if len(known) > 1:
            cosines = [self.similarity(a, b) for a, b, _ in known]
            spearman = float(spearmanr(cosines, [score for _, _, score in known]).statistic)
        return {"spearman": spearman, "n_pairs": len(known), "n_missing": len(found) - len(known)}

    def score_analogies(self, path: str | os.PathLike[str]) -> dict[str, float]:
        """Share of the analogies answered right, the three words of the question left out of the answers.

        Parameters
        ----------
        path : path
            A file for `load_analogies`.

        Returns
        -------
        dict
            "accuracy", NaN without questions; "n_questions": how many had all words in the vocabulary.
        """
        questions = [q for section in load_analogies(path).values() for q in section]
        known = np.array(
            [[self.vocabulary_[w] for w in q] for q in questions if all(w in self.vocabulary_ for w in q)],
            dtype=np.intp,
        ).reshape(-1, 4)
        unit = self._unit_vectors()
        right = 0
        for i in range(0, len(known), 256):
            a, b, c, d = known[i : i + 256].T
            scores = (unit[b] - unit[a] + unit[c]) @ unit.T
            for used in (a, b, c):
                scores[np.arange(len(scores)), used] = -np.inf
            right += int(np.sum(scores.argmax(axis=1) == d))
        return {"accuracy": right / len(known) if len(known) else np.nan, "n_questions": len(known)}

    def save_word2vec(self, path: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Write the vectors in word2vec's text or binary format.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        binary : bool, default=False
            The binary format keeps every bit; the text format, too, has digits enough to read back the same floats.

        Raises
        ------
        ValueError
            If a word holds white space, which neither format can.
        """
        words = self._words()
        for word in words:
            if len(word.split()) != 1 or word.split()[0] != word:
                raise ValueError(
                    f"the word {word!r} holds white space or is empty; the word2vec formats cannot keep it"
                )
        vectors = np.ascontiguousarray(self.vectors_, dtype="<f4")
        with open(path, "wb") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
            for word, vector in zip(words, vectors, strict=True):
                if binary:
                    file.write(word.encode() + b" " + vector.tobytes() + b"\n")
                else:
                    file.write(f"{word} {' '.join(map(str, vector))}\n".encode())

    def to_keyed_vectors(self) -> KeyedVectors:
        """Return the vectors as gensim's KeyedVectors, which must be installed.

        Returns
        -------
        gensim.models.KeyedVectors
            A copy of the vectors.

        Raises
        ------
        ImportError
            Without gensim.
        """
        try:
            models = importlib.import_module("gensim.models")
        except ImportError as error:
            raise ImportError("to_keyed_vectors needs gensim: pip install gensim") from error
        keyed: KeyedVectors = models.KeyedVectors(self.vectors_.shape[1])
        keyed.add_vectors(self._words(), np.ascontiguousarray(self.vectors_))
        return keyed

    def _words(self) -> list[str]:
        return list(self.vocabulary_)  # in the order of rows

    def _row(self, word: str) -> int:
        if word not in self.vocabulary_:
            raise KeyError(f"{word!r} is not in the vocabulary of {len(self.vocabulary_)} words")
        return self.vocabulary_[word]

    def _unit_vectors(self) -> NDArray[np.float32]:
        norms = np.linalg.norm(self.vectors_, axis=1, keepdims=True)
        return np.divide(self.vectors_, np.where(norms > 0, norms, 1), dtype=np.float32)
