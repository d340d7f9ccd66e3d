r"""What "auto" is: a list of recipes, of which the first whose case holds is taken; what is set replaces a field of it.

    facts of the data, what is set ─▶ recipe ─▶ plan ─▶ trials on the user's own rows where it has some ─▶ training

A model or a solver that is set picks the recipe that has it. In a blend `learning_rate` and `max_iter` are those of the
weights on pairs; `alpha`, `dim`, `sampler` and `n_negatives` those of the embeddings, which keep their step and passes.
`resolved_params_` has what each open parameter became, `auto_report_` the recipe and a line for each trial.

Trials keep to 30 % of the predicted seconds of the fit, or to 4 predicted seconds where that is more; predictions are
constants times visits, so that equal seeds try and choose alike on any machine and with any number of threads. Nothing
is tried with fewer than 1,000 rows or a limit of seconds (max_seconds), nor what was set by hand. With solver="auto" a
linear model is trained on scaled features, and alpha is that of their weights: see `help(manyclass.models.Linear)`.

learning_rate, point by point
    Two passes over *whole classes*, all rows of random ones, 20,000 at most; steps are thirds of a decade apart, and
    the search goes on while the best is at an end. The middle of those within 0.5 % of the least log-loss is taken,
    divided by what the steps of all passes add up to over 2, where that is more. Dense data are tried from W = 0 and
    from the weights of linear discriminant analysis, which are in closed form, without a ridge; the fit begins there
    if these trials have a log-loss lower by 5 % (`help(manyclass.training.start)`), and makes but two passes
    where they lower that of the closed form by less than 0.5 %.
learning_rate of weights on pairs
    On 4,000 random rows at most a third or less of it, while the decoupled loss of held-out rows falls: that is the
    log_loss of the report then, summed over the labels of a row. None by margins.
alpha, point by point
    The best of 0, 3e-6, 1e-5, 3e-5 and 1e-4, in units of the mean of \|x_i\|^2, on a tenth of the points, where the
    budget of the trials is enough for five fits; none after two that rise in a row, or one that rises by 2 %.
alpha of full passes
    The best of 1000, 100, ..., 0.01, over n_samples, by 5-fold cross-validation, if it is better than 1 / n_samples by
    more than the standard error.

learning_rate="grid", which is no "auto", is the best of 0.001, 0.01, ..., 1000 on a tenth of the points, as
`manyclass.tune_learning_rate` finds it. u_learning_rate is 30 of "implicit", 0.5 of "bregman" and "scent", and else
that of W.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from manyclass.checks import lazy_property
from manyclass.choosing import costs
from manyclass.choosing.facts import TINY, Facts
from manyclass.choosing.settings import Chosen, is_open
from manyclass.figures import FIGURES, Figures
from manyclass.models import MODELS
from manyclass.parts import Parameters, Part
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LABEL_SOLVERS, SOLVERS
from manyclass.training.plan import MINIBATCH_POINTS

PARTS: dict[str, Mapping[str, type[Part]]] = {"solver": SOLVERS, "sampler": SAMPLERS, "model": MODELS}
MARGIN = "margin"


@dataclass(frozen=True)
class Formula:
    """A field that depends on the data or on other fields, in words and as a function of the choice."""

    says: str
    value: Callable[[Choice], Any]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is trained where nothing is set: fields are values, names of parts or formulas.

    Attributes
    ----------
    name : str
    case : str
        When it is taken, in words.
    holds : callable
        Whether it is taken, by the choice.
    trains : {"points", "minibatches", "pairs"}
        Which loop makes its steps.
    model : str or Formula
    solver : str or Formula
    reduction : str or Formula
        How the labels of a row share a loss.
    formulation : str or Formula
        What rows carry.
    sampler : str or Formula
    n_negatives : int or Formula
    dim : int or Formula
        Columns of embeddings.
    max_iter : int or Formula
    decay : float or Formula
        What a pass multiplies the step size by.
    learning_rate : float or Formula
    u_learning_rate : float or Formula
    averaging : str or Formula
    alpha : float or Formula
    most_runs : int
        How many runs are averaged at most.
    tried : tuple of str
        The fields that trials on rows held out may better.
    beside : tuple of Recipe
        The models that are trained beside this one in a blend.
    """

    name: str
    case: str
    holds: Callable[[Choice], bool]
    trains: str
    model: Any = "linear"
    solver: Any = "adagrad"
    reduction: Any = "pick_all"
    formulation: Any = "proposed"
    sampler: Any = "all"
    n_negatives: Any
    dim: Any
    max_iter: Any
    decay: Any
    learning_rate: Any
    u_learning_rate: Any
    averaging: Any = "none"
    alpha: Any = 0.0
    most_runs: int = 1
    tried: tuple[str, ...] = ()
    beside: tuple[Recipe, ...] = ()


