"""What a model on a cluster is asked: tasks that answer for a part of the data, and what their sums make."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import clone

from manyclass.checks import canonical_csr
from manyclass.choosing.trials import Planned
from manyclass.classifiers.base import planner_of, state_of, with_state
from manyclass.classifiers.data import indicator_lists
from manyclass.classifiers.targets import find_positions
from manyclass.dask.blocks import Seen, best_of, joined_blocks, look
from manyclass.dask.checking import n_rows, pack
from manyclass.dask.partial_fit import before_of
from manyclass.dask.rows import Part
from manyclass.dask.shards import Shard, Whole
from manyclass.dask.simulation import way_of
from manyclass.dask.stored_blocks import Block
from manyclass.dask.workers import Crew, workers_of
from manyclass.training.plan import BatchesPlan
from manyclass.training.squares import Squares
from manyclass.training.state import Features, History, Points, State, Told
from manyclass.weights.weights import Weights


@dataclass(frozen=True)
class RemoteModel:
    """A fitted local estimator on one or two workers, as futures."""

    client: Any
    futures: tuple[Any, ...]

    def _there(self) -> Any:
        return held_of(self.client, self.futures)

    def held(self) -> Any:
        """The future of the model."""
        return self._there()

    def ask(self, what: str, part: Any, *given: Any) -> Any:
        """Ask of a part of X, when it is computed."""
        return dask.delayed(answer, pure=True)(dask.delayed(self._there()), what, part, *given)

    def sums(self, part: Sequence[Any]) -> Any:
        """Ask for what `evaluate` adds up of a part."""
        return dask.delayed(sums_of, pure=True)(dask.delayed(self._there()), *part)

    def score_sums(self, part: Sequence[Any]) -> Any:
        """Ask for what `score` of several labels adds up of a part."""
        return dask.delayed(score_sums_of, pure=True)(dask.delayed(self._there()), *part)

    def bring(self) -> Any:
        """Bring it here."""
        [model] = Crew(self.client, []).gather([self._there()])
        return copy.deepcopy(model)  # of a worker in this process it is the worker's own


def held_of(client: Any, futures: Sequence[Any]) -> Any:
    """Return one of some futures of the same that a worker has; raises RuntimeError where none is left."""
    crew = Crew(client, [])
    gone = frozenset(workers_of(client)) - crew.live()
    for future in futures:
        if crew.holders(future, gone):
            return future
    raise RuntimeError("the workers that had the model are gone; fit again (`to_local` or a pickle keeps a model)")


@dataclass(frozen=True)
class LocalModel:
    """A fitted local estimator in this process, of a copy."""

    model: Any

    def held(self) -> Any:
        """The model."""
        return self.model

    def ask(self, what: str, part: Any, *given: Any) -> Any:
        """Ask of a part of X, when it is computed."""
        return dask.delayed(answer, pure=True)(dask.delayed(self.model), what, part, *given)

    def sums(self, part: Sequence[Any]) -> Any:
        """Ask for what `evaluate` adds up of a part."""
        return dask.delayed(sums_of, pure=True)(dask.delayed(self.model), *part)

    def score_sums(self, part: Sequence[Any]) -> Any:
        """Ask for what `score` of several labels adds up of a part."""
        return dask.delayed(score_sums_of, pure=True)(dask.delayed(self.model), *part)

    def bring(self) -> Any:
        """Return it."""
        return self.model


@dataclass(frozen=True)
class Found:
    """What the client knows of a training by rows.

    Attributes
    ----------
    curve, validation_curve : list of float
    n_averaged, n_rows, best_iter : int
        Iterates in the average; rows of all workers; the best pass, 0: the last one.
    settled : Planned
    names : tuple of str or None
    sparse_labels : bool or None
        Whether an indicator matrix was sparse; None: there is a label a row.
    """

    curve: list[float]
    n_averaged: int
    settled: Planned
    n_rows: int
    names: tuple[str, ...] | None
    validation_curve: list[float]
    best_iter: int
    sparse_labels: bool | None


def model_of(
    owner: Any,
    goes_on: bool,
    facts: Any,
    found: Found,
    parts: Sequence[Part],
    all_know: tuple[Whole, Any, Any, Any],
    shard: Shard,
) -> Any:
    """The fitted estimator of one machine; `all_know` is what all workers know, classes, counts and scaling, and
    `shard` some of the rows."""
    plan: Any = found.settled.plan
    whole, classes, counts, scaling = all_know
    squares = None
    if isinstance(plan, BatchesPlan):
        sums = [part.squares for part in parts]
        squares = Squares(np.zeros(0, dtype=np.float32), np.concatenate(sums))
    weights: Any = way_of(plan).finished(plan, whole, parts, found.n_averaged)
    if scaling is not None:
        scaling.fold(weights)
    n_features = weights.n_hidden if weights.kind == "phi" else weights.coef.shape[1]
    features = Features(n_features, None if found.names is None else np.array(found.names, dtype=object))
    n = found.n_rows or int(counts.sum())
    n_labels = float(counts.sum()) / n
    state = State(
        classes=classes,
        counts=counts,
        features=features,
        weights=weights,
        history=History.of_fit(n, scaling, n_labels),
        curve=np.array(found.curve),
        squares=squares,
        told=Told(
            **found.settled.told,
            validation_curve=np.array(found.validation_curve),
            best_iter=found.best_iter or len(found.curve),
        ),
    )
    if goes_on:
        before = before_of(facts, classes)
        curve = state.curve if facts is None else np.concatenate([facts.curve, state.curve])
        told = state.told if facts is None else facts.told
        history = before.history.gone_on(n, scaling, n_labels)
        state = replace(state, history=history, curve=curve, told=replace(told, best_iter=len(curve)))
    planner = planner_of(owner)
    if found.sparse_labels is not None:
        labels = shard.lists
        some = Points(shard.x, labels, classes, features, several=True, weights=shard.weights)
        state = replace(state, several=True, sparse_labels=found.sparse_labels)
        state = planner.labelled(state, some, facts if goes_on else None)
    return with_state(clone(owner), state)


def answer(model: Any, what: str, x: Any, *given: Any) -> Any:
    """What the model answers of a part of X."""
    x = x[0] if isinstance(x, tuple) else x
    if not n_rows(x):
        return _no_rows(model, what, *given)
    if what == "predict" and model.multilabel_:
        return model.predict(x, **dict(given))
    if what == "top_labels":
        return model.predict_top_k(x, *given)[0]
    if what == "top_log_probabilities":
        return model.predict_top_k(x, *given)[1]
    return getattr(model, what)(x)


def _no_rows(model: Any, what: str, *given: Any) -> Any:
    if what == "predict" and model.multilabel_:
        none = sp.csr_array((0, len(model.classes_)), dtype=np.int64)
        return none if state_of(model).sparse_labels else none.toarray()
    shapes = {"predict": (0,), "predict_proba": (0, len(model.classes_))}
    dtypes = {"predict_proba": np.float64, "top_log_probabilities": np.float32}
    return np.zeros(shapes.get(what, (0, *given)), dtype=dtypes.get(what, model.classes_.dtype))


def sums_of(model: Any, *columns: Any) -> dict[str, float]:
    """Sums over a part of what `evaluate` gives means of, the weight of its rows, and the rows left out."""
    x, y, weights = pack(*columns)
    if not n_rows(x):
        return {"weight": 0.0, "n_unseen": 0}
    if model.multilabel_:
        return _sums_of_several(model, x, y, weights)
    seen = np.isin(np.asarray(y), model.classes_)
    own = seen.astype(np.float64) if weights is None else np.where(seen, np.asarray(weights, dtype=np.float64), 0.0)
    n_unseen = int(len(seen) - seen.sum())
    if not own.any():
        return {"weight": 0.0, "n_unseen": n_unseen}
    found = model.evaluate(x, np.asarray(y), own[...] if weights is not None else None)
    total = float(own.sum())
    sums = {name: value * total for name, value in found.items() if name != "n_unseen"}
    return {**sums, "weight": total, "n_unseen": n_unseen}


def _sums_of_several(model: Any, x: Any, y: Any, weights: Any) -> dict[str, float]:
    """The same of rows with several labels; those without any do not count, but for the share that is right."""
    n = n_rows(x)
    given = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    own = given * (np.diff(indicator_lists(y, n).indptr) > 0)
    sums: dict[str, float] = {"weight": float(own.sum())}
    if own.any():
        found = model.evaluate(x, y, None if weights is None else given)
        sums |= {name: value * sums["weight"] for name, value in found.items()}
    return sums


def score_sums_of(model: Any, *columns: Any) -> tuple[float, float]:
    """The weight of the rows of a part that are predicted right, all labels of a row together, and of all rows."""
    x, y, weights = pack(*columns)
    if not n_rows(x):
        return 0.0, 0.0
    given = np.ones(n_rows(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    total = float(given.sum())
    return (model.score(x, y, given) * total if total else 0.0), total


def means_of(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over all parts; raises ValueError where no row has a label that the model has seen."""
    weight = sum(part["weight"] for part in parts)
    if not weight:
        raise ValueError("no row has a label that the model has seen")
    names = next(part.keys() for part in parts if part["weight"])
    means = {name: sum(part.get(name, 0.0) for part in parts) / weight for name in names if name not in _COUNTS}
    if not any("n_unseen" in part for part in parts if part["weight"]):  # of several labels
        return means
    return {**means, "n_unseen": int(sum(part["n_unseen"] for part in parts))}


