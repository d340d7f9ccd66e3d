"""Plans: what a choice makes of the parameters of an estimator, with nothing left open.

Every parameter is taken by what it has an effect on (`parts.Given`); what was set and is left over is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyclass.checks import n_threads_from, seed_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.recipes import MARGIN, Choice, is_hidden_layer
from manyclass.choosing.taking import Taking, linear_model, planned, resolved_values
from manyclass.figures import FIGURES
from manyclass.models import MODELS
from manyclass.parts import Given, Part
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS, check_found, search_name
from manyclass.solvers import LABEL_SOLVERS
from manyclass.training.plan import (
    BatchesPlan,
    DoubleSum,
    FullBatchPlan,
    HybridPlan,
    PairsPlan,
    PointsPlan,
    Schedule,
    formulation_of,
)

# The core's names of the losses of several labels that a solver's `reduction` names.
REDUCTIONS = {
    "pick_all": "cross_entropy",
    "pick_all_normalized": "pick_all_normalized",
    "decoupled": "decoupled",
    "logistic": "logistic",
}
# By minibatches there is one more, which is no log-likelihood.
SOFTMAX_REDUCTIONS = (REDUCTIONS["pick_all"], REDUCTIONS["pick_all_normalized"])
BATCH_REDUCTIONS = {**REDUCTIONS, "margin": "margin"}
BATCH_SOLVERS = ("adagrad", "css", "exact", *LABEL_SOLVERS)  # with embeddings or several labels
# Losses with the logarithm of a sum over classes: the weight of a drawn class enters it.
LOG_Q_LOSSES = ("cross_entropy", "pick_all_normalized", "decoupled")


# Fields that several plans have


def _run_fields(taking: Given) -> dict[str, Any]:
    return {
        "seed": seed_from(taking.take("random_state")),
        "n_threads": n_threads_from(taking.take("n_jobs")),
        "verbose": int(taking.take("verbose")),
    }


def _pass_fields(
    choice: Choice, taking: Given, solver_numbers: Given, rate: float, u_rate: float, *, by_batches: bool = False
) -> dict[str, Any]:
    """Return what all trainings by passes have."""
    return {
        "schedule": _schedule(choice, solver_numbers, rate, u_rate, by_batches=by_batches),
        "max_iter": int(taking.take("max_iter")),
        "batch_size": solver_numbers.take("batch_size"),
        "shuffle": bool(solver_numbers.take("shuffle")),
        "fit_intercept": bool(taking.take("fit_intercept")),
        **_run_fields(taking),
    }


def _ridge(choice: Choice, taking: Taking) -> float:
    """Return the ridge of steps of minibatches or on pairs; raises ValueError where a search has none."""
    alpha = float(taking.take("alpha"))
    if alpha and choice["sampler"].name == "search":
        raise ValueError(f"alpha is {alpha!r}, which has no effect with sampler='search'; leave it 'auto'")
    return alpha


def _schedule(choice: Choice, solver_numbers: Given, rate: float, u_rate: float, *, by_batches: bool) -> Schedule:
    name, every, decay = solver_numbers.take("schedule"), None, choice["decay"]
    if name in ("exponential", "adaptive"):
        decay = float(solver_numbers.take("decay"))
    elif not solver_numbers.is_auto("decay"):
        raise ValueError(
            f"decay is {solver_numbers.take('decay')!r}, which has no effect with schedule={name!r}; leave it 'auto'"
        )
    if solver_numbers.has("decay_every"):
        every = solver_numbers.take("decay_every")
        if every is not None and name != "adaptive" and not (by_batches and name == "inverse"):
            raise ValueError(f"decay_every is {every!r}, which has no effect with schedule={name!r}; leave it None")
    return Schedule(name, rate, u_rate, decay, every)


# Point by point


def _point_fields(choice: Choice, taking: Taking) -> tuple[dict[str, Any], Taking]:
    """Return what a PointsPlan has of an estimator's two parts, and the solver's parameters, to take more of them."""
    solver, sampler = choice["solver"], taking.take_sampler()
    flags = registered("solver")[solver.name].flags
    if needed := "all" if "all_classes" in flags else "uniform" if "batch" in flags else None:
        taking.opened.pop("sampler", None)
        if sampler.name != needed:
            raise ValueError(f"sampler is {sampler.name!r}; solver {solver.name!r} needs {needed!r}")
    solver_numbers, sampler_numbers = Taking(solver, choice, f"{solver.name}: "), Given(sampler, f"{sampler.name}: ")
    numbers = {p.name: solver_numbers.take(p.name) for p in registered("solver")[solver.name].parameters}
    numbers |= {p.name: sampler_numbers.take(p.name) for p in registered("selection")[sampler.name].parameters}
    fields = {
        "solver": solver.name,
        "sampler": sampler.name,
        "options": {name: float(value) for name, value in numbers.items()},
        "averaging": solver_numbers.take("averaging"),
        "hogwild": solver_numbers.take("parallel", "deterministic") == "hogwild",
        "max_norm": solver_numbers.take("max_norm"),
        "share_classes": None,
        "alpha": float(taking.take("alpha")),
    }
    if sampler.name == "all":  # all classes are neither drawn nor shared
        fields["n_negatives"] = choice["n_negatives"]
    else:
        fields["n_negatives"] = int(taking.take("n_negatives"))
        fields["share_classes"] = solver_numbers.take("share_classes")
    if sampler.name == "head_tail":
        fields |= {name: int(sampler_numbers.take(name)) for name in ("n_head", "refresh")}
    sampler_numbers.refuse_rest("here")
    _check_point_fields(fields, flags, solver_numbers.take("schedule"), solver_numbers.take("batch_size"))
    return fields, solver_numbers


def _check_point_fields(
    fields: Mapping[str, Any], flags: frozenset[str], schedule: str, batch_size: int | None
) -> None:
    """Refuse combinations that no loop has."""
    solver, alpha, max_norm = (fields[name] for name in ("solver", "alpha", "max_norm"))
    if batch_size is not None and fields["hogwild"]:
        raise ValueError(f"batch_size is {batch_size!r}; with parallel='hogwild' it must be None")
    if "draws_label" in flags and fields["sampler"] == "head_tail":
        raise ValueError(f"solver={solver!r} draws the label too, which sampler='head_tail' cannot; choose another")
    if schedule == "adaptive" and ("implicit" in flags or alpha > 0 or max_norm is not None):
        raise ValueError(
            "schedule='adaptive' needs a solver with explicit steps, alpha=0 and max_norm=None; they are "
            f"{solver!r}, {alpha!r} and {max_norm!r}"
        )
    if max_norm is not None and (fields["hogwild"] or batch_size is not None):
        raise ValueError(
            "max_norm needs parallel='deterministic' and batch_size=None; they are "
            f"{'hogwild' if fields['hogwild'] else 'deterministic'!r} and {batch_size!r}"
        )


def points_plan(choice: Choice) -> Planned:
    """Return the plan of a linear model of one label a row, point by point; "grid" stands for the untried step size."""
    taking, solver = Taking.of(choice), choice["solver"]
    taking.take_early_stopping()
    fields, solver_numbers = _point_fields(choice, taking)
    if not solver_numbers.take("log_q", True):
        raise ValueError("log_q is False, which has no effect without embeddings or several labels; leave it True")
    numbers = solver.get_params()
    fields |= {name: solver_numbers.take(name) for name in ("root", "partition", "u_init") if name in numbers}
    fields["formulation"] = formulation_of(solver_numbers.take("formulation"))
    if fields["max_norm"] is not None and fields["formulation"] != "proposed":
        raise ValueError(f"max_norm needs formulation='proposed'; it is {fields['formulation']!r}")
    if fields.get("partition") == "random" and not solver_numbers.take("shuffle"):
        raise ValueError("shuffle is False, which has no effect with partition='random'; leave it True")
    taking.refuse_dim()
    rate = float(choice["learning_rate"])
    if taking.take("learning_rate") == "grid":
        taking.opened["learning_rate"] = rate
    u_rate = solver_numbers.take("u_learning_rate")
    u_rate = rate if u_rate == "tied" else float(u_rate)
    plan = PointsPlan(
        **fields,
        **_pass_fields(choice, taking, solver_numbers, rate, u_rate),
        by_curvature=choice.falls,
        discriminant=choice.begins_at_discriminant,
    )
    solver_numbers.refuse_rest("here")
    where = f"with solver={solver.name!r}, sampler={fields['sampler']!r}"
    taking.refuse_rest(f"{where} and a linear model of one label a row")
    return planned(choice, plan, resolved_values(choice, taking, solver_numbers, linear_model(choice.chosen)))


def utility_plan(choice: Choice) -> PointsPlan:
    """Return the plan of an AugmentReduceClassifier, but for its utility."""
    taking = Taking.of(choice, "noise", "local_step", "posterior")
    fields, solver_numbers = _point_fields(choice, taking)
    if solver_numbers.take("schedule") == "adaptive" and fields["averaging"] != "none":
        raise ValueError(f"schedule='adaptive' needs averaging='none'; it is {fields['averaging']!r}")
    rate = float(taking.take("learning_rate"))
    if fields["max_norm"] is not None:
        raise ValueError(
            f"max_norm is {fields['max_norm']!r}, which has no effect with augment and reduce; leave it None"
        )
    plan = PointsPlan(**fields, **_pass_fields(choice, taking, solver_numbers, rate, rate), by_curvature=choice.falls)
    solver_numbers.refuse_rest("with augment and reduce")
    taking.refuse_rest("here")
    return replace(plan, posterior=choice["posterior"] != "point")


# Full passes


def full_plan(choice: Choice) -> Planned:
    """Return the plan of L-BFGS."""
    taking, numbers = Taking.of(choice, "random_state"), choice["solver"].get_params()
    taking.take_early_stopping()
    fields = _run_fields(taking)
    taking.refuse_dim()
    plan = FullBatchPlan(
        loss=numbers["loss"],
        tol=float(numbers["tol"]),
        alpha=float(taking.take("alpha")),
        max_iter=int(taking.take("max_iter")),
        fit_intercept=bool(taking.take("fit_intercept")),
        **{name: fields[name] for name in ("n_threads", "verbose")},
    )
    # "auto" and an object are no settings; names of samplers and models other than the linear one are.
    sampler, model = choice.parameters["sampler"], choice.parameters["model"]
    if sampler != "auto":
        raise ValueError(f"sampler is {sampler!r}, which has no effect with solver='lbfgs'; leave it 'auto'")
    if getattr(model, "name", model) not in ("auto", "linear"):
        raise ValueError(f"model is {model!r}; with solver='lbfgs' it must be 'linear'")
    taking.refuse_rest("with solver='lbfgs'")
    return planned(choice, plan, resolved_values(choice, taking, Given(choice["solver"]), linear_model(choice.chosen)))


# By minibatches


def softmax_batches_plan(choice: Choice) -> Planned:
    """Return the plan of a SoftmaxClassifier with several labels, embeddings or a search."""
    taking, solver = Taking.of(choice), choice["solver"]
    where = "with several labels, embeddings or a search"
    if solver.name not in BATCH_SOLVERS:
        raise ValueError(f"solver is {solver.name!r}; {where} it must be one of {', '.join(map(repr, BATCH_SOLVERS))}")
    taking.refuse_grid()
    taking.take_early_stopping()
    alpha, sampler = _ridge(choice, taking), taking.take_sampler()
    if solver.name == "exact" and sampler.name != "all":
        raise ValueError(f"sampler is {sampler.name!r}; solver 'exact' needs 'all'")
    reduction = getattr(solver, "reduction", "auto")
    if solver.name in LABEL_SOLVERS:
        loss = REDUCTIONS["pick_all"]  # their reductions are in the `DoubleSum` of the plan
    elif reduction not in ("auto", "pick_all") and sampler.name == "search":
        raise ValueError(f"reduction is {reduction!r}; with sampler='search' it must be 'pick_all'")
    else:
        loss = BATCH_REDUCTIONS[choice["reduction"]]
    margin = loss == "margin"
    smoothing = FIGURES.SMOOTHING if margin else 0.0
    plan, solver_numbers = batches_plan(
        choice, taking, loss, smoothing, SAMPLERS["uniform" if margin else "frequency"]()
    )
    if loss == "logistic" and plan.source != "exact":
        raise ValueError(
            "reduction is 'logistic', a sum over all classes, which those drawn do not stand for; set sampler='all' "
            "or another reduction"
        )
    taking.refuse_rest(where)
    # Embeddings of few rows are too sure of themselves, as the rows of a stream tell.
    scaled = margin or (choice.goes_on and plan.dim is not None and loss in SOFTMAX_REDUCTIONS)
    plan = replace(plan, finds_scale=scaled, alpha=alpha)
    return _with_runs(choice, plan, resolved_of_batches(choice, taking, solver_numbers))


def _with_runs(choice: Choice, plan: BatchesPlan, params: dict[str, Any]) -> Planned:
    """Return the plan of several runs of embeddings, by margins, chosen or asked for; else that of one."""
    n_models = choice.parameters["n_models"]
    runs_are_set = not choice.is_open("n_models") and n_models > 1 and plan.double_sum is not None
    if plan.dim is None or choice.by_steps or not (plan.loss == MARGIN or choice.is_open("model") or runs_are_set):
        return planned(choice, plan, params)
    runs = embedding_runs(choice, plan)
    whole = HybridPlan(None, runs, ridge=_ridge_to_find(choice, runs))
    if whole.ridge is not None:  # no number stands for the ridges of several runs
        params.pop("alpha", None)
    return planned(choice, whole, {**params, **runs_taken(choice, runs)})


def resolved_of_batches(choice: Choice, taking: Taking, solver_numbers: Taking) -> dict[str, Any]:
    """Return what parameters that were left open became in a training by minibatches."""
    model = choice["model"] if choice["model"].name == "embedding" else MODELS["linear"](scaling="none")
    return resolved_values(choice, taking, solver_numbers, model)


def batches_plan(
    choice: Choice, taking: Taking, loss: str, smoothing: float, draws: Part
) -> tuple[BatchesPlan, Taking]:
    """Return the plan of minibatches, and what was taken of the solver; `draws` is what draws before a search."""
    solver, model, n_classes = choice["solver"], choice["model"], choice.facts.n_classes
    if getattr(model, "scaling", "none") == "standard":
        raise ValueError(
            "scaling is 'standard', which needs the softmax of one label a row, trained point by point or by full "
            "passes; leave it 'auto'"
        )
    source = _batch_source(taking.take_sampler(), draws)
    dim = int(taking.take("dim")) if model.name == "embedding" else None
    solver_numbers = Taking(solver, choice, f"{solver.name}: ")
    draws_classes = source["source"] == "sampled" or (source["source"] != "exact" and source["warm_up"] > 0)
    n_negatives = int(taking.take("n_negatives") if draws_classes else choice["n_negatives"])
    unbiased, adagrad = _steps_of_batches(solver_numbers, solver.name, loss)
    rate = float(taking.take("learning_rate"))
    embedding_step = FIGURES.EMBEDDING_STEP_BY_MARGINS if loss in ("margin", "triplet") else FIGURES.EMBEDDING_STEP
    plan = BatchesPlan(
        loss=loss,
        smoothing=smoothing,
        implicit=solver.name == "implicit" and not unbiased,
        adagrad=adagrad,
        n_negatives=n_negatives,
        # A margin compares scores with 1: an inclusion probability has no place in them.
        log_q=loss in LOG_Q_LOSSES and (not draws_classes or bool(solver_numbers.take("log_q", True))),
        dim=dim,
        relu=dim is not None and model.activation == "relu",
        unit_rows=adagrad and is_hidden_layer(choice),
        double_sum=_double_sum(solver.name, solver_numbers, source["source"], rate, dim) if unbiased else None,
        share_classes=None if source["source"] == "exact" else solver_numbers.take("share_classes"),
        **{**source, "budget": _budget(source["budget"], loss, n_classes)},
        **_pass_fields(choice, taking, solver_numbers, rate, rate * embedding_step, by_batches=True),
    )
    # MarginClassifier has a loss of its own, and no use for a reduction.
    if loss in BATCH_REDUCTIONS.values() and not taking.has("loss"):
        solver_numbers.take("reduction")
    solver_numbers.refuse_rest("with several labels, embeddings or a margin")
    return plan, solver_numbers


def _steps_of_batches(solver_numbers: Taking, name: str, loss: str) -> tuple[bool, bool]:
    """Whether the steps of a solver are those of the double sum, and whether they are Adagrad's."""
    unbiased = loss == "cross_entropy" and name in LABEL_SOLVERS
    # Plain steps on e^(z - v), which has no bound, diverge with embeddings at rates that learn (bench/decisions.md).
    adagrad = name == "adagrad" or (unbiased and name != "implicit")
    if solver_numbers.take("schedule") == "adaptive":
        other = "what the solver does anyway; leave it" if adagrad else "solver='adagrad'; set"
        raise ValueError(
            f"schedule is 'adaptive'; with several labels, embeddings or a margin that is {other} 'exponential'"
        )
    return unbiased, adagrad


