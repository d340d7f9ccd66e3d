"""The double-sum objective: its gradients, the bump of U-max, and that sampling classes is unbiased.

f(u, W) = u + e^-u (1 + sum over k != y of e^{d_k}) for one point, d_k = x.(w_k - w_y); carried is
v = u + a x.w_y, a = 1 being Raman's form. Fagan & Iyengar 2018, eq. 5-8, section 3.1; arXiv 1803.08577, appendix A.
"""

import numpy as np
import pytest
from reference.core_step import core_step, isas, random_point
from reference.rng import every_outcome
from reference.selections import SELECTIONS, Choice
from reference.steps import IMPLICIT, RAMAN, STEPS, Point
from testing_core import pieces

from manyclass.registry import names

# A step in the core works on floats: d_k = z_k - z_y is off by an ulp or two of the larger score (below 16: 2^-20),
# e^d by as much relatively, and 2 ulp more; the sums over classes by less.
FLOAT = 4e-6
FAMILY = [0.0, 1.0, 0.35, -0.6]  # the a of v = u + a x.w_y: the proposed form, Raman's, between and outside
CARRIES = pytest.mark.parametrize("carry", FAMILY)


def objective(v, W, x, y, alpha, *, carry):
    """f of one point with sampled weights alpha (0 for y); with alpha = 1 the exact one."""
    z = W @ x
    u = v - carry * z[y]
    return u + np.exp(-u) * (1 + np.sum(alpha * np.exp(z - z[y])))


def finite_differences(f, at, h=1e-5):
    """Central differences: error h^2 f''' / 6 and 2^-53 f / h, both near 1e-10."""
    slopes = np.zeros(at.size)
    for j in range(at.size):
        step = np.zeros(at.size)
        step[j] = h
        slopes[j] = (f(at + step) - f(at - step)) / (2 * h)
    return slopes


def moves_as_gradient(answer, classes, x, y, carried, n_classes):
    """What a step of size 1 subtracts, as one vector (v, W)."""
    p, label, new, _ = answer
    W = np.zeros((n_classes, len(x)))
    W[classes] = np.outer(p, x)
    W[y] -= label * x
    return np.append(carried - new, W.ravel())


@CARRIES
def test_sgd_moves_along_the_gradient_by_finite_differences(carry, seed):
    rng = np.random.default_rng(seed)
    n_classes, y = 6, 2
    alpha = np.where(np.arange(n_classes) == y, 0.0, 1.0)
    for _ in range(20):
        W, x = rng.normal(size=(n_classes, 3)), rng.normal(size=3)
        v = rng.uniform(1, 3) + carry * (W[y] @ x)
        point = Point(W @ x, alpha, W[y] @ x, x @ x, 1.0, 1.0, v, carry=carry)
        slopes = finite_differences(
            lambda flat, x=x: objective(flat[0], flat[1:].reshape(n_classes, 3), x, y, alpha, carry=carry),
            np.append(v, W.ravel()),
        )
        twin = moves_as_gradient(STEPS["sgd"](point), range(n_classes), x, y, v, n_classes)
        np.testing.assert_allclose(twin, slopes, rtol=1e-7, atol=1e-7 * np.abs(slopes).max())
        core = moves_as_gradient(core_step(point, "sgd"), range(n_classes), x, y, v, n_classes)
        np.testing.assert_allclose(core, slopes, rtol=0, atol=FLOAT * max(1, np.abs(slopes).max()))


def test_exact_moves_along_the_gradient_of_the_log_loss(seed):
    rng = np.random.default_rng(seed)
    n_classes, y = 6, 2
    alpha = np.where(np.arange(n_classes) == y, 0.0, 1.0)
    W, x = rng.normal(size=(n_classes, 3)), rng.normal(size=3)

    def log_loss(flat):
        z = flat.reshape(n_classes, 3) @ x
        return np.log(np.sum(np.exp(z - z[y])))

    point = Point(W @ x, alpha, W[y] @ x, x @ x, 1.0, 1.0, 0.0)
    answer = core_step(point, "exact")
    moves = moves_as_gradient(answer, range(n_classes), x, y, 0.0, n_classes)[1:]
    np.testing.assert_allclose(moves, finite_differences(log_loss, W.ravel()), rtol=0, atol=FLOAT * np.linalg.norm(x))
    assert answer[3] == pytest.approx(log_loss(W.ravel()), rel=FLOAT)


