"""Compressed models: arguments, memory, files, and what they refuse."""

import copy
import json
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from test_compressed_models import DTYPES, MODELS, D, K, fitted, problem, variants
from test_saved_models import rewrite

import manyclass
from manyclass import AugmentReduceClassifier, SoftmaxClassifier, _core, solvers
from manyclass.checks import bytes_of, csr_parts
from manyclass.weights.arrays import aligned_zeros
from manyclass.weights.compression import coded
from manyclass.weights.weights import Weights


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


# Arguments and memory


@pytest.mark.parametrize(
    ("size", "found"), [(7, 7), ("10MB", 10**7), (" 1.5 GiB", 3 << 29), ("300", 300), ("2kB", 2000)]
)
def test_sizes_are_numbers_or_texts(size, found):
    assert bytes_of("max_bytes", size) == found


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"dtype": "int4"}, ValueError, "dtype is 'int4'; it must be one of 'auto', 'float32', 'float16', 'int8'"),
        ({"dtype": "flaot16"}, ValueError, "did you mean 'float16'"),
        ({"prune": 1.0}, ValueError, "prune is 1.0; it must be below 1"),
        ({"prune": -0.1}, ValueError, "prune is -0.1; it must be finite, at least 0"),
        ({"prune": "much"}, TypeError, "prune is 'much'; it must be a number"),
        ({"max_bytes": "10 apples"}, ValueError, "max_bytes is '10 apples'; it must be a number of bytes"),
        ({"max_bytes": "0.1"}, ValueError, "max_bytes is '0.1'"),
        ({"max_bytes": 0}, ValueError, "max_bytes is 0; it must be at least 1"),
        ({"max_bytes": 2.5}, TypeError, "max_bytes is 2.5; it must be an integer"),
    ],
)
def test_bad_arguments_are_told(arguments, error, told):
    with pytest.raises(error, match=told):
        fitted("pairs")[0].compress(**arguments)
    with pytest.raises(error, match=told):  # before anything else is looked at
        SoftmaxClassifier().compress(**arguments)


def test_no_more_than_small_tiles_of_float32_are_in_memory():
    """W is 16 MB as float32, 4 MB as bytes; predictions may have phi, scores and lists of some rows, no copy of W."""
    rng = np.random.default_rng(0)
    n_features, n_classes, n_rows = 2000, 2000, 64
    X = sp.random_array((n_rows, n_features), density=0.01, rng=rng, dtype=np.float32).tocsr()
    y = rng.integers(n_classes, size=n_rows).astype(np.int32)
    sparse = Weights.linear(aligned_zeros(n_features, n_classes), np.zeros(n_classes, np.float32), by_feature=True)
    sparse.matrix[:] = rng.standard_normal(sparse.matrix.shape)
    dense = Weights.linear(sparse.matrix, sparse.intercept, by_feature=False)
    for trained, data in ((sparse, X), (dense, X.toarray())):
        for dtype in ("float16", "int8"):
            weights = coded(trained, dtype)
            tracemalloc.start()
            weights.scores(data, 1)
            weights.top_k(data, 5, 1)
            weights.log_losses(data, y, 1)
            weights.log_normalizers(data, 1)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert weights.nbytes < 16e6 * np.dtype(dtype).itemsize / 4 + 20_000
            assert peak < 3e6  # scores of 64 rows are 0.5 MB


# Files


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loaded_model_predicts_bit_for_bit_the_same(tmp_path, kind, dtype, mmap):
    model, X, y = fitted(kind)
    for small in variants(kind, dtype):
        small.save(tmp_path / "m")
        loaded = manyclass.load(tmp_path / "m", mmap=mmap)
        np.testing.assert_array_equal(loaded.decision_function(X), small.decision_function(X), strict=True)
        assert loaded.storage() == small.storage()
        assert loaded.evaluate(X, y) == small.evaluate(X, y)
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        for name in loaded._weights.codes:
            array = getattr(loaded._weights, name)
            assert array.dtype == dtype
            assert array.flags.writeable != mmap
            assert array.flags.aligned


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_and_pickles_predict_the_same(kind, dtype):
    model, X, _ = fitted(kind)
    small = model.compress(dtype)
    small.predict(X)
    for other in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small)):
        np.testing.assert_array_equal(other.decision_function(X), small.decision_function(X))


def test_files_of_other_models_stay_of_the_version_before(tmp_path):
    model, *_ = fitted("by feature")
    for saved, version in ((model, "2"), (model.compress(), "3")):
        saved.save(tmp_path / "m")
        rewrite(tmp_path / "m", metadata=lambda m, version=version: m if m["format_version"] == version else {})
        manyclass.load(tmp_path / "m")


