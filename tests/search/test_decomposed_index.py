"""DecomposedIndex: the best of its blocks, as rebuilt after any updates, the same for any threads."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import isas
from reference.exact_search import exact_search
from reference.message_passing import best_wrong, block_scores

from manyclass import DecomposedIndex, SphericalClusterIndex, _core
from manyclass.weights.tensor_file import open_tensors, write_tensors


def rows(seed, n, d, norms=0.5):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(norms * rng.standard_normal((n, 1)))).astype(np.float32)


def integers(seed, n, d):
    """Small integers: inner products are exact in single precision, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, (n, d)).astype(np.float32)


def fitted(W, n_blocks=4, n_clusters=6, **parameters):
    return DecomposedIndex(n_blocks, **({"n_clusters": n_clusters, "n_probe": 2, "random_state": 0} | parameters)).fit(
        W
    )


@pytest.mark.parametrize(("n", "d", "n_blocks"), [(500, 16, 4), (333, 13, 5), (50, 3, 3), (70, 40, 1), (1, 2, 2)])
def test_columns_are_cut_into_blocks_whose_sizes_differ_by_at_most_one(n, d, n_blocks, seed):
    W, Q = integers(seed, n, d), integers(seed + 1, 9, d)
    index = fitted(W, n_blocks, min(n, 6), n_probe=1)
    widths = np.diff(index.block_starts_)
    assert len(widths) == n_blocks
    assert widths.sum() == d
    assert widths.max() - widths.min() <= 1
    scores, ids = index.query(Q, n, n_probe=index.n_clusters_)
    for a, b in zip((scores, ids), exact_search(W, Q, n), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("excluding", [False, True])
@pytest.mark.parametrize("n_probe", [1, 3, 6])
def test_a_query_gets_the_best_of_what_the_probed_clusters_of_the_blocks_give(n_probe, excluding, seed):
    n, d, k = 700, 14, 9
    W, Q = integers(seed, n, d), integers(seed + 1, 25, d) + np.float32(0.5)
    index = fitted(W, 4, 6)
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(n)[: rng.integers(0, 300)] if excluding else [] for _ in Q]
    scores, ids = index.query(Q, k, n_probe=n_probe, exclude=lists if excluding else None)
    starts = index.block_starts_
    for i, q in enumerate(Q):
        candidates = np.zeros(n, dtype=bool)
        for j, s in enumerate(block_scores(W, q, 4)):
            columns = slice(starts[j], starts[j + 1])
            toward = index.cluster_centers_[:, columns].astype(float) @ q[columns].astype(float)
            probed = np.isin(index.labels_[j], np.argsort(-toward)[:n_probe])
            candidates |= best_wrong(s, list(lists[i]), 9, probed)  # K / 100 is 7
        z = W.astype(float) @ q.astype(float)
        left = np.flatnonzero(candidates)
        expected = left[np.argsort(-z[left], kind="stable")][:k]
        np.testing.assert_array_equal(ids[i], np.pad(expected, (0, k - len(expected)), constant_values=-1))
        np.testing.assert_array_equal(scores[i, : len(expected)], z[expected])
        assert (scores[i, len(expected) :] == -np.inf).all()


def test_equal_scores_and_rows_of_zeros_are_taken_by_id(seed):
    W = np.zeros((400, 8), dtype=np.float32)
    W[200:] = 1
    index = fitted(W, 2, 3)
    np.testing.assert_array_equal(index.query(np.ones(8), 6, n_probe=3)[1], np.arange(200, 206))
    np.testing.assert_array_equal(index.query(-np.ones(8), 6, n_probe=3)[1], np.arange(6))
    np.testing.assert_array_equal(index.query(np.zeros(8), 6, n_probe=3)[1], np.arange(6))


@pytest.mark.parametrize("scale", [1e-30, 1e15])
def test_any_scale_is_searched(scale, seed):
    W, Q = rows(seed, 600, 12) * np.float32(scale), rows(seed + 1, 10, 12)
    _, ids = fitted(W).query(Q, 5, n_probe=6)
    _, unscaled = fitted(W / np.float32(scale)).query(Q, 5, n_probe=6)
    assert np.mean(ids == unscaled) > 0.95  # clusters are the same but for rounding


