"""What `save` writes `load` reads: fitted models in states that calls and parameters at random have led them to."""

import json
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from test_saved_models import rewrite

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, solvers
from manyclass.datasets import TextVectorizer

N_ROWS, N_FEATURES = 40, 6
KINDS = [
    lambda **given: SoftmaxClassifier(model="linear", **given),
    lambda **given: SoftmaxClassifier(model="pairs", **given),
    lambda **given: SoftmaxClassifier(model="hybrid", dim=2, **given),
    lambda **given: SoftmaxClassifier(model="embedding", dim=2, **given),
    lambda **given: MarginClassifier(**given),
    lambda **given: MarginClassifier(model="embedding", dim=2, **given),
    lambda **given: AugmentReduceClassifier(**given),
]
# Some of these are right, others are not, and some are right for some classifiers only.
VALUES = {
    "max_iter": [-5, 3, None, 2.5, "auto"],
    "alpha": [-1, 0.1, np.nan, "auto"],
    "n_jobs": [0, 1, None, "q"],
    "learning_rate": [0.1, -1, np.inf, "grid"],
    "class_weight": [None, {0: 2.0}, {np.datetime64(0, "s"): 1.0}, "balanced", object(), {0: np.nan}],
    "random_state": [None, np.random.RandomState(0), 3],
    "verbose": ["q", 0],
    "warm_start": [3, True],
    "early_stopping": ["no"],
    "model": [4, models.Embedding(), "linear"],
    "solver": [solvers.UMax(), "x", solvers.Implicit(decay=5)],
    "calibration": ["x", "temperature"],
    "n_models": [2, 0],
    "dim": [-2, 4],
    "n_negatives": [-3, 2],
}


def problem(rng):
    k = int(rng.integers(2, 6))
    X = (
        rng.normal(size=(N_ROWS, N_FEATURES))
        * (rng.random((N_ROWS, N_FEATURES)) < 0.7)
        * 10.0 ** rng.choice([-3, 0, 6])
    )
    y = rng.integers(0, k, N_ROWS)
    y[:k] = np.arange(k)
    names = [
        np.arange(k),
        np.array(["a" * int(rng.integers(1, 90)) + str(i) for i in range(k)], dtype=object),
        np.arange(k, dtype=np.uint64) + np.uint64(2**63),
        np.arange(k).astype("M8[s]"),
        np.arange(k) * 1.0,
    ][rng.integers(5)]
    X = X.astype(np.float32)
    several = rng.random() < 0.3
    Y = (np.eye(k, dtype=int)[y] | (rng.random((N_ROWS, k)) < 0.2)) if several else names[y]
    return (sp.csr_array(X) if rng.random() < 0.5 else X), Y


def moved(model, X, Y, rng):
    """The model after one more call, which may have failed."""
    move = rng.integers(4)
    try:
        if move == 0:
            name = str(rng.choice([name for name in VALUES if name in model.get_params()]))
            model.set_params(**{name: VALUES[name][rng.integers(len(VALUES[name]))]})
        elif move == 1:
            weights = 10.0 ** rng.choice([0, 20, 30], size=N_ROWS) if rng.random() < 0.5 else None
            model.partial_fit(X, Y, sample_weight=weights)
        elif move == 2:
            model.fit(X, Y)
        else:
            return model.compress("int8" if rng.random() < 0.5 else "float16")
    except (ValueError, TypeError):
        pass
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_model_in_any_state_is_saved_as_it_loads_or_not_at_all(kind, tmp_path, seed):
    rng, n_saved = np.random.default_rng([seed, kind]), 0
    for step in range(25):
        X, Y = problem(rng)
        model, path = KINDS[kind](random_state=0, max_iter=2), tmp_path / str(step)
        try:
            model.fit(X, Y)
        except ValueError:  # several labels, where one is taken
            continue
        for _ in range(rng.integers(4)):
            model = moved(model, X, Y, rng)
        try:
            model.save(path)
        except (ValueError, TypeError):
            assert not path.exists()
            continue
        loaded, n_saved = manyclass.load(path), n_saved + 1
        assert loaded.classes_.dtype == model.classes_.dtype
        assert loaded.classes_.tolist() == model.classes_.tolist()
        for found, expected in zip(loaded.predict_top_k(X, 2), model.predict_top_k(X, 2), strict=True):
            np.testing.assert_array_equal(found, expected)
        loaded.save(path)
    assert n_saved >= 5


