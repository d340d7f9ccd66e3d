"""sample_weight and class_weight at the surface: what is accepted and refused, evaluation, held-out losses, routing."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.problems import planted
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, solvers
from manyclass.fitting.points import times_class_weight
from manyclass.training.core_training import Probe, Signs
from manyclass.training.passes import fork
from manyclass.training.plan import Labels, held_out
from manyclass.training.state import Points, normalized
from manyclass.weights.weights import FeatureScaling

MODELS = {
    "softmax": SoftmaxClassifier(solver="exact", max_iter=3, random_state=0),
    "lbfgs": SoftmaxClassifier(solver="lbfgs", alpha=0.01, max_iter=300),
    "margin": MarginClassifier(max_iter=3, random_state=0),
    "utility": AugmentReduceClassifier(max_iter=3, random_state=0),
    "posterior": AugmentReduceClassifier(posterior="gaussian", alpha=0.1, max_iter=3, random_state=0),
}


@pytest.fixture
def problem(seed):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 80, 5, 6)
    return X, y, rng.gamma(2.0, size=80)


def changed(weights, at, value):
    weights = weights.copy()
    weights[at] = value
    return weights


BAD = {
    "nan": (lambda w: changed(w, 3, np.nan), r"sample_weight\[3\] is nan; weights must be finite, at least 0"),
    "infinite": (lambda w: changed(w, 0, np.inf), r"sample_weight\[0\] is inf; weights must be finite"),
    "negative": (lambda w: changed(w, 79, -1.5), r"sample_weight\[79\] is -1.5; weights must be finite, at least 0"),
    "too few": (lambda w: w[:5], r"X has 80 rows, sample_weight has shape \(5,\); it must be \(80,\)"),
    "a matrix": (lambda w: w[:, np.newaxis], r"sample_weight has shape \(80, 1\); it must be \(80,\)"),
    "all zero": (np.zeros_like, "sample_weight is zero for every row; at least one weight must be above 0"),
    "words": (lambda w: w.astype(str), "sample_weight has dtype <U32; it must hold real numbers"),
    "complex": (lambda w: w + 0j, "sample_weight has dtype complex128; it must hold real numbers"),
    "objects": (lambda w: [{}] * 80, "sample_weight has dtype object; it must hold real numbers"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODELS)
def test_bad_weights_are_refused_and_the_model_stays(name, bad, problem):
    X, y, weights = problem
    make, message = BAD[bad]
    model = clone(MODELS[name]).fit(X, y)
    before = model.coef_.copy()
    for method in (model.fit, model.evaluate, model.score):
        with pytest.raises(ValueError, match=message):
            method(X, y, sample_weight=make(weights))
    assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_taken_in_any_form(name, problem):
    X, y, weights = problem
    weights = np.ceil(8 * weights)  # exact in each of the types
    read_only = weights.copy()
    read_only.flags.writeable = False
    expected = clone(MODELS[name]).fit(X, y, weights).coef_
    for form in (
        weights.astype(np.float32),
        weights.astype(np.int64),
        weights.astype(">f8"),
        weights.astype(">i4"),
        weights.astype(object),
        weights.tolist(),
        read_only,
        np.repeat(weights, 2)[::2],
    ):
        kept = np.array(form)
        assert np.array_equal(clone(MODELS[name]).fit(X, y, form).coef_, expected)
        assert np.array_equal(kept, np.array(form))


@pytest.mark.parametrize("scale", [1e-300, 1e99, 4.0])
def test_only_ratios_of_weights_matter(scale, problem):
    X, y, weights = problem
    for name in ("softmax", "lbfgs", "margin", "utility"):
        one, other = (clone(MODELS[name]).fit(X, y, w) for w in (weights, scale * weights))
        # The mean of weights is off by an ulp or so, and W is rounded to float.
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-4)
        assert np.array_equal(one.coef_, clone(MODELS[name]).fit(X, y, 4 * weights).coef_)
    model = clone(MODELS["softmax"]).fit(X, y)
    assert model.evaluate(X, y, scale * weights) == pytest.approx(model.evaluate(X, y, weights), rel=1e-12)


def test_a_weight_that_no_double_holds_beside_the_others_is_none(problem):
    X, y, weights = problem
    weights[7] = 1e-200
    tiny, zero = (clone(MODELS["softmax"]).fit(X, y, w).coef_ for w in (weights, changed(weights, 7, 0)))
    assert np.array_equal(tiny, zero)


def test_one_class_of_positive_weight_is_refused(problem):
    X, y, _ = problem
    with pytest.raises(ValueError, match=r"y has one class, .*2.* in rows whose weight is above 0; at least two"):
        clone(MODELS["softmax"]).fit(X, y, (y == 2).astype(float))
    # A class whose rows all have weight 0 is not there.
    assert clone(MODELS["softmax"]).fit(X, y, (y != 2).astype(float)).classes_.tolist() == [0, 1, 3, 4, 5]


# Evaluation


@pytest.mark.parametrize("name", MODELS)
def test_evaluate_and_score_are_weighted_means(name, problem):
    X, y, weights = problem
    weights[::7] = 0
    model = clone(MODELS[name]).fit(X, y)
    right = model.predict(X) == y
    assert model.score(X, y, weights) == pytest.approx(np.average(right, weights=weights), rel=1e-12)
    assert model.score(X, y) == accuracy_score(y, model.predict(X))
    found = model.evaluate(X, y, weights)
    assert found["error"] == pytest.approx(1 - np.average(right, weights=weights), rel=1e-12)
    best, _ = model.predict_top_k(X, 5)
    among = (best == y[:, np.newaxis]).any(axis=1)
    assert found["top5_error"] == pytest.approx(1 - np.average(among, weights=weights), rel=1e-12)
    if name != "margin":
        p = model.predict_proba(X)[np.arange(80), y]
        # The loss is summed in single precision in part.
        assert found["log_loss"] == pytest.approx(np.average(-np.log(p), weights=weights), rel=1e-5)
        assert found["log_loss"] == pytest.approx(
            log_loss(y, model.predict_proba(X), sample_weight=weights, labels=range(6)), rel=1e-5
        )
    assert model.evaluate(X, y, np.ones(80)) == pytest.approx(model.evaluate(X, y), rel=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", [SoftmaxClassifier(random_state=0), MarginClassifier(random_state=0)])
def test_evaluate_of_several_labels_is_a_weighted_mean_over_rows_with_labels(model, sparse, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(60, 5)).astype(np.float32), (rng.random((60, 8)) < 0.25).astype(int)
    Y[:5] = 0
    Y[5:, 0] |= Y[5:].sum(axis=1) == 0
    weights = rng.gamma(2.0, size=60)
    weights[10:14] = 0
    model.set_params(max_iter=3).fit(X, Y)
    found = model.evaluate(X, sp.csr_array(Y) if sparse else Y, weights)
    rows, w = slice(5, None), weights[5:]
    order = np.argsort(-model.decision_function(X[rows]), axis=1, kind="stable")
    for k in (1, 3, 5):
        right = np.take_along_axis(Y[rows], order[:, :k], axis=1).mean(axis=1)
        assert found[f"precision_at_{k}"] == pytest.approx(np.average(right, weights=w), rel=1e-12)
    assert found["error"] == pytest.approx(1 - found["precision_at_1"])
    if isinstance(model, SoftmaxClassifier):
        each = -(Y[rows] * model.predict_log_proba(X[rows])).sum(axis=1) / Y[rows].sum(axis=1)
        assert found["log_loss"] == pytest.approx(np.average(each, weights=w), rel=1e-5)
    with pytest.raises(ValueError, match="sample_weight is zero for every row that has a label"):
        model.evaluate(X, Y, changed(np.zeros(60), 2, 1.0))


def test_the_certificate_bounds_the_weighted_optimum(problem):
    X, y, weights = problem
    for storage in (X, sp.csr_array(X)):
        model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), alpha=0.01, max_iter=1000).fit(storage, y, weights)
        found = model.certificate(storage, y, weights)
        assert found["primal"] == pytest.approx(model.loss_curve_[-1], rel=1e-6)
        assert -1e-9 < found["gap"] < 1e-6
        # By other weights it is another objective, of which this is no optimum; the bound holds for its optimum.
        other = model.certificate(storage, y)
        best = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), alpha=0.01, max_iter=1000).fit(storage, y)
        assert other["dual"] <= best.loss_curve_[-1] + 1e-9 < other["primal"]
        assert other["gap"] > 100 * abs(found["gap"])
        # Rows of weight 0 are not there; class weights count.
        weights_0 = changed(weights, slice(0, 9), 0)
        left_out = model.certificate(storage[9:], y[9:], weights[9:])
        assert model.certificate(storage, y, weights_0) == pytest.approx(left_out, rel=1e-9, abs=1e-12)
        balanced = clone(model).set_params(class_weight="balanced").fit(storage, y, weights)
        assert -1e-9 < balanced.certificate(storage, y, weights)["gap"] < 1e-6


# Points held out


def test_early_stopping_looks_at_the_weighted_loss(problem):
    X, y, weights = problem
    seen = []
    model = SoftmaxClassifier(
        solver="exact", early_stopping=True, validation_fraction=0.3, max_iter=4, random_state=5
    ).fit(X, y, weights, callback=lambda state: seen.append(state.log_losses(X, y)))
    held = held_out(y.astype(np.int32), 0.3, fork(5))
    expected = [np.average(losses[held], weights=weights[held]) for losses in seen]
    np.testing.assert_allclose(model.validation_curve_, expected, rtol=1e-6)


def test_rates_are_compared_by_the_weighted_loss(seed):
    X, y = planted(np.random.default_rng(seed), 1200, 4, 5)
    weights = np.where(y == 0, 20.0, 1.0)
    # With a weight of nearly all on class 0, the log-loss of points held out is that of a class which is nearly sure.
    grid = SoftmaxClassifier(solver="exact", learning_rate="grid", max_iter=2, random_state=0)
    tables = [clone(grid).fit(X, y, w).learning_rate_table_ for w in (weights, None)]
    assert min(tables[0].values()) < min(tables[1].values())
    found = manyclass.tune_learning_rate(grid.set_params(learning_rate="auto"), X, y, sample_weight=weights)
    assert found.losses.min() < min(tables[1].values())


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_scales_of_features_are_those_of_the_rows_as_often_as_they_weigh(storage, seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(50, 6)) * (rng.random((50, 6)) < [1, 1, 0.8, 0.5, 0.2, 0])).astype(np.float32)
    X *= [1, 1e4, 1e-3, 1, 1, 1]  # so far apart that sparse features, too, are scaled one by one
    X += [3, 0, 0, 0, 0, 0]
    times = rng.integers(1, 5, size=50)
    for x in (storage(X), storage(X[:, :1])):
        weighted = FeatureScaling.of(x, centre=True, weights=times.astype(float))
        repeated = FeatureScaling.of(x[np.repeat(np.arange(50), times)], centre=True)
        np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-6)
        np.testing.assert_allclose(weighted.shift, repeated.shift, rtol=1e-6, atol=1e-6 * np.abs(X).max())


def test_the_ridge_of_full_passes_is_chosen_by_the_weighted_loss(seed):
    X, y = planted(np.random.default_rng(seed), 200, 4, 5)
    weights = np.where(y == 0, 50.0, 1.0)
    weighted, unweighted = (SoftmaxClassifier(random_state=0).fit(X, y, w) for w in (weights, None))
    assert weighted.alpha_path_.keys() & unweighted.alpha_path_.keys()
    # Nearly all of the weight is on class 0, which a model of these weights is nearly sure of.
    assert min(weighted.alpha_path_.values()) < 0.5 * min(unweighted.alpha_path_.values())


def test_how_many_labels_are_predicted_is_that_of_weighted_rows(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(60, 5)).astype(np.float32), np.zeros((60, 8), dtype=int)
    Y[np.arange(60), rng.integers(0, 8, 60)] = 1
    Y[:20, :5] = 1  # a third of the rows have five labels or six, the others one
    few, many = (SoftmaxClassifier(random_state=0).fit(X, Y, np.where(np.arange(60) < 20, w, 1)) for w in (1e-3, 1e3))
    assert few.n_labels_ == 1
    assert many.n_labels_ in (5, 6)
    assert few.predict(X).sum() < many.predict(X).sum()


def test_the_probe_weighs_its_points(seed):
    rng = np.random.default_rng(seed)
    weights, found = rng.gamma(2.0, size=40), rng.normal(size=40)
    labels = Labels.single(np.zeros(40, dtype=np.int32))
    probe = Probe(Points.numbered(np.zeros((40, 1)), labels, 3, weights), Signs(at_zero=1.0, n_drawn=3), 1)
    probe._losses = lambda state: found
    probe.look(None, 1)
    mean, error = probe.core.looks[1]
    assert mean == pytest.approx(np.average(found, weights=weights))
    # The delta method for a ratio of means.
    assert error == pytest.approx(np.sqrt(np.sum(weights**2 * (found - mean) ** 2)) / weights.sum())


# Classes


@pytest.mark.parametrize("name", MODELS)
def test_balanced_classes_are_the_weights_that_scikit_learn_names(name, problem):
    X, y, weights = problem
    y = np.array(["ant", "bee", "cow", "doe", "elk", "fox"])[y]
    classes = np.unique(y)
    of_classes = compute_class_weight("balanced", classes=classes, y=y)
    by_hand = of_classes[np.searchsorted(classes, y)]
    balanced = clone(MODELS[name]).set_params(class_weight="balanced")
    expected = clone(MODELS[name]).fit(X, y, by_hand).coef_
    np.testing.assert_allclose(balanced.fit(X, y).coef_, expected, rtol=0, atol=1e-5)
    # With weights of points, classes count by them.
    of_classes = [weights.sum() / (6 * weights[y == c].sum()) for c in classes]
    expected = clone(MODELS[name]).fit(X, y, weights * np.array(of_classes)[np.searchsorted(classes, y)]).coef_
    np.testing.assert_allclose(balanced.fit(X, y, weights).coef_, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_class_of_nearly_all_weight_is_predicted_nearly_always(name, n_classes):
    # scikit-learn's check_class_weight_classifiers, on columns of unit scale.
    X, y = make_blobs(centers=n_classes, random_state=0, cluster_std=20)
    X = StandardScaler().fit_transform(X)
    class_weight = {0: 1000} | dict.fromkeys(range(1, n_classes), 1e-4)
    model = clone(MODELS[name]).set_params(class_weight=class_weight, max_iter=100)
    assert np.mean(model.fit(X[:50], y[:50]).predict(X[50:]) == 0) > 0.87


@pytest.mark.parametrize("name", MODELS)
def test_a_dict_weighs_the_classes_that_it_names(name, problem):
    X, y, _ = problem
    model = clone(MODELS[name]).set_params(class_weight={1: 3.0, 4: 0.5})
    weights = np.where(y == 1, 3.0, np.where(y == 4, 0.5, 1.0))
    assert np.array_equal(model.fit(X, y).coef_, clone(MODELS[name]).fit(X, y, weights).coef_)
    # A class of weight 0 is left out with its rows, as they are by weights of their own.
    model.set_params(class_weight={1: 0})
    assert np.array_equal(model.fit(X, y).coef_, clone(MODELS[name]).fit(X[y != 1], y[y != 1]).coef_)
    assert model.classes_.tolist() == [0, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight is 'even'; it must be None, 'balanced' or a dict of a weight for each label"),
        ([1, 2], r"class_weight is \[1, 2\]; it must be None, 'balanced' or a dict"),
        ({0: -1.0}, r"class_weight\[0\] is -1.0; it must be a finite number of at least 0"),
        ({0: np.nan}, r"class_weight\[0\] is nan; it must be a finite number"),
        ({0: "much"}, r"class_weight\[0\] is 'much'; it must be a finite number"),
        ({0: None}, r"class_weight\[0\] is None; it must be a finite number"),
        ({"0": 2.0}, "class_weight holds text, such as '0'; the classes are numbers, such as 0"),
        (dict.fromkeys(range(6), 0.0), "class_weight and sample_weight leave all rows with weight zero"),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_bad_class_weights_are_refused(name, class_weight, message, problem):
    X, y, _ = problem
    with pytest.raises(ValueError, match=message):
        clone(MODELS[name]).set_params(class_weight=class_weight).fit(X, y)


def test_a_weight_for_a_class_that_a_fold_lacks_is_no_error(problem):
    X, y, _ = problem
    some = y != 5
    model = clone(MODELS["softmax"]).set_params(class_weight=dict.fromkeys(range(6), 1.0) | {2: 2.0})
    assert np.array_equal(
        model.fit(X[some], y[some]).coef_, model.set_params(class_weight={2: 2.0}).fit(X[some], y[some]).coef_
    )


def test_class_weights_are_of_one_label(seed):
    X, Y = np.ones((4, 2), dtype=np.float32), np.eye(4, dtype=int)
    with pytest.raises(ValueError, match="class_weight is 'balanced', which is for one label a row"):
        SoftmaxClassifier(class_weight="balanced").fit(X, Y)


def test_weights_of_classes_without_points_make_no_infinite_one():
    labels, classes = np.array([0, 0, 2, 2]), np.arange(3)
    weights = times_class_weight(np.array([1.0, 1.0, 0.0, 0.0]), "balanced", labels, classes)
    assert weights.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert normalized(np.array([1e-300, 3e-300])).tolist() == [0.5, 1.5]
    assert normalized(np.array([2.0, 2.0])) is None


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 3: 0.5}, {"ant": 3, "bee": 1}])
def test_class_weights_are_saved_with_a_model(class_weight, problem, tmp_path):
    X, y, _ = problem
    if isinstance(class_weight, dict) and "ant" in class_weight:
        y = np.array(["ant", "bee", "cow", "doe", "elk", "fox"])[y]
    model = clone(MODELS["softmax"]).set_params(class_weight=class_weight).fit(X, y)
    model.save(tmp_path / "model")
    loaded = manyclass.load(tmp_path / "model")
    assert loaded.class_weight == class_weight
    assert np.array_equal(loaded.coef_, model.coef_)


# scikit-learn's routing of metadata


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_routed_through_a_pipeline_and_a_search(name, problem):
    X, y, weights = problem
    with config_context(enable_metadata_routing=True):
        model = clone(MODELS[name]).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        search = GridSearchCV(make_pipeline(scaler, model), {"standardscaler__with_mean": [True, False]}, cv=2)
        search.fit(X, y, sample_weight=weights)
        scaled = StandardScaler(**search.best_estimator_[0].get_params()).fit(X, sample_weight=weights).transform(X)
        alone = clone(MODELS[name]).fit(scaled, y, weights)
        assert np.array_equal(search.best_estimator_[1].coef_, alone.coef_)
        assert search.score(X, y, sample_weight=weights) == alone.score(scaled, y, weights)
        with pytest.raises(ValueError, match="sample_weight"):  # neither requested nor refused
            make_pipeline(StandardScaler(), clone(MODELS[name])).fit(X, y, sample_weight=weights)
