"""Trials before a fit: the rows that they see, what they may cost, what they tell, and where they are not made."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from planned import by_points, figures_with, points_of_arrays, with_figures
from sklearn.base import clone

import manyclass
from manyclass import SoftmaxClassifier, _core, solvers
from manyclass.choosing import costs
from manyclass.choosing.costs import COLUMNS, Facts, Report
from manyclass.fitting import trials
from manyclass.fitting.trials import Sample, walk, whole_classes

K = 60


@pytest.fixture
def problem(seed):
    """Sparse rows of three words, two of which tell the class most of the time."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, 1500)
    own = 2 * y + rng.integers(0, 2, 1500)
    words = np.sort(np.stack([own, 2 * K + rng.integers(0, 50, 1500), 2 * K + 50 + rng.integers(0, 9, 1500)]).T, axis=1)
    X = sp.csr_array((np.full(4500, 0.5, np.float32), words.ravel(), np.arange(0, 4501, 3)), shape=(1500, 2 * K + 60))
    return X, y


def told(report):
    """A report without the seconds that were measured."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in report]


def quick(**parameters):
    return SoftmaxClassifier(**{"solver": "implicit", "max_iter": 2, "random_state": 0, **parameters})


# What a fit of many passes gets of a step size


@pytest.mark.parametrize("schedule", ["exponential", "inverse", "constant"])
def test_the_sum_of_many_steps_is_theirs(schedule):
    decay = {"decay": 0.9995} if schedule == "exponential" else {}
    model = SoftmaxClassifier(solver=solvers.UMax(schedule=schedule, **decay), max_iter=20_000, learning_rate=1.0)
    x = np.ones((4, 2), dtype=np.float32)
    plan = by_points(model, x, np.zeros(4, np.int32), 2).plan
    t = np.arange(20_000)
    steps = {"exponential": 0.9995**t, "inverse": 1 / (1 + t), "constant": np.ones(len(t))}[schedule]
    found = _core.sum_of_steps(plan.schedule.name, plan.schedule.decay, plan.max_iter)
    assert found == pytest.approx(steps.sum(), rel=2e-3)  # as it says


# Which rows


@pytest.mark.parametrize("n_rows", [150, 300, 900])
def test_rows_of_a_trial_are_all_rows_of_as_many_classes_as_it_takes(n_rows, seed):
    labels = np.random.default_rng(seed).geometric(0.02, 1000).astype(np.int32) - 1
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    with figures_with(LEAST_CLASSES=2):
        rows = whole_classes(labels, n_rows, np.random.RandomState(seed))
    drawn, counts = np.unique(labels[rows], return_counts=True)
    np.testing.assert_array_equal(counts, np.bincount(labels)[drawn])
    assert np.all(np.diff(rows) > 0)
    assert len(rows) >= n_rows
    assert len(rows) - counts.max() < n_rows  # without the last class they would have been too few


def test_each_class_is_drawn_as_often_as_any_other():
    labels = np.repeat(np.arange(20), 10).astype(np.int32)
    random = np.random.RandomState(0)
    with figures_with(LEAST_CLASSES=1):
        drawn = np.concatenate([np.unique(labels[whole_classes(labels, 45, random)]) for _ in range(2000)])
    # Five of twenty classes: binomial, with a standard error of 0.0097; 4.5 of them, for twenty classes.
    assert np.abs(np.bincount(drawn) / 2000 - 0.25).max() < 4.5 * 0.0097


def test_rows_are_random_ones_of_all_classes_where_few_classes_would_make_them_up(seed):
    labels = np.repeat(np.arange(20), 100).astype(np.int32)
    rows = whole_classes(labels, 500, np.random.RandomState(seed))
    assert len(rows) == len(np.unique(rows)) == 500
    assert len(np.unique(labels[rows])) == 20
    np.testing.assert_array_equal(whole_classes(labels, 2000, np.random.RandomState(seed)), np.arange(2000))


def test_a_sample_keeps_rows_labels_and_weights_together(seed):
    x = np.arange(60, dtype=np.float32).reshape(30, 2)
    labels = np.repeat([7, 3, 5], 10).astype(np.int32)
    weights = np.arange(1.0, 31.0)
    points = points_of_arrays(x, labels, 9, weights)
    sample = Sample.of(points, np.arange(5, 30), np.random.RandomState(seed))
    parts = (sample.trained, sample.out)
    rows = [(part.x[:, 0] / 2).astype(int) for part in parts]
    assert sorted(np.concatenate(rows)) == list(range(5, 30))
    for at, part in zip(rows, parts, strict=True):
        np.testing.assert_array_equal(part.classes, [3, 5, 7])
        np.testing.assert_array_equal(part.classes[part.labels.ids], labels[at])
        np.testing.assert_allclose(part.weights, weights[at] / weights[at].mean(), rtol=1e-12)


@pytest.mark.parametrize("labels", [np.zeros(20), np.arange(20)], ids=["one_class", "as_many_classes_as_rows"])
def test_rows_that_nothing_can_be_held_out_of_are_no_sample(labels):
    points = points_of_arrays(np.ones((20, 1)), labels.astype(np.int32), 20)
    assert Sample.of(points, np.arange(20), np.random.RandomState(0)) is None


# The walk


def test_a_walk_goes_on_while_the_best_is_at_an_end_and_it_may():
    def tried(best, furthest=(-6, 6), steps=99, **losses):
        asked = []

        def loss(exponent):
            asked.append(exponent)
            return losses.get(f"at{exponent}", abs(exponent - best))

        assert list(walk(loss, (-1, 0, 1), furthest, lambda: len(asked) < steps)) == asked
        return asked

    assert tried(0) == [-1, 0, 1]
    assert tried(3) == [-1, 0, 1, 2, 3, 4]
    assert tried(-2) == [-1, 0, 1, -2, -3]
    assert tried(9, furthest=(-2, 3)) == [-1, 0, 1, 2, 3]
    assert tried(9, steps=4) == [-1, 0, 1, 2]
    assert tried(9, steps=0) == [-1]
    assert tried(0, **{"at-1": math.inf, "at0": math.inf, "at1": math.inf, "at-2": math.inf}) == [-1, 0, 1, -2, -3, -4]


# Fits


def middle(values):
    """The geometric mean of the smallest and the largest."""
    return float(np.sqrt(min(values) * max(values)))


@pytest.mark.parametrize("as_good", [1.005, 3.0])  # by the second several steps are, but of "implicit"
@pytest.mark.parametrize("solver", ["implicit", "css", "exact", "umax", "auto"])
def test_the_report_tells_what_was_tried_and_the_middle_of_the_good_ones_is_taken(solver, as_good, problem):
    given = {"model": "linear"} if solver == "auto" else {}
    model = with_figures(quick(solver=solver, **given), AS_GOOD=as_good).fit(*problem)
    lines = [line for line in model.auto_report_ if line["parameter"] == "learning_rate"]
    assert all(tuple(line) == COLUMNS[:-1] for line in model.auto_report_)  # no member has a share
    assert len(lines) >= 3
    assert {(line["rows"], line["classes"], line["passes"]) for line in lines} == {(1350, K, 2)}
    good = as_good * min(line["log_loss"] for line in lines)
    chosen = [line["value"] for line in lines if line["chosen"]]
    assert chosen == [line["value"] for line in lines if line["log_loss"] <= good]
    # Two passes have fewer steps than the trial is worth, so that its pick is used as it is.
    assert model.resolved_params_["learning_rate"] == pytest.approx(middle(chosen), rel=1e-12)
    known = {"solver": solver} | given | model.resolved_params_
    again = SoftmaxClassifier(max_iter=2, random_state=0, **known).fit(*problem)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.auto_report_ == []


def test_steps_of_many_passes_add_up_to_those_of_few(problem):
    X, y = problem
    for decay, passes, sum_of_steps in (("auto", 12, (1 - 80 ** (-12 / 11)) / (1 - 80 ** (-1 / 11))), (1.0, 5, 5.0)):
        model = quick(solver=solvers.Implicit(decay=decay), max_iter=passes).fit(X, y)
        pick = middle([line["value"] for line in model.auto_report_ if line["chosen"]])
        assert model.resolved_params_["learning_rate"] == pytest.approx(2 * pick / sum_of_steps, rel=1e-12)


def test_the_step_of_u_follows_where_it_is_tied_and_only_there(problem):
    unit = 1.75  # the mean of |x|^2 and the intercept
    used = quick(solver="umax").fit(*problem).resolved_params_
    assert used["solver"].u_learning_rate == pytest.approx(used["learning_rate"] * unit, rel=1e-6)
    for solver, expected in (
        (solvers.UMax(u_learning_rate=0.25), 0.25),
        (solvers.Implicit(), 30.0),
        (solvers.Bregman(), 0.5),
    ):
        filled = quick(solver=solver).fit(*problem).resolved_params_.get("solver", solver)
        assert filled.u_learning_rate == expected
    tied = quick(solver=solvers.UMax(u_learning_rate="tied")).fit(*problem)
    rate = tied.resolved_params_["learning_rate"]
    by_hand = quick(solver=solvers.UMax(u_learning_rate=rate), learning_rate=rate).fit(*problem)
    np.testing.assert_array_equal(by_hand.coef_, tied.coef_)


def test_equal_seeds_choose_equally_for_any_number_of_threads_and_other_seeds_try_other_rows(problem):
    one, two = (quick(n_jobs=n).fit(*problem) for n in (1, 2))
    assert told(one.auto_report_) == told(two.auto_report_)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    other = quick(random_state=1).fit(*problem)
    assert told(other.auto_report_) != told(one.auto_report_)


def test_hogwild_is_for_the_fit_alone(problem):
    hogwild = quick(solver=solvers.Implicit(parallel="hogwild"), n_jobs=2).fit(*problem)
    assert told(hogwild.auto_report_) == told(quick().fit(*problem).auto_report_)


def test_what_is_set_is_not_tried(problem):
    X, y = problem
    assert quick(learning_rate=0.5).fit(X, y).auto_report_ == []
    assert quick(solver="auto", model="linear", learning_rate=0.5, alpha=0.0).fit(X, y).auto_report_ == []
    assert quick(solver="auto", model="linear", learning_rate=0.5).fit(X, y).auto_report_ == []
    rates = quick(solver="auto", model="linear", alpha=0.0).fit(X, y).auto_report_
    assert {line["parameter"] for line in rates} == {"learning_rate"}
    # Steps that have sizes of their own, and scores that are no logarithms of probabilities.
    assert quick(solver=solvers.CSS(schedule="adaptive")).fit(X, y).auto_report_ == []
    assert quick(solver="negative_sampling").fit(X, y).auto_report_ == []


def test_implicit_steps_have_a_weak_ridge_where_their_size_is_open(problem):
    X, y = problem
    weak = pytest.approx(0.01 / len(y) * 0.75, rel=1e-6)  # three values of a half in each row
    for given, more in (({}, {}), ({}, {"max_seconds": 1e6}), ({"n_negatives": 8}, {})):
        assert quick(**given).fit(X, y, **more).resolved_params_["alpha"] == weak
    for given in ({"learning_rate": 0.5}, {"solver": "css"}, {"solver": "umax"}):
        assert quick(**given).fit(X, y).resolved_params_["alpha"] == 0
    assert "alpha" not in quick(alpha=0.0).fit(X, y).resolved_params_
    # A part of all rows would want more than they do.
    for in_parts in (quick().partial_fit(X, y), quick().fit([(X, y)], classes=np.arange(K))):
        assert in_parts.resolved_params_["alpha"] == 0


def test_the_ridge_and_the_step_scale_with_the_rows(problem):
    X, y = problem
    # Powers of two change no rounding here.
    one, other = (quick(fit_intercept=False).fit(rows, y).resolved_params_ for rows in (X, 4 * X))
    assert other["alpha"] == 16 * one["alpha"]
    assert other["learning_rate"] == one["learning_rate"] / 16
    # Rows so short that steps on them, divided by a row's factor, leave single precision.
    assert quick().fit(np.float32(2.0**-40) * X, y).resolved_params_["alpha"] == 0


def test_a_trial_has_the_ridge_of_the_fit(problem, monkeypatch):
    seen = []
    monkeypatch.setattr(Sample, "loss", lambda _, plan: seen.append(plan.alpha) or 1.0)
    alpha = quick().fit(*problem).resolved_params_["alpha"]
    assert seen
    assert set(seen) == {alpha}


def test_a_limit_of_seconds_is_for_the_fit_alone_and_few_rows_are_not_tried(problem):
    X, y = problem
    assert quick().fit(X, y, max_seconds=1e6).auto_report_ == []
    assert quick().fit(X[:999], y[:999]).auto_report_ == []


@pytest.mark.parametrize("quick_seconds", [0.0, 0.004, 0.1])
def test_trials_keep_to_their_predicted_seconds(quick_seconds, problem):
    X, y = sp.vstack([problem[0]] * 4, format="csr"), np.tile(problem[1], 4)
    model = quick(solver="auto", model="linear", n_negatives=32, max_iter=12)
    model = with_figures(model, QUICK=quick_seconds, FEWEST_TO_TRY=200).fit(X, y)
    shape = Facts.of(sp.csr_array(X), K)
    most = max(quick_seconds, 0.3 * 1e-6 * costs.visit_cost(shape, 32) * 6000 * 12)
    spent = sum(line["predicted_seconds"] for line in model.auto_report_)
    assert len(model.auto_report_) >= 3
    assert spent <= most


def test_trials_that_all_diverge_leave_the_constant(problem, monkeypatch):
    monkeypatch.setattr(Sample, "loss", lambda *_: math.inf)
    model = quick().fit(*problem)
    assert not any(line["chosen"] for line in model.auto_report_)
    assert {line["log_loss"] for line in model.auto_report_} == {math.inf}
    assert model.resolved_params_["learning_rate"] == pytest.approx(6 / 1.75, rel=1e-6)


def test_rows_without_weight_are_not_there_for_trials_and_weights_count(problem, seed):
    X, y = problem
    weights = np.random.default_rng(seed).integers(0, 3, len(y)).astype(float)
    here = np.flatnonzero(weights)
    model, other = quick().fit(X, y, weights), quick().fit(X[here], y[here], weights[here])
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert told(model.auto_report_) == told(other.auto_report_)
    assert told(quick().fit(X[here], y[here]).auto_report_) != told(model.auto_report_)
    assert told(quick().fit(X, y, np.full(len(y), 3.0)).auto_report_) == told(quick().fit(X, y).auto_report_)


@pytest.mark.parametrize("n_classes", [1500, 1499, 1400])
def test_as_many_classes_as_rows_are_fitted(problem, n_classes):
    model = quick().fit(problem[0], np.arange(1500) % n_classes)
    assert len(model.classes_) == n_classes
    assert bool(model.auto_report_) == (n_classes < 1500)


def test_dense_rows_are_tried_as_sparse_ones_are(problem):
    X, y = problem
    sparse, dense = quick().fit(X, y).auto_report_, quick().fit(X.toarray(), y).auto_report_
    assert [line["value"] for line in sparse] == [line["value"] for line in dense]
    losses = [[line["log_loss"] for line in report] for report in (sparse, dense)]
    np.testing.assert_allclose(*losses, rtol=1e-3)  # sums in another order


def test_a_report_prints_as_a_table_and_is_told_as_it_grows(problem, capsys):
    model = quick(verbose=1).fit(*problem)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trying learning_rate=")]
    assert len(lines) == len(model.auto_report_)
    table = repr(model.auto_report_).splitlines()
    assert len(table) == 1 + len(model.auto_report_) + len(model.auto_report_.rules)
    assert table[0].split() == list(COLUMNS)
    assert len(set(map(len, table[: 1 + len(model.auto_report_)]))) == 1
    assert sum(line.rstrip().endswith("*") for line in table) == 1
    assert quick().fit(*problem).auto_report_ is not None
    assert capsys.readouterr().err == ""


def test_a_report_is_saved_with_the_model(problem, tmp_path):
    model = quick().fit(*problem)
    model.auto_report_[0]["log_loss"] = math.inf  # one that diverged
    model.save(tmp_path / "m")
    for copy in (manyclass.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert copy.auto_report_ == model.auto_report_
        assert isinstance(copy.auto_report_, Report)
        assert repr(copy.auto_report_) == repr(model.auto_report_)
    assert not hasattr(clone(model), "auto_report_")


def test_ridges_by_cross_validation_are_in_the_report(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    model = SoftmaxClassifier(random_state=0).fit(X, (X[:, :3] + rng.gumbel(size=(300, 3))).argmax(axis=1))
    assert {line["value"]: line["log_loss"] for line in model.auto_report_} == model.alpha_path_
    (chosen,) = (line["value"] for line in model.auto_report_ if line["chosen"])
    assert chosen == model.resolved_params_["alpha"]


def test_the_trial_is_on_whole_classes(problem, monkeypatch):
    X, y = problem
    seen = []
    made = Sample.of

    def spy(points, rows, random):
        seen.append(rows)
        return made(points, rows, random)

    monkeypatch.setattr(trials.Sample, "of", spy)
    with_figures(quick(), MOST_TO_TRY=1400).fit(X, y)
    (rows,) = seen
    assert len(rows) < len(y)
    assert not np.isin(np.delete(y, rows), y[rows]).any()
