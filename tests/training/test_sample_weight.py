"""Weights of points in every training: weight 2 is the row twice, weight 0 the row left out, and fits equal twins.

What is equal depends on the training. A row of weight 0 is taken out before anything else, so that the rest trains as
if it had not been given, bit for bit. A row of weight 2 is another data set than the row twice, since draws are named
by points: there the expected move of a visit is equal, as all draws that can be made show, and so is the optimum.
"lbfgs", which draws nothing, gives the same model to rounding.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import augment_reduce as bound_twin
from reference import epoch as twin
from reference import minibatch as minibatch_twin
from reference.flat import softmax, utility
from reference.full_batch import objective
from reference.minibatch import Batch
from reference.problems import as_storage, planted
from reference.rng import every_outcome
from sklearn.base import clone
from test_epoch import ROUNDING_OF_A_VISIT, combinations, rate_of, small_problem
from test_label_training import LOSSES, SOURCES, largest_error, model_of, options_of, some_problem, twin_of

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core, models, samplers, solvers
from manyclass.registry import names


def some_weights(rng, n):
    """Weights whose largest is a few times their mean."""
    return rng.gamma(2.0, size=n) + 0.1


# Twins


def assert_weighted_fit_equals_twin(X, y, storage, sample_weight, **parameters):
    model = softmax(random_state=11, **parameters).fit(as_storage(X, storage), y, sample_weight)
    expected = twin.train(
        X.astype(np.float64), y, int(y.max()) + 1, random_state=11, sample_weight=sample_weight, **parameters
    )
    largest = np.abs(expected.coef).max()
    assert largest > 0.01
    # As in test_epoch.py, the largest visits being larger than others by the largest weight.
    visits = parameters["max_iter"] * len(y) * max(1.0, sample_weight.max() / sample_weight.mean())
    atol = visits * ROUNDING_OF_A_VISIT * largest
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, expected.intercept, rtol=0, atol=atol)
    score = 2 * np.sqrt(X.shape[1]) * atol + 2**-20
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve, rtol=0, atol=score)


def some_combinations():
    """Each fifth, and so some of each solver, which has as many selections; the others are for the long suite."""
    for n, combination in enumerate(combinations()):
        # Each combination of parts meets one of four storages and intercepts.
        short = n % 5 == 0 or combination[0] == "exact"
        yield pytest.param(*combination, n % 4, marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("solver", "formulation", "selection", "options"), list(some_combinations()))
def test_a_weighted_fit_equals_its_twin(solver, formulation, selection, options, seed):
    X, y = small_problem(seed)
    rate = 0.5 * rate_of(solver)
    assert_weighted_fit_equals_twin(
        X,
        y,
        "sparse" if options & 1 else "dense",
        some_weights(np.random.default_rng(seed), len(y)),
        solver=solver,
        formulation=formulation,
        selection=selection,
        n_negatives=4,
        n_head=3,
        refresh=1,
        learning_rate=rate,
        u_learning_rate=0.7 * rate,
        fit_intercept=bool(options & 2),
        decay=0.8,
        max_iter=2,
    )


OPTIONS = {
    "ridge": {"solver": "implicit", "alpha": 0.05},
    "ridge, explicit": {"solver": "umax", "alpha": 0.05, "learning_rate": 0.1},
    "mean of a batch": {"solver": "implicit", "batch_size": 7, "alpha": 0.02},
    "classes of a batch": {"solver": "css", "batch_size": 7, "share_classes": True},
    "adaptive": {"solver": "css", "schedule": "adaptive", "learning_rate": 0.05},
    "adaptive, batches": {"solver": "exact", "schedule": "adaptive", "learning_rate": 0.05, "batch_size": 5},
    "projection": {"solver": "implicit", "max_norm": 0.7, "fit_intercept": False, "selection": "uniform"},
    "averaging": {"solver": "implicit", "averaging": "suffix"},
}


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_weighted_fit_equals_its_twin_whatever_the_options(options, storage, seed):
    X, y = small_problem(seed)
    parameters = {"n_negatives": 5, "learning_rate": 0.5, "max_iter": 2} | OPTIONS[options]
    if parameters["solver"] == "exact":
        del parameters["n_negatives"]
    assert_weighted_fit_equals_twin(X, y, storage, some_weights(np.random.default_rng(seed), len(y)), **parameters)


@pytest.mark.parametrize("partition", ["fixed", "random"])
def test_weighted_batches_of_minibatch_implicit_equal_their_twin(partition, seed):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 12, 6, 8, density=0.6, scale=3)
    X[3] = 0
    weights = some_weights(rng, 12)
    model = softmax(
        solver="minibatch_implicit", random_state=3, batch_size=4, n_negatives=2, alpha=0.05, learning_rate=6.0,
        u_learning_rate=4.0, schedule="constant", max_iter=2, partition=partition,
    ).fit(as_storage(X, "sparse"), y, weights)  # fmt: skip
    core_seed = twin.seed_of(3)
    W, b = minibatch_twin.train(
        X.astype(np.float64), y, 8, seed=core_seed, class_seed=core_seed, n=4, m=2, eta=6.0, eta_u=4.0, alpha=0.05,
        has_intercept=True, passes=2, partition=partition, sample_weight=weights,
    )  # fmt: skip
    # scipy is off by less than 1e-5 in each of 6 visits (asserted there).
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("solver", ["sgd", "implicit"])
@pytest.mark.parametrize(
    ("noise", "local_step"), [("normal", "natural"), ("logistic", "monte_carlo"), ("gumbel", "natural")]
)
def test_weighted_augment_and_reduce_equals_its_twin(noise, local_step, solver, seed):
    X, y = planted(np.random.default_rng(seed), 48, 12, 21, density=0.4, scale=3)
    weights = some_weights(np.random.default_rng(seed), 48)
    parameters = {
        "noise": noise,
        "local_step": local_step,
        "solver": solver,
        "selection": "block",
        "n_negatives": 6,
        "alpha": 0.02,
        "learning_rate": 0.05 if solver == "sgd" else 1.0,
        "max_iter": 2,
        "random_state": 1,
    } | ({} if noise == "gumbel" else {"local_family": "normal", "n_nodes": 3})
    if local_step == "monte_carlo":
        del parameters["n_nodes"]
    model = utility(**parameters).fit(X, y, weights)
    expected = bound_twin.train(X.astype(float), y, 21, sample_weight=weights, **{"n_nodes": 3} | parameters)
    atol = 2 * 48 * weights.max() / weights.mean() * ROUNDING_OF_A_VISIT * np.abs(expected.coef).max()
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(-model.elbo_curve_, expected.loss_curve, rtol=1e-4)  # as test_augment_reduce.py has it


MORE_SOURCES = {
    "implicit": ("margin", {"step": "implicit", "schedule": "inverse", "learning_rate": 2.0}),
    "plain": ("cross_entropy", {"schedule": "constant", "learning_rate": 0.1, "embedding_dim": 5}),
    "embeddings": ("cross_entropy", {"embedding_dim": 5, "search": "sampled", "n_negatives": 4}),
}


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        *[(loss, LOSSES[loss] | SOURCES[source]) for loss in LOSSES for source in ("exact", "the best", "a few drawn")],
        *MORE_SOURCES.values(),
    ],
)
def test_weighted_minibatches_equal_their_twin(loss, options, multilabel, seed):
    X, y, lists = some_problem(seed, multilabel=multilabel)
    weights = some_weights(np.random.default_rng(seed), len(X))
    model = model_of(loss, **options).fit(X, y, weights)
    expected = twin_of(options_of(loss, **options) | {"sample_weight": weights}, loss, X, lists, 13).train()
    atol = len(X) * expected.max_iter * weights.max() / weights.mean() * ROUNDING_OF_A_VISIT
    assert largest_error(model, expected) < atol
    np.testing.assert_allclose(model.loss_curve_, expected.curve, rtol=0, atol=32 * atol * np.abs(expected.W).max())


# By the definition


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("learning_rate", [0.3, 10.0])
def test_an_implicit_visit_is_the_minimiser_of_its_weighted_objective(learning_rate, alpha, seed):
    rng = np.random.default_rng(seed)
    X, y, weights = rng.normal(size=(3, 4)).astype(np.float32), np.array([1, 0, 2]), np.array([3.0, 0.25, 1.0])
    model = softmax(
        solver="implicit", selection="all", shuffle=False, max_iter=1, learning_rate=learning_rate, alpha=alpha,
        u_learning_rate=2.0, random_state=0,
    ).fit(X, y, weights)  # fmt: skip
    W, b = np.zeros((3, 4)), np.zeros(3)
    for i, r in enumerate(weights / weights.mean()):  # every visit touches all classes: b_k = 1
        x = X[i : i + 1].astype(np.float64)
        visit = Batch(
            x, y[i : i + 1], np.ones(3), np.full(3, alpha), 1.0, True, learning_rate, 2.0, of_points=np.array([r])
        )
        old = np.concatenate([[np.log(3)], W.ravel(), b])
        new = visit.step(old)
        # Of three single-precision visits, and of scipy.
        assert visit.distance_bound(new, old) < 1e-6
        _, W, b = visit.split(new)
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=3e-6 * np.abs(W).max() + 3e-6)
    np.testing.assert_allclose(model.intercept_, b, rtol=0, atol=3e-6 * np.abs(W).max() + 3e-6)


def expected_move(training, monkeypatch, eta, eta_u):
    """The mean over points and draws of how a visit moves (W, b), over eta: by walking through every outcome."""
    n = len(training.X)
    total_W, total_b = np.zeros_like(training.W), np.zeros_like(training.b)
    W, b, carried = training.W.copy(), training.b.copy(), training.carried.copy()
    for i in range(n):

        def visit(script, i=i):
            monkeypatch.setattr(twin, "Rng", lambda *_: script)
            training.W[:], training.b[:], training.carried[:] = W, b, carried
            move, _ = training.solve(i, i, 1, eta, eta_u)
            training.apply(move)
            return training.W - W, training.b - b

        for probability, (move_W, move_b) in every_outcome(visit):
            total_W += probability / n * move_W
            total_b += probability / n * move_b
    training.W[:], training.b[:], training.carried[:] = W, b, carried
    return np.column_stack([total_W, total_b]) / eta


@pytest.mark.parametrize("solver", names("solver", without="batch"))
def test_weight_two_is_the_row_twice_in_expectation(solver, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(4, 3)), np.array([0, 1, 2, 3])
    twice = np.array([0, 0, 1, 2, 3])  # a row of weight 2, or the row twice
    W, b, u = rng.normal(size=(4, 3)), rng.normal(size=4), rng.uniform(1, 3, size=4)
    selection = "all" if solver == "exact" else "uniform"
    common = {"solver": solver, "selection": selection, "n_negatives": 2, "alpha": 0.1, "random_state": 0}
    moves = []
    for rows, weights in ((np.arange(4), np.array([2.0, 1.0, 1.0, 1.0])), (twice, None)):
        training = twin.Training(X[rows], y[rows], 4, {**common, "sample_weight": weights})
        training.W[:], training.b[:] = W[np.argsort(training.position)], b[np.argsort(training.position)]
        training.carried[:] = u[rows]
        # eta -> 0: an implicit step, and the ridge's share of any, is its gradient but for a relative error of eta.
        moves.append(expected_move(training, monkeypatch, 1e-7, 0.7)[training.position])
    np.testing.assert_allclose(moves[0], moves[1], rtol=0, atol=1e-5 * np.abs(moves[1]).max())


@pytest.mark.parametrize("solver", ["implicit", "sgd", "bregman"])
def test_the_expected_move_is_the_gradient_of_the_weighted_objective(solver, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y, weights = rng.normal(size=(4, 3)), np.array([0, 1, 2, 3]), np.array([3.0, 0.5, 1.0, 2.0])
    options = {"solver": solver, "selection": "uniform", "n_negatives": 2, "alpha": 0.1, "random_state": 0}
    training = twin.Training(X, y, 4, {**options, "sample_weight": weights})
    training.W[:], training.b[:] = rng.normal(size=(4, 3)), rng.normal(size=4)
    u = training.carried[:] = rng.uniform(1, 3, size=4)
    z = X @ training.W.T + training.b
    at = np.arange(4), training.labels
    # sum_i w_i (u_i + e^-u_i sum_k e^(z_k - z_y)) / sum_i w_i + alpha/2 |W|^2
    g = np.exp(z - z[at][:, np.newaxis] - u[:, np.newaxis])
    g[at] = 0
    g[at] = -g.sum(axis=1)
    g *= (weights / weights.sum())[:, np.newaxis]
    slope = np.column_stack([g.T @ X + 0.1 * training.W, g.sum(axis=0)])
    moved = expected_move(training, monkeypatch, 1e-9, 1e-9)  # u, too, moves by little before the gradient is taken
    np.testing.assert_allclose(moved, -slope, rtol=0, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("loss", names("loss"))
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_the_full_gradient_is_that_of_the_weighted_objective(storage, loss, seed):
    X, y = planted(np.random.default_rng(seed), 40, 5, 6)
    weights = some_weights(np.random.default_rng(seed), 40)
    model = SoftmaxClassifier(solver=solvers.LBFGS(loss=loss, tol=1e-8), alpha=0.02, max_iter=2000)
    model.fit(as_storage(X, storage), y, weights)
    W, b = model.coef_.astype(float), model.intercept_.astype(float)
    best = objective(loss, X.astype(float), y, W, b, 0.02, weights)
    assert model.loss_curve_[-1] == pytest.approx(best, rel=1e-6)
    # A minimum: the objective has no slope in any of some directions, to the second order of their length.
    rng = np.random.default_rng(seed)
    for _ in range(5):
        dW, db = 1e-3 * rng.normal(size=W.shape), 1e-3 * rng.normal(size=b.shape)
        sides = [objective(loss, X.astype(float), y, W + s * dW, b + s * db, 0.02, weights) for s in (1, -1)]
        assert abs(sides[0] - sides[1]) < 1e-6
        assert min(sides) > best


# Equalities of fits

FITS = {
    **{f"solver {name}": softmax(solver=name, learning_rate=0.05, random_state=0) for name in names("solver")},
    "lbfgs": SoftmaxClassifier(solver="lbfgs", alpha=0.01, max_iter=500),
    "auto": SoftmaxClassifier(random_state=0),
    "grid": SoftmaxClassifier(solver="implicit", n_negatives=3, learning_rate="grid", max_iter=2, random_state=0),
    "early stopping": SoftmaxClassifier(solver="exact", early_stopping=True, random_state=0),
    "head and tail": SoftmaxClassifier(solver="implicit", sampler=samplers.HeadTail(n_head=2), n_negatives=2),
    "balanced": SoftmaxClassifier(solver="exact", class_weight="balanced", random_state=0),
    "adagrad": SoftmaxClassifier(solver="adagrad", random_state=0),
    "embedding": SoftmaxClassifier(model="embedding", dim=4, random_state=0),
    "pairs": SoftmaxClassifier(model="pairs", random_state=0),
    "hybrid": SoftmaxClassifier(model="hybrid", dim=4, random_state=0),
    "margin": MarginClassifier(random_state=0),
    "triplet": MarginClassifier(loss="triplet", sampler="uniform", n_negatives=3, random_state=0),
    "margin, search": MarginClassifier(sampler=samplers.Search(warm_up=1), random_state=0),
    "margin, implicit": MarginClassifier(solver="implicit", model=models.Linear(), random_state=0),
    "utility": AugmentReduceClassifier(random_state=0),
    "posterior": AugmentReduceClassifier(posterior="gaussian", alpha=0.01, random_state=0),
}
SEVERAL = ("adagrad", "embedding", "pairs", "hybrid", "margin", "triplet", "margin, search")


def fits_problem(seed, several):
    rng = np.random.default_rng(seed)
    X, y = planted(rng, 90, 5, 6)
    if several:
        y = np.eye(6, dtype=int)[y] | (rng.random((90, 6)) < 0.1)
    return X, y


def arrays_of(model):
    """What training has moved; of a hybrid its embeddings, which no scale has multiplied."""
    if model._weights.kind == "hybrid":
        return model.loss_curve_, model.embedding_
    coef = model.coef_
    return model.loss_curve_, coef.toarray() if sp.issparse(coef) else coef, model.intercept_


def same_models(one, other):
    return all(np.array_equal(a, b) for a, b in zip(arrays_of(one), arrays_of(other), strict=True))


def clones(name, n):
    return [clone(FITS[name]).set_params(random_state=0) for _ in range(n)]


@pytest.mark.filterwarnings("ignore:training diverged", "ignore:the best learning rate", "ignore:L-BFGS")
@pytest.mark.parametrize(("name", "several"), [*[(name, False) for name in FITS], *[(name, True) for name in SEVERAL]])
def test_weight_zero_is_the_row_left_out_bit_for_bit(name, several, seed):
    X, y = fits_problem(seed, several)
    weights = some_weights(np.random.default_rng(seed), len(X))
    out = np.random.default_rng(seed + 1).permutation(len(X))[:20]
    weights[out] = 0
    kept = np.flatnonzero(weights)
    zero, left_out, all_one, none = clones(name, 4)
    assert same_models(zero.fit(X, y, weights), left_out.fit(X[kept], y[kept], weights[kept]))
    # Equal weights are no weights, and weights have an effect.
    assert same_models(all_one.fit(X, y, np.full(len(X), 0.5)), none.fit(X, y)) or name == "posterior"
    weights[kept] = 1
    assert not same_models(zero, left_out.fit(X, y, weights))


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_for_lbfgs_weight_two_is_the_row_twice_to_rounding(storage, seed):
    X, y = planted(np.random.default_rng(seed), 60, 5, 6)
    weights = np.random.default_rng(seed).integers(0, 4, size=60)
    twice = np.repeat(np.arange(60), weights)
    fits = [
        SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-8), alpha=0.1, max_iter=2000).fit(as_storage(rows, storage), *of)
        for rows, of in ((X, (y, weights)), (X[twice], (y[twice],)))
    ]
    # The gradient is below 1e-8 in each entry, W hence within sqrt(36) 1e-8 / alpha; then W is rounded to float.
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=0, atol=2e-6)
    np.testing.assert_allclose(fits[0].loss_curve_[-1], fits[1].loss_curve_[-1], rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        softmax(solver="exact", learning_rate=2.0),
        softmax(solver="implicit", learning_rate=2.0, u_learning_rate=1.0, n_negatives=3),
        softmax(solver="implicit", formulation="raman", learning_rate=2.0, u_learning_rate=1.0, n_negatives=3),
        softmax(solver="bregman", learning_rate=1.0, n_negatives=3),
        softmax(solver="umax", learning_rate=0.3, u_learning_rate=1.0, n_negatives=3),
        softmax(solver="minibatch_implicit", learning_rate=10.0, u_learning_rate=5.0, n_negatives=3),
        AugmentReduceClassifier(noise="gumbel", n_negatives=3, solver=solvers.Implicit(decay=0.93)),
        softmax(solver="adagrad", batch_size=4),
    ],
    ids=lambda model: str(model.solver),
)
def test_training_ends_at_the_optimum_of_the_rows_as_often_as_they_weigh(model, seed):
    X, y = planted(np.random.default_rng(seed), 400, 4, 5, scale=2)
    weights = np.where(y < 2, 5, 1)  # two of the five classes, so that the optimum moves by a lot
    rows = np.repeat(np.arange(400), weights)
    alpha = 0.0 if getattr(model.solver, "name", "") == "adagrad" else 0.005
    best = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=1000).fit(X[rows], y[rows])
    model.set_params(max_iter=60, random_state=seed).set_params(**{} if alpha == 0 else {"alpha": alpha})
    if "decay" in model.solver.get_params():
        model.set_params(solver__decay=0.93)
    model.fit(X, y, weights)

    def value(fitted):
        W, b = fitted.coef_.astype(float), fitted.intercept_.astype(float)
        return objective("softmax", X[rows].astype(float), y[rows], W, b, alpha)

    unweighted = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=1000).fit(X, y)
    away = value(unweighted) - value(best)
    assert away > 0.05
    # What is left of the noise of single points: a tenth of what ignoring the weights would cost, at most.
    assert -1e-6 < value(model) - value(best) < 0.1 * away


def test_the_core_refuses_weights_of_another_length(seed):
    X, y = planted(np.random.default_rng(seed), 9, 3, 4)
    with pytest.raises(ValueError, match="sample_weight has 3 values; it must have 9"):
        _core.loss_and_gradient(
            loss="softmax", x=X, n_features=3, matrix=np.zeros((4, 3)), intercept=np.zeros(0), n_classes=4,
            labels=y.astype(np.int32), sample_weight=np.ones(3), gradient=np.zeros((4, 3)),
            intercept_gradient=np.zeros(0), n_threads=1,
        )  # fmt: skip
