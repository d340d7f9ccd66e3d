"""The implicit step of a batch (Fagan & Iyengar 2018, F.3) and training by it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import core_plan
from reference.epoch import seed_of
from reference.flat import softmax
from reference.minibatch import (
    Batch,
    random_visit_weights,
    random_visits,
    split_points,
    step_in_span,
    subsets_of,
    train,
    visit_weights,
)
from reference.problems import as_storage, log_loss, maximum_likelihood, planted
from sklearn.exceptions import ConvergenceWarning
from testing_core import pieces

from manyclass import SoftmaxClassifier, solvers


def minibatch(**parameters):
    return softmax(**{"solver": "minibatch_implicit", "random_state": 3} | parameters)


def core_step(batch, u, W, b):
    """(u, W, b) in one vector after the core's step, and its Outcome."""
    shrinks = 1 / (1 + batch.eta * batch.ridge)
    c, t, new_u, loss, moved, error = pieces.minibatch_prox(
        gram=batch.x @ batch.x.T,
        scores=np.ascontiguousarray(shrinks[:, np.newaxis] * (W @ batch.x.T) + b[:, np.newaxis]),
        shrinks=shrinks,
        log_weights=np.log(batch.weights),
        labels=batch.y.astype(np.uint64),
        has_intercept=batch.has_intercept,
        share=batch.share,
        eta=batch.eta,
        eta_u=batch.eta_u,
        u=u,
    )
    W = shrinks[:, np.newaxis] * W + c @ batch.x
    return np.concatenate([new_u, W.ravel(), b + t]), (loss, moved, error)


def random_batch(rng, kind, eta, eta_u, alpha, has_intercept, spread=2.0):
    """A batch of 5 points, 7 classes, 6 features, and where it starts."""
    x = rng.normal(size=(5, 6))
    if kind == "repeated rows":
        x[[2, 4]] = x[0]
    elif kind == "rank two":
        x = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 6))
    elif kind == "empty rows":
        x[[1, 3]] = 0
    elif kind == "all rows empty":
        x[:] = 0
    y = np.array([0, 1, 0, 2, 2] if kind != "one label" else [0] * 5)
    n_labels = len(set(y))
    weights = np.array([1.0] * n_labels + [12.5] * (7 - n_labels))
    ridge = alpha * rng.uniform(1, 9, size=7)
    batch = Batch(x, y, weights, ridge, 0.2, has_intercept, eta, eta_u)
    return batch, rng.uniform(0, 5, size=5), spread * rng.normal(size=(7, 6)), rng.normal(size=7)


KINDS = ["plain", "repeated rows", "rank two", "empty rows", "all rows empty", "one label"]


