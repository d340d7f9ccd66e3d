"""The parts of the core with their facts, from which checks, error texts, parameter objects and tables are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from manyclass import _core


@dataclass(frozen=True)
class Number:
    """A number that a part owns: its default, and the interval it must lie in."""

    name: str
    default: float
    low: float
    high: float
    open_low: bool
    sentence: str


@dataclass(frozen=True)
class Facts:
    """What a part says of itself; see `_core.registry`."""

    kind: str
    name: str
    sentence: str
    source: str
    biased: bool
    flags: frozenset[str]
    parameters: tuple[Number, ...]


def _facts(found: dict[str, Any]) -> Facts:
    numbers = tuple(Number(**number) for number in found["parameters"])
    return Facts(**{**found, "flags": frozenset(found["flags"]), "parameters": numbers})


@cache
def parts(kind: str) -> dict[str, Facts]:
    """The parts of a kind ("solver", "selection", "schedule", "noise", ...) by name, in the order of the core."""
    return {facts.name: facts for facts in map(_facts, _core.registry()) if facts.kind == kind}


def names(kind: str, *flags: str, without: str = "") -> list[str]:
    """Names of the parts of a kind that have all `flags`, and not the flag `without`."""
    return [facts.name for facts in parts(kind).values() if set(flags) <= facts.flags and without not in facts.flags]


def own_parameters(kind: str, name: str) -> list[str]:
    """Names of the numbers that a part owns."""
    return [number.name for number in parts(kind)[name].parameters]
