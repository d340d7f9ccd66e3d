"""Hidden layers of dense rows: their centre and their bias, wherever a model's weights go."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, load, models
from manyclass.classifiers.predictions import state_of
from manyclass.weights.weights import Weights

N, D, K, DIM = 90, 7, 5, 6


@pytest.fixture
def rows(seed):
    """Rows about a mean that is far from 0, which a layer without a bias does not see."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % K
    means = rng.standard_normal((K, D))
    return (3 + means[y] + 0.5 * rng.standard_normal((N, D))).astype(np.float32), y


@pytest.fixture
def model(rows):
    layer = models.Embedding(activation="relu")
    return SoftmaxClassifier(model=layer, dim=DIM, max_iter=4, random_state=0).fit(*rows)


def numpy_scores(model, X, kept=slice(None)):
    """W max((x, 0) E - m E, 0) + b in double precision."""
    weights = state_of(model).weights
    E, m = weights.embeddings[:, :DIM].astype(float)[kept], weights.centre.astype(float)
    about = (np.column_stack([X, np.zeros(len(X))]) - m)[:, kept]
    return np.maximum(about @ E, 0) @ model.coef_.T + model.intercept_


def test_the_centre_is_the_mean_and_the_bias_is_as_long_as_centred_rows(model, rows):
    X, _ = rows
    centre = state_of(model).weights.centre
    np.testing.assert_allclose(centre[:-1], X.mean(axis=0), rtol=1e-6)
    assert centre[-1] == pytest.approx(-np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))), rel=1e-5)
    assert model.embedding_.shape == (D, DIM)


def test_scores_are_those_of_numpy_for_every_form_of_a_row_and_of_the_weights(model, rows, tmp_path):
    X, _ = rows
    expected = numpy_scores(model, X)
    model.save(tmp_path / "model")
    for same in (model, load(tmp_path / "model"), load(tmp_path / "model", mmap=True), model.compress("float32")):
        np.testing.assert_allclose(same.decision_function(X), expected, rtol=0, atol=2e-4)
        np.testing.assert_allclose(same.decision_function(sp.csr_array(X)), expected, rtol=0, atol=2e-4)
    small = model.compress("float16")
    small.save(tmp_path / "small")
    np.testing.assert_allclose(small.decision_function(X), expected, rtol=0, atol=0.05)
    np.testing.assert_array_equal(load(tmp_path / "small").decision_function(X), small.decision_function(X))


def test_features_that_are_dropped_take_their_part_of_the_centre_with_them(model, rows, tmp_path):
    X, _ = rows
    pruned = model.compress("float32", prune=0.4)
    kept = state_of(pruned).weights.features
    assert len(kept) < D + 1
    np.testing.assert_allclose(pruned.decision_function(X), numpy_scores(model, X, kept), rtol=0, atol=2e-4)
    pruned.save(tmp_path / "pruned")
    np.testing.assert_array_equal(load(tmp_path / "pruned").decision_function(X), pruned.decision_function(X))


def test_a_score_is_the_sum_of_what_features_add_and_of_what_is_there_without_them(model, rows):
    X, _ = rows
    scores = numpy_scores(model, X)
    for row, told in zip(scores, model.explain(X, D), strict=True):
        assert told.intercept + told.contributions.sum() + told.others == pytest.approx(row.max(), abs=5e-4)
    alone, weights = numpy_scores(model, np.eye(D)) - numpy_scores(model, np.zeros((1, D))), model.top_features(2, D)
    np.testing.assert_allclose(alone[weights[0], 2], weights[1], rtol=0, atol=1e-4)


def test_new_features_change_no_score_and_the_bias_stays_the_last_row(model, rows):
    X, y = rows
    wider = state_of(model).weights.widened(D + 2)
    X_wider = np.column_stack([X, np.ones((N, 2), np.float32)])
    np.testing.assert_allclose(wider.scores(X_wider, 1), numpy_scores(model, X), rtol=0, atol=2e-4)
    model.partial_fit(X_wider, y, new_features="grow")
    assert model.embedding_.shape == (D + 2, DIM)
    assert model.embedding_[D:].any()


def test_a_mean_of_models_with_other_centres_has_the_mean_of_their_scores(model, rows):
    X, y = rows
    other = SoftmaxClassifier(model=model.model, dim=DIM, max_iter=2, random_state=1).fit(X[::2] + 1, y[::2])
    expected = (numpy_scores(model, X) + numpy_scores(other, X)) / 2
    mean: Weights = state_of(model).weights.add_to_mean(state_of(other).weights, 1)
    np.testing.assert_allclose(mean.scores(X, 1), expected, rtol=0, atol=5e-4)


def test_a_shift_of_all_rows_changes_no_score(model, rows):
    X, y = rows
    shifted = SoftmaxClassifier(**model.get_params(deep=False)).fit(X + 8, y)
    np.testing.assert_allclose(shifted.decision_function(X + 8), model.decision_function(X), rtol=0, atol=1e-3)


def test_a_stream_keeps_the_centre_of_its_first_rows(model, rows):
    X, y = rows
    stream = SoftmaxClassifier(model=model.model, dim=64, random_state=0)
    centre = state_of(stream.partial_fit(X[:30], y[:30], classes=range(K))).weights.centre
    for first in range(30, 5 * N, 30):
        part = slice(first % N, first % N + 30)
        stream.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(state_of(stream).weights.centre, centre)
    assert stream.score(X, y) > 0.8
    assert stream.partial_fit(sp.csr_array(X), y).score(X, y) > 0.8


def test_rows_that_are_all_alike_leave_numbers():
    X = np.full((12, 3), 2.5, np.float32)
    model = SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=4, random_state=0)
    model.fit(X, np.arange(12) % 3)
    assert np.isfinite(model.decision_function(X)).all()