@CARRIES
@pytest.mark.parametrize("selection", names("selection"))
def test_sampled_steps_average_to_the_gradient_of_the_whole_sum(selection, carry, seed):
    rng = np.random.default_rng(seed)
    n, n_classes, n_features, m = 4, 7, 3, 3
    X, W = rng.normal(size=(n, n_features)), rng.normal(size=(n_classes, n_features))
    y = rng.integers(0, n_classes, size=n)
    z_y = np.einsum("ij,ij->i", X, W[y])
    v = rng.uniform(1, 3, size=n) + carry * z_y

    choice = Choice(n_classes, 2 if selection == "frequency" else m, counts=range(1, n_classes + 1))
    heads = rng.integers(-1, n_classes, size=(n, 2))  # any, as long as it does not know the draw
    average = np.zeros(n + W.size)
    for i in range(n):
        draws = every_outcome(lambda r, i=i: SELECTIONS[selection](r, choice, int(y[i]), heads[i]))
        for probability, drawn in draws:
            classes = drawn.classes
            point = Point(W[classes] @ X[i], drawn.alpha, z_y[i], X[i] @ X[i], 1.0, 1.0, v[i], carry=carry)
            moves = moves_as_gradient(core_step(point, "sgd"), classes, X[i], y[i], v[i], n_classes)
            average[i] += probability / n * moves[0]
            average[n:] += probability / n * moves[1:]

    def whole(flat):
        W = flat[n:].reshape(n_classes, n_features)
        values = [objective(flat[i], W, X[i], y[i], np.arange(n_classes) != y[i], carry=carry) for i in range(n)]
        return np.mean(values)

    slopes = finite_differences(whole, np.append(v, W.ravel()))
    # The sampled terms are up to max 1 / (m q) = 9 times those of the sum.
    np.testing.assert_allclose(average, slopes, rtol=0, atol=9 * FLOAT * max(1, np.abs(slopes).max()))


def test_the_minimum_over_u_is_the_log_loss_and_the_price_of_a_wrong_u_is_known(seed):
    rng = np.random.default_rng(seed)
    W, x, y = rng.normal(size=(5, 3)), rng.normal(size=3), 1
    wrong = np.arange(5) != y
    best = np.log(1 + np.sum(np.exp((W @ x - W[y] @ x)[wrong])))
    at_best = objective(best, W, x, y, wrong, carry=0)
    assert at_best == pytest.approx(1 + best, rel=1e-14)
    for off in (-3.0, -0.1, 0.2, 5.0):  # off = u* - u: too small a u costs exponentially, too large a one linearly
        value = objective(best - off, W, x, y, wrong, carry=0)
        assert value - at_best == pytest.approx(np.exp(off) - 1 - off, rel=1e-12)


def test_at_the_best_u_the_step_of_sgd_is_that_of_the_softmax(seed):
    rng = np.random.default_rng(seed)
    point = random_point(rng, 9)
    point.carried = point.log_a
    for solver in ("sgd", "umax"):
        p, label, carried, loss = core_step(point, solver)
        exact, exact_label, _, _ = core_step(point, "exact")
        np.testing.assert_allclose(p, exact, rtol=FLOAT)
        assert label == pytest.approx(exact_label, rel=FLOAT)
        assert carried == pytest.approx(point.carried, abs=FLOAT)  # du = 0
        assert loss == pytest.approx(point.log_a, rel=FLOAT)


