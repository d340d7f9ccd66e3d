"""Binary CSR files and the cache of load_xmc: what is mapped is what was saved, or an error."""

import os
import re

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from manyclass.datasets import first_label, l2_normalize, load_csr, load_xmc, save_csr
from manyclass.datasets.xmc import CACHE_SUFFIX


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def assert_same(a, b):
    assert a.shape == b.shape
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
        assert getattr(a, part).dtype == getattr(b, part).dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64", "bool"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_matrices_come_back_as_they_were_saved(tmp_path, rng, dtype, index_dtype):
    X = sparse.random_array((30, 17), density=0.2, format="csr", rng=rng)
    X = sparse.csr_array(
        (X.data.astype(dtype), X.indices.astype(index_dtype), X.indptr.astype(index_dtype)), shape=X.shape
    )
    # Labels out of order, which must stay so.
    Y = sparse.csr_array((np.ones(3, np.float32), [5, 2, 4], [0, *[3] * 30]), shape=(30, 6))
    save_csr(tmp_path / "a", X, Y)
    X_back, Y_back = load_csr(tmp_path / "a")
    assert_same(X, X_back)
    assert_same(Y, Y_back)
    save_csr(tmp_path / "b", X)
    assert load_csr(tmp_path / "b")[1] is None


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (3, 5)])
def test_matrices_without_entries_are_saved_too(tmp_path, shape):
    X = sparse.csr_array(shape, dtype=np.float32)
    save_csr(tmp_path / "a", X)
    assert_same(X, load_csr(tmp_path / "a")[0])


def test_loaded_arrays_are_read_only_maps_of_the_file(tmp_path, rng):
    X = sparse.random_array((300, 40), density=0.2, format="csr", dtype=np.float32, rng=rng)
    save_csr(tmp_path / "a", X)
    mapped, _ = load_csr(tmp_path / "a")
    for part in (mapped.data, mapped.indices, mapped.indptr):
        base = part
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        assert not part.flags.writeable
        assert part.flags.aligned
    assert_same(l2_normalize(mapped), l2_normalize(X))
    np.testing.assert_allclose(mapped @ np.ones(40), X @ np.ones(40), rtol=0)
    y = rng.integers(3, size=300)
    a, b = (SGDClassifier(random_state=0).fit(M, y).coef_ for M in (mapped, X))
    np.testing.assert_array_equal(a, b)


def test_data_of_the_other_byte_order_are_saved_by_value(tmp_path):
    X = sparse.csr_array(np.array([[0, 1.5], [2, 0]], np.float32))
    X.data = X.data.astype(X.data.dtype.newbyteorder())
    save_csr(tmp_path / "a", X)
    assert load_csr(tmp_path / "a")[0].toarray().tolist() == [[0, 1.5], [2, 0]]


def test_matrices_that_cannot_be_saved_are_refused_and_leave_nothing(tmp_path):
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    with pytest.raises(TypeError, match="X is a csc_array; it must be a SciPy CSR matrix or array"):
        save_csr(tmp_path / "a", X.tocsc())
    with pytest.raises(ValueError, match="X has dtype complex64; it must be one of float32, float64"):
        save_csr(tmp_path / "a", X.astype(np.complex64))
    with pytest.raises(ValueError, match="X has 3 rows, Y has 2"):
        save_csr(tmp_path / "a", X, X[:2])
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_truncated_or_foreign_are_refused(tmp_path, rng):
    save_csr(tmp_path / "a", sparse.random_array((30, 17), density=0.2, format="csr", dtype=np.float32, rng=rng))
    whole = (tmp_path / "a").read_bytes()
    broken = tmp_path / "b"
    for content in (b"", whole[:5], whole[:100], whole[:-1], whole + b"x", b"0 1:2 3:4\n" * 9):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"{broken}: not a binary CSR file, or one that is truncated")):
            load_csr(broken)
    save_file({"w": np.ones(3)}, broken)
    with pytest.raises(ValueError, match=re.escape(f"{broken}: not a binary CSR file: its format is None")):
        load_csr(broken)
    with pytest.raises(FileNotFoundError):
        load_csr(tmp_path / "absent")


@pytest.mark.parametrize(
    ("part", "value"), [("indices", 17), ("indices", -1), ("indptr", 10**6), ("indptr", -5), ("shapes", None)]
)
def test_indices_that_would_lead_out_of_the_arrays_are_refused(tmp_path, rng, part, value):
    X = sparse.random_array((30, 17), density=0.2, format="csr", dtype=np.float32, rng=rng)
    tensors = {f"X.{p}": getattr(X, p).copy() for p in ("data", "indices", "indptr")}
    shapes = '{"X": [30, 17]}'
    if part == "shapes":
        shapes = '{"X": [31, 17]}'
    else:
        tensors[f"X.{part}"][7] = value
    save_file(tensors, tmp_path / "a", {"format": "manyclass csr 1", "shapes": shapes})
    with pytest.raises(ValueError, match="the matrices of this binary CSR file are corrupt"):
        load_csr(tmp_path / "a")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("2 9 9\n7,2 1:1 3:2\n 4:1\n")
    return path


def test_a_cache_gives_the_matrices_of_the_file(tmp_path, source):
    plain = load_xmc(source)
    for cache in (True, tmp_path / "kept"):
        for _ in range(2):  # made, then mapped
            for a, b in zip(plain, load_xmc(source, cache=cache), strict=True):
                assert_same(a, b)
    assert first_label(load_xmc(source, cache=True)[1]).tolist() == [7, -1]
    assert {p.name for p in tmp_path.iterdir()} == {"train.txt", f"train.txt{CACHE_SUFFIX}", "kept"}


def test_a_cache_is_mapped_as_long_as_it_fits_and_then_rebuilt(source):
    load_xmc(source, cache=True)
    status = source.stat()
    text = source.read_text()
    source.write_text(text.replace("3:2", "3:5"))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load_xmc(source, cache=True)[0].max() == 2  # size and time agree: the file was not parsed again
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))
    assert load_xmc(source, cache=True)[0].max() == 5
    source.write_text(text.replace("3:2", "3:12"))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))
    assert load_xmc(source, cache=True)[0].max() == 12


def test_a_cache_of_other_options_is_not_used(source):
    assert load_xmc(source, cache=True)[0].shape == (2, 9)
    assert load_xmc(source, cache=True, n_features=20)[0].shape == (2, 20)
    assert load_xmc(source, cache=True, zero_based=False)[0].indices.tolist() == [0, 2, 3]


def test_a_map_outlives_the_rebuilding_of_its_cache(source):
    load_xmc(source, cache=True)
    X, _ = load_xmc(source, cache=True)
    source.write_text("1 9 9\n7 1:9\n")
    assert load_xmc(source, cache=True)[0].shape == (1, 9)
    assert X.data.tolist() == [1, 2, 1]


def test_a_file_that_is_no_cache_is_not_overwritten(tmp_path, source):
    other = tmp_path / "notes.txt"
    other.write_text("not to be lost")
    with pytest.raises(ValueError, match="not a binary CSR file"):
        load_xmc(source, cache=other)
    assert other.read_text() == "not to be lost"
