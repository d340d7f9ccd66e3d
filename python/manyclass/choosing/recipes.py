r"""What "auto" is: a list of recipes, of which the first whose case holds is taken; what is set replaces a field of it.

    facts of the data, what is set ─▶ recipe ─▶ plan ─▶ trials on the user's own rows where it has some ─▶ training

A model or a solver that is set picks the recipe that has it. In a blend `learning_rate` and `max_iter` are those of the
weights on pairs, `dim`, `sampler` and `n_negatives` those of the embeddings, and `alpha` is that of all members but the
pairs; members keep the steps and passes that they have.
`resolved_params_` has what each open parameter became, `auto_report_` the recipe and a line for each trial.

Trials keep to 30 % of the predicted seconds of the fit, or to 4 predicted seconds where that is more; predictions are
constants times visits, so that equal seeds try and choose alike on any machine and with any number of threads. Nothing
is tried with fewer than 1,000 rows or a limit of seconds (max_seconds), nor what was set by hand. With solver="auto" a
linear model is trained on scaled features, and alpha is that of their weights: see `manyclass.models.Linear`.

learning_rate, point by point
    Two passes over *whole classes*, all rows of random ones, 20,000 at most; steps are thirds of a decade apart, and
    the search goes on while the best is at an end. The middle of those within 0.5 % of the least log-loss is taken,
    divided by what the steps of all passes add up to over 2, where that is more. Dense data are tried from W = 0 and
    from the weights of linear discriminant analysis, which are in closed form, without a ridge; the fit begins there
    if these trials have a log-loss lower by 5 % (`manyclass.training.train`), and makes but two passes
    where they lower that of the closed form by less than 0.5 %.
model
    Of 1,000 dense rows and more of one label, a hidden layer takes the place of the linear model where rows held out of
    both are more probable by it, by more than the standard error. What is set is set in both; a solver, a sampler or
    n_negatives leaves the linear model alone.
learning_rate of weights on pairs
    On 4,000 random rows at most a third or less of it, while the decoupled loss of held-out rows falls: that is the
    log_loss of the report then, summed over the labels of a row. None by margins.
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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from manyclass.checks import lazy_property
from manyclass.choosing import costs
from manyclass.choosing.costs import TINY, Facts
from manyclass.figures import FIGURES
from manyclass.models import MODELS
from manyclass.parts import Chosen, Parameters, Part, is_open
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LABEL_SOLVERS, SOLVERS
from manyclass.training.plan import MINIBATCH_POINTS

PARTS: dict[str, Mapping[str, type[Part]]] = {"solver": SOLVERS, "sampler": SAMPLERS, "model": MODELS}
MARGIN = "margin"
# Where a recipe has parameters whose names are not those of its fields.
FIELDS: dict[str, tuple[str, int | None]] = {"learning_rate": ("rate", None)}
FIELDS |= {"sampler": ("classes", 0), "n_negatives": ("classes", 1), "max_iter": ("passes", 0), "decay": ("passes", 1)}


@dataclass(frozen=True)
class Recipe:
    """What is trained where nothing is set: values, names of parts, or functions of the choice with words for a text.

    Attributes
    ----------
    name : str
    holds : callable
        Whether it is taken, by the choice.
    trains : {"points", "minibatches", "margin", "pairs"}
        Which loop makes its steps.
    rate : float or callable
        The step size.
    classes : tuple of str and int
        The sampler, and how many classes it draws.
    passes : tuple of int and float, or callable
        How many, and what each multiplies the step size by.
    model : str or callable
    solver : str
    reduction : str or callable
        How the labels of a row share a loss.
    dim : int or callable
        Columns of embeddings.
    alpha : float or callable
        The ridge.
    averaging : str or callable
    tried : tuple of str
        What trials on rows held out may better.
    beside : tuple of Recipe
        The models that are trained beside this one in a blend.
    """

    name: str
    holds: Callable[[Choice], bool]
    trains: str
    rate: Any
    classes: Any
    passes: Any
    model: Any = "linear"
    solver: str = "adagrad"
    reduction: Any = "pick_all"
    dim: Any = FIGURES.EMBEDDED_DIM
    alpha: Any = 0.0
    averaging: Any = "none"
    tried: tuple[str, ...] = ()
    beside: tuple[Recipe, ...] = ()


@dataclass(frozen=True)
class Either:
    """One of two values, each of which may be a function, by a case of the list or a part of one."""

    case: Callable[[Choice], bool]
    value: Any
    otherwise: Any

    def __call__(self, c: Choice) -> Any:
        """Return the value for a choice."""
        return self.value if self.case(c) else self.otherwise


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

    @lazy_property
    def recipe(self) -> Recipe:
        """Return the first recipe of the list whose case holds."""
        return self.taken or next(recipe for recipe in recipes() if recipe.holds(self))

    def changed(self, **values: Any) -> Self:
        """Return it with other parameters, by the same recipe."""
        return replace(self, parameters=self.parameters.changed(**values), taken=self.recipe)

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

    def __contains__(self, name: object) -> bool:
        return name in OPEN

    def __getitem__(self, name: str) -> Any:
        setting = self.asked(name)
        if not is_open(setting):
            return setting
        field, place = FIELDS.get(name, (name, None))
        value = self._value(COMMON[name] if name in COMMON else getattr(self.recipe, field))
        value = value if place is None else self._value(value[place])
        return PARTS[name][value]() if name in PARTS and isinstance(value, str) else value

    def _value(self, value: Any) -> Any:
        while callable(value):
            value = value(self)
        return value

    def tries(self, name: str) -> bool:
        """Whether a trial may better a field, of steps only where the log-loss tells which are better."""
        if self.timed or not (self.is_open(name) and name in self.recipe.tried):
            return False
        if name == "model":
            return self.has_dense_rows
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
    def _is_fit_of_dense(self) -> bool:
        """Whether a fit to dense rows of one label has time, and begins at nothing that is given."""
        goes_on, is_given = self.by_steps or self.goes_on, self.started or self.candidates
        return not (self.timed or goes_on or is_given or self.facts.sparse or self.facts.several)

    @property
    def has_dense_rows(self) -> bool:
        """Whether a hidden layer may be better than a linear model, of which nothing is set that it has not."""
        is_free = all(map(self.is_open, ("solver", "sampler", "model", "n_negatives")))
        is_free = is_free and self.parameters["learning_rate"] != "grid"
        return is_free and self._is_fit_of_dense and self.facts.n_samples >= FIGURES.FEWEST_TO_TRY

    @property
    def begins_at_discriminant(self) -> bool:
        """Whether a linear model of dense rows may begin at linear discriminant analysis, as nothing is set."""
        is_free = all(map(self.is_open, ("alpha", "learning_rate", "solver"))) and bool(self["fit_intercept"])
        return is_free and self._is_fit_of_dense

    def beside(self, name: str) -> Choice:
        """Return the choice of a member of a blend; dim, sampler and n_negatives are those of embeddings."""
        [recipe] = [member for member in self.recipe.beside if member.name == name]
        sampler, solver = self.chosen.sampler, SOLVERS[recipe.solver]()
        names = ["learning_rate", "max_iter"]
        if recipe.model == "embedding":
            model = MODELS["embedding"](activation=self["model"].activation)
            if recipe.solver in LABEL_SOLVERS and sampler is not None and sampler.name == "search":
                solver = SOLVERS["adagrad"]()  # a search leaves classes out
            if name == "unbiased embeddings":  # which have draws of their own
                sampler, names = None, [*names, "sampler", "n_negatives"]
        else:
            model, sampler = MODELS["linear"](), None
            names += ["dim", "sampler", "n_negatives"]
        parameters = self.parameters.changed(random_state=0, **dict.fromkeys(names, "auto"))
        return replace(self, parameters=parameters, chosen=Chosen(solver, sampler, model), goes_on=False, taken=recipe)


# Cases


def steps_by_batches(names: Collection[str], several: bool) -> bool:
    """Whether several labels, or one of the parts with these names, ask for steps of several points together."""
    return several or not {"embedding", "search", "adagrad"}.isdisjoint(names)


def _is_free(c: Choice) -> bool:
    """Whether nothing is set that only recipes of one model have."""
    of_linear = c.candidates or c.started or c.parameters["learning_rate"] == "grid"
    of_sampler = not {"search", "head_tail"}.isdisjoint(c.chosen.names)
    return c.chosen.solver is None and c.chosen.model is None and not (of_linear or of_sampler)


def _is_large(c: Choice) -> bool:
    """Whether rows are enough to hold some out, or W too large for them or for max_memory."""
    return c.facts.n_samples >= FIGURES.FEWEST_TO_TRY or _is_wide(c)


def _is_wide(c: Choice) -> bool:
    return costs.embeds(c.facts) or c.facts.bytes > c.most_bytes


def _name(part: Part | None) -> str:
    return "" if part is None else part.name


def of_utilities(c: Choice) -> bool:
    """AugmentReduceClassifier"""
    return c.parameters.kind == "AugmentReduceClassifier"


def of_margins(c: Choice) -> bool:
    """MarginClassifier"""
    return c.parameters.kind == "MarginClassifier"


def is_wide(c: Choice) -> bool:
    """of more than {MOST_SCORED:,} classes whose W is too large"""
    is_free = c.is_open("model") and c.is_open("sampler") and _name(c.chosen.solver) == "adagrad" and not c.by_steps
    return is_free and c.facts.n_classes > FIGURES.MOST_SCORED and costs.embeds(c.facts)


def blends(c: Choice) -> bool:
    """model='hybrid', or 'pairs' alone; sparse rows of one label, from {FEWEST_TO_TRY:,} on, or fewer whose W is too
    large; rows of several labels; if they meet at most {MOST_MET:,} weights on pairs, which max_memory has room for
    """
    facts, f, least = c.facts, FIGURES, c.facts.least_count
    if not _is_free(c):
        return _name(c.chosen.model) in ("hybrid", "pairs")
    if least is None or costs.pairs_bytes(facts, least, facts.few_classes) > c.most_bytes:
        return False
    if not facts.several:
        return facts.sparse and not c.by_steps and _is_large(c)
    # Pairs of many rows alone, and rows held out for their scales, cost what they give beside margins.
    return not facts.sparse or facts.n_labels > f.MANY_LABELS or least <= f.FEW_ROWS_OF_A_PAIR


def is_next(c: Choice) -> bool:
    """of next items"""
    return c.facts.of_columns and not c.facts.several


def blends_ranked(c: Choice) -> bool:
    """a blend of rows that have more than one and up to {MANY_LABELS:g} labels in the mean"""
    return 1 < c.facts.n_labels <= FIGURES.MANY_LABELS and _name(c.chosen.model) != "pairs" and blends(c)


def embeds(c: Choice) -> bool:
    """sparse rows that would meet too many weights on pairs; model='embedding' in a fit"""
    if _name(c.chosen.model) == "embedding" and not is_hidden_layer(c):
        is_set = c.chosen.solver is not None or "search" in c.chosen.names or c.candidates or c.started
        return not (is_set or c.by_steps) and c.parameters.kind == "SoftmaxClassifier"
    too_many = c.facts.least_count is None or _is_wide(c)
    one_label = not c.by_steps and _is_large(c) and too_many
    return _is_free(c) and c.facts.sparse and (c.facts.several or one_label)


def embeds_ranked(c: Choice) -> bool:
    """sparse rows of several labels, up to {MANY_LABELS:g} in the mean, that would meet too many weights on pairs; or a
    solver with reduction='margin'
    """
    if c.chosen.solver is None:
        return c.facts.several and c.facts.n_labels <= FIGURES.MANY_LABELS and _is_free(c) and embeds(c)
    by_hand = getattr(c.chosen.solver, "reduction", "") == MARGIN and _name(c.chosen.solver) not in LABEL_SOLVERS
    return by_hand and by_batches(c)


def is_hidden_layer(c: Choice) -> bool:
    """model='embedding' with activation='relu' on dense rows of one label"""
    dense = c.parameters.kind == "SoftmaxClassifier" and not (c.facts.sparse or c.facts.several)
    return dense and _name(c.chosen.model) == "embedding" and getattr(c.chosen.model, "activation", "") == "relu"


def by_batches(c: Choice) -> bool:
    """all else of several labels, of embeddings, of solver='adagrad' and sampler='search'"""
    # Full passes take several labels, too, but not in a call that goes on.
    return steps_by_batches(c.chosen.names, c.facts.several and (c.by_steps or _name(c.chosen.solver) != "lbfgs"))


def in_full(c: Choice) -> bool:
    """solver='lbfgs'; or at most {MOST_FULL:g} seconds predicted, nothing being set that only steps have"""
    steps = c.by_steps or c.candidates or c.started or c.parameters["early_stopping"]
    names = ("n_negatives", "learning_rate", "max_iter", "sampler", "solver")
    is_quick = not steps and all(map(c.is_open, names)) and costs.full_cost(c.facts) <= FIGURES.MOST_FULL
    return is_quick or _name(c.chosen.solver) == "lbfgs"


def by_hand(c: Choice) -> bool:
    """another solver that is set, but 'implicit'"""
    return _name(c.chosen.solver) not in ("", "implicit")


def by_samples(c: Choice) -> bool:
    """solver='implicit', by which linear models go on in partial_fit; n_negatives, a sampler or candidates are given; a
    visit of all classes is predicted to take more than {MOST_EXACT:g} microseconds
    """
    of_samples = c.candidates or not c.is_open("n_negatives") or not c.is_open("sampler")
    return of_samples or _name(c.chosen.solver) == "implicit" or costs.visit_cost(c.facts, None) > FIGURES.MOST_EXACT


def otherwise(c: Choice) -> bool:
    """all else"""
    return True


# Values


def frequent(c: Choice) -> Part:
    """'frequency_block' with power={POWER_SAMPLED:g}"""
    return SAMPLERS["frequency_block"](power=FIGURES.POWER_SAMPLED)


def needed_sampler(solver: Part) -> str | None:
    """Return the sampler that a solver of points needs; None: any."""
    flags = registered("solver")[solver.name].flags
    return "all" if "all_classes" in flags else "uniform" if "batch" in flags else None


def needed(c: Choice) -> str:
    """'frequency_block', or what the solver needs"""
    return needed_sampler(c["solver"]) or "frequency_block"


def by_posterior(c: Choice) -> str:
    """'frequency_block', of a posterior 'uniform'"""
    return "frequency_block" if c["posterior"] == "point" else "uniform"


def frequent_of_many(c: Choice) -> str:
    """'all', 'frequency' of more than {MOST_SCORED:,} classes and of the double sum"""
    name, few = c["solver"].name, c.facts.n_classes <= FIGURES.MOST_SCORED
    is_hidden = is_hidden_layer(c)
    return "all" if name == "exact" or (few and (is_hidden or name not in LABEL_SOLVERS)) else "frequency"


def frequent_or_all(c: Choice) -> str:
    """'frequency'"""
    return "all" if c.facts.n_classes <= c["n_negatives"] else "frequency"


def uniform_of_many(c: Choice) -> str:
    """'all', 'uniform' of more than {MOST_SCORED:,} classes"""
    most = FIGURES.MOST_SCORED if c.is_open("n_negatives") else c["n_negatives"]
    return "all" if c.facts.n_classes <= most else "uniform"


def relative_rate(c: Choice) -> float:
    """The step size of a solver by points, times the mean of |x|^2."""
    solver, f = c["solver"], FIGURES
    if of_utilities(c):
        by_normal = solver.name == "sgd" and c.parameters["noise"] == "normal"
        return f.RATE_UTILITY_SGD_NORMAL if by_normal else 1.0
    if solver.name == "ove":
        return f.RELATIVE_RATE_OVE / c.facts.n_classes
    if solver.name == "minibatch_implicit":
        return float(min(solver.batch_size or MINIBATCH_POINTS, c.facts.n_samples))
    exact_too = c.goes_on and solver.name in f.AS_EXACT_IN_STREAMS
    return 1.0 if exact_too else f.RELATIVE_RATES.get(solver.name, 1.0)


def rate_of_points(c: Choice) -> float:
    """a number of the solver, 1 to 6, over the mean of |x|²; in streams {RELATIVE_RATE_OF_STREAM:g} over its median"""
    if c.asked("schedule") == "adaptive":
        return FIGURES.ADAPTIVE_RATE
    lengths, one = c.facts.lengths, bool(c["fit_intercept"])
    if c.falls and c["solver"].name == "implicit" and (square := lengths.median_square + one) > TINY:
        return FIGURES.RELATIVE_RATE_OF_STREAM / square
    return relative_rate(c) / (lengths.mean_square + one)


def is_adagrad(c: Choice) -> bool:
    """Whether steps of minibatches are Adagrad's, as are those of the double sum."""
    name = c["solver"].name
    return name == "adagrad" or (c.recipe.trains == "minibatches" and name in LABEL_SOLVERS and name != "implicit")


