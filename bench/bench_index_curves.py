"""How many queries a second does one thread answer at which recall: by our indexes, and by two of faiss?

Processor seconds of a batch, k = 10, inner product, float32: 100,000 x 100 rows (4,000 x 32 where data are generated
small), "clustered" and "isotropic" as in bench_index.py, and the weights of `SoftmaxClassifier(max_iter=1)` on yso-en,
26,091 classes, whose queries are embedded test titles. Each index has the cheapest of its settings that reaches a
recall@10 of 0.8, 0.9, 0.95 and 0.99 on 300 other queries: of some numbers of clusters, multiples of sqrt K, with the
fewest probes, or the smallest efSearch of a graph. Ours has its turn before each round; what is compared are medians of
the ratios, because the load of the machine moves the seconds. `DecomposedIndex`, whose search serves losses, is
measured on the first set alone. The documentation draws a picture of the figures, results/index_curves.jsonl.

    python -m pytest bench/bench_index_curves.py
"""

import time

import numpy as np
import pytest
from bench_index import DATA, recall
from conftest import digits
from race_index import least
from reference.exact_search import exact_search

from manyclass import DecomposedIndex, SoftmaxClassifier, SphericalClusterIndex

faiss = pytest.importorskip("faiss", reason="faiss-cpu is the competitor; the extra 'bench' has it")

TOP = 10
N_TUNE, TURNS = 300, 7
RECALLS = (0.8, 0.9, 0.95, 0.99)
# Queries of a batch, numbers of clusters by sqrt K (faiss's own advice is 4 to 16 of it), whether our other index, too.
SETS = {
    "clustered": (1_000, (2, 4, 8), True),
    "isotropic": (500, (2, 8), False),
    "trained on yso-en": (500, (2, 8), False),
}
LINKS, EFFORT = 32, 100  # M and efConstruction of the graph
WIDEST = 4_096  # efSearch


def trained(dataset, n):
    """Weights with the intercept as last column, and n embedded test rows with a one there."""
    data = dataset("yso-en")
    model = SoftmaxClassifier(max_iter=1, random_state=0, n_jobs=2).fit(data.X_train, data.y_train)
    if not hasattr(model.resolved_params_["model"], "dim"):  # few classes: linear, so that rows are their own queries
        model.set_params(model="embedding").fit(data.X_train, data.y_train)
    W = np.column_stack([model.coef_, model.intercept_]).astype(np.float32)
    n_test = data.X_test.shape[0]
    rows = np.random.default_rng(0).choice(n_test, min(n, n_test), replace=False)
    Q = model.embed(data.X_test[rows])
    return W, np.column_stack([Q, np.ones(len(Q))]).astype(np.float32)


class Ours:
    """One of our indexes, whose setting is the number of probed clusters."""

    def __init__(self, W, index):
        self.index = index.fit(W).set_params(n_jobs=1)
        self.settings = range(1, self.index.n_clusters_ + 1)

    def find(self, Q, n):
        return self.index.query(Q, TOP, n_probe=n)[1]


class Inverted:
    """faiss's IndexIVFFlat."""

    def __init__(self, W, n_clusters):
        self.index = faiss.IndexIVFFlat(faiss.IndexFlatIP(W.shape[1]), W.shape[1], n_clusters, INNER)
        self.index.train(W)
        self.index.add(W)
        self.settings = range(1, n_clusters + 1)

    def find(self, Q, n):
        self.index.nprobe = n
        return self.index.search(Q, TOP)[1]


class Graph:
    """faiss's IndexHNSWFlat."""

    def __init__(self, W):
        self.index = faiss.IndexHNSWFlat(W.shape[1], LINKS, INNER)
        self.index.hnsw.efConstruction = EFFORT
        self.index.add(W)
        self.settings = range(TOP, WIDEST + 1)

    def find(self, Q, n):
        self.index.hnsw.efSearch = n
        return self.index.search(Q, TOP)[1]


