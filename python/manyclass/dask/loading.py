"""The rows of a fit on their workers, checked and numbered, and what all workers know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import dask
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.choosing.costs import Facts, Planned
from manyclass.choosing.plans import linear_model
from manyclass.choosing.recipes import Choice, steps_by_batches
from manyclass.dask.collections import Columns, n_rows, pack
from manyclass.dask.shards import Shard, Whole
from manyclass.dask.workers import Workers
from manyclass.fitting.planner import Planner
from manyclass.fitting.points import Known, as_stored, is_indicator, points_of, times_class_weight
from manyclass.fitting.trials import plan_points
from manyclass.labels import as_labels, find_positions, group_ids, sorted_classes, written
from manyclass.parts import Part
from manyclass.training.incremental import Before, Call, passes_of_call
from manyclass.training.passes import fork
from manyclass.training.plan import PointsPlan, first_groups, held_out, shuffle_groups, spare_labels
from manyclass.training.state import History, Points, State, taken
from manyclass.weights.arrays import Doubles
from manyclass.weights.weights import FeatureScaling


@dataclass(frozen=True)
class Origin:
    """What a training begins with: nothing or, for a call of `partial_fit`, what was known before it.

    Attributes
    ----------
    call : Call or None
        Of `partial_fit`; None of a fit.
    known : ndarray of labels or None
        Classes that y need not have.
    model : future, LabelClassifier or None
        The fitted estimator of one machine; None: there is none.
    state : State or None
        Its state without W, on the client.
    """

    call: Call | None = None
    known: NDArray[Any] | None = None
    model: Any = None
    state: State | None = None

    @property
    def history(self) -> History:
        """How much the model has seen."""
        return History() if self.state is None else self.state.history

    @property
    def without_model(self) -> Origin:
        """The same without the model, which has W, for tasks that do not need it."""
        return replace(self, model=None)


# The rows of a worker


class RowFacts(NamedTuple):
    """What the client learns of the rows of a worker: numbers.

    `stored` counts the values of X, of sparse ones those that are stored. `n_columns` are those of an indicator matrix,
    0: there is a label a row. `weight` is the sum of the weights.
    """

    n_rows: int
    n_features: int
    stored: int
    sparse: bool
    names: tuple[str, ...] | None
    n_columns: int
    sparse_labels: bool
    weighted: bool
    grouped: bool
    weight: float


def facts_of(points: Points | None) -> RowFacts | None:
    """Return what the client must know of the rows; None where there are none."""
    if points is None:
        return None
    x, names, weights = points.x, points.features.names, points.weights
    return RowFacts(
        n_rows=x.shape[0],
        n_features=x.shape[1],
        stored=int(x.size),
        sparse=isinstance(x, sp.csr_array),
        names=None if names is None else tuple(map(str, names)),
        n_columns=points.n_classes if points.several else 0,
        sparse_labels=points.sparse_labels,
        weighted=weights is not None,
        grouped=points.groups is not None,
        weight=float(x.shape[0] if weights is None else weights.sum()),
    )


ALIKE = (
    ("n_features", "X", "the number of columns"),
    ("sparse", "X", "whether it is sparse"),
    ("names", "X", "the names of columns"),
    ("n_columns", "y", "the number of columns (0: labels in place of an indicator matrix)"),
    ("sparse_labels", "y", "whether it is a sparse matrix"),
    ("weighted", "sample_weight", "whether there are weights"),
    ("grouped", "groups", "whether there are groups"),
)


def check_alike(facts: Sequence[RowFacts | None]) -> None:
    """Raise ValueError where parts, or the rows of workers, are of several kinds."""
    for field, argument, fact in ALIKE:
        kinds = list(dict.fromkeys(getattr(facts_of_part, field) for facts_of_part in facts))
        if len(kinds) > 1:
            raise ValueError(f"parts of {argument} differ: {fact} is {kinds[0]!r} in one and {kinds[1]!r} in another")


def load(planner: Planner, known: NDArray[Any] | None, parts: Sequence[Columns]) -> Points | None:
    """Check the parts of a worker, and put their rows together; return None where there are no rows.

    Raises
    ------
    ValueError
        For what `fit` raises it on one machine.
    """
    checked = [checked_part(planner, known, part) for part in parts if n_rows(part[0])]
    check_alike([facts_of(points) for points in checked])
    filled = [points for points in checked if len(points.labels)]
    return joined(filled) if len(filled) > 1 else next(iter(filled), None)


def checked_part(planner: Planner, known: NDArray[Any] | None, part: Columns) -> Points:
    """Check a part as `fit` does on one machine."""
    x, y, weights, groups = part
    # Counts of classes are known later; of an indicator matrix the check refuses weights of classes.
    class_weight = planner.parameters["class_weight"] if is_indicator(y) else None
    classes = Known(known, has_others=True)
    points = points_of(planner.caller, x, y, weights, class_weight, several=planner.several, known=classes)
    ids = None if groups is None else taken(number_groups(groups, n_rows(x)), points.rows)
    return replace(points, rows=None, groups=ids)


def number_groups(groups: Any, n: int) -> NDArray[np.int64]:
    """Return what workers know a group by from its label alone: whole numbers themselves, digests of others."""
    group_ids(groups, n)  # which checks them
    labels = as_labels(groups)
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    names, places = sorted_classes(labels, name="groups")
    digests = [blake2b(name.encode(), digest_size=8).digest() for name in written(names)]
    return np.frombuffer(b"".join(digests), np.int64)[places]


def joined(parts: Sequence[Points]) -> Points:
    """Put the rows of several parts together, labels being places among the classes of all."""
    classes = all_classes([points.classes for points in parts])
    rows = Points.joined((*parts[:-1], among(parts[-1], classes)))
    groups = [part.groups for part in parts if part.groups is not None]  # which are of several parts
    return replace(rows, groups=np.concatenate(groups) if groups else None)


def all_classes(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the classes of several parts; raises ValueError for labels of two kinds."""
    classes = parts[0]
    for more in parts[1:]:
        classes = sorted_classes(more, classes)[0]
    return classes


