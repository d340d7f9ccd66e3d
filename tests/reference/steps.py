"""Twins of step/ and objective/: what one step does with the scores of one point.

With X = |x|^2 and d_k = z_k - z_y a step answers (p, label, v, loss): w_k -= p_k x, w_y += label x, v is the new
carried value (u, or u + z_y in Raman's form), and loss = log(1 + sum alpha e^d) at the old scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, wrightomega

Floats = NDArray[np.float64]


@dataclass
class Point:
    """What a step sees."""

    scores: Floats
    alpha: Floats
    label_score: float
    x_sq: float
    eta: float
    eta_u: float
    carried: float
    raman: bool = False
    delta: float = 1.0

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which of the selected classes are not the label."""
        return self.alpha > 0

    @property
    def log_a(self) -> float:
        """log(1 + sum alpha e^d)."""
        d = self.scores[self.counts] - self.label_score
        return float(logsumexp(np.append(d, 0.0), b=np.append(self.alpha[self.counts], 1.0)))

    @property
    def bound(self) -> float:
        """log(1 + sum e^d), each class once."""
        return float(logsumexp(np.append(self.scores[self.counts] - self.label_score, 0.0)))


Answer = tuple[Floats, float, float, float]


def _explicit(point: Point, u: float) -> Answer:
    """Gradient of u + e^-u (1 + sum alpha e^d) or of Raman's v - z_y + e^(z_y - v) + sum alpha e^(z - v)."""
    terms = np.zeros_like(point.scores)
    seen = point.counts
    terms[seen] = np.exp(np.log(point.alpha[seen]) + point.scores[seen] - point.label_score - u)
    slope_u = 1 - np.exp(-u) - terms.sum()
    label = 1 - np.exp(-u) if point.raman else terms.sum()
    carried = u + point.label_score if point.raman else u
    return point.eta * terms, point.eta * label, carried - point.eta_u * slope_u, point.log_a


def sgd(point: Point) -> Answer:
    """Plain SGD."""
    return _explicit(point, point.carried - point.label_score if point.raman else point.carried)


def umax(point: Point) -> Answer:
    """SGD with u raised to its bound first where it is more than delta below."""
    u = point.carried - point.label_score if point.raman else point.carried
    return _explicit(point, point.bound if u < point.bound - point.delta else u)


def exact(point: Point) -> Answer:
    """The softmax's own gradient."""
    p = np.zeros_like(point.scores)
    seen = point.counts
    p[seen] = np.exp(np.log(point.alpha[seen]) + point.scores[seen] - point.label_score - point.log_a)
    return point.eta * p, point.eta * p.sum(), point.carried, point.log_a


def _root(h: Callable[[float], float], low: float, width: float) -> float:
    """Root of an increasing h with h(low) <= 0, by Brent's method."""
    while h(low + width) < 0:
        width *= 2
    return float(brentq(h, low, low + width, xtol=1e-15, rtol=4 * np.finfo(float).eps))


def implicit(point: Point) -> Answer:
    """The proximal point, from the stationarity of each block of variables."""
    return _implicit_raman(point) if point.raman else _implicit_proposed(point)


def _carried_alone(point: Point, u: float) -> float:
    """x = 0: 1 - e^-u (1 + sum alpha) + (u - u~) / eta_u = 0, as the scores of an empty row are all 0."""
    a = np.exp(point.log_a)
    return _root(lambda new: point.eta_u * (1 - np.exp(-new) * a) + new - u, u - point.eta_u, 1.0)


def _implicit_proposed(point: Point) -> Answer:
    p = np.zeros_like(point.scores)
    if point.x_sq == 0:
        return p, 0.0, _carried_alone(point, point.carried), point.log_a
    seen = point.counts
    base = np.log(point.eta * point.alpha[seen] * point.x_sq) + point.scores[seen] - point.label_score

    def u_of(q: float) -> float:
        return q - float(wrightomega(base - q).sum())

    def h(q: float) -> float:
        u = max(u_of(q), -100.0)  # e^-u must not overflow; h is far below 0 by then
        rise = (q - u_of(q)) / point.x_sq
        return point.eta * (1 - np.exp(-u)) - rise + point.eta / point.eta_u * (u - point.carried)

    q = _root(h, 0.0, 1.0)
    p[seen] = wrightomega(base - q) / point.x_sq
    return p, p.sum(), u_of(q), point.log_a


def _implicit_raman(point: Point) -> Answer:
    p = np.zeros_like(point.scores)
    if point.x_sq == 0:
        u = _carried_alone(point, point.carried - point.label_score)
        return p, 0.0, u + point.label_score, point.log_a
    seen = point.counts
    pull = point.eta * point.x_sq
    base = np.log(pull * point.alpha[seen]) + point.scores[seen]
    base_y = np.log(pull) + point.label_score + pull

    def h(v: float) -> float:
        fall = float(wrightomega(base_y - v) + wrightomega(base - v).sum()) / point.x_sq
        return point.eta - fall + point.eta / point.eta_u * (v - point.carried)

    v = _root(h, point.carried - point.eta_u, 1.0)
    p[seen] = wrightomega(base - v) / point.x_sq
    return p, point.eta - float(wrightomega(base_y - v)) / point.x_sq, v, point.log_a


STEPS: dict[str, Callable[[Point], Answer]] = {"implicit": implicit, "umax": umax, "sgd": sgd, "exact": exact}
