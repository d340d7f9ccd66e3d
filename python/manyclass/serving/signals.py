"""Handlers of signals for as long as a block takes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def handling(handlers: Mapping[str, Callable[..., Any] | signal.Handlers]) -> Iterator[None]:
    """Handle signals, by their names, where the system has them; only the main thread can.

    Parameters
    ----------
    handlers : mapping of str to callable or `signal.Handlers`
        By the names of signals.
    """
    before = {}
    for name, handler in handlers.items():
        if hasattr(signal, name) and threading.current_thread() is threading.main_thread():
            before[name] = signal.signal(getattr(signal, name), handler)
    try:
        yield
    finally:
        for name, old_handler in before.items():
            signal.signal(getattr(signal, name), old_handler)
