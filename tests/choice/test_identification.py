"""What data do not tell of coefficients is named, under every kind of standard errors; what they tell is not."""

import warnings

import numpy as np
import pytest
from choice_twins import log_likelihoods
from sklearn.exceptions import ConvergenceWarning

from manyclass import ChoiceClassifier
from manyclass.choice import LatentClasses, RandomCoefficients
from manyclass.choice.fitting import Identification
from manyclass.choice.identification import (
    COVARIANCES,
    identify_by_information,
    invert_information,
)
from manyclass.datasets import choice_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N, K = 300, 4


def features(seed, n=N, k=K, width=2):
    return {f"s{j}": np.random.default_rng([seed, j]).normal(size=(n, k)) for j in range(width)}


def choose(pairs, seed, coefficients=(1.0, -0.5)):
    u = sum(b * values for b, values in zip(coefficients, pairs.values(), strict=False))
    return np.argmax(u + np.random.default_rng([seed, 99]).gumbel(size=u.shape), axis=1)


def separated(seed):
    """A dummy of every chosen alternative of some rows, and of none that was not chosen."""
    pairs = features(seed)
    chosen = choose(pairs, seed)
    dummy = np.zeros((N, K))
    dummy[np.arange(40), chosen[:40]] = 1
    return {"pairs": {**pairs, "dummy": dummy}, "chosen": chosen}, {}, {"dummy": "separation"}


def wholly_separated(seed):
    pairs = features(seed)
    chosen = np.argmax(pairs["s0"] - 0.5 * pairs["s1"], axis=1)
    return {"pairs": pairs, "chosen": chosen}, {}, dict.fromkeys(pairs, "separation")


def two_separated_by_a_sum(seed):
    """Only the sum of two features separates; a third one and its coefficient are known."""
    pairs = features(seed)
    chosen = choose(pairs, seed)
    a = np.random.default_rng([seed, 50]).normal(size=(N, K))
    sums = np.zeros((N, K))
    sums[np.arange(200), chosen[:200]] = 1
    return {"pairs": {**pairs, "a": a, "b": sums - a}, "chosen": chosen}, {}, dict.fromkeys("ab", "separation")


def without_variation(seed):
    pairs = features(seed)
    income = np.repeat(np.random.default_rng(seed).normal(5e4, 1e4, (N, 1)), K, axis=1)
    return {"pairs": {**pairs, "income": income}, "chosen": choose(pairs, seed)}, {}, {"income": "no variation"}


def doubled(seed):
    pairs = features(seed)
    twice = {**pairs, "again": 1e6 * pairs["s0"], "third": features(seed, width=3)["s2"]}
    return {"pairs": twice, "chosen": choose(pairs, seed)}, {}, dict.fromkeys(("s0", "again"), "collinear")


def collinear_by_singles(seed):
    """A sum of two that was rounded to single precision."""
    pairs = features(seed)
    total = (pairs["s0"] + pairs["s1"] + np.random.default_rng(seed).normal(size=(N, 1))).astype(np.float32)
    names = {**pairs, "sum": total.astype(float), "free": features(seed, width=3)["s2"]}
    return {"pairs": names, "chosen": choose(pairs, seed)}, {}, dict.fromkeys(("s0", "s1", "sum"), "collinear")


def constants_beside_features_of_alternatives(seed):
    pairs = features(seed)
    names = ("z", *(f"constant[{k}]" for k in range(1, K)))
    data = {"pairs": pairs, "Z": np.array([[1.0], [2.0], [4.0], [7.0]]), "alternative_names": ["z"]}
    return {**data, "chosen": choose(pairs, seed)}, {"constants": "alternative"}, dict.fromkeys(names, "collinear")


def more_coefficients_than_choices(seed):
    rng = np.random.default_rng(seed)
    data = {"X": rng.normal(size=(30, 53)), "chosen": rng.integers(0, K, 30), "alternatives": range(K)}
    names = ChoiceClassifier(alpha=1.0).fit(choice_sets(**data)).coef_names_
    assert len(names) == 162
    return data, {}, dict.fromkeys(names, "more coefficients than choices")


