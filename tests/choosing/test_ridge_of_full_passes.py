"""The ridge of full passes: folds, losses against scikit-learn's optimum, and when another than 1 / N is taken."""

import numpy as np
import pytest
from planned import points_of_arrays
from sklearn.linear_model import LogisticRegression

from manyclass.choosing.costs import Trials
from manyclass.figures import FIGURES
from manyclass.fitting.trials import cross_validated_ridge
from manyclass.training.core_training import Watch, fit_full_batch
from manyclass.training.passes import fork
from manyclass.training.plan import FullBatchPlan, draw_folds

PLAN = FullBatchPlan(
    loss="softmax", alpha=1e-3, tol=1e-6, max_iter=1000, fit_intercept=True, n_threads=1, verbose=0
)  # fmt: skip


def problem(seed, n=150, n_features=6, signal=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    y = (signal * X[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1).astype(np.int32)
    y[:6] = [0, 1, 2, 0, 1, 2]
    return X, y


def test_folds_are_even_in_each_class_and_leave_it_a_point(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2, 3], [23, 10, 2, 1])).astype(np.int32)
    found = draw_folds(labels, 5, fork(seed))
    assert found[labels == 3].tolist() == [-1]
    for label in range(3):
        counts = np.bincount(found[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1
        assert np.count_nonzero(counts) > 1  # so that each fold leaves some for training


def test_losses_are_those_of_scikit_learns_optima_on_the_same_folds(seed):
    X, y = problem(seed)
    _, tried = cross_validated_ridge(Trials(np.inf), PLAN, points_of_arrays(X, y, 3), seed)
    fold = draw_folds(y, FIGURES.FOLDS, fork(seed))
    for ridge in FIGURES.PRIORS[: len(tried)]:
        losses = []
        for part in range(FIGURES.FOLDS):
            kept, out = fold != part, fold == part
            # Its C weighs the sum of losses; ours is the mean, with ridge / N.
            theirs = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=10_000).fit(X[kept], y[kept])
            losses.extend(-theirs.predict_log_proba(X[out])[np.arange(out.sum()), y[out]])
        # Trials stop at a gradient of 1e-4, from which held-out losses differ in the third digit at most.
        assert tried[ridge / len(y)] == pytest.approx(np.mean(losses), rel=1e-2)


def noise(seed):
    """Labels that no feature tells: nothing is better than the strongest ridge."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(100, 40)).astype(np.float32), (np.arange(100) % 2).astype(np.int32)


def test_a_ridge_is_taken_that_is_clearly_better_than_1_over_n(seed):
    X, y = noise(seed)
    alpha, tried = cross_validated_ridge(Trials(np.inf), PLAN, points_of_arrays(X, y, 2), seed)
    assert alpha == min(tried, key=tried.get) > FIGURES.PRIOR / 100


def test_a_ridge_that_is_better_by_chance_is_not_taken(seed, monkeypatch):
    X, y = noise(seed)
    monkeypatch.setattr("manyclass._core.mean_and_error", lambda *_: (0.1, 1e3))
    alpha, tried = cross_validated_ridge(Trials(np.inf), PLAN, points_of_arrays(X, y, 2), seed)
    assert alpha == FIGURES.PRIOR / 100 != min(tried, key=tried.get)


def test_nothing_is_tried_where_nothing_can_be_held_out():
    X = np.eye(4, dtype=np.float32)
    points = points_of_arrays(X, np.arange(4, dtype=np.int32), 4)
    assert cross_validated_ridge(Trials(np.inf), PLAN, points, 0) == (FIGURES.PRIOR / 4, {})


def test_a_fit_from_its_own_optimum_is_done_at_once(seed):
    X, y = problem(seed)
    points = points_of_arrays(X, y, 3)
    first, curve, *_ = fit_full_batch(PLAN, points, Watch())
    again, short, *_ = fit_full_batch(PLAN, points, Watch(), first)
    assert len(curve) > 5
    assert len(short) <= 3  # the optimum was rounded to float32
    np.testing.assert_allclose(again.coef, first.coef, atol=1e-3)
