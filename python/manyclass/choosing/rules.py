r"""What "auto" stands for: a table of rules, each with its case, its value and where the value was measured.

    facts of the data ─▶ solver or model ─▶ all else that is open ─▶ trials on the user's own rows ─▶ plan

Of the rules for a parameter the first one whose case holds counts. Trials keep to 30 % of the predicted seconds of the
fit, or to 4 predicted seconds where that is more; predictions are constants times visits, so that equal seeds try and
choose alike on any machine and with any number of threads. Nothing is tried with fewer than 1,000 rows or a limit of
seconds (max_seconds), nor what was set by hand. `auto_report_` has a line for each trial, and with `verbose=1` each is
printed as it ends. With solver="auto" a linear model is trained on scaled features, and alpha is that of their weights:
see `help(manyclass.models.Linear)`. The trials are these:

"model"
    Both models are fitted to whole classes of 2,500 and of 10,000 rows, or to one draw where the budget has not enough
    for both, and the one with the least log-loss on all held-out rows is taken. A draw on which one has less than three
    quarters of the other's log-loss is the last one, and comes before the trials of a ridge. A hybrid is tried by one
    run, and by as many as its fit makes where that is behind by up to 12 %.
"step size"
    Two passes over *whole classes*, all rows of random ones, 20,000 at most; steps are thirds of a decade apart, and
    the search goes on while the best is at an end. The middle of those within 0.5 % of the least log-loss is taken,
    divided by what the steps of all passes add up to over 2, where that is more. Dense data are tried from W = 0 and
    from the weights of linear discriminant analysis, which are in closed form, without a ridge; the fit begins there
    if these trials have a log-loss lower by 5 % (`help(manyclass.training.start)`), and makes but two passes
    where they lower that of the closed form by less than 0.5 %.
"step size of pairs"
    On 4,000 random rows at most a third or less of it, while the decoupled loss of held-out rows falls: that is the
    log_loss of the report then, summed over the labels of a row.
"ridge"
    The best of 0, 3e-6, 1e-5, 3e-5 and 1e-4, in units of the mean of \|x_i\|^2, on a tenth of the points, where the
    budget of the trials is enough for five fits; none after two that rise in a row, or one that rises by 2 %.
"ridge of full passes"
    The best of 1000, 100, ..., 0.01, over n_samples, by 5-fold cross-validation, if it is better than 1 / n_samples by
    more than the standard error.

learning_rate="grid", which is no "auto", is the best of 0.001, 0.01, ..., 1000 on a tenth of the points, as
`manyclass.tune_learning_rate` finds it. AugmentReduceClassifier and MarginClassifier leave fewer parameters open, and
try nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection
from typing import ClassVar

from manyclass.choosing import costs
from manyclass.choosing.facts import TINY
from manyclass.choosing.figures import FIGURES
from manyclass.choosing.questions import Case, Figure, Question, Rule
from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.registry import parts as registered
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LABEL_SOLVERS, SOLVERS
from manyclass.training.plan import MINIBATCH_POINTS

# Cases


def training(q: Question) -> str:
    """Which training a question is about: "points", "minibatches", "pairs", "margin" or "utility"."""
    if q.kind == "AugmentReduceClassifier":
        return "utility"
    model = q["model"].name
    if q.kind == "MarginClassifier":
        return "margin"
    if model in ("pairs", "hybrid"):
        return "pairs"
    named = [q.asked(name).name for name in ("solver", "sampler") if not q.is_open(name)]
    # Full passes take several labels, too, but not in a call that goes on.
    several = q.facts.several and (q.by_steps or "lbfgs" not in named)
    return "minibatches" if q.beside_pairs or steps_by_batches([*named, model], several) else "points"


def steps_by_batches(named: Collection[str], several: bool) -> bool:
    """Whether several labels, or one of the parts with these names, ask for steps of several points together."""
    return several or not {"embedding", "search", "adagrad"}.isdisjoint(named)


def ranks(q: Question) -> bool:
    """Whether embeddings, or a linear model of several labels, are trained by margins."""
    if q.beside_pairs:
        return 1 < q.facts.n_labels <= q.figures.MANY_LABELS
    return training(q) == "minibatches" and q["solver"].name not in LABEL_SOLVERS and bool(q["reduction"] == "margin")


def _all_open(q: Question, *names: str) -> bool:
    return all(map(q.is_open, ("solver", "sampler", "model", *names))) and not q["early_stopping"]


def _solver(*names: str) -> Callable[[Question], bool]:
    return lambda q: q["solver"].name in names


def _flag(flag: str) -> Callable[[Question], bool]:
    return lambda q: q["solver"].name in registered("solver") and flag in registered("solver")[q["solver"].name].flags


ALWAYS = Case("otherwise", lambda q: True)
UTILITY = Case("in AugmentReduceClassifier", lambda q: training(q) == "utility")
POSTERIOR = Case("with posterior='gaussian'", lambda q: q["posterior"] != "point")
NORMAL_SGD = Case("of 'sgd' with normal noise", lambda q: q["solver"].name == "sgd" and q["noise"] == "normal")
MARGIN = Case("in MarginClassifier", lambda q: training(q) == "margin")
PAIRS = Case("of weights on pairs", lambda q: training(q) == "pairs")
BATCHES = Case("in minibatches", lambda q: training(q) in ("minibatches", "margin"))
POINTS = Case("point by point", lambda q: training(q) == "points")
BESIDE = Case("beside weights on pairs", lambda q: q.beside_pairs)
PAIRS_BY_MARGINS = Case(
    f"of weights on pairs in a hybrid, up to {FIGURES.MANY_LABELS:g} labels a row in the mean and a fit to all rows, "
    f"up to {FIGURES.MOST_ROWS_BY_MARGINS:,}, without texts of classes",
    lambda q: (
        PAIRS.holds(q)
        and q["model"].name == "hybrid"
        and 1 < q.facts.n_labels <= q.figures.MANY_LABELS
        and q.facts.n_samples <= q.figures.MOST_ROWS_BY_MARGINS
        and not (q.by_steps or q.facts.n_texts)
    ),
)
MARGIN_OF_PAIRS = Case("of weights on pairs by margins", lambda q: PAIRS.holds(q) and q["reduction"] == "margin")
MARGINS = Case("of labels ranked by margins", ranks)
SEVERAL_OPEN = Case(
    "of several labels a row where alpha, learning_rate, n_negatives and all parts are open",
    lambda q: q.facts.several and _all_open(q, "alpha", "learning_rate", "n_negatives"),
)
HYBRID_FITS = Case(
    "where a row meets few enough weights on pairs, which max_memory has room for",
    lambda q: (
        q.facts.least_count is not None
        and costs.pairs_bytes(q.facts, q.facts.least_count, q.facts.few_classes) <= q.most_bytes
    ),
)
SPARSE = Case("of sparse data", lambda q: q.facts.sparse)
DENSE = Case("of dense data", lambda q: not q.facts.sparse)
FEW_LABELS = Case(
    f"of up to {FIGURES.MANY_LABELS:g} labels in the mean", lambda q: q.facts.n_labels <= q.figures.MANY_LABELS
)
TOO_LARGE = Case(
    f"where W would take more than {FIGURES.LARGEST_TRIED >> 30} GB or max_memory",
    lambda q: q.facts.bytes > min(q.figures.LARGEST_TRIED, q.most_bytes),
)
OF_COLUMNS = Case("where each class is the name of a column, as next items are", lambda q: q.facts.of_columns)
TRIED = Case(
    f"of {FIGURES.FEWEST_TO_TRY:,} rows and more where W takes at most {FIGURES.LARGEST_TRIED >> 30} GB and max_memory",
    lambda q: not TOO_LARGE.holds(q) and q.facts.n_samples >= q.figures.FEWEST_TO_TRY,
)
FULL_PASSES = Case("in full passes", _solver("lbfgs"))
AUTO_SOLVER = Case("with solver='auto'", lambda q: q.is_open("solver"))
EXACT = Case("of the solver 'exact'", _solver("exact"))
BY_IMPLICIT = Case("of the solver 'implicit'", _solver("implicit"))
IMPLICIT = Case("of the solver 'implicit'", lambda q: q["solver"].name == "implicit" and POINTS.holds(q))
ADAPTIVE = Case("with schedule='adaptive'", lambda q: q.asked("schedule") == "adaptive")
UNNORMALIZED = Case(
    "of the solver 'negative_sampling', whose scores are none of the softmax", _solver("negative_sampling")
)
FITS_TWICE = Case(
    f"where W takes at most {FIGURES.MOST_FOR_AVERAGE >> 30} GB and half of max_memory",
    lambda q: q.facts.bytes <= min(q.figures.MOST_FOR_AVERAGE, q.most_bytes / 2),
)
OPEN_RATE = Case("where learning_rate is open", lambda q: q.is_open("learning_rate"))
NO_RATE = Case("where learning_rate is no number", lambda q: isinstance(q.asked("learning_rate"), str))
BY_HAND = Case("of solvers set by hand, point by point", lambda q: POINTS.holds(q) and not q.is_open("solver"))
OWN_U_RATE = Case("of the solvers 'implicit', 'bregman' and 'scent'", _solver(*FIGURES.U_RATES))
MANY_SCORED = Case(f"of more than {FIGURES.MOST_SCORED:,} classes", lambda q: q.facts.n_classes > q.figures.MOST_SCORED)
OPEN_DRAWS = Case("where n_negatives is open", lambda q: q.is_open("n_negatives"))
FEW_SCORED = Case(f"of up to {FIGURES.MOST_SCORED:,} classes", lambda q: q.facts.n_classes <= q.figures.MOST_SCORED)
MORE_THAN_DRAWN = Case("of more classes than are drawn", lambda q: q.facts.n_classes > q["n_negatives"])
ONE_LABEL = Case("of one label a row", lambda q: not q.facts.several)
FEW_CLASSES = Case(f"of up to {FIGURES.FEW_CLASSES:,} classes", lambda q: q.facts.n_classes <= q.figures.FEW_CLASSES)
EMBEDDING = Case("of embeddings", lambda q: q["model"].name == "embedding")
EMBEDDED = Case("of embeddings by 'adagrad'", lambda q: EMBEDDING.holds(q) and q["solver"].name == "adagrad")
LABELLED = Case("of solvers of the double sum", _solver(*LABEL_SOLVERS))
SEES_ALL = Case("of solvers that see all classes", _flag("all_classes"))
OF_BATCHES = Case("of solvers whose step is that of a batch", _flag("batch"))
FEW_ROWS = Case(f"of up to {FIGURES.FEW_ROWS:,} rows", lambda q: q.facts.n_samples <= q.figures.FEW_ROWS)


@Case.of
def free(q: Question) -> bool:
    """of one label a row where alpha, dim, learning_rate and all parts are open and the fit has data alone"""
    settings = q.timed or q.candidates or q.started or q.by_steps
    return not settings and not q.facts.several and _all_open(q, "alpha", "dim", "learning_rate")


@Case.of
def falls_by_curvature(q: Question) -> bool:
    """of a linear model of one label a row that goes on with new rows, whose scores are normalised and whose steps are
    not adaptive"""
    by_points = q.goes_on and training(q) in ("points", "utility")
    return by_points and not ADAPTIVE.holds(q) and not UNNORMALIZED.holds(q)


FALLS = falls_by_curvature


@Case.of
def begins_at_discriminant(q: Question) -> bool:
    """of a linear model of one label a row of dense data, with an intercept, in a fit that has data alone, where alpha,
    learning_rate and solver are open"""
    begins = not (q.timed or q.by_steps or q.goes_on or q.started or q.candidates or q.facts.sparse)
    left_open = all(map(q.is_open, ("alpha", "learning_rate", "solver")))
    return begins and left_open and POINTS.holds(q) and bool(q["fit_intercept"])


@Case.of
def hybrid_serves(q: Question) -> bool:
    """where a row meets at most 50,000 weights on pairs of at most 5 rows, or, of dense data or more than 8 labels a
    row, 10,000 of more rows; and max_memory has room for them"""
    # Pairs of many rows alone, and rows held out for their scales, cost what they give beside margins.
    many = not q.facts.sparse or q.facts.n_labels > q.figures.MANY_LABELS
    least = q.facts.least_count
    return HYBRID_FITS.holds(q) and least is not None and (many or least <= q.figures.FEW_ROWS_OF_A_PAIR)


@Case.of
def embeds(q: Question) -> bool:
    """where alpha and all parts are open and W would take more than max_memory, or more than 256 MB and have more than
    30 numbers for each one stored in X"""
    left_open = not q.by_steps and _all_open(q, "alpha") and q.asked("learning_rate") != "grid"
    return left_open and (costs.embeds(q.facts) or (q.facts.sparse and q.facts.bytes > q.most_bytes))


@Case.of
def margins_embed(q: Question) -> bool:
    """in MarginClassifier by 'adagrad' of more than 8,192 classes where model and sampler are open and W would take
    more than 256 MB and have more than 30 numbers for each one stored in X"""
    is_open = q.kind == "MarginClassifier" and q.is_open("model") and q.is_open("sampler") and not q.by_steps
    return is_open and q["solver"].name == "adagrad" and MANY_SCORED.holds(q) and costs.embeds(q.facts)


@Case.of
def quick_in_full(q: Question) -> bool:
    """where full passes are predicted to take at most 5 seconds and nothing is set that only steps have (learning_rate,
    max_iter, sampler, n_negatives, early_stopping, coef_init)"""
    step_settings = q.by_steps or q.candidates or q.started or q["early_stopping"]
    names = ("n_negatives", "learning_rate", "max_iter", "sampler")
    return not step_settings and all(map(q.is_open, names)) and costs.full_cost(q.facts) <= q.figures.MOST_FULL


@Case.of
def sampled(q: Question) -> bool:
    """where a visit of a point is predicted to take more than 8 microseconds with all classes, or n_negatives, a
    sampler or candidates are given"""
    named = q.candidates or not q.is_open("n_negatives") or not q.is_open("sampler")
    return named or costs.visit_cost(q.facts, None) > q.figures.MOST_EXACT


@Case.of
def chosen_to_embed(q: Question) -> bool:
    """of embeddings chosen for the size of W, whose classes are drawn however few they are"""
    return q.is_open("model") and q["model"].name == "embedding" and not SEVERAL_OPEN.holds(q)


@Case.of
def hidden_layer(q: Question) -> bool:
    """of a hidden layer on dense data of one label a row, embeddings that are cut at 0"""
    model = q["model"]
    return bool(model.name == "embedding" and model.activation == "relu") and not (q.facts.sparse or q.facts.several)


@Case.of
def carries_v(q: Question) -> bool:
    """but 'implicit', 'scent' and reduction='decoupled'"""
    return q["solver"].name not in ("implicit", "scent") and bool(q["reduction"] != "decoupled")


@Case.of
def adagrad(q: Question) -> bool:
    """by Adagrad's steps"""
    u_solver = training(q) == "minibatches" and q["solver"].name in LABEL_SOLVERS and q["solver"].name != "implicit"
    return u_solver or bool(q["solver"].name == "adagrad")


