"""Predictions of one model over HTTP: the Starlette application and the uvicorn server of `manyclass serve`."""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import json
import re
import signal
import socket
import sys
import time
import traceback
from collections import Counter as Count
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import canonical_csr, check_flag, check_number, did_you_mean
from manyclass.classifiers.base import (
    LinearClassifier,
    build_index,
    has_probabilities,
    state_of,
    vectorizer_of,
    with_state,
)
from manyclass.classifiers.exclusion import excluded
from manyclass.datasets import l2_normalize
from manyclass.training.state import Features

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

LABELS: tuple[set[type], ...] = ({str}, {int, float}, {bool})  # kinds of labels that may stand in one list
KEYS = ("rows", "row", "k", "exclude", "approximate")
PATHS = ("/predict", "/health", "/metrics", "/info")
LATE = "the request was not whole in time"
JSON_KIND = re.compile(r'application/json *(; *charset="?utf-?8"?)?', re.IGNORECASE)
LARGEST = float(np.finfo(np.float32).max)  # features are float32
SHOWN = 60  # characters of a wrong value that a message repeats
# Seconds in which a client may read why it was refused: a socket that is closed at once, with bytes that were not read,
# resets the connection, and the answer is lost.
LINGER = 1.0
BACKLOG = 128  # clients that have connected and are not accepted yet
# Seconds: from a row of a small model, less than a millisecond, to a full batch of a large one.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Limits:
    """Bounds on requests, connections and waiting; the defaults of the command stand with their reasons in its page.

    Together they bound the memory that clients can take: the bodies of all connections, and some ten to twenty times
    the size of a body, which is what JSON takes as Python objects, for each request that is computed.

    Attributes
    ----------
    max_bytes : int
        Bytes of a body.
    max_rows : int
        Rows of a request.
    max_k : int
        Labels of a row.
    max_connections : int
        Clients at once, and requests whose clients have gone before the answer; one more is refused with 503.
    max_running : int
        Requests that are read as JSON and computed at once, each in a thread; others wait for `timeout` seconds.
    timeout : float
        Seconds in which a client must have sent the head of a request, its body, and must have taken the answer, and
        for which a connection is kept for a next request.
    grace : float
        Seconds in which requests that run are finished once the server is asked to stop.
    """

    max_bytes: int
    max_rows: int
    max_k: int
    max_connections: int
    max_running: int
    timeout: float
    grace: float

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a limit that is none."""
        for field in fields(self):
            number = field.name in ("timeout", "grace")
            low = 0 if number else 1
            check_number(field.name, getattr(self, field.name), low=low, open_low=number, integer=not number)


class Query(NamedTuple):
    """A request as a model takes it: rows as a matrix or texts, and the classes that each row is not to get."""

    X: sp.csr_array | NDArray[np.float32] | list[str]
    k: int
    exclude: sp.csr_array | None
    approximate: bool
    n_rows: int


class Predictor:
    """A loaded model that answers requests of several threads, and the checks of what they ask.

    Predictions of a fitted model write to nothing that threads share, except the index of `approximate`, which is
    built and tuned before the first request: later searches only read it.

    Parameters
    ----------
    model : fitted classifier
        Its `n_jobs` is the number of threads of each request.
    limits : Limits
    k : int
        Labels of a row where a request does not say; all of them where the model has fewer.
    normalize : bool, default=False
        Whether rows are divided by their Euclidean norm, as they were in the fit.
    """

    def __init__(self, model: LinearClassifier, limits: Limits, k: int, *, normalize: bool = False) -> None:
        check_number("k", k, low=1, high=limits.max_k, integer=True)
        state = state_of(model)
        unnamed = Features(state.features.n, None)  # rows of requests have no names to compare with them
        self._model = with_state(copy.copy(model), replace(state, features=unnamed))
        self._vectorizer: Any = vectorizer_of(model)
        self._normalize = normalize
        self._recall = 0.0  # 0: there is no index
        self._classes: NDArray[Any] = model.classes_
        self._n_features, self._max_rows = int(model.n_features_in_), limits.max_rows
        text = self._classes.dtype.kind in "OU"
        self._longest = max(map(len, self._classes.tolist())) if text else 0
        self.k, self.max_k = min(k, len(self._classes)), min(limits.max_k, len(self._classes))
        self.has_probabilities = has_probabilities(model)
        # What a model computes once, at its first prediction, is computed before threads ask for it.
        empty = sp.csr_array(np.zeros((1, self._n_features), np.float32))
        self.predict(Query(empty if self._vectorizer is None else [""], 1, None, False, 1))

    def about(self) -> dict[str, Any]:
        """Return what `/info` tells of it."""
        found = {"k": self.k, "max_k": self.max_k, "texts": self._vectorizer is not None}
        return found | {"probabilities": self.has_probabilities, "approximate": self._recall > 0}

    def build_index(self, X: Any, recall: float) -> None:
        """Build the index of approximate answers, and tune it by rows that are like those to come.

        Raises
        ------
        ValueError
            If there is no use for one, or there are too few rows.
        """
        build_index(self._model, X, self.k, recall)
        self._recall = recall

    def read(self, body: bytes) -> Query:
        """Return what the body of a request asks for.

        Raises
        ------
        ValueError or TypeError
            If the model does not take it; the message names the value, the rule and the choices.
        """
        given = _decoded(body)
        if not isinstance(given, dict) or ("row" in given) == ("rows" in given):
            raise ValueError(f"the body is {_shown(given)}; it must be an object with one of the keys 'rows' and 'row'")
        for key in given:
            if key not in KEYS:
                hint = did_you_mean(key, KEYS)
                raise ValueError(f"the key {_shown(key)} is unknown; the keys are {', '.join(KEYS)}{hint}")
        single = "row" in given
        rows = [given["row"]] if single else given["rows"]
        if not isinstance(rows, list) or not 1 <= len(rows) <= self._max_rows:
            raise ValueError(f"rows is {_shown(rows)}; it must be a list of 1 to {self._max_rows} rows")
        approximate, exclude = given.get("approximate", False), given.get("exclude")
        check_flag("approximate", approximate)
        if approximate and not self._recall:
            raise ValueError("approximate is true; this server was started without --approximate and has no index")
        if approximate and exclude is not None:
            raise ValueError("exclude is given with approximate, whose index knows no exclude; leave one of them out")
        k, most = given.get("k", self.k), self.k if approximate else self.max_k
        check_number("k, with approximate," if approximate else "k", k, low=1, high=most, integer=True)
        wrong = self._exclude(exclude, len(rows), single)
        return Query(self._matrix(rows), k, wrong, approximate, len(rows))

    def _matrix(self, rows: list[Any]) -> sp.csr_array | NDArray[np.float32] | list[str]:
        """Return the rows, which must all be of one kind."""
        kind, texts = type(rows[0]), self._vectorizer is not None
        for at, row in enumerate(rows):
            if type(row) is not kind:
                both = f"rows[0] is {_shown(rows[0])} and rows[{at}] {_shown(row)}"
                raise ValueError(f"{both}; rows must be of one kind")
        if kind is list:
            return _dense(rows, self._n_features)
        if kind is dict:
            return _sparse(rows, self._n_features)
        if kind is str and texts:
            "".join(rows).encode()  # which says where half of a surrogate pair is
            return rows
        rule = f"a list of {self._n_features} numbers, or an object with the keys 'indices' and 'values'"
        rule = f"a text, {rule}" if texts else f"{rule}; texts are for models that have a text vectorizer"
        raise ValueError(f"rows[0] is {_shown(rows[0])}; a row must be {rule}")

    def _exclude(self, given: Any, n_rows: int, single: bool) -> sp.csr_array | None:
        if given is None:
            return None
        lists = [given] if single else given
        if not isinstance(lists, list) or not all(isinstance(labels, list) for labels in lists):
            raise ValueError(f"exclude must be {'a list of labels' if single else 'a list of labels for each row'}")
        if not all(any(set(map(type, labels)) <= kind for kind in LABELS) for labels in lists):
            raise ValueError("exclude must hold labels of one kind in each list, all texts or all numbers")
        if self._longest:  # NumPy gives each label of a list the length of the longest; one of the model's is shorter
            lists = [[a for a in labels if not isinstance(a, str) or len(a) <= self._longest] for labels in lists]
        if self._classes.dtype.kind in "mM":
            lists = [np.array(labels, dtype=self._classes.dtype) for labels in lists]
        indptr, positions = excluded(lists, n_rows, self._classes)
        ones = np.ones(len(positions), dtype=np.float32)
        return sp.csr_array((ones, positions, indptr), shape=(n_rows, len(self._classes)))

    def predict(self, query: Query) -> bytes:
        """Return the answer to a query as JSON, each row as `manyclass predict --output-format jsonl` writes it."""
        X: Any = self._vectorizer.transform(query.X) if isinstance(query.X, list) else query.X
        X = l2_normalize(sp.csr_array(X)) if self._normalize else X
        how: dict[str, Any] = {"approximate": True, "recall": self._recall} if query.approximate else {}
        k = self.k if query.approximate else query.k
        labels, scores = self._model.predict_top_k(X, k, **how, exclude=query.exclude)
        told = {"labels": (labels.astype(str) if labels.dtype.kind in "mM" else labels).tolist()}
        told |= {"scores": _rounded(scores)}
        told |= {"probabilities": _rounded(np.exp(scores))} if self.has_probabilities else {}
        found = []
        for row, n in enumerate((scores > -np.inf).sum(axis=1).tolist()):  # a label that is missing has the score -inf
            found.append({"row": row} | {name: lists[row][: min(n, query.k)] for name, lists in told.items()})
        return json.dumps({"predictions": found}, allow_nan=False).encode("ascii")


def _rounded(values: NDArray[np.float32]) -> list[list[float]]:
    """Return six digits of each value, of which float32 holds hardly more."""
    return [[float(f"{value:.6g}") for value in row] for row in values.tolist()]


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # ValueError, too, for numbers of thousands of digits
        raise ValueError(f"the body is not JSON in UTF-8: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON, which are finite")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; a name that occurs twice is refused."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Count(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {_shown(twice)} occurs twice in an object")
    return found


def _shown(value: Any) -> str:
    """Return a value of JSON as a message repeats it."""
    if isinstance(value, dict | list):
        return f"a list of {len(value)}" if isinstance(value, list) else f"an object with {len(value)} keys"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _check_numbers(values: list[Any], name: str, low: float, high: float, *kinds: type) -> None:
    """Raise ValueError for the first of the values that is of another kind or outside of [low, high]."""
    if set(map(type, values)) <= set(kinds) and (not values or (low <= min(values) and max(values) <= high)):
        return
    at = next(at for at, value in enumerate(values) if type(value) not in kinds or not low <= value <= high)
    what = "a number" if float in kinds else "an integer"
    raise ValueError(f"{name}[{at}] is {_shown(values[at])}; it must be {what} in [{low:.7g}, {high:.7g}]")


def _dense(rows: list[list[Any]], n_features: int) -> NDArray[np.float32]:
    for at, row in enumerate(rows):
        if len(row) != n_features:
            raise ValueError(f"rows[{at}] has {len(row)} numbers; the model has {n_features} features")
        _check_numbers(row, f"rows[{at}]", -LARGEST, LARGEST, int, float)
    return np.array(rows, dtype=np.float64).astype(np.float32)


def _sparse(rows: list[dict[str, Any]], n_features: int) -> sp.csr_array:
    """Return rows of pairs, in any order; the values of a column that occurs several times are summed."""
    for at, row in enumerate(rows):
        lists = [row.get("indices"), row.get("values")]
        if len(row) != 2 or not all(isinstance(some, list) for some in lists):
            keys = ", ".join(f"{_shown(key)}: {_shown(some)}" for key, some in [*row.items()][:5])
            raise ValueError(f"rows[{at}] is {{{keys}}}; it must have two lists, 'indices' and 'values'")
        if len(row["indices"]) != len(row["values"]):
            n = f"{len(row['indices'])} indices and {len(row['values'])} values"
            raise ValueError(f"rows[{at}] has {n}; there must be as many of both")
        _check_numbers(row["indices"], f"rows[{at}].indices", 0, n_features - 1, int)
        _check_numbers(row["values"], f"rows[{at}].values", -LARGEST, LARGEST, int, float)
    indptr = np.cumsum([0, *(len(row["indices"]) for row in rows)])
    indices = np.array([j for row in rows for j in row["indices"]], dtype=np.int32)
    values = np.array([value for row in rows for value in row["values"]], dtype=np.float64).astype(np.float32)
    X = canonical_csr(sp.csr_array((values, indices, indptr), shape=(len(rows), n_features)))
    if not np.isfinite(X.data).all():
        raise ValueError(f"the values of a column that occurs several times have a sum beyond {LARGEST:.7g}")
    return X


class Application:
    """What each path answers, and its counters.

    Parameters
    ----------
    predictor : Predictor
    info : mapping
        What `/info` answers, as JSON.
    limits : Limits
    is_known : callable
        Whether a request may name this host: a page of another site, whose name leads to this address, must not ask.
    """

    def __init__(
        self, predictor: Predictor, info: Mapping[str, Any], limits: Limits, is_known: Callable[[str], bool]
    ) -> None:
        self.predictor, self.limits, self._is_known = predictor, limits, is_known
        self.stopping = False
        self.pool = ThreadPoolExecutor(limits.max_running)
        self._turns = asyncio.Semaphore(limits.max_running)
        self._registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self._registry)
        count = partial(prometheus_client.Counter, namespace="manyclass", registry=self._registry)
        self.requests = count("requests", "Requests by path and code of the answer.", ["path", "code"])
        self.connections = count("connections", "Connections taken.")
        self.refused = count("connections_refused", "Connections refused, as there were too many.")
        self._rows = count("rows", "Rows predicted.")
        name, text = "manyclass_requests_in_flight", "Predictions that wait or are computed."
        self._in_flight = prometheus_client.Gauge(name, text, registry=self._registry)
        name, text = "manyclass_prediction_seconds", "Seconds from the last byte of a request to its answer."
        self._seconds = prometheus_client.Histogram(name, text, registry=self._registry, buckets=BUCKETS)
        metrics = partial(prometheus_client.generate_latest, self._registry)
        answers: dict[str, Callable[[], Response]] = {
            "/health": lambda: JSONResponse({"status": "ok"}),
            "/info": lambda: JSONResponse(info),
            "/metrics": lambda: Response(metrics(), media_type=prometheus_client.CONTENT_TYPE_LATEST),
        }
        routes = [Route(path, partial(_answered, answer)) for path, answer in answers.items()]
        routes.append(Route("/predict", self._predict, methods=["POST"]))
        self._app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it, and count it."""
        path = scope["path"] if scope["path"] in PATHS else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.requests.labels(path, message["status"]).inc()
                if self.stopping:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        host = Request(scope).headers.get("host")  # a request of HTTP 1.0 may have none; browsers send no such request
        why = ""
        if scope["query_string"]:
            why = "the path has a query after '?'; there are no options but those in the body"
        if host is not None and not self._is_known(host):
            why = f"the host is {host[:SHOWN]!r}, which is not this server's; start it with --allowed-host NAME"
        app = JSONResponse({"error": why}, HTTPStatus.BAD_REQUEST) if why else self._app
        await app(scope, receive, counted)

    async def _predict(self, request: Request) -> Response:
        body, begin = await self._body(request), time.perf_counter()
        with self._in_flight.track_inprogress():
            try:
                async with asyncio.timeout(self.limits.timeout):
                    await self._turns.acquire()
            except TimeoutError as error:
                why = f"{self.limits.max_running} requests are computed and this one has waited for its turn in vain"
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, why, {"Retry-After": "1"}) from error
            try:
                n_rows, found = await asyncio.get_running_loop().run_in_executor(self.pool, self._computed, body)
            finally:
                self._turns.release()
        self._rows.inc(n_rows)
        self._seconds.observe(time.perf_counter() - begin)
        return Response(found, media_type="application/json")

    def _computed(self, body: bytes) -> tuple[int, bytes]:
        """Return the number of rows and the answer."""
        try:
            query = self.predictor.read(body)
        except (ValueError, TypeError, OverflowError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error
        return query.n_rows, self.predictor.predict(query)

    async def _body(self, request: Request) -> bytes:
        """Return the body, once its headers are checked."""
        headers, most = request.headers, self.limits.max_bytes
        length, kind = headers.get("content-length"), headers.get("content-type", "missing")
        packed = headers.get("content-encoding", "identity")
        # A client that waits for a go-ahead may send its body nevertheless, or not: what follows could be either.
        close = {"Connection": "close"} if "expect" in headers else None
        if length is None or "transfer-encoding" in headers:
            why = "the request has no Content-Length, which it must have; a body must not be chunked"
            raise HTTPException(HTTPStatus.LENGTH_REQUIRED, why, close)
        if int(length) > most:
            why = f"the body has {length} bytes; at most {most} are read: send fewer rows at a time"
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why, close)
        if not JSON_KIND.fullmatch(kind) or packed.lower() != "identity":
            why = f"the Content-Type is {kind[:SHOWN]!r} and the Content-Encoding {packed[:SHOWN]!r}; "
            why += "the body must be application/json in UTF-8, not compressed"
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why, close)
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await request.body()
        except TimeoutError as error:
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, LATE, {"Connection": "close"}) from error
        except ClientDisconnect as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "the client has gone") from error