def described(**changes):
    def change(metadata):
        model = json.loads(metadata["model"])
        model["coded"].update(changes)
        return metadata | {"model": json.dumps(model)}

    return change


HEADERS = {
    "kind": ({"kind": "diagonal"}, "the kind of its weights is 'diagonal'"),
    "another kind": ({"kind": "class_major"}, "it has no array 'coded.rows'"),
    "dtype": ({"dtype": "int4"}, "the dtype of its weights is 'int4'"),
    "another dtype": ({"dtype": "float16"}, "'coded.embeddings' is int8 of shape .* must be float16"),
    "n_hidden": ({"n_hidden": 0}, "n_hidden is 0; it must be an integer of at least 1"),
    "long": ({"n_hidden": 40}, r"'coded.embeddings' is int8 of shape \(50, 16\); it must be int8 of shape \(50, 48\)"),
}


def replaced(name, change):
    return lambda tensors: tensors | {name: change(tensors[name].copy())}


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


ARRAYS = {
    "no scales": (lambda t: {k: v for k, v in t.items() if k != "coded.rows.scales"}, "no array 'coded.rows.scales'"),
    "scales": (replaced("coded.rows.scales", put(3, np.nan)), "'coded.rows.scales' has numbers that are not finite"),
    "short": (replaced("coded.values", lambda a: a[:-1].copy()), r"'coded.values' is int8 of shape"),
    "offsets": (replaced("coded.indptr", put(3, -1)), "'coded.indptr' do not start at 0 or decrease"),
    "class": (replaced("coded.classes", put(-1, K)), "supported classes of row .* are not distinct, sorted"),
    "twice": (replaced("coded.classes", put(slice(None), 3)), "are not distinct, sorted and in range"),
    "intercept": (replaced("intercept", lambda a: a[:-1].copy()), r"'intercept' is float32 of shape \(36,\)"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_description_that_does_not_fit_is_told(tmp_path, case):
    changes, told = HEADERS[case]
    fitted("pairs" if case == "another kind" else "hybrid")[0].compress("int8").save(tmp_path / "m")
    rewrite(tmp_path / "m", metadata=described(**changes))
    with pytest.raises(ValueError, match=f"m is damaged: .*{told}"):
        manyclass.load(tmp_path / "m")


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_do_not_fit_are_told(tmp_path, case, mmap):
    change, told = ARRAYS[case]
    fitted("hybrid")[0].compress("int8").save(tmp_path / "m")
    rewrite(tmp_path / "m", tensors=change)
    with pytest.raises(ValueError, match=f"m is damaged: .*{told}"):
        manyclass.load(tmp_path / "m", mmap=mmap)


@pytest.mark.parametrize("features", [[0, 0, 2, 3, 4], [0, 1, 2, 3, D], [-1, 1, 2, 3, 4], [1, 0, 2, 3, 4]])
def test_features_that_cannot_be_are_told(tmp_path, features):
    fitted("embedding")[0].compress("int8", prune=0.9).save(tmp_path / "m")
    rewrite(tmp_path / "m", tensors=replaced("coded.features", lambda a: np.array(features, dtype=a.dtype)))
    with pytest.raises(ValueError, match=r"m is damaged: 'coded.features' are not distinct, sorted and in range"):
        manyclass.load(tmp_path / "m")


# What does not go on


def test_training_on_is_refused_and_training_anew_is_not(kind):
    model, X, y = fitted(kind)
    small = model.compress("int8")
    with pytest.raises(
        ValueError,
        match=r"partial_fit needs the weights that were trained; this model was compressed, "
        r"to int8, .*: keep the original, call partial_fit on it and compress that again",
    ):
        small.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"compress needs the weights that were trained; .* with other arguments"):
        small.compress("int8")
    if "warm_start" in small.get_params() and kind not in ("pairs", "hybrid", "embedding", "linear, several"):
        with pytest.raises(ValueError, match="fit with warm_start=True needs the weights that were trained"):
            copy.copy(small).set_params(warm_start=True).fit(X, y)
    again = small.fit(X, y)
    assert again.storage() == model.storage()
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-6, atol=1e-6)


def test_a_certificate_needs_the_weights_that_were_trained():
    model, X, y = fitted("by feature")
    with pytest.raises(ValueError, match="certificate needs the weights that were trained"):
        model.compress().certificate(X, y)


def test_a_posterior_is_not_compressed():
    X, y, _ = problem()
    model = AugmentReduceClassifier(posterior="gaussian", alpha=0.1, max_iter=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="posterior is 'gaussian', whose variances"):
        model.compress()


def test_an_unfitted_model_is_told():
    with pytest.raises(NotFittedError):
        SoftmaxClassifier().compress()


