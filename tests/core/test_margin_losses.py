"""Margins of several labels: the bi-simplex, the loss from a few scores, the implicit step."""

import numpy as np
import pytest
from reference import losses as twin
from scipy.optimize import minimize
from test_losses import MUS, ULP, listed, one, some_point

from manyclass import losses


def with_margin(z, P):
    out = z + 1
    out[P] -= 1
    return out


def by_quadratic_programming(c, P, mu):
    """argmax over the bi-simplex of <c, alpha> - mu/2 |alpha|^2 by SLSQP."""
    P, N = twin.split(c, P)
    sign = np.ones(len(c))
    sign[P] = -1
    constraints = [
        {"type": "eq", "fun": lambda a: a.sum(), "jac": lambda a: np.ones_like(a)},
        {"type": "ineq", "fun": lambda a: 1 - a[N].sum(), "jac": lambda a: -(sign > 0).astype(float)},
    ]
    found = minimize(
        lambda a: mu / 2 * a @ a - c @ a,
        np.zeros(len(c)),
        jac=lambda a: mu * a - c,
        bounds=[(0, None) if s > 0 else (None, 0) for s in sign],
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("mu", [0.3, 1.0, 5.0])
def test_smoothed_margin_solves_its_quadratic_program(mu, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        z, P = some_point(rng, int(rng.integers(2, 9)))
        value, alpha = one(lambda z, P: losses.smoothed_margin(z, P, mu), z, P)
        c = with_margin(z, P)
        found = by_quadratic_programming(c, P, mu)
        # The objective is mu-strongly concave: SLSQP's 1e-9 of it is sqrt(2e-9 / mu) of alpha.
        np.testing.assert_allclose(alpha, found, rtol=0, atol=np.sqrt(2e-9 / mu))
        assert value == pytest.approx(c @ found - mu / 2 * found @ found, abs=1e-8)


@pytest.mark.parametrize("mu", MUS)
def test_smoothed_margin_meets_the_conditions_of_an_optimum(mu, seed):
    rng = np.random.default_rng(seed)
    for n_classes in (2, 10, 100, 5000):
        z, P = some_point(rng, n_classes, spread=float(rng.choice([0.3, 3])))
        P, N = twin.split(z, P)
        _, alpha = one(lambda z, P: losses.smoothed_margin(z, P, mu), z, P)
        slope = with_margin(z, P) - mu * alpha
        rounding = mu * ULP + 1e-12  # of alpha, rounded to float
        total = alpha[N].sum()
        assert alpha[N].min() >= 0
        assert alpha[P].max() <= 0
        assert total == pytest.approx(-alpha[P].sum(), abs=ULP)
        assert total <= 1 + ULP
        # One price for all classes with alpha, and no better class without: t_N over N, -t_P over P, t_N - that >= 0.
        t_n, t_p = slope[N].max(), slope[P].min()
        assert np.all(slope[N][alpha[N] > 0] >= t_n - rounding)
        assert np.all(slope[P][alpha[P] < 0] <= t_p + rounding)
        if total > 0:
            assert t_n - t_p >= -2 * rounding
        if total < 1 - ULP:
            assert t_n - t_p <= 2 * rounding


@pytest.mark.parametrize("mu", MUS)
def test_smoothing_takes_at_most_mu_and_makes_the_gradient_lipschitz(mu, seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        z, P = some_point(rng, 12)
        value, gradient = one(lambda z, P: losses.smoothed_margin(z, P, mu), z, P)
        sharp = one(losses.max_margin, z, P)[0]
        assert -1e-12 <= sharp - value <= mu + 1e-12
        assert abs(gradient.sum()) <= 6 * ULP  # some values of at most 1, each rounded
        other = (z + rng.normal(size=12) * mu).astype(np.float32).astype(np.float64)
        slopes = one(lambda z, P: losses.smoothed_margin(z, P, mu), other, P)[1]
        assert np.linalg.norm(gradient - slopes) <= np.linalg.norm(z - other) / mu + 12 * ULP


def test_smoothed_margin_tends_to_the_max_margin(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=50).astype(np.float32).astype(np.float64)  # no ties
    for smoothing in (1e-6, 1e-30, 1e-300, 5e-324, 0.0):
        value, gradient = one(lambda z, P, mu=smoothing: losses.smoothed_margin(z, P, mu), z, [3, 8])
        sharp, slopes = one(losses.max_margin, z, [3, 8])
        assert value == pytest.approx(sharp, abs=smoothing + 1e-12)
        np.testing.assert_array_equal(gradient, slopes)


def test_gradient_of_the_margin_has_few_classes_where_scores_spread(seed):
    z = np.random.default_rng(seed).normal(size=(5, 20_000))
    _, gradients = losses.smoothed_margin(z, [[i] for i in range(5)], 1.0)
    assert np.count_nonzero(gradients, axis=1).max() <= 30


def test_projection_is_the_nearest_point_and_leaves_points_of_the_bisimplex_alone(seed):
    rng = np.random.default_rng(seed)
    for n_classes in (2, 3, 8, 40):
        z, P = some_point(rng, n_classes)
        alpha = losses.project_bisimplex(z, P)
        np.testing.assert_allclose(alpha, twin.project_bisimplex(z, P), rtol=2 * ULP, atol=1e-12)
        np.testing.assert_allclose(losses.project_bisimplex(alpha, P), alpha, rtol=0, atol=4 * ULP)
        if n_classes <= 8:
            np.testing.assert_allclose(alpha, by_quadratic_programming(z, P, 1.0), rtol=0, atol=np.sqrt(2e-9))


# The rest, and the highest scores alone


@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
@pytest.mark.parametrize("mu", [0.0, *MUS])
def test_a_rest_counts_as_so_many_classes_of_its_score(loss, mu, seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        positives = rng.normal(size=int(rng.integers(1, 4)))
        negatives = rng.normal(size=int(rng.integers(0, 40)))
        n, score = int(rng.integers(1, 50)), np.float32(rng.normal() * 2)
        got = listed(loss, mu, positives, negatives, n, score)
        want = listed(loss, mu, positives, np.append(negatives, np.full(n, score)))
        assert got[0] == pytest.approx(want[0], rel=44 * ULP, abs=1e-11)
        tolerance = {"rtol": 44 * ULP, "atol": 1e-7}
        np.testing.assert_allclose(got[1], want[1], **tolerance)
        np.testing.assert_allclose(got[2], want[2][: len(negatives)], **tolerance)
        # Without smoothing the first class of a best rest has the 1 where they are listed; here they share it.
        assert n * got[3] == pytest.approx(want[2][len(negatives) :].sum(dtype=float), rel=44 * ULP, abs=n * 1e-7)


@pytest.mark.parametrize(("loss", "mu"), [("margin", mu) for mu in (0.0, *MUS)] + [("triplet", 0.0)])
def test_the_highest_scores_are_enough_whenever_the_loss_says_so(loss, mu, seed):
    rng = np.random.default_rng(seed)
    said = []
    for _ in range(200):
        positives = rng.normal(size=int(rng.integers(1, 4))) + rng.choice([0, 4])
        negatives = np.sort(rng.normal(size=60).astype(np.float32))[::-1]
        q = int(rng.integers(1, 40))
        top = listed(loss, mu, positives, rng.permutation(negatives[:q]))
        got = listed(loss, mu, positives, negatives[:q])
        assert got[4] == top[4], "the order of the list decides"
        said.append(got[4])
        if got[4]:
            every = listed(loss, mu, positives, negatives)
            assert got[0] == pytest.approx(every[0], rel=1e-12, abs=1e-13)
            np.testing.assert_allclose(got[1], every[1], rtol=2 * ULP, atol=1e-12)
            np.testing.assert_allclose(np.append(got[2], np.zeros(60 - q)), every[2], rtol=2 * ULP, atol=1e-12)
    assert any(said)
    assert not all(said) or mu < 1  # of a small mu, two scores are nearly always enough


def test_the_highest_scores_are_not_said_to_be_enough_where_they_are_not():
    assert not listed("margin", 5.0, [0.0], [1.0, 1.0])[4]  # a third class at 1 would have its share
    assert listed("margin", 0.5, [0.0], [1.0, 0.5])[4]
    assert not listed("margin", 0.0, [0.0], [])[4]
    assert not listed("triplet", 0.0, [0.0], [1.0, -0.5])[4]
    assert listed("triplet", 0.0, [0.0], [1.0, -1.0])[4]
    assert not listed("cross_entropy", 0.0, [50.0], [0.0, -100.0])[4]  # each class has a part


# The implicit step


def full_objective(V, x, start, eta, mu, P):
    W = V.reshape(start.shape)
    value, alpha = twin.smoothed_margin(W @ x, P, mu)
    return (
        value + np.sum((W - start) ** 2) / (2 * eta),
        (np.outer(alpha, x) + (W - start) / eta).ravel(),
    )


@pytest.mark.parametrize("eta", [0.1, 1.0, 30.0])
def test_implicit_step_is_the_minimum_over_all_of_w(eta, seed):
    rng = np.random.default_rng(seed)
    start, x, P, mu = rng.normal(size=(6, 3)), rng.normal(size=3), [1, 4], 0.5
    z = (start @ x).astype(np.float32)
    start += np.outer(z - start @ x, x) / (x @ x)  # so that the old scores are floats
    (value,), alpha = losses.implicit_margin(z, P, x @ x, eta=eta, smoothing=mu)
    W = start - eta * np.outer(alpha, x)
    at_step, slope = full_objective(W.ravel(), x, start, eta, mu, P)
    assert value == pytest.approx(at_step, rel=1e-6)
    # alpha is off by a float's rounding, its scores by eta |x|^2 of that, the gradient by 1/mu of that.
    off = ULP * (1 + eta * x @ x / mu) * np.linalg.norm(x)
    assert np.abs(slope).max() <= 2 * off
    found = minimize(
        full_objective, start.ravel(), (x, start, eta, mu, P), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    # 1/eta-strongly convex: BFGS's slope of 1e-7 is a distance of eta 1e-7.
    np.testing.assert_allclose(W.ravel(), found.x, rtol=0, atol=eta * (1e-6 + 2 * off))
    assert value <= found.fun + 1e-6


def test_implicit_step_without_smoothing_moves_as_far_as_the_margin_asks(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        z, P = some_point(rng, 8)
        x_sq, eta = float(rng.uniform(0.1, 4)), float(rng.choice([0.01, 1, 100]))
        (value,), alpha = losses.implicit_margin(z, P, x_sq, eta=eta, smoothing=0.0)
        alpha = alpha.astype(float)
        new = z - eta * x_sq * alpha
        # alpha is a subgradient at the new scores: Fenchel's equality, <z + 1_N, alpha> = L(z) for alpha in C.
        off = 16 * ULP * (1 + eta * x_sq)
        assert with_margin(new, P) @ alpha == pytest.approx(twin.max_margin(new, P)[0], abs=off)
        assert value == pytest.approx(twin.max_margin(new, P)[0] + eta * x_sq * alpha @ alpha / 2, abs=off)


def test_implicit_steps_of_rows_are_each_their_own(seed):
    rng = np.random.default_rng(seed)
    z, P, x_sq = rng.normal(size=(3, 7)), [[0], [1, 2], [6]], np.array([0.0, 1.0, 9.0])
    values, alphas = losses.implicit_margin(z, P, x_sq, eta=0.5, smoothing=2.0)
    for i in range(3):
        (value,), alpha = losses.smoothed_margin(z[i], P[i], 2.0 + 0.5 * x_sq[i])
        assert values[i] == value
        np.testing.assert_array_equal(alphas[i], alpha)
