"""Coefficients of choice models: their form, the objective, and how it is minimised over all or drawn alternatives.

The utility of alternative k for chooser i is x_i . W z_k + beta . (z_k, s_ik) + a_k + o_ik. All coefficients stand in
one vector, see cpp/manyclass/choice/form.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.choice.sets import ChoiceSets
from manyclass.weights.arrays import Doubles, Ids

MOST_KEPT = 1 << 26  # features of pairs that are made once and kept: 512 MB
PARTS = ("alternatives", "pairs", "interactions", "constants", "dissimilarity")
FIRST_VISITS = 2  # of a row before its first step
START_ROWS = 20_000
ERROR_GROUPS = 64  # of rows, whose gradients tell what drawn alternatives leave in them
MANY_ROWS = 5  # as many as START_ROWS, beyond which these are fitted first
# Evaluations that second derivatives save at least where features are correlated; of independent ones 20 to 40. 5,000
# rows, 20 features, 100 alternatives, 2,079 coefficients: 7.4 s with them, 2.0 s without, or 6.8 and .5 s.
EVALUATIONS_SAVED, A_MOMENT = 100, 1 << 26


@dataclass(frozen=True)
class ChoiceForm:
    """Which coefficients a model has.

    Attributes
    ----------
    noise : {"gumbel", "normal", "logistic"}
    chooser_names : tuple of str
    alternative_names : tuple of str
    pair_names : tuple of str
    n_alternatives : int
    rank : int
        Of W: 0 is no W, -1 a full one.
    groups : ndarray of shape (n_alternatives,), int64
        The constant of each alternative; the first one, 0, is the reference, whose constant is 0. Of size 0: none.
    group_labels : tuple, labels of the constants
    nests : ndarray of shape (n_alternatives,), int32, or of size 0
    nest_labels : tuple
    labels : tuple of str, names of alternatives for coefficients of their own
    """

    noise: str
    chooser_names: tuple[str, ...]
    alternative_names: tuple[str, ...]
    pair_names: tuple[str, ...]
    n_alternatives: int
    has_features: bool
    rank: int = 0
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    group_labels: tuple[str, ...] = ()
    nests: Ids = field(default_factory=lambda: np.zeros(0, np.int32))
    nest_labels: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def own_tastes(self) -> bool:
        """Whether W has a column for each alternative but the first, as there are no features of alternatives."""
        return self.rank != 0 and not self.has_features

    @property
    def model(self) -> str:
        """The name that the core has for it."""
        return "nested" if len(self.nest_labels) else self.noise

    @property
    def core(self) -> _core.ChoiceForm:
        """The form as the core has it."""
        return _core.ChoiceForm(
            model=self.model,
            n_chooser_features=len(self.chooser_names),
            n_alternative_features=len(self.alternative_names),
            n_pair_features=len(self.pair_names),
            n_own_tastes=self.n_alternatives if self.own_tastes else 0,
            rank=self.rank,
            groups=self.groups,
            n_groups=len(self.group_labels),
            nests=self.nests,
            n_nests=len(self.nest_labels),
        )

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where the coefficients of each part stand."""
        ends = np.cumsum([0, *self.core.sizes()]).tolist()
        return {name: slice(a, b) for name, a, b in zip(PARTS, ends, ends[1:], strict=False)}

    @property
    def n(self) -> int:
        """How many coefficients there are."""
        return int(self.slices["dissimilarity"].stop)

    @cached_property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        features = (self.chooser_names, self.alternative_names, self.pair_names)
        kinds = (*features, self.labels, self.group_labels, self.nest_labels)
        return self.core.names(*(list(map(str, names)) for names in kinds))

    def start(self, seed: int) -> Doubles:
        """Return coefficients to begin with: zeros, but small numbers by chance for a W of low rank."""
        theta = np.zeros(self.n)
        if self.rank > 0:
            factors = theta[self.slices["interactions"]]
            factors[:] = 0.1 * np.random.RandomState(seed).standard_normal(len(factors))
        theta[self.slices["dissimilarity"]] = 1.0
        return theta


def list_features(sets: ChoiceSets) -> ChoiceSets:
    """Return data whose function of pairs was called once, where its features take little memory."""
    if sets.function is None or sets.n_pairs * len(sets.pair_names) > MOST_KEPT:
        return sets
    return next(sets.parts(MOST_KEPT))


