"""The index by which descent on the collapsed skip-gram objective finds output words, made and kept up to date."""

from __future__ import annotations

import numpy as np

from manyclass.model.weights import Floats
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.words.objectives import Index

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
