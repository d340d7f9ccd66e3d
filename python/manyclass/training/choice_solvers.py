"""How coefficients of choice models are found: L-BFGS over all alternatives, or the double sum over drawn ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from manyclass import _core
from manyclass.datasets.choices import ChoiceLists, is_sparse
from manyclass.training.choice import ChoiceForm, ChoiceObjective
from manyclass.weights.arrays import Doubles, Ids

LEAST_DISSIMILARITY = 0.05
FIRST_VISITS = 2  # of a row before its first step
LONGEST = 0.5  # of a step with drawn alternatives, in nats: far beyond what noise makes of it
START_ROWS = 20_000
MANY_ROWS = 5  # as many as START_ROWS, beyond which these are fitted first


@dataclass(frozen=True)
class Free:
    """Coefficients that are free among all, the others being fixed or equal to others.

    Attributes
    ----------
    place : ndarray of shape (n,), int64
        Which free one each coefficient is, -1 for a fixed one.
    fixed : ndarray of shape (n,), float64
        Values of fixed ones.
    bounds : list of pairs of float
        Of the free ones.
    """

    place: NDArray[np.int64]
    fixed: Doubles
    bounds: list[tuple[float, float]]

    @property
    def n(self) -> int:
        """How many are free."""
        return len(self.bounds)

    @property
    def bounded(self) -> bool:
        """Whether any has a bound."""
        return any(np.isfinite(bound).any() for bound in self.bounds)

    def whole(self, free: Doubles) -> Doubles:
        """Return all coefficients of the free ones."""
        return np.where(self.place < 0, self.fixed, free[self.place] if self.n else 0.0)

    def of(self, theta: Doubles) -> Doubles:
        """Return the free ones among all, equal ones by their mean."""
        counts = np.bincount(self.place[self.place >= 0], minlength=self.n)
        return self.reduced(theta) / np.maximum(counts, 1)

    def reduced(self, gradient: Doubles) -> Doubles:
        """Return the gradient by the free ones of that by all."""
        mine = self.place >= 0
        return np.bincount(self.place[mine], gradient[mine], minlength=self.n).astype(np.float64)

    @cached_property
    def matrix(self) -> Doubles:
        """The derivative of all coefficients by the free ones, (n, n_free)."""
        out = np.zeros((len(self.place), self.n))
        mine = np.flatnonzero(self.place >= 0)
        out[mine, self.place[mine]] = 1
        return out


def free_of(form: ChoiceForm, constraints: Mapping[str, Any]) -> Free:
    """Return the free coefficients of a form, given constraints by name.

    Parameters
    ----------
    form : ChoiceForm
    constraints : mapping of str to "positive", "negative", a number or a name
        The sign of a coefficient, its value, or another coefficient that it equals.

    Returns
    -------
    Free

    Raises
    ------
    ValueError
        If there is no such coefficient.
    """
    names = form.names
    at = {name: j for j, name in enumerate(names)}
    fixed, owner = np.zeros(form.n), np.arange(form.n)
    bounds = [(-np.inf, np.inf)] * form.n
    for j in range(*form.slices["dissimilarity"].indices(form.n)):
        bounds[j] = (LEAST_DISSIMILARITY, 1.0)
        if np.count_nonzero(form.nests == j - form.slices["dissimilarity"].start) < 2:
            owner[j], fixed[j] = -1, 1.0  # a nest of one alternative has no dissimilarity
    for name, rule in constraints.items():
        if name not in at:
            raise ValueError(f"constraints has {name!r}, which is no coefficient; there are {', '.join(names[:20])}")
        if rule == "positive" or rule == "negative":
            bounds[at[name]] = (0.0, np.inf) if rule == "positive" else (-np.inf, 0.0)
        elif isinstance(rule, str):
            if rule not in at or at[rule] >= form.slices["dissimilarity"].start:
                raise ValueError(
                    f"constraints says that {name!r} is {rule!r}; it must be 'positive', 'negative', a "
                    "number or another coefficient"
                )
            owner[at[name]] = at[rule]
        else:
            owner[at[name]], fixed[at[name]] = -1, float(rule)
    for j in range(form.n):
        while owner[j] >= 0 and owner[owner[j]] != owner[j]:
            if owner[owner[j]] == j:
                raise ValueError(f"constraints says twice that {names[j]!r} and another coefficient are equal")
            fixed[j] = fixed[owner[j]] if owner[owner[j]] < 0 else fixed[j]
            owner[j] = owner[owner[j]]
    kept_ones = np.unique(owner[owner >= 0])
    place = np.where(owner < 0, -1, np.searchsorted(kept_ones, owner))
    return Free(place, fixed, [bounds[j] for j in kept_ones])


@dataclass(frozen=True)
class ChoiceFit:
    """Coefficients that were found.

    Attributes
    ----------
    theta : ndarray of shape (n,), float64
    losses : ndarray, float64, the loss of each iteration or pass
    converged : bool
    draw_errors : ndarray of shape (n,), float64
        Standard errors that drawn alternatives leave; zeros where none were drawn.
    """

    theta: Doubles
    losses: Doubles
    converged: bool
    draw_errors: Doubles


def _preconditioner(objective: ChoiceObjective, free: Free, theta: Doubles, seed: int, n_rows: int) -> Doubles:
    """T with T T' near the inverse of the second derivatives of some rows at theta; diagonal where there are bounds."""
    sets = objective.sets
    form = objective.form
    if form.model == "gumbel" and objective.explicit is not None and free.n:
        rows = np.sort(np.random.RandomState(seed).permutation(sets.n_rows)[:n_rows])
        some = ChoiceObjective(form, sets.take(rows), objective.ridge, objective.n_threads)
        found = some.hessian(theta)
        own = free.matrix.T @ found @ free.matrix
        scale = np.sqrt(np.maximum(np.diag(own), 1e-12 * max(np.max(np.diag(own)), 1e-300)))
        if free.bounded:
            return np.diag(1 / scale)
        unit = own / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(unit)
        return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-6))) / scale[:, None])
    sizes = np.ones(form.n)
    Z = sets.Z
    if Z is not None:
        squares = Z.multiply(Z).mean(axis=0) - Z.mean(axis=0) ** 2 if is_sparse(Z) else np.var(Z, axis=0)
        sizes[form.slices["alternatives"]] = np.sqrt(np.asarray(squares).ravel())
    first = sets.listed(0, min(sets.n_rows, 1000))
    if len(first.features):
        sizes[form.slices["pairs"]] = np.std(first.features, axis=0)
    if form.rank < 0:
        x = np.sqrt(np.mean(sets.X**2, axis=0))
        z = sizes[form.slices["alternatives"]] if not form.own_tastes else np.full(form.width, form.width**-0.5)
        sizes[form.slices["interactions"]] = np.outer(x, z).ravel()
    if form.sizes["constants"]:
        counts = np.bincount(form.groups, sets.shares)[1:]
        sizes[form.slices["constants"]] = np.sqrt(counts + 1 / sets.n_rows)
    sizes = np.where(sizes > 0, sizes, 1.0)
    return np.diag(free.matrix.T @ (1 / sizes) / np.maximum(free.matrix.sum(axis=0), 1))