def test_the_forms_differ_by_a_multiple_of_the_slope_in_u(seed):
    # v = u + a z_y makes the label's gradient -(G + a du): appendix A of the arXiv version.
    rng = np.random.default_rng(seed)
    point = random_point(rng, 5)
    p, label, u, _ = core_step(point, "sgd")
    slope_u = point.carried - u
    for a in FAMILY[1:]:
        other = Point(**{**vars(point), "carried": point.carried + a * point.label_score, "carry": a})
        p_other, label_other, v, _ = core_step(other, "sgd")
        np.testing.assert_allclose(p_other, p, rtol=FLOAT)
        size = 1 + np.abs(p).sum()
        assert label_other == pytest.approx(label + a * slope_u, abs=FLOAT * size)
        assert v - other.carried == pytest.approx(u - point.carried, abs=FLOAT * size)


@CARRIES
def test_after_the_bump_no_gradient_is_larger_than_k_e_delta(carry, seed):
    rng = np.random.default_rng(seed)
    for delta in (0.0, 1.0, 3.0):
        for spread in (1.0, 30.0, 1e4):
            m, n_classes = 5, 50
            point = random_point(rng, m, spread=spread, delta=delta, carry=carry)
            point.alpha[:] = (n_classes - 1) / m
            point.carried = float(rng.normal(0, spread)) + carry * point.label_score
            p, _, carried, _ = core_step(point, "umax")
            # sum p = alpha sum e^d e^-u, and u is at least log(1 + sum e^d) - delta. The shift by scores of 1e4 costs
            # an ulp of them, 1e-3.
            assert np.sum(p) <= (n_classes - 1) / m * np.exp(delta + 2e-7 * spread) * (1 + FLOAT)
            assert np.isfinite(carried)


@CARRIES
def test_the_bump_goes_to_the_bound_and_lowers_f_as_lemma_5_says(carry, seed):
    rng = np.random.default_rng(seed)
    n_classes, m, y, bumps = 12, 4, 0, 0
    for _ in range(100):
        z = (3 * rng.normal(size=n_classes)).astype(np.float32).astype(np.float64)
        u, delta = rng.uniform(-4, 4), rng.uniform(0.1, 2)
        S = 1 + rng.permutation(n_classes - 1)[:m]
        point = Point(z[S], np.full(m, 11 / 4), z[y], 1.0, 1e-30, 0.0, u + z[y] * carry, carry, delta)
        carried = core_step(point, "umax")[2]  # with eta_u = 0 only the bump is left
        moved = carried - z[y] * carry
        best = np.log(np.sum(np.exp(z - z[y])))
        if u >= point.bound - delta:
            assert carried == pytest.approx(point.carried, abs=1e-14)
            continue
        bumps += 1
        assert moved == pytest.approx(point.bound, abs=FLOAT)
        assert moved <= best + FLOAT  # of distinct classes the sum is part of A

        def f(u, best=best):
            return u + np.exp(best - u)

        def price(u, best=best):
            return np.exp(best - u) - 1 - (best - u)

        fall = f(u) - f(moved)
        assert fall == pytest.approx(price(u) - price(moved), rel=1e-9, abs=1e-9)
        assert fall >= delta**2 / 2
    assert bumps >= 10


@pytest.mark.parametrize("selection", names("selection"))
def test_the_bound_of_every_draw_is_below_the_best_u(selection, seed):
    # True because classes are distinct: with repeats Algorithm 2 of the arXiv version can overshoot.
    rng = np.random.default_rng(seed)
    for item in range(200):
        z = 3 * rng.normal(size=9)
        y = int(rng.integers(9))
        head = rng.integers(-1, 9, size=3).tolist()
        classes, alpha = pieces.draw(selection, 9, 4, y, seed, 0, item, "umax", head)
        point = Point(z[classes], np.array(alpha), z[y], 1.0, 1.0, 0.0, -50.0)
        assert core_step(point, "umax")[2] <= np.log(np.sum(np.exp(z - z[y]))) + FLOAT


