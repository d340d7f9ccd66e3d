"""The exact loss of a few training points shows a divergence that the running loss hides."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures
from reference.problems import planted
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from manyclass import AugmentReduceClassifier, SoftmaxClassifier, _core, solvers
from manyclass.training.core_training import Probe, Signs
from manyclass.training.plan import Labels
from manyclass.training.state import Points


def wide_steps_diverge(seed):
    """50 classes of points of squared length 20, for which a step size of 1 is twenty times too large."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 20)).astype(np.float32)
    y = np.argmax(X @ rng.normal(size=(50, 20)).T + rng.gumbel(size=(1000, 50)), axis=1)
    y[:50] = np.arange(50)
    return X, y


@pytest.mark.parametrize(
    ("solver", "n_negatives"), [("augment_reduce", 1), ("augment_reduce", 2), ("scgd", 1), ("scgd", 2), ("ema", 1)]
)
def test_a_divergence_with_a_falling_running_loss_is_told(solver, n_negatives, seed):
    X, y = wide_steps_diverge(seed)
    curves = []
    model = SoftmaxClassifier(
        solver=solver, sampler="uniform", n_negatives=n_negatives, learning_rate=1.0, random_state=seed
    )
    with pytest.warns(
        ConvergenceWarning, match=r"diverged: the exact loss of 256 training points .*Lower learning_rate"
    ):
        model.fit(X, y, callback=lambda state: curves.append(state.loss))
    # No model at all would have log 50; the running loss says that this one is better.
    assert model.evaluate(X, y)["log_loss"] > np.log(50)
    if solver != "ema":
        assert curves[-1] < np.log(50)


