"""What a fit on a cluster refuses, before any work, and in what words."""

from __future__ import annotations

from typing import Any

from manyclass.training.plan import PointsPlan


def check_supported(owner: Any) -> None:
    """Raise ValueError for parameters that need all rows in one place, or models that are not linear ones."""
    chosen = owner.check_parameters()
    needed: dict[str, Any] = {"early_stopping": False, "calibration": None, "n_models": 1, "warm_start": False}
    for name, value in needed.items():
        if getattr(owner, name, value) != value:
            raise ValueError(f"{name} is {getattr(owner, name)!r}; on a cluster it must be {value!r}")
    for name, part, refused in (
        ("model", chosen.model, ("embedding", "sparse", "hybrid")),
        ("sampler", chosen.sampler, ("head_tail", "search")),
        ("solver", chosen.solver, ("lbfgs", "adagrad")),
    ):
        if part is not None and part.name in refused:
            raise ValueError(
                f"{name} is {part.name!r}, which is not there on a cluster; linear models are, by all steps on single "
                "points (solver='implicit', 'exact', 'umax' and others), with draws that need no search"
            )


def check_settled(plan: PointsPlan, n_shards: int) -> None:
    """Raise ValueError for what several workers cannot merge."""
    if n_shards == 1:
        return
    if plan.schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', whose step sizes several workers cannot share; choose another")
    if plan.max_norm is not None:
        raise ValueError(f"max_norm is {plan.max_norm!r}, which several workers cannot keep to; leave it None")
