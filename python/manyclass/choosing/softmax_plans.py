"""What a SoftmaxClassifier trains with: its parameters, what "auto" stands for, and trials, made into a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import clone

from manyclass.choosing import rules
from manyclass.choosing.plans import (
    BATCH_REDUCTIONS,
    REDUCTIONS,
    U_RATES,
    Chosen,
    Open,
    batch_source,
    batches_plan,
    default_sampler,
    draws_classes,
    mean_square,
    point_fields,
    run_fields,
    scales_features,
    schedule_of,
)
from manyclass.choosing.ridge_trials import cross_validated_ridge
from manyclass.choosing.trials import LearningRates, Trials, best_rate, best_ridge
from manyclass.models import MODELS
from manyclass.parts import Given, Parameters, Part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LABEL_SOLVERS, SOLVERS
from manyclass.training.plan import AnyPlan, BatchesPlan, FullBatchPlan, PointsPlan
from manyclass.training.points import MINIBATCH_POINTS, row_norms_sq
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix

# learning_rate="auto", times the mean of |x|^2; 1 for all others. Explicit steps on the double sum carry the weight K/m
# of a sampled class, hence less; one-vs-each adds up K probabilities, of 1/2 at the start.
AUTO_RATE = {"implicit": rules.RATE_SAMPLED, "umax": 0.1, "sgd": 0.01, "softplus": 0.1}
AUTO_RATE_OVE = 4.0  # over n_classes
ADAPTIVE_RATE = 0.02  # Ruiz et al. 2018, section 4
BATCH_SOLVERS = ("adagrad", "css", "exact", *LABEL_SOLVERS)  # with embeddings or several labels
# Parameters that `Chosen` or the fit itself has taken.
TAKEN = ("solver", "sampler", "model", "class_weight", "n_models", "warm_start")


# Tries step sizes for parameters of which nothing else is open, on rows with these labels and weights.
TriedRates = Callable[[Parameters, Matrix, Ids, Doubles | None], LearningRates]


@dataclass(frozen=True)
class Settled:
    """A plan, and what is told of how it came to be.

    Attributes
    ----------
    plan : PointsPlan, BatchesPlan, PostingsPlan, HybridPlan or FullBatchPlan
    params : dict
        Values of the parameters that were left open, for `set_params`.
    alpha_path, rates : dict
        Log-loss by ridge and by learning rate, where they were tried.
    trials : Trials
        All that was tried.
    """

    plan: AnyPlan
    params: dict[str, Any]
    alpha_path: dict[float, float] = field(default_factory=dict)
    rates: dict[float, float] = field(default_factory=dict)
    trials: Trials = field(default_factory=lambda: Trials(0.0))

    @property
    def told(self) -> dict[str, Any]:
        """What is told of how the plan came to be, as fields of `Told`."""
        trials = self.trials.report
        return {"params": self.params, "alpha_path": self.alpha_path, "rates": self.rates, "report": trials}


def is_open(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value in ("auto", "grid")


def given_of(parameters: Parameters, *taken: str) -> Given:
    """The parameters of an estimator, but for those that were taken before."""
    given = Given(parameters)
    for name in (*TAKEN, *taken):
        given.take(name)
    return given


def _take_early_stopping(given: Given) -> None:
    """Early stopping is the fit's; without it its numbers have no effect."""
    if given.take("early_stopping"):
        given.take("validation_fraction")
        given.take("n_iter_no_change")


def linear_model(chosen: Chosen) -> Part:
    """The linear model, its scaling filled in: with solver="auto" what is chosen is for scaled features."""
    scales = scales_features("auto" if chosen.solver is None else chosen.solver, chosen.model or "auto")
    return MODELS["linear"](scaling="standard" if scales else "none")


# Point by point


