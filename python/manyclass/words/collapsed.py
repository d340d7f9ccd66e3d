r"""The collapsed skip-gram objective: counts of pairs, and exact losses.

The mean over all pairs of centre x and context y of -log p(y | x) is

.. math:: F = \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

with q_x the share of pairs that x is the centre of and q_{y|x} that of y among its contexts.
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
from manyclass.words.corpus import NO_PAIRS


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
