"""Training of a skip-gram model: a warm-up by negative sampling, then passes of the objective."""

from __future__ import annotations

from manyclass.training.checkpoint import Checkpoints
from manyclass.training.passes import drive
from manyclass.words.descent import Descent, ExactGradients
from manyclass.words.objectives import Descent as DescentObjective
from manyclass.words.passes import Callback, DescentPasses, SkipGramState, TextPasses
from manyclass.words.plan import LAST_SHARE, SkipGramPlan
from manyclass.words.searched_gradients import MaskedGradients, SampledGradients, default_budget, index_for

WARM_UP_RATE = 0.025


def train(
    plan: SkipGramPlan,
    state: SkipGramState,
    callback: Callback | None,
    checkpoints: Checkpoints | None = None,
    *,
    verbose: bool = False,
) -> tuple[list[float], float]:
    """Move the vectors of the state's model.

    A callback that returns True, or Ctrl-C, ends training, also in the warm-up.

    Returns
    -------
    curve : list of float
        The mean loss of each pass, those of the warm-up first.
    text_seconds : float
        Of the passes over the text.
    """

    def made(passes: TextPasses | DescentPasses) -> tuple[list[float], bool]:
        stage = None if checkpoints is None else checkpoints.stage(plan)
        return drive(passes, state, callback, max_iter=passes.n_passes, verbose=verbose, stage=stage)

    objective = plan.objective
    curve: list[float] = []
    if plan.warm_up:
        state.objective = "negative_sampling"
        rates = WARM_UP_RATE, LAST_SHARE * WARM_UP_RATE
        warm_up = TextPasses(state, objective.warm_up, plan.warm_up, plan.n_negatives, rates, is_softmax=False)
        curve, complete = made(warm_up)
        if not complete:
            return curve, state.seconds
    state.objective, text_seconds = objective.name, state.seconds
    if isinstance(objective, DescentObjective):
        return curve + made(DescentPasses(state, _descent(plan, objective, state), plan.max_iter))[0], text_seconds
    rates = plan.learning_rate, plan.last_learning_rate
    is_softmax = objective.is_softmax
    passes = TextPasses(state, objective.core, plan.max_iter, plan.n_negatives, rates, is_softmax=is_softmax)
    return curve + made(passes)[0], state.seconds


def _descent(plan: SkipGramPlan, objective: DescentObjective, state: SkipGramState) -> Descent:
    model = state.model
    n_threads = model.n_threads
    gradients = ExactGradients(model.collapsed, n_threads)
    if not isinstance(objective.search, str) or objective.search != "exact":
        index = index_for(objective.search, seed=model.seed, n_jobs=n_threads)
        n_words = len(model.tables.output)
        budget = min(default_budget(n_words) if objective.budget == "auto" else int(objective.budget), n_words)
        if objective.masks:
            messages = objective.passes_messages
            gradients = MaskedGradients(
                model.collapsed, index, budget, model.dim, messages=messages, n_threads=n_threads
            )
        else:
            gradients = SampledGradients(model.collapsed, index, budget, model.dim, model.seed, n_threads=n_threads)
    return Descent(gradients, model.tables, plan.learning_rate)
