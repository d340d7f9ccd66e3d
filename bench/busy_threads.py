"""What does a second thread give or cost beside other programs, by OpenMP and by threads of the standard library?

    python bench/busy_threads.py                                  # a case of each kind: 15 minutes or so
    python bench/busy_threads.py --all                            # every solver
    python bench/busy_threads.py --loads 0 10 --cases skip-gram

For each case and load it prints the wall seconds of one thread, and how many times as long two threads take. A load
of n means that n other processes do nothing but count. The goal is 1.1 at most. Each figure is the median of rounds;
in a round one thread, two by OpenMP and two of the standard library take turns, so that all meet the same load. Each
runs in a child of a fork. OpenMP gives no team to the thread that forked, which has threads of the standard library
there; a new thread of the child has OpenMP's. With --seconds the processor's seconds are told, too. POSIX only.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import (
    AugmentReduceClassifier,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    _core,
    solvers,
)

WAYS = {"1": (1, True), "2, openmp": (2, True), "2, standard library": (2, False)}  # threads, whether by OpenMP
SAMPLED = (
    "Implicit", "SGD", "UMax", "Bregman", "SCENT", "SCGD", "EMA", "AugmentReduce", "CSS", "IS", "NCE",
    "NegativeSampling", "OVE", "Bouchard", "Softplus",
)  # fmt: skip
FEW = ("Implicit", "UMax")
Work = Callable[[int], Callable[[], object]]  # from a number of threads to what is timed


def drawn(n: int, n_features: int, n_classes: int, row: int = 40) -> tuple[sp.csr_array, np.ndarray]:
    """Unit rows of `row` features and labels, both with frequencies that fall as 1 / rank."""
    rng = np.random.default_rng(0)
    features = np.sort((n_features ** rng.random((n, row)) - 1).astype(np.int32), axis=1)
    keep = np.diff(features, axis=1, prepend=-1) > 0
    indptr = np.concatenate([[0], keep.sum(axis=1).cumsum()])
    X = sp.csr_array((np.ones(indptr[-1], np.float32), features[keep], indptr), shape=(n, n_features))
    X.data /= np.sqrt(np.repeat(np.diff(indptr), np.diff(indptr))).astype(np.float32)
    return X, (n_classes ** rng.random(n) - 1).astype(np.int64)


def fits(make: Callable[..., Any], n: int, n_classes: int = 4_000, width: int = 0, **given: object) -> Work:
    """Fits of n sparse rows, or of dense ones of a width, by the estimator that `make` returns."""

    def work(n_jobs: int) -> Callable[[], object]:
        X, y = drawn(n, 5_000, n_classes)
        rows = np.random.default_rng(1).normal(size=(n, width)).astype(np.float32) if width else X
        model = make(n_jobs=n_jobs, random_state=0, **given)
        return lambda: model.fit(rows, y)

    return work


def softmax(solver: Callable[[], object], n: int, max_iter: int, **given: object) -> Work:
    return fits(lambda **own: SoftmaxClassifier(solver=solver(), **own), n, max_iter=max_iter, **given)


def skip_gram(objective: str, n_words: int) -> Work:
    def work(n_jobs: int) -> Callable[[], object]:
        words = (5_000 ** np.random.default_rng(0).random(n_words) - 1).astype(int)
        text = [[f"w{i}" for i in words[at : at + 20]] for at in range(0, n_words, 20)]
        given = {"dim": 100, "min_count": 1, "sample": 0, "max_iter": 2, "n_jobs": n_jobs, "random_state": 0}
        model = SkipGram(objective=objective, **given)
        return lambda: model.fit(text)

    return work


def predictions(n_rows: int, repetitions: int) -> Work:
    def work(n_jobs: int) -> Callable[[], object]:
        X, y = drawn(8_000, 5_000, 4_000)
        model = SoftmaxClassifier(solver="implicit", model="linear", n_negatives=16, max_iter=1, random_state=0)
        model.fit(X, y).set_params(n_jobs=n_jobs)
        return lambda: [model.predict_top_k(X[:n_rows], 5) for _ in range(repetitions)]

    return work


def clusters(n_jobs: int) -> Callable[[], object]:
    rows = np.random.default_rng(0).normal(size=(10_000, 32)).astype(np.float32)
    index = SphericalClusterIndex(random_state=0, n_jobs=n_jobs)
    return lambda: index.fit(rows)


def cases(names: tuple[str, ...]) -> dict[str, Work]:
    points = {"model": "linear", "n_negatives": 64, "alpha": 0.0}
    found: dict[str, Work] = {}
    for name in names:
        for way in ("deterministic", "hogwild"):
            found[f"{name}, {way}"] = softmax(partial(getattr(solvers, name), parallel=way), 5_000, 2, **points)
    linear = {"model": "linear", "alpha": 0.0}
    for way in ("deterministic", "hogwild"):
        found[f"Exact, {way}"] = softmax(partial(solvers.Exact, parallel=way), 1_000, 2, **linear)
    found["LBFGS"] = softmax(solvers.LBFGS, 1_000, 4, **linear)
    found["MinibatchImplicit"] = softmax(solvers.MinibatchImplicit, 1_000, 2, **points)
    embedding = {"model": "embedding", "dim": 128}
    drawn_classes = {"sampler": "frequency", "n_negatives": 1024}
    found["embeddings, 1,024 drawn"] = softmax(solvers.Adagrad, 3_000, 2, **embedding, **drawn_classes)
    found["embeddings, all classes"] = softmax(solvers.Adagrad, 2_000, 2, **embedding, sampler="all")
    found["margins, embeddings"] = fits(MarginClassifier, 2_000, 1_000, model="embedding", dim=64, max_iter=2)
    found["margins, features"] = fits(MarginClassifier, 2_000, 1_000, model="linear", max_iter=2)
    for noise in ("normal", "logistic"):
        found[f"A&R, {noise}"] = fits(AugmentReduceClassifier, 3_000, 1_000, noise=noise, max_iter=2)
    found["default, sparse rows"] = fits(SoftmaxClassifier, 1_000, 300)
    found["default, dense rows"] = fits(SoftmaxClassifier, 2_000, 300, width=64)
    found["pairs"] = softmax(solvers.Adagrad, 500, 1, model="pairs")
    for objective in ("softmax", "negative_sampling"):
        found[f"skip-gram, {objective}"] = skip_gram(objective, 20_000)
    found["top 5 of 1,200 rows, 8 times"] = predictions(1_200, 8)
    found["top 5 of 8,000 rows, twice"] = predictions(8_000, 2)
    found["clusters of 10,000 rows"] = clusters
    return found


def in_a_child(work: Work, n_threads: int, by_openmp: bool) -> tuple[float, float]:
    """Wall and processor seconds of the second run of a case, in a child of a fork."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        made: list[float] = []

        def timed() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = work(n_threads)
                run()  # touches its memory, and begins its threads
                begin = time.perf_counter(), time.process_time()
                run()
                made.extend((time.perf_counter() - begin[0], time.process_time() - begin[1]))

        if by_openmp:
            thread = threading.Thread(target=timed)
            thread.start()
            thread.join()
        else:
            timed()
        os.write(writing, json.dumps(made).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        wall, processor = json.loads(pipe.read())
    os.waitpid(child, 0)
    return wall, processor


@contextlib.contextmanager
def busy(n: int) -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    time.sleep(0.3 if n else 0)  # until they count
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measured(work: Work, rounds: int, ways: list[str]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for turn in range(rounds):
        for way in [*ways, *ways][turn % len(ways) :][: len(ways)]:
            found[way].append(in_a_child(work, *WAYS[way]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every solver by points")
    parser.add_argument("--cases", nargs="+", default=[""], help="of names that begin so")
    parser.add_argument("--loads", nargs="+", type=int, default=[0, 2, 5, 10], help="numbers of busy processes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", action="store_true", help="tell the processor's seconds, too")
    parser.add_argument("--openmp", action="store_true", help="leave threads of the standard library out")
    args = parser.parse_args()
    print(
        f"{os.cpu_count()} processors, {_core.best_isa()}, load {os.getloadavg()[0]:.1f}, OpenMP: {_core.by_openmp()}"
    )
    ways = [way for way, (_, by_openmp) in WAYS.items() if by_openmp or not args.openmp]
    print("| case | load | 1 thread, s |" + "".join(f" {way}, times |" for way in ways[1:]))
    print("|---" * (2 + len(ways)) + "|", flush=True)
    for name, work in cases(SAMPLED if args.all else FEW).items():
        if not name.startswith(tuple(args.cases)):
            continue
        for load in args.loads:
            with busy(load):
                found = measured(work, args.rounds, ways)
            one = [wall for wall, _ in found["1"]]
            line = f"| {name} | {load} | {statistics.median(one):.3f} |"
            for way in ways[1:]:
                ratios = [wall / alone for (wall, _), alone in zip(found[way], one, strict=True)]
                line += f" {statistics.median(ratios):.2f} |"
            if args.seconds:
                used = [f"{statistics.median(cpu for _, cpu in found[way]):.3f}" for way in ways]
                line += f" processor: {', '.join(used)} s |"
            print(line, flush=True)


if __name__ == "__main__":
    main()
