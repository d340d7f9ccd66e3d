"""Is prediction through an index faster than scoring all classes, and are its probabilities what it says they are?

Processor seconds of `predict_top_k(X, 5)`, one thread, approximate at recalls of 0.9, 0.95 and 0.99, with the exact one
before each of three rounds after the one that tunes; beside them the recall reached, the mean and root mean square
error of log Z in nats, the share of rows whose error is within two of their standard errors, and what building the
index took. Planted dense classes (`dense_planted`) under the true weights, with the noise that decides how peaked the
probabilities are, and weights that were trained.

    python -m pytest bench/bench_predict.py
"""

import time

import numpy as np
import pytest
from conftest import dense_planted, digits
from sklearn.preprocessing import normalize

from manyclass import SoftmaxClassifier
from manyclass.search import class_index
from manyclass.training.state import Features, State
from manyclass.weights.weights import Weights

K_BEST, ROUNDS, RECALLS = 5, 3, (0.9, 0.95, 0.99)


def compare(timed, name, model, X, recall, more=""):
    """Time the approximate prediction beside the exact one, and tell what it finds."""
    begin = time.process_time()
    index = model._approximate(model._fitted).build_index(model.random_state, 1)
    built, answers = time.process_time() - begin, {}

    def exact():
        answers["exact"] = model.predict_top_k(X, K_BEST)

    def approximate():
        return model.predict_top_k(X, K_BEST, approximate=True, recall=recall, return_std=True)

    found, found_log_p, std = timed(approximate, rounds=ROUNDS, warmup=1, clock="processor", beside={"exact": exact})
    labels, log_p = answers["exact"]
    best = np.searchsorted(model.classes_, labels[:, 0])
    # log Z is what the first label's score less its log-probability is; rows whose first label was missed are out.
    same = np.searchsorted(model.classes_, found[:, 0]) == best
    error = log_p[same, 0].astype(np.float64) - found_log_p[same, 0]
    within = np.mean(np.abs(error) <= 2 * std[same] + 4e-6)  # what float log-probabilities near 16 resolve
    probes = index.probes(K_BEST, recall)
    timed.tell(probes=probes, clusters=index._index.n_clusters_, index_built_s=built)
    if probes is None:
        pytest.skip("the index was not used, having been predicted to be slower")
    per_1000 = 1e6 / X.shape[0]
    timed.row(
        "predict",
        data=f"{name}, {model.coef_.shape[0]:,} x {model.coef_.shape[1]}{more}",
        mass_of_5=round(float(np.exp(log_p.astype(np.float64)).sum(axis=1).mean()), 2),
        recall=recall,
        exact_ms=digits(timed.beside["exact"].min() * per_1000),
        ms=digits(timed.seconds.min() * per_1000),
        times=round(float(np.median(timed.beside["exact"] / timed.seconds)), 1),
        reached=round(float(np.mean([np.isin(a, b).mean() for a, b in zip(labels, found, strict=True)])), 3),
        log_z_mean=round(float(error.mean()), 3),
        log_z_rms=round(float(np.sqrt(np.mean(error**2))), 3),
        log_z_std=round(float(np.sqrt(np.mean(std**2))), 3),
        within=round(float(within), 2),
    )


def true_model(data):
    weights = Weights.linear(data.W_true, data.b_true - data.b_true.mean(), by_feature=False)
    n_classes, n_features = data.W_true.shape
    state = State(np.arange(n_classes), np.zeros(n_classes), Features(n_features, None), weights)
    return SoftmaxClassifier(random_state=0)._taken(state)


@pytest.fixture(scope="module", params=[0.4, 0.25, 0.15], ids=lambda noise: f"noise {noise}")
def planted(request, small):
    """A model with the weights that made the data, test rows, and its name."""
    n_classes, n_features, n_test = (3_000, 16, 300) if small else (100_000, 128, 2_000)
    data = dense_planted(n_classes, n_features, n_classes, n_test, noise=request.param)
    return true_model(data), data.X_test, request.param


@pytest.fixture(scope="module")
def trained(small):
    """A model of planted points, and test rows."""
    n_classes, n_features, n_train, n_test = (2_000, 16, 8_000, 300) if small else (20_000, 64, 200_000, 5_000)
    data = dense_planted(n_classes, n_features, n_train, n_test, noise=0.25)
    return SoftmaxClassifier(max_iter=10, random_state=0).fit(data.X_train, data.y_train), data.X_test


@pytest.fixture
def always(monkeypatch):
    """Search where scoring all classes is expected to be faster, too."""
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    monkeypatch.setattr(class_index, "slower", lambda *_: "")


@pytest.fixture(autouse=True)
def small_or_large(request, small):
    if small:
        request.getfixturevalue("always")


@pytest.mark.parametrize("what", RECALLS)
def test_planted_weights(timed, planted, what):
    model, X, noise = planted
    compare(timed, "planted", model, X, what, f", noise {noise}")


@pytest.mark.parametrize("what", RECALLS)
def test_weights_trained_on_planted_points(timed, trained, what):
    compare(timed, "trained on planted points", *trained, what)


def test_weights_trained_on_real_images(timed, data_folder, always):
    """Omniglot has too few classes for an index."""
    images = np.load(data_folder / "omniglot" / "omniglot28.npz")
    X = {part: normalize(images[f"x_{part}"].astype(np.float32)) for part in ("train", "test")}
    model = SoftmaxClassifier(max_iter=10, random_state=0).fit(X["train"], images["y_train"])
    compare(timed, "omniglot", model, X["test"], 0.9)
