"""Plans: what a choice makes of the parameters of an estimator, with nothing left open.

Every parameter is taken by what it has an effect on (`Taking`); what was set and is left over is refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from manyclass.checks import n_threads_from, seed_from
from manyclass.choosing import costs
from manyclass.choosing.costs import Planned
from manyclass.choosing.recipes import MARGIN, Choice, is_hidden_layer, needed_sampler, words_of
from manyclass.figures import FIGURES
from manyclass.models import MODELS
from manyclass.parts import Chosen, Given, Part, is_open, part_name
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS, check_found, search_name
from manyclass.solvers import LABEL_SOLVERS
from manyclass.training.plan import (
    AnyPlan,
    BatchesPlan,
    DoubleSum,
    FullBatchPlan,
    HybridPlan,
    PairsPlan,
    PointsPlan,
    Schedule,
    formulation_of,
)

BATCH_SOLVERS = ("adagrad", "css", "exact", *LABEL_SOLVERS)  # with embeddings or several labels
SOFTMAX_LOSSES = ("cross_entropy", "pick_all_normalized")
# Losses with the logarithm of a sum over classes: the weight of a drawn class enters it.
LOG_Q_LOSSES = (*SOFTMAX_LOSSES, "decoupled")
# Parameters whose effect is not on a plan. Patience without early stopping has none at all, and may be set all the
# same: scikit-learn's checks and grids set it wherever there is one.
BESIDE_PLANS = ("solver", "sampler", "model", "class_weight", "n_models", "warm_start", "n_iter_no_change")


class Taking(Given):
    """The parameters of an estimator that are taken, those left open being answered by a choice.

    Attributes
    ----------
    choice : Choice
    solver : Given
        The parameters of its solver.
    """

    def __init__(self, choice: Choice, *beside: str) -> None:
        super().__init__(choice.parameters, answers=choice)
        self.choice, solver = choice, choice["solver"]
        self.solver = Given(solver, f"{solver.name}: ", choice)
        self._taken.update(BESIDE_PLANS, beside)

    def take_sampler(self) -> Part:
        """Return the sampler, set or by the recipe."""
        sampler: Part = self.choice["sampler"]
        if self.choice.is_open("sampler"):
            self.opened["sampler"] = sampler
        return sampler

    def take_early_stopping(self) -> None:
        """Early stopping is the fit's; without it a share of held-out rows has no effect."""
        if self.take("early_stopping") and self.has("validation_fraction"):
            self.take("validation_fraction")

    def take_ridge(self) -> float:
        """Return the ridge of steps of minibatches or on pairs; raises ValueError where a search has none."""
        alpha = float(self.take("alpha"))
        if alpha and self.choice["sampler"].name == "search":
            raise ValueError(f"alpha is {alpha!r}, which has no effect with sampler='search'; leave it 'auto'")
        return alpha

    def take_run(self) -> dict[str, Any]:
        """Return the fields that all plans have."""
        seed, n_threads = seed_from(self.take("random_state")), n_threads_from(self.take("n_jobs"))
        run = {"seed": seed, "n_threads": n_threads, "verbose": int(self.take("verbose"))}
        return {**run, "fit_intercept": bool(self.take("fit_intercept")), "max_iter": int(self.take("max_iter"))}

    def take_passes(self, rate: float, u_rate: float, *, by_batches: bool = False) -> dict[str, Any]:
        """Return the fields of all trainings by passes."""
        batch_size = self.solver.take("batch_size")
        if batch_size is not None and getattr(self.choice["solver"], "parallel", "") == "hogwild":
            raise ValueError(f"batch_size is {batch_size!r}; with parallel='hogwild' it must be None")
        steps = {"schedule": self._take_schedule(rate, u_rate, by_batches=by_batches), "batch_size": batch_size}
        return {**steps, "shuffle": bool(self.solver.take("shuffle")), **self.take_run()}

    def _take_schedule(self, rate: float, u_rate: float, *, by_batches: bool) -> Schedule:
        name, every, decay = self.solver.take("schedule"), None, self.choice["decay"]
        if name in ("exponential", "adaptive"):
            decay = float(self.solver.take("decay"))
        elif not self.solver.is_auto("decay"):
            set_decay = self.solver.take("decay")
            raise ValueError(f"decay is {set_decay!r}, which has no effect with schedule={name!r}; leave it 'auto'")
        if self.solver.has("decay_every"):
            every = self.solver.take("decay_every")
            if every is not None and name != "adaptive" and not (by_batches and name == "inverse"):
                raise ValueError(f"decay_every is {every!r}, which has no effect with schedule={name!r}; leave it None")
        return Schedule(name, rate, u_rate, decay, every)

    def refuse_dim(self) -> None:
        """Raise ValueError for a dim where no model has embeddings that is planned or tried."""
        if self.choice.tries("model"):
            self._taken.add("dim")
        elif not self.is_auto("dim"):
            raise ValueError(f"dim is {self.take('dim')!r}, which needs model='embedding'; leave it 'auto'")

    def refuse_grid(self) -> None:
        """Raise ValueError for a grid of step sizes where the model is not linear, or has several labels a row."""
        if self.take("learning_rate") == "grid":
            raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")

    def resolved(self) -> dict[str, Any]:
        """Return what parameters that were left open became, for `set_params`; the solver has its own filled in."""
        choice, parameters, values = self.choice, self.choice.parameters, dict(self.opened)
        model, set_model = choice["model"], parameters["model"]
        if model.name == "linear":
            is_scaled = choice.recipe.trains == "points"
            model = linear_model(choice.chosen) if is_scaled else MODELS["linear"](scaling="none")
        # What "auto" is for the scaling of a linear model that was named is told by the model.
        scaling = "auto" if isinstance(set_model, str) else getattr(set_model, "scaling", "")
        if is_open(set_model) or (model.name == "linear" and scaling == "auto"):
            values["model"] = model
        if is_open(parameters["solver"]) or self.solver.opened:
            values["solver"] = clone(choice["solver"]).set_params(**self.solver.opened)
        return values

    def planned(self, plan: AnyPlan, params: dict[str, Any] | None = None) -> Planned:
        """Return a plan with what parameters that were left open became in it, and the recipe."""
        recipe = self.choice.recipe
        params = self.resolved() if params is None else params
        return Planned(plan, params, {"recipe": f"{recipe.name} ({words_of(recipe.holds)})"})


