"""Grids of step sizes, which are tried as the parameter says: `learning_rate=\"grid\"`, or by `tune_learning_rate`."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.blending.calibration import label_log_losses
from manyclass.checks import csr_parts, n_threads_from
from manyclass.choosing.costs import LearningRates, walk
from manyclass.choosing.facts import Lengths
from manyclass.choosing.taking import scales_features
from manyclass.datasets.preprocessing import first_label
from manyclass.figures import FIGURES
from manyclass.fitting.planner import Planner
from manyclass.fitting.points import points_of, some_rows
from manyclass.fitting.runs import fit_runs
from manyclass.labels import find_positions, sorted_classes
from manyclass.training.core_training import Watch, summarize
from manyclass.training.passes import fork, held_out, quietly, warn_user
from manyclass.training.plan import GroupIds
from manyclass.training.state import State
from manyclass.training.weighting import checked_weights, taken, weights_left
from manyclass.weights.arrays import Doubles, Matrix
from manyclass.weights.weights import FeatureScaling

EXPONENTS = range(-3, 4)  # Fagan & Iyengar 2018, section 4.1: 10^0, 10^+-1, 10^+-2, 10^+-3
FURTHEST = 6  # no grid goes on beyond 10^+-6


def search_grid(loss: Callable[[int], float], scale: float) -> LearningRates:
    """Try 10^k / scale for each exponent k of the grid, and beyond its ends while the best one is there."""
    tried = walk(loss, EXPONENTS, (-FURTHEST, FURTHEST))
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        raise ValueError(
            f"no learning rate from {10.0 ** min(tried) / scale:g} to {10.0 ** max(tried) / scale:g} trains; scale X"
        )
    if abs(best) == FURTHEST:
        warn_user(f"the best learning rate, {10.0**best / scale:g}, is the last one tried")
    order = sorted(tried)
    rates = np.array([10.0**exponent / scale for exponent in order])
    return LearningRates(rates, np.array([tried[exponent] for exponent in order]), float(10.0**best / scale))


def try_grid(
    planner: Planner,
    x: Matrix,
    y: Any,
    weights: Doubles | None,
    *,
    fraction: float = 0.1,
    min_points: int = 10_000,
    criterion: str = "validation",
    random_state: Any = 0,
    groups: GroupIds | None = None,
) -> LearningRates:
    """Try step sizes on a part of the rows; see `manyclass.tune_learning_rate`.

    Parameters
    ----------
    planner : Planner
        Fits with all of its parameters but the step size, early stopping and progress.
    x : csr_array or ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), or csr_array of shape (n_samples, n_classes)
        Labels, or lists of labels as `indicator_lists` makes them.
    weights : ndarray of shape (n_samples,) or None
        Rows of weight 0 are left out.
    fraction : float
    min_points : int
    criterion : {"validation", "training"}
    random_state : int, RandomState instance or None
    groups : ndarray of shape (n_samples,), int64, or None
        Whose rows are held out together.
    """
    if weights is not None and not weights.all():
        counting = np.flatnonzero(weights)
        x, y, weights, groups = x[counting], y[counting], weights[counting], taken(groups, counting)
    n = x.shape[0]
    rows = np.sort(fork(random_state).permutation(n)[: min(n, max(int(min_points), round(fraction * n), 2))])
    x, y, r = x[rows], y[rows], None if weights is None else weights[rows]
    trained = judged = np.ones(len(rows), dtype=bool)
    if criterion == "validation":
        labels = (
            first_label(y) if isinstance(y, sp.csr_array) else y
        )  # of several labels the first one stands for the row
        ids = sorted_classes(labels)[1].astype(np.int32)
        judged = held_out(ids, FIGURES.VALIDATION, fork(random_state), taken(groups, rows))
        trained = ~judged
    to_fit, to_judge = ((x[part], y[part], None if r is None else r[part]) for part in (trained, judged))
    scale = _mean_square(planner, x, r, several=bool(sp.issparse(y)))
    return search_grid(lambda exponent: _loss(planner, 10.0**exponent / scale, to_fit, to_judge), scale)


Rows = tuple[Matrix, Any, Doubles | None]  # their labels, and their weights


def _mean_square(planner: Planner, x: Matrix, weights: Doubles | None, *, several: bool) -> float:
    """Return the mean of |x|^2, of scaled features where the fit scales them, plus 1 with an intercept."""
    parameters = planner.parameters
    fit_intercept = bool(parameters.get("fit_intercept", False))
    if not several and "model" in parameters and scales_features(parameters["solver"], parameters["model"]):
        x = FeatureScaling.of(x, centre=fit_intercept, weights=weights).apply(x)
    return Lengths.of(x).mean_square + fit_intercept


def _loss(planner: Planner, rate: float, to_fit: Rows, to_judge: Rows) -> float:
    """Fit some rows with a step size; return the criterion on others, infinite where training diverged."""
    changes = {"early_stopping": False, "validation_fraction": 0.1, "n_iter_no_change": 5}
    changes = {name: value for name, value in changes.items() if name in planner.parameters}
    random_state = deepcopy(planner.parameters["random_state"])
    planner = planner.changed(**changes, learning_rate=rate, verbose=0, random_state=random_state)
    planner.check()
    parameters = planner.parameters
    points = points_of(planner.caller, *to_fit, parameters["class_weight"], several=planner.several)
    # A callback looks on, so that a step size that diverges is not made smaller.
    state, trained = quietly(lambda: fit_runs(planner, points, Watch.of(lambda _: False, None)))
    if len(state.curve) < state.fit_report.params.get("max_iter", parameters["max_iter"]):
        return math.inf
    loss = _mean_loss(planner, planner.labelled(state, trained), *to_judge)
    return loss if math.isfinite(loss) else math.inf


def _mean_loss(planner: Planner, state: State, x: Matrix, y: Any, weights: Doubles | None) -> float:
    """Return the log-loss of rows, or the share whose best class is not their label where scores are no log-odds.

    Rows without a label, or with one that the state does not know, are left out.
    """
    n_threads, weights = n_threads_from(planner.parameters["n_jobs"]), checked_weights(weights, x.shape[0])
    if not state.several:
        positions = find_positions(y, state.classes, "y")
        known = positions >= 0
        losses, ranks = planner.losses_and_ranks(state, some_rows(x, np.flatnonzero(known)), positions[known])
        means = summarize(losses, ranks, weights_left(weights, known, "has a label seen in fit"))
        return means["log_loss" if planner.trains_log_odds or state.calibration is not None else "error"]
    labelled = np.diff(y.indptr) > 0
    lists, weights = y[labelled], weights_left(weights, labelled, "has labels")
    if planner.trains_log_odds:
        _, losses = label_log_losses(state.weights, x[labelled], lists, state.calibration, n_threads)
        return float(np.average(losses, weights=weights))
    indptr, ids, _ = csr_parts(lists)
    best, _ = state.weights.top_k(x[labelled], 1, n_threads)
    return 1 - float(np.average(_core.label_hits(indptr, ids, best)[:, 0], weights=weights))
