"""What fit, predict and evaluate accept, and what they refuse and how they say so."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.flat import softmax
from reference.problems import planted
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream
from manyclass.registry import names

N_CLASSES = 12


def model(**parameters):
    return SoftmaxClassifier(**{"n_negatives": 4, "max_iter": 2, "random_state": 0} | parameters)


@pytest.fixture
def problem(seed):
    return planted(np.random.default_rng(seed), 80, 6, N_CLASSES, density=0.6)


def with_int64_indices(X):
    out = sp.csr_array(X)
    out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
    return out


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def read_only_csr(X):
    X = sp.csr_array(X)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    return X


def unsorted(X):
    X = sp.csr_array(X)
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[row], X.data[row] = X.indices[row][::-1].copy(), X.data[row][::-1].copy()
    X.has_sorted_indices = False
    return X


def with_duplicates(X):
    """Each entry as two halves, which floats hold exactly."""
    X = sp.csr_array(X)
    halves = (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr)
    return sp.csr_array(halves, shape=X.shape)


def with_zeros_stored(X):
    rows, columns = np.indices(X.shape)
    return sp.csr_array((X.ravel(), (rows.ravel(), columns.ravel())), shape=X.shape)


DENSE = {
    "float64": lambda X: X.astype(np.float64),
    "big-endian": lambda X: X.astype(">f4"),
    "big-endian float64": lambda X: X.astype(">f8"),
    "Fortran order": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "columns reversed in memory": lambda X: X[:, ::-1].copy()[:, ::-1],
    "read-only": read_only,
    "lists": lambda X: X.tolist(),
}
SPARSE = {
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_matrix,
    "float64": lambda X: sp.csr_array(X.astype(np.float64)),
    "int64 indices": with_int64_indices,
    "read-only": read_only_csr,
    "unsorted": unsorted,
    "duplicates": with_duplicates,
    "zeros stored": with_zeros_stored,
}


@pytest.mark.parametrize("form", DENSE)
def test_every_form_of_dense_data_gives_the_same_model(form, problem):
    X, y = problem
    expected = model().fit(X, y)
    before = np.array(DENSE[form](X))
    data = DENSE[form](X)
    fitted = model().fit(data, y)
    assert np.array_equal(np.array(data), before)
    assert np.array_equal(fitted.coef_, expected.coef_)
    assert np.array_equal(fitted.predict_proba(data), expected.predict_proba(X))
    assert fitted.evaluate(data, y) == expected.evaluate(X, y)


@pytest.mark.parametrize("form", SPARSE)
def test_every_form_of_sparse_data_gives_the_same_model(form, problem):
    X, y = problem
    expected = model().fit(sp.csr_array(X), y)
    data = SPARSE[form](X)
    before = data.copy()
    fitted = model().fit(data, y)
    if form == "zeros stored":  # among more terms NumPy adds |x|^2 in another order
        atol = 2 * 80 * 4 * 2.0**-23 * np.abs(expected.coef_).max()
        np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=0, atol=atol)
    else:
        assert np.array_equal(fitted.coef_, expected.coef_)
        assert np.array_equal(fitted.predict_proba(data), expected.predict_proba(sp.csr_array(X)))
        assert fitted.evaluate(data, y) == expected.evaluate(sp.csr_array(X), y)
    if data.format == "csr":  # the caller's arrays stay as they were
        assert np.array_equal(data.indices, before.indices)
        assert np.array_equal(data.data, before.data)


@pytest.mark.parametrize(
    "labels",
    [
        [f"name {k:02d}" for k in range(N_CLASSES)],
        np.array([f"name {k:02d}" for k in range(N_CLASSES)], dtype=object),
        np.arange(N_CLASSES) * 10**12 - 7,
        np.arange(N_CLASSES, dtype=np.float64) * 2 - 5,
        np.arange(N_CLASSES, dtype=np.uint8) + 200,
        np.arange(N_CLASSES).astype(">i4"),
    ],
    ids=["str", "object", "int64", "float", "uint8", "big-endian"],
)
def test_labels_of_every_kind_come_back_as_they_were(labels, problem):
    X, k = problem
    y = np.asarray(labels)[k]
    fitted = model().fit(X, y)
    assert fitted.classes_.dtype == y.dtype
    assert np.array_equal(fitted.classes_, np.asarray(labels))
    predicted = fitted.predict(X)
    assert predicted.dtype == y.dtype
    assert np.isin(predicted, labels).all()
    assert np.array_equal(fitted.coef_, model().fit(X, k).coef_)
    assert fitted.evaluate(X, y) == model().fit(X, k).evaluate(X, k)


def test_boolean_labels_are_two_classes(problem):
    X, y = problem
    fitted = model().fit(X, y > 5)
    assert fitted.classes_.tolist() == [False, True]
    assert fitted.predict(X).dtype == bool
    assert fitted.predict_proba(X).shape == (80, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_data_that_are_not_finite_are_refused(container, bad, problem):
    X, y = problem
    fitted = model().fit(container(X), y)
    X = X.copy()
    X[3, 2] = bad
    for call in (lambda: model().fit(container(X), y), lambda: fitted.predict(container(X))):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            call()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: (X[0], y[:1]), "Expected 2D array, got 1D array"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:-1]), r"X has 80 rows, y has shape \(79,\); it must be \(80,\)"),
        (lambda X, y: (X, np.stack([y, y], axis=1)), "1d array"),
        (lambda X, y: (X, np.where(y == 3, np.nan, y)), "NaN"),
        (lambda X, y: (X, y + 0.25), "Unknown label type: continuous"),
        (lambda X, y: (X, np.full(len(y), 7)), r"y has one class, .*7.*; at least two classes are needed"),
        (lambda X, y: (X.astype(complex), y), "Complex data not supported"),
        (lambda X, y: (X[np.newaxis], y[:1]), "dim 3|3 dim|dim3"),
    ],
)
def test_data_of_a_wrong_shape_or_kind_are_refused(make, message, problem):
    with pytest.raises(ValueError, match=message):
        model().fit(*make(*problem))


@pytest.mark.parametrize("index", [-1, 6, 10**6])
def test_csr_columns_outside_the_matrix_are_refused(index, problem):
    X, y = problem
    fitted = model().fit(sp.csr_array(X), y)
    broken = sp.csr_array(X)
    broken.indices[5] = index
    for call in (lambda: model().fit(broken, y), lambda: fitted.predict(broken), lambda: fitted.evaluate(broken, y)):
        with pytest.raises(ValueError, match="indices"):
            call()


def test_more_columns_than_an_index_can_name_are_refused():
    X = sp.csr_array((np.ones(4), np.zeros(4, dtype=np.int64), np.arange(5)), shape=(4, 2**31))
    with pytest.raises(ValueError, match="at most 2147483647 rows and columns are supported"):
        model().fit(X, [0, 1, 0, 1])


def test_prediction_needs_a_fit_and_as_many_features(problem):
    X, y = problem
    with pytest.raises(NotFittedError):
        model().predict(X)
    with pytest.raises(NotFittedError):
        _ = model().coef_
    fitted = model().fit(X, y)
    for ask in (fitted.predict, fitted.predict_proba, fitted.decision_function, lambda x: fitted.evaluate(x, y)):
        with pytest.raises(ValueError, match="X has 5 features, but SoftmaxClassifier is expecting 6 features"):
            ask(X[:, :5])


def test_evaluate_refuses_labels_unseen_in_fit_where_asked_to_and_wrong_lengths(problem):
    X, y = problem
    fitted = model().fit(X, y)
    with pytest.raises(ValueError, match=r"y has 2 labels unseen in fit, among them .*-3"):
        fitted.evaluate(X, np.where(y == 1, 99, np.where(y == 2, -3, y)), unseen="error")
    with pytest.raises(ValueError, match=r"X has 80 rows, y has shape \(79,\); it must be \(80,\)"):
        fitted.evaluate(X, y[1:])
    with pytest.raises(ValueError, match=r"y has shape \(80, 2\)"):
        fitted.evaluate(X, np.stack([y, y], axis=1))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", names("solver", without="batch"))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_data_without_any_feature_leave_the_weights_at_zero(fit_intercept, solver, storage):
    X, y = storage(np.zeros((60, 4), dtype=np.float32)), np.arange(60) % 3 % 2
    rates = {"learning_rate": 0.1, "u_learning_rate": 1.0, "n_negatives": 4, "random_state": 0}
    fitted = softmax(solver=solver, fit_intercept=fit_intercept, max_iter=40, **rates).fit(X, y)
    assert not fitted.coef_.any()
    if fit_intercept:
        # The intercepts alone learn the frequencies, 2 : 1. Two objectives have other optima, 4 : 1: negative sampling
        # learns log-odds, and Bouchard's bound doubles the logarithms of two classes (Titsias 2016, Prop. 3).
        best = 4 / 5 if solver in ("negative_sampling", "bouchard") else 2 / 3
        assert fitted.predict_proba(X)[0, 0] == pytest.approx(best, abs=0.05)
    else:
        np.testing.assert_allclose(fitted.predict_proba(X), 0.5)


@pytest.mark.parametrize("big", [1e18, 1e19, 1e30, 1e38])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", names("solver", without="batch"))
def test_huge_finite_data_end_in_a_warning_or_a_model_but_never_in_nan(solver, storage, big):
    X = storage(np.full((60, 5), big, dtype=np.float32) * (np.arange(300).reshape(60, 5) % 7 > 2))
    y = np.arange(60) % 6
    for formulation in names("formulation"):
        with pytest.warns(ConvergenceWarning, match="training diverged.*Lower learning_rate, scale the rows of X"):
            fitted = softmax(
                solver=solver, formulation=formulation, n_negatives=4, learning_rate=1.0, max_iter=3, random_state=0
            ).fit(X, y)
        assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(fitted.intercept_).all()


@pytest.mark.parametrize("tiny", [1e-18, 1e-19, 1e-20, 1e-22, 1e-30, 1e-44])
@pytest.mark.parametrize("formulation", names("formulation"))
@pytest.mark.parametrize("solver", names("solver", without="batch"))
def test_rows_whose_norm_is_below_floats_leave_the_model_finite(solver, formulation, tiny):
    X = np.ones((60, 3), dtype=np.float32)
    X[::2] *= np.float32(tiny)
    parameters = {"solver": solver, "formulation": formulation, "fit_intercept": False, "learning_rate": 0.02}
    parameters |= {"n_negatives": 4, "max_iter": 2, "random_state": 0}
    for data in (X, sp.csr_array(X)):
        fitted = softmax(**parameters).fit(data, np.arange(60) % 6)
        assert fitted.coef_.any()
        assert np.isfinite(fitted.coef_).all()


@pytest.mark.parametrize("scale", [1e-15, 1e-3, 1.0, 1e5, 1e15])
@pytest.mark.parametrize("solver", names("solver", without="batch"))
def test_the_automatic_rate_makes_the_unit_of_x_irrelevant(solver, scale, problem):
    X, y = problem
    parameters = {"n_negatives": 4, "max_iter": 2, "random_state": 0, "fit_intercept": False}
    if scale < 1e-10:  # "implicit" has no ridge there, for its steps are too long
        parameters["alpha"] = 0.0
    one = softmax(solver=solver, **parameters).fit(X, y)
    power = np.float32(2.0 ** np.round(np.log2(scale)))
    other = softmax(solver=solver, **parameters).fit(X * power, y)
    # Powers of two change no digit of a product; only the sum |x|^2 times the rate may round otherwise.
    np.testing.assert_allclose(other.predict_proba(X * power), one.predict_proba(X), rtol=1e-4)


def test_a_matrix_whose_offsets_decrease_is_refused(problem):
    """SciPy's check passes where the last one is 0; the core would read what is not there."""
    X, y = problem
    fitted = model().fit(X, y)
    for last in (0, 1):
        wrong = sp.csr_array(X[:3])
        wrong.indptr[-1] = last
        with pytest.raises(ValueError, match="indptr"):
            fitted.predict(wrong)


