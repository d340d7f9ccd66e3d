"""What the commands tell beside their results: notes on stderr, tables on stdout, what takes longer than a second."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

SILENCE = 1.0  # seconds after which a user is told what he waits for


def note(text: str) -> None:
    """Tell the user something on stderr, where it does not mix with results."""
    print(f"manyclass: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def waiting(what: str, *, shown: bool = True) -> Iterator[None]:
    """Tell on stderr what is being done, once it has taken a second.

    Parameters
    ----------
    what : str
        Such as "reading FILE".
    shown : bool, default=True
        Whether to tell at all.
    """
    timer = threading.Timer(SILENCE, note, [f"{what} ..."])
    timer.daemon = True
    if shown:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_table(rows: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")


def check_writable(path: str) -> None:
    """Raise unless a file can be written there."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; it must be a file")
    if not os.access(folder, os.W_OK):
        raise FileNotFoundError(f"{path} cannot be written: {folder} is not a folder that this user may write to")
