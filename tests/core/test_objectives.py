"""Every explicit objective: its gradient by finite differences of a formula written here, and what it tends to.

Sampled sums over wrong classes are sum alpha_k g(k); d_k = z_k - z_y; A = 1 + sum alpha e^d.
"""

import numpy as np
import pytest
from reference.core_step import core_step, random_point
from reference.rng import every_outcome
from reference.selections import SELECTIONS, Choice
from reference.steps import OBJECTIVES, bouchards_bound
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp
from test_double_sum import FLOAT, finite_differences

from manyclass.registry import names


def test_every_explicit_objective_has_a_formula():
    assert set(OBJECTIVES) == set(names("solver", without="implicit"))


@pytest.mark.parametrize("solver", OBJECTIVES)
def test_a_step_moves_along_the_gradient_of_its_objective(solver, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        m = int(rng.integers(1, 9))
        point = random_point(
            rng,
            m,
            spread=1.5,
            gain=float(rng.uniform(0.05, 1)),
            rho=float(rng.uniform(0.05, 1)),
            visits=int(rng.integers(9)),
        )
        point.label_alpha = 3.5
        point.times = rng.integers(1, 4, size=m).astype(float)
        p, label, u, loss = core_step(point, solver)
        slopes = finite_differences(
            lambda at, point=point, u=u: OBJECTIVES[solver](point, at[:-1], at[-1], u),
            np.append(point.scores, point.label_score),
        )
        # The label's slope is a sum of as many terms as there are classes.
        np.testing.assert_allclose(np.append(p, -label), slopes, rtol=0, atol=2 * FLOAT * (1 + np.abs(slopes).max()))
        assert loss == pytest.approx(point.log_a, rel=FLOAT)


def test_softplus_moves_u_along_its_gradient_and_tends_to_the_double_sum(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        point = random_point(rng, 5, spread=1.5, rho=float(rng.uniform(0.05, 1)))
        slope = finite_differences(
            lambda u, point=point: OBJECTIVES["softplus"](
                type(point)(**{**vars(point), "carried": u[0]}), point.scores, point.label_score, None
            ),
            np.array([point.carried]),
        )[0]
        assert point.carried - core_step(point, "softplus")[2] == pytest.approx(slope, abs=2 * FLOAT * (1 + abs(slope)))
        # h' = e^t / (1 + rho e^t) is below e^t by a share of at most rho e^t.
        exact = core_step(point, "sgd")
        for rho in (1e-3, 1e-6):
            point.rho = rho
            near = core_step(point, "softplus")
            e_t = np.exp(np.append(point.scores - point.label_score, 0) - point.carried)
            np.testing.assert_allclose(near[0], exact[0], rtol=rho * e_t.max() + FLOAT)
            off = rho * np.sum(np.append(point.alpha, 1) * e_t**2) + FLOAT * (1 + exact[0].sum())
            assert near[1] == pytest.approx(exact[1], abs=off)
            assert near[2] == pytest.approx(exact[2], abs=off)


def test_softplus_brackets_the_log_loss(seed):
    # J + rho/2 + log(1 - rho kappa) <= min_u f_rho - 1 ... : what it needs here is J_rho <= J and J_rho -> J.
    rng = np.random.default_rng(seed)
    point = random_point(rng, 6)
    gaps = []
    for rho in (0.5, 0.05, 0.005):
        point.rho = rho

        def value(u):
            p = type(point)(**{**vars(point), "carried": u})
            return OBJECTIVES["softplus"](p, point.scores, point.label_score, None)

        best = minimize_scalar(value, bounds=(-2, point.log_a + 2), method="bounded", options={"xatol": 1e-10}).fun
        gaps.append(1 + point.log_a - best)
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.02 * gaps[0]  # O(rho)


@pytest.mark.parametrize("carry", [0.0, 1.0, 0.35])
def test_moving_averages_and_scent_put_u_where_their_formulas_say(carry, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        point = random_point(rng, 7, gain=float(rng.uniform(0.01, 1)), visits=int(rng.integers(50)), carry=carry)
        point.gain_power = float(rng.uniform(0.3, 1))
        offset = carry * point.label_score
        point.carried += offset
        old, a = np.exp(point.carried - offset), np.exp(point.log_a)
        for solver, gain in (
            ("ema", point.gain),
            ("augment_reduce", point.gain * (1 + point.visits) ** -point.gain_power),
            ("scgd", point.gain * (1 + point.visits) ** -point.gain_power),
        ):
            u = core_step(point, solver)[2] - offset
            assert np.exp(u) == pytest.approx((1 - gain) * old + gain * a, rel=2 * FLOAT)
        # SCENT: argmin_u of u + e^-u A + D(u, u~) / a, D the Bregman divergence of e^-u. Its slope
        # 1 - e^-u A + (e^-u~ - e^-u) / a is 0.
        decay = np.exp(-(core_step(point, "scent")[2] - offset))
        weight = point.eta_u
        assert 1 + 1 / (old * weight) == pytest.approx(decay * (a + 1 / weight), rel=2 * FLOAT)


def test_an_average_of_gain_one_is_complementary_sum_sampling(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        point = random_point(rng, 6, gain=1.0)
        averaged, css = core_step(point, "ema"), core_step(point, "css")
        np.testing.assert_allclose(averaged[0], css[0], rtol=FLOAT)
        assert averaged[1] == pytest.approx(css[1], rel=FLOAT)
        first = core_step(point, "augment_reduce")  # the first visit overwrites
        np.testing.assert_allclose(first[0], css[0], rtol=FLOAT)


def gradient_of(solver, selection, choice, z, y, carried=0.0, eta_u=1.0):
    """Mean over all draws of what a step of size 1 subtracts from the scores of all classes."""
    total = np.zeros(len(z))
    for probability, drawn in every_outcome(lambda r: SELECTIONS[selection](r, choice, y, ())):
        point = random_point(np.random.default_rng(0), len(drawn.classes), carried=carried, eta_u=eta_u)
        point.scores, point.alpha, point.label_score = z[drawn.classes], drawn.alpha, float(z[y])
        point.label_alpha, point.times = drawn.label_alpha, drawn.times if len(drawn.times) else None
        p, label, _, _ = core_step(point, solver)
        total[drawn.classes] += probability * p
        total[y] -= probability * label
    return total


def softmax_gradient(z, y):
    return np.exp(z - logsumexp(z)) - (np.arange(len(z)) == y)


def scores(rng, n_classes):
    return rng.normal(size=n_classes).astype(np.float32).astype(float)


@pytest.mark.parametrize("solver", ["css", "is"])
def test_sampling_inside_the_logarithm_is_biased_until_all_classes_are_drawn(solver, seed):
    z, y = scores(np.random.default_rng(seed), 7), 2
    exact = softmax_gradient(z, y)
    bias = []
    for m in (1, 3, 7):
        choice = Choice(7, m, with_label=solver == "is")
        bias.append(np.abs(gradient_of(solver, "uniform", choice, z, y) - exact).max())
    assert bias[0] > 1.3 * bias[1] > 1e-3  # O(1/m)
    assert bias[2] < FLOAT
    everything = gradient_of(solver, "all", Choice(7, 7, with_label=solver == "is"), z, y)
    np.testing.assert_allclose(everything, exact, rtol=0, atol=FLOAT)


@pytest.mark.parametrize("selection", ["block", "uniform", "frequency"])
def test_scent_is_unbiased_but_for_how_far_its_number_moves_in_the_step(selection, seed):
    z, y = scores(np.random.default_rng(seed), 6), 2
    choice = Choice(6, 2, with_label=False, counts=range(1, 7))
    exact, at_rest = softmax_gradient(z, y), float(logsumexp(z) - z[y])
    far, near = (
        np.abs(gradient_of("scent", selection, choice, z, y, at_rest, eta_u) - exact).max() for eta_u in (1e-2, 1e-3)
    )
    assert near < 0.15 * far + FLOAT  # O(eta_u)
    np.testing.assert_allclose(
        gradient_of("scent", selection, choice, z, y, at_rest, 0.0), exact, rtol=0, atol=FLOAT * 9
    )


@pytest.mark.parametrize("selection", ["block", "uniform", "frequency"])
@pytest.mark.parametrize("solver", ["ove", "negative_sampling", "nce"])
def test_sums_outside_of_logarithms_are_unbiased(solver, selection, seed):
    z, y = scores(np.random.default_rng(seed), 6), 2
    with_label = solver == "nce"
    choice = Choice(6, 2, with_label=with_label, counts=range(1, 7))
    expected = np.zeros(6)
    wrong = np.arange(6) != y
    if solver == "ove":
        expected = expit(z - z[y]) * wrong
        expected[y] = -expected.sum()
    else:
        # Expected number of draws of k: m q_k, for each class that is drawn.
        n = np.zeros(6)
        for probability, drawn in every_outcome(lambda r: SELECTIONS[selection](r, choice, y, ())):
            times = drawn.times if len(drawn.times) else np.ones(len(drawn.classes))
            n[drawn.classes] += probability * times * (drawn.alpha > 0)
        shift = -np.log(n) if solver == "nce" else np.zeros(6)
        expected[n > 0] = (n * expit(z + shift))[n > 0]
        expected[y] -= expit(-(z[y] + shift[y]))
    got = gradient_of(solver, selection, choice, z, y)
    np.testing.assert_allclose(got, expected, rtol=0, atol=9 * FLOAT * (1 + np.abs(expected).max()))


def test_noise_contrastive_estimation_tends_to_the_unnormalised_model(seed):
    # m -> infinity: the gradient is e^{z_k} - 1[k = y], that of -z_y + sum e^z.
    z, y = scores(np.random.default_rng(seed), 5), 3
    limit = np.exp(z) - (np.arange(5) == y)
    q = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    for m in (1e2, 1e4):
        point = random_point(np.random.default_rng(0), 5)  # every class drawn as often as expected, m q_k times
        point.scores, point.times, point.alpha, point.label_score = z, m * q, np.ones(5), float(z[y])
        point.label_alpha = 1 / (m * q[y])
        p, label, _, _ = core_step(point, "nce")
        p[y] -= label
        # m q sigma(z - log(m q)) = e^z / (1 + e^z / (m q))
        np.testing.assert_allclose(p, limit, rtol=0, atol=(np.exp(2 * z) / (m * q)).max() + 4 * FLOAT * np.exp(z).max())


def test_importance_weights_survive_draws_that_are_all_hopeless(seed):
    point = random_point(np.random.default_rng(seed), 5, label_score=1e4)
    p, label, _, loss = core_step(point, "is")
    assert p.sum() == pytest.approx(1, abs=FLOAT)
    assert (label, loss) == (1, pytest.approx(0, abs=1e-12))


def test_bouchards_parameter_is_the_best_and_its_sigmoids_sum_to_one(seed):
    rng = np.random.default_rng(seed)
    for n_classes in (2, 3, 40):
        for carried in (-30.0, 0.0, 50.0):  # wherever the search starts
            z = scores(rng, n_classes)
            point = random_point(rng, n_classes, carried=carried)
            point.scores, point.alpha, point.label_score = z, (np.arange(n_classes) != 1) * 1.0, float(z[1])
            p, label, a, _ = core_step(point, "bouchard")
            assert expit(z - a).sum() == pytest.approx(1, abs=FLOAT)  # Titsias 2016, 2.3
            best = minimize_scalar(
                lambda a, point=point: bouchards_bound(point, point.scores, point.label_score, a)
            ).fun
            assert bouchards_bound(point, z, z[1], a) <= best + 1e-9
            assert best >= np.logaddexp.reduce(z) - z[1]
            np.testing.assert_allclose(
                p + (np.arange(n_classes) == 1) * -label, expit(z - a) - (np.arange(n_classes) == 1), atol=2 * FLOAT
            )
    # Two classes: a is half way (Prop. 3).
    point = random_point(rng, 1)
    point.alpha[:] = 1
    assert core_step(point, "bouchard")[2] == pytest.approx((point.scores[0] + point.label_score) / 2, abs=2e-6)


def test_one_vs_each_lies_between_the_log_loss_and_bouchards_bound_at_the_label(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        point = random_point(rng, 8)
        point.alpha[:] = 1
        ove = OBJECTIVES["ove"](point, point.scores, point.label_score, None)
        assert point.log_a <= ove <= bouchards_bound(point, point.scores, point.label_score, point.label_score)
