"""What a request may ask for, and how long a client may take: defaults with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, fields

import joblib

from manyclass.checks import check_number


@dataclass(frozen=True)
class Limits:
    """Bounds on requests, connections and waiting.

    Together they bound the memory that clients can take: the bodies of all connections, and some ten to twenty times
    the size of a body, which is what JSON takes as Python objects, for each request that is computed.

    Attributes
    ----------
    max_bytes : int
        Bytes of a body. 8 MiB are a thousand rows of 768 numbers of ten characters.
    max_rows : int
        Rows of a request. A thousand cost some 10 ms each way as JSON beside which HTTP costs nothing, so that more
        rows at once gain nothing; with 100,000 classes they keep a core busy for about a second.
    max_k : int
        Labels of a row. 100 for a thousand rows are an answer of about 5 MB.
    max_connections : int
        Clients at once, each of which has a thread; one more is refused with 503. 64 threads take some MB.
    max_running : int
        Requests that are read as JSON and computed at once; others wait for their turn, for `timeout` seconds. More
        than there are cores take memory and gain nothing.
    timeout : float
        Seconds in which a client must have sent a request, must have taken its answer, and may wait for a next request
        on a connection that is kept. A client that stalls holds a thread for so long.
    grace : float
        Seconds in which requests that run are finished once the server is asked to stop. Kubernetes kills after 30.
    """

    max_bytes: int = 8 << 20
    max_rows: int = 1000
    max_k: int = 100
    max_connections: int = 64
    max_running: int = joblib.cpu_count()
    timeout: float = 10.0
    grace: float = 25.0

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a limit that is none."""
        for field in fields(self):
            number = field.name in ("timeout", "grace")
            low = 0 if number else 1
            check_number(field.name, getattr(self, field.name), low=low, open_low=number, integer=not number)
