"""Ten million drawn rows from a text file through 2 GiB, beside the same rows in memory.

Both are `fit` with the same passes and settings, each in a process of its own, two threads: one of a `Stream` of the
file with `max_memory`, the other of `load_xmc`'s arrays. Both also train by `partial_fit`, all rows once, in parts of
100,000. Told are seconds, reading included, rows a second, seconds of the processor, which other programs change less,
the peak of the process's resident memory, and the log-loss of 20,000 other rows. 20,000 rows where data are generated
small.

    python -m pytest bench/bench_stream.py
"""

import multiprocessing
import resource
import time

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream, first_label, load_xmc

N_CLASSES, N_FEATURES, N_STORED, N_TEST = 1_000, 20_000, 8, 20_000
N_ROWS, N_FEW_ROWS, PART, N_JOBS, PASSES = 10_000_000, 20_000, 100_000, 2, 1
WAYS = {  # whether it is streamed, and whether it is by parts
    "fit in memory": (False, False),
    "fit of a stream": (True, False),
    "partial_fit in memory": (False, True),
    "partial_fit of a stream": (True, True),
}


def draw(rng, n):
    """Rows of words of which half tell of the class, roughly: classes by Zipf's law, words by class or by anyone."""
    share = 1 / np.arange(1, N_CLASSES + 1)
    y = rng.choice(N_CLASSES, size=n, p=share / share.sum())
    own = 2 * y[:, np.newaxis] + rng.integers(100, size=(n, N_STORED // 2))
    any_ = rng.integers(N_FEATURES, size=(n, N_STORED // 2))
    return np.sort(np.hstack([own, any_]), axis=1), y


def write(path, n):
    """The file, without a word twice in a row."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(f"{n} {N_FEATURES} {N_CLASSES}\n")
        for first in range(0, n, PART):
            words, y = draw(rng, min(PART, n - first))
            rows = (" ".join(f"{j}:1" for j in sorted(set(row))) for row in words.tolist())
            file.writelines(f"{k} {row}\n" for k, row in zip(y.tolist(), rows, strict=True))


def train(model, path, streamed, part):
    """Fit a model in one of the ways."""
    classes = np.arange(N_CLASSES)
    if streamed:
        sizes = {"rows": PART, "window": 4} if part else {}
        stream = Stream(path, labels="first", random_state=0, n_jobs=N_JOBS, **sizes)
        if part:
            model.partial_fit(stream, classes=classes)
        else:
            model.fit(stream, classes=classes, max_memory="2GiB")
        return
    X, Y = load_xmc(path, n_jobs=N_JOBS)
    y = first_label(Y)
    if part:
        model.partial_fit(Stream(X, y, rows=PART, shuffle=False), classes=classes)
    else:
        model.fit(X, y)


def trained(path, streamed, part):
    """Seconds, memory and loss of one way, in the process that has nothing else."""
    given = {"solver": "implicit", "random_state": 0, "n_jobs": N_JOBS, "learning_rate": 0.3, "max_iter": PASSES}
    model = SoftmaxClassifier(**given)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    train(model, path, streamed, part)
    found = {"seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - begin_cpu}
    found["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30
    words, y = draw(np.random.default_rng(1), N_TEST)
    ones, rows = np.ones(words.size, np.float32), np.repeat(np.arange(N_TEST), N_STORED)
    test = sp.csr_array((ones, (rows, words.ravel())), shape=(N_TEST, N_FEATURES))
    test.data[:] = 1
    return found | {"log_loss": model.evaluate(test, y)["log_loss"]}


@pytest.fixture(scope="module")
def file(small, tmp_path_factory):
    """The text, and how many rows it has."""
    path, n = tmp_path_factory.mktemp("stream") / "rows.txt", N_FEW_ROWS if small else N_ROWS
    write(path, n)
    return path, n


@pytest.mark.parametrize("what", WAYS)
def test_streams(timed, file, what):
    path, n = file
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(trained, (str(path), *WAYS[what]))
    timed.taken([found["seconds"]])
    timed.tell(threads=N_JOBS, rows_a_second=n * PASSES / found["seconds"], file_gib=path.stat().st_size / 2**30)
    timed.tell(**found)
