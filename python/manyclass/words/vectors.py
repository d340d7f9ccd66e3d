"""Word vectors: neighbours, analogies, similarity scores, and the file formats of word2vec and gensim."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

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
            fields = line.split()
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
            elif words := line.lower().split():
                if len(words) != 4:
                    raise ValueError(f"{os.fspath(path)}, line {number}: {line.strip()!r} is not four words")
                questions.append((words[0], words[1], words[2], words[3]))
    return {name: found for name, found in sections.items() if found}


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

    def to_keyed_vectors(self) -> Any:
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
            from gensim.models import KeyedVectors
        except ImportError as error:
            raise ImportError("to_keyed_vectors needs gensim: pip install gensim") from error
        keyed = KeyedVectors(self.vectors_.shape[1])
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
        The vectors.

    Examples
    --------
    >>> from manyclass import WordVectors
    >>> vectors = WordVectors(["ant", "bee", "cow"], [[1, 0], [1, 0.1], [0, 1]])
    >>> vectors.most_similar("ant", k=1)[0][0]
    'bee'
    """

    def __init__(self, words: Sequence[str], vectors: Any) -> None:
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
            If the file is not of that format or ends early.
        """
        name = os.fspath(path)
        if binary is None:
            binary = name.endswith(".bin")
        with open(path, "rb") as file:
            header = file.readline().split()
            if len(header) != 2 or not all(field.isdigit() for field in header):
                raise ValueError(f"{name} begins with {header!r}; it must be the numbers of words and dimensions")
            n_words, dim = (int(field) for field in header)
            body = file.read()
        return cls(*(_from_binary if binary else _from_text)(body, n_words, dim, name))

    @classmethod
    def from_keyed_vectors(cls, keyed: Any) -> WordVectors:
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


def _from_text(body: bytes, n_words: int, dim: int, name: str) -> tuple[list[str], NDArray[np.float32]]:
    lines = body.decode().splitlines()
    if len(lines) < n_words:
        raise ValueError(f"{name} has {len(lines)} words; its first line promises {n_words}")
    words, vectors = [], np.empty((n_words, dim), dtype=np.float32)
    for i, line in enumerate(lines[:n_words]):
        word, *numbers = line.rstrip().split(" ")
        if len(numbers) != dim:
            raise ValueError(f"{name}, line {i + 2}: {len(numbers)} numbers; its first line promises {dim}")
        words.append(word)
        vectors[i] = numbers
    return words, vectors


def _from_binary(body: bytes, n_words: int, dim: int, name: str) -> tuple[list[str], NDArray[np.float32]]:
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
