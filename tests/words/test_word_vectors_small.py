"""Compressed word vectors: answers, bytes, files, and what is refused."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from test_command import run, table, the_error
from test_saved_models import rewrite

from manyclass import SkipGram, WordVectors
from manyclass.words.vectors import CodedTable

N, DIM = 300, 33
DTYPES = ("float32", "float16", "int8")


@pytest.fixture
def vectors(seed):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((N, DIM)).astype(np.float32)
    numbers[7] = 0
    return WordVectors([f"wörd{i}" for i in range(N)], numbers)


@pytest.mark.parametrize("dtype", DTYPES)
def test_answers_are_those_of_the_rounded_vectors(vectors, dtype):
    small = vectors.compress(dtype)
    plain = WordVectors(small.index_to_key, np.array(small.vectors_))
    assert type(small) is WordVectors
    assert small["wörd5"].dtype == small[["wörd5", "wörd7"]].dtype == np.float32
    np.testing.assert_array_equal(small[["wörd5", "wörd7"]], plain[["wörd5", "wörd7"]])
    for topn, restrict in ((5, None), (3, 50), (None, None), (None, 40)):
        found = small.most_similar(["wörd3", "wörd9"], ["wörd4"], topn, restrict_vocab=restrict)
        expected = plain.most_similar(["wörd3", "wörd9"], ["wörd4"], topn, restrict_vocab=restrict)
        if topn is None:  # sums of 33 products in another order
            np.testing.assert_allclose(found, expected, atol=1e-5)
        else:
            assert [word for word, _ in found] == [word for word, _ in expected]
    assert small.similarity("wörd1", "wörd2") == plain.similarity("wörd1", "wörd2")
    assert small.similarity("wörd7", "wörd2") == 0
    np.testing.assert_allclose(small.distances("wörd1"), plain.distances("wörd1"), atol=1e-5)
    np.testing.assert_array_equal(small.get_normed_vectors(), plain.get_normed_vectors())
    assert small.vector_size == DIM
    # Half a step of 127 in each number, or 2^-11 of it.
    step = {"float32": 0, "float16": 2.0**-11, "int8": 0.5001 / 127}[dtype]
    assert np.all(
        np.abs(plain.vectors_ - vectors.vectors_) <= step * np.abs(vectors.vectors_).max(axis=1)[:, np.newaxis]
    )


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_files_and_pickles_keep_words_numbers_and_bytes(tmp_path, vectors, dtype, mmap):
    small = vectors.compress(dtype, prune=0.25)
    assert small.index_to_key == vectors.index_to_key[: N - N // 4]
    small.save(tmp_path / "v")
    for other in (WordVectors.load(tmp_path / "v", mmap=mmap), pickle.loads(pickle.dumps(small))):
        assert other.index_to_key == small.index_to_key
        np.testing.assert_array_equal(np.asarray(other.vectors_), np.asarray(small.vectors_), strict=True)
        assert other.vectors_.nbytes == small.vectors_.nbytes
        assert other.most_similar("wörd3") == small.most_similar("wörd3")
    small.save_word2vec(tmp_path / "text")
    np.testing.assert_array_equal(WordVectors.load_word2vec(tmp_path / "text").vectors_, np.asarray(small.vectors_))


@pytest.mark.parametrize("dtype", ["auto", *DTYPES])
def test_a_file_is_as_small_as_asked_for(tmp_path, vectors, dtype):
    for most in (3_000, 9_000, 15_000, 20_000, 30_000, 60_000):
        small = vectors.compress(dtype, max_bytes=most)
        small.save(tmp_path / "v")
        assert os.path.getsize(tmp_path / "v") <= most
        words, table = len(small), small.vectors_
        if dtype == "auto":
            assert table.values.dtype == (np.float16 if most >= 30_000 else np.int8)
        if most == 60_000:
            assert words == N


def test_cosines_are_made_without_a_float32_table():
    rng = np.random.default_rng(0)
    vectors = WordVectors(list(map(str, range(40_000))), rng.standard_normal((40_000, 100)).astype(np.float32))
    small = vectors.compress("int8")
    assert isinstance(small.vectors_, CodedTable)
    assert small.vectors_.nbytes == 40_000 * 104
    query = np.ones(100, dtype=np.float32)
    found = small.most_similar(query, topn=None)
    tracemalloc.start()
    small.most_similar(query, topn=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000 * 4 * 4  # cosines; the table is 16 MB as float32
    plain = small.vectors_.plain()
    expected = plain @ query / (10 * np.linalg.norm(plain, axis=1))
    np.testing.assert_allclose(found, expected, atol=1e-6)  # float32


def test_trained_vectors_are_compressed_by_way_of_word_vectors():
    model = SkipGram(4, min_count=1, sample=0, max_iter=1, random_state=0).fit([["red", "green", "blue"]] * 20)
    small = WordVectors.from_keyed_vectors(model).compress("float16")
    assert small.index_to_key == model.index_to_key
    np.testing.assert_allclose(small["red"], model["red"], rtol=2.0**-11, atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dtype": "int4"}, "dtype is 'int4'; it must be one of"),
        ({"prune": 1.0}, "prune is 1.0; it must be below 1"),
        ({"max_bytes": "many"}, "max_bytes is 'many'"),
        ({"max_bytes": 1000}, "max_bytes is 1000; not even one word fits as int8"),
    ],
)
def test_bad_arguments_are_told(vectors, arguments, told):
    with pytest.raises(ValueError, match=told):
        vectors.compress(**arguments)
    with pytest.raises(ValueError, match="these vectors are compressed"):
        vectors.compress("int8").compress("int8")


DAMAGES = {
    "no rows": (lambda t: {k: v for k, v in t.items() if k != "rows"}, "'rows' is bool of shape"),
    "rows": (lambda t: t | {"rows": t["rows"].astype(np.int16)}, "'rows' is int16"),
    "scales": (lambda t: t | {"rows.scales": t["rows.scales"][:-1].copy()}, "'rows.scales' is float32 of shape"),
    "words": (lambda t: t | {"words.offsets": np.zeros_like(t["words.offsets"])}, "'words.text' is uint8 of shape"),
    "text": (lambda t: t | {"words.text": np.full_like(t["words.text"], 255)}, "invalid start byte"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_files_are_told(tmp_path, vectors, case):
    change, told = DAMAGES[case]
    vectors.compress("int8").save(tmp_path / "v")
    rewrite(tmp_path / "v", tensors=change)
    with pytest.raises(ValueError, match=f"v is damaged: .*{told}"):
        WordVectors.load(tmp_path / "v")


def test_other_files_are_told(tmp_path, vectors):
    (tmp_path / "text").write_text("no vectors")
    with pytest.raises(ValueError, match="text is not a safetensors file"):
        WordVectors.load(tmp_path / "text")
    vectors.save(tmp_path / "v")
    rewrite(tmp_path / "v", metadata=lambda m: m | {"format_version": "2"})
    with pytest.raises(ValueError, match=r"v has format version 2, .*; this manyclass reads versions 1 to 1"):
        WordVectors.load(tmp_path / "v")
    rewrite(tmp_path / "v", metadata=lambda m: m | {"format": "other"})
    with pytest.raises(ValueError, match=r"v is not a file of word vectors of manyclass: its format is 'other'"):
        WordVectors.load(tmp_path / "v")


def test_the_command_compresses_word_vectors_and_asks_them(tmp_path, vectors, capsys):
    vectors.save_word2vec(tmp_path / "v.txt")
    run("compress", tmp_path / "v.txt", "--output", tmp_path / "v", "--dtype", "int8", "--max-bytes", "9kB")
    assert "words, " in capsys.readouterr().out
    assert os.path.getsize(tmp_path / "v") <= 9000
    run("info", tmp_path / "v")
    told = table(capsys.readouterr().out)
    assert told["kind"] == "word vectors, compressed"
    run("neighbours", tmp_path / "v", "wörd3", "-k", 2)
    answers = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()]
    expected = [word for word, _ in WordVectors.load(tmp_path / "v").most_similar("wörd3", topn=2)]
    assert answers[-2:] == expected
    assert "--test is for models" in the_error(
        capsys, "compress", tmp_path / "v.txt", "--output", tmp_path / "w", "--test", tmp_path / "v.txt"
    )
