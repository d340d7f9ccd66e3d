"""Downloads from a server that stalls, lies, breaks off and renews its files."""

import gzip
import hashlib
import json
import lzma
import threading
import time
import warnings
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from manyclass.datasets import fetch, sources
from manyclass.datasets.download import DownloadError, Patience, RemoteFile, download
from manyclass.datasets.sources import SOURCES, content_digest

BODY = np.random.default_rng(0).bytes(300_000)
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
FAST = Patience(timeout=0.5, attempts=3, wait=0.01)


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
        self.end_headers()

    @property
    def start(self):
        """Where the range that is asked for begins; None without one, or where If-Range names another version."""
        asked, version = self.headers["Range"], self.headers["If-Range"]
        if asked is None or (version and version != self.server.etag):
            return None
        return int(asked.removeprefix("bytes=").rstrip("-"))

    def log_message(self, *_):
        pass


def whole(handler, body=BODY):
    """What a good server does, ranges included."""
    start = handler.start
    if start is None:
        handler.head(200, Content_Length=len(body), ETag=handler.server.etag)
        handler.wfile.write(body)
    elif start >= len(body):
        handler.head(416, Content_Range=f"bytes */{len(body)}", Content_Length=0)
    else:
        handler.head(
            206,
            Content_Length=len(body) - start,
            Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}",
            ETag=handler.server.etag,
        )
        handler.wfile.write(body[start:])


def breaks_off(at, body=BODY):
    """Promises all and sends so many bytes more."""

    def answer(handler):
        start = handler.start or 0
        status, more = (
            (200, {}) if start == 0 else (206, {"Content_Range": f"bytes {start}-{len(body) - 1}/{len(body)}"})
        )
        handler.head(status, Content_Length=len(body) - start, ETag=handler.server.etag, **more)
        handler.wfile.write(body[start : start + at])

    return answer


def refuses_ranges(handler):
    handler.head(200, Content_Length=len(BODY))
    handler.wfile.write(BODY)


def missing(handler):
    handler.head(404, Content_Length=0)


def status(code, **headers):
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def stalls(handler):
    handler.head(200, Content_Length=len(BODY), ETag=handler.server.etag)
    handler.wfile.write(BODY[:1000])
    handler.wfile.flush()
    handler.server.release.wait(5)


def drips(handler):
    handler.head(200, Content_Length=len(BODY), ETag=handler.server.etag)
    for i in range(100):
        handler.wfile.write(BODY[i : i + 1])
        handler.wfile.flush()
        if handler.server.release.wait(0.05):
            return


def chunked(*pieces, end=True):
    def answer(handler):
        handler.head(200, Transfer_Encoding="chunked")
        for piece in pieces:
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if end:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


def without_length(handler):
    handler.head(200)
    handler.wfile.write(BODY)


class Server(ThreadingHTTPServer):
    """A server whose clients may hang up."""

    def handle_error(self, request, client_address):
        pass


