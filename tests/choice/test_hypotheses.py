"""What is known of coefficients and what follows from them: tests, money, tables, changes of columns."""

import numpy as np
import pytest
from choice_twins import world
from test_choice_utilities import trips, wide

from manyclass import ChoiceClassifier
from manyclass.choice import RandomCoefficients
from manyclass.datasets import choice_sets, from_long, from_wide


def test_hausman_compares_what_two_models_share(seed):
    sets, *_ = world(seed, n=400)
    model = ChoiceClassifier(covariance="hessian").fit(sets)
    half = ChoiceClassifier(covariance="hessian").fit(sets.take(np.arange(200)))
    test = model.hausman_test(half)
    gap, spread = half.coef_ - model.coef_, half.covariance_ - model.covariance_
    assert test.statistic == pytest.approx(gap @ np.linalg.solve(spread, gap), rel=1e-6)
    assert test.degrees_of_freedom == len(model.coef_)
    with pytest.raises(ValueError, match="both must be by covariance='hessian'"):
        model.hausman_test(ChoiceClassifier(covariance="robust").fit(sets))


def nested_choices(seed, dissimilarity, n=4000):
    """Red and blue buses share their noise, cars have their own."""
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n, 3))
    top = np.stack([dissimilarity * np.logaddexp(*(S[:, :2] / dissimilarity).T), S[:, 2]], 1)
    bus = rng.gumbel(size=n) + top[:, 0] > rng.gumbel(size=n) + top[:, 1]
    inner = np.argmax(S[:, :2] / dissimilarity + rng.gumbel(size=(n, 2)), axis=1)
    chosen = np.where(bus, inner, 2)
    return choice_sets(
        pairs={"s": S}, alternatives=["red", "blue", "car"], chosen=np.array(["red", "blue", "car"])[chosen]
    )


def test_irrelevant_alternatives_are_independent_in_a_logit_and_not_in_nests(seed):
    model = ChoiceClassifier(covariance="hessian")
    plain, nested = (nested_choices(seed, dissimilarity) for dissimilarity in (1.0, 0.3))
    assert model.fit(plain).iia_test(plain, "car").p_value > 1e-4
    assert model.fit(nested).iia_test(nested, "car").p_value < 1e-6


def test_dissimilarities_are_tested_against_1(seed):
    sets = nested_choices(seed, 0.5)
    model = ChoiceClassifier(nests=["bus", "bus", "car"], covariance="hessian").fit(sets)
    summary = model.summary()
    at = model.coef_names_.index("dissimilarity[bus]")
    assert summary.columns["z"][at] == pytest.approx((model.coef_[at] - 1) / model.std_errors_[at])
    assert summary.columns["z"][0] == pytest.approx(model.coef_[0] / model.std_errors_[0])
    assert "against 1" in str(summary)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # which depends on the seed
def test_one_dissimilarity_for_all_nests_is_a_constraint(seed):
    sets = world(seed, n=400)[0]
    equal = {"dissimilarity[b]": "dissimilarity[a]"}
    model = ChoiceClassifier(nests=[*"aabbb"][: sets.n_alternatives], constraints=equal, covariance="none").fit(sets)
    first, second = (model.coef_[model.coef_names_.index(f"dissimilarity[{nest}]")] for nest in "ab")
    assert first == second


def test_summaries_are_data_frames_and_latex(seed):
    pytest.importorskip("pandas")
    model = ChoiceClassifier().fit(wide(trips(seed)))
    frame = model.summary().to_frame()
    assert frame.loc["b_cost", "estimate"] == model.coef_[model.coef_names_.index("b_cost")]
    pytest.importorskip("jinja2")
    text = model.summary().to_latex(caption="Trips")
    assert r"b\_cost & " in text
    assert r"\caption{Trips}" in text


