"""How fast does `manyclass serve` answer, and does its memory stay flat? Milliseconds a request, requests and MB.

Two generated models of 30,000 classes: a linear one of 20,000 sparse features, 6 to a row, and one of dense rows of 64
numbers, such as embeddings, whose classes lie in 300 clusters, so that an index has something to find. The server and
its clients are processes of their own; each client keeps one connection and sends the next request when the last one is
answered. Beside them is the time of `predict_top_k` called in Python, and of the JSON of the same request.

    python bench/bench_serving.py [--seconds 10] [--soak 100000] [--only dense]

Answers of the server are asserted to be those of `predict_top_k`. Every line has the load average when it was measured.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import manyclass
from manyclass import SoftmaxClassifier
from manyclass.datasets import save_csr
from manyclass.serving.limits import Limits
from manyclass.serving.predictor import Predictor
from manyclass.serving.requests import read_query

N_CLASSES, N_FEATURES, PER_ROW, DIM, K = 30_000, 20_000, 6, 64, 5
N_CLUSTERS = 300
N_QUERIES = 4096
WARM_UP = 200  # requests that are not counted
RECALL = 0.95
LONGEST = 1200  # seconds that the requests of a client may take: one that fails is not waited for


def sparse_rows(rng, n):
    """Rows of 6 features that are drawn by frequency, as words are."""
    p = 1 / np.arange(10, N_FEATURES + 10)
    columns = np.concatenate([rng.choice(N_FEATURES, PER_ROW, replace=False, p=p / p.sum()) for _ in range(n)])
    indptr = np.arange(n + 1) * PER_ROW
    return sp.csr_array((rng.random(len(columns), dtype=np.float32), columns, indptr), shape=(n, N_FEATURES))


def sparse_model(rng):
    """A linear model after one pass, and rows to ask for."""
    X = sparse_rows(rng, N_CLASSES)
    model = SoftmaxClassifier(model="linear", solver="implicit", learning_rate=1.0, max_iter=1, random_state=0)
    return model.fit(X, np.arange(N_CLASSES)), sparse_rows(rng, N_QUERIES)


def dense_model(rng):
    """A model whose weights are planted: clusters of classes, and rows near classes."""
    centres = rng.standard_normal((N_CLUSTERS, DIM))
    W = centres[rng.integers(N_CLUSTERS, size=N_CLASSES)] + 0.5 * rng.standard_normal((N_CLASSES, DIM))
    W = (W / np.linalg.norm(W, axis=1, keepdims=True)).astype(np.float32)
    X = W + (0.3 / np.sqrt(DIM)) * rng.standard_normal(W.shape).astype(np.float32)
    y = np.arange(N_CLASSES)
    given = {"model": "linear", "solver": "implicit", "learning_rate": 1e-6, "max_iter": 1, "random_state": 0}
    model = SoftmaxClassifier(**given).fit(X, y, coef_init=20 * W, intercept_init=np.zeros(N_CLASSES, np.float32))
    return model, X[rng.integers(N_CLASSES, size=N_QUERIES)]


def as_json(X, rows):
    """Rows in the form of requests."""
    if isinstance(X, np.ndarray):
        return X[rows].round(6).tolist()
    parts = [slice(X.indptr[row], X.indptr[row + 1]) for row in rows]
    return [{"indices": X.indices[p].tolist(), "values": X.data[p].astype(float).round(6).tolist()} for p in parts]


def bodies(X, n, batch, approximate):
    """Requests of so many rows each."""
    how = {"approximate": True} if approximate else {}
    asked = [{"rows": as_json(X, (np.arange(batch) + at * batch) % N_QUERIES), "k": K, **how} for at in range(n)]
    return [json.dumps(one).encode() for one in asked]


class Client:
    """A connection that is kept."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address, timeout=60)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content


def client(address, asked, seconds, most, start, times):
    """A process: requests until the time is over or there were so many; how long each took, and all together."""
    start.wait()  # all clients have been started, which takes longer than the server waits for a request
    one, found = Client(address), []
    for at in range(WARM_UP if len(asked[0]) < 5000 else 3):
        one.ask("POST", "/predict", asked[at % len(asked)])
    first = time.perf_counter()
    while len(found) < most and (begin := time.perf_counter()) < first + seconds:
        one.ask("POST", "/predict", asked[len(found) % len(asked)])
        found.append(time.perf_counter() - begin)
    times.put((found, time.perf_counter() - first))


def load(address, asked, n_clients, seconds, most=sys.maxsize):
    """Milliseconds of all requests of some clients, and how many a second they have made together."""
    context = multiprocessing.get_context("spawn")  # nothing of this process's threads
    start, times = context.Barrier(n_clients), context.Queue()
    given = (address, asked, seconds, most, start, times)
    clients = [context.Process(target=client, args=given) for _ in range(n_clients)]
    for one in clients:
        one.start()
    found = [times.get(timeout=LONGEST) for _ in clients]
    for one in clients:
        one.join()
    rate = sum(len(some) / took for some, took in found)
    return 1000 * np.concatenate([some for some, _ in found]), rate


def told(name, milliseconds, rate, n_rows=1):
    """A line of a table."""
    p50, p99 = np.percentile(milliseconds, [50, 99])
    load_ = os.getloadavg()[0]
    print(f"| {name} | {p50:.2f} | {p99:.2f} | {rate:.0f} | {rate * n_rows:.0f} | {load_:.1f} |", flush=True)


