"""Which coefficients of a choice model its data tell, and why they do not tell the others.

A maximum of the likelihood exists, and is one point, unless some direction of the coefficients moves no chosen
alternative below another one of its set: a direction of recession (Albert and Anderson 1984; for choice sets, Lesaffre
and Albert 1989). This is a property of the differences between the features of chosen and other alternatives alone, for
every noise that may be arbitrarily large, and more rows only take directions away: what some rows identify, all do.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manyclass.choice.fitting import ChoiceForm, ChoiceObjective, FreeCoefficients
from manyclass.choice.sets import ChoiceSets
from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import Doubles

MOST_FREE = 1000  # coefficients, beyond which only bounds are looked at
MOST_NUMBERS = 1 << 17  # features of differences that are looked at before all data are
MOST_SAMPLED = 300  # coefficients that few rows are asked about: of more, those that all rows say are never chosen
DRAWN = 32  # alternatives of a row then
MOST_IN_PROGRAMME = 4096  # differences of a linear programme
MOST_ROUNDS = 12
EQUAL = 1e-12  # of a feature's size: differences that are rounding; and of its variance, what other features leave
MOVES = 1e-5  # of a direction in standard units: the least part that counts
SHOWN = 6  # names in a message
REMEDIES = {
    "no variation": "is the same for all alternatives of each set: leave it out, or let it interact with a constant",
    "never available": "belongs to alternatives that no set has beside others: leave them out",
    "never chosen": "tends to minus infinity, as its alternatives are: leave them out, or set alpha",
    "collinear": "they make up for each other: leave one out, set a reference, or set alpha",
    "more coefficients than choices": "any values may fit: leave some out, or set alpha",
    "separation": "the likelihood grows without end along it: set alpha, merge what is rare, or leave it out",
    "flat": "the likelihood does not change with it at the estimate: leave it out, or set alpha",
    "at its bound": "the errors of others hold it fixed there: leave it out, or free it",
    "nest of all alternatives": "its dissimilarity is only a scale and stays 1: leave the nest out",
}
QUIET = "nest of one alternative"  # what is usual, and known without data


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
    """

    names: list[str]
    basis: Doubles
    causes: dict[str, str] = field(default_factory=dict)
    unknown: Any = False
    has_maximum: bool = True

    @property
    def n(self) -> int:
        """How many numbers are identified, which information criteria and tests count."""
        return int(self.basis.shape[1])

    def warn(self) -> None:
        """Emit one ConvergenceWarning that names the coefficients without standard errors, causes and remedies."""
        by_cause: dict[str, list[str]] = {}
        for name in np.array(self.names, dtype=object)[np.broadcast_to(self.unknown, len(self.names))]:
            by_cause.setdefault(self.causes[name], []).append(name)
        if not by_cause:
            return
        sentences = []
        for cause, names in by_cause.items():
            remedy = next((text for kind, text in REMEDIES.items() if cause.startswith(kind)), "")
            sentences.append(f"{_shorten(names)} ({cause.split(':')[0]}): {remedy}")
        counted = f"{np.sum(self.unknown)} of {len(self.names)} coefficients have no standard errors"
        warnings.warn(
            f"{counted} and are not counted as free: {'; '.join(sentences)}",
            ConvergenceWarning,
            stacklevel=4,
        )


