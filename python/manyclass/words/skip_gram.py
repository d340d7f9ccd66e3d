r"""SkipGram: word vectors by the skip-gram model, with the true softmax or what others put in its place.

With a vector h_x for each word as a centre and v_y for each as a context, and n(x, y) the number of times that y stands
within a window around x, objective="softmax" minimises the mean of -log p(y | x) over all such pairs,

.. math:: \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

without normalising in the loop. log Z_x is a number carried for each word, and with it the objective is a sum over
pairs *and* words, of which a few drawn words give an unbiased gradient (Fagan & Iyengar 2018).

The other objectives, of which `manyclass.words.objectives` has the parameters:

- "descent": gradient descent on the exact softmax, by passes over both tables.
- "negative_sampling": tell y from n_negatives drawn words.
- "hierarchical": a Huffman tree over the words, which is normalised but another model; gensim's hs=1.
- "ove": one-vs-each, a bound; its gradient is a sum over all words, hence its small automatic step.
- "nce": negative sampling with the draws' probabilities taken out of the scores.
- "sampled_softmax": the softmax over y and the draws, each weighted by one over its expected number of draws.

All but "descent" replace the softmax by something else; `SkipGram.objective_value` says what that costs: it is the
collapsed objective of the softmax of the vectors, whatever they were trained for, and of "hierarchical" that of the
tree's probabilities. Explicit steps on the softmax diverge at steps much larger than their automatic 0.003.

`window`, `min_count` and `sample` have gensim's meaning, and its defaults but for the window, which is 5 there.
Elsewhere the names are those of this package's estimators: `dim` is gensim's vector_size, `max_iter` its epochs,
`n_jobs` its workers, `n_negatives` its negative. Phrases are left to gensim: what its Phrases make of a text is a text
for `fit`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.checks import check_number, n_threads_from, seed_from, set_named
from manyclass.compressed import split_words
from manyclass.parts import Parameters, hinting, storing
from manyclass.training.checkpoint import EVERY, Checkpoints
from manyclass.training.passes import keeping
from manyclass.weights.arrays import aligned_zeros, padded
from manyclass.weights.tensor_file import PathLike
from manyclass.words.corpus import Corpus, Documents, read_corpus
from manyclass.words.objectives import Objective
from manyclass.words.training import Callback, SkipGramPlan, SkipGramState, WordTables, rates_of_call, train
from manyclass.words.vectors import WordVectorQueries, WordVectors

Earlier = tuple[list[float], list[float]]  # losses and seconds of passes of calls before


class SkipGram(WordVectorQueries, TransformerMixin, BaseEstimator):
    r"""Skip-gram word vectors: p(y | x) for a word y near the word x.

    With a vector h_x for each word as a centre and v_y for each as a context, it minimises the mean of -log p(y | x),
    p being the softmax of the products h_x . v_y over all words y, or another objective;
    `manyclass.words.skip_gram` has these, and how the parameters compare with gensim's. A fitted model answers
    what gensim's KeyedVectors answers, as ``model["king"]`` or ``model.most_similar("king", topn=3)``.

    Parameters
    ----------
    dim : int, default=100
        Dimensions of the vectors.
    window : int, default=8
        Words on either side of the centre that count as its context.
    shrink_window : bool, default=True
        Draw each centre's window from 1, ..., window, as word2vec does, so that near words count more.
    min_count : int, default=5
        Words seen less often are left out of the text.
    sample : float, default=1e-3
        Sub-sampling of frequent words: the smaller, the fewer of them stay. 0: all stay.
    sample_rule : {"word2vec", "sqrt"}, default="word2vec"
        How likely a word with share f of the text stays. "word2vec": min(1, sqrt(sample / f) + sample / f), as its
        authors and gensim programmed it. "sqrt": min(1, sqrt(sample / f)), as they printed it.
    objective : {"softmax", "negative_sampling", "hierarchical", "ove", "nce", "sampled_softmax", "descent"} or object
        What is minimised, and how; "softmax" unless given. An object of `manyclass.words.objectives` has the parameters
        of its own, and a string stands for the object with its defaults.
    n_negatives : int or "auto", default="auto"
        Words drawn for each pair, in the warm-up too. "auto" is 5. "hierarchical" draws none.
    learning_rate : float or "auto", default="auto"
        Step size at the beginning; it falls linearly over the words of all passes, to 0.004 times itself. "auto" is
        0.025, 0.003 for explicit steps on the softmax, 0.00001 for "ove", and 1 for "descent", which finds its own.
    max_iter : int, default=5
        Passes over the corpus; of "descent", over both tables.
    warm_up : int or "auto", default="auto"
        Passes of negative sampling before all that, at their own step size of 0.025. "auto" is 1, but 0 for
        "negative_sampling" and "hierarchical", which have none.
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores. Above 1 they race on the vectors, and results vary from run to run.
    random_state : int, RandomState instance or None, default=None
        Seed of the first vectors and all draws.
    verbose : int, default=0
        Above 0, a progress bar shows the words per second.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_words, dim), float32
        h_x, a view of rows that are padded to cache lines.
    context_vectors_ : ndarray of shape (n_words, dim), float32
        v_y; for "hierarchical" the vectors of the tree's n_words - 1 inner nodes.
    vocabulary_ : dict of str to int
        Row of each word, the most frequent word first.
    counts_ : ndarray of shape (n_words,), int64
        How often each word occurs.
    loss_curve_ : list of float
        Mean of the trained objective in each pass, in nats a pair, passes of the warm-up first. It is estimated by a
        few drawn words; `objective_value` is exact.
    pass_seconds_ : list of float
        Time of each pass. It includes building a search's index and excludes callbacks.
    n_iter_ : int
        Number of passes, including those of the warm-up.
    words_per_second_ : float
        Words of the text, before sub-sampling, that passes over the text took a second; NaN if there was none.

    Examples
    --------
    >>> from manyclass import SkipGram
    >>> SkipGram(dim=4, window=1, sample=0, random_state=0).fit([["ant", "bee"], ["cow", "dog"]] * 50).vectors_.shape
    (4, 4)
    """

    _n_fit = 0  # words of the last fit; 0 of a stream without one

    set_params = set_named

    @storing
    def __init__(
        self,
        dim: int = 100,
        *,
        window: int = 8,
        shrink_window: bool = True,
        min_count: int = 5,
        sample: float = 1e-3,
        sample_rule: str = "word2vec",
        objective: str | Objective = "softmax",
        n_negatives: int | str = "auto",
        learning_rate: float | str = "auto",
        max_iter: int = 5,
        warm_up: int | str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        """Store the parameters."""

    @hinting
    def fit(
        self,
        X: str | os.PathLike[str] | Documents,
        y: object = None,
        *,
        callback: Callback | None = None,
        checkpoint: PathLike | None = None,
        every: str | int = EVERY,
        resume: bool = False,
        keep: Literal["best"] | None = None,
    ) -> SkipGram:
        """Train on a corpus. An error leaves the vectors of an earlier fit.

        Parameters
        ----------
        X : path or iterable of lists of str
            A text file with one sentence a line and blanks between words, plain or compressed; or sentences as lists of
            words. It is read once.
        y : object
            It is not used; scikit-learn passes it.
        callback : callable, optional
            It is called with a SkipGramState after each pass, and training ends when it returns True.
        checkpoint : path, optional
            Folder for checkpoints; see `manyclass.training.checkpoint`.
        every : str or int, default="10min"
            Time or number of passes between two checkpoints.
        resume : bool, default=False
            Whether to go on from the checkpoints in the folder.
        keep : {"best"} or None, default=None
            What Ctrl-C leaves. None: it raises KeyboardInterrupt, and the vectors are as before. "best": training ends
            with the vectors reached so far, and a warning says where.

        Returns
        -------
        SkipGram
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, no two frequent words are near each other, or vectors overflow.
        """
        plan = SkipGramPlan.of(self.get_params(deep=False))
        checkpoints = Checkpoints.of(checkpoint, every, resume)
        corpus = read_corpus(X, self.min_count)
        seed = self.random_state
        if checkpoints is not None:
            words = np.array(corpus.words, dtype=object)
            data = {"tokens": corpus.tokens, "sentences": corpus.sentences, "words": words}
            seed = checkpoints.seed(Parameters.of(self), data)
        state = self._start(corpus, plan, seed)
        with keeping(keep):
            self._keep(state, *train(plan, state, callback, checkpoints, verbose=self.verbose > 0))
        self._n_fit = int(self.counts_.sum())
        return self

    def partial_fit(
        self,
        X: str | os.PathLike[str] | Documents,
        y: object = None,
        *,
        n_passes: int = 1,
        learning_rate: float | None = None,
        callback: Callback | None = None,
    ) -> SkipGram:
        """Train on with a new text, or begin with it; an error leaves the model as it was.

        Ctrl-C raises KeyboardInterrupt and leaves the model as it was, too.
        Known words stay and their counts are added up; words that occur `min_count` times in this text join them.
        Afterwards `objective_value` is about this text.

        Parameters
        ----------
        X : path or iterable of lists of str
            The new text, as in `fit`.
        y : object
            It is not used; scikit-learn passes it.
        n_passes : int, default=1
            Passes over this text.
        learning_rate : float, optional
            Step size, the same in the whole call. None: the step size at the end of `fit`, raised towards the first one
            by the share that this text has of all that was read before; see `manyclass.words.training.rates_of_call`.
        callback : callable, optional
            As in `fit`.

        Returns
        -------
        SkipGram
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, the objective needs the whole text, or `dim` is not that of the model.
        """
        check_number("n_passes", n_passes, low=1, integer=True)
        if learning_rate is not None:
            check_number("learning_rate", learning_rate, low=0, open_low=True)
        plan = SkipGramPlan.of({**self.get_params(deep=False), "max_iter": n_passes})
        objective, known = plan.objective, dict[str, int]()
        if objective.has_tree or objective.name == "descent":
            raise ValueError(f"objective is {objective.name!r}, which needs the whole text; partial_fit has others")
        if hasattr(self, "vocabulary_"):
            if (dim := self.vectors_.shape[1]) != self.dim:
                raise ValueError(f"dim is {self.dim!r}; the model that partial_fit goes on with has {dim}")
            known = dict(zip(self.vocabulary_, self.counts_.tolist(), strict=True))
        corpus = read_corpus(X, self.min_count, known)
        first = last = learning_rate
        if first is None or last is None:
            first, last = rates_of_call(plan.learning_rate, sum(known.values()), len(corpus.tokens), self._n_fit)
        plan = replace(plan, learning_rate=first, last_learning_rate=last)
        state = self._start(corpus, plan, self.random_state)
        before: Earlier = ([], [])
        if known:
            before = self.loss_curve_, self.pass_seconds_
            state.n_iter = len(self.loss_curve_)
            places = {word: place for place, word in enumerate(corpus.words)}
            rows = [places[word] for word in self.vocabulary_]
            for table, vectors in zip(state.tables, (self.vectors_, self.context_vectors_), strict=True):
                table[rows, : self.dim] = vectors
            plan = replace(plan, warm_up=0)
        self._keep(state, *train(plan, state, callback, verbose=self.verbose > 0), before)
        return self

    def _start(self, corpus: Corpus, plan: SkipGramPlan, random_state: Any) -> SkipGramState:
        """A text and first vectors as in word2vec: h uniform on [-0.5, 0.5) / dim and v = 0."""
        has_tree, seed = plan.objective.has_tree, seed_from(random_state)
        keep = _core.kept_shares(corpus.counts, self.sample, self.sample_rule == "word2vec")
        contexts: dict[str, Any] = {"window": self.window, "shrink": self.shrink_window}
        text = _core.SkipGramText(tokens=corpus.tokens, sentences=corpus.sentences, keep=keep, **contexts)
        n_words, dim = len(corpus.words), self.dim
        tables = WordTables(*(aligned_zeros(n, padded(dim)) for n in (n_words, n_words - has_tree)))
        tables.input[:, :dim] = (np.random.default_rng(seed).random((n_words, dim)) - 0.5) / dim
        return SkipGramState(corpus, text, tables, dim, has_tree, seed, n_threads_from(self.n_jobs))

    def objective_value(self, sample: int | None = None) -> float:
        """Compute the exact objective of the softmax, or of the tree, by scoring all words.

        The pairs are those of the first pass's sub-sampling. Where windows shrink, a pair counts by its probability.

        Parameters
        ----------
        sample : int, optional
            Number of centre words to draw by their share of the pairs, for an unbiased estimate. None: all words.

        Returns
        -------
        float
            Nats per co-occurrence.

        Raises
        ------
        ValueError
            If the estimator is a copy or was loaded, because the corpus is not part of these.
        """
        check_is_fitted(self, "vocabulary_")
        if self._model is None:
            raise ValueError("the corpus is not part of a copied estimator; call fit again")
        return self._model.objective_value(sample)

    def transform(self, X: Iterable[str | Iterable[str]]) -> NDArray[np.float32]:
        """Average the vectors of each document's words; unknown words do not count.

        Parameters
        ----------
        X : iterable of str or of lists of str
            Documents; a string is split at ASCII's blanks.

        Returns
        -------
        ndarray of shape (n_documents, dim), float32
            The means; zeros for a document without known words.
        """
        check_is_fitted(self, "vocabulary_")
        if isinstance(X, str):
            raise TypeError(f"X is {X!r}; it must be a list of documents")
        dim = self.vectors_.shape[1]
        means = []
        for document in X:
            words = split_words(document) if isinstance(document, str) else document
            rows = [self.vocabulary_[word] for word in words if word in self.vocabulary_]
            means.append(self.vectors_[rows].mean(axis=0) if rows else np.zeros(dim, dtype=np.float32))
        return np.array(means, dtype=np.float32).reshape(-1, dim)

    def check_parameters(self) -> None:
        """Raise the ValueError or TypeError that `fit` would raise for a parameter, without reading a corpus."""
        SkipGramPlan.of(self.get_params(deep=False))

    def __getstate__(self) -> dict[str, object]:
        """The estimator without its corpus, which is a file of this process."""
        state: dict[str, object] = {**super().__getstate__()}
        if "_model" in state:
            state["_model"] = None
        return state

    def save(self, path: PathLike) -> None:
        """Write the vectors and their words for `manyclass.WordVectors.load`, all or nothing.

        Parameters
        ----------
        path : str or path-like
            The file. What `partial_fit` needs is not in it; joblib keeps that.
        """
        WordVectors(self.index_to_key, np.ascontiguousarray(self.vectors)).save(path)

    @property
    def wv(self) -> SkipGram:
        """The estimator itself, for code that asks gensim's Word2Vec for its vectors."""
        return self

    def _keep(self, state: SkipGramState, curve: list[float], seconds: float, before: Earlier = ([], [])) -> None:
        """Take over what was trained, behind the losses and the seconds of passes before it."""
        self._model: SkipGramState | None = state
        self._words = state.corpus.words
        self.vocabulary_ = {word: row for row, word in enumerate(self._words)}
        self.counts_ = state.corpus.counts
        self.vectors_ = state.tables.input[:, : state.dim]
        self.context_vectors_ = state.tables.output[:, : state.dim]
        self.loss_curve_: list[float] = before[0] + curve
        self.n_iter_: int = state.n_iter
        self.pass_seconds_: list[float] = before[1] + np.diff([0.0, *state.ends]).tolist()
        self.words_per_second_ = state.n_words / seconds if seconds > 0 else np.nan
