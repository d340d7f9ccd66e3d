"""What the first k predictions are worth: hits, precision, recall, nDCG, reciprocal rank, coverage and novelty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_number
from manyclass.metrics.inputs import (
    LabelRows,
    best_predictions,
    checked_shares,
    label_rows,
    numbered,
    places,
    ranked_labels,
    single_labels,
    truth_rows,
)

Places = int | Sequence[int]
Measured = float | NDArray[np.float64]
# What `ranking_report` calls a measure, and what the core does.
CORE_MEASURES = {"precision": "precision", "recall": "recall", "mrr": "reciprocal_rank", "ndcg": "ndcg"}


def precision_at_k(Y_true: Any, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""The share of right labels among the first k predictions, P@k.

    :math:`\frac{1}{n} \sum_i \frac{1}{k} \sum_{j \le k} y_{i, r_i(j)}`, where :math:`r_i(j)` is the label predicted
    in place j for row i. A place without a prediction counts as a wrong one, so that a row with fewer than k
    labels cannot reach 1, and a row without labels counts as 0.

    Parameters
    ----------
    Y_true : SciPy CSR of shape (n, K), or list of n lists of int
        The labels of each row: the columns of its non-zero entries, or their positions in [0, K).
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        Label positions, best first, each at most once in a row, -1 where there is none; or, as Y_true, names, dates or
        other labels, with "", None or NaT for none, as `predict_top_k` returns them. Or scores: then the k largest
        of the entries stored in a row (zeros too), of equal ones the smaller label first.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError
        If Y_true or predicted is of another kind or type.
    ValueError
        If there is no row, the numbers of rows or of labels differ, a label is out of range or occurs twice in a row of
        a list or of predictions, a score is NaN, or predicted has too few columns.

    References
    ----------
    K. Bhatia et al., "The extreme classification repository: multi-label datasets and code", 2016.

    Examples
    --------
    >>> from manyclass.metrics import precision_at_k
    >>> precision_at_k([[0, 2], [1]], [[2, 1, 0], [1, 3, -1]], k=(1, 2, 3))
    array([1. , 0.5, 0.5])
    """
    return _mean("precision", Y_true, predicted, k)


