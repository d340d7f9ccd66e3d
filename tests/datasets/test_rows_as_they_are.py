"""Rows that need no conversion go to the core by one look at their numbers; all others as scikit-learn has them."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.checks import canonical_csr, unconverted_rows

D = 12


def matrix(rng, n=7, dtype=np.float32, kind=sp.csr_array):
    return kind(sp.random_array((n, D), density=0.3, rng=rng, dtype=dtype))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_rows_are_what_the_whole_check_makes_of_them(kind, dtype, index, seed):
    given = matrix(np.random.default_rng(seed), dtype=dtype, kind=kind)
    given.indptr, given.indices = given.indptr.astype(index), given.indices.astype(index)
    found, expected = unconverted_rows(given, D), canonical_csr(given)
    assert found is given or kind is sp.csr_matrix or dtype is np.float64
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.data.dtype == np.float32
    assert isinstance(found, sp.csr_array)
    assert found.shape == expected.shape


def test_dense_rows_are_taken_as_they_are():
    given = np.ones((3, D), dtype=np.float32)
    assert unconverted_rows(given, D) is given


def spoiled():
    """Rows that something is to be done with, or said about."""
    good = matrix(np.random.default_rng(0))
    bad = {}
    for name, change in {
        "unsorted": lambda x: x.indices.__setitem__(slice(0, 2), [5, 1]),
        "twice": lambda x: x.indices.__setitem__(slice(0, 2), [5, 5]),
        "negative": lambda x: x.indices.__setitem__(0, -1),
        "beyond": lambda x: x.indices.__setitem__(0, D),
        "nan": lambda x: x.data.__setitem__(0, np.nan),
        "infinite": lambda x: x.data.__setitem__(0, -np.inf),
        "first pointer": lambda x: x.indptr.__setitem__(0, 1),
        "falling pointers": lambda x: x.indptr.__setitem__(3, 1 << 20),
        "last pointer": lambda x: x.indptr.__setitem__(-1, x.indptr[-1] - 1),
    }.items():
        bad[name] = good.copy()
        change(bad[name])
    bad["huge"] = matrix(np.random.default_rng(0), dtype=np.float64) * 1e300
    bad["integers"] = good.astype(np.int32)
    bad["csc"] = sp.csc_array(good)
    bad["narrow"] = good[:, : D - 1]
    bad["empty"] = good[:0]
    bad["far beyond"] = good.copy()
    bad["far beyond"].indices = good.indices + (np.int64(1) << 32)  # which as int32 would be as they were
    dense = np.ones((3, D), dtype=np.float32)
    bad |= {"dense nan": dense * np.nan, "float64": dense.astype(float), "columns": np.asfortranarray(dense)}
    bad |= {"vector": dense[0], "dense narrow": dense[:, 1:], "no rows": dense[:0], "list": dense.tolist()}
    bad["overflow"] = dense * np.float32(3e38)
    return bad


@pytest.mark.parametrize("name", spoiled())
def test_what_needs_a_word_or_a_change_is_left_to_the_whole_check(name):
    assert unconverted_rows(spoiled()[name], D) is None


@pytest.mark.parametrize("name", ["beyond", "nan", "narrow", "empty", "dense nan", "dense narrow", "no rows"])
def test_a_fitted_model_refuses_the_same_rows_as_before(name):
    model = SoftmaxClassifier(max_iter=1, random_state=0)
    model.fit(matrix(np.random.default_rng(1), n=20), np.arange(20) % 4)
    with pytest.raises(ValueError, match=r"NaN|infinity|indices|features|minimum|index"):
        model.predict_top_k(spoiled()[name], 2)


def test_a_model_of_named_features_still_warns_of_rows_without_names():
    pd = pytest.importorskip("pandas")
    model = SoftmaxClassifier(max_iter=1, random_state=0)
    X = np.random.default_rng(0).random((20, D))
    model.fit(pd.DataFrame(X, columns=[f"f{j}" for j in range(D)]), np.arange(20) % 4)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X.astype(np.float32))
