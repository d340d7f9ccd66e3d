"""Next items: the default beside what shops use, all items ranked, nobody's settings left alone.

Rows of toys-next and yelp-next are the beginnings of a person's list, one after the other, so that lists are had again;
of tmall-next they are sessions, had again by the values that a next row must have, and its tests are new sessions;
gowalla has half of the places of a person, in no order, and all others are to be found (hit@10 is recall@10 then).
Protocols: "strict", as papers have it: the last item is the test, the last but one tells the settings and is trained on
by no model; "all": settings as before, then a fit to all but the last item. A test row has all items before. tmall-next
and gowalla have "all" alone; their settings are told by sessions, and by halves, that are left out first. Ours has
nothing set; peers (own plain code where no package is named) have the best of their grids by hit@10 of 3,000 rows:

- `popular`: how often an item came next.
- `counts`: sum_j a_j C_jk / (C_j + s), a_j recency weights of unit sum, C_jk how often k came after j among the last 20
  items, each time by its recency weight; what is left of 1 goes to popularity. It has probabilities.
- `item-kNN`: cosines of columns of the matrix of lists by items, shrunk, of the 200 nearest items, by recency weights.
- `session-kNN`: the lists most like the row's, by cosine of recency weights; scores are sums of theirs.
- `SLIM`: weights at least 0 of other items, of least squares with a ridge and an L1 penalty by coordinate descent, for
  each item of its 100 nearest (Ning and Karypis, 2011, with selected features); by recency weights of the row.
- `EASE`: the linear autoencoder with a zero diagonal (Steck, 2019), of lists by items, by recency weights of the row.
- `implicit ALS`: that package's factors of lists by items, 64 or 128, alpha 1 or 10; of a row anew from its items.
- `implicit BPR`: that package's factors; a list that was trained on has its own, a new session the mean of its items'.

Items of the row are left out of what is ranked where that is better, of ours as it has learnt. Seconds are processor
time of one fit with the settings that were found; milliseconds a row are those of the scores of all items and the ten
best; each fit is in a process of its own, whose peak of memory includes the data. A search for settings, or a fit of a
peer, that has not ended after MOST_SECONDS of its processor time is stopped, and the table says so.

    python -m pytest bench/bench_next_items.py --benchmark-save=next_items
    python bench/make_tables.py .benchmarks/*/*_next_items.json
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, load_xmc
from manyclass.datasets import SequenceEncoder
from manyclass.metrics import ndcg_at_k, precision_at_k, recall_at_k

SEED, K, BLOCK, N_TOLD, N_LAST = 0, 20, 1000, 3000, 20
MOST_SECONDS = 300
MOST_SQUARE = 21_000  # items of which EASE has the inverse: of gowalla's it takes 7 GB and twenty minutes
Lists = list[list[int]]
Scores = Callable[[sp.csr_array, Any], Any]  # of rows of recency weights, and the numbers of their lists


@dataclass(eq=False)
class Data:
    """Lists that are trained on, and rows whose next items are asked for.

    `users` are the numbers of the rows' lists among those trained on, -1 for new ones; `found` the labels of each row.
    """

    n_items: int
    train: Lists
    rows: Lists
    users: Any
    found: Lists
    is_ordered: bool = True

    def encoder(self, decay: float) -> SequenceEncoder:
        """One whose columns are all items, by their numbers."""
        n_last = N_LAST if self.is_ordered else self.n_items
        return SequenceEncoder(n_last=n_last, decay=decay).fit([list(range(self.n_items))])

    def lists_by_items(self) -> sp.csr_array:
        """Ones for the items of each list."""
        ones = replace(self, is_ordered=False).encoder(0.0).transform(self.train)
        ones.data[:] = 1
        return ones

    def some(self, n: int) -> Data:
        """Ask for n of the rows."""
        some = np.sort(np.random.default_rng(SEED).permutation(len(self.rows))[:n])
        rows, found = ([lists[i] for i in some] for lists in (self.rows, self.found))
        return replace(self, rows=rows, users=self.users[some], found=found)


def drawn() -> tuple[Lists, int]:
    """Lists of 60 items that mostly follow each other."""
    rng = np.random.default_rng(SEED)
    follows, lists = rng.permutation(60), list[list[int]]()
    for _ in range(200):
        one = [int(rng.integers(60))]
        while len(one) < 7:
            one.append(int(follows[one[-1]]) if rng.random() < 0.7 else int(rng.integers(60)))
        lists.append(one)
    return lists, 60


def rows_of(X: sp.csr_array) -> Iterator[list[int]]:
    """The items of each row, those of the largest value last."""
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        yield X.indices[row][np.argsort(X.data[row], kind="stable")].tolist()


def lists_of(X: sp.csr_array, Y: sp.csr_array) -> Lists:
    """The lists whose beginnings are the rows, of the last ten items, one after the other."""
    lists: Lists = []
    for row, label in zip(rows_of(X), Y.indices.tolist(), strict=True):
        if lists and set(lists[-1][-10:]) == set(row):
            lists[-1].append(label)
        else:
            lists.append([*row, label])
    return lists


def sessions_of(X: sp.csr_array, Y: sp.csr_array) -> Lists:
    """The sessions whose beginnings are the rows, in any order, whose values are sums of 1 / (1 + steps back)."""

    def named(items: Any, values: Any) -> frozenset[tuple[int, str]]:
        return frozenset((int(k), f"{v:.3g}") for k, v in zip(items, values, strict=True))

    def last(session: list[int]) -> frozenset[tuple[int, str]]:
        row: dict[int, float] = {}
        for back, k in enumerate(reversed(session[-10:])):
            row[k] = row.get(k, 0) + 1 / (1 + back)
        return named(row, row.values())

    labels: dict[frozenset[tuple[int, str]], list[int]] = {}
    for i, label in enumerate(Y.indices.tolist()):
        row = slice(X.indptr[i], X.indptr[i + 1])
        labels.setdefault(named(X.indices[row], X.data[row]), []).append(label)
    sessions = [[k, label] for k in range(X.shape[1]) for label in labels.pop(last([k]), ())]
    for one in sessions:
        while following := labels.get(last(one)):
            one.append(following.pop())
    return sessions


@cache
def both_of(folder: Any, name: str, protocol: str) -> tuple[Data, Data]:
    """The data whose rows tell settings, and those of the test."""
    if name == "drawn":
        return next_of(*drawn(), protocol)
    X, Y = load_xmc(folder / name / "train.txt.xz")
    X_test, Y_test = load_xmc(folder / name / "test.txt.xz")
    n_items = X.shape[1]
    rng = np.random.default_rng(SEED)
    if name == "gowalla":
        half, other, whole, last = (list(rows_of(one)) for one in (X, Y, X_test, Y_test))
        users = np.arange(len(whole))
        told = np.zeros(len(whole), dtype=bool)
        told[rng.permutation(len(whole))[:N_TOLD]] = True
        train = [half[i] if told[i] else whole[i] for i in users]
        asked = np.flatnonzero(told)
        before = Data(n_items, train, [half[i] for i in asked], asked, [other[i] for i in asked], is_ordered=False)
        return before, Data(n_items, whole, whole, users, last, is_ordered=False)
    if name == "tmall-next":
        lists = sessions_of(X, Y)
        order = rng.permutation(len(lists))
        left, out = ([lists[i] for i in some] for some in (order[N_TOLD:], order[:N_TOLD]))
        new = np.full(N_TOLD, -1)
        before = Data(n_items, left, [one[:-1] for one in out], new, [one[-1:] for one in out])
        rows = list(rows_of(X_test))
        return before, Data(n_items, lists, rows, np.full(len(rows), -1), [[k] for k in Y_test.indices.tolist()])
    lists = lists_of(X, Y)
    for one, label in zip(lists, Y_test.indices.tolist(), strict=True):
        one.append(label)
    return next_of(lists, n_items, protocol)


def next_of(lists: Lists, n_items: int, protocol: str) -> tuple[Data, Data]:
    """The last items but one to be found, and the last ones."""
    users = np.arange(len(lists))
    early = [one[:-2] for one in lists]
    late = [one[:-1] for one in lists]
    before = Data(n_items, early, early, users, [one[-2:-1] for one in lists])
    return before, Data(n_items, early if protocol == "strict" else late, late, users, [one[-1:] for one in lists])


def unit_sum(X: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sums."""
    sums = np.asarray(X.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(1 / np.where(sums > 0, sums, 1)) @ X)


