"""Approximate answers: what finds the best classes of rows faster than scoring all of them, made at its first use."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from manyclass.checks import outer_level, seed_from
from manyclass.classifiers.exclusion import Best
from manyclass.search import class_index
from manyclass.search.byte_copy import ByteCopy, copies
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix, row_norms_sq
from manyclass.weights.weights import Weights

LONGEST_SQ = 2.0**122  # of rows that an index takes; scores of longer ones may not be finite, and are all found


class ApproximateAnswers:
    """An index over the weights of a fitted model, and a copy of them in 8 bits.

    Parameters
    ----------
    weights : Weights

    Attributes
    ----------
    index : ClassIndex or None
    copy : ByteCopy or None
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.index: class_index.ClassIndex | None = None
        self.copy: ByteCopy | None = None
        self._too_large: str | None = None

    def too_large(self) -> str:
        """Say why neither an index nor a copy can hold the weights, or nothing."""
        if self._too_large is None:
            arrays = [array for array in (self.weights.matrix, self.weights.bias) if array.size]
            largest = max(float(max(-array.min(), array.max())) for array in arrays)
            fits = largest * math.sqrt(self.weights.n_hidden + 1) <= math.sqrt(LONGEST_SQ)
            self._too_large = "" if fits else f"a weight is {largest:.3g} in magnitude, too large for an index"
        return self._too_large

    def made_index(self, random_state: Any, n_threads: int) -> class_index.ClassIndex:
        """Return the index, made if there is none yet."""
        if self.index is None:
            self.index = class_index.ClassIndex(self.weights, seed_from(random_state), n_threads)
        return self.index

    def finder(self, x: Matrix, k: int, recall: float, random_state: Any, n_threads: int, exact: Best) -> Best | None:
        """Return what finds the k best classes of rows; None, with a warning of why, where `exact` is faster.

        A few rows are answered by the 8-bit copy, unless an index is tuned for what is asked.
        """
        if self.weights.n_classes <= class_index.EXACT_CLASSES:
            return None
        if self.weights.codes is None and (why := self.too_large()):
            warnings.warn(f"approximate=True is not followed: {why}", UserWarning, stacklevel=outer_level())
            return None
        probes = None if self.index is None else self.index.probes(k, recall)
        if copies(self.weights, x.shape[0]) and not (recall < 1 and probes):
            copy = self.copy = self.copy or ByteCopy(self.weights, n_threads)

            def best_of_copy(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
                found: tuple[Ids, Floats, Doubles] | None = copy.top_k(some, width)
                return exact(some, width) if found is None else found

            return best_of_copy
        if slower := class_index.slower(self.weights, x, probes, recall):
            warnings.warn(f"approximate=True is not followed: {slower}", UserWarning, stacklevel=outer_level())
            return None
        index = self.made_index(random_state, n_threads)

        def best_of_index(some: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
            mapped = self._mapped(some)
            searched = row_norms_sq(mapped) <= LONGEST_SQ
            if searched.all():
                return index.top_k(mapped, width, recall, n_threads)
            parts = [(~searched, exact(some[~searched], width))]
            if searched.any():
                parts.append((searched, index.top_k(mapped[searched], width, recall, n_threads)))
            shape = (len(searched), width)
            found = np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(len(searched))
            for rows, (ids, log_p, std) in parts:
                found[0][rows], found[1][rows], found[2][rows] = ids, log_p, std
            return found

        return best_of_index

    def build(self, x: Matrix, k: int, recall: float, random_state: Any, n_threads: int) -> None:
        """Make the index, and tune it by rows like those to come; raises ValueError where it is of no use."""
        n_classes, least = self.weights.n_classes, 2 * class_index.LEAST_TUNE_ROWS
        if n_classes <= class_index.EXACT_CLASSES:
            raise ValueError(
                f"the model has {n_classes} classes; approximate answers are for more than "
                f"{class_index.EXACT_CLASSES}, fewer are all scored"
            )
        if x.shape[0] < least:
            raise ValueError(f"there are {x.shape[0]} rows to tune the index of approximate answers; it needs {least}")
        slower = class_index.slower(self.weights, x, None, recall) or self.too_large()
        if not slower:
            index = self.made_index(random_state, n_threads)
            index.top_k(self._mapped(x), k, recall, n_threads)
            slower = class_index.slower(self.weights, x[:1], index.probes(k, recall), recall)
        if slower:
            raise ValueError(f"approximate answers are of no use: {slower}")

    def _mapped(self, x: Matrix) -> Matrix:
        """The features that W is multiplied with."""
        return self.weights.transform(x) if self.weights.has_phi else x
