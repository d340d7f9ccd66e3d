"""What must not matter: units of the data, columns of zeros, how an intercept is written, which form is taken."""

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures
from reference.problems import as_storage, planted
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.registry import names

N, D, K = 48, 6, 9
POINT_SOLVERS = names("solver")
STORAGES = ["sparse", "dense"]


def problem(seed, n_classes=K):
    X, y = planted(np.random.default_rng(seed), N, D, n_classes, density=0.7)
    return X, y


def softmax(**parameters):
    return SoftmaxClassifier(**{"max_iter": 3, "random_state": 3} | parameters)


def several(y, n_classes=K):
    Y = np.zeros((len(y), n_classes), dtype=np.int64)
    Y[np.arange(len(y)), y] = 1
    Y[np.arange(len(y)), (y * 5 + 1) % n_classes] = 1
    return Y


def draws(solver):
    """Few classes, where the solver draws some."""
    every_class = ("exact", "minibatch_implicit", "lbfgs", "auto", "adagrad")
    return {} if solver in every_class else {"n_negatives": 3}


# resolved_params_


@pytest.mark.filterwarnings("ignore:L-BFGS made")
@pytest.mark.parametrize("kind", ["sparse", "dense", "several labels"])
@pytest.mark.parametrize("solver", ["auto", *solvers.SOLVERS])
def test_resolved_parameters_train_the_same_model_and_leave_nothing_open(solver, kind, seed):
    X, y = problem(seed)
    several_labels = kind == "several labels"
    if several_labels and solver not in ("auto", "adagrad", "css", "exact", "lbfgs", *solvers.LABEL_SOLVERS):
        with pytest.raises(ValueError, match=f"solver is '{solver}'"):
            softmax(solver=solver).fit(X, several(y))
        return
    x = X if several_labels else as_storage(X, kind)
    model = softmax(solver=solver).fit(x, several(y) if several_labels else y)
    again = softmax(**{"solver": solver} | model.resolved_params_).fit(x, several(y) if several_labels else y)
    np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
    if solver != "auto" or not several_labels:  # where a hybrid is the default, and has no one matrix of weights
        np.testing.assert_array_equal(again.coef_, model.coef_)
        np.testing.assert_array_equal(again.intercept_, model.intercept_)
    np.testing.assert_array_equal(again.loss_curve_, model.loss_curve_)
    assert again.resolved_params_ == {}


MARGINS = [
    {},
    {"smoothing": 0, "solver": solvers.SGD(schedule="inverse")},
    {"solver": "implicit", "fit_intercept": False},
    {"loss": "triplet", "solver": "sgd"},
    {"loss": "triplet", "sampler": "uniform"},
    {"model": "embedding"},
    {"model": models.Embedding(activation="relu"), "solver": "sgd", "dim": 5},
    {"sampler": samplers.Search(budget=3)},
    {"sampler": samplers.Search(budget=3, warm_up=0)},
    {"n_models": 2, "calibration": "temperature"},
]


@pytest.mark.parametrize("kind", ["sparse", "dense", "several labels"])
@pytest.mark.parametrize("given", MARGINS, ids=str)
def test_resolved_parameters_of_a_margin_train_the_same_model_and_leave_nothing_open(given, kind, seed):
    X, y = problem(seed)
    x, y = (X, several(y)) if kind == "several labels" else (as_storage(X, kind), y)
    model = MarginClassifier(max_iter=3, random_state=seed, **given).fit(x, y)
    assert "learning_rate" in model.resolved_params_
    again = clone(model).set_params(**model.resolved_params_).fit(x, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.intercept_, model.intercept_)
    np.testing.assert_array_equal(again.loss_curve_, model.loss_curve_)
    assert again.resolved_params_ == {}


def test_resolved_parameters_of_wide_data_train_the_same_embeddings(seed):
    X, y = problem(seed)
    x = sp.csr_array(X)
    model = SoftmaxClassifier(random_state=seed, max_iter=2, dim=8)
    model = with_figures(model, LEAST_TO_EMBED=0, NUMBERS_A_VALUE=0, MOST_MET=-1.0, MOST_MET_OF_MANY=-1.0).fit(x, y)
    assert model.resolved_params_["model"].name == "embedding"
    again = SoftmaxClassifier(random_state=seed, max_iter=2, dim=8, **model.resolved_params_).fit(x, y)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("warm_up", [0, 1])