@CARRIES
def test_umax_with_infinite_delta_is_plain_sgd(carry, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        point = random_point(rng, 5, delta=1e300, carry=carry)
        vanilla, umax = core_step(point, "sgd"), core_step(point, "umax")
        if carry in (0, 1):
            assert np.array_equal(vanilla[0], umax[0])
            assert vanilla[1:] == umax[1:]
        else:  # sums of doubles in another order
            for one, other in zip(vanilla, umax, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(
    ("solver", "carry"),
    [(solver, carry) for solver in STEPS for carry in (FAMILY if solver in RAMAN else [0.0])],
)
def test_steps_equal_their_twins_on_every_instruction_set(solver, carry, isa, seed):
    rng = np.random.default_rng(seed)
    for m in (1, 2, 15, 16, 17, 64, 531, 1100):
        point = random_point(rng, m, carry=carry, eta=0.3, eta_u=0.7, carried=float(rng.uniform(3, 6)))
        point.alpha[rng.integers(m)] = 0 if m > 1 else 1  # the label's place
        point.visits, point.label_alpha, point.times = 3, 7.5, rng.integers(1, 4, size=m).astype(float)
        if solver in IMPLICIT:  # as a ridge leaves them
            point.x_sqs = (point.x_sq * rng.uniform(0.2, 1, size=m)).astype(np.float32).astype(float)
        p, label, carried, loss = core_step(point, solver, isa=isa)
        expected = STEPS[solver](point)
        size = 1 + np.abs(expected[0]).sum()
        np.testing.assert_allclose(p, expected[0], rtol=2 * FLOAT, atol=2 * FLOAT * np.abs(expected[0]).max())
        assert label == pytest.approx(expected[1], abs=FLOAT * size)
        assert carried == pytest.approx(expected[2], abs=FLOAT * size)
        assert loss == pytest.approx(expected[3], abs=FLOAT)


# Stochastic composition (Fagan & Iyengar 2018, appendix B)


def composition(x, y, n_classes, eta, n_passes, seed, *, extrapolated):
    """W by the updates of appendix B, and the share of steps whose scores the extrapolation changes.

    v_i follows (K - 1) e^{x.(z_k - z_y)} with the gain t^(-2/3) at visit t, and z = W + (1/g - 1)(W - W of the step
    before) is the extrapolated iterate (Wang, Liu & Fang 2016), g being the gain; without it z = W.
    """
    rng = np.random.default_rng(seed)
    W = np.zeros((n_classes, x.shape[1]))
    before, moved, changed, visits = W.copy(), set(), 0, np.zeros(len(x))
    v = np.full(len(x), n_classes - 1.0)
    for epoch in range(n_passes):
        for i in rng.permutation(len(x)):
            k = rng.integers(n_classes - 1)
            rows = [k + (k >= y[i]), y[i]]
            visits[i] += 1
            gain = visits[i] ** (-2 / 3)
            z = W[rows] + (1 / gain - 1) * (W[rows] - before[rows]) if extrapolated else W[rows]
            changed += bool(moved & set(rows)) and gain < 1
            e = (n_classes - 1) * np.exp(x[i] @ (z[0] - z[1]))
            v[i] += gain * (e - v[i])
            step = eta * 0.9**epoch * e / (1 + v[i])
            before[list(moved)] = W[list(moved)]
            before[rows] = W[rows]
            W[rows] += np.outer([-step, step], x[i])
            moved = set(rows)
    return W, changed / (n_passes * len(x))


def test_the_extrapolated_iterate_of_stochastic_composition_is_the_iterate_but_for_few_rows(seed):
    """So that the plain method, solver "scgd", ends where the accelerated one does."""
    rng = np.random.default_rng(seed)
    n_classes, x = 20, rng.normal(size=(300, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (3 * x @ rng.normal(size=(6, n_classes)) + rng.gumbel(size=(300, n_classes))).argmax(axis=1)
    ends = []
    for extrapolated in (False, True):
        W, changed = composition(x, y, n_classes, 0.3, 15, seed, extrapolated=extrapolated)
        scores = x @ W.T
        ends.append(np.mean(np.logaddexp.reduce(scores, axis=1) - scores[np.arange(300), y]))
    # Two rows of 20 were moved before: if all classes were as frequent, 1 - (18/20)(17/19) = .19 of the steps meet one.
    assert 0.1 < changed < 0.4
    assert ends[1] == pytest.approx(ends[0], abs=0.01)  # of a loss that falls by more than 1 from log 20
    assert max(ends) < np.log(n_classes) - 0.5
