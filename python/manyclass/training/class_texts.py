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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from manyclass.training.blend import CELLS, MOST_HELD_OUT
from manyclass.training.plan import Labels
from manyclass.training.state import Points, State
from manyclass.weights.arrays import Doubles, Floats

SHRINKAGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)  # c, in rows
GAIN = 5.0  # nats, of all held-out rows together
LEAST_UNSEEN = 0.01
MOST_SCALE = 100.0
TINY = 1e-300
FEWEST_ROWS = 20  # held out


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
        kept = np.ones(len(points.labels), dtype=bool)
        first = len(kept) - self.n_texts
        kept[first:] = self.counts[points.labels.ids[points.labels.indptr[first:-1]]] == 0
        return kept

    def share_features(self, points: Points) -> bool:
        """Whether a text has a feature that one of these points has; without, texts say nothing of them."""
        used = np.zeros(self.rows.shape[1], dtype=bool)
        used[sp.csr_array(points.x).indices] = True
        return bool(used[self.rows.indices].any())

    def scales(self, state: State, held: Points, n_threads: int) -> ClassScales:
        """Return s_k of each class, by rows that the state was not trained on.

        Raises
        ------
        ValueError
            If there are too few rows.
        """
        held = held.some(np.flatnonzero(self._others(held)))
        n = len(held.labels)
        if n < FEWEST_ROWS:
            raise ValueError(
                f"class_text needs {FEWEST_ROWS} rows that are held out to tell how much texts say; there are {n}: "
                "give more rows"
            )
        n = min(n, MOST_HELD_OUT, max(FEWEST_ROWS, CELLS // len(self.counts)))
        some = held.some(np.linspace(0, len(held.labels) - 1, n).astype(np.int64))
        r = np.ones(n) if some.weights is None else some.weights
        search = _Search(state.weights.scores(some.x, n_threads), some.x @ self.rows.T, some.labels, self.counts, r)
        return search.scales(np.diff(self.rows.indptr) > 0)

    def _others(self, points: Points) -> NDArray[np.bool_]:
        """Which points are not the very text of a class of theirs, as new rows seldom are."""
        labels = points.labels
        x, texts = sp.csr_array(points.x), self.rows[labels.ids]
        x = x[np.repeat(np.arange(len(labels)), np.diff(labels.indptr))]
        products = np.asarray(x.multiply(texts).sum(axis=1)).ravel()
        lengths = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)) * np.asarray(texts.multiply(texts).sum(axis=1))).ravel()
        same = (products > (1 - 1e-5) * lengths) & (lengths > 0)
        return np.asarray(np.add.reduceat(same, labels.indptr[:-1]) == 0)


@dataclass(frozen=True)
class ClassScales:
    """What the row of the text of each class is multiplied by, the loss of held-out rows, and what is told of both."""

    of_classes: Doubles
    loss: float
    told: str

    def added_to(self, state: State, texts: ClassTexts) -> State:
        """Return a state whose classes have their texts, times these scales, added to their weights."""
        rows = sp.csr_array(sp.diags_array(self.of_classes) @ texts.rows, dtype=np.float32)
        rows.eliminate_zeros()
        return state if not rows.nnz else replace(state, weights=state.weights.plus_pairs(rows), squares=None)


