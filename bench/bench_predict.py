"""Is prediction through an index faster than scoring all classes, and are its probabilities what it says they are?

Milliseconds of processor time per 1,000 rows of `predict_top_k(X, 5)`, one thread, exact against approximate at recalls
of 0.9, 0.95 and 0.99: minima of three calls after the one that tunes; beside them the recall reached, the mean and root
mean square error of log Z in nats, the share of rows whose error is within two of their standard errors, and what
building the index took. Planted dense classes (`dense_planted`) under the true weights, with the noise that decides how
peaked the probabilities are, and weights that were trained. Needs MANYCLASS_DATA for the last:

    python -m pytest bench/bench_predict.py -s
"""

import time

import numpy as np
import pytest
from conftest import dense_planted, machine
from sklearn.preprocessing import normalize

from manyclass import SoftmaxClassifier
from manyclass.model.weights import LinearWeights
from manyclass.search import class_index

K_BEST, ROUNDS, RECALLS = 5, 3, (0.9, 0.95, 0.99)


def fastest(f):
    """(least seconds of processor time, the answer)."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        answer = f()
        times.append(time.process_time() - start)
    return min(times), answer


def compare(what, model, X):
    n = X.shape[0]
    print(f"\n{what}: {n} rows, {model.coef_.shape[0]} classes, {model.coef_.shape[1]} features; {machine()}")
    exact_seconds, (labels, log_p) = fastest(lambda: model.predict_top_k(X, K_BEST))
    best = np.searchsorted(model.classes_, labels[:, 0])
    mass = float(np.exp(log_p.astype(np.float64)).sum(axis=1).mean())
    print(f"  exact: {exact_seconds / n * 1e6:.1f} ms per 1,000 rows; the {K_BEST} best have {mass:.3f} of the mass")
    start = time.process_time()
    model._class_index(1)
    print(f"  index: built in {time.process_time() - start:.1f} s of processor time")
    for recall in RECALLS:
        start = time.process_time()
        ask = {"approximate": True, "recall": recall, "return_std": True}
        model.predict_top_k(X, K_BEST, **ask)
        first = time.process_time() - start
        seconds, (found, found_log_p, std) = fastest(lambda ask=ask: model.predict_top_k(X, K_BEST, **ask))
        reached = np.mean([np.isin(a, b).mean() for a, b in zip(labels, found, strict=True)])
        # log Z is what the first label's score less its log-probability is; rows whose first label was missed are out.
        same = np.searchsorted(model.classes_, found[:, 0]) == best
        error = log_p[same, 0].astype(np.float64) - found_log_p[same, 0]
        within = np.mean(np.abs(error) <= 2 * std[same] + 4e-6)  # what float log-probabilities near 16 resolve
        print(
            f"  recall {recall}: {seconds / n * 1e6:.1f} ms ({exact_seconds / seconds:.1f} times as fast; first call "
            f"{first / n * 1e6:.1f}), reached {reached:.3f} with {model._kept_index[1]._n_probe[K_BEST, recall]} of "
            f"{model._kept_index[1]._index.n_clusters_} probes; log Z off by {error.mean():.4f} on average, "
            f"{np.sqrt(np.mean(error**2)):.4f} rms, std {np.sqrt(np.mean(std**2)):.4f} rms, {within:.3f} within 2 std",
            flush=True,
        )


def true_model(data):
    model = SoftmaxClassifier(random_state=0)
    model.classes_, model.n_features_in_ = np.arange(len(data.b_true)), data.W_true.shape[1]
    model._weights = LinearWeights(data.W_true, data.b_true - data.b_true.mean(), False)
    return model


@pytest.mark.parametrize("noise", [0.4, 0.25, 0.15])
def test_planted_weights(noise):
    data = dense_planted(100_000, 128, 100_000, 2_000, noise=noise)
    compare(f"planted, noise {noise}", true_model(data), data.X_test)


def test_weights_trained_on_planted_points():
    data = dense_planted(20_000, 64, 200_000, 5_000, noise=0.25)
    model = SoftmaxClassifier(max_iter=10, random_state=0).fit(data.X_train, data.y_train)
    compare("trained on planted points", model, data.X_test)


def test_weights_trained_on_real_images(data_folder, monkeypatch):
    """Omniglot has too few classes for an index: all are scored, unless, as here, the threshold is put away."""
    monkeypatch.setattr(class_index, "EXACT_CLASSES", 0)
    images = np.load(data_folder / "omniglot" / "omniglot28.npz")
    X = {part: normalize(images[f"x_{part}"].astype(np.float32)) for part in ("train", "test")}
    model = SoftmaxClassifier(max_iter=10, random_state=0).fit(X["train"], images["y_train"])
    compare("omniglot", model, X["test"])
