"""From the parameters of an estimator to the plan of a training: the one place where "auto" ends.

Every parameter is taken by what it has an effect on (`parts.Given`); what was set and is left over is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from manyclass.checks import check_number, did_you_mean, n_threads_from, seed_from
from manyclass.parts import Given, Part, part_name, resolve_part
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS, search_name
from manyclass.solvers import LABEL_SOLVERS
from manyclass.training.local_family import LocalFamily
from manyclass.training.plan import BatchesPlan, DoubleSum, PointsPlan, Schedule, Utility
from manyclass.weights.arrays import Floats, Matrix

# Step sizes of u for u_learning_rate="auto". A visit lets u fall by at most its step, so that small ones lag behind:
# for the implicit step 3 costs 0.5 nats on sets of definitions, where 30 and 300 differ by 0.06 (bench/decisions.md).
U_RATES = {"implicit": 30.0, "bregman": 0.5, "scent": 0.5}
TINY = float(np.finfo(np.float32).tiny)

# With embeddings, Adagrad's rate for learning_rate="auto", over the root mean square of |x|: how far a row moves at
# first. Of 0.3, 1 and 3 the best on eurlex57k by P@1 after three passes. That of the embeddings, which start with
# length 1, is a multiple of it: for margins 0.5, of 0.1, 0.5, 1 and 1.5 the best there; for the softmax, of 0.25, 0.5,
# 1, 1.5 and 2, the best on yso-en by log-loss (bench/decisions.md).
ADAGRAD_RATE = 1.0
# The core's names of the losses of several labels that a solver's `reduction` names.
REDUCTIONS = {
    "pick_all": "cross_entropy",
    "pick_all_normalized": "pick_all_normalized",
    "decoupled": "decoupled",
    "logistic": "logistic",
}
# By minibatches there is one more, which is no log-likelihood.
BATCH_REDUCTIONS = {**REDUCTIONS, "margin": "margin"}
EMBEDDING_SHARE = {
    **dict.fromkeys(REDUCTIONS.values(), 1.5),
    **dict.fromkeys(("margin", "triplet"), 0.5),
}
# Losses with the logarithm of a sum over classes: the weight of a drawn class enters it.
LOG_Q_LOSSES = ("cross_entropy", "pick_all_normalized", "decoupled")
# budget=None: a margin's gradient is that of the few best wrong classes; the softmax's is spread over many.
MARGIN_BUDGET = 64
SOFTMAX_BUDGET_SHARE = 100  # K / 100, as Yen et al. 2018, section 5
MOST_SCORED = 8192  # sampler="auto": up to so many classes minibatches score all of them


@dataclass(frozen=True)
class Open:
    """Values for what was left open."""

    n_negatives: int
    max_iter: int
    decay: float
    averaging: str = "none"
    alpha: float = 0.0


@dataclass(frozen=True)
class Chosen:
    """The parts of an estimator; None stands for "auto"."""

    solver: Part | None
    sampler: Part | None
    model: Part | None = None


def part_of(parameter: str, value: str | Part, choices: Mapping[str, type[Part]], where: str) -> Part | None:
    """The checked part that a parameter stands for; None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    return resolve_part(parameter, value, {"auto": Part, **choices}, where)


def check_loop_numbers(parameters: Mapping[str, Any]) -> None:
    """Check the numbers among the parameters of an estimator with a training loop."""
    numbers = {"n_negatives": 1, "max_iter": 1}
    for name, low in numbers.items():
        _check_open(parameters, name, low=low, integer=True)
    _check_open(parameters, "learning_rate", "grid", low=0, open_low=True)
    if "alpha" in parameters:
        _check_open(parameters, "alpha", low=0)
    if "dim" in parameters:
        _check_open(parameters, "dim", low=1, high=1 << 20, integer=True)
    n_threads_from(parameters["n_jobs"])
    if isinstance(parameters["random_state"], Integral):
        check_number("random_state", parameters["random_state"], low=0, high=2**32 - 1, integer=True)
    check_random_state(parameters["random_state"])
    if not isinstance(parameters["verbose"], bool | np.bool_):
        check_number("verbose", parameters["verbose"])


