"""Implicit steps with a ridge, and with a Bregman distance for u, are the minimisers over all weights and u at once.

eta [u + e^-u (1 + sum alpha e^d)] + |W - W~|^2 / 2 + eta/(2 eta_u) (u - u~)^2 + eta ridge/2 sum_k b_k |w_k|^2 over the
touched rows, intercepts free of the ridge; "bregman": eta/a times the Bregman distance of e^-u in place of (u - u~)^2.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from reference.core_step import core_step
from reference.flat import softmax
from reference.problems import as_storage, planted
from reference.steps import Point
from scipy.optimize import minimize

from manyclass.registry import names

FLOAT = 8e-6  # see test_implicit.py


@dataclass
class Ridged:
    """One point and the rows (label first) that its step touches, with what each pays of the ridge."""

    W: np.ndarray
    b: np.ndarray
    x: np.ndarray
    alpha: np.ndarray
    ridge: np.ndarray  # ridge b_k, one for each row
    eta: float
    eta_u: float
    carried: float
    carry: float = 0.0

    @property
    def s(self):
        return 1 / (1 + self.eta * self.ridge)

    def point(self, **fields):
        """What the epoch tells the step: scores and |x|^2 as shrinking leaves them."""
        z = self.s * (self.W @ self.x) + self.b
        x_sq = self.s * (self.x @ self.x) + 1
        return Point(
            z[1:], self.alpha, z[0], x_sq[0], self.eta, self.eta_u, self.carried, self.carry, x_sqs=x_sq[1:], **fields
        )

    def moved(self, p, label):
        """W and b after w_k -= p_k x, w_y += label x and then shrinking."""
        moves = np.append(label, -p)
        return self.s[:, np.newaxis] * (self.W + np.outer(moves, self.x)), self.b + moves

    def value(self, theta, bregman=None):
        """The objective at (v, W, b); with bregman = a the other distance of u."""
        v, W, b = theta[0], theta[1 : 1 + self.W.size].reshape(self.W.shape), theta[1 + self.W.size :]
        z = W @ self.x + b
        u = v - self.carry * z[0]
        f = u + np.exp(-u) + np.sum(self.alpha * np.exp(z[1:] - z[0] - u))
        near = np.sum((W - self.W) ** 2) / 2 + np.sum((b - self.b) ** 2) / 2
        if bregman is None:
            distance = (v - self.carried) ** 2 / (2 * self.eta_u)
        else:
            distance = (np.exp(-v) - np.exp(-self.carried) * (1 - (v - self.carried))) / bregman
        return self.eta * (f + distance) + near + self.eta / 2 * np.sum(self.ridge * np.sum(W**2, axis=1))


def random_problem(rng, m, eta, eta_u, *, carry=0.0, ridge=1.0):
    problem = Ridged(
        W=rng.normal(size=(m + 1, 3)),
        b=rng.normal(size=m + 1),
        x=rng.normal(size=3),
        alpha=np.full(m, 10 / m),
        ridge=ridge * rng.uniform(0, 3, size=m + 1),
        eta=eta,
        eta_u=eta_u,
        carried=rng.uniform(0, 4),
        carry=carry,
    )
    problem.carried += carry * (problem.W[0] @ problem.x + problem.b[0])
    return problem


def assert_is_the_minimiser(problem, answer, bregman=None):
    p, label, v, _ = answer
    W, b = problem.moved(p, label)
    theta = np.concatenate([[v], W.ravel(), b])
    # Found without any structure; 1e-8 of the value is where quasi-Newton's differences of values end.
    start = np.concatenate([[problem.carried], problem.W.ravel(), problem.b])
    found = minimize(problem.value, start, args=(bregman,), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    value, best = problem.value(theta, bregman), found.fun
    assert value <= best + 1e-8 * (1 + abs(best))
    # The objective is at least 1-strongly convex in W and b, so a value that close means weights that close.
    near = np.sqrt(2 * (2e-8 + FLOAT**2) * (1 + abs(best)))
    np.testing.assert_allclose(W, found.x[1 : 1 + W.size].reshape(W.shape), rtol=0, atol=near)
    np.testing.assert_allclose(b, found.x[1 + W.size :], rtol=0, atol=near)
    # And stationary to what floats carry: the slope in each direction is at most its bend times the error.
    for j in range(len(theta)):
        h = np.zeros(len(theta))
        h[j] = 1e-4
        slope = (problem.value(theta + h, bregman) - problem.value(theta - h, bregman)) / 2e-4
        bend = (problem.value(theta + h, bregman) + problem.value(theta - h, bregman) - 2 * value) / 1e-8
        off = FLOAT * (1 + np.abs(theta).max()) + 1e-7 + 1e-11 * (1 + abs(value)) / 1e-4
        assert abs(slope) <= 4 * (1 + abs(bend)) * off


@pytest.mark.parametrize("carry", [0.0, 1.0, 0.35, -0.6])
@pytest.mark.parametrize("eta", [1e-2, 1.0, 30.0])
@pytest.mark.parametrize("m", [1, 4])
def test_the_implicit_step_with_a_ridge_is_the_minimiser_over_everything(m, eta, carry, seed):
    rng = np.random.default_rng(seed)
    for eta_u in (eta, 0.3):
        problem = random_problem(rng, m, eta, eta_u, carry=carry)
        for root in names("root"):
            assert_is_the_minimiser(problem, core_step(problem.point(), "implicit", root=root))


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("a", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("eta", [1e-2, 1.0, 30.0])
def test_the_bregman_step_is_the_minimiser_over_everything(eta, a, ridge, seed):
    rng = np.random.default_rng(seed)
    for m in (1, 4):
        problem = random_problem(rng, m, eta, a, ridge=ridge)
        for root in names("root"):
            assert_is_the_minimiser(problem, core_step(problem.point(), "bregman", root=root), a)


def test_an_infinite_ridge_leaves_intercepts_only(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 3, 1.0, 1.0, ridge=1e9)
    free = random_problem(rng, 3, 1.0, 1.0, ridge=0.0)
    free.W[:], free.x[:], free.b, free.carried = 0, 0, problem.b, problem.carried
    with_ridge, alone = (core_step(each.point(), "implicit") for each in (problem, free))
    np.testing.assert_allclose(with_ridge[0], alone[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("eta", [1e-6, 1.0, 1e6])
def test_huge_bregman_steps_stay_finite_and_keep_u_above_zero(eta, seed):
    rng = np.random.default_rng(seed)
    for spread in (1.0, 1e3, 1e6):
        for a in (1e-4, 1.0, 1e4):
            for root in names("root"):
                scores = (spread * rng.normal(size=20)).astype(np.float32).astype(float)
                point = Point(scores, np.full(20, 3.0), 0.0, 1.5, eta, a, float(rng.uniform(0, 9)))
                p, label, u, loss = core_step(point, "bregman", root=root)
                assert np.isfinite([*p, label, u, loss]).all()
                assert (p >= 0).all()
                assert u >= -4 * 2.0**-23 * (1 + spread)
                # e^u is an average of e^u~ and of A at the new scores, which is below A at the old ones.
                assert u <= max(point.carried, point.log_a) + 4 * 2.0**-23 * (10 + 5 * spread)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("selection", ["block", "head_tail"])
@pytest.mark.parametrize("solver", ["implicit", "bregman"])
@pytest.mark.parametrize("averaging", ["none", "polyak"])
def test_implicit_steps_with_a_ridge_survive_a_huge_learning_rate(averaging, solver, selection, storage, seed):
    X, y = planted(np.random.default_rng(seed), 300, 10, 40, scale=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last passes may end above log K; nothing may overflow
        for alpha in (1e-6, 1e-2, 10.0):
            model = softmax(
                solver=solver,
                selection=selection,
                learning_rate=1e4,
                alpha=alpha,
                averaging=averaging,
                n_negatives=8,
                random_state=seed,
                max_iter=8,
            ).fit(as_storage(X, storage), y, callback=lambda state: None)  # which no smaller step is tried with
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.loss_curve_).all()
            assert model.n_iter_ == 8
