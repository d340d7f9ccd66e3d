"""The server of predictions: the answers of `predict_top_k`, and each error as JSON."""

import contextlib
import http.client
import json
import re
import socket
import threading
import uuid

import numpy as np
import pytest
import scipy.sparse as sp
from test_approximate_answers import small as small  # a fixture: few classes are searched as if they were many

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load
from manyclass.classifiers.predictions import with_classes
from manyclass.datasets import TextVectorizer, l2_normalize
from manyclass.serving.predictor import Limits, Predictor
from manyclass.serving.server import Server

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


def limited(**limits):
    """The limits of the command but for these."""
    return Limits(**{"timeout": 20.0, "grace": 5.0, "max_running": 2, **limits})


@contextlib.contextmanager
def serving(server):
    """The server, which runs in a thread meanwhile."""
    server.server_address = server.socket.getsockname()  # which is gone once it stops
    thread = threading.Thread(target=server.run, kwargs={"sockets": [server.socket]})
    thread.start()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def started(model, k=5, *, normalize=False, hosts=(), **limits):
    limits = limited(**limits)
    predictor = Predictor(model, limits, k, normalize=normalize)
    with serving(Server("127.0.0.1", 0, lambda: (predictor, {"kind": "a test"}), limits, hosts)) as server:
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


def test_among_ranks_what_predict_top_k_ranks(server, dense):
    model, X = dense
    lists = [["ant", "no such label"], [], WORDS[:7], WORDS[3:5]]
    for among, asked in ((lists, [np.array(some, dtype=object) for some in lists]), (WORDS[2:5], WORDS[2:5])):
        labels, scores = model.predict_top_k(X[:4], 4, among=asked, exclude=[["ant"]] * 4)
        body = {"rows": X[:4].tolist(), "k": 4, "among": among, "exclude": [["ant"]] * 4}
        assert post(server, body) == (200, as_told(labels, scores))
    code, told = post(server, {"row": X[0].tolist(), "among": ["ant"], "exclude": ["ant"]})
    assert (code, told["predictions"][0]["labels"]) == (200, [])


def test_similar_tells_what_the_model_does(server, dense):
    model, _ = dense
    labels, cosines = model.similar(WORDS[:2], 3)
    code, _, content = ask(server, "POST", "/similar", json.dumps({"labels": WORDS[:2], "k": 3}).encode(), JSON)
    answers = json.loads(content)["similar"]
    assert code == 200
    assert [answer["label"] for answer in answers] == WORDS[:2]
    assert [answer["labels"] for answer in answers] == labels.tolist()
    np.testing.assert_allclose([answer["cosines"] for answer in answers], cosines, rtol=1e-5)
    for body, message in (
        ({"labels": "ant"}, 'labels is "ant"; it must be a list of 1 to'),
        ({"labels": ["zz"]}, "which fit has not seen"),
        ({"labels": ["x" * 10_000]}, "labels has one that is none of the model's classes"),
        ({"labels": ["ant"], "k": K}, f"k is {K}"),
        ({"rows": [[0] * D]}, "a key is 'rows'; it must be one of 'labels', 'k'"),
        ([], "the body is a list of 0"),
    ):
        code, _, content = ask(server, "POST", "/similar", json.dumps(body).encode(), JSON)
        assert code == 400
        assert message in json.loads(content)["error"]