async def _answered(answer: Callable[[], Response], request: Request) -> Response:
    return answer()


async def _refused(request: Request, error: Any) -> Response:
    """Answer with an error, of Starlette's own with words of ours."""
    words = {HTTPStatus.NOT_FOUND: f"there is no such path; the paths are {', '.join(PATHS)}"}
    words[HTTPStatus.METHOD_NOT_ALLOWED] = "the path has not this method; the header Allow names those that it has"
    return JSONResponse({"error": words.get(error.status_code, error.detail)}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Tell what went wrong inside on stderr, and not to the client."""
    traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": "the server failed; its log says why"}, HTTPStatus.INTERNAL_SERVER_ERROR)


class Connection(H11Protocol):
    """HTTP with one client, who has a bounded time to send a request and to take its answer.

    uvicorn bounds the size of a request's head, and the time between requests.
    """

    def __init__(self, app: Application, **given: Any) -> None:
        super().__init__(**given)
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
            why = f"there are {most} connections, as many as are taken; try again"
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, why)
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
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, LATE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not one of HTTP/1.1, or its head is too long")

    def _refuse(self, code: HTTPStatus, why: str) -> None:
        """Answer what the application does not see, and close the connection."""
        self.connections.discard(self)
        self._application.requests.labels("other", code.value).inc()
        body = json.dumps({"error": why}).encode()
        head = f"HTTP/1.1 {code.value} {code.phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
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
    predictor : Predictor
    info : mapping
        What `/info` answers, as JSON.
    limits : Limits
    allowed_hosts : iterable of str
        Names by which requests may call this server beside its own; "*" allows all.

    Raises
    ------
    OSError
        If there is no such host, or the port is in use.
    """

    def __init__(
        self,
        host: str,
        port: int,
        predictor: Predictor,
        info: Mapping[str, Any],
        limits: Limits,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self.socket = socket.create_server(found[4][:2], family=found[0], backlog=BACKLOG)
        except OSError as error:
            raise OSError(f"{host}, port {port}: {error.strerror or error}") from error
        self.address: str = self.socket.getsockname()[0]
        self._hosts = {"localhost", "127.0.0.1", "::1", self.address, host.lower(), *map(str.lower, allowed_hosts)}
        self.finished = True  # whether all that ran was finished at the end
        self.application = Application(predictor, info, limits, self._is_known)
        options: dict[str, Any] = {  # whose seconds are floats, beside uvicorn's declaration
            "timeout_keep_alive": limits.timeout,
            "timeout_graceful_shutdown": limits.grace,
            "http": partial(Connection, self.application),
        }
        options |= {"loop": "asyncio", "ws": "none", "lifespan": "off", "proxy_headers": False, "server_header": False}
        options |= {"log_config": None, "log_level": "critical", "access_log": False, "backlog": BACKLOG}
        super().__init__(uvicorn.Config(self.application, **options))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{f'[{self.address}]' if ':' in self.address else self.address}:{self.socket.getsockname()[1]}"

    def _is_known(self, host: str) -> bool:
        """Whether this is a name or an address of the server, which may be any address if it listens at all of them."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return bool({"*", name} & self._hosts) or (
                ipaddress.ip_address(self.address).is_unspecified and bool(ipaddress.ip_address(name))
            )
        except ValueError:  # no host at all, or a name where an address would be known
            return False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests that run, if they end in time."""
        self.application.stopping = True
        await super().shutdown(sockets)
        self.finished = not self.server_state.tasks  # those that are left have been cancelled, and have not seen it yet
        self.application.pool.shutdown(wait=False, cancel_futures=True)

    def run_until_signal(self, ready: Callable[[], None]) -> bool:
        """Serve until SIGTERM or SIGINT, and finish what runs; a second SIGINT ends that at once.

        Parameters
        ----------
        ready : callable
            Called once clients can connect and a signal ends the server well.

        Returns
        -------
        bool
            Whether all that ran was finished.
        """
        # uvicorn raises a signal anew after the end, for handlers that were there before: it would end the process.
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            ready()
            self.run(sockets=[self.socket])
        finally:
            self.socket.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self.finished
