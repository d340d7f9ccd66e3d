"""What a choice model's coefficients are known to: standard errors, tests, and the table that tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyclass.choice.fitting import ChoiceObjective, Covariance, FreeCoefficients, LogLikelihood, slope_within_bounds
from manyclass.choice.identification import Identification, identify_by_information
from manyclass.weights.arrays import Doubles

# Pairs of a row and an alternative beyond which covariances are those of rows drawn by chance, and how many these have:
# without and with a function of pairs.
MOST_PAIRS, DRAWN_PAIRS = (1 << 31, 1 << 27), (1 << 28, 1 << 26)
AS_A_QUADRATURE = 64  # exponentials of a logit take the time of one quadrature of other noise
FOLDS = 8
COVARIANCES = ("auto", "hessian", "robust", "clustered", "none")


def estimate_covariance(
    objective: LogLikelihood, known: Identification, theta: Doubles, kind: str, seed: int
) -> tuple[Covariance, Identification]:
    """Return the covariance of estimates at the minimum, and what second derivatives there leave identified.

    "hessian" is the inverse of the second derivatives of the log-likelihood, "robust" the sandwich of these and of the
    sum of squares of the units' gradients, "clustered" the same with gradients added by person. There is no correction
    for small samples.

    Parameters
    ----------
    objective : LogLikelihood
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
    is_exact = isinstance(objective, ChoiceObjective) and objective.form.model == "gumbel"
    tol = 1e-13 if is_exact else 1e-9  # second derivatives of the others are differences
    folds, parts = _draw_folds(objective, seed), []
    for fold in folds:
        information = fold.hessian(theta, known.basis)
        spread = information / objective.total
        if kind != "hessian":
            gradients = fold.weights[:, None] * (fold.scores(theta) @ known.basis)
            if kind == "clustered" and isinstance(fold, ChoiceObjective):
                gradients = np.asarray(fold.sets.owners.sums @ gradients)
            # Of rows drawn by chance: their sum of squares is as many times larger in relation as they are fewer.
            spread = gradients.T @ gradients * (fold.total / objective.total)
        parts.append((information, spread))
    information, spread = np.mean(parts, axis=0)
    matrix, identified = invert_information(information, spread, known, tol)
    error = np.zeros(len(theta))
    if len(parts) > 1:
        middle = np.sqrt(np.diag(matrix))
        # The jackknife over folds (Quenouille and Tukey).
        means = (np.mean(np.delete(parts, fold, axis=0), axis=0) for fold in range(FOLDS))
        without = [np.diag(invert_information(first, second, known, tol)[0]) for first, second in means]
        errors = np.std(np.sqrt(without), axis=0) * np.sqrt(FOLDS - 1)
        error = np.divide(errors, middle, out=error, where=middle > 0)
    return Covariance(kind, matrix, error, sum(fold.n_rows for fold in folds)), identified


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
