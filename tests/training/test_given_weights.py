"""Training from given weights: the same fit as its twin's, u at its exact value, and what is refused."""

import numpy as np
import pytest
from reference import epoch as twin
from reference.problems import as_storage
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_epoch import small_problem

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.training import points

STORAGES = ["sparse", "dense"]


def some_weights(seed, n_classes=21, n_features=12):
    rng = np.random.default_rng(seed)
    return (
        (0.5 * rng.normal(size=(n_classes, n_features))).astype(np.float32),
        rng.normal(size=n_classes).astype(np.float32),
    )


class Started(twin.Training):
    """The twin, from given weights and exact u."""

    def begin(self, W, b):
        self.W[self.position], self.b[self.position] = W, b
        z = self.X @ self.W.T + self.b
        carry = twin.CARRY.get(self.options.formulation, self.options.formulation)
        self.carried = logsumexp(z, axis=1) - (1 - carry) * z[np.arange(len(z)), self.labels]
        return self


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("implicit", {}),
        ("implicit", {"formulation": "raman"}),
        ("implicit", {"formulation": 0.35}),
        ("umax", {"max_norm": 1.0}),
        ("scent", {"averaging": "polyak"}),
        ("css", {}),
    ],
)
def test_a_fit_from_given_weights_equals_its_twin(solver, options, storage, seed):
    X, y = small_problem(seed)
    W, b = some_weights(seed)
    common = {"learning_rate": 0.2, "n_negatives": 5, "max_iter": 3, "random_state": 0}
    model = SoftmaxClassifier(
        solver=solvers.SOLVERS[solver](u_learning_rate=0.2, decay=0.9, **options) if solver != "css" else solver,
        sampler="uniform",
        **common,
    ).fit(as_storage(X, storage), y, coef_init=W, intercept_init=b)
    expected = Started(
        X.astype(float),
        y,
        21,
        {"solver": solver, "selection": "uniform", "u_learning_rate": 0.2, "u_gain": 0.2, **common, **options},
    ).begin(W.astype(float), b.astype(float))
    expected = expected.run()
    atol = 3 * len(y) * 2.0**-20 * np.abs(expected.coef).max()  # a float's rounding at each visit
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, expected.intercept, rtol=0, atol=4 * atol)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_implicit_step_of_a_batch_starts_from_given_weights_and_their_u(storage, seed):
    X, y = small_problem(seed)
    best = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-6), alpha=0.01, max_iter=500).fit(X, y)
    model = SoftmaxClassifier(
        solver=solvers.MinibatchImplicit(batch_size=5, schedule="constant"),
        alpha=0.01,
        learning_rate=0.01,
        n_negatives=20,  # all
        max_iter=2,
        random_state=seed,
    )
    model.fit(as_storage(X, storage), y, coef_init=best.coef_, intercept_init=best.intercept_)
    # Small steps from the optimum stay there: over five seeds within 2e-5. From u = log K, where u starts without
    # weights, they leave it by .003 to .0045.
    assert np.abs(model.coef_ - best.coef_).max() < 2e-4
    cold = model.fit(as_storage(X, storage), y)
    assert np.abs(cold.coef_ - best.coef_).max() > 0.1


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("estimator", [SoftmaxClassifier, AugmentReduceClassifier])
def test_steps_of_size_nearly_0_leave_the_start(estimator, storage, seed):
    X, y = small_problem(seed)
    W, b = (np.float32(0.1) * some for some in some_weights(seed))  # no worse than W = 0, which would be told
    model = estimator(solver="implicit", learning_rate=1e-12, max_iter=1, random_state=0)
    labels = np.array([f"{k:02}" for k in range(21)])[y]
    model.fit(as_storage(X, storage), labels, coef_init=W.astype(float).tolist(), intercept_init=b)
    np.testing.assert_allclose(model.coef_, W, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-7)
    only = estimator(solver="implicit", learning_rate=1e-12, max_iter=1, random_state=0).fit(X, y, intercept_init=b)
    np.testing.assert_allclose(only.coef_, 0, atol=1e-7)
    np.testing.assert_allclose(only.intercept_, b, atol=1e-7)


