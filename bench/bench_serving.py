"""How fast does `manyclass serve` answer, and does its memory stay flat? Milliseconds a request, requests and MB.

Two generated models of 30,000 classes: a linear one of 20,000 sparse features, 6 to a row, and one of dense rows of 64
numbers, such as embeddings, whose classes lie in 300 clusters, so that an index has something to find. The server and
its clients are processes of their own; each client keeps one connection and sends the next request when the last one is
answered. Beside them is the time of `predict_top_k` called in Python, and of the JSON of the same request. Each request
is a round. Answers of the server are asserted to be those of `predict_top_k`. Models of 1,000 classes, and a second of
requests, where data are generated small.

    python -m pytest bench/bench_serving.py [--soak 100000]
"""

import http.client
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.datasets import save_csr
from manyclass.serving.predictor import Limits, Predictor

N_CLASSES, N_FEW_CLASSES, N_FEATURES, PER_ROW, DIM, K = 30_000, 1_000, 20_000, 6, 64, 5
N_CLUSTERS = 300
N_QUERIES = 4096
SECONDS, FEW_SECONDS = 10, 0.5  # of requests, in each way
WARM_UP = 200  # requests that are not counted
RECALL = 0.95
LONGEST = 1200  # seconds that the requests of a client may take: one that fails is not waited for


def sparse_rows(rng, n):
    """Rows of 6 features that are drawn by frequency, as words are."""
    p = 1 / np.arange(10, N_FEATURES + 10)
    columns = np.concatenate([rng.choice(N_FEATURES, PER_ROW, replace=False, p=p / p.sum()) for _ in range(n)])
    indptr = np.arange(n + 1) * PER_ROW
    return sp.csr_array((rng.random(len(columns), dtype=np.float32), columns, indptr), shape=(n, N_FEATURES))


def sparse_model(rng, n_classes):
    """A linear model after one pass, and rows to ask for."""
    X = sparse_rows(rng, n_classes)
    model = SoftmaxClassifier(model="linear", solver="implicit", learning_rate=1.0, max_iter=1, random_state=0)
    return model.fit(X, np.arange(n_classes)), sparse_rows(rng, N_QUERIES)


def dense_model(rng, n_classes):
    """A model whose weights are planted: clusters of classes, and rows near classes."""
    centres = rng.standard_normal((N_CLUSTERS, DIM))
    W = centres[rng.integers(N_CLUSTERS, size=n_classes)] + 0.5 * rng.standard_normal((n_classes, DIM))
    W = (W / np.linalg.norm(W, axis=1, keepdims=True)).astype(np.float32)
    X = W + (0.3 / np.sqrt(DIM)) * rng.standard_normal(W.shape).astype(np.float32)
    y = np.arange(n_classes)
    given = {"model": "linear", "solver": "implicit", "learning_rate": 1e-6, "max_iter": 1, "random_state": 0}
    model = SoftmaxClassifier(**given).fit(X, y, coef_init=20 * W, intercept_init=np.zeros(n_classes, np.float32))
    return model, X[rng.integers(n_classes, size=N_QUERIES)]


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


KINDS = {"sparse": (sparse_model, False), "dense": (dense_model, True)}


@pytest.fixture(scope="module", params=KINDS)
def served(request, small, tmp_path_factory):
    """A model, rows to ask for, the address of a server of it, and whether it has an index."""
    make, index = KINDS[request.param]
    index = index and not small  # few classes are all scored
    model, X = make(np.random.default_rng(0), N_FEW_CLASSES if small else N_CLASSES)
    model.n_jobs = 1
    folder = tmp_path_factory.mktemp(request.param)
    model.save(folder / "m")
    argv = [sys.executable, "-m", "manyclass", "serve", str(folder / "m"), "--port", "0"]
    if index:
        save_csr(folder / "rows", sp.csr_array(X), sp.csr_array((N_QUERIES, 2), dtype=np.float32))
        argv += ["--approximate", str(folder / "rows"), "--recall", str(RECALL)]
    os.sync()  # what is written to the disk while requests are measured slows them
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        try:
            host, port = re.fullmatch(r"http://(.*):(\d+)\n", server.stdout.readline()).groups()
            check(Client((host, int(port))), model, X)
            yield model, X, (host, int(port)), index
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def needs(way, index):
    """Skip what asks for an index that is not there."""
    if way != "exact" and not index:
        pytest.skip("the model has no index")


def tell(timed, milliseconds, rate, n_rows=1):
    """Give all times of requests to the benchmark, and tell what servers are judged by."""
    timed.taken(milliseconds / 1000)
    p50, p99 = np.percentile(milliseconds, [50, 99])
    timed.tell(p50_ms=p50, p99_ms=p99, requests_a_second=rate, rows_a_second=rate * n_rows)


CALLS = {f"{way}, {n} threads": (way, n) for way in ("exact", "approximate") for n in (1, 4)}
REQUESTS = {
    f"{way}, {batch} rows, {n} clients": (way, batch, n)
    for way in ("exact", "approximate")
    for batch in (1, 100)
    for n in (1, 4)
}


@pytest.mark.parametrize("what", CALLS)
def test_calls_in_python(timed, served, small, what):
    """What a call costs without HTTP."""
    (model, X, _, index), (way, n_threads) = served, CALLS[what]
    needs(way, index)
    how = {"approximate": True, "recall": RECALL} if way != "exact" else {}
    model.predict_top_k(X[:512], K, **how)  # which makes and tunes an index
    tell(timed, *direct(model, X, FEW_SECONDS if small else SECONDS / 2, n_threads, how))
    timed.tell(threads=n_threads)


@pytest.mark.parametrize("what", [1, 100], ids=lambda n: f"{n} rows")
def test_reading_json(timed, served, what):
    model, X, _, _ = served
    limits = Limits()
    predictor, asked = Predictor(model, limits, K), bodies(X, 20, what, False)
    timed(lambda: [predictor.read(body) for body in asked], rounds=10, warmup=1)
    timed.tell(ms_a_request=1000 * timed.seconds.min() / len(asked))


@pytest.mark.parametrize("what", REQUESTS)
def test_requests(timed, served, small, what):
    """What clients see."""
    (_, X, address, index), (way, batch, n_clients) = served, REQUESTS[what]
    needs(way, index)
    asked = bodies(X, 200 if batch == 1 else 20, batch, way != "exact")
    tell(timed, *load(address, asked, n_clients, FEW_SECONDS if small else SECONDS), batch)
    timed.tell(clients=n_clients)


def test_memory_stays(timed, served, request):
    """Before, halfway and after very many requests."""
    (_, X, address, index), n = served, request.config.getoption("--soak")
    if not n:
        pytest.skip("--soak asks for no requests")
    sizes, times = [resident(address)], []
    for _ in range(2):
        times.append(load(address, bodies(X, 200, 1, index), 4, 1e9, n // 8)[0])
        sizes.append(resident(address))
    timed.taken(np.concatenate(times) / 1000)
    timed.tell(megabytes=sizes, clients=4)


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
