"""Steps, features and weights at the ends of what floats hold: no NaN, no endless work, a divergence is told.

Each was found by random cases (tests/drawn) or by attackers of version 0.1.
"""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyclass import (
    AugmentReduceClassifier,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    _core,
    models,
    samplers,
    solvers,
)
from manyclass.blending.blend import best_scales
from manyclass.classifiers.files import weight_tensors
from manyclass.special import utility_probabilities
from manyclass.training.core_training import CoreTraining
from manyclass.training.incremental import KeptRows
from manyclass.training.plan import Labels, ScoredRows
from manyclass.training.state import LocalState
from manyclass.weights.weights import Weights

MOST = float(np.finfo(np.float32).max)


def finite(model, X):
    """Assert that weights and predictions are numbers."""
    for name, tensor in weight_tensors(model._weights).items():
        assert tensor.dtype.kind != "f" or np.isfinite(tensor).all(), name
    assert np.isfinite(model.decision_function(X)).all()
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)  # the quadrature of random utilities


def fitted(model, X, y, *, told=None, **given):
    """A fit without any warning but, where training is to diverge, the one that says so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **given)
    assert {w.category for w in caught} <= {ConvergenceWarning}, [str(w.message) for w in caught]
    assert told is None or bool(caught) == told
    finite(model, X)
    return model


# What was found in version 0.1


@pytest.mark.parametrize("log_q", [False, True])
@pytest.mark.parametrize("sampler", ["search", "frequency"])
def test_huge_steps_of_embeddings_are_told(log_q, sampler, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2, 17)).astype(np.float32)
    Y = np.zeros((2, 40), dtype=int)
    Y[[0, 1, 1], [3, 5, 39]] = 1
    model = SoftmaxClassifier(
        solver=solvers.Adagrad(log_q=log_q),
        model=models.Embedding(activation="relu"),
        dim=3,
        sampler=sampler,
        learning_rate=1e300,
        max_iter=8,
        random_state=seed,
    )
    fitted(model, X, Y, told=True)


def test_a_training_that_diverges_leaves_the_weights_reached_before(seed):
    """Those of n_iter_ = 0 are the first ones."""
    X = sp.random(200, 17, density=0.3, random_state=seed, format="csr")
    model = SoftmaxClassifier(
        solver=solvers.NCE(decay=1.0), sampler="all", max_iter=8, fit_intercept=False, alpha=1e-30, learning_rate=1e300
    )
    fitted(model, X, np.arange(200) % 5, told=True)
    assert model.n_iter_ == 0
    np.testing.assert_array_equal(model.coef_, 0)
    start = np.full((5, 17), 0.5, dtype=np.float32)
    fitted(model, X, np.arange(200) % 5, told=True, coef_init=start)
    assert model.n_iter_ == 0
    # The ridge of a step that was not made may have been.
    assert np.abs(model.coef_).max() <= 0.5


def test_after_a_last_pass_that_is_bad_the_model_is_that_of_the_last_pass(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 6
    seen = []
    model = SoftmaxClassifier(solver="css", sampler="uniform", n_negatives=2, learning_rate=50.0, random_state=seed)
    fitted(model, X, y, told=True, callback=lambda state: seen.append(state.scores(X)))
    assert len(seen) == model.n_iter_
    np.testing.assert_array_equal(model.decision_function(X), seen[-1])


@pytest.mark.parametrize("alpha", [1e-300, 1.0, 1e38, 1e300])
@pytest.mark.parametrize("scale", [1e-38, 1.0, 1e12, 1e19, 1e38])
@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_a_posterior_of_huge_numbers_is_one_or_says_that_it_diverged(alpha, scale, noise, seed):
    X = np.clip(np.random.default_rng(seed).normal(size=(20, 5)) * scale, -MOST, MOST)
    model = AugmentReduceClassifier(
        noise=noise, posterior="gaussian", alpha=alpha, max_iter=3, random_state=seed, learning_rate=0.01
    )
    fitted(model, X, np.arange(20) % 4)
    assert np.isfinite(model.loss_curve_).all()
    assert np.isfinite(model.coef_var_).all()
    assert (model.coef_var_ >= 0).all()


ENDLESS = {
    "margin": (
        MarginClassifier(
            sampler=samplers.Frequency(power=-1000.0),
            loss="triplet",
            n_negatives=10**9,
            solver=solvers.Adagrad(batch_size=1),
        ),
        20,
    ),
    "search": (MarginClassifier(sampler="search", loss="triplet", n_negatives=10**9), 7),
    "bouchard": (
        SoftmaxClassifier(
            solver=solvers.Bouchard(schedule="adaptive", decay=1e-10),
            learning_rate=10.0,
            max_iter=8,
            fit_intercept=False,
            random_state=7,
        ),
        2,
    ),
    "augment and reduce": (AugmentReduceClassifier(noise="gumbel", learning_rate=1e300), 5),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_was_endless_ends_with_finite_weights(name):
    model, n_classes = ENDLESS[name]
    n = 60 if name == "bouchard" else 20
    X = np.random.default_rng(0).normal(size=(n, 17))
    fitted(model, X, np.arange(n) % n_classes)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e10])
def test_projected_rows_stay_in_their_ball(fit_intercept, scale, seed):
    X = np.random.default_rng(seed).normal(size=(60, 5)) * scale
    model = SoftmaxClassifier(
        solver=solvers.Implicit(max_norm=0.5), fit_intercept=fit_intercept, learning_rate=1e3, random_state=seed
    )
    fitted(model, X, np.arange(60) % 6)
    # Norms are kept in double precision; the weights are rounded to single.
    assert np.linalg.norm(model.coef_.astype(np.float64), axis=1).max() <= 0.5 * (1 + 1e-4)


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("rate", [1e-38, 10.0, 1e38, 1e300])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e18, 1e30])
def test_adaptive_steps_stay_finite(batch_size, rate, scale, seed):
    X = np.random.default_rng(seed).normal(size=(60, 5)) * scale
    solver = solvers.SGD(schedule="adaptive", batch_size=batch_size, decay=1e-10)
    fitted(SoftmaxClassifier(solver=solver, learning_rate=rate, max_iter=8, random_state=seed), X, np.arange(60) % 6)


# What random cases found


@pytest.mark.parametrize("rate", [1e3, 1e20, 1e38, 1e300])
@pytest.mark.parametrize("scale", [1e-38, 1.0, 1e20, 1e38])
@pytest.mark.parametrize("model", ["pairs", "hybrid", "embedding"])
def test_adagrad_stays_finite(model, rate, scale, seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(np.clip(rng.normal(size=(40, 8)) * scale, -MOST, MOST).astype(np.float32))
    Y = np.eye(9, dtype=int)[rng.integers(0, 9, 40)] | np.eye(9, dtype=int)[rng.integers(0, 9, 40)]
    fitted(SoftmaxClassifier(model=model, learning_rate=rate, random_state=seed, max_iter=3), X, Y)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(model="linear", alpha=1e-3),
        SoftmaxClassifier(),
        SoftmaxClassifier(calibration="temperature"),
        SoftmaxClassifier(model=models.Linear(), calibration="temperature", solver="exact"),
        MarginClassifier(),
        AugmentReduceClassifier(),
        AugmentReduceClassifier(noise="gumbel"),
    ],
    ids=repr,
)
def test_huge_features_warn_of_training_only(model, storage, seed):
    """Sums of squares overflow, and so do scores: both are beyond single precision, or beyond double."""
    rng = np.random.default_rng(seed)
    X = storage(np.clip(rng.normal(size=(60, 5)) * 1e38, -MOST, MOST).astype(np.float32))
    y = np.append(np.arange(6), rng.integers(0, 6, 54))
    model.set_params(random_state=seed, max_iter=3)
    fitted(model, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        if model.calibration is None:
            model.partial_fit(X, y)
    finite(model, X)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_scores_that_overflow_count_as_the_largest(storage, seed):
    """Of infinities of both signs and their sum NaN the best class is still the one of the largest score."""
    X = storage(np.array([[MOST, 0.0], [0.0, 1.0], [MOST, MOST]], dtype=np.float32))
    W = np.array([[4.0, 1.0], [1e-39, 2.0], [-4.0, 0.0], [4.0, -4.0]], dtype=np.float32)
    model = SoftmaxClassifier(solver="implicit", learning_rate=1e-300, random_state=seed, max_iter=1, alpha=0.0)
    model.fit(np.eye(4, 2), np.arange(4), coef_init=W)
    np.testing.assert_array_equal(model.coef_, W)
    finite(model, X)
    assert model.predict(X)[0] in (0, 3)
    assert model.predict(X)[1] == 1
    assert model.predict(X)[2] == 0
    labels, log_p = model.predict_top_k(X, 4)
    assert not np.isnan(log_p).any()
    assert labels[0].tolist() == [0, 3, 1, 2]
    assert not np.isnan(model.evaluate(X, [0, 1, 2])["log_loss"])


@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_probabilities_of_huge_utilities_are_some(noise, seed):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(30, 4)) * 10.0 ** rng.uniform(-3, 38, (30, 4)), -MOST, MOST)
    model = AugmentReduceClassifier(noise=noise, learning_rate=1e-300, random_state=seed, max_iter=1)
    W = rng.normal(size=(5, 4)) * 10.0 ** rng.uniform(-3, 17, (5, 1))
    fitted(model, X, np.arange(30) % 5, coef_init=W)
    assert model.predict_proba(X).max() <= 1 + 1e-6  # the quadrature


def test_gradients_that_overflow_are_told(seed):
    X = np.full((10, 11), MOST)
    X[::2, ::3] = 1e-45
    weights = np.where(np.arange(10) == 3, 1.0, 1e-60)
    model = MarginClassifier(solver="implicit", random_state=seed)
    fitted(model, X, np.arange(10) % 5, told=True, sample_weight=weights)


def test_weights_of_tiny_features_are_the_largest_there_are(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [1.0, 3e-32, 1e-31]
    model = SoftmaxClassifier(model=models.Linear(scaling="standard"), solver="lbfgs", alpha=0.0, max_iter=300)
    fitted(model, X, (X[:, 1] > 0).astype(int))


def test_products_of_weights_that_are_too_large_are_refused():
    X, y = np.eye(6), np.arange(6) % 3
    with pytest.raises(
        ValueError, match=r"class_weight times sample_weight is 9.99.*e\+119 in row 1; it must be at most 1e"
    ):
        SoftmaxClassifier(class_weight={1: 1e60}).fit(X, y, sample_weight=np.full(6, 1e60))
    for class_weight in (None, "balanced"):
        fitted(
            SoftmaxClassifier(class_weight=class_weight), X, y, sample_weight=np.full(6, 1e100) * [1, 1, 1, 0.5, 1, 1]
        )


@pytest.mark.parametrize(
    "objective", ["nce", "negative_sampling", "hierarchical", "sampled_softmax", "softmax", "ove", "descent"]
)
@pytest.mark.parametrize("rate", [1.0, 1e7, 1e38, 1e300])
def test_word_vectors_of_huge_steps_are_those_before_them(objective, rate, seed):
    rng = np.random.default_rng(seed)
    text = [[f"w{i}" for i in line] for line in rng.integers(0, 12, size=(40, 13))]
    draws = {} if objective in ("hierarchical", "descent") else {"n_negatives": 20}
    model = SkipGram(6, min_count=1, sample=0, objective=objective, learning_rate=rate, max_iter=3, **draws)
    model.set_params(random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(text)
    assert {w.category for w in caught} <= {ConvergenceWarning}, [str(w.message) for w in caught]
    assert np.isfinite(model.vectors_).all()
    assert np.isfinite(model.context_vectors_).all()
    assert caught or np.isfinite(model.loss_curve_).all()
    assert len(model.most_similar("w1", topn=3)) == 3


def test_weights_that_would_overflow_are_refused(seed):
    X, y = np.random.default_rng(seed).normal(size=(8, 3)), np.arange(8) % 2
    W = np.zeros((2, 3))
    W[1, 2] = -np.finfo(np.float32).max
    with pytest.raises(ValueError, match=r"coef_init has an entry of 3\.403e\+38 in absolute value; the largest is"):
        SoftmaxClassifier(solver="is").fit(X, y, coef_init=W)


def test_a_pass_whose_loss_is_no_number_ends_training_and_is_told(monkeypatch):
    made = CoreTraining.run

    def run(self, n_pass, first, seconds):
        done = made(self, n_pass, first, seconds)
        self.loss = math.nan if n_pass == 1 else self.loss  # later passes may be finite again
        return done

    monkeypatch.setattr(CoreTraining, "run", run)
    model = AugmentReduceClassifier(random_state=0, max_iter=4)
    with pytest.warns(ConvergenceWarning, match="the mean loss of pass 2 is nan"):
        # A callback looks on, so that no smaller step size is tried.
        model.fit(np.random.default_rng(5).normal(size=(18, 2)), np.arange(18) % 9, callback=lambda _: False)
    assert model.n_iter_ == 2
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("relu", [False, True])
def test_embeddings_of_huge_features_are_numbers(relu, seed):
    X = np.random.default_rng(seed).normal(size=(40, 6))
    model = SoftmaxClassifier(model=models.Embedding(activation="relu" if relu else "linear"), random_state=seed)
    model.fit(X, np.arange(40) % 4)
    p = model.predict_proba(np.full((2, 6), [[1.0], [-1.0]]) * MOST)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)  # of float32 scores


def test_a_window_of_more_words_than_any_sentence_asks_for_no_memory():
    texts = [["a", "b", "c", "a", "d"], ["b", "d", "a"]] * 3
    wide, longest = (
        SkipGram(dim=2, min_count=1, sample=0, window=n, shrink_window=False, objective="descent", random_state=0)
        for n in (10**9, 5)
    )
    np.testing.assert_array_equal(wide.fit(texts).vectors_, longest.fit(texts).vectors_)


def test_log_probabilities_of_normal_utilities_that_are_far_apart_are_those_of_squares(seed):
    # There -log p is the least of (t - psi_c)^2 / 2 + sum_k (psi_k - t)_+^2 / 2 over the maximum t, as far as a double
    # tells; t is the mean of psi_c and those above it.
    psi = np.random.default_rng(seed).normal(size=16) * 10.0 ** np.arange(12, 16)[:, np.newaxis]
    log_p = utility_probabilities(psi, noise="normal", log=True)
    for row, found in zip(psi, log_p, strict=True):
        above = np.sort(row)[::-1]
        for c, log_p_c in zip(row, found, strict=True):
            t = (np.cumsum(above) + c) / np.arange(2, 18)
            values = [((u - c) ** 2 + np.sum(np.maximum(row - u, 0) ** 2)) / 2 for u in t]
            # The class itself is not among those that t exceeds: (psi_c - t)_+ is 0 as t is above it, or t = psi_c.
            assert log_p_c == pytest.approx(-min(values), rel=1e-9, abs=2)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_whose_squared_length_overflows_leave_a_posterior_finite(sparse, seed):
    X = np.random.default_rng(seed).normal(size=(30, 29)).astype(np.float32)
    X[7] = 1e19  # its squares are no more than 1e38, and their sum is
    posterior = AugmentReduceClassifier(posterior="gaussian", alpha=1e-3, n_negatives=10, random_state=seed)
    fitted(posterior, sp.csr_array(X) if sparse else X, np.arange(30) % 10, told=True)


def test_parts_of_a_stream_keep_local_scales_beyond_single_precision():
    some = KeptRows(_core.CarriedRows(2, 2), np.arange(2))
    some.put(None, LocalState(np.array([1.0, -2.0]), np.array([1e300, 1e-300])))
    np.testing.assert_array_equal(some.of(None).local_scale, [MOST, 0])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("by_feature", [False, True])
def test_scores_of_labels_are_those_of_a_product(storage, by_feature, seed):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.5)).astype(np.float32)
    weights, labels = Weights.zeros(5, 7, by_feature=by_feature), rng.integers(0, 5, 20).astype(np.int32)
    weights.coef[...], weights.bias[...] = rng.normal(size=(5, 7)), rng.normal(size=5)
    scores = x.astype(np.float64) @ weights.coef.astype(np.float64).T + weights.bias
    found = weights.label_scores(storage(x), labels)
    np.testing.assert_allclose(found, scores[np.arange(20), labels], rtol=1e-12, atol=1e-12)  # sums of seven doubles
    with pytest.raises(ValueError, match=r"label 5 is outside \[0, 5\)"):
        weights.label_scores(storage(x), labels * 0 + 5)


def test_scores_of_labels_are_summed_in_double_precision():
    weights = Weights.linear(np.full((1, 2), 1e18, np.float32), np.zeros(1, np.float32), by_feature=False)
    for x in (np.array([[1e25, -1e25]], np.float32), sp.csr_array(np.array([[1e25, -1e25]], np.float32))):
        assert weights.label_scores(x, np.zeros(1, np.int32)) == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_means_of_iterates_whose_sum_overflows_are_finite(sparse):
    weights = Weights.zeros(3, 20, by_feature=sparse)
    weights.coef[:], weights.intercept[:] = 3e38, -3e38
    total = np.zeros_like(weights.matrix)
    for _ in range(3):
        _core.accumulate(total, weights.matrix, np.full(3, 1, np.float32), sparse, 1)
    np.testing.assert_array_equal(total[weights.matrix != 0], np.float32(MOST))


def test_scales_of_models_whose_scores_are_huge_are_numbers():
    rng = np.random.default_rng(0)
    one, other = (HasScores(rng.normal(size=(30, 6)).astype(np.float32) * np.float32(2e37)) for _ in range(2))
    labels = Labels(np.arange(0, 61, 2), np.tile(np.array([1, 4], np.int32), 30))
    assert np.isfinite(best_scales(one, other, ScoredRows(np.zeros((30, 1)), labels, 1))).all()


class HasScores:
    """A model that has its scores by heart."""

    def __init__(self, z):
        self.z, self.n_classes = z, z.shape[1]

    def scores(self, x, n_threads):
        return self.z
