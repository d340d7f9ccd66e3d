"""Texts of classes in a model of texts: w_k = v_k + s_k phi(text_k), phi being what makes rows of texts.

The text of a class is a row of it, so that v_k of a class without other rows is not 0, and the softmax is over all
classes. Beside, its row is added to the weights of the class, times s_k. Rows that the fit has not seen tell these
scales, without those that are the very text of their class:

- A class with n_k rows has s c / (c + n_k): many rows know more of it than its name does. s and c have the least
  log-loss; where that is not less than without them by 5 nats together, s is 0.
- A class without rows has a scale of its own. It has the least sum of two losses: that of the held-out rows as they
  are, whose probability classes without rows take from, and that of the same rows with the class of each taken for one
  without rows, whose scores are on the line that fits those of such classes best over the similarity of row and text.
  The share of the second is the probability that a row is of a class not yet seen, which by Good's estimate is the
  share of classes of one row among all rows, and at least 1 %.

The fit is made twice: with the texts of all classes as rows, and with those of classes without rows alone. The one with
the smaller log-loss of held-out rows is taken. It is made once where both are the same. Where no text shares a feature
with a row, a warning says so; then no row is held out, and the model is as without texts.

A text counts as a row in `class_count_`. Embeddings alone get weights on pairs beside them, and `partial_fit` does not
go on with such a sum.

References
----------
I. J. Good, "The population frequencies of species and the estimation of population parameters", Biometrika 40, 1953.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending.blend import CELLS
from manyclass.checks import csr_parts
from manyclass.figures import FIGURES
from manyclass.training.plan import Labels
from manyclass.training.state import Points, State
from manyclass.weights.arrays import Doubles, Floats


@dataclass(frozen=True)
class ClassTexts:
    """The texts of some classes, which are the last points of a training.

    Attributes
    ----------
    rows : csr_array of shape (n_classes, n_features), float32
        Empty for a class without a text.
    counts : ndarray of shape (n_classes,), float64
        Rows of each class but its text.
    n_texts : int
    """

    rows: sp.csr_array
    counts: Doubles
    n_texts: int

    @classmethod
    def of(cls, points: Points) -> ClassTexts:
        """Return the texts among the points of a training."""
        n_rows, indptr = len(points.labels) - points.n_texts, points.labels.indptr
        ids, x = points.labels.ids[indptr[n_rows] :], sp.csr_array(points.x[n_rows:])
        lists = sp.csr_array((np.ones(len(ids), np.float32), (ids, np.arange(len(ids)))), (points.n_classes, len(ids)))
        counts = np.bincount(points.labels.ids[: indptr[n_rows]], minlength=points.n_classes)
        return cls(sp.csr_array(lists @ x, dtype=np.float32), counts.astype(np.float64), points.n_texts)

    def of_unseen(self, points: Points) -> NDArray[np.bool_]:
        """Return which points are rows, or texts of classes without rows."""
        is_kept = np.ones(len(points.labels), dtype=bool)
        first = len(is_kept) - self.n_texts
        is_kept[first:] = self.counts[points.labels.ids[points.labels.indptr[first:-1]]] == 0
        return is_kept

    def share_features(self, points: Points) -> bool:
        """Whether a text has a feature that one of these points has; without, texts say nothing of them."""
        used = np.zeros(self.rows.shape[1], dtype=bool)
        used[sp.csr_array(points.x).indices] = True
        return bool(used[self.rows.indices].any())

    def scales(self, state: State, held_out: Points, n_threads: int) -> ClassScales:
        """Return s_k of each class, by rows that the state was not trained on.

        Raises
        ------
        ValueError
            If there are too few rows.
        """
        x, labels = csr_parts(sp.csr_array(held_out.x)), held_out.labels
        # Points that are not the very text of a class of theirs, as new rows seldom are.
        others = _core.unlike_texts(x, labels.indptr, labels.ids, csr_parts(self.rows), self.rows.shape[1])
        held_out = held_out.some(np.flatnonzero(others))
        n = len(held_out.labels)
        if n < FIGURES.FEWEST_TO_HOLD_OUT:
            raise ValueError(
                f"class_text needs {FIGURES.FEWEST_TO_HOLD_OUT} rows that are held out to tell how much texts say; "
                f"there are {n}: give more rows"
            )
        sample = held_out.spread(min(FIGURES.MOST_HELD_OUT, max(FIGURES.FEWEST_TO_HOLD_OUT, CELLS // len(self.counts))))
        return scales_of(
            state.weights.scores(sample.x, n_threads),
            sample.x @ self.rows.T,
            sample.labels,
            self.counts,
            np.ones(len(sample.labels)) if sample.weights is None else sample.weights,
            np.diff(self.rows.indptr) > 0,
        )


@dataclass(frozen=True)
class ClassScales:
    """What the row of the text of each class is multiplied by, the loss of held-out rows, and what is said of both."""

    factors: Doubles
    loss: float
    description: str

    def added_to(self, state: State, texts: ClassTexts) -> State:
        """Return a state whose classes have their texts, times these scales, added to their weights."""
        rows = sp.csr_array(sp.diags_array(self.factors) @ texts.rows, dtype=np.float32)
        rows.eliminate_zeros()
        return state if not rows.nnz else replace(state, weights=state.weights.plus_pairs(rows), squares=None)


def scales_of(
    scores: Floats, alike: Any, labels: Labels, counts: Doubles, weights: Doubles, has_text: NDArray[np.bool_]
) -> ClassScales:
    """Return the scales of least loss on rows with these scores, by the core's evaluate/class_texts.hpp.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes), float32
    alike : sparse matrix of shape (n_rows, n_classes)
        Products of rows and texts.
    labels : Labels
    counts : ndarray of shape (n_classes,), float64
        Rows of each class.
    weights : ndarray of shape (n_rows,), float64
    has_text : ndarray of shape (n_classes,), bool
    """
    best = _core.class_text_scales(
        scores=scores,
        alike=csr_parts(sp.csr_array(alike, dtype=np.float32)),
        indptr=labels.indptr,
        ids=labels.ids,
        counts=counts,
        has_text=has_text,
        weights=weights,
    )
    description, shrinkage = "texts do not count", best["shrinkage"]
    if best["scale"] > 0:
        by_rows = "" if np.isinf(shrinkage) else f" x {shrinkage:g} / ({shrinkage:g} + rows)"
        losses = f"held-out loss {best['loss']:.4f} for {best['none']:.4f} nats"
        description = f"texts count {best['scale']:.3g}{by_rows}: {losses}"
    if n_unseen := int(((counts == 0) & has_text).sum()):
        description += f"; {best['of_unseen']:.3g} of {n_unseen} classes without rows"
    return ClassScales(best["of_classes"], best["loss"], description)
