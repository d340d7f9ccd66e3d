"""How far the probabilities of predictions are from the share of them that come true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_number
from manyclass.metrics.inputs import best_predictions, checked_shares, numbered, truth_rows


def expected_calibration_error(
    y_true: Any,
    predicted: ArrayLike,
    confidences: ArrayLike,
    n_bins: int = 15,
    *,
    rest: ArrayLike | None = None,
) -> float:
    r"""The expected calibration error, ECE: confidence against accuracy, by bins of the confidence.

    .. math:: \sum_{m=1}^M \frac{|B_m|}{n} \bigl|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)\bigr|,

    :math:`B_m` being the rows whose confidence, the probability that the model gives its prediction, lies in
    :math:`](m - 1)/M, m/M]` (0 counts to the first bin), acc the share of them that are predicted right, conf the mean
    of their confidences (Guo et al. 2017, eq. 3). It depends on the number of bins, and n rows of a perfect model have
    an error of order :math:`\sqrt{M/n}`.

    Of several labels a row, :math:`B_m` are predictions rather than rows: the first k of each row, with the probability
    that the label is among the row's, and n is their number n k, which is ECE@k (Ullah et al. 2025). Nearly all of the
    n K probabilities are near to 0, and a mean over all of them is, too. With `rest` all count nevertheless, those that
    are not predicted in the first bin, and the sum is divided by the number of rows: how many labels a row the model
    states too many or too few. That is K times the error over all n K probabilities if none in the rest is above 1/M.

    Parameters
    ----------
    y_true : array-like of int of shape (n,), SciPy CSR of shape (n, K), or list of n lists of int
        The label of each row, a position in [0, K); or the labels of each, any of which is right.
    predicted : array-like of int of shape (n,) or (n, k)
        The position of the predicted label of each row, or of k of them; -1 where there is none.
    confidences : array-like of shape (n,) or (n, k)
        Their probabilities, in [0, 1].
    n_bins : int, default=15
        M, at least 1; 15 as in the paper.
    rest : array-like of shape (n,), optional
        The sum of the probabilities of all other labels of each row, at least 0.

    Returns
    -------
    float
        In [0, 1]; with `rest` in labels a row.

    Raises
    ------
    TypeError
        If an argument is of another kind or type.
    ValueError
        If there is no row, lengths differ, or a label or a confidence is out of range.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern neural networks", ICML 2017.

    N. Ullah, E. Schultheis, J. Zhang and R. Babbar, "Labels in extremes: how well calibrated are extreme multi-label
    classifiers?", KDD 2025.

    Examples
    --------
    >>> from manyclass.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 0], [0, 1, 0, 1], [0.9, 0.9, 0.6, 0.6], n_bins=5), 4)
    0.35
    """
    check_number("n_bins", n_bins, low=1, integer=True)
    columns = np.asarray(predicted)
    if columns.ndim not in (1, 2):
        raise ValueError(f"predicted has shape {columns.shape}; it must have one axis, or two with labels of a row")
    shape = (len(columns), 1) if columns.ndim == 1 else columns.shape
    y_true, positions = numbered(y_true, np.ma.asarray(predicted).reshape(shape))
    truth = truth_rows("y_true", y_true, None)
    best = best_predictions(np.asarray(positions), truth, shape[1])
    right = _core.label_hits(truth.indptr, truth.ids, best)
    p = checked_shares("confidences", confidences, columns.shape).reshape(shape)
    surplus = surpluses(right, p, n_bins)
    if rest is None:
        return float(np.abs(surplus).sum() / right.size)
    unpredicted = checked_shares("rest", rest, (truth.n_rows,), high=np.inf)
    surplus[0] += len(truth.ids) - np.count_nonzero(right) - unpredicted.sum()
    return float(np.abs(surplus).sum() / truth.n_rows)


def surpluses(right: NDArray[np.bool_], p: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """How many more predictions of each bin of p are right than p says, (n_bins,)."""
    # The smallest m with p <= m / M, which rounding in p M could miss by one at the ends of bins.
    bins = np.searchsorted(np.arange(1, n_bins) / n_bins, p.ravel(), side="left")
    return np.asarray(np.bincount(bins, weights=(right - p).ravel(), minlength=n_bins), dtype=np.float64)