@pytest.mark.parametrize("model", ["linear", "hybrid"])
def test_resolved_parameters_of_a_search_have_draws_only_where_some_are_made(model, warm_up, seed):
    X, y = problem(seed)
    given = {"model": model, "sampler": samplers.Search(budget=3, warm_up=warm_up)}
    fitted = softmax(solver="adagrad" if model == "linear" else "auto", **given, n_models=1).fit(sp.csr_array(X), y)
    assert ("n_negatives" in fitted.resolved_params_) == bool(warm_up)
    again = clone(fitted).set_params(**fitted.resolved_params_).fit(sp.csr_array(X), y)
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))


# Units: with X times 4 the same scores, bit for bit but for roots, since powers of two round nothing.

SCALED = [
    *[pytest.param(softmax(solver=solver, **draws(solver)), id=solver) for solver in POINT_SOLVERS],
    pytest.param(softmax(solver="auto", n_negatives=3), id="auto, drawn"),
    pytest.param(softmax(solver="adagrad"), id="adagrad"),
    pytest.param(MarginClassifier(max_iter=3, random_state=3), id="margin"),
    pytest.param(MarginClassifier(solver="sgd", max_iter=3, random_state=3), id="margin, sgd"),
    pytest.param(MarginClassifier(solver="implicit", max_iter=3, random_state=3), id="margin, implicit"),
    pytest.param(AugmentReduceClassifier(max_iter=3, random_state=3, n_negatives=3), id="probit"),
    pytest.param(AugmentReduceClassifier(noise="logistic", solver="sgd", max_iter=3, random_state=3), id="logistic"),
]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("estimator", SCALED)
def test_units_of_the_data_do_not_change_the_scores(estimator, storage, seed):
    X, y = problem(seed)
    one, other = (
        clone(estimator).set_params(fit_intercept=False).fit(as_storage(scale * X, storage), y)
        for scale in (np.float32(1), np.float32(4))
    )
    assert np.abs(one.coef_).max() > 0
    if estimator.solver in (*names("solver", "implicit"), "auto"):
        # The root of a step's equation is found to rounding only.
        np.testing.assert_allclose(4 * other.coef_, one.coef_, rtol=0, atol=3 * N * 2**-23 * np.abs(one.coef_).max())
        return
    np.testing.assert_array_equal(4 * other.coef_, one.coef_)
    np.testing.assert_array_equal(other.loss_curve_, one.loss_curve_)


@pytest.mark.parametrize("solver", ["auto", *POINT_SOLVERS, "adagrad"])
def test_columns_without_entries_change_no_bit(solver, seed):
    X, y = problem(seed)
    wide = np.insert(X, [0, 3, D], 0, axis=1)
    kept = [1, 2, 3, 5, 6, 7]
    np.testing.assert_array_equal(wide[:, kept], X)
    one, other = (softmax(solver=solver, **draws(solver)).fit(sp.csr_array(x), y) for x in (X, wide))
    if solver != "adagrad":  # its dense rows add up in another order
        np.testing.assert_array_equal(other.coef_[:, kept], one.coef_)
        np.testing.assert_array_equal(other.intercept_, one.intercept_)
    atol = 3 * N * 4 * 2**-23 * np.abs(one.coef_).max()  # visits, each of a few roundings
    np.testing.assert_allclose(other.coef_[:, kept], one.coef_, rtol=0, atol=atol)
    assert not other.coef_[:, [0, 4, 8]].any()


# An intercept is the weight of a feature that is always 1.