# Second ways in


def test_a_weight_for_a_class_of_a_later_part_is_told(problem):
    """A fold, or the first part of a stream, may lack a class that class_weight names."""
    X, y = problem
    order = np.argsort(y % 3 == 2, kind="stable")
    weight = {2: 3.0}
    with pytest.warns(UserWarning, match="class_weight has a weight for 2, which y does not have, while other labels"):
        model(class_weight=weight).fit([(X[order[:40]], y[order[:40]] % 3), (X[order[40:]], y[order[40:]] % 3)])
    fold = y % 3 < 2
    with pytest.warns(UserWarning, match="class_weight has a weight for 2, which y does not have"):
        model(class_weight=weight).fit(X[fold], y[fold] % 3)


def test_rows_of_eval_set_whose_label_is_unseen_do_not_count(problem):
    X, y = problem
    seen = y < N_CLASSES - 2
    fitted = model(early_stopping=True)
    with pytest.warns(UserWarning, match=f"{(~seen).sum()} rows of eval_set have labels unseen in fit"):
        fitted.fit(X[seen], y[seen], eval_set=(X, y))
    again = model(early_stopping=True).fit(X[seen], y[seen], eval_set=(X[seen], y[seen]))
    np.testing.assert_array_equal(fitted.validation_curve_, again.validation_curve_)
    with pytest.raises(ValueError, match="y of eval_set has 1 labels unseen in fit, among them 99"):
        fitted.fit(X[seen], y[seen], eval_set=(X, np.full(len(y), 99)))


