"""Ridge, averages, the adaptive schedule, batches and heads: whole fits equal their slow twin."""

import functools

import numpy as np
import pytest
from reference import epoch as twin
from reference import optima
from reference.flat import softmax
from reference.problems import as_storage, planted
from reference.rng import every_outcome
from reference.selections import SELECTIONS, Choice
from test_epoch import assert_fit_equals_twin, rate_of, small_problem

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.registry import names

STORAGES = ["sparse", "dense"]


@pytest.mark.parametrize(
    ("solver", "formulation", "selection", "storage"),
    [
        ("implicit", "proposed", "block", "sparse"),
        ("implicit", "proposed", "uniform", "dense"),
        ("implicit", "proposed", "frequency", "sparse"),
        ("implicit", "proposed", "frequency_block", "dense"),
        ("implicit", "proposed", "head_tail", "dense"),
        ("implicit", "raman", "block", "dense"),
        ("implicit", "raman", "all", "sparse"),
        ("implicit", 0.35, "uniform", "sparse"),
        ("bregman", "proposed", "block", "sparse"),
        ("bregman", "proposed", "frequency", "dense"),
        ("umax", "raman", "uniform", "sparse"),
        ("css", "proposed", "head_tail", "sparse"),
        ("ema", "proposed", "block", "dense"),
        ("exact", "proposed", "all", "sparse"),
        ("is", "proposed", "uniform", "dense"),
        ("nce", "proposed", "frequency", "sparse"),
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
def test_ridge_equals_its_twin(solver, formulation, selection, storage, fit_intercept, seed):
    X, y = small_problem(seed)
    parameters = {
        "solver": solver,
        "formulation": formulation,
        "selection": selection,
        # The last block has one class: heads that follow it pay no ridge. More than one line of 16 is drawn.
        "n_negatives": 20 if selection == "frequency_block" else 4,
        "n_head": 3,
        "refresh": 1,
        "learning_rate": rate_of(solver),
        "fit_intercept": fit_intercept,
        "max_iter": 3,
    }
    alpha = 0.02 / rate_of(solver)  # rarely touched rows have b up to 7, and s near 0.9
    fitted, _ = assert_fit_equals_twin(X, y, storage, 3 * len(y), alpha=alpha, **parameters)
    free = softmax(random_state=11, **parameters).fit(as_storage(X, storage), y)
    assert np.linalg.norm(fitted.coef_) < 0.9 * np.linalg.norm(free.coef_)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", ["implicit", "css"])
@pytest.mark.parametrize("averaging", ["none", "polyak", "suffix"])
def test_scales_that_would_leave_single_precision_are_multiplied_in(averaging, solver, storage, seed):
    # A row is touched in a share 1 / b of 240 visits, each time divided by 1 + 3 b: in all by more than e^88 = 2^127.
    X, y = small_problem(seed)
    b = twin.weights_of_ridge(Choice(21, 5, counts=np.bincount(y).tolist()), "block")
    assert (5 * len(y) / b * np.log1p(3 * b)).min() > 88
    parameters = {"solver": solver, "learning_rate": 2.0, "schedule": "constant", "n_negatives": 5, "max_iter": 5}
    assert_fit_equals_twin(X, y, storage, 5 * len(y), alpha=1.5, averaging=averaging, **parameters)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("averaging", ["polyak", "suffix"])
@pytest.mark.parametrize(
    ("solver", "selection", "alpha", "max_iter", "fit_intercept"),
    [
        ("implicit", "block", 0.0, 3, True),
        ("implicit", "head_tail", 0.05, 4, False),
        ("bregman", "uniform", 0.05, 3, True),
        ("css", "frequency", 0.0, 5, True),
        ("exact", "all", 0.3, 4, True),
    ],
)
def test_averages_are_the_mean_of_the_weights_after_every_pass(
    solver, selection, alpha, max_iter, fit_intercept, averaging, storage, seed
):
    X, y = small_problem(seed)
    parameters = {
        "solver": solver,
        "selection": selection,
        "alpha": alpha,
        "n_negatives": 4,
        "learning_rate": rate_of(solver),
        "fit_intercept": fit_intercept,
        "max_iter": max_iter,
    }
    averaged, _ = assert_fit_equals_twin(X, y, storage, max_iter * len(y), averaging=averaging, **parameters)
    last = softmax(random_state=11, **parameters).fit(as_storage(X, storage), y)
    assert np.abs(averaged.coef_ - last.coef_).max() > 0.01 * np.abs(last.coef_).max()


def test_wide_weights_are_averaged_after_fewer_passes_counted_from_the_last(seed):
    X, y = planted(np.random.default_rng(seed), 60, 2500, 21, density=0.001, scale=3)
    parameters = {"solver": "implicit", "random_state": 0, "n_negatives": 4, "alpha": 1e-3}
    averaged = softmax(averaging="polyak", max_iter=12, **parameters).fit(as_storage(X, "sparse"), y)
    # Summing 2500 x 32 weights is taken to cost half of a pass of 60 visits: after every sixth pass, it is a tenth.
    after = [softmax(max_iter=n, **parameters).fit(as_storage(X, "sparse"), y) for n in (6, 12)]
    for name in ("coef_", "intercept_"):
        mean = sum(getattr(model, name) for model in after) / 2
        np.testing.assert_allclose(getattr(averaged, name), mean, rtol=0, atol=2.0**-22 * np.abs(mean).max())


@pytest.mark.parametrize("storage", STORAGES)
def test_averages_of_projected_weights_equal_the_twin(storage, seed):
    X, y = small_problem(seed)
    parameters = {"learning_rate": 0.2, "n_negatives": 4, "max_norm": 0.05, "averaging": "polyak", "max_iter": 3}
    # A class is scaled at most once a visit, which rounds all of its row once more.
    assert_fit_equals_twin(X, y, storage, 2 * 3 * len(y), solver="implicit", selection="uniform", **parameters)


@pytest.mark.parametrize("solver", ["is", "nce"])
def test_norms_are_followed_where_the_label_is_among_the_draws(solver, seed):
    X, y = small_problem(seed)
    parameters = {"learning_rate": 0.2, "n_negatives": 12, "max_norm": 0.05, "max_iter": 3}
    fitted, _ = assert_fit_equals_twin(X, y, "sparse", 2 * 3 * len(y), solver=solver, **parameters)
    assert np.linalg.norm(fitted.coef_, axis=1).max() <= 0.05 * (1 + 1e-5)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize(
    ("solver", "selection", "batch_size"),
    [("augment_reduce", "block", None), ("css", "uniform", 5), ("nce", "frequency", None), ("umax", "head_tail", 3)],
)
def test_the_adaptive_schedule_equals_its_twin(solver, selection, batch_size, fit_intercept, storage, seed):
    X, y = small_problem(seed)
    assert_fit_equals_twin(
        X,
        y,
        storage,
        3 * len(y),
        solver=solver,
        selection=selection,
        schedule="adaptive",
        batch_size=batch_size,
        n_negatives=4,
        learning_rate=0.1,
        u_learning_rate=0.05,
        fit_intercept=fit_intercept,
        max_iter=3,
    )


@pytest.mark.parametrize(("batch_size", "decay_every"), [(None, 1), (5, 7), (5, 24), (48, 2)])
def test_the_adaptive_rate_falls_every_so_many_batches_as_the_twin_has_it(batch_size, decay_every, seed):
    X, y = small_problem(seed)  # 48 points
    step = {"schedule": "adaptive", "batch_size": batch_size, "decay": 0.7, "decay_every": decay_every}
    common = {"n_negatives": 4, "learning_rate": 0.1, "max_iter": 3, "random_state": 0}
    # By frequency, whose weights differ: a gradient whose terms cancel is no visit in float64 and one in float32.
    model = SoftmaxClassifier(solver=solvers.CSS(**step), sampler="frequency", **common).fit(X, y)
    expected = twin.train(X.astype(float), y, 21, solver="css", selection="frequency", **step, **common)
    # As of the fits above: a float's rounding at each of a point's few steps.
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=3 * 48 * 2.0**-21 * np.abs(expected.coef).max())


@pytest.mark.parametrize("storage", STORAGES)
def test_an_adaptive_batch_is_one_step_of_the_recursion_on_its_gradient(storage, seed):
    # Ruiz et al. 2018, section 4: s = G^2 at first, w += rho G / (1 + sqrt s), G the gradient of the summed loss. All
    # points are the batch and all classes are seen, so that at W = 0 the gradient is that of the softmax.
    X, y = small_problem(seed)
    rate = 0.02
    model = SoftmaxClassifier(
        solver=solvers.Exact(schedule="adaptive", batch_size=len(y)), learning_rate=rate, max_iter=1, random_state=0
    ).fit(as_storage(X, storage), y)
    x = np.column_stack([X.astype(float), np.ones(len(y))])
    G = (np.eye(21)[y] - 1 / 21).T @ x
    found = np.column_stack([model.coef_, model.intercept_])
    np.testing.assert_allclose(found, rate * G / (1 + np.abs(G)), atol=1e-6)  # floats of size .02, summed over 48


def test_adaptive_fits_of_sparse_and_dense_data_agree(seed):
    X, y = small_problem(seed)
    parameters = {"solver": "css", "schedule": "adaptive", "n_negatives": 4, "max_iter": 3, "random_state": 0}
    sparse, dense = (softmax(**parameters).fit(as_storage(X, storage), y).coef_ for storage in STORAGES)
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=2 * 3 * len(y) * 2.0**-21 * np.abs(dense).max())


