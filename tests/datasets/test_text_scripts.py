"""Words of all scripts: letters, marks and digits in Unicode's composed form, with case folded."""

import unicodedata
import warnings

import numpy as np
import pytest

import manyclass
from manyclass import SoftmaxClassifier
from manyclass.datasets import TextVectorizer

WORDS = {
    "Hindi": "हिन्दी की किताबें और कविताएँ",
    "Bengali": "বাংলা ভাষার বই",
    "Telugu": "తెలుగు పుస్తకాలు చదవండి",
    "Tamil": "தமிழ் நூல்கள் படிக்க",
    "Arabic": "السَّلامُ عليكم كتاب",
    "Hebrew": "שָׁלוֹם עולם ספר",
    "Vietnamese": "tiếng việt được viết",
    "Turkish": "istanbul güneşli çiçekler",
    "German": "strasse größere übung",
    "Korean": "한국어 단어를 읽다",
    "Persian": "می\u200cخواهم کتاب\u200cها",
    "Greek": "λόγοσ και βιβλία",
}


def terms(*texts, **options):
    return TextVectorizer(**options).fit(texts).vocabulary_.tolist()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("language", WORDS)
def test_a_word_of_any_script_is_one_term_in_any_form(language, form):
    text = WORDS[language]
    folded = [unicodedata.normalize("NFC", word.casefold()) for word in text.split()]
    assert terms(unicodedata.normalize(form, text)) == sorted(folded)
    assert terms(unicodedata.normalize(form, text), lowercase=False) == sorted(
        unicodedata.normalize("NFC", word) for word in text.split()
    )


def test_case_is_folded_as_unicode_folds_it():
    assert terms("Straße STRASSE straße") == ["strasse"]
    assert terms("İSTANBUL İstanbul istanbul ISTANBUL") == ["istanbul"]
    assert terms("ΛΟΓΟΣ λογος") == ["λογοσ"]


def test_format_characters_within_a_word_do_not_count():
    assert terms("co\u00adoperate cooperate coop\u2060erate") == ["cooperate"]
    assert terms("\u200eשלום\u200f שלום") == ["שלום"]


def test_emoji_are_no_words_and_break_none():
    assert terms("pizza🍕time ❤️ family 👩‍👩‍👧") == ["family", "pizza", "time"]


def test_punctuation_ends_a_word():
    assert terms("don't 31.42 well-known under_score") == ["31", "42", "don", "known", "under_score", "well"]


def test_thai_has_no_blanks_and_a_warning_says_so():
    with pytest.warns(UserWarning, match="char_wb"):
        TextVectorizer().fit(["ภาษาไทย"])


def test_codes_of_one_letter_are_terms_where_most_texts_have_them():
    with pytest.warns(UserWarning, match="3 of 4 texts looked at have letters or digits by themselves"):
        vectorizer = TextVectorizer().fit(["vitamin C", "size 5", "grade B", "a cat"])
    assert vectorizer.min_length_ == 1
    assert vectorizer.vocabulary_.tolist() == ["5", "a", "b", "c", "cat", "grade", "size", "vitamin"]
    assert vectorizer.get_params()["min_length"] == "auto"
    prose = ["it's a dog that I don't know, l'homme d'un jour"] * 3 + ["of 5 men in the house of the king by the sea"]
    assert TextVectorizer().fit(prose).min_length_ == 2
    assert terms("vitamin C", min_length=2) == ["vitamin"]
    assert terms("one two three", min_length=4) == ["three"]


def test_no_term_names_the_remedies():
    with pytest.raises(ValueError, match=r"no term is left of 2 texts.* min_length=1 .* analyzer='char_wb'"):
        TextVectorizer(min_length=2).fit(["C", "5"])


@pytest.mark.parametrize("bad", [0, "all", 1.5])
def test_a_length_that_is_none_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="min_length"):
        TextVectorizer(min_length=bad).fit(["a b"])


def test_a_length_has_no_effect_on_characters_and_is_refused():
    with pytest.raises(ValueError, match="min_length is 3, which has no effect with analyzer='char_wb'"):
        TextVectorizer(analyzer="char_wb", max_n=2, min_length=3).fit(["a b"])


@pytest.mark.parametrize("options", [{}, {"words": "python"}, {"min_length": 1}, {"analyzer": "char_wb", "max_n": 2}])
def test_a_model_file_knows_its_rule(options, tmp_path):
    texts = ["İzmir C", "Straße B", "हिन्दी D", "a\u00adb"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SoftmaxClassifier(random_state=0).fit(texts, [0, 1, 2, 3], vectorizer=TextVectorizer(**options))
    model.save(tmp_path / "model")
    loaded = manyclass.load(tmp_path / "model")
    assert loaded.vectorizer_.get_params() == model.vectorizer_.get_params()
    assert loaded.vectorizer_.min_length_ == model.vectorizer_.min_length_
    queries = ["izmir c", "STRASSE b", unicodedata.normalize("NFD", "हिन्दी"), "ab"]
    np.testing.assert_array_equal(loaded.predict_proba(queries), model.predict_proba(queries))


def test_parameters_of_models_before_0_3_mean_their_rule():
    vectorizer = TextVectorizer.restored({"analyzer": "word"}, ["stanbul"], [1.0])
    assert (vectorizer.words, vectorizer.min_length_) == ("python", 2)
    assert vectorizer.transform(["İSTANBUL"]).nnz == 1


def test_rules_agree_on_ascii():
    texts = ["The quick_brown fox, 42 times!", "a b cc D3 don't"]
    assert terms(*texts, words="unicode", min_length=2) == terms(*texts, words="python", min_length=2)
