r"""Top-k classes by an 8-bit copy of the class vectors: exact labels, a normaliser from all classes.

`predict` asks such a copy where W stands over embeddings or dense features and has more than `EXACT_CLASSES` classes
(manyclass.search.class_index), once `COPY_ROWS` rows or more are asked for; so does `predict_top_k(approximate=True)`,
for any number of rows, unless an index was tuned for what is asked and is quicker. A pass over the copy reads a quarter
of what a pass over W does, and its products take a quarter of the instructions. The classes that its error bound leaves
are scored again in full: the labels are those of an exact pass, whatever the recall asked for. The other classes count
in the normaliser as the copy says, and `std` is the standard deviation of its logarithm, or more: some 2e-4 nats with
recall=1, where the row is coded twice, its second code being that of what the first one leaves. With less the row is
coded once, for which scores of all classes err together: some .005 nats, in two thirds of the time.

The first such call makes the copy, which takes the time of some hundred exact rows, n_classes (n_hidden + 28) bytes,
and is kept until the next fit; it is not saved, pickled or cloned. Of weights that are mapped from a file `predict`
makes none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass import _core
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

# Rows from which on labels are found by a copy that is yet to be made: making it takes the time that some 200 rows save
# (135,000 classes, embeddings of 256).
COPY_ROWS = 512
BLOCK_ROWS = 4096  # whose features are in hand at once


def copies(weights: Weights) -> bool:
    """Whether a copy can answer for such weights."""
    return weights.kind == "phi" and weights.codes is None


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

    def top_k(self, x: Matrix, k: int, recall: float, n_threads: int) -> tuple[Ids, Floats, Doubles] | None:
        """Return what `ClassIndex.top_k` does; None where features are so large that all classes must be scored."""
        answers = self._best(x, k, n_threads, normalizers=True, twice=recall == 1)
        if answers is None:
            return None
        classes, scores, log_z, std = answers
        exact = scores.astype(np.float64)
        return classes, (exact - exact[:, :1] - log_z[:, np.newaxis]).astype(np.float32), std

    def classes(self, x: Matrix, k: int, n_threads: int) -> Ids | None:
        """Return the k best classes of each row, best first, (n_rows, k), or None as `top_k`."""
        answers = self._best(x, k, n_threads, normalizers=False, twice=False)
        return None if answers is None else answers[0]

    def _best(self, x: Matrix, k: int, n_threads: int, *, normalizers: bool, twice: bool) -> Any:
        """What the core finds, for some rows at a time: one block without any where x has none."""
        parts = []
        for first in range(0, max(1, x.shape[0]), BLOCK_ROWS):
            phi = self._weights.phi(x[first : first + BLOCK_ROWS], n_threads)
            part = self._rows.best(phi, k, normalizers=normalizers, twice=twice, n_threads=n_threads)
            if part is None:
                return None
            parts.append(part)
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
