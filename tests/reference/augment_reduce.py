"""Twins of augment and reduce: what one visit does with q and the scores of a point, and whole fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_ndtr, logit, logsumexp, ndtri_exp, wrightomega

from manyclass import _core
from reference.epoch import Fit, Training
from reference.rng import Rng
from reference.steps import Answer, Floats, Point, _root


@dataclass(frozen=True)
class Law:
    """A noise: phi and Phi are its density and distribution function (Ruiz et al. 2018, eq. 4-6)."""

    draw: Callable[[Rng], float]
    quantile: Callable[[Any], Any]  # the inverse of Phi, of log p
    log_density: Callable[[Any], Any]
    slope: Callable[[Any], Any]  # (log phi)'
    log_cdf: Callable[[Any], Any]
    hazard: Callable[[Any], Any]  # (log Phi)'
    curvature: Callable[[Any, Any], Any]  # -(log Phi)'', of t and its hazard
    move: Callable[[float, Any, Any], Any]  # of mu, by the gain, the mean slope and the variance that q is to have
    bounded_hazard: bool  # then a step is held to the largest that the implicit one could make


def uniform_inside(rng: Rng) -> float:
    """The middle of one of 2^52 cells of ]0, 1[."""
    return ((rng.next() >> 12) + 0.5) * 2.0**-52


def box_muller(rng: Rng) -> float:
    """A normal draw (Box & Muller 1958)."""
    p = uniform_inside(rng)
    return float(np.sqrt(-2 * np.log(p)) * np.cos(2 * np.pi * uniform_inside(rng)))


LAWS = {
    "normal": Law(
        draw=box_muller,
        quantile=ndtri_exp,
        log_density=lambda e: -(e**2) / 2 - np.log(2 * np.pi) / 2,
        slope=lambda e: -e,
        log_cdf=log_ndtr,
        hazard=lambda t: np.exp(-(t**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(t)),
        curvature=lambda t, h: np.clip(h * (h + t), 0, 1),
        move=lambda gain, slope, variance: gain * variance * slope,
        bounded_hazard=False,
    ),
    "logistic": Law(
        draw=lambda rng: float(logit(uniform_inside(rng))),
        quantile=lambda log_p: log_p - np.log(-np.expm1(log_p)),
        log_density=lambda e: log_expit(e) + log_expit(-e),
        slope=lambda e: expit(-e) - expit(e),
        log_cdf=log_expit,
        hazard=lambda t: expit(-t),
        curvature=lambda t, h: h * expit(t),
        move=lambda gain, slope, variance: np.log1p(gain * slope),
        bounded_hazard=True,
    ),
}


def draw(family: str, rng: Rng) -> float:
    """From the standard member of a family: a noise's, or Gumbel."""
    return LAWS[family].draw(rng) if family in LAWS else -float(np.log(-np.log(uniform_inside(rng))))


def simulated(noise: str, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    """Noise by its quantile function, for data."""
    log_p = np.log(1 - rng.random(size))
    return np.asarray(LAWS[noise].quantile(log_p) if noise in LAWS else -np.log(-log_p))


@dataclass
class Setting:
    """What all visits share."""

    noise: str
    solver: str
    local_step: str
    floor: float
    family: _core.LocalFamily | None
    gain: float = 1.0
    gain_power: float = 0.9

    def share(self, t: int) -> float:
        """How far q moves to its newest estimate, or its step size."""
        return max(self.floor, self.gain * t**-self.gain_power)


def bound(
    setting: Setting, point: Point, z: Floats, z_y: float, mu: float, s: float, nodes: Any, weights: Any
) -> float:
    """E_q[log phi(e) + sum alpha log Phi(e + z_y - z_k)] + H(q) by a rule."""
    law, e = LAWS[setting.noise], mu + s * np.asarray(nodes)
    inside = law.log_density(e) + law.log_cdf(e[:, np.newaxis] + z_y - z) @ point.alpha
    return float(inside @ weights + np.log(s) + setting.family.entropy)


def step(setting: Setting, point: Point, mu: float, s: float, rng: Rng | None = None) -> tuple[Answer, float]:
    """((p, label, mu, loss), s) of one visit."""
    if setting.noise == "gumbel":
        return _gumbel(setting, point, mu), s
    family, law, d = setting.family, LAWS[setting.noise], point.scores - point.label_score

    def slope_at(e: float) -> float:
        return float(law.slope(e) + point.alpha @ law.hazard(e - d))

    if setting.local_step == "natural":
        nodes, weights = family.nodes, family.weights
        mean = nodes @ weights
        g = np.array([slope_at(mu + s * v) for v in nodes])
        gain = setting.share(2 + point.visits)
        precision = (1 - gain) / s**2 - gain * (g * (nodes - mean)) @ weights / s
        new = min(precision**-0.5, family.largest_scale)
        variance = (nodes - mean) ** 2 @ weights
        mu += (s - new) * mean + law.move(gain, g @ weights, new**2 * variance)
        s = new
    else:
        v, rate = draw(family.name, rng), setting.share(2 + point.visits)
        slope, gamma = slope_at(mu + s * v), np.log(np.expm1(s))
        mu += rate * slope
        s = float(np.logaddexp(0, gamma + rate * (slope * v + 1 / s) * expit(gamma)))
        nodes, weights = np.array([draw(family.name, rng)]), np.ones(1)

    t = (mu + s * nodes)[:, np.newaxis] - d
    h, c = weights @ law.hazard(t), weights @ law.curvature(t, law.hazard(t))
    loss = -bound(setting, point, point.scores, point.label_score, mu, s, nodes, weights)
    b = point.eta * point.alpha
    if setting.solver == "sgd":
        return (b * h, float(b @ h), mu, loss), s

    # p_k = b_k (h_k - c_k (X_k p_k + rise)), rise = X_y sum p. (Class by class, so that equal classes stay equal.)
    x_sqs = np.full_like(b, point.x_sq) if point.x_sqs is None else point.x_sqs

    def moves(rise: float) -> Floats:
        p: Floats = b * (h - c * rise) / (1 + b * c * x_sqs)
        return p

    p = np.maximum(moves(_root(lambda rise: rise - point.x_sq * moves(rise).sum(), 0.0, 1.0)), 0)
    if law.bounded_hazard and point.x_sq > 0:
        seen = point.counts
        decay = np.log(weights @ np.exp(-(mu + s * nodes)))
        top = np.log(b[seen] * x_sqs[seen]) + decay + d[seen]
        p[seen] = np.minimum(p[seen], np.maximum(1, top) / x_sqs[seen])
        p *= min(1, max(1, logsumexp(np.append(top, -np.inf))) / max(point.x_sq * p.sum(), 1e-300))
    return (p, float(p.sum()), mu, loss), s


def _gumbel(setting: Setting, point: Point, u: float) -> Answer:
    gain = setting.share(1 + point.visits)
    u = float(np.log((1 - gain) * np.exp(u) + gain * np.exp(point.log_a)))
    loss = u + np.exp(point.log_a - u) - 1
    d = point.scores - point.label_score
    if setting.solver == "sgd":
        p = point.eta * point.alpha * np.exp(d - u)
        return p, float(p.sum()), u, loss
    p, seen = np.zeros_like(d), point.counts
    if point.x_sq == 0:
        return p, 0.0, u, loss
    x_sqs = point.row_x_sq
    base = np.log(point.eta * point.alpha[seen] * x_sqs) + d[seen] - u

    def moves(rise: float) -> Floats:
        q: Floats = wrightomega(base - rise) / x_sqs
        return q

    rise = _root(lambda rise: rise - point.x_sq * moves(rise).sum(), 0.0, 1.0)
    p[seen] = moves(rise)
    return p, float(p.sum()), u, loss


class BoundTraining(Training):
    """One point after the other."""

    def __init__(self, X: Floats, labels: NDArray[np.int64], n_classes: int, options: dict[str, Any]) -> None:
        super().__init__(X, labels, n_classes, {"max_norm": None, "u_init": "log_n_classes", **options})
        o = self.options
        family = None
        if o.noise != "gumbel":
            family = _core.LocalFamily(noise=o.noise, name=o.local_family, n_nodes=o.n_nodes, n_classes=n_classes)
            self.carried[:] = family.mu
            self.scales = np.full(len(labels), family.s)
        natural = o.local_step == "natural"
        floor = 1.0 if o.selection == "all" else min(1.0, o.n_negatives / (n_classes - 1))
        floor = floor if natural else 0.0
        if getattr(o, "floor", "auto") != "auto":
            floor = o.floor
        gain = getattr(o, "gain", 1.0 if natural else 0.01)
        self.setting = Setting(o.noise, o.solver, o.local_step, floor, family, gain, getattr(o, "gain_power", 0.9))

    def step(self, point: Point, i: int, t: int) -> Answer:
        """The step of point i in pass t."""
        if self.setting.family is None:
            return step(self.setting, point, point.carried, 1.0)[0]
        rng = Rng(self.seed, t, 2**32 + i)
        answer, self.scales[i] = step(self.setting, point, point.carried, float(self.scales[i]), rng)
        return answer


def train(X: Floats, labels: NDArray[np.int64], n_classes: int, **options: Any) -> Fit:
    """Train by the book; options are those of `reference.flat.utility`, family and nodes given."""
    return BoundTraining(X, labels, n_classes, options).run()