# Point by point


def _point_fields(taking: Taking) -> dict[str, Any]:
    """Return what a PointsPlan has of an estimator's two parts."""
    choice, solver_numbers = taking.choice, taking.solver
    solver, sampler = choice["solver"], choice["sampler"]
    needed = needed_sampler(solver)
    if needed is None:
        taking.take_sampler()
    elif sampler.name != needed:
        raise ValueError(f"sampler is {sampler.name!r}; solver {solver.name!r} needs {needed!r}")
    numbers = {p.name: solver_numbers.take(p.name) for p in registered("solver")[solver.name].parameters}
    numbers |= {p.name: getattr(sampler, p.name) for p in registered("selection")[sampler.name].parameters}
    draws = sampler.name != "all"  # all classes are neither drawn nor shared
    fields = {
        "solver": solver.name,
        "sampler": sampler.name,
        "options": {name: float(value) for name, value in numbers.items()},
        "averaging": solver_numbers.take("averaging"),
        "hogwild": solver_numbers.take("parallel", "deterministic") == "hogwild",
        "max_norm": solver_numbers.take("max_norm"),
        "share_classes": solver_numbers.take("share_classes") if draws else None,
        "n_negatives": int(taking.take("n_negatives")) if draws else choice["n_negatives"],
        "alpha": float(taking.take("alpha")),
    }
    if sampler.name == "head_tail":
        fields |= {name: int(getattr(sampler, name)) for name in ("n_head", "refresh")}
    _check_point_fields(fields, solver_numbers.take("schedule"), solver_numbers.take("batch_size"))
    return fields