@pytest.mark.parametrize("share_classes", [False, True])
@pytest.mark.parametrize(
    ("solver", "selection", "batch_size", "alpha", "averaging"),
    [
        ("implicit", "block", 1, 0.0, "none"),
        ("implicit", "uniform", 7, 0.05, "polyak"),  # 48 = 6 * 7 + 6: a short last batch
        ("bregman", "head_tail", 16, 0.0, "suffix"),
        ("css", "frequency", 100, 0.2, "none"),  # more than there are points
        ("sgd", "block", 5, 0.0, "none"),
    ],
)
def test_steps_of_a_batch_are_averaged_as_the_twin_does(
    solver, selection, batch_size, alpha, averaging, share_classes, seed
):
    X, y = small_problem(seed)
    assert_fit_equals_twin(
        X,
        y,
        STORAGES[batch_size % 2],
        4 * len(y),
        solver=solver,
        selection=selection,
        batch_size=batch_size,
        share_classes=share_classes and batch_size > 1,
        alpha=alpha,
        averaging=averaging,
        refresh=1,
        n_negatives=4,
        learning_rate=10 * rate_of(solver) if batch_size > 10 else rate_of(solver),
        u_learning_rate=rate_of(solver),
        max_iter=4,
    )


@pytest.mark.parametrize("parameters", [{}, {"batch_size": 1}, {"parallel": "hogwild"}], ids=str)
def test_a_point_alone_in_its_batch_cannot_share_its_classes(parameters, seed):
    X, y = small_problem(seed)
    with pytest.raises(ValueError, match=r"share_classes is True, which has no effect .* batch_size is"):
        softmax(solver="implicit", share_classes=True, n_negatives=4, **parameters).fit(X, y)


