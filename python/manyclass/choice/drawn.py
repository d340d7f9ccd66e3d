"""Fits of choice models with drawn alternatives, by steps whose gradients have no bias, and what draws leave of error.

A row carries estimates of its sum over alternatives, which make its loss linear in that sum: of Gumbel noise the
log-normaliser w of the double sum w + e^-w A - 1 (Fagan & Iyengar 2018, eq. 5), of other noise the weights of 48 nodes
of the noise in the bound of augment and reduce (Ruiz et al. 2018), which is the log-loss itself at these weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from manyclass import _core
from manyclass.choice.fitting import (
    START_ROWS,
    ChoiceFit,
    ChoiceObjective,
    DescentLimits,
    FreeCoefficients,
    fit_exactly,
    make_problems,
    precondition,
    slope_within_bounds,
)
from manyclass.training.passes import drive, warn_user
from manyclass.weights.arrays import Doubles, Floats

FIRST_VISITS = 2  # of a row before its first step
FIRST_PASSES, MOST_PASSES = 16, 128  # before the first look at errors, and in all
SECOND_BEGIN = 6  # the pass in which rows begin anew, as old estimates are those at old coefficients
NEGLIGIBLE = 0.1  # of the sampling error: what draws may leave
START_DRAWS = 256  # for the rows of the start, of Gumbel noise
ERROR_GROUPS = 64  # of rows, whose gradients tell what these leave that rows carry
LONGEST = 0.5  # of a step, in nats: far beyond what noise makes of it
POWER = -0.7  # of the number of steps, by which they fall
NODES = {"normal": -5 + 0.25 * np.arange(48), "logistic": -14.4 + 0.8 * np.arange(48)}  # as NoiseNodes has them

Rows = NDArray[np.int64]


def share_of_visit(visits: int) -> float:
    """Return the share of a visit's estimate in the mean, of which there were `visits` before.

    Weights grow like t^2: estimates of older visits are those at older coefficients, towards which they pull by t^-1.5,
    where it would be t^-0.5 with equal weights.
    """
    return 3.0 / (visits + 3)


def weights_of_visits(visits: int) -> Doubles:
    """Return the weights of the estimates of visits in their mean."""
    weights = np.zeros(visits)
    for visit in range(visits):
        weights[:visit] *= 1 - share_of_visit(visit)
        weights[visit] = share_of_visit(visit)
    return weights


class CarriedSums:
    """Of Gumbel noise: means of estimates A of sums, of which log-normalisers follow."""

    def __init__(self, n_rows: int) -> None:
        self.means, self.squares = np.full((2, n_rows), -np.inf)  # logarithms

    def look(self, problem: _core.ChoiceProblem, rows: Rows, theta: Doubles, visits: int) -> None:
        """Take in what a problem of rows says of their sums; there were `visits` before."""
        self._add(rows, problem.losses(theta), visits)

    def step(
        self, problem: _core.ChoiceProblem, rows: Rows, theta: Doubles, visits: int, weights: Doubles
    ) -> tuple[float, Doubles]:
        """Return the double sum of rows at what they carry, and its gradient; then look."""
        value, gradient, losses = problem.double_sum(theta, self.log_normalizers(rows, visits))
        self._add(rows, losses, visits)
        return value, gradient

    def log_normalizers(self, rows: Rows, visits: int) -> Doubles:
        """Return w of rows: e^-w is 1 / A but for terms of the second order in 1 / visits.

        The mean of 1 / M is (1 + v) / A, M being the mean of the estimates and v its variance relative to A^2.
        """
        squares = float(np.square(weights_of_visits(visits)).sum())
        # Estimates of separated rows may differ by factors that overflow.
        spread = np.expm1(np.minimum(self.squares[rows] - 2 * self.means[rows], 700)) * squares / (1 - squares)
        return np.asarray(self.means[rows] + np.log1p(np.maximum(spread, 0)))

    weights_of_visits = staticmethod(weights_of_visits)

    def noise(
        self, problems: Sequence[_core.ChoiceProblem], rows: Rows, theta: Doubles, visits: int
    ) -> tuple[Doubles, list[Doubles]]:
        """Return what the difference of two draws of rows makes of a step's gradient, at once and by what rows carry.

        The latter is said of the gradients of the other draws: estimates that are too large by a share make the weights
        e^-w of rows too small by that share.
        """
        log_normalizers = self.log_normalizers(rows, visits)
        (_, one, losses), (_, other, other_losses) = (p.double_sum(theta, log_normalizers) for p in problems[:2])
        carried = []
        for problem in problems[2:]:
            unit = 2 * log_normalizers
            smaller, larger = (problem.double_sum(theta, unit - sums)[1] for sums in (losses, other_losses))
            carried.append(larger - smaller)
        return one - other, carried

    def _add(self, rows: Rows, losses: Doubles, visits: int) -> None:
        share = share_of_visit(visits)
        with np.errstate(divide="ignore"):
            rest = np.log(1 - share)
        self.means[rows] = np.logaddexp(rest + self.means[rows], np.log(share) + losses)
        self.squares[rows] = np.logaddexp(rest + self.squares[rows], np.log(share) + 2 * losses)


class CarriedProducts:
    """Of other noise: logarithms S of products over alternatives at the nodes of noise, in two halves of the visits.

    Shares q of the nodes are those of f(e) e^S(e), S being the mean of the halves. Noise of S makes them err by a
    curvature times its variance, which is half that of each half's S: so 2 q(S) less the mean of both halves' q has no
    such error.
    """

    def __init__(self, noise: str, n_rows: int) -> None:
        nodes = NODES[noise]
        densities = -(nodes**2 + np.log(2 * np.pi)) / 2 if noise == "normal" else -nodes - 2 * np.log1p(np.exp(-nodes))
        self.log_density = densities + np.log(nodes[1] - nodes[0])
        self.halves: Floats = np.zeros((2, n_rows, len(nodes)), dtype=np.float32)

    def look(self, problem: _core.ChoiceProblem, rows: Rows, theta: Doubles, visits: int) -> None:
        """Take in what a problem of rows says of their products; there were `visits` before."""
        self._add(rows, problem.log_products(theta, np.zeros(0))[0], visits)

    def step(
        self, problem: _core.ChoiceProblem, rows: Rows, theta: Doubles, visits: int, weights: Doubles
    ) -> tuple[float, Doubles]:
        """Return the bound of augment and reduce at what rows carry, and its gradient; then look."""
        (of_first, of_second, of_both), (log_first, log_second, log_both) = self._shares(rows)
        products, gradient = problem.log_products(theta, 2 * of_both - (of_first + of_second) / 2)
        self._add(rows, products, visits)
        return float(weights @ ((log_first + log_second) / 2 - 2 * log_both)), gradient

    def weights_of_visits(self, visits: int) -> Doubles:
        """Return the weights of the estimates of visits in what rows carry."""
        weights = np.zeros(visits)
        for half in range(2):
            weights[half::2] = weights_of_visits(len(weights[half::2])) / 2
        return weights

    def noise(
        self, problems: Sequence[_core.ChoiceProblem], rows: Rows, theta: Doubles, visits: int
    ) -> tuple[Doubles, list[Doubles]]:
        """Return what the difference of two draws of rows makes of a step's gradient, at once and by what rows carry.

        The latter is said of the gradients of the other draws.
        """
        shares = self._shares(rows)[0][2]
        (products, one), (other_products, other) = (p.log_products(theta, shares) for p in problems[:2])
        gap = products - other_products
        moved = shares * (gap - np.sum(shares * gap, axis=1, keepdims=True))
        return one - other, [problem.log_products(theta, moved)[1] for problem in problems[2:]]

    def _shares(self, rows: Rows) -> tuple[Doubles, Doubles]:
        """Shares of the nodes by the first half, the second and their mean, and logarithms of their sums."""
        first, second = self.halves[:, rows].astype(np.float64)
        logs = self.log_density + np.stack([first, second, (first + second) / 2])
        sums = logsumexp(logs, axis=2)
        return np.exp(logs - sums[:, :, None]), sums

    def _add(self, rows: Rows, products: Doubles, visits: int) -> None:
        half, share = self.halves[visits % 2], np.float32(share_of_visit(visits // 2))
        # A product of e^-1e30 is none, and its weight times infinity would be no number.
        half[rows] += share * (np.maximum(products, -1e30).astype(np.float32) - half[rows])


def draw_objective(objective: ChoiceObjective, rows: Rows, n_draws: int, seed: int, epoch: int) -> ChoiceObjective:
    """Return rows with alternatives drawn for them, half of them popular ones where all are available."""
    share = 0.0 if objective.sets.lists.only else 0.5
    how = {"share": share, "seed": seed, "epoch": epoch, "n_threads": objective.n_threads}
    return replace(objective, sets=objective.weighted.draw(rows, n_draws, **how))


def move_within(bounds: Doubles, theta: Doubles, T: Any, slope: Doubles, rate: float = 1.0) -> Doubles:
    """Return coefficients, within bounds, after a step against a slope in the metric T T', `LONGEST` at most."""
    white = T.T @ slope
    step = T @ white * min(rate, LONGEST / max(float(np.linalg.norm(white)), 1e-300))
    return np.asarray(np.clip(theta - step, *bounds.T))