def _check_open(parameters: Mapping[str, Any], name: str, *words: str, **rule: Any) -> None:
    value = parameters[name]
    if isinstance(value, str):
        if value not in ("auto", *words):
            *most, last = ("a number", *map(repr, ("auto", *words)))
            hint = did_you_mean(value, ("auto", *words))
            raise ValueError(f"{name} is {value!r}; it must be {', '.join(most)} or {last}{hint}")
        return
    check_number(name, value, **rule)


def scales_features(solver: str | Part, model: str | Part) -> bool:
    """Whether an estimator with these two parameters, parts or names, trains on scaled features of a linear model."""
    scaling = "auto" if isinstance(model, str) else model.get_params().get("scaling", "auto")
    linear = part_name(model) in ("auto", "linear")
    return linear and (scaling == "standard" or (scaling == "auto" and solver == "auto"))


def mean_square(x_sq: Floats) -> float:
    """Mean of |x|^2, more than 0 and finite: a step size, which is divided by it, is so, too."""
    return min(max(float(x_sq.mean(dtype=np.float64)), TINY), float(np.finfo(np.float64).max))


# Point by point


def point_fields(given: Given, solver: Part, sampler: Part, open_: Open) -> tuple[dict[str, Any], Given]:
    """What a PointsPlan has of an estimator's two parts, and the solver's parameters for whoever takes more of them."""
    of_solver, of_sampler = Given(solver, f"{solver.name}: "), Given(sampler, f"{sampler.name}: ")
    numbers = {p.name: of_solver.take(p.name) for p in registered("solver")[solver.name].parameters}
    numbers |= {p.name: of_sampler.take(p.name) for p in registered("selection")[sampler.name].parameters}
    fields = {
        "solver": solver.name,
        "sampler": sampler.name,
        "options": {name: float(value) for name, value in numbers.items()},
        "averaging": of_solver.take("averaging", open_.averaging),
        "batch_size": of_solver.take("batch_size"),
        "shuffle": bool(of_solver.take("shuffle")),
        "hogwild": of_solver.take("parallel", "deterministic") == "hogwild",
        "max_norm": of_solver.take("max_norm"),
        "share_classes": None,
        "n_negatives": open_.n_negatives,
        "max_iter": int(given.take("max_iter", open_.max_iter)),
        "fit_intercept": bool(given.take("fit_intercept")),
        "alpha": float(given.take("alpha", open_.alpha)),
    }
    if sampler.name != "all":  # all classes are neither drawn nor shared
        fields["n_negatives"] = int(given.take("n_negatives", open_.n_negatives))
        fields["share_classes"] = of_solver.take("share_classes")
    if sampler.name == "head_tail":
        fields |= {name: int(of_sampler.take(name)) for name in ("n_head", "refresh")}
    of_sampler.refuse_rest("here")
    _check_point_fields(fields, of_solver.take("schedule"))
    return fields, of_solver


def _check_point_fields(fields: Mapping[str, Any], schedule: str) -> None:
    """Refuse combinations that no loop has."""
    flags = registered("solver")[fields["solver"]].flags
    solver, alpha, max_norm = (fields[name] for name in ("solver", "alpha", "max_norm"))
    if fields["batch_size"] is not None and fields["hogwild"]:
        raise ValueError(f"batch_size is {fields['batch_size']!r}; with parallel='hogwild' it must be None")
    if "draws_label" in flags and fields["sampler"] == "head_tail":
        raise ValueError(f"solver={solver!r} draws the label too, which sampler='head_tail' cannot; choose another")
    if schedule == "adaptive" and ("implicit" in flags or alpha > 0 or max_norm is not None):
        raise ValueError(
            "schedule='adaptive' needs a solver with explicit steps, alpha=0 and max_norm=None; they are "
            f"{solver!r}, {alpha!r} and {max_norm!r}"
        )
    if max_norm is not None and (fields["hogwild"] or fields["batch_size"] is not None):
        raise ValueError(
            "max_norm needs parallel='deterministic' and batch_size=None; they are "
            f"{'hogwild' if fields['hogwild'] else 'deterministic'!r} and {fields['batch_size']!r}"
        )


