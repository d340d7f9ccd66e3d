"""Descent on the collapsed skip-gram objective by the words that a search finds and samples of the others.

Unlike masked_descent.py it has no bias, and no search for each centre. Centres of similar direction are a group, which
searches once, with its mean. For h_x, a sample of the words not found stands for the rest; for v_y, a sample of the
centres that did not find y. All are dense products of few rows: 2 Q / K of the scores of all pairs, as fast as those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import (
    BLOCK_FLOATS,
    Collapsed,
    Descent,
    Tables,
    blocks,
    exponentiate,
    normalised,
    row_products,
)
from manyclass.words.objectives import Index
from manyclass.words.searches import FollowingIndex

# Centres, the words found and drawn for them, and the logs of how many words each of these stands for.
Group = tuple[NDArray[np.intp], NDArray[np.int32], Floats]

# Centres that share a search: a dense product is fast with as many, and their best words are much the same.
GROUP = 64
# Centres on which a step is tried: before and after are of the same ones, so that their difference is known far better
# than either.
TRIED = 256


class SampledGradients:
    """Q words that a search finds for each group of centres, and samples that stand for the rest.

    A group's sample of words is a part of a random order of all, the next group's the next part, and so on around. The
    gradient in v_y is not that of these: few groups draw y, and p(y | x) of words that are not found is much the same
    for all x, so that it is estimated from some drawn centres with all their scores.
    """

    def __init__(self, collapsed: Collapsed, index: Index, budget: int, dim: int, seed: int) -> None:
        self.collapsed = collapsed
        self.index = index
        self.budget = budget
        self.dim = dim
        self.rng = np.random.default_rng(seed)
        self.centres = np.flatnonzero(collapsed.centres)
        self.grouping = SphericalClusterIndex(
            max(1, len(self.centres) // GROUP), n_probe=1, recluster="never", random_state=seed % 2**32
        ).set_params(n_jobs=index.n_jobs)
        self._following = FollowingIndex(index), FollowingIndex(self.grouping)
        self.drawn: list[Group] = []
        # Products of the counts with the table that stays in a sweep.
        self.target: Floats = np.zeros((0, 0), dtype=np.float32)
        self.observed: Floats = self.target

    def moved(self, tables: Tables) -> None:
        """Follow both tables."""
        self._following[0].follow(tables.output[:, : self.dim])
        self._following[1].follow(tables.input[self.centres, : self.dim])

    def draw(self, tables: Tables) -> None:
        """Search and draw words for each group; what follows is about these until the next time."""
        n_words = len(tables.output)
        groups = list(self._groups())
        means = np.array([tables.input[rows, : self.dim].mean(axis=0) for rows in groups])
        _, heads = self.index.query(means, self.budget)
        n_parts = max(1, n_words // self.budget)
        parts = np.array_split(self.rng.permutation(n_words), n_parts)
        is_head = np.zeros(n_words, dtype=bool)
        self.drawn = []
        for j, (rows, found) in enumerate(zip(groups, heads, strict=True)):
            head = found[found >= 0]
            is_head[head] = True
            part = parts[j % n_parts]
            sample = part[~is_head[part]]
            is_head[head] = False
            weights = np.ones(len(head) + len(sample), dtype=np.float32)
            weights[len(head) :] = (n_words - len(head)) / max(len(sample), 1)
            self.drawn.append((rows, np.concatenate([head, sample]).astype(np.int32), np.log(weights)))

    def losses(self, tables: Tables) -> Doubles:
        """Estimates of the loss of each centre, after a move of the input table."""
        losses = -row_products(tables.input, self.target)
        losses[self.collapsed.centres == 0] = 0
        for rows, words, log_weights in self.drawn:
            losses[rows] += exponentiate(tables.input[rows] @ tables.output[words].T + log_weights)
        return losses

    def value(self, tables: Tables) -> float:
        """The estimate of F after a move of the output table."""
        value = -float(row_products(self.observed, tables.output).sum())
        for rows, words, log_weights in self.drawn:
            p = tables.input[rows] @ tables.output[words].T + log_weights
            value += float(self.collapsed.centres[rows] @ exponentiate(p))
        return value

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Estimates of the loss of each centre, and their gradients in h_x."""
        self.target = self.collapsed.contexts @ tables.output
        gradient = -self.target
        losses = -row_products(tables.input, self.target)
        losses[self.collapsed.centres == 0] = 0
        for rows, words, log_weights in self.drawn:
            v = tables.output[words]
            p = tables.input[rows] @ v.T + log_weights
            losses[rows] += exponentiate(p)
            gradient[rows] += normalised(p) @ v
        return losses, gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """An estimate of F, and one of F's gradient in each v_y divided by y's share of the contexts."""
        weighted = (tables.input * self.collapsed.centres[:, np.newaxis]).astype(np.float32)
        self.observed = self.collapsed.contexts.T @ weighted
        # Single precision: float64 would take twice the time of this loop, and a word has some hundred terms.
        total = -self.observed
        value = -float(row_products(self.observed, tables.output).sum())
        for rows, words, log_weights in self.drawn:
            p = tables.input[rows] @ tables.output[words].T + log_weights
            value += float(self.collapsed.centres[rows] @ exponentiate(p))
            found = log_weights == 0
            total[words[found]] += normalised(p)[:, found].T @ weighted[rows]
        self._add_rest(tables, total)
        return value, self.collapsed.per_context(total)

    def _add_rest(self, tables: Tables, total: Floats) -> None:
        """Add q_x p(y | x) h_x for each y that was not found for x: all such y of a sample of the centres."""
        q = self.collapsed.centres[self.centres]
        n_drawn = max(1, len(self.centres) * self.budget // len(tables.output))
        drawn, times = np.unique(self.rng.choice(self.centres, n_drawn, p=q / q.sum()), return_counts=True)
        found_for = {}
        for rows, words, log_weights in self.drawn:
            found_for.update(dict.fromkeys(rows.tolist(), words[log_weights == 0]))
        for part in blocks(len(drawn), len(tables.output)):
            h = tables.input[drawn[part]]
            p = h @ tables.output.T
            exponentiate(p)
            normalised(p)
            for row, x in zip(p, drawn[part].tolist(), strict=True):
                row[found_for[x]] = 0
            total += p.T @ (h * (times[part] / n_drawn).astype(np.float32)[:, np.newaxis])

    def _groups(self) -> Iterator[NDArray[np.intp]]:
        labels = self.grouping.labels_
        order = np.argsort(labels, kind="stable")
        limit = max(1, min(GROUP, BLOCK_FLOATS // (2 * self.budget)))
        for members in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
            for start in range(0, len(members), limit):
                yield self.centres[members[start : start + limit]]


class SampledDescent(Descent):
    """Descent by gradients of words found and drawn.

    A step of h_x must lower the estimate of x's loss, and one of the output table that of F and the exact losses of
    drawn centre words. The indexes are fitted at the first pass and follow the tables before each later one.
    """

    def __init__(self, gradients: SampledGradients, tables: Tables, learning_rate: float, seed: int) -> None:
        super().__init__(gradients.collapsed, tables, learning_rate)
        self.gradients = gradients
        centres = self.collapsed.centres
        rows = np.flatnonzero(centres)
        self.tried = rows, centres[rows]
        if len(rows) > TRIED:
            drawn = np.random.default_rng(seed).choice(rows, TRIED, p=centres[rows])
            rows, times = np.unique(drawn, return_counts=True)
            self.tried = rows, times / TRIED

    def step(self) -> float:
        """Move both tables; an estimate of F after it."""
        self.gradients.moved(self.tables)
        self.gradients.draw(self.tables)
        self._move_input(*self.gradients.input_gradient(self.tables))
        self.gradients.draw(self.tables)
        value, gradient = self.gradients.output_gradient(self.tables)
        values = np.append(self._exact(), value)
        return float(self._move_output(values, gradient)[-1])

    def _losses(self) -> Doubles:
        return self.gradients.losses(self.tables)

    def _values(self) -> Doubles:
        return np.append(self._exact(), self.gradients.value(self.tables))

    def _exact(self) -> Doubles:
        """F, or its mean over the centre words on which steps are tried."""
        rows, weights = self.tried
        return np.array([weights @ self.collapsed.losses(self.tables, rows)])
