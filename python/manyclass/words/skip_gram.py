"""SkipGram: word vectors by the skip-gram model, with the true softmax or what others put in its place."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_choice, check_flag, check_number, n_threads_from, seed_from, set_named
from manyclass.words.corpus import Documents, read_corpus
from manyclass.words.objectives import AnyObjective, objective_from
from manyclass.words.passes import Callback, SkipGramState
from manyclass.words.plan import SkipGramPlan, drawn_words, warm_up_passes
from manyclass.words.queries import KeyedVectors, WordVectorQueries
from manyclass.words.text_model import TextModel, Windows
from manyclass.words.training import Trained, train


class SkipGram(WordVectorQueries, TransformerMixin, BaseEstimator):
    r"""Skip-gram word vectors: p(y | x) for a word y near the word x.

    With a vector h_x for each word as a centre and v_y for each as a context, and n(x, y) the number of times that y
    stands within a window around x, objective="softmax" minimises the mean of -log p(y | x) over all such pairs,

    .. math:: \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

    without normalising in the loop. log Z_x is a number carried for each word, and with it the objective is a sum over
    pairs *and* words, of which a few drawn words give an unbiased gradient (Fagan & Iyengar 2018). "descent" minimises
    the same by passes over both tables. Every other objective replaces the softmax by something else;
    `objective_value` says what that costs.

    `window`, `min_count` and `sample` have gensim's meaning, and its defaults but for the window, which is 5 there.
    Elsewhere the names are those of this package's estimators: `dim` is gensim's vector_size, `max_iter` its epochs,
    `n_jobs` its workers, `n_negatives` its negative, and the objective "hierarchical" its hs=1. A fitted model answers
    what gensim's KeyedVectors answers, as ``model["king"]`` or ``model.most_similar("king", topn=3)``. Phrases are left
    to gensim: what its Phrases make of a text is a text for `fit`.

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
        of its own, and a string stands for the object with its defaults. "negative_sampling": tell y from n_negatives
        drawn words. "hierarchical": a Huffman tree over the words, which is normalised but another model. "ove":
        one-vs-each, a bound. "nce": negative sampling with the draws' probabilities taken out of the scores.
        "sampled_softmax": the softmax over y and the draws, each weighted by one over its expected number of draws.
        "descent": gradient descent on the exact softmax.
    n_negatives : int or "auto", default="auto"
        Words drawn for each pair, in the warm-up too. "auto" is 5. "hierarchical" draws none.
    learning_rate : float or "auto", default="auto"
        Step size at the beginning; it falls linearly over the words of all passes, to 0.004 times itself. "auto" is
        0.025, but 0.003 for explicit steps on the softmax, which larger ones make diverge, 0.00001 for "ove", whose
        gradient is a sum over all words, and 1 for "descent", which finds its own.
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
        Above 0: a progress bar with words per second.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_words, dim), float32
        h_x, a view of rows that are padded to whole cache lines.
    context_vectors_ : ndarray of shape (n_words, dim), float32
        v_y. For "hierarchical", of the n_words - 1 inner nodes of the tree.
    vocabulary_ : dict of str to int
        Row of each word, most frequent first.
    counts_ : ndarray of shape (n_words,), int64
        How often each word occurs.
    loss_curve_ : list of float
        Mean over each pass of the objective as trained on, in nats a pair, those of the warm-up first. Estimates by a
        few drawn words; `objective_value` is exact.
    pass_seconds_ : list of float
        Time of each of these passes, callbacks excluded; of a search, the making of its index is in its first.
    n_iter_ : int
        Passes made, those of the warm-up among them.
    words_per_second_ : float
        Words of the corpus, before sub-sampling, per second of training; for "descent", of the warm-up, NaN without
        one.

    Examples
    --------
    >>> from manyclass import SkipGram
    >>> from manyclass.words.objectives import NegativeSampling
    >>> text = [["ant", "bee"], ["cow", "dog"]] * 50
    >>> model = SkipGram(dim=4, window=1, objective=NegativeSampling(power=0.5), sample=0, random_state=0).fit(text)
    >>> model.vectors_.shape
    (4, 4)
    """

    set_params = set_named

    def __init__(
        self,
        dim: int = 100,
        *,
        window: int = 8,
        shrink_window: bool = True,
        min_count: int = 5,
        sample: float = 1e-3,
        sample_rule: str = "word2vec",
        objective: str | AnyObjective = "softmax",
        n_negatives: int | str = "auto",
        learning_rate: float | str = "auto",
        max_iter: int = 5,
        warm_up: int | str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.dim = dim
        self.window = window
        self.shrink_window = shrink_window
        self.min_count = min_count
        self.sample = sample
        self.sample_rule = sample_rule
        self.objective = objective
        self.n_negatives = n_negatives
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.warm_up = warm_up
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: str | os.PathLike[str] | Documents, y: object = None, *, callback: Callback | None = None
    ) -> SkipGram:
        """Read a corpus and train.

        Ctrl-C ends training, and the vectors are those reached so far. An error leaves an earlier fit as it was.

        Parameters
        ----------
        X : path or iterable of lists of str
            A text file, plain, ``.gz`` or ``.xz``: words between white space, a sentence a line. Or the sentences.
            Either is read once. A sentence of more than 10,000 words is cut.
        y : None
            Ignored.
        callback : callable, optional
            Called with a SkipGramState after each pass; training ends when it returns True.

        Returns
        -------
        SkipGram
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of range or without effect, or the corpus has fewer than two words that are frequent
            enough or no two of them near each other.
        """
        plan = self._plan()
        model = TextModel.start(
            read_corpus(X, self.min_count),
            Windows(self.window, self.shrink_window, self.sample, self.sample_rule),
            dim=self.dim,
            has_tree=plan.objective.has_tree,
            seed=seed_from(self.random_state),
            n_threads=n_threads_from(self.n_jobs),
        )
        state = SkipGramState(model)
        self._keep(state, train(plan, state, callback))
        return self

    def objective_value(self, sample: int | None = None) -> float:
        """Evaluate the objective exactly, by scoring all words for each centre word.

        It is the collapsed objective of the softmax of the vectors, whatever they were trained for; for
        objective="hierarchical", of the tree's probabilities. The pairs are those of one sub-sampling of the corpus,
        that of the first pass, with windows that shrink counted by their probabilities. Counting runs on n_jobs
        threads, matrix products on as many as BLAS takes.

        Parameters
        ----------
        sample : int, optional
            Take the mean over so many centre words, drawn by their share of the pairs: an unbiased estimate. None for
            all centre words.

        Returns
        -------
        float
            Nats per co-occurrence.

        Raises
        ------
        ValueError
            If the estimator was loaded from a file or copied between processes: the corpus stayed behind.
        """
        check_is_fitted(self, "vocabulary_")
        if self._model is None:
            raise ValueError("the corpus is not part of a copied estimator; call fit again")
        return self._model.objective_value(sample)

    def transform(self, X: Iterable[str | Iterable[str]]) -> NDArray[np.float32]:
        """Give each document the mean of its words' vectors.

        Parameters
        ----------
        X : iterable of str or of lists of str
            Documents; a str is split at white space.

        Returns
        -------
        ndarray of shape (n_documents, dim), float32
            Means over the words of the vocabulary; zeros for a document without any.
        """
        check_is_fitted(self, "vocabulary_")
        if isinstance(X, str):
            raise TypeError(f"X is {X!r}; it must be a list of documents")
        dim = self.vectors_.shape[1]
        means = []
        for document in X:
            words = document.split() if isinstance(document, str) else document
            rows = [self.vocabulary_[word] for word in words if word in self.vocabulary_]
            means.append(self.vectors_[rows].mean(axis=0) if rows else np.zeros(dim, dtype=np.float32))
        return np.array(means, dtype=np.float32).reshape(-1, dim)

    def check_parameters(self) -> None:
        """Raise what `fit` would raise of the parameters, before a corpus is read.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or would be without effect.
        """
        self._plan()

    def __getstate__(self) -> dict[str, object]:
        """The estimator without its corpus, which is a file of this process."""
        state: dict[str, object] = {**super().__getstate__()}
        if "_model" in state:
            state["_model"] = None
        state.pop("_listed", None)  # is made again when it is asked for
        return state

    def to_keyed_vectors(self) -> KeyedVectors:
        """Return the vectors and counts as gensim's KeyedVectors, which must be installed.

        Returns
        -------
        gensim.models.KeyedVectors
            Copies; how often a word occurs is ``get_vecattr(word, "count")``.

        Raises
        ------
        ImportError
            Without gensim.
        """
        keyed = super().to_keyed_vectors()
        keyed.allocate_vecattrs(["count"], [np.int64])
        keyed.expandos["count"][:] = self.counts_
        return keyed

    @property
    def wv(self) -> SkipGram:
        """The estimator itself, for code that asks gensim's Word2Vec for its vectors."""
        return self

    def _keep(self, state: SkipGramState, trained: Trained) -> None:
        model = state.model
        self._model: TextModel | None = model
        self.vocabulary_ = {word: row for row, word in enumerate(model.corpus.words)}
        self.counts_ = model.corpus.counts
        self.vectors_ = model.tables.input[:, : model.dim]
        self.context_vectors_ = model.tables.output[:, : model.dim]
        self.loss_curve_ = trained.curve
        self.n_iter_ = state.n_iter
        self.pass_seconds_: list[float] = np.diff([0.0, *state.ends]).tolist()
        self.words_per_second_ = state.n_words / trained.text_seconds if trained.text_seconds > 0 else np.nan

    def _plan(self) -> SkipGramPlan:
        for name, low in (("dim", 1), ("window", 1), ("min_count", 1), ("max_iter", 1)):
            check_number(name, getattr(self, name), low=low, integer=True)
        check_flag("shrink_window", self.shrink_window)
        check_number("sample", self.sample, low=0)
        check_choice("sample_rule", self.sample_rule, ("word2vec", "sqrt"))
        if self.sample == 0 and self.sample_rule != "word2vec":
            raise ValueError(
                f"sample_rule is {self.sample_rule!r}; with sample=0 all words stay by any rule: it must be "
                "'word2vec', or sample more than 0"
            )
        n_threads_from(self.n_jobs)
        objective = objective_from(self.objective)
        warm_up = warm_up_passes(self.warm_up, objective)
        if self.learning_rate != "auto":
            check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        return SkipGramPlan(
            objective,
            n_negatives=drawn_words(self.n_negatives, objective, warm_up),
            learning_rate=float(
                objective.default_learning_rate if self.learning_rate == "auto" else self.learning_rate
            ),
            max_iter=int(self.max_iter),
            warm_up=warm_up,
            n_jobs=self.n_jobs,
            verbose=self.verbose > 0,
        )
