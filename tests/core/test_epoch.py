"""Whole fits equal their slow twin, for every solver, formulation, selection and storage; options: test_options.py."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import epoch as twin
from reference.flat import softmax
from reference.problems import as_storage, planted
from reference.selections import SELECTIONS
from reference.steps import RAMAN, RATES, STEPS, WITH_LABEL
from sklearn.base import clone

from manyclass import models
from manyclass.registry import names

# The core stores floats: each visit is off by a few 2^-23 of its move. If all visits of a row erred alike, n of them
# would be off by n times that, relative to the largest weight.
ROUNDING_OF_A_VISIT = 4 * 2.0**-23


def rate_of(solver):
    return RATES.get(solver, 0.5)


def combinations():
    for solver in names("solver", without="batch"):
        for formulation in names("formulation") if solver in RAMAN else ["proposed"]:
            for selection in names("selection") if solver != "exact" else ["all"]:
                if not (solver in WITH_LABEL and selection == "head_tail"):
                    yield solver, formulation, selection
    for carry, solver in zip((0.35, 0.8, -0.5, 0.35, 0.6, 1.3), RAMAN, strict=False):  # u + a x.w_y
        yield solver, carry, "block"


def small_problem(seed):
    X, y = planted(np.random.default_rng(seed), 48, 12, 21, density=0.4, scale=3)
    X[7] = 0  # an empty row
    return X, y


def assert_fit_equals_twin(X, y, storage, visits, *, candidates=None, **parameters):
    model = softmax(random_state=11, **parameters).fit(as_storage(X, storage), y, candidates=candidates)
    expected = twin.train(
        X.astype(np.float64), y, int(y.max()) + 1, random_state=11, candidates=candidates, **parameters
    )
    largest = np.abs(expected.coef).max()
    assert largest > 0.01
    atol = visits * ROUNDING_OF_A_VISIT * largest
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, expected.intercept, rtol=0, atol=atol)
    # The loss moves by at most twice what a score moves: |x| = 1 and |dw| <= sqrt(D) atol, beside its own rounding.
    score = 2 * np.sqrt(X.shape[1]) * atol + 2**-20
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve, rtol=0, atol=score)
    return model, expected


def test_every_part_of_the_registry_has_a_twin():
    assert set(STEPS) == set(names("solver", without="batch"))
    assert set(SELECTIONS) == set(names("selection"))
    assert set(twin.SCHEDULES) == set(names("schedule"))
    assert names("formulation") == ["proposed", "raman"]


# Storage, intercept and order of visits are the same code for all: each combination of parts meets one of the eight.
@pytest.mark.parametrize(
    ("solver", "formulation", "selection", "options"),
    [(*parts, n % 8) for n, parts in enumerate(combinations())],
)
def test_fit_equals_its_twin(solver, formulation, selection, options, seed):
    X, y = small_problem(seed)
    sparse, fit_intercept, shuffle = options & 1, bool(options & 2), bool(options & 4)
    assert_fit_equals_twin(
        X,
        y,
        "sparse" if sparse else "dense",
        visits=3 * len(y),
        solver=solver,
        formulation=formulation,
        selection=selection,
        n_negatives=4,
        n_head=3,
        refresh=1,
        learning_rate=rate_of(solver),
        u_learning_rate=0.5 * rate_of(solver) if shuffle else rate_of(solver),
        u_init="zero" if solver in ("implicit", "umax") and not fit_intercept else "log_n_classes",
        fit_intercept=fit_intercept,
        shuffle=shuffle,
        decay=0.8,
        max_iter=3,
    )


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("solver", ["implicit", "css"])
def test_storages_and_intercepts_equal_their_twin(solver, storage, fit_intercept, seed):
    X, y = small_problem(seed)
    assert_fit_equals_twin(
        X,
        y,
        storage,
        2 * len(y),
        solver=solver,
        n_negatives=6,
        learning_rate=0.5,
        fit_intercept=fit_intercept,
        max_iter=2,
    )


@pytest.mark.parametrize("schedule", [name for name in names("schedule") if name != "adaptive"])
def test_schedule_equals_its_twin(schedule, seed):
    X, y = small_problem(seed)
    assert_fit_equals_twin(
        X, y, "dense", 4 * len(y), solver="implicit", n_negatives=5, learning_rate=1.0, schedule=schedule, max_iter=4
    )


@pytest.mark.parametrize("root", names("root"))
def test_both_root_finders_equal_the_twin(root, seed):
    X, y = small_problem(seed)
    model = softmax(solver="implicit", root=root, learning_rate=20.0, n_negatives=7, max_iter=3, random_state=11).fit(
        X, y
    )
    expected = twin.train(
        X.astype(np.float64), y, 21, solver="implicit", learning_rate=20.0, n_negatives=7, max_iter=3, random_state=11
    )
    atol = 3 * len(y) * ROUNDING_OF_A_VISIT * np.abs(expected.coef).max()
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)


@pytest.mark.parametrize("delta", [0.0, 0.3, 2.0])
def test_delta_of_umax_equals_its_twin(delta, seed):
    X, y = small_problem(seed)
    parameters = {"solver": "umax", "delta": delta, "n_negatives": 6, "learning_rate": 0.1, "u_init": "zero"}
    assert_fit_equals_twin(X, y, "sparse", 3 * len(y), max_iter=3, selection="uniform", **parameters)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize(("solver", "selection"), [("implicit", "block"), ("umax", "uniform"), ("sgd", "all")])
def test_projection_equals_its_twin(solver, selection, alpha, fit_intercept, storage, seed):
    X, y = small_problem(seed)
    max_norm = 0.05  # W reaches about 1 without it, so nearly all visits project
    parameters = {
        "solver": solver,
        "selection": selection,
        "n_negatives": 4,
        "learning_rate": 0.2,
        "alpha": alpha,
        "max_norm": max_norm,
        "fit_intercept": fit_intercept,
        "max_iter": 3,
        "random_state": 2,
    }
    model = softmax(**parameters).fit(as_storage(X, storage), y)
    expected = twin.train(X.astype(np.float64), y, 21, **parameters)
    norms = np.linalg.norm(expected.coef, axis=1)
    assert norms.max() <= max_norm * (1 + 1e-12)
    assert np.mean(norms > 0.99 * max_norm) > 0.1
    # A class is scaled at most once a visit, which rounds all of its row once more.
    atol = 2 * 3 * len(y) * ROUNDING_OF_A_VISIT * max_norm
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize(
    ("solver", "formulation", "selection"),
    [("implicit", "proposed", "block"), ("umax", "raman", "uniform"), ("exact", "proposed", "all")],
)
def test_batches_equal_the_twin(solver, formulation, selection, storage, seed):
    n_classes = 1100  # 1100 // 64 = 17 points a batch, 16 where all classes are scored; the last one is short
    X, y = planted(np.random.default_rng(seed), 1201, 6, n_classes)
    parameters = {"n_negatives": 40, "learning_rate": 0.02 if solver == "umax" else 1.0, "max_iter": 1}
    assert np.bincount(y).max() < 1201 // 17
    # Rows move once or twice as labels and a few dozen times as wrong classes; each visit moves a row by far less than
    # the largest weight. 200 visits bound both.
    assert_fit_equals_twin(
        X, y, storage, 200, solver=solver, formulation=formulation, selection=selection, **parameters
    )


def test_points_of_a_batch_with_the_same_label_all_count(seed):
    # Half of all points have label 0: by_label then makes batches of one or two points.
    X, y = planted(np.random.default_rng(seed), 2300, 4, 1100)
    y[np.flatnonzero(np.arange(2300) % 5 == 0)[:300]] = 0
    y[np.random.default_rng(seed + 1).permutation(2300)[:1100]] = np.arange(1100)
    assert 1 < twin.batch_size(y, 1100, every_class=False) < 17
    assert_fit_equals_twin(X, y, "sparse", 400, solver="implicit", n_negatives=16, learning_rate=1.0, max_iter=1)


def test_sparse_and_dense_fits_of_the_same_data_agree(seed):
    X, y = small_problem(seed)
    # With features as they are: "auto" centres dense ones, and sparse ones keep their zeros.
    one = softmax(n_negatives=4, max_iter=5, random_state=0).set_params(model=models.Linear(scaling="none"))
    fits = [clone(one).fit(x, y) for x in (X, sp.csr_matrix(X))]
    atol = 2 * 5 * len(y) * ROUNDING_OF_A_VISIT * np.abs(fits[0].coef_).max()
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=0, atol=atol)
    assert fits[0]._weights.matrix.shape == (21, 12)
    assert fits[1]._weights.matrix.shape == (12, 32)


def test_with_rows_in_a_ball_u_is_never_below_zero(seed):
    X, y = small_problem(seed)
    # From log 21 a step of 6 moves u below 0, where it never is the best one (Fagan & Iyengar 2018, Algorithm 1).
    parameters = {"solver": "sgd", "selection": "block", "n_negatives": 4, "learning_rate": 0.2, "max_norm": 0.05}
    parameters |= {"u_learning_rate": 6.0, "max_iter": 3, "random_state": 2, "fit_intercept": False}
    model = softmax(**parameters).fit(X, y)
    expected = twin.train(X.astype(np.float64), y, 21, **parameters)
    assert (expected.carried == 0).any()
    atol = 2 * 3 * len(y) * ROUNDING_OF_A_VISIT * 0.05
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
