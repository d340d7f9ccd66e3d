"""From a choice to the plan of a training: by the rules, and by the trials that a rule asks for.

Which model, where several may serve, is found by short fits of each to whole classes, as step sizes are tried. Among
random rows a class has few, which is no likeness of the fit: 10,000 random rows of yelp-next say that a linear model is
ahead by 0.14 nats, where embeddings win by 0.8 with all rows; as many rows of whole classes say 0.4 for them. The ridge
of full passes is found by cross-validation: the few fits are exact, so that only the ridge differs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.choosing import costs
from manyclass.choosing.facts import Facts, Lengths, weights_met
from manyclass.choosing.figures import FIGURES, Figures
from manyclass.choosing.plans import (
    Planned,
    Trials,
    full_plan,
    hybrid_plan,
    pairs_plan,
    points_plan,
    softmax_batches_plan,
)
from manyclass.choosing.rules import Choice, rival
from manyclass.fitting.trials import (
    LossOfFit,
    Sample,
    TriedRates,
    best_rate,
    best_rate_of_pairs,
    best_ridge,
    quietly,
    whole_classes,
)
from manyclass.models import MODELS
from manyclass.parts import Parameters
from manyclass.training.core_training import Watch
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.passes import fork, progress_bar
from manyclass.training.plan import AnyPlan, FullBatchPlan, HybridPlan, PairsPlan, PointsPlan
from manyclass.training.state import Points
from manyclass.training.weighting import some_of
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Ids, Matrix
from manyclass.weights.weights import Weights

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
    `trials`, which is that of the cheapest candidate's fit. What cannot change the choice is not tried: a second draw
    where the first one is clear, and the mean of several runs where one run is ahead already, for a mean is better.
    """
    labels = points.labels.ids
    runs = {name: runs_of(parameters, planned.plan, facts) for name, planned in candidates.items()}
    seconds = {name: runs[name] * costs.fit_cost(facts, planned.plan) for name, planned in candidates.items()}
    trials.budget = costs.budget(min(seconds.values()), facts.figures)
    affordable = trials.left / (sum(seconds.values()) / len(labels))
    share = min(1.0, affordable / sum(facts.figures.SIZES), len(labels) / facts.figures.SIZES[1])
    sizes = [int(share * size) for size in facts.figures.SIZES]
    if sizes[0] < facts.figures.FEWEST_TO_TRY:  # one draw of as many as there may be
        sizes = [int(min(affordable, facts.figures.SIZES[1], len(labels)))]
    if sizes[0] < facts.figures.FEWEST_TO_TRY:
        return None
    random = fork(parameters["random_state"])
    found: dict[str, list[float]] = {name: [] for name in candidates}
    samples: list[Sample] = []

    def tried(name: str, sample: Sample, n_runs: int) -> float:
        return _loss_of_model(trials, parameters, name, candidates[name], n_runs, sample, points, facts, loss_of_fit)

    for rows in _draws(labels, sizes, random, facts.figures):
        sample = Sample.of(points.x, labels, points.weights, rows, random, SHARE)
        if sample is None:
            return None
        samples.append(sample)
        for name, form in sample.closed_forms().items():  # they are told, and a hybrid has them
            size = (len(sample.labels), sample.n_classes, 0)
            trials.make("closed form", name, partial(sample.loss_of, form, 1), predicted=0.0, size=size)
        for name, losses in found.items():
            losses.append(tried(name, sample, 1))
        if _is_clear((losses[0] for losses in found.values()), facts.figures):
            break
    n_out = [len(sample.labels_out) for sample in samples]

    def mean(name: str) -> float:
        return float(np.average(found[name], weights=n_out))

    best = min(found, key=mean)
    for name, n_runs in runs.items():
        if n_runs > 1 and name != best and mean(name) < facts.figures.MOST_GAIN_OF_RUNS * mean(best):
            found[name] = [tried(name, sample, n_runs) for sample in samples]
    best = min(found, key=mean)
    if not math.isfinite(mean(best)):
        return None
    trials.choose("model", best)
    return best


def clear_model(
    trials: Trials,
    parameters: Parameters,
    candidates: Mapping[str, Planned],
    points: Points,
    facts: Facts,
    loss_of_fit: LossOfFit,
    most: float,
) -> str | None:
    """Return the name of the model that one small draw shows to be clearly better; None if neither is.

    None, too, where the draw is predicted to take more than `most` seconds.
    """
    labels, size = points.labels.ids, facts.figures.SIZES[0]
    costs_of_all = sum(costs.fit_cost(replace(facts, n_samples=size), one.plan) for one in candidates.values())
    if len(labels) < facts.figures.SIZES[1] or costs_of_all > most:
        return None
    random = fork(parameters["random_state"])
    [rows] = _draws(labels, [size], random, facts.figures)
    sample = Sample.of(points.x, labels, points.weights, rows, random, SHARE)
    if sample is None:
        return None
    found = {
        name: _loss_of_model(trials, parameters, name, planned, 1, sample, points, facts, loss_of_fit)
        for name, planned in candidates.items()
    }
    best = min(found, key=lambda name: found[name])
    if not (_is_clear(found.values(), facts.figures) and math.isfinite(found[best])):
        return None
    trials.choose("model", best)
    return best


