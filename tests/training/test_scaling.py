"""The scaling of features: against its definition, and a model that is the same seen from either side of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from manyclass import MarginClassifier, SoftmaxClassifier, models, solvers
from manyclass.weights.weights import FeatureScaling, Weights


def problem(seed, n=120):
    """Five features that vary, in units of their own, the last of mostly zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0, 3, 0, 0, 0], size=(n, 5))
    X[:, 4] *= rng.random(n) < 0.3
    y = (X[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    return (X * [1, 50, 1e-2, 1e4, 7]).astype(np.float32), y


@pytest.mark.parametrize("centre", [True, False])
def test_dense_features_have_mean_0_and_deviation_1_but_for_those_of_mostly_zeros(centre, seed):
    X, _ = problem(seed)
    scaled = FeatureScaling.of(X, centre=centre).apply(X)
    assert scaled.dtype == np.float32
    full = X[:, :4].astype(np.float64)
    expected = (full - full.mean(axis=0)) / full.std(axis=0) if centre else full / np.sqrt(np.mean(full**2, axis=0))
    np.testing.assert_allclose(scaled[:, :4], expected, rtol=1e-5, atol=1e-6)  # roundings to float32
    last = X[:, 4].astype(np.float64)
    np.testing.assert_allclose(scaled[:, 4], last / np.sqrt(np.mean(last[last != 0] ** 2)), rtol=1e-6)


def test_sparse_features_in_units_of_their_own_have_mean_square_1_where_they_are_not_0(seed):
    X, _ = problem(seed)
    X[X < 0] = 0
    sparse = sp.csr_array(X)
    scaled = FeatureScaling.of(sparse, centre=True).apply(sparse)
    np.testing.assert_array_equal(scaled.indices, sparse.indices)
    np.testing.assert_array_equal(scaled.indptr, sparse.indptr)
    for column in scaled.toarray().T:
        assert np.mean(column[column != 0].astype(np.float64) ** 2) == pytest.approx(1, rel=1e-6)


def test_sparse_features_of_one_kind_are_divided_by_one_power_of_two(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((50, 30), density=0.2, rng=rng, dtype=np.float32).tocsr()
    X.data += np.float32(0.1)
    for factor in (1e-30, 1e-3, 1e3, 1e30):
        x = sp.csr_array(X * np.float32(factor))
        scaling = FeatureScaling.of(x, centre=True)
        assert len(set(scaling.scale)) == 1
        assert np.log2(scaling.scale[0]) % 1 == 0
        length = np.sqrt(np.mean(np.square(scaling.apply(x).toarray()).sum(axis=1)))
        assert 1 / np.sqrt(2) <= length * (1 + 1e-5) <= 8 * np.sqrt(2)
    for length in (1, 3, 8):
        rows = sp.csr_array(np.float32(length) * normalize(X))
        assert FeatureScaling.of(rows, centre=True).is_identity
        assert FeatureScaling.of(rows, centre=True).apply(rows) is rows


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_several_blocks_have_the_scales_of_their_definition(weighted, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal([1, 0, 3], [1, 2, 5], size=(400_000, 3)).astype(np.float32)  # sums are taken of 2^20 numbers at once
    r = rng.uniform(0.5, 2, size=len(X)) if weighted else None
    scaling = FeatureScaling.of(X, centre=True, weights=r)
    mean = np.average(X.astype(np.float64), axis=0, weights=r)
    variance = np.average(np.square(X - mean), axis=0, weights=r)
    np.testing.assert_allclose(scaling.shift, mean, rtol=1e-9)  # sums in double precision of 400,000 terms
    np.testing.assert_allclose(scaling.scale, np.sqrt(variance), rtol=1e-9)
    np.testing.assert_array_equal(scaling.apply(X), ((X - scaling.shift) / scaling.scale).astype(np.float32))


def test_the_first_sparse_rows_have_scales_by_quantiles_and_the_median_where_a_feature_is_missing(seed):
    rng = np.random.default_rng(seed)
    units = 10.0 ** np.arange(-3, 3).repeat(2)
    X = sp.csr_array(np.append(rng.uniform(1, 2, (50, 12)) * units, np.zeros((50, 1)), axis=1).astype(np.float32))
    scale = FeatureScaling.of(X, centre=True, first_rows=True).scale
    expected = np.sqrt(np.mean(np.square(X.toarray()[:, :12], dtype=np.float64), axis=0))
    np.testing.assert_allclose(scale, np.append(expected, np.median(expected)), rtol=1e-12)
    # One feature of a unit of its own is no tenth of them; rows have the length 4 after division by a power of two.
    X = sp.csr_array(np.append(np.full((9, 64), 2, np.float32), np.full((9, 1), 1e4, np.float32), axis=1)[:, :64])
    X = sp.csr_array(sp.vstack([X, sp.csr_array(1e6 * X[:1])]).astype(np.float32))
    assert set(FeatureScaling.of(X, centre=True, first_rows=True).scale) == {2.0}


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_folded_weights_give_the_scores_of_scaled_features_and_unfolding_undoes_it(storage, seed):
    X, _ = problem(seed)
    x = storage(X)
    scaling = FeatureScaling.of(x, centre=True)
    weights = Weights.zeros(3, 5, by_feature=sp.issparse(x))
    rng = np.random.default_rng(seed)
    weights.coef[...], weights.intercept[...] = rng.normal(size=(3, 5)), rng.normal(size=3)
    coef, intercept = weights.coef.copy(), weights.intercept.copy()
    expected = weights.scores(scaling.apply(x), 1)
    scaling.fold(weights)
    np.testing.assert_allclose(weights.scores(x, 1), expected, rtol=1e-4, atol=1e-4)  # float32 sums of 6 terms
    back = scaling.unfold(weights.copy())
    assert back.sparse == weights.sparse
    np.testing.assert_allclose(back.coef, coef, rtol=1e-5)
    np.testing.assert_allclose(back.intercept, intercept, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("parameters", [{}, {"max_iter": 3}, {"early_stopping": True}], ids=str)
def test_a_callback_has_features_as_they_were_given(parameters, storage, seed):
    X, y = problem(seed)
    x, seen = storage(X), []

    def look(state):
        seen.append((state.evaluate(x, y)["log_loss"], state.scores(x), state.log_losses(x, y), state.squared_norm()))

    given = {**parameters, "solver": solvers.Exact(averaging="none"), "model": models.Linear(scaling="standard")}
    if not parameters:
        given = {}
    model = SoftmaxClassifier(random_state=0, **given).fit(x, y, callback=look)
    log_loss, scores, losses, square = seen[model.best_iter_ - 1]
    # Scores of the scaled features and of the others are rounded apart, in units of the largest score.
    near = {"rtol": 1e-4, "atol": 1e-4 * float(np.abs(scores).max())}
    np.testing.assert_allclose(scores, model._weights.scores(x, 1), **near)
    np.testing.assert_allclose(losses.mean(), log_loss)
    assert log_loss == pytest.approx(model.evaluate(x, y)["log_loss"], abs=near["atol"])
    assert square == pytest.approx(float(np.square(model.coef_, dtype=np.float64).sum()), rel=1e-4)


def test_a_fit_from_given_weights_begins_at_their_scores(seed):
    X, y = problem(seed)
    rng = np.random.default_rng(seed)
    # Small ones: training warns where it ends worse than W = 0.
    coef, intercept = 0.01 * rng.normal(size=(3, 5)) / X.std(axis=0), 0.1 * rng.normal(size=3)
    model = SoftmaxClassifier(max_iter=1, learning_rate=1e-30, alpha=0.0, random_state=0)
    model.fit(X, y, coef_init=coef, intercept_init=intercept)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-5)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("solver", ["lbfgs", "implicit", "exact"])
def test_a_solver_chosen_by_hand_may_scale_too(solver, seed):
    X, y = problem(seed)
    factors = np.float32(2) ** np.array([-9, 0, 4, 9, 1], dtype=np.float32)  # exact
    given = {"solver": solver, "model": models.Linear(scaling="standard"), "alpha": 1e-2, "random_state": 0}
    one, other = (SoftmaxClassifier(**given).fit(x, y) for x in (X, factors * X))
    np.testing.assert_array_equal(factors * other.coef_, one.coef_)
    unscaled = SoftmaxClassifier(solver=solver, alpha=1e-2, random_state=0).fit(X[:, :3], y)
    assert unscaled.resolved_params_["model"].scaling == "none"


def test_full_passes_of_scaled_features_minimise_the_loss_with_a_ridge_in_their_units(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(alpha=0.05).fit(X, y)
    assert model.resolved_params_["solver"].name == "lbfgs"
    found = model.certificate(X, y)
    # The gap is |grad|^2 / 2 alpha <= 18 (1e-6)^2 / 0.1, beside the rounding of W to float32.
    assert 0 <= found["gap"] < 1e-6
    scale = FeatureScaling.of(X, centre=True).scale
    ridge = 0.05 / 2 * float(np.square(model.coef_ * scale).sum())
    assert found["primal"] == pytest.approx(model.evaluate(X, y)["log_loss"] + ridge, rel=1e-5)


@pytest.mark.parametrize(
    ("estimator", "several"),
    [
        (SoftmaxClassifier(model=models.Linear(scaling="standard")), True),
        (SoftmaxClassifier(solver="adagrad", model=models.Linear(scaling="standard")), False),
        (MarginClassifier(model=models.Linear(scaling="standard")), False),
    ],
    ids=["several labels", "minibatches", "margin"],
)
def test_trainings_that_do_not_scale_refuse_it(estimator, several, seed):
    X, y = problem(seed)
    with pytest.raises(ValueError, match="scaling is 'standard', which needs the softmax of one label a row"):
        estimator.fit(X, np.eye(3, dtype=int)[y] if several else y)


def test_another_scaling_is_refused():
    with pytest.raises(ValueError, match="scaling is 'minmax'; it must be one of"):
        SoftmaxClassifier(model=models.Linear(scaling="minmax")).fit(np.eye(4), [0, 0, 1, 1])
