"""Mixed logit against a slow twin in NumPy, planted coefficients, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import manyclass
from manyclass import ChoiceClassifier
from manyclass.choice import RandomCoefficients
from manyclass.choice.fitting import ChoiceObjective
from manyclass.choice.mixed import MixedLogit
from manyclass.datasets import choice_sets


def planted_sets(n_persons=120, n_tasks=4, n_alternatives=5, seed=0, panel=True):
    """Choices by coefficients that vary among persons: cost by -1 + .8 z + .5 income, time by -e^(-.5 + .6 z)."""
    rng = np.random.default_rng(seed)
    n = n_persons * n_tasks
    who = np.repeat(np.arange(n_persons), n_tasks)
    cost, time, comfort = rng.uniform(0, 2, (3, n, n_alternatives))
    income = np.repeat(rng.normal(size=n_persons), n_tasks)
    z = rng.normal(size=(2, n_persons))[:, who, None]
    quality = rng.normal(size=(n_alternatives, 1))
    u = (-1 + 0.8 * z[0] + 0.5 * income[:, None]) * cost - np.exp(-0.5 + 0.6 * z[1]) * time
    u += 0.7 * comfort + 0.4 * quality[:, 0] + rng.gumbel(size=cost.shape)
    return choice_sets(
        alternatives=np.arange(n_alternatives),
        X=income[:, None],
        chooser_names=["income"],
        Z=quality,
        alternative_names=["quality"],
        pairs={"cost": cost, "time": time, "comfort": comfort},
        available=rng.random(cost.shape) < 0.8 + (u == u.max(axis=1, keepdims=True)),
        chosen=np.argmax(u, axis=1),
        persons=who if panel else None,
    )


EVERYTHING = RandomCoefficients(
    {"cost": "normal", "time": "-lognormal", "quality": "triangular", "constant[2]": "uniform"},
    correlated=["cost", "time", "constant[2]"],
    means={"cost": ["income"], "time": ["income"]},
    n_draws=70,
)


def state_and_form(sets, mixture, **parameters):
    model = ChoiceClassifier(**{"constants": "alternative", **parameters}, interactions="none", mixture=mixture)
    form = model._form(sets)
    return MixedLogit(mixture, form, 3, mixture.n_draws, (1.0,) * len(mixture.coefficients)), form


def objective_of(state, form, sets, n_threads):
    return state.objective(ChoiceObjective(form, sets, np.zeros(form.n), n_threads))


def slow_log_likelihoods(state, form, sets, theta):
    """Log-likelihoods of persons by loops over these, their draws and rows."""
    varying, names = [*state.mixture.coefficients], state.names
    value = dict(zip(names, theta, strict=True))
    persons = np.arange(sets.n_rows) if sets.persons is None else sets.persons
    lists = sets.lists.filled(sets.n_alternatives)
    found = []
    for number, person in enumerate(np.unique(persons)):
        rows = np.flatnonzero(persons == person)
        draws = state.draws(number, number + 1)[0].astype(float)
        likelihoods = []
        for z in draws.T:
            at = value.copy()
            for name, (row, column) in state.places.items():
                at[varying[row]] += value[name] * z[column]
            for name, (row, feature) in state.shifts.items():
                at[varying[row]] += value[name] * sets.X[rows[0], feature]
            for name, distribution in zip(varying, state.distributions, strict=True):
                at[name] = distribution.sign * np.exp(at[name]) if distribution.sign else at[name]
            product = 1.0
            for i in rows:
                listed = np.arange(lists.indptr[i], lists.indptr[i + 1])
                ks = lists.alternatives[listed]
                u = lists.offsets[listed].copy()
                for j, name in enumerate(form.pair_names):
                    u += at[name] * lists.features[listed, j]
                u += at["quality"] * sets.Z[ks, 0] + np.array([at.get(f"constant[{k}]", 0.0) for k in ks])
                p = np.exp(u) / np.exp(u).sum()
                product *= p[ks == sets.chosen[i]][0]
            likelihoods.append(product)
        found.append(np.log(np.mean(likelihoods)))
    return np.array(found)


@pytest.mark.parametrize("panel", [True, False])
def test_the_likelihood_is_that_of_the_slow_twin_and_its_gradient_that_of_differences(panel):
    sets = planted_sets(12, 3, panel=panel)
    state, form = state_and_form(sets, EVERYTHING)
    persons = objective_of(state, form, sets, 1)
    theta = np.random.default_rng(1).normal(size=len(state.names)) * 0.7
    likelihoods, scores = persons.person_scores(theta)
    assert likelihoods == pytest.approx(slow_log_likelihoods(state, form, sets, theta), rel=1e-12)
    for j in range(len(theta)):
        step = 1e-5 * (np.arange(len(theta)) == j)
        slope = (persons.person_scores(theta + step)[0] - persons.person_scores(theta - step)[0]) / 2e-5
        assert scores[:, j] == pytest.approx(slope, abs=2e-8)


@pytest.mark.filterwarnings("ignore:5 of 8 coefficients .*collinear")  # a feature beside constants of alternatives
def test_without_spread_it_is_the_multinomial_logit():
    sets = planted_sets(40)
    mixture = RandomCoefficients({"cost": "normal", "time": "triangular"}, n_draws=20)
    state, form = state_and_form(sets, mixture, constants="none")
    plain = ChoiceClassifier(constants="none", interactions="none").fit(sets)
    theta = np.append(plain.coef_, [0, 0])
    assert objective_of(state, form, sets, 1).log_likelihood(theta) == pytest.approx(plain.log_likelihood_, rel=1e-12)
    logit = ChoiceObjective(form, sets, np.zeros(form.n), 1)
    assert state.mean("probabilities", theta, logit) == pytest.approx(plain.predict_proba(sets), abs=1e-14)
    assert state.mean("inclusive_values", theta, logit) == pytest.approx(plain.inclusive_values(sets), abs=1e-12)


def test_planted_coefficients_are_found_again():
    sets = planted_sets(1500, 6, seed=2)
    mixture = RandomCoefficients({"cost": "normal", "time": "-lognormal"}, means={"cost": ["income"]}, n_draws=100)
    model = ChoiceClassifier(constants="none", interactions="none", mixture=mixture, random_state=0).fit(sets)
    assert model.converged_
    assert model.coef_names_ == ["quality", "cost", "time", "comfort", "sd[cost]", "sd[time]", "cost:income"]
    planted = np.array([0.4, -1, -0.5, 0.7, 0.8, 0.6, 0.5])
    assert np.all(np.abs(model.coef_ - planted) < 3.5 * model.std_errors_)
    assert np.all(model.std_errors_ < 0.1)
    robust = ChoiceClassifier(**{**model.get_params(deep=False), "covariance": "robust"}).fit(sets)
    assert robust.std_errors_ == pytest.approx(model.std_errors_, rel=0.2)


@pytest.mark.filterwarnings("ignore")  # a spread of 0 is not identified
def test_more_draws_have_the_signs_of_the_fit(monkeypatch):
    monkeypatch.setattr("manyclass.choice.mixed.FIRST_DRAWS", 8)
    monkeypatch.setattr("manyclass.choice.mixed.MOST_AUTO_DRAWS", 32)
    mixture = RandomCoefficients({"quality": "normal", "comfort": "normal"}, n_draws="auto")
    model = ChoiceClassifier(constants="none", interactions="none", mixture=mixture)
    for seed in range(8):
        sets = planted_sets(60, seed=seed)
        model.set_params(random_state=seed).fit(sets)
        assert model.log_likelihood_ == pytest.approx(-60 * model.loss_curve_[-1], rel=1e-9)


def test_a_spread_of_0_leaves_the_errors_of_the_others(monkeypatch):
    monkeypatch.setattr("manyclass.choice.mixed.MOST_AUTO_DRAWS", 1024)
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(200), 5)
    a, b = rng.uniform(0, 2, (2, 1000, 4))
    u = (-1 + 0.8 * rng.normal(size=200)[who, None]) * a + 0.7 * b + rng.gumbel(size=a.shape)
    sets = choice_sets(pairs={"a": a, "b": b}, chosen=np.argmax(u, axis=1), persons=who)
    mixture = RandomCoefficients({"a": "normal", "b": "normal"}, n_draws="auto")
    model = ChoiceClassifier(constants="none", mixture=mixture, random_state=0).fit(sets)
    assert model.coef_[3] < 1e-2
    plain = RandomCoefficients({"a": "normal"}, n_draws=500)
    without = ChoiceClassifier(constants="none", mixture=plain, random_state=0).fit(sets)
    assert model.std_errors_[:3] == pytest.approx(without.std_errors_, rel=0.05)


def test_threads_order_of_rows_and_blocks_of_persons_change_nothing(monkeypatch):
    sets = planted_sets(50)
    state, form = state_and_form(sets, EVERYTHING)
    theta = np.random.default_rng(1).normal(size=len(state.names)) * 0.5
    likelihoods, scores = objective_of(state, form, sets, 1).person_scores(theta)
    mixed_up = sets.take(np.random.default_rng(0).permutation(sets.n_rows))
    monkeypatch.setattr("manyclass.choice.mixed.MOST_DRAWS", 1)
    monkeypatch.setattr("manyclass.choice.mixed.DRAWS_TOGETHER", 7 * 4 * 70)
    threaded = objective_of(state, form, mixed_up, 3).person_scores(theta)
    assert threaded[0] == pytest.approx(likelihoods, rel=1e-13)
    assert threaded[1] == pytest.approx(scores, abs=1e-12)
    assert np.array_equal(objective_of(state, form, sets, 3).person_scores(theta)[1], scores)


def test_predictions_follow_from_probabilities_and_survive_a_file(tmp_path):
    sets = planted_sets(60)
    mixture = RandomCoefficients({"cost": "normal", "time": "-lognormal"}, correlated=True, n_draws=64)
    model = ChoiceClassifier(constants="none", interactions="none", mixture=mixture, random_state=1).fit(sets)
    shares = model.predict_proba(sets)
    assert shares.sum(axis=1) == pytest.approx(1)
    assert np.all(shares[:, :][~np.isfinite(model.utilities(sets))] == 0)
    assert model.log_likelihood(sets) == pytest.approx(model.log_likelihood_)
    effects = model.marginal_effects(sets, "quality")
    assert effects.sum(axis=1) == pytest.approx(0, abs=1e-8)
    assert model.elasticities(sets, "cost", 1)[1] < 0
    changes = model.simulate(sets, sets.changed(cost=lambda cost: 1.2 * cost), "comfort")
    assert np.all(changes["inclusive_value_change"] < 0.5)
    model.save(tmp_path / "mixed.safetensors")
    again = manyclass.load(tmp_path / "mixed.safetensors")
    assert again.coef_names_ == model.coef_names_
    assert again.mixture.get_params() == mixture.get_params()
    assert np.array_equal(again.predict_proba(sets), shares)
    assert str(again.summary()) == str(model.summary())


def test_persons_coefficients_are_nearer_to_their_own_than_to_the_mean():
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(200), 20)
    cost = rng.uniform(0, 3, (4000, 3))
    planted = rng.normal(-1, 1, 200)
    u = planted[who, None] * cost + rng.gumbel(size=cost.shape)
    sets = choice_sets(pairs={"cost": cost}, chosen=np.argmax(u, axis=1), persons=who)
    mixture = RandomCoefficients({"cost": "normal"}, n_draws=200, draws="halton")
    model = ChoiceClassifier(constants="none", mixture=mixture).fit(sets)
    means, deviations = model.person_coefficients(sets)
    assert means.shape == deviations.shape == (200, 1)
    assert np.corrcoef(means[:, 0], planted)[0, 1] > 0.85
    assert np.sqrt(np.mean((means[:, 0] - planted) ** 2)) == pytest.approx(np.sqrt(np.mean(deviations**2)), rel=0.15)


def test_what_draws_leave_is_the_spread_over_seeds_and_auto_has_draws_enough():
    sets = planted_sets(400, 6, seed=6)

    def fit(n_draws, seed):
        mixture = RandomCoefficients({"cost": "normal", "time": "-lognormal"}, n_draws=n_draws)
        return ChoiceClassifier(constants="none", interactions="none", mixture=mixture, random_state=seed).fit(sets)

    models = [fit(32, seed) for seed in range(16)]
    spread = np.std([model.coef_ for model in models], axis=0, ddof=1)
    ratio = spread / np.mean([model.draw_errors_ for model in models], axis=0)
    assert np.all((ratio > 0.4) & (ratio < 1.8))
    auto = fit("auto", 0)
    assert auto._fitted.mixture.n_draws >= 256
    assert np.all(auto.draw_errors_ <= 0.2 * auto.std_errors_ * 1.2)


def test_drawn_alternatives_are_corrected_for():
    sets = planted_sets(800, 4, 12, seed=5)
    mixture = RandomCoefficients({"cost": "normal"}, n_draws=64)
    parameters = {"constants": "none", "interactions": "none", "mixture": mixture, "random_state": 0}
    whole = ChoiceClassifier(**parameters).fit(sets)
    drawn = ChoiceClassifier(**parameters, solver="double_sum", n_negatives=8).fit(sets)
    assert np.all(np.abs(drawn.coef_ - whole.coef_) < 2 * whole.std_errors_)
    assert np.isnan(drawn.log_likelihood_)
    assert drawn.solver_ == "double_sum"
    assert "log-likelihood" not in str(drawn.summary())
    with pytest.raises(ValueError, match="by solver='lbfgs'"):
        whole.likelihood_ratio_test(drawn)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (RandomCoefficients({"price": "normal"}), "'price'; it must be one of 'quality', 'cost', 'time', 'comfort'"),
        (RandomCoefficients({"cost": "gamma"}), "'gamma'; it must be one of 'normal', 'lognormal', '-lognormal'"),
        (RandomCoefficients({"cost": "normal"}, means={"cost": ["age"]}), "'age'; it must be one of 'income'"),
        (RandomCoefficients({"cost": "normal"}, means={"time": ["income"]}), "'time'; it must be one of 'cost'"),
        (RandomCoefficients({"cost": "normal"}, correlated=["time"]), "'time'; it must be one of 'cost'"),
        (RandomCoefficients({"cost": "normal"}, n_draws=0), "n_draws"),
        (RandomCoefficients({"cost": "normal"}, draws="random"), "'random'; it must be one of 'sobol', 'halton'"),
    ],
)
def test_names_and_parameters_that_do_not_exist_are_named(mixture, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        ChoiceClassifier(constants="none", interactions="none", mixture=mixture).fit(planted_sets(5))


def test_what_a_mixture_cannot_be_combined_with_is_refused():
    sets = planted_sets(5)
    signed = RandomCoefficients({"cost": "-lognormal", "time": "normal"}, n_draws=16)
    with pytest.raises(ValueError, match=r"'cost' is 'negative'; it must be .* where no log-normal distribution says"):
        ChoiceClassifier(constants="none", mixture=signed, constraints={"cost": "negative"}).fit(sets)
    ChoiceClassifier(constants="none", mixture=signed, constraints={"time": "negative", "cost": -1.0}).fit(sets)
    mixture = RandomCoefficients({"cost": "normal"}, means={"cost": ["income"]})
    with pytest.raises(TypeError, match="RandomCoefficients"):
        ChoiceClassifier(mixture="normal").fit(sets)
    with pytest.raises(ValueError, match="nests"):
        ChoiceClassifier(mixture=mixture, nests=[0, 0, 1, 1, 1]).fit(sets)
    with pytest.raises(ValueError, match="interactions='none'"):
        ChoiceClassifier(mixture=RandomCoefficients({"quality": "normal"}, means={"quality": ["income"]})).fit(sets)
    differs = sets.changed(income=np.arange(sets.n_rows))
    with pytest.raises(ValueError, match=r"of income has .* in another row of the same person, "):
        ChoiceClassifier(interactions="none", mixture=mixture).fit(differs)


@pytest.mark.parametrize("distribution", ["normal", "lognormal", "-lognormal", "uniform"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "error::RuntimeWarning")
def test_rows_that_one_coefficient_separates_leave_finite_coefficients(distribution, sign):
    x = np.random.default_rng(0).normal(size=(6, 4))
    sets = choice_sets(pairs={"s": x}, chosen=np.argmax(sign * x, axis=1))
    mixture = RandomCoefficients({"s": distribution}, n_draws=8)
    for solver in ("auto", "double_sum"):
        model = ChoiceClassifier(mixture=mixture, solver=solver, n_negatives=2, constants="none", random_state=0)
        assert np.isfinite(model.fit(sets).coef_).all()
