"""Prediction of a row by an 8-bit copy of class vectors: exact labels, and a normaliser whose error is told."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import isas
from scipy.special import logsumexp
from sklearn.base import clone

from manyclass import SoftmaxClassifier, _core, load
from manyclass.classifiers.predictions import build_index
from manyclass.search import class_index
from manyclass.weights.weights import Weights


def padded(rng, n_rows, n_coded, *, intercept):
    """Random rows in lines of sixteen, with intercepts ten times as large as the numbers before them."""
    rows = np.zeros((n_rows, -(-(n_coded + intercept) // 16) * 16), dtype=np.float32)
    rows[:, :n_coded] = rng.standard_normal((n_rows, n_coded)) * rng.exponential(size=(n_rows, 1))
    if intercept:
        rows[:, n_coded] = 10 * rng.standard_normal(n_rows)
    return rows


def queries(rng, n, rows, n_coded, *, intercept):
    phi = np.zeros((n, rows.shape[1]), dtype=np.float32)
    phi[:, :n_coded] = rng.standard_normal((n, n_coded))
    phi *= 2 / np.linalg.norm(phi, axis=1, keepdims=True)
    if intercept:
        phi[:, n_coded] = 1
    return phi


def copied(rows, n_coded, *, intercept):
    return _core.ByteRows(rows, n_coded=n_coded, has_intercept=intercept, n_threads=1)


def best(copy, phi, k, isa="auto", n_threads=1, *, twice=True):
    return copy.best(phi, k, normalizers=True, twice=twice, n_threads=n_threads, isa=isa)


def exact(rows, phi, k):
    weights = Weights.linear(rows, np.zeros(len(rows), dtype=np.float32), by_feature=False)
    return weights.top_k(phi, k, 1)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n_rows", "n_coded"), [(1, 1), (17, 3), (100, 16), (150, 31), (333, 130)])
def test_the_best_rows_are_those_of_a_pass_over_all_floats(n_rows, n_coded, intercept, seed):
    rng = np.random.default_rng(seed)
    rows = padded(rng, n_rows, n_coded, intercept=intercept)
    rows[n_rows // 2 :: 3] = rows[0]  # equal scores stand by class
    phi = queries(rng, 20, rows, n_coded, intercept=intercept)
    phi[3, :n_coded] = 0
    for isa in isas():
        for k in {1, min(5, n_rows), n_rows}:
            copy = copied(rows, n_coded, intercept=intercept)
            ids, scores, log_z, std = best(copy, phi, k, isa)
            expected, log_p = exact(rows, phi, k)
            np.testing.assert_array_equal(ids, expected)
            alone = copy.best(phi, k, normalizers=False, twice=False, n_threads=1, isa=isa)
            for found, beside in zip(alone, (ids, scores, [], []), strict=True):
                np.testing.assert_array_equal(found, beside)
            for found, beside in zip(best(copy, phi, k, isa, twice=False)[:2], (ids, scores), strict=True):
                np.testing.assert_array_equal(found, beside)
            z = phi.astype(np.float64) @ rows.T.astype(np.float64)
            # Scores below 2^7 in sums of up to 144 floats, whose roundings are 2^-24 of a term.
            np.testing.assert_allclose(scores, np.take_along_axis(z, ids, 1), rtol=0, atol=144 * 2.0**-17)
            if k == n_rows:
                assert (std == 0).all()
                above = logsumexp(z, axis=1) - scores[:, 0]  # log Z less the best score is what the core tells
                np.testing.assert_allclose(log_z, above, rtol=0, atol=144 * 2.0**-17)
                told = (scores.astype(float) - scores[:, :1]) - log_z[:, np.newaxis]
                np.testing.assert_allclose(told, log_p, rtol=0, atol=144 * 2.0**-16)


@pytest.mark.parametrize(("normalizers", "twice"), [(True, True), (True, False), (False, False)])
def test_an_answer_depends_on_its_query_alone(normalizers, twice, seed):
    """Queries pass in tiles of 256, several in a kernel; rows in groups of sixteen, and as many as a cache holds."""
    rng = np.random.default_rng(seed)
    rows = padded(rng, 1_111, 120, intercept=True)
    phi = queries(rng, 301, rows, 120, intercept=True)
    copy = copied(rows, 120, intercept=True)
    whole = copy.best(phi, 3, normalizers=normalizers, twice=twice, n_threads=1)
    several = copy.best(phi, 3, normalizers=normalizers, twice=twice, n_threads=3)
    some = [
        copy.best(phi[at : at + 7], 3, normalizers=normalizers, twice=twice, n_threads=1) for at in range(0, 301, 7)
    ]
    for found, by_threads, *parts in zip(whole, several, *some, strict=True):
        np.testing.assert_array_equal(by_threads, found)
        np.testing.assert_array_equal(np.concatenate(parts), found)


@pytest.mark.parametrize("isa", isas())
def test_the_normaliser_counts_each_row_once(isa, seed):
    """Rows and queries are the integers that codes are, scaled, so that codes have no error."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((1_003, 16), dtype=np.float32)
    rows[:, :15] = rng.integers(-127, 128, (1_003, 15))
    rows[:, 15] = 127
    rows *= np.float32(2.0**-8)
    phi = np.float32(2.0**-6) * np.sign(rng.standard_normal((40, 16))).astype(np.float32)
    z = phi.astype(np.float64) @ rows.T.astype(np.float64)
    copy = copied(rows, 16, intercept=False)
    for k, twice in ((1, True), (4, True), (500, True), (1, False), (4, False), (500, False)):
        _, scores, log_z, std = best(copy, phi, k, isa, twice=twice)
        # Exponentials to 2 ulp and sums of floats, a few dozen of them before they become doubles: some 2^-21.
        np.testing.assert_allclose(log_z + scores[:, 0], logsumexp(z, axis=1), rtol=0, atol=2.0**-20)
        assert (std < 1e-6).all()


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e20, 1e30])
def test_ties_of_huge_scores_share_their_probability(scale, seed):
    rng = np.random.default_rng(seed)
    rows = padded(rng, 100, 16, intercept=False)
    rows[:, :16] /= np.linalg.norm(rows[:, :16], axis=1, keepdims=True)
    rows[[5, 40, 99]] = 3 * rows[5]
    phi = np.float32(scale) * 9 * rows[[5]]
    found = best(copied(rows, 16, intercept=False), phi, 3)
    if found is None:  # all classes are scored then
        assert scale > 1e10
        return
    ids, scores, log_z, _ = found
    assert ids.tolist() == [[5, 40, 99]]
    np.testing.assert_allclose((scores.astype(float) - scores[:, :1]) - log_z[:, np.newaxis], -np.log(3), atol=1e-4)


