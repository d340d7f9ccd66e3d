"""The duality gap: a bound for any W, tight at the optimum, and its parts against N x K arrays."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.full_batch import objective, softmax_optimum
from reference.problems import as_storage, planted
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.exceptions import ConvergenceWarning
from testing_core import pieces

from manyclass import SoftmaxClassifier, solvers
from manyclass.checks import csr_parts

N, D, K = 120, 6, 9


def problem(seed, n=N, n_features=D, n_classes=K):
    return planted(np.random.default_rng(seed), n, n_features, n_classes, density=0.6, scale=4)


def model_at(X, y, W, b, storage, **parameters):
    """A classifier with the given weights."""
    parameters = {"solver": solvers.LBFGS(tol=0.1), "max_iter": 1000, "alpha": 1.0, **parameters}
    model = SoftmaxClassifier(**parameters).fit(as_storage(X, storage), y)
    model.coef_[...] = W
    model.intercept_[...] = b
    return model


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_the_optimum_lies_between_dual_and_primal_for_any_weights(storage, alpha, fit_intercept, seed):
    X, y = problem(seed)
    x = X.astype(np.float64)
    optimum, best_W, best_b = softmax_optimum(x, y, K, alpha, intercept=fit_intercept)
    rng = np.random.default_rng(seed + 1)
    for scale in (0.0, 1e-3, 0.3, 3.0, 300.0):
        for around in (0.0, 1.0):
            W = (around * best_W + scale * rng.normal(size=(K, D))).astype(np.float32)
            b = fit_intercept * (around * best_b + scale * rng.normal(size=K)).astype(np.float32)
            model = model_at(X, y, W, b, storage, alpha=alpha, fit_intercept=fit_intercept)
            bounds = model.certificate(as_storage(X, storage), y)
            assert bounds["primal"] == pytest.approx(objective("softmax", x, y, W.astype(float), b, alpha), rel=1e-12)
            assert bounds["gap"] == bounds["primal"] - bounds["dual"]
            # The reference's own optimum is off by some 1e-12, and so are the columns' sums.
            assert 0 <= bounds["dual"] <= optimum + 1e-10
            assert optimum - 1e-10 <= bounds["primal"]


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_the_gap_closes_at_the_optimum(storage, fit_intercept, seed):
    X, y = problem(seed)
    x = as_storage(X, storage)
    model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), alpha=1e-3, fit_intercept=fit_intercept, max_iter=5000)
    bounds = model.fit(x, y).certificate(x, y)
    # Intercepts rounded to floats leave a surplus of 1e-7 of the probability, which moves at the price of some nats.
    assert abs(bounds["gap"]) < 1e-6
    assert bounds["primal"] == pytest.approx(model.loss_curve_[-1], rel=1e-10)


def test_at_balanced_intercepts_the_gap_is_at_most_the_squared_gradient_over_twice_alpha(seed):
    X, y = problem(seed)
    alpha, x = 1e-2, X.astype(np.float64)
    _, W, _ = softmax_optimum(x, y, K, alpha, intercept=True)
    W = (W + 1e-2 * np.random.default_rng(seed + 1).normal(size=W.shape)).astype(np.float32)
    Y = np.eye(K)[y]
    b = np.zeros(K)
    for _ in range(1000):  # the best intercepts for this W
        p = np.exp(x @ W.T + b)
        p /= p.sum(axis=1, keepdims=True)
        b += np.log(Y.sum(axis=0) / p.sum(axis=0))
    gradient = (p - Y).T @ x / N + alpha * W
    bounds = model_at(X, y, W, b, "sparse", alpha=alpha).certificate(as_storage(X, "sparse"), y)
    of_theory = np.sum(gradient**2) / (2 * alpha)
    assert of_theory > 1e-5  # far above what rounding the intercepts costs
    assert 0 < bounds["gap"] <= of_theory + 1e-6


def test_a_run_of_sampled_steps_gets_a_useful_bound(seed):
    # What the certificate is for: after a short L-BFGS the bound must see most of the way from log K to the optimum.
    X, y = problem(seed, 600)
    x = as_storage(X, "sparse")
    alpha = 0.01
    rough = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-3), alpha=alpha, max_iter=5000).fit(x, y)
    rough.intercept_[...] += np.random.default_rng(seed).normal(scale=0.2, size=K).astype(np.float32)
    bounds = rough.certificate(x, y)
    optimum = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=5000).fit(x, y).loss_curve_[-1]
    # Only the intercepts are wrong, which step 1 mends: the dual is far closer to the optimum than the primal is.
    assert 0 <= optimum - bounds["dual"] < 0.1 * (bounds["primal"] - optimum)


def test_without_a_ridge_the_dual_is_zero(seed):
    X, y = problem(seed)
    model = model_at(X, y, np.zeros((K, D)), np.zeros(K), "dense", alpha=0.0)
    assert model.certificate(X, y) == {"primal": pytest.approx(np.log(K)), "dual": 0.0, "gap": pytest.approx(np.log(K))}


def test_data_that_lack_a_class_get_a_bound(seed):
    X, y = problem(seed)
    some = y != 4
    W, b = np.random.default_rng(seed).normal(size=(K, D)), np.zeros(K)
    bounds = model_at(X, y, W, b, "sparse", alpha=0.1).certificate(as_storage(X[some], "sparse"), y[some])
    present = y[some] - (y[some] > 4)  # a class without points is best left out, its intercept at -infinity
    optimum, _, _ = softmax_optimum(X[some].astype(np.float64), present, K - 1, 0.1, intercept=True)
    assert 0 <= bounds["dual"] <= optimum + 1e-10


def test_any_number_of_threads_gives_the_same_bits(seed):
    X, y = problem(seed, 700, 12, 100)
    W = np.random.default_rng(seed).normal(size=(100, 12))
    for storage in ("sparse", "dense"):
        answers = [
            model_at(X, y, W, np.zeros(100), storage, n_jobs=n).certificate(as_storage(X, storage), y)
            for n in (1, 2, 5)
        ]
        assert answers[0] == answers[1] == answers[2]


def test_data_of_the_other_kind_than_the_model_was_fitted_on_get_the_same_answer(seed):
    X, y = problem(seed)
    W, b = np.random.default_rng(seed).normal(size=(K, D)), np.arange(K) / K
    for storage, other in (("sparse", "dense"), ("dense", "sparse")):
        model = model_at(X, y, W, b, storage, alpha=0.1)
        one, two = model.certificate(as_storage(X, storage), y), model.certificate(as_storage(X, other), y)
        assert one == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_balanced_rows_have_the_wanted_totals_and_the_core_sums_them(storage, seed):
    n, n_features, n_classes = 300, 12, 50
    X, y = problem(seed, n, n_features, n_classes)
    rng = np.random.default_rng(seed + 1)
    W, b = rng.normal(size=(n_classes, n_features)).astype(np.float32), rng.normal(size=n_classes)
    question = {
        "x": csr_parts(as_storage(X, "sparse")) if storage == "sparse" else X,
        "n_features": n_features,
        "matrix": np.ascontiguousarray(W.T if storage == "sparse" else W),
        "intercept": b,
        "n_classes": n_classes,
        "labels": y.astype(np.int32),
        "n_threads": 2,
    }
    z = X.astype(np.float64) @ W.T.astype(np.float64) + b
    normalizers = np.log(np.exp(z).sum(axis=1))
    p = np.exp(z - normalizers[:, np.newaxis])
    rows = np.arange(n)
    for ours, theirs in zip(
        pieces.softmax_totals(**question), (normalizers, normalizers - z[rows, y], p.sum(axis=0)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)

    wanted, totals = np.bincount(y, minlength=n_classes).astype(float), p.sum(axis=0)
    keep, lack = np.minimum(1, wanted / totals), np.maximum(0, wanted - totals)
    fill = lack / lack.sum()
    assert np.abs(wanted - totals).max() > 1  # something to move
    q = p * keep
    q += (1 - q.sum(axis=1, keepdims=True)) * fill
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(q.sum(axis=0), wanted, rtol=1e-12)
    entropies, label_probabilities, residual = pieces.balanced_softmax(
        **question, normalizers=normalizers, keep=keep, fill=fill
    )
    np.testing.assert_allclose(entropies, -xlogy(q, q).sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(label_probabilities, q[rows, y], rtol=1e-10)
    q[rows, y] -= 1
    assert residual == pytest.approx(np.sum((q.T @ X.astype(np.float64)) ** 2), rel=1e-10)


def test_a_label_unseen_in_fit_is_refused(seed):
    X, y = problem(seed)
    model = model_at(X, y, 0, 0, "dense")
    with pytest.raises(ValueError, match=r"y has 1 labels unseen in fit, among them .*77"):
        model.certificate(X[:2], [0, 77])


# Several labels a row


def labelled(seed, n=60, k=7, d=5):
    """Rows of one to three labels, some of them without a label, and weights of rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    Y = np.zeros((n, k), dtype=np.int64)
    for i, n_labels in enumerate(rng.integers(0, 4, n)):
        Y[i, rng.permutation(k)[:n_labels]] = 1
    Y[:k] = np.eye(k, dtype=np.int64)
    return X, Y, rng.uniform(0.5, 2, n)


