"""What a model on a cluster is asked: tasks that answer for a part of the data, and what their sums make."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from manyclass.classifiers.answers import caller_of, state_of, with_state
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.data import indicator_lists, rows_of
from manyclass.dask.blocks import Seen, best_of, joined_blocks, look
from manyclass.dask.collections import n_rows, pack
from manyclass.dask.stored_blocks import Block
from manyclass.dask.workers import Workers, a_holder
from manyclass.labels import find_positions, labels_given

TOP = 5  # classes that `evaluate` looks at


def later(function: Any, *given: Any) -> Any:
    """Return a task that calls a function, when it is computed."""
    return dask.delayed(function, pure=True)(*given)


@dataclass(frozen=True)
class WholeModel:
    """A fitted local estimator: futures of it on one or two workers of a client or, without these, in this process."""

    client: Any = None
    futures: tuple[Any, ...] = ()
    local: LabelClassifier | None = None

    def held(self) -> Any:
        """Return the model, or a future of it that a worker has."""
        return self.local if self.futures == () else a_holder(self.client, self.futures)

    def ask(self, what: str, part: Any, empty: Any, given: Mapping[str, Any]) -> Any:
        """Ask of a part of X; `empty` is the answer for no rows."""
        return later(answer, dask.delayed(self.held()), what, part, empty, given)

    def sums(self, part: Sequence[Any], *, score: bool = False) -> Any:
        """Ask for what `evaluate` adds up of a part, or `score`."""
        return later(sums_of, dask.delayed(self.held()), score, *part)

    def bring(self) -> LabelClassifier:
        """Bring it here."""
        if self.local is not None:
            return self.local
        [model] = Workers(self.client, []).gather([self.held()])
        found: LabelClassifier = copy.deepcopy(model)  # of a worker in this process it is the worker's own
        return found


def answer(model: LabelClassifier, what: str, part: Any, empty: Any, given: Mapping[str, Any]) -> Any:
    """Return what the model answers of a part of X."""
    x, _, _ = pack(part)
    if not n_rows(x):
        return empty
    if what in ("top_labels", "top_log_probabilities"):
        return model.predict_top_k(x, **given)[what != "top_labels"]
    return getattr(model, what)(x, **given)


def sums_of(model: LabelClassifier, score: bool, *columns: Any) -> dict[str, float]:
    """Return sums over a part of what `evaluate`, or `score`, gives means of, the weight of the rows that count for
    it, and the number of rows with a label that the model has not seen.

    Of several labels, rows without any do not count, but for the share that is right.
    """
    x, y, given = pack(*columns)
    n = n_rows(x)
    if not n:
        return {"weight": 0.0}
    counting, more = np.ones(n) if given is None else np.asarray(given, dtype=np.float64), {}
    if not model.multilabel_:
        seen = find_positions(labels_given(y, n), model.classes_, "y") >= 0
        counting, more = counting * seen, {"n_unseen": n - int(seen.sum())}
    elif not score:
        counting = counting * (np.diff(indicator_lists(y, n).indptr) > 0)
    weight, found = float(counting.sum()), {}
    if weight:
        weights = None if given is None else counting
        found = {"score": model.score(x, y, weights)} if score else model.evaluate(x, y, weights)
    return {**{name: value * weight for name, value in found.items()}, "weight": weight, **more}


def means_of(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return means over all parts; raises ValueError where no row has a label that the model has seen."""
    weight = sum(part["weight"] for part in parts)
    if not weight:
        raise ValueError("no row has a label that the model has seen")
    sums = {name: sum(part.get(name, 0.0) for part in parts) for part in parts if part["weight"] for name in part}
    n_unseen = {"n_unseen": int(sums.pop("n_unseen"))} if "n_unseen" in sums else {}
    return {name: value / weight for name, value in sums.items() if name != "weight"} | n_unseen


# Of a model in blocks of classes


