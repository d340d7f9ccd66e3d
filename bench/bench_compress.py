"""What do half precision, bytes and pruning cost? MB in memory and on disk, log-loss, P@1 and seconds.

Models of eurlex57k, yso-en and omniglot, fitted by one thread with random_state=0; then each is compressed, saved,
loaded and asked. Seconds are of `predict_top_k(X, 5)` by one thread, of 2,000 rows at once, the model as it was trained
having its turn before each of 7 rounds; told are microseconds a row, and of one row at a time, too. The loaded model is
asserted to predict what the compressed one does, and no file is larger than what was asked for. With --peers=PYTHON, an
interpreter that has fasttext-wheel and omikuji, these are trained beside; see compress_peers.py.

    python -m pytest bench/bench_compress.py [--peers PYTHON]
"""

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import digits
from scipy import sparse

import manyclass
from manyclass import SoftmaxClassifier, load_xmc
from manyclass.datasets import first_label, l2_normalize

N_ROWS, N_SINGLE, ROUNDS = 2000, 100, 7
MOST_TESTED = 20_000  # test rows by which losses are told; yso-en has 67,645
PRUNED = (0.8, 0.9, 0.95, 0.98)


def xmc(folder, name, *, several):
    """Training and test rows of unit length, with the first or all labels."""
    parts = []
    for part in ("train", "test"):
        X, Y = load_xmc(folder / name / f"{part}.txt.xz")
        labels = Y if several else first_label(Y)
        rows = np.flatnonzero(np.diff(Y.indptr) > 0)
        parts += [l2_normalize(X)[rows], labels[rows]]
    return parts


def omniglot(folder, name, *, several):
    """Images as rows of numbers in [0, 1]."""
    images = np.load(folder / name / "omniglot28.npz")
    parts = []
    for part in ("train", "test"):
        parts += [images[f"x_{part}"].astype(np.float32) / 255, images[f"y_{part}"]]
    return parts


# What reads the data, their name, whether a row has all its labels, the model, and the shares to prune.
MODELS = {
    "omniglot-linear": (omniglot, "omniglot", False, "linear", ()),
    "eurlex57k-linear": (xmc, "eurlex57k", False, "linear", PRUNED),
    "eurlex57k-embedding": (xmc, "eurlex57k", False, "embedding", (0.5,)),
    "eurlex57k-hybrid": (xmc, "eurlex57k", True, "hybrid", PRUNED[1:]),
    "yso-en-embedding": (xmc, "yso-en", False, "embedding", (0.5,)),
    "yso-en-pairs": (xmc, "yso-en", True, "pairs", (0.5, 0.8, 0.9)),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, data_folder, tmp_path_factory):
    """A name, its model, test rows, and a folder."""
    read, data, several, kind, _ = MODELS[request.param]
    X, y, X_test, y_test = read(data_folder, data, several=several)
    model = SoftmaxClassifier(model=kind, random_state=0, n_jobs=1).fit(X, y)
    folder = tmp_path_factory.mktemp(request.param)
    model.save(folder / "as trained")
    return request.param, manyclass.load(folder / "as trained"), X_test[:MOST_TESTED], y_test[:MOST_TESTED], folder


def compressed(model, what):
    """A copy of a model as `what` says."""
    if what == "as trained":
        return model
    form, _, pruned = what.partition(", pruned ")
    return model.compress(form, **({"prune": float(pruned)} if pruned else {}))


SHARES = sorted({share for *_, shares in MODELS.values() for share in shares})


@pytest.mark.parametrize("what", ["as trained", "float16", "int8", *(f"int8, pruned {share:g}" for share in SHARES)])
def test_compressed_models(timed, fitted, what):
    name, model, X, y, folder = fitted
    shares = {f"int8, pruned {share:g}" for share in MODELS[name][-1]}
    if "pruned" in what and what not in shares:
        pytest.skip("not tried on this model")
    small, path = compressed(model, what), folder / what.replace(", ", "-").replace(" ", "-")
    small.save(path)
    loaded, size = manyclass.load(path), path.stat().st_size
    np.testing.assert_array_equal(loaded.decision_function(X[:50]), small.decision_function(X[:50]))
    if what in shares:
        model.compress("int8", max_bytes=size + 2048).save(path)
        assert path.stat().st_size <= size + 2048
    some, one = X[:N_ROWS], [X[[i]] for i in range(min(N_SINGLE, X.shape[0]))]
    beside = {} if what == "as trained" else {"as trained": lambda: model.predict_top_k(some, 5)}
    timed(lambda: loaded.predict_top_k(some, 5), rounds=ROUNDS, warmup=1, beside=beside)
    singles = min(seconds(lambda: [loaded.predict_top_k(row, 5) for row in one]) for _ in range(ROUNDS))
    told = loaded.evaluate(X, y)
    timed.tell(mb_in_memory=loaded.storage()["weight_bytes"] / 1e6, mb_on_disk=size / 1e6)
    timed.tell(log_loss=told["log_loss"], p_at_1=1 - told["error"], classes=len(model.classes_))
    us = [digits(1e6 * least) for least in (timed.seconds.min() / some.shape[0], singles / len(one))]
    timed.tell(us_a_row=us[0], us_one_at_a_time=us[1])


def seconds(f):
    begin = time.perf_counter()
    f()
    return time.perf_counter() - begin


@pytest.mark.parametrize("what", ["fasttext", "omikuji"])
@pytest.mark.parametrize("name", ["eurlex57k", "yso-en"])
def test_peers(timed, request, data_folder, tmp_path, name, what):
    """Files and P@1 of the peers on the same rows, which they print; seconds of their process."""
    python = request.config.getoption("--peers")
    if python is None:
        pytest.skip("--peers names no interpreter")
    X, y, X_test, y_test = xmc(data_folder, name, several=True)
    for part, rows, labels in (("train", X, y), ("test", X_test[:MOST_TESTED], y_test[:MOST_TESTED])):
        sparse.save_npz(tmp_path / f"X_{part}.npz", sparse.csr_matrix(rows))
        sparse.save_npz(tmp_path / f"Y_{part}.npz", sparse.csr_matrix(labels))
    command = [python, Path(__file__).with_name("compress_peers.py"), tmp_path, "--only", what]
    done = timed(lambda: subprocess.run(command, check=True, capture_output=True, text=True))
    timed.tell(table=done.stdout)