def _batch_source(sampler: Part, draws: Part) -> dict[str, Any]:
    """Return which classes a minibatch sees: the fields of a BatchesPlan that say so."""
    if sampler.name == "head_tail":
        raise ValueError("sampler is 'head_tail', which needs a linear model of one label a row; choose another")
    sampler_numbers = Given(sampler, f"{sampler.name}: ")
    fields: dict[str, Any] = {"source": "exact", "index": None, "budget": None, "warm_up": 1}
    if sampler.name == "search":
        index = sampler_numbers.take("index")
        fields |= {"source": search_name(index), "index": None if isinstance(index, str) else index}
        fields |= {"budget": sampler_numbers.take("budget"), "warm_up": int(sampler_numbers.take("warm_up"))}
        fields["fill"] = bool(sampler_numbers.take("fill"))
        if fields["source"] == "messages":
            fields |= {
                "n_iter": int(sampler_numbers.take("n_iter")),
                "tolerance": float(sampler_numbers.take("tolerance")),
            }
            fields |= {"message_rule": sampler_numbers.take("rule")} | {
                n: sampler_numbers.take(n) for n in ("step", "threshold")
            }
            check_found(fields["threshold"], fields["budget"], fields["fill"])
    elif sampler.name != "all":
        fields["source"], draws = "sampled", sampler
        for setting in sampler.settings:
            sampler_numbers.take(setting.name)
    sampler_numbers.refuse_rest("here")
    options = {name: float(value) for name, value in draws.get_params().items()}
    return {**fields, "sampler": draws.name, "options": options}


