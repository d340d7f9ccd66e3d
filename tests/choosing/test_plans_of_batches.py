"""Plans of minibatches and of augment and reduce: whole plans against values that are written from the docstrings."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import by_batches

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SoftmaxClassifier,
    models,
    samplers,
    solvers,
)
from manyclass.checks import seed_from
from manyclass.choosing.costs import Facts
from manyclass.figures import FIGURES
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.plan import BatchesPlan, PointsPlan, Schedule

N, D, K = 20, 4, 6
ONES = np.ones((N, D), dtype=np.float32)  # |x|^2 is 4


def schedule(rate, u_rate, name="exponential", decay=0.9):
    return {"schedule": Schedule(name, rate, u_rate, decay)}


# SoftmaxClassifier(model="embedding") but for passes: the embeddings' step is 1.5 times that of W, lengths count as 1.
SOFTMAX = BatchesPlan(
    loss="cross_entropy",
    smoothing=0.0,
    implicit=False,
    adagrad=True,
    source="exact",
    sampler="frequency",
    options={"power": 0.75},
    n_negatives=1024,
    log_q=True,
    index=None,
    budget=1,
    warm_up=1,
    dim=192,
    relu=False,
    schedule=Schedule("exponential", 1.0, 1.5, 0.9),
    max_iter=10,
    batch_size=None,
    shuffle=True,
    share_classes=None,
    fit_intercept=True,
    seed=seed_from(0),
    n_threads=1,
    verbose=0,
)
UNIFORM = {"source": "sampled", "sampler": "uniform", "options": {}}
EMBEDDED = replace(SOFTMAX, max_iter=5, **schedule(1.0, 1.5, decay=0.7))
MORE = {"max_iter": 10}  # passes of what is no embedding by Adagrad's steps
EXACT = MORE | {"adagrad": False, **schedule(1.0, 1.5)}


def softmax(x=ONES, *, embeds=False, n_classes=K, **parameters):
    owner = SoftmaxClassifier(**{"model": "embedding", "random_state": 0} | parameters)
    return by_batches(owner, x, n_classes, embeds=embeds)


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({}, {}),
        ({"dim": 3}, {"dim": 3}),
        ({"model": models.Embedding(activation="relu")}, {"relu": True}),
        ({"model": "linear"}, MORE | {"dim": None, **schedule(0.5, 0.75)}),
        ({"model": "auto"}, MORE | {"dim": None, **schedule(0.5, 0.75)}),
        ({"learning_rate": 0.2}, schedule(0.2, 0.2 * 1.5, decay=0.7)),
        ({"max_iter": 3}, {"max_iter": 3}),
        ({"fit_intercept": False}, {"fit_intercept": False}),
        ({"n_jobs": 2, "verbose": 1}, {"n_threads": 2, "verbose": 1}),
        ({"random_state": 4}, {"seed": seed_from(4)}),
        ({"alpha": 0}, {}),
        ({"solver": solvers.Adagrad(decay=0.8)}, schedule(1.0, 1.5, decay=0.8)),
        ({"solver": solvers.Adagrad(schedule="inverse")}, schedule(1.0, 1.5, "inverse", 0.7)),
        ({"solver": solvers.Adagrad(schedule="constant")}, schedule(1.0, 1.5, "constant", 0.7)),
        ({"solver": solvers.Adagrad(batch_size=7)}, {"batch_size": 7}),
        ({"solver": solvers.Adagrad(shuffle=False)}, {"shuffle": False}),
        ({"solver": "exact"}, MORE | {"adagrad": False, **schedule(0.5, 0.75)}),
        ({"solver": "exact", "fit_intercept": False}, EXACT | {"fit_intercept": False}),
        ({"solver": "exact", "model": "linear"}, MORE | {"adagrad": False, "dim": None, **schedule(0.2, 0.2 * 1.5)}),
        ({"sampler": "all"}, {}),
        ({"sampler": "uniform"}, UNIFORM),
        ({"sampler": "block"}, UNIFORM | {"sampler": "block"}),
        ({"sampler": samplers.Frequency(power=0.5)}, {"source": "sampled", "options": {"power": 0.5}}),
        ({"sampler": "frequency_block"}, {"source": "sampled", "sampler": "frequency_block"}),
        ({"sampler": "uniform", "n_negatives": 2}, UNIFORM | {"n_negatives": 2}),
        ({"sampler": "uniform", "solver": solvers.Adagrad(log_q=False)}, UNIFORM | {"log_q": False}),
        ({"sampler": "uniform", "solver": solvers.Adagrad(share_classes=False)}, UNIFORM | {"share_classes": False}),
        ({"sampler": "uniform", "solver": solvers.Adagrad(share_classes=True)}, UNIFORM | {"share_classes": True}),
        ({"sampler": "uniform", "solver": "css"}, UNIFORM | MORE | {"adagrad": False, **schedule(0.5, 0.75)}),
        ({"sampler": "search"}, {"source": "mips"}),
        ({"sampler": samplers.Search(index="decomposed")}, {"source": "decomposed"}),
        ({"sampler": samplers.Search(index="messages", budget=3)}, {"source": "messages", "budget": 3}),
        (
            {"sampler": samplers.Search(index="messages", n_iter=5, step="frank_wolfe", tolerance=0.0)},
            {"source": "messages", "n_iter": 5, "step": "frank_wolfe", "tolerance": 0.0},
        ),
        (
            {"sampler": samplers.Search(index="messages", rule="printed", threshold=0.5)},
            {"source": "messages", "message_rule": "printed", "threshold": 0.5},
        ),
        ({"sampler": samplers.Search(fill=True)}, {"source": "mips", "fill": True}),
        (
            {"solver": solvers.Exact(schedule="inverse", decay_every=3)},
            MORE | {"adagrad": False, "schedule": Schedule("inverse", 0.5, 0.75, 0.9, 3)},
        ),
        ({"sampler": samplers.Search(budget=1000)}, {"source": "mips", "budget": K}),
        ({"sampler": samplers.Search(warm_up=4)}, {"source": "mips", "warm_up": 4}),
        ({"sampler": samplers.Search(warm_up=0)}, {"source": "mips", "warm_up": 0}),
        ({"sampler": "search", "n_negatives": 9}, {"source": "mips", "n_negatives": 9}),
    ],
    ids=str,
)
def test_each_parameter_changes_its_own_field_of_the_softmaxs_minibatches(parameters, changes):
    assert softmax(**parameters).plan == replace(EMBEDDED, **changes)


def test_an_index_given_as_an_example_goes_down_as_it_is():
    for index, source in ((SphericalClusterIndex(n_probe=3), "mips"), (DecomposedIndex(2), "decomposed")):
        plan = softmax(sampler=samplers.Search(index=index)).plan
        assert plan.index is index
        assert plan.source == source


@pytest.mark.parametrize(("n_classes", "budget"), [(100, 1), (101, 2), (250, 3), (100_000, 1000)])
def test_a_search_returns_a_hundredth_of_the_classes_rounded_up(n_classes, budget):
    assert softmax(sampler="search", n_classes=n_classes).plan.budget == budget


@pytest.mark.parametrize(("n_classes", "source"), [(8192, "exact"), (8193, "sampled")])
def test_up_to_8192_classes_are_all_scored_by_default(n_classes, source):
    found = softmax(n_classes=n_classes)
    assert found.plan.source == source
    assert found.plan.sampler == "frequency"
    assert found.params["sampler"].name == {"exact": "all", "sampled": "frequency"}[source]
    assert ("n_negatives" in found.params) == (source == "sampled")


def test_embeddings_that_were_chosen_have_passes_and_a_decay_of_their_own():
    found = softmax(embeds=True, model="auto")
    assert (found.plan.max_iter, found.plan.schedule.decay) == FIGURES.EMBEDDED_PASSES
    assert found.plan.double_sum.rule == "scent"  # without bias
    assert (
        (found.params["dim"], found.params["model"].name) == (FIGURES.EMBEDDED_DIM, "embedding") == (192, "embedding")
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_the_learning_rate_of_linear_minibatches_follows_the_lengths_of_the_rows(sparse, seed):
    X = np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)
    mean = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    x = sp.csr_array(X) if sparse else X
    tight = N * D * 2**-23  # a float32 dot product of all values
    adagrad = softmax(x, model="linear").plan.schedule.learning_rate
    plain = softmax(x, model="linear", solver="exact").plan.schedule.learning_rate
    assert adagrad == pytest.approx(mean**-0.5, rel=tight)
    assert plain == pytest.approx(1 / (mean + 1), rel=tight)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "bregman"}, "solver is 'bregman'; with several labels, embeddings or a search it must be one of"),
        ({"learning_rate": "grid"}, "learning_rate is 'grid', which needs a linear model of one label a row"),
        ({"sampler": "head_tail"}, "sampler is 'head_tail', which needs a linear model of one label a row"),
        ({"solver": "exact", "sampler": "uniform"}, "sampler is 'uniform'; solver 'exact' needs 'all'"),
        ({"solver": solvers.CSS(schedule="adaptive"), "sampler": "uniform"}, "schedule is 'adaptive'"),
        ({"solver": solvers.Adagrad(schedule="adaptive")}, "schedule is 'adaptive'; it must be one of 'exponential', "),
        ({"solver": solvers.CSS(averaging="polyak")}, "css: averaging is 'polyak', which has no effect"),
        ({"solver": solvers.CSS(max_norm=1.0)}, "css: max_norm is 1.0, which has no effect"),
        ({"solver": solvers.Adagrad(schedule="constant", decay=0.5)}, "decay is 0.5, which has no effect"),
        ({"solver": solvers.Adagrad(log_q=False)}, "adagrad: log_q is False, which has no effect"),
        ({"solver": solvers.Adagrad(share_classes=True)}, "adagrad: share_classes is True, which has no effect"),
        ({"n_negatives": 3}, "n_negatives is 3, which has no effect with several labels, embeddings or a search"),
        ({"sampler": samplers.Search(warm_up=0), "n_negatives": 3}, "n_negatives is 3, which has no effect"),
        ({"model": "linear", "dim": 3}, "dim is 3, which has no effect"),
        ({"validation_fraction": 0.2}, "validation_fraction is 0.2, which has no effect"),
    ],
    ids=str,
)
def test_minibatches_refuse_what_they_do_not_read(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        softmax(**parameters)


# MarginClassifier

MARGIN = replace(
    SOFTMAX,
    loss="margin",
    smoothing=1.0,
    sampler="uniform",
    options={},
    n_negatives=256,
    log_q=False,
    budget=K,  # 64, and no more than there are
    dim=None,
    schedule=Schedule("exponential", 0.5, 0.25, 0.9),
)


def margin(**parameters):
    owner = MarginClassifier(**{"random_state": 0} | parameters)
    return owner._plans().plan(Facts.of(ONES, K)).plan


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({}, {}),
        ({"smoothing": 3.0}, {"smoothing": 3.0}),
        ({"smoothing": 0}, {"smoothing": 0.0}),
        ({"loss": "triplet"}, {"loss": "triplet", "smoothing": 0.0, "budget": 1}),
        ({"max_iter": 3}, {"max_iter": 3}),
        ({"learning_rate": 0.2}, schedule(0.2, 0.1)),
        ({"fit_intercept": False, "n_jobs": 2}, {"fit_intercept": False, "n_threads": 2}),
        ({"solver": "sgd"}, {"adagrad": False, **schedule(0.2, 0.1)}),
        ({"solver": "implicit"}, {"adagrad": False, "implicit": True, **schedule(0.2, 0.1)}),
        ({"solver": solvers.Adagrad(decay=0.5, batch_size=3)}, {"batch_size": 3, **schedule(0.5, 0.25, decay=0.5)}),
        (
            {"solver": solvers.SGD(schedule="inverse", shuffle=False), "learning_rate": 1.0},
            {"adagrad": False, "shuffle": False, **schedule(1.0, 0.5, "inverse")},
        ),
        ({"model": "embedding"}, {"dim": 192, **schedule(1.0, 0.5)}),
        ({"model": models.Embedding(activation="relu"), "dim": 5}, {"dim": 5, "relu": True, **schedule(1.0, 0.5)}),
        ({"sampler": "uniform", "n_negatives": 2}, {"source": "sampled", "n_negatives": 2}),
        (
            {"sampler": samplers.FrequencyBlock(power=0.5)},
            {"source": "sampled", "sampler": "frequency_block", "options": {"power": 0.5}},
        ),
        (
            {"sampler": "uniform", "solver": solvers.Adagrad(share_classes=False)},
            {"source": "sampled", "share_classes": False},
        ),
        (
            {"sampler": samplers.Search(index="decomposed", budget=2, warm_up=3)},
            {"source": "decomposed", "budget": 2, "warm_up": 3},
        ),
    ],
    ids=str,
)
def test_each_parameter_changes_its_own_field_of_a_margins_minibatches(parameters, changes):
    assert margin(**parameters) == replace(MARGIN, **changes)


def test_a_margin_searches_64_classes_by_default():
    assert FIGURES.MARGIN_BUDGET == 64
    owner = MarginClassifier(sampler="search")
    X = np.ones((200, 2), dtype=np.float32)
    assert owner._plans().plan(Facts.of(X, 100)).plan.budget == 64


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "triplet", "smoothing": 2.0}, "smoothing is 2.0, which has no effect here"),
        ({"loss": "triplet", "solver": "implicit"}, "solver='implicit' needs loss='margin' and no embeddings"),
        ({"model": "embedding", "solver": "implicit"}, "solver='implicit' needs loss='margin' and no embeddings"),
        ({"solver": solvers.SGD(u_learning_rate=2.0)}, "sgd: u_learning_rate is 2.0, which has no effect"),
        ({"solver": solvers.Implicit(root="bisection")}, "implicit: root is 'bisection', which has no effect"),
        ({"sampler": "uniform", "solver": solvers.Adagrad(log_q=False)}, "adagrad: log_q is False, which has no"),
        ({"dim": 4}, "dim is 4, which has no effect here"),
        ({"n_negatives": 4}, "n_negatives is 4, which has no effect here"),
    ],
    ids=str,
)
def test_a_margin_refuses_what_it_does_not_read(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        margin(**parameters)


# AugmentReduceClassifier

UTILITY = PointsPlan(
    solver="implicit",
    averaging="none",
    sampler="frequency_block",
    n_negatives=64,
    options={"power": 0.75},
    alpha=0.0,
    schedule=Schedule("exponential", 0.2, 0.2, 0.9),
    max_iter=20,
    batch_size=None,
    shuffle=True,
    share_classes=None,
    fit_intercept=True,
    seed=seed_from(0),
    n_threads=1,
    verbose=0,
)


def utility(**parameters):
    """The plan without its utility, and that."""
    owner = AugmentReduceClassifier(**{"random_state": 0} | parameters)
    plan = owner._plans().plan(Facts.of(ONES, K))
    return replace(plan, utility=None), plan.utility


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({}, {}),
        ({"alpha": 0.5, "max_iter": 2}, {"alpha": 0.5, "max_iter": 2}),
        ({"n_negatives": 5}, {"n_negatives": 5}),
        ({"fit_intercept": False}, {"fit_intercept": False, **schedule(0.25, 0.25)}),
        ({"learning_rate": 0.7}, schedule(0.7, 0.7)),
        ({"n_jobs": 2, "verbose": 1, "random_state": 4}, {"n_threads": 2, "verbose": 1, "seed": seed_from(4)}),
        ({"solver": "sgd"}, {"solver": "sgd", **schedule(0.01 / 5, 0.01 / 5)}),
        ({"solver": "sgd", "noise": "logistic"}, {"solver": "sgd", **schedule(0.2, 0.2)}),
        ({"solver": "sgd", "noise": "gumbel"}, {"solver": "sgd", **schedule(0.2, 0.2)}),
        ({"solver": solvers.SGD(schedule="adaptive")}, {"solver": "sgd", **schedule(0.02, 0.02, "adaptive")}),
        ({"solver": solvers.Implicit(averaging="suffix")}, {"averaging": "suffix"}),
        ({"solver": solvers.Implicit(decay=0.5)}, schedule(0.2, 0.2, decay=0.5)),
        (
            {"solver": solvers.Implicit(batch_size=3, shuffle=False, share_classes=True)},
            {"batch_size": 3, "shuffle": False, "share_classes": True},
        ),
        ({"solver": solvers.Implicit(parallel="hogwild")}, {"hogwild": True}),
        ({"sampler": "uniform"}, {"sampler": "uniform", "options": {}}),
        (
            {"sampler": samplers.HeadTail(n_head=3, refresh=2)},
            {"sampler": "head_tail", "options": {}, "n_head": 3, "refresh": 2},
        ),
        (
            {"posterior": "gaussian", "alpha": 0.5},
            {"posterior": True, "sampler": "uniform", "options": {}, "alpha": 0.5},
        ),
        (
            {"posterior": "gaussian", "alpha": 0.5, "sampler": "all"},
            {"posterior": True, "sampler": "all", "options": {}, "alpha": 0.5},
        ),
    ],
    ids=str,
)
def test_each_parameter_changes_its_own_field_of_augment_and_reduce(parameters, changes):
    assert utility(**parameters)[0] == replace(UTILITY, **changes)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, ("normal", "natural", "normal", 3)),
        ({"noise": "logistic"}, ("logistic", "natural", "gumbel", 4)),
        ({"noise": "logistic", "local_step": "monte_carlo"}, ("logistic", "monte_carlo", "logistic", 5)),
        ({"local_step": "monte_carlo"}, ("normal", "monte_carlo", "normal", 3)),
        ({"local_step": solvers.Natural(family="logistic")}, ("normal", "natural", "logistic", 5)),
        ({"local_step": solvers.Natural(n_nodes=7)}, ("normal", "natural", "normal", 7)),
        ({"noise": "gumbel"}, ("gumbel", "natural", None, None)),
    ],
    ids=str,
)
def test_noise_local_step_and_family_are_as_the_docstring_says(parameters, expected):
    found = utility(**parameters)[1]
    family = (None, None) if found.family is None else (found.family.name, len(found.family.nodes))
    assert (found.noise, found.local_step, *family) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"n_negatives": 2}, (1.0, 0.9, 2 / (K - 1))),
        ({"noise": "gumbel", "local_step": solvers.Natural(gain=0.5, gain_power=0.0, floor=0)}, (0.5, 0.0, 0.0)),
        ({"local_step": solvers.Natural(floor=0.25)}, (1.0, 0.9, 0.25)),
        ({"local_step": "monte_carlo"}, (0.01, 0.9, 0.0)),
        ({"local_step": solvers.MonteCarlo(gain=2.0, gain_power=1.0)}, (2.0, 1.0, 0.0)),
    ],
    ids=str,
)
def test_gains_of_local_steps_are_the_papers_or_given(parameters, expected):
    found = utility(**parameters)[1]
    assert (found.gain, found.gain_power, found.floor) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": solvers.Implicit(max_norm=1.0)}, "max_norm is 1.0, which has no effect with augment and reduce"),
        (
            {"solver": solvers.SGD(schedule="adaptive", averaging="polyak")},
            "schedule='adaptive' needs averaging='none'",
        ),
        ({"solver": solvers.Implicit(schedule="adaptive")}, "schedule='adaptive' needs a solver with explicit steps"),
        ({"solver": solvers.Implicit(u_learning_rate=2.0)}, "implicit: u_learning_rate is 2.0, which has no effect"),
        ({"solver": solvers.Implicit(formulation="raman")}, "implicit: formulation is 'raman', which has no effect"),
        ({"noise": "gumbel", "local_step": "monte_carlo"}, "local_step is 'monte_carlo'; with noise='gumbel' it must"),
        (
            {"noise": "gumbel", "local_step": solvers.Natural(n_nodes=3)},
            "local_step: n_nodes is 3, which has no effect",
        ),
        ({"sampler": "all", "n_negatives": 3}, "n_negatives is 3, which has no effect here"),
        ({"posterior": "gaussian"}, "posterior='gaussian' needs solver='implicit', alpha > 0 and local_step='natural'"),
        (
            {"posterior": "gaussian", "alpha": 1.0, "local_step": solvers.Natural(gain_power=0.5)},
            "local_step: gain_power is 0.5, which has no effect with posterior='gaussian'",
        ),
        ({"posterior": "gaussian", "alpha": 1.0, "solver": "sgd"}, "they are 'sgd', 1.0 and 'natural'"),
        ({"posterior": "gaussian", "alpha": 1.0, "sampler": "block"}, "it must be 'uniform' or 'all'"),
        ({"posterior": "gaussian", "alpha": 1.0, "solver": solvers.Implicit(shuffle=False)}, "shuffle is False, which"),
    ],
    ids=str,
)
def test_augment_and_reduce_refuses_what_it_does_not_read(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        utility(**parameters)
