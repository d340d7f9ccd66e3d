"""What a SoftmaxClassifier with model="sparse" trains with: from its parameters to a plan with nothing left open."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from manyclass.estimators.plans import REDUCTIONS, Chosen, mean_square_of, run_fields, schedule_of
from manyclass.estimators.settle import Settled, given_of, opened
from manyclass.model.weights import Matrix
from manyclass.models import MODELS
from manyclass.parts import Given
from manyclass.solvers import SOLVERS
from manyclass.training.plan import PostingsPlan
from manyclass.training.postings import OFFSET, ROUNDING

# For rows of length 1. By P@1 on yso-en, all labels; larger steps, and more passes, fit rows that are not seen worse.
RATE, DECAY, PASSES = 3.0, 0.4, 2
# The rate of the intercepts, which start at the log of the classes' frequencies, over that of the weights.
INTERCEPT_SHARE = 0.05


def settle_sparse(owner: BaseEstimator, chosen: Chosen, x: Matrix) -> Settled:
    """The plan for model="sparse"."""
    given = given_of(owner)
    model = chosen.model or MODELS["sparse"]()
    where = f"with model={model.name!r}"
    solver = chosen.solver or SOLVERS["adagrad"]()
    if solver.name != "adagrad":
        raise ValueError(f"solver is {solver.name!r}; {where} it must be 'adagrad'")
    _refuse_what_is_exact(given, where)
    of_solver, of_model = Given(solver, "adagrad: "), Given(model, f"{model.name}: ")
    hogwild = of_solver.take("parallel") == "hogwild"
    batch_size = of_solver.take("batch_size")
    if hogwild and batch_size is not None:
        raise ValueError(f"batch_size is {batch_size!r}; with parallel='hogwild' it must be None")
    reduction = str(of_solver.take("reduction", "decoupled"))
    square = mean_square_of(x)
    rate = float(given.take("learning_rate", RATE / square**0.5))
    # An intercept is the weight of a feature that is always 1, whatever the length of rows.
    schedule = schedule_of(of_solver, rate, INTERCEPT_SHARE * rate * square**0.5, DECAY)
    plan = PostingsPlan(
        loss=REDUCTIONS[reduction],
        offset=OFFSET * square,
        rounding=ROUNDING,
        min_count=int(of_model.take("min_count")),
        prune=float(of_model.take("prune")),
        hogwild=hogwild,
        schedule=schedule,
        max_iter=int(given.take("max_iter", PASSES)),
        batch_size=batch_size,
        shuffle=bool(of_solver.take("shuffle")),
        share_classes=None,
        fit_intercept=bool(given.take("fit_intercept")),
        **run_fields(given),
    )
    of_solver.refuse_rest(where)
    given.refuse_rest(where)
    used: dict[str, Any] = {"solver": solver, "model": model, "max_iter": plan.max_iter, "learning_rate": rate}
    inner: dict[str, Any] = {"reduction": reduction}
    if plan.schedule.name == "exponential":
        inner["decay"] = plan.schedule.decay
    return Settled(plan, opened(owner, used, solver, inner))


def _refuse_what_is_exact(given: Given, where: str) -> None:
    """Raise for what has no effect where the gradient is that of all classes."""
    if not given.is_auto("sampler"):
        raise ValueError(
            f"sampler is {given.take('sampler')!r}, which has no effect {where}: its gradients are those of all "
            "classes; leave it 'auto'"
        )
    if given.take("alpha") not in ("auto", 0):
        raise ValueError(
            f"alpha is {given.take('alpha')!r}, which has no effect {where}: its passes are few, and a ridge did not "
            "help it; leave it 'auto'"
        )
    if given.take("learning_rate") == "grid":
        raise ValueError("learning_rate is 'grid', which needs a linear model of one label a row; set a number")
