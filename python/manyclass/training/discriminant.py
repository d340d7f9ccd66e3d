"""Linear discriminant analysis: weights of dense rows in closed form, from which a linear model begins.

The rows of a class are taken as normal around its mean, with one covariance S for all classes, and the means as normal
around the mean of all rows, with covariance t S. Given the n rows of a class with mean m, its true mean is expected at
f m, f = t / (t + 1/n), and a new row varies around that by (1 + f/n) S. The log-density is linear in the row but for a
square that hardly differs between classes and is left out. Where a class has a single row this shrinks its weights to
what that row is worth; where all have many it is Fisher's discriminant.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from manyclass.training.blend import CELLS, MOST_HELD_OUT, SHARE_HELD_OUT, best_scales
from manyclass.training.plan import Labels
from manyclass.training.start import LARGEST, Start
from manyclass.training.validation import held_out
from manyclass.training.weighting import shares_of_classes, some_of
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import Weights

# The covariance is taken from this number of rows, drawn at random: it is known well then, and takes a second where
# there are a thousand features.
MOST_ROWS = 20_000
# Beyond, S is a multiple of the unit matrix: the other one would take more memory than 128 MB, and minutes.
MOST_FEATURES = 4096
LEAST_VARIANCE = 1e-6  # in units of the mean one


def begin_at_discriminant(
    x: Floats, labels: Ids, n_classes: int, weights: Doubles | None, seed: int, n_threads: int
) -> Start | None:
    """Return the weights and intercepts, on the scales that are best for rows left out; None where that is nothing.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features), float32
    labels : ndarray of shape (n_samples,), int32
    n_classes : int
    weights : ndarray of shape (n_samples,), float64, of mean 1, or None
    seed, n_threads : int
    """
    random = np.random.RandomState(seed % 2**32)
    n_held = min(MOST_HELD_OUT, int(SHARE_HELD_OUT * len(labels)), max(1, CELLS // n_classes))
    if n_held == 0 or np.bincount(labels).max() < 2:
        return None
    held = held_out(labels, n_held / len(labels), random)
    kept, out = np.flatnonzero(~held), np.flatnonzero(held)
    r = some_of(weights, kept)
    found = _discriminant(x[kept], labels[kept], n_classes, r, random)
    if found is None:
        return None
    # Shares of the rows that are left: those of all rows would tell of which classes some were left out.
    no_pairs = np.zeros(x.shape[1] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    scales = best_scales(
        Weights.linear(found.coef, found.intercept, by_feature=False),
        Weights.on_pairs(*no_pairs, _log_shares(labels[kept], n_classes, r)),
        x[out],
        Labels.single(labels[out]),
        n_threads,
        some_of(weights, out),
    )
    del found  # as large as W
    whole = _discriminant(x, labels, n_classes, weights, random)
    if whole is None:
        return None
    whole.coef[...] *= np.float32(scales[0])
    prior = _log_shares(labels, n_classes, weights)
    intercept = np.float32(scales[0]) * whole.intercept + np.float32(scales[1]) * prior
    usable = np.isfinite(intercept).all() and np.abs(whole.coef).max(initial=0) <= LARGEST
    return Start(whole.coef, intercept) if usable else None


def _log_shares(labels: Ids, n_classes: int, weights: Doubles | None) -> Floats:
    found: Floats = np.log(shares_of_classes(labels, n_classes, len(labels), weights)).astype(np.float32)
    return found


def _discriminant(
    x: Floats, labels: Ids, n_classes: int, weights: Doubles | None, random: np.random.RandomState
) -> Start | None:
    """Weights and intercepts as the densities have them, without the prior; None where classes do not differ."""
    r = np.ones(len(labels)) if weights is None else weights
    counts = np.bincount(labels, r, n_classes)
    by_class = sp.csr_array((r.astype(np.float32), (labels, np.arange(len(labels)))), shape=(n_classes, len(labels)))
    centre = np.average(x, axis=0, weights=r).astype(np.float32)
    means: Floats = by_class @ x
    there = counts > 0
    means[there] /= counts[there, np.newaxis].astype(np.float32)
    means[there] -= centre
    n_features, several = x.shape[1], counts[labels] > r  # a single row says nothing of the spread within its class
    rows = np.flatnonzero(several)
    if len(rows) <= 1:
        return None
    if len(rows) > MOST_ROWS:
        rows = np.sort(random.choice(rows, MOST_ROWS, replace=False))
    # Deviations from means of n rows are short by 1/n of those from the true mean.
    n = np.maximum(counts[labels[rows]] / r[rows], 1 + np.finfo(np.float64).eps)
    within: NDArray[np.float64] = (x[rows] - centre - means[labels[rows]]) * np.sqrt(n / (n - 1))[:, np.newaxis]
    unit = float(np.sqrt(np.mean(np.square(within))))
    if not 0 < unit < np.inf:
        return None
    within /= unit
    means /= np.float32(unit)
    coef = means @ _precision(within) if n_features <= MOST_FEATURES else means.copy()
    length = np.einsum("kj,kj->k", coef, means, dtype=np.float64)
    n = counts[there]
    spread = float(np.average(length[there] - n_features / n)) / n_features
    if not spread > 0:
        return None
    shrunk = np.zeros(n_classes)
    shrunk[there] = spread / (spread + 1 / n)
    sharp = shrunk / (1 + shrunk / np.maximum(counts, np.finfo(np.float64).tiny))
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what is found
        coef *= (sharp[:, np.newaxis] / unit).astype(np.float32)
        intercept = -0.5 * shrunk * sharp * length - np.einsum("kj,j->k", coef, centre, dtype=np.float64)
        return Start(coef, intercept.astype(np.float32))


def _precision(within: NDArray[np.float64]) -> Floats:
    """The inverse of the covariance of deviations, shrunk as Ledoit & Wolf (2004); their mean square is 1."""
    covariance, _ = ledoit_wolf(within, assume_centered=True)
    # No direction varies less than float32 can tell from none.
    found: Floats = np.linalg.inv(covariance + LEAST_VARIANCE * np.eye(within.shape[1])).astype(np.float32)
    return found