def settle_points(
    parameters: Parameters,
    chosen: Chosen,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    *,
    candidates: bool,
    timed: bool,
    weights: Doubles | None = None,
    tried_rates: TriedRates | None = None,
) -> Settled:
    """Leave nothing open: by the rules of `auto`, and by trials.

    `candidates`: whether the fit was given some, which only sampled steps use; `timed`: whether it has a limit of
    seconds, so that nothing is tried out before; `weights`: of the points, with mean 1, those of classes included;
    `tried_rates` is for learning_rate="grid".
    """
    given = Given(parameters)
    shape, x_sq = rules.Shape.of(x, n_classes), row_norms_sq(x)
    solver, open_, rate = chosen.solver, rules.BY_HAND, None
    ridge = rules.untried_ridge(shape.n_samples, mean_square(x_sq))
    if solver is None:
        sampling = candidates or not given.is_auto("n_negatives") or chosen.sampler is not None
        passes = None if given.is_auto("max_iter") else int(given.take("max_iter"))
        name, open_ = rules.choose(shape, sampling=sampling, max_iter=passes)
        solver = SOLVERS[name]()
        open_ = replace(open_, alpha=ridge)
        rate = rules.relative_rate(name) / (mean_square(x_sq) + bool(given.take("fit_intercept")))
    elif solver.name == "implicit":
        passes = None if given.is_auto("max_iter") else int(given.take("max_iter"))
        open_ = rules.sampled(passes, averaging=False)
        if given.is_auto("learning_rate"):  # a ridge is for steps found by trials, which are too short to overfit
            open_ = replace(open_, alpha=ridge)
    plan = points_plan(parameters, solver, chosen, open_, rate, x_sq, n_classes)
    path: dict[float, float] = {}
    table: dict[float, float] = {}
    random_state = given.take("random_state")
    trials = Trials(0.0 if timed else rules.budget(rules.fit_cost(shape, plan)), bool(plan.verbose))
    if given.is_auto("learning_rate") and tries_rates(solver):
        u_follows = follows_rate(solver)
        plan = best_rate(trials, plan, x, labels, shape, random_state, weights, u_follows=u_follows)
    if given.take("learning_rate") == "grid":
        assert tried_rates is not None
        settled = parameters.changed(**_opened_points(parameters, plan, solver, chosen), class_weight=None)
        found = tried_rates(settled, x, labels, weights)
        plan = points_plan(parameters, solver, chosen, open_, found.best, x_sq, n_classes)
        table = found.table
    if chosen.solver is None and given.is_auto("alpha") and rules.tries_ridges(plan, shape, trials.left):
        alpha, path = best_ridge(trials, plan, x, labels, shape, random_state, weights)
        plan = replace(plan, alpha=alpha)
    return Settled(plan, _opened_points(parameters, plan, solver, chosen), path, table, trials)


def points_plan(
    parameters: Parameters, solver: Part, chosen: Chosen, open_: Open, rate: float | None, x_sq: Floats, n_classes: int
) -> PointsPlan:
    """The plan with `solver`; `rate` is what learning_rate="auto" or "grid" stands for, None: the solver's own."""
    given = given_of(parameters)
    _take_early_stopping(given)
    sampler = default_sampler(solver, chosen.sampler)
    if chosen.sampler is None and solver.name == "implicit":
        sampler = sampler.set_params(power=rules.POWER_SAMPLED)
    fields, of_solver = point_fields(given, solver, sampler, open_)
    if not of_solver.take("log_q", True):
        raise ValueError("log_q is False, which has no effect without embeddings or several labels; leave it True")
    own = solver.get_params()
    fields |= {name: of_solver.take(name) for name in ("root", "partition", "u_init") if name in own}
    fields["formulation"] = of_solver.take("formulation", "proposed")
    if fields["max_norm"] is not None and fields["formulation"] != "proposed":
        raise ValueError(f"max_norm needs formulation='proposed'; it is {fields['formulation']!r}")
    if fields.get("partition") == "random" and not fields["shuffle"]:
        raise ValueError("shuffle is False, which has no effect with partition='random'; leave it True")
    _refuse_dim(given)
    fixed = given.take("learning_rate")
    rate = rate if isinstance(fixed, str) else float(fixed)
    if rate is None:
        rate, u_rate = automatic_rates(solver, x_sq, n_classes, fit_intercept=fields["fit_intercept"])
    else:
        u_rate = U_RATES.get(solver.name, rate)
    asked = of_solver.take("u_learning_rate", u_rate)
    u_rate = rate if asked == "tied" else float(asked)
    plan = PointsPlan(**fields, **run_fields(given), schedule=schedule_of(of_solver, rate, u_rate, open_.decay))
    of_solver.refuse_rest("here")
    given.refuse_rest(f"with solver={solver.name!r}, sampler={sampler.name!r} and a linear model of one label a row")
    return plan


