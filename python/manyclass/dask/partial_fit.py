"""Training by rows that goes on from a model whose W is on a worker: `partial_fit`, as on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.choosing.facts import Facts
from manyclass.choosing.planning import plan_points
from manyclass.choosing.plans import linear_model, softmax_batches_plan
from manyclass.choosing.rules import Choice
from manyclass.choosing.trials import Planned
from manyclass.classifiers.base import planner_of, state_of
from manyclass.classifiers.margin import MarginPlanner
from manyclass.classifiers.planner import Planner, resolved
from manyclass.classifiers.softmax_planner import stepwise
from manyclass.dask import batches, rows
from manyclass.dask.rows import Part
from manyclass.dask.shards import Shard, Whole
from manyclass.models import MODELS
from manyclass.training.calls import Before, Call, passes_of_call
from manyclass.training.plan import BatchesPlan, PointsPlan
from manyclass.training.state import History, State
from manyclass.training.train import mapped_of_call, weights_of_call
from manyclass.weights.arrays import Doubles, Matrix
from manyclass.weights.scaling import FeatureScaling


@dataclass(frozen=True)
class Origin:
    """What a training begins with: nothing, or for a call of `partial_fit` what is known before.

    Attributes
    ----------
    call : Call or None
        Of `partial_fit`; None of a fit.
    known : ndarray of labels or None
        Classes that y need not have.
    model : future or estimator or None
        The fitted estimator of one machine; None: there is none.
    facts : State or None
        What it is, without W, on the client.
    """

    call: Call | None = None
    known: NDArray[Any] | None = None
    model: Any = None
    facts: State | None = None

    @property
    def history(self) -> History:
        """How much the model has seen."""
        return History() if self.facts is None else self.facts.history


def before_of(state: State | None, classes: NDArray[Any]) -> Before:
    """What a state is for a call with these classes."""
    return Before.of(state, classes, 0, Call())


def without_weights(model: Any) -> State:
    """The state of a fitted estimator without W."""
    state = state_of(model)
    weights = state.weights
    none = replace(weights, matrix=weights.matrix[:0].copy(), bias=weights.bias[:0].copy())
    return replace(state, weights=none, squares=None)


def counts_after(facts: State | None, classes: NDArray[Any], counts: Doubles) -> Doubles:
    """Rows of each class, those of a call included."""
    return before_of(facts, classes).counts + counts


def counts_to_draw_by(counts: Doubles) -> Doubles:
    """The same, but 1 for a class that only `classes` names: such a class is drawn like one with a row."""
    return np.maximum(counts, 1.0)


def planner_of_call(owner: Any, facts: State | None) -> Planner:
    """The planner of an estimator, what it left open being what the model has."""
    planner = planner_of(owner)
    return planner if facts is None else replace(planner, parameters=resolved(planner.parameters, facts))


def scaling_of_call(owner: Any, facts: State | None, x: Any, weights: Doubles | None) -> FeatureScaling | None:
    """How a call scales features: as the model does or, of a first call, by its rows."""
    if facts is not None and facts.history.scaling is not None:
        return facts.history.scaling
    if linear_model(planner_of_call(owner, facts).check()).get_params()["scaling"] == "none":
        return None
    return FeatureScaling.of(x, centre=bool(owner.fit_intercept), weights=weights)


def settle_batches_of(planner: Planner, x: Matrix, n_classes: int) -> Planned:
    """The plan of minibatches, of a linear model."""
    if isinstance(planner, MarginPlanner):
        return planner.plan(Facts.of(x, n_classes))
    chosen = planner.check()
    chosen = replace(chosen, model=chosen.model or MODELS["linear"]())
    facts = Facts.of(x, n_classes, several=True)
    return softmax_batches_plan(Choice(planner.parameters, chosen, facts, by_steps=True))


def settle_call(
    owner: Any, facts: State | None, shard: Shard, classes: NDArray[Any], n_rows: int, call: Call, by_batches: bool
) -> Planned:
    """What a call trains with, nothing being tried."""
    planner = planner_of_call(owner, facts)
    if by_batches:
        settled = settle_batches_of(planner, shard.x, len(classes))
    else:
        chosen = planner.check()
        chosen = stepwise(replace(chosen, model=linear_model(chosen)))
        own = planner.parameters
        choice = Choice(own, chosen, Facts.of(shard.x, len(classes)), timed=True, by_steps=True)
        settled = plan_points(choice, shard.labels)
    plan: Any = settled.plan
    more: dict[str, Any] = passes_of_call(plan, Origin(facts=facts).history, call, n_rows)
    if isinstance(plan, PointsPlan):
        more["averaging"] = "none"
    return replace(settled, plan=replace(plan, **more))


def parts_to_go_on(
    model: Any, plan: PointsPlan | BatchesPlan, whole: Whole, classes: NDArray[Any], scaling: FeatureScaling | None
) -> list[Part]:
    """Parts of the W at which a call begins, made where the model is."""
    state = state_of(model)
    before = before_of(state, classes)
    if isinstance(plan, BatchesPlan):
        return batches.split(whole, *mapped_of_call(plan, before, classes, whole.counts))
    weights = weights_of_call(plan, state.weights, classes, before, whole.counts, scaling)
    return rows.split(whole, weights)


def pick(parts: Sequence[Part], at: int) -> Part:
    """One of some parts."""
    return parts[at]


def fits(owner: Any, facts: State, by_batches: bool, n_features: int, several: bool) -> None:
    """Raise ValueError where data or parameters are of another model than the one that is there."""
    if facts.features.n != n_features:
        raise ValueError(
            f"X has {n_features} features, but the model has {facts.features.n}; partial_fit on a cluster takes as "
            "many as before"
        )
    if facts.several != several:
        told = ("one label a row", "an indicator matrix of labels")
        raise ValueError(f"y has {told[several]}; the model was trained with {told[facts.several]}")
    mapped = facts.weights.kind == "phi"
    if mapped != by_batches or not (mapped or facts.weights.is_linear):
        raise ValueError(
            f"solver is {owner.solver!r}; partial_fit goes on with the model that is there, which was trained "
            "otherwise: leave it as it was"
        )
