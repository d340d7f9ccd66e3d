"""SkipGram.partial_fit: words that join, counts that add up, step sizes, and what it refuses."""

import copy
import pickle

import numpy as np
import pytest

from manyclass import SkipGram
from manyclass.words.corpus import read_corpus
from manyclass.words.training import LAST_SHARE, rates_of_call

MOST = 8  # words a sentence


def sentences(seed, n=400, n_words=60, prefix="w"):
    rng = np.random.default_rng(seed)
    return [[f"{prefix}{k}" for k in rng.zipf(1.6, MOST) if k < n_words] for _ in range(n)]


def model(**changes):
    return SkipGram(**{"dim": 6, "window": 2, "sample": 0, "min_count": 3, "random_state": 1, **changes})


def test_known_words_stay_new_ones_join_and_counts_add_up(seed):
    old, new = sentences(seed), [*sentences(seed + 1), ["new", "w1", "new", "w2", "new"], ["rare", "w1"]]
    fitted = model().fit(old)
    before = dict(zip(fitted.vocabulary_, fitted.counts_.tolist(), strict=True))
    fitted.partial_fit(new)
    words = [word for sentence in new for word in sentence]
    assert "new" in fitted.vocabulary_
    assert "rare" not in fitted.vocabulary_
    assert before.keys() <= fitted.vocabulary_.keys()
    for word, row in fitted.vocabulary_.items():
        assert fitted.counts_[row] == before.get(word, 0) + words.count(word)
        assert word in before or words.count(word) >= 3
    ordered = sorted(fitted.vocabulary_, key=lambda word: (-fitted.counts_[fitted.vocabulary_[word]], word))
    assert ordered == list(fitted.vocabulary_)
    assert fitted.n_iter_ == len(fitted.loss_curve_) == len(fitted.pass_seconds_) == 7
    assert fitted.vectors_.shape == fitted.context_vectors_.shape == (len(ordered), 6)


def test_a_text_without_new_words_renumbers_as_the_whole_does(seed):
    """Known words have rows by the summed counts, also those that the new text has less than min_count times."""
    old, new = sentences(seed), sentences(seed + 1, 40)
    known = model().fit(old)
    counts = dict(zip(known.vocabulary_, known.counts_.tolist(), strict=True))
    corpus = read_corpus(new, 10**6, counts)
    assert set(corpus.words) == set(counts)
    kept = [
        [corpus.words[token] for token in corpus.tokens[a:b]]
        for a, b in np.c_[corpus.sentences[:-1], corpus.sentences[1:]]
    ]
    assert kept == [some for s in new if (some := [word for word in s if word in counts])]


def test_vectors_of_old_words_go_on_from_where_they_were(seed):
    """A step too small to move a float32 leaves them; new ones begin as in fit, their output at 0."""
    old = sentences(seed)
    fitted = model().fit(old)
    before = copy.deepcopy(fitted)
    fitted.partial_fit([*sentences(seed + 1), ["new", "w1"] * 3], learning_rate=1e-30)
    rows = [fitted.vocabulary_[word] for word in before.vocabulary_]
    np.testing.assert_array_equal(fitted.vectors_[rows], before.vectors_)
    np.testing.assert_allclose(fitted.context_vectors_[rows], before.context_vectors_, atol=1e-20)
    first = fitted.vectors_[fitted.vocabulary_["new"]]
    assert np.abs(first).max() <= 0.5 / 6
    assert first.any()
    assert np.abs(fitted.context_vectors_[fitted.vocabulary_["new"]]).max() < 1e-20


@pytest.mark.parametrize("objective", ["softmax", "negative_sampling", "nce", "sampled_softmax", "ove"])
def test_every_objective_of_single_pairs_goes_on_and_begins_a_stream(objective, seed):
    old, new = sentences(seed), sentences(seed + 1, prefix="v")
    stream = model(objective=objective).partial_fit(old).partial_fit(new, n_passes=2)
    warm_up = stream.n_iter_ - 3
    assert warm_up == int(objective not in ("negative_sampling",))
    assert np.isfinite(stream.objective_value())
    assert np.isfinite(stream.vectors_).all()
    assert {"w1", "v1"} <= stream.vocabulary_.keys()


def test_new_words_are_learned(seed):
    """Two kinds of words never meet: a new word is nearer to its own kind."""
    rng = np.random.default_rng(seed)

    def text(kinds, n):
        return [[f"{kind}{k}" for k in rng.integers(0, 6, 6)] for kind in kinds for _ in range(n)]

    fitted = model(window=4, learning_rate=0.05, max_iter=10).fit(text("ab", 200))
    fitted.partial_fit([[f"{kind}new", *sentence] for kind in "ab" for sentence in text(kind, 200)], n_passes=5)
    own, other = (np.mean([fitted.similarity("anew", f"{kind}{k}") for k in range(6)]) for kind in "ab")
    assert own > other


def test_the_step_size_is_that_of_the_end_wound_back_by_the_share_of_the_text():
    assert rates_of_call(2.0, 100, 100, 100) == (2.0, 2.0 * LAST_SHARE)
    assert rates_of_call(2.0, 100, 900, 100) == (2.0, 2.0 * LAST_SHARE)
    first, last = rates_of_call(2.0, 1000, 250, 500)
    assert first == pytest.approx(2 * (LAST_SHARE + 0.25 * (1 - LAST_SHARE)))
    assert last == 2.0 * LAST_SHARE
    assert rates_of_call(2.0, 1000, 250, 0) == (2.0, 2.0)  # a stream without fit


def test_a_copied_estimator_goes_on_bit_for_bit(seed):
    fitted = model().fit(sentences(seed))
    loaded = pickle.loads(pickle.dumps(fitted))
    new = sentences(seed + 1)
    np.testing.assert_array_equal(fitted.partial_fit(new).vectors_, loaded.partial_fit(new).vectors_)


@pytest.mark.parametrize(
    ("changes", "call", "message"),
    [
        ({"objective": "hierarchical"}, {}, "objective is 'hierarchical', which needs the whole"),
        ({"objective": "descent"}, {}, "objective is 'descent', which needs the whole text"),
        ({"dim": 7}, {}, "dim is 7; the model that partial_fit goes on with has 6"),
        ({}, {"n_passes": 0}, "n_passes is 0"),
        ({}, {"learning_rate": 0}, "learning_rate is 0"),
        ({}, {"X": [["w1"], ["w2"]]}, "no pair of words within a window"),
        ({}, {"X": [["x", "y"]]}, "the text has no word that is known, nor one that occurs min_count=3 times"),
        ({}, {"X": []}, "the text has no word that is known"),
    ],
)
def test_a_call_that_fails_leaves_the_estimator_as_it_was(changes, call, message, seed):
    fitted = model().fit(sentences(seed)).set_params(**changes)
    before, vectors = dict(vars(fitted)), fitted.vectors_.copy()
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(**{"X": sentences(seed + 1), **call})
    assert all(vars(fitted)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(fitted.vectors_, vectors)
