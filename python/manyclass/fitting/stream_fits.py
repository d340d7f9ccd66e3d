"""Fits of a stream that began without `fit`: which of its rows are kept, and when it is fitted to them anew.

One visit of each row leaves what the passes of a fit find, and fits tell which model is the best. A stream is within
.03 nats of a fit of all rows only if it has been fitted to nearly all of them: a fit of nine tenths of bibtex is .05
above one of all (bench/figures/streams.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyclass.training.incremental import Call
from manyclass.training.plan import AnyPlan, BatchesPlan, PointsPlan
from manyclass.training.state import Points, State

# A fit to fewer rows holds out too few for the scales of the terms: by 52 rows of 12 easy classes one was 3.1 where .9
# is best, and the loss .24 nats higher.
FEWEST_TO_FIT = 2000
# The next fit comes when there are n / ROWS_OF_DOUBLE more rows, as a share of the n rows of the last one, but at
# least LEAST_MORE and at most MOST_MORE. Fits of few rows are quick, and more rows tell more there. All fits of a
# stream take as long as 3 to 9 of the last one.
ROWS_OF_DOUBLE, LEAST_MORE, MOST_MORE = 50_000, 0.07, 0.5
# Beyond either number the stream goes on without its rows: a fit to 100,000 rows takes up to a minute.
MOST_KEPT, MOST_KEPT_BYTES = 100_000, 128 << 20
# Of linear models of dense rows: rows times features times classes, of which a pass takes a tenth of a second. One
# visit leaves them within .02 nats of a fit on mnist and planted rows, of thousands of rows a class, but .39 above on
# omniglot, of 16. So below FEW_OF_A_CLASS rows a class it may be more: a fit takes half a minute there.
MOST_DENSE, MOST_DENSE_OF_FEW, FEW_OF_A_CLASS = 1e8, 4e10, 100
TELLING = 8  # the last eighth of the rows tells whether a first fit is better than the stream


def kept(state: State | None, points: Points, plan: AnyPlan, call: Call) -> tuple[Points, ...]:
    """Return the rows of a stream so far, by call; none where they are too many, or some of them are unknown."""
    before = () if state is None else state.calls
    unknown = state is not None and state.history.n_points > 0 and not before
    every = (*before, points)
    n_rows = sum(len(one.labels) for one in every)
    if unknown or not call.is_open or n_rows > (MOST_KEPT if call.n_kept is None else call.n_kept):
        return ()
    if call.n_kept is None and sum(one.n_bytes for one in every) > MOST_KEPT_BYTES:
        return ()
    linear = isinstance(plan, PointsPlan) and isinstance(points.x, np.ndarray)
    most = MOST_DENSE_OF_FEW if n_rows < FEW_OF_A_CLASS * points.n_classes else MOST_DENSE
    if linear and call.n_kept is None and n_rows * points.x.shape[1] * points.n_classes > most:
        return ()
    return (*before, replace(points, x=points.x.copy()))  # whose memory a caller may use again


def is_time_to_fit(calls: tuple[Points, ...]) -> bool:
    """Return whether rows are many beside those of the last fit, or of the last time that one was tried."""
    n_rows = sum(len(one.labels) for one in calls)
    if not calls or n_rows < FEWEST_TO_FIT:
        return False
    n_before = len(calls[0].labels)
    more = np.clip(n_before / ROWS_OF_DOUBLE, LEAST_MORE, MOST_MORE)
    return len(calls) == 1 or n_rows >= (1 + more) * n_before


def split_to_compare(points: Points) -> tuple[Points, Points]:
    """Return the rows that a fit and a stream learn to be compared, and the last ones of known classes, which tell."""
    first = len(points.labels) - len(points.labels) // TELLING
    learnt, last = points.some(np.arange(first)), np.arange(first, len(points.labels))
    known = np.zeros(points.n_classes, dtype=bool)
    known[learnt.labels.ids] = True
    of_last = points.labels.of(last)
    return learnt, points.some(last[np.minimum.reduceat(known[of_last.ids], of_last.indptr[:-1])])


def gone_on_without(state: State, plan: AnyPlan) -> State:
    """Return a fitted state that goes on without the rows kept: Adagrad's sums are as after one pass, not all of a fit.

    By the sums of all passes later rows would move it too little: the last two fifths of esco-titles, whose first
    18,000 rows were fitted, end it at 1.12 nats, at 1.06 by those of one pass. Margins go on as a stream that was never
    fitted, by its passes and its first step: .250 errors on 20news after a fit of 4,500 rows, where the steps and the
    one pass of a call after a fit have .296.
    """
    squares, history = state.squares, state.history
    if squares is not None and len(state.curve) > 1:
        squares = squares.of_one_pass(len(state.curve))
    if isinstance(plan, BatchesPlan) and not plan.finds_scale:
        history = replace(history, n_fit=0)
    return replace(state, calls=(), squares=squares, history=history)
