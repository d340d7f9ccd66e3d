"""Choice models against their definitions and a general optimiser; the estimator."""

import copy
import json
import re
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from choice_twins import NOISES, K, N, log_likelihoods, numerical, split, world
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import manyclass
from manyclass import ChoiceClassifier, SoftmaxClassifier
from manyclass.choice import LatentClasses, RandomCoefficients
from manyclass.choice.fitting import ChoiceForm, ChoiceObjective, find_free_coefficients
from manyclass.classifiers.saving import load_classifier
from manyclass.datasets import choice_sets
from manyclass.weights.tensor_file import open_tensors

# The objective


@pytest.mark.parametrize("model", [*NOISES, "nested"])
def test_the_loss_and_its_gradient_are_those_of_the_definition(seed, model):
    sets, utilities, truth, chosen, weight, _ = world(seed)
    nests = np.array([0, 1, 0, 1, 1])
    own = {"nests": nests.astype(np.int32), "nest_labels": ("a", "b")} if model == "nested" else {}
    noise = "gumbel" if model == "nested" else model
    names = sets.chooser_names, sets.alternative_names, sets.pair_names
    form = ChoiceForm(noise, *names, K, rank=-1, **own)
    ridge = np.random.default_rng(seed).uniform(0, 1, form.n)
    theta = np.concatenate([*(0.7 * np.ravel(part) for part in truth), [0.6, 0.9][: 2 * (model == "nested")]])

    def by_definition(theta):
        logs = log_likelihoods(utilities(*split(theta)), chosen, model, nests, theta[8:])
        return -np.average(logs, weights=weight) + 0.5 * ridge @ theta**2

    value, gradient = ChoiceObjective(form, sets, ridge, 1)(theta)
    # The quadrature here and the one of the core err by rounding: some 1e-13 of a row's probability.
    assert value == pytest.approx(by_definition(theta), abs=1e-10)
    # Central differences err by step^2 / 6 times a third derivative, which is a few units here.
    np.testing.assert_allclose(gradient, numerical(by_definition, theta), atol=3e-9)
    again = ChoiceObjective(form, sets, ridge, 3)(theta)
    assert again[0] == value
    assert again[1].tolist() == gradient.tolist()


@pytest.mark.parametrize("kind", ["dense", "sparse", "few taken out", "ranges", "lists", "function"])
def test_every_form_of_data_is_the_same_model(seed, kind):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, N)
    last = first + rng.integers(2, K - 1, N)
    mask = (np.arange(K) >= first[:, None]) & (np.arange(K) < last[:, None])
    S = rng.normal(size=(N, K)) * (rng.random((N, K)) < 0.5)
    chosen = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
    Z = rng.normal(size=(K, 2))
    of_pairs = {"s": S}
    how = {"available": mask}
    if kind == "sparse":
        of_pairs, how, Z = {"s": sp.csr_array(S)}, {"available": sp.csr_array(mask)}, sp.csr_array(Z)
    elif kind == "few taken out":
        of_pairs, how = {"s": sp.csr_array(S)}, {"unavailable": sp.csr_array(~mask)}
    elif kind == "ranges":
        how = {"available": np.stack([first, last], axis=1)}
    elif kind == "lists":
        indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        how, of_pairs = {"available": (indptr, np.nonzero(mask)[1])}, {"s": S[mask]}
    elif kind == "function":
        of_pairs, how = (
            (lambda rows, ks: S[rows, ks][:, None]),
            {"unavailable": sp.csr_array(~mask), "pair_names": ["s"]},
        )
    expected = ChoiceClassifier(constants="none").fit(choice_sets(Z=Z, pairs={"s": S}, available=mask, chosen=chosen))
    sets = choice_sets(Z=Z, pairs=of_pairs, chosen=chosen, **how)
    model = ChoiceClassifier(constants="none").fit(sets)
    # Sums in another order: the minimum is found to 1e-8 of a standard deviation.
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(model.std_errors_, expected.std_errors_, rtol=1e-5)
    p = model.predict_proba(sets)
    assert np.all(p[~mask] == 0)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert model.log_likelihood_ == pytest.approx(np.log(p[np.arange(N), chosen]).sum(), abs=1e-9)
    few = sets.take([3, 1])
    np.testing.assert_allclose(model.predict_proba(few), p[[3, 1]], rtol=1e-12)


