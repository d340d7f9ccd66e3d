"""Parameter objects: small estimators without `fit` that hold the parameters of a solver, a sampler or a model.

They are scikit-learn `BaseEstimator`s, so that `clone`, `get_params`, `set_params(solver__decay=0.5)` and grids work as
with the kernels of Gaussian processes. A string stands for the object of that name with its defaults.

Constructors of estimators store their arguments, and say of an unknown one what other packages call so.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from sklearn.base import BaseEstimator

from manyclass.checks import Setting, check_number, did_you_mean, set_named


class Part(BaseEstimator):
    """A solver, a sampler or a model with its parameters.

    Attributes
    ----------
    name : str
        What the string is that stands for the part with its defaults.
    settings : tuple of Setting
        Its parameters.
    n_by_place : int
        How many of them may be given without their names.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    n_by_place: ClassVar[int] = 0

    set_params = set_named

    def __init_subclass__(cls, **named: Any) -> None:
        """Give a class with settings a constructor whose signature they are, for scikit-learn, `help` and editors."""
        super().__init_subclass__(**named)
        if "settings" in vars(cls) and "__init__" not in vars(cls):

            def __init__(self: Part, *values: Any, **named: Any) -> None:  # noqa: N807
                Part.__init__(self, *values, **named)

            by_place, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
            kinds = [by_place] * cls.n_by_place + [by_name] * len(cls.settings)
            pairs, make = zip(cls.settings, kinds, strict=False), inspect.Parameter
            parameters = [make("self", by_place), *(make(s.name, kind, default=s.default) for s, kind in pairs)]
            __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
            cls.__init__ = __init__  # type: ignore[method-assign]

    def __init__(self, *values: Any, **named: Any) -> None:
        known = {setting.name: setting.default for setting in self.settings}
        if len(values) > self.n_by_place:
            raise TypeError(f"{type(self).__name__} takes its parameters by name: {_listed(known) or 'none'}")
        for name in named.keys() - known.keys():
            has = f"it has {_listed(known) or 'none'}{did_you_mean(name, known)}"
            raise TypeError(f"{type(self).__name__} has no parameter {name!r}; {has}")
        self.__dict__.update(known | dict(zip(known, values, strict=False)) | named)

    def check(self) -> None:
        """Raise ValueError or TypeError for a parameter out of its range."""
        for setting in self.settings:
            setting.check(getattr(self, setting.name))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


Description = tuple[str, tuple[Setting, ...], str]  # of a part: its name, its parameters and what it is


def part_classes(base: type[Part], module: str, descriptions: Iterable[Description]) -> dict[str, type[Part]]:
    """Make the classes of parts whose parameters are known as data."""
    kinds: dict[str, type[Part]] = {}
    for name, settings, text in descriptions:
        fields = {"__module__": module, "__doc__": document(text, settings), "name": name, "settings": settings}
        kinds[name] = type(class_name(name), (base,), fields)
    return kinds


def document(text: str, settings: tuple[Setting, ...]) -> str:
    """A docstring of a sentence or two and the parameters."""
    lines = [text, ""]
    if settings:
        lines += ["Parameters", "----------"]
    for s in settings:
        lines += [f"{s.name} : {s.type}, default={s.default!r}".replace("'", '"'), f"    {s.sentence}"]
    return "\n".join(lines).rstrip() + "\n"


_ACRONYMS = {"sgd", "css", "ema", "scgd", "scent", "ove", "nce", "is", "lbfgs"}


def class_name(name: str) -> str:
    """The name of the class of a part: "umax" is UMax, "sgd" is SGD, "head_tail" is HeadTail."""
    if name in _ACRONYMS:
        return name.upper()
    return "UMax" if name == "umax" else "".join(word.capitalize() for word in name.split("_"))


def resolve_part(parameter: str, value: Any, choices: Mapping[str, type[Part]], where: str) -> Part:
    """Return the checked part that a parameter's value stands for.

    Parameters
    ----------
    parameter : str
        Name of the estimator's parameter, for messages.
    value : str or Part
    choices : mapping of str to class
        What is allowed here.
    where : str
        The module of the classes, for messages.

    Raises
    ------
    ValueError
        If it is no part, or none that is allowed here, or one of its own parameters is out of range.
    """
    if isinstance(value, str) and value in choices:
        return choices[value]()
    if isinstance(value, Part) and choices.get(value.name) is type(value):
        value.check()
        return value
    hint = did_you_mean(value, choices)
    raise ValueError(f"{parameter} is {value!r}; it must be one of {_listed(choices)} or an object of {where}{hint}")