def test_willingness_to_pay_of_simulated_coefficients_has_the_intervals_of_fieller_in_large_samples(seed):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(20_000, 3, 2))
    chosen = np.argmax(S @ [-1.0, -2.0] + rng.gumbel(size=S.shape[:2]), axis=1)
    sets = choice_sets(pairs={"time": S[..., 0], "cost": S[..., 1]}, chosen=chosen)
    model = ChoiceClassifier(constants="none").fit(sets)
    saved = model.willingness_to_pay("time", "cost", change=-60)
    assert saved["estimate"] == pytest.approx(60 * model.coef_[0] / model.coef_[1])  # positive: time is bad
    drawn = model.willingness_to_pay("time", "cost", change=-60, interval="simulation", random_state=seed)
    # Quantiles of 10,000 draws are right to some hundredths of the standard error.
    for end in ("low", "high"):
        assert abs(drawn[end] - saved[end]) < 0.15 * saved["std_error"]
    assert drawn == model.willingness_to_pay("time", "cost", change=-60, interval="simulation", random_state=seed)
    for interval in ("delta", "simulation"):  # of a model without standard errors
        unknown = ChoiceClassifier(constants="none", covariance="none").fit(sets)
        worth = unknown.willingness_to_pay("time", "cost", interval=interval)
        assert worth["estimate"] == pytest.approx(model.coef_[0] / -model.coef_[1])
        assert np.isnan([worth["std_error"], worth["low"], worth["high"]]).all()
    with pytest.raises(ValueError, match="interval is 'bayes'"):
        model.willingness_to_pay("time", "cost", interval="bayes")


def test_elasticities_follow_what_was_made_of_a_column(seed):
    table = trips(seed)
    sets = wide(table)
    model = ChoiceClassifier().fit(sets)
    for column in ("cost_car", "income"):
        above, below = (
            model.predict_proba(wide({**table, column: table[column] * factor})).sum(axis=0)
            for factor in (1 + 1e-5, 1 - 1e-5)
        )
        expected = (above - below) / 2e-5 / model.predict_proba(sets).sum(axis=0)
        np.testing.assert_allclose(model.elasticities(sets, column), expected, atol=1e-6)
        effects = model.marginal_effects(sets, column)
        up, down = (model.predict_proba(wide({**table, column: table[column] + move})) for move in (1e-5, -1e-5))
        np.testing.assert_allclose(effects, (up - down) / 2e-5, atol=1e-6)
    with pytest.raises(ValueError, match="name no alternative"):
        model.elasticities(sets, "cost_car", "car")
    for alternative in (None, "car"):
        with pytest.raises(ValueError, match="'b_cost' is no column of the table that features follow"):
            model.elasticities(sets, "b_cost", alternative)


def test_elasticities_of_a_formula_are_those_of_a_new_table(seed):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(seed)
    income, cost = np.repeat(rng.uniform(1, 2, 200), 3), rng.uniform(1, 3, 600)
    chosen = np.argmax((-cost - cost / income).reshape(200, 3) + rng.gumbel(size=(200, 3)), axis=1)
    table = pandas.DataFrame(
        {"chooser": np.repeat(np.arange(200), 3), "alternative": np.tile(["a", "b", "c"], 200), "cost": cost}
    ).assign(income=income, chosen=np.arange(600) % 3 == np.repeat(chosen, 3))
    formula = "cost + I(cost / income)"
    sets = from_long(table, formula=formula)
    model = ChoiceClassifier(constants="none").fit(sets)
    shares = [
        model.predict_proba(
            from_long(table.assign(cost=cost * np.where(table["alternative"] == "b", factor, 1)), formula=formula)
        ).sum(axis=0)
        for factor in (1 + 1e-5, 1 - 1e-5, 1)
    ]
    expected = (shares[0] - shares[1]) / 2e-5 / shares[2]
    np.testing.assert_allclose(model.elasticities(sets, "cost", "b"), expected, atol=1e-6)


def test_shares_before_and_after_are_a_table(seed):
    sets = wide(trips(seed))
    model = ChoiceClassifier().fit(sets)
    changes = model.simulate(sets, sets.changed(cost_car=lambda v: 2 * v))
    shares = changes["shares"]
    assert shares["alternative"].tolist() == ["walk", "bus", "car"]
    np.testing.assert_array_equal(shares["before"], changes["share_before"])
    np.testing.assert_allclose(shares["change"], changes["share_after"] - changes["share_before"])