def _double_sum(rule: str, solver_numbers: Given, source: str, rate: float, dim: int | None) -> DoubleSum:
    """The steps of the solver `rule` on the double sum of minibatches; `rate` is the step size of W."""
    if source not in ("exact", "sampled"):
        raise ValueError(f"sampler is 'search'; solver {rule!r} needs one that leaves no class out")
    reduction = solver_numbers.take("reduction")
    # An old u lags behind x.w_y, an old log-normaliser does not. But where x.w_y has grown, what it leaves of u is far
    # too small for SCENT, whose step divides by a + e^-u (bench/decisions.md): so the rules for `formulation`.
    formulation = formulation_of(solver_numbers.take("formulation"))
    if reduction == "logistic":
        raise ValueError("reduction is 'logistic', which has no number for each row; that is solver='adagrad'")
    if reduction == "decoupled" and formulation != "proposed":
        raise ValueError(f"formulation is {formulation!r}, which has no effect with reduction='decoupled'")
    if rule == "implicit":
        _check_implicit(reduction, formulation, dim)
    rule_numbers = registered("solver")[rule].parameters
    u_rate = solver_numbers.take("u_learning_rate") if solver_numbers.has("u_learning_rate") else rate
    return DoubleSum(
        rule=rule,
        options={number.name: float(solver_numbers.take(number.name)) for number in rule_numbers},
        reduction=reduction,
        formulation=formulation,
        u_init=solver_numbers.take("u_init", "log_n_classes"),
        step=1.0 if u_rate == "tied" else float(u_rate) / rate,
    )


