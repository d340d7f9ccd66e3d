"""The papers' preprocessing, and whole folders by it."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from manyclass.datasets import (
    drop_empty_rows,
    drop_unseen_classes,
    first_label,
    l2_normalize,
    load_multiclass,
    scale_by_max,
    truncate_features,
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def csr(rows, dtype=np.float32):
    return sparse.csr_array(np.array(rows, dtype))


def with_wide_indices(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@pytest.mark.parametrize("of", [sparse.csr_array, sparse.csr_matrix, with_wide_indices])
def test_the_first_label_is_the_first_one_stored(of):
    Y = sparse.csr_array((np.ones(4, np.float32), [5, 2, 3, 0], [0, 2, 2, 3, 4]), shape=(4, 6))
    assert first_label(of(Y)).tolist() == [5, -1, 3, 0]


def test_an_explicit_zero_is_no_label():
    Y = sparse.csr_array(([0.0, 1.0, 0.0, 1.0], [5, 2, 3, 0], [0, 2, 3, 4]), shape=(3, 6))
    assert first_label(Y).tolist() == [2, -1, 0]
    assert Y.nnz == 4


@pytest.mark.parametrize("of", [sparse.csr_array, sparse.csr_matrix, with_wide_indices])
def test_rows_without_a_non_zero_feature_are_dropped_with_their_companions(of):
    X = csr([[0, 1], [0, 0], [2, 0], [1, 0]])
    X.data[2] = 0  # stored, but zero
    before = X.copy()
    kept, y, other = drop_empty_rows(of(X), np.array([7, 8, 9, 6]), csr([[1], [2], [3], [4]]))
    assert kept.toarray().tolist() == [[0, 1], [2, 0]]
    assert y.tolist() == [7, 9]
    assert other.toarray().tolist() == [[1], [3]]
    assert (before != X).nnz == 0
    with pytest.raises(ValueError, match=r"X has 4 rows, others\[0\] has 3"):
        drop_empty_rows(X, np.zeros(3))


def test_features_are_cut_off_behind_the_given_number():
    X = csr([[1, 2, 3], [0, 0, 4]])
    assert truncate_features(X, 2).toarray().tolist() == [[1, 2], [0, 0]]
    same = truncate_features(X, 10)
    assert same.shape == X.shape
    assert not np.shares_memory(same.data, X.data)
    with pytest.raises(ValueError, match="n_features is 0; it must be at least 1"):
        truncate_features(X, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("of", [sparse.csr_array, sparse.csr_matrix, with_wide_indices])
def test_rows_get_norm_one_and_zero_rows_stay(rng, of, dtype):
    dense = rng.normal(size=(50, 20)) * (rng.random((50, 20)) < 0.3) * 10.0 ** rng.integers(-30, 30, (50, 1))
    dense[7] = 0
    X = csr(dense, dtype)
    before = X.copy()
    Z = l2_normalize(of(X))
    assert Z.dtype == dtype
    norms = np.linalg.norm(X.toarray().astype(np.float64), axis=1, keepdims=True)
    norms[norms == 0] = 1
    # One rounding of the norm (sum of <= 20 squares), of the quotient, and of the result to dtype.
    np.testing.assert_allclose(Z.toarray(), X.toarray() / norms, rtol=16 * np.finfo(dtype).eps)
    assert (before != X).nnz == 0


def test_features_are_divided_by_their_largest_training_value():
    X_train, X_test = csr([[2, 0, -4, 0], [1, 0, 2, 0]]), csr([[4, 3, 1, 0]])
    a, b = scale_by_max(X_train, X_test)
    assert a.toarray().tolist() == [[1, 0, -1, 0], [0.5, 0, 0.5, 0]]
    assert b.toarray().tolist() == [[2, 3, 0.25, 0]]
    assert X_train.toarray()[0].tolist() == [2, 0, -4, 0]
    with pytest.raises(ValueError, match=r"X_train has 4 columns, X_others\[0\] has 3"):
        scale_by_max(X_train, X_test[:, :3])


def test_test_rows_of_classes_without_training_rows_are_dropped():
    X, y = drop_unseen_classes([3, 1, 3], csr([[1], [2], [3]]), np.array([1, 2, 3]))
    assert X.toarray().tolist() == [[1], [3]]
    assert y.tolist() == [1, 3]
    with pytest.raises(ValueError, match="X_test has 1 rows, y_test has 2"):
        drop_unseen_classes([1], csr([[1]]), [1, 1])


@pytest.mark.parametrize(
    "call",
    [
        first_label,
        drop_empty_rows,
        lambda X: truncate_features(X, 1),
        l2_normalize,
        scale_by_max,
        lambda X: drop_unseen_classes([1], X, [1]),
    ],
)
@pytest.mark.parametrize("not_csr", [np.eye(1), sparse.coo_array(np.eye(1)), [[1]]])
def test_what_is_not_csr_is_refused(call, not_csr):
    with pytest.raises(TypeError, match="it must be a SciPy CSR matrix or array"):
        call(not_csr)


@pytest.mark.parametrize("call", [l2_normalize, scale_by_max, lambda X: scale_by_max(csr([[1]]), X)])
def test_scaling_refuses_what_cannot_be_scaled(call):
    with pytest.raises(ValueError, match="has dtype int64; it must be float32 or float64"):
        call(sparse.csr_array(np.eye(1, dtype=np.int64)))
    with pytest.raises(ValueError, match="holds NaN or infinity; its values must be finite"):
        call(csr([[np.inf]]))


@pytest.fixture
def folder(tmp_path):
    directory = tmp_path / "toy"
    directory.mkdir()
    (directory / "train.txt").write_text("5 4 9\n7,2 0:3 1:4\n 1:1\n2\n2 2:5 3:1\n4 3:2\n")
    (directory / "test.txt").write_text("3 4 9\n2 0:1 3:1\n4,7 1:2\n8,7 1:2\n")
    return directory


def test_a_folder_becomes_multiclass_data(folder, monkeypatch):
    monkeypatch.setenv("MANYCLASS_DATA", str(folder.parent))
    for given in (folder, str(folder), "toy"):
        data = load_multiclass(given)
        assert data.y_train.tolist() == [7, 2, 4]
        assert data.y_test.tolist() == [2, 4]
        assert data.n_classes == 3
        np.testing.assert_allclose(data.X_train.toarray()[0], [0.6, 0.8, 0, 0], rtol=1e-6)  # float32
        np.testing.assert_allclose(data.X_test.toarray()[0], [0.5**0.5, 0, 0, 0.5**0.5], rtol=1e-6)
        assert data.X_train.dtype == np.float32


def test_a_folder_is_scaled_and_cut_as_asked(folder):
    data = load_multiclass(folder, scale="max", cache=True)
    assert data.X_train.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    assert data.X_test.toarray().tolist() == [[1 / np.float32(3), 0, 0, 0.5], [0, 0.5, 0, 0]]
    assert load_multiclass(folder, scale=None).X_train.toarray()[0].tolist() == [3, 4, 0, 0]
    cut = load_multiclass(folder, scale=None, n_features=3, n_train=4)
    assert cut.X_train.toarray().tolist() == [[3, 4, 0], [0, 0, 5]]
    assert cut.y_train.tolist() == [7, 2]
    assert cut.y_test.tolist() == [2]


def test_a_name_that_cannot_be_found_says_where_it_was_sought(folder, monkeypatch):
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    with pytest.raises(ValueError, match="environment variable MANYCLASS_DATA names, which is None"):
        load_multiclass("toy")
    monkeypatch.setenv("MANYCLASS_DATA", str(folder / "train.txt"))
    with pytest.raises(ValueError, match=r"which is '.*train.txt', one of none"):
        load_multiclass("toy")
    monkeypatch.setenv("MANYCLASS_DATA", str(folder.parent))
    with pytest.raises(ValueError, match=r"'tory' must be a data set in the folder .*, one of 'toy'"):
        load_multiclass("tory")
    (folder / "test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds none of test.txt, test.txt.xz, test.txt.gz"):
        load_multiclass("toy")


def test_options_of_a_folder_are_checked(folder):
    with pytest.raises(ValueError, match="scale is 'l1'; it must be one of 'l2', 'max', None"):
        load_multiclass(folder, scale="l1")
    with pytest.raises(ValueError, match="n_train is 0; it must be at least 1"):
        load_multiclass(folder, n_train=0)
    (folder / "test.txt").write_text("2 1:1 9:1\n")
    with pytest.raises(ValueError, match=r"train.txt has 4 features, test.txt has 10"):
        load_multiclass(folder)


def test_bibtex_becomes_what_the_papers_train_on():
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    data = load_multiclass("bibtex")
    assert data.X_train.shape == (4880, 1836)
    assert data.n_classes == 146
    assert np.isin(data.y_test, data.y_train).all()
    norms = np.sqrt(data.X_train.multiply(data.X_train).sum(axis=1))
    np.testing.assert_allclose(norms, 1, rtol=1e-5)  # some hundred squares of float32
    assert (load_multiclass(Path(os.environ["MANYCLASS_DATA"]) / "bibtex").X_test != data.X_test).nnz == 0