def _check_point_fields(fields: dict[str, Any], schedule: str, batch_size: int | None) -> None:
    """Refuse combinations that no loop has."""
    solver, alpha, max_norm = (fields[name] for name in ("solver", "alpha", "max_norm"))
    flags, parallel = registered("solver")[solver].flags, "hogwild" if fields["hogwild"] else "deterministic"
    if "draws_label" in flags and fields["sampler"] == "head_tail":
        raise ValueError(f"solver={solver!r} draws the label too, which sampler='head_tail' cannot; choose another")
    if schedule == "adaptive" and ("implicit" in flags or alpha > 0 or max_norm is not None):
        needs = "schedule='adaptive' needs a solver with explicit steps, alpha=0 and max_norm=None"
        raise ValueError(f"{needs}; they are {solver!r}, {alpha!r} and {max_norm!r}")
    if max_norm is not None and (fields["hogwild"] or batch_size is not None):
        needs = "max_norm needs parallel='deterministic' and batch_size=None"
        raise ValueError(f"{needs}; they are {parallel!r} and {batch_size!r}")


def points_plan(choice: Choice) -> Planned:
    """Return the plan of a linear model of one label a row, point by point; "grid" stands for the untried step size."""
    taking = Taking(choice)
    taking.take_early_stopping()
    fields, solver_numbers = _point_fields(taking), taking.solver
    names = filter(solver_numbers.has, ("root", "partition", "u_init"))
    fields |= {name: solver_numbers.take(name) for name in names}
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
    fields |= taking.take_passes(rate, rate if u_rate == "tied" else float(u_rate))
    plan = PointsPlan(**fields, by_curvature=choice.falls, discriminant=choice.begins_at_discriminant)
    solver_numbers.refuse_rest("without embeddings or several labels")
    where = f"with solver={plan.solver!r}, sampler={plan.sampler!r}"
    taking.refuse_rest(f"{where} and a linear model of one label a row")
    return taking.planned(plan)


def utility_plan(choice: Choice) -> PointsPlan:
    """Return the plan of an AugmentReduceClassifier, but for its utility."""
    taking = Taking(choice, "noise", "local_step", "posterior")
    fields = _point_fields(taking)
    if taking.solver.take("schedule") == "adaptive" and fields["averaging"] != "none":
        raise ValueError(f"schedule='adaptive' needs averaging='none'; it is {fields['averaging']!r}")
    rate, max_norm = float(taking.take("learning_rate")), fields["max_norm"]
    if max_norm is not None:
        raise ValueError(f"max_norm is {max_norm!r}, which has no effect with augment and reduce; leave it None")
    fields |= taking.take_passes(rate, rate)
    plan = PointsPlan(**fields, by_curvature=choice.falls, posterior=choice["posterior"] != "point")
    taking.solver.refuse_rest("with augment and reduce")
    taking.refuse_rest("here")
    return plan


# Full passes


def full_plan(choice: Choice) -> Planned:
    """Return the plan of L-BFGS."""
    taking, solver = Taking(choice, "random_state"), choice["solver"]
    taking.take_early_stopping()
    taking.refuse_dim()
    alpha, run = float(taking.take("alpha")), taking.take_run()
    del run["seed"]  # nothing is drawn
    plan = FullBatchPlan(loss=solver.loss, tol=float(solver.tol), alpha=alpha, **run)
    # "auto" and an object are no settings; names of samplers and models other than the linear one are.
    sampler, model = choice.parameters["sampler"], choice.parameters["model"]
    if sampler != "auto":
        raise ValueError(f"sampler is {sampler!r}, which has no effect with solver='lbfgs'; leave it 'auto'")
    if part_name(model) not in ("auto", "linear"):
        raise ValueError(f"model is {model!r}; with solver='lbfgs' it must be 'linear'")
    taking.refuse_rest("with solver='lbfgs'")
    return taking.planned(plan)


