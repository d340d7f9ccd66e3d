r"""The collapsed skip-gram objective: counts of pairs, and exact losses.

The mean over all pairs of centre x and context y of -log p(y | x) is

.. math:: F = \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

with q_x the share of pairs that x is the centre of and q_{y|x} that of y among its contexts.

The exact loss of some pairs of a text shows a divergence that the running loss hides: that one is of the drawn words,
and the logarithm of a sampled sum lies below that of the whole (Jensen).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.words.corpus import NO_PAIRS, Corpus


@dataclass
class Tables:
    """h_x and v_y, rows padded with zeros to whole cache lines."""

    input: Floats
    output: Floats


@dataclass
class Collapsed:
    """Counts of pairs.

    Attributes
    ----------
    contexts : csr_array of shape (n_words, n_words), float32
        q_{y|x}: every row that is not empty sums to one.
    centres : ndarray of shape (n_words,)
        q_x.
    n_pairs : float
        Pairs in all; where windows shrink, their expected number.
    n_spilled : int
        How often a table of counts went to a file, for want of memory.
    """

    contexts: sp.csr_array
    centres: Doubles
    n_pairs: float
    n_spilled: int

    @classmethod
    def count(
        cls, text: _core.SkipGramText, unit: int, *, seed: int, n_threads: int, memory: int, folder: str | None = None
    ) -> Collapsed:
        """Count the pairs of a text, in units of 1 / unit."""
        with tempfile.TemporaryDirectory(dir=folder) as spill:
            starts, words, counts, n_spilled = _core.cooccurrences(
                text=text, seed=seed, n_threads=n_threads, memory=memory, folder=os.fspath(spill)
            )
        total = int(counts.sum())
        if total == 0:
            raise ValueError(NO_PAIRS)
        sums = np.concatenate([[0], np.cumsum(counts)])[starts]
        rows = np.diff(sums)
        share = (counts / np.repeat(rows, np.diff(starts))).astype(np.float32)
        n_words = len(starts) - 1
        contexts: sp.csr_array = sp.csr_array((share, words, starts), shape=(n_words, n_words))
        return cls(contexts, rows / total, total / unit, n_spilled)

    @property
    def words_as_contexts(self) -> Doubles:
        """Sum_x q_x q_{y|x}, the share of pairs that y is the context of."""
        shares: Doubles = self.contexts.T @ self.centres
        return shares

    def losses(self, tables: Tables, rows: NDArray[np.intp], n_threads: int = 1) -> Doubles:
        """log Z_x - sum_y q_{y|x} z_xy of some centre words."""
        log_z = RowGroups.of_all(rows).softmax(tables, n_threads)[rows]
        losses: Doubles = log_z - row_products(tables.input[rows], self.contexts[rows] @ tables.output)
        return losses

    def per_context(self, gradient: Doubles | Floats) -> Floats:
        """Each row divided by its word's share of the contexts."""
        shares = self.words_as_contexts[:, np.newaxis]
        return np.divide(gradient, shares, out=np.zeros_like(gradient), where=shares > 0).astype(np.float32)

    def tree_losses(self, tables: Tables, rows: NDArray[np.intp], tree: Tree, n_threads: int = 1) -> Doubles:
        """-sum_y q_{y|x} log p(y | x) of some centre words, p being that of a Huffman tree."""
        return _core.tree_losses(
            input=tables.input,
            output=tables.output,
            rows=rows.astype(np.int32),
            observed=csr_parts(self.contexts[rows]),
            starts=tree.starts,
            nodes=tree.nodes,
            signs=tree.signs,
            n_threads=n_threads,
        )


