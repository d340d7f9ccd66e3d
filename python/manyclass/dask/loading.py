"""The rows of a fit on their workers, checked and numbered, and what all workers know of them."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from sklearn.base import clone

from manyclass.dask import intake
from manyclass.dask.crew import Crew, LostWorkerError
from manyclass.dask.intake import Told


class Loaded:
    """The rows of a fit on their workers, and what all workers know; all but numbers as futures.

    Attributes
    ----------
    shards : list of future of Shard
    told : list of Told
    classes, whole, counts, scaling : list of futures
        The same on two workers, where there are two.
    """

    def __init__(self, crew: Crew, owner: Any, parts: list[list[Any]], numbers: list[list[int]]) -> None:
        self.crew, self.owner, self.parts, self.numbers = crew, owner, parts, numbers
        rows = [self._rows(at) for at in range(len(numbers))]
        told = crew.gather([crew.submit(at, intake.tell, own) for at, own in enumerate(rows)])
        kept = [at for at, one in enumerate(told) if one is not None]
        if not kept:
            raise ValueError("X has no rows whose weight is above 0; at least two are needed")
        crew.places = [crew.places[at] for at in kept]
        self.numbers = [numbers[at] for at in kept]
        rows, self.told = [rows[at] for at in kept], [told[at] for at in kept]
        _check_alike(self.told)
        n = len(rows)
        labels = [crew.submit(at, intake.classes_of, own) for at, own in enumerate(rows)]
        self.classes = crew.everywhere(intake.all_classes, labels)
        counts = [crew.submit(at, intake.counts_of, own, self.classes[0]) for at, own in enumerate(rows)]
        self.counts = crew.everywhere(intake.sum_counts, counts)
        first = self.told[0]
        self.whole = crew.everywhere(intake.whole_of, self.counts[0], n, first.n_features, first.sparse)
        self.factors = crew.everywhere(intake.class_weights, owner, self.counts[0], self.classes[0])
        largest = int(np.argmax([one.n_rows for one in self.told]))
        of_largest = crew.submit(largest, intake.weigh_rows, rows[largest], self.factors[0], self.classes[0])
        self.scaling = crew.everywhere(intake.scaling_of, owner, rows[largest], of_largest)
        self.shards = [self._shard(at, own) for at, own in enumerate(rows)]
        self.largest = largest
        crew.wait([*self.shards, *self.classes, *self.whole, *self.scaling])

    def _rows(self, at: int) -> Any:
        own = [dask.delayed(intake.pack, pure=False)(*self.parts[number]) for number in self.numbers[at]]
        packed = self.crew.compute(at, own)
        return self.crew.submit(at, intake.stack, self.owner, packed)

    def _shard(self, at: int, rows: Any) -> Any:
        weights = self.crew.submit(at, intake.weigh_rows, rows, self.factors[0], self.classes[0])
        first = sum(one.n_rows for one in self.told[:at])
        return self.crew.submit(at, intake.shard_of, rows, self.classes[0], weights, self.scaling[0], at, first)

    def settle(self, solver: Any = None) -> Any:
        """Return the future of what "auto" stands for; `solver` where it is not the estimator's."""
        owner = self.owner if solver is None else clone(self.owner).set_params(solver=solver)
        n_classes, n = self.crew.submit(self.largest, len, self.classes[0]), sum(one.n_rows for one in self.told)
        return self.crew.submit(self.largest, intake.settle_on, owner, self.shards[self.largest], n_classes, n)

    def restore(self, moved: list[int], lost: frozenset[str]) -> None:
        """Make the shards of lost workers again; raises LostWorkerError where what all know is lost with them."""
        for name in ("classes", "whole", "counts", "factors", "scaling"):
            kept = [future for future in getattr(self, name) if self.crew.holders(future, lost)]
            if not kept:
                raise LostWorkerError(lost)
            setattr(self, name, kept)
        for at in moved:
            self.shards[at] = self._shard(at, self._rows(at))


def _check_alike(told: list[Told]) -> None:
    first = told[0]
    for one in told[1:]:
        for name, what in (("n_features", "columns"), ("sparse", "as being sparse"), ("names", "as names of columns")):
            if getattr(one, name) != getattr(first, name):
                raise ValueError(
                    f"parts of X differ: one has {getattr(first, name)!r} {what}, another {getattr(one, name)!r}"
                )
        if one.weighted != first.weighted:
            raise ValueError("some parts have weights and others have none")
