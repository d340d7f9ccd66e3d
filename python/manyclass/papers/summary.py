"""What the experiments share: passes to look at, and records put together for a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from manyclass.papers.engine import Records
from manyclass.papers.report import Cell
from manyclass.plot.style import Panel, Series


def by_key(records: Records, *keys: str) -> dict[Any, Records]:
    """Records by the value of one key, or by the tuple of several, in the order of their first ones."""
    groups: dict[Any, Records] = {}
    for record in records:
        key = record[keys[0]] if len(keys) == 1 else tuple(record[key] for key in keys)
        groups.setdefault(key, []).append(record)
    return groups


def of_first_seed(records: Records) -> Records:
    """Those that a figure shows."""
    return [record for record in records if record["seed"] == 0]


def of_seeds(records: Records) -> dict[tuple[str, str], Records]:
    """Records of the same data and method."""
    return by_key(records, "data", "method")


def panels(records: Records, x: str, y: str, style: str = "-") -> list[Panel]:
    """A panel for each data set, and in it a line for each method: y of the results against x, of the first seed."""
    return [
        Panel(name, [Series(r["method"], r["results"][x], r["results"][y], style) for r in some])
        for name, some in by_key(of_first_seed(records), "data").items()
    ]


def beside(ours: Iterable[Cell], theirs: Iterable[Cell]) -> list[Cell]:
    """Cells of ours, each with the published value behind it."""
    return [cell for pair in zip(ours, theirs, strict=True) for cell in pair]


def of_results(records: Records, key: str) -> list[Any]:
    """Return one of the results of each record."""
    return [record["results"][key] for record in records]


def means(records: Records, *keys: str) -> list[float | None]:
    """Return the mean over records of each of some results."""
    return [mean(of_results(records, key)) for key in keys]


def evenly_spaced(last: int, count: int) -> set[int]:
    """At most `count` numbers from 1 to `last`, the last one among them."""
    return {max(1, round(last * (i + 1) / count)) for i in range(count)}


def mean(values: Iterable[float | None]) -> float | None:
    """The mean, or None if a value is: a method that failed with one seed has none."""
    numbers = list(values)
    some = [value for value in numbers if value is not None]
    return float(np.mean(some)) if some and len(some) == len(numbers) else None


def spread(values: Iterable[float | None]) -> str:
    """Smallest and largest of several values; empty for one."""
    some = [value for value in values if value is not None]
    return f"{min(some):.4g} to {max(some):.4g}" if len(some) > 1 else ""


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base, or None without either."""
    return None if value is None or not base else value / base