@pytest.mark.parametrize("estimator", [SoftmaxClassifier, MarginClassifier])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_so_it_is_with_embeddings_and_margins(estimator, batch_size, seed):
    X, y = small_problem(seed)  # 21 classes: one point a batch where nothing is said
    solver = solvers.Adagrad(share_classes=True, batch_size=batch_size)
    with pytest.raises(ValueError, match=r"share_classes is True, which has no effect .* batch_size is"):
        estimator(model="embedding", sampler="uniform", solver=solver).fit(X, y)


def test_points_of_a_batch_share_their_classes_when_asked(seed):
    X, y = planted(np.random.default_rng(seed), 1201, 6, 1100)  # where each draws its own: test_epoch.py
    parameters = {"n_negatives": 40, "learning_rate": 1.0, "max_iter": 1}
    assert_fit_equals_twin(X, y, "sparse", 200, solver="implicit", share_classes=True, **parameters)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("solver", "alpha"), [("implicit", 0.0), ("implicit", 0.05), ("css", 0.0), ("ema", 0.2)])
def test_candidates_are_the_head_as_the_twin_has_it(solver, alpha, storage, seed):
    X, y = small_problem(seed)
    candidates = np.random.default_rng(seed).integers(0, 21, size=(len(y), 5))  # repeats and labels among them
    assert_fit_equals_twin(
        X,
        y,
        storage,
        3 * len(y),
        candidates=candidates,
        solver=solver,
        selection="head_tail",
        alpha=alpha,
        n_negatives=4,
        learning_rate=rate_of(solver),
        max_iter=3,
    )


@pytest.mark.parametrize("selection", names("selection"))
def test_the_ridge_that_visits_pay_is_the_whole_ridge_on_average(selection, seed):
    # Mean over points and draws of alpha b_k w_k over the touched rows = alpha W, the gradient of alpha/2 |W|^2.
    rng = np.random.default_rng(seed)
    n_classes = 7
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, size=8))
    heads = rng.integers(-1, n_classes, size=(len(y), 3))
    choice = Choice(n_classes, 3, counts=np.bincount(y, minlength=n_classes).tolist())
    b = twin.weights_of_ridge(choice, selection)
    paid = np.zeros(n_classes)
    for label, head in zip(y, heads, strict=True):
        for probability, drawn in every_outcome(
            lambda r, label=label, head=head: SELECTIONS[selection](r, choice, label, head)
        ):
            touched = np.union1d(drawn.classes[drawn.random], label)
            paid[touched] += probability / len(y) * b[touched]
    np.testing.assert_allclose(paid, 1, rtol=1e-11)