@pytest.mark.parametrize("has_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize("alpha", [0.0, 0.03])
@pytest.mark.parametrize("eta", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_step_is_the_minimiser_over_all_variables(kind, eta, alpha, has_intercept, seed):
    rng = np.random.default_rng(seed)
    batch, u, W, b = random_batch(rng, kind, eta, 0.5 * eta, alpha, has_intercept)
    old = np.concatenate([u, W.ravel(), b])
    new, (_, _, error) = core_step(batch, u, W, b)
    # The core bounds its distance in the norm |w|^2 / s + b^2, which is no less than the plain one, by 2^-25 of the
    # move; the gradient of the full objective proves it here, |old - new| being 1 / s_k of it at most, and a sum of
    # terms of the size of old / eta rounds.
    assert error <= 2.0**-25
    size = np.linalg.norm(new - old) + np.linalg.norm(old)
    bound = 2.0**-22 * (1 + eta * batch.ridge.max()) * size
    assert batch.distance_bound(new, old) < bound


@pytest.mark.parametrize("eta", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("kind", KINDS)
def test_scipy_finds_the_same_minimiser(kind, eta, seed):
    batch, u, W, b = random_batch(np.random.default_rng(seed), kind, eta, eta, 0.02, has_intercept=True, spread=0.5)
    old = np.concatenate([u, W.ravel(), b])
    found = batch.step(old)
    new, _ = core_step(batch, u, W, b)
    # scipy's own distance from the minimiser, as its gradient proves, and the core's.
    atol = batch.distance_bound(found, old) + 2.0**-24 * np.linalg.norm(new - old)
    assert atol < 1e-4
    np.testing.assert_allclose(new, found, rtol=0, atol=atol)


@pytest.mark.parametrize("eta", [0.01, 1.0, 1000.0])
def test_one_point_and_one_negative_make_the_step_of_a_point(eta, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        x, (z_y, z_k), u = rng.normal(size=(1, 4)), rng.normal(size=2).astype(np.float32).astype(float) * 4, 2.5
        p, label_move, new_u, _, loss, _ = pieces.step(
            plan=core_plan(solver="implicit"),
            scores=np.array([z_k], dtype=np.float32), alpha=np.array([19.0], dtype=np.float32),
            label_score=z_y, x_sq=float(x[0] @ x[0]) + 1, eta=eta, eta_u=0.7 * eta, u=u,
        )  # fmt: skip
        c, t, mini_u, mini_loss, _, _ = pieces.minibatch_prox(
            gram=x @ x.T, scores=np.array([[z_y], [z_k]]), shrinks=np.ones(2), log_weights=np.log([1.0, 19.0]),
            labels=np.zeros(1, dtype=np.uint64), has_intercept=True, share=1.0, eta=eta, eta_u=0.7 * eta,
            u=np.array([u]),
        )  # fmt: skip
        # The step of a point works in single precision, on scores up to about 10.
        np.testing.assert_allclose(c.ravel(), [label_move, -p[0]], rtol=1e-5)
        np.testing.assert_allclose(t, c.ravel(), rtol=1e-5)
        assert mini_u[0] == pytest.approx(new_u, rel=1e-5, abs=1e-5)
        assert mini_loss == pytest.approx(loss, rel=1e-5, abs=1e-5)


def an_objective(seed, alpha):
    """X, y, W, b, u of 7 points and 5 classes, and the double sum there with its ridge."""
    rng = np.random.default_rng(seed)
    X, W, b, u = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.normal(size=5), rng.uniform(0, 3, size=7)
    y = np.array([0, 1, 2, 2, 0, 3, 4])
    z = X @ W.T + b
    d = np.exp(z - z[np.arange(7), y][:, np.newaxis]).sum(axis=1)
    return X, y, W, b, u, np.mean(u + np.exp(-u) * d) + alpha / 2 * np.sum(W**2)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 2), (7, 2), (3, 5)])
def test_the_mean_over_random_points_and_classes_is_the_objective(n, m, seed):
    X, y, W, b, u, expected = an_objective(seed, alpha=0.3)
    weights = random_visit_weights(y, 5, n, m)
    visits = list(random_visits(y, 5, n, m))
    mean = 0.0
    for points, classes, a in visits:
        place = np.array([classes.index(k) for k in y[points]])
        batch = Batch(X[points], place, a, 0.3 * weights[classes], 1 / n)
        value, _ = batch.f(np.concatenate([u[points], W[classes].ravel(), b[classes]]))
        mean += value / len(visits)
    assert mean == pytest.approx(expected, rel=1e-12)
    # The closed form: a class is left out where it is not drawn, and none of its points is.
    for k in range(5):
        none = np.prod([(7 - np.sum(y == k) - t) / (7 - t) for t in range(n)])
        assert weights[k] == pytest.approx(1 / (1 - (1 - m / 5) * max(none, 0)), rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (7, 2), (3, 5)])
def test_the_mean_over_batches_and_classes_is_the_objective(n, m, seed):
    n_classes, alpha = 5, 0.3
    X, y, W, b, u, expected = an_objective(seed, alpha)
    batches = split_points(7, n, seed)
    weights = visit_weights(batches, y, n_classes, m)
    mean = 0.0
    for points in batches:
        subsets = list(subsets_of(points, y, n_classes, m))
        for classes, a in subsets:
            place = np.array([classes.index(k) for k in y[points]])
            batch = Batch(X[points], place, a, alpha * weights[classes], len(batches) / 7)
            value, _ = batch.f(np.concatenate([u[points], W[classes].ravel(), b[classes]]))
            mean += value / len(subsets) / len(batches)
    assert mean == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffle", "in_order"])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize(("storage", "alpha"), [("sparse", 0.0), ("sparse", 0.05), ("dense", 0.05)])
