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
from manyclass.dask.loading import n_rows, pack
from manyclass.dask.workers import Workers, a_holder
from manyclass.fitting.points import rows_of
from manyclass.labels import find_positions, indicator_lists, labels_by_row

TOP = 5  # classes that `evaluate` looks at


def later(function: Any, *arguments: Any) -> Any:
    """Return a task that calls a function, when it is computed."""
    return dask.delayed(function, pure=True)(*arguments)


@dataclass(frozen=True)
class ClusterModel:
    """A fitted model on the workers of a client or, without one, in this process.

    Attributes
    ----------
    client : distributed.Client or None
    model : tuple
        Futures of the fitted estimator on one or two workers, or the estimator itself.
    blocks : tuple of tuple of future of Block
        The classes of a model whose W is never in one place, each block with its copy; the estimator is without W then.
    """

    client: Any
    model: tuple[Any, ...]
    blocks: tuple[tuple[Any, ...], ...] = ()

    def there(self) -> list[Any]:
        """Return the model, or a future of it that a worker has, and those of the blocks."""
        if self.client is None:
            return list(self.model)
        return [a_holder(self.client, copies) for copies in (self.model, *self.blocks)]

    def ask(self, question: str, parts: Sequence[Any], empty: Any, arguments: Mapping[str, Any]) -> list[Any]:
        """Ask of parts of X; `empty` is the answer for no rows."""
        model, *blocks = map(dask.delayed, self.there())
        if not blocks:
            return [later(answer, model, question, part, empty, arguments) for part in parts]
        k = empty.shape[1] if empty.ndim > 1 else 1
        look_at = scores_of if question == "predict_proba" else block_scores
        scores = [[later(look_at, model, block, k, part) for block in blocks] for part in parts]
        return [later(answer_of_blocks, model, question, empty, scores_of_part) for scores_of_part in scores]

    def sums(self, parts: Sequence[Sequence[Any]], *, score: bool = False) -> list[Any]:
        """Ask for what `evaluate` adds up of parts, or `score`."""
        model, *blocks = map(dask.delayed, self.there())
        if not blocks:
            return [later(sums_of, model, score, *part) for part in parts]
        scores = [[later(block_scores, model, block, TOP, *part) for block in blocks] for part in parts]
        return [later(sums_of_blocks, model, scores[i], *part) for i, part in enumerate(parts)]

    def bring(self) -> LabelClassifier:
        """Bring it here: the one place where W of blocks is whole."""
        if self.client is None:
            return self.model[0]  # type: ignore[no-any-return]
        model, *blocks = Workers(self.client).gather(self.there())
        if not blocks:
            return copy.deepcopy(model)  # type: ignore[no-any-return] # of a worker in this process it is its own
        state = state_of(model)
        weights = joined_blocks(sorted(blocks, key=lambda block: block.first), sparse=state.weights.sparse)
        estimator: LabelClassifier = with_state(clone(model), replace(state, weights=weights))
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


def block_scores(model: LabelClassifier, block: Block, k: int, *columns: Any) -> BlockScores | None:
    """Return what a block says of a part; None of one without rows."""
    x, y, *_ = pack(*columns)
    if not n_rows(x):
        return None
    labels = None if y is None else find_positions(labels_by_row(y, n_rows(x)), model.classes_, "y")
    return look(block, rows_of(caller_of(model), state_of(model), x), k, labels)


def scores_of(model: LabelClassifier, block: Block, _k: int, part: Any) -> Any:
    """Return the scores of a block's classes, None for a part without rows."""
    x, *_ = pack(part)
    return block.weights.scores(rows_of(caller_of(model), state_of(model), x), 1) if n_rows(x) else None


def answer_of_blocks(model: LabelClassifier, question: str, empty: Any, scores: Sequence[Any]) -> Any:
    """Return the best labels of a part, their log-probabilities, or the probabilities of all classes."""
    if scores[0] is None:
        return empty
    if question == "predict_proba":
        return softmax(np.concatenate(scores, axis=1).astype(np.float64), axis=1)
    best, log_p, _ = best_of(scores, empty.shape[1] if empty.ndim > 1 else 1)
    if question == "top_log_probabilities":
        return log_p.astype(np.float32)
    return model.classes_[best[:, 0] if question == "predict" else best]


def sums_of_blocks(model: LabelClassifier, scores: Sequence[Any], *columns: Any) -> dict[str, float]:
    """Return what `sums_of` does."""
    _, y, sample_weight, _ = pack(*columns)
    if scores[0] is None:
        return {"weight": 0.0}
    best, _, losses = best_of(scores, TOP)
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
