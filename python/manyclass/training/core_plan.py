"""What the core's trainers of single points are made from: their plan, and the arrays that they move."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass import _core
from manyclass.training.plan import PointsPlan
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids
from manyclass.weights.weights import Weights


def first_carried(plan: PointsPlan, n_samples: int, n_classes: int) -> tuple[Doubles, Doubles]:
    """Return what points carry before their first visit: u of the double sum, or mean and scale of q."""
    family = plan.utility.family if plan.utility else None
    if plan.utility is not None and family is not None:
        mean, scale = (family.mu, family.s) if plan.utility.start == "best" else (0.0, 1.0)
        return np.full(n_samples, mean), np.full(n_samples, scale)
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


def core_plan(plan: PointsPlan, n_classes: int, **more: Any) -> _core.Plan:
    """Return the core's plan, with `more` of its fields: `batch` points see the same weights.

    Others may be `u_max`, the most that u can be; `first_point`, from which on the draws of points are named; and
    `exact_first_u`, whether a u of NaN begins at its exact value or at what its own draw makes of it.
    """
    made = plan.shared_with("Plan") | {
        "selection": plan.sampler,
        "n_negatives": min(plan.n_negatives, n_classes),
        "options": dict(plan.options),
        "mean_of_batch": plan.batch_size is not None,
        "hogwild": plan.hogwild and plan.n_threads > 1,
        "ridge": plan.alpha,
        "decay": plan.schedule.decay,
        "decay_every": plan.schedule.decay_every,
        "isa": "auto",
    }
    utility = plan.utility
    if utility is not None:
        made |= {name: getattr(utility, name) for name in ("noise", "local_step", "gain", "floor")}
        made |= {"power": utility.gain_power, "family": utility.family}
    return _core.Plan(**made, **more)
