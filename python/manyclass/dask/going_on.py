"""Training by rows that goes on from a model whose W is on a worker: `partial_fit`, as on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.dask import batches, rows
from manyclass.dask.rows import Part
from manyclass.dask.shards import Shard, Whole
from manyclass.estimators.assembled import before_of, history_of, settle_batches_of, weights_of
from manyclass.estimators.continued import Before, Steps, passes_of_call, stepwise, weights_of_call, with_resolved
from manyclass.estimators.continued_batches import mapped_of_call
from manyclass.estimators.history import History
from manyclass.estimators.settle import Settled, linear_model, settle_points
from manyclass.model.mapped import MappedWeights
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Doubles, LinearWeights
from manyclass.training.plan import BatchesPlan, PointsPlan


@dataclass(frozen=True)
class Origin:
    """What a training begins with: nothing, or for a call of `partial_fit` what is known before.

    Attributes
    ----------
    steps : Steps or None
        Of the call; None of a fit.
    known : ndarray of labels or None
        Classes that y need not have.
    model : future or estimator or None
        The fitted estimator of one machine; None: there is none.
    facts : estimator or None
        It without W, on the client.
    """

    steps: Steps | None = None
    known: NDArray[Any] | None = None
    model: Any = None
    facts: Any = None

    @property
    def history(self) -> History:
        """How much the model has seen."""
        return History() if self.facts is None else history_of(self.facts)

    def before(self, classes: NDArray[Any], counts: Doubles) -> Before:
        """What the model is for a call with these classes, of which all rows have `counts`; its W is not there."""
        if self.facts is None:
            return Before(None, np.zeros(0, dtype=np.intp), np.zeros(len(classes)), History())
        return before_of(self.facts, classes)


def counts_after(facts: Any, classes: NDArray[Any], counts: Doubles) -> Doubles:
    """Rows of each class, those of a call included."""
    return counts if facts is None else before_of(facts, classes).counts + counts


def counts_to_draw_by(counts: Doubles) -> Doubles:
    """The same, but 1 for a class that only `classes` names: such a class is drawn like one with a row."""
    return np.maximum(counts, 1.0)


def scaling_of_call(owner: Any, facts: Any, x: Any, weights: Doubles | None) -> FeatureScaling | None:
    """How a call scales features: as the model does or, of a first call, by its rows."""
    own = owner if facts is None else with_resolved(facts)
    there = None if facts is None else history_of(facts).scaling
    if there is not None:
        return there
    if linear_model(own.check_parameters()).get_params()["scaling"] == "none":
        return None
    return FeatureScaling.of(x, centre=bool(owner.fit_intercept), weights=weights)


def settle_call(
    owner: Any, origin_facts: Any, shard: Shard, classes: NDArray[Any], n_rows: int, steps: Steps, by_batches: bool
) -> Settled:
    """What a call trains with, nothing being tried."""
    own = owner if origin_facts is None else with_resolved(origin_facts)
    if by_batches:
        settled = settle_batches_of(own, shard.x, len(classes))
    else:
        chosen = own.check_parameters()
        chosen = stepwise(replace(chosen, model=linear_model(chosen)))
        settled = settle_points(own, chosen, shard.x, shard.labels, len(classes), candidates=False, timed=True)
    plan: Any = settled.plan
    before = Origin(facts=origin_facts).before(classes, np.zeros(0))
    more: dict[str, Any] = passes_of_call(plan, before, steps, n_rows)
    if isinstance(plan, PointsPlan):
        more["averaging"] = "none"
    return replace(settled, plan=replace(plan, **more))


def parts_to_go_on(
    model: Any, plan: PointsPlan | BatchesPlan, whole: Whole, classes: NDArray[Any], scaling: FeatureScaling | None
) -> list[Part]:
    """Parts of the W at which a call begins, made where the model is."""
    before = before_of(model, classes)
    if isinstance(plan, BatchesPlan):
        return batches.split(whole, *mapped_of_call(plan, before, classes, whole.counts))
    weights = weights_of_call(plan, weights_of(model), classes, before, whole.counts, scaling)
    return rows.split(whole, weights)


def pick(parts: Sequence[Part], at: int) -> Part:
    """One of some parts."""
    return parts[at]


def fits(facts: Any, by_batches: bool, n_features: int, several: bool) -> None:
    """Raise ValueError where data or parameters are of another model than the one that is there."""
    if facts.n_features_in_ != n_features:
        raise ValueError(
            f"X has {n_features} features, but the model has {facts.n_features_in_}; partial_fit on a cluster takes as "
            "many as before"
        )
    if bool(facts.multilabel_) != several:
        told = ("one label a row", "an indicator matrix of labels")
        raise ValueError(f"y has {told[several]}; the model was trained with {told[facts.multilabel_]}")
    if isinstance(weights_of(facts), MappedWeights) != by_batches or not isinstance(
        weights_of(facts), MappedWeights | LinearWeights
    ):
        raise ValueError(
            f"solver is {facts.solver!r}; partial_fit goes on with the model that is there, which was trained "
            "otherwise: leave it as it was"
        )
