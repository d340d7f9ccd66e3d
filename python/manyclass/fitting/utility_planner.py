"""The choices and the fits of an AugmentReduceClassifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from manyclass import _core
from manyclass.checks import check_choice, n_threads_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts, Planned
from manyclass.choosing.plans import utility_plan
from manyclass.choosing.recipes import Choice
from manyclass.fitting.options import FitOptions
from manyclass.fitting.planner import Beginning, PartChoices, PlannedCall, Planner, facts_of, is_composed, warm_start_of
from manyclass.fitting.points import scaled_for_call
from manyclass.parts import Chosen, Given, Parameters, Part, resolve_part
from manyclass.protocols import Encoder
from manyclass.registry import names
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS
from manyclass.training.core_training import Watch
from manyclass.training.data import Points
from manyclass.training.incremental import Call
from manyclass.training.plan import PointsPlan, Utility
from manyclass.training.points import predictive_tiles
from manyclass.training.start import First
from manyclass.training.state import State
from manyclass.training.train import train
from manyclass.weights.arrays import Doubles, Ids, Matrix

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
                raise ValueError(
                    f"{name} is {local_numbers[name]!r}, which has no effect where steps see all classes: the gain's "
                    f"floor is 1 then; set floor, too, or leave it {default!r}"
                )
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
        if posterior is not None and is_composed(parameters):
            name = "calibration" if parameters["n_models"] == 1 else "n_models"
            raise ValueError(
                f"{name} is {parameters[name]!r}; with posterior='gaussian', which averages over draws of W by itself, "
                f"leave it {parameters.default(name)!r}"
            )
        return chosen

    def beginning(self, state: State | None, points: Points, encoder: Encoder | None, options: FitOptions) -> Beginning:
        """See `Planner`."""
        beginning = super().beginning(state, points, encoder, options)
        starts = beginning.start is not None or state is not None
        if starts and posterior_of(self.parameters) is not None:
            raise ValueError("posterior='gaussian' begins at the prior: leave coef_init, intercept_init and warm_start")
        return beginning

    def run(self, points: Points, watch: Watch, beginning: Beginning) -> State:
        """See `Planner`."""
        start, state = beginning.start, beginning.state
        if start is None and state is not None:
            start = warm_start_of(state, points)
        facts = facts_of(points)
        plan = self.plan(facts)
        costs.check_memory(facts, plan, watch.max_bytes)
        return train(None, points, plan, watch, first=First(start))

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
            raise ValueError(
                "posterior='gaussian' needs solver='implicit', alpha > 0 and local_step='natural'; they are "
                f"{solver.name!r}, {alpha!r} and {local.name!r}"
            )
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