def popular(data: Data) -> Scores:
    """See above."""
    came = [item for one in data.train for item in (one[1:] if data.is_ordered else one)]
    shares = np.bincount(came, minlength=data.n_items) + 0.1
    return lambda X, _: np.tile(shares / shares.sum(), (X.shape[0], 1))


def counts(data: Data, decay: float, shrinkage: float) -> Scores:
    """See above."""
    shares = popular(data)
    if data.is_ordered:
        rows = data.encoder(decay).next_items(data.train)
        labels = sp.csr_array((np.ones(len(rows.y)), (np.arange(len(rows.y)), rows.y)), shape=rows.X.shape)
        C = sp.csr_array(rows.X.T @ labels)
    else:
        C = without_diagonal(gram(data))
    of_item = sp.csr_array(sp.diags_array(1 / (np.asarray(C.sum(axis=1)).ravel() + shrinkage)) @ C)

    def scores(X: sp.csr_array, users: Any) -> Any:
        q = (unit_sum(X) @ of_item).toarray()
        return q + (1 - q.sum(axis=1, keepdims=True)) * shares(X, users)

    return scores


@lru_cache(maxsize=1)
def gram(data: Data) -> sp.csr_array:
    """How many lists have both items."""
    X = data.lists_by_items()
    return sp.csr_array(X.T @ X)


