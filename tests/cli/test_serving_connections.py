"""The server's connections: kept, slow, too many, many at once; its counters, and its end at a signal."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from prometheus_client import CONTENT_TYPE_LATEST
from test_serving import JSON, D, N, ask, connected, fitted, limited, pairs, post, raw, started
from test_serving import dense as dense  # fixtures
from test_serving import server as server

from manyclass import AugmentReduceClassifier, SoftmaxClassifier
from manyclass.classifiers.predictions import state_of, with_state
from manyclass.serving.predictor import Limits, Predictor, Query
from manyclass.serving.server import Server
from manyclass.weights.weights import Weights

# Connections


def test_a_connection_is_kept_for_further_requests(server):
    connection = connected(server)
    connection.connect()
    own = connection.sock.getsockname()
    for asked, code in (({"row": [0] * D}, 200), ({"row": []}, 400), ({"row": [1] * D}, 200)):
        connection.request("POST", "/predict", json.dumps(asked), JSON)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (code, None)
        assert answer.read()
        assert connection.sock.getsockname() == own  # not connected anew
    connection.request("GET", "/nothing")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"], answer.read() != b"") == (404, None, True)
    connection.request("HEAD", "/info")
    answer = connection.getresponse()
    assert (answer.status, answer.read(), int(answer.headers["Content-Length"]) > 0) == (200, b"", True)
    connection.request("GET", "/health", headers={"Connection": "close"})
    assert connection.getresponse().headers["Connection"].lower() == "close"
    connection.close()


def test_requests_sent_at_once_are_answered_in_turn(server):
    body = json.dumps({"row": [0] * D}).encode()
    one = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
        + body
    )
    found = raw(server, one * 3 + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200"] * 4


@pytest.mark.parametrize(
    "begun",
    [
        b"GE",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    ],
)
def test_a_client_that_stalls_or_trickles_is_sent_away(dense, begun):
    with started(dense[0], timeout=0.15) as server:
        if b"POST" in begun:
            begun += b"Content-Length: 100\r\n\r\n{"
        assert raw(server, begun).startswith(b"HTTP/1.1 408 ")
        assert raw(server) == b""  # one that asks for nothing
        with socket.create_connection(server.server_address[:2], timeout=30) as client:
            client.settimeout(0.05)
            found, at = b"", 0
            while not found:  # a byte now and then: the time is that of all of it
                client.sendall(begun[at : at + 1] or b"x")
                at += 1
                try:
                    found = client.recv(1 << 16)
                except TimeoutError:
                    continue
            assert found.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_takes_no_answers_is_sent_away(dense):
    body = json.dumps({"rows": [[0] * D] * 1000, "k": 9}).encode()
    one = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
        + body
    )
    with started(dense[0], timeout=0.3, max_connections=1) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            client.connect(server.server_address[:2])
            client.settimeout(30)
            # The server gives up: what it has not read resets the connection.
            with contextlib.suppress(ConnectionError):
                while True:
                    client.sendall(one)
        assert until_taken(server) == 200


def until_taken(server):
    """The code of the first answer other than that there are too many connections."""
    while (code := ask(server)[0]) == 503:
        pass
    return code


def test_more_connections_than_there_may_be_are_refused(dense):
    with started(dense[0], max_connections=2) as server:
        kept = [connected(server) for _ in range(2)]
        for connection in kept:
            connection.request("GET", "/health")
            assert connection.getresponse().read()
        for _ in range(3):
            code, headers, content = ask(server)
            assert (code, headers["Retry-After"], headers["Connection"]) == (503, "1", "close")
            assert "there are 2 connections" in json.loads(content)["error"]
        for connection in kept:
            connection.close()
        assert until_taken(server) == 200
        assert int(re.search(rb"connections_refused_total (\d+)\.0\n", ask(server, path="/metrics")[2])[1]) >= 3


def test_a_request_that_waits_in_vain_for_its_turn_is_refused(dense, monkeypatch):
    with started(dense[0], max_running=1, timeout=0.3) as server, ThreadPoolExecutor() as pool:
        begun, go_on, predict = threading.Event(), threading.Event(), server.application.predictor.predict

        def slow(*asked):
            begun.set()
            assert go_on.wait(30)
            return predict(*asked)

        monkeypatch.setattr(server.application.predictor, "predict", slow)
        first = pool.submit(post, server, {"row": [0] * D})
        assert begun.wait(30)
        code, told = post(server, {"row": [0] * D})
        assert (code, "1 requests are computed" in told["error"]) == (503, True)
        assert b"\nmanyclass_requests_in_flight 1.0\n" in ask(server, path="/metrics")[2]
        go_on.set()
        assert first.result()[0] == 200


@pytest.mark.parametrize("kind", ["dense", "sparse", "text", "several", "embedding"])
def test_a_request_that_is_computed_for_too_long_is_given_up_between_two_looks(kind, monkeypatch):
    model, X = fitted(kind)
    asked = {"rows": X[:20] if kind == "text" else X[:20].tolist()}
    with started(model) as server:
        expected = post(server, asked)
        monkeypatch.setattr("manyclass.serving.predictor.SCORES", 3 * len(model.classes_))
        assert post(server, asked) == expected  # some rows at a time
    with started(model, max_seconds=1e-9) as server:
        code, told = post(server, asked)
        assert (code, told) == (503, {"error": "the scores of 0 of 20 rows were found in time: send fewer at once"})
        assert ask(server)[0] == 200


@pytest.mark.parametrize("kind", ["dense", "sparse", "utilities"])
def test_a_request_is_given_up_within_the_scores_that_are_found_at_once(kind, seed, monkeypatch):
    """Scores that take seconds of a processor, as one block: the core looks at the clock itself."""
    rng, n, n_classes, n_features = np.random.default_rng(seed), 4000, 20_000, 500
    model = (
        AugmentReduceClassifier(max_iter=1) if kind == "utilities" else SoftmaxClassifier(solver="implicit", max_iter=1)
    )
    X = rng.random((n, n_features), dtype=np.float32)
    X = sp.csr_array(X) if kind == "sparse" else X
    model.fit(X[:9], np.arange(9) % 3)
    matrix = rng.normal(size=(n_features, n_classes) if kind == "sparse" else (n_classes, n_features))
    weights = Weights.linear(matrix.astype(np.float32), np.zeros(n_classes, np.float32), by_feature=kind == "sparse")
    state = replace(state_of(model), weights=weights, classes=np.arange(n_classes), counts=np.ones(n_classes))
    monkeypatch.setattr("manyclass.serving.predictor.SCORES", 1 << 40)
    predictor = Predictor(with_state(model, state), Limits(), 1)
    with pytest.raises(TimeoutError, match="the scores of 0 of 4000 rows were found in time: send fewer at once"):
        predictor.predict(Query(X, 1), time.monotonic() + 0.05)
    assert b"predictions" in predictor.predict(Query(X[:2], 1), np.inf)  # the thread's limit is gone


def test_requests_whose_clients_have_gone_count_as_connections(dense, monkeypatch):
    """Their bodies are in memory until they have been computed."""
    with started(dense[0], max_connections=2, max_running=1) as server:
        go_on = threading.Event()
        monkeypatch.setattr(server.application.predictor, "predict", lambda *asked: go_on.wait(30) and b"{}")
        for n in (1, 2):
            client, rest = half_a_request(server.server_address)
            client.sendall(rest)
            client.close()
            while server.server_state.connections or len(server.server_state.tasks) < n:
                pass
        assert ask(server)[0] == 503
        go_on.set()
        assert until_taken(server) == 200


def test_bodies_that_come_slowly_hold_no_others(dense):
    with started(dense[0], max_running=1, max_connections=20) as server, contextlib.ExitStack() as open_:
        slow = [half_a_request(server.server_address) for _ in range(19)]
        for client, _ in slow:
            open_.enter_context(client)
        for _ in range(3):
            assert post(server, {"row": [0] * D})[0] == 200
        for client, rest in slow:
            client.sendall(rest)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("kind", ["dense", "several", "text"])
def test_eight_clients_at_once_get_what_one_gets(kind):
    model, X = fitted(kind)
    rows = X if kind == "text" else pairs(X)
    asked = [{"rows": rows[at : at + 9], "k": 3} for at in range(0, N, 9)]
    with started(model, max_running=8) as server:
        expected = [post(server, one) for one in asked]
        assert {code for code, _ in expected} == {200}
        with ThreadPoolExecutor(8) as pool:
            rounds = list(pool.map(lambda _: [post(server, one) for one in asked], range(8)))
        assert all(found == expected for found in rounds)


# What is told of the server


def test_metrics_count(dense):
    with started(dense[0]) as server:
        for rows in (1, 3):
            assert post(server, {"rows": [[0] * D] * rows})[0] == 200
        post(server, {"rows": []})
        for path in ("/health", "/nothing", "/predict", "/metrics"):
            ask(server, path=path)
        code, headers, content = ask(server, path="/metrics")
        assert (code, headers["Content-Type"]) == (200, CONTENT_TYPE_LATEST)
        lines = dict(line.rsplit(" ", 1) for line in content.decode().splitlines() if not line.startswith("#"))
        named = {name.removeprefix("manyclass_"): float(value) for name, value in lines.items()}
        counted = {name: value for name, value in named.items() if name.startswith("requests_total")}
        assert counted == {
            'requests_total{code="200",path="/health"}': 1,
            'requests_total{code="200",path="/metrics"}': 1,  # the first; the second is counted once it is answered
            'requests_total{code="200",path="/predict"}': 2,
            'requests_total{code="400",path="/predict"}': 1,
            'requests_total{code="405",path="/predict"}': 1,
            'requests_total{code="404",path="other"}': 1,
        }
        assert (named["rows_total"], named["requests_in_flight"], named["connections_total"]) == (4, 0, 8)
        buckets = [value for name, value in named.items() if name.startswith("prediction_seconds_bucket")]
        assert buckets == sorted(buckets)
        assert named['prediction_seconds_bucket{le="+Inf"}'] == named["prediction_seconds_count"] == 2
        assert named["prediction_seconds_sum"] > 0
        assert named.get("process_resident_memory_bytes", 1 << 24) >= 1 << 24
        kinds = re.findall(r"^# TYPE (\w+) (?:counter|gauge|histogram)$", content.decode(), re.M)
        assert all(any(name.startswith(kind) for kind in kinds) for name in lines)


def test_health_and_info_tell_of_the_server(server):
    assert json.loads(ask(server)[2]) == {"status": "ok"}
    assert json.loads(ask(server, path="/info")[2]) == {"kind": "a test"}


# Its end


@contextlib.contextmanager
def process(folder, model, *options, before=""):
    """A server in a process of its own that executes some code before, and its address."""
    model.save(folder / "m")
    code = f"import sys\n{before}\nfrom manyclass.cli import main\nsys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "serve", str(folder / "m"), "--port", "0", *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            url = running.stdout.readline()
            host, port = re.fullmatch(r"http://(.*):(\d+)\n", url).groups()
            yield running, (host, int(port))
        finally:
            running.kill()


def unlogged(err):
    """What stands on stderr beside the log, whose lines begin with a date."""
    return "".join(line for line in err.splitlines(keepends=True) if not re.match(r"\d{4}-\d\d-\d\dT", line))


def half_a_request(address):
    """A client whose request has begun, and the rest of it."""
    body = json.dumps({"row": [0] * D}).encode()
    client = socket.create_connection(address, timeout=30)
    head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    client.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return client, body[5:]


def test_sigterm_finishes_the_requests_that_run_and_takes_no_more(dense, tmp_path):
    with process(tmp_path, dense[0]) as (running, address):
        idle = socket.create_connection(address, timeout=30)
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        told = b""
        while not told.endswith(b'{"status":"ok"}'):
            told += idle.recv(1 << 16)
        client, rest = half_a_request(address)
        running.send_signal(signal.SIGTERM)
        assert idle.recv(100) == b""
        with contextlib.suppress(ConnectionRefusedError):
            while True:  # until the signal has come
                socket.create_connection(address, timeout=30).close()
        client.sendall(rest)
        answer = client.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"\r\nconnection: close\r\n" in answer
        assert b'"labels": [' in answer
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out, unlogged(err)) == (0, "", "")
        client.close()
        idle.close()


def test_ctrl_c_does_not_wait_for_ever(dense, tmp_path):
    with process(tmp_path, dense[0], "--grace", "0.2") as (running, address):
        client, _ = half_a_request(address)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        told = "manyclass: requests still ran after 0.2 seconds and were cut off\n"
        assert (running.returncode, out, unlogged(err)) == (0, "", told)
        client.close()


def test_a_prediction_that_does_not_end_does_not_hold_the_end(dense, tmp_path):
    endless = """