def test_errors_of_the_normaliser_are_as_large_as_it_says(seed):
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(30):  # the errors of one matrix's normalisers go together
        rows = padded(rng, 400, 24, intercept=True)
        rows[:, :25] = rng.standard_normal((400, 25))  # so that no few rows have all of the probability
        phi = queries(rng, 10, rows, 24, intercept=True)
        _, scores, log_z, std = best(copied(rows, 24, intercept=True), phi, 3)
        z = phi.astype(np.float64) @ rows.T.astype(np.float64)
        assert (std > 1e-5).all()  # above the rounding of scores, 1e-6, which it does not count
        ratios.append((log_z + scores[:, 0] - logsumexp(z, axis=1)) / std)
    # 30 matrices: the mean square of as many normal errors is within a factor of two of 1 but for one time in 10^4.
    assert 0.5 < np.mean(np.square(ratios)) < 2
    assert np.abs(ratios).max() < 6


@pytest.mark.parametrize("alike", [True, False])
def test_errors_that_rows_share_are_at_most_as_large_as_it_says(alike, seed):
    """Of one code: what is said holds where rows are nearly alike, as |sum p w| is sum p |w| then, and is a bound."""
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(30):
        rows = padded(rng, 400, 24, intercept=False)
        rows[:, :24] = rng.standard_normal(24) + (0.05 if alike else 1) * rng.standard_normal((400, 24))
        phi = queries(rng, 10, rows, 24, intercept=False)
        _, scores, log_z, std = best(copied(rows, 24, intercept=False), phi, 3, twice=False)
        z = phi.astype(np.float64) @ rows.T.astype(np.float64)
        exact_log_z = logsumexp(z, axis=1)
        # The best three are known exactly, so that the others' share of the normaliser is what may err.
        others = 1 - np.exp(np.take_along_axis(z, np.argsort(-z)[:, :3], 1) - exact_log_z[:, np.newaxis]).sum(axis=1)
        assert (std > 1e-4).all()
        assert (std < 0.02 * np.linalg.norm(phi, axis=1).max() * np.linalg.norm(rows, axis=1).max() * others).all()
        ratios.append((log_z + scores[:, 0] - exact_log_z) / std)
    # Errors of 300 queries are independent: their mean square is within .33 of 1 but for one time
    # in 10^4.
    assert np.mean(np.square(ratios)) < 1.33
    assert np.mean(np.square(ratios)) > (0.67 if alike else 0.1)
    assert np.abs(ratios).max() < 6


