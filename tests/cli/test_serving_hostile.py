"""Requests to the server that are no requests, cost much to read, or come from a page of another site."""

import json
import re

import pytest
from test_serving import D, ask, limited, post, raw, serving, started
from test_serving import dense as dense  # fixtures
from test_serving import server as server

from manyclass.serving.predictor import Predictor
from manyclass.serving.server import Server

MUCH = 600_000  # bytes of a request's head: what asyncio reads at a time, 256 KiB, is parsed, whatever it holds


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\x00\x01\x02 garbage\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/one\r\n\r\n", 400),
        (b"GET /" + b"x" * MUCH + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: 1\r\n" * (MUCH // 6) + b"\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: 1" + b"\r\n ;" * (MUCH // 4) + b"\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /predict HTTP/1.0\r\nContent-Type: application/json\r\n\r\n", 411),
        (b"POST /predict HTTP/1.0\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /predict HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
        (
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
            413,
        ),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_malformed_http_is_answered_and_the_connection_closed(server, request_, code):
    head, _, body = raw(server, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % code)
    assert b"\r\nconnection: close" in head.lower()
    told = json.loads(body)
    assert code == 200 or (told["error"] and len(told["error"]) < 250)


@pytest.mark.parametrize(
    "many",
    [
        b'{"row": {' + b'"x": 1,' * 400_000 + b'"x": 2}}',
        b'{"row": {' + b",".join(b'"%d": 1' % i for i in range(400_000)) + b',"1": 2}}',
    ],
)
def test_an_object_of_very_many_names_is_refused(server, many):
    """In linear time: counting each name anew took 41 seconds for a twentieth of these bytes."""
    assert "occurs twice" in post(server, many)[1]["error"]


LONG = 4_000_000  # bytes of a body
ROW = "[0,0,0,0,0,0]"
LABELS = ",".join(f'"{i:07d}"' for i in range(LONG // 10))
ONES = ",".join(["1"] * (LONG // 4))


@pytest.mark.parametrize(
    ("body", "code"),
    {
        "digits of a fraction": ('{"row": [0.' + "1" * LONG + ",0,0,0,0,0]}", 200),
        "digits of an integer": ('{"row": [' + "1" * LONG + ",0,0,0,0,0]}", 400),
        "digits of an exponent": ('{"row": [1e' + "1" * LONG + ",0,0,0,0,0]}", 400),
        "long fractions": ('{"row": [' + ",".join(["0." + "1" * 1000] * (LONG // 1003)) + "]}", 400),
        "lists in lists": ('{"row": ' + "[" * (LONG // 2) + "]" * (LONG // 2) + "}", 400),
        "objects in objects": ('{"a": ' * (LONG // 7) + "1" + "}" * (LONG // 7), 400),
        "lists in a row": ('{"row": [' + ",".join(["[]"] * (LONG // 3)) + "]}", 400),
        "rows": ('{"rows": [' + ",".join([ROW] * (LONG // 14)) + "]}", 400),
        "a text": ('{"row": "' + "a" * LONG + '"}', 400),
        "escapes": ('{"row": "' + "\\u00e4" * (LONG // 6) + '"}', 400),
        "half surrogates": ('{"row": "' + "\\ud800" * (LONG // 6) + '"}', 400),
        "backslashes": ('{"row": "' + "\\" * LONG + '"}', 400),
        "blanks": ('{"row":' + " " * LONG + ROW + "}", 200),
        "blanks and more": ('{"row":' + ROW + "}" + " " * LONG + "x", 400),
        "labels": ('{"row":' + ROW + ', "exclude": [' + LABELS + "]}", 200),
        "a label again": ('{"row":' + ROW + ', "exclude": [' + ",".join(['"ant"'] * (LONG // 6)) + "]}", 200),
        "a column again": ('{"row": {"indices": [' + ONES + '], "values": [' + ONES + "]}}", 200),
        "a last column": ('{"row": {"indices": [' + ONES + ',9], "values": [' + ONES + ",1]}}", 400),
    }.values(),
    ids=lambda one: "" if isinstance(one, str) else None,
)
def test_a_body_of_megabytes_is_read_in_linear_time(server, body, code):
    """Each takes less than a second of the processor; none ends the server."""
    found, told = post(server, body.encode())
    assert found == code
    assert code == 200 or 0 < len(told["error"]) < 500
    assert ask(server)[0] == 200


@pytest.mark.parametrize("kind", ["application/json" + ";" * 10_000, "application/json;" + '"' * 10_000, ";" * 10_000])
def test_a_content_type_of_very_many_parts_is_read_or_refused(server, kind):
    assert post(server, {"row": [0] * D}, **{"Content-Type": kind})[0] in (200, 415)


def test_a_body_that_was_refused_is_not_read_as_another_request(server):
    body = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    found = raw(server, head % len(body) + body + last)
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"415", b"404"]


# Hosts


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("models.example", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example:8000", 400),
        ("192.0.2.1", 400),
        ("", 400),
        ("[", 400),
        ("evil@localhost", 400),
        ("evil:x@127.0.0.1:8000", 400),
        ("localhost/evil", 400),
        ("localhost?evil", 400),
        ("localhost#evil", 400),
        ("local\\host", 400),
    ],
)
def test_a_request_must_name_a_host_that_is_the_server(dense, host, code):
    """A page whose name leads to this address (DNS rebinding) must neither ask nor read."""
    with started(dense[0], hosts=["Models.example"]) as server:
        for path in ("/health", "/metrics"):
            assert ask(server, path=path, headers={"Host": host})[0] == code
        assert post(server, {"row": [0] * D}, Host=host)[0] == code


def test_a_server_of_all_addresses_knows_addresses_and_any_host_may_be_allowed(dense):
    limits = limited()
    for hosts, name in (((), 400), (["*"], 200)):
        server = Server("0.0.0.0", 0, lambda: (Predictor(dense[0], limits, 5), {}), limits, hosts)
        with serving(server):
            assert ask(server, headers={"Host": "192.0.2.1:8000"})[0] == 200
            assert ask(server, headers={"Host": "evil.example"})[0] == name


# What is written of requests


def test_a_message_repeats_no_more_than_a_part_of_a_request(server, capfd):
    label = "x" * 100_000 + "\x1b[31m"
    for body in ({"row": [0] * D, "exclude": [label, 3]}, {"rows": [label]}, {"row": [0] * D, label: 1}):
        code, told = post(server, body)
        assert code == 400
        assert len(told["error"]) < 600
    log = capfd.readouterr().err
    assert len(log) < 3000
    assert "\x1b" not in log
    assert log.count("POST /predict 400") == 3


def test_a_page_of_another_site_is_refused_by_a_sentence(server):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    code, told, content = ask(server, "OPTIONS", "/predict", headers=headers)
    assert code == 400
    assert "no CORS" in json.loads(content)["error"]
    assert not [name for name in told if name.lower().startswith("access-control")]


def test_the_page_to_try_the_model_on_asks_this_server_alone(server):
    code, headers, content = ask(server, path="/")
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'; connect-src 'self'" in headers["Content-Security-Policy"]
    assert b'fetch("predict"' in content
    assert b"http" not in content.replace(b'"use strict"', b"")