def without_diagonal(G: sp.csr_array) -> sp.csr_array:
    """The other entries."""
    return sp.csr_array(G - sp.diags_array(G.diagonal()))


def most(X: sp.csr_array, n: int) -> sp.csr_array:
    """Keep the n largest entries of each row."""
    for i in range(X.shape[0]):
        some = X.data[X.indptr[i] : X.indptr[i + 1]]
        if len(some) > n:
            some[some < np.partition(some, -n)[-n]] = 0
    X.eliminate_zeros()
    return X


@lru_cache(maxsize=1)
def nearest_items(data: Data, shrinkage: float, n: int) -> sp.csr_array:
    """Cosines of items, in each row the largest."""
    G = gram(data)
    norms = np.sqrt(G.diagonal())
    near = without_diagonal(G).tocoo()
    values = near.data / (norms[near.row] * norms[near.col] + shrinkage)
    return most(sp.csr_array((values, (near.row, near.col)), shape=near.shape), n)


def item_knn(data: Data, decay: float, shrinkage: float) -> Scores:
    """See above; the decay is that of the rows."""
    S = sp.csr_array(nearest_items(data, shrinkage, 200).T)
    return lambda X, _: (X @ S).toarray()


def session_knn(data: Data, decay: float, n_nearest: int) -> Scores:
    """See above."""
    X, lists = data.encoder(decay).transform(data.train), data.lists_by_items()
    return lambda rows, _: (most(sp.csr_array(rows @ X.T), n_nearest) @ lists).toarray()


