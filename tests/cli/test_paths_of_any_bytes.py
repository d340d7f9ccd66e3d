"""Names of files may be of any bytes; messages show those that are no UTF-8 by their numbers."""

import gzip
import io
import os
import sys

import numpy as np
import pytest

import manyclass
from manyclass import SkipGram, SoftmaxClassifier, WordVectors, load_xmc
from manyclass.cli import main
from manyclass.datasets import Stream, load_csr, save_csr

TEXTS = {
    ".txt": b"0 0:1\n1 1:1\n2 2:1\n2 3:1\n" * 20,
    ".svm": b"a 1:1\nb 2:1\nc 3:1\n" * 20,
    ".csv": b"label,a,b\n" + b"x,1,2\ny,2,1\n" * 20,
    ".txt.gz": gzip.compress(b"0 0:1\n1 1:1\n2 2:1\n2 3:1\n" * 20),
}


@pytest.fixture
def base(tmp_path):
    name = os.path.join(os.fsencode(tmp_path), b"caf\xe9 \xff")
    try:
        open(name, "wb").close()
    except OSError:
        pytest.skip("this system has no such names")
    return os.fsdecode(name)


@pytest.mark.quick
@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_commands_take_them(suffix, stream, base, monkeypatch):
    data, model, out = (base + end for end in (suffix, ".model", ".out"))
    with open(data, "wb") as file:
        file.write(TEXTS[suffix])
    for pipe in ("stdout", "stderr"):
        monkeypatch.setattr(sys, pipe, io.TextIOWrapper(io.BytesIO(), errors="surrogateescape"))
    assert main(["fit", data, "--output", model, "--max-iter", "1", *stream]) == 0
    assert main(["predict", model, data, "--output", out]) == 0
    assert main(["evaluate", model, data]) == 0
    assert main(["info", model]) == 0
    assert os.path.getsize(out) > 0
    SoftmaxClassifier(max_iter=1).fit(Stream(data))


@pytest.mark.quick
def test_python_takes_them(base):
    with open(base, "wb") as file:
        file.write(TEXTS[".txt"])
    X, Y = load_xmc(base, cache=True)
    save_csr(base + ".csr", X, Y)
    np.testing.assert_array_equal(load_csr(base + ".csr")[0].toarray(), X.toarray())
    model = SoftmaxClassifier(max_iter=2).fit(X, Y, checkpoint=base + ".folder")
    model.save(base + ".model")
    for mmap in (False, True):
        np.testing.assert_array_equal(
            manyclass.load(base + ".model", mmap=mmap).predict(X).toarray(), model.predict(X).toarray()
        )
    with open(base, "wb") as file:
        file.write(b"the ant and the bee\n" * 50)
    SkipGram(dim=4, max_iter=1, min_count=1, sample=0).fit(base).save_word2vec(base + ".vec")
    assert "ant" in WordVectors.load_word2vec(base + ".vec").vocabulary_
    with pytest.raises(ValueError, match=r"caf\\xe9 \\xff:1"):
        load_xmc(base)
