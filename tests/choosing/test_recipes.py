"""The list of what "auto" stands for: no recipe is dead, all of it is told, and what is set replaces a field of it."""

import inspect
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
from house import ROOT
from planned import figures_with, lists, question, with_figures

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load, models, samplers, solvers
from manyclass.choosing import recipes as module
from manyclass.choosing.costs import Facts
from manyclass.choosing.recipes import OPEN, Either, Recipe, is_next, recipes, table, words_of
from manyclass.figures import FIGURES

X = sp.csr_array(np.eye(12, dtype=np.float32))


def facts(n_samples=2000, n_features=1000, n_classes=100, *, row=5.0, dense=False, n_labels=0):
    """Facts of data of this size; squares and pairs are those of small ones."""
    labels = lists(X.shape[0], max(1, n_labels))
    x = X.toarray() if dense else X
    measured = Facts.of(x, max(n_classes, n_labels), labels, several=n_labels > 0)
    return replace(measured, n_samples=n_samples, n_features=n_features, n_classes=n_classes, row=row)


SPARSE, FEW, DENSE = facts(), facts(n_samples=200, n_features=20, n_classes=5), facts(dense=True)
WIDE = facts(200_000, 20_000, 20_000)  # W takes 1.6 GB and has 400 numbers for each one stored
LONG = facts(500_000, 2000, 3000, row=100.0)
LISTS, LONG_LISTS, DENSE_LISTS = facts(n_labels=3), facts(n_labels=11, n_classes=9000), facts(n_labels=3, dense=True)
NEXT = replace(SPARSE, of_columns=True)  # items of histories
IMAGES = facts(60_000, 784, 10, row=784.0, dense=True)


def many_pairs(data):
    """The same where rows meet too many weights on pairs."""
    return replace(data, least_count=None)


SOFTMAX = SoftmaxClassifier
PICKED = [
    (SOFTMAX(), SPARSE, "a blend"),
    (SOFTMAX(), WIDE, "a blend"),
    (SOFTMAX(), LONG_LISTS, "a blend"),
    (SOFTMAX(model="hybrid"), FEW, "a blend"),
    (SOFTMAX(), facts(200, 20_000, 20_000), "a blend"),
    (SOFTMAX(), NEXT, "a blend"),
    (SOFTMAX(), LISTS, "several labels"),
    (SOFTMAX(), DENSE_LISTS, "several labels"),
    (SOFTMAX(model="pairs"), SPARSE, "a blend"),
    (SOFTMAX(model="pairs"), LISTS, "a blend"),
    (SOFTMAX(), many_pairs(SPARSE), "embeddings alone"),
    (SOFTMAX(), many_pairs(LONG_LISTS), "embeddings alone"),
    (SOFTMAX(), many_pairs(LISTS), "embeddings by margins"),
    (SOFTMAX(solver=solvers.Adagrad(reduction="margin")), LISTS, "embeddings by margins"),
    (SOFTMAX(model=models.Embedding(activation="relu")), DENSE, "dense rows"),
    (SOFTMAX(model="embedding"), SPARSE, "embeddings alone"),
    (SOFTMAX(model="embedding"), LISTS, "embeddings alone"),
    (SOFTMAX(model="linear"), LISTS, "minibatches"),
    (SOFTMAX(sampler="search"), SPARSE, "minibatches"),
    (SOFTMAX(), many_pairs(DENSE_LISTS), "minibatches"),
    (SOFTMAX(), FEW, "full passes"),
    (SOFTMAX(solver="lbfgs"), SPARSE, "full passes"),
    (SOFTMAX(solver="lbfgs"), LISTS, "full passes"),
    (SOFTMAX(solver="implicit"), SPARSE, "sampled steps"),
    (SOFTMAX(solver="umax"), SPARSE, "steps by hand"),
    (SOFTMAX(model="linear"), LONG, "sampled steps"),
    (SOFTMAX(n_negatives=9), FEW, "sampled steps"),
    (SOFTMAX(), IMAGES, "exact steps"),
    (MarginClassifier(), SPARSE, "margins"),
    (MarginClassifier(), WIDE, "margins"),
    (AugmentReduceClassifier(), SPARSE, "utilities"),
]


