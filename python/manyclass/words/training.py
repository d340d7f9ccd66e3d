"""Training of a skip-gram model: a warm-up by negative sampling, then passes of the objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyclass import _core
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.passes import drive
from manyclass.words.collapsed import Descent, log_normalizers
from manyclass.words.core_objective import CoreObjective
from manyclass.words.masked_descent import MaskedDescent, MaskedGradients
from manyclass.words.objectives import Descent as DescentObjective
from manyclass.words.passes import CAREFUL, Callback, DescentPasses, Rates, SkipGramState, TextPasses
from manyclass.words.plan import SkipGramPlan
from manyclass.words.sampled_descent import SampledDescent, SampledGradients
from manyclass.words.searches import default_budget, index_for

WARM_UP_RATE = 0.025


@dataclass(frozen=True)
class Trained:
    """What a training leaves beside the vectors: the mean loss of each pass, and the seconds of those over the text.

    `complete`: whether a warm-up was not ended before its last pass.
    """

    curve: list[float]
    text_seconds: float
    complete: bool = True


def train(
    plan: SkipGramPlan, state: SkipGramState, callback: Callback | None, checkpoints: Checkpoints | None = None
) -> Trained:
    """Move the vectors of the state's model.

    A callback that returns True, or Ctrl-C, ends training, also in the warm-up.
    """
    objective = plan.objective
    warm_up = _warm_up(plan, state, callback, checkpoints)
    if not warm_up.complete:
        return warm_up
    if isinstance(objective, DescentObjective):
        descent = DescentPasses(_descent(plan, objective, state), plan.max_iter, state)
        more, _ = _drive(plan, descent, state, callback, checkpoints)
        return Trained(warm_up.curve + more, warm_up.text_seconds)
    rate, is_softmax = plan.learning_rate, objective.is_softmax
    passes = _text_passes(plan, objective.core, plan.max_iter, rate, state, is_softmax=is_softmax)
    more, _ = _drive(plan, passes, state, callback, checkpoints)
    return Trained(warm_up.curve + more, state.seconds)


def train_on(
    plan: SkipGramPlan,
    state: SkipGramState,
    callback: Callback | None,
    rates: tuple[float, float],
    *,
    warms_up: bool,
) -> Trained:
    """Move the vectors of a model that goes on, or begins so, from the first step size to the last."""
    warm_up = _warm_up(plan if warms_up else replace(plan, warm_up=0), state, callback)
    if not warm_up.complete:
        return warm_up
    core, is_softmax = plan.objective.core, plan.objective.is_softmax
    passes = _text_passes(plan, core, plan.max_iter, rates[0], state, is_softmax=is_softmax, last=rates[1])
    more, _ = _drive(plan, passes, state, callback)
    return Trained(warm_up.curve + more, state.seconds)


def _warm_up(
    plan: SkipGramPlan, state: SkipGramState, callback: Callback | None, checkpoints: Checkpoints | None = None
) -> Trained:
    """Passes of negative sampling before those of the objective."""
    curve: list[float] = []
    complete = True
    if plan.warm_up:
        state.objective = "negative_sampling"
        first = _text_passes(plan, plan.objective.warm_up, plan.warm_up, WARM_UP_RATE, state, is_softmax=False)
        curve, complete = _drive(plan, first, state, callback, checkpoints)
    if complete:
        state.objective = plan.objective.name
    return Trained(curve, state.seconds, complete)


def _drive(
    plan: SkipGramPlan,
    passes: TextPasses | DescentPasses,
    state: SkipGramState,
    callback: Callback | None,
    checkpoints: Checkpoints | None = None,
) -> tuple[list[float], bool]:
    told = replace(plan, n_jobs=None, verbose=False)
    return drive(
        passes,
        state,
        callback,
        max_iter=passes.n_passes,
        verbose=plan.verbose,
        stage=None if checkpoints is None else checkpoints.stage(told),
    )


def _text_passes(
    plan: SkipGramPlan,
    core: CoreObjective,
    n_passes: int,
    learning_rate: float,
    state: SkipGramState,
    *,
    is_softmax: bool,
    last: float | None = None,
) -> TextPasses:
    model = state.model
    n_words = len(model.corpus.counts)
    carried = log_normalizers(model.tables) if core.carries_normalizers else np.zeros(n_words)
    trainer = _core.skip_gram_trainer(
        text=model.text,
        input=model.tables.input,
        output=model.tables.output,
        carried=carried,
        counts=model.corpus.counts,
        solver=core.solver,
        n_negatives=plan.n_negatives,
        power=core.power,
        share=core.share,
        delta=core.delta,
        u_gain=core.u_gain,
        seed=model.seed,
        n_threads=model.n_threads,
        isa="auto",
    )
    # Equal probabilities cost log V, and negative sampling with all scores 0 log 2 for y and for each draw.
    worst_loss = 2 * (np.log(n_words) + plan.n_negatives + 1)
    rates = Rates(learning_rate, n_passes, core.u_learning_rate, last)
    is_careful = learning_rate * (1 + plan.n_negatives) > CAREFUL
    return TextPasses(trainer, state, rates, worst_loss, carried, is_softmax=is_softmax, is_careful=is_careful)


def _descent(plan: SkipGramPlan, objective: DescentObjective, state: SkipGramState) -> Descent:
    model = state.model
    collapsed, tables = model.collapsed(), model.tables
    if isinstance(objective.search, str) and objective.search == "exact":
        return Descent(collapsed, tables, plan.learning_rate)
    index = index_for(objective.search, seed=model.seed, n_jobs=plan.n_jobs)
    n_words = len(tables.output)
    budget = min(default_budget(n_words) if objective.budget == "auto" else int(objective.budget), n_words)
    if objective.masks:
        masked = MaskedGradients(collapsed, index, budget, model.dim, messages=objective.passes_messages)
        return MaskedDescent(masked, tables, plan.learning_rate)
    sampled = SampledGradients(collapsed, index, budget, model.dim, model.seed)
    return SampledDescent(sampled, tables, plan.learning_rate, model.seed)
