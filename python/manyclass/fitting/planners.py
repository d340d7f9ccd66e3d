"""The choices and the fits of each class of estimators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts, Lengths, Planned
from manyclass.choosing.plans import linear_model, margin_plan, pairs_plan, softmax_batches_plan, utility_plan
from manyclass.choosing.recipes import Choice
from manyclass.figures import FIGURES
from manyclass.fitting.planner import PartChoices, PlannedCall, Planner, check_features, facts_of, with_report_of
from manyclass.fitting.points import scaled_for_call
from manyclass.fitting.trials import as_met, better_hidden_layer, plan_linear, plan_points, with_rate_tried
from manyclass.labels import find_positions, positions_of
from manyclass.models import MODELS
from manyclass.parts import Chosen, Given, Parameters, Part, resolve_part
from manyclass.registry import names
from manyclass.samplers import MOST_HEAD, SAMPLERS
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS
from manyclass.training.core_training import First, Watch
from manyclass.training.incremental import Call
from manyclass.training.plan import AnyPlan, PairsPlan, PointsPlan, Utility
from manyclass.training.points import predictive_tiles
from manyclass.training.state import Points, State
from manyclass.training.train import train
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import FeatureScaling


class SoftmaxPlanner(Planner):
    """Of SoftmaxClassifier."""

    parts: ClassVar[PartChoices] = {"solver": SOLVERS, "sampler": SAMPLERS, "model": MODELS}
    several: ClassVar[bool] = True
    has_grid: ClassVar[bool] = True

    def run(self, points: Points, watch: Watch, first: First) -> State:
        """See `Planner`: a run begins warm at a state that is there, where no start is given."""
        state = first.state
        if state is None or first.start is not None:
            return self._fit(points, watch, first)
        if points.several or not state.weights.is_linear:
            refuse_candidates(first.heads)
            return go_on_warm(self, state, points, watch)
        after = self.resolved(state)._fit(points, watch, replace(first, start=self.warm_start_of(state, points)))
        was, now = state.fit_report, after.fit_report
        return after.with_report(params={**was.params, **now.params}, rules={**was.rules, **now.rules})

    def _fit(self, points: Points, watch: Watch, first: First) -> State:
        """Make one run that begins at no model, and tell how its plan came to be."""
        facts = facts_of(points)
        starts: dict[str, Any] = {"candidates": first.heads is not None, "started": first.start is not None}
        limits: dict[str, Any] = {"timed": bool(np.isfinite(watch.until)), "most_bytes": watch.max_bytes}
        choice = Choice(self.parameters, self.check(), facts, **starts, **limits)
        parameters, seen, scaling = self.parameters, points, None
        first = self.with_rows_out(first, points)
        if choice.recipe.trains != "points":
            of_pairs = choice.recipe.trains == "pairs"
            where = f"model={choice['model'].name!r}" if of_pairs else "several labels or embeddings"
            if first.start is not None:
                name = "coef_init or intercept_init"
                raise ValueError(f"{name} is given, which has no effect with {where}; leave them None")
            refuse_candidates(first.heads)
            planned = _plan_batches_or_pairs(choice, points)
        else:  # a linear model of one label a row, or of several by full passes
            first = replace(first, heads=_heads(first.heads, parameters["sampler"], choice.chosen.sampler, points))
            if linear_model(choice.chosen).get_params()["scaling"] == "standard":
                scaling = FeatureScaling.of(points.x, centre=bool(parameters["fit_intercept"]), weights=points.weights)
                seen = replace(points, x=scaling.apply(points.x))
                choice = replace(choice, facts=replace(choice.facts, measured=Lengths.of(seen.x)))
            planned = plan_linear(self, choice, seen)
            if choice.tries("model") and (
                better := better_hidden_layer(planned, replace(choice, facts=facts), points, scaling)
            ):
                (choice, planned), seen, scaling = better, points, None
            if first.evaluated is not None and scaling is not None:
                first = replace(first, evaluated=(scaling.apply(first.evaluated[0]), first.evaluated[1]))
        costs.check_memory(choice.facts, planned.plan, choice.most_bytes)
        if parameters["verbose"] > 0:
            facts = as_met(choice.facts, planned.plan, seen)
            if costs.fit_cost(facts, planned.plan) >= FIGURES.QUICK:
                print(costs.in_words(facts, planned.plan), file=sys.stderr, flush=True)
        return with_report_of(planned, train(None, seen, planned.plan, watch, first=first, scaling=scaling))

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        resolved, facts = self.resolved(state), facts_of(points)
        kind = self._kind(Choice(self.parameters, self.check(), facts, by_steps=True), state)
        if kind == "points" and points.several:
            raise ValueError("y has several labels a row, and the model is of solver='lbfgs', which does not go on")
        if kind == "points":
            return resolved._plan_linear(self.parameters, state, points, call, facts)
        if kind in ("pairs", "hybrid") and call.new_classes is not None:
            raise ValueError(f"new_classes is given; a model that is {kind!r} has no rows of weights: leave it None")
        if kind == "hybrid" and state is not None and state.history.n_labels:
            facts = replace(facts, n_labels=state.history.n_labels)
        name = kind
        if state is not None and kind == "minibatches":
            name = "embedding" if state.weights.embeddings.size else "linear"
        falls, parts = call.may_fall(self.parameters), resolved.check()
        if state is not None and parts.model is None:  # an older file does not say what its model was
            parts = replace(parts, model=MODELS[name]())
        choice = Choice(resolved.parameters, parts, facts, timed=True, by_steps=True, goes_on=falls)
        return _plan_batches_or_pairs(choice, points), points, None

    def _kind(self, choice: Choice, state: State | None) -> str:
        """Which training goes on, or of a first call, which one parameters and labels ask for."""
        trains = choice.recipe.trains
        wanted = choice["model"].name if trains == "pairs" else trains
        if state is None:
            return wanted
        kinds = {"hybrid": "hybrid", "pairs": "pairs", "phi": "minibatches"}
        kind, parameters = kinds.get(state.weights.kind, "points"), self.parameters
        if state.weights.by_minibatches:
            kind = "minibatches"
        if wanted != kind and parameters["model"] != "auto":
            parts = f"model is {parameters['model']!r}, solver {parameters['solver']!r}"
            reason = "partial_fit goes on with the model that is there, which was trained otherwise"
            raise ValueError(f"{parts} and sampler {parameters['sampler']!r}; {reason}")
        return kind

    def _plan_linear(
        self, unresolved: Parameters, state: State | None, points: Points, call: Call, facts: Facts
    ) -> PlannedCall:
        """A linear model of one label a row, by parameters that are resolved."""
        parameters, chosen = self.parameters, self.check()
        model, begins_fit = linear_model(chosen), state is None and call.fit_pass is not None
        chosen = replace(chosen, model=model)
        if not begins_fit and (chosen.solver is None or chosen.solver.name == "lbfgs"):  # which does not step by rows
            chosen = replace(chosen, solver=SOLVERS["implicit"]())
        open_alpha = parameters.is_auto("alpha")
        if open_alpha:  # what a part would want is more than all rows do
            parameters = parameters.changed(alpha=0.0)
        scales = model.get_params()["scaling"] == "standard"
        scaled, scaling = scaled_for_call(state, points, scales=scales, centre=bool(unresolved["fit_intercept"]))
        # Between the fits of a stream the schedule of the last one goes on: steps by curvature undo some of it.
        falls = call.may_fall(unresolved) and not (state is not None and state.calls and state.history.n_fit > 0)
        if scaled.x is not points.x:
            facts = Facts.of(scaled.x, scaled.n_classes)
        choice = Choice(parameters, chosen, facts, timed=not begins_fit, by_steps=True, goes_on=falls)
        planned = plan_points(choice, scaled)
        if open_alpha:
            planned = replace(planned, params={**planned.params, "alpha": 0.0})
        return planned, scaled, scaling


def _plan_batches_or_pairs(choice: Choice, points: Points) -> Planned:
    """Return the plan of a model that is no linear one of one label a row: of minibatches, of pairs or of a blend."""
    if choice.recipe.trains != "pairs":
        return softmax_batches_plan(choice)
    planned = pairs_plan(choice)
    is_tried = isinstance(planned.plan, PairsPlan) and choice.tries("learning_rate")
    return with_rate_tried(planned, choice, points) if is_tried else planned


def _heads(candidates: ArrayLike | None, sampler_parameter: Any, sampler: Part | None, points: Points) -> Ids | None:
    """The positions of the candidates of each point."""
    if candidates is None:
        return None
    if sampler is None or sampler.name != "head_tail":
        raise ValueError(f"candidates need sampler='head_tail'; it is {sampler_parameter!r}")
    candidates = np.asarray(candidates)
    n_samples = points.n_given
    if candidates.ndim != 2 or len(candidates) != n_samples or not 1 <= candidates.shape[1] <= MOST_HEAD:
        raise ValueError(f"candidates have shape {candidates.shape}; it must be ({n_samples}, 1 to {MOST_HEAD})")
    if points.rows is not None:
        candidates = candidates[points.rows]
    return positions_of(candidates, points.classes, "candidates")


def refuse_candidates(candidates: ArrayLike | None) -> None:
    """Raise ValueError for candidates where there are no heads."""
    if candidates is not None:
        raise ValueError("candidates are given; they are for sampler='head_tail' with a linear model of one label")


LOSSES = ("margin", "triplet")


MARGIN_MODELS = {name: MODELS[name] for name in ("linear", "embedding")}


MARGIN_SOLVERS = {name: SOLVERS[name] for name in ("adagrad", "sgd", "implicit")}


MARGIN_SAMPLERS = {name: sampler for name, sampler in SAMPLERS.items() if name != "head_tail"}


class MarginPlanner(Planner):
    """The plans of MarginClassifier."""

    parts: ClassVar[PartChoices] = {"solver": MARGIN_SOLVERS, "sampler": MARGIN_SAMPLERS, "model": MARGIN_MODELS}
    several: ClassVar[bool] = True
    trains_log_odds: ClassVar[bool] = False

    def check(self) -> Chosen:
        """See `Planner`."""
        check_choice("loss", self.parameters["loss"], LOSSES)
        check_number("smoothing", self.parameters["smoothing"], low=0)
        return super().check()

    def run(self, points: Points, watch: Watch, first: First) -> State:
        """See `Planner`."""
        if first.state is not None:
            return go_on_warm(self, first.state, points, watch)
        facts = facts_of(points)
        planned = self.plan(facts)
        costs.check_memory(facts, planned.plan, watch.max_bytes)
        first = self.with_rows_out(first, points)
        return with_report_of(planned, train(None, points, planned.plan, watch, first=first))

    def passes_of_call(self, plan: AnyPlan, *, after_fit: bool) -> int:
        """See `Planner`."""
        return 1 if after_fit else FIGURES.CALL_PASSES_OF_MARGINS

    def loss(self, state: State, points: Points) -> float:
        """See `Planner`: the share of rows whose first class is none of their labels."""
        best, _ = state.weights.top_k(points.x, 1, n_threads_from(self.parameters["n_jobs"]))
        right = _core.label_hits(points.labels.indptr, points.labels.ids, best)[:, 0]
        return 1 - float(np.average(right, weights=points.weights))

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        return self.resolved(state).plan(facts_of(points), by_steps=True), points, None

    def plan(self, facts: Facts, *, by_steps: bool = False) -> Planned:
        """Return the plan, and what parameters left open became in it; `by_steps`: of rows that come part by part."""
        return margin_plan(Choice(self.parameters, self.check(), facts, by_steps=by_steps))


# Fits that begin at a model


def go_on_warm(planner: Planner, state: State, points: Points, watch: Watch) -> State:
    """Make a fit that begins at a model which is not linear of one label a row.

    Raises
    ------
    ValueError
        If the data are not of the kind of the last fit, or lack one of its classes.
    """
    parameters = planner.parameters
    check_features(state, points)
    if points.several != state.several:
        now, before = (("one label", "several labels")[several] for several in (points.several, state.several))
        raise ValueError(f"warm_start is True and y has {now} a row; the last fit had {before} a row")
    lacking = state.classes[find_positions(state.classes, points.classes, "y") < 0]
    if len(lacking):
        raise ValueError(f"warm_start is True and y lacks {lacking.tolist()[0]!r}, a class of the last fit")
    prune = getattr(parameters["model"], "prune", 0)
    if prune > 0:
        raise ValueError(f"prune is {prune!r}; a fit that begins warm drops no weights: set warm_start to False")
    if parameters.get("early_stopping", False):
        raise ValueError("early_stopping is True; a fit that begins at a model which is not linear holds no rows out")
    call = Call(whole=True)
    planned, seen, scaling = planner.plan_call(state, points, call)
    return train(state, seen, planned.plan, watch, call=call, scaling=scaling)


# AugmentReduceClassifier

UTILITY_SOLVERS = {name: SOLVERS[name] for name in ("implicit", "sgd")}


# The family with the tightest bound, where that is not the noise's own. Gaps in nats at equal scores of 2, 10 and 1,000
# classes, normal noise: .002, .013, .045 with normal q; logistic noise: .024, .002, .000 with Gumbel q and .014, .083,
# .143 with the paper's logistic q.
TIGHTEST = {"logistic": "gumbel"}


GAINS = ("gain", "gain_power", "floor")  # of local steps


UTILITY_SAMPLERS = {name: sampler for name, sampler in SAMPLERS.items() if name != "search"}


def local_step_of(parameters: Parameters) -> Part:
    """Return the checked local step."""
    return resolve_part("local_step", parameters["local_step"], LOCAL_STEPS, "manyclass.solvers")


def posterior_of(parameters: Parameters) -> Part | None:
    """Return the checked posterior; None for a point estimate."""
    if isinstance(parameters["posterior"], str) and parameters["posterior"] == "point":
        return None
    return resolve_part("posterior", parameters["posterior"], POSTERIORS, "manyclass.solvers or 'point'")


def _refuse_numbers(local: Part, why: str, *with_effect: str) -> None:
    """Refuse numbers of a local step that are set, but for those with an effect."""
    given = Given(local, "local_step: ")
    for name in with_effect:
        given.take(name)
    given.refuse_rest(why)


def family_of(parameters: Parameters, n_classes: int) -> _core.LocalFamily:
    """Return the family of q; there is none to choose for Gumbel noise."""
    noise = parameters["noise"]
    local = local_step_of(parameters)
    numbers = local.get_params()
    auto = TIGHTEST.get(noise, noise) if local.name == "natural" else noise
    name = auto if numbers["family"] == "auto" else numbers["family"]
    n_nodes = 0 if numbers["n_nodes"] == "auto" else int(numbers["n_nodes"])
    return _core.LocalFamily(noise=noise, name=name, n_nodes=n_nodes, n_classes=n_classes)


def _gains(local: Part, share_seen: float) -> tuple[float, float, float]:
    """Gain, its power and its floor, of a local step that sees this share of the wrong classes."""
    local_numbers = local.get_params()
    open_floor = local_numbers.get("floor") == "auto"
    if open_floor and share_seen == 1:
        for name in ("gain", "gain_power"):
            default = type(local)().get_params()[name]
            if local_numbers[name] != default:
                reason = f"which has no effect where steps see all classes; leave it {default!r}"
                raise ValueError(f"{name} is {local_numbers[name]!r}, {reason}")
    floor = share_seen if open_floor else local_numbers.get("floor", 0.0)
    return float(local_numbers["gain"]), float(local_numbers["gain_power"]), float(floor)


class UtilityPlanner(Planner):
    """The plans of AugmentReduceClassifier."""

    parts: ClassVar[PartChoices] = {"solver": UTILITY_SOLVERS, "sampler": UTILITY_SAMPLERS}

    def check(self) -> Chosen:
        """See `Planner`."""
        parameters = self.parameters
        noise = parameters["noise"]
        check_choice("noise", noise, names("noise"))
        chosen, local, posterior = super().check(), local_step_of(parameters), posterior_of(parameters)
        if noise == "gumbel":
            if local.name != "natural":
                raise ValueError(f"local_step is {local.name!r}; with noise='gumbel' it must be 'natural'")
            _refuse_numbers(local, "with noise='gumbel'", *GAINS)
        elif posterior is not None and posterior.get_params()["bound"] == "one_vs_each":
            raise ValueError(f"bound is 'one_vs_each', which needs noise='gumbel'; noise is {noise!r}")
        if posterior is not None and self.is_composed:
            name = "calibration" if parameters["n_models"] == 1 else "n_models"
            with_draws = "with posterior='gaussian', which averages over W, leave it None or 'auto'"
            raise ValueError(f"{name} is {parameters[name]!r}; {with_draws}")
        return chosen

    def run(self, points: Points, watch: Watch, first: First) -> State:
        """See `Planner`."""
        if (first.start, first.state) != (None, None) and posterior_of(self.parameters) is not None:
            raise ValueError("posterior='gaussian' begins at the prior: leave coef_init, intercept_init and warm_start")
        if first.start is None and first.state is not None:
            first = replace(first, start=self.warm_start_of(first.state, points))
        facts = facts_of(points)
        plan = self.plan(facts)
        costs.check_memory(facts, plan, watch.max_bytes)
        return train(None, points, plan, watch, first=first)

    def losses_and_ranks(self, state: State, x: Matrix, labels: Ids) -> tuple[Doubles, Ids]:
        """See `Planner`."""
        return utility_losses(self.parameters, state, x, labels)

    def keeps_rows(self, call: Call) -> bool:
        """See `Planner`: streams of augment-and-reduce are not fitted anew."""
        return False

    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """See `Planner`."""
        if posterior_of(self.parameters) is not None:
            raise ValueError("posterior is 'gaussian'; partial_fit trains a model without: set it to 'point'")
        points, _ = scaled_for_call(state, points, scales=False, centre=False)
        return Planned(self.plan(facts_of(points), goes_on=call.may_fall(self.parameters)), {}), points, None

    def plan(self, facts: Facts, *, goes_on: bool = False) -> PointsPlan:
        """Return the plan of a training, which may be one that goes on."""
        parameters, local = self.parameters, local_step_of(self.parameters)
        family = None if parameters["noise"] == "gumbel" else family_of(parameters, facts.n_classes)
        choice, posterior = Choice(parameters, self.check(), facts, goes_on=goes_on), posterior_of(parameters)
        if posterior is not None:
            self._check_posterior(choice["solver"], local, choice["sampler"])
        plan = utility_plan(choice)
        share_seen = 1.0 if plan.sampler == "all" else min(1.0, plan.n_negatives / (facts.n_classes - 1))
        gains, start = _gains(local, share_seen), local.get_params()["start"]
        plan = replace(plan, utility=Utility(parameters["noise"], local.name, family, *gains, start=start))
        return plan if posterior is None else replace(plan, bound=posterior.get_params()["bound"])

    def _check_posterior(self, solver: Part, local: Part, sampler: Part) -> None:
        """Raise ValueError for what the posterior's training, which has only some of the options, does not have."""
        alpha, params = self.parameters["alpha"], solver.get_params()
        if solver.name != "implicit" or not alpha > 0 or local.name != "natural":
            needs = "posterior='gaussian' needs solver='implicit', alpha > 0 and local_step='natural'"
            raise ValueError(f"{needs}; they are {solver.name!r}, {alpha!r} and {local.name!r}")
        _refuse_numbers(local, "with posterior='gaussian'", "family", "n_nodes")
        for name in ("averaging", "parallel", "share_classes", "shuffle"):
            default = type(solver)().get_params()[name]
            if params[name] not in (default, "none"):
                raise ValueError(f"{name} is {params[name]!r}, which has no effect with posterior='gaussian'")
        if params["schedule"] == "adaptive":
            raise ValueError("schedule is 'adaptive'; with posterior='gaussian' choose another")
        if sampler.name not in ("uniform", "all"):
            raise ValueError(f"sampler is {sampler.name!r}; with posterior='gaussian' it must be 'uniform' or 'all'")


