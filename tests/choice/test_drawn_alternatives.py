"""Choice models with drawn alternatives: draws, gradients without bias by enumeration, and where they lead."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from choice_twins import NOISES, K, numerical, world
from sklearn.exceptions import ConvergenceWarning

from manyclass import ChoiceClassifier, _core
from manyclass.choice.drawn import CarriedProducts, CarriedSums
from manyclass.choice.fitting import ChoiceForm, ChoiceObjective
from manyclass.datasets import choice_sets


@pytest.mark.parametrize("lists", [False, True])
def test_draws_have_the_frequencies_that_their_weights_say(seed, lists):
    rng = np.random.default_rng(seed)
    n_draws, n = 2, 4000
    chosen = rng.integers(0, K, n).astype(np.int32)
    shares = np.bincount(chosen, minlength=K) / n
    if lists:
        given = np.arange(n + 1) * 4, np.tile(np.array([0, 1, 3, 4], dtype=np.int32), n)
        own, share = choice_sets(alternatives=range(K), available=given).lists, 0.0
        chosen[:] = 1
    else:
        own, share = choice_sets(alternatives=range(K), n_rows=n).lists, 0.5
        chosen[: n // 2] = 1
    indptr, ids, weights, entries = _core.draw_choice_sets(
        indptr=own.indptr,
        alternatives=own.alternatives,
        listed_only=lists,
        rows=np.arange(n // 2),
        chosen=chosen,
        n_draws=n_draws,
        share=share,
        shares=shares,
        seed=seed,
        epoch=1,
        n_threads=1,
    )
    n //= 2
    assert np.array_equal(own.alternatives[entries], ids) if lists else np.all(entries == -1)
    ids, weights = ids.reshape(n, -1), weights.reshape(n, -1)
    assert np.diff(indptr).tolist() == [1 + n_draws] * n
    assert np.all(ids[:, 0] == 1)
    assert np.all(weights[:, 0] == 0)
    assert not np.any(ids[:, 1:] == 1)
    # The sum of alpha over draws of one alternative is 1 in the mean: within 5 standard errors.
    for k in range(K):
        own = np.where(ids[:, 1:] == k, np.exp(weights[:, 1:]), 0).sum(axis=1)
        expected = float(k != 1 and (not lists or k in (0, 3, 4)))
        assert abs(own.mean() - expected) <= 5 * own.std() / np.sqrt(n) + 1e-12
    if lists:
        assert all(len(set(row)) == 3 for row in ids.tolist())


def problem_of(noise, features, ids, log_weights, y):
    """One row that lists alternatives with three features, each standing for some."""
    return _core.ChoiceProblem(
        form=ChoiceForm(noise, (), (), ("a", "b", "c"), len(features)).core,
        n_rows=1,
        X=np.zeros(0),
        Z=np.zeros(0),
        constants=np.zeros(len(features)),
        indptr=np.array([0, len(ids)]),
        alternatives=np.array(ids, dtype=np.int32),
        pair_features=features[list(ids)],
        offsets=np.zeros(0),
        log_weights=np.array(log_weights),
        listed_only=True,
        chosen=np.array([y], dtype=np.int32),
        n_threads=1,
    )


def pairs_of_others(y):
    """All pairs of the alternatives but y, with y, and their logarithms of weights: each pair is as probable."""
    others = [k for k in range(K) if k != y]
    return [([y, *pair], [0.0, *[np.log(len(others) / 2)] * 2]) for pair in itertools.combinations(others, 2)]


def test_the_gradient_of_drawn_alternatives_has_no_bias_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    y, u, features = 2, rng.normal(), rng.normal(size=(K, 3))
    scores = features @ rng.normal(size=3)
    theta = np.linalg.lstsq(features, scores, rcond=None)[0]

    def gradient(ids, log_weights):
        return problem_of("gumbel", features, ids, log_weights, y).double_sum(theta, np.array([u]))[1]

    others = [k for k in range(K) if k != y]
    expected = sum(np.exp(scores[k] - scores[y] - u) * (features[k] - features[y]) for k in others)
    np.testing.assert_allclose(np.mean([gradient(*some) for some in pairs_of_others(y)], axis=0), expected, rtol=1e-12)
    np.testing.assert_allclose(gradient([y, *others], [0.0] * K), expected, rtol=1e-12)


@pytest.mark.parametrize("noise", NOISES[1:])
def test_augment_and_reduce_has_no_bias_by_enumeration(seed, noise):
    """A row that has seen all alternatives has the weights of nodes at which the mean gradient is that of the loss."""
    rng = np.random.default_rng(seed)
    y, row, features, theta = 2, np.zeros(1, np.int64), rng.normal(size=(K, 3)), rng.normal(size=3)
    whole = problem_of(noise, features, [y, *(k for k in range(K) if k != y)], [0.0] * K, y)
    value, expected = whole.objective(theta)
    gradients = []
    for some in pairs_of_others(y):
        carried = CarriedProducts(noise, 1)
        for visit in range(2):
            carried.look(whole, row, theta, visit)
        gradient, later = carried.noise([whole] * 3, row, theta, 2)
        assert not np.any([gradient, *later])
        found, gradient = carried.step(problem_of(noise, features, *some, y), row, theta, 2, np.ones(1))
        # Products are floats, and nodes a quarter of a standard deviation apart.
        assert found == pytest.approx(value, abs=1e-5)
        gradients.append(gradient)
    np.testing.assert_allclose(np.mean(gradients, axis=0), expected, atol=1e-5)


@pytest.mark.parametrize("noise", NOISES[1:])
def test_weights_of_nodes_are_corrected_for_noise_by_a_jackknife(seed, noise):
    """With halves of draws that differ, the mean gradient is nearer to that of the loss than that of one mean is."""
    rng = np.random.default_rng(seed)
    y, row, features, theta = 2, np.zeros(1, np.int64), rng.normal(size=(K, 3)), np.full(3, 0.2)
    whole = problem_of(noise, features, [y, *(k for k in range(K) if k != y)], [0.0] * K, y)
    expected = whole.objective(theta)[0]
    draws = [problem_of(noise, features, *some, y) for some in pairs_of_others(y)]
    corrected, plain = [], []
    for first, second in itertools.product(draws, repeat=2):
        carried = CarriedProducts(noise, 1)
        carried.look(first, row, theta, 0)
        carried.look(second, row, theta, 1)
        corrected.append(carried.step(whole, row, theta, 2, np.ones(1))[0])
    for some in draws:
        carried = CarriedProducts(noise, 1)
        for visit in range(2):
            carried.look(some, row, theta, visit)
        plain.append(carried.step(whole, row, theta, 2, np.ones(1))[0])
    # One draw's loss is off by v / 2, v being its variance; the jackknife of two by terms of v^2.
    assert abs(np.mean(corrected) - expected) < 0.3 * abs(np.mean(plain) - expected)


@pytest.mark.parametrize("kind", ["all", "listed", "function", "few taken out"])
def test_drawn_alternatives_lead_to_the_maximum(seed, kind):
    rng = np.random.default_rng(seed)
    n, k = 3000, 40
    Z, S = rng.normal(size=(k, 1)), rng.normal(size=(n, k))
    mask = np.ones((n, k), bool)
    if kind in ("listed", "few taken out"):
        mask = rng.random((n, k)) < 0.8
        mask[:, 0] = True
    u = np.where(mask, 0.5 * Z[:, 0] - S, -np.inf)
    chosen = np.argmax(u + rng.gumbel(size=(n, k)), axis=1)
    how = {
        "all": {"pairs": {"s": sp.csr_array(S)}},
        "listed": {"pairs": {"s": S}, "available": mask},
        "function": {"pairs": lambda rows, ks: S[rows, ks][:, None], "pair_names": ["s"]},
        "few taken out": {"pairs": {"s": sp.csr_array(S)}, "unavailable": sp.csr_array(~mask)},
    }[kind]
    sets = choice_sets(Z=Z, chosen=chosen, **how)
    exact = ChoiceClassifier(solver="lbfgs").fit(sets)
    drawn = ChoiceClassifier(solver="double_sum", n_negatives=20, random_state=seed).fit(sets)
    # What is left of u's noise and of the draws; the standard error itself is 1.
    assert np.all(np.abs(drawn.coef_ - exact.coef_) < 0.3 * exact.std_errors_)
    np.testing.assert_allclose(drawn.std_errors_, exact.std_errors_, rtol=0.02)
    assert np.all(drawn.draw_errors_ < 0.2 * exact.std_errors_)
    assert np.all(drawn.draw_errors_ > 0)
    again = ChoiceClassifier(solver="double_sum", n_negatives=20, random_state=seed, n_jobs=3).fit(sets)
    assert again.coef_.tolist() == drawn.coef_.tolist()


@pytest.mark.parametrize(("noise", "kind"), [("normal", "listed"), ("logistic", "function")])
def test_augment_and_reduce_with_drawn_alternatives_leads_to_the_maximum(seed, noise, kind):
    rng = np.random.default_rng(seed)
    n, k = 1000, 25
    X, Z, S = rng.normal(size=(n, 1)), rng.normal(size=(k, 1)), rng.normal(size=(n, k))
    mask = rng.random((n, k)) < (0.8 if kind == "listed" else 1)
    mask[:, 0] = True
    u = np.where(mask, (0.5 + 0.2 * X) * Z[:, 0] - 0.7 * S, -np.inf)
    chosen = np.argmax(u + (rng.normal if noise == "normal" else rng.logistic)(size=(n, k)), axis=1)
    how = {
        "listed": {"pairs": {"s": S}, "available": mask},
        "function": {"pairs": lambda rows, ks: S[rows, ks][:, None], "pair_names": ["s"]},
    }[kind]
    sets = choice_sets(X=X, Z=Z, chosen=chosen, **how)
    exact = ChoiceClassifier(noise=noise, solver="lbfgs").fit(sets)
    given = {"noise": noise, "solver": "double_sum", "n_negatives": 12, "random_state": seed}
    drawn = ChoiceClassifier(**given).fit(sets)
    # What the draws leave is said within a factor: of three coefficients and any seed, 5 of such errors.
    assert np.all(np.abs(drawn.coef_ - exact.coef_) < 5 * drawn.draw_errors_)
    assert np.all(drawn.draw_errors_ < 0.6 * exact.std_errors_)
    np.testing.assert_allclose(drawn.std_errors_, exact.std_errors_, rtol=0.1)
    assert drawn.loss_curve_[-1] == pytest.approx(-exact.log_likelihood_ / n, abs=0.02)
    again = ChoiceClassifier(**given, n_jobs=3, covariance="none").fit(sets)
    assert again.coef_.tolist() == drawn.coef_.tolist()


@pytest.mark.parametrize("noise", ["gumbel", "normal"])
def test_low_rank_with_drawn_alternatives_leads_to_the_minimum(seed, noise):
    rng = np.random.default_rng(seed)
    n, k, rank = 600, 20, 1
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(k, 3))
    W = rng.normal(size=(3, rank)) @ rng.normal(size=(rank, 3))
    u = X @ (0.5 * W / np.linalg.norm(W)) @ Z.T
    chosen = np.argmax(u + (rng.normal if noise == "normal" else rng.gumbel)(size=(n, k)), axis=1)
    sets = choice_sets(X=X, Z=Z, chosen=chosen)
    given = {"noise": noise, "interactions": rank, "random_state": seed}
    exact = ChoiceClassifier(**given, solver="lbfgs").fit(sets)
    drawn = ChoiceClassifier(**given, solver="double_sum", n_negatives=15).fit(sets)
    assert np.linalg.matrix_rank(drawn.interactions_, tol=1e-9) == rank
    # Half a nat for each of 3 + 3 coefficients is what sampling leaves; draws leave less.
    assert exact.log_likelihood_ - drawn.log_likelihood(sets) < 3


def test_the_metric_of_low_rank_is_that_of_gauss_and_newton(seed):
    sets, *_ = world(seed, n=40, d=3, q=2)
    names = sets.chooser_names, sets.alternative_names, sets.pair_names
    low, full = (ChoiceForm("normal", *names, K, rank=rank) for rank in (1, -1))
    theta = np.random.default_rng(seed).normal(size=low.n)

    def of_full(theta):
        return np.concatenate([theta[:4], low.core.interactions(theta).ravel()])

    # A product of two factors has central differences without an error but rounding.
    J = numerical(of_full, theta).T
    of_low, of_all = (ChoiceObjective(form, sets, np.zeros(form.n), 1) for form in (low, full))
    expected = of_all.hessian(of_full(theta), J)
    np.testing.assert_allclose(of_low.metric(theta), expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(of_all.metric(of_full(theta)), of_all.hessian(of_full(theta), np.eye(full.n)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # which depends on the seed
@pytest.mark.parametrize(("n_alternatives", "n_draws", "n_seeds"), [(100, 40, 20), (60, 6, 60)])
def test_draw_errors_are_the_spread_over_seeds(seed, n_alternatives, n_draws, n_seeds):
    rng = np.random.default_rng(seed)
    n, k = 300, n_alternatives
    X, Z = rng.normal(size=(n, 1)), rng.normal(size=(k, 2))
    u = Z @ [0.8, -0.5] + 0.4 * X * Z[:, 0]
    sets = choice_sets(X=X, Z=Z, chosen=np.argmax(u + rng.gumbel(size=(n, k)), axis=1))
    exact = ChoiceClassifier(solver="lbfgs", covariance="none").fit(sets)
    given = {"solver": "double_sum", "n_negatives": n_draws, "covariance": "none"}
    fits = [ChoiceClassifier(**given, random_state=state).fit(sets) for state in range(n_seeds)]
    errors = np.array([fit.coef_ - exact.coef_ for fit in fits])
    scaled = errors / np.sqrt(np.mean([fit.draw_errors_**2 for fit in fits], axis=0))
    # Errors are told within a tenth. A root mean square of 4 coefficients that depend on each other, as some 3, has a
    # standard error of 1 / sqrt(6 n_seeds), of which there are 2.5 beside: in all .33 of 20 seeds, .23 of 60. Were
    # coefficients not to follow the noise of earlier steps, errors told with 6 draws would be a third too large: .27.
    assert abs(np.sqrt(np.mean(scaled**2)) - 1) < 0.1 + 2.5 / np.sqrt(6 * n_seeds)
    assert np.all(np.abs(scaled.mean(axis=0)) < 4 / np.sqrt(n_seeds))
    assert all(fit.converged_ for fit in fits)


def test_few_draws_end_with_a_warning(seed):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 passes, draws of n_negatives=1 .*draw_errors_"):
        model = ChoiceClassifier(solver="double_sum", n_negatives=1, max_iter=1, random_state=seed).fit(world(seed)[0])
    assert not model.converged_


def test_double_sum_is_refused_where_it_is_not_for(seed):
    sets = world(seed)[0]
    own_tastes = replace(sets, Z=None, alternative_names=())
    for data, how in ((sets, {"nests": [0, 0, 1, 1, 1]}), (own_tastes, {"interactions": 1})):
        with pytest.raises(ValueError, match="solver is 'double_sum', which is for"):
            ChoiceClassifier(solver="double_sum", **how).fit(data)


def test_estimates_that_differ_by_factors_that_overflow_leave_a_finite_log_normalizer():
    carried, rows = CarriedSums(1), np.zeros(1, np.int64)
    for visit, loss in enumerate((0.0, 1.0, 2000.0)):
        carried._add(rows, np.array([loss]), visit)
    carried.squares[:] = 2 * carried.means + 2000
    assert np.isfinite(carried.log_normalizers(rows, 3)).all()


@pytest.mark.parametrize("noise", ["normal", "logistic"])
@pytest.mark.parametrize("gap", [1e5, 1e9])
def test_utilities_far_apart_take_a_bounded_number_of_nodes(noise, gap):
    sets = choice_sets(pairs={"s": [[0.0, 1.0], [1.0, 0.0]]}, chosen=[0, 0])
    form = ChoiceForm(noise, (), (), ("s",), 2)
    losses = ChoiceObjective(form, sets, np.zeros(1), 1).losses(np.array([gap]))
    np.testing.assert_allclose(losses, [gap**2 / 4 if noise == "normal" else gap, 0], rtol=1e-2, atol=1e-9)
