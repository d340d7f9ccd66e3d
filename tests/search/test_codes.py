"""An index whose rows are their codes, of 8 or 4 bits: exact over the rows that the codes say, however these move."""

import pickle

import numpy as np
import pytest
from reference.core_step import isas

from manyclass import SphericalClusterIndex
from manyclass.weights.tensor_file import open_tensors, write_tensors


def rows(seed, n, d):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(0.5 * rng.standard_normal((n, 1)))).astype(np.float32)


def fitted(W, n_clusters, **parameters):
    return SphericalClusterIndex(n_clusters, **{"random_state": 0, "n_probe": 1, "row_bits": 0, **parameters}).fit(W)


def norms(x):
    return np.linalg.norm(x.astype(np.float64), axis=1)


@pytest.mark.parametrize("augment_norm", [False, True])
@pytest.mark.parametrize("code_bits", [8, 4])
@pytest.mark.parametrize(("n", "d", "n_clusters", "k"), [(900, 16, 20, 10), (333, 37, 7, 333), (65, 1, 9, 3)])
def test_a_search_of_all_clusters_finds_the_best_of_the_decoded_rows(
    n, d, n_clusters, k, code_bits, augment_norm, seed
):
    W, Q = rows(seed, n, d), rows(seed + 1, 30, d)
    index = fitted(W, n_clusters, code_bits=code_bits, augment_norm=augment_norm)
    scores, ids = index.query(Q, k, n_probe=n_clusters)
    z = Q.astype(np.float64) @ index.rows_.astype(np.float64).T
    slack = 2.0**-13 * norms(index.rows_).max() * norms(Q)[:, None]  # queries have 16 bits
    assert (np.abs(scores - np.take_along_axis(z, ids, axis=1)) <= slack).all()
    assert (np.abs(scores + np.sort(-z, axis=1)[:, :k]) <= slack).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    for i, q in enumerate(Q):
        for one, all_of in zip(index.query(q, k, n_probe=n_clusters), (scores, ids), strict=True):
            np.testing.assert_array_equal(one, all_of[i])


@pytest.mark.parametrize(("code_bits", "most"), [(8, 0.01), (4, 0.11)])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e15])
def test_codes_are_near_their_rows_and_unbiased_along_them(code_bits, most, scale, seed):
    W = rows(seed, 500, 96)
    W[:, -1] *= 30  # as intercepts are: rotated, it is noise of all columns
    W[7] = 0
    decoded = fitted(W * np.float32(scale), 5, code_bits=code_bits).rows_.astype(np.float64) / scale
    some = np.arange(500) != 7
    assert (norms(decoded - W)[some] <= most * norms(W)[some] * (3 if code_bits == 8 else 2)).all()
    assert norms(decoded - W)[some].mean() <= most * norms(W)[some].mean() * 1.2
    assert not decoded[7].any()
    along = (decoded * W).sum(axis=1)[some] / norms(W)[some] ** 2
    np.testing.assert_allclose(along, 1, rtol=0, atol=0.02 if code_bits == 8 else 0.004)