def test_what_varies_among_persons_is_worth_a_median_to_them(seed):
    rng = np.random.default_rng(seed)
    S, person = rng.normal(size=(1200, 3, 2)), np.repeat(np.arange(200), 6)
    dislike = np.exp(0.2 + 0.5 * rng.normal(size=200))[person]
    chosen = np.argmax(-S[..., 0] - dislike[:, None] * S[..., 1] + rng.gumbel(size=(1200, 3)), axis=1)
    sets = choice_sets(pairs={"time": S[..., 0], "cost": S[..., 1]}, chosen=chosen, persons=person)
    mixture = RandomCoefficients({"cost": "-lognormal"}, n_draws=64)
    model = ChoiceClassifier(constants="none", mixture=mixture, random_state=0).fit(sets)
    time, cost, spread = model.coef_
    worth = model.willingness_to_pay("time", "cost", change=-1)
    # The median of exp(-spread * z) over 8,192 Sobol points is right to some thousandths.
    assert worth["estimate"] == pytest.approx(-time / np.exp(cost), rel=0.01)
    assert worth["persons_low"] == pytest.approx(-time / np.exp(cost + 1.96 * abs(spread)), rel=0.05)
    slope = np.array([-1 / np.exp(cost), time / np.exp(cost)])
    error = np.sqrt(slope @ model.covariance_[:2, :2] @ slope)
    assert worth["std_error"] == pytest.approx(error, rel=0.02)
    with pytest.raises(ValueError, match="varies among persons"):
        model.simulate(sets, sets, price="cost")


def test_elasticities_of_wide_formulas_follow_columns_and_no_feature_alone(seed):
    pytest.importorskip("formulaic")
    table, modes = trips(seed), ["bus", "car"]
    table["mode"] = np.where(table["mode"] == "walk", "bus", table["mode"])
    how = {"alternatives": modes, "pairs": {"cost": {mode: f"cost_{mode}" for mode in modes}}, "chosen": "mode"}
    sets = from_wide(table, **how, formula="cost + cost:income")
    model = ChoiceClassifier().fit(sets)
    shares = [
        model.predict_proba(
            from_wide({**table, "cost_car": table["cost_car"] * f}, **how, formula="cost + cost:income")
        )
        for f in (1 + 1e-5, 1 - 1e-5, 1)
    ]
    above, below, middle = (share.sum(axis=0) for share in shares)
    np.testing.assert_allclose(model.elasticities(sets, "cost_car"), (above - below) / 2e-5 / middle, atol=1e-6)
    with pytest.raises(ValueError, match=r"'cost' is no column of the table that features follow; .*'cost_car'"):
        model.elasticities(sets, "cost", "car")  # the feature alone, without cost:income


def test_questions_name_what_is_wrong_with_them(seed):
    sets = wide(trips(seed))
    model = ChoiceClassifier().fit(sets)
    plain = choice_sets(pairs={"cost": np.random.default_rng(seed).normal(size=(9, 3))}, chosen=np.arange(9) % 3)
    fitted = ChoiceClassifier(alpha=1.0).fit(plain)
    for hypotheses in (np.ones((1, 2)), [], np.ones((2, 2, 2))):
        with pytest.raises(
            ValueError, match=r"hypotheses have shape .*; they must be names, or a matrix with 5 columns"
        ):
            model.wald_test(hypotheses)
    with pytest.raises(TypeError, match="change is '-1'; it must be a number"):
        model.willingness_to_pay("b_time", "b_cost", change="-1")
    with pytest.raises(ValueError, match="alternative must be the one whose 'cost' moves"):
        fitted.elasticities(plain, "cost")
    with pytest.raises(ValueError, match="'csot' is no feature that can be changed"):
        fitted.elasticities(plain, "csot", 0)
    with pytest.raises(ValueError, match=r"^alternative has 7, which is none of the alternatives 0, 1, 2"):
        fitted.elasticities(plain, "cost", 7)
    for values in (1.0, [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"the new column has shape .*; it must be \(27,\)"):
            plain.changed(cost=values)
