"""What `SkipGram` trains, a text and two tables of vectors: its plan, and passes over the text or of descent.

The exact loss of some pairs of a text shows a divergence that the running loss hides: that one is of the drawn words,
and the logarithm of a sampled sum lies below that of the whole (Jensen).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from manyclass import _core
from manyclass.checks import check_choice, check_flag, check_number, checked_random, lazy_property, n_threads_from
from manyclass.parts import resolve_part
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.passes import drive
from manyclass.weights.arrays import Doubles, Floats
from manyclass.weights.tensor_file import Arrays, Saved
from manyclass.words.corpus import NO_PAIRS, Corpus
from manyclass.words.objectives import OBJECTIVES, Descent, Index, NegativeSampling, Objective

N_NEGATIVES = 5
LAST_SHARE = 0.004  # of the learning rate at the end: word2vec's 1e-4 of 0.025
SAMPLE_RULES = ("word2vec", "sqrt")
WARM_UP_RATE = 0.025
SHARE = 20  # a search finds one in twenty words (Yen et al. 2018, section 5.3)
N_BLOCKS = 4
COUNTING_BYTES = 1 << 28  # of memory for counting pairs
GROUP = 64  # centres that share a search: a dense product is fast with as many, and their best words are much the same
# The pairs whose exact losses tell of a divergence, and the scores that these may take: a fraction of a second of work.
MOST_PAIRS, MOST_SCORES = 256, 1 << 24
# In units of log V, the loss of equal probabilities, beyond twice the standard error: no noise of steps that learn.
TOO_HIGH = 1.1


class WordTables(NamedTuple):
    """h_x and v_y, rows padded with zeros to whole cache lines."""

    input: Floats
    output: Floats


# A pass whose steps can move a vector so far is begun by a copy, to which it goes back where vectors overflow: the step
# size times the words of a step, four times what the defaults have. Smaller ones are not known to make vectors
# overflow, and a copy takes the memory of the model once more.
CAREFUL = 0.6
ADVICE = "Lower learning_rate or n_negatives, or train Softmax(solver='implicit'), which bears larger steps"


@dataclass(repr=False)
class SkipGramState:
    """A text, the vectors of its words, and how far their training is: what a callback sees after each pass.

    Attributes
    ----------
    corpus : Corpus
        Word numbers, vocabulary and counts.
    text : SkipGramText
        The same for the core, with windows and sub-sampling.
    tables : WordTables
        h_x, and v_y or the vectors of the tree's nodes.
    dim : int
        Columns of the tables before padding.
    has_tree : bool
        Whether the objective is that of a Huffman tree.
    seed : int
    n_threads : int
    objective : str
        What the pass trained, by name: "negative_sampling" during the warm-up.
    n_iter : int
        Passes made, those of the warm-up among them.
    seconds : float
        Time spent in training so far; reading, counting and callbacks excluded.
    n_words : int
        Words of the corpus passed over so far, before sub-sampling.
    n_pairs : int
        Pairs of centre and context trained on so far.
    loss : float
        Mean over the pass of the objective as trained on, by samples, in nats a pair; with "descent", its exact value,
        or an estimate if a search samples.
    ends : list of float
        The seconds after each pass.
    """

    corpus: Corpus
    text: _core.SkipGramText
    tables: WordTables
    dim: int
    has_tree: bool
    seed: int
    n_threads: int
    objective: str = ""
    n_iter: int = 0
    seconds: float = 0.0
    n_words: int = 0
    n_pairs: int = 0
    loss: float = np.nan
    ends: list[float] = field(default_factory=list)

    @property
    def run(self) -> dict[str, Any]:
        """What all work of the core is told beside data."""
        return {"seed": self.seed, "n_threads": self.n_threads}

    @lazy_property
    def collapsed(self) -> _core.PairShares:
        """The shares of pairs in the text, counted at their first use."""
        with tempfile.TemporaryDirectory() as folder:
            pairs = _core.PairShares.count(text=self.text, **self.run, memory=COUNTING_BYTES, folder=folder)
        if pairs.n_pairs == 0:
            raise ValueError(NO_PAIRS)
        return pairs

    def objective_value(self, sample: int | None = None) -> float:
        """As `SkipGram.objective_value`, of the vectors as they are now.

        Parameters
        ----------
        sample : int, optional
            Centre words to draw; None for the exact value.

        Returns
        -------
        float
            Nats per co-occurrence.
        """
        if sample is not None:
            check_number("sample", sample, low=1, integer=True)
        tree_counts = self.corpus.counts if self.has_tree else None
        return self.collapsed.objective(*self.tables, n_draws=sample or 0, **self.run, tree_counts=tree_counts)


Callback = Callable[[SkipGramState], bool | None]


class _Passes:
    """What passes over a text and passes over both tables share: the state that they keep, and its checkpoints.

    Attributes
    ----------
    core_numbers : tuple of str
        The numbers, attributes of the `core`, that go on from a checkpoint beside those of the state.
    core : WordPasses or WordDescent
        What they drive.
    """

    unit: str
    advice = ADVICE
    fault: str | None = None
    core_numbers: tuple[str, ...]
    core: Any
    state_numbers = ("n_words", "n_pairs", "ends")

    def __init__(self, state: SkipGramState, n_passes: int, **carried: Doubles) -> None:
        self.state, self.n_passes = state, n_passes
        self._arrays: dict[str, Any] = {"input": state.tables.input, "output": state.tables.output, **carried}

    def arrays(self) -> Arrays:
        """Both tables, and what words carry."""
        return self._arrays

    def numbers(self) -> dict[str, Any]:
        """Numbers of the passes and sums of the state."""
        numbers = {name: getattr(self.core, name) for name in self.core_numbers}
        return numbers | {name: getattr(self.state, name) for name in self.state_numbers}

    def restore(self, saved: Saved) -> None:
        """Take over arrays and numbers."""
        saved.fill(self.arrays())
        for owner, names in ((self.core, self.core_numbers), (self.state, self.state_numbers)):
            for name in names:
                setattr(owner, name, saved.numbers[name])


class TextPasses(_Passes):
    """Passes of one trainer of the core over a text, in slices of sentences.

    Parameters
    ----------
    state : SkipGramState
    objective : Objective
    n_passes : int
    n_negatives : int
    rates : (float, float)
        Step sizes at the beginning and the end; they fall linearly over all passes.
    """

    unit = "words"
    core_numbers = ("loss", "loss_pairs", "refused")  # a step that is too large is refused, and training goes on

    def __init__(
        self, state: SkipGramState, objective: Objective, n_passes: int, n_negatives: int, rates: tuple[float, float]
    ) -> None:
        n_words, carried = len(state.corpus.counts), np.zeros(len(state.corpus.counts))
        if objective.carries_normalizers:
            carried = _core.word_log_normalizers(*state.tables, state.n_threads)
        super().__init__(state, n_passes, carried=carried)
        draws: dict[str, Any] = {"counts": state.corpus.counts, "n_negatives": n_negatives, **objective.core}
        trainer = _core.skip_gram_trainer(text=state.text, **draws | self._arrays, **state.run, isa="auto")
        self.n_visits, self.length = len(state.corpus.sentences) - 1, len(state.corpus.tokens)
        steps: dict[str, Any] = {"first_rate": rates[0], "last_rate": rates[1], "eta_u": objective.step_of_normalizers}
        # Random draws are named by passes from the first of the warm-up on.
        passes: dict[str, Any] = {"n_passes": n_passes, "first_pass": state.n_iter, "n_visits": self.n_visits}
        passes["careful"] = rates[0] * (1 + n_negatives) > CAREFUL
        self.core = _core.WordPasses(trainer, **self._arrays | steps | passes)
        self._is_softmax = objective.is_softmax
        # Equal probabilities cost log V, and negative sampling with all scores 0 log 2 for y and for each draw.
        self._worst_loss = 2 * (np.log(n_words) + n_negatives + 1)

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Train on the sentences from `first` on."""
        progress = self.core.run(n_pass, first, seconds)
        self.state.n_words += progress.tokens
        self.state.n_pairs += progress.pairs
        return progress.visits, progress.tokens

    def describe(self, last: int) -> str:
        """Return the objective and its mean so far."""
        return f"{self.state.objective}, loss {self.core.loss / max(self.core.loss_pairs, 1):.4f}"

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a pass; a corpus without pairs is an error, and so are vectors that overflowed where no copy was made.

        Else vectors beyond all use become those before the pass.
        """
        if self.state.n_pairs == 0:
            raise ValueError(NO_PAIRS)
        self.state.ends.append(self.state.seconds)
        done = self.core.has_overflowed()
        if done:
            self.fault = f"vectors overflowed in pass {n_pass + 1}; they are those before it"
            if not self.core.go_back():  # an estimator then stays as it was
                raise ValueError(f"vectors overflowed in pass {n_pass + 1}. {self.advice}")
        n_pairs = self.core.loss_pairs
        return (self.core.loss / n_pairs if n_pairs else np.nan), done

    def verdict(self, last_loss: float) -> str | None:
        """Say if steps were refused, or if the model is worse than none."""
        if self.core.refused:
            return f"{self.core.refused} steps were too large to take"
        if not last_loss <= self._worst_loss:
            return f"the loss of the last pass is {last_loss:.4g} nats"
        return divergence(self.state.text, self.state.tables, self.state.seed) if self._is_softmax else None


class DescentPasses(_Passes):
    """Passes of descent over both tables, each one visit; descent finds its own step sizes.

    An index, where there is one, follows the output table from pass to pass.
    """

    n_visits = length = 1
    unit = "passes"
    core_numbers = ("output_rate",)  # an index follows from the tables

    def __init__(self, state: SkipGramState, plan: SkipGramPlan, objective: Descent) -> None:
        n_words, search, rate = len(state.corpus.words), objective.search, plan.learning_rate
        rates = np.full(len(state.tables.input), rate)
        super().__init__(state, plan.max_iter, input_rates=rates)
        self._index = None if search == "exact" else index_for(search, seed=state.seed, n_jobs=state.n_threads)
        rule = "all" if self._index is None else "mask" if objective.rest == "mask" else "sample"
        budget = default_budget(n_words) if objective.budget == "auto" else int(objective.budget)
        self._value = np.nan
        finds = str(search) if objective.passes_messages else rule
        options: dict[str, Any] = {"found": finds, "budget": min(budget, n_words), "output_rate": rate}
        options |= {"dim": state.dim, "group": GROUP, **self._arrays, **state.run}
        self.core = _core.WordDescent(state.collapsed, **options)

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make a step, or none at all if Ctrl-C comes meanwhile."""
        if self._index is not None:
            self.core.search_in(*follow_table(self._index, self.state.tables.output[:, : self.state.dim]))
        self._value = self.core.step()
        return 1, 1

    def describe(self, last: int) -> str:
        """Return the objective and its value."""
        return f"{self.state.objective}, loss {self._value:.4f}"

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a pass."""
        self.state.ends.append(self.state.seconds)
        return self._value, False

    def verdict(self, last_loss: float) -> str | None:
        """Descent does not diverge."""
        return None


def follow_table(index: Index, table: Floats) -> tuple[Any, int]:
    """Fit an index to a table, or take over the rows as they are now; return its core and what a search probes."""
    rows = np.ascontiguousarray(table)
    if hasattr(index, "n_rows_"):
        index.update(np.arange(len(rows)), rows)
    else:
        index.fit(rows)
    return index.core, index.n_probe_


def divergence(text: _core.SkipGramText, tables: WordTables, seed: int) -> str | None:
    """Say if the exact loss of some pairs is above that of equal probabilities; None if it is not."""
    n_words = len(tables.input)
    n = min(MOST_PAIRS, max(1, MOST_SCORES // n_words))
    n_pairs, mean, error = _core.mean_loss_of_pairs(text, *tables, n, seed)
    equal_loss = np.log(n_words)
    if n_pairs == 0 or mean - 2 * error <= TOO_HIGH * equal_loss:
        return None
    return f"the exact loss of {n_pairs} pairs, {mean:.4g}, is above that of equal probabilities, {equal_loss:.4g}"


@dataclass(frozen=True)
class SkipGramPlan:
    """What `SkipGram` trains; its parameters of the same names say what each field is."""

    objective: Objective
    n_negatives: int
    learning_rate: float
    last_learning_rate: float
    max_iter: int
    warm_up: int

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> SkipGramPlan:
        """Return the plan of a fit.

        Raises
        ------
        ValueError
            If a parameter is out of range or would be without effect.
        TypeError
            If one is of another type.
        """
        for name in ("dim", "window", "min_count", "max_iter"):
            check_number(name, parameters[name], low=1, integer=True)
        check_flag("shrink_window", parameters["shrink_window"])
        check_number("sample", parameters["sample"], low=0)
        check_choice("sample_rule", parameters["sample_rule"], SAMPLE_RULES)
        if parameters["sample"] == 0 and parameters["sample_rule"] != "word2vec":
            rule = parameters["sample_rule"]
            raise ValueError(f"sample_rule is {rule!r}; with sample=0, where all words stay, it must be 'word2vec'")
        n_threads_from(parameters["n_jobs"])
        checked_random(parameters["random_state"])
        if not isinstance(parameters["verbose"], bool | np.bool_):
            check_number("verbose", parameters["verbose"])
        part = parameters["objective"]
        objective = cast(Objective, resolve_part("objective", part, OBJECTIVES, "manyclass.words.objectives"))
        lack = "" if objective.warms_up else "has no warm-up"
        warm_up = _count(objective, "warm_up", parameters["warm_up"], int(objective.warms_up), 0, lack)
        lack = "" if objective.draws or warm_up else "without a warm-up draws no words"
        n_negatives = _count(objective, "n_negatives", parameters["n_negatives"], N_NEGATIVES, 1, lack)
        rate = parameters["learning_rate"]
        rate = objective.first_rate if rate == "auto" else rate
        check_number("learning_rate", rate, low=0, open_low=True)
        return cls(objective, n_negatives, float(rate), LAST_SHARE * float(rate), int(parameters["max_iter"]), warm_up)


def rates_of_call(rate: float, n_before: int, n_new: int, n_fit: int) -> tuple[float, float]:
    """Step sizes at the beginning and the end of a `partial_fit` with `n_new` words after `n_before`, `n_fit` in `fit`.

    The schedule of `fit`, which falls linearly to 0.004 of its first step size, is wound back by the share that the new
    text has of all that was read before: to its beginning for as much text, and hardly at all for a little. It then
    falls to the end again. A stream that began without `fit` keeps the first step size. With a fifth of a text of
    novels as the new text, the step size with which `fit` ended loses 0.09 nats on held-out sentences of it
    (bench/decisions.md).
    """
    if n_fit == 0:
        return rate, rate
    share = min(1.0, n_new / n_before)
    return rate * (LAST_SHARE + (1 - LAST_SHARE) * share), rate * LAST_SHARE


def _count(objective: Objective, name: str, value: int | str, default: int, least: int, lack: str) -> int:
    """Return a number of passes or of words; a ValueError where the objective has a `lack` of what is counted."""
    if value == "auto":
        return default
    check_number(name, value, low=least, integer=True)
    if value and lack:
        raise ValueError(f"{name} is {value!r}; objective {objective.name!r} {lack}: it must be 'auto'")
    return int(value)


def train(
    plan: SkipGramPlan,
    state: SkipGramState,
    callback: Callback | None,
    checkpoints: Checkpoints | None = None,
    *,
    verbose: bool = False,
) -> tuple[list[float], float]:
    """Move the vectors of the state's model.

    A callback that returns True, or Ctrl-C, ends training, also in the warm-up.

    Returns
    -------
    curve : list of float
        The mean loss of each pass, those of the warm-up first.
    text_seconds : float
        Of the passes over the text.
    """

    def run(passes: TextPasses | DescentPasses) -> tuple[list[float], bool]:
        stage = None if checkpoints is None else checkpoints.stage(plan)
        return drive(passes, state, callback, max_iter=passes.n_passes, verbose=verbose, stage=stage)

    objective = plan.objective
    curve: list[float] = []
    if plan.warm_up:
        state.objective = "negative_sampling"
        rates = WARM_UP_RATE, LAST_SHARE * WARM_UP_RATE
        negative_sampling = NegativeSampling(objective.power)
        curve, complete = run(TextPasses(state, negative_sampling, plan.warm_up, plan.n_negatives, rates))
        if not complete:
            return curve, state.seconds
    state.objective, text_seconds = objective.name, state.seconds
    if isinstance(objective, Descent):
        return curve + run(DescentPasses(state, plan, objective))[0], text_seconds
    rates = plan.learning_rate, plan.last_learning_rate
    return curve + run(TextPasses(state, objective, plan.max_iter, plan.n_negatives, rates))[0], state.seconds


def default_budget(n_words: int) -> int:
    """Return the words that a search finds by default, one in twenty, rounded up."""
    return -(-n_words // SHARE)


def index_for(search: str | Index, *, seed: int, n_jobs: int | None) -> Index:
    """Return a new index for the name of a search, or a copy of a template, which keeps its own seed and threads."""
    index: Index
    if isinstance(search, str):
        index = SphericalClusterIndex(recluster="never") if search == "mips" else DecomposedIndex(N_BLOCKS)
    else:
        index = type(search)(**search.get_params())
    run = {"random_state": seed % 2**32, "n_jobs": n_jobs}
    index.set_params(**{name: value for name, value in run.items() if getattr(index, name) is None})
    return index
