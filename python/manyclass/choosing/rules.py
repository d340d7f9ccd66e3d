r"""What "auto" stands for in `SoftmaxClassifier`: short trials on the user's own rows, and rules for what is not tried.

    shape ─▶ microseconds a visit, by solver ─▶ solver ─▶ trials: step size ─▶ ridge or model ─▶ fit

Trials keep to 30 % of the predicted seconds of the fit, or to 4 predicted seconds where that is more. Predictions are
constants times visits, so that equal seeds try and choose alike on any machine and with any number of threads.
`auto_report_` has a line for each trial, and with `verbose=1` each is printed as it ends. Nothing is tried with fewer
than 1,000 rows or a limit of seconds (max_seconds), nor what was set by hand.

solver
    "lbfgs" where that is predicted to take at most 5 seconds and nothing is set that only steps have (learning_rate,
    max_iter, sampler, n_negatives, early_stopping, coef_init); "exact" where a visit of a point is predicted to take at
    most 8 microseconds with all classes (hundreds of them, as a rule), else "implicit"; with embeddings, weights on
    pairs or several labels "adagrad".
sampler
    "frequency_block", of "implicit" with power=1; in training by minibatches, which has no "head_tail", "all" up to
    8,192 classes, else "frequency".
n_negatives
    64, of "implicit" 256, and 1,024 in training by minibatches.
model
    "linear" of dense data and of fewer than 1,000 rows. Of other sparse data with one label a row, if nothing is set
    that one of them does not use, "linear" or "hybrid" by trials: both are fitted to whole classes of 2,500 and of
    10,000 rows, or to one draw where the budget has not enough for both, and the one with the least log-loss on
    all held-out ones is taken. Where W would take more than 2 GB, "hybrid" untried. Where nothing can be
    tried, "hybrid" if W would take more than 256 MB and have more than 30 numbers for each one stored in X; "embedding"
    there with a limit of seconds. With solver="auto" a linear model is trained on scaled features: see
    `help(manyclass.models.Linear)`. With several labels a row "hybrid", unless alpha, learning_rate or n_negatives is
    set. A hybrid has weights on pairs beside embeddings, with pairs of so few rows left out (min_count) that a row
    meets at most 50,000 weights, as predicted from 256 features, or 10,000 where pairs of five rows are more; where not
    even pairs of 200 rows and more are so few, it does not take part: then "embedding" does, unless all is small, and
    several labels get "linear" of dense data, and "embedding" of sparse ones, by the decoupled softmax. Up to 8 labels
    a row of sparse data, in the mean, get "embedding" by margins where pairs of five rows and more are too many.
learning_rate
    By trials, of every solver but "negative_sampling", "adagrad" and schedule="adaptive": two passes over *whole
    classes*, all rows of random ones, 20,000 at most; steps are thirds of a decade apart, and the search goes on while
    the best is at an end. The middle of those within 0.5 % of the least log-loss is taken, divided by what the steps
    of all passes add up to over 2, where that is more. Untried it is c divided by the mean of \|x_i\|^2 (plus 1 with an
    intercept), c being 1, but 6 for "implicit", 0.1 for "umax" and "softplus", 0.01 for "sgd", 4 / n_classes for "ove"
    and batch_size for "minibatch_implicit"; for "adagrad", 1 over the root of that mean. Of weights on pairs 7.2 over
    the mean of \|x_i\|_1 or, by trials on 4,000 random rows at most, a third or less of it, while the decoupled loss of
    held-out ones falls: that is the log_loss of the report then, summed over the labels of a row. "grid", which is no
    "auto", is the best of 0.001, 0.01, ..., 1000 on a tenth of the points, as `manyclass.tune_learning_rate` finds it.
alpha
    0; 1 / n_samples of solver="lbfgs", as scikit-learn's C = 1; 0.01 / n_samples of "implicit", in units of the mean of
    \|x_i\|^2, unless learning_rate is set; with solver="auto" one that was tried (`alpha_path_`). Where "lbfgs" was
    chosen: the best of 1000, 100, ..., 0.01, over n_samples, by 5-fold cross-validation, if it is better than
    1 / n_samples by more than the standard error; untried it is that. Else, in units of the mean of \|x_i\|^2, the best
    of 0, 3e-6, 1e-5, 3e-5 and 1e-4 on a tenth of the points, where the budget of the trials is enough for five fits;
    untried it is 0.01 / n_samples. W is that of the scaled features where they are.
n_models
    3 of a hybrid, and of embeddings by margins, or as many as are predicted to take 20 seconds more and 256 MB of
    embeddings; else 1, as with dim or max_seconds, in a fit that begins warm, and after a callback or Ctrl-C that ended
    the first one.
max_iter
    20; 10,000 for "lbfgs"; 12 for "implicit"; 10 in training by minibatches, and 4 where embeddings or margins were; of
    weights on pairs 5, and 2 of more than 100,000 rows.

A rule that depended on a clock would make results depend on it too, so the costs are constants, fitted once to
measurements (bench/bench_auto.py prints both); only their ratios, and the thresholds in seconds, matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import scipy.sparse as sp

from manyclass.choosing.plans import Open
from manyclass.training.plan import AnyPlan, BatchesPlan, FullBatchPlan, HybridPlan, PointsPlan, PostingsPlan
from manyclass.weights.arrays import LINE, Matrix

# What "auto" stands for where the solver was chosen by hand: nothing that is not in the solver's definition.
BY_HAND = Open(n_negatives=64, max_iter=20, decay=0.9)
# Sampled implicit steps, chosen by hand or not. On nine sets of first labels 12 passes of half the step gain up to 0.1
# nats over 6, and 256 classes up to 0.06 over 112; 512 gain at most 0.03 more in 2.5 times the time. Steps fall to an
# eightieth: over a twentieth that gains 0.002 to 0.02 nats on six sets of eight and loses 0.001 on the others, and
# smaller ones gain hardly more (bench/decisions.md).
PASSES_SAMPLED, NEGATIVES_SAMPLED, LAST_STEP = 12, 256, 1 / 80
# Classes are drawn by their frequency itself: best, or within 0.035 nats, of the powers 0.5, 0.75 and 1 on each.
POWER_SAMPLED = 1.0

# Up to so many microseconds a visit all classes are worth their time: no noise of sampling, no u to learn, and twenty
# passes over 10^5 points still end in 16 s. bibtex takes 4, delicious 2.5, eurlex57k 150.
MOST_EXACT = 8.0
PASSES_EXACT = 20  # of exact steps, which are for few classes and take no time
LAST_CACHE = 32.0  # megabytes
# In units of 1 / mean |x|^2, intercept included. A sampled step is implicit and bears 6, which on eurlex57k and yso-en
# learns in 12 passes what 2 does not in 20; the exact one is explicit, and has few classes.
RATE_SAMPLED, RATE_EXACT = 6.0, 1.0
# The mean of the last iterates, unless it takes more than so many bytes beside W, for a gain of 0.02 nats on yso-en.
MOST_FOR_AVERAGE = 2 << 30

# Embeddings. Where W would take more than so many bytes and have more than so many numbers for each stored value of
# sparse data, its rows cannot be learned one by one: yso-en has 290 and yelp-next 270 of them, and embeddings gain 0.3
# and 1.1 nats there, in less time; eurlex57k has 1.3 and loses 0.3 by them. Between these, nothing was tried.
LEAST_TO_EMBED = 256 << 20
NUMBERS_A_VALUE = 30
# Larger ones are not tried for a linear model, whose fit would need as much memory again.
LARGEST_CONTESTED = 2 << 30
# Of 128, 192 and 256 with 512 or 1,024 draws and 4 or 6 passes the one best in both log-loss and accuracy on yso-en.
EMBEDDED_DIM = 192
EMBEDDED = Open(n_negatives=1024, max_iter=4, decay=0.5)
# Several labels a row by margins, beside weights on pairs and alone; the smoothing is that of Yen et al. 2018. A decay
# of .5 ranks better than .7 beside pairs on bibtex, and worse alone on eurlex57k, where two runs of 384 columns do
# better than three of 256 in the same time (bench/decisions.md).
RANKING, RANKING_ALONE = Open(n_negatives=2048, max_iter=4, decay=0.5), Open(n_negatives=2048, max_iter=4, decay=0.7)
RANKING_DIM, RANKING_DIM_ALONE, SMOOTHING = 256, 384, 5.0
# Minibatches otherwise.
BATCHES = Open(n_negatives=1024, max_iter=10, decay=0.9)

# Runs of a hybrid whose mean is taken: so many, if those after the first one are predicted to take no more than so many
# seconds and all embeddings no more than so many bytes. Three gain .03, .02 and .05 nats on bibtex, delicious and
# 20news, and half a point of P@1 of several labels, for a second or two; a mean of linear models gains nothing, as
# their objective is convex (bench/decisions.md).
MOST_RUNS, SECONDS_OF_RUNS, BYTES_OF_RUNS = 3, 20.0, 256 << 20

# Trials. All before a fit take at most this share of its predicted seconds, or QUICK seconds where that is more, which
# nobody waits for. With fewer rows a tenth held out would say nothing.
MOST_OF_FIT, QUICK = 0.3, 4.0
FEWEST_TO_TRY, MOST_TO_TRY = 1000, 20_000
# Step sizes are tried on so many rows, in RATES trials as a rule, for two passes, the second of a quarter of the step,
# in steps of a third of a decade: a valley is wider than that. The first three surround the constants below.
RATES = 6
TRIAL_PASSES, TRIAL_DECAY = 2, 0.25
RATE_RATIO = 10 ** (1 / 3)
FIRST_RATES, FURTHEST_RATE = (-1, 0, 1), (-6, 6)
# Of the steps with a log-loss of at most 0.5 % above the least the geometric middle of the smallest and the largest.
# Where a valley is flat the smallest loses 0.1 nats on yelp-next and the largest 0.06 on eurlex57k, the middle 0.04
# and 0.02 (bench/decisions.md).
AS_GOOD = 1.005
# Whole classes that make up the rows of a trial; fewer would be another problem than that of all.
LEAST_CLASSES = 25
# Of the steps of all passes, in units of the pick; it was 2.0 for 12 passes of half the pick that fell to a twentieth.
SUM_OF_STEPS = 2.0

# Ridge. In units of mean |x|^2, so that scaling X changes nothing. Where trying takes no more than so many predicted
# seconds it is the best of a few on held-out points: bibtex is best off with none and delicious with 3e-5, and no
# function of K, D and N was found that says so. Else RIDGE / N, a weak one: of 0, 1e-8 and 4e-8 none is clearly ahead
# on yso-en, and eurlex57k gains up to 0.06 nats by 1e-6. With sampled implicit steps it also restrains what the two
# passes of a trial cannot tell from learning, steps that overfit in twelve: 0.31 nats of 100,000 rows of yso-en, and
# 0.01 or 0.02 of three of nine other sets; it costs at most 0.003 on any (bench/decisions.md).
RIDGES = (0.0, 3e-6, 1e-5, 3e-5, 1e-4)
PAST_THE_VALLEY = 1.02
RIDGE = 0.01
# Of rows with a smaller mean |x|^2 there is no ridge unless it is set: steps on them, of size 1 / |x|^2, are divided by
# the factor of a row of W, which falls to 2^-40, and would leave single precision.
LEAST_FOR_RIDGE = 1e-20

# Full passes of L-BFGS to the optimum, where they and the trials of their ridge take no more than so many predicted
# seconds. A ridge of 1 / N makes W the most probable one for weights that are normal with variance 1 in units of the
# features' scales, which is what scikit-learn's LogisticRegression takes for scaled features. It is too weak for many
# uninformative features and too strong for classes that can be separated, so others are tried by cross-validation.
MOST_FULL = 5.0
MOST_ITERATIONS = 10_000
PRIOR = 1.0
PRIORS = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2)
FOLDS = 5
# Evaluations of a fit from the weights of the ridge before, in the mean over ridges: 5 to 16 on nine generated sets.
EVALUATIONS = 15


@dataclass(frozen=True)
class Shape:
    """What the costs depend on.

    Attributes
    ----------
    n_samples, n_features, n_classes : int
    row : float
        Non-zeros a row; n_features for dense data.
    sparse : bool
    met : float or None
        Weights on pairs that a row meets, the classes that its features occur with; None: as many as there can be.
    """

    n_samples: int
    n_features: int
    n_classes: int
    row: float
    sparse: bool
    met: float | None = None

    @classmethod
    def of(cls, x: Matrix, n_classes: int) -> Shape:
        """Measure the data."""
        stored = x.nnz if isinstance(x, sp.csr_array) else x.size
        n_samples, n_features = x.shape
        return cls(n_samples, n_features, n_classes, stored / max(1, n_samples), isinstance(x, sp.csr_array))

    @property
    def bytes(self) -> float:
        """Size of W."""
        return 4.0 * self.n_features * self.n_classes


def visit_cost(shape: Shape, n_drawn: int | None) -> float:
    """Predict the microseconds of one thread that a visit of a point takes.

    Parameters
    ----------
    shape : Shape
    n_drawn : int or None
        Sampled classes of an implicit step (by frequency_block); None: the exact step, on all classes.

    Notes
    -----
    What each weight costs grows as W leaves the caches: with a power of its size, between 1 MB and 5 GB, where single
    lines are read here and there, and up to the size of the caches where a feature's row is read from end to end, or
    dense rows, which the processor fetches ahead.
    """
    if n_drawn is not None:
        fixed, each = _sampled_cost(shape)
        return fixed + each * LINE * math.ceil(min(n_drawn, shape.n_classes) / LINE)
    weight = 3.3e-4 * min(_megabytes(shape), LAST_CACHE) ** 0.18 if shape.sparse else 0.9e-4
    return 0.5 + 0.006 * shape.row * shape.sparse + shape.n_classes * (0.002 + weight * shape.row)


def _sampled_cost(shape: Shape) -> tuple[float, float]:
    """Microseconds of a visit without drawn classes, the label's line included, and of each drawn class."""
    weight = 0.9e-4 * _megabytes(shape) ** 0.37 if shape.sparse else 0.7e-4
    each = 0.0036 + weight * shape.row
    return 0.5 + 0.006 * shape.row * shape.sparse + LINE * each, each