HIDDEN = Case(hidden_layer.says, lambda q: q.kind == "SoftmaxClassifier" and hidden_layer.holds(q))
HIDDEN_FIT = Case(
    f"{HIDDEN.says}, in a fit by Adagrad's steps",
    lambda q: HIDDEN.holds(q) and adagrad.holds(q) and not q.by_steps,
)


@Case.of
def runs(q: Question) -> bool:
    """of a hybrid, and of embeddings by margins"""
    return bool(q["model"].name == "hybrid") or (ranks(q) and q.first_run[1] > 0)


def ranks_several(q: Question) -> bool:
    """Whether margins rank several labels a row: those of a hybrid, or of embeddings alone."""
    return ranks(q) or MARGIN_OF_PAIRS.holds(q)


# Values


def rival(q: Question) -> Part | None:
    """The model that is tried beside the linear one: a hybrid, whose embeddings alone it was ahead of wherever both
    were tried, or embeddings where a row would meet too many weights; None where embeddings lose: all is small. Of
    dense data it is a hidden layer.
    """
    if not q.facts.sparse:
        return MODELS["embedding"](activation="relu")
    if q.facts.least_count is not None:
        return _hybrid(q)
    return None if costs.is_small(q.facts) else MODELS["embedding"]()


def relative_rate(q: Question) -> float:
    """The step size of a solver by points, times the mean of |x|^2."""
    solver = q["solver"]
    if solver.name == "ove":
        return q.figures.RELATIVE_RATE_OVE / q.facts.n_classes
    if solver.name == "minibatch_implicit":
        return float(min(solver.batch_size or MINIBATCH_POINTS, q.facts.n_samples))
    if q.goes_on and solver.name in q.figures.AS_EXACT_IN_STREAMS:
        return 1.0
    return q.figures.RELATIVE_RATES.get(solver.name, 1.0)