@pytest.fixture
def server():
    """A server on this machine; `answers` maps paths to lists of answers."""
    httpd = Server(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.answers, httpd.asked, httpd.paths, httpd.etag = {}, [], [], '"one"'
    httpd.release = threading.Event()
    httpd.url = f"http://127.0.0.1:{httpd.server_port}"
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield httpd
    httpd.release.set()
    httpd.shutdown()
    httpd.server_close()


def brought(server, tmp_path, *answers, checksum=DIGEST, size=None, patience=FAST):
    server.answers["/data.bin"] = list(answers)
    return download(RemoteFile(f"{server.url}/data.bin", "data.bin", size, checksum), tmp_path, patience=patience)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_brought_once(server, tmp_path):
    for _ in range(2):
        path = brought(server, tmp_path / "new", whole, size=len(BODY))
        assert path == tmp_path / "new/data.bin"
        assert path.read_bytes() == BODY
    assert len(server.asked) == 1
    assert names(tmp_path / "new") == ["data.bin"]


def test_what_breaks_off_goes_on_where_it_ended(server, tmp_path):
    path = brought(server, tmp_path, breaks_off(100_000), breaks_off(100_000), whole)
    assert path.read_bytes() == BODY
    assert [asked.get("Range") for asked in server.asked] == [None, "bytes=100000-", "bytes=200000-"]
    assert [asked.get("If-Range") for asked in server.asked] == [None, '"one"', '"one"']


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(server, tmp_path):
    with pytest.raises(DownloadError, match=r"503 .*given up after 3 attempts in a row. The 100000 bytes that came"):
        brought(server, tmp_path, breaks_off(100_000), status(503))
    assert names(tmp_path) == ["data.bin.part", "data.bin.part.version"]
    server.paths.clear()
    server.asked.clear()
    assert brought(server, tmp_path, whole).read_bytes() == BODY
    assert server.asked[0]["Range"] == "bytes=100000-"
    assert names(tmp_path) == ["data.bin"]


def test_a_file_that_was_renewed_meanwhile_begins_anew(server, tmp_path):
    other = BODY[::-1]

    def renewed(handler):
        handler.server.etag = '"two"'
        whole(handler, other)

    path = brought(server, tmp_path, breaks_off(100_000), renewed, checksum=None)
    assert path.read_bytes() == other


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(refuses_ranges, id="the whole file for a range"),
        pytest.param(lambda h: h.head(416, Content_Length=0), id="no such range"),
        pytest.param(
            lambda h: (
                h.head(206, Content_Length=5, Content_Range="bytes 7-11/300000"),
                h.wfile.write(b"wrong"),
            ),
            id="another range",
        ),
    ],
)
def test_a_server_that_refuses_a_range_sends_the_whole(second, server, tmp_path):
    assert brought(server, tmp_path, breaks_off(70_000), second, whole).read_bytes() == BODY


def test_a_part_that_belongs_to_another_file_is_thrown_away(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"x" * 1000)
    assert brought(server, tmp_path, whole).read_bytes() == BODY
    assert [asked.get("Range") for asked in server.asked] == ["bytes=1000-", None]
    (tmp_path / "data.bin").unlink()
    (tmp_path / "data.bin.part").write_bytes(b"x" * 400_000)  # longer than the file
    assert brought(server, tmp_path, whole, size=len(BODY)).read_bytes() == BODY


@pytest.mark.parametrize("answer", [stalls, drips])
def test_a_server_that_stalls_is_given_up(answer, server, tmp_path):
    begin = time.monotonic()
    with pytest.raises(
        DownloadError, match=r"(broken off: .*timed out|stalled at \d+ bytes).*given up after 2 attempts"
    ):
        brought(server, tmp_path, answer, patience=Patience(timeout=0.3, attempts=2, wait=0.01))
    assert time.monotonic() - begin < 30  # and not for ever
    assert not (tmp_path / "data.bin").exists()
    assert brought(server, tmp_path, whole).read_bytes() == BODY


def test_wrong_bytes_are_not_kept(server, tmp_path):
    wrong = BODY[:-1] + b"!"
    with pytest.raises(DownloadError, match=rf"digest sha256:\w+; it must be {DIGEST}\. The file there is another"):
        brought(server, tmp_path, lambda h: whole(h, wrong))
    assert not (tmp_path / "data.bin").exists()
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
    with pytest.raises(DownloadError, match=r"that of the first download. If the file has been renewed, delete "):
        brought(server, tmp_path, lambda h: whole(h, BODY[::-1]), checksum=None)
    assert brought(server, tmp_path, whole, checksum=None).read_bytes() == BODY


