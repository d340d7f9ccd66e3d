"""Short trials on the user's own rows: which rows they see, what they may cost, and what they choose.

A step size is tried on *whole classes*, all rows of some randomly drawn ones. Among random rows a class has fewer rows
than it will have in the fit, and its weights want larger steps: on nine sets of first labels a pick on random rows
costs up to 0.43 nats of test log-loss, one on whole classes 0.05 (bench/decisions.md).

The ridge of full passes is found by cross-validation: the few fits are exact, so that only the ridge differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending.blend import decoupled_loss
from manyclass.blending.calibration import label_log_losses
from manyclass.checks import csr_parts, lazy_property, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts, LearningRates, Lengths, Planned, Trials, walk, weights_met
from manyclass.choosing.plans import full_plan, points_plan, scales_features, softmax_batches_plan, with_rate_of_pairs
from manyclass.choosing.recipes import Choice
from manyclass.datasets.preprocessing import first_label
from manyclass.figures import FIGURES
from manyclass.fitting.planner import Planner, fit_runs
from manyclass.fitting.points import some_rows
from manyclass.labels import find_positions, sorted_classes
from manyclass.models import MODELS
from manyclass.training.core_training import TrainingState, Watch, fit_full_batch, summarize
from manyclass.training.minibatches import fit_pairs
from manyclass.training.passes import fork, quietly, warn_user
from manyclass.training.plan import (
    AnyPlan,
    BatchesPlan,
    FullBatchPlan,
    GroupIds,
    HybridPlan,
    Labels,
    PairsPlan,
    PointsPlan,
    Schedule,
    draw_folds,
    draw_rows_out,
    held_out,
)
from manyclass.training.points import fit_points
from manyclass.training.state import Points, State, checked_weights, taken, weights_left
from manyclass.training.train import begin_at_closed_form, train
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Ids, Matrix
from manyclass.weights.weights import FeatureScaling, Weights


def whole_classes(labels: Ids, n_rows: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Draw classes until they have `n_rows` rows, and return all of their rows, in order.

    Where these are few, for classes so large that fewer than LEAST_CLASSES make up the rows, that would be another
    problem than that of all classes: then the rows are random ones of all classes.
    """
    order = random.permutation(int(labels.max()) + 1)
    rows = _core.rows_of_whole_classes(labels, order, n_rows, FIGURES.LEAST_CLASSES)
    return np.sort(random.permutation(len(labels))[:n_rows]) if rows is None else rows


@dataclass(frozen=True)
class Sample:
    """Rows of a trial, to train on and held out, their classes numbered anew."""

    trained: Points
    out: Points

    @classmethod
    def of(cls, points: Points, rows: NDArray[np.intp], random: np.random.RandomState) -> Sample | None:
        """Hold out some of the rows, or groups; None where they are of one class, or no class has two of them."""
        sample = points.some(rows)
        classes, positions = np.unique(sample.labels.ids, return_inverse=True)
        if len(classes) < 2 or len(classes) == len(rows):
            return None
        labels = Labels.single(positions.astype(np.int32))
        sample = replace(sample, labels=labels, classes=points.classes[classes])
        is_out = held_out(labels.ids, FIGURES.VALIDATION, random, sample.groups)
        return cls(sample.some(np.flatnonzero(~is_out)), sample.some(np.flatnonzero(is_out)))

    def size(self, plan: PointsPlan) -> tuple[int, int, int]:
        """Return the rows, classes and passes of a trial."""
        return len(self.trained.labels), self.trained.n_classes, plan.max_iter

    def loss(self, plan: PointsPlan) -> float:
        """Train by a plan and return the log-loss on the rows held out, in nats; infinite where training diverged."""
        trained, start = self.trained, self.discriminant if plan.discriminant else None
        model, curve, *_ = quietly(partial(fit_points, plan, trained, Watch(), start=start))
        return self.loss_of(model, plan.n_threads) if len(curve) == plan.max_iter else math.inf

    def loss_of(self, model: Weights, n_threads: int) -> float:
        """Return the log-loss of a model on the rows held out, in nats."""
        losses, _ = model.log_losses(self.out.x, self.out.labels.ids, n_threads)
        return float(np.average(losses, weights=self.out.weights))

    @lazy_property
    def discriminant(self) -> Weights | None:
        """The weights of linear discriminant analysis, of dense rows that are trained on."""
        trained = self.trained
        if isinstance(trained.x, sp.csr_array):
            return None
        return begin_at_closed_form(trained, 0, 1)

    def cost(self, plan: PointsPlan, facts: Facts) -> float:
        """Predict the seconds of `loss`, with the `facts` of all the data."""
        n_rows = len(self.trained.labels)
        facts = replace(facts, n_samples=n_rows, n_classes=self.trained.n_classes)
        visits = costs.visit_cost(facts, costs.n_drawn(plan)) * n_rows * plan.max_iter
        return 1e-6 * (visits + costs.visit_cost(facts, None) * len(self.out.labels))


