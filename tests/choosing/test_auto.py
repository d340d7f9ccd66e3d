"""solver="auto": what it chooses, what it leaves alone, and what it tells."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import question, with_figures
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier, models, samplers, solvers
from manyclass.choosing.costs import Facts, embeds, full_cost, visit_cost
from manyclass.figures import FIGURES
from manyclass.fitting.trials import _Ends

BIBTEX = Facts(4_880, 1_836, 146, 68.5, True)
EURLEX57K = Facts(51_000, 5_000, 1_809, 140.0, True)
YSO = Facts(608_795, 50_000, 26_091, 7.5, True)
MNIST = Facts(60_000, 784, 10, 784.0, False)
YELP_NEXT = Facts(255_492, 20_033, 20_031, 5.7, True)
OMNIGLOT = Facts(25_968, 784, 1_623, 784.0, False)


def problem(seed, n=300, n_classes=8, n_features=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    y = (X[:, :n_classes] + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def large(seed):
    """So many classes and features a row that the exact step is predicted to take longer than it is worth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1200, 200)).astype(np.float32)
    return X, np.arange(1200) % 600


@pytest.mark.parametrize(
    ("shape", "solver"),
    [(BIBTEX, "exact"), (MNIST, "exact"), (EURLEX57K, "implicit"), (OMNIGLOT, "implicit"), (YSO, "implicit")],
)
def test_few_classes_are_trained_exactly_and_many_by_samples(shape, solver):
    assert question(SoftmaxClassifier(model="linear"), shape)["solver"].name == solver
    assert question(SoftmaxClassifier(model="linear", n_negatives=9), shape)["solver"].name == "implicit"


@pytest.mark.parametrize("shape", [BIBTEX, EURLEX57K, YSO, MNIST, YELP_NEXT, OMNIGLOT])
def test_large_data_are_not_trained_by_full_passes(shape):
    assert full_cost(shape) > FIGURES.MOST_FULL


