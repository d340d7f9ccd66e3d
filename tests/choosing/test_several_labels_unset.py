"""What a SoftmaxClassifier with nothing set trains where rows have several labels, and how many weights a row meets."""

import numpy as np
import pytest
import scipy.sparse as sp
from planned import figures_with, question, with_figures
from scipy.special import logsumexp
from sklearn.base import clone
from test_pairs import indicator, some_rows

from manyclass import SoftmaxClassifier
from manyclass.blending import blend
from manyclass.choosing.costs import Facts, least_count, weights_met
from manyclass.choosing.plans import pairs_plan
from manyclass.figures import FIGURES
from manyclass.fitting.planner import facts_of
from manyclass.fitting.points import points_of
from manyclass.solvers import Adagrad
from manyclass.training.plan import Labels

NO_PAIRS = {"MOST_MET": -1.0, "MOST_MET_OF_MANY": -1.0}  # figures by which rows would always meet too many


def lists_of(P):
    return Labels(np.cumsum([0, *map(len, P)]), np.concatenate(P).astype(np.int32))


def names(model):
    return {name: getattr(part, "name", part) for name, part in model.resolved_params_.items()}


@pytest.mark.parametrize("least", [1, 2, 5])
def test_weights_met_are_counted_from_a_sample_of_features(least, seed):
    X, P = some_rows(seed, n=300, n_classes=30)
    Y = indicator(P, 30)
    pairs = least <= (X != 0).astype(int).T @ Y  # (D, K)
    true = ((X != 0) @ pairs.sum(axis=1)).mean()
    found = weights_met(sp.csr_array(X), lists_of(P), 30)[least]
    # 256 of the stored values, whose features differ by their number of classes.
    of_value = pairs.sum(axis=1)[np.nonzero(X)[1]]
    error = of_value.std() / of_value.mean() / 256**0.5 if true else 0
    assert found == pytest.approx(true, rel=5 * error + 1e-6)
    assert found == weights_met(X, lists_of(P), 30)[least]


def test_no_row_meets_a_weight_of_empty_rows():
    assert set(weights_met(np.zeros((4, 3), np.float32), lists_of([[0]] * 4), 2).values()) == {0.0}


def test_several_labels_get_a_hybrid(seed):
    X, P = some_rows(seed, n=200)
    model = SoftmaxClassifier(random_state=seed).fit(X, indicator(P))
    by_hand = SoftmaxClassifier(model="hybrid", random_state=seed).fit(X, indicator(P))
    np.testing.assert_array_equal(model.decision_function(X), by_hand.decision_function(X))
    assert names(model)["model"] == "hybrid"
    again = SoftmaxClassifier(random_state=seed, **model.resolved_params_).fit(X, indicator(P))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_pairs_of_few_rows_are_left_out_where_rows_meet_too_many(seed):
    X, P = some_rows(seed, n=200, n_classes=60)
    met = weights_met(X, lists_of(P), 60)
    assert met[1] > met[5] > 0
    # Where pairs of five rows are too many, those of more rows are fewer still.
    assert least_count(dict.fromkeys((1, 2, 3, 5), 6e4) | {10: 4e4, 20: 1.1e4, 30: 9e3}) == 30
    assert least_count(dict.fromkeys(FIGURES.LEAST_COUNTS, 4e4)) == 1
    model = with_figures(SoftmaxClassifier(random_state=seed), MOST_MET=met[5]).fit(X, indicator(P, 60))
    assert 1 < model.resolved_params_["model"].min_count <= 5
    model = with_figures(SoftmaxClassifier(random_state=seed), **NO_PAIRS).fit(sp.csr_array(X), indicator(P, 60))
    assert names(model)["model"] == "embedding"
    assert model.resolved_params_["solver"].reduction == "margin"


def test_rare_features_keep_all_their_pairs_where_frequent_ones_meet_too_many():
    # A feature of all rows, and one of each class: the first meets all classes, the others one.
    n_classes = 60
    y = np.arange(3 * n_classes) % n_classes
    X = sp.csr_array(np.hstack((np.ones((len(y), 1)), np.eye(n_classes)[y])).astype(np.float32))
    labels = lists_of(y[:, np.newaxis])
    assert weights_met(X, labels, n_classes, (5,), 10) == pytest.approx({5: 1}, rel=0.2)  # draws of features

    def facts(**values):
        values = {"FEW_CLASSES_OF_A_FEATURE": 10} | values
        with figures_with(**values):
            return Facts.of(X, n_classes, labels, several=True)

    assert (facts(MOST_MET=30).least_count, facts(MOST_MET=30).few_classes) == (5, 10)
    assert facts(MOST_MET=100).few_classes == 0  # all pairs are affordable
    assert facts(MOST_MET=0, MOST_MET_OF_MANY=0).few_classes == 0  # nor are those of rare features
    model = with_figures(SoftmaxClassifier(random_state=0), FEW_CLASSES_OF_A_FEATURE=10, MOST_MET=30)
    model.fit(X, np.eye(n_classes, dtype=int)[y])
    assert model.resolved_params_["model"].few_classes == 10
    # Embeddings may have all of the share, but no pair beside the rare ones is there without margins.
    alone = clone(model).set_params(model=clone(model.resolved_params_["model"]).set_params(margins="ignore"))
    assert len(alone.fit(X, np.eye(n_classes, dtype=int)[y])._weights.classes) == n_classes


