"""Files of matrices: what is written is what is read, for random matrices in any layout that memory can have."""

import numpy as np
import pytest
from scipy import sparse

from manyclass.datasets import load_csr, load_xmc, save_csr
from manyclass.datasets.binary_csr import DTYPES


def random_csr(rng, dtype="float32", index_dtype="int32", density=0.3):
    """A matrix of random shape, with rows that are empty, entries that are 0 and now and then no entry at all."""
    shape = tuple(int(n) for n in rng.integers(1, 12, 2))
    mask = (rng.random(shape) < density) & (rng.random((shape[0], 1)) < 0.7)
    dense = np.where(mask, rng.integers(-3, 4, shape) * 0.37, 0)
    rows, columns = np.nonzero(mask)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    data = dense[rows, columns].astype(dtype)
    parts = (data, columns.astype(index_dtype), indptr.astype(index_dtype))
    return sparse.csr_array(parts, shape=shape)


def strided(array):
    """The same values at every second place of an array twice as long."""
    wide = np.zeros(2 * len(array), dtype=array.dtype)
    wide[::2] = array
    return wide[::2]


def frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {
    "as it is": lambda array: array,
    "strided": strided,
    "reversed": lambda array: array[::-1].copy()[::-1],
    "read-only": frozen,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "little-endian": lambda array: array.astype(array.dtype.newbyteorder("<")),
    "unaligned": lambda array: np.frombuffer(b"x" + array.tobytes(), dtype=np.uint8)[1:].view(array.dtype),
}


def laid_out(X, layout):
    """The matrix with its three arrays in a layout, which SciPy's constructor would change."""
    out = X.copy()
    out.data, out.indices, out.indptr = (LAYOUTS[layout](part) for part in (X.data, X.indices, X.indptr))
    return out


def assert_same(found, expected):
    assert found.shape == expected.shape
    for part in ("data", "indices", "indptr"):
        one, other = getattr(found, part), getattr(expected, part)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype.newbyteorder("=")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_any_layout_come_back_by_value(layout, dtype, tmp_path, seed):
    rng = np.random.default_rng(seed)
    for index_dtype in ("int32", "int64"):
        for _ in range(4):
            X, Y = random_csr(rng, dtype, index_dtype), None
            if rng.random() < 0.5:
                Y = random_csr(rng, "float32", index_dtype)
                Y = sparse.csr_array((Y.data, Y.indices, Y.indptr), shape=Y.shape)
                Y.resize((X.shape[0], Y.shape[1]))
            given = laid_out(X, layout)
            kept = (given.data.copy(), given.indices.copy(), given.indptr.copy())
            save_csr(tmp_path / "m", given, Y)
            X_back, Y_back = load_csr(tmp_path / "m")
            assert_same(X_back, X)
            assert (Y_back is None) == (Y is None)
            if Y is not None:
                assert_same(Y_back, Y)
            for before, after in zip(kept, (given.data, given.indices, given.indptr), strict=True):
                np.testing.assert_array_equal(before, after)


def test_a_matrix_that_was_mapped_can_be_saved_again_over_its_own_file(tmp_path, seed):
    X = random_csr(np.random.default_rng(seed))
    save_csr(tmp_path / "m", X)
    mapped, _ = load_csr(tmp_path / "m")
    save_csr(tmp_path / "m", mapped)  # the file is replaced, the map keeps the old one
    assert_same(mapped, X)
    assert_same(load_csr(tmp_path / "m")[0], X)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_arrays_and_matrices_of_scipy_are_both_saved(kind, tmp_path, seed):
    X = random_csr(np.random.default_rng(seed))
    save_csr(tmp_path / "m", kind(X))
    assert_same(load_csr(tmp_path / "m")[0], X)


def write_xmc(path, X, Y, header=True):
    """The text of a repository of extreme classification: labels, then feature:value pairs, one line a row."""
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"] if header else []
    for i in range(X.shape[0]):
        labels = ",".join(str(k) for k in Y.indices[Y.indptr[i] : Y.indptr[i + 1]])
        span = slice(X.indptr[i], X.indptr[i + 1])
        features = " ".join(f"{j}:{v!r}" for j, v in zip(X.indices[span], X.data[span].tolist(), strict=True))
        lines.append(f"{labels} {features}" if features else labels or " ")
    path.write_text("\n".join(lines) + "\n")


def random_problem(rng):
    X, Y = random_csr(rng), random_csr(rng)
    X.data = (rng.normal(size=X.nnz) * 10.0 ** rng.integers(-30, 30, X.nnz)).astype(np.float32)
    Y.resize((X.shape[0], Y.shape[1]))
    Y.data = np.ones(Y.nnz, dtype=np.float32)
    keep = (np.diff(X.indptr) > 0) | (np.diff(Y.indptr) > 0)  # a line with neither is another question
    return X[keep], Y[keep]


def test_text_with_all_digits_gives_the_same_numbers(tmp_path, seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        X, Y = random_problem(rng)
        if X.shape[0] == 0:
            continue
        write_xmc(tmp_path / "d", X, Y)
        X_back, Y_back = load_xmc(tmp_path / "d")
        assert (X_back.shape, Y_back.shape) == (X.shape, Y.shape)
        # repr has the digits that name a float32 among the doubles: reading rounds to it again.
        np.testing.assert_array_equal(X_back.toarray(), X.toarray())
        np.testing.assert_array_equal(Y_back.toarray() != 0, Y.toarray() != 0)
        save_csr(tmp_path / "m", X_back, Y_back)
        for one, other in zip(load_csr(tmp_path / "m"), (X_back, Y_back), strict=True):
            assert_same(one, other)
