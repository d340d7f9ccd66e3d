"""The softmax's exact loss of some pairs of a text: what shows a divergence that the running loss hides.

The running loss is that of the drawn words, and the logarithm of a sampled sum lies below that of the whole (Jensen).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyclass.words.collapsed import RowGroups, Tables, row_products
from manyclass.words.corpus import Corpus

MOST_PAIRS = 256
MOST_SCORES = 1 << 24  # 64 MB of them, a fraction of a second of work
# In units of log V, the loss of equal probabilities, beyond twice the standard error: no noise of steps that learn.
TOO_HIGH = 1.1


def some_pairs(corpus: Corpus, window: int, n: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw places of the text and, for each, another word at most `window` away in its sentence.

    Returns
    -------
    centres, contexts : ndarray of shape (n_pairs,), int32
        At most n pairs: a sentence of one word has none.
    """
    rng = np.random.default_rng(seed)
    places = rng.integers(len(corpus.tokens), size=n)
    sentence = np.searchsorted(corpus.sentences, places, side="right") - 1
    low = np.maximum(corpus.sentences[sentence], places - window)
    high = np.minimum(corpus.sentences[sentence + 1] - 1, places + window)
    others = high - low
    some = others > 0
    places, low, others = places[some], low[some], others[some]
    drawn = low + rng.integers(others)
    drawn += drawn >= places
    return corpus.tokens[places], corpus.tokens[drawn]


def pair_losses(tables: Tables, centres: NDArray[np.int32], contexts: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return log sum_k e^(h_x v_k) - h_x v_y of each pair, (n_pairs,), in nats; not finite where a score is not."""
    log_z = RowGroups.of_all(np.unique(centres)).softmax(tables, 1)
    with np.errstate(all="ignore"):
        losses: NDArray[np.float64] = log_z[centres] - row_products(tables.input[centres], tables.output[contexts])
    return losses


def divergence(corpus: Corpus, tables: Tables, window: int, seed: int) -> str | None:
    """Say if the loss of some pairs is above that of equal probabilities; None if it is not.

    Parameters
    ----------
    corpus, tables : the text and the vectors of a softmax of its words
    window : int
        Words at each side.
    seed : int
        Of the draws of pairs.
    """
    n_words = len(corpus.counts)
    pairs = some_pairs(corpus, window, min(MOST_PAIRS, max(1, MOST_SCORES // n_words)), seed)
    losses = pair_losses(tables, *pairs)
    if not len(losses):
        return None
    with np.errstate(all="ignore"):
        mean = float(np.mean(losses))
        error = float(np.std(losses) / np.sqrt(len(losses)))
    of_equal = np.log(n_words)
    if mean - 2 * error <= TOO_HIGH * of_equal:
        return None
    return f"the exact loss of {len(losses)} pairs, {mean:.4g}, is above that of equal probabilities, {of_equal:.4g}"