def recall_at_k(Y_true: Any, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""The share of a row's labels that are among its first k predictions, R@k.

    :math:`\frac{1}{n} \sum_i \frac{1}{|y_i|} \sum_{j \le k} y_{i, r_i(j)}`; a row without labels counts as 0.

    Parameters
    ----------
    Y_true : SciPy CSR of shape (n, K), or list of n lists of int
        As in `precision_at_k`.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import recall_at_k
    >>> recall_at_k([[0, 2], [1]], [[2, 1], [1, 3]], k=1)
    0.75
    """
    return _mean("recall", Y_true, predicted, k)


def hit_at_k(Y_true: Any, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""The share of rows with a right label among their first k predictions, HR@k; of one label a row top-k accuracy.

    :math:`\frac{1}{n} \sum_i \max_{j \le k} y_{i, r_i(j)}`; a row without labels counts as 0.

    Parameters
    ----------
    Y_true : array-like of shape (n,), SciPy CSR of shape (n, K), or list of n lists of int
        The label of each row, or its labels, as in `precision_at_k`.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import hit_at_k
    >>> hit_at_k([[0, 2], [1]], [[1, 2, 0], [0, 3, 2]], k=(1, 3))
    array([0. , 0.5])
    """
    ks = places(k)
    Y_true, predicted = numbered(Y_true, predicted)
    truth = truth_rows("Y_true", Y_true, predicted)
    right = _core.label_hits(truth.indptr, truth.ids, best_predictions(predicted, truth, int(ks.max())))
    return _shaped_as(k, np.logical_or.accumulate(right, axis=1)[:, np.minimum(ks, right.shape[1]) - 1].mean(axis=0))


def ndcg_at_k(Y_true: Any, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""Normalised discounted cumulative gain of the first k predictions, nDCG@k.

    :math:`\frac{1}{n} \sum_i \sum_{j \le k} \frac{y_{i, r_i(j)}}{\log_2(j + 1)} \Big/
    \sum_{j \le \min(k, |y_i|)} \frac{1}{\log_2(j + 1)}`; a row without labels counts as 0.

    Parameters
    ----------
    Y_true : SciPy CSR of shape (n, K), or list of n lists of int
        As in `precision_at_k`.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`.

    See Also
    --------
    sklearn.metrics.ndcg_score : The same number from dense arrays, where no two scores are equal.

    Examples
    --------
    >>> from manyclass.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[0, 2]], [[1, 2, 0]], k=3), 4)
    0.6934
    """
    return _mean("ndcg", Y_true, predicted, k)


def psp_at_k(Y_true: Any, predicted: Any, propensities: ArrayLike, k: Places = (1, 3, 5)) -> Measured:
    r"""Propensity-scored precision of the first k predictions, PSP@k, as a share of the best attainable.

    .. math:: \sum_i \sum_{j \le k} \frac{y_{i, r_i(j)}}{p_{r_i(j)}} \Big/
        \sum_i \max_{|S| \le k} \sum_{l \in S} \frac{y_{i l}}{p_l},

    a ratio of sums over all rows, not a mean of ratios: the normalised definition in which the extreme classification
    repository reports PSP, and which its Python tools and napkinXC's `psprecision_at_k` compute. (The unnormalised one,
    which estimates P@k on complete labels without bias if p_l is the probability that a label is not missing, is not
    bounded by 1.) Rows without labels add nothing to either sum.

    Parameters
    ----------
    Y_true : SciPy CSR of shape (n, K), or list of n lists of int
        As in `precision_at_k`; at least one row has a label.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    propensities : array-like of shape (K,)
        p_l in ]0, 1], as `propensities` estimates them from the training data.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`; also if a propensity is outside ]0, 1], their number is not K, or no row has a label.

    References
    ----------
    H. Jain, Y. Prabhu and M. Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking and other
    missing label applications", KDD 2016.

    Examples
    --------
    >>> from manyclass.metrics import psp_at_k
    >>> psp_at_k([[0, 2], [1]], [[0], [1]], propensities=[1.0, 0.5, 0.25], k=1)  # (1 + 2) / (4 + 2)
    0.5
    """
    ks = places(k)
    Y_true, predicted = numbered(Y_true, predicted)
    truth = label_rows("Y_true", Y_true)
    inverse = 1 / _checked_propensities(propensities, truth)
    if len(truth.ids) == 0:
        raise ValueError("Y_true has no label in any row, so that PSP is 0 / 0")
    best = best_predictions(predicted, truth, int(ks.max()), len(inverse))
    return _shaped_as(k, _core.ranking_shares(truth.indptr, truth.ids, best, ks, inverse))


def propensities(Y_train: Any, a: float = 0.55, b: float = 1.5, *, n_labels: int | None = None) -> NDArray[np.float64]:
    r"""The estimated probability of each label that it is observed where it is relevant.

    :math:`p_l = 1 / (1 + C (N_l + b)^{-a})` with :math:`C = (\log N - 1) (b + 1)^a`, N rows and N_l of them with label
    l: rare labels are missed the most. Jain et al. fitted this curve to data; the repository uses a = 0.5, b = 0.4 for
    Wikipedia's sets, a = 0.6, b = 2.6 for Amazon's, and the defaults for all others.

    Parameters
    ----------
    Y_train : SciPy CSR of shape (N, K), or list of N lists of int
        Labels of the training data, as in `precision_at_k`; N >= 3, so that C > 0.
    a : float, default=0.55
        Exponent of the curve, > 0.
    b : float, default=1.5
        Rows added to each label's, > 0.
    n_labels : int, optional
        K of lists; None is the largest label + 1. A CSR matrix says it itself.

    Returns
    -------
    ndarray of shape (K,), float64
        In ]0, 1[.

    Raises
    ------
    TypeError
        If Y_train is neither CSR nor a list of lists of integers, or a parameter is not a number.
    ValueError
        If N < 3, a or b is not > 0, a label is out of range, or n_labels is not the number of columns of Y_train.

    References
    ----------
    H. Jain, Y. Prabhu and M. Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking and other
    missing label applications", KDD 2016.

    Examples
    --------
    >>> from manyclass.metrics import propensities
    >>> propensities([[0, 1], [0], [0, 2], [0]]).round(4)
    array([0.7998, 0.7213, 0.7213])
    """
    check_number("a", a, low=0, open_low=True)
    check_number("b", b, low=0, open_low=True)
    rows = label_rows("Y_train", Y_train)
    if rows.n_rows < 3:
        raise ValueError(f"Y_train has {rows.n_rows} rows; it must have at least 3, so that log N > 1")
    if n_labels is not None:
        check_number("n_labels", n_labels, low=0, integer=True)
        largest = int(rows.ids.max(initial=-1))
        if n_labels != (n_labels if rows.n_labels is None else rows.n_labels) or n_labels <= largest:
            raise ValueError(f"n_labels is {n_labels}; Y_train has {rows.n_labels or 'at least ' + str(largest + 1)}")
    observed = np.bincount(rows.ids, minlength=rows.n_labels or n_labels or 0)
    c = (np.log(rows.n_rows) - 1) * (b + 1) ** a
    p: NDArray[np.float64] = 1 / (1 + c * (observed + b) ** -a)
    return p


def top_k_accuracy(y_true: ArrayLike, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""The share of rows whose single label is among the first k predictions.

    Parameters
    ----------
    y_true : array-like of int of shape (n,)
        The label of each row, a position in [0, K) or, as `predicted`, a name, a date or another label.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`.

    See Also
    --------
    sklearn.metrics.top_k_accuracy_score : The same number from dense scores, where no two are equal.

    Examples
    --------
    >>> from manyclass.metrics import top_k_accuracy
    >>> top_k_accuracy([2, 0], [[1, 2, 0], [0, 1, 2]], k=(1, 2))
    array([0.5, 1. ])
    """
    return _mean("recall", y_true, predicted, k, single_labels)


def mrr_at_k(Y_true: Any, predicted: Any, k: Places = (1, 3, 5)) -> Measured:
    r"""The mean reciprocal rank of the first right label among the first k predictions, MRR@k.

    :math:`\frac{1}{n} \sum_i 1 / j_i`, where :math:`j_i \le k` is the first place with a right label; a row without one
    counts as 0.

    Parameters
    ----------
    Y_true : SciPy CSR of shape (n, K), or list of n lists of int
        As in `precision_at_k`.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import mrr_at_k
    >>> mrr_at_k([[0, 2], [1]], [[1, 2, 0], [1, 0, 2]], k=3)
    0.75
    """
    return _mean("reciprocal_rank", Y_true, predicted, k)


def coverage_at_k(predicted: ArrayLike, n_labels: int, k: Places = (1, 3, 5)) -> Measured:
    """The share of all labels that are among the first k predictions of some row.

    Parameters
    ----------
    predicted : array-like of int of shape (n, m), m >= k
        Label positions in [0, n_labels), best first, -1 where there is none; or other labels, as in `precision_at_k`.
    n_labels : int
        K, at least 1.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        In [0, 1]; a float if k is a number.

    Raises
    ------
    TypeError, ValueError
        If predictions are not integers in this range, or have fewer than k columns.

    Examples
    --------
    >>> from manyclass.metrics import coverage_at_k
    >>> coverage_at_k([[0, 1], [0, 2]], 4, k=(1, 2))
    array([0.25, 0.75])
    """
    ks = places(k)
    check_number("n_labels", n_labels, low=1, integer=True)
    rows = ranked_labels(numbered([], predicted)[1], int(ks.max()), n_labels)
    n_found = _core.labels_covered(rows, ks, n_labels)
    return _shaped_as(k, np.array(n_found) / n_labels)


def novelty_at_k(predicted: ArrayLike, counts: ArrayLike, k: Places = (1, 3, 5)) -> Measured:
    r"""The mean self-information of the first k predictions, in bits: how rare what is shown is in the training data.

    The mean of :math:`-\log_2 (c_l / \sum_j c_j)` over all predictions, :math:`c_l` being the rows of label l in
    training, at least 1 (Zhou et al. 2010, with shares of rows for those of users).

    Parameters
    ----------
    predicted : array-like of int of shape (n, m), m >= k
        Label positions in [0, K), best first, -1 where there is none.
    counts : array-like of shape (K,)
        Rows of each label, as `class_count_` has them.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.

    Returns
    -------
    float, or ndarray of shape (len(k),), float64
        A float if k is a number.

    Raises
    ------
    TypeError, ValueError
        If predictions are not integers in this range, or have fewer than k columns, or a count is below 0.

    References
    ----------
    T. Zhou et al., "Solving the apparent diversity-accuracy dilemma of recommender systems", PNAS 107, 2010.

    Examples
    --------
    >>> from manyclass.metrics import novelty_at_k
    >>> novelty_at_k([[0, 1], [0, 2]], [2, 1, 1], k=(1, 2))
    array([1. , 1.5])
    """
    ks, rows_of_labels = places(k), checked_shares("counts", counts, (np.size(counts),), high=np.inf)
    best = ranked_labels(predicted, int(ks.max()), len(rows_of_labels))
    bits = -np.log2(np.maximum(rows_of_labels, 1) / max(1.0, rows_of_labels.sum()))
    sums = np.where(best >= 0, bits[best], 0).sum(axis=0).cumsum()
    return _shaped_as(k, sums[ks - 1] / np.maximum(1, (best >= 0).sum(axis=0).cumsum()[ks - 1]))


def ranking_report(
    Y_true: Any, predicted: Any, k: Places = (1, 3, 5), *, counts: ArrayLike | None = None
) -> dict[str, float]:
    """All measures of the first k predictions, of each k, as recommenders are compared by.

    Parameters
    ----------
    Y_true : array-like of shape (n,), SciPy CSR of shape (n, K), or list of n lists of int
        The label of each row, or its labels, as in `hit_at_k`.
    predicted : array-like of int of shape (n, m), m >= k, or SciPy CSR of shape (n, K)
        As in `precision_at_k`.
    k : int or sequence of int, default=(1, 3, 5)
        Numbers of predictions, each at least 1.
    counts : array-like of shape (K,), default=None
        Rows of each label in training. Then predictions are label positions, and coverage and novelty are told, too.

    Returns
    -------
    dict of str to float
        "hit_at_k", "precision_at_k", "recall_at_k", "mrr_at_k" and "ndcg_at_k" for each k, and with counts
        "coverage_at_k" and "novelty_at_k".

    Raises
    ------
    TypeError, ValueError
        As `hit_at_k`, `coverage_at_k` and `novelty_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import ranking_report
    >>> ranking_report([2, 0], [[1, 2], [0, 1]], k=2)
    {'hit_at_2': 1.0, 'precision_at_2': 0.5, 'recall_at_2': 1.0, 'mrr_at_2': 0.75, 'ndcg_at_2': 0.8154648767857288}
    """
    ks = places(k).tolist()
    table: dict[str, Any] = {"hit": hit_at_k(Y_true, predicted, ks)}
    for name, measure in CORE_MEASURES.items():
        table[name] = _mean(measure, Y_true, predicted, ks, truth_rows)
    if counts is not None:
        table |= {
            "coverage": coverage_at_k(predicted, np.size(counts), ks),
            "novelty": novelty_at_k(predicted, counts, ks),
        }
    return {
        f"{name}_at_{place}": float(v) for name, values in table.items() for place, v in zip(ks, values, strict=True)
    }


def _mean(measure: str, Y_true: Any, predicted: Any, k: Places, read: Any = None) -> Measured:
    """Return the mean over rows of a measure of the core; `read`: of rows that may have one label each."""
    ks = places(k)
    Y_true, predicted = numbered(Y_true, predicted)
    truth = label_rows("Y_true", Y_true) if read is None else read("y_true", Y_true, predicted)
    best = best_predictions(predicted, truth, int(ks.max()))
    return _shaped_as(k, _core.ranking_means(measure, truth.indptr, truth.ids, best, ks))


def _shaped_as(k: Places, values: NDArray[np.float64]) -> Measured:
    """Return a number where k is one."""
    return float(values[0]) if np.ndim(k) == 0 else values


def _checked_propensities(propensities: ArrayLike, truth: LabelRows) -> NDArray[np.float64]:
    p = checked_shares("propensities", propensities, (np.size(propensities),), open_low=True)
    if truth.n_labels is not None and truth.n_labels != len(p):
        raise ValueError(f"propensities has length {len(p)}, Y_true has {truth.n_labels} columns")
    largest = int(truth.ids.max(initial=-1))
    if largest >= len(p):
        raise ValueError(f"propensities has length {len(p)}, Y_true has the label {largest}")
    return p


def share_of(weights: NDArray[np.float64] | None, rows: NDArray[np.intp], n_rows: int) -> float:
    """Return the share of all weight that some rows have."""
    return len(rows) / n_rows if weights is None else float(weights[rows].sum() / weights.sum())


def with_wrong(means: Mapping[str, float], share: float) -> dict[str, float]:
    """Return means over a share of the rows, where the others count as wrong, in all but losses, counts and shares of
    labels."""
    right = ("precision", "hit", "recall", "mrr", "ndcg")
    scaled = {name: share * mean for name, mean in means.items() if name.startswith(right)}
    errors = {name: 1 - share + share * mean for name, mean in means.items() if name.endswith("error")}
    return {**means, **scaled, **errors}
