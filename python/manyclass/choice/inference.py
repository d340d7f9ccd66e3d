"""What a choice model's coefficients are known to: standard errors, tests, and the table that tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyclass.choice.fitting import ChoiceObjective, Covariance, FreeCoefficients, slope_within_bounds
from manyclass.choice.identification import Identification, identify_by_information
from manyclass.weights.arrays import Doubles

# Pairs of a row and an alternative beyond which covariances are those of rows drawn by chance, and how many these have:
# without and with a function of pairs.
MOST_PAIRS, DRAWN_PAIRS = (1 << 31, 1 << 27), (1 << 28, 1 << 26)
AS_A_QUADRATURE = 64  # exponentials of a logit take the time of one quadrature of other noise
FOLDS = 8
COVARIANCES = ("auto", "hessian", "robust", "clustered", "none")


def estimate_covariance(
    objective: ChoiceObjective, known: Identification, theta: Doubles, kind: str, seed: int
) -> tuple[Covariance, Identification]:
    """Return the covariance of estimates at the minimum, and what second derivatives there leave identified.

    "hessian" is the inverse of the second derivatives of the log-likelihood, "robust" the sandwich of these and of the
    sum of squares of the rows' gradients, "clustered" the same with gradients added by person. There is no correction
    for small samples.

    Parameters
    ----------
    objective : ChoiceObjective
    known : Identification
    theta : ndarray of shape (n,), float64
    kind : {"hessian", "robust", "clustered", "none"}
    seed : int, of rows or persons drawn where all would take too long

    Raises
    ------
    ValueError
        If there are too many coefficients.
    """
    if kind == "none":
        return Covariance.none(len(theta)), known
    sets = objective.sets
    total = float(sets.weights.sum())
    slower = 1 if objective.form.model == "gumbel" else AS_A_QUADRATURE
    most, drawn = (pairs[sets.function is not None] // slower for pairs in (MOST_PAIRS, DRAWN_PAIRS))
    # Second derivatives of a nested logit are differences of gradients.
    tol = 1e-13 if objective.form.model == "gumbel" else 1e-9
    error, n_rows = np.zeros(len(theta)), sets.n_rows
    if sets.n_pairs <= most:
        parts = [_information(objective, theta, known.basis, kind, total)]
    else:
        n_rows = max(FOLDS * 20, drawn * sets.n_rows // sets.n_pairs)
        who = np.arange(sets.n_rows) if sets.persons is None else sets.persons
        n_persons = int(who.max()) + 1
        place = np.random.RandomState(seed).permutation(n_persons)[who]
        fold = place * FOLDS * sets.n_rows // (n_rows * n_persons)
        folds = (replace(objective, sets=sets.take(np.flatnonzero(fold == f))) for f in range(FOLDS))
        parts = [_information(drawn_objective, theta, known.basis, kind, total) for drawn_objective in folds]
        n_rows = int(np.sum(fold < FOLDS))
    information, spread = np.mean(parts, axis=0)
    matrix, identified = invert_information(information, spread, known, tol)
    if len(parts) > 1:
        middle = np.sqrt(np.diag(matrix))
        # The jackknife over folds (Quenouille and Tukey).
        means = (np.mean(np.delete(parts, fold, axis=0), axis=0) for fold in range(FOLDS))
        without = [np.diag(invert_information(first, second, known, tol)[0]) for first, second in means]
        errors = np.std(np.sqrt(without), axis=0) * np.sqrt(FOLDS - 1)
        error = np.divide(errors, middle, out=np.zeros(len(theta)), where=middle > 0)
    return Covariance(kind, matrix, error, n_rows), identified


def estimate_by_person(
    objective: Any, known: Identification, theta: Doubles, kind: str, n_rows: int, tol: float
) -> tuple[Covariance, Identification]:
    """Return the covariance where the likelihood is one of persons, whose gradients "robust" and "clustered" take.

    Parameters
    ----------
    objective : LatentObjective or MixedObjective
    known : Identification
    theta : ndarray of shape (n,), float64
    kind : {"hessian", "robust", "clustered", "none"}
    n_rows : int
    tol : float, as in `invert_information`
    """
    if kind == "none":
        return Covariance.none(len(theta)), known
    information = objective.hessian(theta, known.basis)
    spread = information / objective.total
    if kind != "hessian":
        moves = objective.person_weights[:, None] * (objective.scores(theta) @ known.basis)
        spread = moves.T @ moves
    matrix, identified = invert_information(information, spread, known, tol)
    return Covariance(kind, matrix, np.zeros(len(theta)), n_rows), identified


def _information(
    objective: ChoiceObjective, theta: Doubles, M: Doubles, kind: str, total: float
) -> tuple[Doubles, Doubles]:
    """The second derivatives by identified numbers, and the covariance of their gradient at the minimum."""
    information = M.T @ objective.hessian(theta) @ M
    if kind == "hessian":
        return information, information / total
    gradients = (objective.scores(theta) * objective.weights[:, None]) @ M
    if kind == "clustered":
        gradients = np.asarray(objective.sets.owners.sums @ gradients)
    # Of rows drawn by chance: their sum of squares is as many times larger in relation as they are fewer.
    weight = float(objective.sets.weights.mean())
    return information, gradients.T @ gradients * (objective.sets.n_rows * weight / total)


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
    identified, root = identify_by_information(M.T @ objective.hessian(theta) @ M, Identification(form.names, M), 1e-10)
    if identified.causes:
        raise ValueError(
            f"the coefficient {next(iter(identified.causes))!r} is not identified; set alpha or leave it out"
        )
    decrement = float(np.linalg.norm(root.T @ slope))
    margin = 1 - decrement * float(np.sqrt(objective.squared_spread(np.ascontiguousarray((M @ root).T))))
    gap = min(primal, decrement**2 / (2 * margin)) if margin > 0 else primal
    return {"primal": primal, "dual": primal - gap, "gap": gap}