@pytest.mark.parametrize(
    "given",
    [{"solver": "adagrad"}, {"sampler": "search"}, {"model": "linear"}],
    ids=lambda given: next(iter(given)),
)
def test_a_part_that_a_hybrid_has_not_keeps_the_linear_model(given, seed):
    X, P = some_rows(seed)
    assert SoftmaxClassifier(random_state=seed, max_iter=2, **given).fit(X, indicator(P)).coef_.shape == (9, 12)


def test_dense_rows_get_a_hybrid_where_there_are_few_weights_and_else_a_linear_model(seed):
    _, P = some_rows(seed)
    X = np.random.default_rng(seed).normal(size=(len(P), 6))
    assert names(SoftmaxClassifier(random_state=seed).fit(X, indicator(P)))["model"] == "hybrid"
    linear = with_figures(SoftmaxClassifier(random_state=seed, max_iter=2), **NO_PAIRS).fit(X, indicator(P))
    assert linear.coef_.shape == (9, 6)


@pytest.mark.parametrize(("n_labels", "loss"), [(1, "pick_all"), (2, "margin"), (9, "decoupled")])
def test_embeddings_beside_pairs_have_the_loss_of_the_number_of_labels(n_labels, loss):
    X, _ = some_rows(0)
    P = [np.arange(n_labels)] * len(X)
    model = SoftmaxClassifier(model="hybrid", random_state=0)
    points = points_of(model._plans().caller, X, indicator(P, 12), None, None, several=True)
    plan = pairs_plan(question(model, facts_of(points))).plan
    losses = {run.loss if run.double_sum is None else run.double_sum.reduction for run in plan.embeddings}
    assert losses == ({"margin", "decoupled"} if loss == "margin" else {loss})  # by margins and by unbiased steps
    assert plan.pairs.loss == ("margin" if loss == "margin" else "decoupled")
    assert plan.pairs.smoothing == (FIGURES.SMOOTHING if loss == "margin" else 0)


def rows_that_want_a_small_rate(n, seed):
    """Labels hardly depend on what the rows hold, so that large steps learn noise."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array((rng.random((n, 40)) < 0.3).astype(np.float32))
    P = [np.sort(rng.choice(12, 3, replace=False, p=np.arange(1, 13) / 78)) for _ in range(n)]
    return X, indicator(P, 12)


def test_the_rate_of_pairs_alone_is_tried_on_rows_held_out(seed):
    X, Y = rows_that_want_a_small_rate(1200, seed)
    solver = Adagrad(reduction="decoupled")  # margins have a rate of their own, which is not tried
    model = SoftmaxClassifier(model="pairs", solver=solver, random_state=seed, max_iter=2).fit(X, Y)
    report = [line for line in model.auto_report_ if line["parameter"] != "member"]
    assert [line["parameter"] for line in report] == ["learning_rate"] * len(report)
    assert 2 <= len(report) <= FIGURES.PAIR_RATES
    best = min(report, key=lambda line: line["log_loss"])
    assert best["chosen"]
    assert sum(line["chosen"] for line in report) == 1
    assert best["value"] == model.resolved_params_["learning_rate"] < report[0]["value"]
    assert sum(line["predicted_seconds"] for line in report) <= FIGURES.QUICK
    assert [line["rows"] for line in report] == [960] * len(report)
    again = SoftmaxClassifier(model="pairs", solver=solver, random_state=seed, max_iter=2).fit(X, Y)
    assert [line["log_loss"] for line in again.auto_report_] == [line["log_loss"] for line in model.auto_report_]


def test_no_rate_is_tried_of_few_rows_or_by_the_clock(seed):
    X, Y = rows_that_want_a_small_rate(1200, seed)
    few = SoftmaxClassifier(random_state=seed, max_iter=1).fit(X[:900], Y[:900])
    timed = SoftmaxClassifier(random_state=seed, max_iter=1).fit(X, Y, max_seconds=100.0)
    for model in (few, timed):
        assert {line["parameter"] for line in model.auto_report_} == {"member"}


def test_a_trial_has_the_decoupled_loss_of_the_definition(seed):
    X, P = some_rows(seed)
    model = SoftmaxClassifier(model="pairs", random_state=seed, learning_rate=1.0).fit(X, indicator(P))
    r = np.random.default_rng(seed).random(len(P)) + 0.5
    z = model.decision_function(sp.csr_array(X)).astype(np.float64)
    losses = [
        sum(logsumexp([row[k], *np.delete(row, labels)]) - row[k] for k in labels)
        for row, labels in zip(z, P, strict=True)
    ]
    found = blend.decoupled_loss(model._weights, blend.ScoredRows(X, lists_of(P), 1, r))
    assert found == pytest.approx(np.average(losses, weights=r), rel=1e-5)  # scores in float32


def test_no_rate_is_tried_where_hardly_a_row_held_out_has_a_class_that_training_has(seed):
    X, _ = rows_that_want_a_small_rate(1200, seed)
    alone = np.arange(1200) // 2 * (np.arange(1200) % 20 < 2) + (np.arange(1200) % 20 >= 2) * (1200 + np.arange(1200))
    model = SoftmaxClassifier(model="pairs", random_state=seed, max_iter=1).fit(X, alone)
    assert not len(model.auto_report_)
    some = SoftmaxClassifier(model="pairs", random_state=seed, max_iter=1).fit(X, np.arange(1200) % 300)
    assert len(some.auto_report_) >= 2