def schedule_of(of_solver: Given, rate: float, u_rate: float, decay: float) -> Schedule:
    """The schedule of a solver's parameters."""
    name, every = of_solver.take("schedule"), None
    if name in ("exponential", "adaptive"):
        decay = float(of_solver.take("decay", decay))
    elif not of_solver.is_auto("decay"):
        raise ValueError(
            f"decay is {of_solver.take('decay')!r}, which has no effect with schedule={name!r}; leave it 'auto'"
        )
    if of_solver.has("decay_every"):
        every = of_solver.take("decay_every")
        if every is not None and name != "adaptive":
            raise ValueError(f"decay_every is {every!r}, which has no effect with schedule={name!r}; leave it None")
    return Schedule(name, rate, u_rate, decay, every)


def run_fields(given: Given) -> dict[str, Any]:
    """What every plan has of an estimator beside its parts."""
    return {
        "seed": seed_from(given.take("random_state")),
        "n_threads": n_threads_from(given.take("n_jobs")),
        "verbose": int(given.take("verbose")),
    }


def default_sampler(solver: Part | None, sampler: Part | None) -> Part:
    """What sampler="auto" stands for: frequency_block, unless the solver has a way of its own."""
    flags = registered("solver")[solver.name].flags if solver is not None else frozenset()
    own = "all" if "all_classes" in flags else "uniform" if "batch" in flags else None
    if sampler is None:
        return SAMPLERS[own or "frequency_block"]()
    if own and sampler.name != own:
        raise ValueError(f"sampler is {sampler.name!r}; solver {solver.name!r} needs {own!r}")  # type: ignore[union-attr]
    return sampler


def utility_points_plan(
    given: Given,
    solver: Part,
    sampler: Part | None,
    bound: tuple[str, Part, LocalFamily | None],
    x_sq: Floats,
    n_classes: int,
    rates: Mapping[str, float],
) -> PointsPlan:
    """The plan of an AugmentReduceClassifier.

    `bound` is the noise, the local step and the family; `rates` has what learning_rate="auto" is, times the mean of
    |x|^2.
    """
    open_ = Open(64, 20, 0.9)
    fields, of_solver = point_fields(given, solver, sampler or SAMPLERS["frequency_block"](), open_)
    adaptive = of_solver.take("schedule") == "adaptive"
    if adaptive and fields["averaging"] != "none":
        raise ValueError(f"schedule='adaptive' needs averaging='none'; it is {fields['averaging']!r}")
    mean = mean_square(x_sq) + fields["fit_intercept"]
    rate = rates["adaptive"] if adaptive else rates[solver.name] / mean
    rate = float(given.take("learning_rate", rate))
    if fields["max_norm"] is not None:
        raise ValueError(
            f"max_norm is {fields['max_norm']!r}, which has no effect with augment and reduce; leave it None"
        )
    noise, local, family = bound
    seen = 1.0 if fields["sampler"] == "all" else min(1.0, fields["n_negatives"] / (n_classes - 1))
    utility = Utility(noise, local.name, family, *_gains(local, seen))
    plan = PointsPlan(
        **fields, **run_fields(given), schedule=schedule_of(of_solver, rate, rate, open_.decay), utility=utility
    )
    of_solver.refuse_rest("with augment and reduce")
    return plan


def _gains(local: Part, seen: float) -> tuple[float, float, float]:
    """Gain, its power and its floor, of a local step that sees this share of the wrong classes."""
    of_local = local.get_params()
    open_floor = of_local.get("floor") == "auto"
    if open_floor and seen == 1:
        for name in ("gain", "gain_power"):
            default = type(local)().get_params()[name]
            if of_local[name] != default:
                raise ValueError(
                    f"{name} is {of_local[name]!r}, which has no effect where steps see all classes: the gain's floor "
                    f"is 1 then; set floor, too, or leave it {default!r}"
                )
    floor = seen if open_floor else of_local.get("floor", 0.0)
    return float(of_local["gain"]), float(of_local["gain_power"]), float(floor)