def test_a_warm_start_takes_columns_in_the_order_of_the_last_fit(problem):
    pd = pytest.importorskip("pandas")
    X, y = problem
    table = pd.DataFrame(sp.csr_array(X).toarray(), columns=list("abcdef"))
    for options in ({}, {"model": "embedding", "dim": 2}):
        fitted = model(warm_start=True, **options).fit(table, y)
        fitted.fit(table, y)
        with pytest.raises(ValueError, match="warm_start is True and feature 0 is 'f', which was 'a'"):
            fitted.fit(table[list("fedcba")], y)
        fitted.fit(table.to_numpy(), y)  # without names there is nothing to compare


def test_a_stream_that_is_sorted_by_label_is_told(problem):
    X, y = problem
    rows = np.repeat(np.arange(80), 4)
    rows = rows[np.argsort(y[rows] % 3, kind="stable")]
    X, y = X[rows], y[rows] % 3
    message = "all 20 rows of a part have the label 0; a stream that is sorted by label ends far"
    with pytest.warns(UserWarning, match=message):
        model().partial_fit(X[:20], y[:20], classes=[0, 1, 2], n_kept=0)
    model().partial_fit(X[:20], y[:20], classes=[0, 1, 2])  # whose rows are kept
    model().partial_fit(X[:20], y[:20], classes=[0, 1], n_kept=0)
    model().partial_fit(X[::16], y[::16], n_kept=0)


@pytest.mark.parametrize("column", ["array", "chunked_array"])
def test_columns_of_texts_of_arrow_are_texts(column):
    pa = pytest.importorskip("pyarrow")
    texts = ["ant bee", "bee cow", "cow dog"] * 20
    made = pa.array(texts) if column == "array" else pa.chunked_array([texts[:30], texts[30:]])
    fitted, y = model(model="linear", solver="implicit").fit(made, np.arange(60) % 3), np.arange(60) % 3
    expected = model(model="linear", solver="implicit").fit(texts, y)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    np.testing.assert_array_equal(fitted.predict(made), expected.predict(texts))


def test_a_stream_of_arrays_takes_the_labels_of_fit(problem):
    X, y = problem
    with pytest.raises(ValueError, match=r"y\[3\] is --: row 3 has no label"):
        Stream(X, np.ma.array(y, mask=np.arange(80) == 3))
    column = np.array([[f"c{label}"] for label in y], dtype=object)
    assert model().fit(Stream(X, column, rows=40)).classes_.tolist() == np.unique(column).tolist()
