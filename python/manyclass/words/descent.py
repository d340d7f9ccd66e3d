"""Gradient descent on the collapsed skip-gram objective F, by exact gradients or by those of words that are found.

`MaskedGradients` is the rule of Yen et al. (ICML 2018, section 5.3): each centre word searches for its best Q words,
and the softmax is over these and its observed contexts. Right after negative sampling the best twentieth of all words
holds little more than a twentieth of the normaliser, so that this is the gradient of another function.

`SampledGradients` leaves no word out, and has no search for each centre. Centres of similar direction are a group,
which searches once, with its mean. For h_x, a sample of the words not found stands for the rest; for v_y, a sample of
the centres that did not find y. The estimate of the softmax's sum is unbiased; the gradient divides by that sum, and so
has a bias which falls with the number of words drawn (in h, a quarter of the gradient for 10 of 200 words). All are
dense products of few rows: 2 Q / K of the scores of all pairs, as fast as those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import joined
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import Collapsed, RowGroups, Tables, row_products
from manyclass.words.objectives import Index

SMALLEST_STEP = 1e-6  # a step that must be shorter still to go down has arrived


class ExactGradients:
    """Gradients of F over all pairs of words; and what a step is held to.

    Gradients by search override what they estimate.
    """

    def __init__(self, collapsed: Collapsed, n_threads: int = 1) -> None:
        self.collapsed, self.n_threads = collapsed, n_threads
        self.groups = RowGroups.of_all(np.flatnonzero(collapsed.centres))
        # Products of the counts with the table that stays while the other one moves.
        self.target: Floats = np.zeros((0, 0), dtype=np.float32)
        self.observed: Floats = self.target

    def follow(self, tables: Tables) -> None:
        """Take over the tables as they are at the beginning of a step; here nothing depends on them."""

    def target_of(self, tables: Tables) -> Floats:
        """sum_y q_{y|x} v_y of each centre word."""
        found: Floats = self.collapsed.contexts @ tables.output
        return found

    def observed_of(self, tables: Tables) -> Floats:
        """sum_x q_x q_{y|x} h_x of each context word."""
        weighted = (tables.input * self.collapsed.centres[:, np.newaxis]).astype(np.float32)
        found: Floats = self.collapsed.contexts.T @ weighted
        return found

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """The loss of each centre word and its gradient in h_x: that of F divided by q_x."""
        self.target = self.target_of(tables)
        gradient = -self.target
        log_z = self.groups.softmax(tables, self.n_threads, input_gradient=gradient)
        return log_z - row_products(tables.input, self.target), gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """F, and its gradient in each v_y divided by y's share of the contexts."""
        self.observed = self.observed_of(tables)
        total = -self.observed.astype(np.float64)
        weights = self.collapsed.centres
        log_z = self.groups.softmax(tables, self.n_threads, weights=weights, output_gradient=total)
        self.add_rest(tables, total)
        return self.value_of(log_z, tables), self.collapsed.per_context(total)

    def add_rest(self, tables: Tables, total: Doubles) -> None:
        """Add to the gradient in the output table what the groups leave out; here nothing is."""

    def losses(self, tables: Tables) -> Doubles:
        """What a step of each h_x must lower: the loss of x, the output table being that of `input_gradient`."""
        return self.groups.softmax(tables, self.n_threads) - row_products(tables.input, self.target)

    def value_of(self, log_z: Doubles, tables: Tables) -> float:
        """F after a move of the output table, the input table being that of `output_gradient`."""
        return float(self.collapsed.centres @ log_z - row_products(self.observed, tables.output).sum())

    def value(self, tables: Tables) -> float:
        """F, as `value_of` says."""
        return self.value_of(self.groups.softmax(tables, self.n_threads), tables)

    def values(self, tables: Tables) -> Doubles:
        """What a step of the output table must lower, all of them: F."""
        return np.array([self.value(tables)])

    def before_input_step(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Return `losses` and the gradient in the input table, the former at no cost where the latter knows them."""
        return self.input_gradient(tables)

    def before_output_step(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Return `values` and the gradient in the output table."""
        value, gradient = self.output_gradient(tables)
        return np.array([value]), gradient


class Descent:
    """Gradient descent on F in the input and the output table by turns.

    Each row's gradient is divided by its word's share of the pairs, so that rare words move as fast as frequent ones:
    for h_x that leaves the gradient of x's own loss, which depends on no other row, so that each has its own step size.
    A step that does not go down is taken back and halved, of h_x until the next pass, of all v_y at once; one that does
    makes the next longer by a tenth.
    """

    def __init__(self, gradients: ExactGradients, tables: Tables, learning_rate: float) -> None:
        self.gradients = gradients
        self.tables = tables
        self.input_rates = np.full(len(tables.input), learning_rate)
        self.output_rate = learning_rate

    def step(self) -> float:
        """Move both tables; return F after it, or an estimate where gradients are estimated."""
        self.gradients.follow(self.tables)
        self._move_input(*self.gradients.before_input_step(self.tables))
        return float(self._move_output(*self.gradients.before_output_step(self.tables))[-1])

    def _move_input(self, losses: Doubles, gradient: Floats) -> None:
        table = self.tables.input
        before = table.copy()
        np.subtract(before, self.input_rates[:, np.newaxis].astype(np.float32) * gradient, out=table)
        failed = ~(self.gradients.losses(self.tables) < losses)
        table[failed] = before[failed]
        self.input_rates *= np.where(failed, 0.5, 1.1)

    def _move_output(self, values: Doubles, gradient: Floats) -> Doubles:
        table = self.tables.output
        before = table.copy()
        while self.output_rate > SMALLEST_STEP:
            np.subtract(before, np.float32(self.output_rate) * gradient, out=table)
            after = self.gradients.values(self.tables)
            if (after < values).all():
                self.output_rate *= 1.1
                return after
            self.output_rate /= 2
        table[:] = before
        return values


# Gradients by searches for the words that matter in the softmax


# What a masked search in blocks does with its finds (`DecomposedIndex.loss_and_gradient`). "decomposed": whatever the
# blocks find has its exact score, as in the last line of Algorithm 1; no tolerance, which as a share of the normaliser
# of the words found may be much of their gradient. "messages": after Algorithm 2 of Yen et al. 2018, one round of steps
# 2 / (t + 2), for words with a gradient above their tau_2. Three things differ from the printed algorithm: labels are
# always active, an active class has exact scores in all blocks, and a class whose score no block found, which the paper
# takes for 0, never becomes active.
UNION: dict[str, Any] = {"tolerance": 0.0, "answer": "active"}
MESSAGES: dict[str, Any] = {"n_iter": 1, "step": "frank_wolfe", "tolerance": 1e-3, "answer": "blocks"}
SHARE = 20  # a search finds one in twenty words (Yen et al. 2018, section 5.3)
N_BLOCKS = 4
BLOCK_FLOATS = 1 << 23  # of scores at a time: 32 MB

# Centres that share a search: a dense product is fast with as many, and their best words are much the same.
GROUP = 64
# Centres on which a step of the output table is tried: before and after are of the same ones, so that their difference
# is known far better than either.
TRIED = 256


def default_budget(n_words: int) -> int:
    """Return Q = K / 20, rounded up."""
    return -(-n_words // SHARE)


def index_for(search: str | Index, *, seed: int, n_jobs: int | None) -> Index:
    """Return a new index for the name of a search, or a copy of a template, which keeps its own seed and threads."""
    made: Index
    if isinstance(search, str):
        made = SphericalClusterIndex(recluster="never") if search == "mips" else DecomposedIndex(N_BLOCKS)
    else:
        made = type(search)(**search.get_params())
    own = {"random_state": seed % 2**32, "n_jobs": n_jobs}
    made.set_params(**{name: value for name, value in own.items() if getattr(made, name) is None})
    return made


def _follow(index: Index, table: Floats) -> None:
    """Fit an index to a table, or take over the rows as they are now."""
    rows = np.ascontiguousarray(table)
    if hasattr(index, "n_rows_"):
        index.update(np.arange(len(rows)), rows)
    else:
        index.fit(rows)


class MaskedGradients(ExactGradients):
    """Each centre's best Q words and its contexts, the others left out.

    F is then that of the words found. Of a DecomposedIndex these are what all its blocks find, with exact scores and
    one loss; or, with `messages`, the paper's mean over the blocks, which counts words that are high in one block by
    chance (bench/decisions.md), joined by Algorithm 2. A step must lower the exact losses.
    """

    def __init__(
        self,
        collapsed: Collapsed,
        index: Index,
        budget: int,
        dim: int,
        *,
        messages: bool = False,
        n_threads: int = 1,
    ) -> None:
        super().__init__(collapsed, n_threads)
        self.index, self.budget, self.dim = index, budget, dim
        self.messages = messages
        contexts = collapsed.contexts
        self.n_contexts = np.diff(contexts.indptr).astype(np.float32)
        # An index counts each label once: its gradient is |P| p - 1_P, and ours p - q = that / |P| + 1_P / |P| - q.
        shift = np.repeat(1 / np.maximum(self.n_contexts, 1), np.diff(contexts.indptr)) - contexts.data
        self.shift: sp.csr_array = sp.csr_array(
            (shift.astype(np.float32), contexts.indices, contexts.indptr), shape=contexts.shape
        )

    def follow(self, tables: Tables) -> None:
        """Let the index follow the output table."""
        _follow(self.index, tables.output[:, : self.dim])

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """The loss of each centre by the words found, and its gradient in h_x."""
        gradient = np.zeros_like(tables.input)
        losses = np.zeros(len(gradient))
        for rows, of_found, found in self.found(tables):
            shift = self.shift[rows] @ tables.output
            gradient[rows] = found @ tables.output + shift
            losses[rows] = of_found + row_products(tables.input[rows], shift)
        return losses, gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """F of the words found, and its gradient in each v_y divided by y's share of the contexts."""
        total = np.zeros(tables.output.shape)
        value = 0.0
        for rows, losses, found in self.found(tables):
            h, q = tables.input[rows], self.collapsed.centres[rows]
            shift = self.shift[rows]
            weighted = (h * q[:, np.newaxis]).astype(np.float32)
            total += found.T @ weighted + shift.T @ weighted
            value += float(q @ (losses + row_products(h, shift @ tables.output)))
        return value, self.collapsed.per_context(total)

    def before_input_step(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Return the exact losses, since no step could come below those of the words found, and the gradient."""
        _, gradient = self.input_gradient(tables)
        self.target = self.target_of(tables)
        return self.losses(tables), gradient

    def before_output_step(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Return the exact F, and the gradient."""
        _, gradient = self.output_gradient(tables)
        self.observed = self.observed_of(tables)
        return self.values(tables), gradient

    def found(self, tables: Tables) -> Iterator[tuple[NDArray[np.intp], Doubles, sp.csr_array]]:
        """Blocks of centres with the losses and gradients in z of their contexts, weighted alike."""
        centres = np.flatnonzero(self.collapsed.centres)
        n_searches = self.index.n_blocks if isinstance(self.index, DecomposedIndex) else 1
        widest = self.budget * n_searches + int(self.n_contexts.max())
        step = max(1, BLOCK_FLOATS // widest)
        for first in range(0, len(centres), step):
            rows = centres[first : first + step]
            queries = np.ascontiguousarray(tables.input[rows, : self.dim])
            losses, found = self._of_found(queries, self.collapsed.contexts[rows])
            scale = 1 / self.n_contexts[rows]
            found.data *= np.repeat(scale, np.diff(found.indptr))
            yield rows, losses * scale, found

    def _of_found(self, queries: Floats, contexts: sp.csr_array) -> tuple[Doubles, sp.csr_array]:
        budget, loss = self.budget, "cross_entropy"
        if isinstance(self.index, DecomposedIndex):
            joined = MESSAGES if self.messages else UNION
            return self.index.loss_and_gradient(queries, contexts, loss, budget=budget, **joined)
        return self.index.loss_and_gradient(queries, contexts, loss, budget=budget, tolerance=UNION["tolerance"])


class SampledGradients(ExactGradients):
    """Q words that a search finds for each group of centres, and samples that stand for the rest.

    A group's sample of words is a part of a random order of all, the next group's the next part, and so on around. The
    gradient in v_y is not that of these: few groups draw y, and p(y | x) of words that are not found is much the same
    for all x, so that it is estimated from some drawn centres with all their scores. A step of h_x must lower the
    estimate of x's loss, and one of the output table that of F and the exact losses of drawn centre words.
    """

    def __init__(
        self, collapsed: Collapsed, index: Index, budget: int, dim: int, seed: int, *, n_threads: int = 1
    ) -> None:
        super().__init__(collapsed, n_threads)
        self.index, self.budget, self.dim = index, budget, dim
        self.rng = np.random.default_rng(seed)
        self.centres = np.flatnonzero(collapsed.centres)
        self.grouping = SphericalClusterIndex(
            max(1, len(self.centres) // GROUP), n_probe=1, recluster="never", random_state=seed % 2**32
        ).set_params(n_jobs=index.n_jobs)
        self.tried = self.centres, collapsed.centres[self.centres]
        if len(self.centres) > TRIED:
            drawn = np.random.default_rng(seed).choice(self.centres, TRIED, p=self.tried[1])
            rows, times = np.unique(drawn, return_counts=True)
            self.tried = rows, times / TRIED
        self.group_of = np.zeros(len(collapsed.centres), dtype=np.intp)  # of each centre
        self.heads: list[NDArray[Any]] = []  # the words found for each group

    def follow(self, tables: Tables) -> None:
        """Let both indexes follow their tables, and draw."""
        _follow(self.index, tables.output[:, : self.dim])
        _follow(self.grouping, tables.input[self.centres, : self.dim])
        self.draw(tables)

    def draw(self, tables: Tables) -> None:
        """Search and draw words for each group; what follows is about these until the next time."""
        rows, row_starts, means = _core.group_rows(
            table=tables.input,
            width=self.dim,
            rows=self.centres.astype(np.int32),
            clusters=self.grouping.labels_.astype(np.int32),
            most=GROUP,
        )
        _, found = self.index.query(means, self.budget)
        lists = _core.group_lists(found.astype(np.int32), self.rng.permutation(len(tables.output)).astype(np.int32))
        self.heads = [lists["list"][at : at + n] for at, n in zip(lists["list_starts"], lists["n_found"], strict=False)]
        self.group_of[rows] = np.repeat(np.arange(len(self.heads)), np.diff(row_starts))
        self.groups = RowGroups(rows, row_starts, lists)

    def before_output_step(self, tables: Tables) -> tuple[Doubles, Floats]:
        """Draw anew; return `values` and the estimate of the gradient."""
        self.draw(tables)
        value, gradient = self.output_gradient(tables)
        return np.append(self._exact(tables), value), gradient

    def values(self, tables: Tables) -> Doubles:
        """The exact loss of the centre words on which steps are tried, and the estimate of F."""
        return np.append(self._exact(tables), self.value(tables))

    def _exact(self, tables: Tables) -> float:
        rows, weights = self.tried
        return float(weights @ self.collapsed.losses(tables, rows, self.n_threads))

    def add_rest(self, tables: Tables, total: Doubles) -> None:
        """Add q_x p(y | x) h_x for each y that was not found for x: all such y of a sample of the centres."""
        q = self.collapsed.centres[self.centres]
        n_drawn = max(1, len(self.centres) * self.budget // len(tables.output))
        drawn, times = np.unique(self.rng.choice(self.centres, n_drawn, p=q / q.sum()), return_counts=True)
        weights = np.zeros(len(tables.input))
        weights[drawn] = times / n_drawn
        starts, found = joined([self.heads[group] for group in self.group_of[drawn]])
        RowGroups.of_all(drawn).softmax(
            tables, self.n_threads, weights=weights, output_gradient=total, left_out_starts=starts, left_out=found
        )