# What a parameter, or one of a solver, may leave to a recipe.
OPEN = tuple(field.name for field in fields(Recipe))[4:-3]


@dataclass(frozen=True)
class Choice:
    """What one training is made with: what is set, and the recipe's fields for what is open.

    Attributes
    ----------
    parameters : Parameters
        The parameters of the estimator.
    chosen : Chosen
        Its parts, checked.
    facts : Facts
    timed : bool
        Whether the fit has a limit of seconds.
    candidates : bool
        Whether it has candidates for heads.
    started : bool
        Whether it has first weights.
    most_bytes : float
        What a model and its training may take.
    by_steps : bool
        Whether the training is one of `partial_fit` or of a worker, whose solver steps.
    goes_on : bool
        Whether the rows are some of those that come, as in `partial_fit`, and not all that there are.
    taken : Recipe or None
        The recipe, where it is known.
    """

    parameters: Parameters
    chosen: Chosen
    facts: Facts
    timed: bool = False
    candidates: bool = False
    started: bool = False
    most_bytes: float = math.inf
    by_steps: bool = False
    goes_on: bool = False
    taken: Recipe | None = None

    names: ClassVar[tuple[str, ...]] = OPEN

    @lazy_property
    def recipe(self) -> Recipe:
        """Return the first recipe of the list whose case holds."""
        return self.taken or next(recipe for recipe in recipes(self.figures) if recipe.holds(self))

    def changed(self, **values: Any) -> Self:
        """Return it with other parameters, by the recipe that their values pick."""
        return replace(self, parameters=self.parameters.changed(**values))

    @property
    def figures(self) -> Figures:
        """The numbers behind the recipes."""
        return self.facts.figures

    def asked(self, name: str) -> Any:
        """A parameter of the estimator, or of its solver, as it was given."""
        if name in PARTS:
            part = getattr(self.chosen, name, None)
            return "auto" if part is None else part
        return self.parameters[name] if name in self.parameters else getattr(self["solver"], name, "auto")

    def is_open(self, name: str) -> bool:
        """Whether it was left "auto"."""
        setting = self.asked(name)
        return isinstance(setting, str) and setting == "auto"

    def __getitem__(self, name: str) -> Any:
        setting = self.asked(name)
        if not is_open(setting):
            return setting
        value = getattr(self.recipe, name)
        value = value.value(self) if isinstance(value, Formula) else value
        return PARTS[name][value]() if name in PARTS and isinstance(value, str) else value

    def tries(self, name: str) -> bool:
        """Whether a trial may better a field, of steps only where the log-loss tells which are better."""
        if not (self.is_open(name) and name in self.recipe.tried):
            return False
        if name != "learning_rate":
            return self.is_open("solver")
        by_loss = self["solver"].name != "negative_sampling" and self["reduction"] != MARGIN
        return bool(by_loss and self.asked("schedule") != "adaptive")

    @property
    def falls(self) -> bool:
        """Whether steps fall by the curvature of the rows so far; those of none that are adaptive or not normalised."""
        by_points = self.goes_on and self.recipe.trains == "points"
        return by_points and self.asked("schedule") != "adaptive" and self["solver"].name != "negative_sampling"

    @property
    def begins_at_discriminant(self) -> bool:
        """Whether a linear model of dense rows may begin at linear discriminant analysis, as nothing is set."""
        if self.timed or self.by_steps or self.goes_on or self.started or self.candidates or self.facts.sparse:
            return False
        return all(map(self.is_open, ("alpha", "learning_rate", "solver"))) and bool(self["fit_intercept"])

    def beside(self) -> Choice:
        """Return the choice of the embeddings of a blend."""
        model = MODELS["embedding"](activation=self["model"].activation)
        parameters = self.parameters.changed(learning_rate="auto", max_iter="auto", random_state=0)
        [recipe] = self.recipe.beside
        chosen = replace(self.chosen, solver=SOLVERS[recipe.solver](), model=model)
        return replace(self, parameters=parameters, chosen=chosen, taken=recipe)


