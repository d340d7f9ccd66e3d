"""The parts of the core with their facts, from which checks, error texts, parameter objects and tables are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from manyclass import _core
from manyclass.checks import Setting


@dataclass(frozen=True)
class Facts:
    """What a part says of itself, beside its code in the core; `parameters` are the numbers that it owns."""

    kind: str
    name: str
    sentence: str
    source: str
    biased: bool
    flags: frozenset[str]
    parameters: tuple[Setting, ...]


@cache
def parts(kind: str) -> dict[str, Facts]:
    """The parts of a kind ("solver", "selection", "schedule", "noise", ...) by name, in the order of the core."""
    return {
        found["name"]: Facts(
            **{
                **found,
                "flags": frozenset(found["flags"]),
                "parameters": tuple(Setting(**number) for number in found["parameters"]),
            }
        )
        for found in _core.registry()
        if found["kind"] == kind
    }


def names(kind: str, *flags: str, without: str = "") -> list[str]:
    """Names of the parts of a kind that have all `flags`, and not the flag `without`."""
    return [facts.name for facts in parts(kind).values() if set(flags) <= facts.flags and without not in facts.flags]


def own_parameters(kind: str, name: str) -> list[str]:
    """Names of the numbers that a part owns."""
    return [number.name for number in parts(kind)[name].parameters]
