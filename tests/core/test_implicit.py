"""The implicit step is the proximal point of the sampled objective, whatever the step size and the scores.

   argmin over (u, w_y, w_k)   u + e^-u (1 + sum alpha_k e^{d_k}) + |w - w~|^2 / (2 eta) + (u - u~)^2 / (2 eta_u)

Fagan & Iyengar 2018, section 3.2 and appendix F.1, where their eta N is our eta and, for one class, a = 2 p |x|^2.
"""

import warnings

import numpy as np
import pytest
from reference.core_step import core_step, random_point
from reference.flat import softmax
from reference.problems import log_loss, planted
from reference.steps import Point, implicit
from scipy.optimize import brentq, minimize
from scipy.special import wrightomega
from testing_core import pieces

from manyclass.registry import names

# log(eta alpha |x|^2) + d - q is summed in float: off by a few ulp of numbers below 32 (2^-19). omega passes less than
# that on, relatively; its own 3 ulp and the first-order finish (2e-7) are smaller.
FLOAT = 8e-6

FORMS = pytest.mark.parametrize("carry", [0.0, 1.0, 0.35, 1.7])  # of v = u + a x.w_y
ROOTS = pytest.mark.parametrize("root", names("root"))


def proximal_point(point, W, x):
    """Minimise over all of (v, w_y, w_1, ..., w_m) at once, rows of W in that order; returns (v, rows)."""
    m, n_features = len(point.scores), len(x)
    start = np.append(point.carried, W.ravel())
    # f is linear . theta + sum over terms of exp(constant + terms . theta).
    terms = np.zeros((m + 1, 1 + W.size))
    linear = np.zeros(1 + W.size)
    terms[:, 0], linear[0] = -1, 1
    label = slice(1, 1 + n_features)
    for k in range(m):
        terms[k, 1 + (k + 1) * n_features : 1 + (k + 2) * n_features] = x
    linear[label] = -point.carry * x
    terms[:m, label] = (point.carry - 1) * x
    terms[m, label] = point.carry * x
    constants = np.append(np.log(point.alpha), 0.0)
    weights = np.append(1 / point.eta_u, np.full(W.size, 1 / point.eta))

    def value(theta):
        return linear @ theta + np.exp(constants + terms @ theta).sum() + 0.5 * weights @ (theta - start) ** 2

    def gradient(theta):
        return linear + np.exp(constants + terms @ theta) @ terms + weights * (theta - start)

    def hessian(theta):
        return terms.T @ (np.exp(constants + terms @ theta)[:, None] * terms) + np.diag(weights)

    theta = minimize(value, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-6}).x
    for _ in range(5):  # Newton's steps double the digits until rounding
        theta = theta - np.linalg.solve(hessian(theta), gradient(theta))
    return theta[0], theta[1:].reshape(W.shape)


@FORMS
@ROOTS
@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_step_is_the_minimiser_over_all_weights_and_u(m, eta, root, carry, seed):
    rng = np.random.default_rng(seed)
    for eta_u in (eta, 0.3, 20.0):
        W, x = rng.normal(size=(m + 1, 3)), rng.normal(size=3)
        z = W @ x
        carried = rng.uniform(0, 4) + z[0] * carry
        point = Point(z[1:], np.full(m, 10 / m), z[0], x @ x, eta, eta_u, carried, carry=carry)
        p, label, carried, _ = core_step(point, "implicit", root=root)
        v, rows = proximal_point(point, W, x)
        expected = (W[1:] - rows[1:]) @ x / (x @ x)
        np.testing.assert_allclose(rows[1:], W[1:] - np.outer(expected, x), rtol=0, atol=1e-8 * np.abs(rows).max())
        np.testing.assert_allclose(p, expected, rtol=FLOAT, atol=FLOAT * expected.max())
        assert label == pytest.approx((rows[0] - W[0]) @ x / (x @ x), rel=FLOAT, abs=FLOAT * eta)
        # u answers to the sum of the moved scores.
        assert carried == pytest.approx(v, abs=FLOAT * (1 + abs(v) + expected.sum() * (x @ x)))


def test_one_class_solves_the_papers_two_equations(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        eta, x_sq, alpha = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-2, 2), rng.uniform(1, 1e4)
        d, u = float(np.float32(rng.normal(0, 8))), rng.uniform(0, 12)
        p, _, new, _ = core_step(Point(np.array([d]), np.array([alpha]), 0.0, x_sq, eta, eta, u), "implicit")
        a = 2 * p[0] * x_sq
        z = np.log(2 * eta * alpha * x_sq) + d - new
        assert a == pytest.approx(wrightomega(z), rel=4 * FLOAT)  # eq. 14, in the log domain
        g = 2 * eta * (1 - np.exp(-new)) + 2 * (new - u) - a / x_sq  # eq. 16
        assert abs(g) <= 4 * FLOAT * (2 * eta + 2 * new + 2 * u + a / x_sq)
        if z > 3:  # the step is linear in d - u, not exponential: Proposition 2
            assert (z - np.log(z)) * (1 - 4 * FLOAT) <= a <= z


