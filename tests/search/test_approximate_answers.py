"""Prediction through an index: exact where all is scored, an unbiased normaliser, its error, recall that is checked."""

import pickle
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import isas
from reference.problems import as_storage, planted
from reference.rng import Rng
from reference.states import with_weights
from scipy.special import logsumexp
from sklearn.base import clone

from manyclass import AugmentReduceClassifier, SoftmaxClassifier, SphericalClusterIndex
from manyclass.classifiers.predictions import build_index
from manyclass.search import class_index
from manyclass.weights.weights import Weights

K, D = 300, 10
PER_SAMPLE = 64  # queries that share a draw


@pytest.fixture
def small(monkeypatch):
    """Search the few classes of a test as if they were many, with heads and tails to match."""
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    monkeypatch.setattr(class_index, "slower", lambda *_: "")
    monkeypatch.setattr(class_index, "HEAD", 8)
    monkeypatch.setattr(class_index, "TAIL", 40)


def model_of(seed, *, n_classes=K, storage="dense", intercept=True, scale=3.0, **parameters):
    """A fitted model whose weights are planted: clusters of classes, so that an index has something to find."""
    rng = np.random.default_rng(seed)
    model = SoftmaxClassifier(max_iter=1, random_state=7, **parameters)
    X, y = rng.random((3 * n_classes, D), dtype=np.float32), np.tile(np.arange(n_classes), 3)
    model.fit(as_storage(X, storage), y + 1000)
    centres = rng.standard_normal((30, D))
    model._weights.coef[:] = scale * (
        centres[rng.integers(0, 30, n_classes)] + 0.5 * rng.standard_normal((n_classes, D))
    )
    model._weights.intercept[:] = rng.standard_normal(n_classes) if intercept else 0
    return model, rng


def points(rng, n):
    X = rng.standard_normal((n, D)).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def log_p_of(model, X):
    z = X.astype(np.float64) @ model.coef_.astype(np.float64).T + model.intercept_
    return z - logsumexp(z, axis=1, keepdims=True)


def clear(log_p, k):
    """Rows whose k + 1 best scores are apart by more than rounding, so that their order is known."""
    best = -np.sort(-log_p, axis=1)[:, : k + 1]
    return (best[:, :-1] - best[:, 1:]).min(axis=1) > 1e-4


# Scores below 2^5 in sums of 11 floats: 11 roundings of 2^-20, in the score and in the normaliser.
ROUNDING = 22 * 2.0**-20


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("fitted_on", ["dense", "sparse"])
def test_at_recall_1_labels_are_the_exact_ones_and_probabilities_too_where_all_are_scored(
    small, fitted_on, storage, intercept, monkeypatch, seed
):
    model, rng = model_of(seed, storage=fitted_on, intercept=intercept)
    X = points(rng, 200)
    labels, log_p, std = model.predict_top_k(as_storage(X, storage), 5, approximate=True, recall=1, return_std=True)
    expected = log_p_of(model, X)
    order = np.argsort(-expected, axis=1)[:, :5]
    sure = clear(expected, 5)
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(labels[sure], model.classes_[order[sure]])
    assert (std > 0).all()
    assert labels.shape == log_p.shape == (200, 5)
    assert log_p.dtype == np.float32

    monkeypatch.setattr(class_index, "TAIL", K)
    _, log_p, std = model.predict_top_k(as_storage(X, storage), 5, approximate=True, recall=1, return_std=True)
    assert (std == 0).all()
    np.testing.assert_allclose(log_p, -np.sort(-expected, axis=1)[:, :5], rtol=0, atol=ROUNDING)


def test_few_classes_are_all_scored(seed):
    model, rng = model_of(seed)
    X = points(rng, 50)
    labels, log_p, std = model.predict_top_k(X, 4, approximate=True, recall=0.5, return_std=True)
    exact_labels, exact_log_p = model.predict_top_k(X, 4)
    np.testing.assert_array_equal(labels, exact_labels)
    np.testing.assert_array_equal(log_p, exact_log_p)
    assert (std == 0).all()
    assert model._kept_answers.index is None
    assert (model.predict_top_k(X, 4, return_std=True)[2] == 0).all()


