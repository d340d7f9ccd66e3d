"""The server of predictions: the answers of `predict_top_k`, each error as JSON, its limits, its end, its counters."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from test_approximate import model_of as clustered_model
from test_approximate import points
from test_approximate import small as small  # a fixture: few classes are searched as if they were many

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load
from manyclass.cli import main
from manyclass.cli import serve as command
from manyclass.datasets import TextVectorizer, l2_normalize
from manyclass.estimators.files import save_model
from manyclass.estimators.index import build_index
from manyclass.search import class_index
from manyclass.serving.limits import Limits
from manyclass.serving.predictor import Predictor
from manyclass.serving.server import Server, serve_until_signal, serving

N, D, K = 90, 6, 9
JSON = {"Content-Type": "application/json"}
WORDS = ["ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "ibis"]


def labels_of(n):
    return np.arange(n) % K


def fitted(kind, seed=0):
    """A model of a kind, and rows for it as JSON has them, in forms that mean the same."""
    rng = np.random.default_rng(seed)
    X = (rng.random((N, D)) * (rng.random((N, D)) < 0.6)).round(3).astype(np.float32)
    y, given = labels_of(N), {"max_iter": 3, "random_state": 0}
    if kind == "text":
        texts = [f"{WORDS[k]} and {WORDS[(k + i) % K]}" for i, k in enumerate(y)]
        vectorizer = TextVectorizer().fit(texts)
        model = SoftmaxClassifier(**given).fit(vectorizer.transform(texts), np.array(WORDS, dtype=object)[y])
        model.vectorizer_ = vectorizer
        return model, texts
    if kind == "several":
        Y = sp.csr_array((np.eye(K)[y] + np.eye(K)[(y + 1) % K]).astype(np.int64))
        return SoftmaxClassifier(model="hybrid", dim=3, **given).fit(sp.csr_array(X), Y), X
    if kind == "margin":
        return MarginClassifier(**given).fit(X, y), X
    if kind == "gaussian":
        return AugmentReduceClassifier(max_iter=2, alpha=1e-2, posterior="gaussian", random_state=0).fit(X, y), X
    if kind == "embedding":
        return SoftmaxClassifier(model="embedding", dim=3, **given).fit(sp.csr_array(X), y), X
    if kind == "named":
        y = np.array(WORDS)[y]
    if kind == "dates":
        y = np.datetime64("2026-01-01") + y
    return SoftmaxClassifier(**given).fit(sp.csr_array(X) if kind == "sparse" else X, y), X


KINDS = ("dense", "sparse", "named", "dates", "embedding", "several", "margin", "gaussian", "text")


@contextlib.contextmanager
def started(model, k=5, *, normalize=False, **limits):
    limits = Limits(**{"timeout": 20.0, "grace": 5.0, "max_running": 2, **limits})
    predictor = Predictor(model, limits, k, normalize=normalize)
    with serving(Server("127.0.0.1", 0, predictor, {"kind": "a test"}, limits)) as server:
        yield server


@pytest.fixture(scope="module")
def dense():
    return fitted("named")


@pytest.fixture(scope="module")
def server(dense):
    with started(dense[0]) as running:
        yield running


def connected(server):
    return http.client.HTTPConnection(*server.server_address[:2], timeout=30)


def ask(server, method="GET", path="/health", body=None, headers=None):
    """Code, headers and content of an answer on a connection of its own."""
    connection = connected(server)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def post(server, asked, **headers):
    """Code and JSON of an answer; `asked` is what is sent as JSON, or its bytes."""
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    code, told, content = ask(server, "POST", "/predict", body, {**JSON, **headers})
    assert told["Content-Type"] == "application/json"
    return code, json.loads(content)


def raw(server, *pieces):
    """All that is answered to some bytes."""
    with socket.create_connection(server.server_address[:2], timeout=30) as client:
        for piece in pieces:
            client.sendall(piece)
        found = b""
        while piece := client.recv(1 << 16):
            found += piece
    return found


def as_told(labels, scores, probabilities=True):
    """What `predict_top_k` gives, as JSON has it."""
    found = []
    for row, (some, values) in enumerate(zip(labels.tolist(), scores, strict=True)):
        kept = [at for at, value in enumerate(values) if value > -np.inf]
        told = {"row": row, "labels": [some[at] for at in kept]}
        told["scores"] = [float(f"{values[at]:.6g}") for at in kept]
        if probabilities:
            told["probabilities"] = [float(f"{p:.6g}") for p in np.exp(values)[kept]]
        found.append(told)
    return {"predictions": found}


def pairs(X):
    return [{"indices": np.flatnonzero(row).tolist(), "values": row[row != 0].tolist()} for row in X]


# Answers


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_predict_top_k(kind, tmp_path, seed):
    model, X = fitted(kind, seed)
    model.save(tmp_path / "m")
    model = load(tmp_path / "m", mmap=True)
    rows = model.vectorizer_.transform(X[:7]) if kind == "text" else X[:7]
    labels, scores = model.predict_top_k(rows, 4)
    labels = labels.astype(str) if kind == "dates" else labels
    expected = as_told(labels, scores, probabilities=kind != "margin")
    with started(model) as server:
        forms = [X[:7]] if kind == "text" else [X[:7].tolist(), pairs(X[:7])]
        for form in forms:
            assert post(server, {"rows": form, "k": 4}) == (200, expected)
        one = post(server, {"row": forms[-1][0], "k": 4})
        if kind != "gaussian":  # whose draws are those of a row's place, and thus the same here
            assert one == (200, {"predictions": expected["predictions"][:1]})
        assert len(one[1]["predictions"][0]["labels"]) == 4


def test_exclude_leaves_out_what_predict_top_k_leaves_out(server, dense):
    model, X = dense
    seen = [["ant", "no such label"], [], WORDS[:7], ["x" * 100_000]]
    labels, scores = model.predict_top_k(X[:4], 4, exclude=[np.array(some, dtype=object) for some in seen])
    assert post(server, {"rows": X[:4].tolist(), "k": 4, "exclude": seen}) == (200, as_told(labels, scores))
    code, told = post(server, {"row": X[0].tolist(), "exclude": WORDS})
    assert (code, told["predictions"][0]["labels"]) == (200, [])


def test_dates_are_excluded_by_their_names():
    model, X = fitted("dates")
    with started(model, k=9) as server:
        code, told = post(server, {"row": X[0].tolist(), "exclude": ["2026-01-03"]})
        assert code == 200
        assert set(told["predictions"][0]["labels"]) == {*map(str, model.classes_)} - {"2026-01-03"}
        assert post(server, {"row": X[0].tolist(), "exclude": ["soon"]})[0] == 400


def test_columns_in_any_order_and_several_times_count_as_in_all_of_the_package(server):
    told = post(server, {"row": {"indices": [4, 1, 4], "values": [1, 0.5, 2]}})
    assert told == post(server, {"row": [0, 0.5, 0, 0, 3, 0]})
    assert post(server, {"row": {"indices": [], "values": []}})[0] == 200


def test_rows_are_normalized_where_those_of_the_fit_were():
    model, X = fitted("sparse")
    expected = as_told(*model.predict_top_k(l2_normalize(sp.csr_array(X[:3])), 5))
    with started(model, normalize=True) as server:
        assert post(server, {"rows": pairs(X[:3])}) == (200, expected)
        dense = post(server, {"rows": [*X[:3].tolist(), [0] * D]})[1]["predictions"][:3]
        for found, wanted in zip(dense, expected["predictions"], strict=True):
            assert found["labels"] == wanted["labels"]
            # Squares are summed in another order: an ulp of float32, 6e-8, beside the six digits that are told.
            np.testing.assert_allclose(found["scores"], wanted["scores"], rtol=1e-5)


def test_names_of_columns_do_not_hinder():
    pandas = pytest.importorskip("pandas")
    _, X = fitted("dense")
    frame = pandas.DataFrame(X, columns=[*"abcdef"])
    model = SoftmaxClassifier(max_iter=3, random_state=0).fit(frame, labels_of(N))
    with started(model) as server:
        assert post(server, {"row": X[0].tolist()}) == (200, as_told(*model.predict_top_k(frame[:1], 5)))
    assert model.feature_names_in_.tolist() == [*"abcdef"]


# Errors


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON"),
        (b"\xff", "not UTF-8: byte 0 is 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"row": [' + b"1" * 5000 + b"]}", "not JSON"),
        (b'{"row": [NaN, 1, 2, 3, 4, 5]}', "holds NaN"),
        (b'{"row": [-Infinity]}', "holds -Infinity"),
        (b'{"row": [1e999, 1, 2, 3, 4, 5]}', r"rows\[0\]\[0\] is Infinity; it must be finite"),
        (b'{"row": [1, 2, 3, 4, 5, 6], "row": []}', '"row" occurs twice'),
        ([], "it must be an object"),
        ({}, "neither of 'rows' and 'row'"),
        ({"row": [], "rows": []}, "both of 'rows' and 'row'"),
        ({"rows": []}, "at least one row"),
        ({"rows": 3}, "rows is 3; it must be a list"),
        ({"rows": [[0] * D] * 21}, "rows has 21 rows; there may be 20"),
        ({"row": 3}, r"rows\[0\] is 3; a row must be a list of 6 numbers"),
        ({"rows": [[0] * D, {}]}, r"rows\[1\] is an object, and rows\[0\] a list of 6; rows must be of one kind"),
        ({"row": [0] * 5}, r"rows\[0\] has 5 numbers; the model has 6 features"),
        ({"row": [0] * 5 + [True]}, r"rows\[0\]\[5\] is true; it must be a number"),
        ({"row": [0] * 5 + ["1"]}, r'rows\[0\]\[5\] is "1"; it must be a number'),
        ({"row": [0] * 5 + [None]}, r"rows\[0\]\[5\] is null"),
        ({"row": [0] * 5 + [[1]]}, r"rows\[0\]\[5\] is a list of 1"),
        ({"row": [0] * 5 + [10**400]}, r"rows\[0\]\[5\] is 1000\d+\.\.\.; it must be finite"),
        ({"row": [0] * 5 + [1e39]}, r"rows\[0\]\[5\] is 1e\+39; it must be finite, at most 3.402823e\+38"),
        ({"row": [3e38, -3e38] * 3}, r"rows\[0\] has scores that are not finite"),
        ({"row": "a text"}, "the model has no text vectorizer: it was fitted on rows of 6 features"),
        ({"row": {"indices": [0]}}, "keys \"indices\"; they must be 'indices' and 'values'"),
        ({"row": {"indices": 0, "values": [1]}}, r"rows\[0\].indices is 0; it must be a list"),
        ({"row": {"indices": [0, 1], "values": [1]}}, "2 indices and 1 values"),
        ({"row": {"indices": [6], "values": [1]}}, r"rows\[0\].indices\[0\] is 6; it must be in \[0, 6\)"),
        ({"row": {"indices": [10**30], "values": [1]}}, "it must be in"),
        ({"row": {"indices": [-1], "values": [1]}}, r"is -1; it must be in \[0, 6\)"),
        ({"row": {"indices": [1.0], "values": [1]}}, "is 1.0; it must be an integer"),
        ({"row": {"indices": [1], "values": ["x"]}}, r'rows\[0\].values\[0\] is "x"; it must be a number'),
        ({"row": {"indices": [1, 1], "values": [3e38, 3e38]}}, "have a sum beyond"),
        ({"row": [0] * D, "k": 0}, "k is 0; it must be an integer of at least 1 and at most 7"),
        ({"row": [0] * D, "k": 8}, "k is 8; it must be"),
        ({"row": [0] * D, "k": 5.0}, "k is 5.0; it must be an integer"),
        ({"row": [0] * D, "k": True}, "k is true"),
        ({"row": [0] * D, "K": 2}, r"the key \"K\" is unknown; the keys are rows, row, k, exclude, approximate"),
        ({"row": [0] * D, "exlude": []}, r"did you mean 'exclude'\?"),
        ({"row": [0] * D, "exclude": "ant"}, "exclude must be a list of labels"),
        ({"rows": [[0] * D], "exclude": ["ant"]}, "exclude must be a list of labels for each row"),
        ({"rows": [[0] * D], "exclude": [[], []]}, "exclude has 2 lists of labels; X has 1 rows"),
        ({"row": [0] * D, "exclude": [1]}, r"exclude\[0\] holds numbers, such as 1; the classes are text"),
        ({"row": [0] * D, "exclude": [1, "ant"]}, "labels of one kind"),
        ({"row": [0] * D, "exclude": [["ant"]]}, "labels of one kind"),
        ({"row": [0] * D, "approximate": 1}, "approximate is 1; it must be true or false"),
        ({"row": [0] * D, "approximate": True}, "this server has no index"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(strict_server, body, message):
    code, told = post(strict_server, body)
    assert (code, [*told]) == (400, ["error"])
    assert re.search(message, told["error"]), told


@pytest.fixture(scope="module")
def strict_server(dense):
    with started(dense[0], max_rows=20, max_k=7, max_bytes=1 << 18) as running:
        yield running


def test_half_of_a_surrogate_pair_and_a_number_as_a_text_are_refused():
    with started(fitted("text")[0]) as server:
        assert "surrogate" in post(server, b'{"row": "\\ud800"}')[1]["error"]
        assert "or a text" in post(server, {"row": 1})[1]["error"]
        assert post(server, {"row": ""})[0] == post(server, {"row": "unheard of"})[0] == 200


def test_numbers_are_excluded_by_numbers():
    model, X = fitted("dense")
    with started(model, k=9) as server:
        some = post(server, {"row": X[0].tolist(), "exclude": [1, 2.0, 10**30, -5]})[1]["predictions"][0]["labels"]
        assert sorted(some) == [0, 3, 4, 5, 6, 7, 8]
        assert (
            "the labels of the model are numbers, such as 0"
            in post(server, {"row": X[0].tolist(), "exclude": ["1"]})[1]["error"]
        )


@pytest.mark.parametrize(
    ("code", "method", "path", "headers"),
    [
        (404, "DELETE", "/", {}),
        (404, "POST", "/predictions", JSON),
        (405, "GET", "/predict", {}),
        (405, "PUT", "/predict", JSON),
        (405, "POST", "/metrics", {}),
        (400, "POST", "/predict?k=3", JSON),
        (411, "POST", "/predict", {**JSON, "Transfer-Encoding": "chunked"}),
        (413, "POST", "/predict", {**JSON, "Content-Length": str(1 << 40)}),
        (400, "POST", "/predict", {**JSON, "Content-Length": "1_0"}),
        (400, "POST", "/predict", {**JSON, "Content-Length": "-1"}),
        (400, "POST", "/predict", {**JSON, "Content-Length": "\N{SUPERSCRIPT TWO}"}),
        (415, "POST", "/predict", {"Content-Type": "text/plain"}),
        (415, "POST", "/predict", {}),
        (415, "POST", "/predict", {"Content-Type": "application/json; charset=latin-1"}),
        (415, "POST", "/predict", {**JSON, "Content-Encoding": "gzip"}),
    ],
)
def test_each_code_of_http_comes_with_json(server, code, method, path, headers):
    connection = connected(server)
    connection.putrequest(method, path)
    for name, value in ({"Content-Length": "2"} | headers).items():
        connection.putheader(name, value.encode("latin-1"))
    connection.endheaders(b"{}")
    answer = connection.getresponse()
    assert answer.status == code
    assert [*json.loads(answer.read())] == ["error"]
    assert answer.headers["Connection"] == "close"  # what was sent behind is not read as another request
    if code == 405:
        assert answer.headers["Allow"] == ("POST" if path == "/predict" else "GET, HEAD")
    connection.close()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\x00\x01\x02 garbage\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/9.0\r\n\r\n", 505),
        (b"GET /health HTTP/one\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /health HTTP/1.1\r\n" + b"A: 1\r\n" * 200 + b"\r\n", 431),
        (b"GET /health HTTP/1.1\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /predict HTTP/1.1\r\nContent-Type: application/json\r\n\r\n", 411),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /predict HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_malformed_http_is_answered_and_the_connection_closed(server, request_, code):
    head, _, body = raw(server, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % code)
    assert b"\r\nConnection: close" in head
    told = json.loads(body)
    assert code == 200 or (told["error"] and len(told["error"]) < 250)


def test_what_goes_wrong_inside_is_told_to_the_log_and_not_to_the_client(dense, monkeypatch, capfd):
    with started(dense[0]) as server:
        monkeypatch.setattr(server.predictor, "predict", lambda query: 1 / 0)
        code, told = post(server, {"row": [0] * D})
        assert (code, told) == (500, {"error": "the server failed; its log says why"})
        assert "ZeroDivisionError" in capfd.readouterr().err
        monkeypatch.undo()
        assert post(server, {"row": [0] * D})[0] == 200


# Connections


def test_a_connection_is_kept_for_further_requests(server):
    connection = connected(server)
    connection.connect()
    own = connection.sock.getsockname()
    for asked, code in (({"row": [0] * D}, 200), ({"row": []}, 400), ({"row": [1] * D}, 200)):
        connection.request("POST", "/predict", json.dumps(asked), JSON)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (code, "keep-alive")
        assert answer.read()
        assert connection.sock.getsockname() == own  # not connected anew
    connection.request("GET", "/nothing")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"], answer.read() != b"") == (404, "keep-alive", True)
    connection.request("HEAD", "/info")
    answer = connection.getresponse()
    assert (answer.status, answer.read(), int(answer.headers["Content-Length"]) > 0) == (200, b"", True)
    connection.request("GET", "/health", headers={"Connection": "close"})
    assert connection.getresponse().headers["Connection"] == "close"
    connection.close()


def test_requests_sent_at_once_are_answered_in_turn(server):
    body = json.dumps({"row": [0] * D}).encode()
    one = b"POST /predict HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    found = raw(server, one * 3 + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200"] * 4


@pytest.mark.parametrize(
    "begun", [b"GE", b"GET /health HTTP/1.1\r\nA: ", b"POST /predict HTTP/1.1\r\nContent-Type: application/json\r\n"]
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
    one = b"POST /predict HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
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
        assert int(re.search(rb"connections_refused_total (\d+)\n", ask(server, path="/metrics")[2])[1]) >= 3


def test_a_request_that_waits_in_vain_for_its_turn_is_refused(dense, monkeypatch):
    with started(dense[0], max_running=1, timeout=0.3) as server, ThreadPoolExecutor() as pool:
        begun, go_on, predict = threading.Event(), threading.Event(), server.predictor.predict

        def slow(query):
            begun.set()
            assert go_on.wait(30)
            return predict(query)

        monkeypatch.setattr(server.predictor, "predict", slow)
        first = pool.submit(post, server, {"row": [0] * D})
        assert begun.wait(30)
        code, told = post(server, {"row": [0] * D})
        assert (code, "1 requests are computed" in told["error"]) == (503, True)
        assert b"\nmanyclass_requests_in_flight 1\n" in ask(server, path="/metrics")[2]
        go_on.set()
        assert first.result()[0] == 200


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
        assert (code, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        lines = dict(line.rsplit(" ", 1) for line in content.decode().splitlines() if not line.startswith("#"))
        named = {name.removeprefix("manyclass_"): float(value) for name, value in lines.items()}
        counted = {name: value for name, value in named.items() if name.startswith("requests_total")}
        assert counted == {
            'requests_total{path="/health",code="200"}': 1,
            'requests_total{path="/metrics",code="200"}': 2,
            'requests_total{path="/predict",code="200"}': 2,
            'requests_total{path="/predict",code="400"}': 1,
            'requests_total{path="/predict",code="405"}': 1,
            'requests_total{path="other",code="404"}': 1,
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


# Approximate answers


def test_approximate_answers_are_those_of_the_tuned_index(small):
    model, rng = clustered_model(0)
    X, tuned_by = points(rng, 8), points(rng, 200)
    limits = Limits(max_running=2)
    predictor = Predictor(model, limits, 5)
    predictor.build_index(tuned_by, 0.9)
    model.predict_top_k(tuned_by, 5, approximate=True, recall=0.9)
    labels, scores = model.predict_top_k(X, 5, approximate=True, recall=0.9)
    with serving(Server("127.0.0.1", 0, predictor, {}, limits)) as server:
        asked = {"rows": X.tolist(), "approximate": True}
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: post(server, asked), range(8)))
        assert found == [(200, as_told(labels, scores))] * 8
        assert post(server, {**asked, "k": 2}) == (200, as_told(labels[:, :2], scores[:, :2]))
        assert "leave out approximate, or start" in post(server, {**asked, "k": 6})[1]["error"]
        assert "leave one of them out" in post(server, {**asked, "exclude": [[]] * 8})[1]["error"]
        exact = as_told(*model.predict_top_k(X, 6))
        assert post(server, {"rows": X.tolist(), "k": 6}) == (200, exact)


def test_an_index_that_is_of_no_use_is_not_built(small, monkeypatch):
    model, rng = clustered_model(0)
    with pytest.raises(ValueError, match="there are 127 rows to tune the index of approximate answers; it needs 128"):
        build_index(model, points(rng, 127), 5, 0.9)
    margin = MarginClassifier(max_iter=1, random_state=0).fit(points(rng, 90), labels_of(90))
    with pytest.raises(ValueError, match="need the probabilities of a softmax; a margin has none"):
        build_index(margin, points(rng, 200), 5, 0.9)
    monkeypatch.setattr(class_index, "slower", lambda weights, x, probes, recall: "slow" if probes else "")
    with pytest.raises(ValueError, match="approximate answers are of no use: slow"):
        build_index(model, points(rng, 200), 5, 0.9)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="the model has 300 classes; approximate answers are for more than 4096"):
        build_index(model, points(rng, 200), 5, 0.9)


# The command


def answered(monkeypatch, capsys, *argv, code=0, asks=lambda server: None):
    """What `asks` makes of the server that a command starts, and what the command prints."""
    found = []

    def at_once(server, ready):
        with serving(server):
            ready()
            found.append(asks(server))
        return True

    monkeypatch.setattr(command, "serve_until_signal", at_once)
    assert main(["serve", *map(str, argv)]) == code
    out, err = capsys.readouterr()
    return found[0] if found else None, out, err


def test_the_command_serves_texts_as_they_were_read_in_the_fit(tmp_path, monkeypatch, capsys):
    model, texts = fitted("text")
    save_model(model, tmp_path / "m", {"form": "text", "normalize": True})

    def asks(server):
        return server.url, post(server, {"row": texts[0]}), json.loads(ask(server, path="/info")[2])

    (url, told, info), out, err = answered(monkeypatch, capsys, tmp_path / "m", "--port", 0, "-k", 2, asks=asks)
    expected = as_told(*model.predict_top_k(l2_normalize(model.vectorizer_.transform(texts[:1])), 2))
    assert told == (200, expected)
    assert (out, err) == (url + "\n", "")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    main(["info", str(tmp_path / "m"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    own = info.pop("serving")
    assert info == shown
    assert (own["k"], own["texts"], own["approximate"], own["max_bytes"]) == (2, True, False, 8 << 20)


def test_the_command_tunes_an_index_by_rows_of_a_file(small, tmp_path, monkeypatch, capsys):
    model, rng = clustered_model(0)
    model.save(tmp_path / "m")
    X = points(rng, 200)
    lines = ["0 " + " ".join(f"{j}:{value}" for j, value in enumerate(row)) for row in X]
    (tmp_path / "rows").write_text("\n".join(["200 10 300", *lines]) + "\n")
    argv = [tmp_path / "m", "--port", 0, "--approximate", tmp_path / "rows", "--recall", 0.9]
    told, _, err = answered(
        monkeypatch, capsys, *argv, asks=lambda s: post(s, {"rows": X[:3].tolist(), "approximate": True})
    )
    model.predict_top_k(X, 5, approximate=True, recall=0.9)
    assert told == (200, as_told(*model.predict_top_k(X[:3], 5, approximate=True, recall=0.9)))
    assert err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "70000"], "port is 70000; it must be finite, at least 0 and at most 65535"),
        (["--max-rows", "0"], "max_rows is 0; it must be finite, at least 1"),
        (["--timeout", "0"], "timeout is 0.0; it must be finite, more than 0"),
        (["--recall", "0.9"], "--recall is 0.9, which has no effect without --approximate"),
        (["-k", "200"], "k is 200; it must be finite, at least 1 and at most 100"),
        (["--host", "256.0.0.1"], "256.0.0.1, port 0: "),
    ],
)
def test_what_cannot_be_served_is_an_error_of_one_line(dense, tmp_path, monkeypatch, capsys, options, message):
    dense[0].save(tmp_path / "m")
    options = options if "--port" in options else [*options, "--port", "0"]
    _, out, err = answered(monkeypatch, capsys, tmp_path / "m", *options, code=2)
    assert out == ""
    assert err.startswith(f"manyclass: error: {message}")
    assert err.count("\n") == 1


def test_an_address_of_ipv6_is_served(dense):
    limits = Limits(grace=5.0)
    try:
        made = Server("::1", 0, Predictor(dense[0], limits, 5), {}, limits)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(made) as server:
        assert re.fullmatch(r"http://\[::1\]:\d+", server.url)
        assert ask(server)[0] == 200


def test_a_port_in_use_is_told(server, dense, tmp_path, monkeypatch, capsys):
    dense[0].save(tmp_path / "m")
    port = server.server_address[1]
    _, _, err = answered(monkeypatch, capsys, tmp_path / "m", "--port", port, code=2)
    assert err == f"manyclass: error: 127.0.0.1, port {port}: Address already in use\n"


# Its end


@contextlib.contextmanager
def process(folder, model, *options):
    """A server in a process of its own, and its address."""
    model.save(folder / "m")
    argv = [sys.executable, "-m", "manyclass", "serve", str(folder / "m"), "--port", "0", *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            url = running.stdout.readline()
            host, port = re.fullmatch(r"http://(.*):(\d+)\n", url).groups()
            yield running, (host, int(port))
        finally:
            running.kill()


def half_a_request(address):
    """A client whose request has begun, and the rest of it."""
    body = json.dumps({"row": [0] * D}).encode()
    client = socket.create_connection(address, timeout=30)
    head = "POST /predict HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    client.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return client, body[5:]


def test_sigterm_finishes_the_requests_that_run_and_takes_no_more(dense, tmp_path):
    with process(tmp_path, dense[0]) as (running, address):
        idle = socket.create_connection(address, timeout=30)
        idle.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert idle.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        client, rest = half_a_request(address)
        running.send_signal(signal.SIGTERM)
        assert idle.recv(100) == b""
        with contextlib.suppress(ConnectionRefusedError):
            while True:  # until the signal has come
                socket.create_connection(address, timeout=30).close()
        client.sendall(rest)
        answer = client.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"\r\nConnection: close\r\n" in answer
        assert b'"labels": [' in answer
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out, err) == (0, "", "")
        client.close()
        idle.close()


def test_ctrl_c_does_not_wait_for_ever(dense, tmp_path):
    with process(tmp_path, dense[0], "--grace", "0.2") as (running, address):
        client, _ = half_a_request(address)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        told = "manyclass: requests still ran after 0.2 seconds and were cut off\n"
        assert (running.returncode, out, err) == (0, "", told)
        client.close()


def test_signals_are_those_of_before_once_the_server_has_ended(dense):
    limits = Limits(grace=5.0)
    server = Server("127.0.0.1", 0, Predictor(dense[0], limits, 5), {}, limits)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert serve_until_signal(server, lambda: signal.raise_signal(signal.SIGTERM))
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
