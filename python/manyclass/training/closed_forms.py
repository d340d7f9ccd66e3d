"""Weights in closed form, from which a linear model begins: the discriminant of dense rows, naive Bayes of sparse ones.

Naive Bayes has log p(feature | class) / p(feature) on the pairs that occur together, p being shares of the sums of
values, and 0 elsewhere. The discriminant is the probabilistic one (Ioffe 2006; Prince & Elder 2007): rows of a class
are normal around its mean with one covariance S, and means are normal around the mean of all rows with another, T. In a
basis in which S is the unit matrix and T is diagonal with variances t, a class with n rows of mean m has its true mean
at f m, f = t / (t + 1/n), and a new row varies around that by 1 + f/n, of which the mean over classes is taken, so that
log-densities are linear but for what all classes share. Directions in which means do not differ have no weights, and a
class of a single row has those that one row is worth. Where all classes have many rows it is Fisher's discriminant.

Two numbers that rows held out tell multiply the weights and the logarithms of the classes' shares, the intercepts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.training.blend import CELLS, MOST_HELD_OUT, SHARE_HELD_OUT, best_scales
from manyclass.training.plan import Labels
from manyclass.training.start import LARGEST, Start
from manyclass.training.validation import held_out
from manyclass.training.weighting import shares_of_classes, some_of
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

# The covariance is taken from this number of rows, drawn at random: it is known well then, and takes a second where
# there are a thousand features.
MOST_ROWS = 20_000
# Beyond, S and T are multiples of the unit matrix: the others would take more memory than 128 MB, and minutes.
MOST_FEATURES = 4096
# Of rows held out of few: naive Bayes is too sure, and 20 rows that it happens to tell rightly have no best scale.
SHARE_OF_SPARSE = 0.3
LEAST_VARIANCE = 1e-6  # in units of the mean one


def begin_at_closed_form(
    x: Matrix, labels: Ids, n_classes: int, weights: Doubles | None, seed: int, n_threads: int
) -> Start | None:
    """Return the weights and intercepts, on the scales that are best for rows left out; None where that is nothing.

    Parameters
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features), float32
    labels : ndarray of shape (n_samples,), int32
    n_classes : int
    weights : ndarray of shape (n_samples,), float64, of mean 1, or None
    seed, n_threads : int
    """
    random = np.random.RandomState(seed % 2**32)
    share = SHARE_OF_SPARSE if isinstance(x, sp.csr_array) else SHARE_HELD_OUT
    n_held = min(MOST_HELD_OUT, int(share * len(labels)), max(1, CELLS // n_classes))
    if n_held == 0 or np.bincount(labels).max() < 2:
        return None
    held = held_out(labels, n_held / len(labels), random)
    kept, out = np.flatnonzero(~held), np.flatnonzero(held)
    r = some_of(weights, kept)
    found = _closed_form(x[kept], labels[kept], n_classes, r, random)
    if found is None:
        return None
    # Shares of the rows that are left: those of all rows would tell of which classes some were left out.
    no_pairs = np.zeros(x.shape[1] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    scales = best_scales(
        found.weights_of_scores(),
        Weights.on_pairs(*no_pairs, _log_shares(labels[kept], n_classes, r)),
        x[out],
        Labels.single(labels[out]),
        n_threads,
        some_of(weights, out),
    )
    del found  # as large as W
    whole = _closed_form(x, labels, n_classes, weights, random)
    if whole is None:
        return None
    of_coef = whole.coef.data if isinstance(whole.coef, sp.csr_array) else whole.coef
    of_coef *= np.float32(scales[0])
    prior = _log_shares(labels, n_classes, weights)
    intercept = np.float32(scales[0]) * whole.intercept + np.float32(scales[1]) * prior
    usable = np.isfinite(intercept).all() and np.abs(of_coef).max(initial=0) <= LARGEST
    return Start(whole.coef, intercept) if usable else None


def _log_shares(labels: Ids, n_classes: int, weights: Doubles | None) -> Floats:
    found: Floats = np.log(shares_of_classes(labels, n_classes, len(labels), weights)).astype(np.float32)
    return found


def _closed_form(
    x: Matrix, labels: Ids, n_classes: int, weights: Doubles | None, random: np.random.RandomState
) -> Start | None:
    """Weights and intercepts without the prior."""
    if isinstance(x, sp.csr_array):
        return _naive_bayes(x, labels, n_classes, weights)
    return _discriminant(x, labels, n_classes, weights, random)


def _naive_bayes(x: sp.csr_array, labels: Ids, n_classes: int, weights: Doubles | None) -> Start | None:
    """Weights on the pairs that occur together; None where nothing does.

    Raises
    ------
    ValueError
        For values below 0, which are no sums of what occurred.
    """
    if x.data.min(initial=0) < 0:
        raise ValueError(
            f"coef_init is 'closed_form', which is naive Bayes of sparse rows, whose values must be 0 and more; the "
            f"least is {x.data.min()}: give an array of weights, or dense rows"
        )
    r = np.ones(len(labels)) if weights is None else weights
    of_classes = sp.csr_array((r, labels, np.arange(len(labels) + 1)), shape=(len(labels), n_classes))
    together = sp.csr_array(of_classes.T @ x.astype(np.float64))
    together.eliminate_zeros()
    if together.nnz == 0:
        return None
    of_class, of_feature = together.sum(axis=1), together.sum(axis=0)
    rows = np.repeat(np.arange(n_classes), np.diff(together.indptr))
    shares = together.data / of_class[rows] / (of_feature / of_feature.sum())[together.indices]
    together.data = np.log(shares).astype(np.float32)
    return Start(together, np.zeros(n_classes, dtype=np.float32))


def _discriminant(
    x: Floats, labels: Ids, n_classes: int, weights: Doubles | None, random: np.random.RandomState
) -> Start | None:
    """Weights and intercepts as the densities have them, without the prior; None where classes do not differ."""
    r = np.ones(len(labels)) if weights is None else weights
    counts, centre, means = _core.class_means(x, labels, n_classes, r)
    rows = np.flatnonzero(counts[labels] > r)  # a single row says nothing of the spread within its class
    if len(rows) <= 1:
        return None
    if len(rows) > MOST_ROWS:
        rows = np.sort(random.choice(rows, MOST_ROWS, replace=False))
    within = _core.within_classes(x, labels, r, rows, counts, centre, means)
    unit = float(np.sqrt(np.mean(np.square(within))))
    if not 0 < unit < np.inf:
        return None
    within /= unit
    means /= np.float32(unit)
    there = counts > 0
    if x.shape[1] > MOST_FEATURES:
        basis, variances = None, np.array([np.mean(np.square(means[there], dtype=np.float64))])
    else:
        # In this basis deviations have the unit covariance, then their axes are turned into those of the means.
        basis = np.linalg.cholesky(np.linalg.inv(_covariance(within)))
        some = np.flatnonzero(there)
        if len(some) > MOST_ROWS:
            some = np.sort(random.choice(some, MOST_ROWS, replace=False))
        variances, turn = np.linalg.eigh(_covariance(means[some] @ basis))
        basis = basis @ turn
        means = means @ basis.astype(np.float32)
    found = _core.shrink_means(counts, variances, np.ascontiguousarray(means))
    if found is None:
        return None
    coef, offset = found
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what is found
        coef = (coef if basis is None else coef @ basis.T.astype(np.float32)) / np.float32(unit)
        intercept = offset - np.einsum("kj,j->k", coef, centre, dtype=np.float64)
        return Start(coef, intercept.astype(np.float32))


def _covariance(deviations: NDArray[Any]) -> NDArray[np.float64]:
    """The covariance of deviations from 0, shrunk to a multiple of the unit matrix as Ledoit & Wolf (2004)."""
    from sklearn.covariance import ledoit_wolf  # late: a tenth of what it takes to import all else

    found, _ = ledoit_wolf(deviations, assume_centered=True)
    # No direction varies less than float32 can tell from none.
    found[np.diag_indices_from(found)] += LEAST_VARIANCE * np.trace(found) / len(found)
    return np.asarray(found, dtype=np.float64)
