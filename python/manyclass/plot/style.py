"""The one style of all pictures: colours that stay apart for every reader, names beside lines, alternative texts.

A line is told by its colour, its dashes and its name, which stands beside the axes in the order of the lines' ends.
There are at most six in a panel, because more cannot be followed; a longer list goes on in a further panel with the
same axes.
"""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Each has a contrast of 4.5 on white, so that text may have it too, and no two are alike for readers without red,
# green or blue cones (tests/metrics/test_plot.py measures both).
COLOURS = ("#0072B2", "#C04F00", "#222222", "#4B0FC8", "#B54B82", "#701C00")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (10, 3)), (0, (1, 1)))
MOST_LINES = 6
GREY, FAINT, FONT_POINTS = "#5A5A5A", "#E4E4E4", 9.0  # as in the style
PANEL_HEIGHT = 3.6  # inches
# A picture of w inches is 100 w pixels wide on a page; twice that for screens with two dots to a pixel.
PIXELS_PER_INCH, PNG_DPI = 100, 200
FORMS = ("png", "svg")
STYLE = Path(__file__).with_name("pictures.mplstyle")
NEEDS_MATPLOTLIB = "pictures need matplotlib, which is not installed: pip install 'manyclass[plot]'"


@dataclass(frozen=True)
class Series:
    """A line of a plot; points without a value (None) are left out. `style` is matplotlib's: "-", "-o" or "."."""

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
class Picture:
    """A figure with the text that stands for it where it cannot be seen. Notebooks show it.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        It can be changed before it is saved.
    alt : str
        What it shows, in words and figures.
    """

    figure: Figure
    alt: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture, with its alternative text, as SVG or as PNG of two dots to a pixel, as the name ends.

        Parameters
        ----------
        path : str or path-like
            Ends in .svg or .png; replaced if it exists.

        Raises
        ------
        ValueError
            If it ends otherwise.
        OSError
            If it cannot be written.
        """
        Path(path).write_bytes(self.image(form_of(path)))

    def image(self, form: str) -> bytes:
        """Return the picture as the bytes of a file.

        Parameters
        ----------
        form : {"png", "svg"}

        Returns
        -------
        bytes
        """
        out = io.BytesIO()
        metadata = {"Title": self.alt, "Date": None} if form == "svg" else {"Description": self.alt}
        with drawing():
            self.figure.savefig(out, format=form, dpi=PNG_DPI, metadata=metadata)
        return out.getvalue()

    def tag(self, svg: bytes | None = None) -> str:
        """Return the picture as an element of HTML that needs no other file.

        Parameters
        ----------
        svg : bytes, optional
            What `image("svg")` returned; drawing takes seconds where there are many axes.

        Returns
        -------
        str
        """
        data = base64.b64encode(self.image("svg") if svg is None else svg).decode()
        width = round(PIXELS_PER_INCH * float(self.figure.get_size_inches()[0]))
        return f'<img alt="{html.escape(self.alt)}" width="{width}" src="data:image/svg+xml;base64,{data}">'

    def _repr_html_(self) -> str:
        return self.tag()


def form_of(path: str | os.PathLike[str]) -> str:
    """Return "png" or "svg", by the end of a file's name; raises ValueError for another."""
    form = Path(path).suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise ValueError(f"{os.fspath(path)!r} is no name of a picture; it must end in '.svg' or '.png'")
    return form


@contextmanager
def drawing() -> Iterator[None]:
    """The style, for as long as it takes; raises ImportError where matplotlib is missing."""
    try:
        from matplotlib.style import context
    except ImportError as missing:
        raise ImportError(NEEDS_MATPLOTLIB) from missing
    with context(STYLE):
        yield


