"""What workers make of their parts before training: checked rows, the classes of all, weights, shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import canonical_csr, validated_data
from manyclass.choosing.facts import Facts
from manyclass.choosing.planning import plan_points
from manyclass.choosing.plans import linear_model
from manyclass.choosing.rules import Choice
from manyclass.choosing.trials import Planned
from manyclass.classifiers.base import caller_of, planner_of
from manyclass.classifiers.data import as_stored, indicator_lists, is_indicator, labels_of_columns
from manyclass.classifiers.planner import Planner
from manyclass.classifiers.targets import check_targets, find_positions, sorted_classes
from manyclass.dask.merging import coupling_of
from manyclass.dask.partial_fit import settle_batches_of
from manyclass.dask.shards import Shard, Whole
from manyclass.training.plan import PointsPlan
from manyclass.training.validation import fork, held_out
from manyclass.training.weighting import raw_weights, times_class_weight
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.scaling import FeatureScaling


@dataclass(frozen=True)
class Rows:
    """The checked rows of a worker.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_rows, n_features), float32
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_classes)
        A label a row, or an indicator matrix; rows without a label are left out.
    weights : ndarray of shape (n_rows,), float64, or None
        As they were given; rows of weight 0 are left out.
    names : ndarray of shape (n_features,) or None
        Of the features.
    sparse_labels : bool
        Whether an indicator matrix was sparse.
    """

    x: Matrix
    y: Any
    weights: Doubles | None
    names: NDArray[Any] | None
    sparse_labels: bool = False

    @property
    def several(self) -> bool:
        """Whether rows may have several labels."""
        return bool(sp.issparse(self.y))

    def some(self, kept: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        own = None if self.weights is None else self.weights[kept]
        return replace(self, x=self.x[kept], y=self.y[kept], weights=own)


@dataclass(frozen=True)
class Told:
    """What the client learns of the rows of a worker: numbers.

    Attributes
    ----------
    n_rows, n_features : int
    sparse, weighted : bool
    names : tuple of str or None
    n_columns : int
        Of an indicator matrix; 0: there is a label a row.
    sparse_labels : bool
        Whether that was sparse.
    weight : float
        Sum of the weights of the rows.
    """

    n_rows: int
    n_features: int
    sparse: bool
    weighted: bool
    names: tuple[str, ...] | None
    n_columns: int = 0
    sparse_labels: bool = False
    weight: float = 0.0


def pack(*columns: Any) -> tuple[Any, Any, Any]:
    """A part as (x, y, weights or None); a part of files is x and y already."""
    if isinstance(columns[0], tuple):
        columns = (*columns[0], *columns[1:])
    return columns if len(columns) == 3 else (*columns, None)


def n_rows(x: Any) -> int:
    """Rows of a part of whatever kind."""
    return int(np.shape(x)[0])


def stack(owner: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Rows | None:
    """Check the parts of a worker, and put their rows together; None where there are none.

    Raises
    ------
    ValueError
        For what the estimator's `fit` raises it.
    """
    some = [part for part in parts if n_rows(part[0])]
    if not some:
        return None
    checked = [_checked(owner, *part) for part in some]
    if len(checked) == 1:
        return checked[0]
    xs, ys, ws = ([getattr(rows, name) for rows in checked] for name in ("x", "y", "weights"))
    for name in ("several", "sparse_labels"):
        if len({getattr(rows, name) for rows in checked}) > 1:
            raise ValueError("parts of y differ: they must be all labels, all dense or all sparse indicator matrices")
    if len({own.shape[1] for own in ys if own.ndim == 2}) > 1:
        raise ValueError("parts of y differ: they have other numbers of columns")
    own = None if ws[0] is None else np.concatenate(ws)
    return replace(checked[0], x=_stacked(xs), y=_stacked(ys), weights=own)


def _stacked(some: Sequence[Any]) -> Any:
    """One array or matrix of several."""
    return canonical_csr(sp.vstack(some, format="csr")) if sp.issparse(some[0]) else np.concatenate(some)


def _checked(owner: Any, x: Any, y: Any, weights: Any) -> Rows:
    noted = caller_of(owner).noted()
    check_targets(y)
    several = is_indicator(y)
    given: Any = indicator_lists(y, n_rows(x)) if several else np.asarray(y)
    if not several and given.ndim == 2:
        given = given[:, 0]
    if not several and (given.ndim != 1 or len(given) != n_rows(x)):
        raise ValueError(f"a part of X has {n_rows(x)} rows, that of y has shape {given.shape}; it must be as many")
    made = validated_data(noted, x, accept_sparse="csr", dtype=np.float32, order="C")
    matrix: Matrix = canonical_csr(made) if isinstance(made, sp.csr_matrix | sp.csr_array) else np.asarray(made)
    own = None if weights is None else raw_weights(np.asarray(weights), n_rows(x))
    found = Rows(matrix, given, own, getattr(noted, "feature_names_in_", None), bool(sp.issparse(y)))
    counts = np.diff(given.indptr) > 0 if several else np.ones(given.shape[0], dtype=bool)
    if own is not None:
        counts = counts & (own > 0)
    return found if counts.all() else found.some(np.flatnonzero(counts))


def tell(rows: Rows | None) -> Told | None:
    """Tell of the rows what the client must know."""
    if rows is None or not n_rows(rows.x):
        return None
    return Told(
        n_rows=rows.x.shape[0],
        n_features=rows.x.shape[1],
        sparse=isinstance(rows.x, sp.csr_array),
        weighted=rows.weights is not None,
        names=None if rows.names is None else tuple(map(str, rows.names)),
        n_columns=rows.y.shape[1] if rows.several else 0,
        sparse_labels=rows.sparse_labels,
        weight=float(rows.x.shape[0] if rows.weights is None else rows.weights.sum()),
    )


def classes_of(rows: Rows, known: NDArray[Any] | None) -> NDArray[Any]:
    """Distinct labels of a worker's rows, and those that are known."""
    return labels_of_columns(rows.y.shape[1], known) if rows.several else sorted_classes(rows.y, known)[0]