def test_labels_that_json_has_no_type_for_are_told_and_excluded_by_what_is_written_for_them():
    model, X = fitted("dense")
    ids = np.array([uuid.UUID(int=i + 7) for i in range(K)])
    model = with_classes(model, ids)
    with started(model, k=9) as server:
        code, told = post(server, {"row": X[0].tolist(), "exclude": [str(ids[2]), "soon"]})
        assert code == 200
        assert set(told["predictions"][0]["labels"]) == {*map(str, ids)} - {str(ids[2])}


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
        (b"\xff", "not JSON in UTF-8: .* byte 0xff in position 0"),
        (b"[" * 100_000, "not JSON in UTF-8: maximum recursion depth"),
        (b'{"row": [' + b"1" * 5000 + b"]}", "not JSON"),
        (b'{"row": [NaN, 1, 2, 3, 4, 5]}', "NaN is no number of JSON"),
        (b'{"row": [-Infinity]}', "-Infinity is no number of JSON"),
        (b'{"row": [1e999, 1, 2, 3, 4, 5]}', r"rows\[0\]\[0\] is Infinity; it must be a number in"),
        (b'{"row": [1, 2, 3, 4, 5, 6], "row": []}', '"row" occurs twice'),
        ([], "it must be an object"),
        ({}, "the body is an object with 0 keys; it must be an object with one of the keys 'rows' and 'row'"),
        ({"row": [], "rows": []}, "with one of the keys 'rows' and 'row'"),
        ({"rows": []}, "rows is a list of 0; it must be a list of 1 to 20 rows"),
        ({"rows": 3}, "rows is 3; it must be a list"),
        ({"rows": [[0] * D] * 21}, "rows is a list of 21; it must be a list of 1 to 20 rows"),
        ({"row": 3}, r"rows\[0\] is 3; a row must be a list of 6 numbers, or an object with the keys"),
        (
            {"rows": [[0] * D, {}]},
            r"rows\[0\] is a list of 6 and rows\[1\] an object with 0 keys; rows must be of one kind",
        ),
        ({"row": [0] * 5}, r"rows\[0\] has 5 numbers; the model has 6 features"),
        ({"row": [0] * 5 + [True]}, r"rows\[0\]\[5\] is true; it must be a number"),
        ({"row": [0] * 5 + ["1"]}, r'rows\[0\]\[5\] is "1"; it must be a number'),
        ({"row": [0] * 5 + [None]}, r"rows\[0\]\[5\] is null"),
        ({"row": [0] * 5 + [[1]]}, r"rows\[0\]\[5\] is a list of 1"),
        ({"row": [0] * 5 + [10**400]}, r"rows\[0\]\[5\] is 1000\d+\.\.\.; it must be a number in"),
        (
            {"row": [0] * 5 + [1e39]},
            r"rows\[0\]\[5\] is 1e\+39; it must be a number in \[-3.402823e\+38, 3.402823e\+38\]",
        ),
        (
            {"row": "a text"},
            r'rows\[0\] is "a text"; a row must be a list of 6 numbers.*',
        ),
        (
            {"row": {"indices": [0]}},
            r"rows\[0\] is \{\"indices\": a list of 1\}; it must have two lists of one length, 'indices' and 'values'",
        ),
        (
            {"row": {"indices": 0, "values": [1]}},
            r"rows\[0\] is \{\"indices\": 0, \"values\": a list of 1\}; it must have two lists",
        ),
        (
            {"row": {"indices": [0, 1], "values": [1]}},
            '"indices": a list of 2, "values": a list of 1}; it must have two lists of one length',
        ),
        ({"row": {"indices": [6], "values": [1]}}, r"rows\[0\].indices\[0\] is 6; it must be an integer in \[0, 5\]"),
        ({"row": {"indices": [10**30], "values": [1]}}, r"it must be an integer in \[0, 5\]"),
        ({"row": {"indices": [-1], "values": [1]}}, r"is -1; it must be an integer in \[0, 5\]"),
        ({"row": {"indices": [1.0], "values": [1]}}, "is 1.0; it must be an integer"),
        ({"row": {"indices": [1], "values": ["x"]}}, r'rows\[0\].values\[0\] is "x"; it must be a number'),
        ({"row": {"indices": [1, 1], "values": [3e38, 3e38]}}, "have a sum beyond"),
        ({"row": [0] * D, "k": 0}, "k is 0; it must be at least 1 and at most 7"),
        ({"row": [0] * D, "k": 8}, "k is 8; it must be"),
        ({"row": [0] * D, "k": 5.0}, "k is 5.0; it must be an integer"),
        ({"row": [0] * D, "k": True}, "k is True"),
        ({"row": [0] * D, "K": 2}, "a key is 'K'; it must be one of 'rows', 'row', 'k', 'exclude', 'among'"),
        ({"row": [0] * D, "exlude": []}, r"did you mean 'exclude'\?"),
        ({"row": [0] * D, "exclude": "ant"}, "exclude must be a list of labels"),
        ({"rows": [[0] * D], "exclude": ["ant"]}, "exclude must be a list of labels for each row"),
        ({"rows": [[0] * D], "exclude": [[], []]}, "exclude has 2 lists of labels; X has 1 rows"),
        ({"row": [0] * D, "among": "ant"}, "among must be a list of labels for each row, or one for all"),
        ({"rows": [[0] * D], "among": [["ant"], []]}, "among has 2 lists of labels; X has 1 rows"),
        ({"row": [0] * D, "exclude": [1]}, r"exclude\[0\] holds numbers, such as 1; the classes are text"),
        ({"row": [0] * D, "exclude": [1, "ant"]}, "labels of one kind"),
        ({"row": [0] * D, "exclude": [["ant"]]}, "labels of one kind"),
        ({"row": [0] * D, "approximate": 1}, "approximate is 1; it must be True or False"),
        ({"row": [0] * D, "approximate": True}, "has no index"),
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
        wrong = {"row": [0] * D, "\ud800": 1}  # which the message repeats
        assert post(server, wrong)[1]["error"].startswith(r"a key is '\ud800'; it must be one of")
        assert "a row must be a text" in post(server, {"row": 1})[1]["error"]
        assert post(server, {"row": ""})[0] == post(server, {"row": "unheard of"})[0] == 200


def test_numbers_are_excluded_by_numbers():
    model, X = fitted("dense")
    with started(model, k=9) as server:
        some = post(server, {"row": X[0].tolist(), "exclude": [1, 2.0, 10**30, -5]})[1]["predictions"][0]["labels"]
        assert sorted(some) == [0, 3, 4, 5, 6, 7, 8]
        told = post(server, {"row": X[0].tolist(), "exclude": ["1"]})[1]["error"]
        assert told == "exclude[0] holds text, such as '1'; the classes are numbers, such as 0"


@pytest.mark.parametrize(
    ("code", "method", "path", "headers"),
    [
        (404, "DELETE", "/nothing", {}),
        (405, "DELETE", "/", {}),
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
    if code == 405:
        assert set(answer.headers["Allow"].split(", ")) == ({"POST"} if path == "/predict" else {"GET", "HEAD"})
    connection.close()


def test_what_goes_wrong_inside_is_told_to_the_log_and_not_to_the_client(dense, monkeypatch, capfd):
    with started(dense[0]) as server:
        monkeypatch.setattr(server.application.predictor, "predict", lambda *asked: 1 / 0)
        code, told = post(server, {"row": [0] * D})
        assert (code, told) == (500, {"error": "the server failed; its log says why"})
        assert "ZeroDivisionError" in capfd.readouterr().err
        monkeypatch.undo()
        assert post(server, {"row": [0] * D})[0] == 200