def _megabytes(shape: Shape) -> float:
    return max(shape.bytes / 1e6, 1.0)


def embedded_cost(n_drawn: int, width: int) -> float:
    """Predict the microseconds of one thread that a visit takes with embeddings, of classes drawn for a whole batch.

    Three products of each drawn row with each point, of the speed of a processor's vectors.
    """
    return 1.0 + n_drawn * (0.006 + 1.0e-4 * width)


def ranked_cost(n_seen: int, width: int) -> float:
    """Predict the microseconds of one thread that a visit takes with embeddings by a margin.

    One product of each row with each point, for few classes have gradients. Fitted to eurlex57k with 256 and 384
    columns and yso-en with 2,048 drawn classes (54, 73 and 36 microseconds), to 25 %.
    """
    return 1.0 + n_seen * (0.0035 + 4.0e-5 * width)


def pairs_cost(shape: Shape) -> float:
    """Predict the microseconds of one thread that a visit takes of weights on pairs.

    Each weight that is met is read for the scores, looked up for the step and, if its class has a gradient, moved; each
    class has an exponential. Fitted to bibtex, delicious, 20news and toys-next with three least counts, to 30 %.
    """
    met = shape.n_classes * shape.row if shape.met is None else shape.met
    return 1.0 + 0.0028 * shape.n_classes + 0.0033 * met