# Step sizes

# The least loss of trials, the exponents of the steps that are as good, and the lines of the report.
Tried = tuple[float, list[int], slice]


def with_rate(plan: PointsPlan, factor: float, *, u_follows: bool) -> PointsPlan:
    """Return the plan with its step size multiplied; that of u follows where it is tied."""
    rate, u_rate = plan.schedule.learning_rate, plan.schedule.u_learning_rate
    rates: dict[str, Any] = {"learning_rate": factor * rate, "u_learning_rate": u_rate * (factor if u_follows else 1.0)}
    return replace(plan, schedule=replace(plan.schedule, **rates))


def search_rates(
    trials: Trials,
    sample: Sample,
    short: PointsPlan,
    cost: float,
    *,
    u_follows: bool,
    other: float = math.inf,
    reserved: float = 0.0,
) -> Tried:
    """Try step sizes, as multiples of that of a short plan, in what is left of the budget but for `reserved` seconds.

    A trial is predicted to take `cost` seconds. No further ones are tried where the first are far behind the least loss
    of an `other` search.
    """
    since, losses = len(trials.report), list[float]()

    def loss(exponent: int) -> float:
        trial = with_rate(short, float(FIGURES.RATE_RATIO**exponent), u_follows=u_follows)
        rate, train = trial.schedule.learning_rate, partial(sample.loss, trial)
        losses.append(trials.make("learning_rate", rate, train, predicted=cost, size=sample.size(short)))
        return losses[-1]

    def goes_on() -> bool:
        return trials.left >= cost + reserved and min(losses) < FIGURES.FAR_BEHIND * other

    tried = walk(loss, FIGURES.FIRST_RATES, FIGURES.FURTHEST_RATE, goes_on)
    least = min(tried.values())
    good = [exponent for exponent in tried if tried[exponent] <= FIGURES.AS_GOOD * least]
    return least, good, slice(since, len(trials.report))


def best_rate(trials: Trials, plan: PointsPlan, points: Points, choice: Choice) -> PointsPlan:
    """Return the plan with the step size that two passes over whole classes make the best one.

    It is tried as multiples of the one that the plan has, which is kept where no trial can be made or all diverge. A
    fit of more passes gets less of it, so that the sum of its steps is at most `FIGURES.SUM_OF_STEPS` times the pick.
    A plan that may begin at the discriminant does so, without a ridge, where that makes the trials clearly better. If
    they hardly better the discriminant itself, the fit makes no more passes than they do, where these are open.
    """
    facts = choice.facts
    # Where there are two starts to try, each has a half of the budget.
    seconds, visit = trials.left / (1 + plan.discriminant), 1e-6 * costs.visit_cost(facts, costs.n_drawn(plan))
    affordable = seconds / (FIGURES.RATES * FIGURES.TRIAL_PASSES * visit)
    n_rows = int(min(facts.n_samples, FIGURES.MOST_TO_TRY, affordable))
    untried = replace(plan, discriminant=False)
    if n_rows < FIGURES.FEWEST_TO_TRY:
        return untried
    random = fork(choice.parameters["random_state"])
    sample = Sample.of(points, whole_classes(points.labels.ids, n_rows, random), random)
    if sample is None:
        return untried
    rates = plan.schedule.learning_rate, plan.schedule.u_learning_rate
    schedule = Schedule("exponential", *rates, FIGURES.TRIAL_DECAY)
    short = replace(plan, max_iter=FIGURES.TRIAL_PASSES, schedule=schedule, verbose=0)
    # The choice does not depend on threads.
    short = replace(short, averaging="none", share_classes=None, hogwild=False)
    follows = u_follows(choice)
    search = partial(search_rates, trials, sample, cost=sample.cost(short, facts), u_follows=follows)
    plan, (least, good, lines) = _best_start(search, trials, sample, plan, short, choice.is_open("max_iter"))
    if not math.isfinite(least):
        return plan
    chosen = (rates[0] * float(FIGURES.RATE_RATIO**exponent) for exponent in good)
    trials.choose("learning_rate", *chosen, lines=lines)
    best = float(FIGURES.RATE_RATIO ** ((min(good) + max(good)) / 2))
    sum_of_steps = _core.sum_of_steps(plan.schedule.name, plan.schedule.decay, plan.max_iter)
    return with_rate(plan, best * min(1.0, FIGURES.SUM_OF_STEPS / sum_of_steps), u_follows=follows)


