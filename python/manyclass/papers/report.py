"""Reports: tables in Markdown and CSV, plots in PNG and SVG, and one page that needs nothing beside itself."""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyclass.plot.style import FORMS, Panel, Picture, line_chart

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
    records : sequence of dict
        Of the runs behind them.
    """

    item: str
    data: str
    method: str
    values: Mapping[str, Cell]
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ExperimentReport:
    """What an experiment tells: tables, plots, sentences that a reader of the tables needs, and figures to record."""

    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    notes: tuple[str, ...]
    figures: tuple[PaperFigure, ...] = ()


def write_report(
    report: ExperimentReport, folder: Path, *, title: str, command: str, machine: Mapping[str, Any], records: list[Any]
) -> tuple[list[Path], list[str]]:
    """Write all files of a report; return them, and what the user should be told.

    Parameters
    ----------
    report : ExperimentReport
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
    warnings = [NO_PLOTS] if report.plots and importlib.util.find_spec("matplotlib") is None else []
    files: dict[str, bytes] = {}
    page = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(text)}</p>" for text in (*report.notes, *warnings))]
    for table in report.tables:
        files |= {f"{table.name}.md": table.markdown().encode(), f"{table.name}.csv": table.csv().encode()}
        page.append(table.html())
    for plot in () if warnings else report.plots:
        picture = draw(plot)
        images = {form: picture.image(form) for form in FORMS}
        files |= {f"{plot.name}.{form}": image for form, image in images.items()}
        page.append(f"<h2>{html.escape(plot.caption)}</h2>\n{picture.tag(images['svg'])}")
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
    return [folder / name for name in files], warnings


def draw(plot: Plot) -> Picture:
    """Return the plot in the style of `manyclass.plot`; needs matplotlib."""
    picture = line_chart(plot.panels, plot.x_label, plot.y_label, log_x=plot.log_x, log_y=plot.log_y)
    return Picture(picture.figure, f"{plot.caption}. {picture.alt}")


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
