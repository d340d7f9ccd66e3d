"""Twins of step/ and objective/: what one step does with the scores of one point.

With X = |x|^2 and d_k = z_k - z_y a step answers (p, label, v, loss): w_k -= p_k x, w_y += label x, v is the new
carried value u + a z_y, and loss = log(1 + sum alpha e^d) at the old scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, wrightomega

Floats = NDArray[np.float64]
Numbers = Any  # what has the numbers of a rule, eta_u and visits: a Point, or those of a row with several labels


@dataclass
class Point:
    """What a step sees."""

    scores: Floats
    alpha: Floats
    label_score: float
    x_sq: float  # what a move of w_y by x adds to z_y
    eta: float
    eta_u: float
    carried: float
    carry: float = 0.0  # a: what is carried is u + a z_y, Raman's form being a = 1
    delta: float = 1.0  # of "umax"
    gain: float = 0.5  # of "ema", "augment_reduce" and "scgd", and
    gain_power: float = 0.9  # of the last two
    rho: float = 0.5  # of "softplus"
    visits: int = 0
    label_alpha: float = 1.0
    x_sqs: Floats | None = None  # as x_sq, of the selected classes
    times: Floats | None = None  # how often each was drawn

    @property
    def row_x_sq(self) -> Floats:
        """X_k of the classes that count."""
        x_sqs = np.full_like(self.scores, self.x_sq) if self.x_sqs is None else self.x_sqs
        return x_sqs[self.counts]

    @property
    def draws(self) -> Floats:
        """How often each class was drawn."""
        return np.ones_like(self.scores) if self.times is None else self.times

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
    """Gradient of u + e^-u (1 + sum alpha e^d) in (v, z) at u = v - a z_y."""
    terms = np.zeros_like(point.scores)
    seen = point.counts
    terms[seen] = np.exp(np.log(point.alpha[seen]) + point.scores[seen] - point.label_score - u)
    slope_u = 1 - np.exp(-u) - terms.sum()
    label = terms.sum() + point.carry * slope_u
    carried = u + point.carry * point.label_score
    return point.eta * terms, point.eta * label, carried - point.eta_u * slope_u, point.log_a


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


def _root_near(h: Callable[[float], float], start: float) -> float:
    """Root of an increasing h, wherever it is."""
    width = 1.0
    while h(start - width) > 0:
        width *= 2
    return _root(h, start - width, width)


def implicit(point: Point) -> Answer:
    """The proximal point, from the stationarity of each block of variables."""
    forms = {0: _implicit_proposed, 1: _implicit_raman}
    return forms.get(point.carry, _implicit_carried)(point)


def _carried_alone(point: Point, u: float) -> float:
    """x = 0: 1 - e^-u (1 + sum alpha) + (u - u~) / eta_u = 0, as the scores of an empty row are all 0."""
    a = np.exp(point.log_a)
    return _root(lambda new: point.eta_u * (1 - np.exp(-new) * a) + new - u, u - point.eta_u, 1.0)


def _implicit_proposed(point: Point) -> Answer:
    p = np.zeros_like(point.scores)
    if point.x_sq == 0:
        return p, 0.0, _carried_alone(point, point.carried), point.log_a
    seen, x_sqs = point.counts, point.row_x_sq
    base = np.log(point.eta * point.alpha[seen] * x_sqs) + point.scores[seen] - point.label_score

    def u_of(q: float) -> float:
        return q - point.x_sq * float((wrightomega(base - q) / x_sqs).sum())

    def h(q: float) -> float:
        u = max(u_of(q), -100.0)  # e^-u must not overflow; h is far below 0 by then
        rise = (q - u_of(q)) / point.x_sq
        return point.eta * (1 - np.exp(-u)) - rise + point.eta / point.eta_u * (u - point.carried)

    q = _root(h, 0.0, 1.0)
    p[seen] = wrightomega(base - q) / x_sqs
    return p, p.sum(), u_of(q), point.log_a


def _implicit_raman(point: Point) -> Answer:
    p = np.zeros_like(point.scores)
    if point.x_sq == 0:
        u = _carried_alone(point, point.carried - point.label_score)
        return p, 0.0, u + point.label_score, point.log_a
    seen, x_sqs = point.counts, point.row_x_sq
    pull = point.eta * point.x_sq
    base = np.log(point.eta * x_sqs * point.alpha[seen]) + point.scores[seen]
    base_y = np.log(pull) + point.label_score + pull

    def h(v: float) -> float:
        fall = float(wrightomega(base_y - v) / point.x_sq + (wrightomega(base - v) / x_sqs).sum())
        return point.eta - fall + point.eta / point.eta_u * (v - point.carried)

    v = _root(h, point.carried - point.eta_u, 1.0)
    p[seen] = wrightomega(base - v) / x_sqs
    return p, point.eta - float(wrightomega(base_y - v)) / point.x_sq, v, point.log_a


def _implicit_carried(point: Point) -> Answer:
    """Any a: minimise over u and q = z_y + u, given which every w_k has a proximal step of its own.

    What is left is eta (u + e^-u) + |q - u - z~_y|^2 / (2 X) + eta / (2 eta_u) (v - v~)^2, v = (1 - a) u + a q.
    """
    p, a, z_y, tie = np.zeros_like(point.scores), point.carry, point.label_score, point.eta / point.eta_u
    if point.x_sq == 0:
        u = _carried_alone(point, point.carried - a * z_y)
        return p, 0.0, u + a * z_y, point.log_a
    seen, x_sqs = point.counts, point.row_x_sq
    base = np.log(point.eta * point.alpha[seen] * x_sqs) + point.scores[seen]

    def off(u: float, q: float) -> float:
        return tie * ((1 - a) * u + a * q - point.carried)

    def u_of(q: float) -> float:
        def slope(u: float) -> float:
            return point.eta * (1 - np.exp(-max(u, -600.0))) - (q - u - z_y) / point.x_sq + (1 - a) * off(u, q)

        return _root_near(slope, q - z_y)

    def h(q: float) -> float:
        u = u_of(q)
        return (q - u - z_y) / point.x_sq + a * off(u, q) - float((wrightomega(base - q) / x_sqs).sum())

    q = _root_near(h, point.carried - a * z_y + z_y)
    p[seen] = wrightomega(base - q) / x_sqs
    return p, (q - u_of(q) - z_y) / point.x_sq, (1 - a) * u_of(q) + a * q, point.log_a


def bregman(point: Point) -> Answer:
    """Implicit in W, Bregman in e^-u, by its new u.

    It gives s = sum alpha e^(d - u) at the new scores, since (1 + a) e^-u = a (1 - s) + e^-u~, and then the label's
    move; find where p_k = eta alpha_k e^(d_k - u) sum to eta s.
    """
    p = np.zeros_like(point.scores)
    seen, x_sqs, a = point.counts, point.row_x_sq, point.eta_u
    if point.x_sq == 0:
        return p, 0.0, _scent(point.eta_u, point.carried, point.log_a), point.log_a
    base = np.log(point.eta * point.alpha[seen] * x_sqs) + point.scores[seen] - point.label_score

    def sum_at(u: float) -> float:
        return float(1 + (np.exp(-point.carried) - (1 + a) * np.exp(-u)) / a)

    def moves(u: float) -> Floats:
        p: Floats = wrightomega(base - point.x_sq * point.eta * sum_at(u) - u) / x_sqs
        return p

    u = _root(lambda u: point.eta * sum_at(u) - moves(u).sum(), np.log1p(a) - np.log(a + np.exp(-point.carried)), 1.0)
    p[seen] = moves(u)
    return p, p.sum(), u, point.log_a


def _scent(eta_u: float, u: float, log_a: float) -> float:
    """e^u becomes (1 + a A) / (a + e^-u)."""
    return float(np.log((1 + eta_u * np.exp(log_a)) / (eta_u + np.exp(-u))))


def _averaged(u: float, log_a: float, gain: float) -> float:
    """e^u becomes the mean of itself and the sampled sum."""
    return float(np.log((1 - gain) * np.exp(u) + gain * np.exp(log_a)))


def _average_by_visits(point: Numbers, u: float, log_a: float, bound: float) -> float:
    """With the weight gain t^-power at visit t."""
    return _averaged(u, log_a, point.gain * (1 + point.visits) ** -point.gain_power)


@dataclass(frozen=True)
class RuleForU:
    """How u moves in the double sum: after(numbers, u, log A, a bound from below on log A) is the u at which the
    gradient is taken; `steps` says whether u then moves by its own gradient."""

    after: Callable[[Numbers, float, float, float], float]
    steps: bool = False


RULES = {
    "umax": RuleForU(lambda point, u, log_a, bound: bound if u < bound - point.delta else u, steps=True),
    "sgd": RuleForU(lambda point, u, log_a, bound: u, steps=True),
    "ema": RuleForU(lambda point, u, log_a, bound: _averaged(u, log_a, point.gain)),
    "augment_reduce": RuleForU(_average_by_visits),
    "scgd": RuleForU(_average_by_visits),  # with another power
    "scent": RuleForU(lambda point, u, log_a, bound: _scent(point.eta_u, u, log_a)),
}


def _by_rule(rule: RuleForU, point: Point) -> Answer:
    """The double sum's gradient in W, and in u where the rule takes it."""
    u = rule.after(point, point.carried - point.label_score * point.carry, point.log_a, point.bound)
    p, label, moved, loss = _explicit(point, u)
    return p, label, moved if rule.steps else u + point.label_score * point.carry, loss


