"""Word vectors under gensim's names: lookups, neighbours, odd ones out; and gensim's answers where it is there."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from test_skip_gram import small, topical

from manyclass import SkipGram, WordVectors

PLACES = WordVectors(["man", "king", "woman", "queen", "stone"], np.eye(5, 3) + np.arange(3) / 10)


def cosine(a, b):
    """The definition, in double precision."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return a @ b / np.sqrt((a @ a) * (b @ b))


@pytest.fixture(params=["read", "trained"])
def vectors(request, seed):
    """Vectors of 40 words, read or trained; the words are the same."""
    model = small(objective="negative_sampling", random_state=seed).fit(topical(seed, 300))
    return model if request.param == "trained" else WordVectors(model.index_to_key, model.vectors_)


def test_words_are_the_keys_of_a_table(vectors):
    words = list(vectors.vocabulary_)
    assert list(vectors) == vectors.index_to_key == words
    assert vectors.key_to_index == {word: row for row, word in enumerate(words)}
    assert len(vectors) == 40
    assert vectors.vector_size == 12
    assert "t0w1" in vectors
    assert "T0w1" not in vectors
    assert 3 not in vectors
    row = vectors.vocabulary_["t2w3"]
    assert vectors.get_index("t2w3") == row
    assert vectors.get_index("unheard", default=-1) == -1
    np.testing.assert_array_equal(vectors["t2w3"], vectors.vectors_[row])
    np.testing.assert_array_equal(vectors[["t2w3", "t0w1"]], vectors.vectors_[[row, vectors.vocabulary_["t0w1"]]])
    np.testing.assert_array_equal(vectors.vectors, vectors.vectors_)
    assert vectors[[]].shape == (0, 12)
    assert np.linalg.norm(vectors.get_vector("t2w3", norm=True)) == pytest.approx(1, abs=1e-6)  # float32


def test_what_is_given_out_is_a_copy(vectors):
    before = vectors.vectors_.copy()
    for found in (vectors["t0w1"], vectors[["t0w1"]], vectors.get_vector("t0w1"), vectors.get_normed_vectors()):
        found[:] = 7
    np.testing.assert_array_equal(vectors.vectors_, before)


def test_neighbours_take_the_places_of_gensims_arguments(vectors):
    three = vectors.most_similar("t0w1", topn=3)
    assert len(three) == 3
    assert vectors.most_similar(["t0w1"], [], 3) == three
    assert vectors.most_similar(("t0w1",), None, 3) == three
    assert vectors.similar_by_word("t0w1", 3) == three
    assert len(vectors.most_similar("t0w1")) == 10
    assert vectors.most_similar("t0w1", topn=0) == []
    assert vectors.most_similar(positive=["t0w1", "t0w2"], negative=["t3w1"], topn=2) == vectors.most_similar(
        ["t0w1", "t0w2"], "t3w1", 2
    )


def test_neighbours_of_weighted_words_and_vectors_are_those_of_the_definition(vectors, seed):
    own = np.random.default_rng(seed).normal(size=12)
    unit = {word: vectors[word] / np.linalg.norm(vectors[word].astype(np.float64)) for word in vectors}
    query = 0.5 * unit["t0w1"] + own - 2.0 * unit["t1w1"] - unit["t1w2"]
    expected = np.array([cosine(unit[word], query) for word in vectors])
    arguments = ([("t0w1", 0.5), own], [("t1w1", -2.0), "t1w2"])
    cosines = vectors.most_similar(*arguments, topn=None)
    np.testing.assert_allclose(cosines, expected, atol=1e-6)  # float32
    used = {"t0w1", "t1w1", "t1w2"}
    order = [w for _, w in sorted(zip(-expected, vectors, strict=True)) if w not in used]
    assert [word for word, _ in vectors.most_similar(*arguments, topn=100)] == order
    first = vectors.most_similar(*arguments, topn=5, restrict_vocab=15)
    assert [word for word, _ in first] == [w for w in order if vectors.vocabulary_[w] < 15][:5]
    assert vectors.similar_by_vector(own, 1) == vectors.most_similar(own, topn=1)


def test_distances_and_ranks_are_those_of_the_definition(vectors):
    words = vectors.index_to_key
    expected = np.array([1 - cosine(vectors["t1w1"], vectors[word]) for word in words])
    np.testing.assert_allclose(vectors.distances("t1w1"), expected, atol=1e-6)  # float32
    np.testing.assert_allclose(vectors.distances(vectors["t1w1"], words[4:6]), expected[4:6], atol=1e-6)
    assert vectors.distance("t1w1", "t2w2") == pytest.approx(expected[words.index("t2w2")], abs=1e-12)
    nearest = [word for word, _ in vectors.most_similar("t1w1", topn=39)]
    assert [vectors.rank("t1w1", word) for word in nearest[:4]] == [1, 2, 3, 4]
    assert set(vectors.closer_than("t1w1", nearest[3])) == set(nearest[:3])


