"""Each member that sees all classes: the mean of its steps by single rows is the gradient of its loss, times the step.

Those that draw classes are in `test_objectives.py`, by all draws.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, _core, models
from manyclass.training import members, train
from manyclass.training.core_training import Watch
from manyclass.training.members import fit_members
from manyclass.training.minibatches import begin_on_pairs, start_at_rows
from manyclass.training.plan import BatchesPlan, Labels, PairsPlan
from manyclass.training.state import EarlierModel, Points, Squares
from manyclass.weights.weights import Weights

N, D, K = 60, 5, 4
LARGE = 1e6  # an Adagrad sum beside which the squares of a step are small, so that all steps are alike


def plans_of_members(seed, several):
    """The plans of the members that a fit has, but for embeddings."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.random((N, D)) + 0.1, dtype=np.float32)
    labels = rng.integers(0, K, N)
    y = np.eye(K, dtype=int)[labels] | np.eye(K, dtype=int)[(labels + 1) % K] if several else labels
    plans = {}

    def spy(plan, points, watch):
        plans.update(plan.members)
        return fit_members(plan, points, watch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "fit_members", spy)
        SoftmaxClassifier(model=models.Hybrid(), n_models=1, random_state=seed).fit(X, y)
    return {name: plan for name, plan in plans.items() if not name.startswith("embeddings")}


def step(plan, x, labels, W, b):
    """How a row moves weights W and intercepts b, over the step size."""
    # Adagrad's step is over the root of a large sum; plain and implicit ones are made with a small step size.
    is_adagrad = isinstance(plan, PairsPlan) or (isinstance(plan, BatchesPlan) and plan.adagrad)
    rate, factor = (1.0, LARGE**0.5) if is_adagrad else (1e-3, 1e3)
    schedule = replace(plan.schedule, learning_rate=rate, u_learning_rate=rate)
    plan = replace(plan, max_iter=1, schedule=schedule, alpha=0.0, batch_size=None)
    x = sp.csr_array(x[np.newaxis])
    points = Points.numbered(x, labels, K)
    if isinstance(plan, PairsPlan):
        everywhere = Labels(np.arange(K + 1), np.arange(K, dtype=np.int32))
        rows = Points.numbered(sp.csr_array(np.repeat(x.toarray(), K, axis=0)), everywhere, K)
        weights, squares = begin_on_pairs(replace(plan, min_count=1), rows)
        earlier = EarlierModel(weights, np.ones(K), N, squares=squares)
        weights.values[:], weights.bias[:] = W.T.ravel(), b
        plan = replace(plan, rounding=0.0)
        squares.values[:], squares.intercept[:] = LARGE, LARGE
        trained = members.fit_pairs(plan, points, Watch(), earlier)
        return factor * (trained.weights.values.reshape(D, K).T - W), factor * (trained.weights.bias - b)
    if isinstance(plan, BatchesPlan):
        weights = start_at_rows(plan, points)
        weights.class_rows[:, :D], weights.intercept[:] = W, b
        squares = Squares.of_rows(weights, plan.adagrad)
        if plan.adagrad:
            squares.classes[:] = LARGE
        trained = members.fit_batches(plan, points, Watch(), EarlierModel(weights, np.ones(K), N, squares=squares))
    else:
        plan = replace(plan, averaging="none")
        trained = members.fit_points(plan, points, Watch(), None, Weights.linear(W.copy(), b.copy(), by_feature=False))
    return factor * (trained.weights.coef - W), factor * (trained.weights.intercept - b)


@pytest.mark.parametrize("several", [False, True])
def test_steps_of_members_are_the_gradients_of_their_losses(several, seed):
    rng = np.random.default_rng(seed)
    plans = plans_of_members(seed, several)
    assert list(plans) == ["pairs", "margins"] + ["linear"] * (not several)
    W, b = (rng.normal(size=size).astype(np.float32) for size in ((K, D), K))
    x = rng.random(D).astype(np.float32) + 0.1
    labels = Labels(np.array([0, 1 + several]), np.arange(1 + several, dtype=np.int32))
    for name, plan in plans.items():
        of_core = {"loss": getattr(plan, "loss", "cross_entropy"), "smoothing": getattr(plan, "smoothing", 0.0)}

        def loss(z, of_core=of_core):
            return _core.losses(z[np.newaxis].astype(np.float32), labels.indptr, labels.ids, **of_core)[0][0]

        z = W @ x + b
        slopes = np.array([(loss(z + 0.01 * e) - loss(z - 0.01 * e)) / 0.02 for e in np.eye(K)])
        assert np.abs(slopes).max() > 0.1
        of_weights, of_intercepts = step(plan, x, labels, W, b)
        np.testing.assert_allclose(of_weights, -np.outer(slopes, x), atol=5e-3, err_msg=name)
        assert np.all(of_intercepts * slopes <= 1e-4), name
