"""Two models of the same classes joined: the scales of their scores that are best on rows left out of training.

Counts of which classes came with the features of a row may be mixed in, in probability: what was seen once is
remembered at once, where a step of training moves a weight a little. So may repeats. Where rows are histories and
labels are the next items, feature and label k are the same item, and a history says of its own items, whichever they
are, that they come again more often than others or not at all. A history holds any one item too rarely for its own
weight to learn that; the share of repeats is one number, found on rows left out of training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from manyclass import _core
from manyclass.checks import made_once
from manyclass.training.plan import Labels
from manyclass.weights.arrays import BLOCK_NUMBERS, LARGEST_SCORE, Doubles, Floats, Ids, Matrix, as_csr, times
from manyclass.weights.storage import NO_OWN, UNMIXED, Mixture
from manyclass.weights.weights import Weights

# Rows held out for two numbers. By precision, which jumps, 244 rows of bibtex cost a point, and 5,000 of yso-en no more
# than 1,000 by a loss (bench/decisions.md).
MOST_HELD_OUT, SHARE_HELD_OUT = 1000, 0.05
MOST_HELD_OUT_FOR_ONE = 300  # for one number: 1,000 of eurlex57k give the same log-loss, and cost a tenth of a point
FEWEST_ROWS = 20  # below, none are held out, and both scales are 1
# The first call of a stream trains on the rows that tell its scales afterwards, so that they may be more.
TOLD_FIRST, MOST_OF_FIRST = 100, 0.5
LEAST_OF_STREAM = 1e-3  # a scale: what has no use now may have one later
# Earlier rows of a stream have told something of the scales. It has the weight of 1,000 rows beside new ones, or of a
# quarter of the earlier rows where these are fewer than 4,000: the best scales change as a model learns.
MOST_REMEMBERED, REMEMBERED = 1000.0, 0.25
DIFFERENCE = 0.02  # of a scale, between the slopes that tell its curvature
# A search for scales ends where a step betters the loss by less than a millionth, or five evaluations of the loss find
# no such step: what is left is less than the rounding of scores, in which searches went on for 20 to 45 evaluations.
NEAR_ENOUGH, MOST_LOOKS = 1e-6, 5
CELLS = 1 << 26  # scores of them that are kept, of a model 256 MB: fewer rows where there are more than 67,000 classes
LEAST_FACTOR = 1e-3  # above 0, which would make all classes alike
# Losses of labels, by the names of the core: one whose labels do not compete, and the mean of theirs.
DECOUPLED, MEAN_LOG_LOSS = "decoupled", "pick_all_normalized"
# Shrinkages of counts that are tried, in rows; and the largest share of counts, and of repeats.
SHRINKAGES, MOST_SHARE = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0), 0.99
POWERS = (0.0, 0.5, 1.0)  # of values of a row, by which its own classes may repeat; 0: all alike
TINY = float(np.finfo(np.float64).tiny)


def rows_held_out(n_rows: int, seed: int, most: int = MOST_HELD_OUT) -> NDArray[np.bool_]:
    """Draw which rows are left out of training."""
    held = np.zeros(n_rows, dtype=bool)
    if n_rows >= FEWEST_ROWS:
        n_held = min(most, int(SHARE_HELD_OUT * n_rows))
        held[np.random.default_rng(seed).choice(n_rows, n_held, replace=False)] = True
    return held


def rows_that_tell(n_rows: int, seed: int, most: int) -> NDArray[np.bool_]:
    """Draw which rows of the first call of a stream tell its scales before they are trained on."""
    told = np.zeros(n_rows, dtype=bool)
    n_told = min(most, max(int(SHARE_HELD_OUT * n_rows), min(TOLD_FIRST, int(MOST_OF_FIRST * n_rows))))
    told[np.random.default_rng(seed).choice(n_rows, n_told, replace=False)] = True
    return told


@dataclass(frozen=True)
class Scales:
    """What the rows of a stream have told of the scales of its terms: normal distributions, by Laplace's method.

    Attributes
    ----------
    means : ndarray of shape (1,) or (3,), float64
        The scale of one term; or those of both and, of several labels a row, the temperature of their sum.
    precisions : ndarray of shape (1,) or (3,), float64
        0 where no row has told anything. What is known then is taken to be worth one row whose scores are uniform: the
        scale of a term is 0, and its precision is the variance of the term's scores over the classes.
    """

    means: Doubles
    precisions: Doubles

    @classmethod
    def unknown(cls, both: bool) -> Scales:
        """Return what is known of one term, or of both, before the first row."""
        means = np.array([0.0, 0.0, 1.0] if both else [0.0])
        return cls(means, np.zeros(len(means)))

    def faded(self, n_before: float, n_new: int) -> Scales:
        """Return what is left of it beside new rows."""
        n = min(MOST_REMEMBERED, REMEMBERED * n_before)
        return replace(self, precisions=self.precisions * (n / (n + n_new)))

    def learnt(
        self, weights: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
    ) -> Scales:
        """Return what is known after rows that the weights, each term on its own scale, were not trained on."""
        known, both = np.stack([self.means, self.precisions], axis=1), len(self.means) > 1
        parts = (weights.pairs_alone, weights.rows_alone) if both else (weights,)
        tiles, n = _tiles(parts, x, labels, n_threads, sample_weight), len(parts)
        known[:n] = _learnt(DECOUPLED if both else MEAN_LOG_LOSS, tiles, known[:n])
        if both and len(labels.ids) > len(labels):
            sums = [replace(tile, parts=[tile.sum(known[:n, 0])]) for tile in tiles]
            known[n:] = _learnt(MEAN_LOG_LOSS, sums, known[n:])
        return Scales(known[:, 0].copy(), known[:, 1].copy())

    @property
    def of_parts(self) -> tuple[float, float]:
        """Return what the scores of pairs and those of rows are multiplied by."""
        factor = float(np.prod(self.means[2:]))
        first, second = (max(LEAST_OF_STREAM, float(mean)) * factor for mean in (self.means[0], self.means[:2][-1]))
        return first, second


def _learnt(loss: str, tiles: list[_Tile], known: Doubles) -> Doubles:
    """Return the most probable factors after some rows and the precisions there, of those of before, in columns."""
    n_rows = float(sum(tile.r.sum() for tile in tiles))
    means, precisions = known.T
    if not n_rows > 0:
        return known
    if not precisions.any():
        spread = sum(
            tile.r @ np.stack([scores.var(axis=1, dtype=np.float64) for scores in tile.parts], axis=1) for tile in tiles
        )
        precisions = spread / n_rows

    def objective(scales: Doubles) -> tuple[float, Doubles]:
        value, slopes = _loss(loss, tiles, scales)
        pull = precisions * (scales - means) / n_rows
        return value + 0.5 * float((scales - means) @ pull), slopes + pull

    first = np.maximum(means, LEAST_OF_STREAM)
    bounds = [(LEAST_OF_STREAM, None)] * len(means)
    scales = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    at, steps = _loss(loss, tiles, scales)[1], DIFFERENCE * scales
    curvatures = [(_loss(loss, tiles, scales + step)[1] - at)[j] / steps[j] for j, step in enumerate(np.diag(steps))]
    return np.stack([scales, precisions + n_rows * np.maximum(curvatures, 0)], axis=1)


def best_scales(
    first: Weights, second: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> tuple[float, float]:
    """The factors of the scores of two models whose sum has the least decoupled loss; of one label it is the log-loss.

    The labels of a row do not compete in it, so that it is about what ranks them above the other classes.
    """
    tiles = _tiles((first, second), x, labels, n_threads, sample_weight)
    scales = _of_least_loss(DECOUPLED, tiles, (0.5, 0.5), (0.0, 0.0))
    return scales[0], scales[1]


def best_factor(
    model: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> float:
    """The factor, more than 0, of the scores of a model that gives its softmax the least log-loss.

    For rows of several labels it is the mean of their losses, all classes competing, which is what `evaluate` tells.
    """
    return _of_least_loss(
        MEAN_LOG_LOSS, _tiles((model,), x, labels, n_threads, sample_weight), (1.0,), (LEAST_FACTOR,)
    )[0]


def decoupled_loss(
    model: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> float:
    """The mean over rows of the decoupled loss, summed over the labels of a row, in nats."""
    tiles = _tiles((model,), x, labels, n_threads, sample_weight)
    return _loss(DECOUPLED, tiles, np.ones(1))[0]


def log_loss_of_shares(shares: Doubles, labels: Labels, sample_weight: Doubles | None = None) -> float:
    """The mean over rows of the mean log-loss of their labels where each class has its share of all, in nats."""
    losses = np.add.reduceat(-np.log(shares[labels.ids] / shares.sum()), labels.indptr[:-1]) / np.diff(labels.indptr)
    return float(np.average(losses, weights=sample_weight))


def mean_log_loss(
    model: Weights, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None = None
) -> float:
    """The mean over rows of the mean log-loss of their labels, in nats."""
    return _loss(MEAN_LOG_LOSS, _tiles((model,), x, labels, n_threads, sample_weight), np.ones(1))[0]


@dataclass(frozen=True)
class _Tile:
    """Some rows: the scores of each model, and the labels of every row."""

    parts: list[Floats]
    labels: Labels
    r: Doubles

    @made_once
    def largest(self) -> Doubles:
        """The largest magnitude of each model's scores."""
        return np.array([max(-float(s.min(initial=0)), float(s.max(initial=0))) for s in self.parts])

    def sum(self, scales: Doubles) -> Floats:
        """The scores times their scales, added, and held by `times` where one of them might overflow."""
        n = len(self.parts)
        held = bool(np.max(np.abs(scales) * self.largest) > LARGEST_SCORE / n)
        products = (
            times(scores, scale, n) if held else scores * np.float32(scale)
            for scale, scores in zip(scales, self.parts, strict=True)
        )
        z = next(products)
        for more in products:
            z += more
        return z

    def loss(self, name: str, scales: Doubles) -> tuple[float, list[float]]:
        """The sum over rows of a loss of labels, and its derivatives by the scales."""
        values, gradients = _core.losses(self.sum(scales), self.labels.indptr, self.labels.ids, loss=name)
        # In double precision: single has no products of scores at its end.
        slopes = (np.einsum("ij,ij->i", gradients, scores, dtype=np.float64) for scores in self.parts)
        return float(self.r @ values), [float(self.r @ slope) for slope in slopes]


