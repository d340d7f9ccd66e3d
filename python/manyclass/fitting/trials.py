"""Short trials on the user's own rows: which rows they see, what they may cost, and the table of what they found.

A step size is tried on *whole classes*, all rows of some randomly drawn ones. Among random rows a class has fewer rows
than it will have in the fit, and its weights want larger steps: on nine sets of first labels a pick on random rows
costs up to 0.43 nats of test log-loss, one on whole classes 0.05 (bench/decisions.md).
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
from manyclass.checks import csr_parts, lazy_property
from manyclass.choosing import costs
from manyclass.choosing.facts import Facts, Lengths
from manyclass.choosing.figures import FIGURES, Figures
from manyclass.choosing.plans import Trials, with_rate_of_pairs
from manyclass.parts import Parameters
from manyclass.training.blend import best_scales, decoupled_loss
from manyclass.training.core_training import Watch
from manyclass.training.pairs import fit_pairs
from manyclass.training.passes import fork, held_out, warn_user
from manyclass.training.plan import Labels, PairsPlan, PointsPlan, Schedule
from manyclass.training.points import fit_points
from manyclass.training.start import Start, begin_at_closed_form
from manyclass.training.state import Features, Points
from manyclass.training.weighting import normalized, shares_of_classes, some_of
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

EXPONENTS = range(-3, 4)  # Fagan & Iyengar 2018, section 4.1: 10^0, 10^+-1, 10^+-2, 10^+-3
FURTHEST = 6  # no grid goes on beyond 10^+-6
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

    def points(self, classes: NDArray[Any]) -> Points:
        """Return the rows to train on as the points of a fit, their classes being called by these names."""
        n_rows, n_features = self.x.shape
        given = (self.x, Labels.single(self.labels), classes, Features(n_features, None))
        return Points(*given, weights=self.weights, n_given=n_rows)

    @classmethod
    def of(
        cls,
        x: Matrix,
        labels: Ids,
        weights: Doubles | None,
        rows: NDArray[np.intp],
        random: np.random.RandomState,
        share: float = VALIDATION,
    ) -> Sample | None:
        """Hold out a share of some rows; None where they are of one class, or no class has two of them."""
        classes, positions = np.unique(labels[rows], return_inverse=True)
        numbered: Ids = positions.astype(np.int32)
        if len(classes) < 2 or len(classes) == len(rows):
            return None
        held = held_out(numbered, share, random)
        kept, out = rows[~held], rows[held]
        return cls(
            x[kept],
            numbered[~held],
            some_of(weights, kept),
            x[out],
            numbered[held],
            some_of(weights, out),
            classes,
        )

    def loss(self, plan: PointsPlan, heading: str = "") -> float:
        """Train by a plan and return the log-loss on the rows held out, in nats; infinite where training diverged.

        `heading` stands before the progress that a plan with `verbose` shows.
        """
        watch, start = Watch(heading=heading), self.discriminant if plan.discriminant else None
        data = (self.x, self.labels, self.n_classes)
        train = partial(fit_points, plan, *data, watch, start=start, weights=self.weights)
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

    def closed_forms(self) -> dict[str, Weights]:
        """Return what needs no training: the shares of classes and, of sparse rows, naive Bayes.

        That has the scales that are best on the rows held out themselves, which favours it.
        """
        shares = shares_of_classes(self.labels, self.n_classes, len(self.labels), self.weights)
        no_pairs = np.zeros(self.x.shape[1] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        prior = Weights.on_pairs(*no_pairs, np.log(shares).astype(np.float32))
        if not isinstance(self.x, sp.csr_array):
            return {"prior": prior}
        given = (np.arange(len(self.labels) + 1), self.labels)
        indptr, classes = _core.support(csr_parts(self.x), self.x.shape[1], *given, self.n_classes, 1)
        pairs = Weights.on_pairs(indptr, classes, None, np.zeros(self.n_classes, np.float32))
        found = replace(pairs, values=pairs.closed_forms(self.x, *given, self.weights)[0])
        of_pairs, of_prior = best_scales(found, prior, self.x_out, Labels.single(self.labels_out), 1, self.weights_out)
        scaled = replace(found, values=found.values * np.float32(of_pairs), bias=prior.bias * np.float32(of_prior))
        return {"prior": prior, "naive Bayes": scaled}

    def cost(self, plan: PointsPlan, facts: Facts) -> float:
        """Predict the seconds of `loss`, with the `facts` of all the data."""
        here = replace(facts, n_samples=len(self.labels), n_classes=self.n_classes)
        visits = costs.visit_cost(here, costs.n_drawn(plan)) * len(self.labels) * plan.max_iter
        return 1e-6 * (visits + costs.visit_cost(here, None) * len(self.labels_out))


# The least loss of trials, the exponents of the steps that are as good, and the lines of the report.
Tried = tuple[float, list[int], slice]
# Tries step sizes for parameters of which nothing else is open, on rows with these labels and weights.
TriedRates = Callable[[Parameters, Matrix, Ids, Doubles | None], "LearningRates"]
# The log-loss on the rows of a sample that are held out, of a fit with these parameters to the others; classes are
# called as in the fit, for their names may say which features are the classes themselves. Infinite: it ended early.
LossOfFit = Callable[[Parameters, Sample, NDArray[Any]], float]


def with_rate(plan: PointsPlan, factor: float, *, u_follows: bool) -> PointsPlan:
    """Return the plan with its step size multiplied; that of u follows where it is tied."""
    schedule = plan.schedule
    u_rate = schedule.u_learning_rate * (factor if u_follows else 1.0)
    return replace(
        plan, schedule=replace(schedule, learning_rate=factor * schedule.learning_rate, u_learning_rate=u_rate)
    )


def best_rate(
    trials: Trials,
    plan: PointsPlan,
    x: Matrix,
    labels: Ids,
    facts: Facts,
    random_state: Any,
    weights: Doubles | None,
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
    sample = Sample.of(x, labels, weights, whole_classes(labels, n_rows, random, figures), random)
    if sample is None:
        return untried
    short = replace(
        plan,
        max_iter=figures.TRIAL_PASSES,
        schedule=Schedule(
            "exponential", plan.schedule.learning_rate, plan.schedule.u_learning_rate, figures.TRIAL_DECAY
        ),
        averaging="none",
        share_classes=None,
        hogwild=False,  # the choice does not depend on threads
        verbose=0,
    )
    cost, size = sample.cost(short, facts), (len(sample.labels), sample.n_classes, short.max_iter)

    def factor(exponent: float) -> float:
        return float(figures.RATE_RATIO**exponent)

    def search(short: PointsPlan, *, other: float = math.inf, reserved: float = 0.0) -> Tried:
        losses = list[float]()

        def loss(exponent: int) -> float:
            trial = with_rate(short, factor(exponent), u_follows=u_follows)
            rate = trial.schedule.learning_rate
            losses.append(trials.make("learning_rate", rate, lambda: sample.loss(trial), predicted=cost, size=size))
            return losses[-1]

        def goes_on() -> bool:
            return trials.left >= cost + reserved and min(losses) < figures.FAR_BEHIND * other

        since = len(trials.report)
        tried = walk(loss, figures.FIRST_RATES, figures.FURTHEST_RATE, goes_on)
        least = min(tried.values())
        good = [exponent for exponent in tried if tried[exponent] <= figures.AS_GOOD * least]
        return least, good, slice(since, len(trials.report))

    from_start: Tried = (math.inf, [], slice(0))
    of_closed = math.inf
    if plan.discriminant and (start := sample.discriminant) is not None:
        closed = partial(sample.loss_of, start.weights(sparse=False), plan.n_threads)
        of_closed = trials.make("start", "discriminant", closed, predicted=0.0, size=(*size[:2], 0))
        from_start = search(replace(short, alpha=0.0), reserved=trials.left / 2)
    least, good, lines = search(replace(short, discriminant=False), other=from_start[0])
    plan = replace(plan, discriminant=from_start[0] < figures.BETTER_START * least)
    if plan.discriminant:
        least, good, lines = from_start
        plan = replace(plan, alpha=0.0)  # a ridge draws to 0 what it began at
        trials.choose("start", "discriminant")
        if passes_open and of_closed <= figures.AS_GOOD * least:
            plan = replace(plan, max_iter=short.max_iter, schedule=replace(plan.schedule, decay=figures.TRIAL_DECAY))
    if not math.isfinite(least):
        return plan
    chosen = (with_rate(short, factor(exponent), u_follows=u_follows).schedule.learning_rate for exponent in good)
    trials.choose("learning_rate", *chosen, lines=lines)
    best = (min(good) + max(good)) / 2
    sum_of_steps = _core.sum_of_steps(plan.schedule.name, plan.schedule.decay, plan.max_iter)
    return with_rate(plan, factor(best) * min(1.0, figures.SUM_OF_STEPS / sum_of_steps), u_follows=u_follows)


def best_ridge(
    trials: Trials,
    plan: PointsPlan,
    x: Matrix,
    labels: Ids,
    facts: Facts,
    random_state: Any,
    weights: Doubles | None,
) -> tuple[float, dict[float, float]]:
    """Return the ridge of smallest log-loss on points held out, and the log-losses of all that were tried."""
    sample = Sample.of(x, labels, weights, np.arange(len(labels)), fork(random_state))
    tried: dict[float, float] = {}
    if sample is None:
        return plan.alpha, tried
    unit, ridges = Lengths.of(x).mean_square, facts.figures.RIDGES
    cost, size = sample.cost(plan, facts), (len(sample.labels), sample.n_classes, plan.max_iter)
    for number, ridge in enumerate(ridges, 1):
        trial = replace(plan, alpha=ridge * unit)
        train = partial(sample.loss, trial, f"choosing alpha, trial {number} of at most {len(ridges)}")
        tried[trial.alpha] = trials.make("alpha", trial.alpha, train, predicted=cost, size=size)
        # Past the valley, which has one bottom, larger ones are not tried: one is far above it, or two rise in a row.
        losses = list(tried.values())
        rises = len(losses) > 2 and losses[-3] < losses[-2] < losses[-1] < math.inf
        if rises or facts.figures.PAST_THE_VALLEY * min(losses) < losses[-1] < math.inf:
            break
    best = min(tried, key=lambda alpha: tried[alpha])
    trials.choose("alpha", best)
    return best, tried


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
    out, kept = points.some(np.sort(order[:n_out])), points.some(np.sort(order[n_out:]))
    out = out.some(np.flatnonzero(out.labels.known_from(kept.labels)))
    if len(out.labels) < figures.FEWEST_KNOWN:
        return plan
    # A pair has as much fewer rows as there are fewer.
    least = max(1, round(plan.min_count * len(kept.labels) / facts.n_samples))
    short = replace(plan, min_count=least, verbose=0, hogwild=False)  # the choice does not depend on threads
    size, rule = (len(kept.labels), facts.n_classes, plan.max_iter), plan.schedule.learning_rate
    since = len(trials.report)

    def loss(exponent: int) -> float:
        trial = with_rate_of_pairs(short, rule * figures.RATE_RATIO**exponent)
        train = partial(_held_out_loss, trial, kept, out, facts.n_classes)
        rate = trial.schedule.learning_rate
        return trials.make("learning_rate", rate, train, predicted=visit * n_rows, size=size)

    tried = walk(loss, (0, -1), (figures.LEAST_PAIR_RATE, 0), lambda: trials.left >= visit * n_rows)
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        return plan
    chosen = with_rate_of_pairs(plan, rule * figures.RATE_RATIO**best)
    trials.choose("learning_rate", chosen.schedule.learning_rate, lines=slice(since, None))
    return chosen


def _held_out_loss(plan: PairsPlan, kept: Points, out: Points, n_classes: int) -> float:
    """Train, and return the decoupled loss of the rows held out, of one label the log-loss; infinite if it diverged."""
    train = partial(fit_pairs, plan, kept.x, kept.labels, n_classes, Watch(), normalized(kept.weights))
    weights, curve, *_ = quietly(train)
    if len(curve) < plan.max_iter:
        return math.inf
    loss = decoupled_loss(weights, out.x, out.labels, plan.n_threads, out.weights)
    return loss if math.isfinite(loss) else math.inf


# Grids of step sizes


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
