"""Ten million drawn rows from a text file through little memory, beside the same rows in memory.

    python bench/bench_stream.py [--rows 10000000] [--n-jobs 2]

Both train by `partial_fit`, all rows once, each in a process of its own: one on `stream_xmc`'s parts as they come, the
other on `load_xmc`'s rows, in parts of the same size. Told are seconds, rows a second, the peak of the process's
resident memory and the log-loss of 20,000 other rows.
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
from manyclass.datasets import first_label, load_xmc, stream_xmc

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


def trained(path: str, n_jobs: int, streamed: bool) -> dict[str, Any]:
    """Seconds, memory and loss of one way."""
    model = SoftmaxClassifier(solver="implicit", random_state=0, n_jobs=n_jobs, learning_rate=0.3)
    begin, classes = time.perf_counter(), np.arange(N_CLASSES)
    n = 0
    if streamed:
        for X, Y in stream_xmc(path, rows=PART, window=4, shuffle=True, random_state=0, n_jobs=n_jobs):
            model.partial_fit(X, first_label(Y), classes=classes)
            n += X.shape[0]
    else:
        X, Y = load_xmc(path, n_jobs=n_jobs)
        y, n = first_label(Y), X.shape[0]
        for first in range(0, n, PART):
            model.partial_fit(X[first : first + PART], y[first : first + PART], classes=classes)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    words, y = draw(np.random.default_rng(1), N_TEST)
    test = sp.csr_array(
        (np.ones(words.size, np.float32), (np.repeat(np.arange(N_TEST), N_STORED), words.ravel())),
        shape=(N_TEST, N_FEATURES),
    )
    test.data[:] = 1
    loss = model.evaluate(test, y)["log_loss"]
    return {"seconds": seconds, "rows a second": n / seconds, "peak GiB": peak / 2**30, "log-loss": loss}


def main() -> None:
    """Both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.txt"
        write(path, options.rows)
        print(f"{options.rows} rows, {path.stat().st_size / 2**30:.2f} GiB; load {os.getloadavg()[0]:.1f}")
        for streamed in (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found = pool.apply(trained, (str(path), options.n_jobs, streamed))
            print("stream   " if streamed else "in memory", json.dumps({k: round(v, 4) for k, v in found.items()}))


if __name__ == "__main__":
    main()
