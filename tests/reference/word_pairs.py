"""Shares of pairs and descents of the core, made of arrays and read as matrices."""

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.words.training import follow_table


def pair_shares(contexts, centres):
    """The core's object of q_{y|x}, a CSR matrix, and q_x."""
    parts = contexts.indptr.astype(np.int64), contexts.indices.astype(np.int32), contexts.data.astype(np.float32)
    return _core.PairShares(parts, np.asarray(centres, dtype=np.float64))


def contexts_of(pairs):
    """q_{y|x} as a CSR matrix."""
    indptr, words, shares = pairs.contexts
    return sp.csr_array((shares, words, indptr), shape=(len(pairs.centres), len(pairs.centres)))


def centres_of(pairs):
    """The words that are centres."""
    return np.flatnonzero(pairs.centres).astype(np.int32)


class WordDescent:
    """A descent with the arrays that it moves, and the index that it searches in, which `follow` lets follow them."""

    def __init__(
        self, pairs, tables, rate=1.0, *, found="all", index=None, budget=1, dim=1, group=64, seed=0, n_threads=1
    ):
        self.tables, self.index, self.dim = tables, index, dim
        self.input_rates = np.full(len(tables.input), rate)
        self.core = _core.WordDescent(
            pairs,
            input=tables.input,
            output=tables.output,
            input_rates=self.input_rates,
            output_rate=rate,
            found=found,
            budget=budget,
            dim=dim,
            group=group,
            seed=seed,
            n_threads=n_threads,
        )

    def search(self):
        """Let the index follow the output table."""
        if self.index is not None:
            self.core.search_in(*follow_table(self.index, self.tables.output[:, : self.dim]))

    def follow(self):
        """Do what a step does first."""
        self.search()
        self.core.follow()

    def step(self):
        """Move both tables."""
        self.search()
        return self.core.step()
