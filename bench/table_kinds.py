"""The kinds of tables of make_tables.py, each of which makes lines of Markdown from the figures in bench/results."""

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
MISSING = "-"  # what a cell says that was not measured

Row = dict[str, Any]


class Seeds(list[str]):
    """The figures of several seeds or cut-offs: their mean in a numeric format, else joined by the format itself."""

    def __format__(self, spec: str) -> str:
        if spec.endswith("f"):
            return format(sum(map(float, self)) / len(self), spec)
        return (spec or ", ").join(map(str, self))


@dataclass(frozen=True)
class Columns:
    """A table with a row for each measurement; a column is a header and the format of its cells."""

    file: str
    columns: dict[str, str]

    def lines(self) -> list[str]:
        cells = [[filled(form, row) for form in self.columns.values()] for row in read(self.file)]
        return table(list(self.columns), cells)


@dataclass(frozen=True)
class Pivot:
    """A table with one column for each value of `across` and one row for each value of `down`, in order of mention."""

    files: tuple[str, ...]
    down: str
    across: str
    cell: str
    where: Row = field(default_factory=dict)

    def lines(self) -> list[str]:
        rows = [r for file in self.files for r in read(file) if self.where.items() <= r.items()]
        found = {(r[self.down], r[self.across]): filled(self.cell, r) for r in rows}
        left, top = (list(dict.fromkeys(r[key] for r in rows)) for key in (self.down, self.across))
        return table(["", *map(str, top)], [[str(at), *(found.get((at, to), MISSING) for to in top)] for at in left])


@dataclass(frozen=True)
class Tally:
    """A table of how many measurements have each outcome: a row for each value of `down`, and one for all."""

    file: str
    down: tuple[str, ...]
    across: str
    outcome: str

    def lines(self) -> list[str]:
        rows = read(self.file)
        left = list(dict.fromkeys(self.place(row) for row in rows))
        top = list(dict.fromkeys(row[self.across] for row in rows))
        cells = [[*at, *(self.counted([r for r in rows if self.place(r) == at], to) for to in top)] for at in left]
        everything = ["all", *[""] * (len(self.down) - 1), *(self.counted(rows, to) for to in top)]
        return table([*self.down, *top], [*cells, everything])

    def place(self, row: Row) -> tuple[str, ...]:
        return tuple(row[key] for key in self.down)

    def counted(self, rows: list[Row], to: str) -> str:
        """As in "3 caught, 1 equivalent"."""
        outcomes = [row[self.outcome] for row in rows if row[self.across] == to]
        return ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(outcomes)) or MISSING


@dataclass(frozen=True)
class OverSeeds:
    """A table with a row for each value of `down`, in order of mention, and the means over its measurements.

    With `beside`, a pair of a prefix and a figure, there is a row for each data set: this package's model, and, by
    names that begin with "best_", the other model whose figure is best. A figure that is negated is best where largest.
    `data` are the data sets of which there is a row; all, if none is named.
    """

    file: str
    down: tuple[str, ...]
    columns: dict[str, str]
    where: Row = field(default_factory=dict)
    beside: tuple[str, str] | None = None
    data: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        rows = [row for row in read(self.file) if self.where.items() <= row.items()]
        rows = [row for row in rows if not self.data or row["data"] in self.data]
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[key] for key in self.down), []).append(row)
        order = {key: list(dict.fromkeys(row[key] for row in rows)) for key in self.down}
        at = sorted(
            groups, key=lambda key: [order[name].index(value) for name, value in zip(self.down, key, strict=True)]
        )
        means = [means_of(groups[key]) for key in at]
        if self.beside is not None:
            means = beside_the_best(means, *self.beside)
        return table(list(self.columns), [[filled(form, row) for form in self.columns.values()] for row in means])


@dataclass(frozen=True)
class LeftOut:
    """A table with a row for each constant: what the value that all sets but one choose loses on that one, at worst.

    A choice is the value of least mean regret, in nats above the best value of a set.
    """

    file: str

    def lines(self) -> list[str]:
        sets: dict[str, dict[str, dict[str, Row]]] = {}
        for row in read(self.file):
            sets.setdefault(row["constant"], {}).setdefault(row["data"], {})[row["value"]] = row
        header = [
            "constant",
            "sets",
            "values",
            "today",
            "of all sets",
            "nats lost",
            "points lost",
            "nats above the best",
        ]
        return table(header, [self.cells(constant, of) for constant, of in sets.items()])

    def cells(self, constant: str, sets: dict[str, dict[str, Row]]) -> list[str]:
        first = next(iter(sets.values()))
        sets = {name: of for name, of in sets.items() if of.keys() == first.keys()}  # a run may not have ended
        nats = {name: {value: float(row["log_loss"]) for value, row in of.items()} for name, of in sets.items()}
        today = next(value for value, row in first.items() if row["now"])

        def chosen(names: list[str]) -> str:
            return min(first, key=lambda value: sum(nats[name][value] - min(nats[name].values()) for name in names))

        of_all, worst = chosen(list(sets)), {"nats": ("", 0.0), "points": ("", 0.0), "above": ("", 0.0)}
        for name, of in sets.items():
            taken = chosen([other for other in sets if other != name])
            lost = {
                "nats": nats[name][taken] - nats[name][of_all],
                "points": float(of[of_all]["accuracy"]) - float(of[taken]["accuracy"]),
                "above": nats[name][taken] - min(nats[name].values()),
            }
            worst = {key: max(worst[key], (name, value), key=lambda pair: pair[1]) for key, value in lost.items()}
        told = [f"{value:.3f} ({name})" if name else "0" for name, value in worst.values()]
        return [constant, str(len(sets)), ", ".join(first), today, of_all, *told]


