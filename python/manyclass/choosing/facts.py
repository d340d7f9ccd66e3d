"""What choices depend on: the facts of the data, measured when a rule asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import csr_parts, made_once
from manyclass.choosing import figures
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Matrix, as_csr, row_norms_sq

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Facts:
    """The facts of the data.

    Attributes
    ----------
    n_samples, n_features, n_classes : int
    row : float
        Non-zeros a row; n_features for dense data.
    sparse : bool
    met : float or None
        Weights on pairs that a row meets, the classes that its features occur with; None: as many as there can be.
    n_labels : float
        Labels a row, in the mean.
    several : bool
        Whether rows may have more than one.
    x, labels : csr_array or ndarray, and Labels
        What the other facts are measured on; None where only costs are asked for.
    """

    n_samples: int
    n_features: int
    n_classes: int
    row: float
    sparse: bool
    met: float | None = None
    n_labels: float = 1.0
    several: bool = False
    x: Matrix | None = field(default=None, repr=False, compare=False)
    labels: Labels | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, x: Matrix, n_classes: int, labels: Labels | None = None, *, several: bool = False) -> Facts:
        """Measure the data."""
        n_samples, n_features = x.shape
        stored = x.nnz if isinstance(x, sp.csr_array) else x.size
        return cls(
            n_samples,
            n_features,
            n_classes,
            stored / max(1, n_samples),
            isinstance(x, sp.csr_array),
            n_labels=1.0 if labels is None else labels.mean,
            several=several,
            x=x,
            labels=labels,
        )

    @property
    def bytes(self) -> float:
        """Size of W."""
        return 4.0 * self.n_features * self.n_classes

    @made_once
    def mean_square(self) -> float:
        """Mean of |x|^2, of rows' norms in single precision."""
        assert self.x is not None
        mean = float(row_norms_sq(self.x).mean(dtype=np.float64))
        # A step size, which is divided by it, is more than 0 and finite.
        return min(max(mean, TINY), float(np.finfo(np.float64).max))

    @made_once
    def median_square(self) -> float:
        """Median of |x|^2, which a few heavy rows do not move."""
        assert self.x is not None
        # A norm that single precision does not hold counts as that of its largest number: step sizes are more than 0.
        return min(float(np.median(row_norms_sq(self.x))), float(np.finfo(np.float32).max) ** 2)

    @made_once
    def mean_square_of_values(self) -> float:
        """Mean of |x|^2 in double precision, more than 0."""
        assert self.x is not None
        values = self.x.data if isinstance(self.x, sp.csr_array) else self.x.ravel()
        return float(max(float(np.einsum("i,i->", values, values, dtype=np.float64)) / self.n_samples, TINY))

    @made_once
    def mean_length(self) -> float:
        """Mean of the rows' sums of absolute values in double precision, more than 0."""
        assert self.x is not None
        values = self.x.data if isinstance(self.x, sp.csr_array) else self.x
        return float(max(np.abs(values).sum(dtype=np.float64) / self.n_samples, TINY))

    @made_once
    def least_count(self) -> int | None:
        """The least number of rows for a pair to get a weight that keeps the weights met affordable; None: none."""
        assert self.x is not None
        assert self.labels is not None
        return least_count(weights_met(self.x, self.labels, self.n_classes))

    def met_by(self, min_count: int) -> float:
        """Return how many weights a row meets where a pair has one if `min_count` rows have it."""
        assert self.x is not None
        assert self.labels is not None
        return weights_met(self.x, self.labels, self.n_classes, (min_count,))[min_count]


def weights_met(
    x: Matrix, labels: Labels, n_classes: int, counts: tuple[int, ...] = figures.LEAST_COUNTS
) -> dict[int, float]:
    """Estimate how many weights a row meets, by the number of rows that a pair must have to get one.

    A row meets the weights of its features, which are as many as the classes that they occur with; these are counted
    for features drawn from the stored values of X. The draws are the same for equal data.
    """
    csr, n_drawn = as_csr(x), figures.SAMPLED_FEATURES
    if csr.nnz == 0:
        return dict.fromkeys(counts, 0.0)
    drawn = csr.indices[np.random.default_rng(0).integers(0, csr.nnz, n_drawn)]
    times = np.bincount(drawn, minlength=csr.shape[1])
    given = (csr_parts(csr), csr.shape[1], labels.indptr, labels.ids, n_classes, times)
    met = _core.weights_met(*given, list(counts))
    return {least: n / n_drawn * csr.nnz / len(labels) for least, n in zip(counts, met, strict=True)}


def least_count(met: Mapping[int, float]) -> int | None:
    """Return the least of `LEAST_COUNTS` that keeps the weights met affordable; None: none does."""
    few, many = figures.MOST_MET, figures.MOST_MET_OF_MANY
    most = {least: few if least <= figures.FEW_ROWS_OF_A_PAIR else many for least in figures.LEAST_COUNTS}
    return next((least for least in figures.LEAST_COUNTS if met[least] <= most[least]), None)
