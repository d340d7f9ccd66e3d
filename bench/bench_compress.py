"""What do half precision, bytes and pruning cost? MB in memory and on disk, log-loss, P@1 and microseconds a row.

Models of eurlex57k, yso-en and omniglot, fitted by one thread with random_state=0, or loaded from the folder if they
are there; then each is compressed, saved, loaded and asked. Times are of `predict_top_k(X, 5)` by one thread, for 2,000
rows at once and for one row at a time, the least of 7 rounds in which all variants take turns. The loaded model is
asserted to predict what the compressed one does, and no file is larger than what was asked for. With PYTHON, an
interpreter that has fasttext-wheel and omikuji, these are trained beside; see compress_peers.py.

    python bench/bench_compress.py FOLDER [--only eurlex57k-linear ...] [--peers PYTHON]
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import manyclass
from manyclass import SoftmaxClassifier, load_xmc
from manyclass.datasets import first_label, l2_normalize

N_ROWS, N_SINGLE, ROUNDS = 2000, 100, 7
MOST_TESTED = 20_000  # test rows by which losses are told; yso-en has 67,645
PRUNED = (0.8, 0.9, 0.95, 0.98)


def xmc(name, *, several):
    """Training and test rows of unit length, with the first or all labels."""
    parts = []
    for part in ("train", "test"):
        X, Y = load_xmc(Path(os.environ["MANYCLASS_DATA"]) / name / f"{part}.txt.xz")
        labels = Y if several else first_label(Y)
        rows = np.flatnonzero(np.diff(Y.indptr) > 0)
        parts += [l2_normalize(X)[rows], labels[rows]]
    return parts


def omniglot(name, *, several):
    """Images as rows of numbers in [0, 1]."""
    images = np.load(Path(os.environ["MANYCLASS_DATA"]) / name / "omniglot28.npz")
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
    "yso-en-sparse": (xmc, "yso-en", True, "sparse", (0.5, 0.8, 0.9)),
}


def fitted(folder, name):
    """The model of a name, and its test rows."""
    read, data, several, kind, _ = MODELS[name]
    X, y, X_test, y_test = read(data, several=several)
    path = folder / f"{name}.mc"
    if not path.exists():
        begin = time.process_time()
        model = SoftmaxClassifier(model=kind, random_state=0, n_jobs=1).fit(X, y)
        print(f"{name}: fitted in {time.process_time() - begin:.1f} CPU s", flush=True)
        model.save(path)
    return manyclass.load(path), X_test[:MOST_TESTED], y_test[:MOST_TESTED]


def variants(model, shares):
    """The model and its compressed copies, by name."""
    yield "as trained", model
    yield "float16", model.compress("float16")
    yield "int8", model.compress("int8")
    for share in shares:
        yield f"int8, pruned {share:g}", model.compress("int8", prune=share)


def times(models, X):
    """Least microseconds a row of many rows at once, and of one row at a time, by model."""
    some, one = X[:N_ROWS], [X[[i]] for i in range(min(N_SINGLE, X.shape[0]))]
    found = {name: [np.inf, np.inf] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            begin = time.perf_counter()
            model.predict_top_k(some, 5)
            found[name][0] = min(found[name][0], (time.perf_counter() - begin) / some.shape[0])
            begin = time.perf_counter()
            for row in one:
                model.predict_top_k(row, 5)
            found[name][1] = min(found[name][1], (time.perf_counter() - begin) / len(one))
    return {name: [1e6 * seconds for seconds in least] for name, least in found.items()}


def measure(folder, name):
    """Print a table of a model."""
    model, X, y = fitted(folder, name)
    models, files = {}, {}
    for variant, small in variants(model, MODELS[name][-1]):
        path = folder / f"{name}.{variant.replace(', ', '-').replace(' ', '-')}.small"
        small.save(path)
        files[variant] = path.stat().st_size
        models[variant] = manyclass.load(path)
        np.testing.assert_array_equal(models[variant].decision_function(X[:50]), small.decision_function(X[:50]))
        limit = path.stat().st_size + 2048
        if variant.startswith("int8, pruned"):
            again = model.compress("int8", max_bytes=limit)
            again.save(path)
            assert path.stat().st_size <= limit
        path.unlink()
    asked = times(models, X)
    print(
        f"\n{name}: {len(model.classes_)} classes, {model.n_features_in_} features, {X.shape[0]} test rows, load "
        f"{os.getloadavg()[0]:.1f}\n"
    )
    print("| weights | MB in memory | MB on disk | log-loss | P@1 | us a row, 2,000 at once | one at a time |")
    print("|---|---|---|---|---|---|---|")
    for variant, small in models.items():
        told, (many, one) = small.evaluate(X, y), asked[variant]
        memory, disk = small.storage()["weight_bytes"] / 1e6, files[variant] / 1e6
        losses = f"{told['log_loss']:.4f} | {1 - told['error']:.4f}"
        print(f"| {variant} | {memory:.2f} | {disk:.2f} | {losses} | {many:.0f} | {one:.0f} |", flush=True)


def peers(python, folder, name):
    """Files and P@1 of the peers on the same rows."""
    X, y, X_test, y_test = xmc(name, several=True)
    work = folder / f"peers-{name}"
    work.mkdir(exist_ok=True)
    for part, rows, labels in (("train", X, y), ("test", X_test[:MOST_TESTED], y_test[:MOST_TESTED])):
        sparse.save_npz(work / f"X_{part}.npz", sparse.csr_matrix(rows))
        sparse.save_npz(work / f"Y_{part}.npz", sparse.csr_matrix(labels))
    script = Path(__file__).with_name("compress_peers.py")
    subprocess.run([python, script, work], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where models are kept")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with fasttext-wheel and omikuji")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.peers:
        for name in sorted({MODELS[name][1] for name in args.only} - {"omniglot"}):
            peers(args.peers, args.folder, name)
        return
    print(json.dumps({"isa": manyclass._core.best_isa(), "cores": os.cpu_count()}))
    for name in args.only:
        measure(args.folder, name)


if __name__ == "__main__":
    main()