@pytest.mark.parametrize(
    ("answers", "options", "message"),
    [
        ([missing], {}, "the server answers 404 Not Found"),
        ([status(403)], {}, "the server answers 403"),
        ([status(302, Location="/data.bin")], {}, "the server answers 302"),
        ([whole], {"size": 1000}, "has 300000 bytes; it must have 1000"),
        ([chunked(BODY)], {"size": 1000}, "sends more than 1000 bytes; the download is ended"),
        ([breaks_off(0)], {}, "broken off at 0 of 300000 bytes; given up after 3 attempts"),
        ([chunked(BODY[:99], end=False)], {}, "broken off: .*given up after 3 attempts"),
        ([without_length], {"checksum": None}, "does not say how long the file is, and it has no checksum"),
        (
            [lambda h: h.head(200, Content_Length=9, Content_Encoding="gzip")],
            {},
            "the server sends the file as gzip; it must send it as it is",
        ),
        ([status(302, Location="file:///etc/hosts")], {}, "the server answers 302"),
    ],
)
def test_what_a_server_does_wrong_is_said(answers, options, message, server, tmp_path):
    with pytest.raises(DownloadError, match=message):
        brought(server, tmp_path, *answers, **options)
    assert not (tmp_path / "data.bin").exists()


def test_what_may_pass_is_tried_again_when_the_server_asks_for_it(server, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    answers = [status(503, Retry_After=7), status(429), status(503, Retry_After=10**6), whole]
    patience = Patience(timeout=5, attempts=9, wait=0.5)
    assert brought(server, tmp_path, *answers, patience=patience).read_bytes() == BODY
    assert waits == [7, 1, 60]


def test_redirects_are_followed_and_lengths_need_not_be_told(server, tmp_path):
    server.answers["/elsewhere"] = [whole]
    assert brought(server, tmp_path, status(302, Location="/elsewhere")).read_bytes() == BODY
    (tmp_path / "data.bin").unlink()
    server.paths.clear()
    assert brought(server, tmp_path, chunked(BODY[:1000], BODY[1000:]), checksum=None).read_bytes() == BODY
    (tmp_path / "data.bin").unlink()
    server.paths.clear()
    assert brought(server, tmp_path, without_length).read_bytes() == BODY


def test_only_addresses_of_the_web_are_taken(tmp_path):
    for url in ("file:///etc/hosts", "ftp://host/file", "data.bin"):
        with pytest.raises(DownloadError, match="it must begin with http:// or https://"):
            download(RemoteFile(url, "data.bin"), tmp_path)
    with pytest.raises(DownloadError, match=r"no answer: .*given up after 2 attempts"):
        download(RemoteFile("http://127.0.0.1:9/x", "x"), tmp_path, patience=Patience(0.2, 2, 0.01))


def test_two_processes_do_not_write_to_one_part(server, tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="needs flock, which this system has not")
    with open(tmp_path / "data.bin.part", "ab") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        with pytest.raises(DownloadError, match=r"another process is downloading .*data\.bin; call again"):
            brought(server, tmp_path, whole)
    assert brought(server, tmp_path, whole).read_bytes() == BODY


def test_a_bar_is_shown_where_it_is_asked_for(server, tmp_path, capsys):
    server.answers["/data.bin"] = [breaks_off(100_000), whole]
    download(RemoteFile(f"{server.url}/data.bin", "data.bin"), tmp_path, patience=FAST, progress=True)
    assert "300k/300k" in capsys.readouterr().err


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
        fetch("mnist", data_home=tmp_path / "other", patience=Patience(timeout=0.2, attempts=1, wait=0.01))


def test_a_data_set_comes_through_a_server_that_breaks_off(server, tmp_path, monkeypatch):
    text = b"Zero-waste HOME\t<http://x/1>\n" * 9
    content = gzip.compress(text, mtime=0)
    file = SOURCES["yso-titles"].files[0]
    server.answers["/titles"] = [breaks_off(40, content), lambda h: whole(h, content)]
    made = hashlib.sha256(b"zero waste home\n" * 9).hexdigest()
    here = replace(SOURCES["yso-titles"], files=(replace(file, url=f"{server.url}/titles"),), digest=made)
    monkeypatch.setitem(SOURCES, "yso-titles", here)
    data = fetch("yso-titles", data_home=tmp_path, patience=FAST)
    assert lzma.decompress(data.path.read_bytes()) == b"zero waste home\n" * 9
    assert [asked.get("Range") for asked in server.asked] == [None, "bytes=40-"]
    assert names(tmp_path / "manyclass/downloads/yso-titles") == [file.name, f"{file.name}.digest"]
