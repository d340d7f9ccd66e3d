"""Compressed models: what they predict, what is dropped, and how many bytes they take."""

import copy
import os
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core
from manyclass.checks import csr_parts
from manyclass.classifiers.files import file_bytes, weight_tensors
from manyclass.weights.arrays import LARGEST_HALF, NO_FLOATS, Codes
from manyclass.weights.compression import coded
from manyclass.weights.weights import Weights

K, D = 37, 50
DTYPES = ("float32", "float16", "int8")


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6 * K, D)).astype(np.float32)
    X[rng.random(X.shape) < 0.6] = 0
    y = np.arange(6 * K) % K
    Y = np.eye(K, dtype=int)[y]
    Y[np.arange(len(y)), rng.integers(K, size=len(y))] = 1
    return X, y, sp.csr_array(Y)


def bytes_of_file(model):
    return file_bytes(model._model(model._fitted))


# Kinds of model by what stores their weights: the estimator, whether X is sparse, whether a row has several labels.
MODELS = {
    "by feature": (SoftmaxClassifier(model="linear", max_iter=3, random_state=0), True, False),
    "by class": (SoftmaxClassifier(model="linear", max_iter=3, random_state=0), False, False),
    "embedding": (SoftmaxClassifier(model="embedding", dim=12, max_iter=3, random_state=0), True, False),
    "linear, several": (SoftmaxClassifier(model="linear", max_iter=3, random_state=0), True, True),
    "pairs": (SoftmaxClassifier(model="pairs", max_iter=3, random_state=0), True, True),
    "hybrid": (SoftmaxClassifier(model="hybrid", dim=12, max_iter=3, random_state=0), True, True),
    "margin": (MarginClassifier(max_iter=3, random_state=0), True, False),
    "margin, embedding": (MarginClassifier(model="embedding", dim=17, max_iter=3, random_state=0), False, False),
    "margin, proximal": (MarginClassifier(solver="implicit", max_iter=3, random_state=0), False, False),
    "probit": (AugmentReduceClassifier(max_iter=3, random_state=0), True, False),
    "logistic": (AugmentReduceClassifier(noise="logistic", max_iter=3, random_state=0), False, False),
}
DROPS = ("by feature", "embedding", "linear, several", "pairs", "hybrid", "margin", "margin, embedding", "probit")
FITTED = {}


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


def fitted(kind):
    """A model, X and y; fitted once, as a compressed copy leaves it as it is."""
    if kind not in FITTED:
        model, sparse, several = MODELS[kind]
        X, y, Y = problem()
        X, y = (sp.csr_array(X) if sparse else X), (Y if several else y)
        FITTED[kind] = clone(model).fit(X, y), X, y
    return FITTED[kind]


def variants(kind, dtype):
    """A model in a dtype, and where it can be pruned that, too."""
    model, *_ = fitted(kind)
    return [model.compress(dtype, prune=prune) for prune in ((0, 0.9) if kind in DROPS else (0,))]


def scales_of(weights, array, n_rows):
    scales = weights.codes[array]
    return scales.astype(np.float64) if len(scales) else np.ones(n_rows)


