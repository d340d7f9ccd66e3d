"""Several runs made into one model: its scores are the mean of theirs, whatever the weights are made of."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models
from manyclass.choosing import costs
from manyclass.weights.weights import Weights

MODELS = {
    "linear": SoftmaxClassifier(solver="implicit", n_negatives=4, max_iter=2),
    "auto": SoftmaxClassifier(solver="exact", learning_rate="grid", max_iter=2),
    "embedding": SoftmaxClassifier(model="embedding", solver="adagrad", dim=5, max_iter=2),
    "relu": SoftmaxClassifier(model=models.Embedding(activation="relu"), solver="adagrad", dim=5, max_iter=2),
    "pairs": SoftmaxClassifier(model="pairs", max_iter=2),
    "pruned": SoftmaxClassifier(model=models.Pairs(prune=0.3), max_iter=2),
    "margin": MarginClassifier(max_iter=2),
    "no intercept": MarginClassifier(max_iter=2, fit_intercept=False, model="embedding", dim=3),
    "utility": AugmentReduceClassifier(max_iter=2, n_negatives=3),
}


def data(seed, sparse=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 9)).astype(np.float32) * (rng.random((120, 9)) < 0.5)
    y = rng.integers(6, size=120)
    return (sp.csr_array(X) if sparse else X), y


def seeds_of(seed, n):
    return [seed, *np.random.RandomState(seed).randint(0, np.iinfo(np.int32).max, size=n - 1).tolist()]


# Labels are drawn at random, so that no learning rate is good.
@pytest.mark.filterwarnings("ignore:the best learning rate")
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_mean_of_those_of_runs_by_seed(name, sparse, seed, tmp_path):
    X, y = data(seed, sparse)
    model = clone(MODELS[name]).set_params(n_models=3, random_state=seed).fit(X, y)
    own = getattr(model, "resolved_params_", {})
    runs = [clone(MODELS[name]).set_params(random_state=s, **own).fit(X, y) for s in seeds_of(seed, 3)]
    if name == "auto":  # what is found by trials is that of the first run
        runs[0] = clone(MODELS[name]).set_params(random_state=seeds_of(seed, 3)[0]).fit(X, y)
    mean = np.mean([run.decision_function(X) for run in runs], axis=0)
    # Products of three sums in float32.
    assert model.decision_function(X) == pytest.approx(mean, rel=1e-4, abs=1e-5)
    assert model.loss_curve_ == pytest.approx(np.mean([run.loss_curve_ for run in runs], axis=0))
    assert model.n_iter_ == 2
    model.save(tmp_path / "m")
    assert np.array_equal(manyclass.load(tmp_path / "m").decision_function(X), model.decision_function(X))
    assert np.array_equal(clone(model).fit(X, y).decision_function(X), model.decision_function(X))


def test_a_mean_of_margins_tells_what_each_of_its_runs_has_chosen():
    X, y = data(0)
    one, mean = (clone(MODELS["margin"]).set_params(n_models=n, random_state=0).fit(X, y) for n in (1, 3))
    assert repr(mean.resolved_params_) == repr(one.resolved_params_)
    assert mean.resolved_params_.keys() >= {"learning_rate", "solver"}


@pytest.mark.parametrize("name", ["embedding", "margin"])
def test_several_labels_have_their_mean_and_a_threshold_of_it(name, seed):
    X, y = data(seed)
    Y = np.maximum(np.eye(6, dtype=int)[y], np.eye(6, dtype=int)[(y + 1) % 6] * (y % 2)[:, np.newaxis])
    model = clone(MODELS[name]).set_params(n_models=2, random_state=seed).fit(X, Y)
    runs = [clone(MODELS[name]).set_params(random_state=s).fit(X, Y) for s in seeds_of(seed, 2)]
    mean = np.mean([run.decision_function(X) for run in runs], axis=0)
    assert model.decision_function(X) == pytest.approx(mean, rel=1e-4, abs=1e-5)
    assert model.multilabel_
    assert model.threshold_ is None or model.threshold_ not in [run.threshold_ for run in runs]


@pytest.mark.filterwarnings("ignore:the best learning rate")
@pytest.mark.parametrize("name", MODELS)
def test_one_model_is_what_it_was(name):
    X, y = data(0)
    one = clone(MODELS[name]).set_params(random_state=5).fit(X, y)
    again = clone(MODELS[name]).set_params(random_state=5, n_models=1).fit(X, y)
    assert np.array_equal(one.decision_function(X), again.decision_function(X))
    assert one.calibration_ is None


def test_a_mean_of_many_is_that_of_all():
    rng = np.random.default_rng(0)
    shapes = ((4, 3), (4,))
    drawn = [[rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(5)]
    parts = [Weights.linear(*arrays, by_feature=False) for arrays in drawn]
    expected = np.mean([part.matrix for part in parts], axis=0)
    mean = parts[0]
    for n, part in enumerate(parts[1:], start=1):
        mean = mean.add_to_mean(part, n)
    assert mean.matrix == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_callback_and_the_clock_end_all_runs():
    X, y = data(0)
    calls = []
    model = clone(MODELS["margin"]).set_params(n_models=3, random_state=0)
    model.fit(X, y, callback=lambda state: calls.append(state.n_iter))
    assert calls == [1, 2] * 3
    model.fit(X, y, callback=lambda state: len(calls) == 8 or calls.append(state.n_iter))
    assert calls == [1, 2] * 3 + [1, 2]  # the first pass of the second run was the last one
    assert model.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match=r"training stopped after .* s in pass 1 of 2 \(model [123]/3\)"):
        assert model.fit(X, y, max_seconds=0).n_iter_ <= 2


HYBRID = SoftmaxClassifier(model="hybrid", max_iter=3, random_state=0)


@pytest.mark.filterwarnings("ignore:training diverged")  # random labels
def test_auto_is_three_runs_of_a_small_hybrid_and_one_of_others():
    X, y = data(0)
    model = clone(HYBRID).fit(X, y)
    assert model.resolved_params_["n_models"] == 3
    three = clone(HYBRID).set_params(**model.resolved_params_).fit(X, y)
    assert np.array_equal(model.decision_function(X), three.decision_function(X))
    members = [line["value"] for line in model.auto_report_ if line["parameter"] == "member"]
    assert "embeddings 1" in members  # the others follow where its share is large
    assert clone(HYBRID).fit(X, y, max_seconds=100).resolved_params_["n_models"] == 1
    for name in ("linear", "embedding", "pairs"):
        assert "n_models" not in clone(MODELS[name]).fit(X, y).resolved_params_
    calibrated = clone(HYBRID).set_params(calibration="temperature").fit(X, y)
    assert calibrated.resolved_params_["n_models"] == 3


@pytest.mark.parametrize(
    ("seconds", "embeddings", "expected"),
    [(1e-6, 1, 3), (9.9, 1, 3), (10.1, 1, 2), (99.9, 1, 2), (100.1, 1, 1), (1.0, 100 << 20, 2), (20.1, 300 << 20, 1)],
)
def test_auto_adds_runs_by_predicted_seconds_and_megabytes(seconds, embeddings, expected):
    assert costs.n_runs(seconds, embeddings) == expected


def test_a_run_of_auto_that_fails_leaves_the_old_model(seed):
    X, y = data(seed)
    model = clone(HYBRID).set_params(random_state=seed).fit(X, y)
    before, passes = model.decision_function(X), []

    def fail(state):
        passes.append(state.n_iter)
        if len(passes) == 5:  # of 3 + 3 + 3
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X, (y + 1) % 6, callback=fail)
    assert np.array_equal(model.decision_function(X), before)


def test_a_mean_goes_on_as_each_of_its_models_would(seed):
    # The mean of a model and itself is that model; so is what partial_fit makes of it, steps and sums of squares alike.
    X, y = data(seed)
    one = clone(HYBRID).set_params(random_state=seed, n_models=1).fit(X, y)
    both = clone(HYBRID).set_params(random_state=seed).fit(X, y, max_seconds=100)
    assert np.array_equal(one.decision_function(X), both.decision_function(X))
    mean = replace(both._fitted, weights=both._weights.add_to_mean(both._weights, 1))
    both._taken(mean.with_report(params={**both.resolved_params_, "n_models": 2}))
    for _ in range(3):
        for model in (one, both):
            model.partial_fit(X, y)
    # Sums in single precision go through twice as many columns.
    assert both.decision_function(X) == pytest.approx(one.decision_function(X), rel=1e-3, abs=1e-4)
    assert both.embedding_.shape == (9, 2 * 64)


def test_partial_fit_goes_on_from_a_mean_of_runs_with_other_pairs():
    X, y = data(0)
    model = clone(HYBRID).fit(X[:80], y[:80])
    rank = model.evaluate(X[80:], y[80:])["log_loss"]
    for _ in range(5):
        model.partial_fit(X[80:], y[80:])
    assert model.evaluate(X[80:], y[80:])["log_loss"] < rank
    assert model.resolved_params_["n_models"] == 3


def test_an_interrupt_ends_all_runs_with_the_models_so_far():
    X, y = data(0)
    seen = []

    def stop(state):
        seen.append(state.n_iter)
        if len(seen) == 3:
            raise KeyboardInterrupt

    model = clone(MODELS["margin"]).set_params(n_models=4, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y, callback=stop, keep="best")
    assert len(seen) == 3
    assert np.isfinite(model.decision_function(X)).all()


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = data(0)
    model = clone(MODELS["linear"]).set_params(n_models=2, random_state=0).fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(120, int))
    assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (SoftmaxClassifier(n_models=0), ValueError, "n_models is 0"),
        (MarginClassifier(n_models="auto"), TypeError, "n_models is .auto."),
        (MarginClassifier(n_models=1.5), TypeError, "n_models is 1.5"),
        (SoftmaxClassifier(solver="lbfgs", n_models=2), ValueError, "n_models is 2, which has no effect with .*lbfgs"),
        (AugmentReduceClassifier(posterior="gaussian", alpha=0.1, n_models=2), ValueError, "n_models is 2; .*leave it"),
    ],
)
def test_what_cannot_be_averaged_is_refused(model, error, message):
    with pytest.raises(error, match=message):
        model.fit(*data(0))