def rate_of_batches(c: Choice) -> float:
    """{ADAGRAD_RATE:g}, of linear models over the root mean square of |x|; {HIDDEN_RATE:g} of dense rows"""
    square = 1.0 if c["model"].name == "embedding" else c.facts.lengths.mean_square_of_values
    if is_adagrad(c):
        return FIGURES.HIDDEN_RATE if is_hidden_layer(c) else FIGURES.ADAGRAD_RATE / square**0.5
    return 1 / (square + bool(c["fit_intercept"]))


def rate_of_pairs(c: Choice) -> float:
    """{FIRST_MOVE:g} over the mean sum of |x|, in blends {FIRST_MOVE_IN_BLENDS:g}; by margins {MARGIN_RATE_OF_PAIRS:g}
    over the root mean square of |x|
    """
    f, lengths = FIGURES, c.facts.lengths
    if c["reduction"] == MARGIN:
        return float(f.MARGIN_RATE_OF_PAIRS / lengths.mean_square_of_values**0.5)
    blended = c["model"].name == "hybrid" and not c.by_steps
    return (f.FIRST_MOVE_IN_BLENDS if blended else f.FIRST_MOVE) / lengths.mean_length


def u_rate(c: Choice) -> float:
    """30 of 'implicit', .5 of 'bregman' and 'scent', else that of W"""
    rates, is_set = FIGURES.U_RATES, c.recipe.trains == "points" and not c.is_open("solver")
    if (name := c["solver"].name) in rates:
        return rates[name]
    is_relative = is_set and not of_utilities(c) and isinstance(c.asked("learning_rate"), str)
    return relative_rate(c) if is_relative else float(c["learning_rate"])


