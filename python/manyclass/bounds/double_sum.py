r"""Constants of the double sum: where its optimum lies, and what the convergence theorems ask of step sizes.

The objective, over W and a number u_i for each point, is

.. math:: F(u, W) = \frac{1}{N} \sum_i \Big[u_i + e^{-u_i} A_i(W)\Big] + \frac{\alpha}{2} \|W\|_F^2, \qquad
          A_i(W) = 1 + \sum_{k \ne y_i} e^{x_i^\top (w_k - w_{y_i})},

without intercepts. The papers' objective is the sum, N F, with the ridge mu = N alpha.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manyclass import _core
from manyclass.checks import check_number


@dataclass(frozen=True)
class DoubleSumConstants:
    """What `double_sum_constants` returns.

    Attributes
    ----------
    weight_norm : float
        B_W, at least the Frobenius norm of the optimal W, hence the norm of each of its rows.
    log_normalizer : float
        B_u, at least every u* = log A_i, in nats, where no row of W is longer than B_W.
    gradient_norm : float
        B_f, at least the norm of the stochastic gradient with one sampled class, where 0 <= u <= B_u and no row is
        longer than B_W; infinite beyond the range of floats.
    strong_convexity : float
        At most the smallest eigenvalue of the Hessian of F there.
    n_samples : int
    """

    weight_norm: float
    log_normalizer: float
    gradient_norm: float
    strong_convexity: float
    n_samples: int

    def learning_rate(self, delta: float = 1.0) -> float:
        """Return the largest step size on F at which U-max is proved to converge, delta^2 / (4 N B_f^2).

        Parameters
        ----------
        delta : float, default=1.0
            U-max's, more than 0.

        Returns
        -------
        float
            0 where B_f is beyond the range of floats.

        Notes
        -----
        A bump of U-max lowers F by at least delta^2 / (2 N) and a step of this size raises it by no more (Fagan &
        Iyengar 2018, Theorem 1 and Lemma 5). The proof has gaps, and the step is far smaller than what works.
        """
        check_number("delta", delta, low=0, open_low=True)
        return float(delta**2 / (4 * self.n_samples * self.gradient_norm**2))


def largest_log_normalizer(max_norm: float, largest_x: float, n_classes: int) -> float:
    """Return B_u = log(1 + (K - 1) e^(2 B_x B_w)), the most that log A_i can be, in nats.

    Parameters
    ----------
    max_norm : float
        B_w, at least the norm of every row of W.
    largest_x : float
        B_x, at least the norm of every x.
    n_classes : int

    Returns
    -------
    float

    References
    ----------
    Fagan & Iyengar 2018, Lemma 2.
    """
    return _core.largest_log_normalizer(max_norm, largest_x, n_classes)


def double_sum_constants(
    counts: ArrayLike, largest_x: float, *, alpha: float, max_norm: float | None = None
) -> DoubleSumConstants:
    r"""Return the constants that Fagan & Iyengar's theorems speak of, for a model without intercepts.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Points of each class, >= 0, at least two classes and one point.
    largest_x : float
        B_x, the largest norm of a point.
    alpha : float
        Ridge, more than 0.
    max_norm : float, optional
        A radius on which rows are projected; None: B_W = sqrt(2 log(K) / alpha), which holds the optimum since
        F(u*, W*) is at most its value at W = 0, log(K) + 1.

    Returns
    -------
    DoubleSumConstants

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Fagan & Iyengar 2018, Lemmas 1 to 4, for the mean loss. B_f^2 adds up du and the two rows of W that a visit moves,
    by its largest values: |du| <= max(1, e^{B_u} - 1), and each row by e^{B_u} B_x + alpha max_k b_k B_W, where
    b_k = 1 / P(row k is touched).

    Examples
    --------
    >>> from manyclass.bounds import double_sum_constants
    >>> found = double_sum_constants([40, 30, 30], 1.0, alpha=0.1)
    >>> round(found.weight_norm, 2)
    4.69
    """
    check_number("largest_x", largest_x, low=0)
    check_number("alpha", alpha, low=0, open_low=True)
    if max_norm is not None:
        check_number("max_norm", max_norm, low=0, open_low=True)
    n = np.ascontiguousarray(counts, dtype=np.float64)
    constants = _core.double_sum_constants(n, largest_x, alpha, max_norm)
    return DoubleSumConstants(*constants, n_samples=int(n.sum()))
