"""The choices and the fits of a SoftmaxClassifier."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manyclass.checks import as_csr
from manyclass.choosing import costs
from manyclass.choosing.facts import Facts, Lengths, weights_met
from manyclass.choosing.plans import (
    Planned,
    Trials,
    full_plan,
    hybrid_plan,
    linear_model,
    pairs_plan,
    part_of,
    points_plan,
    softmax_batches_plan,
)
from manyclass.choosing.questions import Chosen
from manyclass.choosing.rules import Choice, rival, training
from manyclass.fitting.grid import try_grid
from manyclass.fitting.options import FitOptions
from manyclass.fitting.planner import Beginning, PlannedCall, Planner, facts_of, first_of, warm_start_of
from manyclass.fitting.points import scaled_for_call
from manyclass.fitting.trials import (
    Rivals,
    best_model,
    best_rate,
    best_rate_of_pairs,
    best_ridge,
    clear_model,
    cross_validated_ridge,
)
from manyclass.labels import positions_of
from manyclass.models import MODELS
from manyclass.parts import Parameters, Part
from manyclass.samplers import MOST_HEAD, SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import Watch
from manyclass.training.incremental import Call, refuse_starts
from manyclass.training.plan import AnyPlan, FullBatchPlan, HybridPlan, PairsPlan, PointsPlan
from manyclass.training.start import ClosedForm, Start, asked_start
from manyclass.training.state import Points, State
from manyclass.training.train import First, train
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import FeatureScaling


class SoftmaxPlanner(Planner):
    """Of SoftmaxClassifier."""

    several: ClassVar[bool] = True

    def check(self) -> Chosen:
        """See `Planner`."""
        own = self.parameters
        self.check_shared()
        return Chosen(
            part_of("solver", own["solver"], SOLVERS, "manyclass.solvers"),
            part_of("sampler", own["sampler"], SAMPLERS, "manyclass.samplers"),
            part_of("model", own["model"], MODELS, "manyclass.models"),
        )

    def first_weights(self, points: Points, options: FitOptions) -> Start | ClosedForm | None:
        """See `Planner`."""
        if options.coef_init is None and options.intercept_init is None:
            return None
        shape = points.n_classes, points.x.shape[1]
        fit_intercept = self.parameters["fit_intercept"]
        return asked_start(options.coef_init, options.intercept_init, *shape, fit_intercept=fit_intercept)

    def run(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """See `Planner`: a run begins warm at a state that is there, where no start is given."""
        state = beginning.state
        if state is None or beginning.start is not None:
            return self._fit(points, watch, beginning)
        if points.several or not state.weights.is_linear:
            refuse_candidates(beginning.candidates)
            return self.go_on_warm(state, points, watch)
        warm = replace(beginning, start=warm_start_of(state, points))
        after = self.resolved(state)._fit(points, watch, warm)
        was, now = state.fit_report, after.fit_report
        return after.with_report(params={**was.params, **now.params}, rules={**was.rules, **now.rules})

    def _fit(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """Make one run that begins at no model."""
        choice = Choice(
            self.parameters,
            self.check(),
            facts_of(points, self.figures),
            timed=bool(np.isfinite(watch.max_seconds)),
            candidates=beginning.candidates is not None,
            started=beginning.start is not None,
            most_bytes=watch.max_bytes,
        )
        tries = choice.tries("model")
        if tries or training(choice) == "points":
            return _fit_linear(self, choice, points, watch, beginning, rival=tries)
        pairs = choice["model"].name in ("pairs", "hybrid")
        where = f"model={choice['model'].name!r}" if pairs else "several labels or embeddings"
        if beginning.start is not None:
            raise ValueError(f"coef_init or intercept_init is given, which has no effect with {where}; leave them None")
        refuse_candidates(beginning.candidates)
        first = first_of(self.parameters, points, beginning)
        return _train(choice, plan_with_one_model(choice, points), points, watch, first)

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        resolved, facts = self.resolved(state), facts_of(points, self.figures)
        kind = self._kind(Choice(self.parameters, self.check(), facts, by_steps=True), state)
        if kind == "points" and points.several:
            raise ValueError(
                "y has several labels a row, and the model is of full passes (solver='lbfgs'), which do not go on: fit "
                "all rows anew, or fit with solver='adagrad' and go on from that"
            )
        if kind == "points":
            return resolved._plan_linear(self.parameters, state, points, call, facts)
        if kind in ("pairs", "hybrid"):
            refuse_starts(call.new_classes, kind)
        if kind == "hybrid" and state is not None and state.history.n_labels:
            facts = replace(facts, n_labels=state.history.n_labels)
        name = kind
        if state is not None and kind == "minibatches":
            name = "embedding" if state.weights.embeddings.size else "linear"
        # An older file does not say what its model was.
        answers = None if state is None else {"model": MODELS[name]()}
        falls, parts = call.may_fall(self.parameters), resolved.check()
        choice = Choice(resolved.parameters, parts, facts, answers=answers, timed=True, by_steps=True, goes_on=falls)
        return PlannedCall(plan_with_one_model(choice, points), points)

    def _kind(self, choice: Choice, state: State | None) -> str:
        """Which training goes on, or of a first call, which one parameters and labels ask for."""
        wanted = choice["model"].name if training(choice) == "pairs" else training(choice)
        if state is None:
            return wanted
        kinds = {"hybrid": "hybrid", "pairs": "pairs", "phi": "minibatches"}
        kind, parameters = kinds.get(state.weights.kind, "points"), self.parameters
        if state.weights.by_minibatches:
            kind = "minibatches"
        if wanted != kind and parameters["model"] != "auto":
            raise ValueError(
                f"model is {parameters['model']!r}, solver {parameters['solver']!r} and sampler "
                f"{parameters['sampler']!r}; partial_fit goes on with the model that is there, which was trained "
                "otherwise: leave them as they were"
            )
        return kind

    def _plan_linear(
        self, unresolved: Parameters, state: State | None, points: Points, call: Call, facts: Facts
    ) -> PlannedCall:
        """A linear model of one label a row, by parameters that are resolved."""
        parameters, chosen = self.parameters, self.check()
        model, begins_fit = linear_model(chosen), state is None and call.fit_pass is not None
        chosen = replace(chosen, model=model)
        chosen = chosen if begins_fit else stepwise(chosen)
        open_alpha = parameters.is_auto("alpha")
        if open_alpha:  # what a part would want is more than all rows do
            parameters = parameters.changed(alpha=0.0)
        scales = model.get_params()["scaling"] == "standard"
        scaled, scaling = scaled_for_call(state, points, scales=scales, centre=bool(unresolved["fit_intercept"]))
        # Between the fits of a stream the schedule of the last one goes on: steps by curvature undo some of it.
        falls = call.may_fall(unresolved) and not (state is not None and state.calls and state.history.n_fit > 0)
        if scaled.x is not points.x:
            facts = Facts.of(scaled.x, scaled.n_classes, figures=facts.figures)
        choice = Choice(parameters, chosen, facts, timed=not begins_fit, by_steps=True, goes_on=falls)
        planned = plan_points(choice, scaled.x, scaled.labels.ids)
        if open_alpha:
            planned = replace(planned, params={**planned.params, "alpha": 0.0})
        return PlannedCall(planned, scaled, scaling)


def stepwise(chosen: Chosen) -> Chosen:
    """The parts, with a solver that steps by rows where "auto" has none, or one of full passes."""
    full = chosen.solver is None or chosen.solver.name == "lbfgs"
    return replace(chosen, solver=SOLVERS["implicit"]()) if full else chosen


def _train(
    choice: Choice,
    planned: Planned,
    points: Points,
    watch: Watch,
    first: First = First(),  # noqa: B008 - frozen
    scaling: FeatureScaling | None = None,
) -> State:
    """Train as was planned, and tell how that came to be."""
    costs.check_memory(choice.facts, planned.plan, choice.most_bytes)
    if choice.parameters["verbose"] > 0:
        facts = as_met(choice.facts, planned.plan, points)
        if costs.fit_cost(facts, planned.plan) >= facts.figures.TOLD_BEFORE:
            print(costs.in_words(facts, planned.plan), file=sys.stderr, flush=True)
    state = train(None, points, planned.plan, watch, first=first, scaling=scaling)
    return state.reported_by(planned.fit_report).with_report(n_runs=_n_runs(choice, planned, state, points, watch))


def _n_runs(choice: Choice, planned: Planned, state: State, points: Points, watch: Watch) -> int:
    """What n_models="auto" stands for."""
    weights, facts, other = state.weights, choice.facts, planned.plan
    if isinstance(other, HybridPlan) and watch.shared is not None and watch.shared.pairs is not None:
        other = other.embeddings  # pairs are those of the first run
    elif weights.kind == "hybrid":
        rows_of = np.bincount(as_csr(points.x).indices, minlength=facts.n_features)
        facts = replace(facts, met=float(rows_of @ np.diff(weights.indptr)) / max(1, facts.n_samples))
    decided = choice.changed(answers={"model": planned.params.get("model")}, n_models="auto")
    decided.first_run = (costs.fit_cost(facts, other), weights.embeddings.nbytes)
    return int(decided["n_models"])


def _fit_linear(
    planner: Planner, choice: Choice, points: Points, watch: Watch, beginning: Beginning, *, rival: bool
) -> State:
    """Fit a linear model of one label a row; with `rival` another, if trials say that it predicts better."""
    parameters = choice.parameters
    heads = _heads(beginning.candidates, parameters["sampler"], choice.chosen.sampler, points)
    scaling = None
    if linear_model(choice.chosen).get_params()["scaling"] == "standard":
        scaling = FeatureScaling.of(points.x, centre=bool(parameters["fit_intercept"]), weights=points.weights)
    x = points.x if scaling is None else scaling.apply(points.x)
    linear = as_linear(choice, None if scaling is None else x)
    planned = _plan_linear(planner, linear, replace(points, x=x), ridge=not rival)
    if rival:
        is_linear, planned = plan_of_winner(planner, choice, linear, points, x, planned)
        if not is_linear:
            return _train(choice, planned, points, watch)
    first = replace(first_of(parameters, points, beginning), start=beginning.start, heads=heads)
    if first.evaluated is not None and scaling is not None:
        evaluated, its_labels = first.evaluated
        first = replace(first, evaluated=(scaling.apply(evaluated), its_labels))
    return _train(linear, planned, replace(points, x=x), watch, first, scaling)


def _plan_linear(planner: Planner, linear: Choice, scaled: Points, *, ridge: bool) -> Planned:
    """Return the plan of a linear model: of full passes, of one label or several, or of steps."""
    if scaled.several:
        if (loss := linear["solver"].get_params()["loss"]) != "softmax":
            raise ValueError(f"loss is {loss!r}; with several labels and solver='lbfgs' it must be 'softmax'")
        if linear.parameters["early_stopping"]:
            raise ValueError(
                "early_stopping is True, which solver='lbfgs' has for one label a row alone; with several labels set "
                "it to False"
            )
        return full_plan(linear)
    data = (scaled.x, scaled.labels.ids, scaled.weights)
    if linear["solver"].name == "lbfgs":
        return plan_full_passes(linear, *data)
    return plan_points(linear, *data, planner, ridge=ridge)


def _heads(candidates: ArrayLike | None, asked: Any, sampler: Part | None, points: Points) -> Ids | None:
    """The positions of the candidates of each point."""
    if candidates is None:
        return None
    if sampler is None or sampler.name != "head_tail":
        raise ValueError(f"candidates need sampler='head_tail'; it is {asked!r}")
    candidates = np.asarray(candidates)
    n_samples = points.n_given
    if candidates.ndim != 2 or len(candidates) != n_samples or not 1 <= candidates.shape[1] <= MOST_HEAD:
        raise ValueError(
            f"candidates have shape {candidates.shape}; it must be ({n_samples}, h) with h from 1 to {MOST_HEAD}"
        )
    if points.rows is not None:
        candidates = candidates[points.rows]
    return positions_of(candidates, points.classes, "candidates")


def refuse_candidates(candidates: ArrayLike | None) -> None:
    """Raise ValueError for candidates where there are no heads."""
    if candidates is not None:
        raise ValueError("candidates are given; they are for sampler='head_tail' with a linear model of one label")


# Plans


def plan_points(
    choice: Choice,
    x: Matrix,
    labels: Ids,
    weights: Doubles | None = None,
    planner: Planner | None = None,
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
    planner : Planner or None
        Of the fits that learning_rate="grid" makes.
    ridge : bool
        Whether ridges may be tried.
    """
    planned, facts = points_plan(choice), choice.facts
    plan = _points(planned)
    if ridge:  # no other model is tried beside it
        costs.check_memory(facts, plan, choice.most_bytes)
    trials = Trials(
        0.0 if choice.timed else costs.budget(costs.fit_cost(facts, plan), facts.figures), bool(plan.verbose)
    )
    planned = replace(planned, trials=trials)
    if choice.tries("learning_rate"):
        planned = _with_rate(planned, choice, x, labels, weights)
    if choice.asked("learning_rate") == "grid":
        assert planner is not None
        changed = planner.changed(**planned.params, class_weight=None)
        rates = try_grid(changed, x, labels, weights, random_state=choice.parameters["random_state"])
        planned = points_plan(choice.changed(learning_rate=rates.best, answers={"model": choice["model"]}))
        params = {**planned.params, "learning_rate": rates.best}
        planned = replace(planned, params=params, rates=rates.table, trials=trials)
    return with_ridge(planned, choice, x, labels, weights) if ridge and tries_ridges(planned, choice) else planned


def _with_rate(planned: Planned, choice: Choice, x: Matrix, labels: Ids, weights: Doubles | None) -> Planned:
    """Return the plan with the step size that trials find."""
    solver = choice["solver"]
    u_rate = getattr(solver, "u_learning_rate", "tied")
    follows = u_rate == "tied" or (u_rate == "auto" and solver.name not in choice.figures.U_RATES)
    passes_open = choice.is_open("max_iter")
    data = (x, labels, choice.facts, choice.parameters["random_state"], weights)
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


def as_linear(choice: Choice, scaled: Matrix | None) -> Choice:
    """Return the same choice for a linear model, of rows that are scaled where there are such."""
    facts = choice.facts if scaled is None else replace(choice.facts, measured=Lengths.of(scaled))
    return choice.changed(facts=facts, answers={"model": MODELS["linear"]()})
