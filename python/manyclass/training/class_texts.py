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
the smaller log-loss of held-out rows is taken.

References
----------
I. J. Good, "The population frequencies of species and the estimation of population parameters", Biometrika 40, 1953.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from manyclass import _core
from manyclass.training.blend import CELLS, DECOUPLED, MEAN_LOG_LOSS
from manyclass.training.state import Points, State
from manyclass.weights.arrays import Doubles, Floats, Ids

SHRINKAGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)  # c, in rows
GAIN = 5.0  # nats, of all held-out rows together
LEAST_UNSEEN = 0.01
MOST_SCALE, START = 100.0, 5.0
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
        n = min(n, max(FEWEST_ROWS, CELLS // len(self.counts)))
        some = held.some(np.linspace(0, len(held.labels) - 1, n).astype(np.int64))
        search = _Search(
            state.weights.scores(some.x, n_threads),
            sp.csr_array(some.x @ self.rows.T),
            self.counts,
            np.diff(self.rows.indptr) > 0,
            some.labels.indptr,
            some.labels.ids,
            np.ones(n) if some.weights is None else some.weights,
            n_threads,
        )
        return search.scales()

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


@dataclass(frozen=True)
class _Search:
    """Scores of held-out rows, how alike they are to texts, and their labels."""

    scores: Floats
    alike: sp.csr_array
    counts: Doubles
    has_text: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    ids: Ids
    weights: Doubles
    n_threads: int

    def scales(self) -> ClassScales:
        """See `ClassTexts.scales`."""
        none = self._searched(np.inf, [0.0], [0.0])[1]
        loss, scale, shrinkage = min((found[1], found[0][1], c) for c, found in self._tried())
        told = "texts do not count"
        if (none - loss) * len(self.weights) <= GAIN:
            loss, scale = none, 0.0
        else:
            by_rows = "" if np.isinf(shrinkage) else f" x {shrinkage:g} / ({shrinkage:g} + rows)"
            told = f"texts count {scale:.3g}{by_rows}: held-out loss {loss:.4f} for {none:.4f} nats"
        found, unseen = scale * self._shares(shrinkage), (self.counts == 0) & self.has_text
        if unseen.any():
            found[unseen] = of_unseen = self._best_of_unseen(found, unseen)
            told += f"; {of_unseen:.3g} of {unseen.sum()} classes without rows"
        return ClassScales(found, loss, told)

    def _shares(self, shrinkage: float) -> Doubles:
        """What texts count by the rows of classes; 0 of classes without rows."""
        share = np.ones(len(self.counts)) if np.isinf(shrinkage) else shrinkage / (shrinkage + self.counts)
        return np.where(self.counts > 0, share, 0.0)

    def _tried(self) -> list[tuple[float, tuple[list[float], float]]]:
        return [(c, self._searched(c, [0.0], [MOST_SCALE])) for c in SHRINKAGES]

    def _searched(self, shrinkage: float, low: list[float], high: list[float]) -> tuple[list[float], float]:
        text = (self.alike * self._shares(shrinkage)).toarray().astype(np.float32)
        return _core.best_scales(
            terms=[self.scores, np.ascontiguousarray(text)],
            indptr=self.indptr,
            ids=self.ids,
            weights=self.weights,
            n_threads=self.n_threads,
            loss=MEAN_LOG_LOSS if len(self.ids) == len(self.weights) else DECOUPLED,
            start=[1.0, min(START, high[0])],
            low=[1.0, *low],
            high=[1.0, *high],
        )

    def _best_of_unseen(self, of_seen: Doubles, unseen: NDArray[np.bool_]) -> float:
        """Return the scale of classes without rows; see the head of the file."""
        rows = np.repeat(np.arange(len(self.weights)), np.diff(self.indptr))
        r = self.weights[rows] / np.diff(self.indptr)[rows]
        z = self.scores + (self.alike * of_seen).toarray()
        top = z.max(axis=1)
        z -= top[:, np.newaxis]
        own, sums = z[rows, self.ids], np.exp(z[:, ~unseen]).sum(axis=1)[rows]
        base, alike = z[:, unseen], sp.csr_array(self.alike[:, np.flatnonzero(unseen)])
        at = np.repeat(np.arange(alike.shape[0]), np.diff(alike.indptr))
        of_alike, plain = base[at, alike.indices], np.exp(base).sum(axis=1)
        constant, slope = _line(alike.data, of_alike + top[at], float(np.mean(base + top[:, np.newaxis])))
        first, of_own = constant - top[rows], np.asarray(self.alike[rows, self.ids]).ravel()
        share = max(LEAST_UNSEEN, float((self.counts == 1).sum() / max(1.0, self.counts.sum())))

        def loss(scale: float) -> float:
            more = np.exp(of_alike + scale * alike.data) - np.exp(of_alike)
            taken = (plain + np.bincount(at, more, minlength=len(plain)))[rows]
            as_it_is = np.log(sums + taken) - own
            new = first + (slope + scale) * of_own
            as_new = np.log(np.maximum(sums - np.exp(own), 0) + taken + np.exp(new)) - new
            return float(np.average((1 - share) * as_it_is + share * as_new, weights=r))

        return float(minimize_scalar(loss, bounds=(0, MOST_SCALE), method="bounded", options={"xatol": 0.01}).x)


def _line(at: Floats, values: Doubles, otherwise: float) -> tuple[float, float]:
    """Return constant and slope of the least squares of values over places; a constant alone where these are alike."""
    if len(at) < 2 or np.ptp(at) == 0:
        return (float(np.mean(values)) if len(at) else otherwise), 0.0
    slope, constant = np.polyfit(at.astype(np.float64), values, 1)
    return float(constant), float(slope)
