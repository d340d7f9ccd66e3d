"""What a fit on a cluster refuses, before any work, and in what words."""

from __future__ import annotations

from typing import Any

from manyclass.dask.loading import Loaded
from manyclass.dask.workers import least_memory
from manyclass.training.plan import BatchesPlan


def check_supported(owner: Any) -> None:
    """Raise ValueError for parameters that need all rows in one place, or models that are not linear ones."""
    chosen = owner.check_parameters()
    needed: dict[str, Any] = {"calibration": (None,), "n_models": (1, "auto"), "warm_start": (False,)}
    for name, values in needed.items():
        value = values[0]
        if getattr(owner, name, value) not in values:
            raise ValueError(f"{name} is {getattr(owner, name)!r}; on a cluster it must be {value!r}")
    for name, part, refused in (
        ("model", chosen.model, ("embedding", "sparse", "hybrid")),
        ("sampler", chosen.sampler, ("head_tail", "search")),
        ("solver", chosen.solver, ("lbfgs",)),
    ):
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


def divides_classes(division: str, owner: Any, loaded: Loaded) -> bool:
    """Whether workers have blocks of classes: by choice, or where all of W on each leaves too little memory.

    It needs exact steps or sampled implicit ones, so "auto" does not choose it where another solver was.
    """
    name = getattr(owner.solver, "name", owner.solver)
    separable = name in ("auto", "exact", "implicit")
    if division == "rows and classes":
        _check_on_blocks(owner, loaded, separable=separable)
    if division != "auto" or loaded.by_batches or any(loaded.n_held) or loaded.origin.call is not None:
        return division == "rows and classes"
    crew = loaded.crew
    whole = _bytes_of_w(loaded) * COPIES_OF_W
    memory = least_memory(crew.client, crew.places)
    return separable and len(crew.places) > 1 and whole > SHARE_OF_MEMORY * memory


def _bytes_of_w(loaded: Loaded) -> float:
    [n_classes] = loaded.crew.gather([loaded.crew.submit(0, len, loaded.classes[0])])
    return float(4 * n_classes * loaded.told[0].n_features)


def check_memory(loaded: Loaded) -> None:
    """Raise RuntimeError where W cannot be on a worker as it was merged and as it is trained: before it is killed."""
    memory, w = least_memory(loaded.crew.client, loaded.crew.places), _bytes_of_w(loaded)
    if FEWEST_COPIES_OF_W * w > memory:
        raise RuntimeError(
            f"W takes {w / 1e6:,.0f} MB, and a worker needs {FEWEST_COPIES_OF_W} times that by rows; "
            f"{loaded.crew.short_memory()}"
        )


def _check_on_blocks(owner: Any, loaded: Loaded, *, separable: bool) -> None:
    """Raise ValueError for what blocks of classes have not, and what a visit to a part of the classes cannot be."""
    if not separable:
        raise ValueError(
            f"solver is {owner.solver!r}; with division='rows and classes' it must be 'auto', 'implicit', which draws "
            "classes of a block, or 'exact', which sees them all"
        )
    if loaded.by_batches:
        raise ValueError(
            "division is 'rows and classes', which is for one label a row and the log-loss, point by point; several "
            "labels, margins and 'adagrad' need division='rows'"
        )
    if any(loaded.n_held) or loaded.origin.call is not None:
        raise ValueError("division is 'rows and classes'; early_stopping and partial_fit need division='rows'")
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


def check_settled(plan: Any) -> None:
    """Raise ValueError for what goes from visit to visit of a worker, and is not merged."""
    if isinstance(plan, BatchesPlan):
        return
    if plan.schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', whose step sizes several workers cannot share; choose another")
    if plan.max_norm is not None:
        raise ValueError(f"max_norm is {plan.max_norm!r}, which several workers cannot keep to; leave it None")
