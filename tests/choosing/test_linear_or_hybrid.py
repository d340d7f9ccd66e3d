"""Linear or a hybrid, where nothing says which: what is tried, what is taken, and where nothing is."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures

from manyclass import SoftmaxClassifier
from manyclass.choosing.figures import FIGURES
from manyclass.classifiers.base import planner_of
from manyclass.fitting import rivals
from manyclass.fitting.softmax_planner import SoftmaxPlanner
from manyclass.fitting.trials import Sample
from manyclass.parts import Parameters
from manyclass.training.state import FitReport, State
from manyclass.weights.weights import Weights

K = 60
# Small data count as large ones. No ridges are tried, as so many would take too long, no draw is clear, and a hybrid is
# tried by one run; see the tests of these.
FEW_TRIALS = {
    **{"CLEAR_MODEL": 0.0, "MOST_GAIN_OF_RUNS": 0.0, "MOST_EXACT": 0.0, "MOST_FULL": 0.0, "FEWEST_TO_TRY": 200},
    **{"SIZES": (520, 800), "RIDGES": (0.0,) * 100_000},
}
RIDGES = {"RIDGES": FIGURES.RIDGES, "QUICK": math.inf}
EMBEDS = {"LEAST_TO_EMBED": 0, "NUMBERS_A_VALUE": 0}
MODELS = ("linear", "hybrid")


@pytest.fixture
def problem(seed):
    """Sparse rows of two words, one of which tells the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, 1200)
    words = np.stack([2 * y + rng.integers(0, 2, 1200), rng.integers(2 * K, 2 * K + 50, 1200)], axis=1)
    return sp.csr_array((np.ones(2400, np.float32), words.ravel(), np.arange(0, 2401, 2)), shape=(1200, 2 * K + 50)), y


def fit(problem, weights=None, *, fit_parameters=None, figures=None, **parameters):
    model = SoftmaxClassifier(**{"max_iter": 2, "random_state": 0} | parameters)
    model = with_figures(model, **FEW_TRIALS | (figures or {}))
    return model.fit(*problem, sample_weight=weights, **fit_parameters or {})


def lines(model):
    return [line for line in model.auto_report_ if line["parameter"] == "model"]


def told(model):
    return [{key: value for key, value in line.items() if key != "seconds"} for line in model.auto_report_]


@pytest.fixture
def losses(monkeypatch):
    """Outcomes of the trials in their order, instead of fits."""

    def tell(*values):
        outcomes = iter(values)
        monkeypatch.setattr(rivals, "loss_of_fit", lambda *_: next(outcomes))

    return tell


def test_each_model_is_tried_at_both_sizes_and_the_report_tells(problem):
    model = fit(problem)
    found = lines(model)
    assert [line["value"] for line in found] == [*MODELS, *MODELS]
    assert found[0]["rows"] == found[1]["rows"] >= 0.8 * 520
    assert found[2]["rows"] == found[3]["rows"] >= 0.8 * 800
    assert all(line["passes"] == 2 and line["classes"] < K for line in found)
    rows = [found[0]["rows"], found[2]["rows"]]  # a fifth as many are held out of each
    losses = {name: [line["log_loss"] for line in found if line["value"] == name] for name in MODELS}
    best = min(MODELS, key=lambda name: np.average(losses[name], weights=rows))
    assert {line["value"] for line in found if line["chosen"]} == {best}
    assert model.resolved_params_["model"].name == best
    again = SoftmaxClassifier(max_iter=2, random_state=0, **model.resolved_params_).fit(*problem)
    np.testing.assert_array_equal(again.predict_proba(problem[0]), model.predict_proba(problem[0]))
    assert again.auto_report_ == []


