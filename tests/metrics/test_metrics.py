"""manyclass.metrics against cases worked by hand, slow twins and scikit-learn; what its functions refuse."""

import doctest

import numpy as np
import pytest
from reference import ranking as twin
from scipy import sparse
from sklearn.metrics import ndcg_score, top_k_accuracy_score

import manyclass.metrics.ranking
from manyclass import _core, metrics
from manyclass.metrics import ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k, top_k_accuracy

PLACES = (1, 2, 3, 5, 8)
K = 12

# Rows with 2, 1, no and 4 labels; a gap, an empty row and a full one among the predictions.
LABELS = [[3, 0], [5], [], [1, 2, 4, 6]]
PREDICTED = np.array([[0, -1, 3], [1, 5, 0], [0, 1, 2], [-1, -1, -1]])


def csr_of(lists, n_labels=K, of=sparse.csr_array):
    """A CSR indicator whose rows keep the order of the lists."""
    indptr = np.cumsum([0] + [len(row) for row in lists])
    indices = [label for row in lists for label in row]
    return of((np.ones(len(indices), np.float32), indices, indptr), shape=(len(lists), n_labels))


@pytest.fixture
def problem(seed):
    """Label lists (some empty, unsorted), rankings with gaps, and propensities."""
    rng = np.random.default_rng(seed)
    labels = [rng.permutation(K)[: rng.integers(0, 7)].tolist() for _ in range(40)]
    labels[0] = [4]  # at least one
    predicted = np.array([rng.permutation(K)[:8] for _ in labels])
    predicted[rng.random(predicted.shape) < 0.2] = -1
    return labels, predicted, rng.uniform(0.05, 1, K)


# By hand


def test_precision_counts_rows_and_places_without_anything_as_wrong():
    assert precision_at_k(LABELS, PREDICTED, k=(1, 2, 3)).tolist() == [1 / 4, (1 + 1) / 2 / 4, (2 + 1) / 3 / 4]


def test_recall_is_of_the_labels_of_a_row():
    assert recall_at_k(LABELS, PREDICTED, k=(1, 2, 3)).tolist() == [(1 / 2) / 4, (1 / 2 + 1) / 4, (1 + 1) / 4]


def test_ndcg_discounts_places_and_is_one_where_all_labels_stand_in_front():
    second, third = 1 / np.log2(3), 1 / np.log2(4)
    expected = [1 / 4, (1 / (1 + second) + second) / 4, ((1 + third) / (1 + second) + second) / 4]
    np.testing.assert_allclose(ndcg_at_k(LABELS, PREDICTED, k=(1, 2, 3)), expected, rtol=1e-15)
    assert ndcg_at_k([[7, 1], [2]], [[1, 7, 0], [2, 0, 1]], k=(1, 2, 3)).tolist() == [1, 1, 1]


def test_psp_is_a_ratio_of_sums_over_rows():
    p = [1, 0.5, 0.25, 0.5, 1, 0.125, 1]  # 1 / p: 1 2 4 2 1 8 1
    attainable = [2 + 8 + 4, 3 + 8 + 6, 3 + 8 + 7]
    np.testing.assert_allclose(
        psp_at_k(LABELS, PREDICTED, p, k=(1, 2, 3)), np.array([1, 1 + 8, 1 + 2 + 8]) / attainable, rtol=1e-15
    )


def test_psp_is_one_for_the_rarest_labels_first_and_precision_for_equal_propensities(problem):
    labels, predicted, p = problem
    best = [(sorted(row, key=lambda label: p[label]) + [-1] * 8)[:8] for row in labels]
    np.testing.assert_allclose(psp_at_k(labels, best, p, PLACES), 1, rtol=1e-14)  # rounding of some 100 terms
    attainable = [np.mean([min(len(row), k) / k for row in labels]) for k in PLACES]
    np.testing.assert_allclose(
        psp_at_k(labels, predicted, np.full(K, 0.3), PLACES),
        precision_at_k(labels, predicted, PLACES) / attainable,
        rtol=1e-14,
    )