def scales_features(solver: str | Part, model: str | Part) -> bool:
    """Whether an estimator with these two parameters, parts or names, trains on scaled features of a linear model."""
    scaling = "auto" if isinstance(model, str) else model.get_params().get("scaling", "auto")
    linear = part_name(model) in ("auto", "linear")
    return linear and (scaling == "standard" or (scaling == "auto" and solver == "auto"))


def linear_model(chosen: Chosen) -> Part:
    """Return the linear model, its scaling filled in: with solver="auto" what is chosen is for scaled features."""
    scales = scales_features("auto" if chosen.solver is None else chosen.solver, chosen.model or "auto")
    return MODELS["linear"](scaling="standard" if scales else "none")


# By minibatches


def loss_of(taking: Taking) -> str:
    """Return the loss that an estimator has, or the core's name of that of its solver's reduction."""
    if taking.has("loss"):
        return str(taking.take("loss"))
    reduction = taking.solver.take("reduction")
    by_sum = reduction == "pick_all" or (taking.choice["solver"].name in LABEL_SOLVERS and reduction != MARGIN)
    return "cross_entropy" if by_sum else str(reduction)


def softmax_batches_plan(choice: Choice) -> Planned:
    """Return the plan of a SoftmaxClassifier with several labels, embeddings or a search."""
    taking, solver, sampler = Taking(choice), choice["solver"], choice["sampler"]
    where = "with several labels, embeddings or a search"
    if solver.name not in BATCH_SOLVERS:
        raise ValueError(f"solver is {solver.name!r}; {where} it must be one of {', '.join(map(repr, BATCH_SOLVERS))}")
    taking.refuse_grid()
    taking.take_early_stopping()
    if solver.name == "exact" and sampler.name != "all":
        raise ValueError(f"sampler is {sampler.name!r}; solver 'exact' needs 'all'")
    reduction = getattr(solver, "reduction", "auto")
    # Solvers of the double sum have reductions of their own, which the plan's `DoubleSum` holds.
    if solver.name not in LABEL_SOLVERS and reduction not in ("auto", "pick_all") and sampler.name == "search":
        raise ValueError(f"reduction is {reduction!r}; with sampler='search' it must be 'pick_all'")
    plan = batches_plan(taking)
    if plan.loss == "logistic" and plan.source != "exact":
        raise ValueError("reduction is 'logistic', a sum over all classes; set sampler='all' or another reduction")
    taking.refuse_rest(where)
    # Embeddings of few rows are too sure of themselves, as the rows of a stream tell.
    in_stream = choice.goes_on and plan.dim is not None and plan.loss in SOFTMAX_LOSSES
    plan = replace(plan, finds_scale=plan.loss == MARGIN or in_stream)
    n_models, params = choice.parameters["n_models"], taking.resolved()
    runs_are_set = not choice.is_open("n_models") and n_models > 1 and plan.double_sum is not None
    if plan.dim is None or choice.by_steps or not (plan.loss == MARGIN or choice.is_open("model") or runs_are_set):
        return taking.planned(plan, params)
    return taking.planned(*_sum_of_members(choice, None, _runs(choice, plan), params))


