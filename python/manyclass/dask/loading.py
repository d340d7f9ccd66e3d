"""Parts of what a user gives, the rows of a fit on their workers, checked and numbered, and what all know of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import dask
import dask.array
import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed
from distributed import Client, Future, futures_of
from numpy.typing import NDArray

from manyclass.checks import check_choice, shown
from manyclass.choosing.costs import Facts, Planned
from manyclass.choosing.plans import linear_model
from manyclass.choosing.recipes import Choice, steps_by_batches
from manyclass.dask.passes import Shard, Whole
from manyclass.dask.workers import Workers
from manyclass.datasets import first_label, load_xmc
from manyclass.fitting.planner import Planner
from manyclass.fitting.points import Known, as_stored, points_of, times_class_weight
from manyclass.fitting.trials import plan_points
from manyclass.labels import as_labels, find_positions, group_ids, is_indicator, sorted_classes, written
from manyclass.parts import Part
from manyclass.training.incremental import Before, Call, passes_of_call
from manyclass.training.passes import fork
from manyclass.training.plan import PointsPlan, first_groups, held_out, shuffle_groups, spare_labels
from manyclass.training.state import History, Points, State, taken
from manyclass.weights.weights import FeatureScaling

# Parts of what a user gives as data: dask arrays, data frames, delayed parts and files

KINDS = "a dask array, DataFrame or Series, a list of delayed parts or futures, or (X alone) of files of XMC's form"

KNOWN = "compute_chunk_sizes() of an array makes its chunks known, and they are then divided anew"

Columns = tuple[Any, Any, Any, Any]  # x, y, weights or None, and labels of groups or None


def n_rows(x: Any) -> int:
    """Return the rows of a part of whatever kind."""
    return int(np.shape(x)[0])


def pack(*columns: Any) -> Columns:
    """Return a part as (x, y, weights or None, groups or None); a part of files is x and y already."""
    if isinstance(columns[0], tuple):
        columns = (*columns[0], *columns[1:])
    x, y, weights, groups = (*columns, None, None, None)[:4]
    return x, y, weights, groups


def parts_of(data: Any, name: str, labels: str = "first") -> list[Any]:
    """Return the parts of a collection, each a Delayed or a future of rows.

    Raises
    ------
    TypeError
        If it is no collection; data in the memory of one process are for the estimators of one machine.
    ValueError
        If an array is divided by columns, too, and into chunks of unknown width.
    """
    if isinstance(data, dask.array.Array):
        if all(len(chunks) == 1 for chunks in data.chunks[1:]):
            return list(data.to_delayed().ravel())
        if np.isnan(np.concatenate(data.chunks[1:])).any():
            raise ValueError(f"{name} is divided by columns into chunks of unknown width; {KNOWN}")
        return list(data.rechunk(dict.fromkeys(range(1, data.ndim), -1)).to_delayed().ravel())
    if hasattr(data, "to_delayed") and hasattr(data, "npartitions"):  # of dask.dataframe, which need not be there
        return list(data.to_delayed())
    if isinstance(data, list | tuple) and data:
        if all(isinstance(part, Delayed | Future) for part in data):
            return list(data)
        if name == "X" and are_files(data):
            return [dask.delayed(read_file, pure=True)(os.fspath(part), labels) for part in data]
    raise TypeError(f"{name} is a {type(data).__name__}; it must be {KINDS}")


def read_file(path: str, labels: str) -> tuple[Any, Any]:
    """Read rows with their first labels, or all of them, from a file; rows without a label are left out."""
    X, Y = load_xmc(path)
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    return X[labelled], Y[labelled] if labels == "all" else first_label(Y[labelled])


def are_files(X: Any) -> bool:
    """Return whether X is a list of files, which have the labels in them."""
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(part, str | os.PathLike) for part in X)


def aligned(X: Any, y: Any, sample_weight: Any, labels: str = "first", groups: Any = None) -> list[list[Any]]:
    """Return, for each part, its rows of X, of y (unless X is a list of files), of the weights and of the groups.

    Raises
    ------
    ValueError
        If X, y, the weights and the groups have different numbers of parts.
    TypeError
        As `parts_of`.
    """
    check_choice("labels", labels, ("first", "all"))
    files = are_files(X)
    if labels == "all" and not files:
        raise ValueError("labels is 'all', which is for files; of several labels a row, give an indicator matrix as y")
    if files != (y is None):
        was = "None" if y is None else "given"
        raise ValueError(f"y is {was}; a list of files as X has the labels with it, and anything else needs y")
    columns = [parts_of(X, "X", labels)]
    beside = {"sample_weight": sample_weight, "groups": groups}
    for name, other in (beside if files else {"y": y, **beside}).items():
        if other is None:
            columns.append([None] * len(columns[0]))
            continue
        columns.append(parts_of(_divided_as(X, other), name))
        if len(columns[-1]) != len(columns[0]):
            n, n_beside = len(columns[0]), len(columns[-1])
            raise ValueError(f"X has {n} parts, {name} has {n_beside}; they must be divided alike: {KNOWN}")
    return [list(part) for part in zip(*columns, strict=True)]


def _divided_as(X: Any, other: Any) -> Any:
    """Divide another array as X is, where both have as many rows; chunks of unknown length stay as they are."""
    if not isinstance(X, dask.array.Array) or not isinstance(other, dask.array.Array):
        return other
    rows, other_rows = X.chunks[0], other.chunks[0]
    as_many = sum(rows) == sum(other_rows)  # a sum of NaN equals nothing
    return other.rechunk({0: rows}) if as_many and rows != other_rows else other


def homes(client: Client, X: Any, parts: Sequence[list[Any]], places: Sequence[str]) -> list[str]:
    """Return a worker for each part: the one that holds its rows, else the workers in turn, neighbours together.

    Where the parts go depends on nothing else, so that a fit of the same parts by as many workers is the same again.
    """
    there = client.who_has([part[0] for part in parts if isinstance(part[0], Future)] or futures_of(X))
    home = {str(key): sorted(set(holders) & set(places)) for key, holders in there.items()}
    in_turn = (places[number * len(places) // len(parts)] for number in range(len(parts)))
    return [next(iter(home.get(str(part[0].key), [])), place) for part, place in zip(parts, in_turn, strict=True)]


# The rows of a worker


class RowFacts(NamedTuple):
    """What the client learns of the rows of a worker: numbers, all but the last three alike on all workers.

    `label_columns` are those of an indicator matrix, 0: there is a label a row. `stored` counts the values of X, of
    sparse ones those that are stored. `weight` is the sum of the weights.
    """

    n_features: int
    sparse: bool
    names: tuple[str, ...] | None
    label_columns: int
    sparse_labels: bool
    weighted: bool
    grouped: bool
    n_rows: int
    stored: int
    weight: float


def facts_of(points: Points | None) -> RowFacts | None:
    """Return what the client must know of the rows; None where there are none."""
    if points is None:
        return None
    x, names, weights = points.x, points.features.names, points.weights
    of_x = x.shape[1], isinstance(x, sp.csr_array), None if names is None else tuple(map(str, names))
    of_y = points.n_classes if points.several else 0, points.sparse_labels
    weight = float(x.shape[0] if weights is None else weights.sum())
    sizes: Any = x.shape[0], int(x.size), weight
    return RowFacts(*of_x, *of_y, weights is not None, points.groups is not None, *sizes)


def check_alike(facts: Sequence[RowFacts]) -> None:
    """Raise ValueError where parts, or the rows of workers, are of several kinds."""
    for name, kinds in zip([*RowFacts.__annotations__][:-3], zip(*facts, strict=True), strict=False):
        for kind in kinds:
            if kind != kinds[0]:
                differ = f"{name} is {kinds[0]!r} in one, {kind!r} in another"
                raise ValueError(f"parts of X, y or their weights differ: {differ}")


def load(planner: Planner, known: NDArray[Any] | None, parts: Sequence[Columns]) -> Points | None:
    """Check the parts of a worker, and put their rows together; return None where there are no rows.

    Raises
    ------
    ValueError
        For what `fit` raises it on one machine.
    """
    checked = [checked_part(planner, known, part) for part in parts if n_rows(part[0])]
    check_alike([facts for facts in map(facts_of, checked) if facts is not None])
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
    return reduce(lambda classes, more: sorted_classes(more, classes)[0], parts)


def among(points: Points, classes: NDArray[Any]) -> Points:
    """Return points with their places among all classes."""
    place = find_positions(points.classes, classes, "y")
    return replace(points, labels=replace(points.labels, ids=place[points.labels.ids]), classes=classes)


Divided = tuple[Points, Points | None]  # the rows of a worker to train on, and those that are held out
Drawn = tuple[np.random.RandomState, float | None, NDArray[np.int64] | None]  # what draws, the share, and groups
Sizes = tuple[NDArray[np.int64], NDArray[np.int64]]  # the numbers of groups, and how many rows they have


def sizes_of_groups(points: Points) -> Sizes | None:
    """Return the groups of the rows of a worker; None where there are none."""
    return None if points.groups is None else np.unique(points.groups, return_counts=True)


def draw_groups(sizes: Sequence[Sizes], fraction: float, random: np.random.RandomState) -> NDArray[np.int64]:
    """Draw which groups are held out, of those of all workers; raises ValueError where there is but one."""
    groups, places = np.unique(np.concatenate([numbers for numbers, _ in sizes]), return_inverse=True)
    if len(groups) < 2:
        raise ValueError("groups has one group; whole groups are held out, so that there must be two: leave it None")
    rows_of_groups = np.bincount(places, np.concatenate([counts for _, counts in sizes])).astype(np.int64)
    n_out = max(1, round(fraction * rows_of_groups.sum()))
    return groups[first_groups(rows_of_groups, shuffle_groups(rows_of_groups, n_out, random), n_out)]


def divide(points: Points, number: int, drawn: Drawn) -> Divided:
    """Draw the rows of a worker that are held out, as on one machine; none where no class has two rows there.

    Where several workers have groups these are drawn before, for all of them.
    """
    random, fraction, groups_out = drawn
    if fraction is None or np.bincount(points.labels.ids).max() < 2:
        return points, None
    if points.groups is not None and groups_out is not None:
        is_held_out = spare_labels(np.isin(points.groups, groups_out), points.labels)
    else:
        generator = fork(random)
        if number:
            generator = np.random.RandomState([generator.randint(2**31 - 1), number])
        is_held_out = held_out(points.labels.ids, fraction, generator, points.groups)
    if not is_held_out.any():
        return points, None
    places = map(np.flatnonzero, (~is_held_out, is_held_out))
    train, validation = (replace(points.some(rows), weights=taken(points.weights, rows)) for rows in places)
    return train, validation


def n_held_out(divided: Divided) -> int:
    """Return how many rows are held out."""
    return 0 if divided[1] is None else len(divided[1].labels)


# What all workers know


Counted = tuple[NDArray[Any], NDArray[np.float64]]


def count(divided: Divided) -> Counted:
    """Return the classes of a worker, and of rows to train on and of those held out two rows of numbers each: how many
    each class has, and the sums of their weights; of several labels a row, whose weights nobody asks for, how many.
    """
    n_classes = divided[0].n_classes
    numbers = np.zeros((2, 2, n_classes))
    for which, points in enumerate(divided):
        if points is not None:
            weights = None if points.several else points.weights
            numbers[which] = [np.bincount(points.labels.ids, sums, minlength=n_classes) for sums in (None, weights)]
    return divided[0].classes, numbers


@dataclass(frozen=True)
class Origin:
    """What a call of `partial_fit` goes on from; of a fit there is none.

    Attributes
    ----------
    call : Call or None
    state : State or None
        The model that a call goes on from, without W.
    known : ndarray or None
        The classes that are known before the rows.
    """

    call: Call | None = None
    state: State | None = None
    known: NDArray[Any] | None = None


def whole_of(
    planner: Planner, origin: Origin, counted: Sequence[Counted], facts: dict[str, Any], mean: float | None
) -> Whole:
    """Add up what workers have counted.

    Parameters
    ----------
    planner : Planner
    origin : Origin
    counted : sequence of Counted
        What `count` returned on each worker.
    facts : dict
        Fields of `Whole`.
    mean : float or None
        What weights are divided by; None: their mean over rows to train on.

    Raises
    ------
    ValueError
        For labels of two kinds, a single class, or weights of classes that cannot be.
    """
    classes = all_classes([classes_of_worker for classes_of_worker, _ in counted])
    n, class_weight = len(classes), planner.parameters["class_weight"]
    if n < 2:
        raise ValueError(f"y has one class, {shown(classes[0])}; at least two classes are needed")
    numbers, factors = np.zeros((2, 2, n)), None
    for classes_of_worker, numbers_of_worker in counted:
        numbers[..., find_positions(classes_of_worker, classes, "y")] += numbers_of_worker
    (n_trained, train_weights), (rows, weights) = numbers[0], numbers.sum(axis=0)
    if isinstance(class_weight, str):
        factors = weights.sum() / (n * weights)
    elif class_weight is not None:
        factors = times_class_weight(None, class_weight, np.arange(n), classes)
    if factors is not None and not factors.all():
        raise ValueError("class_weight has a weight of 0; leave the rows of that class out instead")
    if mean is None:
        mean = float((train_weights if factors is None else train_weights * factors).sum() / n_trained.sum())
    n_seen = Before.of(origin.state, classes, 0, Call()).counts + rows
    # Of a call, a class that only `classes` names is drawn like one with a row.
    counts = n_trained if origin.call is None else np.maximum(n_seen, 1.0)
    return Whole(counts, classes=classes, n_seen=n_seen, factors=factors, mean=mean, **facts)


def weighted(points: Points, whole: Whole) -> Points:
    """Return points among all classes, with weights of mean 1 over all workers; None where all are equal."""
    points = among(points, whole.classes)
    if points.weights is None and whole.factors is None:
        return points
    row_weights = np.ones(len(points.labels)) if points.weights is None else points.weights
    if whole.factors is not None:
        row_weights = row_weights * whole.factors[points.labels.ids]
    return replace(points, weights=row_weights / whole.mean)


def plan_rows(
    planner: Planner, origin: Origin, divided: Divided, whole: Whole, by_batches: bool, solver: Part | None
) -> tuple[Planned, Whole]:
    """Return what training is to be, and what all workers know with how features are scaled, by rows of one worker.

    "auto" stands for what recipes say and, in a fit, trials. An untried ridge is by the rows of all.
    """
    points, call, state = weighted(divided[0], whole), origin.call, origin.state
    if call is not None or by_batches:
        if points.several and planner.parameters.is_auto("model"):  # on a cluster it is a linear one
            planner = planner.changed(model="linear")
        planned, _, scaling = planner.plan_call(state, points, replace(call or Call(), shared=True))
        if call is not None:
            plan, history = planned.plan, History() if state is None else state.history
            more = passes_of_call(plan, history, call, whole.n_rows)  # type: ignore[arg-type]
            more |= {"averaging": "none"} if isinstance(plan, PointsPlan) else {}
            planned = replace(planned, plan=replace(plan, **more))
        return planned, replace(whole, scaling=scaling)
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
    if parameters.is_auto("alpha") and not planned.alpha_path and x.shape[0] < whole.n_rows:
        alpha = points_plan.alpha * x.shape[0] / whole.n_rows
        planned = replace(planned, plan=replace(points_plan, alpha=alpha), params={**planned.params, "alpha": alpha})
    return planned, replace(whole, scaling=scaling)


def shard_of(divided: Divided, whole: Whole, by_batches: bool, number: int, first: int) -> Shard:
    """Return the rows to train on, and those held out, as training takes them: dense or sparse as W needs."""
    rows, rows_out = divided
    points, validation = weighted(rows, whole), None
    if rows_out is not None:
        validation = shard_of((rows_out, None), whole, by_batches, number, 0)
    x = points.x if by_batches else as_stored(points.x, sparse=whole.sparse)
    x = x if whole.scaling is None else whole.scaling.apply(x)
    indptr = points.labels.indptr if points.several else None
    return Shard(x, points.labels.ids, points.weights, number, first, indptr, validation)


class Loaded:
    """The rows of a fit on their workers, and what all workers know; all but numbers as futures.

    Attributes
    ----------
    shards : list of future of Shard
    facts : list of RowFacts
    n_held_out : list of int
        Rows held out, by worker.
    by_batches : bool
        Whether training is by minibatches.
    whole : list of future of Whole
        The same object on two workers, where there are two.
    call : Call or None
        Of `partial_fit`; None of a fit.
    state : State or None
        The model that a call goes on from, without W.
    """

    def __init__(
        self, workers: Workers, planner: Planner, parts: list[list[Any]], numbers: list[list[int]], origin: Origin
    ) -> None:
        self.workers, self.planner, self.parts, self.numbers = workers, planner, parts, numbers
        self.call, self.state, self._known = origin.call, origin.state, origin.known
        self.origin, state = replace(origin, known=None), origin.state
        self.history = History() if state is None else state.history
        rows = self._load()
        stops_early = bool(planner.parameters.get("early_stopping", False))
        self.by_batches = not planner.trains_log_odds or steps_by_batches(planner.check().names, self.several)
        if self.by_batches and stops_early:
            raise ValueError("early_stopping is True, which is for one label a row, point by point; set it to False")
        if state is not None:
            self._check_fits(state)
        self.largest = int(np.argmax([facts.n_rows for facts in self.facts]))
        self._hold_out(rows, planner.parameters.get("validation_fraction") if stops_early else None)
        self._n_rows = [facts.n_rows - n for facts, n in zip(self.facts, self.n_held_out, strict=True)]
        self.whole = self._count()
        self.shards: list[Any] = [None] * len(self.facts)
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
        self.several = self.facts[0].label_columns > 0
        return [rows[number] for number in filled]

    def _hold_out(self, rows: Sequence[Any], fraction: float | None) -> None:
        """Divide the rows of each worker in those to train on and those held out."""
        seed, groups_out = self.planner.parameters["random_state"], None
        random = np.random.RandomState() if seed is None else fork(seed)
        if fraction is not None:
            sizes = [sizes for sizes in self.workers.gather(self.workers.each(sizes_of_groups, rows)) if sizes]
            groups_out = draw_groups(sizes, fraction, fork(random)) if sizes else None
        self._drawn = (random, fraction, groups_out if len(rows) > 1 else None)
        self._divided = [self._divide(number, points) for number, points in enumerate(rows)]
        self.n_held_out = self.workers.gather(self.workers.each(n_held_out, self._divided))
        if fraction is not None and not any(self.n_held_out):
            raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")

    def _rows(self, number: int) -> Any:
        workers, parts = self.workers, [dask.delayed(pack, pure=False)(*self.parts[n]) for n in self.numbers[number]]
        # Others compute a part where its worker is gone.
        computed = workers.client.compute(parts, workers=[workers.places[number]], allow_other_workers=True)
        return workers.submit(number, load, self.planner, self._known, computed)

    def _divide(self, number: int, rows: Any) -> Any:
        return self.workers.submit(number, divide, rows, number, self._drawn)

    def _count(self) -> list[Any]:
        """Count the rows of each class, and make what all workers know."""
        first, mean = self.facts[0], None if self.call is None else 1.0
        if self.several and mean is None:
            mean = sum(facts.weight for facts in self.facts) / sum(facts.n_rows for facts in self.facts)
        sparse = not self.by_batches and (first.sparse if self.state is None else self.state.weights.sparse)
        facts: dict[str, Any] = {"n_shards": len(self.facts), "n_features": first.n_features}
        facts |= {"n_rows": sum(self._n_rows), "sparse": sparse, "goes_on": self.call is not None}
        counted = self.workers.each(count, self._divided)
        return self.workers.everywhere(whole_of, self.planner, self.origin, counted, facts, mean)

    def plan(self, solver: Part | None = None) -> Planned:
        """Find out what "auto" stands for, but for a solver that is given, and make the shards."""
        workers, i = self.workers, self.largest
        arguments = (self.origin, self._divided[i], self.whole[0], self.by_batches, solver)
        planned_and_whole = workers.submit(i, plan_rows, self.planner, *arguments)
        planned: Planned
        [planned] = workers.gather([workers.submit(i, itemgetter(0), planned_and_whole)])
        self.whole = workers.everywhere(itemgetter(1), planned_and_whole)
        self._make_shards(range(len(self.numbers)))
        workers.wait([*self.shards, *self.whole])
        return planned

    def _make_shards(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            first = self.history.n_points + sum(self._n_rows[:number])
            arguments = (self._divided[number], self.whole[0], self.by_batches, number, first)
            self.shards[number] = self.workers.submit(number, shard_of, *arguments)
            self._divided[number] = None  # the rows are in the shards

    def restore(self, moved: list[int], lost: frozenset[str]) -> None:
        """Make the shards of lost workers again; raises LostWorkerError where what all know is lost with them."""
        self.whole = self.workers.survivors(self.whole, lost)
        for number in moved:
            self._divided[number] = self._divide(number, self._rows(number))
        self._make_shards(moved)

    def _check_fits(self, state: State) -> None:
        """Raise ValueError where data or parameters are of another model than the one that is there."""
        n, kinds = self.facts[0].n_features, ("one label a row", "an indicator matrix of labels")
        if state.features.n != n:
            raise ValueError(f"X has {n} features; on a cluster partial_fit takes {state.features.n}, as before")
        if state.several != self.several:
            raise ValueError(f"y has {kinds[self.several]}; the model was trained with {kinds[state.several]}")
        by_batches = state.weights.kind == "phi" or state.weights.by_minibatches
        if not (by_batches if self.by_batches else state.weights.is_linear):
            solver = self.planner.parameters["solver"]
            raise ValueError(f"solver is {solver!r}, but the model was trained otherwise; leave it as it was")