def test_propensities_grow_with_the_count_of_a_label():
    # C = (log 4 - 1) 2.5^0.55 = 0.63942; counts 3, 1, 0
    p = propensities(csr_of([[0], [0, 1], [], [0]], 3))
    np.testing.assert_allclose(p, 1 / (1 + 0.63942 * np.array([4.5, 2.5, 1.5]) ** -0.55), rtol=1e-5)  # C's digits
    assert p[0] > p[1] > p[2]


def test_top_k_accuracy_finds_the_single_label():
    assert top_k_accuracy([2, 0, 1], [[1, 2], [0, 1], [0, -1]], k=(1, 2)).tolist() == [1 / 3, 2 / 3]


# Twins


@pytest.mark.parametrize("name", ["precision", "recall", "ndcg"])
def test_metrics_equal_their_twins(problem, name):
    labels, predicted, _ = problem
    sets = [set(row) for row in labels]
    ours = {"precision": precision_at_k, "recall": recall_at_k, "ndcg": ndcg_at_k}[name]
    expected = [getattr(twin, name)(sets, predicted.tolist(), k) for k in PLACES]
    np.testing.assert_allclose(ours(labels, predicted, PLACES), expected, rtol=1e-13)  # another order of 40 rows' sum


def test_psp_and_propensities_equal_their_twins(problem):
    labels, predicted, p = problem
    sets = [set(row) for row in labels]
    expected = [twin.psp(sets, predicted.tolist(), p, k) for k in PLACES]
    np.testing.assert_allclose(psp_at_k(labels, predicted, p, PLACES), expected, rtol=1e-13)
    for a, b in [(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)]:
        np.testing.assert_allclose(propensities(labels, a, b, n_labels=K), twin.propensities(sets, K, a, b), rtol=1e-13)


def test_scores_are_ranked_with_the_smaller_label_first_among_equals(seed):
    rng = np.random.default_rng(seed)
    rows = [{int(j): float(rng.integers(-2, 3)) for j in rng.permutation(K)[: rng.integers(0, K)]} for _ in range(50)]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    ids = np.array([j for row in rows for j in row], np.int32)
    scores = np.array([s for row in rows for s in row.values()])
    for k in (0, 1, 4, K + 3):
        best, values = _core.best_of_rows(indptr, ids, scores, k)
        assert best.tolist() == [twin.ranking_of_scores(row, k) for row in rows]
        expected = [[row.get(j, 0.0) for j in found] for row, found in zip(rows, best.tolist(), strict=True)]
        assert values.tolist() == expected


def test_hits_are_those_of_a_membership_test(problem):
    labels, predicted, _ = problem
    ids = np.array([label for row in labels for label in sorted(row)], np.int32)
    found = _core.label_hits(np.cumsum([0] + [len(row) for row in labels]), ids, predicted.astype(np.int32))
    assert found.tolist() == [[j in row for j in r] for row, r in zip(labels, predicted.tolist(), strict=True)]


# Kinds of input


def functions(p):
    return [
        precision_at_k,
        recall_at_k,
        ndcg_at_k,
        lambda Y, predicted, k: psp_at_k(Y, predicted, p, k),
    ]


@pytest.mark.parametrize("of", [sparse.csr_array, sparse.csr_matrix])
def test_all_kinds_of_labels_and_predictions_give_the_same_numbers(problem, of):
    labels, predicted, p = problem
    Y = csr_of(labels, of=of)
    before = Y.copy()
    scores = np.arange(9, 1, -1) * (predicted >= 0)  # 9 for the first place, 0 for gaps, which are not stored
    S = of((scores.ravel(), predicted.ravel() % K, np.arange(0, predicted.size + 1, 8)), shape=(len(labels), K))
    S.sum_duplicates()
    S.eliminate_zeros()
    # A ranking without its gaps, as scores have none: -1 stands behind.
    closed = np.array([[j for j in row if j >= 0] + [-1] * (row < 0).sum() for row in predicted])
    for metric in functions(p):
        expected = metric(labels, closed, PLACES)
        assert expected.shape == (len(PLACES),)
        for truth in (Y, [set(row) for row in labels], tuple(np.array(row, int) for row in labels)):
            for ranked in (S, closed, closed.astype(np.int16), closed.tolist()):
                np.testing.assert_array_equal(metric(truth, ranked, PLACES), expected)
        assert [metric(Y, S, k) for k in PLACES] == expected.tolist()
        assert isinstance(metric(Y, S, 3), float)
    assert Y.indices.tolist() == before.indices.tolist()  # the order of the file, which first_label needs


