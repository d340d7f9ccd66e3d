"""One connection: HTTP/1.1 with deadlines, and what each path answers."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from manyclass.serving.metrics import CONTENT_TYPE
from manyclass.serving.requests import RequestError, bad, read_query

if TYPE_CHECKING:  # it imports this module
    from manyclass.serving.server import Server

READ = ("GET", "HEAD")
METHODS = {"/predict": ("POST",), "/health": READ, "/metrics": READ, "/info": READ}
JSON = "application/json"
LONGEST_LINE = 1 << 16  # of a request or a header; that of http.client
LONGEST_MESSAGE = 200  # characters of what is told of a malformed request, which it may repeat
# Seconds in which a client whose request was not read may read why, and bytes of it that are thrown away meanwhile: a
# socket that is closed with unread bytes resets the connection, and the answer is lost.
LINGER, MOST_THROWN = 1.0, 1 << 24


class Reader(io.RawIOBase):
    """The bytes of a socket until a deadline, however slowly they come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`; TimeoutError after the deadline."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server: Server
    connection: socket.socket
    rfile: io.BufferedReader

    def setup(self) -> None:
        """Read with deadlines, and send each answer at once."""
        super().setup()
        self.rfile.close()
        # An answer is one write: it is not to wait until the client confirms the last one.
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._reader = Reader(self.connection)
        self.rfile = io.BufferedReader(self._reader)
        self._unread = False

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it, whatever it is."""
        self.close_connection, self.command, self.path = True, "", ""
        self.requestline, self.request_version = "", self.protocol_version
        try:
            if not self._comes():
                return
            self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
            if len(self.raw_requestline) > LONGEST_LINE:
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            elif self.parse_request():
                lengths = self.headers.get_all("Content-Length", [])
                has_body = "Transfer-Encoding" in self.headers or any(length != "0" for length in lengths)
                self._unread = has_body or self.command not in READ
                self._answer()
        except RequestError as refused:
            self._refuse(refused)
        except TimeoutError:
            why = f"the request was not whole after {self._seconds():g} seconds"
            self._refuse(bad(why, HTTPStatus.REQUEST_TIMEOUT))
        except ConnectionError:  # the client has gone
            self.close_connection = True

    def _seconds(self) -> float:
        return self.server.limits.timeout

    def _comes(self) -> bool:
        """Whether another request begins before the client has been idle for too long, or the server is stopped."""
        self._reader.deadline = time.monotonic() + self._seconds()
        if not self.server.connections.may_wait(self.connection):
            return False
        try:
            found = bool(self.rfile.peek(1))
        except TimeoutError:
            return False
        finally:
            self.server.connections.waits_no_more(self.connection)
        self._reader.deadline = time.monotonic() + self._seconds()
        return found

    def _answer(self) -> None:
        path = self._checked_path()
        if path == "/predict":
            self._send(HTTPStatus.OK, self._predicted(self._body()))
            return
        if path == "/metrics":
            self.server.metrics.count_request(path, HTTPStatus.OK)
            self._send(HTTPStatus.OK, self.server.metrics.text().encode(), CONTENT_TYPE, counted=True)
        else:
            told = {"status": "ok"} if path == "/health" else self.server.info
            self._send(HTTPStatus.OK, json.dumps(told).encode())

    def _checked_path(self) -> str:
        """The path, if it is one of ours and has this method."""
        path, _, options = self.path.partition("?")
        if self.request_version == "HTTP/0.9":
            raise bad("the first line of the request has no version of HTTP")
        if path not in METHODS:
            raise bad(f"the path is {path[:60]!r}; it must be one of {', '.join(METHODS)}", HTTPStatus.NOT_FOUND)
        if self.command not in METHODS[path]:
            methods = ", ".join(METHODS[path])
            why = f"the method is {self.command[:20]!r}; {path} has {methods}"
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, why, {"Allow": methods})
        if options:
            raise bad(f"the path ends with {'?' + options[:60]!r}; there are no options but those in the body")
        return path

    def handle_expect_100(self) -> bool:
        """Ask for the body unless what is known of it is wrong."""
        self._unread = True
        if self._checked_path() == "/predict":
            self._length()
        self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _length(self) -> int:
        """Bytes of the body, once its headers are checked."""
        limit, headers = self.server.limits.max_bytes, self.headers
        if "Transfer-Encoding" in headers or "Content-Length" not in headers:
            why = "the request has no Content-Length, which it must have; a body must not be chunked"
            raise bad(why, HTTPStatus.LENGTH_REQUIRED)
        given = headers.get_all("Content-Length", [])
        if len(set(given)) > 1 or not re.fullmatch("[0-9]{1,18}", given[0]):
            raise bad(f"the Content-Length is {', '.join(given)[:60]!r}; it must be one number of bytes")
        if int(given[0]) > limit:
            why = f"the body has {int(given[0])} bytes; at most {limit} are read: send fewer rows at a time"
            raise bad(why, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._check_kind()
        return int(given[0])

    def _check_kind(self) -> None:
        """Raise unless the body is JSON in UTF-8, as it is."""
        headers = self.headers
        kind, packed = headers.get("Content-Type", "missing"), headers.get("Content-Encoding", "identity")
        json_ = headers.get_content_type() == JSON and headers.get_content_charset("utf-8") in ("utf-8", "utf8")
        if "Content-Type" not in headers or not json_ or packed.lower() != "identity":
            why = f"the Content-Type is {kind[:60]!r} and the Content-Encoding {packed[:60]!r}; the body must be {JSON}"
            raise bad(why + " in UTF-8, not compressed", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

    def _body(self) -> bytes:
        length = self._length()
        body = self.rfile.read(length)
        if len(body) < length:
            raise bad("the client has gone")
        self._unread = False
        return body

    def _predicted(self, body: bytes) -> bytes:
        """The answer to a body; what goes wrong in making it is told on stderr, not to the client."""
        server, begin = self.server, time.perf_counter()
        with server.metrics.in_flight():
            if not server.running.acquire(timeout=server.limits.timeout):
                why = f"{server.limits.max_running} requests are computed and this one has waited for its turn in vain"
                raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, why, {"Retry-After": "1"})
            try:
                query = read_query(body, server.predictor.asked)
                found = server.predictor.predict(query)
                n_rows = len(query.X) if isinstance(query.X, list) else query.X.shape[0]
            except RequestError:
                raise
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                raise bad("the server failed; its log says why", HTTPStatus.INTERNAL_SERVER_ERROR) from error
            finally:
                server.running.release()
        server.metrics.count_prediction(n_rows, time.perf_counter() - begin)
        return found

    def _refuse(self, refused: RequestError) -> None:
        """Say why; the connection is closed where the rest of the request is not read."""
        if self.request_version == "HTTP/0.9" or refused.code == HTTPStatus.REQUEST_TIMEOUT:
            self._unread = True
        body = json.dumps({"error": str(refused)}).encode()
        self._send(refused.code, body, headers=refused.headers)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say what is wrong with a request that is not HTTP; the rest of it is not read."""
        self._unread = True
        status = HTTPStatus(code)
        self._send(status, json.dumps({"error": (message or status.description)[:LONGEST_MESSAGE]}).encode())

    def _send(
        self,
        code: HTTPStatus,
        body: bytes,
        kind: str = JSON,
        headers: Mapping[str, str] | None = None,
        *,
        counted: bool = False,
    ) -> None:
        """Count and send an answer."""
        path = self.path.partition("?")[0]
        if not counted:
            self.server.metrics.count_request(path if path in METHODS else "other", code)
        self.close_connection = self.close_connection or self._unread or self.server.connections.stopping
        told = {"Date": self.date_time_string(), "Content-Type": kind, "Content-Length": str(len(body))}
        told |= {"Connection": "close" if self.close_connection else "keep-alive", **(headers or {})}
        head = f"HTTP/1.1 {code.value} {code.phrase}\r\n" + "".join(f"{name}: {v}\r\n" for name, v in told.items())
        self.connection.settimeout(self._seconds())
        try:
            self.connection.sendall(head.encode("latin-1") + b"\r\n" + (b"" if self.command == "HEAD" else body))
        except OSError:  # the client takes no answer, or has gone
            self._unread, self.close_connection = False, True

    def finish(self) -> None:
        """Let a client whose request was not read to its end read the answer before the connection is closed."""
        if self._unread:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
                self._reader.deadline, thrown = time.monotonic() + LINGER, 0
                while thrown < MOST_THROWN and (piece := self._reader.read(1 << 16)):
                    thrown += len(piece)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Tell nothing: `/metrics` counts."""
