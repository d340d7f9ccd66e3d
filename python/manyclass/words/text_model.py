"""What SkipGram trains: a text, its vocabulary and the two tables of vectors, with the exact value of the objective."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyclass import _core
from manyclass.checks import check_number
from manyclass.weights.arrays import LINE, Floats, aligned_zeros
from manyclass.words.collapsed import Collapsed, Tables, Tree
from manyclass.words.corpus import Corpus

COUNTING_BYTES = 1 << 28  # of memory for counting pairs


@dataclass(frozen=True)
class Windows:
    """Which words of a text are pairs of a centre and its context; the parameters of `SkipGram` of the same names."""

    window: int
    shrink_window: bool
    sample: float
    sample_rule: str

    def text_of(self, corpus: Corpus) -> _core.SkipGramText:
        """Return the core's view of a corpus."""
        keep = np.ones(len(corpus.counts))
        if self.sample > 0:
            with np.errstate(over="ignore"):  # then all stay
                odds = self.sample * corpus.counts.sum() / corpus.counts
            keep = np.sqrt(odds) + (odds if self.sample_rule == "word2vec" else 0.0)
        return _core.SkipGramText(
            tokens=corpus.tokens,
            sentences=corpus.sentences,
            keep=np.minimum(keep, 1.0),
            window=self.window,
            shrink=self.shrink_window,
        )

    @property
    def unit(self) -> int:
        """Pairs are counted in parts of 1 / unit, because shrinking windows have a word with some probability."""
        return self.window if self.shrink_window else 1


@dataclass
class TextModel:
    """A text as the core sees it, and the vectors of its words.

    Attributes
    ----------
    corpus : Corpus
        Word numbers, vocabulary and counts.
    text : SkipGramText
        The same for the core, with windows and sub-sampling.
    windows : Windows
        These two.
    tables : Tables
        h_x, and v_y or the vectors of the tree's nodes.
    dim : int
        Columns of the tables before padding.
    has_tree : bool
        Whether the objective is that of a Huffman tree.
    seed, n_threads : int
    """

    corpus: Corpus
    text: _core.SkipGramText
    windows: Windows
    tables: Tables
    dim: int
    has_tree: bool
    seed: int
    n_threads: int
    _collapsed: Collapsed | None = field(default=None, init=False, repr=False)

    @classmethod
    def start(
        cls, corpus: Corpus, windows: Windows, *, dim: int, has_tree: bool, seed: int, n_threads: int
    ) -> TextModel:
        """Return first vectors as in word2vec: h uniform on [-0.5, 0.5) / dim and v = 0."""
        n_words, width = len(corpus.counts), -(-dim // LINE) * LINE
        h = aligned_zeros(n_words, width)
        h[:, :dim] = (np.random.default_rng(seed).random((n_words, dim)) - 0.5) / dim
        tables = Tables(h, aligned_zeros(n_words - 1 if has_tree else n_words, width))
        return cls(corpus, windows.text_of(corpus), windows, tables, dim, has_tree, seed, n_threads)

    def put(self, vocabulary: dict[str, int], vectors: Floats, context_vectors: Floats) -> None:
        """Write the vectors of words of before in place of their first ones."""
        places = {word: place for place, word in enumerate(self.corpus.words)}
        rows = [places[word] for word in vocabulary]
        self.tables.input[rows, : self.dim] = vectors
        self.tables.output[rows, : self.dim] = context_vectors

    def collapsed(self) -> Collapsed:
        """Return the counts of pairs, made at the first call."""
        if self._collapsed is None:
            self._collapsed = Collapsed.count(
                self.text, self.windows.unit, seed=self.seed, n_threads=self.n_threads, memory=COUNTING_BYTES
            )
        return self._collapsed

    def objective_value(self, sample: int | None = None) -> float:
        """Evaluate the objective, see `SkipGram.objective_value`."""
        if sample is not None:
            check_number("sample", sample, low=1, integer=True)
        collapsed = self.collapsed()
        if sample is None:
            rows = np.flatnonzero(collapsed.centres)
            weights = collapsed.centres[rows]
        else:
            drawn = np.random.default_rng(self.seed).choice(len(collapsed.centres), sample, p=collapsed.centres)
            rows, times = np.unique(drawn, return_counts=True)
            weights = times / sample
        if self.has_tree:
            return float(weights @ collapsed.tree_losses(self.tables, rows, Tree.of(self.corpus.counts)))
        return float(weights @ collapsed.losses(self.tables, rows))
