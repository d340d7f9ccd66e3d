"""Weights that a training of single points starts from, other than 0: those of a user, or in closed form.

The closed form of dense rows is the discriminant, of sparse ones naive Bayes: log p(feature | class) / p(feature) on
the pairs that occur together, p being shares of the sums of values, and 0 elsewhere. The discriminant is the
probabilistic one (Ioffe 2006; Prince & Elder 2007): rows of a class are normal around its mean with one covariance S,
and means are normal around the mean of all rows with another, T. In a basis in which S is the unit matrix and T is
diagonal with variances t, a class with n rows of mean m has its true mean at f m, f = t / (t + 1/n), and a new row
varies around that by 1 + f/n, of which the mean over classes is taken, so that log-densities are linear but for what
all classes share. Directions in which means do not differ have no weights, and a class of a single row has those that
one row is worth. Where all classes have many rows it is Fisher's discriminant. Two numbers that rows held out tell
multiply the weights and the logarithms of the classes' shares, the intercepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.blending.blend import CELLS, best_scales
from manyclass.figures import FIGURES
from manyclass.training.plan import Labels, held_out
from manyclass.training.state import Points, State, finite_floats, shares_of_classes
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights, naive_bayes

# The square of more, times 32 features, is beyond single precision.
LARGEST = 2.0**60
ClosedForm = Literal["closed_form"]
CLOSED_FORM: ClosedForm = "closed_form"


def asked_start(
    coef: ArrayLike | None,
    intercept: ArrayLike | None,
    shape: tuple[int, int],
    *,
    fit_intercept: bool,
    has_closed_form: bool = False,
) -> Weights | ClosedForm:
    """Check what `fit` was given, of which one may be None, which is 0; a closed form has intercepts of its own.

    Raises
    ------
    ValueError
        For another shape, numbers that are not finite in float32, or intercepts of a model without.
    """
    if not (has_closed_form and isinstance(coef, str) and coef == CLOSED_FORM):
        if intercept is not None and not fit_intercept:
            raise ValueError("intercept_init is given, which has no effect with fit_intercept=False; leave it None")
        arrays = _checked("coef_init", coef, shape), _checked("intercept_init", intercept, shape[:1])
        return Weights.linear(*arrays, by_feature=False)
    if intercept is not None:
        raise ValueError(f"coef_init is {coef!r} and intercept_init is given; leave it None, or give arrays of both")
    if not fit_intercept:
        raise ValueError(f"coef_init is {coef!r}, which has intercepts; fit_intercept must be True, or give an array")
    return CLOSED_FORM


def put_start(start: Weights, weights: Weights, position: Ids) -> None:
    """Write first weights into those of a training, in which class k stands in place position[k]."""
    if start.has_pairs:
        pairs = start.coef.tocoo()
        weights.coef[position[pairs.row], pairs.col] = pairs.data
    else:
        weights.coef[position] = start.coef
    weights.intercept[position] = start.intercept


def norms_sq(weights: Weights) -> Doubles:
    """Squared norms of the rows of weights, without intercepts."""
    if weights.has_pairs:
        squares: Doubles = np.square(weights.values, dtype=np.float64)
        return np.bincount(weights.classes, squares, weights.n_classes).astype(np.float64)
    norms: Doubles = np.einsum("kj,kj->k", weights.coef, weights.coef, dtype=np.float64)
    return norms


def carried_at(weights: Weights, x: Matrix, labels: Ids, *, carry: float, n_threads: int) -> Doubles:
    """What each point carries where it is exact: u + carry z_y with u = log A, the log-loss.

    It takes one exact evaluation of all points or, where carry is neither 0 nor 1, two.
    """
    if carry == 1:
        return weights.log_normalizers(x, n_threads)
    losses, _ = weights.log_losses(x, labels, n_threads)
    if carry == 0:
        return losses
    return (1 - carry) * losses + carry * weights.log_normalizers(x, n_threads)


def _checked(name: str, array_like: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    if array_like is None:
        return np.zeros(shape, dtype=np.float32)
    if isinstance(array_like, str):
        raise ValueError(f"{name} is {array_like!r}; it must be an array of shape {shape}")
    array = finite_floats(name, array_like, shape)
    if (most := np.abs(array).max(initial=0)) > LARGEST:
        raise ValueError(f"{name} has an entry of {most:.4g} in absolute value; the largest is {LARGEST:.4g}")
    return array


def begin_at_closed_form(points: Points, seed: int, n_threads: int) -> Weights | None:
    """Return the weights and intercepts, on the scales that are best for rows left out; None where that is nothing."""
    random = np.random.RandomState(seed % 2**32)
    n_rows, n_classes = len(points.labels), points.n_classes
    share = FIGURES.SHARE_OF_SPARSE if isinstance(points.x, sp.csr_array) else FIGURES.SHARE_HELD_OUT
    n_held = min(FIGURES.MOST_HELD_OUT, int(share * n_rows), max(1, CELLS // n_classes))
    if n_held == 0 or np.bincount(points.labels.ids).max() < 2:
        return None
    is_out = held_out(points.labels, n_held / n_rows, random, points.groups)
    out, rest = (points.some(np.flatnonzero(rows)) for rows in (is_out, ~is_out))
    without_held_out = _closed_form(rest, random)
    if without_held_out is None:
        return None
    # Shares of the rows that are left: those of all rows would tell of which classes some were left out.
    no_pairs = np.zeros(points.x.shape[1] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    prior = Weights.on_pairs(*no_pairs, _log_shares(rest))
    scale, scale_of_prior = best_scales(without_held_out, prior, out.scored(n_threads))
    del without_held_out  # as large as W
    whole = _closed_form(points, random)
    if whole is None:
        return None
    numbers = whole.values if whole.has_pairs else whole.matrix
    numbers *= np.float32(scale)
    whole.intercept[:] = np.float32(scale) * whole.intercept + np.float32(scale_of_prior) * _log_shares(points)
    usable = np.isfinite(whole.intercept).all() and np.abs(numbers).max(initial=0) <= LARGEST
    return whole if usable else None


def _log_shares(points: Points) -> Floats:
    shares = shares_of_classes(points.labels, points.n_classes, points.weights)
    log_shares: Floats = np.log(shares).astype(np.float32)
    return log_shares


def _closed_form(points: Points, random: np.random.RandomState) -> Weights | None:
    """Weights and intercepts without the prior."""
    r = np.ones(len(points.labels)) if points.weights is None else points.weights
    if isinstance(points.x, sp.csr_array):
        return _naive_bayes(points.x, points.labels.ids, points.n_classes, r)
    return _discriminant(points.x, points.labels.ids, points.n_classes, r, random)


def _naive_bayes(x: sp.csr_array, labels: Ids, n_classes: int, r: Doubles) -> Weights | None:
    """Weights on the pairs that occur together; None where nothing does.

    Raises
    ------
    ValueError
        For values below 0, which are no sums of what occurred.
    """
    if x.data.min(initial=0) < 0:
        raise ValueError(f"coef_init is 'closed_form', whose sparse rows must be at least 0; one is {x.data.min()}")
    indicator = sp.csr_array((r, labels, np.arange(len(labels) + 1)), shape=(len(labels), n_classes))
    sums = sp.csr_array(indicator.T @ x.astype(np.float64))
    sums.eliminate_zeros()
    if sums.nnz == 0:
        return None
    class_sums, feature_sums = np.repeat(sums.sum(axis=1), np.diff(sums.indptr)), sums.sum(axis=0)
    log_ratios = naive_bayes(sums.data, feature_sums[sums.indices], class_sums, feature_sums.sum())
    sums.data = log_ratios.astype(np.float32)
    pairs = sp.csc_array(sums)
    pairs.sort_indices()
    stored = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), pairs.data
    return Weights.on_pairs(*stored, np.zeros(n_classes, dtype=np.float32))


def _discriminant(x: Floats, labels: Ids, n_classes: int, r: Doubles, random: np.random.RandomState) -> Weights | None:
    """Weights and intercepts as the densities have them, without the prior; None where classes do not differ."""
    counts, centre, means = _core.class_means(x, labels, n_classes, r)
    rows = np.flatnonzero(counts[labels] > r)  # a single row says nothing of the spread within its class
    if len(rows) <= 1:
        return None
    if len(rows) > FIGURES.COVARIANCE_ROWS:
        rows = np.sort(random.choice(rows, FIGURES.COVARIANCE_ROWS, replace=False))
    within = _core.within_classes(x, labels, r, rows, counts, centre, means)
    unit = float(np.sqrt(np.mean(np.square(within))))
    if not 0 < unit < np.inf:
        return None
    within /= unit
    means /= np.float32(unit)
    has_rows = counts > 0
    if x.shape[1] > FIGURES.COVARIANCE_FEATURES:
        basis, variances = None, np.array([np.mean(np.square(means[has_rows], dtype=np.float64))])
    else:
        # In this basis deviations have the unit covariance, then their axes are turned into those of the means.
        basis = np.linalg.cholesky(np.linalg.inv(_covariance(within)))
        classes = np.flatnonzero(has_rows)
        if len(classes) > FIGURES.COVARIANCE_ROWS:
            classes = np.sort(random.choice(classes, FIGURES.COVARIANCE_ROWS, replace=False))
        variances, turn = np.linalg.eigh(_covariance(means[classes] @ basis))
        basis = basis @ turn
        means = means @ basis.astype(np.float32)
    shrunk = _core.shrink_means(counts, variances, np.ascontiguousarray(means))
    if shrunk is None:
        return None
    coef, offset = shrunk
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what is found
        coef = (coef if basis is None else coef @ basis.T.astype(np.float32)) / np.float32(unit)
        intercept = offset - np.einsum("kj,j->k", coef, centre, dtype=np.float64)
        return Weights.linear(coef, intercept.astype(np.float32), by_feature=False)


def _covariance(deviations: NDArray[Any]) -> NDArray[np.float64]:
    """The covariance of deviations from 0, shrunk to a multiple of the unit matrix as Ledoit & Wolf (2004)."""
    from sklearn.covariance import ledoit_wolf  # late: a tenth of what it takes to import all else

    covariance, _ = ledoit_wolf(deviations, assume_centered=True)
    # No direction varies less than float32 can tell from none.
    covariance[np.diag_indices_from(covariance)] += FIGURES.LEAST_VARIANCE * np.trace(covariance) / len(covariance)
    return np.asarray(covariance, dtype=np.float64)


@dataclass(frozen=True)
class First:
    """What a fit, and a training that begins, are given beside points and plan.

    Attributes
    ----------
    state : State or None
        The model of the last fit, with warm_start, of which a planner makes what follows.
    start : Weights, "closed_form" or None
        First weights, of features as they are before scaling; None: 0.
    heads : array-like of shape (n_rows, n_head), or None
        Certain labels of each row, for the sampler "head_tail"; for a training their places, of each point, int32.
    evaluated : pair of matrix and Labels, or None
        Rows that early stopping looks at, with their labels.
    held_out : ndarray of shape (n_points,), bool, or None
        Points that it holds out instead.
    n_iter_no_change : int
        Its patience.
    """

    state: State | None = None
    start: Weights | ClosedForm | None = None
    heads: Any = None
    evaluated: tuple[Matrix, Labels] | None = None
    held_out: NDArray[np.bool_] | None = None
    n_iter_no_change: int = 1