def test_explicit_zeros_are_no_labels_and_duplicates_are_summed():
    Y = sparse.csr_array(([1.0, 0.0, 0.5, 0.5], [2, 0, 1, 1], [0, 2, 4]), shape=(2, 3))
    assert precision_at_k(Y, [[0], [1]], k=1) == 0.5
    assert recall_at_k(Y, [[2], [1]], k=1) == 1.0
    assert Y.nnz == 4


def test_a_stored_score_of_zero_is_a_prediction_and_an_absent_one_is_none():
    S = sparse.csr_array(([-1.0, 0.0], [0, 2], [0, 2]), shape=(1, 3))
    assert precision_at_k([[0, 1, 2]], S, k=(1, 2, 3)).tolist() == [1, 1, 2 / 3]


def test_more_places_than_labels_exist_are_empty():
    S = sparse.csr_array(np.array([[0.3, 0.7]]))
    assert precision_at_k([[0, 1]], S, k=10**9) == 2e-9
    assert ndcg_at_k([[0, 1]], S, k=10**9) == 1
    assert psp_at_k([[0, 1]], S, [0.5, 0.5], k=10**9) == 1


# scikit-learn


def test_scikit_learn_agrees_where_no_two_scores_are_equal(seed):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(50 * K).reshape(50, K) + 1.0
    Y = (rng.random((50, K)) < 0.2).astype(int)
    S = sparse.csr_array(scores)
    theirs = [ndcg_score(Y, scores, k=k, ignore_ties=True) for k in PLACES]
    np.testing.assert_allclose(ndcg_at_k(sparse.csr_array(Y), S, PLACES), theirs, rtol=1e-13)

    y = rng.integers(0, K, 50)
    theirs = [top_k_accuracy_score(y, scores, k=k, labels=np.arange(K)) for k in PLACES]
    np.testing.assert_allclose(top_k_accuracy(y, S, PLACES), theirs, rtol=1e-15)
    np.testing.assert_allclose(recall_at_k([[label] for label in y], S, PLACES), theirs, rtol=1e-15)


# What is refused

FINE = [[0]]
ONE = csr_of(FINE)
NAN = sparse.csr_array(np.array([[np.nan, 1.0]]))