@pytest.mark.parametrize(("model", "data", "name"), PICKED, ids=str)
def test_the_case_picks_the_recipe(model, data, name):
    assert question(model, data).recipe.name == name


def test_each_recipe_is_picked_by_some_data():
    assert {name for *_, name in PICKED} == {recipe.name for recipe in recipes()}
    names = [recipe.name for recipe in recipes()]
    assert len(names) == len(set(names)) <= 12


def test_a_call_that_goes_on_is_no_blend_of_one_label():
    assert question(SOFTMAX(), SPARSE, by_steps=True).recipe.name == "exact steps"
    assert question(SOFTMAX(), LISTS, by_steps=True).recipe.name == "several labels"
    assert question(SOFTMAX(), LISTS, by_steps=True)["reduction"] == "decoupled"
    assert question(SOFTMAX(), LISTS)["reduction"] == "margin"
    stream = question(SOFTMAX(solver="implicit"), SPARSE, by_steps=True, goes_on=True)
    assert stream.falls
    assert stream["learning_rate"] == FIGURES.RELATIVE_RATE_OF_STREAM / 2  # rows of length 1, and the intercept


def test_all_that_may_be_left_open_is_a_field():
    for cls in (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier):
        is_open = {name for name, p in inspect.signature(cls).parameters.items() if p.default == "auto"}
        assert is_open <= {*OPEN, "n_models"}
    assert {s.name for solver in solvers.SOLVERS.values() for s in solver.settings if s.default == "auto"} <= set(OPEN)


def test_fields_have_the_numbers_of_the_figures():
    with figures_with(PASSES_SAMPLED=7):
        assert question(SoftmaxClassifier(solver="implicit", model="linear"), SPARSE)["max_iter"] == 7


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 1.0},
        {"alpha": 1e-5},
        {"early_stopping": True},
        {"dim": 48},
        {"max_iter": 3},
        {"n_negatives": 16},
        {"sampler": "uniform"},
        {"fit_intercept": False},
        {"n_models": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [SPARSE, NEXT, LISTS, LONG_LISTS], ids=["sparse", "next", "lists", "long_lists"])
def test_what_is_set_replaces_a_field_and_not_the_recipe(given, data):
    choice, as_open = question(SoftmaxClassifier(**given), data), question(SoftmaxClassifier(), data)
    assert choice.recipe.name == as_open.recipe.name
    assert choice["model"].name == "hybrid"
    [(name, value)] = given.items()
    if name in OPEN and name != "sampler":
        assert choice[name] == value
    own = {"learning_rate", "max_iter"}  # those of the weights on pairs
    for field in {"learning_rate", "max_iter", "decay", "alpha", "dim"} - ({name} - own):
        assert choice.beside("embeddings")[field] == as_open.beside("embeddings")[field]
    if name == "n_negatives":
        assert choice.beside("embeddings")["sampler"].name in ("frequency", "uniform")
    if name == "sampler":
        assert choice.beside("embeddings")["sampler"].name == "uniform"