def test_four_bits_beside_rows_are_exact(seed):
    W, Q = rows(seed, 800, 24), rows(seed + 1, 40, 24)
    few, many = (fitted(W, 12, code_bits=bits, row_bits=32) for bits in (4, 8))
    for n_probe in (1, 5, 12):
        for one, other in zip(few.query(Q, 7, n_probe=n_probe), many.query(Q, 7, n_probe=n_probe), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(few.rows_, W)


@pytest.mark.parametrize("code_bits", [8, 4])
def test_rows_of_16_bits_answer_as_their_floats(code_bits, tmp_path, seed):
    W, Q = rows(seed, 800, 37), rows(seed + 1, 40, 37)
    W[3, :4] = (6e-8, -3e-7, 0, -65504)  # subnormal halves, and the largest
    halves = W.astype(np.float16).astype(np.float32)
    index, floats = fitted(W, 12, code_bits=code_bits, row_bits=16), fitted(halves, 12, row_bits=32)
    index.save(tmp_path / "index.safetensors")
    assert (tmp_path / "index.safetensors").stat().st_size < W.nbytes / 2 + 20_000
    assert index.n_bytes_ < floats.n_bytes_ - W.nbytes / 2 + 9_000
    other = SphericalClusterIndex.load(tmp_path / "index.safetensors")
    other._build(floats.rows_, floats.cluster_centers_, floats.labels_)
    index._build(floats.rows_, floats.cluster_centers_, floats.labels_)
    for one in (index, other, pickle.loads(pickle.dumps(index))):
        np.testing.assert_array_equal(one.rows_, halves)
        for n_probe in (1, 12):
            for a, b in zip(one.query(Q, 7, n_probe=n_probe), floats.query(Q, 7, n_probe=n_probe), strict=True):
                np.testing.assert_array_equal(a, b)
    changed = rows(seed + 2, 50, 37)
    index.update(np.arange(50), changed)
    np.testing.assert_array_equal(index.rows_[:50], changed.astype(np.float16))
    with pytest.raises(ValueError, match="rows has numbers up to 70000; with row_bits=16 they end at 65504"):
        index.update([0], np.full((1, 37), 7e4))
    np.testing.assert_array_equal(index.rows_[:50], changed.astype(np.float16))


@pytest.mark.parametrize("code_bits", [8, 4])
def test_instruction_sets_agree(code_bits, seed):
    W, Q = rows(seed, 700, 45), rows(seed + 1, 33, 45)
    core = fitted(W, 10, code_bits=code_bits).core
    nobody = {"excluded_indptr": np.zeros(0, dtype=np.int64), "excluded_ids": np.zeros(0, dtype=np.int32)}
    answers = [core.query(Q, k=9, n_probe=4, n_threads=1, isa=isa, **nobody) for isa in isas()]
    for scores, ids in answers[1:]:
        np.testing.assert_array_equal(ids, answers[0][1])
        np.testing.assert_allclose(scores, answers[0][0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("code_bits", [8, 4])
def test_rows_that_moved_answer_as_an_index_built_of_them(code_bits, seed):
    W, Q = rows(seed, 600, 20), rows(seed + 1, 25, 20)
    index, rng = fitted(W, 15, code_bits=code_bits, recluster="never"), np.random.default_rng(seed)
    for _ in range(30):
        ids = rng.permutation(len(W))[: rng.integers(1, 60)]
        W[ids] += rng.standard_normal((len(ids), 20)).astype(np.float32)
        index.update(ids, W[ids])
    other = fitted(W, 15, code_bits=code_bits)
    other._build(W, index.cluster_centers_, np.zeros(0, dtype=np.int32))
    np.testing.assert_array_equal(other.rows_, index.rows_)
    for n_probe in (1, 4, 15):
        for one, rebuilt in zip(index.query(Q, 6, n_probe=n_probe), other.query(Q, 6, n_probe=n_probe), strict=True):
            np.testing.assert_array_equal(one, rebuilt)


@pytest.mark.parametrize("code_bits", [8, 4])
def test_clusters_made_anew_leave_the_codes(code_bits, seed):
    W = rows(seed, 1500, 10)
    index = fitted(W, 30, code_bits=code_bits)
    near = (np.eye(10)[0] + 0.05 * np.random.default_rng(seed).standard_normal((1400, 10))).astype(np.float32)
    before = index.rows_[1400:]
    index.update(np.arange(1400), near)
    assert index.n_reclusterings_ == 1
    np.testing.assert_array_equal(index.rows_[1400:], before)


@pytest.mark.parametrize("code_bits", [8, 4])
def test_a_saved_index_of_codes_answers_as_before(code_bits, tmp_path, seed):
    W, Q = rows(seed, 2000, 64), rows(seed + 1, 20, 64)
    index = fitted(W, 14, code_bits=code_bits, augment_norm=True)
    index.save(tmp_path / "index.safetensors")
    assert (tmp_path / "index.safetensors").stat().st_size < W.nbytes * code_bits / 32 + 30_000
    assert index.n_bytes_ < W.nbytes * code_bits / 32 + 80_000
    for other in (SphericalClusterIndex.load(tmp_path / "index.safetensors"), pickle.loads(pickle.dumps(index))):
        assert (other.n_rows_, other.n_features_in_) == (2000, 64)
        np.testing.assert_array_equal(other.rows_, index.rows_)
        for n_probe in (1, 14):
            for one, saved in zip(other.query(Q, 6, n_probe=n_probe), index.query(Q, 6, n_probe=n_probe), strict=True):
                np.testing.assert_array_equal(one, saved)


def test_damaged_codes_are_refused(tmp_path, seed):
    path = tmp_path / "index.safetensors"
    fitted(rows(seed, 50, 8), 4).save(path)
    file = open_tensors(path)
    tensors = {name: file.read(name) for name in file.entries}
    no_number = tensors["rows"].copy()
    no_number[3, -2:] = (0xC0, 0x7F)  # the scale
    kept = {**file.metadata, "parameters": file.metadata["parameters"].replace('"row_bits": 0', '"row_bits": 32')}
    halves = {**file.metadata, "parameters": file.metadata["parameters"].replace('"row_bits": 0', '"row_bits": 16')}
    four = {**file.metadata, "parameters": file.metadata["parameters"].replace('"code_bits": 8', '"code_bits": 4')}
    bad = [(codes, file.metadata) for codes in (no_number, tensors["rows"][:, 1:].copy(), tensors["rows"][:9].copy())]
    for codes, metadata in bad + [(tensors["rows"], other) for other in (kept, halves, four)]:
        write_tensors(path, {**tensors, "rows": codes}, metadata)
        with pytest.raises(ValueError, match="is damaged"):
            SphericalClusterIndex.load(path)


def test_losses_are_those_of_the_decoded_rows(seed):
    W, Q = rows(seed, 400, 12), rows(seed + 1, 30, 12)
    index = fitted(W, 8)
    exact = SphericalClusterIndex(8, n_probe=8, random_state=0).fit(index.rows_)
    Y = np.random.default_rng(seed).integers(0, 400, 30)
    ours, theirs = (one.loss_and_gradient(Q, Y, "margin", budget=40, n_probe=8)[0] for one in (index, exact))
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("row_bits", [32, 0])
def test_k_rows_are_always_found_where_there_are_as_many(row_bits, seed):
    W = rows(seed, 60, 8)
    index, Q = fitted(W, 30, row_bits=row_bits), rows(seed + 1, 20, 8)
    ids = index.query(Q, 50, n_probe=1)[1]
    assert (ids >= 0).all()
    assert all(len(set(found)) == 50 for found in ids.tolist())
    few = index.query(Q, 10, n_probe=1, exclude=[np.arange(55)] * 20)[1]
    assert (np.sort(few, axis=1) == [-1] * 5 + [55, 56, 57, 58, 59]).all()


@pytest.mark.parametrize(("name", "value"), [("code_bits", 5), ("row_bits", 8)])
def test_other_bits_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; it must be one of"):
        SphericalClusterIndex(**{name: value}).fit(np.eye(3))


def test_clusters_that_rows_have_left_give_their_memory_back(seed):
    W = rows(seed, 4000, 16)
    index = fitted(W, 8, recluster="never")
    before = index.n_bytes_
    for _ in range(3):
        index.update(np.arange(4000), np.tile(W[:1], (4000, 1)))  # into one cluster
        index.update(np.arange(4000), W)
    assert index.n_bytes_ < 1.4 * before
    np.testing.assert_array_equal(index.rows_, fitted(W, 8).rows_)
