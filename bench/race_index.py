"""Which index answers the most queries a second at a recall, in how many bytes? Ours by bits, and those of five others.

One process and one thread; processor seconds, the indexes in turns in each round, so that ratios hold on a busy
machine, whose load is printed. k = 10, inner products, float32. Rows: "planted", 2,000 directions with spread and
log-normal norms, or the class vectors and intercepts of embeddings of a data set, asked by its test rows. For each
recall every index has the least effort (probes, efSearch, window) that reaches it on other queries than those that are
timed. Beside that the bytes, the seconds of a build, and milliseconds to move 1 % of the rows, to take as many out and
to put them in again as new ones. An index whose package is not installed is left out. A table for figures/index.md
comes out:

    python bench/race_index.py --rows 200000 --columns 128
    python bench/race_index.py --set yso-en
    python bench/race_index.py --set gloss-word --columns 256
    python bench/race_index.py --rows 1000000 --only ours
    python bench/race_index.py --rounds 1000   (recall and time of ours while 1 % of the rows move in each round, and
                                                some go and others come)
"""

import argparse
import importlib
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from manyclass import SphericalClusterIndex

TOP = 10
RECALLS = (0.8, 0.9, 0.95, 0.96, 0.975, 0.985, 0.992, 0.999)
N_TUNE, TURNS = 500, 5
LINKS, WIDTH = 32, 100  # of graphs


def planted(rng, n, d, norms):
    centers = np.random.default_rng(1).standard_normal((2_000, d)) / np.sqrt(d)
    X = centers[rng.integers(0, len(centers), n)] + rng.standard_normal((n, d)) / np.sqrt(d)
    return (X * np.exp(0.3 * rng.standard_normal((n, 1)) * norms)).astype(np.float32)


def trained(name, dim, n):
    """Centred class vectors with the intercept as last column, and embedded test rows with a one there."""
    from manyclass import SoftmaxClassifier
    from manyclass.datasets import load_multiclass
    from manyclass.search.clustered import class_rows

    data = load_multiclass(name)
    model = SoftmaxClassifier(model="embedding", dim=dim, max_iter=1, random_state=0).fit(data.X_train, data.y_train)
    rows = np.random.default_rng(0).choice(data.X_test.shape[0], min(n, data.X_test.shape[0]), replace=False)
    Q = model.embed(data.X_test[rows])
    return class_rows(model.coef_, model.intercept_), np.column_stack([Q, np.ones(len(Q))]).astype(np.float32)


def file_bytes(save):
    with tempfile.TemporaryDirectory() as folder:
        save(str(Path(folder) / "index"))
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


class Ours:
    """This package's, of some bits."""

    def __init__(self, W, n_clusters, code_bits, row_bits):
        bits = {"code_bits": code_bits, "row_bits": row_bits}
        self.index = SphericalClusterIndex(n_clusters, n_probe=1, recluster="never", random_state=0, n_jobs=1, **bits)
        self.index.fit(W)
        self.settings = range(1, n_clusters + 1)
        self.bytes = self.index.n_bytes_

    def find(self, Q, n):
        return self.index.query(Q, TOP, n_probe=n)[1]

    def move(self, ids, rows):
        self.index.update(ids, rows)

    def remove(self, ids):
        self.index.remove(ids)

    def add(self, rows):
        self.index.add(rows)


class Faiss:
    """One of faiss's, by its words; lists of clusters, codes with re-ranking, or a graph."""

    def __init__(self, W, n_clusters, words):
        faiss = importlib.import_module("faiss")
        faiss.omp_set_num_threads(1)
        self.index = faiss.index_factory(W.shape[1], words.format(n_clusters), faiss.METRIC_INNER_PRODUCT)
        self.parameters, self.is_graph = faiss.ParameterSpace(), words.startswith("HNSW")
        if self.is_graph:
            self.index.hnsw.efConstruction = WIDTH
        if words.endswith("RFlat"):
            self.index.k_factor = 10  # rows to re-rank for each that is wanted
        self.index.train(W)
        self.index.add(W)
        self.settings = range(TOP, 4_097) if self.is_graph else range(1, n_clusters + 1)
        self.bytes = len(faiss.serialize_index(self.index))

    def remove(self, ids):
        self.index.remove_ids(ids)

    def add(self, rows):
        self.index.add(rows)

    def find(self, Q, n):
        self.parameters.set_index_parameter(self.index, "efSearch" if self.is_graph else "nprobe", n)
        return self.index.search(Q, TOP)[1]


