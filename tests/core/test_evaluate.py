"""Exact evaluation against dense NumPy in float64: losses, ranks, top-k, scores, normalizers."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import isas
from reference.problems import as_storage, planted
from scipy.special import logsumexp

from manyclass import SoftmaxClassifier
from manyclass.checks import csr_parts
from manyclass.weights.arrays import NO_FLOATS
from manyclass.weights.weights import Weights

# Not multiples of 16; more than one chunk of classes (4096 at most) and more than one bite of points (512).
SHAPES = [(3, 1, 2), (40, 7, 17), (600, 30, 100), (130, 12, 4111)]
STORAGES = pytest.mark.parametrize("storage", ["sparse", "dense"])


def random_model(seed, n, n_features, n_classes, storage):
    rng = np.random.default_rng(seed)
    weights = Weights.zeros(n_classes, n_features, by_feature=storage == "sparse")
    weights.coef[:] = 2 * rng.normal(size=(n_classes, n_features))
    weights.intercept[:] = rng.normal(size=n_classes)
    X = (rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.5)).astype(np.float32)
    X[0] = 0
    y = rng.integers(0, n_classes, size=n).astype(np.int32)
    return weights, X, y


def in_float64(weights, X):
    """Scores, and a bound on what float sums of D + 1 products lose: D + 2 roundings of the absolute sum."""
    x, W, b = X.astype(np.float64), weights.coef.astype(np.float64), weights.intercept.astype(np.float64)
    error = (X.shape[1] + 2) * 2.0**-24 * (np.abs(x) @ np.abs(W).T + np.abs(b))
    return x @ W.T + b, error


@STORAGES
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "n_features", "n_classes"), SHAPES)
def test_losses_scores_and_normalizers_equal_numpy(n, n_features, n_classes, n_threads, storage, seed):
    weights, X, y = random_model(seed, n, n_features, n_classes, storage)
    data = as_storage(X, storage)
    z, error = in_float64(weights, X)
    worst = error.max(axis=1)
    assert (np.abs(weights.scores(data, n_threads) - z) <= error).all()
    normalizers = logsumexp(z, axis=1)
    # Beside the scores' errors: terms e^(z - max) in float (2^-21 of the sum), sums in double.
    assert (np.abs(weights.log_normalizers(data, n_threads) - normalizers) <= worst + 2.0**-21).all()
    losses, ranks = weights.log_losses(data, y, n_threads)
    z_y = z[np.arange(n), y]
    assert (np.abs(losses - (normalizers - z_y)) <= 2 * worst + 2.0**-21).all()
    # Classes whose scores are within rounding of the label's may stand on either side.
    slack = 2 * worst[:, np.newaxis]
    surely = np.sum(z > z_y[:, np.newaxis] + slack, axis=1)
    perhaps = np.sum(z >= z_y[:, np.newaxis] - slack, axis=1) - 1
    assert (surely <= ranks).all()
    assert (ranks <= perhaps).all()


@STORAGES
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "n_features", "n_classes"), SHAPES)
def test_top_k_equals_sorting_all_scores(n, n_features, n_classes, n_threads, storage, seed):
    weights, X, _ = random_model(seed, n, n_features, n_classes, storage)
    data = as_storage(X, storage)
    scores = weights.scores(data, n_threads)
    order = np.argsort(-scores, axis=1, kind="stable")  # equal scores by class
    normalizers = weights.log_normalizers(data, n_threads)
    for k in (1, min(5, n_classes), n_classes) if n_classes < 1000 else (1, 50):
        classes, log_probabilities = weights.top_k(data, k, n_threads)
        assert np.array_equal(classes, order[:, :k])
        expected = np.take_along_axis(scores, order[:, :k], axis=1) - normalizers[:, np.newaxis]
        # Rounded to float once; two normalizers of the same point are the same.
        np.testing.assert_allclose(log_probabilities, expected, rtol=2.0**-23, atol=1e-12)


@STORAGES
def test_equal_scores_rank_by_class(storage):
    n_classes = 37
    weights = Weights.zeros(n_classes, 4, by_feature=storage == "sparse")
    weights.coef[:] = np.float32(0.1) * np.arange(4)
    weights.coef[20] += 1  # one better class
    X = as_storage(np.full((n_classes, 4), 0.3, dtype=np.float32), storage)
    losses, ranks = weights.log_losses(X, np.arange(n_classes, dtype=np.int32), 1)
    # Class 20 first, then the others in order.
    assert ranks.tolist() == [k + 1 for k in range(20)] + [0] + list(range(21, n_classes))
    assert len(np.unique(losses)) == 2
    classes, _ = weights.top_k(X, 5, 1)
    assert classes.tolist() == [[20, 0, 1, 2, 3]] * n_classes


@STORAGES
def test_a_rank_is_the_place_in_the_top_k(storage, seed):
    weights, X, y = random_model(seed, 50, 6, 30, storage)
    weights.coef[::3] = weights.coef[0]  # ties
    weights.intercept[::3] = 0
    data = as_storage(X, storage)
    _, ranks = weights.log_losses(data, y, 1)
    classes, _ = weights.top_k(data, 30, 1)
    assert np.array_equal(np.argmax(classes == y[:, np.newaxis], axis=1), ranks)


@STORAGES
def test_thread_counts_and_instruction_sets_agree(storage, seed):
    weights, X, y = random_model(seed, 1300, 9, 50, storage)
    data = as_storage(X, storage)
    points = csr_parts(data) if storage == "sparse" else data
    asked = weights._in_core
    one, ranks = asked.log_losses(points, y, NO_FLOATS, 1)
    two, ranks_of_two = asked.log_losses(points, y, NO_FLOATS, 2)
    assert np.array_equal(one, two)  # a point is evaluated by one thread at a time, chunks in order
    assert np.array_equal(ranks, ranks_of_two)
    for isa in isas():
        other, _ = asked.log_losses(points, y, NO_FLOATS, 2, isa)
        _, error = in_float64(weights, X)
        assert (np.abs(other - one) <= 4 * error.max(axis=1) + 2.0**-20).all()


@STORAGES
def test_read_only_weights_and_data_are_evaluated(storage, seed):
    weights, X, y = random_model(seed, 20, 5, 18, storage)
    data = as_storage(X, storage)
    expected = weights.log_losses(data, y, 1)
    arrays = [data.data, data.indices, data.indptr] if storage == "sparse" else [data]
    for array in (weights.matrix, weights.intercept, y, *arrays):
        array.flags.writeable = False
    again = weights.log_losses(data, y, 1)
    assert np.array_equal(expected[0], again[0])
    weights.top_k(data, 3, 1)
    weights.scores(data, 1)


@STORAGES
def test_adding_a_constant_to_all_scores_changes_nothing(storage, seed):
    weights, X, y = random_model(seed, 60, 5, 40, storage)
    data = as_storage(X, storage)
    losses, ranks = weights.log_losses(data, y, 1)
    weights.bias[...] += 64
    shifted, ranks_shifted = weights.log_losses(data, y, 1)
    # Scores below 128 are now rounded to 2^-17.
    np.testing.assert_allclose(shifted, losses, rtol=0, atol=2 * 2.0**-17)
    assert np.mean(ranks == ranks_shifted) > 0.9


@STORAGES
def test_scores_that_would_overflow_exp_are_evaluated(storage):
    weights = Weights.zeros(20, 2, by_feature=storage == "sparse")
    weights.coef[:, 0] = np.linspace(-3000, 3000, 20)
    X = np.array([[1, 0], [-1, 0], [0, 0]], dtype=np.float32)
    losses, _ = weights.log_losses(as_storage(X, storage), np.zeros(3, dtype=np.int32), 1)
    np.testing.assert_allclose(losses, [6000, 0, np.log(20)], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("fitted_on", ["sparse", "dense"])
@STORAGES
@pytest.mark.parametrize("n_classes", [2, 21])
def test_a_fitted_model_answers_like_its_coefficients(n_classes, storage, fitted_on, seed):
    X, y = planted(np.random.default_rng(seed), 200, 6, n_classes, scale=2)
    X[3] = 0
    labels = np.array([f"class {k:02d}" for k in range(n_classes)])
    model = SoftmaxClassifier(random_state=0, max_iter=3).fit(as_storage(X, fitted_on), labels[y])
    data = as_storage(X, storage)
    z = X.astype(np.float64) @ model.coef_.astype(np.float64).T + model.intercept_
    log_p = z - logsumexp(z, axis=1, keepdims=True)
    atol = 1e-5  # scores below 16 summed in float: 8 roundings of 2^-20
    expected = z[:, 1] - z[:, 0] if n_classes == 2 else z
    np.testing.assert_allclose(model.decision_function(data), expected, rtol=0, atol=atol)
    np.testing.assert_allclose(model.predict_log_proba(data), log_p, rtol=0, atol=2 * atol)
    proba = model.predict_proba(data)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(proba, np.exp(log_p), rtol=0, atol=2 * atol)
    best = np.sort(z, axis=1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > atol
    assert np.array_equal(model.predict(data)[clear], labels[np.argmax(z, axis=1)][clear])
    top, top_log_p = model.predict_top_k(data, 2)
    assert np.array_equal(top[:, 0], model.predict(data))
    np.testing.assert_allclose(top_log_p, np.sort(log_p, axis=1)[:, :-3:-1], rtol=0, atol=2 * atol)
    answers = model.evaluate(data, labels[y])
    assert answers["log_loss"] == pytest.approx(-np.mean(log_p[np.arange(200), y]), abs=2 * atol)
    ranks = np.argmax(np.argsort(-z, axis=1, kind="stable") == y[:, np.newaxis], axis=1)
    assert answers["error"] == pytest.approx(np.mean(ranks > 0), abs=np.mean(~clear))
    assert answers["top5_error"] == pytest.approx(np.mean(ranks >= 5), abs=0.01)


def test_k_outside_the_classes_is_refused(seed):
    X, y = planted(np.random.default_rng(seed), 60, 3, 5)
    model = SoftmaxClassifier(max_iter=1).fit(X, y)
    for k in (0, 6, -1):
        with pytest.raises(ValueError, match=f"k is {k}; it must be at least 1 and at most 5"):
            model.predict_top_k(X, k)
    with pytest.raises(TypeError, match=r"k is 2\.5; it must be an integer"):
        model.predict_top_k(X, 2.5)


def test_the_core_refuses_arrays_that_do_not_fit(seed):
    weights, X, y = random_model(seed, 10, 4, 18, "sparse")
    asked, short = weights._in_core, np.zeros(3, np.float32)
    indptr, indices, data = csr_parts(sp.csr_array(X))
    good = (indptr, indices, data)
    with pytest.raises(ValueError, match="a label is out of range"):
        asked.log_losses(good, y + np.int32(18), NO_FLOATS, 1)
    with pytest.raises(ValueError, match="X and y differ in length"):
        asked.log_losses(good, y[:-1].copy(), NO_FLOATS, 1)
    with pytest.raises(ValueError, match=r"feature 9 is outside \[0, 4\)"):
        asked.scores((indptr, np.full_like(indices, 9), data), NO_FLOATS, 1)
    with pytest.raises(ValueError, match="indptr decreases at row 1"):
        asked.scores((np.array([0, 4, 2, len(data)]), indices, data), NO_FLOATS, 1)
    with pytest.raises(ValueError, match="do not describe one CSR matrix"):
        asked.scores((indptr[:-1].copy(), indices, data), NO_FLOATS, 1)
    with pytest.raises(ValueError, match="one value for each class"):
        asked.scores(good, short, 1)
    with pytest.raises(TypeError, match="must be a tuple"):
        asked.scores(X, NO_FLOATS, 1)
    dense, phi, _ = random_model(seed, 10, 4, 18, "dense")
    with pytest.raises(ValueError, match="do not fit the data"):
        dense._in_core.scores(phi[:, :3].copy(), NO_FLOATS, 1)