def plain_scores(weights, X):
    """Scores in double precision from the numbers that the codes stand for: the slow twin."""
    X = sp.csr_array(X).toarray().astype(np.float64)
    found = np.tile(weights.intercept.astype(np.float64), (len(X), 1))
    if weights.has_pairs:
        columns = np.repeat(np.arange(weights.n_features), np.diff(weights.indptr))
        S = np.zeros((weights.n_features, weights.n_classes))
        scales = scales_of(weights, "values", weights.n_features)
        S[columns, weights.classes] = weights.values.astype(np.float64) * scales[columns]
        found += X @ S
    if weights.kind == "pairs":
        return found
    rows = weights.matrix.astype(np.float64) * scales_of(weights, "matrix", len(weights.matrix))[:, np.newaxis]
    if weights.kind == "feature_major":
        return found + X @ rows[:, : weights.n_classes]
    phi = X
    if weights.embeddings.size:
        E = weights.embeddings.astype(np.float64)
        E = E * scales_of(weights, "embeddings", len(E))[:, np.newaxis]
        phi = (X if weights.features is None else X[:, weights.features]) @ E[:, : weights.n_hidden]
        phi = np.maximum(phi, 0) if weights.relu else phi
    return found + phi @ rows.T


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_those_of_the_numbers_that_the_codes_stand_for(kind, dtype):
    _, X, _ = fitted(kind)
    for small in variants(kind, dtype):
        expected = plain_scores(small._weights, X)
        # Sums of fewer than 100 products in single precision, twice where there are embeddings.
        bound = 200 * np.finfo(np.float32).eps * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(small.decision_function(X), expected, atol=bound, rtol=0)
        other = X.toarray() if sp.issparse(X) else sp.csr_array(X)
        np.testing.assert_allclose(small.decision_function(other), expected, atol=bound, rtol=0)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["by feature", "by class", "pairs"])
def test_each_instruction_set_has_the_same_scores(kind, dtype, isa):
    if ["baseline", "avx2", "avx512"].index(isa) > ["baseline", "avx2", "avx512"].index(_core.best_isa()):
        pytest.skip(f"this processor has no {isa}")
    model, X, _ = fitted(kind)
    weights = model.compress(dtype)._weights
    x = csr_parts(sp.csr_array(X)) if kind in ("by feature", "pairs") else X
    # The order of a sum depends on the width of registers nowhere; fused products round once less.
    found = weights._in_core.scores(x, NO_FLOATS, 1, isa)
    np.testing.assert_allclose(found, weights.scores(X, 1), rtol=0, atol=1e-5)


