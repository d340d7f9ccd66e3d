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

from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import caller_of, state_of, with_state
from manyclass.dask.blocks import Block, BlockScores, best_of, joined_blocks, look
from manyclass.dask.collections import n_rows, pack
from manyclass.dask.workers import Workers, a_holder
from manyclass.fitting.points import indicator_lists, rows_of
from manyclass.labels import find_positions, labels_by_row

TOP = 5  # classes that `evaluate` looks at


def later(function: Any, *arguments: Any) -> Any:
    """Return a task that calls a function, when it is computed."""
    return dask.delayed(function, pure=True)(*arguments)


@dataclass(frozen=True)
class WholeModel:
    """A fitted local estimator: futures of it on one or two workers of a client or, without these, in this process."""

    client: Any = None
    futures: tuple[Any, ...] = ()
    local: LabelClassifier | None = None

    def future(self) -> Any:
        """Return the model, or a future of it that a worker has."""
        return self.local if self.futures == () else a_holder(self.client, self.futures)

    def ask(self, question: str, part: Any, empty: Any, arguments: Mapping[str, Any]) -> Any:
        """Ask of a part of X; `empty` is the answer for no rows."""
        return later(answer, dask.delayed(self.future()), question, part, empty, arguments)

    def sums(self, part: Sequence[Any], *, score: bool = False) -> Any:
        """Ask for what `evaluate` adds up of a part, or `score`."""
        return later(sums_of, dask.delayed(self.future()), score, *part)

    def bring(self) -> LabelClassifier:
        """Bring it here."""
        if self.local is not None:
            return self.local
        [model] = Workers(self.client, []).gather([self.future()])
        estimator: LabelClassifier = copy.deepcopy(model)  # of a worker in this process it is the worker's own
        return estimator


def answer(model: LabelClassifier, question: str, part: Any, empty: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what the model answers of a part of X."""
    x, *_ = pack(part)
    if not n_rows(x):
        return empty
    if question in ("top_labels", "top_log_probabilities"):
        return model.predict_top_k(x, **arguments)[question != "top_labels"]
    return getattr(model, question)(x, **arguments)


def sums_of(model: LabelClassifier, score: bool, *columns: Any) -> dict[str, float]:
    """Return sums over a part of what `evaluate`, or `score`, gives means of, the weight of the rows that count for
    it, and the number of rows with a label that the model has not seen.

    Of several labels, rows without any do not count, but for the share that is right.
    """
    x, y, sample_weight, _ = pack(*columns)
    n = n_rows(x)
    if not n:
        return {"weight": 0.0}
    counting, more = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64), {}
    if not model.multilabel_:
        is_known = find_positions(labels_by_row(y, n), model.classes_, "y") >= 0
        counting, more = counting * is_known, {"n_unseen": n - int(is_known.sum())}
    elif not score:
        counting = counting * (np.diff(indicator_lists(y, n).indptr) > 0)
    weight, means = float(counting.sum()), {}
    if weight:
        weights = None if sample_weight is None else counting
        means = {"score": model.score(x, y, weights)} if score else model.evaluate(x, y, weights)
    return {**{name: value * weight for name, value in means.items()}, "weight": weight, **more}


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
        return (*self.model, *(future for copies in self.blocks for future in copies))

    def ask(self, question: str, part: Any, empty: Any, arguments: Mapping[str, Any]) -> Any:
        """Ask of a part of X; `empty` is the answer for no rows."""
        if question == "predict_proba":
            return later(probabilities, empty, self._ask_blocks(scores_of, part))
        scores = self._ask_blocks(block_scores, arguments.get("k", 1), part)
        return later(answer_of_blocks, self._model(), question, empty, scores)

    def sums(self, part: Sequence[Any], *, score: bool = False) -> Any:
        """Ask for what `evaluate` adds up of a part."""
        return later(sums_of_blocks, self._model(), self._ask_blocks(block_scores, TOP, *part), *part)

    def _model(self) -> Any:
        return dask.delayed(a_holder(self.client, self.model))

    def _ask_blocks(self, function: Any, *arguments: Any) -> list[Any]:
        """Let workers call a function with the model and each of the blocks."""
        model, blocks = self._model(), [dask.delayed(a_holder(self.client, copies)) for copies in self.blocks]
        return [later(function, model, block, *arguments) for block in blocks]

    def bring(self) -> LabelClassifier:
        """Bring it here: the one place where W is whole."""
        futures = [a_holder(self.client, copies) for copies in (self.model, *self.blocks)]
        model, *blocks = Workers(self.client, []).gather(futures)
        state = state_of(model)
        weights = joined_blocks(sorted(blocks, key=lambda block: block.first), sparse=state.weights.sparse)
        estimator: LabelClassifier = with_state(clone(model), replace(state, weights=weights))
        return estimator


def block_scores(model: LabelClassifier, block: Block, k: int, *columns: Any) -> BlockScores | None:
    """Return what a block says of a part; None of one without rows."""
    x, y, *_ = pack(*columns)
    if not n_rows(x):
        return None
    labels = None if y is None else find_positions(labels_by_row(y, n_rows(x)), model.classes_, "y")
    return look(block, rows_of(caller_of(model), state_of(model), x), k, labels)


def answer_of_blocks(model: LabelClassifier, question: str, empty: Any, scores: Sequence[BlockScores | None]) -> Any:
    """Return the best labels of a part, or their log-probabilities."""
    filled = [block for block in scores if block is not None]
    if not filled:
        return empty
    best, log_p, _ = best_of(filled, empty.shape[1] if empty.ndim > 1 else 1)
    if question == "top_log_probabilities":
        return log_p.astype(np.float32)
    return model.classes_[best[:, 0] if question == "predict" else best]


def scores_of(model: LabelClassifier, block: Block, part: Any) -> Any:
    """Return the scores of a block's classes, None for a part without rows."""
    x, *_ = pack(part)
    return block.weights.scores(rows_of(caller_of(model), state_of(model), x), 1) if n_rows(x) else None


def probabilities(empty: Any, scores: Sequence[Any]) -> Any:
    """Return the probabilities of all classes."""
    return empty if scores[0] is None else softmax(np.concatenate(scores, axis=1).astype(np.float64), axis=1)


def sums_of_blocks(model: LabelClassifier, scores: Sequence[BlockScores | None], *columns: Any) -> dict[str, float]:
    """Return what `sums_of` does."""
    _, y, sample_weight, _ = pack(*columns)
    filled = [block for block in scores if block is not None]
    if not filled:
        return {"weight": 0.0}
    best, _, losses = best_of(filled, TOP)
    known = np.isfinite(losses)
    weights = np.where(known, 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=np.float64), 0.0)
    right = best == find_positions(labels_by_row(y, len(best)), model.classes_, "y")[:, np.newaxis]
    return {
        "log_loss": float(weights @ np.where(known, losses, 0.0)),
        "error": float(weights @ ~right[:, 0]),
        "top5_error": float(weights @ ~right.any(axis=1)),
        "weight": float(weights.sum()),
        "n_unseen": int((~known).sum()),
    }
