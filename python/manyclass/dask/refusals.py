"""What a fit on a cluster refuses, before any work, and in what words."""

from __future__ import annotations

from typing import Any

from manyclass.classifiers.planner import Planner
from manyclass.dask.loading import Loaded
from manyclass.dask.workers import least_memory
from manyclass.training.plan import BatchesPlan

NOT_THERE = {"model": ("embedding", "sparse", "hybrid"), "sampler": ("head_tail", "search"), "solver": ("lbfgs",)}
NEEDED: dict[str, tuple[Any, ...]] = {"calibration": (None,), "n_models": (1, "auto"), "warm_start": (False,)}


def check_supported(planner: Planner) -> None:
    """Raise ValueError for parameters that need all rows in one place, or models that are not linear ones."""
    own, chosen = planner.parameters, planner.check()
    for name, values in NEEDED.items():
        if own[name] not in values:
            raise ValueError(f"{name} is {own[name]!r}; on a cluster it must be {values[0]!r}")
    for name, refused in NOT_THERE.items():
        part = getattr(chosen, name)
        if part is not None and part.name in refused:
            raise ValueError(
                f"{name} is {part.name!r}, which is not there on a cluster; linear models are, by all steps on single "
                "points (solver='implicit', 'exact', 'umax' and others), with draws that need no search"
            )
    if getattr(chosen.solver, "reduction", "auto") == "margin":
        raise ValueError(
            "reduction is 'margin', whose scale needs rows held out, which is not there on a cluster; leave it 'auto', "
            "or take DaskMarginClassifier"
        )


DIVISIONS = ("auto", "rows", "rows and classes")
# W whole takes up to four times its size on a worker: as merged, as trained, its change, and the merge of a part; half
# of the memory is left to the rows.
COPIES_OF_W, SHARE_OF_MEMORY = 4, 0.5
FEWEST_COPIES_OF_W = 2  # as merged, and as trained: without these there is no pass


def divides_classes(division: str, planner: Planner, loaded: Loaded) -> bool:
    """Whether workers have blocks of classes: by choice, or where all of W on each leaves too little memory.

    It needs exact steps or sampled implicit ones, so "auto" does not choose it where another solver was.

    Raises
    ------
    ValueError
        For what blocks of classes have not, and what a visit to a part of the classes cannot be.
    RuntimeError
        If W cannot be on a worker as it was merged and as it is trained: before the worker is killed.
    """
    solver = planner.parameters["solver"]
    separable = getattr(solver, "name", solver) in ("auto", "exact", "implicit")
    if division == "rows and classes":
        _check_on_blocks(solver, loaded, separable=separable)
        return True
    workers, w = loaded.workers, 4.0 * loaded.n_classes * loaded.facts[0].n_features
    memory, goes_on = least_memory(workers.client, workers.places), loaded.origin.call is not None
    only_rows = division == "rows" or loaded.by_batches or any(loaded.n_held) or goes_on or not separable
    if not only_rows and len(workers.places) > 1 and w * COPIES_OF_W > SHARE_OF_MEMORY * memory:
        return True
    if FEWEST_COPIES_OF_W * w > memory:
        raise RuntimeError(
            f"W takes {w / 1e6:,.0f} MB, and a worker needs {FEWEST_COPIES_OF_W} times that by rows; "
            f"{workers.short_memory()}"
        )
    return False


def _check_on_blocks(solver: Any, loaded: Loaded, *, separable: bool) -> None:
    if not separable:
        raise ValueError(
            f"solver is {solver!r}; with division='rows and classes' it must be 'auto', 'implicit', which draws "
            "classes of a block, or 'exact', which sees them all"
        )
    if loaded.by_batches:
        raise ValueError(
            "division is 'rows and classes', which is for one label a row and the log-loss, point by point; several "
            "labels, margins and 'adagrad' need division='rows'"
        )
    if any(loaded.n_held) or loaded.origin.call is not None:
        raise ValueError("division is 'rows and classes'; early_stopping and partial_fit need division='rows'")
    own = {} if isinstance(solver, str) else solver.get_params()
    for what, those in (
        ("averaging", ("auto", "none")),
        ("formulation", ("auto", "raman")),
        ("u_init", ("log_n_classes",)),
    ):
        if own.get(what, those[0]) not in those:
            raise ValueError(f"{what} is {own[what]!r}; with division='rows and classes' it must be {those[-1]!r}")


def check_settled(plan: Any) -> None:
    """Raise ValueError for what goes from visit to visit of a worker, and is not merged."""
    if isinstance(plan, BatchesPlan):
        return
    if plan.schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', whose step sizes several workers cannot share; choose another")
    if plan.max_norm is not None:
        raise ValueError(f"max_norm is {plan.max_norm!r}, which several workers cannot keep to; leave it None")
