"""Does SphericalClusterIndex answer, build and follow changes faster than faiss's IndexIVFFlat at equal recall?

200,000 x 128, float32, two threads both, inner product, k = 10: "clustered", 2,000 planted directions with spread and
log-normal norms, and "isotropic". Microseconds per query of a batch of 1,000 and of single queries at recall@10 of 0.5
and 0.9, each library with the better of the same two numbers of clusters and the fewest probes that reach the recall;
seconds to build; milliseconds to replace 1 % of the rows. Rounds of both are interleaved; minima, medians beside. On a
busy machine, where threads wait for processors, the processor time of one thread says more; bench_index_curves.py has
it for more recalls, more indexes and trained weights:

    python -m pytest bench/bench_index.py -s
"""

import time

import numpy as np
import pytest
from conftest import machine

from manyclass import SphericalClusterIndex, _core
from manyclass.search.spherical import exact_search

faiss = pytest.importorskip("faiss", reason="faiss-cpu is the competitor; the extra 'bench' has it")

K, D, TOP, THREADS = 200_000, 128, 10, 2
N_BATCH, N_SINGLE, ROUNDS = 1_000, 300, 6
N_TUNE = 300  # queries that the number of probes is chosen by
CLUSTERS = (512, 1024)
RECALLS = (0.5, 0.9)
CENTERS = np.random.default_rng(1).standard_normal((2_000, D)) / np.sqrt(D)


def isotropic(rng, n, norms):
    return rng.standard_normal((n, D), dtype=np.float32)


def clustered(rng, n, norms):
    X = CENTERS[rng.integers(0, len(CENTERS), n)] + rng.standard_normal((n, D)) / np.sqrt(D)
    return (X * np.exp(0.3 * rng.standard_normal((n, 1)) * norms)).astype(np.float32)


DATA = {"clustered": clustered, "isotropic": isotropic}


def seconds(f, clock):
    start = clock()
    f()
    return clock() - start


def interleaved(runs, rounds=ROUNDS, dropped=1, clock=time.perf_counter):
    """Seconds of each run in each round, after a round that is dropped."""
    times = {name: [] for name in runs}
    for r in range(rounds + dropped):
        for name, run in runs.items():
            took = seconds(run, clock)
            if r >= dropped:
                times[name].append(took)
    return {name: np.array(t) for name, t in times.items()}


def row(what, times, unit):
    """Print minima and medians in units of `unit` seconds; return faiss's minimum over ours."""
    ours, theirs = (min(t.min() for name, t in times.items() if name[0] == who) for who in ("ours", "faiss"))
    for name, t in times.items():
        print(f"    {' '.join(map(str, name))}: min {t.min() / unit:.1f}, median {np.median(t) / unit:.1f}")
    print(f"  {what}: ours {ours / unit:.1f}, faiss {theirs / unit:.1f}, ratio {theirs / ours:.2f}")
    return theirs / ours


def build_ours(W, n_clusters):
    return SphericalClusterIndex(n_clusters, n_probe=1, recluster="never", n_jobs=THREADS, random_state=0).fit(W)


def build_faiss(W, n_clusters):
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(D), D, n_clusters, faiss.METRIC_INNER_PRODUCT)
    index.train(W)
    index.add(W)
    return index


def search_faiss(index, n_probe, Q, mode=0):
    index.nprobe, index.parallel_mode = n_probe, mode
    return index.search(Q, TOP)[1]


def threads(built, n):
    faiss.omp_set_num_threads(n)
    for (who, _), index in built.items():
        if who == "ours":
            index.set_params(n_jobs=n)


def recall(found, true):
    return np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)]) / TOP


def fewest_probes(find, Q, n_clusters, true, target):
    """Bisection: recall grows with the probes."""
    low, high = 1, n_clusters
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if recall(find(middle, Q), true) >= target else (middle + 1, high)
    return low


