"""Ten million drawn rows from a text file through 2 GiB, beside the same rows in memory.

    python bench/bench_stream.py [--rows 10000000] [--n-jobs 2] [--passes 1] [--max-memory 2GiB] [--part]

Both are `fit` with the same passes and settings, each in a process of its own: one of a `Stream` of the file with
`max_memory`, the other of `load_xmc`'s arrays. With --part both train by `partial_fit`, all rows once, in parts of
100,000. Told are seconds, reading included, rows a second, seconds of the processor, which other programs change less,
the peak of the process's resident memory, and the log-loss of 20,000 other rows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream, first_label, load_xmc

N_CLASSES, N_FEATURES, N_STORED, N_TEST = 1_000, 20_000, 8, 20_000
PART = 100_000


def draw(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Rows of words of which half tell of the class, roughly: classes by Zipf's law, words by class or by anyone."""
    share = 1 / np.arange(1, N_CLASSES + 1)
    y = rng.choice(N_CLASSES, size=n, p=share / share.sum())
    own = 2 * y[:, np.newaxis] + rng.integers(100, size=(n, N_STORED // 2))
    any_ = rng.integers(N_FEATURES, size=(n, N_STORED // 2))
    return np.sort(np.hstack([own, any_]), axis=1), y


def write(path: Path, n: int) -> None:
    """The file, without a word twice in a row."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(f"{n} {N_FEATURES} {N_CLASSES}\n")
        for first in range(0, n, PART):
            words, y = draw(rng, min(PART, n - first))
            rows = (" ".join(f"{j}:1" for j in sorted(set(row))) for row in words.tolist())
            file.writelines(f"{k} {row}\n" for k, row in zip(y.tolist(), rows, strict=True))


def trained(path: str, options: argparse.Namespace, streamed: bool) -> dict[str, Any]:
    """Seconds, memory and loss of one way."""
    n_jobs, classes = options.n_jobs, np.arange(N_CLASSES)
    model = SoftmaxClassifier(
        solver="implicit", random_state=0, n_jobs=n_jobs, learning_rate=0.3, max_iter=options.passes
    )
    begin, begin_cpu = time.perf_counter(), time.process_time()
    if streamed:
        sizes = {"rows": PART, "window": 4} if options.part else {}
        stream = Stream(path, labels="first", random_state=0, n_jobs=n_jobs, **sizes)
        if options.part:
            model.partial_fit(stream, classes=classes)
        else:
            model.fit(stream, classes=classes, max_memory=options.max_memory)
    else:
        X, Y = load_xmc(path, n_jobs=n_jobs)
        y = first_label(Y)
        if options.part:
            model.partial_fit(Stream(X, y, rows=PART, shuffle=False), classes=classes)
        else:
            model.fit(X, y)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    words, y = draw(np.random.default_rng(1), N_TEST)
    test = sp.csr_array(
        (np.ones(words.size, np.float32), (np.repeat(np.arange(N_TEST), N_STORED), words.ravel())),
        shape=(N_TEST, N_FEATURES),
    )
    test.data[:] = 1
    loss = model.evaluate(test, y)["log_loss"]
    visits = options.rows * (1 if options.part else options.passes)
    return {
        "seconds": seconds,
        "rows a second": visits / seconds,
        "CPU seconds": cpu,
        "peak GiB": peak / 2**30,
        "log-loss": loss,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--max-memory", default="2GiB")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.txt"
        write(path, options.rows)
        print(f"{options.rows} rows, {path.stat().st_size / 2**30:.2f} GiB; load {os.getloadavg()[0]:.1f}", flush=True)
        for streamed in (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found = pool.apply(trained, (str(path), options, streamed))
            told = {k: round(v, 4) for k, v in found.items()}
            print("stream   " if streamed else "in memory", json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