@pytest.mark.parametrize(
    ("by_one", "by_all", "best"),
    [
        ((0.9, 0.9), (), "hybrid"),  # a mean is better still
        ((1.3, 1.3), (), "linear"),  # no mean gains so much
        ((1.1, 1.1), (1.05, 0.9), "hybrid"),  # the second draw has more rows
        ((1.1, 1.1), (0.99, 1.05), "linear"),
    ],
    ids=str,
)
def test_a_hybrid_is_tried_by_as_many_runs_as_its_fit_makes_where_one_is_behind(
    by_one, by_all, best, problem, monkeypatch
):
    outcomes, tried = iter([1.0, by_one[0], 1.0, by_one[1], *by_all]), []
    told = lambda planner, *_: tried.append(planner.parameters["n_models"]) or next(outcomes)  # noqa: E731
    monkeypatch.setattr(rivals, "loss_of_fit", told)
    model = fit(problem, figures={"MOST_GAIN_OF_RUNS": 1.2})
    assert tried == [1] * 4 + [3] * len(by_all)
    assert model.resolved_params_["model"].name == best
    predicted = [line["predicted_seconds"] for line in lines(model)]
    np.testing.assert_allclose(predicted[4:], 3 * np.array(predicted[1:4:2])[: len(by_all)])
    assert rivals.runs_of(Parameters.of(SoftmaxClassifier(dim=5)), object(), None) == 1


def test_a_draw_that_is_clear_is_the_last_one(problem, losses):
    for outcomes, best in (((1.0, 0.74), "hybrid"), ((0.74, 1.0), "linear")):
        losses(*outcomes)
        model = fit(problem, figures={"CLEAR_MODEL": 0.75})
        assert [line["value"] for line in lines(model)] == list(MODELS)
        assert model.resolved_params_["model"].name == best


@pytest.mark.parametrize(
    ("outcomes", "best", "ridges"),
    [
        ((1.0, 0.74), "hybrid", False),
        ((0.74, 1.0), "linear", True),
        ((1.0, 0.8, 1.0, 0.8, 1.0, 0.8), "hybrid", True),
        ((0.8, 1.0, 0.8, 1.0, 0.8, 1.0), "linear", True),
    ],
    ids=str,
)
def test_ridges_are_not_tried_for_a_linear_model_that_loses_clearly(outcomes, best, ridges, problem, losses):
    losses(*outcomes)
    model = fit(problem, figures={"CLEAR_MODEL": 0.75, **RIDGES})
    assert [line["chosen"] for line in model.auto_report_ if line["parameter"] == "alpha"].count(True) == ridges
    assert len(lines(model)) == len(outcomes)
    assert model.resolved_params_["model"].name == best
    assert bool(model.alpha_path_) == (best == "linear")


@pytest.mark.parametrize(("outcomes", "ridges"), [((1.0, 0.9) * 2, False), ((0.9, 1.0) * 2, True)], ids=str)
def test_where_the_rule_has_a_hybrid_ridges_are_tried_once_it_has_lost(outcomes, ridges, problem, losses):
    losses(*outcomes)
    model = fit(problem, figures={**EMBEDS, **RIDGES})
    tried = [line["parameter"] == "alpha" for line in model.auto_report_]
    assert any(tried) == ridges
    assert tried == sorted(tried)  # after all other trials
    assert hasattr(model, "embedding_") == (not ridges)


def test_a_trial_calls_classes_as_the_fit_does():
    names = []

    class Planner(SoftmaxPlanner):
        def run(self, points, watch, beginning):
            names.append(points.classes[points.labels.ids].tolist())
            weights = Weights.zeros(points.n_classes, 2, by_feature=False)
            return State.of_fit(points, weights, [1.0], fit_report=FitReport({"max_iter": 1}))

    x = np.eye(2, dtype=np.float32)
    labels = np.array([1, 0], dtype=np.int32)
    sample = Sample(x, labels, None, x[:1], labels[:1], None, np.array([3, 5]))
    own = planner_of(SoftmaxClassifier())
    planner = Planner(own.parameters, own.caller)
    assert rivals.loss_of_fit(planner, sample, np.array(["c", "e"])) == pytest.approx(np.log(2), rel=1e-6)
    assert names == [["e", "c"]]


@pytest.mark.parametrize(
    ("outcomes", "best"),
    [
        ((1.0, 2.0, 3.0, 2.1), "hybrid"),  # 2.2 and 2.1: the second draw has more rows
        ((1.0, 2.0, 3.0, 2.9), "linear"),  # 2.2 and 2.5
        ((1.0, 1.0, 1.0, 1.0), "linear"),  # of equals the first
        ((math.inf, 9.0, 1.0, 9.0), "hybrid"),  # one that diverged
        ((1.0, math.inf, 9.0, 1.0), "linear"),
    ],
    ids=str,
)
def test_the_least_mean_loss_wins(outcomes, best, problem, losses):
    losses(*outcomes)
    model = fit(problem)
    assert model.resolved_params_["model"].name == best
    assert {line["value"] for line in lines(model) if line["chosen"]} == {best}


