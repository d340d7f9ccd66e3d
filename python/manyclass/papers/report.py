"""Reports: tables in Markdown and CSV, plots in PNG and SVG, and one page that needs nothing beside itself."""

from __future__ import annotations

import base64
import csv
import html
import importlib.util
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cell = str | int | float | None
Ran = tuple[str, str]  # a method, and what it ran

NO_PLOTS = "no plots were drawn: they need matplotlib (pip install 'manyclass[plot]')"
RAN_HEADING = "What ran, from the parameters of the runs:"
MOST_IN_THE_AXES = 9  # lines whose legend does not hide them yet
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
pre { background: #f5f5f5; padding: .7em; overflow-x: auto; }
"""


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
        What stands behind the figures: a method that a cell of a row names, or "method, column" where several ran, and
        what it ran. Empty where nothing was trained.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ran: Sequence[Ran] = ()

    def ran_in(self, row: Sequence[Cell]) -> list[Ran]:
        """Return what the methods ran that a row names."""
        cells = {cell for cell in row if isinstance(cell, str)}
        names = cells | {f"{cell}, {column}" for cell in cells for column in self.columns}
        return [(method, words) for method, words in self.ran if method in names]

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
            ran = [" | ".join(f"{method}: {words}" for method, words in self.ran_in(row))] if self.ran else []
            writer.writerow(["" if cell is None else cell for cell in (*row, *ran)])
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
class Series:
    """A line of a plot; points without a value (None) are left out. `style` is matplotlib's."""

    label: str
    x: Sequence[float | None]
    y: Sequence[float | None]
    style: str = "-"


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    series: Sequence[Series]


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
class Report:
    """What an experiment tells: tables, plots, and sentences that a reader of the tables needs."""

    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    notes: tuple[str, ...]


def write_report(
    report: Report, folder: Path, *, title: str, command: str, machine: Mapping[str, Any], records: Sequence[Any]
) -> tuple[list[Path], list[str]]:
    """Write all files of a report; return them, and what the user should be told.

    Parameters
    ----------
    report : Report
    folder : Path
        It exists.
    title, command : str
        Of the page: its heading, and the command that makes it again.
    machine : mapping
        The machine of the runs.
    records : sequence of dict
        Records of the runs, listed on the page.
    """
    written, told = [], []
    for table in report.tables:
        for ending, text in (("md", table.markdown()), ("csv", table.csv())):
            written.append(folder / f"{table.name}.{ending}")
            written[-1].write_text(text, encoding="utf-8")
    pictures: dict[str, bytes] = {}
    if report.plots and importlib.util.find_spec("matplotlib") is None:
        told.append(NO_PLOTS)
    else:
        for plot in report.plots:
            for ending, image in draw(plot).items():
                written.append(folder / f"{plot.name}.{ending}")
                written[-1].write_bytes(image)
                if ending == "png":
                    pictures[plot.name] = image
    written.append(folder / "report.html")
    notes = [*report.notes, *told]
    written[-1].write_text(_page(report, notes, pictures, title, command, machine, records), encoding="utf-8")
    return written, told


def draw(plot: Plot) -> dict[str, bytes]:
    """Return the plot as "png" and "svg"; needs matplotlib."""
    # The object interface needs no display and leaves the state of pyplot alone.
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    numbers: dict[str, int] = {}  # a series looks the same in all panels
    for panel in plot.panels:
        for series in panel.series:
            numbers.setdefault(series.label, len(numbers))
    n_columns = min(3, max(1, len(plot.panels)))
    n_rows = -(-len(plot.panels) // n_columns)
    figure = Figure(figsize=(1 + 4.5 * n_columns, 3.8 * max(1, n_rows)), layout="constrained")
    grid = figure.subplots(max(1, n_rows), n_columns, squeeze=False).ravel()
    for axes, panel in zip(grid, plot.panels, strict=False):
        drawn = 0
        for series in panel.series:
            number = numbers[series.label]
            points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if x is not None and y is not None]
            points = [(x, y) for x, y in points if (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)]
            if points:
                # Ten colours, then the same ones dashed.
                style = "--" if series.style == "-" and number >= 10 else series.style
                axes.plot(*zip(*points, strict=True), style, color=f"C{number % 10}", label=series.label, markersize=3)
                drawn += 1
        axes.set(xlabel=plot.x_label, ylabel=plot.y_label, title=panel.title)
        if plot.log_x and drawn:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())  # over less than a decade its labels run into each other
        if plot.log_y and drawn:
            axes.set_yscale("log")
        if drawn:
            beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if drawn > MOST_IN_THE_AXES else {}
            axes.legend(fontsize="x-small", **beside)
    for axes in grid[len(plot.panels) :]:
        axes.set_axis_off()
    images = {}
    with rc_context({"svg.hashsalt": plot.name}):  # else every file has new random names in it
        for ending in ("png", "svg"):
            out = io.BytesIO()
            figure.savefig(out, format=ending, dpi=120, metadata={"Date": None} if ending == "svg" else None)
            images[ending] = out.getvalue()
    return images


def _page(
    report: Report,
    notes: Sequence[str],
    pictures: Mapping[str, bytes],
    title: str,
    command: str,
    machine: Mapping[str, Any],
    records: Sequence[Any],
) -> str:
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(text)}</p>" for text in notes)]
    parts += [table.html() for table in report.tables]
    for plot in report.plots:
        if plot.name in pictures:
            data = base64.b64encode(pictures[plot.name]).decode()
            caption = html.escape(plot.caption)
            parts.append(f'<h2>{caption}</h2>\n<img alt="{caption}" src="data:image/png;base64,{data}">')
    parts.append(Table("machine", "Machine", ("what", "value"), [[k, str(v)] for k, v in machine.items()]).html())
    parts.append(f"<h2>To run it again</h2>\n<pre>{html.escape(command)}</pre>")
    lines = "\n".join(json.dumps({k: v for k, v in record.items() if k != "machine"}) for record in records)
    parts.append(
        f"<h2>Configuration and results of each run</h2>\n<details><summary>{len(records)} runs, a line of JSON each"
        f"</summary>\n<pre>{html.escape(lines)}</pre></details>"
    )
    head = f'<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n<style>{STYLE}</style>'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
