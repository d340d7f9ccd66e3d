"""Twins of select/: which wrong classes a step sees, and with what weights.

Each entry of SELECTIONS is draw(rng, choice, label, head) -> Drawn with E sum alpha_k g(k) = sum over k != label of
g(k); alpha = 0 for a label that stands in its own block. With choice.with_label the sum is over all k. `label` may be
several labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = int | Sequence[int]


@dataclass(frozen=True)
class Choice:
    """What the draws of all points share."""

    n_classes: int
    n_negatives: int
    with_label: bool = False  # the label is drawn like any other class
    counts: Sequence[int] = ()  # points of each class, for selections by frequency
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
        return self.q_of(1)

    def q_of(self, width: int) -> Floats:
        """Probabilities of runs of `width` classes, each with the weight of all of them."""
        weights = np.asarray(self.counts, dtype=float) ** self.power
        sums = np.add.reduceat(weights, np.arange(0, self.n_classes, width))
        q: Floats = sums / sums.sum()
        return q


def alias_table(q: Floats) -> tuple[list[float], list[int]]:
    """(accept, alias): item k, drawn evenly, stands with probability accept_k, else for alias_k (Vose 1991)."""
    accept = [float(p * len(q)) for p in q]
    alias = list(range(len(q)))
    small = [k for k in range(len(q)) if accept[k] < 1]
    large = [k for k in range(len(q)) if accept[k] >= 1]
    while small and large:
        poor, rich = small.pop(), large[-1]
        alias[poor] = rich
        accept[rich] -= 1 - accept[poor]
        if accept[rich] < 1:
            small.append(large.pop())
    for k in small + large:
        accept[k] = 1.0
    return accept, alias


def draw_by(rng: Any, q: Floats, n: int) -> tuple[NDArray[np.int64], Floats]:
    """(distinct items, how often each) of n draws with replacement by q."""
    accept, alias = alias_table(q)
    draws = []
    for _ in range(n):
        k = rng.below(len(q))
        draws.append(k if rng.chance(accept[k]) else alias[k])
    items, times = np.unique(draws, return_counts=True)
    return items, times.astype(float)


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


def _weight_of(label: Labels, expected: Floats) -> float:
    """One over how often a point's label is drawn; only a point with one label is asked for it."""
    labels = np.ravel(label)
    return float(1 / expected[int(labels[0])]) if len(labels) == 1 else np.nan


def all_classes(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """Every class."""
    classes = np.arange(choice.n_classes)
    return Drawn(classes, np.where(np.isin(classes, label) & (not choice.with_label), 0.0, 1.0), 1.0)


def block(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """One of the blocks of neighbouring classes; each wrong class is in one of them."""
    n_blocks = len(choice.blocks)
    classes = np.array(choice.blocks[rng.below(n_blocks)])
    return Drawn(
        classes, np.where(np.isin(classes, label) & (not choice.with_label), 0.0, float(n_blocks)), float(n_blocks)
    )


def uniform(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """Distinct classes by Floyd's algorithm, numbered without the labels unless they are drawn too."""
    out = set() if choice.with_label else set(np.ravel(label).tolist())
    candidates = [k for k in range(choice.n_classes) if k not in out]
    n, m = len(candidates), min(choice.size, len(candidates))
    chosen: set[int] = set()
    for j in range(n - m, n):
        k = rng.below(j + 1)
        chosen.add(j if k in chosen else k)
    classes = np.array([candidates[k] for k in sorted(chosen)], dtype=np.int64)
    return Drawn(classes, np.full(m, n / max(m, 1)), choice.n_candidates / choice.size)


def frequency(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """m draws with replacement by q; repeats are one class, drawn several times."""
    classes, times = draw_by(rng, choice.q, choice.m)
    alpha = times / (choice.m * choice.q[classes])
    if not choice.with_label:
        alpha[np.isin(classes, label)] = 0
    return Drawn(classes, alpha, _weight_of(label, choice.m * choice.q), times)


LINE = 16  # classes of a cache line


def frequency_block(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """m / 16 draws with replacement of a line of 16 classes, by the sum of its classes' weights."""
    q, n = choice.q_of(LINE), n_lines(choice)
    lines, times = draw_by(rng, q, n)
    classes = np.concatenate([np.arange(LINE * r, min(LINE * (r + 1), choice.n_classes)) for r in lines])
    times = times[np.searchsorted(lines, classes // LINE)]
    alpha = times / (n * q[classes // LINE])
    if not choice.with_label:
        alpha[np.isin(classes, label)] = 0
    return Drawn(classes, alpha, _weight_of(label, n * np.repeat(q, LINE)), times)


def n_lines(choice: Choice) -> int:
    """How many lines are drawn for m classes."""
    return -(-choice.m // LINE)


def head_tail(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """A block, and the head's classes (-1: none) with weight 1, in the block or after it."""
    tail = block(rng, choice, label)
    alpha = dict(zip(tail.classes.tolist(), tail.alpha.tolist(), strict=True))
    for k in head:
        if k >= 0 and not np.isin(k, label):
            alpha[int(k)] = 1.0
    return Drawn(np.array(list(alpha)), np.array(list(alpha.values())), tail.label_alpha, n_random=len(tail.classes))


SELECTIONS: dict[str, Callable[..., Drawn]] = {
    "block": block,
    "uniform": uniform,
    "all": all_classes,
    "frequency": frequency,
    "frequency_block": frequency_block,
    "head_tail": head_tail,
}

# Probability that the random part of a draw holds class k, for a point with another label.
INCLUSION: dict[str, Callable[[Choice], Floats]] = {
    "block": lambda c: np.full(c.n_classes, 1 / len(c.blocks)),
    "uniform": lambda c: np.full(c.n_classes, c.size / c.n_candidates),
    "all": lambda c: np.ones(c.n_classes),
    "frequency": lambda c: 1 - (1 - c.q) ** c.m,
    "frequency_block": lambda c: np.repeat(1 - (1 - c.q_of(LINE)) ** n_lines(c), LINE)[: c.n_classes],
    "head_tail": lambda c: np.full(c.n_classes, 1 / len(c.blocks)),
}