@lru_cache(maxsize=1)
def slim_weights(data: Data, ridge: float, lasso: float) -> sp.csr_array:
    """The weights of SLIM, of blocks of items together, with the Gram matrices of their candidates.

    Item j has argmin_{w >= 0} |x_j - X w|^2 / 2 + ridge |w|^2 / 2 + lasso |w|_1.
    """
    G, near = gram(data), nearest_items(data, 0.0, 100)
    n, rows, columns, values = data.n_items, [], [], []
    for begin in range(0, n, 200):
        items = np.arange(begin, min(begin + 200, n))
        some = [near.indices[near.indptr[j] : near.indptr[j + 1]] for j in items]
        width = max(map(len, some))
        A, b = np.zeros((len(items), width, width)), np.zeros((len(items), width))
        for at, (j, c) in enumerate(zip(items, some, strict=True)):
            A[at, : len(c), : len(c)] = G[c][:, c].toarray()
            b[at, : len(c)] = G[[j]][:, c].toarray()
        w, fitted = np.zeros_like(b), np.zeros_like(b)
        for _ in range(20):
            for c in range(width):
                own = A[:, c, c]
                new = np.maximum(0, b[:, c] - fitted[:, c] + own * w[:, c] - lasso) / (own + ridge)
                fitted += A[:, c] * (new - w[:, c])[:, np.newaxis]  # A is symmetric
                w[:, c] = new
        for at, (j, c) in enumerate(zip(items, some, strict=True)):
            rows.append(c)
            columns.append(np.full(len(c), j))
            values.append(w[at, : len(c)])
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    found = sp.csr_array(entries, shape=(n, n))
    found.eliminate_zeros()
    return found


def slim(data: Data, decay: float, penalties: tuple[float, float]) -> Scores:
    """See above; the decay is that of the rows."""
    W = slim_weights(data, *penalties)
    return lambda X, _: (X @ W).toarray()


def ease(data: Data, decay: float, ridge: float) -> Scores:
    """See above; the decay is that of the rows."""
    B = autoencoder(data, ridge)
    return lambda X, _: X @ B


@lru_cache(maxsize=1)
def autoencoder(data: Data, ridge: float) -> Any:
    """The weights of EASE, by a Cholesky factor."""
    A = np.asfortranarray(gram(data).toarray(), dtype=np.float32)
    A[np.diag_indices(len(A))] += ridge
    potrf, potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), (A,))
    factor, told = potrf(A, lower=1, overwrite_a=1)
    assert told == 0
    P, told = potri(factor, lower=1, overwrite_c=1)
    assert told == 0
    diagonal = np.diag(P).copy()
    for begin in range(0, len(P), BLOCK):  # of which the lower half is there
        end = min(begin + BLOCK, len(P))
        P[begin:end, end:] = P[end:, begin:end].T
        square = P[begin:end, begin:end]
        square[:] = np.tril(square) + np.tril(square, -1).T
    P /= -diagonal
    P[np.diag_indices(len(P))] = 0
    return P


def ones_of(rows: sp.csr_array) -> sp.csr_matrix:
    """What `implicit` takes."""
    return sp.csr_matrix((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)


def implicit_als(data: Data, decay: float, how: tuple[int, float]) -> Scores:
    """See above."""
    factors, alpha = how
    als = pytest.importorskip("implicit.als")
    model = als.AlternatingLeastSquares(factors=factors, alpha=alpha, iterations=12, num_threads=1, random_state=SEED)
    model.fit(sp.csr_matrix(data.lists_by_items()), show_progress=False)
    return lambda X, _: model.recalculate_user(np.arange(X.shape[0]), ones_of(X)) @ model.item_factors.T


def implicit_bpr(data: Data, decay: float, how: tuple[int, float]) -> Scores:
    """See above."""
    passes, rate = how
    bpr = pytest.importorskip("implicit.bpr")
    model = bpr.BayesianPersonalizedRanking(
        factors=64, learning_rate=rate, iterations=passes, num_threads=1, random_state=SEED
    )
    model.fit(sp.csr_matrix(data.lists_by_items()), show_progress=False)

    def scores(X: sp.csr_array, users: Any) -> Any:
        known = users >= 0
        factors = np.asarray(unit_sum(X) @ model.item_factors)
        factors[known] = model.user_factors[users[known]]
        return factors @ model.item_factors.T

    return scores


# Grids: of decays, and of the other setting.
PEERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "popular": (lambda data, decay, _: popular(data), ((0.0,), (0,))),
    "counts": (counts, ((0.0, 0.5, 1.0, 2.0), (3.0, 30.0, 300.0))),
    "item-kNN": (item_knn, ((0.0, 0.5, 1.0, 2.0), (0.0, 3.0, 30.0))),
    "session-kNN": (session_knn, ((0.0, 0.5, 1.0, 2.0), (100, 500))),
    "SLIM": (slim, ((0.0, 0.5, 1.0, 2.0), ((1.0, 0.1), (10.0, 0.1)))),
    "EASE": (ease, ((0.0, 0.5, 1.0, 2.0), (30.0, 300.0))),
    "implicit ALS": (implicit_als, ((0.0,), ((64, 1.0), (64, 10.0), (128, 1.0)))),
    "implicit BPR": (implicit_bpr, ((0.0,), ((100, 0.01), (100, 0.05)))),
}