class Rabitq:
    """rabitqlib's lists of codes; 32 bits are rows beside codes. Its clusters are ours, which it does not make."""

    def __init__(self, W, n_clusters, bits):
        rabitqlib = importlib.import_module("rabitqlib")
        ours = SphericalClusterIndex(n_clusters, n_probe=1, random_state=0, n_jobs=1, row_bits=0).fit(W)
        labels = ours.labels_
        sums = np.zeros((n_clusters, W.shape[1]))
        np.add.at(sums, labels, W)
        means = (sums / np.maximum(np.bincount(labels, minlength=n_clusters), 1)[:, None]).astype(np.float32)
        self.index = rabitqlib.IvfIndex(W.shape[1], len(W), n_clusters, bits, metric="ip")
        self.index.build(W, means, labels.astype(np.uint32))
        self.settings = range(1, n_clusters + 1)
        self.bytes = file_bytes(self.index.save)

    def find(self, Q, n):
        return self.index.search(Q, TOP, n)[0].astype(np.int64)


class Hnswlib:
    """A graph."""

    def __init__(self, W, _):
        self.index = importlib.import_module("hnswlib").Index("ip", W.shape[1])
        self.index.init_index(len(W), ef_construction=WIDTH, M=LINKS, random_seed=0)
        self.index.set_num_threads(1)
        self.index.add_items(W)
        self.settings = range(TOP, 4_097)
        self.bytes = file_bytes(self.index.save_index)

    def find(self, Q, n):
        self.index.set_ef(n)
        return self.index.knn_query(Q, TOP)[0].astype(np.int64)

    def move(self, ids, rows):
        self.index.add_items(rows, ids)


class Svs:
    """A graph of Intel's."""

    def __init__(self, W, _):
        svs = importlib.import_module("svs")
        how = svs.VamanaBuildParameters(alpha=0.95, graph_max_degree=2 * LINKS, window_size=WIDTH)
        self.index = svs.Vamana.build(how, W, svs.DistanceType.MIP, num_threads=1)
        self.settings = range(TOP, 4_097)
        self.bytes = W.nbytes + len(W) * 4 * (2 * LINKS + 1)

    def find(self, Q, n):
        self.index.search_window_size = n
        return self.index.search(Q, TOP)[0].astype(np.int64)


class Scann:
    """Google's: lists, anisotropic codes of 4 bits for two columns, and rows to re-rank by."""

    def __init__(self, W, n_clusters):
        scann = importlib.import_module("scann")
        builder = scann.scann_ops_pybind.builder(W, TOP, "dot_product").set_n_training_threads(1)
        builder = builder.tree(n_clusters, n_clusters // 10, training_sample_size=min(len(W), 256 * n_clusters))
        self.index = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build()
        self.settings = range(1, n_clusters + 1)
        self.bytes = W.nbytes + len(W) * W.shape[1] // 4

    def find(self, Q, n):
        return self.index.search_batched(Q, leaves_to_search=n)[0].astype(np.int64)


KINDS = {
    "ours, 8 bits and rows": (Ours, 8, 32),
    "ours, 8 bits and halves": (Ours, 8, 16),
    "ours, 8 bits": (Ours, 8, 0),
    "ours, 4 bits": (Ours, 4, 0),
    "rabitqlib, rows": (Rabitq, 32),
    "rabitqlib, 8 bits": (Rabitq, 8),
    "rabitqlib, 5 bits": (Rabitq, 5),
    "rabitqlib, 4 bits": (Rabitq, 4),
    "faiss IVF flat": (Faiss, "IVF{},Flat"),
    "faiss IVF SQ8": (Faiss, "IVF{},SQ8"),
    "faiss IVF RaBitQfs5": (Faiss, "IVF{},RaBitQfs5"),
    "faiss IVF PQfs, re-ranked": (Faiss, "IVF{},PQ64x4fs,RFlat"),
    "faiss HNSW32": (Faiss, "HNSW32"),
    "hnswlib": (Hnswlib,),
    "scalable-vs": (Svs,),
    "scann": (Scann,),
}


def recall(found, true):
    return np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)]) / true.shape[1]


def best_rows(W, Q):
    blocks = [np.argpartition(-(Q[i : i + 100] @ W.T), TOP, axis=1)[:, :TOP] for i in range(0, len(Q), 100)]
    return np.concatenate(blocks)


def seconds(f, *given):
    begin = time.process_time()
    f(*given)
    return time.process_time() - begin


def least(one, Q, true, target):
    """The smallest setting that reaches the recall, or None: by bisection, as recall grows with the setting."""
    low, high = one.settings[0], one.settings[-1]
    if recall(one.find(Q, high), true) < target:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if recall(one.find(Q, middle), true) >= target else (middle + 1, high)
    return low


def built(W, n_clusters, names):
    """The indexes that can be built, by name, and the seconds that each took."""
    indexes, spent = {}, {}
    for name in names:
        kind, *how = KINDS[name]
        begin = time.process_time()
        try:
            indexes[name] = kind(W, n_clusters, *how)
        except Exception as error:  # not installed, or not of such rows
            print(f"<!-- {name}: {type(error).__name__}: {error} -->", flush=True)
            continue
        spent[name] = time.process_time() - begin
        print(f"<!-- {name} built, load {os.getloadavg()[0]:.1f} -->", flush=True)
    return indexes, spent


