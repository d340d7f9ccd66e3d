"""Two models of the same classes joined: the scales of their scores that are best on rows left out of training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from manyclass.model.kinds import Weights
from manyclass.model.postings import TILE_FLOATS
from manyclass.model.weights import Doubles, Floats, Matrix
from manyclass.training.plan import Labels

# Rows held out: precision at 1 has a standard error of .7 points on 5,000 of them, and is flat around the best scale.
MOST_HELD_OUT, SHARE_HELD_OUT = 5000, 0.05
FEWEST_ROWS = 20  # below, none are held out, and both scales are 1
# Rows for the log-loss, which has one or two parameters and needs all scores of each: of a model at most 256 MB.
MOST_FOR_LOSS, CELLS_FOR_LOSS = 1000, 1 << 26
LEAST_FACTOR = 1e-3  # above 0, which would make all classes alike
# Classes of each model that can get among the first five of the sum.
CANDIDATES = 64
# The second scale in units of the ratio of the spreads of the best scores. On yso-en precision is flat from a third to
# twice the best one.
RATIOS = 2.0 ** np.arange(-4, 3.01, 0.5)
PLACES = (1, 3, 5)


def rows_held_out(n_rows: int, seed: int) -> NDArray[np.bool_]:
    """Draw which rows are left out of training."""
    held = np.zeros(n_rows, dtype=bool)
    if n_rows >= FEWEST_ROWS:
        n_held = min(MOST_HELD_OUT, int(SHARE_HELD_OUT * n_rows))
        held[np.random.default_rng(seed).choice(n_rows, n_held, replace=False)] = True
    return held


def scales_by_loss(
    first: Weights, second: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> tuple[float, float]:
    """The factors of the scores of two models whose sum has the least log-loss; see `factor_by_loss`."""
    scales = _of_least_loss((first, second), x, labels, n_threads, sample_weight, least=0.0)
    return scales[0], scales[1]


def factor_by_loss(
    model: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> float:
    """The factor of the scores of a model that gives its softmax the least log-loss, more than 0.

    Of several labels a row it is the mean of theirs, all classes competing, which is what `evaluate` tells.
    """
    return _of_least_loss((model,), x, labels, n_threads, sample_weight, least=LEAST_FACTOR)[0]


def _of_least_loss(
    models: tuple[Weights, ...],
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
    *,
    least: float,
) -> list[float]:
    """Factors of scores whose sum has the least log-loss on some of the rows; it is convex in them."""
    n_classes = models[0].n_classes
    n = min(x.shape[0], MOST_FOR_LOSS, max(FEWEST_ROWS, CELLS_FOR_LOSS // n_classes))
    points = np.linspace(0, x.shape[0] - 1, n).astype(np.int64)  # files may be sorted
    r = np.ones(n) if sample_weight is None else sample_weight[points]
    own = labels.some(points)
    of_rows, ids = np.repeat(np.arange(n), list(map(len, own))), np.concatenate(own)
    parts = [model.scores(x[points], n_threads) for model in models]
    share = 1 / np.bincount(of_rows)[of_rows]
    of_labels = [np.bincount(of_rows, share * scores[of_rows, ids]) for scores in parts]
    step = max(1, TILE_FLOATS // n_classes)

    def loss(scales: Doubles) -> tuple[float, Doubles]:
        value, slope = 0.0, np.zeros(len(parts))
        for at in range(0, n, step):
            rows = slice(at, at + step)
            z = np.float32(scales[0]) * parts[0][rows]
            for scale, scores in zip(scales[1:], parts[1:], strict=True):
                z += np.float32(scale) * scores[rows]
            top = z.max(axis=1)
            z -= top[:, np.newaxis]
            p = np.exp(z, out=z)
            total = p.sum(axis=1, dtype=np.float64)
            value += float(r[rows] @ (np.log(total) + top))
            for which, (scores, mean) in enumerate(zip(parts, of_labels, strict=True)):
                expected = np.einsum("ij,ij->i", p, scores[rows]) / total
                value -= float(scales[which] * (r[rows] @ mean[rows]))
                slope[which] += float(r[rows] @ (expected - mean[rows]))
        return value / r.sum(), slope / r.sum()

    start = np.full(len(parts), 1 / len(parts))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(least, None)] * len(parts))
    return [float(scale) for scale in found.x]


def scales_by_rank(
    first: Weights, second: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> tuple[float, float]:
    """The factors, the first of them 1, whose sum has the best mean of the precisions at 1, 3 and 5."""
    n, n_classes = x.shape[0], first.n_classes
    most = min(CANDIDATES, n_classes)
    r = np.ones(n) if sample_weight is None else sample_weight
    a, b, right = _candidates(first, second, x, labels, most, n_threads)
    top = np.sort(a, axis=1)[:, ::-1], np.sort(b, axis=1)[:, ::-1]
    depth = min(20, most) - 1
    spreads = [float(np.median(z[:, 0] - z[:, depth])) for z in top]
    if not all(np.isfinite(spread) and spread > 0 for spread in spreads):
        return 1.0, 1.0
    unit = spreads[0] / spreads[1]
    quality = []
    for ratio in RATIOS:
        order = np.argsort(-(a + np.float32(ratio * unit) * b), axis=1, kind="stable")[:, : PLACES[-1]]
        hits = np.take_along_axis(right, order, axis=1)
        quality.append(sum(float(np.average(hits[:, :k].mean(axis=1), weights=r)) for k in PLACES))
    # The middle of a flat top is further from both ends than its first place.
    quality = np.convolve(np.pad(quality, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid").tolist()
    return 1.0, float(unit * RATIOS[int(np.argmax(quality))])


def _candidates(
    first: Weights, second: Weights, x: Matrix, labels: Labels, most: int, n_threads: int
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Scores by both models of the best classes of each, and which of these are labels; a class twice counts once."""
    n, step = x.shape[0], max(1, TILE_FLOATS // first.n_classes)
    parts = []
    for at in range(0, n, step):
        rows = x[at : at + step]
        a, b = first.scores(rows, n_threads), second.scores(rows, n_threads)
        of_a, of_b = (np.argpartition(-z, most - 1, axis=1)[:, :most] for z in (a, b))
        ids = np.sort(np.concatenate([of_a, of_b], axis=1), axis=1)
        again = np.zeros(ids.shape, dtype=bool)
        again[:, 1:] = ids[:, 1:] == ids[:, :-1]
        some = [np.take_along_axis(z, ids, axis=1) for z in (a, b)]
        some[0][again] = -np.inf
        own = np.repeat(np.arange(at, at + rows.shape[0]), 2 * most).reshape(ids.shape)
        parts.append((*some, _are_labels(own, ids, labels, first.n_classes)))
    a, b, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    return a, b, right


def _are_labels(rows: NDArray[np.int64], ids: NDArray[np.int64], labels: Labels, n_classes: int) -> NDArray[np.bool_]:
    of_rows = np.repeat(np.arange(len(labels), dtype=np.int64), np.diff(labels.indptr))
    return np.isin(rows * n_classes + ids, of_rows * n_classes + labels.ids)