def ridge(c: Choice) -> float:
    """{RIDGE:g} / n_samples of the mean of |x|², unless solver and learning_rate are set"""
    square, is_open = c.facts.lengths.mean_square, c.is_open("solver") or c.is_open("learning_rate")
    return FIGURES.RIDGE / c.facts.n_samples * square if is_open and square >= FIGURES.LEAST_FOR_RIDGE else 0.0


def ridge_of_one(c: Choice) -> float:
    """{RIDGE:g} / n_samples"""
    return FIGURES.RIDGE / c.facts.n_samples


def prior(c: Choice) -> float:
    """{PRIOR:g} / n_samples"""
    return FIGURES.PRIOR / c.facts.n_samples


def prior_of_adagrad(c: Choice) -> float:
    """{PRIOR:g} / n_samples"""
    return prior(c) if is_adagrad(c) and not c.by_steps else 0.0


def carried(c: Choice) -> str:
    """The log-normaliser, where the step of a rule does not divide by what is left of it."""
    name = c["solver"].name
    by_rule = c.recipe.trains == "minibatches" and name in LABEL_SOLVERS and name not in ("implicit", "scent")
    return "raman" if by_rule and c["reduction"] != "decoupled" else "proposed"


def averaging_of_small(c: Choice) -> str:
    """'suffix' where max_memory has room for it and no solver is set"""
    has_room = c.facts.bytes <= min(FIGURES.MOST_FOR_AVERAGE, c.most_bytes / 2)
    return "suffix" if has_room and c.is_open("solver") else "none"