def test_more_classes_than_one_cluster_would_hold_are_searched(seed):
    model, rng = model_of(seed, n_classes=4200)
    X = points(rng, 300)
    labels, log_p, std = model.predict_top_k(X, 3, approximate=True, recall=0.9, return_std=True)
    exact_labels, exact_log_p = model.predict_top_k(X, 3)
    # 300 rows: three standard deviations of a share that is at least 0.9.
    assert np.mean([np.isin(a, b).mean() for a, b in zip(exact_labels, labels, strict=True)]) > 0.85
    same = labels[:, 0] == exact_labels[:, 0]
    assert (std > 0).all()
    assert np.abs(log_p[same, 0] - exact_log_p[same, 0]).max() < 1
    assert np.mean(np.abs(log_p[same, 0] - exact_log_p[same, 0]) <= 2 * std[same] + ROUNDING) > 0.7


# The normaliser


def sample_of(seed, item, n_rows, size):
    """The rows that the core draws for its queries number 64 item, 64 item + 1, ..."""
    rng, drawn = Rng(seed, 0, item), []
    while len(drawn) < size:
        k = rng.below(n_rows)
        if k not in drawn:
            drawn.append(k)
    return drawn


def estimate(z, head, drawn):
    """(Z, standard deviation of log Z) by the formulas of the header; z: all scores, head: ids."""
    tail = np.exp(z[np.setdiff1d(drawn, head)])
    others, t = len(z) - len(head), len(tail)
    value = np.exp(z[head]).sum() + others / t * tail.sum()
    variance = others**2 * (1 - t / others) * tail.var(ddof=1) / t if t < others else 0.0
    return value, np.sqrt(variance) / value


def normalizers(W, Q, *, width, sample_size, n_probe=1, seed=0, first=0, n_threads=1, isa="auto", absent=0):
    index = SphericalClusterIndex(5, n_probe=n_probe, random_state=0).fit(W)
    scores, ids = index.query(Q, width)
    scores[::3, width - absent :], ids[::3, width - absent :] = -np.inf, -1
    out = index._index.log_normalizers(
        Q, scores=scores, ids=ids, sample_size=sample_size, seed=seed, first=first, n_threads=n_threads, isa=isa
    )
    best = scores[:, :1].astype(np.float64)
    return ids, out[0] + best[:, 0], out[1]  # the core tells log Z less the best score


