"""Training on by `partial_fit` against training on all rows at once: test log-loss, and its share of the seconds.

    python bench/bench_partial_fit.py [--data eurlex57k omniglot ...] [--n-jobs 2]

The first half of the rows lacks a tenth of the classes; the second half brings them. `fit` has the solver that is named
here and nothing else set. Then days: `fit` on four fifths, and the rest in twenty parts.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np

from manyclass import SoftmaxClassifier
from manyclass.papers.data import load

SETS = ("eurlex57k", "omniglot", "bibtex", "delicious")
PASSES = (1, 2, 4, 8)


def timed(train: Any) -> tuple[Any, float]:
    """What it returns, and seconds."""
    begin = time.perf_counter()
    made = train()
    return made, time.perf_counter() - begin


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=SETS)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--solver", default="implicit")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        data = load(name, scale="max" if name == "eurlex57k" else None, max_rows=None, n_jobs=options.n_jobs)
        parameters = {"solver": options.solver, "random_state": 0, "n_jobs": options.n_jobs}
        print(f"{name}: {data.X_train.shape}, load {os.getloadavg()[0]:.1f}")
        halves(data, parameters)
        days(data, parameters)


def halves(data: Any, parameters: dict[str, Any]) -> None:
    """A second half with new classes."""
    rng = np.random.default_rng(0)
    classes = np.unique(data.y_train)
    is_new = np.isin(data.y_train, classes[rng.random(len(classes)) < 0.1])
    first = (rng.random(len(is_new)) < 0.5) & ~is_new
    second = rng.permutation(np.flatnonzero(~first))
    X, y, test = data.X_train, data.y_train, (data.X_test, data.y_test)
    whole, seconds = timed(lambda: SoftmaxClassifier(**parameters).fit(X, y))
    at_once = whole.evaluate(*test)["log_loss"]
    print(f"  all at once: {at_once:.4f} nats, {seconds:.1f} s; new rows {is_new.mean():.2f}")
    for n_passes in PASSES:
        model = SoftmaxClassifier(**parameters).fit(X[first], y[first])
        _, more = timed(lambda model=model, n=n_passes: model.partial_fit(X[second], y[second], n_passes=n))
        found = model.evaluate(*test)["log_loss"]
        print(f"  second half, {n_passes} passes: {found - at_once:+.4f} nats, {more / seconds:.2f} of the time")


def days(data: Any, parameters: dict[str, Any]) -> None:
    """The last fifth in twenty parts."""
    X, y, test = data.X_train, data.y_train, (data.X_test, data.y_test)
    order = np.random.default_rng(0).permutation(len(y))
    some, rest = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    losses = {}
    model = SoftmaxClassifier(**parameters).fit(X[some], y[some])
    losses["without it"] = model.evaluate(*test)["log_loss"]
    for part in np.array_split(rest, 20):
        model.partial_fit(X[part], y[part])
    losses["in twenty parts"] = model.evaluate(*test)["log_loss"]
    model = SoftmaxClassifier(**parameters).fit(X[some], y[some])
    losses["at once"] = model.partial_fit(X[rest], y[rest]).evaluate(*test)["log_loss"]
    print("  last fifth: " + ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))


if __name__ == "__main__":
    main()