def softplus(point: Point) -> Answer:
    """e^t becomes log(1 + rho e^t) / rho, whose slope is e^t / (1 + rho e^t)."""
    u, rho = point.carried, point.rho

    def slope(t: Floats | float) -> Floats:
        return np.exp(t) / (1 + rho * np.exp(t))

    p = point.alpha * slope(point.scores - point.label_score - u)
    u_slope = 1 - slope(-u) - p.sum()
    return point.eta * p, point.eta * p.sum(), u - point.eta_u * float(u_slope), point.log_a


def ove(point: Point) -> Answer:
    """sum alpha log(1 + e^d)."""
    p = point.eta * point.alpha * expit(point.scores - point.label_score)
    return p, p.sum(), point.carried, point.log_a


def nce(point: Point) -> Answer:
    """log(1 + e^-t_y) + sum of times log(1 + e^t_k), t = z - log(m q), where a draw weighs 1 / (m q)."""
    p = np.zeros_like(point.scores)
    seen = point.counts
    t = point.scores[seen] + np.log(point.alpha[seen] / point.draws[seen])
    p[seen] = point.eta * point.draws[seen] * expit(t)
    label = point.eta * float(expit(-(point.label_score + np.log(point.label_alpha))))
    return p, label, point.carried, point.log_a