def _of_least_loss(
    loss: str,
    tiles: list[_Tile],
    start: tuple[float, ...],
    least: tuple[float, ...],
    most: tuple[float | None, ...] | None = None,
) -> list[float]:
    """Factors of scores, within bounds, whose sum has the least loss on some of the rows; it is convex in them."""
    bounds = list(zip(least, (None,) * len(least) if most is None else most, strict=True))
    look, first = partial(_loss, loss, tiles), np.array(start)
    options: Any = {"ftol": NEAR_ENOUGH, "maxls": MOST_LOOKS}
    found = minimize(look, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return [float(scale) for scale in found.x]


def _loss(loss: str, tiles: list[_Tile], scales: Doubles) -> tuple[float, Doubles]:
    """The mean over rows, and its derivatives by the factors."""
    value, slopes = 0.0, np.zeros(len(scales))
    for tile in tiles:
        more, by = tile.loss(loss, scales)
        value, slopes = value + more, slopes + by
    total = sum(float(tile.r.sum()) for tile in tiles)
    return value / total, slopes / total


def _tiles(
    models: tuple[Weights, ...], x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None
) -> list[_Tile]:
    """The scores of as many rows as there is memory for."""
    n_classes = models[0].n_classes
    n = min(x.shape[0], max(FEWEST_ROWS, CELLS // n_classes))
    points = np.linspace(0, x.shape[0] - 1, n).astype(np.int64)  # files may be sorted
    r = np.ones(n) if sample_weight is None else sample_weight[points]
    parts = [model.scores(x[points], n_threads) for model in models]
    step, tiles = max(1, BLOCK_NUMBERS // n_classes), []
    for at in range(0, n, step):
        rows = slice(at, at + step)
        tiles.append(_Tile([scores[rows] for scores in parts], labels.of(points[rows]), r[rows]))
    return tiles


# Nats by which it must better all rows held out together. Twice the gain of a number without use has the chi-squared
# distribution of one degree of freedom, which is above 10 in two of a thousand data sets.
LEAST_GAIN = 5.0
# Repeats are common where this share of labels are items of their own rows: 35 % on tmall-next, 5 % on yelp-next, none
# where labels happen to be numbers of columns. And standard errors beyond which a difference is no chance.
COMMON, CHANCE = 0.02, 2.0


@dataclass(frozen=True)
class MixtureOfLabels:
    """What the members of a mixture say of some labels; by it its shares are judged.

    Attributes
    ----------
    p, q, mass : ndarrays of shape (n_labels,), float64
        The probability of the label by the softmax, that by counts, and what counts give to all classes together.
    repeat, has_own : ndarrays of shape (n_labels,), float64
        The probability of the label among the own classes of its row, and whether there are any: 0 or 1.
    r : ndarray of shape (n_labels,), float64
        Weights of the labels.
    """

    p: Doubles
    q: Doubles
    mass: Doubles
    repeat: Doubles
    has_own: Doubles
    r: Doubles

    def losses(self, shares: Doubles) -> Doubles:
        """Return the weighted log-loss of each label by the mixture, in nats."""
        share, repeats = shares
        others = (1 - share * self.mass) * self.p + share * self.q
        mixed = np.maximum(others + repeats * self.has_own * (self.repeat - others), TINY)
        losses: Doubles = -self.r * np.log(mixed)
        return losses

    def loss(self, shares: Doubles) -> tuple[float, Doubles]:
        """Return the log-loss of the mixture, in nats, summed, and its derivatives by the shares l and rho."""
        share, repeats = shares
        others = (1 - share * self.mass) * self.p + share * self.q
        mixed = np.maximum(others + repeats * self.has_own * (self.repeat - others), TINY)
        by_share = (1 - repeats * self.has_own) * (self.q - self.mass * self.p)
        slopes = [-float(self.r @ (by / mixed)) for by in (by_share, self.has_own * (self.repeat - others))]
        return -float(self.r @ np.log(mixed)), np.array(slopes)

    @made_once
    def best(self) -> tuple[float, float, float]:
        """The shares of least log-loss, and that loss, in nats, summed."""
        n_own = float(self.r @ self.has_own)
        # What never repeats among n rows may yet do so: the least share is half a row of them, by Jeffreys' prior.
        least = 0.5 / (n_own + 1) if n_own > 0 else 0.0
        most = MOST_SHARE if self.q.any() else 0.0
        of_labels = float(self.r @ (self.repeat > 0)) / max(n_own, 1.0)
        first = np.array([0.3 * most, np.clip(of_labels, least, MOST_SHARE) if n_own > 0 else 0.0])
        bounds = [(0.0, most), (least, MOST_SHARE if n_own > 0 else 0.0)]
        options: Any = {"ftol": NEAR_ENOUGH}
        found = minimize(self.loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return float(found.x[0]), float(found.x[1]), float(found.fun)


def mixtures_of_labels(
    weights: Weights,
    own: Ids,
    mixtures: Sequence[Mixture],
    x: Matrix,
    labels: Labels,
    n_threads: int,
    sample_weight: Doubles | None,
) -> Iterator[MixtureOfLabels]:
    """Yield what members of mixtures say of the labels of some rows; `own` is the class of each feature, if any."""
    n_labels = np.diff(labels.indptr)
    rows, ids = np.repeat(np.arange(len(labels)), n_labels), labels.ids
    r = np.repeat((1 if sample_weight is None else sample_weight) / np.maximum(n_labels, 1), n_labels)
    if len(ids) > MOST_HELD_OUT:
        some = np.linspace(0, len(ids) - 1, MOST_HELD_OUT).astype(np.int64)
        rows, ids, r = rows[some], ids[some], r[some]
    x = as_csr(x)[rows]
    n = len(ids)
    a = abs(x).astype(np.float64)
    lengths = a.sum(axis=1)
    a = sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ a)
    k = own[a.indices] if len(own) else np.full(len(a.indices), -1, np.int32)
    there = (k >= 0) & (a.data > 0)
    at, k, values = np.repeat(np.arange(n), np.diff(a.indptr))[there], k[there], a.data[there]
    n_own = np.bincount(at, minlength=n)
    few = (n_own < weights.n_classes)[at]  # a row that has all classes has none of its own
    at, k, values = at[few], k[few], values[few]
    has_own = (np.bincount(at, minlength=n) > 0).astype(np.float64)
    p, is_own = _softmax_beside_own(weights, x, ids, at, k, n_threads), np.zeros(n, dtype=bool)
    is_own[at[k == ids[at]]] = True
    q, mass = np.zeros(n), np.zeros(n)
    if len(weights.counts):
        shape = (weights.n_classes, weights.n_features)
        by_class = sp.csc_array((weights.counts, weights.classes, weights.indptr), shape=shape).tocsr()
        sums: Doubles = by_class.sum(axis=0)
        of_labels, of_own = a.multiply(by_class[ids]), a[at].multiply(by_class[k])
    for mixture in mixtures:
        if len(weights.counts):
            by = 1 / (weights.totals.astype(np.float64) + mixture.shrinkage)
            q[:], mass[:] = of_labels @ by, a @ (sums * by)
            if not mixture.counts_own:
                q[is_own] = 0
                mass -= np.bincount(at, of_own @ by, minlength=n)
        powers = values**mixture.power
        repeat = np.zeros(n)
        hit = k == ids[at]
        repeat[at[hit]] = (powers / np.maximum(np.bincount(at, powers, minlength=n), TINY)[at])[hit]
        yield MixtureOfLabels(p, q.copy(), np.clip(mass, 0, 1), repeat, has_own, r)


def _softmax_beside_own(
    weights: Weights, x: sp.csr_array, ids: Ids, at: NDArray[np.intp], k: Ids, n_threads: int
) -> Doubles:
    """Return the probability of each row's label by a softmax over all classes but the own ones, k of rows `at`."""
    alone, p = replace(weights, mixture=UNMIXED), np.zeros(len(ids))
    step = max(1, BLOCK_NUMBERS // weights.n_classes)
    for first in range(0, len(ids), step):
        block = slice(first, first + step)
        z = alone.scores(x[block], n_threads)
        here = (at >= first) & (at < first + step)
        z[at[here] - first, k[here]] = -np.inf
        p[block] = softmax(z.astype(np.float64), axis=1)[np.arange(len(z)), ids[block]]
    return p


def best_mixture(
    weights: Weights, own: Ids | None, x: Matrix, labels: Labels, n_threads: int, sample_weight: Doubles | None
) -> Weights | None:
    """Return weights with the mixture that has the least log-loss on held-out rows, of counts if they have any.

    Where features are classes, by `own`, repeats of those that a row has are mixed in, too, if that is better; or where
    repeats are common and it is not worse beyond chance. None where no mixture betters these rows by more than 5 nats
    together.
    """
    held = (x, labels, n_threads, sample_weight)
    counted = len(weights.counts) > 0
    alone = [Mixture(shrinkage=s, counts_own=True) for s in (SHRINKAGES if counted else (1.0,))]
    found = _best_of(weights, NO_OWN, alone, held)
    least = float(found.members.losses(np.zeros(2)).sum()) - LEAST_GAIN
    if own is not None and (own >= 0).any():
        ways = product(SHRINKAGES if counted else (1.0,), (True, False) if counted else (False,), POWERS)
        tried = [Mixture(shrinkage=s, counts_own=counts, power=power) for s, counts, power in ways]
        repeated = _best_of(weights, own_classes(own, weights.n_features), tried, held)
        if repeated.is_to_be_taken_for(found):
            found = repeated
    if not float(found.losses.sum()) < least:
        return None
    return replace(weights, own=found.own, mixture=found.mixture)


@dataclass(frozen=True)
class _Found:
    """A mixture, the members that it was judged by, and the losses of labels."""

    own: Ids
    mixture: Mixture
    members: MixtureOfLabels
    losses: Doubles

    def is_to_be_taken_for(self, other: _Found) -> bool:
        """Whether repeats are to be mixed in rather than not.

        Other rows of a session, beside which held-out ones stand, tell the softmax what will repeat; rows of sessions
        to come have none. So where repeats are common, they are left out only if that is better beyond chance.
        """
        worse = self.losses - other.losses
        common = float(self.members.r @ (self.members.repeat > 0)) > COMMON * float(self.members.r.sum())
        chance = CHANCE * float(np.sqrt(len(worse)) * worse.std()) if common else 0.0
        return float(worse.sum()) < chance


def _best_of(weights: Weights, own: Ids, mixtures: Sequence[Mixture], held: tuple[Any, ...]) -> _Found:
    """Return the mixture that has the least log-loss, with its best shares."""
    found: tuple[float, _Found] | None = None
    for mixture, members in zip(mixtures, mixtures_of_labels(weights, own, mixtures, *held), strict=True):
        share, repeats, loss = members.best
        if found is None or loss < found[0]:
            losses = members.losses(np.array([share, repeats]))
            found = loss, _Found(own, replace(mixture, share=share, repeats=repeats), members, losses)
    assert found is not None  # there is a mixture
    return found[1]


def own_classes(own: Ids, n_features: int) -> Ids:
    """Return the class that each feature is, or -1, of the feature that each class is, or -1."""
    found = np.full(n_features, -1, dtype=np.int32)
    having = np.flatnonzero(own >= 0)
    found[own[having]] = having
    return found