@dataclass(frozen=True)
class BlocksModel:
    """A model whose classes are on several workers, a block on each, and its copy on another: W is never in one place.

    Attributes
    ----------
    client : distributed.Client
    model : tuple of future of LabelClassifier
        The fitted estimator without W.
    blocks : tuple of tuple of future of Block
        Each with its copy.
    """

    client: Any
    model: tuple[Any, ...]
    blocks: tuple[tuple[Any, ...], ...]

    @property
    def futures(self) -> tuple[Any, ...]:
        """All futures, those of the estimator first."""
        return (*self.model, *(one for both in self.blocks for one in both))

    def ask(self, what: str, part: Any, empty: Any, given: Mapping[str, Any]) -> Any:
        """Ask of a part of X; `empty` is the answer for no rows."""
        if what == "predict_proba":
            return later(probabilities, empty, self._of_blocks(scores_of, part))
        seen = self._of_blocks(seen_of, given.get("k", 1), part)
        return later(answer_of_blocks, self._model(), what, empty, seen)

    def sums(self, part: Sequence[Any], *, score: bool = False) -> Any:
        """Ask for what `evaluate` adds up of a part."""
        return later(sums_of_blocks, self._model(), self._of_blocks(seen_of, TOP, *part), *part)

    def _model(self) -> Any:
        return dask.delayed(a_holder(self.client, self.model))

    def _of_blocks(self, function: Any, *given: Any) -> list[Any]:
        """Let workers call a function with the model and each of the blocks."""
        model = self._model()
        return [later(function, model, dask.delayed(a_holder(self.client, both)), *given) for both in self.blocks]

    def bring(self) -> LabelClassifier:
        """Bring it here: the one place where W is whole."""
        own = [a_holder(self.client, both) for both in (self.model, *self.blocks)]
        model, *blocks = Workers(self.client, []).gather(own)
        state = state_of(model)
        weights = joined_blocks(sorted(blocks, key=lambda block: block.first), sparse=state.weights.sparse)
        found: LabelClassifier = with_state(clone(model), replace(state, weights=weights))
        return found


def seen_of(model: LabelClassifier, block: Block, k: int, *columns: Any) -> Seen | None:
    """Return what a block says of a part; None of one without rows."""
    x, y, _ = pack(*columns)
    if not n_rows(x):
        return None
    labels = None if y is None else find_positions(labels_given(y, n_rows(x)), model.classes_, "y")
    return look(block, rows_of(caller_of(model), state_of(model), x), k, labels)


def answer_of_blocks(model: LabelClassifier, what: str, empty: Any, seen: Sequence[Seen | None]) -> Any:
    """Return the best labels of a part, or their log-probabilities."""
    some = [one for one in seen if one is not None]
    if not some:
        return empty
    best, log_p, _ = best_of(some, empty.shape[1] if empty.ndim > 1 else 1)
    if what == "top_log_probabilities":
        return log_p.astype(np.float32)
    return model.classes_[best[:, 0] if what == "predict" else best]


def scores_of(model: LabelClassifier, block: Block, part: Any) -> Any:
    """Return the scores of a block's classes, None for a part without rows."""
    x, _, _ = pack(part)
    return block.scores(rows_of(caller_of(model), state_of(model), x)) if n_rows(x) else None


def probabilities(empty: Any, scores: Sequence[Any]) -> Any:
    """Return the probabilities of all classes."""
    return empty if scores[0] is None else softmax(np.concatenate(scores, axis=1).astype(np.float64), axis=1)


def sums_of_blocks(model: LabelClassifier, seen: Sequence[Seen | None], *columns: Any) -> dict[str, float]:
    """Return what `sums_of` does."""
    _, y, given = pack(*columns)
    some = [one for one in seen if one is not None]
    if not some:
        return {"weight": 0.0}
    best, _, losses = best_of(some, TOP)
    known = np.isfinite(losses)
    weights = np.where(known, 1.0 if given is None else np.asarray(given, dtype=np.float64), 0.0)
    right = best == find_positions(labels_given(y, len(best)), model.classes_, "y")[:, np.newaxis]
    return {
        "log_loss": float(weights @ np.where(known, losses, 0.0)),
        "error": float(weights @ ~right[:, 0]),
        "top5_error": float(weights @ ~right.any(axis=1)),
        "weight": float(weights.sum()),
        "n_unseen": int((~known).sum()),
    }
