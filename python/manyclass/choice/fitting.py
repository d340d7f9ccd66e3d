"""Coefficients of choice models: their form, the objective, how it is minimised, and what is left of a fit.

The utility of alternative k for chooser i is x_i . W z_k + beta . (z_k, s_ik) + a_k + o_ik. All coefficients stand in
one vector, see cpp/manyclass/choice/form.hpp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass import _core
from manyclass.checks import check_number
from manyclass.choice.sets import ChoiceSets
from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import Doubles, Ids

Objective = Callable[[Doubles], tuple[float, Doubles]]  # which returns the value and the gradient
MOST_KEPT = 1 << 26  # features of pairs that are made once and kept: 512 MB
PARTS = ("alternatives", "pairs", "interactions", "constants", "dissimilarity")
LEAST_DISSIMILARITY = 0.05
STEP, LEAST_CURVATURE = 1e-6, 1e-7  # of differences of the gradient; less is none but rounding
SHOWN = 6  # names in a message
MOST_SCALED = 1000  # rows whose pairs tell scales
START_ROWS = 20_000  # of fits with drawn alternatives
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
    rank: int = 0
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    group_labels: tuple[str, ...] = ()
    nests: Ids = field(default_factory=lambda: np.zeros(0, np.int32))
    nest_labels: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def has_features(self) -> bool:
        """Whether there are features of alternatives."""
        return bool(self.alternative_names)

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
        kinds = {"chooser": self.chooser_names, "alternative": self.alternative_names, "pair": self.pair_names}
        counts: dict[str, Any] = {f"n_{kind}_features": len(names) for kind, names in kinds.items()}
        counts |= {"n_groups": len(self.group_labels), "n_nests": len(self.nest_labels)}
        counts["n_own_tastes"] = self.n_alternatives if self.own_tastes else 0
        return _core.ChoiceForm(model=self.model, rank=self.rank, groups=self.groups, nests=self.nests, **counts)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where the coefficients of each part stand."""
        ends = np.cumsum([0, *self.core.sizes()]).tolist()
        return {name: slice(a, b) for name, a, b in zip(PARTS, ends, ends[1:], strict=False)}

    @property
    def n(self) -> int:
        """How many coefficients there are."""
        return int(self.slices["dissimilarity"].stop)

    @property
    def n_redundant(self) -> int:
        """How many more factors a W of low rank has than free numbers."""
        n, k = len(self.chooser_names), len(self.alternative_names) or self.n_alternatives - 1
        least = min(self.rank, n, k)
        return self.rank * (n + k) - least * (n + k - least) if self.rank > 0 else 0

    @cached_property
    def names(self) -> list[str]:
        """Names: "a", "x:z" of W or, of low rank, "x[r]" and "z[r]", "constant[g]", "dissimilarity[n]"."""
        columns = self.labels[1:] if self.own_tastes else self.alternative_names
        if self.rank < 0:
            interactions = [f"{chooser}:{column}" for chooser in self.chooser_names for column in columns]
        else:
            interactions = [f"{name}[{r}]" for name in (*self.chooser_names, *columns) for r in range(self.rank)]
        constants = [f"constant[{label}]" for label in self.group_labels[1:]]
        dissimilarities = [f"dissimilarity[{label}]" for label in self.nest_labels]
        names = (*self.alternative_names, *self.pair_names, *interactions, *constants, *dissimilarities)
        return [*map(str, names)]

    def start(self, seed: int) -> Doubles:
        """Return coefficients to begin with: zeros, but small numbers by chance for a W of low rank."""
        theta = np.zeros(self.n)
        if self.rank > 0:
            factors = theta[self.slices["interactions"]]
            factors[:] = 0.1 * np.random.RandomState(seed).standard_normal(len(factors))
        theta[self.slices["dissimilarity"]] = 1.0
        return theta


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
    slope : ndarray of shape (n_free,), float64, or None
        The gradient there by free coefficients, where the fit is one by L-BFGS.
    """

    theta: Doubles
    losses: Doubles
    converged: bool
    draw_errors: Doubles
    slope: Any = None


@dataclass(frozen=True)
class DescentLimits:
    """When L-BFGS ends, and who is told of each iteration.

    Attributes
    ----------
    tol : float or None, where a user does not say
        The largest derivative in coordinates where second derivatives are near 1, which is about the distance from the
        minimum in units of sqrt(loss): 1e-6 leaves coefficients within some 1e-6 sqrt(n_rows) of their standard errors.
    max_iter : int
    watch : callable or None, which takes the loss of each iteration
    """

    tol: float | None
    max_iter: int
    watch: Callable[[float], None] | None = None

    def with_tol(self, tol: float) -> DescentLimits:
        """Return the same with this tol where a user does not say."""
        return replace(self, tol=self.tol or tol)


@dataclass(frozen=True)
class Covariance:
    """Covariances of estimates.

    Attributes
    ----------
    kind : {"hessian", "robust", "clustered", "none"}
    matrix : ndarray of shape (n, n), float64; rows of fixed coefficients are 0, of those at a bound NaN
    error : ndarray of shape (n,), float64
        Relative standard errors of the standard errors, where they come from rows drawn by chance; else 0.
    n_rows : int, the rows that they come from
    """

    kind: str
    matrix: Doubles
    error: Doubles
    n_rows: int


@dataclass(frozen=True)
class Identification:
    """What data tell of coefficients.

    Attributes
    ----------
    names : list of str, of all n coefficients
    basis : ndarray of shape (n, n_identified), float64
        The derivative of the coefficients by as many numbers as are identified.
    causes : dict of str to str
        By the name of a coefficient that the data do not tell, why.
    unknown : ndarray of shape (n,), bool, or False
        Those without a standard error: the causes but for what is fixed and what a ridge decides.
    has_maximum : bool, whether the likelihood, with its ridge, has one
    flat : ndarray of shape (n, n_flat), float64, or None
        Directions in which second derivatives are 0, which nothing but these tells of.
    """

    names: list[str]
    basis: Doubles
    causes: dict[str, str] = field(default_factory=dict)
    unknown: Any = False
    has_maximum: bool = True
    flat: Doubles | None = None

    @property
    def n(self) -> int:
        """How many numbers are identified, which information criteria and tests count."""
        return int(self.basis.shape[1])

    @classmethod
    def join(cls, parts: Sequence[Identification], names: list[str]) -> Identification:
        """Return that of the coefficients of parts, one after the other, and of more that are identified."""
        n = sum(len(part.names) for part in parts)
        parts = [*parts, cls(names[n:], np.eye(len(names) - n))]
        basis = scipy.linalg.block_diag(*(part.basis for part in parts))
        causes = [part.causes.get(name) for part in parts for name in part.names]
        unknown = np.concatenate([np.broadcast_to(part.unknown, len(part.names)) for part in parts])
        by_name = {name: cause for name, cause in zip(names, causes, strict=True) if cause}
        return cls(names, basis, by_name, unknown, all(part.has_maximum for part in parts))

    def describe(self) -> str:
        """Return what names the coefficients without standard errors and the causes; empty where all have."""
        by_cause: dict[str, list[str]] = {}
        for name in np.array(self.names, dtype=object)[np.broadcast_to(self.unknown, len(self.names))]:
            by_cause.setdefault(self.causes[name].split(":")[0], []).append(name)
        listed = "; ".join(f"{shorten_names(names)} ({cause})" for cause, names in by_cause.items())
        counted = f"{np.sum(self.unknown)} of {len(self.names)} coefficients have no standard errors"
        remedy = "Leave out or merge what the data do not tell, or set alpha"
        return f"{counted} and are not counted as free: {listed}. {remedy}" if by_cause else ""


def shorten_names(names: list[str]) -> str:
    """Return some names for a message."""
    shown = ", ".join(map(repr, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


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


class LogLikelihood(ABC):
    """Minus the mean log-likelihood of units, which are rows or persons, with a ridge, and its derivatives.

    Attributes
    ----------
    counts : ndarray of shape (n_units,), float64, weights of the units
    total : float, by which their sum is divided
    ridge : ndarray of shape (n,), float64
        The loss has ridge / 2 times the square of each coefficient added.
    n_rows : int
    """

    counts: Doubles
    total: float
    ridge: Doubles
    n_rows: int

    @cached_property
    def weights(self) -> Doubles:
        """Weights of the units in the mean."""
        return np.asarray(self.counts / self.total)

    @abstractmethod
    def losses(self, theta: Doubles) -> Doubles:
        """Return minus the log-likelihood of each unit, not weighted, in nats."""

    @abstractmethod
    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradients of these, (n_units, n); raises ValueError where the core has none."""

    @abstractmethod
    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient."""

    def log_likelihood(self, theta: Doubles) -> float:
        """Return the log-likelihood of all units, in nats."""
        return -float(np.sum(self.counts * self.losses(theta)))

    @abstractmethod
    def scales(self, theta: Doubles) -> Doubles:
        """Return about the square roots of the second derivatives, relative to each other."""

    def score_products(self, theta: Doubles, M: Any) -> Doubles:
        """Return the mean of products of gradients of units by M (Berndt, Hall, Hall & Hausman 1974)."""
        scores = self.scores(theta) @ M
        return np.asarray(scores.T @ (scores * self.weights[:, None]))

    def hessian(self, theta: Doubles, M: Any) -> Doubles:
        """Return the second derivatives along the columns of M, 0 where they are rounding.

        They are differences of the gradient, off by some 1e-6, along steps that move utilities by about 1e-6.
        """
        M = np.asarray(M)
        sizes = np.sqrt(self.scales(theta) ** 2 @ M**2)
        sizes[~((sizes > 0) & np.isfinite(sizes))] = 1.0
        moves, gradient = M / sizes, self(theta)[1]
        slopes = np.array([self(theta + STEP * move)[1] - gradient for move in moves.T]).reshape(moves.T.shape)
        second = slopes @ moves / STEP
        curved = np.diag(second) > LEAST_CURVATURE
        return np.asarray((second + second.T) / 2 * np.outer(curved * sizes, curved * sizes))


@dataclass
class ChoiceObjective(LogLikelihood):
    """The mean log-loss of choices with a ridge, and its derivatives.

    Attributes
    ----------
    form : ChoiceForm
    sets : ChoiceSets
    ridge : ndarray of shape (n,), float64
    n_threads : int
    """

    form: ChoiceForm
    sets: ChoiceSets
    ridge: Doubles
    n_threads: int

    def __post_init__(self) -> None:
        self.counts, self.n_rows = self.sets.weights, self.sets.n_rows
        self.total, self._curvature = float(self.counts.sum()), (b"", np.zeros(0))

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

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradient of each row's loss, (n_rows, n); raises ValueError where the core has none."""
        return np.concatenate([problem.scores(theta) for problem in self.problems])

    def hessian(self, theta: Doubles, M: Any) -> Doubles:
        """Return the second derivatives along the columns of M; raises ValueError as `scores` does."""
        if self.form.model == "nested":
            return super().hessian(theta, M)
        return np.asarray(M.T @ (self.curvature(theta) + np.diag(self.ridge)) @ M)

    def curvature(self, theta: Doubles) -> Doubles:
        """Return the second derivatives of the log-loss, which are kept until those elsewhere are asked for."""
        if self._curvature[0] != theta.tobytes():
            second = sum((problem.hessian(theta) for problem in self.problems), np.zeros((self.form.n, self.form.n)))
            self._curvature = theta.tobytes(), second
        return self._curvature[1]

    def metric(self, theta: Doubles) -> Doubles:
        """Return the second derivatives without those of W by its factors, where it has a low rank."""
        form, rank = self.form, self.form.rank
        if rank <= 0:
            return self.hessian(theta, sp.eye_array(form.n, format="csr"))
        part = form.slices["interactions"]
        left, right = np.split(theta[part].reshape(-1, rank), [len(form.chooser_names)])
        # W by its factors: rows are those of the full W, in order.
        by_right = np.einsum("ir,jk->ijkr", left, np.eye(len(right))).reshape(len(left) * len(right), -1)
        by_factors = np.hstack([np.kron(np.eye(len(left)), right), by_right])
        jacobian = scipy.linalg.block_diag(np.eye(part.start), by_factors, np.eye(form.n - part.stop))
        full = replace(self, form=replace(form, rank=-1), ridge=np.zeros(len(jacobian)))
        theta_of_full = np.concatenate([theta[: part.start], (left @ right.T).ravel(), theta[part.stop :]])
        return full.hessian(theta_of_full, jacobian) + np.diag(self.ridge)

    def scales(self, theta: Doubles) -> Doubles:
        """Return about the square roots of the second derivatives, relative to each other.

        They are the standard deviations of what coefficients are multiplied by; 1 where there are none.
        """
        form, sets = self.form, next(self.sets.parts())
        scales = np.ones(form.n)
        parts = {name: scales[part] for name, part in form.slices.items()}
        if sets.Z is not None:
            mean = np.asarray(sets.Z.mean(axis=0))
            squares = sets.Z.multiply(sets.Z) if is_sparse(sets.Z) else np.square(sets.Z)
            parts["alternatives"][:] = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)) - mean**2, 0))
        entries = sets.lists.features[: sets.lists.indptr[min(MOST_SCALED, sets.n_rows)]]
        if len(entries):
            parts["pairs"][:] = entries.std(axis=0)
        if form.rank < 0:
            n = max(form.n_alternatives - 1, 1)
            columns = parts["alternatives"] if form.has_features else np.full(n, 1 / np.sqrt(n))
            parts["interactions"][:] = np.outer(np.sqrt(np.square(sets.X).mean(axis=0)), columns).ravel()
        if len(form.group_labels):
            counts = 1 + np.bincount(form.groups[sets.known_choices], minlength=len(form.group_labels))
            parts["constants"][:] = np.sqrt(counts[1:] / sets.n_rows)
        scales[~(scales > 0)] = 1.0
        return scales

    def squared_spread(self, directions: Doubles) -> float:
        """Return the most that a unit sum of the directions, (n_directions, n), moves two utilities apart, squared."""
        return max((problem.squared_spread(directions) for problem in self.problems), default=0.0)


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
    """

    matrix: sp.csr_array
    fixed: Doubles
    bounds: Doubles

    @property
    def n(self) -> int:
        """How many are free."""
        return len(self.bounds)

    @property
    def bounded(self) -> bool:
        """Whether any has a bound."""
        return bool(np.isfinite(self.bounds).any())

    def repeat(self, n_classes: int, n_more: int) -> FreeCoefficients:
        """Return those of all coefficients some times, and of more that are free."""
        return FreeCoefficients(
            sp.csr_array(sp.block_diag([*[self.matrix] * n_classes, sp.eye_array(n_more)])),
            np.concatenate([*[self.fixed] * n_classes, np.zeros(n_more)]),
            np.concatenate([*[self.bounds] * n_classes, np.tile([-np.inf, np.inf], (n_more, 1))]),
        )

    def take(self, stays: NDArray[np.bool_]) -> FreeCoefficients:
        """Return those of which the others are held at 0."""
        return FreeCoefficients(self.matrix[:, np.flatnonzero(stays)], self.fixed, self.bounds[stays])

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


def find_free_coefficients(
    form: ChoiceForm, constraints: Mapping[str, Any], exponentials: Collection[str] = ()
) -> FreeCoefficients:
    """Return the free coefficients of a form, given constraints by name.

    Parameters
    ----------
    form : ChoiceForm
    constraints : mapping of str to "positive", "negative", a number or a name
        The sign of a coefficient, its value, or another coefficient that it equals.
    exponentials : collection of str, default=()
        Coefficients that are exponentials, whose sign is known.

    Returns
    -------
    FreeCoefficients

    Raises
    ------
    ValueError
        If there is no such coefficient.
    """
    names, nests = form.names, form.slices["dissimilarity"]
    position, owner = {name: j for j, name in enumerate(names)}, np.arange(form.n)
    fixed, bounds = np.full(form.n, np.nan), np.tile([-np.inf, np.inf], (form.n, 1))
    bounds[nests] = LEAST_DISSIMILARITY, 1
    for name, rule in constraints.items():
        if name not in position:
            known = ", ".join(names[:20])
            raise ValueError(f"constraints has {name!r}, which is no coefficient; there are {known}")
        j = position[name]
        is_nest = j >= nests.start
        signs = ("positive",) if is_nest else ("positive", "negative")
        if rule in signs and name not in exponentials:
            least = LEAST_DISSIMILARITY if is_nest else 0
            bounds[j] = (least, np.inf) if rule == "positive" else (-np.inf, 0)
        elif not isinstance(rule, str):
            check_number(f"constraints of {name!r}", rule, low=0 if is_nest else -np.inf, open_low=is_nest)
            fixed[j] = rule
        elif rule in position and (position[rule] >= nests.start) == is_nest:
            owner[j] = position[rule]
        else:
            raise ValueError(
                f"constraints says that {name!r} is {rule!r}; it must be 'positive', 'negative', where no "
                "log-normal distribution says the sign, a number or another coefficient"
            )
    last = owner
    for _ in constraints:  # one after another, as what one equals may equal a third
        last = owner[last]
    for j in np.flatnonzero(owner[last] != last)[:1]:
        raise ValueError(f"constraints says twice that {names[j]} and another coefficient are equal")
    movable = np.flatnonzero(np.isnan(fixed[last]))
    owners, place = np.unique(last[movable], return_inverse=True)
    matrix = sp.csr_array((np.ones(len(movable)), (movable, place)), shape=(form.n, len(owners)))
    return FreeCoefficients(matrix, np.nan_to_num(fixed[last]), bounds[owners])


def precondition(
    objective: ChoiceObjective, free: FreeCoefficients, theta: Doubles, seed: int, near: bool, n_rows: int = 2000
) -> Any:
    """Return T with T T' near the inverse of the second derivatives of some rows, or the diagonal that it has, sparse.

    Those by factors of W depend on these, and those of noise other than Gumbel's take as long as iterations that they
    save: both are made `near` the minimum only, for steps with drawn alternatives. It is a diagonal where coefficients
    have bounds.
    """
    sets, form = objective.sets, objective.form
    metric = min(n_rows, sets.n_rows) * free.n**2 + 2 * free.n**3  # products that make it, and its eigenvectors
    evaluation = sets.n_pairs * (1 + len(sets.pair_names)) + sets.n_rows * free.n
    pays = 0 < metric <= max(EVALUATIONS_SAVED * evaluation, A_MOMENT)
    linear = replace(form, rank=-bool(form.rank)) if near else form
    if not pays or not linear.core.has_scores() or not (near or form.model == "gumbel"):
        return sp.diags_array(free.select(1 / objective.scales(theta))).tocsr()  # of none, DIA has no transpose
    rows = np.sort(np.random.RandomState(seed).permutation(sets.n_rows)[:n_rows])
    second_derivatives = free.matrix.T @ replace(objective, sets=sets.take(rows)).metric(theta) @ free.matrix
    flat = 0.0 if form.rank > 0 else 1e3
    return whiten(second_derivatives, free.bounded, flat)


def whiten(second_derivatives: Doubles, bounded: bool, flat: float = 1e3) -> Any:
    """Return T with T T' near the inverse of second derivatives, or a sparse diagonal one where bounds need it.

    Parameters
    ----------
    second_derivatives : ndarray of shape (n, n), float64
    bounded : bool
    flat : float
        T along directions in which nothing changes, relative to the diagonal: 0 for factors of W, as steps across
        these reach every W.
    """
    diagonal = np.diag(second_derivatives)
    scale = np.sqrt(np.maximum(diagonal, 1e-12 * max(np.max(diagonal, initial=0), 1e-24)))
    if bounded:
        return sp.diags_array(1 / scale).tocsr()
    values, vectors = np.linalg.eigh(second_derivatives / np.outer(scale, scale))
    roots = np.where(values < 1e-6, flat, 1 / np.sqrt(np.maximum(values, 1e-6)))
    return np.asarray((vectors * roots) / scale[:, None])


def fit_exactly(objective: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, seed: int) -> ChoiceFit:
    """Minimise by L-BFGS, in coordinates where the second derivatives are near 1.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    limits : DescentLimits
    seed : int, of the start of W of low rank, and of rows drawn for the metric

    Returns
    -------
    ChoiceFit
    """
    start = free.expand(np.clip(free.select(objective.form.start(seed)), *free.bounds.T))
    return descend(objective, free, start, precondition(objective, free, start, seed, near=False), limits)


def descend(objective: Objective, free: FreeCoefficients, start: Doubles, T: Any, limits: DescentLimits) -> ChoiceFit:
    """Minimise any function of coefficients by L-BFGS, in the coordinates of `precondition`.

    Parameters
    ----------
    objective : callable
    free : FreeCoefficients
    start : ndarray of shape (n,), float64
    T : ndarray or sparse array of shape (n_free, n_free), float64
        What makes free coefficients of coordinates; sparse and diagonal where some have bounds.
    limits : DescentLimits

    Returns
    -------
    ChoiceFit
    """
    begin, tol = free.select(start), limits.tol or 0.0
    curve: list[float] = []

    def value(coordinates: Doubles) -> tuple[float, Doubles]:
        loss, gradient = objective(free.expand(T @ coordinates))
        return loss, T.T @ free.reduce(gradient)

    def end_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        curve.append(float(intermediate_result.fun))
        if limits.watch is not None:
            limits.watch(curve[-1])

    bounds = free.bounds / T.diagonal()[:, None] if free.bounded else None
    ends = {"maxiter": limits.max_iter, "maxfun": 3 * limits.max_iter, "gtol": tol, "ftol": 0.0}
    options = {**ends, "maxcor": 20, "maxls": 40}
    how: dict[str, Any] = {"method": "L-BFGS-B", "bounds": bounds, "callback": end_iteration, "options": options}
    coordinates = np.linalg.solve(T, begin) if isinstance(T, np.ndarray) else begin / T.diagonal()
    minimum = scipy.optimize.minimize(value, coordinates, jac=True, **how)
    slope = minimum.jac if bounds is None else slope_within_bounds(minimum.jac, minimum.x, bounds)
    # A line search ends where rounding hides the descent, some digits before a gradient of 1e-8.
    converged = bool(np.max(np.abs(slope), initial=0) <= max(100 * tol, 1e-5))
    theta = free.expand(T @ minimum.x)
    by_free: Any = np.linalg.solve(T.T, minimum.jac) if isinstance(T, np.ndarray) else minimum.jac / T.diagonal()
    return ChoiceFit(theta, np.array(curve or [minimum.fun]), converged, np.zeros(len(theta)), by_free)


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


# What varies among persons, and a fitted model


class MixtureState(ABC):
    """What a fitted mixture is beside its coefficients, whose `names` it has, and the `title` of the model."""

    names: Any
    title: Any

    @abstractmethod
    def mean(self, name: str, theta: Doubles, logit: ChoiceObjective) -> Doubles:
        """Return the mean over persons of "probabilities" or "inclusive_values" of each row."""

    @abstractmethod
    def objective(self, logit: ChoiceObjective) -> LogLikelihood:
        """Return that of persons whose choices are those of a logit."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return what `ChoiceMixture.restore` takes, as JSON holds it."""


