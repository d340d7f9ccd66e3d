"""Short trials on the user's own rows: which rows they see, what they may cost, and what they choose.

A step size is tried on *whole classes*, all rows of some randomly drawn ones. Among random rows a class has fewer rows
than it will have in the fit, and its weights want larger steps: on nine sets of first labels a pick on random rows
costs up to 0.43 nats of test log-loss, one on whole classes 0.05 (bench/decisions.md).

The ridge of full passes is found by cross-validation: the few fits are exact, so that only the ridge differs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.blending.blend import ScoredRows, decoupled_loss
from manyclass.checks import lazy_property
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned, Trials
from manyclass.choosing.facts import Facts, weights_met
from manyclass.choosing.plans import (
    hybrid_plan,
    pairs_plan,
    points_plan,
    softmax_batches_plan,
    with_rate_of_pairs,
)
from manyclass.choosing.recipes import Choice
from manyclass.figures import FIGURES, Figures
from manyclass.training.core_training import Watch
from manyclass.training.pairs import fit_pairs
from manyclass.training.passes import fork, held_out
from manyclass.training.plan import AnyPlan, GroupIds, HybridPlan, PairsPlan, PointsPlan, Schedule, draw_rows_out
from manyclass.training.points import fit_points
from manyclass.training.start import Start, begin_at_closed_form
from manyclass.training.state import Points
from manyclass.training.weighting import normalized, some_of, taken
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

VALIDATION = 0.1  # share of the points on which ridges and rates are compared

T = TypeVar("T")


def whole_classes(
    labels: Ids, n_rows: int, random: np.random.RandomState, figures: Figures = FIGURES
) -> NDArray[np.intp]:
    """Draw classes until they have `n_rows` rows, and return all of their rows, in order.

    Where these are few, for classes so large that fewer than LEAST_CLASSES make up the rows, that would be another
    problem than that of all classes: then the rows are random ones of all classes.
    """
    order = random.permutation(int(labels.max()) + 1)
    rows = _core.rows_of_whole_classes(labels, order, n_rows, figures.LEAST_CLASSES)
    return np.sort(random.permutation(len(labels))[:n_rows]) if rows is None else rows


@dataclass(frozen=True)
class Sample:
    """Rows of a trial, to train on and held out, their classes numbered anew, and the weights of each part.

    `classes` are the numbers that they have otherwise.
    """

    x: Matrix
    labels: Ids
    weights: Doubles | None
    x_out: Matrix
    labels_out: Ids
    weights_out: Doubles | None
    classes: Ids

    @property
    def n_classes(self) -> int:
        """How many they are."""
        return len(self.classes)

    @classmethod
    def of(
        cls,
        x: Matrix,
        labels: Ids,
        weights: Doubles | None,
        rows: NDArray[np.intp],
        random: np.random.RandomState,
        groups: GroupIds | None = None,
    ) -> Sample | None:
        """Hold out some of the rows, or groups; None where they are of one class, or no class has two of them."""
        classes, positions = np.unique(labels[rows], return_inverse=True)
        numbered: Ids = positions.astype(np.int32)
        if len(classes) < 2 or len(classes) == len(rows):
            return None
        out_of_training = held_out(numbered, VALIDATION, random, taken(groups, rows))
        trained, out = rows[~out_of_training], rows[out_of_training]
        return cls(
            x[trained],
            numbered[~out_of_training],
            some_of(weights, trained),
            x[out],
            numbered[out_of_training],
            some_of(weights, out),
            classes,
        )

    def loss(self, plan: PointsPlan) -> float:
        """Train by a plan and return the log-loss on the rows held out, in nats; infinite where training diverged."""
        start, data = self.discriminant if plan.discriminant else None, (self.x, self.labels, self.n_classes)
        train = partial(fit_points, plan, *data, Watch(), start=start, weights=self.weights)
        model, curve, *_ = quietly(train)
        return self.loss_of(model, plan.n_threads) if len(curve) == plan.max_iter else math.inf

    def loss_of(self, model: Weights, n_threads: int) -> float:
        """Return the log-loss of a model on the rows held out, in nats; infinite where it is no number."""
        losses, _ = model.log_losses(self.x_out, self.labels_out, n_threads)
        loss = float(np.average(losses, weights=self.weights_out))
        return loss if math.isfinite(loss) else math.inf

    @lazy_property
    def discriminant(self) -> Start | None:
        """The weights of linear discriminant analysis, of dense rows that are trained on."""
        if isinstance(self.x, sp.csr_array):
            return None
        return begin_at_closed_form(self.x, self.labels, self.n_classes, self.weights, 0, 1)

    def cost(self, plan: PointsPlan, facts: Facts) -> float:
        """Predict the seconds of `loss`, with the `facts` of all the data."""
        here = replace(facts, n_samples=len(self.labels), n_classes=self.n_classes)
        visits = costs.visit_cost(here, costs.n_drawn(plan)) * len(self.labels) * plan.max_iter
        return 1e-6 * (visits + costs.visit_cost(here, None) * len(self.labels_out))


# Step sizes

# The least loss of trials, the exponents of the steps that are as good, and the lines of the report.
Tried = tuple[float, list[int], slice]


def with_rate(plan: PointsPlan, factor: float, *, u_follows: bool) -> PointsPlan:
    """Return the plan with its step size multiplied; that of u follows where it is tied."""
    schedule = plan.schedule
    u_rate = schedule.u_learning_rate * (factor if u_follows else 1.0)
    return replace(
        plan, schedule=replace(schedule, learning_rate=factor * schedule.learning_rate, u_learning_rate=u_rate)
    )


@dataclass(frozen=True)
class RateSearch:
    """Trials of step sizes on a sample, as multiples of the one that a plan has.

    Attributes
    ----------
    trials : Trials
    sample : Sample
    u_follows : bool
        Whether the step size of u is tied to that of W.
    cost : float
        Predicted seconds of a trial.
    size : tuple of int
        Rows, classes and passes of a trial.
    figures : Figures
    """

    trials: Trials
    sample: Sample
    u_follows: bool
    cost: float
    size: tuple[int, int, int]
    figures: Figures

    def plan(self, short: PointsPlan, exponent: float) -> PointsPlan:
        """Return the plan of a trial."""
        return with_rate(short, float(self.figures.RATE_RATIO**exponent), u_follows=self.u_follows)

    def search(self, short: PointsPlan, *, other: float = math.inf, reserved: float = 0.0) -> Tried:
        """Try step sizes, in what is left of the budget but for the `reserved` seconds.

        No further ones are tried where the first are far behind the least loss of an `other` search.
        """
        losses = list[float]()

        def loss(exponent: int) -> float:
            trial = self.plan(short, exponent)
            rate, train = trial.schedule.learning_rate, partial(self.sample.loss, trial)
            losses.append(self.trials.make("learning_rate", rate, train, predicted=self.cost, size=self.size))
            return losses[-1]

        def goes_on() -> bool:
            return self.trials.left >= self.cost + reserved and min(losses) < self.figures.FAR_BEHIND * other

        since = len(self.trials.report)
        tried = walk(loss, self.figures.FIRST_RATES, self.figures.FURTHEST_RATE, goes_on)
        least = min(tried.values())
        good = [exponent for exponent in tried if tried[exponent] <= self.figures.AS_GOOD * least]
        return least, good, slice(since, len(self.trials.report))


def best_rate(
    trials: Trials,
    plan: PointsPlan,
    x: Matrix,
    labels: Ids,
    facts: Facts,
    random_state: Any,
    weights: Doubles | None,
    groups: GroupIds | None = None,
    *,
    u_follows: bool,
    passes_open: bool = False,
) -> PointsPlan:
    """Return the plan with the step size that two passes over whole classes make the best one.

    It is tried as multiples of the one that the plan has, which is kept where no trial can be made or all diverge. A
    fit of more passes gets less of it, so that the sum of its steps is at most `figures.SUM_OF_STEPS` times the pick.
    A plan that may begin at the discriminant does so, without a ridge, where that makes the trials clearly better. If
    they hardly better the discriminant itself, the fit makes no more passes than they do, where these are open.
    """
    figures = facts.figures
    # Where there are two starts to try, each has a half of the budget.
    n_rows = costs.rows_to_try(trials.left / (1 + plan.discriminant), facts, plan)
    untried = replace(plan, discriminant=False)
    if n_rows < figures.FEWEST_TO_TRY:
        return untried
    random = fork(random_state)
    sample = Sample.of(x, labels, weights, whole_classes(labels, n_rows, random, figures), random, groups)
    if sample is None:
        return untried
    short = _short_plan(plan, figures)
    size = (len(sample.labels), sample.n_classes, short.max_iter)
    search = RateSearch(trials, sample, u_follows, sample.cost(short, facts), size, figures)
    plan, (least, good, lines) = _best_start(search, plan, short, passes_open=passes_open)
    if not math.isfinite(least):
        return plan
    chosen = (search.plan(short, exponent).schedule.learning_rate for exponent in good)
    trials.choose("learning_rate", *chosen, lines=lines)
    best = float(figures.RATE_RATIO ** ((min(good) + max(good)) / 2))
    sum_of_steps = _core.sum_of_steps(plan.schedule.name, plan.schedule.decay, plan.max_iter)
    return with_rate(plan, best * min(1.0, figures.SUM_OF_STEPS / sum_of_steps), u_follows=u_follows)


def _short_plan(plan: PointsPlan, figures: Figures) -> PointsPlan:
    """Return the plan of a trial of step sizes."""
    schedule = plan.schedule
    rates = (schedule.learning_rate, schedule.u_learning_rate)
    return replace(
        plan,
        max_iter=figures.TRIAL_PASSES,
        schedule=Schedule("exponential", *rates, figures.TRIAL_DECAY),
        averaging="none",
        share_classes=None,
        hogwild=False,  # the choice does not depend on threads
        verbose=0,
    )


def _best_start(
    search: RateSearch, plan: PointsPlan, short: PointsPlan, *, passes_open: bool
) -> tuple[PointsPlan, Tried]:
    """Return the plan with the better of two starts, 0 or the discriminant where it may be, and its trials."""
    trials, sample, from_start, closed_loss = search.trials, search.sample, (math.inf, list[int](), slice(0)), math.inf
    if plan.discriminant and (start := sample.discriminant) is not None:
        closed = partial(sample.loss_of, start.weights(sparse=False), plan.n_threads)
        closed_loss = trials.make("start", "discriminant", closed, predicted=0.0, size=(*search.size[:2], 0))
        from_start = search.search(replace(short, alpha=0.0), reserved=trials.left / 2)
    tried = search.search(replace(short, discriminant=False), other=from_start[0])
    plan = replace(plan, discriminant=from_start[0] < search.figures.BETTER_START * tried[0])
    if not plan.discriminant:
        return plan, tried
    plan = replace(plan, alpha=0.0)  # a ridge draws to 0 what it began at
    trials.choose("start", "discriminant")
    if passes_open and closed_loss <= search.figures.AS_GOOD * from_start[0]:
        plan = replace(plan, max_iter=short.max_iter, schedule=replace(plan.schedule, decay=search.figures.TRIAL_DECAY))
    return plan, from_start


def best_rate_of_pairs(trials: Trials, plan: PairsPlan, points: Points, facts: Facts, random_state: Any) -> PairsPlan:
    """Return the plan with the step size of the least decoupled loss on rows held out of a short training.

    Only rows tell whose labels the training has. Where most classes have one row hardly any do; by the others the
    smallest step seems best, as they are the likelier the less is learnt.
    """
    figures = facts.figures
    visit = 1e-6 * costs.pairs_cost(facts) * plan.max_iter
    n_rows = int(min(facts.n_samples, figures.MOST_ROWS_OF_PAIRS, trials.left / (figures.PAIR_RATES * visit)))
    if n_rows < figures.FEWEST_TO_TRY:
        return plan
    order = fork(random_state).permutation(facts.n_samples)[:n_rows]
    n_out = int(figures.SHARE_OF_PAIRS * n_rows)
    is_out = np.arange(n_rows) < n_out
    if points.groups is not None:
        is_out = draw_rows_out(n_out, n_rows, fork(random_state), points.groups[order])
    out, trained = points.some(np.sort(order[is_out])), points.some(np.sort(order[~is_out]))
    out = out.some(np.flatnonzero(out.labels.known_from(trained.labels)))
    if len(out.labels) < figures.FEWEST_KNOWN:
        return plan
    # A pair has as much fewer rows as there are fewer.
    least = max(1, round(plan.min_count * len(trained.labels) / facts.n_samples))
    short = replace(plan, min_count=least, verbose=0, hogwild=False)  # the choice does not depend on threads
    size, rule = (len(trained.labels), facts.n_classes, plan.max_iter), plan.schedule.learning_rate
    since = len(trials.report)

    def loss(exponent: int) -> float:
        trial = with_rate_of_pairs(short, rule * figures.RATE_RATIO**exponent)
        train = partial(_held_out_loss, trial, trained, out, facts.n_classes)
        rate = trial.schedule.learning_rate
        return trials.make("learning_rate", rate, train, predicted=visit * n_rows, size=size)

    tried = walk(loss, (0, -1), (figures.LEAST_PAIR_RATE, 0), lambda: trials.left >= visit * n_rows)
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        return plan
    chosen = with_rate_of_pairs(plan, rule * figures.RATE_RATIO**best)
    trials.choose("learning_rate", chosen.schedule.learning_rate, lines=slice(since, None))
    return chosen


def _held_out_loss(plan: PairsPlan, trained: Points, out: Points, n_classes: int) -> float:
    """Train, and return the decoupled loss of the rows held out, of one label the log-loss; infinite if it diverged."""
    train = partial(fit_pairs, plan, trained.x, trained.labels, n_classes, Watch(), normalized(trained.weights))
    weights, curve, *_ = quietly(train)
    if len(curve) < plan.max_iter:
        return math.inf
    loss = decoupled_loss(weights, ScoredRows(out.x, out.labels, plan.n_threads, out.weights))
    return loss if math.isfinite(loss) else math.inf


# How trials are made


def walk(
    loss: Callable[[int], float],
    first: Iterable[int],
    furthest: tuple[int, int],
    goes_on: Callable[[], bool] = lambda: True,
) -> dict[int, float]:
    """Return the losses of the first exponents, and of further ones while the best is at an end of those tried.

    Parameters
    ----------
    loss : callable
        It returns the loss of an exponent, infinite where training diverged.
    first : iterable of int
        Neighbours, in order.
    furthest : pair of int
        The last exponents that are tried downwards and upwards.
    goes_on : callable
        Asked before each but the first; False ends the walk.
    """
    steps = _core.StepWalk([*first], *furthest)
    while (exponent := steps.next()) is not None and (not steps.losses or goes_on()):
        steps.tell(loss(exponent))
    return dict(zip(steps.exponents, steps.losses, strict=True))


def quietly(train: Callable[[], T]) -> T:
    """Train without telling that it diverged; Ctrl-C, which training takes for the end of a fit, ends the search."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = train()
    if any("interrupted" in str(w.message) for w in caught):
        raise KeyboardInterrupt
    return result


