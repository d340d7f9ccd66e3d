"""Rules, and their interpreter: parameters with what a table of rules says for those that were left open."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sklearn.base import clone

from manyclass.choosing.facts import Facts
from manyclass.choosing.figures import FIGURES, Figures
from manyclass.models import MODELS
from manyclass.parts import Given, Parameters, Part, part_name, resolve_part

# Parameters whose effect is not on a plan. Patience without early stopping has none at all, and may be set all the
# same: scikit-learn's checks and grids set it wherever there is one.
BESIDE_PLANS = ("class_weight", "n_models", "warm_start", "n_iter_no_change")


@dataclass(frozen=True)
class Case:
    """A condition, and the sentence that tells it."""

    says: str
    holds: Callable[[Question], bool]

    def __and__(self, other: Case) -> Case:
        """Return the case in which both hold."""
        return Case(f"{self.says}, {other.says}", lambda q: self.holds(q) and other.holds(q))

    @classmethod
    def of(cls, holds: Callable[[Question], bool]) -> Case:
        """Make one of a function whose docstring is the sentence."""
        return cls(" ".join((holds.__doc__ or "").split()), holds)


@dataclass(frozen=True)
class Figure:
    """A value that is a number of `choosing/figures.py`, as it is when it is asked for; `at` its place in a tuple."""

    name: str
    at: int | None = None

    def __call__(self, q: Question | None = None) -> Any:
        value = getattr(FIGURES if q is None else q.figures, self.name)
        return value if self.at is None else value[self.at]


@dataclass(frozen=True)
class Rule:
    """One line of the table.

    Attributes
    ----------
    sets : str
        The parameter of the estimator, or of its solver.
    case : Case
    value : object
        A name, a number or a `Figure`, or a function of the question.
    source : str
        Where it was measured, or who says so.
    says : str
        The value in words, where it is a function.
    trial : str
        The trial that makes the value better where the budget allows it; "": none.
    """

    sets: str
    case: Case
    value: Any
    source: str = ""
    says: str = ""
    trial: str = ""

    def told(self) -> str:
        """Return the value in words."""
        return self.says or repr(self.value() if isinstance(self.value, Figure) else self.value)

    def line(self) -> str:
        """Return the rule in words: its case, the value, the trial that may better it, and the source."""
        tried = f", or what the trial {self.trial!r} finds" if self.trial else ""
        return f"{self.case.says}: {self.told()}{tried}{f' ({self.source})' if self.source else ''}"


@dataclass(frozen=True)
class Chosen:
    """The parts of an estimator; None stands for "auto"."""

    solver: Part | None
    sampler: Part | None
    model: Part | None = None


def is_open(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value in ("auto", "grid")


class Question:
    """What rules look at, and what they answer: the facts of the data, what the fit was given, and all parameters.

    A value that was left open is looked up in the table when it is asked for, and kept.

    Parameters
    ----------
    parameters : Parameters
        The parameters of the estimator.
    chosen : Chosen
        Its parts, checked.
    facts : Facts
    answers : mapping of str to object
        Values of open parameters that are known without the table.
    timed : bool
        Whether the fit has a limit of seconds.
    candidates : bool
        Whether it has candidates for heads.
    started : bool
        Whether it has first weights.
    most_bytes : float
        What a model and its training may take.
    by_steps : bool
        Whether the training is one of `partial_fit` or of a worker, whose model is not chosen and whose solver steps.
    goes_on : bool
        Whether the rows are some of those that come, as in `partial_fit`, and not all that there are.
    beside_pairs : bool
        Whether these are the embeddings of a hybrid.

    Attributes
    ----------
    rules : tuple of Rule
        The table.
    parts : mapping of str to mapping
        The classes of parts, by parameter and name.
    used : dict of str to Rule
        The rules that were asked, by what they set.
    first_run : tuple of float and int
        Predicted seconds of a run and bytes of its embeddings, where it was made.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    parts: ClassVar[Mapping[str, Mapping[str, type[Part]]]] = {}

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
        most_bytes: float = math.inf,
        by_steps: bool = False,
        goes_on: bool = False,
        beside_pairs: bool = False,
    ) -> None:
        self.parameters, self.chosen, self.facts = parameters, chosen, facts
        self.timed, self.candidates, self.started, self.most_bytes = timed, candidates, started, most_bytes
        self.by_steps, self.goes_on, self.beside_pairs = by_steps, goes_on, beside_pairs
        self.first_run = (0.0, 0)
        self.used: dict[str, Rule] = {}
        self._answers = dict(answers or {})

    def changed(self, *, facts: Facts | None = None, answers: Mapping[str, Any] | None = None, **values: Any) -> Self:
        """Return another one, with other parameters, facts or answers, for the same fit."""
        question = type(self)(
            self.parameters.changed(**values),
            self.chosen,
            self.facts if facts is None else facts,
            answers=answers,
            timed=self.timed,
            candidates=self.candidates,
            started=self.started,
            most_bytes=self.most_bytes,
            by_steps=self.by_steps,
            goes_on=self.goes_on,
        )
        question.used |= {name: rule for name, rule in self.used.items() if name in question._answers}
        return question

    @property
    def figures(self) -> Figures:
        """The numbers behind the answers."""
        return self.facts.figures

    @property
    def kind(self) -> str:
        """The name of the estimator's class."""
        return self.parameters.kind

    def asked(self, name: str) -> Any:
        """A parameter of the estimator, or of its solver, as it was given."""
        if name in self.parts:
            part = getattr(self.chosen, name, None)
            return "auto" if part is None else part
        return self.parameters[name] if name in self.parameters else getattr(self["solver"], name, "auto")

    def is_open(self, name: str) -> bool:
        """Whether it was left "auto"."""
        value = self.asked(name)
        return isinstance(value, str) and value == "auto"

    def __getitem__(self, name: str) -> Any:
        setting = self.asked(name)
        if not is_open(setting):
            return setting
        if name not in self._answers:
            rule = self.used[name] = self.rule_of(name)
            value = rule.value(self) if callable(rule.value) else rule.value
            self._answers[name] = self.parts[name][value]() if name in self.parts and isinstance(value, str) else value
        return self._answers[name]

    def tries(self, name: str) -> bool:
        """Whether a trial may better what the table says for a parameter."""
        return self.is_open(name) and bool(self.rule_of(name).trial)

    def rule_of(self, name: str) -> Rule:
        """Return the first rule for a parameter whose case holds."""
        return next(rule for rule in self.rules if rule.sets == name and rule.case.holds(self))


