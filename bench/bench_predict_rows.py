"""How long does a prediction of five labels take on yso-en, for one row and for many, Python's call included?

First labels (26,091 classes), unit rows; models of one short fit, whose quality is none of this file's questions. One
row: wall microseconds of `predict_top_k(row, 5)` by one thread, the median of CALLS calls in each of ROUNDS rounds,
each with its own row. Batches: wall microseconds a row of `predict_top_k(X, 5)` of BATCH rows by two threads. An
approximate model is asked for a recall of 0.99, and what it reaches is told; the exact one has its turn beside it.

135,000 classes: embeddings of 256 on as many classes of gloss-word, drawn, and 1,000 sparse rows at once; processor
milliseconds a row by one thread, beside those of `predict_top_k(X, 5)` in the same rounds. Labels alone and approximate
answers are those of the 8-bit copy; `index` makes it search an index instead. `log_z_rms` is the root mean square error
of the log-normaliser in nats.

    python -m pytest bench/bench_predict_rows.py --benchmark-save=predict_rows
"""

import time

import numpy as np
import pytest
from conftest import digits

from manyclass import SoftmaxClassifier
from manyclass.classifiers.predictions import build_index
from manyclass.search import class_index

BEST, CALLS, ROUNDS, BATCH, BATCH_THREADS = 5, 200, 7, 4096, 2
GIVEN = {"learning_rate": 1.0, "max_iter": 1, "random_state": 0, "n_jobs": 1}
MODELS = {
    "linear": {"model": "linear", "solver": "implicit", "n_negatives": 64},
    "embeddings of 128": {"model": "embedding", "dim": 128},
    "embeddings of 256": {"model": "embedding", "dim": 256},
    "pairs": {"model": "pairs"},
}
# How it is asked, and what stands beside it.
WAYS = {"exact": {}, "approximate": {"approximate": True, "recall": 0.99}}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, dataset):
    """The name, a model and test rows."""
    data = dataset("yso-en", n_jobs=2)
    model = SoftmaxClassifier(**GIVEN | MODELS[request.param]).fit(data.X_train, data.y_train)
    return request.param, model, data.X_test


def recall(found, exact):
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))


def asked_or_skipped(fitted, what):
    name, model, X = fitted
    if what == "approximate" and not name.startswith("embeddings"):
        pytest.skip("an index or a copy is for embeddings and dense rows")
    return name, model, X


@pytest.mark.parametrize("what", WAYS)
def test_one_row(timed, fitted, what, small):
    name, model, X = asked_or_skipped(fitted, what)
    model.set_params(n_jobs=1)
    n = min(CALLS, X.shape[0])
    rows, medians = [X[[i]] for i in range(n)], []
    exact = [model.predict_top_k(row, BEST)[0][0] for row in rows]
    found = [model.predict_top_k(row, BEST, **WAYS[what])[0][0] for row in rows]  # what is made at the first call
    for _ in range(2 if small else ROUNDS):
        taken = []
        for row in rows:
            begin = time.perf_counter()
            model.predict_top_k(row, BEST, **WAYS[what])
            taken.append(time.perf_counter() - begin)
        medians.append(float(np.median(taken)))
    timed.taken(medians)
    us, reached = digits(1e6 * float(np.median(medians))), round(recall(found, exact), 4)
    timed.row("predict_rows", model=name, way=what, one_row=us, one_row_recall=reached)


@pytest.mark.parametrize("what", WAYS)
def test_batches(timed, fitted, what, small):
    name, model, X = asked_or_skipped(fitted, what)
    model.set_params(n_jobs=BATCH_THREADS)
    some = X[:BATCH]
    exact, _ = model.predict_top_k(some, BEST)
    found = timed(lambda: model.predict_top_k(some, BEST, **WAYS[what])[0], rounds=2 if small else ROUNDS, warmup=1)
    timed.tell(threads=BATCH_THREADS)
    us = digits(1e6 * float(np.median(timed.seconds)) / some.shape[0])
    timed.row("predict_rows", model=name, way=what, batch=us, batch_recall=round(recall(found, exact), 4))


N_MANY, MANY_ROWS = 135_000, 1_000
MANY = {
    "5 best, exact": lambda model, X: model.predict_top_k(X, BEST, return_std=True),
    "labels alone": lambda model, X: (model.predict(X)[:, np.newaxis], None, None),
    "5 best, approximate": lambda model, X: model.predict_top_k(X, BEST, return_std=True, **WAYS["approximate"]),
    "5 best, approximate, recall 1": lambda model, X: model.predict_top_k(
        X, BEST, return_std=True, approximate=True, recall=1
    ),
    "5 best, index": lambda model, X: model.predict_top_k(X, BEST, return_std=True, **WAYS["approximate"]),
}


@pytest.fixture(scope="module")
def of_many(dataset, small):
    """A model of very many classes, and sparse rows."""
    data = dataset("yso-en" if small else "gloss-word")
    labels = np.unique(data.y_train)
    kept = np.random.default_rng(0).choice(labels, min(N_MANY, len(labels)), replace=False)
    of_kept = np.isin(data.y_train, kept)
    given = GIVEN | {"model": "embedding", "dim": 16 if small else 256, "max_iter": 1 if small else 4}
    model = SoftmaxClassifier(**given).fit(data.X_train[of_kept], data.y_train[of_kept])
    return model, data.X_test[:MANY_ROWS]


@pytest.mark.parametrize("what", MANY)
def test_very_many_classes(timed, of_many, what, small, monkeypatch):
    model, X = of_many
    if what == "5 best, index":
        monkeypatch.setattr(class_index, "MOST_PROBED", 1)
        build_index(model, X, BEST, WAYS["approximate"]["recall"])
    exact_labels, exact_log_p = model.predict_top_k(X, BEST)
    found, log_p, std = timed(
        lambda: MANY[what](model, X),
        rounds=2 if small else ROUNDS,
        warmup=1,
        clock="processor",
        beside={"5 best, exact": lambda: model.predict_top_k(X, BEST)},
    )
    ms = digits(1e3 * timed.seconds.min() / X.shape[0])
    times = round(float(np.median(timed.beside["5 best, exact"] / timed.seconds)), 2)
    row = {"answer": what, "ms": ms, "times": times, "n_classes": len(model.classes_)}
    row["recall"] = round(recall(found, exact_labels[:, : found.shape[1]]), 4)
    if log_p is not None:
        same = found[:, 0] == exact_labels[:, 0]
        error = exact_log_p[same, 0].astype(np.float64) - log_p[same, 0]
        row |= {"log_z_rms": digits(np.sqrt(np.mean(error**2)), 2), "log_z_std": digits(np.sqrt(np.mean(std**2)), 2)}
    timed.row("predict_many", **row)
