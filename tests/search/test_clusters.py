"""SphericalClusterIndex: exact where all is probed, as rebuilt after any updates, the same for any threads."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import isas
from reference.exact_search import exact_search
from sklearn.base import clone

from manyclass import SphericalClusterIndex, _core


def rows(seed, n, d, norms=0.5):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(norms * rng.standard_normal((n, 1)))).astype(np.float32)


def integers(seed, n, d):
    """Small integers: inner products are exact in single precision, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, (n, d)).astype(np.float32)


def best_of(W, q, k, allowed=None):
    """Ids by score in double precision, equal scores by id."""
    z = W.astype(np.float64) @ q.astype(np.float64)
    ids = np.arange(len(W)) if allowed is None else np.flatnonzero(allowed)
    return ids[np.argsort(-z[ids], kind="stable")][:k]


def fitted(W, n_clusters, **parameters):
    return SphericalClusterIndex(n_clusters, **{"random_state": 0, "n_probe": 1, **parameters}).fit(W)


@pytest.mark.parametrize("augment_norm", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "n_clusters", "k"),
    [(1000, 16, 30, 10), (333, 37, 7, 333), (65, 1, 65, 3), (2000, 130, 16, 1), (1, 5, 1, 1)],
)
def test_probing_all_clusters_is_brute_force_with_ties_by_id(n, d, n_clusters, k, augment_norm, seed):
    W, Q = integers(seed, n, d), integers(seed + 100, 23, d)
    index = fitted(W, n_clusters, augment_norm=augment_norm)
    scores, ids = index.query(Q, k, n_probe=index.n_clusters_)
    expected = np.array([best_of(W, q, k) for q in Q])
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(Q @ W.T, expected, axis=1))
    assert scores.dtype == np.float32
    assert ids.dtype == np.int64
    for both in zip((scores, ids), exact_search(W, Q, k), strict=True):
        np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e15, 1e-42])
def test_bounds_hold_at_any_scale(scale, seed):
    W, Q = rows(seed, 500, 24) * np.float32(scale), rows(seed + 1, 20, 24)
    scores, ids = fitted(W, 10).query(Q, 5, n_probe=10)
    z = W.astype(np.float64) @ Q.T.astype(np.float64)
    # Rounding of 24 products and sums in single precision, and what is lost below the normal floats.
    slack = 48 * 2.0**-24 * np.linalg.norm(W, axis=1).max() * np.linalg.norm(Q, axis=1) + 24 * 2.0**-149
    worst = np.take_along_axis(z.T, ids, axis=1).min(axis=1)
    assert (worst >= np.sort(z, axis=0)[-5] - 2 * slack).all()
    assert (np.abs(scores - np.take_along_axis(z.T, ids, axis=1)) <= slack[:, None]).all()


def test_rows_with_outliers_and_zero_rows_are_found(seed):
    rng = np.random.default_rng(seed)
    W = rows(seed, 300, 20)
    W[:100, 3] *= 1e6  # such rows have useless codes
    W[100:150] = 0
    Q = rng.standard_normal((30, 20)).astype(np.float32)
    Q[:, 3] = 0
    _, ids = fitted(W, 9).query(Q, 8, n_probe=9)
    np.testing.assert_array_equal(ids, [best_of(W, q, 8) for q in Q])


def test_the_probed_clusters_are_those_of_the_largest_centroid_scores(seed):
    W, Q = rows(seed, 800, 12), rows(seed + 1, 40, 12)
    for augment_norm in (False, True):
        index = fitted(W, 20, augment_norm=augment_norm)
        toward = Q.astype(np.float64) @ index.cluster_centers_[:, :12].T.astype(np.float64)
        for n_probe in (1, 3, 12, 19):  # few are found by bounds, many by all scores
            _, ids = index.query(Q, 6, n_probe=n_probe)
            for q, z, found in zip(Q, toward, ids, strict=True):
                probed = np.isin(index.labels_, np.argsort(-z)[:n_probe])
                for n_more in range(n_probe + 1, 21):  # where they have too few rows, more are read
                    if probed.sum() < 6:
                        probed = np.isin(index.labels_, np.argsort(-z)[:n_more])
                np.testing.assert_array_equal(found, best_of(W, q, 6, probed))


