r"""Top-k classes of a few rows by an 8-bit copy of the class vectors: exact labels, a normaliser from all classes.

`predict_top_k(approximate=True)` asks such a copy where it has at most `FEW_ROWS` rows, W stands over embeddings or
dense features, and no index was tuned for what is asked. A pass over the copy reads a quarter of what a pass over W
does. The classes that its error bound leaves are scored again in full: the labels are those of an exact pass, whatever
the recall asked for. The other classes count in the normaliser as the copy says, and `std` is the standard deviation of
its logarithm: for 26,000 classes some 1e-4 nats or less.

The first such call makes the copy, which takes the time of some ten exact rows, n_classes (n_hidden + 24) bytes, and is
kept until the next fit; it is not saved, pickled or cloned.
"""

from __future__ import annotations

import numpy as np

from manyclass import _core
from manyclass.search.exact import below_best
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

# More rows are scored faster together than by the copy one after the other: a W read once serves several of them.
FEW_ROWS = 8


def copies(weights: Weights, n_rows: int) -> bool:
    """Whether so few rows of such weights are answered by a copy."""
    return weights.kind == "phi" and weights.codes is None and n_rows <= FEW_ROWS


class ByteCopy:
    """An 8-bit copy of class vectors beside these, which it views.

    Parameters
    ----------
    weights : Weights
    n_threads : int
        For making it.

    Raises
    ------
    ValueError
        If W has numbers that are not finite or too large.
    """

    def __init__(self, weights: Weights, n_threads: int) -> None:
        self._weights = weights
        self._rows = _core.ByteRows(
            weights.matrix, n_coded=weights.n_hidden, has_intercept=weights.intercept_column, n_threads=n_threads
        )

    def top_k(self, x: Matrix, k: int) -> tuple[Ids, Floats, Doubles] | None:
        """Return what `ClassIndex.top_k` does; None where features are so large that all classes must be scored."""
        found = self._rows.best(self._weights.phi(x), k)
        if found is None:
            return None
        ids, scores, log_z, std = found
        return ids, (below_best(scores) - log_z[:, np.newaxis]).astype(np.float32), std