FittedMixture = tuple[LogLikelihood, MixtureState, ChoiceFit, Identification]


class ChoiceMixture(BaseEstimator, ABC):
    """What varies among persons: the parameter `mixture` of `ChoiceClassifier`."""

    kinds: ClassVar[dict[str, type[ChoiceMixture]]] = {}
    solvers: ClassVar[tuple[str, ...]] = ("auto", "lbfgs", "double_sum")
    is_clustered: ClassVar = True  # errors of covariance="auto", where rows have persons

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ChoiceMixture.kinds[cls.__name__] = cls

    @abstractmethod
    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""

    @abstractmethod
    def fit(self, logit: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, seed: int) -> FittedMixture:
        """Fit the mixture to choices; return what it minimised, what it is beside coefficients, and what data tell.

        Parameters
        ----------
        logit : ChoiceObjective
            That of one person's coefficients, of Gumbel noise without nests, W being none or full.
        free : FreeCoefficients, of the logit
        limits : DescentLimits
        seed : int
        """

    @abstractmethod
    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> MixtureState:
        """Return the state that was described in a file."""


@dataclass(frozen=True)
class ChoiceState:
    """A fitted choice model.

    Attributes
    ----------
    form : ChoiceForm
    alternatives : ndarray of shape (n_alternatives,), labels
    Z : ndarray, csr_array or None
    fit : ChoiceFit
    covariance : Covariance
    n_rows : int
    n_free : int
        Coefficients that are neither fixed nor equal to others, as far as data tell them.
    log_likelihood : float
        NaN where alternatives were drawn.
    null_log_likelihood : float
        The same with equal probabilities of what is available.
    solver : {"lbfgs", "double_sum"}
    mixture : MixtureState or None
    unidentified : mapping of str to str
        Causes by the names of coefficients that data do not tell.
    """

    form: ChoiceForm
    alternatives: NDArray[Any]
    Z: Any
    fit: ChoiceFit
    covariance: Covariance
    n_rows: int
    n_free: int
    log_likelihood: float
    null_log_likelihood: float
    solver: str
    mixture: MixtureState | None = None
    unidentified: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        return self.form.names if self.mixture is None else self.mixture.names
