"""The implicit step of a batch by the book: every variable (u, W, b) kept, the minimum found by scipy."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import wrightomega

from reference.rng import VISIT_ORDER, Rng, class_order, shuffled

Floats = NDArray[np.float64]
BATCHES = 2**64 - 3  # the split into batches, an item of epoch 0


@dataclass
class Batch:
    """f_jC of points x (n x D) with labels y among the touched classes (T rows of W), and its proximity terms.

    A point's weight multiplies its terms of f_jC and of the proximity in u, so that u moves as it would with weight 1.
    """

    x: Floats
    y: NDArray[np.int64]
    weights: Floats  # T: of e^d, 1 for labels of the batch
    ridge: Floats  # T: alpha b_k
    share: float
    has_intercept: bool = True
    eta: float = 1.0
    eta_u: float = 1.0
    of_points: Floats | None = None
    size: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.size = (len(self.x), len(self.weights), self.x.shape[1])
        self.r = np.ones(len(self.x)) if self.of_points is None else self.of_points

    def split(self, flat: Floats) -> tuple[Floats, Floats, Floats]:
        """(u, W, b) of one vector."""
        n, t, d = self.size
        return flat[:n], flat[n : n + t * d].reshape(t, d), flat[n + t * d :]

    def f(self, flat: Floats) -> tuple[float, Floats]:
        """Value and gradient of f_jC."""
        u, W, b = self.split(flat)
        rows = np.arange(len(u))
        z = self.x @ W.T + b
        e = self.weights * np.exp(z - z[rows, self.y][:, np.newaxis] - u[:, np.newaxis])
        e[rows, self.y] = 0
        total = np.exp(-u) + e.sum(axis=1)
        value = self.share * np.sum(self.r * (u + total)) + 0.5 * np.sum(self.ridge * (W**2).sum(axis=1))
        g = e.copy()
        g[rows, self.y] = -e.sum(axis=1)
        g *= self.share * self.r[:, np.newaxis]
        g_b = g.sum(axis=0) if self.has_intercept else np.zeros(len(b))
        g_w = g.T @ self.x + self.ridge[:, np.newaxis] * W
        return float(value), np.concatenate([self.share * self.r * (1 - total), g_w.ravel(), g_b])

    def prox(self, old: Floats) -> Any:
        """The function flat -> value and gradient whose minimiser is the step from `old`."""
        eta = np.full(len(old), self.eta)
        eta[: self.size[0]] = self.eta_u / self.r

        def objective(flat: Floats) -> tuple[float, Floats]:
            value, gradient = self.f(flat)
            away = (flat - old) / eta
            return value + 0.5 * float(away @ (flat - old)), gradient + away

        return objective

    def distance_bound(self, flat: Floats, old: Floats) -> float:
        """A bound on the distance of `flat` from the minimiser: the objective is 1/max(eta)-strongly convex."""
        return max(self.eta, self.eta_u / self.r.min()) * float(np.linalg.norm(self.prox(old)(flat)[1]))

    def step(self, old: Floats) -> Floats:
        """The minimiser, by L-BFGS."""
        options = {"maxiter": 20000, "maxfun": 40000, "ftol": 0.0, "gtol": 1e-13, "maxcor": 50}
        return np.asarray(minimize(self.prox(old), old, jac=True, method="L-BFGS-B", options=options).x)


def split_points(n_points: int, n: int, seed: int | None) -> list[list[int]]:
    """The batches; in the order of the data where seed is None."""
    points = list(range(n_points)) if seed is None else shuffled(n_points, Rng(seed, 0, BATCHES))
    return [points[first : first + n] for first in range(0, n_points, n)]


def visit_weights(batches: list[list[int]], labels: NDArray[np.int64], n_classes: int, m: int) -> Floats:
    """b_k by counting every subset of classes that each batch may draw."""
    touched = np.zeros(n_classes)
    for batch in batches:
        subsets = list(subsets_of(batch, labels, n_classes, m))
        for classes, _ in subsets:
            touched[classes] += 1 / len(subsets)
    return len(batches) / touched


def subsets_of(batch: list[int], labels: NDArray[np.int64], n_classes: int, m: int) -> Any:
    """Every equally likely (touched classes, their weights) of a visit of the batch."""
    own = sorted(set(labels[batch].tolist()))
    others = [k for k in range(n_classes) if k not in own]
    for drawn in combinations(others, min(m, len(others))):
        yield [*own, *drawn], np.array([1.0] * len(own) + [len(others) / max(len(drawn), 1)] * len(drawn))


def random_visits(labels: NDArray[np.int64], n_classes: int, n: int, m: int) -> Any:
    """Every equally likely (points, touched classes, their weights) of a visit of a random partition."""
    for points in combinations(range(len(labels)), n):
        for drawn in combinations(range(n_classes), min(m, n_classes)):
            yield (list(points), *touched_by(list(drawn), labels[list(points)], n_classes))


def touched_by(drawn: list[int], own: NDArray[np.int64], n_classes: int) -> tuple[list[int], Floats]:
    """The classes drawn, each for all others, and labels that are not, which stand for nothing but themselves."""
    more = [k for k in dict.fromkeys(own.tolist()) if k not in drawn]
    return [*drawn, *more], np.array([n_classes / len(drawn)] * len(drawn) + [0.0] * len(more))


def random_visit_weights(labels: NDArray[np.int64], n_classes: int, n: int, m: int) -> Floats:
    """b_k by counting every visit."""
    touched, n_visits = np.zeros(n_classes), 0
    for _, classes, _ in random_visits(labels, n_classes, n, m):
        touched[classes] += 1
        n_visits += 1
    return n_visits / touched


def below(rng: Rng, end: int, n: int) -> list[int]:
    """n distinct numbers below `end`: Floyd's algorithm."""
    drawn: list[int] = []
    for last in range(end - n, end):
        k = rng.below(last + 1)
        drawn.append(last if k in drawn else k)
    return drawn


