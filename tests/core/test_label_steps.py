"""Steps of several labels in the double sum: values, gradients, no bias, and proximal points, from the definitions."""

import itertools
import re

import numpy as np
import pytest
from reference.core_step import core_step, isas, random_point
from reference.label_sums import Rule, loss, value
from reference.rng import every_outcome
from reference.selections import SELECTIONS, Choice
from scipy.optimize import minimize, minimize_scalar
from testing_core import pieces

from manyclass.registry import names, parts

REDUCTIONS = names("reduction")
EXPLICIT = [name for name in names("label_solver") if name != "implicit"]
CARRY = {"proposed": 0.0, "raman": 1.0, 0.35: 0.35, -0.6: -0.6}  # the a of u + a r
FORMS = [(reduction, form) for reduction in REDUCTIONS for form in CARRY if reduction != "decoupled" or not CARRY[form]]
# Terms e^z of float scores below 8: sums of a few, each off by a few ulp of 2^-24 times the size of its score.
FLOAT = 4e-6


def label_step(rule, labels, scores, alpha, *, form="proposed", reduction="pick_all", isa="auto", **changed):
    """(gradient of labels and of wrong classes, carried number, value) of the core."""
    given = {"x_sq": 1.0, "eta": 1.0, "eta_u": 1.0, "local": 2.0, "visits": 0, "rule_options": {}} | changed
    g, own, local, found = pieces.label_step(
        rule=rule,
        reduction=reduction,
        formulation=form,
        isa=isa,
        scores=np.asarray(scores, dtype=np.float32),
        alpha=np.asarray(alpha, dtype=np.float32),
        labels=np.asarray(labels, dtype=np.float32),
        **given,
    )
    return np.concatenate([own, g]).astype(np.float64), local, found


