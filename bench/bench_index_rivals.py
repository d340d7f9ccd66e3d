"""What do queries, a build and an update cost by this package's index, three of faiss, hnswlib and usearch?

Processor seconds of one thread: microseconds a query, in a batch and singly, k = 10, inner product, float32, at
recall@10 of 0.9 and 0.99; seconds of a build; milliseconds of replacing 1 % of the rows by others of the same kind,
and the recall after it at the same setting. Rows and queries are those of bench_index_curves.py, by whose functions
the number of clusters, the probes and efSearch are chosen. The graphs have 32 links and a width of 100 while they are
built; faiss's has no way to replace a row. On the trained rows, where a graph by inner products does not reach a recall
of 0.9, the better of two is taken: such a one, and one by distances of lifted rows. Ours has its turn before each round
of queries; what is compared are medians of the ratios.

    python -m pytest bench/bench_index_rivals.py
"""

import importlib
import time

import numpy as np
import pytest
from bench_index import DATA, recall
from bench_index_curves import EFFORT, LINKS, N_TUNE, SETS, TOP, WIDEST, Inverted, Ours, cheapest, faiss, trained
from conftest import digits
from reference.exact_search import exact_search

from manyclass import SphericalClusterIndex

RECALLS = (0.9, 0.99)
ROUNDS, N_SINGLE, REPLACED = 5, 200, 0.01
OURS = "SphericalClusterIndex"


class OfOurs(Ours):
    """This package's."""

    def __init__(self, W, n_clusters):
        super().__init__(W, SphericalClusterIndex(n_clusters, n_probe=1, random_state=0, n_jobs=1))

    def replace(self, ids, rows):
        self.index.update(ids, rows)


class OfInverted(Inverted):
    """Lists of clusters, which know where each row is."""

    def __init__(self, W, n_clusters):
        super().__init__(W, n_clusters)
        self.index.set_direct_map_type(faiss.DirectMap.Array)

    def replace(self, ids, rows):
        self.index.update_vectors(ids, rows)


class Flat:
    """All rows, by BLAS; its one setting is no choice."""

    def __init__(self, W):
        self.index = faiss.IndexFlatIP(W.shape[1])
        self.index.add(W)
        self.settings = range(1, 2)

    def find(self, Q, _):
        return self.index.search(Q, TOP)[1]

    def replace(self, ids, rows):
        n, d = self.index.ntotal, self.index.d
        faiss.rev_swig_ptr(self.index.get_xb(), n * d).reshape(n, d)[ids] = rows


class Graph:
    """A graph of LINKS links, by inner products, or with `lifted` rows by distances.

    Lifted rows have sqrt(M^2 - ||w||^2) as one column more, M being a bound of all norms, and queries 0: the nearest
    row then is that of the largest inner product, and a graph finds rows of unequal norms, which are not neighbours
    of each other by inner products.
    """

    def __init__(self, W, lifted):
        self.lifted = lifted
        self.bound = 1.5 * float(np.linalg.norm(W, axis=1).max())  # rows that replace others are longer
        rows = self.rows(W)
        self.make(rows.shape[1], len(rows))
        self.add(np.arange(len(rows)), rows)
        self.settings = range(TOP, WIDEST + 1)

    def rows(self, W):
        if not self.lifted:
            return W
        rest = np.maximum(self.bound**2 - np.square(W).sum(axis=1, dtype=float), 0)
        return np.column_stack([W, np.sqrt(rest)]).astype(np.float32)

    def find(self, Q, n):
        return self.search(np.column_stack([Q, np.zeros(len(Q), np.float32)]) if self.lifted else Q, n)

    def replace(self, ids, rows):
        self.add(ids, self.rows(rows))


