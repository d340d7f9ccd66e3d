"""Training of points with one or several labels: from an estimator's parameters to the core's loop and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from manyclass import _core
from manyclass.checks import check_choice, check_flag, check_number, csr_parts, seed_from
from manyclass.model.mapped import MappedWeights
from manyclass.model.weights import Matrix
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.passes import Callback, Schedule, TrainingState, run_passes

SEARCHES = ("exact", "sampled", "mips", "decomposed", "messages")
ACTIVATIONS = ("linear", "relu")
# Points that see the same weights: what one pass over W for the exact scores is shared by, a vector's worth for each of
# two threads (Yen et al. 2018, section 5, take 10); and fewer where there are few classes, because the steps of points
# that move the same row are added.
BATCH_POINTS = 32
CLASSES_PER_BATCHED_POINT = 16
# Adagrad's rate, learning_rate="auto", over the root mean square of |x|: how far a row moves at first. Of 0.3, 1 and 3
# the best on eurlex57k by P@1 after three passes. That of the embeddings, which start with length 1, is a multiple of
# it: for margins 0.5, of 0.1, 0.5, 1 and 1.5 the best there; for the softmax, of 0.25, 0.5, 1, 1.5 and 2, the best on
# yso-en by log-loss (bench/README.md).
ADAPTIVE_RATE = 1.0
EMBEDDING_SHARE = {"cross_entropy": 1.5, "margin": 0.5, "triplet": 0.5}
# budget=None: a margin's gradient is that of the few best wrong classes; the softmax's is spread over many.
MARGIN_BUDGET = 64
SOFTMAX_BUDGET_SHARE = 100  # K / 100, as Yen et al. 2018, section 5
# search=None: up to so many classes all of them are scored.
MOST_EXACT = 8192
BLOCKS = 8  # of columns, as Yen et al. 2018, section 5.1
SEARCH_QUERIES = 256  # points by which the number of clusters to probe is chosen


@dataclass
class Labels:
    """The labels of all points: those of point i are `ids[indptr[i]:indptr[i + 1]]`, sorted and distinct."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def single(cls, labels: NDArray[np.int32]) -> Labels:
        """One label for each point."""
        return cls(np.arange(len(labels) + 1, dtype=np.int64), labels)

    def some(self, points: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """The lists of some points."""
        return [self.ids[self.indptr[i] : self.indptr[i + 1]] for i in points]


def check_label_parameters(estimator: Any) -> None:
    """Check the parameters of this training."""
    check_choice("activation", estimator.activation, ACTIVATIONS)
    check_choice("schedule", estimator.schedule, _core.schedule_names())
    for name, high in (("embedding_dim", 1 << 20), ("budget", np.inf), ("batch_size", np.inf)):
        value = getattr(estimator, name)
        if value is not None and not (name == "embedding_dim" and _is_open(estimator, name)):
            check_number(name, value, low=1, high=high, integer=True)
    for name in ("max_iter", "n_negatives"):
        if not _is_open(estimator, name):
            check_number(name, getattr(estimator, name), low=1, integer=True)
    if isinstance(estimator.learning_rate, str):
        check_choice("learning_rate", estimator.learning_rate, ("auto",))
    else:
        check_number("learning_rate", estimator.learning_rate, low=0, open_low=True)
    check_number("warm_up", estimator.warm_up, low=0, integer=True)
    if estimator.share_classes is not None:
        check_flag("share_classes", estimator.share_classes)
    if not _is_open(estimator, "decay"):
        check_number("decay", estimator.decay, low=0, open_low=True, high=1)
    check_number("frequency_power", estimator.frequency_power)
    if estimator.embedding_dim in (None, "auto") and estimator.activation != "linear":
        raise ValueError(f"activation is {estimator.activation!r}, which needs embedding_dim")
    if estimator.search is not None:
        search_name(estimator.search)


def _is_open(estimator: Any, name: str) -> bool:
    """Whether a parameter is "auto" for an estimator that has such values."""
    return hasattr(estimator, "solver") and bool(getattr(estimator, name) == "auto")


def search_name(search: Any) -> str:
    """Name of a strategy that may be given as an index.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(search, SphericalClusterIndex):
        return "mips"
    if isinstance(search, DecomposedIndex):
        return "decomposed"
    check_choice("search", search, SEARCHES)
    return str(search)


def fit_labels(
    estimator: Any,
    x: Matrix,
    labels: Labels,
    n_classes: int,
    *,
    loss: str,
    smoothing: float,
    implicit: bool,
    n_threads: int,
    callback: Callback | None,
    max_seconds: float,
) -> tuple[MappedWeights, list[float]]:
    """Train on points that have labels and return the weights with the mean loss of each pass."""
    seed = seed_from(estimator.random_state)
    weights = MappedWeights.start(
        n_classes,
        x.shape[1],
        embedding_dim=estimator.embedding_dim,
        intercept=bool(estimator.fit_intercept),
        relu=estimator.activation == "relu",
        rng=np.random.default_rng(seed),
    )
    training = _LabelTraining(estimator, x, labels, weights, loss, smoothing, implicit, n_threads, seed)
    position = np.arange(n_classes, dtype=np.int32)
    state = TrainingState(0, 0.0, np.nan, 0, weights, np.zeros(0, np.float32), position, n_threads)
    n_labels = len(labels.ids) / len(labels)
    at_zero = {"cross_entropy": np.log(n_classes) * n_labels, "margin": 1.0, "triplet": n_classes * n_labels}
    curve = run_passes(
        training,
        training.schedule(),
        n_samples=len(labels),
        n_classes=n_classes,
        batch=training.batch,
        max_iter=estimator.max_iter,
        verbose=estimator.verbose,
        state=state,
        after_pass=training.after_pass,
        callback=callback,
        max_seconds=max_seconds,
        # Message passing reports a bound that starts far above the loss.
        loss_at_zero=np.inf if estimator.search == "messages" else at_zero[loss],
    )
    return weights, curve


class _LabelTraining:
    """The core's trainer of the present pass, and the index that follows it."""

    def __init__(
        self,
        estimator: Any,
        x: Matrix,
        labels: Labels,
        weights: MappedWeights,
        loss: str,
        smoothing: float,
        implicit: bool,
        n_threads: int,
        seed: int,
    ) -> None:
        self._estimator, self._x, self._labels, self._weights = estimator, x, labels, weights
        self._loss, self._smoothing, self._implicit = loss, smoothing, implicit
        self._n_threads, self._seed = n_threads, seed
        by_classes = max(1, min(BATCH_POINTS, weights.n_classes // CLASSES_PER_BATCHED_POINT))
        self.batch = min(estimator.batch_size or by_classes, len(labels))
        by_default = "exact" if len(weights.rows) <= MOST_EXACT else "sampled"
        self._search = by_default if estimator.search is None else search_name(estimator.search)
        self._index: Any = None
        self._moved = 0
        # Where the step size is left open so is the rule, and Adagrad needs none.
        self._adaptive = adaptive = estimator.schedule == "adaptive" or (
            loss == "cross_entropy" and estimator.learning_rate == "auto"
        )
        self._arrays = _core.LabelArrays(
            x=csr_parts(x) if isinstance(x, sp.csr_array) else x,
            labels_indptr=labels.indptr,
            labels=labels.ids,
            embeddings=weights.embeddings,
            embedding_squares=np.zeros(len(weights.embeddings) if adaptive else 0, dtype=np.float32),
            classes=weights.rows,
            class_squares=np.zeros(len(weights.rows) if adaptive else 0, dtype=np.float32),
            n_features=x.shape[1],
            n_hidden=weights.n_hidden,
            intercept=weights.intercept_column,
            relu=weights.relu,
        )
        self._trainer, self._made_for = self._make(self._strategy(0)), self._strategy(0)

    def _strategy(self, epoch: int) -> str:
        """Searches find nothing in W = 0: the first passes sample (Yen et al. 2018, section 4)."""
        searches = self._search not in ("exact", "sampled")
        return "sampled" if searches and epoch < self._estimator.warm_up else self._search

    def run(self, *, epoch: int, **stretch: Any) -> _core.Progress:
        """Make some visits of a pass."""
        strategy = self._strategy(epoch)
        if strategy != self._made_for:
            self._trainer, self._made_for = self._make(strategy), strategy
        progress = self._trainer.run(epoch=epoch, **stretch)
        self._moved += progress.class_updates
        return progress

    def after_pass(self, _: int) -> bool:
        """Let the index see whether its clusters still fit; never ends training."""
        if self._index is not None and self._index._follow_training(self._moved):
            self._trainer = self._make(self._made_for)
        self._moved = 0
        return False

    def schedule(self) -> Schedule:
        """Step sizes of classes and embeddings."""
        estimator = self._estimator
        rate = estimator.learning_rate
        if isinstance(rate, str):
            square = self._mean_square()
            rate = ADAPTIVE_RATE / square**0.5 if self._adaptive else 1 / (square + self._weights.intercept_column)
        return Schedule(
            estimator.schedule, float(rate), float(rate) * EMBEDDING_SHARE[self._loss], float(estimator.decay)
        )

    def _mean_square(self) -> float:
        """Mean of |phi|^2 without the intercept's 1; with embeddings as they start, and unit rows, about 1."""
        if len(self._weights.embeddings):
            return 1.0
        x = self._x
        total = x.data @ x.data if isinstance(x, sp.csr_array) else np.einsum("ij,ij->", x, x, dtype=np.float64)
        return float(max(float(total) / x.shape[0], float(np.finfo(np.float32).tiny)))

    def _make(self, strategy: str) -> _core.Trainer:
        estimator = self._estimator
        if strategy not in ("exact", "sampled") and self._index is None:
            self._index = self._new_index(strategy)
        return _core.Trainer.labels(
            self._arrays,
            loss=self._loss,
            smoothing=self._smoothing,
            implicit=self._implicit,
            source=strategy,
            n_negatives=estimator.n_negatives,
            # A margin compares scores with 1: an inclusion probability has no place in them.
            log_q=self._loss == "cross_entropy" and bool(estimator.log_q),
            share=estimator.share_classes is not False,
            power=float(estimator.frequency_power),
            index=None if self._index is None else self._index._index,
            budget=self._budget(),
            n_probe=1 if self._index is None else self._index.n_probe_,
            seed=self._seed,
            n_threads=self._n_threads,
            batch=self.batch,
            shuffle=bool(estimator.shuffle),
            isa="auto",
        )

    def _budget(self) -> int:
        n_classes = self._weights.n_classes
        budget = self._estimator.budget
        if budget is None:
            budget = MARGIN_BUDGET if self._loss == "margin" else -(-n_classes // SOFTMAX_BUDGET_SHARE)
        return int(min(budget, n_classes))

    def _new_index(self, strategy: str) -> Any:
        """An index of the present rows that probes as many clusters as points of the training data need."""
        given = self._estimator.search
        if isinstance(given, str):
            blocks = min(BLOCKS, self._weights.columns.shape[1])
            index: Any = SphericalClusterIndex() if strategy == "mips" else DecomposedIndex(blocks)
        else:
            index = clone(given)
        if index.random_state is None:
            index.set_params(random_state=self._seed % 2**32)
        index.set_params(n_jobs=self._n_threads)
        index.fit(self._weights.columns)
        if isinstance(index, SphericalClusterIndex) and index.n_probe == "auto" and index.n_clusters_ > 1:
            sample = np.random.default_rng(self._seed).choice(
                len(self._labels), min(SEARCH_QUERIES, len(self._labels)), replace=False
            )
            index.tune(
                self._weights.mapped_columns(self._x[np.sort(sample)]),
                k=min(10, self._budget()),
                exclude=self._labels.some(np.sort(sample)),
            )
        return index
