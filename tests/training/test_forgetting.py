"""half_life of partial_fit: what fades by how much, and the optimum that a model follows, found by a slow twin."""

import copy

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from test_epoch import small_problem

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, solvers
from manyclass.training import incremental

OF_ONE = 10.0  # what says that intercepts have a slope of 1, as in the core's train/common/continuing.cpp

N_ROWS, N_PARTS, N_FIRST, N_CLASSES, N_FEATURES = 300, 20, 6, 8, 4


def drifting(seed, angle=0.1):
    """Parts of a stream whose weights rotate."""
    rng = np.random.default_rng(seed)
    W, V = 2 * rng.normal(size=(2, N_CLASSES, N_FEATURES))
    for part in range(N_PARTS):
        A = np.cos(angle * part) * W + np.sin(angle * part) * V
        X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
        yield X, (X @ A.T + rng.gumbel(size=(N_ROWS, N_CLASSES))).argmax(axis=1)


def weighted_loss(theta, X, y, r):
    """The weighted mean log-loss at (W, b), and its gradient."""
    theta = theta.reshape(N_CLASSES, N_FEATURES + 1)
    z = X @ theta[:, :-1].T + theta[:, -1]
    gradient = softmax(z, axis=1)
    gradient[np.arange(len(y)), y] -= 1
    gradient *= r[:, np.newaxis] / r.sum()
    loss = -r @ log_softmax(z, axis=1)[np.arange(len(y)), y] / r.sum()
    return loss, np.column_stack([gradient.T @ X, gradient.sum(axis=0)]).ravel()


@pytest.mark.parametrize("half_life", [300.0, 600.0])
def test_the_optimum_of_the_exponentially_weighted_loss_is_followed(half_life, seed):
    parts = list(drifting(seed))
    models = {"forgets": half_life, "keeps": None}
    first = np.vstack([X for X, _ in parts[:N_FIRST]]), np.concatenate([y for _, y in parts[:N_FIRST]])
    for name, h in models.items():
        model = SoftmaxClassifier(solver="implicit", random_state=0).fit(*first)
        for X, y in parts[N_FIRST:]:
            model.partial_fit(X, y, half_life=h)
        models[name] = model
    # Weights by the definition: rows of a call count 1, and each row that came after them halves them by 1/h.
    r = np.repeat(2.0 ** (-N_ROWS * np.arange(N_PARTS)[::-1] / half_life), N_ROWS)
    X, y = np.vstack([X for X, _ in parts]).astype(float), np.concatenate([y for _, y in parts])
    start = np.zeros(N_CLASSES * (N_FEATURES + 1))
    best = minimize(weighted_loss, start, (X, y, r), jac=True, method="L-BFGS-B").fun
    excess = {
        name: weighted_loss(np.column_stack([model.coef_, model.intercept_]).ravel(), X, y, r)[0] - best
        for name, model in models.items()
    }
    # The ratio is .013 to .13 for seeds 0 to 4: one visit a row is not the optimum, but far from standing still.
    assert 0 <= excess["forgets"] < 0.3 * excess["keeps"]


def test_an_intercept_forgets_half_in_a_half_life(seed):
    """The step size against its derivation: rows without features, and one intercept that is wrong."""
    n_classes, half_life, n_rows = 8, 4000, 8000
    rng = np.random.default_rng(seed)
    X, y = np.zeros((n_rows, 1), dtype=np.float32), rng.permutation(np.arange(n_rows) % n_classes)
    solver = solvers.Exact(decay=0.1)  # falls to nothing, so that the step size is that of the half-life
    model = SoftmaxClassifier(solver=solver, max_iter=12, learning_rate=0.2, random_state=0).fit(X, y)
    model.intercept_[:] = 0
    model.intercept_[0] = 1
    for first in range(0, half_life, 500):
        model.partial_fit(X[first : first + 500], y[first : first + 500], half_life=half_life)
    left = model.intercept_[0] - model.intercept_[1:].mean()
    # A step of size s = K log 2 / (g h) = .0016 leaves noise of standard deviation sqrt(s / 2) = .03; the curvature of
    # the wrong intercept, .2 at first, is above the mean, g / K = .11, so that more than half is forgotten.
    assert 0.25 < left < 0.6


# What fades