def _is_clear(losses: Iterable[float], figures: Figures) -> bool:
    """Whether the least loss of a draw is so far below the others that no other draw would say otherwise."""
    least, *others = sorted(losses)
    return least < figures.CLEAR_MODEL * others[0]


def _loss_of_model(
    trials: Trials,
    parameters: Parameters,
    name: str,
    planned: Planned,
    n_runs: int,
    sample: Sample,
    points: Points,
    facts: Facts,
    loss_of_fit: LossOfFit,
) -> float:
    """Fit a candidate to the rows of a sample by some runs; return its log-loss on those held out, and note it."""
    # What begins at the discriminant does so where its parts are open.
    begins = isinstance(planned.plan, PointsPlan) and planned.plan.discriminant
    params = {"model": planned.params["model"]} if begins else planned.params
    own = parameters.changed(**params, class_weight=None, n_models=n_runs, verbose=0)
    size = (len(sample.labels), sample.n_classes, planned.plan.max_iter)
    cost = n_runs * costs.fit_cost(replace(facts, n_samples=size[0], n_classes=size[1]), planned.plan)
    loss = partial(loss_of_fit, own, sample, points.classes[sample.classes])
    return trials.make("model", name, loss, predicted=cost, size=size)


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


LOOSE = 1e-4  # a gradient so small leaves a log-loss that differs from that of the optimum by much less than ridges do