def decay_to_last(c: Choice) -> float:
    """to {LAST_STEP:g} of the first step"""
    return float(FIGURES.LAST_STEP ** (1 / max(1, int(c["max_iter"]) - 1)))


def decay_of_few(c: Choice) -> float:
    """{DECAY_BY_HAND:g} if they are as many"""
    return float(FIGURES.DECAY_BY_HAND ** (FIGURES.PASSES_BY_HAND / int(c["max_iter"])))


def passes_of_batches(c: Choice) -> tuple[int, float]:
    """{BATCHES_PASSES}, of embeddings by 'adagrad' {EMBEDDED_PASSES}"""
    embedded = c["model"].name == "embedding" and c["solver"].name == "adagrad"
    return FIGURES.EMBEDDED_PASSES if embedded else FIGURES.BATCHES_PASSES


def passes_of_pairs(c: Choice) -> tuple[int, float]:
    """{PAIRS_PASSES_OF_FEW} up to {FEW_ROWS:,} rows, then {PAIRS_PASSES}"""
    f = FIGURES
    return f.PAIRS_PASSES_OF_FEW if c.facts.n_samples <= f.FEW_ROWS else f.PAIRS_PASSES


def columns_of_few(c: Choice) -> int:
    """{FEW_CLASSES} up to {FEW_CLASSES} classes, then {EMBEDDED_DIM}"""
    return FIGURES.FEW_CLASSES if c.facts.n_classes <= FIGURES.FEW_CLASSES else FIGURES.EMBEDDED_DIM