@pytest.mark.parametrize("solver", ["implicit", "lbfgs"])
def test_a_start_is_left_as_it_was_where_features_are_scaled(solver, seed):
    X, y = small_problem(seed)
    n_classes = len(np.unique(y))
    W, b = np.ones((n_classes, X.shape[1]), dtype=np.float32), np.ones(n_classes, dtype=np.float32)
    model = SoftmaxClassifier(model=models.Linear(scaling="standard"), solver=solver, max_iter=300, random_state=0)
    X = (X * np.arange(1, X.shape[1] + 1)).astype(np.float32)
    model.fit(X, y, coef_init=W, intercept_init=b)
    assert np.all(W == 1)
    assert np.all(b == 1)


def test_a_start_at_the_optimum_stays_there(seed):
    X, y = small_problem(seed)
    best = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-6), alpha=0.01, max_iter=500).fit(X, y)
    model = SoftmaxClassifier(solver="exact", alpha=0.01, learning_rate=1e-3, max_iter=3, random_state=0)
    model.fit(X, y, coef_init=best.coef_, intercept_init=best.intercept_)
    assert model.loss_curve_[0] == pytest.approx(best.evaluate(X, y)["log_loss"], abs=1e-3)
    assert np.abs(model.coef_ - best.coef_).max() < 0.01


def test_without_a_start_nothing_is_evaluated(monkeypatch, seed):
    X, y = small_problem(seed)
    monkeypatch.setattr(points, "carried_at", lambda *_, **__: pytest.fail("evaluated"))
    SoftmaxClassifier(solver="implicit", n_negatives=4, max_iter=1).fit(X, y)


REFUSED = [
    (
        {"solver": "implicit"},
        {"coef_init": np.zeros((20, 12))},
        r"coef_init has shape \(20, 12\); it must be \(21, 12\)",
    ),
    ({"solver": "implicit"}, {"intercept_init": np.zeros(3)}, r"intercept_init has shape \(3,\); it must be \(21,\)"),
    ({"solver": "implicit"}, {"coef_init": np.full((21, 12), 1e300)}, "coef_init has entries that are not finite in"),
    ({"solver": "implicit"}, {"intercept_init": np.full(21, np.nan)}, "intercept_init has entries that are not finite"),
    (
        {"solver": "implicit", "fit_intercept": False},
        {"intercept_init": np.zeros(21)},
        "has no effect with fit_intercept=False",
    ),
    ({"model": "embedding"}, {"coef_init": np.zeros((21, 12))}, "has no effect with several labels or embeddings"),
    ({"model": "embedding"}, {"coef_init": "closed_form"}, "has no effect with several labels or embeddings"),
    (
        {"solver": "implicit"},
        {"coef_init": "zeros"},
        r"coef_init is 'zeros'; it must be an array of shape \(21, 12\)",
    ),
    (
        {"solver": "implicit", "fit_intercept": False},
        {"coef_init": "closed_form"},
        "coef_init is 'closed_form', which has intercepts; fit_intercept must be True",
    ),
    (
        {"solver": "implicit"},
        {"coef_init": "closed_form", "intercept_init": np.zeros(21)},
        "coef_init is 'closed_form' and intercept_init is given",
    ),
]


@pytest.mark.parametrize(("parameters", "given", "message"), REFUSED)
def test_a_start_that_cannot_be_is_refused(parameters, given, message, seed):
    X, y = small_problem(seed)
    with pytest.raises(ValueError, match=message):
        SoftmaxClassifier(**parameters).fit(X, y, **given)


def test_a_posterior_has_no_start(seed):
    X, y = small_problem(seed)
    model = AugmentReduceClassifier(posterior="gaussian", alpha=0.1, sampler=samplers.Uniform())
    with pytest.raises(ValueError, match="leave coef_init, intercept_init and warm_start"):
        model.fit(X, y, coef_init=np.zeros((21, 12)))


# Closed forms


def words_of_classes(seed, n_classes=8, n_features=30, n_rows=400):
    """Rows of counts, in which each class has words of its own."""
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes))
    of_classes = rng.gamma(0.3, size=(n_classes, n_features)) + 0.02
    return rng.poisson(6 * of_classes[y] / of_classes.sum(axis=1)[y, np.newaxis]).astype(float), y