class Taking(Given):
    """Parameters that are taken, as `Given`; those left open are answered by a choice, and told by `opened`."""

    def __init__(self, owner: Part | Parameters, choice: Question, prefix: str = "") -> None:
        super().__init__(owner, prefix)
        self._choice, self._names = choice, {rule.sets for rule in choice.rules}
        self.opened: dict[str, Any] = {}

    @classmethod
    def of(cls, choice: Question, *beside: str) -> Taking:
        """Return the parameters of an estimator but its parts, and others of which somebody else takes care."""
        taking = cls(choice.parameters, choice)
        taking.pass_over("solver", "sampler", "model", *BESIDE_PLANS, *beside)
        return taking

    def pass_over(self, *names: str) -> None:
        """Mark parameters as taken."""
        self._taken.update(names)

    def take(self, name: str, otherwise: Any = None) -> Any:
        """Return the value of a parameter, set or by the table; see `Given`."""
        if otherwise is not None or name not in self._names or not self.is_auto(name):
            return super().take(name, otherwise)
        self._taken.add(name)
        value = self._choice[name]
        if self.has(name):
            self.opened[name] = value
        return value

    def take_sampler(self) -> Part:
        """Return the sampler, set or by the table."""
        sampler: Part = self._choice["sampler"]
        if self._choice.is_open("sampler"):
            self.opened["sampler"] = sampler
        return sampler


def told(choice: Question, taking: Taking, solver_numbers: Given, model: Part | None = None) -> dict[str, Any]:
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
