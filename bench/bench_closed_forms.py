"""Is a default fit ever worse than what needs no training?

Test log-loss in nats, accuracy and hit@10 of the first label, of SoftmaxClassifier() beside closed forms: the prior,
class frequencies alone; naive Bayes, log p(feature | class) / p(feature) on the pairs that occur together; class
centroids by cosine; transition counts C_jk / (C_j + s), summed over the features j of a row by its values, what they
leave going to the prior; and votes of the nearest rows by cosine, of at most 300,000. Scales of scores and of the
log-frequencies (or s, or how many rows are near) are the best for 1,000 rows held out, found by a general optimiser or
on a grid; that favours them. Test rows of classes that training lacks are left out, and at most 6,000 are taken (3,000
of nearest rows). "directions" are planted: 50,000 unit rows of 256 features around 20,000 directions. gloss-word,
WordNet and yso-en have theirs in bench_quality.py, beside peers.

    python -m pytest bench/bench_closed_forms.py
"""

from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from conftest import digits
from scipy import sparse
from scipy.optimize import minimize

from manyclass import SoftmaxClassifier
from manyclass.papers.data import load_problem
from manyclass.weights.weights import Weights

SETS = (
    "directions", "omniglot", "mnist", "bibtex", "delicious", "20news", "esco-titles", "tmall-next", "toys-next",
    "eurlex57k", "gowalla", "panlex", "yelp-next",
)  # fmt: skip
N_TEST, N_OUT, SHRINKAGES = 6000, 1000, (1.0, 3.0, 10.0, 30.0)
NEAREST = (10, 100), (5.0, 10.0), (0.2, 0.5)  # rows, tau and shares of the prior
MOST_NEAR = 300_000  # rows of which the nearest are sought
TILE = 1 << 24  # probabilities that are made together