@pytest.mark.parametrize("embeds", [True, False])
def test_the_rule_decides_where_all_trials_diverge(embeds, problem, losses):
    losses(*[math.inf] * 4)
    model = fit(problem, figures=EMBEDS if embeds else {})
    assert hasattr(model, "embedding_") == embeds
    assert not any(line["chosen"] for line in lines(model))


@pytest.mark.parametrize(
    "given",
    [
        {"model": "linear"},
        {"model": "embedding"},
        {"solver": "implicit"},
        {"sampler": "uniform"},
        {"dim": 8},
        {"alpha": 0.0},
        {"learning_rate": 0.5},
        {"learning_rate": "grid"},
        {"early_stopping": True},
        {"fit_parameters": {"max_seconds": 1e6}},
        {"fit_parameters": {"coef_init": np.zeros((K, 2 * K + 50))}},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the best learning rate")
def test_the_model_is_not_tried_where_something_says_which(given, problem):
    embeds = EMBEDS if "dim" in given else {}  # a length of embeddings is refused of linear models
    assert lines(fit(problem, figures=embeds, **given)) == []


def test_where_a_linear_model_would_be_too_large_the_hybrid_is_not_tried(problem):
    model = fit(problem, figures={"LARGEST_TRIED": 0})
    assert lines(model) == []
    assert model.resolved_params_["model"].name == "hybrid"
    assert lines(fit((problem[0].toarray(), problem[1]), figures={"LARGEST_TRIED": 0})) == []


def test_embeddings_are_tried_where_rows_would_meet_too_many_weights(problem):
    figures = {"MOST_MET": -1.0, "MOST_MET_OF_MANY": -1.0}
    assert {line["value"] for line in lines(fit(problem, figures=figures))} == {"linear", "embedding"}
    figures["MOST_EXACT"] = math.inf  # small, where embeddings alone are no better
    assert lines(fit(problem, figures=figures)) == []


def test_dense_rows_have_a_hidden_layer_as_the_rival(problem):
    X, y = problem
    assert {line["value"] for line in lines(fit((X.toarray(), y)))} == {"linear", "embedding"}


def test_few_rows_and_several_labels_are_not_tried(problem):
    X, y = problem
    assert lines(fit((X[:190], y[:190]))) == []
    Y = sp.csr_array((np.ones(len(y), np.int64), (np.arange(len(y)), y)), shape=(len(y), K))
    assert lines(fit((X, Y))) == []


def test_trials_of_the_model_keep_to_what_is_left(problem):
    def spent_and_made(seconds):
        model = fit(problem, figures={"QUICK": seconds, "MOST_OF_FIT": 0.0})
        return sum(line["predicted_seconds"] for line in model.auto_report_), lines(model)

    for seconds in (0.0, 1e-3, 0.02, 0.05, 0.1, 3.0):
        spent, made = spent_and_made(seconds)
        # Whole classes are a few rows more than were asked for: half of the largest class, on average, of twenty or so.
        assert spent <= 1.1 * seconds
    assert made
    assert not spent_and_made(0.0)[1]


def test_equal_seeds_choose_equally_for_any_number_of_threads(problem):
    one, two = (fit(problem, n_jobs=n) for n in (1, 2))
    assert told(one) == told(two)
    np.testing.assert_array_equal(one.predict_proba(problem[0]), two.predict_proba(problem[0]))


def test_rows_without_weight_are_not_there(problem, seed):
    X, y = problem
    weights = np.random.default_rng(seed).integers(0, 3, len(y)).astype(float)
    here = np.flatnonzero(weights)
    assert told(fit(problem, weights)) == told(fit((X[here], y[here]), weights[here]))


def test_draws_are_whole_classes_where_some_can_be(seed):
    random = np.random.RandomState(seed)
    large = np.random.default_rng(seed).permutation(np.repeat(np.arange(100), 50)).astype(np.int32)
    (rows,) = rivals._draws(large, [600, 2500], random, FIGURES)  # 12 classes would be too few
    assert len(rows) == 2500
    assert set(np.bincount(large[rows])) <= {0, 50}
    few = np.repeat(np.arange(20), 100).astype(np.int32)
    assert [len(rows) for rows in rivals._draws(few, [600, 1500], random, FIGURES)] == [600, 1500]
