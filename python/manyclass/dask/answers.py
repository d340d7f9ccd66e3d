"""What a model on a cluster is asked: tasks that answer for a part of the data, and what their sums make."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np

from manyclass.dask.crew import Crew
from manyclass.dask.intake import n_rows, pack
from manyclass.dask.rows import Part, finished
from manyclass.dask.shards import Whole
from manyclass.estimators.assembled import Trained, assembled
from manyclass.estimators.settle import Settled


@dataclass(frozen=True)
class RemoteModel:
    """A fitted local estimator on one or two workers, as futures."""

    client: Any
    futures: tuple[Any, ...]

    def _there(self) -> Any:
        crew = Crew(self.client, [])
        gone = frozenset(self.client.scheduler_info()["workers"]) - crew.live()
        for future in self.futures:
            if crew.holders(future, gone):
                return future
        raise RuntimeError("the workers that had the model are gone; fit again (`to_local` or a pickle keeps a model)")

    def delayed(self) -> Any:
        """As a part of a graph."""
        return dask.delayed(self._there())

    def bring(self) -> Any:
        """Bring it here."""
        [model] = Crew(self.client, []).gather([self._there()])
        return copy.deepcopy(model)  # of a worker in this process it is the worker's own


@dataclass(frozen=True)
class LocalModel:
    """A fitted local estimator in this process, of a copy."""

    model: Any

    def delayed(self) -> Any:
        """As a part of a graph."""
        return dask.delayed(self.model)

    def bring(self) -> Any:
        """Return it."""
        return self.model


def model_of(
    owner: Any,
    whole: Whole,
    parts: Sequence[Part],
    n_averaged: int,
    classes: Any,
    names: Any,
    settled: Settled,
    scaling: Any,
    curve: list[float],
) -> Any:
    """The fitted estimator of one machine."""
    weights = finished(whole, parts, n_averaged)
    text = None if names is None else np.array(names, dtype=object)
    return assembled(owner, Trained(weights, classes, whole.counts, text, curve, settled, scaling))


def answer(model: Any, what: str, x: Any, *given: Any) -> Any:
    """What the model answers of a part of X."""
    x = x[0] if isinstance(x, tuple) else x
    if not n_rows(x):
        return _no_rows(model, what, *given)
    if what == "top_labels":
        return model.predict_top_k(x, *given)[0]
    if what == "top_log_probabilities":
        return model.predict_top_k(x, *given)[1]
    return getattr(model, what)(x)


def _no_rows(model: Any, what: str, *given: Any) -> Any:
    shapes = {"predict": (0,), "predict_proba": (0, len(model.classes_))}
    dtypes = {"predict_proba": np.float64, "top_log_probabilities": np.float32}
    return np.zeros(shapes.get(what, (0, *given)), dtype=dtypes.get(what, model.classes_.dtype))


def sums_of(model: Any, *columns: Any) -> dict[str, float]:
    """Sums over a part of what `evaluate` gives means of, the weight of its rows, and the rows left out."""
    x, y, weights = pack(*columns)
    if not n_rows(x):
        return {"weight": 0.0, "n_unseen": 0}
    seen = np.isin(np.asarray(y), model.classes_)
    own = seen.astype(np.float64) if weights is None else np.where(seen, np.asarray(weights, dtype=np.float64), 0.0)
    n_unseen = int(len(seen) - seen.sum())
    if not own.any():
        return {"weight": 0.0, "n_unseen": n_unseen}
    found = model.evaluate(x, np.asarray(y), own[...] if weights is not None else None)
    total = float(own.sum())
    sums = {name: value * total for name, value in found.items() if name != "n_unseen"}
    return {**sums, "weight": total, "n_unseen": n_unseen}


def means_of(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over all parts; raises ValueError where no row has a label that the model has seen."""
    weight = sum(part["weight"] for part in parts)
    if not weight:
        raise ValueError("no row has a label that the model has seen")
    names = next(part.keys() for part in parts if part["weight"])
    means = {name: sum(part.get(name, 0.0) for part in parts) / weight for name in names if name not in _COUNTS}
    return {**means, "n_unseen": int(sum(part["n_unseen"] for part in parts))}


_COUNTS = ("weight", "n_unseen")
