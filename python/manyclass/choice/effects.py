"""How probabilities move with a feature: of any fitted choice model, by differences of what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from manyclass.choice.sets import ChoiceSets
from manyclass.weights.arrays import Doubles

FARTHEST = 745.0  # that the logarithm of a probability moves before it is that of 0
STEP = 1e-4  # of utilities: the third derivative leaves some 1e-9 in relation to the first


class ChoiceAnswers(Protocol):
    """Rows of choosers under a fitted model."""

    def utilities(self, theta: Doubles) -> Doubles:
        """Return utilities, (n_rows, n_alternatives)."""

    def probabilities(self, theta: Doubles) -> Doubles:
        """Return probabilities, (n_rows, n_alternatives)."""


Answer = Callable[[ChoiceSets], ChoiceAnswers]


def marginal_effects(
    answer: Answer,
    theta: Doubles,
    sets: ChoiceSets,
    kind: str,
    column: int,
    alternative: int,
) -> Doubles:
    """Return the derivatives of all probabilities by a feature, by central differences.

    Parameters
    ----------
    answer : callable, which returns what the model answers of choice sets
    theta : ndarray of float64, the coefficients
    sets : ChoiceSets without a function of pairs
    kind : {"chooser", "alternative", "pair"}
    column : int
    alternative : int
        Position of the alternative whose feature moves; -1: it moves of all, or of the chooser.

    Returns
    -------
    ndarray of shape (n_rows, n_alternatives), float64
    """
    utilities, step = answer(sets).utilities(theta), 1.0
    finite = np.isfinite(utilities)
    for _ in range(2):  # those of a mixture are not linear
        moved = answer(move_feature(sets, kind, column, alternative, step)).utilities(theta)
        moves = np.nan_to_num(np.abs(moved[finite] - utilities[finite]), posinf=FARTHEST)
        steepest = float(np.max(moves, initial=0)) / step
        if steepest == 0:
            return np.zeros(utilities.shape)
        step = STEP / steepest
    above, below = (
        answer(move_feature(sets, kind, column, alternative, move)).probabilities(theta) for move in (step, -step)
    )
    return np.asarray((above - below) / (2 * step))


def elasticity_sums(
    answer: Answer,
    theta: Doubles,
    sets: ChoiceSets,
    kind: str,
    column: int,
    alternative: int,
) -> tuple[Doubles, Doubles]:
    """Return sums over rows of derivatives times the feature's value, and of probabilities, by alternative.

    Parameters are those of `marginal_effects`; a pair that is not listed has a feature of 0.
    """
    if kind == "pair":
        lists, values = sets.lists, np.zeros(sets.n_rows)
        entries = np.flatnonzero(lists.alternatives == alternative)
        values[lists.rows[entries]] = lists.features[entries, column]
    else:
        values = np.full(sets.n_rows, sets.Z[[alternative], [column]].item())
    effects = marginal_effects(answer, theta, sets, kind, column, alternative)
    return (sets.weights * values) @ effects, sets.weights @ answer(sets).probabilities(theta)


def move_feature(sets: ChoiceSets, kind: str, column: int, alternative: int, step: float) -> ChoiceSets:
    """Return the data with a feature that moved by a step, for one alternative, or for all with -1."""
    sets = replace(sets, source=None)
    if kind == "chooser":
        return sets.changed(**{sets.chooser_names[column]: lambda values: values + step})
    if kind == "alternative":
        moves = (np.arange(sets.n_alternatives) == alternative) | (alternative < 0)
        return sets.changed(**{sets.alternative_names[column]: lambda values: values + step * moves})
    sets = replace(sets, lists=sets.lists.filled(sets.n_alternatives))
    moves = (sets.lists.alternatives == alternative) | (alternative < 0)
    return sets.changed(**{sets.pair_names[column]: lambda values: values + step * moves})