@dataclass(frozen=True)
class RowGroups:
    """Centres in groups, each with the words over which its softmax is; see the core's exact/row_softmax.hpp.

    Attributes
    ----------
    rows, row_starts : ndarray
        Group g has the centres rows[row_starts[g]:row_starts[g + 1]].
    lists : dict of str to ndarray
        The words of each group; without any, all words are those of every group.
    """

    rows: Ids
    row_starts: NDArray[np.int64]
    lists: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of_all(cls, rows: NDArray[np.intp]) -> RowGroups:
        """Return some centres with all words."""
        return cls(rows.astype(np.int32), np.array([0, len(rows)]))

    def softmax(self, tables: Tables, n_threads: int, **sums: NDArray[Any]) -> Doubles:
        """Return log Z_x of each word of the input table, 0 where it is in no group, and add to what is given.

        Parameters
        ----------
        tables : Tables
        n_threads : int
            Results do not depend on it.
        **sums : ndarray
            `input_gradient` gets sum_y p(y | x) v_y, `output_gradient`, with the `weights` q_x, sum_x q_x p(y | x) h_x,
            but for the words in `left_out`, a list for each centre.
        """
        log_z = np.zeros(len(tables.input))
        _core.add_row_softmax(
            input=tables.input,
            output=tables.output,
            rows=self.rows,
            row_starts=self.row_starts,
            n_threads=n_threads,
            log_z=log_z,
            **self.lists,
            **sums,
        )
        return log_z


class Tree(NamedTuple):
    """A Huffman tree as the core gives it: the path to word k is at [starts[k], starts[k + 1]) of nodes and signs."""

    starts: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: Floats

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Tree:
        """Return the tree of words by descending count."""
        return cls(*_core.huffman_tree(counts))


def log_normalizers(tables: Tables, n_threads: int = 1) -> Doubles:
    """log Z_x of every word."""
    return RowGroups.of_all(np.arange(len(tables.input))).softmax(tables, n_threads)


def row_products(a: Floats, b: Floats) -> Doubles:
    """Return the inner product of each row of a with that of b."""
    products: Doubles = np.einsum("ij,ij->i", a, b, dtype=np.float64)
    return products


# The exact loss of some pairs


MOST_PAIRS = 256
MOST_SCORES = 1 << 24  # 64 MB of them, a fraction of a second of work
# In units of log V, the loss of equal probabilities, beyond twice the standard error: no noise of steps that learn.
TOO_HIGH = 1.1


def some_pairs(corpus: Corpus, window: int, n: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw places of the text and, for each, another word at most `window` away in its sentence.

    Returns
    -------
    centres, contexts : ndarray of shape (n_pairs,), int32
        At most n pairs: a sentence of one word has none.
    """
    rng = np.random.default_rng(seed)
    places = rng.integers(len(corpus.tokens), size=n)
    sentence = np.searchsorted(corpus.sentences, places, side="right") - 1
    low = np.maximum(corpus.sentences[sentence], places - window)
    high = np.minimum(corpus.sentences[sentence + 1] - 1, places + window)
    others = high - low
    some = others > 0
    places, low, others = places[some], low[some], others[some]
    drawn = low + rng.integers(others)
    drawn += drawn >= places
    return corpus.tokens[places], corpus.tokens[drawn]


def pair_losses(tables: Tables, centres: NDArray[np.int32], contexts: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return log sum_k e^(h_x v_k) - h_x v_y of each pair, (n_pairs,), in nats; not finite where a score is not."""
    log_z = RowGroups.of_all(np.unique(centres)).softmax(tables, 1)
    with np.errstate(all="ignore"):
        losses: NDArray[np.float64] = log_z[centres] - row_products(tables.input[centres], tables.output[contexts])
    return losses


def divergence(corpus: Corpus, tables: Tables, window: int, seed: int) -> str | None:
    """Say if the loss of some pairs is above that of equal probabilities; None if it is not.

    Parameters
    ----------
    corpus, tables : the text and the vectors of a softmax of its words
    window : int
        Words at each side.
    seed : int
        Of the draws of pairs.
    """
    n_words = len(corpus.counts)
    pairs = some_pairs(corpus, window, min(MOST_PAIRS, max(1, MOST_SCORES // n_words)), seed)
    losses = pair_losses(tables, *pairs)
    if not len(losses):
        return None
    with np.errstate(all="ignore"):
        mean = float(np.mean(losses))
        error = float(np.std(losses) / np.sqrt(len(losses)))
    of_equal = np.log(n_words)
    if mean - 2 * error <= TOO_HIGH * of_equal:
        return None
    return f"the exact loss of {len(losses)} pairs, {mean:.4g}, is above that of equal probabilities, {of_equal:.4g}"