# Cases


def steps_by_batches(named: Collection[str], several: bool) -> bool:
    """Whether several labels, or one of the parts with these names, ask for steps of several points together."""
    return several or not {"embedding", "search", "adagrad"}.isdisjoint(named)


def _has(**parts: str) -> Callable[[Choice], bool]:
    """Whether parts of these names are set."""
    return lambda c: all(getattr(getattr(c.chosen, part), "name", None) == name for part, name in parts.items())


def _is_free(c: Choice) -> bool:
    """Whether nothing is set that only a recipe of one model has."""
    of_linear = c.candidates or c.started or c.parameters["learning_rate"] == "grid"
    of_sampler = not {"search", "head_tail"}.isdisjoint(c.chosen.names)
    return c.chosen.solver is None and c.chosen.model is None and not (of_linear or of_sampler)


def pairs_fit(c: Choice) -> bool:
    """Whether a row meets few enough weights on pairs, which max_memory has room for."""
    least = c.facts.least_count
    return least is not None and costs.pairs_bytes(c.facts, least, c.facts.few_classes) <= c.most_bytes


def _is_large(c: Choice) -> bool:
    """Whether rows are enough to hold some out, or W too large for them."""
    return c.facts.n_samples >= c.figures.FEWEST_TO_TRY or costs.embeds(c.facts) or c.facts.bytes > c.most_bytes


def blends(c: Choice) -> bool:
    """Whether weights on pairs and embeddings are trained beside each other."""
    facts, f = c.facts, c.figures
    if not _is_free(c):
        return _has(model="hybrid")(c)
    if not facts.several:
        return facts.sparse and not c.by_steps and _is_large(c) and pairs_fit(c)
    # Pairs of many rows alone, and rows held out for their scales, cost what they give beside margins.
    many = not facts.sparse or facts.n_labels > f.MANY_LABELS
    return pairs_fit(c) and (many or (facts.least_count or 0) <= f.FEW_ROWS_OF_A_PAIR)


def embeds(c: Choice) -> bool:
    """Whether embeddings alone are trained: pairs do not fit."""
    if not (_is_free(c) and c.facts.sparse):
        return False
    too_many = c.facts.least_count is None or costs.embeds(c.facts) or c.facts.bytes > c.most_bytes
    return c.facts.several or (not c.by_steps and _is_large(c) and too_many)


def _ranks(c: Choice) -> bool:
    """Whether rows have few labels, but more than one, which margins rank."""
    return 1 < c.facts.n_labels <= c.figures.MANY_LABELS


def _ranks_alone(c: Choice) -> bool:
    """Whether embeddings alone, or what is set, rank labels by margins."""
    solver, few = c.chosen.solver, c.facts.n_labels <= c.figures.MANY_LABELS
    by_hand = getattr(solver, "reduction", None) == MARGIN and solver is not None and solver.name not in LABEL_SOLVERS
    return (embeds(c) and c.facts.several and few) or (by_hand and _by_batches(c))


def _by_batches(c: Choice) -> bool:
    """Whether what is set is trained by minibatches."""
    # Full passes take several labels, too, but not in a call that goes on.
    several = c.facts.several and (c.by_steps or "lbfgs" not in c.chosen.names)
    return steps_by_batches(c.chosen.names, several)


def is_hidden_layer(c: Choice) -> bool:
    """Whether embeddings that are cut at 0 are a hidden layer on dense rows of one label."""
    dense = c.parameters.kind == "SoftmaxClassifier" and not (c.facts.sparse or c.facts.several)
    return dense and c.chosen.model is not None and getattr(c.chosen.model, "activation", "") == "relu"