def plan_points(
    choice: Choice,
    x: Matrix,
    labels: Ids,
    weights: Doubles | None = None,
    rates: LearningRates | None = None,
    groups: GroupIds | None = None,
) -> Planned:
    """The plan of a linear model of one label a row, by steps.

    Parameters
    ----------
    choice : Choice
    x : csr_array or ndarray of shape (n_samples, n_features)
        Scaled where features are, as the choice's facts are.
    labels : ndarray of shape (n_samples,), int32
    weights : ndarray of shape (n_samples,), float64, or None
        The weights of the points, with mean 1, those of classes included.
    rates : LearningRates or None
        Of a grid of step sizes, the best of which is taken.
    groups : ndarray of shape (n_samples,), int64, or None
        Whose rows trials hold out together.
    """
    if rates is not None:
        choice = replace(choice.changed(learning_rate=rates.best), taken=choice.recipe)
    planned, facts = points_plan(choice), choice.facts
    plan = _points(planned)
    costs.check_memory(facts, plan, choice.most_bytes)
    budget = 0.0 if choice.timed else costs.budget(costs.fit_cost(facts, plan), facts.figures)
    planned, data = replace(planned, trials=Trials(budget, bool(plan.verbose))), (x, labels, weights, groups)
    if choice.tries("learning_rate"):
        planned = _with_rate(planned, choice, *data)
    if rates is not None:
        params = {**planned.params, "learning_rate": rates.best}
        planned = replace(planned, params=params, rates=rates.table)
    return planned


