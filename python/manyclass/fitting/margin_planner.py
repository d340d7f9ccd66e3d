"""The choices and the fits of a MarginClassifier."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.facts import Facts
from manyclass.choosing.plans import batches_plan, resolved_of_batches
from manyclass.choosing.recipes import Choice
from manyclass.choosing.taking import Taking, planned
from manyclass.figures import FIGURES
from manyclass.fitting.fit import go_on_warm
from manyclass.fitting.planner import Beginning, PlannedCall, Planner, facts_of, first_of, with_report_of
from manyclass.models import MODELS
from manyclass.parts import Chosen, part_of, resolve_part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import Watch
from manyclass.training.incremental import Call
from manyclass.training.plan import AnyPlan
from manyclass.training.state import Points, State
from manyclass.training.train import train

LOSSES = ("margin", "triplet")


MARGIN_MODELS = {name: MODELS[name] for name in ("linear", "embedding")}


MARGIN_SOLVERS = {name: SOLVERS[name] for name in ("adagrad", "sgd", "implicit")}


MARGIN_SAMPLERS = {name: sampler for name, sampler in SAMPLERS.items() if name != "head_tail"}


class MarginPlanner(Planner):
    """The plans of MarginClassifier."""

    several: ClassVar[bool] = True
    trains_log_odds: ClassVar[bool] = False

    def check(self) -> Chosen:
        """See `Planner`."""
        parameters = self.parameters
        check_choice("loss", parameters["loss"], LOSSES)
        check_number("smoothing", parameters["smoothing"], low=0)
        check_number("max_iter", parameters["max_iter"], low=1, integer=True)
        self.check_shared()
        return Chosen(
            resolve_part("solver", parameters["solver"], MARGIN_SOLVERS, "manyclass.solvers"),
            part_of("sampler", parameters["sampler"], MARGIN_SAMPLERS, "manyclass.samplers"),
            part_of("model", parameters["model"], MARGIN_MODELS, "manyclass.models"),
        )

    def run(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """See `Planner`."""
        if beginning.state is not None:
            return go_on_warm(self, beginning.state, points, watch)
        facts = facts_of(points)
        planned = self.plan(facts)
        costs.check_memory(facts, planned.plan, watch.max_bytes)
        first = first_of(self.parameters, points, beginning)
        return with_report_of(planned, train(None, points, planned.plan, watch, first=first))

    def passes_of_call(self, plan: AnyPlan, *, after_fit: bool) -> int:
        """See `Planner`."""
        return 1 if after_fit else FIGURES.CALL_PASSES_OF_MARGINS

    def loss(self, state: State, points: Points) -> float:
        """See `Planner`: the share of rows whose first class is none of their labels."""
        best, _ = state.weights.top_k(points.x, 1, n_threads_from(self.parameters["n_jobs"]))
        right = _core.label_hits(points.labels.indptr, points.labels.ids, best)[:, 0]
        return 1 - float(np.average(right, weights=points.weights))

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        return PlannedCall(self.resolved(state).plan(facts_of(points), by_steps=True), points)

    def plan(self, facts: Facts, *, by_steps: bool = False) -> Planned:
        """Return the plan, and what parameters left open became in it; `by_steps`: of rows that come part by part."""
        parameters, choice = self.parameters, Choice(self.parameters, self.check(), facts, by_steps=by_steps)
        taking = Taking.of(choice, "loss")
        taking.take_early_stopping()
        smoothing = float(taking.take("smoothing")) if parameters["loss"] == "margin" else 0.0
        embeds = choice["model"].name == "embedding"
        if choice["solver"].name == "implicit" and (parameters["loss"] != "margin" or embeds):
            raise ValueError(
                "solver='implicit' needs loss='margin' and no embeddings; they are "
                f"{parameters['loss']!r} and {choice['model'].name!r}"
            )
        plan, solver_numbers = batches_plan(choice, taking, parameters["loss"], smoothing, SAMPLERS["uniform"]())
        taking.refuse_rest("here")
        return planned(choice, plan, resolved_of_batches(choice, taking, solver_numbers))