def canvas(n_panels: int, *, width: float, height: float, most_columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its axes: panels of the given inches, side by side and below each other."""
    # The object interface needs no display and leaves the state of pyplot alone.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(most_columns, max(1, n_panels))
    rows = -(-max(1, n_panels) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    figure = Figure(figsize=(width * columns, height * rows), layout=layout)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for empty in axes[n_panels:]:
        empty.set_axis_off()
    return figure, axes[:n_panels]


def line_chart(
    panels: Sequence[Panel], x_label: str, y_label: str, *, log_x: bool = False, log_y: bool = False
) -> Picture:
    """Draw lines with their names at their ends, at most six in a panel.

    Parameters
    ----------
    panels : sequence of Panel
        A series has the same looks in all of them. One of more than six series becomes several, in the order given.
    x_label : str
        With its unit.
    y_label : str
        With its unit.
    log_x : bool
        Draws x on a logarithmic axis, without points at or below zero.
    log_y : bool
        Draws y so.

    Returns
    -------
    Picture
        Its alternative text has the end of each line.
    """
    split = [part for panel in panels for part in _parts(panel, log_x, log_y)]
    numbers = {name: n for n, name in enumerate(dict.fromkeys(s.label for panel in split for s in panel.series))}
    first: dict[str, Axes] = {}  # axes of the first of the panels that a long list was split into
    with drawing():
        figure, axes_of = canvas(len(split), width=5.0 if len(split) > 1 else 6.4, height=PANEL_HEIGHT)
        for axes, panel in zip(axes_of, split, strict=True):
            whole = first.setdefault(panel.title.partition(" (")[0], axes)
            if whole is not axes:
                axes.sharex(whole)
                axes.sharey(whole)
            _draw_panel(axes, panel, numbers, log_x, log_y)
            axes.set(xlabel=x_label, ylabel=y_label, title=panel.title)
    texts = []
    for panel in split:
        ends = [f"{s.label} {figures(float(s.y[-1] or 0))} at {figures(float(s.x[-1] or 0))}" for s in panel.series]
        texts.append(f"{panel.title or 'Ends'}: {', '.join(ends) or 'nothing to draw'}.")
    return Picture(figure, f"Lines of {y_label} against {x_label}, by the last point of each. {' '.join(texts)}")


def figures(value: float) -> str:
    """Three digits, as texts have them."""
    return f"{value:.3g}"


def _parts(panel: Panel, log_x: bool, log_y: bool) -> list[Panel]:
    """The lines that have points to draw, with those alone, in panels of at most six lines."""
    lines = []
    for line in panel.series:
        x, y = (np.array(values, dtype=np.float64) for values in (line.x, line.y))  # None becomes NaN
        drawable = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log_x)) & ((y > 0) | (not log_y))
        if drawable.any():
            lines.append(replace(line, x=x[drawable].tolist(), y=y[drawable].tolist()))
    parts = [lines[first : first + MOST_LINES] for first in range(0, len(lines), MOST_LINES)]
    if len(parts) < 2:
        return [Panel(panel.title, lines)]
    return [Panel(f"{panel.title} ({n} of {len(parts)})", part) for n, part in enumerate(parts, start=1)]


def _draw_panel(axes: Axes, panel: Panel, numbers: Mapping[str, int], log_x: bool, log_y: bool) -> None:
    """Draw lines in the colours of their numbers among all names, in others where two of a panel would be alike."""
    free, ends = [*range(MOST_LINES)], list[tuple[float, int, Any]]()
    for series in panel.series:
        number = numbers[series.label] % MOST_LINES
        look = min(free, key=lambda place: (place - number) % MOST_LINES)
        free.remove(look)
        dashes = "none" if series.style == "." else DASHES[look]
        marker = "." if series.style == "." else "o" if "o" in series.style or len(series.x) == 1 else ""
        x, y = np.array(series.x, dtype=float), np.array(series.y, dtype=float)
        lines = axes.plot(x, y, linestyle=dashes, marker=marker, color=COLOURS[look], label=series.label)
        ends.append((-y[-1], len(ends), lines[0]))
    if not panel.series:
        return
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")  # over less than a decade its labels run into each other
    if log_y:
        axes.set_yscale("log")
    axes.legend(handles=[line for _, _, line in sorted(ends)], loc="center left", bbox_to_anchor=(1.0, 0.5))
