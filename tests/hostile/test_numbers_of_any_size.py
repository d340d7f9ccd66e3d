"""Scores, weights of rows and integers of any size: log-probabilities that grow with them, ties, errors that name."""

import contextlib
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_extreme_numbers import MOST, finite

from manyclass import (
    AugmentReduceClassifier,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    load,
    solvers,
    tune_learning_rate,
)
from manyclass.blending.blend import Scales
from manyclass.training import incremental
from manyclass.training import train as train_module
from manyclass.training.plan import Labels, ScoredRows


@pytest.mark.parametrize("noise", ["normal", "logistic", "gumbel"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_log_loss_of_huge_scores_is_that_of_their_log_probabilities(noise, sparse, seed):
    """It grows with the scores, for normal noise with their squares, as far as single precision goes."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 5
    model = AugmentReduceClassifier(noise=noise, max_iter=2, random_state=seed).fit(X, y)
    before = 0.0
    for factor in 10.0 ** np.array([0, 2, 3, 3.5, 4, 5, 6, 8, 10, 15, 20, 30, 36]):
        rows = X * np.float32(factor)
        rows = sp.csr_array(rows) if sparse else rows
        log_p = model.predict_log_proba(rows)
        assert np.isfinite(log_p).all()
        found = model.evaluate(rows, y)["log_loss"]
        # The quadrature's error, of nodes that several classes share or not; and scores rounded to single precision.
        assert found == pytest.approx(-log_p[np.arange(60), y].mean(), rel=1e-5, abs=1e-6)
        assert found > before
        before = found if factor > 1 else 0.0
        _, best = model.predict_top_k(rows, 5)
        assert np.isfinite(best).all()
        order = np.sort(log_p, axis=1)[:, ::-1]
        np.testing.assert_allclose(best, np.maximum(order, -MOST), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(model="linear", solver="implicit"),
        SoftmaxClassifier(model="embedding", dim=4),
        SoftmaxClassifier(model="pairs"),
        SoftmaxClassifier(model="hybrid", dim=4),
        SoftmaxClassifier(calibration="temperature"),
        AugmentReduceClassifier(noise="gumbel"),
        AugmentReduceClassifier(noise="logistic"),
        AugmentReduceClassifier(noise="normal"),
    ],
    ids=repr,
)
def test_ties_of_scores_at_the_end_of_floats_share_their_probability(model, storage, seed):
    rng = np.random.default_rng(seed)
    X, y = np.eye(5, dtype=np.float32).repeat(20, 0), np.arange(5).repeat(20)
    model = clone(model).set_params(random_state=seed, max_iter=3).fit(storage(X), y)
    rows = np.full((20, 5), MOST, np.float32) * rng.choice([-1, 0.3, 1], size=(20, 5)).astype(np.float32)
    p = model.predict_proba(storage(rows))
    labels, log_p = model.predict_top_k(storage(rows), 5)
    np.testing.assert_allclose(np.exp(log_p.astype(float)), np.take_along_axis(p, labels, axis=1), atol=1e-6)
    for k in range(5):
        own = np.maximum(p[:, k], 1e-300)
        some = p[:, k] > 1e-3  # else the logarithm is beyond double precision
        if some.any():
            found = model.evaluate(storage(rows[some]), np.full(some.sum(), k))["log_loss"]
            assert found == pytest.approx(-np.log(own[some]).mean(), abs=1e-6)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(model="linear"),
        SoftmaxClassifier(model="embedding", dim=4),
        SoftmaxClassifier(model="hybrid", dim=4),
        SoftmaxClassifier(model="linear", calibration="temperature"),
        MarginClassifier(calibration="temperature"),
    ],
    ids=repr,
)
def test_a_threshold_is_met_by_all_labels_that_tie_however_large_their_scores(model, storage, seed):
    """Scores are 0 or beyond all logarithms of the number of labels: what predict_proba tells is what counts."""
    rng = np.random.default_rng(seed)
    X, Y = np.eye(6, dtype=np.float32).repeat(20, 0), np.eye(6, dtype=int).repeat(20, 0)
    X, Y = X[:, [0, 0, 1, 2, 3, 4, 5]], Y[:, [0, 0, 1, 2, 3, 4, 5]]  # the first two labels go together
    model = clone(model).set_params(random_state=seed, max_iter=2).fit(storage(X), Y)
    for scale in (1.0, 1e10, 1e25, 1e37):
        rows = storage(X[rng.integers(0, len(X), 30)] * np.float32(scale))
        p = model.predict_proba(rows)
        for threshold in (0.1, 0.3, 0.45, 0.6):
            away = (np.abs(p - threshold) > 1e-5).all(axis=1)
            found = np.asarray(model.predict(rows, threshold=threshold))
            np.testing.assert_array_equal(found[away], (p > threshold)[away])


BY_CURVATURE = [
    SoftmaxClassifier(model="linear", solver=solver, alpha=alpha)
    for solver in ("sgd", "implicit", "umax", "exact")
    for alpha in (0.0, 1e-3)
]


@pytest.mark.parametrize("weight", [1e9, 1e20, 1e39, 1e60, 1e100])
@pytest.mark.parametrize(
    "model", [*(SoftmaxClassifier(model=model) for model in ("pairs", "hybrid", "linear", "embedding")), *BY_CURVATURE]
)
def test_a_row_of_any_weight_leaves_numbers_that_are_saved_and_learn_on(model, weight, seed, tmp_path):
    rng = np.random.default_rng(seed)
    X, y = sp.csr_array((rng.random((60, 6)) < 0.5).astype(np.float32)), np.arange(60) % 4
    found = clone(model).set_params(random_state=seed, max_iter=2).fit(X, y)
    weights = np.where(np.arange(60) == rng.integers(60), weight, 1.0)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.partial_fit(X, y, sample_weight=weights)
        assert {w.category for w in caught} <= {ConvergenceWarning}, [str(w.message) for w in caught]
        assert all("Lower learning_rate" in str(w.message) for w in caught)
        finite(found, X)
        found.save(tmp_path / "model")
        other = load(tmp_path / "model")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            expected = clone_of(found).partial_fit(X, y).decision_function(X)
            np.testing.assert_array_equal(other.partial_fit(X, y).decision_function(X), expected)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weight", [1e38, 1e45, 1e80, 1e100])
@pytest.mark.parametrize("model", BY_CURVATURE)
def test_steps_by_curvature_stay_numbers_after_rows_of_huge_weights(model, weight, storage, seed):
    """They know sums over rows that no single precision holds, of features up to its end."""
    rng = np.random.default_rng(seed)
    weights, y = np.where(np.arange(60) == rng.integers(60), weight, 1.0), np.arange(60) % 4
    for scale in (1, 1e15, 1e36):
        X = (rng.random((60, 6)) < 0.5) * 10.0 ** rng.uniform(-3, 1, (60, 1)) * scale
        X = storage(X.astype(np.float32))
        found = clone(model).set_params(random_state=seed, max_iter=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for given in (
                {},
                {"sample_weight": weights, "learning_rate": 0.02},  # which takes no curvatures
                {"sample_weight": weights},
                {"sample_weight": weights[::-1], "half_life": 100},
                {},
            ):
                found.partial_fit(X, y, **given)
                finite(found, X)


@pytest.mark.parametrize("scale", [1e19, 3e38])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("model", [SoftmaxClassifier(model="pairs"), SoftmaxClassifier(model="hybrid", dim=3)])
def test_sums_of_squares_of_pairs_are_saved_whatever_the_features_and_the_weights(
    model, several, scale, seed, tmp_path
):
    rng = np.random.default_rng(seed)
    X = (rng.random((60, 6)) < 0.5) * scale * rng.choice([1, -1, 0.3], (60, 6))
    X, y = sp.csr_array(X.astype(np.float32)), np.arange(60) % 4
    Y, weights = (np.eye(4, dtype=int)[y] if several else y), np.where(np.arange(60) % 7 == 3, 1e100, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = clone(model).set_params(random_state=seed, max_iter=2).fit(X, Y)
        for given in ({"learning_rate": 2.0},) * 3 + ({},):
            found.partial_fit(X, Y, sample_weight=weights, **given)
        found.save(tmp_path / "model")
        other = load(tmp_path / "model")
        found.partial_fit(X, Y)
        np.testing.assert_array_equal(other.partial_fit(X, Y).decision_function(X), found.decision_function(X))


@pytest.mark.parametrize("largest", [1e30, 1e37, 1e38])
def test_scales_of_terms_of_huge_scores_stay_numbers(largest, seed, tmp_path):
    rng = np.random.default_rng(seed)
    X, Y = sp.csr_array((rng.random((200, 6)) < 0.5).astype(np.float32)), (rng.random((200, 12)) < 0.5).astype(int)
    found = SoftmaxClassifier(model="hybrid", dim=3, max_iter=2, random_state=seed).fit(X, Y)
    weights, own = found._weights, sp.csr_array(Y)
    weights.matrix[:] = rng.choice([-1, 1], weights.matrix.shape).astype(np.float32) * np.float32(largest)
    labels = Labels(own.indptr.astype(np.int64), own.indices.astype(np.int32))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        scales = Scales.unknown(True).learnt(weights, ScoredRows(X, labels, 1))
        assert np.isfinite(scales.means).all()
        assert np.isfinite(scales.precisions).all()
        found.partial_fit(X, Y)  # its weights are those without the scales that a fit gave their terms
    finite(found, X)
    found.save(tmp_path / "model")


@pytest.mark.parametrize(
    "call",
    [
        lambda model, X, y, w: model.fit(X, y, sample_weight=w),
        lambda model, X, y, w: model.partial_fit(X, y, sample_weight=w),
        lambda model, X, y, w: model.fit([(X, y, w), (X, y)]),
        lambda model, X, y, w: model.partial_fit([(X, y, w), (X, y)]),
        lambda model, X, y, w: model.set_params(solver="exact").fit(X, y, sample_weight=w),
        lambda model, X, y, w: model.set_params(solver="lbfgs").fit(X, y, sample_weight=w),
        lambda model, X, y, w: model.set_params(solver="auto", model="hybrid").fit(X, y, sample_weight=w),
        lambda model, X, y, w: model.score(X, y, sample_weight=w),
        lambda model, X, y, w: model.evaluate(X, y, sample_weight=w),
        lambda model, X, y, w: model.certificate(X, y, sample_weight=w),
        lambda model, X, y, w: tune_learning_rate(model, X, y, sample_weight=w),
        lambda model, X, y, w: model.set_params(class_weight={0: w[3]}).fit(X, y),
        lambda model, X, y, w: model.set_params(class_weight={0: 1e60}).fit(X, y, sample_weight=np.full(27, 1e60)),
        lambda model, X, y, w: AugmentReduceClassifier(posterior="gaussian").fit(X, y, sample_weight=w),
        lambda model, X, y, w: MarginClassifier().fit(X, np.eye(3, dtype=int)[y], sample_weight=w),
    ],
)
@pytest.mark.parametrize("weight", [1.1e100, 1e300, float(np.finfo(np.float64).max)])
def test_a_weight_beyond_the_bound_is_refused_by_its_row_before_any_work(call, weight, seed):
    X, y = np.eye(3, dtype=np.float32).repeat(9, 0), np.arange(3).repeat(9)
    model = SoftmaxClassifier(solver="implicit", max_iter=1, alpha=0.1, random_state=seed).fit(X, y)
    before = model.decision_function(X)
    told = r"(sample_weight\[3\]|class_weight\[0\]|class_weight times sample_weight) is .*at most 1e\+?100"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=told):
            call(model, X, y, np.where(np.arange(27) == 3, weight, 1.0))
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_weights_that_are_no_numbers_are_never_a_model(monkeypatch, seed):
    """Whatever a training made of them: the model is the last one that was finite."""
    X, y = np.eye(3, dtype=np.float32).repeat(9, 0), np.arange(3).repeat(9)
    model = SoftmaxClassifier(solver="implicit", max_iter=1, random_state=seed).fit(X, y)
    before, right = model.decision_function(X), train_module.fit_points

    def wrong(*args, **given):
        found = right(*args, **given)
        found.weights.matrix[0, 0] = np.nan
        return found

    for module in (train_module, incremental):
        monkeypatch.setattr(module, "fit_points", wrong)
    with pytest.warns(ConvergenceWarning, match="its weights are no numbers. Lower learning_rate.*before these rows"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    with pytest.raises(ValueError, match=r"its weights are no numbers. .*Nothing was fitted"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    with pytest.raises(ValueError, match="Nothing was fitted"):
        clone(model).partial_fit(X, y)


def clone_of(model):
    """A copy that is fitted."""
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("estimator", [SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier, SkipGram])
@pytest.mark.parametrize("value", [10**30, -(10**30), 10**400], ids=["1e30", "-1e30", "1e400"])
def test_an_integer_of_any_size_is_a_parameter_or_named(estimator, value):
    for name, default in estimator().get_params(deep=False).items():
        if name in ("n_jobs", "class_weight") or not (
            default is None or default == "auto" or type(default) in (int, float)
        ):
            continue
        model = estimator(**{name: value})
        if name in ("alpha", "learning_rate", "verbose", "smoothing", "sample") and abs(value) == 10**30:
            with contextlib.suppress(ValueError):  # where it is below 0
                model.check_parameters()
            continue
        with pytest.raises((ValueError, TypeError), match=f"(?s){name} is .*; it must be|{name} is "):
            model.check_parameters()


@pytest.mark.parametrize(
    "call",
    [
        lambda model, X, y: model.fit(X, y, max_seconds=10**400),
        lambda model, X, y: model.partial_fit(X, y, n_passes=10**30),
        lambda model, X, y: model.partial_fit(X, y, half_life=10**400),
        lambda model, X, y: model.partial_fit(X, y, learning_rate=10**400),
        lambda model, X, y: model.predict_top_k(X, 10**30),
        lambda model, X, y: model.fit([(X, y)], max_memory=10**400),
        lambda model, X, y: model.set_params(class_weight={0: 10**400}).fit(X, y),
        lambda model, X, y: model.set_params(solver=solvers.UMax(delta=10**400)).fit(X, y),
    ],
)
def test_an_integer_that_no_float_holds_is_refused_by_the_name_of_the_argument(call):
    X, y = np.eye(3, dtype=np.float32).repeat(9, 0), np.arange(3).repeat(9)
    model = SoftmaxClassifier(solver="implicit", max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match=r"^\w+(\[0\])? is (an integer of 1329 bits|10{30})"):
        call(model, X, y)
    model.set_params(class_weight={0: 10**30}, solver="implicit").fit(X, y)  # a number as others


def test_one_line_for_a_number_of_thousands_of_digits():
    with pytest.raises(ValueError, match="max_iter is an integer of 33220 bits; it must be at least 1 and at"):
        SoftmaxClassifier(max_iter=10**10000).check_parameters()