def embeds(shape: Shape) -> bool:
    """Whether the model has embeddings of the features where that is left open."""
    numbers = shape.n_features * shape.n_classes
    stored = shape.row * shape.n_samples
    return shape.sparse and shape.bytes >= LEAST_TO_EMBED and numbers >= NUMBERS_A_VALUE * stored


def is_small(shape: Shape) -> bool:
    """Whether exact steps or full passes are affordable; embeddings alone lose there, and take longer."""
    return visit_cost(shape, None) <= MOST_EXACT or full_cost(shape) <= MOST_FULL


def is_contested(shape: Shape) -> bool:
    """Whether a linear model and others are tried where that is left open; dense data are linear."""
    return shape.sparse and shape.bytes <= LARGEST_CONTESTED and shape.n_samples >= FEWEST_TO_TRY


def choose(shape: Shape, *, sampling: bool, max_iter: int | None) -> tuple[str, Open]:
    """Return the solver for solver="auto", and values for what else is open; the ridge is that of few trials.

    `sampling`: something was set that only sampled steps use; `max_iter`: passes, where they were set.
    """
    if sampling or visit_cost(shape, None) > MOST_EXACT:
        return "implicit", sampled(max_iter, averaging=shape.bytes <= MOST_FOR_AVERAGE)
    passes = max_iter or PASSES_EXACT
    decay = BY_HAND.decay ** (BY_HAND.max_iter / passes)  # to the same last step
    averaging = "suffix" if shape.bytes <= MOST_FOR_AVERAGE else "none"
    return "exact", replace(BY_HAND, max_iter=passes, decay=decay, averaging=averaging)