class DrawnPasses:
    """Descent on the loss of rows with drawn alternatives, in a metric T T' near the inverse second derivatives.

    Steps fall with their number t as t^-0.7. What is found are means over the second half of the passes of where a
    Newton step by the pass's mean gradient would end. Draws make noise of them in two ways, which partly cancel: in the
    gradient of their own visit, and in later ones by what rows carry. Both move coefficients, at which rows then carry
    sums, and so does the order of rows.

    It starts where the likelihood of 20,000 rows with drawn alternatives is largest (McFadden 1978; 5,000 of noise that
    is not Gumbel's), and steps in the metric of the second derivatives there.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    max_iter : int, passes at most
    n_draws : int, alternatives by row and pass
    seed : int
    """

    unit, advice = "rows", "Raise n_negatives"
    fault: str | None = None

    def __init__(
        self, objective: ChoiceObjective, free: FreeCoefficients, max_iter: int, n_draws: int, seed: int
    ) -> None:
        self.objective, self.free, self.max_iter, self.n_draws, self.seed = objective, free, max_iter, n_draws, seed
        self.length, noise = objective.n_rows, objective.form.model
        n_start_rows, n_start_draws = START_ROWS // 4, n_draws
        if noise == "gumbel":
            n_start_rows, n_start_draws = START_ROWS, max(n_draws, min(START_DRAWS, objective.sets.n_alternatives))
        self.rows = np.sort(np.random.RandomState(seed).permutation(self.length)[:n_start_rows])
        first = draw_objective(objective, self.rows, n_start_draws, seed, 0)
        near = fit_exactly(first, free, DescentLimits(1e-4, 50), seed).theta
        self.T = precondition(first, free, near, seed, True, len(self.rows))
        # A root of the inverse of the second derivatives, whether there are bounds or not, dense where it is known.
        unbounded = replace(free, bounds=np.tile([-np.inf, np.inf], (free.n, 1)))
        self.root = precondition(first, unbounded, near, seed, True, len(self.rows)) if free.bounded else self.T
        self.metric = self.T @ self.T.T if sp.issparse(self.root) else self.root @ self.root.T
        batch_size = int(np.clip(self.length // 50, 64, 8192))
        self.n_visits = -(-self.length // batch_size)
        self.carried = CarriedSums(self.length) if noise == "gumbel" else CarriedProducts(noise, self.length)
        self.theta, self.n_steps = free.select(near), len(self.rows) / batch_size  # as if these had been steps before
        self.due, self.second_begin = min(FIRST_PASSES, max_iter), min(SECOND_BEGIN - 1, max_iter // 3)
        self.sums, self.loss_sum = np.zeros((2, free.n)), 0.0  # of coefficients and gradients of this pass
        self.means: list[Doubles] = []  # of each pass
        self.errors, self.is_precise = np.full(free.n, np.nan), False
        self.n_iter, self.seconds, self.loss = 0, 0.0, np.nan  # for `drive`

    def problem(self, rows: Rows, epoch: int) -> _core.ChoiceProblem:
        """Return rows with alternatives drawn for them, as the core takes them."""
        drawn = draw_objective(self.objective, rows, self.n_draws, self.seed, epoch)
        return next(make_problems(drawn.form, drawn.sets, drawn.n_threads))

    def visits_before(self, n_pass: int) -> int:
        """Return how many visits the rows have seen before a pass since they began."""
        return FIRST_VISITS + n_pass - (self.second_begin if n_pass >= self.second_begin else 0)

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make the step of a pass by its batch of this number."""
        if first == 0:
            order = np.random.RandomState([self.seed, n_pass]).permutation(self.length)
            self.batches = np.array_split(order, self.n_visits)
        self.step(np.sort(self.batches[first]), n_pass)
        return 1, len(self.batches[first])

    def step(self, rows: Rows, n_pass: int) -> None:
        """Make a step by some rows, and take in their estimates."""
        objective, free, epoch = self.objective, self.free, (FIRST_VISITS + 1) * (n_pass + 1)
        theta, visits = free.expand(self.theta), self.visits_before(n_pass)
        for visit in range(FIRST_VISITS if n_pass in (0, self.second_begin) else 0):
            self.carried.look(self.problem(rows, epoch + visit), rows, theta, visit)
        problem = self.problem(rows, epoch + FIRST_VISITS)
        loss, gradient = self.carried.step(problem, rows, theta, visits, objective.weights[rows])
        slope = free.reduce(gradient * (self.length / len(rows)) + objective.ridge * theta)
        self.n_steps += 1
        self.sums += np.stack([self.theta, slope]) * (len(rows) / self.length)
        self.loss_sum += loss
        self.theta = move_within(free.bounds, self.theta, self.T, slope, self.n_steps**POWER)

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a pass; return its loss, and whether draws leave little of error."""
        self.means.append(self.sums)
        theta = self.free.expand(self.sums[0])
        loss = self.loss_sum + 0.5 * float(self.objective.ridge @ theta**2)
        self.sums, self.loss_sum = np.zeros_like(self.sums), 0.0
        if n_pass + 1 >= self.due:
            ratio = self.measure(n_pass + 1)
            self.due = int(min(self.max_iter, max(n_pass + 2, np.ceil((n_pass + 1) * min(ratio, 9) ** 2))))
            self.is_precise = ratio <= 1
        return loss, self.is_precise

    def measure(self, n_passes: int) -> float:
        """Find the errors that draws leave; return the largest one relative to what is negligible."""
        with np.errstate(all="ignore"):  # of rows that coefficients separate: errors are then not known
            errors = np.sqrt(self._variances(n_passes))
            ratio = float(np.max(errors / (NEGLIGIBLE * np.sqrt(self.metric.diagonal() / self.length)), initial=0))
        self.errors = np.where(np.isfinite(errors), errors, np.nan)
        return ratio if np.isfinite(ratio) else np.inf

    def estimate(self) -> Doubles:
        """Return free coefficients by the second half of the passes."""
        if not self.means:
            return self.theta
        own, slope = np.mean(self.means[len(self.means) // 2 :], axis=0)
        slope = slope_within_bounds(slope, own, self.free.bounds)
        return own if sp.issparse(self.root) else move_within(self.free.bounds, own, self.root, slope)

    def _variances(self, n_passes: int) -> Doubles:
        """The variances that draws leave in these, from gradients of groups of rows by independent draws."""
        direct, carried, by_order = self._shares_of_visits(n_passes)
        theta, visits = self.free.expand(self.estimate()), self.visits_before(n_passes)
        variances = np.zeros(self.free.n)
        epoch = (FIRST_VISITS + 1) * (self.max_iter + 1) + 4 * n_passes
        for rows in np.array_split(self.rows, min(len(self.rows), ERROR_GROUPS)):
            problems = [self.problem(rows, epoch + draw) for draw in range(4)]
            gradient, by_carried = self.carried.noise(problems, rows, theta, visits)
            x, y, z = (self.metric @ self.free.reduce(g) for g in (gradient, *by_carried))
            # Half of what a difference of two draws has; y and z have noise that is independent.
            variances += (direct @ direct * x**2 + direct @ carried * x * (y + z) + carried @ carried * y * z) / 2
        variances = np.maximum(variances, 0) * self.length / len(self.rows)
        # A batch's gradient has the variance of gradients of rows, about the second derivatives, by its rows.
        return np.asarray(variances + by_order * self.n_visits / self.length * self.metric.diagonal())

    def _shares_of_visits(self, n_passes: int) -> tuple[Doubles, Doubles, float]:
        """Shares of noise of visits in what is found: of gradients, of what rows carry, and the square by their order.

        With what rows carry fixed, second derivatives are those of the log-loss, H, and products of gradients of rows,
        in the mean H again: a mean gradient is H (2 theta - that at which rows carry sums) + noise. So noise moves
        coefficients, and these later gradients, which takes back a part of it. Shares are derivatives of what is found
        by the noise, from the last step to the first, in units where H is 1. That the order of rows leaves noise is
        due to steps of a pass that have unequal shares.
        """
        direct, carried = np.zeros((2, n_passes + 2 * FIRST_VISITS))
        n_steps, by_theta, by_order = self.n_steps, 0.0, 0.0
        for n_pass in reversed(range(n_passes)):
            begin = self.second_begin + FIRST_VISITS if 0 < self.second_begin <= n_pass else 0
            visit, is_first = begin + self.visits_before(n_pass), n_pass in (0, self.second_begin)
            late = (n_pass >= n_passes // 2) / (n_passes - n_passes // 2) / self.n_visits
            later = carried[begin if is_first else visit : visit + 1].sum() / self.n_visits
            shares = np.zeros(self.n_visits)
            for step in range(self.n_visits):
                shares[step] = late + n_steps**POWER * by_theta
                # Rows that begin carry sums at the coefficients of now.
                by_theta += late + later - (1 if is_first else 2) * shares[step]
                n_steps -= 1
            direct[visit] = shares.sum()
            carried[begin:visit] += direct[visit] * self.carried.weights_of_visits(visit - begin)
            by_order += self.n_visits * float(np.var(shares))
        return direct, carried, by_order

    def describe(self, last: int) -> str:
        """Return what the progress bar says."""
        return f"loss {self.loss_sum * self.n_visits / max(last, 1):.4f}"

    def verdict(self, last_loss: float) -> str | None:
        """Return how the loss shows divergence."""
        return None if np.isfinite(last_loss) else f"the loss of the last pass is {last_loss}"


def fit_drawn(
    objective: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, n_draws: int, seed: int
) -> ChoiceFit:
    """Minimise the double sum over rows and drawn alternatives, or the bound of augment and reduce, without bias.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    limits : DescentLimits, passes at most; it ends where draws leave less than a tenth of the sampling error
    n_draws : int, alternatives by row and pass
    seed : int

    Returns
    -------
    ChoiceFit

    Warns
    -----
    ConvergenceWarning
        If draws leave more.
    """
    max_iter, watch = limits.max_iter, limits.watch
    passes: Any = DrawnPasses(objective, free, max_iter, n_draws, seed)  # without checkpoints
    tell = None if watch is None else lambda state: watch(state.loss)
    losses, _ = drive(passes, passes, tell, max_iter=max_iter, verbose=False)
    if passes.fault is None and not passes.is_precise and len(losses) == max_iter:
        warn_user(
            f"after max_iter={max_iter} passes, draws of n_negatives={n_draws} alternatives leave more in coefficients "
            f"than {NEGLIGIBLE:g} of their sampling errors; draw_errors_ tells how much. Raise n_negatives or max_iter"
        )
    theta, errors = free.expand(passes.estimate()), np.abs(free.matrix @ passes.errors)
    return ChoiceFit(theta, np.array(losses), passes.is_precise, errors)
