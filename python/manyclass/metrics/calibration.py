"""How far the probabilities of predictions are from the share of them that come true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_number
from manyclass.metrics import _ranking
from manyclass.metrics.inputs import best_predictions, label_rows, single_labels


def expected_calibration_error(y_true: Any, predicted: ArrayLike, confidences: ArrayLike, n_bins: int = 15) -> float:
    r"""The expected calibration error, ECE: confidence against accuracy, by bins of the confidence.

    .. math:: \sum_{m=1}^M \frac{|B_m|}{n} \bigl|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)\bigr|,

    :math:`B_m` being the rows whose confidence, the probability that the model gives its prediction, lies in
    :math:`](m - 1)/M, m/M]` (0 counts to the first bin), acc the share of them that are predicted right, conf the mean
    of their confidences (Guo et al. 2017, eq. 3). It depends on the number of bins, and n rows of a perfect model have
    an error of order :math:`\sqrt{M/n}`.

    Parameters
    ----------
    y_true : array-like of int of shape (n,), SciPy CSR of shape (n, K), or list of n lists of int
        The label of each row, a position in [0, K); or the labels of each, any of which is right.
    predicted : array-like of int of shape (n,)
        The position of the predicted label of each row.
    confidences : array-like of shape (n,)
        Its probability, in [0, 1].
    n_bins : int, default=15
        M, at least 1; 15 as in the paper.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    TypeError
        If an argument is of another kind or type.
    ValueError
        If there is no row, lengths differ, or a label or a confidence is out of range.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern neural networks", ICML 2017.

    Examples
    --------
    >>> from manyclass.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 0], [0, 1, 0, 1], [0.9, 0.9, 0.6, 0.6], n_bins=5), 4)
    0.35
    """
    check_number("n_bins", n_bins, low=1, integer=True)
    column = np.asarray(predicted)
    if column.ndim != 1:
        raise ValueError(f"predicted has shape {column.shape}; it must have one axis, a label for each row")
    column = column[:, np.newaxis]
    rows = isinstance(y_true, list | tuple) and len(y_true) and not np.isscalar(y_true[0])
    truth = label_rows("y_true", y_true) if rows or hasattr(y_true, "tocsr") else single_labels("y_true", y_true, None)
    right = _ranking.hits(truth.indptr, truth.ids, best_predictions(column, truth, 1))[:, 0]
    p = _checked_confidences(confidences, truth.n_rows)
    # The smallest m with p <= m / M, which rounding in p M could miss by one at the ends of bins.
    bins = np.searchsorted(np.arange(1, n_bins) / n_bins, p, side="left")
    surplus = np.bincount(bins, weights=right - p, minlength=n_bins)  # |B| (acc - conf)
    return float(np.abs(surplus).sum() / truth.n_rows)


def _checked_confidences(confidences: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    given = np.asarray(confidences)
    if given.dtype.kind not in "fiub":
        raise TypeError(f"confidences has dtype {given.dtype}; it must be of real numbers")
    if given.shape != (n_rows,):
        raise ValueError(f"confidences has shape {given.shape}; it must be ({n_rows},)")
    p = given.astype(np.float64)
    bad = ~((p >= 0) & (p <= 1))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"confidences[{at}] is {p[at]}; it must be in [0, 1]")
    return p
