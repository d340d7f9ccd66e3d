"""Gradient descent on the collapsed skip-gram objective F, by exact gradients or by those of words that are found."""

from __future__ import annotations

import numpy as np

from manyclass.weights.arrays import Doubles, Floats
from manyclass.words.collapsed import Collapsed, Tables, exponentiate, normalised, row_products

SMALLEST_STEP = 1e-6  # a step that must be shorter still to go down has arrived


class ExactGradients:
    """Gradients of F over all pairs of words; and what a step is held to.

    Gradients by search override what they estimate.
    """

    def __init__(self, collapsed: Collapsed) -> None:
        self.collapsed = collapsed

    def follow(self, tables: Tables) -> None:
        """Take over the tables as they are at the beginning of a step; here nothing depends on them."""

    def input_gradient(self, tables: Tables) -> tuple[Doubles, Floats]:
        """The loss of each centre word and its gradient in h_x: that of F divided by q_x."""
        gradient = np.zeros_like(tables.input)
        losses = np.zeros(len(gradient))
        for rows in self.collapsed.centre_blocks(len(tables.output)):
            h, target = tables.input[rows], self.collapsed.contexts[rows] @ tables.output
            p = h @ tables.output.T
            losses[rows] = exponentiate(p) - row_products(h, target)
            gradient[rows] = normalised(p) @ tables.output - target
        return losses, gradient

    def output_gradient(self, tables: Tables) -> tuple[float, Floats]:
        """F, and its gradient in each v_y divided by y's share of the contexts."""
        total = np.zeros(tables.output.shape)
        value = 0.0
        for rows in self.collapsed.centre_blocks(len(tables.output)):
            h, q = tables.input[rows], self.collapsed.centres[rows]
            weighted = (h * q[:, np.newaxis]).astype(np.float32)
            observed = self.collapsed.contexts[rows]
            p = h @ tables.output.T
            log_z = exponentiate(p)
            total += normalised(p).T @ weighted - observed.T @ weighted
            value += float(q @ (log_z - row_products(h, observed @ tables.output)))
        return value, self.collapsed.per_context(total)

    def losses(self, tables: Tables) -> Doubles:
        """What a step of each h_x must lower: the loss of x."""
        losses = np.zeros(len(tables.input))
        rows = np.flatnonzero(self.collapsed.centres)
        losses[rows] = self.collapsed.losses(tables, rows)
        return losses

    def values(self, tables: Tables) -> Doubles:
        """What a step of the output table must lower, all of them: F."""
        return np.array([self.collapsed.centres @ self.losses(tables)])

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
