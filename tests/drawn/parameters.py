"""Random parameters, drawn from what constructors declare: settings of parts, types and defaults of estimators.

A new parameter, part or choice is drawn without a change here. Only numbers that multiply the time or memory that a
user asks for, such as passes, are named, in `WORK`.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from manyclass import DecomposedIndex, SkipGram, SphericalClusterIndex, models, samplers, solvers
from manyclass.parts import Setting
from manyclass.words import objectives

PARTS: dict[str, Mapping[str, type]] = {
    "solver": solvers.SOLVERS,
    "sampler": samplers.SAMPLERS,
    "model": models.MODELS,
    "local_step": solvers.LOCAL_STEPS,
    "posterior": solvers.POSTERIORS,
    "objective": objectives.OBJECTIVES,
}
# The most that is drawn of what is work or memory by itself: a user who asks for 10**9 passes gets them.
WORK = {
    "max_iter": 6,
    "n_iter": 6,
    "n_models": 3,
    "n_draws": 40,
    "warm_up": 3,
    "dim": 24,
    "n_jobs": 4,
    "verbose": 1,
}
OF_MADE = {SkipGram: {"n_negatives": 40}}  # drawn one by one, where classifiers draw no class twice
AT_MOST = 10**9  # of other integers
TINY, LEAST = 2.0**-126, 2.0**-149  # of normal and of all floats, single precision
SHARE_DEFAULT = 0.6  # of the settings of a part


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between two, both above 0."""
    return float(10.0 ** rng.uniform(np.log10(low), np.log10(high)))


def positive(rng: np.random.Generator) -> float:
    """A number above 0: an ordinary, a large or small, an extreme or a special one."""
    kind = rng.random()
    if kind < 0.4:
        return log_uniform(rng, 1e-3, 1e2)
    if kind < 0.7:
        return log_uniform(rng, 1e-38, 1e38)
    if kind < 0.88:
        return log_uniform(rng, 1e-300, 1e308)
    special = [1.0, 1e-38, 1e300, 1e308, 5e-324, TINY, LEAST, float(np.finfo(np.float32).max)]
    return float(rng.choice([*special, float(np.finfo(np.float64).max), 1 - 2.0**-53]))


def number(rng: np.random.Generator, low: float = -np.inf, high: float = np.inf) -> float:
    """A number of an interval; one in a hundred lies anywhere, and may be refused."""
    kind = rng.random()
    if kind < 0.01:
        return float(rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0]))
    if kind < 0.08:
        return float(next((end for end in (low, high) if np.isfinite(end)), 0.0))
    found = positive(rng)
    if np.isfinite(low) and np.isfinite(high):
        return float(rng.uniform(low, high)) if rng.random() < 0.5 else float(np.clip(found, low, high))
    if not np.isfinite(low) and rng.random() < 0.5:
        found = -found
    return max(found, low) if np.isfinite(low) else found


def integer(rng: np.random.Generator, name: str, low: float = 0, high: float = np.inf, made: type | None = None) -> int:
    """A whole number, small or, where it is no work, anything."""
    most = OF_MADE.get(made, WORK).get(name, WORK.get(name))
    first = int(low) if np.isfinite(low) else 0
    if most is not None:
        return int(rng.integers(max(first, 1) if name != "verbose" else 0, most + 1))
    last = int(min(high, AT_MOST))
    if rng.random() < 0.75:
        return int(rng.integers(first, min(last, first + 12) + 1))
    return int(min(last, max(first, log_uniform(rng, 1, AT_MOST))))


def of_setting(rng: np.random.Generator, setting: Setting) -> Any:
    """A value of a parameter of a part."""
    if setting.beside and rng.random() < 0.3:
        return setting.beside[int(rng.integers(len(setting.beside)))]
    if setting.kind == "choice":
        return str(rng.choice(setting.choices))
    if setting.kind == "flag":
        return bool(rng.random() < 0.5)
    if setting.kind == "index":
        return index(rng) if rng.random() < 0.4 else str(rng.choice(samplers.SEARCHES))
    if setting.kind == "integer":
        return integer(rng, setting.name, setting.low, setting.high)
    return number(rng, setting.low, setting.high)


def part(rng: np.random.Generator, made: type) -> Any:
    """A part or an objective with some of its parameters drawn."""
    return made(**{s.name: of_setting(rng, s) for s in made.settings if rng.random() > SHARE_DEFAULT})


def index(rng: np.random.Generator) -> SphericalClusterIndex | DecomposedIndex:
    """An index that is not fitted."""
    made = [SphericalClusterIndex, DecomposedIndex][int(rng.integers(2))]
    return made(**parameters(rng, made, most=3))


def parameters(rng: np.random.Generator, made: type, most: int = 6) -> dict[str, Any]:
    """Two to six parameters of an estimator, seldom none; the others keep their defaults."""
    names = [name for name in inspect.signature(made).parameters if name != "random_state"]
    n_drawn = 0 if rng.random() < 0.03 else int(rng.integers(2, most + 1))
    drawn = of_constructor(rng, made, [str(n) for n in rng.permutation(names)[:n_drawn]])
    return {**drawn, "random_state": int(rng.integers(2**31))}


def of_constructor(rng: np.random.Generator, made: type, names: list[str]) -> dict[str, Any]:
    """Values of some parameters of a constructor, by their types."""
    hints = typing.get_type_hints(made.__init__)
    defaults = {name: p.default for name, p in inspect.signature(made).parameters.items()}
    return {name: of_type(rng, name, hints[name], made, defaults[name]) for name in names}


def of_type(rng: np.random.Generator, name: str, hint: Any, made: type, default: Any) -> Any:
    """A value of a parameter of some type."""
    kinds = alternatives(hint)
    words = [word for kind in kinds if typing.get_origin(kind) is Literal for word in typing.get_args(kind)]
    if name in PARTS:
        return of_part(rng, name, words)
    makers: list[Callable[[], Any]] = []
    if words:
        makers.append(lambda: words[int(rng.integers(len(words)))])
    if types.NoneType in kinds:
        makers.append(lambda: None)
    if bool in kinds:
        makers.append(lambda: bool(rng.random() < 0.5))
    if float in kinds:
        makers += 3 * [lambda: number(rng, 0.0)]
    if int in kinds:
        makers += 3 * [lambda: integer(rng, name, made=made)]
    if str in kinds and not makers:
        makers.append(lambda: str(rng.choice(choices_of(made, name))))
    if SphericalClusterIndex in kinds:
        makers.append(lambda: index(rng))
    return makers[int(rng.integers(len(makers)))]() if makers else default


def of_part(rng: np.random.Generator, name: str, words: list[str]) -> Any:
    """A part by its name or, more often, an object with parameters of its own."""
    names = words or list(PARTS[name])
    chosen = str(rng.choice(names))
    if chosen not in PARTS[name] or rng.random() < 0.35:
        return chosen
    return part(rng, PARTS[name][chosen])


def alternatives(hint: Any) -> list[Any]:
    """The types that a union is of."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [kind for one in typing.get_args(hint) for kind in alternatives(one)]
    return [hint]


def choices_of(made: type, name: str) -> list[str]:
    """The strings that a parameter may be, which its type does not tell: those that its refusal names."""
    wrong = made(**{name: "?"})
    try:
        if isinstance(wrong, SkipGram):
            wrong.check_parameters()
        elif hasattr(wrong, "check"):
            wrong.check()
        else:
            wrong.fit(np.eye(2))
    except ValueError as error:
        return re.findall(r"'([^'?]+)'", str(error).partition("must be one of")[2])
    raise AssertionError(f"{made.__name__} takes {name}='?'")