def test_single_batched_dense_and_sparse_queries_agree(seed):
    W, Q = rows(seed, 500, 10), rows(seed + 1, 30, 10)
    Q[np.random.default_rng(seed).random(Q.shape) < 0.6] = 0
    index = fitted(W)
    expected = index.query(Q, 5)
    for given in (sp.csr_array(Q), Q.astype(np.float64), np.asfortranarray(Q), Q.tolist()):
        for a, b in zip(index.query(given, 5), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for i, q in enumerate(Q):
        for a, b in zip(index.query(q, 5), expected, strict=True):
            np.testing.assert_array_equal(a, b[i])


def assert_same_answers(a, b, Q):
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.rows_, b.rows_)
    Y = np.arange(len(Q)) % a.n_rows_
    for n_probe in (1, a.n_clusters_):
        for one, other in zip(a.query(Q, 6, n_probe=n_probe), b.query(Q, 6, n_probe=n_probe), strict=True):
            np.testing.assert_array_equal(one, other)
        for loss in ("margin", "cross_entropy"):
            one, other = (
                index.loss_and_gradient(Q, Y, loss, n_probe=n_probe, budget=7, threshold=None) for index in (a, b)
            )
            # The same classes in another order: sums are rounded differently.
            np.testing.assert_allclose(one[0], other[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(one[1].toarray(), other[1].toarray(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("n", "d", "n_clusters"), [(300, 9, 8), (800, 33, 40), (40, 4, 40)])
def test_an_updated_index_answers_as_one_rebuilt_with_the_same_centroids(n, d, n_clusters, seed):
    rng = np.random.default_rng(seed)
    W = rows(seed, n, d)
    index = fitted(W, 3, n_clusters, n_jobs=2)
    Q = rows(seed + 1, 12, d)
    for _ in range(20):
        m = int(rng.choice([0, 1, 2, n // 3, n]))
        ids = rng.permutation(n)[:m]
        kind = rng.integers(4)
        new = [rows(rng.integers(1000), m, d), W[ids], np.zeros((m, d)), np.tile(Q[:1], (m, 1)) * 3][kind]
        index.update(ids, new)
        W[ids] = new
        other = fitted(W, 3, n_clusters)
        other._build(W, index.cluster_centers_, np.zeros((0, 0), dtype=np.int32))
        np.testing.assert_array_equal(index.rows_, W)
        assert_same_answers(index, other, Q)


@pytest.mark.parametrize("isa", isas())
def test_instruction_sets_find_the_same_rows(isa, seed):
    W, Q = integers(seed, 500, 21), integers(seed + 1, 30, 21)
    centers = [np.eye(7, dtype=np.float32)] * 3
    index = _core.DecomposedIndex(W, centers, labels=[], n_threads=1, isa=isa)
    nobody = {"excluded_indptr": np.zeros(0, dtype=np.int64), "excluded_ids": np.zeros(0, dtype=np.int32)}
    _, ids = index.query(Q, k=9, budget=500, n_probe=7, n_threads=1, isa=isa, **nobody)
    np.testing.assert_array_equal(ids, exact_search(W, Q, 9)[1])


def test_any_number_of_threads_gives_the_same_bits(seed):
    W, Q = rows(seed, 5000, 20), rows(seed + 2, 100, 20)
    answers = []
    for n_jobs in (1, 2):
        index = fitted(W, 4, 60, n_jobs=n_jobs, n_probe="auto")
        index.update(np.arange(0, 5000, 7), rows(seed + 3, 715, 20))
        found = [index.loss_and_gradient(Q, np.arange(100), loss) for loss in ("margin", "cross_entropy")]
        numbers = [part for losses, g in found for part in (losses, g.data, g.indices)]
        answers.append((index.cluster_centers_, index.labels_, index.n_probe_, *index.query(Q, 5), *numbers))
    for a, b in zip(*answers, strict=True):
        np.testing.assert_array_equal(a, b)


def test_auto_is_one_exact_cluster_for_few_rows_and_enough_probes_for_many(seed):
    few = DecomposedIndex(2).fit(integers(seed, 200, 6))
    assert (few.n_clusters_, few.n_probe_) == (1, 1)
    W = rows(seed, 5000, 12)
    many = DecomposedIndex(3, random_state=0).fit(W)
    assert many.n_clusters_ == 141
    assert 1 <= many.n_probe_ < 100
    # The share of the best ten rows of a block that its probed clusters hold, by a sample as large as the index's own:
    # three standard errors of 3 x 64 x 10 draws below nine tenths.
    queries = np.random.default_rng(seed + 1).choice(5000, 64, replace=False)
    shares = []
    for j in range(3):
        columns = slice(4 * j, 4 * j + 4)
        centers = many.cluster_centers_[:, columns]
        for i in queries:
            z = W[:, columns] @ W[i, columns]
            z[i] = -np.inf
            best = np.argpartition(-z, 10)[:10]
            probed = np.argsort(-centers @ W[i, columns])[: many.n_probe_]
            shares.append(np.isin(many.labels_[j][best], probed).mean())
    assert np.mean(shares) > 0.9 - 3 * np.std(shares) / np.sqrt(len(shares)) - 0.02


def test_a_saved_index_answers_as_before_and_goes_on(tmp_path, seed):
    W, Q = rows(seed, 700, 11), rows(seed + 1, 20, 11)
    index = fitted(W, 3, 14, n_probe="auto")
    index.update([3, 5], rows(seed + 2, 2, 11))
    index.save(tmp_path / "index.safetensors")
    again = DecomposedIndex.load(tmp_path / "index.safetensors")
    for other in (again, pickle.loads(pickle.dumps(index))):
        assert other.get_params() == index.get_params()
        assert other.n_probe_ == index.n_probe_
        np.testing.assert_array_equal(other.block_starts_, index.block_starts_)
        assert_same_answers(other, index, Q)
    new = rows(seed + 3, 300, 11)
    assert_same_answers(again.update(np.arange(300), new), index.update(np.arange(300), new), Q)


def test_a_file_that_is_no_such_index_is_refused(tmp_path, seed):
    path = tmp_path / "index.safetensors"
    W = rows(seed, 50, 6)
    SphericalClusterIndex(4).fit(W).save(path)
    with pytest.raises(ValueError, match="is not a decomposed index of manyclass: its format is 'manyclass index'"):
        DecomposedIndex.load(path)
    fitted(W, 2, 4).save(path)
    file = open_tensors(path)
    tensors = {name: file.read(name) for name in file.entries}
    with pytest.raises(ValueError, match="is not an index of manyclass"):
        SphericalClusterIndex.load(path)
    write_tensors(path, tensors, {**file.metadata, "format_version": "2"})
    with pytest.raises(ValueError, match=r"has format version 2, written by .*; this manyclass reads versions 1 to 1"):
        DecomposedIndex.load(path)
    bad = [
        ("labels", tensors["labels"] + 4),
        ("labels", tensors["labels"][:1]),
        ("rows", tensors["rows"][:, :5].copy()),
    ]
    for name, array in bad:
        write_tensors(path, tensors | {name: array}, file.metadata)
        with pytest.raises(ValueError, match="is damaged"):
            DecomposedIndex.load(path)


Y = np.arange(40)
BAD = [
    (lambda i, W: DecomposedIndex().fit(W[0]), ValueError, "W has 1 dimensions; it must have 2"),
    (lambda i, W: DecomposedIndex(6).fit(W), ValueError, "n_blocks is 6; it must be at least 1 and at most 5"),
    (lambda i, W: DecomposedIndex(0).fit(W), ValueError, "n_blocks is 0"),
    (lambda i, W: DecomposedIndex(2, n_clusters=41).fit(W), ValueError, "n_clusters is 41"),
    (lambda i, W: DecomposedIndex(2, n_clusters=4, n_probe=5).fit(W), ValueError, "n_probe is 5"),
    (lambda i, W: DecomposedIndex(2).fit(W * np.nan), ValueError, "row 0 has a value that is not finite"),
    (lambda i, W: DecomposedIndex(2).query(W), ValueError, "not fitted"),
    (lambda i, W: i.query(W, 41), ValueError, "k is 41; it must be at least 1 and at most 40"),
    (lambda i, W: i.query(W, 1, n_probe=7), ValueError, "n_probe is 7; it must be at least 1 and at most 6"),
    (lambda i, W: i.query(W[:, :4], 1), ValueError, r"Q has shape \(\d+, 4\); it must have .* 5 columns"),
    (lambda i, W: i.query(np.where(W[2] == W, np.inf, W), 1), ValueError, "a query has a value that is not finite"),
    (lambda i, W: i.query(W[:2], 1, exclude=[[1]]), ValueError, "exclude has 1 lists; there are 2 queries"),
    (lambda i, W: i.update([40], W[:1]), ValueError, r"ids holds 40; ids are in \[0, 40\)"),
    (lambda i, W: i.update([1, 2, 1], W[:3]), ValueError, "ids holds 1 more than once"),
    (lambda i, W: i.update([1, 2], W[:3]), ValueError, "rows has 3 rows, ids has 2"),
    (lambda i, W: i.update([1, 2], W[:2] * [[1], [np.nan]]), ValueError, "row 1 has a value that is not finite"),
    (lambda i, W: i.loss_and_gradient(W, Y, "hinge"), ValueError, "loss is 'hinge'; it must be one of 'cross_entropy'"),
    (lambda i, W: i.loss_and_gradient(W, Y, step="half"), ValueError, "step is 'half'; it must be one of 'full'"),
    (lambda i, W: i.loss_and_gradient(W, Y, rest="some"), ValueError, "rest is 'some'; it must be one of 'mask'"),
    (lambda i, W: i.loss_and_gradient(W, Y, answer="all"), ValueError, "answer is 'all'; it must be one of 'blocks'"),
    (lambda i, W: i.loss_and_gradient(W, Y, budget=0), ValueError, "budget is 0; it must be at least 1"),
    (lambda i, W: i.loss_and_gradient(W, Y, threshold=-1), ValueError, "threshold is -1; it must be finite, at least"),
    (lambda i, W: i.loss_and_gradient(W, Y, budget=1, threshold=1), ValueError, "budget and threshold are both given"),
    (
        lambda i, W: i.loss_and_gradient(W, Y, smoothing=-1),
        ValueError,
        "smoothing is -1; it must be finite, at",
    ),
    (lambda i, W: i.loss_and_gradient(W, Y, tolerance=np.nan), ValueError, "tolerance is nan; it must be finite"),
    (lambda i, W: i.loss_and_gradient(W, Y, n_iter=0.5), TypeError, "n_iter is 0.5; it must be an integer"),
    (lambda i, W: i.loss_and_gradient(W, Y + 1), ValueError, r"Y holds 40; ids are in \[0, 40\)"),
    (lambda i, W: i.loss_and_gradient(W, Y[:3]), ValueError, "Y has 3 labels; there are 40 queries"),
    (lambda i, W: i.loss_and_gradient(W[:2], [[1], [40]]), ValueError, r"Y\[1\] holds 40; ids are in \[0, 40\)"),
    (lambda i, W: i.loss_and_gradient(W[:2], [[1]]), ValueError, "Y has 1 lists; there are 2 queries"),
    (lambda i, W: i.loss_and_gradient(W * np.inf, Y), ValueError, "a query has a value that is not finite"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_what_cannot_be_is_refused_and_changes_nothing(call, error, message):
    W = rows(0, 40, 5)
    index = fitted(W, 2)
    with pytest.raises(error, match=message):
        call(index, W)
    np.testing.assert_array_equal(index.rows_, W)
    assert np.isfinite(index.loss_and_gradient(W, Y)[0]).all()