def never_chosen(seed):
    pairs = features(seed, k=K + 1)
    chosen = choose({name: values[:, :K] for name, values in pairs.items()}, seed)
    causes = {f"constant[{K}]": "never chosen"}
    return {"pairs": pairs, "chosen": chosen, "alternatives": range(K + 1)}, {"constants": "alternative"}, causes


def never_available(seed):
    pairs = features(seed, k=K + 1)
    chosen = choose({name: values[:, :K] for name, values in pairs.items()}, seed)
    available = np.ones((N, K + 1), bool)
    available[:, K] = False
    data = {"pairs": pairs, "available": available, "chosen": chosen, "alternatives": range(K + 1)}
    return data, {"constants": "alternative"}, {f"constant[{K}]": "never available"}


def bound_by_a_constraint(seed):
    pairs = features(seed)
    return (
        {"pairs": pairs, "chosen": choose(pairs, seed)},
        {"constraints": {"s1": "positive"}},
        {"s1": "at its bound 0"},
    )


def nest_of_all(seed):
    pairs = features(seed)
    causes = {"dissimilarity[all]": "nest of all alternatives"}
    return {"pairs": pairs, "chosen": choose(pairs, seed)}, {"nests": ["all"] * K}, causes


def nest_of_alternatives_that_are_not_together(seed):
    """Each row has one alternative of the nest."""
    pairs = features(seed)
    available = np.ones((N, K), bool)
    available[np.arange(N), np.arange(N) % 2] = False
    u = np.where(available, pairs["s0"] - 0.5 * pairs["s1"], -np.inf)
    chosen = np.argmax(u + np.random.default_rng([seed, 99]).gumbel(size=u.shape), axis=1)
    data = {"pairs": pairs, "available": available, "chosen": chosen}
    return data, {"nests": [*"aabc"]}, {"dissimilarity[a]": "no two alternatives together"}


def dissimilarity_of_one(seed):
    """Alternatives of a nest that are less alike than independent ones."""
    pairs = features(seed, n=1000)
    nests, logs = np.array([0, 0, 1, 2]), np.empty((1000, K))
    for k in range(K):
        logs[:, k] = log_likelihoods(pairs["s0"], np.full(1000, k), "nested", nests, [2.0, 1.0, 1.0])
    chosen = np.argmax(logs + np.random.default_rng(seed).gumbel(size=logs.shape), axis=1)
    return {"pairs": pairs, "chosen": chosen}, {"nests": [*"aabc"]}, {"dissimilarity[a]": "at its bound 1"}


def dissimilarity_of_none(seed):
    """Alternatives of a nest that have one and the same noise."""
    pairs = features(seed, n=1000)
    noise = np.random.default_rng(seed).gumbel(size=(1000, K))
    noise[:, 1] = noise[:, 0]
    chosen = np.argmax(pairs["s0"] + noise, axis=1)
    return {"pairs": pairs, "chosen": chosen}, {"nests": [*"aabc"]}, {"dissimilarity[a]": "at its bound 0.05"}


CASES = [
    separated,
    wholly_separated,
    two_separated_by_a_sum,
    without_variation,
    doubled,
    collinear_by_singles,
    constants_beside_features_of_alternatives,
    more_coefficients_than_choices,
    never_chosen,
    never_available,
    bound_by_a_constraint,
    nest_of_all,
    nest_of_alternatives_that_are_not_together,
    dissimilarity_of_one,
    dissimilarity_of_none,
]
WITHOUT_MAXIMUM = (
    separated,
    wholly_separated,
    two_separated_by_a_sum,
    more_coefficients_than_choices,
    never_chosen,
)
BOUND = (  # which no ridge decides
    bound_by_a_constraint,
    nest_of_all,
    nest_of_alternatives_that_are_not_together,
    dissimilarity_of_one,
    dissimilarity_of_none,
)


def kinds_of_causes(model):
    causes = {name: cause.split(":")[0] for name, cause in model.unidentified_.items()}
    return {name: cause for name, cause in causes.items() if cause != "nest of one alternative"}


def n_free(model, case):
    """Coefficients, less one for each direction that is open, for each bound and each that is fixed."""
    singles = sum(cause == "nest of one alternative" for cause in model.unidentified_.values())
    return len(model.coef_) - singles - {wholly_separated: 2, more_coefficients_than_choices: 162}.get(case, 1)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("case", CASES)
