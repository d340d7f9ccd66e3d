"""The server of `manyclass serve`: a Starlette application, uvicorn's connections with limits, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import importlib.resources
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any

from manyclass.compressed import printable
from manyclass.serving.predictor import SHOWN, Limits, Predictor

try:
    import prometheus_client
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from starlette.types import Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as missing:
    raise ImportError(f"the server needs {missing.name}: pip install 'manyclass[serve]'") from missing

Loaded = tuple[Predictor, Mapping[str, Any]]  # a model, and what is said of it
Load = Callable[[], Loaded]
PATHS = ("/predict", "/similar", "/health", "/metrics", "/info", "/")
LATE = "the request was not whole in time"
WORDS = {  # for Starlette's own errors
    404: f"there is no such path; the paths are {', '.join(PATHS)}",
    405: "the path has not this method; the header Allow names those that it has",
}
JSON_KIND = re.compile(r'application/json *(; *charset="?utf-?8"?)?', re.IGNORECASE)
# Seconds in which a client may read why it was refused: a socket that is closed at once, with bytes that were not read,
# resets the connection, and the answer is lost.
LINGER = 1.0
LONGEST = 500  # characters of a message, which may repeat what a client sent
# An address or a name, and a port, without a user or a path.
HOST = re.compile(r"(?:([\d.]+|\[[\da-f.:]+\])|([^@/?#\\\s:\[\]]+))(?::\d*)?", re.IGNORECASE)
EVERYWHERE = {"0.0.0.0", "::"}
PAGE_HEADERS = {  # the page runs its own script, and asks this server alone
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}
# Seconds: from a row of a small model, less than a millisecond, to a full batch of a large one.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@contextlib.contextmanager
def handling(handlers: Mapping[str, Callable[..., Any] | signal.Handlers]) -> Iterator[None]:
    """Handle signals, by their names, where the system has them; only the main thread can."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = {name: signal.Signals[name] for name in handlers if is_main and name in signal.Signals.__members__}
    before = {number: signal.signal(number, handlers[name]) for name, number in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log(text: str) -> None:
    """Write a line on stderr with the time, in which nothing but printable characters stands."""
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} {printable(text).replace(chr(10), ' ')}", file=sys.stderr, flush=True)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class Application:
    """What each path answers, and its counters.

    A request that is refused or fails has a line in the log; with `logs_all`, each has one.

    Parameters
    ----------
    loaded : tuple of Predictor and mapping
        The model, and what `/info` answers, as JSON.
    limits : Limits
    hosts : set of str
        Names that a request may have for the server: a page of another site, whose name leads to this address, must
        not ask. "*" allows all, and an address at which all are served any address.
    """

    def __init__(self, loaded: Loaded, limits: Limits, hosts: set[str], *, logs_all: bool) -> None:
        (self.predictor, self.info), self.limits, self._hosts = loaded, limits, hosts
        self.stopping, self._logs_all = False, logs_all
        self.pool, self._turns = ThreadPoolExecutor(limits.max_running), asyncio.Semaphore(limits.max_running)
        self._registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self._registry)
        how: Any = {"namespace": "manyclass", "registry": self._registry}
        count: Callable[..., Any] = partial(prometheus_client.Counter, **how)
        self.requests = count("requests", "Requests by path and code of the answer.", ["path", "code"])
        self.connections = count("connections", "Connections taken.")
        self.refused = count("connections_refused", "Connections refused, as there were too many.")
        self._rows = count("rows", "Rows predicted.")
        texts = "Predictions that wait or are computed.", "Seconds from the last byte of a request to its answer."
        self._in_flight = prometheus_client.Gauge("requests_in_flight", texts[0], **how)
        self._seconds = prometheus_client.Histogram("prediction_seconds", texts[1], buckets=BUCKETS, **how)
        page = importlib.resources.files("manyclass.serving").joinpath("page.html").read_bytes()
        routes = [
            Route("/predict", self._predict, methods=["POST"]),
            Route("/similar", self._predict, methods=["POST"]),
            Route("/info", self._info),
            Route("/metrics", self._metrics),
            Route("/health", JSONResponse({"status": "ok"}), methods=["GET"]),
            Route("/", Response(page, media_type="text/html", headers=PAGE_HEADERS), methods=["GET"]),
        ]
        handlers = {HTTPException: _refused, TimeoutError: _given_up, Exception: _failed}
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it, and count it."""
        path = scope["path"] if scope["path"] in PATHS else "other"
        begin, status = time.perf_counter(), 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self.requests.labels(path, status).inc()
                if self.stopping:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        why = self._refusal(scope)
        app = JSONResponse({"error": why}, 400) if why else self._app
        await app(scope, receive, counted)
        if self._logs_all or status >= HTTPStatus.BAD_REQUEST:
            client, milliseconds = (scope["client"] or ("a client",))[0], 1000 * (time.perf_counter() - begin)
            reason = _cut(why or scope.get("reason", ""))
            request = f"{scope['method']} {scope['path'][:SHOWN]}"
            log(f"{client} {request} {status} {milliseconds:.1f} ms{reason and ': '}{reason}")

    def _refusal(self, scope: Scope) -> str:
        """Say why a request is not for this server, whatever its path; the text is empty where it is."""
        headers = Request(scope).headers
        if scope["method"] == "OPTIONS" and "origin" in headers:
            return "pages of other sites may not ask this server (no CORS); put a proxy that allows them before it"
        host = headers.get("host")  # a request of HTTP 1.0 may have none; browsers send no such request
        address, name = match.groups("") if (match := HOST.fullmatch(host or "")) else ("", "")
        known = {"*", (name or address.strip("[]")).lower()} if match else set()
        if not (host is None or known & self._hosts or (address and EVERYWHERE & self._hosts)):
            return f"the host is {host[:SHOWN]!r}, which is not this server's; start it with --allowed-host NAME"
        query = scope["query_string"]
        return "the path has a query after '?'; there are no options but those in the body" if query else ""

    async def _info(self, request: Request) -> Response:
        return JSONResponse(self.info)

    async def _metrics(self, request: Request) -> Response:
        counted = prometheus_client.generate_latest(self._registry)
        return Response(counted, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def _predict(self, request: Request) -> Response:
        body, begin = await self._body(request), time.perf_counter()
        with self._in_flight.track_inprogress():
            try:
                async with asyncio.timeout(self.limits.timeout):
                    await self._turns.acquire()
            except TimeoutError as error:
                why = f"{self.limits.max_running} requests are computed and this one has waited for its turn in vain"
                raise TimeoutError(why) from error
            try:
                compute = partial(self._compute, body, request.url.path)
                n_rows, answer = await asyncio.get_running_loop().run_in_executor(self.pool, compute)
            finally:
                self._turns.release()
        self._rows.inc(n_rows)
        self._seconds.observe(time.perf_counter() - begin)
        return Response(answer, media_type="application/json")

    def _compute(self, body: bytes, path: str) -> tuple[int, bytes]:
        """Return the number of rows and the answer."""
        until, predictor = time.monotonic() + self.limits.max_seconds, self.predictor  # which may be loaded anew
        try:
            if path == "/similar":
                return predictor.similar(body)
            query = predictor.read(body)
        except (ValueError, TypeError, OverflowError) as error:
            raise HTTPException(400, str(error)) from error
        return query.X.shape[0], predictor.predict(query, until)

    async def _body(self, request: Request) -> bytes:
        """Return the body, once its headers are checked."""
        headers, most = request.headers, self.limits.max_bytes
        length, kind = headers.get("content-length"), headers.get("content-type", "missing")
        packed = headers.get("content-encoding", "identity")
        why = f"the Content-Type is {kind[:SHOWN]!r} and the Content-Encoding {packed[:SHOWN]!r}; "
        why += "the body must be application/json in UTF-8, not compressed"
        unsized = length is None or "transfer-encoding" in headers
        for is_wrong, code, reason in (
            (unsized, 411, "the request has no Content-Length, which it must have; a body must not be chunked"),
            (int(length or 0) > most, 413, f"the body has {length} bytes, more than {most}: send fewer rows at a time"),
            (not JSON_KIND.fullmatch(kind) or packed.lower() != "identity", 415, why),
        ):
            if is_wrong:
                # A client that waits for a go-ahead may send its body after a refusal or not: the connection is closed.
                raise HTTPException(code, reason, {"Connection": "close"} if "expect" in headers else None)
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await request.body()
        except (TimeoutError, ClientDisconnect) as error:
            raise HTTPException(408, LATE, {"Connection": "close"}) from error


async def _refused(request: Request, error: Any) -> Response:
    message = WORDS.get(error.status_code, error.detail)
    message = _cut(message.encode("utf-8", "backslashreplace").decode())  # it may repeat halves of surrogate pairs
    request.scope["reason"] = message
    return JSONResponse({"error": message}, error.status_code, error.headers)


async def _given_up(request: Request, error: Exception) -> Response:
    return await _refused(request, HTTPException(503, str(error), {"Retry-After": "1"}))


async def _failed(request: Request, error: Exception) -> Response:
    """Print what went wrong inside on stderr, and keep it from the client."""
    traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": "the server failed; its log says why"}, 500)


class Connection(H11Protocol):
    """HTTP with one client, who has a bounded time to send a request and to take its answer.

    uvicorn bounds the size of a request's head, and the time between requests.
    """

    def __init__(self, app: Application, **options: Any) -> None:
        super().__init__(**options)
        self._application, self._limits = app, app.limits
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a client, or refuse it."""
        super().connection_made(transport)
        # An answer is written in pieces: asyncio forgets this for sockets whose protocol is not named.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(0)  # `pause_writing` is told whenever something is not taken at once
        self.timeout_keep_alive_task = self.loop.call_later(self._limits.timeout, self.timeout_keep_alive_handler)
        most = self._limits.max_connections
        if len(self.connections) > most or len(self.tasks) >= most:  # requests whose clients have gone are tasks, too
            self._application.refused.inc()
            self._refuse(503, f"there are {most} connections, as many as are taken; try again")
        else:
            self._application.connections.inc()

    def data_received(self, data: bytes) -> None:
        """Read, and watch the time while the head of a request is not whole."""
        if self not in self.connections:  # it was refused
            return
        super().data_received(data)
        self._end_by(self._is_late, when=not self.cycle or self.cycle.response_complete)

    def _end_by(self, end: Callable[[], None], *, when: bool) -> None:
        """Call `end` after the time that a client has, unless this is called in time, with `when` false."""
        if when and end not in self._timers:
            self._timers[end] = self.loop.call_later(self._limits.timeout, end)
        elif not when and end in self._timers:
            self._timers.pop(end).cancel()

    def _is_late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, LATE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request of HTTP."""
        self._refuse(400, "the request is not one of HTTP/1.1, or its head is too long")

    def _refuse(self, code: int, why: str) -> None:
        """Answer in place of the application, and close the connection."""
        self.connections.discard(self)
        self._application.requests.labels("other", code).inc()
        log(f"a connection was refused with {code}: {why}")
        body = json.dumps({"error": why}).encode()
        head = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Retry-After: 1\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.abort)

    def pause_writing(self) -> None:
        """Watch the time until what was written has been taken."""
        super().pause_writing()
        self._end_by(self.transport.abort, when=True)

    def resume_writing(self) -> None:
        """Go on once all has been taken."""
        super().resume_writing()
        self._end_by(self.transport.abort, when=False)


class Server(uvicorn.Server):
    """A server of one model, which listens once it is made.

    Parameters
    ----------
    host : str
        Name or address; an IPv6 one has a colon.
    port : int
        0: any free one.
    load : callable
        Returns a predictor, and what `/info` answers, as JSON; at SIGHUP anew, when an error leaves those that there
        are.
    limits : Limits
    hosts : iterable of str
        Names by which requests may call this server beside its own; "*" allows all.
    logs_all : bool
        Whether each request has a line in the log, and not only those that are refused.

    Raises
    ------
    OSError
        If there is no such host, or the port is in use.
    """

    def __init__(
        self,
        host: str,
        port: int,
        load: Load,
        limits: Limits,
        hosts: Iterable[str] = (),
        *,
        logs_all: bool = False,
    ) -> None:
        self._load, self._loading, self._finished, loaded = load, threading.Lock(), True, load()
        self._workers: list[int] = []
        try:
            address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self.socket = socket.create_server(address[4][:2], family=address[0])
        except OSError as error:
            raise OSError(f"{host}, port {port}: {error.strerror or error}") from error
        address, port = self.socket.getsockname()[:2]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{port}"
        names = {"localhost", "127.0.0.1", "::1", address, host.lower(), *map(str.lower, hosts)}
        self.application = Application(loaded, limits, names, logs_all=logs_all)
        options: Any = {"http": partial(Connection, self.application), "timeout_keep_alive": limits.timeout}
        options |= {"loop": "asyncio", "ws": "none", "lifespan": "off", "proxy_headers": False, "server_header": False}
        options |= {"timeout_graceful_shutdown": limits.grace, "log_config": None, "log_level": "critical"}
        super().__init__(uvicorn.Config(self.application, **options))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests that run, if they end in time."""
        self.application.stopping = True
        await super().shutdown(sockets)
        self._finished = not self.server_state.tasks  # those left have been cancelled, and have not seen it yet
        self.application.pool.shutdown(wait=False, cancel_futures=True)

    def load_anew(self) -> None:
        """Load the model again, for the requests to come; the old one stays where the new one cannot be read."""
        with self._loading:
            try:
                self.application.predictor, self.application.info = self._load()
            except Exception as error:  # whatever is wrong with a file must not end the server
                log(f"the old model stays, as the new one cannot be loaded: {_cut(str(error) or repr(error))}")
            else:
                log("the model was loaded anew")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end, and let other workers end."""
        self._signal_workers(sig)
        super().handle_exit(sig, frame)

    def _signal_workers(self, number: int) -> None:
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)

    def run_until_signal(self, ready: Callable[[], None], n_workers: int = 1) -> bool:
        """Serve until SIGTERM or SIGINT, and finish what runs; a second SIGINT ends that at once. SIGHUP loads anew.

        Parameters
        ----------
        ready : callable
            Called once clients can connect and a signal ends the server well.
        n_workers : int
            Processes that serve, this one among them, which passes signals on to the others and ends after them.

        Returns
        -------
        bool
            Whether all that ran was finished.
        """

        def hang_up(number: int, _: object) -> None:
            self._signal_workers(number)
            threading.Thread(target=self.load_anew, daemon=True).start()

        # uvicorn raises a signal anew after the end, for handlers that were there before: it would end the process.
        handlers: dict[str, Any] = {"SIGTERM": self.handle_exit, "SIGINT": self.handle_exit, "SIGHUP": hang_up}
        with handling(handlers), self.socket:
            for _ in range(n_workers - 1):
                self._workers.append(os.fork())
                if self._workers[-1] == 0:  # a worker goes on here, and has none of its own
                    self._workers.clear()
                    break
            if len(self._workers) == n_workers - 1:
                log(f"serving at {self.url}")
                ready()
            self.run(sockets=[self.socket])
        for worker in self._workers:
            os.waitpid(worker, 0)
        log("ended")
        return self._finished
