"""Write the tables of README.md, bench/README.md and of some of bench/notes from the figures in bench/results.

A line of a file there is one measurement, as JSON; `run` names the machine, load and settings in results/runs.jsonl.
A table stands between `<!-- table NAME -->` and `<!-- end NAME -->`. Figures are printed with the digits recorded.
Given files that `pytest --benchmark-save` wrote, take their measurements of real data into bench/results first:

    python bench/make_tables.py [.benchmarks/*/0001_NAME.json ...]
"""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "results"
PAGES = (
    BENCH / "README.md",
    BENCH.parent / "README.md",
    BENCH / "notes" / "auto.md",
    BENCH / "notes" / "mutation.md",
    BENCH / "notes" / "quality.md",
    BENCH / "notes" / "roofline.md",
)
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
        return table(["", *top], [[at, *(found.get((at, to), MISSING) for to in top)] for at in left])


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

    def value(row: Row) -> float:
        return sign * float(row[name][0] if name == "p" else f"{row[name]:.6f}")

    found = []
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data and name in row]
        mine = sorted((row for row in here if row["model"].endswith(ours)), key=value)
        best = sorted((row for row in here if not row["model"].endswith(ours)), key=value)
        others = {f"best_{key}": value for key, value in best[0].items()} if best else {}
        found.append({"data": data} | others | (mine[0] if mine else {}))
    return found


DATA_BY_SOLVER = {"files": ("zero_line", "race"), "down": "data", "across": "solver", "cell": "{nats}"}

BESIDE = {
    "data": "{data}",
    "log-loss (accuracy)": "**{log_loss:.3f}** ({accuracy:.1f} %)",
    "CPU s": "{cpu_s:.1f}",
    "best package": "{best_model}",
    "its log-loss (accuracy)": "{best_log_loss:.3f} ({best_accuracy:.1f} %)",
    "its CPU s": "{best_cpu_s:.1f}",
}
ON_THE_FRONT = ("bibtex", "delicious", "20news", "eurlex57k", "yso-en")

COSTS = {"CPU s": "{cpu_s:.1f}", "ms a row": "{predict_ms:.2f}", "peak MB": "{peak_mb:.0f}", "MB": "{mb:.1f}"}

TABLES: dict[str, Columns | Pivot | Tally | OverSeeds | LeftOut] = {
    "headline": OverSeeds("quality", ("data", "model"), BESIDE, {"labels": "first"}, ("()", "log_loss"), ON_THE_FRONT),
    "many_labels": Columns(
        "many_labels",
        {
            "data": "{data}",
            "model": "{model}",
            "P@1/3/5": "{p:/}",
            "PSP@1/3/5": "{psp:/}",
            "CPU s": "{cpu_s}",
            "ms a row": "{predict_ms}",
            "MB": "{mb}",
        },
    ),
    "unbiased": Pivot(**DATA_BY_SOLVER, where={"biased": False}),
    "biased": Pivot(**DATA_BY_SOLVER, where={"biased": True}),
    "decomposition": Pivot(("decomposition",), "method", "data", "{p_at_1}, {cpu_s} s"),
    "step": Pivot(("step",), "selection", "data", "{us} ({us_min})"),
    "selection": Pivot(("selection",), "selection", "data", "{train} / {test} ({passes})"),
    "time_to_loss": Columns(
        "time_to_loss",
        {
            "solver": "{solver}",
            "learning rate": "{learning_rate}",
            "seconds: log-loss after each pass": "{each_pass}",
            "sooner than exact": "{sooner} times",
        },
    ),
    "word_vectors": Columns(
        "word_vectors",
        {
            "": "{model}",
            "words/s": "{words_per_s:,.0f}",
            "words per CPU s": "{words_per_cpu_s:,.0f}",
            "WordSim-353": "{wordsim353:.3f}",
            "SimLex-999": "{simlex999:.3f}",
            "MEN": "{men:.3f}",
        },
    ),
    "index": Columns(
        "index",
        {
            "data": "{data}",
            "recall@10": "{recall}",
            "batch, 2 threads": "{batch} / {batch_faiss}: {batch_ratio}",
            "batch, 1 thread": "{one_thread} / {one_thread_faiss}: {one_thread_ratio}",
            "single query": "{single} / {single_faiss}: {single_ratio}",
        },
    ),
    "quality_beside": OverSeeds("quality", ("data", "model"), BESIDE, {"labels": "first"}, ("()", "log_loss")),
    "quality_all_beside": OverSeeds(
        "quality",
        ("data", "model"),
        {
            "data": "{data}",
            "best of ours": "{model}",
            "P@1/3/5": "{p:/}",
            "CPU s": "{cpu_s:.1f}",
            "best package": "{best_model}",
            "its P@1/3/5": "{best_p:/}",
            "its CPU s": "{best_cpu_s:.1f}",
        },
        {"labels": "all"},
        ("()", "-p"),
    ),
    "quality_first": OverSeeds(
        "quality",
        ("data", "model"),
        {
            "data": "{data}",
            "model": "{model}",
            "seeds": "{seeds}",
            "log-loss": "{log_loss:.3f}",
            "accuracy": "{accuracy:.1f}",
            "hit@10": "{hit_10:.1f}",
            "ECE": "{ece:.1f}",
            **COSTS,
        },
        {"labels": "first"},
    ),
    "quality_all": OverSeeds(
        "quality",
        ("data", "model"),
        {"data": "{data}", "model": "{model}", "seeds": "{seeds}", "P@1/3/5": "{p:/}", "PSP@1/3/5": "{psp:/}", **COSTS},
        {"labels": "all"},
    ),
    "leave_one_out": LeftOut("leave_one_out"),
    "roofline": Columns(
        "roofline",
        {
            "kernel": "{kernel}",
            "work": "{work}",
            "ms": "{ms}",
            "bound": "{bound}",
            "its ms": "{bound_ms}",
            "per cent": "{per_cent}",
            "goal": "{goal}",
        },
    ),
    "mutation": Tally("mutation", ("kind", "part"), "fault", "outcome"),
    "hardening": Tally("hardening", ("kind", "part"), "fault", "outcome"),
    "predict": Pivot(("predict",), "data", "recall", "{times} times ({reached}; {log_z_rms})"),
}


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


def with_tables(page: str) -> str:
    """The text of a page with all its tables written anew."""

    def written(match: re.Match[str]) -> str:
        name = match[1]
        return "\n".join([f"<!-- table {name} -->", *TABLES[name].lines(), f"<!-- end {name} -->"])

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end \1 -->", written, page, flags=re.DOTALL)


def main() -> None:
    if sys.argv[1:]:
        from saved import take_all

        take_all(map(Path, sys.argv[1:]))
    for path in PAGES:
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