def test_what_data_do_not_tell_is_named(seed, case, covariance):
    data, parameters, causes = case(seed)
    persons = np.arange(len(data["chosen"])) // 2
    sets = choice_sets(**data, persons=persons if covariance == "clustered" else None)
    parameters = {"constants": "none", **parameters}
    if "X" in data:
        parameters.pop("constants")
    with pytest.warns(ConvergenceWarning) as caught:
        model = ChoiceClassifier(**parameters, covariance=covariance).fit(sets)
    (warning,) = (str(record.message) for record in caught)
    assert caught[0].filename == __file__
    assert kinds_of_causes(model) == causes
    for name, cause in [*causes.items()][:5]:
        assert repr(name) in warning
        assert cause in warning
    named = np.isin(model.coef_names_, [*causes])
    if covariance == "none":
        assert np.isnan(model.std_errors_).all()
    else:
        np.testing.assert_array_equal(np.isnan(model.std_errors_), named)
    assert model.converged_ == (case not in WITHOUT_MAXIMUM)
    summary = model.summary()
    assert [*summary.columns["cause"]] == [model.unidentified_.get(name, "") for name in model.coef_names_]
    lines = str(summary).splitlines()[-len(named) :]
    for name, cause in causes.items():
        assert cause in lines[model.coef_names_.index(name)]
    assert summary.facts["free coefficients"] == n_free(model, case)