@pytest.mark.parametrize(("name", "value"), [("max_iter", -5), ("alpha", -1), ("solver", "x"), ("model", 4)])
def test_parameters_that_were_set_since_the_fit_are_checked_before_anything_is_written(name, value, tmp_path):
    X = np.eye(3, dtype=np.float32).repeat(5, axis=0)
    model = SoftmaxClassifier(solver="implicit", max_iter=1).fit(X, np.arange(15) // 5).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"{name} is {value!r}"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_sums_that_are_not_finite_are_told_before_anything_is_written(tmp_path):
    X, y = sp.csr_array(np.eye(3, dtype=np.float32).repeat(5, axis=0)), np.arange(15) // 5
    model = SoftmaxClassifier(model="pairs", max_iter=1, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(X, y, sample_weight=np.where(y == 0, 1e30, 1.0))
    if np.isfinite(model._fitted.squares.values).all():
        model.save(tmp_path / "m")
        assert manyclass.load(tmp_path / "m").classes_.tolist() == [0, 1, 2]
    else:
        with pytest.raises(ValueError, match=r"'squares.\w+' has numbers that are not finite, because tr"):
            model.save(tmp_path / "m")
        assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_model_that_joblib_maps_can_be_trained_on(kind, several, warm, tmp_path):
    X, y = sp.csr_array(np.eye(3, dtype=np.float32).repeat(20, axis=0)), np.arange(60) // 20
    Y = np.eye(3, dtype=int)[y] if several else y
    model = KINDS[kind](max_iter=1, random_state=0)
    if several and isinstance(model, AugmentReduceClassifier):
        return
    joblib.dump(model.fit(X, Y), tmp_path / "m")
    mapped = joblib.load(tmp_path / "m", mmap_mode="r")
    trained = [(one.set_params(warm_start=True).fit if warm else one.partial_fit)(X, Y) for one in (mapped, model)]
    found, expected = (one.predict_top_k(X, 3) for one in trained)
    assert all(map(np.array_equal, found, expected))


def test_weights_of_rows_for_dates_are_saved(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    X, weight = np.eye(2, dtype=np.float32).repeat(5, axis=0), {days[0]: 2.0, days[1].item(): 3.0}
    model = SoftmaxClassifier(solver="implicit", max_iter=1, class_weight=weight).fit(X, days.repeat(5))
    model.save(tmp_path / "m")
    assert manyclass.load(tmp_path / "m").class_weight == {days[0]: 2.0, days[1]: 3.0}


def test_rows_of_texts_stay_sparse_where_scikit_learn_is_to_give_data_frames():
    with sklearn.config_context(transform_output="pandas"):
        assert sp.issparse(TextVectorizer().fit_transform(["an ant", "a bee"]))


def test_weights_that_do_not_fit_are_told_with_what_takes_less(monkeypatch):
    def zeros(*_, **__):
        raise MemoryError

    monkeypatch.setattr("manyclass.weights.arrays.np.zeros", zeros)
    with pytest.raises(MemoryError, match=r"weights of 100000000 by 32 take 12.8 GB.*max_memory hashes features"):
        manyclass.weights.arrays.aligned_zeros(10**8, 32)


def test_what_a_newer_version_has_written_is_told_as_such(tmp_path):
    X = np.eye(3, dtype=np.float32).repeat(5, axis=0)
    SoftmaxClassifier(solver="implicit", max_iter=1).fit(X, np.arange(15) // 5).save(tmp_path / "m")

    def change(metadata):
        description = json.loads(metadata["model"])
        description["parameters"]["of_the_future"] = 3
        return metadata | {"model": json.dumps(description), "package_version": "99.0"}

    rewrite(tmp_path / "m", metadata=change)
    with pytest.raises(ValueError, match="has no parameter 'of_the_future'"):
        manyclass.load(tmp_path / "m")
