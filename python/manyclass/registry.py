"""The parts of the core with their facts, from which checks, error texts, parameter objects and tables are made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from manyclass import _core
from manyclass.checks import Setting


@dataclass(frozen=True)
class PartFacts:
    """What a part says of itself, beside its code in the core; `parameters` are the numbers that it owns."""

    kind: str
    name: str
    sentence: str
    source: str
    biased: bool
    flags: frozenset[str]
    parameters: tuple[Setting, ...]


@cache
def parts(kind: str) -> dict[str, PartFacts]:
    """The parts of a kind ("solver", "selection", "schedule", "noise", ...) by name, in the order of the core."""
    entries = [facts for facts in _core.registry() if facts["kind"] == kind]
    for facts in entries:
        facts["flags"] = frozenset(facts["flags"])
        facts["parameters"] = tuple(Setting(**number) for number in facts["parameters"])
    return {facts["name"]: PartFacts(**facts) for facts in entries}


@cache
def settings(kind: str) -> tuple[Setting, ...]:
    """What may be set of the parts of a kind beside the numbers that each owns; `Setting.needs` tells of which."""
    entries = [setting for setting in _core.settings() if setting.pop("of") == kind]
    for entry in entries:  # choices are words, or the names of the parts of the kind that one word is
        entry["choices"] = tuple(names(entry["choices"]) or entry["choices"].split())
        entry["beside"] = tuple(entry["beside"].split())
    return tuple(Setting(**entry) for entry in entries)


def settings_with(kind: str, flags: Collection[str]) -> tuple[Setting, ...]:
    """What may be set of a part of a kind that has these flags."""
    needs = {setting: setting.needs.split() for setting in settings(kind)}
    return tuple(s for s, words in needs.items() if all((w.lstrip("-") in flags) != w.startswith("-") for w in words))


def names(kind: str, *flags: str, without: str = "") -> list[str]:
    """Names of the parts of a kind that have all `flags`, and not the flag `without`."""
    return [facts.name for facts in parts(kind).values() if set(flags) <= facts.flags and without not in facts.flags]