def test_a_query_beyond_floats_has_no_code_and_rows_beyond_them_are_refused():
    rng = np.random.default_rng(0)
    rows = padded(rng, 40, 8, intercept=True)
    phi = queries(rng, 2, rows, 8, intercept=True)
    for bad in (np.inf, np.nan, 3e38):
        phi[1, 2] = bad
        assert best(copied(rows, 8, intercept=True), phi, 2) is None
    rows[5, 3] = np.nan
    with pytest.raises(ValueError, match="row 5"):
        copied(rows, 8, intercept=True)


def test_shapes_that_do_not_fit_are_refused():
    rows = padded(np.random.default_rng(0), 40, 8, intercept=True)
    copy = copied(rows, 8, intercept=True)
    for n_coded in (0, 16):
        with pytest.raises(ValueError, match="columns to be coded"):
            copied(rows, n_coded, intercept=True)
    with pytest.raises(ValueError, match="do not fit the rows"):
        best(copy, np.zeros((1, 32), dtype=np.float32), 1)
    for k in (0, 41):
        with pytest.raises(ValueError, match="k is out of range"):
            best(copy, rows[:1], k)


# The estimator


@pytest.fixture
def model(monkeypatch, seed):
    """A model over embeddings with weights of a spread, searched as if it had many classes."""
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random_array((300, 40), density=0.1, rng=rng, dtype=np.float32))
    made = SoftmaxClassifier(model="embedding", dim=12, max_iter=1, random_state=0)
    made.fit(X, np.arange(300) % 60)
    made._weights.matrix[:, :13] = rng.standard_normal((60, 13))
    return made, X


@pytest.mark.parametrize("recall", [0.5, 1.0])
def test_a_row_has_its_exact_labels_and_log_probabilities_within_their_error(model, recall):
    model, X = model
    labels, log_p = model.predict_top_k(X[[3]], 5)
    found, found_log_p, std = model.predict_top_k(X[[3]], 5, approximate=True, recall=recall, return_std=True)
    np.testing.assert_array_equal(found, labels)
    assert (std < 1e-3) == (recall == 1)
    assert std > 0
    # Six standard deviations, and the rounding of log-probabilities near 8.
    np.testing.assert_allclose(found_log_p, log_p, rtol=0, atol=6 * std[0] + 4e-6)
    excluded, _ = model.predict_top_k(X[[3]], 4, approximate=True, exclude=[labels[0, :1]])
    np.testing.assert_array_equal(excluded, labels[:, 1:])


def test_a_copy_is_of_the_weights_of_the_last_fit_and_neither_pickled_nor_cloned(model):
    model, X = model
    model.predict_top_k(X[[0]], 2)
    assert not hasattr(model, "_kept_answers")  # exact answers need none
    model.predict_top_k(X[[0]], 2, approximate=True)
    first = model._kept_answers.copy
    model.predict_top_k(X[[1]], 2, approximate=True)
    assert model._kept_answers.copy is first
    assert model._kept_answers.index is None
    for other in (pickle.loads(pickle.dumps(model)), clone(model)):
        assert not hasattr(other, "_kept_answers")
    model.fit(X, np.arange(300) % 60)
    labels, _ = model.predict_top_k(X[:2], 3, approximate=True)
    np.testing.assert_array_equal(labels, model.predict_top_k(X[:2], 3)[0])
    assert model._kept_answers.weights is model._weights


