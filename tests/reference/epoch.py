"""Twin of train/points/points.hpp and of what SoftmaxClassifier.fit does around it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reference.rng import VISIT_ORDER, Rng, class_order, shuffled
from reference.selections import INCLUSION, SELECTIONS, Choice, Drawn
from reference.steps import IMPLICIT, STEPS, WITH_LABEL, Answer, Point

Floats = NDArray[np.float64]
SCHEDULES = {
    "exponential": lambda decay, t: decay**t,
    "inverse": lambda decay, t: 1 / (1 + t),
    "constant": lambda decay, t: 1.0,
    "adaptive": lambda decay, t: decay**t,
}
CARRY = {"proposed": 0.0, "raman": 1.0}
DEFAULTS = {
    "solver": "implicit",
    "formulation": "proposed",
    "selection": "frequency_block",
    "frequency_power": 0.75,
    "n_negatives": 64,
    "n_head": 16,
    "refresh": 10,
    "candidates": None,
    "batch_size": None,
    "share_classes": None,
    "u_learning_rate": "auto",
    "schedule": "exponential",
    "decay": 0.9,
    "decay_every": None,
    "max_iter": 20,
    "u_init": "log_n_classes",
    "shuffle": True,
    "delta": 1.0,
    "u_gain": 0.5,
    "alpha": 0.0,
    "averaging": "none",
    "max_norm": None,
    "fit_intercept": True,
    "sample_weight": None,
}


@dataclass
class Fit:
    """W, intercepts, the running loss of each pass and the carried values."""

    coef: Floats
    intercept: Floats
    loss_curve: list[float]
    carried: Floats


def seed_of(random_state: int) -> int:
    """The 64-bit seed that an integer random_state stands for."""
    return int(np.random.RandomState(random_state).randint(0, np.iinfo(np.int64).max, dtype=np.int64))


def batch_size(labels: NDArray[np.int64], n_classes: int, *, every_class: bool) -> int:
    """Points that see the same weights: at most one per 64 classes, 64 (4 if all classes are scored), and so few
    that the most frequent label comes once."""
    if n_classes < 1024:
        return 1
    return max(1, min(4 if every_class else 64, n_classes // 64, len(labels) // int(np.bincount(labels).max())))


def weights_of_ridge(choice: Choice, selection: str) -> Floats:
    """b_k = 1 / P(row k is touched by a visit), as the label or as a drawn class."""
    share = np.asarray(choice.counts) / np.sum(choice.counts)
    b: Floats = 1 / (share + (1 - share) * INCLUSION[selection](choice))
    return b


def rate_of_u(options: SimpleNamespace) -> float:
    """The step size given, or 30 ("auto", for "implicit"), or that of W; u_gain for Bregman's steps."""
    if options.solver in ("bregman", "scent"):
        return float(options.u_gain)
    if options.u_learning_rate == "auto" and options.solver == "implicit":
        return 30.0
    given = options.u_learning_rate
    return float(options.learning_rate if given is None or isinstance(given, str) else given)


@dataclass
class Move:
    """What one visit does to W: w_k -= p_k x, w_y += rise x, then w *= s."""

    i: int
    y: int
    drawn: Drawn
    p: Floats
    rise: float
    s: Floats
    s_y: float


