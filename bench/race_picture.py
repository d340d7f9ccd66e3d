"""Draw into .benchmarks/races.svg what results/races.jsonl has: the log-loss that a fit has reached by each second.

Seconds are of the processor; there is a panel for training and one for test rows of each data set.

python bench/race_picture.py
"""

import json
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import NullLocator

from manyclass.plot.style import Panel, Series, line_chart

BENCH = Path(__file__).resolve().parent
# As many as can be told apart in a panel; the others are in the table.
DRAWN = (
    "SoftmaxClassifier()",
    "SoftmaxClassifier, implicit",
    "scikit-learn lbfgs",
    "scikit-learn SGD",
    "PyTorch linear, SGD",
    "PyTorch embeddings, sampled",
)
PARTS = ("training", "test")


def reached(curve, part):
    """Seconds and the least loss so far, of a curve in order of its seconds; a fit made anew has its own seconds."""
    curve = sorted(curve, key=lambda point: point[1])
    losses = np.minimum.accumulate([point[3 + part] for point in curve])
    return [max(point[1], 0.001) for point in curve], losses.tolist()


def draw():
    rows = [json.loads(line) for line in (BENCH / "results/races.jsonl").read_text("utf-8").splitlines()]
    panels = []
    for data in dict.fromkeys(row["data"] for row in rows):
        here = {row["model"]: row for row in rows if row["data"] == data}
        for part, called in enumerate(PARTS):
            series = [Series(name, *reached(here[name]["curve"], part), "-o") for name in DRAWN if name in here]
            panels.append(Panel(f"{data}, {called}", series))
    picture = line_chart(panels, "processor seconds", "least log-loss so far, nats", log_x=True)
    for axes in picture.figure.axes:
        axes.xaxis.set_minor_locator(NullLocator())
    with rc_context({"svg.fonttype": "none"}):  # text as text: outlines of letters are most of a file of many panels
        folder = BENCH.parent / ".benchmarks"
        folder.mkdir(exist_ok=True)
        picture.save(folder / "races.svg")


if __name__ == "__main__":
    draw()
