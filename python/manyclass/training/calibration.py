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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from manyclass import _core
from manyclass.checks import check_choice, check_number, csr_parts
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix, times
from manyclass.weights.weights import Weights

CALIBRATIONS = ("temperature",)
# Temperatures outside of [1/100, 100] say that the held-out rows are too few, or the scores all equal.
MOST = 100.0
# That of margins is near to log K / T, which is 70 on bibtex.
MOST_OFFSET = 1e4
# 1/T within this share of the best: the standard error of 4,096 rows is some ten times as much.
PRECISION = 1e-3
# Held-out rows: one or two numbers are found well by so many, which then are no loss to training ...
MOST_ROWS, LEAST_ROWS = 4096, 256
# ... and fewer where there are many classes, so that all scores of these rows stay in 256 MB up to 262,144 classes.
ROWS_CELLS = 1 << 26
KEPT_CELLS = 1 << 28  # scores that are kept; more are computed again whenever they are needed
# Bins of v, over ]-60, largest]: 0.01 wide, where the logistic function is straight to 1e-5; e^-60 labels are none.
LOWEST, BINS = -60.0, 8192


@dataclass(frozen=True)
class Calibration:
    """How the probabilities of a model were calibrated.

    Attributes
    ----------
    temperature : float
        T, what scores are divided by.
    offset : float
        c, of several labels; else 0.
    n_rows : int
        Held-out rows that it was found on.
    uncalibrated_log_loss, log_loss : float
        The mean log-losses of these rows, in nats, with T = 1 and with T; of several labels the sum over a row's.
    """

    temperature: float
    offset: float
    n_rows: int
    uncalibrated_log_loss: float
    log_loss: float

    def log_odds(self, log_p: Any) -> Any:
        """Return log P / (1 - P) of labels that a softmax gives these log-probabilities; float64."""
        return np.asarray(log_p, dtype=np.float64) / self.temperature + self.offset

    def log_probabilities(self, log_p: Any) -> Any:
        """Return log P of the same labels, float64."""
        return -np.logaddexp(0.0, -self.log_odds(log_p))

    def uncalibrated(self, log_p: Any) -> Any:
        """Return the log-probabilities of the softmax of labels with these log P: `log_probabilities` undone."""
        log_p = np.asarray(log_p, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.minimum((log_p - np.log(-np.expm1(log_p)) - self.offset) * self.temperature, 0)

    def limit(self, p: float) -> float:
        """Return the log-probability of the softmax above which P is above `p`, in [0, 1]; infinite at its ends."""
        with np.errstate(divide="ignore"):
            return float((np.log(p) - np.log1p(-p) - self.offset) * self.temperature)

    def encoded(self) -> dict[str, float]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def decoded(cls, found: Mapping[str, Any] | None) -> Calibration | None:
        """Return what `encoded` gave; None for None.

        Raises
        ------
        ValueError
            If the numbers are not those of a calibration: beyond the ends of the search.
        """
        if found is None:
            return None
        made = cls(**found)
        most = MOST * (1 + 1e-9)  # the search goes by logarithms
        check_number("calibration's temperature", made.temperature, low=1 / most, high=most)
        check_number("calibration's offset", made.offset, low=-MOST_OFFSET, high=MOST_OFFSET)
        check_number("calibration's n_rows", made.n_rows, low=0, integer=True)
        for name in ("uncalibrated_log_loss", "log_loss"):
            check_number(f"calibration's {name}", getattr(made, name))  # a rounding below 0, at best
        return made


def check_calibration(calibration: Any) -> None:
    """Raise ValueError unless it is None or a way of calibration."""
    if calibration is not None:
        check_choice("calibration", calibration, CALIBRATIONS)


def n_held_out(n_samples: int, n_classes: int, fraction: float) -> int:
    """Rows to hold out: a share of all, but no more than pay."""
    return max(1, min(round(fraction * n_samples), MOST_ROWS, max(LEAST_ROWS, ROWS_CELLS // n_classes)))


def rows_to_hold_out(labels: Labels, n_rows: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Draw rows so that of every label at least one row stays for training.

    Raises
    ------
    ValueError
        If there is no such row.
    """
    held = labels.spare(n_rows, random)
    if not held.any():
        raise ValueError(
            "calibration holds out rows all of whose labels other rows have, too, and there is none; leave it None"
        )
    return held


def calibrated(
    weights: Weights,
    x: Matrix,
    labels: Labels,
    sample_weight: Doubles | None,
    n_threads: int,
    *,
    several: bool,
    noise: str = "gumbel",
) -> Calibration:
    """Find T, and of several labels c, on rows that the weights were not fitted on.

    Parameters
    ----------
    weights : Weights
    x, labels : held-out rows and their labels
    sample_weight : ndarray of shape (n_rows,) or None
    n_threads : int
    several : bool
        Whether a row may have several labels.
    noise : str
        The noise of the utilities.
    """
    tiles = _kept(lambda: weights.score_tiles(x, n_threads), x.shape[0] * weights.n_classes)
    r = np.ones(x.shape[0]) if sample_weight is None else sample_weight
    if several:
        return _platt(tiles, labels, r)

    def loss(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        losses = [
            _log_losses(times(scores, factor), labels.ids[first : first + len(scores)], noise, n_threads)
            for first, scores in tiles()
        ]
        return float(np.average(np.concatenate(losses), weights=r))

    ends = (-np.log(MOST), np.log(MOST))
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": PRECISION})
    before = loss(0.0)
    # The search ends beside 0 where 0 is best.
    log_factor, after = (float(found.x), float(found.fun)) if found.fun < before else (0.0, before)
    return Calibration(float(np.exp(-log_factor)), 0.0, x.shape[0], before, after)


Tiles = Callable[[], Iterator[tuple[int, Floats]]]


def _kept(tiles: Tiles, n_cells: int) -> Tiles:
    """The same tiles at every call, from memory unless there are too many."""
    if n_cells > KEPT_CELLS:
        return tiles
    kept = list(tiles())
    return lambda: iter(kept)


def _log_losses(scores: Floats, labels: Ids, noise: str, n_threads: int) -> Doubles:
    """-log p(y)."""
    if noise != "gumbel":
        at = np.ascontiguousarray(labels[:, np.newaxis])
        psi = scores.astype(np.float64)
        return -_core.utility_probabilities_at(noise=noise, psi=psi, classes=at, log=True, n_threads=n_threads)[:, 0]
    losses = np.empty(len(scores))
    indptr = np.arange(len(scores) + 1)
    _core.label_odds(scores=scores, indptr=indptr, ids=labels, n_threads=n_threads, log_losses=losses)
    return losses


def _platt(tiles: Tiles, labels: Labels, r: Doubles) -> Calibration:
    """Both numbers of the logistic function, by a histogram of v over all labels of all rows."""
    counts, before = np.zeros(BINS), 0.0
    own, of_own = np.empty(len(labels.ids)), np.repeat(r, np.diff(labels.indptr))
    for first, scores in tiles():
        rows = slice(first, first + len(scores))
        indptr = labels.indptr[first : rows.stop + 1]
        at, losses = slice(indptr[0], indptr[-1]), np.empty(len(scores))
        question: dict[str, Any] = {
            "indptr": indptr - indptr[0],
            "ids": labels.ids[at],
            "weights": r[rows],
            "lowest": LOWEST,
        }
        _core.label_odds(scores=scores, **question, n_threads=1, label_losses=losses, own=own[at], counts=counts)
        before += scores.shape[1] * float(r[rows] @ losses)
    n = float(r.sum())
    ends = {"most_factor": MOST, "most_offset": MOST_OFFSET}
    a, c, after = _core.platt_scaling(lowest=LOWEST, counts=counts, own=own, weights=of_own, n_rows=n, **ends)
    return Calibration(1 / a, c, len(r), before / n, after / n)


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
    of_labels, of_own = np.empty(x.shape[0]), np.empty(x.shape[0])
    how = {} if calibration is None else {"temperature": calibration.temperature, "offset": calibration.offset}
    for first, scores in weights.score_tiles(x, n_threads):
        at = slice(first, first + len(scores))
        indptr, ids, _ = csr_parts(lists[at])
        question: dict[str, Any] = {"scores": scores, "indptr": indptr, "ids": ids, "n_threads": n_threads, **how}
        _core.label_odds(**question, label_losses=of_labels[at], log_losses=of_own[at])
    return of_labels, of_own
