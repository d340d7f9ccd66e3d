"""The rows of a fit on their workers, checked and numbered, and what all workers know of them."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from sklearn.base import clone

from manyclass.choosing.rules import steps_by_batches
from manyclass.classifiers.margin import MarginClassifier
from manyclass.dask import checking
from manyclass.dask.checking import Told
from manyclass.dask.partial_fit import Origin, counts_after, counts_to_draw_by, fits, scaling_of_call, settle_call
from manyclass.dask.workers import Crew, LostWorkerError
from manyclass.training.validation import fork


class Loaded:
    """The rows of a fit on their workers, and what all workers know; all but numbers as futures.

    Attributes
    ----------
    shards : list of future of Shard
        Rows to train on.
    held : list of future of Shard or None
        Rows that are held out, where there are some.
    told : list of Told
    n_rows : list of int
        Rows to train on, by worker.
    by_batches : bool
        Whether training is by minibatches.
    classes, whole, counts, scaling : list of futures
        The same on two workers, where there are two; counts of all rows, those of calls before included.
    """

    def __init__(
        self, crew: Crew, owner: Any, parts: list[list[Any]], numbers: list[list[int]], origin: Origin | None = None
    ) -> None:
        self.crew, self.owner, self.parts, self.numbers = crew, owner, parts, numbers
        self.origin = origin = Origin() if origin is None else origin
        self.random = np.random.RandomState() if owner.random_state is None else fork(owner.random_state)
        rows = [self._rows(at) for at in range(len(numbers))]
        told = crew.gather([crew.submit(at, checking.tell, own) for at, own in enumerate(rows)])
        kept = [at for at, one in enumerate(told) if one is not None]
        if not kept:
            raise ValueError("X has no rows whose weight is above 0; at least two are needed")
        crew.places = [crew.places[at] for at in kept]
        self.numbers = [numbers[at] for at in kept]
        rows, self.told = [rows[at] for at in kept], [told[at] for at in kept]
        _check_alike(self.told)
        first = self.told[0]
        self.several, self.sparse_labels = first.n_columns > 0, first.sparse_labels
        chosen = owner.check_parameters()
        named = [part.name for part in (chosen.solver, chosen.sampler, chosen.model) if part is not None]
        self.by_batches = isinstance(owner, MarginClassifier) or steps_by_batches(named, self.several)
        self._check_owner()
        self.largest = int(np.argmax([one.n_rows for one in self.told]))
        labels = [crew.submit(at, checking.classes_of, own, origin.known) for at, own in enumerate(rows)]
        self.classes = crew.everywhere(checking.all_classes, labels, self.several)
        self.split = [self._split(at, own) for at, own in enumerate(rows)]
        n_held = crew.gather(
            [crew.submit(at, checking.count, mask) for at, mask in enumerate(self.split) if mask is not None]
        )
        if owner_stops(owner) and not any(n_held):
            raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")
        self.n_held = n_held or [0] * len(rows)
        self.n_rows = [one.n_rows - n for one, n in zip(self.told, self.n_held, strict=True)]
        self._count(rows)
        of_largest = self._weigh(self.largest, rows[self.largest])
        given = (owner, origin.facts) if origin.call is not None else (owner,)
        scale = checking.scaling_of if origin.call is None else scaling_of_call
        self.scaling = crew.everywhere(
            _no_scaling if self.by_batches else scale, *given, rows[self.largest], of_largest
        )
        self.shards, self.held = [], []
        for at, own in enumerate(rows):
            self.shards.append(self._shard(at, own))
            self.held.append(self._held(at, own))
        held = [one for one in self.held if one is not None]
        crew.wait([*self.shards, *held, *self.classes, *self.whole, *self.scaling])

    def _check_owner(self) -> None:
        """Raise ValueError for parameters that do not go with these labels."""
        owner = self.owner
        if self.several and owner.class_weight is not None:
            raise ValueError(
                f"class_weight is {owner.class_weight!r}, which is for one label a row; with an indicator matrix y "
                "leave it None and give fit a sample_weight"
            )
        if self.by_batches and owner_stops(owner):
            raise ValueError("early_stopping is True, which is for one label a row, point by point; set it to False")
        if self.origin.facts is not None:
            fits(owner, self.origin.facts, self.by_batches, self.told[0].n_features, self.several)

    def _count(self, rows: list[Any]) -> None:
        """Count the rows of each class, and make what all workers know."""
        crew, origin, classes = self.crew, self.origin, self.classes[0]
        counts = [crew.submit(at, checking.counts_of, own, classes) for at, own in enumerate(rows)]
        given = crew.everywhere(checking.sum_counts, counts)
        trained = given
        if any(self.n_held):
            kept = [self._kept(at, own) for at, own in enumerate(rows)]
            counts = [crew.submit(at, checking.counts_of, own, classes) for at, own in enumerate(kept)]
            trained = crew.everywhere(checking.sum_counts, counts)
        self.counts = crew.everywhere(counts_after, origin.facts, classes, crew.submit(0, _first, given[0]))
        to_draw_by = crew.submit(0, _first, trained[0])
        if origin.call is not None:
            to_draw_by = crew.submit(0, counts_to_draw_by, self.counts[0])
        first = self.told[0]
        sparse = first.sparse and not self.by_batches
        if origin.facts is not None:
            sparse = bool(origin.facts.weights.sparse)
        shape = (len(rows), first.n_features, sum(self.n_rows), sparse, origin.history.n_fit > 0)
        self.whole = crew.everywhere(checking.whole_of, to_draw_by, *shape)
        mean = None if origin.call is None else 1.0
        if self.several and mean is None:
            mean = sum(one.weight for one in self.told) / sum(one.n_rows for one in self.told)
        self.factors = crew.everywhere(checking.class_weights, self.owner, given[0], trained[0], classes, mean)

    def _split(self, at: int, rows: Any) -> Any:
        """The rows of a worker that are held out, as a future of a mask; None without early stopping."""
        if not owner_stops(self.owner):
            return None
        given = (rows, self.classes[0], self.random, self.owner.validation_fraction, at)
        return self.crew.submit(at, checking.hold_out, *given)

    def _kept(self, at: int, rows: Any) -> Any:
        """The rows of a worker to train on."""
        mask = self.split[at]
        return rows if mask is None else self.crew.submit(at, checking.part_of, rows, mask, False)

    def _weigh(self, at: int, rows: Any) -> Any:
        return self.crew.submit(at, checking.weigh_rows, rows, self.factors[0], self.classes[0])

    def _held(self, at: int, rows: Any) -> Any:
        """The rows of a worker that are held out; None where there are none."""
        if not self.n_held[at]:
            return None
        own = self.crew.submit(at, checking.part_of, rows, self.split[at], True)
        given = (own, self.classes[0], self._weigh(at, own), self.scaling[0], at, 0)
        return self.crew.submit(at, checking.shard_of, *given)

    def _rows(self, at: int) -> Any:
        own = [dask.delayed(checking.pack, pure=False)(*self.parts[number]) for number in self.numbers[at]]
        packed = self.crew.compute(at, own)
        return self.crew.submit(at, checking.stack, self.owner, packed)

    def _shard(self, at: int, rows: Any) -> Any:
        own = self._kept(at, rows)
        first = self.origin.history.n_points + sum(self.n_rows[:at])
        like = None if self.origin.facts is None else self.origin.facts.weights
        like = None if self.by_batches else like
        given = (own, self.classes[0], self._weigh(at, own), self.scaling[0], at, first, like)
        return self.crew.submit(at, checking.shard_of, *given)

    def settle(self, solver: Any = None) -> Any:
        """Return the future of what "auto" stands for; `solver` where it is not the estimator's."""
        owner = self.owner if solver is None else clone(self.owner).set_params(solver=solver)
        shard, n, origin = self.shards[self.largest], sum(self.n_rows), self.origin
        if origin.call is not None:
            given = (owner, origin.facts, shard, self.classes[0], n, origin.call, self.by_batches)
            return self.crew.submit(self.largest, settle_call, *given)
        n_classes = self.crew.submit(self.largest, len, self.classes[0])
        return self.crew.submit(self.largest, checking.settle_on, owner, shard, n_classes, n, self.by_batches)

    def restore(self, moved: list[int], lost: frozenset[str]) -> None:
        """Make the shards of lost workers again; raises LostWorkerError where what all know is lost with them."""
        for name in ("classes", "whole", "counts", "factors", "scaling"):
            kept = [future for future in getattr(self, name) if self.crew.holders(future, lost)]
            if not kept:
                raise LostWorkerError(lost)
            setattr(self, name, kept)
        for at in moved:
            rows = self._rows(at)
            self.split[at] = self._split(at, rows)
            self.shards[at], self.held[at] = self._shard(at, rows), self._held(at, rows)


def owner_stops(owner: Any) -> bool:
    """Whether an estimator has early stopping, and it is on."""
    return bool(getattr(owner, "early_stopping", False))


def _first(both: tuple[Any, Any]) -> Any:
    return both[0]


def _no_scaling(*given: Any) -> None:
    """Minibatches take features as they are."""


def _check_alike(told: list[Told]) -> None:
    first = told[0]
    for one in told[1:]:
        for name, what in (("n_features", "columns"), ("sparse", "as being sparse"), ("names", "as names of columns")):
            if getattr(one, name) != getattr(first, name):
                raise ValueError(
                    f"parts of X differ: one has {getattr(first, name)!r} {what}, another {getattr(one, name)!r}"
                )
        if one.n_columns != first.n_columns:
            raise ValueError(
                f"parts of y differ: one has {first.n_columns} columns, another {one.n_columns} (0: labels in place of "
                "an indicator matrix)"
            )
        if one.weighted != first.weighted:
            raise ValueError("some parts have weights and others have none")