def u_follows(choice: Choice) -> bool:
    """Whether the step size of u is tied to that of W, or becomes so where it is open."""
    u_rate = getattr(choice["solver"], "u_learning_rate", "tied")
    return bool(u_rate == "tied" or (u_rate == "auto" and choice["solver"].name not in FIGURES.U_RATES))


def _best_start(
    search: Callable[..., Tried], trials: Trials, sample: Sample, plan: PointsPlan, short: PointsPlan, passes_open: bool
) -> tuple[PointsPlan, Tried]:
    """Return the plan with the better of two starts, 0 or the discriminant where it may be, and its trials."""
    from_start, closed_loss = (math.inf, list[int](), slice(0)), math.inf
    if plan.discriminant and (start := sample.discriminant) is not None:
        closed = partial(sample.loss_of, start, plan.n_threads)
        size = (*sample.size(short)[:2], 0)
        closed_loss = trials.make("start", "discriminant", closed, predicted=0.0, size=size)
        from_start = search(replace(short, alpha=0.0), reserved=trials.left / 2)
    tried = search(replace(short, discriminant=False), other=from_start[0])
    if not from_start[0] < FIGURES.BETTER_START * tried[0]:
        return replace(plan, discriminant=False), tried
    trials.choose("start", "discriminant")
    plan = replace(plan, alpha=0.0)  # a ridge draws to 0 what it began at
    if passes_open and closed_loss <= FIGURES.AS_GOOD * from_start[0]:
        plan = replace(plan, max_iter=short.max_iter, schedule=replace(plan.schedule, decay=FIGURES.TRIAL_DECAY))
    return plan, from_start


def best_rate_of_pairs(trials: Trials, plan: PairsPlan, points: Points, facts: Facts, random_state: Any) -> PairsPlan:
    """Return the plan with the step size of the least decoupled loss on rows held out of a short training.

    Only rows tell whose labels the training has. Where most classes have one row hardly any do; by the others the
    smallest step seems best, as they are the likelier the less is learnt.
    """
    visit = 1e-6 * costs.pairs_cost(facts) * plan.max_iter
    n_rows = int(min(facts.n_samples, FIGURES.MOST_ROWS_OF_PAIRS, trials.left / (FIGURES.PAIR_RATES * visit)))
    if n_rows < FIGURES.FEWEST_TO_TRY:
        return plan
    order = fork(random_state).permutation(facts.n_samples)[:n_rows]
    n_out = int(FIGURES.SHARE_OF_PAIRS * n_rows)
    is_out = np.arange(n_rows) < n_out
    if points.groups is not None:
        is_out = draw_rows_out(n_out, n_rows, fork(random_state), points.groups[order])
    out, trained = points.some(np.sort(order[is_out])), points.some(np.sort(order[~is_out]))
    out = out.some(np.flatnonzero(out.labels.known_from(trained.labels)))
    if len(out.labels) < FIGURES.FEWEST_KNOWN:
        return plan
    # A pair has as much fewer rows as there are fewer.
    least = max(1, round(plan.min_count * len(trained.labels) / facts.n_samples))
    short = replace(plan, min_count=least, verbose=0, hogwild=False)  # the choice does not depend on threads
    size, rule = (len(trained.labels), facts.n_classes, plan.max_iter), plan.schedule.learning_rate

    def loss(exponent: int) -> float:
        trial = with_rate_of_pairs(short, rule * FIGURES.RATE_RATIO**exponent)
        rate, train = trial.schedule.learning_rate, partial(_held_out_loss, trial, trained, out)
        return trials.make("learning_rate", rate, train, predicted=visit * n_rows, size=size)

    tried = walk(loss, (0, -1), (FIGURES.LEAST_PAIR_RATE, 0), lambda: trials.left >= visit * n_rows)
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        return plan
    chosen = with_rate_of_pairs(plan, rule * FIGURES.RATE_RATIO**best)
    trials.choose("learning_rate", chosen.schedule.learning_rate)
    return chosen