def fit_exactly(
    objective: ChoiceObjective,
    free: Free,
    start: Doubles,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    watch: Callable[[float], None],
) -> ChoiceFit:
    """Minimise by L-BFGS, in coordinates where the second derivatives are near 1.

    Parameters
    ----------
    objective : ChoiceObjective
    free : Free
    start : ndarray of shape (n,), float64
    tol : float
        The largest derivative in these coordinates, which is about the distance from the minimum in units of
        sqrt(loss): 1e-6 leaves coefficients within some 1e-6 sqrt(n_rows) of their standard errors.
    max_iter, seed : int
    watch : callable, told the loss of each iteration

    Returns
    -------
    ChoiceFit
    """
    n_rows = objective.sets.n_rows
    if n_rows > MANY_ROWS * START_ROWS and objective.form.rank <= 0:
        rows = np.sort(np.random.RandomState(seed).permutation(n_rows)[:START_ROWS])
        first = ChoiceObjective(objective.form, objective.sets.take(rows), objective.ridge, objective.n_threads)
        start = fit_exactly(first, free, start, tol=1e-5, max_iter=50, seed=seed, watch=lambda _: None).theta
        T = _preconditioner(objective, free, start, seed, START_ROWS)
    else:
        T = _preconditioner(objective, free, start, seed, 2000)
    losses: list[float] = []
    begin = free.of(start)
    back = np.linalg.solve(T, begin) if T.size else begin

    def value(own: Doubles) -> tuple[float, Doubles]:
        loss, gradient = objective(free.whole(T @ own))
        losses.append(loss)
        return loss, T.T @ free.reduced(gradient)

    scale = np.diag(T)
    bounds = [(a / s, b / s) for (a, b), s in zip(free.bounds, scale, strict=True)] if free.bounded else None
    curve: list[float] = []

    def told(_: Any) -> None:
        curve.append(losses[-1])
        watch(losses[-1])

    options: dict[str, Any] = {
        "maxiter": max_iter,
        "maxfun": 3 * max_iter,
        "gtol": tol,
        "ftol": 0.0,
        "maxcor": 20,
        "maxls": 40,
    }
    how: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options, "callback": told}
    found = scipy.optimize.minimize(value, back, **how)
    slope = found.jac
    if bounds is not None:
        low, high = np.array(bounds).T
        slope = np.where((found.x <= low) & (slope > 0) | (found.x >= high) & (slope < 0), 0.0, slope)
    # A line search ends where rounding hides the descent, some digits before a gradient of 1e-8.
    settled = bool(np.max(np.abs(slope), initial=0) <= max(100 * tol, 1e-5))
    return ChoiceFit(free.whole(T @ found.x), np.array(curve or [found.fun]), settled, np.zeros(objective.form.n))