class OfFaiss(Graph):
    """Has no way to replace a row."""

    replace = None

    def make(self, d, _):
        self.index = faiss.IndexHNSWFlat(d, LINKS, faiss.METRIC_L2 if self.lifted else faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EFFORT

    def add(self, _, rows):
        self.index.add(rows)

    def search(self, Q, n):
        self.index.hnsw.efSearch = n
        return self.index.search(Q, TOP)[1]


class Hnswlib(Graph):
    """Rows that are added by a number that it has take the place of the old."""

    def make(self, d, n):
        self.index = importlib.import_module("hnswlib").Index("l2" if self.lifted else "ip", d)
        self.index.init_index(n, ef_construction=EFFORT, M=LINKS, random_seed=0)
        self.index.set_num_threads(1)

    def add(self, ids, rows):
        self.index.add_items(rows, ids)

    def search(self, Q, n):
        self.index.set_ef(n)
        return self.index.knn_query(Q, TOP)[0].astype(np.int64)


class Usearch(Graph):
    """Rows are removed, and added anew."""

    def make(self, d, _):
        options = {"connectivity": LINKS, "expansion_add": EFFORT, "dtype": "f32"}
        metric = "l2sq" if self.lifted else "ip"
        self.index = importlib.import_module("usearch.index").Index(ndim=d, metric=metric, **options)

    def add(self, ids, rows):
        self.index.add(ids, rows, threads=1)

    def search(self, Q, n):
        self.index.expansion_search = n
        return self.index.search(Q, TOP, threads=1).keys.astype(np.int64).reshape(len(Q), TOP)

    def replace(self, ids, rows):
        self.index.remove(ids, threads=1)
        super().replace(ids, rows)


KINDS = {
    OURS: OfOurs,
    "faiss Flat": Flat,
    "faiss IVFFlat": OfInverted,
    "faiss HNSWFlat": OfFaiss,
    "hnswlib": Hnswlib,
    "usearch": Usearch,
}
PACKAGES = {"hnswlib": "hnswlib", "usearch": "usearch"}
CLUSTERED = (OURS, "faiss IVFFlat")


class Problem:
    """Rows, queries to choose settings by and to measure, their answers, and indexes, built when asked for."""

    def __init__(self, name, W, Q, more):
        self.name, self.W, self.more = name, W, more
        self.data = f"{name}, {W.shape[0]:,} x {W.shape[1]}"
        self.some, self.many = Q[:N_TUNE], Q[N_TUNE:]
        self.true_some, self.true_many = (exact_search(W, q, TOP)[1] for q in (self.some, self.many))
        self.built, self.known = {}, {}
        faiss.omp_set_num_threads(1)

    def of(self, what):
        """The indexes of a name, by numbers of clusters, or lifted and not, with processor seconds of their builds."""
        if what not in self.built:
            choices = [(False,), (True,)] if self.name.startswith("trained") else [(False,)]
            if what in CLUSTERED:
                choices = [(round(m * len(self.W) ** 0.5),) for m in SETS[self.name][1]]
            self.built[what] = []
            for choice in choices if KINDS[what] is not Flat else [()]:
                begin = time.process_time()
                one = KINDS[what](self.W, *choice)
                self.built[what].append((one, time.process_time() - begin))
        return self.built[what]

    def chosen(self, what, target):
        """The cheapest index and its setting for a recall, or None; and the seconds of its build."""
        if (what, target) not in self.known:
            built = self.of(what)
            pair = cheapest([one for one, _ in built], self.some, self.true_some, target)
            seconds = next((s for one, s in built if pair and one is pair[0]), built[0][1])
            self.known[what, target] = pair, seconds
        return self.known[what, target]


@pytest.fixture(scope="module", params=SETS)
def problem(request, small):
    """One of the data sets; `more(n)` draws other rows of its kind."""
    name, rng = request.param, np.random.default_rng(0)
    n = N_TUNE + SETS[name][0]
    if name.startswith("trained"):
        W, Q = trained(request.getfixturevalue("dataset"), n)
        return Problem(name, W, Q, lambda n: W[rng.permutation(len(W))[:n]] * rng.uniform(0.5, 1.5, (n, 1)))
    k, d = (3_000, 32) if small else (100_000, 100)
    return Problem(name, DATA[name](rng, k, d, 1), DATA[name](rng, n, d, 0), lambda n: DATA[name](rng, n, d, 1))


def skip_unless_installed(what):
    if what in PACKAGES:
        pytest.importorskip(PACKAGES[what], reason=f"{what} is a competitor; the extra 'bench' has it")


def times_ours(timed, what):
    return digits(1 / timed.info["beside"][OURS]["ratio"]) if what != OURS else 1.0


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("target", RECALLS)
def test_batches(timed, problem, target, what):
    one, n, ours = found_or_skipped(problem, what, target)
    Q, beside = problem.many, {} if what == OURS else {OURS: lambda: ours[0].find(problem.many, ours[1])}
    found = timed(lambda: one.find(Q, n), rounds=ROUNDS, warmup=1, clock="processor", beside=beside)
    us = digits(1e6 * float(np.median(timed.seconds)) / len(Q))
    figures = {"recall": round(float(recall(found, problem.true_many)), 3), "setting": f"{n} of {one.settings[-1]}"}
    timed.row(
        "index_rivals", data=problem.data, index=what, asked=target, batch=us, batch_times=times_ours(timed, what)
    )
    timed.row("index_rivals", data=problem.data, index=what, asked=target, **figures)


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("target", RECALLS)
def test_single_queries(timed, problem, target, what):
    one, n, ours = found_or_skipped(problem, what, target)

    def ask(index, n):
        return lambda: [index.find(q, n) for q in problem.many[:N_SINGLE, None]]

    beside = {} if what == OURS else {OURS: ask(*ours)}
    timed(ask(one, n), rounds=ROUNDS, warmup=1, clock="processor", beside=beside)
    us = digits(1e6 * float(np.median(timed.seconds)) / N_SINGLE)
    ratio = times_ours(timed, what)
    timed.row("index_rivals", data=problem.data, index=what, asked=target, single=us, single_times=ratio)


def found_or_skipped(problem, what, target):
    skip_unless_installed(what)
    pair, _ = problem.chosen(what, target)
    if pair is None:
        pytest.skip("does not reach the recall")
    return *pair, problem.chosen(OURS, target)[0]


@pytest.mark.parametrize("what", KINDS)
def test_build_and_update(timed, problem, what):
    """After the queries of its data, because rows change."""
    skip_unless_installed(what)
    pair, seconds = problem.chosen(what, RECALLS[0])
    pair = pair or (problem.of(what)[0][0], WIDEST)
    one, n = pair
    figures = {"build": digits(seconds)}
    if one.replace:
        rng = np.random.default_rng(1)
        ids = np.sort(rng.permutation(len(problem.W))[: round(REPLACED * len(problem.W))])
        rows, changed = problem.more(len(ids)).astype(np.float32), problem.W.copy()
        changed[ids] = rows
        begin = time.process_time()
        one.replace(ids, rows)
        figures["update"] = digits(1e3 * (time.process_time() - begin))
        true = exact_search(changed, problem.many, TOP)[1]
        figures["recall_after"] = round(float(recall(one.find(problem.many, n), true)), 3)
    timed.taken([seconds], clock="processor")
    timed.tell(**figures)
    timed.row("index_rivals", data=problem.data, index=what, asked=RECALLS[0], **figures)