def _refuse_dim(given: Given) -> None:
    if not given.is_auto("dim"):
        raise ValueError(f"dim is {given.take('dim')!r}, which needs model='embedding'; leave it 'auto'")


def automatic_rates(solver: Part, x_sq: Floats, n_classes: int, *, fit_intercept: bool) -> tuple[float, float]:
    """The step sizes of W and of u that "auto" stands for, the solver being chosen by hand."""
    own = solver.get_params()
    relative = AUTO_RATE_OVE / n_classes if solver.name == "ove" else AUTO_RATE.get(solver.name, 1.0)
    if solver.name == "minibatch_implicit":
        relative = float(min(own["batch_size"] or MINIBATCH_POINTS, len(x_sq)))
    u_rate = U_RATES.get(solver.name, relative)
    if own["schedule"] == "adaptive":
        return ADAPTIVE_RATE, u_rate
    return relative / (mean_square(x_sq) + fit_intercept), u_rate


def tries_rates(solver: Part) -> bool:
    """Whether learning_rate="auto" is a trial; not for steps with sizes of their own, nor scores that are none of the
    softmax, whose log-loss says nothing."""
    return solver.name != "negative_sampling" and solver.get_params()["schedule"] != "adaptive"


def follows_rate(solver: Part) -> bool:
    """Whether the step of u is a multiple of that of W."""
    asked = solver.get_params().get("u_learning_rate", "tied")
    return asked == "tied" or (asked == "auto" and solver.name not in U_RATES)


def _opened_points(parameters: Parameters, plan: PointsPlan, solver: Part, chosen: Chosen) -> dict[str, Any]:
    """What was used for the parameters that were left open."""
    used: dict[str, Any] = {
        "solver": solver,
        "model": linear_model(chosen),
        "max_iter": plan.max_iter,
        "alpha": plan.alpha,
        "learning_rate": plan.schedule.learning_rate,
    }
    if plan.sampler != "all":
        used["n_negatives"] = plan.n_negatives
    if plan.solver not in ("exact", "minibatch_implicit"):
        own = {s.name: plan.options[s.name] for s in SAMPLERS[plan.sampler].settings if s.name in plan.options}
        used["sampler"] = SAMPLERS[plan.sampler](**own)
    inner: dict[str, Any] = {
        "averaging": plan.averaging,
        "u_learning_rate": plan.schedule.u_learning_rate,
        "formulation": plan.formulation,
    }
    if plan.schedule.name in ("exponential", "adaptive"):
        inner["decay"] = plan.schedule.decay
    return opened(parameters, used, solver, inner)


