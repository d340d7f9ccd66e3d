"""The ridge of full passes, by cross-validation: the few fits are exact, so that only the ridge differs."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.choosing import costs, figures
from manyclass.choosing.facts import Facts
from manyclass.choosing.trials import Trials, quietly
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.plan import FullBatchPlan
from manyclass.training.probe import standard_error
from manyclass.training.progress import progress_bar
from manyclass.training.validation import fork
from manyclass.training.watch import Watch
from manyclass.training.weighting import some_of
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

LOOSE = 1e-4  # a gradient so small leaves a log-loss that differs from that of the optimum by much less than ridges do


def folds(labels: Ids, n_folds: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Draw which fold a point is held out in, (n_samples,), each class in turn; -1 for the only point of its class."""
    order = random.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    found = np.empty(len(labels), dtype=np.intp)
    found[order] = np.arange(len(labels)) % n_folds
    found[np.bincount(labels)[labels] == 1] = -1
    return found


def cross_validated_ridge(
    trials: Trials,
    plan: FullBatchPlan,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    random_state: Any,
    weights: Doubles | None = None,
) -> tuple[float, dict[float, float]]:
    """Return the ridge of smallest log-loss on held-out points, and the log-losses of all that were tried.

    Ridges are tried from the strongest on, each from the weights of the one before, to 1 / N and until the valley is
    passed. The best one must be better than 1 / N by more than the standard error of the difference, else it is 1 / N:
    the few points of a small set favour other ridges by chance. Where no class has two points nothing can be held out,
    and it is 1 / N. `weights` of points, with mean 1, are those of their losses; N is the number of points.
    """
    fold = folds(labels, figures.FOLDS, fork(random_state))
    parts = [(np.flatnonzero(fold != part), np.flatnonzero(fold == part)) for part in range(figures.FOLDS)]
    parts = [(kept, out) for kept, out in parts if len(out)]
    data = [(x[kept], labels[kept], x[out], labels[out], some_of(weights, kept)) for kept, out in parts]
    r = None if weights is None or not parts else weights[np.concatenate([out for _, out in parts])]
    starts: list[Weights | None] = [None] * len(data)
    prior = figures.PRIOR / len(labels)
    tried: dict[float, float] = {}
    losses: dict[float, Doubles] = {}
    if not data:
        return prior, tried
    n_trials = len(figures.PRIORS) * len(data)
    size = (len(labels), n_classes, plan.max_iter)
    predicted = costs.full_cost(Facts.of(x, n_classes)) / len(figures.PRIORS)
    bar = progress_bar(n_trials, unit="trial", shown=bool(plan.verbose), heading="choosing alpha")
    with closing(bar):
        for ridge in figures.PRIORS:
            begin, found = time.process_time(), []
            for at, (x_kept, y_kept, x_out, y_out, of_kept) in enumerate(data):
                trial = replace(plan, alpha=ridge / len(y_kept), tol=max(plan.tol, LOOSE), verbose=0)
                fit = partial(fit_full_batch, trial, x_kept, y_kept, n_classes, Watch(), starts[at], of_kept)
                starts[at], _ = model, _ = quietly(fit)
                found.append(model.log_losses(x_out, y_out, plan.n_threads)[0])
                bar.update()
            alpha = ridge / len(labels)
            losses[alpha] = np.concatenate(found)
            loss = float(np.average(losses[alpha], weights=r))
            tried[alpha] = loss if math.isfinite(loss) else math.inf
            seconds = time.process_time() - begin
            trials.note("alpha", alpha, tried[alpha], predicted=predicted, seconds=seconds, size=size)
            if alpha <= prior and figures.PAST_THE_VALLEY * min(tried.values()) < tried[alpha]:
                break
    best = min(tried, key=lambda alpha: tried[alpha])
    gain = losses[prior] - losses[best]
    chosen = best if np.average(gain, weights=r) > standard_error(gain, r) else prior
    trials.choose("alpha", chosen)
    return chosen, tried
