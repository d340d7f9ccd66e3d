"""How much smaller the weights of a linear model should be, as rows tell that it was not trained on.

The first steps of a stream have a prior variance that nobody knows. Where it is too large, as for labels that are
hardly predictable, scores are too sure of themselves at first, and later steps are too small to mend it. Before a call
goes on with rows that are many beside those before, their log-loss is therefore compared with that of the weights times
a factor below 1, the intercepts staying as they are. Where a factor is better by more than twice the standard error,
the weights are multiplied by the best one, and the prior variance by its square. A call of one pass over more rows than
came before is trained in stretches, so that one call ends where ten do.
"""

from __future__ import annotations

import numpy as np

from manyclass import _core
from manyclass.training.incremental import Before
from manyclass.training.plan import PointsPlan
from manyclass.training.state import Points
from manyclass.weights.weights import Weights

# Rows of a call that are looked at: some thousand scores of all classes take hundredths of a second, and those of the
# fewest rows, where there are at most MOST_CLASSES, a quarter of one. It is done for calls whose rows are at least
# LEAST_SHARE of those before, so that a stream does it some ten times.
FEWEST_ROWS, MOST_ROWS, SCORES, MOST_CLASSES = 64, 512, 300_000, 30_000
LEAST_SHARE = 0.1
LEAST_FACTOR = 0.1
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


def shrink(weights: Weights, points: Points, plan: PointsPlan, before: Before) -> float:
    """Multiply the weights, in place, by the factor that new points ask for; return it, 1 where they ask for none.

    Points of new classes are left out, of which the weights can know nothing.
    """
    rows = np.flatnonzero(before.counts[points.labels.ids] > 0)
    n_rows = min(len(rows), MOST_ROWS, max(FEWEST_ROWS, SCORES // points.n_classes))
    if (
        n_rows < FEWEST_ROWS
        or points.n_classes > MOST_CLASSES
        or not len(points.labels) >= LEAST_SHARE * before.history.n_counting > 0
    ):
        return 1.0
    rows = rows[np.linspace(0, len(rows) - 1, n_rows).astype(np.int64)]
    scores = np.concatenate([z for _, z in weights.score_tiles(points.x[rows], plan.n_threads)])
    intercept = np.ascontiguousarray(weights.intercept)
    factor = _core.shrinking_factor(scores, intercept, points.labels.ids[rows], LEAST_FACTOR)
    if factor != 1:
        weights.matrix[:] *= np.float32(factor)
    return factor
