"""The scales of features: training sees (x - shift) / scale, and its W is folded back so that the model takes x.

The core measures and applies them: weights/feature_scaling.hpp has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import csr_parts
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Matrix
from manyclass.weights.weights import Weights


@dataclass(frozen=True)
class FeatureScaling:
    """What is taken off features, and what they are divided by.

    Attributes
    ----------
    shift : ndarray of shape (n_features,), float64
        0 for features that keep their zeros, and of models without intercepts, which could not take it up.
    scale : ndarray of shape (n_features,), float64
        More than 0; infinite for features that are too small for float32.
    """

    shift: Doubles
    scale: Doubles

    @classmethod
    def of(cls, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Measure the data: mean and standard deviation, of features of mostly zeros the root mean square of the rest.

        All sparse features count as such. Where these differ by a factor of at most 100, all are divided instead by the
        power of two, which rounds nothing, that brings the root mean square of the rows' lengths to 1 to 8. All means
        are weighted.
        """
        return cls._measured(x, centre, weights, first_rows=False)

    @classmethod
    def of_first_part(cls, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Measure the first rows of a stream, of which a few heavy ones and features that are not there tell nothing.

        As `of`, but sparse features differ where nine tenths of those that are there do, features that are not have
        the median scale, and the median of the rows' lengths counts.
        """
        return cls._measured(x, centre, weights, first_rows=True)

    @classmethod
    def _measured(cls, x: Matrix, centre: bool, weights: Doubles | None, *, first_rows: bool) -> FeatureScaling:
        r = NO_DOUBLES if weights is None else weights / weights.mean()
        found = _core.feature_scaling(_in_order(x), x.shape[1], row_weights=r, centre=centre, first_rows=first_rows)
        return cls(*found)

    def widened(self, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Return that of data with more features: of sparse ones the scale that all share, else as `of` measures them.

        Nothing changes for the features of now.
        """
        n = len(self.scale)
        if n == x.shape[1]:
            return self
        if isinstance(x, sp.csr_array) and np.all(self.scale == self.scale[0]):
            n_more = x.shape[1] - n
            more = FeatureScaling(np.zeros(n_more), np.full(n_more, self.scale[0]))
        else:
            more = FeatureScaling.of(x[:, n:], centre=centre, weights=weights)
        return FeatureScaling(np.append(self.shift, more.shift), np.append(self.scale, more.scale))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return not self.shift.any() and bool(np.all(self.scale == 1))

    def apply(self, x: Matrix) -> Matrix:
        """Return the features that training sees, in float32: a copy, of the values only where x is sparse."""
        if self.is_identity:
            return x
        scaled = _core.scaled_features(_in_order(x), x.shape[1], self.shift, self.scale)
        return sp.csr_array((scaled, x.indices, x.indptr), shape=x.shape) if isinstance(x, sp.csr_array) else scaled

    def fold(self, weights: Weights) -> None:
        """Turn weights of scaled features into those of x that give the same scores, in place."""
        if not self.is_identity:
            _core.fold_scaling(self.shift, self.scale, weights.matrix, weights.bias, weights.by_feature)

    def unfold(self, weights: Weights) -> Weights:
        """Return the weights of scaled features that `fold` makes these of: a copy."""
        copied = weights.copy()
        self.unfold_in_place(copied)
        return copied

    def unfold_in_place(self, weights: Weights) -> None:
        """Turn weights of x into those of scaled features, in place, without another array of their size."""
        if not self.is_identity:
            _core.unfold_scaling(self.shift, self.scale, weights.matrix, weights.bias, weights.by_feature)


def _in_order(x: Matrix) -> Any:
    """The data as the core takes them; some columns of a dense array are copied."""
    return csr_parts(x) if isinstance(x, sp.csr_array) else np.ascontiguousarray(x, dtype=np.float32)