def batches_plan(taking: Taking, smoothing: float = FIGURES.SMOOTHING) -> BatchesPlan:
    """Return the plan of minibatches, of a margin with this smoothing."""
    choice, solver_numbers = taking.choice, taking.solver
    solver, model = choice["solver"], choice["model"]
    loss = loss_of(taking)
    if getattr(model, "scaling", "none") == "standard":
        raise ValueError("scaling is 'standard', which needs the softmax of one label a row; leave it 'auto'")
    by_margins = loss in ("margin", "triplet")
    source = _batch_source(taking.take_sampler(), loss, choice.facts.n_classes, by_margins=by_margins)
    dim = int(taking.take("dim")) if model.name == "embedding" else None
    draws_classes = source["source"] == "sampled" or (source["source"] != "exact" and source["warm_up"] > 0)
    unbiased, adagrad = _steps_of_batches(solver_numbers, solver.name, loss)
    rate = float(taking.take("learning_rate"))
    embedding_step = FIGURES.EMBEDDING_STEP_BY_MARGINS if by_margins else FIGURES.EMBEDDING_STEP
    plan = BatchesPlan(
        loss=loss,
        smoothing=smoothing if loss == MARGIN else 0.0,
        implicit=solver.name == "implicit" and not unbiased,
        adagrad=adagrad,
        n_negatives=int(taking.take("n_negatives") if draws_classes else choice["n_negatives"]),
        # A margin compares scores with 1: an inclusion probability has no place in them.
        log_q=loss in LOG_Q_LOSSES and (not draws_classes or bool(solver_numbers.take("log_q", True))),
        dim=dim,
        relu=dim is not None and model.activation == "relu",
        row_length=_row_length(choice, unbiased=unbiased) if adagrad and dim is not None else 1.0,
        double_sum=_double_sum(solver.name, solver_numbers, source["source"], rate, dim) if unbiased else None,
        share_classes=None if source["source"] == "exact" else solver_numbers.take("share_classes"),
        alpha=taking.take_ridge(),
        **source,
        **taking.take_passes(rate, rate * embedding_step, by_batches=True),
    )
    solver_numbers.refuse_rest("with several labels, embeddings or a margin")
    return plan


def margin_plan(choice: Choice) -> Planned:
    """Return the plan of a MarginClassifier."""
    taking, loss, model = Taking(choice), choice.parameters["loss"], choice["model"].name
    taking.take_early_stopping()
    if choice["solver"].name == "implicit" and (loss != "margin" or model == "embedding"):
        raise ValueError(f"solver='implicit' needs loss='margin' and no embeddings; they are {loss!r}, {model!r}")
    plan = batches_plan(taking, float(taking.take("smoothing")) if loss == "margin" else 0.0)
    taking.refuse_rest("here")
    return taking.planned(plan)


def _row_length(choice: Choice, *, unbiased: bool) -> float | None:
    """Return the unit of rows for embeddings on the double sum, such that those of unit length are as they are."""
    if is_hidden_layer(choice):
        return None
    return 2.0 ** round(math.log2(choice.facts.lengths.mean_square) / 2) if unbiased else 1.0


def _steps_of_batches(solver_numbers: Given, name: str, loss: str) -> tuple[bool, bool]:
    """Whether the steps of a solver are those of the double sum, and whether they are Adagrad's."""
    unbiased = loss == "cross_entropy" and name in LABEL_SOLVERS
    # Plain steps on e^(z - v), which has no bound, diverge with embeddings at rates that learn (bench/decisions.md).
    adagrad = name == "adagrad" or (unbiased and name != "implicit")
    if solver_numbers.take("schedule") == "adaptive":
        raise ValueError("schedule is 'adaptive'; with several labels, embeddings or a margin it must be 'exponential'")
    return unbiased, adagrad


