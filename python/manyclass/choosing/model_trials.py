"""Which model, where several may serve: short fits of each to whole classes, as step sizes are tried.

Among random rows a class has few, which is no likeness of the fit: 10,000 random rows of yelp-next say that a linear
model is ahead by 0.14 nats, where embeddings win by 0.8 with all rows; as many rows of whole classes say 0.4 for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from manyclass.choosing import costs, figures
from manyclass.choosing.facts import Facts
from manyclass.choosing.trials import LossOfFit, Planned, Sample, Trials, whole_classes
from manyclass.parts import Parameters
from manyclass.training.plan import AnyPlan, HybridPlan
from manyclass.training.state import Points
from manyclass.training.validation import fork
from manyclass.weights.arrays import Ids

# Two draws, since each has few held-out rows, whose losses are averaged together. They are not carried on to more rows,
# for differences have no steady trend: that of embeddings on toys-next is 0.22, -0.04, and 0.12 with all rows.
SIZES = (2500, 10_000)
SHARE = 0.2  # held out


def best_model(
    trials: Trials,
    parameters: Parameters,
    candidates: Mapping[str, Planned],
    points: Points,
    facts: Facts,
    loss_of_fit: LossOfFit,
) -> str | None:
    """Return the name of the model with the least mean log-loss of all held-out rows; None where none was tried.

    `candidates` are the models with all that is open planned. All fits together keep to what is left of the budget of
    `trials`, which is that of the cheapest candidate's fit.
    """
    x, labels = points.x, points.labels.ids
    runs = {name: runs_of(parameters, planned.plan, facts) for name, planned in candidates.items()}
    seconds = {name: runs[name] * costs.fit_cost(facts, planned.plan) for name, planned in candidates.items()}
    trials.budget = costs.budget(min(seconds.values()))
    affordable = trials.left / (sum(seconds.values()) / len(labels))
    share = min(1.0, affordable / sum(SIZES), len(labels) / SIZES[1])
    sizes = [int(share * size) for size in SIZES]
    if sizes[0] < figures.FEWEST_TO_TRY:  # one draw of as many as there may be
        sizes = [int(min(affordable, SIZES[1], len(labels)))]
    if sizes[0] < figures.FEWEST_TO_TRY:
        return None
    random = fork(parameters["random_state"])
    found: dict[str, list[float]] = {name: [] for name in candidates}
    n_out: list[int] = []
    for rows in _draws(labels, sizes, random):
        sample = Sample.of(x, labels, points.weights, rows, random, SHARE)
        if sample is None:
            return None
        n_out.append(len(sample.labels_out))
        for name, planned in candidates.items():
            own = parameters.changed(**planned.params, class_weight=None, n_models=runs[name], verbose=0)
            size = (len(sample.labels), sample.n_classes, planned.plan.max_iter)
            cost = runs[name] * costs.fit_cost(replace(facts, n_samples=size[0], n_classes=size[1]), planned.plan)
            loss = partial(loss_of_fit, own, sample, points.classes[sample.classes])
            found[name].append(trials.make("model", name, loss, predicted=cost, size=size))
    means = {name: float(np.average(losses, weights=n_out)) for name, losses in found.items()}
    best = min(means, key=lambda name: means[name])
    if not math.isfinite(means[best]):
        return None
    trials.choose("model", best)
    return best


def runs_of(parameters: Parameters, plan: AnyPlan, facts: Facts) -> int:
    """Return how many runs the fit of a plan makes, and a trial of it: a mean is better than each."""
    if not isinstance(plan, HybridPlan) or (parameters["n_models"], parameters["dim"]) != ("auto", "auto"):
        return 1
    return costs.n_runs(costs.fit_cost(facts, plan), 4 * facts.n_features * (plan.embeddings.dim or 0))


def _draws(labels: Ids, sizes: list[int], random: np.random.RandomState) -> list[NDArray[np.intp]]:
    """Rows of whole classes, as many as `sizes` say; random rows, where classes are too few, only if all are.

    2,500 rows of panlex would be of too few classes: as random rows they held .14 nats against the hybrid, which is
    ahead by .23 with all rows and by .03 on 10,000 rows of whole classes.
    """
    draws = [whole_classes(labels, size, random) for size in sizes]
    counts = np.bincount(labels)
    whole = [rows for rows in draws if len(rows) == counts[np.unique(labels[rows])].sum()]
    return whole or draws
