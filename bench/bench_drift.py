"""Prequential log-loss of streams that drift: partial_fit with and without half_life, scikit-learn's and river's.

    python bench/bench_drift.py [--picture bench/notes/drift.svg] [--peers sgd river] [--seed 0]

Each part of 500 rows is scored and then learnt, once. Nats are means over all parts after the first ten, so that all
models have begun; rows whose label no part before has had are left out, for all models alike. Settings are tuned on the
same stream, for all models alike: each grid is printed.

- `generated`: 100 classes of 20 normal features; weights rotate, frequencies wander, a class comes in every second part
  from the 10th on. `still` is the same without rotation and wandering.
- `yelp-next`, the next item of a list of ten: its rows are in the order of persons and not of time, so that nothing is
  known to drift; but items come in as they do in a shop. Of some items, drawn, so that W is small. Ours only.
- scikit-learn: SGDClassifier(loss="log_loss"), 100 binary models whose probabilities are divided by their sum.
- river: SoftmaxRegression, row by row, with a feature that is always 1.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from manyclass import SoftmaxClassifier, plot
from manyclass.metrics import prequential
from manyclass.papers.data import load

N_CLASSES, N_OLD, N_FEATURES, N_ROWS, N_PARTS, N_FIRST, BEGUN = 100, 80, 20, 500, 60, 6, 10
ANGLE, WANDER = 0.03, 0.1  # a part: the weights' angle, and the spread of the frequencies' logarithms
HALF_LIVES = (500, 1000, 2000, 4000, 8000)
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


class Peer:
    """What others have of a model: the classes that have come so far, whose probabilities sum to 1."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.classes_ = inner, np.zeros(0, dtype=int)

    def partial_fit(self, X: Any, y: Any) -> Peer:
        """Learn rows."""
        self.learn(X, y)
        self.classes_ = np.union1d(self.classes_, y)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the classes that have come."""
        p = self.all_probabilities(X)[:, self.classes_] + np.finfo(float).tiny
        return p / p.sum(axis=1, keepdims=True)


class OneVsRest(Peer):
    """scikit-learn's, to which all classes are named ahead."""

    def learn(self, X: Any, y: Any) -> None:
        """Learn rows."""
        self.inner.partial_fit(X, y, classes=np.arange(N_CLASSES))

    def all_probabilities(self, X: Any) -> Any:
        """Return probabilities of all classes."""
        return self.inner.predict_proba(X)


class RowByRow(Peer):
    """river's."""

    def learn(self, X: Any, y: Any) -> None:
        """Learn rows."""
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self.inner.learn_one({0: 1.0} | dict(enumerate(x, 1)), label)

    def all_probabilities(self, X: Any) -> Any:
        """Return probabilities of all classes."""
        found = np.zeros((len(X), N_CLASSES))
        for row, x in enumerate(X.tolist()):
            p = self.inner.predict_proba_one({0: 1.0} | dict(enumerate(x, 1)))
            found[row, list(p)] = list(p.values())
        return found


def river_softmax(rate: float) -> Any:
    """river's model."""
    from river import linear_model, optim

    return RowByRow(linear_model.SoftmaxRegression(optimizer=optim.SGD(rate)))


def ours(first: list[Any], seed: int) -> Any:
    """A model that is fitted on the first parts."""
    X, y = (np.concatenate([part[at] for part in first]) for at in (0, 1))
    return SoftmaxClassifier(solver="implicit", random_state=seed).fit(X, y)


def told(name: str, table: dict[str, Any], n_first: int = 0) -> list[float]:
    """Print a line; return the losses by part, nothing for parts that were fitted."""
    after = slice(max(0, BEGUN - n_first), None)
    loss, accuracy = (np.mean(table[key][after]) for key in ("log_loss", "accuracy"))
    speed = table["n_rows"].sum() / table["seconds"].sum()
    unseen = table["n_unseen"][after].sum()
    print(f"  {name:<44} {loss:7.3f} nats  {accuracy:.3f}  {speed:10,.0f} rows/s  unseen {unseen}", flush=True)
    return [np.nan] * n_first + table["log_loss"].tolist()