def among(points: Points, classes: NDArray[Any]) -> Points:
    """Return points with their places among all classes."""
    place = find_positions(points.classes, classes, "y")
    return replace(points, labels=replace(points.labels, ids=place[points.labels.ids]), classes=classes)


Divided = tuple[Points, Points | None]  # the rows of a worker to train on, and those that are held out
Sizes = tuple[NDArray[np.int64], NDArray[np.int64]]  # the numbers of groups, and how many rows they have


def sizes_of_groups(points: Points) -> Sizes | None:
    """Return the groups of the rows of a worker; None where there are none."""
    return None if points.groups is None else np.unique(points.groups, return_counts=True)


def draw_groups(sizes: Sequence[Sizes], fraction: float, random: np.random.RandomState) -> NDArray[np.int64]:
    """Draw which groups are held out, of those of all workers; raises ValueError where there is but one."""
    groups, places = np.unique(np.concatenate([numbers for numbers, _ in sizes]), return_inverse=True)
    if len(groups) < 2:
        raise ValueError("groups has one group; whole groups are held out, so that there must be two: leave it None")
    n_rows = np.bincount(places, np.concatenate([counts for _, counts in sizes])).astype(np.int64)
    n_out = max(1, round(fraction * n_rows.sum()))
    return groups[first_groups(n_rows, shuffle_groups(n_rows, n_out, random), n_out)]


def divide(
    points: Points,
    random: np.random.RandomState,
    fraction: float | None,
    number: int,
    groups_out: NDArray[np.int64] | None,
) -> Divided:
    """Draw the rows of a worker that are held out, as on one machine; none where no class has two rows there.

    Where several workers have groups these are drawn before, for all of them.
    """
    if fraction is None or np.bincount(points.labels.ids).max() < 2:
        return points, None
    generator = fork(random)
    if points.groups is not None and groups_out is not None:
        is_held_out = spare_labels(np.isin(points.groups, groups_out), points.labels)
    else:
        if number:
            generator = np.random.RandomState([generator.randint(2**31 - 1), number])
        is_held_out = held_out(points.labels.ids, fraction, generator, points.groups)
    if not is_held_out.any():
        return points, None
    train, validation = (
        replace(points.some(rows), weights=taken(points.weights, rows))
        for rows in map(np.flatnonzero, (~is_held_out, is_held_out))
    )
    return train, validation


def n_held_out(divided: Divided) -> int:
    """Return how many rows are held out."""
    return 0 if divided[1] is None else len(divided[1].labels)


# What all workers know


@dataclass(frozen=True)
class Common:
    """What all workers know.

    Attributes
    ----------
    classes : ndarray of labels
    counts : ndarray of shape (n_classes,), float64
        Rows of each class, those of calls before and those that are held out included.
    whole : Whole
    factors : ndarray of shape (n_classes,), float64, or None
        What the weights of rows are multiplied by, by their class, and
    mean : float
        what they are divided by.
    """

    classes: NDArray[Any]
    counts: Doubles
    whole: Whole
    factors: Doubles | None
    mean: float


