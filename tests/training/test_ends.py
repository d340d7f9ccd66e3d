"""How a training ends is told: by its clock, by Ctrl-C, or by a divergence that is one."""

import time
import warnings
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, solvers
from manyclass.training import passes
from manyclass.training.core_training import CoreTraining

SOLVERS = ["implicit", "umax", "sgd", "exact"]


@pytest.fixture
def problem(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(200, 6)).astype(np.float32), rng.integers(0, 5, size=200)


def messages(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in seen]


@pytest.fixture
def clock(monkeypatch):
    """A clock that makes each slice of a pass, and each end of one, take a second."""
    seconds = count()
    fake = SimpleNamespace(perf_counter=lambda: float(next(seconds)), monotonic=time.monotonic)
    monkeypatch.setattr(passes, "time", fake)


@pytest.mark.parametrize("solver", [*SOLVERS, "adagrad"])
def test_a_clock_that_ends_a_long_plan_is_no_divergence(solver, problem, clock):
    model = SoftmaxClassifier(solver=solver, max_iter=10**5, random_state=0)
    (message,) = messages(lambda: model.fit(*problem, max_seconds=10))
    assert message.startswith("training stopped after 10 s in pass 5 of 100000, when max_seconds was over")
    assert message.endswith("Raise max_seconds, or lower max_iter to the passes that there is time for")
    assert model.n_iter_ == 5


def test_a_model_that_is_bad_where_its_time_was_over_is_told(problem, clock, monkeypatch):
    monkeypatch.setattr(CoreTraining, "verdict", lambda *_: "the loss is high")
    model = SoftmaxClassifier(solver="implicit", max_iter=10**5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="was over: the loss is high, for its steps are still large; the model"):
        model.fit(*problem, max_seconds=10)


def test_a_plan_that_ends_in_time_has_nothing_to_tell(problem, clock):
    model = SoftmaxClassifier(solver="implicit", max_iter=5, random_state=0)
    assert messages(lambda: model.fit(*problem, max_seconds=10)) == []


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_iter", [1, 3, 20])
def test_first_weights_worse_than_none_are_no_divergence(solver, max_iter, problem, seed):
    X, y = problem
    poor = 10 * np.random.default_rng(seed).normal(size=(5, 6))
    curves = [SoftmaxClassifier(solver=solver, max_iter=1, learning_rate=1e-30, random_state=0)]
    at_start = curves[0].fit(X, y, coef_init=poor).evaluate(X, y)["log_loss"]
    model = SoftmaxClassifier(solver=solver, max_iter=max_iter, random_state=0)
    assert messages(lambda: model.fit(X, y, coef_init=poor)) == []
    assert model.n_iter_ == max_iter
    assert model.evaluate(X, y)["log_loss"] < at_start


def test_first_weights_that_training_makes_worse_are_told(problem, seed):
    X, y = problem
    poor = 2 * np.random.default_rng(seed).normal(size=(5, 6))
    model = SoftmaxClassifier(solver="sgd", learning_rate=100.0, max_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, y, coef_init=poor)


def test_a_divergence_on_few_rows_is_told():
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 6)), rng.integers(0, 5, size=60)
        solver = solvers.UMax(schedule="constant")
        model = SoftmaxClassifier(solver=solver, n_negatives=2, learning_rate=1.0, max_iter=20, random_state=seed)
        with pytest.warns(ConvergenceWarning, match="diverged"):
            model.fit(X, y)
        for rate in (3.0, 10.0):  # of which a tenth ends above W = 0, too
            with pytest.warns(ConvergenceWarning, match="diverged"):
                model.set_params(learning_rate=rate).fit(X, y)
            assert model.evaluate(X, y)["log_loss"] < np.log(5) + 1e-6


# A grid of step sizes


