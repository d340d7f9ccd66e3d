"""Plans of a SoftmaxClassifier point by point: whole plans against values that are written from its docstring."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import by_full_passes, by_points

from manyclass import SoftmaxClassifier, models, samplers, solvers
from manyclass.checks import seed_from
from manyclass.registry import names, parts
from manyclass.training.plan import FORMULATIONS, FullBatchPlan, PointsPlan, Schedule, carry_of

N, D, K = 24, 4, 6
MEAN_SQUARE = 4.0  # of |x|^2 for rows of ones
LABELS = (np.arange(N) % K).astype(np.int32)

# The defaults of the implicit step chosen by hand, its step size being 6 / (4 + 1), the 1 being the intercept's, which
# falls to an eightieth, and its ridge a weak one; and of the others.
DECAY = 80 ** (-1 / 11)
RIDGE = 0.01 / N * MEAN_SQUARE
BASE = PointsPlan(
    solver="implicit",
    formulation="proposed",
    root="newton",
    u_init="log_n_classes",
    averaging="none",
    sampler="frequency_block",
    n_negatives=256,
    options={"power": 1.0},
    n_head=16,
    refresh=10,
    alpha=RIDGE,
    max_norm=None,
    hogwild=False,
    utility=None,
    schedule=Schedule("exponential", 1.2, 30.0, DECAY),
    max_iter=12,
    batch_size=None,
    shuffle=True,
    share_classes=None,
    fit_intercept=True,
    seed=seed_from(0),
    n_threads=1,
    verbose=0,
)
OTHERS = replace(
    BASE, alpha=0.0, n_negatives=64, options={"power": 0.75}, max_iter=20, schedule=Schedule("exponential", 0.2, 1, 0.9)
)


def planned_points(x=None, *, candidates=False, timed=False, **parameters):
    owner = SoftmaxClassifier(**{"solver": "implicit", "random_state": 0} | parameters)
    x = np.ones((N, D), dtype=np.float32) if x is None else x
    return by_points(owner, x, LABELS, K, candidates=candidates, timed=timed)


def test_what_is_carried_has_the_names_of_the_registry():
    assert list(FORMULATIONS) == names("formulation")
    assert [carry_of(name) for name in FORMULATIONS] == [0, 1]


def steps(rate, u_rate, name="exponential", decay=DECAY):
    return {"schedule": Schedule(name, rate, u_rate, decay)}


FIELDS = [
    ({}, {}),
    ({"n_negatives": 7}, {"n_negatives": 7}),
    ({"alpha": 0.25}, {"alpha": 0.25}),
    ({"max_iter": 3}, {"max_iter": 3, **steps(1.2, 30.0, decay=80**-0.5)}),
    ({"n_jobs": 3}, {"n_threads": 3}),
    ({"verbose": 1}, {"verbose": 1}),
    ({"random_state": 5}, {"seed": seed_from(5)}),
    ({"learning_rate": 0.7}, {"alpha": 0.0, **steps(0.7, 30.0)}),
    ({"learning_rate": 0.7, "alpha": 0.25}, {"alpha": 0.25, **steps(0.7, 30.0)}),
    ({"fit_intercept": False}, {"fit_intercept": False, **steps(6 / MEAN_SQUARE, 30.0)}),
    ({"solver": solvers.Implicit(decay=0.5)}, steps(1.2, 30.0, decay=0.5)),
    ({"solver": solvers.Implicit(schedule="inverse")}, steps(1.2, 30.0, "inverse")),
    ({"solver": solvers.Implicit(schedule="constant")}, steps(1.2, 30.0, "constant")),
    ({"solver": solvers.Implicit(u_learning_rate=0.4)}, steps(1.2, 0.4)),
    ({"solver": solvers.Implicit(u_learning_rate="tied")}, steps(1.2, 1.2)),
    ({"solver": solvers.Implicit(u_learning_rate="tied"), "learning_rate": 0.7}, {"alpha": 0.0, **steps(0.7, 0.7)}),
    ({"solver": solvers.Implicit(u_init="zero")}, {"u_init": "zero"}),
    ({"solver": solvers.Implicit(formulation="raman")}, {"formulation": "raman"}),
    ({"solver": solvers.Implicit(formulation=1)}, {"formulation": "raman"}),
    ({"solver": solvers.Implicit(formulation=0.0)}, {"formulation": "proposed"}),
    ({"solver": solvers.Implicit(formulation=0.4)}, {"formulation": 0.4}),
    ({"solver": solvers.Implicit(root="bisection")}, {"root": "bisection"}),
    ({"solver": solvers.Implicit(averaging="suffix")}, {"averaging": "suffix"}),
    ({"solver": solvers.Implicit(averaging="polyak")}, {"averaging": "polyak"}),
    ({"solver": solvers.Implicit(batch_size=9)}, {"batch_size": 9}),
    ({"solver": solvers.Implicit(share_classes=True)}, {"share_classes": True}),
    ({"solver": solvers.Implicit(share_classes=False)}, {"share_classes": False}),
    ({"solver": solvers.Implicit(shuffle=False)}, {"shuffle": False}),
    ({"solver": solvers.Implicit(parallel="hogwild")}, {"hogwild": True}),
    ({"solver": solvers.Implicit(max_norm=2.5)}, {"max_norm": 2.5}),
    ({"sampler": "uniform"}, {"sampler": "uniform", "options": {}}),
    ({"sampler": "block"}, {"sampler": "block", "options": {}}),
    ({"sampler": "all"}, {"sampler": "all", "options": {}}),
    ({"sampler": "frequency"}, {"sampler": "frequency", "options": {"power": 0.75}}),
    ({"sampler": samplers.Frequency(power=0.5)}, {"sampler": "frequency", "options": {"power": 0.5}}),
    ({"sampler": samplers.FrequencyBlock(power=0)}, {"options": {"power": 0.0}}),
    ({"sampler": "head_tail"}, {"sampler": "head_tail", "options": {}}),
    (
        {"sampler": samplers.HeadTail(n_head=3, refresh=2)},
        {"sampler": "head_tail", "options": {}, "n_head": 3, "refresh": 2},
    ),
]


@pytest.mark.parametrize(("parameters", "changes"), FIELDS, ids=str)
def test_each_parameter_changes_its_own_field_of_the_plan_and_no_other(parameters, changes):
    assert planned_points(**parameters).plan == replace(BASE, **changes)


# By solver: what the docstring gives for c of the learning rate, for the step of u, and the numbers that it owns. u has
# the step c where the learning rate is left open, and that of W where it is given.
BY_SOLVER = {
    "implicit": (6.0, 30.0, {}),
    "umax": (0.1, 0.1, {"delta": 1.0}),
    "sgd": (0.01, 0.01, {}),
    "exact": (1.0, 1.0, {}),
    "css": (1.0, 1.0, {}),
    "ema": (1.0, 1.0, {"gain": 0.5}),
    "augment_reduce": (1.0, 1.0, {"gain": 1.0, "gain_power": 0.9}),
    "scgd": (1.0, 1.0, {"gain": 1.0, "gain_power": 2 / 3}),
    "scent": (1.0, 0.5, {}),
    "softplus": (0.1, 0.1, {"rho": 0.5}),
    "bregman": (1.0, 0.5, {}),
    "ove": (4.0 / K, 4.0 / K, {}),
    "nce": (1.0, 1.0, {}),
    "negative_sampling": (1.0, 1.0, {}),
    "is": (1.0, 1.0, {}),
    "bouchard": (1.0, 1.0, {}),
    "minibatch_implicit": (10.0, 10.0, {}),  # the points of a batch
}
NEEDS = {"exact": {"sampler": "all", "options": {}}, "minibatch_implicit": {"sampler": "uniform", "options": {}}}


def test_each_row_is_that_of_a_solver_of_the_core():
    assert set(BY_SOLVER) <= set(names("solver"))


@pytest.mark.parametrize("solver", names("solver"))
def test_defaults_of_a_solver_are_those_of_its_docstring(solver):
    numbers = {number.name: number.default for number in parts("solver")[solver].parameters}
    c, c_of_u, own = BY_SOLVER.get(solver, (1.0, 1.0, numbers))  # a new solver has nothing of its own
    base = BASE if solver == "implicit" else OTHERS
    decay = base.schedule.decay
    changes = {"solver": solver, **steps(c / (MEAN_SQUARE + 1), c_of_u, decay=decay), **NEEDS.get(solver, {})}
    changes["options"] = own | changes.get("options", dict(base.options))
    plan = planned_points(solver=solver).plan
    assert plan == replace(base, **changes)
    given = planned_points(solver=solver, learning_rate=0.3).plan
    u_rate = {"implicit": 30.0, "bregman": 0.5, "scent": 0.5}.get(solver, 0.3)
    assert given == replace(base, **changes | {"alpha": 0.0} | steps(0.3, u_rate, decay=decay))


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        (solvers.UMax(delta=2.0), {"delta": 2.0}),
        (solvers.EMA(gain=0.1), {"gain": 0.1}),
        (solvers.Softplus(rho=0.2), {"rho": 0.2}),
    ],
    ids=repr,
)
def test_numbers_of_a_solver_and_of_its_sampler_stand_side_by_side(solver, options):
    plan = planned_points(solver=solver, sampler=samplers.Frequency(power=0.5)).plan
    assert plan.options == {**options, "power": 0.5}
    assert planned_points(solver=solver, sampler="uniform").plan.options == options


def test_a_batch_of_the_minibatch_solver_makes_its_step_as_large_as_it_has_points():
    for size, c in ((None, 10), (7, 7), (1000, N)):
        plan = planned_points(solver=solvers.MinibatchImplicit(batch_size=size)).plan
        assert plan.schedule.learning_rate == c / 5
        assert plan.batch_size == size


def test_the_adaptive_schedule_has_a_step_of_its_own_whatever_the_data():
    adaptive = {"solver": "css", **steps(0.02, 1.0, "adaptive", 0.9)}
    assert planned_points(solver=solvers.CSS(schedule="adaptive")).plan == replace(OTHERS, **adaptive)
    assert planned_points(
        10 * np.ones((N, D), dtype=np.float32), solver=solvers.CSS(schedule="adaptive", decay=1.0)
    ).plan == replace(OTHERS, **adaptive | steps(0.02, 1.0, "adaptive", 1.0))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_learning_rate_follows_the_mean_square_of_the_rows(sparse, seed):
    X = np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)
    mean = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    x = sp.csr_array(X) if sparse else X
    for fit_intercept in (False, True):
        rate = planned_points(x, fit_intercept=fit_intercept).plan.schedule.learning_rate
        assert rate == pytest.approx(6 / (mean + fit_intercept), rel=D * 2**-22)  # float32 squares of D numbers


def test_rows_of_zeros_leave_a_finite_learning_rate():
    rate = planned_points(np.zeros((N, D), dtype=np.float32), fit_intercept=False).plan.schedule.learning_rate
    assert np.isfinite(rate)
    assert rate > 0


# solver="auto"


@pytest.mark.parametrize(
    ("given", "solver"),
    [
        ({}, "exact"),
        ({"n_negatives": 3}, "implicit"),
        ({"sampler": "uniform"}, "implicit"),
        ({"candidates": True}, "implicit"),
        ({"max_iter": 5}, "exact"),
        ({"sampler": "all"}, "implicit"),
    ],
    ids=str,
)
def test_auto_samples_where_something_was_said_of_samples(given, solver):
    found = planned_points(solver="auto", **given)
    assert found.plan.solver == solver
    assert found.params["solver"].name == solver
    c, passes = {"exact": (1.0, 20), "implicit": (6.0, 12)}[solver]
    passes = given.get("max_iter", passes)
    # The exact step's size ends where 20 passes with decay 0.9 end, that of the last sampled one is an eightieth.
    decay = 0.9 ** (20 / passes) if solver == "exact" else 80 ** (-1 / (passes - 1))
    assert found.plan.schedule.decay == pytest.approx(decay, rel=1e-12)
    assert found.plan.schedule.learning_rate == c / (MEAN_SQUARE + 1)
    assert found.plan.averaging == "suffix"
    assert found.plan.max_iter == passes
    assert found.plan.alpha == 0.01 / N * MEAN_SQUARE  # too few points for trials


def test_what_was_open_is_told_and_what_was_given_is_not():
    found = planned_points()
    assert set(found.params) == {"solver", "sampler", "model", "n_negatives", "alpha", "learning_rate", "max_iter"}
    inner = found.params["solver"].get_params()
    assert (inner["averaging"], inner["u_learning_rate"], inner["decay"]) == ("none", 30.0, DECAY)
    assert found.params["sampler"].get_params() == {"power": 1.0}
    assert (found.params["n_negatives"], found.params["alpha"], found.params["max_iter"]) == (256, RIDGE, 12)
    given = planned_points(
        solver=solvers.UMax(decay=0.5, averaging="none", u_learning_rate=1.0, formulation="proposed"),
        sampler="uniform",
        model=models.Linear(scaling="none"),
        n_negatives=2,
        alpha=0.5,
        learning_rate=0.1,
        max_iter=2,
    )
    assert given.params == {}
    exact = planned_points(solver="exact")
    assert set(exact.params) == {"solver", "model", "alpha", "learning_rate", "max_iter"}


# What is refused.

REFUSED = [
    ({"solver": solvers.Implicit(schedule="adaptive")}, "schedule='adaptive' needs a solver with explicit steps"),
    ({"solver": solvers.CSS(schedule="adaptive"), "alpha": 0.1}, "alpha=0 and max_norm=None; they are 'css', 0.1 and"),
    ({"solver": solvers.CSS(schedule="adaptive", max_norm=1.0)}, "they are 'css', 0.0 and 1.0"),
    ({"solver": solvers.Implicit(max_norm=1.0, parallel="hogwild")}, "they are 'hogwild' and None"),
    ({"solver": solvers.Implicit(max_norm=1.0, batch_size=4)}, "they are 'deterministic' and 4"),
    ({"solver": solvers.CSS(decay_every=9)}, "decay_every is 9, which has no effect with schedule='exponential'"),
    ({"solver": solvers.Implicit(max_norm=1.0, formulation="raman")}, "max_norm needs formulation='proposed'"),
    ({"solver": solvers.Implicit(batch_size=4, parallel="hogwild")}, "batch_size is 4; with parallel='hogwild'"),
    ({"solver": "is", "sampler": "head_tail"}, "solver='is' draws the label too, which sampler='head_tail' cannot"),
    ({"solver": "nce", "sampler": "head_tail"}, "solver='nce' draws the label too"),
    ({"solver": "exact", "sampler": "uniform"}, "sampler is 'uniform'; solver 'exact' needs 'all'"),
    ({"solver": "minibatch_implicit", "sampler": "block"}, "solver 'minibatch_implicit' needs 'uniform'"),
    ({"solver": solvers.Implicit(schedule="inverse", decay=0.5)}, "decay is 0.5, which has no effect with schedule"),
    ({"solver": solvers.Implicit(schedule="constant", decay=0.5)}, "decay is 0.5, which has no effect with schedule"),
    ({"solver": solvers.CSS(log_q=False)}, "log_q is False, which has no effect without embeddings or several labels"),
    ({"sampler": "all", "n_negatives": 4}, "n_negatives is 4, which has no effect with solver='implicit', sampler='al"),
    ({"sampler": "all", "solver": solvers.Implicit(share_classes=True)}, "implicit: share_classes is True, which has"),
    ({"validation_fraction": 0.2}, "validation_fraction is 0.2, which has no effect with solver='implicit'"),
    ({"dim": 3}, "dim is 3, which needs model='embedding'"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_no_loop_has_and_what_has_no_effect_is_refused(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        planned_points(**parameters)


def test_numbers_of_early_stopping_are_taken_with_it():
    plan = planned_points(early_stopping=True, validation_fraction=0.2, n_iter_no_change=2).plan
    assert plan == BASE


# L-BFGS

FULL = FullBatchPlan(loss="softmax", alpha=1 / N, tol=1e-6, max_iter=10_000, fit_intercept=True, n_threads=1, verbose=0)


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({}, {}),
        ({"solver": solvers.LBFGS(loss="ove")}, {"loss": "ove"}),
        ({"solver": solvers.LBFGS(loss="bouchard")}, {"loss": "bouchard"}),
        ({"solver": solvers.LBFGS(tol=0.5)}, {"tol": 0.5}),
        ({"alpha": 0.5}, {"alpha": 0.5}),
        ({"max_iter": 7}, {"max_iter": 7}),
        ({"fit_intercept": False}, {"fit_intercept": False}),
        ({"n_jobs": 2, "verbose": 1, "random_state": 3}, {"n_threads": 2, "verbose": 1}),
    ],
    ids=str,
)
def test_each_parameter_of_full_passes_changes_its_own_field(parameters, changes):
    owner = SoftmaxClassifier(**{"solver": "lbfgs"} | parameters)
    x = np.ones((N, D), dtype=np.float32)
    found = by_full_passes(owner, x, LABELS, K)
    assert found.plan == replace(FULL, **changes)
    assert found.params.pop("model").get_params() == {"scaling": "none"}
    opened = {"alpha": 1 / N, "max_iter": 10_000}
    assert found.params == {name: value for name, value in opened.items() if name not in parameters}
    assert found.alpha_path == {}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sampler": "uniform"}, "sampler is 'uniform', which has no effect with solver='lbfgs'"),
        ({"n_negatives": 3}, "n_negatives is 3, which has no effect with solver='lbfgs'"),
        ({"learning_rate": 0.1}, "learning_rate is 0.1, which has no effect with solver='lbfgs'"),
        ({"model": "embedding"}, "model is 'embedding'; with solver='lbfgs' it must be 'linear'"),
        ({"validation_fraction": 0.2}, "validation_fraction is 0.2, which has no effect with solver='lbfgs'"),
        ({"dim": 3}, "dim is 3, which needs model='embedding'"),
    ],
    ids=str,
)
def test_full_passes_refuse_what_is_of_steps(parameters, message):
    owner = SoftmaxClassifier(**{"solver": "lbfgs"} | parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        by_full_passes(owner, np.ones((N, D), dtype=np.float32), LABELS, K)
