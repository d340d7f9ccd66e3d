"""Texts to rows: against scikit-learn and the formula, by file and by pickle, and files that are damaged."""

import copy
import json
import pickle
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.datasets import TextVectorizer
from manyclass.weights.tensor_file import open_tensors, write_tensors

TEXTS = [
    "the cat sat on the mat",
    "a dog and a cat, naïve and quick",
    "The dog barked at the mat",
    "",
    "birds sing; the birds fly",
    "quick birds",
]
N_TERMS, N_BYTES = 14, 51  # of TEXTS, by words of two letters or more
KINDS = {
    "words": {},
    "pairs": {"max_n": 2},
    "frequent": {"min_df": 2},
    "few": {"max_features": 3},
    "plain": {"sublinear_tf": False, "idf": False, "lowercase": False},
    "subwords": {"analyzer": "char_wb", "min_n": 2, "max_n": 4},
    "hashed": {"n_hash": 64, "analyzer": "char_wb", "min_n": 3, "max_n": 3},
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hashed"])
def test_rows_are_those_of_scikit_learn(kind):
    own = KINDS[kind]
    theirs = TfidfVectorizer(
        analyzer=own.get("analyzer", "word"),
        ngram_range=(own.get("min_n", 1), own.get("max_n", 1)),
        min_df=own.get("min_df", 1),
        max_features=own.get("max_features"),
        lowercase=own.get("lowercase", True),
        sublinear_tf=own.get("sublinear_tf", True),
        use_idf=own.get("idf", True),
    )
    expected = theirs.fit_transform(TEXTS).toarray()
    vectorizer = TextVectorizer(**own)
    rows = vectorizer.fit_transform(TEXTS)
    assert rows.dtype == np.float32
    assert vectorizer.vocabulary_.tolist() == theirs.get_feature_names_out().tolist()
    # Ours are made in float32: a product, a root and a quotient, each with half an ulp of 6e-8.
    np.testing.assert_allclose(rows.toarray(), expected, atol=4e-7)
    np.testing.assert_array_equal(vectorizer.transform(TEXTS).toarray(), rows.toarray())


def test_entries_are_those_of_the_formula():
    row = TextVectorizer().fit(TEXTS).transform(["cat cat dog unknown"]).toarray()[0]
    vocabulary = TextVectorizer().fit(TEXTS).vocabulary_.tolist()
    idf = {"cat": np.log(7 / 3) + 1, "dog": np.log(7 / 3) + 1}  # both in two of six texts
    expected = np.array([(1 + np.log(2)) * idf["cat"], idf["dog"]])
    expected /= np.linalg.norm(expected)
    assert np.count_nonzero(row) == 2
    np.testing.assert_allclose(row[[vocabulary.index("cat"), vocabulary.index("dog")]], expected, rtol=4e-7)


def test_hashed_rows_have_unit_length_and_no_vocabulary():
    vectorizer = TextVectorizer(**KINDS["hashed"]).fit(TEXTS)
    rows = vectorizer.transform(TEXTS)
    assert rows.shape == (6, 64)
    lengths = np.sqrt((rows.toarray() ** 2).sum(axis=1))
    np.testing.assert_allclose(lengths, [1, 1, 1, 0, 1, 1], atol=1e-6)  # sums of a dozen float32 squares
    assert len(vectorizer.vocabulary_) == 0
    with pytest.raises(ValueError, match="n_hash is 64; a vectorizer that hashes keeps no terms"):
        vectorizer.get_feature_names_out()


@pytest.fixture(params=KINDS)
def fitted(request):
    vectorizer = TextVectorizer(**KINDS[request.param])
    X = vectorizer.fit_transform(TEXTS)
    model = SoftmaxClassifier(max_iter=3, random_state=0).fit(X, ["a", "b", "a", "b", "a", "b"])
    model.vectorizer_ = vectorizer
    return model


def test_a_model_file_keeps_the_vectorizer_bit_by_bit(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    for mmap in (False, True):
        loaded = manyclass.load(tmp_path / "m", mmap=mmap).vectorizer_
        assert loaded.get_params() == fitted.vectorizer_.get_params()
        new = [*TEXTS, "a cat and birds unheard of"]
        np.testing.assert_array_equal(
            loaded.transform(new).toarray(), fitted.vectorizer_.transform(new).toarray(), strict=True
        )
        assert loaded.vocabulary_.tolist() == fitted.vectorizer_.vocabulary_.tolist()


def test_copies_pickles_and_clones_work(fitted):
    vectorizer = fitted.vectorizer_
    expected = vectorizer.transform(TEXTS).toarray()
    for other in (copy.deepcopy(vectorizer), pickle.loads(pickle.dumps(vectorizer)), clone(vectorizer).fit(TEXTS)):
        np.testing.assert_array_equal(other.transform(TEXTS).toarray(), expected)
        other.fit(["entirely other words"] * 2)  # a second fit forgets the first
        assert "cat" not in other.vocabulary_


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda texts: pd.Series(texts, dtype="string")])
@pytest.mark.parametrize("estimator", [SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier])
def test_a_classifier_takes_texts_and_answers_as_for_the_rows_of_its_vectorizer(estimator, kind, tmp_path):
    texts, y = kind(TEXTS * 3), ["a", "b", "a", "b", "a", "b"] * 3
    model = estimator(max_iter=3, random_state=0).fit(texts, y, vectorizer=TextVectorizer(max_n=2))
    X = TextVectorizer(max_n=2).fit_transform(TEXTS * 3)
    rows = estimator(max_iter=3, random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    for one in (model, manyclass.load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(one.decision_function(texts), rows.decision_function(X))
        assert one.predict(texts).tolist() == rows.predict(X).tolist()
        assert one.predict(X).tolist() == rows.predict(X).tolist()  # rows are taken, too
        assert one.evaluate(texts, y) == rows.evaluate(X, y)
    model.partial_fit(kind(TEXTS), y[:6])
    np.testing.assert_array_equal(model.coef_, rows.partial_fit(X[:6], y[:6]).coef_)
    assert model.vectorizer_.get_params() == TextVectorizer(max_n=2).get_params()
    model.fit(X, y)  # which forgets the texts
    assert not hasattr(model, "vectorizer_")


def test_texts_need_no_vectorizer_and_a_warm_start_keeps_that_of_the_fit():
    y = ["a", "b", "a", "b", "a", "b"]
    model = SoftmaxClassifier(solver="implicit", max_iter=2, warm_start=True, random_state=0).fit(TEXTS, y)
    words = model.vectorizer_.vocabulary_.tolist()
    assert words == TextVectorizer().fit(TEXTS).vocabulary_.tolist()
    assert model.fit([*TEXTS, "unheard words"], [*y, "a"]).vectorizer_.vocabulary_.tolist() == words


def test_languages_without_blanks_are_told_what_to_take_and_are_learnt_by_characters():
    food, travel = ["我喜欢吃苹果", "香蕉很好吃", "他吃了米饭"], ["火车去北京", "飞机到上海了", "坐火车旅行"]
    y = [0, 0, 0, 1, 1, 1]
    with pytest.warns(UserWarning, match=r"no blanks between words.*TextVectorizer\(analyzer='char_wb', max_n=2\)"):
        SoftmaxClassifier().fit(food + travel, y)
    model = SoftmaxClassifier().fit(food + travel, y, vectorizer=TextVectorizer(analyzer="char_wb", max_n=2))
    assert model.predict(["我吃香蕉", "坐飞机去"]).tolist() == [0, 1]  # terms of the texts, in sentences that are new


def test_texts_where_there_are_none_are_refused_with_a_hint(fitted):
    X, y = np.eye(6), [0, 1] * 3
    plain = SoftmaxClassifier(max_iter=1).fit(X, y)
    for ask in (
        plain.predict,
        lambda texts: plain.partial_fit(texts, y),
        lambda texts: SoftmaxClassifier().partial_fit(texts, y),
    ):
        with pytest.raises(ValueError, match=r"X is texts, such as .*; the model was not fitted on texts"):
            ask(TEXTS)
    with pytest.raises(TypeError, match="documents is a str; it must be a list of str"):
        fitted.predict("a cat")
    with pytest.raises(ValueError, match=r"vectorizer is TextVectorizer\(\), for which it must be a list of str"):
        SoftmaxClassifier().fit(X, y, vectorizer=TextVectorizer())
    with pytest.raises(ValueError, match=r"could not convert.*fit\(table\['title'\]"):
        SoftmaxClassifier().fit(pd.DataFrame({"title": TEXTS, "n": range(6)}), y)


def test_a_model_without_a_vectorizer_has_none(tmp_path):
    model = MarginClassifier(max_iter=1, random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    model.save(tmp_path / "m")
    assert not hasattr(manyclass.load(tmp_path / "m"), "vectorizer_")


def test_what_cannot_be_saved_is_refused_and_nothing_is_written(fitted, tmp_path):
    for wrong, error, message in (
        (TfidfVectorizer().fit(TEXTS), TypeError, "vectorizer_ is a TfidfVectorizer; only a .*TextVectorizer"),
        (TextVectorizer().fit(["two words"]), ValueError, "vectorizer_ has 2 columns; the model has"),
        (TextVectorizer(), ValueError, "not fitted"),
    ):
        fitted.vectorizer_ = wrong
        with pytest.raises(error, match=message):
            fitted.save(tmp_path / "m")
        assert not (tmp_path / "m").exists()


def damage(path, *, change=None, tensors=None):
    """Write the file again with other metadata of the vectorizer, or other arrays (None: without it)."""
    file = open_tensors(path)
    arrays = {name: file.read(name) for name in file.entries} | (tensors or {})
    arrays = {name: value for name, value in arrays.items() if value is not None}
    metadata = dict(file.metadata)
    info = json.loads(metadata["model"])
    if change is not None:
        info["vectorizer"] = change if not isinstance(change, dict) else {**info["vectorizer"], **change}
    metadata["model"] = json.dumps(info)
    write_tensors(path, arrays, metadata)


@pytest.mark.parametrize(
    "fault",
    [
        {"tensors": {"vectorizer.idf": None}},
        {"tensors": {"vectorizer.idf": np.ones(3, np.float32)}},
        {"tensors": {"vectorizer.idf": np.full(N_TERMS, np.nan, np.float32)}},
        {"tensors": {"vectorizer.idf": np.zeros(N_TERMS, np.float32)}},
        {"tensors": {"vectorizer.idf": np.ones(N_TERMS, np.float64)}},
        {"tensors": {"vectorizer.terms.text": None}},
        {"tensors": {"vectorizer.terms.text": np.zeros(3, np.uint8)}},
        {"tensors": {"vectorizer.terms.text": np.full(N_BYTES, 255, np.uint8)}},
        {"tensors": {"vectorizer.terms.text": np.full(N_BYTES, 97, np.uint8)}},
        {"tensors": {"vectorizer.terms.offsets": np.zeros(2, np.int64)}},
        {"tensors": {"vectorizer.terms.offsets": np.arange(N_TERMS + 1)[::-1].copy()}},
        {"change": {"analyzer": "emoji"}},
        {"change": {"min_n": 3}},
        {"change": {"min_n": "1"}},
        {"change": {"lowercase": 1}},
        {"change": {"n_hash": N_TERMS}},
        {"change": {"n_hash": 2**70}},
        {"change": {"colour": "red"}},
        {"change": []},
        {"change": 3},
        {"change": "word"},
    ],
    ids=lambda fault: re.sub(r"\W+", "-", str(fault))[:60],
)
def test_a_damaged_vectorizer_is_a_value_error_with_the_path(tmp_path, fault):
    vectorizer = TextVectorizer()
    X = vectorizer.fit_transform(TEXTS)
    assert (X.shape[1], len("".join(vectorizer.vocabulary_).encode())) == (N_TERMS, N_BYTES)
    model = SoftmaxClassifier(max_iter=1, random_state=0).fit(X, [0, 1, 0, 1, 0, 1])
    model.vectorizer_ = vectorizer
    path = tmp_path / "m"
    model.save(path)
    damage(path)  # nothing is changed, so that the file must load
    manyclass.load(path)
    damage(path, **fault)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        manyclass.load(path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"analyzer": "char"}, "analyzer is 'char'; it must be one of 'word', 'char_wb'"),
        ({"min_n": 0}, "min_n is 0"),
        ({"min_n": 2}, "min_n is 2; it must be at most max_n, which is 1"),
        ({"min_df": 0.5}, "min_df is 0.5; it must be an integer"),
        ({"max_features": 0}, "max_features is 0"),
        ({"idf": "yes"}, "idf is 'yes'; it must be True or False"),
        ({"n_hash": 0}, "n_hash is 0"),
        ({"n_hash": 8, "min_df": 2}, "min_df is 2, which has no effect with n_hash"),
        ({"n_hash": 8, "max_features": 2}, "max_features is 2, which has no effect with n_hash"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        TextVectorizer(**parameters).fit(TEXTS)


def test_texts_that_are_none_are_refused():
    with pytest.raises(TypeError, match="documents is a str; it must be a list of str"):
        TextVectorizer().fit("a text")
    with pytest.raises(TypeError, match=re.escape("documents[1] is None; it must be a str")):
        TextVectorizer().fit(["a text", None])
    with pytest.raises(ValueError, match="documents is empty"):
        TextVectorizer().fit([])
    with pytest.raises(ValueError, match=r"no term is left of 2 texts; terms are words in at least 1"):
        TextVectorizer().fit(["", "."])
    assert TextVectorizer().fit(TEXTS).transform([]).shape == (0, N_TERMS)


@pytest.mark.parametrize("texts", [[None, "an ant", "a bee"], np.array([None, "an ant", "a bee"], dtype=object)])
def test_a_missing_text_is_told_though_it_is_the_first_one(texts):
    with pytest.raises(TypeError, match=r"documents\[0\] is None; it must be a str"):
        SoftmaxClassifier().fit(texts, [0, 1, 1])


@pytest.mark.quick
@pytest.mark.parametrize("text", ["abcdefghijkl" * 17_000, "abcdefghi " * 20_000], ids=["one word", "words"])
def test_parts_of_words_are_not_held_at_once(text):
    vectorizer = TextVectorizer(analyzer="char_wb", max_n=5).fit(["some words", "and a bee"])
    tracemalloc.start()
    try:
        vectorizer.transform([text])
        assert tracemalloc.get_traced_memory()[1] < 60 * len(text)  # all parts take some 300 bytes a letter
    finally:
        tracemalloc.stop()


@pytest.mark.quick
@pytest.mark.parametrize("analyzer", ["word", "char_wb"])
def test_a_length_that_a_file_forges_changes_nothing(analyzer):
    """Terms longer than those that are known are not made: with max_n of a million the work did not end."""
    honest = TextVectorizer(analyzer=analyzer, max_n=3).fit(["ab ab cd", "abab de"])
    forged = honest.fitted_parameters | {"max_n": 10**6}
    forged = TextVectorizer.restored(forged, honest.vocabulary_, honest.idf_)
    texts = ["ab" * 19_000, "ab " * 10_000]
    assert (forged.transform(texts) != honest.transform(texts)).nnz == 0


@pytest.mark.quick
@pytest.mark.parametrize("analyzer", ["word", "char_wb"])
def test_a_text_of_too_many_terms_is_refused_before_they_are_made(analyzer):
    with pytest.raises(
        ValueError, match=r"a text of 38000 letters, which may have \d+ terms with max_n=1000000; at most"
    ):
        TextVectorizer(analyzer=analyzer, max_n=10**6, n_hash=100).fit(["a", "ab " * 12_666 + "ab"])