@pytest.mark.parametrize(
    ("Y_true", "predicted", "k", "error", "message"),
    [
        (np.eye(2), FINE, 1, TypeError, "Y_true is a ndarray; it must be a SciPy CSR"),
        (ONE.tocsc(), FINE, 1, TypeError, r"Y_true is a csc_\w+; it must be a SciPy CSR"),
        ([], FINE, 1, ValueError, "Y_true has no row"),
        (csr_of([]), FINE, 1, ValueError, r"Y_true has shape \(0, 12\)"),
        ([3], FINE, 1, TypeError, r"Y_true\[0\] is no list; it must be a list of labels"),
        (["ab"], FINE, 1, TypeError, r"Y_true\[0\] is no list; it must be a list of labels"),
        ([[0, 1.5]], FINE, 1, TypeError, "Y_true has dtype float64; it must hold integers"),
        ([[True]], FINE, 1, TypeError, "Y_true has dtype bool; it must hold integers"),
        ([[2**70]], FINE, 1, TypeError, "Y_true has dtype object"),
        ([[1], [4, 4]], [[0], [0]], 1, ValueError, r"Y_true\[1\] has the label 4 twice"),
        (NAN, FINE, 1, ValueError, "Y_true holds NaN"),
        (ONE.astype(complex), FINE, 1, TypeError, "Y_true has dtype complex128"),
        (ONE, [[0.5]], 1, TypeError, "predicted has dtype float64; it must be of label positions"),
        (ONE, [0], 1, ValueError, r"predicted has shape \(1,\); it must have two axes"),
        (ONE, [[0, 1]], (1, 3), ValueError, r"predicted has shape \(1, 2\); .* 3 columns for k = 3"),
        (ONE, [[0], [0]], 1, ValueError, "predicted has 2 rows, there are labels of 1"),
        (ONE, [[K]], 1, ValueError, r"predicted is 12 at \(0, 0\); it must be in \[-1, 12\) \(-1: none\)"),
        (ONE, [[-2]], 1, ValueError, r"predicted is -2 at \(0, 0\)"),
        (ONE, [[5, -1, 5]], 3, ValueError, "predicted has the label 5 twice in row 0"),
        (ONE, csr_of(FINE, 3), 1, ValueError, "predicted has 3 columns, there are 12 labels"),
        (ONE, csr_of([[0], [0]]), 1, ValueError, "predicted has 2 rows, there are labels of 1"),
        (ONE, ONE.tocoo(), 1, TypeError, r"predicted is a coo_\w+; scores must be a SciPy CSR"),
        (FINE, NAN, 1, ValueError, "predicted holds NaN"),
        (ONE, FINE, 0, ValueError, "k is 0; it must be at least 1"),
        (ONE, FINE, (), ValueError, r"k is \(\); it must be a number of places"),
        (ONE, FINE, 1.0, TypeError, "k is 1.0; it must be an integer"),
        (ONE, FINE, "1", TypeError, "k is '1'; it must be an integer"),
    ],
)
def test_bad_labels_and_predictions_are_refused(Y_true, predicted, k, error, message):
    for metric in functions([0.5] * (K if Y_true is not NAN and predicted is not NAN else 2)):
        with pytest.raises(error, match=message):
            metric(Y_true, predicted, k)


def test_a_corrupt_csr_matrix_is_refused():
    Y = csr_of([[1], [2]])
    Y.indices[1] = K
    with pytest.raises(ValueError, match="indices"):
        precision_at_k(Y, [[0], [0]], k=1)


@pytest.mark.parametrize(
    ("Y_true", "p", "error", "message"),
    [
        (FINE, ["a"], TypeError, "propensities has dtype <U1"),
        (FINE, 0.5, ValueError, r"propensities has shape \(\)"),
        (FINE, [0.5, 0.0], ValueError, r"propensities\[1\] is 0.0; it must be in \]0, 1\]"),
        (FINE, [1.5], ValueError, r"propensities\[0\] is 1.5"),
        (FINE, [np.nan], ValueError, r"propensities\[0\] is nan"),
        (ONE, [0.5], ValueError, "propensities has length 1, Y_true has 12 columns"),
        ([[1]], [0.5], ValueError, "propensities has length 1, Y_true has the label 1"),
        ([[]], [0.5], ValueError, "Y_true has no label in any row"),
    ],
)
def test_bad_propensities_are_refused(Y_true, p, error, message):
    with pytest.raises(error, match=message):
        psp_at_k(Y_true, [[0]], p, k=1)


def test_psp_of_lists_refuses_predictions_without_a_propensity():
    with pytest.raises(ValueError, match=r"predicted is 2 at \(0, 0\); it must be in \[-1, 2\)"):
        psp_at_k([[1]], [[2]], [0.5, 0.5], k=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0], [1]],), "Y_train has 2 rows; it must have at least 3"),
        (([[0]] * 3, 0.0), "a is 0.0; it must be finite, more than 0"),
        (([[0]] * 3, 0.5, -1), "b is -1; it must be finite, more than 0"),
    ],
)
def test_propensities_refuse_what_makes_them_no_probabilities(arguments, message):
    with pytest.raises(ValueError, match=message):
        propensities(*arguments)


