"""What a SoftmaxClassifier with weights on pairs trains with, alone or beside embeddings: from parameters to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from manyclass.estimators import auto
from manyclass.estimators.plans import (
    REDUCTIONS,
    Chosen,
    Open,
    batch_source,
    batches_plan,
    mean_length_of,
    mean_square_of,
    run_fields,
    schedule_of,
)
from manyclass.estimators.settle import Settled, batch_sampler, given_of, opened
from manyclass.model.postings import as_csr
from manyclass.model.weights import Matrix
from manyclass.parts import Given
from manyclass.samplers import SAMPLERS
from manyclass.solvers import SOLVERS
from manyclass.training.plan import HybridPlan, Labels, PostingsPlan
from manyclass.training.postings import OFFSET, ROUNDING

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

# Embeddings beside them, several labels a row: those that rank best alone on yso-en and eurlex57k
# (bench/bench_multilabel.py). One label: what "auto" embeds with.
RANKING, RANKING_DIM, SMOOTHING = Open(n_negatives=2048, max_iter=4, decay=0.5), 256, 5.0
# With more labels a row, in the mean, those of the decoupled softmax with the settings of one label: they gain a point
# of P@1 and P@5 on delicious, which has 19, in a third of the time, since a margin visits all classes once a label; on
# bibtex and eurlex57k, which have 2.4 and 5.1, they lose one to four (bench/notes/hybrid.md).
MANY_LABELS = 8.0

# model="auto": pairs of so few rows are left out that a row meets at most so many weights, predicted from so many of
# its features. Pairs of five rows and more do better than all on eurlex57k, whose rows meet 188,000 weights, in a third
# of the time; on yso-en, where they meet 19,000, pairs of one row are worth a point of P@1.
MOST_MET = 50_000
LEAST_COUNTS = (1, 2, 3, 5, 10, 20, 30, 50, 100)
SAMPLED_FEATURES = 256


def weights_met(x: Matrix, labels: Labels, n_classes: int) -> dict[int, float]:
    """Estimate how many weights a row meets, by the number of rows that a pair must have to get one.

    A row meets the weights of its features, which are as many as the classes that they occur with; these are counted
    for features drawn from the stored values of X. The draws are the same for equal data.
    """
    csr = as_csr(x)
    if csr.nnz == 0:
        return dict.fromkeys(LEAST_COUNTS, 0.0)
    drawn = csr.indices[np.random.default_rng(0).integers(0, csr.nnz, SAMPLED_FEATURES)]
    features, times = np.unique(drawn, return_counts=True)
    some = csr[:, features]
    ones = sp.csr_array((np.ones(some.nnz, np.int32), some.indices, some.indptr), shape=some.shape)
    lists = sp.csr_array(
        (np.ones(len(labels.ids), np.int32), labels.ids, labels.indptr), shape=(len(labels), n_classes)
    )
    together = sp.csc_array(lists.T @ ones)
    weight = np.repeat(times, np.diff(together.indptr)) / SAMPLED_FEATURES * csr.nnz / len(labels)
    return {least: float(weight[together.data >= least].sum()) for least in LEAST_COUNTS}


def least_count(met: Mapping[int, float]) -> int | None:
    """Return the least number of rows for a pair to get a weight that keeps the weights met affordable; None: none."""
    return next((least for least in LEAST_COUNTS if met[least] <= MOST_MET), None)


def settle_sparse(owner: BaseEstimator, chosen: Chosen, x: Matrix) -> Settled:
    """The plan for model="sparse"."""
    given = given_of(owner)
    where = "with model='sparse'"
    if not given.is_auto("sampler"):
        raise ValueError(
            f"sampler is {given.take('sampler')!r}, which has no effect {where}: its gradients are those of all "
            "classes; leave it 'auto'"
        )
    plan, used, inner = _postings_plan(given, chosen, x, where)
    given.refuse_rest(where)
    return Settled(plan, opened(owner, used, used["solver"], inner))


def settle_hybrid(owner: BaseEstimator, chosen: Chosen, x: Matrix, n_classes: int, *, n_labels: float) -> Settled:
    """The plan for model="hybrid"; `n_labels` a row, in the mean."""
    ranks = 1 < n_labels <= MANY_LABELS
    loss = "margin" if ranks else "cross_entropy" if n_labels == 1 else REDUCTIONS["decoupled"]
    given = given_of(owner, "dim", "n_negatives")
    where = "with model='hybrid'"
    plan, used, inner = _postings_plan(given, chosen, x, where)
    given.refuse_rest(where)
    open_, dim = (RANKING, RANKING_DIM) if ranks else (auto.EMBEDDED, auto.EMBEDDED_DIM)
    draws = SAMPLERS["uniform" if ranks else "frequency"]()
    # Of the estimator's parameters the embeddings have those that the weights have no use for.
    of_embeddings = Given(clone(owner).set_params(learning_rate="auto", max_iter="auto"))
    embeddings = batches_plan(
        of_embeddings,
        replace(chosen, solver=SOLVERS["adagrad"]()),
        x,
        n_classes,
        loss=loss,
        smoothing=SMOOTHING if ranks else 0.0,
        open_=open_,
        dim=int(of_embeddings.take("dim", dim)),
        relu=used["model"].get_params()["activation"] == "relu",
        source=batch_source(chosen.sampler, n_classes, sampled=n_classes > open_.n_negatives, draws=draws),
    )
    embeddings = replace(embeddings, seed=plan.seed)
    used |= {"dim": embeddings.dim, "sampler": batch_sampler(embeddings)}
    if embeddings.source != "exact":
        used["n_negatives"] = embeddings.n_negatives
    return Settled(HybridPlan(plan, embeddings), opened(owner, used, used["solver"], inner))


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
        # An intercept is the weight of a feature that is always 1, whatever the length of rows.
        schedule=schedule_of(of_solver, rate, INTERCEPT_SHARE * rate * square**0.5, decay),
        max_iter=int(given.take("max_iter", passes)),
        batch_size=batch_size,
        shuffle=bool(of_solver.take("shuffle")),
        share_classes=None,
        fit_intercept=bool(given.take("fit_intercept")),
        **run_fields(given),
    )
    of_solver.refuse_rest(where)
    used = {"solver": solver, "model": chosen.model, "max_iter": plan.max_iter, "learning_rate": rate}
    inner: dict[str, Any] = {"reduction": reduction}
    if plan.schedule.name == "exponential":
        inner["decay"] = plan.schedule.decay
    return plan, used, inner