def opened(parameters: Parameters, used: Mapping[str, Any], solver: Part, inner: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `used` that were open, the solver with those of `inner` that it leaves open filled in."""
    given = Given(parameters)
    found = {name: value for name, value in used.items() if is_open(given.take(name))}
    if used["model"].name == "linear" and getattr(given.take("model"), "scaling", "auto") == "auto":
        found["model"] = used["model"]
    own = solver.get_params()
    filled = clone(solver).set_params(**{name: value for name, value in inner.items() if is_open(own.get(name))})
    if is_open(given.take("solver")) or filled.get_params() != own:
        found["solver"] = filled
    return found


# Full passes


def takes_full_passes(parameters: Parameters, chosen: Chosen, shape: rules.Shape, *, stepwise: bool) -> bool:
    """Whether training is by L-BFGS: by choice, or by "auto" where that is quick and nothing is set that is of steps.

    `stepwise`: the fit was given something that only steps use.
    """
    if chosen.solver is not None:
        return chosen.solver.name == "lbfgs"
    given = Given(parameters)
    of_steps = [name for name in ("n_negatives", "learning_rate", "max_iter") if not given.is_auto(name)]
    if stepwise or of_steps or chosen.sampler is not None or given.take("early_stopping"):
        return False
    return rules.full_cost(shape) <= rules.MOST_FULL


def settle_full_batch(
    parameters: Parameters,
    chosen: Chosen,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    *,
    timed: bool,
    weights: Doubles | None = None,
) -> Settled:
    """The plan of L-BFGS; the ridge by cross-validation where the solver is that of "auto" and nothing is `timed`."""
    given = given_of(parameters, "random_state")
    solver = chosen.solver or SOLVERS["lbfgs"]()
    _take_early_stopping(given)
    own = solver.get_params()
    fields = run_fields(given)
    _refuse_dim(given)
    plan = FullBatchPlan(
        loss=own["loss"],
        tol=float(own["tol"]),
        alpha=float(given.take("alpha", rules.PRIOR / len(labels))),
        max_iter=int(given.take("max_iter", rules.MOST_ITERATIONS)),
        fit_intercept=bool(given.take("fit_intercept")),
        n_threads=fields["n_threads"],
        verbose=fields["verbose"],
    )
    # "auto" and an object are no settings; names of samplers and models other than the linear one are.
    sampler, model = given.take("sampler"), given.take("model")
    if sampler != "auto":
        raise ValueError(f"sampler is {sampler!r}, which has no effect with solver='lbfgs'; leave it 'auto'")
    if getattr(model, "name", model) not in ("auto", "linear"):
        raise ValueError(f"model is {model!r}; with solver='lbfgs' it must be 'linear'")
    given.refuse_rest("with solver='lbfgs'")
    path: dict[float, float] = {}
    trials = Trials(rules.MOST_FULL, bool(plan.verbose))
    if chosen.solver is None and given.is_auto("alpha") and not timed:
        alpha, path = cross_validated_ridge(trials, plan, x, labels, n_classes, given.take("random_state"), weights)
        plan = replace(plan, alpha=alpha)
    used = {"solver": solver, "model": linear_model(chosen), "alpha": plan.alpha, "max_iter": plan.max_iter}
    return Settled(plan, opened(parameters, used, solver, {}), path, trials=trials)


# By minibatches


def settle_batches(parameters: Parameters, chosen: Chosen, x: Matrix, n_classes: int, *, embeds: bool) -> Settled:
    """The plan for several labels, embeddings or a search; `embeds`: embeddings are what "auto" stands for."""
    given = given_of(parameters)
    solver = _batch_solver(given, chosen)
    if given.take("alpha") not in ("auto", 0):
        raise ValueError(
            f"alpha is {given.take('alpha')!r}, which has no effect with several labels, embeddings or a search; "
            "leave it 'auto'"
        )
    sampler = SAMPLERS["all"]() if solver.name == "exact" and chosen.sampler is None else chosen.sampler
    if solver.name == "exact" and sampler is not None and sampler.name != "all":
        raise ValueError(f"sampler is {sampler.name!r}; solver 'exact' needs 'all'")
    loss = _batch_loss(solver, sampler)
    ranks, relu, dim = loss == "margin", False, None
    if embeds or (chosen.model is not None and chosen.model.name == "embedding"):
        dim = int(given.take("dim", rules.RANKING_DIM_ALONE if ranks else rules.EMBEDDED_DIM))
        relu = chosen.model is not None and chosen.model.get_params()["activation"] == "relu"
    source = batch_source(
        sampler,
        n_classes,
        sampled=not ranks and (embeds or solver.name in LABEL_SOLVERS),
        draws=SAMPLERS["uniform" if ranks else "frequency"](),
    )
    if loss == "logistic" and source["source"] != "exact":
        raise ValueError(
            "reduction is 'logistic', a sum over all classes, which those drawn do not stand for; set sampler='all' "
            "or another reduction"
        )
    plan = batches_plan(
        given,
        replace(chosen, solver=solver),
        x,
        n_classes,
        loss=loss,
        smoothing=rules.SMOOTHING if ranks else 0.0,
        open_=_open_of(embeds=dim is not None and solver.name == "adagrad", ranks=ranks),
        dim=dim,
        relu=relu,
        source=source,
    )
    given.refuse_rest("with several labels, embeddings or a search")
    plan = replace(plan, finds_scale=ranks)
    return Settled(plan, opened_batches(parameters, plan, solver))


def _open_of(*, embeds: bool, ranks: bool) -> Open:
    """What is left open stands for, with embeddings by Adagrad's steps and without."""
    if ranks:
        return rules.RANKING_ALONE
    return rules.EMBEDDED if embeds else rules.BATCHES


def _batch_loss(solver: Part, sampler: Part | None) -> str:
    """The loss of several labels that a solver asks for; those of `batches_plan` that a search serves are fewer.

    Solvers of the double sum have their reductions in a `DoubleSum` of the plan.
    """
    if solver.name in LABEL_SOLVERS:
        return REDUCTIONS["pick_all"]
    reduction = getattr(solver, "reduction", "auto")
    if reduction not in ("auto", "pick_all") and sampler is not None and sampler.name == "search":
        raise ValueError(f"reduction is {reduction!r}; with sampler='search' it must be 'pick_all'")
    return BATCH_REDUCTIONS["pick_all" if reduction == "auto" else reduction]


def _batch_solver(given: Given, chosen: Chosen) -> Part:
    solver = chosen.solver or SOLVERS["adagrad"]()
    if solver.name not in BATCH_SOLVERS:
        raise ValueError(
            f"solver is {solver.name!r}; with several labels, embeddings or a search it must be one of "
            f"{', '.join(map(repr, BATCH_SOLVERS))}"
        )
    if given.take("learning_rate") == "grid":
        raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")
    return solver


def batch_sampler(plan: BatchesPlan) -> Part:
    """What draws classes, as a parameter."""
    return SAMPLERS["all"]() if plan.source == "exact" else SAMPLERS[plan.sampler](**plan.options)


def opened_batches(parameters: Parameters, plan: BatchesPlan, solver: Part) -> dict[str, Any]:
    """What was used for the parameters that were left open."""
    embeds = plan.dim is not None
    used: dict[str, Any] = {
        "solver": solver,
        "max_iter": plan.max_iter,
        "learning_rate": plan.schedule.learning_rate,
        "model": MODELS["embedding"]() if embeds else MODELS["linear"](scaling="none"),
        "sampler": batch_sampler(plan),
    }
    if embeds:
        used["dim"] = plan.dim
    if draws_classes(plan.source, plan.warm_up):
        used["n_negatives"] = plan.n_negatives
    inner: dict[str, Any] = {"decay": plan.schedule.decay} if plan.schedule.name == "exponential" else {}
    if Given(parameters).has("loss"):  # which stands in the place of a reduction
        return opened(parameters, used, solver, inner)
    if plan.double_sum is None:
        inner["reduction"] = next(name for name, loss in BATCH_REDUCTIONS.items() if loss == plan.loss)
    else:
        inner |= {"reduction": plan.double_sum.reduction, "formulation": plan.double_sum.formulation}
        inner["u_learning_rate"] = plan.double_sum.step * plan.schedule.learning_rate
    return opened(parameters, used, solver, inner)