@pytest.mark.parametrize("covariance", ["none", "hessian", "robust"])
@pytest.mark.parametrize("case", [case for case in CASES if case not in BOUND])
def test_a_ridge_decides_what_data_do_not_tell_and_the_summary_says_so(seed, case, covariance):
    data, parameters, causes = case(seed)
    sets = choice_sets(**data)
    parameters = {"constants": "none", **parameters} if "X" not in data else parameters
    alpha = dict.fromkeys(("alternatives", "pairs", "interactions", "constants"), 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ChoiceClassifier(**parameters, alpha=alpha, covariance=covariance).fit(sets)
    assert {name: cause.split(";")[0].split(":")[0] for name, cause in model.unidentified_.items()} == causes
    assert all(cause.endswith("; alpha decides") for cause in model.unidentified_.values())
    assert "alpha decides" in str(model.summary())
    assert model.converged_
    if covariance != "none":
        assert np.isfinite(model.std_errors_).all()


def test_errors_and_counts_of_the_others_are_those_of_the_model_without(seed):
    """Of a doubled column, one that does not vary and a separating dummy, at once."""
    data, _, _ = separated(seed)
    pairs = data["pairs"]
    whole = {"pairs": {**pairs, "again": pairs["s0"] / 3, "same": np.ones((N, K))}, "chosen": data["chosen"]}
    model = ChoiceClassifier(constants="none", covariance="robust").fit(choice_sets(**whole))
    assert kinds_of_causes(model) == {
        "s0": "collinear",
        "again": "collinear",
        "same": "no variation",
        "dummy": "separation",
    }
    # Rows that the dummy decides tell nothing of the others.
    kept = choice_sets(**{"pairs": {name: pairs[name][40:] for name in ("s0", "s1")}, "chosen": data["chosen"][40:]})
    smaller = ChoiceClassifier(constants="none", covariance="robust").fit(kept)
    assert model.coef_[1] == pytest.approx(smaller.coef_[1], abs=1e-4)
    assert model.std_errors_[1] == pytest.approx(smaller.std_errors_[1], rel=1e-3)
    assert model.summary().facts["free coefficients"] == 2
    assert model.summary().facts["AIC"] == pytest.approx(smaller.summary().facts["AIC"], abs=1e-4)
    assert model.wald_test(["s1"]).statistic == pytest.approx(smaller.wald_test(["s1"]).statistic, rel=1e-3)
    with pytest.raises(ValueError, match="without a standard error"):
        model.wald_test(["s0"])
    null = ChoiceClassifier(constants="none", constraints=dict.fromkeys(("s0", "again"), 0.0)).fit(choice_sets(**whole))
    assert model.likelihood_ratio_test(null).degrees_of_freedom == 1
    assert np.isnan(model.willingness_to_pay("s1", "s0")["std_error"])


def test_a_ridge_on_one_part_decides_that_part_alone(seed):
    data, parameters, _ = never_chosen(seed)
    data["pairs"]["same"] = np.ones((N, K + 1))
    model = ChoiceClassifier(**parameters, alpha=0.01, covariance="hessian")  # constants have none
    with pytest.warns(ConvergenceWarning, match=rf"1 of 7 .*'constant\[{K}\]' \(never chosen\)"):
        model.fit(choice_sets(**data))
    assert model.unidentified_ == {"same": "no variation; alpha decides", f"constant[{K}]": "never chosen"}
    np.testing.assert_array_equal(np.isnan(model.std_errors_), np.isin(model.coef_names_, [f"constant[{K}]"]))


def test_causes_come_back_from_a_file(seed, tmp_path):
    data, parameters, _ = doubled(seed)
    model = ChoiceClassifier(constants="none", **parameters).fit(choice_sets(**data))
    model.save(tmp_path / "model")
    again = ChoiceClassifier.load(tmp_path / "model")
    assert again.unidentified_ == model.unidentified_
    assert str(again.summary()) == str(model.summary())


def test_equal_coefficients_are_named_together(seed):
    data, _, _ = doubled(seed)
    model = ChoiceClassifier(constants="none", covariance="hessian", constraints={"third": "s1", "again": "s0"})
    model.fit(choice_sets(**data))
    assert model.unidentified_ == {}
    assert model.std_errors_[0] == model.std_errors_[2]
    assert model.covariance_[1, 3] == pytest.approx(model.std_errors_[1] ** 2, rel=1e-15)
    data["pairs"]["more"] = data["pairs"]["s1"] + data["pairs"]["third"]
    again = ChoiceClassifier(constants="none", constraints={"third": "s1", "again": 0.0}).fit(choice_sets(**data))
    assert kinds_of_causes(again) == dict.fromkeys(("s1", "third", "more"), "collinear")
    assert again.summary().facts["free coefficients"] == 2


def test_a_sign_takes_a_separation_away(seed):
    data, _, causes = separated(seed)
    sets = choice_sets(**data)
    kept = ChoiceClassifier(constants="none", constraints={"dummy": "positive"}).fit(sets)
    assert kinds_of_causes(kept) == causes
    turned = ChoiceClassifier(constants="none", constraints={"dummy": "negative"}).fit(sets)
    assert kinds_of_causes(turned) == {"dummy": "at its bound 0"}
    assert turned.converged_


@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_other_noise_has_the_same_directions(seed, noise):
    data, _, causes = separated(seed)
    model = ChoiceClassifier(constants="none", noise=noise).fit(choice_sets(**data))
    assert kinds_of_causes(model) == causes


def world(rng):
    """A good problem of any shape."""
    n, k = int(rng.integers(60, 500)), int(rng.integers(2, 9))
    parts = {"pairs": {}, "chosen": None}
    u = rng.gumbel(size=(n, k))
    for j in range(rng.integers(1, 5)):
        values = rng.normal(size=(n, k)) if rng.random() < 0.6 else (rng.random((n, k)) < 0.3).astype(float)
        u += rng.normal(0, 0.7) * values
        parts["pairs"][f"s{j}"] = values * 10.0 ** rng.integers(-6, 7) + rng.normal(0, 100) * (rng.random() < 0.2)
    if rng.random() < 0.4:
        parts["X"] = rng.normal(size=(n, 2)) * [1, 1e5]
    mask = rng.random((n, k)) < (0.7 if rng.random() < 0.5 else 2)
    mask[:, 0] |= ~mask.any(axis=1)
    parts |= {"available": mask, "chosen": np.argmax(np.where(mask, u, -np.inf), axis=1), "alternatives": range(k)}
    if rng.random() < 0.3:
        parts["sample_weight"] = rng.integers(0, 4, n) + (np.arange(n) == 0)
    return parts


def test_good_problems_raise_no_alarm(seed):
    """No alarm on problems whose maximum a linear programme does not refute: each coefficient is of a few errors."""
    n_quiet = 0
    for number in range(60):
        rng = np.random.default_rng([seed, number])
        data = world(rng)
        counts = np.bincount(data["chosen"], data.get("sample_weight"), minlength=len(data["alternatives"]))
        constants = "alternative" if counts.min() > 5 and rng.random() < 0.5 else "none"
        interactions = "auto" if counts.min() > 5 else "none"
        model = ChoiceClassifier(constants=constants, interactions=interactions, covariance="hessian")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(choice_sets(**data))
        assert model.unidentified_ == {}
        assert np.isfinite(model.std_errors_).all()
        n_quiet += 1
    assert n_quiet == 60


@pytest.mark.parametrize("n_alternatives", [8, 200])
def test_many_rows_are_looked_at_where_few_leave_something_open(seed, monkeypatch, n_alternatives):
    """A rare dummy, known by all rows and not by those drawn; and one that is never known."""
    monkeypatch.setattr("manyclass.choice.identification.MOST_NUMBERS", 1 << 10)
    rng = np.random.default_rng(seed)
    n = 3000
    pairs = {name: rng.normal(size=(n, n_alternatives)) for name in ("a", "b")}
    for name, rows in (("rare", [100, 2500]), ("open", [70, 1500])):
        pairs[name] = np.zeros((n, n_alternatives))
        pairs[name][rows, 1] = 1
    chosen = np.argmax(pairs["a"] + rng.gumbel(size=(n, n_alternatives)), axis=1)
    chosen[[100, 70, 1500]], chosen[2500] = 1, 0
    sets = choice_sets(pairs=pairs, chosen=chosen, alternatives=range(n_alternatives))
    model = ChoiceClassifier(constants="none", covariance="none").fit(sets)
    assert model.unidentified_ == {"open": "separation"}
    assert not model.converged_
    constants = ChoiceClassifier(constants="alternative", covariance="none").fit(sets)
    never = sorted(set(range(1, n_alternatives)) - set(chosen.tolist()))
    assert constants.unidentified_ == {"open": "separation"} | {f"constant[{k}]": "never chosen" for k in never}


def test_more_constants_than_second_derivatives_are_known_of_are_fitted(seed):
    """Of 400 constants it is still said which alternatives no row chose."""
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([np.arange(399), rng.integers(0, 399, 1)])
    sets = choice_sets(pairs={"s": rng.normal(size=(400, 400))}, chosen=chosen, alternatives=range(400))
    model = ChoiceClassifier(constants="alternative").fit(sets)
    assert model.unidentified_ == {"constant[399]": "never chosen"}


def test_separation_is_named_in_samples_of_any_size_and_at_any_end_of_the_fit(seed):
    """Also where the fit ended so far that second derivatives and gradients are rounding."""
    for number in range(60):
        rng = np.random.default_rng([seed, number])
        n = int(rng.integers(8, 80))
        dummy = np.arange(n) < rng.integers(2, 5)
        chosen = np.where(dummy, 1, rng.integers(0, 2, n))
        sets = choice_sets(X=np.stack([dummy, rng.normal(size=n)], axis=1), chosen=chosen, alternatives=range(2))
        model = ChoiceClassifier(covariance="none", tol=10.0 ** -rng.integers(6, 16), max_iter=1000).fit(sets)
        assert model.unidentified_["x0:1"] == "separation"


def test_information_alone_names_its_flat_directions(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(50, 4)) * [1e-6, 1.0, 1e6, 1.0]
    A[:, 3] = A[:, 1] + 1e-6 * A[:, 2]
    names = [*"abcd"]
    known, root = identify_by_information(A.T @ A, Identification(names, np.eye(4)))
    assert [*known.causes] == ["b", "c", "d"]
    assert known.n == 3
    assert root.shape == (4, 3)
    matrix, known = invert_information(A.T @ A, A.T @ A, Identification(names, np.eye(4)))
    expected = np.linalg.inv(A[:, :3].T @ A[:, :3])[0, 0]
    assert matrix[0, 0] == pytest.approx(expected)
    np.testing.assert_array_equal(np.isnan(np.diag(matrix)), [False, True, True, True])


# Mixtures


def of_persons(data, n_tasks=6):
    """Cases with a person for some rows, and pairs alone."""
    return choice_sets(**data, persons=np.arange(N) // n_tasks)


@pytest.mark.parametrize("covariance", ["none", "hessian", "robust", "clustered"])
@pytest.mark.parametrize("case", [separated, without_variation, doubled, never_chosen, never_available])
def test_what_data_do_not_tell_is_named_in_every_class(seed, case, covariance):
    data, parameters, causes = case(seed)
    mixture = LatentClasses(2, n_starts=2)
    model = ChoiceClassifier(
        **{"constants": "none", **parameters}, mixture=mixture, covariance=covariance, random_state=seed
    )
    with pytest.warns(ConvergenceWarning, match=next(iter(causes.values()))):
        model.fit(of_persons(data))
    named = {name: cause for name, cause in kinds_of_causes(model).items() if cause != "flat"}
    assert {f"{name}[{c}]": cause for name, cause in causes.items() for c in (1, 2)}.items() <= named.items()
    assert not (model.converged_ and case in WITHOUT_MAXIMUM)
    assert np.isnan(model.std_errors_[np.isin(model.coef_names_, [*named])]).all()


@pytest.mark.parametrize("covariance", ["none", "hessian", "robust"])
def test_a_class_that_its_choices_separate_has_no_maximum(seed, covariance):
    """One class takes the cheapest alternative, always."""
    pairs = features(seed)
    always = np.arange(N)[:, None] < 120
    chosen = np.argmax(
        np.where(always, 1e3, 0.1) * pairs["s0"] + np.random.default_rng(seed).gumbel(size=(N, K)), axis=1
    )
    sets = of_persons({"pairs": pairs, "chosen": chosen})
    model = ChoiceClassifier(
        constants="none", mixture=LatentClasses(2, n_starts=3), covariance=covariance, random_state=seed
    )
    with pytest.warns(ConvergenceWarning, match="flat"):
        model.fit(sets)
    assert "flat" in model.unidentified_.values()
    assert not model.converged_
    assert model.summary().facts["free coefficients"] < len(model.coef_)


@pytest.mark.parametrize("covariance", ["none", "hessian", "robust"])
def test_an_exponential_of_the_wrong_sign_ends_at_0(seed, covariance):
    pairs = features(seed)
    sets = of_persons({"pairs": pairs, "chosen": choose(pairs, seed)})
    mixture = RandomCoefficients({"s0": "-lognormal", "s1": "normal"}, correlated=True, n_draws=64)
    model = ChoiceClassifier(constants="none", mixture=mixture, covariance=covariance, random_state=seed)
    with pytest.warns(ConvergenceWarning, match=r"at its bound 0|flat"):
        model.fit(sets)
    assert model.unidentified_.keys() == {"s0", "chol[s0,s0]"}  # flat where it is 0 for some, and infinite for others
    assert {*model.unidentified_.values()} <= {"at its bound 0", "flat"}
    assert not model.converged_
    assert model.summary().facts["free coefficients"] == 3
    if covariance != "none":
        assert np.isnan(model.std_errors_[[0, 2]]).all()
        assert np.isfinite(model.std_errors_[[1, 4]]).all()


def test_few_persons_are_told_of():
    pairs = features(0)
    sets = choice_sets(pairs=pairs, chosen=choose(pairs, 0), persons=np.arange(N) % 3)
    with pytest.warns(UserWarning, match="standard errors by 3 persons, for 5 coefficients, are too small"):
        ChoiceClassifier().fit(sets)


def test_factors_of_a_low_rank_count_as_the_matrix_that_they_make(seed):
    """A matrix of rank r of m x n has r (m + n - r) free numbers."""
    rng = np.random.default_rng(seed)
    data = {"X": rng.normal(size=(N, 3)), "Z": rng.normal(size=(30, 4)), "chosen": rng.integers(0, 30, N)}
    for rank, n in ((1, 6), (2, 10), (3, 12)):
        model = ChoiceClassifier(interactions=rank, random_state=0).fit(choice_sets(**data))
        assert model.summary().facts["free coefficients"] == 4 + n
