"""How long does it take to read yso-en's training text (608,795 rows, 59 MB) into CSR matrices? In seconds.

`load_xmc` with one thread and with all, against scikit-learn's `load_svmlight_file`, which gets the same file
without its header and has its turn before each round. All read plain text from the page cache, and their matrices must
be equal.

    python -m pytest bench/bench_read.py
"""

import lzma

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from manyclass.datasets import load_xmc


@pytest.fixture(scope="module")
def files(data_folder, tmp_path_factory):
    """The text with its header, and without it; rows and features."""
    with lzma.open(data_folder / "yso-en" / "train.txt.xz") as packed:
        text = packed.read()
    folder, header = tmp_path_factory.mktemp("yso-en"), text.index(b"\n") + 1
    with_header, without = folder / "xmc.txt", folder / "svmlight.txt"
    with_header.write_bytes(text)
    without.write_bytes(text[header:])
    n_rows, n_features, _ = map(int, text[:header].split())
    return with_header, without, n_rows, n_features


@pytest.mark.parametrize("what", ["load_xmc, one thread", "load_xmc, all threads"])
def test_reading(timed, files, what):
    path, svmlight, n_rows, n_features = files
    n_jobs = 1 if what.endswith("one thread") else -1

    def theirs():
        given = {"n_features": n_features, "dtype": np.float32, "multilabel": True, "zero_based": True}
        return load_svmlight_file(str(svmlight), **given)

    X, Y = timed(lambda: load_xmc(path, n_jobs=n_jobs), rounds=7, warmup=1, beside={"scikit-learn": theirs})
    timed.tell(threads=n_jobs, megabytes=path.stat().st_size / 1e6)
    X_theirs, labels = theirs()
    assert X.shape == X_theirs.shape == (n_rows, n_features)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, part), getattr(X_theirs, part))
    Y = Y.sorted_indices()  # as scikit-learn sorts them
    np.testing.assert_array_equal(np.diff(Y.indptr), [len(row) for row in labels])
    np.testing.assert_array_equal(Y.indices, np.concatenate(labels))
