r"""The collapsed skip-gram objective: exact values and gradients, a block of centre words at a time.

The mean over all pairs of centre x and context y of -log p(y | x) is

.. math:: F = \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

with q_x the share of pairs that x is the centre of and q_{y|x} that of y among its contexts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.corpus import NO_PAIRS

BLOCK_FLOATS = 1 << 23  # of scores at a time: 32 MB
SMALLEST_STEP = 1e-6  # of descent: a step that must be shorter still to go down has arrived


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

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """The loss of each centre word, as of `losses`, and its gradient in h_x: that of F divided by q_x."""
        gradient = np.zeros_like(tables.input)
        losses = np.zeros(len(gradient))
        for rows in self._centre_blocks(len(tables.output)):
            h, target = tables.input[rows], self.contexts[rows] @ tables.output
            p = h @ tables.output.T
            losses[rows] = exponentiate(p) - row_products(h, target)
            gradient[rows] = normalised(p) @ tables.output - target
        return losses, gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """F, and its gradient in each v_y divided by y's share of the contexts."""
        total = np.zeros(tables.output.shape)
        value = 0.0
        for rows in self._centre_blocks(len(tables.output)):
            h, q = tables.input[rows], self.centres[rows]
            weighted = (h * q[:, np.newaxis]).astype(np.float32)
            observed = self.contexts[rows]
            p = h @ tables.output.T
            log_z = exponentiate(p)
            total += normalised(p).T @ weighted - observed.T @ weighted
            value += float(q @ (log_z - row_products(h, observed @ tables.output)))
        return value, self.per_context(total)

    def per_context(self, gradient: Doubles | Floats) -> Floats:
        """Each row divided by its word's share of the contexts."""
        shares = self.words_as_contexts[:, np.newaxis]
        return np.divide(gradient, shares, out=np.zeros_like(gradient), where=shares > 0).astype(np.float32)

    def tree_losses(self, tables: Tables, rows: NDArray[np.intp], tree: Tree) -> Doubles:
        """-sum_y q_{y|x} log p(y | x) of some centre words, p being that of a Huffman tree."""
        left, right = tree.passages()
        out = np.empty(len(rows))
        for part in blocks(len(rows), len(tables.output)):
            observed = self.contexts[rows[part]]
            z = tables.input[rows[part]].astype(np.float64) @ tables.output.T
            out[part] = np.asarray(
                (observed @ left).multiply(np.logaddexp(0, -z)).sum(axis=1)
                + (observed @ right).multiply(np.logaddexp(0, z)).sum(axis=1)
            ).ravel()
        return out

    def _centre_blocks(self, width: int) -> Iterator[NDArray[np.intp]]:
        rows = np.flatnonzero(self.centres)
        for part in blocks(len(rows), width):
            yield rows[part]


@dataclass
class Tree:
    """The Huffman tree as the core gives it."""

    starts: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: Floats

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Tree:
        """The tree of words by descending count."""
        return cls(*_core.huffman_tree(counts))

    def passages(self) -> tuple[sp.csr_array, sp.csr_array]:
        """(n_words, n_words - 1): 1 where the path to a word passes a node with sign +1, and with sign -1."""
        n_words = len(self.starts) - 1
        shape = (n_words, n_words - 1)
        parts = []
        for sign in (1, -1):
            passes = (self.signs == sign).astype(np.float64)
            part: sp.csr_array = sp.csr_array((passes, self.nodes, self.starts), shape, copy=True)
            part.eliminate_zeros()
            parts.append(part)
        return parts[0], parts[1]


def log_normalizers(tables: Tables) -> Doubles:
    """log Z_x of every word."""
    out = np.empty(len(tables.input))
    for part in blocks(len(out), len(tables.output)):
        out[part] = exponentiate(tables.input[part] @ tables.output.T)
    return out


class Descent:
    """Gradient descent on F in the input and the output table by turns, whole passes over all pairs of words.

    Each row's gradient is divided by its word's share of the pairs, so that rare words move as fast as frequent ones:
    for h_x that leaves the gradient of x's own loss, which depends on no other row, so that each has its own step size.
    A step that does not go down is taken back and halved, of h_x until the next pass, of all v_y at once; one that does
    makes the next longer by a tenth.
    """

    def __init__(self, collapsed: Collapsed, tables: Tables, learning_rate: float) -> None:
        self.collapsed = collapsed
        self.tables = tables
        self.input_rates = np.full(len(tables.input), learning_rate)
        self.output_rate = learning_rate

    def step(self) -> float:
        """Move both tables; F after it."""
        self._move_input(*self.collapsed.input_gradient(self.tables))
        value, gradient = self.collapsed.output_gradient(self.tables)
        (value,) = self._move_output(np.array([value]), gradient)
        return float(value)

    def _move_input(self, losses: Doubles, gradient: Floats) -> None:
        table = self.tables.input
        before = table.copy()
        np.subtract(before, self.input_rates[:, np.newaxis].astype(np.float32) * gradient, out=table)
        failed = ~(self._losses() < losses)
        table[failed] = before[failed]
        self.input_rates *= np.where(failed, 0.5, 1.1)

    def _move_output(self, values: Doubles, gradient: Floats) -> Doubles:
        table = self.tables.output
        before = table.copy()
        while self.output_rate > SMALLEST_STEP:
            np.subtract(before, np.float32(self.output_rate) * gradient, out=table)
            after = self._values()
            if (after < values).all():
                self.output_rate *= 1.1
                return after
            self.output_rate /= 2
        table[:] = before
        return values

    def _losses(self) -> Doubles:
        """What a step of each h_x must lower."""
        losses = np.zeros(len(self.tables.input))
        rows = np.flatnonzero(self.collapsed.centres)
        losses[rows] = self.collapsed.losses(self.tables, rows)
        return losses

    def _values(self) -> Doubles:
        """What a step of the output table must lower."""
        return np.array([self.collapsed.centres @ self._losses()])


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
