"""Slow twin of train/minibatches/labels.cpp: float64, class by class, with the draws that the core makes.

Scores of a point's labels come before those of its wrong classes, in the order in which the source lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reference import losses
from reference.ridge_turns import turns
from reference.rng import VISIT_ORDER, Rng, shuffled
from reference.selections import SELECTIONS, Choice

Floats = NDArray[np.float64]
EMBEDDING_SHARE = {"cross_entropy": 1.5, "margin": 0.5, "triplet": 0.5}
SCHEDULES = {
    "adaptive": lambda rate, decay, t: rate * decay**t,
    "exponential": lambda rate, decay, t: rate * decay**t,
    "inverse": lambda rate, _, t: rate / (1 + t),
    "constant": lambda rate, _, t: rate,
}


@dataclass
class Seen:
    """A point with its gradient over the classes that its step sees."""

    point: int
    phi: Floats  # with the 1 of the intercept
    classes: NDArray[np.int64]
    g: Floats
    loss: float


@dataclass
class LabelTwin:
    """The model and its training; `labels` holds a sorted list for each point."""

    X: Floats
    labels: Sequence[Sequence[int]]
    n_classes: int
    seed: int
    embeddings: Floats | None = None
    loss: str = "cross_entropy"
    smoothing: float = 1.0
    implicit: bool = False
    search: str = "exact"  # "best": the `budget` best wrong classes
    budget: int = 0
    warm_up: int = 1
    n_negatives: int = 256
    frequency_power: float = 0.0
    log_q: bool = True
    share_classes: bool = True  # the draws of a batch are those of its first point, of all classes
    batch_size: int = 32
    shuffle: bool = True
    fit_intercept: bool = True
    sample_weight: Floats | None = None
    activation: str = "linear"
    learning_rate: float = 1.0
    schedule: str = "adaptive"
    decay: float = 0.9
    max_iter: int = 2
    alpha: float = 0.0
    length: float = 1.0  # of rows: embeddings and their steps are in units of it
    hidden: bool = False  # of dense rows: the root of the embeddings' ridge, too
    by_feature: bool = False  # the core has a row of W for each feature: of sparse points without embeddings
    W: Floats = field(init=False)  # intercepts are its last column
    curve: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        n_hidden = self.X.shape[1] if self.embeddings is None else self.embeddings.shape[1]
        self.W = np.zeros((self.n_classes, n_hidden + self.fit_intercept))
        self.class_squares = np.zeros(self.n_classes)
        self.embedding_squares = np.zeros(self.X.shape[1])
        if self.embeddings is not None:
            self.embeddings /= self.length

    @property
    def coef(self) -> Floats:
        """W without intercepts."""
        return self.W[:, :-1] if self.fit_intercept else self.W

    @property
    def intercept(self) -> Floats:
        """The intercepts, zeros where there are none."""
        return self.W[:, -1] if self.fit_intercept else np.zeros(self.n_classes)

    def train(self) -> LabelTwin:
        """All passes; the embeddings' rate is a multiple of the classes'."""
        n = len(self.X)
        for t in range(self.max_iter):
            eta = SCHEDULES[self.schedule](self.learning_rate, self.decay, t)
            visits = self.visits(t)
            total = 0.0
            for first in range(0, n, self.batch_size):
                points = visits[first : first + self.batch_size]
                total += self.train_batch(t, points, eta)
                if self.alpha:
                    self.shrink(range(t * n + first, t * n + first + len(points)), eta)
            self.curve.append(total / n)
        return self

    def visits(self, t: int) -> list[int]:
        """The points in the order of pass t."""
        n = len(self.X)
        return shuffled(n, Rng(self.seed, t, VISIT_ORDER)) if self.shuffle else list(range(n))

    def train_batch(self, t: int, points: list[int], eta: float) -> float:
        """All gradients at the old weights, then a step of each row along its sum; returns the sum of the losses."""
        batch = [self.look(t, i, eta, named_by=points[0]) for i in points]
        backs = [self.send_back(seen) for seen in batch]
        of_class: dict[int, Floats] = {}
        of_feature: dict[int, Floats] = {}
        for seen, back in zip(batch, backs, strict=True):
            for k, g in zip(seen.classes, seen.g, strict=True):
                of_class[k] = of_class.get(k, 0) + g * seen.phi
            if self.embeddings is not None:
                for j in np.flatnonzero(self.X[seen.point]):
                    of_feature[j] = of_feature.get(j, 0) + self.X[seen.point, j] * back
        for k, gradient in of_class.items():
            self.descend(self.W[k], self.class_squares, k, gradient, eta)
        for j, gradient in of_feature.items():
            rate = eta * EMBEDDING_SHARE[self.loss] / self.length
            self.descend(self.embeddings[j], self.embedding_squares, j, gradient, rate)
        return sum(seen.loss for seen in batch)

    def shrink(self, visits: range, eta: float) -> None:
        """The ridge of the rows whose turn it is: w / (1 + s alpha R), s being the step size of w and R a round."""
        n, stored = len(self.X), np.count_nonzero(self.X) / len(self.X)
        seen = self.n_classes if self.search == "exact" else min(self.n_negatives + 1, self.n_classes)
        if self.by_feature:
            for rows, period in turns(self.X.shape[1], stored * seen / self.n_classes, n, visits):
                due = self.step(self.class_squares, eta) * self.alpha * period
                self.coef[:, list(rows)] /= 1 + due[:, np.newaxis]
            return
        for rows, period in turns(self.n_classes, seen, n, visits):
            due = self.step(self.class_squares, eta)[list(rows)] * self.alpha * period
            self.coef[list(rows)] /= 1 + due[:, np.newaxis]
        if self.embeddings is None:
            return
        for rows, period in turns(self.X.shape[1], stored, n, visits):
            step = self.step(self.embedding_squares, eta * EMBEDDING_SHARE[self.loss] / self.length)
            due = step[list(rows), np.newaxis] * self.alpha * (self.length**2 if self.hidden else 1) * period
            self.embeddings[list(rows)] /= 1 + due

    def step(self, squares: Floats, eta: float) -> Floats:
        """The present step size of each row; a row that has not moved has none."""
        if self.schedule != "adaptive":
            return np.full_like(squares, eta)
        return np.divide(eta, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)

    def features(self, i: int) -> Floats:
        """phi(x_i) with the 1 of the intercept."""
        phi = self.X[i] if self.embeddings is None else self.X[i] @ self.embeddings
        if self.activation == "relu":
            phi = np.maximum(phi, 0)
        return np.append(phi, 1.0) if self.fit_intercept else phi

    def look(self, t: int, i: int, eta: float, named_by: int = 0) -> Seen:
        """One point at the present weights; `named_by`: the first one of its batch."""
        phi, P = self.features(i), list(self.labels[i])
        wrong, log_alpha = self.wrong_classes(t, i, phi, named_by)
        classes = np.array([*P, *wrong], dtype=np.int64)
        z = self.W[classes] @ phi
        z[len(P) :] += log_alpha
        # The loss of a point is its weight times that of its scores; so are its gradient and the size of its step.
        r = 1.0 if self.sample_weight is None else float(self.sample_weight[i] / np.mean(self.sample_weight))
        loss, g = self.loss_and_gradient(z, range(len(P)), r * eta * phi @ phi)
        return Seen(i, phi, classes, r * g, r * loss)

    def wrong_classes(self, t: int, i: int, phi: Floats, named_by: int) -> tuple[list[int], Floats | float]:
        """The wrong classes that the step at point i sees, and what their scores are raised by."""
        P, rng = self.labels[i], Rng(self.seed, t, named_by if self.share_classes else i)
        wrong = [k for k in range(self.n_classes) if k not in P]
        if self.search == "exact":
            return wrong, 0.0
        if self.search == "best" and t >= self.warm_up:
            z = self.W[wrong] @ phi
            return [wrong[c] for c in np.argsort(-z, kind="stable")[: self.budget]], 0.0
        drawn = SELECTIONS[self.selection](rng, self.choice, [] if self.share_classes else P)
        counts = drawn.alpha > 0
        listed, alpha = drawn.classes[counts], drawn.alpha[counts]
        if self.share_classes:
            order = without(np.flatnonzero(np.isin(listed, P)), len(listed))
            listed, alpha = listed[order], alpha[order]
        return listed.tolist(), np.log(alpha) if self.log_q and self.loss == "cross_entropy" else 0.0

    @property
    def selection(self) -> str:
        """Distinct classes, or draws by frequency."""
        return "frequency" if self.frequency_power else "uniform"

    @property
    def choice(self) -> Choice:
        """What all draws have in common; those of a batch are from all classes."""
        counts = np.bincount(np.concatenate([np.asarray(p) for p in self.labels]), minlength=self.n_classes)
        return Choice(
            self.n_classes,
            self.n_negatives,
            with_label=self.share_classes,
            counts=counts.tolist(),
            power=self.frequency_power,
        )

    def loss_and_gradient(self, z: Floats, P: Sequence[int], eta_phi_sq: float) -> losses.Loss:
        """The loss of a point over what it sees; an implicit step is the gradient of a smoother margin."""
        if self.loss == "cross_entropy":
            return losses.cross_entropy(z, P)
        if self.loss == "triplet":
            return losses.triplet(z, P)
        smoothing = self.smoothing + (eta_phi_sq if self.implicit else 0)
        return losses.smoothed_margin(z, P, smoothing) if smoothing else losses.max_margin(z, P)

    def send_back(self, seen: Seen) -> Floats:
        """The gradient that x_j carries to e_j: dL/dphi where phi is not cut off."""
        if self.embeddings is None:
            return np.zeros(0)
        n_hidden = self.embeddings.shape[1]
        back = (seen.g @ self.W[seen.classes])[:n_hidden]
        return np.where(seen.phi[:n_hidden] > 0, back, 0) if self.activation == "relu" else back

    def descend(self, row: Floats, squares: Floats, k: int, gradient: Floats, eta: float) -> None:
        """A step of a row, by Adagrad with one sum of squares for it, or plain."""
        if self.schedule == "adaptive":
            squares[k] += gradient @ gradient
            eta = eta / np.sqrt(squares[k]) if squares[k] else 0.0
        row -= eta * gradient


def without(places: NDArray[np.intp], n: int) -> list[int]:
    """The numbers below n but those given, which change places with the last ones: ties of scores go by this order."""
    order, n_left = list(range(n)), n - len(places)
    for i in reversed(range(len(places))):
        order[places[i]], order[n_left + i] = order[n_left + i], order[places[i]]
    return order[:n_left]


def centred(X: Floats) -> Floats:
    """Dense rows as a hidden layer has them: about their mean, and a feature of its bias, as long as they are."""
    X = X.astype(np.float64)
    mean = X.mean(axis=0)
    length = np.sqrt(np.mean(np.sum((X - mean) ** 2, axis=1)))
    return np.column_stack([X, np.zeros(len(X))]) - np.append(mean, -length).astype(np.float32)


def unit_of_rows(X: Floats) -> float:
    """The root mean square of the rows' lengths, to a power of two."""
    return 2.0 ** float(np.round(np.log2(np.sqrt(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1))))))


def starting_embeddings(seed: int, n_features: int, n_hidden: int) -> Floats:
    """Normal ones of expected length 1, as the estimators draw them."""
    drawn = np.random.default_rng(seed).standard_normal((n_features, n_hidden), dtype=np.float32)
    return (drawn * np.float32(1 / np.sqrt(n_hidden))).astype(np.float64)
