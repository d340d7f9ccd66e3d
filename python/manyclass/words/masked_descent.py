"""Descent on the collapsed skip-gram objective of each centre's best words and its contexts, the others left out.

This is the rule of Yen et al. (ICML 2018, section 5.3): each centre word searches for its best Q words, and the softmax
is over these and its observed contexts. Right after negative sampling the best twentieth of all words holds little more
than a twentieth of the normaliser, so that this is the gradient of another function.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.search.decomposed import DecomposedIndex
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import Collapsed, Descent, Tables, blocks, row_products
from manyclass.words.objectives import Index
from manyclass.words.searches import MESSAGES, UNION, FollowingIndex


class MaskedGradients:
    """Each centre's best Q words and its contexts, the others left out.

    F is then that of the words found. Of a DecomposedIndex these are what all its blocks find, with exact scores and
    one loss; or, with `messages`, the paper's mean over the blocks, which counts words that are high in one block by
    chance (bench/decisions.md), joined by Algorithm 2.
    """

    def __init__(self, collapsed: Collapsed, index: Index, budget: int, dim: int, *, messages: bool = False) -> None:
        self.collapsed = collapsed
        self.index = index
        self._following = FollowingIndex(index)
        self.budget = budget
        self.dim = dim
        self.messages = messages
        contexts = collapsed.contexts
        self.n_contexts = np.diff(contexts.indptr).astype(np.float32)
        # An index counts each label once: its gradient is |P| p - 1_P, and ours p - q = that / |P| + 1_P / |P| - q.
        shift = np.repeat(1 / np.maximum(self.n_contexts, 1), np.diff(contexts.indptr)) - contexts.data
        self.shift: sp.csr_array = sp.csr_array(
            (shift.astype(np.float32), contexts.indices, contexts.indptr), shape=contexts.shape
        )

    def moved(self, tables: Tables) -> None:
        """Follow the output table."""
        self._following.follow(tables.output[:, : self.dim])

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """The loss of each centre by the words found, and its gradient in h_x."""
        gradient = np.zeros_like(tables.input)
        losses = np.zeros(len(gradient))
        for rows, of_found, found in self.found(tables):
            shift = self.shift[rows] @ tables.output
            gradient[rows] = found @ tables.output + shift
            losses[rows] = of_found + row_products(tables.input[rows], shift)
        return losses, gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """F of the words found, and its gradient in each v_y divided by y's share of the contexts."""
        total = np.zeros(tables.output.shape)
        value = 0.0
        for rows, losses, found in self.found(tables):
            h, q = tables.input[rows], self.collapsed.centres[rows]
            shift = self.shift[rows]
            weighted = (h * q[:, np.newaxis]).astype(np.float32)
            total += found.T @ weighted + shift.T @ weighted
            value += float(q @ (losses + row_products(h, shift @ tables.output)))
        return value, self.collapsed.per_context(total)

    def found(self, tables: Tables) -> Iterator[tuple[NDArray[np.intp], Doubles, sp.csr_array]]:
        """Blocks of centres with the losses and gradients in z of their contexts, weighted alike."""
        centres = np.flatnonzero(self.collapsed.centres)
        n_searches = self.index.n_blocks if isinstance(self.index, DecomposedIndex) else 1
        widest = self.budget * n_searches + int(self.n_contexts.max())
        for part in blocks(len(centres), widest):
            rows = centres[part]
            queries = np.ascontiguousarray(tables.input[rows, : self.dim])
            losses, found = self._of_found(queries, self.collapsed.contexts[rows])
            scale = 1 / self.n_contexts[rows]
            found.data *= np.repeat(scale, np.diff(found.indptr))
            yield rows, losses * scale, found

    def _of_found(self, queries: Floats, contexts: sp.csr_array) -> tuple[Doubles, sp.csr_array]:
        budget, loss = self.budget, "cross_entropy"
        if isinstance(self.index, DecomposedIndex):
            joined = MESSAGES if self.messages else UNION
            return self.index.loss_and_gradient(queries, contexts, loss, budget=budget, **joined)
        return self.index.loss_and_gradient(queries, contexts, loss, budget=budget, tolerance=UNION["tolerance"])


class MaskedDescent(Descent):
    """Descent by the gradients of the words found; a step must lower the exact losses.

    The index is fitted at the first pass and follows the output table before each later one.
    """

    def __init__(self, gradients: MaskedGradients, tables: Tables, learning_rate: float) -> None:
        super().__init__(gradients.collapsed, tables, learning_rate)
        self.gradients = gradients

    def step(self) -> float:
        """Move both tables; F after it."""
        self.gradients.moved(self.tables)
        # Held against the exact losses before, not the losses of the words found, which no step could come below.
        _, gradient = self.gradients.input_gradient(self.tables)
        self._move_input(self._losses(), gradient)
        _, gradient = self.gradients.output_gradient(self.tables)
        return float(self._move_output(self._values(), gradient)[-1])

    def _values(self) -> Doubles:
        rows, centres = np.flatnonzero(self.collapsed.centres), self.collapsed.centres
        return np.array([centres[rows] @ self.collapsed.losses(self.tables, rows)])