def sampled(max_iter: int | None, *, averaging: bool) -> Open:
    """Return what is open of sampled implicit steps, for `max_iter` passes where they were set."""
    passes = max_iter or PASSES_SAMPLED
    decay = LAST_STEP ** (1 / max(1, passes - 1))
    return Open(NEGATIVES_SAMPLED, passes, decay, averaging="suffix" if averaging else "none")


def full_cost(shape: Shape) -> float:
    """Predict the seconds of one thread that full passes take, trials of the ridge included.

    An evaluation has two products with X in double precision, and L-BFGS keeps ten pairs of vectors of the size of W.
    """
    each = 0.015 + (1e-3 if shape.sparse else 5e-4) * shape.row
    points = shape.n_samples * (0.1 + shape.n_classes * each)
    evaluation = 100.0 + points + 0.02 * shape.n_classes * shape.n_features
    return 1e-6 * evaluation * EVALUATIONS * len(PRIORS) * FOLDS


def untried_ridge(n_samples: int, mean_square: float) -> float:
    """Return the ridge where none is tried, of rows with such a mean of |x|^2."""
    return RIDGE / n_samples * mean_square if mean_square >= LEAST_FOR_RIDGE else 0.0


def relative_rate(solver: str) -> float:
    """Step size for solver="auto", in units of 1 / mean |x|^2."""
    return RATE_EXACT if solver == "exact" else RATE_SAMPLED


