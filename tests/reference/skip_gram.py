"""Twin of train/skip_gram and model/cooccurrence: word after word, pair after pair, in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from reference.rng import Rng
from reference.selections import SELECTIONS, Choice, alias_table
from reference.steps import STEPS, WITH_LABEL, Point

Floats = NDArray[np.float64]


@dataclass
class Text:
    """Sentences of word numbers and how they are read."""

    sentences: list[list[int]]
    keep: Floats
    window: int
    shrink: bool

    def kept(self, s: int, rng: Rng) -> list[int]:
        """What sub-sampling leaves of a sentence."""
        return [word for word in self.sentences[s] if rng.chance(self.keep[word])]

    def counted_pairs(self, seed: int) -> Iterator[tuple[int, int, float]]:
        """(x, y, weight) of the corpus, one by one, with the probability that the window reaches so far."""
        for s in range(len(self.sentences)):
            words = self.kept(s, Rng(seed, 0, s))
            for i, x in enumerate(words):
                for j, y in enumerate(words):
                    if 0 < abs(i - j) <= self.window:
                        yield x, y, (self.window + 1 - abs(i - j)) / self.window if self.shrink else 1.0


@dataclass
class Training:
    """Two tables and what moves them."""

    text: Text
    input: Floats
    output: Floats
    counts: NDArray[np.int64]
    solver: str
    n_negatives: int
    share: bool = False
    tree: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]] | None = None
    carried: Floats = field(default_factory=lambda: np.zeros(0))
    eta_u: float = 0.1
    delta: float = 1.0
    u_gain: float = 0.01
    seed: int = 0
    n_refused: int = 0

    def run(self, n_pass: int, eta_begin: float, eta_end: float) -> int:
        """A pass; how many pairs it had."""
        n_tokens = sum(map(len, self.text.sentences))
        before = n_pairs = 0
        for s, sentence in enumerate(self.text.sentences):
            rng = Rng(self.seed, n_pass, s)
            words = self.text.kept(s, rng)
            eta = eta_begin + before / n_tokens * (eta_end - eta_begin)
            for i, x in enumerate(words):
                reach = 1 + rng.below(self.text.window) if self.text.shrink else self.text.window
                shared: list[int] = []
                for j in range(max(0, i - reach), min(len(words), i + reach + 1)):
                    if j != i:
                        self.pair(x, words[j], eta, rng, shared)
                        n_pairs += 1
            before += len(sentence)
        return n_pairs

    def pair(self, x: int, y: int, eta: float, rng: Rng, shared: list[int]) -> None:
        """The step of one pair."""
        if self.solver == "hierarchical":
            assert self.tree is not None
            path = slice(self.tree[0][y], self.tree[0][y + 1])
            self.move(x, [(n, eta * s * expit(-s * self.score(x, n))) for n, s in zip(*self._at(path), strict=True)])
        elif self.solver == "negative_sampling":
            if not shared:
                shared += [self.noise(rng) for _ in range(self.n_negatives)]
            drawn = [k for k in shared if k != y]
            wrong = [(k, -eta * expit(self.score(x, k))) for k in drawn]
            self.move(x, [(y, eta * expit(-self.score(x, y))), *wrong])
            if not self.share:
                shared.clear()
        else:
            self.sampled(x, y, eta, Rng(rng.next(), 0, 0))

    def _at(self, path: slice) -> tuple[list[int], list[float]]:
        assert self.tree is not None
        return self.tree[1][path].tolist(), self.tree[2][path].tolist()

    def sampled(self, x: int, y: int, eta: float, rng: Rng) -> None:
        """The step of an objective of a sampled point."""
        counts = self.counts.tolist()
        choice = Choice(len(counts), self.n_negatives, self.solver in WITH_LABEL, counts)
        drawn = SELECTIONS["frequency"](rng, choice, y, [])
        classes = [int(k) for k in drawn.classes]
        h = self.input[x]
        point = Point(
            scores=self.output[classes] @ h,
            alpha=np.asarray(drawn.alpha, dtype=float),
            label_score=self.score(x, y),
            x_sq=float(h @ h),
            eta=eta,
            eta_u=self.eta_u,
            carried=float(self.carried[x]),
            carry=1.0,
            delta=self.delta,
            gain=self.u_gain,
            label_alpha=1 / (self.n_negatives * choice.q[y]),
            times=np.asarray(drawn.times, dtype=float),
        )
        p, label, self.carried[x], _ = STEPS[self.solver](point)
        self.move(x, [(y, label), *((k, -p_k) for k, p_k in zip(classes, p, strict=True))])

    def score(self, x: int, row: int) -> float:
        """<h_x, v>."""
        return float(self.input[x] @ self.output[row])

    def move(self, x: int, moves: list[tuple[int, float]]) -> None:
        """v_t += g_t h, h += sum g_t v_t."""
        h = self.input[x].copy()
        for row, g in moves:
            self.input[x] += g * self.output[row]
            self.output[row] += g * h

    def noise(self, rng: Rng) -> int:
        """A word of noise from one 64-bit word."""
        q = self.counts.astype(float) ** 0.75
        accept, alias = alias_table(q / q.sum())
        word = rng.next()
        k = ((word >> 32) * len(accept)) >> 32
        return k if word % 2**32 <= int(accept[k] * (2**32 - 1)) else alias[k]


def corpus_objective(text: Text, h: Floats, v: Floats, seed: int) -> float:
    """Mean of -log p(y | x) over the pairs of the corpus, one by one."""
    total = weight = 0.0
    for x, y, w in text.counted_pairs(seed):
        z = v @ h[x]
        total += w * (logsumexp(z) - z[y])
        weight += w
    return float(total / weight)
