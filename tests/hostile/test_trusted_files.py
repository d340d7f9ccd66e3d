"""Files that are written at once or not at all, and files that ask for more than they hold, or for numbers in vain."""

import json
import os
import re
import tracemalloc

import numpy as np
import pytest
from reference.states import renamed
from scipy import sparse
from test_saved_models import fitted, rewrite

import manyclass
from manyclass import DecomposedIndex, SphericalClusterIndex, WordVectors
from manyclass.datasets import load_csr, save_csr
from manyclass.weights import tensor_file


def vectors(n=3, dim=2):
    return WordVectors([f"w{i}" for i in range(n)], np.arange(n * dim).reshape(n, dim))


def csr(seed):
    return sparse.csr_array(np.random.default_rng(seed).poisson(0.3, (20, 9)).astype(np.float32))


def writers(seed):
    """Each kind of file: how it is written, and how it is read."""
    return {
        "model": (fitted()[0].save, manyclass.load),
        "index": (SphericalClusterIndex(2, random_state=0).fit(np.eye(6)).save, SphericalClusterIndex.load),
        "word2vec text": (vectors().save_word2vec, WordVectors.load_word2vec),
        "word2vec binary": (
            lambda p: vectors().save_word2vec(p, binary=True),
            lambda p: WordVectors.load_word2vec(p, binary=True),
        ),
        "csr": (lambda p: save_csr(p, csr(seed)), load_csr),
    }


KINDS = ["model", "index", "word2vec text", "word2vec binary", "csr"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(kind, tmp_path, monkeypatch, seed):
    write, read = writers(seed)[kind]
    write(tmp_path / "f")
    before = (tmp_path / "f").read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "f")
    monkeypatch.undo()
    assert (tmp_path / "f").read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]
    read(tmp_path / "f")


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_writer_left_is_removed_by_the_next_but_not_what_is_being_written(kind, tmp_path, seed):
    write, _ = writers(seed)[kind]
    other = tmp_path / ".f.0123"
    other.write_bytes(b"not ours")
    with tensor_file.replacing(tmp_path / "f") as alive:
        left = tmp_path / f".f.{'0' * 16}"
        left.write_bytes(b"half a file")
        write(tmp_path / "f")
        assert left.exists()  # it is young
        os.utime(left, (0, 0))
        write(tmp_path / "f")
        assert not left.exists()
        assert os.path.exists(alive.name)
        alive.write(b"the other one")
    assert (tmp_path / "f").read_bytes() == b"the other one"
    assert sorted(os.listdir(tmp_path)) == [".f.0123", "f"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_private_file_is_private_while_it_is_written(tmp_path, mode):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(mode)
    with tensor_file.replacing(path) as file:
        assert os.stat(file.name).st_mode & 0o777 & ~mode == 0
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(kind, tmp_path, seed):
    _, read = writers(seed)[kind]
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is a pipe, a device or a socket; it must be"):
            read(path)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="this system has no /dev/fd")
def test_a_text_is_read_from_a_pipe():
    ends = os.pipe()
    os.write(ends[1], b"0 0:1 2:3\n1 1:2\n")
    os.close(ends[1])
    X, Y = manyclass.load_xmc(f"/dev/fd/{ends[0]}")
    os.close(ends[0])
    assert (X.shape, Y.shape, X.nnz) == ((2, 3), (2, 2), 3)


def most_memory(read, path):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}"):
            read(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SMALL = 30_000_000  # bytes: what an allocation that a file asks for is far above, and modules loaded meanwhile below


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("head", ["1000000000 1000", "3 1000000000", "1000000000000000000 2"])
def test_a_word2vec_file_allocates_no_more_than_it_holds(head, binary, tmp_path):
    path = tmp_path / "v"
    vectors().save_word2vec(path, binary=binary)
    path.write_bytes(head.encode() + path.read_bytes()[3:])
    assert most_memory(lambda p: WordVectors.load_word2vec(p, binary=binary), path) < SMALL


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"2 2\na 1 2\nb 1 x\n", "line 3: 'x' is no finite number"),
        (b"2 2\na 1 2\na 1 2\n", "1 words occur twice"),
        (b"2 2\na 1 2\nb 1 nan\n", "line 3: 'nan' is no finite number"),
        (b"2 2\na 1 2\nb 1 1e99\n", "line 3: '1e99' is no finite number"),
        (b"2 2\na 1 2\n\xff 1 2\n", "can't decode byte 0xff"),
        (b"2 2\na 1 2\nb 1\n#######", "line 3: 1 numbers"),
        (b"9" * 10**6, "it must be the numbers of words and dimensions"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_each_error_in_a_word2vec_file_has_its_name_and_is_short(body, message, tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(body)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*{message}") as error:
        WordVectors.load_word2vec(path)
    assert len(str(error.value)) < 2000


def test_labels_of_a_model_take_no_more_memory_than_its_file_allows_and_are_not_cut(tmp_path):
    for dtype, is_right in (("<U200000000", True), ("<U1", False)):
        model = fitted()[0]
        labels = [f"label {k:04}" for k in range(len(model.classes_))]
        renamed(model, labels)
        model.save(tmp_path / "m")

        def change(metadata, dtype=dtype):
            description = json.loads(metadata["model"])
            description["classes"]["dtype"] = dtype
            return metadata | {"model": json.dumps(description)}

        rewrite(tmp_path / "m", metadata=change)
        if is_right:
            assert manyclass.load(tmp_path / "m").classes_.dtype == object
            assert manyclass.load(tmp_path / "m").classes_.tolist() == labels
        else:
            assert most_memory(manyclass.load, tmp_path / "m") < SMALL
            with pytest.raises(ValueError, match="its labels have type <U1; one has 10 characters"):
                manyclass.load(tmp_path / "m")


def test_an_index_with_more_blocks_than_columns_is_refused_before_it_is_made(tmp_path):
    DecomposedIndex(2, random_state=0).fit(np.eye(6)).save(tmp_path / "i")

    def change(metadata):
        return metadata | {"parameters": metadata["parameters"].replace('"n_blocks": 2', '"n_blocks": 100000000')}

    rewrite(tmp_path / "i", metadata=change)
    assert most_memory(DecomposedIndex.load, tmp_path / "i") < SMALL
    with pytest.raises(ValueError, match="n_blocks is 100000000; it must be at least 1 and at most 6"):
        DecomposedIndex.load(tmp_path / "i")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_neither_written_nor_read(value, tmp_path, monkeypatch):
    model = fitted()[0]
    model._weights.matrix[0, 0] = value
    with pytest.raises(ValueError, match="the weights are not finite, because training diverged"):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr("manyclass.classifiers.files.is_finite", lambda array: True)
    model.save(tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / 'm'))} is damaged: 'weights' has numbers that"):
        manyclass.load(tmp_path / "m")