def test_means_of_words_are_those_of_the_definition(vectors):
    a, b = (vectors[word].astype(np.float64) for word in ("t0w1", "t1w2"))
    plain = vectors.get_mean_vector(["t0w1", "unheard", "t1w2"], pre_normalize=False)
    np.testing.assert_allclose(plain, (a + b) / 2, rtol=1e-6, atol=1e-7)  # float32
    weighted = vectors.get_mean_vector(["t0w1", b], weights=[3, -1])
    np.testing.assert_allclose(weighted, (3 * a / np.linalg.norm(a) - b) / 4, rtol=1e-6, atol=1e-7)
    unit = vectors.get_mean_vector(["t0w1", "t1w2"], post_normalize=True)
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-6)
    assert vectors.n_similarity(["t0w1", "t1w2"], ["t0w1"]) == pytest.approx(cosine(a + b, a), abs=1e-6)
    assert not vectors.get_mean_vector(["unheard"]).any()
    assert vectors.n_similarity(["unheard"], ["t0w1"]) == 0


def test_the_odd_word_is_the_one_far_from_the_others():
    vectors = WordVectors(["bread", "cake", "bun", "lorry"], [[1, 0.1], [1, 0], [1, -0.1], [-0.5, 1]])
    assert vectors.doesnt_match(["bread", "lorry", "cake", "bun"]) == "lorry"
    with pytest.raises(KeyError, match="'train' is not in the vocabulary of 4 words"):
        vectors.doesnt_match(["bread", "train"])
    with pytest.raises(TypeError, match=r"words is 'bread bun'; it must be a list of words, such as \['bread', "):
        vectors.doesnt_match("bread bun")