def test_counts_fade_and_new_rows_count_one(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(X, y)
    before = model.class_count_
    model.partial_fit(X[:40], y[:40] + 1, half_life=20)
    expected = np.append(before / 4, 0) + np.bincount(y[:40] + 1, minlength=22)
    np.testing.assert_allclose(model.class_count_, expected, rtol=1e-12)


def test_intercepts_of_new_classes_are_those_of_faded_counts(seed):
    X, y = small_problem(seed)
    y = y % 20
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(X, y)
    logs, old = np.log(model.class_count_ / 2), model.intercept_.astype(np.float64)
    away = logs - logs.mean()
    slope = np.clip((away @ (old - old.mean()) + OF_ONE) / (away @ away + OF_ONE), 0, 1)
    model.partial_fit(X[:10], np.full(10, 20), half_life=10, learning_rate=1e-12)
    expected = old.mean() + slope * (np.log(10) - logs.mean())
    np.testing.assert_allclose(model.intercept_[20], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "several"),
    [
        (SoftmaxClassifier(model="embedding", dim=4, max_iter=2, random_state=0), False),
        (SoftmaxClassifier(model="hybrid", dim=4, max_iter=2, random_state=0), True),
        (SoftmaxClassifier(model="pairs", max_iter=2, random_state=0), True),
        (MarginClassifier(max_iter=2, random_state=0), False),
    ],
    ids=str,
)
def test_sums_of_squares_fade(model, several, seed):
    X, y = small_problem(seed)
    Y = np.eye(21, dtype=int)[y] if several else y
    model.fit(X, Y)
    kept = copy.deepcopy(model).partial_fit(X[:30], Y[:30], learning_rate=1e-9)
    faded = copy.deepcopy(model).partial_fit(X[:30], Y[:30], learning_rate=1e-9, half_life=15)

    def of_classes(model):
        squares = model._fitted.squares
        return squares.classes if squares.classes.size else squares.values

    # Both have added the squared gradients of the same rows at nearly the same weights: those of a hybrid's embeddings
    # move by steps of their own, which differ.
    before = of_classes(model)
    added = of_classes(kept) - before
    np.testing.assert_allclose(of_classes(faded), before / 4 + added, rtol=0.1, atol=1e-3 * before.max())


def test_a_half_life_without_end_changes_nothing(seed):
    X, y = small_problem(seed)
    for model in (
        SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(X, y),
        SoftmaxClassifier(model="embedding", dim=4, max_iter=2, random_state=0).fit(X, y),
        AugmentReduceClassifier(max_iter=2, random_state=0).fit(X, y),
    ):
        same = copy.deepcopy(model).partial_fit(X[:50], y[:50])
        model.partial_fit(X[:50], y[:50], half_life=1e300)
        np.testing.assert_array_equal(model.coef_, same.coef_)
        np.testing.assert_array_equal(model.intercept_, same.intercept_)
        np.testing.assert_array_equal(model.class_count_, same.class_count_)


@pytest.mark.parametrize("model", [SoftmaxClassifier(solver="implicit"), SoftmaxClassifier(model="embedding", dim=4)])
def test_a_file_knows_what_old_rows_count(model, tmp_path, seed):
    X, y = small_problem(seed)
    model.set_params(max_iter=2, random_state=0).fit(X, y).partial_fit(X[:50], y[:50], half_life=30)
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m").partial_fit(X, y, half_life=30)
    np.testing.assert_array_equal(loaded.coef_, model.partial_fit(X, y, half_life=30).coef_)
    np.testing.assert_array_equal(loaded.class_count_, model.class_count_)


def test_a_step_size_that_is_given_is_used_as_it_is(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", sampler="uniform", max_iter=2, random_state=0).fit(X, y)
    same = copy.deepcopy(model).partial_fit(X, y, learning_rate=0.01)
    model.partial_fit(X, y, learning_rate=0.01, half_life=10)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    assert model.class_count_.sum() < same.class_count_.sum()


def test_a_half_life_must_be_a_number_above_0(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", max_iter=1, random_state=0).fit(X, y)
    coef = model.coef_.copy()
    for value, told in ((0, "half_life is 0; it must be finite, more than 0"), (-1.0, "half_life is -1.0")):
        with pytest.raises(ValueError, match=told):
            model.partial_fit(X, y, half_life=value)
    with pytest.raises(TypeError, match="half_life is '10'; it must be a number"):
        model.partial_fit(X, y, half_life="10")
    np.testing.assert_array_equal(model.coef_, coef)


def test_mean_curvatures_are_those_of_the_probabilities(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", max_iter=3, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    found = incremental.mean_curvatures(model._weights, X, 1)
    np.testing.assert_allclose(found, np.mean(p * (1 - p), axis=0), rtol=1e-5)  # scores are floats
    found = float(found.sum())
    assert incremental.step_that_remembers(1000, 21, found) == pytest.approx(21 * np.log(2) / (found * 1000))
