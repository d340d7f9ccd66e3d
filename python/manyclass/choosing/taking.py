"""What a plan takes of the parameters: those that are set, and the recipe's fields for those that are open."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.choosing.recipes import OPEN, Choice, words_of
from manyclass.models import MODELS
from manyclass.parts import Chosen, Given, Parameters, Part, is_open, part_name
from manyclass.training.plan import AnyPlan

# Parameters whose effect is not on a plan. Patience without early stopping has none at all, and may be set all the
# same: scikit-learn's checks and grids set it wherever there is one.
BESIDE_PLANS = ("class_weight", "n_models", "warm_start", "n_iter_no_change")


class Taking(Given):
    """Parameters that are taken, as `Given`; those left open are answered by a choice, and kept in `opened`."""

    def __init__(self, owner: Part | Parameters, choice: Choice, prefix: str = "") -> None:
        super().__init__(owner, prefix)
        self._choice = choice
        self.opened: dict[str, Any] = {}

    @classmethod
    def of(cls, choice: Choice, *beside: str) -> Taking:
        """Return the parameters of an estimator but its parts, and others of which somebody else takes care."""
        taking = cls(choice.parameters, choice)
        taking.pass_over("solver", "sampler", "model", *BESIDE_PLANS, *beside)
        return taking

    def pass_over(self, *names: str) -> None:
        """Mark parameters as taken."""
        self._taken.update(names)

    def take(self, name: str, otherwise: Any = None) -> Any:
        """Return the value of a parameter, set or by the recipe; see `Given`."""
        if otherwise is not None or name not in OPEN or not self.is_auto(name):
            return super().take(name, otherwise)
        self._taken.add(name)
        value = self._choice[name]
        if self.has(name):
            self.opened[name] = value
        return value

    def take_sampler(self) -> Part:
        """Return the sampler, set or by the recipe."""
        sampler: Part = self._choice["sampler"]
        if self._choice.is_open("sampler"):
            self.opened["sampler"] = sampler
        return sampler

    def take_early_stopping(self) -> None:
        """Early stopping is the fit's; without it a share of held-out rows has no effect."""
        if self.take("early_stopping") and self.has("validation_fraction"):
            self.take("validation_fraction")

    def refuse_dim(self) -> None:
        """Raise ValueError for a dim where no model has embeddings that is planned or tried."""
        if self._choice.tries("model"):
            self.pass_over("dim")
        elif not self.is_auto("dim"):
            raise ValueError(f"dim is {self.take('dim')!r}, which needs model='embedding'; leave it 'auto'")

    def refuse_grid(self) -> None:
        """Raise ValueError for a grid of step sizes where the model is not linear, or has several labels a row."""
        if self.take("learning_rate") == "grid":
            raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")


def resolved_values(choice: Choice, taking: Taking, solver_numbers: Given, model: Part | None = None) -> dict[str, Any]:
    """Return what parameters that were left open became, for `set_params`; the solver has its own filled in."""
    parameters, values = choice.parameters, dict(taking.opened)
    # What "auto" is for the scaling of a linear model that was named is told by the model.
    scaling = "auto" if isinstance(parameters.get("model"), str) else getattr(parameters.get("model"), "scaling", "")
    if model is not None and (is_open(parameters["model"]) or (model.name == "linear" and scaling == "auto")):
        values["model"] = model
    opened = solver_numbers.opened if isinstance(solver_numbers, Taking) else {}
    if is_open(parameters["solver"]) or opened:
        values["solver"] = clone(choice["solver"]).set_params(**opened)
    return values


def planned(choice: Choice, plan: AnyPlan, params: dict[str, Any]) -> Planned:
    """Return a plan with what parameters that were left open became in it, and the recipe."""
    return Planned(plan, params, {"recipe": f"{choice.recipe.name} ({words_of(choice.recipe.holds)})"})


# Linear models


def scales_features(solver: str | Part, model: str | Part) -> bool:
    """Whether an estimator with these two parameters, parts or names, trains on scaled features of a linear model."""
    scaling = "auto" if isinstance(model, str) else model.get_params().get("scaling", "auto")
    linear = part_name(model) in ("auto", "linear")
    return linear and (scaling == "standard" or (scaling == "auto" and solver == "auto"))


def linear_model(chosen: Chosen) -> Part:
    """Return the linear model, its scaling filled in: with solver="auto" what is chosen is for scaled features."""
    scales = scales_features("auto" if chosen.solver is None else chosen.solver, chosen.model or "auto")
    return MODELS["linear"](scaling="standard" if scales else "none")
