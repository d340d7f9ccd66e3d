"""The facts of the core's parts: solvers, selections, schedules, noises, losses and what belongs to them."""

from __future__ import annotations

from functools import cache
from typing import TypedDict

from manyclass import _core


class Parameter(TypedDict):
    """A number that belongs to one part; it is finite, at least `low` (more than it if `open_low`), at most `high`."""

    name: str
    default: float
    low: float
    high: float
    open_low: bool
    sentence: str


class Facts(TypedDict):
    """What a part says of itself."""

    kind: str
    name: str
    sentence: str
    source: str
    biased: bool
    flags: list[str]
    parameters: list[Parameter]


@cache
def _parts() -> dict[tuple[str, str], Facts]:
    return {(facts["kind"], facts["name"]): facts for facts in _core.registry()}


def names(kind: str, *flags: str, without: str = "") -> list[str]:
    """Names of the parts of a kind that have all `flags`, and not the flag `without`."""
    parts = [facts for (of, _), facts in _parts().items() if of == kind]
    return [f["name"] for f in parts if set(flags) <= set(f["flags"]) and without not in f["flags"]]


def facts_of(kind: str, name: str) -> Facts:
    """Facts of one part.

    Raises
    ------
    ValueError
        If there is no part of this kind and name.
    """
    facts = _parts().get((kind, name))
    if facts is None:
        raise ValueError(f"{kind} is {name!r}; it must be one of {', '.join(map(repr, names(kind)))}")
    return facts


def own_parameters(kind: str, name: str) -> list[str]:
    """Names of the parameters that belong to one part."""
    return [parameter["name"] for parameter in facts_of(kind, name)["parameters"]]
