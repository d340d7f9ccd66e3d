"""What a search for losses and gradients has done for each query, and whether its answer is certified."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class SearchReport(NamedTuple):
    r"""Cost of the answers, and which of them are certified; a number for each query, 0 for one without labels.

    Attributes
    ----------
    n_found : ndarray of shape (n,), int64
        Wrong classes that the searches have found, summed over blocks of columns: :math:`|S|`.
    n_exact : ndarray of shape (n,), int64
        Classes whose whole inner products were computed: the labels and :math:`A`, the classes that were active.
    n_scanned : ndarray of shape (n,), int64
        Rows that the searches have scored, summed over blocks and repeated searches.
    n_multiplications : ndarray of shape (n,), int64
        :math:`D_j (C + \text{rows})` for each search of a block of D_j columns, and D for each exact class:
        :math:`O(D Q + D |A|)` (Yen et al. 2018, section 3.2), where scoring every class takes K D. A
        `SphericalClusterIndex` multiplies bytes, and skips the C centroids where all clusters are read.
    certified : ndarray of shape (n,), bool
        Whether the classes that are not listed are known to add next to nothing. That needs that all clusters were
        read, because another one may hide any score; then, up to rounding,

        - with a budget and `rest="mask"`, cross-entropy: they have at most `tolerance` times the normaliser of the
          listed ones. The loss is too low by at most :math:`|P| \log(1 + \text{tolerance})`, the gradient off by at
          most :math:`2 |P|` `tolerance` in the 1-norm, beside what `tolerance` leaves unlisted;
        - with a budget and `rest="mask"`, margin and triplet: loss and gradient are those of all classes;
        - with a threshold and `rest="zero"`: the loss is within the threshold times the Lipschitz constant (2 of the
          margin, twice the number of labels of cross-entropy), or B times that with B blocks of columns;
        - where every class is listed, always. With other combinations, never.

        Of a `DecomposedIndex` with `answer="blocks"` it speaks of each block's loss at the messages as they are, whose
        mean is an upper bound of the loss of the exact scores (Jensen's inequality), and else of that loss itself.
    """

    n_found: Counts
    n_exact: Counts
    n_scanned: Counts
    n_multiplications: Counts
    certified: NDArray[np.bool_]

    @classmethod
    def of(cls, answers: dict[str, Any], n_features: int) -> SearchReport:
        """Make one of what the core says."""
        n_exact = np.asarray(answers["n_exact"], dtype=np.int64)
        return cls(
            n_found=np.asarray(answers["n_found"], dtype=np.int64),
            n_exact=n_exact,
            n_scanned=np.asarray(answers["n_scanned"], dtype=np.int64),
            n_multiplications=np.asarray(answers["n_multiplied"], dtype=np.int64) + n_exact * n_features,
            certified=np.asarray(answers["certified"]),
        )


class ApproximateLosses(tuple[NDArray[np.float64], sp.csr_array]):
    """The pair (losses, gradients), which carries beside it what the search has done.

    Attributes
    ----------
    losses : ndarray of shape (n,), float64
    gradients : csr_array of shape (n, K), float32
    report : SearchReport
    """

    report: SearchReport

    def __new__(cls, losses: NDArray[np.float64], gradients: sp.csr_array, report: SearchReport) -> ApproximateLosses:
        """Make the pair."""
        self = super().__new__(cls, (losses, gradients))
        self.report = report
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        """For copies."""
        return (*self, self.report)

    @property
    def losses(self) -> NDArray[np.float64]:
        """The first of the pair."""
        return self[0]

    @property
    def gradients(self) -> sp.csr_array:
        """The second of the pair."""
        return self[1]
