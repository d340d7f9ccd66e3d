"""The choices and the fits of a SoftmaxClassifier."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.facts import Facts, Lengths
from manyclass.choosing.plans import points_plan
from manyclass.choosing.recipes import Choice
from manyclass.choosing.taking import linear_model
from manyclass.figures import FIGURES
from manyclass.fitting.dense_rows import better_hidden_layer
from manyclass.fitting.fit import go_on_warm
from manyclass.fitting.grid import try_grid
from manyclass.fitting.planner import Beginning, PlannedCall, Planner, facts_of, first_of, warm_start_of, with_report_of
from manyclass.fitting.points import scaled_for_call
from manyclass.fitting.trials import as_met, plan_batches_or_pairs, plan_full_passes, plan_points
from manyclass.labels import positions_of
from manyclass.models import MODELS
from manyclass.parts import Chosen, Parameters, Part, part_of
from manyclass.samplers import MOST_HEAD, SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import Watch
from manyclass.training.incremental import Call, refuse_starts
from manyclass.training.start import First
from manyclass.training.state import Points, State
from manyclass.training.train import train
from manyclass.weights.arrays import Ids
from manyclass.weights.weights import FeatureScaling


class SoftmaxPlanner(Planner):
    """Of SoftmaxClassifier."""

    several: ClassVar[bool] = True
    has_grid: ClassVar[bool] = True

    def check(self) -> Chosen:
        """See `Planner`."""
        parameters = self.parameters
        self.check_shared()
        return Chosen(
            part_of("solver", parameters["solver"], SOLVERS, "manyclass.solvers"),
            part_of("sampler", parameters["sampler"], SAMPLERS, "manyclass.samplers"),
            part_of("model", parameters["model"], MODELS, "manyclass.models"),
        )

    def run(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """See `Planner`: a run begins warm at a state that is there, where no start is given."""
        state = beginning.state
        if state is None or beginning.start is not None:
            return self._fit(points, watch, beginning)
        if points.several or not state.weights.is_linear:
            refuse_candidates(beginning.candidates)
            return go_on_warm(self, state, points, watch)
        warm = replace(beginning, start=warm_start_of(state, points))
        after = self.resolved(state)._fit(points, watch, warm)
        was, now = state.fit_report, after.fit_report
        return after.with_report(params={**was.params, **now.params}, rules={**was.rules, **now.rules})

    def _fit(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """Make one run that begins at no model."""
        choice = Choice(
            self.parameters,
            self.check(),
            facts_of(points),
            timed=bool(np.isfinite(watch.max_seconds)),
            candidates=beginning.candidates is not None,
            started=beginning.start is not None,
            most_bytes=watch.max_bytes,
        )
        if choice.recipe.trains == "points":
            return _fit_linear(self, choice, points, watch, beginning)
        pairs = choice.recipe.trains == "pairs"
        where = f"model={choice['model'].name!r}" if pairs else "several labels or embeddings"
        if beginning.start is not None:
            raise ValueError(f"coef_init or intercept_init is given, which has no effect with {where}; leave them None")
        refuse_candidates(beginning.candidates)
        first = first_of(self.parameters, points, beginning)
        return _train(choice, plan_batches_or_pairs(choice, points), points, watch, first)

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        resolved, facts = self.resolved(state), facts_of(points)
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
        falls, parts = call.may_fall(self.parameters), resolved.check()
        if state is not None and parts.model is None:  # an older file does not say what its model was
            parts = replace(parts, model=MODELS[name]())
        choice = Choice(resolved.parameters, parts, facts, timed=True, by_steps=True, goes_on=falls)
        return PlannedCall(plan_batches_or_pairs(choice, points), points)

    def _kind(self, choice: Choice, state: State | None) -> str:
        """Which training goes on, or of a first call, which one parameters and labels ask for."""
        trains = choice.recipe.trains
        wanted = choice["model"].name if trains == "pairs" else trains
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
            facts = Facts.of(scaled.x, scaled.n_classes)
        choice = Choice(parameters, chosen, facts, timed=not begins_fit, by_steps=True, goes_on=falls)
        planned = plan_points(choice, scaled)
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
        if costs.fit_cost(facts, planned.plan) >= FIGURES.TOLD_BEFORE:
            print(costs.in_words(facts, planned.plan), file=sys.stderr, flush=True)
    state = train(None, points, planned.plan, watch, first=first, scaling=scaling)
    return with_report_of(planned, state)


def _fit_linear(planner: Planner, choice: Choice, points: Points, watch: Watch, beginning: Beginning) -> State:
    """Fit a linear model of one label a row, or of several by full passes."""
    parameters, chosen = choice.parameters, choice.chosen
    heads = _heads(beginning.candidates, parameters["sampler"], chosen.sampler, points)
    scaling = None
    if linear_model(chosen).get_params()["scaling"] == "standard":
        scaling = FeatureScaling.of(points.x, centre=bool(parameters["fit_intercept"]), weights=points.weights)
    scaled = points if scaling is None else replace(points, x=scaling.apply(points.x))
    if scaling is not None:
        choice = replace(choice, facts=replace(choice.facts, measured=Lengths.of(scaled.x)))
    planned, first = _plan_linear(planner, choice, scaled), first_of(parameters, points, beginning)
    if choice.tries("model") and (better := better_hidden_layer(planned, choice, points, scaling)) is not None:
        return _train(*better, points, watch, first)
    first = replace(first, start=beginning.start, heads=heads)
    if first.evaluated is not None and scaling is not None:
        evaluated, its_labels = first.evaluated
        first = replace(first, evaluated=(scaling.apply(evaluated), its_labels))
    return _train(choice, planned, scaled, watch, first, scaling)


def _plan_linear(planner: Planner, choice: Choice, scaled: Points) -> Planned:
    """Return the plan of a linear model: of full passes, of one label or several, or of steps."""
    if scaled.several:
        if (loss := choice["solver"].get_params()["loss"]) != "softmax":
            raise ValueError(f"loss is {loss!r}; with several labels and solver='lbfgs' it must be 'softmax'")
        if choice.parameters["early_stopping"]:
            raise ValueError(
                "early_stopping is True, which solver='lbfgs' has for one label a row alone; with several labels set "
                "it to False"
            )
    if choice["solver"].name == "lbfgs":
        return plan_full_passes(choice, scaled)
    rates, parameters = None, choice.parameters
    if parameters["learning_rate"] == "grid":
        changed, data = planner.changed(**points_plan(choice).params, class_weight=None), (scaled.x, scaled.labels.ids)
        rates = try_grid(changed, *data, scaled.weights, random_state=parameters["random_state"], groups=scaled.groups)
    return plan_points(choice, scaled, rates)


def _heads(candidates: ArrayLike | None, sampler_parameter: Any, sampler: Part | None, points: Points) -> Ids | None:
    """The positions of the candidates of each point."""
    if candidates is None:
        return None
    if sampler is None or sampler.name != "head_tail":
        raise ValueError(f"candidates need sampler='head_tail'; it is {sampler_parameter!r}")
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