def test_propensities_take_the_number_of_labels_of_lists_only():
    assert len(propensities([[0], [1], []])) == 2
    assert len(propensities([[0], [1], []], n_labels=5)) == 5
    assert len(propensities(csr_of([[0], [1], []]), n_labels=K)) == K
    with pytest.raises(ValueError, match="n_labels is 1; Y_train has at least 2"):
        propensities([[0], [1], []], n_labels=1)
    with pytest.raises(ValueError, match="n_labels is 5; Y_train has 12"):
        propensities(csr_of([[0], [1], []]), n_labels=5)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (["a"], TypeError, "y_true has dtype <U1"),
        ([[0]], ValueError, "y_true has 2 dimensions; it must have 1"),
        ([-1], ValueError, r"y_true holds -1; ids are in \[0, 12\)"),
        ([K], ValueError, "y_true holds 12"),
    ],
)
def test_bad_single_labels_are_refused(y, error, message):
    with pytest.raises(error, match=message):
        top_k_accuracy(y, ONE, k=1)


@pytest.mark.parametrize(
    ("indptr", "message"),
    [
        ([0, 2], "from 0 to the number of entries, 1"),
        ([0, 3, 1], "falls from 3 to 1"),
        ([1, 1], "from 0"),
        ([], "from"),
    ],
)
def test_the_loops_refuse_rows_that_leave_their_arrays(indptr, message):
    indptr, ids = np.array(indptr, np.int64), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match=message):
        _core.label_hits(indptr, ids, np.zeros((len(indptr), 1), np.int32))
    with pytest.raises(ValueError, match=message):
        _core.best_of_rows(indptr, ids, np.zeros(1), 1)
    with pytest.raises(ValueError, match="predicted has 2 rows, there are labels of 1"):
        _core.label_hits(np.array([0, 1]), ids, np.zeros((2, 1), np.int32))
    with pytest.raises(ValueError, match="there are 1 ids and 2 scores"):
        _core.best_of_rows(np.array([0, 1]), ids, np.zeros(2), 1)


def test_read_only_arrays_are_accepted():
    Y, ranked = csr_of([[1], [0, 2]]), np.array([[1], [2]], np.int32)
    for array in (Y.data, Y.indices, Y.indptr, ranked):
        array.flags.writeable = False
    assert precision_at_k(Y, ranked, k=1) == 1


def test_the_examples_of_the_docstrings_are_true():
    failed, tried = doctest.testmod(manyclass.metrics.ranking)
    assert (failed, tried > 10) == (0, True)


@pytest.mark.parametrize("kind", ["text", "objects", "dates", "mixed"])
def test_labels_of_any_type_are_judged_as_their_numbers_are(kind, seed):
    """Labels as `predict_top_k` returns them, with what it writes where there are fewer than k."""
    rng = np.random.default_rng(seed)
    names = np.array([f"label {j}" for j in range(12)])
    names = {"objects": names.astype(object), "dates": np.datetime64("2026-01-01") + np.arange(12)}.get(kind, names)
    none = {"dates": np.datetime64("NaT"), "text": ""}.get(kind)
    predicted = np.argsort(rng.random((30, 12)), axis=1)[:, :6]
    predicted[rng.random((30, 6)) < 0.1] = -1
    named = np.array(
        [[none if j < 0 else names[j] for j in row] for row in predicted],
        dtype=names.dtype if none is not None else object,
    )
    single = rng.integers(0, 12, 30)
    several = [np.flatnonzero(rng.random(12) < 0.2).tolist() for _ in range(30)]
    as_named = [[names[j] for j in row] for row in several]
    assert metrics.top_k_accuracy(names[single], named, 5) == metrics.top_k_accuracy(single, predicted, 5)
    for measure in (metrics.precision_at_k, metrics.recall_at_k, metrics.ndcg_at_k, metrics.mrr_at_k):
        assert measure(as_named, named, 5) == measure(several, predicted, 5)
    assert metrics.coverage_at_k(named, 12, 5) == metrics.coverage_at_k(predicted, 12, 5)


