r"""Calibrated probabilities: a temperature, and with several labels an offset, by the log-loss of held-out rows.

One label a row
    :math:`p_k \propto e^{z_k / T}`, of augment and reduce the probabilities of the utilities :math:`z_k / T`. The
    log-loss is convex in 1/T under every noise with a log-concave density, which normal, logistic and Gumbel noise
    have: p(y) integrates that density over the convex set of (noise, 1/T) where y has the largest utility, and an
    integral of a log-concave function over some of its variables is log-concave in the others (Prékopa). W and b are
    divided by T, so that a calibrated model is a model as any other.
Several labels
    :math:`P(l \in P \mid x) = 1 / (1 + e^{-(v_l / T + c)})`, Platt's scaling with two numbers that all labels share, of
    :math:`v_l = z_l - \log \sum_k e^{z_k}`: convex in 1/T and c. Labels are counted by a histogram of v, so that its
    cost is that of scoring the rows once.

Without a calibration, a softmax that was fitted on several labels states p_l, which sum to one over all labels: the
share that a label has of a row's labels. As the probability that it is among them it is too small, by about their
number.

Held-out rows are drawn by random_state, a tenth or `validation_fraction` and at most 4,096, so that every label keeps a
row in training. Where they are more than 3 % of the rows, the model is then fitted once more, on all rows, with T and c
as they are: better by 0.02 to 0.04 nats in twice the time. Else the model is that of the other rows.

What else was tried, and how much it gives, is in bench/decisions.md.
"""

from __future__ import annotations

from typing import Any

from manyclass.checks import csr_parts
from manyclass.figures import FIGURES
from manyclass.training.plan import ScoredRows
from manyclass.training.state import Calibration
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Matrix
from manyclass.weights.weights import Weights

CALIBRATIONS = ("temperature",)
# Fewer rows where there are many classes, so that all scores of these rows stay in 256 MB up to 262,144 classes.
ROWS_CELLS = 1 << 26


def n_held_out(n_samples: int, n_classes: int, fraction: float) -> int:
    """Rows to hold out: a share of all, but no more than pay."""
    most = min(FIGURES.CALIBRATION_ROWS, max(FIGURES.LEAST_CALIBRATION_ROWS, ROWS_CELLS // n_classes))
    return max(1, min(round(fraction * n_samples), most))


def calibrated(weights: Weights, rows: ScoredRows, *, several: bool, noise: str = "gumbel") -> Calibration:
    """Find T, and of several labels c, on rows that the weights were not fitted on.

    Parameters
    ----------
    weights : Weights
    rows : ScoredRows
        Held-out rows.
    several : bool
        Whether a row may have several labels.
    noise : str
        The noise of the utilities.
    """
    x, labels, n_threads, r = rows
    weights_of_rows = NO_DOUBLES if r is None else r
    temperature, offset, before, after = weights.calibration(
        x, labels.indptr, labels.ids, weights_of_rows, n_threads, None if several else noise
    )
    return Calibration(temperature, offset, x.shape[0], before, after)


def label_log_losses(
    weights: Weights, x: Matrix, lists: Any, calibration: Calibration | None, n_threads: int
) -> tuple[Doubles, Doubles]:
    """Return the log-losses of several labels, of each row, in nats.

    Returns
    -------
    of_labels : ndarray of shape (n_rows,)
        The mean over all labels of -log P or -log (1 - P). Without a calibration P is what the softmax gives a label,
        as if it were its probability.
    of_own : ndarray of shape (n_rows,)
        The mean over the labels of a row of minus the log-probability that the softmax gives them.
    """
    indptr, ids, _ = csr_parts(lists)
    how = (0.0, 0.0) if calibration is None else (calibration.temperature, calibration.offset)
    return weights.label_log_losses(x, indptr, ids, n_threads, *how)
