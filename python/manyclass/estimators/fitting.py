"""The ways of fitting a SoftmaxClassifier: which of them its parameters and the data ask for, and each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manyclass.estimators import auto
from manyclass.estimators.base import Points
from manyclass.estimators.contest import best_model
from manyclass.estimators.plans import Chosen
from manyclass.estimators.postings import (
    FEW_ROWS_OF_A_PAIR,
    MANY_LABELS,
    features_of_classes,
    least_count,
    settle_hybrid,
    settle_sparse,
    weights_met,
)
from manyclass.estimators.settle import (
    Settled,
    linear_model,
    settle_batches,
    settle_full_batch,
    settle_points,
    takes_full_passes,
)
from manyclass.estimators.targets import positions_of
from manyclass.estimators.trials import Trials
from manyclass.estimators.weighting import some_of
from manyclass.model.kinds import Weights
from manyclass.model.postings import HybridWeights, as_csr
from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import Ids
from manyclass.models import MODELS, Model
from manyclass.parts import Part
from manyclass.samplers import MOST_HEAD
from manyclass.solvers import SOLVERS
from manyclass.training.batches import fit_batches
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.hybrid import fit_hybrid
from manyclass.training.margins import fit_margins
from manyclass.training.plan import BatchesPlan, FullBatchPlan, HybridPlan, PointsPlan, PostingsPlan, Watch
from manyclass.training.points import fit_points
from manyclass.training.postings import fit_postings
from manyclass.training.scaled import scaled_for_training
from manyclass.training.squares import Squares
from manyclass.training.start import Start
from manyclass.training.validation import Validation, fork, held_out


@dataclass(frozen=True)
class Fitted:
    """What a run has found.

    Attributes
    ----------
    weights : Weights
    curve : list of float
        Loss of each pass.
    settled : Settled
        What it was trained with.
    validation : Validation or None
        Of early stopping.
    scaling : FeatureScaling or None
        Of the features that training saw.
    squares : Squares or None
        Adagrad's sums.
    n_runs : int
        What n_models="auto" stands for.
    """

    weights: Weights
    curve: list[float]
    settled: Settled
    validation: Validation | None = None
    scaling: FeatureScaling | None = None
    squares: Squares | None = None
    n_runs: int = 1


def fit_softmax(
    owner: Any, chosen: Chosen, points: Points, watch: Watch, candidates: ArrayLike | None, start: Start | None
) -> Fitted:
    """Make one run of a SoftmaxClassifier, `owner`, that chose these parts; the others are what its `fit` was given."""
    given = watch.max_seconds < np.inf or candidates is not None or start is not None
    chosen = with_model_of_several(owner, chosen, points)
    if not given:
        chosen = with_model_of_one(owner, chosen, points)
    if chosen.model is not None and chosen.model.name in ("sparse", "hybrid"):
        _refuse(start, f"with model={chosen.model.name!r}")
        refuse_candidates(candidates)
        settle = settle_sparse if chosen.model.name == "sparse" else settle_hybrid
        return _fit_postings(settle(owner, chosen, points, timed=watch.max_seconds < np.inf), points, watch)
    contest = not given and _leaves_model_open(owner, chosen, points) and _is_contested(points)
    if not contest and _trains_by_batches(owner, chosen, points):
        _refuse(start, "with several labels or embeddings")
        refuse_candidates(candidates)
        embeds = _chooses_embeddings(owner, chosen, points)
        settled = settle_batches(owner, chosen, points.x, len(points.classes), embeds=embeds)
        return _fit_batches(settled, points, watch)
    return _fit_one_label(owner, chosen, points, watch, candidates, start, contest=contest)


# Which of the trainings


def with_model_of_several(owner: Any, chosen: Chosen, points: Points) -> Chosen:
    """Fill in the model of several labels a row, nothing being set that it does not use: weights on pairs beside
    embeddings or, where a row would meet too many weights, embeddings of sparse data and a linear model of dense ones.
    """
    own = (owner.alpha, owner.learning_rate, owner.n_negatives)
    open_ = chosen == Chosen(None, None, None) and own == ("auto",) * 3 and not owner.early_stopping
    if not points.several or not open_:
        return chosen
    hybrid, dense = _affordable_hybrid(points), isinstance(points.x, np.ndarray)
    few = points.labels.mean <= MANY_LABELS
    # Pairs of many rows alone, and rows held out for their scales, cost what they give beside margins.
    if hybrid is not None and (dense or not few or hybrid.get_params()["min_count"] <= FEW_ROWS_OF_A_PAIR):
        return replace(chosen, model=hybrid)
    if dense:
        return chosen
    solver = SOLVERS["adagrad"](reduction="margin" if few else "decoupled")
    return replace(chosen, solver=solver, model=MODELS["embedding"]())


def with_model_of_one(owner: Any, chosen: Chosen, points: Points) -> Chosen:
    """Fill in the model of one label a row of sparse data whose linear W is too large to be tried, the model being left
    open: weights on pairs beside embeddings, unless a row would meet too many weights.
    """
    shape = auto.Shape.of(points.x, len(points.classes))
    tried = shape.bytes <= auto.LARGEST_CONTESTED or not shape.sparse
    if tried or not _leaves_model_open(owner, chosen, points):
        return chosen
    return replace(chosen, model=_affordable_hybrid(points))


def _trains_by_batches(owner: Any, chosen: Chosen, points: Points) -> bool:
    """Whether there are several labels, embeddings or a search: then several points make a step together."""
    return asks_for_batches(chosen, points.several) or _chooses_embeddings(owner, chosen, points)


def asks_for_batches(chosen: Chosen, several: bool) -> bool:
    """Whether parameters or labels ask for minibatches."""
    named = [part.name for part in (chosen.solver, chosen.sampler, chosen.model) if part is not None]
    return several or "embedding" in named or "search" in named or "adagrad" in named


def _chooses_embeddings(owner: Any, chosen: Chosen, points: Points) -> bool:
    """Whether embeddings are what "auto" stands for, nothing being set that they do not use."""
    open_ = chosen == Chosen(None, None, None) and not owner.early_stopping and owner.alpha == "auto"
    return open_ and owner.learning_rate != "grid" and auto.embeds(auto.Shape.of(points.x, len(points.classes)))


def _leaves_model_open(owner: Any, chosen: Chosen, points: Points) -> bool:
    """Whether the model of one label a row is left open: nothing is set that one of them does not use."""
    own = (owner.alpha, owner.dim, owner.learning_rate)
    open_ = chosen == Chosen(None, None, None) and own == ("auto",) * 3
    return open_ and not owner.early_stopping and not points.several


def _is_contested(points: Points) -> bool:
    """Whether there is another model to try than the linear one."""
    return auto.is_contested(auto.Shape.of(points.x, len(points.classes)))


# Weights on pairs


def _fit_postings(settled: Settled, points: Points, watch: Watch) -> Fitted:
    data = (points.x, points.labels, len(points.classes), watch, points.weights)
    if isinstance(settled.plan, HybridPlan):
        both, curve, of_both = fit_hybrid(settled.plan, *data, features_of_classes(settled.plan, points))
        seconds = auto.fit_cost(_shape_of_hybrid(both, points), settled.plan)
        n_runs = auto.n_runs(seconds, both.mapped.embeddings.nbytes)
        return Fitted(both, curve, settled, squares=of_both, n_runs=n_runs)
    assert isinstance(settled.plan, PostingsPlan)
    weights, curve, squares = fit_postings(settled.plan, *data)
    return Fitted(weights, curve, settled, squares=squares)


def _shape_of_hybrid(weights: HybridWeights, points: Points) -> auto.Shape:
    """The shape of data with the weights on pairs that a row meets."""
    x = as_csr(points.x)
    rows_of = np.bincount(x.indices, minlength=x.shape[1])
    met = float(rows_of @ np.diff(weights.postings.indptr)) / max(1, x.shape[0])
    return replace(auto.Shape.of(points.x, len(points.classes)), met=met)


# By minibatches


def _fit_batches(settled: Settled, points: Points, watch: Watch) -> Fitted:
    assert isinstance(settled.plan, BatchesPlan)
    data = (points.x, points.labels, len(points.classes), watch, points.weights)
    if settled.plan.loss != "margin":
        weights, curve, squares = fit_batches(settled.plan, *data)
        return Fitted(weights, curve, settled, squares=squares)
    weights, curve, squares = fit_margins(settled.plan, *data)
    if not weights.embeddings.size:  # a linear model's objective is convex: all runs end near one optimum
        return Fitted(weights, curve, settled, squares=squares)
    seconds = auto.fit_cost(auto.Shape.of(points.x, len(points.classes)), settled.plan)
    return Fitted(weights, curve, settled, squares=squares, n_runs=auto.n_runs(seconds, weights.embeddings.nbytes))


# Linear models of one label a row


def _best_other(owner: Any, chosen: Chosen, points: Points, linear: Settled) -> Settled | None:
    """The plan of a model that trials say predicts better than the linear one; None: there is none.

    "sparse" takes no part: its log-loss lies above that of the hybrid on each set of first labels that was tried
    (bench/notes/auto.md).
    """
    shape = auto.Shape.of(points.x, len(points.classes))
    other = _other(owner, chosen, points, shape, linear.trials)
    best = None
    if other is not None:
        candidates = {"linear": linear, other.params["model"].name: other}
        best = best_model(linear.trials, owner, candidates, points, _shape_met(shape, other, points))
    wins = auto.embeds(shape) if best is None else best != "linear"  # None: nothing was tried
    return replace(other, trials=linear.trials) if other is not None and wins else None


def _other(owner: Any, chosen: Chosen, points: Points, shape: auto.Shape, trials: Trials) -> Settled | None:
    """The model that may predict better than a linear one, with all that is open settled: a hybrid, whose embeddings
    alone it was ahead of wherever both were tried, or embeddings where a row would meet too many weights.

    The hybrid's step size is tried before: by the rule's alone it loses to the linear model on 8,000 rows of delicious
    (3.733 nats for 3.726), and wins by a fifth of it (3.701).
    """
    hybrid = _affordable_hybrid(points)
    if hybrid is not None:
        return settle_hybrid(owner, replace(chosen, model=hybrid), points, timed=False, trials=trials)
    if auto.is_small(shape):
        return None
    return settle_batches(owner, chosen, points.x, len(points.classes), embeds=True)


def _shape_met(shape: auto.Shape, settled: Settled, points: Points) -> auto.Shape:
    """The shape with the weights that a row meets, of a hybrid."""
    if not isinstance(settled.plan, HybridPlan):
        return shape
    least = settled.plan.postings.min_count
    return replace(shape, met=weights_met(points.x, points.labels, shape.n_classes, (least,))[least])


def _affordable_hybrid(points: Points) -> Model | None:
    """The hybrid whose rows meet no more weights than they may; None where not even pairs of many rows are so few."""
    least = least_count(weights_met(points.x, points.labels, len(points.classes)))
    return None if least is None else MODELS["hybrid"](min_count=least)


def _fit_one_label(
    owner: Any,
    chosen: Chosen,
    points: Points,
    watch: Watch,
    candidates: ArrayLike | None,
    start: Start | None,
    *,
    contest: bool,
) -> Fitted:
    """A linear model of one label a row; with `contest` another, if trials say that it predicts better."""
    labels, n_classes, r = points.labels.ids, len(points.classes), points.weights
    heads = _heads(owner, candidates, chosen.sampler, points)
    scaling = _scaling(owner, chosen, points)
    unscaled = watch
    x, watch, start = scaled_for_training(scaling, points.x, watch, start)
    timed, stepwise = bool(np.isfinite(watch.max_seconds)), heads is not None or start is not None
    if takes_full_passes(owner, chosen, auto.Shape.of(x, n_classes), stepwise=stepwise):
        settled = settle_full_batch(owner, chosen, x, labels, n_classes, timed=timed, weights=r)
    else:
        settled = settle_points(
            owner, chosen, x, labels, n_classes, candidates=heads is not None, timed=timed, weights=r
        )
    other = _best_other(owner, chosen, points, settled) if contest else None
    if other is not None:
        return (_fit_batches if isinstance(other.plan, BatchesPlan) else _fit_postings)(other, points, unscaled)
    if owner.early_stopping:
        held = held_out(labels, owner.validation_fraction, fork(owner.random_state))
        out, rows = np.flatnonzero(held), np.flatnonzero(~held)
        validation = Validation(x[out], labels[out], owner.n_iter_no_change, settled.plan.n_threads, some_of(r, out))
        x, labels, r = x[rows], labels[rows], some_of(r, rows)
        heads = None if heads is None else heads[rows]
        watch = replace(watch, validation=validation)
    if isinstance(settled.plan, FullBatchPlan):
        at = None if start is None else start.weights(sparse=isinstance(x, sp.csr_array))
        weights, curve = fit_full_batch(settled.plan, x, labels, n_classes, watch, at, r)
    else:
        assert isinstance(settled.plan, PointsPlan)
        weights, curve = fit_points(settled.plan, x, labels, n_classes, watch, heads, start, r)
    if scaling is not None:
        scaling.fold(weights)
    return Fitted(weights, curve, settled, watch.validation, scaling)


def _scaling(owner: Any, chosen: Chosen, points: Points) -> FeatureScaling | None:
    """How features are scaled for training a linear model."""
    if linear_model(chosen).get_params()["scaling"] == "none":
        return None
    return FeatureScaling.of(points.x, centre=bool(owner.fit_intercept), weights=points.weights)


def _heads(owner: Any, candidates: ArrayLike | None, sampler: Part | None, points: Points) -> Ids | None:
    """The positions of the candidates of each point."""
    if candidates is None:
        return None
    if sampler is None or sampler.name != "head_tail":
        raise ValueError(f"candidates need sampler='head_tail'; it is {owner.sampler!r}")
    candidates = np.asarray(candidates)
    n_samples = points.n_given
    if candidates.ndim != 2 or len(candidates) != n_samples or not 1 <= candidates.shape[1] <= MOST_HEAD:
        raise ValueError(
            f"candidates have shape {candidates.shape}; it must be ({n_samples}, h) with h from 1 to {MOST_HEAD}"
        )
    if points.rows is not None:
        candidates = candidates[points.rows]
    return positions_of(candidates, points.classes, "candidates")


def refuse_candidates(candidates: ArrayLike | None) -> None:
    """Raise ValueError for candidates where there are no heads."""
    if candidates is not None:
        raise ValueError("candidates are given; they are for sampler='head_tail' with a linear model of one label")


def _refuse(start: Start | None, where: str) -> None:
    if start is not None:
        raise ValueError(f"coef_init or intercept_init is given, which has no effect {where}; leave them None")