@pytest.mark.parametrize("model", NOISES)
def test_the_maximum_is_that_of_a_general_optimiser(seed, model):
    sets, utilities, _, chosen, weight, _ = world(seed, n=25 if model != "gumbel" else 150)
    fitted = ChoiceClassifier(noise=model, alpha=0.02).fit(sets)

    def by_definition(theta):
        logs = log_likelihoods(utilities(*split(theta)), chosen, model)
        return -np.average(logs, weights=weight) + 0.01 * theta @ theta

    # Nelder and Mead's method would take longer; BFGS by differences ends some 1e-5 from the minimum.
    if model == "gumbel":
        found = scipy.optimize.minimize(by_definition, np.zeros(8), method="BFGS")
        np.testing.assert_allclose(fitted.coef_, found.x, atol=1e-4)
    np.testing.assert_allclose(numerical(by_definition, fitted.coef_), 0, atol=2e-8)
    p = fitted.predict_proba(sets)[np.arange(len(chosen)), chosen]
    np.testing.assert_allclose(np.log(p), log_likelihoods(utilities(*split(fitted.coef_)), chosen, model), atol=1e-9)


def test_features_of_choosers_alone_are_the_softmax(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = np.array(["ant", "bee", "cow", "doe"])[
        np.argmax(X @ rng.normal(size=(3, 4)) + rng.gumbel(size=(200, 4)), axis=1)
    ]
    model = ChoiceClassifier().fit(X, y)
    other = SoftmaxClassifier(solver="lbfgs", alpha=0.0, max_iter=2000).fit(X.astype(np.float32), y)
    assert model.classes_.tolist() == other.classes_.tolist()
    # Weights of SoftmaxClassifier are floats, and its stopping rule leaves some 1e-4 of a logarithm.
    np.testing.assert_allclose(model.predict_log_proba(X), other.predict_log_proba(X.astype(np.float32)), atol=5e-3)
    assert model.interactions_.shape == (3, 3)


def test_low_rank_interactions_are_stationary_and_of_that_rank(seed):
    sets, *_ = world(seed, n=300, d=3, q=3, r=1)
    full = ChoiceClassifier(alpha=0.01).fit(sets)
    model = ChoiceClassifier(interactions=1, alpha=0.01, random_state=seed).fit(sets)
    assert np.linalg.matrix_rank(model.interactions_, tol=1e-9) == 1
    assert np.isnan(model.std_errors_).all()
    objective = ChoiceObjective(model._fitted.form, sets, np.full(model.coef_.size, 0.01), 1)
    np.testing.assert_allclose(numerical(lambda t: objective(t)[0], model.coef_), 0, atol=1e-6)
    assert full.loss_curve_[-1] < model.loss_curve_[-1]
    with pytest.raises(ValueError, match="no interactions of low rank"):
        ChoiceClassifier(interactions=1, covariance="hessian").fit(sets)


@pytest.mark.filterwarnings("ignore:.*at its bound")
def test_constants_by_group_and_constraints_hold(seed):
    sets, *_ = world(seed, n=200)
    groups = ["in", "out", "in", "far", "out"]
    model = ChoiceClassifier(
        interactions="none",
        constants=groups,
        constraints={"z0": "positive", "z1": "s1", "s0": 0.25, "constant[far]": "negative"},
    ).fit(sets)
    assert model.coef_names_ == ["z0", "z1", "s0", "s1", "constant[out]", "constant[far]"]
    named = dict(zip(model.coef_names_, model.coef_, strict=True))
    assert named["z0"] >= 0 >= named["constant[far]"]
    assert named["z1"] == named["s1"]
    assert named["s0"] == 0.25
    slope = numerical(lambda t: ChoiceObjective(model._fitted.form, sets, np.zeros(6), 1)(t)[0], model.coef_)
    assert slope[1] + slope[3] == pytest.approx(0, abs=1e-7)
    assert slope[4] == pytest.approx(0, abs=1e-7)
    for j, sign in ((0, 1), (5, -1)):
        assert slope[j] == pytest.approx(0, abs=1e-7) or (model.coef_[j] == 0 and sign * slope[j] > 0)
    errors = dict(zip(model.coef_names_, model.std_errors_, strict=True))
    assert errors["s0"] == 0
    assert errors["z1"] == errors["s1"] > 0


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"cost": 0}, "'cost', which is no coefficient"),
        ({"z0": "s9"}, "must be 'positive'"),
        ({"z0": "z1", "z1": "z0"}, "twice"),
        ({"dissimilarity[0]": 0}, "is 0; it must be finite, more than 0"),
        ({"dissimilarity[0]": -1.0}, "is -1.0; it must be finite, more than 0"),
        ({"dissimilarity[0]": "negative"}, "is 'negative'; it must be"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(constraints, message):
    with pytest.raises(ValueError, match=message):
        ChoiceClassifier(nests=[0, 0, 1, 1, 1], constraints=constraints).fit(world(0)[0])


@pytest.mark.filterwarnings("ignore:.*at its bound")
def test_nests_by_name_are_those_of_each_alternative(seed):
    sets = replace(world(seed)[0], alternatives=np.array([*"abcde"]))
    named = ChoiceClassifier(nests={"u": ["c", "a"], "v": ["e", "b"]}).fit(sets)
    each = ChoiceClassifier(nests=["u", "v", "u", "d alone", "v"]).fit(sets)
    np.testing.assert_array_equal(named.coef_, each.coef_)
    assert named.coef_names_ == each.coef_names_


def test_a_dissimilarity_that_is_positive_may_exceed_1():
    """Alternatives of a nest that are less alike than independent ones."""
    rng = np.random.default_rng(0)
    cost = rng.normal(size=(3000, 3))
    u = cost * [1, 1, 1] + rng.gumbel(size=cost.shape)
    u[:, :2] += 1.5 * rng.normal(size=(3000, 1)) * [1, -1]
    sets = choice_sets(pairs={"cost": cost}, chosen=np.argmax(u, axis=1))
    how = {"constants": "none", "nests": [0, 0, 1]}
    model = ChoiceClassifier(**how, constraints={"dissimilarity[0]": "positive"}).fit(sets)
    assert model.coef_[1] > 1.1
    assert model.std_errors_[1] > 0


# The estimator


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"noise": "cauchy"}, "noise is 'cauchy'"),
        ({"interactions": 0}, "interactions is 0"),
        ({"constants": "some"}, "constants is 'some'"),
        ({"alpha": {"prices": 1}}, "a part of alpha is 'prices'"),
        ({"alpha": -1}, "alpha is -1"),
        ({"covariance": "white"}, "covariance is 'white'"),
        ({"solver": "newton"}, "solver is 'newton'"),
        ({"nests": [0, 0], "noise": "normal"}, "with nests it must be 'gumbel'"),
        ({"nests": [0, 0]}, r"nests has shape \(2,\)"),
        ({"covariance": "clustered"}, "have no persons"),
        ({"constraints": ["z0"]}, "constraints is .'z0'.; it must be None or a mapping"),
        ({"nests": {"a": [0, 1], "b": [1, 2]}}, "nests has an alternative twice"),
        ({"nests": {"a": [0, 9]}}, "nests of 'a' has 9, which is none of the alternatives 0, 1"),
    ],
)
def test_parameters_are_checked(how, message):
    sets = replace(world(0)[0], persons=None)
    with pytest.raises((ValueError, TypeError), match=message):
        ChoiceClassifier(**how).fit(sets)
    if how == {"covariance": "clustered"}:
        with pytest.raises(ValueError, match=message):
            ChoiceClassifier(**how).fit(sets.X, sets.labels)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some data are separated