def test_the_papers_bracket_holds_the_root(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        eta, x_sq, alpha = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-2, 2), float(rng.integers(1, 10_000))
        d, u = float(np.float32(rng.normal(0, 8))), rng.uniform(0, 12)
        new = core_step(Point(np.array([d]), np.array([alpha]), 0.0, x_sq, eta, eta, u), "implicit")[2]
        a_at_u = wrightomega(np.log(2 * eta * alpha * x_sq) + d - u)
        slack = FLOAT * (1 + abs(d) + u + 2 * eta * x_sq)
        if 2 * eta * (1 - np.exp(-u)) - a_at_u / x_sq < 0:
            low, high = u, np.logaddexp(0, np.log(alpha) + d)
        else:
            low, high = np.log(alpha) + d - 2 * eta * x_sq, u
        assert low - slack <= new <= high + slack


@FORMS
def test_a_small_step_is_the_explicit_one(carry, seed):
    rng = np.random.default_rng(seed)
    for eta in (1e-3, 1e-5):
        point = random_point(rng, 6, spread=0.5, eta=eta, eta_u=eta, carry=carry)
        point.carried = point.log_a + carry * point.label_score
        p, label, carried, loss = core_step(point, "implicit")
        q, label_sgd, carried_sgd, loss_sgd = core_step(point, "sgd")
        # Their gap is eta times the second derivatives, all below (1 + |x|^2) (1 + sum alpha e^(d - u))^2 < 40 here.
        np.testing.assert_allclose(p, q, rtol=40 * eta + FLOAT)
        assert label == pytest.approx(label_sgd, abs=eta * (40 * eta + FLOAT))
        assert carried == pytest.approx(carried_sgd, abs=eta * (40 * eta + FLOAT) + FLOAT * abs(carried))
        assert loss == loss_sgd


@FORMS
@ROOTS
def test_an_empty_row_moves_only_u(root, carry, seed):
    rng = np.random.default_rng(seed)
    for eta_u in (1e-3, 1.0, 1e3):
        score = float(np.float32(rng.normal()))  # of all classes: an intercept that is not learned
        carried = float(rng.uniform(0, 9)) + carry * score
        point = Point(np.full(4, score), np.full(4, 9.0), score, 0.0, 0.5, eta_u, carried, carry=carry)
        p, label, new, loss = core_step(point, "implicit", root=root)
        u = new - carry * score
        assert not p.any()
        assert label == 0
        assert loss == pytest.approx(np.log(37), rel=1e-7)
        assert eta_u * (1 - 37 * np.exp(-u)) + new - carried == pytest.approx(0, abs=FLOAT * (1 + eta_u + u))


@FORMS
@ROOTS
def test_huge_scores_and_steps_stay_finite_and_stationary(root, carry, seed):
    rng = np.random.default_rng(seed)
    for spread in (1.0, 1e3, 1e6):
        for eta in (1e-6, 1.0, 1e6):
            for m in (1, 40):
                point = random_point(rng, m, spread=spread, eta=eta, eta_u=float(rng.choice([eta, 1.0])), carry=carry)
                point.carried += carry * point.label_score
                p, label, carried, loss = core_step(point, "implicit", root=root)
                assert np.isfinite([*p, label, carried, loss]).all()
                assert (p >= 0).all()
                assert carry != 0 or carried >= -FLOAT  # u
                twin_p, twin_label, twin_carried, _ = implicit(point)
                delta = twin_p * point.x_sq
                # The floats that go into omega and the sums over it are off by at most e. omega(s + e) - omega(s) is
                # below e and below (e^e - 1) omega(s); u and v move by less than e, as h' shows, and pass that on.
                # Below the smallest normal floats, 1e-38, nothing is left.
                largest = np.abs(point.scores).max() + 2 * abs(point.label_score) + delta.sum() + abs(carried) + 30
                e = 4 * 2.0**-23 * largest
                off = np.minimum(2 * e, np.expm1(2 * e) * delta) + 1e-37 * point.x_sq
                assert (np.abs(p * point.x_sq - delta) <= off).all()
                assert abs(label - twin_label) * point.x_sq <= 2 * e + off.sum()
                assert abs(carried - twin_carried) <= 2 * e


