"""The picture of the double sum: what a pass of exact training touches, and what a step of ours does."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Rectangle

from manyclass.plot.style import COLOURS, FAINT, FONT_POINTS, Picture, canvas, drawing

POINTS, CLASSES, DRAWN = 6, 24, 2
WRONG, LABEL, REST = COLOURS[0], COLOURS[1], FAINT
TITLES = ("Exact softmax: a step scores every class", "Double sum: a step draws a few of the cells")


def double_sum() -> Picture:
    """Draw both as a field of cells, a row for each point and a column for each class."""
    rng = np.random.default_rng(3)
    labels = rng.integers(CLASSES, size=POINTS)
    step = 2  # the point of the step that is shown
    with drawing():
        figure, both = canvas(2, width=8.0, height=1.75, most_columns=1)
        for axes, title, drawn in zip(both, TITLES, (CLASSES, DRAWN), strict=True):
            wrong = np.setdiff1d(np.arange(CLASSES), labels[step])
            seen = set(wrong.tolist() if drawn == CLASSES else rng.choice(wrong, size=drawn, replace=False).tolist())
            for i, k in np.ndindex(POINTS, CLASSES):
                colour = REST
                if i == step and k in seen:
                    colour = WRONG
                if k == labels[i]:
                    colour = LABEL if i == step else "#F3D9C6"
                axes.add_patch(Rectangle((k + 0.06, i + 0.06), 0.88, 0.88, facecolor=colour, edgecolor="none"))
            axes.set(xlim=(0, CLASSES), ylim=(POINTS, 0), xlabel="classes 1 … K", ylabel="points 1 … N")
            axes.set_title(title)
            axes.grid(False)
            axes.set_xticks([])
            axes.set_yticks([step + 0.5], ["x$_i$"])
            for side in axes.spines.values():
                side.set_visible(False)
        key = [(LABEL, "the label of the point"), (WRONG, "wrong classes that the step touches"), (REST, "not touched")]
        for row, (colour, words) in enumerate(key):
            both[1].annotate(
                "■",
                (1.02, 0.8 - 0.22 * row),
                xycoords="axes fraction",
                color=colour if colour != REST else "#BBBBBB",
                va="center",
                fontsize=FONT_POINTS + 4,
            )
            both[1].annotate(words, (1.055, 0.8 - 0.22 * row), xycoords="axes fraction", va="center")
    return Picture(
        figure,
        "Two fields of cells, a row for each point and a column for each class. In the upper one, exact softmax, a "
        "step at one point touches the cells of all its classes. In the lower one, the double sum, it touches the cell "
        "of the label and two others.",
    )