WITH_ONES = [
    *[softmax(solver=solver, learning_rate=0.2, **draws(solver)) for solver in POINT_SOLVERS],
    softmax(solver=solvers.CSS(schedule="adaptive"), learning_rate=0.2, n_negatives=3),
    softmax(solver=solvers.Implicit(averaging="polyak"), learning_rate=0.2, n_negatives=3),
    softmax(solver=solvers.Implicit(batch_size=7), learning_rate=0.2, n_negatives=3),
    softmax(solver="adagrad", learning_rate=0.2),
    softmax(solver="css", sampler=samplers.Search(budget=4), learning_rate=0.2),
    MarginClassifier(solver="implicit", learning_rate=0.2, max_iter=3, random_state=3),
    MarginClassifier(loss="triplet", solver="sgd", learning_rate=0.01, max_iter=3, random_state=3),
    AugmentReduceClassifier(learning_rate=0.2, n_negatives=3, max_iter=3, random_state=3),
    AugmentReduceClassifier(solver="sgd", noise="gumbel", learning_rate=0.2, max_iter=3, random_state=3),
]


@pytest.mark.parametrize("estimator", WITH_ONES, ids=lambda e: f"{type(e).__name__}-{e.solver}")
@pytest.mark.parametrize("storage", STORAGES)
def test_an_intercept_is_the_weight_of_a_column_of_ones(estimator, storage, seed):
    X, y = problem(seed)
    ones = np.column_stack([X, np.ones(N, dtype=np.float32)])
    one = clone(estimator).fit(as_storage(X, storage), y)
    other = clone(estimator).set_params(fit_intercept=False).fit(as_storage(ones, storage), y)
    # Sums of products in another order: a few roundings a visit, each of which the next visits may double.
    atol = 3 * N * 8 * 2**-23 * np.abs(other.coef_).max()
    np.testing.assert_allclose(other.coef_[:, :D], one.coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(other.coef_[:, D], one.intercept_, rtol=0, atol=atol)
    assert not other.intercept_.any()


# Forms that are one where all classes are seen.


def close_fits(one, other, n_visits=3 * N):
    """To the rounding of as many visits."""
    atol = n_visits * 8 * 2**-23 * np.abs(one.coef_).max()
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=0, atol=n_visits * 8 * 2**-23)
    np.testing.assert_allclose(other.loss_curve_, one.loss_curve_, rtol=n_visits * 2**-23)


@pytest.mark.parametrize("storage", STORAGES)
def test_complementary_sampling_of_all_classes_is_the_exact_softmax(storage, seed):
    X, y = problem(seed)
    x = as_storage(X, storage)
    close_fits(softmax(solver="exact").fit(x, y), softmax(solver="css", sampler="all").fit(x, y))


@pytest.mark.parametrize("solver", ["is", "augment_reduce"])
def test_other_estimates_of_all_classes_are_the_exact_softmax_too(solver, seed):
    """Importance sampling over all classes is the softmax, and a u that is the log-normaliser itself makes it so."""
    X, y = problem(seed)
    first_pass = {"max_iter": 1, "learning_rate": 0.2}  # where the gain of u is 1
    exact = softmax(solver="exact", **first_pass).fit(X, y)
    close_fits(exact, softmax(solver=solver, sampler="all", **first_pass).fit(X, y))


@pytest.mark.parametrize("storage", STORAGES)
def test_a_gumbel_utility_that_sees_all_classes_is_the_exact_softmax_in_every_pass(storage, seed):
    """Where all classes are seen q moves all of the way at every visit, not by a share that falls."""
    X, y = problem(seed)
    x = as_storage(X, storage)
    common = {"learning_rate": 0.2, "max_iter": 4, "random_state": 3}
    exact = SoftmaxClassifier(solver="exact", **common).fit(x, y)
    gumbel = AugmentReduceClassifier(noise="gumbel", solver="sgd", sampler="all", **common).fit(x, y)
    close_fits(exact, gumbel, n_visits=4 * N)


def test_one_vs_each_of_two_classes_is_the_softmax(seed):
    X, y = problem(seed, n_classes=2)
    common = {"learning_rate": 0.2, "sampler": "all"}
    close_fits(softmax(solver="exact", **common).fit(X, y), softmax(solver="ove", **common).fit(X, y))


