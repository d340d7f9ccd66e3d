"""What a SoftmaxClassifier with weights on pairs trains with, alone or beside embeddings: from parameters to a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.choosing import rules
from manyclass.choosing.plans import (
    REDUCTIONS,
    Chosen,
    batch_source,
    batches_plan,
    draws_classes,
    mean_length_of,
    mean_square_of,
    run_fields,
    schedule_of,
)
from manyclass.choosing.softmax_plans import Settled, batch_sampler, given_of, opened
from manyclass.choosing.trials import Trials, quietly, walk
from manyclass.parts import Given, Parameters
from manyclass.samplers import SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.blend import decoupled_loss
from manyclass.training.pairs import OFFSET, ROUNDING, fit_pairs
from manyclass.training.plan import AnyPlan, HybridPlan, Labels, PostingsPlan
from manyclass.training.state import Points
from manyclass.training.validation import fork
from manyclass.training.watch import Watch
from manyclass.training.weighting import normalized
from manyclass.weights.arrays import Matrix, as_csr

# The first step of a row moves the score of a class by the rate times its sum of |x|: the rate makes that so many nats.
# 7.2 is a rate of 3 on yso-en, where larger ones lose, and .9 on bibtex, where .3 and 3 lose a point of P@1 and more.
FIRST_MOVE = 7.2
# Passes and their decay, up to so many rows and beyond: what is learned from few rows takes more visits. 5 passes for 2
# gain 2 to 3 points on 10,000 rows of eurlex57k and half a point on bibtex; for many rows they would take their time.
FEW_ROWS = 100_000
PASSES_OF_FEW, DECAY_OF_FEW = 5, 0.7
PASSES, DECAY = 2, 0.4
# The rate of the intercepts, which start at the log of the classes' frequencies, over that of the weights.
INTERCEPT_SHARE = 0.05

# Embeddings of several labels a row rank them by margins; of one label, and of more labels than these in the mean,
# they are those of the decoupled softmax with the settings of one label: they gain a point of P@1 and P@5 on delicious,
# which has 19, in a third of the time, since a margin visits all classes once a label; on bibtex and eurlex57k, which
# have 2.4 and 5.1, they lose one to four (bench/decisions.md).
MANY_LABELS = 8.0

# model="auto": pairs of so few rows are left out that a row meets at most so many weights, predicted from so many of
# its features. Pairs of five rows and more do better than all on eurlex57k, whose rows meet 188,000 weights, in a third
# of the time; on yso-en, where they meet 19,000, pairs of one row are worth a point of P@1.
# Where not even those are so few, pairs of many rows add little, and a row meets a fifth: on eurlex57k pairs of 30 and
# of 300 rows rank alike beside embeddings.
MOST_MET, FEW_ROWS_OF_A_PAIR, MOST_MET_OF_MANY = 50_000, 5, 10_000
LEAST_COUNTS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200)
SAMPLED_FEATURES = 256


# learning_rate="auto": a third of the rate, and a third of that, while held-out rows get better by it. On bibtex and
# eurlex57k the rate of the rule is best, on delicious a fifth of it (66.4 for 64.8 of P@1). Larger ones are not tried:
# a trial has few of the rows, and few rows want larger ones.
RATE_RATIO = 10 ** (1 / 3)
LEAST_RATE = -3
RATES = 4
MOST_ROWS_TO_TRY, SHARE_TO_TRY = 4000, 0.2


def weights_met(x: Matrix, labels: Labels, n_classes: int, counts: tuple[int, ...] = LEAST_COUNTS) -> dict[int, float]:
    """Estimate how many weights a row meets, by the number of rows that a pair must have to get one.

    A row meets the weights of its features, which are as many as the classes that they occur with; these are counted
    for features drawn from the stored values of X. The draws are the same for equal data.
    """
    csr = as_csr(x)
    if csr.nnz == 0:
        return dict.fromkeys(counts, 0.0)
    drawn = csr.indices[np.random.default_rng(0).integers(0, csr.nnz, SAMPLED_FEATURES)]
    features, times = np.unique(drawn, return_counts=True)
    some = csr[:, features]
    ones = sp.csr_array((np.ones(some.nnz, np.int32), some.indices, some.indptr), shape=some.shape)
    lists = sp.csr_array(
        (np.ones(len(labels.ids), np.int32), labels.ids, labels.indptr), shape=(len(labels), n_classes)
    )
    together = sp.csc_array(lists.T @ ones)
    weight = np.repeat(times, np.diff(together.indptr)) / SAMPLED_FEATURES * csr.nnz / len(labels)
    return {least: float(weight[together.data >= least].sum()) for least in counts}


def least_count(met: Mapping[int, float]) -> int | None:
    """Return the least number of rows for a pair to get a weight that keeps the weights met affordable; None: none."""
    most = {least: MOST_MET if least <= FEW_ROWS_OF_A_PAIR else MOST_MET_OF_MANY for least in LEAST_COUNTS}
    return next((least for least in LEAST_COUNTS if met[least] <= most[least]), None)


def settle_sparse(parameters: Parameters, chosen: Chosen, points: Points, *, timed: bool) -> Settled:
    """The plan for model="sparse"; nothing is tried before a fit that is `timed`."""
    given = given_of(parameters)
    where = "with model='sparse'"
    if not given.is_auto("sampler"):
        raise ValueError(
            f"sampler is {given.take('sampler')!r}, which has no effect {where}: its gradients are those of all "
            "classes; leave it 'auto'"
        )
    plan, used, inner = _postings_plan(given, chosen, points.x, where)
    given.refuse_rest(where)
    plan, trials = _tried(parameters, plan, plan, points, timed=timed)
    used["learning_rate"] = plan.schedule.learning_rate
    return Settled(plan, opened(parameters, used, used["solver"], inner), trials=trials)


def settle_hybrid(
    parameters: Parameters,
    chosen: Chosen,
    points: Points,
    *,
    timed: bool,
    n_labels: float | None = None,
    trials: Trials | None = None,
) -> Settled:
    """The plan for model="hybrid"; nothing is tried before a fit that is `timed`.

    `n_labels` a row say by which loss embeddings are trained; None: those of the points. `trials` were made before, and
    what is left of their budget is for these; None: none were.
    """
    x, n_classes = points.x, len(points.classes)
    n_labels = points.labels.mean if n_labels is None else n_labels
    ranks = 1 < n_labels <= MANY_LABELS
    loss = "margin" if ranks else "cross_entropy" if n_labels == 1 else REDUCTIONS["decoupled"]
    given = given_of(parameters, "dim", "n_negatives")
    where = "with model='hybrid'"
    plan, used, inner = _postings_plan(given, chosen, x, where)
    given.refuse_rest(where)
    open_, dim = (rules.RANKING, rules.RANKING_DIM) if ranks else (rules.EMBEDDED, rules.EMBEDDED_DIM)
    draws = SAMPLERS["uniform" if ranks else "frequency"]()
    # Of the estimator's parameters the embeddings have those that the weights have no use for.
    of_embeddings = Given(parameters.changed(learning_rate="auto", max_iter="auto", random_state=0))
    embeddings = batches_plan(
        of_embeddings,
        replace(chosen, solver=SOLVERS["adagrad"]()),
        x,
        n_classes,
        loss=loss,
        smoothing=rules.SMOOTHING if ranks else 0.0,
        open_=open_,
        dim=int(of_embeddings.take("dim", dim)),
        relu=used["model"].get_params()["activation"] == "relu",
        # Margins of all classes, up to MOST_SCORED, rank better than of 2,048 drawn (bench/decisions.md).
        source=batch_source(
            chosen.sampler, n_classes, sampled=not ranks and n_classes > open_.n_negatives, draws=draws
        ),
    )
    embeddings = replace(embeddings, seed=plan.seed)
    used |= {"dim": embeddings.dim, "sampler": batch_sampler(embeddings)}
    if draws_classes(embeddings.source, embeddings.warm_up):
        used["n_negatives"] = embeddings.n_negatives
    repeats = used["model"].get_params()["repeats"] == "learn"
    plan, trials = _tried(parameters, plan, HybridPlan(plan, embeddings), points, timed=timed, trials=trials)
    used["learning_rate"] = plan.schedule.learning_rate
    return Settled(
        HybridPlan(plan, embeddings, repeats), opened(parameters, used, used["solver"], inner), trials=trials
    )


def _tried(
    parameters: Parameters,
    plan: PostingsPlan,
    whole: AnyPlan,
    points: Points,
    *,
    timed: bool,
    trials: Trials | None = None,
) -> tuple[PostingsPlan, Trials]:
    """Return the plan with the step size that trials find, if it was left open, and the trials before `whole`."""
    given = Given(parameters)
    if timed or not given.is_auto("learning_rate"):
        return plan, Trials(0.0)
    n_classes, least = len(points.classes), plan.min_count
    met = weights_met(points.x, points.labels, n_classes, (least,))[least]
    shape = replace(rules.Shape.of(points.x, n_classes), met=met)
    if trials is None:
        trials = Trials(rules.budget(rules.fit_cost(shape, whole)), bool(plan.verbose))
    return _best_rate(trials, plan, points, shape, given.take("random_state")), trials


def _best_rate(
    trials: Trials, plan: PostingsPlan, points: Points, shape: rules.Shape, random_state: Any
) -> PostingsPlan:
    """Return the plan with the step size of the least decoupled loss on rows held out of a short training."""
    visit = 1e-6 * rules.pairs_cost(shape) * plan.max_iter
    n_rows = int(min(shape.n_samples, MOST_ROWS_TO_TRY, trials.left / (RATES * visit)))
    if n_rows < rules.FEWEST_TO_TRY:
        return plan
    order = fork(random_state).permutation(shape.n_samples)[:n_rows]
    n_out = int(SHARE_TO_TRY * n_rows)
    out, kept = points.some(np.sort(order[:n_out])), points.some(np.sort(order[n_out:]))
    # A pair has as much fewer rows as there are fewer.
    least = max(1, round(plan.min_count * len(kept.labels) / shape.n_samples))
    short = replace(plan, min_count=least, verbose=0, hogwild=False)  # the choice does not depend on threads
    size, rule = (len(kept.labels), shape.n_classes, plan.max_iter), plan.schedule.learning_rate
    since = len(trials.report)

    def loss(exponent: int) -> float:
        trial = with_rate(short, rule * RATE_RATIO**exponent)
        train = partial(_held_out_loss, trial, kept, out, shape.n_classes)
        rate = trial.schedule.learning_rate
        return trials.make("learning_rate", rate, train, predicted=visit * n_rows, size=size)

    tried = walk(loss, (0, -1), (LEAST_RATE, 0), lambda: trials.left >= visit * n_rows)
    best = min(tried, key=lambda exponent: tried[exponent])
    if not math.isfinite(tried[best]):
        return plan
    chosen = with_rate(plan, rule * RATE_RATIO**best)
    trials.choose("learning_rate", chosen.schedule.learning_rate, since=since)
    return chosen


def _held_out_loss(plan: PostingsPlan, kept: Points, out: Points, n_classes: int) -> float:
    """Train, and return the decoupled loss of the rows held out, of one label the log-loss; infinite if it diverged."""
    train = partial(fit_pairs, plan, kept.x, kept.labels, n_classes, Watch(), normalized(kept.weights))
    weights, curve, _ = quietly(train)
    if len(curve) < plan.max_iter:
        return math.inf
    loss = decoupled_loss(weights, out.x, out.labels, plan.n_threads, out.weights)
    return loss if math.isfinite(loss) else math.inf


def with_rate(plan: PostingsPlan, rate: float) -> PostingsPlan:
    """Return the plan with another step size; that of the intercepts follows."""
    # An intercept is the weight of a feature that is always 1, whatever the length of rows: offset / OFFSET is |x|^2.
    of_intercepts = INTERCEPT_SHARE * rate * (plan.offset / OFFSET) ** 0.5
    return replace(plan, schedule=replace(plan.schedule, learning_rate=rate, u_learning_rate=of_intercepts))


def _postings_plan(
    given: Given, chosen: Chosen, x: Matrix, where: str
) -> tuple[PostingsPlan, dict[str, Any], dict[str, Any]]:
    """The plan of weights on pairs, and values of what may have been left open, of the estimator and of its solver."""
    assert chosen.model is not None
    solver = chosen.solver or SOLVERS["adagrad"]()
    if solver.name != "adagrad":
        raise ValueError(f"solver is {solver.name!r}; {where} it must be 'adagrad'")
    if given.take("alpha") not in ("auto", 0):
        raise ValueError(
            f"alpha is {given.take('alpha')!r}, which has no effect {where}: its passes are few, and a ridge did not "
            "help it; leave it 'auto'"
        )
    if given.take("learning_rate") == "grid":
        raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")
    of_solver, of_model = Given(solver, "adagrad: "), Given(chosen.model)
    hogwild = of_solver.take("parallel") == "hogwild"
    batch_size = of_solver.take("batch_size")
    if hogwild and batch_size is not None:
        raise ValueError(f"batch_size is {batch_size!r}; with parallel='hogwild' it must be None")
    reduction = str(of_solver.take("reduction", "decoupled"))
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}, which has no gradient of all classes; {where} leave it 'auto'")
    square = mean_square_of(x)
    rate = float(given.take("learning_rate", FIRST_MOVE / mean_length_of(x)))
    passes, decay = (PASSES_OF_FEW, DECAY_OF_FEW) if x.shape[0] <= FEW_ROWS else (PASSES, DECAY)
    plan = PostingsPlan(
        loss=REDUCTIONS[reduction],
        offset=OFFSET * square,
        rounding=ROUNDING,
        min_count=int(of_model.take("min_count")),
        prune=float(of_model.take("prune")),
        hogwild=hogwild,
        schedule=schedule_of(of_solver, rate, rate, decay),
        max_iter=int(given.take("max_iter", passes)),
        batch_size=batch_size,
        shuffle=bool(of_solver.take("shuffle")),
        share_classes=None,
        fit_intercept=bool(given.take("fit_intercept")),
        **run_fields(given),
    )
    plan = with_rate(plan, rate)
    of_solver.refuse_rest(where)
    used = {"solver": solver, "model": chosen.model, "max_iter": plan.max_iter, "learning_rate": rate}
    inner: dict[str, Any] = {"reduction": reduction}
    if plan.schedule.name == "exponential":
        inner["decay"] = plan.schedule.decay
    return plan, used, inner
