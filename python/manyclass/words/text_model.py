"""What SkipGram trains: a text, its vocabulary and the two tables of vectors, with the exact value of the objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyclass import _core
from manyclass.checks import check_number, made_once
from manyclass.weights.arrays import LINE, Floats, aligned_zeros
from manyclass.words.collapsed import Collapsed, Tables, Tree
from manyclass.words.corpus import Corpus

COUNTING_BYTES = 1 << 28  # of memory for counting pairs


def core_text(
    corpus: Corpus, *, window: int, shrink_window: bool, sample: float, sample_rule: str
) -> _core.SkipGramText:
    """Return the core's view of a corpus, with the windows and the sub-sampling that parameters of `SkipGram` say."""
    keep = np.ones(len(corpus.counts))
    if sample > 0:
        with np.errstate(over="ignore"):  # then all stay
            odds = sample * corpus.counts.sum() / corpus.counts
        keep = np.sqrt(odds) + (odds if sample_rule == "word2vec" else 0.0)
    return _core.SkipGramText(
        tokens=corpus.tokens,
        sentences=corpus.sentences,
        keep=np.minimum(keep, 1.0),
        window=window,
        shrink=shrink_window,
    )


@dataclass
class TextModel:
    """A text as the core sees it, and the vectors of its words.

    Attributes
    ----------
    corpus : Corpus
        Word numbers, vocabulary and counts.
    text : SkipGramText
        The same for the core, with windows and sub-sampling.
    window, shrinks : int, bool
        Words on either side of a centre, and whether the number of them is drawn for each centre.
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
    window: int
    shrinks: bool
    tables: Tables
    dim: int
    has_tree: bool
    seed: int
    n_threads: int

    def put(self, vocabulary: dict[str, int], vectors: Floats, context_vectors: Floats) -> None:
        """Write the vectors of words of before in place of their first ones."""
        places = {word: place for place, word in enumerate(self.corpus.words)}
        rows = [places[word] for word in vocabulary]
        self.tables.input[rows, : self.dim] = vectors
        self.tables.output[rows, : self.dim] = context_vectors

    @made_once
    def collapsed(self) -> Collapsed:
        """The counts of pairs, made when they are first asked for."""
        # Shrinking windows have a word with some probability, so that pairs are counted in parts of 1 / window.
        unit = self.window if self.shrinks else 1
        return Collapsed.count(self.text, unit, seed=self.seed, n_threads=self.n_threads, memory=COUNTING_BYTES)

    def objective_value(self, sample: int | None = None) -> float:
        """Evaluate the objective, see `SkipGram.objective_value`."""
        if sample is not None:
            check_number("sample", sample, low=1, integer=True)
        collapsed = self.collapsed
        if sample is None:
            rows = np.flatnonzero(collapsed.centres)
            weights = collapsed.centres[rows]
        else:
            drawn = np.random.default_rng(self.seed).choice(len(collapsed.centres), sample, p=collapsed.centres)
            rows, times = np.unique(drawn, return_counts=True)
            weights = times / sample
        if self.has_tree:
            tree = Tree.of(self.corpus.counts)
            return float(weights @ collapsed.tree_losses(self.tables, rows, tree, self.n_threads))
        return float(weights @ collapsed.losses(self.tables, rows, self.n_threads))


def first_tables(n_words: int, dim: int, *, has_tree: bool, seed: int) -> Tables:
    """Return first vectors as in word2vec: h uniform on [-0.5, 0.5) / dim and v = 0."""
    width = -(-dim // LINE) * LINE
    h = aligned_zeros(n_words, width)
    h[:, :dim] = (np.random.default_rng(seed).random((n_words, dim)) - 0.5) / dim
    return Tables(h, aligned_zeros(n_words - 1 if has_tree else n_words, width))
