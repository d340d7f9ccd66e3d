"""Predicted costs of trainings, by the facts of the data: what decides between solvers, and what trials may take.

A rule that depended on a clock would make results depend on it too, so the costs are constants, fitted once to
measurements (bench/bench_auto.py prints both); only their ratios, and the thresholds in seconds, matter.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import as_csr, csr_parts, row_norms_sq
from manyclass.figures import FIGURES
from manyclass.memory import check_there_is_memory
from manyclass.training.plan import AnyPlan, BatchesPlan, FullBatchPlan, HybridPlan, Labels, PairsPlan, PointsPlan
from manyclass.weights.arrays import LINE, Doubles, Matrix, padded

PAIR_BYTES = 16  # a class, a weight, its sum of squares and a count


def visit_cost(facts: Facts, n_drawn: int | None) -> float:
    """Predict the microseconds of one thread that a visit of a point takes.

    Parameters
    ----------
    facts : Facts
    n_drawn : int or None
        Sampled classes of an implicit step (by frequency_block); None: the exact step, on all classes.

    Notes
    -----
    What each weight costs grows as W leaves the caches: with a power of its size, between 1 MB and 5 GB, where single
    lines are read here and there, and up to the size of the caches where a feature's row is read from end to end. Drawn
    rows of dense data are read from anywhere, too, but each from end to end: 17, 32, 49 and 52 microseconds where W
    has 3, 15, 61 and 123 MB in 768 columns.
    """
    f, megabytes = FIGURES, max(facts.bytes / 1e6, 1.0)
    fixed = f.VISIT[0] + f.VISIT[1] * facts.row * facts.sparse
    exact_power, sparse_power, dense_power = f.CACHE_POWERS
    if n_drawn is None:
        per_class, sparse_value, dense_value = f.EXACT_CLASS
        weight = sparse_value * min(megabytes, f.LAST_CACHE) ** exact_power if facts.sparse else dense_value
        return fixed + facts.n_classes * (per_class + weight * facts.row)
    per_class, sparse_value, dense_value = f.SAMPLED_CLASS
    class_cost: float
    if facts.sparse:
        class_cost = per_class + sparse_value * megabytes**sparse_power * facts.row
    else:
        beyond_cache = math.pow(max(1.0, min(megabytes, 2 * f.LAST_CACHE) / 2), dense_power)
        class_cost = (per_class + dense_value * facts.row) * beyond_cache
    # The line of the label is met without any draw.
    return fixed + LINE * class_cost + class_cost * LINE * math.ceil(min(n_drawn, facts.n_classes) / LINE)


def embedded_cost(n_drawn: int, width: int, *, by_margins: bool = False) -> float:
    """Predict the microseconds of one thread that a visit takes with embeddings, of classes drawn for a whole batch.

    Three products of each drawn row with each point, of the speed of a processor's vectors. By a margin it is one
    product, for few classes have gradients: fitted to eurlex57k with 256 and 384 columns and yso-en with 2,048 drawn
    classes (54, 73 and 36 microseconds), to 25 %.
    """
    per_class, per_column = FIGURES.RANKED_CLASS if by_margins else FIGURES.EMBEDDED_CLASS
    return 1.0 + n_drawn * (per_class + per_column * width)


def pairs_cost(facts: Facts) -> float:
    """Predict the microseconds of one thread that a visit takes of weights on pairs.

    Each weight that is met is read for the scores and looked up for the step. Each class that is met is listed, which
    takes longer, but rows that meet nearly all are handled as if they met all: in the mean no more than 15 % of the
    classes are listed. Classes that are not met cost nothing. Fitted to eight sets (20 to 189,624 classes, 4 to 10,302
    weights met) with three least counts each, to 30 % but for the least visits, of 2 to 3 microseconds.
    """
    met = facts.n_classes * facts.row if facts.met is None else facts.met
    per_row, per_value, per_weight, per_class, share = FIGURES.PAIRS_VISIT
    return per_row + per_value * facts.row + per_weight * met + per_class * min(met, share * facts.n_classes)


def discriminant_cost(facts: Facts) -> float:
    """Predict the seconds of one thread that linear discriminant analysis takes, with and without rows held out.

    Covariances are those of the rows and the classes that tell them; W has two products with matrices of their size.
    """
    f, most = FIGURES, FIGURES.COVARIANCE_ROWS
    if facts.n_features > f.COVARIANCE_FEATURES:
        return 0.0
    n_rows = min(facts.n_samples, most) + min(facts.n_classes, most) + facts.n_classes
    return 1e-6 * f.DISCRIMINANT * facts.n_features**2 * (n_rows + 10 * facts.n_features)


def full_cost(facts: Facts) -> float:
    """Predict the seconds of one thread that full passes take, trials of the ridge included.

    An evaluation has two products with X in double precision, and L-BFGS keeps ten pairs of vectors of the size of W.
    """
    f = FIGURES
    per_pass, per_row, per_class, sparse_value, dense_value, per_weight = f.FULL_PASS
    class_cost = per_class + (sparse_value if facts.sparse else dense_value) * facts.row
    points = facts.n_samples * (per_row + facts.n_classes * class_cost)
    evaluation = per_pass + points + per_weight * facts.n_classes * facts.n_features
    return 1e-6 * evaluation * f.EVALUATIONS * len(f.PRIORS) * f.FOLDS


def fit_cost(facts: Facts, plan: AnyPlan) -> float:
    """Predict the seconds of one thread that a training takes."""
    if isinstance(plan, HybridPlan):
        return sum(fit_cost(facts, member) for member in plan.members.values())
    if isinstance(plan, FullBatchPlan):
        return full_cost(facts)
    if isinstance(plan, PairsPlan):
        visit = pairs_cost(facts)
    elif isinstance(plan, BatchesPlan):
        drawn = facts.n_classes if plan.source == "exact" else min(plan.n_negatives, facts.n_classes)
        # A stored value costs as much as two or three numbers of a row of embeddings (agent-brand, eurlex57k).
        width = plan.dim or round((FIGURES.VALUES_AS_COLUMNS if facts.sparse else 1.0) * facts.row)
        visit = embedded_cost(drawn, width, by_margins=plan.loss == "margin")
        if plan.relu and not facts.sparse:
            # Three products of each feature's row with each point; rows of W are read by a batch of points together.
            per_value, saved = FIGURES.HIDDEN_VALUE
            visit += per_value * facts.row * width - saved * drawn * width * (plan.source == "exact")
    else:
        visit = visit_cost(facts, n_drawn(plan))
    begins = discriminant_cost(facts) if isinstance(plan, PointsPlan) and plan.discriminant else 0.0
    return begins + 1e-6 * visit * facts.n_samples * plan.max_iter


def in_words(facts: Facts, plan: AnyPlan) -> str:
    """Say what is going to be trained, for how long and how large the model will be, as predicted."""
    members = [*plan.members] if isinstance(plan, HybridPlan) else ["a model"]
    return (
        f"training {', '.join(members)} on {facts.n_samples:,} rows of {facts.n_classes:,} classes: about "
        f"{fit_cost(facts, plan):.2g} s of one thread and {model_bytes(facts, plan) / 1e6:.3g} MB are predicted"
    )


def model_bytes(facts: Facts, plan: AnyPlan) -> float:
    """Predict the bytes of a model and of what its training keeps beside it; of pairs the most that there can be."""
    if isinstance(plan, HybridPlan):
        n_scored = min(FIGURES.MOST_HELD_OUT, FIGURES.SHARE_HELD_OUT * facts.n_samples)
        scores = 4.0 * (1 + len(plan.members)) * n_scored * facts.n_classes
        joined = plan.embeddings if len(plan.embeddings) > 1 else ()  # into the model of all
        return scores + sum(model_bytes(facts, member) for member in (*joined, *plan.members.values()))
    if isinstance(plan, FullBatchPlan):
        return FIGURES.FULL_COPIES * facts.bytes
    if isinstance(plan, PairsPlan):
        return FIGURES.FEATURE_BYTES * facts.n_features + pairs_bytes(facts, plan.min_count, plan.few_classes)
    if isinstance(plan, BatchesPlan):
        n_rows = facts.n_classes + (facts.n_features if plan.dim else 0)
        return 4.0 * n_rows * padded((plan.dim or facts.n_features) + plan.fit_intercept)
    return facts.bytes


def pairs_bytes(facts: Facts, min_count: int, few_classes: int) -> float:
    """Predict the most bytes that weights on pairs can take in their training.

    Of features with few classes pairs of one row have weights, too, and all features may be of these.
    """
    pairs = facts.n_samples * facts.row * facts.n_labels / (1 if few_classes else min_count)
    return PAIR_BYTES * min(pairs, facts.n_features * facts.n_classes)


def check_memory(facts: Facts, plan: AnyPlan, most_bytes: float = math.inf) -> None:
    """Refuse a plan that takes more memory, as predicted, than `max_memory` or, where that is open, than there is.

    Raises
    ------
    ValueError
        If a plan takes more than `max_memory`.
    MemoryError
        If `max_memory` is open and the rows of weights alone take more than `memory_available` says.
    """
    wanted, size = model_bytes(facts, plan), f"{facts.n_features:,} features and {facts.n_classes:,} classes"
    if wanted > most_bytes:
        advice = "leave model and solver 'auto', or fit a manyclass.datasets.Stream, whose features max_memory hashes"
        limit = f"max_memory is {most_bytes / 1e6:.3g} MB"
        raise ValueError(f"{limit}; {size} take {wanted / 1e6:.3g} MB by this model, as predicted: {advice}")
    # What is predicted of pairs is the most that there can be: they may take far less.
    rows = plan.embeddings[0] if isinstance(plan, HybridPlan) else plan
    if most_bytes < math.inf or isinstance(rows, PairsPlan):
        return
    if (least := model_bytes(facts, rows)) > FIGURES.FITS_ANYWHERE:
        remedy = "Set model to 'embedding' with a dim that fits, or to 'pairs'; or set max_memory"
        check_there_is_memory(least, f"{size} by this model", remedy, FIGURES.MOST_MEMORY)


def n_drawn(plan: PointsPlan) -> int | None:
    """Return how many classes a step of the plan draws; None: it sees all."""
    return None if plan.solver == "exact" or plan.sampler == "all" else plan.n_negatives


def embeds(facts: Facts) -> bool:
    """Whether W is too large for the data: see `LEAST_TO_EMBED`."""
    numbers = facts.n_features * facts.n_classes
    stored = facts.row * facts.n_samples
    least, least_a_value = FIGURES.LEAST_TO_EMBED, FIGURES.NUMBERS_A_VALUE
    return facts.sparse and facts.bytes >= least and numbers >= least_a_value * stored


def n_runs(seconds: float, embeddings: int, most_bytes: float = math.inf) -> int:
    """Return how many runs to make, from the predicted seconds of one and the bytes of its embeddings."""
    in_time = 1 + FIGURES.SECONDS_OF_RUNS // seconds
    if seconds <= FIGURES.SECONDS_OF_SECOND_RUN:
        in_time = max(in_time, 2)
    in_memory = min(FIGURES.BYTES_OF_RUNS, most_bytes / 2) // max(1, embeddings)
    return int(max(1, min(FIGURES.MOST_RUNS, in_time, in_memory)))


def budget(seconds: float) -> float:
    """Return the predicted seconds that all trials may take before a fit that takes `seconds`."""
    return max(FIGURES.QUICK, FIGURES.MOST_OF_FIT * seconds)


MEASURED = ("parameter", "value", "log_loss", "rows", "classes", "passes", "predicted_seconds", "seconds", "chosen")
COLUMNS = (*MEASURED, "share")


class Report(list[dict[str, Any]]):
    """What was tried before a fit, a dict for each trial, in the order of the trials; printed it is a table.

    Behind the table stands what was chosen: `rules` has the recipe, and what each open parameter became by its name.

    The keys of a dict are `parameter`, the one that was tried, and its `value`; `log_loss`, in nats, on rows held out,
    infinite where training diverged; `rows`, `classes` and `passes` of the trial; `predicted_seconds`, by the model of
    costs that decides, and `seconds` of the processor that were measured, which decide nothing; and whether it was
    `chosen`. Members of a blend have lines, too, with their `share`.
    """

    def __init__(self, lines: Iterable[dict[str, Any]] = (), rules: Mapping[str, str] | None = None) -> None:
        super().__init__(lines)
        self.rules = dict(rules or {})

    def __repr__(self) -> str:
        """The table, a line for each trial, and lines for the recipe and for each parameter."""
        lines = [list(COLUMNS), *([_cell(line.get(name)) for name in COLUMNS] for line in self)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        return "\n".join([*table, *(f"{name}, {rule}" for name, rule in self.rules.items())])


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "*" if value else ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass
class Trials:
    """What is tried before one fit.

    Attributes
    ----------
    budget : float
        Predicted seconds that all trials together may take.
    verbose : bool
        Whether each trial is told on the standard error stream as it ends.
    report : Report
    spent : float
        Predicted seconds of those in the report.
    """

    budget: float
    verbose: bool = False
    report: Report = field(default_factory=Report)
    spent: float = 0.0

    @property
    def left(self) -> float:
        """Predicted seconds that may still be spent."""
        return self.budget - self.spent

    def make(
        self, parameter: str, value: Any, train: Callable[[], float], *, predicted: float, size: tuple[int, int, int]
    ) -> float:
        """Run one trial, note it, and return its log-loss, infinite where it is no number.

        `size` is its rows, classes and passes.
        """
        begin = time.process_time()
        loss = train()
        loss, seconds = loss if math.isfinite(loss) else math.inf, time.process_time() - begin
        self.spent += predicted
        values = (parameter, value, loss, *size, predicted, seconds, False)
        self.report.append(dict(zip(MEASURED, values, strict=True)))
        if self.verbose:
            rows, classes, passes = size
            line = f"trying {parameter}={_cell(value)}: log-loss {loss:.4f} on rows held out"
            of = f"{rows} rows of {classes} classes, {passes} passes"
            print(f"{line} ({of}; {seconds:.2f} s, predicted {predicted:.2f})", file=sys.stderr, flush=True)
        return loss

    def choose(self, parameter: str, *values: Any, lines: slice = slice(None)) -> None:
        """Note which value of a parameter was chosen, of some lines of the report.

        Where there are several, the middle is meant.
        """
        for line in self.report[lines]:
            if line["parameter"] == parameter:
                line["chosen"] = line["value"] in values


@dataclass(frozen=True)
class Planned:
    """A plan, and what is told of how it came to be.

    Attributes
    ----------
    plan : PointsPlan, BatchesPlan, PairsPlan, HybridPlan or FullBatchPlan
    params : dict
        Values of the parameters that were left open, for `set_params`.
    rules : dict of str to str
        The recipe, and when it is taken.
    alpha_path : dict of float to float
        Log-loss by ridge, where several were tried.
    rates : dict of float to float
        Log-loss by learning rate, likewise.
    trials : Trials
        All that was tried.
    """

    plan: AnyPlan
    params: dict[str, Any]
    rules: dict[str, str] = field(default_factory=dict)
    alpha_path: dict[float, float] = field(default_factory=dict)
    rates: dict[float, float] = field(default_factory=dict)
    trials: Trials = field(default_factory=lambda: Trials(0.0))


def walk(
    loss: Callable[[int], float],
    first: Iterable[int],
    furthest: tuple[int, int],
    goes_on: Callable[[], bool] = lambda: True,
) -> dict[int, float]:
    """Return the losses of the first exponents, and of further ones while the best is at an end of those tried.

    Parameters
    ----------
    loss : callable
        It returns the loss of an exponent, infinite where training diverged.
    first : iterable of int
        Neighbours, in order.
    furthest : pair of int
        The last exponents that are tried downwards and upwards.
    goes_on : callable
        Asked before each but the first; False ends the walk.
    """
    steps = _core.StepWalk([*first], *furthest)
    while (exponent := steps.next()) is not None and (not steps.losses or goes_on()):
        steps.tell(loss(exponent))
    return dict(zip(steps.exponents, steps.losses, strict=True))


@dataclass(frozen=True)
class LearningRates:
    """What `tune_learning_rate` found.

    Attributes
    ----------
    rates : ndarray of shape (n_rates,)
        Step sizes, ascending.
    losses : ndarray of shape (n_rates,)
        Exact log-loss by the criterion, in nats, or of a MarginClassifier the error; infinite where training diverged.
    best : float
        The rate of the smallest one.
    """

    rates: Doubles
    losses: Doubles
    best: float

    @property
    def table(self) -> dict[float, float]:
        """Loss by rate."""
        return dict(zip(self.rates.tolist(), self.losses.tolist(), strict=True))


TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Lengths:
    """How long rows are, which step sizes and ridges are in units of.

    Attributes
    ----------
    mean_square : float
        Mean of |x|^2, of rows' norms in single precision; more than 0 and finite, as step sizes are divided by it.
    median_square : float
        Median of |x|^2, which a few heavy rows do not move.
    mean_square_of_values : float
        Mean of |x|^2 in double precision, more than 0.
    mean_length : float
        Mean of the rows' sums of absolute values in double precision, more than 0.
    """

    mean_square: float
    median_square: float
    mean_square_of_values: float
    mean_length: float

    @classmethod
    def of(cls, x: Matrix) -> Lengths:
        """Measure rows."""
        squares, values = row_norms_sq(x), x.data if isinstance(x, sp.csr_array) else x.ravel()
        total = float(np.einsum("i,i->", values, values, dtype=np.float64))
        sizes = values if values.min(initial=0) >= 0 else np.abs(values)  # most data need no copy
        with np.errstate(over="ignore"):  # of the two squares in the middle
            median = float(np.median(squares))
        return cls(
            min(max(float(squares.mean(dtype=np.float64)), TINY), float(np.finfo(np.float64).max)),
            # A norm that single precision does not hold counts as that of its largest number.
            min(median, float(np.finfo(np.float32).max) ** 2),
            max(total / x.shape[0], TINY),
            max(float(sizes.sum(dtype=np.float64)) / x.shape[0], TINY),
        )


@dataclass(frozen=True)
class Facts:
    """The facts of the data, all of them numbers.

    Attributes
    ----------
    n_samples : int
    n_features : int
    n_classes : int
    row : float
        Non-zeros a row; n_features for dense data.
    sparse : bool
    met : float or None
        Weights on pairs that a row meets, the classes that its features occur with; None: as many as there can be.
    n_labels : float
        Labels a row, in the mean.
    several : bool
        Whether rows may have more than one.
    least_count : int or None
        The least number of rows for a pair to get a weight that keeps the weights met affordable; None: none, or dense
        data of one label a row, for which no recipe asks.
    few_classes : int
        With `least_count`: features that occur with at most this many classes have weights on all their pairs.
    n_texts : int
        Rows that are texts of classes.
    of_columns : bool
        Whether each class is the name of a column, as items are that come next in histories of items.
    measured : Lengths or None
        None where only costs are asked for.
    """

    n_samples: int
    n_features: int
    n_classes: int
    row: float
    sparse: bool
    met: float | None = None
    n_labels: float = 1.0
    several: bool = False
    least_count: int | None = None
    few_classes: int = 0
    n_texts: int = 0
    of_columns: bool = False
    measured: Lengths | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, x: Matrix, n_classes: int, labels: Labels | None = None, *, several: bool = False) -> Facts:
        """Measure the data."""
        (n_samples, n_features), least, few = x.shape, None, 0
        sparse = isinstance(x, sp.csr_array)
        row = (x.nnz if isinstance(x, sp.csr_array) else x.size) / max(1, n_samples)
        if labels is not None and (several or sparse):
            least = least_count(weights_met(x, labels, n_classes))
            most = FIGURES.FEW_CLASSES_OF_A_FEATURE
            if least != 1 and n_classes > most:
                least_of_frequent = least_count(weights_met(x, labels, n_classes, few_classes=most))
                least, few = (least, 0) if least_of_frequent is None else (least_of_frequent, most)
        return cls(
            *(n_samples, n_features, n_classes, row, sparse),
            n_labels=1.0 if labels is None else labels.mean,
            several=several,
            least_count=least,
            few_classes=few,
            measured=Lengths.of(x),
        )

    @property
    def lengths(self) -> Lengths:
        """How long the rows are."""
        assert self.measured is not None
        return self.measured

    @property
    def bytes(self) -> float:
        """Size of W."""
        return 4.0 * self.n_features * self.n_classes


def weights_met(
    x: Matrix, labels: Labels, n_classes: int, counts: tuple[int, ...] = FIGURES.LEAST_COUNTS, few_classes: int = 0
) -> dict[int, float]:
    """Estimate how many weights a row meets, by the number of rows that a pair must have to get one.

    All pairs of features that occur with at most `few_classes` classes get one.

    A row meets the weights of its features, which are as many as the classes that they occur with; these are counted
    for features drawn from the stored values of X. The draws are the same for equal data.
    """
    csr, n_drawn = as_csr(x), FIGURES.SAMPLED_FEATURES
    if csr.nnz == 0:
        return dict.fromkeys(counts, 0.0)
    drawn = csr.indices[np.random.default_rng(0).integers(0, csr.nnz, n_drawn)]
    times = np.bincount(drawn, minlength=csr.shape[1])
    data = (csr_parts(csr), csr.shape[1], labels.indptr, labels.ids, n_classes, times)
    met = _core.weights_met(*data, list(counts), few_classes)
    return {least: n / n_drawn * csr.nnz / len(labels) for least, n in zip(counts, met, strict=True)}


def least_count(met: Mapping[int, float]) -> int | None:
    """Return the least of `LEAST_COUNTS` that keeps the weights met affordable; None: none does."""
    few, many = FIGURES.MOST_MET, FIGURES.MOST_MET_OF_MANY
    most = {least: few if least <= FIGURES.FEW_ROWS_OF_A_PAIR else many for least in FIGURES.LEAST_COUNTS}
    return next((least for least in FIGURES.LEAST_COUNTS if met[least] <= most[least]), None)