def _with_rate(
    planned: Planned, choice: Choice, x: Matrix, labels: Ids, weights: Doubles | None, groups: GroupIds | None
) -> Planned:
    """Return the plan with the step size that trials find."""
    solver = choice["solver"]
    u_rate = getattr(solver, "u_learning_rate", "tied")
    follows = u_rate == "tied" or (u_rate == "auto" and solver.name not in choice.figures.U_RATES)
    passes_open = choice.is_open("max_iter")
    data = (x, labels, choice.facts, choice.parameters["random_state"], weights, groups)
    plan = best_rate(planned.trials, _points(planned), *data, u_follows=follows, passes_open=passes_open)
    params = {**planned.params, "learning_rate": plan.schedule.learning_rate}
    if plan.discriminant:
        params["alpha"] = plan.alpha
    if passes_open and plan.discriminant:
        params["max_iter"] = plan.max_iter
        params["solver"].set_params(decay=plan.schedule.decay)
    if u_rate == "auto":
        params["solver"].set_params(u_learning_rate=plan.schedule.u_learning_rate)
    return replace(planned, plan=plan, params=params)


def _points(planned: Planned) -> PointsPlan:
    assert isinstance(planned.plan, PointsPlan)
    return planned.plan


def plan_pairs(choice: Choice, points: Points) -> Planned:
    """The plan of weights on pairs, alone or beside embeddings."""
    planned = hybrid_plan(choice) if choice["model"].name == "hybrid" else pairs_plan(choice)
    whole = planned.plan
    pairs = whole.pairs if isinstance(whole, HybridPlan) else whole
    assert isinstance(pairs, PairsPlan)
    if choice.timed or not choice.tries("learning_rate"):
        return planned
    facts = replace(choice.facts, met=_met(points, pairs.min_count, pairs.few_classes))
    trials = Trials(costs.budget(costs.fit_cost(facts, whole), facts.figures), bool(pairs.verbose))
    pairs = best_rate_of_pairs(trials, pairs, points, facts, choice.parameters["random_state"])
    plan = replace(whole, pairs=pairs) if isinstance(whole, HybridPlan) else pairs
    params = {**planned.params, "learning_rate": pairs.schedule.learning_rate}
    return replace(planned, plan=plan, params=params, trials=trials)


