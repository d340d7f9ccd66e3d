"""The index by which descent on the collapsed skip-gram objective finds output words, made and kept up to date."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.arrays import Floats
from manyclass.words.objectives import Index

# What a masked search in blocks does with its finds (`DecomposedIndex.loss_and_gradient`). "decomposed": whatever the
# blocks find has its exact score, as in the last line of Algorithm 1; no tolerance, which as a share of the normaliser
# of the words found may be much of their gradient. "messages": Algorithm 2 of Yen et al. 2018 as printed, one round
# of steps 2 / (t + 2), for words with a gradient above their tau_2.
UNION: dict[str, Any] = {"tolerance": 0.0, "answer": "active"}
MESSAGES: dict[str, Any] = {"n_iter": 1, "step": "frank_wolfe", "tolerance": 1e-3, "answer": "blocks"}
SHARE = 20  # a search finds one word in so many (Yen et al. 2018, section 5.3)
N_BLOCKS = 4


def default_budget(n_words: int) -> int:
    """Return Q = K / 20, rounded up."""
    return -(-n_words // SHARE)


def index_for(search: str | Index, *, seed: int, n_jobs: int | None) -> Index:
    """Return a new index for the name of a search, or a copy of a template, which keeps its own seed and threads."""
    made: Index
    if isinstance(search, str):
        made = SphericalClusterIndex(recluster="never") if search == "mips" else DecomposedIndex(N_BLOCKS)
    else:
        made = type(search)(**search.get_params())
    own = {"random_state": seed % 2**32, "n_jobs": n_jobs}
    made.set_params(**{name: value for name, value in own.items() if getattr(made, name) is None})
    return made


class FollowingIndex:
    """An index that is fitted to a table at first, and follows it later.

    Attributes
    ----------
    index : SphericalClusterIndex or DecomposedIndex
        The index.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self._fitted = False

    def follow(self, table: Floats) -> None:
        """Take over the rows as they are now."""
        rows = np.ascontiguousarray(table)
        if self._fitted:
            self.index.update(np.arange(len(rows)), rows)
        else:
            self.index.fit(rows)
            self._fitted = True