def test_what_is_known_of_weights_comes_as_float32():
    model, X, _ = fitted("by feature")
    small = model.compress("int8")
    assert small.coef_.dtype == np.float32
    assert np.all(np.abs(small.coef_ - model.coef_) <= 0.501 * np.abs(model.coef_).max(axis=0) / 127)
    np.testing.assert_array_equal(small.intercept_, model.intercept_)
    pairs = fitted("pairs")[0]
    assert abs(pairs.compress("float32").coef_ - pairs.coef_).max() == 0
    embedded, X, _ = fitted("embedding")
    found = embedded.compress("int8", prune=0.5)
    assert found.embedding_.shape == embedded.embedding_.shape
    assert np.sum(np.any(found.embedding_ != 0, axis=1)) == D - D // 2
    assert np.abs(embedded.compress("float16").embed(X) - embedded.embed(X)).max() < 0.01
    with pytest.raises(AttributeError, match=r"two matrices|no one matrix"):
        _ = fitted("hybrid")[0].compress().coef_


def test_calibrated_models_and_activations_keep_what_they_have():
    X, y, Y = problem()
    for model, target in (
        (SoftmaxClassifier(model="linear", calibration="temperature", max_iter=3, random_state=0), y),
        (SoftmaxClassifier(model=manyclass.models.Embedding(activation="relu"), dim=9, max_iter=3, random_state=0), y),
        (SoftmaxClassifier(model="pairs", calibration="temperature", max_iter=3, random_state=0), Y),
        (SoftmaxClassifier(model="linear", solver=solvers.LBFGS(), fit_intercept=False, random_state=0), y),
    ):
        model.fit(sp.csr_array(X), target)
        small = model.compress("float16")
        assert small.calibration_ == model.calibration_
        np.testing.assert_allclose(small.predict_proba(X), model.predict_proba(X), atol=0.01)
        np.testing.assert_array_equal(small.intercept_, model.intercept_)


def test_phi_is_a_sum_over_the_features_that_have_embeddings(seed):
    rng = np.random.default_rng(seed)
    some = sp.random_array((9, 20), density=0.3, rng=rng, dtype=np.float32).tocsr()
    none = np.zeros(0, dtype=np.float32)
    for n, m in ((1, 9), (7, 9), (20, 9), (7, 2)):
        X = some[:m]  # of nine rows, more numbers than there are columns
        columns = np.sort(rng.permutation(20)[:n]).astype(np.int32)
        embeddings = rng.normal(size=(n, 16)).astype(np.float32)
        weights = _core.Weights(
            rows=np.ones((2, 16), np.float32),
            row_scales=none,
            by_feature=False,
            indptr=np.zeros(0, np.int64),
            classes=np.zeros(0, np.int32),
            values=none,
            value_scales=none,
            intercept=np.zeros(2, np.float32),
            n_features=20,
            coded=True,
            mixture=_core.CountMixture(),
            embeddings=embeddings,
            features=columns,
            n_hidden=16,
        )
        expected = X.toarray()[:, columns] @ embeddings
        # Sums of up to 20 products of about 1 in single precision.
        np.testing.assert_allclose(weights.phi(csr_parts(X), 1), expected, rtol=0, atol=20 * 2.0**-22)


def test_the_core_refuses_arrays_that_do_not_fit():
    none, floats = np.zeros(0, dtype=np.float32), np.ones(32, dtype=np.float32)
    given = {
        "rows": floats,
        "row_scales": none,
        "by_feature": True,
        "indptr": np.zeros(0, np.int64),
        "classes": np.zeros(0, np.int32),
        "values": none,
        "value_scales": none,
        "intercept": floats[:9],
        "n_features": 2,
        "coded": True,
        "mixture": _core.CountMixture(),
    }
    _core.Weights(**given)
    for change, told in (
        ({"n_features": 3}, "rows do not fit"),
        ({"intercept": floats[:17]}, "rows do not fit"),
        ({"row_scales": floats[:3]}, "rows do not fit"),
        ({"by_feature": False}, "rows do not fit"),
        ({"rows": none}, "there are no weights"),
        ({"values": floats}, "do not fit their support"),
        ({"rows": floats.astype(np.int8), "coded": False}, "must be floats without scales"),
        ({"value_scales": floats[:2]}, "do not fit their support"),
        ({"rows": none, "indptr": np.array([0, 1], np.int64)}, "do not describe one list for each row"),
        ({"mixture": _core.CountMixture(share=1.0)}, "the share of counts must be in"),
        ({"mixture": _core.CountMixture(share=0.5, shrinkage=1.0)}, "the counts do not fit the weights on pairs"),
    ):
        with pytest.raises(ValueError, match=told):
            _core.Weights(**(given | change))
    with pytest.raises(TypeError):
        _core.Weights(**(given | {"rows": np.ones(32)}))
