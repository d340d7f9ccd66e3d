"""How long does it take to read yso-en's training text (608,795 rows, 59 MB) into CSR matrices? In seconds.

`load_xmc` with one thread and with all, against scikit-learn's `load_svmlight_file`, which gets the same file
without its header. All read plain text from the page cache, and their matrices must be equal. Needs MANYCLASS_DATA:

    python -m pytest bench/bench_read.py -s

pytest-benchmark's table gives each reader's time and, in brackets, its ratio to the fastest; the lines printed at the
end give scikit-learn's time over that of load_xmc, minimum by minimum and median by median.
"""

import lzma
import os
import platform
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from manyclass.datasets import load_xmc


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The text with its header, and without it."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    with lzma.open(Path(os.environ["MANYCLASS_DATA"]) / "yso-en" / "train.txt.xz") as packed:
        text = packed.read()
    folder = tmp_path_factory.mktemp("yso-en")
    with_header, without = folder / "xmc.txt", folder / "svmlight.txt"
    with_header.write_bytes(text)
    without.write_bytes(text[text.index(b"\n") + 1 :])
    return with_header, without


@pytest.fixture(scope="module")
def statistics():
    """Times of each reader; ratios are printed once all have run."""
    times = {}
    yield times
    theirs = times.get("scikit-learn")
    for name, ours in times.items():
        if theirs and ours is not theirs:
            print(f"\n{name}: {theirs.min / ours.min:.1f} x (min), {theirs.median / ours.median:.1f} x (median)")


def _scikit_learn(path):
    return load_svmlight_file(str(path), n_features=50_000, dtype=np.float32, multilabel=True, zero_based=True)


def _measure(benchmark, read, rounds):
    benchmark.extra_info.update(load=os.getloadavg(), cpu=platform.processor(), cores=os.cpu_count())
    return benchmark.pedantic(read, rounds=rounds, warmup_rounds=1)


def test_scikit_learn(benchmark, files, statistics):
    X, labels = _measure(benchmark, lambda: _scikit_learn(files[1]), rounds=7)
    statistics["scikit-learn"] = benchmark.stats.stats
    assert X.shape == (608_795, 50_000)
    assert len(labels) == 608_795


@pytest.mark.parametrize("n_jobs", [1, -1])
def test_load_xmc(benchmark, files, statistics, n_jobs):
    X, Y = _measure(benchmark, lambda: load_xmc(files[0], n_jobs=n_jobs), rounds=21)
    statistics[f"load_xmc, n_jobs={n_jobs}"] = benchmark.stats.stats
    X_theirs, labels = _scikit_learn(files[1])
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, part), getattr(X_theirs, part))
    np.testing.assert_array_equal(np.diff(Y.indptr), [len(row) for row in labels])
    np.testing.assert_array_equal(Y.indices, np.concatenate(labels))
