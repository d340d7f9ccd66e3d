"""Weights over a map of the features: every answer against its definition, however the points are cut into blocks."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from test_plans_of_batches import SOFTMAX as PLAN

from manyclass import DecomposedIndex, MarginClassifier, SoftmaxClassifier, SphericalClusterIndex, samplers
from manyclass.training.minibatches import BatchesTraining
from manyclass.training.plan import Labels
from manyclass.training.state import EarlierModel, Points
from manyclass.weights.weights import Weights

N, D, K, DIM = 23, 6, 9, 5
KINDS = [(None, False), (DIM, False), (DIM, True)]  # linear, embeddings, embeddings through a rectifier


def some_weights(seed, dim, relu, intercept):
    rng = np.random.default_rng(seed)
    weights = Weights.start_over_phi(K, D, embedding_dim=dim, intercept=intercept, relu=relu, rng=rng)
    weights.coef[...] = rng.normal(size=weights.coef.shape)
    if intercept:
        weights.matrix[:, weights.n_hidden] = rng.normal(size=K)
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)).astype(np.float32)
    return weights, X, rng.integers(0, K, N).astype(np.int32)


def definition(weights, X):
    """phi and the scores of all classes, in double precision."""
    phi = X.astype(np.float64)
    if weights.embeddings.size:
        phi = phi @ weights.embeddings[:, : weights.n_hidden]
        phi = np.maximum(phi, 0) if weights.relu else phi
    return phi, phi @ weights.coef.T.astype(np.float64) + weights.intercept


@pytest.mark.parametrize("block_points", [1, 4, 1000])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("dim", "relu"), KINDS)
def test_every_answer_is_that_of_the_definition_in_blocks_of_any_size(
    dim, relu, intercept, sparse, block_points, seed, monkeypatch
):
    weights, X, labels = some_weights(seed, dim, relu, intercept)
    monkeypatch.setattr("manyclass.weights.weights.BLOCK_NUMBERS", block_points * weights.matrix.shape[1])
    x = sp.csr_array(X) if sparse else X
    phi, z = definition(weights, X)
    atol = 64 * 2**-23 * np.abs(z).max()  # two sums of some ten products each, in single precision
    np.testing.assert_allclose(weights.transform(x), phi, rtol=0, atol=atol)
    np.testing.assert_allclose(weights.scores(x, 1), z, rtol=0, atol=atol)
    normalizers = logsumexp(z, axis=1)
    np.testing.assert_allclose(weights.log_normalizers(x, 1), normalizers, rtol=0, atol=atol)
    losses, ranks = weights.log_losses(x, labels, 1)
    own = z[np.arange(N), labels]
    np.testing.assert_allclose(losses, normalizers - own, rtol=0, atol=2 * atol)
    order = np.argsort(-z, axis=1, kind="stable")  # equal scores, such as those of phi = 0, stand by class
    np.testing.assert_array_equal(ranks, np.argmax(order == labels[:, np.newaxis], axis=1))
    best, log_p = weights.top_k(x, 3, 1)
    np.testing.assert_array_equal(best, order[:, :3])
    np.testing.assert_allclose(log_p, np.sort(z)[:, :-4:-1] - normalizers[:, np.newaxis], rtol=0, atol=2 * atol)
    firsts, tiles = zip(*weights.score_tiles(x, 1), strict=True)
    assert firsts == tuple(np.cumsum([0, *map(len, tiles[:-1])]))
    np.testing.assert_allclose(np.concatenate(tiles), z, rtol=0, atol=atol)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("dim", "relu"), KINDS)
def test_queries_times_rows_of_an_index_are_the_scores(dim, relu, intercept, seed):
    weights, X, _ = some_weights(seed, dim, relu, intercept)
    assert weights.columns.shape == (K, weights.n_hidden + intercept)
    found = weights.phi(X)[:, : weights.columns.shape[1]].astype(np.float64) @ weights.columns.T.astype(np.float64)
    np.testing.assert_allclose(found, definition(weights, X)[1], rtol=0, atol=32 * 2**-23 * np.abs(found).max())


def test_embeddings_start_with_an_expected_length_of_1_and_classes_at_0(seed):
    weights = Weights.start_over_phi(
        3, 4000, embedding_dim=20, intercept=True, relu=False, rng=np.random.default_rng(seed)
    )
    squares = np.sum(weights.embeddings.astype(np.float64) ** 2, axis=1)
    # A squared length is chi-square / 20, of standard deviation sqrt(2 / 20); six standard errors of the mean.
    assert squares.mean() == pytest.approx(1, abs=6 * np.sqrt(0.1 / 4000))
    assert not weights.matrix.any()
    assert not weights.embeddings[:, 20:].any()  # the padding


# Which source a pass has, and the index that it makes


def training(seed_of_data, **changes):
    weights, X, labels = some_weights(seed_of_data, None, False, True)
    plan = replace(PLAN, dim=None, n_negatives=3, budget=4, **changes)
    points = Points.numbered(X, Labels.single(labels), weights.n_classes)
    return BatchesTraining(plan, points, EarlierModel(weights, np.ones(weights.n_classes), 0))


@pytest.mark.parametrize("source", ["mips", "decomposed", "messages"])
@pytest.mark.parametrize("warm_up", [0, 1, 3])
def test_a_search_begins_after_as_many_passes_as_warm_up_says(source, warm_up, seed):
    made = training(seed, source=source, warm_up=warm_up)
    expected = ["sampled"] * warm_up + [source] * (5 - warm_up)
    assert [made._source(epoch) for epoch in range(5)] == expected
    assert made._made_for == expected[0]


@pytest.mark.parametrize("source", ["exact", "sampled"])
def test_other_sources_know_no_warm_up(source, seed):
    made = training(seed, source=source, warm_up=3)
    assert [made._source(epoch) for epoch in range(5)] == [source] * 5


@pytest.mark.parametrize(
    ("source", "example", "kind"),
    [
        ("mips", None, SphericalClusterIndex),
        ("decomposed", None, DecomposedIndex),
        ("messages", None, DecomposedIndex),
        ("mips", SphericalClusterIndex(3, n_probe=2, random_state=77), SphericalClusterIndex),
        ("decomposed", DecomposedIndex(2, n_clusters=4), DecomposedIndex),
    ],
    ids=str,
)
def test_the_index_has_the_seed_and_the_threads_of_the_plan_and_the_rows_of_now(source, example, kind, seed):
    made = training(seed, source=source, warm_up=0, index=example, seed=2**40 + 5, n_threads=2)
    index = made._index
    assert type(index) is kind
    assert index is not example
    given = None if example is None else example.random_state
    assert index.random_state == (5 if given is None else given)
    assert index.n_jobs == 2
    np.testing.assert_array_equal(index.rows_, made.weights.columns)
    if example is None and kind is DecomposedIndex:
        assert index.n_blocks == min(8, D + 1)
    if example is not None:
        assert not hasattr(example, "n_rows_")
        own = {name: value for name, value in example.get_params().items() if name not in ("random_state", "n_jobs")}
        assert index.get_params().items() >= own.items()


# How many labels are predicted


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1, 1, 1], 1), ([2, 1, 1], 1), ([2, 2, 1], 2), ([3, 3, 2], 3), ([3, 2, 2], 2), ([1, 0, 0], 1), ([4, 4, 0], 4)],
    ids=str,
)
@pytest.mark.parametrize("estimator", [MarginClassifier(max_iter=1), SoftmaxClassifier(max_iter=1)], ids=["m", "s"])
def test_as_many_labels_are_predicted_as_the_rows_with_labels_have_rounded(estimator, sizes, expected):
    Y = np.zeros((len(sizes), 6), dtype=np.int64)
    for i, size in enumerate(sizes):
        Y[i, :size] = 1
    model = estimator.fit(np.eye(len(sizes), dtype=np.float32), Y)
    assert model.n_labels_ == expected
    model._taken(replace(model._fitted, threshold=None))  # as in a model that an older version has saved
    assert (model.predict(np.eye(len(sizes))).sum(axis=1) == expected).all()


def test_a_warm_search_is_a_search_and_a_cold_one_draws(seed):
    """With as many passes of warm-up as there are, nothing but draws is seen."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 5)).astype(np.float32), np.append(np.arange(12), rng.integers(0, 12, 28))
    common = {"n_negatives": 3, "max_iter": 2, "random_state": 3}
    cold = SoftmaxClassifier(sampler=samplers.Search(budget=3, warm_up=2), **common).fit(X, y)
    drawn = SoftmaxClassifier(solver="adagrad", sampler=samplers.Frequency(), **common).fit(X, y)
    warm = SoftmaxClassifier(sampler=samplers.Search(budget=3, warm_up=1), **common).fit(X, y)
    np.testing.assert_array_equal(cold.coef_, drawn.coef_)
    assert (warm.coef_ != cold.coef_).any()
    assert warm.loss_curve_[0] == cold.loss_curve_[0]
