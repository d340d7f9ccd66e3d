"""The watch for a skip-gram's divergence: pairs and losses by their definition, and what it says of a training."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from test_skip_gram import small, topical
from testing_core import pieces

from manyclass import _core
from manyclass.words.objectives import OBJECTIVES, SampledSoftmax
from manyclass.words.training import WordTables, divergence


def text(lengths, window, n_words=9, tokens=None):
    if tokens is None:
        tokens = np.random.default_rng(0).integers(n_words, size=sum(lengths))
    ends = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return _core.SkipGramText(
        tokens=tokens.astype(np.int32), sentences=ends, keep=np.ones(n_words), window=window, shrink=False
    )


@pytest.mark.parametrize("window", [1, 3])
def test_pairs_are_all_of_a_place_and_a_word_in_its_window(window, seed):
    corpus = text([4, 1, 7, 2], window, n_words=14, tokens=np.arange(14))  # a word tells its place
    sentence = np.repeat(np.arange(4), [4, 1, 7, 2])
    centres, contexts = pieces.draw_pairs(corpus, 4000, seed)
    near = (np.abs(np.subtract.outer(np.arange(14), np.arange(14))) <= window) & ~np.eye(14, dtype=bool)
    possible = near & (sentence[:, np.newaxis] == sentence)
    found = np.zeros((14, 14))
    np.add.at(found, (centres, contexts), 1)
    assert ((found > 0) == possible).all()
    expected = 4000 / 14 * possible / np.maximum(possible.sum(axis=1, keepdims=True), 1)
    assert np.abs(found - expected).max() < 6 * np.sqrt(expected.max())  # six standard deviations of a count


def test_losses_are_those_of_the_softmax(seed):
    rng = np.random.default_rng(seed)
    h, v = (rng.normal(size=(9, 16)).astype(np.float32) for _ in range(2))
    centres, contexts = rng.integers(9, size=(2, 30)).astype(np.int32)
    z = h[centres].astype(float) @ v.T.astype(float)
    expected = logsumexp(z, axis=1) - z[np.arange(30), contexts]
    np.testing.assert_allclose(pieces.losses_of_pairs(h, v, centres, contexts), expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [1e20, np.inf, np.nan])
def test_scores_that_overflow_are_told_without_a_warning(bad):
    h = np.full((9, 16), bad, dtype=np.float32)
    assert "of equal probabilities, 2.197" in divergence(text([50], 2), WordTables(h, -h), 0)


def test_a_text_without_pairs_shows_nothing():
    tables = WordTables(np.ones((9, 16), np.float32), np.ones((9, 16), np.float32))
    assert divergence(text([1] * 20, 5), tables, 0) is None


def test_a_divergence_that_the_running_loss_hides_is_told():
    # Between a step of 0.5, which ends near log 40, and one of 0.53, whose running loss is above all bounds. On four
    # texts the running loss of one drawn word is 2.8 to 10.4 here; none should end above 2 (log 40 + 2).
    model = small(objective=SampledSoftmax(), learning_rate=0.515, n_negatives=1)
    with pytest.warns(ConvergenceWarning, match="the exact loss of 256 pairs, .*Lower learning_rate"):
        model.fit(topical(0))
    assert model.loss_curve_[-1] < 2 * (np.log(40) + 2)
    assert model.objective_value() > 1.1 * np.log(40)


def test_the_softmaxes_are_watched():
    assert {name for name, kind in OBJECTIVES.items() if kind.is_softmax} == {"softmax", "sampled_softmax"}
