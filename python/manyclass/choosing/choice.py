"""The interpreter of the rules: parameters with what the table says for those that were left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from manyclass.choosing.facts import Facts
from manyclass.choosing.rules import SETS, Rule, rule_of
from manyclass.models import MODELS
from manyclass.parts import Given, Parameters, Part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import SOLVERS

PARTS: dict[str, Mapping[str, type[Part]]] = {"solver": SOLVERS, "sampler": SAMPLERS, "model": MODELS}
# Parameters whose effect is not on a plan.
BESIDE_PLANS = ("class_weight", "n_models", "warm_start")


@dataclass(frozen=True)
class Chosen:
    """The parts of an estimator; None stands for "auto"."""

    solver: Part | None
    sampler: Part | None
    model: Part | None = None


def is_open(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value in ("auto", "grid")


class Choice:
    """What one training is made with; see `rules.Question`.

    A value that was left open is looked up in the table when it is asked for, and kept.

    Parameters
    ----------
    parameters : Parameters
        Of the estimator.
    chosen : Chosen
        Its parts, checked.
    facts : Facts
    answers : mapping of str to object
        Values of open parameters that are known without the table.
    timed, candidates, started, by_steps, beside_pairs : bool
        See `rules.Question`.

    Attributes
    ----------
    used : dict of str to Rule
        The rules that were asked, by what they set.
    """

    def __init__(
        self,
        parameters: Parameters,
        chosen: Chosen,
        facts: Facts,
        *,
        answers: Mapping[str, Any] | None = None,
        timed: bool = False,
        candidates: bool = False,
        started: bool = False,
        by_steps: bool = False,
        beside_pairs: bool = False,
    ) -> None:
        self.parameters, self.chosen, self.facts = parameters, chosen, facts
        self.timed, self.candidates, self.started = timed, candidates, started
        self.by_steps, self.beside_pairs = by_steps, beside_pairs
        self.first_run = (0.0, 0)
        self.used: dict[str, Rule] = {}
        self._answers = dict(answers or {})

    def changed(self, *, facts: Facts | None = None, answers: Mapping[str, Any] | None = None, **values: Any) -> Choice:
        """Return another one, with other parameters, facts or answers, for the same fit."""
        return Choice(
            self.parameters.changed(**values),
            self.chosen,
            self.facts if facts is None else facts,
            answers=answers,
            timed=self.timed,
            candidates=self.candidates,
            started=self.started,
            by_steps=self.by_steps,
        )

    @property
    def kind(self) -> str:
        """The name of the estimator's class."""
        return self.parameters.kind

    def asked(self, name: str) -> Any:
        """A parameter of the estimator, or of its solver, as it was given."""
        if name in PARTS:
            part = getattr(self.chosen, name, None)
            return "auto" if part is None else part
        return self.parameters[name] if name in self.parameters else getattr(self["solver"], name, "auto")

    def is_open(self, name: str) -> bool:
        """Whether it was left "auto"."""
        value = self.asked(name)
        return isinstance(value, str) and value == "auto"

    def __getitem__(self, name: str) -> Any:
        asked = self.asked(name)
        if not is_open(asked):
            return asked
        if name not in self._answers:
            rule = self.used[name] = rule_of(name, self)
            value = rule.value(self) if callable(rule.value) else rule.value
            self._answers[name] = PARTS[name][value]() if name in PARTS and isinstance(value, str) else value
        return self._answers[name]

    def tries(self, name: str) -> bool:
        """Whether a trial may better what the table says for a parameter."""
        return self.is_open(name) and bool(rule_of(name, self).trial)


class Taking(Given):
    """Parameters that are taken, as `Given`; those left open are answered by a choice, and told by `opened`."""

    def __init__(self, owner: Part | Parameters, choice: Choice, prefix: str = "") -> None:
        super().__init__(owner, prefix)
        self._choice = choice
        self.opened: dict[str, Any] = {}

    @classmethod
    def of(cls, choice: Choice, *beside: str) -> Taking:
        """The parameters of an estimator but its parts, and others of which somebody else takes care."""
        given = cls(choice.parameters, choice)
        given.pass_over("solver", "sampler", "model", *BESIDE_PLANS, *beside)
        return given

    def pass_over(self, *names: str) -> None:
        """Mark parameters as taken."""
        self._taken.update(names)

    def take(self, name: str, otherwise: Any = None) -> Any:
        """The value of a parameter, set or by the table; see `Given`."""
        if otherwise is not None or name not in SETS or not self.is_auto(name):
            return super().take(name, otherwise)
        self._taken.add(name)
        value = self._choice[name]
        if self.has(name):
            self.opened[name] = value
        return value

    def take_sampler(self) -> Part:
        """The sampler, set or by the table."""
        sampler: Part = self._choice["sampler"]
        if self._choice.is_open("sampler"):
            self.opened["sampler"] = sampler
        return sampler


def told(choice: Choice, given: Taking, of_solver: Given, model: Part | None = None) -> dict[str, Any]:
    """What parameters that were left open became, for `set_params`; the solver with what it left open filled in."""
    asked, found = choice.parameters, dict(given.opened)
    # What "auto" is for the scaling of a linear model that was named is told by the model.
    scaling = "auto" if isinstance(asked.get("model"), str) else getattr(asked.get("model"), "scaling", "")
    if model is not None and (is_open(asked["model"]) or (model.name == "linear" and scaling == "auto")):
        found["model"] = model
    opened = of_solver.opened if isinstance(of_solver, Taking) else {}
    if is_open(asked["solver"]) or opened:
        found["solver"] = clone(choice["solver"]).set_params(**opened)
    return found