def _held_out_loss(plan: PairsPlan, trained: Points, out: Points) -> float:
    """Train, and return the decoupled loss of the rows held out, of one label the log-loss; infinite if it diverged."""
    weights, curve, *_ = quietly(partial(fit_pairs, plan, trained.as_of_fit, Watch()))
    if len(curve) < plan.max_iter:
        return math.inf
    return decoupled_loss(weights, out.scored(plan.n_threads))


# The ridge of full passes


def cross_validated_ridge(
    trials: Trials, plan: FullBatchPlan, points: Points, random_state: Any
) -> tuple[float, dict[float, float]]:
    """Return the ridge of smallest log-loss on held-out points, and the log-losses of all that were tried.

    Ridges are tried from the strongest on, each from the weights of the one before, to 1 / N and until the valley is
    passed. The best one must be better than 1 / N by more than the standard error of the difference, else it is 1 / N:
    the few points of a small set favour other ridges by chance. Where no class has two points nothing can be held out,
    and it is 1 / N.
    """
    labels = points.labels.ids
    fold = draw_folds(labels, FIGURES.FOLDS, fork(random_state), points.groups)
    folds = [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(FIGURES.FOLDS)]
    data = [(points.some(trained), points.some(out)) for trained, out in folds if len(out)]
    prior = FIGURES.PRIOR / len(labels)
    if not data:
        return prior, {}
    r = None if points.weights is None else points.weights[np.concatenate([out for _, out in folds])]
    models: list[Weights | None] = [None] * len(data)
    tried, losses = dict[float, float](), dict[float, Doubles]()
    predicted = costs.full_cost(Facts.of(points.x, points.n_classes)) / len(FIGURES.PRIORS)

    def loss(ridge: float, alpha: float) -> float:
        fold_losses = []
        for number, (kept, out) in enumerate(data):
            trial = replace(plan, alpha=ridge / len(kept.labels), tol=max(plan.tol, FIGURES.LOOSE), verbose=0)
            models[number] = model = quietly(partial(fit_full_batch, trial, kept, Watch(), models[number])).weights
            fold_losses.append(model.log_losses(out.x, out.labels.ids, plan.n_threads)[0])
        losses[alpha] = np.concatenate(fold_losses)
        return float(np.average(losses[alpha], weights=r))

    size = (len(labels), points.n_classes, plan.max_iter)
    for ridge in FIGURES.PRIORS:
        alpha = ridge / len(labels)
        tried[alpha] = trials.make("alpha", alpha, partial(loss, ridge, alpha), predicted=predicted, size=size)
        if alpha <= prior and FIGURES.PAST_THE_VALLEY * min(tried.values()) < tried[alpha]:
            break
    best = min(tried, key=lambda alpha: tried[alpha])
    mean, error = _core.mean_and_error(losses[prior] - losses[best], NO_DOUBLES if r is None else r)
    chosen = best if mean > error else prior
    trials.choose("alpha", chosen)
    return chosen, tried


# Plans, with what trials find


