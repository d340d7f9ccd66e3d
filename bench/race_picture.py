"""Draw results/races.jsonl and results/streams.jsonl into .benchmarks/races.svg and streams.svg.

The one has the log-loss that a fit has reached by each second of the processor, a panel for training and one for test
rows of each data set; the other the test log-loss of a stream after shares of its rows, in 100 calls of `partial_fit`.

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
STREAMS = ("SoftmaxClassifier", "without fits", "SGDClassifier", "fit of all rows")
SHARES = {"at_1": 1, "at_3": 3, "at_10": 10, "at_30": 30, "in_100": 100}  # per cent of the rows
RIVER = {"planted": 1.317}  # `SoftmaxRegression` after all rows, at the best of its step sizes: figures/streams.md


def reached(curve, part):
    """Seconds and the least loss so far, of a curve in order of its seconds; a fit made anew has its own seconds."""
    curve = sorted(curve, key=lambda point: point[1])
    losses = np.minimum.accumulate([point[3 + part] for point in curve])
    return [max(point[1], 0.001) for point in curve], losses.tolist()


def draw_races():
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
    save(picture, "races.svg")


def draw_streams():
    rows = [json.loads(line) for line in (BENCH / "results/streams.jsonl").read_text("utf-8").splitlines()]
    panels = []
    for data in dict.fromkeys(row["data"] for row in rows):
        here = {row["model"]: row for row in rows if row["data"] == data}
        series = []
        for name in (name for name in STREAMS if name in here):
            row = here[name]
            if name == "fit of all rows":
                row = {"at_1": row["in_1"], "in_100": row["in_1"]}
            shares = [share for share in SHARES if share in row]
            losses = [float(row[share]) for share in shares]
            series.append(Series(name, [SHARES[share] for share in shares], losses, "-o"))
        if data in RIVER:
            series.append(Series("river", [100], [RIVER[data]], "-o"))
        panels.append(Panel(data, [one for one in series if len(one.x)]))
    save(line_chart(panels, "rows seen, per cent", "test log-loss, nats", log_x=True, log_y=True), "streams.svg")


def save(picture, name):
    with rc_context({"svg.fonttype": "none"}):  # text as text: outlines of letters are most of a file of many panels
        folder = BENCH.parent / ".benchmarks"
        folder.mkdir(exist_ok=True)
        picture.save(folder / name)


if __name__ == "__main__":
    draw_races()
    draw_streams()