def test_the_estimate_equals_its_twin(seed):
    rng = np.random.default_rng(seed)
    W, Q = rng.standard_normal((60, 7)).astype(np.float32), rng.standard_normal((150, 7)).astype(np.float32)
    z = Q.astype(float) @ W.T.astype(float)
    for isa in isas():
        options = {"width": 18, "absent": 4, "sample_size": 21, "seed": seed, "first": 3 * PER_SAMPLE}
        ids, values, errors = normalizers(W, Q, **options, isa=isa)
        for i, (row, value, error) in enumerate(zip(ids, values, errors, strict=True)):
            drawn = sample_of(seed, 3 + i // PER_SAMPLE, 60, 21)
            expected, std = estimate(z[i], row[row >= 0], drawn)
            # Scores in float, below 2^5 and summed from 7 products; exponentials to 2 ulp.
            assert value == pytest.approx(np.log(expected), abs=1e-5)
            assert error == pytest.approx(std, rel=1e-3)


def test_over_all_samples_the_estimate_has_mean_z_and_its_variance_is_estimated_without_bias(seed):
    z = np.random.default_rng(seed).normal(scale=2, size=9)
    for head in ([], [4], [0, 8, 3]):
        for t in (2, 5):
            others = np.setdiff1d(np.arange(9), head)
            drawn = [estimate(z, head, np.array(some)) for some in combinations(others, t)]
            values, stds = np.array(drawn).T
            assert values.mean() == pytest.approx(np.exp(z).sum(), rel=1e-12)
            assert np.mean((stds * values) ** 2) == pytest.approx(values.var(), rel=1e-10)


def test_every_subset_of_rows_is_drawn_equally_often(seed):
    # Where the head is empty of mass and one row carries all, Z tells whether that row was drawn.
    W = np.zeros((8, 2), dtype=np.float32)
    W[5] = (20, 0)
    Q = np.tile(np.float32([1, 0]), (PER_SAMPLE * 4000, 1))
    index = SphericalClusterIndex(1, random_state=0).fit(W)
    ids = np.full((len(Q), 1), -1, dtype=np.int64)
    values, _ = index._index.log_normalizers(
        Q, scores=np.zeros(ids.shape, np.float32), ids=ids, sample_size=3, seed=seed, first=0, n_threads=2
    )
    hit = values[::PER_SAMPLE] > 10
    # 4,000 draws of probability 3 / 8: five standard deviations of 0.0077.
    assert hit.mean() == pytest.approx(3 / 8, abs=0.038)
    assert np.exp(values[::PER_SAMPLE]).mean() == pytest.approx(np.exp(20) + 7, rel=5 * 0.0077 / (3 / 8))


def test_normalisers_do_not_depend_on_threads_or_on_other_queries(seed):
    rng = np.random.default_rng(seed)
    W, Q = rng.standard_normal((80, 7)).astype(np.float32), rng.standard_normal((300, 7)).astype(np.float32)
    one = normalizers(W, Q, width=5, sample_size=20, seed=seed)
    three = normalizers(W, Q, width=5, sample_size=20, seed=seed, n_threads=3)
    later = normalizers(W, Q[128:200], width=5, sample_size=20, seed=seed, first=128)
    for a, b, c in zip(one, three, later, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a[128:200], c)
    other = normalizers(W, Q, width=5, sample_size=20, seed=seed + 1)
    assert (one[1] != other[1]).any()


def test_the_core_refuses_samples_and_ids_that_do_not_fit(seed):
    W = np.random.default_rng(seed).standard_normal((20, 3)).astype(np.float32)
    index = SphericalClusterIndex(1).fit(W)
    Q, good = W[:2], {"sample_size": 6, "seed": 0, "first": 0, "n_threads": 1}
    scores, ids = index.query(Q, 3)
    for changed, message in (
        ({"sample_size": 4}, "a sample has 4 rows; it must have all 20, or fewer and at least 5"),
        ({"sample_size": 21}, "a sample has 21 rows; it must have all 20"),
        ({"first": 3}, "the first query's number is not a multiple of 64"),
        ({"ids": ids + 20}, "an id is out of range"),
        ({"ids": ids[:1].copy()}, "each query needs ids"),
    ):
        with pytest.raises(ValueError, match=message):
            index._index.log_normalizers(Q, **({"scores": scores, "ids": ids} | good | changed))


# Through the estimator


@pytest.mark.parametrize("model", ["linear", "embedding"])
def test_weights_that_no_index_holds_are_answered_exactly_and_told(model, small, seed):
    rng = np.random.default_rng(seed)
    X = as_storage(rng.random((90, D), dtype=np.float32), "sparse" if model == "embedding" else "dense")
    found = SoftmaxClassifier(model=model, max_iter=1, random_state=seed).fit(X, np.arange(90) % 30)
    found._weights.matrix[:] *= np.float32(1e30)
    with pytest.warns(UserWarning, match="approximate=True is not followed: a weight is .* too large for an index"):
        labels, log_p = found.predict_top_k(X[:4], 3, approximate=True)
    expected = found.predict_top_k(X[:4], 3)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(log_p, expected[1])
    with pytest.raises(ValueError, match=r"of no use: a weight is .* too large for an index"):
        build_index(
            found, as_storage(np.ones((200, D), np.float32), "sparse" if model == "embedding" else "dense"), 3, 1.0
        )


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e4, 1e12, 1e25, 1e35])
def test_ties_of_huge_scores_share_their_probability_as_in_the_exact_answers(scale, storage, small, seed):
    """Their logarithm would be lost in the rounding of the normaliser."""
    model, rng = model_of(seed, storage=storage, intercept=False)
    coef = model._weights.coef
    coef[[3, 77, 200]] = 9 * coef[3]  # the best of rows in its direction
    rows = (points(rng, 40) + coef[3] / np.linalg.norm(coef[3])).astype(np.float32) * np.float32(scale)
    X = as_storage(rows, storage)
    labels, log_p = model.predict_top_k(X, 3)
    found, approximate = model.predict_top_k(X, 3, approximate=True, recall=1)
    assert np.isfinite(approximate).all()
    together = (labels == model.classes_[[3, 77, 200]]).all(axis=1)
    assert together.any()
    np.testing.assert_array_equal(found[together], labels[together])
    np.testing.assert_allclose(approximate[together], log_p[together], atol=1e-5)
    np.testing.assert_allclose(approximate[together], -np.log(3), atol=1e-3)
    rows[5:] *= 1e-30 if scale > 1e30 else 1  # some rows are too long for the index, others are not
    X = as_storage(rows, storage)
    both = [model.predict_top_k(X, 3, approximate=how, recall=1)[1] for how in (False, True)]
    np.testing.assert_allclose(both[1][together], both[0][together], atol=1e-5)


