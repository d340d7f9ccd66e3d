"""Gradient descent on the collapsed skip-gram objective F, by exact gradients or by those of words that are found."""

from __future__ import annotations

import numpy as np

from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import Collapsed, RowGroups, Tables, row_products

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