def folds(labels: Ids, n_folds: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Draw which fold a point is held out in, (n_samples,), each class in turn; -1 for the only point of its class."""
    return _core.folds_of(labels, random.permutation(len(labels)), n_folds)


def cross_validated_ridge(
    trials: Trials,
    plan: FullBatchPlan,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    random_state: Any,
    weights: Doubles | None = None,
    figures: Figures = FIGURES,
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
    predicted = costs.full_cost(Facts.sized(x, n_classes)) / len(figures.PRIORS)
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
    mean, error = _core.mean_and_error(gain, NO_DOUBLES if r is None else r)
    chosen = best if mean > error else prior
    trials.choose("alpha", chosen)
    return chosen, tried


def plan_points(
    choice: Choice,
    x: Matrix,
    labels: Ids,
    weights: Doubles | None = None,
    tried_rates: TriedRates | None = None,
    *,
    ridge: bool = True,
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
    tried_rates : callable or None
        For learning_rate="grid".
    ridge : bool
        Whether ridges may be tried.
    """
    planned, facts, own = points_plan(choice), choice.facts, choice.parameters
    plan, params = _points(planned), planned.params
    if ridge:  # no other model is tried beside it
        costs.check_memory(facts, plan, choice.most_bytes)
    data = (x, labels, facts, own["random_state"], weights)
    trials = Trials(
        0.0 if choice.timed else costs.budget(costs.fit_cost(facts, plan), facts.figures), bool(plan.verbose)
    )
    if choice.tries("learning_rate"):
        of_u = getattr(choice["solver"], "u_learning_rate", "tied")
        follows = of_u == "tied" or (of_u == "auto" and choice["solver"].name not in FIGURES.U_RATES)
        passes_open = choice.is_open("max_iter")
        plan = best_rate(trials, plan, *data, u_follows=follows, passes_open=passes_open)
        params = {**params, "learning_rate": plan.schedule.learning_rate}
        if plan.discriminant:
            params["alpha"] = plan.alpha
        if passes_open and plan.discriminant:
            params["max_iter"] = plan.max_iter
            params["solver"].set_params(decay=plan.schedule.decay)
        if of_u == "auto":
            params["solver"].set_params(u_learning_rate=plan.schedule.u_learning_rate)
    if choice.asked("learning_rate") == "grid":
        assert tried_rates is not None
        found = tried_rates(own.changed(**params, class_weight=None), x, labels, weights)
        planned = points_plan(choice.changed(learning_rate=found.best, answers={"model": choice["model"]}))
        plan, params = _points(planned), {**planned.params, "learning_rate": found.best}
        planned = replace(planned, rates=found.table)
    planned = replace(planned, plan=plan, params=params, trials=trials)
    return with_ridge(planned, choice, x, labels, weights) if ridge and tries_ridges(planned, choice) else planned


def tries_ridges(planned: Planned, choice: Choice) -> bool:
    """Whether the ridge of a linear model that is planned is to be found by trials, which must fit into the budget."""
    plan = planned.plan
    if not isinstance(plan, PointsPlan) or plan.discriminant or not choice.tries("alpha"):
        return False
    return costs.tries_ridges(plan, choice.facts, planned.trials.left)


def with_ridge(planned: Planned, choice: Choice, x: Matrix, labels: Ids, weights: Doubles | None) -> Planned:
    """Return the plan with the best of some ridges."""
    plan, facts = _points(planned), choice.facts
    data = (x, labels, facts, choice.parameters["random_state"], weights)
    alpha, path = best_ridge(planned.trials, plan, *data)
    params = {**planned.params, "alpha": alpha}
    return replace(planned, plan=replace(plan, alpha=alpha), params=params, alpha_path=path)


def _points(planned: Planned) -> PointsPlan:
    assert isinstance(planned.plan, PointsPlan)
    return planned.plan


def plan_full_passes(choice: Choice, x: Matrix, labels: Ids, weights: Doubles | None = None) -> Planned:
    """The plan of L-BFGS on x, which is scaled where features are; the ridge by cross-validation."""
    planned, facts = full_plan(choice), choice.facts
    assert isinstance(planned.plan, FullBatchPlan)
    if choice.timed or not choice.tries("alpha"):
        return planned
    trials, seed = Trials(facts.figures.MOST_FULL, bool(planned.plan.verbose)), choice.parameters["random_state"]
    alpha, path = cross_validated_ridge(trials, planned.plan, x, labels, facts.n_classes, seed, weights, facts.figures)
    plan, params = replace(planned.plan, alpha=alpha), {**planned.params, "alpha": alpha}
    return replace(planned, plan=plan, params=params, alpha_path=path, trials=trials)


def plan_pairs(choice: Choice, points: Points, trials: Trials | None = None) -> Planned:
    """The plan of weights on pairs, alone or beside embeddings.

    What is left of the budget of `trials`, which were made before, is for these; None: none were.
    """
    planned = hybrid_plan(choice) if choice["model"].name == "hybrid" else pairs_plan(choice)
    whole = planned.plan
    pairs = whole.pairs if isinstance(whole, HybridPlan) else whole
    assert isinstance(pairs, PairsPlan)
    if choice.timed or not choice.tries("learning_rate"):
        return planned
    facts = replace(choice.facts, met=_met(points, pairs.min_count, pairs.few_classes))
    if trials is None:
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


def plan_of_winner(
    choice: Choice, of_linear: Choice, points: Points, x: Matrix, linear: Planned, loss_of_fit: LossOfFit
) -> tuple[bool, Planned]:
    """Whether the linear model is the one that trials say predicts better, and the plan of that which does.

    Where the rule has the linear model its ridge is tried first, unless a small draw shows that it loses whatever its
    ridge; where the rule has another model, once the linear one has won.

    "pairs" takes no part: its log-loss lies above that of the hybrid on each set of first labels that was tried
    (bench/decisions.md). The hybrid's step size is tried before: by the rule's alone it loses to the linear model on
    8,000 rows of delicious (3.733 nats for 3.726), and wins by a fifth of it (3.701).
    """
    model, by_rule = rival(choice), choice["model"].name

    def ridged(linear: Planned) -> Planned:
        return with_ridge(linear, of_linear, x, points.labels.ids, points.weights)

    ridges = tries_ridges(linear, of_linear)
    if model is None:
        return True, ridged(linear) if ridges else linear
    other = choice.changed(answers={"model": model})
    facts = choice.facts
    if model.name == "hybrid":
        planned = plan_pairs(other, points, linear.trials)
        facts = replace(facts, met=_met(points, model.min_count, model.few_classes))
    else:
        planned = softmax_batches_plan(other)
    best, candidates = None, {"linear": linear, model.name: planned}
    if ridges and by_rule == "linear":
        most = len(facts.figures.RIDGES) * costs.fit_cost(facts, linear.plan)
        best = clear_model(linear.trials, choice.parameters, candidates, points, facts, loss_of_fit, most)
        if best is None or best == "linear":
            candidates["linear"] = linear = ridged(linear)
    if best is None:
        best = best_model(linear.trials, choice.parameters, candidates, points, facts, loss_of_fit)
    if (best or by_rule) != "linear":  # where nothing was tried the rule has the word
        return False, replace(planned, trials=linear.trials)
    return True, ridged(linear) if by_rule != "linear" and tries_ridges(linear, of_linear) else linear


def as_linear(choice: Choice, scaled: Matrix | None) -> Choice:
    """Return the same choice for a linear model, of rows that are scaled where there are such."""
    facts = choice.facts if scaled is None else replace(choice.facts, measured=Lengths.of(scaled))
    return choice.changed(facts=facts, answers={"model": MODELS["linear"]()})
