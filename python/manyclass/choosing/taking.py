"""What a plan takes of the parameters: those that are set, and the recipe's fields for those that are open."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from manyclass.choosing.costs import Planned
from manyclass.choosing.recipes import OPEN, Choice, words_of
from manyclass.choosing.settings import is_open
from manyclass.parts import Given, Parameters, Part
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
