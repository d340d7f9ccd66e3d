"""Weights that are mapped and not finite: no one has read them, so the first question whose scores show it says so."""

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load
from manyclass.weights.arrays import Map, check_maps

N, D, K = 64, 6, 16  # as many classes as a line has, so that small weights of all pairs are kept by feature
# Each kind of weights, and its arrays that are mapped, of the model and of a copy by `compress`.
KINDS = {
    "dense": (SoftmaxClassifier(max_iter=2, n_negatives=2), ["weights"], ["coded.rows"]),
    "sparse data": (SoftmaxClassifier(max_iter=2, n_negatives=2), ["weights"], ["coded.rows"]),
    "embedding": (
        SoftmaxClassifier(model="embedding", dim=4, max_iter=2),
        ["weights", "embeddings"],
        ["coded.rows", "coded.embeddings"],
    ),
    "postings": (SoftmaxClassifier(model="pairs", max_iter=2), ["postings.values"], ["coded.values"]),
    "hybrid": (
        SoftmaxClassifier(model="hybrid", dim=4, max_iter=2),
        ["weights", "embeddings", "postings.values"],
        ["coded.rows", "coded.embeddings", "coded.values"],
    ),
    "noise": (AugmentReduceClassifier(noise="normal", max_iter=2), ["weights"], ["coded.rows"]),
    "margin": (MarginClassifier(max_iter=2), ["weights"], ["coded.rows"]),
}
QUESTIONS = {
    "predict": lambda model, X, y: model.predict(X),
    "predict_proba": lambda model, X, y: model.predict_proba(X),
    "predict_top_k": lambda model, X, y: model.predict_top_k(X, 3),
    "evaluate": lambda model, X, y: model.evaluate(X, y),
}
PLACES = [
    (kind, coded, array)
    for kind, (_, plain, coded) in KINDS.items()
    for coded, arrays in ((False, plain), (True, coded))
    for array in arrays
]


def problem(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    return (X if kind in ("dense", "noise", "embedding", "margin") else sp.csr_array(X)), np.arange(N) % K


SAVED = {}


def saved(kind, coded, path, dtype="float32"):
    """A fitted model, saved; and the data, where every row has the first feature and a row the first class."""
    X, y = problem(kind)
    key = kind, coded, dtype
    if key not in SAVED:
        model = KINDS[kind][0].set_params(random_state=0).fit(X, y)
        (model.compress(dtype=dtype) if coded else model).save(path)
        SAVED[key] = path.read_bytes()
    path.write_bytes(SAVED[key])
    return X, y


def put(path, array, value):
    """Write the first number of an array of a file."""
    content = bytearray(path.read_bytes())
    n = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + n])[array]
    number = np.asarray(value, {"F32": np.float32, "F16": np.float16}[entry["dtype"]])
    first = 8 + n + entry["data_offsets"][0]
    content[first : first + number.nbytes] = number.tobytes()
    path.write_bytes(content)


def refused(path, array):
    return pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged: '{re.escape(array)}' has .*mmap=False")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize(("kind", "coded", "array"), PLACES)
def test_a_question_to_mapped_weights_that_are_not_finite_names_the_file(kind, coded, array, value, question, tmp_path):
    X, y = saved(kind, coded, tmp_path / "m")
    put(tmp_path / "m", array, value)
    model = load(tmp_path / "m", mmap=True)
    if not hasattr(model, question):
        pytest.skip(f"there is no {question}")
    with refused(tmp_path / "m", array):
        QUESTIONS[question](model, X, y)
    with pytest.raises(ValueError, match=f"is damaged: '{re.escape(array)}' has numbers that are not finite"):
        load(tmp_path / "m")


def maps_of(weights):
    arrays = [getattr(array, "values", array) for array in vars(weights).values()]
    return [array.base for array in arrays if isinstance(getattr(array, "base", None), Map)]


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse data", "postings"])
def test_sound_maps_are_read_whole_only_after_a_score_beyond_single_precision(kind, coded, tmp_path):
    X, y = saved(kind, coded, tmp_path / "m")
    model = load(tmp_path / "m", mmap=True)
    for ask in QUESTIONS.values():
        ask(model, X, y)
    maps = [found for found in maps_of(model._weights) if found.dtype.kind == "f"]
    assert len(maps) == 1
    assert not maps[0].is_checked
    huge = X * np.float32(3e38 / np.abs(X).max())
    assert np.isfinite(model.predict_proba(huge)).all()
    assert maps[0].is_checked


def test_an_array_without_a_map_is_not_looked_at():
    model = SoftmaxClassifier(max_iter=1).fit(*problem("dense"))
    model._weights.matrix[0, 0] = np.nan
    check_maps(model._weights)


@pytest.mark.parametrize(("kind", "array"), [("postings", "postings.values"), ("hybrid", "weights")])
def test_a_calibrated_copy_of_mapped_weights_is_refused(kind, array, tmp_path):
    X, _ = saved(kind, False, tmp_path / "m")
    put(tmp_path / "m", array, np.nan)
    weights, scale = load(tmp_path / "m", mmap=True)._weights.times(0.5)
    with refused(tmp_path / "m", array):
        weights.scores(X, 1, scale)


def test_halves_that_are_not_finite_are_read_as_large_numbers_and_refused_where_they_are_read(tmp_path):
    """The core widens a half by moving its bits, so that no score shows it: see `coded_rows.cpp`."""
    X, y = saved("dense", True, tmp_path / "m", "float16")
    put(tmp_path / "m", "coded.rows", np.nan)
    model = load(tmp_path / "m", mmap=True)
    for ask in QUESTIONS.values():
        ask(model, X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(ValueError, match=r"is damaged: 'coded\.rows' has numbers that are not finite"):
        load(tmp_path / "m")