def test_small_data_are_trained_by_full_passes_on_scaled_features(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(random_state=seed).fit(X, y)
    assert model.resolved_params_["solver"].name == "lbfgs"
    assert model.resolved_params_["model"].scaling == "standard"
    assert model.n_iter_ < model.resolved_params_["max_iter"]
    again = SoftmaxClassifier(random_state=seed, **model.resolved_params_).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.alpha_path_ == again.resolved_params_ == {}


@pytest.mark.parametrize(
    "given",
    [
        {"n_negatives": 4},
        {"sampler": "uniform"},
        {"learning_rate": 0.1},
        {"learning_rate": "grid"},
        {"max_iter": 3},
        {"early_stopping": True},
    ],
    ids=str,
)
def test_what_only_steps_have_makes_training_go_by_steps(given, seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(random_state=seed, **given).fit(X, y)
    assert model.resolved_params_["solver"].name in ("exact", "implicit")
    assert model.resolved_params_["model"].scaling == "standard"


def test_a_start_is_for_steps(seed):
    X, y = problem(seed)
    start = np.zeros((8, X.shape[1]))
    assert SoftmaxClassifier().fit(X, y, coef_init=start).resolved_params_["solver"].name == "exact"


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("row", [2.0, 100.0])
def test_costs_grow_with_classes_and_features(row, sparse):
    def at(n_classes, n_drawn, row):
        return visit_cost(Facts(10_000, 1_000, n_classes, row, sparse), n_drawn)

    assert at(100, None, row) < at(1_000, None, row) < at(10_000, None, row)
    assert at(10_000, 16, row) < at(10_000, 64, row) < at(10_000, 256, row)
    assert at(10_000, 64, row) < at(10_000, 64, 2 * row)
    assert at(40, 64, row) == at(40, 48, row)  # there are no more than 40 to draw, in three lines
    assert at(10_000, 64, row) < at(10_000, None, row)


def described(params):
    """Parameters with objects as they are written, since objects equal only themselves."""
    return {name: repr(value) for name, value in params.items()}


@pytest.mark.parametrize(
    "given",
    [
        {"n_negatives": 32},
        {"alpha": 1e-3},
        {"learning_rate": 0.7},
        {"sampler": samplers.FrequencyBlock(power=0.5)},
        {"n_negatives": 32, "alpha": 0.0, "learning_rate": 0.2},
    ],
    ids=str,
)
def test_what_is_given_wins(given, seed):
    X, y = large(seed)
    model = SoftmaxClassifier(max_iter=2, random_state=seed, **given).fit(X, y)
    assert model.resolved_params_["solver"].name == "implicit"
    assert not set(given) & set(model.resolved_params_)
    # The same model as with everything given by hand.
    by_hand = {**model.resolved_params_, **given}
    again = SoftmaxClassifier(max_iter=2, random_state=seed, **by_hand).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.alpha_path_ == again.resolved_params_ == {}


@pytest.mark.parametrize("own", [{"averaging": "polyak"}, {"decay": 0.5}, {"u_learning_rate": "tied"}, {}], ids=str)
def test_what_a_part_leaves_open_is_filled_in(own, seed):
    X, y = large(seed)
    given = solvers.Implicit(**own)
    model = SoftmaxClassifier(solver=given, max_iter=2, random_state=seed).fit(X, y)
    filled = model.resolved_params_["solver"]
    assert filled is not given
    assert given.get_params() == solvers.Implicit(**own).get_params()
    assert filled.get_params().items() >= own.items()
    # How several labels share a loss has no effect on one.
    assert {name for name, value in filled.get_params().items() if value == "auto"} == {"reduction"}
    again = SoftmaxClassifier(max_iter=2, random_state=seed, **model.resolved_params_).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize(
    "given",
    [{"n_negatives": 4}, {"sampler": "uniform"}, {"sampler": samplers.HeadTail(n_head=2)}],
    ids=str,
)
def test_options_of_sampled_steps_make_the_solver_implicit(given, seed):
    X, y = problem(seed)
    assert SoftmaxClassifier(max_iter=2).fit(X, y).resolved_params_["solver"].name == "exact"
    assert SoftmaxClassifier(max_iter=2, **given).fit(X, y).resolved_params_["solver"].name == "implicit"


def test_a_solver_chosen_by_hand_changes_nothing_else(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(solver=solvers.UMax(u_learning_rate=0.1), learning_rate=0.1).fit(X, y)
    assert described(model.resolved_params_) == described(
        {
            "solver": solvers.UMax(
                u_learning_rate=0.1, averaging="none", decay=FIGURES.DECAY_BY_HAND, formulation="proposed"
            ),
            "model": models.Linear(scaling="none"),
            "max_iter": FIGURES.PASSES_BY_HAND,
            "alpha": 0.0,
            "n_negatives": FIGURES.NEGATIVES_BY_HAND,
            "sampler": samplers.FrequencyBlock(),
        }
    )


def test_parameters_stay_as_they_were_given(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(max_iter=2)
    before = model.get_params()
    assert model.fit(X, y).get_params() == before
    assert clone(model).get_params() == before


@pytest.mark.parametrize("steps", [{"max_iter": 5}, {}], ids=["steps", "full_passes"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scaling_the_features_scales_the_weights(steps, fit_intercept, seed):
    X, y = problem(seed, n=1200)
    # Powers of two change no rounding.
    factors = 2.0 ** np.random.default_rng(seed).integers(-10, 11, X.shape[1]).astype(np.float32)
    parameters = {"model": "linear", "fit_intercept": fit_intercept, "random_state": 0, **steps}
    one = SoftmaxClassifier(**parameters).fit(X, y)
    other = SoftmaxClassifier(**parameters).fit(factors * X, y)
    np.testing.assert_array_equal(factors * other.coef_, one.coef_)
    np.testing.assert_array_equal(other.intercept_, one.intercept_)
    assert other.alpha_path_ == one.alpha_path_
    assert (len(one.alpha_path_) > 1) == (not steps)


def test_nothing_is_tried_with_a_limit_of_seconds_or_few_points(seed):
    X, y = problem(seed, n=1000)
    steps = SoftmaxClassifier(model="linear", max_iter=3)
    assert len(steps.fit(X, y).auto_report_)
    timed = steps.fit(X, y, max_seconds=1e6)
    assert not len(timed.auto_report_)
    assert timed.resolved_params_["alpha"] == pytest.approx(0.01 / 1000 * X.shape[1], rel=1e-4)
    full = SoftmaxClassifier().fit(X, y, max_seconds=1e6)
    assert full.alpha_path_ == {}
    assert full.resolved_params_["alpha"] == FIGURES.PRIOR / 1000
    assert not len(steps.fit(X[:300], y[:300]).auto_report_)


@pytest.mark.parametrize("data", [problem, pytest.param(large, marks=pytest.mark.long)])
def test_equal_seeds_give_equal_models_for_any_number_of_threads(data, seed):
    X, y = data(seed)
    X = sp.csr_array(np.where(np.abs(X) > 1, X, 0))
    fits = [SoftmaxClassifier(max_iter=3, random_state=seed, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    assert described(fits[0].resolved_params_) == described(fits[1].resolved_params_)
    np.testing.assert_array_equal(*(fit.predict_proba(X) for fit in fits))


def test_the_certificate_is_for_the_ridge_that_was_chosen(seed):
    X, y = problem(seed, n=200)
    model = SoftmaxClassifier(random_state=0).fit(X, y)
    chosen = model.resolved_params_["alpha"]
    scaled = model.coef_ * X.std(axis=0, dtype=np.float64)
    expected = model.evaluate(X, y)["log_loss"] + chosen / 2 * float(np.square(scaled).sum())
    assert chosen > 0
    assert model.certificate(X, y)["primal"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["n_negatives", "alpha", "dim", "max_iter", "learning_rate"])
def test_another_word_than_auto_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 'automatic'; it must be a number"):
        SoftmaxClassifier(**{name: "automatic"}).fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.parametrize("name", ["averaging", "decay", "u_learning_rate"])
def test_another_word_than_auto_is_refused_of_a_part(name):
    with pytest.raises(ValueError, match=f"{name} is 'automatic'; it must be one of"):
        SoftmaxClassifier(solver=solvers.Implicit(**{name: "automatic"})).fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("shape", "wide"),
    [(YSO, True), (YELP_NEXT, True), (EURLEX57K, False), (BIBTEX, False), (MNIST, False), (OMNIGLOT, False)],
)
def test_embeddings_are_for_weights_that_the_data_cannot_teach_one_by_one(shape, wide):
    assert embeds(shape) == wide
    assert not embeds(Facts(shape.n_samples, shape.n_features, shape.n_classes, shape.row, False))


@pytest.fixture
def wide(seed):
    """Sparse data with two words a row and a class for each second word."""
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 150
    words = np.stack([2 * y + rng.integers(0, 2, 600), rng.integers(300, 400, 600)], axis=1)
    return sp.csr_array((np.ones(1200, np.float32), words.ravel(), np.arange(0, 1201, 2)), shape=(600, 400)), y


NO_PAIRS = {"MOST_MET": -1.0, "MOST_MET_OF_MANY": -1.0}  # figures by which rows would always meet too many


def embedding(**parameters):
    """A SoftmaxClassifier that takes small W for large ones, and has no room for pairs."""
    return with_figures(SoftmaxClassifier(**parameters), LEAST_TO_EMBED=0, **NO_PAIRS)


def test_the_default_embeds_wide_sparse_data_and_says_so(wide, seed):
    X, y = wide
    model = embedding(random_state=seed).fit(X, y)
    used = model.resolved_params_
    assert described(used) == described(
        {
            "solver": solvers.SCENT(
                decay=FIGURES.EMBEDDED_PASSES[1], reduction="pick_all", formulation="proposed", u_learning_rate=0.5
            ),
            "max_iter": FIGURES.EMBEDDED_PASSES[0],
            "learning_rate": 1.0,
            "model": models.Embedding(),
            "sampler": samplers.All(),
            "dim": 192,
            "n_models": 3,
        }
    )
    assert model.embedding_.shape[1] % 192 == 0
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    given = SoftmaxClassifier(**used, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    "given",
    [
        {"max_iter": 2},
        {"dim": 8},
        {"n_negatives": 32},
        {"learning_rate": 0.5},
        {"alpha": 1e-5},
        {"early_stopping": True},
        {"sampler": "uniform"},
    ],
    ids=str,
)
def test_what_is_given_wins_with_embeddings_too(wide, given, seed):
    model = embedding(random_state=seed, **given).fit(*wide)
    used = {"dim": 192, "max_iter": FIGURES.EMBEDDED_PASSES[0]} | given
    assert {**model.resolved_params_, **given}.items() >= used.items()
    assert model.embedding_.shape[1] % used["dim"] == 0
    assert not set(given) & set(model.resolved_params_)


@pytest.mark.parametrize(
    "given",
    [
        {"model": "linear"},
        {"solver": "implicit"},
        {"sampler": "head_tail"},
    ],
    ids=str,
)
def test_whatever_embeddings_have_no_use_for_keeps_the_model_linear(wide, given, seed):
    X, y = wide
    model = embedding(random_state=seed, max_iter=2, **given).fit(X, y)
    assert model.coef_.shape == (150, 400)
    assert model.resolved_params_.get("model", models.Linear()).name == "linear"


@pytest.mark.filterwarnings("ignore:the best learning rate")
def test_a_grid_of_rates_keeps_the_model_linear_when_its_rate_is_found(wide, seed):
    model = embedding(random_state=seed, max_iter=2, learning_rate="grid").fit(*wide)
    assert model.coef_.shape == (150, 400)
    assert model.resolved_params_["learning_rate"] in model.learning_rate_table_


def test_candidates_keep_the_model_linear(wide, seed):
    X, y = wide
    model = embedding(random_state=seed, max_iter=2, sampler="head_tail")
    assert model.fit(X, y, candidates=np.column_stack([y, (y + 1) % 150])).coef_.shape == (150, 400)


def test_several_labels_of_wide_data_are_embedded_too(wide, seed):
    X, y = wide
    Y = sp.csr_array((np.ones(600, np.int64), (np.arange(600), y)), shape=(600, 150))
    assert embedding(random_state=seed).fit(X, Y).embedding_.shape[1] % FIGURES.RANKING_ALONE_DIM == 0


# A hidden layer on dense rows


def of_modes(seed, n=2400, n_classes=12):
    """Dense rows around three places of each class, which no linear scores tell apart."""
    rng = np.random.default_rng(seed)
    places, y = rng.normal(size=(n_classes, 3, 10)), rng.integers(0, n_classes, n)
    return (places[y, rng.integers(0, 3, n)] + 0.3 * rng.normal(size=(n, 10))).astype(np.float32), y


def test_a_hidden_layer_tells_classes_that_no_linear_scores_tell(seed):
    X, y = of_modes(seed)
    hidden = models.Embedding(activation="relu")
    model = SoftmaxClassifier(model=hidden, random_state=seed).fit(X[:1600], y[:1600])
    chosen = model.resolved_params_
    assert (chosen["max_iter"], chosen["dim"]) == (FIGURES.HIDDEN_PASSES[0], FIGURES.HIDDEN_DIM)
    assert chosen["sampler"].name == "all"
    linear = SoftmaxClassifier(model="linear", random_state=seed).fit(X[:1600], y[:1600])
    assert model.score(X[1600:], y[1600:]) > linear.score(X[1600:], y[1600:]) + 0.1
    again = SoftmaxClassifier(random_state=seed, **{"model": hidden, **chosen}).fit(X[:1600], y[:1600])
    np.testing.assert_array_equal(again.decision_function(X[:9]), model.decision_function(X[:9]))


@pytest.mark.parametrize("linear", [True, False])
def test_dense_rows_have_the_model_that_rows_held_out_find_more_probable(linear, seed):
    X, y = of_modes(seed)
    y = np.argmax(X @ X[:12].T, axis=1) if linear else y
    model = SoftmaxClassifier(random_state=seed).fit(X, y)
    assert model.resolved_params_["model"].name == ("linear" if linear else "embedding")
    tried = {line["value"]: line for line in model.auto_report_ if line["parameter"] == "model"}
    assert tried["linear"]["chosen"] == linear != tried["embedding"]["chosen"]
    assert (tried["linear"]["log_loss"] < tried["embedding"]["log_loss"]) == linear
    assert tried["linear"]["rows"] == 0.95 * len(X)
    again = SoftmaxClassifier(random_state=seed).set_params(**model.resolved_params_).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X[:9]), model.decision_function(X[:9]))


@pytest.mark.parametrize("given", [{"n_negatives": 4}, {"solver": "exact"}, {"model": "linear"}], ids=str)
def test_dense_rows_have_a_linear_model_where_what_only_that_has_is_set(given, seed):
    X, y = of_modes(seed, n=1100)
    model = SoftmaxClassifier(random_state=seed, **given).fit(X, y)
    assert model.resolved_params_["model"].name == "linear"
    assert all(line["parameter"] != "model" for line in model.auto_report_)


GIVEN = [{"alpha": 1e-4}, {"max_iter": 6}, {"learning_rate": 1.0}, {"early_stopping": True}, {"dim": 64}]


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_is_set_leaves_the_choice_of_dense_rows(linear, given, seed):
    X, y = of_modes(seed, n=1400)
    y = np.argmax(X @ X[:12].T, axis=1) if linear else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SoftmaxClassifier(random_state=seed, **given).fit(X, y)
        tried = {line["value"]: line["log_loss"] for line in model.auto_report_ if line["parameter"] == "model"}
        name = model.resolved_params_["model"].name
        assert name == ("linear" if tried["linear"] <= tried["embedding"] else name)
        assert not set(given) & set(model.resolved_params_)
        again = SoftmaxClassifier(random_state=seed, **{**model.resolved_params_, **given})
        if name == "embedding":  # a linear model may have begun at the discriminant, which is no parameter
            np.testing.assert_array_equal(again.fit(X, y).decision_function(X[:9]), model.decision_function(X[:9]))
    if not linear and "max_iter" not in given:
        assert name == "embedding"


def test_a_hidden_layer_must_be_ahead_by_more_than_chance(seed):
    out = SimpleNamespace(weights=None)
    losses = np.random.default_rng(seed).exponential(size=90)
    better = _Ends(out, 1, losses, losses - 0.1)
    by_chance = _Ends(out, 1, losses, losses - np.where(np.arange(90) % 2, 0.5, -0.45))
    assert better.is_ahead
    assert not by_chance.is_ahead


def test_the_unit_of_dense_features_changes_no_score_of_a_hidden_layer(seed):
    X, y = of_modes(seed, n=400)
    model = SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=16, random_state=seed)
    scores = model.fit(X, y).decision_function(X)
    assert model.resolved_params_["alpha"] > 0
    np.testing.assert_array_equal(clone(model).fit(1024 * X, y).decision_function(1024 * X), scores)
    assert np.ptp(scores) > 1
