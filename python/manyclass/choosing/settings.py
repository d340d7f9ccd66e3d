"""What the user has set: the parts of an estimator, and what is refused of its other parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manyclass.models import MODELS
from manyclass.parts import Given, Part, part_name, resolve_part


@dataclass(frozen=True)
class Chosen:
    """The parts of an estimator; None stands for "auto"."""

    solver: Part | None
    sampler: Part | None
    model: Part | None = None

    @property
    def names(self) -> list[str]:
        """The names of those that were set."""
        return [part.name for part in (self.solver, self.sampler, self.model) if part is not None]


def is_open(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value in ("auto", "grid")


def part_of(parameter: str, value: str | Part, choices: Mapping[str, type[Part]], where: str) -> Part | None:
    """Return the checked part that a parameter stands for; None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    return resolve_part(parameter, value, {"auto": Part, **choices}, where)


def scales_features(solver: str | Part, model: str | Part) -> bool:
    """Whether an estimator with these two parameters, parts or names, trains on scaled features of a linear model."""
    scaling = "auto" if isinstance(model, str) else model.get_params().get("scaling", "auto")
    linear = part_name(model) in ("auto", "linear")
    return linear and (scaling == "standard" or (scaling == "auto" and solver == "auto"))


def linear_model(chosen: Chosen) -> Part:
    """Return the linear model, its scaling filled in: with solver="auto" what is chosen is for scaled features."""
    scales = scales_features("auto" if chosen.solver is None else chosen.solver, chosen.model or "auto")
    return MODELS["linear"](scaling="standard" if scales else "none")


def take_early_stopping(taking: Given) -> None:
    """Early stopping is the fit's; without it a share of held-out rows has no effect."""
    if taking.take("early_stopping") and taking.has("validation_fraction"):
        taking.take("validation_fraction")


def refuse_dim(taking: Given) -> None:
    """Raise ValueError for a dim where the model has no embeddings."""
    if not taking.is_auto("dim"):
        raise ValueError(f"dim is {taking.take('dim')!r}, which needs model='embedding'; leave it 'auto'")


def refuse_grid(taking: Given) -> None:
    """Raise ValueError for a grid of step sizes where the model is not linear, or has several labels a row."""
    if taking.take("learning_rate") == "grid":
        raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")
