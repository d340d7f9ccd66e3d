"""The choices and the fits of a SoftmaxClassifier."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manyclass.checks import as_csr
from manyclass.choosing import costs
from manyclass.choosing.facts import Facts
from manyclass.choosing.figures import Figures
from manyclass.choosing.plans import Planned, full_plan, linear_model, part_of
from manyclass.choosing.questions import Chosen
from manyclass.choosing.rules import Choice, training
from manyclass.fitting.planner import Asked, PlannedCall, Planner, facts_of, first_of, resolved, warm_start_of
from manyclass.fitting.planning import (
    as_linear,
    as_met,
    plan_full_passes,
    plan_of_winner,
    plan_points,
    plan_with_one_model,
)
from manyclass.fitting.points import scaled_for_call
from manyclass.labels import positions_of
from manyclass.models import MODELS
from manyclass.parts import Parameters, Part
from manyclass.samplers import MOST_HEAD, SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import Watch
from manyclass.training.incremental import Call, refuse_starts
from manyclass.training.plan import HybridPlan
from manyclass.training.state import Points, State
from manyclass.training.train import First, train
from manyclass.weights.arrays import Ids
from manyclass.weights.weights import FeatureScaling


def fit_softmax(
    parameters: Parameters, chosen: Chosen, points: Points, watch: Watch, asked: Asked, figures: Figures
) -> State:
    """Make one run of a SoftmaxClassifier with these parameters, which chose these parts."""
    choice = Choice(
        parameters,
        chosen,
        facts_of(points, figures),
        timed=bool(np.isfinite(watch.max_seconds)),
        candidates=asked.candidates is not None,
        started=asked.start is not None,
        most_bytes=watch.max_bytes,
    )
    tries = choice.tries("model")
    if tries or training(choice) == "points":
        return _fit_linear(choice, points, watch, asked, rival=tries)
    pairs = choice["model"].name in ("pairs", "hybrid")
    where = f"model={choice['model'].name!r}" if pairs else "several labels or embeddings"
    if asked.start is not None:
        raise ValueError(f"coef_init or intercept_init is given, which has no effect with {where}; leave them None")
    refuse_candidates(asked.candidates)
    return _trained(choice, plan_with_one_model(choice, points), points, watch, first_of(parameters, points, asked))


class SoftmaxPlanner(Planner):
    """The planner of `SoftmaxClassifier`."""

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

    def run(self, points: Points, watch: Watch, given: Asked, state: State | None) -> State:
        """See `Planner`: a run begins warm at a state that is there, where no start is given."""
        if state is None or given.start is not None:
            return fit_softmax(self.parameters, self.check(), points, watch, given, self.figures)
        if points.several or not state.weights.is_linear:
            refuse_candidates(given.candidates)
            return self.go_on_warm(state, points, watch)
        known = replace(self, parameters=resolved(self.parameters, state))
        start = warm_start_of(state, points)
        found = fit_softmax(known.parameters, known.check(), points, watch, replace(given, start=start), self.figures)
        was, now = state.fit_report, found.fit_report
        return found.with_report(params={**was.params, **now.params}, rules={**was.rules, **now.rules})

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        own = self if state is None else replace(self, parameters=resolved(self.parameters, state))
        chosen, facts = own.check(), facts_of(points, self.figures)
        kind = self._kind(Choice(self.parameters, self.check(), facts, by_steps=True), state)
        if kind == "points" and points.several:
            raise ValueError(
                "y has several labels a row, and the model is of full passes (solver='lbfgs'), which do not go on: fit "
                "all rows anew, or fit with solver='adagrad' and go on from that"
            )
        if kind == "points":
            return own._plan_linear(self.parameters, state, points, call, facts)
        if kind in ("pairs", "hybrid"):
            refuse_starts(call.new_classes, kind)
        if kind == "hybrid" and state is not None and state.history.n_labels:
            facts = replace(facts, n_labels=state.history.n_labels)
        name = kind
        if state is not None and kind == "minibatches":
            name = "embedding" if state.weights.embeddings.size else "linear"
        # An older file does not say what its model was.
        there = None if state is None else {"model": MODELS[name]()}
        free = call.may_fall(self.parameters)
        choice = Choice(own.parameters, chosen, facts, answers=there, timed=True, by_steps=True, goes_on=free)
        return PlannedCall(plan_with_one_model(choice, points), points)

    def _kind(self, choice: Choice, state: State | None) -> str:
        """Which training goes on, or of a first call, which one parameters and labels ask for."""
        asked = choice["model"].name if training(choice) == "pairs" else training(choice)
        if state is None:
            return asked
        kinds = {"hybrid": "hybrid", "pairs": "pairs", "phi": "minibatches"}
        there, own = kinds.get(state.weights.kind, "points"), self.parameters
        if state.weights.by_minibatches:
            there = "minibatches"
        if asked != there and own["model"] != "auto":
            raise ValueError(
                f"model is {own['model']!r}, solver {own['solver']!r} and sampler {own['sampler']!r}; partial_fit goes "
                "on with the model that is there, which was trained otherwise: leave them as they were"
            )
        return there

    def _plan_linear(
        self, asked: Parameters, state: State | None, points: Points, call: Call, facts: Facts
    ) -> PlannedCall:
        """A linear model of one label a row, by parameters that are resolved; `asked` are those that were given."""
        own, chosen = self.parameters, self.check()
        model, begins_fit = linear_model(chosen), state is None and call.fit_pass is not None
        chosen = replace(chosen, model=model)
        chosen = chosen if begins_fit else stepwise(chosen)
        open_alpha = own.is_auto("alpha")
        if open_alpha:  # what a part would want is more than all rows do
            own = own.changed(alpha=0.0)
        scales = model.get_params()["scaling"] == "standard"
        scaled, scaling = scaled_for_call(state, points, scales=scales, centre=bool(asked["fit_intercept"]))
        # Between the fits of a stream the schedule of the last one goes on: steps by curvature undo some of it.
        falls = call.may_fall(asked) and not (state is not None and state.calls and state.history.n_fit > 0)
        if scaled.x is not points.x:
            facts = Facts.of(scaled.x, scaled.n_classes, figures=facts.figures)
        choice = Choice(own, chosen, facts, timed=not begins_fit, by_steps=True, goes_on=falls)
        planned = plan_points(choice, scaled.x, scaled.labels.ids)
        if open_alpha:
            planned = replace(planned, params={**planned.params, "alpha": 0.0})
        return PlannedCall(planned, scaled, scaling)


def stepwise(chosen: Chosen) -> Chosen:
    """The parts, with a solver that steps by rows where "auto" has none, or one of full passes."""
    full = chosen.solver is None or chosen.solver.name == "lbfgs"
    return replace(chosen, solver=SOLVERS["implicit"]()) if full else chosen


def _trained(
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


def _fit_linear(choice: Choice, points: Points, watch: Watch, asked: Asked, *, rival: bool) -> State:
    """Fit a linear model of one label a row; with `rival` another, if trials say that it predicts better."""
    parameters, labels, r = choice.parameters, points.labels.ids, points.weights
    heads = _heads(asked.candidates, parameters["sampler"], choice.chosen.sampler, points)
    scaling = None
    if linear_model(choice.chosen).get_params()["scaling"] == "standard":
        scaling = FeatureScaling.of(points.x, centre=bool(parameters["fit_intercept"]), weights=r)
    x = points.x if scaling is None else scaling.apply(points.x)
    linear = as_linear(choice, None if scaling is None else x)
    if points.several:
        if (loss := linear["solver"].get_params()["loss"]) != "softmax":
            raise ValueError(f"loss is {loss!r}; with several labels and solver='lbfgs' it must be 'softmax'")
        if parameters["early_stopping"]:
            raise ValueError(
                "early_stopping is True, which solver='lbfgs' has for one label a row alone; with several labels set "
                "it to False"
            )
        planned = full_plan(linear)
    elif linear["solver"].name == "lbfgs":
        planned = plan_full_passes(linear, x, labels, r)
    else:
        planned = plan_points(linear, x, labels, r, asked.tried_rates, ridge=not rival)
    if rival:
        assert asked.loss_of_fit is not None
        is_linear, planned = plan_of_winner(choice, linear, points, x, planned, asked.loss_of_fit)
        if not is_linear:
            return _trained(choice, planned, points, watch)
    first = replace(first_of(parameters, points, asked), start=asked.start, heads=heads)
    if first.evaluated is not None and scaling is not None:
        evaluated, its_labels = first.evaluated
        first = replace(first, evaluated=(scaling.apply(evaluated), its_labels))
    return _trained(linear, planned, replace(points, x=x), watch, first, scaling)


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