def plan_points(choice: Choice, points: Points, rates: LearningRates | None = None) -> Planned:
    """The plan of a linear model of one label a row, by steps.

    Parameters
    ----------
    choice : Choice
    points : Points
        Scaled where features are, as the choice's facts are.
    rates : LearningRates or None
        Of a grid of step sizes, the best of which is taken.
    """
    if rates is not None:
        choice = choice.changed(learning_rate=rates.best)
    planned, facts = points_plan(choice), choice.facts
    plan = planned.plan
    assert isinstance(plan, PointsPlan)
    costs.check_memory(facts, plan, choice.most_bytes)
    if rates is not None:
        return replace(planned, params={**planned.params, "learning_rate": rates.best}, rates=rates.table)
    if not choice.tries("learning_rate"):
        return planned
    trials = Trials(costs.budget(costs.fit_cost(facts, plan)), bool(plan.verbose))
    plan = best_rate(trials, plan, points, choice)
    params = {**planned.params, "learning_rate": plan.schedule.learning_rate}
    if plan.discriminant:
        params["alpha"] = plan.alpha
    if plan.discriminant and choice.is_open("max_iter"):
        params["max_iter"] = plan.max_iter
        params["solver"].set_params(decay=plan.schedule.decay)
    if getattr(choice["solver"], "u_learning_rate", "tied") == "auto":
        params["solver"].set_params(u_learning_rate=plan.schedule.u_learning_rate)
    return replace(planned, plan=plan, params=params, trials=trials)


def with_rate_tried(planned: Planned, choice: Choice, points: Points) -> Planned:
    """Return the plan of weights on pairs with the best of the step sizes that are tried."""
    pairs = planned.plan
    assert isinstance(pairs, PairsPlan)
    facts = as_met(choice.facts, pairs, points)
    trials = Trials(costs.budget(costs.fit_cost(facts, pairs)), bool(pairs.verbose))
    pairs = best_rate_of_pairs(trials, pairs, points, facts, choice.parameters["random_state"])
    params = {**planned.params, "learning_rate": pairs.schedule.learning_rate}
    return replace(planned, plan=pairs, params=params, trials=trials)


def as_met(facts: Facts, plan: AnyPlan, points: Points) -> Facts:
    """Return the facts with what rows meet of the weights on pairs that a plan trains, which its cost depends on."""
    pairs = plan.pairs if isinstance(plan, HybridPlan) else plan
    if not isinstance(pairs, PairsPlan):
        return facts
    data, least = (points.x, points.labels, points.n_classes), pairs.min_count
    return replace(facts, met=weights_met(*data, (least,), pairs.few_classes)[least])


def plan_full_passes(choice: Choice, points: Points) -> Planned:
    """The plan of L-BFGS on points, which are scaled where features are; the ridge by cross-validation."""
    planned = full_plan(choice)
    assert isinstance(planned.plan, FullBatchPlan)
    if points.several or not choice.tries("alpha"):
        return planned
    trials = Trials(FIGURES.MOST_FULL, bool(planned.plan.verbose))
    alpha, path = cross_validated_ridge(trials, planned.plan, points, choice.parameters["random_state"])
    plan, params = replace(planned.plan, alpha=alpha), {**planned.params, "alpha": alpha}
    return replace(planned, plan=plan, params=params, alpha_path=path, trials=trials)


def plan_linear(planner: Planner, choice: Choice, scaled: Points) -> Planned:
    """The plan of a linear model: of full passes, of one label or several, or of steps."""
    if scaled.several:
        if (loss := choice["solver"].get_params()["loss"]) != "softmax":
            raise ValueError(f"loss is {loss!r}; with several labels and solver='lbfgs' it must be 'softmax'")
        if choice.parameters["early_stopping"]:
            raise ValueError("early_stopping is True; with several labels and solver='lbfgs' it must be False")
    if choice["solver"].name == "lbfgs":
        return plan_full_passes(choice, scaled)
    rates, parameters = None, choice.parameters
    if parameters["learning_rate"] == "grid":
        changed, data = planner.changed(**points_plan(choice).params, class_weight=None), (scaled.x, scaled.labels.ids)
        rates = try_grid(changed, *data, scaled.weights, random_state=parameters["random_state"], groups=scaled.groups)
    return plan_points(choice, scaled, rates)


# The model of dense rows


