"""Indexes through random sequences of updates, queries, files and pickles, beside a plain matrix that is searched."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from reference.exact_search import exact_search

from manyclass import DecomposedIndex, SphericalClusterIndex
from manyclass.search.clustered import checked_ids, checked_rows, exclusions, labels_of, queries_of

D = 7


def integers(rng, n, d=D):
    """Small integers: inner products are exact in single precision, and many are equal."""
    return rng.integers(-2, 3, (n, d)).astype(np.float32)


def spherical(n, rng, **parameters):
    n_clusters = int(rng.integers(1, n + 1))
    return SphericalClusterIndex(min(n_clusters, 12), n_probe=1, random_state=int(rng.integers(100)), **parameters)


def decomposed(n, rng, **parameters):
    n_clusters = int(rng.integers(1, n + 1))
    return DecomposedIndex(
        int(rng.integers(1, D + 1)),
        n_clusters=min(n_clusters, 12),
        n_probe=1,
        random_state=int(rng.integers(100)),
        **parameters,
    )


def best_of(W, q, k, excluded=()):
    """Ids and scores of the k best rows by score, equal scores by id; -1 and -infinity where there are fewer."""
    z = W.astype(np.float64) @ q
    left = np.setdiff1d(np.arange(len(W)), np.asarray(excluded, dtype=np.int64))
    found = left[np.argsort(-z[left], kind="stable")][:k]
    short = k - len(found)
    return np.pad(found, (0, short), constant_values=-1), np.pad(z[found], (0, short), constant_values=-np.inf)


def check_all_probed(index, W, Q, k, lists):
    """With every cluster probed a query is brute force; that of blocks where each block gives all of its rows."""
    k = len(W) if isinstance(index, DecomposedIndex) else k
    scores, ids = index.query(Q, k, n_probe=index.n_clusters_, exclude=lists)
    for i, q in enumerate(Q):
        expected = best_of(W, q, k, () if lists is None else lists[i])
        np.testing.assert_array_equal(ids[i], expected[0])
        np.testing.assert_array_equal(scores[i], expected[1])
    if lists is None:
        for one, other in zip((scores, ids), exact_search(W, Q, k), strict=True):
            np.testing.assert_array_equal(one, other)


def check_some_probed(index, W, Q, k, lists):
    """With fewer clusters an answer is a part of the rows: right scores in order, none excluded, none twice."""
    before = np.full(len(Q), -np.inf)
    for n_probe in range(1, index.n_clusters_ + 1):
        scores, ids = index.query(Q, k, n_probe=n_probe, exclude=lists)
        for i, q in enumerate(Q):
            n = int(np.sum(ids[i] >= 0))
            found = ids[i, :n]
            assert len(np.unique(found)) == n
            assert (ids[i, n:] == -1).all()
            assert (scores[i, n:] == -np.inf).all()
            np.testing.assert_array_equal(scores[i, :n], W[found] @ q)
            assert (np.diff(scores[i, :n]) <= 0).all()
            if lists is not None:
                assert not np.isin(found, lists[i]).any()
        if isinstance(index, SphericalClusterIndex):  # a block gives only its best, which need not be the best of all
            assert (scores[:, 0] >= before).all()
            before = scores[:, 0]


@pytest.mark.parametrize("make", [spherical, decomposed])
@pytest.mark.parametrize("sequence", range(4))
def test_an_index_answers_as_its_rows_do_after_anything_that_happens_to_it(make, sequence, tmp_path, seed):
    rng = np.random.default_rng([seed, sequence])
    n = int(rng.integers(1, 90))
    W = integers(rng, n)
    index = make(n, rng).fit(W)
    for step in range(20):
        action = rng.choice(["update", "update", "query", "some", "save", "pickle", "threads", "same rows"])
        k = int(rng.integers(1, n + 1))
        Q = integers(rng, int(rng.integers(1, 5)))
        lists = [rng.permutation(n)[: rng.integers(0, n + 1)].tolist() for _ in Q] if rng.random() < 0.5 else None
        if action == "update":
            ids = rng.permutation(n)[: rng.integers(0, n + 1)]
            new = integers(rng, len(ids))
            assert index.update(ids, new) is index
            W[ids] = new
        elif action == "same rows":
            ids = rng.permutation(n)[: rng.integers(0, n + 1)]
            index.update(ids, W[ids])
        elif action == "query":
            check_all_probed(index, W, Q, k, lists)
        elif action == "some":
            check_some_probed(index, W, Q, k, lists)
        elif action == "save":
            path = tmp_path / f"{step}"
            index.save(path)
            index = type(index).load(path)
        elif action == "pickle":
            index = pickle.loads(pickle.dumps(index))
        else:
            index.set_params(n_jobs=int(rng.integers(1, 4)))
        np.testing.assert_array_equal(index.rows_, W)
        assert (index.n_rows_, index.n_features_in_) == (n, D)
    check_all_probed(index, W, integers(rng, 4), n, None)


@pytest.mark.parametrize("augment_norm", [False, True])
@pytest.mark.parametrize("recluster", ["never", "auto"])
def test_clusters_part_the_rows_whatever_is_updated(augment_norm, recluster, seed):
    rng = np.random.default_rng(seed)
    W = integers(rng, 80)
    index = SphericalClusterIndex(9, augment_norm=augment_norm, recluster=recluster, random_state=seed).fit(W)
    for _ in range(12):
        ids = rng.permutation(80)[: rng.integers(1, 81)]
        W[ids] = integers(rng, len(ids)) * (rng.random() < 0.8)  # now and then rows of zeros
        index.update(ids, W[ids])
        assert index.labels_.shape == (80,)
        assert index.labels_.min() >= 0
        assert index.labels_.max() < index.n_clusters_ == 9
        sizes = np.bincount(index.labels_, minlength=9)
        assert index.imbalance_ == pytest.approx(9 * np.sum((sizes / 80) ** 2), rel=1e-12)
        check_all_probed(index, W, integers(rng, 3), 10, None)


def test_rows_above_a_threshold_follow_updates(seed):
    rng = np.random.default_rng(seed)
    W = integers(rng, 60)
    index = SphericalClusterIndex(6, random_state=0).fit(W)
    for _ in range(10):
        ids = rng.permutation(60)[: rng.integers(1, 61)]
        W[ids] = integers(rng, len(ids))
        index.update(ids, W[ids])
        Q = integers(rng, 3)
        threshold = float(rng.integers(-3, 6))
        indptr, ids, scores = index.query_above(Q, threshold, n_probe=index.n_clusters_)
        for i, q in enumerate(Q):
            z = W @ q
            expected, _ = best_of(W, q, int((z > threshold).sum()))
            found = ids[indptr[i] : indptr[i + 1]]
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(scores[indptr[i] : indptr[i + 1]], z[expected])


# Inputs


def test_rows_of_any_kind_become_one_matrix():
    W = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in (W, W.astype(np.int8), W.tolist(), np.asfortranarray(W), sp.csr_array(W), sp.coo_matrix(W), W > 2):
        found = checked_rows("W", given)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.asarray(given.toarray() if sp.issparse(given) else given, np.float32))
    assert checked_rows("W", W) is W  # what fits is not copied


def test_queries_of_any_kind_are_the_same_points():
    Q = np.array([[0, 1, 0], [2, 0, 3]], dtype=np.float32)
    for given in (Q, Q.astype(np.float64), Q.tolist(), sp.csr_array(Q), sp.csc_matrix(Q), Q[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(queries_of(given, 3, dense=True)[0], Q)
        assert queries_of(given, 3)[1:] == (2, False)
    for given in (Q[0], Q[0].tolist(), Q[0].astype(np.int64)):
        np.testing.assert_array_equal(queries_of(given, 3, dense=True)[0], Q[:1])
        assert queries_of(given, 3)[1:] == (1, True)
    twice = sp.csr_array(sp.coo_array(([1.0, 1.0, 5.0], ([0, 0, 1], [1, 1, 2])), shape=(2, 3)))
    np.testing.assert_array_equal(queries_of(twice, 3, dense=True)[0], [[0, 2, 0], [0, 0, 5]])


@pytest.mark.parametrize(
    ("exclude", "n", "single", "expected"),
    [
        (None, 2, False, ([], [])),
        ([[3, 1, 1], []], 2, False, ([0, 2, 2], [1, 3])),
        ([[], [0]], 2, False, ([0, 0, 1], [0])),
        ([3, 1], 1, True, ([0, 2], [1, 3])),
        ([[3, 1]], 1, True, ([0, 2], [1, 3])),
        ([], 1, True, ([0, 0], [])),
        ([[]], 1, False, ([0, 0], [])),
        ([], 0, False, ([0], [])),
        (sp.csr_array(([1, 0, 1], ([0, 0, 1], [4, 2, 0])), shape=(2, 5)), 2, False, ([0, 2, 3], [2, 4, 0])),
    ],
    ids=str,
)
def test_exclusions_become_sorted_distinct_lists(exclude, n, single, expected):
    indptr, ids = exclusions(exclude, n, single, 5)
    assert (indptr.tolist(), ids.tolist()) == expected
    assert (indptr.dtype, ids.dtype) == (np.int64, np.int32)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([4, 0], ([0, 1, 2], [4, 0])),
        (np.array([1, 1], dtype=np.uint8), ([0, 1, 2], [1, 1])),
        ([[3, 1, 3], [0]], ([0, 2, 3], [1, 3, 0])),
        ([[], [2]], ([0, 0, 1], [2])),
        (sp.csr_array(([1, 0, 1], ([0, 0, 1], [4, 2, 0])), shape=(2, 5)), ([0, 1, 2], [4, 0])),  # a stored 0 is none
    ],
    ids=str,
)
def test_labels_become_sorted_distinct_lists(labels, expected):
    indptr, ids = labels_of(labels, 2, 5)
    assert (indptr.tolist(), ids.tolist()) == expected
    assert (indptr.dtype, ids.dtype) == (np.int64, np.int32)


WRONG = [
    (lambda: checked_rows("W", [["a"]]), TypeError, "W has dtype <U1; it must hold real numbers"),
    (lambda: checked_rows("W", [[1j]]), TypeError, "W has dtype complex128; it must hold real numbers"),
    (lambda: checked_rows("W", np.zeros(3)), ValueError, "W has 1 dimensions; it must have 2"),
    (lambda: checked_rows("W", np.zeros((2, 0))), ValueError, "W has shape (2, 0); it must have 1 row or more"),
    (lambda: checked_rows("rows", np.zeros((2, 3)), 4), ValueError, "rows has 3 columns; the index has 4"),
    (
        lambda: queries_of(np.zeros((1, 1, 3)), 3),
        ValueError,
        "Q has shape (1, 1, 3); it must have 1 dimension (a query) or 2, and 3 columns",
    ),
    (
        lambda: queries_of(np.zeros(4), 3),
        ValueError,
        "Q has shape (1, 4); it must have 1 dimension (a query) or 2, and 3 columns",
    ),
    (
        lambda: queries_of(sp.csr_array((2, 4)), 3),
        ValueError,
        "Q has shape (2, 4); it must have 1 dimension (a query) or 2, and 3 columns",
    ),
    (lambda: queries_of([None, 1], 2), TypeError, "Q has dtype object; it must hold real numbers"),
    (lambda: checked_ids("ids", [[1]], 3), ValueError, "ids has 2 dimensions; it must have 1"),
    (lambda: checked_ids("ids", [0, 3], 3), ValueError, "ids holds 3; ids are in [0, 3)"),
    (lambda: checked_ids("ids", [-1], 3), ValueError, "ids holds -1; ids are in [0, 3)"),
    (lambda: checked_ids("ids", [True], 3), TypeError, "ids has dtype bool; it must hold integers"),
    (lambda: checked_ids("ids", np.array([2**63], dtype=np.uint64), 3), ValueError, "ids holds 9223372036854775808"),
    (lambda: exclusions([[1]], 2, False, 3), ValueError, "exclude has 1 lists; there are 2 queries"),
    (lambda: exclusions([[1], [3]], 2, False, 3), ValueError, "exclude[1] holds 3; ids are in [0, 3)"),
    (lambda: exclusions(sp.csr_array((2, 4)), 2, False, 3), ValueError, "exclude has shape (2, 4); it must be (2, 3)"),
    (lambda: labels_of([1], 2, 3), ValueError, "Y has 1 labels; there are 2 queries"),
    (lambda: labels_of([1, 3], 2, 3), ValueError, "Y holds 3; ids are in [0, 3)"),
    (lambda: labels_of([[1]], 2, 3), ValueError, "Y has 1 lists; there are 2 queries"),
    (lambda: labels_of([1.0, 2.0], 2, 3), TypeError, "Y has dtype float64; it must hold integers"),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG, ids=[message[:30] for _, _, message in WRONG])
def test_what_is_no_input_is_refused_with_its_name_and_the_rule(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