HEAD = "| {} | p50 ms | p99 ms | requests/s | rows/s | load |\n|---|---|---|---|---|---|"


def direct(model, X, seconds, n_threads, how):
    """Milliseconds of `predict_top_k` of one row, in threads of this process, and calls a second of all."""
    found = []

    def calls(first):
        end, at = time.perf_counter() + seconds, first
        while (begin := time.perf_counter()) < end:
            model.predict_top_k(X[at % N_QUERIES : at % N_QUERIES + 1], K, **how)
            found.append(time.perf_counter() - begin)
            at += 1

    threads = [threading.Thread(target=calls, args=(1000 * n,)) for n in range(n_threads)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1000 * np.array(found), len(found) / (time.perf_counter() - begin)


def resident(address):
    one = Client(address)  # one of before was closed, having been idle
    return int(re.search(rb"\nprocess_resident_memory_bytes (\d+)", one.ask("GET", "/metrics"))[1]) / 1e6


def measure_python(name, model, X, seconds, index):
    """What a call costs without HTTP."""
    print(HEAD.format(f"{name}: in Python"))
    ways = [("exact", {})] + [("approximate", {"approximate": True, "recall": RECALL})] * index
    for way, how in ways:
        if how:
            begin = time.perf_counter()
            model.predict_top_k(X[:512], K, **how)
            built = time.perf_counter() - begin
        for n_threads in (1, 4):
            told(f"predict_top_k, {way}, {n_threads} threads", *direct(model, X, seconds, n_threads, how))
    predictor = Predictor(model, Limits(), K)
    for batch in (1, 100):
        asked = bodies(X, 20, batch, False)
        times = []
        for _ in range(10 if batch > 1 else 100):
            for body in asked:
                begin = time.perf_counter()
                read_query(body, predictor.asked)
                times.append(1000 * (time.perf_counter() - begin))
        told(f"reading the JSON of {batch} rows", np.array(times), 1000 / np.mean(times), batch)
    if index:
        print(f"\nThe index is built and tuned in {built:.1f} s.")
    print()


def measure_server(name, model, X, args, index):
    """What clients see."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "m"))
        argv = [sys.executable, "-m", "manyclass", "serve", str(Path(folder, "m")), "--port", "0"]
        if index:
            rows = Path(folder, "rows")
            save_csr(rows, sp.csr_array(X), sp.csr_array((N_QUERIES, 2), dtype=np.float32))
            argv += ["--approximate", str(rows), "--recall", str(RECALL)]
        os.sync()  # what is written to the disk while requests are measured slows them
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            try:
                host, port = re.fullmatch(r"http://(.*):(\d+)\n", server.stdout.readline()).groups()
                ask_for_all(name, model, X, (host, int(port)), args, index)
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


def ask_for_all(name, model, X, address, args, index):
    check(Client(address), model, X)
    print(HEAD.format(f"{name}: served"))
    for way in ["exact", "approximate"][: 1 + index]:
        for batch in (1, 100):
            asked = bodies(X, 200 if batch == 1 else 20, batch, way != "exact")
            for n in (1, 4):
                told(f"{way}, {batch} rows, {n} clients", *load(address, asked, n, args.seconds), batch)
    if args.soak:
        soak(address, X, args.soak, index)


def soak(address, X, n, index):
    """Memory before, halfway and after very many requests."""
    sizes = [resident(address)]
    for _ in range(2):
        load(address, bodies(X, 200, 1, index), 4, 1e9, n // 8)
        sizes.append(resident(address))
    shown = " → ".join(f"{size:.1f}" for size in sizes)
    print(f"\nMB resident before, halfway and after {n} more requests of one row by 4 clients: {shown}\n", flush=True)


def check(one, model, X):
    asked = json.loads(bodies(X, 1, 50, False)[0])
    rows = asked["rows"]
    if isinstance(X, np.ndarray):
        x = np.array(rows, dtype=np.float32)
    else:
        flat = [(at, j, v) for at, row in enumerate(rows) for j, v in zip(row["indices"], row["values"], strict=True)]
        at, j, v = zip(*flat, strict=True)
        x = sp.csr_array((np.array(v, np.float32), (at, j)), shape=(50, X.shape[1]))
    labels = model.predict_top_k(x, K)[0]
    found = json.loads(one.ask("POST", "/predict", json.dumps(asked)))["predictions"]
    assert [row["labels"] for row in found] == labels.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--soak", type=int, default=100_000)
    parser.add_argument("--only", choices=("sparse", "dense"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # one pass does not converge
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()},")
    print(f"manyclass {manyclass.__version__}, load {os.getloadavg()}\n")
    for name, make, index in (("sparse", sparse_model, False), ("dense", dense_model, True)):
        if args.only in (None, name):
            begin = time.perf_counter()
            model, X = make(np.random.default_rng(0))
            model.n_jobs = 1
            print(f"{name}: made in {time.perf_counter() - begin:.1f} s, {model.storage()}\n", flush=True)
            measure_python(name, model, X, args.seconds / 2, index)
            measure_server(name, model, X, args, index)


if __name__ == "__main__":
    main()