def pick_all(X, Y, r, alpha):
    """The function of (W, b) whose minimum is asked for, and its gradient: Yen et al. 2018, eq. 2, and a ridge."""
    there = Y.sum(axis=1) > 0
    X, Y, r = X[there].astype(np.float64), Y[there], r[there] / r[there].mean()
    k, d = Y.shape[1], X.shape[1]

    def objective(flat):
        W, b = flat[: k * d].reshape(k, d), flat[k * d :]
        z = X @ W.T + b
        log_z = np.logaddexp.reduce(z, axis=1)
        value = np.mean(r * (Y.sum(axis=1) * log_z - (Y * z).sum(axis=1))) + alpha / 2 * np.sum(W**2)
        g = (r / len(r))[:, np.newaxis] * (Y.sum(axis=1)[:, np.newaxis] * np.exp(z - log_z[:, np.newaxis]) - Y)
        return value, np.concatenate([(g.T @ X + alpha * W).ravel(), g.sum(axis=0)])

    return objective


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_lbfgs_of_several_labels_ends_at_the_optimum_with_a_ridge_and_proves_it(form, weighted, seed):
    X, Y, r = labelled(seed)
    r, alpha = (r if weighted else np.ones(len(r))), 0.05
    objective = pick_all(X, Y, r, alpha)
    best = minimize(objective, np.zeros(Y.shape[1] * 6), jac=True, method="BFGS", options={"gtol": 1e-9}).fun
    model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-9), alpha=alpha, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 1e-9 is where double precision ends
        model.fit(form(X), form(Y), sample_weight=r if weighted else None)
    reached = objective(np.concatenate([model.coef_.ravel(), model.intercept_]).astype(np.float64))[0]
    # Weights are rounded to single precision, 6e-8 of values below 10, at a point where slopes are 0.
    assert reached == pytest.approx(best, abs=1e-10)
    assert model.loss_curve_[-1] == pytest.approx(best, abs=1e-10)
    found = model.certificate(form(X), form(Y), sample_weight=r if weighted else None)
    assert found["primal"] == pytest.approx(reached, rel=1e-6)  # scores are sums of single precision
    assert found["dual"] <= best + 1e-6 * best
    assert -1e-12 < found["gap"] < 1e-5  # of an optimum that is reached it is a rounding