def floats(values):
    """Numbers that floats hold, so that rounding them changes nothing."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def some_row(rng, n_labels, m, spread=1.5):
    """Scores of labels and of wrong classes, and weights of which one is 0: a label among its neighbours."""
    alpha = floats(rng.uniform(1, 6, m))
    if m > 2:
        alpha[rng.integers(m)] = 0
    return floats(spread * rng.normal(size=n_labels)), floats(spread * rng.normal(size=m)), alpha


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_best_carried_number_gives_the_loss_and_others_more(reduction, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        labels, wrong, _ = some_row(rng, int(rng.integers(1, 6)), 7)
        ones = np.ones(len(wrong))
        exact = loss(reduction, labels, wrong)
        best = minimize_scalar(
            lambda u, a=labels, b=wrong, c=ones: value(reduction, 0, u, a, b, c), bounds=(-3, 9), method="bounded"
        )
        assert best.fun == pytest.approx(exact, abs=1e-8)  # xatol 1e-5, squared
        for u in (-2.0, 0.5, 3.0, 6.0):
            # In the core too, which takes floats.
            found = label_step("sgd", labels, wrong, ones, reduction=reduction, local=u)[2]
            assert found == pytest.approx(value(reduction, 0, u, labels, wrong, ones), rel=FLOAT)
            assert found > exact - FLOAT * exact


@pytest.mark.parametrize("rule", EXPLICIT)
@pytest.mark.parametrize(("reduction", "form"), FORMS)
def test_an_explicit_step_is_the_gradient_at_the_number_that_the_rule_says(reduction, form, rule, seed):
    rng = np.random.default_rng(seed)
    carry = CARRY[form]
    for n_labels, m in itertools.product((1, 2, 5), (0, 1, 8, 40)):
        labels, wrong, alpha = some_row(rng, n_labels, m)
        numbers = {p.name: p.default for p in parts("solver")[rule].parameters}
        numbers |= {name: float(rng.uniform(0.2, 0.9)) for name in numbers}
        visits, eta_u, local = int(rng.integers(5)), float(rng.uniform(0.1, 2)), float(rng.uniform(0, 4))
        twin = Rule(rule, reduction, carry, numbers)
        g, carried, found = twin.step(labels, wrong, alpha, local, eta_u, visits)
        options = {"rule_options": numbers, "visits": visits, "eta_u": eta_u, "local": local}
        for isa in isas():
            core = label_step(rule, labels, wrong, alpha, form=form, reduction=reduction, isa=isa, **options)
            size = 1 + np.abs(g).max()
            np.testing.assert_allclose(core[0], g, rtol=0, atol=FLOAT * size)
            assert core[1] == pytest.approx(carried, abs=FLOAT * size * (1 + eta_u))
            assert core[2] == pytest.approx(found, abs=FLOAT * size * n_labels)


@pytest.mark.parametrize("rule", EXPLICIT)
@pytest.mark.parametrize("form", CARRY)
def test_one_label_is_the_double_sum_bit_for_bit(form, rule, seed):
    rng = np.random.default_rng(seed)
    for m, visits in ((1, 0), (6, 2), (50, 4)):
        point = random_point(rng, m, visits=visits, carry=CARRY[form])
        point.carried = 0.3 + point.label_score * point.carry  # below its bound, so that U-max has something to do
        options = {name: getattr(point, name) for name in [n.name for n in parts("solver")[rule].parameters]}
        p, label, carried, _ = core_step(point, rule)
        for reduction in ("pick_all", "pick_all_normalized"):
            given = {"rule_options": options, "local": point.carried, "visits": visits}
            g, local, _ = label_step(
                rule, [point.label_score], point.scores, point.alpha, form=form, reduction=reduction, **given
            )
            np.testing.assert_array_equal(g[1:], p)
            assert g[0] == np.float32(-label)
            assert local == carried


@pytest.mark.parametrize("selection", ["uniform", "frequency", "block"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradients_are_unbiased_over_every_draw(reduction, selection, seed):
    rng = np.random.default_rng(seed)
    n_classes, P = 6, [1, 4]
    z = floats(rng.normal(size=n_classes))
    choice = Choice(n_classes, 2, with_label=True, counts=[3, 1, 2, 5, 1, 2])
    mean = np.zeros(n_classes)
    numbers = np.zeros(2)
    for probability, drawn in every_outcome(lambda r: SELECTIONS[selection](r, choice, P)):
        alpha = np.where(np.isin(drawn.classes, P), 0, drawn.alpha)
        g, local, found = label_step("sgd", z[P], z[drawn.classes], alpha, reduction=reduction)
        mean[P] += probability * g[: len(P)]
        np.add.at(mean, drawn.classes, probability * g[len(P) :])
        numbers += probability * np.array([local, found])
    wrong = [k for k in range(n_classes) if k not in P]
    g, local, found = label_step("sgd", z[P], z[wrong], np.ones(len(wrong)), reduction=reduction)
    np.testing.assert_allclose(mean[[*P, *wrong]], g, rtol=0, atol=FLOAT * (1 + np.abs(g).max()))
    np.testing.assert_allclose(numbers, [local, found], rtol=FLOAT)
    # At the best number, the gradient is that of the loss.
    best = minimize_scalar(
        lambda u: value(reduction, 0, u, z[P], z[wrong], np.ones(len(wrong))), bounds=(-3, 9), method="bounded"
    ).x
    g, _, _ = label_step("sgd", z[P], z[wrong], np.ones(len(wrong)), reduction=reduction, local=best)
    for place, k in enumerate([*P, *wrong]):
        up, down = z + 1e-5 * (np.arange(n_classes) == k), z - 1e-5 * (np.arange(n_classes) == k)
        slope = (loss(reduction, up[P], up[wrong]) - loss(reduction, down[P], down[wrong])) / 2e-5
        assert g[place] == pytest.approx(slope, abs=1e-4)  # u is known to 1e-5


def proximal_objective(reduction, W, x, alpha, n_labels, old_u, eta, eta_u):
    """The function (u, W) -> value, gradient and Hessian of f + |W - W~|^2 / (2 eta) + (u - u~)^2 / (2 eta_u)."""
    n_rows, n_features = W.shape
    scale = 1 if reduction == "pick_all_normalized" else n_labels
    in_p = np.arange(n_rows) < n_labels
    # f = s (u - 1) + s sum_k a_k exp(terms_k . theta), exponents being z_k - r - u.
    terms = np.zeros((n_rows, 1 + W.size))
    terms[:, 0] = -1
    for k in range(n_rows):
        terms[k, 1 + k * n_features : 1 + (k + 1) * n_features] += x
        for label in range(n_labels):
            terms[k, 1 + label * n_features : 1 + (label + 1) * n_features] -= x / n_labels
    a = np.where(in_p, 1.0, np.append(np.ones(n_labels), alpha))
    linear = np.append(scale, np.zeros(W.size))
    start, weights = np.append(old_u, W.ravel()), np.append(1 / eta_u, np.full(W.size, 1 / eta))

    def objective(theta):
        e = scale * a * np.exp(terms @ theta)
        away = theta - start
        f = scale * (theta[0] - 1) + e.sum() + 0.5 * weights @ away**2
        return f, linear + e @ terms + weights * away, terms.T @ (e[:, None] * terms) + np.diag(weights)

    return objective, start


def minimiser(objective, start):
    """By scipy, then Newton's steps until rounding; the largest entry of the gradient at most 1e-9 of its terms."""
    theta = minimize(
        lambda t: objective(t)[0],
        start,
        jac=lambda t: objective(t)[1],
        hess=lambda t: objective(t)[2],
        method="trust-exact",
        options={"gtol": 1e-6, "maxiter": 2000},
    ).x
    for _ in range(5):
        _, g, h = objective(theta)
        theta = theta - np.linalg.solve(h, g)
    assert np.abs(objective(theta)[1]).max() < 1e-9 * np.abs(objective(theta)[2]).max()
    return theta


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("n_labels", [1, 2, 5])
@pytest.mark.parametrize("reduction", ["pick_all", "pick_all_normalized"])
def test_the_implicit_step_is_the_minimiser_over_all_weights_and_u(reduction, n_labels, eta, seed):
    rng = np.random.default_rng(seed)
    scale = 1 if reduction == "pick_all_normalized" else n_labels
    for m, eta_u, old_u in itertools.product((1, 6), (0.3, 20.0), (0.0, 3.0)):
        W, x = rng.normal(size=(n_labels + m, 3)), rng.normal(size=3)
        # Scores are floats: x is made to fit them, and W to give them.
        z = floats(W @ x)
        W += np.outer(z - W @ x, x) / (x @ x)
        alpha = floats(rng.uniform(1, 9, m))
        objective, start = proximal_objective(reduction, W, x, alpha, n_labels, old_u, eta, eta_u)
        theta = minimiser(objective, start)
        given = {"x_sq": x @ x, "eta": eta, "eta_u": eta_u, "local": old_u, "reduction": reduction}
        g, u, found = label_step("implicit", z[:n_labels], z[n_labels:], alpha, **given)
        rows = theta[1:].reshape(W.shape)
        moves = (W - rows) @ x / (x @ x)  # rows move along x
        np.testing.assert_allclose(rows, W - np.outer(moves, x), rtol=0, atol=1e-8 * np.abs(rows).max())
        tight = FLOAT * (scale + np.abs(moves).max() / eta)
        np.testing.assert_allclose(g, moves / eta, rtol=0, atol=tight)
        # u answers to the sum of the moved scores.
        assert u == pytest.approx(theta[0], abs=FLOAT * (1 + abs(theta[0]) + np.abs(moves).sum() * (x @ x)))
        new = rows @ x
        expected = value(reduction, 0, theta[0], new[:n_labels], new[n_labels:], alpha)
        assert found == pytest.approx(expected, abs=10 * FLOAT * (scale + abs(expected)))


