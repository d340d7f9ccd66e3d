"""Several labels by margins in a SoftmaxClassifier: the scores of a MarginClassifier, on a scale of held-out rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures
from test_pairs import indicator

from manyclass import MarginClassifier, SoftmaxClassifier, load
from manyclass.blending import blend
from manyclass.classifiers.base import planner_of
from manyclass.solvers import Adagrad, Implicit

SAME = {"model": "embedding", "dim": 6, "max_iter": 3, "learning_rate": 0.5, "random_state": 0}
N = 400
FLOAT = 1e-4  # scores of single precision that were multiplied twice


def data(seed, n=N):
    """Rows of which features name labels, two or three of twelve."""
    rng = np.random.default_rng(seed)
    P = [np.sort(rng.choice(12, rng.integers(2, 4), replace=False)) for _ in range(n)]
    X = np.zeros((n, 32), np.float32)
    for x, labels in zip(X, P, strict=True):
        x[20 + labels] = 1  # classes are no columns: else what a row has would come again
        x[12 + rng.integers(8)] = 1
    return sp.csr_array(X), indicator(P, 12)


def softmax(**changed):
    return SoftmaxClassifier(**{"solver": Adagrad(reduction="margin"), **SAME, **changed})


@pytest.mark.parametrize("model", ["embedding", "linear"])
def test_scores_are_those_of_margins_on_the_scale_of_least_log_loss(model, seed, monkeypatch):
    X, Y = data(seed)
    given = {"model": model, "dim": 6 if model == "embedding" else "auto"}
    held = np.arange(N) % 20 == 7
    monkeypatch.setattr(blend, "rows_held_out", lambda *_: held)
    ours = softmax(**given, n_models=1).fit(X, Y)
    kept, out = np.flatnonzero(~held), np.flatnonzero(held)
    theirs = MarginClassifier(smoothing=5, **{**SAME, **given}, solver=Adagrad(decay=0.7)).fit(X[kept], Y[kept])
    scale = ours._weights.scales[1]
    np.testing.assert_allclose(ours.decision_function(X), scale * theirs.decision_function(X), rtol=FLOAT, atol=FLOAT)
    losses = [log_loss(factor * ours.decision_function(X[out]), Y[out]) for factor in (0.9, 1.0, 1.1)]
    assert losses[1] < min(losses[0], losses[2])


def log_loss(z, Y):
    """The mean over rows of the mean over their labels of -log p, from the definition."""
    top = z.max(axis=1, keepdims=True)
    logs = z - top - np.log(np.exp(z - top).sum(axis=1, keepdims=True))
    own = sp.csr_array(Y).toarray()
    return -np.mean((own * logs).sum(axis=1) / own.sum(axis=1))


def test_training_goes_on_without_the_scale(seed):
    X, Y = data(seed)
    half = N // 2
    ours, unscaled = softmax().fit(X[:half], Y[:half]), softmax().fit(X[:half], Y[:half])
    scale = ours._weights.scales[1]
    assert scale != 1
    unscaled._weights.multiply_scores(1 / scale)
    ours.partial_fit(X[half:], Y[half:])
    unscaled.partial_fit(X[half:], Y[half:])
    assert ours._weights.scales[1] == pytest.approx(scale)
    z, own = ours.decision_function(X), scale * unscaled.decision_function(X)
    np.testing.assert_allclose(z, own, rtol=FLOAT, atol=FLOAT * np.abs(own).max())


def test_a_fit_that_begins_warm_goes_on_and_keeps_the_scale(seed):
    X, Y = data(seed)
    warm = softmax(warm_start=True, dim=6, max_iter=1).fit(X, Y)
    scale, before = warm._weights.scales[1], warm.decision_function(X)
    on = softmax(max_iter=1).fit(X, Y).partial_fit(X, Y)
    warm.fit(X, Y)
    assert warm._weights.scales[1] == pytest.approx(scale)
    assert not np.allclose(warm.decision_function(X), before)
    assert on._weights.scales[1] == pytest.approx(scale)


def test_a_stream_finds_the_scale_anew_on_rows_that_are_new(seed):
    X, Y = data(seed, 1500)
    model, scales = softmax(), []
    for first in range(0, 1500, 500):
        model.partial_fit(X[first : first + 500], Y[first : first + 500])
        scales.append(model._weights.scales[1])
    assert len(set(scales)) == 3
    assert model.evaluate(X, Y)["log_loss"] < np.log(12)


def test_a_mean_of_runs_goes_on_and_comes_back_from_a_file(seed, tmp_path):
    X, Y = data(seed)
    model = softmax(dim="auto").fit(X, Y)
    assert model.resolved_params_["n_models"] == 3
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again._weights.scales[1] == model._weights.scales[1] != 1
    for one in (model, again):
        one.partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_it_is_the_default_where_pairs_are_too_many_and_labels_few(seed):
    X, Y = data(seed)
    model = with_figures(SoftmaxClassifier(random_state=0), MOST_MET=1.0).fit(X, Y)
    assert model.resolved_params_["solver"].reduction == "margin"
    assert model.resolved_params_["dim"] == 384
    assert model.n_iter_ == 4
    several = with_figures(SoftmaxClassifier(random_state=0), MOST_MET=1.0, MANY_LABELS=2.0).fit(X, Y)
    assert type(several.resolved_params_["model"]).__name__ == "Hybrid"


def test_a_linear_model_has_one_run_and_one_label_a_scale_too(seed):
    X, Y = data(seed)
    linear = softmax(model="linear", dim="auto").fit(X, Y)
    assert "n_models" not in linear.resolved_params_
    y = sp.csr_array(Y).toarray().argmax(axis=1)
    one = softmax().fit(X, y)
    assert one._weights.scales[1] != 1
    assert one.evaluate(X, y)["log_loss"] < np.log(12)


def test_it_is_refused_where_it_has_no_meaning(seed):
    X, Y = data(seed)
    check_supported = pytest.importorskip("manyclass.dask.classifiers").check_supported
    with pytest.raises(ValueError, match="reduction is 'margin'; on a cluster it must not be 'margin'"):
        check_supported(planner_of(softmax(model="linear", dim="auto")))
    with pytest.raises(ValueError, match="reduction is 'margin'; it must be"):
        SoftmaxClassifier(solver=Implicit(reduction="margin")).fit(X, Y)