@FORMS
def test_newton_and_bisection_find_the_same_step(carry, seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        eta = 10 ** rng.uniform(-4, 4)
        point = random_point(rng, int(rng.integers(1, 70)), spread=5.0, eta=eta, eta_u=eta, carry=carry)
        newton, bisection = (core_step(point, "implicit", root=root) for root in ("newton", "bisection"))
        np.testing.assert_allclose(newton[0], bisection[0], rtol=2 * FLOAT, atol=2 * FLOAT * newton[0].max())
        assert newton[1] == pytest.approx(bisection[1], abs=2 * FLOAT * (newton[0].sum() + eta))
        size = abs(newton[2]) + newton[0].sum() * point.x_sq
        assert newton[2] == pytest.approx(bisection[2], abs=2 * FLOAT * (1 + size))


@pytest.mark.parametrize("n_negatives", [1, 16])
@pytest.mark.parametrize("learning_rate", [100.0, 1e4])
@pytest.mark.parametrize("formulation", names("formulation"))
def test_implicit_step_survives_a_huge_learning_rate(formulation, learning_rate, n_negatives, seed):
    X, y = planted(np.random.default_rng(seed), 600, 10, 60, scale=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last passes may end above log K; nothing may overflow
        model = softmax(
            solver="implicit",
            formulation=formulation,
            learning_rate=learning_rate,
            n_negatives=n_negatives,
            random_state=seed,
            max_iter=30,
        ).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.loss_curve_).all()
    # A last step of eta 0.9^29 = 0.05 eta leaves scores of that size: the model still predicts, or it is W = 0, as all
    # passes ended above it.
    assert model.n_iter_ == 30 or not model.coef_.any()
    assert model.evaluate(X, y)["error"] < 0.9 or not model.coef_.any()
    assert np.isfinite(log_loss(X, y, model.coef_, model.intercept_))


class ScalarEquation:
    """g(u) = 0 of the step with one sampled class (Fagan & Iyengar 2018, eq. 16), and brackets of its root.

    Here eta stands for eta N, and x_sq for |x|^2.
    """

    def __init__(self, rng):
        n_classes, self.eta, self.x_sq = 10 ** rng.uniform(0.5, 6), 10 ** rng.uniform(-4, 4), 10 ** rng.uniform(-2, 2)
        self.log_weight, self.difference = np.log(n_classes - 1), rng.normal(0, 5)
        self.old_u = abs(rng.normal(np.log(n_classes), 4))

    def probe(self, u):
        """g(u), its slope, how far u is below 0 and so below the root, and the second derivative."""
        if u < 0:
            return -1.0, 1.0, -u, 0.0
        a = wrightomega(np.log(2 * self.eta * self.x_sq) + self.log_weight + self.difference - u)
        pull = 2 * self.eta * np.exp(-u)
        value = 2 * self.eta - pull + 2 * (u - self.old_u) - a / self.x_sq
        return value, pull + 2 + a / (1 + a) / self.x_sq, 0.0, -pull - a / (1 + a) ** 3 / self.x_sq

    def proposition_4(self):
        if self.probe(self.old_u)[0] < 0:
            return self.old_u, np.logaddexp(0, self.log_weight + self.difference)
        return self.log_weight + self.difference - 2 * self.eta * self.x_sq, self.old_u

    def tighter(self):
        """The ends of the preprint's Algorithm 1: u as if the scores stayed, or moved as far as they can."""

        def u_at(difference):
            log_a = np.logaddexp(0, self.log_weight + difference)
            return self.old_u - self.eta + wrightomega(np.log(self.eta) + self.eta - self.old_u + log_a)

        if self.probe(self.old_u)[0] < 0:
            return self.old_u, u_at(self.difference)
        return u_at(self.difference - 2 * self.eta * self.x_sq), self.old_u


def test_tighter_ends_hold_the_root_and_save_brent_a_third_but_newton_asks_least(seed):
    # The table of bench/figures/papers.md: means of 3,000 equations were 3.3 evaluations by the core's finder, 28.5 by
    # bisection, 22.1 with the tighter ends, 12.5 by Brent's method and 7.6 with them, which cost two omegas.
    rng, asked = np.random.default_rng(seed), dict.fromkeys(("newton", "bisection", "tighter", "brent", "both"), 0)
    close = 2.0**-22
    for _ in range(200):
        equation = ScalarEquation(rng)

        def root_of(finder, ends, near, name, equation=equation):
            last = [0.0]

            def f(u):
                asked[name] += 1
                last[0] = u
                return equation.probe(u)

            given = {"low": ends[0], "high": ends[1], "start": equation.old_u, "close": near}
            return pieces.find_root(finder=finder, f=f, **given) + last[0]

        def brent(ends, name, equation=equation):
            def f(u):
                asked[name] += 1
                return equation.probe(max(u, 0.0))[0] + min(u, 0.0)

            # Where the ends differ by less than rounding, their values may have one sign.
            return brentq(f, *ends, xtol=close) if f(ends[0]) * f(ends[1]) < 0 else ends[0]

        wide, narrow = equation.proposition_4(), equation.tighter()
        slack = 1e-9 * (1 + np.abs(wide))
        assert wide[0] - slack[0] <= narrow[0]
        assert narrow[1] <= wide[1] + slack[1]
        root = root_of("bisection", wide, close, "bisection")
        assert narrow[0] - 2 * close <= root <= narrow[1] + 2 * close
        found = (
            root_of("newton", wide, 2.0**-7, "newton"),
            root_of("bisection", narrow, close, "tighter"),
            brent(wide, "brent"),
            brent(narrow, "both"),
        )
        # Newton's last move is of up to 2^-7 and leaves about its cube.
        np.testing.assert_allclose(found, root, rtol=0, atol=4e-6 * (1 + abs(root)))
    assert asked["both"] < asked["brent"] < asked["tighter"] < asked["bisection"]
    assert 2 * asked["newton"] < 1.3 * asked["both"]
