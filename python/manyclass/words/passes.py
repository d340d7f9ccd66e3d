"""Passes of a skip-gram trainer over a corpus: step sizes, progress in words per second, Ctrl-C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from manyclass import _core

SLICE_SECONDS = 0.2  # how long the core runs before Python can show progress or see Ctrl-C
FIRST_SLICE = 256  # sentences
NO_PAIRS = "the corpus has no pair of words within a window: every sentence has one word left"


@dataclass
class SkipGramState:
    """What a callback of `SkipGram.fit` sees after each pass, the passes of the warm-up among them.

    Attributes
    ----------
    objective : str
        What the pass trained: "negative_sampling" during the warm-up.
    n_iter : int
        Passes made, those of the warm-up among them.
    seconds : float
        Time spent in training so far; reading, counting and callbacks excluded.
    n_words : int
        Words of the corpus passed over so far, before sub-sampling.
    n_pairs : int
        Pairs of centre and context trained on so far.
    loss : float
        Mean over the pass of the objective as trained on, by samples, in nats a pair; with "gd", its exact value, or an
        estimate if a search samples.
    ends : list of float
        The seconds after each pass.
    """

    objective: str = ""
    n_iter: int = 0
    seconds: float = 0.0
    n_words: int = 0
    n_pairs: int = 0
    loss: float = np.nan
    ends: list[float] = field(default_factory=list)
    _value: Callable[[int | None], float] | None = field(default=None, repr=False)

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
        assert self._value is not None
        return self._value(sample)


Callback = Callable[[SkipGramState], bool | None]


@dataclass
class Passes:
    """Some passes with one trainer; step sizes fall linearly over all of them."""

    objective: str
    trainer: _core.Trainer
    n_passes: int
    first_pass: int  # by which random draws are named
    learning_rate: float
    last_learning_rate: float
    u_learning_rate: float
    worst_loss: float  # what no training should end above

    def ends(self, n: int) -> tuple[float, float]:
        """The step sizes at the two ends of pass n."""
        fall = (self.learning_rate - self.last_learning_rate) / self.n_passes
        return self.learning_rate - n * fall, self.learning_rate - (n + 1) * fall


def run_passes(
    passes: Passes, n_sentences: int, state: SkipGramState, callback: Callback | None, *, verbose: bool, n_words: int
) -> tuple[list[float], bool]:
    """Make the passes; return the mean loss of each, and whether training is to go on.

    Raises
    ------
    ValueError
        If the corpus has no pair to train on.

    Warns
    -----
    ConvergenceWarning
        If it is interrupted, or if steps had to be refused because they ran away.
    """
    curve: list[float] = []
    go_on = True
    state.objective = passes.objective
    bar = tqdm(total=passes.n_passes * n_words, disable=not verbose, unit="words", unit_scale=True, smoothing=0.05)
    slice_size = FIRST_SLICE
    refused = 0
    try:
        for n in range(passes.n_passes):
            eta_begin, eta_end = passes.ends(n)
            first, loss, loss_pairs = 0, 0.0, 0
            while first < n_sentences:
                last = min(first + slice_size, n_sentences)
                begin = time.perf_counter()
                progress = passes.trainer.run(
                    epoch=passes.first_pass + n,
                    eta=eta_begin,
                    eta_u=passes.u_learning_rate,
                    first=first,
                    last=last,
                    eta_end=eta_end,
                )
                seconds = time.perf_counter() - begin
                state.seconds += seconds
                state.n_words += progress.tokens
                state.n_pairs += progress.pairs
                loss, loss_pairs = loss + progress.loss, loss_pairs + progress.loss_pairs
                refused += progress.refused
                bar.update(progress.tokens)
                bar.set_postfix_str(
                    f"{passes.objective}, pass {n + 1}/{passes.n_passes}, loss {loss / max(loss_pairs, 1):.4f}",
                    refresh=False,
                )
                first = last
                if seconds < SLICE_SECONDS / 2:
                    slice_size *= 2
                elif seconds > 2 * SLICE_SECONDS:
                    slice_size = max(1, slice_size // 2)
            if state.n_pairs == 0:
                raise ValueError(NO_PAIRS)
            state.n_iter += 1
            state.ends.append(state.seconds)
            state.loss = loss / loss_pairs if loss_pairs else np.nan
            curve.append(state.loss)
            if callback is not None and callback(state):
                go_on = False
                break
    except KeyboardInterrupt:
        go_on = False
        warnings.warn("training was interrupted; the vectors are those reached so far", ConvergenceWarning, 4)
    finally:
        bar.close()
    if refused:
        _warn_diverged(f"{refused} steps were too large to take")
    elif curve and not curve[-1] <= passes.worst_loss:
        _warn_diverged(f"the loss of the last pass is {curve[-1]:.4g} nats")
    return curve, go_on


def _warn_diverged(what: str) -> None:
    warnings.warn(
        f"training diverged: {what}. Lower learning_rate, or use solver='implicit', which bears larger steps",
        ConvergenceWarning,
        5,
    )