@dataclass(frozen=True)
class AboveBest:
    """A table with a row for each set: what the model of a kind has as it is, and the best of what was varied there.

    Both "now" and varied are among the rows of `LeftOut`.
    """

    file: str
    kind: str

    def lines(self) -> list[str]:
        sets: dict[str, list[Row]] = {}
        for row in read(self.file):
            if row["kind"] == self.kind:
                sets.setdefault(row["data"], []).append(row)
        header = ["data", "rows", "tried", "log-loss", "accuracy", "the best of them", "its accuracy", "nats above it"]
        return table(header, [self.cells(name, rows) for name, rows in sets.items()])

    def cells(self, name: str, rows: list[Row]) -> list[str]:
        now = next(row for row in rows if row["now"])
        best = min(rows, key=lambda row: float(row["log_loss"]))
        tried = 1 + sum(not row["now"] for row in rows)
        what = f"{best['log_loss']} ({best['constant']}: {best['value']})"
        above = float(now["log_loss"]) - float(best["log_loss"])
        figures = [now["log_loss"], now["accuracy"], what, best["accuracy"], f"{above:.3f}"]
        return [name, f"{int(now['rows']):,}", str(tried), *map(str, figures)]


def means_of(rows: list[Row]) -> Row:
    """One measurement with the figures of several: `Seeds`, which format as their mean; means of lists by place."""
    found: Row = {"seeds": len(rows)}
    for key, value in rows[0].items():
        values = [row[key] for row in rows if key in row]
        if isinstance(value, Seeds):
            found[key] = Seeds(f"{sum(map(float, place)) / len(place):.1f}" for place in zip(*values, strict=True))
        elif isinstance(value, str) and not is_number(value):
            found[key] = value
        else:
            found[key] = Seeds(map(str, values))
    return found


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) is not None


def beside_the_best(rows: list[Row], ours: str, figure: str) -> list[Row]:
    """A row for each data set: ours, and of the others the one whose figure is least (largest with a minus)."""
    sign, name = (-1, figure[1:]) if figure.startswith("-") else (1, figure)

    def value(row: Row) -> list[float]:  # of P@1 that are the same the next places decide
        return [sign * float(part) for part in (row[name] if name == "p" else [f"{row[name]:.6f}"])]

    found = []
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data and name in row]
        mine = sorted((row for row in here if row["model"].endswith(ours)), key=value)
        best = sorted((row for row in here if not row["model"].endswith(ours)), key=value)
        others = {f"best_{key}": value for key, value in best[0].items()} if best else {}
        found.append({"data": data} | others | (mine[0] if mine else {}))
    return found


@dataclass(frozen=True)
class Races:
    """A table of when each fit reached the losses that a reference ends with, and of what it ends with itself.

    The reference of a data set is the first of `references` that ran. Of `others`, which show no loss on their way, a
    loss is reached when the fit is over, if it is.
    """

    races: str
    others: str
    references: tuple[str, ...]
    columns: dict[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        return self.races, self.others

    def lines(self) -> list[str]:
        rows = read(self.races)
        found: list[Row] = []
        for data in dict.fromkeys(row["data"] for row in rows):
            here = {row["model"]: row for row in rows if row["data"] == data}
            targets = self.targets(here)
            named = {key: f"{value:.2f}" for key, value in targets.items()}
            found += [{**named, **alone(row), **sooner(row["curve"], targets)} for row in here.values()]
            found += [{**named, **row} for row in self.without_curves(data, set(here), targets)]
        return table(list(self.columns), [[filled(form, row) for form in self.columns.values()] for row in found])

    def targets(self, here: dict[str, Row]) -> dict[str, float]:
        """Training and test log-loss of the reference's chosen state, rounded up; none where none has run."""
        name = next((name for name in self.references if name in here), None)
        if name is None:
            return {}
        state = min(here[name]["curve"], key=lambda at: abs(float(at[1]) - float(here[name]["cpu_s"])))
        return {part: math.ceil(100 * float(loss)) / 100 for part, loss in zip(LOSSES, state[3:], strict=True)}

    def without_curves(self, data: str, known: set[str], targets: dict[str, float]) -> list[Row]:
        rows = [row for row in read(self.others) if (row["data"], row["labels"]) == (data, "first")]
        names = dict.fromkeys(row["model"] for row in rows if row["model"] not in known)
        means = [means_of([row for row in rows if row["model"] == name]) for name in names]
        for one in means:
            if "test" in targets and "log_loss" in one:
                there = float(f"{one['log_loss']:.6f}") <= targets["test"]
                one["test_s"] = f"{one['cpu_s']:.2f}" if there else NEVER
        return means


NEVER = "never"
LOSSES = ("train", "test")


def alone(row: Row) -> Row:
    """A measurement as if it were the mean of some, without its curve."""
    return means_of([{key: value for key, value in row.items() if key != "curve"}])


def sooner(curve: Any, targets: dict[str, float]) -> Row:
    """The processor seconds at which losses were first reached, by "train_s" and "test_s"."""
    found = {}
    for part, target in targets.items():
        at = [float(point[1]) for point in curve if float(point[3 + LOSSES.index(part)]) <= target]
        found[f"{part}_s"] = f"{min(at):.2f}" if at else NEVER
    return found


def read(file: str) -> list[Row]:
    """The measurements of a file. Numbers with a point stay text, so that 0.10 is not printed as 0.1."""
    rows = [json.loads(line, parse_float=str) for line in (RESULTS / f"{file}.jsonl").read_text("utf-8").splitlines()]
    return [{key: Seeds(value) if isinstance(value, list) else value for key, value in row.items()} for row in rows]


def filled(form: str, row: Row) -> str:
    try:
        return form.format(**row)
    except KeyError:
        return MISSING


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return [lines[0], "|" + "---|" * len(header), *lines[1:]]
