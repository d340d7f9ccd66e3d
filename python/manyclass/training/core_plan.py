"""What the core's trainers of single points are made from: their plan, and the arrays that they move."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass import _core
from manyclass.training.plan import PointsPlan, Utility
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids
from manyclass.weights.weights import Weights


def first_carried(plan: PointsPlan, n_samples: int, n_classes: int) -> tuple[Doubles, Doubles]:
    """Return what points carry before their first visit: u of the double sum, or mean and scale of q."""
    family = plan.utility.family if plan.utility else None
    if family is not None:
        return np.full(n_samples, family.mu), np.full(n_samples, family.s)
    first_u = float(np.log(n_classes)) if plan.u_init == "log_n_classes" else 0.0
    return np.full(n_samples, first_u), NO_DOUBLES


def core_state(plan: PointsPlan, weights: Weights, labels: Ids, x_sq: Floats, **more: Any) -> _core.State:
    """Return the arrays of a training; of those that only some trainings have, the ones not given are empty."""
    u, local_scale = first_carried(plan, len(labels), weights.n_classes)
    return _core.State(
        labels=labels,
        x_sq=x_sq,
        weights=weights.matrix,
        intercept=weights.intercept if plan.fit_intercept else NO_FLOATS,
        n_classes=weights.n_classes,
        **{"u": u, "local_scale": local_scale, **more},
    )


def core_plan(
    plan: PointsPlan,
    n_classes: int,
    *,
    batch: int,
    u_max: float = np.inf,
    first_point: int = 0,
    exact_first_u: bool = False,
) -> _core.Plan:
    """Return the core's plan.

    `batch` points see the same weights, `u_max` is the most that u can be, the draws of points are named from
    `first_point` on, and `exact_first_u` says what a u of NaN begins at: its exact value, or what its own draw makes of
    it.
    """
    return _core.Plan(
        solver=plan.solver,
        formulation=plan.formulation,
        selection=plan.sampler,
        root=plan.root,
        partition=plan.partition,
        n_negatives=min(plan.n_negatives, n_classes),
        options=dict(plan.options),
        seed=plan.seed,
        first_point=first_point,
        n_threads=plan.n_threads,
        batch=batch,
        mean_of_batch=plan.batch_size is not None,
        share_classes=bool(plan.share_classes),
        hogwild=plan.hogwild and plan.n_threads > 1,
        shuffle=plan.shuffle,
        ridge=plan.alpha,
        u_max=u_max,
        exact_first_u=exact_first_u,
        max_norm=np.inf if plan.max_norm is None else plan.max_norm,
        decay=plan.schedule.decay,
        decay_every=plan.schedule.decay_every or 0,
        isa="auto",
        **({} if plan.utility is None else _bound_of(plan.utility)),
    )


def _bound_of(utility: Utility) -> dict[str, Any]:
    """Return what the core's plan has of augment and reduce."""
    bound = {
        "noise": utility.noise,
        "local_step": utility.local_step,
        "gain": utility.gain,
        "power": utility.gain_power,
        "floor": utility.floor,
    }
    return bound if utility.family is None else {**bound, "family": utility.family.core}