def _shorten(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


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
    moves = np.linalg.norm(known.basis @ directions[:, flat], axis=1)
    lost = moves > MOVES * np.maximum(np.linalg.norm(known.basis / scale, axis=1), 1e-300)
    causes = {name: "flat" for name, moved in zip(known.names, lost, strict=True) if moved}
    basis = known.basis @ directions[:, ~flat]
    return replace(known, basis=basis, causes={**causes, **known.causes}, unknown=known.unknown | lost), root


# From the data alone


def find_unidentified(
    design: Design | None,
    objective: ChoiceObjective,
    free: FreeCoefficients,
    theta: Doubles,
    held: Mapping[str, str] | None = None,
) -> Identification:
    """Return what the data tell of the coefficients of a fitted model, whatever its noise and nests.

    Some rows are looked at, then those of all that refute what these leave open.

    Parameters
    ----------
    design : Design of the same free coefficients, or None, where only bounds are looked at
    objective : ChoiceObjective
    free : FreeCoefficients
    theta : ndarray of shape (n,), float64, the estimate
    held : mapping of str to str, optional
        Causes by the names of coefficients that the fit held fixed.

    Returns
    -------
    Identification
    """
    form, held = objective.form, held or {}
    small = {f"dissimilarity[{nest}]": QUIET for nest in _small_nests(form)}
    state = identify_within_bounds(form.names, free, theta)
    state = replace(
        state, causes={**small, **state.causes, **held}, unknown=state.unknown | np.isin(form.names, [*held])
    )
    if design is None or not design.D.shape[0]:
        return state
    # Columns of the design whose coefficients are inside their bounds, and where these stand in M.
    low, high = free.bounds.T
    values, inside = free.select(theta), free.inside(theta)
    M = free.matrix[:, np.flatnonzero(inside)]
    columns = np.flatnonzero(inside[design.columns])
    design = design.take(columns)
    movable = np.searchsorted(np.flatnonzero(inside), design.columns)
    signs = np.where(np.isfinite(low), 1, np.where(np.isfinite(high), -1, 0))[design.columns]
    if design.complete or len(columns) <= MOST_SAMPLED:
        cone = _find_cone(design, values[design.columns], signs)
    else:
        cone = _never_chosen(objective, design)
    return state if cone.flat.shape[1] == 0 else _with_cone(state, objective, M, movable, cone)


def identify_within_bounds(names: list[str], free: FreeCoefficients, theta: Doubles) -> Identification:
    """Return an identification of which only bounds that are reached are known."""
    values, inside = free.select(theta), free.inside(theta)
    bound = [j for j in np.flatnonzero(free.place >= 0) if not inside[free.place[j]]]
    causes = {names[j]: f"at its bound {values[free.place[j]]:g}" for j in bound}
    return Identification(names, free.matrix[:, np.flatnonzero(inside)].toarray(), causes, np.isin(names, [*causes]))


def find_scale_nests(form: ChoiceForm, sets: ChoiceSets) -> dict[str, float]:
    """Return constraints that hold dissimilarities at 1 where one nest has all alternatives there are."""
    if not len(form.nest_labels):
        return {}
    there = np.isfinite(sets.offsets)
    if sets.lists.only:
        available = np.isfinite(sets.lists.offsets)
        there &= np.bincount(sets.lists.alternatives[available], minlength=form.n_alternatives) > 0
    nests = np.unique(form.nests[there])
    return {f"dissimilarity[{form.nest_labels[nests[0]]}]": 1.0} if len(nests) == 1 and there.sum() > 1 else {}


def _small_nests(form: ChoiceForm) -> list[str]:
    counts = np.bincount(form.nests, minlength=len(form.nest_labels))
    return [form.nest_labels[nest] for nest in np.flatnonzero(counts < 2)] if len(form.nest_labels) else []


def _linear_coefficients(form: ChoiceForm) -> NDArray[np.int64]:
    """Those in which utilities are linear: all but dissimilarities, and a W of low rank."""
    parts = ("alternatives", "pairs", *(("interactions",) if form.rank < 0 else ()), "constants")
    return np.concatenate([np.arange(form.n)[form.slices[part]] for part in parts])


@dataclass(frozen=True)
class _Cone:
    """Directions that rows leave open, in standard units: coefficients times `scale`.

    `flat` spans them, (n, n_open), of which the first `n_null` move no utility; `v` moves chosen alternatives above
    all others that any of them does. Columns of `constant` do not vary, those of `absent` are 0 throughout.
    """

    scale: Doubles
    flat: Doubles
    n_null: int
    v: Doubles
    constant: NDArray[np.bool_]
    absent: NDArray[np.bool_]
    too_few: bool


def _with_cone(
    state: Identification, objective: ChoiceObjective, M: sp.csr_array, movable: NDArray[np.int64], cone: _Cone
) -> Identification:
    """An identification without the directions of a cone, but for those in which a ridge bends the objective."""
    ridge = np.sqrt(M.T @ objective.ridge)[movable] / cone.scale
    dead = cone.flat @ _null_of(ridge[:, None] * cone.flat)
    complement = scipy.linalg.null_space(dead.T) if dead.shape[1] else np.eye(len(movable))
    whole = np.eye(M.shape[1])
    others = np.setdiff1d(np.arange(M.shape[1]), movable)
    inner = np.hstack([whole[:, movable] @ (complement / cone.scale[:, None]), whole[:, others]])
    reasons = _causes_of(objective, cone, M, movable)
    lost = np.linalg.norm(dead, axis=1) > MOVES
    unknown, causes = state.unknown.copy(), dict(state.causes)
    for j, column in enumerate(movable):
        for position in np.flatnonzero(M[:, [column]].toarray()[:, 0]):
            if (cause := reasons.get((j, int(position)))) is not None:
                causes[state.names[position]] = cause if lost[j] else f"{cause}; alpha decides"
                unknown[position] |= lost[j]
    separated = np.abs(cone.v) > MOVES * np.abs(cone.v).max(initial=1e-300)
    return replace(
        state, basis=M @ inner, causes=causes, unknown=unknown, has_maximum=not bool(np.any(separated & lost))
    )


def _causes_of(
    objective: ChoiceObjective, cone: _Cone, M: sp.csr_array, movable: NDArray[np.int64]
) -> dict[tuple[int, int], str]:
    """By column and coefficient, why it is open."""
    names, form = objective.form.names, objective.form
    never = _owned(form, ~_ever_chosen(objective.sets))
    constants = _owned(form, np.ones(form.n_alternatives, bool))
    null = cone.flat[:, : cone.n_null]
    null_moves, moves = (np.linalg.norm(part, axis=1) > MOVES for part in (null, cone.flat))
    linked = np.abs(null @ null.T) > MOVES
    positions = [np.flatnonzero(M[:, [column]].toarray()[:, 0]) for column in movable]
    causes: dict[tuple[int, int], str] = {}
    for j in np.flatnonzero(moves):
        for position in positions[j]:
            if cone.constant[j]:
                cause = "never available" if cone.absent[j] and constants[position] else "no variation"
            elif cone.too_few:
                cause = "more coefficients than choices"
            elif null_moves[j]:
                together = [names[p] for k in np.flatnonzero(linked[j]) for p in positions[k]]
                cause = f"collinear: {_shorten(together)}"
            else:
                cause = "never chosen" if never[position] else "separation"
            causes[int(j), int(position)] = cause
    return causes


def _owned(form: ChoiceForm, alternatives: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each coefficient belongs to some alternatives only: constants, and tastes for alternatives."""
    owned = np.zeros(form.n, bool)
    if len(form.groups):
        outside = np.bincount(form.groups, ~alternatives, minlength=len(form.group_labels)) > 0
        owned[form.slices["constants"]] = ~outside[1:]
    if form.own_tastes and form.rank < 0:
        owned[form.slices["interactions"]] = np.tile(alternatives[1:], len(form.chooser_names))
    return owned


class Design:
    """Differences between features of chosen and other alternatives, of some rows or all.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,), int64, the free coefficients of the columns: those of utilities
    D : csr_array of shape (n_differences, n_columns), chosen less other
    rows : ndarray of shape (n_differences,), int64, the row of each
    sizes : ndarray of shape (n_columns,), float64, the largest features
    complete : bool, whether these are all
    """

    def __init__(self, objective: ChoiceObjective, free: FreeCoefficients, seed: int) -> None:
        form, sets = objective.form, objective.sets
        linear = _linear_coefficients(form)
        self.columns = np.flatnonzero(abs(free.matrix[linear]).sum(axis=0) > 0)
        self.form = replace(form, noise="gumbel", nests=np.zeros(0, np.int32), nest_labels=())
        self.M = sp.csr_array(free.matrix[: self.form.n][:, self.columns])
        self.objective = ChoiceObjective(self.form, sets, np.zeros(self.form.n), objective.n_threads)
        self.sets, self.seed, self.counts = sets, seed, sets.weights > 0
        q = len(form.alternative_names)
        width = q + len(form.pair_names) + 1
        width += len(form.chooser_names) * (form.rank < 0) * (q if form.has_features else 1)
        self.complete = sets.n_pairs * width <= MOST_NUMBERS
        rows = np.flatnonzero(self.counts)
        n_alternatives = sets.n_pairs // sets.n_rows
        if not self.complete:
            n_pairs = max(MOST_NUMBERS // width, 10 * min(len(self.columns), MOST_SAMPLED))
            rows = self._drawn_rows(rows, max(64, n_pairs // max(1, min(n_alternatives, DRAWN))))
        if not self.complete and n_alternatives > 2 * DRAWN:
            sampled = sets.draw(rows, DRAWN, share=0.0, seed=seed, epoch=0, n_threads=objective.n_threads)
        else:
            sampled = sets if len(rows) == sets.n_rows else sets.take(rows)
        self.D, self.rows, self.sizes = self._differences(sampled)

    def take(self, columns: NDArray[np.int64]) -> Design:
        """Return the design of some columns."""
        part = copy(self)
        part.columns, part.M, part.D = self.columns[columns], self.M[:, columns], self.D[:, columns]
        part.sizes = self.sizes[columns]
        return part

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns that do not vary within sets, (n_columns,)."""
        return _peaks(self.D) <= EQUAL * self.sizes

    def hold_constant(self, free: FreeCoefficients, ridge: Doubles) -> tuple[Design, FreeCoefficients, dict[str, str]]:
        """Hold at 0 what moves no utility beside others, and has no ridge; return what is left, and causes by name."""
        bent = (self.M.T @ ridge[: self.form.n]) > 0
        names, owned, causes = self.form.names, _owned(self.form, np.ones(self.form.n_alternatives, bool)), {}
        held = np.zeros(len(self.columns), bool)
        for j in np.flatnonzero(self.constant & ~bent):
            direction = self.M[:, [j]].toarray().T
            limit = EQUAL * max(self.sizes[j], 1e-300)
            held[j] = self.complete or self.objective.squared_spread(direction) <= limit**2
            for position in np.flatnonzero(direction[0] * held[j]):
                absent = owned[position] and self.sizes[j] == 0
                causes[names[position]] = "never available" if absent else "no variation"
        if not held.any():
            return self, free, causes
        stays = np.ones(free.n, bool)
        stays[self.columns[held]] = False
        left = FreeCoefficients(free.matrix[:, np.flatnonzero(stays)], free.fixed, free.bounds[stays])
        design = self.take(np.flatnonzero(~held))
        design.columns = (np.cumsum(stays) - 1)[design.columns]
        return design, left, causes

    def _drawn_rows(self, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Rows drawn by chance, with some of each chosen alternative and value of a feature that may be rare."""
        drawn = [rows[np.random.RandomState(self.seed).permutation(len(rows))[:n]]]
        if len(self.form.groups) or self.form.own_tastes:
            drawn.append(rows[np.unique(self.sets.known_choices[rows], return_index=True)[1]])
        drawn += [rows[np.flatnonzero(column[rows] != column[rows[0]])[:DRAWN]] for column in self.sets.X.T]
        return np.unique(np.concatenate(drawn))

    def _differences(self, sets: ChoiceSets) -> tuple[Any, NDArray[np.int64], Doubles]:
        """Chosen less other for each pair, the row of each, and the largest size in each column."""
        blocks, rows, sizes, first = [], [], np.zeros(self.M.shape[1]), 0
        for part in sets.parts():
            features, part_rows, alternatives = self._features(part)
            chosen = part.known_choices[part_rows] == alternatives
            place = np.zeros(part.n_rows, np.int64)
            place[part_rows[chosen]] = np.flatnonzero(chosen)
            blocks.append(features[place[part_rows[~chosen]]] - features[np.flatnonzero(~chosen)])
            rows.append(first + part_rows[~chosen])
            sizes = np.maximum(sizes, _peaks(features))
            first += part.n_rows
        return sp.csr_array(sp.vstack(blocks)), np.concatenate(rows), sizes

    def _features(self, part: ChoiceSets) -> tuple[sp.csr_array, NDArray[np.int64], NDArray[np.int64]]:
        """The derivative of the utility of each pair by columns of M, and the pairs."""
        form, k = self.form, part.n_alternatives
        lists = part.lists.filled(k)
        available = np.isfinite(lists.offsets + part.offsets[lists.alternatives])
        rows, alternatives = np.asarray(lists.rows)[available], lists.alternatives[available].astype(np.int64)
        Z = sp.csr_array(np.zeros((k, 0)) if part.Z is None else part.Z)
        blocks: list[Any] = [Z[alternatives], sp.csr_array(np.asarray(lists.features)[available])]
        if form.rank < 0:
            tastes = sp.eye_array(k, format="csr")[:, 1:] if form.own_tastes else Z
            blocks += [sp.diags_array(column[rows]) @ tastes[alternatives] for column in part.X.T]
        elif form.rank > 0:
            blocks.append(sp.csr_array((len(rows), len(range(form.n)[form.slices["interactions"]]))))
        if len(form.groups):
            constants = sp.eye_array(len(form.group_labels), format="csr")[:, 1:]
            blocks.append(constants[form.groups[alternatives]])
        return sp.csr_array(sp.hstack(blocks, format="csr") @ self.M), rows, alternatives

    def refute(self, cone: _Cone) -> bool:
        """Add differences of all data that a cone forgets; return whether there are any."""
        random = np.random.RandomState(self.seed)
        u = cone.flat @ random.standard_normal(cone.flat.shape[1])
        theta_v, theta_u = (self.M @ (direction / cone.scale) for direction in (1e3 * cone.v, u))
        at_zero, far, beside = map(self.objective.losses, (0 * theta_v, theta_v, theta_v + theta_u))
        grows = np.where(self.counts, far - at_zero, 0.0)
        wrong = np.flatnonzero(self.counts & ((grows > 1e-3) | (np.abs(beside - far) > 1e-8)))
        if not len(wrong):
            return False
        n_rows = int(np.clip((1 << 18) // max(1, self.sets.n_pairs // self.sets.n_rows), 1, 512))
        wrong = random.permutation(wrong)
        worst = np.sort(wrong[np.argsort(-grows[wrong], kind="stable")[:n_rows]])
        D, rows, sizes = self._differences(self.sets.take(worst))
        margins, moves = self._margins(D, cone)
        open_pairs = random.permutation(np.flatnonzero((margins < -1e-6) | ((margins < 0.5) & moves)))
        self.D = sp.csr_array(sp.vstack([self.D, D[open_pairs[:MOST_IN_PROGRAMME]]]))
        self.rows = np.concatenate([self.rows, self.rows.max(initial=0) + 1 + rows[open_pairs[:MOST_IN_PROGRAMME]]])
        self.sizes = np.maximum(self.sizes, sizes)
        return bool(len(open_pairs))

    @staticmethod
    def _margins(D: sp.csr_array, cone: _Cone) -> tuple[Doubles, NDArray[np.bool_]]:
        scaled = D @ sp.diags_array(1 / cone.scale)
        return scaled @ cone.v, np.abs(scaled @ cone.flat).max(axis=1) > 1e-6


def _never_chosen(objective: ChoiceObjective, design: Design) -> _Cone:
    """The directions of coefficients of alternatives that no row chose."""
    never = ~(abs(design.M).T @ ~_owned(design.form, ~_ever_chosen(objective.sets))).astype(bool)
    none = np.zeros(len(never), bool)
    return _Cone(np.ones(len(never)), np.eye(len(never))[:, never], 0, -never.astype(float), none, none, False)


def _ever_chosen(sets: ChoiceSets) -> NDArray[np.bool_]:
    """Whether any row that counts chose each alternative, (n_alternatives,)."""
    return np.bincount(sets.known_choices[sets.weights > 0], minlength=sets.n_alternatives) > 0


def _find_cone(design: Design, start: Doubles, signs: NDArray[np.int64]) -> _Cone:
    """The directions that all data leave open."""
    for _ in range(MOST_ROUNDS):
        cone = _cone_of(design, start, signs)
        if design.complete or not cone.flat.shape[1] or not design.refute(cone):
            return cone
    return replace(cone, flat=cone.flat[:, :0], n_null=0)  # not known: no alarm


def _cone_of(design: Design, start: Doubles, signs: NDArray[np.int64]) -> _Cone:
    """The directions that the differences of a design leave open."""
    D = design.D
    n = D.shape[1]
    peaks, constant = _peaks(D), design.constant
    units = D @ sp.diags_array(np.where(constant, 0.0, 1 / np.where(constant, 1.0, peaks)))
    roots = np.sqrt(np.asarray(units.power(2).mean(axis=0)).ravel()) if D.shape[0] else np.zeros(n)
    scale = np.where(constant, np.where(design.sizes > 0, design.sizes, 1.0), peaks * roots)
    E: Any = sp.csr_array(units @ sp.diags_array(1 / np.where(constant, 1.0, roots)))
    if E.nnz > 0.2 * E.shape[0] * n:
        E = E.toarray()
    gram = _gram(E, np.full(E.shape[0], 1 / max(1, E.shape[0])))
    null, kept, projection = _null_space(gram)
    too_few = design.complete and n - constant.sum() > len(np.unique(design.rows))
    v, flat = np.zeros(n), null
    if len(kept) and E.shape[0]:
        begin = (start * scale)[kept] + projection @ (start * scale)[np.setdiff1d(np.arange(n), kept)]
        reduced = E[:, kept]
        y = _newton(reduced, design.rows, begin)
        if y is not None:
            direction, inner = _separate(reduced, y, signs[kept])
            v[kept] = direction
            lifted = np.zeros((n, inner.shape[1]))
            lifted[kept] = inner
            flat = np.hstack([null, scipy.linalg.orth(lifted - null @ (null.T @ lifted))])
    return _Cone(scale, flat, null.shape[1], v, constant, constant & (design.sizes == 0), too_few)


def _peaks(D: sp.csr_array) -> Doubles:
    """The largest size in each column."""
    return np.asarray(abs(D).max(axis=0).toarray().ravel() if D.shape[0] else np.zeros(D.shape[1]))


def _gram(E: Any, weights: Doubles) -> Doubles:
    weighted = sp.diags_array(weights) @ E if is_sparse(E) else E * weights[:, None]
    product = E.T @ weighted
    return np.asarray(product.toarray() if is_sparse(product) else product)


def _null_of(A: Doubles) -> Doubles:
    """An orthonormal basis of the null space of a matrix; all where it is 0."""
    return scipy.linalg.null_space(A, rcond=1e-9) if np.any(A) else np.eye(A.shape[1])


def _null_space(gram: Doubles) -> tuple[Doubles, NDArray[np.int64], Doubles]:
    """An orthonormal basis of the null space of a Gram matrix, independent columns, and the others by these."""
    n = len(gram)
    diagonal = np.diag(gram)
    there = diagonal > 1e-14 * max(1e-300, diagonal.max(initial=0))
    scale = np.sqrt(np.where(there, diagonal, 1.0))
    unit = np.where(np.outer(there, there), gram / np.outer(scale, scale), 0.0)
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(unit, tol=EQUAL) if n else (0, np.zeros(0, int), 0, 0)
    rank = min(int(rank), int(there.sum()))
    kept, others = np.sort(pivots[:rank] - 1), np.sort(pivots[rank:] - 1)
    by_kept = np.linalg.solve(unit[np.ix_(kept, kept)], unit[np.ix_(kept, others)])
    projection = by_kept * scale[others] / scale[kept, None]
    null = np.zeros((n, len(others)))
    null[kept], null[others, np.arange(len(others))] = projection, -1.0
    return np.linalg.qr(null)[0] if len(others) else null, kept, projection


def _newton(E: Any, rows: NDArray[np.int64], y: Doubles) -> Doubles | None:
    """None where the logit on differences is proven to have one maximum, else a point on the way to it.

    Along v its second derivative is at most the slope times what v moves two utilities apart where v is a direction of
    recession: there is none where the least second derivative is more than that by the gradient (compare `certify`).
    """
    _, row = np.unique(rows, return_inverse=True)
    total = sp.csr_array((np.ones(len(row)), (row, np.arange(len(row)))))
    reach = 2 * float(np.sqrt((E.multiply(E) if is_sparse(E) else E**2).sum(axis=1).max()))

    def shares(point: Doubles) -> tuple[float, Doubles]:
        u = -(E @ point)
        peak = np.zeros(total.shape[0])
        np.maximum.at(peak, row, u)
        parts = np.exp(u - peak[row])
        sums = np.exp(-peak) + total @ parts
        return float(np.mean(peak + np.log(sums))), parts / sums[row]

    loss, p = shares(y)
    for _ in range(12):
        means = total @ (sp.diags_array(p) @ E if is_sparse(E) else E * p[:, None])
        means = means.toarray() if is_sparse(means) else means
        curvature = _gram(E, p) - _gram(means, np.ones(means.shape[0]))
        gradient = -(E.T @ p)
        values, vectors = np.linalg.eigh(curvature)
        if values[0] <= EQUAL * total.shape[0]:
            return y
        step = vectors.T @ gradient / np.sqrt(values)
        if reach * np.linalg.norm(step) < np.sqrt(values[0]):
            return None
        step = vectors @ (step / np.sqrt(values))
        for _ in range(20):
            new_loss, new_p = shares(y - step)
            if new_loss <= loss:
                break
            step = step / 2
        y, loss, p = y - step, new_loss, new_p
    return y


def _separate(E: Any, y: Doubles, signs: NDArray[np.int64]) -> tuple[Doubles, Doubles]:
    """The direction that moves most differences up and none down, and a basis of all such directions.

    Differences that none of them moves are equations, whose null space they span.
    """
    bounded = np.flatnonzero(signs)
    rules = np.eye(len(signs))[bounded] * signs[bounded, None]
    E = sp.csr_array(sp.vstack([sp.csr_array(E), sp.csr_array(rules)]))
    lengths = np.sqrt(E.power(2).sum(axis=1))
    moving = np.flatnonzero(lengths > 0)
    E = sp.diags_array(1 / lengths[moving]) @ E[moving]
    order = np.argsort(E @ y, kind="stable")
    active = np.union1d(order[: MOST_IN_PROGRAMME // 2], order[:: max(1, len(order) // (MOST_IN_PROGRAMME // 2))])
    for _ in range(2 * MOST_ROUNDS):
        direction, up = _solve_programme(E[active])
        ties = E[active[~up]]
        inner = _null_space(_gram(ties, np.ones(ties.shape[0])))[0]
        if not inner.shape[1]:
            break
        margins = E @ direction
        wrong = (margins < -1e-6) | ((margins < 0.5) & (np.abs(E @ inner).max(axis=1) > 1e-6))
        wrong[active[~up]] = False
        wrong[active[up]] = False
        if not wrong.any():
            return direction, inner
        refuting = np.flatnonzero(wrong)
        active = np.union1d(active, refuting[np.argsort(margins[refuting], kind="stable")[:MOST_IN_PROGRAMME]])
    return np.zeros(len(signs)), np.zeros((len(signs), 0))


def _solve_programme(E: sp.csr_array) -> tuple[Doubles, NDArray[np.bool_]]:
    """The v with E v >= s >= 0 that has the largest sum of s <= 1, and where s is 1 (Konis 2007, with all margins)."""
    m, n = E.shape
    options: dict[str, Any] = {
        "c": np.concatenate([np.zeros(n), -np.ones(m)]),
        "A_ub": sp.hstack([-E, sp.eye_array(m)], format="csr"),
        "b_ub": np.zeros(m),
        "bounds": [(-1e6, 1e6)] * n + [(0.0, 1.0)] * m,
        "method": "highs",
    }
    solved = scipy.optimize.linprog(**options)
    if solved.x is None:
        return np.zeros(n), np.zeros(m, bool)
    return np.asarray(solved.x[:n]), np.asarray(solved.x[n:] > 0.5)
