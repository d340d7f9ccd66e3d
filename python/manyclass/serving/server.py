"""The server: a thread for each of a bounded number of connections, and an end that finishes what runs."""

from __future__ import annotations

import collections
import contextlib
import json
import signal
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from typing import Any

from manyclass.serving.handler import LINGER, Handler
from manyclass.serving.limits import Limits
from manyclass.serving.metrics import Metrics
from manyclass.serving.predictor import Predictor

POLL = 0.1  # seconds until the loop that accepts connections sees that it is to end
MOST_REFUSED = 64  # connections that were refused and are open until their answer is read


class Connections:
    """The connections: how many there are, and which wait for a request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._n = 0
        self._waiting: set[socket.socket] = set()
        self.stopping = False

    def take(self) -> bool:
        """Take one more, if there may be."""
        with self._changed:
            taken = self._n < self._most
            self._n += taken
            return taken

    def give_back(self) -> None:
        """One has ended."""
        with self._changed:
            self._n -= 1
            self._changed.notify_all()

    def may_wait(self, connection: socket.socket) -> bool:
        """Note that a connection waits for a request; False once the server is to stop."""
        with self._changed:
            if not self.stopping:
                self._waiting.add(connection)
            return not self.stopping

    def waits_no_more(self, connection: socket.socket) -> None:
        """Note that a request has begun, or none will."""
        with self._changed:
            self._waiting.discard(connection)

    def stop(self, seconds: float) -> bool:
        """End those that wait for a request, and wait for the others; False if some are left after the time."""
        with self._changed:
            self.stopping = True
            for connection in self._waiting:
                with contextlib.suppress(OSError):  # the client may have left
                    connection.shutdown(socket.SHUT_RD)
            return self._changed.wait_for(lambda: self._n == 0, timeout=seconds)


class Server(ThreadingHTTPServer):
    """Answers requests for predictions of one model.

    Parameters
    ----------
    host : str
        Name or address; an IPv6 one has a colon.
    port : int
        0: any free one.
    predictor : Predictor
    info : mapping
        What `/info` answers, as JSON.
    limits : Limits

    Raises
    ------
    OSError
        If there is no such host, or the port is in use.
    """

    daemon_threads = True
    block_on_close = False  # `stop` waits, for a bounded time
    # Clients that have connected while others are accepted; the usual 5 refuse a burst. Systems cut it to their own.
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, predictor: Predictor, info: Mapping[str, Any], limits: Limits | None = None
    ) -> None:
        self.predictor = predictor
        self.info = dict(info)
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.connections = Connections(self.limits.max_connections)
        self.running = threading.BoundedSemaphore(self.limits.max_running)
        self._refused: collections.deque[tuple[float, socket.socket]] = collections.deque()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self.address_family = found[0]
            super().__init__(found[4][:2], Handler)  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(f"{host}, port {port}: {error.strerror or error}") from error

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or refuse it."""
        taken = self.connections.take()
        self.metrics.count_connection(taken=taken)
        if not taken:
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.connections.give_back()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.give_back()

    def _refuse(self, request: socket.socket) -> None:
        """Say that there are too many connections; close once that can have been read."""
        why = f"there are {self.limits.max_connections} connections, as many as are taken; try again"
        body = json.dumps({"error": why}).encode()
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Retry-After: 1\r\nContent-Length: {len(body)}\r\n\r\n"
        with contextlib.suppress(OSError):
            request.setblocking(False)  # some hundred bytes have room in the buffer of a new socket
            request.send(head.encode() + body)
            request.shutdown(socket.SHUT_WR)
        self._refused.append((time.monotonic() + LINGER, request))
        if len(self._refused) > MOST_REFUSED:
            self._close_refused(self._refused.popleft()[1])

    def service_actions(self) -> None:
        """Close what was refused a while ago; called by the loop that accepts connections."""
        while self._refused and self._refused[0][0] <= time.monotonic():
            self._close_refused(self._refused.popleft()[1])

    def _close_refused(self, request: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request.recv(1 << 16)  # unread bytes would reset the connection
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell an error on stderr, unless it is a client that has gone."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc(file=sys.stderr)

    def stop(self) -> bool:
        """Take no more connections and finish the requests that run; False if `limits.grace` was too short for them."""
        self.shutdown()
        self.server_close()
        while self._refused:
            self._close_refused(self._refused.popleft()[1])
        return self.connections.stop(self.limits.grace)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve in a thread; stop at the end."""
    _start(server)
    try:
        yield server
    finally:
        server.stop()


def _start(server: Server) -> None:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL}, daemon=True).start()


def serve_until_signal(server: Server, ready: Callable[[], None]) -> bool:
    """Serve until SIGTERM or SIGINT comes, then finish what runs; a second signal ends the process at once.

    Parameters
    ----------
    server : Server
    ready : callable
        Called once connections are accepted and signals end the server well.

    Returns
    -------
    bool
        Whether all that ran was finished.
    """
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _start(server)
        ready()
        asked.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return server.stop()