def decoupled_of_several(c: Choice) -> str:
    """'decoupled' of several labels"""
    return "pick_all" if c.facts.n_labels == 1 else "decoupled"


def margins_of_fits(c: Choice) -> str:
    """'margin' in a fit to up to {MOST_ROWS_BY_MARGINS:,} rows"""
    in_fit = not c.by_steps and not c.facts.n_texts and c.facts.n_samples <= FIGURES.MOST_ROWS_BY_MARGINS
    return MARGIN if in_fit else "decoupled"


def embedding_of_open(c: Choice) -> str:
    """'embedding'"""
    return "embedding" if c.is_open("solver") else "linear"


def hybrid(c: Choice) -> Part:
    """'hybrid'"""
    return MODELS["hybrid"](min_count=c.facts.least_count or 1, few_classes=c.facts.few_classes)


COMMON = {"u_learning_rate": u_rate, "formulation": carried}
OPEN = ("model", "solver", "reduction", "dim", "alpha", "averaging", *FIELDS, *COMMON)


# The list


def _by_points() -> tuple[Recipe, ...]:
    """Return the recipes of linear models of one label a row."""
    f = FIGURES
    points = partial(Recipe, trains="points", rate=rate_of_points)
    last, full = (f.PASSES_SAMPLED, decay_to_last), (f.MOST_ITERATIONS, f.DECAY_BY_HAND)
    hand, few = (f.PASSES_BY_HAND, f.DECAY_BY_HAND), (f.PASSES_BY_HAND, decay_of_few)
    drawn, whole, frequents = f.NEGATIVES_BY_HAND, ("all", f.NEGATIVES_BY_HAND), (frequent, f.NEGATIVES_SAMPLED)
    step = ("learning_rate",)
    weak = partial(points, alpha=ridge, averaging=averaging_of_small, tried=("learning_rate", "model"))
    return (
        points(
            "full passes", in_full, solver="lbfgs", classes=whole, passes=full, alpha=prior, tried=("alpha", "model")
        ),
        points("steps by hand", by_hand, solver="implicit", classes=(needed, drawn), passes=hand, tried=step),
        weak("sampled steps", by_samples, solver="implicit", classes=frequents, passes=last),
        weak("exact steps", otherwise, solver="exact", classes=whole, passes=few),
    )


