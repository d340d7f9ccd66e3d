"""Rows that are added and taken out: k answers while there are k rows, as of an index of the rows that are left."""

import pickle

import numpy as np
import pytest

from manyclass import DecomposedIndex, SphericalClusterIndex

KINDS = {
    "8 bits and rows": lambda **more: SphericalClusterIndex(10, n_probe=1, random_state=0, **more),
    "8 bits and halves": lambda **more: SphericalClusterIndex(10, n_probe=1, row_bits=16, random_state=0, **more),
    "8 bits": lambda **more: SphericalClusterIndex(10, n_probe=1, row_bits=0, random_state=0, **more),
    "4 bits": lambda **more: SphericalClusterIndex(10, n_probe=1, row_bits=0, code_bits=4, random_state=0, **more),
    "blocks": lambda **_: DecomposedIndex(2, n_clusters=10, random_state=0),
}


def rows(seed, n, d):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(0.5 * rng.standard_normal((n, 1)))).astype(np.float32)


def best(W, Q, k, absent):
    z = Q.astype(np.float64) @ W.astype(np.float64).T
    z[:, absent] = -np.inf
    return np.argsort(-z, axis=1)[:, :k]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_found_and_nothing_else(kind, tmp_path, seed):
    W, Q, rng = rows(seed, 500, 12), rows(seed + 1, 40, 12), np.random.default_rng(seed)
    index = KINDS[kind]().fit(W[:400])
    np.testing.assert_array_equal(index.add(W[400:]), np.arange(400, 500))
    away = rng.permutation(500)[:120]
    index.remove(away).remove(away[:60])  # twice does no harm
    index.update(away[:20], W[away[:20]])
    absent = away[20:]
    assert index.n_rows_ == 500
    assert not index.rows_[absent].any()
    np.testing.assert_array_equal(np.flatnonzero(np.atleast_2d(index.labels_)[0] < 0), np.sort(absent))
    if kind.startswith("8 bits and"):
        kept = W if kind.endswith("rows") else W.astype(np.float16)
        np.testing.assert_array_equal(np.delete(index.rows_, absent, axis=0), np.delete(kept, absent, axis=0))
    index.save(tmp_path / "index.safetensors")
    expected = best(index.rows_, Q, 7, absent)
    copies = (type(index).load(tmp_path / "index.safetensors"), pickle.loads(pickle.dumps(index)))
    for one in (index, *copies):
        ids = one.query(Q, 7, n_probe=10)[1]
        assert np.isin(ids, absent).sum() == 0
        if kind != "blocks":  # whose blocks find a hundredth each
            assert np.mean(ids == expected) > 0.99  # roundings of queries may swap neighbours
            every = one.query(Q, 500, n_probe=1)[1]
            assert (np.sort(every, axis=1)[:, :100] == -1).all()
            assert all(len(set(found)) == 400 for found in every[:, :400].tolist())
    assert index.remove(np.arange(500)).query(Q, 3)[1].max() == -1
    assert (index.add(W[:5]) == np.arange(500, 505)).all()
    assert (np.sort(index.query(Q, 5)[1], axis=1) == np.arange(500, 505)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_made_anew_leave_absent_rows_out(kind, seed):
    W, Q = rows(seed, 600, 10), rows(seed + 1, 30, 10)
    index = KINDS[kind]().fit(W)
    absent = np.arange(0, 600, 3)
    index.remove(absent)
    index.recall_, index._replaced = 2.0, 10**6
    assert index.follow_training(0)
    assert not np.isin(index.query(Q, 7, n_probe=10)[1], absent).any()
    np.testing.assert_array_equal(np.flatnonzero(np.atleast_2d(index.labels_)[0] < 0), absent)


def test_rounds_of_changes_leave_what_a_new_index_would_find(seed):
    """A thousand rounds; the default's rows, so that the best are known exactly."""
    rng, d = np.random.default_rng(seed), 8
    W = rows(seed, 4_000, d)
    index = SphericalClusterIndex(40, n_probe=8, random_state=0).fit(W[:2_000])
    absent, n = set(), 2_000
    for _ in range(1_000):
        changed = rng.choice(n, 20, replace=False)
        W[changed] = rows(int(rng.integers(2**31)), 20, d)
        index.update(changed, W[changed])
        gone = rng.choice(n, 4, replace=False)
        index.remove(gone)
        absent = (absent - set(changed.tolist())) | set(gone.tolist())
        if n < len(W):
            index.add(W[n : n + 2])
            n += 2
    Q = rows(seed + 1, 100, d)
    expected = best(W[:n], Q, 10, sorted(absent))
    np.testing.assert_array_equal(index.query(Q, 10, n_probe=index.n_clusters_)[1], expected)
    fresh = SphericalClusterIndex(40, n_probe=8, random_state=0).fit(np.delete(W[:n], sorted(absent), axis=0))
    ids = np.delete(np.arange(n), sorted(absent))
    recalls = [
        np.mean([np.isin(a, b).mean() for a, b in zip(expected, found, strict=True)])
        for found in (index.query(Q, 10, n_probe=8)[1], ids[fresh.query(Q, 10, n_probe=8)[1]])
    ]
    assert recalls[0] > recalls[1] - 0.05


def test_an_index_that_grows_gets_the_clusters_of_its_size(seed):
    W = rows(seed, 9_000, 6)
    index = SphericalClusterIndex(n_probe=1, random_state=0).fit(W[:1_000])
    assert index.n_clusters_ == 1
    index.add(W[1_000:])
    assert (index.n_clusters_, index.n_reclusterings_) == (round(2 * 9_000**0.5), 1)
    np.testing.assert_array_equal(index.rows_, W)


def test_unknown_ids_and_rows_that_do_not_fit_change_nothing(seed):
    W = rows(seed, 30, 4)
    index = SphericalClusterIndex(3).fit(W)
    for refused, message in (
        (lambda: index.remove([30]), r"ids holds 30; ids are in \[0, 30\)"),
        (lambda: index.remove([3, 3]), "ids holds 3 more than once"),
        (lambda: index.update([30], W[:1]), r"ids holds 30; ids are in \[0, 30\)"),
        (lambda: index.add(W[:, :3]), "rows has 3 columns; the index has 4"),
        (lambda: index.add(np.full((1, 4), np.nan)), "not finite"),
        (lambda: index.core.update(np.int32([30, 32]), W[:2], n_threads=1), "distinct and in range"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
    assert index.n_rows_ == 30
    np.testing.assert_array_equal(index.rows_, W)
