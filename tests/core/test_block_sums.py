"""Log-sums of blocks of classes, by the core's exact/block_sums.hpp, and classes in larger arrays, against NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp

from manyclass import _core


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_block_takes_what_is_left_of_a_normalizer(n_blocks, seed):
    rng = np.random.default_rng(seed)
    sums, number = rng.normal(size=(20, n_blocks)) * 3, n_blocks - 1
    v, elsewhere = _core.block_normalizers(sums, number)
    np.testing.assert_allclose(v, logsumexp(sums, axis=1), rtol=1e-13, atol=1e-14)
    others = logsumexp(np.delete(sums, number, axis=1), axis=1) if n_blocks > 1 else np.full(20, -np.inf)
    np.testing.assert_allclose(elsewhere, others, rtol=1e-13, atol=1e-14)
    after, moved = v.copy(), rng.random(20) < 0.5
    after[moved] += rng.random(moved.sum()) + 0.1
    found = sums.copy()
    _core.take_normalizers(v, after, elsewhere, number, found)
    assert found[~moved].tolist() == sums[~moved].tolist()
    # A difference of exponentials, of which e^.1 - 1 is the least share that is left.
    np.testing.assert_allclose(logsumexp(found, axis=1), after, rtol=1e-12, atol=1e-13)
    if n_blocks > 1:  # a normaliser that the others have alone leaves nothing
        _core.take_normalizers(v, elsewhere.copy(), elsewhere, number, found)
        assert np.isneginf(found[:, number]).all()
        with pytest.raises(ValueError, match="the log-sums do not fit the rows or the blocks"):
            _core.block_normalizers(sums, n_blocks)


def test_the_best_classes_of_all_blocks_are_those_of_a_sort(seed):
    rng = np.random.default_rng(seed)
    n, m, n_blocks, k = 15, 8, 3, 5
    classes = np.argsort(rng.random((n, 40)), axis=1)[:, :m].astype(np.int32)
    scores, log_sums = rng.integers(0, 6, (n, m)).astype(float), rng.normal(size=(n_blocks, n)) + 8
    of_labels = np.where(rng.random((n_blocks, n)) < 0.5, rng.normal(size=(n_blocks, n)), -np.inf)
    best, log_p, losses = _core.best_over_blocks(classes, scores, log_sums, of_labels, k)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    normalizers = logsumexp(log_sums, axis=0)
    assert best.tolist() == np.take_along_axis(classes, order, axis=1).tolist()
    np.testing.assert_allclose(log_p, np.take_along_axis(scores, order, axis=1) - normalizers[:, None], rtol=1e-12)
    np.testing.assert_allclose(losses, normalizers - of_labels.max(axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="does not fit the rows"):
        _core.best_over_blocks(classes, scores, log_sums, of_labels, m + 1)


@pytest.mark.parametrize("of_columns", [False, True])
@pytest.mark.parametrize("position", [[0, 1, 2], [1, 4, 5]], ids=["first", "between"])
def test_classes_are_placed_in_larger_arrays(of_columns, position, seed):
    numbers = np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32)
    given = np.ascontiguousarray(np.pad(numbers.T, ((0, 0), (0, 2)))) if of_columns else numbers  # padded columns
    found = np.full((4, 7) if of_columns else (6, 4), 9, dtype=np.float32)
    expected = found.copy()
    (expected.T if of_columns else expected)[position] = numbers
    _core.place_classes(given, np.array(position), of_columns, found)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="the arrays or the places do not fit each other"):
        _core.place_classes(given, np.array([0, 1, 7]), of_columns, found)
