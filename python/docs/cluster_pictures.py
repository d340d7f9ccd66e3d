"""Pictures of training on a cluster: what each worker has of W, and what the workers of a fit did when.

The second is drawn from a record, `task_stream.json`, that `bench/record_task_stream.py` makes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.patches import Rectangle

from manyclass.plot.style import COLOURS, FAINT, GREY, Picture, canvas, drawing

RECORD = Path(__file__).with_name("task_stream.json")
WORKERS = 3
# What the tasks of a fit do, by the name of their function; the others are "else".
KINDS = {
    "make_pass": "a pass over the worker's rows",
    "merge": "a merge of its part of W",
    "transfer": "W on its way from another worker",
}
BEFORE = 0.2  # seconds that are shown before the first pass; rows are read and counted before
ELSE = "other tasks: counting classes, copies, reports"


def divisions() -> Picture:
    """Draw W, a row for each feature and a column for each class, as each of three workers has it."""
    with drawing():
        figure, both = canvas(2, width=4.6, height=2.1)
        titles = ("By rows: all of W on each, changes are merged", "By rows and classes: blocks go round")
        for axes, title, whole in zip(both, titles, (True, False), strict=True):
            for worker in range(WORKERS):
                top = 1.6 * worker
                axes.add_patch(Rectangle((0, top), 2.2, 1.1, facecolor=FAINT, edgecolor="none"))
                axes.annotate(f"rows {worker}", (1.1, top + 0.55), ha="center", va="center")
                for block in range(WORKERS):
                    there = whole or block == worker
                    colour = COLOURS[block % len(COLOURS)] if there else "none"
                    patch = Rectangle((3 + 1.5 * block, top), 1.4, 1.1, facecolor=colour, edgecolor=GREY, linewidth=0.6)
                    patch.set_alpha(0.75)
                    axes.add_patch(patch)
                    if there:
                        words = f"W$_{block}$"
                        centre = (3.7 + 1.5 * block, top + 0.55)
                        axes.annotate(words, centre, ha="center", va="center", color="white", weight="bold")
            arrow = {"arrowstyle": "<->" if whole else "->", "color": GREY}
            for worker in range(WORKERS - 1):
                end = 3.7 + 1.5 * (worker if not whole else 1)
                start = 3.7 + 1.5 * (worker + 1 if not whole else 1)
                axes.annotate("", (end, 1.6 * worker + 1.1), (start, 1.6 * worker + 1.6), arrowprops=arrow)
            axes.set(xlim=(-0.2, 7.8), ylim=(4.5, -0.2))
            axes.set_title(title)
            axes.grid(False)
            axes.set_xticks([])
            axes.set_yticks([0.55 + 1.6 * worker for worker in range(WORKERS)], [f"worker {w}" for w in range(WORKERS)])
            for side in axes.spines.values():
                side.set_visible(False)
    return Picture(
        figure,
        "Three workers, each with rows of its own. On the left, by rows, each has all three parts of W, and changes go "
        "both ways between them. On the right, by rows and classes, each has one block of classes, and blocks move on "
        "from worker to worker.",
    )


def task_stream() -> Picture:
    """Draw the recorded fit: a line for each worker, a bar for each task, in seconds."""
    told: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    kinds = [*KINDS, "else"]
    first = min(t[2] for t in told["tasks"] if t[1] == "make_pass") - BEFORE
    tasks = [(t[0], t[1], t[2] - first, t[3] - first) for t in told["tasks"] if t[2] >= first]
    colours = dict(zip(kinds, (COLOURS[0], COLOURS[1], COLOURS[4], "#BBBBBB"), strict=True))
    with drawing():
        figure, [axes] = canvas(1, width=8.0, height=2.6)
        for kind in reversed(kinds):  # those that say most come last, and lie on top
            for worker in range(WORKERS):
                bars = [(t[2], t[3] - t[2]) for t in tasks if (t[0], t[1]) == (worker, kind)]
                axes.broken_barh(bars, (worker - 0.4, 0.8), facecolors=colours[kind], edgecolor="none")
        axes.set(ylim=(WORKERS - 0.5, -0.5), xlabel="seconds", xlim=(0, max(t[3] for t in tasks)))
        axes.set_yticks(range(WORKERS), [f"worker {w}" for w in range(WORKERS)])
        axes.set_title(told["title"])
        handles = [Rectangle((0, 0), 1, 1, facecolor=colours[kind]) for kind in kinds]
        names = [KINDS.get(kind, ELSE) for kind in kinds]
        figure.legend(handles, names, loc="outside lower left", ncols=2, frameon=False)
    shares = ", ".join(f"{KINDS.get(kind, ELSE)} {told['seconds'][kind]:.2f} s" for kind in kinds)
    alt = f"{told['title']}: a line for each worker and a bar for each task. With what came before, in all: {shares}."
    return Picture(figure, alt)