# By minibatches


def batch_source(sampler: Part | None, n_classes: int, *, sampled: bool, draws: Part) -> dict[str, Any]:
    """Which classes a minibatch sees: the fields of a BatchesPlan that say so.

    `sampled`: what sampler="auto" is whatever the number of classes; `draws`: what then draws, and before a search.
    """
    if sampler is None:
        sampler = draws if sampled or n_classes > MOST_SCORED else SAMPLERS["all"]()
    if sampler.name == "head_tail":
        raise ValueError("sampler is 'head_tail', which needs a linear model of one label a row; choose another")
    of_sampler = Given(sampler, f"{sampler.name}: ")
    fields: dict[str, Any] = {"source": "exact", "index": None, "budget": None, "warm_up": 1}
    if sampler.name == "search":
        index = of_sampler.take("index")
        fields |= {"source": search_name(index), "index": None if isinstance(index, str) else index}
        fields |= {"budget": of_sampler.take("budget"), "warm_up": int(of_sampler.take("warm_up"))}
        if fields["source"] == "messages":
            fields |= {"n_iter": int(of_sampler.take("n_iter")), "step": of_sampler.take("step")}
            fields["tolerance"] = float(of_sampler.take("tolerance"))
    elif sampler.name != "all":
        fields["source"], draws = "sampled", sampler
        for setting in sampler.settings:
            of_sampler.take(setting.name)
    of_sampler.refuse_rest("here")
    options = {name: float(value) for name, value in draws.get_params().items()}
    return {**fields, "sampler": draws.name, "options": options}


def draws_classes(source: str, warm_up: int) -> bool:
    """Whether minibatches draw classes in some pass, by these fields of their plan."""
    return source == "sampled" or (source != "exact" and warm_up > 0)


def batches_plan(
    given: Given,
    chosen: Chosen,
    x: Matrix,
    n_classes: int,
    *,
    loss: str,
    smoothing: float,
    open_: Open,
    dim: int | None,
    relu: bool,
    source: Mapping[str, Any],
) -> BatchesPlan:
    """The plan of minibatches; the estimator's solver is "adagrad", "implicit" or one of plain SGD."""
    solver = chosen.solver
    assert solver is not None
    if getattr(chosen.model, "scaling", "none") == "standard":
        raise ValueError(
            "scaling is 'standard', which needs the softmax of one label a row, trained point by point or by full "
            "passes; leave it 'auto'"
        )
    of_solver = Given(solver, f"{solver.name}: ")
    draws = draws_classes(source["source"], source["warm_up"])
    n_negatives = int(given.take("n_negatives", open_.n_negatives)) if draws else open_.n_negatives
    unbiased = loss == "cross_entropy" and solver.name in LABEL_SOLVERS
    # Plain steps on e^(z - v), which has no bound, diverge with embeddings at rates that learn (bench/decisions.md).
    adagrad = solver.name == "adagrad" or (unbiased and solver.name != "implicit")
    if of_solver.take("schedule") == "adaptive":
        other = "what the solver does anyway; leave it" if adagrad else "solver='adagrad'; set"
        raise ValueError(
            f"schedule is 'adaptive'; with several labels, embeddings or a margin that is {other} 'exponential'"
        )
    fit_intercept = bool(given.take("fit_intercept"))
    square = 1.0 if dim is not None else mean_square_of(x)
    rate = ADAGRAD_RATE / square**0.5 if adagrad else 1 / (square + fit_intercept)
    rate = float(given.take("learning_rate", rate))
    plan = BatchesPlan(
        loss=loss,
        smoothing=smoothing,
        implicit=solver.name == "implicit" and not unbiased,
        adagrad=adagrad,
        n_negatives=n_negatives,
        # A margin compares scores with 1: an inclusion probability has no place in them.
        log_q=loss in LOG_Q_LOSSES and (not draws or bool(of_solver.take("log_q", True))),
        dim=dim,
        relu=relu,
        double_sum=double_sum(solver.name, of_solver, source["source"], rate, dim) if unbiased else None,
        schedule=schedule_of(of_solver, rate, rate * EMBEDDING_SHARE[loss], open_.decay),
        max_iter=int(given.take("max_iter", open_.max_iter)),
        batch_size=of_solver.take("batch_size"),
        shuffle=bool(of_solver.take("shuffle")),
        share_classes=None if source["source"] == "exact" else of_solver.take("share_classes"),
        fit_intercept=fit_intercept,
        **{**source, "budget": _budget(source["budget"], loss, n_classes)},
        **run_fields(given),
    )
    # MarginClassifier has a loss of its own, and no use for a reduction.
    if loss in BATCH_REDUCTIONS.values() and not given.has("loss"):
        of_solver.take("reduction")
    of_solver.refuse_rest("with several labels, embeddings or a margin")
    return plan