def test_a_certificate_of_several_labels_brackets_the_optimum_away_from_it(seed):
    X, Y, _ = labelled(seed)
    best = SoftmaxClassifier(solver="lbfgs", alpha=0.05, max_iter=2000).fit(X, Y).loss_curve_[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = SoftmaxClassifier(solver="lbfgs", alpha=0.05, max_iter=3).fit(X, Y)
    found = early.certificate(X, Y)
    assert found["dual"] < best < found["primal"]
    assert found["primal"] == pytest.approx(early.loss_curve_[-1], rel=1e-6)


def test_several_labels_of_which_each_row_has_one_make_the_model_of_one_label():
    X, Y, _ = labelled(0)
    y = np.arange(len(X)) % Y.shape[1]
    several = SoftmaxClassifier(solver="lbfgs", alpha=0.1).fit(X, np.eye(Y.shape[1], dtype=int)[y])
    one = SoftmaxClassifier(solver="lbfgs", alpha=0.1).fit(X, y)
    np.testing.assert_array_equal(several.coef_, one.coef_)
    assert several.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"early_stopping": True}, "early_stopping is True; with several labels and solver='lbfgs'"),
        ({"solver": solvers.LBFGS(loss="ove")}, "loss is 'ove'; with several labels and solver='lbfgs' it must be"),
        ({"sampler": "uniform"}, "sampler is 'uniform', which has no effect with solver='lbfgs'"),
        ({"model": "embedding"}, "solver is 'lbfgs'; with several labels"),
    ],
)
def test_what_full_passes_of_several_labels_do_not_have_is_refused(parameters, told):
    X, Y, _ = labelled(0)
    with pytest.raises(ValueError, match=re.escape(told)):
        SoftmaxClassifier(**{"solver": "lbfgs"} | parameters).fit(X, Y)


def test_full_passes_of_several_labels_do_not_go_on():
    X, Y, _ = labelled(0)
    model = SoftmaxClassifier(solver="lbfgs", alpha=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="solver='lbfgs', which does not go on"):
        model.partial_fit(X, Y)


@pytest.mark.quick
@pytest.mark.parametrize("weighs", ["class", "rows"])
def test_rows_of_a_class_of_weight_0_are_rows_of_the_fit(weighs, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(100, 4)).astype(np.float32), np.arange(100) % 4
    sample_weight = None if weighs == "class" else (y > 0).astype(float)
    model = SoftmaxClassifier(solver="lbfgs", alpha=0.01, class_weight={0: 0.0} if weighs == "class" else None)
    bounds = model.fit(X, y, sample_weight).certificate(X, y, sample_weight)
    assert 0 <= bounds["gap"] < 1e-6
    if weighs == "rows":
        assert bounds == model.certificate(X[y > 0], y[y > 0])
        with pytest.raises(ValueError, match="unseen in fit"):
            model.certificate(X, y)
