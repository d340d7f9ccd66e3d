"""Next items: the default beside counts, nearest neighbours and EASE, all items ranked, nobody's settings left alone.

Rows of toys-next and yelp-next are the beginnings of a person's list, one after the other, so that lists are had again.
Protocols: "strict", as papers have it: the last item is the test, the last but one tells the settings and is trained on
by no model; "all": settings as before, then a fit to all but the last item. A test row has all items before. Ours has
nothing set; peers (own plain code) have the best of their grids by hit@10 of the last items but one, on 2,000 lists:

- `popular`: how often an item came next.
- `counts`: sum_j a_j C_jk / (C_j + s), a_j recency weights of unit sum, C_jk how often k came after j among the last 20
  items, each time by its recency weight; what is left of 1 goes to popularity. It has probabilities.
- `item-kNN`: cosines of columns of the matrix of lists by items, shrunk, of the 200 nearest items, by recency weights.
- `session-kNN`: the 500 lists most like the row's, by cosine of recency weights; scores are sums of theirs.
- `implicit ALS`: that package's factors of lists by items, 64 or 256, alpha 1 or 10; of a row anew from its items.
- `EASE`: the linear autoencoder with a zero diagonal (Steck, 2019), of lists by items, by recency weights of the row.

Items of the row are left out of what is ranked where that is better, of ours as it has learnt.

    python -m pytest bench/bench_next_items.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, load_xmc
from manyclass.datasets import SequenceEncoder
from manyclass.metrics import ndcg_at_k, top_k_accuracy

SEED, K, BLOCK, N_TOLD, N_LAST = 0, 10, 1000, 2000, 20
Sequences = list[list[int]]
Scores = Callable[[sp.csr_array], Any]  # of rows of recency weights


def drawn() -> tuple[Sequences, int]:
    """Lists of 60 items that mostly follow each other."""
    rng = np.random.default_rng(SEED)
    follows, lists = rng.permutation(60), list[list[int]]()
    for _ in range(200):
        one = [int(rng.integers(60))]
        while len(one) < 7:
            one.append(int(follows[one[-1]]) if rng.random() < 0.7 else int(rng.integers(60)))
        lists.append(one)
    return lists, 60


@cache
def lists_of(path: Any) -> tuple[Sequences, int]:
    """The lists whose beginnings are the rows of a file, the last items of all from the test's file."""
    X, Y = load_xmc(path / "train.txt.xz")
    _, last = load_xmc(path / "test.txt.xz")
    found: Sequences = []
    for i, label in enumerate(Y.indices.tolist()):
        row = set(X.indices[X.indptr[i] : X.indptr[i + 1]].tolist())
        if found and set(found[-1][-10:]) == row:
            found[-1].append(label)
        else:
            (first,) = row
            found.append([first, label])
    for one, label in zip(found, last.indices.tolist(), strict=True):
        one.append(label)
    return found, X.shape[1]


class Data:
    """Lists that are trained on, rows, and what comes next."""

    def __init__(self, lists: Sequences, n_items: int, n_left_out: int) -> None:
        self.n_items = n_items
        self.train = [one[:-n_left_out] for one in lists]
        self.histories = [one[:-1] for one in lists]
        self.y = np.array([one[-1] for one in lists])

    def encoder(self, decay: float) -> SequenceEncoder:
        """One whose columns are all items, by their numbers."""
        return SequenceEncoder(n_last=N_LAST, decay=decay).fit([list(range(self.n_items))])

    def lists_by_items(self) -> sp.csr_array:
        """Ones for the items of each list."""
        found = self.encoder(0.0).transform(self.train)
        found.data[:] = 1
        return found


