"""Sets of labels that hold the right one with a chosen probability, and ancestors where no class is sure enough.

Sets are those of split conformal prediction. The score of a label is the probability of all classes that are ranked
before it, plus a penalty for each rank beyond a free one. Of n rows that training has not seen, the ceil((n + 1) c)-th
smallest score of the right labels is the threshold; the set of a new row has all labels of at most this score. If the
new row is one of the same kind, its label is in the set with probability c at least, however wrong the probabilities
are. The penalty keeps sets of thousands of improbable classes away. It and the free rank are chosen on a fifth of the
rows, which the threshold is not taken from.

References
----------
A. Angelopoulos, S. Bates, J. Malik and M. Jordan, "Uncertainty sets for image classifiers using conformal prediction",
ICLR 2021, Algorithms 2 and 3, without their randomisation: a set is never empty, and a row's set does not depend on
chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_number
from manyclass.labels import as_labels, written
from manyclass.training.plan import GroupIds, draw_rows_out
from manyclass.training.state import SetRule
from manyclass.weights.arrays import BLOCK_NUMBERS, Doubles, Floats, Ids, Matrix

PENALTIES = (0.0, 0.001, 0.01, 0.1)  # that are tried; the paper's
SHARE_TO_CHOOSE = 0.2  # of the rows, for penalty and free rank
FIRST_K, GROWTH = 32, 8  # classes of a row that are looked at first, and how many times more where they do not do

# Rows and a number of classes to their positions and log-probabilities, best first; rows to all log-probabilities.
TopK = Callable[[Matrix, int], tuple[Ids, Floats]]
LogProbabilities = Callable[[Matrix], Doubles]


def before_and_rank(log_probabilities: LogProbabilities, x: Matrix, labels: Ids, n_classes: int) -> Doubles:
    """Return for each row how probable the classes before its label are together, and its rank from 1, (n_rows, 2).

    Labels of -1, which are no classes, come behind all: both numbers are infinite.
    """
    stands, step = np.full((x.shape[0], 2), np.inf), max(1, BLOCK_NUMBERS // n_classes)
    for first in range(0, x.shape[0], step):
        rows = first + np.flatnonzero(labels[first : first + step] >= 0)
        if len(rows):
            stands[rows] = _core.label_stands(log_probabilities(x[rows]), labels[rows])
    return stands


def set_rule(
    top_k: TopK, x: Matrix, stands: Doubles, coverage: float, n_classes: int, groups: GroupIds | None
) -> SetRule:
    """Return the rule of sets by rows that training has not seen, of which `before_and_rank` tells where labels stand.

    Penalty and free rank are chosen on rows, or whole groups, that the threshold is not taken from.

    Raises
    ------
    ValueError
        If there are too few rows for the coverage, or too many of labels that are no classes.
    """
    check_number("coverage", coverage, low=0, open_low=True, high=1)
    n_rows, random = len(stands), np.random.default_rng(0)
    n_chosen = int(SHARE_TO_CHOOSE * n_rows)
    if groups is None:
        is_chosen = np.isin(np.arange(n_rows), random.permutation(n_rows)[:n_chosen])
    else:
        is_chosen = draw_rows_out(n_chosen, n_rows, random, groups)
    chosen, rest = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
    free_rank = _core.conformal_threshold(np.repeat(stands[chosen, 1:], 2, axis=1), coverage)  # that of the ranks
    penalty, free = 0.0, n_classes
    if np.isfinite(free_rank):
        free, sizes = int(free_rank), list[float]()
        for candidate in PENALTIES:
            limit = _core.conformal_threshold(stands[chosen], coverage, candidate, free)
            indptr, _, _ = ranked_in_sets(top_k, x[chosen], SetRule(coverage, candidate, free, limit), n_classes)
            sizes.append(float(np.diff(indptr).mean()))
        penalty = PENALTIES[int(np.argmin(sizes))]
    limit = _core.conformal_threshold(stands[rest], coverage, penalty, free)
    if not np.isfinite(limit):
        n_unseen = int(np.isinf(stands[:, 1]).sum())
        raise ValueError(
            f"coverage is {coverage}, for which {len(stands)} rows, {n_unseen} of them of labels that the model has "
            "not seen, are too few; give more rows, or a lower coverage"
        )
    return SetRule(coverage, penalty, free, limit)


def ranked_in_sets(top_k: TopK, x: Matrix, rule: SetRule, n_classes: int) -> tuple[NDArray[np.int64], Ids, Floats]:
    """Return the classes of each row's set, best first, one row after the other: row pointers, their positions and
    log-probabilities.
    """
    sets = [(np.zeros(0, np.int32), np.zeros(0, np.float32))] * x.shape[0]
    rows_left, k = np.arange(x.shape[0]), min(FIRST_K, n_classes)
    while len(rows_left):
        step, again = max(1, BLOCK_NUMBERS // k), [rows_left[:0]]
        for first in range(0, len(rows_left), step):
            rows = rows_left[first : first + step]
            positions, log_p = top_k(x[rows], k)
            sizes = _core.set_sizes(log_p, rule.penalty, rule.free_rank, rule.threshold, k == n_classes)
            for place, (row, size) in enumerate(zip(rows, np.abs(sizes), strict=True)):
                sets[row] = positions[place, :size], log_p[place, :size]
            again.append(rows[sizes < 0])
        rows_left, k = np.concatenate(again), min(GROWTH * k, n_classes)
    positions_of_sets, values = zip(*sets, strict=True)
    return (
        np.concatenate([[0], np.cumsum([*map(len, positions_of_sets)])]),
        np.concatenate(positions_of_sets),
        np.concatenate(values),
    )


def deepest_nodes(
    parents: Mapping[Any, Any], classes: NDArray[Any], log_probabilities: LogProbabilities, x: Matrix, least: float
) -> tuple[NDArray[Any], Doubles]:
    """Return for each row the deepest node above classes, or class, whose classes have together this probability, and
    what they have; of several as deep the most probable one; None, with 1, where there is none.

    Parameters
    ----------
    parents : mapping of label to label
        The parent of each class or node that has one.
    classes : ndarray of shape (n_classes,)
    log_probabilities : callable
    x : csr_array or ndarray of shape (n_rows, n_features)
    least : float

    Raises
    ------
    ValueError
        If a node is above itself.
    """
    labels = classes.tolist()
    nodes = [*dict.fromkeys([*labels, *parents, *parents.values()])]
    number = {node: place for place, node in enumerate(nodes)}
    above = [number[parents[node]] if node in parents else -1 for node in nodes]
    hierarchy = _core.Hierarchy(above, len(labels))
    if circle := hierarchy.circle():
        shown = ", ".join(written(as_labels([str(nodes[place]) for place in circle])))
        raise ValueError(f"parents have a circle: {shown}")
    step = max(1, BLOCK_NUMBERS // len(labels))
    parts = [
        hierarchy.deepest(np.exp(log_probabilities(x[first : first + step])), least)
        for first in range(0, x.shape[0], step)
    ]
    places, probabilities = (np.concatenate(part) for part in zip(*parts, strict=True))
    return np.array([*nodes, None], dtype=object)[places], probabilities