def margins_embed(c: Choice) -> bool:
    """Whether margins have embeddings: W is too large for the data, and nothing is set of model and sampler."""
    is_free = c.parameters.kind == "MarginClassifier" and c.is_open("model") and c.is_open("sampler")
    many = c.facts.n_classes > c.figures.MOST_SCORED
    return is_free and not c.by_steps and _has(solver="adagrad")(c) and many and costs.embeds(c.facts)


def _is_quick(c: Choice) -> bool:
    """Whether full passes are predicted to take few seconds, and nothing is set that only steps have."""
    steps = c.by_steps or c.candidates or c.started or c.parameters["early_stopping"]
    is_free = all(map(c.is_open, ("n_negatives", "learning_rate", "max_iter", "sampler", "solver")))
    return not steps and is_free and costs.full_cost(c.facts) <= c.figures.MOST_FULL


def _is_sampled(c: Choice) -> bool:
    """Whether a visit with all classes takes too long, or something is set of sampled ones."""
    of_samples = c.candidates or not c.is_open("n_negatives") or not c.is_open("sampler")
    return of_samples or costs.visit_cost(c.facts, None) > c.figures.MOST_EXACT


# Values


def _frequent(c: Choice) -> Part:
    return SAMPLERS["frequency_block"](power=c.figures.POWER_SAMPLED)


def _needed_sampler(c: Choice) -> str:
    flags = registered("solver")[c["solver"].name].flags
    return "all" if "all_classes" in flags else "uniform" if "batch" in flags else "frequency_block"


def relative_rate(c: Choice) -> float:
    """The step size of a solver by points, times the mean of |x|^2."""
    solver, f = c["solver"], c.figures
    if c.parameters.kind == "AugmentReduceClassifier":
        by_normal = solver.name == "sgd" and c.parameters["noise"] == "normal"
        return f.RATE_UTILITY_SGD_NORMAL if by_normal else 1.0
    if solver.name == "ove":
        return f.RELATIVE_RATE_OVE / c.facts.n_classes
    if solver.name == "minibatch_implicit":
        return float(min(solver.batch_size or MINIBATCH_POINTS, c.facts.n_samples))
    if c.goes_on and solver.name in f.AS_EXACT_IN_STREAMS:
        return 1.0
    return f.RELATIVE_RATES.get(solver.name, 1.0)


def _rate(c: Choice) -> float:
    """The step size point by point."""
    if c.asked("schedule") == "adaptive":
        return c.figures.ADAPTIVE_RATE
    lengths, one = c.facts.lengths, bool(c["fit_intercept"])
    if c.falls and c["solver"].name == "implicit" and (square := lengths.median_square + one) > TINY:
        return c.figures.RELATIVE_RATE_OF_STREAM / square
    return relative_rate(c) / (lengths.mean_square + one)


def _is_adagrad(c: Choice) -> bool:
    """Whether steps of minibatches are Adagrad's, as are those of the double sum."""
    name = c["solver"].name
    return name == "adagrad" or (c.recipe.trains == "minibatches" and name in LABEL_SOLVERS and name != "implicit")


def _rate_of_batches(c: Choice) -> float:
    square = 1.0 if c["model"].name == "embedding" else c.facts.lengths.mean_square_of_values
    if _is_adagrad(c):
        return c.figures.HIDDEN_RATE if is_hidden_layer(c) else c.figures.ADAGRAD_RATE / square**0.5
    return 1 / (square + bool(c["fit_intercept"]))


def _rate_of_pairs(c: Choice) -> float:
    lengths = c.facts.lengths
    if c["reduction"] == MARGIN:
        return float(c.figures.MARGIN_RATE_OF_PAIRS / lengths.mean_square_of_values**0.5)
    return c.figures.FIRST_MOVE / lengths.mean_length