class Training:
    """One point after the other, all in float64 and dense, classes by position in the order of training."""

    def __init__(self, X: Floats, labels: NDArray[np.int64], n_classes: int, options: dict[str, Any]) -> None:
        self.X, self.options = X, SimpleNamespace(**{**DEFAULTS, **options})
        o, n = self.options, len(labels)
        # The objective is sum_i w_i loss_i / sum_i w_i: a visit of a uniform point counts w_i / mean w times.
        given = np.ones(n) if o.sample_weight is None else np.asarray(o.sample_weight, dtype=np.float64)
        self.sample_weight = given / given.mean()
        self.seed = seed_of(o.random_state)
        order = np.array(class_order(n_classes, self.seed))
        if o.selection == "frequency_block":
            order = order[np.argsort(-np.bincount(labels, minlength=n_classes)[order], kind="stable")]
        self.position = np.argsort(order)
        self.labels = self.position[labels]
        self.choice = Choice(
            n_classes,
            o.n_negatives,
            with_label=o.solver in WITH_LABEL,
            counts=np.bincount(self.labels, minlength=n_classes).tolist(),
            power=o.frequency_power,
        )
        self.selection = "all" if o.solver == "exact" else o.selection
        self.ridge = o.alpha * weights_of_ridge(self.choice, self.selection)
        self.W = np.zeros((n_classes, X.shape[1]))
        self.b = np.zeros(n_classes)
        self.carried = np.full(n, np.log(n_classes) if o.u_init == "log_n_classes" else 0.0)
        self.batch = batch_size(labels, n_classes, every_class=self.selection == "all") if o.max_norm is None else 1
        if o.batch_size is not None:
            self.batch = min(o.batch_size, n)
        self.heads = np.full((n, min(o.n_head, n_classes - 1)), -1)
        if o.candidates is not None:
            self.heads = self.position[o.candidates]
        self.squares, self.b_squares = np.zeros_like(self.W), np.zeros(n_classes)
        self.sums = np.zeros_like(self.W), np.zeros(n_classes)
        self.u_max = np.inf
        if o.max_norm is not None and not o.fit_intercept:  # intercepts are free, hence without a bound
            self.u_max = np.log1p((n_classes - 1) * np.exp(2 * np.linalg.norm(X, axis=1).max() * o.max_norm))

    def step(self, point: Point, i: int, t: int) -> Answer:
        """The step of point i in pass t."""
        return STEPS[self.options.solver](point)

    def solve(self, i: int, named_by: int, t: int, eta: float, eta_u: float) -> tuple[Move, float]:
        """The step of point i in pass t at the present weights, and its loss."""
        o, x, y = self.options, self.X[i], self.labels[i]
        drawn = SELECTIONS[self.selection](Rng(self.seed, t, named_by), self.choice, y, self.heads[i])
        classes = drawn.classes
        s = np.where(drawn.random & (classes != y), 1 / (1 + eta * self.ridge[classes]), 1.0)
        s_y = 1 / (1 + eta * self.ridge[y])
        products, product_y = (self.W[classes] * x).sum(axis=1), (self.W[y] * x).sum()
        x_sq = float(x @ x)
        shrinks_first = o.solver in IMPLICIT
        point = Point(
            scores=products * (s if shrinks_first else 1) + self.b[classes],
            alpha=drawn.alpha,
            label_score=float(product_y * (s_y if shrinks_first else 1) + self.b[y]),
            x_sq=x_sq * (s_y if shrinks_first else 1) + o.fit_intercept,
            x_sqs=x_sq * s + o.fit_intercept,
            eta=eta * self.sample_weight[i],
            eta_u=eta_u,
            carried=float(self.carried[i]),
            carry=CARRY.get(o.formulation, o.formulation),
            delta=o.delta,
            gain=o.u_gain if o.solver == "ema" else 1.0,
            gain_power=2 / 3 if o.solver == "scgd" else 0.9,
            rho=o.u_gain,
            visits=t,
            label_alpha=drawn.label_alpha,
            times=drawn.times if len(drawn.times) else None,
        )
        p, rise, self.carried[i], loss = self.step(point, i, t)
        self.carried[i] = np.clip(self.carried[i], 0, self.u_max) if o.max_norm is not None else self.carried[i]
        if self.choice.with_label:  # the label counts once
            loss = logsumexp(
                np.append(point.scores - point.label_score, 0), b=np.append(drawn.alpha * (classes != y), 1)
            )
        return Move(i, y, drawn, p, rise, s, s_y), float(loss) * float(self.sample_weight[i])

    def apply(self, move: Move) -> None:
        """Move the rows of one visit, and shrink or project them."""
        o, x, y, classes = self.options, self.X[move.i], move.y, move.drawn.classes
        self.W[classes] -= np.outer(move.p, x)
        self.W[classes] *= move.s[:, np.newaxis]
        self.W[y] = (self.W[y] + move.rise * x) * move.s_y
        if o.fit_intercept:
            self.b[classes] -= move.p
            self.b[y] += move.rise
        if o.max_norm is not None:
            touched = np.union1d(classes, y)
            norms = np.linalg.norm(self.W[touched], axis=1)
            self.W[touched] *= np.minimum(1, o.max_norm / np.maximum(norms, 1e-300))[:, np.newaxis]

    def apply_adaptively(self, moves: list[Move], share: float, rate: float) -> None:
        """w += rate G / (1 + sqrt s), s = G^2 at first and then a mean, one step for a batch.

        G is the ascent gradient of the batch, N / B times the sum over its points; moves are `share` times theirs.
        """
        scale = len(self.X) / (len(moves) * share)
        gradient, of_intercepts = np.zeros_like(self.W), np.zeros_like(self.b)
        for move in moves:
            np.add.at(gradient, move.drawn.classes, -scale * np.outer(move.p, self.X[move.i]))
            np.add.at(of_intercepts, move.drawn.classes, -scale * move.p)
            gradient[move.y] += scale * move.rise * self.X[move.i]
            of_intercepts[move.y] += scale * move.rise
        of_intercepts *= self.options.fit_intercept
        for w, s, g in ((self.W, self.squares, gradient), (self.b, self.b_squares, of_intercepts)):
            at = g != 0
            s[at] = np.where(s[at] == 0, g[at] ** 2, 0.1 * g[at] ** 2 + 0.9 * s[at])
            w[at] += rate * g[at] / (1 + np.sqrt(s[at]))

    def search_heads(self) -> None:
        """The wrong classes of largest score of each point, equal scores by position."""
        for i, (x, y) in enumerate(zip(self.X, self.labels, strict=True)):
            order = np.argsort(-(self.W @ x + self.b), kind="stable")
            self.heads[i] = order[order != y][: self.heads.shape[1]]

    def run(self) -> Fit:
        """All passes."""
        o, n = self.options, len(self.X)
        curve, start, iteration = [], o.max_iter // 2 if o.averaging == "suffix" else 0, 0
        for t in range(o.max_iter):
            falls = t if o.decay_every is None else iteration // o.decay_every
            eta = o.learning_rate * SCHEDULES[o.schedule](o.decay, falls)
            eta_u = rate_of_u(o) * SCHEDULES[o.schedule](o.decay, falls)
            visits = shuffled(n, Rng(self.seed, t, VISIT_ORDER)) if o.shuffle else list(range(n))
            loss = 0.0
            for first in range(0, n, self.batch):
                batch = visits[first : first + self.batch]
                share = eta / (len(batch) if o.batch_size is not None else 1)
                solved = [self.solve(i, visits[first] if o.share_classes else i, t, share, eta_u) for i in batch]
                loss += sum(log_a for _, log_a in solved)
                if o.schedule == "adaptive":
                    now = iteration // o.decay_every if o.decay_every else falls
                    rate = o.learning_rate * o.decay**now / np.sqrt(1 + iteration)
                    self.apply_adaptively([move for move, _ in solved], share, rate)
                else:
                    for move, _ in solved:
                        self.apply(move)
                iteration += 1
            curve.append(loss / n)
            if self.selection == "head_tail" and o.candidates is None and (t + 1) % o.refresh == 0:
                self.search_heads()
            if t >= start:
                self.sums[0][:] += self.W
                self.sums[1][:] += self.b
        averages = o.averaging != "none"
        W, b = (total / (o.max_iter - start) for total in self.sums) if averages else (self.W, self.b)
        return Fit(W[self.position], b[self.position], curve, self.carried)


def train(X: Floats, labels: NDArray[np.int64], n_classes: int, **options: Any) -> Fit:
    """Train by the book; options are those of `reference.flat.softmax`, and candidates of a fit."""
    return Training(X, labels, n_classes, options).run()
