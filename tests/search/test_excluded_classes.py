"""predict_top_k without what a row is not to get, what is searched, and how many labels predict gives."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from reference.problems import near_vertices, planted
from reference.states import state_of
from sklearn.base import clone
from sklearn.metrics import f1_score
from test_approximate_answers import model_of as clustered_model
from test_approximate_answers import points
from test_saved_models import rewrite

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core
from manyclass.classifiers import exclusion
from manyclass.datasets import SequenceEncoder
from manyclass.search import class_index
from manyclass.weights.weights import Weights

N, D, K = 40, 5, 23
ESTIMATORS = {
    "softmax": SoftmaxClassifier(max_iter=3, random_state=0),
    "embeddings": SoftmaxClassifier(solver="adagrad", model="embedding", dim=3, max_iter=3, random_state=0),
    "margin": MarginClassifier(max_iter=3, random_state=0),
    "probit": AugmentReduceClassifier(max_iter=3, random_state=0),
    "gaussian": AugmentReduceClassifier(max_iter=2, alpha=1e-2, posterior="gaussian", random_state=0),
}
EACH = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture
def problem(seed):
    return planted(np.random.default_rng(seed), N, D, K)


def model_of(name):
    return clone(ESTIMATORS[name])


def seen_by(rng, most=K):
    """A matrix of what each row is not to get: nothing in the first, all but one class in the second."""
    seen = rng.random((N, K)) < rng.random((N, 1)) * most / K
    seen[0], seen[1] = False, True
    seen[1, 3] = False
    return seen


def allowed(model, X, seen, k):
    """By definition: all classes in the order of the full list, those of a row removed, the first k."""
    labels, values = model.predict_top_k(X, K)
    listed = zip(labels, values, seen, strict=True)
    rows = [[(a, b) for a, b in zip(some, of, strict=True) if not not_to_get[a]] for some, of, not_to_get in listed]
    padded = [[*row, *[(-1, -np.inf)] * k][:k] for row in rows]
    return np.array([[a for a, _ in row] for row in padded]), np.array([[b for _, b in row] for row in padded])


@EACH
@pytest.mark.parametrize("cells", [1 << 20, 40])
@pytest.mark.parametrize("k", [1, 4, K])
def test_what_is_excluded_is_never_returned_and_the_rest_is_as_it_was(name, k, cells, problem, monkeypatch, seed):
    monkeypatch.setattr(exclusion, "BLOCK_CELLS", cells)
    X, y = problem
    model = model_of(name).fit(X, y)
    seen = seen_by(np.random.default_rng(seed))
    labels, values = model.predict_top_k(X, k, exclude=sp.csr_array(seen))
    expected, expected_values = allowed(model, X, seen, k)
    np.testing.assert_array_equal(labels, expected)
    # A normaliser of the margin's shift is summed in another order: a rounding of floats.
    np.testing.assert_allclose(values, expected_values, rtol=1e-5, atol=1e-6)
    assert values.dtype == np.float32
    assert (labels[1, 1:] == -1).all()


@EACH
def test_all_forms_of_exclude_mean_the_same(name, problem, seed):
    X, y = problem
    model = model_of(name).fit(X, y + 10)
    seen = seen_by(np.random.default_rng(seed), most=8)
    as_labels = [np.flatnonzero(row) + 10 for row in seen]
    counts = sp.csr_array(seen * np.random.default_rng(seed).integers(1, 9, seen.shape)).astype(np.float64)
    stored_zero = sp.csr_array(np.ones((N, K)))
    stored_zero.data[:] = seen.ravel()
    forms = [seen, seen.astype(int), sp.coo_array(seen), sp.csr_matrix(seen), counts, stored_zero, as_labels]
    forms += [[row.tolist() for row in as_labels], [[*row, *row, 1000] for row in as_labels]]
    first = model.predict_top_k(X, 3, exclude=forms[0])
    for form in forms[1:]:
        for a, b in zip(first, model.predict_top_k(X, 3, exclude=form), strict=True):
            np.testing.assert_array_equal(a, b)
    if name == "gaussian":
        return  # whose draws depend on a row's place
    one = sp.csr_array(X)[5], 3
    row = sp.csr_array(seen)[5]
    np.testing.assert_array_equal(model.predict_top_k(*one, exclude=row)[0], first[0][5:6])
    np.testing.assert_array_equal(model.predict_top_k(*one, exclude=[as_labels[5]])[0], first[0][5:6])


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        (np.array([3, 4, 5]), -1),
        (np.array([3.0, 4.0, 5.0]), np.nan),
        (np.array(["a", "b", "c"]), ""),
        (np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]"), np.datetime64("NaT")),
        (np.array([1, 2, 3], dtype="timedelta64[D]"), np.timedelta64("NaT")),
        (np.array([3, 4, 5], dtype=np.uint8), None),
        (np.array(["a", "b", "c"], dtype=object), None),
    ],
    ids=lambda v: str(getattr(v, "dtype", v)),
)
def test_missing_labels_have_a_value_of_their_type(labels, missing, seed):
    X, y = near_vertices(seed, 12, D, 3)
    model = SoftmaxClassifier(max_iter=1, random_state=0).fit(X, labels[y])
    found, values = model.predict_top_k(X, 2, exclude=[labels[:2]] + [[]] * 11)
    assert found[0, 0] == labels[2]
    assert found[0, 1] is missing or found[0, 1] == missing or (found[0, 1] != found[0, 1] and missing != missing)
    assert values[0, 1] == -np.inf
    assert np.isfinite(values[1:]).all()
    if missing is not None:
        assert found.dtype == labels.dtype
    assert model.predict_top_k(X, 2, exclude=[[]] * 12)[0].dtype == labels.dtype


def test_where_all_classes_are_excluded_nothing_is_left(problem):
    X, y = problem
    labels, values = SoftmaxClassifier(max_iter=1).fit(X, y).predict_top_k(X, 2, exclude=np.ones((N, K)))
    assert (labels == -1).all()
    assert (values == -np.inf).all()


@pytest.mark.parametrize(
    ("exclude", "told"),
    [
        (sp.csr_array((N, K - 1)), rf"exclude has shape \({N}, {K - 1}\); it must be \({N}, {K}\): rows of X by cl"),
        ([[1]], f"exclude has 1 lists of labels; X has {N} rows"),
        ([1] * N, r"exclude\[0\] is 1; it must be a list of labels, one list for each row of X"),
        ([["a"]] * N, r"exclude\[0\] holds text, such as 'a'; the classes are numbers"),
        (np.full((N, K), 7), "that of an indicator matrix, and holds .*7.*; it must hold 0 and 1"),
    ],
)
def test_exclusions_that_do_not_fit_are_refused(exclude, told, problem):
    X, y = problem
    for name in ("softmax", "margin"):
        with pytest.raises(ValueError, match=told):
            model_of(name).fit(X, y).predict_top_k(X, 2, exclude=exclude)


def test_lists_are_found_in_blocks_and_as_long_as_a_row_needs(problem):
    X, y = problem
    model, asked = SoftmaxClassifier(max_iter=1).fit(X, y), []
    exact = model._top_k
    model._top_k = lambda state, x, k: asked.append((x.shape[0], k)) or exact(state, x, k)
    seen = np.zeros((N, K), dtype=bool)
    seen[0, :5] = seen[1, :7] = seen[2, :2] = True
    model.predict_top_k(X, 3, exclude=seen)
    # Seven, five and two classes: lists of 3 + 7; none: of 3.
    assert asked == [(3, 10), (N - 3, 3)]


# Among candidates only


@EACH
@pytest.mark.parametrize("cells", [1 << 20, 40])
def test_only_candidates_are_ranked_for_all_rows_and_for_each(name, cells, problem, monkeypatch, seed):
    monkeypatch.setattr(exclusion, "BLOCK_CELLS", cells)
    X, y = problem
    model = model_of(name).fit(X, y)
    rng = np.random.default_rng(seed)
    candidates, wrong = rng.choice(K, 5, replace=False), seen_by(rng)
    mask = np.isin(np.arange(K), candidates)
    lists = [np.flatnonzero(row) for row in rng.random((N, K)) < 0.3]
    of_lists = np.array([np.isin(np.arange(K), some) for some in lists])
    for among, may_get in (
        (candidates.tolist(), mask),
        ([*candidates, 1000], mask),
        (sp.csr_array(mask.astype(int)), mask),
        (lists, of_lists),
        (of_lists, of_lists),
        (sp.csr_array(of_lists), of_lists),
    ):
        for exclude in (None, wrong):
            labels, values = model.predict_top_k(X, 7, among=among, exclude=exclude)
            not_to_get = np.broadcast_to(~may_get, (N, K)) | (False if exclude is None else exclude)
            expected, expected_values = allowed(model, X, not_to_get, 7)
            np.testing.assert_array_equal(labels, expected)
            np.testing.assert_allclose(values, expected_values, rtol=1e-5, atol=1e-5)
            assert values.dtype == np.float32


def test_candidates_of_histories_of_several_labels_and_of_small_models(seed):
    rng = np.random.default_rng(seed)
    visits = [[f"i{j}" for j in rng.integers(0, 9, 6)] for _ in range(60)]
    model = SoftmaxClassifier(model="hybrid", max_iter=2, random_state=0).fit(visits, vectorizer=SequenceEncoder())
    for asked in (model, model.compress("int8")):
        labels, values = asked.predict_top_k(visits[:4], 3, among=["i2", "i5", "unknown"], exclude="seen")
        log_p = asked.predict_log_proba(visits[:4])
        for row, visit in enumerate(visits[:4]):
            left = sorted({"i2", "i5"} - set(visit), key=lambda i: -log_p[row, list(asked.classes_).index(i)])
            assert labels[row].tolist() == [*left, "", "", ""][:3]
            np.testing.assert_allclose(
                values[row, : len(left)], [log_p[row, list(asked.classes_).index(i)] for i in left]
            )
    X, Y = several(rng)
    model = SoftmaxClassifier(calibration="temperature", random_state=0).fit(X, Y)
    labels, values = model.predict_top_k(X[:3], 8)
    for row in range(3):
        some, of_some = model.predict_top_k(X[row : row + 1], 2, among=labels[row, [1, 4]])
        np.testing.assert_array_equal(some[0], labels[row, [1, 4]])
        np.testing.assert_allclose(of_some[0], values[row, [1, 4]], rtol=1e-4)


def test_candidates_that_do_not_fit_are_refused(problem):
    X, y = problem
    model = model_of("softmax").fit(X, y)
    for among, told in (
        ("ant", "among is 'ant'; it must be a list of labels, a list of labels for each row"),
        (["a"], r"among\[0\] holds text, such as 'a'; the classes are numbers"),
        ([[1], [2]], f"among has 2 lists of labels; X has {N} rows"),
        (sp.csr_array((N, K - 1)), rf"among has shape \({N}, {K - 1}\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            model.predict_top_k(X, 2, among=among)
    with pytest.raises(ValueError, match="among has those to score"):
        model.predict_top_k(X, 2, among=[1], approximate=True)


@pytest.mark.parametrize("seen_share", [0.02, 0.4])
def test_a_search_excludes_too(seen_share, monkeypatch, seed):
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    monkeypatch.setattr(class_index, "slower", lambda *_: "")
    model, rng = clustered_model(seed)
    X = points(rng, 200)
    seen = rng.random((200, len(model.classes_))) < seen_share
    seen[::2] = False
    labels, values, std = model.predict_top_k(X, 4, exclude=seen, approximate=True, recall=1, return_std=True)
    assert not np.take_along_axis(seen, labels - 1000, axis=1).any()
    exact, exact_values = model.predict_top_k(X, 4, exclude=seen)
    # Ties within rounding may change places: fewer than one row in fifty.
    assert (labels == exact).all(axis=1).mean() > 0.98
    assert (std >= 0).all()
    same = labels == exact
    assert np.abs((values - exact_values)[same]).max() <= 6 * std.max() + 1e-4  # 200 normal errors


# Approximate search is chosen where it is predicted to be faster


def planted_weights(n_classes, n_features, *, sparse):
    """A model of zero weights: what is chosen depends on shapes only."""
    weights = Weights.zeros(n_classes, n_features, by_feature=sparse)
    return SoftmaxClassifier(random_state=0)._taken(state_of(weights))


def test_an_index_over_wide_sparse_weights_is_never_built(seed):
    # findings-0.1, A6: of 12,085 classes and 5,000 features an approximate search took 36 ms a row, an exact one .22.
    model = planted_weights(12_085, 5000, sparse=True)
    X = sp.random_array((3, 5000), density=0.01, format="csr", dtype=np.float32, rng=np.random.default_rng(seed))
    with pytest.warns(UserWarning, match=r"approximate=True is not followed: all 12085 classes are scored") as caught:
        _, _, std = model.predict_top_k(X, 2, approximate=True, return_std=True)
    assert "its index is dense, 5001 numbers a class" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert model._kept_answers.index is None
    assert (std == 0).all()


@pytest.mark.parametrize(
    ("n_classes", "n_features", "row", "sparse", "n_rows", "searched"),
    [
        # Measured on one thread, exact and searched, in microseconds a row (recall .95, five labels).
        (20_000, 200, None, False, 512, True),  # 808, 221
        (100_000, 100, None, False, 512, True),  # 1,777, 401
        (12_000, 1000, 200, True, 512, True),  # 1,352, 870
        (12_000, 1000, 200, True, 1, False),  # 1,352, 2,993: so few rows do not tune the index
        (20_000, 2000, 20, True, 512, False),  # 360, 1,976
        (12_000, 5000, 50, True, 512, False),  # 396, 12,377
    ],
)
def test_the_choice_follows_what_was_measured(n_classes, n_features, row, sparse, n_rows, searched):
    weights = Weights.linear(
        np.broadcast_to(np.float32(0), (n_features, n_classes) if sparse else (n_classes, n_features)),
        np.zeros(n_classes, dtype=np.float32),
        by_feature=sparse,
    )
    x = np.broadcast_to(np.float32(1), (n_rows, n_features))
    if sparse:
        x = sp.csr_array(np.zeros((n_rows, n_features), dtype=np.float32))
        x = sp.csr_array((np.ones(n_rows * row), np.tile(np.arange(row), n_rows), np.arange(n_rows + 1) * row), x.shape)
    assert (class_index.slower(weights, x, None, 0.95) == "") == searched


def test_what_tuning_found_decides_later(seed):
    weights = Weights.zeros(12_000, 1000, by_feature=True)
    x = sp.random_array((8, 1000), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(seed))
    n_clusters = 219
    assert class_index.slower(weights, x, 10, 0.95) == ""
    assert class_index.slower(weights, x, n_clusters, 0.95)
    assert class_index.slower(weights, x, None, 0.95)  # so few rows do not tune it


# Labels of several-label models


SEVERAL = pytest.mark.parametrize("name", ["softmax", "embeddings", "margin"])


def several(rng):
    """Rows with one to four labels out of eight, features that tell them up to noise."""
    Y = (rng.random((300, 8)) < 0.08 + 0.35 * rng.random((300, 1))).astype(int)
    Y[~Y.any(axis=1), 0] = 1
    X = (Y @ rng.normal(size=(8, 12)) + 0.3 * rng.normal(size=(300, 12))).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), Y


@SEVERAL
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_k_or_a_threshold_say_how_many_labels_are_predicted(name, kind, seed):
    X, Y = several(np.random.default_rng(seed))
    model = model_of(name).fit(X, kind(Y))
    values = model.decision_function(X) if name == "margin" else model.predict_proba(X)
    for k in (1, 3, 8):
        found = model.predict(X, k=k)
        assert isinstance(found, np.ndarray if kind is np.asarray else sp.csr_array)
        dense = sp.csr_array(found).toarray()
        assert dense.dtype == np.int64
        assert (dense.sum(axis=1) == k).all()
        np.testing.assert_array_equal(np.flatnonzero(dense), np.flatnonzero(best_of(values, k)))
    for quantile in (0.1, 0.7, 0.999):
        # Between two values, as rounding of a normaliser could turn an equal one.
        ordered = np.sort(values, axis=None)
        at = int(quantile * len(ordered))
        threshold = (ordered[at] + ordered[at + 1]) / 2
        dense = sp.csr_array(model.predict(X, threshold=threshold)).toarray()
        assert (dense != (values > threshold)).mean() < 1e-3  # float32 against float64 within one rounding of it
    assert sp.csr_array(model.predict(X, threshold=1.0 if name != "margin" else 1e9)).nnz == 0


def best_of(values, k):
    best = np.zeros(values.shape, dtype=int)
    np.put_along_axis(best, np.argsort(-values, axis=1, kind="stable")[:, :k], 1, axis=1)
    return best


@SEVERAL
def test_by_default_rows_have_as_many_labels_as_their_scores_say(name, seed):
    X, Y = several(np.random.default_rng(seed))
    model = model_of(name).set_params(max_iter=30).fit(X[:200], Y[:200])
    found = model.predict(X[200:])
    assert model.threshold_ is not None
    by_threshold = model.predict(X[200:], threshold=model.threshold_)
    best = model.predict(X[200:], k=1)
    np.testing.assert_array_equal(found, by_threshold | best)
    assert len(set(found.sum(axis=1))) > 1
    assert abs(model.predict(X[:200]).sum() - Y[:200].sum()) <= 200 * 0.02 + (by_threshold.sum(axis=1) == 0).sum()
    counted = model.predict(X[200:], k=model.n_labels_)
    assert f1_score(Y[200:], found, average="micro") > f1_score(Y[200:], counted, average="micro")


def test_where_a_count_fits_better_it_is_the_default(seed):
    rng = np.random.default_rng(seed)
    X, y = near_vertices(seed, 120, D, 12)
    Y = np.eye(12, dtype=int)[y] | np.eye(12, dtype=int)[(y + 3) % 12]
    scale = rng.uniform(0.2, 4, size=(120, 1))  # scores of rows are not comparable
    model = MarginClassifier(fit_intercept=False, max_iter=30, random_state=0).fit((X * scale).astype(np.float32), Y)
    assert model.threshold_ is None
    found = model.predict(X)
    assert (found.sum(axis=1) == model.n_labels_).all()
    np.testing.assert_array_equal(found, model.predict(X, k=2))


@SEVERAL
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_model_predicts_the_same_labels(name, mmap, tmp_path, seed):
    X, Y = several(np.random.default_rng(seed))
    model = model_of(name).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m", mmap=mmap)
    assert loaded.threshold_ == model.threshold_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    def older(metadata):
        description = json.loads(metadata["model"])
        kept = {name: value for name, value in description["labels"].items() if name not in ("threshold_", "n_labels_")}
        description["labels"] = {**kept, "n_labels_": 2}
        return metadata | {"model": json.dumps(description)}

    rewrite(tmp_path / "m", metadata=older)
    assert (manyclass.load(tmp_path / "m", mmap=mmap).predict(X).sum(axis=1) == 2).all()


@SEVERAL
def test_k_and_threshold_are_refused_where_they_cannot_be(name, problem, seed):
    X, y = problem
    model = model_of(name).fit(X, y)
    for given in ({"k": 2}, {"threshold": 0.5}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} is .*; predict gives one label, as the model was"):
            model.predict(X, **given)
    X, Y = several(np.random.default_rng(seed))
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"k is 2 and threshold is 0\.5; at most one of them can be given"):
        model.predict(X, k=2, threshold=0.5)
    for k in (0, 9):
        with pytest.raises(ValueError, match=rf"k is {k}; it must be at least 1 and at most 8"):
            model.predict(X, k=k)
    with pytest.raises(ValueError, match="threshold is nan; it must be finite"):
        model.predict(X, threshold=np.nan)
    if name != "margin":
        with pytest.raises(ValueError, match=r"threshold is 1\.5; it must be finite, at least 0 and at most 1"):
            model.predict(X, threshold=1.5)


def test_the_core_keeps_the_first_classes_that_a_row_does_not_exclude(seed):
    rng = np.random.default_rng(seed)
    found = np.array([rng.permutation(9)[:6] for _ in range(7)], dtype=np.int32)
    values = -np.sort(-rng.normal(size=found.shape), axis=1).astype(np.float32)
    lists = [np.sort(rng.choice(9, size, replace=False)).astype(np.int32) for size in (0, 2, 9, 4)]
    rows = rng.integers(0, 4, 7).astype(np.int32)
    indptr = np.cumsum([0, *map(len, lists)])
    call = {"rows": rows, "classes": found, "values": values, "indptr": indptr, "excluded": np.concatenate(lists)}
    classes, kept = _core.best_but(**call, k=3)
    for i, row in enumerate(rows):
        left = [j for j, k in enumerate(found[i]) if k not in lists[row]][:3]
        n = len(left)
        assert classes[i].tolist() == [*found[i][left], *[-1] * (3 - n)]
        assert kept[i].tolist() == [*values[i][left], *[-np.inf] * (3 - n)]
    with pytest.raises(ValueError, match="has no list of excluded classes"):
        _core.best_but(**{**call, "rows": rows + np.int32(4)}, k=3)
    with pytest.raises(ValueError, match="do not fit the rows"):
        _core.best_but(**{**call, "rows": rows[1:]}, k=3)