# Predictions


def predictive(parameters: Parameters, state: State, x: Matrix) -> Iterator[tuple[int, Doubles]]:
    """Return the logarithms of posterior-mean probabilities of all classes, some points at once; the same draws each
    time.
    """
    assert state.weights.is_linear
    assert state.variances is not None
    posterior, n_threads = parameters["posterior"], n_threads_from(parameters["n_jobs"])
    n_draws = 32 if isinstance(posterior, str) else int(posterior.get_params()["n_draws"])
    data = (parameters["noise"], state.weights, state.variances, x)
    return predictive_tiles(*data, n_draws=n_draws, seed=0, n_threads=n_threads)


def utility_losses(
    parameters: Parameters, state: State, x: Matrix, labels: Ids, factor: float = 1.0
) -> tuple[Doubles, Ids]:
    """Return the log-loss of each point, and the rank of its label (0: predicted), of utilities times a factor."""
    if state.variances is None:
        weights, scale = state.weights.times(factor)
        return weights.log_losses(x, labels, n_threads_from(parameters["n_jobs"]), scale, parameters["noise"])
    losses, ranks = [], []
    for first, log_p in predictive(parameters, state, x):
        log_p_of_labels = np.take_along_axis(log_p, labels[first : first + len(log_p), np.newaxis], axis=1)
        losses.append(-log_p_of_labels[:, 0])
        ranks.append((log_p > log_p_of_labels).sum(axis=1))
    return np.concatenate(losses), np.concatenate(ranks).astype(np.int32)