@dataclass(frozen=True)
class DrawnPlan:
    """How drawn alternatives are used.

    Attributes
    ----------
    n_draws : int, alternatives by row and pass
    share : float, of draws that are popular alternatives
    n_passes : int
    batch_size : int
    seed : int
    """

    n_draws: int
    share: float
    n_passes: int
    batch_size: int
    seed: int


def fit_drawn(
    objective: ChoiceObjective, free: Free, start: Doubles, plan: DrawnPlan, watch: Callable[[float], None]
) -> ChoiceFit:
    """Minimise the double sum over rows and drawn alternatives, whose gradient has no bias.

    A row carries the log-normaliser u_i of its sum A_i over alternatives, and the objective is the mean of
    u_i + e^-u_i A_i - 1 (Fagan & Iyengar 2018, eq. 5), linear in the sum. It starts where the likelihood of 20,000 rows
    with drawn alternatives is largest (McFadden 1978), and steps in the metric of the second derivatives there. u_i
    moves after each visit towards the log of the visit's own estimate by a falling share. Coefficients are means over
    the second half of the passes.

    Parameters
    ----------
    objective : ChoiceObjective
    free : Free
    start : ndarray of shape (n,), float64
    plan : DrawnPlan
    watch : callable, told the loss of each pass

    Returns
    -------
    ChoiceFit
    """
    form, sets, threads = objective.form, objective.sets, objective.n_threads
    random = np.random.RandomState(plan.seed)
    n, chosen = sets.n_rows, sets.known_choices

    def drawn(rows: NDArray[np.int64], epoch: int) -> ChoiceLists:
        by = (plan.share, plan.seed, epoch)
        return sets.draw(rows, plan.n_draws, share=by[0], seed=by[1], epoch=by[2], n_threads=threads)

    first_rows = np.sort(random.permutation(n)[:START_ROWS])
    part = replace(sets.take(first_rows), lists=drawn(first_rows, 0), function=None)
    first = ChoiceObjective(form, part, objective.ridge, threads)
    near = fit_exactly(first, free, start, tol=1e-4, max_iter=50, seed=plan.seed, watch=lambda _: None)
    T = _preconditioner(first, free, near.theta, plan.seed, len(first_rows))
    metric = T @ T.T
    own = free.of(near.theta)
    low, high = np.array(free.bounds).reshape(-1, 2).T
    sums = _RowSums(np.full(n, -np.inf), np.full(n, -np.inf))
    losses, means = [], []
    n_steps = 0
    begins = (1, 1 + plan.n_passes // 3)  # where rows begin anew, as old estimates are those at old coefficients
    for epoch in range(1, plan.n_passes + 1):
        order = random.permutation(n)
        total, mean, n_batches = 0.0, np.zeros(free.n), 0
        for at in range(0, n, plan.batch_size):
            rows = np.sort(order[at : at + plan.batch_size])
            theta = free.whole(own)
            X, weights = sets.X[rows], objective.weights[rows] * (n / len(rows))
            core = form.for_core(theta, sets, X) | {"model": "drawn"}
            for visit in range(FIRST_VISITS if epoch in begins else 0):
                own_draws = drawn(rows, plan.n_passes + 10 * epoch + visit)
                sums.add(rows, _log_sums(core, own_draws, chosen[rows], threads), visit)
            visits = FIRST_VISITS + epoch - max(begin for begin in begins if begin <= epoch)
            values, found, constants = np.empty(len(rows)), np.empty(len(rows)), np.zeros(sets.n_alternatives)
            tastes = np.empty((len(rows), core["n_features"]))
            pairs = np.empty((len(rows), len(form.pair_names)))
            wants: dict[str, Any] = {"taste_gradient": tastes, "pair_gradient": pairs}
            _core.choice_sums(
                **core,
                **drawn(rows, epoch).for_core(),
                chosen=chosen[rows],
                weights=weights,
                log_normalizers=sums.log_normalizers(rows, visits),
                n_threads=threads,
                losses=values,
                inclusive_values=found,
                constant_gradient=constants,
                **{name: array for name, array in wants.items() if array.size},
            )
            gradient = form.gradient(theta, sets, X, tastes, constants, pairs) + objective.ridge * theta
            n_steps += 1
            # As if the rows of the start had been steps before.
            rate = (n_steps + len(first.weights) / plan.batch_size) ** -0.7
            step = rate * (metric @ free.reduced(gradient))
            length = np.sqrt(max(float(rate * step @ free.reduced(gradient)), 0.0))
            own = np.clip(own - step * min(1.0, LONGEST / max(length, 1e-300)), low, high)
            sums.add(rows, found, visits)
            total += float(weights @ values) * len(rows) / n
            mean += own
            n_batches += 1
        losses.append(total)
        watch(total)
        means.append(mean / n_batches)
    late = np.array(means[plan.n_passes // 2 :])
    own = late.mean(axis=0)
    spread = np.var(late, axis=0, ddof=1) / len(late) if len(late) > 1 else np.zeros(free.n)
    # e^-u_i A_i weighs row i by a number that is not 1 but does not depend on the choice: estimates stay consistent,
    # and are off by their standard errors times its standard deviation. Its square is the mean of a product of two
    # estimates that are independent of each other.
    core = form.for_core(free.whole(own), sets, sets.X[first_rows]) | {"model": "drawn"}
    u = sums.log_normalizers(first_rows, visits)
    pair = [
        np.exp(_log_sums(core, drawn(first_rows, 10 * (plan.n_passes + 9) + visit), chosen[first_rows], threads) - u)
        for visit in (FIRST_VISITS, FIRST_VISITS + 1)
    ]
    of_weights = max(float(np.mean(pair[0] * pair[1]) - np.mean(pair[0]) * np.mean(pair[1])), 0.0)
    errors = np.sqrt(spread + of_weights * np.diag(metric) / n)
    return ChoiceFit(free.whole(own), np.array(losses), True, np.abs(free.matrix @ errors))


def _share(visits: int) -> float:
    """The share of a visit's estimate in the mean, of which there were `visits` before: weights grow like t^2.

    Estimates of older visits are those at older coefficients, towards which they pull: by t^-1.5, where it would be
    t^-0.5 with equal weights.
    """
    return 3 / (visits + 3)


@dataclass(frozen=True)
class _RowSums:
    """The logarithm of the mean over visits of each row's estimates of A_i, and of the mean of their squares."""

    means: Doubles
    squares: Doubles

    def add(self, rows: NDArray[np.int64], found: Doubles, visits: int) -> None:
        """Take an estimate in, of which there were `visits` before."""
        with np.errstate(divide="ignore"):
            share, rest = np.log(_share(visits)), np.log1p(-_share(visits))
        self.means[rows] = np.logaddexp(rest + self.means[rows], share + found)
        self.squares[rows] = np.logaddexp(rest + self.squares[rows], share + 2 * found)

    def log_normalizers(self, rows: NDArray[np.int64], visits: int) -> Doubles:
        """Return u: e^-u is 1 / A_i but for terms of the second order in 1 / visits.

        The mean of 1 / M is (1 + v) / A, M being the mean of the estimates and v its variance in relation to A^2.
        """
        of_squares = 0.0  # the sum of squares of the weights
        for visit in range(visits):
            of_squares = (1 - _share(visit)) ** 2 * of_squares + _share(visit) ** 2
        spread = np.expm1(self.squares[rows] - 2 * self.means[rows]) * of_squares / (1 - of_squares)
        return np.asarray(self.means[rows] + np.log1p(np.maximum(spread, 0.0)))


def _log_sums(core: Mapping[str, Any], lists: ChoiceLists, chosen: Ids, n_threads: int) -> Doubles:
    """The log of the sum over drawn alternatives, relative to the chosen one."""
    out = np.empty(len(chosen))
    zeros = np.zeros(len(chosen))
    _core.choice_sums(
        **core, **lists.for_core(), chosen=chosen, log_normalizers=zeros, n_threads=n_threads, inclusive_values=out
    )
    return out
