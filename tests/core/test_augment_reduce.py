"""Augment and reduce: steps and whole fits equal their twin, its gradients and the place where q settles are right."""

import numpy as np
import pytest
from reference import augment_reduce as twin
from reference import local_family as local_twin
from reference.core_step import core_plan, isas, random_point
from reference.flat import utility
from reference.problems import as_storage, planted
from reference.rng import Rng, every_outcome
from reference.selections import SELECTIONS, Choice
from test_double_sum import FLOAT, finite_differences
from testing_core import pieces

from manyclass import _core
from manyclass.registry import names

NOISES = [noise for noise in names("noise") if noise != "gumbel"]
FAMILIES = names("local_family")


def best_member(noise, d, counts, nodes, weights, start=(0.0, 1.0), n_threads=1):
    mu, s = start
    return pieces.best_local(
        noise=noise, d=d, counts=counts, nodes=nodes, weights=weights, mu=mu, s=s, n_threads=n_threads
    )


LARGE = 10**9  # visits after which q does not move any more


def test_every_noise_has_a_twin():
    assert set(twin.LAWS) == set(NOISES)


def plan_of(setting, isa):
    return core_plan(
        solver=setting.solver,
        noise=setting.noise,
        local_step=setting.local_step,
        gain=setting.gain,
        power=setting.gain_power,
        floor=setting.floor,
        isa=isa,
        **({"family": setting.family} if setting.family else {}),
    )


def core_step(setting, point, mu, s, isa="auto", item=5):
    p, label, mu, s, loss, _ = pieces.step(
        plan=plan_of(setting, isa),
        scores=point.scores.astype(np.float32),
        alpha=point.alpha.astype(np.float32),
        label_score=point.label_score,
        x_sq=point.x_sq,
        eta=point.eta,
        eta_u=point.eta,
        u=mu,
        scale=s,
        visits=point.visits,
        x_sqs=np.zeros(0, dtype=np.float32) if point.x_sqs is None else point.x_sqs.astype(np.float32),
        seed=7,
        epoch=2,
        item=item,
    )
    return (p.astype(float), label, mu, loss), s


def setting_of(noise, family="normal", *, solver="sgd", local_step="natural", floor=0.0, n_nodes=5):
    gain = 1.0 if local_step == "natural" else 0.01
    q = _core.LocalFamily(noise=noise, name=family, n_nodes=n_nodes, n_classes=20)
    return twin.Setting(
        noise,
        solver,
        local_step,
        floor,
        q,
        gain,
    )


@pytest.mark.parametrize("solver", ["sgd", "implicit"])
@pytest.mark.parametrize("local_step", names("local_step"))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", NOISES)
def test_a_step_equals_its_twin(noise, family, local_step, solver, seed):
    rng = np.random.default_rng(seed)
    setting = setting_of(noise, family, solver=solver, local_step=local_step)
    for m in (1, 3, 16, 40):
        point = random_point(rng, m, spread=3.0, visits=int(rng.integers(5)), eta=float(rng.uniform(0.1, 5)))
        point.alpha[rng.random(m) < 0.2] = 0
        if rng.random() < 0.5:
            point.x_sqs = rng.uniform(0.5, 2, m).astype(np.float32).astype(float)
        mu, s = float(rng.uniform(0, 6)), float(rng.uniform(0.1, setting.family.largest_scale))
        (p, label, new_mu, loss), new_s = twin.step(setting, point, mu, s, Rng(7, 2, 2**32 + 5))
        for isa in isas():
            (q, q_label, q_mu, q_loss), q_s = core_step(setting, point, mu, s, isa)
            # Sums of as many floats as there are classes; the linear system divides differences of them.
            assert (q_mu, q_s) == (pytest.approx(new_mu, rel=FLOAT, abs=FLOAT), pytest.approx(new_s, rel=FLOAT))
            np.testing.assert_allclose(q, p, rtol=0, atol=20 * FLOAT * (1 + np.abs(p).max()))
            assert q_label == pytest.approx(label, abs=20 * FLOAT * (1 + label))
            assert q_loss == pytest.approx(loss, rel=FLOAT, abs=FLOAT)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", NOISES)