def negative_sampling(point: Point) -> Answer:
    """log(1 + e^-z_y) + sum of times log(1 + e^z_k)."""
    p = point.eta * np.where(point.counts, point.draws, 0.0) * expit(point.scores)
    return p, point.eta * float(expit(-point.label_score)), point.carried, point.log_a


def importance(point: Point) -> Answer:
    """-z_y + sum of w_k z_k with w proportional to alpha e^z."""
    seen = point.counts
    p = np.zeros_like(point.scores)
    terms = np.log(point.alpha[seen]) + point.scores[seen]
    p[seen] = point.eta * np.exp(terms - logsumexp(terms))
    return p, point.eta, point.carried, point.log_a


def bouchard(point: Point) -> Answer:
    """-z_y + a + log(1 + e^(z_y - a)) + sum alpha log(1 + e^(z_k - a)) at its best a."""

    def excess(a: float) -> float:
        return float(expit(a - point.label_score) - (point.alpha * expit(point.scores - a)).sum())

    a = point.carried
    if point.counts.any():
        a = _root(excess, min(point.label_score, float(point.scores.min())) - 60, 1.0)
        p = point.eta * point.alpha * expit(point.scores - a)
        return p, point.eta * float(expit(a - point.label_score)), a, point.log_a
    return np.zeros_like(point.scores), 0.0, point.label_score - 40, point.log_a  # any a that is low enough


