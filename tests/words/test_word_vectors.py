"""Word vectors: neighbours, analogies, scores, and file formats that other programs read."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from manyclass import SkipGram, WordVectors, _core
from manyclass.words.files import load_analogies, load_word_pairs


def some(seed, n=30, dim=5):
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return WordVectors([f"w{i}é" for i in range(n)], vectors)


def test_ties_are_in_the_order_of_rows_and_what_is_no_number_is_last():
    cosines = np.array([0.5, np.nan, 0.9, 0.5, -0.1, 0.9], dtype=np.float32)
    none = np.zeros(0, dtype=np.int64)
    assert _core.nearest_words(cosines, 9, none).tolist() == [2, 5, 0, 3, 4, 1]
    assert _core.nearest_words(cosines, 2, np.array([5, 0])).tolist() == [2, 3]
    assert _core.nearest_words(cosines, 0, none).tolist() == []


@pytest.mark.parametrize("width", [1, 15, 16, 40])
def test_cosines_are_products_over_norms(width, seed):
    rng = np.random.default_rng(seed)
    rows, query = rng.normal(size=(9, width)).astype(np.float32), rng.normal(size=width)
    rows[4] = 0
    codes, scales = rng.integers(-127, 128, size=(9, width)).astype(np.int8), rng.random(9).astype(np.float32)
    halves = rows.astype(np.float16)
    none = np.zeros(0, dtype=np.float32)
    for values, own, plain in (
        (rows, none, rows),
        (halves.view(np.uint16), none, halves.astype(np.float64)),
        (codes, scales, codes * scales[:, np.newaxis].astype(np.float64)),
    ):
        norms = np.linalg.norm(plain, axis=1)
        norms[norms == 0] = 1
        np.testing.assert_allclose(_core.row_norms(values, own), norms, rtol=1e-6)  # float32
        found = _core.cosines(values, own, query)
        np.testing.assert_allclose(found, plain @ query / norms / np.linalg.norm(query), rtol=0, atol=1e-6)
        assert not _core.cosines(values, own, np.zeros(width)).any()


def test_neighbours_are_in_the_order_of_their_cosines(seed):
    vectors = some(seed)
    unit = vectors.vectors_ / np.linalg.norm(vectors.vectors_, axis=1, keepdims=True)
    cosines = unit @ unit[3]
    order = [i for i in np.argsort(-cosines) if i != 3]
    found = vectors.most_similar("w3é", topn=29)
    assert [word for word, _ in found] == [f"w{i}é" for i in order]
    np.testing.assert_allclose([c for _, c in found], cosines[order], atol=1e-6)
    assert vectors.most_similar("w3é", topn=4) == found[:4]
    assert len(vectors.most_similar("w3é", topn=1000)) == 29
    assert vectors.similarity("w3é", found[0][0]) == pytest.approx(found[0][1], abs=1e-6)


def test_an_analogy_is_answered_by_the_sum_of_unit_vectors_and_never_by_its_own_words():
    words = ["man", "king", "woman", "queen", "stone"]
    vectors = WordVectors(words, [[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [-1, -1, 0]])
    assert vectors.analogy("man", "king", "woman")[0][0] == "queen"
    assert vectors.analogy("man", "man", "stone")[0][0] not in ("man", "stone")
    with pytest.raises(KeyError, match="'dog' is not in the vocabulary of 5 words"):
        vectors.analogy("man", "king", "dog")


def test_similarity_is_scored_by_spearman_over_the_pairs_that_are_known(seed, tmp_path):
    vectors = some(seed)
    rng = np.random.default_rng(seed)
    pairs = [(f"w{a}é", f"w{b}é", float(rng.normal())) for a, b in rng.integers(30, size=(40, 2))]
    cosines = [vectors.similarity(a, b) for a, b, _ in pairs]
    expected = spearmanr(cosines, [s for *_, s in pairs]).statistic
    found = vectors.score_similarity([*pairs, ("w1é", "absent", 1.0)])
    assert found == {"spearman": pytest.approx(expected, abs=1e-12), "n_pairs": 40, "n_missing": 1}
    path = tmp_path / "pairs"
    path.write_text("# a comment\n" + "".join(f"{a}\t{b}\t{s!r}\tmore\n" for a, b, s in pairs), encoding="utf-8")
    assert load_word_pairs(path) == pairs
    assert vectors.score_similarity(path)["spearman"] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(vectors.score_similarity([])["spearman"])
    assert vectors.similarity("w1é", "w1é") == pytest.approx(1)


def test_pairs_are_evaluated_as_gensim_does(seed, tmp_path):
    vectors = some(seed)
    a, b, scores = *np.random.default_rng(seed).integers(30, size=(2, 40)), np.random.default_rng(seed).normal(size=40)
    lines = [f"W{i}É\tw{j}é\t{score!r}" for i, j, score in zip(a, b, scores.tolist(), strict=True)]
    (tmp_path / "pairs").write_text("\n".join([*lines, "w1é\tabsent\t1"]), encoding="utf-8")
    cosines = [vectors.similarity(f"w{i}é", f"w{j}é") for i, j in zip(a, b, strict=True)]
    (pearson, p_of_pearson), (spearman, p_of_spearman), missing = vectors.evaluate_word_pairs(tmp_path / "pairs")
    assert (pearson, p_of_pearson) == pytest.approx(tuple(pearsonr(cosines, scores)), abs=1e-12)
    assert (spearman, p_of_spearman) == pytest.approx(tuple(spearmanr(cosines, scores)), abs=1e-12)
    assert missing == pytest.approx(100 / 41)
    frequent = vectors.evaluate_word_pairs(tmp_path / "pairs", restrict_vocab=15)
    assert frequent[2] == pytest.approx(100 * (1 - np.mean((a < 15) & (b < 15)) * 40 / 41))
    with pytest.raises(ValueError, match="has 0 pairs of known words; two are needed"):
        vectors.evaluate_word_pairs(tmp_path / "pairs", case_insensitive=False, restrict_vocab=1)


def test_gensims_names_write_and_read_the_same_files(seed, tmp_path):
    vectors = some(seed)
    vectors.save_word2vec_format(tmp_path / "v.bin", binary=True)
    vectors.save_word2vec(tmp_path / "w.bin", binary=True)
    assert (tmp_path / "v.bin").read_bytes() == (tmp_path / "w.bin").read_bytes()
    again = WordVectors.load_word2vec_format(tmp_path / "v.bin", binary=True)
    np.testing.assert_array_equal(again.vectors_, vectors.vectors_)


def test_a_trained_model_saves_its_vectors(tmp_path):
    model = SkipGram(dim=4, window=1, sample=0, random_state=0).fit([["ant", "bee"], ["cow", "dog"]] * 50)
    model.save(tmp_path / "v")
    again = WordVectors.load(tmp_path / "v")
    assert again.index_to_key == model.index_to_key
    np.testing.assert_array_equal(again.vectors, model.vectors_)
    assert model.wv["ant"].tolist() == again["ant"].tolist()


def test_analogies_in_a_file_are_answered_as_one_by_one(seed, tmp_path):
    vectors = some(seed)
    questions = np.random.default_rng(seed).permutation(30)[:28].reshape(7, 4)
    lines = [" ".join(f"W{i}É" for i in q) for q in questions]
    path = tmp_path / "questions"
    path.write_text("\n".join([": one", *lines[:3], "", ": two", *lines[3:], "absent w1é w2é w3é"]), encoding="utf-8")
    assert {name: len(found) for name, found in load_analogies(path).items()} == {"one": 3, "two": 5}
    right = [vectors.analogy(*(f"w{i}é" for i in q[:3]))[0][0] == f"w{q[3]}é" for q in questions]
    assert vectors.score_analogies(path) == {"accuracy": pytest.approx(np.mean(right)), "n_questions": 7}


@pytest.mark.parametrize("binary", [False, True])
def test_both_formats_give_the_same_bits_back(binary, seed, tmp_path):
    vectors = some(seed)
    vectors.vectors_[0] = [0, -0.0, 1e-40, 3.4e38, -1 / 3]  # a subnormal, and nearly the largest
    vectors.vectors_[1] = np.array([10, 32, 10, 32, 10], dtype=np.uint8).repeat(4).view(np.float32)  # newlines, blanks
    vectors.save_word2vec(tmp_path / "v", binary=binary)
    found = WordVectors.load_word2vec(tmp_path / "v", binary=binary)
    assert list(found.vocabulary_) == list(vectors.vocabulary_)
    np.testing.assert_array_equal(found.vectors_.view(np.uint32), vectors.vectors_.view(np.uint32))


@pytest.mark.parametrize("binary", [False, True])
def test_files_round_trip_with_gensim(binary, seed, tmp_path):
    gensim = pytest.importorskip("gensim.models", reason="needs gensim, which is not installed")
    vectors = some(seed)
    vectors.save_word2vec(tmp_path / "ours", binary=binary)
    theirs = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
    assert theirs.index_to_key == list(vectors.vocabulary_)
    np.testing.assert_array_equal(theirs.vectors, vectors.vectors_)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    back = WordVectors.load_word2vec(tmp_path / "theirs", binary=binary)
    assert back.vocabulary_ == vectors.vocabulary_
    np.testing.assert_array_equal(back.vectors_, vectors.vectors_)


def test_keyed_vectors_and_back(seed):
    pytest.importorskip("gensim.models", reason="needs gensim, which is not installed")
    vectors = some(seed)
    keyed = vectors.to_keyed_vectors()
    ours = vectors.most_similar("w3é", topn=5)
    theirs = keyed.most_similar("w3é", topn=5)
    assert [word for word, _ in theirs] == [word for word, _ in ours]
    np.testing.assert_allclose([c for _, c in theirs], [c for _, c in ours], atol=1e-6)
    back = WordVectors.from_keyed_vectors(keyed)
    assert back.vocabulary_ == vectors.vocabulary_
    np.testing.assert_array_equal(back.vectors_, vectors.vectors_)


def test_without_gensim_the_error_names_it(seed, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gensim.models", None)
    with pytest.raises(ImportError, match="gensim"):
        some(seed).to_keyed_vectors()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"nonsense\n", "it must be the numbers of words and dimensions"),
        (b"2 2\na 1 2\n", "has 1 words; its first line promises 2"),
        (b"1 2\na 1 2 3\n", "line 2: 3 numbers; its first line promises 2"),
    ],
)
def test_a_text_file_that_is_not_one_is_refused(text, message, tmp_path):
    (tmp_path / "v").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        WordVectors.load_word2vec(tmp_path / "v")


def test_other_errors_say_what_is_wrong(tmp_path, seed):
    vectors = some(seed)
    vectors.save_word2vec(tmp_path / "v.bin", binary=True)
    whole = (tmp_path / "v.bin").read_bytes()
    (tmp_path / "v.bin").write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="ends in word 30; its first line promises 30 words"):
        WordVectors.load_word2vec(tmp_path / "v.bin")
    with pytest.raises(ValueError, match=r"vectors have shape \(1, 2\); it must be \(2, dim\)"):
        WordVectors(["a", "b"], [[1, 2]])
    with pytest.raises(ValueError, match="1 words occur twice"):
        WordVectors(["a", "a"], [[1], [2]])
    with pytest.raises(ValueError, match="the word 'new york' holds a blank or is empty"):
        WordVectors(["new york"], [[1]]).save_word2vec(tmp_path / "v")
    (tmp_path / "pairs").write_text("a b 1\na b\n")
    with pytest.raises(ValueError, match="line 2: 'a b' is not two words and a number"):
        load_word_pairs(tmp_path / "pairs")
    (tmp_path / "questions").write_text(": a\na b c\n")
    with pytest.raises(ValueError, match="line 2: 'a b c' is not four words"):
        load_analogies(tmp_path / "questions")


def test_the_real_files_are_read(data_dir):
    sizes = {"wordsim353.tsv": 353, "simlex999.txt": 999, "EN-MEN-TR-3k.txt": 3000, "EN-RW-STANFORD.txt": 2034}
    for name, size in sizes.items():
        assert len(load_word_pairs(data_dir / "wordeval" / name)) == size
    questions = load_analogies(data_dir / "wordeval" / "questions-words.txt")
    assert sum(map(len, questions.values())) == 19_544


BLANKS_OF_UNICODE = "\xa0\x85\x1c\u2028\u3000"


@pytest.mark.parametrize("binary", [False, True])
def test_words_hold_any_blank_but_those_of_ascii(binary, tmp_path):
    """What the reader of texts takes for one word is written as one word, and read as one."""
    words = [f"a{blank}b" for blank in BLANKS_OF_UNICODE] + list(BLANKS_OF_UNICODE)
    vectors = WordVectors(words, np.arange(2 * len(words)).reshape(-1, 2))
    vectors.save_word2vec(tmp_path / "v", binary=binary)
    found = WordVectors.load_word2vec(tmp_path / "v", binary=binary)
    assert found.index_to_key == words
    np.testing.assert_array_equal(found.vectors_, vectors.vectors_)
    (tmp_path / "pairs").write_text("".join(f"{word} {word} 1\n" for word in words), encoding="utf-8")
    assert [pair[0] for pair in load_word_pairs(tmp_path / "pairs")] == words
    for blank in " \t\n\v\f\r":
        with pytest.raises(ValueError, match="holds a blank or is empty"):
            WordVectors([f"a{blank}b"], [[1]]).save_word2vec(tmp_path / "v")
