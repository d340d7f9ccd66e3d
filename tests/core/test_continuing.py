"""What a training that goes on begins at, by the core's train/common/continuing.hpp, against its definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import core_data
from manyclass.training.incremental import KeptRows
from manyclass.training.state import LocalState


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_squares_of_features_are_weighted_sums_over_the_rows(sparse, weighted, seed):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.5)).astype(np.float32)
    r = rng.random(30) + 0.1 if weighted else np.zeros(0)
    found = _core.squares_of_features(core_data(sp.csr_array(x) if sparse else x), 7, r)
    each = r if weighted else np.ones(30)
    # Sums of at most 30 doubles in another order.
    np.testing.assert_allclose(found, [*(each @ x.astype(float) ** 2), each.sum()], rtol=1e-14)
    with pytest.raises(ValueError, match="the weights do not fit the points"):
        _core.squares_of_features(core_data(x), 7, np.ones(29))


def test_alike_features_have_the_mean_over_what_rows_have(seed):
    sums = np.random.default_rng(seed).random(6)
    found = _core.alike(np.append(sums, 9.0))
    np.testing.assert_allclose(found, [*[(sums**2).sum() / sums.sum()] * 6, 9], rtol=1e-14)
    assert _core.alike(np.array([0.0, 0.0, 4.0])).tolist() == [0, 0, 4]
    assert np.isfinite(_core.alike(np.array([1e300, 1e300, 4.0]))).all()  # their squares would overflow


def test_step_sizes_fall_from_the_first_to_the_last():
    factor, decay = _core.steps_between(0.8, 0.1, 3)
    # Three passes fall by an eighth together, each having the step size of its middle.
    assert [factor, decay] == pytest.approx([8 ** (-1 / 6), 0.5])
    assert _core.steps_between(0.1, 0.8, 3) == (1, 1)  # they do not rise
    assert _core.steps_between(0.0, 0.0, 2) == (1, 1)


def test_step_sizes_by_sums_are_those_at_the_middle_of_the_call():
    before, now = np.array([2.0, 2.0, 5.0]), np.array([3.0, 3.0, 1.0])
    factor, decay = _core.steps_by_sums(before, now, 0.5, 2)
    first, last = 1 / (1 + 0.5 * 2), 1 / (1 + 0.5 * 8)
    assert decay == pytest.approx((last / first) ** (1 / 2))
    assert factor == pytest.approx(first * decay ** (1 / 2))
    with pytest.raises(ValueError, match="do not fit each other"):
        _core.steps_by_sums(before, now[1:], 0.5, 2)


def test_step_sizes_stay_above_the_least():
    assert _core.steps_kept_above(0.4, 0.1, 0.1, 3) is None
    first, decay = _core.steps_kept_above(0.4, 0.1, 0.2, 3)
    assert [first, first * decay**2] == pytest.approx([0.4, 0.2])
    assert _core.steps_kept_above(0.1, 0.05, 0.2, 3) == (0.2, 1)
    assert _core.steps_kept_above(0.4, 0.1, 0.2, 1) == (0.4, 0.5)


def test_new_classes_begin_on_the_line_of_the_others(seed):
    rng = np.random.default_rng(seed)
    position, before = np.array([0, 2, 3]), np.array([5.0, 0.0, 20.0, 0.0, 0.0])
    now, intercept = np.array([6.0, 3.0, 20.0, 1.0, 8.0]), rng.normal(size=5).astype(np.float32)
    found = intercept.copy()
    _core.set_new_intercepts(position, before, now, found)
    logs, there = np.log([5.0, 20.0]), intercept[[0, 2]].astype(float)  # class 3 had no rows
    away = logs - logs.mean()
    slope = np.clip((away @ there + 10) / (away @ away + 10), 0, 1)
    expected = there.mean() + slope * (np.log([3.0, 8.0]) - logs.mean())
    np.testing.assert_allclose(found[[1, 4]], expected, rtol=1e-6)  # floats
    assert found[[0, 2, 3]].tolist() == intercept[[0, 2, 3]].tolist()
    unknown = intercept.copy()
    _core.set_new_intercepts(position[:0], before, now, unknown)
    assert unknown.tolist() == intercept.tolist()
    with pytest.raises(ValueError, match="a class is out of range"):
        _core.set_new_intercepts(position + 2, before, now, found)


def test_rows_carry_what_was_put_there_once_all_were_visited():
    kept = _core.CarriedRows(2, 2)
    rows = KeptRows(kept, np.array([1, 4, 5]))
    assert len(rows.of(None).u) == 0
    u, scale = np.array([0.5, 1e300, -1e300]), np.array([1.0, 2.0, 3.0])
    rows.put(None, LocalState(u, scale))
    most = float(np.finfo(np.float32).max)
    assert rows.of(None).u.tolist() == [0.5, most, -most]
    assert rows.of(np.array([2, 0])).local_scale.tolist() == [3, 1]
    assert len(KeptRows(kept, np.array([1, 2])).of(None).u) == 0  # row 2 was not visited
    with pytest.raises(ValueError, match="a row is out of range"):
        kept.put(np.array([99]), 0, np.zeros(1))


def test_losses_at_zero_are_those_of_scores_that_are_all_alike(seed):
    rng = np.random.default_rng(seed)
    n_classes, n = 7, 12
    Y = sp.csr_array(rng.random((n, n_classes)) < 0.3)
    Y = sp.csr_array(Y[np.diff(Y.indptr) > 0])
    indptr, ids = Y.indptr.astype(np.int64), Y.indices.astype(np.int32)
    r = rng.random(Y.shape[0]) + 0.1
    scores = np.zeros(Y.shape, np.float32)
    for name in ("cross_entropy", "margin", "decoupled", "logistic", "pick_all_normalized"):
        values, _ = _core.losses(scores, indptr, ids, loss=name)
        expected = np.average(values, weights=r)
        assert _core.loss_at_zero(name, indptr, n_classes, r) == pytest.approx(expected, rel=1e-5), name
    with pytest.raises(ValueError, match="loss is 'hinge'"):
        _core.loss_at_zero("hinge", indptr, n_classes, r)


def test_weights_shrink_where_the_best_factor_is_beyond_chance(seed):
    rng = np.random.default_rng(seed)
    factors, gains = np.array([0.5, 0.7, 0.9]), rng.normal(size=(50, 3)) * 0.1
    sums, squares = gains.sum(axis=0), (gains**2).sum(axis=0)
    best = int(sums.argmax())
    error = gains[:, best].std() / np.sqrt(50)
    expected = factors[best] if gains[:, best].mean() > 2 * error else 1
    assert _core.best_shrinking(sums, squares, factors, 50) == expected
    clear = gains + 1  # ten standard deviations above 0
    assert _core.best_shrinking(clear.sum(axis=0), (clear**2).sum(axis=0), factors, 50) == factors[best]
    with pytest.raises(ValueError, match="there must be sums and squares of each factor"):
        _core.best_shrinking(sums[:2], squares, factors, 50)


@pytest.mark.parametrize("weighted", [False, True])
def test_balanced_classes_have_the_same_weight_together(weighted, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 40).astype(np.int32)
    labels[labels == 3] = 2
    r = rng.random(40) if weighted else np.zeros(0)
    of_classes = _core.balanced_weights(labels, 6, r)
    each = r if weighted else np.ones(40)
    found = np.bincount(labels, each * of_classes[labels], 6)
    n_present = len(np.unique(labels))
    np.testing.assert_allclose(found[found > 0], each.max() * (each / each.max()).sum() / n_present, rtol=1e-12)
    assert of_classes[[3, 5]].tolist() == [0, 0]
    assert np.isfinite(_core.balanced_weights(labels, 6, np.full(40, 1e308))).all()


def test_shares_of_classes_are_above_0_and_below_1():
    labels = np.array([0, 0, 0, 2], np.int32)
    assert _core.class_shares(labels, 3, 4, np.zeros(0)).tolist() == [0.75, 0.125, 0.25]
    assert _core.class_shares(labels[:3], 2, 3, np.zeros(0)).tolist() == pytest.approx([2.5 / 3, 0.5 / 3])
    with pytest.raises(ValueError, match="a label is out of range"):
        _core.class_shares(labels, 2, 4, np.zeros(0))