def judged(scores: Scores, data: Data, decay: float, excludes: tuple[bool, ...], nats: bool = False) -> dict[Any, Any]:
    """What the scores are worth with and without the row's own items; milliseconds a row, and of probabilities nats."""
    X = data.encoder(decay).transform(data.rows)
    begin, losses, best = time.process_time(), list[float](), {exclude: list[Any]() for exclude in excludes}
    for at in range(0, X.shape[0], BLOCK):
        rows = slice(at, at + BLOCK)
        z = np.asarray(scores(X[rows], data.users[rows]))
        if nats:
            losses += [float(-np.log(z[i, labels]).mean()) for i, labels in enumerate(data.found[rows])]
        for exclude in excludes:
            if exclude:
                z[X[rows].nonzero()] = -np.inf
            top = np.argpartition(-z, K, axis=1)[:, :K]
            order = np.argsort(-np.take_along_axis(z, top, axis=1), axis=1)
            best[exclude].append(np.take_along_axis(top, order, axis=1))
    told = {"predict_ms": 1e3 * (time.process_time() - begin) / X.shape[0]}
    told |= {"log_loss": float(np.mean(losses))} if nats else {}
    return {exclude: told | ranked(data, np.concatenate(found)) for exclude, found in best.items()}


def ranked(data: Data, best: Any) -> dict[str, float]:
    """What the best 20 of each row are worth."""
    hits, ndcg = (measure(data.found, best, k=(10, 20)) for measure in (recall_at_k, ndcg_at_k))
    told = {"hit_10": hits[0], "ndcg_10": ndcg[0], "accuracy": precision_at_k(data.found, best, k=1)}
    return {name: float(value) for name, value in told.items()} | {"at_20": f"{hits[1]:.4f}, {ndcg[1]:.4f}"}


def ours(data: Data, folder: Any, name: str, n_models: int | None) -> dict[str, Any]:
    """Fit with nothing set, but runs where these are named."""
    how = {} if n_models is None else {"model": "hybrid", "n_models": n_models}
    model = SoftmaxClassifier(random_state=SEED, n_jobs=1, **how)
    begin = time.process_time()
    if data.is_ordered:
        model.fit(data.train, vectorizer=SequenceEncoder())
        X: Any = data.rows
        y: Any = np.concatenate(data.found)
    else:
        model.fit(*load_xmc(folder / name / "train.txt.xz"))
        X, y = load_xmc(folder / name / "test.txt.xz")
    told = {"cpu_s": time.process_time() - begin}
    begin = time.process_time()
    best = model.predict_top_k(X, K)[0]
    told["predict_ms"] = 1e3 * (time.process_time() - begin) / len(data.rows)
    told |= ranked(data, best) | {"log_loss": model.evaluate(X, y)["log_loss"]}
    memory = f"{model.vectorizer_.n_last_} items, decay {model.vectorizer_.decay_}, " if data.is_ordered else ""
    return told | {"setting": f"{memory}{model._weights.mixture}"}