def problem(seed, several):
    """Sparse rows of two words, one of which tells the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 60, 1100)
    words = np.stack([2 * y + rng.integers(0, 2, 1100), rng.integers(120, 170, 1100)], axis=1)
    rows = sp.csr_array((np.ones(2200, np.float32), words.ravel(), np.arange(0, 2201, 2)), shape=(1100, 170))
    second = (y + 1 + rng.integers(0, 2, 1100)) % 60
    Y = sp.csr_array((np.ones(2200, int), (np.tile(np.arange(1100), 2), np.append(y, second))), shape=(1100, 60))
    return rows, Y if several else y


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 1.0},
        {"alpha": 1e-2},
        {"early_stopping": True, "n_iter_no_change": 1},
        {"dim": 8},
        {"max_iter": 1},
        {"n_negatives": 16},
        {"sampler": "uniform", "n_negatives": 16},
    ],
    ids=str,
)
def test_what_is_set_changes_a_blend_that_stays_one(given, several, seed):
    rows, y = problem(seed, several)
    one = {"random_state": seed, "n_models": 1}
    model = SoftmaxClassifier(**one, **given).fit(rows, y)
    assert model.resolved_params_["model"].name == "hybrid"
    assert not set(given) & set(model.resolved_params_)
    assert model.embedding_.shape[1] % given.get("dim", 256 if several else 64) == 0
    as_open = SoftmaxClassifier(**one).fit(rows, y)
    # Early stopping may find no pass too many, and weights on pairs, whose passes max_iter is, may have no share.
    if given.keys().isdisjoint({"early_stopping", "max_iter"}):
        assert np.abs(model.decision_function(rows[:50]) - as_open.decision_function(rows[:50])).max() > 0
    again = SoftmaxClassifier(**{**one, **model.resolved_params_, **given}).fit(rows, y)
    np.testing.assert_array_equal(again.decision_function(rows[:50]), model.decision_function(rows[:50]))


def test_draws_of_a_sampler_that_draws_none_are_refused(seed):
    rows, y = problem(seed, several=False)
    with pytest.raises(ValueError, match="n_negatives=16 has no effect with sampler='all'"):
        SoftmaxClassifier(sampler="all", n_negatives=16).fit(rows, y)
    many = SoftmaxClassifier(n_negatives=1000, n_models=1, random_state=seed).fit(rows, y)  # every class
    assert many.resolved_params_["sampler"].name == "all"


def test_a_field_may_be_one_of_two_values():
    draws = [question(SOFTMAX(), data).beside("embeddings")["n_negatives"] for data in (SPARSE, NEXT)]
    assert draws == [FIGURES.NEGATIVES_BATCHES, FIGURES.NEGATIVES_NEXT]
    models_of_margins = [question(MarginClassifier(), data)["model"].name for data in (SPARSE, WIDE)]
    assert models_of_margins == ["linear", "embedding"]
    assert (
        words_of(Either(is_next, 3, Either(is_next, "a", "b"))) == "3 of next items, else 'a' of next items, else 'b'"
    )


@pytest.mark.parametrize("data", [SPARSE, NEXT, LISTS], ids=["sparse", "next", "lists"])
def test_a_limit_of_seconds_keeps_the_recipe_and_tries_nothing(data, seed):
    assert question(SoftmaxClassifier(), data, timed=True)["model"].name == "hybrid"
    rows, y = problem(seed, several=False)
    model = SoftmaxClassifier(random_state=seed).fit(rows, y, max_seconds=100.0)
    assert model.resolved_params_["model"].name == "hybrid"
    assert all(line["parameter"] != "learning_rate" for line in model.auto_report_)


@pytest.mark.parametrize("given", [{"sampler": "head_tail"}, {"solver": "implicit"}, {"model": "linear"}], ids=str)
def test_a_part_that_a_blend_has_not_picks_the_recipe_that_has_it(given):
    assert question(SoftmaxClassifier(**given), SPARSE)["model"].name == "linear"


@pytest.mark.parametrize("circumstances", [{"candidates": True}, {"started": True}, {"by_steps": True}], ids=str)
def test_what_only_linear_models_have_picks_one(circumstances):
    assert question(SoftmaxClassifier(), SPARSE, **circumstances)["model"].name == "linear"
    assert question(SoftmaxClassifier(learning_rate="grid"), SPARSE)["model"].name == "linear"


def test_pairs_that_max_memory_has_no_room_for_are_left_out():
    large = facts(200_000, 30_000, 30_000)
    assert question(SoftmaxClassifier(), large, most_bytes=2e9).recipe.name == "a blend"
    assert question(SoftmaxClassifier(), large, most_bytes=10e6).recipe.name == "embeddings alone"
    assert question(SoftmaxClassifier(), SPARSE, most_bytes=1e5).recipe.name == "embeddings alone"  # W does not fit


# Sets of bench/decisions.md, one label a row: rows, features, classes and stored values a row.
PICKS = {
    "bibtex": ((4_880, 1_836, 146, 68.5), ("exact", 20, None, 1.0)),
    "mnist": ((60_000, 784, 10, 784.0), ("exact", 20, None, 1.0)),
    "eurlex57k": ((51_000, 5_000, 1_809, 140.0), ("implicit", 12, 256, 6.0)),
}


@pytest.mark.parametrize("name", PICKS)
def test_what_is_picked_for_linear_models_of_known_sets(name):
    (n_samples, n_features, n_classes, row), expected = PICKS[name]
    data = facts(n_samples, n_features, n_classes, row=row, dense=name == "mnist")
    choice = question(SoftmaxClassifier(fit_intercept=False, model="linear"), data)
    solver = choice["solver"].name
    drawn = None if solver == "exact" else choice["n_negatives"]
    assert (solver, choice["max_iter"], drawn, choice["learning_rate"]) == expected
    assert choice["averaging"] == "suffix"
    assert choice.tries("learning_rate")


# In words


def test_a_fit_tells_its_recipe_also_when_it_is_read_again(seed, tmp_path):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 5
    model = SoftmaxClassifier(solver="implicit", learning_rate=0.1, random_state=seed).fit(x, y)
    lines = model.auto_report_.rules
    assert lines["recipe"].startswith("sampled steps (")
    assert lines.keys() == {"recipe", *model.resolved_params_}
    assert lines["max_iter"] == "12"
    assert f"max_iter, {lines['max_iter']}" in repr(model.auto_report_)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").auto_report_.rules == lines


def test_help_and_the_documentation_have_each_recipe():
    words = " ".join(inspect.getdoc(module).split())
    assert len(table()) == len(recipes())
    for line in table():
        for cell in line:
            assert " ".join(cell.split()) in words
    assert ".. recipes::" in (ROOT / "python/docs/auto.rst").read_text("utf-8")


def test_fields_are_values_or_functions_with_words():
    for member in (member for recipe in recipes() for member in (recipe, *recipe.beside)):
        for field in fields(Recipe):
            value = getattr(member, field.name)
            if field.name != "beside":
                assert re.search(r"\w", words_of(value)) or value == ()
                assert "{" not in words_of(value)


def test_what_is_set_is_asked_of_no_recipe():
    choice = question(SoftmaxClassifier(n_negatives=7, solver=solvers.Implicit(decay=0.25)), WIDE)
    assert (choice["n_negatives"], choice["decay"]) == (7, 0.25)
    assert isinstance(choice["sampler"], samplers.Sampler)


def test_numbers_in_the_text_on_trials_are_those_of_the_figures():
    words, f = " ".join(inspect.getdoc(module).split()), FIGURES
    for phrase in (
        f"{100 * f.MOST_OF_FIT:.0f} % of the predicted seconds of the fit, or to {f.QUICK:.0f} predicted seconds",
        f"fewer than {f.FEWEST_TO_TRY:,} rows",
        f"{f.MOST_TO_TRY:,} at most",
        f"lower by {100 * (1 - f.BETTER_START):.0f} %",
        f"On {f.MOST_ROWS_OF_PAIRS:,} random rows",
        f"by {f.FOLDS}-fold cross-validation",
    ):
        assert phrase in words


def test_few_rows_keep_the_linear_model(seed):
    rows, y = problem(seed, several=False)
    assert SoftmaxClassifier(random_state=seed).fit(rows[:900], y[:900]).resolved_params_["model"].name == "linear"
    few = with_figures(SoftmaxClassifier(random_state=seed), FEWEST_TO_TRY=500).fit(rows[:900], y[:900])
    assert few.resolved_params_["model"].name == "hybrid"
