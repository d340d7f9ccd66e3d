"""MarginClassifier, and SoftmaxClassifier with labels, embeddings or a search: their answers, files and copies."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures
from reference.problems import as_storage, near_vertices
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import manyclass
from manyclass import (
    DecomposedIndex,
    MarginClassifier,
    SoftmaxClassifier,
    SphericalClusterIndex,
    metrics,
    models,
    samplers,
    solvers,
)
from manyclass.figures import FIGURES
from manyclass.search import class_index

N, D, K = 60, 9, 12


@pytest.fixture(name="y")
def single_labels(seed):
    return near_vertices(seed, N, D, K)[1]


@pytest.fixture(name="X")
def points(seed):
    return near_vertices(seed, N, D, K)[0]


@pytest.fixture(name="Y")
def several_labels(y):
    """Two labels for every third point, none for the last one, one for the others."""
    Y = np.zeros((N, K), dtype=np.int64)
    Y[np.arange(N), y] = 1
    Y[::3] |= np.roll(Y[::3], 1, axis=1)
    Y[-1] = 0
    return Y


MODELS = {
    "margin": MarginClassifier(max_iter=3, random_state=0),
    "margin, embeddings": MarginClassifier(
        model=models.Embedding(activation="relu"), dim=5, max_iter=3, random_state=0
    ),
    "margin, no intercepts": MarginClassifier(max_iter=3, fit_intercept=False, random_state=0),
    "softmax": SoftmaxClassifier(solver="adagrad", model="linear", max_iter=3, random_state=0),
    "softmax, embeddings": SoftmaxClassifier(model="embedding", dim=5, max_iter=3, random_state=0),
}


def model_of(name):
    return clone(MODELS[name])


# What was left open.


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({}, lambda mean: mean**-0.5),
        ({"fit_intercept": False}, lambda mean: mean**-0.5),
        ({"solver": "sgd"}, lambda mean: 1 / (mean + 1)),
        ({"solver": "implicit", "fit_intercept": False}, lambda mean: 1 / mean),
        ({"model": "embedding"}, lambda mean: 1.0),  # they have length 1
        ({"model": "embedding", "solver": "sgd"}, lambda mean: 0.5),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_the_automatic_step_size_is_told(given, rate, X, y):
    mean = np.mean(np.sum(X.astype(float) ** 2, axis=1))
    for x in (X, sp.csr_array(X)):
        found = MarginClassifier(max_iter=1, random_state=0, **given).fit(x, y).resolved_params_
        assert found["learning_rate"] == pytest.approx(rate(mean), rel=1e-12)
        assert found["solver"].decay == 0.9
        assert found.get("dim") == (192 if "model" in given else None)


def test_what_was_set_or_has_no_effect_is_not_among_what_was_open(X, y):
    given = {"learning_rate": 0.3, "solver": solvers.Adagrad(decay=0.5), "max_iter": 1, "sampler": "all"}
    assert MarginClassifier(**given, model=models.Linear(scaling="none")).fit(X, y).resolved_params_ == {}
    assert MarginClassifier(**given, model="embedding", dim=3).fit(X, y).resolved_params_ == {}
    drawn = MarginClassifier(**{**given, "sampler": "uniform"}, model="embedding", dim=3).fit(X, y)
    assert drawn.resolved_params_ == {"n_negatives": 256}


def test_many_classes_of_rows_that_w_is_too_large_for_learn_embeddings():
    figures = {"MOST_SCORED": 50, "LEAST_TO_EMBED": 1 << 12}
    X, y = sp.csr_array(sp.eye_array(60, format="csr", dtype=np.float32)), np.arange(60)
    found = with_figures(MarginClassifier(max_iter=1, random_state=0), **figures).fit(X, y)
    assert found.embedding_.shape == (60, FIGURES.RANKING_DIM)
    open_ = found.resolved_params_
    told = {name: getattr(open_[name], "name", open_[name]) for name in ("model", "sampler", "n_negatives", "dim")}
    assert told == {
        "model": "embedding",
        "sampler": "uniform",
        "n_negatives": FIGURES.NEGATIVES_RANKING,
        "dim": FIGURES.RANKING_DIM,
    }
    few = with_figures(MarginClassifier(max_iter=1, random_state=0), **figures).fit(X[:50], y[:50])
    assert few.coef_.shape == (50, 60)
    assert few.resolved_params_["sampler"].name == "all"


@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
@pytest.mark.parametrize("given", [{}, {"solver": "sgd"}, {"model": "embedding"}], ids=str)
def test_training_goes_on_with_what_its_first_rows_have_chosen(given, begin, X, y):
    first, second = (X[::2], y[::2]), (3 * X[1::2], y[1::2])
    model = MarginClassifier(**given, max_iter=2, random_state=0)
    getattr(model, begin)(*first)
    chosen = model.resolved_params_
    if "model" not in given:
        mean = np.mean(np.sum(first[0].astype(float) ** 2, axis=1))
        assert chosen["learning_rate"] == pytest.approx(1 / (mean + 1) if given else mean**-0.5, rel=1e-12)
    by_hand = clone(model).set_params(**chosen)
    getattr(by_hand, begin)(*first)
    for now in ({}, {"learning_rate": 0.01}):  # what is set since then counts
        for one in (model, by_hand):
            one.set_params(**now).partial_fit(*second)
        np.testing.assert_array_equal(model.coef_, by_hand.coef_)
        np.testing.assert_array_equal(model.intercept_, by_hand.intercept_)
        assert model.resolved_params_ == chosen
        assert by_hand.resolved_params_ == {}


# Several labels.


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_predictions_of_several_labels_are_as_the_labels_were(name, storage, X, Y):
    model = model_of(name).fit(X, as_storage(Y, storage))
    found = model.predict(X, k=model.n_labels_)
    assert isinstance(found, sp.csr_array if storage == "sparse" else np.ndarray)
    dense = found.toarray() if storage == "sparse" else found
    assert dense.shape == Y.shape
    assert model.n_labels_ == round(Y.sum() / (N - 1)) == 1
    assert set(dense.ravel().tolist()) == {0, 1}
    np.testing.assert_array_equal(dense.argmax(axis=1), model.decision_function(X).argmax(axis=1))
    np.testing.assert_array_equal(dense.sum(axis=1), model.n_labels_)


def test_as_many_labels_are_predicted_as_rows_have_on_average(X, y):
    Y = np.zeros((N, K), dtype=np.int64)
    for shift in (0, 1, 5):
        Y[np.arange(N), (y + shift) % K] = 1
    model = MarginClassifier(random_state=0).fit(X, Y)
    assert model.n_labels_ == 3
    best = np.argsort(-model.decision_function(X), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(np.flatnonzero(model.predict(X)), np.sort((best + K * np.arange(N)[:, None]).ravel()))


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_of_several_labels_is_the_precision_of_the_metrics(name, X, Y):
    model = model_of(name).fit(X, Y)
    labelled = Y.any(axis=1)
    best = np.argsort(-model.decision_function(X), axis=1, kind="stable")[:, :5]
    expected = metrics.precision_at_k(sp.csr_array(Y[labelled]), best[labelled].astype(np.int32), k=(1, 3, 5))
    found = model.evaluate(X, Y)
    wanted = {f"precision_at_{k}": p for k, p in zip((1, 3, 5), expected, strict=True)} | {"error": 1 - expected[0]}
    if isinstance(model, SoftmaxClassifier):
        log_p = log_softmax(model.decision_function(X).astype(float), axis=1)
        wanted["log_loss"] = np.mean([-log_p[i, Y[i] > 0].mean() for i in np.flatnonzero(labelled)])
        cells = np.where(Y > 0, log_p, np.log1p(-np.exp(log_p)))  # of each label, -log p or -log(1 - p)
        wanted["label_log_loss"] = -cells[labelled].mean()
    assert found == pytest.approx(wanted, rel=1e-6)  # normalisers of floats
    assert model.evaluate(X, sp.csr_array(Y)) == found


@pytest.mark.parametrize("name", MODELS)
def test_rows_without_labels_are_left_out(name, X, Y):
    with_empty, without = model_of(name).fit(X, Y), model_of(name).fit(X[:-1], Y[:-1])
    np.testing.assert_array_equal(with_empty.coef_, without.coef_)
    np.testing.assert_array_equal(with_empty.intercept_, without.intercept_)
    assert with_empty.evaluate(X, Y) == without.evaluate(X[:-1], Y[:-1])


@pytest.mark.parametrize("kind", [bool, np.int8, np.float64])
def test_labels_of_any_numbers_that_are_0_and_1_are_taken(kind, X, Y):
    model = MarginClassifier(max_iter=2, random_state=0).fit(X, Y)
    stored_zero = sp.csr_array(Y.astype(kind)) if kind is not bool else Y.astype(bool)
    if kind is np.float64:
        stored_zero.data[-1] = 0  # a label that is stored, and is none
        Y[N - 2, stored_zero.indices[-1]] = 0
        model.fit(X, Y)
    np.testing.assert_array_equal(clone(model).fit(X, stored_zero).coef_, model.coef_)


def altered(array, at, value):
    out = array.astype(np.float64)
    out[at] = value
    return out


@pytest.mark.parametrize("name", ["margin", "softmax, embeddings"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X, Y: (X, altered(Y, (2, 3), 2)),
            r"y has shape \(60, 12\) and holds 2; a matrix of labels holds 0 and 1",
        ),
        (
            lambda X, Y: (X, altered(Y, (2, 3), -1)),
            r"y has shape \(60, 12\) and holds -1; a matrix of labels holds 0 and 1",
        ),
        (
            lambda X, Y: (X, altered(Y, (2, 3), np.nan)),
            r"y has shape \(60, 12\) and holds nan; a matrix of labels holds 0 and 1",
        ),
        (lambda X, Y: (X, sp.csr_array(Y)[:, [0]]), r"y has 1 columns; at least two classes are needed"),
        (lambda X, Y: (X, 0 * Y), r"y has no label in any row"),
        (lambda X, Y: (X, Y[:-2]), r"X has 60 rows, y has shape \(58, 12\); it must have as many rows"),
        (lambda X, Y: (altered(X, (4, 1), np.nan), Y), r"Input X contains NaN"),
        (lambda X, Y: (altered(X, (4, 1), np.inf), Y), r"Input X contains infinity"),
    ],
)
def test_data_of_several_labels_that_are_none_are_refused(name, change, message, X, Y):
    with pytest.raises(ValueError, match=message):
        model_of(name).fit(*change(X, Y))


def test_evaluation_refuses_another_number_of_classes_or_rows(X, Y):
    model = MarginClassifier(max_iter=1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="y has 11 columns; the model has 12 classes"):
        model.evaluate(X, Y[:, :-1])
    with pytest.raises(ValueError, match=r"X has 60 rows, y has shape \(59, 12\)"):
        model.evaluate(X, Y[:-1])


def test_a_model_that_was_fitted_on_lists_can_be_fitted_on_single_labels(X, Y, y):
    for name in MODELS:
        model = model_of(name).fit(X, Y).fit(X, y)
        assert (model.multilabel_, model.n_labels_) == (False, 1)
        np.testing.assert_array_equal(model.predict(X), model_of(name).fit(X, y).predict(X))


# Answers.


def test_a_margin_has_no_probabilities(X, y):
    model = MarginClassifier(max_iter=1).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    assert set(model.evaluate(X, y)) == {"error", "top5_error", "n_unseen"}


@pytest.mark.parametrize("name", ["margin", "margin, embeddings"])
def test_the_best_of_a_margin_have_their_scores(name, X, y):
    model = model_of(name).fit(X, y)
    labels, scores = model.predict_top_k(X, 4)
    z = model.decision_function(X)
    # A score comes back as log-probability and normaliser: each rounded to a float of at most the size of both.
    size = np.abs(z).max() + np.log(K)
    np.testing.assert_allclose(scores, np.take_along_axis(z, labels, 1), rtol=0, atol=4 * 2.0**-23 * size)
    np.testing.assert_array_equal(labels, np.argsort(-z, axis=1, kind="stable")[:, :4])
    assert model.evaluate(X, y)["error"] == pytest.approx(np.mean(labels[:, 0] != y))


def test_probabilities_of_the_softmax_with_embeddings_sum_to_one(X, y):
    model = model_of("softmax, embeddings").fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=K * 2.0**-52)
    hidden = model.embed(X)
    np.testing.assert_allclose(hidden, X @ model.embedding_, rtol=0, atol=D * 2.0**-22 * np.abs(hidden).max())
    z = hidden.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), z, rtol=0, atol=2.0**-20 * max(1, np.abs(z).max()))
    assert model.evaluate(X, y)["log_loss"] == pytest.approx(-np.mean(np.log(p[np.arange(N), y])), rel=1e-5)


def test_embeddings_are_asked_only_of_models_that_have_them(X, y):
    for ask in (lambda model: model.embedding_, lambda model: model.embed(X)):
        with pytest.raises(AttributeError, match="the model has no embeddings; fit it with model='embedding'"):
            ask(model_of("margin").fit(X, y))
        with pytest.raises(NotFittedError):
            ask(MarginClassifier(model="embedding", dim=2))


@pytest.mark.parametrize("parameters", [{"solver": "adagrad", "model": "linear"}, {"model": "embedding", "dim": 6}])
def test_the_best_of_many_classes_are_found_through_the_index_of_a_mapped_model(parameters, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    n_classes = 4200  # more than are scored exactly
    monkeypatch.setattr(class_index, "slower", lambda *_: "")  # eight numbers a class are scored as fast
    centers = rng.normal(size=(n_classes, 8)).astype(np.float32)
    X, y = np.repeat(centers, 2, axis=0), np.repeat(np.arange(n_classes), 2)
    model = SoftmaxClassifier(sampler="frequency", max_iter=2, random_state=0, **parameters).fit(X, y)
    exact, exact_log = model.predict_top_k(X[:300], 3)
    found, found_log, std = model.predict_top_k(X[:300], 3, approximate=True, recall=1.0, return_std=True)
    np.testing.assert_array_equal(found, exact)
    assert np.all(np.isfinite(std))
    assert np.all(np.abs(found_log - exact_log) <= 6 * std[:, np.newaxis] + 1e-5)  # normal errors, 300 of them


def test_estimators_say_that_they_take_several_labels():
    assert all(get_tags(model).classifier_tags.multi_label for model in MODELS.values())


# Files and copies.


def saved(model, path, mmap):
    model.save(path)
    return manyclass.load(path, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("labels", ["one", "several", "several, sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_answers_bit_for_bit_the_same(name, labels, mmap, tmp_path, X, y, Y):
    model = model_of(name).fit(X, {"one": y, "several": Y, "several, sparse": sp.csr_array(Y)}[labels])
    loaded = saved(model, tmp_path / "m", mmap)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    for found, expected in [(loaded.predict(X), model.predict(X)), (loaded.predict(sp.csr_array(X)), model.predict(X))]:
        assert type(found) is type(expected)
        assert (found != expected).sum() == 0
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X), strict=True)
    for a, b in zip(loaded.predict_top_k(X, 3), model.predict_top_k(X, 3), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    for attribute in ("classes_", "coef_", "intercept_", "loss_curve_"):
        np.testing.assert_array_equal(getattr(loaded, attribute), getattr(model, attribute), strict=True)
    assert (loaded.multilabel_, loaded.n_labels_) == (model.multilabel_, model.n_labels_)
    if hasattr(model, "embedding_"):
        np.testing.assert_array_equal(loaded.embedding_, model.embedding_, strict=True)
    assert loaded.coef_.flags.writeable is not mmap
    assert loaded.evaluate(X, Y if labels != "one" else y) == model.evaluate(X, Y if labels != "one" else y)


TEMPLATES = [SphericalClusterIndex(n_clusters=5), DecomposedIndex(n_blocks=2, n_clusters=3)]


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
@pytest.mark.parametrize("estimator", [MarginClassifier, SoftmaxClassifier])
def test_an_index_given_as_an_example_is_used_and_left_alone(estimator, template, tmp_path, X, y):
    template = clone(template)
    before = template.get_params()
    sampler = samplers.Search(index=template, budget=4)
    model = estimator(sampler=sampler, max_iter=3, n_negatives=6, random_state=0).fit(X, y)
    assert template.get_params() == before
    assert not [name for name in vars(template) if name.endswith("_")]
    copy = clone(model).fit(X, y)
    assert copy.sampler.index is not template
    np.testing.assert_array_equal(copy.coef_, model.coef_)
    name = "mips" if isinstance(template, SphericalClusterIndex) else "decomposed"
    assert saved(model, tmp_path / "m", False).sampler.index == name


@pytest.mark.parametrize("name", MODELS)
def test_pickled_models_answer_the_same(name, X, Y):
    model = model_of(name).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