def test_more_clusters_are_read_for_k_rows_and_absent_ones_are_padded():
    index = fitted(np.eye(4, dtype=np.float32), 4)
    q = np.array([0.0, 2.0, 0.0, 0.0])
    scores, ids = index.query(q, 2, n_probe=1)
    assert (ids[0], scores.tolist()) == (1, [2, 0])
    scores, ids = index.query(q, 3, n_probe=1, exclude=[0, 2])
    np.testing.assert_array_equal(ids, [1, 3, -1])
    np.testing.assert_array_equal(scores, [2, 0, -np.inf])


def test_single_batched_dense_and_sparse_queries_agree(seed):
    W, Q = rows(seed, 900, 30), rows(seed + 1, 50, 30)
    Q[np.random.default_rng(seed).random(Q.shape) < 0.7] = 0
    for augment_norm in (False, True):
        index = fitted(W, 25, augment_norm=augment_norm)
        scores, ids = index.query(Q, 7, n_probe=5)
        for given in (sp.csr_array(Q), sp.csc_matrix(Q), Q.astype(np.float64), np.asfortranarray(Q), Q.tolist()):
            for both in zip(index.query(given, 7, n_probe=5), (scores, ids), strict=True):
                np.testing.assert_array_equal(*both)
        for i, q in enumerate(Q):
            for one, all_of in zip(index.query(q, 7, n_probe=5), (scores, ids), strict=True):
                np.testing.assert_array_equal(one, all_of[i])


def test_excluded_rows_are_not_found_and_others_take_their_place(seed):
    W, Q = integers(seed, 600, 14), integers(seed + 1, 30, 14)
    rng = np.random.default_rng(seed)
    index = fitted(W, 12)
    best = index.query(Q, 20, n_probe=12)[1]
    lists = [rng.permutation(b)[: rng.integers(0, 15)] for b in best]
    pattern = sp.lil_array((len(Q), len(W)))
    for i, some in enumerate(lists):
        pattern[i, some] = 1
    for k in (1, 5):
        expected = [best_of(W, q, k, ~np.isin(np.arange(600), some)) for q, some in zip(Q, lists, strict=True)]
        for exclude in (lists, [some.tolist() for some in lists], pattern.tocsr()):
            np.testing.assert_array_equal(index.query(Q, k, n_probe=12, exclude=exclude)[1], expected)
        one = index.query(Q[0], k, n_probe=12, exclude=lists[0])[1]
        np.testing.assert_array_equal(one, expected[0])
        for both in zip(exact_search(W, Q, k, exclude=lists), (None, expected), strict=True):
            assert both[1] is None or np.array_equal(*both)
    ids = index.query(Q, 5, n_probe=12, exclude=[np.arange(597)] * len(Q))[1]
    assert (np.sort(ids, axis=1) == [-1, -1, 597, 598, 599]).all()


def test_rows_above_a_threshold_are_all_found(seed):
    W, Q = integers(seed, 700, 10), integers(seed + 1, 25, 10)
    index = fitted(W, 15)
    Z = Q @ W.T
    thresholds = np.sort(Z, axis=1)[:, -30]
    thresholds[:3] = [np.inf, -np.inf, 1e9]
    indptr, ids, scores = index.query_above(Q, thresholds, n_probe=15)
    for i, z in enumerate(Z):
        found = ids[indptr[i] : indptr[i + 1]]
        np.testing.assert_array_equal(found, best_of(W, Q[i], int((z > thresholds[i]).sum())))
        np.testing.assert_array_equal(scores[indptr[i] : indptr[i + 1]], z[found])
    _, some, _ = index.query_above(Q[5], 0.0, n_probe=15, exclude=[0, 3])
    assert set(some) == set(np.flatnonzero(Z[5] > 0)) - {0, 3}