def _u_rate(c: Choice) -> float:
    rates, by_hand = c.figures.U_RATES, c.recipe.trains == "points" and not c.is_open("solver")
    if (name := c["solver"].name) in rates:
        return rates[name]
    softmax = c.parameters.kind == "SoftmaxClassifier"
    is_relative = by_hand and softmax and isinstance(c.asked("learning_rate"), str)
    return relative_rate(c) if is_relative else float(c["learning_rate"])


def _ridge(c: Choice) -> float:
    square = c.facts.lengths.mean_square
    return c.figures.RIDGE / c.facts.n_samples * square if square >= c.figures.LEAST_FOR_RIDGE else 0.0


def _ridge_of_steps(c: Choice) -> float:
    return _ridge(c) if c["solver"].name == "implicit" and c.is_open("learning_rate") else 0.0


def _prior(c: Choice) -> float:
    return c.figures.PRIOR / c.facts.n_samples


def _carries(c: Choice) -> str:
    """The log-normaliser, where the step of a rule does not divide by what is left of it."""
    name = c["solver"].name
    carries = name in LABEL_SOLVERS and name not in ("implicit", "scent") and c["reduction"] != "decoupled"
    return "raman" if carries else "proposed"


def _reduction_of_pairs(c: Choice) -> str:
    in_fit = not c.by_steps and not c.facts.n_texts and c.facts.n_samples <= c.figures.MOST_ROWS_BY_MARGINS
    return MARGIN if in_fit else "decoupled"


def _sampler_of_batches(c: Choice) -> str:
    name, few = c["solver"].name, c.facts.n_classes <= c.figures.MOST_SCORED
    return "all" if name == "exact" or (few and name not in LABEL_SOLVERS) else "frequency"


def _passes(by_embeddings: tuple[int, float], others: tuple[int, float]) -> Callable[[Choice], tuple[int, float]]:
    def of_choice(c: Choice) -> tuple[int, float]:
        embeds_by_adagrad = c["model"].name == "embedding" and c["solver"].name == "adagrad"
        return by_embeddings if embeds_by_adagrad else others

    return of_choice


def _seen(few: str, many: str, most: int, draws: bool = True) -> Formula:
    """Return the sampler of members of blends, of which n_negatives says how many classes are few."""

    def sampler(c: Choice) -> str:
        least = c["n_negatives"] if draws or not c.is_open("n_negatives") else most
        return few if c.facts.n_classes <= least else many

    return Formula(f"'{few}' up to {most:,} classes, then '{many}'", sampler)


# The list