@parametrize_with_checks([ChoiceClassifier()])
def test_the_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_estimator_is_cloned_and_predicts_the_best(seed):
    sets, *_ = world(seed)
    model = clone(ChoiceClassifier(alpha={"pairs": 0.5}, constants=[*"aabbb"])).fit(sets)
    labels, shares = model.predict_top_k(sets, 3)
    p = model.predict_proba(sets)
    assert labels[:, 0].tolist() == model.predict(sets).tolist()
    np.testing.assert_allclose(shares, -np.sort(-p, axis=1)[:, :3])
    found = model.evaluate(sets)
    rows = np.arange(N)
    assert found["log_loss"] == pytest.approx(np.average(-np.log(p[rows, sets.chosen]), weights=sets.sample_weight))
    assert model.score(sets) == pytest.approx(1 - found["error"])
    with pytest.raises(ValueError, match="the data have features"):
        model.predict(choice_sets(alternatives=range(K), Z=sets.Z, n_rows=2))
    with pytest.raises(ValueError, match="give ChoiceSets"):
        model.predict(sets.X)


def test_free_coefficients_are_put_back(seed):
    form = ChoiceForm("gumbel", (), ("a", "b", "c", "d"), (), 3)
    free = find_free_coefficients(form, {"b": 2.0, "c": "a", "d": "b"})
    assert free.n == 1
    assert free.expand(np.array([7.0])).tolist() == [7, 2, 7, 2]
    gradient = np.random.default_rng(seed).normal(size=4)
    assert free.reduce(gradient).tolist() == [gradient[0] + gradient[2]]


