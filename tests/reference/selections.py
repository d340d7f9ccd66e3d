"""Twins of select/: which wrong classes a step sees, and with what weights.

Each entry of SELECTIONS is draw(rng, choice, label, head) -> Drawn with E sum alpha_k g(k) = sum over k != label of
g(k); alpha = 0 for a label that stands in its own block. With choice.with_label the sum is over all k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """What the draws of all points share."""

    n_classes: int
    n_negatives: int
    with_label: bool = False  # the label is drawn like any other class
    counts: Sequence[int] = ()  # points of each class, for "frequency"
    power: float = 0.75

    @property
    def m(self) -> int:
        """Classes asked for, at most all."""
        return min(self.n_negatives, self.n_classes)

    @property
    def blocks(self) -> list[range]:
        """Neighbouring classes, m at a time."""
        return [range(a, min(a + self.m, self.n_classes)) for a in range(0, self.n_classes, self.m)]

    @property
    def size(self) -> int:
        """Distinct classes of a uniform draw."""
        return min(self.m, self.n_candidates)

    @property
    def n_candidates(self) -> int:
        """Classes that a uniform draw is from."""
        return self.n_classes - (not self.with_label)

    @cached_property
    def q(self) -> Floats:
        """Probabilities of one draw by frequency."""
        weights = np.asarray(self.counts, dtype=float) ** self.power
        q: Floats = weights / weights.sum()
        return q

    @cached_property
    def table(self) -> tuple[list[float], list[int]]:
        """(accept, alias): class k, drawn evenly, stands with probability accept_k, else for alias_k (Vose 1991)."""
        accept = [float(q * self.n_classes) for q in self.q]
        alias = list(range(self.n_classes))
        small = [k for k in range(self.n_classes) if accept[k] < 1]
        large = [k for k in range(self.n_classes) if accept[k] >= 1]
        while small and large:
            poor, rich = small.pop(), large[-1]
            alias[poor] = rich
            accept[rich] -= 1 - accept[poor]
            if accept[rich] < 1:
                small.append(large.pop())
        for k in small + large:
            accept[k] = 1.0
        return accept, alias


@dataclass
class Drawn:
    """The classes of one visit."""

    classes: NDArray[np.int64]
    alpha: Floats
    label_alpha: float  # the weight that the label has, or would have as a wrong class
    times: Floats = field(default_factory=lambda: np.zeros(0))  # how often each was drawn; empty: once
    n_random: int = -1  # the first so many come from the random part; -1: all

    @property
    def random(self) -> NDArray[np.bool_]:
        """Which classes come from the random part, not from a certain head."""
        return np.arange(len(self.classes)) < (len(self.classes) if self.n_random < 0 else self.n_random)


def all_classes(rng: Any, choice: Choice, label: int, head: Sequence[int] = ()) -> Drawn:
    """Every class."""
    classes = np.arange(choice.n_classes)
    return Drawn(classes, np.where((classes == label) & (not choice.with_label), 0.0, 1.0), 1.0)


def block(rng: Any, choice: Choice, label: int, head: Sequence[int] = ()) -> Drawn:
    """One of the blocks of neighbouring classes; each wrong class is in one of them."""
    n_blocks = len(choice.blocks)
    classes = np.array(choice.blocks[rng.below(n_blocks)])
    return Drawn(classes, np.where((classes == label) & (not choice.with_label), 0.0, float(n_blocks)), float(n_blocks))


def uniform(rng: Any, choice: Choice, label: int, head: Sequence[int] = ()) -> Drawn:
    """Distinct classes by Floyd's algorithm, numbered without the label unless it is drawn too."""
    chosen: set[int] = set()
    for j in range(choice.n_candidates - choice.size, choice.n_candidates):
        k = rng.below(j + 1)
        chosen.add(j if k in chosen else k)
    candidates = [k for k in range(choice.n_classes) if choice.with_label or k != label]
    classes = np.array([candidates[k] for k in sorted(chosen)])
    alpha = choice.n_candidates / choice.size
    return Drawn(classes, np.full(choice.size, alpha), alpha)


def frequency(rng: Any, choice: Choice, label: int, head: Sequence[int] = ()) -> Drawn:
    """m draws with replacement by q; repeats are one class, drawn several times."""
    accept, alias = choice.table
    draws = []
    for _ in range(choice.m):
        k = rng.below(choice.n_classes)
        draws.append(k if rng.chance(accept[k]) else alias[k])
    classes, times = np.unique(draws, return_counts=True)
    alpha = times / (choice.m * choice.q[classes])
    if not choice.with_label:
        alpha[classes == label] = 0
    return Drawn(classes, alpha, float(1 / (choice.m * choice.q[label])), times.astype(float))


def head_tail(rng: Any, choice: Choice, label: int, head: Sequence[int] = ()) -> Drawn:
    """A block, and the head's classes (-1: none) with weight 1, in the block or after it."""
    tail = block(rng, choice, label)
    alpha = dict(zip(tail.classes.tolist(), tail.alpha.tolist(), strict=True))
    for k in head:
        if k >= 0 and k != label:
            alpha[int(k)] = 1.0
    return Drawn(np.array(list(alpha)), np.array(list(alpha.values())), tail.label_alpha, n_random=len(tail.classes))


SELECTIONS: dict[str, Callable[..., Drawn]] = {
    "block": block,
    "uniform": uniform,
    "all": all_classes,
    "frequency": frequency,
    "head_tail": head_tail,
}

# Probability that the random part of a draw holds class k, for a point with another label.
INCLUSION: dict[str, Callable[[Choice], Floats]] = {
    "block": lambda c: np.full(c.n_classes, 1 / len(c.blocks)),
    "uniform": lambda c: np.full(c.n_classes, c.size / c.n_candidates),
    "all": lambda c: np.ones(c.n_classes),
    "frequency": lambda c: 1 - (1 - c.q) ** c.m,
    "head_tail": lambda c: np.full(c.n_classes, 1 / len(c.blocks)),
}