def _points(f: Figures) -> tuple[Recipe, ...]:
    """Return the recipes of linear models of one label a row."""
    ridge = Formula(rf"{f.RIDGE:g} / n_samples times the mean of \|x\|^2", _ridge)
    prior = Formula(f"{f.PRIOR:g} / n_samples", _prior)
    rate = Formula(
        r"c over the mean of \|x\|^2, plus 1 with an intercept; c is 1, 6 of 'implicit', 0.1 of 'umax' and 'softplus', "
        "0.01 of 'sgd', 4 / n_classes of 'ove', batch_size of 'minibatch_implicit'",
        _rate,
    )
    small = Formula(
        f"'suffix' where W takes at most {f.MOST_FOR_AVERAGE >> 30} GB and half of max_memory",
        lambda c: "suffix" if c.facts.bytes <= min(f.MOST_FOR_AVERAGE, c.most_bytes / 2) else "none",
    )
    by_frequency = Formula(f"'frequency_block' with power={f.POWER_SAMPLED:g}", _frequent)
    u_rate = Formula("30 of 'implicit', 0.5 of 'bregman' and 'scent', else that of W", _u_rate)
    exact = Recipe(
        name="exact steps",
        case="all else",
        holds=lambda c: True,
        trains="points",
        solver="exact",
        n_negatives=f.NEGATIVES_BY_HAND,
        dim=f.EMBEDDED_DIM,
        max_iter=f.PASSES_BY_HAND,
        decay=Formula(
            f"{f.DECAY_BY_HAND} of {f.PASSES_BY_HAND} passes",
            lambda c: float(f.DECAY_BY_HAND ** (f.PASSES_BY_HAND / int(c["max_iter"]))),
        ),
        learning_rate=rate,
        u_learning_rate=u_rate,
        averaging=small,
        alpha=ridge,
        tried=("learning_rate", "alpha"),
    )
    sampled = replace(
        exact,
        name="sampled steps",
        case=f"a visit of all classes is predicted to take more than {f.MOST_EXACT:g} microseconds, or n_negatives, a "
        "sampler or candidates are given",
        holds=_is_sampled,
        solver="implicit",
        sampler=by_frequency,
        n_negatives=f.NEGATIVES_SAMPLED,
        max_iter=f.PASSES_SAMPLED,
        decay=Formula(
            f"so that the last step is 1 / {1 / f.LAST_STEP:g} of the first",
            lambda c: float(f.LAST_STEP ** (1 / max(1, int(c["max_iter"]) - 1))),
        ),
    )
    stream = replace(
        sampled,
        name="a stream",
        case="solver='implicit', which is also that of linear models in partial_fit",
        holds=_has(solver="implicit"),
        learning_rate=replace(
            rate, says=r"6 over the mean of \|x\|^2; in partial_fit 30 over the median of \|x\|^2, from where it falls"
        ),
        averaging="none",
        alpha=replace(ridge, value=_ridge_of_steps),
        tried=("learning_rate",),
    )
    by_hand = replace(
        exact,
        name="steps by hand",
        case="another solver is set",
        holds=lambda c: c.chosen.solver is not None,
        solver="implicit",
        sampler=Formula("'frequency_block', or what the solver needs", _needed_sampler),
        decay=f.DECAY_BY_HAND,
        averaging="none",
        alpha=0.0,
        tried=("learning_rate",),
    )
    full = replace(
        exact,
        name="full passes",
        case=f"they are predicted to take at most {f.MOST_FULL:g} seconds, trials of alpha included, and nothing is "
        "set that only steps have; or solver='lbfgs'",
        holds=lambda c: _is_quick(c) or _has(solver="lbfgs")(c),
        solver="lbfgs",
        max_iter=f.MOST_ITERATIONS,
        decay=f.DECAY_BY_HAND,
        alpha=prior,
        averaging="none",
        tried=("alpha",),
    )
    return full, stream, by_hand, sampled, exact