def part_name(value: str | Part) -> str:
    """Return the name of a part that is given by it or as an object."""
    return value if isinstance(value, str) else value.name


class Parameters(dict[str, Any]):
    """The parameters of an estimator as a fit takes them, never changed, with the name of its class and its defaults.

    Below the estimators all choices and trainings see these and no estimator.

    Parameters
    ----------
    kind : str
        Name of the class.
    values : mapping of str to object
        By the names of the parameters.
    defaults : mapping of str to object
        By the same names.
    """

    def __init__(self, kind: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.kind, self._defaults = kind, dict(defaults)

    @classmethod
    def of(cls, owner: BaseEstimator) -> Parameters:
        """Return the parameters of an estimator or a part."""
        signature = inspect.signature(type(owner)).parameters
        defaults = {name: parameter.default for name, parameter in signature.items()}
        return cls(type(owner).__name__, owner.get_params(deep=False), defaults)

    def changed(self, **values: Any) -> Parameters:
        """Return them with other values; raises KeyError for a name that there is not."""
        for name in values.keys() - self.keys():
            raise KeyError(name)
        return Parameters(self.kind, {**self, **values}, self._defaults)

    def default(self, name: str) -> Any:
        """What a parameter is where nothing is said."""
        return self._defaults[name]

    def is_auto(self, name: str) -> bool:
        """Whether a parameter is left open; one that there is not is."""
        value = self.get(name, "auto")
        return isinstance(value, str) and value == "auto"

    def check_open(self, name: str, *words: str, **rule: Any) -> None:
        """Check a number that may be left open if it is so by default, or be one of some words; see `check_open`."""
        if self._defaults[name] == "auto":
            check_open(name, self[name], *words, **rule)
        else:
            check_number(name, self[name], **rule)

    def part(self, name: str, choices: Mapping[str, type[Part]]) -> Part | None:
        """Return the checked part that a parameter stands for; None for "auto" where that is its default."""
        if self._defaults[name] == "auto":
            if self.is_auto(name):
                return None
            choices = {"auto": Part, **choices}
        return resolve_part(name, self[name], choices, f"manyclass.{name}s")


def check_open(name: str, value: Any, *words: str, **rule: Any) -> None:
    """Check a number that may be left open, or be one of some words; raises as `check_number` does."""
    if not isinstance(value, str):
        check_number(name, value, **rule)
    elif value not in (known := ("auto", *words)):
        *most, last = ("a number", *map(repr, known))
        raise ValueError(f"{name} is {value!r}; it must be {', '.join(most)} or {last}{did_you_mean(value, known)}")


class Given:
    """Parameters, each of which is taken by what it has an effect on.

    What was set and is not taken would be without effect; `refuse_rest` raises for it. So a combination of parameters
    works or raises, and no list of what is ignored has to be kept.

    Parameters
    ----------
    owner : estimator, part or Parameters
    prefix : str
        What stands before names in messages.
    answers : container of names that has a value for each
        It answers parameters that were left open.

    Attributes
    ----------
    opened : dict of str to object
        What parameters that were left open became.
    """

    def __init__(self, owner: BaseEstimator | Parameters, prefix: str = "", answers: Any = ()) -> None:
        self._values = owner if isinstance(owner, Parameters) else Parameters.of(owner)
        self._prefix, self._answers = prefix, answers
        self._taken: set[str] = set()
        self.opened: dict[str, Any] = {}

    def take(self, name: str, otherwise: Any = None) -> Any:
        """The value of a parameter; `otherwise`, or an answer, where the object has none or it is "auto"."""
        self._taken.add(name)
        if otherwise is None and name in self._answers and self.is_auto(name):
            value = self._answers[name]
            if self.has(name):
                self.opened[name] = value
            return value
        value = self._values.get(name, otherwise)
        return otherwise if isinstance(value, str) and value == "auto" and otherwise is not None else value

    def has(self, name: str) -> bool:
        """Whether the object has such a parameter."""
        return name in self._values

    def is_auto(self, name: str) -> bool:
        """Whether a parameter is left open."""
        return self._values.is_auto(name)

    def refuse_rest(self, why: str) -> None:
        """Raise ValueError for the first parameter that was set and not taken; `why` ends with a verb's subject."""
        for name, value in self._values.items():
            default = self._values.default(name)
            if name not in self._taken and not same(value, default):
                raise ValueError(f"{self._prefix}{name} is {value!r}, which has no effect {why}; leave it {default!r}")


def same(value: Any, default: Any) -> bool:
    """Whether a parameter has its default, of the same type."""
    return value is default or (type(value) is type(default) and bool(value == default))


def is_open(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value in ("auto", "grid")


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


# Constructors

# What other packages call it, and what does it here.
_HINTS = {
    "C": "alpha is the L2 penalty on the mean loss; scikit-learn's C is alpha = 1 / (C * n_samples)",
    "penalty": "the penalty is L2, of weight alpha",
    "l1_ratio": "the penalty is L2, of weight alpha",
    "tol": "solver=manyclass.solvers.LBFGS(tol=1e-6) has one",
    "multi_class": "the model is a softmax over all classes",
    "loss": "SoftmaxClassifier has the log-loss, MarginClassifier margins: loss='margin' or 'triplet'",
    "batch_size": "it belongs to the solver: solver=manyclass.solvers.Adagrad(batch_size=32)",
    **dict.fromkeys(("eta0", "eta", "lr", "learning_rate_init", "start_alpha"), "the step size is learning_rate"),
    **dict.fromkeys(("epochs", "epoch", "n_epochs", "n_epoch", "num_iterations"), "passes are max_iter"),
    **dict.fromkeys(("n_estimators", "n_trees"), "runs that are averaged are n_models"),
    **dict.fromkeys(("workers", "threads", "thread", "n_threads", "num_threads"), "threads are n_jobs"),
    **dict.fromkeys(("seed", "random_seed"), "the seed is random_state"),
    **dict.fromkeys(("vector_size", "size", "hidden_size", "embedding_dim"), "the length of vectors is dim"),
    **dict.fromkeys(("negative", "neg", "n_neg"), "words or classes that are drawn are n_negatives"),
    **dict.fromkeys(("sg", "hs"), "objective is 'softmax', 'negative_sampling', 'hierarchical' or another"),
    **dict.fromkeys(("wordNgrams", "minn", "maxn", "ngram_range"), "fit(texts, y, vectorizer=manyclass.datasets."
                    "TextVectorizer(max_n=2)) takes pairs of words, analyzer='char_wb' parts of words"),
    **dict.fromkeys(("sentences", "corpus_file", "corpus_iterable"), "fit(sentences) takes them"),
    **dict.fromkeys(("callbacks", "callback"), "fit(X, y, callback=...) calls a function after each pass"),
    **dict.fromkeys(("eval_set", "validation_data", "valid_sets", "X_val"), "with early_stopping=True, "
                    "SoftmaxClassifier.fit and MarginClassifier.fit(X, y, eval_set=(X, y)) stop by the rows of "
                    "eval_set; AugmentReduceClassifier stops where a callback of fit returns True"),
    **dict.fromkeys(("early_stopping_rounds", "patience"), "early_stopping=True and n_iter_no_change belong to the "
                    "constructors of SoftmaxClassifier and MarginClassifier"),
}  # fmt: skip
Method = TypeVar("Method", bound=Callable[..., Any])


def hinting(method: Method) -> Method:
    """Make of a method one whose TypeError for an unknown argument says what there is instead."""
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        for name in named.keys() - known.keys():
            near = did_you_mean(name, known).strip(" ()") or f"it takes {', '.join([*known][1:])}"
            hint = getattr(args[0], "hints", {}).get(name) or _HINTS.get(name) or near
            raise TypeError(f"{method.__qualname__}() got an unexpected keyword argument {name!r}: {hint}")
        return method(*args, **named)

    return cast(Method, called)


def storing(init: Method) -> Method:
    """Make of a constructor without a body one that stores its arguments, as scikit-learn asks of estimators, and that
    says of an unknown one what there is instead.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def stored(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)  # whose TypeError is Python's own
        bound = signature.bind(self, *args, **named)
        bound.apply_defaults()
        vars(self).update([*bound.arguments.items()][1:])

    return hinting(cast(Method, stored))