def _rate(q: Question) -> float:
    relative = relative_rate(q)
    if training(q) == "utility":
        relative = q.figures.RATE_UTILITY_SGD_NORMAL if NORMAL_SGD.holds(q) else 1.0
    return relative / (q.facts.lengths.mean_square + bool(q["fit_intercept"]))


def _first_rate_of_stream(q: Question) -> float:
    square = q.facts.lengths.median_square + bool(q["fit_intercept"])
    return q.figures.RELATIVE_RATE_OF_STREAM / square if square > TINY else _rate(q)


def _ridge(q: Question) -> float:
    square = q.facts.lengths.mean_square
    return q.figures.RIDGE / q.facts.n_samples * square if square >= q.figures.LEAST_FOR_RIDGE else 0.0


def _prior(q: Question) -> float:
    return q.figures.PRIOR / q.facts.n_samples


def _decay(q: Question) -> float:
    return float(q.figures.LAST_STEP ** (1 / max(1, int(q["max_iter"]) - 1)))


def _exact_decay(q: Question) -> float:
    return float(q.figures.DECAY_BY_HAND ** (q.figures.PASSES_BY_HAND / int(q["max_iter"])))


def _hybrid(q: Question) -> Part:
    return MODELS["hybrid"](min_count=q.facts.least_count, few_classes=q.facts.few_classes)


