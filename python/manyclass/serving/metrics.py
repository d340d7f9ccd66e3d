"""Counters of a server, in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import bisect
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: from a row of a small model, less than a millisecond, to a full batch of a large one.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STATM = "/proc/self/statm"  # of Linux; elsewhere memory is not told


class Metrics:
    """What a server has done so far; methods may be called by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._rows = self._in_flight = self._connections = self._refused = 0

    def count_request(self, path: str, code: int) -> None:
        """Count a request by its path, one of a few, and the code of its answer."""
        with self._lock:
            self._requests[path, code] += 1

    def count_prediction(self, n_rows: int, seconds: float) -> None:
        """Count rows that were predicted, and the time from the last byte of the request to the answer."""
        with self._lock:
            self._rows += n_rows
            self._seconds += seconds
            self._buckets[bisect.bisect_left(BUCKETS, seconds)] += 1

    def count_connection(self, *, taken: bool) -> None:
        """Count a connection, or one that was refused."""
        with self._lock:
            self._connections += taken
            self._refused += not taken

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a prediction while it is in the making."""
        with self._lock:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def text(self) -> str:
        """Return all of them as text."""
        with self._lock:
            requests, buckets, seconds = sorted(self._requests.items()), list(self._buckets), self._seconds
            numbers = (
                ("rows_total", "counter", "Rows predicted.", self._rows),
                ("connections_total", "counter", "Connections taken.", self._connections),
                ("connections_refused_total", "counter", "Connections refused, as there were too many.", self._refused),
                ("requests_in_flight", "gauge", "Predictions that wait or are computed.", self._in_flight),
            )
        lines = _headed("requests_total", "counter", "Requests by path and code of the answer.")
        lines += [f'manyclass_requests_total{{path="{path}",code="{code}"}} {n}' for (path, code), n in requests]
        for name, kind, what, value in numbers:
            lines += [*_headed(name, kind, what), f"manyclass_{name} {value}"]
        name = "prediction_seconds"
        lines += _headed(name, "histogram", "Seconds from the last byte of a request to its answer.")
        sums = list(itertools.accumulate(buckets))
        ends = (*(f"{end:g}" for end in BUCKETS), "+Inf")
        lines += [f'manyclass_{name}_bucket{{le="{end}"}} {n}' for end, n in zip(ends, sums, strict=True)]
        lines += [f"manyclass_{name}_sum {seconds:.9g}", f"manyclass_{name}_count {sums[-1]}"]
        resident = resident_bytes()
        if resident is not None:
            name = "process_resident_memory_bytes"  # the name that all exporters have
            lines += [f"# HELP {name} Resident memory size in bytes.", f"# TYPE {name} gauge", f"{name} {resident}"]
        return "\n".join(lines) + "\n"


def _headed(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP manyclass_{name} {what}", f"# TYPE manyclass_{name} {kind}"]


def resident_bytes() -> int | None:
    """Bytes of memory that the process has in use; None where the system does not tell them in a file."""
    try:
        with open(STATM, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
