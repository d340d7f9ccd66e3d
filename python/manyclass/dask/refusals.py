"""What a fit on a cluster refuses, before any work, and in what words."""

from __future__ import annotations

from typing import Any

from manyclass.dask.crew import workers_of
from manyclass.dask.loading import Loaded
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


DIVISIONS = ("auto", "rows", "rows and classes")
# W whole takes up to four times its size on a worker: as merged, as trained, its change, and the merge of a part; half
# of the memory is left to the rows.
COPIES_OF_W, SHARE_OF_MEMORY = 4, 0.5


def divides_classes(division: str, owner: Any, loaded: Loaded) -> bool:
    """Whether workers have blocks of classes: by choice, or where all of W on each leaves too little memory.

    It needs exact steps or sampled implicit ones, so "auto" does not choose it where another solver was.
    """
    name = getattr(owner.solver, "name", owner.solver)
    separable = name in ("auto", "exact", "implicit")
    if division == "rows and classes":
        _check_on_blocks(owner, name, separable=separable)
    if division != "auto":
        return division == "rows and classes"
    crew = loaded.crew
    n_classes = crew.gather([crew.submit(0, len, loaded.classes[0])])[0]
    told = workers_of(crew.client)
    memory = min(float(told[place].get("memory_limit") or float("inf")) for place in crew.places if place in told)
    whole = 4.0 * n_classes * loaded.told[0].n_features * COPIES_OF_W
    return separable and len(crew.places) > 1 and whole > SHARE_OF_MEMORY * memory


def _check_on_blocks(owner: Any, name: str, *, separable: bool) -> None:
    """Raise ValueError for what a visit to a part of the classes cannot be."""
    if not separable:
        raise ValueError(
            f"solver is {owner.solver!r}; with division='rows and classes' it must be 'auto', 'implicit', which draws "
            "classes of a block, or 'exact', which sees them all"
        )
    if isinstance(owner.solver, str):
        return
    own = owner.solver.get_params()
    for what, those in (
        ("averaging", ("auto", "none")),
        ("formulation", ("auto", "raman")),
        ("u_init", ("log_n_classes",)),
    ):
        if own.get(what, those[0]) not in those:
            raise ValueError(f"{what} is {own[what]!r}; with division='rows and classes' it must be {those[-1]!r}")


def check_settled(plan: PointsPlan, n_shards: int, *, by_blocks: bool) -> None:
    """Raise ValueError for what several workers cannot merge, or blocks of classes cannot do."""
    if by_blocks and plan.schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', which division='rows and classes' does not have; choose another")
    if by_blocks and plan.max_norm is not None:
        raise ValueError(f"max_norm is {plan.max_norm!r}, which division='rows and classes' does not have")
    if n_shards == 1:
        return
    if plan.schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', whose step sizes several workers cannot share; choose another")
    if plan.max_norm is not None:
        raise ValueError(f"max_norm is {plan.max_norm!r}, which several workers cannot keep to; leave it None")