def test_constraints_that_contradict_each_other_are_refused():
    form = ChoiceForm("gumbel", (), ("a", "b", "c"), (), 3)
    with pytest.raises(ValueError, match="constraints says twice that a and another coefficient are equal"):
        find_free_coefficients(form, {"a": "b", "b": "a"})
    with pytest.raises(ValueError, match="'b' is 'd'; it must be 'positive', 'negative', where"):
        find_free_coefficients(form, {"b": "d"})
    with pytest.raises(ValueError, match="constraints has 'd', which is no coefficient; there are a, b, c"):
        find_free_coefficients(form, {"d": 1})
    chained = find_free_coefficients(form, {"a": "b", "b": "c", "c": "negative"})
    assert (chained.matrix.toarray().tolist(), chained.bounds.tolist()) == ([[1], [1], [1]], [[-np.inf, 0]])
    cycle = {"a": "b", "b": "c", "c": "b"}
    with pytest.raises(ValueError, match="says twice that"):
        find_free_coefficients(form, cycle)


@pytest.mark.filterwarnings("ignore:.*at its bound")
@pytest.mark.parametrize(
    "how",
    [
        *({"noise": noise} for noise in NOISES),
        {"nests": [0, 0, 1, 1, 1]},
        {"interactions": 1},
        {"alpha": 1e-6},
        {"mixture": RandomCoefficients(dict.fromkeys(("s0", "z0", "z1"), "normal"), n_draws=8)},
        {"mixture": LatentClasses(2, n_starts=1, max_iter=1)},
    ],
    ids=str,
)
def test_iterations_that_end_before_the_maximum_say_what_to_raise(seed, how):
    sets = replace(world(seed)[0], sample_weight=None)
    how = {"interactions": "none", "covariance": "none", **how}
    with pytest.warns(ConvergenceWarning, match=r"ended after \d+ iterations, before .*: raise max_iter") as caught:
        model = ChoiceClassifier(**how, max_iter=1, random_state=seed).fit(sets)
    assert {warning.filename for warning in caught} == {__file__}
    assert not model.converged_


# Files


