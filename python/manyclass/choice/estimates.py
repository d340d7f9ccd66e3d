"""What a fit of a choice model finds: coefficients, and their covariances."""

from __future__ import annotations

from dataclasses import dataclass

from manyclass.weights.arrays import Doubles


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