def test_float32_predicts_as_the_original_and_float16_nearly(kind):
    model, X, y = fitted(kind)
    same, near = model.compress("float32"), model.compress("float16")
    np.testing.assert_allclose(same.decision_function(X), model.decision_function(X), atol=1e-4, rtol=1e-5)
    assert type(near) is type(model)
    assert near.get_params() == model.get_params()
    for name in ("predict", "predict_proba", "predict_log_proba"):
        if hasattr(model, name):
            expected, found = getattr(model, name)(X), getattr(near, name)(X)
            if name == "predict":
                assert abs(sp.csr_array(found) - sp.csr_array(expected)).mean() <= 0.02 * K
            else:
                np.testing.assert_allclose(found, expected, atol=0.01)
    labels, values = near.predict_top_k(X, 3)
    assert labels.shape == values.shape == (X.shape[0], 3)
    expected, found = model.evaluate(X, y), near.evaluate(X, y)
    assert expected.keys() == found.keys()
    assert all(abs(expected[name] - found[name]) < 0.02 for name in expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_ways_of_asking_agree(kind, dtype):
    """Scores, the best classes, losses, ranks and normalisers come from kernels of their own."""
    model, X, y = fitted(kind)
    if kind in ("probit", "logistic"):
        pytest.skip("probabilities are not those of a softmax")
    weights = model.compress(dtype)._weights
    z = weights.scores(X, 2).astype(np.float64)
    log_z = np.log(np.exp(z).sum(axis=1))
    np.testing.assert_allclose(weights.log_normalizers(X, 1), log_z, rtol=1e-5, atol=1e-5)
    labels = np.asarray(sp.csr_array(y).indices[:1] if sp.issparse(y) else y, dtype=np.int32)
    labels = np.resize(labels, X.shape[0]).astype(np.int32)
    losses, ranks = weights.log_losses(X, labels, 1)
    own = z[np.arange(len(z)), labels]
    np.testing.assert_allclose(losses, log_z - own, rtol=1e-5, atol=1e-5)
    classes, log_p = weights.top_k(X, K, 1)
    np.testing.assert_allclose(log_p, np.take_along_axis(z, classes, 1) - log_z[:, np.newaxis], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.argmax(classes == labels[:, np.newaxis], axis=1), ranks)
    tiles = np.concatenate([tile for _, tile in weights.score_tiles(X, 1)])
    np.testing.assert_allclose(tiles, z, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_rows_have_the_same_scores_alone_and_in_company(kind, dtype):
    """Dense rows are scored several at a time, and codes of few bits are then widened first: the same bits."""
    model, X, _ = fitted(kind)
    if dtype is None and kind == "margin, embedding":
        pytest.skip("embeddings of dense rows are a product by BLAS, whose sums depend on the number of rows")
    model = model if dtype is None else model.compress(dtype)
    z = np.concatenate([model.decision_function(X[i : i + 1]) for i in range(40)])
    for n in (2, 3, 4, 5, 15, 16, 17, 33, 40):
        np.testing.assert_array_equal(model.decision_function(X[:n]), z[:n])


def test_the_original_stays_as_it_is(kind):
    model, *_ = fitted(kind)
    before, weights = pickle.dumps(model), model._weights
    small = model.compress("int8")
    assert pickle.dumps(model) == before
    assert model._weights is weights
    assert small._fitted.squares is None
    assert small is not model


# Rounding


def test_bytes_are_off_by_half_a_step_at_most(seed):
    rng = np.random.default_rng(seed)
    W = (rng.standard_normal((40, 70)) * 10.0 ** rng.uniform(-30, 30, (40, 1))).astype(np.float32)
    W[3] = 0
    codes = Codes.of(W, "int8")
    steps = np.abs(W).max(axis=1, keepdims=True).astype(np.float64) / 127
    error = np.abs(codes.values.astype(np.float64) * codes.scales[:, np.newaxis] - W)
    # The scale itself is rounded to 24 bits, which a code of 127 multiplies.
    assert np.all(error <= steps * (0.5 + 128 * 2.0**-24))
    assert codes.values.min() >= -127
    np.testing.assert_allclose(codes.plain(), codes.values * codes.scales[:, np.newaxis])


def test_bytes_of_lists_have_a_scale_a_list(seed):
    rng = np.random.default_rng(seed)
    indptr = np.array([0, 3, 3, 10, 10, 11], dtype=np.int64)
    numbers = rng.standard_normal(11).astype(np.float32)
    codes = Codes.of(numbers, "int8", indptr)
    assert codes.scales.shape == (5,)
    for j in range(5):
        own = slice(indptr[j], indptr[j + 1])
        step = np.abs(numbers[own]).max(initial=0) / 127
        assert np.all(np.abs(codes.plain(indptr)[own] - numbers[own]) <= step * 0.5001)


def test_every_half_is_read_as_the_number_that_it_is():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    n_classes = len(halves)
    rows = np.zeros((1, -(-n_classes // 16) * 16), dtype=np.float16)
    rows[0, :n_classes] = halves
    made = {"bias": np.zeros(n_classes, np.float32), "n_features": 1, "n_hidden": 1, "codes": {}}
    weights = Weights(kind="feature_major", matrix=rows, **made)
    one = np.ones((1, 1), dtype=np.float32)
    np.testing.assert_array_equal(weights.scores(sp.csr_array(one), 1)[0], halves.astype(np.float32))
    # One by one, as the label's own score is.
    by_class = Weights(kind="class_major", matrix=halves[:, np.newaxis].copy(), **made)
    np.testing.assert_array_equal(by_class.scores(one, 1)[0], halves.astype(np.float32))


@pytest.mark.parametrize("n_classes", [2, 15, 16, 17, 63, 65, 2047, 2049, 4100, 70_000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_classes_is_scored(dtype, n_classes, seed):
    rng = np.random.default_rng(seed)
    W = Weights.zeros(n_classes, 3, by_feature=True)
    W.matrix[:, :n_classes] = rng.standard_normal((3, n_classes))
    X = sp.csr_array(rng.standard_normal((2, 3)).astype(np.float32))
    labels = np.array([0, n_classes - 1], dtype=np.int32)
    for weights in (coded(W, dtype), coded(W, dtype, 2 * n_classes)):
        expected = plain_scores(weights, X)
        np.testing.assert_allclose(weights.scores(X, 1), expected, atol=1e-5)
        ranks = weights.log_losses(X, labels, 1)[1]
        own = weights.scores(X, 1)
        np.testing.assert_array_equal(
            ranks, [np.sum(z > z[k]) + np.sum(z[:k] == z[k]) for z, k in zip(own, labels, strict=True)]
        )


def test_weights_that_no_dtype_holds_are_refused():
    model, *_ = fitted("by class")
    for value, dtype, told in (
        (1e5, "float16", r"100000 in magnitude; float16 ends at 65504: use dtype='int8'"),
        (np.inf, "int8", "a weight is inf; only finite weights"),
        (np.nan, "float32", "a weight is nan; only finite weights"),
    ):
        broken = copy.deepcopy(model)
        broken._weights.matrix[2, 3] = value
        with pytest.raises(ValueError, match=told):
            broken.compress(dtype)
    large = copy.deepcopy(model)
    large._weights.matrix[2, 3] = LARGEST_HALF
    assert large.compress("float16").coef_[2, 3] == LARGEST_HALF


# Bytes and pruning


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [None, 0.3, 0.01])
def test_weights_tell_what_they_take_in_a_file(kind, dtype, share):
    model, *_ = fitted(kind)
    if share is not None and kind not in DROPS:
        return
    n_kept = None if share is None else max(1, int(share * 100))
    made = coded(model._weights, dtype, n_kept)
    assert made.nbytes == sum(array.nbytes for array in weight_tensors(made).values())


@pytest.mark.parametrize("kind", DROPS)
def test_what_is_pruned_is_smallest(kind):
    model, *_ = fitted(kind)
    small, own = model.compress("float32", prune=0.9)._weights, model._weights
    if own.kind == "phi":
        norms = np.linalg.norm(own.embeddings, axis=1)
        assert len(small.features) == D - int(0.9 * D)
        assert norms[small.features].min() >= np.delete(norms, small.features).max()
        np.testing.assert_array_equal(small.embedding[small.features], own.embeddings[small.features, : own.n_hidden])
        return
    all_weights = np.abs((own.values if own.has_pairs else own.matrix[:, : own.n_classes]).ravel())
    n_kept = len(all_weights) - int(0.9 * len(all_weights))
    kept = np.abs(small.values)
    assert len(kept) == n_kept  # no two are equal here
    np.testing.assert_array_equal(np.sort(kept), np.sort(all_weights)[-n_kept:])
    assert small.classes.dtype == np.uint16


def test_bytes_are_the_nearest_multiples_of_the_scale_of_their_row(seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, 7, 0, 1, 30, 4])
    x = (rng.standard_normal(42) * 10.0 ** rng.integers(-3, 4, 42)).astype(np.float32)
    x[38:] = 1e-38  # the scale is below the normal floats
    codes, scales = _core.byte_codes(x, starts)
    for i, (a, b) in enumerate(pairwise(starts)):
        largest = np.abs(x[a:b]).max(initial=0)
        scale = np.float32(largest / np.float32(127)) if largest > 1e-30 else 0
        assert scales[i] == scale
        assert codes[a:b].tolist() == (np.rint(x[a:b] / scale) if scale else np.zeros(b - a)).tolist()
    with pytest.raises(ValueError, match="the rows do not fit the numbers"):
        _core.byte_codes(x, starts[:-1])


def test_the_bar_lets_at_most_so_many_numbers_through(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.standard_normal(500), np.repeat(rng.standard_normal(5), 20), np.zeros(30)]).astype(
        np.float32
    )
    for n_kept in (1, 7, 100, 333, 599, 600, 630, 1000):
        padded = np.column_stack([x.reshape(-1, 7), np.full((90, 2), 9.0)]).astype(np.float32)  # two of no row
        bar = _core.magnitude_bar(numbers=padded, width=7, stride=9, n_kept=n_kept)
        kept = np.abs(x).view(np.uint32) >= bar
        assert kept.sum() <= n_kept
        assert not kept[x == 0].any()
        if not kept[x != 0].all():  # the next largest has ties that would be too many
            next_one = np.abs(x[~kept]).max()
            assert kept.sum() + np.sum(np.abs(x) == next_one) > n_kept
            assert np.abs(x[kept]).min(initial=np.inf) > next_one


def test_weights_that_are_0_are_left_out_where_that_is_smaller():
    model, X, _ = fitted("by feature")
    sparse = copy.deepcopy(model)
    sparse._weights.matrix[:, 5:] = 0
    small = sparse.compress("int8")
    assert small._weights.kind == "pairs"
    assert small._weights.nbytes < coded(sparse._weights, "int8").nbytes
    np.testing.assert_allclose(small.decision_function(X), sparse.decision_function(X), atol=0.05)


def test_pruning_that_saves_nothing_is_refused():
    model, *_ = fitted("by feature")
    with pytest.raises(ValueError, match=r"prune is 0.1; what it leaves would take \d+ bytes .* take \d+: leave it 0"):
        model.compress("int8", prune=0.1)
    assert model.compress("int8", prune=0.9)._weights.nbytes <= coded(model._weights, "int8").nbytes


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind not in DROPS])
def test_storage_that_cannot_drop_says_why(kind):
    model, *_ = fitted(kind)
    with pytest.raises(ValueError, match=r"prune: .* are read from end to end"):
        model.compress("int8", prune=0.9)


@pytest.mark.parametrize("dtype", ["auto", "float32", "float16", "int8"])
@pytest.mark.parametrize("kind", DROPS)
def test_a_file_is_as_small_as_asked_for(tmp_path, kind, dtype):
    model, *_ = fitted(kind)
    whole = bytes_of_file(model.compress("float32"))
    least = bytes_of_file(model.compress("int8" if dtype == "auto" else dtype, prune=0.95)) + 1024
    for most in np.linspace(least, 1.1 * whole + 1024, 7).astype(int):
        small = model.compress(dtype, max_bytes=int(most))
        small.save(tmp_path / "m")
        assert os.path.getsize(tmp_path / "m") == bytes_of_file(small) <= most
        if dtype != "auto":
            assert small.storage()["weight_dtype"] == dtype
    assert model.compress("auto", max_bytes=10**6).storage()["weight_dtype"] == "float16"


def test_the_least_compression_that_fits_is_taken():
    model, *_ = fitted("pairs")
    by_dtype = {dtype: bytes_of_file(model.compress(dtype)) + 1024 for dtype in DTYPES}
    n_pairs = len(model._weights.values)
    for most, dtype, all_pairs in (
        (by_dtype["float16"], "float16", True),
        (by_dtype["int8"], "int8", True),
        (by_dtype["int8"] - 1024 - 1500, "int8", False),
    ):
        weights = model.compress(max_bytes=most)._weights
        assert weights.dtype == dtype
        assert (len(weights.classes) == n_pairs) == all_pairs


def test_what_fits_nothing_is_told_with_what_it_takes():
    with pytest.raises(ValueError, match=r"max_bytes is 3000; nothing fits: as int8 the file takes \d+ bytes, \d+ of"):
        fitted("pairs")[0].compress(max_bytes=3000)
    with pytest.raises(ValueError, match=r"nothing fits: .* are read from end to end; none can be left out"):
        fitted("by class")[0].compress(max_bytes=3000)
