r"""How changes of W that several shards have made from one W add up.

A pass of shard p moves a weight by :math:`\Delta_p`. To add these up is right where a pass moves the weight a short
way, as one pass after another would; where each pass alone moves it all the way to where its rows want it, the sum
goes many times too far, and the right thing is a mean. Between these, take the loss as a parabola in the weight, of
curvature :math:`h_p` on the rows of a shard. A pass of steps :math:`\eta` then takes the weight to :math:`w + (w_p^* -
w)(1 - e^{-a_p})`, with :math:`a_p = \eta h_p`, and the passes of all shards, mixed, to :math:`w + \sum_p (a_p /
A)(w_p^* - w)(1 - e^{-A})` with :math:`A = \sum_p a_p`. Hence

.. math:: \Delta = \frac{1 - e^{-A}}{A} \sum_p \frac{a_p}{1 - e^{-a_p}} \Delta_p .

This is the sum for small steps, the mean for large ones, and the change itself where one shard alone has rows that the
weight depends on. The curvature of the log-loss in w_kj is the sum of :math:`x_{ij}^2 p_{ik} (1 - p_{ik})` over rows,
at most that of :math:`x_{ij}^2 p_{ik}`, which near the optimum is about the sum of :math:`x_{ij}^2` over the rows of
class k, since there the two agree for x_ij in place of its square. It is known before training, and is 0 but for pairs
of a feature and a class that occur together. A ridge adds :math:`\alpha` a row.

Weights do not move one by one: the features of a row push a score together. Along a direction in which m of them do,
the curvature is up to m times that of each weight, and a sum that is right for single weights goes too far along it.
So curvatures are multiplied by the smallest number for which, whatever they are, the merge goes at most FURTHEST times
as far as the optimum: `coupling_of` of the core's weights/shard_merges.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.dask.shards import Shard, Whole
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats

# Twice as far as the optimum of a parabola is as far from it as before.
FURTHEST = 3.0
SMALLEST = 1e-9  # of a, where 1 stands for a / (1 - e^-a)


@dataclass(frozen=True)
class Curvature:
    """Curvatures of the loss of some rows, a row's part of the loss counting as 1.

    Attributes
    ----------
    pairs : csr_array of the shape of the stored matrix (or of a part of it), or ndarray
        Sum of x_ij^2 over the rows of class k, by feature j and class k; what padded classes have is nothing.
    counts : ndarray of shape (n_classes,), float64
        Rows of each class, for intercepts; empty in parts other than 0.
    n_rows : int
        For the ridge.
    coupling : tuple of two floats
        What the curvatures of weights are multiplied by, and those of intercepts.
    """

    pairs: Any
    counts: Doubles
    n_rows: int
    coupling: tuple[float, float]

    def part(self, whole: Whole, part: int) -> Curvature:
        """Return the curvatures of a part of the stored matrix."""
        counts = self.counts if part == 0 else NO_DOUBLES
        return Curvature(self.pairs[whole.rows_of(part)], counts, self.n_rows, self.coupling)

    @classmethod
    def total(cls, curvatures: Sequence[Curvature]) -> Curvature:
        """Add up the curvatures of shards, in their order."""
        pairs, counts = curvatures[0].pairs, curvatures[0].counts
        for curvature in curvatures[1:]:
            pairs, counts = pairs + curvature.pairs, counts + curvature.counts
        return cls(pairs, counts, sum(curvature.n_rows for curvature in curvatures), curvatures[0].coupling)


def multiply_by_ways(
    matrix: Floats,
    intercept: Floats,
    curvature: Curvature,
    eta: float,
    alpha: float,
    *,
    inverse: bool = False,
    rates: Doubles | None = None,
    moved_least: float = 0.0,
    n_moved: Floats = NO_FLOATS,
) -> None:
    """Multiply a change by a / (1 - e^-a), in place, the curvatures being those of the shard that made it.

    The inverse is for a sum of such changes, the curvatures being those of all rows; `rates` are the step sizes of rows
    where they differ, and moved weights count at least so much: see the core's weights/shard_merges.hpp.
    """
    pairs, indptr, indices = curvature.pairs, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if isinstance(pairs, sp.csr_array):
        indptr, indices, pairs = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), pairs.data
    _core.multiply_by_ways(
        matrix,
        indptr=indptr,
        indices=indices,
        curvatures=np.ascontiguousarray(pairs, dtype=np.float64),
        rates=np.full(len(matrix), eta) if rates is None else rates,
        coupling=curvature.coupling[0],
        least=max(SMALLEST, eta * alpha * curvature.n_rows),
        moved_least=moved_least,
        n_moved=n_moved,
        inverse=inverse,
    )
    if len(intercept):
        of_classes = Curvature(curvature.counts, NO_DOUBLES, curvature.n_rows, (curvature.coupling[1], 1.0))
        multiply_by_ways(intercept, NO_FLOATS, of_classes, eta, 0.0, inverse=inverse)


def size_of(shard: Shard) -> tuple[int, int, float]:
    """Return the rows, the values that are not 0, and the sum of their squares."""
    values = shard.x.data if isinstance(shard.x, sp.csr_array) else shard.x.ravel()
    return len(shard), int(np.count_nonzero(values)), float(np.einsum("i,i->", values, values, dtype=np.float64))


def couplings(sizes: Sequence[tuple[int, int, float]], *, fit_intercept: bool) -> tuple[float, float]:
    """Return what curvatures of weights are multiplied by for a merge, and those of intercepts.

    A row's squared length, intercept included, over the square of one of its values is how many weights push together.
    """
    rows, stored, square = (sum(column) for column in zip(*sizes, strict=True))
    length = square / rows + fit_intercept
    together = length * stored / max(square, 1e-30), length
    weights, intercepts = (_core.coupling_of(len(sizes), n_together, FURTHEST) for n_together in together)
    return weights, intercepts