def _by_frequency(q: Question) -> Part:
    return SAMPLERS["frequency_block"](power=q.figures.POWER_SAMPLED)


MANY_PAIRS = "decisions: where pairs of five rows and more are too many"
BESIDE_LINEAR = "decisions: a hidden layer beside the linear model of dense rows"
OR_HIDDEN = "'linear'; its rival is 'embedding' with activation='relu'"
SERVES = "'hybrid', without pairs of so few rows (min_count) that a row would meet more weights"
OVER_SQUARE = r"over the mean of \|x_i\|^2, plus 1 with an intercept"
RULES = (
    Rule("model", SEVERAL_OPEN & hybrid_serves, _hybrid, "decisions: several labels get a hybrid", SERVES),
    Rule("model", SEVERAL_OPEN & SPARSE, "embedding", MANY_PAIRS),
    Rule("model", free & SPARSE & TOO_LARGE & HYBRID_FITS, _hybrid, "decisions: the hybrid takes part", SERVES),
    Rule(
        "model",
        free & SPARSE & OF_COLUMNS & TRIED & HYBRID_FITS,
        _hybrid,
        "decisions: next items get a hybrid without a trial",
        SERVES,
    ),
    Rule(
        "model",
        free & SPARSE & TRIED,
        lambda q: (rival(q) or MODELS["linear"]()) if costs.embeds(q.facts) else MODELS["linear"](),
        "decisions: linear or hybrid is decided by short fits",
        "'linear', or its rival where W would take more than 256 MB and have more than 30 numbers for each one stored "
        "in X; its rival is 'hybrid', or 'embedding' where a row would meet too many weights",
        "model",
    ),
    Rule("model", free & DENSE & TRIED & OPEN_DRAWS, "linear", BESIDE_LINEAR, OR_HIDDEN, "model"),
    Rule("model", embeds, "embedding", "decisions: embeddings are learnt in 4 passes"),
    Rule("model", margins_embed, "embedding", "decisions: margins of many classes"),
    Rule("model", ALWAYS, "linear"),
    Rule("solver", PAIRS, "adagrad", "decisions: weights on pairs"),
    Rule("solver", BATCHES, "adagrad", "Duchi et al. 2011"),
    Rule("solver", quick_in_full, "lbfgs", "bench_auto: predicted seconds"),
    Rule("solver", sampled, "implicit", "decisions: exact steps are for visits of less than 8 µs"),
    Rule("solver", ALWAYS, "exact", "decisions: exact steps are for visits of less than 8 µs"),
    Rule("reduction", PAIRS_BY_MARGINS, "margin", "decisions: weights on pairs learn margins of several labels"),
    Rule("reduction", PAIRS, "decoupled", "decisions: decoupled beats pick-all-labels"),
    Rule("reduction", SEVERAL_OPEN & SPARSE & FEW_LABELS, "margin", "decisions: up to 8 labels a row"),
    Rule("reduction", SEVERAL_OPEN & SPARSE, "decoupled", "decisions: decoupled beats pick-all-labels"),
    Rule("reduction", ALWAYS, "pick_all", "Yen et al. 2018, eq. 2"),
    Rule("formulation", BATCHES & LABELLED & carries_v, "raman", "decisions: the average rule carries v"),
    Rule("formulation", ALWAYS, "proposed", "Fagan & Iyengar 2018, eq. 6"),
    Rule("sampler", UTILITY & POSTERIOR, "uniform"),
    Rule("sampler", UTILITY, "frequency_block", "decisions: solvers and selections"),
    Rule("sampler", BATCHES & EXACT, "all", "the definition of the solver"),
    Rule("sampler", MARGINS & MANY_SCORED, "uniform", "decisions: margins see all classes up to 8,192"),
    Rule("sampler", MARGINS, "all", "decisions: margins see all classes up to 8,192"),
    Rule("sampler", BESIDE & MORE_THAN_DRAWN, "frequency", "decisions: embeddings are learnt in 4 passes"),
    Rule("sampler", BESIDE, "all"),
    Rule("sampler", margins_embed, "uniform", "decisions: margins of many classes"),
    Rule("sampler", MARGIN, "all", "Yen et al. 2018, eq. 7 and 10"),
    Rule("sampler", BATCHES & HIDDEN & FEW_SCORED, "all", BESIDE_LINEAR),
    Rule("sampler", BATCHES & chosen_to_embed, "frequency", "decisions: embeddings are learnt in 4 passes"),
    Rule("sampler", BATCHES & LABELLED, "frequency", "decisions: solvers and selections"),
    Rule("sampler", BATCHES & MANY_SCORED, "frequency"),
    Rule("sampler", BATCHES, "all"),
    Rule("sampler", SEES_ALL, "all", "the definition of the solver"),
    Rule("sampler", OF_BATCHES, "uniform", "the definition of the solver"),
    Rule("sampler", IMPLICIT, _by_frequency, "decisions: solvers and selections", "'frequency_block' with power=1"),
    Rule("sampler", ALWAYS, "frequency_block", "decisions: solvers and selections"),
    Rule("n_negatives", margins_embed, Figure("NEGATIVES_RANKING"), "decisions: margins of many classes"),
    Rule("n_negatives", MARGIN, Figure("NEGATIVES_MARGIN")),
    Rule("n_negatives", MARGINS, Figure("NEGATIVES_RANKING"), "decisions: margins see all classes up to 8,192"),
    Rule("n_negatives", BESIDE & OF_COLUMNS & ONE_LABEL, Figure("NEGATIVES_NEXT"), "decisions: next items draw 128"),
    Rule("n_negatives", BATCHES, Figure("NEGATIVES_BATCHES"), "decisions: embeddings are learnt in 4 passes"),
    Rule("n_negatives", POINTS & IMPLICIT, Figure("NEGATIVES_SAMPLED"), "leave_one_out: sampled classes"),
    Rule("n_negatives", ALWAYS, Figure("NEGATIVES_BY_HAND")),
    Rule("dim", margins_embed, Figure("RANKING_DIM"), "decisions: margins of many classes"),
    Rule("dim", MARGINS & BESIDE, Figure("RANKING_DIM"), "decisions: embeddings stand alone"),
    Rule("dim", MARGINS, Figure("RANKING_ALONE_DIM"), "decisions: embeddings stand alone"),
    Rule("dim", BESIDE & FEW_CLASSES, Figure("FEW_CLASSES"), "decisions: 64 columns up to 64 classes"),
    Rule("dim", HIDDEN, Figure("HIDDEN_DIM"), BESIDE_LINEAR),
    Rule("dim", ALWAYS, Figure("EMBEDDED_DIM"), "leave_one_out: columns of embeddings"),
    Rule("max_iter", FULL_PASSES, Figure("MOST_ITERATIONS"), "L-BFGS ends before, at the optimum"),
    Rule("max_iter", PAIRS & FEW_ROWS, Figure("PAIRS_PASSES_OF_FEW", 0), "eurlex57k, bibtex: see figures.py"),
    Rule("max_iter", PAIRS, Figure("PAIRS_PASSES", 0), "eurlex57k, bibtex: see figures.py"),
    Rule("max_iter", MARGINS & BESIDE, Figure("RANKING_PASSES", 0), MANY_PAIRS),
    Rule("max_iter", MARGINS, Figure("RANKING_ALONE_PASSES", 0), MANY_PAIRS),
    Rule("max_iter", HIDDEN, Figure("HIDDEN_PASSES", 0), BESIDE_LINEAR),
    Rule("max_iter", BATCHES & EMBEDDED, Figure("EMBEDDED_PASSES", 0), "leave_one_out: passes of embeddings"),
    Rule("max_iter", BATCHES, Figure("BATCHES_PASSES", 0)),
    Rule("max_iter", AUTO_SOLVER & EXACT, Figure("PASSES_EXACT")),
    Rule("max_iter", IMPLICIT, Figure("PASSES_SAMPLED"), "leave_one_out: sampled passes"),
    Rule("max_iter", ALWAYS, Figure("PASSES_BY_HAND")),
    Rule("decay", PAIRS & FEW_ROWS, Figure("PAIRS_PASSES_OF_FEW", 1), "eurlex57k, bibtex: see figures.py"),
    Rule("decay", PAIRS, Figure("PAIRS_PASSES", 1), "eurlex57k, bibtex: see figures.py"),
    Rule("decay", MARGINS & BESIDE, Figure("RANKING_PASSES", 1), MANY_PAIRS),
    Rule("decay", MARGINS, Figure("RANKING_ALONE_PASSES", 1), MANY_PAIRS),
    Rule("decay", MARGIN, Figure("BATCHES_PASSES", 1)),
    Rule("decay", HIDDEN, Figure("HIDDEN_PASSES", 1), BESIDE_LINEAR),
    Rule("decay", BATCHES & EMBEDDED, Figure("EMBEDDED_PASSES", 1), "leave_one_out: passes of embeddings"),
    Rule("decay", BATCHES, Figure("BATCHES_PASSES", 1)),
    Rule("decay", UTILITY, Figure("DECAY_BY_HAND")),
    Rule("decay", IMPLICIT, _decay, "leave_one_out: last step", "so that the last step is an eightieth of the first"),
    Rule("decay", AUTO_SOLVER & EXACT, _exact_decay, says="so that the last step is that of 20 passes times 0.9"),
    Rule("decay", ALWAYS, Figure("DECAY_BY_HAND")),
    Rule("averaging", UTILITY, "none"),
    Rule("averaging", AUTO_SOLVER & FITS_TWICE, "suffix", ".02 nats on yso-en, and W once more in memory"),
    Rule("averaging", ALWAYS, "none"),
    Rule("alpha", FULL_PASSES & AUTO_SOLVER, _prior, "scikit-learn's C = 1", "1 / n_samples", "ridge of full passes"),
    Rule("alpha", FULL_PASSES, _prior, "scikit-learn's C = 1", "1 / n_samples"),
    Rule("alpha", HIDDEN_FIT, _prior, BESIDE_LINEAR, "1 / n_samples"),
    Rule(
        "alpha",
        AUTO_SOLVER,
        _ridge,
        "decisions: a ridge of .01 / N stands beside the trials",
        r"0.01 / n_samples times the mean of \|x_i\|^2",
        "ridge",
    ),
    Rule(
        "alpha",
        IMPLICIT & OPEN_RATE,
        _ridge,
        "decisions: a ridge of .01 / N stands beside the trials",
        r"0.01 / n_samples times the mean of \|x_i\|^2",
    ),
    Rule("alpha", ALWAYS, 0.0),
    Rule(
        "learning_rate",
        FALLS & BY_IMPLICIT,
        _first_rate_of_stream,
        "decisions: steps of a stream",
        r"30 / (median of \|x\|^2 + 1), without b / median of \|x\|^2, from where steps fall by the curvature",
    ),
    Rule("learning_rate", UTILITY & ADAPTIVE, Figure("ADAPTIVE_RATE"), "Ruiz et al. 2018, section 4"),
    Rule("learning_rate", UTILITY & NORMAL_SGD, _rate, "gradients grow with the scores", f"0.01 {OVER_SQUARE}"),
    Rule("learning_rate", UTILITY, _rate, says=f"1 {OVER_SQUARE}"),
    Rule(
        "learning_rate",
        MARGIN_OF_PAIRS,
        lambda q: q.figures.MARGIN_RATE_OF_PAIRS / q.facts.lengths.mean_square_of_values**0.5,
        "decisions: weights on pairs learn margins of several labels",
        r"0.3 over the root of the mean of \|x_i\|^2",
    ),
    Rule(
        "learning_rate",
        PAIRS,
        lambda q: q.figures.FIRST_MOVE / q.facts.lengths.mean_length,
        "leave_one_out: first move of pairs",
        r"7.2 over the mean of \|x_i\|_1",
        "step size of pairs",
    ),
    Rule("learning_rate", HIDDEN & adagrad, Figure("HIDDEN_RATE"), BESIDE_LINEAR),
    Rule("learning_rate", BATCHES & EMBEDDING & adagrad, Figure("ADAGRAD_RATE"), "eurlex57k: see figures.py"),
    Rule(
        "learning_rate",
        BATCHES & adagrad,
        lambda q: q.figures.ADAGRAD_RATE / q.facts.lengths.mean_square_of_values**0.5,
        "eurlex57k: see figures.py",
        r"1 over the root of the mean of \|x_i\|^2",
    ),
    Rule("learning_rate", BATCHES & EMBEDDING, lambda q: 1 / (1 + bool(q["fit_intercept"])), "", "1 / 2; 1 without b"),
    Rule(
        "learning_rate",
        BATCHES,
        lambda q: 1 / (q.facts.lengths.mean_square_of_values + bool(q["fit_intercept"])),
        says=f"1 {OVER_SQUARE}",
    ),
    Rule("learning_rate", ADAPTIVE, Figure("ADAPTIVE_RATE"), "Ruiz et al. 2018, section 4"),
    Rule("learning_rate", UNNORMALIZED, _rate, says=f"1 {OVER_SQUARE}"),
    Rule(
        "learning_rate",
        ALWAYS,
        _rate,
        "decisions: the step size of sampled steps; leave_one_out: as good a step, sum of steps",
        f"c {OVER_SQUARE}, c being 1, but 6 for 'implicit', 0.1 for 'umax' and 'softplus', 0.01 for 'sgd', "
        "4 / n_classes for 'ove' and batch_size for 'minibatch_implicit'",
        "step size",
    ),
    Rule(
        "u_learning_rate",
        OWN_U_RATE,
        lambda q: q.figures.U_RATES[q["solver"].name],
        "leave_one_out: step of u",
        "30 of 'implicit', 0.5 of 'bregman' and 'scent'",
    ),
    Rule("u_learning_rate", BY_HAND & NO_RATE, relative_rate, says="c of learning_rate"),
    Rule("u_learning_rate", ALWAYS, lambda q: q["learning_rate"], says="learning_rate"),
    Rule(
        "n_models",
        runs,
        lambda q: costs.n_runs(q.first_run[0], q.first_run[1], q.figures, q.most_bytes, ranks=ranks_several(q)),
        "decisions: three runs of a hybrid are averaged",
        "3, or as many as are predicted to take 20 seconds more (30 the second of margins of several labels) and 256 "
        "MB of embeddings, a third of 20,000 rows of one label and more only where, by what the second one has "
        "gained, it is worth .015 nats; 1 with dim or max_seconds, "
        "in a fit that begins warm, and after a callback or Ctrl-C that ended the first one",
    ),
    Rule("n_models", ALWAYS, 1, "decisions: means of linear models gain nothing"),
)


class Choice(Question):
    """What one training is made with, by the table."""

    rules = RULES
    parts: ClassVar = {"solver": SOLVERS, "sampler": SAMPLERS, "model": MODELS}


def table() -> list[tuple[str, str, str, str, str]]:
    """Return the lines of the table in words: what is set, in which case, to what, by which trial, measured where."""
    return [(rule.sets, rule.case.says, rule.told(), rule.trial, rule.source) for rule in RULES]


def _as_text() -> str:
    """The table as it stands in `help`."""
    lines, last = [], ""
    for rule in RULES:
        lines += [rule.sets] if rule.sets != last else []
        lines.append(textwrap.fill(f"- {rule.line()}", 120, initial_indent="    ", subsequent_indent="      "))
        last = rule.sets
    return "\n".join(lines)


__doc__ = f"{__doc__}\n{_as_text()}\n"
