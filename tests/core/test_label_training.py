"""Training for points with one or several labels equals its slow twin, whatever the loss, the source and the map."""

import dataclasses

import numpy as np
import pytest
from reference.flat import margin, softmax
from reference.label_training import SCHEDULES, LabelTwin, centred, starting_embeddings
from reference.problems import as_storage

from manyclass import SphericalClusterIndex, _core
from manyclass.checks import seed_from
from manyclass.registry import names
from manyclass.samplers import SEARCHES

# A visit rounds the scores, the gradient and the row to floats, each by an ulp or two of 2^-23. If all visits erred
# alike the rows would be off by as many times that of the largest weight; smoothed gradients pass on what scores err.
ROUNDING_OF_A_VISIT = 4 * 2.0**-23
N, D, K = 28, 7, 13
ONE_CLUSTER = SphericalClusterIndex(n_clusters=1)  # a search of it misses nothing


def some_problem(seed, *, multilabel=False, n=N, n_classes=K):
    """Points with every class and, for several labels, one to three of them."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6)).astype(np.float32)
    X[3] = 0  # an empty row
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))[rng.permutation(n)]
    if not multilabel:
        return X, y, [[int(k)] for k in y]
    Y = np.zeros((n, n_classes), dtype=np.int64)
    Y[np.arange(n), y] = 1
    for i in range(n):
        Y[i, rng.integers(0, n_classes, rng.integers(0, 3))] = 1
    return X, Y, [np.flatnonzero(row).tolist() for row in Y]


def options_of(loss, **given):
    """Flat options for a loss; a softmax that would train without this loop is given the search that makes it."""
    parameters = {"random_state": 3, "max_iter": 2, "batch_size": 8, "learning_rate": 0.5, "schedule": "adaptive"}
    parameters = parameters | given
    if loss == "cross_entropy":
        if parameters["schedule"] == "adaptive":  # which the softmax takes where the step size is left open
            del parameters["schedule"], parameters["learning_rate"]
        return {"search": "exact", "decay": 0.9, "n_negatives": 256} | parameters
    return {"loss": loss} | parameters


def model_of(loss, **given):
    """The estimator of a loss."""
    return (softmax if loss == "cross_entropy" else margin)(**options_of(loss, **given))


def twin_of(options, loss, X, lists, n_classes, twin=LabelTwin, *, storage="sparse"):
    """The twin with the options of an estimator; a hidden layer of dense rows has them centred, and a bias."""
    if storage == "dense" and options.get("activation") == "relu":
        X = centred(X)
    known = {f.name for f in dataclasses.fields(twin)}
    given = {name: value for name, value in options.items() if name in known}
    seed, dim = seed_from(options["random_state"]), options.get("embedding_dim")
    search = options.get("search", "exact")
    # Adagrad's first step moves scores by about 1: rows of x have the length of X's, embeddings have 1.
    rate = 1.0 if dim else 1 / np.sqrt(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    open_rate = options.get("learning_rate", "auto") == "auto"
    given |= {
        "loss": loss,
        "embeddings": starting_embeddings(seed, X.shape[1], dim) if dim else None,
        "seed": seed,
        "search": search if search in ("exact", "sampled") else "best",
        "batch_size": options["batch_size"] or max(1, min(32, n_classes // 16)),
        "learning_rate": rate if open_rate else options["learning_rate"],
        "schedule": "adaptive" if open_rate else options.get("schedule", "exponential"),
        "implicit": options.get("step") == "implicit",
    }
    if loss == "cross_entropy":
        given.setdefault("frequency_power", 0.75)
    return twin(X.astype(np.float64), lists, n_classes, **given)


def largest_error(model, twin):
    """The largest difference of a weight, relative to the largest weight of its kind."""
    pairs = [(np.column_stack([model.coef_, model.intercept_]), np.column_stack([twin.coef, twin.intercept]))]
    if twin.embeddings is not None:
        dim = twin.embeddings.shape[1]
        np.testing.assert_array_equal(model.embedding_, model._weights.embeddings[: model.n_features_in_, :dim])
        pairs.append((model._weights.embeddings[:, :dim], twin.embeddings))
    assert all(np.abs(expected).max() > 0.01 for _, expected in pairs)
    return max(np.abs(found - expected).max() / np.abs(expected).max() for found, expected in pairs)


def fitted_pair(loss, seed, *, multilabel=False, storage="dense", twin=LabelTwin, n_classes=K, **parameters):
    X, y, lists = some_problem(seed, multilabel=multilabel, n=max(N, 2 * n_classes), n_classes=n_classes)
    options = options_of(loss, **parameters)
    # A callback looks on, so that steps that diverge are not tried again.
    model = model_of(loss, **parameters).fit(as_storage(X, storage), y, callback=lambda _: False)
    return model, twin_of(options, loss, X, lists, n_classes, twin, storage=storage).train()


def assert_fit_equals_twin(loss, seed, **parameters):
    model, twin = fitted_pair(loss, seed, **parameters)
    atol = len(twin.X) * twin.max_iter * ROUNDING_OF_A_VISIT
    assert largest_error(model, twin) < atol
    # A loss moves by a few times what scores move: |phi| < 4 times the weights' error.
    np.testing.assert_allclose(model.loss_curve_, twin.curve, rtol=0, atol=32 * atol * max(1, np.abs(twin.W).max()))


LOSSES = {
    "cross_entropy": {},
    "margin": {"smoothing": 1.0},
    "triplet": {},
}
DRAWS = {
    "a few drawn": {"n_negatives": 4},
    "most drawn": {"n_negatives": 8},
    "all drawn": {"n_negatives": 40},
    "by frequency": {"n_negatives": 9, "frequency_power": 0.7},
}
SOURCES = {
    "exact": {},
    "the best": {"search": ONE_CLUSTER, "budget": 5, "n_negatives": 7, "max_iter": 3},
    **{name: {"search": "sampled", **draw} for name, draw in DRAWS.items()},
    **{
        f"{name}, each for itself": {"search": "sampled", "share_classes": False, **draw}
        for name, draw in DRAWS.items()
    },
}


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_fit_equals_its_slow_twin_for_every_loss_and_source(loss, multilabel, source, storage, seed):
    assert_fit_equals_twin(loss, seed, multilabel=multilabel, storage=storage, **LOSSES[loss] | SOURCES[source])


@pytest.mark.parametrize("share_classes", [True, False])
@pytest.mark.parametrize("selection", names("selection", without="heads"))
def test_every_selection_serves_points_with_several_labels(selection, share_classes, seed, monkeypatch):
    real = _core.Trainer.labels
    drawing = {"selection": selection, "options": {}}
    monkeypatch.setattr(_core.Trainer, "labels", lambda arrays, **settings: real(arrays, **settings | drawing))
    assert_fit_equals_twin(
        "cross_entropy",
        seed,
        multilabel=True,
        twin=type("Drawing", (LabelTwin,), {"selection": selection}),
        search="sampled",
        n_negatives=6,
        frequency_power=0.75,
        share_classes=share_classes,
        n_classes=40,
    )


OPTIONS = {
    "constant": ("margin", {"schedule": "constant", "learning_rate": 0.1}),
    "inverse": ("cross_entropy", {"schedule": "inverse", "learning_rate": 0.1, "max_iter": 3, "embedding_dim": 5}),
    "exponential": ("triplet", {"schedule": "exponential", "decay": 0.5, "learning_rate": 0.0537}),
    "batches by default": ("margin", {"batch_size": None}),
    "one point a batch": ("cross_entropy", {"batch_size": 1}),
    "batches of five": ("margin", {"batch_size": 5}),
    "a batch of all": ("cross_entropy", {"batch_size": 1000}),
    "in the order of the data": ("margin", {"shuffle": False}),
    "without intercepts": ("cross_entropy", {"fit_intercept": False}),
    "no correction of draws": ("cross_entropy", {"search": "sampled", "n_negatives": 4, "log_q": False}),
    "no correction of own draws": (
        "cross_entropy",
        {"search": "sampled", "n_negatives": 4, "log_q": False, "share_classes": False},
    ),
    "draws in common, more points than are scored at once": (
        "cross_entropy",
        {"search": "sampled", "n_negatives": 5, "batch_size": 20, "embedding_dim": 70},
    ),
    "no smoothing": ("margin", {"search": "sampled", "n_negatives": 4, "smoothing": 0.0}),
    "much smoothing": ("margin", {"smoothing": 5.0}),
    "implicit": ("margin", {"step": "implicit", "schedule": "inverse", "learning_rate": 2.0}),
    "implicit, drawn": (
        "margin",
        {"step": "implicit", "schedule": "constant", "smoothing": 0.0, "search": "sampled", "n_negatives": 4},
    ),
    "embeddings": ("cross_entropy", {"embedding_dim": 5}),
    "relu": ("margin", {"embedding_dim": 17, "activation": "relu"}),
    "relu, plain steps": (
        "cross_entropy",
        {"embedding_dim": 5, "activation": "relu", "schedule": "constant", "batch_size": 4},
    ),
    "embeddings without intercepts": ("triplet", {"embedding_dim": 16, "fit_intercept": False}),
    "embeddings, drawn": ("margin", {"embedding_dim": 5, "search": "sampled", "n_negatives": 4}),
    "embeddings, the best": (
        "cross_entropy",
        {"embedding_dim": 5, "search": ONE_CLUSTER, "budget": 4, "n_negatives": 7, "max_iter": 3},
    ),
}


@pytest.mark.filterwarnings("ignore:training diverged. the exact loss")  # a few large steps, not to learn by
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_fit_equals_its_slow_twin_for_every_option(option, multilabel, storage, seed):
    loss, parameters = OPTIONS[option]
    assert_fit_equals_twin(loss, seed, multilabel=multilabel, storage=storage, **parameters)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_lists_and_whole_gradients_in_one_batch_move_rows_in_the_order_of_visits(storage, seed):
    # Of 24 classes a margin's gradient has few or many: the core keeps the former as lists, the latter whole.
    assert_fit_equals_twin("margin", seed, n_classes=24, smoothing=1.0, max_iter=3, storage=storage)


def test_every_schedule_and_search_is_compared():
    assert set(SCHEDULES) == set(names("schedule"))
    assert set(SEARCHES) == {"mips", "decomposed", "messages"}


# The comparison itself is tried on twins that are wrong somewhere.


class DrawsByVisit(LabelTwin):
    """Draws are named by the visit instead of the point."""

    def wrong_classes(self, t, i, phi, named_by):
        return super().wrong_classes(t + 1, i, phi, named_by)


class DrawsForEach(LabelTwin):
    """The points of a batch have draws of their own."""

    def look(self, t, i, eta, named_by=0):
        return super().look(t, i, eta, named_by=i)


class MovesBeforeAll(LabelTwin):
    """The points of a batch see each other's steps."""

    def train_batch(self, t, points, eta):
        return sum(super(MovesBeforeAll, self).train_batch(t, [i], eta) for i in points)


class ForgetsTheIntercept(LabelTwin):
    """Adagrad's sums leave out the 1 of the intercept."""

    def descend(self, row, squares, k, gradient, eta):
        squares[k] -= gradient[-1] ** 2
        super().descend(row, squares, k, gradient, eta)


class MovesByVisits(LabelTwin):
    """Adagrad's sums grow point by point instead of by the gradient of the batch."""

    def train_batch(self, t, points, eta):
        batch = [self.look(t, i, eta, named_by=points[0]) for i in points]
        for seen in batch:
            for k, g in zip(seen.classes, seen.g, strict=True):
                self.descend(self.W[k], self.class_squares, k, g * seen.phi, eta)
        return sum(seen.loss for seen in batch)


@pytest.mark.parametrize("fault", [DrawsByVisit, DrawsForEach, MovesBeforeAll, MovesByVisits, ForgetsTheIntercept])
def test_the_comparison_sees_a_planted_fault(fault, seed):
    parameters = {"search": "sampled", "n_negatives": 8}
    model, wrong = fitted_pair("cross_entropy", seed, twin=fault, **parameters)
    assert largest_error(model, wrong) > 100 * N * 2 * ROUNDING_OF_A_VISIT
