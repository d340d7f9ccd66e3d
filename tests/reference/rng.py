"""Twin of core/rng.hpp in Python's integers: random words named by (seed, epoch, item)."""

from __future__ import annotations

from typing import Any

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15
VISIT_ORDER = MASK  # items that are not points
CLASS_ORDER = MASK - 1


def mix64(z: int) -> int:
    """Output function of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Rng:
    """SplitMix64 started at a hash of (seed, epoch, item)."""

    def __init__(self, seed: int, epoch: int, item: int) -> None:
        state = mix64((seed + GAMMA) & MASK)
        state = mix64((state + epoch * GAMMA) & MASK)
        self.state = mix64((state + item * GAMMA) & MASK)

    def next(self) -> int:
        """The next 64-bit word."""
        self.state = (self.state + GAMMA) & MASK
        return mix64(self.state)

    def below(self, n: int) -> int:
        """Uniform on {0, ..., n - 1}: the high half of word * n, words that would favour some results rejected."""
        while True:
            product = (self.next() >> 32) * n
            if product % 2**32 >= 2**32 % n:
                return product >> 32

    def chance(self, p: float) -> bool:
        """True with probability p: whether 53 bits as a number in [0, 1) are below it."""
        return (self.next() >> 11) * 2.0**-53 < p


def shuffled(n: int, rng: Rng) -> list[int]:
    """Fisher-Yates from the end."""
    items = list(range(n))
    for i in range(n - 1, 0, -1):
        j = rng.below(i + 1)
        items[i], items[j] = items[j], items[i]
    return items


def class_order(n_classes: int, seed: int) -> list[int]:
    """The class at each position of the order that training uses."""
    return shuffled(n_classes, Rng(seed, 0, CLASS_ORDER))


class Script:
    """Stands in for an Rng and answers from a script, to walk through every outcome of a draw."""

    def __init__(self, path: list[int]) -> None:
        self.path = path
        self.sizes: list[int] = []
        self.probability = 1.0

    def _answer(self, probabilities: list[float]) -> int:
        """The next number of the script, 0 beyond its end."""
        self.sizes.append(len(probabilities))
        if len(self.path) < len(self.sizes):
            self.path.append(0)
        answer = self.path[len(self.sizes) - 1]
        self.probability *= probabilities[answer]
        return answer

    def below(self, n: int) -> int:
        """Each of 0, ..., n - 1 in turn."""
        return self._answer([1 / n] * n)

    def chance(self, p: float) -> bool:
        """True and False in turn; what is certain is no branch."""
        return p >= 1 or bool(self._answer([1 - p, p]))


def every_outcome(draw: Any) -> list[tuple[float, Any]]:
    """(probability, result) of each path through draw(rng), which asks only rng.below and rng.chance."""
    outcomes = []
    path: list[int] = []
    while True:
        script = Script(path)
        result = draw(script)
        outcomes.append((script.probability, result))
        while path and path[-1] == script.sizes[len(path) - 1] - 1:
            path.pop()
        if not path:
            return outcomes
        path[-1] += 1
