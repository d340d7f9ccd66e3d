"""Standard errors, tests and policies of choice models against their definitions."""

from dataclasses import replace

import numpy as np
import pytest
from choice_twins import NOISES, K, N, log_likelihoods, numerical, split, world
from scipy import stats

from manyclass import ChoiceClassifier
from manyclass.choice.fitting import ChoiceObjective
from manyclass.datasets import choice_sets

# Inference


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # which depends on the seed
@pytest.mark.filterwarnings("ignore:1 of 8 coefficients.*at its bound")
@pytest.mark.parametrize("model", [*NOISES, "nested"])
@pytest.mark.parametrize("constants", ["none", "alternative"])
def test_standard_errors_are_those_of_the_definition(seed, model, constants):
    sets, *_ = world(seed, n=200)
    nests = {"nests": [0, 1, 0, 1, 1]} if model == "nested" else {}
    noise = "gumbel" if model == "nested" else model
    parts = {"interactions": "full" if constants == "none" else "none", "constants": constants}
    if constants == "alternative":  # beside which features of alternatives are not identified
        sets = replace(sets, Z=None, alternative_names=())
    how = {**parts, **nests, "noise": noise}
    model = ChoiceClassifier(**how, covariance="hessian").fit(sets)
    form, theta = model._fitted.form, model.coef_
    objective = ChoiceObjective(form, sets, np.zeros(form.n), 1)
    total = sets.sample_weight.sum()
    inside = np.flatnonzero(~np.isnan(model.std_errors_))
    H = numerical(lambda t: objective(t)[1], theta, 1e-4)[np.ix_(inside, inside)]
    inverse = np.linalg.inv(total * H)
    # Both Hessians of other noises are differences: of third derivatives, 1e-8 in relation to 1.
    np.testing.assert_allclose(model.covariance_[np.ix_(inside, inside)], inverse, rtol=1e-4, atol=1e-8)
    scores = objective.scores(theta)
    np.testing.assert_allclose(scores.T, numerical(objective.losses, theta), atol=1e-7 if noise == "gumbel" else 1e-6)
    weighted = scores[:, inside] * sets.sample_weight[:, None]
    robust = ChoiceClassifier(**how, covariance="robust").fit(sets).covariance_[np.ix_(inside, inside)]
    np.testing.assert_allclose(robust, inverse @ weighted.T @ weighted @ inverse, rtol=1e-3, atol=1e-7)
    clustered = ChoiceClassifier(**how, covariance="clustered").fit(sets).covariance_[np.ix_(inside, inside)]
    sums = np.stack([weighted[sets.persons == p].sum(axis=0) for p in np.unique(sets.persons)])
    np.testing.assert_allclose(clustered, inverse @ sums.T @ sums @ inverse, rtol=1e-3, atol=1e-7)


def covers(seed, n_sets, kind="hessian"):
    """How often 95 % intervals cover each coefficient.

    With kind="clustered" persons choose four times, and seven times of ten by one and the same noise: each choice is a
    logit's, but they are not independent.
    """
    hits = []
    for number in range(n_sets):
        rng = np.random.default_rng([seed, number])
        repeats = 4 if kind == "clustered" else 1
        n, k, truth = 300 if repeats == 1 else 200, 20, np.array([1.0, -0.5, 0.3])
        X, Z, S = rng.normal(size=(n, 1)), rng.normal(size=(k, 1)), rng.normal(size=(n, k))
        mask = rng.random((n, k)) < 0.6
        mask[:, 0] = True
        u = np.where(mask, truth[0] * Z.T + truth[1] * S + truth[2] * X * Z.T, -np.inf)
        person = np.repeat(np.arange(n), repeats)
        own = (rng.random(len(person)) > 0.7)[:, None]
        noise = np.where(own, rng.gumbel(size=(len(person), k)), rng.gumbel(size=(n, k))[person])
        chosen = np.argmax(u[person] + noise, axis=1)
        pairs, available = {"s": S[person]}, mask[person]
        sets = choice_sets(X=X[person], Z=Z, pairs=pairs, available=available, chosen=chosen, persons=person)
        low, high = ChoiceClassifier(covariance=kind).fit(sets).confidence_intervals().T
        hits.append((low <= truth) & (truth <= high))
    return np.mean(hits, axis=0)


@pytest.mark.parametrize("kind", ["hessian", "clustered"])
def test_intervals_cover_the_truth(seed, kind):
    # Of 100 data sets, 95 in the mean with a standard deviation of 2.2: 87 is 3.7 of them below.
    assert np.all(covers(seed, 100, kind) >= 0.87)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["hessian", "robust", "clustered"])
def test_intervals_cover_the_truth_in_93_to_97_percent_of_500_data_sets(seed, kind):
    found = covers(seed, 500, kind)
    # The standard deviation of a share is 1 %; of three coefficients and any seed one may lie 3 of them off.
    assert np.all((found >= 0.92) & (found <= 0.98))
    assert 0.93 <= found.mean() <= 0.97