def test_a_class_that_has_an_empty_name_can_be_hit():
    predicted = np.array([["", "a"], ["a", ""], ["b", ""]])
    assert metrics.top_k_accuracy(["", "", "b"], predicted, (1, 2)).tolist() == [2 / 3, 1]
    assert metrics.precision_at_k([["a"], ["a"], ["b"]], predicted, 2) == 0.5


def test_a_threshold_predicts_as_many_labels_as_there_are_if_that_is_better(seed):
    rng = np.random.default_rng(seed)
    n, width, n_first = 30, 6, 2
    Y = rng.random((n, width)) < 0.3
    Y[0, 0] = True
    order = np.argsort(rng.random((n, width)), axis=1).astype(np.int32)
    right = np.take_along_axis(Y, order, axis=1)
    values = -np.sort(-(right * rng.random((n, width)) + 0.3 * rng.random((n, width))), axis=1)
    rows = sparse.csr_array(Y)
    r = rng.random(n) + 0.5
    found = _core.best_threshold(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), order, values, r, n_first)

    def f(chosen):
        return 2 * (r @ (right & chosen).sum(axis=1)) / (r @ chosen.sum(axis=1) + r @ Y.sum(axis=1))

    flat = np.argsort(-values, axis=None, kind="stable")
    last = int(np.searchsorted(np.cumsum(np.repeat(r, width)[flat]), r @ Y.sum(axis=1)))
    limit = values.ravel()[flat[last : last + 2]].mean()
    above, first = values > limit, np.zeros((n, width), bool)
    above[:, 0], first[:, :n_first] = True, True
    assert found == (pytest.approx(limit) if f(above) > f(first) else None)
    nothing = np.zeros(n + 1, np.int64)
    assert _core.best_threshold(nothing, rows.indices[:0].astype(np.int32), order, values, r, n_first) is None


def test_rows_of_ids_are_sorted_and_what_comes_twice_is_told():
    indptr, ids = np.array([0, 3, 3, 5]), np.array([4, 1, 2, 7, 7], np.int32)
    assert _core.sort_rows(indptr, ids) == (7, 2)
    assert ids.tolist() == [1, 2, 4, 7, 7]
    assert _core.sort_rows(indptr[:2], ids[:3]) == (-1, 0)


def test_a_report_has_each_measure_at_each_k(seed):
    rng = np.random.default_rng(seed)
    n, n_labels, ks = 60, 12, (1, 4, 7)
    predicted = np.argsort(rng.random((n, n_labels)), axis=1)[:, :8]
    lists, counts = [rng.choice(n_labels, rng.integers(1, 4), replace=False).tolist() for _ in range(n)], np.arange(12)
    report = metrics.ranking_report(lists, predicted, ks, counts=counts)
    for k in ks:
        right = [[label in row for label in best[:k]] for row, best in zip(lists, predicted, strict=True)]
        assert report[f"hit_at_{k}"] == np.mean([any(row) for row in right])
        assert report[f"hit_at_{k}"] == metrics.hit_at_k(lists, predicted, k)
        bits = -np.log2(np.maximum(counts, 1) / counts.sum())
        assert report[f"novelty_at_{k}"] == pytest.approx(bits[predicted[:, :k]].mean())
        for name in ("precision", "recall", "mrr", "ndcg"):
            assert report[f"{name}_at_{k}"] == getattr(metrics, f"{name}_at_k")(lists, predicted, k)
        assert report[f"coverage_at_{k}"] == metrics.coverage_at_k(predicted, n_labels, k)
    y = rng.integers(n_labels, size=n)
    assert metrics.ranking_report(y, predicted, 3)["hit_at_3"] == metrics.top_k_accuracy(y, predicted, 3)
    names = np.array([f"n{label:02d}" for label in range(n_labels)])
    assert metrics.ranking_report(names[y], names[predicted], 3) == metrics.ranking_report(y, predicted, 3)
    some = np.where(rng.random(predicted.shape) < 0.5, predicted, -1)
    told = some[:, :4][some[:, :4] >= 0]
    assert metrics.novelty_at_k(some, counts, 4) == pytest.approx(bits[told].mean())
