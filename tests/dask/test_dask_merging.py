"""How the changes of several shards add up: on parabolas, at the limits, and to the certified optimum of bibtex."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

from reference.dask_simulation import plan_of, simulate

from manyclass import SoftmaxClassifier, _core, solvers
from manyclass.dask.passes import FURTHEST, Curvature, Shard, Whole, multiply_by_ways
from manyclass.datasets import load_multiclass


def merged(a, changes, sparse):
    """The merge of changes of one weight, by curvatures of shards times the step size."""
    total = np.zeros((1, 1), dtype=np.float32)
    kind = sp.csr_array if sparse else np.asarray
    for own, change in zip(a, changes, strict=True):
        one = np.full((1, 1), change, dtype=np.float32)
        multiply_by_ways(one, np.zeros(0, np.float32), Curvature(kind([[own]]), np.zeros(0), 1, (1.0, 1.0)), 1.0, 0.0)
        total += one
    of_all = Curvature(kind([[sum(a)]]), np.zeros(0), 1, (1.0, 1.0))
    multiply_by_ways(total, np.zeros(0, np.float32), of_all, 1.0, 0.0, inverse=True)
    return float(total[0, 0])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_merge_of_steps_on_parabolas_is_where_all_steps_mixed_would_go(seed, sparse):
    rng = np.random.default_rng(seed)
    a, targets = rng.exponential(size=3), rng.normal(size=3)
    changes = targets * -np.expm1(-a)  # from w = 0, as gradient flow goes on each parabola
    # Gradient flow on the sum of the parabolas, in small steps of each in turn.
    w = 0.0
    for _ in range(20_000):
        for own, target in zip(a, targets, strict=True):
            w += own / 20_000 * (target - w)
    assert merged(a, changes, sparse) == pytest.approx(w, abs=1e-3)  # the order of the turns is 1 in 20,000


def test_a_merge_is_a_sum_a_mean_or_the_change_itself():
    assert merged([1e-6] * 3, [1.0, 2.0, 3.0], True) == pytest.approx(6.0, rel=1e-5)
    assert merged([50.0] * 3, [1.0, 2.0, 3.0], True) == pytest.approx(2.0, rel=1e-6)
    assert merged([2.0, 0.0, 0.0], [1.5, 0.0, 0.0], False) == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("n_shards", [2, 4, 8, 64])
def test_the_coupling_is_the_least_that_keeps_merges_from_going_too_far(n_shards):
    a = np.geomspace(1e-5, 40, 3000)

    def furthest(coupling):
        ways = -np.expm1(-50 / coupling * a) * -np.expm1(-n_shards * a) / -np.expm1(-a)
        return ways.max()

    found = _core.coupling_of(n_shards, 50.0, FURTHEST)
    assert 1 <= found <= 50
    assert furthest(found) <= FURTHEST * 1.001
    assert found == 1 or furthest(found * 0.98) > FURTHEST


def shards_of(X, labels, n):
    cuts = [X.shape[0] * at // n for at in range(n + 1)]
    return [Shard(X[a:b], labels[a:b], None, at, a) for at, (a, b) in enumerate(itertools.pairwise(cuts))]


@pytest.mark.parametrize("n_shards", [2, 4])
def test_several_shards_reach_the_certified_optimum_of_bibtex(n_shards):
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    data = load_multiclass("bibtex", n_jobs=1)
    X, alpha = sp.csr_array(data.X_train), 1e-3
    labels = np.unique(data.y_train, return_inverse=True)[1].astype(np.int32)
    best = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-4), alpha=alpha, max_iter=2000).fit(X, labels)
    certificate = best.certificate(X, labels)
    assert certificate["gap"] < 1e-3
    local = SoftmaxClassifier(
        solver=solvers.Implicit(decay=0.8, averaging="none"),
        alpha=alpha,
        learning_rate=2.0,
        max_iter=20,
        random_state=0,
    )
    plan = plan_of(local, X, labels, int(labels.max()) + 1)
    shards = shards_of(X, labels, n_shards)
    whole = Whole(np.bincount(labels).astype(float), n_shards, X.shape[1], X.shape[0], True)
    weights, _ = simulate(replace(plan, verbose=0), whole, shards)
    losses, _ = weights.log_losses(X, labels, 1)
    found = losses.mean() + alpha / 2 * float(np.sum(weights.coef.astype(float) ** 2))
    assert certificate["dual"] < found < certificate["primal"] + 0.01  # nats