@pytest.mark.filterwarnings("ignore:.*at its bound")
@pytest.mark.filterwarnings("ignore:after max_iter")  # of few passes with few draws
@pytest.mark.parametrize("kind", ["full", "sparse Z and groups", "nested text", "softmax", "drawn", "rank"])
def test_a_saved_model_comes_back(seed, tmp_path, kind):
    sets, *_ = world(seed, n=120)
    own = {
        "full": {},
        "sparse Z and groups": {"constants": ["a", "b", "a", "c", "b"], "interactions": "none"},
        "nested text": {"nests": [*"uuvvw"], "interactions": "none"},
        "softmax": {"alpha": {"pairs": 0.1}},
        "drawn": {"solver": "double_sum", "n_negatives": 2, "max_iter": 4, "alpha": 0.1},
        "rank": {"interactions": 1},
    }[kind]
    if kind == "sparse Z and groups":
        sets = replace(sets, Z=sp.csr_array(sets.Z))
    elif kind == "nested text":
        sets = replace(sets, alternatives=np.array([*"edcba"]))
    elif kind == "softmax":
        sets = replace(sets, Z=None, alternative_names=())
    model = ChoiceClassifier(random_state=seed, **own).fit(sets)
    model.save(tmp_path / "m")
    again = manyclass.load(tmp_path / "m")
    assert type(again) is ChoiceClassifier
    assert again.predict_proba(sets).tolist() == model.predict_proba(sets).tolist()
    assert str(again.summary()) == str(model.summary())
    np.testing.assert_array_equal(again.covariance_, model.covariance_)
    assert again.classes_.tolist() == model.classes_.tolist()
    again.fit(sets)  # parameters came back, too
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**64 - 1, 3, 1, 0, 2], dtype=np.uint64),
        np.array([5, 4, 3, 2, 1], dtype=np.int8),
        np.array(["2026-01-05", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"], dtype="datetime64[D]"),
        np.array([0.5, 1.5, -1.0, 2.0, 3.0], dtype=np.float32),
        np.array([Decimal("0.10"), Decimal(1), Decimal(2), Decimal(3), Decimal(4)]),
        np.array(["e", "d", "c", "b", "a" * 3000], dtype=object),
    ],
    ids=["uint64", "int8", "dates", "float32", "Decimal", "long text"],
)
def test_labels_keep_their_type_in_a_file(tmp_path, labels):
    sets = replace(world(0)[0], alternatives=labels)
    ChoiceClassifier(alpha={"pairs": np.float64(0.1)}, tol=np.float32(1e-4)).fit(sets).save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    if labels.dtype.kind in "uiMU":
        named = ChoiceClassifier(constants="alternative", reference=labels[1], alpha=1.0).fit(sets)
        named.save(tmp_path / "m")
        assert manyclass.load(tmp_path / "m").reference == labels[1:2].tolist()[0]
    assert loaded.classes_.dtype == labels.dtype
    assert loaded.classes_.tolist() == labels.tolist()
    assert loaded.get_params()["alpha"] == {"pairs": 0.1}


