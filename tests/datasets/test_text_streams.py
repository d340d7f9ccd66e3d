"""Files of texts larger than memory: read in parts, in Python and on the command line."""

import numpy as np
import pytest
from test_command import run, the_error

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.classifiers.saving import load_notes
from manyclass.datasets import SequenceEncoder, Stream, TextVectorizer

OPTIONS = ("--solver", "implicit", "--learning-rate", 0.5, "--max-iter", 2, "--random-state", 0)


def made_rows(seed, n=200, n_classes=5):
    """Texts of three words of a class and one of any, and the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    own = 4 * y[:, np.newaxis] + rng.integers(4, size=(n, 3))
    words = np.column_stack([own, rng.integers(4 * n_classes, size=n)])
    return [" ".join(f"word{w}" for w in row) for row in words], [f"class {k}" for k in y]


@pytest.fixture
def folder(tmp_path, seed):
    """Two files of texts, whose rows have two labels each, and two rows without."""
    texts, y = made_rows(seed)
    lines = [f"{text}\t{label},{label[::-1]}\n" for text, label in zip(texts, y, strict=True)]
    days = tmp_path / "days"
    days.mkdir()
    (days / "day-0.tsv").write_text("".join(lines[:120]) + "no label\nnone either\t \n")
    (days / "day-1.tsv").write_text("\n" + "".join(lines[120:]))
    return days, texts, y


@pytest.mark.parametrize(
    "options",
    [{}, {"min_df": 4}, {"idf": False}, {"n_hash": 16}, {"analyzer": "char_wb", "max_n": 2}, {"sublinear_tf": False}],
    ids=str,
)
def test_terms_of_parts_are_those_of_all_texts(options, seed):
    texts = [*made_rows(seed)[0], "..."]
    whole = TextVectorizer(**options).fit(texts)
    for size in (1, 7, len(texts)):
        by_parts = TextVectorizer(**options).fit_parts(texts[at : at + size] for at in range(0, len(texts), size))
        np.testing.assert_array_equal(by_parts.vocabulary_, whole.vocabulary_)
        np.testing.assert_array_equal(by_parts.idf_, whole.idf_)
        np.testing.assert_array_equal(by_parts.transform(texts).toarray(), whole.transform(texts).toarray())


def test_the_most_frequent_terms_of_parts_are_kept():
    parts = [["tea tea cup", "tea pot"], ["cup cup cup tea"], []]
    assert TextVectorizer(max_features=2).fit_parts(parts).vocabulary_.tolist() == ["cup", "tea"]
    with pytest.raises(ValueError, match=r"no term is left of 3 texts; terms are words in at least 4"):
        TextVectorizer(min_df=4).fit_parts(parts)
    with pytest.raises(TypeError, match=r"documents\[0\] is 3; it must be a str"):
        TextVectorizer().fit_parts([[3]])


def test_a_stream_of_texts_is_as_the_same_rows(folder):
    days, texts, y = folder
    stream = Stream(days, format="text", labels="first", rows=50, random_state=0)
    assert stream.label_names.tolist() == sorted(set(y))
    assert (stream.n_features, stream.n_labels, stream.n_rows) == (None, None, None)
    read = [(text, label) for X, labels in stream.read() for text, label in zip(X, labels, strict=True)]
    assert sorted(read) == sorted(zip(texts, y, strict=True))
    kinds = (SoftmaxClassifier(solver="implicit"), AugmentReduceClassifier())
    for model in (kind.set_params(learning_rate=0.5, max_iter=2, random_state=0) for kind in kinds):
        vectorizer = TextVectorizer(min_df=2).fit(texts)
        rows = Stream(vectorizer.transform(texts), np.array(y), rows=50, random_state=0)
        expected = model.fit(rows, classes=sorted(set(y))).decision_function(vectorizer.transform(texts))
        model.fit(stream, vectorizer=TextVectorizer(min_df=2))
        np.testing.assert_allclose(model.decision_function(texts), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(model.vectorizer_.vocabulary_, vectorizer.vocabulary_)


def test_all_labels_of_texts_and_memory(folder, tmp_path):
    days, texts, y = folder
    stream = Stream(days, format="text", rows=50, random_state=0)
    assert stream.n_labels == len(stream.label_names) == 2 * len(set(y))
    model = MarginClassifier(max_iter=5, random_state=0).fit(stream, max_memory="1GiB")
    best, _ = model.predict_top_k(texts, 2)
    right = [{label, label[::-1]} == set(found) for label, found in zip(y, best.tolist(), strict=True)]
    assert np.mean(right) > 0.9  # planted words tell the class but where the fourth is of another one
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_top_k(texts, 2)[0], best)
    loaded.partial_fit(stream, max_memory="1GiB")
    assert loaded.class_count_.sum() == 2 * model.class_count_.sum()


def test_numbers_are_labels_of_their_type(tmp_path):
    (tmp_path / "a").write_text("__label__3 tea cup\npot __label__10 tea __label__3\n" * 20)
    assert Stream(tmp_path / "a", format="fasttext").label_names.tolist() == [3, 10]
    stream = Stream(tmp_path / "a", format="fasttext", labels="first")
    assert SoftmaxClassifier(random_state=0).fit(stream).predict(["a tea pot"]).tolist() == [10]


def test_what_is_no_stream_of_texts_is_told(tmp_path, folder):
    days, *_ = folder
    for text, told in (
        ("a text\n", "no row has a label"),
        ("x\xff\ta\n", "is not UTF-8"),
        ("".join(f"tea\ta text of words {n}\n" for n in range(30)), "it seems that labels stand before the texts"),
    ):
        (tmp_path / "a").write_bytes(text.encode("latin1"))
        with pytest.raises(ValueError, match=told):
            Stream(tmp_path / "a", format="text")
    with pytest.raises(ValueError, match="decimal is ',', which has no effect with format='text'"):
        Stream(days, format="text", decimal=",")
    with pytest.raises(ValueError, match="X is a stream of texts; vectorizer is SequenceEncoder"):
        SoftmaxClassifier().fit(Stream(days, format="text"), vectorizer=SequenceEncoder())
    with pytest.raises(ValueError, match="part 1 of the stream: X is texts, such as"):
        SoftmaxClassifier().partial_fit(Stream(days, format="text", labels="first"))


@pytest.mark.parametrize("form", [(), ("--text",)], ids=["seen", "told"])
def test_fit_and_learn_read_texts_in_parts(folder, tmp_path, capsys, form):
    days, texts, _ = folder
    for day in days.iterdir():  # a name that tells nothing: the first line does
        day.rename(day.with_suffix(".txt" if not form else ".tsv"))
    first, model = sorted(days.iterdir())[0], tmp_path / "m"
    run("fit", days, "--stream", *form, "--output", model, "--text-min-df", 2, "--test", first, *OPTIONS)
    expected = SoftmaxClassifier(solver="implicit", learning_rate=0.5, max_iter=2, random_state=0)
    stream = Stream(days, format="text", labels="first", random_state=0)
    expected.fit(stream, vectorizer=TextVectorizer(min_df=2))
    np.testing.assert_array_equal(manyclass.load(model).decision_function(texts), expected.decision_function(texts))
    assert load_notes(model) == {"form": "text", "one_based": False, "normalize": False}
    assert "evaluated on" in capsys.readouterr().out


def test_all_labels_of_a_text_on_the_command_line(folder, tmp_path):
    days, texts, y = folder
    model, new = tmp_path / "m", tmp_path / "new.tsv"
    run("fit", days, "--stream", "--text", "--output", model, "--estimator", "margin", "--random-state", 0)
    found = manyclass.load(model)
    assert found.classes_.tolist() == sorted({*y, *(label[::-1] for label in y)})
    assert found.predict(texts[:1]).sum() == 2
    new.write_text("word0 word1\tclass 0;a new one\nword4\tclass 1\n")
    run("learn", model, new, "--label-separator", ";")
    assert "a new one" in manyclass.load(model).classes_


def test_what_a_stream_of_texts_has_no_use_for_is_told(folder, tmp_path, capsys):
    days, *_ = folder
    model = tmp_path / "m"
    given = ("fit", days, "--stream", "--text", "--output", model)
    for options, told in (
        (("--label-column", "a"), "--label-column is for csv, tsv, parquet"),
        (("--sequence-decay", 0.5), "--sequence-decay is for histories"),
        (("--resume",), "--resume is for rows that are read at once"),
    ):
        assert told in the_error(capsys, *given, *options)