def test_predictions_do_not_depend_on_threads_and_repeat(small, seed):
    answers = []
    for n_jobs in (1, 3):
        model, rng = model_of(seed, n_jobs=n_jobs)
        X = points(rng, 500)
        answers += [model.predict_top_k(X, 5, approximate=True, recall=0.8, return_std=True) for _ in range(2)]
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    # Rows that come alone are answered as they are in company, once the probes are known.
    for a, b in zip(
        answers[0], model.predict_top_k(X[:70], 5, approximate=True, recall=0.8, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a[:70], b)
    model.set_params(random_state=8)
    same = model._weights
    with_weights(model, Weights.linear(same.matrix, same.intercept, by_feature=same.sparse))
    other_std = model.predict_top_k(X, 5, approximate=True, recall=0.8, return_std=True)[2]
    assert (other_std != answers[0][2]).any()


def test_blocks_of_rows_are_answered_as_one(small, monkeypatch, seed):
    model, rng = model_of(seed)
    X = points(rng, 400)
    whole = model.predict_top_k(X, 5, approximate=True, return_std=True)
    monkeypatch.setattr(class_index, "BLOCK_ROWS", PER_SAMPLE)
    for a, b in zip(whole, model.predict_top_k(X, 5, approximate=True, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_standard_error_tells_how_far_log_probabilities_are_off(small, monkeypatch, seed):
    monkeypatch.setattr(class_index, "TAIL", 100)
    model, rng = model_of(seed, scale=0.7)  # no class outside of the head stands out
    X = points(rng, 40 * PER_SAMPLE)
    labels, log_p, std = model.predict_top_k(X, 1, approximate=True, recall=1, return_std=True)
    exact = log_p_of(model, X)[np.arange(len(X)), labels[:, 0] - 1000]
    z = (log_p[:, 0] - exact) / std
    # 40 independent draws: the mean of z^2 is 1 up to three times sqrt(2 / 40), and the skewness of small samples.
    assert 0.4 < np.mean(z**2) < 2
    assert np.mean(np.abs(z) < 2) > 0.85


def test_a_missed_recall_is_told_with_its_value_and_the_remedy(small, seed):
    model, rng = model_of(seed)
    model.predict_top_k(points(rng, 9), 5, approximate=True)
    index = model._kept_answers.index._index
    own = [index.recall_curve(class_index.queries(w[np.newaxis], D + 1), k=5)[0] for w in model.coef_]
    alike = model.coef_[np.argmax(own)] + 0.01 * points(rng, 400)  # all look into one cluster
    model.predict_top_k(alike, 5, approximate=True, recall=0.9)
    n_probe = model._kept_answers.index._n_probe[5, 0.9]
    others = points(rng, 4000)
    with pytest.warns(UserWarning, match=r"the recall of 250 of these rows is 0\.\d+; it was to be 0\.9") as caught:
        model.predict_top_k(others, 5, approximate=True, recall=0.9)
    assert f"The number of probes, {n_probe} of 35, was chosen by other rows: ask for a larger" in str(
        caught[0].message
    )
    assert caught[0].filename == __file__
    model.predict_top_k(others, 5, approximate=True, recall=0.91)  # the remedy: warnings are errors here


def test_the_recall_asked_for_is_reached(small, seed):
    model, rng = model_of(seed)
    X = points(rng, 2000)
    exact, _ = model.predict_top_k(X, 5)
    reached = []
    for recall in (0.5, 0.9, 0.99):
        labels, _ = model.predict_top_k(X, 5, approximate=True, recall=recall)
        reached.append(np.mean([np.isin(a, b).mean() for a, b in zip(exact, labels, strict=True)]))
        # Chosen on 256 rows one standard deviation above the target: four of them, and of 2,000 rows, below it.
        assert reached[-1] > recall - 4 * np.sqrt(recall * (1 - recall) / 256)
    probes = [model._kept_answers.index._n_probe[5, recall] for recall in (0.5, 0.9, 0.99)]
    assert probes == sorted(probes)
    assert probes[0] < probes[-1] < model._kept_answers.index._index.n_clusters_


def test_few_rows_search_all_clusters_until_a_call_has_more(small, seed):
    model, rng = model_of(seed)
    X = points(rng, 127)
    few, _ = model.predict_top_k(X, 5, approximate=True, recall=0.6)
    np.testing.assert_array_equal(few, model.predict_top_k(X, 5, approximate=True, recall=1)[0])
    index = model._kept_answers.index
    assert index._n_probe == {}
    model.predict_top_k(points(rng, 128), 5, approximate=True, recall=0.6)
    assert index._n_probe[5, 0.6] < index._index.n_clusters_


def test_rows_whose_clusters_hold_too_few_classes_get_k_labels_all_the_same(small, seed):
    model, rng = model_of(seed)
    X = points(rng, 50)
    model.predict_top_k(X, 5, approximate=True)
    k = 60
    model._kept_answers.index._n_probe[k, 0.1] = 1
    labels, log_p = model.predict_top_k(X, k, approximate=True, recall=0.1)
    assert np.isfinite(log_p).all()
    for row in labels:
        assert len(set(row.tolist())) == k


def test_the_index_follows_fits_and_is_neither_cloned_nor_pickled(small, seed):
    model, rng = model_of(seed)
    X = points(rng, 60)
    before, _ = model.predict_top_k(X, 3, approximate=True)
    index = model._kept_answers.index
    model.predict_top_k(X, 3, approximate=True)
    assert model._kept_answers.index is index
    copy = pickle.loads(pickle.dumps(model))
    assert not hasattr(copy, "_kept_answers")
    np.testing.assert_array_equal(copy.predict_top_k(X, 3, approximate=True)[0], before)
    assert not hasattr(clone(model), "_kept_answers")
    X_new, y_new = planted(np.random.default_rng(seed), 300, D, 40)
    model.fit(X_new, y_new)
    labels, _ = model.predict_top_k(X_new, 3, approximate=True, recall=1)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X_new))


def test_what_cannot_be_approximated_is_refused(seed):
    X, y = planted(np.random.default_rng(seed), 60, 3, 5)
    model = SoftmaxClassifier(max_iter=1).fit(X, y)
    for recall in (0, -0.1, 1.5):
        with pytest.raises(ValueError, match=rf"recall is {recall}; it must be finite, more than 0 and at most 1"):
            model.predict_top_k(X, 2, approximate=True, recall=recall)
    for parameters, reason in (
        ({"noise": "normal"}, "noise is 'normal', whose probabilities need all scores"),
        ({"noise": "gumbel", "posterior": "gaussian", "alpha": 0.1}, "posterior is 'gaussian', whose predictions"),
    ):
        model = AugmentReduceClassifier(max_iter=1, **parameters).fit(X, y)
        with pytest.raises(ValueError, match=f"approximate=True needs the probabilities of a softmax; {reason}"):
            model.predict_top_k(X, 2, approximate=True)
        assert (model.predict_top_k(X, 2, return_std=True)[2] == 0).all()
    AugmentReduceClassifier(noise="gumbel", max_iter=1).fit(X, y).predict_top_k(X, 2, approximate=True)


def test_features_that_no_row_has_do_no_harm(small, seed):
    model, rng = model_of(seed, storage="sparse")
    X = sp.csr_array(points(rng, 20))
    X.data[X.indptr[3] : X.indptr[4]] = 0
    X.eliminate_zeros()
    labels, log_p = model.predict_top_k(X, 2, approximate=True, recall=1)
    exact, _ = model.predict_top_k(X, 2)
    np.testing.assert_array_equal(labels[3], exact[3])
    assert np.isfinite(log_p).all()