_COUNTS = ("weight", "n_unseen")


# Of a model in blocks of classes


@dataclass(frozen=True)
class Facts:
    """What there is of a model beside its weights.

    Attributes
    ----------
    owner : estimator
    state : State
        With no weights in it.
    """

    owner: Any
    state: State

    @property
    def classes(self) -> Any:
        """Labels of the classes."""
        return self.state.classes


def told_of(
    owner: Any, classes: Any, whole: Whole, scaling: Any, names: Any, settled: Planned, curve: list[float]
) -> Facts:
    """What there is beside the weights, which have taken up the scaling of features."""
    state = State(
        classes=classes,
        counts=whole.counts,
        features=Features(whole.n_features, None if names is None else np.array(names, dtype=object)),
        weights=Weights.zeros(0, 0, by_feature=whole.sparse),
        history=History.of_fit(int(whole.counts.sum()), None, 1.0),
        curve=np.array(curve),
        told=Told(**settled.told, best_iter=len(curve)),
    )
    return Facts(owner, state)


@dataclass(frozen=True)
class BlocksModel:
    """A model whose classes are on several workers, a block on each, and its copy on another: W is never in one place.

    Attributes
    ----------
    client : distributed.Client
    facts : tuple of future of Facts
    blocks : tuple of tuple of future of Block
        Each with its copy.
    """

    client: Any
    facts: tuple[Any, ...]
    blocks: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, client: Any, futures: Sequence[Any], n: int) -> BlocksModel:
        """Sort what `BlocksTraining` gives: one or two futures of facts, n blocks, and as many copies or none."""
        n_facts = len(futures) % n or n if n > 1 else 1
        blocks = futures[n_facts:]
        return cls(client, tuple(futures[:n_facts]), tuple(tuple(blocks[at::n]) for at in range(n)))

    def _there(self) -> tuple[Any, list[Any]]:
        facts = held_of(self.client, self.facts)
        return dask.delayed(facts), [dask.delayed(held_of(self.client, both)) for both in self.blocks]

    def ask(self, what: str, part: Any, *given: Any) -> Any:
        """Ask of a part of X, when it is computed."""
        facts, blocks = self._there()
        if what == "predict_proba":
            scores = [dask.delayed(scores_of, pure=True)(block, part) for block in blocks]
            return dask.delayed(probabilities, pure=True)(scores)
        k = given[0] if given else 1
        seen = [dask.delayed(seen_of, pure=True)(facts, block, k, part) for block in blocks]
        return dask.delayed(answer_of_blocks, pure=True)(facts, what, k, seen)

    def sums(self, part: Sequence[Any]) -> Any:
        """Ask for what `evaluate` adds up of a part."""
        facts, blocks = self._there()
        seen = [dask.delayed(seen_of, pure=True)(facts, block, 5, *part) for block in blocks]
        return dask.delayed(sums_of_blocks, pure=True)(facts, seen, *part[1:])

    def bring(self) -> Any:
        """Bring it here: the one place where W is whole."""
        own = [held_of(self.client, both) for both in (self.facts, *self.blocks)]
        facts, *blocks = Crew(self.client, []).gather(own)
        sparse = facts.state.weights.sparse
        weights = joined_blocks(sorted(blocks, key=lambda block: block.first), sparse=sparse)
        return with_state(clone(facts.owner), replace(facts.state, weights=weights))