@pytest.mark.parametrize("solver", ["implicit", "augment_reduce", "scgd", "scent", "css", "exact"])
def test_a_training_that_learns_is_left_alone(solver, seed):
    X, y = wide_steps_diverge(seed)
    draws = {} if solver == "exact" else {"sampler": "uniform", "n_negatives": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SoftmaxClassifier(solver=solver, random_state=seed, **draws).fit(X, y)


@pytest.mark.parametrize("several", [False, True])
def test_it_is_told_with_embeddings_and_several_labels(several, seed):
    X, y = wide_steps_diverge(seed)
    Y = sp.csr_array((np.ones(2 * len(y)), (np.arange(2 * len(y)) // 2, np.column_stack([y, (y + 1) % 50]).ravel())))
    model = SoftmaxClassifier(
        model="embedding",
        dim=8,
        solver=solvers.CSS(schedule="constant"),
        sampler="uniform",
        n_negatives=2,
        learning_rate=20.0,
        max_iter=4,
        random_state=seed,
    )
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, Y if several else y)


def test_it_is_told_of_random_utilities(seed):
    X, y = wide_steps_diverge(seed)
    model = AugmentReduceClassifier(
        noise="logistic", solver="sgd", sampler="uniform", n_negatives=2, learning_rate=30.0, max_iter=4, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, y)


# Which points and passes

FREE, FEWEST, MOST, SHARE = int(_core.Probe.free_pairs), 16, 256, _core.Probe.share


def probe(n_points, n_classes, **parameters):
    max_iter = parameters.pop("max_iter", 20)
    x = np.arange(n_points, dtype=np.float32)[:, np.newaxis]
    labels = Labels.single(np.arange(n_points, dtype=np.int32) % n_classes)
    return Probe(Points.numbered(x, labels, n_classes), Signs(**{"at_zero": 2.0, "n_drawn": 5} | parameters), max_iter)


@pytest.mark.parametrize(
    ("n_points", "n_classes", "parameters", "size", "after"),
    [
        (1000, 50, {}, MOST, {1, 2, 4, 8, 16}),
        (100, 50, {}, 100, {1, 2, 4, 8, 16}),  # all of them
        (1000, 50, {"max_iter": 1}, MOST, set()),
        (1000, FREE // 100, {}, FEWEST, {1, 2, 4, 8, 16}),  # 100 points in 6 looks
        (1000, FREE, {}, FEWEST, set()),  # not to be afforded: at the end only
        (1000, FREE // 50, {"noise": True}, FEWEST, set()),
        (10_000, FREE, {"n_drawn": 100_000}, int(SHARE * 10_000 * 100_001 * 20 / FREE) // 6, {1, 2, 4, 8, 16}),
    ],
)
def test_looks_are_as_many_as_training_hides(n_points, n_classes, parameters, size, after):
    found = probe(n_points, n_classes, **parameters)
    assert len(found.labels) == found.x.shape[0] == size
    assert set(found.core.passes) == after
    rows = found.x[:, 0].astype(int)
    np.testing.assert_array_equal(found.labels.ids, rows % n_classes)  # the points' own labels
    assert len(set(rows)) == size


BY_PASSES = [name for name in solvers.SOLVERS if "lbfgs" not in name and "adagrad" not in name]


@pytest.mark.parametrize("averaging", ["none", "suffix"])
@pytest.mark.parametrize("max_iter", [200, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("rate", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", BY_PASSES)
def test_no_training_that_ends_a_twentieth_of_a_nat_above_what_it_was_at_is_silent(name, rate, max_iter, averaging):
    """Scores of negative sampling are no log-probabilities, so that no probe looks at it."""
    if name == "negative_sampling":
        pytest.skip("its own loss rises by at most .04, that of its scores says nothing")
    X, y = planted(np.random.default_rng(0), 60, 4, 9, scale=2)
    seen = {}

    def look(state):
        if state.n_iter & (state.n_iter - 1) == 0:  # as the probe does
            seen[state.n_iter] = state.evaluate(X, y)["log_loss"]

    sampled = {} if name == "exact" else {"n_negatives": 2, "sampler": "uniform"}
    solver = solvers.SOLVERS[name](schedule="constant", averaging=averaging)
    model = SoftmaxClassifier(solver=solver, learning_rate=rate, max_iter=max_iter, random_state=0, **sampled)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, callback=look)  # which lets no smaller step be tried
    if seen and model.evaluate(X, y)["log_loss"] > min(seen.values()) + 0.05 + 1e-5:  # rounding
        assert any("diverged" in str(one.message) for one in told), seen


def fitted(X, y, name, rate, **options):
    """A model of constant steps by two drawn classes, and what training warned of."""
    sampled = {} if name == "exact" else {"n_negatives": 2, "sampler": "uniform"}
    solver = solvers.SOLVERS[name](schedule="constant")
    model = SoftmaxClassifier(solver=solver, learning_rate=rate, max_iter=200, random_state=0, **sampled)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, **options)
    return model, [str(one.message) for one in told]


@pytest.mark.parametrize("name", BY_PASSES)
@pytest.mark.parametrize("rate", [0.1, 1.0, 10.0, 1e4])
def test_a_training_that_diverges_ends_no_worse_than_the_best_that_it_or_a_smaller_step_was_at(name, rate):
    X, y = planted(np.random.default_rng(0), 60, 4, 9, scale=2)
    losses = {rate: [], rate / 10: []}
    for tried, curve in losses.items():
        fitted(X, y, name, tried, callback=lambda state, curve=curve: curve.append(state.evaluate(X, y)["log_loss"]))
    model, told = fitted(X, y, name, rate)
    assert np.isfinite(model.coef_).all()
    if not told:
        return
    assert len(told) == 1
    small, found = model.resolved_params_.get("learning_rate"), model.evaluate(X, y)["log_loss"]
    assert "training diverged" in told[0]
    assert f"With a step size of {rate / 10:.4g} instead of {rate:.4g}" in told[0]
    if "ended well" in told[0]:
        again, of_smaller = fitted(X, y, name, rate / 10)
        np.testing.assert_array_equal(model.coef_, again.coef_)
        assert (small, of_smaller) == (rate / 10, [])
    elif name != "negative_sampling":  # whose scores are no log-probabilities: no probe looks at it
        looks = [curve[n - 1] for curve in losses.values() for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= len(curve)]
        looks += [curve[-1] for curve in losses.values() if curve]
        assert found <= min([*looks, np.log(9)]) + 1e-5  # the probe holds all points: rounding
        assert "the best that was seen" in told[0]


@pytest.mark.parametrize("looks", [{"callback": lambda _: False}, {"max_seconds": 1000.0}, {"checkpoint": "folder"}])
def test_what_looks_on_sees_one_training(looks, seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = wide_steps_diverge(seed)
    model, told = fitted(X, y, "sgd", 1.0, **looks)
    assert len(told) == 1
    assert "diverged" in told[0]
    assert "instead of" not in told[0]
    assert "learning_rate" not in model.resolved_params_


def test_a_smaller_step_stands_among_what_parameters_became(seed):
    X, y = wide_steps_diverge(seed)
    untried = {"FEWEST_TO_TRY": len(y) + 1}  # it would find a better one
    rate = with_figures(SoftmaxClassifier(solver="css", random_state=seed), **untried).fit(X, y)
    rate = rate.resolved_params_["learning_rate"]
    untried["RELATIVE_RATES"] = {"css": 5 / rate}
    large = with_figures(SoftmaxClassifier(solver="css", random_state=seed), **untried)
    with pytest.warns(ConvergenceWarning, match="instead of 5 it ended well"):
        model = large.fit(X, y)
    rate = model.resolved_params_["learning_rate"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = SoftmaxClassifier(solver="css", learning_rate=rate, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_of_several_labels_and_pairs_a_smaller_step_is_tried_too(seed):
    X, y = wide_steps_diverge(seed)
    Y = sp.csr_array((np.ones(2 * len(y)), (np.arange(2 * len(y)) // 2, np.column_stack([y, (y + 1) % 50]).ravel())))
    for model, rate in (("embedding", 1000.0), ("pairs", 1e6)):
        made = SoftmaxClassifier(model=model, solver="adagrad", learning_rate=rate, max_iter=4, random_state=0)
        with pytest.warns(ConvergenceWarning, match="instead of"):
            made.fit(sp.csr_array(X), Y)
        assert np.isfinite(made.loss_curve_).all()
        assert made.evaluate(sp.csr_array(X), Y)["log_loss"] <= 2 * np.log(50) + 1e-5  # no worse than no model


def test_a_ridge_is_a_part_of_what_may_rise(seed):
    X, y = planted(np.random.default_rng(seed), 200, 4, 5, scale=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SoftmaxClassifier(solver="implicit", alpha=0.3, learning_rate=3.0, max_iter=50, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ({}, None),
        ({1: (1.9, 0.0), 4: (0.5, 0.0)}, None),
        ({1: (2.3, 0.1), 4: (0.5, 0.0)}, None),  # it came down
        ({1: (3.0, 0.1), 4: (2.5, 0.2)}, None),  # within two standard errors of 1.1 times that of W = 0
        ({1: (3.0, 0.1), 4: (2.5, 0.1)}, "after pass 4, 2.5, is above that of W = 0"),
        ({1: (np.nan, 0.0)}, "after pass 1, nan, is above that of W = 0"),
        ({1: (np.inf, np.nan)}, "is above"),
        ({2: (0.5, 0.0), 4: (0.9, 0.0)}, None),
        ({2: (0.5, 0.0), 4: (1.1, 0.01)}, "rose from 0.5 after pass 2 to 1.1 after pass 4"),
        ({2: (0.5, 0.0), 4: (1.1, 0.06)}, None),
    ],
    ids=str,
)
def test_verdicts(looks, told):
    found = probe(20, 5)
    assert found.core.least_rise == 0.25 * 2.0
    found.core.looks = looks
    verdict = found.core.verdict()
    assert verdict is None if told is None else told in verdict


def test_a_look_is_the_exact_loss_and_stops_what_is_no_number(seed):
    rng = np.random.default_rng(seed)
    found = probe(40, 5)
    z = rng.normal(size=(40, 5)).astype(np.float32)
    losses = logsumexp(z.astype(float), axis=1) - z[np.arange(40), found.labels.ids]
    state = SimpleNamespace(losses_and_ranks=lambda x, labels: (losses, None))
    assert not found.look(state, 3)
    assert found.core.looks == {3: (pytest.approx(losses.mean()), pytest.approx(losses.std() / np.sqrt(40)))}
    for loss, stops in ((50.0, False), (np.nan, True), (np.inf, True)):
        state.losses_and_ranks = lambda x, labels, loss=loss: (np.full(40, loss), None)
        assert found.look(state, 4) == stops


def test_a_look_at_several_labels_is_their_cross_entropy(seed):
    rng = np.random.default_rng(seed)
    ids = np.array([0, 2, 1, 0, 3, 4], dtype=np.int32)
    labels = Labels(np.array([0, 2, 3, 6]), ids)
    found = Probe(Points.numbered(np.zeros((3, 1)), labels, 5), Signs(at_zero=2.0, n_drawn=2), 1)
    z = rng.normal(size=(3, 5)).astype(np.float32)
    log_p = z - logsumexp(z.astype(float), axis=1, keepdims=True)
    expected = [-log_p[0, [0, 2]].sum(), -log_p[1, 1], -log_p[2, [0, 3, 4]].sum()]
    found.look(SimpleNamespace(scores=lambda x: z), 1)
    assert found.core.looks[1][0] == pytest.approx(np.mean(expected), rel=1e-6)
    assert found.look(SimpleNamespace(scores=lambda x: np.full((3, 5), np.nan, dtype=np.float32)), 2)