def all_classes(some: Sequence[NDArray[Any]], several: bool) -> NDArray[Any]:
    """Return the classes of all workers; raises ValueError for labels of two kinds, or a single class."""
    classes = some[0]
    for more in some[1:]:
        classes = sorted_classes(more, classes)[0]
    if several and len(classes) < 2:
        raise ValueError(f"y has {len(classes)} columns; at least two classes are needed")
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes[0]!r}; at least two classes are needed")
    return classes


def labels_of(rows: Rows, classes: NDArray[Any]) -> Ids:
    """Places of the labels of all rows among the classes."""
    return rows.y.indices.astype(np.int32) if rows.several else find_positions(rows.y, classes, "y")


def counts_of(rows: Rows, classes: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """Rows of each class, and the sums of their weights; of several labels a row, rows both times, as nobody asks."""
    places = labels_of(rows, classes)
    if rows.several:
        found = np.bincount(places, minlength=len(classes)).astype(np.float64)
        return found, found
    counts = np.bincount(places, minlength=len(classes)).astype(np.float64)
    return counts, counts if rows.weights is None else np.bincount(places, rows.weights, minlength=len(classes)).astype(
        np.float64
    )


def sum_counts(some: Sequence[tuple[Doubles, Doubles]]) -> tuple[Doubles, Doubles]:
    """Those of all workers, in their order."""
    counts, weights = some[0]
    for more, more_weights in some[1:]:
        counts, weights = counts + more, weights + more_weights
    return counts, weights


def whole_of(counts: Doubles, n_shards: int, n_features: int, n_rows: int, sparse: bool, goes_on: bool) -> Whole:
    """What each worker knows of all."""
    return Whole(counts, n_shards, n_features, n_rows, sparse, goes_on)


def class_weights(
    owner: Any,
    counts: tuple[Doubles, Doubles],
    trained: tuple[Doubles, Doubles],
    classes: NDArray[Any],
    mean: float | None,
) -> tuple[Doubles | None, float]:
    """Factors of the weights of rows by their class, or None, and what weights are divided by with them: `mean`, or
    where it is None their mean over the rows that are `trained` on."""
    weights = counts[1]
    factors: Doubles | None = None
    if isinstance(owner.class_weight, str):
        factors = weights.sum() / (len(classes) * weights)
    elif owner.class_weight is not None:
        factors = times_class_weight(None, owner.class_weight, np.arange(len(classes)), classes)
    if factors is not None and not factors.all():
        raise ValueError("class_weight has a weight of 0; leave the rows of that class out instead")
    n, weights = trained
    total = weights if factors is None else weights * factors
    return factors, float(total.sum() / n.sum()) if mean is None else mean


def weigh_rows(rows: Rows, factors: tuple[Doubles | None, float], classes: NDArray[Any]) -> Doubles | None:
    """Weights of rows with mean 1 over all workers; None where all are equal."""
    of_classes, mean = factors
    if rows.weights is None and of_classes is None:
        return None
    own = np.ones(n_rows(rows.x)) if rows.weights is None else rows.weights
    if of_classes is not None:
        own = own * of_classes[find_positions(rows.y, classes, "y")]
    return own / mean


# What training is settled by


def scaling_of(owner: Any, rows: Rows, weights: Doubles | None) -> FeatureScaling | None:
    """How features are scaled, by the rows of one worker."""
    chosen = owner.check_parameters()
    if linear_model(chosen).get_params()["scaling"] == "none":
        return None
    return FeatureScaling.of(rows.x, centre=bool(owner.fit_intercept), weights=weights)


def shard_of(
    rows: Rows,
    classes: NDArray[Any],
    weights: Doubles | None,
    scaling: FeatureScaling | None,
    number: int,
    first: int,
    like: Any = None,
) -> Shard:
    """The rows as training takes them, dense or sparse as W that is there needs them."""
    x = as_stored(like, rows.x)
    x = x if scaling is None else scaling.apply(x)
    indptr = rows.y.indptr.astype(np.int64) if rows.several else None
    return Shard(x, labels_of(rows, classes), weights, number, first, indptr)


# Rows that are held out


def hold_out(
    rows: Rows, classes: NDArray[Any], random: np.random.RandomState, fraction: float, number: int
) -> NDArray[np.bool_]:
    """Draw which rows of a worker validate, as on one machine; none where no class has two rows there."""
    own = fork(random)
    if number:
        own = np.random.RandomState([own.randint(2**31 - 1), number])
    labels = labels_of(rows, classes)
    if np.bincount(labels).max() < 2:
        return np.zeros(len(labels), dtype=bool)
    return held_out(labels, fraction, own)


def count(mask: NDArray[np.bool_]) -> int:
    """Rows that are held out."""
    return int(mask.sum())


def part_of(rows: Rows, mask: NDArray[np.bool_], held: bool) -> Rows:
    """The rows that are held out, or those that are not."""
    return rows.some(np.flatnonzero(mask == held))


def settle_on(owner: Any, shard: Shard, n_classes: int, n_rows_of_all: int, by_batches: bool) -> Planned:
    """What "auto" stands for, by rules and by trials on the rows of one worker.

    An untried ridge is by the rows of all.
    """
    if by_batches:
        return settle_batches_of(planner_of(owner), shard.x, n_classes)
    planner: Planner = planner_of(owner)
    chosen = planner.check()
    chosen = replace(chosen, model=linear_model(chosen))
    choice = Choice(planner.parameters, chosen, Facts.of(shard.x, n_classes), by_steps=True)
    settled = plan_points(choice, shard.labels, shard.weights)
    if owner.alpha == "auto" and not settled.alpha_path and len(shard) < n_rows_of_all:
        points = settled.plan
        assert isinstance(points, PointsPlan)
        alpha = points.alpha * len(shard) / n_rows_of_all
        plan = replace(points, alpha=alpha)
        settled = replace(settled, plan=plan, params={**settled.params, "alpha": alpha})
    return settled


def size_of(shard: Shard) -> tuple[int, int, float]:
    """Rows, values that are not 0, and the sum of their squares."""
    values = shard.x.data if isinstance(shard.x, sp.csr_array) else shard.x.ravel()
    return shard.x.shape[0], int(np.count_nonzero(values)), float(np.einsum("i,i->", values, values, dtype=np.float64))


def couplings(sizes: Sequence[tuple[int, int, float]], *, fit_intercept: bool) -> tuple[float, float]:
    """What curvatures are multiplied by for a merge; see `manyclass.dask.merging`.

    A row's squared length, intercept included, over the square of one of its values is how many weights push together.
    """
    rows, stored, square = (sum(one) for one in zip(*sizes, strict=True))
    length = square / rows + fit_intercept
    return coupling_of(len(sizes), length * stored / max(square, 1e-30)), coupling_of(len(sizes), length)
