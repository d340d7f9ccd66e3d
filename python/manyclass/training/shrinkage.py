"""How much smaller the weights of a linear model should be, as rows tell that it was not trained on.

The first steps of a stream have a prior variance that nobody knows. Where it is too large, as for labels that are
hardly predictable, scores are too sure of themselves at first, and later steps are too small to mend it. Before a call
goes on, the log-loss of some of its rows is therefore compared with that of the weights times factors below 1, the
intercepts staying as they are. What calls have told is added up until their rows are a tenth of those before, and at
least 64 were looked at. Where a factor is then better by more than twice the standard error, the weights are multiplied
by the best one, and the prior variance by its square. A call of one pass over more rows than came before is trained in
stretches, so that one call ends where ten or a thousand do.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.training.incremental import Before
from manyclass.training.plan import PointsPlan
from manyclass.training.squares import FACTORS, Squares
from manyclass.training.state import Points
from manyclass.weights.arrays import NO_DOUBLES, Doubles
from manyclass.weights.weights import Weights

# Rows that are looked at: some thousand scores of all classes take hundredths of a second, and those of the
# fewest rows, where there are at most MOST_CLASSES, a quarter of one. So many tell of a share LEAST_SHARE of the rows
# before, and fewer of smaller calls, so that a stream scores as many by calls of any size.
FEWEST_ROWS, MOST_ROWS, SCORES, MOST_CLASSES = 64, 512, 300_000, 30_000
LEAST_SHARE = 0.1
# The share of a call's rows after which weights may shrink first; then it is done whenever there are twice as many.
FIRST_STRETCH = 1 / 32


def ends_of_stretches(n_rows: int, n_classes: int, n_before: float) -> list[int]:
    """Return after which rows of a call of one pass weights may shrink: none where as many rows came before."""
    ends: list[int] = []
    at = n_rows
    while n_classes <= MOST_CLASSES:
        at = int(at - n_before) // 2
        if at < max(FEWEST_ROWS, FIRST_STRETCH * n_rows):
            break
        ends.insert(0, at)
    return ends


def shrink(
    weights: Weights, points: Points, plan: PointsPlan, before: Before, squares: Squares
) -> tuple[Squares, float]:
    """Multiply the weights, in place, by the factor that new points ask for, once there are enough that were looked at.

    Returns the squares with what is yet to be decided, and the factor, 1 where none is asked for. Points of new classes
    are left out, of which the weights can know nothing.
    """
    n_before = before.history.n_counting
    if not n_before > 0 or points.n_classes > MOST_CLASSES:
        return squares, 1.0
    share = len(points.labels) / (LEAST_SHARE * n_before)
    most = min(MOST_ROWS, max(FEWEST_ROWS, SCORES // points.n_classes))
    rows = np.flatnonzero(before.counts[points.labels.ids] > 0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), math.ceil(most * min(1.0, share)))).astype(np.int64)]
    told = np.concatenate([[share, len(rows)], *_gains(weights, points, rows, plan.n_threads)])
    told += squares.told if len(squares.told) else 0
    share, n = told[:2]
    if share < 1 or n < FEWEST_ROWS:
        return replace(squares, told=told), 1.0
    sums, squares_of_gains = told[2:].reshape(2, -1)
    factor = _core.best_shrinking(sums, squares_of_gains, FACTORS, n)
    if factor != 1:
        weights.matrix[:] *= np.float32(factor)
    return replace(squares, told=NO_DOUBLES), factor


def _gains(weights: Weights, points: Points, rows: NDArray[np.int64], n_threads: int) -> tuple[Doubles, Doubles]:
    """Return by how much each factor makes the log-losses of points smaller, summed, and the sums of its squares."""
    if not len(rows):
        return np.zeros(len(FACTORS)), np.zeros(len(FACTORS))
    scores = np.concatenate([z for _, z in weights.score_tiles(points.x[rows], n_threads)])
    return _core.shrinking_gains(scores, np.ascontiguousarray(weights.intercept), points.labels.ids[rows], FACTORS)