def speeds(indexes, some, many, target):
    """Queries a second at a recall, with the recall that is reached, as a cell for each index."""
    efforts = {name: least(one, *some, target) for name, one in indexes.items()}
    able = {name: (indexes[name], effort) for name, effort in efforts.items() if effort is not None}
    times = {name: [] for name in able}
    Q, true = many
    for _ in range(TURNS):
        for name, (one, effort) in able.items():
            times[name].append(seconds(one.find, Q, effort))
    cells = dict.fromkeys(indexes, "-")
    for name, (one, effort) in able.items():
        cells[name] = f"{len(Q) / np.median(times[name]):,.0f} ({recall(one.find(Q, effort), true):.3f})"
    print(f"<!-- recall {target}, load {os.getloadavg()[0]:.1f} -->", flush=True)
    return cells


def race(W, Q, n_clusters, names, draw):
    indexes, spent = built(W, n_clusters, names)
    some, many = ((q, best_rows(W, q)) for q in (Q[:N_TUNE], Q[N_TUNE:]))
    columns = [speeds(indexes, some, many, target) for target in RECALLS]
    ids = np.sort(np.random.default_rng(2).choice(len(W), len(W) // 100, replace=False))
    print("| index | MB | build, s | 1 % moved, ms | out, ms | in, ms |", " | ".join(map(str, RECALLS)), "|")
    print("|---" * (6 + len(RECALLS)) + "|")
    for name, one in indexes.items():
        changes = [cost_of(one, "move", ids, draw(len(ids))), cost_of(one, "remove", ids), cost_of(one, "add", W[ids])]
        cells = " | ".join(changes + [column[name] for column in columns])
        print(f"| {name} | {one.bytes / 1e6:.1f} | {spent[name]:.1f} | {cells} |", flush=True)


def cost_of(one, change, *given):
    """Milliseconds of a change of the rows of an index, as a cell."""
    try:
        return f"{1e3 * seconds(getattr(one, change), *given):.3g}"
    except Exception:  # it has none, or none of this kind
        return "-"


def rounds(W, Q, n_clusters, n_rounds, draw):
    """Recall, the seconds of a move and bytes of codes of 8 bits while 1 % of the rows move in each round.

    Before they move, a tenth of these rows is taken out, and comes back by it; each tenth round brings five new ones.
    """
    one, rng = Ours(W, n_clusters, 8, 0), np.random.default_rng(3)
    effort = least(one, Q, best_rows(W, Q), 0.95)
    print(f"| rounds | recall by {effort} probes | of all codes | ms a move | MB | clusters made anew |")
    print("|---" * 6 + "|")
    spent, shown = 0.0, {0, 1, 10, 30, 100, 200, 300, 500, 700, n_rounds}
    one.index.set_params(recluster="auto")
    for round_ in range(n_rounds + 1):
        if round_ % 10 == 5:
            new = draw(5)
            spent += seconds(one.add, new)
            W = np.concatenate([W, new])
        if round_ in shown:
            true, mb = best_rows(W, Q), one.index.n_bytes_ / 1e6
            reached = [recall(one.find(Q, n), true) for n in (effort, n_clusters)]
            cells = f"{reached[0]:.3f} | {reached[1]:.3f} | {1e3 * spent / max(round_, 1):.3g} | {mb:.1f}"
            print(f"| {round_} | {cells} | {one.index.n_reclusterings_} |", flush=True)
        ids = np.sort(rng.choice(len(W), len(W) // 100, replace=False))
        W[ids] = draw(len(ids))
        spent += seconds(one.remove, ids[::10]) + seconds(one.move, ids, W[ids])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="planted", help="planted, or a data set of one label")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--clusters", type=int, help="as many as 2.3 sqrt(K) without it")
    parser.add_argument("--only", default="", help="indexes whose names have one of these words, by commas")
    parser.add_argument("--rounds", type=int, help="rounds that move 1 %% of the rows each, in place of a race")
    given = parser.parse_args()
    rng, n_queries = np.random.default_rng(0), N_TUNE + given.queries
    if given.set == "planted":
        W, Q = (planted(rng, n, given.columns, norms) for n, norms in ((given.rows, 1), (n_queries, 0)))
        draw = lambda n: planted(rng, n, given.columns, 1)  # noqa: E731
    else:
        W, Q = trained(given.set, given.columns, n_queries)
        draw = lambda n: W[rng.integers(0, len(W), n)]  # noqa: E731
    n_clusters = given.clusters or 1 << round(np.log2(2.3 * len(W) ** 0.5))
    names = [name for name in KINDS if any(word in name for word in given.only.split(","))]
    print(f"{given.set}, {W.shape[0]:,} x {W.shape[1]}, {n_clusters} clusters, load {os.getloadavg()[0]:.1f}\n")
    if given.rounds:
        rounds(W, Q[:N_TUNE], n_clusters, given.rounds, draw)
    else:
        race(W, Q, n_clusters, names, draw)


if __name__ == "__main__":
    main()
