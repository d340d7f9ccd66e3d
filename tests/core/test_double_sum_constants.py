"""Constants of Fagan & Iyengar's theorems hold on small problems; projection leads to the constrained optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.problems import as_storage, planted
from scipy.optimize import minimize

from manyclass import SoftmaxClassifier, bounds, solvers


def double_sum(flat, x, y, n_classes, alpha):
    """F at (W, u), from its definition, with the gradient."""
    n, d = x.shape
    W, u = flat[: n_classes * d].reshape(n_classes, d), flat[n_classes * d :]
    z = x @ W.T
    terms = np.exp(z - z[np.arange(n), y][:, np.newaxis] - u[:, np.newaxis])  # that of the label is e^-u
    of_scores = terms.copy()
    of_scores[np.arange(n), y] -= terms.sum(axis=1)
    value = np.mean(u + terms.sum(axis=1)) + alpha / 2 * np.sum(W**2)
    return value, np.append((of_scores.T @ x / n + alpha * W).ravel(), (1 - terms.sum(axis=1)) / n)


@pytest.mark.parametrize("alpha", [0.003, 0.1, 2.0])
def test_the_optimum_lies_inside_the_bounds(alpha, seed):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 60, 4, 6, scale=5)
    x = X.astype(float)
    found = bounds.double_sum_constants(np.bincount(y, minlength=6), np.linalg.norm(x, axis=1).max(), alpha=alpha)
    best = minimize(double_sum, np.zeros(24 + 60), args=(x, y, 6, alpha), jac=True, options={"gtol": 1e-9})
    W, u = best.x[:24], best.x[24:]
    assert np.linalg.norm(W) <= found.weight_norm
    assert u.min() >= 0
    assert u.max() <= found.log_normalizer
    # F(u*, W*) is the ridged mean log-loss and 1.
    losses = np.log(np.exp(x @ W.reshape(6, 4).T).sum(axis=1)) - (x * W.reshape(6, 4)[y]).sum(axis=1)
    assert best.fun == pytest.approx(losses.mean() + 1 + alpha / 2 * W @ W, rel=1e-7)


def test_gradients_and_curvature_stay_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 12, 3, 5, scale=2)
    x, n, n_classes, alpha, norm = X.astype(float), 12, 5, 0.3, 0.8
    counts = np.bincount(y, minlength=5)
    found = bounds.double_sum_constants(counts, np.linalg.norm(x, axis=1).max(), alpha=alpha, max_norm=norm)
    b = n / (counts + (n - counts) / (n_classes - 1))
    for _ in range(20):
        W = rng.normal(size=(5, 3))
        W *= norm * rng.random((5, 1)) / np.linalg.norm(W, axis=1, keepdims=True)
        u = found.log_normalizer * rng.random(n)
        at = np.append(W.ravel(), u)
        steps = 1e-5 * np.eye(len(at))
        hessian = [
            (double_sum(at + s, x, y, 5, alpha)[1] - double_sum(at - s, x, y, 5, alpha)[1]) / 2e-5 for s in steps
        ]
        # Differences of gradients are right to the cube root of eps.
        assert np.linalg.eigvalsh(np.array(hessian)).min() >= found.strong_convexity - 1e-6
        for i in range(n):
            for k in set(range(5)) - {y[i]}:  # one sampled class: eq. 6-7, over N
                rise = (n_classes - 1) * np.exp(x[i] @ (W[k] - W[y[i]]) - u[i])
                rows = [rise * x[i] + alpha * b[k] * W[k], -rise * x[i] + alpha * b[y[i]] * W[y[i]]]
                gradient = np.concatenate([*rows, [1 - np.exp(-u[i]) - rise]])
                assert np.linalg.norm(gradient) <= found.gradient_norm


def test_a_bump_of_u_lowers_the_sum_by_at_least_half_of_delta_squared(seed):
    # Lemma 5, exactly: raising u to b <= u* lowers u + e^-u A by more than b - u = delta would, were u* = b.
    rng = np.random.default_rng(seed)
    for delta in (0.1, 1.0, 3.0):
        u, b = rng.normal(), 0.0
        b = u + delta
        log_a = b + rng.exponential()
        fall = (u + np.exp(log_a - u)) - (b + np.exp(log_a - b))
        assert fall >= np.exp(delta) - 1 - delta >= delta**2 / 2


def test_the_step_size_is_that_of_the_theorem():
    found = bounds.double_sum_constants([3, 4, 5], 1.0, alpha=0.5, max_norm=0.1)
    assert found.n_samples == 12
    assert found.learning_rate(2.0) == pytest.approx(4 / (4 * 12 * found.gradient_norm**2))
    assert bounds.double_sum_constants([3, 4], 1e3, alpha=1e-6).learning_rate() == 0  # B_f is beyond floats


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"counts": [5]}, "counts must have one number >= 0 for each of at least two classes"),
        ({"counts": [5, -1]}, "counts must"),
        ({"counts": [0, 0]}, "at least one point"),
        ({"alpha": 0.0}, "alpha is 0.0; it must be finite, more than 0"),
        ({"largest_x": -1.0}, "largest_x is -1.0"),
        ({"max_norm": 0.0}, "max_norm is 0.0"),
    ],
)
def test_constants_of_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bounds.double_sum_constants(**{"counts": [5, 5], "largest_x": 1.0, "alpha": 0.1} | arguments)


def test_intercepts_are_free_where_rows_are_held_small():
    # 20 classes of geometric frequencies: rows of norm 1e-3 say nothing, so that the best loss is the entropy, and
    # classes have the mass that they have in the data. (Version 0.1 held u below log K + .002, and ended 0.04
    # nats higher, with three times the mass for the rarer half.)
    counts = np.maximum(np.round(4000 * 0.7 ** np.arange(20)), 1).astype(int)
    y = np.repeat(np.arange(20), counts)
    X = sp.csr_array(np.ones((len(y), 1), dtype=np.float32))
    share = counts / counts.sum()
    entropy = -share @ np.log(share)
    model = SoftmaxClassifier(
        solver=solvers.Implicit(max_norm=1e-3, decay=0.8), sampler="all", learning_rate=0.3, max_iter=30, random_state=0
    ).fit(X, y)
    assert entropy < model.evaluate(X, y)["log_loss"] < entropy + 0.001
    p = model.predict_proba(X[:1])[0]
    assert p[10:].sum() == pytest.approx(share[10:].sum(), rel=0.1)
    assert np.abs(model.coef_).max() <= 1e-3 * (1 + 1e-5)  # norms of rows are kept up in float32, step by step


@pytest.mark.parametrize("alpha", [0.0, 0.02])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_projection_leads_to_the_constrained_optimum(storage, fit_intercept, alpha, seed):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 600, 3, 5, scale=6)
    x, norm = X.astype(float), 0.7
    one_hot = np.eye(5)[y]

    def value(flat):
        W, b = flat[:15].reshape(5, 3), flat[15:] * fit_intercept
        z = x @ W.T + b
        top = np.logaddexp.reduce(z, axis=1)
        g = (np.exp(z - top[:, np.newaxis]) - one_hot) / len(y)
        loss = np.mean(top - (z * one_hot).sum(axis=1)) + alpha / 2 * np.sum(W**2)
        return loss, np.append((g.T @ x + alpha * W).ravel(), g.sum(axis=0) * fit_intercept)

    ball = {"type": "ineq", "fun": lambda flat: norm**2 - np.sum(flat[:15].reshape(5, 3) ** 2, axis=1)}
    best = minimize(value, np.zeros(20), jac=True, constraints=ball, method="SLSQP", options={"ftol": 1e-12}).fun
    free = minimize(value, np.zeros(20), jac=True).fun
    assert free < best - 0.005  # the ball is felt
    model = SoftmaxClassifier(
        solver=solvers.Implicit(max_norm=norm, decay=0.9),
        sampler="all",
        learning_rate=1.0,
        alpha=alpha,
        fit_intercept=fit_intercept,
        max_iter=80,
        random_state=0,
    ).fit(as_storage(X, storage), y)
    found = value(np.append(model.coef_.ravel(), model.intercept_))[0]
    assert best - 1e-5 <= found < best + 0.003  # what steps of single points leave after 80 passes