def make_problems(form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> Iterator[_core.ChoiceProblem]:
    """Yield the core's problems of ranges of rows; data without a function of pairs are one range."""
    core = form.core
    for part in sets.parts():
        yield _core.ChoiceProblem(form=core, n_threads=n_threads, **part.core_arguments())


@dataclass
class ChoiceObjective:
    """The mean log-loss of choices with a ridge, and its derivatives.

    Attributes
    ----------
    form : ChoiceForm
    sets : ChoiceSets
    ridge : ndarray of shape (n,), float64
        The loss has ridge / 2 times the square of each coefficient added.
    n_threads : int
    """

    form: ChoiceForm
    sets: ChoiceSets
    ridge: Doubles
    n_threads: int

    @cached_property
    def weights(self) -> Doubles:
        """Weights of the rows, whose sum is 1."""
        return np.asarray(self.sets.weights / self.sets.weights.sum())

    @cached_property
    def weighted(self) -> ChoiceSets:
        """The data with these weights; raises ValueError where choices are not known."""
        return replace(self.sets, chosen=self.sets.known_choices, sample_weight=self.weights)

    @property
    def problems(self) -> Iterator[_core.ChoiceProblem]:
        """The core's problems of ranges of rows."""
        return iter(self._whole or make_problems(self.form, self.weighted, self.n_threads))

    @cached_property
    def _whole(self) -> list[_core.ChoiceProblem]:
        """The one problem of data without a function of pairs."""
        return [*make_problems(self.form, self.weighted, self.n_threads)] if self.sets.function is None else []

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient."""
        value, gradient = 0.5 * float(self.ridge @ theta**2), self.ridge * theta
        for problem in self.problems:
            loss, slope = problem.objective(theta)
            value += loss
            gradient += slope
        return value, gradient

    def losses(self, theta: Doubles) -> Doubles:
        """Return the log-loss of each row, in nats."""
        return np.concatenate([problem.losses(theta) for problem in self.problems])

    def hessian(self, theta: Doubles) -> Doubles:
        """Return the second derivatives of the mean loss with its ridge; raises ValueError as `scores` does."""
        return np.asarray(sum((problem.hessian(theta) for problem in self.problems), np.diag(self.ridge)))

    def metric(self, theta: Doubles) -> Doubles:
        """Return the second derivatives without those of W by its factors, where it has a low rank."""
        return np.asarray(sum((problem.metric(theta) for problem in self.problems), np.diag(self.ridge)))

    def squared_spread(self, directions: Doubles) -> float:
        """Return the most that a unit sum of the directions, (n_directions, n), moves two utilities apart, squared."""
        return max((problem.squared_spread(directions) for problem in self.problems), default=0.0)

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradient of each row's loss, not weighted, (n_rows, n).

        Raises
        ------
        ValueError
            If the core has none for the form.
        """
        return np.concatenate([problem.scores(theta) for problem in self.problems])


@dataclass(frozen=True)
class FreeCoefficients:
    """Coefficients that are free among all, the others being fixed or equal to others.

    Attributes
    ----------
    matrix : csr_array of shape (n, n_free), float64
        The derivative of all coefficients by the free ones: 1 where one is, or equals, the free one.
    fixed : ndarray of shape (n,), float64
        Values of fixed ones; 0 for the others.
    bounds : ndarray of shape (n_free, 2), float64
    place : ndarray of shape (n,), int64
        Of each coefficient among the free ones; -1: it is fixed.
    """

    matrix: sp.csr_array
    fixed: Doubles
    bounds: Doubles
    place: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many are free."""
        return len(self.bounds)

    @property
    def bounded(self) -> bool:
        """Whether any has a bound."""
        return bool(np.isfinite(self.bounds).any())

    def expand(self, free: Doubles) -> Doubles:
        """Return all coefficients of the free ones."""
        return np.asarray(self.fixed + self.matrix @ free)

    def reduce(self, gradient: Doubles) -> Doubles:
        """Return the gradient by the free ones of that by all."""
        return np.asarray(self.matrix.T @ gradient)

    def select(self, theta: Doubles) -> Doubles:
        """Return the free ones among all, equal ones by their mean."""
        return np.asarray(self.reduce(theta) / np.maximum(self.matrix.sum(axis=0), 1))

    def inside(self, theta: Doubles) -> NDArray[np.bool_]:
        """Return whether each free one is within its bounds, (n_free,)."""
        (low, high), values = self.bounds.T, self.select(theta)
        return np.asarray((values > low) & (values < high))


def find_free_coefficients(form: ChoiceForm, constraints: Mapping[str, Any]) -> FreeCoefficients:
    """Return the free coefficients of a form, given constraints by name.

    Parameters
    ----------
    form : ChoiceForm
    constraints : mapping of str to "positive", "negative", a number or a name
        The sign of a coefficient, its value, or another coefficient that it equals.

    Returns
    -------
    FreeCoefficients

    Raises
    ------
    ValueError
        If there is no such coefficient.
    """
    place, fixed, low, high = _core.free_coefficients(form.core, form.names, [*constraints.items()])
    movable = np.flatnonzero(place >= 0)
    matrix = sp.csr_array((np.ones(len(movable)), (movable, place[movable])), shape=(form.n, len(low)))
    return FreeCoefficients(matrix, fixed, np.stack([low, high], axis=1), place)


@dataclass(frozen=True)
class ChoiceFit:
    """Coefficients at the end of a training.

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


def precondition(
    objective: ChoiceObjective, free: FreeCoefficients, theta: Doubles, seed: int, n_rows: int, near: bool = False
) -> Doubles:
    """Return T with T T' near the inverse of the second derivatives of some rows, or the diagonal that it has.

    Those by factors of W depend on these, and those of noise other than Gumbel's take as long as iterations that they
    save: both are made `near` the minimum only, for steps with drawn alternatives.
    """
    sets = objective.sets
    metric = min(n_rows, sets.n_rows) * free.n**2 + 2 * free.n**3  # products that make it, and its eigenvectors
    evaluation = sets.n_pairs * (1 + len(sets.pair_names)) + sets.n_rows * free.n
    pays = 0 < metric <= max(EVALUATIONS_SAVED * evaluation, A_MOMENT)
    form = objective.form
    has_metric = form.core.has_metric() if near else form.model == "gumbel" and form.core.has_scores()
    if has_metric and pays:
        rows = np.sort(np.random.RandomState(seed).permutation(objective.sets.n_rows)[:n_rows])
        second_derivatives = replace(objective, sets=objective.sets.take(rows)).metric(theta)
        free_derivatives = free.matrix.T @ second_derivatives @ free.matrix
        return whiten(free_derivatives, free.bounded, flat=0.0 if form.rank > 0 else 1e3)
    return free.select(1 / next(objective.problems).scales())


def whiten(second_derivatives: Doubles, bounded: bool, flat: float = 1e3) -> Doubles:
    """Return T with T T' near the inverse of second derivatives, or the diagonal that it has where bounds need one.

    Parameters
    ----------
    second_derivatives : ndarray of shape (n, n), float64
    bounded : bool
    flat : float
        T along directions in which nothing changes, relative to the diagonal: 0 for factors of W, as steps across
        these reach every W.
    """
    diagonal = np.diag(second_derivatives)
    scale = np.sqrt(np.maximum(diagonal, 1e-12 * max(np.max(diagonal, initial=0), 1e-300)))
    if bounded:
        return np.asarray(1 / scale)
    values, vectors = np.linalg.eigh(second_derivatives / np.outer(scale, scale))
    roots = np.where(values < 1e-6, flat, 1 / np.sqrt(np.maximum(values, 1e-6)))
    return np.asarray((vectors * roots) / scale[:, None])


def _times(T: Doubles, vector: Doubles) -> Doubles:
    """T, or the diagonal matrix that it stands for, times a vector."""
    return np.asarray(T @ vector if T.ndim == 2 else T * vector)


def fit_exactly(
    objective: ChoiceObjective,
    free: FreeCoefficients,
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
    free : FreeCoefficients
    start : ndarray of shape (n,), float64
    tol : float
        The largest derivative in these coordinates, which is about the distance from the minimum in units of
        sqrt(loss): 1e-6 leaves coefficients within some 1e-6 sqrt(n_rows) of their standard errors.
    max_iter : int
    seed : int, of rows drawn for the metric
    watch : callable
        It is called with the loss of each iteration.

    Returns
    -------
    ChoiceFit
    """
    start, n_metric_rows = _start_from_few_rows(objective, free, start, seed)
    T = precondition(objective, free, start, seed, n_metric_rows)
    return descend(objective, free, start, T, tol=tol, max_iter=max_iter, watch=watch)


def descend(
    objective: Callable[[Doubles], tuple[float, Doubles]],
    free: FreeCoefficients,
    start: Doubles,
    T: Doubles,
    *,
    tol: float,
    max_iter: int,
    watch: Callable[[float], None],
) -> ChoiceFit:
    """Minimise any function of coefficients by L-BFGS, in the coordinates of `precondition`.

    Parameters
    ----------
    objective : callable, which returns the value and the gradient
    free : FreeCoefficients
    start : ndarray of shape (n,), float64
    T : ndarray of shape (n_free, n_free) or (n_free,), float64
        What makes free coefficients of coordinates; of shape (n_free,) where some have bounds.
    tol : float, as in `fit_exactly`
    max_iter : int
    watch : callable
        It is called with the loss of each iteration.

    Returns
    -------
    ChoiceFit
    """
    begin = free.select(start)
    losses: list[float] = []
    curve: list[float] = []

    def value(coordinates: Doubles) -> tuple[float, Doubles]:
        loss, gradient = objective(free.expand(_times(T, coordinates)))
        losses.append(loss)
        return loss, _times(T.T, free.reduce(gradient))

    def end_iteration(_: Any) -> None:
        curve.append(losses[-1])
        watch(losses[-1])

    bounds = free.bounds / T[:, None] if free.bounded else None  # T is then a diagonal
    ends = {"maxiter": max_iter, "maxfun": 3 * max_iter, "gtol": tol, "ftol": 0.0}
    options = {**ends, "maxcor": 20, "maxls": 40}
    how: dict[str, Any] = {"method": "L-BFGS-B", "bounds": bounds, "callback": end_iteration, "options": options}
    coordinates = np.linalg.solve(T, begin) if T.ndim == 2 else begin / T
    minimum = scipy.optimize.minimize(value, coordinates, jac=True, **how)
    slope = minimum.jac if bounds is None else slope_within_bounds(minimum.jac, minimum.x, bounds)
    # A line search ends where rounding hides the descent, some digits before a gradient of 1e-8.
    converged = bool(np.max(np.abs(slope), initial=0) <= max(100 * tol, 1e-5))
    theta = free.expand(_times(T, minimum.x))
    return ChoiceFit(theta, np.array(curve or [minimum.fun]), converged, np.zeros(len(theta)))


def slope_within_bounds(slope: Doubles, values: Doubles, bounds: Doubles) -> Doubles:
    """Return a gradient that is 0 where it points out of bounds that values have reached.

    Parameters
    ----------
    slope : ndarray of shape (n,), float64
    values : ndarray of shape (n,), float64
    bounds : ndarray of shape (n, 2), float64
    """
    low, high = bounds.T
    return np.where((values <= low) & (slope > 0) | (values >= high) & (slope < 0), 0.0, slope)


def _start_from_few_rows(
    objective: ChoiceObjective, free: FreeCoefficients, start: Doubles, seed: int
) -> tuple[Doubles, int]:
    """Coefficients fitted on a part of very many rows, and how many rows the metric there is to have."""
    n_rows = objective.sets.n_rows
    if n_rows <= MANY_ROWS * START_ROWS or objective.form.rank > 0:
        return start, 2000
    rows = np.sort(np.random.RandomState(seed).permutation(n_rows)[:START_ROWS])
    first = replace(objective, sets=objective.sets.take(rows))
    fit = fit_exactly(first, free, start, tol=1e-5, max_iter=50, seed=seed, watch=lambda _: None)
    return fit.theta, START_ROWS


@dataclass(frozen=True)
class _Draws:
    """Draws of alternatives for the rows of an objective, named by an epoch."""

    objective: ChoiceObjective
    n_draws: int
    seed: int

    def sets(self, rows: NDArray[np.int64], epoch: int) -> ChoiceSets:
        """Rows with alternatives drawn for them, half of them popular ones where all are available."""
        sets = self.objective.weighted
        share, n_threads = 0.0 if sets.lists.only else 0.5, self.objective.n_threads
        return sets.draw(rows, self.n_draws, share=share, seed=self.seed, epoch=epoch, n_threads=n_threads)

    def problem(self, rows: NDArray[np.int64], epoch: int) -> _core.ChoiceProblem:
        """The same as the core takes them."""
        return next(make_problems(self.objective.form, self.sets(rows, epoch), self.objective.n_threads))


def fit_drawn(
    objective: ChoiceObjective,
    free: FreeCoefficients,
    start: Doubles,
    *,
    n_draws: int,
    n_passes: int,
    seed: int,
    watch: Callable[[float], None],
) -> ChoiceFit:
    """Minimise the double sum over rows and drawn alternatives, or the bound of augment and reduce, without bias.

    It starts where the likelihood of 20,000 rows with drawn alternatives is largest (McFadden 1978; 5,000 of noise that
    is not Gumbel's), and steps in the metric of the second derivatives there. Steps, and what rows carry, are the
    core's choice/drawn_descent.hpp.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    start : ndarray of shape (n,), float64
    n_draws : int, alternatives by row and pass
    n_passes : int
    seed : int
    watch : callable
        It is called with the loss of each pass.

    Returns
    -------
    ChoiceFit
    """
    draws, noise, n = _Draws(objective, n_draws, seed), objective.form.model, objective.sets.n_rows
    random = np.random.RandomState(seed)
    first_rows = np.sort(random.permutation(n)[: START_ROWS if noise == "gumbel" else START_ROWS // 4])
    first = replace(objective, sets=draws.sets(first_rows, 0))
    near = fit_exactly(first, free, start, tol=1e-4, max_iter=50, seed=seed, watch=lambda _: None)
    T = precondition(first, free, near.theta, seed, len(first_rows), near=True)
    batch_size = int(np.clip(n // 50, 64, 8192))
    n_steps = len(first_rows) / batch_size  # as if the rows of the start had been steps before
    descent = _begin_descent(objective, free, near.theta, T, n_steps)
    losses: list[float] = []
    begins = (1, 1 + n_passes // 3)  # where rows begin anew, as old estimates are those at old coefficients
    for epoch in range(1, n_passes + 1):
        order = random.permutation(n)
        visits = FIRST_VISITS + epoch - max(begin for begin in begins if begin <= epoch)
        for first_position in range(0, n, batch_size):
            rows = np.sort(order[first_position : first_position + batch_size])
            ids = rows.astype(np.int32)
            for visit in range(FIRST_VISITS if epoch in begins else 0):
                descent.look(ids, draws.problem(rows, n_passes + 10 * epoch + visit), visit)
            descent.step(ids, draws.problem(rows, epoch), visits)
        losses.append(descent.end_pass())
        watch(losses[-1])
    spread = descent.average_passes()
    row_variance = _row_variance(descent, draws, first_rows, T, 10 * (n_passes + 9) + FIRST_VISITS, visits)
    errors = np.sqrt(spread + row_variance / n)
    return ChoiceFit(descent.theta(), np.array(losses), True, np.abs(free.matrix @ errors))


def _begin_descent(
    objective: ChoiceObjective, free: FreeCoefficients, theta: Doubles, T: Doubles, n_steps: float
) -> _core.DrawnDescent:
    low, high = map(np.ascontiguousarray, free.bounds.T)
    return _core.DrawnDescent(
        place=free.place,
        fixed=free.fixed,
        low=low,
        high=high,
        own=free.select(theta),
        metric=np.ascontiguousarray(T),
        ridge=objective.ridge,
        n_rows=objective.sets.n_rows,
        n_steps=n_steps,
        noise=objective.form.model,
    )


def _row_variance(
    descent: _core.DrawnDescent, draws: _Draws, rows: NDArray[np.int64], T: Doubles, epoch: int, visits: int
) -> Doubles:
    """The variance that draws leave in coefficients by what one row carries, times the number of rows."""
    if draws.objective.form.model == "gumbel":
        # e^-u_i A_i weighs row i by a number that is not 1 but does not depend on the choice: estimates stay
        # consistent, and are off by their standard errors times its standard deviation. Its square is the mean of a
        # product of two estimates that are independent of each other.
        first_draw, second_draw = (draws.problem(rows, epoch + visit) for visit in range(2))
        weight_variance = descent.variance_of_weights(rows.astype(np.int32), first_draw, second_draw, visits)
        return np.asarray(weight_variance * (np.sum(T**2, axis=1) if T.ndim == 2 else T**2))  # by the diagonal of T T'
    groups = np.array_split(rows, min(len(rows), ERROR_GROUPS))
    moves = [descent.difference(group.astype(np.int32), draws.problem(group, epoch)) for group in groups]
    return np.asarray(np.sum(np.square(moves), axis=0) / len(rows))
