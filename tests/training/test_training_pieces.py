"""Pieces of training between a plan and the core: batches, orders of classes, averages, bounds of u, validation."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import points_of_arrays
from test_epoch import assert_fit_equals_twin, small_problem
from test_plans_of_batches import SOFTMAX as BATCHES
from test_plans_of_points import BASE as POINTS

from manyclass import AugmentReduceClassifier, _core, solvers
from manyclass.checks import n_threads_from, row_norms_sq, seed_from
from manyclass.choosing.costs import Facts
from manyclass.training import plan as plans
from manyclass.training import points
from manyclass.training.minibatches import BatchesTraining
from manyclass.training.passes import Validation, fork
from manyclass.training.plan import Schedule, held_out
from manyclass.training.points import Memory, PointsTraining, batch_size_of, class_order, first_local_state
from manyclass.weights.weights import Weights


def labels_of(n, n_classes):
    """As many points of each class as of another, or one more."""
    return (np.arange(n) % n_classes).astype(np.int32)


def nine_points():
    return points_of_arrays(np.ones((9, 2), dtype=np.float32), labels_of(9, 7), 7)


# Points that see the same weights


@pytest.mark.parametrize(
    ("changes", "n_classes", "expected"),
    [
        ({}, 1023, 1),  # too few classes
        ({}, 1024, 16),  # one point for 64 classes
        ({}, 1087, 16),
        ({}, 1088, 17),
        ({}, 4096, 64),
        ({}, 5000, 64),  # the most
        ({"sampler": "all"}, 4096, 4),
        ({"solver": "exact"}, 4096, 4),
        ({"max_norm": 1.0}, 4096, 1),
        ({"batch_size": 7}, 50, 7),
        ({"batch_size": 10**9}, 50, 100),  # all points
        ({"batch_size": 7, "solver": "minibatch_implicit"}, 50, 7),
        ({"solver": "minibatch_implicit"}, 50, 10),
    ],
    ids=str,
)
def test_points_that_share_weights_are_few_against_the_classes(changes, n_classes, expected):
    n = 2 * n_classes
    assert batch_size_of(replace(POINTS, **changes), labels_of(n, n_classes), n_classes) == expected


def test_the_most_frequent_label_comes_about_once_a_batch():
    labels = labels_of(8192, 4096)
    labels[:1024] = 5  # one point in eight, and two more
    assert batch_size_of(POINTS, labels, 4096) == 8192 // 1026
    labels[:] = 5
    assert batch_size_of(POINTS, labels, 4096) == 1
    few = np.array([0, 1, 2], dtype=np.int32)
    assert batch_size_of(replace(POINTS, solver="minibatch_implicit"), few, 3) == 3


@pytest.mark.parametrize(
    ("n_classes", "batch_size", "n", "expected"),
    [
        (6, None, 100, 1),
        (31, None, 100, 1),
        (32, None, 100, 2),
        (512, None, 100, 32),
        (9999, None, 100, 32),
        (9999, None, 20, 20),
        (6, 50, 100, 50),
        (6, 500, 100, 100),
    ],
)
def test_minibatches_have_a_point_for_sixteen_classes_up_to_32(n_classes, batch_size, n, expected):
    x = np.ones((n, 2), dtype=np.float32)
    plan = replace(BATCHES, dim=None, batch_size=batch_size)
    assert BatchesTraining(plan, points_of_arrays(x, labels_of(n, 6), n_classes)).batch == expected


# The order of the classes


@pytest.mark.parametrize("changes", [{}, {"solver": "exact", "sampler": "all"}], ids=["frequency_block", "exact"])
def test_frequent_classes_stand_first_and_equals_in_a_random_order(changes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 30, 200).astype(np.int32) ** 2 // 30
    counts = np.bincount(labels, minlength=31)
    plan = replace(POINTS, seed=seed, **changes)
    order = class_order(plan, np.bincount(labels, minlength=31), 31)
    assert sorted(order) == list(range(31))
    assert (np.diff(counts[order]) <= 0).all()
    random = _core.class_order(31, seed).tolist()
    for a, b in itertools.pairwise(order):
        assert counts[a] > counts[b] or random.index(a) < random.index(b)


@pytest.mark.parametrize("sampler", ["uniform", "block", "frequency", "head_tail", "all"])
def test_other_samplers_see_the_classes_in_a_random_order(sampler, seed):
    order = class_order(replace(POINTS, sampler=sampler, seed=seed), np.bincount(labels_of(50, 20)), 20)
    np.testing.assert_array_equal(order, _core.class_order(20, seed))


# What is kept beside the weights


def memory(seconds=1e9, n_classes=5, **changes):
    weights = Weights.zeros(n_classes, 3, by_feature=False)
    plan = replace(POINTS, max_iter=8, **{"alpha": 0.0, **changes})
    return Memory(plan, weights, batch=1, pass_seconds=seconds), weights


@pytest.mark.parametrize(
    ("changes", "filled"),
    [
        ({}, set()),
        ({"alpha": 0.1}, {"scale"}),
        ({"max_norm": 1.0}, {"scale", "norm_sq"}),
        ({"averaging": "polyak"}, {"total", "intercept_total"}),
        ({"schedule": Schedule("adaptive", 1, 1, 1)}, {"squares", "intercept_squares"}),
        ({"schedule": Schedule("adaptive", 1, 1, 1), "fit_intercept": False}, {"squares"}),
    ],
    ids=["nothing", "ridge", "norms", "average", "squares", "squares without intercepts"],
)
def test_memory_is_taken_for_what_is_switched_on_and_for_nothing_else(changes, filled):
    made, weights = memory(**changes)
    names = ("scale", "norm_sq", "total", "intercept_total", "squares", "intercept_squares")
    assert {name for name in names if getattr(made, name).size} == filled
    for name in ("total", "squares"):
        assert getattr(made, name).size in (0, weights.matrix.size)
    if made.scale.size:
        np.testing.assert_array_equal(made.scale, np.ones(5))


@pytest.mark.parametrize(
    ("averaging", "max_iter", "averaged"),
    [
        ("none", 8, []),
        ("polyak", 4, [1, 2, 3, 4]),
        ("suffix", 4, [3, 4]),
        ("suffix", 5, [3, 4, 5]),
        ("suffix", 1, [1]),
        ("polyak", 1, [1]),
    ],
)
def test_iterates_after_these_passes_are_averaged(averaging, max_iter, averaged):
    made = Memory(
        replace(POINTS, averaging=averaging, max_iter=max_iter),
        Weights.zeros(4, 3, by_feature=True),
        batch=1,
        pass_seconds=1e9,
    )
    assert sorted(made.averaged) == averaged


def test_wide_weights_are_averaged_as_rarely_as_a_tenth_of_the_time_allows():
    weights = Weights.zeros(4, 3, by_feature=False)
    sum_seconds = 4e-10 * weights.matrix.size  # as the core's seconds_per_summed
    plan = replace(POINTS, averaging="polyak", max_iter=10)
    for passes_between in (1, 2, 3, 10, 100):
        # Summed once in so many passes, it takes just a tenth of their time.
        made = Memory(plan, weights, batch=1, pass_seconds=sum_seconds / (0.1 * passes_between) * (1 + 1e-9))
        assert list(made.averaged) == list(range(10, 0, -passes_between))


def test_an_average_is_left_as_the_model_with_its_intercepts(seed):
    rng = np.random.default_rng(seed)
    made, weights = memory(averaging="polyak")
    iterates = []
    for n_iter in range(1, 9):
        weights.matrix[...] = rng.normal(size=weights.matrix.shape)
        weights.intercept[...] = rng.normal(size=5)
        iterates.append((weights.matrix.copy(), weights.intercept.copy()))
        made.after_pass(weights, n_iter, 1)
        mean, scale = made.model(weights)
        for got, want in (
            (mean.matrix * scale[:, np.newaxis], np.mean([one for one, _ in iterates], axis=0)),
            (mean.intercept, np.mean([one for _, one in iterates], axis=0)),
        ):
            np.testing.assert_allclose(got, want, rtol=0, atol=8 * 2**-22)  # sums of 8 numbers of about 1
    made.finish(weights)
    np.testing.assert_allclose(weights.matrix, np.mean([one for one, _ in iterates], axis=0), rtol=0, atol=8 * 2**-22)
    np.testing.assert_allclose(weights.intercept, np.mean([one for _, one in iterates], axis=0), rtol=0, atol=2**-19)


def test_factors_of_rows_are_multiplied_in_at_the_end():
    made, weights = memory(alpha=0.1)
    weights.matrix[...] = 2
    weights.intercept[...] = 3
    made.scale[...] = [1, 0.5, 2, 0, 4]
    assert made.model(weights)[0] is weights
    made.finish(weights)
    np.testing.assert_array_equal(weights.coef, np.outer([2, 1, 4, 0, 8], np.ones(3)))
    np.testing.assert_array_equal(weights.intercept, np.full(5, 3))


# Bounds of u, and where it starts


@pytest.mark.parametrize(
    ("fit_intercept", "most"), [(False, np.log(1 + 6 * np.exp(2 * np.sqrt(2) * 0.5))), (True, np.inf)]
)
def test_u_is_bounded_by_the_lemma_where_there_are_no_intercepts(fit_intercept, most, monkeypatch):
    told = []
    monkeypatch.setattr(
        points, "core_plan", lambda *_, u_max, **more: told.append(u_max) or plans.core_plan(*_, **more)
    )
    plan = replace(POINTS, max_norm=0.5, fit_intercept=fit_intercept)
    PointsTraining(plan, nine_points())
    assert told == [pytest.approx(most)]


@pytest.mark.parametrize("solver", ["sgd", "umax"])
def test_a_u_that_steps_beyond_its_interval_is_put_back(solver, seed):
    X, y = small_problem(seed)
    # Steps of u of size 20 leave [0, B_u] on both sides.
    far = {"learning_rate": 0.05, "u_learning_rate": 20.0, "max_norm": 0.05, "max_iter": 3, "fit_intercept": False}
    assert_fit_equals_twin(X, y, "dense", 2 * 3 * len(y), solver=solver, selection="uniform", n_negatives=4, **far)


@pytest.mark.parametrize(("u_init", "first"), [("log_n_classes", np.log(7)), ("zero", 0.0)])
def test_every_u_starts_where_u_init_says(u_init, first, monkeypatch):
    told, state = [], _core.State

    def seen(**arrays):
        told.append(arrays["u"].copy())
        return state(**arrays)

    monkeypatch.setattr(points._core, "State", seen)
    PointsTraining(replace(POINTS, u_init=u_init), nine_points())
    np.testing.assert_array_equal(told, np.full((1, 9), first))


@pytest.mark.parametrize(
    ("n_negatives", "sampler", "asked", "floor"),
    [(2, "uniform", "auto", 2 / 6), (60, "uniform", "auto", 1), ("auto", "all", "auto", 1), (2, "uniform", 0, 0)],
)
def test_q_moves_at_least_by_the_share_of_the_wrong_classes_that_a_step_sees(n_negatives, sampler, asked, floor):
    model = AugmentReduceClassifier(
        noise="gumbel", local_step=solvers.Natural(floor=asked), n_negatives=n_negatives, sampler=sampler
    )
    plan = model._plans().plan(Facts.of(np.ones((9, 1), dtype=np.float32), 7))
    assert plan.utility.floor == pytest.approx(floor)


@pytest.mark.parametrize(
    ("refresh", "max_iter", "searched"), [(1, 4, [1, 2, 3]), (2, 6, [2, 4]), (3, 4, [3]), (4, 4, []), (10, 4, [])]
)
def test_heads_are_searched_for_after_every_so_many_passes_but_the_last(refresh, max_iter, searched, monkeypatch):
    found = []
    plan = replace(POINTS, sampler="head_tail", options={}, n_head=3, refresh=refresh, max_iter=max_iter)
    made = PointsTraining(plan, nine_points())
    assert made.heads.shape == (9, 3)
    assert (made.heads == -1).all()  # the first passes know of none
    for n_iter in range(1, max_iter + 1):
        monkeypatch.setattr("manyclass.training.points.search_heads", lambda *_, n_iter=n_iter: found.append(n_iter))
        assert not made.after_pass(n_iter)
    assert found == searched


def test_heads_are_no_more_than_the_wrong_classes():
    plan = replace(POINTS, sampler="head_tail", options={}, n_head=16)
    made = PointsTraining(plan, nine_points())
    assert made.heads.shape == (9, 6)
    given = np.array([[2, 5]] * 9, dtype=np.int32)
    made = PointsTraining(plan, nine_points(), given)
    np.testing.assert_array_equal(made.heads, made.position[given])
    assert not made.searches


# Steps by pass


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("exponential", lambda t: 0.8**t),
        ("adaptive", lambda t: 0.8**t),
        ("inverse", lambda t: 1 / (1 + t)),
        ("constant", lambda t: 1.0),
    ],
)
def test_both_step_sizes_follow_the_formula_of_the_schedule(name, factor):
    schedule = Schedule(name, 0.3, 7.0, 0.8)
    for t in (0, 1, 2, 10, 100):
        assert schedule.at(t) == pytest.approx((0.3 * factor(t), 7.0 * factor(t)), rel=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
def test_norms_of_rows_are_sums_of_squares(sparse, seed):
    X = np.random.default_rng(seed).normal(size=(20, 9)).astype(np.float32)
    X[3] = 0
    found = row_norms_sq(sp.csr_array(X) if sparse else X)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.sum(X.astype(np.float64) ** 2, axis=1), rtol=9 * 2**-23)
    huge = row_norms_sq(np.full((1, 4), 1e30, dtype=np.float32))
    assert huge[0] == np.inf


# Points held out


@pytest.mark.parametrize(
    ("n", "n_classes", "fraction", "expected"),
    [
        (100, 5, 0.1, 10),
        (100, 5, 0.146, 15),  # rounded
        (100, 5, 0.144, 14),
        (100, 5, 1e-9, 1),  # at least one
        (100, 5, 0.99, 95),  # one of each class stays
        (100, 98, 0.5, 2),
        (7, 6, 0.5, 1),
    ],
)
def test_so_many_points_are_held_out(n, n_classes, fraction, expected, seed):
    labels = labels_of(n, n_classes)
    held = held_out(labels, fraction, np.random.RandomState(seed))
    assert held.sum() == expected
    assert set(labels[~held]) == set(range(n_classes))


def test_drawing_what_is_held_out_leaves_the_generator_as_it_was(seed):
    state = np.random.RandomState(seed)
    first = fork(state).permutation(20)
    np.testing.assert_array_equal(fork(state).permutation(20), first)
    np.testing.assert_array_equal(np.random.RandomState(seed).permutation(20), first)
    assert seed_from(state) == seed_from(np.random.RandomState(seed))


@pytest.mark.parametrize(
    ("losses", "patience", "best", "stops"),
    [
        ([3, 2, 1], 2, 3, None),
        ([3, 2, 2, 2], 2, 2, 4),  # an equal loss is no better one
        ([3, 4, 2, 3, 3], 2, 3, 5),
        ([3, 4], 1, 1, 2),
        ([3, 2, 5, 5, 1], 3, 5, None),
        ([np.inf, np.nan, 1, 2, 2, 2], 3, 3, 6),
    ],
    ids=str,
)
def test_training_stops_after_so_many_passes_without_a_better_one(losses, patience, best, stops):
    training = PointsTraining(POINTS, nine_points())
    validation = training.validation = Validation(patience, nine_points().scored(1))
    stopped = None
    for n_pass, loss in enumerate(losses, start=1):
        training.weights.matrix[...] = n_pass
        training.weights.intercept[...] = n_pass
        if validation.keep_if_best(loss, {**training.model_arrays(), "scale": np.full(7, 0.5, dtype=np.float32)}):
            stopped = n_pass
            break
    assert stopped == stops
    assert validation.best_iter == best
    np.testing.assert_array_equal(validation.curve, losses[: stops or len(losses)])
    training.leave(validation.take_best())
    weights = training.finished()
    np.testing.assert_array_equal(weights.coef, np.full((7, 2), 0.5 * best))  # the factors of that pass multiplied in
    np.testing.assert_array_equal(weights.intercept, np.full(7, best))
    assert not validation.take_best()


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(None, 1), (1, 1), (5, 5), (9, 8), (-1, 8), (-2, 7), (-8, 1), (-100, 1)]
)
def test_n_jobs_counts_threads_as_scikit_learn_does(n_jobs, expected, monkeypatch):
    monkeypatch.setattr("manyclass.checks.cores", lambda: 8)
    assert n_threads_from(n_jobs) == expected


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", np.nan])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    with pytest.raises(ValueError, match=r"n_jobs is .*; it must be None, a positive integer, or negative"):
        n_threads_from(n_jobs)


@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_q_begins_where_its_local_step_says(noise):
    """At its best for equal scores of all classes, or with mean 0 and scale 1, as in the code of Ruiz et al."""
    for start in ("best", "standard"):
        local = solvers.MonteCarlo(family=noise, start=start)
        model = AugmentReduceClassifier(noise=noise, solver="sgd", local_step=local)
        plan = model._plans().plan(Facts.of(np.ones((3, 2), dtype=np.float32), 9))
        family = plan.utility.family
        mean, scale = vars(first_local_state(plan, 3, 9)).values()
        expected = (family.mu, family.s) if start == "best" else (0.0, 1.0)
        np.testing.assert_array_equal(mean, np.full(3, expected[0]))
        np.testing.assert_array_equal(scale, np.full(3, expected[1]))
    assert family.mu > 0.5  # so that the two differ
