"""Downloads from a server that stalls, lies, breaks off and renews its files."""

import gzip
import hashlib
import json
import lzma
import sys
import threading
import time
import warnings
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from manyclass.datasets import fetch, sources
from manyclass.datasets.sources import SOURCES, RemoteFile, bring, content_digest

BODY = np.random.default_rng(0).bytes(300_000)
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's `answers` say, the last of them for ever; each is a function of this handler."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        asked = self.server.asked
        asked.append(dict(self.headers))
        answers = self.server.answers.get(self.path, [missing])
        before = self.server.paths.count(self.path)
        self.server.paths.append(self.path)  # before the answer, after which the next request may come at once
        answers[min(before, len(answers) - 1)](self)
        self.close_connection = True

    def head(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")  # else a client may ask again on a connection that is being closed
        self.end_headers()

    def log_message(self, *_):
        pass


def whole(handler, body=BODY):
    """What a good server does."""
    handler.head(200, Content_Length=len(body))
    handler.wfile.write(body)


def breaks_off(at, body=BODY):
    """Promises all and sends so many bytes."""

    def answer(handler):
        handler.head(200, Content_Length=len(body))
        handler.wfile.write(body[:at])

    return answer


def missing(handler):
    handler.head(404, Content_Length=0)


def status(code, **headers):
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def stalls(handler):
    handler.head(200, Content_Length=len(BODY))
    handler.wfile.write(BODY[:1000])
    handler.wfile.flush()
    handler.server.release.wait(5)


def chunked(*pieces, end=True):
    def answer(handler):
        handler.head(200, Transfer_Encoding="chunked")
        for piece in pieces:
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if end:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


class Server(ThreadingHTTPServer):
    """A server whose clients may hang up."""

    def handle_error(self, request, client_address):
        pass


@pytest.fixture
def server():
    """A server on this machine; `answers` maps paths to lists of answers."""
    httpd = Server(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.answers, httpd.asked, httpd.paths = {}, [], []
    httpd.release = threading.Event()
    httpd.url = f"http://127.0.0.1:{httpd.server_port}"
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield httpd
    httpd.release.set()
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """What pooch and scikit-learn wait between attempts."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def brought(server, tmp_path, *answers, checksum=DIGEST, timeout=5.0):
    server.answers["/data.bin"] = list(answers)
    server.paths.clear()
    return bring(RemoteFile(f"{server.url}/data.bin", "data.bin", checksum), tmp_path, timeout=timeout)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_brought_once(server, tmp_path):
    for _ in range(2):
        path = brought(server, tmp_path / "new", whole)
        assert path == tmp_path / "new/data.bin"
        assert path.read_bytes() == BODY
    assert len(server.asked) == 1
    assert names(tmp_path / "new") == ["data.bin"]


def test_what_breaks_off_or_is_wrong_is_tried_again(server, tmp_path):
    answers = [breaks_off(100_000), status(503), lambda handler: whole(handler, BODY[::-1]), whole]
    assert brought(server, tmp_path, *answers).read_bytes() == BODY
    assert len(server.paths) == len(answers)
    assert names(tmp_path) == ["data.bin"]


def test_wrong_bytes_are_not_kept(server, tmp_path):
    with pytest.raises(OSError, match=r"/data.bin: .*does not match the known hash"):
        brought(server, tmp_path, lambda handler: whole(handler, BODY[:-1] + b"!"))
    assert names(tmp_path) == []
    assert brought(server, tmp_path, whole).read_bytes() == BODY
    md5 = f"md5:{hashlib.md5(BODY).hexdigest()}"
    assert brought(server, tmp_path, missing, checksum=md5).read_bytes() == BODY  # is there already


def test_a_damaged_file_is_brought_again(server, tmp_path):
    path = brought(server, tmp_path, whole)
    path.write_bytes(BODY[:-5])
    assert brought(server, tmp_path, whole).read_bytes() == BODY


def test_without_a_published_digest_that_of_the_first_download_is_kept(server, tmp_path):
    path = brought(server, tmp_path, whole, checksum=None)
    assert (tmp_path / "data.bin.digest").read_text().strip() == DIGEST
    path.unlink()
    with pytest.raises(OSError, match="if the file has been renewed, delete "):
        brought(server, tmp_path, lambda handler: whole(handler, BODY[::-1]), checksum=None)
    assert brought(server, tmp_path, whole, checksum=None).read_bytes() == BODY


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        (missing, {}, "404 Client Error"),
        (status(302, Location="/data.bin"), {}, "30 redirects|RemoteDisconnected"),
        (status(302, Location="file:///etc/hosts"), {}, "No connection adapters"),
        (breaks_off(0), {"checksum": None}, "IncompleteRead|broken"),
        (chunked(BODY[:99], end=False), {"checksum": None}, "prematurely|broken"),
        (stalls, {"timeout": 0.2}, "timed out"),
    ],
)
def test_what_a_server_does_wrong_is_said_and_nothing_is_kept(answer, options, message, server, tmp_path):
    with pytest.raises(OSError, match=rf"^{server.url}/data.bin: .*({message})"):
        brought(server, tmp_path, answer, **options)
    assert names(tmp_path) == []


def test_redirects_are_followed_and_lengths_need_not_be_told(server, tmp_path):
    server.answers["/elsewhere"] = [chunked(BODY[:1000], BODY[1000:])]
    assert brought(server, tmp_path, status(302, Location="/elsewhere")).read_bytes() == BODY


def test_a_bar_is_shown_where_it_is_asked_for(server, tmp_path, capsys):
    server.answers["/data.bin"] = [whole]
    bring(RemoteFile(f"{server.url}/data.bin", "data.bin"), tmp_path, timeout=5.0, progress=True)
    assert "300k/300k" in capsys.readouterr().err


def test_without_pooch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"downloads need pooch: pip install 'manyclass\[fetch\]'"):
        bring(RemoteFile("https://nowhere", "x"), tmp_path, timeout=5.0)


def says(content):
    """An answer of this text."""

    def answer(handler):
        handler.head(200, Content_Length=len(content))
        handler.wfile.write(content)

    return answer


def openml(server, monkeypatch, X, y):
    """Have scikit-learn ask this server for OpenML's number 554; skipped where its addresses are kept otherwise."""
    kept = pytest.importorskip("sklearn.datasets._openml")
    columns = [f"pixel{i + 1}" for i in range(X.shape[1])]
    head = ["@RELATION mnist_784", *(f"@ATTRIBUTE {c} REAL" for c in columns), "@ATTRIBUTE class {0,1,2}", "@DATA"]
    rows = [",".join(map(str, [*row, label])) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    arff = "\n".join([*head, *rows, ""]).encode()
    fact = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    kinds = [(c, "numeric", "false") for c in columns] + [("class", "nominal", "true")]
    features = [
        {"index": str(i), "name": c, "data_type": kind, "is_target": target, **fact}
        for i, (c, kind, target) in enumerate(kinds)
    ]
    about = {"id": "554", "name": "mnist_784", "version": "1", "format": "ARFF", "status": "active", "description": ""}
    about |= {"file_id": "5", "url": f"{server.url}/data/v1/download/5", "default_target_attribute": "class"}
    about |= {"md5_checksum": hashlib.md5(arff).hexdigest()}
    size = [{"name": "NumberOfInstances", "value": str(len(X))}]
    for name, path, content in (
        ("_DATA_INFO", "", {"data_set_description": about}),
        ("_DATA_FEATURES", "features/", {"data_features": {"feature": features}}),
        ("_DATA_QUALITIES", "qualities/", {"data_qualities": {"quality": size}}),
    ):
        if not hasattr(kept, name):
            pytest.skip(f"this scikit-learn has no {name}")
        monkeypatch.setattr(kept, name, f"{server.url}/api/v1/json/data/{path}{{}}")
        server.answers[f"/api/v1/json/data/{path}554"] = [says(json.dumps(content).encode())]
    server.answers["/data/v1/download/5"] = [says(arff)]


def test_digits_come_through_scikit_learn(server, tmp_path, monkeypatch):
    X, y = np.random.default_rng(0).integers(256, size=(8, 784)), np.array([2, 0, 1, 1, 0, 2, 2, 1])
    openml(server, monkeypatch, X, y)
    monkeypatch.setattr(sources, "N_MNIST", (6, 2))
    expected = content_digest(X[:6].astype(np.uint8), y[:6], X[6:].astype(np.uint8), y[6:])
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], digest=expected))
    data = fetch("mnist", data_home=tmp_path)
    np.testing.assert_array_equal(data.X_train, X[:6])
    np.testing.assert_array_equal(data.Y_test, y[6:])
    server.answers["/data/v1/download/5"] = [stalls]  # and a time-out, which scikit-learn itself does not set
    warnings.simplefilter("ignore")  # scikit-learn tells each attempt; pytest takes this back
    with pytest.raises(OSError, match="timed out"):
        fetch("mnist", data_home=tmp_path / "other", timeout=0.2)


def test_a_data_set_comes_through_a_server_that_breaks_off(server, tmp_path, monkeypatch):
    text = b"Zero-waste HOME\t<http://x/1>\n" * 9
    content = gzip.compress(text, mtime=0)
    file = SOURCES["yso-titles"].files[0]
    server.answers["/titles"] = [breaks_off(40, content), lambda h: whole(h, content)]
    made = hashlib.sha256(b"zero waste home\n" * 9).hexdigest()
    here = replace(SOURCES["yso-titles"], files=(replace(file, url=f"{server.url}/titles"),), digest=made)
    monkeypatch.setitem(SOURCES, "yso-titles", here)
    data = fetch("yso-titles", data_home=tmp_path)
    assert lzma.decompress(data.path.read_bytes()) == b"zero waste home\n" * 9
    assert names(tmp_path / "manyclass/downloads/yso-titles") == [file.name, f"{file.name}.digest"]
