"""Features and classes that come later: what they begin at, and that growth itself changes no prediction."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from reference.problems import as_storage
from test_epoch import small_problem

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models

STORAGES = ["sparse", "dense"]
MODELS = {
    "linear": (SoftmaxClassifier(solver="implicit", max_iter=3, random_state=0), False),
    "default": (SoftmaxClassifier(random_state=0), False),
    "scaled": (
        SoftmaxClassifier(solver="implicit", model=models.Linear(scaling="standard"), random_state=0),
        False,
    ),
    "probit": (AugmentReduceClassifier(max_iter=3, random_state=0), False),
    "embedding": (SoftmaxClassifier(model="embedding", dim=4, max_iter=3, random_state=0), False),
    "embedding of several": (SoftmaxClassifier(model="embedding", dim=4, max_iter=3, random_state=0), True),
    "pairs": (SoftmaxClassifier(model="pairs", max_iter=3, random_state=0), True),
    "hybrid": (SoftmaxClassifier(model="hybrid", dim=4, max_iter=3, random_state=0), True),
    "margin": (MarginClassifier(max_iter=3, random_state=0), False),
    "embedded margin": (MarginClassifier(model="embedding", dim=4, max_iter=3, random_state=0), True),
}
N = 8  # features that are there at first


def fitted(name, storage, seed):
    """A model of the first features, and the data."""
    model, several = MODELS[name]
    X, y = small_problem(seed)
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)  # so that the scales of a hybrid's parts are found on 10 rows and not 2
    Y = np.eye(21, dtype=int)[y] if several else y
    return copy.deepcopy(model).fit(as_storage(X[:, :N], storage), Y), X, Y


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", MODELS)
def test_growth_changes_no_prediction_and_new_features_are_learnt(name, storage, seed):
    model, X, Y = fitted(name, storage, seed)
    still = copy.deepcopy(model)
    still.partial_fit(as_storage(X, storage), Y, learning_rate=1e-12, new_features="grow")
    assert still.n_features_in_ == X.shape[1]
    if "hybrid" not in name and "embed" not in name:  # a hybrid's embeddings have steps of their own
        np.testing.assert_allclose(
            still.decision_function(as_storage(X, storage)),
            model.decision_function(as_storage(X[:, :N], storage)),
            rtol=0,
            atol=1e-4,
        )
    learnt = copy.deepcopy(model)
    for _ in range(3):
        learnt.partial_fit(as_storage(X, storage), Y, new_features="grow", n_passes=5)
    without = X.copy()
    without[:, N:] = 0
    moved = learnt.decision_function(as_storage(X, storage)) - learnt.decision_function(as_storage(without, storage))
    assert np.abs(moved).max() > 0.05
    labels = Y.argmax(axis=1) if Y.ndim > 1 else Y
    right = [np.mean(m.predict_top_k(x, 1)[0][:, 0] == labels) for m, x in ((model, X[:, :N]), (learnt, X))]
    assert right[1] >= right[0]


@pytest.mark.parametrize("name", ["linear", "scaled", "embedding", "pairs", "hybrid"])
def test_a_grown_model_is_saved_and_goes_on(name, tmp_path, seed):
    model, X, Y = fitted(name, "sparse", seed)
    model.partial_fit(sp.csr_array(X), Y, new_features="grow")
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    one, other = (m.partial_fit(sp.csr_array(X), Y).decision_function(X) for m in (loaded, model))
    np.testing.assert_array_equal(one, other)


def test_growth_by_no_feature_is_none(seed):
    model, X, y = fitted("linear", "sparse", seed)
    same = copy.deepcopy(model).partial_fit(X[:, :N], y)
    np.testing.assert_array_equal(model.partial_fit(X[:, :N], y, new_features="grow").coef_, same.coef_)


def test_names_of_features_grow_with_them(seed):
    pandas = pytest.importorskip("pandas")
    X, y = small_problem(seed)
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(frame.iloc[:, :N], y)
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match=r"feature 0 of X is 'x1', and 'x0' in the model"):
        model.partial_fit(frame[["x1", "x0", *frame.columns[2:]]], y, new_features="grow")
    with pytest.raises(ValueError, match="new_features='grow' takes more"):
        model.partial_fit(frame, y)
    np.testing.assert_array_equal(model.coef_, coef)
    assert len(model.feature_names_in_) == N
    model.partial_fit(frame, y, new_features="grow")
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    model.predict(frame)


def test_a_narrower_x_and_an_unknown_choice_are_refused(seed):
    model, X, y = fitted("linear", "dense", seed)
    with pytest.raises(ValueError, match="X has 7 features, but SoftmaxClassifier is expecting 8"):
        model.partial_fit(X[:, : N - 1], y, new_features="grow")
    with pytest.raises(ValueError, match="new_features is 'hash'; it must be one of 'error', 'grow'"):
        model.partial_fit(X, y, new_features="hash")
    with pytest.raises(ValueError, match=r"X has 12 features, but SoftmaxClassifier is expecting 8 .*'grow'"):
        model.partial_fit(X, y)


# new_classes


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ["linear", "scaled", "probit", "embedding", "margin", "embedded margin"])
def test_new_classes_begin_at_what_is_given(name, storage, seed):
    model, _ = MODELS[name]
    X, y = small_problem(seed)
    X, old = as_storage(X, storage), y != 5
    model = copy.deepcopy(model).set_params(random_state=0).fit(X[np.flatnonzero(old)], y[old])
    length = model.coef_.shape[1]
    start = np.random.default_rng(seed).normal(size=length)
    new = np.flatnonzero(~old)
    starts = {5: start, 6: 7 * start, 99: start}  # 6 is there, 99 has no row
    model.partial_fit(X[new], y[new], new_classes=starts, learning_rate=1e-12)
    assert model.classes_.tolist() == list(range(21))
    np.testing.assert_allclose(model.coef_[5], start, atol=1e-4)
    assert np.abs(model.coef_[6]).max() < np.abs(7 * start).max() / 2 + np.abs(model.coef_).max() / 2


@pytest.mark.parametrize("name", ["linear", "scaled", "margin"])
def test_a_first_call_begins_at_what_is_given_too(name, seed):
    X, y = small_problem(seed)
    start = np.ones(12)
    model = copy.deepcopy(MODELS[name][0]).set_params(random_state=0)
    model.partial_fit(X, y, new_classes={3: start}, learning_rate=1e-12)
    np.testing.assert_allclose(model.coef_[3], start, atol=1e-4)
    np.testing.assert_allclose(model.coef_[4], 0, atol=1e-4)


def test_wrong_starts_are_refused(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", max_iter=1, random_state=0).fit(X, y)
    coef = model.coef_.copy()
    for given, told in (
        ({30: np.ones(3)}, r"new_classes\[30\] has shape \(3,\); it must be \(12,\)"),
        ({30: np.full(12, np.nan)}, r"new_classes\[30\] has entries that are not finite"),
    ):
        with pytest.raises(ValueError, match=told):
            model.partial_fit(X, np.where(y == 0, 30, y), new_classes=given)
    with pytest.raises(TypeError, match="new_classes is a str; it must be a mapping"):
        model.partial_fit(X, y, new_classes="mean")
    np.testing.assert_array_equal(model.coef_, coef)
    several, X, Y = fitted("pairs", "sparse", seed)
    with pytest.raises(ValueError, match="a model that is 'pairs' has no rows of weights"):
        several.partial_fit(X[:, :N], Y, new_classes={3: np.ones(N)})
