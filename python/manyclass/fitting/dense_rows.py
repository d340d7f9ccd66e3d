"""Dense rows of one label: a trial of the model, a linear one or a hidden layer, by rows held out of both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from manyclass import _core
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.plans import softmax_batches_plan
from manyclass.choosing.recipes import Choice
from manyclass.figures import FIGURES
from manyclass.fitting.planner import facts_of
from manyclass.models import MODELS
from manyclass.training.core_training import TrainingState, Watch
from manyclass.training.passes import fork, quietly
from manyclass.training.plan import BatchesPlan, FullBatchPlan, PointsPlan, draw_rows_out
from manyclass.training.state import Points
from manyclass.training.train import train
from manyclass.weights.arrays import NO_DOUBLES, Doubles
from manyclass.weights.weights import FeatureScaling, Weights


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
        Of the linear model; the hidden layer has all that is set in it.
    points : Points
    scaling : FeatureScaling or None
        Of the features that the linear model is trained on.
    """
    chosen = replace(choice.chosen, model=MODELS["embedding"](activation="relu"))
    choice = replace(choice, chosen=chosen, facts=facts_of(points), taken=None)
    hidden, trials, n = softmax_batches_plan(choice), linear.trials, len(points.labels)
    assert isinstance(linear.plan, PointsPlan | FullBatchPlan)
    assert isinstance(hidden.plan, BatchesPlan)
    plans = replace(linear.plan, verbose=0), replace(hidden.plan, verbose=0)
    n_out = min(FIGURES.MOST_HELD_OUT, int(FIGURES.SHARE_HELD_OUT * n))
    is_out = draw_rows_out(n_out, n, fork(choice.parameters["random_state"]), points.groups, points.labels)
    if not is_out.any() or costs.model_bytes(choice.facts, hidden.plan) > choice.most_bytes:
        return None
    trained, out = (points.some(np.flatnonzero(rows)) for rows in (~is_out, is_out))
    ends = _Ends(out, plans[0].n_threads)

    def loss_of_linear() -> float:
        scaled = trained if scaling is None else replace(trained, x=scaling.apply(trained.x))
        ends.linear = ends.losses_of(quietly(partial(train, None, scaled, plans[0], scaling=scaling)).weights)
        return ends.mean(ends.linear)

    def loss_of_hidden() -> float:
        quietly(partial(train, None, trained, plans[1], Watch(ends)))
        return ends.mean(ends.hidden)

    models = zip(("linear", "embedding"), plans, (loss_of_linear, loss_of_hidden), strict=True)
    for model, plan, find_loss in models:
        size = (len(trained.labels), out.n_classes, plan.max_iter)
        trials.make("model", model, find_loss, predicted=costs.fit_cost(choice.facts, plan), size=size)
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
        mean, error = _core.mean_and_error(self.linear - self.hidden, _or_none(self.out.weights))
        return mean > error

    def __call__(self, state: TrainingState) -> bool:
        """Look at the rows held out after a pass."""
        self.hidden = self.losses_of(state.weights)
        is_far = not self.mean(self.hidden) <= FIGURES.FAR_BEHIND_LINEAR * self.mean(self.linear)
        return state.n_iter > 1 and (self.is_ahead or is_far)


def _or_none(weights: Doubles | None) -> Doubles:
    return NO_DOUBLES if weights is None else weights
