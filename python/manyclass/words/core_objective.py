"""What an objective of `SkipGram` is: facts of its kind, and how the core trains it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from sklearn.base import BaseEstimator

from manyclass.checks import set_named

POWER = 0.75  # of word2vec: words are drawn with probability proportional to their count to this power


@dataclass(frozen=True)
class CoreObjective:
    """An objective as the core's trainer takes it; `options` are the numbers that its solver owns.

    `carries_normalizers` says whether log Z_x is a number carried for each word.
    """

    solver: str
    power: float = POWER
    share: bool = False
    options: Mapping[str, float] = field(default_factory=dict)
    u_learning_rate: float = 1.0
    carries_normalizers: bool = False


class Objective(BaseEstimator):
    """An objective: its parameters, and facts of its kind.

    Attributes
    ----------
    name : str
        The string that stands for it.
    draws : bool
        Whether it tells each context word from `n_negatives` drawn words.
    warms_up : bool
        Whether passes of negative sampling come before its own.
    has_tree : bool
        Whether the context vectors are those of the inner nodes of a tree.
    is_softmax : bool
        Whether it is the loss of a softmax of the scores as they are, so that its exact value tells how training went.
    """

    name: ClassVar[str]
    draws: ClassVar[bool] = True
    warms_up: ClassVar[bool] = True
    has_tree: ClassVar[bool] = False
    is_softmax: ClassVar[bool] = False

    set_params = set_named

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""

    @property
    def default_learning_rate(self) -> float:
        """The step size at the beginning that "auto" means."""
        return 0.025

    @property
    def warm_up(self) -> CoreObjective:
        """What the core trains before it: negative sampling."""
        return CoreObjective("negative_sampling")


class StepObjective(Objective, ABC):
    """An objective that the core trains by a step for each pair."""

    @property
    @abstractmethod
    def core(self) -> CoreObjective:
        """What the core trains."""

    @property
    def warm_up(self) -> CoreObjective:
        """What the core trains before it: negative sampling with the same distribution of drawn words."""
        return CoreObjective("negative_sampling", power=self.core.power)
