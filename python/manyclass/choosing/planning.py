"""From a choice to the plan of a training: by the rules, and by the trials that a rule asks for."""

from __future__ import annotations

from dataclasses import replace

from manyclass.choosing import costs, figures
from manyclass.choosing.model_trials import best_model
from manyclass.choosing.plans import full_plan, hybrid_plan, pairs_plan, points_plan, softmax_batches_plan
from manyclass.choosing.ridge_trials import cross_validated_ridge
from manyclass.choosing.rules import Choice, rival
from manyclass.choosing.trials import LossOfFit, Planned, Trials, TriedRates, best_rate, best_rate_of_pairs, best_ridge
from manyclass.models import MODELS
from manyclass.training.plan import FullBatchPlan, HybridPlan, PointsPlan, PostingsPlan
from manyclass.training.state import Points
from manyclass.weights.arrays import Doubles, Ids, Matrix


def plan_points(
    choice: Choice, labels: Ids, weights: Doubles | None = None, tried_rates: TriedRates | None = None
) -> Planned:
    """The plan of a linear model of one label a row, by steps.

    Parameters
    ----------
    choice : Choice
        Of x, scaled where features are.
    labels : ndarray of shape (n_samples,), int32
    weights : ndarray of shape (n_samples,), float64, or None
        Of the points, with mean 1, those of classes included.
    tried_rates : callable or None
        For learning_rate="grid".
    """
    planned, facts, own = points_plan(choice), choice.facts, choice.parameters
    plan, params, x = _points(planned), planned.params, facts.x
    assert x is not None
    data = (x, labels, facts, own["random_state"], weights)
    trials = Trials(0.0 if choice.timed else costs.budget(costs.fit_cost(facts, plan)), bool(plan.verbose))
    path: dict[float, float] = {}
    if choice.tries("learning_rate"):
        of_u = getattr(choice["solver"], "u_learning_rate", "tied")
        follows = of_u == "tied" or (of_u == "auto" and choice["solver"].name not in figures.U_RATES)
        plan = best_rate(trials, plan, *data, u_follows=follows)
        params = {**params, "learning_rate": plan.schedule.learning_rate}
        if of_u == "auto":
            params["solver"].set_params(u_learning_rate=plan.schedule.u_learning_rate)
    if choice.asked("learning_rate") == "grid":
        assert tried_rates is not None
        found = tried_rates(own.changed(**params, class_weight=None), x, labels, weights)
        planned = points_plan(choice.changed(learning_rate=found.best, answers={"model": choice["model"]}))
        plan, params = _points(planned), {**planned.params, "learning_rate": found.best}
        planned = replace(planned, rates=found.table)
    if choice.tries("alpha") and costs.tries_ridges(plan, facts, trials.left):
        alpha, path = best_ridge(trials, plan, *data)
        plan, params = replace(plan, alpha=alpha), {**params, "alpha": alpha}
    return replace(planned, plan=plan, params=params, alpha_path=path, trials=trials)


def _points(planned: Planned) -> PointsPlan:
    assert isinstance(planned.plan, PointsPlan)
    return planned.plan


def plan_full_passes(choice: Choice, labels: Ids, weights: Doubles | None = None) -> Planned:
    """The plan of L-BFGS on x, which is scaled where features are; the ridge by cross-validation."""
    planned, facts = full_plan(choice), choice.facts
    assert isinstance(planned.plan, FullBatchPlan)
    assert facts.x is not None
    if choice.timed or not choice.tries("alpha"):
        return planned
    trials, seed = Trials(figures.MOST_FULL, bool(planned.plan.verbose)), choice.parameters["random_state"]
    alpha, path = cross_validated_ridge(trials, planned.plan, facts.x, labels, facts.n_classes, seed, weights)
    plan, params = replace(planned.plan, alpha=alpha), {**planned.params, "alpha": alpha}
    return Planned(plan, params, path, trials=trials)


def plan_pairs(choice: Choice, points: Points, trials: Trials | None = None) -> Planned:
    """The plan of weights on pairs, alone or beside embeddings.

    What is left of the budget of `trials`, which were made before, is for these; None: none were.
    """
    planned = hybrid_plan(choice) if choice["model"].name == "hybrid" else pairs_plan(choice)
    whole = planned.plan
    pairs = whole.postings if isinstance(whole, HybridPlan) else whole
    assert isinstance(pairs, PostingsPlan)
    if choice.timed or not choice.tries("learning_rate"):
        return planned
    facts = replace(choice.facts, met=choice.facts.met_by(pairs.min_count))
    if trials is None:
        trials = Trials(costs.budget(costs.fit_cost(facts, whole)), bool(pairs.verbose))
    pairs = best_rate_of_pairs(trials, pairs, points, facts, choice.parameters["random_state"])
    plan = replace(whole, postings=pairs) if isinstance(whole, HybridPlan) else pairs
    return Planned(plan, {**planned.params, "learning_rate": pairs.schedule.learning_rate}, trials=trials)


def plan_with_one_model(choice: Choice, points: Points) -> Planned:
    """The plan of a model that is no linear one of one label a row."""
    if choice["model"].name in ("sparse", "hybrid"):
        return plan_pairs(choice, points)
    return softmax_batches_plan(choice)


def plan_of_rival(choice: Choice, points: Points, linear: Planned, loss_of_fit: LossOfFit) -> Planned | None:
    """The plan of a model that trials say predicts better than the linear one; None: there is none.

    "sparse" takes no part: its log-loss lies above that of the hybrid on each set of first labels that was tried
    (bench/decisions.md). The hybrid's step size is tried before: by the rule's alone it loses to the linear model on
    8,000 rows of delicious (3.733 nats for 3.726), and wins by a fifth of it (3.701).
    """
    model = rival(choice)
    if model is None:
        return None
    other = choice.changed(answers={"model": model})
    facts = choice.facts
    if model.name == "hybrid":
        planned = plan_pairs(other, points, linear.trials)
        facts = replace(facts, met=facts.met_by(model.min_count))
    else:
        planned = softmax_batches_plan(other)
    candidates = {"linear": linear, model.name: planned}
    best = best_model(linear.trials, choice.parameters, candidates, points, facts, loss_of_fit)
    # None: nothing was tried, and the rule has the word.
    wins = choice["model"].name != "linear" if best is None else best != "linear"
    return replace(planned, trials=linear.trials) if wins else None


def as_linear(choice: Choice, x: Matrix) -> Choice:
    """The same choice for a linear model of x, scaled or not."""
    facts = replace(choice.facts, x=x)
    return choice.changed(facts=facts, answers={"model": MODELS["linear"]()})