def assert_same_answers(a, b, Q):
    for n_probe in (1, 4, a.n_clusters_):
        for one, other in zip(a.query(Q, 6, n_probe=n_probe), b.query(Q, 6, n_probe=n_probe), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(a.query_above(Q, 1.0, n_probe=3), b.query_above(Q, 1.0, n_probe=3), strict=True):
        np.testing.assert_array_equal(one, other)


def rebuilt(index):
    """An index made from scratch of the rows as they are, with the same centroids."""
    other = clone(index).fit(index.rows_)
    none = np.zeros(0, dtype=np.int32)
    other.radius_ = index.radius_
    other._build(index.rows_, index.cluster_centers_, none)
    return other


@pytest.mark.parametrize("augment_norm", [False, True])
@pytest.mark.parametrize(("n", "d", "n_clusters"), [(300, 9, 8), (900, 33, 40), (40, 4, 40)])
def test_an_updated_index_answers_as_one_rebuilt_with_the_same_centroids(n, d, n_clusters, augment_norm, seed):
    rng = np.random.default_rng(seed)
    W = rows(seed, n, d)
    index = fitted(W, n_clusters, augment_norm=augment_norm, recluster="never", n_jobs=2)
    Q = rows(seed + 1, 15, d)
    for _ in range(25):
        m = int(rng.choice([0, 1, 2, n // 3, n]))
        ids = rng.permutation(n)[:m]
        kind = rng.integers(4)
        new = [rows(rng.integers(1000), m, d), W[ids], np.zeros((m, d)), np.tile(Q[:1], (m, 1)) * 3][kind]
        index.update(ids, new)
        W[ids] = new
        np.testing.assert_array_equal(index.rows_, W)
        assert_same_answers(index, rebuilt(index), Q)
    np.testing.assert_array_equal(index.labels_, rebuilt(index).labels_)


@pytest.mark.parametrize("isa", isas())
def test_instruction_sets_find_the_same_rows(isa, seed):
    W, Q = integers(seed, 500, 21), integers(seed + 1, 30, 21)
    index = _core.ClusterIndex(
        W, np.eye(21, dtype=np.float32), radius=0.0, labels=np.zeros(0, dtype=np.int32), n_threads=1, isa=isa
    )
    nobody = {"excluded_indptr": np.zeros(0, dtype=np.int64), "excluded_ids": np.zeros(0, dtype=np.int32)}
    for some in range(1, 6):  # shapes of the kernels
        _, ids = index.query(Q[:some], k=9, n_probe=21, n_threads=1, isa=isa, **nobody)
        np.testing.assert_array_equal(ids, [best_of(W, q, 9) for q in Q[:some]])


def test_any_number_of_threads_gives_the_same_bits(seed):
    W, Q = rows(seed, 5000, 20), rows(seed + 1, 3000, 20)
    answers = []
    for n_jobs in (1, 2, 4):
        index = fitted(W, 60, n_jobs=n_jobs, n_probe="auto")
        index.update(np.arange(0, 5000, 7), rows(seed + 2, 715, 20))
        above = index.query_above(Q[:50], 5.0)
        answers.append((index.cluster_centers_, index.labels_, *index.query(Q, 5), *index.query(Q[0], 5), *above))
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_that_share_one_query_change_nothing(seed):
    W = rows(seed, 70_000, 256)  # 17 MB of codes: enough for a second thread
    index = fitted(W, 16, n_iter=1, sample_per_cluster=64)
    Q = rows(seed + 1, 3, 256)
    alone = [index.query(q, 20, n_probe=16) for q in Q]
    above = [index.query_above(q, float(s[9]), n_probe=16) for q, (s, _) in zip(Q, alone, strict=True)]
    index.set_params(n_jobs=4)
    for q, (scores, ids), found in zip(Q, alone, above, strict=True):
        for a, b in zip(index.query(q, 20, n_probe=16), (scores, ids), strict=True):
            np.testing.assert_array_equal(a, b)
        assert len(found[1]) == 9
        for a, b in zip(index.query_above(q, float(scores[9]), n_probe=16), found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_auto_is_one_exact_cluster_for_few_rows_and_many_for_many(seed):
    few = SphericalClusterIndex().fit(integers(seed, 200, 6))
    assert (few.n_clusters_, few.n_probe_, few.recall_) == (1, 1, 1.0)
    many = SphericalClusterIndex(random_state=0).fit(rows(seed, 5000, 6))
    assert many.n_clusters_ == 141
    assert many.recall_ >= 0.9
    assert many.recall_ == pytest.approx(1.0) or many.n_probe_ < 141


def test_tuned_probes_reach_the_recall_and_one_fewer_does_not(seed):
    W, Q = rows(seed, 3000, 16), rows(seed + 1, 200, 16)
    index = fitted(W, 40)
    true = exact_search(W, Q, 10)[1]
    n_probe = index.tune(Q, recall=0.8)
    assert n_probe == index.n_probe_ > 1

    def recall(n):
        found = index.query(Q, 10, n_probe=n)[1]
        return np.mean([np.isin(a, b).mean() for a, b in zip(found, true, strict=True)])

    assert recall(n_probe) >= 0.8 - 1e-3  # the last place may differ by rounding of equal scores
    assert recall(n_probe - 1) < 0.8 + 1e-3
    np.testing.assert_allclose(index.recall_curve(Q)[[0, 5, 39]], [recall(1), recall(6), 1], rtol=0, atol=1e-3)


def test_norm_augmentation_finds_long_rows_with_fewer_probes(seed):
    rng = np.random.default_rng(seed)
    W = rows(seed, 6000, 16, norms=1.0)
    Q = rng.standard_normal((300, 16)).astype(np.float32)
    plain, augmented = (fitted(W, 60, augment_norm=a).recall_curve(Q)[2] for a in (False, True))
    assert augmented > plain + 0.1


def test_clusters_are_made_anew_when_the_rows_gather_in_one(seed):
    W = rows(seed, 2000, 10)
    index = fitted(W, 30, recluster="auto")
    near = (np.eye(10)[0] + 0.05 * np.random.default_rng(seed).standard_normal((2000, 10))).astype(np.float32)
    never = fitted(W, 30, recluster="never").update(np.arange(2000), near)
    index.update(np.arange(2000), near)
    assert (index.n_reclusterings_, never.n_reclusterings_) == (1, 0)
    assert index.imbalance_ < 3 < never.imbalance_
    np.testing.assert_array_equal(index.rows_, near)


def test_clusters_are_made_anew_when_recall_has_fallen(seed):
    rng = np.random.default_rng(seed)
    W = np.repeat(rng.standard_normal((40, 12)), 50, axis=0) + 0.1 * rng.standard_normal((2000, 12))
    index = fitted(W, 40, n_probe="auto")
    few = index.n_probe_
    index.update(np.arange(900), rows(seed, 900, 12, norms=0))  # fewer than half of the rows: nothing is measured
    assert index.n_reclusterings_ == 0
    index.update(np.arange(2000), rows(seed, 2000, 12, norms=0))
    assert index.n_reclusterings_ == 1
    assert index.recall_ >= 0.9
    assert index.n_probe_ > few


@pytest.mark.parametrize("augment_norm", [False, True])
def test_a_saved_index_answers_as_before_and_goes_on(augment_norm, tmp_path, seed):
    W, Q = rows(seed, 700, 11), rows(seed + 1, 20, 11)
    index = fitted(W, 14, augment_norm=augment_norm, n_probe="auto")
    index.update([3, 5], rows(seed + 2, 2, 11))
    index.save(tmp_path / "index.safetensors")
    again = SphericalClusterIndex.load(tmp_path / "index.safetensors")
    for other in (again, pickle.loads(pickle.dumps(index))):
        assert other.get_params() == index.get_params()
        assert (other.n_probe_, other.recall_, other.radius_) == (index.n_probe_, index.recall_, index.radius_)
        np.testing.assert_array_equal(other.labels_, index.labels_)
        np.testing.assert_array_equal(other.kmeans_stats_["sizes"], index.kmeans_stats_["sizes"])
        assert_same_answers(other, index, Q)
    new = rows(seed + 3, 300, 11)
    assert_same_answers(again.update(np.arange(300), new), index.update(np.arange(300), new), Q)


def test_a_file_that_is_no_index_is_refused(tmp_path, seed):
    from manyclass.weights.tensor_file import open_tensors, write_tensors

    path = tmp_path / "index.safetensors"
    index = fitted(rows(seed, 50, 3), 4)
    index.save(path)
    file = open_tensors(path)
    tensors = {name: file.read(name) for name in file.entries}
    write_tensors(path, tensors, {**file.metadata, "format": "manyclass model"})
    with pytest.raises(ValueError, match="is not an index of manyclass: its format is 'manyclass model'"):
        SphericalClusterIndex.load(path)
    write_tensors(path, tensors, {**file.metadata, "format_version": "2"})
    with pytest.raises(ValueError, match=r"has format version 2, written by .*; this manyclass reads versions 1 to 1"):
        SphericalClusterIndex.load(path)
    for name, bad in (("labels", tensors["labels"] + 4), ("cluster_centers", tensors["rows"].T.copy()), ("rows", None)):
        write_tensors(
            path,
            {n: t if n != name else bad for n, t in tensors.items() if n != name or bad is not None},
            file.metadata,
        )
        with pytest.raises(ValueError, match="is damaged"):
            SphericalClusterIndex.load(path)


def test_inputs_of_any_layout_are_read_and_not_written(seed):
    W, Q = rows(seed, 300, 8), rows(seed + 1, 10, 8)
    expected = fitted(W, 6).query(Q, 4)
    frozen, wide = W.copy(), np.zeros((300, 16), dtype=np.float32)
    frozen.flags.writeable = False
    wide[:, ::2] = W
    for given in (frozen, wide[:, ::2], np.asfortranarray(W), W.astype(np.float64), sp.csr_array(W), W.tolist()):
        for a, b in zip(fitted(given, 6).query(Q, 4), expected, strict=True):
            np.testing.assert_array_equal(a, b)


BAD = [
    (lambda i, W: SphericalClusterIndex().fit(W[0]), ValueError, "W has 1 dimensions; it must have 2"),
    (lambda i, W: SphericalClusterIndex().fit(W[:0]), ValueError, r"W has shape \(0, 5\); it must have 1 row or more"),
    (lambda i, W: SphericalClusterIndex().fit(W * 1j), TypeError, "W has dtype complex64; it must hold real numbers"),
    (lambda i, W: SphericalClusterIndex().fit(W * np.nan), ValueError, "row 0 has a value that is not finite"),
    (lambda i, W: SphericalClusterIndex().fit(W.astype(float) * 1e300), ValueError, "row 0 has a value that is not"),
    (lambda i, W: SphericalClusterIndex(41).fit(W), ValueError, "n_clusters is 41; it must be at least 1 and"),
    (lambda i, W: SphericalClusterIndex(2.0).fit(W), TypeError, "n_clusters is 2.0; it must be an integer"),
    (lambda i, W: SphericalClusterIndex(n_iter=0).fit(W), ValueError, "n_iter is 0"),
    (lambda i, W: SphericalClusterIndex(recluster="no").fit(W), ValueError, "recluster is 'no'; it must be one of"),
    (lambda i, W: SphericalClusterIndex().query(W), ValueError, "not fitted"),
    (lambda i, W: i.query(W, 41), ValueError, "k is 41; it must be at least 1 and at most 40"),
    (lambda i, W: i.query(W, 1, n_probe=5), ValueError, "n_probe is 5; it must be at least 1 and at most 4"),
    (lambda i, W: i.query(W[:, :4], 1), ValueError, r"Q has shape \(\d+, 4\); it must have .* 5 columns"),
    (lambda i, W: i.query(sp.csr_array(W[:, :4]), 1), ValueError, r"Q has shape \(40, 4\); it must have .* 5 columns"),
    (lambda i, W: i.query(np.where(W[2] == W, np.inf, W), 1), ValueError, "query 2 has a value that is not finite"),
    (lambda i, W: i.query(W[:2], 1, exclude=[[1]]), ValueError, "exclude has 1 lists; there are 2 queries"),
    (lambda i, W: i.query(W[:1], 1, exclude=[[40]]), ValueError, r"exclude\[0\] holds 40; ids are in \[0, 40\)"),
    (lambda i, W: i.query(W, 1, exclude=sp.csr_array((40, 39))), ValueError, r"exclude has shape \(40, 39\)"),
    (lambda i, W: i.query_above(W, np.nan), ValueError, "threshold holds NaN"),
    (lambda i, W: i.query_above(W, [1.0, 2.0]), ValueError, r"threshold has shape \(2,\); it must be a number or have"),
    (lambda i, W: i.update([40], W[:1]), ValueError, r"ids holds 40; ids are in \[0, 40\)"),
    (lambda i, W: i.update([-1], W[:1]), ValueError, r"ids holds -1; ids are in \[0, 40\)"),
    (lambda i, W: i.update([1, 2, 1], W[:3]), ValueError, "ids holds 1 more than once"),
    (lambda i, W: i.update([1.5], W[:1]), TypeError, "ids has dtype float64; it must hold integers"),
    (lambda i, W: i.update([1, 2], W[:3]), ValueError, "rows has 3 rows, ids has 2"),
    (lambda i, W: i.update([1], W[:1, :4]), ValueError, "rows has 4 columns; the index has 5"),
    (lambda i, W: i.update([1, 2], W[:2] * [[1], [np.nan]]), ValueError, "row 1 has a value that is not finite"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_what_cannot_be_is_refused_and_changes_nothing(call, error, message):
    W = rows(0, 40, 5)
    index = fitted(W, 4)
    with pytest.raises(error, match=message):
        call(index, W)
    np.testing.assert_array_equal(index.rows_, W)


def test_one_row_and_one_column_are_enough():
    index = SphericalClusterIndex().fit([[2.0]])
    np.testing.assert_array_equal(index.query([[3.0], [-1.0]], 1)[0], [[6.0], [-2.0]])
    assert index.update([0], [[4.0]]).query([1.0], 1)[0] == 4
