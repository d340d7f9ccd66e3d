"""Twin of train/common/ridge_turns.hpp: which rows shrink behind a visit, and by how much."""

from __future__ import annotations

from collections.abc import Iterator

ROUNDS_A_PASS = 4


def turns(n_rows: int, moved: float, n: int, visits: range) -> Iterator[tuple[range, int]]:
    """The rows whose turn comes with each of some visits, counted from the first pass on, and the visits of a round.

    `n` visits are a pass, and one of them moves about `moved` of the rows.
    """
    period = max(n // ROUNDS_A_PASS, int(n_rows / max(moved, 1)), 1)
    for visit in visits:
        at = visit % period
        yield range(n_rows * at // period, n_rows * (at + 1) // period), period