@pytest.mark.parametrize("eta", [1e-2, 1.0, 1e3])
def test_the_implicit_step_of_one_label_is_that_of_the_double_sum(eta, seed):
    rng = np.random.default_rng(seed)
    for m in (1, 5, 40):
        point = random_point(rng, m, eta=eta, eta_u=3.0)
        p, label, u, _ = core_step(point, "implicit")
        given = {"x_sq": point.x_sq, "eta": eta, "eta_u": 3.0, "local": point.carried}
        g, local, _ = label_step("implicit", [point.label_score], point.scores, point.alpha, **given)
        # Both are as far from the root as test_implicit.py allows.
        np.testing.assert_allclose(eta * g, np.append(-label, p), rtol=0, atol=8e-6 * (eta + np.abs(p).max() + label))
        assert local == pytest.approx(u, abs=8e-6 * (1 + abs(u) + label * point.x_sq))


@pytest.mark.parametrize("reduction", ["pick_all", "pick_all_normalized"])
def test_the_implicit_step_bears_any_step_size_and_any_scores(reduction, seed):
    rng = np.random.default_rng(seed)
    for eta, spread, x_sq in itertools.product((1e-6, 1.0, 1e9), (1.0, 1e3, 1e6), (0.0, 1e-3, 1e3)):
        labels, wrong, alpha = some_row(rng, 3, 9, spread)
        given = {"x_sq": x_sq, "eta": eta, "eta_u": 3.0, "local": np.log(12)}
        g, u, found = label_step("implicit", labels, wrong, np.maximum(alpha, 1), reduction=reduction, **given)
        assert np.isfinite([*g, u]).all()
        if x_sq:
            assert np.isfinite(found)
            # The step lowers the proximal objective, so it cannot raise the sum of terms of all classes.
            assert abs(g[:3].sum() + g[3:].sum()) <= 1e-5 * np.abs(g).sum() + 1e-30  # dz of all sum to 0