def _met(points: Points, min_count: int, few_classes: int) -> float:
    """Return how many weights a row meets where a pair has one by these settings."""
    return weights_met(points.x, points.labels, points.n_classes, (min_count,), few_classes)[min_count]


def as_met(facts: Facts, plan: AnyPlan, points: Points) -> Facts:
    """Return the facts with what rows meet of the weights on pairs that a plan trains, which its cost depends on."""
    pairs = plan.pairs if isinstance(plan, HybridPlan) else plan
    if not isinstance(pairs, PairsPlan):
        return facts
    return replace(facts, met=_met(points, pairs.min_count, pairs.few_classes))


def plan_with_one_model(choice: Choice, points: Points) -> Planned:
    """The plan of a model that is no linear one of one label a row."""
    if choice["model"].name in ("pairs", "hybrid"):
        return plan_pairs(choice, points)
    return softmax_batches_plan(choice)


@dataclass(frozen=True)
class LearningRates:
    """What `tune_learning_rate` found.

    Attributes
    ----------
    rates : ndarray of shape (n_rates,)
        Step sizes, ascending.
    losses : ndarray of shape (n_rates,)
        Exact log-loss by the criterion, in nats, or of a MarginClassifier the error; infinite where training diverged.
    best : float
        The rate of the smallest one.
    """

    rates: Doubles
    losses: Doubles
    best: float

    @property
    def table(self) -> dict[float, float]:
        """Loss by rate."""
        return dict(zip(self.rates.tolist(), self.losses.tolist(), strict=True))
