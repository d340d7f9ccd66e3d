"""Words and habits of scikit-learn: labels as users have them, single rows, unseen labels, widths."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference.problems import near_vertices
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MultiLabelBinarizer

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SoftmaxClassifier,
    SphericalClusterIndex,
    load_xmc,
    metrics,
    tune_learning_rate,
)
from manyclass.cli.parser import main
from manyclass.datasets import first_label, l2_normalize

N, D, K = 48, 5, 6
BINARIZER = "MultiLabelBinarizer(sparse_output=True).fit_transform(y)"
ESTIMATORS = {
    "softmax": SoftmaxClassifier(max_iter=4, random_state=0),
    "embeddings": SoftmaxClassifier(model="embedding", dim=3, max_iter=4, random_state=0),
    "margin": MarginClassifier(max_iter=4, random_state=0),
    "probit": AugmentReduceClassifier(max_iter=4, random_state=0),
    "gaussian": AugmentReduceClassifier(max_iter=2, alpha=1e-2, posterior="gaussian", random_state=0),
}
SEVERAL = ("softmax", "embeddings", "margin")
EACH = pytest.mark.parametrize("name", ESTIMATORS)
OF_SEVERAL = pytest.mark.parametrize("name", SEVERAL)


def model_of(name):
    return clone(ESTIMATORS[name])


@pytest.fixture
def problem(seed):
    return near_vertices(seed, N, D, K)


# y


@OF_SEVERAL
@pytest.mark.parametrize(
    "y",
    [
        [[1, 2], [3]] * 24,
        [["a", "b"], ["c", "d"]] * 24,
        [{"a", "b"}, {"c"}] * 24,
        [("a",), ("b", "c")] * 24,
        np.array([[1, 2], [3]] * 24, dtype=object),
        pd.Series([["a"], ["b", "c"]] * 24),
        [np.array([1, 2]), np.array([3])] * 24,
    ],
    ids=["ints", "pairs", "sets", "tuples", "objects", "series", "arrays"],
)
def test_lists_and_sets_of_labels_are_several_labels_with_their_names(name, y, problem):
    X, _ = problem
    binarizer = MultiLabelBinarizer(sparse_output=True)
    Y, model = binarizer.fit_transform(y), model_of(name).fit(X, y)
    other, asked = model_of(name).fit(X, Y), X[:6]
    assert model.multilabel_
    np.testing.assert_array_equal(model.classes_, binarizer.classes_)
    np.testing.assert_array_equal(model.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(model.predict(asked).toarray(), other.predict(asked).toarray())
    labels = model.predict_top_k(asked, 2)[0]
    np.testing.assert_array_equal(labels, binarizer.classes_[other.predict_top_k(asked, 2)[0]])
    assert model.evaluate(X, y) == other.evaluate(X, Y) == model.evaluate(X, (Y, binarizer.classes_))
    assert model.score(X, y) == other.score(X, Y)
    tail = [[*labels, "unseen" if isinstance(labels[0], str) else 99] for labels in map(list, y)]
    assert model.evaluate(X, tail) == other.evaluate(X, Y)  # a label that is no class is left out
    np.testing.assert_array_equal(model_of(name).partial_fit(X, y).classes_, binarizer.classes_)
    with pytest.raises(ValueError, match="y has 1 labels unseen in fit, among them"):
        model.partial_fit(X, tail)
    model.partial_fit(X, y)


@OF_SEVERAL
def test_names_of_the_columns_of_a_matrix_are_kept(name, problem):
    X, y = problem
    Y, names = np.eye(K, dtype=int)[y], np.array([f"tag {k}" for k in range(K)])
    plain = model_of(name).fit(X, Y)
    for matrix, names_of_columns in ((Y, names), (sp.csr_array(Y), names.tolist()), (Y[:, ::-1], names[::-1])):
        model = model_of(name).fit(X, (matrix, names_of_columns))
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
        assert model.evaluate(X, (matrix, names_of_columns)) == plain.evaluate(X, Y) == model.evaluate(X, Y)
    with pytest.raises(ValueError, match=rf"y has {K} columns, and there are {K - 1} names of them"):
        model.fit(X, (Y, names[1:]))
    if name == "softmax":
        rows, tags = np.tile(X, (5, 1)), [[names[k], names[0]] for k in y] * 5
        several = SoftmaxClassifier(random_state=0).fit(rows, tags, class_text=(names, np.eye(K, D, dtype=np.float32)))
        np.testing.assert_array_equal(several.classes_, names)


def test_numbers_in_lists_of_equal_length_are_refused_with_the_same_line(problem):
    X, _ = problem
    with pytest.raises(ValueError, match=r"holds 3; a matrix of labels holds 0 and 1, which row 1 does not") as caught:
        SoftmaxClassifier().fit(X, [[0, 1], [3, 1]] * 24)
    assert str(caught.value).endswith(BINARIZER)
    with pytest.raises(ValueError, match=r"shape \(48, 2\) and dtype <U1; fit takes an indicator matrix"):
        SoftmaxClassifier().fit(X, np.array([["a", "b"], ["c", "d"]] * 24))


def test_who_takes_one_label_a_row_says_who_takes_several(problem):
    X, _ = problem
    with pytest.raises(ValueError, match="this takes one label a row; SoftmaxClassifier and MarginClassifier take"):
        AugmentReduceClassifier().fit(X, [["a"], ["b", "c"]] * 24)


def test_lists_that_are_an_indicator_matrix_or_a_column_are_taken(problem):
    X, y = problem
    Y = np.eye(K, dtype=int)[y]
    of_lists, of_array = (MarginClassifier(max_iter=2, random_state=0).fit(X, some) for some in (Y.tolist(), Y))
    np.testing.assert_array_equal(of_lists.coef_, of_array.coef_)


@EACH
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("container", [list, lambda y: np.array(y, dtype=object), pd.Series], ids=["l", "o", "s"])
def test_a_missing_label_is_named_by_its_row(name, missing, container, problem):
    X, y = problem
    words = [*np.array(list("abcdef"))[y]]
    words[3] = missing
    model = model_of(name)
    with pytest.raises(ValueError, match=r"y\[3\] is .*: row 3 has no label.*leave such rows out"):
        model.fit(X, container(words))
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, np.array(list("abcdef"))[y])
    for ask in (model.evaluate, model.score):
        with pytest.raises(ValueError, match=r"y\[3\] is .*: row 3 has no label"):
            ask(X, container(words))


@EACH
def test_nan_among_numbers_and_missing_dates_are_named_by_their_row(name, problem):
    X, y = problem
    numbers = np.where(np.arange(N) == 7, np.nan, y)
    with pytest.raises(ValueError, match=r"y\[7\] is nan: row 7 has no label"):
        model_of(name).fit(X, numbers)
    dates = np.datetime64("2020-01-01") + y.astype("timedelta64[D]")
    dates[2] = np.datetime64("NaT")
    with pytest.raises(ValueError, match=r"y\[2\] is NaT: row 2 has no label"):
        model_of(name).fit(X, dates)


@EACH
@pytest.mark.parametrize(
    ("y", "told"),
    [
        (["a", 1] * 24, r"y\[1\] is 1, a number and y\[0\] is 'a', text"),
        (np.array(["a", 1] * 24, dtype=object), r"y\[1\] is 1, a number and y\[0\] is 'a', text"),
        ([b"a", "a"] * 24, r"y\[0\] is b'a', bytes and y\[1\] is 'a', text"),
        ([datetime.date(2020, 1, 2), 2] * 24, r"y\[0\] is datetime.date\(2020, 1, 2\), a date and y\[1\] is 2"),
    ],
    ids=["list", "objects", "bytes", "dates"],
)
def test_labels_of_several_kinds_are_named(name, y, told, problem):
    with pytest.raises(ValueError, match=told + r".*; labels must be of one kind"):
        model_of(name).fit(problem[0], y)


def test_numbers_of_several_types_are_one_kind(problem):
    X, _ = problem
    model = SoftmaxClassifier(max_iter=1).fit(X, [0, True, 2.0, np.int8(3)] * 12)
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_many_classes_are_not_taken_for_a_regression(seed):
    X, y = near_vertices(seed, 60, D, 40)
    SoftmaxClassifier(max_iter=1).fit(X, y)  # without a warning, which would be an error here


def test_tuning_refuses_what_fit_refuses(problem):
    X, _ = problem
    with pytest.raises(ValueError, match=r"y\[0\] is \['a'\], a list of labels"):
        tune_learning_rate(SoftmaxClassifier(), X, [["a"], ["b", "c"]] * 24)


@EACH
def test_labels_of_another_kind_than_those_of_the_fit_are_refused(name, problem):
    X, y = problem
    model = model_of(name).fit(X, y)
    for ask in (model.evaluate, model.score):
        with pytest.raises(ValueError, match=r"y holds text, such as '.'; the classes are numbers, such as 0"):
            ask(X, y.astype(str))


# Rows


METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def methods(model):
    return [name for name in METHODS if hasattr(model, name)]


@EACH
@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_array])
def test_a_row_of_a_sparse_array_is_one_row_everywhere(name, kind, problem):
    X, y = problem
    model = model_of(name).fit(sp.csr_array(X), y)
    whole = sp.csr_array(X)
    row = kind(whole[0])
    assert len(row.shape) == 1
    for method in methods(model):
        np.testing.assert_array_equal(getattr(model, method)(row), getattr(model, method)(whole[[0]]))
    for of_row, of_matrix in zip(model.predict_top_k(row, 3), model.predict_top_k(whole[[0]], 3), strict=True):
        np.testing.assert_array_equal(of_row, of_matrix)
    assert model.evaluate(row, y[:1]) == model.evaluate(whole[[0]], y[:1])
    assert model.score(row, y[:1]) == model.score(whole[[0]], y[:1])
    if name == "embeddings":
        np.testing.assert_array_equal(model.embed(row), model.embed(whole[[0]]))


@pytest.mark.parametrize("index", [SphericalClusterIndex(3, random_state=0), DecomposedIndex(2, random_state=0)])
def test_an_index_takes_a_row_of_a_sparse_array_as_it_takes_a_vector(index, seed):
    W = np.random.default_rng(seed).standard_normal((40, D)).astype(np.float32)
    index = clone(index).fit(W)
    row, seen = sp.csr_array(W)[3], sp.csr_array(np.arange(40) % 3 == 0)
    for given in ({}, {"exclude": seen[[0]] if seen.ndim == 2 else seen}):
        for of_row, of_vector in zip(index.query(row, 4, **given), index.query(W[3], 4, **given), strict=True):
            np.testing.assert_array_equal(of_row, of_vector)
            assert of_row.shape == (4,)


@EACH
def test_a_dense_vector_is_asked_whether_it_is_a_row(name, problem):
    X, y = problem
    model = model_of(name).fit(X, y)
    asks = [getattr(model, method) for method in methods(model)]
    asks += [lambda x: model.predict_top_k(x, 2), lambda x: model.evaluate(x, y[:1]), lambda x: model.score(x, y[:1])]
    for ask in asks:
        with pytest.raises(ValueError, match=r"(?s)Expected 2D array, got 1D array.*array\.reshape\(1, -1\) if it"):
            ask(X[0])
    with pytest.raises(ValueError, match="Expected 2D input"):
        model.fit(sp.csr_array(X)[0], y[:1])


@EACH
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("width", [D - 1, D + 1])
def test_data_of_another_width_are_refused_everywhere(name, container, width, problem):
    X, y = problem
    model = model_of(name).fit(container(X), y)
    other = container(np.resize(X, (N, width)))
    asks = [getattr(model, method) for method in methods(model)]
    asks += [lambda x: model.predict_top_k(x, 2), lambda x: model.evaluate(x, y), lambda x: model.score(x, y)]
    if name == "softmax":
        asks.append(lambda x: model.certificate(x, y))
    if name == "probit":
        asks.append(lambda x: model.elbo(x, y))
    if name == "embeddings":
        asks.append(model.embed)
    for ask in asks:
        with pytest.raises(ValueError, match=rf"X has {width} features, but \w+ is expecting {D} features"):
            ask(other)


# Labels unseen in fit


@EACH
def test_unseen_labels_are_dropped_and_counted_or_refused(name, problem):
    X, y = problem
    model = model_of(name).fit(X, y)
    some = np.where(y == 1, 99, np.where(np.arange(N) == np.flatnonzero(y != 1)[0], -1, y))
    seen = np.isin(some, np.arange(K))
    found = model.evaluate(X, some)
    assert found == {**model.evaluate(X[seen], y[seen]), "n_unseen": N - seen.sum()}
    assert 0 < found["n_unseen"] < N
    with pytest.warns(UserWarning, match=rf"{N - seen.sum()} of {N} points have labels unseen in fit") as caught:
        assert model.score(X, some) == model.score(X[seen], y[seen]) == pytest.approx(1 - found["error"])
    assert caught[0].filename == __file__
    for ask in (model.evaluate, model.score):
        with pytest.raises(ValueError, match=r"y has 2 labels unseen in fit, among them .*-1"):
            ask(X, some, unseen="error")
        with pytest.raises(ValueError, match="no row has a label that the model has seen"):
            ask(X, y + 100)
        with pytest.raises(ValueError, match=r"unseen is 'eror'; it must be one of 'drop', 'error', 'wrong' \(did"):
            ask(X, y, unseen="eror")
        ask(X, y, unseen="error")


@EACH
def test_unseen_labels_are_wrong_where_asked_and_ranks_are_measured(name, problem):
    X, y = problem
    model, weights = model_of(name).fit(X, y), np.arange(1.0, N + 1)
    some, ks = np.where(y == 1, 99, y), (1, 3)
    found = model.evaluate(X, some, unseen="wrong", k=ks)
    best = model.predict_top_k(X, 3)[0]
    assert found["error"] == pytest.approx(np.mean(best[:, 0] != some))
    for k in ks:
        right = (best[:, :k] == some[:, np.newaxis]).any(axis=1)
        assert found[f"hit_at_{k}"] == pytest.approx(right.mean())
        assert found[f"recall_at_{k}"] == pytest.approx(right.mean())
    dropped = model.evaluate(X, some, k=3)
    assert dropped["mrr_at_3"] == metrics.mrr_at_k(some[some < 99, np.newaxis].tolist(), best[some < 99], 3)
    assert dropped.get("log_loss") == found.get("log_loss")
    if name == "gaussian":
        return  # whose draws depend on a row's place
    weighted = model.evaluate(X, some, weights, unseen="wrong")["error"]
    assert weighted == pytest.approx(np.average(best[:, 0] != some, weights=weights))
    assert model.score(X, some, weights, unseen="wrong") == pytest.approx(1 - weighted)
    left_out = model.evaluate(X, y, k=2, exclude=best[:, :1])
    assert left_out["hit_at_2"] == pytest.approx((best[:, 1:3] == y[:, np.newaxis]).any(axis=1).mean())
    for wrong, told in (
        ({"k": K + 1}, f"k is {K + 1}; it must be .* at most {K}"),
        ({"exclude": [[]] * N}, "exclude is given without k"),
        ({"k": 2, "sample_weight": weights}, "sample_weight is given with k"),
    ):
        with pytest.raises(ValueError, match=told):
            model.evaluate(X, y, **wrong)


def test_the_weights_of_points_that_are_dropped_are_dropped(problem):
    X, y = problem
    model = SoftmaxClassifier(max_iter=1, n_negatives=1, random_state=0).fit(X[:, :1], y)
    weights, seen = np.arange(1.0, N + 1), y != 2
    with pytest.warns(UserWarning, match="unseen in fit"):
        found = model.score(X[:, :1], np.where(seen, y, 77), weights)
    right = model.predict(X[:, :1]) == y
    assert found == pytest.approx(np.average(right[seen], weights=weights[seen]), rel=1e-12)
    evaluated = model.evaluate(X[:, :1], np.where(seen, y, 77), weights)
    assert evaluated["error"] == pytest.approx(1 - found, rel=1e-12)
    assert evaluated["n_unseen"] == N - seen.sum()


@OF_SEVERAL
def test_columns_of_an_indicator_matrix_are_classes_by_position(name, problem):
    X, y = problem
    Y = np.eye(K, dtype=int)[y]
    Y[::2, 0] = 1
    model = model_of(name).fit(X, Y)
    for ask in (model.evaluate, model.score):
        for some in (Y[:, :-1], np.hstack([Y, Y[:, :1]])):
            with pytest.raises(ValueError, match=rf"y has {some.shape[1]} columns; the model has {K} classes"):
                ask(X, some)
        assert ask(X, Y) == ask(X, sp.csr_array(Y)) == ask(X, Y, unseen="error")
        with pytest.raises(ValueError, match="unseen is 'x'; it must be one of"):
            ask(X, Y, unseen="x")
    predicted = model.predict(X)
    assert model.score(X, Y) == (predicted == Y).all(axis=1).mean()
    weights = np.arange(N)
    assert model.score(X, Y, weights) == pytest.approx(np.average((predicted == Y).all(axis=1), weights=weights))


def test_the_example_of_the_readme_holds_on_real_data(data_dir):
    X, Y = load_xmc(data_dir / "bibtex" / "train.txt.xz")
    X_test, Y_test = load_xmc(data_dir / "bibtex" / "test.txt.xz", n_features=X.shape[1], n_labels=Y.shape[1])
    y, y_test = first_label(Y), first_label(Y_test)
    X, X_test = l2_normalize(X), l2_normalize(X_test)
    model = SoftmaxClassifier(max_iter=2, random_state=0).fit(X[y >= 0], y[y >= 0])
    found = model.evaluate(X_test, y_test)
    assert found["n_unseen"] == np.sum(~np.isin(y_test, model.classes_))
    labels, log_probabilities = model.predict_top_k(X_test[0], 10)
    assert labels.shape == log_probabilities.shape == (1, 10)


def test_the_command_line_counts_as_evaluate_does(tmp_path, capsys, problem):
    X, y = problem
    lines = [f"{label} " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(row)) for label, row in zip(y, X, strict=True)]
    (tmp_path / "train").write_text("\n".join(lines) + "\n")
    (tmp_path / "test").write_text("\n".join("9" + line[1:] if line[0] == "1" else line for line in lines) + "\n")
    main(["fit", str(tmp_path / "train"), "--output", str(tmp_path / "m"), "--max-iter", "2", "--random-state", "0"])
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "test"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert f'"with_unseen_label": {np.sum(y == 1)}' in out
    assert f"dropped {np.sum(y == 1)} rows whose label the model has not seen" in err


# Parameters without effect (findings-0.1, A5): today each combination is refused.


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SoftmaxClassifier(model="embedding", solver="ove"), "solver is 'ove'; with several labels, embedd"),
        (lambda: SoftmaxClassifier(model="pairs", validation_fraction=0.2), "validation_fraction is 0.2, which has"),
        (lambda: SoftmaxClassifier(model="embedding", sampler="head_tail"), "sampler is 'head_tail', which needs a"),
        (lambda: SoftmaxClassifier(model="hybrid", sampler="search", alpha=0.1), "alpha is 0.1, which has no effect"),
        (lambda: MarginClassifier(loss="bogus"), "loss is 'bogus'; it must be one of 'margin', 'triplet'"),
        (lambda: MarginClassifier(loss="triplet", smoothing=3.0), "smoothing is 3.0, which has no effect"),
        (lambda: MarginClassifier(dim=7), "dim is 7, which has no effect"),
        (lambda: MarginClassifier(n_negatives=7), "n_negatives is 7, which has no effect"),
        (lambda: SoftmaxClassifier(solver="lbfgs", n_negatives=7), "n_negatives is 7, which has no effect"),
        (lambda: SoftmaxClassifier(solver="exact", sampler="uniform"), "sampler is 'uniform'; solver 'exact' needs"),
    ],
)
def test_a_parameter_without_effect_is_refused(make, told, problem):
    X, y = problem
    with pytest.raises(ValueError, match=told), warnings.catch_warnings():
        make().fit(X, y)
