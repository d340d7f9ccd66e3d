"""Which coefficients of a choice model its data tell, how well, and why they do not tell the others.

A maximum of the likelihood exists, and is one point, unless some direction of the coefficients moves no chosen
alternative below another one of its set: a direction of recession (Albert and Anderson 1984; for choice sets, Lesaffre
and Albert 1989). This is a property of the differences between the features of chosen and other alternatives alone, for
every noise that may be arbitrarily large: those of a model are those of the multinomial logit with its features, whose
second derivatives along them go to 0. More rows only take directions away: what some rows identify, all do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.choice.fitting import (
    ChoiceFit,
    ChoiceForm,
    ChoiceObjective,
    Covariance,
    FreeCoefficients,
    Identification,
    LogLikelihood,
    list_features,
    shorten_names,
    slope_within_bounds,
)
from manyclass.choice.sets import ChoiceSets
from manyclass.weights.arrays import Doubles

# Pairs of a row and an alternative beyond which covariances are those of rows drawn by chance, and how many these have:
# without and with a function of pairs.
MOST_PAIRS, DRAWN_PAIRS = (1 << 31, 1 << 27), (1 << 28, 1 << 26)
AS_A_QUADRATURE = 64  # exponentials of a logit take the time of one quadrature of other noise
FOLDS = 8
COVARIANCES = ("auto", "hessian", "robust", "clustered", "none")
MOST_FREE = 1000  # coefficients, beyond which only bounds are looked at
MOST_NUMBERS = 1 << 14  # features of the rows that are looked at before all are
DRAWN = 32  # alternatives of such a row where there are more than twice as many, and rows of each rare value
EQUAL = 1e-12  # of a feature's size: differences that are rounding; and of its variance, what other features leave
NEARLY_EQUAL = 1e-6  # of a feature's standard deviation: gradients of rows below it are looked at
FLAT = 1e-10  # of second derivatives where all alternatives are alike: those of utilities that are far apart
SEEN = 1e-14  # of a loss: less is lost in rounding
SMALL = 1e-3  # of the same: where a direction may be one of recession, longer steps are tried
ROUNDING = 1e-15  # of second derivatives: less is none
ROUNDED = 1e-9  # of a mean loss: differences that may be rounding
NEAR = 0.01  # moves of utilities by a Newton step that ends at a maximum: towards none, each moves some by 1
MOST_WALKED = 300  # coefficients of which all directions are looked for
MOST_STEPS = 60
NEARLY_FLAT = 1e-8  # of second derivatives whose diagonal is 1: no two columns are nearly one
MOST_UTILITIES = 1 << 20  # of rows that tell sizes of features
MOVES = 1e-5  # of a direction in standard units: the least part that counts
QUIET = "nest of one alternative"  # what is usual, and known without data


# From what the likelihood is at the estimate


def identify_by_information(
    information: Doubles, known: Identification, tol: float = 1e-13
) -> tuple[Identification, Doubles]:
    """Return an identification without the directions in which second derivatives are 0, and the others' inverse.

    Parameters
    ----------
    information : ndarray of shape (known.n, known.n), float64, the second derivatives by the identified numbers
    known : Identification
        That of n coefficients of which nothing else is known is ``Identification(names, np.eye(n))``.
    tol : float, of an eigenvalue where the diagonal is 1

    Returns
    -------
    identified : Identification
    root : ndarray of shape (known.n, identified.n), float64
        T with T T' the inverse on what is identified.
    """
    diagonal = np.diag(information)
    scale = np.sqrt(np.where(diagonal > 1e-290, diagonal, 1.0))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    flat = values < tol
    directions = vectors / scale[:, None]
    root = directions[:, ~flat] / np.sqrt(values[~flat])
    if not flat.any():
        return known, root
    directions_of_all = known.basis @ directions
    moves = np.linalg.norm(directions_of_all[:, flat], axis=1)
    lost = moves > MOVES * np.maximum(np.linalg.norm(known.basis / scale, axis=1), 1e-300)
    causes = {name: "flat" for name, moved in zip(known.names, lost, strict=True) if moved}
    basis = directions_of_all[:, ~flat]
    known = replace(known, basis=basis, causes={**causes, **known.causes}, unknown=known.unknown | lost)
    return replace(known, flat=directions_of_all[:, flat]), root


# From the data alone


@dataclass(frozen=True)
class LinearLogit:
    """The multinomial logit of the free coefficients in which utilities are linear, whatever the noise and the nests.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,), int64, the free coefficients of the columns
    M : csr_array of shape (n_linear, n_columns), the derivative of the linear coefficients by these
    objective : ChoiceObjective of the linear coefficients
    """

    columns: NDArray[np.int64]
    M: sp.csr_array
    objective: ChoiceObjective

    @classmethod
    def of(cls, objective: ChoiceObjective, free: FreeCoefficients, inside: NDArray[np.bool_]) -> LinearLogit:
        """Return that of the free coefficients inside their bounds."""
        form = objective.form
        # All but dissimilarities, and a W of low rank.
        parts = ("alternatives", "pairs", *(("interactions",) if form.rank < 0 else ()), "constants")
        linear = free.matrix[np.concatenate([np.arange(form.n)[form.slices[part]] for part in parts])]
        columns = np.flatnonzero(inside & (abs(linear).sum(axis=0) > 0))
        form = replace(form, noise="gumbel", rank=min(form.rank, 0), nests=np.zeros(0, np.int32), nest_labels=())
        logit = ChoiceObjective(form, objective.sets, np.zeros(form.n), objective.n_threads)
        return cls(columns, sp.csr_array(linear[:, columns]), logit)

    @property
    def has_curvature(self) -> bool:
        """Whether there are columns, and no more of them than second derivatives are known of."""
        return 0 < len(self.columns) <= MOST_FREE and self.objective.form.core.has_scores()

    def take_few(self, seed: int) -> LinearLogit:
        """Return the same of rows drawn by chance, with some of each chosen alternative and each rare value."""
        n, sets, form = len(self.columns), self.objective.sets, self.objective.form
        rows, n_alternatives = np.flatnonzero(sets.weights > 0), -(-sets.n_pairs // sets.n_rows)
        n_rows = max(64, max(MOST_NUMBERS // n, 10 * n) // min(n_alternatives, DRAWN))
        if len(rows) <= n_rows:
            return self
        drawn = [rows[np.random.RandomState(seed).permutation(len(rows))[:n_rows]]]
        if len(form.groups) or form.own_tastes:
            drawn.append(rows[np.unique(sets.known_choices[rows], return_index=True)[1]])
        drawn += [rows[np.flatnonzero(column[rows] != column[rows[0]])[:DRAWN]] for column in sets.X.T]
        rows = np.unique(np.concatenate(drawn))
        if n_alternatives > 2 * DRAWN:
            few = sets.draw(rows, DRAWN, share=0.0, seed=seed, epoch=0, n_threads=self.objective.n_threads)
        else:
            few = list_features(sets.take(rows))
        return replace(self, objective=replace(self.objective, sets=few))

    def evaluate(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the loss and its gradient by the columns."""
        loss, gradient = self.objective(self.M @ theta)
        return loss, self.M.T @ gradient

    def hessian(self, theta: Doubles) -> Doubles:
        """Return the second derivatives by the columns."""
        return self.objective.hessian(self.M @ theta, self.M)

    def spread(self, direction: Doubles) -> float:
        """Return the most that a direction of the columns moves two utilities apart."""
        return float(np.sqrt(self.objective.squared_spread((self.M @ direction)[None])))

    def find_sizes(self, places: Iterable[int]) -> Doubles:
        """Return about the sizes of some columns."""
        objective, units = self.objective, np.eye(len(self.columns))
        rows = np.arange(objective.sets.n_rows)[: max(1, min(64, MOST_UTILITIES // objective.sets.n_alternatives))]
        sets = list_features(objective.sets.take(rows))
        (problem,) = replace(objective, sets=sets).problems
        offsets = problem.utilities(np.zeros(objective.form.n))
        there = np.isfinite(offsets)
        moved = (problem.utilities(self.M @ units[place])[there] - offsets[there] for place in places)
        return np.array([np.max(np.abs(utilities)) for utilities in moved])

    def find_cone(self, theta: Doubles) -> Cone | None:
        """Return the directions that the rows leave open, from coefficients of the columns on.

        Newton's steps end at a maximum, or lead along a direction of recession: second derivatives fall there, for
        ever. A step that moves no two utilities apart by 1 proves the former (compare `certify`); None: not known.
        """
        n = len(self.columns)
        sizes, gram = self.find_sizes(range(n)), self.hessian(np.zeros(n))
        constant = np.diag(gram) <= (EQUAL * sizes) ** 2
        scale = np.where(constant, np.where(sizes > 0, sizes, 1.0), np.sqrt(np.diag(gram)))
        values, vectors = np.linalg.eigh(np.where(constant | constant[:, None], 0.0, gram / np.outer(scale, scale)))
        none = values < EQUAL
        # Units in which second derivatives are 1 at first.
        null, units = vectors[:, none], vectors[:, ~none] / np.sqrt(values[~none]) / scale[:, None]
        theta, n_flat = theta.copy(), 0
        for _ in range(MOST_STEPS):
            values, vectors = np.linalg.eigh(units.T @ self.hessian(theta) @ units)
            loss, gradient = self.evaluate(theta)
            slope = vectors.T @ (units.T @ gradient)
            flat = (values < FLAT) & (np.abs(slope) < np.sqrt(FLAT))
            steps = units @ vectors * (slope / np.maximum(values, ROUNDING))
            if flat.sum() in (n_flat, len(flat)) and self.spread(steps @ ~flat) < NEAR:
                return Cone(scale, null, scipy.linalg.orth(scale[:, None] * (units @ vectors[:, flat])))
            n_flat, step = flat.sum(), steps.sum(axis=1)
            while (gain := 0.1 * float(gradient @ step)) > SEEN * (loss + SEEN):
                if self.evaluate(theta - step)[0] <= loss - gain:
                    break
                step = step / 2
            theta, further = theta - step, steps @ (values < SMALL)
            after = self.evaluate(theta)[0]
            while further.any() and (lower := self.evaluate(theta - further)[0]) < after:
                theta, after, further = theta - further, lower, 2 * further
        return None

    def find_cone_of_all(self, theta: Doubles, seed: int) -> Cone:
        """Return the directions that all rows leave open, which are looked at where few leave any.

        Where rows or coefficients are too many for that, only those of what is never chosen are known.
        """
        form, sets, n = self.objective.form, self.objective.sets, len(self.columns)
        gone, never = np.zeros(sets.n_alternatives, bool), np.zeros(n, bool)
        if len(form.groups):
            # The constant of alternatives that are never chosen ends at -infinity, where these are out of the sets.
            owned = self.find_owned(~_ever_chosen(sets) & available_alternatives(sets))
            gone = np.append(False, abs(self.M[form.slices["constants"]]) @ owned > 0)[form.groups]
            never = self.find_owned(gone)
        open_sets = replace(sets, offsets=np.where(gone, -np.inf, sets.offsets))
        rest = LinearLogit(
            self.columns[~never], self.M[:, np.flatnonzero(~never)], replace(self.objective, sets=open_sets)
        )
        cone = None
        if rest.has_curvature and len(rest.columns) <= MOST_WALKED:
            cone = rest.take_few(seed).find_cone(theta[~never])
            if cone is None or cone.directions.size:
                cone = rest.find_cone(theta[~never]) if sets.n_pairs <= MOST_PAIRS[0] else None
        return (cone or Cone(np.ones(len(rest.columns)), *np.zeros((2, len(rest.columns), 0)))).extend(never)

    def find_owned(self, alternatives: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether each column belongs to some alternatives only."""
        return ~(abs(self.M).T @ ~_owned(self.objective.form, alternatives)).astype(bool)


@dataclass(frozen=True)
class Cone:
    """Directions that rows leave open, in standard units: coefficients times `scale`.

    Attributes
    ----------
    scale : ndarray of shape (n,), float64
    null : ndarray of shape (n, n_null), float64, those that move no utility
    recession : ndarray of shape (n, n_open), float64, those that move chosen alternatives above others
    """

    scale: Doubles
    null: Doubles
    recession: Doubles

    @cached_property
    def directions(self) -> Doubles:
        """All of them, (n, n_null + n_open)."""
        return np.hstack([self.null, self.recession])

    def extend(self, never: NDArray[np.bool_]) -> Cone:
        """Return the same with more coefficients, whose places are told, each of which is a direction of recession."""
        units, there = np.eye(len(never)), ~never
        recession = np.hstack([units[:, there] @ self.recession, units[:, never]])
        return Cone(units[:, there] @ self.scale + never, units[:, there] @ self.null, recession)


def hold_constant(
    objective: ChoiceObjective, free: FreeCoefficients, seed: int
) -> tuple[FreeCoefficients, dict[str, str]]:
    """Hold at 0 what moves no utility beside others, and has no ridge; return what is left, and causes by name.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    seed : int, of the rows that are looked at first
    """
    logit, n = LinearLogit.of(objective, free, np.ones(free.n, bool)), free.n
    if not logit.has_curvature:
        return free, {}
    few, units = logit.take_few(seed), np.eye(len(logit.columns))
    theta = np.zeros(logit.objective.form.n)
    scores = few.objective.scores(theta)[few.objective.counts > 0] @ logit.M
    constant = np.max(np.abs(scores), axis=0) <= NEARLY_EQUAL * np.sqrt(logit.objective.scales(theta) ** 2 @ logit.M)
    places = np.flatnonzero(constant & ((free.matrix.T @ objective.ridge)[logit.columns] == 0))
    sizes = zip(places, few.find_sizes(places), strict=True)
    held = [j for j, size in sizes if logit.spread(units[j]) <= EQUAL * size]
    nowhere = _owned(objective.form, ~available_alternatives(objective.sets))
    causes = {
        objective.form.names[position]: "never available" if nowhere[position] else "no variation"
        for position in np.flatnonzero(free.matrix[:, logit.columns[held]].sum(axis=1))
    }
    return free.take(~np.isin(np.arange(n), logit.columns[held])), causes


def find_unidentified(
    objective: ChoiceObjective, free: FreeCoefficients, fit: ChoiceFit, held: Mapping[str, str], seed: int
) -> Identification:
    """Return what the data tell of the coefficients of a fitted model, whatever its noise and nests.

    Some rows are looked at, then all where these leave something open.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    fit : ChoiceFit, without slope where second derivatives are not needed for errors
    held : mapping of str to str
        Causes by the names of coefficients that the fit held fixed.
    seed : int, of the rows that are looked at first

    Returns
    -------
    Identification
    """
    names, values, inside = objective.form.names, free.select(fit.theta), free.inside(fit.theta)
    places = zip(*free.matrix.nonzero(), strict=True)
    causes = {names[j]: f"at its bound {values[place]:g}" for j, place in places if not inside[place]} | dict(held)
    unknown = np.isin(names, [name for name, cause in causes.items() if cause != QUIET])
    state = Identification(names, free.matrix[:, np.flatnonzero(inside)].toarray(), causes, unknown)
    logit = LinearLogit.of(objective, free, inside)
    if free.n > MOST_FREE or not len(logit.columns):
        return state
    if fit.slope is not None and _is_maximum(objective, free.matrix[:, logit.columns], fit, logit.columns):
        return state
    cone = logit.find_cone_of_all(values[logit.columns], seed)
    return _without(cone, state, objective, free, logit.columns) if cone.directions.size else state


def _is_maximum(objective: ChoiceObjective, M: sp.csr_array, fit: ChoiceFit, columns: NDArray[np.int64]) -> bool:
    """Whether Newton's step from the estimate of a logit proves that there is a maximum, see `LinearLogit.find_cone`.

    Parameters
    ----------
    objective : ChoiceObjective
    M : csr_array of shape (n, n_columns), the derivative of the coefficients by some free ones
    fit : ChoiceFit
    columns : ndarray of shape (n_columns,), int64, the free coefficients of these
    """
    sets, names = objective.sets, objective.form.names
    is_logit = objective.form.model == "gumbel" and not objective.ridge.any()
    if not is_logit or sets.n_pairs > MOST_PAIRS[sets.function is not None]:
        return False
    second = M.T @ objective.curvature(fit.theta) @ M
    if np.any(np.diag(second) <= FLAT * (objective.scales(fit.theta) ** 2 @ M)):
        return False
    identified, root = identify_by_information(second, Identification(names, M.toarray()), NEARLY_FLAT)
    step = M @ (root @ (root.T @ fit.slope[columns]))
    return identified.n == len(columns) and objective.squared_spread(step[None]) < NEAR**2


def available_alternatives(sets: ChoiceSets) -> NDArray[np.bool_]:
    """Return whether any row may choose each alternative, (n_alternatives,)."""
    there = np.isfinite(sets.offsets)
    if sets.lists.only:
        available = np.isfinite(sets.lists.offsets)
        there &= np.bincount(sets.lists.alternatives[available], minlength=len(there)) > 0
    return np.asarray(there)


def find_fixed_nests(form: ChoiceForm, sets: ChoiceSets) -> dict[str, str]:
    """Return causes by the names of dissimilarities that are 1: of nests of all alternatives, or of one in each row."""
    names, there = form.names[form.slices["dissimilarity"]], available_alternatives(sets)
    if not names:
        return {}
    counts, most = np.bincount(form.nests), np.bincount(form.nests[there], minlength=len(names))
    if sets.lists.only:
        is_open = np.isfinite(sets.lists.offsets) & there[sets.lists.alternatives]
        entries = sets.lists.rows[is_open], form.nests[sets.lists.alternatives[is_open]]
        sizes = sp.csr_array((np.ones(len(entries[0]), int), entries), shape=(sets.n_rows, len(names)))
        most = sizes.max(axis=0).toarray()
    alone = {names[nest]: "no two alternatives together" for nest in np.flatnonzero(most < 2)}
    causes = alone | {names[nest]: QUIET for nest in np.flatnonzero(counts < 2)}
    if there.sum() > 1 and len(nests := np.unique(form.nests[there])) == 1:
        causes[names[nests[0]]] = "nest of all alternatives"
    return causes


def _without(
    cone: Cone, state: Identification, objective: ChoiceObjective, free: FreeCoefficients, columns: NDArray[np.int64]
) -> Identification:
    """An identification without the directions of a cone, but for those in which a ridge bends the objective."""
    ridge = np.sqrt(free.matrix.T @ objective.ridge)[columns] / cone.scale
    _, bends, turned = np.linalg.svd(ridge[:, None] * cone.directions)
    dead = cone.directions @ turned[np.sum(bends > MOVES * ridge.max()) :].T
    complement = scipy.linalg.null_space(dead.T) if dead.size else np.eye(len(dead))
    moves, lost, separates = (np.linalg.norm(part, axis=1) > MOVES for part in (cone.directions, dead, cone.recession))
    form, sets, names = objective.form, objective.sets, state.names
    never, nowhere = (_owned(form, ~kind) for kind in (_ever_chosen(sets), available_alternatives(sets)))
    basis, linked = free.matrix[:, columns].toarray(), np.abs(cone.null @ cone.null.T) > MOVES
    alone = linked.diagonal() & (linked.sum(axis=0) == 1)
    too_few = np.sum(~alone) > np.count_nonzero(sets.weights)
    unknown, causes = state.unknown.copy(), dict(state.causes)
    for position, j in zip(*basis.nonzero(), strict=True):
        if not moves[j]:
            continue
        if alone[j]:
            cause = "never available" if nowhere[position] else "no variation"
        elif too_few:
            cause = "more coefficients than choices"
        elif linked[j].any():
            cause = f"collinear: {shorten_names([names[p] for p in np.flatnonzero(basis @ linked[j])])}"
        else:
            cause = "never chosen" if never[position] else "separation"
        causes[names[position]] = cause if lost[j] else f"{cause}; alpha decides"
        unknown[position] |= lost[j]
    is_other = ~(state.basis.T @ basis).any(axis=1)
    basis = np.hstack([basis @ (complement / cone.scale[:, None]), state.basis[:, is_other]])
    return replace(state, basis=basis, causes=causes, unknown=unknown, has_maximum=not np.any(separates & lost))


def _owned(form: ChoiceForm, alternatives: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each coefficient belongs to some alternatives only: constants, and tastes for alternatives."""
    owned = np.zeros(form.n, bool)
    if len(form.groups):
        outside = np.bincount(form.groups, ~alternatives, minlength=len(form.group_labels)) > 0
        owned[form.slices["constants"]] = ~outside[1:]
    if form.own_tastes and form.rank < 0:
        owned[form.slices["interactions"]] = np.tile(alternatives[1:], len(form.chooser_names))
    return owned


def _ever_chosen(sets: ChoiceSets) -> NDArray[np.bool_]:
    """Whether any row that counts chose each alternative, (n_alternatives,)."""
    return np.bincount(sets.known_choices[sets.weights > 0], minlength=sets.n_alternatives) > 0


# How well it is known


def estimate_covariance(
    objective: LogLikelihood, known: Identification, fit: ChoiceFit, kind: str, seed: int
) -> tuple[Covariance, Identification]:
    """Return the covariance of estimates at the minimum, and what second derivatives there leave identified.

    "hessian" is the inverse of the second derivatives of the log-likelihood, "robust" the sandwich of these and of the
    sum of squares of the units' gradients, "clustered" the same with gradients added by person. There is no correction
    for small samples.

    Parameters
    ----------
    objective : LogLikelihood
    known : Identification
    fit : ChoiceFit
    kind : {"hessian", "robust", "clustered", "none"}
    seed : int, of rows or persons drawn where all would take too long

    Raises
    ------
    ValueError
        If there are too many coefficients.
    """
    theta = fit.theta
    error, model = np.zeros(len(theta)), objective.form.model if isinstance(objective, ChoiceObjective) else "mixture"
    nothing = Covariance(kind, np.full((len(theta), len(theta)), np.nan), error, 0)
    if kind == "none" and (model not in ("nested", "mixture") or known.n > MOST_FREE or not fit.converged):
        return nothing, known
    tol = 1e-13 if model == "gumbel" else 1e-9  # second derivatives of the others are differences
    folds, parts = _draw_folds(objective, seed), []
    for fold in folds:
        information = fold.hessian(theta, known.basis)
        spread = information / objective.total
        if kind not in ("hessian", "none"):
            gradients = fold.weights[:, None] * (fold.scores(theta) @ known.basis)
            if kind == "clustered" and isinstance(fold, ChoiceObjective):
                gradients = np.asarray(fold.sets.owners.sums @ gradients)
            # Of rows drawn by chance: their sum of squares is as many times larger in relation as they are fewer.
            spread = gradients.T @ gradients * (fold.total / objective.total)
        parts.append((information, spread))
    information, spread = np.mean(parts, axis=0)
    matrix, identified = invert_information(information, spread, known, tol)
    if model == "mixture":
        identified = _without_recession(identified, objective, theta)
    if kind == "none":
        return nothing, identified
    if len(parts) > 1:
        middle = np.sqrt(np.diag(matrix))
        # The jackknife over folds (Quenouille and Tukey).
        means = (np.mean(np.delete(parts, fold, axis=0), axis=0) for fold in range(FOLDS))
        without = [np.diag(invert_information(first, second, known, tol)[0]) for first, second in means]
        errors = np.std(np.sqrt(without), axis=0) * np.sqrt(FOLDS - 1)
        error = np.divide(errors, middle, out=error, where=middle > 0)
    return Covariance(kind, matrix, error, sum(fold.n_rows for fold in folds)), identified


def _without_recession(known: Identification, objective: LogLikelihood, theta: Doubles) -> Identification:
    """An identification that says whether flat directions are those without a maximum: flat there, not on the way."""
    flat = np.zeros((len(theta), 0)) if known.flat is None else scipy.linalg.orth(known.flat)
    rises = objective(theta - flat @ (flat.T @ theta))[0] > objective(theta)[0] + ROUNDED
    return replace(known, has_maximum=known.has_maximum and not rises)


def _draw_folds(objective: LogLikelihood, seed: int) -> Sequence[LogLikelihood]:
    """The objective, or where all rows would take too long those of rows drawn by chance, whole persons each."""
    if not isinstance(objective, ChoiceObjective):
        return [objective]
    sets, slower = objective.sets, 1 if objective.form.model == "gumbel" else AS_A_QUADRATURE
    most, drawn = (pairs[sets.function is not None] // slower for pairs in (MOST_PAIRS, DRAWN_PAIRS))
    if sets.n_pairs <= most:
        return [objective]
    n_rows, rows = max(FOLDS * 20, drawn * sets.n_rows // sets.n_pairs), sets.owners.rows
    n_persons = len(sets.owners.first)
    fold = np.random.RandomState(seed).permutation(n_persons)[rows] * FOLDS * sets.n_rows // (n_rows * n_persons)
    return [replace(objective, sets=sets.take(np.flatnonzero(fold == f))) for f in range(FOLDS)]


def invert_information(
    information: Doubles, gradient_covariance: Doubles, known: Identification, tol: float = 1e-13
) -> tuple[Doubles, Identification]:
    """Return the sandwich covariance of all coefficients on what is identified, NaN for the others.

    Parameters
    ----------
    information : ndarray of shape (known.n, known.n), float64
        Second derivatives by the identified numbers; those by all coefficients, H, are ``basis.T @ H @ basis``.
    gradient_covariance : ndarray of the same shape
        Covariance of the gradient by them.
    known : Identification
    tol : float, of the least eigenvalue where the diagonal of second derivatives is 1

    Returns
    -------
    matrix : ndarray of shape (n, n), float64; rows of fixed coefficients are 0
    identified : Identification, without the directions in which second derivatives are 0
    """
    identified, root = identify_by_information(information, known, tol)
    spread = known.basis @ root
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not known
        matrix = np.asarray(spread @ (root.T @ gradient_covariance @ root) @ spread.T)
    matrix[~np.isfinite(matrix)] = np.nan
    np.fill_diagonal(matrix, np.maximum(np.diag(matrix), 0.0))  # rounding may leave less
    unknown = np.broadcast_to(identified.unknown, len(matrix))
    matrix[unknown], matrix[:, unknown] = np.nan, np.nan
    return matrix, identified


def certify(objective: ChoiceObjective, free: FreeCoefficients, theta: Doubles) -> dict[str, float]:
    r"""Return the objective at theta, "primal", a proven lower bound of its optimum, "dual", and their "gap".

    Along a direction v the third derivative of a logit's log-loss is at most c |v| times the second, where |v| is the
    length of v by the second derivatives H at theta, and c the most that a v of length 1 moves two utilities of a row
    apart. So the second derivative falls no faster than :math:`e^{-c|v|}`, and with g the gradient and
    :math:`\nu^2 = g' H^{-1} g`

    .. math:: f(\theta) - \min f \le \frac{\nu^2}{2 (1 - c\nu)} \quad\text{where}\quad c\nu < 1

    (self-concordance as in Bach 2010, "Self-concordant analysis for logistic regression"). Else the dual is 0.

    Parameters
    ----------
    objective : ChoiceObjective
    free : FreeCoefficients
    theta : ndarray of shape (n,), float64

    Returns
    -------
    dict, in nats a row

    Raises
    ------
    ValueError
        If the objective is not convex, or some coefficients are not identified.
    """
    form = objective.form
    if form.model != "gumbel" or form.rank > 0:
        raise ValueError(
            f"noise is {form.noise!r}, interactions have rank {form.rank} and there are {len(form.nest_labels)} nests; "
            "a certificate needs noise='gumbel' without nests and interactions that are 'none' or 'full'"
        )
    M = free.matrix.toarray()
    primal, gradient = objective(theta)
    slope = slope_within_bounds(free.reduce(gradient), free.select(theta), free.bounds)
    identified, root = identify_by_information(objective.hessian(theta, M), Identification(form.names, M), 1e-10)
    if identified.causes:
        raise ValueError(
            f"the coefficient {next(iter(identified.causes))!r} is not identified; set alpha or leave it out"
        )
    decrement = float(np.linalg.norm(root.T @ slope))
    margin = 1 - decrement * float(np.sqrt(objective.squared_spread(np.ascontiguousarray((M @ root).T))))
    gap = min(primal, decrement**2 / (2 * margin)) if margin > 0 else primal
    return {"primal": primal, "dual": primal - gap, "gap": gap}