def test_an_unknown_word_is_named():
    for ask in (PLACES.__getitem__, PLACES.most_similar, PLACES.get_vector, lambda w: PLACES.similarity("man", w)):
        with pytest.raises(KeyError, match="'womann' is not in the vocabulary of 5 words"):
            ask("womann")
    with pytest.raises(KeyError, match="'xylophone' is not in the vocabulary of 5 words"):
        PLACES[["man", "xylophone"]]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda v: v[3], TypeError, r"a word is 3; it must be a str. The word of a row is index_to_key\[row\]"),
        (lambda v: v[["man", 3]], TypeError, "a word is 3"),
        (lambda v: v.most_similar(), ValueError, "positive and negative are empty"),
        (lambda v: v.most_similar([]), ValueError, "positive and negative are empty"),
        (lambda v: v.most_similar([3]), TypeError, "positive holds 3; it must hold words, vectors or pairs"),
        (lambda v: v.most_similar("man", [3]), TypeError, "negative holds 3"),
        (lambda v: v.most_similar("man", 3), TypeError, "negative holds 3; it must hold words, vectors"),
        (lambda v: v.most_similar("man", topn=-1), ValueError, "topn is -1; it must be at least 0"),
        (lambda v: v.most_similar("man", topn=2.5), TypeError, "topn is 2.5; it must be an integer"),
        (lambda v: v.most_similar("man", restrict_vocab=0), ValueError, "restrict_vocab is 0"),
        (lambda v: v.most_similar([("man", "king")]), TypeError, "the weight of 'man' is 'king'; it must be a number"),
        (lambda v: v.most_similar(np.ones(4)), ValueError, r"a vector has shape \(4,\); it must be \(3,\)"),
        (lambda v: v.get_mean_vector([]), ValueError, "keys is empty"),
        (lambda v: v.get_mean_vector(["man"], weights=[1, 2]), ValueError, r"weights has shape \(2,\); it must be"),
        (lambda v: v.get_mean_vector(["dog"], ignore_missing=False), KeyError, "'dog' is not in the vocabulary"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask(PLACES)


def test_a_model_without_vectors_says_so_and_goes_through_scikit_learn():
    model = SkipGram()
    for ask in (len, list, lambda m: "a" in m, lambda m: m["a"], lambda m: m.most_similar("a"), lambda m: m.wv.vectors):
        with pytest.raises(NotFittedError, match="this SkipGram has no vectors yet; call fit first"):
            ask(model)
    assert clone(make_pipeline(model))._repr_html_()
    assert repr(model) == "SkipGram()"


def test_a_second_fit_has_its_own_words(seed):
    model = small(objective="negative_sampling").fit(topical(seed, 100))
    assert "t0w1" in model.index_to_key
    before = pickle.dumps(model)
    assert model.fit([["ant", "bee"]] * 9).index_to_key == ["ant", "bee"]
    assert model.wv is model
    state = pickle.loads(before).__getstate__()
    assert state.keys() == pickle.loads(pickle.dumps(model)).__getstate__().keys()  # and no list of words


def test_zeros_are_similar_to_nothing():
    vectors = WordVectors(["none", "some", "more"], [[0, 0], [1, 0], [0, 1]])
    assert vectors.most_similar("none", topn=1) == [("some", 0.0)]
    assert vectors.similarity("none", "some") == 0
    np.testing.assert_array_equal(vectors.get_normed_vectors(), vectors.vectors_)
    np.testing.assert_array_equal(vectors.get_vector("none", norm=True), [0, 0])


def test_answers_are_gensims(vectors, seed, tmp_path):
    pytest.importorskip("gensim.models", reason="needs gensim, which is not installed")
    keyed = vectors.to_keyed_vectors()
    own = np.random.default_rng(seed).normal(size=12).astype(np.float32)
    assert vectors.index_to_key == keyed.index_to_key
    assert vectors.key_to_index == keyed.key_to_index
    assert (len(vectors), vectors.vector_size) == (len(keyed), keyed.vector_size)
    for key in ("t0w1", ["t0w1", "t1w2"]):
        np.testing.assert_array_equal(vectors[key], keyed[key])
    questions = [
        (("t0w1",), {}),
        ((["t0w1", "t0w2"], ["t1w1"], 5), {}),
        (([("t0w1", 0.5), own], [("t1w1", -2.0)]), {"topn": 7}),
        (("t0w1",), {"restrict_vocab": 20, "topn": 4}),
    ]
    for arguments, options in questions:
        ours, theirs = (v.most_similar(*arguments, **options) for v in (vectors, keyed))
        assert [word for word, _ in ours] == [word for word, _ in theirs]
        np.testing.assert_allclose([c for _, c in ours], [c for _, c in theirs], atol=1e-6)  # float32
    same = {"rtol": 1e-5, "atol": 1e-6}  # float32, and gensim sums in it
    np.testing.assert_allclose(vectors.most_similar("t0w1", topn=None), keyed.most_similar("t0w1", topn=None), **same)
    np.testing.assert_allclose(vectors.distances("t0w1"), keyed.distances("t0w1"), **same)
    np.testing.assert_allclose(vectors.get_normed_vectors(), keyed.get_normed_vectors(), **same)
    for mean in ({}, {"pre_normalize": False}, {"post_normalize": True}, {"weights": [2.0, -1.0, 3.0]}):
        found = [v.get_mean_vector(["t0w1", "unheard", "t1w2"], **mean) for v in (vectors, keyed)]
        np.testing.assert_allclose(*found, **same)
    for name, arguments in {
        "similarity": ("t0w1", "t1w2"),
        "distance": ("t0w1", "t1w2"),
        "n_similarity": (["t0w1", "t1w2"], ["t3w1", "t3w2"]),
        "rank": ("t0w1", "t1w2"),
    }.items():
        assert getattr(vectors, name)(*arguments) == pytest.approx(getattr(keyed, name)(*arguments), abs=1e-6), name
    pairs = tmp_path / "pairs"
    pairs.write_text("t0w1\tt1w2\t3\nT3W1\tt3w2\t2\nt0w1\tt0w2\t1\nt0w1\tunheard\t1\n")
    ours, theirs = vectors.evaluate_word_pairs(pairs), keyed.evaluate_word_pairs(str(pairs))
    np.testing.assert_allclose(np.hstack(ours), np.hstack(theirs), **same)
    words = ["t0w1", "t0w2", "t0w3", "t2w1"]
    assert vectors.doesnt_match(words) == keyed.doesnt_match(words)
    assert vectors.closer_than("t0w1", "t1w1") == keyed.closer_than("t0w1", "t1w1")


def test_counts_go_to_gensim(seed, tmp_path):
    gensim = pytest.importorskip("gensim.models", reason="needs gensim, which is not installed")
    model = small(objective="negative_sampling", max_iter=1).fit(topical(seed, 100, power=1.0))
    keyed = model.to_keyed_vectors()
    assert [keyed.get_vecattr(word, "count") for word in model] == model.counts_.tolist()
    keyed.save(str(tmp_path / "keyed"))
    again = gensim.KeyedVectors.load(str(tmp_path / "keyed"))
    assert again.index_to_key == model.index_to_key
    assert again.get_vecattr("t0w0", "count") == model.counts_[model.get_index("t0w0")]


def test_phrases_of_gensim_are_a_text(seed):
    phrases = pytest.importorskip("gensim.models.phrases", reason="needs gensim, which is not installed")
    text = [["new", "york", *sentence] for sentence in topical(seed, 100)]
    joined = phrases.Phrases(text, min_count=1, threshold=1)
    model = small(objective="negative_sampling", max_iter=1).fit(joined[text])
    assert "new_york" in model
    assert "york" not in model


def test_sub_sampling_by_default_is_gensims():
    models = pytest.importorskip("gensim.models", reason="needs gensim, which is not installed")
    text = [["often"] * 900 + ["rare"] * 9 + ["seldom"] * 5]
    theirs = models.Word2Vec(vector_size=2, sg=1, min_count=1)
    theirs.build_vocab(text)
    kept = [theirs.wv.get_vecattr(word, "sample_int") / 2**32 for word in ("often", "rare", "seldom")]
    n, sample = np.array([900, 9, 5]), SkipGram().sample
    share = n / n.sum()
    expected = np.minimum(1, np.sqrt(sample / share) + sample / share)
    np.testing.assert_allclose(kept, expected, rtol=1e-6)
    assert (theirs.alpha, theirs.ns_exponent, theirs.negative) == (0.025, 0.75, 5)  # ours by "auto"
