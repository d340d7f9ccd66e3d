"""Latent classes against the definition of their likelihood, planted classes, and the estimator."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from choice_twins import K, log_likelihoods, numerical, world
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold

import manyclass
from manyclass import ChoiceClassifier
from manyclass.choice import LatentClasses, compare_classes, find_memberships, predict_known
from manyclass.choice.fitting import ChoiceForm, ChoiceObjective
from manyclass.choice.latent import LatentObjective, LatentState
from manyclass.datasets import choice_sets


def softmax(utilities):
    return np.exp(utilities - np.logaddexp.reduce(utilities, axis=-1)[..., None])


def of_persons(sets, seed=0):
    """The data with weights and a feature of choosers that a person has throughout."""
    rng = np.random.default_rng(seed)
    n_persons = sets.persons.max() + 1
    X = sets.X.copy()
    X[:, 1] = rng.normal(size=n_persons)[sets.persons]
    return replace(sets, X=X, sample_weight=rng.uniform(0.5, 2, n_persons)[sets.persons])


@pytest.fixture(scope="module")
def planted():
    """Two classes of 240 persons by income, and the class of each."""
    rng = np.random.default_rng(5)
    n_persons, n_tasks = 240, 8
    person = np.repeat(np.arange(n_persons), n_tasks)
    income = rng.normal(size=n_persons)
    second = rng.random(n_persons) < 1 / (1 + np.exp(0.8 - income))
    cost, time = rng.uniform(0, 3, (2, len(person), 3))
    tastes = np.where(second[:, None], [-0.3, -3.0], [-1.0, -0.5])[person]
    utilities = tastes[:, :1] * cost + tastes[:, 1:] * time
    sets = choice_sets(
        X=income[person][:, None],
        chooser_names=["income"],
        pairs={"cost": cost, "time": time},
        chosen=np.argmax(utilities + rng.gumbel(size=utilities.shape), axis=1),
        persons=person,
    )
    return sets, second


def estimator(mixture, **options):
    return ChoiceClassifier(constants="none", interactions="none", mixture=mixture, random_state=0, **options)


@pytest.fixture(scope="module")
def fitted(planted):
    return estimator(LatentClasses(2, ["income"], n_starts=4)).fit(planted[0])


# The likelihood


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_loss_and_its_gradient_are_those_of_the_definition(seed, n_classes):
    sets, utilities, _, chosen, _, _ = world(seed)
    sets = of_persons(sets, seed)
    rng = np.random.default_rng(seed)
    names = sets.chooser_names, sets.alternative_names, sets.pair_names
    form = ChoiceForm("gumbel", *names, K)
    ridge = rng.uniform(0, 1, form.n)
    state = LatentState(form, n_classes, (sets.chooser_names[1],), ())
    theta = rng.normal(size=len(state.names))
    _, first = np.unique(sets.persons, return_index=True)

    def by_definition(theta):
        n = n_classes * form.n
        membership = np.vstack([np.zeros((1, 2)), theta[n:].reshape(-1, 2)])
        value = 0.0
        for person, row in enumerate(first):
            shares = softmax(membership @ [1.0, sets.X[row, 1]])
            likelihood = 0.0
            for share, beta in zip(shares, theta[:n].reshape(n_classes, -1), strict=True):
                logs = log_likelihoods(utilities(beta[:2], beta[2:], np.zeros((2, 2))), chosen)
                likelihood += share * np.exp(logs[sets.persons == person].sum())
            value -= sets.sample_weight[row] * np.log(likelihood)
        return value / sets.sample_weight.sum() + 0.5 * np.tile(ridge, n_classes) @ theta[:n] ** 2

    # world's utilities have W by X; here W is 0, so that X may be another one
    objective = LatentObjective(state, ChoiceObjective(form, sets, ridge, 1))
    value, gradient = objective(theta)
    assert value == pytest.approx(by_definition(theta), abs=1e-12)
    np.testing.assert_allclose(gradient, numerical(by_definition, theta), atol=3e-9)
    ridges = np.concatenate([np.tile(ridge, n_classes) * theta[: n_classes * form.n], np.zeros(2 * (n_classes - 1))])
    np.testing.assert_allclose(objective.weights @ objective.scores(theta) + ridges, gradient, atol=1e-13)
    again = LatentObjective(state, ChoiceObjective(form, sets, ridge, 3))(theta)
    assert again[0] == value
    assert again[1].tolist() == gradient.tolist()


@pytest.mark.filterwarnings("ignore:.*membership:sklearn.exceptions.ConvergenceWarning")  # two of three are one
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_em_never_decreases_the_likelihood(planted, capsys, alpha):
    mixture = LatentClasses(3, ["income"], n_starts=1, max_iter=30, tol=0)
    model = estimator(mixture, alpha=alpha, covariance="none").fit(planted[0])
    assert np.diff(model.loss_curve_).max() < 1e-13
    assert len(model.loss_curve_) > 30
    assert model.converged_ == (not any("membership" in name for name in model.unidentified_))


def test_one_class_is_the_plain_model(planted):
    sets = planted[0]
    plain, model = (estimator(mixture, covariance="robust").fit(sets) for mixture in (None, LatentClasses(1)))
    assert model.coef_names_ == ["cost[1]", "time[1]"]
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-8)
    np.testing.assert_allclose(model.predict_proba(sets), plain.predict_proba(sets), atol=1e-7)
    clustered, by_person = (
        estimator(mixture, covariance=kind).fit(sets).std_errors_
        for mixture, kind in ((None, "clustered"), (LatentClasses(1), "auto"))
    )
    np.testing.assert_allclose(by_person, clustered, rtol=1e-5)
    np.testing.assert_allclose(model.std_errors_, clustered, rtol=1e-5)
    hessian = [estimator(mixture, covariance="hessian").fit(sets).std_errors_ for mixture in (None, LatentClasses(1))]
    np.testing.assert_allclose(*hessian, rtol=1e-5)


# The fit


def test_planted_classes_are_found_again(planted, fitted):
    sets, second = planted
    assert fitted.coef_names_ == [
        *("cost[1]", "time[1]", "cost[2]", "time[2]"),
        *("membership constant[2]", "membership income[2]"),
    ]
    truth = [-1.0, -0.5, -0.3, -3.0, -0.8, 1.0]
    assert np.all(np.abs(fitted.coef_ - truth) < 3 * fitted.std_errors_)
    assert fitted.converged_
    memberships = find_memberships(fitted, sets)
    assert np.mean((memberships.posterior[:, 1] > 0.5) == second) > 0.9
    # At the maximum, memberships by features and by choices have the same means (Greene and Hensher 2003, 3).
    np.testing.assert_allclose(memberships.posterior.mean(axis=0), memberships.prior.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(memberships.posterior.mean(axis=0), fitted._fitted.mixture.shares, atol=1e-12)
    assert "latent classes of" in str(fitted.summary())
    assert fitted.log_likelihood(sets) == pytest.approx(fitted.log_likelihood_, abs=1e-9)


def test_classes_stand_in_the_order_of_their_shares_whatever_the_start(planted, fitted):
    sets = planted[0]
    assert fitted._fitted.mixture.shares[0] > fitted._fitted.mixture.shares[1]
    for seed in (1, 2):
        again = clone(fitted).set_params(random_state=seed, mixture__n_starts=2).fit(sets)
        np.testing.assert_allclose(again.coef_, fitted.coef_, atol=1e-5)


def test_results_do_not_depend_on_threads(planted, fitted):
    again = clone(fitted).set_params(n_jobs=3).fit(planted[0])
    assert again.coef_.tolist() == fitted.coef_.tolist()
    assert again.covariance_.tolist() == fitted.covariance_.tolist()


def test_weights_of_persons_are_persons_who_stand_there_twice(planted, fitted):
    sets = planted[0].take(np.arange(400))
    twice = np.arange(400) < 160
    weighted = replace(sets, sample_weight=1.0 + twice)
    repeated = sets.take(np.concatenate([np.arange(400), np.arange(160)]))
    repeated = replace(repeated, persons=np.concatenate([sets.persons, 1000 + sets.persons[:160]]))
    models = [clone(fitted).set_params(covariance="hessian").fit(data) for data in (weighted, repeated)]
    assert models[0].log_likelihood_ == pytest.approx(models[1].log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(models[0].std_errors_, models[1].std_errors_, rtol=1e-3)


def test_constraints_hold_in_every_class(planted):
    sets = planted[0]
    model = estimator(LatentClasses(2, n_starts=2), constraints={"cost": -1.0, "time": "negative"}).fit(sets)
    assert model.coef_[[0, 2]].tolist() == [-1.0, -1.0]
    assert np.all(model.coef_[[1, 3]] < 0)
    assert model.std_errors_[[0, 2]].tolist() == [0, 0]
    assert model._fitted.n_free == 3
    with pytest.warns(ConvergenceWarning, match="at its bound"):
        model = estimator(LatentClasses(2, n_starts=2), constraints={"time": "positive"}).fit(sets)
    assert np.isnan(model.std_errors_).tolist() == [False, True, False, True, False]
    assert model.converged_


def test_coefficients_that_the_data_do_not_tell_are_named(planted):
    sets = planted[0]
    features = np.stack([sets.lists.features[:, 0], np.full(len(sets.lists.features), 2.0)], axis=1)
    sets = replace(sets, lists=replace(sets.lists, features=features))
    with pytest.warns(ConvergenceWarning, match=r"time\[1\]"):
        model = estimator(LatentClasses(2, n_starts=2)).fit(sets)
    assert np.isnan(model.std_errors_).tolist() == [False, True, False, True, False]
    assert np.all(model.std_errors_[[0, 2, 4]] > 0)
    assert model._fitted.n_free == 3
    assert model.unidentified_ == dict.fromkeys(("time[1]", "time[2]"), "no variation")


def test_the_number_of_classes_shows_in_criteria(planted):
    sets = planted[0]
    table = compare_classes(estimator(LatentClasses(n_starts=3)), sets, np.arange(1, 4))
    assert table["n_classes"] == [1, 2, 3]
    assert table["n_free"] == [2, 5, 8]
    assert np.argmin(table["BIC"]) == np.argmin(table["CAIC"]) == 1
    assert np.all(np.diff(table["log_likelihood"]) > -1e-6)
    assert table["entropy"][0] == 1
    assert 0.5 < table["entropy"][1] < 1
    model = estimator(LatentClasses(2, n_starts=3)).fit(sets)
    assert table["BIC"][1] == pytest.approx(model.summary().facts["BIC"])


# Answers


def test_predictions_mix_the_classes(planted, fitted):
    sets = planted[0]
    theta, features = fitted.coef_, sets.lists.features.reshape(sets.n_rows, 3, 2)
    classes = softmax(np.stack([features @ theta[:2], features @ theta[2:4]]))
    second = 1 / (1 + np.exp(-theta[4] - theta[5] * sets.X[:, 0]))
    expected = (1 - second)[:, None] * classes[0] + second[:, None] * classes[1]
    probabilities = fitted.predict_proba(sets)
    np.testing.assert_allclose(probabilities, expected, atol=1e-13)
    assert fitted.predict(sets).tolist() == np.argmax(expected, axis=1).tolist()
    assert fitted.inclusive_values(sets).shape == (sets.n_rows,)
    assert np.isfinite(fitted.elasticities(sets, "cost", 1)).all()
    share = fitted.simulate(sets, sets.without([2]))["share_after"]
    assert share[2] == 0
    assert share.sum() == pytest.approx(1)


def test_choices_of_a_person_tell_of_the_next_ones(planted, fitted):
    sets = planted[0]
    past = np.arange(sets.n_rows) % 8 < 5
    history, future = sets.take(past), sets.take(~past)
    known = predict_known(fitted, history, future)
    np.testing.assert_allclose(known.sum(axis=1), 1)
    rows = np.arange(future.n_rows)
    gain = np.log(known[rows, future.chosen]) - np.log(fitted.predict_proba(future)[rows, future.chosen])
    assert gain.mean() > 0.05
    with pytest.raises(ValueError, match="without a history"):
        predict_known(fitted, history.take(history.persons > 3), future)
    with pytest.raises(ValueError, match="must be fitted with LatentClasses"):
        find_memberships(estimator(None).fit(sets), sets)


def test_a_function_of_pairs_is_the_same_model(planted, fitted):
    sets = planted[0]
    table = sets.lists.features.reshape(sets.n_rows, 3, 2)
    by_function = choice_sets(
        X=sets.X,
        chooser_names=sets.chooser_names,
        alternatives=np.arange(3),
        pairs=lambda rows, alternatives: table[rows, alternatives],
        pair_names=["cost", "time"],
        chosen=sets.chosen,
        persons=sets.persons,
    )
    np.testing.assert_allclose(clone(fitted).fit(by_function).coef_, fitted.coef_, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(by_function), fitted.predict_proba(sets), atol=1e-13)


def test_a_saved_model_answers_as_before(planted, fitted, tmp_path):
    sets = planted[0]
    fitted.save(tmp_path / "m.safetensors")
    model = manyclass.load(tmp_path / "m.safetensors")
    assert model.coef_names_ == fitted.coef_names_
    assert model.mixture.get_params() == fitted.mixture.get_params()
    assert model.predict_proba(sets).tolist() == fitted.predict_proba(sets).tolist()
    assert str(model.summary()) == str(fitted.summary())
    assert find_memberships(model, sets).posterior.tolist() == find_memberships(fitted, sets).posterior.tolist()


def test_persons_are_held_out_whole(planted):
    sets = planted[0]
    folds = GroupKFold(3).split(np.zeros(sets.n_rows), groups=sets.persons)
    scores = []
    for train, test in folds:
        model = estimator(LatentClasses(2, n_starts=2), covariance="none").fit(sets.take(train))
        scores.append(model.log_likelihood(sets.take(test)))
    plain = estimator(None).fit(sets).log_likelihood_
    assert sum(scores) > plain


# What is refused


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_classes": 0}, ValueError, "n_classes"),
        ({"n_classes": 2.5}, TypeError, "n_classes"),
        ({"n_starts": 0}, ValueError, "n_starts"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"tol": -1}, ValueError, "tol"),
        ({"membership": ["age"]}, ValueError, "a feature of membership is 'age'; it must be one of 'income'"),
        ({"n_classes": 500}, ValueError, "n_classes is 500; the data have 240 persons"),
    ],
)
def test_parameters_that_are_not_allowed_are_named(planted, parameters, error, message):
    with pytest.raises(error, match=message):
        estimator(LatentClasses(**parameters)).fit(planted[0])


def test_data_that_do_not_fit_are_named(planted):
    sets = planted[0]
    X = sets.X.copy()
    X[3] += 1
    with pytest.raises(ValueError, match=r"row 3 of income has .* in another row of the same person, "):
        estimator(LatentClasses(2, ["income"])).fit(replace(sets, X=X))
    weight = np.ones(sets.n_rows)
    weight[9] = 2
    with pytest.raises(ValueError, match=r"row 9 of the weight has 2\.0, and 1\.0 in another row of the same person"):
        estimator(LatentClasses(2)).fit(replace(sets, sample_weight=weight))
    with pytest.raises(ValueError, match="solver is 'double_sum'"):
        estimator(LatentClasses(2), solver="double_sum").fit(sets)
    with pytest.raises(ValueError, match="the data have no persons"):
        estimator(LatentClasses(2), covariance="clustered").fit(replace(sets, persons=None))


def test_rows_without_persons_are_persons(planted):
    sets = replace(planted[0].take(np.arange(300)), persons=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(LatentClasses(2, n_starts=2)).fit(sets)
    assert model._fitted.covariance.kind == "hessian"
    by_row = replace(sets, persons=np.arange(300))
    assert model.log_likelihood(sets) == pytest.approx(model.log_likelihood(by_row), abs=1e-9)
