"""The plan of a skip-gram training: parameters of `SkipGram` that have been checked, with each "auto" resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from manyclass.checks import check_number
from manyclass.words.objectives import OBJECTIVES, AnyObjective

N_NEGATIVES = 5


@dataclass(frozen=True)
class SkipGramPlan:
    """What `SkipGram` trains; its parameters of the same names say what each field is."""

    objective: AnyObjective
    n_negatives: int
    learning_rate: float
    max_iter: int
    warm_up: int
    n_jobs: int | None
    verbose: bool


def warm_up_passes(warm_up: int | str, objective: AnyObjective) -> int:
    """Return the passes of the warm-up.

    Raises
    ------
    ValueError
        If the objective has none and passes are asked for.
    """
    if warm_up == "auto":
        return int(objective.warms_up)
    check_number("warm_up", warm_up, low=0, integer=True)
    if warm_up and not objective.warms_up:
        raise ValueError(
            f"warm_up is {warm_up!r}; objective {objective.name!r} has no warm-up: it must be 'auto' or 0, or the "
            f"objective one of {_names(lambda kind: kind.warms_up)}"
        )
    return int(warm_up)


def drawn_words(n_negatives: int | str, objective: AnyObjective, warm_up: int) -> int:
    """Return the number of words drawn for each pair, in the warm-up or after it.

    Raises
    ------
    ValueError
        If none are drawn at all and a number is given.
    """
    if n_negatives == "auto":
        return N_NEGATIVES
    check_number("n_negatives", n_negatives, low=1, integer=True)
    if not objective.draws and not warm_up:
        raise ValueError(
            f"n_negatives is {n_negatives!r}; objective {objective.name!r} without a warm-up draws no words: it must "
            f"be 'auto', or the objective one of {_names(lambda kind: kind.draws)}"
        )
    return int(n_negatives)


def _names(wanted: Callable[[type[AnyObjective]], bool]) -> str:
    return ", ".join(repr(name) for name, kind in OBJECTIVES.items() if wanted(kind))