def test_a_draw_without_wrong_classes_moves_nothing_far():
    # Decoupled, such a draw is log 0: rules take a small number for it, and the next one is as if it were the first.
    for rule in EXPLICIT:
        numbers = {p.name: p.default for p in parts("solver")[rule].parameters}
        g, n, found = label_step(rule, [0.5, -1.0], [], [], reduction="decoupled", local=2.0, rule_options=numbers)
        assert np.isfinite([*g, n, found]).all()
        g, n, found = label_step(rule, [0.5], [1.0, 2.0], [2.0, 2.0], reduction="decoupled", local=n, visits=1)
        assert np.isfinite([n, found]).all()


def test_what_does_not_exist_is_refused_with_the_choices():
    row = ([0.0, 1.0], [0.5], [1.0])
    for rule, changed, message in (
        ("css", {}, "solver is 'css'; it must be one of 'implicit', 'umax'"),
        ("sgd", {"reduction": "sum"}, "reduction is 'sum'; it must be one of 'pick_all', 'pick_all_normalized'"),
        ("sgd", {"form": "other"}, "formulation is 'other'; it must be one of 'proposed', 'raman'"),
        ("implicit", {"reduction": "decoupled"}, "reduction is 'decoupled', which does not exist with solver"),
        ("sgd", {"form": np.nan}, "formulation is nan; a number must be finite"),
        ("implicit", {"form": "raman"}, "formulation is 'raman', which does not exist with several labels"),
        ("ema", {"reduction": "decoupled", "form": 0.5}, "formulation is 0.500000, which does not exist with red"),
        ("ema", {"reduction": "decoupled", "form": "raman"}, "formulation is 'raman', which does not exist with red"),
        ("ema", {"rule_options": {"delta": 1.0}}, "option 'delta' is 1; solver 'ema' has 'gain'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            label_step(rule, *row, **changed)