def _batches(f: Figures) -> tuple[Recipe, ...]:
    """Return the recipes of minibatches."""
    passes = _passes(f.EMBEDDED_PASSES, f.BATCHES_PASSES)
    by_hand = Recipe(
        name="minibatches",
        case="all else of several labels a row, of embeddings, sampler='search' or solver='adagrad'",
        holds=_by_batches,
        trains="minibatches",
        formulation=Formula("'raman' of solvers of the double sum but 'implicit' and 'scent'", _carries),
        sampler=Formula(f"'frequency' of the double sum and above {f.MOST_SCORED:,} classes", _sampler_of_batches),
        n_negatives=f.NEGATIVES_BATCHES,
        dim=f.EMBEDDED_DIM,
        max_iter=Formula(f"{f.BATCHES_PASSES[0]}; embeddings {f.EMBEDDED_PASSES[0]}", lambda c: passes(c)[0]),
        decay=Formula(f"{f.BATCHES_PASSES[1]}; embeddings {f.EMBEDDED_PASSES[1]}", lambda c: passes(c)[1]),
        learning_rate=Formula(
            r"Adagrad's, over the root of the mean of \|x\|^2; else 1 over that plus 1", _rate_of_batches
        ),
        u_learning_rate=Formula("30 of 'implicit', 0.5 of 'bregman' and 'scent', else that of W", _u_rate),
    )
    hidden = replace(
        by_hand,
        name="a hidden layer",
        case="model='embedding' with activation='relu' on dense rows of one label",
        holds=lambda c: _has(model="embedding")(c) and is_hidden_layer(c),
        model="embedding",
        sampler=Formula(
            f"'all' up to {f.MOST_SCORED:,} classes",
            lambda c: "all" if c.facts.n_classes <= f.MOST_SCORED or c["solver"].name == "exact" else "frequency",
        ),
        dim=f.HIDDEN_DIM,
        max_iter=f.HIDDEN_PASSES[0],
        decay=f.HIDDEN_PASSES[1],
        learning_rate=Formula(f"{f.HIDDEN_RATE:g}", _rate_of_batches),
        alpha=Formula(f"{f.PRIOR:g} / n_samples", lambda c: _prior(c) if _is_adagrad(c) and not c.by_steps else 0.0),
    )
    alone = replace(
        by_hand,
        name="embeddings alone",
        case="sparse rows that would meet too many weights on pairs",
        holds=embeds,
        model="embedding",
        reduction=Formula("'decoupled' of several labels", lambda c: "decoupled" if c.facts.several else "pick_all"),
        sampler=Formula(
            f"'frequency'; of several labels 'all' up to {f.MOST_SCORED:,} classes",
            lambda c: "all" if c.facts.several and c.facts.n_classes <= f.MOST_SCORED else "frequency",
        ),
        max_iter=f.EMBEDDED_PASSES[0],
        decay=f.EMBEDDED_PASSES[1],
        learning_rate=Formula(f"{f.ADAGRAD_RATE:g}", _rate_of_batches),
    )
    ranked = replace(
        alone,
        name="embeddings by margins",
        case=f"the same with up to {f.MANY_LABELS:g} labels a row, or a solver with reduction='margin'",
        holds=_ranks_alone,
        model=Formula("'embedding'", lambda c: "embedding" if c.is_open("solver") else "linear"),
        reduction=MARGIN,
        sampler=_seen("all", "uniform", f.MOST_SCORED, draws=False),
        n_negatives=f.NEGATIVES_RANKING,
        dim=f.RANKING_ALONE_DIM,
        max_iter=f.RANKING_ALONE_PASSES[0],
        decay=f.RANKING_ALONE_PASSES[1],
        most_runs=f.MOST_RUNS,
    )
    margins = replace(
        by_hand,
        name="margins",
        case="MarginClassifier",
        holds=lambda c: c.parameters.kind == "MarginClassifier",
        trains="margin",
        formulation="proposed",
        sampler="all",
        n_negatives=f.NEGATIVES_MARGIN,
        max_iter=f.BATCHES_PASSES[0],
        decay=f.BATCHES_PASSES[1],
    )
    many = replace(
        margins,
        name="margins of many classes",
        case=f"MarginClassifier by 'adagrad', more than {f.MOST_SCORED:,} classes, and W would take more than "
        f"{f.LEAST_TO_EMBED >> 20} MB and have more than {f.NUMBERS_A_VALUE} numbers for each one stored in X",
        holds=margins_embed,
        model="embedding",
        sampler="uniform",
        n_negatives=f.NEGATIVES_RANKING,
        dim=f.RANKING_DIM,
    )
    return many, margins, ranked, alone, hidden, by_hand