STEPS: dict[str, Callable[[Point], Answer]] = {
    **{name: partial(_by_rule, rule) for name, rule in RULES.items()},
    "implicit": implicit,
    "exact": exact,
    "css": exact,
    "softplus": softplus,
    "bregman": bregman,
    "ove": ove,
    "nce": nce,
    "negative_sampling": negative_sampling,
    "is": importance,
    "bouchard": bouchard,
}

IMPLICIT = {"implicit", "bregman"}  # proximal steps: with a ridge they see the scores that shrinking leaves
WITH_LABEL = {"is", "nce"}  # their draws are from all classes
RAMAN = ["implicit", *RULES]  # solvers that know both forms


def log1pexp(t):
    """log(1 + e^t)."""
    return np.logaddexp(0, t)


def sampled_sum(p, z, z_y):
    """A = 1 + sum alpha e^d."""
    return 1 + np.sum(p.alpha * np.exp(z - z_y))


def double_sum(rule, p, z, z_y, u):
    """u + e^-u A at the u that the rule gives."""
    u = rule.after(p, p.carried, p.log_a, p.bound)
    return u + np.exp(-u) * sampled_sum(p, z, z_y)


def bouchards_bound(p, z, z_y, a):
    """The log-loss's upper bound with the parameter a."""
    return -z_y + a + log1pexp(z_y - a) + np.sum(p.alpha * log1pexp(z - a))


# Formulas of the objectives, name -> f(point, z, z_y, u) whose gradient in (z, z_y) a step of size 1 subtracts. u is
# the value after the step's own rule, at which the W-gradient is taken; core/test_objectives.py tests u by itself.
OBJECTIVES = {
    "css": lambda p, z, z_y, u: np.log(sampled_sum(p, z, z_y)),
    "exact": lambda p, z, z_y, u: np.log(sampled_sum(p, z, z_y)),
    **{name: partial(double_sum, rule) for name, rule in RULES.items()},
    "softplus": lambda p, z, z_y, u: (
        p.carried
        + log1pexp(np.log(p.rho) - p.carried) / p.rho
        + np.sum(p.alpha * log1pexp(np.log(p.rho) + z - z_y - p.carried)) / p.rho
    ),
    "ove": lambda p, z, z_y, u: np.sum(p.alpha * log1pexp(z - z_y)),
    "nce": lambda p, z, z_y, u: (
        log1pexp(-(z_y + np.log(p.label_alpha))) + np.sum(p.draws * log1pexp(z + np.log(p.alpha / p.draws)))
    ),
    "negative_sampling": lambda p, z, z_y, u: log1pexp(-z_y) + np.sum(p.draws * log1pexp(z)),
    # Its weights are not the derivative of the estimate, but of the log of the draws' own sum.
    "is": lambda p, z, z_y, u: -z_y + logsumexp(z, b=p.alpha),
    "bouchard": bouchards_bound,  # at its best a, where the slope in a is 0
}

# Learning rates for fits that are compared with their twins; 0.5 for those that are not listed. Large enough to reach
# far from W = 0 in three passes, small enough that explicit steps do not magnify rounding. (From u = 0, plain SGD
# would run away at any rate worth the name: what U-max and implicit steps are for. The weight K / m of a sampled
# class is in the steps of one-vs-each and Bouchard's bound as it stands, in others inside a ratio.)
RATES = {"implicit": 2.0, "bregman": 2.0, "umax": 0.1, "sgd": 0.02, "softplus": 0.1, "ove": 0.2, "bouchard": 0.2}