def draw(batch: list[int], labels: NDArray[np.int64], n_classes: int, m: int, rng: Rng) -> tuple[list[int], Floats]:
    """(touched classes, their weights) that the core draws: Floyd's algorithm on the classes that are no labels."""
    own = sorted(set(labels[batch].tolist()))
    others = [k for k in range(n_classes) if k not in own]
    m = min(m, len(others))
    drawn: list[int] = []
    for last in range(len(others) - m, len(others)):
        k = others[rng.below(last + 1)]
        drawn.append(others[last] if k in drawn else k)
    return [*own, *drawn], np.array([1.0] * len(own) + [len(others) / max(m, 1)] * m)


def train(
    X: Floats,
    y: NDArray[np.int64],
    n_classes: int,
    *,
    seed: int | None,
    class_seed: int,
    n: int,
    m: int,
    eta: float,
    eta_u: float,
    alpha: float,
    has_intercept: bool,
    passes: int,
    partition: str = "fixed",
    sample_weight: Floats | None = None,
) -> tuple[Floats, Floats]:
    """W and b after passes at constant step sizes; `seed` None visits in the order of the data."""
    order = np.array(class_order(n_classes, class_seed))
    position = np.argsort(order)
    labels = position[y]
    batches = split_points(len(y), n, seed)
    is_random = partition == "random"
    weights = (
        random_visit_weights(labels, n_classes, n, m) if is_random else visit_weights(batches, labels, n_classes, m)
    )
    r = np.ones(len(y)) if sample_weight is None else sample_weight / np.mean(sample_weight)
    W, b, u = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes), np.full(len(y), np.log(n_classes))
    for t in range(passes):
        visits = list(range(len(batches))) if seed is None else shuffled(len(batches), Rng(seed, t, VISIT_ORDER))
        for j in visits:
            rng = Rng(class_seed, t, j)
            if is_random:
                points = below(rng, len(y), n)
                classes, a = touched_by(below(rng, n_classes, m), labels[points], n_classes)
            else:
                points = batches[j]
                classes, a = draw(points, labels, n_classes, m, rng)
            place = np.array([classes.index(k) for k in labels[points]])
            share = 1 / n if is_random else len(batches) / len(y)
            batch = Batch(X[points], place, a, alpha * weights[classes], share, has_intercept, eta, eta_u, r[points])
            old = np.concatenate([u[points], W[classes].ravel(), b[classes]])
            new = batch.step(old)
            assert batch.distance_bound(new, old) < 1e-5
            u[points], W[classes], b[classes] = batch.split(new)
    return W[position], b[position]


class Products:
    """Products of matrices that count their multiplications: "features" are those with a length of D."""

    def __init__(self) -> None:
        self.counts = {"features": 0, "span": 0}
        self.gradients = 0

    def __call__(self, a: Floats, b: Floats, of: str) -> Floats:
        """Return a @ b."""
        self.counts[of] += a.shape[0] * a.shape[1] * b.shape[1]
        return np.asarray(a @ b)


def step_in_span(batch: Batch, old: Floats, errors: list[float], answer: Floats) -> tuple[Products, list[int]]:
    """The step by a first-order method in the span of the points, as the proof of Proposition 3 has it.

    W moves by c'X alone, so that the objective is one of u and c (T x n), u being Lambert's function of the sum d_i
    (F.3.2). Returns what was counted and after how many gradients c was within each of `errors` of `answer`, in the
    norm of the scores that it moves, relative to the answer's own.
    """
    product, (u, W, b) = Products(), batch.split(old)
    gram = product(batch.x, batch.x.T, "features")
    shrinks = 1 / (1 + batch.eta * batch.ridge)
    scores = shrinks[:, np.newaxis] * product(W, batch.x.T, "features") + b[:, np.newaxis]
    rows, a = np.arange(len(u)), batch.eta_u * batch.share

    def gradient(c: Floats) -> Floats:
        """The gradient in c of the rest, and of the squares, in the inner product that `gram` makes."""
        product.gradients += 1
        z = scores + product(c, gram, "span")
        e = batch.weights[:, np.newaxis] * np.exp(z - z[batch.y, rows])
        e[batch.y, rows] = 0
        d = 1 + e.sum(axis=0)
        slope = wrightomega(np.log(a * d) + a - u).real / batch.eta_u / d
        g = slope * e
        g[batch.y, rows] = -g.sum(axis=0)
        return np.asarray(g + c / (batch.eta * shrinks[:, np.newaxis]))

    def away(c: Floats) -> float:
        return float(np.sqrt(np.sum((c - answer) @ gram * (c - answer)) / np.sum(answer @ gram * answer)))

    c, reached = np.zeros_like(scores), []
    # 1 / (strength + most curvature): the slope falls on the way, and the softmax bends by at most 1 / 2.
    first = gradient(c) * batch.eta
    length = 1 / (1 / (batch.eta * shrinks.min()) + np.abs(first).max() / batch.eta * np.linalg.norm(gram, 2))
    while len(reached) < len(errors):
        if away(c) <= errors[len(reached)]:
            reached.append(product.gradients)
        else:
            c = c - length * gradient(c)
    product(c, batch.x, "features")
    return product, reached