def _by_batches() -> tuple[Recipe, ...]:
    """Return the recipes of minibatches."""
    f = FIGURES
    batches = partial(Recipe, trains="minibatches", rate=rate_of_batches, dim=f.EMBEDDED_DIM)
    frequent_classes, ranked = (frequent_of_many, f.NEGATIVES_BATCHES), (uniform_of_many, f.NEGATIVES_RANKING)
    alone = partial(batches, model="embedding", solver="scent", reduction=decoupled_of_several)
    alone = partial(alone, rate=f.ADAGRAD_RATE, passes=f.EMBEDDED_PASSES)
    alone = partial(alone, classes=(frequent_or_all, f.NEGATIVES_BATCHES))
    by_margins = partial(batches, model=embedding_of_open, reduction=MARGIN, dim=f.RANKING_ALONE_DIM, classes=ranked)
    by_margins = partial(by_margins, passes=f.RANKING_ALONE_PASSES)
    hidden = partial(batches, model="embedding", dim=f.HIDDEN_DIM, passes=f.HIDDEN_PASSES, alpha=prior_of_adagrad)
    return (
        by_margins("embeddings by margins", embeds_ranked),
        alone("embeddings alone", embeds),
        hidden("dense rows", is_hidden_layer, classes=frequent_classes),
        batches("minibatches", by_batches, classes=frequent_classes, passes=passes_of_batches),
    )