@pytest.mark.parametrize("name", DATA)
def test_index_against_faiss(name):
    faiss.omp_set_num_threads(THREADS)
    rng = np.random.default_rng(0)
    W, Q = DATA[name](rng, K, 1), DATA[name](rng, N_BATCH, 0)
    true = exact_search(W, Q, TOP)[1]
    print(f"\n{name}, {machine()}")

    built = {}
    builders = {"ours": build_ours, "faiss": build_faiss}
    for c in CLUSTERS:
        runs = {(who, c): (lambda who=who, c=c: built.update({(who, c): builders[who](W, c)})) for who in builders}
        row(f"build with {c} clusters, s", interleaved(runs, rounds=1, dropped=0), 1)
    finders = {
        (who, c): (lambda n, Q=Q, i=index: i.query(Q, TOP, n_probe=n)[1])
        if who == "ours"
        else (lambda n, Q=Q, i=index: search_faiss(i, n, Q))
        for (who, c), index in built.items()
    }
    assert recall(finders["ours", CLUSTERS[0]](CLUSTERS[0]), true) > 0.9999  # rounding may swap equals

    for target in RECALLS:
        probes = {key: fewest_probes(find, Q[:N_TUNE], key[1], true[:N_TUNE], target) for key, find in finders.items()}
        reached = {key: round(float(recall(finders[key](n), true)), 3) for key, n in probes.items()}
        print(f"  recall {target}: probes {probes}, reached {reached}")
        row(
            f"batch at recall {target}, us per query",
            interleaved({key: (lambda key=key, n=n: finders[key](n)) for key, n in probes.items()}),
            N_BATCH * 1e-6,
        )
        threads(built, 1)
        alone = {key: (lambda find=finders[key], n=n: find(n, Q[:N_TUNE])) for key, n in probes.items()}
        alone = interleaved(alone, clock=time.process_time)
        row(f"batch at recall {target}, one thread, us of processor time per query", alone, N_TUNE * 1e-6)
        threads(built, THREADS)
        singles = {}
        for (who, c), n in probes.items():
            index = built[who, c]
            for mode in (0,) if who == "ours" else (0, 1):  # faiss: a thread a query, or threads share the clusters
                ask = (lambda q, n=n, i=index: i.query(q[0], TOP, n_probe=n)) if who == "ours" else None
                ask = ask or (lambda q, n=n, i=index, mode=mode: search_faiss(i, n, q, mode))
                singles[who, c, mode] = lambda ask=ask: [ask(Q[i : i + 1]) for i in range(N_SINGLE)]
        row(f"single at recall {target}, us per query", interleaved(singles), N_SINGLE * 1e-6)

    ids = np.sort(rng.choice(K, K // 100, replace=False))
    new = DATA[name](rng, len(ids), 1)
    c = CLUSTERS[-1]
    theirs = built["faiss", c]
    theirs.make_direct_map()
    sets = [new, np.ascontiguousarray(W[ids])]
    turns = {"ours": 0, "faiss": 0}

    def move(who):
        rows = sets[turns[who] % 2]  # old and new rows in turn: each round moves them
        turns[who] += 1
        if who == "ours":
            built["ours", c].update(ids, rows)
        else:
            theirs.update_vectors(ids, rows)

    moves = interleaved({("ours", c): lambda: move("ours"), ("faiss", c): lambda: move("faiss")})
    row("replace 1 % by others, ms", moves, 1e-3)
    print(f"  {machine()}")


def test_one_cluster_against_blas():
    """Up to which K is one cluster, scanned whole, the right choice? Microseconds per query of a batch, two threads."""
    rng = np.random.default_rng(0)
    for n in (1_000, 4_096, 16_384):
        W, Q = clustered(rng, n, 1), clustered(rng, N_BATCH, 0)
        one = SphericalClusterIndex(1, n_jobs=THREADS).fit(W)
        many = SphericalClusterIndex(round(2 * n**0.5), n_jobs=THREADS, random_state=0).fit(W)
        runs = {
            "one cluster": lambda one=one, Q=Q: one.query(Q, TOP),
            f"{many.n_clusters_} clusters, {many.n_probe_} probed": lambda many=many, Q=Q: many.query(Q, TOP),
            "BLAS": lambda W=W, Q=Q: exact_search(W, Q, TOP),
            "BLAS, scores only": lambda W=W, Q=Q: Q @ W.T,
        }
        print(f"\n{n} rows, {machine()}")
        for what, t in interleaved(runs, rounds=5).items():
            print(f"  {what}: min {t.min() / N_BATCH * 1e6:.2f} us per query")


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_instruction_sets(isa):
    """Microseconds per query of a batch that scans all of 50,000 rows, one thread: what the intrinsics gain."""
    if ("baseline", "avx2", "avx512").index(isa) > ("baseline", "avx2", "avx512").index(_core.best_isa()):
        pytest.skip("this processor lacks it")
    rng = np.random.default_rng(0)
    W, Q = clustered(rng, 50_000, 1), clustered(rng, 400, 0)
    index = SphericalClusterIndex(1).fit(W)._index
    nobody = {"excluded_indptr": np.zeros(0, dtype=np.int64), "excluded_ids": np.zeros(0, dtype=np.int32)}
    run = {isa: lambda: index.query(Q, k=TOP, n_probe=1, n_threads=1, isa=isa, **nobody)}
    print(f"\n{isa}: min {interleaved(run, rounds=5)[isa].min() / len(Q) * 1e6:.1f} us per query, {machine()}")
