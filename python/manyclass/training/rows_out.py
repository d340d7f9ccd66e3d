"""Which rows are held out of a training, to tell what those that are trained on cannot: whole groups of them.

Rows of one person, typeface or visit stand together: a model that was trained on the others of a group knows more of a
row than it will of rows to be predicted, so that rows held out by themselves praise what memorises. All that holds rows
out - scales of scores, temperatures, early stopping, trials and cross-validation - asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Ids

GroupIds = NDArray[np.int64]  # of each row the number of its group
Random = np.random.RandomState | np.random.Generator


def draw_rows_out(
    n_out: int, n_rows: int, random: Random, groups: GroupIds | None = None, labels: Labels | None = None
) -> NDArray[np.bool_]:
    """Draw which rows are held out.

    Groups are drawn at random, whole, until they have n_out rows; one is drawn in any case, a smallest one where all
    have more. Where each group has a label that no other one has, rows with such labels are trained on.

    Parameters
    ----------
    n_out : int
        Rows to hold out at most.
    n_rows : int
        Rows that there are.
    random : RandomState or Generator
    groups : ndarray of shape (n_rows,) or more, int64, or None
        None, or one group alone: each row stands by itself.
    labels : Labels or None
        Every label keeps a row that is not held out; None: it need not.

    Returns
    -------
    ndarray of shape (n_rows,), bool
    """
    groups = None if groups is None else groups[:n_rows]
    if groups is None or (groups == groups[:1]).all():
        if labels is not None:
            return _core.spare_points(labels.indptr, labels.ids, random.permutation(n_rows), n_out)
        is_out = np.zeros(n_rows, dtype=bool)
        is_out[random.choice(n_rows, n_out, replace=False)] = True
        return is_out
    _, positions, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    order = order[np.argsort(np.where(sizes > n_out, sizes, 0)[order], kind="stable")]  # the largest ones come last
    can_be_out = np.ones(len(sizes), dtype=bool)
    if labels is not None:
        can_be_out = _groups_to_spare(labels, positions, order)
    order = order[can_be_out[order]]
    n_drawn = np.searchsorted(np.cumsum(sizes[order]), n_out, side="right")
    is_drawn = np.zeros(len(sizes), dtype=bool)
    is_drawn[order[: max(1, n_drawn)]] = True
    is_out = is_drawn[positions]
    return is_out if labels is None else is_out & labels.known_from(labels.of(np.flatnonzero(~is_out)))


def _groups_to_spare(labels: Labels, positions: NDArray[np.intp], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return groups without which every label is left; where there are none, those with a label that others have."""
    n_groups, pairs = len(order), _groups_with_labels(labels, positions)
    keeps_labels = _core.spare_points(
        pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), order[::-1].astype(np.int64), n_groups
    )
    if keeps_labels.any():
        return keeps_labels
    is_shared = (np.bincount(pairs.indices) > 1)[labels.ids]
    rows = np.add.reduceat(~is_shared, labels.indptr[:-1]) == 0
    return np.bincount(positions, rows, minlength=n_groups) > 0


def _groups_with_labels(labels: Labels, positions: NDArray[np.integer[Any]]) -> Any:
    """Return which groups have which labels: a matrix that stores each pair once."""
    pairs: Any = sp.csr_array((np.ones(len(labels.ids), np.int8), (positions[labels.rows], labels.ids)))
    pairs.sum_duplicates()
    return pairs


def can_hold_out_groups(labels: Labels, groups: GroupIds) -> bool:
    """Whether a label is in two groups, so that one of them can be held out and tell of what the other has taught."""
    return bool((np.bincount(_groups_with_labels(labels, groups).indices) > 1).any())


def join_groups(parts: Sequence[GroupIds | None]) -> GroupIds | None:
    """Return the groups of rows that come one part after the other, none of which has a group of another."""
    sizes = [0 if groups is None else int(groups.max(initial=-1)) + 1 for groups in parts]
    firsts = np.cumsum([0, *sizes])
    shifted = [groups + first for groups, first in zip(parts, firsts, strict=False) if groups is not None]
    return np.concatenate(shifted) if len(shifted) == len(parts) else None


def draw_folds(
    labels: Ids, n_folds: int, random: np.random.RandomState, groups: GroupIds | None = None
) -> NDArray[np.intp]:
    """Draw which fold a row is held out in, (n_rows,): whole groups, or each class in turn.

    It is -1 for rows that are in none, as no row of their class would be left.
    """
    if groups is None or (groups == groups[:1]).all():
        return _core.folds_of(labels, random.permutation(len(labels)), n_folds)
    _, positions, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of_group = np.empty(len(sizes), dtype=np.intp)
    fold_of_group[order] = np.arange(len(sizes)) % n_folds
    folds = fold_of_group[positions]
    n_rows = np.zeros((n_folds, labels.max() + 1), dtype=np.int64)
    np.add.at(n_rows, (folds, labels), 1)
    folds[n_rows[folds, labels] == n_rows.sum(axis=0)[labels]] = -1
    return folds
