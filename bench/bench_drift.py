"""Prequential log-loss of streams that drift: partial_fit with and without half_life, scikit-learn's and river's.

Each part of 500 rows is scored and then learnt, once. Nats are means over all parts after the first ten, so that all
models have begun; rows whose label no part before has had are left out, for all models alike. Settings are tuned on the
same stream, for all models alike: the losses of each grid are told. Seconds are of the best of the grid.

- `generated`: 100 classes of 20 normal features; weights rotate, frequencies wander, a class comes in every second part
  from the 10th on. `still` is the same without rotation and wandering.
- `yelp-next`, the next item of a list of ten: its rows are in the order of persons and not of time, so that nothing is
  known to drift; but items come in as they do in a shop. Of some items, drawn, so that W is small. Ours only.
- scikit-learn's SGDClassifier and river's SoftmaxRegression: see stream_peers.py.

    python -m pytest bench/bench_drift.py
    python bench/bench_drift.py SAVED.json drift.svg  # draws it from what --benchmark-save saved
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from stream_peers import one_vs_rest, river_softmax

from manyclass import SoftmaxClassifier, plot
from manyclass.metrics import prequential
from manyclass.papers.data import load_problem

N_CLASSES, N_OLD, N_FEATURES, N_ROWS, N_PARTS, N_FIRST, BEGUN = 100, 80, 20, 500, 60, 6, 10
ANGLE, WANDER = 0.03, 0.1  # a part: the weights' angle, and the spread of the frequencies' logarithms
SEED = 0
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # of SGDClassifier
RIVER_RATES = (0.01, 0.03, 0.1)


def generated(seed: int, *, drifts: bool) -> Iterator[tuple[Any, Any]]:
    """Parts of the stream."""
    rng = np.random.default_rng(seed)
    W, V = rng.normal(size=(2, N_CLASSES, N_FEATURES))
    b = rng.normal(size=N_CLASSES)
    for part in range(N_PARTS):
        n_there = min(N_CLASSES, N_OLD + max(0, part - BEGUN) // 2)
        angle = ANGLE * part * drifts
        X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
        z = X @ (np.cos(angle) * W + np.sin(angle) * V).T + b + rng.gumbel(size=(N_ROWS, N_CLASSES))
        yield X, z[:, :n_there].argmax(axis=1)
        b = b + drifts * (WANDER * rng.normal(size=N_CLASSES) - WANDER**2 / 2 * b)  # of variance 1 throughout


def ours(first: list[Any]) -> Any:
    """A model that is fitted on the first parts."""
    X, y = map(stacked, zip(*first, strict=True))
    return SoftmaxClassifier(solver="implicit", random_state=SEED).fit(X, y)


def one_vs_rest_at(rate: float) -> Any:
    """scikit-learn's model."""
    return one_vs_rest(N_CLASSES, learning_rate="constant", eta0=rate, alpha=1e-6)


def stacked(some: Any) -> Any:
    """Parts of X or y as one."""
    return sp.vstack(some, format="csr") if sp.issparse(some[0]) else np.concatenate(some)


@cache
def parts_of(name: str, small: bool) -> list[tuple[Any, Any]]:
    """All parts of a stream; a fourth of them where it is small."""
    if name == "yelp-next":
        return yelp(100 if small else 3_000)
    parts = list(generated(SEED, drifts=name == "generated"))
    return parts[: N_PARTS // 4] if small else parts


def yelp(n_items: int) -> list[tuple[Any, Any]]:
    """A real list of next items; of some items, drawn, that W stays small."""
    data = load_problem("yelp-next", scale=None, max_rows=None, n_jobs=1)
    items = np.sort(np.random.default_rng(SEED).choice(data.X_train.shape[1], n_items, replace=False))
    rows = np.flatnonzero(np.isin(data.y_train, items))
    X, y = sp.csr_array(data.X_train)[rows][:, items], data.y_train[rows]
    size = min(2000, len(y) // 20)
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


# How many of the first parts are fitted, a grid, the model at a value, and what partial_fit is given.
HALF_LIVES = {"generated": (500, 1000, 2000, 4000, 8000), "yelp-next": (2_000, 10_000, 50_000)}
HALF_LIVES["still"] = HALF_LIVES["generated"]
WAYS: dict[str, Any] = {
    "fitted once": N_FIRST,
    "partial_fit": N_FIRST,
    "with half_life": N_FIRST,
    "without fit": 0,
    "SGDClassifier": 0,
    "river": 0,
}


def runs(what: str, name: str, parts: list[Any], small: bool) -> dict[str, Any]:
    """Functions that go through a stream once, by what is tried."""
    first, rest = parts[:N_FIRST], parts[N_FIRST:]
    if what == "fitted once":
        model = ours(first)
        return {"": lambda: {"log_loss": [model.evaluate(X, y)["log_loss"] for X, y in rest]}}
    if what == "without fit":
        return {"": lambda: prequential(SoftmaxClassifier(solver="implicit", random_state=SEED), parts)}
    if what in ("partial_fit", "with half_life"):
        start, grid = ours(first), HALF_LIVES[name][: 2 if small else None] if what == "with half_life" else (None,)
        return {f"{h}": lambda h=h: prequential(deepcopy(start), rest, half_life=h) for h in grid}
    makes = {"SGDClassifier": (one_vs_rest_at, RATES), "river": (partial(river_softmax, N_CLASSES), RIVER_RATES)}
    make, grid = makes[what]
    return {f"{rate}": lambda rate=rate: prequential(make(rate), parts) for rate in (grid[-1:] if small else grid)}


@pytest.mark.parametrize("what", WAYS)
@pytest.mark.parametrize("name", HALF_LIVES)
def test_streams_that_drift(timed: Any, data_folder: Any, small: bool, name: str, what: str) -> None:
    """Go through a stream with each setting, and once more with the best."""
    if what == "river":
        pytest.importorskip("river", reason="the extra 'bench' has it")
    if name == "yelp-next" and what in ("SGDClassifier", "river", "without fit", "fitted once"):
        pytest.skip("tried on generated streams alone")
    n_first = WAYS[what]
    tried = runs(what, name, parts_of(name, small), small)
    after = slice(max(0, BEGUN - n_first), None)
    nats = {value: float(np.mean(run()["log_loss"][after])) for value, run in tried.items()}
    best = min(nats, key=nats.__getitem__)
    table = timed(tried[best])
    timed.tell(
        nats=nats[best], setting=best, grid=nats, losses=[None] * n_first + [float(x) for x in table["log_loss"]]
    )
    if what != "fitted once":
        unseen, accuracy = int(table["n_unseen"][after].sum()), float(np.mean(table["accuracy"][after]))
        timed.tell(accuracy=accuracy, unseen=unseen, rows_a_second=table["n_rows"].sum() / table["seconds"].sum())


def draw(saved: Path, picture: str) -> None:
    """Draw the losses of a saved run."""
    told = {one["params"]["what"]: one["extra_info"] for one in json.loads(saved.read_text("utf-8"))["benchmarks"]
            if "generated" in one["name"]}  # fmt: skip
    lines = {what: [np.nan if x is None else x for x in info["losses"]] for what, info in told.items()}
    shown = ("partial_fit", "with half_life", "SGDClassifier", "river")
    plot.loss_over_time({what: lines[what] for what in shown if what in lines}, period="part").save(picture)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), sys.argv[2])
