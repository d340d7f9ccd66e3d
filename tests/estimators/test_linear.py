"""SoftmaxClassifier's parameters, its callback, and how it stops."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.core_step import core_plan
from reference.problems import as_storage, planted
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier, _core, samplers, solvers
from manyclass.registry import names


@pytest.fixture
def problem(seed):
    return planted(np.random.default_rng(seed), 90, 6, 12, density=0.6)


def quick(**parameters):
    return SoftmaxClassifier(**{"solver": "implicit", "n_negatives": 4, "max_iter": 3, "random_state": 0} | parameters)


def choices(names):
    return ", ".join(repr(name) for name in names)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"solver": "adam"},
            f"solver is 'adam'; it must be one of {choices(['auto', *names('solver'), 'lbfgs', 'adagrad'])} or an "
            "object of manyclass.solvers",
        ),
        ({"solver": solvers.Gaussian()}, "solver is Gaussian(); it must be one of 'auto', 'implicit', "),
        (
            {"solver": solvers.Implicit(formulation=None)},
            f"formulation is None; it must be one of {choices(names('formulation'))} or a number",
        ),
        (
            {"sampler": "top"},
            f"sampler is 'top'; it must be one of {choices(['auto', *names('selection'), 'search'])} or an object of "
            "manyclass.samplers",
        ),
        (
            {"solver": solvers.UMax(schedule="cosine")},
            f"schedule is 'cosine'; it must be one of {choices(names('schedule'))}",
        ),
        ({"solver": solvers.Implicit(root="brent")}, f"root is 'brent'; it must be one of {choices(names('root'))}"),
        ({"solver": solvers.Implicit(u_init="log")}, "u_init is 'log'; it must be one of 'log_n_classes', 'zero'"),
        (
            {"solver": solvers.Implicit(parallel="fast")},
            "parallel is 'fast'; it must be one of 'deterministic', 'hogwild'",
        ),
        ({"n_negatives": 0}, "n_negatives is 0; it must be at least 1"),
        ({"n_negatives": -3}, "n_negatives is -3; it must be at least 1"),
        ({"max_iter": 0}, "max_iter is 0; it must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; it must be finite, more than 0"),
        ({"learning_rate": -1}, "learning_rate is -1; it must be finite, more than 0"),
        ({"learning_rate": np.inf}, "learning_rate is inf; it must be finite, more than 0"),
        ({"learning_rate": np.nan}, "learning_rate is nan; it must be finite, more than 0"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'; it must be a number, 'auto' or 'grid'"),
        ({"solver": solvers.Implicit(u_learning_rate=0)}, "u_learning_rate is 0; it must be finite, more than 0"),
        ({"solver": solvers.Implicit(decay=0)}, "decay is 0; it must be finite, more than 0 and at most 1"),
        ({"solver": solvers.Implicit(decay=1.5)}, "decay is 1.5; it must be finite, more than 0 and at most 1"),
        ({"solver": solvers.UMax(delta=-0.1)}, "delta is -0.1; it must be finite, at least 0"),
        ({"alpha": -1.0}, "alpha is -1.0; it must be finite, at least 0"),
        ({"solver": solvers.Implicit(max_norm=0.0)}, "max_norm is 0.0; it must be finite, more than 0"),
        (
            {"solver": solvers.Implicit(max_norm=1.0, formulation="raman")},
            "max_norm needs formulation='proposed'; it is 'raman'",
        ),
        ({"solver": solvers.UMax(max_norm=1.0, formulation=0.5)}, "max_norm needs formulation='proposed'; it is 0.5"),
        (
            {"solver": solvers.Implicit(formulation="other")},
            f"formulation is 'other'; it must be one of {choices(names('formulation'))} or a number",
        ),
        (
            {"solver": solvers.Implicit(max_norm=1.0, parallel="hogwild")},
            "max_norm needs parallel='deterministic' and batch_size=None; they are 'hogwild' and None",
        ),
        ({"n_jobs": 0}, "n_jobs is 0; it must be None, a positive integer, or negative"),
        ({"n_jobs": 1.5}, "n_jobs is 1.5; it must be None, a positive integer, or negative"),
        ({"max_iter": "10"}, "max_iter is '10'; it must be a number or 'auto'"),
        ({"solver": solvers.Implicit(decay="0.9")}, "decay is '0.9'; it must be one of 'auto'"),
        (
            {"sampler": "all"},
            "n_negatives is 4, which has no effect with solver='implicit', sampler='all' and a linear",
        ),
        ({"sampler": samplers.HeadTail(n_head=65)}, "n_head is 65; it must be at least 1 and at most 64"),
        ({"solver": "exact", "sampler": "block"}, "sampler is 'block'; solver 'exact' needs 'all'"),
        (
            {"solver": "nce", "sampler": "head_tail"},
            "solver='nce' draws the label too, which sampler='head_tail' cannot",
        ),
        ({"solver": solvers.CSS(log_q=False)}, "css: log_q is False, which has no effect without embeddings"),
        (
            {"solver": solvers.CSS(schedule="inverse", decay=0.5)},
            "decay is 0.5, which has no effect with schedule='inverse'; leave it 'auto'",
        ),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_value_and_the_rule(parameters, message, problem):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared below
        quick(**parameters).fit(*problem)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_negatives": 2.0}, "n_negatives is 2.0; it must be an integer"),
        ({"n_negatives": True}, "n_negatives is True; it must be an integer"),
        ({"learning_rate": None}, "learning_rate is None; it must be a number"),
        ({"max_iter": None}, "max_iter is None; it must be an integer"),
        ({"solver": solvers.Implicit(decay=None)}, "decay is None; it must be a number"),
        ({"solver": solvers.UMax(delta=None)}, "delta is None; it must be a number"),
    ],
)
def test_a_parameter_of_a_wrong_type_is_refused(parameters, message, problem):
    with pytest.raises(TypeError) as caught:
        quick(**parameters).fit(*problem)
    assert str(caught.value) == message


def test_numpys_numbers_are_numbers(problem):
    X, y = problem
    ours = quick(n_negatives=3, learning_rate=0.5, max_iter=2).fit(X, y)
    numpys = quick(n_negatives=np.int32(3), learning_rate=np.float64(0.5), max_iter=np.int64(2)).fit(X, y)
    assert np.array_equal(ours.coef_, numpys.coef_)


def test_more_negatives_than_classes_means_all(problem):
    X, y = problem
    every = quick(sampler="all", n_negatives="auto").fit(X, y)
    assert np.array_equal(quick(sampler="block", n_negatives=10**9).fit(X, y).coef_, every.coef_)
    # The same classes with the same weights, in lists: sums in another order.
    uniform = quick(sampler="uniform", n_negatives=500).fit(X, y)
    np.testing.assert_allclose(uniform.coef_, every.coef_, rtol=0, atol=300 * 4 * 2.0**-23 * np.abs(every.coef_).max())


def test_the_automatic_rate_is_one_over_the_mean_square(problem):
    X, y = problem
    mean = float(np.einsum("ij,ij->i", X, X, dtype=np.float64).mean()) + 1
    for solver, c in (
        (solvers.Implicit(u_learning_rate=30.0), 6.0),
        (solvers.UMax(u_learning_rate=0.1), 0.1),
        (solvers.SGD(u_learning_rate=0.01), 0.01),
        (solvers.CSS(), 1.0),
    ):
        auto = quick(solver=solver.name).fit(X, y)
        rate = auto.resolved_params_["learning_rate"]
        assert rate == pytest.approx(c / mean, rel=1e-6)  # norms of rows are rounded to single precision
        explicit = quick(solver=solver, learning_rate=rate, alpha=auto.resolved_params_["alpha"]).fit(X, y)
        assert np.array_equal(auto.coef_, explicit.coef_)
    tied = (solvers.Implicit(u_learning_rate=rate) for rate in ("tied", 0.3))
    same = [quick(learning_rate=0.3, solver=solver).fit(X, y).coef_ for solver in tied]
    assert np.array_equal(*same)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_without_intercept_it_is_zero_and_with_one_it_is_a_feature_that_is_always_one(storage, problem):
    X, y = problem
    without = quick(fit_intercept=False, learning_rate=0.5).fit(as_storage(X, storage), y)
    assert not without.intercept_.any()
    ones = np.column_stack([X, np.ones(len(X), dtype=np.float32)])
    as_feature = quick(fit_intercept=False, learning_rate=0.5).fit(as_storage(ones, storage), y)
    intercept = quick(learning_rate=0.5).fit(as_storage(X, storage), y)
    # The sum of a score in another order.
    atol = 3 * 90 * 4 * 2.0**-23 * np.abs(as_feature.coef_).max()
    np.testing.assert_allclose(intercept.intercept_, as_feature.coef_[:, -1], rtol=0, atol=atol)
    np.testing.assert_allclose(intercept.coef_, as_feature.coef_[:, :-1], rtol=0, atol=atol)


def test_coefficients_are_views_of_aligned_float32(problem):
    X, y = problem
    for data in (X, sp.csr_array(X)):
        fitted = quick().fit(data, y)
        assert fitted.coef_.shape == (12, 6)
        assert fitted.coef_.dtype == fitted.intercept_.dtype == np.float32
        assert np.shares_memory(fitted.coef_, fitted._weights.matrix)
        assert fitted._weights.matrix.ctypes.data % 64 == 0


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("max_norm", [None, 0.1])
def test_a_callback_sees_the_model_of_each_pass(max_norm, storage, problem):
    X, y = problem
    data = as_storage(X, storage)
    seen = []

    def callback(state):
        seen.append((state.n_iter, state.loss, state.class_updates, state.seconds, state.evaluate(data, y)))

    parameters = {"solver": solvers.Implicit(max_norm=max_norm), "learning_rate": 1.0, "sampler": "block"}
    fitted = quick(**parameters).fit(data, y, callback=callback)
    assert [n for n, *_ in seen] == [1, 2, 3]
    assert [loss for _, loss, *_ in seen] == fitted.loss_curve_.tolist()
    assert [updates for _, _, updates, *_ in seen] == [90 * 5, 2 * 90 * 5, 3 * 90 * 5]  # 4 classes and the label
    assert 0 < seen[0][3] < seen[1][3] < seen[2][3]
    after = fitted.evaluate(data, y)
    assert after.pop("n_unseen") == 0
    # The classes are summed over in another order now.
    assert seen[-1][-1] == pytest.approx(after, rel=1e-6)
    assert seen[0][-1]["log_loss"] != seen[-1][-1]["log_loss"]
    # A callback that looks changes nothing.
    assert np.array_equal(fitted.coef_, quick(**parameters).fit(data, y).coef_)


def test_a_callback_that_returns_true_stops_training(problem):
    X, y = problem
    steps = {"solver": solvers.Implicit(decay=0.9), "learning_rate": 0.5}  # those of "auto" depend on max_iter
    fitted = quick(max_iter=50, **steps).fit(X, y, callback=lambda state: state.n_iter == 2)
    assert fitted.n_iter_ == 2
    assert np.array_equal(fitted.coef_, quick(max_iter=2, **steps).fit(X, y).coef_)


def test_an_error_in_a_callback_is_the_callers(problem):
    def callback(state):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        quick().fit(*problem, callback=callback)


def test_an_interrupt_leaves_the_model_reached_so_far(problem):
    X, y = problem

    def callback(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    steps = {"solver": solvers.Implicit(decay=0.9), "learning_rate": 0.5}
    message = "training was interrupted; the model is the one reached so far"
    with pytest.warns(ConvergenceWarning, match=message) as seen:
        fitted = quick(max_iter=50, **steps).fit(X, y, callback=callback, keep="best")
    assert seen[0].filename == __file__  # the warning points at the caller's line
    assert fitted.n_iter_ == 2
    assert np.array_equal(fitted.coef_, quick(max_iter=2, **steps).fit(X, y).coef_)
    assert fitted.predict(X).shape == (90,)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("n_classes", [12, 1100])
def test_plain_sgd_that_diverges_stops_and_names_the_remedy(n_classes, storage, seed):
    X, y = planted(np.random.default_rng(seed), 2 * n_classes + 10, 6, n_classes)
    data = as_storage(X, storage)
    with pytest.warns(ConvergenceWarning) as seen:
        fitted = SoftmaxClassifier(solver="sgd", learning_rate=1e4, n_jobs=2, random_state=0).fit(data, y)
    message = str(seen[0].message)
    assert message.startswith("training diverged: the step at point ")
    assert message.endswith(
        "Lower learning_rate, scale the rows of X to unit length, or use solver='implicit', which bears larger steps"
    )
    assert seen[0].filename == __file__
    assert fitted.n_iter_ < 20
    assert np.isfinite(fitted.coef_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(learning_rate=1.0).fit(data, y)  # as the message says


def test_a_model_worse_than_none_is_reported(seed):
    X, y = planted(np.random.default_rng(seed), 200, 6, 12)
    with pytest.warns(ConvergenceWarning, match="the loss of the last pass, .*, is above that of W = 0"):
        quick(solver=solvers.Exact(schedule="constant"), n_negatives="auto", learning_rate=1e4).fit(X, y)


def test_progress_shows_the_loss_and_the_speed(problem, capsys, monkeypatch):
    monkeypatch.setattr("manyclass.training.passes.DELAY", 0)
    quick(verbose=1).fit(*problem)
    shown = capsys.readouterr().err
    assert "pass 3/3, loss " in shown
    assert "loss" in shown
    quick().fit(*problem)
    assert capsys.readouterr().err == ""


def test_the_core_refuses_what_does_not_fit(problem):
    X, y = problem
    good = {
        "labels": y.astype(np.int32),
        "x_sq": np.ones(90, dtype=np.float32),
        "u": np.zeros(90),
        "weights": np.zeros((12, 6), dtype=np.float32),
        "intercept": np.zeros(12, dtype=np.float32),
        "scale": np.zeros(0, dtype=np.float32),
        "norm_sq": np.zeros(0),
        "squares": np.zeros((0, 0), dtype=np.float32),
        "intercept_squares": np.zeros(0, dtype=np.float32),
        "heads": np.full((90, 3), -1, dtype=np.int32),
        "n_classes": 12,
    }
    plan = core_plan(solver="implicit", selection="head_tail", n_negatives=4)

    def train(**changed):
        return _core.Trainer.points(plan, X, X.shape[1], _core.State(**good | changed))

    train()
    read_only = np.zeros((12, 6), dtype=np.float32)
    read_only.flags.writeable = False
    for changed, message in (
        ({"labels": good["labels"][1:].copy()}, "labels has 89 elements; it must have 90"),
        ({"labels": good["labels"] + np.int32(12)}, r"label \d+ is outside \[0, 12\)"),
        ({"u": np.zeros(3)}, "u has 3 elements; it must have 90"),
        ({"weights": np.zeros((12, 5), dtype=np.float32)}, "weights has 60 elements; it must have 72"),
        ({"intercept": np.zeros(5, dtype=np.float32)}, "intercept has 5 elements; it must have 12"),
        ({"weights": read_only}, "not writeable|read-only"),
        ({"heads": np.full((89, 3), -1, dtype=np.int32)}, "heads, counted in rows, has 89 elements; it must have 90"),
        ({"heads": np.full((90, 3), 12, dtype=np.int32)}, r"head class 12 is outside \[-1, 12\)"),
        ({"heads": np.full((90, 65), -1, dtype=np.int32)}, "a head has 65 classes; at most 64"),
    ):
        with pytest.raises(ValueError, match=message):
            train(**changed)
    with pytest.raises(TypeError):
        train(weights=np.zeros((12, 6)))  # doubles: a converted copy would be trained instead