def _check_implicit(reduction: str, formulation: str | float, dim: int | None) -> None:
    """Refuse what proximal steps of several labels do not have."""
    takes = {"reduction": (reduction, ("pick_all", "pick_all_normalized")), "formulation": (formulation, ("proposed",))}
    for name, (value, choices) in takes.items():
        if value not in choices:
            listed = ", ".join(map(repr, choices))
            raise ValueError(f"{name} is {value!r}; with several labels and solver='implicit' it must be {listed}")
    if dim is not None:
        raise ValueError("solver is 'implicit', whose steps are those of a linear model; choose another for embeddings")


def _budget(budget: int | None, loss: str, n_classes: int) -> int:
    """Classes that a search returns."""
    by_loss = FIGURES.MARGIN_BUDGET if loss == "margin" else -(-n_classes // FIGURES.SOFTMAX_BUDGET_SHARE)
    return int(min(by_loss if budget is None else budget, n_classes))


# Weights on pairs


def pairs_plan(choice: Choice) -> Planned:
    """Return the plan for model="pairs"."""
    where = "with model='pairs'"
    if not choice.is_open("sampler"):
        raise ValueError(
            f"sampler is {choice.parameters['sampler']!r}, which has no effect {where}: its gradients are those of all "
            "classes; leave it 'auto'"
        )
    plan, params = _pairs(choice, Taking.of(choice), where)
    return planned(choice, plan, params)


# The parameters of a blend that are those of its embeddings.
BESIDE_PAIRS = ("alpha", "dim", "n_negatives", "sampler")


def hybrid_plan(choice: Choice) -> Planned:
    """Return the plan of a blend; its members have the estimator's parameters that pairs do not use."""
    plan, params = _pairs(choice, Taking.of(choice, *BESIDE_PAIRS), "with model='hybrid'")
    model = choice["model"]
    embeddings, taking = _member_of_batches(choice, "embeddings")
    if embeddings.source == "exact" and not (choice.is_open("sampler") or choice.is_open("n_negatives")):
        raise ValueError(f"n_negatives={choice['n_negatives']!r} has no effect with sampler='all'; leave it 'auto'")
    runs = _runs_of_embeddings(choice, replace(embeddings, seed=plan.seed))
    # No number stands for the ridges of several members.
    params |= {name: value for name, value in taking.opened.items() if name in BESIDE_PAIRS and name != "alpha"}
    learns = {"repeats": model.repeats == "learn", "counts": model.counts == "learn"}
    whole = HybridPlan(plan, runs, ridge=_ridge_to_find(choice, runs), **learns)
    if plan.prune == 0 and not (choice.facts.several and choice.facts.n_texts):  # whose words few rows have
        whole = _with_linear_members(choice, whole, model)
    return planned(choice, whole, params | runs_taken(choice, runs))


def _ridge_to_find(choice: Choice, runs: tuple[BatchesPlan, ...]) -> float | None:
    """Return the ridge that runs of unbiased embeddings may have; None where it is set, or there are none."""
    is_unbiased = any(run.double_sum is not None for run in runs)
    return FIGURES.PRIOR / choice.facts.n_samples if is_unbiased and choice.is_open("alpha") else None


def _runs_of_embeddings(choice: Choice, embeddings: BatchesPlan) -> tuple[BatchesPlan, ...]:
    """Return the runs of embeddings, and behind those by margins some by unbiased steps."""
    runs = embedding_runs(choice, embeddings)
    if embeddings.loss != MARGIN or choice.facts.n_texts:
        return runs
    unbiased, _ = _member_of_batches(choice, "unbiased embeddings")
    return (*runs, *embedding_runs(choice, replace(unbiased, seed=embeddings.seed)))


def _member_of_batches(choice: Choice, name: str) -> tuple[BatchesPlan, Taking]:
    """Return the plan of a member of a blend by minibatches, and the parameters that it has taken."""
    member = choice.beside(name)
    taking, reduction = Taking.of(member), member["reduction"]
    by_margins = reduction == MARGIN
    loss = BATCH_REDUCTIONS["pick_all" if member["solver"].name in LABEL_SOLVERS else reduction]
    smoothing = (FIGURES.SMOOTHING if name == "embeddings" else 1.0) if by_margins else 0.0
    alpha, draws = _ridge(member, taking), SAMPLERS["uniform" if by_margins else "frequency"]()
    return replace(batches_plan(member, taking, loss, smoothing, draws)[0], alpha=alpha), taking


def embedding_runs(choice: Choice, embeddings: BatchesPlan) -> tuple[BatchesPlan, ...]:
    """Return the runs of embeddings that are trained, as many as are asked for or predicted to be quick enough."""
    facts, n = choice.facts, choice.parameters["n_models"]
    if choice.is_open("n_models"):
        seconds, size = costs.fit_cost(facts, embeddings), 4 * facts.n_features * (embeddings.dim or 0)
        ranks = embeddings.loss == MARGIN
        n = 1 if choice.timed else costs.n_runs(seconds, size, choice.most_bytes, ranks=ranks)
    return tuple(replace(embeddings, seed=embeddings.seed + number) for number in range(int(n)))


def runs_taken(choice: Choice, runs: tuple[BatchesPlan, ...]) -> dict[str, Any]:
    """Return what n_models became, if it was open."""
    return {"n_models": sum(run.loss == runs[0].loss for run in runs)} if choice.is_open("n_models") else {}


def _with_linear_members(choice: Choice, plan: HybridPlan, model: Part) -> HybridPlan:
    """Return the plan with a linear model by margins and one by steps, where they are small, and quick beside it."""
    facts = choice.facts
    assert plan.pairs is not None
    seconds = sum(costs.fit_cost(facts, run) for run in plan.embeddings)
    most = max(FIGURES.QUICK, FIGURES.MOST_OF_EMBEDDINGS * seconds)
    seed, room = plan.pairs.seed, min(FIGURES.LEAST_TO_EMBED, choice.most_bytes - costs.model_bytes(facts, plan))
    if model.margins == "learn" and facts.bytes <= room:
        margins = replace(_member_of_batches(choice, "margins")[0], seed=seed)
        if costs.fit_cost(facts, margins) <= most:
            plan, room = replace(plan, margins=margins), room - facts.bytes
    if model.linear == "learn" and facts.bytes <= room and not facts.several:
        name = "linear" if costs.is_quick_exactly(facts) else "sampled linear"
        linear = points_plan(choice.beside(name)).plan
        assert isinstance(linear, PointsPlan)
        if not choice.is_open("alpha"):  # of the rows as they are, for training has units of its own
            linear = replace(linear, alpha=linear.alpha / facts.lengths.mean_square)
        if costs.fit_cost(facts, linear) <= most:
            plan = replace(plan, linear=replace(linear, seed=seed))
    return plan


def _pairs(choice: Choice, taking: Taking, where: str) -> tuple[PairsPlan, dict[str, Any]]:
    """Return the plan of weights on pairs, and what parameters that were left open became in it."""
    solver, model = choice["solver"], choice["model"]
    if solver.name != "adagrad":
        raise ValueError(f"solver is {solver.name!r}; {where} it must be 'adagrad'")
    alpha = 0.0 if model.name == "hybrid" else _ridge(choice, taking)
    taking.take_early_stopping()
    taking.refuse_grid()
    solver_numbers, model_numbers = Taking(solver, choice, "adagrad: "), Given(model)
    hogwild = solver_numbers.take("parallel") == "hogwild"
    batch_size = solver_numbers.take("batch_size")
    if hogwild and batch_size is not None:
        raise ValueError(f"batch_size is {batch_size!r}; with parallel='hogwild' it must be None")
    reduction = str(solver_numbers.take("reduction"))
    rate = float(taking.take("learning_rate"))
    plan = PairsPlan(
        loss=BATCH_REDUCTIONS[reduction],
        smoothing=FIGURES.SMOOTHING if reduction == "margin" else 0.0,
        offset=FIGURES.PAIRS_OFFSET * choice.facts.lengths.mean_square_of_values,
        rounding=FIGURES.PAIRS_ROUNDING,
        min_count=int(model_numbers.take("min_count")),
        few_classes=int(model_numbers.take("few_classes")),
        prune=float(model_numbers.take("prune")),
        alpha=alpha,
        hogwild=hogwild,
        share_classes=None,
        **_pass_fields(choice, taking, solver_numbers, rate, rate),
    )
    solver_numbers.refuse_rest(where)
    taking.refuse_rest(where)
    return with_rate_of_pairs(plan, rate), resolved_values(choice, taking, solver_numbers, model)


def with_rate_of_pairs(plan: PairsPlan, rate: float) -> PairsPlan:
    """Return the plan with another step size; that of the intercepts follows."""
    # An intercept is the weight of a feature that is always 1, whatever the length of rows, whose square this is.
    square = plan.offset / FIGURES.PAIRS_OFFSET
    intercept_rate = FIGURES.INTERCEPT_STEP * rate * square**0.5
    return replace(plan, schedule=replace(plan.schedule, learning_rate=rate, u_learning_rate=intercept_rate))