def directions():
    """Unit rows around random directions, with a noise of .11 a feature."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(20_000, 256))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    y, y_test = rng.integers(0, len(means), 50_000), rng.integers(0, len(means), N_TEST)

    def rows(labels):
        x = means[labels] + 0.11 * rng.normal(size=(len(labels), 256))
        return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)

    return SimpleNamespace(X_train=rows(y), y_train=y, X_test=rows(y_test), y_test=y_test)


@pytest.fixture(scope="module", params=SETS)
def data(request, data_folder):
    """Rows, and classes numbered from 0; `classes` is what they are called, of next items their columns."""
    name = request.param
    found = directions() if name == "directions" else load_problem(name, scale="l2", max_rows=None, n_jobs=1)
    classes, y = np.unique(found.y_train, return_inverse=True)
    at = np.minimum(np.searchsorted(classes, found.y_test), len(classes) - 1)
    tests = np.random.default_rng(0).permutation(np.flatnonzero(classes[at] == found.y_test))[:N_TEST]
    return SimpleNamespace(
        name=name, X=found.X_train, y=y.astype(np.int32), n_classes=len(classes), classes=classes,
        X_test=found.X_test[tests], y_test=at[tests].astype(np.int32),
    )  # fmt: skip


def indicator_of(y, n_classes):
    return sparse.csr_array((np.ones(len(y), np.float32), (np.arange(len(y)), y)), shape=(len(y), n_classes))


def together(X, y, n_classes):
    """Sums of the values of each feature over the rows of each class, D x K."""
    found = sparse.csr_array(X.T @ indicator_of(y, n_classes))
    found.sort_indices()
    return found


def features_of(matrix):
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def naive_bayes(X, y, n_classes):
    found = together(abs(X), y, n_classes)
    of_class, of_feature = found.sum(axis=0), found.sum(axis=1)
    share = found.data / of_class[found.indices]
    found.data = np.log(share * of_feature.sum() / of_feature[features_of(found)]).astype(np.float32)
    return found


def centroids(X, y, n_classes):
    if not sparse.issparse(X):
        found = indicator_of(y, n_classes).T @ X
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)
    found = together(X, y, n_classes)
    norms = np.sqrt(np.bincount(found.indices, found.data**2, minlength=n_classes))
    found.data = (found.data / np.maximum(norms, 1e-30)[found.indices]).astype(np.float32)
    return found


def transitions(X, y, n_classes, shrinkage):
    found = together(abs(X), y, n_classes)
    found.data /= (found.sum(axis=1) + shrinkage)[features_of(found)]
    return found


def log_prior(y, n_classes):
    return np.log(np.maximum(np.bincount(y, minlength=n_classes), 0.5) / len(y)).astype(np.float32)


class Training(NamedTuple):
    """Rows, and classes numbered from 0."""

    X: object
    y: np.ndarray
    n_classes: int

    def some(self, rows):
        return Training(self.X[rows], self.y[rows], self.n_classes)


class ByScores:
    """A softmax of weights, on pairs or of dense rows, and log-frequencies, times scales."""

    def __init__(self, pairs, prior, scales):
        bias = prior * np.float32(scales[1])
        if not sparse.issparse(pairs):
            self.weights = Weights.linear(pairs * np.float32(scales[0]), bias, by_feature=False)
            return
        values = pairs.data * np.float32(scales[0])
        self.weights = Weights.on_pairs(pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), values, bias)

    def losses(self, X, y):
        """Log-losses of rows, and the ranks of their labels."""
        return self.weights.log_losses(X, y, 1)

    def top(self, X, k):
        """The k best classes of each row and their log-probabilities."""
        return self.weights.top_k(X, k, 1)


class ByShares:
    """What has a probability of each class by a sum over features or rows; `shares(X)` is one of all classes."""

    def parts(self, X):
        step = max(1, min(TILE // len(self.prior), 500))
        return ((slice(at, at + step), self.shares(X[at : at + step])) for at in range(0, X.shape[0], step))

    def losses(self, X, y):
        losses, ranks = np.empty(len(y)), np.empty(len(y), int)
        for at, p in self.parts(X):
            own = p[np.arange(len(p)), y[at]]
            losses[at], ranks[at] = -np.log(own), (p > own[:, np.newaxis]).sum(axis=1)
        return losses, ranks

    def top(self, X, k):
        labels, log_p = np.empty((X.shape[0], k), np.int64), np.empty((X.shape[0], k))
        for at, p in self.parts(X):
            some = np.argpartition(-p, k - 1, axis=1)[:, :k]
            order = np.argsort(-np.take_along_axis(p, some, axis=1), axis=1)
            labels[at] = np.take_along_axis(some, order, axis=1)
            log_p[at] = np.log(np.take_along_axis(p, labels[at], axis=1))
        return labels, log_p


class Transitions(ByShares):
    """A mean of transition probabilities over the values of a row; what they leave goes to the prior."""

    def __init__(self, data, shrinkage):
        self.prior, self.pairs = np.exp(log_prior(data.y, data.n_classes)), transitions(*data, shrinkage)

    def shares(self, X):
        x = abs(X)
        of_rows = sparse.csr_array(sparse.diags_array(1 / np.maximum(x.sum(axis=1), 1e-30)) @ x)
        met = (of_rows @ self.pairs).toarray()
        return met + np.maximum(1 - met.sum(axis=1, keepdims=True), 1e-9) * self.prior


class NearestRows(ByShares):
    """Votes e^(tau cosine) of the n nearest of unit rows for their classes, beside a share of the prior."""

    def __init__(self, data, n, tau, share):
        self.n, self.tau, self.share = n, tau, share
        self.prior, self.y = np.exp(log_prior(data.y, data.n_classes)), data.y
        self.rows = sparse.csr_array(data.X.T) if sparse.issparse(data.X) else data.X.T

    def cosines(self, X):
        """The cosines of each row with those that share a feature with it, and which these are."""
        found = X @ self.rows
        if not sparse.issparse(X):
            yield from ((row, np.arange(len(row))) for row in found)
            return
        found = sparse.csr_array(found)
        for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True):
            yield found.data[a:b], found.indices[a:b]

    def shares(self, X):
        p = np.tile(self.share * self.prior, (X.shape[0], 1))
        for i, (row, near) in enumerate(self.cosines(X)):
            if len(row) > self.n:
                some = np.argpartition(-row, self.n - 1)[: self.n]
                row, near = row[some], near[some]
            votes = np.exp(self.tau * (row - row.max(initial=0)))
            np.add.at(p[i], self.y[near], (1 - self.share) * votes / max(votes.sum(), 1e-30))
        return p


def kept_and_out(y):
    """Rows to train on, and rows held out whose classes keep a row."""
    order = np.random.default_rng(0).permutation(len(y))
    free = np.ones(len(y), bool)
    free[np.unique(y[order], return_index=True)[1]] = False
    out = order[free][:N_OUT]
    kept = np.ones(len(y), bool)
    kept[out] = False
    return np.flatnonzero(kept), out


def best(make, grid, data, out):
    """The setting of least log-loss on rows held out."""
    return min(grid, key=lambda one: make(*one).losses(data.X[out], data.y[out])[0].mean())


def fitted(form, data):
    """A closed form with the numbers that are the best on rows held out."""
    kept, out = kept_and_out(data.y)
    some = data.some(kept)
    if form == "counts":
        return Transitions(data, *best(partial(Transitions, some), [(s,) for s in SHRINKAGES], data, out))
    if form == "nearest rows":
        return NearestRows(data, *best(partial(NearestRows, some), list(product(*NEAREST)), data, out))
    prior = log_prior(data.y, data.n_classes)
    make = naive_bayes if form == "naive Bayes" else centroids
    if form == "prior":
        return ByScores(make(*data), prior, (0.0, 1.0))
    pairs, few = make(*some), log_prior(some.y, data.n_classes)  # shares of all rows would tell whose were left out

    def loss(scales):
        return ByScores(pairs, few, (np.exp(scales[0]), scales[1])).losses(data.X[out], data.y[out])[0].mean()

    options = {"initial_simplex": [[0, 0.7], [2, 0.7], [1, 0.3]], "maxiter": 50, "xatol": 0.03, "fatol": 1e-3}
    scales = minimize(loss, [1, 0.7], method="Nelder-Mead", options=options).x
    return ByScores(make(*data), prior, (np.exp(scales[0]), scales[1]))


@pytest.mark.parametrize("model", ["prior", "naive Bayes", "centroid", "nearest rows", "counts", "SoftmaxClassifier"])
def test_closed_forms(timed, data, model):
    if not sparse.issparse(data.X) and model in ("naive Bayes", "counts"):
        pytest.skip("no closed form of such rows")
    if model == "nearest rows" and len(data.y) > MOST_NEAR:
        pytest.skip("too many rows")
    tests = slice(3000 if model == "nearest rows" else None)
    X_test, y_test, found = data.X_test[tests], data.y_test[tests], {}

    def run():
        if model == "SoftmaxClassifier":
            ours = SoftmaxClassifier(random_state=0).fit(data.X, data.classes[data.y])
            found["told"] = ours._state.weights.log_losses(X_test, y_test, 1)
        else:
            training = Training(data.X, data.y, data.n_classes)
            found["told"] = fitted(model, training).losses(X_test, y_test)

    timed(run, clock="processor")
    losses, ranks = found["told"]
    told = {"nats": losses.mean(), "accuracy": (ranks == 0).mean(), "hit_at_10": (ranks < 10).mean()}
    told = {name: f"{value:.3f}" for name, value in told.items()}
    timed.row("closed_forms", data=data.name, model=model, **told, cpu_s=digits(float(timed.seconds[0])))
