r"""The collapsed skip-gram objective: counts of pairs, and exact losses, a block of centre words at a time.

The mean over all pairs of centre x and context y of -log p(y | x) is

.. math:: F = \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

with q_x the share of pairs that x is the centre of and q_{y|x} that of y among its contexts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.corpus import NO_PAIRS

BLOCK_FLOATS = 1 << 23  # of scores at a time: 32 MB


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

    def losses(self, tables: Tables, rows: NDArray[np.intp]) -> Doubles:
        """log Z_x - sum_y q_{y|x} z_xy of some centre words."""
        out = np.empty(len(rows))
        for part in blocks(len(rows), len(tables.output)):
            block = rows[part]
            h = tables.input[block]
            out[part] = exponentiate(h @ tables.output.T) - row_products(h, self.contexts[block] @ tables.output)
        return out

    def per_context(self, gradient: Doubles | Floats) -> Floats:
        """Each row divided by its word's share of the contexts."""
        shares = self.words_as_contexts[:, np.newaxis]
        return np.divide(gradient, shares, out=np.zeros_like(gradient), where=shares > 0).astype(np.float32)

    def tree_losses(self, tables: Tables, rows: NDArray[np.intp], tree: Tree) -> Doubles:
        """-sum_y q_{y|x} log p(y | x) of some centre words, p being that of a Huffman tree."""
        n_words = len(tree.starts) - 1
        left, right = (  # 1 where the path to a word, (n_words, n_words - 1), passes a node with sign +1, and with -1
            sp.csr_array((tree.signs == sign, tree.nodes, tree.starts), (n_words, n_words - 1), dtype=np.float64)
            for sign in (1, -1)
        )
        out = np.empty(len(rows))
        for part in blocks(len(rows), len(tables.output)):
            observed = self.contexts[rows[part]]
            z = tables.input[rows[part]].astype(np.float64) @ tables.output.T
            of_left = (observed @ left).multiply(np.logaddexp(0, -z))
            of_right = (observed @ right).multiply(np.logaddexp(0, z))
            out[part] = of_left.sum(axis=1) + of_right.sum(axis=1)
        return out

    def centre_blocks(self, width: int) -> Iterator[NDArray[np.intp]]:
        """Words that are a centre, as many at a time as memory holds scores of, `width` each."""
        rows = np.flatnonzero(self.centres)
        for part in blocks(len(rows), width):
            yield rows[part]


class Tree(NamedTuple):
    """A Huffman tree as the core gives it: the path to word k is at [starts[k], starts[k + 1]) of nodes and signs."""

    starts: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: Floats

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Tree:
        """Return the tree of words by descending count."""
        return cls(*_core.huffman_tree(counts))


def log_normalizers(tables: Tables) -> Doubles:
    """log Z_x of every word."""
    out = np.empty(len(tables.input))
    for part in blocks(len(out), len(tables.output)):
        out[part] = exponentiate(tables.input[part] @ tables.output.T)
    return out


def blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Ranges of rows with as many scores as memory holds at a time, `width` each."""
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def exponentiate(z: Floats) -> Doubles:
    """Return the log of each row's sum of e^z; leave e^(z - largest) in z."""
    top = z.max(axis=1, keepdims=True)
    np.subtract(z, top, out=z)
    np.exp(z, out=z)
    log_sums: Doubles = np.log(z.sum(axis=1, dtype=np.float64)) + top[:, 0]
    return log_sums


def normalised(p: Floats) -> Floats:
    """Divide each row by its sum, in place."""
    p /= p.sum(axis=1, keepdims=True)
    return p


def row_products(a: Floats, b: Floats) -> Doubles:
    """Return the inner product of each row of a with that of b."""
    products: Doubles = np.einsum("ij,ij->i", a, b, dtype=np.float64)
    return products