class _Search:
    """The loss of held-out rows by the scales of texts, which move the scores of texts that share a term with them.

    It is that of the decoupled softmax, whose labels of a row do not compete; of one label a row it is the log-loss.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes), float32
        Overwritten.
    alike : sparse matrix of shape (n_rows, n_classes)
        Products of rows and texts.
    labels : Labels
    counts : ndarray of shape (n_classes,), float64
        Rows of each class.
    weights : ndarray of shape (n_rows,), float64
    """

    def __init__(self, scores: Floats, alike: Any, labels: Labels, counts: Doubles, weights: Doubles) -> None:
        self._counts, self._ids, self._n_rows = counts, labels.ids, len(labels)
        n_labels = np.diff(labels.indptr)
        self._rows = rows = np.repeat(np.arange(len(labels)), n_labels)
        self._weights = weights[rows] / n_labels[rows]
        alike = sp.csr_array(alike, dtype=np.float64)
        self._of_own = np.asarray(alike[rows, labels.ids]).ravel()
        top = scores.max(axis=1).astype(np.float64)
        self._top = top[rows]
        self._own = scores[rows, labels.ids] - self._top
        scores[rows, labels.ids] = -np.inf  # what is left competes with each label
        at = np.repeat(np.arange(len(labels)), np.diff(alike.indptr))
        z = scores[at, alike.indices]
        others = np.isfinite(z)
        self._at, self._classes, self._alike = at[others], alike.indices[others], alike.data[others]
        self._z = z[others] - top[self._at]
        self._plain = scores[:, counts == 0].astype(np.float64)
        self._sums = np.exp(scores - top[:, np.newaxis], dtype=np.float64).sum(axis=1)

    def scales(self, has_text: NDArray[np.bool_]) -> ClassScales:
        """See `ClassTexts.scales`."""
        none = self._loss(np.zeros(len(self._counts)))
        loss, scale, shrinkage = min(self._best(c) for c in SHRINKAGES)
        told = "texts do not count"
        if (none - loss) * self._n_rows <= GAIN:
            loss, scale = none, 0.0
        else:
            by_rows = "" if np.isinf(shrinkage) else f" x {shrinkage:g} / ({shrinkage:g} + rows)"
            told = f"texts count {scale:.3g}{by_rows}: held-out loss {loss:.4f} for {none:.4f} nats"
        found, unseen = scale * self._shares(shrinkage), (self._counts == 0) & has_text
        if unseen.any():
            found[unseen] = of_unseen = self._best_of_unseen(found, unseen)
            told += f"; {of_unseen:.3g} of {unseen.sum()} classes without rows"
        return ClassScales(found, loss, told)

    def _shares(self, shrinkage: float) -> Doubles:
        """What texts count by the rows of classes; 0 of classes without rows."""
        share = np.ones(len(self._counts)) if np.isinf(shrinkage) else shrinkage / (shrinkage + self._counts)
        return np.where(self._counts > 0, share, 0.0)

    def _best(self, shrinkage: float) -> tuple[float, float, float]:
        """Return the least loss of scales by a shrinkage, which is convex in their factor, the factor, and that."""
        shares = self._shares(shrinkage)
        found = _least(lambda scale: self._loss(scale * shares))
        return self._loss(found * shares), found, shrinkage

    def _others(self, scales: Doubles) -> Doubles:
        """Return the sum of e^z over what competes with each label."""
        z = self._z + scales[self._classes] * self._alike
        moved = np.bincount(self._at, np.exp(z) - np.exp(self._z), minlength=self._n_rows)
        return np.asarray(np.maximum(self._sums + moved, TINY)[self._rows])

    def _loss(self, scales: Doubles) -> float:
        own = self._own + scales[self._ids] * self._of_own
        return float(np.average(np.logaddexp(np.log(self._others(scales)), own) - own, weights=self._weights))

    def _best_of_unseen(self, of_seen: Doubles, unseen: NDArray[np.bool_]) -> float:
        """Return the scale of classes without rows; see the head of the file."""
        theirs = unseen[self._classes]
        mean = float(np.mean(self._plain[np.isfinite(self._plain)]))
        at = np.zeros(self._n_rows)
        at[self._rows] = self._top
        constant, slope = _line(self._alike[theirs], self._z[theirs] + at[self._at[theirs]], mean)
        share = max(LEAST_UNSEEN, float((self._counts == 1).sum() / max(1.0, self._counts.sum())))

        def loss(scale: float) -> float:
            scales = np.where(unseen, scale, of_seen)
            own = constant + (slope + scale) * self._of_own - self._top
            as_new = np.logaddexp(np.log(self._others(scales)), own) - own
            return (1 - share) * self._loss(scales) + share * float(np.average(as_new, weights=self._weights))

        return _least(loss)


def _least(loss: Callable[[float], float]) -> float:
    """Return where a loss of a scale is least."""
    return float(minimize_scalar(loss, bounds=(0, MOST_SCALE), method="bounded", options={"xatol": 0.01}).x)


def _line(at: Doubles, values: Doubles, otherwise: float) -> tuple[float, float]:
    """Return constant and slope of the least squares of values over places; a constant alone where these are alike."""
    if len(at) < 2 or np.ptp(at) == 0:
        return (float(np.mean(values)) if len(at) else otherwise), 0.0
    slope, constant = np.polyfit(at, values, 1)
    return float(constant), float(slope)
