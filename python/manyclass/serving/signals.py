"""Handlers of signals for as long as a block takes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


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
