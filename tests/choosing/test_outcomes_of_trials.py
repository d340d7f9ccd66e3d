"""What trials choose: ridges, learning rates and numbers of probes, with trials whose outcomes are told."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import question
from sklearn.linear_model import LogisticRegression

from manyclass import SoftmaxClassifier
from manyclass.choosing.costs import Facts
from manyclass.classifiers.base import planner_of
from manyclass.classifiers.tuning import tune_learning_rate
from manyclass.fitting import trials
from manyclass.fitting.planners import SoftmaxPlanner
from manyclass.fitting.trials import search_grid
from manyclass.search.class_index import ClassIndex, recall_error
from manyclass.search.clustered import class_rows, queries
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.points import search_heads
from manyclass.weights.weights import Weights

# Ridges


@pytest.mark.parametrize("solver", ["exact", "implicit"])
@pytest.mark.parametrize(("n_features", "averaging"), [(2**29 // 1000, "suffix"), (2**29 // 1000 + 1, "none")])
def test_iterates_are_averaged_unless_that_takes_more_than_two_gigabytes(n_features, averaging, solver):
    shape = Facts(1000, n_features, 1000, 1.0 if solver == "exact" else 2000.0, True)
    found = question(SoftmaxClassifier(model="linear", **{"n_negatives": 8} if solver == "implicit" else {}), shape)
    assert (found["solver"].name, found["averaging"]) == (solver, averaging)


# Learning rates


@pytest.mark.parametrize(("fit_intercept", "more"), [(True, 1.0), (False, 0.0)])
@pytest.mark.parametrize("sparse", [False, True])
def test_rates_are_in_units_of_the_mean_square_of_what_is_tried(fit_intercept, more, sparse, monkeypatch):
    asked = []
    monkeypatch.setattr(trials, "search_grid", lambda log_loss, scale: asked.append(scale))
    X = np.full((40, 3), 2.0, dtype=np.float32)
    model = SoftmaxClassifier(solver="exact", fit_intercept=fit_intercept)
    tune_learning_rate(model, sp.csr_array(X) if sparse else X, np.arange(40) % 4)
    assert asked == [12.0 + more]


@pytest.mark.parametrize(
    ("n", "fraction", "min_points", "expected"),
    [(40, 0.5, 0, 20), (40, 0.44, 0, 18), (40, 0.1, 30, 30), (40, 0.1, 1000, 40), (40, 1.0, 0, 40), (41, 0.5, 0, 20)],
)
def test_so_many_points_are_tried_with(n, fraction, min_points, expected, seed):
    tried = []

    class Planner(SoftmaxPlanner):
        def run(self, points, watch, beginning):
            tried.append(points.x)
            raise KeyboardInterrupt

    own = planner_of(SoftmaxClassifier(solver="exact", max_iter=3))
    X = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    given = {"fraction": fraction, "min_points": min_points, "criterion": "training", "random_state": seed}
    with pytest.raises(KeyboardInterrupt):
        trials.try_grid(Planner(own.parameters, own.caller), X, np.arange(n) % 2, None, **given)
    rows = {row.tobytes() for row in X}
    assert len(tried[0]) == expected
    assert len({row.tobytes() for row in tried[0]} & rows) == expected  # each once


@pytest.mark.parametrize("best", [-6, -5, -3, 0, 2, 3, 5, 6])
def test_the_grid_goes_on_where_the_best_is_at_its_end(best):
    asked = []

    def log_loss(exponent):
        asked.append(exponent)
        return float(abs(exponent - best))

    if abs(best) == 6:
        with pytest.warns(UserWarning, match="is the last one tried"):
            found = search_grid(log_loss, 4.0)
    else:
        found = search_grid(log_loss, 4.0)
    assert found.best == 10.0**best / 4
    assert sorted(asked) == list(range(min(-3, max(best - 1, -6)), max(3, min(best + 1, 6)) + 1))
    assert len(set(asked)) == len(asked)


# Numbers of probes


def class_index(seed, n_classes=600, n_features=6):
    rng = np.random.default_rng(seed)
    weights = Weights.zeros(n_classes, n_features, by_feature=False)
    weights.coef[...] = rng.normal(size=(n_classes, n_features))
    return ClassIndex(weights, seed, 1), rng.normal(size=(512, n_features)).astype(np.float32)


@pytest.mark.parametrize(
    ("curve", "recall", "n_rows", "expected"),
    [
        ([0.5, 0.9, 0.99, 1.0], 0.9, 512, 3),  # 0.9 and a standard deviation of 0.019
        ([0.5, 0.92, 0.99, 1.0], 0.9, 512, 2),
        ([0.9, 0.9, 0.9, 0.9], 0.95, 512, 1),  # no more is to be had
        ([1.0, 1.0, 1.0, 1.0], 1.0, 512, None),  # all of them, without trying
        ([1.0, 1.0, 1.0, 1.0], 0.5, 127, None),  # too few rows to try with
        ([1.0, 1.0, 1.0, 1.0], 0.5, 128, 1),
    ],
    ids=str,
)
def test_as_few_clusters_are_probed_as_the_recall_needs(curve, recall, n_rows, expected, monkeypatch, seed):
    index, Q = class_index(seed)
    n_clusters = index._index.n_clusters_
    whole = np.append(curve, np.full(n_clusters - len(curve), curve[-1]))
    monkeypatch.setattr(SphericalClusterIndex, "recall_curve", lambda self, Q, k: whole)
    # The check finds what all clusters find.
    monkeypatch.setattr(
        SphericalClusterIndex, "query", lambda self, Q, k, n_probe: (None, np.zeros((Q.shape[0], k), dtype=np.int64))
    )
    found = index._probes_for(Q[:n_rows], 5, recall)
    least = n_clusters // 64  # of the clusters, whatever the recall
    assert found == (n_clusters if expected is None else max(expected, least))


def test_at_least_a_64th_of_the_clusters_is_probed(monkeypatch, seed):
    index, Q = class_index(seed, n_classes=5000)
    assert index._index.n_clusters_ > 128
    monkeypatch.setattr(SphericalClusterIndex, "recall_curve", lambda self, Q, k: np.ones(self.n_clusters_))
    assert index._probes_for(Q, 5, 0.05) == index._index.n_clusters_ // 64 >= 2


def test_a_recall_below_the_one_asked_for_is_told(monkeypatch, seed):
    index, Q = class_index(seed)
    monkeypatch.setattr(SphericalClusterIndex, "recall_curve", lambda self, Q, k: np.ones(self.n_clusters_))
    monkeypatch.setattr(
        SphericalClusterIndex,
        "query",
        lambda self, Q, k, n_probe: (None, np.full((Q.shape[0], k), n_probe == self.n_clusters_, dtype=np.int64)),
    )
    with pytest.warns(UserWarning, match=r"the recall of 256 of these rows is 0.000; it was to be 0.9"):
        index._probes_for(Q, 5, 0.9)


def test_the_error_of_a_recall_is_the_largest_that_it_can_have():
    # A recall of each query is in [0, 1] with mean r: its variance is at most r (1 - r).
    for recall, n in ((0.9, 256), (0.5, 64), (1.0, 10)):
        assert recall_error(recall, n) == pytest.approx(math.sqrt(recall * (1 - recall) / n), rel=1e-15)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_classes_less_their_mean_give_the_same_differences_of_scores(intercept, scaled, seed):
    rng = np.random.default_rng(seed)
    weights = Weights.zeros(9, 4, by_feature=False)
    weights.coef[...] = rng.normal(size=(9, 4))
    weights.intercept[...] = rng.normal(size=9) * intercept
    scale = rng.random(9).astype(np.float32) if scaled else None
    rows = class_rows(weights.coef, weights.intercept if intercept else None, scale)
    assert rows.shape == (9, 4 + intercept)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=2**-20)
    X = rng.normal(size=(5, 4)).astype(np.float32)
    z = X @ (weights.coef * (1 if scale is None else scale[:, np.newaxis])).T + weights.intercept
    for x in (X, sp.csr_array(X)):
        q = queries(x, rows.shape[1])
        found = (q.toarray() if sp.issparse(q) else q) @ rows.T
        np.testing.assert_allclose(found - found[:, :1], z - z[:, :1], rtol=0, atol=2**-18)


def test_probes_for_heads_are_chosen_without_the_points_own_classes(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 5000, 300).astype(np.int32)
    weights = Weights.zeros(5000, 4, by_feature=False)
    weights.coef[...] = rng.normal(size=(5000, 4))
    heads = np.full((300, 3), -1, dtype=np.int32)
    told = {}

    def tune(self, Q, *, k, recall, exclude):
        told.update(Q=Q, k=k, exclude=sp.csr_array(exclude))
        self.n_probe_ = self.n_clusters_
        return self.n_clusters_

    monkeypatch.setattr(SphericalClusterIndex, "tune", tune)
    plan = SimpleNamespace(fit_intercept=False, seed=seed, n_threads=1)
    search_heads(plan, X, labels, heads, weights, np.zeros(0, dtype=np.float32))
    assert told["k"] == 3
    some = [np.flatnonzero((q == X).all(axis=1))[0] for q in np.asarray(told["Q"])]
    assert len(set(some)) == 256
    np.testing.assert_array_equal(told["exclude"].indices, labels[some])
    np.testing.assert_array_equal(np.diff(told["exclude"].indptr), np.ones(256))
    z = X @ weights.coef.T
    z[np.arange(300), labels] = -np.inf
    np.testing.assert_array_equal(np.sort(heads, axis=1), np.sort(np.argsort(-z, axis=1)[:, :3], axis=1))


# An optimum that another library finds


def test_the_ridge_means_what_scikit_learns_c_means(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 3)), np.append(np.arange(4), rng.integers(0, 4, 56))
    alpha = 0.05
    ours = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=500).fit(X, y)
    theirs = LogisticRegression(C=1 / (alpha * len(X)), tol=1e-10, max_iter=1000).fit(X, y)
    # Ours stops where no entry of the gradient is above 1e-6, over the curvature alpha; weights are then rounded.
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-5 / alpha)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-4)
