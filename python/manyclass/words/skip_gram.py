"""SkipGram: word vectors by the skip-gram model, with the true softmax or what others put in its place."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from, seed_from
from manyclass.model.weights import LINE, aligned_zeros
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.words.collapsed import Collapsed, Descent, Tables, _Tree, log_normalizers
from manyclass.words.collapsed_search import RESTS, SEARCHES, Index, SearchedDescent, index_for
from manyclass.words.corpus import Corpus, Documents, read_corpus
from manyclass.words.passes import Callback, Passes, SkipGramState, run_passes
from manyclass.words.vectors import WordVectorQueries

COUNTING_BYTES = 1 << 28  # of memory for counting pairs

# The core's solver for each objective but the softmax, and the step size that "auto" means.
OBJECTIVES = {
    "negative_sampling": "negative_sampling",
    "hierarchical": "hierarchical",
    "ove": "ove",
    "nce": "nce",
    "sampled_softmax": "css",
}
SOLVERS = ("implicit", "umax", "ema", "sgd", "gd")
LEARNING_RATES = {"ove": 1e-5, "umax": 0.003, "ema": 0.003, "sgd": 0.003, "gd": 1.0}
LEARNING_RATE = 0.025
LAST_SHARE = 0.004  # of the learning rate at the end: word2vec's 1e-4 of 0.025
WARMED_UP = ("softmax", "ove", "nce", "sampled_softmax")


class SkipGram(WordVectorQueries, TransformerMixin, BaseEstimator):
    r"""Skip-gram word vectors: p(y | x) for a word y near the word x.

    With a vector h_x for each word as a centre and v_y for each as a context, and n(x, y) the number of times that y
    stands within a window around x, objective="softmax" minimises the mean of -log p(y | x) over all such pairs,

    .. math:: \sum_x q_x \Bigl[\log \sum_{y'} e^{h_x \cdot v_{y'}} - \sum_y q_{y|x}\, h_x \cdot v_y\Bigr],

    without normalising in the loop: log Z_x is a number carried for each word, and with it the objective is a sum over
    pairs *and* words, of which a few drawn words give an unbiased gradient (Fagan & Iyengar 2018). Every other
    objective here replaces the softmax by something else; `objective_value` says what that costs.

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
    sample : float, default=1e-4
        Sub-sampling: a word with share f of the text stays with probability min(1, sqrt(sample / f)). 0: all stay.
    sample_rule : {"sqrt", "word2vec"}, default="sqrt"
        "sqrt": the above, as word2vec's authors printed it. "word2vec": min(1, sqrt(sample / f) + sample / f), as they
        and gensim programmed it.
    objective : {"softmax", "negative_sampling", "hierarchical", "ove", "nce", "sampled_softmax"}, default="softmax"
        "negative_sampling": tell y from n_negatives drawn words. "hierarchical": a Huffman tree over the words, which
        is normalised but another model. "ove": one-vs-each, a bound. "nce": negative sampling with the draws'
        probabilities taken out of the scores. "sampled_softmax": the softmax over y and the draws, each weighted by one
        over its expected number of draws.
    solver : {"implicit", "umax", "ema", "sgd", "gd"}, default="implicit"
        For objective="softmax". "implicit": the proximal step in the output vectors and log Z_x. "sgd", "umax", "ema":
        explicit steps, log Z_x by its gradient, by U-max's rule, or as a moving average with weight u_gain. "gd":
        gradient descent on the exact objective, input and output vectors by turns; a pass costs as much as scoring all
        pairs of words a few times.
    search : {"exact", "mips", "decomposed"} or index, default="exact"
        How "gd" finds the words that matter in the softmax: "exact" scores all of them; "mips" asks a
        SphericalClusterIndex of the context vectors, "decomposed" a DecomposedIndex with 4 blocks. An index that is not
        fitted serves as a template.
    budget : int or None, default=None
        Words that a search finds. None is one in twenty, rounded up.
    rest : {"sample", "mask"}, default="sample"
        What becomes of the words that a search does not find. "sample": centres of similar direction search together,
        and samples of the other words, or of the centres, stand for all of them, so that the gradient remains nearly
        unbiased. "mask": each centre searches, and is trained on the words found and its observed contexts only, as by
        Yen et al. (ICML 2018): another objective as long as much of the softmax is not found, and slower than "exact"
        up to some ten thousand words.
    n_negatives : int, default=5
        Words drawn for each pair.
    power : float, default=0.75
        Words are drawn with probability proportional to their count to this power.
    share_negatives : bool, default=False
        All pairs of one centre see the same drawn words. Faster, and noisier; for "negative_sampling" only.
    learning_rate : float or "auto", default="auto"
        Step size at the beginning; it falls linearly over the words of all passes, to 0.004 times itself. "auto" is
        0.025, but 0.003 for "umax", "ema" and "sgd", which larger ones make diverge, 0.00001 for "ove", whose gradient
        is a sum over all words, and 1 for "gd", which finds its own.
    u_learning_rate : float, default=0.1
        Step size of log Z_x; see solver.
    u_gain : float, default=0.01
        See solver "ema".
    delta : float, default=1.0
        How far below a bound log Z_x may be before "umax" raises it.
    max_iter : int, default=5
        Passes over the corpus; of "gd", over both tables.
    n_warmup : int, default=1
        Passes of negative sampling before all that, at its own step size of 0.025. None are made for
        "negative_sampling" and "hierarchical".
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
        Words of the corpus, before sub-sampling, per second of training; for "gd", of the warm-up, NaN without one.

    Examples
    --------
    >>> from manyclass import SkipGram
    >>> text = [["ant", "bee"], ["cow", "dog"]] * 50
    >>> model = SkipGram(dim=4, window=1, objective="negative_sampling", sample=0, random_state=0).fit(text)
    >>> model.vectors_.shape
    (4, 4)
    """

    def __init__(
        self,
        dim: int = 100,
        *,
        window: int = 8,
        shrink_window: bool = True,
        min_count: int = 5,
        sample: float = 1e-4,
        sample_rule: str = "sqrt",
        objective: str = "softmax",
        solver: str = "implicit",
        search: str | Index = "exact",
        budget: int | None = None,
        rest: str = "sample",
        n_negatives: int = 5,
        power: float = 0.75,
        share_negatives: bool = False,
        learning_rate: float | str = "auto",
        u_learning_rate: float = 0.1,
        u_gain: float = 0.01,
        delta: float = 1.0,
        max_iter: int = 5,
        n_warmup: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.dim = dim
        self.window = window
        self.shrink_window = shrink_window
        self.min_count = min_count
        self.sample = sample
        self.sample_rule = sample_rule
        self.objective = objective
        self.solver = solver
        self.search = search
        self.budget = budget
        self.rest = rest
        self.n_negatives = n_negatives
        self.power = power
        self.share_negatives = share_negatives
        self.learning_rate = learning_rate
        self.u_learning_rate = u_learning_rate
        self.u_gain = u_gain
        self.delta = delta
        self.max_iter = max_iter
        self.n_warmup = n_warmup
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: str | os.PathLike[str] | Documents, y: object = None, *, callback: Callback | None = None
    ) -> SkipGram:
        """Read a corpus and train.

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
            If a parameter is out of range, or the corpus has fewer than two words that are frequent enough or no two of
            them near each other.
        """
        self._check_parameters()
        n_threads = n_threads_from(self.n_jobs)
        self._seed = seed_from(self.random_state)
        self._corpus: Corpus | None = read_corpus(X, self.min_count)
        self._collapsed: Collapsed | None = None
        self.vocabulary_ = {word: row for row, word in enumerate(self._corpus.words)}
        self.counts_ = self._corpus.counts
        self._text = self._text_of(self._corpus)
        self._tables = self._first_tables(len(self.counts_))
        self.loss_curve_: list[float] = []
        state = SkipGramState(_value=self.objective_value)
        n_warmup = self.n_warmup if self.objective in WARMED_UP else 0
        go_on = True
        if n_warmup:
            go_on = self._run("negative_sampling", 0, n_warmup, LEARNING_RATE, state, callback, n_threads)
        seconds = state.seconds
        if go_on and self.objective == "softmax" and self.solver == "gd":
            self._descend(state, callback)
        elif go_on:
            solver = OBJECTIVES.get(self.objective, self.solver)
            self._run(solver, n_warmup, self.max_iter, self._first_rate(), state, callback, n_threads)
            seconds = state.seconds
        self.n_iter_ = state.n_iter
        self.pass_seconds_ = np.diff([0.0, *state.ends]).tolist()
        self.words_per_second_ = state.n_words / seconds if seconds > 0 else np.nan
        return self

    @property
    def vectors_(self) -> NDArray[np.float32]:  # type: ignore[override]
        """h_x."""
        check_is_fitted(self, "vocabulary_")
        return self._tables.input[:, : self.dim]

    @property
    def context_vectors_(self) -> NDArray[np.float32]:
        """v_y, or of the nodes of the tree."""
        check_is_fitted(self, "vocabulary_")
        return self._tables.output[:, : self.dim]

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
        collapsed = self._collapsed_form()
        if sample is None:
            rows = np.flatnonzero(collapsed.centres)
            weights = collapsed.centres[rows]
        else:
            check_number("sample", sample, low=1, integer=True)
            drawn = np.random.default_rng(self._seed).choice(len(self.counts_), sample, p=collapsed.centres)
            rows, times = np.unique(drawn, return_counts=True)
            weights = times / sample
        if self.objective == "hierarchical":
            return float(weights @ collapsed.tree_losses(self._tables, rows, _Tree.of(self.counts_)))
        return float(weights @ collapsed.losses(self._tables, rows))

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
        means = []
        for document in X:
            words = document.split() if isinstance(document, str) else document
            rows = [self.vocabulary_[word] for word in words if word in self.vocabulary_]
            means.append(self.vectors_[rows].mean(axis=0) if rows else np.zeros(self.dim, dtype=np.float32))
        return np.array(means, dtype=np.float32).reshape(-1, self.dim)

    def __getstate__(self) -> dict[str, Any]:
        """The estimator without its corpus, which is a file of this process."""
        state: dict[str, Any] = {**super().__getstate__()}
        for name in ("_text", "_collapsed"):
            state.pop(name, None)
        if "_corpus" in state:
            state["_corpus"] = None
        return state

    def _check_parameters(self) -> None:
        check_choice("objective", self.objective, ("softmax", *OBJECTIVES))
        check_choice("solver", self.solver, SOLVERS)
        self._check_search()
        check_choice("sample_rule", self.sample_rule, ("sqrt", "word2vec"))
        for name, low in (("dim", 1), ("window", 1), ("min_count", 1), ("n_negatives", 1), ("max_iter", 1)):
            check_number(name, getattr(self, name), low=low, integer=True)
        check_number("n_warmup", self.n_warmup, low=0, integer=True)
        check_number("sample", self.sample, low=0)
        check_number("power", self.power)
        check_number("delta", self.delta, low=0)
        check_number("u_gain", self.u_gain, low=0, high=1, open_low=True)
        check_number("u_learning_rate", self.u_learning_rate, low=0, open_low=True)
        if self.learning_rate != "auto":
            check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        if self.share_negatives and self.objective != "negative_sampling":
            raise ValueError(f"share_negatives is for objective 'negative_sampling'; objective is {self.objective!r}")

    def _check_search(self) -> None:
        if not isinstance(self.search, SphericalClusterIndex | DecomposedIndex):
            check_choice("search", self.search, SEARCHES)
        check_choice("rest", self.rest, RESTS)
        if self.budget is not None:
            check_number("budget", self.budget, low=1, integer=True)
        if self.search != "exact" and (self.objective, self.solver) != ("softmax", "gd"):
            raise ValueError(
                f"search is {self.search!r}; it must be 'exact' but for objective 'softmax' with solver 'gd': "
                f"they are {self.objective!r} and {self.solver!r}"
            )

    def _first_rate(self) -> float:
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        name = self.solver if self.objective == "softmax" else self.objective
        return LEARNING_RATES.get(name, LEARNING_RATE)

    def _text_of(self, corpus: Corpus) -> _core.SkipGramText:
        keep = np.ones(len(corpus.counts))
        if self.sample > 0:
            odds = self.sample * corpus.counts.sum() / corpus.counts
            keep = np.sqrt(odds) + (odds if self.sample_rule == "word2vec" else 0.0)
        return _core.SkipGramText(
            tokens=corpus.tokens,
            sentences=corpus.sentences,
            keep=np.minimum(keep, 1.0),
            window=self.window,
            shrink=self.shrink_window,
        )

    def _first_tables(self, n_words: int) -> Tables:
        """h uniform on [-0.5, 0.5) / dim and v = 0, as in word2vec."""
        width = -(-self.dim // LINE) * LINE
        h = aligned_zeros(n_words, width)
        h[:, : self.dim] = (np.random.default_rng(self._seed).random((n_words, self.dim)) - 0.5) / self.dim
        return Tables(h, aligned_zeros(n_words - 1 if self.objective == "hierarchical" else n_words, width))

    def _run(
        self,
        solver: str,
        first_pass: int,
        n_passes: int,
        rate: float,
        state: SkipGramState,
        callback: Callback | None,
        n_threads: int,
    ) -> bool:
        assert self._corpus is not None
        needs_normalizers = solver in SOLVERS
        trainer = _core.skip_gram_trainer(
            text=self._text,
            input=self._tables.input,
            output=self._tables.output,
            carried=log_normalizers(self._tables) if needs_normalizers else np.zeros(len(self.counts_)),
            counts=self.counts_,
            solver=solver,
            n_negatives=self.n_negatives,
            power=float(self.power),
            share=self.share_negatives,
            delta=float(self.delta),
            u_gain=float(self.u_gain),
            seed=self._seed,
            n_threads=n_threads,
            isa="auto",
        )
        name = "negative_sampling" if solver == "negative_sampling" else self.objective
        passes = Passes(
            name,
            trainer,
            n_passes,
            first_pass,
            rate,
            LAST_SHARE * rate,
            float(self.u_learning_rate),
            # Equal probabilities cost log V, and negative sampling with all scores 0 log 2 for y and for each draw.
            worst_loss=2 * (np.log(len(self.counts_)) + self.n_negatives + 1),
        )
        curve, go_on = run_passes(
            passes,
            len(self._corpus.sentences) - 1,
            state,
            callback,
            verbose=self.verbose > 0,
            n_words=len(self._corpus.tokens),
        )
        self.loss_curve_ += curve
        return go_on

    def _descend(self, state: SkipGramState, callback: Callback | None) -> None:
        state.objective = self.objective
        parts = (self._collapsed_form(), self._tables, self._first_rate())
        descent = Descent(*parts)
        if self.search != "exact":
            descent = SearchedDescent(
                *parts,
                index=index_for(self.search, seed=self._seed, n_jobs=self.n_jobs),
                rest=self.rest,
                budget=self.budget,
                dim=self.dim,
                seed=self._seed,
            )
        for _ in range(self.max_iter):
            begin = time.perf_counter()
            state.loss = descent.step()
            state.seconds += time.perf_counter() - begin
            state.n_iter += 1
            state.ends.append(state.seconds)
            self.loss_curve_.append(state.loss)
            if callback is not None and callback(state):
                break

    def _collapsed_form(self) -> Collapsed:
        if self._corpus is None:
            raise ValueError("the corpus is not part of a copied estimator; call fit again")
        if self._collapsed is None:
            self._collapsed = Collapsed.count(
                self._text,
                self.window if self.shrink_window else 1,
                seed=self._seed,
                n_threads=n_threads_from(self.n_jobs),
                memory=COUNTING_BYTES,
            )
        return self._collapsed