def test_errors_by_person_are_larger_where_persons_have_tastes_of_their_own(seed):
    rng = np.random.default_rng(seed)
    n, k = 900, 4
    person = np.arange(n) // 9
    taste = rng.normal(1, 1, person.max() + 1)[person]
    S = rng.normal(size=(n, k))
    chosen = np.argmax(taste[:, None] * S + rng.gumbel(size=(n, k)), axis=1)
    sets = choice_sets(pairs={"s": S}, chosen=chosen, persons=person)
    auto, plain = (ChoiceClassifier(constants="none", covariance=kind).fit(sets) for kind in ("auto", "hessian"))
    assert auto._fitted.covariance.kind == "clustered"
    assert auto.std_errors_[0] > 1.2 * plain.std_errors_[0]


def test_tests_of_hypotheses_have_their_size_and_agree_with_each_other(seed):
    sets, *_ = world(seed, n=400)
    larger = ChoiceClassifier().fit(sets)
    smaller = ChoiceClassifier(interactions="none").fit(sets)
    lr = larger.likelihood_ratio_test(smaller)
    assert lr.degrees_of_freedom == 4
    assert lr.statistic == pytest.approx(2 * (larger.log_likelihood_ - smaller.log_likelihood_))
    wald = larger.wald_test(["z0"])
    clean = ChoiceClassifier(covariance="hessian").fit(sets)
    z = clean.coef_[0] / clean.std_errors_[0]
    assert clean.wald_test(["z0"]).statistic == pytest.approx(z**2)
    assert clean.wald_test(["z0"]).p_value == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert clean.wald_test({"z0": clean.coef_[0]}).statistic == pytest.approx(0, abs=1e-12)
    assert wald.degrees_of_freedom == 1
    with pytest.raises(ValueError, match="must have fewer"):
        smaller.likelihood_ratio_test(larger)
    with pytest.raises(ValueError, match="no coefficient"):
        larger.wald_test(["z7"])


def test_the_summary_is_a_table_of_the_coefficients():
    model = ChoiceClassifier().fit(world(0)[0])
    with pytest.raises(ValueError, match="level is 90"):
        model.summary(level=90)
    summary = model.summary(level=0.9)
    assert summary.columns["coefficient"].tolist() == model.coef_names_
    reach = stats.norm.ppf(0.95) * model.std_errors_
    np.testing.assert_allclose(summary.columns["high"], model.coef_ + reach)
    lines = str(summary).splitlines()
    assert len(lines) == len(summary.facts) + 2 + len(model.coef_)
    assert "95 %" in lines[len(summary.facts) + 1]


# What follows from a model


@pytest.mark.parametrize("noise", NOISES)
def test_marginal_effects_and_elasticities_are_derivatives_of_predictions(seed, noise):
    sets, *_ = world(seed)
    model = ChoiceClassifier(noise=noise, covariance="none").fit(sets)
    step = 1e-4
    for feature, alternative in (("s0", 2), ("z1", 2), ("s1", None), ("x0", None)):
        effects = model.marginal_effects(sets, feature, alternative)
        moved = []
        for sign in (1, -1):
            if feature.startswith("z"):
                Z = sets.Z.copy()
                Z[2, 1] += sign * step
                moved.append(replace(sets, Z=Z))
            elif alternative is None:
                moved.append(sets.changed(**{feature: lambda v, sign=sign: v + sign * step}))
            else:
                values = sets.lists.features.copy()
                values[sets.lists.alternatives == alternative, 0] += sign * step
                moved.append(replace(sets, lists=replace(sets.lists, features=values)))
        up, down = map(model.predict_proba, moved)
        np.testing.assert_allclose(effects, (up - down) / (2 * step), atol=1e-6)
    # Differences over 1e-4 of probabilities by quadrature, which are right to some 1e-12.
    np.testing.assert_allclose(effects.sum(axis=1), 0, atol=1e-7)


def test_elasticities_are_the_closed_form_of_the_logit(seed):
    rng = np.random.default_rng(seed)
    S = rng.uniform(1, 2, (N, K))
    sets = choice_sets(pairs={"s": S}, chosen=rng.choice([*"abcde"], N), alternatives=[*"abcde"])
    model = ChoiceClassifier().fit(sets)
    p, b = model.predict_proba(sets), model.coef_[0]
    rows = b * S[:, [2]] * ((np.arange(K) == 2) - p[:, [2]])
    np.testing.assert_allclose(model.elasticities(sets, "s", "c"), (p * rows).sum(axis=0) / p.sum(axis=0), rtol=1e-6)