def test_w_moves_along_the_gradient_of_the_bound(noise, family, seed):
    rng = np.random.default_rng(seed)
    for local_step in names("local_step"):
        setting = setting_of(noise, family, local_step=local_step)
        for _ in range(5):
            point = random_point(rng, 9, visits=int(rng.integers(5)))
            (p, label, mu, _), s = core_step(setting, point, 1.0, 0.5)
            nodes, weights = setting.family.nodes, setting.family.weights
            if local_step == "monte_carlo":  # the second draw, held fixed
                draws = Rng(7, 2, 2**32 + 5)
                twin.draw(family, draws)
                nodes, weights = [twin.draw(family, draws)], [1.0]
            slopes = finite_differences(
                lambda at, p=point, q=(mu, s, nodes, weights), setting=setting: (
                    -twin.bound(setting, p, at[:-1], at[-1], *q)
                ),
                np.append(point.scores, point.label_score),
            )
            np.testing.assert_allclose(np.append(p, -label), slopes, atol=3 * FLOAT * (1 + np.abs(slopes).max()))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", NOISES)
def test_the_papers_local_step_is_along_the_gradient_with_common_random_numbers(noise, family, seed):
    # In (mu, gamma), s = log(1 + e^gamma), of the bound with e = mu + s v for one v (eq. 9).
    rng = np.random.default_rng(seed)
    setting = setting_of(noise, family, local_step="monte_carlo")
    for _ in range(10):
        point = random_point(rng, 7)
        mu, s = float(rng.uniform(0, 4)), float(rng.uniform(0.2, 1))
        v = [twin.draw(family, Rng(7, 2, 2**32 + 5))]

        def value(at, point=point, v=v):
            s = np.logaddexp(0, at[1])
            return twin.bound(setting, point, point.scores, point.label_score, at[0], s, v, [1.0])

        gamma = np.log(np.expm1(s))
        slopes = finite_differences(value, np.array([mu, gamma]))
        (_, _, new_mu, _), new_s = core_step(setting, point, mu, s)
        moved = np.array([new_mu - mu, np.log(np.expm1(new_s)) - gamma]) / (0.01 * 2**-0.9)
        np.testing.assert_allclose(moved, slopes, atol=20 * FLOAT * (1 + np.abs(slopes).max()))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", NOISES)
def test_natural_steps_with_all_classes_reach_the_best_q(noise, family, seed):
    rng = np.random.default_rng(seed)
    setting = setting_of(noise, family, n_nodes=7)
    for spread, lead in ((0.0, 0.0), (1.0, -2.0), (3.0, 0.0), (1.0, 8.0)):
        point = random_point(rng, 30, spread=spread, label_score=lead)
        point.alpha[:] = 1
        mu, s = setting.family.mu, setting.family.s
        for visit in range(400):
            point.visits = 0 if visit < 30 else visit  # gain 2^-0.9, then falling
            (_, _, mu, loss), s = core_step(setting, point, mu, s)
        nodes, weights = setting.family.nodes, setting.family.weights

        def minus_bound(at, point=point, rule=(nodes, weights)):
            return -twin.bound(setting, point, point.scores, point.label_score, at[0], np.exp(at[1]), *rule)

        at = np.array([mu, np.log(s)])
        slopes = finite_differences(minus_bound, at)
        at_its_limit = s > 0.999999 * setting.family.largest_scale
        assert abs(slopes[0]) < 1e-3
        assert abs(slopes[1]) < 1e-3 or (at_its_limit and slopes[1] < 0)
        best = best_member(noise, (point.scores - lead)[np.newaxis], point.alpha[np.newaxis], nodes, weights)
        assert loss <= minus_bound([best[0][0], np.log(best[1][0])]) + 1e-4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", NOISES)