def best_of(name: str, grid: Any, make: Any, run: Any, n_first: int = 0) -> list[float]:
    """Run all settings of a grid; return the losses of the best."""
    found = {value: told(f"{name} {value}", run(make(value)), n_first) for value in grid}
    return min(found.values(), key=lambda losses: np.mean(losses[BEGUN:]))


def made_stream(name: str, seed: int, peers: list[str]) -> dict[str, list[float]]:
    """All models on a generated stream."""
    parts = list(generated(seed, drifts=name == "generated"))
    print(f"{name}, seed {seed}: load {os.getloadavg()[0]:.1f}")
    first, rest, losses = parts[:N_FIRST], parts[N_FIRST:], {}
    fixed = ours(first, seed)
    of_fixed = [fixed.evaluate(X, y) for X, y in rest]
    loss = [np.nan] * N_FIRST + [found["log_loss"] for found in of_fixed]
    print(f"  fitted once: {np.mean(loss[BEGUN:]):.3f} nats on what it knows")
    losses["partial_fit"] = told("partial_fit", prequential(ours(first, seed), rest), N_FIRST)
    losses["with half_life"] = best_of(
        "half_life", HALF_LIVES, lambda h: h, lambda h: prequential(ours(first, seed), rest, half_life=h), N_FIRST
    )
    told("without fit", prequential(SoftmaxClassifier(solver="implicit", random_state=seed), parts))
    if "sgd" in peers:
        losses["SGDClassifier"] = best_of(
            "SGDClassifier eta0",
            RATES,
            lambda r: OneVsRest(
                SGDClassifier(loss="log_loss", learning_rate="constant", eta0=r, alpha=1e-6, random_state=seed)
            ),
            lambda model: prequential(model, parts),
        )
    if "river" in peers:
        losses["river"] = best_of("river, SGD", RIVER_RATES, river_softmax, lambda model: prequential(model, parts))
    return losses


def yelp(seed: int, n_items: int, rows_of_part: int = 2000) -> None:
    """A real list of next items, with and without forgetting; of some items, drawn, that W stays small."""
    data = load("yelp-next", scale=None, max_rows=None, n_jobs=1)
    items = np.sort(np.random.default_rng(seed).choice(data.X_train.shape[1], n_items, replace=False))
    rows = np.flatnonzero(np.isin(data.y_train, items))
    X, y = sp.csr_array(data.X_train)[rows][:, items], data.y_train[rows]
    parts = [(X[i : i + rows_of_part], y[i : i + rows_of_part]) for i in range(0, len(y), rows_of_part)]
    print(f"yelp-next: {X.shape}, parts of {rows_of_part}, load {os.getloadavg()[0]:.1f}; nats of labels seen before")
    first = map(stacked, zip(*parts[:N_FIRST], strict=True))
    start = SoftmaxClassifier(solver="implicit", random_state=seed).fit(*first)
    for half_life in (None, 2_000, 10_000, 50_000):
        table = prequential(deepcopy(start), parts[N_FIRST:], half_life=half_life)
        told(f"half_life {half_life}", table, N_FIRST)


def stacked(some: Any) -> Any:
    """Parts of X or y as one."""
    return sp.vstack(some, format="csr") if sp.issparse(some[0]) else np.concatenate(some)


def main() -> None:
    """Print the tables, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", default=["generated", "still", "yelp-next"])
    parser.add_argument("--peers", nargs="*", default=["sgd", "river"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--items", type=int, default=3_000, help="of yelp-next, drawn among 20,033")
    parser.add_argument("--picture")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.streams:
        if name == "yelp-next":
            yelp(options.seed, options.items)
            continue
        losses = made_stream(name, options.seed, options.peers)
        if options.picture and name == "generated":
            plot.loss_over_time(losses, period="part").save(options.picture)


if __name__ == "__main__":
    main()