def csr_of(x: Any) -> sp.csr_array:
    """A sparse matrix of any form as the core takes it."""
    return canonical_csr(sp.csr_array(x, dtype=np.float32))


def rows_as_matrix(x: Any) -> Any:
    """Rows as float32 numbers, dense or CSR."""
    x = x[0] if isinstance(x, tuple) else x
    return np.asarray(x, dtype=np.float32) if not sp.issparse(x) else csr_of(x)


def seen_of(facts: Facts, block: Block, k: int, x: Any, y: Any = None, weights: Any = None) -> Seen | None:
    """What a block says of a part; None of one without rows."""
    if isinstance(x, tuple):
        x, y = x
    matrix = rows_as_matrix(x)
    if not matrix.shape[0]:
        return None
    return look(block, matrix, k, None if y is None else find_positions(np.asarray(y), facts.classes, "y"))


def answer_of_blocks(facts: Facts, what: str, k: int, seen: Sequence[Seen | None]) -> Any:
    """The best labels of a part, or their log-probabilities."""
    some = [one for one in seen if one is not None]
    shape = (0,) if what == "predict" else (0, k)
    if not some:
        return np.zeros(shape, dtype=np.float32 if what == "top_log_probabilities" else facts.classes.dtype)
    best, log_p, _ = best_of(some, k)
    if what == "top_log_probabilities":
        return log_p.astype(np.float32)
    return facts.classes[best[:, 0] if what == "predict" else best]


def scores_of(block: Block, x: Any) -> Any:
    """Scores of a block's classes."""
    return block.scores(rows_as_matrix(x))


def probabilities(scores: Sequence[Any]) -> Any:
    """Probabilities of all classes."""
    return softmax(np.concatenate(scores, axis=1).astype(np.float64), axis=1)


def sums_of_blocks(facts: Facts, seen: Sequence[Seen | None], *columns: Any) -> dict[str, float]:
    """See `sums_of`."""
    some = [one for one in seen if one is not None]
    if not some:
        return {"weight": 0.0, "n_unseen": 0}
    best, _, losses = best_of(some, 5)
    known = np.isfinite(losses)
    weights = np.asarray(columns[1], dtype=np.float64) if len(columns) > 1 else np.ones(len(losses))
    weights = np.where(known, weights, 0.0)
    labels = find_positions(np.asarray(columns[0]), facts.classes, "y")
    right = best == labels[:, np.newaxis]
    return {
        "log_loss": float(weights @ np.where(known, losses, 0.0)),
        "error": float(weights @ ~right[:, 0]),
        "top5_error": float(weights @ ~right.any(axis=1)),
        "weight": float(weights.sum()),
        "n_unseen": int((~known).sum()),
    }