def test_best_members_and_their_bounds_equal_the_twins(noise, family, seed):
    rng = np.random.default_rng(seed)
    q = _core.LocalFamily(noise=noise, name=family, n_nodes=7, n_classes=30)
    scores = (3 * rng.normal(size=(20, 30))).astype(np.float32)
    labels = rng.integers(30, size=20).astype(np.int32)
    d, counts = scores.astype(float) - scores[np.arange(20), labels][:, np.newaxis], rng.uniform(0, 3, (20, 30))
    found = best_member(noise, d, counts, q.nodes, q.weights, start=(q.mu, q.s), n_threads=1 + seed % 2)
    expected = local_twin.best_member(noise, d, counts, q.nodes, q.weights, start=(q.mu, q.s))
    # Both stop where a step moves by less than 1e-9, and steps shrink at least by half.
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-9)
    bounds = q.best_bounds(noise, scores, labels, 1 + seed % 2)
    np.testing.assert_allclose(bounds, local_twin.best_bounds(noise, scores, labels, q), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("selection", ["block", "uniform", "frequency"])
@pytest.mark.parametrize("noise", NOISES)
def test_the_reduce_step_is_unbiased(noise, selection, seed):
    # Over every draw: the gradient of W at a q that no longer moves, and what q moves by where it hardly does.
    z = np.random.default_rng(seed).normal(size=6).astype(np.float32).astype(float)
    y, setting = 2, setting_of(noise)
    exact, moved, total, moves = (np.zeros(6), np.zeros(2), np.zeros(6), np.zeros(2))

    def visit(classes, alpha, probability, gradient, local):
        point = random_point(np.random.default_rng(0), len(classes), visits=LARGE)
        point.scores, point.alpha, point.label_score = z[classes], alpha, float(z[y])
        (p, label, _, _), _ = core_step(setting, point, 1.1, 0.6)
        gradient[classes] += probability * p
        gradient[y] -= probability * label
        (_, _, mu, _), s = twin.step(setting, point, 1.1, 0.6)
        local += probability * np.array([mu - 1.1, s - 0.6]) * LARGE**0.9

    visit(np.arange(6), (np.arange(6) != y) * 1.0, 1.0, exact, moved)
    choice = Choice(6, 2, counts=range(1, 7))
    for probability, drawn in every_outcome(lambda r: SELECTIONS[selection](r, choice, y, ())):
        visit(drawn.classes, drawn.alpha, probability, total, moves)
    np.testing.assert_allclose(total, exact, rtol=0, atol=9 * FLOAT * (1 + np.abs(exact).max()))
    # Beside the cancellation of 1e-8 moves: second-order terms of the share 1e-8.
    np.testing.assert_allclose(moves, moved, rtol=0, atol=1e-5 * (1 + np.abs(moved).max()))


@pytest.mark.parametrize("noise", ["gumbel", *NOISES])
def test_no_step_size_makes_the_proximal_step_run_away(noise, seed):
    rng = np.random.default_rng(seed)
    setting = setting_of(noise, "normal", solver="implicit") if noise != "gumbel" else None
    setting = setting or twin.Setting("gumbel", "implicit", "natural", 0.0, None)
    for spread in (1.0, 30.0, 1e3):
        point = random_point(rng, 30, spread=spread)
        for eta in (1e-8, 1.0, 1e4, 1e8):
            point.eta = eta
            (p, label, mu, loss), s = core_step(setting, point, 3.0, 0.5)
            assert np.all(p >= 0)
            assert np.isfinite([label, mu, s, loss]).all()
            farthest = 10 + np.log(eta * 300) + 2 * np.abs(point.scores).max() + abs(point.label_score)
            assert (p * point.x_sq).max() <= max(1, farthest)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_gauss_rules_integrate_polynomials(n):
    moments = {  # E v^k, k = 0 ... 4
        "normal": [1, 0, 1, 0, 3],
        "logistic": [1, 0, np.pi**2 / 3, 0, 7 * np.pi**4 / 15],
        "gumbel": [1, np.euler_gamma, np.euler_gamma**2 + np.pi**2 / 6],
    }
    for family, known in moments.items():
        nodes, weights = pieces.gauss_rule(family=family, n_nodes=n)
        for k, moment in enumerate(known[: 2 * n]):
            assert weights @ nodes**k == pytest.approx(moment, abs=1e-9)
        for ours, theirs in zip((nodes, weights), local_twin.gauss_rule(family, n), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)  # conditions of the eigenvalues
    # The recurrence of the normal and the logistic weight is known: b_k = k and k^4 pi^2 / (4 k^2 - 1).
    for family, b in (("normal", lambda k: k), ("logistic", lambda k: k**4 * np.pi**2 / (4 * k**2 - 1))):
        off = np.sqrt([b(k) for k in range(1, n)])
        np.testing.assert_allclose(
            pieces.gauss_rule(family=family, n_nodes=n)[0],
            np.linalg.eigvalsh(np.diag(off, 1) + np.diag(off, -1)),
            atol=1e-8,
        )


# Fits

FITS = [
    ("normal", "natural", "normal", "implicit", "block"),
    ("normal", "natural", "gumbel", "sgd", "uniform"),
    ("normal", "monte_carlo", "normal", "sgd", "frequency"),
    ("normal", "monte_carlo", "normal", "implicit", "all"),
    ("logistic", "natural", "gumbel", "implicit", "uniform"),
    ("logistic", "natural", "logistic", "implicit", "head_tail"),
    ("logistic", "natural", "gumbel", "sgd", "all"),
    ("logistic", "monte_carlo", "logistic", "sgd", "block"),
    ("gumbel", "natural", "auto", "implicit", "block"),
    ("gumbel", "natural", "auto", "sgd", "frequency"),
]
ROUNDING_OF_A_VISIT = 8 * 2.0**-23  # of test_epoch, twice: q is carried in sums of floats too


@pytest.mark.parametrize("alpha", [0.0, 0.05])
@pytest.mark.parametrize(("noise", "local_step", "local_family", "solver", "selection"), FITS)
def test_fit_equals_its_twin(noise, local_step, local_family, solver, selection, alpha, seed):
    X, y = planted(np.random.default_rng(seed), 48, 12, 21, density=0.4, scale=3)
    X[7] = 0
    parameters = {
        "noise": noise,
        "local_step": local_step,
        "local_family": local_family,
        "n_nodes": 4,
        "solver": solver,
        "selection": selection,
        "n_negatives": 4,
        "n_head": 3,
        "learning_rate": 0.5 if solver == "implicit" else 0.02,
        "alpha": alpha,
        "max_iter": 3,
        "random_state": 11,
    }
    storage = "sparse" if alpha else "dense"
    model = utility(**parameters).fit(as_storage(X, storage), y)
    expected = twin.train(X.astype(float), y, 21, **parameters)
    largest = np.abs(expected.coef).max()
    assert largest > 0.01
    atol = 3 * len(y) * ROUNDING_OF_A_VISIT * largest
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, expected.intercept, rtol=0, atol=atol)
    # Sums over 20 classes with weights of up to K.
    np.testing.assert_allclose(-model.elbo_curve_, expected.loss_curve, rtol=1e-4)


def test_adaptive_steps_and_batches_equal_the_twin(seed):
    X, y = planted(np.random.default_rng(seed), 48, 12, 21, density=0.4, scale=3)
    for options in ({"schedule": "adaptive", "learning_rate": 0.02, "solver": "sgd"}, {"learning_rate": 2.0}):
        parameters = {
            "noise": "normal",
            "local_step": "natural",
            "local_family": "normal",
            "n_nodes": 3,
            "solver": "implicit",
            "selection": "block",
            "batch_size": 7,
            "n_negatives": 6,
            "max_iter": 3,
            "random_state": 1,
        } | options
        model = utility(**parameters).fit(X, y)
        expected = twin.train(X.astype(float), y, 21, **parameters)
        atol = 3 * len(y) * ROUNDING_OF_A_VISIT * np.abs(expected.coef).max()
        np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