def apart(run: Callable[[], dict[str, Any]], most_seconds: int | None = None) -> dict[str, Any]:
    """What a run says in a process of its own, with its peak of memory in MB; nothing if it takes more seconds."""
    near, far = multiprocessing.Pipe()

    def there() -> None:
        if most_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds + 5))
        try:
            told = run()
            told["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        except BaseException as error:
            told = {"failed": repr(error)}
        far.send(told)

    child = multiprocessing.get_context("fork").Process(target=there)
    child.start()
    while not near.poll(1):
        if not child.is_alive() and child.exitcode == -signal.SIGXCPU:
            return {}
        assert child.is_alive() or near.poll(), "the process was killed"
    told: dict[str, Any] = near.recv()
    child.join()
    assert "failed" not in told, told["failed"]
    return told


def tuned(what: str, before: Data) -> dict[str, Any]:
    """The best of a grid by the rows that tell, and the seconds that it took."""
    (make, (decays, others)), begin, tried = PEERS[what], time.process_time(), {}
    for other in others:
        for decay in decays if before.is_ordered else decays[:1]:
            scores = make(before, decay, other)
            for exclude, told in judged(scores, before, decay, (False, True)).items():
                tried[decay, other, exclude] = told["hit_10"]
    return {"best": max(tried, key=tried.__getitem__), "grid_cpu_s": time.process_time() - begin}


def fitted(what: str, data: Data, decay: float, other: Any, exclude: bool) -> dict[str, Any]:
    """One fit of a peer, and what it is worth."""
    begin = time.process_time()
    scores = PEERS[what][0](data, decay, other)
    told = {"cpu_s": time.process_time() - begin, "setting": f"{decay}, {other}, {exclude}"}
    return told | judged(scores, data, decay, (exclude,), nats=what in ("popular", "counts"))[exclude]


OURS = {"SoftmaxClassifier()": None, "SoftmaxClassifier, 4 runs": 4}
SETS = [("toys-next", "strict"), ("toys-next", "all"), ("yelp-next", "strict"), ("yelp-next", "all")]
SETS += [("tmall-next", "all"), ("gowalla", "all")]


@pytest.mark.parametrize("what", [*OURS, *PEERS])
@pytest.mark.parametrize(("name", "protocol"), SETS)
def test_next_items(timed: Any, data_folder: Any, small: bool, name: str, protocol: str, what: str) -> None:
    """Tune a peer, fit it, and rank all items for each test row."""
    if small and name != "toys-next":
        pytest.skip("generated data: one set")
    before, data = both_of(data_folder, "drawn" if small else name, protocol)
    if what == "EASE" and data.n_items > MOST_SQUARE:
        pytest.skip("the inverse takes 7 GB and twenty minutes of one thread")
    if what in OURS:
        if OURS[what] and not data.is_ordered:
            pytest.skip("runs are of one label a row")
        told = apart(lambda: ours(data, data_folder, name, OURS[what]))
    else:
        if what.startswith("implicit"):
            pytest.importorskip("implicit")
        best = apart(lambda: tuned(what, before.some(N_TOLD)), MOST_SECONDS)
        told = apart(lambda: fitted(what, data, *best["best"]), MOST_SECONDS) if best else {}
        told = {"grid_cpu_s": best["grid_cpu_s"]} | told if told else {"cpu_s": f"not ended after {MOST_SECONDS}"}
    timed.taken([told["cpu_s"] if len(told) > 1 else MOST_SECONDS], clock="processor")
    digits = {"cpu_s": 1, "grid_cpu_s": 0, "predict_ms": 3, "log_loss": 3}
    shown = {name: round(v, digits.get(name, 4)) if isinstance(v, float) else v for name, v in told.items()}
    timed.row("next_items", data=name, protocol=protocol, model=what, **shown)
    timed.tell(**shown)