INNER = faiss.METRIC_INNER_PRODUCT


def built(W, multiples, both):
    """The indexes of each name, one for each number of clusters."""
    counts = [round(m * len(W) ** 0.5) for m in multiples]
    ours = {"n_probe": 1, "random_state": 0, "n_jobs": 2}
    return {
        "SphericalClusterIndex": [Ours(W, SphericalClusterIndex(c, **ours)) for c in counts],
        "DecomposedIndex": [Ours(W, DecomposedIndex(**ours))] if both else [],
        "faiss IVFFlat": [Inverted(W, c) for c in counts],
        "faiss HNSWFlat": [Graph(W)],
    }


def cost(one, Q, n):
    start = time.process_time()
    one.find(Q, n)
    return (time.process_time() - start) / len(Q) * 1e6


def cheapest(some, Q, true, target):
    """Of indexes of one kind the one that is fastest at a recall, with its setting."""
    able = [(one, n) for one in some if (n := least(one, Q, true, target)) is not None]
    return min(able, key=lambda pair: min(cost(pair[0], Q, pair[1]) for _ in range(3)), default=None)


class Problem:
    """Rows, queries to choose settings by and to measure, answers, and the indexes; `chosen` keeps the settings."""

    def __init__(self, name, W, Q):
        _, multiples, both = SETS[name]
        self.data = f"{name}, {W.shape[0]:,} x {W.shape[1]}"
        self.some, self.many = Q[:N_TUNE], Q[N_TUNE:]
        self.true_some, self.true_many = (exact_search(W, q, TOP)[1] for q in (self.some, self.many))
        faiss.omp_set_num_threads(2)
        self.indexes = built(W, multiples, both)
        faiss.omp_set_num_threads(1)
        whole = self.indexes["SphericalClusterIndex"][0]
        assert recall(whole.find(self.some, whole.settings[-1]), self.true_some) > 0.9999  # rounding may swap equals
        self.known = {}

    def chosen(self, index, target):
        """An index of a name and its setting, or None if none reaches the recall."""
        if (index, target) not in self.known:
            self.known[index, target] = cheapest(self.indexes[index], self.some, self.true_some, target)
        return self.known[index, target]


@pytest.fixture(scope="module", params=SETS)
def problem(request, small):
    """One of the data sets, with its indexes."""
    name, rng = request.param, np.random.default_rng(0)
    n = N_TUNE + SETS[name][0]
    if name.startswith("trained"):
        return Problem(name, *trained(request.getfixturevalue("dataset"), n))
    k, d = (4_000, 32) if small else (100_000, 100)
    return Problem(name, DATA[name](rng, k, d, 1), DATA[name](rng, n, d, 0))


OURS = "SphericalClusterIndex"


@pytest.mark.parametrize("what", [OURS, "DecomposedIndex", "faiss IVFFlat", "faiss HNSWFlat"])
@pytest.mark.parametrize("target", RECALLS)
def test_recall_against_speed(timed, problem, target, what):
    pair, ours = problem.chosen(what, target), problem.chosen(OURS, target)
    if pair is None:
        pytest.skip("not built for these data, or does not reach the recall")
    one, n = pair
    Q = problem.many
    beside = {} if what == OURS else {OURS: lambda: ours[0].find(Q, ours[1])}
    found = timed(lambda: one.find(Q, n), rounds=TURNS, warmup=1, clock="processor", beside=beside)
    timed.row(
        "index_curves",
        data=problem.data,
        index=what,
        asked=target,
        recall=round(float(recall(found, problem.true_many)), 3),
        setting=f"{n} of {len(one.settings)}" if one.settings[0] == 1 else f"efSearch {n}",
        one_thread=round(1e6 * float(np.median(timed.seconds)) / len(Q), 1),
        times_ours=digits(1 / timed.info["beside"][OURS]["ratio"]) if beside else 1.0,
    )