def test_a_tuned_index_needs_no_copy(model, monkeypatch):
    monkeypatch.setattr(class_index, "slower", lambda *_: "")
    monkeypatch.setattr(class_index, "MOST_PROBED", 1)
    model, X = model
    build_index(model, X, 2, 0.9)
    model.predict_top_k(X[[0]], 2, approximate=True, recall=0.9)
    assert model._kept_answers.copy is None
    model.predict_top_k(X[[0]], 3, approximate=True, recall=0.9)  # of another k, which is not tuned
    assert model._kept_answers.copy is not None


def test_features_beyond_floats_are_scored_over_all_classes(model):
    model, X = model
    huge = sp.csr_array(X[[0]] * np.float32(3e38))
    labels, log_p, std = model.predict_top_k(huge, 3, approximate=True, return_std=True)
    expected, expected_log_p = model.predict_top_k(huge, 3)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(log_p, expected_log_p)
    assert (std == 0).all()


def test_an_index_that_searches_most_clusters_gives_way_to_the_copy(model, monkeypatch):
    monkeypatch.setattr(class_index, "slower", lambda *_: "")
    monkeypatch.setattr(class_index, "MOST_PROBED", 0)
    model, X = model
    build_index(model, X, 2, 0.9)
    assert model._kept_answers.index.probes(2, 0.9)
    model.predict_top_k(X, 2, approximate=True, recall=0.9)
    assert model._kept_answers.copy is not None


def test_labels_by_the_copy_are_those_of_all_scores(model, monkeypatch):
    model, X = model
    labels, _ = model.predict_top_k(X, 1)
    np.testing.assert_array_equal(model.predict(X), labels[:, 0])
    assert not hasattr(model, "_kept_answers")  # 64 classes for each that is wanted are too many here
    monkeypatch.setattr(class_index, "CLASSES_A_BEST", 8)
    monkeypatch.setattr(class_index, "COPY_ROWS", 300)
    monkeypatch.setattr(class_index, "BLOCK_ROWS", 128)
    model.predict(X[:299])
    assert model._kept_answers.copy is None  # so few rows do not pay for it
    np.testing.assert_array_equal(model.predict(X), labels[:, 0])
    copy = model._kept_answers.copy
    assert copy is not None
    np.testing.assert_array_equal(model.predict(X[:3]), labels[:3, 0])  # few rows, once there is a copy
    huge = sp.csr_array(X[[0]] * np.float32(3e38))
    np.testing.assert_array_equal(model.predict(huge), model.predict_top_k(huge, 1)[0][:, 0])
    model.partial_fit(X, np.arange(300) % 60)
    np.testing.assert_array_equal(model.predict(X), model.predict_top_k(X, 1)[0][:, 0])
    assert model._kept_answers.copy is not copy


def test_sets_of_labels_by_the_copy_are_those_of_all_scores(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random_array((200, 40), density=0.1, rng=rng, dtype=np.float32))
    Y = sp.csr_array(sp.random_array((200, 60), density=0.05, rng=rng) > 0)
    model = SoftmaxClassifier(model="embedding", dim=12, max_iter=1, random_state=0).fit(X, Y)
    expected = model.predict(X, k=2)
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    monkeypatch.setattr(class_index, "COPY_ROWS", 1)
    monkeypatch.setattr(class_index, "CLASSES_A_BEST", 8)
    assert (model.predict(X, k=2) != expected).nnz == 0
    assert model._kept_answers.copy is not None


def test_weights_that_are_mapped_have_no_copy(model, monkeypatch, tmp_path):
    monkeypatch.setattr(class_index, "COPY_ROWS", 1)
    monkeypatch.setattr(class_index, "CLASSES_A_BEST", 8)
    model, X = model
    model.save(tmp_path / "model.safetensors")
    mapped = load(tmp_path / "model.safetensors", mmap=True)
    np.testing.assert_array_equal(mapped.predict(X), model.predict(X))
    assert not hasattr(mapped, "_kept_answers")
