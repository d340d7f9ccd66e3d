"""Rivals: models that may serve, of which short fits to the user's own rows say which predicts best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned, Trials
from manyclass.choosing.facts import Facts
from manyclass.choosing.figures import Figures
from manyclass.choosing.plans import softmax_batches_plan
from manyclass.choosing.rules import Choice, rival
from manyclass.fitting.planner import Planner
from manyclass.fitting.runs import refit
from manyclass.fitting.trials import Sample, _met, plan_pairs, quietly, tries_ridges, whole_classes, with_ridge
from manyclass.parts import Parameters, part_name
from manyclass.training.passes import fork
from manyclass.training.plan import AnyPlan, HybridPlan, PointsPlan
from manyclass.training.state import Points
from manyclass.weights.arrays import Ids, Matrix

SHARE = 0.2  # held out


@dataclass(frozen=True)
class Rivals:
    """Models that are tried against each other: by name, each planned with all that is open, the planner of their
    fits, the points and the facts of all data.
    """

    planner: Planner
    candidates: Mapping[str, Planned]
    points: Points
    facts: Facts

    def runs(self) -> dict[str, int]:
        """Return how many runs the fit of each makes."""
        return {name: runs_of(self.planner.parameters, c.plan, self.facts) for name, c in self.candidates.items()}

    def sample(self, rows: NDArray[np.intp], random: np.random.RandomState) -> Sample | None:
        """Return the rows of a draw, a share of them held out."""
        return Sample.of(self.points.x, self.points.labels.ids, self.points.weights, rows, random, SHARE)


def best_model(trials: Trials, rivals: Rivals) -> str | None:
    """Return the name of the model with the least mean log-loss of all held-out rows; None where none was tried.

    All fits together keep to what is left of the budget of `trials`, which is that of the cheapest candidate's fit.
    What cannot change the choice is not tried: a second draw where the first one is clear, and the mean of several
    runs where one run is ahead already, for a mean is better.
    """
    labels, n_runs, figures = rivals.points.labels.ids, rivals.runs(), rivals.facts.figures
    sizes = _sizes_of_draws(trials, rivals, n_runs)
    random = fork(rivals.planner.parameters["random_state"])
    losses: dict[str, list[float]] = {name: [] for name in rivals.candidates}
    samples: list[Sample] = []
    for rows in _draws(labels, sizes, random, figures) if sizes else []:
        sample = rivals.sample(rows, random)
        if sample is None:
            return None
        samples.append(sample)
        for name, form in sample.closed_forms().items():  # they are told, and a hybrid has them
            size = (len(sample.labels), sample.n_classes, 0)
            trials.make("closed form", name, partial(sample.loss_of, form, 1), predicted=0.0, size=size)
        for name in losses:
            losses[name].append(_loss_of_model(trials, rivals, name, 1, sample))
        if _is_clear((losses_of_model[0] for losses_of_model in losses.values()), figures):
            break
    if not samples:
        return None
    n_out = [len(sample.labels_out) for sample in samples]

    def mean(name: str) -> float:
        return float(np.average(losses[name], weights=n_out))

    best = min(losses, key=mean)
    for name, n in n_runs.items():
        if n > 1 and name != best and mean(name) < figures.MOST_GAIN_OF_RUNS * mean(best):
            losses[name] = [_loss_of_model(trials, rivals, name, n, sample) for sample in samples]
    best = min(losses, key=mean)
    if not math.isfinite(mean(best)):
        return None
    trials.choose("model", best)
    return best


def _sizes_of_draws(trials: Trials, rivals: Rivals, n_runs: Mapping[str, int]) -> list[int]:
    """Return how many rows the draws for a choice of models have, by a budget that is set here; none: too few."""
    n_rows, seconds = len(rivals.points.labels.ids), dict[str, float]()
    figures, whole = rivals.facts.figures, rivals.facts.figures.SIZES
    for name, candidate in rivals.candidates.items():
        seconds[name] = n_runs[name] * costs.fit_cost(rivals.facts, candidate.plan)
    trials.budget = costs.budget(min(seconds.values()), figures)
    affordable = trials.left / (sum(seconds.values()) / n_rows)
    share = min(1.0, affordable / sum(whole), n_rows / whole[1])
    sizes = [int(share * size) for size in whole]
    if sizes[0] < figures.FEWEST_TO_TRY:  # one draw of as many as there may be
        sizes = [int(min(affordable, whole[1], n_rows))]
    return [] if sizes[0] < figures.FEWEST_TO_TRY else sizes


def clear_model(trials: Trials, rivals: Rivals, most: float) -> str | None:
    """Return the name of the model that one small draw shows to be clearly better; None if neither is.

    None, too, where the draw is predicted to take more than `most` seconds.
    """
    labels, figures = rivals.points.labels.ids, rivals.facts.figures
    size, least = figures.SIZES
    facts = replace(rivals.facts, n_samples=size)
    seconds = sum(costs.fit_cost(facts, candidate.plan) for candidate in rivals.candidates.values())
    if len(labels) < least or seconds > most:
        return None
    random = fork(rivals.planner.parameters["random_state"])
    [rows] = _draws(labels, [size], random, figures)
    sample = rivals.sample(rows, random)
    if sample is None:
        return None
    losses = {name: _loss_of_model(trials, rivals, name, 1, sample) for name in rivals.candidates}
    best = min(losses, key=lambda name: losses[name])
    if not (_is_clear(losses.values(), figures) and math.isfinite(losses[best])):
        return None
    trials.choose("model", best)
    return best


def _is_clear(losses: Iterable[float], figures: Figures) -> bool:
    """Whether the least loss of a draw is so far below the others that no other draw would say otherwise."""
    least, *rest = sorted(losses)
    return least < figures.CLEAR_MODEL * rest[0]


def _loss_of_model(trials: Trials, rivals: Rivals, name: str, n_runs: int, sample: Sample) -> float:
    """Fit a candidate to the rows of a sample by some runs; return its log-loss on those held out, and note it."""
    planned = rivals.candidates[name]
    # What begins at the discriminant does so where its parts are open.
    begins = isinstance(planned.plan, PointsPlan) and planned.plan.discriminant
    params = {"model": planned.params["model"]} if begins else planned.params
    planner = rivals.planner.changed(**params, class_weight=None, n_models=n_runs, verbose=0)
    size = (len(sample.labels), sample.n_classes, planned.plan.max_iter)
    cost = n_runs * costs.fit_cost(replace(rivals.facts, n_samples=size[0], n_classes=size[1]), planned.plan)
    loss = partial(loss_of_fit, planner, sample, rivals.points.classes[sample.classes])
    return trials.make("model", name, loss, predicted=cost, size=size)


def loss_of_fit(planner: Planner, sample: Sample, classes: NDArray[Any]) -> float:
    """Fit, and return the log-loss on the rows of a sample that are held out, in nats; infinite if it ended early.

    Parameters
    ----------
    planner : Planner
    sample : Sample
    classes : ndarray of shape (n_classes,)
        What the sample's classes are called, for names may say which features are the classes themselves.
    """
    state = quietly(partial(refit, planner, sample.points(classes)))
    parameters = planner.parameters
    ends_early = part_name(parameters["solver"]) == "lbfgs"  # at the optimum
    if not ends_early and len(state.curve) < state.fit_report.params.get("max_iter", parameters["max_iter"]):
        return math.inf
    return sample.loss_of(state.weights, n_threads_from(parameters["n_jobs"]))


def runs_of(parameters: Parameters, plan: AnyPlan, facts: Facts) -> int:
    """Return how many runs the fit of a plan makes, and a trial of it: a mean is better than each."""
    if not isinstance(plan, HybridPlan) or (parameters["n_models"], parameters["dim"]) != ("auto", "auto"):
        return 1
    return costs.n_runs(costs.fit_cost(facts, plan), 4 * facts.n_features * (plan.embeddings.dim or 0), facts.figures)


def _draws(labels: Ids, sizes: list[int], random: np.random.RandomState, figures: Figures) -> list[NDArray[np.intp]]:
    """Rows of whole classes, as many as `sizes` say; random rows, where classes are too few, only if all are.

    2,500 rows of panlex would be of too few classes: as random rows they held .14 nats against the hybrid, which is
    ahead by .23 with all rows and by .03 on 10,000 rows of whole classes.
    """
    draws = [whole_classes(labels, size, random, figures) for size in sizes]
    counts = np.bincount(labels)
    whole = [rows for rows in draws if len(rows) == counts[np.unique(labels[rows])].sum()]
    return whole or draws


def plan_of_winner(
    planner: Planner, choice: Choice, linear_choice: Choice, points: Points, x: Matrix, linear: Planned
) -> tuple[bool, Planned]:
    """Whether the linear model is the one that trials say predicts better, and the plan of that which does.

    Where the rule has the linear model its ridge is tried first, unless a small draw shows that it loses whatever its
    ridge; where the rule has another model, once the linear one has won.

    "pairs" takes no part: its log-loss lies above that of the hybrid on each set of first labels that was tried
    (bench/decisions.md). The hybrid's step size is tried before: by the rule's alone it loses to the linear model on
    8,000 rows of delicious (3.733 nats for 3.726), and wins by a fifth of it (3.701).
    """
    model, by_rule = rival(choice), choice["model"].name

    def with_best_ridge(linear: Planned) -> Planned:
        return with_ridge(linear, linear_choice, x, points.labels.ids, points.weights)

    ridges = tries_ridges(linear, linear_choice)
    if model is None:
        return True, with_best_ridge(linear) if ridges else linear
    other = choice.changed(answers={"model": model})
    facts = choice.facts
    if model.name == "hybrid":
        planned = plan_pairs(other, points, linear.trials)
        facts = replace(facts, met=_met(points, model.min_count, model.few_classes))
    else:
        planned = softmax_batches_plan(other)
    best, rivals = None, Rivals(planner, {"linear": linear, model.name: planned}, points, facts)
    if ridges and by_rule == "linear":
        most = len(facts.figures.RIDGES) * costs.fit_cost(facts, linear.plan)
        best = clear_model(linear.trials, rivals, most)
        if best is None or best == "linear":
            linear = with_best_ridge(linear)
            rivals = replace(rivals, candidates={**rivals.candidates, "linear": linear})
    if best is None:
        best = best_model(linear.trials, rivals)
    if (best or by_rule) != "linear":  # where nothing was tried the rule has the word
        return False, replace(planned, trials=linear.trials)
    return True, with_best_ridge(linear) if by_rule != "linear" and tries_ridges(linear, linear_choice) else linear
