"""Twin of train/epoch.hpp and of what SoftmaxClassifier.fit does around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference.rng import VISIT_ORDER, Rng, class_order, shuffled
from reference.selections import SELECTIONS
from reference.steps import STEPS, Point

Floats = NDArray[np.float64]
SCHEDULES = {
    "exponential": lambda decay, t: decay**t,
    "inverse": lambda decay, t: 1 / (1 + t),
    "constant": lambda decay, t: 1.0,
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
    """Points that see the same weights: at most one per 64 classes, 64 (16 if all classes are scored), and so few
    that the most frequent label comes once."""
    if n_classes < 1024:
        return 1
    return max(1, min(16 if every_class else 64, n_classes // 64, len(labels) // int(np.bincount(labels).max())))


def train(
    X: Floats,
    labels: NDArray[np.int64],
    n_classes: int,
    *,
    solver: str,
    formulation: str = "proposed",
    selection: str = "block",
    n_negatives: int = 64,
    learning_rate: float,
    u_learning_rate: float | None = None,
    schedule: str = "exponential",
    decay: float = 0.9,
    max_iter: int = 20,
    u_init: str = "log_n_classes",
    shuffle: bool = True,
    delta: float = 1.0,
    max_norm: float | None = None,
    fit_intercept: bool = True,
    random_state: int,
) -> Fit:
    """Train by the book: one point after the other, all in float64, classes by position in the random order."""
    n, n_features = X.shape
    seed = seed_of(random_state)
    order = np.array(class_order(n_classes, seed))
    position = np.argsort(order)
    W = np.zeros((n_classes, n_features))
    b = np.zeros(n_classes)
    carried = np.full(n, np.log(n_classes) if u_init == "log_n_classes" else 0.0)
    draw = SELECTIONS["all" if solver == "exact" else selection]
    every_class = solver == "exact" or selection == "all"
    batch = batch_size(labels, n_classes, every_class=every_class) if max_norm is None else 1
    u_max = np.inf
    if max_norm is not None:
        u_max = np.log1p((n_classes - 1) * np.exp(2 * np.linalg.norm(X, axis=1).max() * max_norm))

    curve = []
    for t in range(max_iter):
        factor = SCHEDULES[schedule](decay, t)
        visits = shuffled(n, Rng(seed, t, VISIT_ORDER)) if shuffle else list(range(n))
        loss = 0.0
        for start in range(0, n, batch):
            moves = []
            for i in visits[start : start + batch]:
                y = position[labels[i]]
                classes, alpha = draw(Rng(seed, t, i), n_classes, min(n_negatives, n_classes), y)
                point = Point(
                    scores=W[classes] @ X[i] + b[classes],
                    alpha=alpha,
                    label_score=float(W[y] @ X[i] + b[y]),
                    x_sq=float(X[i] @ X[i]) + fit_intercept,
                    eta=learning_rate * factor,
                    eta_u=(u_learning_rate or learning_rate) * factor,
                    carried=float(carried[i]),
                    raman=formulation == "raman",
                    delta=delta,
                )
                p, rise, carried[i], log_a = STEPS[solver](point)
                if max_norm is not None:
                    carried[i] = np.clip(carried[i], 0, u_max)
                moves.append((i, y, classes, p, rise))
                loss += log_a
            for i, y, classes, p, rise in moves:
                W[classes] -= np.outer(p, X[i])
                W[y] += rise * X[i]
                if fit_intercept:
                    b[classes] -= p
                    b[y] += rise
                if max_norm is not None:
                    touched = np.union1d(classes, y)
                    norms = np.linalg.norm(W[touched], axis=1)
                    W[touched] *= np.minimum(1, max_norm / np.maximum(norms, 1e-300))[:, np.newaxis]
        curve.append(loss / n)
    return Fit(W[position], b[position], curve, carried)
