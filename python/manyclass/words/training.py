"""Training of a skip-gram model: its plan, a warm-up by negative sampling, then passes of the objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from manyclass.checks import check_choice, check_flag, check_number, checked_random, n_threads_from
from manyclass.parts import resolve_part
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.passes import drive
from manyclass.words.objectives import OBJECTIVES, Descent, Index, NegativeSampling, Objective
from manyclass.words.passes import Callback, DescentPasses, SkipGramState, TextPasses

N_NEGATIVES = 5
LAST_SHARE = 0.004  # of the learning rate at the end: word2vec's 1e-4 of 0.025
SAMPLE_RULES = ("word2vec", "sqrt")
WARM_UP_RATE = 0.025
SHARE = 20  # a search finds one in twenty words (Yen et al. 2018, section 5.3)
N_BLOCKS = 4


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
            raise ValueError(
                f"sample_rule is {parameters['sample_rule']!r}; with sample=0 all words stay by any rule: it must be "
                "'word2vec', or sample more than 0"
            )
        n_threads_from(parameters["n_jobs"])
        checked_random(parameters["random_state"])
        if not isinstance(parameters["verbose"], bool | np.bool_):
            check_number("verbose", parameters["verbose"])
        part = parameters["objective"]
        objective = cast(Objective, resolve_part("objective", part, OBJECTIVES, "manyclass.words.objectives"))
        lack = "" if objective.warms_up else f"{objective.name!r} has no warm-up"
        having = (name for name, kind in OBJECTIVES.items() if kind.warms_up)
        warm_up = _count("warm_up", parameters["warm_up"], int(objective.warms_up), 0, lack, having)
        lack = "" if objective.draws or warm_up else f"{objective.name!r} without a warm-up draws no words"
        having = (name for name, kind in OBJECTIVES.items() if kind.draws)
        n_negatives = _count("n_negatives", parameters["n_negatives"], N_NEGATIVES, 1, lack, having)
        rate = parameters["learning_rate"]
        if rate == "auto":
            rate = objective.first_rate
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


def _count(name: str, value: int | str, default: int, least: int, lack: str, having: Iterable[str]) -> int:
    """Return a number of passes or of words; a ValueError where the objective has a `lack` of what is counted."""
    if value == "auto":
        return default
    check_number(name, value, low=least, integer=True)
    if value and lack:
        allowed, names = "'auto'" if least else "'auto' or 0", ", ".join(map(repr, having))
        raise ValueError(
            f"{name} is {value!r}; objective {lack}: it must be {allowed}, or the objective one of {names}"
        )
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
        return curve + run(_descent(plan, objective, state))[0], text_seconds
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


def _descent(plan: SkipGramPlan, objective: Descent, state: SkipGramState) -> DescentPasses:
    model, search = state.model, objective.search
    n_words, exact = len(model.corpus.words), search == "exact"
    index = None if exact else index_for(search, seed=model.seed, n_jobs=model.n_threads)
    rule = "all" if exact else "mask" if objective.masks else "sample"
    if objective.passes_messages:
        rule = str(search)
    budget = min(default_budget(n_words) if objective.budget == "auto" else int(objective.budget), n_words)
    return DescentPasses(state, plan.max_iter, plan.learning_rate, index, rule=rule, budget=budget)
