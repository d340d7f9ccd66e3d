"""Rows that fade: what `half_life` of `partial_fit` makes of a model whose world drifts.

With half_life=h a row counts half when h further rows have come: a call with n rows multiplies the weight of all rows
before it by f = 2^(-n/h), its own rows counting 1. What is followed is the optimum of the exponentially weighted
log-loss, the sum over rows of 2^(-age/h) times their losses. Of that a step by rows can do four things:

- `class_count_`, from which come draws by frequency and the intercepts of new classes, fades by f in each call.
- Where steps fall by curvature, what they go by fades by f: steps are those of a model that has seen h / log 2 rows.
- Where a step size was set, it does not fall below that which remembers for h rows. Near an optimum a step of size s
  shrinks the error of an intercept by 1 - s c, c being its curvature. Its mean over classes is g/K with
  g = E[1 - sum_k p_k^2], since the diagonal of the softmax's Hessian is p_k (1 - p_k). Half is left after h rows where
  s = K log(2) / (g h). On features of variance 1 weights forget as intercepts do; on rare ones more slowly, as they
  meet fewer rows. g is taken from the model's predictions for some rows of the call; the step size never exceeds the
  first one of `fit`. It is that of linear models of one label a row, which are trained point by point; for other noises
  than Gumbel's, g is that of the softmax of the same scores.
- Adagrad's sums of squared gradients fade by f, too.

A `learning_rate` that is given is used as it is. Without half_life nothing fades (bench/decisions.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from manyclass import _core
from manyclass.training.plan import Schedule
from manyclass.weights.arrays import Doubles, Matrix
from manyclass.weights.weights import Weights

# Rows that tell g: the standard error of its mean is then .02 or less, since it is within [0, 1] and varies by less
# than .25 from row to row.
IMPURITY_BY = 128


def left_of_old_rows(n_new: int, half_life: float | None) -> float:
    """What rows before a call with `n_new` rows count after it."""
    return 1.0 if half_life is None else 2.0 ** (-n_new / half_life)


def mean_curvatures(weights: Weights, x: Matrix, n_threads: int) -> Doubles:
    """The means of p_k (1 - p_k) over some rows, (n_classes,), p being the probabilities of the softmax."""
    rows = np.unique(np.linspace(0, x.shape[0] - 1, min(x.shape[0], IMPURITY_BY)).astype(np.int64))
    return weights.mean_curvatures(x[rows], n_threads)


def step_that_remembers(half_life: float, n_classes: int, g: float) -> float:
    """The step size that halves what an intercept holds of old rows in `half_life` visits, at impurity g."""
    return n_classes * math.log(2) / (max(g, 1e-3) * half_life)  # a model so sure of all rows moves little anyway


def kept_awake(schedule: Schedule, least: float, n_passes: int) -> Schedule:
    """The step sizes of a call, none below `least`."""
    kept = _core.steps_kept_above(schedule.at(0)[0], schedule.at(n_passes - 1)[0], least, n_passes)
    if kept is None:
        return schedule
    first, decay = kept
    ratio = schedule.u_learning_rate / schedule.learning_rate
    return replace(schedule, learning_rate=first, u_learning_rate=first * ratio, decay=decay)