import threading
from manyclass.serving.predictor import Predictor
read = Predictor.read
def read_without_end(self, body):
    if b"values" in body:  # what the server asks itself before it listens
        return read(self, body)
    print("reads", flush=True)
    threading.Event().wait()
Predictor.read = read_without_end
"""
    with process(tmp_path, dense[0], "--grace", "0.2", before=endless) as (running, address):
        client, rest = half_a_request(address)
        client.sendall(rest)
        assert running.stdout.readline() == "reads\n"
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
        told = "manyclass: requests still ran after 0.2 seconds and were cut off\n"
        assert (running.returncode, out, unlogged(err)) == (0, "", told)
        client.close()


def test_signals_are_those_of_before_once_the_server_has_ended(dense):
    limits = limited()
    server = Server("127.0.0.1", 0, lambda: (Predictor(dense[0], limits, 5), {}), limits)
    numbers = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
    before = [*map(signal.getsignal, numbers)]
    assert server.run_until_signal(lambda: signal.raise_signal(signal.SIGTERM))
    assert [*map(signal.getsignal, numbers)] == before


def test_sigterm_before_the_server_listens_ends_well(dense, tmp_path):
    slow = """
import signal
import manyclass.cli.saved as serve
def load(args):
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
serve._load = load
"""
    dense[0].save(tmp_path / "m")
    code = f"import sys\n{slow}\nfrom manyclass.cli import main\nsys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "serve", str(tmp_path / "m"), "--port", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_sighup_loads_the_model_file_anew_and_keeps_the_old_one_where_that_fails(dense, tmp_path):
    other = fitted("text")[0]
    with process(tmp_path, dense[0], "--access-log") as (running, address):

        def info():
            connection = http.client.HTTPConnection(*address, timeout=30)
            connection.request("GET", "/info")
            found = json.loads(connection.getresponse().read())
            connection.close()
            return found["serving"]["texts"]

        def hang_up(ending):
            running.send_signal(signal.SIGHUP)
            while ending not in (line := running.stderr.readline()):
                assert line, "the server has ended"
            return line

        assert info() is False
        other.save(tmp_path / "new")
        (tmp_path / "new").replace(tmp_path / "m")
        hang_up("the model was loaded anew")
        assert info() is True
        (tmp_path / "m").write_bytes(b"damaged\x1b[0m")
        assert "\x1b" not in hang_up("the old model stays, as the new one cannot be loaded: ")
        assert info() is True
        running.send_signal(signal.SIGTERM)
        err = running.communicate(timeout=60)[1]
        assert running.returncode == 0
        assert re.search(r"127\.0\.0\.1 GET /info 200 \d+\.\d ms\n", err)


def test_a_signal_while_the_command_is_loaded_ends_it_well():
    """What a server needs takes a second to load, and SIGTERM within it gave 143."""
    load = "importlib.import_module = lambda name: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(60))"
    code = f"import importlib, os, signal, sys, time, manyclass.cli; sys.argv[1:] = ['serve', 'm']; {load}"
    command = [sys.executable, "-c", f"{code}; manyclass.cli.main()"]
    assert subprocess.run(command, timeout=50, check=False).returncode == 0
