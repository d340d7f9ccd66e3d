"""The search for a learning rate: its grid, its winner, its edges."""

import numpy as np
import pytest

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, tune_learning_rate
from manyclass.classifiers.base import planner_of
from manyclass.fitting.planners import SoftmaxPlanner
from manyclass.fitting.trials import search_grid, try_grid


def valley(best=1.0, diverges_above=np.inf):
    """A log-loss that is the distance of the rate, in decades, from a best one; by the exponent of the rate."""
    return lambda exponent: np.inf if 10.0**exponent > diverges_above else abs(np.log10(10.0**exponent / best))


def problem(seed, n=300, n_classes=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (4 * X[:, :n_classes] + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


@pytest.mark.parametrize("best", [0.01, 1.0, 100.0])
def test_the_winner_is_the_smallest_log_loss_of_the_papers_grid(best):
    found = search_grid(valley(best), 1.0)
    np.testing.assert_allclose(found.rates, 10.0 ** np.arange(-3, 4), rtol=1e-6)  # rows of unit length, to rounding
    assert found.best == pytest.approx(best, rel=1e-6)
    assert found.table[found.best] == min(found.losses)


@pytest.mark.parametrize("best", [1e-5, 1e-4, 1e-3, 1e3, 1e4, 1e5])
def test_a_winner_at_the_edge_widens_the_grid(best):
    found = search_grid(valley(best), 1.0)
    assert found.best == pytest.approx(best, rel=1e-6)
    # The grid ends one decade beyond the winner, and not further.
    assert found.rates[0] == pytest.approx(min(1e-3, best / 10), rel=1e-6)
    assert found.rates[-1] == pytest.approx(max(1e3, best * 10), rel=1e-6)


def test_the_end_of_all_grids_is_told():
    with pytest.warns(UserWarning, match="is the last one tried"):
        found = search_grid(valley(1e9), 1.0)
    assert found.best == pytest.approx(1e6, rel=1e-6)


def test_rates_that_diverge_lose():
    found = search_grid(valley(10.0, diverges_above=0.5), 1.0)
    assert found.best == pytest.approx(0.1, rel=1e-6)
    assert np.isinf(found.losses[-1])
    small = search_grid(valley(1e-5, diverges_above=5e-5), 1.0)
    assert small.best == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(ValueError, match="no learning rate from"):
        search_grid(valley(1.0, diverges_above=0.0), 1.0)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (MarginClassifier(max_iter=2, random_state=0), "error"),
        (SoftmaxClassifier(model="embedding", dim=4, max_iter=2, random_state=0), "log_loss"),
    ],
    ids=["margin", "embedding"],
)
def test_margins_embeddings_and_several_labels_are_tuned(model, loss, several, seed):
    X, y = problem(seed)
    Y = np.eye(5, dtype=int)[y] | np.eye(5, dtype=int)[(y + 1) % 5] if several else y
    found = tune_learning_rate(model, X, Y, criterion="training")
    own = model.set_params(learning_rate=found.best).fit(X, Y).evaluate(X, Y)
    assert found.table[found.best] == own[loss] == min(found.losses)
    assert np.all(np.isfinite(tune_learning_rate(model, X, Y).losses[:4]))  # by points held out, for small steps


def test_lbfgs_has_no_step_size_to_tune(seed):
    with pytest.raises(ValueError, match="solver is 'lbfgs', which has no learning rate"):
        tune_learning_rate(SoftmaxClassifier(solver="lbfgs"), *problem(seed))


def test_the_grid_follows_the_scale_of_the_data(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(solver="implicit", fit_intercept=False, max_iter=3, random_state=0)
    one, four = tune_learning_rate(model, X, y), tune_learning_rate(model, 4 * X, y)
    np.testing.assert_allclose(16 * four.rates, one.rates, rtol=1e-6)
    np.testing.assert_allclose(four.losses, one.losses, rtol=1e-4)


@pytest.mark.parametrize(("criterion", "n_trained"), [("training", 120), ("validation", 108)])
def test_a_part_of_the_points_is_used(criterion, n_trained, seed):
    X, y = problem(seed, n=600)
    n_rows = []

    class Planner(SoftmaxPlanner):
        def run(self, points, watch, beginning):
            n_rows.append(len(points.labels))
            return super().run(points, watch, beginning)

    own = planner_of(SoftmaxClassifier(solver="exact", max_iter=1))
    try_grid(Planner(own.parameters, own.caller), X, y, None, fraction=0.2, min_points=50, criterion=criterion)
    assert set(n_rows) == {n_trained}


@pytest.mark.parametrize("estimator", [SoftmaxClassifier(max_iter=3), AugmentReduceClassifier(max_iter=3)])
def test_the_estimator_is_left_unchanged(estimator, seed):
    before = estimator.get_params()
    tune_learning_rate(estimator.set_params(random_state=0), *problem(seed))
    assert estimator.get_params() == {**before, "random_state": 0}
    assert not hasattr(estimator, "classes_")


@pytest.mark.parametrize("solver", ["implicit", "exact", "auto"])
def test_grid_as_a_learning_rate_finds_the_same(solver, seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(solver=solver, alpha=1e-4, learning_rate="grid", max_iter=3, random_state=0).fit(X, y)
    table, rate = model.learning_rate_table_, model.resolved_params_["learning_rate"]
    assert rate == min(table, key=table.get)
    assert min(table) < rate < max(table)
    by_hand = SoftmaxClassifier(alpha=1e-4, max_iter=3, random_state=0)
    for name in ("solver", "sampler", "model"):
        by_hand.set_params(**{name: model.resolved_params_.get(name, "auto")})
    found = tune_learning_rate(by_hand, X, y, random_state=0)
    if solver == "auto":
        # Features that are scaled once more, as those of the grid are, are rounded to float32 once more, which steps
        # that diverge make large.
        np.testing.assert_allclose(found.rates, list(table), rtol=1e-5)
        np.testing.assert_allclose(found.losses[:5], list(table.values())[:5], rtol=1e-3)
    else:
        assert found.table == table
    np.testing.assert_array_equal(by_hand.set_params(learning_rate=rate).fit(X, y).coef_, model.coef_)


def test_a_criterion_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match="criterion is 'test'; it must be one of 'validation', 'training'"):
        tune_learning_rate(SoftmaxClassifier(), *problem(seed), criterion="test")