def double_sum(rule: str, of_solver: Given, source: str, rate: float, dim: int | None) -> DoubleSum:
    """The steps of the solver `rule` on the double sum of minibatches; `rate` is the step size of W."""
    if source not in ("exact", "sampled"):
        raise ValueError(f"sampler is 'search'; solver {rule!r} needs one that leaves no class out")
    reduction = of_solver.take("reduction", "pick_all")
    # An old u lags behind x.w_y, an old log-normaliser does not. But where x.w_y has grown, what it leaves of u is far
    # too small for SCENT, whose step divides by a + e^-u (bench/decisions.md).
    carries_u = rule in ("implicit", "scent") or reduction == "decoupled"
    formulation = of_solver.take("formulation", "proposed" if carries_u else "raman")
    if reduction == "logistic":
        raise ValueError("reduction is 'logistic', which has no number for each row; that is solver='adagrad'")
    if reduction == "decoupled" and formulation != "proposed":
        raise ValueError(f"formulation is {formulation!r}, which has no effect with reduction='decoupled'")
    if rule == "implicit":
        _check_implicit(reduction, formulation, dim)
    own = registered("solver")[rule].parameters
    asked = of_solver.take("u_learning_rate", U_RATES.get(rule, rate)) if of_solver.has("u_learning_rate") else rate
    return DoubleSum(
        rule=rule,
        options={number.name: float(of_solver.take(number.name)) for number in own},
        reduction=reduction,
        formulation=formulation,
        u_init=of_solver.take("u_init", "log_n_classes"),
        step=1.0 if asked == "tied" else float(asked) / rate,
    )


def _check_implicit(reduction: str, formulation: str, dim: int | None) -> None:
    """Refuse what proximal steps of several labels do not have."""
    allowed = {
        "reduction": (reduction, ("pick_all", "pick_all_normalized")),
        "formulation": (formulation, ("proposed",)),
    }
    for name, (value, choices) in allowed.items():
        if value not in choices:
            listed = ", ".join(map(repr, choices))
            raise ValueError(f"{name} is {value!r}; with several labels and solver='implicit' it must be {listed}")
    if dim is not None:
        raise ValueError("solver is 'implicit', whose steps are those of a linear model; choose another for embeddings")


def _budget(given: int | None, loss: str, n_classes: int) -> int:
    """Classes that a search returns."""
    if given is None:
        given = MARGIN_BUDGET if loss == "margin" else -(-n_classes // SOFTMAX_BUDGET_SHARE)
    return int(min(given, n_classes))


def mean_square_of(x: Matrix) -> float:
    """Mean of |x|^2 in double precision, more than 0."""
    values = x.data if isinstance(x, sp.csr_array) else x.ravel()
    return float(max(float(np.einsum("i,i->", values, values, dtype=np.float64)) / x.shape[0], TINY))


def mean_length_of(x: Matrix) -> float:
    """Mean of the rows' sums of absolute values in double precision, more than 0."""
    values = x.data if isinstance(x, sp.csr_array) else x
    return float(max(np.abs(values).sum(dtype=np.float64) / x.shape[0], TINY))
