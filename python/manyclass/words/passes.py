"""What `SkipGram` drives: passes of the core over a text, and of descent over both tables of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyclass import _core
from manyclass.training.checkpoint import Arrays, Saved
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import Descent
from manyclass.words.corpus import NO_PAIRS
from manyclass.words.probe import divergence
from manyclass.words.text_model import TextModel

LAST_SHARE = 0.004  # of the learning rate at the end: word2vec's 1e-4 of 0.025
# Step sizes from which vectors are copied before each pass, four times the default: smaller ones are not known to make
# them overflow, and a copy takes the memory of the model once more.
CAREFUL = 0.1
MOST = 2.0**60  # of a number in a vector, whose square is far from the end of single precision
ADVICE = "Lower learning_rate, or train Softmax(solver='implicit'), which bears larger steps"


@dataclass
class SkipGramState:
    """What a callback of `SkipGram.fit` sees after each pass, the passes of the warm-up among them.

    Attributes
    ----------
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

    model: TextModel = field(repr=False)
    objective: str = ""
    n_iter: int = 0
    seconds: float = 0.0
    n_words: int = 0
    n_pairs: int = 0
    loss: float = np.nan
    ends: list[float] = field(default_factory=list)

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
        return self.model.objective_value(sample)


Callback = Callable[[SkipGramState], bool | None]


@dataclass(frozen=True)
class Rates:
    """Step sizes of some passes: they fall linearly over all of them, to `last`; None: to LAST_SHARE of the first."""

    first: float
    n_passes: int
    of_normalizers: float
    last: float | None = None

    def ends(self, n: int) -> tuple[float, float]:
        """Return the step sizes at the two ends of pass n."""
        last = LAST_SHARE * self.first if self.last is None else self.last
        fall = (self.first - last) / self.n_passes
        return self.first - n * fall, self.first - (n + 1) * fall


class TextPasses:
    """Passes of one trainer of the core over a text, in slices of sentences."""

    unit = "words"
    advice = ADVICE
    fault: str | None = None  # a step that is too large is refused, and training goes on

    def __init__(
        self,
        trainer: _core.Trainer,
        state: SkipGramState,
        rates: Rates,
        worst_loss: float,
        carried: Doubles,
        *,
        is_softmax: bool,
    ) -> None:
        corpus = state.model.corpus
        self.trainer, self.state, self.rates, self.is_softmax = trainer, state, rates, is_softmax
        self.n_passes = rates.n_passes
        self.n_visits, self.length = len(corpus.sentences) - 1, len(corpus.tokens)
        self.first_pass = state.n_iter  # random draws are named by passes from the first of the warm-up on
        self.worst_loss = worst_loss  # what no training should end above
        self.refused = 0
        self._loss, self._loss_pairs = 0.0, 0
        self._carried = carried
        self._before: tuple[Floats, Floats, Doubles] | None = None

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Train on the sentences from `first` on."""
        if first == 0:
            self._loss, self._loss_pairs = 0.0, 0
            if self.rates.first > CAREFUL:
                tables = self.state.model.tables
                self._before = tables.input.copy(), tables.output.copy(), self._carried.copy()
        eta_begin, eta_end = self.rates.ends(n_pass)
        progress = self.trainer.run(
            epoch=self.first_pass + n_pass,
            eta=eta_begin,
            eta_u=self.rates.of_normalizers,
            first=first,
            last=self.n_visits,
            eta_end=eta_end,
            seconds=seconds,
        )
        self.state.n_words += progress.tokens
        self.state.n_pairs += progress.pairs
        self._loss += progress.loss
        self._loss_pairs += progress.loss_pairs
        self.refused += progress.refused
        return progress.visits, progress.tokens

    def describe(self, last: int) -> str:
        """Return the objective and its mean so far."""
        return f"{self.state.objective}, loss {self._loss / max(self._loss_pairs, 1):.4f}"

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a pass; a corpus without pairs is an error."""
        if self.state.n_pairs == 0:
            raise ValueError(NO_PAIRS)
        self.state.ends.append(self.state.seconds)
        done = self._goes_back(n_pass)
        return (self._loss / self._loss_pairs if self._loss_pairs else np.nan), done

    def _goes_back(self, n_pass: int) -> bool:
        """Whether vectors are beyond all use after a pass; then they are those before it, where these were kept."""
        tables = self.state.model.tables
        if all(table.min() >= -MOST and table.max() <= MOST for table in (tables.input, tables.output)):
            return False  # which no table with NaN is
        if self._before is not None:
            tables.input[:], tables.output[:], self._carried[:] = self._before
        self.fault = f"vectors overflowed in pass {n_pass + 1}" + (
            "; they are those before it" if self._before is not None else ""
        )
        return True

    def verdict(self, last_loss: float) -> str | None:
        """Say if steps were refused, or if the model is worse than none."""
        if self.refused:
            return f"{self.refused} steps were too large to take"
        if not last_loss <= self.worst_loss:
            return f"the loss of the last pass is {last_loss:.4g} nats"
        model = self.state.model
        return divergence(model.corpus, model.tables, model.windows.window, model.seed) if self.is_softmax else None

    def arrays(self) -> Arrays:
        """Both tables, and the normalisers that words carry."""
        tables = self.state.model.tables
        return {"input": tables.input, "output": tables.output, "carried": self._carried}

    def numbers(self) -> dict[str, Any]:
        """Sums of the pass and of the state."""
        of_pass = {"loss": self._loss, "loss_pairs": self._loss_pairs, "refused": self.refused}
        return of_pass | _sums(self.state)

    def restore(self, saved: Saved) -> None:
        """Take over both."""
        saved.fill(self.arrays())
        self._loss, self._loss_pairs = saved.numbers["loss"], saved.numbers["loss_pairs"]
        self.refused = saved.numbers["refused"]
        _take_sums(self.state, saved)


def _sums(state: SkipGramState) -> dict[str, Any]:
    return {"n_words": state.n_words, "n_pairs": state.n_pairs, "ends": state.ends}


def _take_sums(state: SkipGramState, saved: Saved) -> None:
    for name in ("n_words", "n_pairs", "ends"):
        setattr(state, name, saved.numbers[name])


class DescentPasses:
    """Passes of descent over both tables, each one visit."""

    n_visits = length = 1
    unit = "passes"
    advice = ADVICE
    fault: str | None = None  # descent finds its own step sizes

    def __init__(self, descent: Descent, n_passes: int, state: SkipGramState) -> None:
        self.descent, self.n_passes, self.state = descent, n_passes, state
        self._value = np.nan

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make a step, or none at all if Ctrl-C comes meanwhile: a step on trial may be a bad one."""
        tables = self.descent.tables
        before = tables.input.copy(), tables.output.copy()
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a step on trial that overflows is taken back
                self._value = self.descent.step()
        except KeyboardInterrupt:
            tables.input[:], tables.output[:] = before
            raise
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

    def arrays(self) -> Arrays:
        """Both tables, and the step size of each row of the first."""
        tables = self.descent.tables
        return {"input": tables.input, "output": tables.output, "input_rates": self.descent.input_rates}

    def numbers(self) -> dict[str, Any]:
        """The step size of the second table, and sums of the state; an index follows from the tables."""
        return {"output_rate": self.descent.output_rate, **_sums(self.state)}

    def restore(self, saved: Saved) -> None:
        """Take over both."""
        saved.fill(self.arrays())
        self.descent.output_rate = saved.numbers["output_rate"]
        _take_sums(self.state, saved)