def test_elasticities_by_a_feature_of_choosers_are_those_of_a_change_of_all(seed):
    sets, *_, weight, _ = world(seed)
    model = ChoiceClassifier(covariance="none").fit(sets)
    above, below, now = (
        weight @ model.predict_proba(sets.changed(x0=lambda values, factor=factor: factor * values))
        for factor in (1 + 1e-5, 1 - 1e-5, 1)
    )
    np.testing.assert_allclose(model.elasticities(sets, "x0"), (above - below) / 2e-5 / now, atol=1e-7)
    with pytest.raises(ValueError, match="name no alternative"):
        model.elasticities(sets, "x0", 1)


def test_policies_move_shares_and_surplus_as_the_logsum_says(seed):
    sets, utilities, _, _, weight, mask = world(seed)
    model = ChoiceClassifier().fit(sets)
    u = utilities(*split(model.coef_))
    np.testing.assert_allclose(model.inclusive_values(sets), np.logaddexp.reduce(u, axis=1), rtol=1e-12)
    spare = np.flatnonzero(mask.sum(axis=1) > mask[:, 1])  # rows that have another one
    some = sets.take(spare)
    found = model.simulate(some, some.without(1), price="s0")
    u[:, 1] = -np.inf
    after = np.exp(u[spare] - np.logaddexp.reduce(u[spare], axis=1, keepdims=True))
    np.testing.assert_allclose(found["share_after"], np.average(after, axis=0, weights=weight[spare]), rtol=1e-10)
    assert found["share_after"][1] == 0
    assert np.all(found["inclusive_value_change"] <= 1e-12)
    np.testing.assert_allclose(found["surplus_change"], -found["inclusive_value_change"] / model.coef_[2])
    grown = choice_sets(  # an alternative that did not exist
        X=sets.X, Z=np.concatenate([sets.Z, [[5.0, 5.0]]]), pairs={name: np.zeros((N, K + 1)) for name in ("s0", "s1")}
    )
    assert model.predict_proba(grown).shape == (N, K + 1)
    with pytest.raises(ValueError, match="none of the alternatives"):
        sets.without(17)
    with pytest.raises(ValueError, match="no feature that can be changed"):
        sets.changed(price=1)


def test_inclusive_values_of_drawn_alternatives_are_not_what_a_model_gives(seed):
    """A logsum over m of K alternatives lacks log(K / m); that of the model has all of them."""
    rng = np.random.default_rng(seed)
    k, m = 2000, 50
    sets = choice_sets(Z=rng.normal(size=(k, 1)), chosen=rng.integers(0, k, 300))
    model = ChoiceClassifier().fit(sets)
    own = model.inclusive_values(sets)
    drawn = np.array([np.logaddexp.reduce(model.utilities(sets)[i][rng.choice(k, m)]) for i in range(300)])
    assert np.mean(own - drawn) == pytest.approx(np.log(k / m), abs=0.1)


def test_willingness_to_pay_is_a_ratio_by_the_delta_method(seed):
    sets, *_ = world(seed, n=400)
    model = ChoiceClassifier(covariance="hessian").fit(sets)
    found = model.willingness_to_pay("s0", "s1")
    ratio = -model.coef_[2] / model.coef_[3]
    slope = numerical(lambda t: -t[2] / t[3], model.coef_)
    assert found["estimate"] == pytest.approx(ratio)
    assert found["std_error"] == pytest.approx(np.sqrt(slope @ model.covariance_ @ slope), rel=1e-6)
    assert found["high"] - found["estimate"] == pytest.approx(stats.norm.ppf(0.975) * found["std_error"])


@pytest.mark.filterwarnings("ignore:1 of 4 coefficients.*at its bound 1")
def test_a_nested_logit_finds_its_dissimilarity(seed):
    rng = np.random.default_rng(seed)
    n, k, lam = 6000, 6, 0.4
    nests = np.array([0, 0, 0, 1, 1, 2])
    S = rng.normal(size=(n, k))
    u = 0.8 * S
    p = np.empty((n, k))
    for j in range(k):
        p[:, j] = np.exp(log_likelihoods(u, np.full(n, j), "nested", nests, [lam, 1.0, 1.0]))
    chosen = np.array([rng.choice(k, p=row) for row in p])
    sets = choice_sets(pairs={"s": S}, chosen=chosen)
    model = ChoiceClassifier(nests=[*"aaabbc"], constants="none", covariance="hessian").fit(sets)
    assert model.coef_names_[1:] == ["dissimilarity[a]", "dissimilarity[b]", "dissimilarity[c]"]
    assert abs(model.coef_[0] - 0.8) < 4 * model.std_errors_[0]
    assert abs(model.coef_[1] - lam) < 4 * model.std_errors_[1]
    assert model.coef_[3] == 1
    assert model.std_errors_[3] == 0
    one = ChoiceClassifier(nests=[*"abcdef"], constants="none").fit(sets)
    assert one.coef_[0] == pytest.approx(ChoiceClassifier(constants="none").fit(sets).coef_[0], abs=1e-6)
