"""The core's step, asked with the twin's Point, and what tests need to judge it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from testing_core import pieces

from manyclass import _core
from manyclass.registry import parts
from reference.steps import Answer, Point


def core_step(point: Point, solver: str, *, root: str = "newton", isa: str = "auto") -> Answer:
    """(p, label, carried value, loss) of one step of the core; scores and alpha are rounded to float."""
    plan = core_plan(
        solver=solver,
        formulation=point.carry,
        root=root,
        options={n.name: getattr(point, n.name) for n in parts("solver")[solver].parameters},
        isa=isa,
    )
    p, label, carried, _, loss, _ = pieces.step(
        plan=plan,
        scores=point.scores.astype(np.float32),
        alpha=point.alpha.astype(np.float32),
        label_score=point.label_score,
        x_sq=point.x_sq,
        eta=point.eta,
        eta_u=point.eta_u,
        u=point.carried,
        visits=point.visits,
        label_alpha=point.label_alpha,
        x_sqs=_floats(point.x_sqs),
        times=_floats(point.times),
    )
    return p.astype(np.float64), label, carried, loss


def core_plan(**settings: object) -> _core.Plan:
    """A plan of training with some settings, the others plain: one thread, visit by visit."""
    plain: dict[str, object] = {
        "selection": "block",
        "n_negatives": 1,
        "options": {},
        "seed": 0,
        "n_threads": 1,
        "batch": 1,
        "shuffle": True,
        "isa": "auto",
    }
    return _core.Plan(**(plain | settings))


def _floats(values: NDArray[np.float64] | None) -> NDArray[np.float32]:
    return np.zeros(0, dtype=np.float32) if values is None else values.astype(np.float32)


def isas() -> list[str]:
    """Instruction sets of this processor."""
    known = ["baseline", "avx2", "avx512"]
    return known[: known.index(_core.best_isa()) + 1]


def random_point(rng: np.random.Generator, m: int, *, spread: float = 2.0, **fields: float | bool) -> Point:
    """A point whose scores are floats, so that rounding them changes nothing."""
    scores: NDArray[np.float64] = (spread * rng.normal(size=m)).astype(np.float32).astype(np.float64)
    values: dict[str, float | bool] = {
        "label_score": float(np.float32(spread * rng.normal())),
        "x_sq": float(rng.uniform(0.2, 3)),
        "eta": 1.0,
        "eta_u": 1.0,
        "carried": float(rng.uniform(0, 4)),
    }
    alpha = np.full(m, float(np.float32(rng.uniform(1, 10))))
    return Point(scores=scores, alpha=alpha, **(values | fields))