@pytest.mark.parametrize("model", ["auto", "linear", "hybrid", "embedding"])
def test_a_grid_of_rates_needs_all_rows(model, problem):
    with pytest.raises(ValueError, match="learning_rate is 'grid', which needs all rows; for partial_fit set a number"):
        SoftmaxClassifier(learning_rate="grid", model=model).partial_fit(*problem)


@pytest.mark.filterwarnings("ignore:the best learning rate")  # of random labels
def test_the_rate_that_a_grid_has_chosen_goes_on(problem):
    model = SoftmaxClassifier(solver="implicit", learning_rate="grid", max_iter=2, random_state=0).fit(*problem)
    assert model.partial_fit(*problem).n_iter_ == 3


@pytest.mark.parametrize("classifier", [MarginClassifier, AugmentReduceClassifier])
def test_classifiers_without_a_grid_refuse_it(classifier, problem):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="learning_rate is 'grid'; it must be a number or 'auto'"):
            getattr(classifier(learning_rate="grid"), method)(*problem)


# Ctrl-C in a call


@pytest.mark.parametrize("keep", [None, "best"])
@pytest.mark.parametrize(("n_calls", "is_fitted"), [(1, False), (2, False), (1, True)])
def test_ctrl_c_in_a_call_leaves_the_model_as_it_was(n_calls, keep, is_fitted, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(4000, 6)).astype(np.float32), rng.integers(0, 5, size=4000)
    run, calls = CoreTraining.run, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == n_calls:
            raise KeyboardInterrupt
        return run(self, *args)

    model = SoftmaxClassifier(solver="implicit", model="linear", random_state=0)
    if is_fitted:
        model.partial_fit(X, y, n_kept=0)
        before = model.coef_.copy()
    monkeypatch.setattr(CoreTraining, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y, n_kept=0, keep=keep)
    assert hasattr(model, "coef_") == is_fitted
    if is_fitted:
        np.testing.assert_array_equal(model.coef_, before)
        assert model.class_count_.sum() == 4000


@pytest.mark.quick
@pytest.mark.parametrize("name", ["exact", "pairs", "hybrid", "margin", "utility", "lbfgs", "several models"])
def test_ctrl_c_in_fit_leaves_the_model_as_it_was(name, seed):
    rng = np.random.default_rng(seed)
    X, y = (rng.random(size=(200, 6)) * (rng.random(size=(200, 6)) < 0.5)).astype(np.float32), np.arange(200) % 5
    model = {
        "exact": SoftmaxClassifier(solver="exact"),
        "pairs": SoftmaxClassifier(model="pairs"),
        "hybrid": SoftmaxClassifier(model="hybrid"),
        "margin": MarginClassifier(),
        "utility": AugmentReduceClassifier(),
        "lbfgs": SoftmaxClassifier(solver="lbfgs"),
        "several models": SoftmaxClassifier(solver="implicit", n_models=3),
    }[name]
    X = sp.csr_array(X)

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, callback=interrupt)
    assert not hasattr(model, "classes_")
    before = model.set_params(random_state=0).fit(X, y).decision_function(X)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:100], y[:100], callback=interrupt)
    np.testing.assert_array_equal(model.decision_function(X), before)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        assert model.fit(X[:100], y[:100], callback=interrupt, keep="best") is model
    assert model.class_count_.sum() == 100
    with pytest.raises(ValueError, match="keep is 'all'; it must be one of 'best' or None"):
        model.fit(X, y, keep="all")


@pytest.mark.parametrize("model", ["pairs", "linear"])
def test_a_search_for_a_rate_is_ended_by_ctrl_c(model, seed, monkeypatch):
    monkeypatch.setattr(CoreTraining, "run", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    X, y = sp.csr_array(np.random.default_rng(seed).random((400, 5))), np.arange(400) % 5
    with pytest.raises(KeyboardInterrupt):
        SoftmaxClassifier(
            model=model,
            solver="implicit" if model == "linear" else "auto",
            learning_rate="grid" if model == "linear" else "auto",
        ).fit(X, y)
