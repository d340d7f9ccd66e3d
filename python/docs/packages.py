"""The picture of the front page: log-loss on new rows against the seconds of a fit, by package.

python python/docs/packages.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from matplotlib import rc_context
from matplotlib.ticker import FixedLocator, NullLocator

from manyclass.plot.style import COLOURS, FONT_POINTS, Picture, canvas, drawing

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parents[1] / "bench/results/quality.jsonl"
FILE = HERE / "_static/packages.svg"
DATA = ("20news", "omniglot", "eurlex57k", "yso-en")
MODELS = {
    "manyclass": ("SoftmaxClassifier()",),
    "scikit-learn": ("scikit-learn lbfgs", "scikit-learn SGD"),
    "napkinXC": ("napkinXC PLT", "napkinXC HSM"),
    "fastText": ("fastText",),
}
LOOKS = ((COLOURS[2], "normal", "o"), (COLOURS[0], "bold", "D"))  # of others, and of this package


def packages() -> Picture:
    """Draw the best model of each package, a panel for each data set: lower is better, and further left is sooner."""
    rows = [json.loads(line) for line in RECORDS.read_text("utf-8").splitlines()]
    texts = []
    with drawing():
        figure, panels = canvas(len(DATA), width=4.6, height=2.5)
        for axes, data in zip(panels, DATA, strict=True):
            points = {}
            for package, models in MODELS.items():
                fits = []
                for model in models:
                    here = [r for r in rows if (r["data"], r["labels"], r["model"]) == (data, "first", model)]
                    if here:
                        fits.append([mean(float(r[name]) for r in here) for name in ("log_loss", "cpu_s")])
                if fits:
                    points[package] = min(fits)
            for package, (loss, seconds) in points.items():
                colour, weight, marker = LOOKS[package == "manyclass"]
                axes.plot(seconds, loss, marker, color=colour)
                place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
                axes.annotate(package, (seconds, loss), color=colour, weight=weight, fontsize=FONT_POINTS, **place)
            least, most = (pick(seconds for _, seconds in points.values()) for pick in (min, max))
            axes.set(xscale="log", xlim=(least / 1.3, 1.6 * most * (most / least) ** 0.35), title=data)
            axes.margins(y=0.15)
            axes.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100, 200]))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            told = ", ".join(f"{package} {loss:.3g} after {seconds:.3g}" for package, (loss, seconds) in points.items())
            texts.append(f"{data}: {told}.")
        for axes in panels[-2:]:
            axes.set_xlabel("processor seconds of the fit")
        for axes in panels[::2]:
            axes.set_ylabel("log-loss, nats")
    opening = "Points of log-loss in nats against processor seconds of fits, the best model of each package."
    return Picture(figure, " ".join([opening, *texts]))


if __name__ == "__main__":
    with rc_context({"svg.fonttype": "none"}):  # text as text: outlines of letters would be most of the file
        packages().save(FILE)