def _blends(f: Figures, alone: Recipe) -> tuple[Recipe, ...]:
    """Return the recipes of weights on pairs, beside the embeddings of `alone`."""
    few, many = f.PAIRS_PASSES_OF_FEW, f.PAIRS_PASSES
    embeddings = replace(
        alone,
        name="embeddings of a blend",
        reduction=Formula("'pick_all' of one label", lambda c: "pick_all" if c.facts.n_labels == 1 else "decoupled"),
        sampler=_seen("all", "frequency", f.NEGATIVES_BATCHES),
        dim=Formula(
            f"{f.EMBEDDED_DIM}, {f.FEW_CLASSES} up to {f.FEW_CLASSES} classes",
            lambda c: f.FEW_CLASSES if c.facts.n_classes <= f.FEW_CLASSES else f.EMBEDDED_DIM,
        ),
    )
    ranked = replace(
        embeddings,
        reduction=MARGIN,
        sampler=_seen("all", "uniform", f.MOST_SCORED, draws=False),
        n_negatives=f.NEGATIVES_RANKING,
        dim=f.RANKING_DIM,
        max_iter=f.RANKING_PASSES[0],
        decay=f.RANKING_PASSES[1],
    )
    words = f"{few[0]} up to {f.FEW_ROWS:,} rows, then {many[0]}", f"{few[1]}, then {many[1]}"
    max_iter, decay = (
        Formula(says, lambda c, at=at: (few if c.facts.n_samples <= f.FEW_ROWS else many)[at])  # type: ignore[misc]
        for at, says in enumerate(words)
    )
    pairs = replace(
        alone,
        name="pairs",
        case="model='pairs'",
        holds=_has(model="pairs"),
        trains="pairs",
        model="pairs",
        reduction="decoupled",
        formulation="proposed",
        sampler="all",
        max_iter=max_iter,
        decay=decay,
        learning_rate=Formula(rf"{f.FIRST_MOVE:g} over the mean of \|x\|_1", _rate_of_pairs),
        tried=("learning_rate",),
    )
    blend = replace(
        pairs,
        name="a blend",
        case=f"sparse rows of one label, from {f.FEWEST_TO_TRY:,} rows on or where W is too large for its rows, or of "
        "several labels; or model='hybrid'",
        holds=blends,
        model=Formula(
            "'hybrid'",
            lambda c: MODELS["hybrid"](min_count=c.facts.least_count or 1, few_classes=c.facts.few_classes),
        ),
        most_runs=f.MOST_RUNS,
        beside=(embeddings,),
    )
    next_items = replace(
        blend,
        name="next items",
        case="the same where each class is the name of a column",
        holds=lambda c: c.facts.of_columns and not c.facts.several and blends(c),
        beside=(
            replace(
                embeddings,
                sampler=_seen("all", "frequency", f.NEGATIVES_NEXT),
                n_negatives=f.NEGATIVES_NEXT,
            ),
        ),
    )
    several = replace(
        blend,
        name="several labels",
        case=f"the same where rows have 2 to {f.MANY_LABELS:g} labels in the mean",
        holds=lambda c: blends(c) and _ranks(c),
        reduction=Formula(
            f"'margin' in a fit to up to {f.MOST_ROWS_BY_MARGINS:,} rows, else 'decoupled'", _reduction_of_pairs
        ),
        learning_rate=Formula(
            rf"by margins {f.MARGIN_RATE_OF_PAIRS:g} over the root of the mean of \|x\|^2", _rate_of_pairs
        ),
        beside=(ranked,),
    )
    return next_items, several, blend, pairs


def recipes(f: Figures = FIGURES) -> tuple[Recipe, ...]:
    """Return the list, in the order in which the first case that holds is taken."""
    by_points = _points(f)
    many, margins, *batches = _batches(f)
    utilities = replace(
        by_points[2],
        name="utilities",
        case="AugmentReduceClassifier",
        holds=lambda c: c.parameters.kind == "AugmentReduceClassifier",
        sampler=Formula(
            "'frequency_block'; with a posterior 'uniform'",
            lambda c: "frequency_block" if c["posterior"] == "point" else "uniform",
        ),
        tried=(),
    )
    return utilities, many, margins, *_blends(f, batches[1]), *batches, *by_points


# In words


def words_of(value: Any) -> str:
    """Return a field in words."""
    return value.says if isinstance(value, Formula) else repr(value)


def _steps(recipe: Recipe) -> str:
    seen = f", {recipe.n_negatives} classes" if recipe.sampler != "all" else ""
    return f"{words_of(recipe.solver)}, sampler {words_of(recipe.sampler)}{seen}; passes {words_of(recipe.max_iter)}"


def table() -> list[tuple[str, ...]]:
    """Return the list in words: name, case, model and steps, step size, and what is learned on rows held out."""
    lines: list[tuple[str, ...]] = []
    for recipe in recipes():
        model, *others = [f"{words_of(member.model)}: {_steps(member)}" for member in (recipe, *recipe.beside)]
        rate = f"{words_of(recipe.learning_rate)}; decay {words_of(recipe.decay)}"
        lines.append((recipe.name, recipe.case, "; beside ".join([model, *others]), rate, ", ".join(recipe.tried)))
    return lines


def _as_text() -> str:
    """The list as it stands in `help`."""
    texts = ["; ".join(filter(None, line)) for line in table()]
    return "\n".join(textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ") for text in texts)


__doc__ = f"{__doc__}\n{_as_text()}\n"