# All classes of 40, or 8 drawn in each way; with 8, a class is touched by a share of visits that depends on the draws,
# and a ridge that did not know it would have another optimum.
RIDGED = [("exact", "all"), ("css", "all"), ("minibatch_implicit", "uniform")]
RIDGED += [(solver, name) for solver in ("umax", "implicit", "bregman") for name in names("selection")]


@functools.cache
def ridged_problem(seed):
    """Data, their loss with a ridge that matters, and its smallest value."""
    X, y = planted(np.random.default_rng(seed), 600, 3, 40, scale=4)
    ridged = optima.Objective(optima.log_loss, X, y, 40, alpha=0.003)
    best = ridged.minimum()
    assert optima.Objective(optima.log_loss, X, y, 40).minimum() < best - 0.2
    return X, y, ridged, best


@pytest.mark.parametrize(("solver", "selection"), RIDGED)
def test_a_ridge_leads_to_the_minimum_of_the_ridged_loss(solver, selection, seed):
    X, y, ridged, best = ridged_problem(seed)
    options = {"alpha": 0.003, "n_negatives": 8, "decay": 0.97, "max_iter": 200, "random_state": seed}
    options |= {"learning_rate": {"umax": 0.1, "minibatch_implicit": 10.0}.get(solver, 1.0), "refresh": 10, "n_head": 4}
    if solver in ("implicit", "umax"):
        options["u_learning_rate"] = 1.0
    model = softmax(solver=solver, selection=selection, **options).fit(X, y)
    gap = ridged.at(model.coef_, model.intercept_) - best
    # Steps end at 0.97^200 = 0.002 of the first; over ten seeds the largest share left of the way was .0026.
    assert -1e-6 < gap < 0.01 * (ridged.at_zero - best)


# The adaptive step where gradients are 0


@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_adaptive_steps_of_gradients_that_are_all_zero_move_nothing(storage, batch_size, seed):
    # Every label is ahead by so much that the gradients of the softmax are 0 in floats: e^-200.
    n_classes, n_features = 7, 7
    y = np.arange(21) % n_classes
    X = np.eye(n_features, dtype=np.float32)[y]
    X[7:14] = 0  # no stored value: nothing can move
    W = (200 * np.eye(n_classes)).astype(np.float32)
    solver = solvers.Exact(schedule="adaptive", batch_size=batch_size)
    model = SoftmaxClassifier(solver=solver, fit_intercept=False, learning_rate=0.3, max_iter=3, random_state=seed)
    model.fit(as_storage(X, storage), y, coef_init=W)
    np.testing.assert_array_equal(model.coef_, W)
    assert np.isfinite(model.loss_curve_).all()


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_first_gradient_after_many_zeros_makes_a_first_step(batch_size, seed):
    # One row alone has a gradient, behind others of zero gradients. G is N / B times it, and the step is
    # rate / sqrt(iterations) G / (1 + |G|): not 0, not NaN, and below the rate.
    X, y = np.tile(np.array([1, 0], dtype=np.float32), (30, 1)), np.ones(30, dtype=int)
    X[17], y[0], y[29] = (0, 1), 0, 2
    X[[0, 29]] = 0  # rows without a stored value: that there are three classes
    W = np.array([[0, 0], [300, 0], [0, 0]], dtype=np.float32)
    solver = solvers.Exact(schedule="adaptive", batch_size=batch_size, shuffle=False, decay=1.0)
    model = SoftmaxClassifier(solver=solver, fit_intercept=False, learning_rate=0.3, max_iter=1, random_state=seed)
    model.fit(X, y, coef_init=W)
    G = 30 / batch_size * (np.array([0, 1, 0]) - 1 / 3)
    rate = 0.3 / np.sqrt(1 + 17 // batch_size)
    np.testing.assert_array_equal(model.coef_[:, 0], W[:, 0])
    np.testing.assert_allclose(model.coef_[:, 1], rate * G / (1 + np.abs(G)), rtol=1e-6)
    assert 0 < np.abs(model.coef_[:, 1]).min() < np.abs(model.coef_[:, 1]).max() < 0.3