def _batch_source(sampler: Part, loss: str, n_classes: int, *, by_margins: bool) -> dict[str, Any]:
    """Return which classes a minibatch sees: the fields of a BatchesPlan that say so."""
    if sampler.name == "head_tail":
        raise ValueError("sampler is 'head_tail', which needs a linear model of one label a row; choose another")
    fields: dict[str, Any] = {"source": "exact"}
    budget, draws = None, SAMPLERS["uniform" if by_margins else "frequency"]()  # which draws before a search
    if sampler.name == "search":
        numbers = Given(sampler, "search: ")
        index, budget = numbers.take("index"), numbers.take("budget")
        fields = {"source": search_name(index), "index": None if isinstance(index, str) else index}
        fields |= {"warm_up": int(numbers.take("warm_up")), "fill": bool(numbers.take("fill"))}
        if fields["source"] == "messages":
            fields |= {name: numbers.take(name) for name in ("n_iter", "step", "tolerance", "threshold")}
            fields["message_rule"] = numbers.take("rule")
            check_found(fields["threshold"], budget, fields["fill"])
        numbers.refuse_rest("here")
    elif sampler.name != "all":
        fields["source"], draws = "sampled", sampler
    if budget is None:
        budget = FIGURES.MARGIN_BUDGET if loss == MARGIN else -(-n_classes // FIGURES.SOFTMAX_BUDGET_SHARE)
    options = {name: float(value) for name, value in draws.get_params().items()}
    return {**fields, "budget": int(min(budget, n_classes)), "sampler": draws.name, "options": options}


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
    if rule == "implicit":  # whose proximal steps are those of a linear model
        where = "with several labels and solver='implicit' it must be"
        if reduction not in ("pick_all", "pick_all_normalized"):
            raise ValueError(f"reduction is {reduction!r}; {where} 'pick_all', 'pick_all_normalized'")
        if formulation != "proposed":
            raise ValueError(f"formulation is {formulation!r}; {where} 'proposed'")
        if dim is not None:
            raise ValueError("solver is 'implicit', whose steps are those of a linear model; choose another")
    rule_numbers = registered("solver")[rule].parameters
    u_rate = solver_numbers.take("u_learning_rate") if solver_numbers.has("u_learning_rate") else rate
    options = {number.name: float(solver_numbers.take(number.name)) for number in rule_numbers}
    u_init, step = solver_numbers.take("u_init", "log_n_classes"), 1.0 if u_rate == "tied" else float(u_rate) / rate
    return DoubleSum(rule, options, reduction, formulation, u_init, step)


# Weights on pairs

# The parameters of a blend that are those of its embeddings.
BESIDE_PAIRS = ("alpha", "dim", "n_negatives", "sampler")


def pairs_plan(choice: Choice) -> Planned:
    """Return the plan of weights on pairs, alone or in a blend."""
    solver, model = choice["solver"], choice["model"]
    blends = model.name == "hybrid"
    where, taking = f"with model={model.name!r}", Taking(choice, *(BESIDE_PAIRS if blends else ()))
    if not (blends or choice.is_open("sampler")):
        raise ValueError(f"sampler is {choice.parameters['sampler']!r}, which has no effect {where}; leave it 'auto'")
    if solver.name != "adagrad":
        raise ValueError(f"solver is {solver.name!r}; {where} it must be 'adagrad'")
    alpha = 0.0 if blends else taking.take_ridge()
    taking.take_early_stopping()
    taking.refuse_grid()
    solver_numbers = taking.solver
    loss, rate = loss_of(taking), float(taking.take("learning_rate"))
    plan = PairsPlan(
        loss=loss,
        smoothing=FIGURES.SMOOTHING if loss == MARGIN else 0.0,
        offset=FIGURES.PAIRS_OFFSET * choice.facts.lengths.mean_square_of_values,
        rounding=FIGURES.PAIRS_ROUNDING,
        min_count=int(model.min_count),
        few_classes=int(model.few_classes),
        prune=float(model.prune),
        alpha=alpha,
        hogwild=solver_numbers.take("parallel") == "hogwild",
        share_classes=None,
        **taking.take_passes(rate, rate),
    )
    solver_numbers.refuse_rest(where)
    taking.refuse_rest(where)
    plan, params = with_rate_of_pairs(plan, rate), taking.resolved()
    return taking.planned(*(_blend(choice, plan, params) if blends else (plan, params)))


def with_rate_of_pairs(plan: PairsPlan, rate: float) -> PairsPlan:
    """Return the plan with another step size; that of the intercepts follows."""
    # An intercept is the weight of a feature that is always 1, whatever the length of rows, whose square this is.
    square = plan.offset / FIGURES.PAIRS_OFFSET
    intercept_rate = FIGURES.INTERCEPT_STEP * rate * square**0.5
    return replace(plan, schedule=replace(plan.schedule, learning_rate=rate, u_learning_rate=intercept_rate))


# Members


def _blend(choice: Choice, pairs: PairsPlan, params: dict[str, Any]) -> tuple[HybridPlan, dict[str, Any]]:
    """Return the plan of a blend, whose members have the estimator's parameters that pairs do not use."""
    model, taking = choice["model"], Taking(choice.beside("embeddings"))
    embeddings = replace(batches_plan(taking), seed=pairs.seed)
    if embeddings.source == "exact" and not (choice.is_open("sampler") or choice.is_open("n_negatives")):
        raise ValueError(f"n_negatives={choice['n_negatives']!r} has no effect with sampler='all'; leave it 'auto'")
    runs = _runs(choice, embeddings)
    if embeddings.loss == MARGIN and not choice.facts.n_texts:
        unbiased = batches_plan(Taking(choice.beside("unbiased embeddings")))
        runs += _runs(choice, replace(unbiased, seed=pairs.seed))
    params |= {name: value for name, value in taking.opened.items() if name in BESIDE_PAIRS}
    plan, params = _sum_of_members(choice, pairs, runs, params)
    plan = replace(plan, repeats=model.repeats == "learn", counts=model.counts == "learn")
    if pairs.prune == 0 and not (choice.facts.several and choice.facts.n_texts):  # whose words few rows have
        plan = _with_linear_members(choice, plan, model, pairs.seed)
    return plan, params


def _runs(choice: Choice, embeddings: BatchesPlan) -> tuple[BatchesPlan, ...]:
    """Return the runs of embeddings that are trained, as many as are asked for or predicted to be quick enough."""
    facts, n = choice.facts, choice.parameters["n_models"]
    if choice.is_open("n_models"):
        seconds, size = costs.fit_cost(facts, embeddings), 4 * facts.n_features * (embeddings.dim or 0)
        n = 1 if choice.timed else costs.n_runs(seconds, size, choice.most_bytes)
    return tuple(replace(embeddings, seed=embeddings.seed + number) for number in range(int(n)))


def _sum_of_members(
    choice: Choice, pairs: PairsPlan | None, runs: tuple[BatchesPlan, ...], params: dict[str, Any]
) -> tuple[HybridPlan, dict[str, Any]]:
    """Return the plan of members, with the ridge and the passes that runs of unbiased embeddings may have."""
    unbiased = any(run.double_sum is not None for run in runs)
    ridge = FIGURES.PRIOR / choice.facts.n_samples if unbiased and choice.is_open("alpha") else None
    if ridge is not None or pairs is not None:  # no number stands for the ridges of several members
        params.pop("alpha", None)
    if choice.is_open("n_models"):
        params["n_models"] = sum(run.loss == runs[0].loss for run in runs)
    # The estimator's passes are those of pairs, if there are any, and else those of embeddings.
    return HybridPlan(pairs, runs, ridge=ridge, more_passes=1 if pairs is None else FIGURES.MORE_PASSES), params


def _with_linear_members(choice: Choice, plan: HybridPlan, model: Part, seed: int) -> HybridPlan:
    """Return the plan with a linear model by margins and one by steps, where they are small, and quick beside it."""
    facts = choice.facts
    seconds = sum(costs.fit_cost(facts, run) for run in plan.embeddings)
    most = max(FIGURES.QUICK, FIGURES.MOST_OF_EMBEDDINGS * seconds)
    room = min(FIGURES.LEAST_TO_EMBED, choice.most_bytes - costs.model_bytes(facts, plan))
    if model.margins == "learn" and facts.bytes <= room:
        margins = replace(batches_plan(Taking(choice.beside("margins")), smoothing=1.0), seed=seed)
        if costs.fit_cost(facts, margins) <= most:
            plan, room = replace(plan, margins=margins), room - facts.bytes
    if model.linear == "learn" and facts.bytes <= room and not facts.several:
        name = "linear" if costs.visit_cost(facts, None) <= FIGURES.MOST_EXACT else "sampled linear"
        linear = points_plan(choice.beside(name)).plan
        assert isinstance(linear, PointsPlan)
        if not choice.is_open("alpha"):  # of the rows as they are, for training has units of its own
            linear = replace(linear, alpha=linear.alpha / facts.lengths.mean_square)
        if costs.fit_cost(facts, linear) <= most:
            plan = replace(plan, linear=replace(linear, seed=seed))
    return plan