def unit_sum(X: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sums."""
    sums = np.asarray(X.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(1 / np.where(sums > 0, sums, 1)) @ X)


def popular(data: Data) -> Scores:
    """See above."""
    shares = np.bincount([item for one in data.train for item in one[1:]], minlength=data.n_items) + 0.1
    return lambda X: np.tile(shares / shares.sum(), (X.shape[0], 1))


def counts(data: Data, decay: float, shrinkage: float) -> Scores:
    """See above."""
    rows, shares = data.encoder(decay).next_items(data.train), popular(data)
    labels = sp.csr_array((np.ones(len(rows.y)), (np.arange(len(rows.y)), rows.y)), shape=rows.X.shape)
    C = sp.csr_array(rows.X.T @ labels)
    of_item = sp.csr_array(sp.diags_array(1 / (np.asarray(C.sum(axis=1)).ravel() + shrinkage)) @ C)

    def scores(X: sp.csr_array) -> Any:
        q = (unit_sum(X) @ of_item).toarray()
        return q + (1 - q.sum(axis=1, keepdims=True)) * shares(X)

    return scores


def item_knn(data: Data, decay: float, shrinkage: float) -> Scores:
    """See above; the decay is that of the rows."""
    S = nearest_items(data, shrinkage)
    return lambda rows: (rows @ S).toarray()


@lru_cache(maxsize=1)
def nearest_items(data: Data, shrinkage: float) -> sp.csr_array:
    """Cosines of items, of each column the 200 largest."""
    X = data.lists_by_items()
    G = sp.csr_array(X.T @ X)
    norms = np.sqrt(G.diagonal())
    G = G.tocoo()
    values = G.data / (norms[G.row] * norms[G.col] + shrinkage)
    off = G.row != G.col
    S = sp.csr_array((values[off], (G.row[off], G.col[off])), shape=G.shape)
    for j in range(S.shape[0]):
        some = S.data[S.indptr[j] : S.indptr[j + 1]]
        if len(some) > 200:
            some[some < np.partition(some, -200)[-200]] = 0
    return sp.csr_array(S.T)


def session_knn(data: Data, decay: float, n_nearest: int) -> Scores:
    """See above."""
    X = data.encoder(decay).transform(data.train)

    def scores(rows: sp.csr_array) -> Any:
        like = sp.csr_array(rows @ X.T)
        for i in range(like.shape[0]):
            some = like.data[like.indptr[i] : like.indptr[i + 1]]
            if len(some) > n_nearest:
                some[some < np.partition(some, -n_nearest)[-n_nearest]] = 0
        return (like @ data.lists_by_items()).toarray()

    return scores


def ease(data: Data, decay: float, ridge: float) -> Scores:
    """See above; the decay is that of the rows."""
    B = autoencoder(data, ridge)
    return lambda rows: rows @ B


@lru_cache(maxsize=1)
def autoencoder(data: Data, ridge: float) -> Any:
    """The weights of EASE."""
    X = data.lists_by_items()
    P = np.linalg.inv((X.T @ X).toarray() + ridge * np.eye(data.n_items))
    B = P / -np.diag(P)
    np.fill_diagonal(B, 0)
    return B


def implicit_als(data: Data, decay: float, how: tuple[int, float]) -> Scores:
    """See above."""
    factors, alpha = how
    als = pytest.importorskip("implicit.als")
    model = als.AlternatingLeastSquares(factors=factors, alpha=alpha, iterations=12, num_threads=1, random_state=SEED)
    model.fit(sp.csr_matrix(data.lists_by_items()), show_progress=False)

    def scores(rows: sp.csr_array) -> Any:
        ones = sp.csr_matrix((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)
        users = model.recalculate_user(np.arange(rows.shape[0]), ones)
        return users @ model.item_factors.T

    return scores


# Grids: of decays, and of the other setting.
PEERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "popular": (lambda data, decay, _: popular(data), ((0.0,), (0,))),
    "counts": (counts, ((0.0, 0.5, 1.0, 2.0), (3.0, 30.0, 300.0))),
    "item-kNN": (item_knn, ((0.0, 0.5, 1.0, 2.0), (0.0, 3.0, 30.0))),
    "session-kNN": (session_knn, ((0.5, 1.0, 2.0), (100, 500))),
    "implicit ALS": (implicit_als, ((0.0,), tuple(product((64, 256), (1.0, 10.0))))),
    "EASE": (ease, ((0.5, 1.0, 2.0), (100.0, 300.0, 1000.0))),
}


def blocks(X: sp.csr_array) -> Iterator[slice]:
    """Rows that are scored together."""
    return (slice(at, at + BLOCK) for at in range(0, X.shape[0], BLOCK))


def judged(scores: Scores, X: sp.csr_array, y: Any, *, exclude: bool, nats: bool = False) -> dict[str, float]:
    """Hits, nDCG and, of probabilities, the log-loss."""
    best, losses = [], []
    for rows in blocks(X):
        z = scores(X[rows])
        if nats:
            losses.append(-np.log(z[np.arange(len(z)), y[rows]]))
        if exclude:
            z[X[rows].nonzero()] = -np.inf
        top = np.argpartition(-z, K, axis=1)[:, :K]
        best.append(np.take_along_axis(top, np.argsort(-np.take_along_axis(z, top, axis=1), axis=1), axis=1))
    ranked = np.concatenate(best)
    told = {"hit@10": float(top_k_accuracy(y, ranked, k=K)), "accuracy": float(top_k_accuracy(y, ranked, k=1))}
    told["ndcg@10"] = float(ndcg_at_k(y[:, np.newaxis].tolist(), ranked, k=K))
    return told | ({"log_loss": float(np.concatenate(losses).mean())} if nats else {})


@pytest.mark.parametrize("what", ["SoftmaxClassifier", "SoftmaxClassifier, 4 runs", *PEERS])
@pytest.mark.parametrize("protocol", ["strict", "all"])
@pytest.mark.parametrize("name", ["toys-next", "yelp-next"])
def test_next_items(timed: Any, data_folder: Any, small: bool, name: str, protocol: str, what: str) -> None:
    """Tune a peer, fit it, and rank all items for each test row."""
    lists, n_items = drawn() if small else lists_of(data_folder / name)
    if what == "EASE" and n_items > 15_000:
        pytest.skip("an inverse of 20,000 x 20,000 takes more than ten minutes of one thread")
    data = Data(lists, n_items, 2 if protocol == "strict" else 1)
    if what.startswith("SoftmaxClassifier"):
        how = {"n_models": 4} if "4" in what else {}
        model = SoftmaxClassifier(model="hybrid", random_state=SEED, n_jobs=1, **how)
        timed(lambda: model.fit(data.train, vectorizer=SequenceEncoder(n_last=N_LAST)), clock="processor")
        X = data.histories
        ranked = model.predict_top_k(X, K)[0]
        told = {"hit@10": top_k_accuracy(data.y, ranked, k=K), "accuracy": top_k_accuracy(data.y, ranked, k=1)}
        told |= {"ndcg@10": ndcg_at_k(data.y[:, np.newaxis].tolist(), ranked, k=K)}
        told |= {"log_loss": model.evaluate(X, data.y)["log_loss"]}
        timed.tell(**told, setting=f"decay {model.vectorizer_.decay_}, {model._weights.mixture}")
        return
    make, grids = PEERS[what]
    before = Data([one[:-1] for one in lists], n_items, 1)
    some = np.sort(np.random.default_rng(SEED).permutation(len(lists))[:N_TOLD])
    tried = {}
    for other in grids[1]:
        for decay in grids[0]:
            scores = make(before, decay, other)
            X = before.encoder(decay).transform([before.histories[i] for i in some])
            for exclude in (False, True):
                tried[decay, other, exclude] = judged(scores, X, before.y[some], exclude=exclude)["hit@10"]
    decay, other, exclude = max(tried, key=tried.__getitem__)
    nearest_items.cache_clear()
    autoencoder.cache_clear()
    scores = timed(lambda: make(data, decay, other), clock="processor")
    X = data.encoder(decay).transform(data.histories)
    nats = what in ("popular", "counts")
    timed.tell(**judged(scores, X, data.y, exclude=exclude, nats=nats), setting=f"{decay}, {other}, {exclude}")