def _by_pairs() -> tuple[Recipe, ...]:
    """Return the recipes of weights on pairs, alone and in blends with other members."""
    f = FIGURES
    embeddings = partial(Recipe, "embeddings", blends, "minibatches", f.ADAGRAD_RATE, model="embedding")
    unbiased = partial(embeddings, solver="scent", reduction=decoupled_of_several, passes=f.EMBEDDED_PASSES)
    draws = Either(is_next, f.NEGATIVES_NEXT, f.NEGATIVES_BATCHES)
    one = unbiased(dim=columns_of_few, classes=(frequent_or_all, draws))
    ranked = (uniform_of_many, f.NEGATIVES_RANKING)
    by_margins = embeddings(reduction=MARGIN, dim=f.RANKING_DIM, passes=f.RANKING_PASSES, classes=ranked)
    linear = partial(Recipe, holds=blends, classes=("all", f.NEGATIVES_BATCHES))
    by_margin = partial(linear, trains="margin", solver="implicit", rate=rate_of_batches, reduction=MARGIN)
    margins = by_margin("margins", passes=f.MARGINS_PASSES)
    exact = partial(linear, trains="points", solver="exact", averaging="suffix", alpha=ridge_of_one)
    steps = exact("linear", rate=1.0, passes=(f.PASSES_BY_HAND, f.DECAY_BY_HAND))
    samples = replace(steps, name="sampled linear", solver="implicit", rate=f.RELATIVE_RATES.get("implicit", 1.0))
    samples = replace(samples, classes=(frequent, f.NEGATIVES_SAMPLED), passes=(f.PASSES_SAMPLED, decay_to_last))
    ranking = (by_margins, replace(one, name="unbiased embeddings", dim=f.RANKING_DIM), margins)
    pairs = partial(Recipe, trains="pairs", rate=rate_of_pairs, classes=("all", f.NEGATIVES_BATCHES), model=hybrid)
    pairs = partial(pairs, passes=passes_of_pairs, tried=("learning_rate",))
    return (
        pairs("several labels", blends_ranked, reduction=margins_of_fits, beside=ranking),
        pairs("a blend", blends, reduction="decoupled", beside=(one, margins, steps, samples)),
    )


def recipes() -> tuple[Recipe, ...]:
    """Return the list, in the order in which the first case that holds is taken."""
    f = FIGURES
    utilities = Recipe("utilities", of_utilities, "points", rate_of_points, (by_posterior, f.NEGATIVES_BY_HAND), None)
    utilities = replace(utilities, passes=(f.PASSES_BY_HAND, f.DECAY_BY_HAND), solver="implicit")
    drawn = (Either(is_wide, "uniform", "all"), Either(is_wide, f.NEGATIVES_RANKING, f.NEGATIVES_MARGIN))
    margins = Recipe("margins", of_margins, "margin", rate_of_batches, drawn, f.BATCHES_PASSES)
    dim = Either(is_wide, f.RANKING_DIM, f.EMBEDDED_DIM)
    margins = replace(margins, model=Either(is_wide, "embedding", "linear"), dim=dim)
    return utilities, margins, *_by_pairs(), *_by_batches(), *_by_points()


# In words


def words_of(value: Any) -> str:
    """Return a field in words: of a function its docstring, with the figures that it names."""
    if isinstance(value, tuple):
        return ", ".join(map(words_of, value))
    if isinstance(value, Either):
        return f"{words_of(value.value)} {words_of(value.case)}, else {words_of(value.otherwise)}"
    if not callable(value):
        return repr(value)
    return " ".join((value.__doc__ or "").split()).format(**vars(FIGURES))


def table() -> list[tuple[str, ...]]:
    """Return the list in words: name, case, models with their classes and passes, step size, what trials may better."""
    lines: list[tuple[str, ...]] = []
    for recipe in recipes():
        members = (recipe, *recipe.beside)
        models = [f"{words_of(m.model)} by {words_of(m.solver)}: {words_of((m.classes, m.passes))}" for m in members]
        tried = ", ".join(recipe.tried)
        lines.append((recipe.name, words_of(recipe.holds), "; beside ".join(models), words_of(recipe.rate), tried))
    return lines


def _as_text() -> str:
    """The list as it stands in `help`."""
    texts = ["; ".join(filter(None, line)) for line in table()]
    return "\n".join(textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ") for text in texts)


__doc__ = f"{__doc__}\n{_as_text()}\n"