def naive_bayes(X, y, r):
    """The logarithms of how much more of a class's values are a feature's, and of the shares of classes."""
    coef = np.zeros((y.max() + 1, X.shape[1]))
    for k in range(len(coef)):
        for j in range(X.shape[1]):
            together = r[y == k] @ X[y == k, j]
            if together > 0:
                of_class, of_feature = r[y == k] @ X[y == k].sum(axis=1), r @ X[:, j]
                coef[k, j] = np.log(together / of_class / (of_feature / (r @ X.sum(axis=1))))
    return coef, np.log(np.bincount(y, r) / r.sum())


def test_sparse_rows_begin_at_naive_bayes_on_two_scales(seed):
    X, y = words_of_classes(seed)
    r = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    model = SoftmaxClassifier(solver="implicit", learning_rate=1e-12, max_iter=1, random_state=0)
    model.fit(as_storage(X, "sparse"), y, r, coef_init="closed_form")
    coef, prior = naive_bayes(X, y, r)
    scale = (model.coef_ * coef).sum() / (coef * coef).sum()
    of_prior = np.ptp(model.intercept_) / np.ptp(prior)
    assert 0.3 < scale < 3
    # A float's rounding, beside steps of 1e-12.
    np.testing.assert_allclose(model.coef_, scale * coef, atol=1e-5 * np.abs(coef).max())
    np.testing.assert_allclose(model.intercept_ - model.intercept_.mean(), of_prior * (prior - prior.mean()), atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(solver="implicit", learning_rate=0.3, max_iter=2, random_state=0),
        SoftmaxClassifier(solver="umax", learning_rate=0.1, max_iter=2, random_state=0),
        SoftmaxClassifier(solver="lbfgs", alpha=1e-3, max_iter=2),
        SoftmaxClassifier(solver="implicit", learning_rate=0.3, max_iter=2, random_state=0, early_stopping=True),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:L-BFGS made max_iter")
def test_training_from_naive_bayes_is_ahead_of_training_from_0(model, seed):
    X, y = words_of_classes(seed, n_rows=2000)
    X, labels = as_storage(X, "sparse"), np.array(list("abcdefgh"))[y]
    cold = clone(model).fit(X[:400], labels[:400]).evaluate(X[400:], labels[400:])
    warm = clone(model).fit(X[:400], labels[:400], coef_init="closed_form").evaluate(X[400:], labels[400:])
    assert warm["log_loss"] < cold["log_loss"]


def test_a_fit_from_a_closed_form_goes_on_where_it_was_stopped(tmp_path, seed):
    X, y = words_of_classes(seed)
    model = SoftmaxClassifier(solver="implicit", learning_rate=0.3, max_iter=4, random_state=0)
    whole = clone(model).fit(as_storage(X, "sparse"), y, coef_init="closed_form")
    more = {"coef_init": "closed_form", "checkpoint": tmp_path, "every": 1}

    def kill(state):
        if state.n_iter == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        clone(model).fit(as_storage(X, "sparse"), y, callback=kill, **more)
    went_on = clone(model).fit(as_storage(X, "sparse"), y, resume=True, **more)
    np.testing.assert_array_equal(went_on.coef_, whole.coef_)


def test_rows_that_have_no_closed_form_are_told(seed):
    X, y = words_of_classes(seed)
    model = SoftmaxClassifier(solver="implicit", max_iter=1)
    with pytest.raises(ValueError, match=r"whose sparse rows must be at least 0; one is -2\.5"):
        model.fit(as_storage(np.where(X.max() == X, -2.5, X), "sparse"), y, coef_init="closed_form")
    with pytest.raises(ValueError, match="coef_init is 'closed_form', which needs 20 rows and a class of two"):
        model.fit(as_storage(X[:8], "sparse"), y[:8], coef_init="closed_form")
    with pytest.raises(ValueError, match="coef_init is 'closed_form'; it must be an array"):
        AugmentReduceClassifier().fit(X, y, coef_init="closed_form")


# warm_start


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0),
        SoftmaxClassifier(solver="lbfgs", alpha=0.01, max_iter=3),
        AugmentReduceClassifier(max_iter=2, random_state=0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:L-BFGS made max_iter")
def test_a_warm_start_is_a_start_from_the_weights_of_the_last_fit(model, storage, seed):
    X, y = small_problem(seed)
    X = as_storage(X, storage)
    first = clone(model).fit(X, y)
    warm = clone(model).set_params(warm_start=True).fit(X, y)  # nothing to begin at
    np.testing.assert_array_equal(warm.coef_, first.coef_)
    expected = clone(model).fit(X, y, coef_init=first.coef_, intercept_init=first.intercept_)
    warm.fit(X, y)
    np.testing.assert_array_equal(warm.coef_, expected.coef_)
    np.testing.assert_array_equal(warm.intercept_, expected.intercept_)
    assert not np.array_equal(warm.coef_, first.coef_)
    assert warm.n_iter_ == first.n_iter_


def test_lbfgs_begins_at_what_it_is_given(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="lbfgs", alpha=0.01, warm_start=True).fit(X, y)
    cold, coef = model.n_iter_, model.coef_.copy()
    assert model.fit(X, y).n_iter_ < cold / 2
    assert np.abs(model.coef_ - coef).max() < 0.01  # both end where the gradient is below tol


def test_a_warm_start_takes_what_auto_has_chosen_and_classes_by_their_labels(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(warm_start=True, random_state=0).fit(X[y > 2], y[y > 2])
    chosen, tried = model.resolved_params_, model.auto_report_
    assert len(tried)
    model.fit(X, y)
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.resolved_params_ == chosen
    assert not len(model.auto_report_)
    last = SoftmaxClassifier(solver="implicit", learning_rate=1e-9, max_iter=1, warm_start=True, random_state=0)
    last.fit(X[y > 2], y[y > 2])
    last.coef_[:] = 1
    last.fit(X[y < 19], y[y < 19])
    kept = np.isin(last.classes_, y[y > 2])
    np.testing.assert_allclose(last.coef_[kept], 1, atol=1e-5)
    np.testing.assert_allclose(last.coef_[~kept], 0, atol=1e-5)


WARM = {
    "embedding": (SoftmaxClassifier(model="embedding", dim=4, max_iter=3), False),
    "search": (SoftmaxClassifier(sampler="search", solver="adagrad", max_iter=3), False),
    "several": (SoftmaxClassifier(max_iter=3), True),
    "pairs": (SoftmaxClassifier(model="pairs", max_iter=3), True),
    "hybrid": (SoftmaxClassifier(model="hybrid", dim=4, max_iter=3), True),
    "margin": (MarginClassifier(max_iter=3), False),
    "margin of several": (MarginClassifier(model="embedding", dim=4, max_iter=3), True),
}


def warm_data(seed, several):
    """Many rows of few, so that a hybrid has some to find its scales on."""
    X, y = small_problem(seed)
    X, y = np.tile(X, (6, 1)), np.tile(y, 6)
    return X, np.eye(21, dtype=int)[y] if several else y


@pytest.mark.parametrize("name", WARM)
def test_fits_of_other_models_begin_warm_too(name, seed):
    model, several = WARM[name]
    X, Y = warm_data(seed, several)
    model = clone(model).set_params(random_state=0)
    first = clone(model).fit(X, Y)
    warm = clone(model).set_params(warm_start=True).fit(X, Y)  # nothing to begin at
    z = first.decision_function(X)
    np.testing.assert_array_equal(warm.decision_function(X), z)
    warm.fit(X, Y)
    assert warm.n_iter_ >= first.n_iter_  # weights on pairs of no share end early in a fit
    np.testing.assert_array_equal(warm.class_count_, first.class_count_)
    assert warm._fitted.history.n_points == len(X)
    # It goes on: at first its loss is that with which the last fit ended, and not that of weights of 0.
    assert warm.loss_curve_[0] < first.loss_curve_[0]
    assert warm.loss_curve_[-1] < first.loss_curve_[-1] * 1.05
    assert not np.array_equal(warm.decision_function(X), z)
    # Steps of size nearly 0 leave it where it was.
    still = warm.decision_function(X)
    warm.set_params(learning_rate=1e-12)
    if "hybrid" not in name and name != "several":  # embeddings of a hybrid have a step size of their own
        np.testing.assert_allclose(warm.fit(X, Y).decision_function(X), still, atol=1e-4)


def test_a_warm_fit_of_a_margin_keeps_what_the_last_one_chose(seed):
    X, y = warm_data(seed, False)
    model = MarginClassifier(max_iter=2, warm_start=True, random_state=0).fit(X, y)
    chosen = model.resolved_params_
    by_hand = clone(model).set_params(**chosen).fit(X, y)
    for one in (model, by_hand):
        one.fit(3 * X, y)
    np.testing.assert_array_equal(model.coef_, by_hand.coef_)
    assert model.resolved_params_ == chosen


def test_new_classes_join_a_warm_fit_and_old_ones_stay(seed):
    X, y = warm_data(seed, False)
    for model in (MarginClassifier(max_iter=3), SoftmaxClassifier(model="embedding", dim=4, max_iter=3)):
        model.set_params(warm_start=True, random_state=0).fit(X[y > 2], y[y > 2])
        model.fit(X, y)
        assert model.classes_.tolist() == list(range(21))
        with pytest.raises(ValueError, match="y lacks 0, a class of the last fit"):
            model.fit(X[y > 2], y[y > 2])
        with pytest.raises(ValueError, match="y has several labels a row; the last fit had one label a row"):
            model.fit(X, np.eye(21, dtype=int)[y])
        assert model.classes_.tolist() == list(range(21))


def test_sums_of_squares_go_on_in_a_warm_fit(seed):
    for name in ("embedding", "margin"):
        X, y = warm_data(seed, False)
        model = clone(WARM[name][0]).set_params(warm_start=True, random_state=0).fit(X, y)
        before = model._fitted.squares.classes
        assert (model.fit(X, y)._fitted.squares.classes > before).all()


def test_a_warm_fit_is_watched(seed):
    for name in ("embedding", "pairs", "hybrid", "margin"):
        model, several = WARM[name]
        X, Y = warm_data(seed, several)
        model = clone(model).set_params(warm_start=True, random_state=0).fit(X, Y)
        seen = []
        model.fit(X, Y, callback=lambda state, seen=seen: seen.append(state.n_iter) or state.n_iter == 2)
        assert model.n_iter_ == 2
        assert seen == [1, 2]
        with pytest.warns(ConvergenceWarning, match="stopped after .* s in pass 1 of"):
            assert model.fit(X, Y, max_seconds=0).n_iter_ <= 1  # which the slice that the clock ends may hold


def test_where_there_is_no_warm_start_it_is_said(seed):
    X, y = small_problem(seed)
    for model, told in (
        (SoftmaxClassifier(model="embedding", dim=4, max_iter=1), "X has 11 features; the last fit had 12"),
        (SoftmaxClassifier(solver="implicit", max_iter=1), "X has 11 features; the last fit had 12"),
    ):
        model.set_params(warm_start=True, random_state=0).fit(X, y)
        coef = model.coef_.copy()
        with pytest.raises(ValueError, match=told):
            model.fit(X[:, 1:], y)
        np.testing.assert_array_equal(model.coef_, coef)
    several = np.eye(21, dtype=int)[y]
    with pytest.raises(ValueError, match="warm_start is True and y has several labels a row; the last fit had one"):
        SoftmaxClassifier(solver="implicit", max_iter=1, warm_start=True).fit(X, y).fit(X, several)
    pruned = SoftmaxClassifier(model=models.Pairs(prune=0.5), warm_start=True, random_state=0).fit(X, several)
    with pytest.raises(ValueError, match=r"prune is 0\.5; a fit that begins warm drops no weights"):
        pruned.fit(X, several)
    with pytest.raises(ValueError, match="warm_start is True, which begins one run"):
        SoftmaxClassifier(warm_start=True, n_models=2).fit(X, y)
    with pytest.raises(TypeError, match="warm_start is 1; it must be True or False"):
        SoftmaxClassifier(warm_start=1).fit(X, y)
