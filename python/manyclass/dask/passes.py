"""A pass of a shard over its own rows, by rows: from a W that all shards have to the changes that it makes of it.

What differs between training point by point and by minibatches is in `manyclass.dask.point_passes` and
`manyclass.dask.batch_passes`. None of them knows of Dask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyclass.dask.merging import Curvature
from manyclass.dask.shards import Part, Report, Shard, Stretch, Whole
from manyclass.training.seen import Seen
from manyclass.weights.arrays import Doubles, Floats, Ids
from manyclass.weights.weights import Weights

# Points whose log-normalisers tell how far merges have moved those of all: the standard error of the mean is a tenth of
# a nat or less wherever log-normalisers differ by less than a nat, as they did on all sets that were tried.
STAND_FOR_ALL = 128


@dataclass(frozen=True)
class Carried:
    """What the points of a shard carry from pass to pass, and the W that it belongs to.

    Attributes
    ----------
    u : ndarray of shape (n_rows,), float64
        u of the double sum, or v in Raman's form; empty where steps have no such numbers.
    label_scores : ndarray of shape (n_rows,), float64
        The mean score of each row's labels by the W that the shard had when it wrote u; empty where u is without it.
    normalizer : float
        The mean log-normaliser of a few rows by that W; NaN: u need not follow.
    """

    u: Doubles
    label_scores: Doubles
    normalizer: float


@dataclass(frozen=True)
class Passed:
    """What a pass has made: for each part the rows that moved and their changes, what points carry, and a report.

    With one shard the one part is W itself.
    """

    changes: list[tuple[Ids, Part]]
    carried: Carried
    report: Report


@dataclass(frozen=True)
class Ended:
    """What a training leaves beside W, in the order of the labels.

    Attributes
    ----------
    beside : ndarray
        Factors of the classes, or Adagrad's sums of squares; empty: none.
    u : ndarray of float64
        What points carry.
    averaged : range
        The passes after which iterates are in the average.
    """

    beside: Floats
    u: Doubles
    averaged: range = range(0)


@dataclass(frozen=True)
class Passes(ABC):
    """Passes of a plan over the rows of shards, and merges of what they change.

    Attributes
    ----------
    plan : PointsPlan or BatchesPlan
    whole : Whole
    """

    plan: Any
    whole: Whole

    @abstractmethod
    def joined(self, parts: Sequence[Part]) -> tuple[Weights, Floats]:
        """Return W of its parts, a copy, and what goes with it; without parts W = 0."""

    @abstractmethod
    def split(self, weights: Weights, beside: Floats) -> list[Part]:
        """Return the parts of W and of what goes with it: views."""

    @abstractmethod
    def training(self, shard: Shard, seen: Seen, beside: Floats, u: Doubles | None) -> Any:
        """Return the trainer of a pass; `u` is what points carry, None: what the trainer begins with."""

    @abstractmethod
    def ended(self, training: Any, weights: Weights) -> Ended:
        """Leave W in the order of the labels, and return what the training has made beside it."""

    @property
    @abstractmethod
    def carries(self) -> tuple[bool, bool]:
        """Whether points carry a number that follows W, and whether it is less the scores of their labels."""

    @abstractmethod
    def label_scores(self, shard: Shard, weights: Weights) -> Doubles:
        """Return the mean score of each row's labels."""

    @abstractmethod
    def curvature(self, shard: Shard, coupling: tuple[float, float]) -> Curvature:
        """Measure the rows of a shard."""

    @abstractmethod
    def changes(
        self, curvature: Curvature, parts: Sequence[Part], weights: Weights, beside: Floats, eta: float
    ) -> list[tuple[Ids, Part]]:
        """Return what a pass has changed, weighted for the merge; rows that it left alone are not among it."""

    @abstractmethod
    def merged(self, part: Part, curvature: Curvature, changes: Sequence[tuple[Ids, Part]], eta: float) -> Part:
        """Return a part of W after the changes of several shards, in their order; `curvature` are those of all rows."""

    @abstractmethod
    def finished(self, parts: Sequence[Part], n_averaged: int = 0) -> Weights:
        """Return the weights of the model: W or, of so many iterates whose sum is `parts`, their mean."""

    def first_part(self, number: int) -> Part:
        """Return a part of W = 0."""
        return self.split(*self.joined([]))[number]

    def make_pass(
        self,
        shard: Shard,
        curvature: Curvature | None,
        parts: Sequence[Part],
        carried: Carried | None,
        stretch: Stretch,
    ) -> Passed:
        """Train on the rows of a shard from a W that all shards have.

        Nothing that is given is changed, so that a pass that was lost can be made again.

        Parameters
        ----------
        shard, stretch : which rows, and which visits of them
        curvature : Curvature or None, of these rows; None with one shard
        parts : sequence of Part, W
        carried : Carried or None, by the points from the pass before; None: this is the first, or it was lost
        """
        whole, n = self.whole, len(shard)
        weights, beside = self.joined(parts)
        u = None if carried is None else self.follow(carried, shard, weights)
        begins = stretch.n_pass == stretch.number == 0 and not whole.goes_on
        seen = Seen(weights, whole.counts, shard.first, goes_on=not begins)
        training = self.training(shard, seen, beside, u)
        first, last = stretch.visits(n, training.batch)
        eta, eta_u = self.plan.schedule.at(stretch.n_pass)
        progress = training.visit(epoch=stretch.n_pass, eta=eta, eta_u=eta_u, first=first, last=last, loss=0.0)
        found = self.ended(training, weights)
        if curvature is None:
            made = Carried(found.u, np.zeros(0), np.nan)
            [part] = self.split(weights, found.beside)
            changes = [(np.arange(len(part.matrix), dtype=np.int32), part)]
        else:
            made = self.carried(shard, found.u, weights)
            changes = self.changes(curvature, parts, weights, found.beside, eta * (last - first) / n)
        others = [at for at in range(whole.n_shards) if at != shard.number]
        report = Report(
            n_visits=last - first,
            class_updates=progress.class_updates,
            loss=progress.loss,
            diverged=progress.diverged_at >= 0,
            averaged=stretch.number == stretch.of - 1 and stretch.n_pass + 1 in found.averaged,
            bytes_in=sum(parts[at].nbytes for at in others),
            bytes_out=sum(changes[at][0].nbytes + changes[at][1].nbytes for at in others),
        )
        return Passed(changes, made, report)

    def merge(
        self, part: Part, curvature: Curvature | None, changes: Sequence[tuple[Ids, Part]], stretch: Stretch
    ) -> Part:
        """Return a part of W after the changes of all shards; with one shard it is the change."""
        if curvature is None:
            return changes[0][1]
        return self.merged(part, curvature, changes, self.plan.schedule.at(stretch.n_pass)[0] / stretch.of)

    def follow(self, carried: Carried, shard: Shard, weights: Weights) -> Doubles:
        """Return u as it would be by a W to which other shards have added.

        Without this u lags behind, and a step, which goes by e^(score - u), is too large. The log-normalisers of all
        rows are taken to have changed by their mean, as where `partial_fit` begins.
        """
        if np.isnan(carried.normalizer):
            return carried.u.copy()
        u = carried.u + (self._few_normalizers(shard, weights) - carried.normalizer)
        if len(carried.label_scores):
            u -= self.label_scores(shard, weights) - carried.label_scores
            u = np.maximum(u, np.log(np.diff(shard.lists.indptr)))  # a label's own term is in the sum
        return u

    def carried(self, shard: Shard, u: Doubles, weights: Weights) -> Carried:
        """Return what points carry, with what is needed to follow the changes of others."""
        follows, of_labels = self.carries
        if not follows:
            return Carried(u, np.zeros(0), np.nan)
        scores = self.label_scores(shard, weights) if of_labels else np.zeros(0)
        return Carried(u, scores, self._few_normalizers(shard, weights))

    def _few_normalizers(self, shard: Shard, weights: Weights) -> float:
        """The mean log-normaliser of rows that stand for all."""
        rows = np.linspace(0, len(shard) - 1, min(len(shard), STAND_FOR_ALL)).astype(np.intp)
        return float(weights.log_normalizers(shard.x[rows], self.plan.n_threads).mean())

    def held_out_loss(self, held: Shard, parts: Sequence[Part], n_averaged: int) -> tuple[float, float]:
        """Return the sum of weighted log-losses, in nats, of rows that are held out, and of their weights."""
        losses, _ = self.finished(parts, n_averaged).log_losses(held.x, held.labels, self.plan.n_threads)
        weights = np.ones(len(losses)) if held.weights is None else held.weights
        return float(weights @ losses), float(weights.sum())