@pytest.mark.parametrize("formulation", ["proposed", "raman"])
def test_a_tiny_gain_freezes_the_normaliser_of_a_moving_average(formulation, seed):
    """With u fixed at log K and W at 0 the first step has the probabilities 1/K of the softmax."""
    X, y = problem(seed)
    one = {"learning_rate": 0.5, "max_iter": 1, "sampler": "all"}
    exact = softmax(solver=solvers.Exact(batch_size=N), **one | {"sampler": "auto"}).fit(X, y)
    ema = softmax(solver=solvers.EMA(gain=1e-6, formulation=formulation, batch_size=N), **one).fit(X, y)
    close_fits(exact, ema, n_visits=N)


def test_steps_of_one_batch_of_all_points_are_gradient_descent(seed):
    X, y = problem(seed)
    rate, passes = 0.7, 5
    model = softmax(
        solver=solvers.Exact(batch_size=N, schedule="constant"),
        learning_rate=rate,
        max_iter=passes,
        fit_intercept=False,
    ).fit(X, y)
    W = np.zeros((K, D))
    for _ in range(passes):
        z = X @ W.T
        p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
        W -= rate * (p - np.eye(K)[y]).T @ X / N
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=passes * N * 2**-23 * np.abs(W).max())


@pytest.mark.parametrize("solver", ["exact", "css", "implicit", "umax", "sgd", "bregman", "scent", "lbfgs"])
def test_all_points_in_one_batch_lead_to_the_ridged_optimum(solver, seed):
    """Deterministic descent on the objective: what is left is the error of the ridge's own step."""
    alpha, rate, n_classes = 0.3, 0.5, 3
    X, y = planted(np.random.default_rng(seed), N, 3, n_classes)
    rows = np.arange(N)

    def value(flat):
        W = flat.reshape(n_classes, 3)
        z = X.astype(np.float64) @ W.T
        p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
        loss = np.mean(logsumexp(z, axis=1) - z[rows, y]) + alpha / 2 * np.sum(W**2)
        return loss, ((p - np.eye(n_classes)[y]).T @ X / N + alpha * W).ravel()

    best = minimize(value, np.zeros(3 * n_classes), jac=True, tol=1e-12).x.reshape(n_classes, 3)
    common = {"alpha": alpha, "max_iter": 400, "fit_intercept": False, "random_state": 0}
    if solver == "lbfgs":
        model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), **common).fit(X, y)
        atol = 1e-7 / alpha + 2**-23  # the gradient left, over the curvature of the ridge
    else:
        part = solvers.SOLVERS[solver](batch_size=N, schedule="constant", shuffle=False)
        sampler = {} if solver == "exact" else {"sampler": "all"}
        model = SoftmaxClassifier(solver=part, learning_rate=rate, **common, **sampler).fit(X, y)
        # Rows shrink between the moves of a batch and not once for it: by a share rate * alpha at most of a pass's
        # moves, which at the optimum are rate * alpha * W.
        atol = rate * alpha * np.abs(best).max()
    np.testing.assert_allclose(model.coef_, best, rtol=0, atol=atol)


@pytest.mark.parametrize("averaging", ["polyak", "suffix"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("max_iter", [1, 4, 5])
def test_an_average_is_the_mean_of_fits_of_so_many_passes(averaging, storage, max_iter, seed):
    X, y = problem(seed)
    x = as_storage(X, storage)

    def fit(passes, averaging):
        solver = solvers.UMax(decay=0.8, averaging=averaging)
        return softmax(solver=solver, n_negatives=3, max_iter=passes, learning_rate=0.2).fit(x, y)

    first = max_iter // 2 if averaging == "suffix" else 0
    fits = [fit(passes, "none") for passes in range(first + 1, max_iter + 1)]
    found = fit(max_iter, averaging)
    for name in ("coef_", "intercept_"):
        mean = np.mean([getattr(one, name).astype(np.float64) for one in fits], axis=0)
        atol = len(fits) * 2**-23 * max(np.abs(getattr(one, name)).max() for one in fits)
        np.testing.assert_allclose(getattr(found, name), mean, rtol=0, atol=atol)