Counted = tuple[NDArray[Any], Doubles, Doubles]


def count(divided: Divided) -> Counted:
    """Return the classes of a worker, and two rows of numbers each of rows to train on and of those held out: how many
    each class has, and the sums of their weights; of several labels a row, whose weights nobody asks for, how many.
    """
    numbers = np.zeros((2, 2, divided[0].n_classes))
    for numbers_of_rows, points in zip(numbers, divided, strict=True):
        if points is not None:
            for sums, weights in zip(numbers_of_rows, (None, None if points.several else points.weights), strict=True):
                sums += np.bincount(points.labels.ids, weights, minlength=points.n_classes)
    return divided[0].classes, *numbers


def common_of(
    planner: Planner, origin: Origin, counted: Sequence[Counted], whole: dict[str, Any], mean: float | None
) -> Common:
    """Add up what workers have counted.

    Parameters
    ----------
    planner : Planner
    origin : Origin
    counted : sequence of Counted
        What `count` returned on each worker.
    whole : dict
        Fields of `Whole` beside the counts.
    mean : float or None
        What weights are divided by; None: their mean over rows to train on.

    Raises
    ------
    ValueError
        For labels of two kinds, a single class, or weights of classes that cannot be.
    """
    classes = all_classes([classes_of_worker for classes_of_worker, _, _ in counted])
    n, class_weight = len(classes), planner.parameters["class_weight"]
    if n < 2:
        raise ValueError(f"y has one class, {classes[0]!r}; at least two classes are needed")
    train, held_out_rows = np.zeros((2, 2, n))
    for classes_of_worker, train_of_worker, held_out_of_worker in counted:
        place = find_positions(classes_of_worker, classes, "y")
        train[:, place] += train_of_worker
        held_out_rows[:, place] += held_out_of_worker
    (n_trained, train_weights), (rows, weights) = train, train + held_out_rows
    factors = None
    if isinstance(class_weight, str):
        factors = weights.sum() / (n * weights)
    elif class_weight is not None:
        factors = times_class_weight(None, class_weight, np.arange(n), classes)
    if factors is not None and not factors.all():
        raise ValueError("class_weight has a weight of 0; leave the rows of that class out instead")
    if mean is None:
        mean = float((train_weights if factors is None else train_weights * factors).sum() / n_trained.sum())
    counts = Before.of(origin.state, classes, 0, Call()).counts + rows
    # Of a call, a class that only `classes` names is drawn like one with a row.
    draws = n_trained if origin.call is None else np.maximum(counts, 1.0)
    return Common(classes, counts, Whole(draws, **whole), factors, mean)


def weighted(points: Points, common: Common) -> Points:
    """Return points among all classes, with weights of mean 1 over all workers; None where all are equal."""
    points = among(points, common.classes)
    if points.weights is None and common.factors is None:
        return points
    row_weights = np.ones(len(points.labels)) if points.weights is None else points.weights
    if common.factors is not None:
        row_weights = row_weights * common.factors[points.labels.ids]
    return replace(points, weights=row_weights / common.mean)


def plan_rows(
    planner: Planner, origin: Origin, divided: Divided, common: Common, by_batches: bool, solver: Part | None
) -> tuple[Planned, FeatureScaling | None]:
    """Return what training is to be, and how features are scaled, by the rows of one worker.

    "auto" stands for what recipes say and, in a fit, trials. An untried ridge is by the rows of all.
    """
    points, n_rows_of_all = weighted(divided[0], common), common.whole.n_rows
    if origin.call is not None or by_batches:
        if points.several and planner.parameters.is_auto("model"):  # on a cluster it is a linear one
            planner = planner.changed(model="linear")
        planned, _, scaling = planner.plan_call(origin.state, points, replace(origin.call or Call(), shared=True))
        if origin.call is not None:
            plan = planned.plan
            more = passes_of_call(plan, origin.history, origin.call, n_rows_of_all)  # type: ignore[arg-type]
            more |= {"averaging": "none"} if isinstance(plan, PointsPlan) else {}
            planned = replace(planned, plan=replace(plan, **more))
        return planned, scaling
    parameters, chosen = planner.parameters, planner.check()
    model, x, scaling = linear_model(chosen), points.x, None
    if solver is not None:
        parameters, chosen = parameters.changed(solver=solver), replace(chosen, solver=solver)
    if model.get_params()["scaling"] == "standard":
        scaling = FeatureScaling.of(x, centre=bool(parameters["fit_intercept"]), weights=points.weights)
        x = scaling.apply(x)
    choice = Choice(parameters, replace(chosen, model=model), Facts.of(x, points.n_classes), by_steps=True)
    planned = plan_points(choice, replace(points, x=x))
    points_plan: Any = planned.plan
    if parameters.is_auto("alpha") and not planned.alpha_path and x.shape[0] < n_rows_of_all:
        alpha = points_plan.alpha * x.shape[0] / n_rows_of_all
        planned = replace(planned, plan=replace(points_plan, alpha=alpha), params={**planned.params, "alpha": alpha})
    return planned, scaling


