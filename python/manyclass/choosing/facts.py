"""What choices depend on: the facts of the data, measured once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import as_csr, csr_parts, row_norms_sq
from manyclass.figures import FIGURES
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Matrix

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Lengths:
    """How long rows are, which step sizes and ridges are in units of.

    Attributes
    ----------
    mean_square : float
        Mean of |x|^2, of rows' norms in single precision; more than 0 and finite, as step sizes are divided by it.
    median_square : float
        Median of |x|^2, which a few heavy rows do not move.
    mean_square_of_values : float
        Mean of |x|^2 in double precision, more than 0.
    mean_length : float
        Mean of the rows' sums of absolute values in double precision, more than 0.
    """

    mean_square: float
    median_square: float
    mean_square_of_values: float
    mean_length: float

    @classmethod
    def of(cls, x: Matrix) -> Lengths:
        """Measure rows."""
        squares, values = row_norms_sq(x), x.data if isinstance(x, sp.csr_array) else x.ravel()
        total = float(np.einsum("i,i->", values, values, dtype=np.float64))
        sizes = values if values.min(initial=0) >= 0 else np.abs(values)  # most data need no copy
        with np.errstate(over="ignore"):  # of the two squares in the middle
            median = float(np.median(squares))
        return cls(
            min(max(float(squares.mean(dtype=np.float64)), TINY), float(np.finfo(np.float64).max)),
            # A norm that single precision does not hold counts as that of its largest number.
            min(median, float(np.finfo(np.float32).max) ** 2),
            max(total / x.shape[0], TINY),
            max(float(sizes.sum(dtype=np.float64)) / x.shape[0], TINY),
        )


@dataclass(frozen=True)
class Facts:
    """The facts of the data, all of them numbers.

    Attributes
    ----------
    n_samples : int
    n_features : int
    n_classes : int
    row : float
        Non-zeros a row; n_features for dense data.
    sparse : bool
    met : float or None
        Weights on pairs that a row meets, the classes that its features occur with; None: as many as there can be.
    n_labels : float
        Labels a row, in the mean.
    several : bool
        Whether rows may have more than one.
    least_count : int or None
        The least number of rows for a pair to get a weight that keeps the weights met affordable; None: none, or dense
        data of one label a row, for which no recipe asks.
    few_classes : int
        With `least_count`: features that occur with at most this many classes have weights on all their pairs.
    n_texts : int
        Rows that are texts of classes.
    of_columns : bool
        Whether each class is the name of a column, as items are that come next in histories of items.
    measured : Lengths or None
        None where only costs are asked for.
    """

    n_samples: int
    n_features: int
    n_classes: int
    row: float
    sparse: bool
    met: float | None = None
    n_labels: float = 1.0
    several: bool = False
    least_count: int | None = None
    few_classes: int = 0
    n_texts: int = 0
    of_columns: bool = False
    measured: Lengths | None = field(default=None, repr=False, compare=False)

    @classmethod
    def sized(cls, x: Matrix, n_classes: int, labels: Labels | None = None, *, several: bool = False) -> Facts:
        """Return what the costs of data depend on."""
        n_samples, n_features = x.shape
        sparse = isinstance(x, sp.csr_array)
        row = (x.nnz if isinstance(x, sp.csr_array) else x.size) / max(1, n_samples)
        n_labels = 1.0 if labels is None else labels.mean
        return cls(n_samples, n_features, n_classes, row, sparse, n_labels=n_labels, several=several)

    @classmethod
    def of(
        cls,
        x: Matrix,
        n_classes: int,
        labels: Labels | None = None,
        *,
        several: bool = False,
    ) -> Facts:
        """Measure the data."""
        sizes, least, few = cls.sized(x, n_classes, labels, several=several), None, 0
        if labels is not None and (several or sizes.sparse):
            least = least_count(weights_met(x, labels, n_classes))
            most = FIGURES.FEW_CLASSES_OF_A_FEATURE
            if least != 1 and n_classes > most:
                least_of_frequent = least_count(weights_met(x, labels, n_classes, few_classes=most))
                least, few = (least, 0) if least_of_frequent is None else (least_of_frequent, most)
        return replace(sizes, least_count=least, few_classes=few, measured=Lengths.of(x))

    @property
    def lengths(self) -> Lengths:
        """How long the rows are."""
        assert self.measured is not None
        return self.measured

    @property
    def bytes(self) -> float:
        """Size of W."""
        return 4.0 * self.n_features * self.n_classes


def weights_met(
    x: Matrix, labels: Labels, n_classes: int, counts: tuple[int, ...] = FIGURES.LEAST_COUNTS, few_classes: int = 0
) -> dict[int, float]:
    """Estimate how many weights a row meets, by the number of rows that a pair must have to get one.

    All pairs of features that occur with at most `few_classes` classes get one.

    A row meets the weights of its features, which are as many as the classes that they occur with; these are counted
    for features drawn from the stored values of X. The draws are the same for equal data.
    """
    csr, n_drawn = as_csr(x), FIGURES.SAMPLED_FEATURES
    if csr.nnz == 0:
        return dict.fromkeys(counts, 0.0)
    drawn = csr.indices[np.random.default_rng(0).integers(0, csr.nnz, n_drawn)]
    times = np.bincount(drawn, minlength=csr.shape[1])
    data = (csr_parts(csr), csr.shape[1], labels.indptr, labels.ids, n_classes, times)
    met = _core.weights_met(*data, list(counts), few_classes)
    return {least: n / n_drawn * csr.nnz / len(labels) for least, n in zip(counts, met, strict=True)}


def least_count(met: Mapping[int, float]) -> int | None:
    """Return the least of `LEAST_COUNTS` that keeps the weights met affordable; None: none does."""
    few, many = FIGURES.MOST_MET, FIGURES.MOST_MET_OF_MANY
    most = {least: few if least <= FIGURES.FEW_ROWS_OF_A_PAIR else many for least in FIGURES.LEAST_COUNTS}
    return next((least for least in FIGURES.LEAST_COUNTS if met[least] <= most[least]), None)
