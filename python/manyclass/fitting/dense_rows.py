"""Dense rows of one label: a linear model or a hidden layer, whichever rows held out of both find more probable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from manyclass.blending.blend import ScoredRows, mean_log_loss
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.recipes import Choice
from manyclass.figures import FIGURES
from manyclass.fitting.planner import facts_of
from manyclass.fitting.trials import plan_batches_or_pairs
from manyclass.models import MODELS
from manyclass.training.core_training import TrainingState, Watch
from manyclass.training.passes import fork, quietly
from manyclass.training.plan import BatchesPlan, FullBatchPlan, PointsPlan, draw_rows_out
from manyclass.training.state import Points
from manyclass.training.train import train
from manyclass.weights.weights import FeatureScaling

OPEN = ("solver", "sampler", "model", "dim", "alpha", "learning_rate", "n_negatives", "max_iter")


def hidden_layer_beside(choice: Choice, points: Points) -> Choice | None:
    """Return the choice of the hidden layer that may be better than a linear model; None where something is set."""
    facts = choice.facts
    is_free = all(map(choice.is_open, OPEN)) and not choice.parameters["early_stopping"]
    takes_part = not (facts.sparse or facts.several or choice.timed or choice.started or choice.candidates)
    if not (is_free and takes_part) or facts.n_samples < facts.figures.FEWEST_TO_TRY:
        return None
    chosen = replace(choice.chosen, model=MODELS["embedding"](activation="relu"))
    return replace(choice, chosen=chosen, facts=facts_of(points, facts.figures))


def better_plan(
    linear: Planned, choice: Choice, points: Points, scaling: FeatureScaling | None = None
) -> Planned | None:
    """Return the plan of the hidden layer if it has less log-loss than the linear model on rows held out, else None.

    Each is trained by its whole plan. The hidden layer ends early, after the second pass or a later one, where it is
    ahead, for passes to come make it better, or far behind. Both are noted in the trials of the linear model.

    Parameters
    ----------
    linear : Planned
        The plan of the linear model.
    choice : Choice
        Of the hidden layer.
    points : Points
    scaling : FeatureScaling or None
        Of the features that the linear model is trained on.
    """
    hidden, trials = plan_batches_or_pairs(choice, points), linear.trials
    assert isinstance(linear.plan, PointsPlan | FullBatchPlan)
    assert isinstance(hidden.plan, BatchesPlan)
    plans = replace(linear.plan, verbose=0), replace(hidden.plan, verbose=0)
    n, random = len(points.labels), fork(choice.parameters["random_state"])
    n_out = min(FIGURES.MOST_HELD_OUT, int(FIGURES.SHARE_HELD_OUT * n))
    is_out = draw_rows_out(n_out, n, random, points.groups, points.labels)
    if not is_out.any() or costs.model_bytes(choice.facts, hidden.plan) > choice.most_bytes:
        return None
    trained, out = (points.some(np.flatnonzero(rows)) for rows in (~is_out, is_out))
    rows, size = ScoredRows(out.x, out.labels, linear.plan.n_threads, out.weights), (len(trained.labels), out.n_classes)

    def loss_of_linear() -> float:
        scaled = trained if scaling is None else replace(trained, x=scaling.apply(trained.x))
        return mean_log_loss(quietly(partial(train, None, scaled, plans[0], scaling=scaling)).weights, rows)

    def loss_of_hidden() -> float:
        ends = _Ends(rows, loss, choice.figures.FAR_BEHIND_LINEAR)
        quietly(partial(train, None, trained, plans[1], Watch(ends)))
        return ends.loss

    loss, losses = math.inf, list[float]()
    models = zip(("linear", "embedding"), plans, (loss_of_linear, loss_of_hidden), strict=True)
    for model, plan, find_loss in models:
        predicted = costs.fit_cost(choice.facts, plan)
        loss = trials.make("model", model, find_loss, predicted=predicted, size=(*size, plan.max_iter))
        losses.append(loss)
    wins = losses[1] < losses[0]
    trials.choose("model", "embedding" if wins else "linear")
    return replace(hidden, trials=trials) if wins else None


@dataclass
class _Ends:
    """A callback that ends the training of a hidden layer once it is ahead of the linear model, or far behind.

    Attributes
    ----------
    rows : ScoredRows
        The rows held out.
    linear : float
        The log-loss of the linear model on them.
    far_behind : float
        How many times that is far behind it.
    loss : float
        The log-loss after the last pass.
    """

    rows: ScoredRows
    linear: float
    far_behind: float
    loss: float = field(default=math.inf)

    def __call__(self, state: TrainingState) -> bool:
        self.loss = mean_log_loss(state.weights, self.rows)
        return state.n_iter > 1 and not self.linear <= self.loss <= self.far_behind * self.linear