def shard_of(
    divided: Divided, which: int, common: Common, scaling: FeatureScaling | None, like: Any, number: int, first: int
) -> Shard:
    """Return the rows to train on (0), or those held out (1), as training takes them: dense or sparse as W needs."""
    rows = divided[which]
    assert rows is not None
    points = weighted(rows, common)
    x = points.x if like is None else as_stored(points.x, sparse=like.sparse)
    indptr = points.labels.indptr if points.several else None
    return Shard(x if scaling is None else scaling.apply(x), points.labels.ids, points.weights, number, first, indptr)


class Loaded:
    """The rows of a fit on their workers, and what all workers know; all but numbers as futures.

    Attributes
    ----------
    shards : list of future of Shard
        Rows to train on.
    held_out : list of future of Shard or None
        Rows that are held out, where there are some.
    facts : list of RowFacts
    n_rows : list of int
        Rows to train on, by worker.
    n_held_out : list of int
        Rows held out, by worker.
    by_batches : bool
        Whether training is by minibatches.
    common : list of future of Common
        The same object on two workers, where there are two.
    whole : list of future of Whole
        As `common`.
    scaling : list of future of FeatureScaling or None
        As `common`.
    """

    def __init__(
        self, workers: Workers, planner: Planner, parts: list[list[Any]], numbers: list[list[int]], origin: Origin
    ) -> None:
        self.workers, self.planner, self.parts, self.numbers, self.origin = workers, planner, parts, numbers, origin
        rows = self._load()
        names, self.stops_early = planner.check().names, bool(planner.parameters.get("early_stopping", False))
        self.by_batches = not planner.trains_log_odds or steps_by_batches(names, self.several)
        if self.by_batches and self.stops_early:
            raise ValueError("early_stopping is True, which is for one label a row, point by point; set it to False")
        if origin.state is not None:
            self._check_fits(origin.state)
        self.largest = int(np.argmax([facts.n_rows for facts in self.facts]))
        self._hold_out(rows)
        self.n_rows = [facts.n_rows - n for facts, n in zip(self.facts, self.n_held_out, strict=True)]
        self.common = self._count()
        self.whole = workers.everywhere(attrgetter("whole"), self.common[0])
        self.scaling: list[Any] = []
        self.shards: list[Any] = [None] * len(self.facts)
        self.held_out: list[Any] = [None] * len(self.facts)
        [self.n_classes] = workers.gather([workers.submit(0, attrgetter("n_classes"), self.whole[0])])

    def _load(self) -> list[Any]:
        """Let workers load their rows; return those of workers that have some, the others being left out."""
        workers = self.workers
        rows = [self._rows(number) for number in range(len(self.numbers))]
        facts: list[RowFacts | None] = workers.gather(workers.each(facts_of, rows))
        filled = [number for number, facts_of_rows in enumerate(facts) if facts_of_rows is not None]
        if not filled:
            raise ValueError("X has no rows whose weight is above 0; at least two are needed")
        workers.places, self.numbers = [workers.places[n] for n in filled], [self.numbers[n] for n in filled]
        self.facts: list[RowFacts] = [facts_of_rows for facts_of_rows in facts if facts_of_rows is not None]
        check_alike(self.facts)
        self.several, self.sparse_labels = self.facts[0].n_columns > 0, self.facts[0].sparse_labels
        return [rows[number] for number in filled]

    def _hold_out(self, rows: Sequence[Any]) -> None:
        """Divide the rows of each worker in those to train on and those held out."""
        parameters = self.planner.parameters
        seed = parameters["random_state"]
        self.fraction = parameters.get("validation_fraction") if self.stops_early else None
        self.random = np.random.RandomState() if seed is None else fork(seed)
        self._groups_out: NDArray[np.int64] | None = None
        if self.fraction is not None:
            sizes = [sizes for sizes in self.workers.gather(self.workers.each(sizes_of_groups, rows)) if sizes]
            groups_out = draw_groups(sizes, self.fraction, fork(self.random)) if sizes else None
            self._groups_out = groups_out if len(rows) > 1 else None
        self._divided = [self._divide(number, points) for number, points in enumerate(rows)]
        self.n_held_out = self.workers.gather(self.workers.each(n_held_out, self._divided))
        if self.stops_early and not any(self.n_held_out):
            raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")

    def _rows(self, number: int) -> Any:
        parts = [dask.delayed(pack, pure=False)(*self.parts[part]) for part in self.numbers[number]]
        return self.workers.submit(number, load, self.planner, self.origin.known, self.workers.compute(number, parts))

    def _divide(self, number: int, rows: Any) -> Any:
        return self.workers.submit(number, divide, rows, self.random, self.fraction, number, self._groups_out)

    def _count(self) -> list[Any]:
        """Count the rows of each class, and make what all workers know."""
        origin, first = self.origin, self.facts[0]
        counted = self.workers.each(count, self._divided)
        mean = None if origin.call is None else 1.0
        if self.several and mean is None:
            mean = sum(facts.weight for facts in self.facts) / sum(facts.n_rows for facts in self.facts)
        sparse = first.sparse and not self.by_batches
        whole = {
            "n_shards": len(self.facts),
            "n_features": first.n_features,
            "n_rows": sum(self.n_rows),
            "sparse": sparse if origin.state is None or self.by_batches else origin.state.weights.sparse,
            "goes_on": origin.call is not None or origin.history.n_fit > 0,
        }
        return self.workers.everywhere(common_of, self.planner, origin.without_model, counted, whole, mean)

    def plan(self, solver: Part | None = None) -> Planned:
        """Find out what "auto" stands for, but for a solver that is given, and make the shards."""
        workers, largest = self.workers, self.largest
        arguments = (self.origin.without_model, self._divided[largest], self.common[0], self.by_batches, solver)
        plan_and_scaling = workers.submit(largest, plan_rows, self.planner, *arguments)
        planned: Planned
        [planned] = workers.gather([workers.submit(largest, itemgetter(0), plan_and_scaling)])
        self.scaling = workers.everywhere(itemgetter(1), plan_and_scaling)
        self._make_shards(range(len(self.numbers)))
        workers.wait([*self.shards, *filter(None, self.held_out), *self.whole, *self.scaling])
        return planned

    def _make_shards(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.shards[number] = self._shard(number, 0)
            self.held_out[number] = self._shard(number, 1) if self.n_held_out[number] else None
            self._divided[number] = None  # the rows are in the shards

    def _shard(self, number: int, which: int) -> Any:
        first = self.origin.history.n_points + sum(self.n_rows[:number]) if which == 0 else 0
        like = None if self.origin.state is None or self.by_batches else self.origin.state.weights
        arguments = (self._divided[number], which, self.common[0], self.scaling[0], like, number, first)
        return self.workers.submit(number, shard_of, *arguments)

    def restore(self, moved: list[int], lost: frozenset[str]) -> None:
        """Make the shards of lost workers again; raises LostWorkerError where what all know is lost with them."""
        for name in ("common", "whole", "scaling"):
            setattr(self, name, self.workers.survivors(getattr(self, name), lost))
        for number in moved:
            self._divided[number] = self._divide(number, self._rows(number))
        self._make_shards(moved)

    def _check_fits(self, state: State) -> None:
        """Raise ValueError where data or parameters are of another model than the one that is there."""
        n, kinds = self.facts[0].n_features, ("one label a row", "an indicator matrix of labels")
        if state.features.n != n:
            raise ValueError(
                f"X has {n} features, but the model has {state.features.n}; partial_fit on a cluster takes as many as "
                "before"
            )
        if state.several != self.several:
            raise ValueError(f"y has {kinds[self.several]}; the model was trained with {kinds[state.several]}")
        by_batches = state.weights.kind == "phi" or state.weights.by_minibatches
        if not (by_batches if self.by_batches else state.weights.is_linear):
            raise ValueError(
                f"solver is {self.planner.parameters['solver']!r}; partial_fit goes on with the model that is there, "
                "which was trained otherwise: leave it as it was"
            )