def n_drawn(plan: PointsPlan) -> int | None:
    """Return how many classes a step of the plan draws; None: it sees all."""
    return None if plan.solver == "exact" or plan.sampler == "all" else plan.n_negatives


def fit_cost(shape: Shape, plan: AnyPlan) -> float:
    """Predict the seconds of one thread that a training takes."""
    if isinstance(plan, HybridPlan):
        return fit_cost(shape, plan.postings) + fit_cost(shape, plan.embeddings)
    if isinstance(plan, FullBatchPlan):
        return full_cost(shape)
    if isinstance(plan, PostingsPlan):
        return 1e-6 * pairs_cost(shape) * shape.n_samples * plan.max_iter
    if isinstance(plan, BatchesPlan):
        drawn = shape.n_classes if plan.source == "exact" else min(plan.n_negatives, shape.n_classes)
        cost = ranked_cost if plan.loss == "margin" else embedded_cost
        return 1e-6 * cost(drawn, plan.dim or EMBEDDED_DIM) * shape.n_samples * plan.max_iter
    return 1e-6 * visit_cost(shape, n_drawn(plan)) * shape.n_samples * plan.max_iter


def n_runs(seconds: float, embeddings: int) -> int:
    """Return how many runs of a hybrid to make; one takes so many predicted seconds, its embeddings so many bytes."""
    return int(max(1, min(MOST_RUNS, 1 + SECONDS_OF_RUNS // seconds, BYTES_OF_RUNS // max(1, embeddings))))


def budget(seconds: float) -> float:
    """Return the predicted seconds that all trials before a fit of so many may take."""
    return max(QUICK, MOST_OF_FIT * seconds)


def rows_to_try(left: float, shape: Shape, plan: PointsPlan) -> int:
    """Return on how many rows step sizes can be tried for so many predicted seconds."""
    visit = 1e-6 * visit_cost(shape, n_drawn(plan))
    return int(min(shape.n_samples, MOST_TO_TRY, left / (RATES * TRIAL_PASSES * visit)))


def tries_ridges(plan: PointsPlan, shape: Shape, left: float) -> bool:
    """Whether the ridge is chosen on held-out points, so many predicted seconds being left for it."""
    return shape.n_samples >= FEWEST_TO_TRY and len(RIDGES) * fit_cost(shape, plan) <= left
