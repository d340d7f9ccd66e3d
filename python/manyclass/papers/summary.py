"""What the experiments tell: records put together to tables, plots and figures, what a run trained with, and a page.

Tables are written in Markdown and CSV, plots in PNG and SVG; the page needs nothing beside itself.
"""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manyclass.models import MODELS
from manyclass.papers.published import values as published_values
from manyclass.parts import Part, same
from manyclass.plot.style import FORMS, Panel, Picture, Series, line_chart
from manyclass.registry import parts
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, SOLVERS

Records = list[dict[str, Any]]
Cell = str | int | float | None
Ran = tuple[str, str]  # a method, and what it ran

NO_PLOTS = "no plots were drawn: they need matplotlib (pip install 'manyclass[plot]')"
RAN_HEADING = "What ran, from the parameters of the runs:"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; }
pre { background: #f5f5f5; padding: .7em; overflow-x: auto; }
"""

RAN = "ran"  # key of the results that holds the words
NAMED: dict[str, Any] = {"solver": SOLVERS, "sampler": SAMPLERS, "local_step": LOCAL_STEPS, "model": MODELS}
OBJECTIVE, STEP = ("noise", "loss", "smoothing"), ("schedule", "learning_rate", "decay", "batch_size", "averaging")
SEARCH = ("index", "budget")
ALWAYS = (*OBJECTIVE, *STEP, *SEARCH, "max_iter")
FIRST = ("estimator", "solver", "steps", *OBJECTIVE, *STEP, "sampler", *SEARCH, "n_negatives", "local_step")
NEVER = ("n_jobs", "random_state", "verbose")

Words = dict[str, str]
# A key of the results, or what is computed from the runs of a row.
Quantity = str | Callable[[Records], Any]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    name : str
        Stem of its files.
    caption : str
    columns : sequence of str
    rows : sequence of sequences
    ran : sequence of (str, str)
        What stands behind the figures: a method that a cell of a row names, and what it ran. Empty where nothing was
        trained.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ran: Sequence[Ran] = ()

    def markdown(self) -> str:
        """The table as Markdown, its caption above it, what ran below it."""
        lines = [self.columns, ["---"] * len(self.columns), *([_shown(cell) for cell in row] for row in self.rows)]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        ran = "".join(f"- {method}: {words}\n" for method, words in self.ran)
        return f"{self.caption}\n\n{body}\n" + (f"\n{RAN_HEADING}\n\n{ran}" if ran else "")

    def csv(self) -> str:
        """The table as CSV, numbers with all their digits, an empty field where there is none; last what ran."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*self.columns, *(["ran"] if self.ran else [])])
        for row in self.rows:
            ran = [" | ".join(f"{m}: {words}" for m, words in self.ran if m in row or "all" in row)] if self.ran else []
            writer.writerow([*row, *ran])
        return out.getvalue()

    def html(self) -> str:
        """The table as HTML."""

        def line(cells: Iterable[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "\n".join(line((_shown(cell) for cell in row), "td") for row in self.rows)
        ran = "".join(f"<li>{html.escape(method)}: {html.escape(words)}</li>\n" for method, words in self.ran)
        below = f"\n<p>{RAN_HEADING}</p>\n<ul>\n{ran}</ul>" if ran else ""
        return f"<h2>{html.escape(self.caption)}</h2>\n<table>\n{line(self.columns, 'th')}\n{body}\n</table>{below}"


@dataclass(frozen=True)
class Plot:
    """A figure of panels side by side; `name` is the stem of its files."""

    name: str
    caption: str
    x_label: str
    y_label: str
    panels: Sequence[Panel]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class PaperFigure:
    """Our values of one row of a paper's table, or of what one of its figures shows.

    Attributes
    ----------
    item : str
        The table or figure.
    data : str
    method : str
        "all" if the row is of all of them.
    values : mapping of str to number or str
        By quantity; None is a value that training did not reach, as when it diverged.
    records : list of dict
        Of the runs behind them.
    """

    item: str
    data: str
    method: str
    values: Mapping[str, Cell]
    records: Records


Item = Table | Plot | PaperFigure | str  # of a report; a str is a sentence that a reader of the tables needs


def write_report(
    items: Iterable[Item], folder: Path, *, title: str, command: str, machine: Mapping[str, Any], records: list[Any]
) -> list[Path]:
    """Write all files of a report and return them, the page last.

    Parameters
    ----------
    items : iterable of Table, Plot, PaperFigure or str
    folder : Path
        It exists.
    title : str
        Heading of the page.
    command : str
        The command that makes the page again.
    machine : mapping
        The machine of the runs.
    records : sequence of dict
        Records of the runs, listed on the page.
    """
    files: dict[str, bytes] = {}
    page = [f"<h1>{html.escape(title)}</h1>"]
    for item in items:
        if isinstance(item, str):
            page.append(f"<p>{html.escape(item)}</p>")
        elif isinstance(item, Table):
            files |= {f"{item.name}.md": item.markdown().encode(), f"{item.name}.csv": item.csv().encode()}
            page.append(item.html())
        elif isinstance(item, Plot):
            chart = line_chart(item.panels, item.x_label, item.y_label, log_x=item.log_x, log_y=item.log_y)
            picture = Picture(chart.figure, f"{item.caption}. {chart.alt}")
            images = {form: picture.image(form) for form in FORMS}
            files |= {f"{item.name}.{form}": image for form, image in images.items()}
            page.append(f"<h2>{html.escape(item.caption)}</h2>\n{picture.tag(images['svg'])}")
    page.append(Table("machine", "Machine", ("what", "value"), [[k, str(v)] for k, v in machine.items()]).html())
    page.append(f"<h2>To run it again</h2>\n<pre>{html.escape(command)}</pre>")
    lines = "\n".join(json.dumps({k: v for k, v in record.items() if k != "machine"}) for record in records)
    page.append(
        f"<h2>Configuration and results of each run</h2>\n<details><summary>{len(records)} runs, a line of JSON each"
        f"</summary>\n<pre>{html.escape(lines)}</pre></details>"
    )
    head = f'<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n<style>{STYLE}</style>'
    body = "\n".join(page)
    whole = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    files["report.html"] = whole.encode()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


def _shown(cell: Cell) -> str:
    return "-" if cell is None else _word(cell)


# Records


def by_key(records: Records, *keys: str) -> dict[Any, Records]:
    """Records by the value of one key, or by the tuple of several, in the order of their first ones."""
    groups: dict[Any, Records] = {}
    for record in records:
        key = record[keys[0]] if len(keys) == 1 else tuple(record[key] for key in keys)
        groups.setdefault(key, []).append(record)
    return groups


def first_seed(records: Records) -> Records:
    """Those that a figure shows."""
    return [record for record in records if record["seed"] == 0]


def value_of(records: Records, quantity: Quantity) -> Any:
    """Return what a quantity of some runs is: by its name the mean of what they have, of a curve at its end."""
    if callable(quantity):
        return quantity(records)
    results = [record["results"].get(quantity) for record in records]
    return mean([(value or [None])[-1] if isinstance(value, list) else value for value in results])


def averaged(function: Callable[[dict[str, Any]], Any]) -> Quantity:
    """Return the quantity that is the mean of what a function makes of the results of each run."""
    return lambda records: mean([function(record["results"]) for record in records])


def over(records: Records, quantity: Quantity, method: str) -> Quantity:
    """Return a quantity as a multiple of that of a method on the same data."""
    groups = by_key(records, "data", "method")
    bases = {data: value_of(group, quantity) for (data, name), group in groups.items() if name == method}
    return lambda runs: ratio(value_of(runs, quantity), bases.get(runs[0]["data"]))


def evenly_spaced(last: int, count: int) -> set[int]:
    """At most `count` numbers from 1 to `last`, the last one among them."""
    return {max(1, round(last * (i + 1) / count)) for i in range(count)}


def mean(numbers: Sequence[float | None]) -> float | None:
    """The mean, or None if a value is: a method that failed with one seed has none."""
    return float(np.mean(np.array(numbers, dtype=float))) if numbers and None not in numbers else None


def spread(numbers: Sequence[float | None]) -> str:
    """Smallest and largest of several values; empty for one."""
    ends = [number for number in numbers if number is not None]
    return f"{min(ends):.4g} to {max(ends):.4g}" if len(ends) > 1 else ""


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base, or None without either."""
    return None if value is None or not base else value / base


# Tables and figures of a report


def panels(
    records: Records, x: str, y: str, style: str = "-", *, panel: str = "data", line: str = "method"
) -> list[Panel]:
    """A panel for each data set, and in it a line for each method: y of the results against x, of the first seed."""
    return [
        Panel(title, [Series(r[line], r["results"][x], r["results"][y], style) for r in group])
        for title, group in by_key(first_seed(records), panel).items()
    ]


def compare(
    figure: str,
    caption: str,
    records: Records,
    quantities: Mapping[str, Quantity],
    *,
    name: str | None = None,
    of_all: bool = False,
) -> Iterator[Table | PaperFigure]:
    """Return a paper's table anew, the published values beside ours, and its figures to record.

    Parameters
    ----------
    figure : str
        The table or figure of the paper, which also begins the caption.
    caption : str
        What follows there.
    records : list of dict
        Of the runs; without any there is nothing to return.
    quantities : mapping
        What to tell of the runs of each row, by its words; a row of which no run has a result of that name has none.
    name : str or None
        Stem of the table's files; None: as the figure is called.
    of_all : bool
        Whether a row is of all methods on a data set, and not of one of them.
    """
    groups = by_key(records, "data", "method").items()
    if of_all:
        groups = {(data, "all"): group for data, group in by_key(records, "data").items()}.items()
    rows = [PaperFigure(figure, data, method, _values_of(runs, quantities), runs) for (data, method), runs in groups]
    columns = _beside_published(rows, published_values(records[0]["experiment"], figure) if records else {}, quantities)
    first = next(iter(quantities.values()))
    spreads = [spread([value_of(runs, first) for runs in by_key(row.records, "seed").values()]) for row in rows]
    if any(spreads):
        columns["over seeds"] = [*spreads]
    if rows:
        stem, text = name or figure.lower().replace(" ", "-"), f"{figure}: {caption}"
        yield Table(stem, text, tuple(columns), [*zip(*columns.values(), strict=True)], what_ran(records))
    yield from rows


def _beside_published(
    rows: Sequence[PaperFigure], published: Mapping[Any, Mapping[str, Cell]], quantities: Mapping[str, Quantity]
) -> dict[str, list[Cell]]:
    """Return the columns of a table: data, method, and each quantity of ours beside the published one."""
    theirs = [published.get((row.data, row.method), {}) for row in rows]
    columns: dict[str, list[Cell]] = {"data": [row.data for row in rows], "method": [row.method for row in rows]}
    for words in dict.fromkeys((*quantities, *itertools.chain.from_iterable(theirs))):
        if words in quantities:
            columns[words] = [row.values.get(words) for row in rows]
        if any(words in known for known in theirs):
            columns[f"{words}, paper".removeprefix(", ")] = [known.get(words) for known in theirs]
    return columns


def _values_of(records: Records, quantities: Mapping[str, Quantity]) -> dict[str, Cell]:
    return {
        words: value_of(records, quantity)
        for words, quantity in quantities.items()
        if callable(quantity) or any(quantity in record["results"] for record in records)
    }


def shapes(figure: str, records: Records, quantities: Sequence[str]) -> Iterator[Table | PaperFigure]:
    """Return the sizes of each data set, as the results of its first run have them, beside the published ones."""

    def size(place: int) -> Quantity:
        return lambda records: records[0]["results"]["shape"][place]

    first = [group[0] for group in by_key(records, "data").values()]
    sizes = {words: size(place) for place, words in enumerate(quantities)}
    for part in compare(figure, "data", first, sizes, of_all=True):
        yield replace(part, ran=()) if isinstance(part, Table) else part


# What ran


def trained_with(model: BaseEstimator, **beside: Any) -> Words:
    """Say what a fitted estimator trained with, and what is `beside` its parameters.

    What it chose itself stands in the place of what was left open. Parameters of a step size, a batch and a sampler are
    always among the words, others unless they have their default; "steps" is "explicit" or "implicit".
    """
    parameters, words = model.get_params(deep=False), {"estimator": type(model).__name__}
    if not hasattr(model, "resolved_params_"):  # it does not say what it chose
        words |= {name: "auto" for name in STEP if parameters.get(name) == "auto"}
    words |= _parameters(model, parameters | getattr(model, "resolved_params_", {}))
    if words.get("max_iter") != str(model.n_iter_):  # a callback, the clock or convergence ended it
        words["passes made"] = str(model.n_iter_)
    words |= {name: _word(value) for name, value in beside.items()}
    return {name: words[name] for name in sorted(words, key=lambda name: (*FIRST, name).index(name))}


def _parameters(owner: BaseEstimator, parameters: Mapping[str, Any]) -> Words:
    """Parameters of an estimator or a part of it by which it differs from others; what is open had no effect."""
    defaults, words = type(owner)().get_params(deep=False), Words()
    for name, value in parameters.items():
        part = NAMED[name][value]() if isinstance(value, str) and value in NAMED.get(name, {}) else value
        if isinstance(part, Part):
            words |= {name: part.name, **_steps(name, part), **_parameters(part, part.get_params(deep=False))}
        elif value != "auto" and (name in ALWAYS or (name not in NEVER and not same(value, defaults[name]))):
            words[name] = _word(value)
    return words


def _steps(parameter: str, part: Part) -> Words:
    """How a solver of the core moves the weights, the others being one way each; and whether it sees all classes."""
    if parameter != "solver" or part.name not in parts("solver"):
        return {}
    flags = parts("solver")[part.name].flags
    sampler = {"sampler": "all"} if "all_classes" in flags else {}
    return {"steps": "implicit" if "implicit" in flags else "explicit", **sampler}


def _word(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        words = (f"{k}={_word(v)}" for k, v in value.get_params(deep=False).items() if k not in NEVER)
        return f"{type(value).__name__}({', '.join(words)})"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)


def what_ran(records: Records, key: str = "method") -> tuple[Ran, ...]:
    """Say what each method, or other `key` of the records, ran; what differs between data sets is told by data set.

    The first seed speaks for all: no other differs in more than what a trial chose.
    """
    groups = by_key(records, key).items()
    return tuple((str(name), "; ".join(_joined(first_seed(group) or group))) for name, group in groups)


def _joined(records: Records) -> Iterator[str]:
    words = [(record["data"], record["results"].get(RAN) or {"parameters": "not recorded"}) for record in records]
    for name in dict.fromkeys(name for _, words_of_run in words for name in words_of_run):
        data_of: dict[str | None, list[str]] = {}
        for data, words_of_run in words:
            data_of.setdefault(words_of_run.get(name), []).append(data)
        if len(data_of) == 1:
            yield f"{name} {next(iter(data_of))}"
        else:
            values = (f"{value} ({', '.join(dict.fromkeys(on))})" for value, on in data_of.items() if value is not None)
            yield f"{name} {', '.join(values)}"
