"""Sets of labels that hold the right one with a chosen probability, and ancestors where no class is sure enough.

Sets are those of split conformal prediction. The score of a label is the probability of all classes that are ranked
before it, plus a penalty for each rank beyond a free one. Of n rows that training has not seen, the ceil((n + 1) c)-th
smallest score of the right labels is the threshold; the set of a new row has all labels of at most this score. If the
new row is one of the same kind, its label is in the set with probability c at least, however wrong the probabilities
are. The penalty keeps sets of thousands of improbable classes away. It and the free rank are chosen on a fifth of the
rows, which the threshold is not taken from.

That is a promise for all rows together: rare classes may be in their sets far less often. `by` makes other promises, by
the least log-probability that each class has in a set.

- "class": of each class its own, by its own rows; a class with fewer than c / (1 - c) of them is in every set.
- "cluster": of each cluster of classes, which have like quantiles of -log p (Ding et al. 2023, with their numbers of
  clusters and of the rows that find these); classes of too few rows share one, by all rows. Each class is covered about
  as often as its cluster.
- "prevalence": log p minus the logarithm of the class's share of the training rows has one limit for all classes, which
  makes sets small for the mean of the coverage over classes (Ding, Fermanian & Salmon 2025). The promise is that for
  all rows.

A set has the most probable class in any case.

References
----------
T. Ding, A. Angelopoulos, S. Bates, M. Jordan and R. Tibshirani, "Class-conditional conformal prediction with many
classes", NeurIPS 2023.

T. Ding, J.-B. Fermanian and J. Salmon, "Conformal prediction for long-tailed classification", 2025, arXiv:2507.06867.

A. Angelopoulos, S. Bates, J. Malik and M. Jordan, "Uncertainty sets for image classifiers using conformal prediction",
ICLR 2021, Algorithms 2 and 3, without their randomisation: a set is never empty, and a row's set does not depend on
chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from manyclass import _core
from manyclass.checks import check_number
from manyclass.labels import as_labels, written
from manyclass.training.plan import GroupIds, draw_rows_out
from manyclass.training.state import SetRule
from manyclass.weights.arrays import BLOCK_NUMBERS, Doubles, Floats, Ids, Matrix

PENALTIES = (0.0, 0.001, 0.01, 0.1)  # that are tried; the paper's
SHARE_TO_CHOOSE = 0.2  # of the rows, for penalty and free rank
FIRST_K, GROWTH = 32, 8  # classes of a row that are looked at first, and how many times more where they do not do

By = Literal["class", "cluster", "prevalence"]
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9)  # of a class's scores, and the coverage, by which classes are clustered
ROUNDING = 1e-5  # of log-probabilities by single-precision scores, in nats
ROWS_OF_CLUSTERS = 75  # with K classes of enough rows K / (K + 75) of the rows find the clusters; Ding et al. 2023

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
    is_chosen = _draw(SHARE_TO_CHOOSE, len(stands), groups)
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


def _draw(share: float, n_rows: int, groups: GroupIds | None) -> NDArray[np.bool_]:
    """Draw a share of the rows, or of whole groups."""
    random, n_drawn = np.random.default_rng(0), int(share * n_rows)
    if groups is not None:
        return draw_rows_out(n_drawn, n_rows, random, groups)
    return np.isin(np.arange(n_rows), random.permutation(n_rows)[:n_drawn])


# Limits of classes


def class_rule(
    losses: Doubles, labels: Ids, counts: Doubles, coverage: float, by: By, groups: GroupIds | None
) -> SetRule:
    """Return the rule of sets by the least log-probability of each class.

    Parameters
    ----------
    losses : ndarray of shape (n_rows,), float64
        -log p of the right labels of rows that training has not seen; infinite of those that are no classes.
    labels : ndarray of shape (n_rows,), int32
        Their positions, -1 where there is none.
    counts : ndarray of shape (n_classes,), float64
        Rows of each class in training.
    coverage : float
    by : {"class", "cluster", "prevalence"}
    groups : ndarray of shape (n_rows,), or None
        Of which whole ones find clusters.
    """
    check_number("coverage", coverage, low=0, open_low=True, high=1)
    scores, n_classes, is_known = losses, len(counts), labels >= 0
    shift, ids, rows = np.zeros(n_classes), np.arange(n_classes), np.ones(len(labels), dtype=bool)
    if by == "prevalence":
        shift, ids = np.log(np.maximum(counts, 1)), np.full(n_classes, -1)
        scores = np.where(is_known, scores + shift[labels], np.inf)
    elif by == "cluster":
        ids, rows = _clusters(scores, labels, n_classes, coverage, groups)
    limits = _smallest(scores[rows], np.where(is_known, ids[labels], -1)[rows], int(ids.max()) + 1, coverage)
    overall = _smallest(scores, np.zeros(len(scores), dtype=np.int64), 1, coverage)
    return SetRule(coverage, 0.0, 1, 0.0, shift - np.append(limits, overall)[ids] - ROUNDING)


def _smallest(scores: Doubles, ids: NDArray[np.int64], n: int, coverage: float) -> Doubles:
    """Return the ceil((n + 1) coverage)-th smallest score of each of n groups; infinite where there are too few."""
    order, counts = np.lexsort((scores, ids)), np.bincount(ids[ids >= 0], minlength=n)
    ranks = np.ceil((counts + 1) * coverage - 1e-9).astype(np.int64)
    places = np.count_nonzero(ids < 0) + np.cumsum(counts) - counts + ranks - 1
    return np.where(ranks <= counts, np.append(scores[order], np.inf)[np.minimum(places, len(scores))], np.inf)


def _clusters(
    scores: Doubles, labels: Ids, n_classes: int, coverage: float, groups: GroupIds | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the cluster of each class, -1 where it has too few rows, and the rows that have not found clusters."""
    n_least = int(np.ceil(coverage / (1 - coverage) - 1e-9))  # by fewer rows a limit is infinite
    counts, ids = np.bincount(labels[labels >= 0], minlength=n_classes), np.full(n_classes, -1)
    n_each = max(n_least, int(counts[counts > 0].min(initial=len(labels))))
    share = (n_many := int(np.sum(counts >= n_each))) / (n_many + ROWS_OF_CLUSTERS)
    is_drawn, n_clusters = _draw(share, len(labels), groups), int(share * n_each / 2)
    drawn = np.bincount(labels[is_drawn & (labels >= 0)], minlength=n_classes)
    classes = np.flatnonzero(drawn >= n_least)
    if n_clusters < 2 or len(classes) <= n_clusters:
        return ids, np.ones(len(labels), dtype=bool)
    parts = [scores[is_drawn & (labels == k)] for k in classes]
    quantiles = np.array([np.quantile(part, (*QUANTILES, coverage)) for part in parts])
    means = KMeans(n_clusters, n_init=10, random_state=0)
    ids[classes] = means.fit(quantiles, sample_weight=np.sqrt(drawn[classes])).labels_
    return ids, ~is_drawn


def above_limits(
    log_probabilities: LogProbabilities, x: Matrix, limits: Doubles
) -> tuple[NDArray[np.int64], Ids, Floats]:
    """Return what `ranked_in_sets` does, by the least log-probability of each class."""
    step, parts = max(1, BLOCK_NUMBERS // len(limits)), []
    for first in range(0, max(1, x.shape[0]), step):
        log_p = log_probabilities(x[first : first + step])
        inside = log_p >= np.minimum(limits, log_p.max(axis=1, keepdims=True))
        rows, positions = np.nonzero(inside)
        order = np.lexsort((-log_p[inside], rows))
        parts.append((inside.sum(axis=1), positions[order].astype(np.int32), log_p[inside][order].astype(np.float32)))
    sizes, ids, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return np.concatenate([[0], np.cumsum(sizes)]), ids, values


# Sets by ranks


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


def least_score(threshold: float | None, *, is_probability: bool) -> float:
    """Return what a score must exceed, that of a model with probabilities being their logarithm; None: any does."""
    if threshold is None:
        return -np.inf
    low, high = (0, 1) if is_probability else (-np.inf, np.inf)
    check_number("threshold", threshold, low=low, high=high)
    return threshold if not is_probability else float(np.log(threshold)) if threshold else -np.inf