def better_hidden_layer(
    linear: Planned, choice: Choice, points: Points, scaling: FeatureScaling | None
) -> tuple[Choice, Planned] | None:
    """Return the choice and the plan of a hidden layer that is more probable on rows held out, else None.

    Each model is trained by its whole plan. The hidden layer ends early, after the second pass or a later one, where it
    is ahead, for passes to come make it better, or far behind. It must be ahead by more than the standard error. Both
    are noted in the trials of the linear model.

    Parameters
    ----------
    linear : Planned
        The plan of the linear model.
    choice : Choice
        Of the linear model, with the facts of the points; the hidden layer has all that is set in it.
    points : Points
    scaling : FeatureScaling or None
        Of the features that the linear model is trained on.
    """
    chosen = replace(choice.chosen, model=MODELS["embedding"](activation="relu"))
    choice = replace(choice, chosen=chosen, taken=None)
    hidden, trials, n = softmax_batches_plan(choice), linear.trials, len(points.labels)
    assert isinstance(linear.plan, PointsPlan | FullBatchPlan)
    assert isinstance(hidden.plan, BatchesPlan)
    n_out = min(FIGURES.MOST_HELD_OUT, int(FIGURES.SHARE_HELD_OUT * n))
    is_out = draw_rows_out(n_out, n, fork(choice.parameters["random_state"]), points.groups, points.labels)
    if not is_out.any() or costs.model_bytes(choice.facts, hidden.plan) > choice.most_bytes:
        return None
    trained, out = (points.some(np.flatnonzero(rows)) for rows in (~is_out, is_out))
    ends = _Ends(out, linear.plan.n_threads)
    scaled = trained if scaling is None else replace(trained, x=scaling.apply(trained.x))
    models = {
        "linear": (linear.plan, partial(train, None, scaled, replace(linear.plan, verbose=0), scaling=scaling)),
        "embedding": (hidden.plan, partial(train, None, trained, replace(hidden.plan, verbose=0), Watch(ends))),
    }

    def loss(model: str) -> float:
        weights = quietly(models[model][1]).weights
        if model == "linear":
            ends.linear = ends.losses_of(weights)
        return ends.mean(ends.linear if model == "linear" else ends.hidden)

    for model, (plan, _) in models.items():
        size = (len(trained.labels), out.n_classes, plan.max_iter)
        trials.make("model", model, partial(loss, model), predicted=costs.fit_cost(choice.facts, plan), size=size)
    trials.choose("model", "embedding" if ends.is_ahead else "linear")
    return (choice, replace(hidden, trials=trials)) if ends.is_ahead else None


@dataclass
class _Ends:
    """A callback that ends the training of a hidden layer once it is ahead of the linear model, or far behind.

    Attributes
    ----------
    out : Points
        The rows held out.
    n_threads : int
    linear : ndarray of shape (n_rows,), float64
        The log-losses of the linear model on them.
    hidden : ndarray of shape (n_rows,), float64
        The log-losses of the hidden layer after its last pass.
    """

    out: Points
    n_threads: int
    linear: Doubles = field(default_factory=lambda: NO_DOUBLES)
    hidden: Doubles = field(default_factory=lambda: NO_DOUBLES)

    def losses_of(self, weights: Weights) -> Doubles:
        """Return the log-losses of a model."""
        return weights.log_losses(self.out.x, self.out.labels.ids, self.n_threads)[0]

    def mean(self, losses: Doubles) -> float:
        """Return the mean of losses."""
        return float(np.average(losses, weights=self.out.weights))

    @property
    def is_ahead(self) -> bool:
        """Whether the hidden layer is ahead by more than the standard error."""
        weights = NO_DOUBLES if self.out.weights is None else self.out.weights
        mean, error = _core.mean_and_error(self.linear - self.hidden, weights)
        return mean > error

    def __call__(self, state: TrainingState) -> bool:
        """Look at the rows held out after a pass."""
        self.hidden = self.losses_of(state.weights)
        is_far = not self.mean(self.hidden) <= FIGURES.FAR_BEHIND_LINEAR * self.mean(self.linear)
        return state.n_iter > 1 and (self.is_ahead or is_far)


# A grid of step sizes

EXPONENTS = range(-3, 4)  # Fagan & Iyengar 2018, section 4.1: 10^0, 10^+-1, 10^+-2, 10^+-3
FURTHEST = 6  # no grid goes on beyond 10^+-6


def search_grid(loss: Callable[[int], float], scale: float) -> LearningRates:
    """Try 10^k / scale for each exponent k of the grid, and beyond its ends while the best one is there."""
    tried = walk(loss, EXPONENTS, (-FURTHEST, FURTHEST))
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        raise ValueError(f"no learning rate from {10.0 ** min(tried) / scale:g} on trains; scale X")
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
        # Of several labels the first one stands for the row.
        labels = first_label(y) if isinstance(y, sp.csr_array) else y
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
    points = planner.points(*to_fit)
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
