"""The ways of fitting a SoftmaxClassifier: which of them its parameters and the data ask for, and each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manyclass.checks import check_flag, check_number
from manyclass.choosing import rules
from manyclass.choosing.model_trials import LossOfFit, best_model
from manyclass.choosing.pair_plans import (
    FEW_ROWS_OF_A_PAIR,
    MANY_LABELS,
    least_count,
    settle_hybrid,
    settle_sparse,
    weights_met,
)
from manyclass.choosing.plans import Chosen, part_of
from manyclass.choosing.softmax_plans import (
    Settled,
    TriedRates,
    linear_model,
    settle_batches,
    settle_full_batch,
    settle_points,
    takes_full_passes,
)
from manyclass.choosing.trials import Trials
from manyclass.classifiers.data import scaled_for_call
from manyclass.classifiers.partial_fit import check_features
from manyclass.classifiers.planner import Planner, Settlement, resolved
from manyclass.classifiers.targets import find_positions, positions_of
from manyclass.models import MODELS, Model
from manyclass.parts import Parameters, Part
from manyclass.samplers import MOST_HEAD, SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.calls import Call
from manyclass.training.growth import refuse_starts
from manyclass.training.plan import BatchesPlan, HybridPlan
from manyclass.training.start import Start
from manyclass.training.state import Points, State
from manyclass.training.train import First, train
from manyclass.training.validation import fork, held_out
from manyclass.training.watch import Watch
from manyclass.weights.arrays import Ids, as_csr
from manyclass.weights.scaling import FeatureScaling
from manyclass.weights.weights import Weights


@dataclass(frozen=True)
class Asked:
    """What a `fit` was given beside its data, and how its trials fit again.

    Attributes
    ----------
    candidates : array-like of shape (n_samples, n_candidates), or None
        Labels for heads.
    start : Start or None
        First weights.
    tried_rates, loss_of_fit : callable or None
        Fits of their own, for learning_rate="grid" and for the choice of a model.
    """

    candidates: ArrayLike | None = None
    start: Start | None = None
    tried_rates: TriedRates | None = None
    loss_of_fit: LossOfFit | None = None


def fit_softmax(parameters: Parameters, chosen: Chosen, points: Points, watch: Watch, asked: Asked) -> State:
    """Make one run of a SoftmaxClassifier with these parameters, which chose these parts."""
    given = watch.max_seconds < np.inf or asked.candidates is not None or asked.start is not None
    chosen = with_model_of_several(parameters, chosen, points)
    if not given:
        chosen = with_model_of_one(parameters, chosen, points)
    if chosen.model is not None and chosen.model.name in ("sparse", "hybrid"):
        _refuse(asked.start, f"with model={chosen.model.name!r}")
        refuse_candidates(asked.candidates)
        settle = settle_sparse if chosen.model.name == "sparse" else settle_hybrid
        return _trained(settle(parameters, chosen, points, timed=watch.max_seconds < np.inf), points, watch)
    contest = not given and _leaves_model_open(parameters, chosen, points) and _is_contested(points)
    if not contest and _trains_by_batches(parameters, chosen, points):
        _refuse(asked.start, "with several labels or embeddings")
        refuse_candidates(asked.candidates)
        embeds = _chooses_embeddings(parameters, chosen, points)
        return _trained(settle_batches(parameters, chosen, points.x, points.n_classes, embeds=embeds), points, watch)
    return _fit_one_label(parameters, chosen, points, watch, asked, contest=contest)


class SoftmaxPlanner(Planner):
    """Of SoftmaxClassifier."""

    several: ClassVar[bool] = True

    def check(self) -> Chosen:
        """See `Planner`."""
        own = self.parameters
        check_flag("early_stopping", own["early_stopping"])
        check_number("validation_fraction", own["validation_fraction"], low=0, open_low=True, high=0.99)
        check_number("n_iter_no_change", own["n_iter_no_change"], low=1, integer=True)
        self.check_shared()
        return Chosen(
            part_of("solver", own["solver"], SOLVERS, "manyclass.solvers"),
            part_of("sampler", own["sampler"], SAMPLERS, "manyclass.samplers"),
            part_of("model", own["model"], MODELS, "manyclass.models"),
        )

    def run(self, points: Points, watch: Watch, given: Asked, state: State | None) -> State:
        """See `Planner`: a run begins warm at a state that is there, where no start is given."""
        if state is None or given.start is not None:
            return fit_softmax(self.parameters, self.check(), points, watch, given)
        if points.several or not state.weights.is_linear:
            refuse_candidates(given.candidates)
            return self.go_on_warm(state, points, watch)
        known = replace(self, parameters=resolved(self.parameters, state))
        start = warm_start_of(state, points)
        found = fit_softmax(known.parameters, known.check(), points, watch, replace(given, start=start))
        return found.with_told(params={**state.told.params, **found.told.params})

    def settle_call(self, state: State | None, points: Points, call: Call) -> Settlement:
        """See `Planner`."""
        own = self if state is None else replace(self, parameters=resolved(self.parameters, state))
        kind = self._kind(with_model_of_several(self.parameters, self.check(), points), points, state)
        if kind == "linear":
            return own._settle_linear(self.parameters, state, points, call)
        if kind != "batches":
            refuse_starts(call.new_classes, kind)
        chosen = with_model_of_several(own.parameters, own.check(), points)
        if kind == "batches":
            embeds = state is not None and bool(state.weights.embeddings.size)
            return Settlement(settle_batches(own.parameters, chosen, points.x, points.n_classes, embeds=embeds), points)
        if chosen.model is None:  # an older file does not say what it was
            chosen = replace(chosen, model=MODELS[kind]())
        if kind == "sparse":
            return Settlement(settle_sparse(own.parameters, chosen, points, timed=True), points)
        n_labels = None if state is None else state.history.n_labels or None
        settled = settle_hybrid(own.parameters, chosen, points, timed=True, n_labels=n_labels)
        return Settlement(settled, points)

    def _kind(self, chosen: Chosen, points: Points, state: State | None) -> str:
        """Which training goes on, or of a first call, which one parameters and labels ask for."""
        named = "" if chosen.model is None else chosen.model.name
        asked = "batches" if asks_for_batches(chosen, points.several) else "linear"
        asked = named if named in ("sparse", "hybrid") else asked
        if state is None:
            return asked
        kinds = {"hybrid": "hybrid", "pairs": "sparse", "phi": "batches"}
        there, own = kinds.get(state.weights.kind, "linear"), self.parameters
        if asked != there and own["model"] != "auto":
            raise ValueError(
                f"model is {own['model']!r}, solver {own['solver']!r} and sampler {own['sampler']!r}; partial_fit goes "
                "on with the model that is there, which was trained otherwise: leave them as they were"
            )
        return there

    def _settle_linear(self, asked: Parameters, state: State | None, points: Points, call: Call) -> Settlement:
        """A linear model of one label a row, by parameters that are resolved; `asked` are those that were given."""
        own, chosen = self.parameters, self.check()
        model, begins_fit = linear_model(chosen), state is None and call.of_fit is not None
        chosen = replace(chosen, model=model)
        chosen = chosen if begins_fit else stepwise(chosen)
        open_alpha = own.is_auto("alpha")
        if open_alpha:  # what a part would want is more than all rows do
            own = own.changed(alpha=0.0)
        scales = model.get_params()["scaling"] == "standard"
        points, scaling = scaled_for_call(state, points, scales=scales, centre=bool(asked["fit_intercept"]))
        settled = settle_points(
            own, chosen, points.x, points.labels.ids, points.n_classes, candidates=False, timed=not begins_fit
        )
        if open_alpha:
            settled = replace(settled, params={**settled.params, "alpha": 0.0})
        return Settlement(settled, points, scaling)


def stepwise(chosen: Chosen) -> Chosen:
    """The parts, with a solver that steps by rows where "auto" has none, or one of full passes."""
    full = chosen.solver is None or chosen.solver.name == "lbfgs"
    return replace(chosen, solver=SOLVERS["implicit"]()) if full else chosen


def warm_start_of(state: State, points: Points) -> Start:
    """Return the weights of a linear model of one label a row for the classes of a fit; a ValueError for others."""
    if points.several or not state.weights.is_linear:
        raise ValueError("warm_start is True and y has several labels a row; the last fit had one: set it to False")
    check_features(state, points)
    return Start.from_model(state.weights, find_positions(points.classes, state.classes, "y"))


def _trained(
    settled: Settled,
    points: Points,
    watch: Watch,
    first: First = First(),  # noqa: B008 - frozen
    scaling: FeatureScaling | None = None,
) -> State:
    """Train as was settled, and tell how that came to be."""
    state = train(None, points, settled.plan, watch, first=first, scaling=scaling)
    return state.with_told(**settled.told, n_runs=_n_runs(settled, state, points))


def _n_runs(settled: Settled, state: State, points: Points) -> int:
    """What n_models="auto" stands for."""
    weights, shape = state.weights, rules.Shape.of(points.x, points.n_classes)
    if weights.kind == "hybrid":
        seconds = rules.fit_cost(_shape_of_hybrid(weights, points), settled.plan)
        return rules.n_runs(seconds, weights.embeddings.nbytes)
    # A linear model's objective is convex: all runs end near one optimum.
    ranks = isinstance(settled.plan, BatchesPlan) and settled.plan.finds_scale
    if not (ranks and weights.embeddings.size):
        return 1
    return rules.n_runs(rules.fit_cost(shape, settled.plan), weights.embeddings.nbytes)


# Which of the trainings


def with_model_of_several(parameters: Parameters, chosen: Chosen, points: Points) -> Chosen:
    """Fill in the model of several labels a row, nothing being set that it does not use: weights on pairs beside
    embeddings or, where a row would meet too many weights, embeddings of sparse data and a linear model of dense ones.
    """
    own = (parameters["alpha"], parameters["learning_rate"], parameters["n_negatives"])
    open_ = chosen == Chosen(None, None, None) and own == ("auto",) * 3 and not parameters["early_stopping"]
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


def with_model_of_one(parameters: Parameters, chosen: Chosen, points: Points) -> Chosen:
    """Fill in the model of one label a row of sparse data whose linear W is too large to be tried, the model being left
    open: weights on pairs beside embeddings, unless a row would meet too many weights.
    """
    shape = rules.Shape.of(points.x, len(points.classes))
    tried = shape.bytes <= rules.LARGEST_CONTESTED or not shape.sparse
    if tried or not _leaves_model_open(parameters, chosen, points):
        return chosen
    return replace(chosen, model=_affordable_hybrid(points))


def _trains_by_batches(parameters: Parameters, chosen: Chosen, points: Points) -> bool:
    """Whether there are several labels, embeddings or a search: then several points make a step together."""
    return asks_for_batches(chosen, points.several) or _chooses_embeddings(parameters, chosen, points)


def asks_for_batches(chosen: Chosen, several: bool) -> bool:
    """Whether parameters or labels ask for minibatches."""
    named = [part.name for part in (chosen.solver, chosen.sampler, chosen.model) if part is not None]
    return several or "embedding" in named or "search" in named or "adagrad" in named


def _chooses_embeddings(parameters: Parameters, chosen: Chosen, points: Points) -> bool:
    """Whether embeddings are what "auto" stands for, nothing being set that they do not use."""
    open_ = chosen == Chosen(None, None, None) and not parameters["early_stopping"] and parameters["alpha"] == "auto"
    return (
        open_ and parameters["learning_rate"] != "grid" and rules.embeds(rules.Shape.of(points.x, len(points.classes)))
    )


def _leaves_model_open(parameters: Parameters, chosen: Chosen, points: Points) -> bool:
    """Whether the model of one label a row is left open: nothing is set that one of them does not use."""
    own = (parameters["alpha"], parameters["dim"], parameters["learning_rate"])
    open_ = chosen == Chosen(None, None, None) and own == ("auto",) * 3
    return open_ and not parameters["early_stopping"] and not points.several


def _is_contested(points: Points) -> bool:
    """Whether there is another model to try than the linear one."""
    return rules.is_contested(rules.Shape.of(points.x, len(points.classes)))


# Weights on pairs


def _shape_of_hybrid(weights: Weights, points: Points) -> rules.Shape:
    """The shape of data with the weights on pairs that a row meets."""
    x = as_csr(points.x)
    rows_of = np.bincount(x.indices, minlength=x.shape[1])
    met = float(rows_of @ np.diff(weights.indptr)) / max(1, x.shape[0])
    return replace(rules.Shape.of(points.x, len(points.classes)), met=met)


# Linear models of one label a row


def _best_other(
    parameters: Parameters, chosen: Chosen, points: Points, linear: Settled, loss_of_fit: LossOfFit | None
) -> Settled | None:
    """The plan of a model that trials say predicts better than the linear one; None: there is none.

    "sparse" takes no part: its log-loss lies above that of the hybrid on each set of first labels that was tried
    (bench/decisions.md).
    """
    shape = rules.Shape.of(points.x, len(points.classes))
    other = _other(parameters, chosen, points, shape, linear.trials)
    best = None
    if other is not None:
        candidates = {"linear": linear, other.params["model"].name: other}
        assert loss_of_fit is not None
        met = _shape_met(shape, other, points)
        best = best_model(linear.trials, parameters, candidates, points, met, loss_of_fit)
    wins = rules.embeds(shape) if best is None else best != "linear"  # None: nothing was tried
    return replace(other, trials=linear.trials) if other is not None and wins else None


def _other(
    parameters: Parameters, chosen: Chosen, points: Points, shape: rules.Shape, trials: Trials
) -> Settled | None:
    """The model that may predict better than a linear one, with all that is open settled: a hybrid, whose embeddings
    alone it was ahead of wherever both were tried, or embeddings where a row would meet too many weights.

    The hybrid's step size is tried before: by the rule's alone it loses to the linear model on 8,000 rows of delicious
    (3.733 nats for 3.726), and wins by a fifth of it (3.701).
    """
    hybrid = _affordable_hybrid(points)
    if hybrid is not None:
        return settle_hybrid(parameters, replace(chosen, model=hybrid), points, timed=False, trials=trials)
    if rules.is_small(shape):
        return None
    return settle_batches(parameters, chosen, points.x, len(points.classes), embeds=True)


def _shape_met(shape: rules.Shape, settled: Settled, points: Points) -> rules.Shape:
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
    parameters: Parameters, chosen: Chosen, points: Points, watch: Watch, asked: Asked, *, contest: bool
) -> State:
    """A linear model of one label a row; with `contest` another, if trials say that it predicts better."""
    labels, n_classes, r = points.labels.ids, points.n_classes, points.weights
    heads = _heads(asked.candidates, parameters["sampler"], chosen.sampler, points)
    scaling = _scaling(parameters, chosen, points)
    x = points.x if scaling is None else scaling.apply(points.x)
    timed, stepwise = bool(np.isfinite(watch.max_seconds)), heads is not None or asked.start is not None
    if takes_full_passes(parameters, chosen, rules.Shape.of(x, n_classes), stepwise=stepwise):
        settled = settle_full_batch(parameters, chosen, x, labels, n_classes, timed=timed, weights=r)
    else:
        settled = settle_points(
            parameters,
            chosen,
            x,
            labels,
            n_classes,
            candidates=heads is not None,
            timed=timed,
            weights=r,
            tried_rates=asked.tried_rates,
        )
    other = _best_other(parameters, chosen, points, settled, asked.loss_of_fit) if contest else None
    if other is not None:
        return _trained(other, points, watch)
    first = First(asked.start, heads)
    if parameters["early_stopping"]:
        held = held_out(labels, parameters["validation_fraction"], fork(parameters["random_state"]))
        first = replace(first, held=held, n_iter_no_change=parameters["n_iter_no_change"])
    return _trained(settled, replace(points, x=x), watch, first, scaling)


def _scaling(parameters: Parameters, chosen: Chosen, points: Points) -> FeatureScaling | None:
    """How features are scaled for training a linear model."""
    if linear_model(chosen).get_params()["scaling"] == "none":
        return None
    return FeatureScaling.of(points.x, centre=bool(parameters["fit_intercept"]), weights=points.weights)


def _heads(candidates: ArrayLike | None, asked: Any, sampler: Part | None, points: Points) -> Ids | None:
    """The positions of the candidates of each point."""
    if candidates is None:
        return None
    if sampler is None or sampler.name != "head_tail":
        raise ValueError(f"candidates need sampler='head_tail'; it is {asked!r}")
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