def test_a_file_stays_where_what_is_saved_could_not_be_loaded(tmp_path):
    model = ChoiceClassifier(constants="none").fit(world(0)[0])
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    for wrong in ({"max_iter": -5}, {"noise": "none"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            clone_with(model, wrong).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def clone_with(model, parameters):
    """The same fitted model with other parameters."""
    return copy.deepcopy(model).set_params(**parameters)


@pytest.mark.filterwarnings("ignore:.*at its bound")
def test_damaged_choice_models_are_refused(tmp_path):
    model = ChoiceClassifier(nests=[*"uuvvw"]).fit(replace(world(0)[0], alternatives=np.array([*"edcba"])))
    path = tmp_path / "m"
    model.save(path)
    whole = path.read_bytes()
    tensors, metadata = load_file(path), open_tensors(path).metadata

    def refused(change_tensors=None, change_about=None, **change_metadata):
        about = {**json.loads(metadata["model"]), **(change_about or {})}
        save_file(
            {**tensors, **(change_tensors or {})}, path, {**metadata, "model": json.dumps(about), **change_metadata}
        )
        with pytest.raises(ValueError, match=re.escape(str(path))):
            manyclass.load(path)

    n = len(tensors["theta"])
    refused({"theta": np.full(n, np.nan)})
    refused({"theta": np.zeros(n)})  # dissimilarities of 0
    refused({"theta": np.ones(n + 1)})
    refused({"covariance": -np.eye(n)})
    refused({"nests": np.full(5, 7, np.int32)})
    refused({"Z": np.full((5, 2), np.inf)})
    for change in (
        {"noise": "cauchy"},
        {"n_alternatives": 4},
        {"n_alternatives": -1},
        {"pair_names": ["a"]},
        {"rank": "1"},
        {"rank": 3},
        {"solver": None},
        {"parameters": {"noise": "gumbel", "price": 1}},
        {"parameters": {"alpha": -1}},
        {"converged": 3},
        {"Z": "wide"},
        {"n_rows": 0},
        {"chooser_names": [1, 2]},
    ):
        refused(change_about=change)
    refused(format_version="2")
    for end in (0, 5, 100, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            manyclass.load(path)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="its format is 'manyclass choice model'"):
        load_classifier(path)
    SoftmaxClassifier(max_iter=1).fit(np.eye(2, dtype=np.float32), [0, 1]).save(path)
    with pytest.raises(ValueError, match="is not a choice model"):
        ChoiceClassifier.load(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of what is at its bound
@pytest.mark.filterwarnings("ignore:after max_iter")  # of few passes with few draws
@pytest.mark.parametrize("kind", ["lbfgs", "ridge", "bound", "equal", "constants", "choosers", "drawn"])
def test_a_certificate_bounds_the_distance_from_the_optimum(seed, kind):
    sets, *_ = world(seed, n=300, available=kind != "constants")
    given, data = {}, (sets,)
    if kind == "ridge":
        given["alpha"] = {"pairs": 0.1, "interactions": 0.3}
    elif kind == "bound":  # of either sign: one of them holds
        given["constraints"] = {"s0": "positive", "s1": "negative"}
    elif kind == "equal":
        given["constraints"] = {"s0": "s1", "z0": 0.25}
    elif kind == "constants":
        given["constants"] = "alternative"
        data = (
            choice_sets(
                pairs=dict(zip("ab", np.random.default_rng(seed).normal(size=(2, 300, K)), strict=True)),
                chosen=sets.chosen,
            ),
        )
    elif kind == "choosers":
        data = (sets.X, sets.chosen)
    elif kind == "drawn":
        given |= {"solver": "double_sum", "n_negatives": 2, "max_iter": 30}
    model = ChoiceClassifier(random_state=seed, **given).fit(*data)
    found = model.certificate(*data)
    assert found["primal"] - found["dual"] == pytest.approx(found["gap"], abs=1e-15)
    if kind != "drawn":
        assert 0 <= found["gap"] < 1e-10
        assert found["primal"] == pytest.approx(model.loss_curve_[-1], abs=1e-10)
    best = ChoiceClassifier(**given | {"solver": "lbfgs", "max_iter": 500}).fit(*data).certificate(*data)
    # Away from the optimum the bound holds, and near it the gap is what is lost but for a part that vanishes.
    theta = model.coef_.copy()
    for size in (0.3, 0.03, 0.003):
        model._fitted.fit.theta[:] = theta + size * np.random.default_rng(seed).normal(size=theta.size)
        if kind in ("bound", "equal"):
            free = find_free_coefficients(model._fitted.form, given["constraints"])
            model._fitted.fit.theta[:] = free.expand(np.clip(free.select(model._fitted.fit.theta), *free.bounds.T))
        away = model.certificate(*data)
        lost = away["primal"] - best["primal"]
        assert lost - 1e-12 <= away["gap"] <= away["primal"]
    if kind not in ("bound", "drawn"):
        assert away["gap"] <= 1.2 * lost


@pytest.mark.parametrize("kind", [*NOISES[1:], "nests", "rank"])
def test_models_without_a_convex_objective_have_no_certificate(seed, kind):
    sets, *_ = world(seed)
    given = (
        {"noise": kind} if kind in NOISES else {"nests": [0, 0, 1, 1, 1]} if kind == "nests" else {"interactions": 1}
    )
    model = ChoiceClassifier(alpha=0.1, covariance="none", max_iter=5, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(sets)
    with pytest.raises(ValueError, match="a certificate needs noise='gumbel' without nests"):
        model.certificate(sets)


@pytest.mark.parametrize("constants", ["alternative", [*"uvuvv"]])
def test_a_reference_has_the_constant_0(seed, constants, tmp_path):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(200, 5))
    sets = choice_sets(pairs={"s": S}, alternatives=np.array([*"abcde"]), chosen=rng.choice([*"abcde"], 200))
    plain = ChoiceClassifier(constants=constants).fit(sets)
    model = ChoiceClassifier(constants=constants, reference=sets.alternatives[3]).fit(sets)
    assert f"constant[{'d' if isinstance(constants, str) else 'v'}]" not in model.coef_names_
    np.testing.assert_allclose(model.predict_proba(sets), plain.predict_proba(sets), atol=1e-6)
    model.save(tmp_path / "model")
    again = ChoiceClassifier.load(tmp_path / "model")
    assert again.reference == "d"
    np.testing.assert_array_equal(again.predict_proba(sets), model.predict_proba(sets))
    with pytest.raises(ValueError, match="none of the alternatives"):
        ChoiceClassifier(constants=constants, reference="x").fit(sets)
    with pytest.raises(ValueError, match="there are no constants"):
        ChoiceClassifier(constants="none", reference="b").fit(sets)
    of_choosers = choice_sets(X=S, alternatives=sets.alternatives, chosen=sets.labels)
    with pytest.raises(ValueError, match="put the reference first"):
        ChoiceClassifier(reference="b").fit(of_choosers)