def test_fit_equals_its_twin(storage, alpha, fit_intercept, shuffle, seed):
    X, y = planted(np.random.default_rng(seed), 14, 6, 8, density=0.6, scale=3)
    X[3] = 0
    X[5] = X[6]
    model = minibatch(
        batch_size=4, n_negatives=2, alpha=alpha, learning_rate=6.0, u_learning_rate=4.0, schedule="constant",
        max_iter=2, fit_intercept=fit_intercept, shuffle=shuffle,
    ).fit(as_storage(X, storage), y)  # fmt: skip
    core_seed = seed_of(3)
    W, b = train(
        X.astype(np.float64), y, 8, seed=core_seed if shuffle else None, class_seed=core_seed, n=4, m=2, eta=6.0,
        eta_u=4.0, alpha=alpha, has_intercept=fit_intercept, passes=2,
    )  # fmt: skip
    assert np.abs(W).max() > 0.1
    # scipy is off by less than 1e-5 in each of 8 visits (asserted there), and rounding by far less.
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("n", "m"), [(3, 2), (4, 5), (10, 8)])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize(("storage", "alpha"), [("sparse", 0.0), ("sparse", 0.05), ("dense", 0.05)])
def test_a_fit_with_a_random_partition_equals_its_twin(storage, alpha, fit_intercept, n, m, seed):
    X, y = planted(np.random.default_rng(seed), 10, 6, 8, density=0.6, scale=3)
    X[3] = 0
    model = minibatch(
        batch_size=n, n_negatives=m, alpha=alpha, learning_rate=6.0, u_learning_rate=4.0, schedule="constant",
        max_iter=2, fit_intercept=fit_intercept, partition="random",
    ).fit(as_storage(X, storage), y)  # fmt: skip
    core_seed = seed_of(3)
    W, b = train(
        X.astype(np.float64), y, 8, seed=core_seed, class_seed=core_seed, n=n, m=m, eta=6.0, eta_u=4.0, alpha=alpha,
        has_intercept=fit_intercept, passes=2, partition="random",
    )  # fmt: skip
    assert np.abs(W).max() > 0.1
    # As with a fixed partition: scipy is off by less than 1e-5 in each of at most 8 visits.
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("n", [3, 5, 10, 40])
def test_the_running_loss_of_a_random_partition_is_a_mean_over_points(n):
    # 10 points, so that the last visit of 3 counts one of its own; all classes and no step to speak of: log K for each.
    X, y = planted(np.random.default_rng(0), 10, 6, 8)
    model = minibatch(
        batch_size=n, n_negatives=8, learning_rate=1e-12, u_learning_rate=1e-12, max_iter=1, partition="random"
    )
    assert model.fit(X, y).loss_curve_ == pytest.approx([np.log(8)], rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_with_two_classes_batches_of_one_train_as_single_points(alpha, seed):
    X, y = planted(np.random.default_rng(seed), 40, 5, 2, scale=3)
    fits = [
        softmax(
            solver=solver, batch_size=1, learning_rate=2.0, alpha=alpha, shuffle=False, max_iter=3, random_state=0,
            selection="uniform", n_negatives=1, u_learning_rate="tied",
        ).fit(X, y)
        for solver in ("implicit", "minibatch_implicit")
    ]  # fmt: skip
    # 120 visits, each with single-precision steps on one side.
    atol = 120 * 8 * 2.0**-23 * np.abs(fits[0].coef_).max()
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(fits[1].loss_curve_, fits[0].loss_curve_, rtol=0, atol=10 * atol)


@pytest.mark.parametrize("partition", ["fixed", "random"])
def test_training_reaches_the_maximum_of_the_likelihood(partition, seed):
    X, y = planted(np.random.default_rng(seed), 800, 4, 12, scale=3)
    best = maximum_likelihood(X, y, 12)
    model = minibatch(
        n_negatives=4, learning_rate=20.0, u_learning_rate=10.0, decay=0.92, max_iter=80, partition=partition
    ).fit(X, y)
    gap = log_loss(X, y, model.coef_, model.intercept_) - best
    assert -1e-5 < gap < 0.01 * np.log(12)
    assert model.loss_curve_[-1] < model.loss_curve_[0]


# Steps beyond reason fit each batch as if there were no other: the loss of the next one may then say that training
# diverged, or a move of more than 10^9 nats is not made.
@pytest.mark.filterwarnings("ignore:training diverged")
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("learning_rate", [1e4, 1e8, 1e15, 1e30, 1e300])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_a_huge_step_leaves_finite_weights(learning_rate, storage, alpha, seed):
    X, y = planted(np.random.default_rng(seed), 60, 6, 9, density=0.5, scale=3)
    model = minibatch(
        learning_rate=learning_rate, n_negatives=3, alpha=alpha, batch_size=7, schedule="constant", max_iter=2
    )
    model.fit(as_storage(X, storage), y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(model.loss_curve_).all()


@pytest.mark.filterwarnings("ignore:training diverged. the exact loss")  # it learns nothing, either
def test_a_rate_at_which_explicit_steps_run_away_is_borne(seed):
    X, y = planted(np.random.default_rng(seed), 200, 6, 9, scale=3)
    large = {"learning_rate": 1e3, "n_negatives": 3, "max_iter": 10, "batch_size": 10}
    with pytest.warns(ConvergenceWarning, match="training diverged"):
        softmax(solver="sgd", random_state=3, **large).fit(X, y)
    model = minibatch(alpha=1e-2, **large).fit(X, y)
    assert model.n_iter_ > 0  # that of the best look, where all steps end above W = 0
    assert model.evaluate(X, y)["log_loss"] < 2 * np.log(9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_bound_holds_up_to_steps_of_ten_to_the_eight(kind, seed):
    rng = np.random.default_rng(seed)
    for eta in (1e-6, 1e4, 1e8):
        batch, u, W, b = random_batch(rng, kind, eta, eta, 0.01, has_intercept=True)
        assert core_step(batch, u, W, b)[1][2] <= 2.0**-25


def test_only_features_of_a_batch_and_classes_it_touches_move():
    X = np.eye(6, 9, dtype=np.float32)
    y = np.arange(6)
    seen = []
    minibatch(batch_size=2, n_negatives=1, max_iter=1, shuffle=False, alpha=0.1).fit(
        sp.csr_array(X), y, callback=lambda state: seen.append(state.class_updates)
    )
    assert seen == [9]  # three batches of two labels and a drawn class
    W = minibatch(batch_size=2, n_negatives=1, max_iter=1, shuffle=False, alpha=0.1).fit(sp.csr_array(X), y).coef_
    assert not W[:, 6:].any()  # features that no point has
    assert (np.count_nonzero(W, axis=0)[:6] == 3).all()


def test_what_it_does_not_make_is_refused():
    X, y = np.eye(4, dtype=np.float32), np.arange(4)
    for parameters in ({"max_norm": 1.0}, {"parallel": "hogwild"}):
        with pytest.raises(TypeError, match=f"MinibatchImplicit has no parameter '{next(iter(parameters))}'; it has"):
            solvers.MinibatchImplicit(**parameters)
    with pytest.raises(ValueError, match="shuffle is False, which has no effect with partition='random'"):
        minibatch(partition="random", shuffle=False).fit(X, y)
    with pytest.raises(ValueError, match="partition is 'some'; it must be one of 'fixed', 'random'"):
        minibatch(partition="some").fit(X, y)
    with pytest.raises(ValueError, match="schedule='adaptive' needs a solver with explicit steps"):
        minibatch(schedule="adaptive").fit(X, y)
    with pytest.raises(ValueError, match="sampler is 'block'; solver 'minibatch_implicit' needs 'uniform'"):
        SoftmaxClassifier(solver="minibatch_implicit", sampler="block").fit(X, y)


def test_the_result_depends_on_the_seed_alone_and_classes_may_run_out(seed):
    X, y = planted(np.random.default_rng(seed), 30, 5, 4)
    # Batches of all points leave no other class to draw.
    fits = [minibatch(batch_size=n, max_iter=2, n_jobs=j).fit(X, y) for n, j in ((30, 1), (30, 2), (8, 1), (8, 2))]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert np.array_equal(fits[2].coef_, fits[3].coef_)
    assert np.isfinite(fits[0].coef_).all()


def batch_of(rng, n, m, d):
    """A batch of unit rows with labels of their own, m classes beside them, and where it starts."""
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = np.array([1.0] * n + [20.0] * m)
    batch = Batch(x, np.arange(n), weights, np.zeros(n + m), 0.2, False, 2.0, 2.0)
    return batch, np.concatenate([rng.uniform(0, 5, n), rng.normal(size=(n + m) * d), np.zeros(n + m)])


@pytest.mark.parametrize(("n", "m", "d"), [(4, 4, 30), (4, 4, 60), (8, 4, 30), (8, 16, 30), (16, 16, 100)])
def test_operations_of_a_step_of_a_batch_are_those_of_proposition_3(n, m, d, seed):
    """O(n (n + m) (D + n log 1/eps)), by the counters of a first-order method in the span of the points (F.3).

    The core's step gets the Gram matrix and the scores, whose products these are, and nothing else that is D long.
    """
    batch, old = batch_of(np.random.default_rng(seed), n, m, d)
    u, W, b = batch.split(old)
    scores = np.ascontiguousarray(W @ batch.x.T + b[:, np.newaxis])
    answer, *_ = pieces.minibatch_prox(
        gram=batch.x @ batch.x.T, scores=scores, shrinks=np.ones(n + m), log_weights=np.log(batch.weights),
        labels=batch.y.astype(np.uint64), has_intercept=False, share=batch.share, eta=batch.eta, eta_u=batch.eta_u, u=u,
    )  # fmt: skip
    decades = [10.0**-power for power in range(1, 7)]  # the core's own error is 2^-25, 3e-8
    counted, reached = step_in_span(batch, old, decades, answer)
    assert counted.counts["features"] == n * (n + 2 * (n + m)) * d
    assert counted.counts["span"] == counted.gradients * n * n * (n + m)
    # Each decade costs as many gradients as the one before, of linear convergence: hence the log of 1 / eps.
    more = np.diff(reached)
    assert more.max() <= 2 * more.min() + 2
    # The constant is one for all n, m and D: of seeds 0 to 99 the most gradients are 6.0 log2(1 / eps).
    assert counted.gradients <= 8 * np.log2(1e6)
    assert sum(counted.counts.values()) <= 8 * n * (n + m) * (d + n * np.log2(1e6))
